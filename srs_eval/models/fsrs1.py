"""FSRS v1: an exponential forgetting curve; failures restart S by the number of lapses.

Formulas, defaults and training: srs-benchmark other.py `class FSRS1` (January 2025). A
state is (s, d, l): stability in days, difficulty (0 or more, no upper bound), lapses so
far. Parameters are w[0] ... w[6] as there; w[7] is no parameter but the least stability.
"""

from __future__ import annotations

from typing import Any

from srs_eval.fitting.elementwise import clamp, clamp_bar, exp, log, power, where
from srs_eval.fitting.recurrent import RecurrentModel, Step, Trainable
from srs_eval.models import Model
from srs_eval.models._fsrs import LOG_09, S_MAX, with_least_stability

Value = Any  # float, array or vector
State = tuple[Value, Value, Value]  # s, d, l


def forgetting_curve(t: Value, s: Value) -> Value:
    """R(t) = 0.9^(t/s)."""
    return exp(LOG_09 * (t / s))


def forgetting_curve_adjoint(t: Value, s: Value, r_bar: Value) -> Value:
    """Gradient with respect to s."""
    return -exp(LOG_09 * (t / s)) * LOG_09 * t / (s * s) * r_bar


def recall(t: Value, state: State, w: Any) -> Value:
    return forgetting_curve(t, state[0])


def recall_adjoint(t: Value, state: State, w: Any, r_bar: Value, w_bar: Any) -> State:
    return forgetting_curve_adjoint(t, state[0], r_bar), 0.0, 0.0


def ease(rating: Value) -> Value:
    """2^(rating - 3): a quarter for Again, 2 for Easy."""
    return where(rating == 1.0, 0.25, where(rating == 2.0, 0.5, where(rating == 3.0, 1.0, 2.0)))


def lapse(rating: Value) -> Value:
    return where(rating == 1.0, 1.0, 0.0)


def first(rating: Value, w: Any) -> State:
    return (
        clamp(w[0] * ease(rating), w[7], S_MAX),
        w[1] - rating + 3.0,
        lapse(rating),
    )


def first_adjoint(rating: Value, w: Any, bar: State, w_bar: Any) -> None:
    w_bar[0] += ease(rating) * clamp_bar(w[0] * ease(rating), w[7], S_MAX, bar[0])
    w_bar[1] += bar[1]


def raw_next_d(d: Value, r: Value, rating: Value) -> Value:
    return d + r - ease(rating) + 0.1


def next_d(d: Value, r: Value, rating: Value) -> Value:
    raw = raw_next_d(d, r, rating)
    return where(raw > 0.0, raw, 0.0)


def next_d_adjoint(d: Value, r: Value, rating: Value, bar: Value) -> Value:
    """Gradient with respect to d, which is that with respect to r."""
    return where(raw_next_d(d, r, rating) > 0.0, bar, 0.0)


def stability_after_success(s: Value, new_d: Value, r: Value, w: Any) -> Value:
    return s * (
        1.0 + exp(w[2]) * power(new_d + 0.1, w[3]) * power(s, w[4]) * (exp((1.0 - r) * w[5]) - 1.0)
    )


def success(state: State, t: Value, rating: Value, w: Any) -> State:
    s, d, lapses = state
    r = forgetting_curve(t, s)
    new_d = next_d(d, r, rating)
    new_s = stability_after_success(s, new_d, r, w)
    return clamp(new_s, w[7], S_MAX), new_d, lapses


def success_adjoint(state: State, t: Value, rating: Value, w: Any, bar: State, w_bar: Any) -> State:
    s, d, _ = state
    r = forgetting_curve(t, s)
    new_d = next_d(d, r, rating)
    s_bar = clamp_bar(stability_after_success(s, new_d, r, w), w[7], S_MAX, bar[0])
    gain = exp((1.0 - r) * w[5])
    slope = exp(w[2]) * power(new_d + 0.1, w[3]) * power(s, w[4])
    growth = slope * (gain - 1.0)  # new_s = s (1 + growth)
    growth_bar = s_bar * s
    w_bar[2] += growth * growth_bar
    w_bar[3] += log(new_d + 0.1) * growth * growth_bar
    w_bar[4] += log(s) * growth * growth_bar
    w_bar[5] += slope * gain * (1.0 - r) * growth_bar
    d_bar = bar[1] + w[3] * growth / (new_d + 0.1) * growth_bar
    d_bar = next_d_adjoint(d, r, rating, d_bar)
    r_bar = d_bar - w[5] * slope * gain * growth_bar
    s_bar = s_bar * (1.0 + growth + w[4] * growth)
    return s_bar + forgetting_curve_adjoint(t, s, r_bar), d_bar, bar[2]


def stability_after_failure(lapses: Value, w: Any) -> Value:
    return w[0] * exp(w[6] * lapses)


def failure(state: State, t: Value, rating: Value, w: Any) -> State:
    """The lapses that count for S are those before this one."""
    s, d, lapses = state
    new_d = next_d(d, forgetting_curve(t, s), rating)
    new_s = stability_after_failure(lapses, w)
    return clamp(new_s, w[7], S_MAX), new_d, lapses + lapse(rating)


def failure_adjoint(state: State, t: Value, rating: Value, w: Any, bar: State, w_bar: Any) -> State:
    s, d, lapses = state
    new_s = stability_after_failure(lapses, w)
    s_bar = clamp_bar(new_s, w[7], S_MAX, bar[0])
    w_bar[0] += exp(w[6] * lapses) * s_bar
    w_bar[6] += lapses * new_s * s_bar
    d_bar = next_d_adjoint(d, forgetting_curve(t, s), rating, bar[1])
    lapses_bar = bar[2] + w[6] * new_s * s_bar
    return forgetting_curve_adjoint(t, s, d_bar), d_bar, lapses_bar


DEFAULT = (2.0, 5.0, 3.0, -0.7, -0.2, 1.0, -0.3)
RECURRENT = RecurrentModel(
    name="FSRSv1",
    states=3,
    default=DEFAULT,
    lower=(0.1, 1, 0.01, -1, -1, 0.01, -1),
    upper=(10, 10, 10, -0.01, -0.01, 10, -0.01),
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
        name="FSRSv1",
        family="fsrs",
        inputs="IL, G",
        parameters=7,
        source="srs-benchmark other.py, class FSRS1",
        predict=TRAINABLE.predict,
        fit=TRAINABLE.fit,
        default=lambda context: list(DEFAULT),
        aliases={"FSRSv1-default": "FSRSv1-dry-run"},
        hyperparameters=RECURRENT.hyperparameters,
        seconds_per_10k=0.0075,
        note="In v1 a failure sets S from the number of lapses alone.",
    ),
)
