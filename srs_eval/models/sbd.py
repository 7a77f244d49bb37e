"""SBD (Stability, Brittleness, Difficulty): 7 parameters, a power law of forgetting.

    rho     = e^((H - L) / 3)
    first review, rating r:  S = e^L rho^(r - 1),  g = r - 1,  n = max(0, (3 - r) / 2)
    beta(n) = e^alpha (delta + n)^c
    a       = t^(1/k) + e^(v/k) rho^(-g/2) sqrt(S)
    R(t)    = (1 + a / S)^(-beta(n))
    pass:  S' = S R^(-1 / beta(n))      failure:  S' = S (1 - R)^c
    g' = r - 1,  n' = min(50, n + max(0, (3 - r) / 2))

w = [L, H, k, alpha, c, v, ln delta]; t in days, at least 1e-9; S in [0.001, 36500], k in [0.5,
20], c >= 0, H >= L, R in [1e-6, 1 - 1e-6].

Follows open-spaced-repetition/srs-benchmark commit 28e255f4b3ff, models/sbd.py (a port of
andersschill/memory-model-benchmark-for-spaced-repetition). Training there is L-BFGS on all
rows at once, on log loss plus a pull of 2 / n sum(((w - start) / sigma)^2); a fit that ends
worse than it began is dropped. With `recency`, row k of n weighs 0.0667 + 0.9333 (k/n)^11.25,
the formula of FSRS-7.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Cost, TrainedModel
from srs_eval.models.fsrs7 import compute_fsrs7_recency_weights
from srs_eval.training import hyperparameters
from srs_eval.training.compile import Gradient, compile_kernel, specialise
from srs_eval.training.elementwise import LANES, Value, clamp, exp, log, minimum, where
from srs_eval.training.hyperparameters import Hyperparameter
from srs_eval.training.optimisers import minimise_by_lbfgs, select_training_rows, spread_over_trials
from srs_eval.training.trie import TrieBatches, cut_batches, history_trie

_START = (-2.803101, 1.386926, 1.739235, -1.819954, 0.529839, -0.886052, -1.393709)
_SIGMA = np.array([1.754, 1.2339, 0.5003, 0.546, 0.0989, 1.1685, 0.7778])
_PULL = hyperparameters.penalty("pull", 1e-3 * 2000)  # divided by the number of rows
_LN_S_MIN = math.log(0.001)
_LN_S_MAX = math.log(36500)
R_MIN = 1e-6
R_MAX = 1 - 1e-6
LN_R_MIN = math.log(R_MIN)
LN_R_MAX = math.log(R_MAX)
_MAX_REPEATED = 100  # 2 n
_ITERATIONS = Hyperparameter("iterations", 200, 20.0, 1, 10_000, is_integer=True)
_VALUES = 5  # number of values that the steps take
_SHAPES = 104  # values of 2 n from 0 to _MAX_REPEATED, filled up to whole vectors


# The steps work on s = ln S; g and beta are g and beta(n) after the previous review, v the five
# values that `_limited_values` makes of the parameters.


def _limited_values(w: Value) -> tuple[Value, Value, Value, Value, Value]:
    """Return [L, ln rho, v / k, 1 / k, c], within their limits."""
    low = clamp(w[0], _LN_S_MIN, _LN_S_MAX)
    high = clamp(where(w[1] < w[0], w[0], w[1]), _LN_S_MIN, _LN_S_MAX)
    k = clamp(w[2], 0.5, 20.0)
    return low, (high - low) / 3.0, w[5] / k, 1.0 / k, clamp(w[4], 0.0, math.inf)


def _curve_exponent(n: Value, w: Value) -> Value:
    """Return beta(n)."""
    ln_delta, c = clamp(w[6], -30.0, 30.0), clamp(w[4], 0.0, math.inf)
    return exp(clamp(w[3] + c * log(exp(ln_delta) + n), -30.0, 30.0))


def _first(rating: Value, v: Value) -> Value:
    return v[0] + v[1] * (rating - 1.0)


def _curve_base(s: Value, ln_t: Value, g: Value, v: Value) -> Value:
    """Return 1 + a / S."""
    return 1.0 + exp(v[3] * ln_t - s) + exp(v[2] - 0.5 * (g * v[1] + s))


def _recall(s: Value, ln_t: Value, g: Value, beta: Value, v: Value) -> Value:
    return clamp(exp(-beta * log(_curve_base(s, ln_t, g, v))), R_MIN, R_MAX)


def _loss(
    s: Value, ln_t: Value, g: Value, beta: Value, passes: Value, failures: Value, v: Value
) -> Value:
    """Return the log loss with these weights of passes and failures."""
    q = beta * log(_curve_base(s, ln_t, g, v))  # -ln R
    r = clamp(exp(-q), R_MIN, R_MAX)
    return passes * clamp(q, -LN_R_MAX, -LN_R_MIN) - failures * log(1.0 - r)


def _success(s: Value, ln_t: Value, g: Value, beta: Value, v: Value) -> Value:
    """Return ln S' after a pass.

    S' = S R^(-1 / beta) is S (1 + a / S) where R is within its limits.
    """
    least, most = minimum(-LN_R_MAX / beta, 30.0), minimum(-LN_R_MIN / beta, 30.0)
    gain = clamp(log(_curve_base(s, ln_t, g, v)), least, most)
    return clamp(s + gain, _LN_S_MIN, _LN_S_MAX)


def _failure(s: Value, ln_t: Value, g: Value, beta: Value, v: Value) -> Value:
    lost = v[4] * log(1.0 - _recall(s, ln_t, g, beta, v))
    return clamp(s + where(lost < -30.0, -30.0, lost), _LN_S_MIN, _LN_S_MAX)


# All rows at once


class _KernelRows(NamedTuple):
    """The nodes of the rows' histories, the rows as targets, and buffers for the kernel."""

    batch: TrieBatches  # a single one
    ln_t: FloatArray  # per node
    grade_before: FloatArray  # g of the parent
    shape_before: NDArray[np.int32]  # 2 n of the parent
    target_ln_t: FloatArray  # per target
    target_grade: FloatArray
    target_shape: NDArray[np.int32]
    recall: FloatArray  # result, per target
    state: FloatArray  # (1, nodes) ln S
    bar: FloatArray  # (1, nodes) gradient with respect to ln S
    repetitions: FloatArray  # (SHAPES,) n = 0, 0.5, 1 ...
    beta: FloatArray  # (1, SHAPES) beta(n)
    beta_bar: FloatArray  # (1, SHAPES) gradient with respect to beta(n)
    v_bar: FloatArray  # (VALUES, LANES) gradient with respect to `_values`
    w_bar: FloatArray  # (7, LANES) result, gradient with respect to the parameters


