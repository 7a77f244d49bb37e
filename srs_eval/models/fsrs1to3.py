"""FSRS v1, v2 and v3: an exponential forgetting curve, R(t) = 0.9^(t/s).

v1: after a failure, S depends on the number of lapses alone. A state is (s, d, l): stability in
days, difficulty (0 or more, without an upper bound), lapses so far.
v2: difficulty from 1 to 10 that reverts to a mean; S after a failure depends on S and D.
v3: linear first stability and difficulty; S after a failure falls with retrievability. A state of
both is (s, d).

Formulas, defaults and training: srs-benchmark other.py `class FSRS1`, `FSRS2`, `FSRS3` (January
2025). Parameters are w[0], w[1] ... as there; w[-1] is not a parameter but the least stability.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from srs_eval.models._fsrs import LOG_09, S_MAX, make_early_version
from srs_eval.training.elementwise import State, Value, clamp, exp, power, where
from srs_eval.training.recurrent import RecurrentModel


def _forgetting_curve(t: Value, s: Value) -> Value:
    return exp(LOG_09 * (t / s))


def _recall(t: Value, state: State, w: Value) -> Value:
    return _forgetting_curve(t, state[0])


_early_model = partial(RecurrentModel, recall=_recall, constants=(0.01,), tie_order="quicksort")

# v1


def _ease_factor(rating: Value) -> Value:
    """Return 2^(rating - 3): a quarter for Again, 2 for Easy."""
    return where(rating == 1.0, 0.25, where(rating == 2.0, 0.5, where(rating == 3.0, 1.0, 2.0)))


def _count_lapse(rating: Value) -> Value:
    """Return 1 for Again, else 0."""
    return where(rating == 1.0, 1.0, 0.0)


def _first_v1(rating: Value, w: Value) -> State:
    return (
        clamp(w[0] * _ease_factor(rating), w[7], S_MAX),
        w[1] - rating + 3.0,
        _count_lapse(rating),
    )


def _next_d_v1(d: Value, r: Value, rating: Value) -> Value:
    raw = d + r - _ease_factor(rating) + 0.1
    return where(raw > 0.0, raw, 0.0)


def _success_v1(state: State, t: Value, rating: Value, w: Value) -> State:
    s, d, lapses = state
    r = _forgetting_curve(t, s)
    new_d = _next_d_v1(d, r, rating)
    new_s = s * (
        1.0 + exp(w[2]) * power(new_d + 0.1, w[3]) * power(s, w[4]) * (exp((1.0 - r) * w[5]) - 1.0)
    )
    return clamp(new_s, w[7], S_MAX), new_d, lapses


def _failure_v1(state: State, t: Value, rating: Value, w: Value) -> State:
    """Return the state after a failure; only the lapses before it count for S."""
    s, d, lapses = state
    new_d = _next_d_v1(d, _forgetting_curve(t, s), rating)
    return clamp(w[0] * exp(w[6] * lapses), w[7], S_MAX), new_d, lapses + _count_lapse(rating)


_V1 = _early_model(
    name="FSRSv1",
    states=3,
    default=(2.0, 5.0, 3.0, -0.7, -0.2, 1.0, -0.3),
    lower=(0.1, 1, 0.01, -1, -1, 0.01, -1),
    upper=(10, 10, 10, -0.01, -0.01, 10, -0.01),
    first=_first_v1,
    success=_success_v1,
    failure=_failure_v1,
)


# v2 and v3


def _make_step(
    next_d: Callable[[Value, Value, Value], Value],
    stability: Callable[[Value, Value, Value, Value], Value],
) -> Callable[[State, Value, Value, Value], State]:
    """Return a step that computes the new D first, because the new S depends on it."""

    def step(state: State, t: Value, rating: Value, w: Value) -> State:
        s, d = state
        new_d = next_d(d, rating, w)
        new_s = stability(s, new_d, _forgetting_curve(t, s), w)
        return clamp(new_s, w[-1], S_MAX), new_d

    return step


def _first_v2(rating: Value, w: Value) -> State:
    s = w[0] * (w[1] * (rating - 1.0) + 1.0)
    return clamp(s, w[14], S_MAX), clamp(w[2] * (w[3] * (rating - 4.0) + 1.0), 1.0, 10.0)


def _next_d_v2(d: Value, rating: Value, w: Value) -> Value:
    """Return the next difficulty, which reverts to the difficulty of a first Good."""
    new_d = w[5] * (w[2] * (1.0 - w[3])) + (1.0 - w[5]) * (d + w[4] * (rating - 3.0))
    return clamp(new_d, 1.0, 10.0)


def _after_success_v2(s: Value, new_d: Value, r: Value, w: Value) -> Value:
    return s * (
        1.0 + exp(w[6]) * power(new_d, w[7]) * power(s, w[8]) * (exp((1.0 - r) * w[9]) - 1.0)
    )


def _after_failure_v2(s: Value, new_d: Value, r: Value, w: Value) -> Value:
    return w[10] * power(new_d, w[11]) * power(s, w[12]) * (exp((1.0 - r) * w[13]) - 1.0)


_V2 = _early_model(
    name="FSRSv2",
    states=2,
    default=(1.0, 1.0, 1.0, -1.0, -1.0, 0.2, 3.0, -0.8, -0.2, 1.3, 2.6, -0.2, 0.6, 1.5),
    lower=(0.1, 0.01, 1, -10, -10, 0, 0, -2, -2, 0.01, 0, -2, 0.01, 0.01),
    upper=(10, 10, 10, -0.01, -0.01, 1, 5, -0.01, -0.01, 2, 5, -0.01, 1, 2),
    first=_first_v2,
    success=_make_step(_next_d_v2, _after_success_v2),
    failure=_make_step(_next_d_v2, _after_failure_v2),
)


def _first_v3(rating: Value, w: Value) -> State:
    s, d = w[0] + w[1] * (rating - 1.0), w[2] + w[3] * (rating - 3.0)
    return clamp(s, w[13], S_MAX), clamp(d, 1.0, 10.0)


def _next_d_v3(d: Value, rating: Value, w: Value) -> Value:
    """Return the next difficulty, which reverts to the difficulty of a first Good."""
    return clamp(w[5] * w[2] + (1.0 - w[5]) * (d + w[4] * (rating - 3.0)), 1.0, 10.0)


def _after_success_v3(s: Value, new_d: Value, r: Value, w: Value) -> Value:
    return s * (1.0 + exp(w[6]) * (11.0 - new_d) * power(s, w[7]) * (exp((1.0 - r) * w[8]) - 1.0))


def _after_failure_v3(s: Value, new_d: Value, r: Value, w: Value) -> Value:
    return w[9] * power(new_d, w[10]) * power(s, w[11]) * exp((1.0 - r) * w[12])


_DEFAULT_V3 = (
    0.9605, 1.7234,  # first stability
    4.8527, -1.1917, -1.2956, 0.0573,  # difficulty
    1.7352, -0.1673, 1.065,  # success
    1.8907, -0.3832, 0.5867, 1.0721,  # failure
)  # fmt: skip
_V3 = _early_model(
    name="FSRSv3",
    states=2,
    default=_DEFAULT_V3,
    lower=(0.1, 0.1, 1, -5, -5, 0.05, 0, -0.8, 0.01, 0.5, -2, 0.01, 0.01),
    upper=(10, 5, 10, -0.1, -0.1, 0.5, 2, -0.15, 1.5, 5, -0.01, 0.9, 2),
    first=_first_v3,
    success=_make_step(_next_d_v3, _after_success_v3),
    failure=_make_step(_next_d_v3, _after_failure_v3),
)

MODELS = (
    make_early_version(
        "FSRSv1",
        _V1,
        source="srs-benchmark other.py, class FSRS1 (2022)",
        seconds_per_10k=0.0075,
        note="After a failure, the new stability depends only on the number of lapses.",
    ),
    make_early_version(
        "FSRSv2",
        _V2,
        source="srs-benchmark other.py, class FSRS2 (2022)",
        seconds_per_10k=0.009,
    ),
    make_early_version(
        "FSRSv3",
        _V3,
        source="srs-benchmark other.py, class FSRS3 (2022)",
        seconds_per_10k=0.009,
    ),
)
