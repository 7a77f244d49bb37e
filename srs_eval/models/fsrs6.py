"""FSRS-6: stability, difficulty, a power forgetting curve with trained decay.

Formulas, defaults and training: fsrs-optimizer 6.1.3 (fsrs_optimizer.py), run as
srs-benchmark's script.py does. A state is (s, d): stability in days, difficulty 1-10.
Parameters are w[0] ... w[20] as there; w[21] is no parameter but the least stability.
"""

from __future__ import annotations

from typing import Any

from srs_eval.fitting.elementwise import (
    clamp,
    clamp_bar,
    exp,
    log,
    minimum,
    power,
    share_of_first,
    where,
)
from srs_eval.fitting.recurrent import START, RecurrentModel, Step, Trainable
from srs_eval.models import ANY_FLAG, Model
from srs_eval.models._fsrs import (
    LOG_09,
    S_MAX,
    init_d,
    init_d_adjoint,
    init_s,
    init_s_adjoint,
    longest_after_failure,
    longest_after_failure_adjoint,
    next_d,
    next_d_adjoint,
    s0_fit,
    stability_after_failure,
    stability_after_failure_adjoint,
    stability_after_success,
    stability_after_success_adjoint,
)
from srs_eval.protocol import Trials

Value = Any  # float, array or vector
State = tuple[Value, Value]  # s, d


def forgetting_curve(t: Value, s: Value, w: Any) -> Value:
    """R(t) = (1 + factor t/s)^-w[20], with factor such that R(s) = 0.9."""
    factor = exp(-LOG_09 / w[20]) - 1.0
    return power(1.0 + factor * t / s, -w[20])


def forgetting_curve_adjoint(t: Value, s: Value, w: Any, r_bar: Value, w_bar: Any) -> Value:
    """Gradient with respect to s."""
    base = exp(-LOG_09 / w[20])
    factor = base - 1.0
    u = 1.0 + factor * t / s
    r = power(u, -w[20])
    u_bar = -w[20] * r / u * r_bar
    factor_bar = base * LOG_09 / (w[20] * w[20])  # d factor / d w[20]
    w_bar[20] += u_bar * (t / s) * factor_bar - r * log(u) * r_bar
    return -u_bar * factor * t / (s * s)


def recall(t: Value, state: State, w: Any) -> Value:
    return forgetting_curve(t, state[0], w)


def recall_adjoint(t: Value, state: State, w: Any, r_bar: Value, w_bar: Any) -> State:
    return forgetting_curve_adjoint(t, state[0], w, r_bar, w_bar), 0.0


def first(rating: Value, w: Any) -> State:
    """S0 and D0."""
    return clamp(init_s(rating, w), w[21], S_MAX), clamp(init_d(rating, w), 1.0, 10.0)


def first_adjoint(rating: Value, w: Any, bar: State, w_bar: Any) -> None:
    init_s_adjoint(rating, bar[0], w_bar)  # w[0] ... w[3] never leave the clamp
    init_d_adjoint(rating, w, clamp_bar(init_d(rating, w), 1.0, 10.0, bar[1]), w_bar)


def success(state: State, t: Value, rating: Value, w: Any) -> State:
    s, d = state
    r = forgetting_curve(t, s, w)
    new_s = stability_after_success(s, d, r, rating, w)
    return clamp(new_s, w[21], S_MAX), next_d(d, rating, w)


def success_adjoint(state: State, t: Value, rating: Value, w: Any, bar: State, w_bar: Any) -> State:
    s, d = state
    r = forgetting_curve(t, s, w)
    new_s_bar = clamp_bar(stability_after_success(s, d, r, rating, w), w[21], S_MAX, bar[0])
    s_bar, d_bar, r_bar = stability_after_success_adjoint(s, d, r, rating, w, new_s_bar, w_bar)
    s_bar += forgetting_curve_adjoint(t, s, w, r_bar, w_bar)
    return s_bar, d_bar + next_d_adjoint(d, rating, w, bar[1], w_bar)


def failure(state: State, t: Value, rating: Value, w: Any) -> State:
    s, d = state
    forgotten = stability_after_failure(s, d, forgetting_curve(t, s, w), w)
    new_s = minimum(forgotten, longest_after_failure(s, w))
    return clamp(new_s, w[21], S_MAX), next_d(d, rating, w)


def failure_adjoint(state: State, t: Value, rating: Value, w: Any, bar: State, w_bar: Any) -> State:
    s, d = state
    r = forgetting_curve(t, s, w)
    forgotten = stability_after_failure(s, d, r, w)
    longest = longest_after_failure(s, w)
    new_s_bar = clamp_bar(minimum(forgotten, longest), w[21], S_MAX, bar[0])
    share = share_of_first(forgotten, longest)
    s_bar, d_bar, r_bar = stability_after_failure_adjoint(s, d, r, w, share * new_s_bar, w_bar)
    s_bar += longest_after_failure_adjoint(s, w, (1.0 - share) * new_s_bar, w_bar)
    s_bar += forgetting_curve_adjoint(t, s, w, r_bar, w_bar)
    return s_bar, d_bar + next_d_adjoint(d, rating, w, bar[1], w_bar)


