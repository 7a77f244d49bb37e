"""FSRS-7: a long-term and a short-term stability, a forgetting curve mixed of two.

Formulas, defaults and training: srs-benchmark at commit
bd9110f791e5b37282c55a9aa8db35f68f0c4aa2 (September 2026), models/fsrs_v7.py, script.py and
features/base.py. That is the finished model of 34 parameters; a draft of 35 with one
stability and a fit of S0 (commit 049be71984b7eeff3ea380f5ccbce2e26b2bb77a) came before it.
Training begins at the defaults and keeps the parameters of the last epoch. Penalties on
schedules (`--sched_penalties`, off by default as there): fitting/scheduled.py.

A state is (s, q, d): long-term stability and short-term stability q in days, difficulty
1-10. Intervals are fractions of a day. Parameters are w[0] ... w[33] as there:

    0-3    initial stability by first rating
    4-6    difficulty
    7-14   update of the long-term stability
    15-22  update of the short-term stability
    23-33  forgetting curve

w[34] is no parameter but the least stability.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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
from srs_eval.fitting.recurrent import RecurrentModel, Step, Trainable
from srs_eval.fitting.scheduled import ScheduledSteps
from srs_eval.models import ANY_FLAG, Context, Model
from srs_eval.models._fsrs import S_MAX
from srs_eval.protocol import Trials
from srs_eval.reviews import FloatArray, IntArray

Value = Any  # float, array or vector
State = tuple[Value, Value, Value]  # s, q, d

SQUEEZE = 1.0 - 2e-5  # R lies between 1e-5 and 1 - 1e-5


def raw_decay1(q: Value, w: Any) -> Value:
    return w[23] * power(q, w[33] - 0.3)


def short_recall(t: Value, q: Value, w: Any) -> Value:
    """R1(t) = (1 + factor t/q)^-decay, with a decay that depends on q: R1(q) = w25."""
    decay = clamp(raw_decay1(q, w), 0.01, 0.95)
    factor = exp(minimum(-log(w[25]) * (1.0 / decay), 60.0)) - 1.0
    return power(1.0 + factor * (t * (1.0 / q)), -decay)


def short_recall_adjoint(t: Value, q: Value, w: Any, bar: Value, w_bar: Any) -> Value:
    """Gradient with respect to q."""
    raw = raw_decay1(q, w)
    decay = clamp(raw, 0.01, 0.95)
    exponent = -log(w[25]) * (1.0 / decay)
    base = exp(minimum(exponent, 60.0))
    elapsed = t * (1.0 / q)
    u = 1.0 + (base - 1.0) * elapsed
    r = power(u, -decay)
    u_bar = -decay * r / u * bar
    exponent_bar = where(exponent > 60.0, 0.0, base * elapsed * u_bar)
    shrink_bar = exponent_bar * (1.0 / decay)
    w_bar[25] += -(1.0 / w[25]) * shrink_bar
    decay_bar = clamp_bar(raw, 0.01, 0.95, -r * log(u) * bar - exponent * shrink_bar)
    log_bar = raw * decay_bar  # of the logarithm of `raw`
    w_bar[23] += (1.0 / w[23]) * log_bar
    w_bar[33] += log(q) * log_bar
    return (1.0 / q) * ((w[33] - 0.3) * log_bar - (u - 1.0) * u_bar)


def weight_of_short(state: State, w: Any) -> Value:
    """w27 q^-w29, as a share of its sum with w28 s^w30 e^((d - 5) (w31 - 0.5))."""
    s, q, d = state
    exponent = w[30] * log(s) + w[29] * log(q) + (d - 5.0) * (w[31] - 0.5)
    return 1.0 / (1.0 + w[28] / w[27] * exp(exponent))


def recalls(t: Value, state: State, w: Any) -> tuple[Value, Value]:
    """R(t), the mean of R1(t) and R2(t) with weights that depend on q, s and d; R1(t).

    R2(t) = (1 + factor t/s)^-w24 with a factor that depends on d: R2(s) = w26 at d = 5.
    """
    s, q, d = state
    r1 = short_recall(t, q, w)
    factor = exp(-log(w[26]) / w[24]) - 1.0
    r2 = power(1.0 + factor * (t * (1.0 / s) * exp((d - 5.0) * (w[32] - 0.3))), -w[24])
    return SQUEEZE * (r2 + weight_of_short(state, w) * (r1 - r2)) + 1e-5, r1


def recalls_adjoint(t: Value, state: State, w: Any, bar: Value, r1_bar: Value, w_bar: Any) -> State:
    s, q, d = state
    r1 = short_recall(t, q, w)
    base = exp(-log(w[26]) / w[24])
    scaled = t * (1.0 / s) * exp((d - 5.0) * (w[32] - 0.3))
    u = 1.0 + (base - 1.0) * scaled
    r2 = power(u, -w[24])
    weight = weight_of_short(state, w)
    bar = SQUEEZE * bar

    q_bar = short_recall_adjoint(t, q, w, weight * bar + r1_bar, w_bar)
    r2_bar = (1.0 - weight) * bar
    u_bar = -w[24] * r2 / u * r2_bar
    exponent_bar = base * scaled * u_bar  # of -log(w26) / w24
    w_bar[26] += -(1.0 / (w[24] * w[26])) * exponent_bar
    w_bar[24] += log(w[26]) / (w[24] * w[24]) * exponent_bar - r2 * log(u) * r2_bar
    stretch_bar = (u - 1.0) * u_bar  # of the logarithm of `scaled`
    w_bar[32] += (d - 5.0) * stretch_bar

    ratio_bar = weight * (r2 - r1) * r2_bar  # of the logarithm of R2's weight over R1's
    w_bar[27] += -(1.0 / w[27]) * ratio_bar
    w_bar[28] += (1.0 / w[28]) * ratio_bar
    w_bar[29] += log(q) * ratio_bar
    w_bar[30] += log(s) * ratio_bar
    w_bar[31] += (d - 5.0) * ratio_bar
    return (
        (1.0 / s) * (w[30] * ratio_bar - stretch_bar),
        q_bar + (1.0 / q) * (w[29] * ratio_bar),
        (w[32] - 0.3) * stretch_bar + (w[31] - 0.5) * ratio_bar,
    )


def recall(t: Value, state: State, w: Any) -> Value:
    r, _ = recalls(t, state, w)
    return r


def recall_adjoint(t: Value, state: State, w: Any, r_bar: Value, w_bar: Any) -> State:
    return recalls_adjoint(t, state, w, r_bar, 0.0, w_bar)


def recall_slopes(t: Value, state: State, w: Any) -> tuple[Value, Value, Value]:
    """R(t) before it is squeezed, its derivative by t, and that of R1(t)."""
    s, q, d = state
    r1 = short_recall(t, q, w)
    decay = clamp(raw_decay1(q, w), 0.01, 0.95)
    factor = exp(minimum(-log(w[25]) * (1.0 / decay), 60.0)) - 1.0
    slope1 = -decay * r1 * factor / (q + factor * t)
    stretched = (exp(-log(w[26]) / w[24]) - 1.0) * exp((d - 5.0) * (w[32] - 0.3)) * (1.0 / s)
    r2 = power(1.0 + stretched * t, -w[24])
    slope2 = -w[24] * r2 * stretched / (1.0 + stretched * t)
    weight = weight_of_short(state, w)
    return r2 + weight * (r1 - r2), slope2 + weight * (slope1 - slope2), slope1


def init_d(rating: Value, w: Any) -> Value:
    return w[4] - exp(w[5] * (rating - 1.0)) + 1.0


def init_s(rating: Value, w: Any) -> Value:
    return where(rating == 1.0, w[0], where(rating == 2.0, w[1], where(rating == 3.0, w[2], w[3])))


def first(rating: Value, w: Any) -> State:
    """The short-term stability begins at 0.8 of the long-term one."""
    s = init_s(rating, w)
    return (
        clamp(s, w[34], S_MAX),
        clamp(0.8 * s, w[34], S_MAX),
        clamp(init_d(rating, w), 1.0, 10.0),
    )


def first_adjoint(rating: Value, w: Any, bar: State, w_bar: Any) -> None:
    s = init_s(rating, w)
    s_bar = clamp_bar(s, w[34], S_MAX, bar[0]) + 0.8 * clamp_bar(0.8 * s, w[34], S_MAX, bar[1])
    w_bar[0] += where(rating == 1.0, s_bar, 0.0)
    w_bar[1] += where(rating == 2.0, s_bar, 0.0)
    w_bar[2] += where(rating == 3.0, s_bar, 0.0)
    w_bar[3] += where(rating == 4.0, s_bar, 0.0)
    d_bar = clamp_bar(init_d(rating, w), 1.0, 10.0, bar[2])
    w_bar[4] += d_bar
    w_bar[5] += -exp(w[5] * (rating - 1.0)) * (rating - 1.0) * d_bar


def raw_next_d(d: Value, rating: Value, surprise: Value, w: Any) -> Value:
    """Linear damping towards 10, reversion by 1 % to the difficulty of a first Easy."""
    damped = d - w[6] / 9.0 * (rating - 3.0) * surprise * (10.0 - d)
    return 0.01 * init_d(4.0, w) + 0.99 * damped


def next_d(d: Value, rating: Value, surprise: Value, w: Any) -> Value:
    """Difficulty after a review; `surprise` is R + 0.1 of a failure, else 1."""
    return clamp(raw_next_d(d, rating, surprise, w), 1.0, 10.0)


def next_d_adjoint(
    d: Value, rating: Value, surprise: Value, w: Any, bar: Value, w_bar: Any
) -> tuple[Value, Value]:
    """Gradients with respect to d and surprise."""
    bar = clamp_bar(raw_next_d(d, rating, surprise, w), 1.0, 10.0, bar)
    w_bar[4] += 0.01 * bar
    w_bar[5] += -0.03 * exp(3.0 * w[5]) * bar
    bar = 0.99 * bar
    slope = (rating - 3.0) * surprise
    w_bar[6] += -(1.0 / 9.0) * slope * (10.0 - d) * bar
    d_bar = (1.0 + w[6] / 9.0 * slope) * bar
    return d_bar, -w[6] / 9.0 * (rating - 3.0) * (10.0 - d) * bar


# The updates of both stabilities, with the eight parameters of one as b[0] ... b[7].


def forgotten(s: Value, r: Value, b: Any) -> Value:
    """Stability after a failure, before the limit that is s."""
    return b[3] * (power(s + 1.0, b[4]) - 1.0) * exp((1.0 - r) * b[5])


def forgotten_adjoint(s: Value, r: Value, b: Any, bar: Value) -> Any:
    """Gradients with respect to s, r, b[3], b[4], b[5]."""
    grown = power(s + 1.0, b[4])
    gain = exp((1.0 - r) * b[5])
    whole = b[3] * (grown - 1.0) * gain
    return (
        b[3] * gain * b[4] * grown / (s + 1.0) * bar,
        -b[5] * whole * bar,
        (grown - 1.0) * gain * bar,
        b[3] * gain * grown * log(s + 1.0) * bar,
        (1.0 - r) * whole * bar,
    )


def increase(s: Value, d: Value, r: Value, rating: Value, b: Any) -> Value:
    modifier = where(rating == 2.0, b[6], where(rating == 4.0, b[7], 1.0))
    slope = exp(b[0] - 1.5) * (11.0 - d) * power(s, -b[1])
    return s * (slope * (exp((1.0 - r) * b[2]) - 1.0) * modifier + 1.0)


def after_failure(s: Value, r: Value, b: Any) -> Value:
    return minimum(s, forgotten(s, r, b))


def after_success(s: Value, d: Value, r: Value, rating: Value, b: Any) -> Value:
    """Never less than after a failure."""
    return -minimum(-after_failure(s, r, b), -increase(s, d, r, rating, b))


def after_failure_adjoint(s: Value, r: Value, b: Any, bar: Value) -> Any:
    """Gradients with respect to s, r, b[3], b[4], b[5]."""
    share = share_of_first(s, forgotten(s, r, b))
    s_bar, r_bar, b3, b4, b5 = forgotten_adjoint(s, r, b, (1.0 - share) * bar)
    return s_bar + share * bar, r_bar, b3, b4, b5


def after_success_adjoint(s: Value, d: Value, r: Value, rating: Value, b: Any, bar: Value) -> Any:
    """Gradients with respect to s, d, r, b[0] ... b[7]."""
    share = share_of_first(-after_failure(s, r, b), -increase(s, d, r, rating, b))
    s_bar, r_bar, b3, b4, b5 = after_failure_adjoint(s, r, b, share * bar)
    bar = (1.0 - share) * bar
    modifier = where(rating == 2.0, b[6], where(rating == 4.0, b[7], 1.0))
    plain = exp(b[0] - 1.5) * power(s, -b[1])
    gain = exp((1.0 - r) * b[2])
    slope = plain * (11.0 - d) * modifier
    growth = slope * (gain - 1.0)  # new s = s (1 + growth)
    growth_bar = s * bar
    modifier_bar = plain * (11.0 - d) * (gain - 1.0) * growth_bar
    return (
        s_bar + (1.0 + growth - b[1] * growth) * bar,
        -plain * modifier * (gain - 1.0) * growth_bar,
        r_bar - b[2] * slope * gain * growth_bar,
        growth * growth_bar,
        -log(s) * growth * growth_bar,
        slope * gain * (1.0 - r) * growth_bar,
        b3,
        b4,
        b5,
        where(rating == 2.0, modifier_bar, 0.0),
        where(rating == 4.0, modifier_bar, 0.0),
    )


def long_term(w: Any) -> Any:
    return w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14]


def short_term(w: Any) -> Any:
    return w[15], w[16], w[17], w[18], w[19], w[20], w[21], w[22]


def success(state: State, t: Value, rating: Value, w: Any) -> State:
    """The long-term stability answers to R, the short-term one to R1."""
    s, q, d = state
    r, r1 = recalls(t, state, w)
    return (
        clamp(after_success(s, d, r, rating, long_term(w)), w[34], S_MAX),
        clamp(after_success(q, d, r1, rating, short_term(w)), w[34], S_MAX),
        next_d(d, rating, 1.0, w),
    )


def success_adjoint(state: State, t: Value, rating: Value, w: Any, bar: State, w_bar: Any) -> State:
    s, q, d = state
    r, r1 = recalls(t, state, w)
    new_s = after_success(s, d, r, rating, long_term(w))
    new_s_bar = clamp_bar(new_s, w[34], S_MAX, bar[0])
    s_bar, d_bar, r_bar, b0, b1, b2, b3, b4, b5, b6, b7 = after_success_adjoint(
        s, d, r, rating, long_term(w), new_s_bar
    )
    w_bar[7] += b0
    w_bar[8] += b1
    w_bar[9] += b2
    w_bar[10] += b3
    w_bar[11] += b4
    w_bar[12] += b5
    w_bar[13] += b6
    w_bar[14] += b7
    new_q = after_success(q, d, r1, rating, short_term(w))
    new_q_bar = clamp_bar(new_q, w[34], S_MAX, bar[1])
    q_bar, d_of_q, r1_bar, b0, b1, b2, b3, b4, b5, b6, b7 = after_success_adjoint(
        q, d, r1, rating, short_term(w), new_q_bar
    )
    w_bar[15] += b0
    w_bar[16] += b1
    w_bar[17] += b2
    w_bar[18] += b3
    w_bar[19] += b4
    w_bar[20] += b5
    w_bar[21] += b6
    w_bar[22] += b7
    d_of_d, _ = next_d_adjoint(d, rating, 1.0, w, bar[2], w_bar)
    s_of_r, q_of_r, d_of_r = recalls_adjoint(t, state, w, r_bar, r1_bar, w_bar)
    return s_bar + s_of_r, q_bar + q_of_r, d_bar + d_of_q + d_of_d + d_of_r


def success_interval_bar(state: State, t: Value, rating: Value, w: Any, bar: State) -> Value:
    """Gradient with respect to t, which `success_adjoint` leaves out."""
    s, q, d = state
    r, r1 = recalls(t, state, w)
    new_s = after_success(s, d, r, rating, long_term(w))
    new_s_bar = clamp_bar(new_s, w[34], S_MAX, bar[0])
    of_s = after_success_adjoint(s, d, r, rating, long_term(w), new_s_bar)
    new_q = after_success(q, d, r1, rating, short_term(w))
    new_q_bar = clamp_bar(new_q, w[34], S_MAX, bar[1])
    of_q = after_success_adjoint(q, d, r1, rating, short_term(w), new_q_bar)
    _, slope, slope1 = recall_slopes(t, state, w)
    return of_s[2] * SQUEEZE * slope + of_q[2] * slope1


def interval_bar(t: Value, state: State, w: Any, bar: Value, w_bar: Any) -> State:
    """Gradient with respect to the state, `bar` being that of R(t) before it is squeezed."""
    return recalls_adjoint(t, state, w, bar / SQUEEZE, 0.0, w_bar)


def failure(state: State, t: Value, rating: Value, w: Any) -> State:
    """The short-term stability falls to 0.8 of the long-term one or lower."""
    s, q, d = state
    r, r1 = recalls(t, state, w)
    new_s = after_failure(s, r, long_term(w))
    new_q = minimum(after_failure(q, r1, short_term(w)), 0.8 * new_s)
    return (
        clamp(new_s, w[34], S_MAX),
        clamp(new_q, w[34], S_MAX),
        next_d(d, rating, r + 0.1, w),
    )


def failure_adjoint(state: State, t: Value, rating: Value, w: Any, bar: State, w_bar: Any) -> State:
    s, q, d = state
    r, r1 = recalls(t, state, w)
    new_s = after_failure(s, r, long_term(w))
    new_q = after_failure(q, r1, short_term(w))
    limit_bar = clamp_bar(minimum(new_q, 0.8 * new_s), w[34], S_MAX, bar[1])
    share = share_of_first(new_q, 0.8 * new_s)
    new_s_bar = clamp_bar(new_s, w[34], S_MAX, bar[0]) + 0.8 * (1.0 - share) * limit_bar
    s_bar, r_bar, b3, b4, b5 = after_failure_adjoint(s, r, long_term(w), new_s_bar)
    w_bar[10] += b3
    w_bar[11] += b4
    w_bar[12] += b5
    q_bar, r1_bar, b3, b4, b5 = after_failure_adjoint(q, r1, short_term(w), share * limit_bar)
    w_bar[18] += b3
    w_bar[19] += b4
    w_bar[20] += b5
    d_bar, surprise_bar = next_d_adjoint(d, rating, r + 0.1, w, bar[2], w_bar)
    r_bar += surprise_bar
    s_of_r, q_of_r, d_of_r = recalls_adjoint(t, state, w, r_bar, r1_bar, w_bar)
    return s_bar + s_of_r, q_bar + q_of_r, d_bar + d_of_r


# fmt: off
DEFAULT = (
    0.1104, 2.2395, 3.9221, 11.7841,  # S0 by first rating
    6.1686, 0.6457, 3.6807,  # difficulty
    1.9795, 0.0, 1.3826, 0.7024, 0.5999, 0.8146, 0.6398, 1.0,  # long-term stability
    1.3207, 0.6707, 3.8668, 0.4416, 0.0934, 1.8631, 0.6162, 1.0869,  # short-term stability
    0.1567, 0.0801, 0.2421, 0.9464, 0.1433, 0.7145, 0.0, 0.5667,  # forgetting curve
    0.3734, 0.5333, 0.3048,
)
LOWER = (
    0.0001, 0.0001, 0.0001, 0.0001, 1, 0.001, 0.1,
    0, 0, 0.3, 0.01, 0.1, 0, 0, 1,
    0, 0, 0.5, 0.001, 0.001, 0, 0, 1,
    0.01, 0.01, 0.2, 0.5, 0.01, 0.1, 0, 0.1, 0, 0, 0,
)
UPPER = (
    50, 100, 100, 100, 10, 4, 4,
    4, 1.2, 3, 1.5, 1, 3.5, 1, 7,
    4, 2, 6, 1.5, 1, 5, 1, 7,
    0.25, 0.95, 0.85, 0.99, 1, 1, 0.9, 1.1, 1, 0.6, 0.6,
)
DEVIATION = (
    9999, 9999, 9999, 9999, 0.523, 0.2528, 0.4329,
    0.2966, 0.2139, 0.2889, 0.1862, 0.175, 0.3812, 0.3013, 0.9104,
    0.3234, 0.2448, 0.3273, 0.1842, 0.1735, 0.4608, 0.311, 0.864,
    0.0418, 0.2596, 0.0798, 0.0682, 0.1282, 0.1397, 0.1407, 0.1489, 0.2, 0.15, 0.15,
)
# fmt: on
PENALTY = 0.3333  # times sum(((w - start) / deviation)^2)


SCHEDULED = ScheduledSteps(
    name="FSRS_7",
    first=Step(first, first_adjoint),
    success=Step(success, success_adjoint),
    success_interval_bar=success_interval_bar,
    recall_slopes=recall_slopes,
    interval_bar=interval_bar,
    values=len(DEFAULT) + 1,
)


def recurrent(secs: bool, penalised: bool = False) -> RecurrentModel:
    return RecurrentModel(
        name="FSRS_7",
        states=3,
        default=DEFAULT,
        lower=LOWER,
        upper=UPPER,
        not_below=((1, 0), (2, 1), (3, 2), (26, 25)),
        first=Step(first, first_adjoint),
        success=Step(success, success_adjoint),
        failure=Step(failure, failure_adjoint),
        recall=Step(recall, recall_adjoint),
        constants=(0.0001 if secs else 0.01,),
        deviation=tuple(deviation / math.sqrt(PENALTY) for deviation in DEVIATION),
        learning_rate=0.0118,
        betas=(0.7, 0.98),
        epochs=9,
        keep="last",
        decimals=6 if secs else 4,
        penalty=SCHEDULED.penalty if penalised else None,
    )


TRAINABLE = Trainable(
    lambda trials, context: recurrent(trials.protocol.secs, trials.protocol.sched_penalties)
)
predict = TRAINABLE.predict


def recency_weights(n: int) -> FloatArray:
    """FSRS-7's own training weights 0.0667 + 0.9333 x^11.25, x = 0, 1/n ... (n - 1)/n."""
    return 0.0667 + 0.9333 * np.power(np.arange(n) / max(n, 1), 11.25)


