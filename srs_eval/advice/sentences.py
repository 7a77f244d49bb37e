"""What findings say, for whatever view: figures in words, tables of them, and panes."""

from __future__ import annotations

import calendar
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len, set_cell_size

from srs_eval.advice import findings as f
from srs_eval.advice.findings import Finding, Missing
from srs_eval.data.errors import InputError, counted, require
from srs_eval.models.own_parameters import as_run
from srs_eval.stats.intervals import TOO_MANY_MORE, Interval

if TYPE_CHECKING:
    import pandas

# Figures in words


def signed(value: float, places: int = 4) -> str:
    """ "+0.0021", "−0.0021"; of log loss take `better_by`, which tells what is good."""
    return f"{round(value, places) + 0.0:+.{places}f}".replace("-", "−")


def better_by(difference: float, places: int = 4) -> str:
    """ "0.0021 better": how a difference in log loss is told; in three places, ".002 better"."""
    return f"{_size(difference, places)} {_side(difference, places)}".rstrip()


def _span(interval: Interval, places: int = 4) -> str:
    """ "0.0008 to 0.0034 better", "0.0008 better to 0.0021 worse": both ends of a difference."""
    low, high = (_side(end, places) for end in (interval.low, interval.high))
    first, last = interval.low, interval.high
    if low and high and low != high:
        return f"{better_by(first, places)} to {better_by(last, places)}"
    if abs(last) < abs(first):
        first, last = last, first
    return f"{_size(first, places)} to {better_by(last, places)}"


def difference_in_words(interval: Interval, places: int = 4) -> str:
    """ "0.0021 better (0.0008 to 0.0034)": a difference with both ends, if it has any."""
    said = better_by(interval.estimate, places)
    if _is_open(interval):
        return said
    word = _side(interval.estimate, places)
    ends = _span(interval, places)
    if len(ends.split()) == 4:  # both are on one side, and so is what lies between
        ends = ends.removesuffix(f" {word}")
    return f"{said} ({ends})"


def _size(difference: float, places: int) -> str:
    shown = f"{abs(difference):.{places}f}"
    return shown if places > 3 else shown.removeprefix("0")


def _side(difference: float, places: int) -> str:
    """Whether it is better or worse, as far as so many places show it."""
    if float(f"{abs(difference):.{places}f}") == 0:
        return ""
    return "better" if difference < 0 else "worse"


def sure(interval: Interval) -> str:
    """ "(95 %: 0.0008 to 0.0034 better)"."""
    return "(one day has no interval)" if _is_open(interval) else f"(95 %: {_span(interval)})"


def _is_open(interval: Interval) -> bool:
    return not math.isfinite(interval.half_width)


def capital(said: str) -> str:
    """Beginning with a capital letter."""
    return said[:1].upper() + said[1:]


def listed(names: Sequence[str]) -> str:
    """ "A", "A and B", "A, B and C"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def by_when(missing: Missing | None) -> str:
    """ "by about 15 December at your pace", "after 1,200 more reviews"; "" where nothing is."""
    if missing is None:
        return ""
    if missing.date is not None:
        day = date.fromisoformat(missing.date)
        year = f" {day.year}" if day.year != date.today().year else ""
        return f"by about {day.day} {calendar.month_name[day.month]}{year} at your pace"
    if missing.reviews:
        return f"after about {counted(missing.reviews, 'more review')}"
    return f"after {counted(missing.days or 0, 'more day')}"


def where_to_paste(answer: Finding) -> str:
    """Where the answer's parameters go."""
    if answer.subject == f.ALL_REVIEWS:  # whose presets are not known, or are none of Anki's
        return "Paste it into the field for FSRS parameters (in Anki: deck options, FSRS)."
    into, preset = "", f", preset {answer.subject}"
    if answer.question != "parameters":
        into, preset = " into the presets whose own lines say so", ""
    return (
        f"Paste it in Anki{into}: deck options{preset}, FSRS parameters "
        "(newer Anki: click that field 3 times first)."
    )


def lacks(missing: Missing | None, is_short: bool = False) -> str:
    """ "needs 213 more reviews", "needs 3 more days"; "too few reviews" if that `is_short`.

    How many each of several presets lacks is told by its own evidence.
    """
    if missing is None or missing == Missing():
        return "more won't tell soon"
    if is_short:
        return "too few reviews" if missing.reviews else "too few days"
    of_each = (missing.reviews, "more review"), (missing.days, "more day")
    return f"needs {' on '.join(counted(count, what) for count, what in of_each if count)}"


