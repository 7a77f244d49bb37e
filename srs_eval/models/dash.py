"""DASH (Lindsey, Shroyer, Pashler and Mozer, 2014) and its variants, on the history of one card.

    p = sigmoid(sum over windows W of theta_(2W-1) ln(1 + n_W) + theta_2W ln(1 + c_W) + theta_9)

with n_W the number of reviews in window W before now and c_W that of the successful ones;
the windows are the last day, 7 and 30 days, and all time. DASH[MCM] lets each review's count decay,
exp(-age / tau_W) with tau = 0.2434, 1.9739, 16.009, 129.8426 days. DASH[ACT-R] has no windows:

    p = sigmoid(theta_1 ln(1 + max(0, sum over reviews k of m_k age_k^(-theta_2))) + theta_5)

with m_k = theta_3 after a failure and theta_4 after a success; reviews at most 0.1 days ago
do not count.

Improving Students' Long-Term Knowledge Retention Through Personalized Review (Psychological
Science 25, 2014); Mozer and Lindsey, Predicting and improving memory retention (2016), for
the variants. Ability and difficulty terms are left out. Constants, start and training are
those of srs-benchmark other.py `class DASH`, `class DASH_ACTR` and
`create_features_helper` (January 2025).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Cost, TrainedModel, no_parameters
from srs_eval.training.compile import compile_kernel
from srs_eval.training.elementwise import Value, exp
from srs_eval.training.linear import BATCH_SIZE, HYPERPARAMETERS, LinearModel, minimise_by_adam
from srs_eval.training.optimisers import select_training_rows, sort_by_length, spread_over_trials

START = (0.2024, 0.5967, 0.1255, 0.6039, -0.1485, 0.572, 0.0933, 0.4801, 0.787)
_START_SHORT = (-0.1766, 0.4483, -0.3618, 0.5953, -0.5104, 0.8609, -0.3643, 0.6447, 1.2815)
_START_MCM = (0.2783, 0.8131, 0.4252, 1.0056, -0.1527, 0.6455, 0.1409, 0.669, 0.843)
_START_ACT_R = (1.4164, 0.516, -0.0564, 1.9223, 1.0549)
_LOWER_ACT_R = np.array([0.001, 0.001, -np.inf, -np.inf, -np.inf])

_WINDOWS = (1.0, 7.0, 30.0, math.inf)  # days
_TAU = (0.2434, 1.9739, 16.0090, 129.8426)  # days
_MIN_AGE = float(np.float32(0.1))  # days; DASH[ACT-R]


def _recall_and_slope(z: Value, t: Value) -> tuple[Value, Value]:
    """Return p = sigmoid(z) and dp/dz."""
    p = 1.0 / (1.0 + exp(-z))
    return p, p * (1.0 - p)


def _count_in_windows(
    delta_t: FloatArray, rating: IntArray, start: IntArray, end: IntArray, decay: bool
) -> FloatArray:
    """Count the reviews and the successes before each trial in each of the four windows (n, 8).

    The rows `start ... end - 1` are a trial's history, and `end` is its own row, which has the
    interval since the last review. With `decay`, the counts decay with age.
    """
    counts = np.zeros((len(start), 8))
    for trial in range(len(start)):
        age = 0.0
        for row in range(end[trial] - 1, start[trial] - 1, -1):
            age += delta_t[row + 1]
            for window in range(4):
                if age <= _WINDOWS[window]:
                    share = math.exp(-age / _TAU[window]) if decay else 1.0
                    counts[trial, 2 * window] += share
                    if rating[row] > 1:
                        counts[trial, 2 * window + 1] += share
    return counts


def _compute_window_features(trials: Trials, decay: bool) -> FloatArray:
    """Return ln(1 + count) of each window, and a column of ones (n, 9)."""
    counts = compile_kernel(_count_in_windows)(
        trials.history_delta_t,
        trials.history_rating,
        trials.history_start,
        trials.history_end,
        decay,
    )
    return np.concatenate([np.log1p(counts), np.ones((len(counts), 1))], axis=1)


def compute_features(trials: Trials) -> FloatArray:
    """Return the features of DASH for each trial, without decay within a window."""
    return _compute_window_features(trials, decay=False)


def _compute_mcm_features(trials: Trials) -> FloatArray:
    return _compute_window_features(trials, decay=True)


def _make_start(default: tuple[float, ...]) -> Callable[[Trials], tuple[float, ...]]:
    """Return a function of the trials that chooses the start: `default`, or that for `short`."""
    return lambda trials: _START_SHORT if trials.protocol.short else default


_DASH = LinearModel("DASH", _recall_and_slope, compute_features, _make_start(START))
_MCM = LinearModel("DASH", _recall_and_slope, _compute_mcm_features, _make_start(_START_MCM))


# DASH[ACT-R]


@dataclass(frozen=True, eq=False)
class _ReviewAges:
    """Ages of the reviews in each trial's history.

    The reviews that count for trial k are `start[k] ... start[k + 1] - 1`; equal ages share a
    position in `ln_age`, so that their powers are computed once.
    """

    start: IntArray  # (n + 1,)
    age: IntArray  # (pairs of trial and review,) position in ln_age
    passed: NDArray[np.bool_]  # (pairs,)
    ln_age: FloatArray  # (distinct ages,) ln of days


def _list_review_ages(
    delta_t: FloatArray, last_delta_t: FloatArray, start: IntArray, end: IntArray, pairs: int
) -> tuple[IntArray, FloatArray, IntArray]:
    """Return how many reviews count for each trial (n,), their ages and their rows (pairs,).

    Trial k comes `last_delta_t[k]` days after the last review of its history, the rows
    start[k] ... end[k] - 1. There is room for `pairs` of a trial and a review.
    """
    counts = np.zeros(len(start), np.int64)
    ages = np.empty(pairs)
    rows = np.empty(pairs, np.int64)
    count = 0
    for trial in range(len(start)):
        age = last_delta_t[trial]
        for row in range(end[trial] - 1, start[trial] - 1, -1):
            if row + 1 < end[trial]:
                age += delta_t[row + 1]
            if age > _MIN_AGE:
                ages[count] = age
                rows[count] = row
                count += 1
                counts[trial] += 1
    return counts, ages[:count], rows[:count]


def _build_review_ages(trials: Trials) -> _ReviewAges:
    everything = np.arange(len(trials))
    last_delta_t = trials.history_delta_t[trials.history_end]
    start, ages, passed = _collect_ages(trials, everything, last_delta_t)
    distinct_ages, age = np.unique(ages, return_inverse=True)
    return _ReviewAges(start, age, passed, np.log(distinct_ages))


def _collect_ages(
    trials: Trials, index: IntArray, last_delta_t: FloatArray
) -> tuple[IntArray, FloatArray, NDArray[np.bool_]]:
    """Return `start` as in `_ReviewAges`, and the ages and `passed` of the pairs.

    The trials `index` (k,) come `last_delta_t` (k,) days after the last reviews of their histories.
    """
    counts, ages, rows = compile_kernel(_list_review_ages)(
        trials.history_delta_t,
        last_delta_t,
        trials.history_start[index],
        trials.history_end[index],
        int((trials.history_end[index] - trials.history_start[index]).sum()),
    )
    start = np.concatenate(([0], np.cumsum(counts)))
    return start, ages, trials.history_rating[rows] > 1


def sum_strengths(
    trials: IntArray,
    start: IntArray,
    age: IntArray,
    passed: NDArray[np.bool_],
    ln_age: FloatArray,
    w: FloatArray,
) -> FloatArray:
    """Return sums of age^(-theta_2) over failures and over successes (n, 4).

    The last two columns are the same sums with each term multiplied by -ln(age).
    """
    power = np.exp(-w[1] * ln_age)
    sums = np.zeros((len(trials), 4))
    for k in range(len(trials)):
        for pair in range(start[trials[k]], start[trials[k] + 1]):
            kind = 1 if passed[pair] else 0
            sums[k, kind] += power[age[pair]]
            sums[k, 2 + kind] -= ln_age[age[pair]] * power[age[pair]]
    return sums


def _act_r_recall(sums: FloatArray, w: FloatArray) -> tuple[float, float, float]:
    """Return p, the sum inside the logarithm, and z of one trial."""
    total = w[2] * sums[0] + w[3] * sums[1]
    z = w[0] * math.log(1 + max(total, 0.0)) + w[4]
    p, _ = _recall_and_slope(z, 0.0)
    return p, total, z


def _act_r_loss(sums: FloatArray, y: FloatArray, weight: FloatArray, w: FloatArray) -> float:
    """Return the weighted sum of the trials' losses."""
    loss = 0.0
    for k in range(len(y)):
        p, _, _ = _act_r_recall(sums[k], w)
        loss += weight[k] * _cross_entropy(_to_single(p), y[k])
    return loss


