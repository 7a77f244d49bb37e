"""Review logs as tables (CSV), recognised by their header.

Layouts, columns in any order, more columns are ignored:
- Anki's raw `revlog` table: id, cid, ease, type, factor, time;
- a bare review log: card_id, review_rating, review_time in Unix ms, and review_duration in ms
  if there is one (open-spaced-repetition/fsrs-optimizer: README.md);
- py-fsrs's: card_id, rating, review_datetime (ISO 8601, UTC where it names no zone), and
  review_duration in ms (open-spaced-repetition/py-fsrs: fsrs/review_log.py);
- srs-benchmark's older data: card_id, review_th, delta_t in days, rating. It has no dates;
- FSRS-Anki-20k as it is now: card_id, review_th, elapsed_days, elapsed_seconds, rating, state,
  duration in ms (the data set's card on the hub). It has no dates either;
- SuperMemo's SM16-v-SM17.csv (`srs_eval.data.readers.supermemo`).
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from srs_eval.data.days import DAY_S
from srs_eval.data.errors import InputError, printable
from srs_eval.data.readers.collection import FoundEntries, entries_from_columns
from srs_eval.data.readers.files import as_plain_text, read_whole
from srs_eval.data.readers.repeats import Contradiction, first_of_each, repeats_in_words
from srs_eval.data.reviews import (
    LEARNING,
    RELEARNING,
    REVIEW,
    Entries,
    FloatArray,
    IntArray,
    Rows,
    run_begins,
)

_MAX_BYTES = 256 << 20
_MARK = b"\xef\xbb\xbf"  # that a file is UTF-8
_RAW = ("id", "cid", "ease", "type", "factor", "time")
_BARE = ("review_time", "card_id", "review_rating")
_PY_FSRS = ("review_datetime", "card_id", "rating")
_OLD_BENCHMARK = ("review_th", "card_id", "delta_t", "rating")
_ANKI_20K = (
    *("review_th", "card_id", "elapsed_days", "rating"),
    *("elapsed_seconds", "state", "duration"),
)
_SUPERMEMO = (
    *("date", "element no", "used interval", "r (sm16)", "r (sm17)", "grade"),
    "success",
)
_LAYOUTS = (_RAW, _BARE, _PY_FSRS, _OLD_BENCHMARK, _ANKI_20K, _SUPERMEMO)
_DURATION = "review_duration"
_MAX_ROUNDS = 1000


@dataclass(frozen=True)
class Table:
    """What a table holds: entries, or rows where its days are settled."""

    format: str  # words
    entries: Entries | None = None
    rows: Rows | None = None
    left_out: int = 0  # entries with an impossible time; lines that are no reviews
    repeated: int = 0  # lines that repeat another
    app_name: str = "Anki"  # what scheduled the reviews, "" where that is not known
    predictions: Mapping[str, FloatArray] = field(default_factory=dict)
    """Of the rows, as `ReviewLog.predictions`."""
    notes: tuple[str, ...] = ()
    first_day: str | None = None  # of the rows, if dates are known


def table_in(path: Path, start: bytes, name: str, *, of_dataset: bool = False) -> Table | None:
    """What a table or an export of SuperMemo's holds that begins so; None if it is neither.

    A line that repeats another is left out, except where the file is part of a published data set:
    the rows of that are chosen. So is one that repeats the header. Raises InputError, naming what
    is there and what is needed, for a table with other columns, for a bad line, and for two lines
    that contradict each other.
    """
    from srs_eval.data.readers.supermemo import is_history, read_history

    start = as_plain_text(start)
    if is_history(start):
        return read_history(as_plain_text(read_whole(path, _MAX_BYTES)), name)
    header = _header_of(start, name)
    if header is None:
        return None
    content = as_plain_text(read_whole(path, _MAX_BYTES)).removeprefix(_MARK)
    content, headers = _without_repeated_headers(content)
    table = _read_table(content, *header, name, of_dataset=of_dataset)
    return replace(table, notes=(*_headers_in_words(headers), *table.notes))


def _without_repeated_headers(content: bytes) -> tuple[bytes, int]:
    """Empty each later line that equals the first, so that others keep their numbers.

    With how many these are.
    """
    end = content.find(b"\n")
    header = content[:end]
    if end < 0 or content.count(header.rstrip()) < 2:
        return content, 0
    rows = content[end + 1 :]
    repeated = rb"^(?:%s)?%s[ \t]*(?=\r?$)" % (_MARK, re.escape(header.rstrip()))
    rows, count = re.subn(repeated, b"", rows, flags=re.MULTILINE)
    return header + b"\n" + rows, count


def _headers_in_words(count: int) -> tuple[str, ...]:
    """A sentence for the import summary about lines that repeat the header; () for none."""
    if not count:
        return ()
    if count == 1:
        return ("1 line repeats the header, as when files are joined, and was skipped.",)
    return (f"{count:,} lines repeat the header, as when files are joined, and were skipped.",)


def _header_of(start: bytes, name: str) -> tuple[list[str], str] | None:
    """Column names (in lower case) and delimiter if `start` opens a review-log table."""
    line = re.split(rb"[\r\n]", start.removeprefix(_MARK), maxsplit=1)[0]
    text = decoded(line)
    if not text.isprintable() and not text.replace("\t", "").isprintable():
        return None
    found: list[str] = []
    for delimiter in ",\t;":
        try:
            row = next(csv.reader([text], delimiter=delimiter), [])
        except csv.Error:
            return None
        names = [each.strip().lower() for each in row]
        if any(set(layout) <= set(names) for layout in _LAYOUTS):
            return names, delimiter
        found = max(found, names, key=len)
    if len(found) < 3 or not all(re.fullmatch(r"[^\W\d][\w .()#:/%-]{0,60}", n) for n in found):
        return None
    nearest = max(_LAYOUTS, key=lambda layout: len(set(layout) & set(found)) / len(layout))
    missing = [column for column in nearest if column not in found]
    known = "; or ".join(", ".join(layout) for layout in _LAYOUTS[:5])
    if 2 * len(missing) <= len(nearest):
        known = f"{', '.join(nearest)}; {', '.join(missing)} is missing"
    raise InputError(
        f"{name} is a table, but not of reviews as known here: its columns are "
        f"{printable(', '.join(found), 200)}, needed are {known}."
    )


def decoded(content: bytes) -> str:
    """Text of a table: UTF-8, or what Chinese and western systems write instead."""
    for encoding in ("utf-8", "gbk"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1")


def _read_table(
    content: bytes, names: list[str], delimiter: str, name: str, *, of_dataset: bool = False
) -> Table:
    """Read the rows below a recognised header; InputError naming the bad line."""
    columns = set(names)
    if set(_SUPERMEMO) <= columns:
        from srs_eval.data.readers.supermemo import read_comparison

        return read_comparison(_records(content, names, delimiter), name)
    duration = [_DURATION] if _DURATION in columns else []

    def differing(what: str) -> Contradiction:
        """Two lines that agree in `what`, and not in all else."""

        def contradiction(first: int, second: int) -> InputError:
            numbers = [number for number, _ in _records(content, names, delimiter)]
            return InputError(
                f"Lines {numbers[first]:,} and {numbers[second]:,} of {name} have the same {what} "
                "but differ; delete the wrong one of them."
            )

        return contradiction

    if set(_RAW) <= columns:
        raw = _numbers(content, names, _RAW, delimiter, name)
        found = entries_from_columns(*raw, contradiction=differing("id"))
        return _of_entries("Anki revlog table (CSV)", found)
    if set(_BARE) <= columns:
        time_ms, *rest = _numbers(content, names, (*_BARE, *duration), delimiter, name)
        if len(time_ms) and np.median(time_ms) < 1e11:
            raise InputError(
                f"{name} has review times that are not Unix milliseconds; convert them."
            )
        words = "review log (CSV)"
    elif set(_PY_FSRS) <= columns:
        wanted = (*_PY_FSRS, *duration)
        time_ms, *rest = _dated(_records(content, names, delimiter), wanted, name)
        words = "py-fsrs review log (CSV)"
    else:
        wanted = _ANKI_20K if set(_ANKI_20K) <= columns else _OLD_BENCHMARK
        table = _numbers(content, names, wanted, delimiter, name)
        kept = np.ones(len(table[0]), np.bool_)
        if not of_dataset:
            kept = first_of_each(table[:2], table[2:], differing("card_id and review_th"))
        return _without_dates(*(column[kept] for column in table), repeated=int((~kept).sum()))
    none = np.zeros(len(time_ms), np.int64)
    taken = rest[2] if len(rest) > 2 else none
    found = entries_from_columns(
        *(time_ms, rest[0], rest[1], none, none, taken),
        contradiction=differing("card and time"),
        has_ids=False,
    )
    return _of_entries(words, found, app_name="")


def _of_entries(words: str, found: FoundEntries, app_name: str = "Anki") -> Table:
    return Table(
        words,
        found.entries,
        left_out=found.unreadable,
        repeated=found.repeated,
        notes=found.notes,
        app_name=app_name,
    )


def _records(
    content: bytes, names: list[str], delimiter: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Number and fields of each line below the header; short lines have fewer fields."""
    reader = csv.reader(io.StringIO(decoded(content), newline=""), delimiter=delimiter)
    next(reader, None)
    for row in reader:
        if row:
            yield reader.line_num, dict(zip(names, row, strict=False))


