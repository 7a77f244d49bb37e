"""FSRS v1: an exponential forgetting curve; failures restart S by the number of lapses.

Formulas, defaults and training: srs-benchmark other.py `class FSRS1` (January 2025). A
state is (s, d, l): stability in days, difficulty (0 or more, no upper bound), lapses so
far. Parameters are w[0] ... w[6] as there; w[7] is no parameter but the least stability.
"""

from __future__ import annotations

from srs_eval.models._fsrs import LOG_09, S_MAX, early_version
from srs_eval.training.elementwise import State, Value, clamp, exp, power, where
from srs_eval.training.recurrent import RecurrentModel


def forgetting_curve(t: Value, s: Value) -> Value:
    """R(t) = 0.9^(t/s)."""
    return exp(LOG_09 * (t / s))


def _recall(t: Value, state: State, w: Value) -> Value:
    return forgetting_curve(t, state[0])


def _ease(rating: Value) -> Value:
    """2^(rating - 3): a quarter for Again, 2 for Easy."""
    return where(rating == 1.0, 0.25, where(rating == 2.0, 0.5, where(rating == 3.0, 1.0, 2.0)))


def _lapse(rating: Value) -> Value:
    return where(rating == 1.0, 1.0, 0.0)


def _first(rating: Value, w: Value) -> State:
    return clamp(w[0] * _ease(rating), w[7], S_MAX), w[1] - rating + 3.0, _lapse(rating)


def _next_d(d: Value, r: Value, rating: Value) -> Value:
    raw = d + r - _ease(rating) + 0.1
    return where(raw > 0.0, raw, 0.0)


def _stability_after_success(s: Value, new_d: Value, r: Value, w: Value) -> Value:
    return s * (
        1.0 + exp(w[2]) * power(new_d + 0.1, w[3]) * power(s, w[4]) * (exp((1.0 - r) * w[5]) - 1.0)
    )


def _success(state: State, t: Value, rating: Value, w: Value) -> State:
    s, d, lapses = state
    r = forgetting_curve(t, s)
    new_d = _next_d(d, r, rating)
    new_s = _stability_after_success(s, new_d, r, w)
    return clamp(new_s, w[7], S_MAX), new_d, lapses


def _stability_after_failure(lapses: Value, w: Value) -> Value:
    return w[0] * exp(w[6] * lapses)


def _failure(state: State, t: Value, rating: Value, w: Value) -> State:
    """The lapses that count for S are those before this one."""
    s, d, lapses = state
    new_d = _next_d(d, forgetting_curve(t, s), rating)
    new_s = _stability_after_failure(lapses, w)
    return clamp(new_s, w[7], S_MAX), new_d, lapses + _lapse(rating)


_DEFAULT = (2.0, 5.0, 3.0, -0.7, -0.2, 1.0, -0.3)
_RECURRENT = RecurrentModel(
    name="FSRSv1",
    states=3,
    default=_DEFAULT,
    lower=(0.1, 1, 0.01, -1, -1, 0.01, -1),
    upper=(10, 10, 10, -0.01, -0.01, 10, -0.01),
    first=_first,
    success=_success,
    failure=_failure,
    recall=_recall,
    constants=(0.01,),
    tie_order="quicksort",
)


MODELS = (
    early_version(
        "1",
        _RECURRENT,
        name="FSRSv1",
        seconds_per_10k=0.0075,
        note="In v1 a failure sets S from the number of lapses alone.",
    ),
)