def _act_r_gradient(
    sums: FloatArray, y: FloatArray, weight: FloatArray, w: FloatArray
) -> FloatArray:
    """Return the gradient of `_act_r_loss` with respect to w (5,)."""
    bar = np.zeros(5)
    for k in range(len(y)):
        p, total, _ = _act_r_recall(sums[k], w)
        z_bar = weight[k] * _cross_entropy_slope(_to_single(p), y[k]) * p * (1 - p)
        bar[0] += z_bar * math.log(1 + max(total, 0.0))
        bar[4] += z_bar
        if total >= 0:
            total_bar = z_bar * w[0] / (1 + total)
            bar[1] += total_bar * (w[2] * sums[k, 2] + w[3] * sums[k, 3])
            bar[2] += total_bar * sums[k, 0]
            bar[3] += total_bar * sums[k, 1]
    return bar


def _compute_strengths(ages: _ReviewAges, rows: IntArray, w: FloatArray) -> FloatArray:
    """Return the sums of `sum_strengths` for the trials `rows`."""
    result: FloatArray = compile_kernel(sum_strengths)(
        rows, ages.start, ages.age, ages.passed, ages.ln_age, w
    )
    return result


def _fit_act_r(
    trials: Trials, train: IntArray, weights: FloatArray, context: Context
) -> list[float]:
    """Fit the parameters to trials with at most `max_seq_len` reviews before them."""
    ages = trials.derived(_build_review_ages)
    rows = sort_by_length(trials, select_training_rows(trials, train))
    weight = spread_over_trials(trials, train, weights)[rows]
    y = trials.y[rows]
    size = BATCH_SIZE.integer_in(context, trials.protocol)

    def gradient(w: FloatArray, batch: int) -> FloatArray:
        batch_rows = slice(batch * size, (batch + 1) * size)
        sums = _compute_strengths(ages, rows[batch_rows], w)
        slope: FloatArray = compile_kernel(_act_r_gradient)(
            sums, y[batch_rows], weight[batch_rows], w
        )
        return slope

    def total_loss(w: FloatArray) -> float:
        sums = _compute_strengths(ages, rows, w)
        return float(compile_kernel(_act_r_loss)(sums, y, weight, w))

    w = minimise_by_adam(
        np.array(_START_ACT_R),
        gradient,
        total_loss,
        math.ceil(len(rows) / size),
        context,
        lower=_LOWER_ACT_R,
    )
    return [round(x, 4) for x in w.tolist()]


