"""A document's tables as CSV files and its pictures as PNG files."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from srs_eval.report.document import Cell, Document, Figure, Table
from srs_eval.store import write_atomically


def write_csv(document: Document, folder: Path) -> list[Path]:
    """One file for each table; figures have all their digits, none is an empty field."""
    written = []
    for table in document.tables():
        path = folder / f"{table.name}.csv"
        write_atomically(path, as_csv(table).encode())
        written.append(path)
    return written


def as_csv(table: Table) -> str:
    """A header and the rows; a column with intervals is followed by one of half-widths."""
    wide = [
        any(isinstance(row[k], Figure) and not math.isnan(row[k].half_width) for row in table.rows)  # type: ignore[union-attr]
        for k in range(len(table.columns))
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    header: list[str] = []
    for column, has_interval in zip(table.columns, wide, strict=True):
        header += [column.title, f"{column.title} half-width"] if has_interval else [column.title]
    writer.writerow(header)
    for row in table.rows:
        cells: list[str | int | float] = []
        for cell, has_interval in zip(row, wide, strict=True):
            cells.append(_value(cell))
            if has_interval:
                half_width = cell.half_width if isinstance(cell, Figure) else math.nan
                cells.append("" if math.isnan(half_width) else _digits(half_width))
        writer.writerow(cells)
    return text.getvalue()


def write_png(document: Document, folder: Path) -> list[Path]:
    """One file for each picture, for a light background."""
    from srs_eval.report.pictures import png

    written = []
    for picture in document.pictures():
        path = folder / f"{picture.name}.png"
        write_atomically(path, png(picture))
        written.append(path)
    return written


def _value(cell: Cell) -> str | int | float:
    if cell is None:
        return ""
    if isinstance(cell, Figure):
        return "" if math.isnan(cell.value) else _digits(cell.value)
    return cell


def _digits(value: float) -> float:
    return float(f"{value:.10g}")
