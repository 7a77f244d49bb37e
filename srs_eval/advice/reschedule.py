"""Count what moves if cards are rescheduled after optimizing, and what comes due with and without.

Anki's option "Reschedule cards on change" gives each review card that has a review the interval at
which the new parameters expect the desired retention, counted from its last review; a card whose
new interval is over is due at once (ankitects/anki: rslib/src/scheduler/fsrs/memory_state.rs).
Without it, a card keeps its due day and gets its new interval at its next review. The new
parameters are those that Anki's Optimize button would fit now. Anki moves intervals by chance a
little; that is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.advice.over_time import RETENTION_TOLERANCE
from srs_eval.advice.workload.simulator import Memory
from srs_eval.advice.workload.today import (
    TodaysCards,
    collect_todays_cards,
    compute_memory_state,
    measure_pace,
)
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import REVIEW_CARD, FloatArray, IntArray, Preset
from srs_eval.models import fsrs6

QUESTION = "reschedule"
_MIN_CARDS = 20
_MAX_BACKLOG_DAYS = 2.0  # days at the learner's pace that the cards added at once may take
_MIN_MOVE = 0.1  # share of its interval by which a card has to move to count as moved
_DEFAULT_RETENTION = 0.9


def assess_rescheduling(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding for each preset that runs FSRS-6."""
    groups = [group for group in groups if not learner.runs_fsrs7(group)]
    if not groups:
        yield f.make_fsrs7_finding(QUESTION)
    for group in groups:
        preset = learner.log.presets.get(group)
        if preset is None:
            continue
        name = learner.group_name(group)
        yield f.Finding(QUESTION, name, evidence=_assess_preset(learner, group, preset))


def _assess_preset(learner: Learner, group: int, preset: Preset) -> f.Reschedule:
    try:
        today = collect_todays_cards(learner.log, group)
    except InputError:  # all suspended, or nothing is known of due days
        is_known = learner.log.schedule is not None
        return f.Reschedule("few cards" if is_known else "no schedule")
    try:
        parameters = learner.fit_parameters(f.RECENCY, group)
    except NotEnoughData:
        return f.Reschedule("few cards")
    assert parameters is not None
    last_day = _find_last_days(learner, today)
    is_moved = last_day < 0
    if is_moved.sum() < _MIN_CARDS:
        return f.Reschedule("few cards", cards=int(is_moved.sum()))
    memory = Memory("FSRS-6", tuple(parameters))
    state = compute_memory_state(today, memory)[:, is_moved]
    desired = preset.desired_retention or _DEFAULT_RETENTION
    longest = preset.maximum_interval or 36_500
    interval = compute_intervals(state[0], parameters, desired, longest)
    last = last_day[is_moved]
    due_now = today.due_day[is_moved]
    due_rescheduled = last + interval
    without = _measure_load(due_now, last, state, memory)
    rescheduled = _measure_load(due_rescheduled, last, state, memory)
    moved = due_rescheduled - due_now
    least_move = np.maximum(_MIN_MOVE * np.maximum(due_now - last, 1), 1)
    pace = measure_pace(learner.log, group).reviews_a_day
    return f.Reschedule(
        conclusion=_conclude(without, rescheduled, pace),
        cards=len(moved),
        sooner=int((moved <= -least_move).sum()),
        later=int((moved >= least_move).sum()),
        days_moved=tuple(np.quantile(moved, (0.1, 0.5, 0.9)).tolist()),
        desired=desired,
        fsrs_is_off=learner.is_fsrs_off,
        reviews_a_day=pace,
        without=without,
        rescheduled=rescheduled,
    )


def _find_last_days(learner: Learner, today: TodaysCards) -> IntArray:
    """Return the day of each card's last review (n,), below 0; 0 for cards that do not move.

    Only review cards with a review in the log move.
    """
    schedule = learner.log.schedule
    assert schedule is not None
    kind = schedule.kind[np.searchsorted(schedule.card_id, today.card_id)]
    last_day = np.zeros(len(today), np.int64)
    last_day[today.histories.card] = np.minimum(today.histories.last_day, -1)
    return np.where((kind == REVIEW_CARD) & ~today.in_steps, last_day, 0)


def compute_intervals(
    stability: FloatArray, parameters: Sequence[float], desired: float, maximum: int
) -> IntArray:
    """Compute whole days until recall falls to the desired share, from FSRS-6's stability (n,)."""
    days = stability * fsrs6.compute_days_until(desired, parameters[20])
    return np.clip(np.round(days), 1, maximum).astype(np.int64)


def _measure_load(due: IntArray, last: IntArray, state: FloatArray, memory: Memory) -> f.DueCards:
    """Measure the load of cards with these due days and last reviews (n,) and states (2, n)."""
    day = np.maximum(due, 0)
    recall = memory.recurrent.recall(day - last, state, memory.values)
    by_day = np.bincount(day[day < f.LOAD_DAYS], minlength=f.LOAD_DAYS)
    return f.DueCards(int((due <= 0).sum()), tuple(by_day.tolist()), float(recall.mean()))


def _conclude(
    without: f.DueCards, rescheduled: f.DueCards, reviews_a_day: float
) -> Literal["yes", "no need", "backlog"]:
    if abs(rescheduled.recall - without.recall) < RETENTION_TOLERANCE:
        return "no need"
    added = rescheduled.due_at_once - without.due_at_once
    if added > _MAX_BACKLOG_DAYS * reviews_a_day:
        return "backlog"
    return "yes"
