"""Anki's older scheduler (SM-2 as Anki changed it) as a model of memory.

The review-state formulas of Anki 24.11's scheduler as srs-benchmark has them
(other.py `class Anki`, January 2025), learning steps and fuzz left out. Like SM-2 it
predicts nothing; R is derived from its interval:

    R(t) = 0.9^(t / interval)

A state is (interval, ease), the interval in days. Parameters are w[0] ... w[6] as there:
graduating interval, easy interval, starting ease, easy bonus, hard interval, new interval,
interval multiplier. w[7] is not a parameter but the logarithm of the retention that
the interval aims at (`Context.sm2_target`).

Known quirk of the published figures, kept under the published name: the formulas of
Good and Easy are swapped, so that Good gets the easy bonus and Easy does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Cost, TrainedModel
from srs_eval.models.sm2 import MAXIMUM_INTERVAL, log_target, recall_from_interval
from srs_eval.training.elementwise import State, Value, clamp, exp, maximum, where
from srs_eval.training.recurrent import RecurrentModel, Trainable
from srs_eval.training.trie import card_steps, state_before

# Anki's default deck options.
DEFAULTS = (1.0, 4.0, 2.5, 1.3, 1.2, 0.0, 1.0)


def _recall(t: Value, state: State, w: Value) -> Value:
    return exp(w[7] * t / state[0])


def _soften(interval: Value) -> Value:
    """Reduce the gap between short intervals and one day to a hundredth; cap long intervals."""
    return clamp(maximum(1.0 + 0.01 * (interval - 1.0), interval), -math.inf, MAXIMUM_INTERVAL)


def _ease_change(rating: Value) -> Value:
    return where(rating == 1.0, -0.2, where(rating == 2.0, -0.15, where(rating == 4.0, 0.15, 0.0)))


def _next_ease(ease: Value, rating: Value) -> Value:
    return clamp(ease + _ease_change(rating), 1.3, 5.5)


def _first(rating: Value, w: Value) -> State:
    interval = where(rating < 4.0, w[0], w[1])
    ease = w[2] + 0.0 * rating  # one for each rating, if `rating` is an array
    return _soften(interval), clamp(ease, 1.3, 5.5)


def _interval_if_early(state: State, t: Value, rating: Value, w: Value) -> Value:
    """Return the interval after a pass before the due date, without the multiplier.

    Hard    max(t * w4, interval * w4 / 2)
    Good    max(t * ease, interval) * (w3 - (w3 - 1) / 2)
    Easy    max(t * ease, interval)
    """
    interval, ease = state
    hard = maximum(t * w[4], 0.5 * (interval * w[4]))
    grown = maximum(t * ease, interval)
    good = grown * (w[3] - 0.5 * (w[3] - 1.0))
    return where(rating == 2.0, hard, where(rating == 4.0, grown, good))


def _interval_if_due(state: State, t: Value, rating: Value, w: Value) -> Value:
    """Return the interval after a pass on the due date or later, without the multiplier.

    Hard    interval * w4
    Good    t * ease * w3
    Easy    (interval + (t - interval) / 2) * ease
    """
    interval, ease = state
    easy = (interval + 0.5 * (t - interval)) * ease
    return where(rating == 2.0, interval * w[4], where(rating == 4.0, easy, t * ease * w[3]))


def _success(state: State, t: Value, rating: Value, w: Value) -> State:
    interval, ease = state
    grown = where(
        t < interval, _interval_if_early(state, t, rating, w), _interval_if_due(state, t, rating, w)
    )
    return _soften(grown * w[6]), _next_ease(ease, rating)


def _failure(state: State, t: Value, rating: Value, w: Value) -> State:
    interval, ease = state
    return _soften(interval * w[5]), _next_ease(ease, rating)


RECURRENT = RecurrentModel(
    name="Anki_SM_2",
    states=2,
    default=DEFAULTS,
    lower=(1, 1, 1.31, 1, 0.5, 0, 0.5),
    upper=(9999, 9999, 5, 5, 1.3, 1, 2),
    first=_first,
    success=_success,
    failure=_failure,
    recall=_recall,
    constants=(log_target(0.9),),
    tie_order="quicksort",
)
_TRAINABLE = Trainable(
    lambda trials, context: replace(RECURRENT, constants=(log_target(context.sm2_target),))
)


def _compute_intervals(trials: Trials, w: Sequence[float]) -> FloatArray:
    """Return the interval in days that the scheduler gives after each history row (m,)."""
    ratings = trials.history_rating.astype(np.float64)
    steps = card_steps(trials)
    intervals = np.ones(len(ratings))
    interval, ease = _first(ratings[steps[0]], w)
    intervals[steps[0]] = interval
    for rows in steps[1:]:
        previous = (interval[: len(rows)], ease[: len(rows)])
        t = trials.history_delta_t[rows]
        rating = ratings[rows]
        interval_if_passed, ease_if_passed = _success(previous, t, rating, w)
        interval_if_failed, ease_if_failed = _failure(previous, t, rating, w)
        is_pass = rating > 1.0
        interval = where(is_pass, interval_if_passed, interval_if_failed)
        ease = where(is_pass, ease_if_passed, ease_if_failed)
        intervals[rows] = interval
    return intervals


def _compute_default_intervals(trials: Trials) -> FloatArray:
    """Return the intervals (m,) with Anki's default deck options."""
    return _compute_intervals(trials, DEFAULTS)


def _predict(
    trials: Trials, parameters: Sequence[float], index: IntArray, context: Context
) -> FloatArray:
    """Return R(t) = target^(t / interval) for the trials `index` (shape of `index`)."""
    if tuple(parameters) != DEFAULTS:
        return _TRAINABLE.predict(trials, parameters, index, context)
    # The untrained model can predict before anything is compiled.
    intervals = trials.derived(_compute_default_intervals)
    interval = state_before(trials, intervals, index)
    return recall_from_interval(trials.delta_t[index], interval, context.sm2_target)


def _default(context: Context) -> list[float]:
    """Return Anki's default deck options."""
    return list(DEFAULTS)


MODELS = (
    TrainedModel(
        name="Anki",
        family="sm2",
        inputs="IL, G",
        parameters=7,
        source=(
            "ankitects/anki 24.11 (2024) rslib/src/scheduler/states/review.rs; "
            "open-spaced-repetition/srs-benchmark other.py, class Anki"
        ),
        predict=_predict,
        fit=_TRAINABLE.fit,
        default=_default,
        aliases={"Anki-SM-2": "Anki-dry-run", "Anki-SM-2-trainable": "Anki"},
        configurations=("Anki", "Anki-dry-run"),
        cost=Cost(seconds_per_10k=0.007, seconds_to_compile=1.8, compiles_only_to_train=True),
        hyperparameters=RECURRENT.hyperparameters,
        note=(
            "Anki's scheduler predicts nothing: recall is derived from its interval, as if it "
            "aimed at 90 %. Good and Easy are swapped, as in the published version."
        ),
    ),
)
