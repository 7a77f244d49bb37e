"""The shared trie and its batches: the same histories, each node once."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srs_eval.data.protocol import Protocol
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.training.elementwise import LANES
from srs_eval.training.trie import HistoryTrie, TrieBatches, cut_batches, history_trie
from tools.simulated import simulate_learner

History = tuple[tuple[float, float], ...]


@pytest.fixture(scope="module", params=[False, True], ids=["days", "secs"])
def trials(request: pytest.FixtureRequest) -> Trials:
    protocol = Protocol(short=True, secs=request.param)
    return LearnerSession(simulate_learner(2, 1200, new_per_day=12).log()).trials(protocol)


def history_of(trials: Trials, k: int) -> History:
    rows = slice(trials.history_start[k], trials.history_end[k])
    pairs = zip(trials.history_delta_t[rows], trials.history_rating[rows], strict=True)
    return tuple((float(t), float(r)) for t, r in pairs)


def path_in_trie(trie: HistoryTrie, node: int) -> History:
    path = []
    while node >= 0:
        path.append((float(trie.delta_t[node]), float(trie.rating[node])))
        node = int(trie.parent[node])
    return tuple(reversed(path))


def test_trie_holds_every_history_and_each_node_once(trials: Trials) -> None:
    trie = history_trie(trials)
    prefixes = set()
    for k in range(len(trials)):
        history = history_of(trials, k)
        assert path_in_trie(trie, int(trie.node[k])) == history
        prefixes |= {history[:length] for length in range(1, len(history) + 1)}
    assert len(trie.parent) == len(prefixes)
    assert len(trie.parent) < trials.sequence_length.sum() / 2
    assert history_trie(trials) is trie


@pytest.mark.parametrize("same_day", [True, False])
def test_nodes_are_numbered_by_level_and_kind(trials: Trials, same_day: bool) -> None:
    trie = history_trie(trials, same_day)
    assert trie.segment_start[0] == 0
    assert trie.segment_start[-1] == len(trie.parent)
    level = np.zeros(len(trie.parent), int)
    for node, parent in enumerate(trie.parent.tolist()):
        assert parent < node
        level[node] = level[parent] + 1 if parent >= 0 else 0
    kinds = np.where(trie.rating > 1, 1, 2)
    if same_day:
        kinds = np.where(trie.delta_t < 1, 3, kinds)
    expected = 4 * level + np.where(level == 0, 0, kinds)
    segment = np.repeat(np.arange(len(trie.segment_start) - 1), np.diff(trie.segment_start))
    np.testing.assert_array_equal(segment, expected)


def test_pairs_are_equal_where_history_and_interval_are(trials: Trials) -> None:
    trie = history_trie(trials)
    seen: dict[tuple[int, float], int] = {}
    for k in range(len(trials)):
        key = int(trie.node[k]), float(trials.delta_t[k])
        assert seen.setdefault(key, int(trie.pair[k])) == trie.pair[k]
    assert sorted(seen.values()) == list(range(trie.pairs))


def path_in_batch(batches: TrieBatches, b: int, node: int) -> History:
    """Return the history of a node of batch b, by its segments' order."""
    base = int(batches.first_node[b])
    segments = range(batches.first_segment[b], batches.first_segment[b + 1])
    first = set[int]()
    for s in segments:
        if batches.kind[s] == 0:
            first |= set(range(batches.start[s], batches.end[s]))
    path = []
    while True:
        at = base + node
        path.append((float(batches.delta_t[at]), float(batches.rating[at])))
        if at in first:
            return tuple(reversed(path))
        node = int(batches.parent[at])


def test_batches_hold_the_items_and_their_ancestors_only(trials: Trials) -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.25, 1, len(trials))
    order = rng.permutation(len(trials))
    row_sets = [order[:100], order[100:107], order[107:307]]
    batches = cut_batches(history_trie(trials), trials, row_sets, weights)
    item = 0
    for b, rows in enumerate(row_sets):
        needed = set()
        totals: dict[tuple[History, float], list[Any]] = {}
        for k in rows.tolist():
            history = history_of(trials, k)
            needed |= {history[:length] for length in range(1, len(history) + 1)}
            target = int(batches.target[item])
            item += 1
            assert batches.first_target[b] <= target < batches.first_target[b + 1]
            assert batches.target_delta_t[target] == trials.delta_t[k]
            assert path_in_batch(batches, b, int(batches.target_node[target])) == history
            both = totals.setdefault((history, float(trials.delta_t[k])), [0.0, 0.0, target])
            both[0 if trials.y[k] else 1] += weights[k]
            assert both[2] == target  # equal targets share one
        for passes, failures, target in totals.values():
            assert batches.passes[target] == pytest.approx(passes)
            assert batches.failures[target] == pytest.approx(failures)
        targets = slice(batches.first_target[b], batches.first_target[b + 1])
        assert batches.passes[targets].sum() + batches.failures[targets].sum() == pytest.approx(
            weights[rows].sum()  # padding weighs nothing
        )
        nodes = batches.first_node[b + 1] - batches.first_node[b]
        segments = batches.first_segment[b + 1] - batches.first_segment[b]
        assert len(needed) <= nodes < len(needed) + LANES * segments


def test_segments_are_whole_vectors_after_their_parents(trials: Trials) -> None:
    row_sets = [np.arange(50), np.arange(50, 300)]
    batches = cut_batches(history_trie(trials), trials, row_sets)
    for b in range(len(row_sets)):
        end = batches.first_node[b]
        for s in range(batches.first_segment[b], batches.first_segment[b + 1]):
            assert batches.start[s] == end
            end = batches.end[s]
            assert (end - batches.start[s]) % LANES == 0
            before = batches.start[s] - batches.first_node[b]
            if batches.kind[s]:
                assert (batches.parent[batches.start[s] : end] < before).all()
        assert end == batches.first_node[b + 1]
        targets = batches.first_target[b + 1] - batches.first_target[b]
        assert targets % LANES == 0


@settings(max_examples=60)
@given(data=st.data())
def test_trie_of_random_cards_holds_their_histories(trials: Trials, data: st.DataObject) -> None:
    """Draw cards that begin alike, repeat, stop after one review, or are never tried."""
    review = st.tuples(st.sampled_from([0.0, 1.0, 2.5, 3650.0]), st.integers(1, 4))
    cards = data.draw(st.lists(st.lists(review, min_size=1, max_size=6), min_size=1, max_size=8))
    reviews = list(chain.from_iterable(cards))
    delta_t = np.array([t for t, _ in reviews])
    rating = np.array([r for _, r in reviews])
    start = []
    end = []
    at = 0
    for card in cards:
        for length in range(1, len(card)):
            start.append(at)
            end.append(at + length)
        at += len(card)
    n = len(start)
    small = replace(
        trials,
        _derived={},
        review_th=np.arange(n),
        y=np.ones(n),
        delta_t=np.ones(n),
        history_start=np.array(start, np.int64),
        history_end=np.array(end, np.int64),
        history_delta_t=delta_t,
        history_rating=rating,
    )
    trie = history_trie(small)
    for k in range(n):
        assert path_in_trie(trie, int(trie.node[k])) == history_of(small, k)
    prefixes = set[History]()
    for k in range(n):
        history = history_of(small, k)
        prefixes |= {history[:length] for length in range(1, len(history) + 1)}
    assert len(trie.parent) == len(prefixes)
    batches = cut_batches(trie, small, [np.arange(n)])
    for k in range(n):
        node = int(batches.target_node[batches.target[k]])
        assert path_in_batch(batches, 0, node) == history_of(small, k)
