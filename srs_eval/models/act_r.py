"""ACT-R's declarative memory with the spacing effect (Pavlik and Anderson, 2005), for one card.

    m_n = ln( sum over k < n of max(1, 86400 h (t_n - t_k))^(-d_k) )
    d_k = c e^(m_k) + a,  m_1 = -infinity
    p   = 1 / (1 + e^((tau - m_n) / s))

with t_k the time of the card's k-th review in days, h the scale of time between sessions,
during which less interferes with memory, and w = (a, c, s, tau, h). Grades are not used.

Practice and forgetting effects on vocabulary memory: an activation-based model of the
spacing effect (Cognitive Science 29, 2005), equations 1, 5 and 6. Start, limits and
training are those of srs-benchmark other.py `class ACT_R` (January 2025), which cuts the
time at one second (the max above) and limits a, c, s and h to 0.001 ... 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Cost, TrainedModel
from srs_eval.training.compile import Gradient, compile_kernel, specialise, to_function
from srs_eval.training.elementwise import LANES, Value, exp, log, minimum, where
from srs_eval.training.linear import BATCH_SIZE, HYPERPARAMETERS, minimise_by_adam
from srs_eval.training.optimisers import select_training_rows, sort_by_length, spread_over_trials

START = (0.176786766570677, 0.216967308403809, 0.254893976981164, -0.704205679427144, 0.025)
_LOWER = np.array([0.001, 0.001, 0.001, -np.inf, 0.001])
_UPPER = np.array([1.0, 1.0, 1.0, -0.001, 1.0])
_SECONDS_PER_DAY = 86_400.0
_TINY = 1e-300  # smaller sums of powers and smaller times count as this


# The steps work on e^m and ln(t_n - t_k); `_remaining_strength` is one term of the sum.


def _remaining_strength(before: Value, ln_age: Value, w: Value) -> Value:
    """Return what remains of a practice that took place at the activation ln(`before`)."""
    ln_time = log(_SECONDS_PER_DAY * w[4]) + ln_age
    return exp(-(w[1] * before + w[0]) * where(ln_time < 0.0, 0.0, ln_time))


def recall(activation: Value, w: Value) -> Value:
    """Return the probability of recall p; `activation` is e^m."""
    log_odds_against = (w[3] - log(where(activation < _TINY, _TINY, activation))) / w[2]
    return 1.0 / (1.0 + exp(minimum(log_odds_against, 700.0)))


# The tree


@dataclass(frozen=True, eq=False)
class _PathTree:
    """The tree of all beginnings of cards' sequences of intervals, on which activations depend.

    Node v is reached by a sequence of `depth[v]` intervals, the last of which ends at `end[v]`. The
    practices it depends on are the `depth[v]` rows of the history from `first_row[v]`, of one card
    with this sequence. A node is deeper than the nodes it depends on.
    """

    node: IntArray  # (m,) node of each history row
    time: FloatArray  # (m,) days since the card's first review
    depth: IntArray  # (nodes,)
    first_row: IntArray  # (nodes,)
    end: FloatArray  # (nodes,) days since the card's first review
    ln_days: FloatArray
    """ln of 0, 1, 2 ... days if all intervals are whole, else empty."""


def _build_path_tree(trials: Trials) -> _PathTree:
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
    depths = [np.zeros(1, np.int64)]
    first_rows = [starts[:1]]
    nodes = 1
    parent = np.zeros(len(starts), np.int64)
    for step in range(1, int(lengths.max())):
        count = int(np.searchsorted(-lengths, -step, side="left"))
        rows = starts[:count] + step
        time[rows] = time[rows - 1] + delta_t[rows]
        key = parent[:count] * (m + 1) + interval[rows]  # one number for both
        _, example, child = np.unique(key, return_index=True, return_inverse=True)
        parent = nodes + child
        node[rows] = parent
        depths.append(np.full(len(example), step))
        first_rows.append(starts[example])
        nodes += len(example)
    depth = np.concatenate(depths)
    first_row = np.concatenate(first_rows)
    has_whole_days = not np.any(delta_t % 1)
    longest = int(time.max()) if has_whole_days else 0
    if has_whole_days and longest < 10**6:
        ln_days = np.log(np.maximum(np.arange(longest + 1.0), _TINY))
    else:
        ln_days = np.empty(0)
    return _PathTree(
        node=node,
        time=time,
        depth=depth,
        first_row=first_row,
        end=time[first_row + depth],
        ln_days=ln_days,
    )


def _add_asked_nodes(paths: _PathTree, after: IntArray, days: FloatArray) -> _PathTree:
    """Return the tree with nodes `days` (t,) after each of the nodes `after` (k,).

    They are the last k t nodes, node by node.
    """
    end = (paths.end[after, None] + days).ravel()
    longest = int(end.max())
    has_whole_days = len(paths.ln_days) and not np.any(days % 1) and longest < len(paths.ln_days)
    return replace(
        paths,
        depth=np.concatenate((paths.depth, np.repeat(paths.depth[after] + 1, len(days)))),
        first_row=np.concatenate((paths.first_row, np.repeat(paths.first_row[after], len(days)))),
        end=np.concatenate((paths.end, end)),
        ln_days=paths.ln_days if has_whole_days else np.empty(0),
    )


class _KernelBatch(NamedTuple):
    """The nodes of some trials, the nodes they depend on, and buffers for the kernel.

    Nodes are ordered by depth; where the depth changes, nodes without outcomes fill up the LANES.
    """

    first: IntArray  # (groups + 1,) where a group's terms begin
    earlier: NDArray[np.int32]  # (terms,) the node before the practice
    ln_age: FloatArray  # (terms,) ln of the days since the practice
    passes: FloatArray  # (nodes,) weight of the trials that were recalled
    failures: FloatArray
    tape: FloatArray  # numbers that terms save for their gradients
    activation: FloatArray  # (1, nodes) result, e^m
    bar: FloatArray  # (1, nodes) gradient with respect to the activation
    w_bar: FloatArray  # (5, LANES) result, gradient with respect to w


def _collect_needed_nodes(
    node: IntArray, start: IntArray, own: IntArray, needed: NDArray[np.bool_], found: IntArray
) -> int:
    """Write the nodes of rows start ... own of each trial to `found`, and return their number.

    `needed` (all nodes,) must be False everywhere and is so again afterwards.
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


