"""What others predicted, beside the models that are computed here.

RWKV-Anki and FSRS-Anki are what the learner's own Anki, JSchoreels' fork or Clanki, wrote down
before each answer. Predictions of a file have the names that the file gives them. Nothing is
fitted: the engine takes what a log was `given`, which may lack reviews.

Source: `srs_eval.data.readers.predictions`.
"""

from __future__ import annotations

from functools import partial

from srs_eval.models import UNTRAINED_FLAGS, Model, not_counted

OF_FILE = "Predictions"  # the model of --predictions FILE
_given = partial(
    Model,
    parameters=0,
    count_parameters=not_counted,
    given=True,
    source="data/readers/predictions.py (2026)",
    flags=UNTRAINED_FLAGS,
    compiles="never",
    extra=True,
    seconds_per_10k=0.02,
)
_BESIDE = "as your Anki computed it; from collection.retrievability-cache.sqlite beside it"

MODELS = (
    _given(
        name="RWKV-Anki",
        family="online",
        inputs="FIL, G, SR, AT",
        note=f"RWKV, {_BESIDE}. Knows every answer before; a scheduler cannot.",
    ),
    _given(name="FSRS-Anki", family="other", inputs="FIL, G, SR", note=f"FSRS, {_BESIDE}."),
    _given(name=OF_FILE, family="other", inputs="-", note="Your own, of --predictions FILE."),
)
