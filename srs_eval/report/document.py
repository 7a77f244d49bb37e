"""What a report consists of: sections of sentences, tables and pictures, without a layout.

Its renderers are `console` and `files` (page, Markdown, CSV, JSON). Cells hold figures, not
text, so that a page can sort them and CSV has every digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from srs_eval.report.formats import half, with_sign

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from srs_eval.advice.sentences import FirstScreen
    from srs_eval.stats.intervals import Interval
    from srs_eval.stats.users import MeanInterval

_FEWEST_DECIMALS = 3  # of a figure with its interval
_MOST_DIGITS = 7  # of an end of an interval that lies near 0


@dataclass(frozen=True)
class Figure:
    """A number of a table, perhaps with its interval: half the width, or both ends."""

    value: float  # nan: there is none
    half_width: float = math.nan
    strong: bool = False  # the best of its column
    ends: tuple[float, float] | None = None  # of an interval that need not be symmetric


Cell = str | int | Figure | None


def is_strong(cell: Cell) -> bool:
    """Whether it is the best of its column."""
    return isinstance(cell, Figure) and cell.strong


def figure(value: float | Interval | MeanInterval | None, strong: bool = False) -> Figure | None:
    """The cell of a number or of an interval; None where there is none."""
    if value is None:
        return None
    if isinstance(value, (int, float)):
        return Figure(value, strong=strong)
    return Figure(value.estimate, value.half_width, strong)


def with_ends(interval: MeanInterval | None) -> Figure | None:
    """The cell of an interval by its ends: whether 0 lies between is what a verdict rests on."""
    if interval is None:
        return None
    return Figure(interval.estimate, ends=(interval.low, interval.high))


@dataclass(frozen=True)
class Column:
    """How a column is headed and how its figures are written."""

    title: str
    digits: int = 4
    by_half_width: bool = True  # figures with an interval are rounded by its width (`rounded`)
    signed: bool = False
    percent: bool = False  # figures are shares
    in_words: Callable[[Figure], str] | None = None
    """How a figure is told where it has no sign of its own: "0.0021 worse ±.0012"."""
    decimals: int = 0  # of a figure and its interval, whatever its width; 0: as that says
    key: str = ""  # what it is called in files for programs, where that is not the title
    note: str = ""  # what it means, in a few words
    minor: bool = False  # left out where a page is as narrow as a phone
    in_papers: bool = True  # else LaTeX leaves it out
    from_width: int = 0  # of a terminal that shows it
    gives: Literal["", "fold", "cut"] = ""  # what is done with its words in a narrow terminal


@dataclass(frozen=True)
class Table:
    """Rows of cells, one for each column."""

    name: str  # of its CSV file, without the ending
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""  # what a paper says below its title
    shown: bool = True  # else it is a CSV file only
    own: int | None = None  # the row that is the reader's own
    brief: tuple[int, ...] | None = None  # rows that are enough for a forum; None: all of them
    faint: tuple[int, ...] = ()  # rows that step back, such as the baseline

    @classmethod
    def of(
        cls, name: str, title: str, heads: Iterable[Any], rows: Iterable[Iterable[Any]], **more: Any
    ) -> Table:
        """Rows of cells below headings (words or Columns); `more` are the other fields."""
        columns = (each if isinstance(each, Column) else Column(each) for each in heads)
        return cls(name, title, tuple(columns), tuple(map(tuple, rows)), **more)

    @property
    def right(self) -> list[bool]:
        """Which columns hold numbers, and stand to the right."""
        return [
            bool(self.rows) and all(not isinstance(row[k], str) for row in self.rows)
            for k in range(len(self.columns))
        ]

    @property
    def in_brief(self) -> Table:
        """Its brief rows only."""
        kept = range(len(self.rows)) if self.brief is None else self.brief
        own = None if self.own is None else kept.index(self.own)
        faint = tuple(place for place, k in enumerate(kept) if k in self.faint)
        return replace(
            self, rows=tuple(self.rows[k] for k in kept), own=own, faint=faint, brief=None
        )

    def texts(self) -> list[list[str]]:
        """The rows as people read them."""
        return [list(map(written, row, self.columns)) for row in self.rows]


def written(cell: Cell, column: Column) -> str:
    """A cell as people read it: "0.325±0.0081", "−0.004 [−0.012, −0.001]", "–" for nothing."""
    match cell:
        case None:
            return "–"
        case str():
            return cell
        case int():
            return f"{cell:,}"
    if math.isnan(cell.value):
        return "–"
    if column.in_words is not None:
        return column.in_words(cell)
    scale, unit = (100, " %") if column.percent else (1, "")
    value, width = scale * cell.value, scale * cell.half_width
    if cell.ends is not None and all(map(math.isfinite, cell.ends)):
        low, high = (scale * end for end in cell.ends)
        shown = column.decimals or _decimals((high - low) / 2)
        digits = shown if column.by_half_width else column.digits
        while digits < _MOST_DIGITS and any(end and not round(end, digits) for end in (low, high)):
            digits += 1  # on which side of 0 an end lies is what a verdict rests on
        middle, low_end, high_end = (
            with_sign(f"{each:.{digits}f}", column.signed) for each in (value, low, high)
        )
        return f"{middle} [{low_end}, {high_end}]{unit}"
    text, around = f"{value:.{column.digits}f}", half(width, column.digits)
    if column.by_half_width and not math.isnan(width):
        text, around = _rounded(value, width, column.decimals)
        around = f"±{around}"
    return f"{with_sign(text, column.signed)}{around}{unit}"


def _rounded(value: float, half_width: float, decimals: int = 0) -> tuple[str, str]:
    """A mean and its half-width with as many decimals, as in srs-benchmark's tables since 2026."""
    decimals = decimals or _decimals(half_width)
    return f"{value:.{decimals}f}", f"{half_width:.{decimals}f}" if half_width else "0"


