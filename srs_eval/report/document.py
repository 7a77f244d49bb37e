"""Define the parts of a report: sections of sentences, tables and pictures, without a layout.

The renderers are `console` and `files` (page, Markdown, CSV, JSON). Cells hold figures, not
text, so that a page can sort them and CSV has every digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from srs_eval.report.formats import format_half_width, with_sign

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from srs_eval.advice.sentences import FirstScreen
    from srs_eval.stats.intervals import Interval
    from srs_eval.stats.users import MeanInterval

_MIN_DECIMALS = 3  # fewest decimals of a figure with its interval
_MAX_END_DECIMALS = 7  # most decimals of an interval's end near 0


@dataclass(frozen=True)
class Figure:
    """A number in a table, optionally with its interval: half the width, or both ends."""

    value: float  # nan if there is none
    half_width: float = math.nan
    is_best: bool = False  # the best of its column
    ends: tuple[float, float] | None = None  # ends of an interval that need not be symmetric


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


def format_p_value(figure: Figure) -> str:
    """Format a p-value: "0.012", "< 0.001"; it is never written as 0."""
    return "< 0.001" if figure.value < 0.001 else f"{figure.value:.3f}"


@dataclass(frozen=True)
class Column:
    """Heading of a column, and the format of its figures."""

    title: str
    digits: int = 4  # decimals of a figure that is not rounded by its interval
    round_by_interval: bool = True  # round by the interval's width (`_format_with_interval`)
    signed: bool = False
    percent: bool = False  # figures are shares
    format_figure: Callable[[Figure], str] | None = None
    """Formats a figure in words where a sign does not suffice: "0.0021 worse ±.0012"."""
    decimals: int = 0  # decimals of a figure with its interval; 0: the interval's width decides
    key: str = ""  # name in files for programs, if it is not the title
    note: str = ""  # meaning in a few words
    minor: bool = False  # left out on a page as narrow as a phone
    in_latex: bool = True  # if False, LaTeX leaves it out
    min_width: int = 0  # width of the narrowest terminal that shows it
    overflow: Literal["", "fold", "cut"] = ""  # how its words fit a narrow terminal


@dataclass(frozen=True)
class Table:
    """Rows of cells, with one cell for each column."""

    name: str  # of its CSV file, without the extension
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""  # printed below the title in a paper
    is_shown: bool = True  # if False, it is in files for programs only
    own_row: int | None = None  # index of the reader's own row
    brief_rows: tuple[int, ...] | None = None  # rows that suffice for a forum; None: all of them
    faint_rows: tuple[int, ...] = ()  # rows in the background, such as the baseline

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
    ) -> Table:
        """Make a table of headings (words or Columns) and rows."""
        columns = (head if isinstance(head, Column) else Column(head) for head in heads)
        return cls(
            name,
            title,
            tuple(columns),
            tuple(map(tuple, rows)),
            caption=caption,
            is_shown=is_shown,
            own_row=own_row,
            brief_rows=brief_rows,
            faint_rows=faint_rows,
        )

    @property
    def right_aligned(self) -> list[bool]:
        """Return for each column whether it contains numbers, which are right-aligned."""
        return [
            bool(self.rows) and all(not isinstance(row[k], str) for row in self.rows)
            for k in range(len(self.columns))
        ]

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

    def format_rows(self) -> list[list[str]]:
        """Return the rows as people read them."""
        return [list(map(format_cell, row, self.columns)) for row in self.rows]


def format_cell(cell: Cell, column: Column) -> str:
    """Format a cell for people: "0.325±0.0081", "−0.004 [−0.012, −0.001]", "–" for nothing."""
    match cell:
        case None:
            return "–"
        case str():
            return cell
        case int():
            return f"{cell:,}"
    if math.isnan(cell.value):
        return "–"
    if column.format_figure is not None:
        return column.format_figure(cell)
    scale, unit = (100, " %") if column.percent else (1, "")
    value = scale * cell.value
    half_width = scale * cell.half_width
    if cell.ends is not None and all(map(math.isfinite, cell.ends)):
        low, high = (scale * end for end in cell.ends)
        digits = column.digits
        if column.round_by_interval:
            digits = column.decimals or _count_decimals((high - low) / 2)
        while digits < _MAX_END_DECIMALS and any(
            end and not round(end, digits) for end in (low, high)
        ):
            digits += 1  # a verdict rests on the side of 0 on which an end lies
        value_text, low_text, high_text = (
            with_sign(f"{number:.{digits}f}", column.signed) for number in (value, low, high)
        )
        return f"{value_text} [{low_text}, {high_text}]{unit}"
    if column.round_by_interval and not math.isnan(half_width):
        text, half_width_text = _format_with_interval(value, half_width, column.decimals)
        return f"{with_sign(text, column.signed)}±{half_width_text}{unit}"
    text = f"{value:.{column.digits}f}"
    half_width_text = format_half_width(half_width, column.digits)
    return f"{with_sign(text, column.signed)}{half_width_text}{unit}"


def _format_with_interval(value: float, half_width: float, decimals: int = 0) -> tuple[str, str]:
    """Format a mean and its half-width with equal decimals, as srs-benchmark has since 2026."""
    decimals = decimals or _count_decimals(half_width)
    return f"{value:.{decimals}f}", f"{half_width:.{decimals}f}" if half_width else "0"


def _count_decimals(half_width: float) -> int:
    """Return the decimals for two significant digits of a half-width, but at least three.

    A half-width of 0 gets four.
    """
    if half_width == 0:
        return 4
    decimals = 1 - math.floor(math.log10(half_width))
    if round(half_width, decimals) >= 10 ** (2 - decimals):
        decimals -= 1  # rounding has added a digit: 0.0998 becomes 0.100
    return max(decimals, _MIN_DECIMALS)


# --- sections


@dataclass(frozen=True)
class Code:
    """A line to copy as it is."""

    text: str


@dataclass(frozen=True, eq=False)
class Picture:
    """A chart; its table is folded below it on a page and replaces it elsewhere."""

    name: str  # of its file, without the extension
    title: str
    draw: Callable[[], Drawing]
    table: Table | None = None  # None if a table beside it shows the same


@dataclass(frozen=True)
class Section:
    """A heading and the blocks below it."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False  # a click on a page opens it; elsewhere only lines to copy are kept
    summary: str = ""  # one line beside the title
    side_by_side: bool = False  # its pictures, if there is room

    def iter_blocks(self) -> Iterator[str | Table | Picture | Code]:
        """Yield all blocks, also those of subsections and the tables of pictures."""
        for block in self.blocks:
            if isinstance(block, Section):
                yield from block.iter_blocks()
                continue
            yield block
            if isinstance(block, Picture) and block.table is not None:
                yield block.table


Block = str | Table | Picture | Code | Section


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str
    lead: tuple[str, ...]  # the answer, before everything else
    sections: tuple[Section, ...]
    panes: FirstScreen | None = None  # in place of the lead, where the format can draw
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Configuration and file of each model's label, for programs: with them, columns of CSV and
    JSON have plain names."""

    def tables(self) -> Iterator[Table]:
        """Return all tables, including those in folded sections and those for files only."""
        return (block for block in self._iter_blocks() if isinstance(block, Table))

    def pictures(self) -> Iterator[Picture]:
        """Return all pictures."""
        return (block for block in self._iter_blocks() if isinstance(block, Picture))

    def _iter_blocks(self) -> Iterator[str | Table | Picture | Code]:
        return Section(self.title, self.sections).iter_blocks()
