"""Schedulers as models of memory: SM-2 of SuperMemo 2 (1987), and Memrise's fixed intervals.

They schedule, but predict nothing. As in srs-benchmark, an interval is assumed
to aim at a retention of 90 % (`Context.sm2_target`) along an exponential curve:

    R(t) = 0.9^(t / interval)

SM-2, with grade q = rating + 1 and EF = 2.5, n = 0 at first, gives after each answer the interval

    success (q > 2): n <- n + 1;  I = 1 if n = 1, 6 if n = 2, else I * EF
    failure:         n <- 0;      I = 1
    EF <- max(1.3, EF + (0.1 - (5 - q) (0.08 + (5 - q) 0.02)))
    I <- round(I + 0.01), between 1 and 36,500 days

Memrise has 1, 6, 12, 48, 96, 180 days, one after another; a failure begins again with 1.

SM2-trainable: SM-2 with its constants trained. Formulas, defaults and training: srs-benchmark
other.py `class SM2` (January 2025). A state is (interval, ef, reps): days, ease factor, successes
in a row. Parameters are w[0] ... w[5] as there. w[6] is not a parameter but the least interval,
w[7] the logarithm of the retention that the interval aims at. Unlike SM-2 it does not round
intervals, and a failure sets reps to 1, not 0, so that the next success gives w[1] days.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import UNTRAINED_FLAGS, Context, Cost, TrainedModel
from srs_eval.training.elementwise import State, Value, clamp, exp, where
from srs_eval.training.recurrent import RecurrentModel, Trainable
from srs_eval.training.trie import card_steps, state_before

MAXIMUM_INTERVAL = 36_500.0  # days

_EASE_CHANGE = np.array(
    [0.0, *(0.1 - (5 - q) * (0.08 + (5 - q) * 0.02) for q in range(2, 6))]
)  # by rating


def log_target(target: float) -> float:
    """Return the logarithm of the retention that intervals aim at.

    Raises InputError for a target outside 0 ... 1.
    """
    if not 0 < target < 1:
        raise InputError(f"The SM-2 target is {target:g}; give a retention between 0 and 1.")
    return math.log(target)


def recall_from_interval(delta_t: FloatArray, interval: FloatArray, target: float) -> FloatArray:
    """Return R after `delta_t` days if a scheduler reaches `target` after `interval` days.

    Shapes (n,). Raises InputError for a target outside 0 ... 1.
    """
    # No figure distinguishes e^-700 from less, and less would underflow.
    recall: FloatArray = np.exp(np.maximum(log_target(target) * delta_t / interval, -700.0))
    return recall


def _compute_sm2_intervals(trials: Trials) -> FloatArray:
    """Return the interval in days that SM-2 gives after each history row (m,).

    As in srs-benchmark (other.py `sm2`), intervals are rounded half to even after adding 0.01, and
    EF changes after a failure, too.
    """
    steps = card_steps(trials)
    intervals = np.ones(len(trials.history_rating))
    n = np.zeros(len(steps[0]), np.int64)
    interval = np.zeros(len(steps[0]))
    ease = np.full(len(steps[0]), 2.5)
    for rows in steps:
        cards = len(rows)  # the cards with so many reviews are the first ones
        rating = trials.history_rating[rows]
        n = np.where(rating > 1, n[:cards] + 1, 0)
        interval = np.where(n == 2, 6.0, np.where(n > 2, interval[:cards] * ease[:cards], 1.0))
        ease = np.maximum(1.3, ease[:cards] + _EASE_CHANGE[rating])
        interval = np.clip(np.rint(interval + 0.01), 1.0, MAXIMUM_INTERVAL)
        intervals[rows] = interval
    return intervals


_LADDER = np.array([1.0, 6.0, 12.0, 48.0, 96.0, 180.0])  # days


def _compute_memrise_intervals(trials: Trials) -> FloatArray:
    """Return the interval in days that Memrise gives after each history row (m,).

    A card's first review puts it on the first rung, whatever the answer; then a success takes it to
    the next rung (it stays on the last one) and a failure back to the first.
    """
    steps = card_steps(trials)
    intervals = np.ones(len(trials.history_rating))
    rung = np.full(len(steps[0]), -1)
    for rows in steps:
        success = trials.history_rating[rows] > 1
        rung = np.where(success, np.minimum(rung[: len(rows)] + 1, len(_LADDER) - 1), 0)
        intervals[rows] = _LADDER[rung]
    return intervals


def _predict(
    intervals: Callable[[Trials], FloatArray],
    trials: Trials,
    parameters: Any,
    index: IntArray,
    context: Context,
) -> FloatArray:
    """Return R(t) = target^(t / interval) for the trials `index` (shape of `index`)."""
    interval = state_before(trials, trials.derived(intervals), index)
    return recall_from_interval(trials.delta_t[index], interval, context.sm2_target)


# SM2-trainable


def _recall(t: Value, state: State, w: Value) -> Value:
    return exp(w[7] * t / state[0])


def _next_ef(ef: Value, rating: Value, w: Value) -> Value:
    """Return ef - w3 (q - w4)^2 + w5 with SM-2's grade q = rating + 1."""
    q = rating + 1.0
    return clamp(ef - w[3] * (q - w[4]) * (q - w[4]) + w[5], 1.3, 10.0)


