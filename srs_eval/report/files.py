"""A document as files: a page, Markdown, JSON, CSV for its tables, PNG for its pictures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from srs_eval.data.outputs import write_file, write_folder
from srs_eval.data.paths import VERSION
from srs_eval.data.printable import csv_text, harmless
from srs_eval.report.document import Document
from srs_eval.report.table import Cell, Figure, Table

FOLDERS = ("csv", "png")  # forms that are a folder of files; html, md and json are one file


def as_text(document: Document, form: str) -> str:
    """A document as a page ("html"), as Markdown ("md") or as JSON ("json")."""
    if form == "html":
        from srs_eval.report.page import page

        return harmless(page(document))
    if form == "md":
        from srs_eval.report.markdown import markdown

        return harmless(markdown(document))
    from srs_eval.report.export import to_json

    return to_json(_as_json(document))


def write_as(document: Document, form: str, path: Path) -> list[Path]:
    """Write a document to a file or, in one of the FOLDERS, into a folder; what was written.

    Raises InputError where a file is not srs-eval's own (`outputs`), or cannot be written.
    """
    if form == "csv":
        # One file for each table; figures have all their digits, none is an empty field.
        tables = {f"{each.name}.csv": _as_csv(each).encode() for each in document.tables()}
        return write_folder(path, tables)
    if form == "png":
        from srs_eval.report.pictures import png

        # One file for each picture, for a light background.
        return write_folder(path, {f"{each.name}.png": png(each) for each in document.pictures()})
    write_file(path, as_text(document, form).encode("utf-8", "replace"))
    return [path]


def _as_json(document: Document) -> dict[str, Any]:
    """Title, lead and every table: a list of objects by column; no figure is null."""
    return {
        "layout": 1,
        "srs_eval": VERSION,
        "title": document.title,
        "lead": list(document.lead),
        "tables": {
            table.name: {
                "title": table.title,
                "rows": [
                    dict(zip(_header(table), _values(table, row), strict=True))
                    for row in table.rows
                ],
            }
            for table in document.tables()
        },
    }


def _as_csv(table: Table) -> str:
    """A header and the rows; a column with intervals is followed by half-widths or both ends."""
    return csv_text([_header(table), *(_values(table, row) for row in table.rows)])


def _header(table: Table) -> list[str]:
    header: list[str] = []
    for column, more in zip(table.columns, _intervals(table), strict=True):
        header += [column.title, *(f"{column.title} {each}" for each in more)]
    return header


def _intervals(table: Table) -> list[tuple[str, ...]]:
    """What each column has besides its figures."""
    return [
        ("low", "high")
        if any(isinstance(cell, Figure) and cell.ends is not None for cell in column)
        else ("half-width",)
        if any(isinstance(cell, Figure) and not math.isnan(cell.half_width) for cell in column)
        else ()
        for column in ([row[k] for row in table.rows] for k in range(len(table.columns)))
    ]


def _values(table: Table, row: tuple[Cell, ...]) -> list[str | int | float | None]:
    values: list[str | int | float | None] = []
    for cell, more in zip(row, _intervals(table), strict=True):
        values.append(_digits(cell.value) if isinstance(cell, Figure) else cell)
        if not more:
            continue
        if not isinstance(cell, Figure):
            values += [None] * len(more)
        elif len(more) == 2:
            values += map(_digits, cell.ends or (math.nan, math.nan))
        else:
            values.append(_digits(cell.half_width))
    return values


def _digits(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.10g}")
