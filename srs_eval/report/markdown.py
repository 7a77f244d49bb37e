"""A document as Markdown, fit for a forum: sentences and tables, no pictures.

Of what a page folds there is what one would copy; of long tables, their brief rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from srs_eval.data.outputs import MADE_BY
from srs_eval.report.document import Block, Code, Document, Picture, Section, with_commands
from srs_eval.report.table import Cell, Column, Figure, Table, written

_WIDEST = 14  # columns of a table that stands for a picture


def markdown(document: Document) -> str:
    """Headings, paragraphs and pipe tables; the last line says what made it."""
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