def short_term_increase(s: Value, rating: Value, w: Any) -> Value:
    return exp(w[17] * (rating - 3.0 + w[18])) * power(s, -w[19])


def same_day(state: State, t: Value, rating: Value, w: Any) -> State:
    """A review less than a day after the one before; Good and Easy never shorten S."""
    s, d = state
    increase = short_term_increase(s, rating, w)
    held = where(rating >= 3.0, where(increase < 1.0, 1.0, increase), increase)
    return clamp(s * held, w[21], S_MAX), next_d(d, rating, w)


def same_day_adjoint(
    state: State, t: Value, rating: Value, w: Any, bar: State, w_bar: Any
) -> State:
    s, d = state
    increase = short_term_increase(s, rating, w)
    held = where(rating >= 3.0, where(increase < 1.0, 1.0, increase), increase)
    bar_s = clamp_bar(s * held, w[21], S_MAX, bar[0])
    passed = where(rating >= 3.0, where(increase < 1.0, 0.0, 1.0), 1.0)
    exponent_bar = increase * passed * s * bar_s
    w_bar[17] += (rating - 3.0 + w[18]) * exponent_bar
    w_bar[18] += w[17] * exponent_bar
    w_bar[19] += -log(s) * exponent_bar
    s_bar = held * bar_s - w[19] / s * exponent_bar
    return s_bar, next_d_adjoint(d, rating, w, bar[1], w_bar)


# fmt: off
DEFAULT = (
    0.212, 1.2931, 2.3065, 8.2956,  # S0 by first rating
    6.4133, 0.8334, 3.0194, 0.001,  # difficulty
    1.8722, 0.1666, 0.796,  # success
    1.4835, 0.0614, 0.2629, 1.6483,  # failure
    0.6014, 1.8729,  # Hard, Easy
    0.5425, 0.0912, 0.0658,  # same day
    0.1542,  # decay
)
DEVIATION = (
    6.43, 9.66, 17.58, 27.85, 0.57, 0.28, 0.6, 0.12, 0.39, 0.18, 0.33,
    0.3, 0.09, 0.16, 0.57, 0.25, 1.03, 0.31, 0.32, 0.14, 0.27,
)
UPPER = (
    100, 100, 100, 100, 10, 4, 4, 0.75, 4.5, 0.8, 3.5,
    5, 0.25, 0.9, 4, 1, 6, 2, 2, 0.8, 0.8,
)
# fmt: on


def lower_bounds(least_stability: float) -> tuple[float, ...]:
    # fmt: off
    return (
        *4 * (least_stability,), 1, 0.001, 0.001, 0.001, 0, 0, 0.001,
        0.001, 0.001, 0.001, 0, 0, 1, 0, 0, 0, 0.1,
    )
    # fmt: on


def least_stability(trials: Trials) -> float:
    """In days; smaller where intervals are fractions of a day."""
    return 1e-6 if trials.protocol.secs else 0.001


def recurrent(least: float) -> RecurrentModel:
    return RecurrentModel(
        name="FSRS_6",
        states=2,
        default=DEFAULT,
        lower=lower_bounds(least),
        upper=UPPER,
        first=Step(first, first_adjoint),
        success=Step(success, success_adjoint),
        failure=Step(failure, failure_adjoint),
        same_day=Step(same_day, same_day_adjoint),
        recall=Step(recall, recall_adjoint),
        constants=(least,),
        deviation=DEVIATION,
    )


fit_s0 = s0_fit(DEFAULT, DEFAULT[20], least=least_stability)
TRAINABLE = Trainable(
    lambda trials, context: recurrent(least_stability(trials)), fit_s0, start_will_do=True
)
fit, predict = TRAINABLE.fit, TRAINABLE.predict


MODELS = (
    Model(
        name="FSRS-6",
        family="fsrs",
        inputs="IL, G, SR",
        parameters=21,
        source="fsrs-optimizer 6.1.3, src/fsrs_optimizer/fsrs_optimizer.py",
        predict=predict,
        fit=fit,
        fit_s0=fit_s0,
        default=lambda context: list(DEFAULT),
        aliases={
            "FSRS-6-default": "FSRS-6-dry-run",
            "your parameters": "FSRS-6-own",
            "FSRS-6-S0": "FSRS-6-pretrain",
            "FSRS-6-two_buttons": "FSRS-6-binary",
        },
        configurations=(
            "FSRS-6",
            "FSRS-6-dry-run",
            "FSRS-6-pretrain",
            "FSRS-6-binary",
            "FSRS-6-recency",
            "FSRS-6-preset",
            "FSRS-6-deck",
        ),
        always_short=True,
        flags=ANY_FLAG,
        parameters_with={"pretrain": 4, "two_buttons": 17},
        hyperparameters=(*recurrent(0.001).hyperparameters, START),
        seconds_per_10k=0.0105,
        seconds_to_compile=6.0,
    ),
)
