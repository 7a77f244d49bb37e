"""Anki's simulator with Anki's own stream of chance, for the tests alone.

One course of events as fsrs-rs 6.6 (src/simulation.rs, `simulate`) and Anki (ankitects/anki:
rslib/src/scheduler/fsrs/simulator.rs, rslib/src/scheduler/states/: load_balancer.rs, fuzz.rs) make
it, draw by draw, in single precision: rand's StdRng (`training.optimisers`), each card when the
heap of garro95/priority-queue gives it (src/priority_queue/mod.rs). Formulas are FSRS-6's of this
package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from srs_eval.advice.workload import simulator
from srs_eval.advice.workload.simulator import Costs, Memory, SimulatedDeck, SimulationSettings
from srs_eval.data.reviews import IntArray
from srs_eval.models import fsrs6
from srs_eval.training.optimisers import _chacha_words, _derive_chacha_key

SEED = 42  # Anki's, always
MOST_STEPS = 5
f32 = np.float32


class Chance:
    """Draw as rand's StdRng does."""

    def __init__(self, seed: int) -> None:
        self._words = _chacha_words(_derive_chacha_key(seed))

    def u64(self) -> int:
        low = next(self._words)
        return next(self._words) << 32 | low

    def happens(self, p: float) -> bool:
        return p >= 1.0 or self.u64() < int(p * 2.0**64)

    def choose(self, weights: Sequence[Any]) -> int:
        """Draw an index as rand's WeightedIndex of f32 does."""
        added = np.cumsum(np.array(weights, f32), dtype=f32)
        u = f32(f32((next(self._words) >> 9) * 2.0**-23) * added[-1])
        return int(np.searchsorted(added[:-1], u, side="right"))


