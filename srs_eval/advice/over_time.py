"""What happened when: the dates of days, and a learner's figures month by month."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np

from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.engine.results import Result, losses
from srs_eval.stats.intervals import Interval, mean_interval

_DAYS_OF_A_MONTH = 30  # where the source has no dates


@dataclass(frozen=True)
class Month:
    """The judged reviews of a calendar month, or of 30 days where there are no dates."""

    name: str  # "2024-10", "days 31-60"
    recalled: Interval  # share
    predicted: float  # mean p
    log_loss: Interval

    @property
    def reviews(self) -> int:
        return self.recalled.reviews


def months(result: Result, name_of: Callable[[int], str]) -> list[Month]:
    """A model's figures by month, in order of time; `name_of` are `dates`."""
    day = result.day
    known, place = np.unique(day, return_inverse=True)
    names = np.array([month_of(name_of(each), each) for each in known.tolist()])
    loss = losses(result)
    found = []
    for name in dict.fromkeys(names.tolist()):
        here = (names == name)[place]
        found.append(
            Month(
                name,
                mean_interval(result.y[here], day[here]),
                float(result.p[here].mean()),
                mean_interval(loss[here], day[here]),
            )
        )
    return found


def dates(log: ReviewLog, protocol: Protocol) -> Callable[[int], str]:
    """The date of a day number, or "day 12" where the source has none."""
    selection = select_rows(log, protocol.rows)
    rows = selection.rows
    if log.entries is None or rows.time_of_day_s is None or not len(rows):
        return lambda day: f"day {day + 1}"
    began = int(log.entries.time_ms[selection.entry_index[0]]) // 1000 - int(rows.time_of_day_s[0])
    first = int(rows.day_offset[0])
    # Ten hours after a day has begun its date is the same in UTC for nearly all zones.
    inside = began - first * 86_400 + 36_000

    def name(day: int) -> str:
        found: date = datetime.fromtimestamp(inside + day * 86_400, UTC).date()
        return found.isoformat()

    return name


def in_words(month: str) -> str:
    """ "October 2024" for "2024-10"; what is no calendar month as it is."""
    year, _, number = month.partition("-")
    if not (year.isdigit() and number.isdigit()):
        return month
    return f"{calendar.month_name[int(number)]} {year}"


def month_of(name: str, day: int) -> str:
    """The month of a day, given its name by `dates` and its number."""
    if not name.startswith("day "):
        return name[:7]
    first = int(day) // _DAYS_OF_A_MONTH * _DAYS_OF_A_MONTH
    return f"days {first + 1}-{first + _DAYS_OF_A_MONTH}"