def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """The 34 parameters. Recency replaces the weights given by FSRS-7's own."""
    if trials.protocol.recency:
        weights = recency_weights(len(train))
    return TRAINABLE.fit(trials, train, weights, context)


MODELS = (
    Model(
        name="FSRS-7",
        family="fsrs",
        inputs="FIL, G, SR",
        parameters=34,
        source="open-spaced-repetition/srs-benchmark models/fsrs_v7.py",
        predict=predict,
        fit=fit,
        default=lambda context: list(DEFAULT),
        aliases={"FSRS-7-default": "FSRS-7-dry-run", "FSRS-7-two_buttons": "FSRS-7-binary"},
        configurations=(
            "FSRS-7-short-secs-recency",
            "FSRS-7-short-secs-recency-equalize_test_with_non_secs",
            "FSRS-7-dry-run-short-secs-equalize_test_with_non_secs",
            "FSRS-7-short-secs-equalize_test_with_non_secs-preset-fallback_user",
            "FSRS-7-short-secs-equalize_test_with_non_secs-deck-fallback_user",
        ),
        standard="FSRS-7-short-secs-recency",
        always_short=True,
        flags=ANY_FLAG | {"sched_penalties"},
        parameters_with={"two_buttons": 28},
        hyperparameters=recurrent(secs=False).hyperparameters,
        seconds_per_10k=0.045,
        seconds_to_compile=3.0,
        note="Recency weighs the newest reviews more strongly than in other FSRS versions.",
    ),
)
