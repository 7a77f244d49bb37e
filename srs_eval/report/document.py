"""What a report consists of: sections of sentences, tables and pictures, without a layout.

Tables hold figures, not text, so that a page can sort them and CSV has every digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from srs_eval.report.pictures import Palette


@dataclass(frozen=True)
class Figure:
    """A number of a table, perhaps with half the width of its interval."""

    value: float  # nan: there is none
    half_width: float = math.nan
    strong: bool = False  # the best of its column


Cell = str | int | Figure | None


@dataclass(frozen=True)
class Column:
    """How a column is headed and how its figures are written."""

    title: str
    digits: int = 4
    by_half_width: bool = True  # figures that have one are rounded by it (`rounded`)
    signed: bool = False
    percent: bool = False  # figures are shares
    note: str = ""  # what it means, in a few words


@dataclass(frozen=True)
class Table:
    """Rows of cells, one for each column."""

    name: str  # of its CSV file, without the ending
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    shown: bool = True  # else it is a CSV file only


@dataclass(frozen=True, eq=False)
class Picture:
    """A chart. Its table stands folded below it on a page, and in its place elsewhere."""

    name: str  # of its file, without the ending
    title: str
    told: str  # the same in words, for who does not see it
    draw: Callable[[Palette], Drawing]
    table: Table | None  # None where a table beside it shows the same


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[str | Table | Picture | Section, ...]
    folded: bool = False  # opened by a click on a page, left out elsewhere


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str
    lead: tuple[str, ...]  # the answer, before everything else
    sections: tuple[Section, ...]

    def tables(self) -> Iterator[Table]:
        """All tables, folded and unshown ones too."""
        return (each for each in _all_blocks(self.sections) if isinstance(each, Table))

    def pictures(self) -> Iterator[Picture]:
        """All pictures."""
        return (each for each in _all_blocks(self.sections) if isinstance(each, Picture))


def _all_blocks(
    sections: tuple[str | Table | Picture | Section, ...],
) -> Iterator[str | Table | Picture]:
    for each in sections:
        if isinstance(each, Section):
            yield from _all_blocks(each.blocks)
            continue
        yield each
        if isinstance(each, Picture) and each.table is not None:
            yield each.table


def written(cell: Cell, column: Column) -> str:
    """A cell as people read it: "0.325±0.0081", "−12.1 %", "–" for what there is not."""
    match cell:
        case None:
            return "–"
        case str():
            return cell
        case int():
            return f"{cell:,}"
    if math.isnan(cell.value):
        return "–"
    scale, unit = (100, " %") if column.percent else (1, "")
    if math.isnan(cell.half_width):
        text = f"{scale * cell.value:.{column.digits}f}"
        half = ""
    elif column.by_half_width:
        text, half = rounded(scale * cell.value, scale * cell.half_width)
        half = f"±{half}"
    else:
        text = f"{scale * cell.value:.{column.digits}f}"
        half = f" ±{scale * cell.half_width:.{column.digits}f}"
    negative = text.startswith("-") and float(text) != 0
    sign = "−" if negative else "+" if column.signed and float(text) != 0 else ""
    return f"{sign}{text.removeprefix('-')}{half}{unit}"


def rounded(value: float, half_width: float) -> tuple[str, str]:
    """A mean and its half-width with the digits of srs-benchmark's tables (evaluate.py).

    The half-width has two significant digits, the mean one decimal fewer than it. Where rounding
    carries the half-width into the next power of ten, both lose one more decimal.
    """
    if half_width == 0:
        return f"{value:.4f}", "0"
    decimals = 1 - math.floor(math.log10(half_width))
    if round(half_width, decimals) >= 10 ** (2 - decimals):
        decimals -= 1
    return f"{value:.{max(decimals - 1, 0)}f}", f"{half_width:.{max(decimals, 0)}f}"
