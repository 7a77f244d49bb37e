"""A document as one self-contained page: opens offline, asks nobody for anything.

Pictures are SVG, which the page's style inverts where the reader's system is dark. Tables sort by a
click on a heading; what does that is the only script.
"""

from __future__ import annotations

import math
from base64 import b64encode
from html import escape
from importlib import resources

from srs_eval.data.paths import GENERATOR, MADE_BY
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

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_DENSE = 900  # points from which a picture is read at its full width only
_LONG = 60  # characters from which a cell is wrapped


def page(document: Document) -> str:
    """The whole page as text."""
    numbered = [(f"s{number}", section) for number, section in enumerate(document.sections, 1)]
    links = "".join(
        f'<li><a href="#{place}">{escape(section.title)}</a></li>' for place, section in numbered
    )
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        GENERATOR,
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(document.title)}</title>",
        '<link rel="icon" href="data:,">',
        f"<style>\n{_beside('page.css')}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{escape(document.title)}</h1>",
        f'<div class="lead">{"".join(_paragraph(each) for each in document.lead)}</div>',
        f"<nav><ul>{links}</ul></nav>" if len(numbered) > 2 else "",
        *(_section(section, 2, place) for place, section in numbered),
        f"<footer>{MADE_BY}</footer>",
        "</main>",
        f"<script>\n{_beside('page.js')}</script>",
        "</body>",
        "</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _beside(name: str) -> str:
    """A text that stands beside this module."""
    return resources.files("srs_eval.report").joinpath(name).read_text(encoding="utf-8")


def _section(section: Section, level: int, place: str = "") -> str:
    blocks = "\n".join(_block(each, level) for each in section.blocks)
    title = escape(section.title)
    name = f' id="{place}"' if place else ""
    if section.folded:
        colon = "" if section.title.endswith("?") else ":"
        beside = f"<span>{colon} {_inline(section.said)}</span>" if section.said else ""
        return f"<details{name}><summary>{title}{beside}</summary>\n{blocks}\n</details>"
    said = f"{_paragraph(section.said)}\n" if section.said else ""
    tag = f"h{min(level, 4)}"
    if section.side_by_side:
        blocks = f'<div class="grid">\n{blocks}\n</div>'
    return f"<section{name}>\n<{tag}>{title}</{tag}>\n{said}{blocks}\n</section>"


def _block(block: Block, level: int) -> str:
    match block:
        case str():
            return _paragraph(block)
        case Table():
            return _table(block) if block.shown else ""
        case Picture():
            return _figure(block)
        case Code():
            return f"<pre>{escape(block.text)}</pre>"
        case Section():
            return _section(block, level + 1)


def _paragraph(text: str) -> str:
    return f"<p>{_inline(text)}</p>"


def _inline(text: str) -> str:
    return "".join(
        f"<code>{escape(part)}</code>" if code else escape(part)
        for part, code in with_commands(text)
    )


def _figure(picture: Picture) -> str:
    from srs_eval.report.pictures import svg

    content, width = svg(picture)
    least = width * (0.75 if width < _DENSE else 1)  # then it scrolls
    drawn = (
        f'<img alt="{escape(picture.title)}" '
        f'style="max-width:{width:.0f}px;min-width:{least:.0f}px" '
        f'src="data:image/svg+xml;base64,{b64encode(content).decode()}">'
    )
    table = ""
    if picture.table is not None:
        folded = "<details><summary>The same as a table</summary>"
        table = f"\n{folded}\n{_table(picture.table)}\n</details>"
    return (
        f"<figure><figcaption>{escape(picture.title)}</figcaption>"
        f'<div class="scroll">{drawn}</div>{table}</figure>'
    )


def _table(table: Table) -> str:
    right = table.right
    heads = "".join(
        f'<th scope="col"{_class(_kind(column, number))}{_title(column)}>'
        f"<button>{escape(column.title)}</button></th>"
        for column, number in zip(table.columns, right, strict=True)
    )
    rows = "\n".join(
        f"<tr{_class('own' if place == table.own else '')}>"
        + "".join(
            _cell(cell, column, number)
            for cell, column, number in zip(row, table.columns, right, strict=True)
        )
        + "</tr>"
        for place, row in enumerate(table.rows)
    )
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    return (
        f'<div class="scroll"><table>{caption}\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _cell(cell: Cell, column: Column, number: bool) -> str:
    text = escape(written(cell, column))
    value = ""
    match cell:
        case None:
            value = ' data-v=""'
        case int():
            value = f' data-v="{cell}"'
        case Figure():
            value = f' data-v="{"" if math.isnan(cell.value) else f"{cell.value:.10g}"}"'
            if cell.strong:
                text = f"<b>{text}</b>"
    kind = _kind(column, number, long=not number and len(text) > _LONG)
    return f"<td{_class(kind)}{value}>{text}</td>"


def _kind(column: Column, number: bool, long: bool = False) -> str:
    kinds = {"n": number, "long": long, "minor": column.minor}
    return " ".join(name for name, is_so in kinds.items() if is_so)


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _title(column: Column) -> str:
    return f' title="{escape(column.note)}"' if column.note else ""
