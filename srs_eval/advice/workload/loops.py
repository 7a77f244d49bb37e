"""The templates of what a memory does to many cards at once: five loops, and two of a scheduler.

    begin(parameters, states, room, card, rating, seconds, start, end, work)
    review(parameters, states, room, card, t, rating, seconds, count, work)  of a later day
    step(parameters, states, room, card, t, rating, seconds, count, work)    of the same day
    recall(parameters, states, room, card, t, count, out)                    probabilities
    follow(histories_table)                                                  whole histories

    factor(parameters, retention, work)                                      what follows needs once
    intervals(parameters, states, room, card, count, retention, factor, longest, out)

That is all that the simulation asks of a model. `states` (width, room) are those of all cards, of
which `card` (count,) are answered, each once, in so many `seconds` (count,); `t` are days (count,),
in a step one number for all. Arrays are pointers (`records`) with LANES places more than are used,
which hold ordinary values. `follow` is called from Python. `recurrent` models have steps in
place of the names below; networks go through their cells (`fitting.cells`).

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.training.cells import Shape, forward, recall_and_slope
from srs_eval.training.elementwise import LANES
from srs_eval.training.records import Int32Array
from srs_eval.training.simd import (
    as_tuple,
    broadcast,
    exp,
    gather_state,
    load,
    load_state,
    rows_of,
    store,
    store_state,
    unpacked,
    where,
)

STATES = 0
VALUES = 0  # parameters and constants
HAS_SAME_DAY = 0
SCALES = 0  # whether R depends on t / s alone, s being the first state
first: Any = None  # a recurrent model's steps
success: Any = None
failure: Any = None
same_day: Any = None
curve: Any = None  # its `recall`
CELL, HEAD, INPUTS, HIDDEN = 0, 0, 0, 0  # of a network
FOLLOWING = 0  # whether it sees each rating with the interval that follows
begin: Any = None  # loops of a model, for `follow`
review: Any = None
step: Any = None

HALVINGS, SEARCH = 60, 10  # of the logarithm of an interval; steps of a faster search for it


class Work(NamedTuple):
    """Room for intermediate results."""

    state: FloatArray  # (states, LANES)
    card: Int32Array  # (room + LANES,)
    t: FloatArray  # (room + LANES,)


class Followed(NamedTuple):
    """Histories of m cards, those with most reviews first, and room for what comes of them."""

    rounds: int  # reviews of the card that has most
    begins: IntArray  # (rounds + 1,) of each round in the columns
    given_rating: FloatArray  # of all reviews, round after round
    given_t: FloatArray  # days since the review before
    given_seconds: FloatArray  # that the answer took
    room: int
    states: FloatArray  # (states, room)
    parameters: FloatArray
    card: Int32Array  # (room + LANES,), as all below, of a round
    t: FloatArray
    rating: FloatArray
    seconds: FloatArray
    same_day_card: Int32Array
    same_day_rating: FloatArray
    same_day_seconds: FloatArray
    work_state: FloatArray  # see Work
    work_card: Int32Array
    work_t: FloatArray


# Recurrent models


def recurrent_begin(
    parameters: Any, states: Any, room: int, card: Any, rating: Any, seconds: Any, start: int,
    end: int, work: Any,
) -> None:  # fmt: skip
    for i in range(start, end, LANES):
        w = as_tuple(parameters, VALUES)
        store_state((work.state, LANES), 0, first(load(rating, i), w))
        for lane in range(min(LANES, end - i)):
            for k in range(STATES):
                states[k * room + card[i + lane]] = work.state[k * LANES + lane]


def recurrent_review(
    parameters: Any, states: Any, room: int, card: Any, t: Any, rating: Any, seconds: Any,
    count: int, work: Any,
) -> None:  # fmt: skip
    """Passes first; failures, which are few, then by themselves."""
    failed = 0
    for i in range(0, count, LANES):
        w = as_tuple(parameters, VALUES)
        old = gather_state((states, room), card, i, STATES)
        store_state((work.state, LANES), 0, success(old, load(t, i), load(rating, i), w))
        for lane in range(min(LANES, count - i)):
            if rating[i + lane] > 1.0:
                for k in range(STATES):
                    states[k * room + card[i + lane]] = work.state[k * LANES + lane]
            else:
                work.card[failed], work.t[failed] = card[i + lane], t[i + lane]
                failed += 1
    for i in range(failed, failed + LANES):
        work.card[i], work.t[i] = card[0], 1.0
    for i in range(0, failed, LANES):
        w = as_tuple(parameters, VALUES)
        old = gather_state((states, room), work.card, i, STATES)
        made = failure(old, load(work.t, i), broadcast(1.0), w)
        store_state((work.state, LANES), 0, made)
        for lane in range(min(LANES, failed - i)):
            for k in range(STATES):
                states[k * room + work.card[i + lane]] = work.state[k * LANES + lane]


def recurrent_step(
    parameters: Any, states: Any, room: int, card: Any, t: float, rating: Any, seconds: Any,
    count: int, work: Any,
) -> None:  # fmt: skip
    if not HAS_SAME_DAY:
        for i in range(count + LANES):
            work.t[i] = t
        review(parameters, states, room, card, work.t, rating, seconds, count, work)
    else:
        dt = broadcast(t)
        for i in range(0, count, LANES):
            w = as_tuple(parameters, VALUES)
            old = gather_state((states, room), card, i, STATES)
            store_state((work.state, LANES), 0, same_day(old, dt, load(rating, i), w))
            for lane in range(min(LANES, count - i)):
                for k in range(STATES):
                    states[k * room + card[i + lane]] = work.state[k * LANES + lane]


def recurrent_recall(
    parameters: Any, states: Any, room: int, card: Any, t: Any, count: int, out: Any
) -> None:
    for i in range(0, count, LANES):
        w = as_tuple(parameters, VALUES)
        store(out, i, curve(load(t, i), gather_state((states, room), card, i, STATES), w))


# Intervals by a recurrent model


def recurrent_factor(parameters: Any, retention: float, work: Any) -> float:
    """The interval of a stability of 1 day, where all are multiples of it."""
    if not SCALES:
        return 0.0
    w = as_tuple(parameters, VALUES)
    for k in range(STATES * LANES):
        work.state[k] = 1.0
    one = load_state((work.state, LANES), 0, STATES)
    short, long = broadcast(-30.0), broadcast(30.0)
    for _ in range(HALVINGS):
        middle = 0.5 * (short + long)
        enough = curve(exp(middle), one, w) >= retention
        short, long = where(enough, middle, short), where(enough, long, middle)
    store(work.t, 0, exp(short))
    return work.t[0]


def recurrent_intervals(
    parameters: Any, states: Any, room: int, card: Any, count: int, retention: float,
    factor: float, longest: float, out: Any,
) -> None:  # fmt: skip
    """Days until R falls to the retention, not rounded."""
    if SCALES:
        for i in range(count):
            out[i] = states[card[i]] * factor
        return
    log_shortest, log_longest = math.log(0.5), math.log(longest + 1.0)
    for i in range(0, count, LANES):
        w = as_tuple(parameters, VALUES)
        now = gather_state((states, room), card, i, STATES)
        # The Illinois method (Dowell and Jarratt 1971) on the interval's logarithm
        short, long = broadcast(log_shortest), broadcast(log_longest)
        above = curve(exp(short), now, w) - retention
        below = curve(exp(long), now, w) - retention
        at_once, never = above <= 0.0, below >= 0.0
        kept, found = broadcast(0.0), short
        for _ in range(SEARCH):
            found = short + (long - short) * above / (above - below)
            here = curve(exp(found), now, w) - retention
            enough = here >= 0.0
            half_above = where(kept < 0.0, 0.5 * above, above)
            half_below = where(kept > 0.0, 0.5 * below, below)
            above, below = where(enough, here, half_above), where(enough, half_below, here)
            short, long = where(enough, found, short), where(enough, long, found)
            kept = where(enough, broadcast(1.0), broadcast(-1.0))
        found = where(never, log_longest, where(at_once, log_shortest, found))
        store(out, i, exp(found))


# Small networks. A card's state are its hidden units, and the last rating where this is seen only
# with the interval that follows it.


def cell_scratch(shape: Any) -> Any:
    """Inputs, states before and after, and what the cells leave: for LANES cards."""
    units = shape.hidden * (2 if shape.cell == 2 else 1)
    return (
        np.empty((shape.inputs, LANES)),
        np.zeros((units, LANES)),
        np.empty((units, LANES)),
        np.empty((5 * shape.hidden, LANES)),
    )


def show(x: Any, lane: int, t: float, rating: float) -> None:
    """What a cell sees of a review: days, and the rating as a number or as four indicators."""
    x[0, lane] = t
    if len(x) == 2:
        x[1, lane] = rating
    else:
        for k in range(1, len(x)):
            x[k, lane] = 1.0 if rating == k else 0.0


def through_cells(
    shape: Any, w: Any, states: Any, room: int, card: Any, i: int, scratch: Any
) -> None:
    """LANES cards from card[i] on through the cells, with the inputs in the scratch."""
    x, before, after, kept = scratch
    for k in range(len(before)):
        for lane in range(LANES):
            before[k, lane] = states[k * room + card[i + lane]]
    forward(shape, w, x, 0, after, kept, 0, rows_of(before))


def network_begin(
    parameters: Any, states: Any, room: int, card: Any, rating: Any, seconds: Any, start: int,
    end: int, work: Any,
) -> None:  # fmt: skip
    shape = Shape(CELL, HEAD, INPUTS, HIDDEN)
    x, before, after, kept = cell_scratch(shape)
    for i in range(start, end, LANES):
        if not FOLLOWING:
            for lane in range(LANES):
                show(x, lane, 0.0, rating[i + lane])
            forward(shape, parameters, x, 0, after, kept, 0, rows_of(before))
        for lane in range(min(LANES, end - i)):
            at = card[i + lane]
            for k in range(len(after)):
                states[k * room + at] = 0.0 if FOLLOWING else after[k, lane]
            if FOLLOWING:
                states[len(after) * room + at] = rating[i + lane]


def network_review(
    parameters: Any, states: Any, room: int, card: Any, t: Any, rating: Any, seconds: Any,
    count: int, work: Any,
) -> None:  # fmt: skip
    shape = Shape(CELL, HEAD, INPUTS, HIDDEN)
    scratch = cell_scratch(shape)
    x, _, after, _ = scratch
    units = len(after)
    for i in range(0, count, LANES):
        for lane in range(LANES):
            given = states[units * room + card[i + lane]] if FOLLOWING else rating[i + lane]
            show(x, lane, t[i + lane], given)
        through_cells(shape, parameters, states, room, card, i, scratch)
        for lane in range(min(LANES, count - i)):
            at = card[i + lane]
            for k in range(units):
                states[k * room + at] = after[k, lane]
            if FOLLOWING:
                states[units * room + at] = rating[i + lane]


def network_step(
    parameters: Any, states: Any, room: int, card: Any, t: float, rating: Any, seconds: Any,
    count: int, work: Any,
) -> None:  # fmt: skip
    """Trained on whole days, a network knows steps as answers after none."""
    for i in range(count + LANES):
        work.t[i] = 0.0
    review(parameters, states, room, card, work.t, rating, seconds, count, work)


def network_recall(
    parameters: Any, states: Any, room: int, card: Any, t: Any, count: int, out: Any
) -> None:
    shape = Shape(CELL, HEAD, INPUTS, HIDDEN)
    scratch = cell_scratch(shape)
    x, _, after, _ = scratch
    units = len(after)
    gates = (3 if CELL == 0 else 1 if CELL == 1 else 4) * HIDDEN
    outputs = gates * (INPUTS + HIDDEN + 2)  # where the output's weights begin
    for i in range(0, count, LANES):
        if FOLLOWING:
            for lane in range(LANES):
                show(x, lane, t[i + lane], states[units * room + card[i + lane]])
            through_cells(shape, parameters, states, room, card, i, scratch)
        else:
            for k in range(HIDDEN):
                for lane in range(LANES):
                    after[k, lane] = states[k * room + card[i + lane]]
        z = broadcast(parameters[outputs + HIDDEN])
        for k in range(HIDDEN):
            z += parameters[outputs + k] * load(after[k], 0)
        p, _ = recall_and_slope(HEAD, z, load(t, i))
        store(out, i, p)


# Histories


def follow(followed_table: Any) -> None:
    """The states of all cards after their histories."""
    it = unpacked(followed_table, Followed)
    work = Work(it.work_state, it.work_card, it.work_t)
    states, room, begins = it.states, it.room, it.begins
    for k in range(it.rounds):
        count, same_day_count = 0, 0
        for i in range(begins[k], begins[k + 1]):
            at = i - begins[k]
            if k > 0 and HAS_SAME_DAY and it.given_t[i] < 1.0:
                it.same_day_card[same_day_count] = at
                it.same_day_rating[same_day_count] = it.given_rating[i]
                it.same_day_seconds[same_day_count] = it.given_seconds[i]
                same_day_count += 1
            else:
                it.card[count], it.rating[count] = at, it.given_rating[i]
                it.t[count], it.seconds[count] = it.given_t[i], it.given_seconds[i]
                count += 1
        for i in range(LANES):
            it.card[count + i], it.rating[count + i], it.t[count + i] = 0, 3.0, 1.0
            it.same_day_card[same_day_count + i] = 0
            it.same_day_rating[same_day_count + i] = 3.0
            it.seconds[count + i], it.same_day_seconds[same_day_count + i] = 1.0, 1.0
        if k == 0:
            begin(it.parameters, states, room, it.card, it.rating, it.seconds, 0, count, work)
            continue
        review(it.parameters, states, room, it.card, it.t, it.rating, it.seconds, count, work)
        step(
            it.parameters, states, room, it.same_day_card, 0.0, it.same_day_rating,
            it.same_day_seconds, same_day_count, work,
        )  # fmt: skip