def _decimals(half_width: float) -> int:
    """Decimals with which a half-width has two significant digits, and three at least."""
    if half_width == 0:
        return 4
    decimals = 1 - math.floor(math.log10(half_width))
    if round(half_width, decimals) >= 10 ** (2 - decimals):
        decimals -= 1
    return max(decimals, _FEWEST_DECIMALS)


# --- sections


@dataclass(frozen=True)
class Code:
    """A line to copy as it is."""

    text: str


@dataclass(frozen=True, eq=False)
class Picture:
    """A chart. Its table stands folded below it on a page, and in its place elsewhere."""

    name: str  # of its file, without the ending
    title: str
    draw: Callable[[], Drawing]
    table: Table | None = None  # None where a table beside it shows the same


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False  # opened by a click on a page; elsewhere only lines to copy are kept
    said: str = ""  # what it says in one line, beside the title
    side_by_side: bool = False  # its pictures, where there is room

    def all_blocks(self) -> Iterator[str | Table | Picture | Code]:
        """What it holds, of sections in it and tables of pictures too."""
        for each in self.blocks:
            if isinstance(each, Section):
                yield from each.all_blocks()
                continue
            yield each
            if isinstance(each, Picture) and each.table is not None:
                yield each.table


Block = str | Table | Picture | Code | Section


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str
    lead: tuple[str, ...]  # the answer, before everything else
    sections: tuple[Section, ...]
    panes: FirstScreen | None = None  # in the place of the lead, where one can draw
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Configuration and file of each label of models, for programs: with them, columns of CSV and
    JSON have plain names."""

    def tables(self) -> Iterator[Table]:
        """All tables, folded and unshown ones too."""
        return (each for each in self._blocks() if isinstance(each, Table))

    def pictures(self) -> Iterator[Picture]:
        """All pictures."""
        return (each for each in self._blocks() if isinstance(each, Picture))

    def _blocks(self) -> Iterator[str | Table | Picture | Code]:
        return Section(self.title, self.sections).all_blocks()