def _make_kernel_rows(
    trials: Trials, rows: IntArray, weights: FloatArray | None = None
) -> tuple[_KernelRows, IntArray]:
    """Return the rows for the kernel, and the number of each row's target.

    `weights` (n,) are those of all trials.
    """
    trie = history_trie(trials, same_day=False)
    batch = cut_batches(trie, trials, [rows], weights)
    repeated = compile_kernel(_count_repeats)(batch.parent, batch.rating, int(batch.end[0]))
    grade = batch.rating - 1
    nodes = len(batch.parent)
    kernel_rows = _KernelRows(
        batch=batch,
        ln_t=_log_days(batch.delta_t),
        grade_before=grade[batch.parent],
        shape_before=repeated[batch.parent],
        target_ln_t=_log_days(batch.target_delta_t),
        target_grade=grade[batch.target_node],
        target_shape=repeated[batch.target_node],
        recall=np.empty(len(batch.target_node)),
        state=np.empty((1, nodes)),
        bar=np.empty((1, nodes)),
        repetitions=np.arange(_SHAPES) / 2,
        beta=np.empty((1, _SHAPES)),
        beta_bar=np.empty((1, _SHAPES)),
        v_bar=np.empty((_VALUES, LANES)),
        w_bar=np.empty((len(_START), LANES)),
    )
    return kernel_rows, batch.target


