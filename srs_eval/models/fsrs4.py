"""FSRS v4: a power forgetting curve; initial stabilities fitted apart; Hard and Easy modify growth.

Formulas, defaults and training: srs-benchmark other.py `class FSRS4` (January 2025). A
state is (s, d): stability in days, difficulty 1-10. Parameters are w[0] ... w[16] as
there; w[17] is no parameter but the least stability. Initial stabilities are fitted
first and then held; the rest is trained on reviews after each card's second, while the
best epoch is chosen on all reviews.
"""

from __future__ import annotations

from srs_eval.data.reviews import IntArray
from srs_eval.data.trials import Trials
from srs_eval.models._fsrs import (
    S_MAX,
    early_version,
    init_s,
    s0_fit,
    stability_after_failure,
    stability_after_success,
)
from srs_eval.training.elementwise import State, Value, clamp
from srs_eval.training.recurrent import RecurrentModel


def _forgetting_curve(t: Value, s: Value) -> Value:
    """R(t) = 1 / (1 + t/(9 s))."""
    return 1.0 / (1.0 + t / (9.0 * s))


def _recall(t: Value, state: State, w: Value) -> Value:
    return _forgetting_curve(t, state[0])


def _init_d(rating: Value, w: Value) -> Value:
    return w[4] - w[5] * (rating - 3.0)


def first(rating: Value, w: Value) -> State:
    return clamp(init_s(rating, w), w[17], S_MAX), clamp(_init_d(rating, w), 1.0, 10.0)


def next_d(d: Value, rating: Value, w: Value) -> Value:
    """Reversion to the difficulty of a first Good."""
    return clamp(w[7] * w[4] + (1.0 - w[7]) * (d - w[6] * (rating - 3.0)), 1.0, 10.0)


def _success(state: State, t: Value, rating: Value, w: Value) -> State:
    s, d = state
    new_s = stability_after_success(s, d, _forgetting_curve(t, s), rating, w)
    return clamp(new_s, w[17], S_MAX), next_d(d, rating, w)


def _failure(state: State, t: Value, rating: Value, w: Value) -> State:
    s, d = state
    new_s = stability_after_failure(s, d, _forgetting_curve(t, s), w)
    return clamp(new_s, w[17], S_MAX), next_d(d, rating, w)


def after_second_review(trials: Trials, rows: IntArray) -> IntArray:
    """What v4 and v4.5 train on: the initial stabilities have had the second reviews."""
    return rows[trials.i[rows] > 2]


# fmt: off
_DEFAULT = (
    0.4, 0.9, 2.3, 10.9,  # S0 by first rating
    4.93, 0.94, 0.86, 0.01,  # difficulty
    1.49, 0.14, 0.94,  # success
    2.18, 0.05, 0.34, 1.26,  # failure
    0.29, 2.61,  # Hard, Easy
)
NO_BOUND = 4 * (float("inf"),)
RECURRENT = RecurrentModel(
    name="FSRSv4",
    states=2,
    default=_DEFAULT,
    lower=(
        *(-bound for bound in NO_BOUND),
        1, 0.1, 0.1, 0, 0, 0.1, 0.01, 0.5, 0.01, 0.01, 0.01, 0, 1,
    ),
    upper=(*NO_BOUND, 10, 5, 5, 0.5, 3, 0.8, 2.5, 5, 0.2, 0.9, 2, 1, 4),
    first=first,
    success=_success,
    failure=_failure,
    recall=_recall,
    constants=(0.01,),
    frozen=(0, 1, 2, 3),
    tie_order="quicksort",
    trained_on=after_second_review,
)
# fmt: on
fit_s0 = s0_fit(_DEFAULT, decay=1.0)


MODELS = (early_version("4", RECURRENT, fit_s0, name="FSRSv4", seconds_per_10k=0.0085),)
