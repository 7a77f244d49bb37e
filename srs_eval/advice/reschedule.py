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
from dataclasses import dataclass
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
from srs_eval.models import fsrs6, fsrs7
from srs_eval.models.own_parameters import model_name

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


@dataclass(frozen=True, eq=False)
class RescheduledCards:
    """Cards in review (n,) with their days and recall before and after rescheduling.

    Days are relative to the first day after the log. Recall is expected by the new parameters on
    the day on which a card is due, or today if that is later.
    """

    last_day: IntArray  # of the last review
    due_day: IntArray  # as it is now
    new_due_day: IntArray
    recall: FloatArray
    new_recall: FloatArray
    desired: float
    reviews_a_day: float  # the learner's pace


ReasonWithoutCards = Literal["few cards", "no schedule"]


def _assess_preset(learner: Learner, group: int, preset: Preset) -> f.Reschedule:
    if len(learner.positions(group)) < f.MIN_REVIEWS_TO_FIT:
        return f.Reschedule("few reviews")
    try:
        parameters = learner.fit_parameters(f.RECENCY, group)
    except NotEnoughData:
        return f.Reschedule("few cards" if learner.log.schedule is not None else "no schedule")
    assert parameters is not None
    cards = reschedule_cards(learner, group, preset, parameters)
    if not isinstance(cards, RescheduledCards):
        return f.Reschedule(cards)
    return summarize_moves([cards], fsrs_is_off=learner.is_fsrs_off)


def reschedule_cards(
    learner: Learner, group: int, preset: Preset, parameters: Sequence[float]
) -> RescheduledCards | ReasonWithoutCards:
    """Reschedule a preset's cards in review by parameters of FSRS-6 or FSRS-7.

    Return "no schedule" if nothing is known of due days, and "few cards" if no card is in use.
    """
    try:
        today = collect_todays_cards(learner.log, group)
    except InputError:  # all suspended, or nothing is known of due days
        return "few cards" if learner.log.schedule is not None else "no schedule"
    last_day = _find_last_days(learner, today)
    is_moved = last_day < 0
    memory = Memory(model_name(parameters), tuple(parameters))
    state = compute_memory_state(today, memory)[:, is_moved]
    desired = preset.desired_retention or _DEFAULT_RETENTION
    longest = preset.maximum_interval or 36_500
    interval = compute_intervals(state, parameters, desired, longest)
    last = last_day[is_moved]
    due = today.due_day[is_moved]
    new_due = last + interval

    def expect_recall(due_day: IntArray) -> FloatArray:
        days = (np.maximum(due_day, 0) - last).astype(np.float64)
        recall: FloatArray = memory.recurrent.recall(days, state, memory.values)
        return recall

    return RescheduledCards(
        last_day=last,
        due_day=due,
        new_due_day=new_due,
        recall=expect_recall(due),
        new_recall=expect_recall(new_due),
        desired=desired,
        reviews_a_day=measure_pace(learner.log, group).reviews_a_day,
    )


def summarize_moves(presets: Sequence[RescheduledCards], *, fsrs_is_off: bool) -> f.Reschedule:
    """Summarize how far the cards of one or several presets move, and what comes due."""
    last = np.concatenate([cards.last_day for cards in presets])
    if len(last) < _MIN_CARDS:
        return f.Reschedule("few cards", cards=len(last))
    due_now = np.concatenate([cards.due_day for cards in presets])
    due_rescheduled = np.concatenate([cards.new_due_day for cards in presets])
    without = _measure_load(due_now, np.concatenate([cards.recall for cards in presets]))
    rescheduled = _measure_load(
        due_rescheduled, np.concatenate([cards.new_recall for cards in presets])
    )
    moved = due_rescheduled - due_now
    least_move = np.maximum(_MIN_MOVE * np.maximum(due_now - last, 1), 1)
    pace = sum(cards.reviews_a_day for cards in presets)
    return f.Reschedule(
        conclusion=_conclude(without, rescheduled, pace),
        cards=len(moved),
        sooner=int((moved <= -least_move).sum()),
        later=int((moved >= least_move).sum()),
        days_moved=tuple(np.quantile(moved, (0.1, 0.5, 0.9)).tolist()),
        desired=float(
            np.average(
                [cards.desired for cards in presets],
                weights=[len(cards.last_day) for cards in presets],
            )
        ),
        fsrs_is_off=fsrs_is_off,
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
    state: FloatArray, parameters: Sequence[float], desired: float, maximum: int
) -> IntArray:
    """Compute whole days until recall falls to the desired share, from states (states, n).

    They are at least one day. Forks of Anki round so, too, when they reschedule by FSRS-7
    (JSchoreels/anki: rslib/src/scheduler/fsrs/memory_state.rs).
    """
    if model_name(parameters) == "FSRS-7":
        days = fsrs7.compute_days_until(desired, tuple(state), parameters)
    else:
        days = state[0] * fsrs6.compute_days_until(desired, parameters[20])
    return np.clip(np.round(days), 1, maximum).astype(np.int64)


def _measure_load(due: IntArray, recall: FloatArray) -> f.DueCards:
    """Measure the load of cards with these due days and recall when they are due (n,)."""
    day = np.maximum(due, 0)
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