def _dated(
    lines: Iterator[tuple[int, dict[str, str]]], wanted: tuple[str, ...], name: str
) -> list[IntArray]:
    """Columns of a table whose first one has dates in ISO 8601, as Unix ms."""
    found: list[list[int]] = []
    try:
        for number, line in lines:
            try:
                moment = datetime.fromisoformat(line[wanted[0]].strip())
                if moment.tzinfo is None:
                    moment = moment.replace(tzinfo=UTC)
                found.append(
                    [
                        round(moment.timestamp() * 1000),
                        *(int(line[column]) for column in wanted[1:3]),
                        *(int(float(line.get(column) or 0)) for column in wanted[3:]),
                    ]
                )
            except (ValueError, KeyError, OverflowError) as error:
                raise InputError(
                    f"{name} is not a readable review log (line {number}: "
                    f"{printable(error, 100)}); mend it."
                ) from error
    except csv.Error as error:
        raise InputError(f"{name} is not a readable review log ({error}); mend it.") from error
    return list(np.array(found, np.int64).reshape(-1, len(wanted)).T)


def _without_dates(
    order_of_review: IntArray,
    card_id: IntArray,
    elapsed_days: IntArray,
    rating: IntArray,
    elapsed_seconds: IntArray | None = None,
    state: IntArray | None = None,
    duration_ms: IntArray | None = None,
    *,
    repeated: int = 0,
) -> Table:
    """Rows from intervals alone. Days are the earliest that intervals and order allow."""
    order = np.argsort(order_of_review, kind="stable")
    card_id, rating = card_id[order], rating[order]
    delta_t = np.maximum(elapsed_days[order], 0)
    known, card = np.unique(card_id, return_inverse=True)
    by_card = np.argsort(card, kind="stable")
    first = run_begins(card[by_card])
    is_first = np.empty(len(card), np.bool_)
    is_first[by_card] = first
    delta_t[is_first] = 0
    sums = np.cumsum(delta_t[by_card])
    since_start = np.empty(len(card), np.int64)
    since_start[by_card] = sums - np.repeat(
        sums[first], np.diff([*np.flatnonzero(first), len(card)])
    )
    # Days never fall in order of review: cards begin later until that is so.
    start = np.zeros(len(known), np.int64)
    day = since_start
    for _ in range(_MAX_ROUNDS):
        day = start[card] + since_start
        late = np.maximum.accumulate(day) - day if len(day) else day
        if not late.any():
            break
        push = np.zeros(len(known), np.int64)
        np.maximum.at(push, card, late)
        start += push
    else:
        day = np.maximum.accumulate(day)  # intervals and order contradict each other
    said = elapsed_seconds is not None
    seconds = delta_t * DAY_S if elapsed_seconds is None else elapsed_seconds[order]
    rows = Rows(
        card_id=card_id,
        day_offset=day,
        rating=rating,
        state=np.where(is_first, 0, REVIEW + 1) if state is None else state[order],
        duration_ms=np.zeros(len(card), np.int64) if duration_ms is None else duration_ms[order],
        elapsed_days=np.where(is_first, -1, delta_t),
        elapsed_seconds=np.where(is_first, -1, seconds),
    )
    whole = "" if said else ", and intervals are whole days"
    return Table(
        "FSRS-Anki-20k (CSV)" if said else "older table of srs-benchmark (CSV)",
        rows=rows,
        repeated=repeated,
        notes=(
            *([repeats_in_words(repeated)] if repeated else []),
            "The file holds no dates: days are the earliest that its intervals allow" + whole + ".",
        ),
    )


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
    first = run_begins(card)
    new_day = first | run_begins(day)
    places = np.arange(len(card))
    card_start = np.maximum.accumulate(np.where(first, places, 0))
    day_start = np.maximum.accumulate(np.where(new_day, places, 0))
    failures = np.concatenate([[0], np.cumsum(rating == 1)])
    failed_before = failures[places] > failures[day_start]
    kind = np.where(failed_before, RELEARNING, REVIEW)
    kind[day_start == card_start] = LEARNING
    unsorted = np.empty_like(kind)
    unsorted[order] = kind
    return replace(entries, kind=unsorted.astype(np.int64))