def _count_repeats(
    parent: NDArray[np.int32], rating: FloatArray, first_reviews: int
) -> NDArray[np.int32]:
    """Return 2 n of each node; the nodes without a parent come first."""
    twice = np.zeros(len(parent), np.int32)
    for v in range(len(parent)):
        twice[v] = max(0, 3 - int(rating[v]))
        if v >= first_reviews:
            twice[v] = min(twice[v] + twice[parent[v]], _MAX_REPEATED)
    return twice


def _log_days(t: FloatArray) -> FloatArray:
    return np.log(np.maximum(t, 1e-9))


@cache
def _compile_kernel() -> Any:
    from srs_eval.training.sweeps import full_batch_pass

    steps: dict[str, Any] = {
        "_values": _limited_values,
        "_values_adjoint": Gradient(_limited_values, (), "w"),
        "_shape": _curve_exponent,
        "_shape_adjoint": Gradient(_curve_exponent, (), "w"),
        "_first": _first,
        "_first_adjoint": Gradient(_first, (), "v"),
        "_success": _success,
        "_success_adjoint": Gradient(_success, ("s", "beta"), "v"),
        "_failure": _failure,
        "_failure_adjoint": Gradient(_failure, ("s", "beta"), "v"),
        "_recall": _recall,
        "_loss": _loss,
        "_loss_adjoint": Gradient(_loss, ("s", "beta"), "v"),
    }
    constants = {"_PARAMETERS": len(_START), "_VALUES": _VALUES}
    return specialise(full_batch_pass, "SBD", steps, constants)


def _loss_and_gradient(rows: _KernelRows, w: FloatArray) -> tuple[float, FloatArray]:
    """Return the weighted sum of the rows' log losses, and its gradient (7,)."""
    loss = float(_compile_kernel()(True, w, rows))
    return loss, rows.w_bar.sum(axis=1)


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """Fit the 7 parameters on histories of at most `max_seq_len` reviews."""
    if trials.protocol.recency:
        weights = compute_fsrs7_recency_weights(len(train))
    rows = select_training_rows(trials, train)
    weight_of = spread_over_trials(trials, train, weights)
    training, _ = _make_kernel_rows(trials, rows, weight_of)
    start = np.array(_START)
    total = float(weight_of[rows].sum())
    pull = _PULL.number_in(context) / len(rows)
    evaluations = 0

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        nonlocal evaluations
        evaluations += 1
        context.tick(min(evaluations / 100, 0.99))
        loss, bar = _loss_and_gradient(training, w)
        distance = (w - start) / _SIGMA
        value = loss / total + pull * float(distance @ distance)
        slope = bar / total + 2 * pull * distance / _SIGMA
        if not (math.isfinite(value) and np.isfinite(slope).all()):
            return 1e6, np.zeros(7)
        return value, slope

    w = minimise_by_lbfgs(
        objective,
        start,
        iterations=_ITERATIONS.integer_in(context),
        history=20,
        tolerance_gradient=1e-7,
        tolerance_change=1e-9,
    )
    if not objective(w)[0] <= objective(start)[0]:
        w = start
    decimals = 6 if trials.protocol.secs else 4
    return [round(x, decimals) for x in w.tolist()]


def _predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    if not len(index):
        return np.empty(0)
    rows, target = _make_kernel_rows(trials, index)
    _compile_kernel()(False, np.array(parameters, np.float64), rows)
    return rows.recall[target]


MODELS = (
    TrainedModel(
        name="SBD",
        family="history",
        inputs="FIL, G, SR",
        parameters=7,
        source="srs-benchmark pull request 355 (2026), models/sbd.py",
        fit=_fit,
        predict=_predict,
        default=lambda context: list(_START),
        standard="SBD-short-secs-recency",
        hyperparameters=(_PULL, _ITERATIONS),
        cost=Cost(seconds_per_10k=0.08, seconds_to_compile=1.8),
    ),
)
