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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.errors import NotEnoughData
from srs_eval.fitting.compile import compiled
from srs_eval.fitting.lbfgs import minimise
from srs_eval.fitting.loss import loss_of, slope_of
from srs_eval.fitting.trie import history_trie
from srs_eval.models import Context, Model
from srs_eval.protocol import Trials
from srs_eval.reviews import FloatArray, IntArray

START = (-2.803101, 1.386926, 1.739235, -1.819954, 0.529839, -0.886052, -1.393709)
SIGMA = np.array([1.754, 1.2339, 0.5003, 0.546, 0.0989, 1.1685, 0.7778])
PULL = 1e-3 * 2000  # divided by the number of rows
LN_S_MIN = math.log(0.001)
LN_S_MAX = math.log(36500)
LN_T_MIN = math.log(1e-9)
R_MIN, R_MAX = 1e-6, 1 - 1e-6
MOST_REPEATED = 100  # 2 n
ITERATIONS = 200


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


def shapes(w: FloatArray) -> FloatArray:
    """beta(n) for n = 0, 0.5, 1 ... 50 (101,)."""
    beta = np.empty(MOST_REPEATED + 1)
    for k in range(len(beta)):
        beta[k] = math.exp(min(max(w[3] + w[4] * math.log(math.exp(w[6]) + k / 2), -30.0), 30.0))
    return beta


def shapes_adjoint(
    w: FloatArray, beta: FloatArray, beta_bar: FloatArray, w_bar: FloatArray
) -> None:
    delta = math.exp(w[6])
    for k in range(len(beta)):
        ln = math.log(delta + k / 2)
        if abs(w[3] + w[4] * ln) <= 30.0:
            bar = beta_bar[k] * beta[k]
            w_bar[3] += bar
            w_bar[4] += bar * ln
            w_bar[6] += bar * w[4] * delta / (delta + k / 2)


def recall(
    ln_t: float, ln_s: float, g: float, beta: float, w: FloatArray
) -> tuple[float, float, float, float]:
    """R before its limits, from ln t and ln S; and for the adjoint, ln(1 + a / S), the share
    of t^(1/k) in a, and that of a / S in 1 + a / S.
    """
    ln_rho = (w[1] - w[0]) / 3
    ln_age = ln_t / w[2]
    ln_b = w[5] / w[2] - g * ln_rho / 2 + ln_s / 2
    smaller = math.exp(-abs(ln_age - ln_b))
    ln_a = max(ln_age, ln_b) + math.log1p(smaller)
    share = (1.0 if ln_age >= ln_b else smaller) / (1 + smaller)
    x = ln_a - ln_s
    less = math.exp(-abs(x))
    base = max(x, 0.0) + math.log1p(less)
    growth = (1.0 if x >= 0 else less) / (1 + less)
    return math.exp(max(-beta * base, -30.0)), base, share, growth


def recall_adjoint(
    ln_t: float,
    g: float,
    beta: float,
    w: FloatArray,
    kept: tuple[float, float, float, float],
    r_bar: float,
    w_bar: FloatArray,
) -> tuple[float, float]:
    """Gradients in ln S and beta; adds to w_bar. `kept` is what `recall` returned."""
    r, base, share, growth = kept
    q_bar = r_bar * r
    x_bar = -beta * q_bar * growth
    age_bar, b_bar = share * x_bar, (1 - share) * x_bar
    w_bar[2] -= (age_bar * ln_t / w[2] + b_bar * w[5] / w[2]) / w[2]
    w_bar[5] += b_bar / w[2]
    rho_bar = -g / 2 * b_bar
    w_bar[0] -= rho_bar / 3
    w_bar[1] += rho_bar / 3
    return b_bar / 2 - x_bar, -base * q_bar


def limited(r: float) -> float:
    return min(max(r, R_MIN), R_MAX)


def gain(r: float, passed: bool, beta: float, w: FloatArray) -> float:
    """ln (S' / S)."""
    if passed:
        return min(-math.log(r) / beta, 30.0)
    return max(w[4] * math.log(1 - r), -30.0)


