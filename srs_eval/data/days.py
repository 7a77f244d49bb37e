"""Compute where days begin, by Anki's rule, from the settings of the source and of the user.

Anki puts all past reviews on one rigid grid of 86,400 s through `next_day_at`, the next
roll-over by the computer's current offset (rslib/src/scheduler/timing.rs). Here the grid is
taken through the first roll-over after the newest entry instead of after now: for reviews in
the past that is the same grid, the same file gives the same figures at any time, and no
entry lies in the future, where Anki would clamp and the data-set builder would stretch a day.
Under scheduler 1 days are counted from the collection's creation, in every time zone.
A .revlog export brings its own `next_day_at`, which is used as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import DayGrid, FloatArray, IntArray

DAY_S = 86_400
_DEFAULT_ROLLOVER = 4


def find_midnight_s(day: str) -> int:
    """Return when a day ("2024-01-01") begins in UTC, as Unix seconds.

    Anki reads the date of "Ignore cards reviewed before" so.
    """
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())


@dataclass(frozen=True)
class StoredClock:
    """Settings of a source that determine its days."""

    rollover: int | None = None  # hour, 0-23
    utc_offset_s: int | None = None  # seconds east of UTC
    offset_source: str = ""  # where the offset comes from, in words
    first_day_s: int | None = None  # with scheduler version 1: days are counted from here
    next_day_at_s: int | None = None  # stored in the file itself (.revlog)
    created_s: int | None = None  # time of the collection's creation
    created_offset_s: int | None = None  # offset at the place of creation, seconds east of UTC


def compute_day_grid(
    newest_ms: int, clock: StoredClock, timezone: str | None, rollover: int | None
) -> DayGrid:
    """Compute the day grid of a source whose newest entry is at `newest_ms` (Unix ms).

    `timezone` (an IANA name, "UTC+2", "-07:00" or "local") and `rollover` (hour) are the
    user's overrides. Raises InputError for an unknown zone or hour.
    """
    if rollover is not None and not 0 <= rollover <= 23:
        raise InputError(f"--rollover {rollover} is not an hour from 0 to 23.")
    if timezone is None and rollover is None:
        if clock.next_day_at_s is not None:
            description = f"file: days begin at {_format_hour(clock.next_day_at_s % DAY_S)} UTC"
            return DayGrid(clock.next_day_at_s, description)
        if clock.first_day_s is not None:
            hour_of_day = _format_hour(clock.first_day_s % DAY_S)
            description = f"collection (scheduler 1): days begin at {hour_of_day} UTC"
            next_day_at_s = _next_day_start(newest_ms, clock.first_day_s)
            return DayGrid(next_day_at_s, description, (next_day_at_s - clock.first_day_s) // DAY_S)

    if timezone is not None:
        offset_s = _zone_offset(timezone, newest_ms)
        offset_source = f"{timezone}, your choice"
    elif clock.utc_offset_s is not None:
        offset_s = clock.utc_offset_s
        offset_source = clock.offset_source
    else:
        offset_s = _machine_offset(newest_ms)
        offset_source = "this computer's zone"
    if rollover is not None:
        hour = rollover
        hour_source = "your choice"
    elif clock.rollover is not None:
        hour = clock.rollover
        hour_source = "from the collection"
    else:
        hour = _DEFAULT_ROLLOVER
        hour_source = "Anki's default"
    description = (
        f"rollover {hour}:00 ({hour_source}), {_format_offset(offset_s)} ({offset_source})"
    )
    next_day_at_s = _next_day_start(newest_ms, hour * 3600 - offset_s)
    number = _days_since_creation(next_day_at_s, offset_s, clock)
    is_named = (
        timezone is not None and timezone.lower() != "local" and not _parse_fixed_offset(timezone)
    )
    return DayGrid(next_day_at_s, description, number, timezone if is_named else None)


def to_study_days(time_ms: IntArray, grid: DayGrid) -> FloatArray | None:
    """Convert Unix ms to fractional study days (same shape); None without the name of a zone.

    A study day lasts from one local roll-over to the next, 23 or 25 hours where clocks change
    meanwhile. Whole numbers are roll-overs (open-spaced-repetition/ts-fsrs pull request 530).
    """
    if grid.time_zone is None or not len(time_ms):
        return None
    from zoneinfo import ZoneInfo

    end = datetime.fromtimestamp(grid.next_day_at_s, ZoneInfo(grid.time_zone))
    time_s = time_ms / 1000
    days_to_oldest = int((grid.next_day_at_s - time_s.min()) // DAY_S)
    days_to_newest = int((grid.next_day_at_s - time_s.max()) // DAY_S)
    # Two days more at either end, because local days are not all of 24 hours.
    days_back = range(days_to_oldest + 2, min(days_to_newest, 0) - 3, -1)
    day_starts = np.array([(end - timedelta(days=days)).timestamp() for days in days_back])
    day = np.searchsorted(day_starts, time_s, side="right") - 1
    study_days: FloatArray = day + (time_s - day_starts[day]) / np.diff(day_starts)[day]
    return study_days


def _days_since_creation(at_s: int, offset_s: int, clock: StoredClock) -> int | None:
    """Return the number of days from the collection's creation to `at_s`; None if it is unknown.

    Anki counts from date to date: the creation's date at the offset of its place, and the date of
    `at_s` at the present offset.
    """
    if clock.created_s is None:
        return None
    created_offset_s = clock.created_offset_s
    if created_offset_s is None:
        created_offset_s = offset_s
    return (at_s + offset_s) // DAY_S - (clock.created_s + created_offset_s) // DAY_S


def _next_day_start(newest_ms: int, anchor_s: int) -> int:
    """Return the first second after `newest_ms` that is whole days away from `anchor_s`."""
    newest_s = newest_ms // 1000
    return newest_s + DAY_S - (newest_s - anchor_s) % DAY_S


def _zone_offset(name: str, at_ms: int) -> int:
    """Return the offset (seconds east of UTC) of a named or fixed zone at a moment."""
    if name.lower() == "local":
        return _machine_offset(at_ms)
    match = _parse_fixed_offset(name)
    if match:
        seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60
        return -seconds if match[1] == "-" else seconds
    from zoneinfo import ZoneInfo

    try:
        zone = ZoneInfo("UTC" if name.upper() in ("UTC", "GMT", "Z") else name)
        offset = datetime.fromtimestamp(at_ms / 1000, zone).utcoffset()
    except (KeyError, ValueError, OSError, OverflowError) as error:
        raise InputError(
            f"The time zone {name!r} is unknown; give a name such as Europe/Berlin or UTC-7."
        ) from error
    return int((offset or timedelta()).total_seconds())


def _parse_fixed_offset(zone: str) -> re.Match[str] | None:
    """Match an offset such as UTC+5:30; its groups are sign, hours and minutes."""
    match = re.fullmatch(r"(?:UTC|GMT)?\s*([+-])(\d{1,2})(?::?([0-5]\d))?", zone, re.IGNORECASE)
    return match if match and int(match[2]) <= 14 else None


def _machine_offset(at_ms: int) -> int:
    """Return this computer's offset (seconds east of UTC) at a moment; today's if it is absurd."""
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    except (ValueError, OSError, OverflowError):
        moment = datetime.now(UTC).astimezone()
    return int((moment.utcoffset() or timedelta()).total_seconds())


def _format_hour(seconds: int) -> str:
    """Format seconds since midnight: "4:00"."""
    return f"{seconds // 3600}:{seconds % 3600 // 60:02d}"


def _format_offset(offset_s: int) -> str:
    sign = "-" if offset_s < 0 else "+"
    hours, minutes = divmod(abs(offset_s) // 60, 60)
    if minutes:
        return f"UTC{sign}{hours}:{minutes:02d}"
    return f"UTC{sign}{hours}"
