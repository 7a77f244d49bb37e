"""Read review logs from tables (CSV), which are recognised by their header.

Layouts, with columns in any order; additional columns are ignored:
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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from srs_eval.data.days import DAY_S
from srs_eval.data.errors import InputError, printable
from srs_eval.data.readers.collection import ImportedEntries, build_entries
from srs_eval.data.readers.files import decode_text, normalize_text, read_limited
from srs_eval.data.readers.imported_table import ImportedTable
from srs_eval.data.readers.repeats import Contradiction, describe_repeats, mark_first_occurrences
from srs_eval.data.readers.supermemo import is_supermemo_history, read_comparison, read_history
from srs_eval.data.reviews import (
    LEARNING,
    RELEARNING,
    REVIEW,
    Entries,
    IntArray,
    Rows,
    mark_run_starts,
)

_MAX_BYTES = 256 << 20
_UTF8_MARK = b"\xef\xbb\xbf"  # byte-order mark of UTF-8
_REVLOG_COLUMNS = ("id", "cid", "ease", "type", "factor", "time")
_BARE_LOG_COLUMNS = ("review_time", "card_id", "review_rating")
_PY_FSRS_COLUMNS = ("review_datetime", "card_id", "rating")
_OLD_BENCHMARK_COLUMNS = ("review_th", "card_id", "delta_t", "rating")
_ANKI_20K_COLUMNS = (
    "review_th",
    "card_id",
    "elapsed_days",
    "rating",
    "elapsed_seconds",
    "state",
    "duration",
)
_SUPERMEMO_COLUMNS = (
    "date",
    "element no",
    "used interval",
    "r (sm16)",
    "r (sm17)",
    "grade",
    "success",
)
_LAYOUTS = (
    _REVLOG_COLUMNS,
    _BARE_LOG_COLUMNS,
    _PY_FSRS_COLUMNS,
    _OLD_BENCHMARK_COLUMNS,
    _ANKI_20K_COLUMNS,
    _SUPERMEMO_COLUMNS,
)
_DURATION_COLUMN = "review_duration"
_MAX_ROUNDS = 1000


def read_table(
    path: Path, start: bytes, name: str, *, is_dataset_file: bool = False
) -> ImportedTable | None:
    """Read a table or an export of SuperMemo's that begins with `start`; None if it is neither.

    A line that repeats another is left out, except in a file of a published data set, whose rows
    are already chosen. A line that repeats the header is left out, too. Raises InputError for a
    table with other columns, naming its columns and the needed ones, for a bad line, and for two
    lines that contradict each other.
    """
    start = normalize_text(start)
    if is_supermemo_history(start):
        return read_history(normalize_text(read_limited(path, _MAX_BYTES)), name)
    header = _find_header(start, name)
    if header is None:
        return None
    content = normalize_text(read_limited(path, _MAX_BYTES)).removeprefix(_UTF8_MARK)
    content, repeated_headers = _without_repeated_headers(content)
    column_names, delimiter = header
    table = _parse_table(content, column_names, delimiter, name, is_dataset_file=is_dataset_file)
    return replace(table, notes=(*_describe_repeated_headers(repeated_headers), *table.notes))


def _without_repeated_headers(content: bytes) -> tuple[bytes, int]:
    """Empty each line that repeats the first one; return the content and their number.

    They are emptied, not removed, so that other lines keep their numbers.
    """
    end = content.find(b"\n")
    header = content[:end]
    if end < 0 or content.count(header.rstrip()) < 2:
        return content, 0
    rows = content[end + 1 :]
    pattern = rb"^(?:%s)?%s[ \t]*(?=\r?$)" % (_UTF8_MARK, re.escape(header.rstrip()))
    rows, count = re.subn(pattern, b"", rows, flags=re.MULTILINE)
    return header + b"\n" + rows, count


def _describe_repeated_headers(count: int) -> tuple[str, ...]:
    """Return a sentence for the import summary about lines that repeat the header; () for none."""
    if not count:
        return ()
    if count == 1:
        return ("1 line repeats the header (as happens when files are joined) and was skipped.",)
    return (
        f"{count:,} lines repeat the header (as happens when files are joined) and were skipped.",
    )


def _find_header(start: bytes, name: str) -> tuple[list[str], str] | None:
    """Return column names (in lower case) and delimiter if `start` opens a review-log table.

    None if it does not look like a table. Raises InputError for a table of something else.
    """
    line = re.split(rb"[\r\n]", start.removeprefix(_UTF8_MARK), maxsplit=1)[0]
    text = decode_text(line)
    if not text.replace("\t", "").isprintable():
        return None
    longest: list[str] = []
    for delimiter in ",\t;":
        try:
            row = next(csv.reader([text], delimiter=delimiter), [])
        except csv.Error:
            return None
        names = [cell.strip().lower() for cell in row]
        if any(set(layout) <= set(names) for layout in _LAYOUTS):
            return names, delimiter
        longest = max(longest, names, key=len)
    if len(longest) < 3:
        return None
    for column in longest:
        if not re.fullmatch(r"[^\W\d][\w .()#:/%-]{0,60}", column):  # not the name of a column
            return None
    nearest = max(_LAYOUTS, key=lambda layout: len(set(layout) & set(longest)) / len(layout))
    missing = [column for column in nearest if column not in longest]
    written_layouts = _LAYOUTS[:-1]  # nobody writes SuperMemo's table by hand
    expected = "; or ".join(", ".join(layout) for layout in written_layouts)
    if 2 * len(missing) <= len(nearest):
        verb = "is" if len(missing) == 1 else "are"
        expected = f"{', '.join(nearest)}; {', '.join(missing)} {verb} missing"
    raise InputError(
        f"{name} is a table, but srs-eval does not know its columns: it has "
        f"{printable(', '.join(longest), 200)}; it needs {expected}."
    )


def _parse_table(
    content: bytes,
    column_names: list[str],
    delimiter: str,
    name: str,
    *,
    is_dataset_file: bool = False,
) -> ImportedTable:
    """Read the rows below a recognised header. Raises InputError naming the bad line."""
    columns = set(column_names)
    if set(_SUPERMEMO_COLUMNS) <= columns:
        return read_comparison(_iterate_lines(content, column_names, delimiter), name)
    duration_columns = [_DURATION_COLUMN] if _DURATION_COLUMN in columns else []

    def contradiction_in(key: str) -> Contradiction:
        """Return what makes the error for two lines that agree in `key`, but not in the rest."""

        def contradiction(first: int, second: int) -> InputError:
            numbers = [number for number, _ in _iterate_lines(content, column_names, delimiter)]
            return InputError(
                f"Lines {numbers[first]:,} and {numbers[second]:,} of {name} have the same {key} "
                "but differ; delete the wrong one."
            )

        return contradiction

    if set(_REVLOG_COLUMNS) <= columns:
        raw = _read_number_columns(content, column_names, _REVLOG_COLUMNS, delimiter, name)
        imported = build_entries(*raw, contradiction=contradiction_in("id"))
        return _table_from_entries("Anki revlog table (CSV)", imported)
    if set(_BARE_LOG_COLUMNS) <= columns:
        needed = (*_BARE_LOG_COLUMNS, *duration_columns)
        table = _read_number_columns(content, column_names, needed, delimiter, name)
        time_ms = table[0]
        if len(time_ms) and np.median(time_ms) < 1e11:  # 1973 in ms; in seconds, the year 5138
            raise InputError(
                f"{name} has review times that are not Unix milliseconds; convert them."
            )
        format_name = "review log (CSV)"
    elif set(_PY_FSRS_COLUMNS) <= columns:
        needed = (*_PY_FSRS_COLUMNS, *duration_columns)
        lines = _iterate_lines(content, column_names, delimiter)
        table = _read_dated_columns(lines, needed, name)
        format_name = "py-fsrs review log (CSV)"
    else:
        needed = _OLD_BENCHMARK_COLUMNS
        if set(_ANKI_20K_COLUMNS) <= columns:
            needed = _ANKI_20K_COLUMNS
        table = _read_number_columns(content, column_names, needed, delimiter, name)
        is_kept = np.ones(len(table[0]), np.bool_)
        if not is_dataset_file:
            is_kept = mark_first_occurrences(
                table[:2], table[2:], contradiction_in("card_id and review_th")
            )
        kept_columns = [column[is_kept] for column in table]
        return _build_undated_rows(*kept_columns, repeated=int((~is_kept).sum()))
    time_ms, card_id, rating = table[:3]
    zeros = np.zeros(len(time_ms), np.int64)  # kinds are inferred later, by `infer_kinds`
    imported = build_entries(
        time_ms=time_ms,
        card_id=card_id,
        rating=rating,
        kind=zeros,
        factor=zeros,
        duration_ms=table[3] if duration_columns else zeros,
        contradiction=contradiction_in("card and time"),
        has_ids=False,
    )
    return _table_from_entries(format_name, imported, app_name="")


def _table_from_entries(
    format_name: str, imported: ImportedEntries, app_name: str = "Anki"
) -> ImportedTable:
    return ImportedTable(
        format_name,
        imported.entries,
        excluded=imported.unreadable,
        repeated=imported.repeated,
        notes=imported.notes,
        app_name=app_name,
    )


def _iterate_lines(
    content: bytes, columns: list[str], delimiter: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield number and fields of each line below the header; short lines have fewer fields."""
    reader = csv.reader(io.StringIO(decode_text(content), newline=""), delimiter=delimiter)
    next(reader, None)
    for row in reader:
        if row:
            yield reader.line_num, dict(zip(columns, row, strict=False))


