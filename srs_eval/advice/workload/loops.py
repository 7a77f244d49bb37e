"""Define the loop templates by which a model processes many cards at once.

A memory has five loops, a scheduler two more:

    begin(parameters, states, room, card, rating, start, end, work)
    review(parameters, states, room, card, t, rating, start, end, work)      on a later day
    step(parameters, states, room, card, rating, start, end, work)           on the same day
    recall(parameters, states, room, card, t, count, out)                    probabilities
    follow(histories_table, work_table)                                      whole histories

    factor(parameters, retention, work)                                      for `intervals`, once
    intervals(parameters, states, room, card, count, factor, out)

The simulation needs nothing else from a model. `states` (width, room) are those of all cards;
card[start:end] are answered, each once; `t` are days. Arrays are pointers (`packing.pack`) with
LANES more elements than are used: these are computed with, too, so they hold ordinary values.
`follow` is called from Python.

`compile.specialise` replaces names below, such as `_first`, by the model's own constants, steps,
and loops that were compiled for it before. In the table LOOPS, each template calls only templates
before it.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.training.elementwise import LANES
from srs_eval.training.packing import Int32Array
from srs_eval.training.simd import (
    as_tuple,
    broadcast,
    exp,
    gather_state,
    load,
    load_state,
    store,
    store_state,
    unpack,
    where,
)

_STATES = 0  # number of values in a card's state
_VALUES = 0  # number of parameters and constants
_HAS_SAME_DAY = 0  # whether a step has its own formula; else it is a review after _STEP_DAYS
_SCALES = 0  # whether R depends only on t / s, where s is the state's first value
_first: Any = None  # the model's steps
_success: Any = None
_failure: Any = None
_same_day: Any = None
_curve: Any = None  # its `recall`
_begin: Any = None  # loops
_review: Any = None
_step: Any = None

_HALVINGS, _SEARCH_STEPS = 60, 10  # steps to find the logarithm of an interval, by either method
_SHORTEST, _LONGEST = math.log(0.5), math.log(36_501.0)  # logarithms of days
_STEP_DAYS = 10 / 1440


class LoopWorkspace(NamedTuple):
    """Buffers for intermediate results."""

    state: FloatArray  # (states, LANES)
    card: Int32Array  # (size,), LANES more than the cards answered at once
    t: FloatArray  # (size,)


def make_workspace(states: int, size: int) -> LoopWorkspace:
    """Return buffers for states of so many values, and for `size` cards."""
    return LoopWorkspace(np.empty((states, LANES)), np.zeros(size, np.int32), np.empty(size))


class HistoryTable(NamedTuple):
    """Histories of m cards, those with most reviews first; columns are stored round by round."""

    rounds: int  # most reviews of any card
    begins: IntArray  # (rounds + 1,) start of each round in the columns
    same_day: IntArray  # (rounds,) start of the steps in each round, after the reviews
    card: Int32Array
    t: FloatArray  # days since the previous review
    rating: FloatArray
    room: int
    states: FloatArray  # (states, room)
    parameters: FloatArray


# Answers and recall


def _write_back(
    states: Any, room: int, width: int, card: Any, i: int, end: int, new_states: Any
) -> None:
    """Write new states (width, LANES) of the cards card[i : end], at most LANES."""
    for lane in range(min(LANES, end - i)):
        for k in range(width):
            states[k * room + card[i + lane]] = new_states[k * LANES + lane]


def _begin_all(
    parameters: Any, states: Any, room: int, card: Any, rating: Any, start: int, end: int, work: Any
) -> None:  # fmt: skip
    for i in range(start, end, LANES):
        w = as_tuple(parameters, _VALUES)
        store_state((work.state, LANES), 0, _first(load(rating, i), w))
        _write_back(states, room, _STATES, card, i, end, work.state)


def _review_all(
    parameters: Any, states: Any, room: int, card: Any, t: Any, rating: Any, start: int, end: int,
    work: Any,
) -> None:  # fmt: skip
    """Update the passed cards, and collect the few failed ones to update them afterwards."""
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
        failed_states = _failure(old, load(work.t, i), broadcast(1.0), w)
        store_state((work.state, LANES), 0, failed_states)
        _write_back(states, room, _STATES, work.card, i, failed, work.state)


def _step_all(
    parameters: Any, states: Any, room: int, card: Any, rating: Any, start: int, end: int, work: Any
) -> None:
    if not _HAS_SAME_DAY:
        for i in range(start, end + LANES):
            work.t[i] = _STEP_DAYS
        _review(parameters, states, room, card, work.t, rating, start, end, work)
    else:
        dt = broadcast(0.0)
        for i in range(start, end, LANES):
            w = as_tuple(parameters, _VALUES)
            old = gather_state((states, room), card, i, _STATES)
            store_state((work.state, LANES), 0, _same_day(old, dt, load(rating, i), w))
            _write_back(states, room, _STATES, card, i, end, work.state)


def _recall_all(
    parameters: Any, states: Any, room: int, card: Any, t: Any, count: int, out: Any
) -> None:
    for i in range(0, count, LANES):
        w = as_tuple(parameters, _VALUES)
        store(out, i, _curve(load(t, i), gather_state((states, room), card, i, _STATES), w))


# Intervals


def _factor(parameters: Any, retention: float, work: Any) -> float:
    """Return what `_intervals` needs: the interval for s = 1 if R scales, else the retention."""
    if not _SCALES:
        return retention
    w = as_tuple(parameters, _VALUES)
    for k in range(_STATES * LANES):
        work.state[k] = 1.0
    state = load_state((work.state, LANES), 0, _STATES)
    short, long = broadcast(-30.0), broadcast(30.0)  # logarithms of days
    for _ in range(_HALVINGS):
        middle = 0.5 * (short + long)
        enough = _curve(exp(middle), state, w) >= retention
        short, long = where(enough, middle, short), where(enough, long, middle)
    store(work.t, 0, exp(short))
    return work.t[0]


def _intervals(
    parameters: Any, states: Any, room: int, card: Any, count: int, factor: float, out: Any
) -> None:
    """Compute the days until R falls to the retention, not rounded."""
    if _SCALES:
        for i in range(count):
            out[i] = states[card[i]] * factor
        return
    retention = factor  # what `_factor` returns in this case
    for i in range(0, count, LANES):
        w = as_tuple(parameters, _VALUES)
        state = gather_state((states, room), card, i, _STATES)
        # Illinois method (Dowell and Jarratt 1971) on the logarithm of the interval: the root is
        # between `short`, where R minus the retention is `above` 0, and `long`, where it is
        # `below`. If an end stays twice, its value is halved, so that the next point is nearer.
        short, long = broadcast(_SHORTEST), broadcast(_LONGEST)
        above = _curve(exp(short), state, w) - retention
        below = _curve(exp(long), state, w) - retention
        at_once, never = above <= 0.0, below >= 0.0
        moved, point = broadcast(0.0), short  # the end that moved last: 1 is `short`, -1 `long`
        for _ in range(_SEARCH_STEPS):
            point = short + (long - short) * above / (above - below)
            excess = _curve(exp(point), state, w) - retention
            enough = excess >= 0.0
            half_above = where(moved < 0.0, 0.5 * above, above)
            half_below = where(moved > 0.0, 0.5 * below, below)
            above, below = where(enough, excess, half_above), where(enough, half_below, excess)
            short, long = where(enough, point, short), where(enough, long, point)
            moved = where(enough, broadcast(1.0), broadcast(-1.0))
        store(out, i, exp(where(never, _LONGEST, where(at_once, _SHORTEST, point))))


# Histories


def _follow(histories_table: Any, work_table: Any) -> None:
    """Compute the states of all cards after their histories."""
    table, work = unpack(histories_table, HistoryTable), unpack(work_table, LoopWorkspace)
    parameters, states, room = table.parameters, table.states, table.room
    card, t, rating = table.card, table.t, table.rating
    _begin(parameters, states, room, card, rating, 0, table.begins[1], work)
    for k in range(1, table.rounds):
        begin, steps_begin, end = table.begins[k], table.same_day[k], table.begins[k + 1]
        _review(parameters, states, room, card, t, rating, begin, steps_begin, work)
        _step(parameters, states, room, card, rating, steps_begin, end, work)


LOOPS = {
    "begin": _begin_all,
    "review": _review_all,
    "recall": _recall_all,
    "factor": _factor,
    "intervals": _intervals,
    "step": _step_all,
    "follow": _follow,
}
