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

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Model
from srs_eval.training.compile import Gradient, as_function, compiled, specialised
from srs_eval.training.elementwise import LANES, Value, exp, log, minimum, where
from srs_eval.training.linear import BATCH_SIZE, HYPERPARAMETERS, adam
from srs_eval.training.optimisers import by_trial, length_order, training_rows

START = (0.176786766570677, 0.216967308403809, 0.254893976981164, -0.704205679427144, 0.025)
_LEAST = np.array([0.001, 0.001, 0.001, -np.inf, 0.001])
_MOST = np.array([1.0, 1.0, 1.0, -0.001, 1.0])
_SECONDS = 86_400.0
_TINY = 1e-300  # a sum of powers or a time below this counts as this


# The steps work on e^m and ln(t_n - t_k); `_left` is one term of the sum.


def _left(before: Value, ln_age: Value, w: Value) -> Value:
    """What is left of a practice that found the activation ln `before`."""
    ln = log(_SECONDS * w[4]) + ln_age
    return exp(-(w[1] * before + w[0]) * where(ln < 0.0, 0.0, ln))


def recall(activation: Value, w: Value) -> Value:
    """p, from e^m."""
    odds = (w[3] - log(where(activation < _TINY, _TINY, activation))) / w[2]
    return 1.0 / (1.0 + exp(minimum(odds, 700.0)))


# The tree


@dataclass(frozen=True, eq=False)
class _Paths:
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


def _make_paths(trials: Trials) -> _Paths:
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
        ln_days = np.log(np.maximum(np.arange(longest + 1.0), _TINY))
    else:
        ln_days = np.empty(0)
    return _Paths(node, time, np.concatenate(depths), np.concatenate(rows), ln_days)


class _Part(NamedTuple):
    """The nodes of some trials with those these depend on, and room for the kernel.

    They are ordered by depth; where it changes, nodes without outcomes fill up the LANES.
    """

    first: IntArray  # (groups + 1,) where a group's terms begin
    earlier: NDArray[np.int32]  # (terms,) the node before the practice
    ln_age: FloatArray  # (terms,) ln of the days since the practice
    passes: FloatArray  # (nodes,) weight of the trials that were recalled
    failures: FloatArray
    tape: FloatArray  # what terms leave for their gradients
    activation: FloatArray  # (1, nodes) result, e^m
    bar: FloatArray  # (1, nodes) its gradient
    w_bar: FloatArray  # (5, LANES) result, gradient in w


def _closure(
    node: IntArray, start: IntArray, own: IntArray, needed: NDArray[np.bool_], found: IntArray
) -> int:
    """Writes the nodes of the rows start ... own of each trial to `found`; how many.

    `needed` (all nodes,) is False and becomes so again.
    """
    count = 0
    for trial in range(len(own)):
        for row in range(own[trial], start[trial] - 1, -1):
            if needed[node[row]]:
                break
            needed[node[row]] = True
            found[count] = node[row]
            count += 1
    for k in range(count):
        needed[found[k]] = False
    return count