def gain_adjoint(
    r: float, passed: bool, beta: float, w: FloatArray, bar: float, w_bar: FloatArray
) -> tuple[float, float]:
    """Gradients in r and beta; adds to w_bar."""
    if passed:
        ln_r = math.log(r)
        if -ln_r / beta > 30.0:
            return 0.0, 0.0
        return -bar / (r * beta), bar * ln_r / (beta * beta)
    ln_f = math.log(1 - r)
    if w[4] * ln_f < -30.0:
        return 0.0, 0.0
    w_bar[4] += bar * ln_f
    return -bar * w[4] / (1 - r), 0.0


def stabilities(
    nodes: IntArray,
    parent: NDArray[np.int32],
    ln_t: FloatArray,
    rating: FloatArray,
    repeated: IntArray,
    w: FloatArray,
    kept: FloatArray,
) -> FloatArray:
    """ln S after the history of each of `nodes` (all nodes' array); parents come first.

    `kept` (nodes, 5) takes what the adjoint needs: that of `recall`, and ln S' before its limits.
    """
    beta = shapes(w)
    ln_s = np.zeros(len(parent))
    for v in nodes:
        u = parent[v]
        if u < 0:
            ln_s[v] = w[0] + (w[1] - w[0]) * (rating[v] - 1) / 3
        else:
            b = beta[repeated[u]]
            r, base, share, growth = recall(ln_t[v], ln_s[u], rating[u] - 1, b, w)
            new = ln_s[u] + gain(limited(r), rating[v] > 1.5, b, w)
            ln_s[v] = min(max(new, LN_S_MIN), LN_S_MAX)
            if len(kept):
                kept[v, 0] = r
                kept[v, 1] = base
                kept[v, 2] = share
                kept[v, 3] = growth
                kept[v, 4] = new
    return ln_s


def predicted(
    node: NDArray[np.int32],
    ln_t: FloatArray,
    rating: FloatArray,
    repeated: IntArray,
    ln_s: FloatArray,
    w: FloatArray,
) -> FloatArray:
    """R of trials, ln_t after the history at their node."""
    beta = shapes(w)
    p = np.empty(len(node))
    for k in range(len(node)):
        u = node[k]
        r, _, _, _ = recall(ln_t[k], ln_s[u], rating[u] - 1, beta[repeated[u]], w)
        p[k] = limited(r)
    return p


def loss_and_gradient(
    nodes: IntArray,
    parent: NDArray[np.int32],
    node_ln_t: FloatArray,
    rating: FloatArray,
    repeated: IntArray,
    node: NDArray[np.int32],
    ln_t: FloatArray,
    y: FloatArray,
    weight: FloatArray,
    w: FloatArray,
) -> tuple[float, FloatArray]:
    """Weighted sum of the log losses of the trials, and its gradient in w (7,)."""
    kept = np.empty((len(parent), 5))
    ln_s = stabilities(nodes, parent, node_ln_t, rating, repeated, w, kept)
    beta = shapes(w)
    loss = 0.0
    bar = np.zeros(len(parent))
    beta_bar = np.zeros(len(beta))
    w_bar = np.zeros(7)
    for k in range(len(node)):
        u = node[k]
        b = beta[repeated[u]]
        found = recall(ln_t[k], ln_s[u], rating[u] - 1, b, w)
        p = limited(found[0])
        loss += weight[k] * loss_of(p, y[k])
        if p == found[0]:
            p_bar = weight[k] * slope_of(p, y[k])
            s_bar, b_bar = recall_adjoint(ln_t[k], rating[u] - 1, b, w, found, p_bar, w_bar)
            bar[u] += s_bar
            beta_bar[repeated[u]] += b_bar
    for at in range(len(nodes) - 1, -1, -1):
        v = nodes[at]
        u = parent[v]
        if u < 0:
            share = (rating[v] - 1) / 3
            w_bar[0] += bar[v] * (1 - share)
            w_bar[1] += bar[v] * share
            continue
        if bar[v] == 0.0 or kept[v, 4] < LN_S_MIN or kept[v, 4] > LN_S_MAX:
            continue
        b = beta[repeated[u]]
        found = (kept[v, 0], kept[v, 1], kept[v, 2], kept[v, 3])
        r = limited(found[0])
        r_bar, b_bar = gain_adjoint(r, rating[v] > 1.5, b, w, bar[v], w_bar)
        bar[u] += bar[v]
        beta_bar[repeated[u]] += b_bar
        if r == found[0]:
            s_bar, b_bar = recall_adjoint(node_ln_t[v], rating[u] - 1, b, w, found, r_bar, w_bar)
            bar[u] += s_bar
            beta_bar[repeated[u]] += b_bar
    shapes_adjoint(w, beta, beta_bar, w_bar)
    return loss, w_bar