def what_lacks(missing: Missing | None) -> str:
    """The same as a sentence."""
    if missing is None or missing == Missing():
        return f"More reviews won't tell soon: over {TOO_MANY_MORE} times as many are needed."
    return f"About {lacks(missing).removeprefix('needs ')} like these would tell."


def overdue(cards: int, minutes: float, of: int = 0, then: str = "") -> str:
    """ "94 of 396 cards overdue: 16 minutes", without "of 396" where that is 0."""
    hours, few = f"{minutes / 60:,.0f} hours", counted(max(round(minutes), 1), "minute")
    among = f"{cards:,} of {counted(of, 'card')}" if of else counted(cards, "card")
    return f"{among} overdue{then}: {hours if minutes >= 120 else few}"


def in_groups(subjects: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """ "better: A (.01 to .03 better); can't tell yet: B": what is said, and of what."""
    return "; ".join(f"{says}: {_together(names)}" for says, names in subjects.items())


def _together(subjects: Sequence[tuple[str, str]]) -> str:
    """ "A (.01 to .03 better), B and C (too few reviews)": names with what is said of them."""
    by_reason: dict[str, list[str]] = {}
    for name, why in subjects:
        by_reason.setdefault(why, []).append(name)
    said = [f"{listed(names)} {why}".rstrip() for why, names in by_reason.items()]
    return listed(said) if len(subjects) == len(said) else ", ".join(said)


def figures(difference: Interval, on: str = "", than: str = "") -> str:
    """ "log loss 0.0021 better than it on 1,000 reviews (95 %: …)", reviews named by `on`."""
    of = f" on {counted(difference.reviews, on)}" if on else ""
    return f"log loss {better_by(difference.estimate)}{than}{of} {sure(difference)}"


def percent(share: float, places: int = 1) -> str:
    """ "84.7 %"."""
    return f"{100 * share:.{places}f} %"


def share_bounds(share: Interval, places: int) -> tuple[str, str]:
    """The bounds of a share in per cent, within 0 and 100."""
    return percent(max(share.low, 0.0), places), percent(min(share.high, 1.0), places)


def share_range(share: Interval) -> str:
    """ "86 to 90 %"."""
    low, high = share_bounds(share, 0)
    return f"{low.removesuffix(' %')} to {high}"


def has_a_figure(found: Interval) -> bool:
    """Whether a log loss rests on so much that it is shown where nothing beside it tells."""
    return found.reviews >= f.FEWEST_SHOWN and found.days >= f.FEWEST_DAYS_SHOWN


_NAME = 20  # columns of a preset's name in a sentence


def quoted(name: str) -> str:
    """ "“Vocabulary”": a preset's name, cut where it is long."""
    if cell_len(name) > _NAME:
        name = f"{set_cell_size(name, _NAME - 1).rstrip()}…"
    return f"“{name}”"


def whole_of_100(share: float) -> str:
    """ "79" for 0.79."""
    return f"{100 * share:.0f}"


# How sure

_DOTS = 5


def sureness(probability: float) -> str:
    """ "sure", "likely" or "could go either way"."""
    if probability >= f.SURE:
        return "sure"
    return "likely" if probability >= f.LIKELY else "could go either way"


def dots(probability: float) -> str:
    """ "●●●●○": how sure, from a coin's toss on."""
    full = round(_DOTS * max(2 * probability - 1, 0.0))
    return "●" * full + "○" * (_DOTS - full)


def times_in_100(probability: float) -> int:
    """Rounded down: 95 are "sure", and nothing below is."""
    return math.floor(100 * probability + 1e-9)


def of_100(probability: float) -> str:
    """ "likely, 88 of 100"."""
    return f"{sureness(probability)}, {times_in_100(probability)} of 100"


# Parameters as a person writes them


def parsed_parameters(text: str) -> list[float]:
    """A parameter line as Anki shows it: numbers separated by commas or blanks."""
    try:
        values = [float(each) for each in text.replace(",", " ").strip(" []").split()]
    except ValueError:
        raise InputError(
            f'"{text[:40]}" is no list of FSRS parameters: give numbers separated by commas.'
        ) from None
    if not values:
        raise InputError("--params is empty: give 17, 19 or 21 numbers, or FSRS-7's 34.")
    return as_run(values)


def parameter_line(values: Sequence[float]) -> str:
    """A list as it can be pasted into Anki's deck options."""
    return ", ".join(f"{value:.4f}" for value in values)


def month_in_words(month: str) -> str:
    """ "October 2024" for "2024-10"; what is no calendar month as it is."""
    year, _, number = month.partition("-")
    if not (year.isdigit() and number.isdigit()):
        return month
    return f"{calendar.month_name[int(number)]} {year}"


# Tables of figures behind a finding

SHARES = {"recalled", "expected", "desired"}  # columns that hold shares, shown in percent
Cell = str | int | float | Interval | None


def is_difference(column: str) -> bool:
    """Whether it holds differences: shown with their sign, and held against zero."""
    return column.startswith("minus")


@dataclass(frozen=True)
class Table:
    """Figures behind an answer; an Interval is log loss in nats unless the column says other."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def heading(self) -> str:
        """The title; of differences in log loss it says which sign is better."""
        for column in self.columns:
            if is_difference(column) and column not in ("minus expected", "minus recalled"):
                return f"{self.title} ({column}: log loss, below zero is better)"
        return self.title

    def verdict(self, row: tuple[Cell, ...]) -> str | None:
        """That on a row, "" where it has none; None where rows of the table have no verdicts."""
        for column, cell in zip(self.columns, row, strict=True):
            if column in ("verdict", "decision"):
                return "can't tell yet" if cell == "can't tell" else str(cell or "")
        return None

    def frame(self) -> pandas.DataFrame:
        """One row for each row; an Interval becomes estimate, low and high."""
        require("pandas", "A frame")
        import pandas as pd

        return pd.DataFrame(self.records())

    def records(self) -> list[dict[str, Any]]:
        """Rows by column name, as JSON has them; what is not known is None."""
        made = []
        for row in self.rows:
            record: dict[str, Any] = {}
            for column, cell in zip(self.columns, row, strict=True):
                if isinstance(cell, Interval):
                    record[column] = _known(cell.estimate)
                    record[f"{column} low"] = _known(cell.low)
                    record[f"{column} high"] = _known(cell.high)
                else:
                    record[column] = _known(cell) if isinstance(cell, float) else cell
            made.append(record)
        return made


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Renderer:
    """What evidence of one kind says; without a line of its own, the first sentence."""

    sentences: Callable[[Finding], Sequence[str]]
    line: Callable[[Sequence[Finding]], str] | None = None
    tables: Callable[[Finding], Sequence[Table]] = lambda _: ()


# Panes

Level = f.Level | Literal[""]
"""How it is painted: green only for what is fine, yellow for what to look at, grey for what is
not known yet."""


@dataclass(frozen=True)
class Line:
    """A sentence; `mark` stands before it, `right` at the end of its line."""

    text: str
    level: Level = ""
    mark: str = ""
    right: str = ""
    key: str = ""  # what a key of the app does with it; at the end of its line
    spare: int = 0  # how early it goes for want of room; 0 stays


@dataclass(frozen=True)
class Bar:
    """A bar with its figures: up to `share` of its length, a range up to `until`, a mark."""

    label: str
    figures: tuple[str, ...]
    share: float
    until: float = 0.0
    tick: float | None = None
    note: str = ""
    level: Level = ""
    spare: int = 0


@dataclass(frozen=True)
class Heading:
    """What stands above the figures of bars."""

    label: str
    figures: tuple[str, ...]
    spare: int = 0


@dataclass(frozen=True)
class Row:
    """A preset: its name, what is remembered, what to do."""

    cells: tuple[str, ...]
    level: Level = ""
    spare: int = 0


@dataclass(frozen=True)
class ByMonth:
    """Of 100 reviews of a month, so many remembered; the latest last."""

    months: tuple[tuple[str, int], ...]
    spare: int = 0


Item = Line | Bar | Heading | Row | ByMonth


@dataclass(frozen=True)
class Pane:
    """A question with its answer; `short` is all of it where there is one line of room."""

    title: str
    short: Line
    items: tuple[Item, ...]
    questions: tuple[str, ...]  # whose findings it rests on, the first one's foremost
    subject: str = ""  # of the finding foremost, where there are several


@dataclass(frozen=True)
class FirstScreen:
    """All of it: five panes and what stands in grey below them."""

    panes: tuple[Pane, ...]
    below: tuple[Line, ...]
    copied: Finding | None = None  # whose parameters pane 1 speaks of
