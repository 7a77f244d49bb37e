"""Memrise's ladder of fixed intervals, read as a model of memory like SM-2."""

from __future__ import annotations

from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import UNTRAINED_FLAGS, Context, Model
from srs_eval.models.sm2 import recall_by_interval
from srs_eval.training.trie import before, card_steps

_LADDER = np.array([1.0, 6.0, 12.0, 48.0, 96.0, 180.0])  # days


def _memrise_intervals(trials: Trials) -> FloatArray:
    """The interval in days that Memrise gives after each history row (m,).

    A card's first review puts it on the first rung, whatever the answer; then a success
    takes it to the next rung (the last one stays) and a failure back to the first.
    """
    steps = card_steps(trials)
    after = np.ones(len(trials.history_rating))
    rung = np.full(len(steps[0]), -1)
    for rows in steps:
        success = trials.history_rating[rows] > 1
        rung = np.where(success, np.minimum(rung[: len(rows)] + 1, len(_LADDER) - 1), 0)
        after[rows] = _LADDER[rung]
    return after


def predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    """R(t) = target^(t / interval) for the trials `index` (shape of `index`)."""
    interval = before(trials, trials.derived(_memrise_intervals), index)
    return recall_by_interval(trials.delta_t[index], interval, context.sm2_target)


MODELS = (
    Model(
        name="Memrise",
        family="sm2",
        inputs="IL, G",
        parameters=0,
        source="open-spaced-repetition/SSP-MMC-FSRS src/ssp_mmc_fsrs/policies.py `memrise_policy`",
        predict=predict,
        flags=UNTRAINED_FLAGS,
        compiles="never",
        seconds_per_10k=0.004,
        note="Memrise predicts nothing: R is derived from its interval, as if it aimed at 90 %.",
    ),
)
