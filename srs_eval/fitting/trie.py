"""All histories of a learner as one trie, and the parts of it that a batch needs.

A node is a history: its parent plus one review (delta_t, rating). Items of one card
share nodes, as do cards that began alike. Nodes are numbered by level, then by kind
of review, so that a (level, kind) segment is one loop without branches, forward in
order and in reverse for gradients.

A batch is the ancestors of its items (found by marking and scanning, not sorting)
plus targets: a node, an interval, and the weights of passes and failures there.
Segments and targets are padded to whole vectors; padding has weight 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval.fitting.compile import compiled
from srs_eval.protocol import Trials
from srs_eval.reviews import FloatArray, IntArray

LANES = 8  # as in simd
FIRST, SUCCESS, FAILURE, SAME_DAY = range(4)  # kinds of review; same day: delta_t < 1

Int32Array = NDArray[np.int32]


class Trie(NamedTuple):
    """N nodes and the places of n trials in it."""

    parent: Int32Array  # (N,) -1 at level 0
    delta_t: FloatArray  # (N,) days
    rating: FloatArray  # (N,)
    segment_start: IntArray  # (4 * levels + 1,) segment 4 * level + kind
    node: Int32Array  # (n,) the history before each trial
    pair: Int32Array  # (n,) number of (node, interval): equal for equal targets
    pairs: int


class Batches(NamedTuple):
    """Batches one after the other; node numbers are relative to the batch's first."""

    first_node: IntArray  # (b + 1,)
    first_segment: IntArray  # (b + 1,)
    first_target: IntArray  # (b + 1,)
    kind: Int32Array  # per segment
    start: IntArray  # per segment, of nodes, a multiple of LANES
    end: IntArray
    parent: Int32Array  # per node
    delta_t: FloatArray
    rating: FloatArray
    target_node: Int32Array  # per target
    target_delta_t: FloatArray
    passes: FloatArray  # weight of the items that were recalled
    failures: FloatArray
    target: IntArray  # per item, its target's position


def history_trie(trials: Trials, same_day: bool = True) -> Trie:
    """The trie of all histories of the trials, built once and kept with them.

    Without `same_day`, reviews of the same day are of the kind success or failure.
    """
    return trials.derived(_with_same_day if same_day else _without_same_day)


def _with_same_day(trials: Trials) -> Trie:
    return _build(trials, same_day_below=1.0)


def _without_same_day(trials: Trials) -> Trie:
    return _build(trials, same_day_below=0.0)


