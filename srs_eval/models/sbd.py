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
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval import hyperparameters
from srs_eval.errors import NotEnoughData
from srs_eval.fitting.compile import compiled, specialised
from srs_eval.fitting.elementwise import LANES, clamp, clamp_bar, exp, log, minimum, where
from srs_eval.fitting.lbfgs import minimise
from srs_eval.fitting.trie import history_trie, trie_batches
from srs_eval.hyperparameters import Hyperparameter
from srs_eval.models import Context, Model
from srs_eval.protocol import Trials
from srs_eval.reviews import FloatArray, IntArray

START = (-2.803101, 1.386926, 1.739235, -1.819954, 0.529839, -0.886052, -1.393709)
SIGMA = np.array([1.754, 1.2339, 0.5003, 0.546, 0.0989, 1.1685, 0.7778])
PULL = hyperparameters.penalty("pull", 1e-3 * 2000)  # divided by the number of rows
LN_S_MIN = math.log(0.001)
LN_S_MAX = math.log(36500)
LN_T_MIN = math.log(1e-9)
R_MIN, R_MAX = 1e-6, 1 - 1e-6
LN_R_MIN, LN_R_MAX = math.log(R_MIN), math.log(R_MAX)
MOST_REPEATED = 100  # 2 n
ITERATIONS = Hyperparameter("iterations", 200, 20.0, 1, 10_000, whole=True)
STEP_VALUES = 5

Value = Any  # float, array or vector


def bounded(w: FloatArray) -> FloatArray:
    """w with its limits applied."""
    return np.array(
        [
            min(max(w[0], LN_S_MIN), LN_S_MAX),
            min(max(w[0], w[1], LN_S_MIN), LN_S_MAX),
            min(max(w[2], 0.5), 20.0),
            w[3],
            max(w[4], 0.0),
            w[5],
            min(max(w[6], -30.0), 30.0),
        ]
    )


def bounded_adjoint(w: FloatArray, bar: FloatArray) -> FloatArray:
    """Gradient in w from that in `bounded(w)`: none beyond a limit."""
    high = max(w[0], w[1])
    out = np.where(bounded(w) == w, bar, 0.0)
    out[0] = bar[0] if LN_S_MIN <= w[0] <= LN_S_MAX else 0.0
    out[1] = 0.0
    if LN_S_MIN <= high <= LN_S_MAX:
        out[1 if w[1] >= w[0] else 0] += bar[1]
    return out


# The steps work on s = ln S, with g that of the review before and beta its beta(n). Their w are
# the five values of `step_values`.


def step_values(w: FloatArray) -> FloatArray:
    """[L, ln rho, v / k, 1 / k, c] of bounded parameters."""
    return np.array([w[0], (w[1] - w[0]) / 3, w[5] / w[2], 1 / w[2], w[4]])


def step_values_adjoint(w: FloatArray, bar: FloatArray) -> FloatArray:
    """Gradient in w (7,) from that in `step_values` and in alpha, c and ln delta (8,)."""
    root_bar = -(bar[2] * w[5] + bar[3]) / w[2] ** 2
    return np.array(
        [
            bar[0] - bar[1] / 3,
            bar[1] / 3,
            root_bar,
            bar[5],
            bar[4] + bar[6],
            bar[2] / w[2],
            bar[7],
        ]
    )