def _predict_act_r(
    trials: Trials, parameters: Any, index: IntArray, context: Context
) -> FloatArray:
    # The copy is writable as rows are in training, so that the same kernel serves.
    return _predict_from_ages(trials.derived(_build_review_ages), index.copy(), parameters)


def _predict_act_r_at(
    trials: Trials,
    parameters: Any,
    index: IntArray,
    days: FloatArray,
    elapsed_days: IntArray,
    context: Context,
) -> FloatArray:
    repeated = np.repeat(index, len(days))
    start, ages, passed = _collect_ages(trials, repeated, np.tile(days, len(index)))
    asked = _ReviewAges(start, np.arange(len(ages)), passed, np.log(ages))  # ages hardly repeat
    p = _predict_from_ages(asked, np.arange(len(repeated)), parameters)
    return p.reshape(elapsed_days.shape)


def _predict_from_ages(ages: _ReviewAges, rows: IntArray, parameters: Any) -> FloatArray:
    w = np.array(parameters, np.float64)
    sums = _compute_strengths(ages, rows, w)
    z = w[0] * np.log1p(np.maximum(sums[:, :2] @ w[2:4], 0)) + w[4]
    p = 1 / (1 + np.exp(-np.clip(z, -700, 700)))
    return p.astype(np.float32).astype(np.float64)


_SOURCE = "Lindsey et al. 2014; srs-benchmark other.py, class DASH"

# Binary cross entropy as torch computes it, limits included (aten/src/ATen/native/Loss.cpp)


def _to_single(p: float) -> float:
    """Round p to single precision, in which upstream computes.

    Everything else is in double precision. This rounding alone decides where p is 0 or 1, and so
    where the limits below apply; with it, the figures agree to six decimals even for chaotic fits.
    """
    return float(np.float32(p))


def _cross_entropy(p: float, y: float) -> float:
    """Return -log of the probability of the outcome, at most 100."""
    likelihood = p if y > 0 else 1 - p
    if likelihood <= 0:
        return 100.0
    return min(-math.log(likelihood), 100.0)


def _cross_entropy_slope(p: float, y: float) -> float:
    """Return the derivative of the loss with respect to p.

    Unlike the loss it is not limited, except by a least p (1 - p).
    """
    return (p - y) / max(p * (1 - p), 1e-12)


_history_model = partial(
    TrainedModel, family="history", inputs="IL, G", hyperparameters=HYPERPARAMETERS
)

MODELS = (
    _history_model(
        name="DASH",
        parameters=9,
        source=_SOURCE,
        fit=_DASH.fit,
        predict=_DASH.predict,
        default=no_parameters,
        configurations=("DASH", "DASH-short", "DASH-recency"),
        cost=Cost(seconds_per_10k=0.0065, seconds_to_compile=0.5),
    ),
    _history_model(
        name="DASH[MCM]",
        parameters=9,
        source=_SOURCE,
        fit=_MCM.fit,
        predict=_MCM.predict,
        default=no_parameters,
        cost=Cost(seconds_per_10k=0.006, seconds_to_compile=1.0),
    ),
    _history_model(
        name="DASH[ACT-R]",
        parameters=5,
        source="Mozer & Lindsey 2016; srs-benchmark other.py, class DASH_ACTR",
        fit=_fit_act_r,
        predict=_predict_act_r,
        predict_at=_predict_act_r_at,
        default=lambda context: list(_START_ACT_R),
        cost=Cost(seconds_per_10k=0.0135, seconds_to_compile=2.0),
    ),
)
