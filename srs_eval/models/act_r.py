"""ACT-R's declarative memory with the spacing effect (Pavlik and Anderson, 2005), of one card.

    m_n = ln( sum over k < n of max(1, 86400 h (t_n - t_k))^(-d_k) )
    d_k = c e^(m_k) + a,  m_1 = -infinity
    p   = 1 / (1 + e^((tau - m_n) / s))

with t_k the time of the card's k-th review in days, h the scale of time between sessions
(interference), and w = (a, c, s, tau, h). Grades are not used.

Practice and forgetting effects on vocabulary memory: an activation-based model of the
spacing effect (Cognitive Science 29, 2005), equations 1, 5 and 6. Start, limits and
training are those of srs-benchmark other.py `class ACT_R` (January 2025), which cuts the
time at one second (the max above) and limits a, c, s and h to 0.001 ... 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from srs_eval.errors import NotEnoughData
from srs_eval.fitting.compile import compiled
from srs_eval.fitting.history_training import adam
from srs_eval.fitting.loss import loss_of, single, slope_of
from srs_eval.fitting.tie_order import quicksort_order
from srs_eval.models import Context, Model
from srs_eval.protocol import Trials
from srs_eval.reviews import FloatArray, IntArray

START = (0.176786766570677, 0.216967308403809, 0.254893976981164, -0.704205679427144, 0.025)
LEAST = np.array([0.001, 0.001, 0.001, -np.inf, 0.001])
MOST = np.array([1.0, 1.0, 1.0, -0.001, 1.0])
SECONDS = 86_400.0
TINY = 1e-300  # a sum of powers below this counts as this
NOT_KEPT = np.empty(0)


@dataclass(frozen=True, eq=False)
class Paths:
    """What activations depend on: the tree of all beginnings of interval sequences.

    Node v is reached by a sequence of `depth[v]` intervals. As an example of it serve the
    history rows `first_row[v] ... first_row[v] + depth[v]`, the last being the node's own.
    Nodes are numbered by depth, so that a node comes after those it depends on.
    """

    node: IntArray  # (m,) of each history row
    time: FloatArray  # (m,) days since the card's first review
    depth: IntArray  # (nodes,)
    first_row: IntArray  # (nodes,)
    ln_days: FloatArray
    """ln of 0, 1, 2 ... days where all intervals are whole, else empty."""


def make_paths(trials: Trials) -> Paths:
    delta_t = trials.history_delta_t
    m = len(delta_t)
    length = np.zeros(m, np.int64)  # of each card's needed rows, at the card's first row
    np.maximum.at(length, trials.history_start, trials.sequence_length + 1)
    starts = np.flatnonzero(length)
    starts = starts[np.argsort(-length[starts], kind="stable")]
    lengths = length[starts]
    time = np.zeros(m)
    _, interval = np.unique(delta_t, return_inverse=True)
    node = np.zeros(m, np.int64)
    depths, rows = [np.zeros(1, np.int64)], [starts[:1]]
    known = 1
    parent = np.zeros(len(starts), np.int64)
    for step in range(1, int(lengths.max())):
        count = int(np.searchsorted(-lengths, -step, side="left"))
        own = starts[:count] + step
        time[own] = time[own - 1] + delta_t[own]
        key = parent[:count] * (m + 1) + interval[own]
        _, example, place = np.unique(key, return_index=True, return_inverse=True)
        parent = known + place
        node[own] = parent
        depths.append(np.full(len(example), step))
        rows.append(starts[example])
        known += len(example)
    whole = not np.any(delta_t % 1)
    longest = int(time.max()) if whole else 0
    if whole and longest < 10**6:
        ln_days = np.log(np.maximum(np.arange(longest + 1.0), TINY))
    else:
        ln_days = np.empty(0)
    return Paths(node, time, np.concatenate(depths), np.concatenate(rows), ln_days)


def ln_age(time: FloatArray, ln_days: FloatArray, ln_scale: float, now: int, row: int) -> float:
    """ln of 86400 h (t_now - t_row)."""
    age = time[now] - time[row]
    if len(ln_days):
        return ln_scale + ln_days[int(age)]
    return ln_scale + math.log(max(age, TINY))


def recall(activation: float, w: FloatArray) -> float:
    """p, from e^m."""
    return 1 / (1 + math.exp((w[3] - math.log(max(activation, TINY))) / w[2]))


def activations(
    nodes: IntArray,
    node: IntArray,
    time: FloatArray,
    depth: IntArray,
    first_row: IntArray,
    ln_days: FloatArray,
    w: FloatArray,
    powers: FloatArray,
) -> FloatArray:
    """e^m of `nodes`, which hold all that they depend on, ascending (all nodes' array).

    `powers` takes the terms of all sums, one after the other; if empty, they are not kept.
    """
    activation = np.zeros(len(depth))
    ln_scale = math.log(SECONDS * w[4])
    place = 0
    for v in nodes:
        now = first_row[v] + depth[v]
        total = 0.0
        for row in range(first_row[v], now):
            decay = w[1] * activation[node[row]] + w[0]
            power = math.exp(-decay * max(ln_age(time, ln_days, ln_scale, now, row), 0.0))
            if len(powers):
                powers[place] = power
                place += 1
            total += power
        activation[v] = total
    return activation


def loss(
    nodes: IntArray,
    passes: FloatArray,
    failures: FloatArray,
    activation: FloatArray,
    w: FloatArray,
) -> float:
    """Summed loss of the nodes with these weights of passes and failures."""
    total = 0.0
    for k in range(len(nodes)):
        if passes[k] + failures[k] > 0:
            p = single(recall(activation[nodes[k]], w))
            total += passes[k] * loss_of(p, 1.0) + failures[k] * loss_of(p, 0.0)
    return total


def gradient(
    nodes: IntArray,
    passes: FloatArray,
    failures: FloatArray,
    activation: FloatArray,
    node: IntArray,
    time: FloatArray,
    depth: IntArray,
    first_row: IntArray,
    ln_days: FloatArray,
    w: FloatArray,
    powers: FloatArray,
) -> FloatArray:
    """Gradient of `loss` in w (5,): reverse mode over the nodes, last first.

    `powers` are those of `activations`.
    """
    bar = np.zeros(5)
    place = len(powers)
    activation_bar = np.zeros(len(depth))
    ln_scale = math.log(SECONDS * w[4])
    for k in range(len(nodes) - 1, -1, -1):
        v = nodes[k]
        now = first_row[v] + depth[v]
        place -= depth[v]
        a = activation[v]
        if passes[k] + failures[k] > 0:
            p = recall(a, w)
            rounded = single(p)
            p_bar = passes[k] * slope_of(rounded, 1.0) + failures[k] * slope_of(rounded, 0.0)
            u = (w[3] - math.log(max(a, TINY))) / w[2]  # p = sigmoid(-u)
            u_bar = -p_bar * p * (1 - p)
            bar[2] -= u_bar * u / w[2]
            bar[3] += u_bar / w[2]
            if a > TINY:
                activation_bar[v] -= u_bar / (w[2] * a)
        a_bar = activation_bar[v]
        if a_bar == 0.0:
            continue
        for row in range(first_row[v], now):
            before = activation[node[row]]
            decay = w[1] * before + w[0]
            ln = ln_age(time, ln_days, ln_scale, now, row)
            if ln < 0.0:
                continue
            power_bar = a_bar * powers[place + row - first_row[v]]
            decay_bar = -ln * power_bar
            bar[0] += decay_bar
            bar[1] += decay_bar * before
            bar[4] -= decay * power_bar / w[4]
            activation_bar[node[row]] += w[1] * decay_bar
    return bar


def closure(node: IntArray, start: IntArray, own: IntArray, count: int) -> IntArray:
    """The nodes of the rows start ... own of each trial, ascending."""
    needed = np.zeros(count, np.bool_)
    for trial in range(len(own)):
        for row in range(own[trial], start[trial] - 1, -1):
            if needed[node[row]]:
                break
            needed[node[row]] = True
    return np.flatnonzero(needed)


@dataclass(frozen=True, eq=False)
class _Part:
    """Some trials: their nodes with those these depend on, and the outcomes by node."""

    nodes: IntArray
    passes: FloatArray
    failures: FloatArray


def _part(paths: Paths, trials: Trials, rows: IntArray, weights: FloatArray) -> _Part:
    own = trials.history_end[rows]
    count = len(paths.depth)
    nodes = compiled(closure)(paths.node, trials.history_start[rows], own, count)
    y = trials.y[rows]
    place = np.searchsorted(nodes, paths.node[own])
    return _Part(
        nodes,
        np.bincount(place, weights * y, len(nodes)).astype(np.float64),
        np.bincount(place, weights * (1 - y), len(nodes)).astype(np.float64),
    )


def _activations(
    paths: Paths, nodes: IntArray, w: FloatArray, powers: FloatArray = NOT_KEPT
) -> FloatArray:
    result: FloatArray = compiled(activations)(
        nodes, paths.node, paths.time, paths.depth, paths.first_row, paths.ln_days, w, powers
    )
    return result


def _loss(paths: Paths, part: _Part, w: FloatArray) -> float:
    activation = _activations(paths, part.nodes, w)
    return float(compiled(loss)(part.nodes, part.passes, part.failures, activation, w))


def _gradient(paths: Paths, part: _Part, w: FloatArray) -> FloatArray:
    powers = np.empty(int(paths.depth[part.nodes].sum()))
    result: FloatArray = compiled(gradient)(
        part.nodes,
        part.passes,
        part.failures,
        _activations(paths, part.nodes, w, powers),
        paths.node,
        paths.time,
        paths.depth,
        paths.first_row,
        paths.ln_days,
        w,
        powers,
    )
    return result


def _clip(w: FloatArray) -> None:
    np.clip(w, LEAST, MOST, out=w)


def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """Fitted on the trials with at most `max_seq_len` reviews, their own included."""
    paths = trials.derived(make_paths)
    length = trials.sequence_length[train] + 1
    short = length <= trials.protocol.max_seq_len
    if not short.any():
        raise NotEnoughData("no history is short enough to train on")
    order = quicksort_order(length[short])
    rows, weights = train[short][order], weights[short][order]
    size = trials.protocol.batch_size
    batches = [
        _part(paths, trials, rows[at : at + size], weights[at : at + size])
        for at in range(0, len(rows), size)
    ]
    everything = _part(paths, trials, rows, weights)
    w = adam(
        np.array(START),
        lambda w, batch: _gradient(paths, batches[batch], w),
        lambda w: _loss(paths, everything, w),
        len(batches),
        n_epoch=5,
        rate=0.04,
        clip=_clip,
        tick=context.tick,
    )
    return [round(x, 4) for x in w.tolist()]


def predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    paths = trials.derived(make_paths)
    w = np.array(parameters, np.float64)
    own = trials.history_end[index]
    nodes = compiled(closure)(paths.node, trials.history_start[index], own, len(paths.depth))
    activation = _activations(paths, nodes, w)[paths.node[own]]
    u = (w[3] - np.log(np.maximum(activation, TINY))) / w[2]
    p = 1 / (1 + np.exp(np.minimum(u, 700.0)))
    return p.astype(np.float32).astype(np.float64)


MODELS = (
    Model(
        name="ACT-R",
        family="history",
        inputs="IL",
        parameters=5,
        source="Pavlik & Anderson 2005; srs-benchmark other.py, class ACT_R",
        fit=fit,
        predict=predict,
        default=lambda context: list(START),
        seconds_per_10k=0.018,
    ),
)
