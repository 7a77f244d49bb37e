"""FSRS v2: difficulty from 1 to 10 that reverts to a mean; S after a failure depends on S and D.

Formulas, defaults and training: srs-benchmark other.py `class FSRS2` (January 2025). A
state is (s, d): stability in days, difficulty. Parameters are w[0] ... w[13] as there;
w[14] is no parameter but the least stability.
"""

from __future__ import annotations

from srs_eval.models._fsrs import S_MAX, early_version
from srs_eval.models.fsrs1 import forgetting_curve
from srs_eval.training.elementwise import State, Value, clamp, exp, power
from srs_eval.training.recurrent import RecurrentModel


def recall(t: Value, state: State, w: Value) -> Value:
    return forgetting_curve(t, state[0])


def _init_s(rating: Value, w: Value) -> Value:
    return w[0] * (w[1] * (rating - 1.0) + 1.0)


def _init_d(rating: Value, w: Value) -> Value:
    return w[2] * (w[3] * (rating - 4.0) + 1.0)


def _first(rating: Value, w: Value) -> State:
    return clamp(_init_s(rating, w), w[14], S_MAX), clamp(_init_d(rating, w), 1.0, 10.0)


def _next_d(d: Value, rating: Value, w: Value) -> Value:
    """Reversion to the difficulty of a first Good."""
    new_d = w[5] * (w[2] * (1.0 - w[3])) + (1.0 - w[5]) * (d + w[4] * (rating - 3.0))
    return clamp(new_d, 1.0, 10.0)


def _stability_after_success(s: Value, new_d: Value, r: Value, w: Value) -> Value:
    return s * (
        1.0 + exp(w[6]) * power(new_d, w[7]) * power(s, w[8]) * (exp((1.0 - r) * w[9]) - 1.0)
    )


def _success(state: State, t: Value, rating: Value, w: Value) -> State:
    s, d = state
    new_d = _next_d(d, rating, w)
    new_s = _stability_after_success(s, new_d, forgetting_curve(t, s), w)
    return clamp(new_s, w[14], S_MAX), new_d


def _stability_after_failure(s: Value, new_d: Value, r: Value, w: Value) -> Value:
    return w[10] * power(new_d, w[11]) * power(s, w[12]) * (exp((1.0 - r) * w[13]) - 1.0)


def _failure(state: State, t: Value, rating: Value, w: Value) -> State:
    s, d = state
    new_d = _next_d(d, rating, w)
    new_s = _stability_after_failure(s, new_d, forgetting_curve(t, s), w)
    return clamp(new_s, w[14], S_MAX), new_d


_DEFAULT = (1.0, 1.0, 1.0, -1.0, -1.0, 0.2, 3.0, -0.8, -0.2, 1.3, 2.6, -0.2, 0.6, 1.5)
_RECURRENT = RecurrentModel(
    name="FSRSv2",
    states=2,
    default=_DEFAULT,
    lower=(0.1, 0.01, 1, -10, -10, 0, 0, -2, -2, 0.01, 0, -2, 0.01, 0.01),
    upper=(10, 10, 10, -0.01, -0.01, 1, 5, -0.01, -0.01, 2, 5, -0.01, 1, 2),
    first=_first,
    success=_success,
    failure=_failure,
    recall=recall,
    constants=(0.01,),
    tie_order="quicksort",
)


MODELS = (early_version("2", _RECURRENT, name="FSRSv2", seconds_per_10k=0.009),)
