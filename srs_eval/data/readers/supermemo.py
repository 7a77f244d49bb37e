"""SuperMemo's own exports, with what SuperMemo predicted.

Two files: the backup "Repetition History.txt", whose `expFI` is the forgetting index that the
older algorithm expected, and SM16-v-SM17.csv from a collection's `stats` folder, which has the
predictions of two algorithms. Which repetitions count, and how grades become ratings, is as
open-spaced-repetition/fsrs-vs-sm15 (script.py) and fsrs-vs-sm17 (script.py) have it; with the
former's data the figures of SuperMemo are those published there.

A repetition carries the date on which SuperMemo counted it: after midnight an evening goes on
(`Hour` passes 24), so days are settled and no time zone is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime

import numpy as np

from srs_eval.data.days import DAY_S
from srs_eval.data.errors import InputError
from srs_eval.data.readers.repeats import first_of_each, repeats_in_words
from srs_eval.data.readers.table import Table, decoded
from srs_eval.data.reviews import REVIEW, FloatArray, IntArray, Rows, run_begins

SM15, SM16, SM17 = "SuperMemo SM-15", "SuperMemo SM-16", "SuperMemo SM-17"

_RATING = np.array([1, 1, 1, 2, 3, 4])  # of grades 0-5
_SECTION = re.compile(r"^(\w+) #\d+")
_NO_CARDS = ("Topic", "Concept", "Task")
_NOON = 12.0
# The beginnings of months as SuperMemo writes them in English, German and Portuguese.
_MONTHS = (
    *(("jan",), ("feb", "fev"), ("mar", "mär", "mrz"), ("apr", "abr"), ("may", "mai")),
    *(("jun",), ("jul",), ("aug", "ago"), ("sep", "set"), ("oct", "okt", "out")),
    *(("nov",), ("dec", "dez")),
)
_MONTH = {word: number for number, words in enumerate(_MONTHS, 1) for word in words}
_DATES = ("%m %d %Y %H:%M:%S", "%d/%m/%Y %H:%M", "%m/%d/%Y", "%m-%d-%y")


def is_history(start: bytes) -> bool:
    """Whether `start` opens a backup of repetition histories."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text.startswith((b"Repetition history", b"ElNo=")) or bool(
        re.match(rb"(Item|Topic|Concept) #\d+", text)
    )


def read_history(content: bytes, name: str) -> Table:
    """Rows of a "Repetition History.txt"; InputError naming a bad line.

    Left out are an item's first repetition (it tells when it was added, not how well it was
    known), items that do not begin with it or have more than it on that day, items with a grade
    above 5 (reset or moved elsewhere) or an index of 100, and of several repetitions of an item
    on a day all but the last.
    """
    table = np.array(list(_records(content, name)), np.float64).reshape(-1, 7).T
    item, day, repetition, lapses, grade = table[:5].astype(np.int64)
    hour, index = table[5:]
    # Newest first within an item in the file, and so within a day after this.
    order = np.lexsort((day, item))
    new_item = run_begins(item[order])
    begins = (repetition == 1) & (lapses == 0)
    whole = np.repeat(begins[order][new_item], np.diff([*np.flatnonzero(new_item), len(order)]))
    spoilt = np.unique(item[~begins & ((grade > 5) | (index == 100))])
    usable = np.empty(len(order), np.bool_)
    usable[order] = whole
    reasons = {
        "of items that do not begin with one first repetition on a day of its own": ~usable,
        "first ones, which tell when an item was added, not how well it was known": begins,
        "of items with a grade above 5 or a forgetting index of 100": np.isin(item, spoilt),
    }
    kept = np.ones(len(order), np.bool_)
    counts = {}
    for reason, mask in reasons.items():
        counts[reason] = int((kept & mask).sum())
        kept &= ~mask
    order = order[kept[order]]
    once = run_begins(item[order]) | run_begins(day[order])
    counts["of an item on the same day as a later one"] = int((~once).sum())
    order = order[once]
    hour = np.where(np.isnan(hour), _NOON, hour)
    seconds = day * DAY_S + np.round(hour * 3600).astype(np.int64)
    return _table(
        "SuperMemo repetition history (text)",
        item[order],
        day[order],
        seconds[order],
        _RATING[grade[order]],
        None,
        {SM15: (100 - index[order]) / 100},
        counts,
    )