def shapes(w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """beta(n) for n = 0, 0.5, 1 ... 50 (1, 101), and the derivatives of its logarithm in
    alpha, c and ln delta (3, 101).
    """
    delta = math.exp(w[6])
    moved = delta + np.arange(MOST_REPEATED + 1) / 2
    ln_beta = w[3] + w[4] * np.log(moved)
    slopes = np.stack([np.ones_like(moved), np.log(moved), w[4] * delta / moved])
    return np.exp(np.clip(ln_beta, -30, 30))[None], slopes * (np.abs(ln_beta) <= 30)


def first(rating: Value, w: Value) -> Value:
    return w[0] + w[1] * (rating - 1.0)


def first_adjoint(rating: Value, w: Value, bar: Value, w_bar: Value) -> None:
    w_bar[0] += bar
    w_bar[1] += bar * (rating - 1.0)


def parts(s: Value, ln_t: Value, g: Value, w: Value) -> tuple[Value, Value]:
    """The two terms of a, over S."""
    return exp(w[3] * ln_t - s), exp(w[2] - 0.5 * (g * w[1] + s))


def parts_adjoint(
    ln_t: Value, g: Value, age: Value, rest: Value, bar: Value, w_bar: Value
) -> Value:
    """Gradient in s from that in the sum of the `parts`."""
    rest_bar = bar * rest
    w_bar[1] -= 0.5 * g * rest_bar
    w_bar[2] += rest_bar
    w_bar[3] += bar * age * ln_t
    return -bar * age - 0.5 * rest_bar


def recall(s: Value, ln_t: Value, g: Value, beta: Value, w: Value) -> Value:
    age, rest = parts(s, ln_t, g, w)
    return clamp(exp(-beta * log(1.0 + age + rest)), R_MIN, R_MAX)


def loss_and_adjoint(
    s: Value,
    ln_t: Value,
    g: Value,
    beta: Value,
    w: Value,
    passes: Value,
    failures: Value,
    w_bar: Value,
) -> tuple[Value, Value, Value]:
    """Log loss with these weights of passes and failures, gradients in s and ln beta."""
    age, rest = parts(s, ln_t, g, w)
    whole = 1.0 + age + rest
    q = beta * log(whole)  # -ln R
    r = exp(-q)
    kept = clamp(r, R_MIN, R_MAX)
    loss = passes * clamp(q, -LN_R_MAX, -LN_R_MIN) - failures * log(1.0 - kept)
    q_bar = clamp_bar(r, R_MIN, R_MAX, passes - failures * r / (1.0 - kept))
    return loss, parts_adjoint(ln_t, g, age, rest, beta * q_bar / whole, w_bar), q * q_bar


def success(s: Value, ln_t: Value, g: Value, beta: Value, w: Value) -> Value:
    """S' = S R^(-1 / beta) is S (1 + a / S) where R is within its limits."""
    age, rest = parts(s, ln_t, g, w)
    least, most = gains(beta)
    return clamp(s + clamp(log(1.0 + age + rest), least, most), LN_S_MIN, LN_S_MAX)


def gains(beta: Value) -> tuple[Value, Value]:
    """Limits of ln(S' / S) after a success, from those of R."""
    return minimum(-LN_R_MAX / beta, 30.0), minimum(-LN_R_MIN / beta, 30.0)


def success_adjoint(
    s: Value, ln_t: Value, g: Value, beta: Value, w: Value, bar: Value, w_bar: Value
) -> tuple[Value, Value]:
    """Gradients in s and ln beta."""
    age, rest = parts(s, ln_t, g, w)
    whole = 1.0 + age + rest
    least, most = gains(beta)
    free = log(whole)
    gain = clamp(free, least, most)
    bar = clamp_bar(s + gain, LN_S_MIN, LN_S_MAX, bar)
    free_bar = clamp_bar(free, least, most, bar)
    limit_bar = where(gain < 30.0, (free_bar - bar) * gain, 0.0)  # a limit falls as beta rises
    return bar + parts_adjoint(ln_t, g, age, rest, free_bar / whole, w_bar), limit_bar


def failure(s: Value, ln_t: Value, g: Value, beta: Value, w: Value) -> Value:
    lost = w[4] * log(1.0 - recall(s, ln_t, g, beta, w))
    return clamp(s + where(lost < -30.0, -30.0, lost), LN_S_MIN, LN_S_MAX)


def failure_adjoint(
    s: Value, ln_t: Value, g: Value, beta: Value, w: Value, bar: Value, w_bar: Value
) -> tuple[Value, Value]:
    """Gradients in s and ln beta."""
    age, rest = parts(s, ln_t, g, w)
    whole = 1.0 + age + rest
    q = beta * log(whole)
    r = exp(-q)
    forgotten = 1.0 - clamp(r, R_MIN, R_MAX)
    ln_f = log(forgotten)
    lost = w[4] * ln_f
    bar = clamp_bar(s + where(lost < -30.0, -30.0, lost), LN_S_MIN, LN_S_MAX, bar)
    lost_bar = where(lost < -30.0, 0.0, bar)
    w_bar[4] += lost_bar * ln_f
    q_bar = clamp_bar(r, R_MIN, R_MAX, lost_bar * w[4] * r / forgotten)
    return bar + parts_adjoint(ln_t, g, age, rest, beta * q_bar / whole, w_bar), q * q_bar


# All rows at once


class AllRows(NamedTuple):
    """The nodes of the rows' histories and, as targets, the rows; and room for the kernel."""

    kind: NDArray[np.int32]  # per segment of nodes
    start: IntArray
    end: IntArray
    parent: NDArray[np.int32]  # per node
    ln_t: FloatArray
    rating: FloatArray
    grade_before: FloatArray  # g of the parent
    shape_before: NDArray[np.int32]  # its 2 n
    target_node: NDArray[np.int32]  # per target
    target_ln_t: FloatArray
    target_grade: FloatArray
    target_shape: NDArray[np.int32]
    passes: FloatArray  # weight of the rows that were recalled
    failures: FloatArray
    recall: FloatArray  # result, per target
    state: FloatArray  # (1, nodes) ln S
    bar: FloatArray  # (1, nodes) its gradient
    w_bar: FloatArray  # (8, LANES) result, gradient in `step_values`, alpha, c and ln delta


def all_rows(
    trials: Trials, rows: IntArray, weights: FloatArray | None = None
) -> tuple[AllRows, IntArray]:
    """The rows for the kernel, and each row's target; `weights` (n,) are those of all trials."""
    trie = history_trie(trials, same_day=False)
    batch = trie_batches(trie, trials, [rows], weights)
    nodes = int(batch.first_node[1])
    parent, rating = batch.parent[:nodes], batch.rating[:nodes]
    repeated = compiled(repeats)(parent, rating, int(batch.end[0]))
    grade, target = rating - 1, batch.target_node[: batch.first_target[1]]
    segments = slice(batch.first_segment[1])
    made = AllRows(
        kind=batch.kind[segments],
        start=batch.start[segments],
        end=batch.end[segments],
        parent=parent,
        ln_t=_ln(batch.delta_t[:nodes]),
        rating=rating,
        grade_before=grade[parent],
        shape_before=repeated[parent],
        target_node=target,
        target_ln_t=_ln(batch.target_delta_t[: len(target)]),
        target_grade=grade[target],
        target_shape=repeated[target],
        passes=batch.passes[: len(target)],
        failures=batch.failures[: len(target)],
        recall=np.empty(len(target)),
        state=np.empty((1, nodes)),
        bar=np.empty((1, nodes)),
        w_bar=np.empty((STEP_VALUES + 3, LANES)),
    )
    return made, batch.target


def repeats(parent: NDArray[np.int32], rating: FloatArray, first_reviews: int) -> NDArray[np.int32]:
    """2 n of each node; the nodes without a parent come first."""
    twice = np.zeros(len(parent), np.int32)
    for v in range(len(parent)):
        twice[v] = max(0, 3 - int(rating[v]))
        if v >= first_reviews:
            twice[v] = min(twice[v] + twice[parent[v]], MOST_REPEATED)
    return twice


def _ln(t: FloatArray) -> FloatArray:
    return np.log(np.maximum(t, 1e-9))


@cache
def _kernel() -> Any:
    from srs_eval.fitting.full_batch_sweep import loss_and_gradient

    steps: dict[str, Callable[..., Any]] = {
        "first": first,
        "first_adjoint": first_adjoint,
        "success": success,
        "success_adjoint": success_adjoint,
        "failure": failure,
        "failure_adjoint": failure_adjoint,
        "recall": recall,
        "loss_and_adjoint": loss_and_adjoint,
    }
    return specialised(loss_and_gradient, "SBD", steps, {"VALUES": STEP_VALUES})


def loss_and_gradient(rows: AllRows, w: FloatArray) -> tuple[float, FloatArray]:
    """Weighted sum of the rows' log losses at bounded parameters, and its gradient (7,)."""
    loss = float(_kernel()(True, step_values(w), *shapes(w), rows))
    return loss, step_values_adjoint(w, rows.w_bar.sum(axis=1))


def recency_weights(n: int) -> FloatArray:
    return 0.0667 + 0.9333 * (np.arange(n) / n) ** 11.25


def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """The 7 parameters, fitted on histories of at most `max_seq_len` reviews."""
    if trials.protocol.recency:
        weights = recency_weights(len(train))
    short = trials.sequence_length[train] <= trials.protocol.max_seq_len
    rows, weight = train[short], weights[short]
    if not len(rows):
        raise NotEnoughData("no history is short enough to train on")
    weight_of = np.zeros(len(trials))
    weight_of[rows] = weight
    training, _ = all_rows(trials, rows, weight_of)
    start = np.array(START)
    total = float(weight.sum())
    pull = PULL.number(context) / len(rows)
    done = [0]

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        done[0] += 1
        context.tick(min(done[0] / 100, 0.99))
        loss, bar = loss_and_gradient(training, bounded(w))
        away = (w - start) / SIGMA
        value = loss / total + pull * float(away @ away)
        slope = bounded_adjoint(w, bar) / total + 2 * pull * away / SIGMA
        if not (math.isfinite(value) and np.isfinite(slope).all()):
            return 1e6, np.zeros(7)
        return value, slope

    w = minimise(
        objective,
        start,
        iterations=ITERATIONS.integer(context),
        history=20,
        tolerance_gradient=1e-7,
        tolerance_change=1e-9,
    )
    if not objective(w)[0] <= objective(start)[0]:
        w = start
    decimals = 6 if trials.protocol.secs else 4
    return [round(x, decimals) for x in w.tolist()]


def predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    if not len(index):
        return np.empty(0)
    rows, target = all_rows(trials, index)
    w = bounded(np.array(parameters, np.float64))
    _kernel()(False, step_values(w), *shapes(w), rows)
    return rows.recall[target]


MODELS = (
    Model(
        name="SBD",
        family="history",
        inputs="FIL, G, SR",
        parameters=7,
        source="srs-benchmark 28e255f4b3ff, models/sbd.py",
        fit=fit,
        predict=predict,
        default=lambda context: list(START),
        standard="SBD-short-secs-recency",
        hyperparameters=(PULL, ITERATIONS),
        seconds_per_10k=0.08,
    ),
)
