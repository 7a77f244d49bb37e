"""A document as Markdown, fit for a forum: sentences and tables, no pictures, nothing folded."""

from __future__ import annotations

import re

from srs_eval.report.document import (
    Cell,
    Column,
    Document,
    Figure,
    Picture,
    Section,
    Table,
    with_commands,
    written,
)

WIDEST = 14  # columns of a table that stands for a picture


def markdown(document: Document) -> str:
    """Headings, paragraphs and pipe tables."""
    parts = [f"# {_escaped(document.title)}", *map(_escaped, document.lead)]
    for section in document.sections:
        parts += _section(section, 2)
    return "\n\n".join(parts) + "\n"


def _section(section: Section, level: int) -> list[str]:
    if section.folded:
        return []
    parts: list[str] = []
    for block in section.blocks:
        match block:
            case str():
                parts.append(_escaped(block))
            case Table():
                if block.shown:
                    parts.append(_table(block))
            case Picture():
                if block.table is not None and len(block.table.columns) <= WIDEST:
                    parts.append(_table(block.table))
            case Section():
                parts += _section(block, level + 1)
    return [f"{'#' * level} {_escaped(section.title)}", *parts] if parts else []


def _table(table: Table) -> str:
    right = [
        all(not isinstance(row[k], str) for row in table.rows) for k in range(len(table.columns))
    ]
    lines = [
        f"| {' | '.join(_escaped(column.title) for column in table.columns)} |",
        f"| {' | '.join('---:' if each else '---' for each in right)} |",
    ]
    for row in table.rows:
        cells = (_cell(cell, column) for cell, column in zip(row, table.columns, strict=True))
        lines.append(f"| {' | '.join(cells)} |")
    title = f"**{_escaped(table.title)}**\n\n" if table.title else ""
    return title + "\n".join(lines)


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