def _first(rating: Value, w: Value) -> State:
    return clamp(w[0], w[6], MAXIMUM_INTERVAL), _next_ef(w[2], rating, w), 1.0


def _success(state: State, t: Value, rating: Value, w: Value) -> State:
    interval, ef, reps = state
    grown = clamp(where(reps == 1.0, w[1], interval * ef), w[6], MAXIMUM_INTERVAL)
    return grown, _next_ef(ef, rating, w), reps + 1.0


def _failure(state: State, t: Value, rating: Value, w: Value) -> State:
    return clamp(w[0], w[6], MAXIMUM_INTERVAL), _next_ef(state[1], rating, w), 1.0


DEFAULT = (1.0, 6.0, 2.5, 0.02, 7.0, 0.18)


def make_recurrent(minimum_interval: float, target: float = 0.9) -> RecurrentModel:
    """Return SM2-trainable for a minimum interval in days and a target retention."""
    return RecurrentModel(
        name="SM2_trainable",
        states=3,
        default=DEFAULT,
        lower=(minimum_interval, minimum_interval, 1.3, 0, 5, -math.inf),
        upper=(MAXIMUM_INTERVAL, MAXIMUM_INTERVAL, 10, math.inf, math.inf, math.inf),
        first=_first,
        success=_success,
        failure=_failure,
        recall=_recall,
        constants=(minimum_interval, log_target(target)),
        tie_order="quicksort",
    )


def _minimum_interval(trials: Trials) -> float:
    """Return the minimum interval in days; smaller where intervals are fractions of a day."""
    return 1e-6 if trials.protocol.secs else 0.01


_TRAINABLE = Trainable(
    lambda trials, context: make_recurrent(_minimum_interval(trials), context.sm2_target)
)

MODELS = (
    TrainedModel(
        name="SM2",
        family="sm2",
        inputs="IL, G",
        parameters=0,
        source="P. A. Wozniak, SuperMemo 2 (1987); open-spaced-repetition/srs-benchmark "
        "other.py `sm2`, `process_untrainable`",
        note="SM-2 predicts nothing: recall is derived from its interval, as if it aimed at 90 %. "
        "On data sets, reviews of missing cards or decks are left out, as in "
        "srs-benchmark.",
        cost=Cost(seconds_per_10k=0.004),
        configurations=(
            "SM2",
            "SM2-short",
        ),
        known_decks_only=True,
        predict=partial(_predict, _compute_sm2_intervals),
        flags=UNTRAINED_FLAGS,
    ),
    TrainedModel(
        name="Memrise",
        family="sm2",
        inputs="IL, G",
        parameters=0,
        source="SSP-MMC-FSRS (2025) src/ssp_mmc_fsrs/policies.py `memrise_policy`",
        note="Memrise predicts nothing: recall is derived from its interval, as if it aimed at "
        "90 %.",
        cost=Cost(seconds_per_10k=0.004),
        predict=partial(_predict, _compute_memrise_intervals),
        flags=UNTRAINED_FLAGS,
    ),
    TrainedModel(
        name="SM2-trainable",
        family="sm2",
        inputs="IL, G",
        parameters=6,
        source="P. A. Wozniak, SuperMemo 2 (1987); open-spaced-repetition/srs-benchmark "
        "other.py, class SM2",
        note="SM-2 predicts nothing: recall is derived from its interval, as if it aimed at 90 %.",
        cost=Cost(seconds_per_10k=0.008, seconds_to_compile=1.8),
        predict=_TRAINABLE.predict,
        fit=_TRAINABLE.fit,
        default=lambda context: list(DEFAULT),
        hyperparameters=make_recurrent(0.01).hyperparameters,
    ),
)
