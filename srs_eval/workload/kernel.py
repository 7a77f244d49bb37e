"""The template of the simulation's kernel: one run of days over all cards of a deck.

`play` is compiled once per pair of models with their steps in place of the names below
(`compile.specialised`). All answers of a day are worked on together, eight cards at a time.
Cards wait in a queue for each day, so that a day touches only the cards that are due.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from srs_eval.fitting import simd
from srs_eval.fitting.elementwise import LANES
from srs_eval.fitting.records import Int32Array
from srs_eval.reviews import FloatArray, IntArray

# numba's intrinsics have no signatures that a type checker could follow.
as_tuple: Any = simd.as_tuple
broadcast: Any = simd.broadcast
exp: Any = simd.exp
gather_state: Any = simd.gather_state
load: Any = simd.load
load_state: Any = simd.load_state
store: Any = simd.store
store_state: Any = simd.store_state
total: Any = simd.total
unpacked: Any = simd.unpacked
where: Any = simd.where

STATES = 0  # of the memory
VALUES = 0  # its parameters and constants
HAS_SAME_DAY = 0
first: Any = None
success: Any = None
failure: Any = None
same_day: Any = None
recall: Any = None
SEPARATE = 0  # whether the scheduler is another model or has other parameters
SCALES = 0  # whether the scheduler's R depends on t / s alone, s being its first state
SCHEDULER_STATES = 0
SCHEDULER_VALUES = 0
SCHEDULER_HAS_SAME_DAY = 0
scheduler_first: Any = None
scheduler_success: Any = None
scheduler_failure: Any = None
scheduler_same_day: Any = None
scheduler_recall: Any = None

MOST_STEPS = 5  # of learning or relearning that a card takes on one day
HALVINGS, SEARCH = 60, 10  # of the logarithm of an interval; steps of a faster search for it
LEARNING, REVIEW, RELEARNING = 0, 4, 8  # offsets in `seconds`
RELEARNING_ROW = 12  # where shares of relearning begin in `step_rating`
(DUE, RANDOM, SHORTEST, LONGEST, EASIEST, HARDEST, LEAST_RECALLED, MOST_RECALLED) = range(8)


class Question(NamedTuple):
    """What does not change while days go by."""

    days: int
    retention: float
    new_a_day: int
    reviews_a_day: int
    new_ignore_review_limit: int
    maximum_interval: float
    learning_steps: int
    relearning_steps: int
    step_days: float
    order: int
    most_lapses: int
    balanced: int
    learned: int  # cards at the beginning
    new: int
    introduced_today: int
    parameters: FloatArray  # of the memory, with its constants
    scheduler_parameters: FloatArray
    seconds: FloatArray  # (12,) by state and rating
    first_rating: FloatArray  # (4,) shares added up
    review_rating: FloatArray  # (3,) shares added up
    step_rating: FloatArray  # (24,) shares added up after each rating, learning, then relearning
    known_on: Int32Array  # (days,) whether what is known is counted


class Cards(NamedTuple):
    """All cards, the learned ones first (room,)."""

    room: int
    state: FloatArray  # (STATES, room)
    scheduler_state: FloatArray  # (SCHEDULER_STATES, room); the same where they are one
    last: FloatArray  # day of the last review
    due: FloatArray  # the day that was scheduled
    lapses: Int32Array


class Queue(NamedTuple):
    """Cards by the day on which they come up."""

    head: Int32Array  # (days,) the first card of a day; -1: none
    following: Int32Array  # (room,) the next card of the same day
    due: Int32Array  # (horizon,) how many cards are due, for the balance
    horizon: int
    crowding: FloatArray  # (room + 1,) weight of a day by its number of cards (none: inf) ...
    of_interval: FloatArray  # (horizon,) ... times that of the interval
    weights: FloatArray  # (horizon,) room for those of a fuzz range


class Day(NamedTuple):
    """Room for the answers of one day."""

    card: Int32Array  # (room,)
    t: FloatArray  # since the last review; later the interval
    recall: FloatArray
    rating: FloatArray
    passed: FloatArray  # (max states, room) states after a success
    failed: FloatArray  # (max states, room)
    stepping: Int32Array  # cards in learning or relearning
    step_rating: FloatArray
    row: Int32Array  # where the shares of its kind begin in Question.step_rating
    consecutive: Int32Array  # steps passed
    needed: Int32Array  # to be passed


class Happened(NamedTuple):
    """By day (days,)."""

    reviews: IntArray
    recalled: IntArray
    new: IntArray
    seconds: FloatArray
    known: FloatArray


@njit(nogil=True, error_model="numpy")
def uniform(random: Any) -> float:
    """A number in [0, 1): SplitMix64 (Steele, Lea and Flood 2014); `random` (1,) is its state."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * 2.0**-53


