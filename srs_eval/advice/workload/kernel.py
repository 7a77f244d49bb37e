"""Define the template of the simulation's kernel: one run of days over all cards of a deck.

`simulate_days` is compiled once for each pair of models, with their `loops` in place of the names
with an underscore below (`compile.specialise`): it uses a model only through these loops, which
process many cards at once. Cards wait in a queue for each day, so that a day touches only the cards
that are due.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from srs_eval.advice.workload.loops import LoopWorkspace
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.training.elementwise import LANES
from srs_eval.training.packing import Int32Array
from srs_eval.training.simd import broadcast, load, store, unpack, where

_begin: Any = None  # the memory's loops
_review: Any = None
_step: Any = None
_recall: Any = None
_SEPARATE = 0  # whether the scheduler has another model or other parameters
_scheduler_begin: Any = None
_scheduler_review: Any = None
_scheduler_step: Any = None
_scheduler_factor: Any = None
_scheduler_intervals: Any = None

_MOST_STEPS = 5  # learning or relearning steps of a card on one day
_LEARNING, _REVIEW, _RELEARNING = 0, 4, 8  # offsets in `seconds`
_RELEARNING_ROW = 12  # start of the relearning shares in `step_rating`
_DUE, _RANDOM, _SHORTEST, _LONGEST, _EASIEST, _HARDEST, _LEAST_RECALLED, _MOST_RECALLED = range(8)


class KernelInputs(NamedTuple):
    """Inputs that stay the same on all days."""

    days: int
    desired_retention: float
    new_a_day: int
    reviews_a_day: int
    new_ignore_review_limit: int
    maximum_interval: float
    learning_steps: int
    relearning_steps: int
    order: int
    balanced: int
    learned: int  # learned cards at the start
    new: int
    parameters: FloatArray  # parameters of the memory, with its constants
    scheduler_parameters: FloatArray
    seconds: FloatArray  # (12,) by state and rating
    first_rating: FloatArray  # (4,) cumulative shares
    review_rating: FloatArray  # (3,) cumulative shares
    step_rating: FloatArray  # (24,) cumulative shares after each rating: learning, then relearning


class CardTable(NamedTuple):
    """All cards (room,), the learned ones first."""

    room: int
    state: FloatArray  # (states, room)
    scheduler_state: FloatArray  # (scheduler's states, room); may be the same array
    difficulty: int  # start of the scheduler's last state
    last: FloatArray  # day of the last review
    due: FloatArray  # scheduled day


class Queue(NamedTuple):
    """Cards by the day on which they are due."""

    head: Int32Array  # (days,) the first card of a day; -1: none
    following: Int32Array  # (room,) the next card of the same day
    due: Int32Array  # (horizon,) number of cards due, for balancing
    horizon: int
    crowding: FloatArray  # (room + 1,) weight of a day by its number of cards (0: inf) ...
    interval_weight: FloatArray  # (horizon + LANES,) ... times the weight of the interval
    crowd: FloatArray  # (horizon + LANES,) crowding[due] of each day
    weights: FloatArray  # (horizon + 2 LANES,) buffer for the weights of a fuzz range
    low: Int32Array  # (horizon,) fuzz range of an interval
    high: Int32Array


class DayBuffers(NamedTuple):
    """Buffers for the answers of one day."""

    card: Int32Array  # (room + LANES,), like all fields
    t: FloatArray  # days since the last review; later the interval
    recall: FloatArray
    rating: FloatArray
    stepping: Int32Array  # cards in learning or relearning
    step_rating: FloatArray
    row: Int32Array  # start of the card's shares in KernelInputs.step_rating
    consecutive: Int32Array  # steps passed
    needed: Int32Array  # steps to be passed


class DailyTotals(NamedTuple):
    """Totals by day (days,); `known`, at the end of the last day, is in its first element."""

    reviews: IntArray
    recalled: IntArray
    new: IntArray
    seconds: FloatArray
    known: FloatArray


@njit(nogil=True, error_model="numpy")
def _uniform(random: Any) -> float:
    """Draw from [0, 1) by SplitMix64 (Steele, Lea and Flood 2014); `random` (1,) is its state."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * 2.0**-53


@njit(nogil=True, error_model="numpy")
def _draw_index(random: Any, shares: Any, start: int, count: int) -> int:
    """Draw an index below `count`, by cumulative shares from `shares[start]` on."""
    u = _uniform(random) * shares[start + count - 1]
    place = 0
    for other in range(start, start + count - 1):
        place += u >= shares[other]  # without a branch, which would be unpredictable
    return place


@njit(nogil=True, error_model="numpy")
def _fuzz_range(days: int, longest: int) -> tuple[int, int]:
    """Return the shortest and the longest interval that Anki draws from instead of `days`."""
    if days < 3:
        return days, days
    interval = float(days)
    spread = (
        1.0
        + 0.15 * (min(interval, 7.0) - 2.5)
        + 0.1 * max(min(interval, 20.0) - 7.0, 0.0)
        + 0.05 * max(interval - 20.0, 0.0)
    )
    low = int(min(max(math.floor(interval - spread + 0.5), 1), longest))
    high = int(min(max(math.floor(interval + spread + 0.5), 1), longest))
    if high == low and 2 < high < longest:
        high = low + 1
    return low, high