def _lay_out(
    nodes: IntArray,
    place: IntArray,
    first: IntArray,
    depth: IntArray,
    first_row: IntArray,
    node: IntArray,
    time: FloatArray,
    ln_days: FloatArray,
    place_of: NDArray[np.int32],
    earlier: NDArray[np.int32],
    ages: FloatArray,
) -> None:
    """Fills `earlier`, the logarithms of ages, and `place_of` (all nodes,), from each `place`."""
    for k in range(len(nodes)):
        place_of[nodes[k]] = place[k]
    for k in range(len(nodes)):
        v = nodes[k]
        to = first[place[k] // LANES] + place[k] % LANES
        now = first_row[v] + depth[v]
        for row in range(first_row[v], now):
            earlier[to] = place_of[node[row]]
            age = time[now] - time[row]
            ages[to] = ln_days[int(age)] if len(ln_days) else np.log(max(age, _TINY))
            to += LANES


def _part(
    paths: _Paths, trials: Trials, rows: IntArray, weights: FloatArray
) -> tuple[_Part, IntArray]:
    """The part for the kernel, and the node of each row."""
    own = trials.history_end[rows]
    start = trials.history_start[rows]
    count = len(paths.depth)
    found = np.empty(min(int((own - start + 1).sum()), count), np.int64)
    needed = np.zeros(count, np.bool_)
    found = found[: compiled(_closure)(paths.node, start, own, needed, found)]
    depth = paths.depth[found]
    nodes = found[np.argsort(depth.astype(np.int32), kind="stable")]
    of_depth = np.bincount(depth)
    groups = -(-of_depth // LANES)
    begin = np.cumsum(LANES * groups) - LANES * groups
    place = np.arange(len(nodes)) + np.repeat(begin - (np.cumsum(of_depth) - of_depth), of_depth)
    terms = np.repeat(LANES * np.arange(len(groups)), groups)
    first = np.concatenate(([0], np.cumsum(terms)))
    width = LANES * int(groups.sum())
    place_of = np.empty(count, np.int32)
    earlier, ln_age = np.zeros(first[-1], np.int32), np.zeros(first[-1])
    compiled(_lay_out)(
        *(nodes, place, first, paths.depth, paths.first_row),
        *(paths.node, paths.time, paths.ln_days, place_of, earlier, ln_age),
    )
    at, y = place_of[paths.node[own]].astype(np.int64), trials.y[rows]
    part = _Part(
        first=first,
        earlier=earlier,
        ln_age=ln_age,
        passes=np.bincount(at, weights * y, width).astype(np.float64),
        failures=np.bincount(at, weights * (1 - y), width).astype(np.float64),
        tape=np.empty(first[-1] * _tape_length()),
        activation=np.empty((1, width)),
        bar=np.empty((1, width)),
        w_bar=np.empty((len(START), LANES)),
    )
    return part, at


_LEFT_ADJOINT = Gradient(_left, ("before",), "w")


@cache
def _tape_length() -> int:
    """Numbers that a term's gradient has from the term."""
    from srs_eval.training.tracing import tape_length

    return tape_length(_left, as_function(_LEFT_ADJOINT), (0, 0), len(START))


@cache
def _kernel() -> Any:
    from srs_eval.training.sweeps import activations

    steps: dict[str, Any] = {
        "_left": _left,
        "_left_adjoint": _LEFT_ADJOINT,
        "_recall": recall,
        "_recall_adjoint": Gradient(recall, ("activation",), "w"),
    }
    constants = {"_PARAMETERS": len(START), "_TAPE": _tape_length()}
    return specialised(activations, "ACT_R", steps, constants, taped=["_left"])


def _loss(part: _Part, w: FloatArray) -> float:
    """Summed over the part's trials."""
    return float(_kernel()(False, w, part))


def _gradient(part: _Part, w: FloatArray) -> FloatArray:
    """Of the loss in w (5,)."""
    _kernel()(True, w, part)
    total: FloatArray = part.w_bar.sum(axis=1)
    return total


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """Fitted on the trials with at most `max_seq_len` reviews, their own included."""
    paths = trials.derived(_make_paths)
    rows = length_order(trials, training_rows(trials, train, trials.protocol.max_seq_len - 1))
    weights = by_trial(trials, train, weights)[rows]
    size = BATCH_SIZE.integer(context, trials.protocol)
    batches = [
        _part(paths, trials, rows[at : at + size], weights[at : at + size])[0]
        for at in range(0, len(rows), size)
    ]
    everything, _ = _part(paths, trials, rows, weights)
    w = adam(
        np.array(START),
        lambda w, batch: _gradient(batches[batch], w),
        lambda w: _loss(everything, w),
        len(batches),
        context,
        lower=_LEAST,
        upper=_MOST,
    )
    return [round(x, 4) for x in w.tolist()]


def _predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    if not len(index):
        return np.empty(0)
    w = np.array(parameters, np.float64)
    part, place = _part(trials.derived(_make_paths), trials, index, np.zeros(len(index)))
    _loss(part, w)
    p: FloatArray = recall(part.activation[0, place], w)
    return p.astype(np.float32).astype(np.float64)


MODELS = (
    Model(
        name="ACT-R",
        family="history",
        inputs="IL",
        parameters=5,
        source="Pavlik & Anderson 2005; srs-benchmark other.py, class ACT_R",
        fit=_fit,
        predict=_predict,
        default=lambda context: list(START),
        hyperparameters=HYPERPARAMETERS,
        seconds_per_10k=0.013,
    ),
)
