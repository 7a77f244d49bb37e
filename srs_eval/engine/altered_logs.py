"""Alter learners' logs: give them other answers or another future, or cut them off.

The checks of models (`leakage`) predict on an altered log and on the original. Up to a review,
both agree in everything known before its answer, so a prediction that differs has used something
else.

A review is identified by its number, from 1, as in `Trials.review_th`. Logs hold rows, not entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.days import DAY_S
from srs_eval.data.reviews import IntArray, ReviewLog, Rows

_OTHER_INTERVAL = 77.0  # days
_OTHER_EASE = 1300
_TIME_SHIFT_S = 40_000
_SHORT_ANSWER_MS = 10_000  # shorter answer times count as short
_ADDED_MS = 600_000  # makes a short answer longer than any answer that is timed

Columns = dict[str, NDArray[Any]]


def require_rows(log: ReviewLog) -> Rows:
    """Return the rows of a log that has them."""
    assert log.rows is not None
    return log.rows


def copy_columns(log: ReviewLog) -> Columns:
    """Return copies of the rows' columns by name, without columns that the source lacks."""
    columns = vars(require_rows(log)).items()
    return {name: column.copy() for name, column in columns if column is not None}


def replace_columns(log: ReviewLog, columns: Mapping[str, NDArray[Any]]) -> ReviewLog:
    """Return the log with these columns in place of its own."""
    return replace(
        log,
        rows=replace(require_rows(log), **columns),
        source_predictions={},
        external_predictions={},
    )


def swap_grades(log: ReviewLog, positions: IntArray) -> ReviewLog:
    """Swap passes and failures in the rows `positions` (k,)."""
    rating = require_rows(log).rating.copy()
    rating[positions] = np.where(rating[positions] == 1, 3, 1)
    return replace_columns(log, {"rating": rating})


def swap_outcomes(log: ReviewLog, positions: IntArray) -> ReviewLog:
    """Swap passes and failures in the rows `positions` (k,).

    Of these rows, all but the first of each card also get another state, interval and ease, because
    a scheduler would have reacted to the earlier outcomes.
    """
    columns = copy_columns(swap_grades(log, positions))
    first_of_card = np.unique(columns["card_id"][positions], return_index=True)[1]
    _reschedule(columns, np.delete(positions, first_of_card))
    return replace_columns(log, columns)


def swap_answers(log: ReviewLog, positions: IntArray) -> ReviewLog:
    """Swap outcomes like `swap_outcomes`, and change the answer times in these rows, too."""
    changed = swap_outcomes(log, positions)
    columns = copy_columns(changed)
    columns["duration_ms"][positions] = _change_durations(columns["duration_ms"][positions])
    return replace_columns(changed, columns)


def change_answer_time(log: ReviewLog, review: int) -> ReviewLog:
    """Change how long the answer of one review took."""
    columns = copy_columns(log)
    row = slice(review - 1, review)
    columns["duration_ms"][row] = _change_durations(columns["duration_ms"][row])
    return replace_columns(log, columns)


def truncate_after(log: ReviewLog, review: int) -> ReviewLog:
    """Drop all rows after a review."""
    columns = copy_columns(log)
    return replace_columns(log, {name: column[:review] for name, column in columns.items()})


def truncate_and_alter(log: ReviewLog, review: int) -> ReviewLog:
    """Drop all rows after a review, and change the review's own grade and answer time.

    Each grade becomes the next one, and Easy becomes Again.
    """
    truncated = truncate_after(change_answer_time(log, review), review)
    columns = copy_columns(truncated)
    columns["rating"][-1] = columns["rating"][-1] % 4 + 1
    return replace_columns(truncated, columns)


def alter_future(log: ReviewLog, review: int) -> ReviewLog:
    """Change a review's own outcome and answer time, and everything about the later rows.

    The later rows keep their cards and their order.
    """
    end = np.arange(review - 1, len(require_rows(log)))
    altered = change_answer_time(swap_grades(log, end), review)
    for change in LATER_INPUTS.values():
        altered = change(altered, review)
    return altered


def _change_later_intervals(log: ReviewLog, review: int) -> ReviewLog:
    """Stretch the time after a review: one day becomes three, two days become five."""
    columns = copy_columns(log)
    card_id = columns["card_id"]
    day = columns["day_offset"]
    day[review:] += day[review:] - day[review - 1] + 1
    by_card = np.argsort(card_id, kind="stable")
    new_elapsed_days = np.empty_like(day)
    new_elapsed_days[by_card] = np.diff(day[by_card], prepend=0)
    # The first review of a card has no interval: its elapsed days are -1.
    is_changed = (np.arange(len(day)) >= review) & (columns["elapsed_days"] >= 0)
    added_days = np.where(is_changed, new_elapsed_days - columns["elapsed_days"], 0)
    columns["elapsed_days"] += added_days
    columns["elapsed_seconds"] += added_days * DAY_S
    if "elapsed_study_days" in columns:
        columns["elapsed_study_days"] += added_days
    return replace_columns(log, columns)


def _change_later_times_of_day(log: ReviewLog, review: int) -> ReviewLog:
    columns = copy_columns(log)
    if "time_of_day_s" in columns:
        later_times = columns["time_of_day_s"][review:]
        columns["time_of_day_s"][review:] = (later_times + _TIME_SHIFT_S) % DAY_S
    return replace_columns(log, columns)


def _change_later_answer_times(log: ReviewLog, review: int) -> ReviewLog:
    columns = copy_columns(log)
    columns["duration_ms"][review:] = _change_durations(columns["duration_ms"][review:])
    return replace_columns(log, columns)


def _change_later_schedule(log: ReviewLog, review: int) -> ReviewLog:
    columns = copy_columns(log)
    _reschedule(columns, np.arange(review, len(columns["rating"])))
    return replace_columns(log, columns)


LATER_INPUTS: Mapping[str, Callable[[ReviewLog, int], ReviewLog]] = {
    "intervals": _change_later_intervals,
    "answer times": _change_later_answer_times,
    "states, scheduled intervals or ease": _change_later_schedule,
    "times of day": _change_later_times_of_day,
}
"""Changes to what is known about reviews besides their outcomes, in all rows after a review."""


def _reschedule(columns: Columns, positions: IntArray) -> None:
    """Write other states, scheduled intervals and eases to the rows `positions`."""
    state = columns["state"][positions]
    # A card's start (0) stays one; of the other states, 1 and 4 change places, and 2 and 3.
    columns["state"][positions] = np.where(state == 0, 0, 5 - state)
    if "scheduled_interval" in columns:
        columns["scheduled_interval"][positions] = _OTHER_INTERVAL
    if "ease" in columns:
        columns["ease"][positions] = _OTHER_EASE


def _change_durations(duration_ms: IntArray) -> IntArray:
    """Return long answer times for short ones and short ones for long ones."""
    is_short = duration_ms < _SHORT_ANSWER_MS
    return np.where(is_short, duration_ms + _ADDED_MS, duration_ms // 10)
