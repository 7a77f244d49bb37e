"""FSRS v3: linear first stability and difficulty; S after a failure falls with retrievability.

Formulas, defaults and training: srs-benchmark other.py `class FSRS3` (January 2025). A
state is (s, d): stability in days, difficulty 1-10. Parameters are w[0] ... w[12] as
there; w[13] is no parameter but the least stability.
"""

from __future__ import annotations

from typing import Any

from srs_eval.fitting.elementwise import clamp, clamp_bar, exp, log, power
from srs_eval.fitting.recurrent import RecurrentModel, Step, Trainable
from srs_eval.models import Model
from srs_eval.models._fsrs import S_MAX, with_least_stability
from srs_eval.models.fsrs1 import forgetting_curve, forgetting_curve_adjoint
from srs_eval.models.fsrs2 import recall, recall_adjoint

Value = Any  # float, array or vector
State = tuple[Value, Value]  # s, d


def init_s(rating: Value, w: Any) -> Value:
    return w[0] + w[1] * (rating - 1.0)


def init_d(rating: Value, w: Any) -> Value:
    return w[2] + w[3] * (rating - 3.0)


def first(rating: Value, w: Any) -> State:
    return clamp(init_s(rating, w), w[13], S_MAX), clamp(init_d(rating, w), 1.0, 10.0)


def first_adjoint(rating: Value, w: Any, bar: State, w_bar: Any) -> None:
    s_bar = clamp_bar(init_s(rating, w), w[13], S_MAX, bar[0])
    w_bar[0] += s_bar
    w_bar[1] += (rating - 1.0) * s_bar
    d_bar = clamp_bar(init_d(rating, w), 1.0, 10.0, bar[1])
    w_bar[2] += d_bar
    w_bar[3] += (rating - 3.0) * d_bar


def raw_next_d(d: Value, rating: Value, w: Any) -> Value:
    """Reversion to the difficulty of a first Good."""
    return w[5] * w[2] + (1.0 - w[5]) * (d + w[4] * (rating - 3.0))


def next_d(d: Value, rating: Value, w: Any) -> Value:
    return clamp(raw_next_d(d, rating, w), 1.0, 10.0)


def next_d_adjoint(d: Value, rating: Value, w: Any, bar: Value, w_bar: Any) -> Value:
    """Gradient with respect to d."""
    bar = clamp_bar(raw_next_d(d, rating, w), 1.0, 10.0, bar)
    w_bar[2] += w[5] * bar
    w_bar[5] += (w[2] - (d + w[4] * (rating - 3.0))) * bar
    d_bar = (1.0 - w[5]) * bar
    w_bar[4] += (rating - 3.0) * d_bar
    return d_bar


def stability_after_success(s: Value, new_d: Value, r: Value, w: Any) -> Value:
    return s * (1.0 + exp(w[6]) * (11.0 - new_d) * power(s, w[7]) * (exp((1.0 - r) * w[8]) - 1.0))


def success(state: State, t: Value, rating: Value, w: Any) -> State:
    s, d = state
    new_d = next_d(d, rating, w)
    new_s = stability_after_success(s, new_d, forgetting_curve(t, s), w)
    return clamp(new_s, w[13], S_MAX), new_d


def success_adjoint(state: State, t: Value, rating: Value, w: Any, bar: State, w_bar: Any) -> State:
    s, d = state
    r = forgetting_curve(t, s)
    new_d = next_d(d, rating, w)
    s_bar = clamp_bar(stability_after_success(s, new_d, r, w), w[13], S_MAX, bar[0])
    gain = exp((1.0 - r) * w[8])
    plain = exp(w[6]) * power(s, w[7])
    slope = plain * (11.0 - new_d)
    growth = slope * (gain - 1.0)  # new_s = s (1 + growth)
    growth_bar = s_bar * s
    w_bar[6] += growth * growth_bar
    w_bar[7] += log(s) * growth * growth_bar
    w_bar[8] += slope * gain * (1.0 - r) * growth_bar
    d_bar = bar[1] - plain * (gain - 1.0) * growth_bar
    r_bar = -w[8] * slope * gain * growth_bar
    s_bar = s_bar * (1.0 + growth + w[7] * growth) + forgetting_curve_adjoint(t, s, r_bar)
    return s_bar, next_d_adjoint(d, rating, w, d_bar, w_bar)


def stability_after_failure(s: Value, new_d: Value, r: Value, w: Any) -> Value:
    return w[9] * power(new_d, w[10]) * power(s, w[11]) * exp((1.0 - r) * w[12])


def failure(state: State, t: Value, rating: Value, w: Any) -> State:
    s, d = state
    new_d = next_d(d, rating, w)
    new_s = stability_after_failure(s, new_d, forgetting_curve(t, s), w)
    return clamp(new_s, w[13], S_MAX), new_d


def failure_adjoint(state: State, t: Value, rating: Value, w: Any, bar: State, w_bar: Any) -> State:
    s, d = state
    r = forgetting_curve(t, s)
    new_d = next_d(d, rating, w)
    new_s = stability_after_failure(s, new_d, r, w)
    change = new_s * clamp_bar(new_s, w[13], S_MAX, bar[0])  # gradient with respect to log(new_s)
    w_bar[9] += change / w[9]
    w_bar[10] += log(new_d) * change
    w_bar[11] += log(s) * change
    w_bar[12] += (1.0 - r) * change
    d_bar = bar[1] + w[10] / new_d * change
    s_bar = w[11] / s * change + forgetting_curve_adjoint(t, s, -w[12] * change)
    return s_bar, next_d_adjoint(d, rating, w, d_bar, w_bar)


# fmt: off
DEFAULT = (
    0.9605, 1.7234,  # first stability
    4.8527, -1.1917, -1.2956, 0.0573,  # difficulty
    1.7352, -0.1673, 1.065,  # success
    1.8907, -0.3832, 0.5867, 1.0721,  # failure
)
# fmt: on
RECURRENT = RecurrentModel(
    name="FSRSv3",
    states=2,
    default=DEFAULT,
    lower=(0.1, 0.1, 1, -5, -5, 0.05, 0, -0.8, 0.01, 0.5, -2, 0.01, 0.01),
    upper=(10, 5, 10, -0.1, -0.1, 0.5, 2, -0.15, 1.5, 5, -0.01, 0.9, 2),
    first=Step(first, first_adjoint),
    success=Step(success, success_adjoint),
    failure=Step(failure, failure_adjoint),
    recall=Step(recall, recall_adjoint),
    constants=(0.01,),
    tie_order="quicksort",
)
TRAINABLE = Trainable(with_least_stability(RECURRENT))


MODELS = (
    Model(
        name="FSRSv3",
        family="fsrs",
        inputs="IL, G",
        parameters=13,
        source="srs-benchmark other.py, class FSRS3",
        predict=TRAINABLE.predict,
        fit=TRAINABLE.fit,
        default=lambda context: list(DEFAULT),
        aliases={"FSRSv3-default": "FSRSv3-dry-run"},
        hyperparameters=RECURRENT.hyperparameters,
        seconds_per_10k=0.009,
    ),
)