class Heap:
    """Keep items by their keys, the smallest first, equal ones in priority-queue's order."""

    def __init__(self) -> None:
        self.items: list[int] = []
        self.key: dict[int, tuple[int, bool, int]] = {}
        self.positions: dict[int, int] = {}

    def push(self, item: int, key: tuple[int, bool, int]) -> None:
        self.key[item] = key
        self.items.append(item)
        self._up(len(self.items) - 1)

    def change(self, item: int, key: tuple[int, bool, int]) -> None:
        self.key[item] = key
        self._down(self._up(self.positions[item]))

    def pop(self) -> None:
        last = self.items.pop()
        if self.items:
            self.items[0] = last
            self.positions[last] = 0
            self._down(0)

    def _up(self, at: int) -> int:
        item = self.items[at]
        while at > 0 and self.key[item] < self.key[self.items[(at - 1) // 2]]:
            self._put(at, self.items[(at - 1) // 2])
            at = (at - 1) // 2
        self._put(at, item)
        return at

    def _down(self, at: int) -> None:
        while True:
            first = at
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(self.items) and self._key_at(child) < self._key_at(first):
                    first = child
            if first == at:
                return
            upper = self.items[at]
            lower = self.items[first]
            self._put(at, lower)
            self._put(first, upper)
            at = first

    def _key_at(self, at: int) -> tuple[int, bool, int]:
        return self.key[self.items[at]]

    def _put(self, at: int, item: int) -> None:
        self.items[at] = item
        self.positions[item] = at


@dataclass
class Card:
    state: Any  # s and d
    last: float | None  # None: new
    due: float
    interval: float


def simulate(
    memory: Memory,
    deck: SimulatedDeck,
    interval: IntArray,
    costs: Costs,
    settings: SimulationSettings,
    seed: int = SEED,
) -> tuple[int, float, float]:
    """Return reviews and new cards together, seconds, and cards known at the end.

    `interval` (n,) holds the learned cards' intervals by Anki's table, which order them within
    a day.
    """
    model = memory.recurrent
    w = memory.values.astype(f32)
    days = settings.days
    longest = settings.maximum_interval
    chance = Chance(seed)
    cards = [
        Card((f32(s), f32(d)), float(last), float(due), float(days_between))
        for s, d, last, due, days_between in zip(
            *deck.state, deck.last_day, deck.due_day, interval, strict=True
        )
    ]
    cards += [Card((0.0, 0.0), None, float(i // settings.new_a_day), 0.0) for i in range(deck.new)]
    due_count = [0] * (days + days // 2)
    for card in cards:
        at = max(int(card.due), 0)
        if at < len(due_count):
            due_count[at] += 1

    def key(card: Card) -> tuple[int, bool, int]:
        new = card.last is None
        return int(card.due), new, -(2**31) if new else int(card.last + card.interval)

    heap = Heap()
    for number, card in enumerate(cards):
        if card.last is not None or card.due < days:
            heap.push(number, key(card))
    reviews = [0] * days
    learned = [0] * days
    seconds = [0.0] * days

    def steps(state: Any, rating: int, shares: Any, needed: int, cost: Sequence[float]) -> Any:
        passed = 0
        spent = 0.0
        for _ in range(MOST_STEPS):
            if passed >= needed or rating == 4:
                break
            rating = 1 + chance.choose(shares[rating - 1])
            state = model.same_day(state, f32(0), f32(rating), w)
            spent += cost[rating - 1]
            if rating == 1:
                passed = 0
            elif rating > 2:
                passed += 1
        return state, spent

    while heap.items:
        number = heap.items[0]
        card = cards[number]
        if card.due >= days:
            heap.pop()
            continue
        day = max(int(card.due), 0)
        if card.last is None:
            full = learned[day] + 1 > settings.new_a_day
            if not settings.new_ignore_review_limit:
                full |= learned[day] + reviews[day] + 1 > settings.reviews_a_day
        else:
            full = reviews[day] + 1 > settings.reviews_a_day
        if full:
            if card.last is not None:
                due_count[day] -= 1
                if day + 1 < len(due_count):
                    due_count[day + 1] += 1
            card.due = day + 1.0
            heap.change(number, key(card))
            continue
        if card.last is None:
            rating = 1 + chance.choose(costs.first_rating)
            state = model.first(f32(rating), w)
            needed = settings.learning_steps - (rating > 2)
            state, spent = steps(state, rating, costs.learning_steps, needed, costs.seconds[0])
            learned[day] += 1
            seconds[day] += costs.seconds[0][rating - 1] + spent
        else:
            t = f32(card.due - card.last)
            recalled = float(f32(model.recall(t, card.state, w)))
            if chance.happens(recalled):
                rating = 2 + chance.choose(costs.review_rating)
                state = model.success(card.state, t, f32(rating), w)
                spent = 0.0
            else:
                rating = 1
                state = model.failure(card.state, t, f32(1), w)
                state, spent = steps(
                    state, 1, costs.relearning_steps, settings.relearning_steps, costs.seconds[2]
                )
            reviews[day] += 1
            seconds[day] += costs.seconds[1][rating - 1] + spent
        card.state = tuple(f32(value) for value in state)
        decay = -w[20]
        factor = f32(0.9) ** (f32(1) / decay) - f32(1)
        raw = (
            card.state[0] / factor * (f32(settings.desired_retention) ** (f32(1) / decay) - f32(1))
        )
        rounded = min(max(float(np.floor(raw + f32(0.5))), 1.0), float(longest))
        card.interval = balance_interval(rounded, longest, day, due_count, chance.u64())
        card.last = float(day)
        card.due = day + card.interval
        if card.due < len(due_count):
            due_count[int(card.due)] += 1
        heap.change(number, key(card))
    remembered = sum(
        float(model.recall(days - 1 - card.last, card.state, w))
        for card in cards
        if card.last is not None
    )
    return sum(reviews) + sum(learned), sum(seconds), remembered


def balance_interval(
    interval: float, longest: int, day: int, due_count: list[int], seed: int
) -> float:
    """Choose an interval within Anki's fuzz range, rather on a day with few cards due."""
    delta = 0.0
    if interval >= 2.5:
        delta = 1.0 + sum(
            share * max(min(interval, end) - start, 0.0)
            for start, end, share in ((2.5, 7.0, 0.15), (7.0, 20.0, 0.1), (20.0, np.inf, 0.05))
        )
    low, high = (
        int(min(max(np.floor(end + 0.5), 1), longest))
        for end in (interval - delta, interval + delta)
    )
    if low == high and 2 < high < longest:
        high = low + 1
    if low == high:
        return float(low)
    length = np.arange(low, high + 1)
    counts = np.array([due_count[day + n] if day + n < len(due_count) else 0 for n in length])
    with np.errstate(divide="ignore"):
        weights = (f32(1) / counts.astype(f32)) ** f32(2.15) * (f32(1) / length.astype(f32)) ** 3
    weights = np.where(counts == 0, f32(1), weights).astype(f32)
    return float(low + Chance(seed).choose(weights))


@contextmanager
def following_ankis_simulator() -> Iterator[None]:
    """Let Hard shorten the stability on the same day: Anki's simulator does, its scheduler not."""
    with pytest.MonkeyPatch.context() as patch:
        by_simulator = {**simulator.MODELS, "FSRS-6": fsrs6.make_recurrent(0.001)}
        patch.setattr(simulator, "MODELS", by_simulator)
        yield
