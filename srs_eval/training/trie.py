"""All histories of a learner as one trie, and the parts of it that a batch needs.

A node is a history: its parent plus one review (delta_t, rating). Trials of one card
share nodes, as do cards that began alike. Nodes are numbered by level, then by kind
of review, so that a (level, kind) segment is one loop without branches, forward in
order and in reverse for gradients.

A batch consists of the nodes that its items, some trials, pass through (found by marking and
scanning, not sorting) and of targets: a node, an interval, and the weights of passes and failures
there. Segments and targets are padded to whole vectors; padding has weight 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.training.compile import compile_kernel
from srs_eval.training.elementwise import LANES
from srs_eval.training.packing import Int32Array, pack, unpack

_KIND_COUNT = 4
FIRST, SUCCESS, FAILURE, SAME_DAY = range(_KIND_COUNT)  # kinds of review; same day: delta_t < 1


class HistoryTrie(NamedTuple):
    """N nodes, and the positions of n trials among them."""

    parent: Int32Array  # (N,) -1 at level 0
    delta_t: FloatArray  # (N,) days
    rating: FloatArray  # (N,)
    segment_start: IntArray  # (_KIND_COUNT * levels + 1,) of segment _KIND_COUNT * level + kind
    node: Int32Array  # (n,) the history before each trial
    pair: Int32Array  # (n,) number of its (node, interval), which trials with one target share
    pairs: int


class TrieBatches(NamedTuple):
    """Batches one after the other; node numbers are relative to the batch's first."""

    first_node: IntArray  # (b + 1,)
    first_segment: IntArray  # (b + 1,)
    first_target: IntArray  # (b + 1,)
    kind: Int32Array  # per segment
    start: IntArray  # per segment, its first node, a multiple of LANES
    end: IntArray  # per segment, the node after its last one
    parent: Int32Array  # per node
    delta_t: FloatArray
    rating: FloatArray
    target_node: Int32Array  # per target
    target_delta_t: FloatArray
    passes: FloatArray  # per target, weight of its items that were recalled
    failures: FloatArray
    target: IntArray  # per item, its target's position


class _Histories(NamedTuple):
    """The input for building a trie: n trials, m history rows."""

    trials: int
    rows: int
    start: IntArray  # (n,) where a trial's history rows begin, and where they end
    end: IntArray
    delta_t: FloatArray  # (m,)
    bits: IntArray  # (m,) bits of delta_t, for equality and hashing
    rating: IntArray  # (m,)
    trial_bits: IntArray  # (n,) bits of the trials' own delta_t
    same_day_below: float  # days


class _Workspace(NamedTuple):
    """Arrays for building a trie; if the kernel allocated them, it would compile more slowly."""

    card_end: IntArray  # (m + 1,) zeros; at a card's first row, the end of its rows
    mask: int  # slots of the hash table - 1; the number of slots is a power of two
    slots: Int32Array  # of -1
    parent: Int32Array  # (m,) of the nodes in order of appearance, like all below
    row: IntArray  # (m,) a history row that reaches the node
    level: Int32Array  # (m,)
    number: Int32Array  # (m,) the node's final number
    segment: IntArray  # (m,)
    node_of_row: Int32Array  # (m,) of the history rows
    free: IntArray  # (segments,) next number in each segment
    trial_of_pair: IntArray  # (n,) the first trial with each pair


class _TrieSelection(NamedTuple):
    """Trials selected for batches, and the arrays that the selection needs."""

    batches: int
    items: IntArray  # positions of trials, batch after batch
    first_item: IntArray  # (b + 1,)
    delta_t: FloatArray  # (n,) of all trials
    y: FloatArray  # (n,)
    weights: FloatArray  # (n,)
    levels: int  # of the trie
    mark: Int32Array  # (N,) zeros; a number for the last batch that has the node
    segments: IntArray  # (b,) how many of the trie's segments a batch reaches
    local: Int32Array  # (N,) a node's number in the batch
    target_of_pair: IntArray  # (pairs,) of -1


def history_trie(trials: Trials, same_day: bool = True) -> HistoryTrie:
    """Return the trie of all histories of the trials, built once and kept with them.

    Without `same_day`, reviews of the same day are of the kind success or failure.
    """
    return trials.derived(_MAKE_TRIE[same_day])