@njit(nogil=True, error_model="numpy")
def drawn(random: Any, shares: Any, start: int, count: int) -> int:
    """A place below `count`, by shares added up from `shares[start]` on."""
    u = uniform(random) * shares[start + count - 1]
    place = 0
    while place < count - 1 and u >= shares[start + place]:
        place += 1
    return place


@njit(nogil=True, error_model="numpy")
def balanced_interval(
    random: Any, interval: float, longest: float, day: int, days: int, queue: Any
) -> float:
    """An interval of Anki's fuzz range, rather on a day with few cards due.

    A day without cards has weight 1, one with n cards n^-2.15 interval^-3
    (rslib/src/scheduler/states/: fuzz.rs, load_balancer.rs).
    """
    if interval < 2.5:
        return interval
    spread = (
        1.0
        + 0.15 * (min(interval, 7.0) - 2.5)
        + 0.1 * max(min(interval, 20.0) - 7.0, 0.0)
        + 0.05 * max(interval - 20.0, 0.0)
    )
    low = int(min(max(math.floor(interval - spread + 0.5), 1.0), longest))
    high = int(min(max(math.floor(interval + spread + 0.5), 1.0), longest))
    if high == low and 2 < high < longest:
        high = low + 1
    seen = min(high + 1, queue.horizon - day)  # beyond, nothing is known to be due
    u = uniform(random)
    if day + low >= days:  # it is not played, so any day will do
        return low + math.floor(u * (high - low + 1))
    due, weights = queue.due, queue.weights
    crowding, of_interval = queue.crowding, queue.of_interval
    added = 0.0
    for length in range(low, seen):
        added += min(crowding[due[day + length]] * of_interval[length], 1.0)
        weights[length - low] = added
    u *= added + (high + 1 - seen)
    if u >= added:
        return min(float(seen) + math.floor(u - added), float(high))
    at = 0
    while u >= weights[at]:
        at += 1
    return float(low + at)


@njit(nogil=True, error_model="numpy")
def smallest_first(card: Any, key: Any, count: int, wanted: int) -> None:
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


