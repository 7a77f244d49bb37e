"""The templates of what a memory does to many cards at once: five loops, and two of a scheduler.

    begin(parameters, states, room, card, rating, seconds, start, end, work)
    review(parameters, states, room, card, t, rating, seconds, start, end, work)  of a later day
    step(parameters, states, room, card, t, rating, seconds, start, end, work)    of the same day
    recall(parameters, states, room, card, t, count, out)                         probabilities
    follow(histories_table, work_table)                                           whole histories

    factor(parameters, retention, work)                                      what follows needs once
    intervals(parameters, states, room, card, count, retention, factor, longest, out)

That is all that the simulation asks of a model. `states` (width, room) are those of all cards;
card[start:end] are answered, each once, in seconds[start:end]; `t` are days, in a step one number
for all. Arrays are pointers (`records`) with LANES places more than are used, which hold ordinary
values. `follow` is called from Python.

`compile.specialised` puts a model's own in place of the names with an underscore below: its
constants, its steps, and the loops that were made for it before. The tables at the end name the
templates of each kind of model, in an order in which each calls those before it only.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.training.cells import GRU, LSTM, PLAIN, Shape, forward, recall_and_slope
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
    starting_at,
    store,
    store_state,
    unpacked,
    where,
)

_STATES = 0
_VALUES = 0  # parameters and constants
_HAS_SAME_DAY = 0  # whether a step has a formula of its own
_SCALES = 0  # whether R depends on t / s alone, s being the first state
_first: Any = None  # a recurrent model's steps
_success: Any = None
_failure: Any = None
_same_day: Any = None
_curve: Any = None  # its `recall`
_CELL, _HEAD, _INPUTS, _HIDDEN = 0, 0, 0, 0  # of a network
_FOLLOWING = 0  # whether it sees each rating with the interval that follows
_scratch: Any = None  # room for LANES cards of a network
_answered: Any = None  # LANES answers to a network's cards
_begin: Any = None  # loops
_review: Any = None
_step: Any = None

_HALVINGS, _SEARCH = 60, 10  # of the logarithm of an interval; steps of a faster search for it


class Work(NamedTuple):
    """Room for intermediate results."""

    state: FloatArray  # (states, LANES)
    card: Int32Array  # (size,), LANES more than cards are answered at once
    t: FloatArray  # (size,)


def work_for(states: int, size: int) -> Work:
    return Work(np.empty((states, LANES)), np.zeros(size, np.int32), np.empty(size))


class Followed(NamedTuple):
    """Histories of m cards, those with most reviews first; columns are round after round."""

    rounds: int  # reviews of the card that has most
    begins: IntArray  # (rounds + 1,) of each round in the columns
    same_day: IntArray  # (rounds,) where those begin that are steps; the others come first
    card: Int32Array
    t: FloatArray  # days since the review before
    rating: FloatArray
    seconds: FloatArray  # that the answer took
    room: int
    states: FloatArray  # (states, room)
    parameters: FloatArray


# Recurrent models


def keep(states: Any, room: int, width: int, card: Any, i: int, end: int, made: Any) -> None:
    """Write what was made (width, LANES) of the cards card[i : end], at most LANES."""
    for lane in range(min(LANES, end - i)):
        for k in range(width):
            states[k * room + card[i + lane]] = made[k * LANES + lane]


def _recurrent_begin(
    parameters: Any, states: Any, room: int, card: Any, rating: Any, seconds: Any, start: int,
    end: int, work: Any,
) -> None:  # fmt: skip
    for i in range(start, end, LANES):
        w = as_tuple(parameters, _VALUES)
        store_state((work.state, LANES), 0, _first(load(rating, i), w))
        keep(states, room, _STATES, card, i, end, work.state)


def _recurrent_review(
    parameters: Any, states: Any, room: int, card: Any, t: Any, rating: Any, seconds: Any,
    start: int, end: int, work: Any,
) -> None:  # fmt: skip
    """Passes first; failures, which are few, then by themselves."""
    failed = 0
    for i in range(start, end, LANES):
        w = as_tuple(parameters, _VALUES)
        old = gather_state((states, room), card, i, _STATES)
        store_state((work.state, LANES), 0, _success(old, load(t, i), load(rating, i), w))
        for lane in range(min(LANES, end - i)):
            if rating[i + lane] > 1.0:
                for k in range(_STATES):
                    states[k * room + card[i + lane]] = work.state[k * LANES + lane]
            else:
                work.card[failed], work.t[failed] = card[i + lane], t[i + lane]
                failed += 1
    for i in range(failed, failed + LANES):
        work.card[i], work.t[i] = card[start], 1.0
    for i in range(0, failed, LANES):
        w = as_tuple(parameters, _VALUES)
        old = gather_state((states, room), work.card, i, _STATES)
        made = _failure(old, load(work.t, i), broadcast(1.0), w)
        store_state((work.state, LANES), 0, made)
        keep(states, room, _STATES, work.card, i, failed, work.state)


def step(
    parameters: Any, states: Any, room: int, card: Any, t: float, rating: Any, seconds: Any,
    start: int, end: int, work: Any,
) -> None:  # fmt: skip
    if not _HAS_SAME_DAY:
        for i in range(start, end + LANES):
            work.t[i] = t
        _review(parameters, states, room, card, work.t, rating, seconds, start, end, work)
    else:
        dt = broadcast(t)
        for i in range(start, end, LANES):
            w = as_tuple(parameters, _VALUES)
            old = gather_state((states, room), card, i, _STATES)
            store_state((work.state, LANES), 0, _same_day(old, dt, load(rating, i), w))
            keep(states, room, _STATES, card, i, end, work.state)


def _recurrent_recall(
    parameters: Any, states: Any, room: int, card: Any, t: Any, count: int, out: Any
) -> None:
    for i in range(0, count, LANES):
        w = as_tuple(parameters, _VALUES)
        store(out, i, _curve(load(t, i), gather_state((states, room), card, i, _STATES), w))


# Intervals by a recurrent model


def _factor(parameters: Any, retention: float, work: Any) -> float:
    """The interval of a stability of 1 day, where all are multiples of it."""
    if not _SCALES:
        return 0.0
    w = as_tuple(parameters, _VALUES)
    for k in range(_STATES * LANES):
        work.state[k] = 1.0
    one = load_state((work.state, LANES), 0, _STATES)
    short, long = broadcast(-30.0), broadcast(30.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (short + long)
        enough = _curve(exp(middle), one, w) >= retention
        short, long = where(enough, middle, short), where(enough, long, middle)
    store(work.t, 0, exp(short))
    return work.t[0]


def _intervals(
    parameters: Any, states: Any, room: int, card: Any, count: int, retention: float,
    factor: float, longest: float, out: Any,
) -> None:  # fmt: skip
    """Days until R falls to the retention, not rounded."""
    if _SCALES:
        for i in range(count):
            out[i] = states[card[i]] * factor
        return
    log_shortest, log_longest = math.log(0.5), math.log(longest + 1.0)
    for i in range(0, count, LANES):
        w = as_tuple(parameters, _VALUES)
        now = gather_state((states, room), card, i, _STATES)
        # The Illinois method (Dowell and Jarratt 1971) on the interval's logarithm
        short, long = broadcast(log_shortest), broadcast(log_longest)
        above = _curve(exp(short), now, w) - retention
        below = _curve(exp(long), now, w) - retention
        at_once, never = above <= 0.0, below >= 0.0
        kept, found = broadcast(0.0), short
        for _ in range(_SEARCH):
            found = short + (long - short) * above / (above - below)
            here = _curve(exp(found), now, w) - retention
            enough = here >= 0.0
            half_above = where(kept < 0.0, 0.5 * above, above)
            half_below = where(kept > 0.0, 0.5 * below, below)
            above, below = where(enough, here, half_above), where(enough, half_below, here)
            short, long = where(enough, found, short), where(enough, long, found)
            kept = where(enough, broadcast(1.0), broadcast(-1.0))
        found = where(never, log_longest, where(at_once, log_shortest, found))
        store(out, i, exp(found))


# Networks: what `answered` does to LANES cards, again and again


def _network_begin(
    parameters: Any, states: Any, room: int, card: Any, rating: Any, seconds: Any, start: int,
    end: int, work: Any,
) -> None:  # fmt: skip
    scratch = _scratch()
    for i in range(start, end, LANES):
        _answered(
            parameters, states, room, card, i, end, 1, broadcast(0.0), load(rating, i),
            load(seconds, i), scratch,
        )  # fmt: skip


def _network_review(
    parameters: Any, states: Any, room: int, card: Any, t: Any, rating: Any, seconds: Any,
    start: int, end: int, work: Any,
) -> None:  # fmt: skip
    scratch = _scratch()
    for i in range(start, end, LANES):
        _answered(
            parameters, states, room, card, i, end, 0, load(t, i), load(rating, i),
            load(seconds, i), scratch,
        )  # fmt: skip


# Small networks. A card's state are its hidden units, and the last rating where this is seen only
# with the interval that follows it.


def _cell_scratch() -> Any:
    """Inputs, states before and after, and what the cells leave: for LANES cards."""
    units = _HIDDEN * (2 if _CELL == LSTM else 1)
    return (
        np.empty((_INPUTS, LANES)),
        np.zeros((units, LANES)),
        np.zeros((units + _FOLLOWING, LANES)),
        np.empty((5 * _HIDDEN, LANES)),
    )


def _cell_answered(
    parameters: Any, states: Any, room: int, card: Any, i: int, end: int, first: int, t: Any,
    rating: Any, seconds: Any, scratch: Any,
) -> None:  # fmt: skip
    x, before, after, kept = scratch
    units, inputs, given = len(before), rows_of(x), rating
    if _FOLLOWING:
        (given,) = gather_state((starting_at(states, units * room), room), card, i, 1)
    inputs[0] = t
    if _INPUTS == 2:
        inputs[1] = given
    else:
        for k in range(1, _INPUTS):
            inputs[k] = where(given == float(k), 1.0, broadcast(0.0))
    for k in range(units):
        for lane in range(LANES):
            before[k, lane] = 0.0 if first else states[k * room + card[i + lane]]
    shape = Shape(_CELL, _HEAD, _INPUTS, _HIDDEN)
    forward(shape, parameters, x, 0, after, kept, 0, rows_of(before))
    if _FOLLOWING:
        if first:
            after[:] = 0.0
        store(after[units], 0, rating)
    keep(states, room, len(after), card, i, end, starting_at(after, 0))


def _cell_recall(
    parameters: Any, states: Any, room: int, card: Any, t: Any, count: int, out: Any
) -> None:
    scratch = _scratch()
    after = scratch[2]
    gates = (3 if _CELL == GRU else 1 if _CELL == PLAIN else 4) * _HIDDEN
    outputs = gates * (_INPUTS + _HIDDEN + 2)  # where the output's weights begin
    for i in range(0, count, LANES):
        if _FOLLOWING:  # as if it were answered, but nothing is kept
            _answered(
                parameters, states, room, card, i, i, 0, load(t, i), load(t, i), load(t, i), scratch
            )
        else:
            for k in range(_HIDDEN):
                for lane in range(LANES):
                    after[k, lane] = states[k * room + card[i + lane]]
        z = broadcast(parameters[outputs + _HIDDEN])
        for k in range(_HIDDEN):
            z += parameters[outputs + k] * load(after[k], 0)
        p, _ = recall_and_slope(_HEAD, z, load(t, i))
        store(out, i, p)


# Histories


def follow(followed_table: Any, work_table: Any) -> None:
    """The states of all cards after their histories."""
    it, work = unpacked(followed_table, Followed), unpacked(work_table, Work)
    _begin(it.parameters, it.states, it.room, it.card, it.rating, it.seconds, 0, it.begins[1], work)
    for k in range(1, it.rounds):
        _review(
            it.parameters, it.states, it.room, it.card, it.t, it.rating, it.seconds, it.begins[k],
            it.same_day[k], work,
        )  # fmt: skip
        _step(
            it.parameters, it.states, it.room, it.card, 0.0, it.rating, it.seconds, it.same_day[k],
            it.begins[k + 1], work,
        )  # fmt: skip


RECURRENT = {
    "begin": _recurrent_begin,
    "review": _recurrent_review,
    "recall": _recurrent_recall,
    "factor": _factor,
    "intervals": _intervals,
}
OF_NETWORKS = {"begin": _network_begin, "review": _network_review}
NETWORK = {
    "scratch": _cell_scratch,
    "answered": _cell_answered,
    "recall": _cell_recall,
}