def _build(trials: Trials, same_day_below: float) -> Trie:
    n, m = len(trials), len(trials.history_rating)
    # A row is one node at most. The hash table serves the pairs, too.
    size = 1 << max(4, (2 * max(m, n) - 1).bit_length())
    parent, level, number = np.empty((3, m), np.int32)
    new_parent, node, pair = np.empty(m, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    delta_t, rating = np.empty((2, m))
    longest = int(trials.sequence_length.max()) if n else 0
    segment_start = np.zeros(4 * longest + 1, np.int64)
    nodes, levels, pairs = compiled(_build_trie)(
        trials.history_start,
        trials.history_end,
        _bits(trials.history_delta_t),
        np.ascontiguousarray(trials.history_delta_t),
        trials.history_rating,
        _bits(trials.delta_t),
        same_day_below,
        np.zeros(m + 1, np.int64),
        np.full(size, -1, np.int32),
        parent,
        np.empty(m, np.int64),
        level,
        np.full(m, -1, np.int32),
        np.empty(m, np.int64),
        segment_start,
        np.empty(4 * longest, np.int64),
        number,
        new_parent,
        delta_t,
        rating,
        node,
        pair,
        np.empty(n, np.int64),
    )
    return Trie(
        new_parent[:nodes].copy(),
        delta_t[:nodes].copy(),
        rating[:nodes].copy(),
        segment_start[: 4 * levels + 1],
        node,
        pair,
        pairs,
    )


def _bits(x: FloatArray) -> IntArray:
    """The numbers' bits, for equality and hashing."""
    return np.ascontiguousarray(x, np.float64).view(np.int64)


def make_batches(
    trie: Trie,
    trials: Trials,
    batches: Sequence[IntArray],
    weights: FloatArray | None = None,
) -> Batches:
    """The batches with these positions of trials, in this order.

    `weights` (n,) are those of all trials, 1 where None.
    """
    sizes = np.array([0, *(len(batch) for batch in batches)])
    first_item = np.cumsum(sizes)
    items = np.concatenate(batches) if batches else np.empty(0, np.int64)
    items = items.astype(np.int64, copy=False)
    if weights is None:
        weights = np.ones(len(trials))
    nodes, count = len(trie.parent), len(batches)
    mark = np.zeros(nodes, np.int32)
    segments = np.zeros(count, np.int64)
    node_room, segment_room = compiled(_measure)(
        trie.parent, trie.segment_start, trie.node, items, first_item, mark, segments
    )
    target_room = len(items) + (LANES - 1) * count
    made = Batches(
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
    compiled(_gather)(
        trie.parent,
        trie.delta_t,
        trie.rating,
        trie.segment_start,
        trie.node,
        trie.pair,
        np.ascontiguousarray(trials.delta_t),
        trials.y,
        weights,
        items,
        first_item,
        mark,
        segments,
        np.empty(nodes, np.int32),
        np.full(trie.pairs, -1, np.int64),
        *made,
    )
    return made


def _slot(a: Any, b: Any, c: Any, mask: Any) -> int:
    """Where the search for a key begins in a hash table of mask + 1 slots."""
    h = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
    h ^= np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F)
    h ^= np.uint64(c) * np.uint64(0x165667B19E3779F9)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(32)
    return np.int64(h & np.uint64(mask))  # type: ignore[return-value]  # signed, for numba


def _build_trie(
    history_start: IntArray,
    history_end: IntArray,
    bits: IntArray,  # of history_delta_t
    history_delta_t: FloatArray,
    history_rating: IntArray,
    trial_bits: IntArray,  # of the trials' delta_t
    same_day_below: float,
    # room to work in; arrays made in here would cost a second of compiling
    card_end: IntArray,  # (m + 1,) zeros
    table: Int32Array,  # (size,) of -1; size is a power of two
    parent: Int32Array,
    row: IntArray,  # a row that reaches the node
    level: Int32Array,
    node_of_row: Int32Array,
    segment: IntArray,
    # results
    segment_start: IntArray,  # zeros
    free: IntArray,
    number: Int32Array,
    new_parent: Int32Array,
    delta_t: FloatArray,
    rating: FloatArray,
    node_of_trial: Int32Array,
    pair: Int32Array,
    first: IntArray,  # a trial with this pair
) -> tuple[int, int, int]:
    """Fills the results; returns the numbers of nodes, levels and pairs."""
    n, m = len(history_start), len(history_rating)
    mask = len(table) - 1
    for k in range(n):
        start = history_start[k]
        if history_end[k] > card_end[start]:
            card_end[start] = history_end[k]

    # Nodes in order of appearance: parents come before their children.
    nodes = 0
    levels = 0
    for start in range(m):
        before = -1
        for k in range(start, card_end[start]):
            at = _slot(np.int64(before), bits[k], history_rating[k], mask)
            while True:
                found = table[at]
                if found < 0:
                    table[at] = nodes
                    parent[nodes] = before
                    row[nodes] = k
                    level[nodes] = k - start
                    levels = max(levels, k - start + 1)
                    found = nodes
                    nodes += 1
                    break
                same = row[found]
                if (
                    parent[found] == before
                    and bits[same] == bits[k]
                    and history_rating[same] == history_rating[k]
                ):
                    break
                at = (at + 1) & mask
            node_of_row[k] = found
            before = found

    # Number them by level, then by kind (counting sort, stable).
    for node in range(nodes):
        k = row[node]
        kind = 1
        if level[node] == 0:
            kind = 0
        elif history_delta_t[k] < same_day_below:
            kind = 3
        elif history_rating[k] == 1:
            kind = 2
        segment[node] = 4 * level[node] + kind
        segment_start[segment[node] + 1] += 1
    for s in range(4 * levels):
        segment_start[s + 1] += segment_start[s]
        free[s] = segment_start[s]
    for node in range(nodes):
        to = free[segment[node]]
        free[segment[node]] += 1
        number[node] = to
        new_parent[to] = number[parent[node]] if parent[node] >= 0 else -1
        delta_t[to] = history_delta_t[row[node]]
        rating[to] = history_rating[row[node]]

    for at in range(len(table)):
        table[at] = -1
    pairs = 0
    for k in range(n):
        node = number[node_of_row[history_end[k] - 1]]
        node_of_trial[k] = node
        at = _slot(np.int64(node), trial_bits[k], np.int64(7), mask)
        while True:
            found = table[at]
            if found < 0:
                table[at] = pairs
                first[pairs] = k
                found = pairs
                pairs += 1
                break
            if node_of_trial[first[found]] == node and trial_bits[first[found]] == trial_bits[k]:
                break
            at = (at + 1) & mask
        pair[k] = found
    return nodes, levels, pairs


def _measure(
    parent: Int32Array,
    segment_start: IntArray,
    node_of: Int32Array,
    items: IntArray,
    first_item: IntArray,
    mark: Int32Array,  # (N,) zeros
    segments: IntArray,  # (b,) result: how many of the trie's segments a batch reaches
) -> tuple[int, int]:
    """Room for the nodes and the segments of all batches, padding included."""
    node_room = 0
    segment_room = 0
    for b in range(len(segments)):
        count = 0
        deepest = -1
        for k in range(first_item[b], first_item[b + 1]):
            node = node_of[items[k]]
            if node > deepest:
                deepest = node
            while node >= 0 and mark[node] != b + 1:
                mark[node] = b + 1
                count += 1
                node = parent[node]
        last = 0
        while last < len(segment_start) - 1 and segment_start[last] <= deepest:
            last += 1
        segments[b] = last
        segments_here = last if last < count else count
        node_room += count + 7 * segments_here  # LANES - 1
        segment_room += segments_here
    return node_room, segment_room


def _gather(
    parent: Int32Array,
    delta_t: FloatArray,
    rating: FloatArray,
    segment_start: IntArray,
    node_of: Int32Array,
    pair_of: Int32Array,
    trial_delta_t: FloatArray,
    y: FloatArray,
    weights: FloatArray,
    items: IntArray,
    first_item: IntArray,
    mark: Int32Array,  # as _measure leaves it
    segments: IntArray,
    local: Int32Array,  # (N,) a node's number in the batch
    pair_mark: IntArray,  # (pairs,) of -1; the pair's target in the batch
    # results, see Batches
    first_node: IntArray,
    first_segment: IntArray,
    first_target: IntArray,
    kind: Int32Array,
    start: IntArray,
    end: IntArray,
    out_parent: Int32Array,
    out_delta_t: FloatArray,
    out_rating: FloatArray,
    target_node: Int32Array,
    target_delta_t: FloatArray,
    passes: FloatArray,
    failures: FloatArray,
    target: IntArray,
) -> None:
    lanes = 8
    batches = len(segments)
    nodes = 0
    segment = 0
    targets = 0
    for b in range(batches):
        stamp = batches + b + 1
        for k in range(first_item[b], first_item[b + 1]):
            node = node_of[items[k]]
            while node >= 0 and mark[node] != stamp:
                mark[node] = stamp
                node = parent[node]
        base = nodes
        for s in range(segments[b]):
            begin = nodes
            for node in range(segment_start[s], segment_start[s + 1]):
                if mark[node] == stamp:
                    local[node] = nodes - base
                    if parent[node] >= 0:
                        out_parent[nodes] = local[parent[node]]
                    out_delta_t[nodes] = delta_t[node]
                    out_rating[nodes] = rating[node]
                    nodes += 1
            if nodes > begin:
                nodes = begin + (nodes - begin + lanes - 1) // lanes * lanes
                kind[segment] = s % 4
                start[segment] = begin
                end[segment] = nodes
                segment += 1
        first_target_here = targets
        for k in range(first_item[b], first_item[b + 1]):
            item = items[k]
            place = pair_mark[pair_of[item]]
            if place < first_target_here:
                place = targets
                pair_mark[pair_of[item]] = place
                target_node[place] = local[node_of[item]]
                target_delta_t[place] = trial_delta_t[item]
                targets += 1
            target[k] = place
            passes[place] += weights[item] * y[item]
            failures[place] += weights[item] * (1.0 - y[item])
        targets = first_target_here + (targets - first_target_here + lanes - 1) // lanes * lanes
        first_node[b + 1] = nodes
        first_segment[b + 1] = segment
        first_target[b + 1] = targets
