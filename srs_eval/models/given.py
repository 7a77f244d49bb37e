"""External predictions: models whose predictions were computed elsewhere.

RWKV-Anki and FSRS-Anki are the predictions that the learner's own Anki (JSchoreels' fork or Clanki)
wrote down before each answer. Predictions from a file have the names that the file gives them.
Nothing is fitted: the engine takes the log's `external_predictions`, which may miss some reviews.

Source: `srs_eval.data.readers.predictions`.
"""

from __future__ import annotations

from functools import partial

from srs_eval.models import UNTRAINED_FLAGS, Cost, ExternalModel

FILE_PREDICTIONS = "Predictions"  # the model of --predictions FILE
_external_model = partial(
    ExternalModel,
    source="data/readers/predictions.py (2026)",
    flags=UNTRAINED_FLAGS,
    cost=Cost(seconds_per_10k=0.02),
    extra=True,
)
_CACHE_NOTE = "as your Anki computed it; from collection.retrievability-cache.sqlite beside it"

MODELS = (
    _external_model(
        name="RWKV-Anki",
        family="online",
        inputs="FIL, G, SR, AT",
        note=f"RWKV, {_CACHE_NOTE}. Knows all earlier answers, which a scheduler cannot.",
    ),
    _external_model(name="FSRS-Anki", inputs="FIL, G, SR", note=f"FSRS, {_CACHE_NOTE}."),
    _external_model(name=FILE_PREDICTIONS, note="Your own predictions, from --predictions FILE."),
)