def _read_dated_columns(
    lines: Iterator[tuple[int, dict[str, str]]], columns: tuple[str, ...], name: str
) -> list[IntArray]:
    """Read columns of a table: dates in ISO 8601 (as Unix ms), two of integers, and durations.

    The durations may be empty or missing.
    """
    rows: list[list[int]] = []
    try:
        for number, line in lines:
            try:
                moment = datetime.fromisoformat(line[columns[0]].strip())
                if moment.tzinfo is None:
                    moment = moment.replace(tzinfo=UTC)
                row = [round(moment.timestamp() * 1000)]
                row += [int(line[column]) for column in columns[1:3]]
                row += [int(float(line.get(column) or 0)) for column in columns[3:]]
                rows.append(row)
            except (ValueError, KeyError, OverflowError) as error:
                raise InputError(
                    f"{name} is not a readable review log (line {number}: "
                    f"{printable(error, 100)}); correct that line."
                ) from error
    except csv.Error as error:
        raise InputError(f"{name} is not a readable review log ({error}); correct it.") from error
    return list(np.array(rows, np.int64).reshape(-1, len(columns)).T)


def _build_undated_rows(
    order_of_review: IntArray,
    card_id: IntArray,
    elapsed_days: IntArray,
    rating: IntArray,
    elapsed_seconds: IntArray | None = None,
    state: IntArray | None = None,
    duration_ms: IntArray | None = None,
    *,
    repeated: int = 0,
) -> ImportedTable:
    """Build rows from intervals, on the earliest days that the intervals and the order allow."""
    order = np.argsort(order_of_review, kind="stable")
    card_id = card_id[order]
    rating = rating[order]
    delta_t = np.maximum(elapsed_days[order], 0)
    cards, card_index = np.unique(card_id, return_inverse=True)
    by_card = np.argsort(card_index, kind="stable")
    starts_card = mark_run_starts(card_index[by_card])
    is_first = np.empty(len(card_index), np.bool_)
    is_first[by_card] = starts_card
    delta_t[is_first] = 0
    sums = np.cumsum(delta_t[by_card])
    since_start = np.empty(len(card_index), np.int64)
    reviews_per_card = np.diff([*np.flatnonzero(starts_card), len(card_index)])
    since_start[by_card] = sums - np.repeat(sums[starts_card], reviews_per_card)
    # Days must not decrease in order of review. Until that holds, move the cards that have a review
    # on too early a day to later days.
    first_day = np.zeros(len(cards), np.int64)  # of each card
    day = since_start
    for _ in range(_MAX_ROUNDS):
        day = first_day[card_index] + since_start
        days_too_early = np.maximum.accumulate(day) - day if len(day) else day
        if not days_too_early.any():
            break
        delay = np.zeros(len(cards), np.int64)
        np.maximum.at(delay, card_index, days_too_early)
        first_day += delay
    else:
        day = np.maximum.accumulate(day)  # intervals and order contradict each other
    notes = []
    if repeated:
        notes.append(describe_repeats(repeated))
    note = (
        "The file holds no dates: each review is placed on the earliest day that its intervals "
        "allow"
    )
    if elapsed_seconds is None:
        format_name = "older table of srs-benchmark (CSV)"
        seconds = delta_t * DAY_S
        notes.append(f"{note}, and intervals are whole days.")
    else:
        format_name = "FSRS-Anki-20k (CSV)"
        seconds = elapsed_seconds[order]
        notes.append(f"{note}.")
    rows = Rows(
        card_id=card_id,
        day_offset=day,
        rating=rating,
        state=np.where(is_first, 0, REVIEW + 1) if state is None else state[order],
        duration_ms=np.zeros(len(card_id), np.int64) if duration_ms is None else duration_ms[order],
        elapsed_days=np.where(is_first, -1, delta_t),
        elapsed_seconds=np.where(is_first, -1, seconds),
    )
    return ImportedTable(format_name, rows=rows, repeated=repeated, notes=tuple(notes))