def _make_trie(trials: Trials, same_day_below: float) -> HistoryTrie:
    n = len(trials)
    m = len(trials.history_rating)
    longest = int(trials.sequence_length.max()) if n else 0
    histories = _Histories(
        trials=n,
        rows=m,
        start=_to_contiguous(trials.history_start, np.int64),
        end=_to_contiguous(trials.history_end, np.int64),
        delta_t=_to_contiguous(trials.history_delta_t, np.float64),
        bits=_float_bits(trials.history_delta_t),
        rating=_to_contiguous(trials.history_rating, np.int64),
        trial_bits=_float_bits(trials.delta_t),
        same_day_below=same_day_below,
    )
    # There are at most as many nodes as rows, and at most as many pairs as trials, for which the
    # hash table serves, too. At most half of its slots are used.
    slots = 1 << max(4, (2 * max(m, n) - 1).bit_length())
    workspace = _Workspace(
        card_end=np.zeros(m + 1, np.int64),
        mask=slots - 1,
        slots=np.full(slots, -1, np.int32),
        parent=np.empty(m, np.int32),
        row=np.empty(m, np.int64),
        level=np.empty(m, np.int32),
        number=np.empty(m, np.int32),
        segment=np.empty(m, np.int64),
        node_of_row=np.full(m, -1, np.int32),
        free=np.empty(_KIND_COUNT * longest, np.int64),
        trial_of_pair=np.empty(n, np.int64),
    )
    trie = HistoryTrie(
        parent=np.empty(m, np.int32),
        delta_t=np.empty(m),
        rating=np.empty(m),
        segment_start=np.zeros(_KIND_COUNT * longest + 1, np.int64),
        node=np.empty(n, np.int32),
        pair=np.empty(n, np.int32),
        pairs=0,
    )
    nodes, levels, pairs = compile_kernel(_fill_trie)(pack(histories), pack(workspace), pack(trie))
    return trie._replace(
        parent=trie.parent[:nodes].copy(),
        delta_t=trie.delta_t[:nodes].copy(),
        rating=trie.rating[:nodes].copy(),
        segment_start=trie.segment_start[: _KIND_COUNT * levels + 1],
        pairs=pairs,
    )


# With days as the unit, no review comes less than 0.0 after the one before, and same-day reviews
# come less than 1.0 after it.
_MAKE_TRIE = {
    same_day: partial(_make_trie, same_day_below=float(same_day)) for same_day in (False, True)
}


def _to_contiguous(column: NDArray[Any], dtype: Any) -> NDArray[Any]:
    return np.ascontiguousarray(column, dtype)


def _float_bits(x: FloatArray) -> IntArray:
    """Return the numbers' bits, for equality and hashing."""
    return np.ascontiguousarray(x, np.float64).view(np.int64)


def cut_batches(
    trie: HistoryTrie,
    trials: Trials,
    batches: Sequence[IntArray],
    weights: FloatArray | None = None,
) -> TrieBatches:
    """Cut out the batches with these positions of trials, in this order.

    `weights` (n,) are the weights of all trials; None stands for 1.
    """
    sizes = np.array([0, *(len(batch) for batch in batches)])
    first_item = np.cumsum(sizes)
    items = np.concatenate(batches) if batches else np.empty(0, np.int64)
    items = items.astype(np.int64, copy=False)
    if weights is None:
        weights = np.ones(len(trials))
    nodes = len(trie.parent)
    count = len(batches)
    selection = _TrieSelection(
        batches=count,
        items=items,
        first_item=first_item,
        delta_t=_to_contiguous(trials.delta_t, np.float64),
        y=_to_contiguous(trials.y, np.float64),
        weights=_to_contiguous(weights, np.float64),
        levels=len(trie.segment_start) // _KIND_COUNT,
        mark=np.zeros(nodes, np.int32),
        segments=np.zeros(count, np.int64),
        local=np.empty(nodes, np.int32),
        target_of_pair=np.full(trie.pairs, -1, np.int64),
    )
    trie_table = pack(trie)
    selection_table = pack(selection)
    measure = compile_kernel(_measure_batches)
    node_room, segment_room = measure(trie_table, selection_table)
    target_room = len(items) + (LANES - 1) * count
    trie_batches = TrieBatches(
        first_node=np.zeros(count + 1, np.int64),
        first_segment=np.zeros(count + 1, np.int64),
        first_target=np.zeros(count + 1, np.int64),
        kind=np.empty(segment_room, np.int32),
        start=np.empty(segment_room, np.int64),
        end=np.empty(segment_room, np.int64),
        parent=np.zeros(node_room, np.int32),
        delta_t=np.ones(node_room),
        rating=np.full(node_room, 3.0),
        target_node=np.zeros(target_room, np.int32),
        target_delta_t=np.ones(target_room),
        passes=np.zeros(target_room),
        failures=np.zeros(target_room),
        target=np.empty(len(items), np.int64),
    )
    compile_kernel(_fill_batches)(trie_table, selection_table, pack(trie_batches))
    return trie_batches