@njit(nogil=True, error_model="numpy", inline="always")
def _balanced_interval(random: Any, low: int, high: int, day: int, days: int, queue: Any) -> int:
    """Draw an interval from a fuzz range, preferably for a day with few cards due.

    A day without cards has weight 1, one with n cards n^-2.15 interval^-3
    (rslib/src/scheduler/states/: fuzz.rs, load_balancer.rs).
    """
    seen = min(high + 1, queue.horizon - day)  # due cards beyond are unknown
    u = _uniform(random)
    chosen = low
    if day + low >= days:  # beyond the simulated days, so any day will do
        chosen = low + int(u * (high - low + 1))
    else:
        weights, count = queue.weights, seen - low
        for j in range(0, count, LANES):
            weight = load(queue.crowd, day + low + j) * load(queue.interval_weight, low + j)
            store(weights, j, where(weight < 1.0, weight, 1.0))
        store(weights, count, broadcast(0.0))
        even, odd = 0.0, 0.0
        for j in range(0, count, 4):  # two sums that need not wait for each other
            even += weights[j] + weights[j + 2]
            odd += weights[j + 1] + weights[j + 3]
        added = even + odd
        u *= added + (high + 1 - seen)
        if u >= added:
            chosen = min(seen + int(u - added), high)
        else:
            at = 0
            while at < count - 1 and u >= weights[at]:
                u -= weights[at]
                at += 1
            chosen = low + at
    return chosen


