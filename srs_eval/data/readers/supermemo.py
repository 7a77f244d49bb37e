"""Read SuperMemo's own exports, with SuperMemo's predictions.

Two files: the backup "Repetition History.txt", whose `expFI` is the forgetting index that the
older algorithm expected, and SM16-v-SM17.csv from a collection's `stats` folder, which has the
predictions of two algorithms. The choice of repetitions and the conversion of grades into ratings
follow open-spaced-repetition/fsrs-vs-sm15 (script.py) and fsrs-vs-sm17 (script.py); with the
former's data, the figures of SuperMemo equal the published ones.

A repetition has the date to which SuperMemo counted it. After midnight, an evening still belongs to
the day before (`Hour` passes 24), so days are settled and no time zone is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime

import numpy as np

from srs_eval.data.days import DAY_S
from srs_eval.data.errors import InputError
from srs_eval.data.readers.files import decode_text
from srs_eval.data.readers.imported_table import ImportedTable
from srs_eval.data.readers.repeats import describe_repeats, mark_first_occurrences
from srs_eval.data.reviews import REVIEW, FloatArray, IntArray, Rows, mark_run_starts

SM15 = "SuperMemo SM-15"
SM16 = "SuperMemo SM-16"
SM17 = "SuperMemo SM-17"

_RATING_OF_GRADE = np.array([1, 1, 1, 2, 3, 4])  # by grade, 0-5
_SECTION_PATTERN = re.compile(r"^(\w+) #\d+")
_NON_CARD_SECTIONS = ("Topic", "Concept", "Task")
_NOON_HOUR = 12.0
_MONTH_NUMBERS = {
    "jan": 1,
    "feb": 2,
    "fev": 2,
    "mar": 3,
    "mär": 3,
    "mrz": 3,
    "apr": 4,
    "abr": 4,
    "may": 5,
    "mai": 5,
    "jun": 6,
    "jul": 7,
    "aug": 8,
    "ago": 8,
    "sep": 9,
    "set": 9,
    "oct": 10,
    "okt": 10,
    "out": 10,
    "nov": 11,
    "dec": 12,
    "dez": 12,
}
"""By the beginnings of months as SuperMemo writes them in English, German and Portuguese."""
_DATE_FORMATS = ("%m %d %Y %H:%M:%S", "%d/%m/%Y %H:%M", "%m/%d/%Y", "%m-%d-%y")


def is_supermemo_history(start: bytes) -> bool:
    """Return whether `start` opens a backup of repetition histories."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"Repetition history", b"ElNo=")):
        return True
    return re.match(rb"(Item|Topic|Concept) #\d+", text) is not None


def read_history(content: bytes, name: str) -> ImportedTable:
    """Read the rows of a "Repetition History.txt". Raises InputError naming a bad line.

    Left out are

    - an item's first repetition: it tells when the item was added, not how well it was known;
    - items that do not begin with a first repetition, or have other repetitions on its day;
    - items with a grade above 5 (reset or moved elsewhere) or a forgetting index of 100;
    - if an item has several repetitions on a day, all but the last.
    """
    table = np.array(list(_parse_records(content, name)), np.float64).reshape(-1, 7).T
    item, day, repetition, lapses, grade = table[:5].astype(np.int64)
    hour, forgetting_index = table[5:]
    # The file has an item's newest repetition first, and the sort keeps that order within a day.
    order = np.lexsort((day, item))
    starts_item = mark_run_starts(item[order])
    is_first = (repetition == 1) & (lapses == 0)
    repetitions_per_item = np.diff([*np.flatnonzero(starts_item), len(order)])
    is_faulty = ~is_first & ((grade > 5) | (forgetting_index == 100))
    faulty_items = np.unique(item[is_faulty])
    # The newest repetition of an item's first day must be the first one.
    begins_well = np.empty(len(order), np.bool_)
    begins_well[order] = np.repeat(is_first[order][starts_item], repetitions_per_item)
    reasons = {
        "the item's first repetition is missing or shares its day with another one": ~begins_well,
        "an item's first one shows when it was added, not how well it was known": is_first,
        "the item has a grade above 5 or a forgetting index of 100": np.isin(item, faulty_items),
    }
    is_kept = np.ones(len(order), np.bool_)
    excluded = {}
    for reason, mask in reasons.items():
        excluded[reason] = int((is_kept & mask).sum())
        is_kept &= ~mask
    order = order[is_kept[order]]
    is_last_of_day = mark_run_starts(item[order]) | mark_run_starts(day[order])
    excluded["another repetition of the item follows on the same day"] = int(
        (~is_last_of_day).sum()
    )
    order = order[is_last_of_day]
    hour = np.where(np.isnan(hour), _NOON_HOUR, hour)
    seconds = day * DAY_S + np.round(hour * 3600).astype(np.int64)
    return _build_table(
        "SuperMemo repetition history (text)",
        item=item[order],
        day=day[order],
        seconds=seconds[order],
        rating=_RATING_OF_GRADE[grade[order]],
        interval=None,
        predictions={SM15: (100 - forgetting_index[order]) / 100},
        excluded=excluded,
    )