def _hash_slot(a: Any, b: Any, c: Any, mask: Any) -> Any:
    """Return the slot where the search for a key begins, in a hash table of mask + 1 slots."""
    h = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
    h ^= np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F)
    h ^= np.uint64(c) * np.uint64(0x165667B19E3779F9)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(32)
    return np.int64(h & np.uint64(mask))  # signed, for numba


def _fill_trie(
    histories_table: IntArray, workspace_table: IntArray, trie_table: IntArray
) -> tuple[int, int, int]:
    """Fill the trie's arrays; return the numbers of nodes, levels and pairs."""
    histories = unpack(histories_table, _Histories)
    work = unpack(workspace_table, _Workspace)
    trie = unpack(trie_table, HistoryTrie)
    end, bits, rating = histories.end, histories.bits, histories.rating
    card_end, mask, slots = work.card_end, work.mask, work.slots
    parent, row, level = work.parent, work.row, work.level
    number, segment, free = work.number, work.segment, work.free
    segment_start = trie.segment_start
    for k in range(histories.trials):
        start = histories.start[k]
        if end[k] > card_end[start]:
            card_end[start] = end[k]

    # Nodes in order of appearance: parents come before their children.
    nodes = 0
    levels = 0
    for start in range(histories.rows):
        before: Any = -1
        for k in range(start, card_end[start]):
            slot = _hash_slot(before, bits[k], rating[k], mask)
            while True:
                node_number: Any = np.int64(slots[slot])
                if node_number < 0:
                    slots[slot] = nodes
                    parent[nodes] = before
                    row[nodes] = k
                    level[nodes] = k - start
                    if k - start >= levels:
                        levels = k - start + 1
                    node_number = nodes
                    nodes += 1
                    break
                same = row[node_number]
                if (
                    parent[node_number] == before
                    and bits[same] == bits[k]
                    and rating[same] == rating[k]
                ):
                    break
                slot = (slot + 1) & mask
            work.node_of_row[k] = node_number
            before = node_number

    # Number them by level, then by kind (counting sort, stable).
    for node in range(nodes):
        k = row[node]
        kind = SUCCESS
        if level[node] == 0:
            kind = FIRST
        elif histories.delta_t[k] < histories.same_day_below:
            kind = SAME_DAY
        elif rating[k] == 1:
            kind = FAILURE
        segment[node] = _KIND_COUNT * level[node] + kind
        segment_start[segment[node] + 1] += 1
    for s in range(_KIND_COUNT * levels):
        segment_start[s + 1] += segment_start[s]
        free[s] = segment_start[s]
    for node in range(nodes):
        to = free[segment[node]]
        free[segment[node]] += 1
        number[node] = to
        trie.parent[to] = number[parent[node]] if parent[node] >= 0 else -1
        trie.delta_t[to] = histories.delta_t[row[node]]
        trie.rating[to] = rating[row[node]]

    return nodes, levels, _number_pairs(histories, work, trie)


def _number_pairs(histories: Any, work: Any, trie: Any) -> int:
    """Fill in the trials' nodes and pairs (node, interval); return the number of pairs."""
    slots, mask = work.slots, work.mask
    for slot in range(mask + 1):
        slots[slot] = -1
    pairs = 0
    for k in range(histories.trials):
        node = work.number[work.node_of_row[histories.end[k] - 1]]
        trie.node[k] = node
        slot = _hash_slot(node, histories.trial_bits[k], 7, mask)  # 7: any constant
        while True:
            pair: Any = np.int64(slots[slot])
            if pair < 0:
                slots[slot] = pairs
                work.trial_of_pair[pairs] = k
                pair = pairs
                pairs += 1
                break
            same = work.trial_of_pair[pair]
            if trie.node[same] == node and histories.trial_bits[same] == histories.trial_bits[k]:
                break
            slot = (slot + 1) & mask
        trie.pair[k] = pair
    return pairs


