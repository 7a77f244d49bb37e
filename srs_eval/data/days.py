"""Where a day begins: Anki's rule, from what the source and the person say.

Anki puts all past reviews on one rigid grid of 86,400 s through `next_day_at`, the next
roll-over by the computer's current offset (rslib/src/scheduler/timing.rs). Here the grid is
taken through the first roll-over after the newest entry instead of after now: for reviews in
the past that is the same grid, the same file gives the same figures at any time, and no
entry lies in the future, where Anki would clamp and the data-set builder would stretch a day.
Under scheduler 1 days are counted from the collection's creation, whatever the zone.
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


@dataclass(frozen=True)
class StoredClock:
    """What a source says about its days."""

    rollover: int | None = None  # hour, 0-23
    utc_offset_s: int | None = None  # seconds east of UTC
    offset_source: str = ""  # words: where the offset comes from
    first_day_s: int | None = None  # scheduler version 1: days are counted from here
    next_day_at_s: int | None = None  # given outright (.revlog)
    created_s: int | None = None  # when the collection was created ...
    created_offset_s: int | None = None  # ... and where (seconds east of UTC)


def day_grid(
    newest_ms: int, clock: StoredClock, timezone: str | None, rollover: int | None
) -> DayGrid:
    """The grid for a source whose newest entry is at `newest_ms` (Unix ms).

    `timezone` (an IANA name, "UTC+2", "-07:00" or "local") and `rollover` (hour) are the
    person's overrides. Raises InputError for an unknown zone or hour.
    """
    if rollover is not None and not 0 <= rollover <= 23:
        raise InputError(f"--rollover {rollover} is not an hour from 0 to 23.")
    if timezone is None and rollover is None:
        if clock.next_day_at_s is not None:
            words = f"file: days begin at {_hour(clock.next_day_at_s % DAY_S)} UTC"
            return DayGrid(clock.next_day_at_s, words)
        if clock.first_day_s is not None:
            words = (
                f"collection (scheduler 1): days begin at {_hour(clock.first_day_s % DAY_S)} UTC"
            )
            next_day_at_s = _next_on_grid(newest_ms, clock.first_day_s)
            return DayGrid(next_day_at_s, words, (next_day_at_s - clock.first_day_s) // DAY_S)

    if timezone is not None:
        offset_s, offset_words = _zone_offset(timezone, newest_ms), f"{timezone} (asked for)"
    elif clock.utc_offset_s is not None:
        offset_s, offset_words = clock.utc_offset_s, clock.offset_source
    else:
        offset_s, offset_words = _machine_offset(newest_ms), "this computer's zone"
    if rollover is not None:
        hour, hour_words = rollover, "asked for"
    elif clock.rollover is not None:
        hour, hour_words = clock.rollover, "from the collection"
    else:
        hour, hour_words = _DEFAULT_ROLLOVER, "Anki's default"
    words = f"rollover {hour}:00 ({hour_words}), {_utc(offset_s)} ({offset_words})"
    next_day_at_s = _next_on_grid(newest_ms, hour * 3600 - offset_s)
    number = _days_since_creation(next_day_at_s, offset_s, clock)
    is_named = timezone is not None and timezone.lower() != "local" and not _fixed(timezone)
    return DayGrid(next_day_at_s, words, number, timezone if is_named else None)


def study_days(time_ms: IntArray, grid: DayGrid) -> FloatArray | None:
    """Unix ms on a scale of days from one local roll-over to the next, of 23 or 25 hours where
    clocks change meanwhile (same shape); None without the name of a zone.

    Whole numbers are roll-overs (open-spaced-repetition/ts-fsrs pull request 530).
    """
    if grid.zone is None or not len(time_ms):
        return None
    from zoneinfo import ZoneInfo

    end, t = datetime.fromtimestamp(grid.next_day_at_s, ZoneInfo(grid.zone)), time_ms / 1000
    before, after = (int((grid.next_day_at_s - at) // DAY_S) for at in (t.min(), t.max()))
    begins = np.array(
        [(end - timedelta(days=k)).timestamp() for k in range(before + 2, min(after, 0) - 3, -1)]
    )
    day = np.searchsorted(begins, t, side="right") - 1
    found: FloatArray = day + (t - begins[day]) / np.diff(begins)[day]
    return found


def _days_since_creation(at_s: int, offset_s: int, clock: StoredClock) -> int | None:
    """Anki counts dates: the place of creation's then, the present one's now."""
    if clock.created_s is None:
        return None
    then = offset_s if clock.created_offset_s is None else clock.created_offset_s
    return (at_s + offset_s) // DAY_S - (clock.created_s + then) // DAY_S


def _next_on_grid(newest_ms: int, anchor_s: int) -> int:
    """First s congruent to `anchor_s` modulo a day with s > newest_ms / 1000."""
    newest_s = newest_ms // 1000
    return newest_s + DAY_S - (newest_s - anchor_s) % DAY_S


def _zone_offset(name: str, at_ms: int) -> int:
    """Offset (seconds east of UTC) of a named or fixed zone at a moment."""
    if name.lower() == "local":
        return _machine_offset(at_ms)
    if fixed := _fixed(name):
        seconds = int(fixed[2]) * 3600 + int(fixed[3] or 0) * 60
        return -seconds if fixed[1] == "-" else seconds
    from zoneinfo import ZoneInfo

    try:
        zone = ZoneInfo("UTC" if name.upper() in ("UTC", "GMT", "Z") else name)
        offset = datetime.fromtimestamp(at_ms / 1000, zone).utcoffset()
    except (KeyError, ValueError, OSError, OverflowError) as error:
        raise InputError(
            f"The time zone {name!r} is unknown; give a name such as Europe/Berlin or UTC-7."
        ) from error
    return int((offset or timedelta()).total_seconds())


def _fixed(zone: str) -> re.Match[str] | None:
    """Of an offset such as UTC+5:30: sign, hours and minutes."""
    found = re.fullmatch(r"(?:UTC|GMT)?\s*([+-])(\d{1,2})(?::?([0-5]\d))?", zone, re.IGNORECASE)
    return found if found and int(found[2]) <= 14 else None


def _machine_offset(at_ms: int) -> int:
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    except (ValueError, OSError, OverflowError):
        moment = datetime.now(UTC).astimezone()
    return int((moment.utcoffset() or timedelta()).total_seconds())


def _hour(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds % 3600 // 60:02d}"


def _utc(offset_s: int) -> str:
    sign = "-" if offset_s < 0 else "+"
    hours, minutes = divmod(abs(offset_s) // 60, 60)
    return f"UTC{sign}{hours}" + (f":{minutes:02d}" if minutes else "")
