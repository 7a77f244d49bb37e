"""A document as files: a page, Markdown, JSON, CSV for its tables, PNG for its pictures."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from srs_eval.data.errors import csv_text, harmless
from srs_eval.data.paths import MADE_BY, VERSION, write_file, write_folder
from srs_eval.report.document import (
    Block,
    Cell,
    Code,
    Column,
    Document,
    Figure,
    Picture,
    Section,
    Table,
    with_commands,
    written,
)

_WIDEST = 14  # columns of a table that stands for a picture
FOLDERS = ("csv", "png")  # forms that are a folder of files; html, md and json are one file


def as_text(document: Document, form: str) -> str:
    """A document as a page ("html"), as Markdown ("md") or as JSON ("json")."""
    if form == "html":
        from srs_eval.report.page import page

        return harmless(page(document))
    if form == "md":
        return harmless(_markdown(document))
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
    tables = {}
    for table in document.tables():
        header, *rows = _plain(table)
        objects = [dict(zip(header, row, strict=True)) for row in rows]
        tables[table.name] = {"title": table.title, "rows": objects}
    about = {"title": document.title, "lead": list(document.lead), "tables": tables}
    return {"layout": 1, "srs_eval": VERSION, **about}


def _as_csv(table: Table) -> str:
    return csv_text(_plain(table))


def _plain(table: Table) -> list[tuple[Any, ...]]:
    """A header and the rows; a column with intervals is followed by half-widths or both ends."""
    columns: list[list[Any]] = []
    for k, column in enumerate(table.columns):
        cells = [row[k] for row in table.rows]
        figures = [cell if isinstance(cell, Figure) else Figure(math.nan) for cell in cells]
        values = (_digits(cell.value) if isinstance(cell, Figure) else cell for cell in cells)
        columns.append([column.title, *values])
        more: dict[str, list[float]] = {}
        if any(each.ends is not None for each in figures):
            ends = [each.ends or (math.nan, math.nan) for each in figures]
            more = {"low": [low for low, _ in ends], "high": [high for _, high in ends]}
        elif not all(math.isnan(each.half_width) for each in figures):
            more = {"half-width": [each.half_width for each in figures]}
        columns += ([f"{column.title} {name}", *map(_digits, more[name])] for name in more)
    return list(zip(*columns, strict=True))


def _digits(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.10g}")


# --- Markdown


def _markdown(document: Document) -> str:
    """A document as Markdown, fit for a forum: headings, sentences and pipe tables, no pictures.

    Of what a page folds there is what one would copy; of long tables, their brief rows. The last
    line says what made it.
    """
    parts = [f"# {_escaped(document.title)}", *map(_escaped, document.lead)]
    for section in document.sections:
        parts += _section(section, 2)
    return "\n\n".join([*parts, MADE_BY]) + "\n"


def _section(section: Section, level: int) -> list[str]:
    if section.folded:
        colon = "" if section.title.endswith("?") else ":"
        said = f"**{_escaped(section.title)}**{colon} {_escaped(section.said)}"
        return ([said] if section.said else []) + _to_copy(section)
    # What is said of pictures is of no use without them.
    parts = [_escaped(section.said)] if section.said and not section.side_by_side else []
    for block in section.blocks:
        match block:
            case str():
                parts.append(_escaped(block))
            case Table():
                parts += _table(block) if block.shown else []
            case Picture():
                if block.table is not None and len(block.table.columns) <= _WIDEST:
                    parts += _table(block.table)
            case Code():
                parts.append(f"```\n{block.text}\n```")
            case Section():
                parts += _section(block, level + 1)
    return [f"{'#' * level} {_escaped(section.title)}", *parts] if parts else []


def _to_copy(section: Section) -> list[str]:
    """The lines to copy of a folded section, folded where a forum can."""
    lines = _codes(section.blocks)
    if not lines:
        return []
    summary = f"<details><summary>{_escaped(section.title)}</summary>"
    return [summary, *(f"```\n{each}\n```" for each in lines), "</details>"]


def _codes(blocks: Sequence[Block]) -> list[str]:
    found = []
    for block in blocks:
        if isinstance(block, Code):
            found.append(block.text)
        elif isinstance(block, Section):
            found += _codes(block.blocks)
    return found


def _table(table: Table) -> list[str]:
    places = range(len(table.rows)) if table.brief is None else table.brief
    if not places and table.rows:
        return []
    lines = [
        f"| {' | '.join(_escaped(column.title) for column in table.columns)} |",
        f"| {' | '.join('---:' if each else '---' for each in table.right)} |",
    ]
    for place in places:
        cells = [
            _cell(cell, column)
            for cell, column in zip(table.rows[place], table.columns, strict=True)
        ]
        if place == table.own:
            cells[0] = f"★ **{cells[0]}**"
        lines.append(f"| {' | '.join(cells)} |")
    left_out = len(table.rows) - len(places)
    return [
        *([f"**{_escaped(table.title)}**"] if table.title else []),
        "\n".join(lines),
        *([f"{left_out} more rows are left out."] if left_out else []),
    ]


def _cell(cell: Cell, column: Column) -> str:
    text = _escaped(written(cell, column))
    return f"**{text}**" if isinstance(cell, Figure) and cell.strong else text


def _escaped(text: str) -> str:
    """Text that Markdown leaves as it is; names of decks and files may hold anything.

    A command of ours between backticks stays code.
    """
    return "".join(
        f"`{part}`" if code else re.sub(r"([\\`*_|<>\[\]])", r"\\\1", part)
        for part, code in with_commands(" ".join(text.split()))
    )