def _measure_batches(trie_table: IntArray, selection_table: IntArray) -> tuple[int, int]:
    """Return the room for the nodes and the segments of all batches, padding included.

    Fills in `segments` and leaves marks in the selection.
    """
    trie = unpack(trie_table, HistoryTrie)
    selection = unpack(selection_table, _TrieSelection)
    parent, mark = trie.parent, selection.mark
    node_room = 0
    segment_room = 0
    for b in range(selection.batches):
        count = 0
        deepest = -1
        for k in range(selection.first_item[b], selection.first_item[b + 1]):
            node = trie.node[selection.items[k]]
            if node > deepest:
                deepest = node
            while node >= 0 and mark[node] != b + 1:
                mark[node] = b + 1
                count += 1
                node = parent[node]
        # Segments that begin after the last node that is needed are not reached.
        reached = 0
        while reached < _KIND_COUNT * selection.levels and trie.segment_start[reached] <= deepest:
            reached += 1
        selection.segments[b] = reached
        most_segments = reached if reached < count else count  # each has a node
        node_room += count + (LANES - 1) * most_segments
        segment_room += most_segments
    return node_room, segment_room


def _fill_batches(trie_table: IntArray, selection_table: IntArray, batches_table: IntArray) -> None:
    """Fill the batches, for which there is room; marks are as `_measure_batches` leaves them."""
    trie = unpack(trie_table, HistoryTrie)
    selection = unpack(selection_table, _TrieSelection)
    batches = unpack(batches_table, TrieBatches)
    parent, node_of = trie.parent, trie.node
    items, first_item = selection.items, selection.first_item
    mark, local, target_of_pair = selection.mark, selection.local, selection.target_of_pair
    nodes = 0
    segment = 0
    targets = 0
    for b in range(selection.batches):
        stamp = selection.batches + b + 1  # unlike all marks of `_measure_batches`
        for k in range(first_item[b], first_item[b + 1]):
            node = node_of[items[k]]
            while node >= 0 and mark[node] != stamp:
                mark[node] = stamp
                node = parent[node]
        base = nodes
        for s in range(selection.segments[b]):
            begin = nodes
            for node in range(trie.segment_start[s], trie.segment_start[s + 1]):
                if mark[node] == stamp:
                    local[node] = nodes - base
                    if parent[node] >= 0:
                        batches.parent[nodes] = local[parent[node]]
                    batches.delta_t[nodes] = trie.delta_t[node]
                    batches.rating[nodes] = trie.rating[node]
                    nodes += 1
            if nodes > begin:
                nodes = begin + (nodes - begin + LANES - 1) // LANES * LANES
                batches.kind[segment] = s % _KIND_COUNT
                batches.start[segment] = begin
                batches.end[segment] = nodes
                segment += 1
        first_target_here = targets
        for k in range(first_item[b], first_item[b + 1]):
            item = items[k]
            target = target_of_pair[trie.pair[item]]
            if target < first_target_here:  # none yet, or one of an earlier batch
                target = targets
                target_of_pair[trie.pair[item]] = target
                batches.target_node[target] = local[node_of[item]]
                batches.target_delta_t[target] = selection.delta_t[item]
                targets += 1
            batches.target[k] = target
            batches.passes[target] += selection.weights[item] * selection.y[item]
            batches.failures[target] += selection.weights[item] * (1.0 - selection.y[item])
        targets = first_target_here + (targets - first_target_here + LANES - 1) // LANES * LANES
        batches.first_node[b + 1] = nodes
        batches.first_segment[b + 1] = segment
        batches.first_target[b + 1] = targets


# Histories step by step, for models that are not compiled


def card_steps(trials: Trials) -> tuple[IntArray, ...]:
    """Return, for k = 0, 1, ..., the history rows that are review k of their cards.

    Only rows that a trial looks back on are included. Cards keep their order from step to step,
    and cards with short histories come last. So the cards of a step are the first `len(rows)` of
    those of the step before, and so are their elements of a model's state (cards,). The last row
    before trial j is `history_end[j] - 1`.
    """
    return trials.derived(_compute_card_steps)


def _compute_card_steps(trials: Trials) -> tuple[IntArray, ...]:
    starts, card = np.unique(trials.history_start, return_inverse=True)
    lengths = np.zeros(len(starts), np.int64)
    np.maximum.at(lengths, card, trials.sequence_length)
    order = np.argsort(-lengths, kind="stable")
    starts = starts[order]
    lengths = lengths[order]
    steps = np.arange(lengths[0]) if len(lengths) else np.empty(0, np.int64)
    cards_left = len(lengths) - np.searchsorted(lengths[::-1], steps, side="right")
    return tuple(
        starts[:count] + step
        for step, count in zip(steps.tolist(), cards_left.tolist(), strict=True)
    )


def state_before(trials: Trials, after_review: FloatArray, index: IntArray) -> FloatArray:
    """Return the state before the trials `index`, given the state after each history row (m,)."""
    return after_review[trials.history_end[index] - 1]
