"""Learners' logs with other answers, with another future, or cut off.

The checks of models (`foresight`) predict on such a log and on the original. Up to a review both
agree in all that is known before its answer, so a prediction that differs has used something else.

A review is named by its number, from 1, as in `Trials.review_th`. Logs hold rows, not entries.
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
_LONG_MS = 600_000  # longer than any answer that is timed

Columns = dict[str, NDArray[Any]]


def rows_of(log: ReviewLog) -> Rows:
    """Return the rows of a log that has them."""
    assert log.rows is not None
    return log.rows


def columns_of(log: ReviewLog) -> Columns:
    """Return copies of the rows' columns by name, without those that the source lacks."""
    columns = vars(rows_of(log)).items()
    return {name: column.copy() for name, column in columns if column is not None}


def with_columns(log: ReviewLog, columns: Mapping[str, NDArray[Any]]) -> ReviewLog:
    """Return the log with these columns in place of its own."""
    return replace(log, rows=replace(rows_of(log), **columns), predictions={}, given={})


def with_other_grades(log: ReviewLog, places: IntArray) -> ReviewLog:
    """Swap passes and failures in the rows `places` (k,)."""
    rating = rows_of(log).rating.copy()
    rating[places] = np.where(rating[places] == 1, 3, 1)
    return with_columns(log, {"rating": rating})


def with_other_outcomes(log: ReviewLog, places: IntArray) -> ReviewLog:
    """Swap passes and failures in the rows `places` (k,).

    Later ones of these rows on the same card also get what a scheduler would have made of that:
    another state, interval and ease.
    """
    columns = columns_of(with_other_grades(log, places))
    first_of_card = np.unique(columns["card_id"][places], return_index=True)[1]
    _reschedule(columns, np.delete(places, first_of_card))
    return with_columns(log, columns)


def with_other_answers(log: ReviewLog, places: IntArray) -> ReviewLog:
    """As `with_other_outcomes`, with other answer times in these rows, too."""
    changed = with_other_outcomes(log, places)
    columns = columns_of(changed)
    columns["duration_ms"][places] = _other_durations(columns["duration_ms"][places])
    return with_columns(changed, columns)


def with_other_answer_time(log: ReviewLog, review: int) -> ReviewLog:
    """Change how long the answer of one review took."""
    columns = columns_of(log)
    own = slice(review - 1, review)
    columns["duration_ms"][own] = _other_durations(columns["duration_ms"][own])
    return with_columns(log, columns)


def ending_with(log: ReviewLog, review: int) -> ReviewLog:
    """Drop all rows after a review."""
    columns = columns_of(log)
    return with_columns(log, {name: column[:review] for name, column in columns.items()})


def cut_after(log: ReviewLog, review: int) -> ReviewLog:
    """Drop all rows after a review, and change the review's own grade and answer time.

    Each grade becomes the next one, and Easy becomes Again.
    """
    ending = ending_with(with_other_answer_time(log, review), review)
    columns = columns_of(ending)
    columns["rating"][-1] = columns["rating"][-1] % 4 + 1
    return with_columns(ending, columns)


def with_other_future(log: ReviewLog, review: int) -> ReviewLog:
    """Change a review's own outcome and answer time, and everything of the later rows.

    The later rows keep their cards and their order.
    """
    end = np.arange(review - 1, len(rows_of(log)))
    changed = with_other_answer_time(with_other_grades(log, end), review)
    for change in LATER_INPUTS.values():
        changed = change(changed, review)
    return changed


def _with_other_later_intervals(log: ReviewLog, review: int) -> ReviewLog:
    """Stretch the time after a review: a day later becomes three, two days five."""
    columns = columns_of(log)
    card_id, day = columns["card_id"], columns["day_offset"]
    day[review:] += day[review:] - day[review - 1] + 1
    by_card = np.argsort(card_id, kind="stable")
    elapsed = np.empty_like(day)
    elapsed[by_card] = np.diff(day[by_card], prepend=0)
    is_changed = (np.arange(len(day)) >= review) & (columns["elapsed_days"] >= 0)
    longer = np.where(is_changed, elapsed - columns["elapsed_days"], 0)
    columns["elapsed_days"] += longer
    columns["elapsed_seconds"] += longer * DAY_S
    if "elapsed_study_days" in columns:
        columns["elapsed_study_days"] += longer
    return with_columns(log, columns)


def _with_other_later_times_of_day(log: ReviewLog, review: int) -> ReviewLog:
    columns = columns_of(log)
    if "time_of_day_s" in columns:
        later = columns["time_of_day_s"][review:]
        columns["time_of_day_s"][review:] = np.where(later < 0, later, (later + 40_000) % DAY_S)
    return with_columns(log, columns)


def _with_other_later_answer_times(log: ReviewLog, review: int) -> ReviewLog:
    columns = columns_of(log)
    columns["duration_ms"][review:] = _other_durations(columns["duration_ms"][review:])
    return with_columns(log, columns)


def _with_another_later_schedule(log: ReviewLog, review: int) -> ReviewLog:
    columns = columns_of(log)
    _reschedule(columns, np.arange(review, len(columns["rating"])))
    return with_columns(log, columns)


LATER_INPUTS: Mapping[str, Callable[[ReviewLog, int], ReviewLog]] = {
    "intervals": _with_other_later_intervals,
    "answer times": _with_other_later_answer_times,
    "states, scheduled intervals or ease": _with_another_later_schedule,
    "times of day": _with_other_later_times_of_day,
}
"""Changes of what is known of reviews besides their outcomes, in all rows after a review."""


def _reschedule(columns: Columns, places: IntArray) -> None:
    """Write other states, scheduled intervals and eases to the rows `places`."""
    first = columns["state"][places] == 0
    columns["state"][places] = np.where(first, 0, 5 - columns["state"][places])
    if "scheduled_interval" in columns:
        columns["scheduled_interval"][places] = _OTHER_INTERVAL
    if "ease" in columns:
        columns["ease"][places] = _OTHER_EASE


def _other_durations(duration_ms: IntArray) -> IntArray:
    """Return long answer times for short ones and short ones for long ones."""
    return np.where(duration_ms < 10_000, duration_ms + _LONG_MS, duration_ms // 10)