def read_comparison(lines: Iterator[tuple[int, dict[str, str]]], name: str) -> ImportedTable:
    """Read the rows of an SM16-v-SM17.csv from its lines (fields by name in lower case).

    Left out are lines in which the date, the grade (0-5), the success (0 or 1) or a prediction is
    missing or impossible, lines without an interval (an item's first), and exact repeats of lines.
    """
    repetitions: list[tuple[float, ...]] = []
    excluded = {"without a readable date, grade or prediction": 0, "without an interval": 0}
    for _, line in lines:
        try:
            moment = _parse_moment(line["date"])
            item = float(line["element no"])
            interval = float(line["used interval"])
            grade = float(line["grade"])
            success = float(line["success"])
            sm16 = float(line["r (sm16)"])
            sm17 = float(line["r (sm17)"])
            is_sound = (
                grade in range(6)
                and success in (0, 1)
                and 0 <= sm16 <= 1
                and 0 <= sm17 <= 1
                and item == int(item)
            )
        except (KeyError, ValueError, OverflowError):
            is_sound = False
        if not is_sound:
            excluded["without a readable date, grade or prediction"] += 1
        elif interval <= 0:
            excluded["without an interval"] += 1
        else:
            seconds = (moment - datetime(1970, 1, 1)).total_seconds()
            repetitions.append((item, seconds, interval, grade, sm16, sm17))
    if not repetitions:
        raise InputError(f"{name} holds no repetition that can be read; export it again.")
    table = np.array(repetitions)
    # Dates may lack a time of day, so only lines that are equal in everything are one repetition.
    is_kept = mark_first_occurrences(list(table.T))
    repeats = int((~is_kept).sum())
    table = table[is_kept]
    item, seconds, interval, grade = table[:, :4].astype(np.int64).T
    order = np.lexsort((seconds, item))
    return _build_table(
        "SuperMemo comparison of SM-16 and SM-17 (CSV)",
        item=item[order],
        day=seconds[order] // DAY_S + date(1970, 1, 1).toordinal(),
        seconds=seconds[order],
        rating=_RATING_OF_GRADE[grade[order]],
        interval=interval[order],
        predictions={SM16: table[order, 4], SM17: table[order, 5]},
        excluded=excluded,
        repeats=repeats,
    )


def _parse_records(content: bytes, name: str) -> Iterator[tuple[float, ...]]:
    """Yield (item, day, repetition, lapses, grade, hour, index) of each record; NaN if missing."""
    section = "Item"
    for number, line in enumerate(decode_text(content).splitlines(), 1):
        line = line.strip()
        if not line.startswith("ElNo="):
            match = _SECTION_PATTERN.match(line)
            if match:
                section = match[1]
            continue
        if section in _NON_CARD_SECTIONS:
            continue
        fields = {}
        for pair in line.split():
            field, _, value = pair.partition("=")
            fields[field] = value
        try:
            day = datetime.strptime(fields["Date"], "%d.%m.%Y").toordinal()
            yield (
                int(fields["ElNo"]),
                day,
                int(fields["Rep"]),
                int(fields["Laps"]),
                int(fields["Grade"]),
                float(fields.get("Hour", "nan")),
                float(fields.get("expFI", "nan")),
            )
        except (KeyError, ValueError, OverflowError) as error:
            raise InputError(
                f"{name} is damaged (line {number} is not a repetition as SuperMemo writes it); "
                "export it again."
            ) from error


def _parse_moment(text: str) -> datetime:
    """Parse a date as SuperMemo writes it, which depends on the system's language."""
    words = text.strip().split()
    month = _MONTH_NUMBERS.get(words[0].rstrip(".")[:3].lower()) if words else None
    if month is not None:
        words[0] = str(month)
    numeric = " ".join(words).replace("月", "")  # "month" in Chinese and Japanese
    for date_format in _DATE_FORMATS:
        try:
            return datetime.strptime(numeric, date_format)
        except ValueError:
            continue
    raise ValueError(f"not a date: {text}")


def _build_table(
    format_name: str,
    item: IntArray,
    day: IntArray,
    seconds: IntArray,
    rating: IntArray,
    interval: IntArray | None,
    predictions: dict[str, FloatArray],
    excluded: dict[str, int],
    repeats: int = 0,
) -> ImportedTable:
    """Build rows in order of review from columns in order of item, then time.

    `day` counts as `date.toordinal` does; `excluded` are numbers of repetitions by reason.
    """
    is_first = mark_run_starts(item)
    elapsed = np.diff(day, prepend=0) if interval is None else interval
    elapsed_s = np.maximum(np.diff(seconds, prepend=0), 1)
    order = np.lexsort((seconds, day))
    first_day = day.min() if len(day) else 0
    rows = Rows(
        card_id=item[order],
        day_offset=(day - first_day)[order],
        rating=rating[order],
        state=np.where(is_first, 0, REVIEW + 1)[order],
        duration_ms=np.zeros(len(item), np.int64),
        elapsed_days=np.where(is_first, -1, elapsed)[order],
        elapsed_seconds=np.where(is_first, -1, elapsed_s)[order],
    )
    notes = []
    for reason, count in excluded.items():
        if count == 1:
            notes.append(f"1 repetition is left out: {reason}.")
        elif count:
            notes.append(f"{count:,} repetitions are left out: {reason}.")
    if repeats:
        notes.append(describe_repeats(repeats))
    return ImportedTable(
        format_name,
        rows=rows,
        excluded=sum(excluded.values()),
        repeated=repeats,
        source_predictions={name: column[order] for name, column in predictions.items()},
        notes=tuple(notes),
        app_name="SuperMemo",
        first_day=date.fromordinal(int(day.min())).isoformat() if len(day) else None,
    )
