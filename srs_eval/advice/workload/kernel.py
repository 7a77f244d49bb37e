"""Define the template of the simulation's kernel, which runs all days over all cards of a deck.

`simulate_days` is compiled once for each pair of models. `compile.specialise` then replaces names
below, such as `_begin`, by the models' loops (`loops`): the kernel uses a model only through these,
and they process many cards at once. Cards wait in a queue for each day, so that a day touches only
the cards that are due.

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
    new: int  # new cards that may be introduced
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
    difficulty: int  # where the scheduler's last state, the difficulty, starts in its states
    last: FloatArray  # day of the last review
    due: FloatArray  # scheduled day


class Queue(NamedTuple):
    """Cards by the day on which they are due."""

    head: Int32Array  # (days,) the first card of a day; -1: none
    following: Int32Array  # (room,) the next card of the same day
    due: Int32Array  # (horizon,) number of cards due, for balancing
    horizon: int
    crowding: FloatArray  # (room + 1,) weight of a day by its number of cards (0: inf)
    interval_weight: FloatArray  # (horizon + LANES,) weight of an interval
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
    waiting: IntArray
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
    index = 0
    for k in range(start, start + count - 1):
        index += u >= shares[k]  # without a branch, which the processor could not predict
    return index


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

    A day without cards has weight 1; a day with n cards n^-2.15 interval^-3, but at most 1
    (ankitects/anki: rslib/src/scheduler/states/fuzz.rs and load_balancer.rs).
    """
    seen = min(high + 1, queue.horizon - day)  # from here on, due cards are not counted: weight 1
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
        weight_seen = even + odd
        u *= weight_seen + (high + 1 - seen)
        if u >= weight_seen:
            chosen = min(seen + int(u - weight_seen), high)
        else:
            j = 0
            while j < count - 1 and u >= weights[j]:
                u -= weights[j]
                j += 1
            chosen = low + j
    return chosen


@njit(nogil=True, error_model="numpy")
def _smallest_first(card: Any, key: Any, count: int, wanted: int) -> None:
    """Reorder cards and keys so that the `wanted` smallest keys come first (Hoare 1961)."""
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
    """Simulate all days: change the cards, the queue and `random`, and fill in the daily totals.

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
    p_recall, stepping, step_rating = today.recall, today.stepping, today.step_rating
    row, consecutive, needed = today.row, today.consecutive, today.needed
    seconds, order = question.seconds, question.order
    difficulty = cards.difficulty
    learned, waiting = question.learned, question.new

    for i in range(learned):  # backwards, so that a day's cards keep their order
        k = learned - 1 - i
        due_day = int(max(cards.due[k], 0.0))
        if due_day < queue.horizon:
            due[due_day] += 1
        if due_day < days:
            following[k] = head[due_day]
            head[due_day] = k
    # New cards count on the days on which they will be introduced.
    not_introduced = waiting
    due_day = 0
    while not_introduced > 0 and due_day < queue.horizon:
        introduced = min(question.new_a_day, not_introduced)
        due[due_day] += introduced
        not_introduced -= introduced
        due_day += 1
    lows, highs = queue.low, queue.high
    longest = int(question.maximum_interval)
    for day in range(queue.horizon):
        crowd[day] = crowding[due[day]]
    for interval in range(queue.horizon):
        lows[interval], highs[interval] = _fuzz_range(interval, longest)

    factor = _scheduler_factor(scheduler_parameters, question.desired_retention, work)
    for day in range(days):
        # Cards due today; beyond the limit, the last in the order are moved to the next day
        n = 0  # number of cards answered on this day
        k = head[day]
        while k >= 0:
            card[n] = k
            n += 1
            k = following[k]
        moved = 0
        while True:  # a second time if cards were moved
            for i in range(n):
                t[i] = day - last[card[i]]
            for i in range(n, n + LANES):  # ordinary values for the lanes beyond the last card
                card[i], t[i] = 0, 1.0
            _recall(parameters, states, room, card, t, n, p_recall)
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
                    key = p_recall[i]
                elif order == _MOST_RECALLED:
                    key = -p_recall[i]
                ratings[i] = key  # the buffer is not needed for ratings yet
            _smallest_first(card, ratings, n, question.reviews_a_day)
            moved = n - question.reviews_a_day
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
        day_seconds = 0.0
        stepping_count = 0
        recalled = 0
        for i in range(n):
            if _uniform(random) < p_recall[i]:
                recalled += 1
                rating = 2 + _draw_index(random, question.review_rating, 0, 3)
            else:
                k, rating = card[i], 1
                stepping[stepping_count], step_rating[stepping_count] = k, 1.0
                row[stepping_count], consecutive[stepping_count] = _RELEARNING_ROW, 0
                needed[stepping_count] = question.relearning_steps
                stepping_count += 1
            ratings[i] = rating
            day_seconds += seconds[_REVIEW + rating - 1]
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
            day_seconds += seconds[_LEARNING + rating - 1]
            stepping[stepping_count], step_rating[stepping_count] = card[i], rating
            row[stepping_count], consecutive[stepping_count] = 0, 0
            needed[stepping_count] = question.learning_steps - (1 if rating > 2 else 0)
            stepping_count += 1
        for i in range(n + new, n + new + LANES):
            card[i], ratings[i] = 0, 3.0
        _begin(parameters, states, room, card, ratings, n, n + new, work)
        if _SEPARATE:
            _scheduler_begin(
                scheduler_parameters, scheduler_states, room, card, ratings, n, n + new, work
            )
        learned += new
        waiting -= new

        # Steps of learning and relearning; cards that have not passed theirs go on
        for _ in range(_MOST_STEPS):
            remaining = 0
            for i in range(stepping_count):
                rating = int(step_rating[i])
                if consecutive[i] >= needed[i] or rating == 4:
                    continue
                shares = row[i]
                rating = 1 + _draw_index(random, question.step_rating, shares + 4 * (rating - 1), 4)
                state = _RELEARNING if shares == _RELEARNING_ROW else _LEARNING
                day_seconds += seconds[state + rating - 1]
                passed = consecutive[i]
                if rating > 2:
                    passed += 1
                elif rating == 1:
                    passed = 0
                stepping[remaining], step_rating[remaining] = stepping[i], rating
                row[remaining], consecutive[remaining] = shares, passed
                needed[remaining] = needed[i]
                remaining += 1
            stepping_count = remaining
            if stepping_count == 0:
                break
            for i in range(stepping_count, stepping_count + LANES):
                stepping[i], step_rating[i] = 0, 3.0
            _step(parameters, states, room, stepping, step_rating, 0, stepping_count, work)
            if _SEPARATE:
                _scheduler_step(
                    scheduler_parameters, scheduler_states, room, stepping, step_rating, 0,
                    stepping_count, work,
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
            due_day = day + interval
            last[k], cards.due[k] = day, due_day
            if due_day < queue.horizon:
                due[due_day] += 1
                crowd[due_day] = crowding[due[due_day]]
                if due_day < days:
                    following[k] = head[due_day]
                    head[due_day] = k

        out.reviews[day], out.new[day] = n - new, new
        out.recalled[day], out.seconds[day] = recalled, day_seconds
        out.waiting[day] = moved

    # Cards known at the end of the last day
    for i in range(learned):
        card[i], t[i] = i, days - 1 - last[i]
    for i in range(learned, learned + LANES):
        card[i], t[i] = 0, 1.0
    _recall(parameters, states, room, card, t, learned, p_recall)
    for i in range(learned):
        out.known[0] += p_recall[i]
