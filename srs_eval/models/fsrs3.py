"""FSRS v3: linear first stability and difficulty; S after a failure falls with retrievability.

Formulas, defaults and training: srs-benchmark other.py `class FSRS3` (January 2025). A
state is (s, d): stability in days, difficulty 1-10. Parameters are w[0] ... w[12] as
there; w[13] is no parameter but the least stability.
"""

from __future__ import annotations

from srs_eval.models._fsrs import S_MAX, early_version
from srs_eval.models.fsrs1 import forgetting_curve
from srs_eval.models.fsrs2 import recall
from srs_eval.training.elementwise import State, Value, clamp, exp, power
from srs_eval.training.recurrent import RecurrentModel


def _init_s(rating: Value, w: Value) -> Value:
    return w[0] + w[1] * (rating - 1.0)


def _init_d(rating: Value, w: Value) -> Value:
    return w[2] + w[3] * (rating - 3.0)


def _first(rating: Value, w: Value) -> State:
    return clamp(_init_s(rating, w), w[13], S_MAX), clamp(_init_d(rating, w), 1.0, 10.0)


def _next_d(d: Value, rating: Value, w: Value) -> Value:
    """Reversion to the difficulty of a first Good."""
    return clamp(w[5] * w[2] + (1.0 - w[5]) * (d + w[4] * (rating - 3.0)), 1.0, 10.0)


def _stability_after_success(s: Value, new_d: Value, r: Value, w: Value) -> Value:
    return s * (1.0 + exp(w[6]) * (11.0 - new_d) * power(s, w[7]) * (exp((1.0 - r) * w[8]) - 1.0))


def _success(state: State, t: Value, rating: Value, w: Value) -> State:
    s, d = state
    new_d = _next_d(d, rating, w)
    new_s = _stability_after_success(s, new_d, forgetting_curve(t, s), w)
    return clamp(new_s, w[13], S_MAX), new_d


def _stability_after_failure(s: Value, new_d: Value, r: Value, w: Value) -> Value:
    return w[9] * power(new_d, w[10]) * power(s, w[11]) * exp((1.0 - r) * w[12])


def _failure(state: State, t: Value, rating: Value, w: Value) -> State:
    s, d = state
    new_d = _next_d(d, rating, w)
    new_s = _stability_after_failure(s, new_d, forgetting_curve(t, s), w)
    return clamp(new_s, w[13], S_MAX), new_d


# fmt: off
_DEFAULT = (
    0.9605, 1.7234,  # first stability
    4.8527, -1.1917, -1.2956, 0.0573,  # difficulty
    1.7352, -0.1673, 1.065,  # success
    1.8907, -0.3832, 0.5867, 1.0721,  # failure
)
# fmt: on
_RECURRENT = RecurrentModel(
    name="FSRSv3",
    states=2,
    default=_DEFAULT,
    lower=(0.1, 0.1, 1, -5, -5, 0.05, 0, -0.8, 0.01, 0.5, -2, 0.01, 0.01),
    upper=(10, 5, 10, -0.1, -0.1, 0.5, 2, -0.15, 1.5, 5, -0.01, 0.9, 2),
    first=_first,
    success=_success,
    failure=_failure,
    recall=recall,
    constants=(0.01,),
    tie_order="quicksort",
)


MODELS = (early_version("3", _RECURRENT, name="FSRSv3", seconds_per_10k=0.009),)
