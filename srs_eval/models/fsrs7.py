"""FSRS-7: two stabilities; R(t) is a mean of (1 + f t/s)^-d and (1 + g t/q)^-e.

Formulas, defaults and training: srs-benchmark at commit
bd9110f791e5b37282c55a9aa8db35f68f0c4aa2 (August 2026), models/fsrs_v7.py, script.py and
features/base.py. That is the finished model of 34 parameters; a draft of 35 with one
stability and a fit of S0 (commit 049be71984b7eeff3ea380f5ccbce2e26b2bb77a) came before it.
Training begins at the defaults and keeps the parameters of the last epoch. Penalties on
schedules (`--sched_penalties`, off by default as there): `_add_schedule_penalty`.

A state is (s, q, d): long-term stability and short-term stability q in days, difficulty
1-10. Intervals are fractions of a day. Parameters are w[0] ... w[33] as there:

    0-3    initial stability by first rating
    4-6    difficulty
    7-14   update of the long-term stability
    15-22  update of the short-term stability
    23-33  forgetting curve

w[34] is not a parameter but the least stability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import ANY_FLAG, Context, Cost, TrainedModel
from srs_eval.models._fsrs import S_MAX, init_d, init_s
from srs_eval.training.compile import Gradient, specialise
from srs_eval.training.elementwise import (
    State,
    Value,
    clamp,
    exp,
    log,
    maximum,
    minimum,
    power,
    where,
)
from srs_eval.training.recurrent import RecurrentModel, Trainable

MIN_STABILITY = 0.0001  # days; larger where intervals are whole days
MIN_INTERVAL = 1.0 / 86_400  # days: a second
MAX_INTERVAL = 36_500.0
_HALVINGS = 100  # steps of a bisection
_SQUEEZE = 1.0 - 2e-5  # R lies between 1e-5 and 1 - 1e-5


def _short_recall(t: Value, q: Value, w: Value) -> Value:
    """Return R1(t) = (1 + factor t/q)^-decay, with a decay that depends on q: R1(q) = w25."""
    decay = clamp(w[23] * power(q, w[33] - 0.3), 0.01, 0.95)
    factor = exp(minimum(-log(w[25]) * (1.0 / decay), 60.0)) - 1.0
    return power(1.0 + factor * (t * (1.0 / q)), -decay)


def _short_curve_weight(state: State, w: Value) -> Value:
    """Return the weight of R1 in the mean of both curves.

    It is w27 q^-w29, divided by its sum with R2's, w28 s^w30 e^((d - 5) (w31 - 0.5)).
    """
    s, q, d = state
    exponent = w[30] * log(s) + w[29] * log(q) + (d - 5.0) * (w[31] - 0.5)
    return 1.0 / (1.0 + w[28] / w[27] * exp(exponent))


def _compute_unsqueezed(t: Value, state: State, w: Value) -> tuple[Value, Value]:
    """Return the weighted mean of R1(t) and R2(t), and R1(t).

    The weights depend on q, s and d. R2(t) = (1 + factor t/s)^-w24 with a factor that depends on d:
    R2(s) = w26 at d = 5.
    """
    s, q, d = state
    r1 = _short_recall(t, q, w)
    factor = exp(-log(w[26]) / w[24]) - 1.0
    r2 = power(1.0 + factor * (t * (1.0 / s) * exp((d - 5.0) * (w[32] - 0.3))), -w[24])
    return r2 + _short_curve_weight(state, w) * (r1 - r2), r1


def _compute_recalls(t: Value, state: State, w: Value) -> tuple[Value, Value]:
    """Return R(t) within its bounds, and R1(t), which has none."""
    r, r1 = _compute_unsqueezed(t, state, w)
    return _SQUEEZE * r + 1e-5, r1


def recall(t: Value, state: State, w: Value) -> Value:
    """Return R(t), the probability of recall t days after the last review."""
    r, _ = _compute_recalls(t, state, w)
    return r


def _unsqueezed_recall(t: Value, state: State, w: Value) -> Value:
    """Return R(t) without bounds, with which `_add_schedule_penalty` makes schedules."""
    r, _ = _compute_unsqueezed(t, state, w)
    return r


def compute_days_until(
    retention: float | Sequence[float], state: Sequence[FloatArray], w: Sequence[float]
) -> FloatArray:
    """Compute the days until recall falls to the retention, by bisection in log t.

    The curve has no inverse in closed form. The state (s, q, d) has arrays that broadcast against
    the retention. The days are MIN_INTERVAL where recall is below the retention from the start, and
    MAX_INTERVAL where it never falls to it.
    """
    shape = np.broadcast(*state, np.asarray(retention)).shape
    low = np.full(shape, math.log(MIN_INTERVAL))
    high = np.full(shape, math.log(MAX_INTERVAL))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_remembered = recall(np.exp(middle), tuple(state), w) > retention
        low = np.where(is_remembered, middle, low)
        high = np.where(is_remembered, high, middle)
    days: FloatArray = np.exp(0.5 * (low + high))
    return days


def first(rating: Value, w: Value) -> State:
    """Return the first state; short-term stability begins at 0.8 of the long-term one."""
    s = init_s(rating, w)
    return (
        clamp(s, w[34], S_MAX),
        clamp(0.8 * s, w[34], S_MAX),
        clamp(init_d(rating, w), 1.0, 10.0),
    )


def _next_d(d: Value, rating: Value, surprise: Value, w: Value) -> Value:
    """Return the difficulty after a review.

    It is damped linearly towards 10 and reverts by 1 % to the difficulty of a first Easy.
    `surprise` is R + 0.1 after a failure, else 1.
    """
    damped = d - w[6] / 9.0 * (rating - 3.0) * surprise * (10.0 - d)
    return clamp(0.01 * init_d(4.0, w) + 0.99 * damped, 1.0, 10.0)


# The updates of either stability, whose eight parameters are b[0] ... b[7].


def _unlimited_after_failure(s: Value, r: Value, b: Value) -> Value:
    """Return the stability after a failure, before it is limited to s."""
    return b[3] * (power(s + 1.0, b[4]) - 1.0) * exp((1.0 - r) * b[5])


def _increase(s: Value, d: Value, r: Value, rating: Value, b: Value) -> Value:
    """Return the stability after a success, before it is raised to that after a failure."""
    modifier = where(rating == 2.0, b[6], where(rating == 4.0, b[7], 1.0))
    slope = exp(b[0] - 1.5) * (11.0 - d) * power(s, -b[1])
    return s * (slope * (exp((1.0 - r) * b[2]) - 1.0) * modifier + 1.0)


def _after_failure(s: Value, r: Value, b: Value) -> Value:
    return minimum(s, _unlimited_after_failure(s, r, b))


def _after_success(s: Value, d: Value, r: Value, rating: Value, b: Value) -> Value:
    """Return the stability after a success, which is never less than after a failure."""
    return maximum(_after_failure(s, r, b), _increase(s, d, r, rating, b))


def _long_term_parameters(w: Value) -> Value:
    return w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14]


def _short_term_parameters(w: Value) -> Value:
    return w[15], w[16], w[17], w[18], w[19], w[20], w[21], w[22]


def success(state: State, t: Value, rating: Value, w: Value) -> State:
    """Return the state after a success.

    The long-term stability depends on R, the short-term one on R1.
    """
    s, q, d = state
    r, r1 = _compute_recalls(t, state, w)
    return (
        clamp(_after_success(s, d, r, rating, _long_term_parameters(w)), w[34], S_MAX),
        clamp(_after_success(q, d, r1, rating, _short_term_parameters(w)), w[34], S_MAX),
        _next_d(d, rating, 1.0, w),
    )


def _failure(state: State, t: Value, rating: Value, w: Value) -> State:
    """Return the state after a failure.

    The short-term stability falls to 0.8 of the long-term one or lower.
    """
    s, q, d = state
    r, r1 = _compute_recalls(t, state, w)
    new_s = _after_failure(s, r, _long_term_parameters(w))
    new_q = minimum(_after_failure(q, r1, _short_term_parameters(w)), 0.8 * new_s)
    return (
        clamp(new_s, w[34], S_MAX),
        clamp(new_q, w[34], S_MAX),
        _next_d(d, rating, r + 0.1, w),
    )


# fmt: off
DEFAULT = (
    0.1104, 2.2395, 3.9221, 11.7841,  # S0 by first rating
    6.1686, 0.6457, 3.6807,  # difficulty
    1.9795, 0.0, 1.3826, 0.7024, 0.5999, 0.8146, 0.6398, 1.0,  # long-term stability
    1.3207, 0.6707, 3.8668, 0.4416, 0.0934, 1.8631, 0.6162, 1.0869,  # short-term stability
    0.1567, 0.0801, 0.2421, 0.9464, 0.1433, 0.7145, 0.0, 0.5667,  # forgetting curve
    0.3734, 0.5333, 0.3048,
)
_LOWER = (
    0.0001, 0.0001, 0.0001, 0.0001, 1, 0.001, 0.1,
    0, 0, 0.3, 0.01, 0.1, 0, 0, 1,
    0, 0, 0.5, 0.001, 0.001, 0, 0, 1,
    0.01, 0.01, 0.2, 0.5, 0.01, 0.1, 0, 0.1, 0, 0, 0,
)
_UPPER = (
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
_MORE_EPOCHS = 100  # as in srs-benchmark's "FSRS-7 recency, 100 epochs"
_PENALTY = 0.3333  # factor on sum(((w - start) / deviation)^2) in the loss


def _add_schedule_penalty(w: FloatArray, gradient: FloatArray) -> float:
    """Return the penalty on schedules from w (35,) and add its gradient to `gradient` (34,).

    If a card is always answered Good at its due time, ten times over, then an interval of a day or
    more should not grow too much at 90 % desired retention, and intervals of less than a day should
    not be shorter than ten minutes at 99 %. For each review, the loss is increased by

        0.5 (largest growth of an interval >= 1 day)^2
          + 0.0015 max(1 / x - 144, 0)        x: mean of the intervals < 1 day, in days

    Intervals come from seven steps of Newton's method in log t, kept between a second and 36,500
    days, and an eighth step whose denominator counts as a constant, so that its gradient is that of
    the interval as an implicit function of the parameters.

    Sources: srs-benchmark at the commit above, models/fsrs_v7_interval_penalty.py; fsrs-rs
    src/training_v7.rs. For FSRS-6 the penalty is zero there (fsrs-rs src/training_v6.rs).
    """
    w_bar = np.zeros(len(w))
    penalty = float(_compile_penalty_kernel()(w, w_bar, np.empty((10, 7))))
    if not np.isfinite(penalty):
        return 0.0
    gradient += np.where(np.isfinite(w_bar), w_bar, 0.0)[: len(gradient)]
    return penalty


@cache
def _compile_penalty_kernel() -> Any:
    from srs_eval.training.sweeps import schedule_penalty_pass

    steps: dict[str, Any] = {
        "_first": first,
        "_first_adjoint": Gradient(first, (), "w"),
        "_success": success,
        "_success_adjoint": Gradient(success, ("state", "t"), "w"),
        "_recall": _unsqueezed_recall,
        "_recall_slope": Gradient(_unsqueezed_recall, ("t",)),
        "_recall_adjoint": Gradient(_unsqueezed_recall, ("state",), "w"),
    }
    return specialise(schedule_penalty_pass, "FSRS_7", steps, {"_VALUES": len(DEFAULT) + 1})


def make_recurrent(secs: bool, has_schedule_penalty: bool = False) -> RecurrentModel:
    """Return FSRS-7 as a recurrent model, for days or for fractions of a day (`secs`)."""
    return RecurrentModel(
        name="FSRS_7",
        states=3,
        default=DEFAULT,
        lower=_LOWER,
        upper=_UPPER,
        not_below=((1, 0), (2, 1), (3, 2), (26, 25)),
        first=first,
        success=success,
        failure=_failure,
        recall=recall,
        constants=(MIN_STABILITY if secs else 0.01,),
        deviation=tuple(deviation / math.sqrt(_PENALTY) for deviation in DEVIATION),
        learning_rate=0.0118,
        betas=(0.7, 0.98),
        epochs=9,
        keep="last",
        decimals=6 if secs else 4,
        penalty=_add_schedule_penalty if has_schedule_penalty else None,
    )


TRAINABLE = Trainable(
    lambda trials, context: make_recurrent(trials.protocol.secs, trials.protocol.sched_penalties)
)
_LONGER = replace(
    TRAINABLE,
    model=lambda trials, context: replace(TRAINABLE.model(trials, context), epochs=_MORE_EPOCHS),
)


def predict(
    trials: Trials, parameters: Sequence[float], index: IntArray, context: Context
) -> FloatArray:
    """Predict recall at the positions `index` with 34 parameters.

    Raises InputError if they exceed their limits so that recall is no probability.
    `own_parameters.normalize_parameters` limits a user's list.
    """
    p = TRAINABLE.predict(trials, parameters, index, context)
    if not ((p >= 0.0) & (p <= 1.0)).all():
        bounds = zip(parameters, _LOWER, _UPPER, strict=True)
        for number, (value, low, high) in enumerate(bounds):
            if not low <= value <= high:
                raise InputError(
                    "FSRS-7 cannot use these FSRS parameters: recall would not be a probability "
                    f"(for example, w{number} is {value:g} but must be from {low:g} to {high:g})."
                )
    return p


def compute_fsrs7_recency_weights(n: int) -> FloatArray:
    """Return FSRS-7's own training weights 0.0667 + 0.9333 x^11.25, x = 0, 1/n ... (n - 1)/n."""
    return 0.0667 + 0.9333 * np.power(np.arange(n) / max(n, 1), 11.25)


