"""Tables of figures behind a finding, and the panes of the first screen, for whatever view."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from srs_eval.advice.findings import Finding
from srs_eval.advice.findings import Level as _Level
from srs_eval.data.errors import require
from srs_eval.stats.intervals import Interval

if TYPE_CHECKING:
    import pandas

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


# Panes

Level = _Level | Literal[""]
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