def _fill_batch(
    nodes: IntArray,
    position: IntArray,
    first: IntArray,
    depth: IntArray,
    first_row: IntArray,
    end: FloatArray,
    node: IntArray,
    time: FloatArray,
    ln_days: FloatArray,
    position_of: NDArray[np.int32],
    earlier: NDArray[np.int32],
    ages: FloatArray,
) -> None:
    """Fill `position_of` (all nodes,) from `position`, then `earlier` and `ages` (logarithms)."""
    for k in range(len(nodes)):
        position_of[nodes[k]] = position[k]
    for k in range(len(nodes)):
        v = nodes[k]
        to = first[position[k] // LANES] + position[k] % LANES
        for row in range(first_row[v], first_row[v] + depth[v]):
            earlier[to] = position_of[node[row]]
            age = end[v] - time[row]
            ages[to] = ln_days[int(age)] if len(ln_days) else np.log(max(age, _TINY))
            to += LANES


def _find_nodes(paths: _PathTree, start: IntArray, own: IntArray) -> IntArray:
    """Return the nodes of the rows start ... own of each trial, each node once."""
    count = len(paths.depth)
    nodes = np.empty(min(int((own - start + 1).sum()), count), np.int64)
    needed = np.zeros(count, np.bool_)
    n = compile_kernel(_collect_needed_nodes)(paths.node, start, own, needed, nodes)
    found: IntArray = nodes[:n]
    return found


def _make_batch(
    paths: _PathTree,
    nodes: IntArray,
    asked: IntArray,
    passes: FloatArray | None = None,
    failures: FloatArray | None = None,
) -> tuple[_KernelBatch, IntArray]:
    """Return the batch of `nodes` for the kernel, and the position of each node `asked` in it.

    `nodes` must hold all that they depend on, each once. `passes` and `failures` are weights of
    trials that end in the nodes `asked` (none without them).
    """
    depth = paths.depth[nodes]
    nodes = nodes[np.argsort(depth.astype(np.int32), kind="stable")]
    nodes_of_depth = np.bincount(depth)
    groups = -(-nodes_of_depth // LANES)
    begin = np.cumsum(LANES * groups) - LANES * groups
    first_node_of_depth = np.cumsum(nodes_of_depth) - nodes_of_depth
    position = np.arange(len(nodes)) + np.repeat(begin - first_node_of_depth, nodes_of_depth)
    terms = np.repeat(LANES * np.arange(len(groups)), groups)
    first = np.concatenate(([0], np.cumsum(terms)))
    width = LANES * int(groups.sum())  # nodes, with those that fill up groups
    position_of_node = np.empty(len(paths.depth), np.int32)
    earlier = np.zeros(first[-1], np.int32)
    ln_age = np.zeros(first[-1])
    compile_kernel(_fill_batch)(
        nodes,
        position,
        first,
        paths.depth,
        paths.first_row,
        paths.end,
        paths.node,
        paths.time,
        paths.ln_days,
        position_of_node,
        earlier,
        ln_age,
    )
    asked_position = position_of_node[asked].astype(np.int64)
    batch = _KernelBatch(
        first=first,
        earlier=earlier,
        ln_age=ln_age,
        passes=_sum_by_position(asked_position, passes, width),
        failures=_sum_by_position(asked_position, failures, width),
        tape=np.empty(first[-1] * _compute_tape_length()),
        activation=np.empty((1, width)),
        bar=np.empty((1, width)),
        w_bar=np.empty((len(START), LANES)),
    )
    return batch, asked_position


def _sum_by_position(position: IntArray, weights: FloatArray | None, width: int) -> FloatArray:
    if weights is None:
        return np.zeros(width)
    return np.bincount(position, weights, width).astype(np.float64)


def _make_training_batch(
    paths: _PathTree, trials: Trials, rows: IntArray, weights: FloatArray
) -> _KernelBatch:
    """Return the batch of the trials `rows` with their outcomes, weighted."""
    own_row = trials.history_end[rows]
    nodes = _find_nodes(paths, trials.history_start[rows], own_row)
    y = trials.y[rows]
    batch, _ = _make_batch(paths, nodes, paths.node[own_row], weights * y, weights * (1 - y))
    return batch


_TERM_ADJOINT = Gradient(_remaining_strength, ("before",), "w")


@cache
def _compute_tape_length() -> int:
    """Return how many numbers a term saves for its gradient."""
    from srs_eval.training.tracing import compute_tape_length

    return compute_tape_length(_remaining_strength, to_function(_TERM_ADJOINT), (0, 0), len(START))


@cache
def _compile_kernel() -> Any:
    from srs_eval.training.sweeps import activation_pass

    steps: dict[str, Any] = {
        "_term": _remaining_strength,
        "_term_adjoint": _TERM_ADJOINT,
        "_recall": recall,
        "_recall_adjoint": Gradient(recall, ("activation",), "w"),
    }
    constants = {"_PARAMETERS": len(START), "_TAPE": _compute_tape_length()}
    return specialise(activation_pass, "ACT_R", steps, constants, taped=["_term"])


def _compute_loss(batch: _KernelBatch, w: FloatArray) -> float:
    """Return the loss summed over the batch's trials."""
    return float(_compile_kernel()(False, w, batch))


def _compute_gradient(batch: _KernelBatch, w: FloatArray) -> FloatArray:
    """Return the gradient of the loss with respect to w (5,)."""
    _compile_kernel()(True, w, batch)
    total: FloatArray = batch.w_bar.sum(axis=1)
    return total


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """Fit the parameters to trials with at most `max_seq_len` reviews, their own included."""
    paths = trials.derived(_build_path_tree)
    rows = sort_by_length(
        trials, select_training_rows(trials, train, trials.protocol.max_seq_len - 1)
    )
    weights = spread_over_trials(trials, train, weights)[rows]
    size = BATCH_SIZE.integer_in(context, trials.protocol)
    batches = []
    for first in range(0, len(rows), size):
        batch_rows = slice(first, first + size)
        batches.append(_make_training_batch(paths, trials, rows[batch_rows], weights[batch_rows]))
    everything = _make_training_batch(paths, trials, rows, weights)
    w = minimise_by_adam(
        np.array(START),
        lambda w, number: _compute_gradient(batches[number], w),
        lambda w: _compute_loss(everything, w),
        len(batches),
        context,
        lower=_LOWER,
        upper=_UPPER,
    )
    return [round(x, 4) for x in w.tolist()]


def _predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    if not len(index):
        return np.empty(0)
    paths = trials.derived(_build_path_tree)
    own_row = trials.history_end[index]
    nodes = _find_nodes(paths, trials.history_start[index], own_row)
    return _predict_nodes(paths, nodes, paths.node[own_row], parameters)


def _predict_at(
    trials: Trials,
    parameters: Any,
    index: IntArray,
    days: FloatArray,
    elapsed_days: IntArray,
    context: Context,
) -> FloatArray:
    if not elapsed_days.size:
        return np.empty(elapsed_days.shape)
    paths = trials.derived(_build_path_tree)
    last_row = trials.history_end[index] - 1
    practised = _find_nodes(paths, trials.history_start[index], last_row)
    last, number = np.unique(paths.node[last_row], return_inverse=True)  # many cards have the same
    asked = len(paths.depth) + np.arange(len(last) * len(days))
    longer_paths = _add_asked_nodes(paths, last, days)
    p = _predict_nodes(longer_paths, np.concatenate((practised, asked)), asked, parameters)
    recall_after: FloatArray = p.reshape(len(last), len(days))[number]
    return recall_after


def _predict_nodes(
    paths: _PathTree, nodes: IntArray, asked: IntArray, parameters: Any
) -> FloatArray:
    """Return the recall at the nodes `asked` (k,), of `nodes` as in `_make_batch`."""
    w = np.array(parameters, np.float64)
    batch, position = _make_batch(paths, nodes, asked)
    _compute_loss(batch, w)
    p: FloatArray = recall(batch.activation[0, position], w)
    return p.astype(np.float32).astype(np.float64)


MODELS = (
    TrainedModel(
        name="ACT-R",
        family="history",
        inputs="IL",
        parameters=5,
        source="Pavlik & Anderson 2005; srs-benchmark other.py, class ACT_R",
        fit=_fit,
        predict=_predict,
        predict_at=_predict_at,
        default=lambda context: list(START),
        hyperparameters=HYPERPARAMETERS,
        cost=Cost(seconds_per_10k=0.013, seconds_to_compile=1.8),
    ),
)