def infer_kinds(entries: Entries, next_day_at_s: int) -> Entries:
    """Infer the kinds of entries for a log that has only ratings.

    All entries of a card's first day are learning. On a later day, the first entry is a review, and
    each other entry is a relearning if Again came before it on that day, else a review. So a card's
    first entry is its only learning start.
    """
    order = np.argsort(entries.card_id, kind="stable")
    card_id = entries.card_id[order]
    is_failure = entries.rating[order] == 1
    day = -((next_day_at_s * 1000 - entries.time_ms[order]) // (DAY_S * 1000))
    starts_card = mark_run_starts(card_id)
    starts_day = starts_card | mark_run_starts(day)
    positions = np.arange(len(card_id))
    card_start = np.maximum.accumulate(np.where(starts_card, positions, 0))
    day_start = np.maximum.accumulate(np.where(starts_day, positions, 0))
    failures_before = np.cumsum(is_failure) - is_failure
    failed_that_day = failures_before > failures_before[day_start]
    kind = np.where(failed_that_day, RELEARNING, REVIEW)
    kind[day_start == card_start] = LEARNING
    kind_in_original_order = np.empty_like(kind)
    kind_in_original_order[order] = kind
    return replace(entries, kind=kind_in_original_order.astype(np.int64))


def _read_number_columns(
    content: bytes, names: list[str], columns: Sequence[str], delimiter: str, name: str
) -> list[IntArray]:
    """Read the wanted columns of whole numbers below the header.

    Raises InputError naming the bad line.
    """
    lines = io.BytesIO(content)
    lines.readline()
    start = lines.tell()

    def load(dtype: type) -> np.ndarray:
        lines.seek(start)
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # else 1.7 would become 1
            warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
            return np.loadtxt(
                lines,
                dtype=dtype,
                delimiter=delimiter,
                usecols=[names.index(column) for column in columns],
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
            is_whole = (np.abs(numbers) < 2.0**53) & (numbers == np.floor(numbers))
            if not is_whole.all():
                raise ValueError("not all are whole numbers") from None
            table = numbers.astype(np.int64)
    except (ValueError, OverflowError, IndexError, MemoryError, UnicodeError) as error:
        reason = _find_bad_number(content, names, columns, delimiter)
        reason = reason or printable(error, 120).split("; use")[0]
        raise InputError(f"{name} is not a readable review log ({reason}); correct it.") from error
    return [np.ascontiguousarray(column) for column in table.T.reshape(len(columns), -1)]


def _find_bad_number(
    content: bytes, names: list[str], columns: Sequence[str], delimiter: str
) -> str:
    """Describe the first line without a whole number in a wanted column; "" if there is none."""
    with suppress(csv.Error):
        for number, line in _iterate_lines(content, names, delimiter):
            for column in columns:
                value = line.get(column)
                if value is None:
                    return f"line {number:,}: {column} is missing"
                if not _is_whole(value):
                    return (
                        f"line {number:,}: {column} is {printable(value, 40)!r}, not a whole number"
                    )
    return ""


def _is_whole(text: str) -> bool:
    """Return whether a text is a whole number, perhaps written as 3.0."""
    try:
        return float(text).is_integer()
    except ValueError:
        return False