def play(
    question_table: Any, cards_table: Any, queue_table: Any, day_table: Any, out_table: Any,
    random: Any,
) -> None:  # fmt: skip
    """Play all days. Changes the cards, the queue and `random`, and fills in what happened."""
    question = unpacked(question_table, Question)
    cards = unpacked(cards_table, Cards)
    queue = unpacked(queue_table, Queue)
    today = unpacked(day_table, Day)
    out = unpacked(out_table, Happened)
    room, days = cards.room, question.days
    states, scheduler_states = cards.state, cards.scheduler_state
    state, scheduler_state = (states, room), (scheduler_states, room)
    passed, failed = (today.passed, room), (today.failed, room)
    last, lapses = cards.last, cards.lapses
    head, following, due = queue.head, queue.following, queue.due
    card, t, ratings = today.card, today.t, today.rating
    recalls, stepping, step_rating = today.recall, today.stepping, today.step_rating
    row, consecutive, needed = today.row, today.consecutive, today.needed
    seconds, order = question.seconds, question.order
    difficulty = (SCHEDULER_STATES - 1) * room  # the last of the states
    most_lapses = question.most_lapses
    learned, waiting = question.learned, question.new
    log_shortest, log_longest = math.log(0.5), math.log(question.maximum_interval + 1.0)

    for i in range(learned):  # backwards, so that a day's cards keep their order
        k = learned - 1 - i
        at = int(max(cards.due[k], 0.0))
        if at < queue.horizon:
            due[at] += 1
        if at < days and lapses[k] < most_lapses:
            following[k] = head[at]
            head[at] = k
    left, at = waiting, 0  # new cards take room on the days on which they will come
    while left > 0 and at < queue.horizon:
        more = question.new_a_day - (question.introduced_today if at == 0 else 0)
        more = min(max(more, 0), left)
        due[at] += more
        left -= more
        at += 1

    horizon = 0.0
    if SCALES:
        w = as_tuple(question.scheduler_parameters, SCHEDULER_VALUES)
        for k in range(SCHEDULER_STATES * LANES):
            today.passed[k] = 1.0
        one = load_state((today.passed, LANES), 0, SCHEDULER_STATES)
        short, long = broadcast(-30.0), broadcast(30.0)
        for _ in range(HALVINGS):
            middle = 0.5 * (short + long)
            enough = scheduler_recall(exp(middle), one, w) >= question.retention
            short, long = where(enough, middle, short), where(enough, long, middle)
        store(t, 0, exp(short))
        horizon = t[0]

    for day in range(days):
        # Who comes up today; where these are too many, who comes first
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
            for i in range(0, n, LANES):
                w = as_tuple(question.parameters, VALUES)
                store(recalls, i, recall(load(t, i), gather_state(state, card, i, STATES), w))
            if n <= question.reviews_a_day:
                break
            for i in range(n):
                k = card[i]
                key = cards.due[k]
                if order == RANDOM:
                    key = uniform(random)
                elif order == SHORTEST:
                    key = cards.due[k] - last[k]
                elif order == LONGEST:
                    key = last[k] - cards.due[k]
                elif order == EASIEST:
                    key = scheduler_states[difficulty + k]
                elif order == HARDEST:
                    key = -scheduler_states[difficulty + k]
                elif order == LEAST_RECALLED:
                    key = recalls[i]
                elif order == MOST_RECALLED:
                    key = -recalls[i]
                ratings[i] = key
            smallest_first(card, ratings, n, question.reviews_a_day)
            for i in range(question.reviews_a_day, n):
                k = card[i]
                due[day] -= 1
                if day + 1 < queue.horizon:
                    due[day + 1] += 1
                if day + 1 < days:
                    following[k] = head[day + 1]
                    head[day + 1] = k
            n = question.reviews_a_day

        # What is answered
        cost, steps, right = 0.0, 0, 0
        for i in range(n):
            if uniform(random) < recalls[i]:
                right += 1
                rating = 2 + drawn(random, question.review_rating, 0, 3)
            else:
                k, rating = card[i], 1
                lapses[k] += 1
                stepping[steps], step_rating[steps] = k, 1.0
                row[steps], consecutive[steps] = RELEARNING_ROW, 0
                needed[steps] = question.relearning_steps
                steps += 1
            ratings[i] = rating
            cost += seconds[REVIEW + rating - 1]
        for i in range(n, n + LANES):
            ratings[i] = 3.0
        for i in range(0, n, LANES):
            w = as_tuple(question.parameters, VALUES)
            old, dt = gather_state(state, card, i, STATES), load(t, i)
            store_state(passed, i, success(old, dt, load(ratings, i), w))
            store_state(failed, i, failure(old, dt, broadcast(1.0), w))
        for i in range(n):
            made = today.failed if ratings[i] == 1.0 else today.passed
            for of in range(0, STATES * room, room):
                states[of + card[i]] = made[of + i]
        if SEPARATE:
            for i in range(0, n, LANES):
                w = as_tuple(question.scheduler_parameters, SCHEDULER_VALUES)
                old, dt = gather_state(scheduler_state, card, i, SCHEDULER_STATES), load(t, i)
                store_state(passed, i, scheduler_success(old, dt, load(ratings, i), w))
                store_state(failed, i, scheduler_failure(old, dt, broadcast(1.0), w))
            for i in range(n):
                made = today.failed if ratings[i] == 1.0 else today.passed
                for of in range(0, SCHEDULER_STATES * room, room):
                    scheduler_states[of + card[i]] = made[of + i]

        # New cards come after the reviews
        new = question.new_a_day - (question.introduced_today if day == 0 else 0)
        if not question.new_ignore_review_limit:
            new = min(new, question.reviews_a_day - n)
        new = min(max(new, 0), waiting)
        for i in range(n, n + new):
            rating = 1 + drawn(random, question.first_rating, 0, 4)
            card[i], ratings[i] = learned + i - n, rating
            cost += seconds[LEARNING + rating - 1]
            stepping[steps], step_rating[steps] = card[i], rating
            row[steps], consecutive[steps] = 0, 0
            needed[steps] = question.learning_steps - (1 if rating > 2 else 0)
            steps += 1
        for i in range(n + new, n + new + LANES):
            card[i], ratings[i] = 0, 3.0
        for i in range(n, n + new, LANES):
            w = as_tuple(question.parameters, VALUES)
            store_state(passed, i, first(load(ratings, i), w))
        for i in range(n, n + new):
            for of in range(0, STATES * room, room):
                states[of + card[i]] = today.passed[of + i]
        if SEPARATE:
            for i in range(n, n + new, LANES):
                w = as_tuple(question.scheduler_parameters, SCHEDULER_VALUES)
                store_state(passed, i, scheduler_first(load(ratings, i), w))
            for i in range(n, n + new):
                for of in range(0, SCHEDULER_STATES * room, room):
                    scheduler_states[of + card[i]] = today.passed[of + i]
        learned += new
        waiting -= new

        # Steps of learning and relearning
        for _ in range(MOST_STEPS):
            going = 0
            for i in range(steps):
                rating = int(step_rating[i])
                if consecutive[i] >= needed[i] or rating == 4:
                    continue
                kind = row[i]
                rating = 1 + drawn(random, question.step_rating, kind + 4 * (rating - 1), 4)
                cost += seconds[(RELEARNING if kind == RELEARNING_ROW else LEARNING) + rating - 1]
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
            dt = broadcast(question.step_days)
            for i in range(0, steps, LANES):
                w = as_tuple(question.parameters, VALUES)
                old, given = gather_state(state, stepping, i, STATES), load(step_rating, i)
                if HAS_SAME_DAY:
                    store_state(passed, i, same_day(old, dt, given, w))
                else:
                    store_state(passed, i, success(old, dt, given, w))
                    store_state(failed, i, failure(old, dt, broadcast(1.0), w))
            for i in range(steps):
                made = today.passed
                if not HAS_SAME_DAY and step_rating[i] == 1.0:
                    made = today.failed
                for of in range(0, STATES * room, room):
                    states[of + stepping[i]] = made[of + i]
            if SEPARATE:
                for i in range(0, steps, LANES):
                    w = as_tuple(question.scheduler_parameters, SCHEDULER_VALUES)
                    old = gather_state(scheduler_state, stepping, i, SCHEDULER_STATES)
                    given = load(step_rating, i)
                    if SCHEDULER_HAS_SAME_DAY:
                        store_state(passed, i, scheduler_same_day(old, dt, given, w))
                    else:
                        store_state(passed, i, scheduler_success(old, dt, given, w))
                        store_state(failed, i, scheduler_failure(old, dt, broadcast(1.0), w))
                for i in range(steps):
                    made = today.passed
                    if not SCHEDULER_HAS_SAME_DAY and step_rating[i] == 1.0:
                        made = today.failed
                    for of in range(0, SCHEDULER_STATES * room, room):
                        scheduler_states[of + stepping[i]] = made[of + i]

        # When they come up again
        n += new
        if SCALES:
            for i in range(n):
                t[i] = scheduler_states[card[i]] * horizon
        else:
            for i in range(0, n, LANES):
                w = as_tuple(question.scheduler_parameters, SCHEDULER_VALUES)
                now = gather_state(scheduler_state, card, i, SCHEDULER_STATES)
                # The Illinois method (Dowell and Jarratt 1971) on the interval's logarithm
                short, long = broadcast(log_shortest), broadcast(log_longest)
                above = scheduler_recall(exp(short), now, w) - question.retention
                below = scheduler_recall(exp(long), now, w) - question.retention
                at_once, never = above <= 0.0, below >= 0.0
                kept, found = broadcast(0.0), short
                for _ in range(SEARCH):
                    found = short + (long - short) * above / (above - below)
                    here = scheduler_recall(exp(found), now, w) - question.retention
                    enough = here >= 0.0
                    half_above = where(kept < 0.0, 0.5 * above, above)
                    half_below = where(kept > 0.0, 0.5 * below, below)
                    above, below = where(enough, here, half_above), where(enough, half_below, here)
                    short, long = where(enough, found, short), where(enough, long, found)
                    kept = where(enough, broadcast(1.0), broadcast(-1.0))
                found = where(never, log_longest, where(at_once, log_shortest, found))
                store(t, i, exp(found))
        for i in range(n):
            k = card[i]
            interval = math.floor(t[i] + 0.5)
            interval = min(max(interval, 1.0), question.maximum_interval)
            if question.balanced:
                interval = balanced_interval(
                    random, interval, question.maximum_interval, day, days, queue
                )
            last[k], cards.due[k] = day, day + interval
            if cards.due[k] < queue.horizon:
                at = int(cards.due[k])
                due[at] += 1
                if at < days and lapses[k] < most_lapses:
                    following[k] = head[at]
                    head[at] = k

        out.reviews[day], out.new[day] = n - new, new
        out.recalled[day], out.seconds[day] = right, cost
        if question.known_on[day]:
            known, whole = broadcast(0.0), learned - learned % LANES
            for i in range(0, learned, LANES):
                w = as_tuple(question.parameters, VALUES)
                dt = broadcast(float(day)) - load(last, i)
                r = recall(dt, load_state(state, i, STATES), w)
                if i < whole:
                    known += r
                else:
                    store(recalls, 0, r)
            sum_known = total(known)
            for i in range(learned - whole):
                sum_known += recalls[i]
            out.known[day] = sum_known
