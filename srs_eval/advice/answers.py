"""What the answer to a question about settings consists of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from srs_eval.data.errors import counted
from srs_eval.stats.intervals import (
    EQUIVALENT,
    FEWEST_DAYS,
    FEWEST_REVIEWS,
    TOO_MANY_MORE,
    Interval,
    enough_to_tell,
    more_reviews,
)

if TYPE_CHECKING:
    import pandas

RECALL_NO_MATTER = 0.03
"""Recall is as it should be within three percentage points: for a smaller gap nobody would ask
Anki for another retention."""

SHARES = {"recalled", "expected", "desired"}  # columns that hold shares, shown in percent
Cell = str | int | float | Interval | None


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
            if column.startswith("minus") and column not in ("minus expected", "minus recalled"):
                return f"{self.title} ({column}: log loss, below zero is better)"
        return self.title

    def frame(self) -> pandas.DataFrame:
        """One row for each row; an Interval becomes estimate, low and high."""
        import pandas as pd

        return pd.DataFrame(self.records())

    def records(self) -> list[dict[str, Any]]:
        """Rows by column name, as JSON has them; what is not known is None."""
        made = []
        for row in self.rows:
            record: dict[str, Any] = {}
            for column, cell in zip(self.columns, row, strict=True):
                if isinstance(cell, Interval):
                    record[column] = cell.estimate
                    record[f"{column} low"] = _known(cell.low)
                    record[f"{column} high"] = _known(cell.high)
                else:
                    record[column] = cell
            made.append(record)
        return made


@dataclass(frozen=True)
class Answer:
    """One question about one preset, or about all of them."""

    question: str  # of QUESTIONS
    subject: str  # the preset's name, or "all presets"
    conclusion: str  # in two or three words, e.g. "keep"
    sentences: tuple[str, ...]  # the answer, then what it rests on
    tables: tuple[Table, ...] = ()
    parameters: tuple[float, ...] | None = None  # to paste, where that is the answer
    difference: Interval | None = None  # in log loss, that the conclusion rests on
    why: str = ""
    """In a few words, why it can't be told where no difference shows it; of what is remembered,
    why it is not as much as desired; of costs, what is done so far where FSRS is off."""

    def frame(self) -> pandas.DataFrame:
        """The first table's figures."""
        import pandas as pd

        return self.tables[0].frame() if self.tables else pd.DataFrame()

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "question": self.question,
            "subject": self.subject,
            "conclusion": self.conclusion,
            "sentences": list(self.sentences),
            "parameters": None if self.parameters is None else list(self.parameters),
            "tables": [{"title": table.title, "rows": table.records()} for table in self.tables],
        }


def signed(value: float, places: int = 4) -> str:
    """ "+0.0021", "−0.0021"; of log loss take `better_by`, which tells what is good."""
    return f"{value:+.{places}f}".replace("-", "−")


def better_by(difference: float, places: int = 4) -> str:
    """ "0.0021 better": how a difference in log loss is told; in three places, ".002 better"."""
    return f"{_size(difference, places)} {_side(difference, places)}".rstrip()


def span(interval: Interval, places: int = 4, to: str = "to") -> str:
    """ "0.0008 to 0.0034 better", "0.0008 better to 0.0021 worse": both ends of a difference."""
    low, high = (_side(end, places) for end in (interval.low, interval.high))
    first, last = interval.low, interval.high
    if low and high and low != high:
        return f"{better_by(first, places)} {to} {better_by(last, places)}"
    if abs(last) < abs(first):
        first, last = last, first
    return f"{_size(first, places)} {to} {better_by(last, places)}"


def told(interval: Interval, places: int = 4) -> str:
    """ "0.0021 better (0.0008 … 0.0034)": a difference with both ends, where it has any."""
    said = better_by(interval.estimate, places)
    if _is_open(interval):
        return said
    ends, word = span(interval, places, "…"), said.partition(" ")[2]
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
    return "(one day has no interval)" if _is_open(interval) else f"(95 %: {span(interval)})"


def spanned(low: str, high: str, interval: Interval) -> str:
    """The bounds of an interval in words of one's own, if it has any."""
    return "(one day has no interval)" if _is_open(interval) else f"(95 %: {low} to {high})"


def _is_open(interval: Interval) -> bool:
    return not math.isfinite(interval.half_width)


def listed(names: Sequence[str]) -> str:
    """ "A", "A and B", "A, B and C"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def best(estimates: Iterable[tuple[str, Interval]]) -> str:
    """The name with the least estimate, ties by name."""
    return min(estimates, key=lambda each: (each[1].estimate, each[0]))[0]


def what_is_missing(difference: Interval, asked: int, margin: float = EQUIVALENT) -> str:
    """Why one can't tell yet, in a sentence; `asked` differences are judged together (Holm).

    `margin` is what does not matter.
    """
    if not enough_to_tell(difference):
        return f"A verdict needs {FEWEST_REVIEWS:,} such reviews on {FEWEST_DAYS} days."
    more = more_reviews(difference, equivalence=margin)
    hint = "" if more is None else f"at most about {more:,} more reviews like these would tell."
    if difference.low > 0 or difference.high < 0:
        why = (
            "The interval leaves out 0, but not by enough where "
            f"{asked} differences are judged together"
        )
        return f"{why}; {hint}" if hint else f"{why}."
    if hint:
        return hint[0].upper() + hint[1:]
    return f"More reviews won't tell soon: over {TOO_MANY_MORE} times as many are needed."


def would_tell(difference: Interval) -> str:
    """What is missing for a verdict, in a few words."""
    if not enough_to_tell(difference):
        return why_open(difference)
    more = more_reviews(difference)
    return "more won't tell soon" if more is None else f"up to {more:,} more reviews"


def where_to_paste(answer: Answer) -> str:
    """Where in Anki the answer's parameters go."""
    into, preset = "", f", preset {answer.subject}"
    if answer.question != "parameters":
        into, preset = " into the presets whose own lines say so", ""
    return (
        f"Paste it in Anki{into}: deck options{preset}, FSRS parameters "
        "(newer Anki: click that field 3 times first)."
    )


_NEEDS = "needs "


def needs(found: int, needed: int, thing: str = "review") -> str:
    """How many are missing, in a few words: what to wait for."""
    return f"{_NEEDS}{counted(needed - found, f'more {thing}')}"


def too_few_in_short(why: str) -> str:
    """ "too few reviews" for "needs 213 more reviews", where several presets stand in a line.

    How many each of them lacks differs from question to question, and is told by its own answer.
    """
    if not why.startswith(_NEEDS):
        return why
    return "too few days" if why.endswith(("day", "days")) else "too few reviews"


def so_far(difference: Interval) -> str:
    """What there is to judge and what a verdict needs; "" where there is enough."""
    if difference.reviews < FEWEST_REVIEWS:
        can = f"{counted(difference.reviews, 'review')} can be judged so far"
        return f"{can}, a verdict needs {FEWEST_REVIEWS:,}"
    if difference.days < FEWEST_DAYS:
        can = f"reviews of {counted(difference.days, 'day')} can be judged so far"
        return f"{can}, a verdict needs {FEWEST_DAYS} days"
    return ""


def why_open(difference: Interval) -> str:
    """The same in a few words; "" where the interval itself shows it, for it holds 0."""
    if difference.reviews < FEWEST_REVIEWS:
        return needs(difference.reviews, FEWEST_REVIEWS)
    if difference.days < FEWEST_DAYS:
        return needs(difference.days, FEWEST_DAYS, "day")
    if difference.low > 0 or difference.high < 0:
        return "not enough where several are judged at once"
    return ""


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