def fit(
    trials: Trials,
    train: IntArray,
    weights: FloatArray,
    context: Context,
    trainable: Trainable = TRAINABLE,
) -> list[float]:
    """Fit the 34 parameters; with recency, FSRS-7's own weights replace `weights`."""
    if trials.protocol.recency:
        weights = compute_fsrs7_recency_weights(len(train))
    return trainable.fit(trials, train, weights, context)


def _make_remarks(trials: Trials, context: Context) -> tuple[str, ...]:
    del context
    if trials.protocol.clock != "study-days" or trials.source[1].elapsed_study_days is not None:
        return ()
    return ("No time zone is named (--timezone): all study days last 24 hours, as with seconds",)


_FSRS_7 = TrainedModel(
    name="FSRS-7",
    family="fsrs",
    inputs="FIL, G, SR",
    parameters=34,
    source="open-spaced-repetition/srs-benchmark models/fsrs_v7.py (2026)",
    note="With recency, the newest reviews weigh more than in other FSRS versions.",
    cost=Cost(seconds_per_10k=0.045, seconds_to_compile=3.0),
    configurations=(
        "FSRS-7-short-secs-recency",
        "FSRS-7-short-secs-recency-equalize_test_with_non_secs",
        "FSRS-7-dry-run-short-secs-equalize_test_with_non_secs",
        "FSRS-7-short-secs-equalize_test_with_non_secs-preset-fallback_user",
        "FSRS-7-short-secs-equalize_test_with_non_secs-deck-fallback_user",
    ),
    standard="FSRS-7-short-secs-recency",
    aliases={
        "your FSRS-7 parameters": "FSRS-7-own-short-secs-equalize_test_with_non_secs",
        "FSRS-7 defaults": "FSRS-7-dry-run-short-secs-equalize_test_with_non_secs",
        "FSRS-7 per preset": "FSRS-7-short-secs-equalize_test_with_non_secs-preset-fallback_user",
        "FSRS-7 per deck": "FSRS-7-short-secs-equalize_test_with_non_secs-deck-fallback_user",
    },
    parameters_with={"two_buttons": 28},
    always_short=True,
    predict=predict,
    fit=fit,
    default=lambda context: list(DEFAULT),
    flags=ANY_FLAG | {"sched_penalties", "clock"},
    remarks=_make_remarks,
    hyperparameters=make_recurrent(secs=False).hyperparameters,
)
MODELS = (
    _FSRS_7,
    replace(
        _FSRS_7,
        name="FSRS-7-100-epochs",
        cost=Cost(seconds_per_10k=0.28, seconds_to_compile=3.0, kernels_of="FSRS-7"),
        configurations=(
            "FSRS-7-100-epochs-short-secs-recency",
            "FSRS-7-100-epochs-short-secs-recency-equalize_test_with_non_secs",
        ),
        standard="FSRS-7-100-epochs-short-secs-recency",
        extra=True,
        aliases={},
        fit=partial(fit, trainable=_LONGER),
        hyperparameters=replace(make_recurrent(secs=False), epochs=_MORE_EPOCHS).hyperparameters,
    ),
)
