"""Define tables of figures, as findings and reports hold them: numbers, without a layout.

Cells hold figures, not text, so that a page can sort them, and files for programs have every digit.
`srs_eval.report.cells` formats them for people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from srs_eval.data.errors import require

if TYPE_CHECKING:
    import pandas

    from srs_eval.stats.intervals import Interval
    from srs_eval.stats.users import MeanInterval


@dataclass(frozen=True)
class Figure:
    """A number in a table, optionally with its interval: half the width, or both ends."""

    value: float  # nan if it is unknown
    half_width: float | None = None  # None without an interval; nan if the interval is unknown
    is_best: bool = False  # the best of its column
    ends: tuple[float, float] | None = None  # ends of an interval that need not be symmetric

    @property
    def has_interval(self) -> bool:
        """Return True if the figure has an interval, known or unknown."""
        return self.half_width is not None or self.ends is not None

    @property
    def known_half_width(self) -> float:
        """Return half the width of the interval; nan if it is unknown or there is none."""
        return math.nan if self.half_width is None else self.half_width

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the low and the high end of the interval; nan if they are unknown."""
        if self.ends is not None:
            return self.ends
        return self.value - self.known_half_width, self.value + self.known_half_width


Cell = str | int | Figure | None


def is_best(cell: Cell) -> bool:
    """Return True if a cell is a figure marked as the best of its column."""
    return isinstance(cell, Figure) and cell.is_best


def make_figure(
    value: float | Interval | MeanInterval | None, is_best: bool = False
) -> Figure | None:
    """Return the cell of a number or of an interval; None if there is none."""
    if value is None:
        return None
    if isinstance(value, (int, float)):
        return Figure(value, is_best=is_best)
    return Figure(value.estimate, value.half_width, is_best)


def make_figure_with_ends(interval: MeanInterval | None) -> Figure | None:
    """Return an interval as a cell with both ends, which show whether 0 lies between them."""
    if interval is None:
        return None
    return Figure(interval.estimate, ends=(interval.low, interval.high))


def _make_cell(value: Any) -> Cell:
    """Return words, counts and figures as they are; floats and intervals become figures."""
    if value is None or isinstance(value, str | int | Figure):
        return value
    return make_figure(value)


@dataclass(frozen=True)
class Column:
    """Heading of a column, and the format of its figures."""

    title: str
    digits: int = 4  # decimals of a figure, unless it is rounded by its interval
    round_by_interval: bool = True
    """Round a figure with an interval to `decimals`, not to `digits`."""
    signed: bool = False
    percent: bool = False  # figures are shares
    format_figure: Callable[[Figure], str] | None = None
    """Formats a figure in words where a sign does not suffice: "0.0021 higher ±.0012"."""
    decimals: int = 0
    """Decimals of a figure that is rounded by its interval; 0: the interval's width decides."""
    key: str = ""  # name in files for programs, if it is not the title
    note: str = ""  # meaning in a few words
    plain_title: str = ""  # title in plain text, if a cell beside the title does not make sense
    heading_note: str = ""  # how to read the column, in words for the table's heading
    minor: bool = False  # left out on a page as narrow as a phone
    in_latex: bool = True  # if False, LaTeX leaves it out
    is_shown: bool = True  # if False, it is in files for programs only
    min_width: int = 0  # width of the narrowest terminal that shows it
    overflow: Literal["", "fold", "cut"] = ""  # how its words fit a narrow terminal


@dataclass(frozen=True)
class Table:
    """Rows of cells, with one cell for each column."""

    name: str  # of its CSV file, without the extension; "" until a report names it
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""  # printed below the title in a paper
    is_shown: bool = True  # if False, it is in files for programs only
    own_row: int | None = None  # index of the reader's own row
    brief_rows: tuple[int, ...] | None = None
    """Indices of the rows that suffice for a forum; None: all of them. `own_row` is one of them."""
    faint_rows: tuple[int, ...] = ()  # indices of rows in the background, such as the baseline

    @classmethod
    def from_rows(
        cls,
        name: str,
        title: str,
        heads: Iterable[Any],
        rows: Iterable[Iterable[Any]],
        *,
        caption: str = "",
        is_shown: bool = True,
        own_row: int | None = None,
        brief_rows: tuple[int, ...] | None = None,
        faint_rows: tuple[int, ...] = (),
    ) -> Self:
        """Make a table of heads, which are titles or columns, and rows.

        Floats and intervals in the rows become figures.
        """
        columns = (head if isinstance(head, Column) else Column(head) for head in heads)
        return cls(
            name,
            title,
            tuple(columns),
            tuple(tuple(map(_make_cell, row)) for row in rows),
            caption=caption,
            is_shown=is_shown,
            own_row=own_row,
            brief_rows=brief_rows,
            faint_rows=faint_rows,
        )

    @property
    def heading(self) -> str:
        """Return the title with the notes on how to read columns, for people."""
        notes = [
            f"{column.title}: {column.heading_note}"
            for column in self.columns
            if column.heading_note
        ]
        if not self.title or not notes:
            return self.title
        return f"{self.title} ({'; '.join(notes)})"

    @property
    def right_aligned(self) -> list[bool]:
        """Return for each column whether it contains numbers, which are right-aligned."""
        return [
            bool(self.rows) and all(not isinstance(row[k], str) for row in self.rows)
            for k in range(len(self.columns))
        ]

    @property
    def shown(self) -> Table:
        """Return the table with the columns that people see."""
        positions = [k for k, column in enumerate(self.columns) if column.is_shown]
        return replace(
            self,
            columns=tuple(self.columns[k] for k in positions),
            rows=tuple(tuple(row[k] for k in positions) for row in self.rows),
        )

    @property
    def abridged(self) -> Table:
        """Return the table with its brief rows only."""
        indices = range(len(self.rows)) if self.brief_rows is None else self.brief_rows
        return replace(
            self,
            rows=tuple(self.rows[index] for index in indices),
            own_row=None if self.own_row is None else indices.index(self.own_row),
            faint_rows=tuple(
                position for position, index in enumerate(indices) if index in self.faint_rows
            ),
            brief_rows=None,
        )

    def records(self) -> list[dict[str, Any]]:
        """Return the rows by column title, as in the JSON of findings; unknown values are None.

        The low and the high end of an interval follow its figure: "log loss", "log loss low",
        "log loss high".
        """
        records = []
        for row in self.rows:
            record: dict[str, Any] = {}
            for column, cell in zip(self.columns, row, strict=True):
                if not isinstance(cell, Figure):
                    record[column.title] = cell
                    continue
                record[column.title] = _finite_or_none(cell.value)
                if cell.has_interval:
                    low, high = cell.bounds
                    record[f"{column.title} low"] = _finite_or_none(low)
                    record[f"{column.title} high"] = _finite_or_none(high)
            records.append(record)
        return records

    def frame(self) -> pandas.DataFrame:
        """Return the records as a data frame."""
        require("pandas", "A frame")
        import pandas as pd

        return pd.DataFrame(self.records())


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