def _numbers(
    content: bytes, names: list[str], wanted: Sequence[str], delimiter: str, name: str
) -> list[IntArray]:
    """Read the wanted columns of whole numbers below the header; InputError naming the line."""
    lines = io.BytesIO(content)
    lines.readline()
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
                usecols=[names.index(column) for column in wanted],
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
                raise ValueError("not all are whole numbers") from None
            table = numbers.astype(np.int64)
    except (ValueError, OverflowError, IndexError, MemoryError, UnicodeError) as error:
        reason = _fault_of_numbers(content, names, wanted, delimiter)
        reason = reason or printable(error, 120).split("; use")[0]
        raise InputError(f"{name} is not a readable review log ({reason}); mend it.") from error
    return [np.ascontiguousarray(column) for column in table.T.reshape(len(wanted), -1)]


def _fault_of_numbers(
    content: bytes, names: list[str], wanted: Sequence[str], delimiter: str
) -> str:
    """The first line without a whole number in a wanted column, in words; "" for none."""
    with suppress(csv.Error):
        for number, line in _records(content, names, delimiter):
            for column in wanted:
                value = line.get(column)
                if value is None:
                    return f"line {number:,}: {column} is missing"
                if not _is_whole(value):
                    return f"line {number:,}: {column} is {printable(value, 40)!r}, no whole number"
    return ""


def _is_whole(text: str) -> bool:
    """Whether a text is a whole number, perhaps written as 3.0."""
    try:
        return float(text).is_integer()
    except ValueError:
        return False
