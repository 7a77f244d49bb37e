"""What others predicted, beside the models that are computed here.

RWKV-Anki and FSRS-Anki are what the learner's own Anki, JSchoreels' fork or Clanki, wrote down
before each answer. Predictions of a file have the names that the file gives them. Nothing is
fitted: the engine takes what a log was `given`, which may lack reviews.

Source: `srs_eval.data.readers.predictions`.
"""

from __future__ import annotations

from functools import partial

from srs_eval.models import UNTRAINED_FLAGS, Model, facts

OF_FILE = "Predictions"

_given = partial(
    Model,
    parameters=0,
    given=True,
    source="data/readers/predictions.py (2026)",
    flags=UNTRAINED_FLAGS,
    compiles="never",
    extra=True,
    seconds_per_10k=0.02,
)

MODELS = tuple(_given(**facts(name)) for name in ("RWKV-Anki", "FSRS-Anki", OF_FILE))
