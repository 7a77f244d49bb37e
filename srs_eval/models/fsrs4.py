"""FSRS v4: a power forgetting curve; initial stabilities fitted apart; Hard and Easy modify growth.

Formulas, defaults and training: srs-benchmark other.py `class FSRS4` (January 2025). A
state is (s, d): stability in days, difficulty 1-10. Parameters are w[0] ... w[16] as
there; w[17] is no parameter but the least stability. Initial stabilities are fitted
first and then held; the rest is trained on reviews after each card's second, while the
best epoch is chosen on all reviews.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from srs_eval.fitting.elementwise import clamp, clamp_bar, exp, log, power, where
from srs_eval.fitting.initial_stability import InitialStability, fit_initial_stability
from srs_eval.fitting.recurrent import RecurrentModel, fit_recurrent, predict_recurrent
from srs_eval.models import Context, Model
from srs_eval.models.fsrs1 import S_MAX, least_stability
from srs_eval.protocol import Trials
from srs_eval.reviews import FloatArray, IntArray

Value = Any  # float, array or vector
State = tuple[Value, Value]  # s, d


def forgetting_curve(t: Value, s: Value) -> Value:
    """R(t) = 1 / (1 + t/(9 s))."""
    return 1.0 / (1.0 + t / (9.0 * s))


def forgetting_curve_adjoint(t: Value, s: Value, r_bar: Value) -> Value:
    """Gradient with respect to s."""
    r = forgetting_curve(t, s)
    return r * r * t / (9.0 * s * s) * r_bar


def recall(t: Value, state: State, w: Any) -> Value:
    return forgetting_curve(t, state[0])


def recall_adjoint(t: Value, state: State, w: Any, r_bar: Value, w_bar: Any) -> State:
    return forgetting_curve_adjoint(t, state[0], r_bar), 0.0 * r_bar


def init_s(rating: Value, w: Any) -> Value:
    return where(rating == 1.0, w[0], where(rating == 2.0, w[1], where(rating == 3.0, w[2], w[3])))


def init_s_adjoint(rating: Value, bar: Value, w_bar: Any) -> None:
    w_bar[0] += where(rating == 1.0, bar, 0.0)
    w_bar[1] += where(rating == 2.0, bar, 0.0)
    w_bar[2] += where(rating == 3.0, bar, 0.0)
    w_bar[3] += where(rating == 4.0, bar, 0.0)


def init_d(rating: Value, w: Any) -> Value:
    return w[4] - w[5] * (rating - 3.0)


def first(rating: Value, w: Any) -> State:
    return clamp(init_s(rating, w), w[17], S_MAX), clamp(init_d(rating, w), 1.0, 10.0)


def first_adjoint(rating: Value, w: Any, bar: State, w_bar: Any) -> None:
    init_s_adjoint(rating, clamp_bar(init_s(rating, w), w[17], S_MAX, bar[0]), w_bar)
    d_bar = clamp_bar(init_d(rating, w), 1.0, 10.0, bar[1])
    w_bar[4] += d_bar
    w_bar[5] += -(rating - 3.0) * d_bar


def raw_next_d(d: Value, rating: Value, w: Any) -> Value:
    """Reversion to the difficulty of a first Good."""
    return w[7] * w[4] + (1.0 - w[7]) * (d - w[6] * (rating - 3.0))


def next_d(d: Value, rating: Value, w: Any) -> Value:
    return clamp(raw_next_d(d, rating, w), 1.0, 10.0)


def next_d_adjoint(d: Value, rating: Value, w: Any, bar: Value, w_bar: Any) -> Value:
    """Gradient with respect to d."""
    bar = clamp_bar(raw_next_d(d, rating, w), 1.0, 10.0, bar)
    w_bar[4] += w[7] * bar
    w_bar[7] += (w[4] - (d - w[6] * (rating - 3.0))) * bar
    d_bar = (1.0 - w[7]) * bar
    w_bar[6] += -(rating - 3.0) * d_bar
    return d_bar


def stability_after_success(s: Value, d: Value, r: Value, rating: Value, w: Any) -> Value:
    """The same from v4 on."""
    hard_penalty = where(rating == 2.0, w[15], 1.0)
    easy_bonus = where(rating == 4.0, w[16], 1.0)
    return s * (
        1.0
        + exp(w[8])
        * (11.0 - d)
        * power(s, -w[9])
        * (exp((1.0 - r) * w[10]) - 1.0)
        * hard_penalty
        * easy_bonus
    )


def stability_after_success_adjoint(
    s: Value, d: Value, r: Value, rating: Value, w: Any, bar: Value, w_bar: Any
) -> tuple[Value, Value, Value]:
    """Gradients with respect to s, d and r, apart from each other."""
    gain = exp((1.0 - r) * w[10])
    plain = exp(w[8]) * power(s, -w[9])
    modifier = where(rating == 2.0, w[15], where(rating == 4.0, w[16], 1.0))
    slope = plain * (11.0 - d) * modifier
    growth = slope * (gain - 1.0)  # new_s = s (1 + growth)
    growth_bar = bar * s
    unmodified_bar = plain * (11.0 - d) * (gain - 1.0) * growth_bar
    w_bar[8] += growth * growth_bar
    w_bar[9] += -log(s) * growth * growth_bar
    w_bar[10] += slope * gain * (1.0 - r) * growth_bar
    w_bar[15] += where(rating == 2.0, unmodified_bar, 0.0)
    w_bar[16] += where(rating == 4.0, unmodified_bar, 0.0)
    return (
        bar * (1.0 + growth - w[9] * growth),
        -plain * modifier * (gain - 1.0) * growth_bar,
        -w[10] * slope * gain * growth_bar,
    )


def stability_after_failure(s: Value, d: Value, r: Value, w: Any) -> Value:
    """The same from v4 on, but later versions set it a limit."""
    return w[11] * power(d, -w[12]) * (power(s + 1.0, w[13]) - 1.0) * exp((1.0 - r) * w[14])


def stability_after_failure_adjoint(
    s: Value, d: Value, r: Value, w: Any, bar: Value, w_bar: Any
) -> tuple[Value, Value, Value]:
    """Gradients with respect to s, d and r, apart from each other."""
    grown = power(s + 1.0, w[13])
    factor = power(d, -w[12]) * exp((1.0 - r) * w[14])
    new_s = w[11] * factor * (grown - 1.0)
    w_bar[11] += factor * (grown - 1.0) * bar
    w_bar[12] += -log(d) * new_s * bar
    w_bar[13] += w[11] * factor * grown * log(s + 1.0) * bar
    w_bar[14] += (1.0 - r) * new_s * bar
    return (
        w[11] * factor * w[13] * grown / (s + 1.0) * bar,
        -w[12] * new_s / d * bar,
        -w[14] * new_s * bar,
    )


def success(state: State, t: Value, rating: Value, w: Any) -> State:
    s, d = state
    new_s = stability_after_success(s, d, forgetting_curve(t, s), rating, w)
    return clamp(new_s, w[17], S_MAX), next_d(d, rating, w)


def success_adjoint(state: State, t: Value, rating: Value, w: Any, bar: State, w_bar: Any) -> State:
    s, d = state
    r = forgetting_curve(t, s)
    new_s_bar = clamp_bar(stability_after_success(s, d, r, rating, w), w[17], S_MAX, bar[0])
    s_bar, d_bar, r_bar = stability_after_success_adjoint(s, d, r, rating, w, new_s_bar, w_bar)
    s_bar += forgetting_curve_adjoint(t, s, r_bar)
    return s_bar, d_bar + next_d_adjoint(d, rating, w, bar[1], w_bar)


def failure(state: State, t: Value, rating: Value, w: Any) -> State:
    s, d = state
    new_s = stability_after_failure(s, d, forgetting_curve(t, s), w)
    return clamp(new_s, w[17], S_MAX), next_d(d, rating, w)


def failure_adjoint(state: State, t: Value, rating: Value, w: Any, bar: State, w_bar: Any) -> State:
    s, d = state
    r = forgetting_curve(t, s)
    new_s_bar = clamp_bar(stability_after_failure(s, d, r, w), w[17], S_MAX, bar[0])
    s_bar, d_bar, r_bar = stability_after_failure_adjoint(s, d, r, w, new_s_bar, w_bar)
    s_bar += forgetting_curve_adjoint(t, s, r_bar)
    return s_bar, d_bar + next_d_adjoint(d, rating, w, bar[1], w_bar)


def after_second_review(trials: Trials, rows: IntArray) -> IntArray:
    """What v4 and v4.5 train on: the initial stabilities have had the second reviews."""
    return rows[trials.i[rows] > 2]


def fit_s0(
    trials: Trials, train: IntArray, default: Sequence[float], decay: float
) -> tuple[float, ...]:
    """The default parameters of v4, v4.5 or v5 with S0 fitted.

    R(t) = (1 + factor t/S)^-decay. Fractions of a day are fitted as they are, whole days
    with a review of average recall added to each interval and a pull to the default.
    """
    secs = trials.protocol.secs
    settings = InitialStability(
        default=(default[0], default[1], default[2], default[3]),
        decay=decay,
        minimum=least_stability(trials),
        smoothing=0.0 if secs else 1.0,
        pull=0.0 if secs else 1 / 16,
    )
    return (*fit_initial_stability(trials, train, settings), *default[4:])


# fmt: off
DEFAULT = (
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
    default=DEFAULT,
    lower=(
        *(-bound for bound in NO_BOUND),
        1, 0.1, 0.1, 0, 0, 0.1, 0.01, 0.5, 0.01, 0.01, 0.01, 0, 1,
    ),
    upper=(*NO_BOUND, 10, 5, 5, 0.5, 3, 0.8, 2.5, 5, 0.2, 0.9, 2, 1, 4),
    first=first,
    first_adjoint=first_adjoint,
    success=success,
    success_adjoint=success_adjoint,
    failure=failure,
    failure_adjoint=failure_adjoint,
    recall=recall,
    recall_adjoint=recall_adjoint,
    constants=1,
    frozen=(0, 1, 2, 3),
    tie_order="quicksort",
    trained_on=after_second_review,
)
# fmt: on


def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    start = fit_s0(trials, train, DEFAULT, decay=1.0)
    least = least_stability(trials)
    return fit_recurrent(RECURRENT, trials, train, weights, start, context, constants=(least,))


def predict(
    trials: Trials, parameters: list[float], index: IntArray, context: Context
) -> FloatArray:
    least = least_stability(trials)
    return predict_recurrent(RECURRENT, trials, parameters, index, constants=(least,))


MODELS = (
    Model(
        name="FSRSv4",
        family="fsrs",
        inputs="IL, G",
        parameters=17,
        source="srs-benchmark other.py, class FSRS4",
        predict=predict,
        fit=fit,
        default=lambda context: list(DEFAULT),
        aliases={"FSRSv4-default": "FSRSv4-dry-run"},
        seconds_per_10k=0.0085,
    ),
)