def read_comparison(lines: Iterator[tuple[int, dict[str, str]]], name: str) -> Table:
    """Rows of an SM16-v-SM17.csv from its lines (fields by name in lower case).

    Left out are lines without a date, a grade of 0-5, a success of 0 or 1, or with a prediction
    that is no probability, those without an interval (an item's first), and those that repeat
    another in everything.
    """
    found: list[tuple[float, ...]] = []
    counts = {"without a readable date, grade or prediction": 0, "without an interval": 0}
    for _, line in lines:
        try:
            moment = _moment(line["date"])
            item, interval, grade, success, sm16, sm17 = (
                float(line[column])
                for column in (
                    *("element no", "used interval", "grade", "success"),
                    *("r (sm16)", "r (sm17)"),
                )
            )
            sound = (
                grade in range(6)
                and success in (0, 1)
                and 0 <= sm16 <= 1
                and 0 <= sm17 <= 1
                and item == int(item)
            )
        except (KeyError, ValueError, OverflowError):
            sound = False
        if not sound:
            counts["without a readable date, grade or prediction"] += 1
        elif interval <= 0:
            counts["without an interval"] += 1
        else:
            seconds = (moment - datetime(1970, 1, 1)).total_seconds()
            found.append((item, seconds, interval, grade, sm16, sm17))
    if not found:
        raise InputError(f"{name} holds no repetition that can be read; export it again.")
    table = np.array(found)
    # Dates may be without a time of day: only what is alike in everything is one repetition.
    kept = first_of_each(list(table.T))
    repeated = int((~kept).sum())
    table = table[kept]
    item, seconds, interval, grade = table[:, :4].astype(np.int64).T
    order = np.lexsort((seconds, item))
    return _table(
        "SuperMemo comparison of SM-16 and SM-17 (CSV)",
        item[order],
        seconds[order] // DAY_S + date(1970, 1, 1).toordinal(),
        seconds[order],
        _RATING[grade[order]],
        interval[order],
        {SM16: table[order, 4], SM17: table[order, 5]},
        counts,
        repeated,
    )


def _records(content: bytes, name: str) -> Iterator[tuple[float, ...]]:
    """(item, day, repetition, lapses, grade, hour, index) of each record; NaN if missing."""
    section = "Item"
    for number, line in enumerate(decoded(content).splitlines(), 1):
        line = line.strip()
        if not line.startswith("ElNo="):
            named = _SECTION.match(line)
            section = named[1] if named else section
            continue
        if section in _NO_CARDS:
            continue
        fields = dict(part.partition("=")[::2] for part in line.split())
        try:
            day = datetime.strptime(fields["Date"], "%d.%m.%Y").toordinal()
            yield (
                *(int(fields["ElNo"]), day, int(fields["Rep"]), int(fields["Laps"])),
                int(fields["Grade"]),
                float(fields.get("Hour", "nan")),
                float(fields.get("expFI", "nan")),
            )
        except (KeyError, ValueError, OverflowError) as error:
            raise InputError(
                f"{name} is damaged (line {number} is no repetition as SuperMemo writes it); "
                "export it again."
            ) from error


def _moment(text: str) -> datetime:
    """A date as SuperMemo writes it, which depends on the system's language."""
    words = text.strip().split()
    month = _MONTH.get(words[0].rstrip(".")[:3].lower()) if words else None
    if month is not None:
        words[0] = str(month)
    plain = " ".join(words).replace("月", "")
    for form in _DATES:
        try:
            return datetime.strptime(plain, form)
        except ValueError:
            continue
    raise ValueError(f"no date: {text}")


def _table(
    words: str,
    item: IntArray,
    day: IntArray,
    seconds: IntArray,
    rating: IntArray,
    interval: IntArray | None,
    predictions: dict[str, FloatArray],
    left_out: dict[str, int],
    repeated: int = 0,
) -> Table:
    """Rows in order of review from columns in order of item and time; days as ordinals."""
    first = run_begins(item)
    elapsed = np.diff(day, prepend=0) if interval is None else interval
    elapsed_s = np.maximum(np.diff(seconds, prepend=0), 1)
    order = np.lexsort((seconds, day))
    rows = Rows(
        card_id=item[order],
        day_offset=(day - (day.min() if len(day) else 0))[order],
        rating=rating[order],
        state=np.where(first, 0, REVIEW + 1)[order],
        duration_ms=np.zeros(len(item), np.int64),
        elapsed_days=np.where(first, -1, elapsed)[order],
        elapsed_seconds=np.where(first, -1, elapsed_s)[order],
    )
    notes = tuple(
        f"{'1 repetition is' if count == 1 else f'{count:,} repetitions are'} left out: {reason}."
        for reason, count in left_out.items()
        if count
    )
    if repeated:
        notes += (repeats_in_words(repeated),)
    return Table(
        words,
        rows=rows,
        left_out=sum(left_out.values()),
        repeated=repeated,
        predictions={name: column[order] for name, column in predictions.items()},
        notes=notes,
        app_name="SuperMemo",
        first_day=date.fromordinal(int(day.min())).isoformat() if len(day) else None,
    )