def repeats(parent: NDArray[np.int32], rating: FloatArray) -> IntArray:
    """2 n of each node."""
    twice = np.zeros(len(parent), np.int64)
    for v in range(len(parent)):
        twice[v] = max(0, 3 - int(rating[v]))
        if parent[v] >= 0:
            twice[v] = min(twice[v] + twice[parent[v]], MOST_REPEATED)
    return twice


def with_ancestors(parent: NDArray[np.int32], node: NDArray[np.int32]) -> IntArray:
    """The nodes and all that they come from, ascending."""
    needed = np.zeros(len(parent), np.bool_)
    for v in node:
        while v >= 0 and not needed[v]:
            needed[v] = True
            v = parent[v]
    return np.flatnonzero(needed)


@dataclass(frozen=True, eq=False)
class Histories:
    """The trie of histories as this model reads it (arrays of nodes)."""

    parent: NDArray[np.int32]
    ln_t: FloatArray
    rating: FloatArray
    repeated: IntArray  # 2 n
    node: NDArray[np.int32]  # of each trial's history


def make_histories(trials: Trials) -> Histories:
    trie = history_trie(trials)
    return Histories(
        trie.parent,
        _ln(trie.delta_t),
        trie.rating,
        compiled(repeats)(trie.parent, trie.rating),
        trie.node,
    )


def _ln(t: FloatArray) -> FloatArray:
    return np.log(np.maximum(t, 1e-9))


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
    h = trials.derived(make_histories)
    node, ln_t, y = h.node[rows], _ln(trials.delta_t[rows]), trials.y[rows]
    nodes = compiled(with_ancestors)(h.parent, node)
    start = np.array(START)
    total = float(weight.sum())
    pull = PULL / len(rows)
    done = [0]

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        done[0] += 1
        context.tick(min(done[0] / 100, 0.99))
        loss, bar = compiled(loss_and_gradient)(
            nodes, h.parent, h.ln_t, h.rating, h.repeated, node, ln_t, y, weight, bounded(w)
        )
        away = (w - start) / SIGMA
        value = loss / total + pull * float(away @ away)
        slope = bounded_adjoint(w, bar) / total + 2 * pull * away / SIGMA
        if not (math.isfinite(value) and np.isfinite(slope).all()):
            return 1e6, np.zeros(7)
        return value, slope

    w = minimise(
        objective,
        start,
        iterations=ITERATIONS,
        history=20,
        tolerance_gradient=1e-7,
        tolerance_change=1e-9,
    )
    if not objective(w)[0] <= objective(start)[0]:
        w = start
    decimals = 6 if trials.protocol.secs else 4
    return [round(x, decimals) for x in w.tolist()]


def predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    h = trials.derived(make_histories)
    w = bounded(np.array(parameters, np.float64))
    node = h.node[index]
    nodes = compiled(with_ancestors)(h.parent, node)
    ln_s = compiled(stabilities)(nodes, h.parent, h.ln_t, h.rating, h.repeated, w, np.empty((0, 5)))
    p: FloatArray = compiled(predicted)(
        node, _ln(trials.delta_t[index]), h.rating, h.repeated, ln_s, w
    )
    return p


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
        seconds_per_10k=0.17,
    ),
)
