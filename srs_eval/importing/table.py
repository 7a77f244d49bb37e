"""Review logs as CSV, recognised by their header.

Two layouts: Anki's raw `revlog` table (id, cid, ease, factor, time, type, any order, more
columns are ignored) and a bare review log (card_id, review_rating, review_time in Unix ms,
and review_duration in ms if there is one), as written by schedulers that keep no kinds.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from dataclasses import dataclass

import numpy as np

from srs_eval.errors import InputError
from srs_eval.importing import files
from srs_eval.importing.collection import entries_from_columns
from srs_eval.importing.days import DAY_S
from srs_eval.reviews import LEARNING, RELEARNING, REVIEW, Entries, IntArray

MAX_BYTES = 256 << 20
_RAW = ("id", "cid", "ease", "type", "factor", "time")
_BARE = ("review_time", "card_id", "review_rating")
_DURATION = "review_duration"


@dataclass(frozen=True)
class Table:
    entries: Entries
    unreadable: int
    has_kinds: bool


def header_of(start: bytes) -> tuple[list[str], str] | None:
    """Column names and delimiter if `start` opens a review-log table, else None."""
    line = re.split(rb"[\r\n]", start.removeprefix(b"\xef\xbb\xbf"), maxsplit=1)[0]
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return None
    for delimiter in ",\t;":
        try:
            names = [
                name.strip().lower() for name in next(csv.reader([text], delimiter=delimiter), [])
            ]
        except csv.Error:
            return None
        if set(_RAW) <= set(names) or set(_BARE) <= set(names):
            return names, delimiter
    return None


def read_table(content: bytes, names: list[str], delimiter: str, name: str) -> Table:
    """Read the rows below a recognised header; InputError naming the bad line."""
    has_kinds = set(_RAW) <= set(names)
    wanted = _RAW if has_kinds else (*_BARE, *([_DURATION] if _DURATION in names else []))
    lines = io.BytesIO(content.removeprefix(b"\xef\xbb\xbf"))
    lines.readline()
    columns = _numbers(lines, [names.index(column) for column in wanted], delimiter, name)
    if has_kinds:
        entries, unreadable = entries_from_columns(*columns)
        return Table(entries, unreadable, True)
    time_ms, card_id, rating = columns[:3]
    if len(time_ms) and np.median(time_ms) < 1e11:
        raise InputError(f"{name} has review times that are not Unix milliseconds; convert them.")
    none = np.zeros(len(time_ms), np.int64)
    duration = columns[3] if len(columns) > 3 else none
    entries, unreadable = entries_from_columns(time_ms, card_id, rating, none, none, duration)
    return Table(entries, unreadable, False)


def with_inferred_kinds(entries: Entries, next_day_at_s: int) -> Entries:
    """Kinds for a log that has ratings only.

    A card is learned on its first day, reviewed on later days, and relearned on a day after
    a failed review on it: learning for all entries of a card's first day; then a day's first
    entry is a review, and each later entry of that day a relearning if Again came before it
    on that day, else a review. So a card's first entry is its only learn start.
    """
    order = np.argsort(entries.card_id, kind="stable")
    card, rating = entries.card_id[order], entries.rating[order]
    day = -((next_day_at_s * 1000 - entries.time_ms[order]) // (DAY_S * 1000))
    first = np.ones(len(card), bool)
    first[1:] = card[1:] != card[:-1]
    new_day = first.copy()
    new_day[1:] |= day[1:] != day[:-1]
    places = np.arange(len(card))
    card_start = np.maximum.accumulate(np.where(first, places, 0))
    day_start = np.maximum.accumulate(np.where(new_day, places, 0))
    failures = np.concatenate([[0], np.cumsum(rating == 1)])
    failed_before = failures[places] > failures[day_start]
    kind = np.where(failed_before, RELEARNING, REVIEW)
    kind[day_start == card_start] = LEARNING
    unsorted = np.empty_like(kind)
    unsorted[order] = kind
    return Entries(
        entries.time_ms,
        entries.card_id,
        entries.rating,
        unsorted.astype(np.int64),
        entries.factor,
        entries.duration_ms,
    )


def _numbers(lines: io.BytesIO, places: list[int], delimiter: str, name: str) -> list[IntArray]:
    start = lines.tell()

    def load(dtype: type) -> np.ndarray:
        lines.seek(start)
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # 1.7 is no integer
            warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
            return np.loadtxt(
                lines,
                dtype=dtype,
                delimiter=delimiter,
                usecols=places,
                ndmin=2,
                quotechar='"',
                comments=None,
                encoding="utf-8",
            )

    try:
        try:
            table = load(np.int64)
        except (ValueError, DeprecationWarning):
            numbers = load(np.float64)  # whole numbers written as 3.0
            whole = (np.abs(numbers) < 2.0**53) & (numbers == np.floor(numbers))
            if not whole.all():
                row = int(np.argmin(whole.all(axis=1)))
                raise ValueError(f"no whole number in row {row + 1}") from None
            table = numbers.astype(np.int64)
    except (ValueError, OverflowError, IndexError, MemoryError, UnicodeError) as error:
        reason = files.printable(error, 120).split("; use")[0]
        raise InputError(f"{name} is not a readable review log ({reason}); mend it.") from error
    return [np.ascontiguousarray(column) for column in table.T.reshape(len(places), -1)]