@njit(nogil=True, error_model="numpy")
def _smallest_first(card: Any, key: Any, count: int, wanted: int) -> None:
    """Reorder so that the `wanted` cards with the smallest keys come first (Hoare 1961)."""
    low, high = 0, count - 1
    while low < high:
        pivot = key[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while key[i] < pivot:
                i += 1
            while key[j] > pivot:
                j -= 1
            if i <= j:
                key[i], key[j] = key[j], key[i]
                card[i], card[j] = card[j], card[i]
                i += 1
                j -= 1
        if wanted - 1 <= j:
            high = j
        elif wanted - 1 >= i:
            low = i
        else:
            return


def simulate_days(
    question_table: Any, cards_table: Any, queue_table: Any, day_table: Any, work_table: Any,
    out_table: Any, random: Any,
) -> None:  # fmt: skip
    """Simulate all days. Change the cards, the queue and `random`, and fill in the daily totals.

    This is one function on purpose: all parts of a day share some twenty arrays, whose bounds and
    addresses the compiler keeps in registers.
    """
    question = unpack(question_table, KernelInputs)
    cards = unpack(cards_table, CardTable)
    queue = unpack(queue_table, Queue)
    today = unpack(day_table, DayBuffers)
    out = unpack(out_table, DailyTotals)
    room, days = cards.room, question.days
    states, scheduler_states = cards.state, cards.scheduler_state
    parameters, scheduler_parameters = question.parameters, question.scheduler_parameters
    work = unpack(work_table, LoopWorkspace)
    last = cards.last
    head, following, due = queue.head, queue.following, queue.due
    crowd, crowding = queue.crowd, queue.crowding
    card, t, ratings = today.card, today.t, today.rating
    recalls, stepping, step_rating = today.recall, today.stepping, today.step_rating
    row, consecutive, needed = today.row, today.consecutive, today.needed
    seconds, order = question.seconds, question.order
    difficulty = cards.difficulty
    learned, waiting = question.learned, question.new

    for i in range(learned):  # backwards, so that a day's cards keep their order
        k = learned - 1 - i
        at = int(max(cards.due[k], 0.0))
        if at < queue.horizon:
            due[at] += 1
        if at < days:
            following[k] = head[at]
            head[at] = k
    left, at = waiting, 0  # new cards count on the days on which they will be introduced
    while left > 0 and at < queue.horizon:
        more = min(question.new_a_day, left)
        due[at] += more
        left -= more
        at += 1
    lows, highs = queue.low, queue.high
    longest = int(question.maximum_interval)
    for at in range(queue.horizon):
        crowd[at] = crowding[due[at]]
        lows[at], highs[at] = _fuzz_range(at, longest)

    factor = _scheduler_factor(scheduler_parameters, question.desired_retention, work)
    for day in range(days):
        # Cards due today; if there are too many, those that come first
        n, k = 0, head[day]
        while k >= 0:
            card[n] = k
            n += 1
            k = following[k]
        while True:
            for i in range(n):
                t[i] = day - last[card[i]]
            for i in range(n, n + LANES):
                card[i], t[i] = 0, 1.0
            _recall(parameters, states, room, card, t, n, recalls)
            if n <= question.reviews_a_day:
                break
            for i in range(n):
                k = card[i]
                key = cards.due[k]
                if order == _RANDOM:
                    key = _uniform(random)
                elif order == _SHORTEST:
                    key = cards.due[k] - last[k]
                elif order == _LONGEST:
                    key = last[k] - cards.due[k]
                elif order == _EASIEST:
                    key = scheduler_states[difficulty + k]
                elif order == _HARDEST:
                    key = -scheduler_states[difficulty + k]
                elif order == _LEAST_RECALLED:
                    key = recalls[i]
                elif order == _MOST_RECALLED:
                    key = -recalls[i]
                ratings[i] = key
            _smallest_first(card, ratings, n, question.reviews_a_day)
            for i in range(question.reviews_a_day, n):
                k = card[i]
                due[day] -= 1
                if day + 1 < queue.horizon:
                    due[day + 1] += 1
                    crowd[day + 1] = crowding[due[day + 1]]
                if day + 1 < days:
                    following[k] = head[day + 1]
                    head[day + 1] = k
            n = question.reviews_a_day

        # Answers to the reviews
        cost, steps, right = 0.0, 0, 0
        for i in range(n):
            if _uniform(random) < recalls[i]:
                right += 1
                rating = 2 + _draw_index(random, question.review_rating, 0, 3)
            else:
                k, rating = card[i], 1
                stepping[steps], step_rating[steps] = k, 1.0
                row[steps], consecutive[steps] = _RELEARNING_ROW, 0
                needed[steps] = question.relearning_steps
                steps += 1
            ratings[i] = rating
            cost += seconds[_REVIEW + rating - 1]
        for i in range(n, n + LANES):
            ratings[i] = 3.0
        _review(parameters, states, room, card, t, ratings, 0, n, work)
        if _SEPARATE:
            _scheduler_review(
                scheduler_parameters, scheduler_states, room, card, t, ratings, 0, n, work
            )

        # New cards come after the reviews
        new = question.new_a_day
        if not question.new_ignore_review_limit:
            new = min(new, question.reviews_a_day - n)
        new = min(max(new, 0), waiting)
        for i in range(n, n + new):
            rating = 1 + _draw_index(random, question.first_rating, 0, 4)
            card[i], ratings[i] = learned + i - n, rating
            cost += seconds[_LEARNING + rating - 1]
            stepping[steps], step_rating[steps] = card[i], rating
            row[steps], consecutive[steps] = 0, 0
            needed[steps] = question.learning_steps - (1 if rating > 2 else 0)
            steps += 1
        for i in range(n + new, n + new + LANES):
            card[i], ratings[i] = 0, 3.0
        _begin(parameters, states, room, card, ratings, n, n + new, work)
        if _SEPARATE:
            _scheduler_begin(
                scheduler_parameters, scheduler_states, room, card, ratings, n, n + new, work
            )
        learned += new
        waiting -= new

        # Steps of learning and relearning
        for _ in range(_MOST_STEPS):
            going = 0
            for i in range(steps):
                rating = int(step_rating[i])
                if consecutive[i] >= needed[i] or rating == 4:
                    continue
                kind = row[i]
                rating = 1 + _draw_index(random, question.step_rating, kind + 4 * (rating - 1), 4)
                begun = _RELEARNING if kind == _RELEARNING_ROW else _LEARNING
                cost += seconds[begun + rating - 1]
                held = consecutive[i]
                if rating > 2:
                    held += 1
                elif rating == 1:
                    held = 0
                stepping[going], step_rating[going], row[going] = stepping[i], rating, kind
                consecutive[going], needed[going] = held, needed[i]
                going += 1
            steps = going
            if steps == 0:
                break
            for i in range(steps, steps + LANES):
                stepping[i], step_rating[i] = 0, 3.0
            _step(parameters, states, room, stepping, step_rating, 0, steps, work)
            if _SEPARATE:
                _scheduler_step(
                    scheduler_parameters, scheduler_states, room, stepping, step_rating, 0, steps,
                    work,
                )  # fmt: skip

        # Next due days
        n += new
        _scheduler_intervals(scheduler_parameters, scheduler_states, room, card, n, factor, t)
        for i in range(n):
            k = card[i]
            interval = int(min(max(t[i] + 0.5, 1.0), float(longest)))
            if question.balanced and interval > 2:
                if interval < queue.horizon:
                    low, high = lows[interval], highs[interval]
                else:
                    low, high = _fuzz_range(interval, longest)
                interval = _balanced_interval(random, low, high, day, days, queue)
            at = day + interval
            last[k], cards.due[k] = day, at
            if at < queue.horizon:
                due[at] += 1
                crowd[at] = crowding[due[at]]
                if at < days:
                    following[k] = head[at]
                    head[at] = k

        out.reviews[day], out.new[day] = n - new, new
        out.recalled[day], out.seconds[day] = right, cost

    for i in range(learned):
        card[i], t[i] = i, days - 1 - last[i]
    for i in range(learned, learned + LANES):
        card[i], t[i] = 0, 1.0
    _recall(parameters, states, room, card, t, learned, recalls)
    for i in range(learned):
        out.known[0] += recalls[i]
