"""A document as files: a page, Markdown, JSON, its tables as CSV or LaTeX, its pictures.

A page is self-contained: it opens offline and asks nobody for anything. Its pictures are SVG, which
its style inverts where the reader's system is dark. Tables sort by a click on a heading; what does
that is the only script.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from srs_eval.advice.sentences import Bar, ByMonth, FirstScreen, Heading, Item, Line, Pane, Row
from srs_eval.data.errors import csv_text, harmless
from srs_eval.data.paths import GENERATOR, MADE_BY, VERSION, write_file, write_folder
from srs_eval.report.document import (
    Block,
    Code,
    Column,
    Document,
    Figure,
    Picture,
    Section,
    Table,
    with_commands,
)

_WIDEST = 14  # columns of a table that stands for a picture in Markdown
_DENSE = 900  # points from which a picture is read at its full width only
_LONG = 60  # characters from which a cell of a page is wrapped
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_OF_MODELS = {
    "model": ("configuration", "file"),
    "other": ("other_configuration", "other_file"),
}
"""What stands beside columns of labels in files for programs."""
_LOWEST_MONTH = 50  # of 100: an empty column of a month
FOLDERS = ("csv", "tex", "png", "svg", "pdf")
"""Forms that are a folder of files; html, md and json are one file."""


def as_text(document: Document, form: str) -> str:
    """A document as a page ("html"), as Markdown ("md", "short") or as JSON ("json")."""
    if form == "html":
        return harmless(page(document))
    if form == "short":
        return harmless(_in_brief(document))
    if form == "md":
        return harmless(_markdown(document))
    from srs_eval.report.export import to_json

    return to_json(_as_json(document))


def write_as(document: Document, form: str, path: Path, inches: Sequence[float] = ()) -> list[Path]:
    """Write a document to a file or, in one of the FOLDERS, into a folder; what was written.

    `inches` are the width and perhaps the height of pictures.
    Raises InputError where a file is not srs-eval's own (`outputs`), or cannot be written.
    """
    if form == "csv":
        # One file for each table; figures have all their digits, none is an empty field.
        tables = {
            f"{each.name}.csv": csv_text(_plain(each, document.names)).encode()
            for each in document.tables()
        }
        return write_folder(path, tables)
    if form == "tex":
        from srs_eval.report.latex import latex

        # One file for each table that fits on a page.
        fitting = (each for each in document.tables() if _fits(each))
        return write_folder(path, {f"{each.name}.tex": latex(each).encode() for each in fitting})
    if form in FOLDERS:
        from srs_eval.report.pictures import drawn_as

        # One file for each picture, for a light background.
        made = {f"{each.name}.{form}": drawn_as(form, each, inches) for each in document.pictures()}
        return write_folder(path, made)
    write_file(path, as_text(document, form).encode("utf-8", "replace"))
    return [path]


def _fits(table: Table) -> bool:
    cells = (cell for row in table.rows for cell in row)
    words = max((len(cell) for cell in cells if isinstance(cell, str)), default=0)
    return table.shown and len(table.columns) <= _WIDEST and words <= _LONG


def _as_json(document: Document) -> dict[str, Any]:
    """Title, lead and every table: a list of objects by column; no figure is null."""
    tables = {}
    for table in document.tables():
        header, *rows = _plain(table, document.names)
        objects = [dict(zip(header, row, strict=True)) for row in rows]
        tables[table.name] = {"title": table.title, "rows": objects}
    about = {"title": document.title, "lead": list(document.lead), "tables": tables}
    return {"layout": 2 if document.names else 1, "srs_eval": VERSION, **about}


def _plain(table: Table, names: Mapping[str, tuple[str, str]]) -> list[tuple[Any, ...]]:
    """A header and the rows; a column with intervals is followed by half-widths or both ends.

    `names` are the document's: columns that begin with "model" and "other" have configurations
    beside them then.
    """
    columns: list[list[Any]] = []
    unique = len({configuration for configuration, _ in names.values()}) == len(names)

    def called(column: Column, more: str = "") -> str:
        if not names:
            return f"{column.title} {more}".rstrip()
        if column.title in names:
            said = [names[column.title][0] if unique else column.title]
        else:
            said = re.findall(r"\w+", (column.key or column.title).lower())
        return "_".join([*said, *re.findall(r"\w+", more)])

    for k, column in enumerate(table.columns):
        cells = [row[k] for row in table.rows]
        figures = [cell if isinstance(cell, Figure) else Figure(math.nan) for cell in cells]
        if names and column.title in _OF_MODELS:
            found = [names.get(str(cell), (None, None)) for cell in cells]
            of_model = enumerate(_OF_MODELS[column.title])
            columns += ([name, *(each[place] for each in found)] for place, name in of_model)
        values = (_digits(cell.value) if isinstance(cell, Figure) else cell for cell in cells)
        columns.append([called(column), *values])
        more: dict[str, list[float]] = {}
        if any(each.ends is not None for each in figures):
            ends = zip(*(each.ends or (math.nan, math.nan) for each in figures), strict=True)
            more = dict(zip(("low", "high"), map(list, ends), strict=True))
        elif not all(math.isnan(each.half_width) for each in figures):
            more = {"half-width": [each.half_width for each in figures]}
        columns += ([called(column, name), *map(_digits, more[name])] for name in more)
    return list(zip(*columns, strict=True))


def _digits(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.10g}")


# --- Markdown


def _markdown(document: Document) -> str:
    """A document as Markdown, fit for a forum: headings, sentences and pipe tables, no pictures.

    Of what a page folds there is what one would copy; of long tables, their brief rows. The last
    line says what made it.
    """
    parts = [f"# {_escaped(document.title)}"]
    parts += map(_escaped, document.lead) if document.panes is None else _panes(document.panes)
    for section in document.sections:
        parts += _section(section, 2)
    return "\n\n".join([*parts, MADE_BY]) + "\n"


def _in_brief(document: Document) -> str:
    """The answers in a line each, how sure the act is, and what to do with each preset."""
    said = []
    for pane in () if document.panes is None else document.panes.panes:
        sure = f" ({pane.short.right})" if pane.short.right else ""
        said.append(f"- {_headed(pane.title, f'{pane.short.text.strip()}{sure}')}")
        rows = [each.cells for each in pane.items if isinstance(each, Row)]
        said += [f"    - {_escaped(': '.join((cells[0], ', '.join(cells[1:]))))}" for cells in rows]
    listed = "\n".join(said)
    return f"**{_escaped(document.title)}**\n\n{listed}\n\n{MADE_BY}\n"


def _headed(title: str, said: str) -> str:
    colon = "" if title.endswith("?") else ":"
    return f"**{_escaped(title)}**{colon} {_escaped(said)}"


def _panes(screen: FirstScreen) -> Iterator[str]:
    """Each question with its answer; figures are tables."""
    for pane in screen.panes:
        yield f"## {_escaped(pane.title)}"
        for is_row, items in _runs(pane):
            if not is_row:
                yield from (_escaped(_sentence(each)) for each in items)
                continue
            rows = [_cells(each, noted=True) for each in items]
            head, *rest = rows if isinstance(items[0], Heading) else [[""] * len(rows[0]), *rows]
            lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rest]
            yield "\n".join(f"| {' | '.join(map(_escaped, cells))} |" for cells in lines)
    yield from (_escaped(each.text) for each in screen.below)


def _runs(pane: Pane) -> list[tuple[bool, list[Item]]]:
    """What it holds, what is a row of a table beside its like."""
    rows = groupby(pane.items, lambda each: isinstance(each, Heading | Bar | Row))
    return [(is_row, list(items)) for is_row, items in rows]


def _sentence(item: Item) -> str:
    if isinstance(item, ByMonth):
        return "By month: " + ", ".join(f"{name} {figure}" for name, figure in item.months)
    assert isinstance(item, Line)
    return " ".join(each for each in (item.mark, item.text.strip(), item.right) if each)


def _cells(item: Item, *, noted: bool = False) -> list[str]:
    if isinstance(item, Row):
        return list(item.cells)
    assert isinstance(item, Heading | Bar)
    note = item.note.strip("◀ ") if noted and isinstance(item, Bar) else ""
    return [f"{item.label} ({note})" if note else item.label, *item.figures]


def _section(section: Section, level: int) -> list[str]:
    if section.folded:
        said = [_headed(section.title, section.said)] if section.said else []
        return said + _to_copy(section)
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
    lines = [each.text for each in section.all_blocks() if isinstance(each, Code)]
    if not lines:
        return []
    summary = f"<details><summary>{_escaped(section.title)}</summary>"
    return [summary, *(f"```\n{each}\n```" for each in lines), "</details>"]


def _table(table: Table) -> list[str]:
    places = range(len(table.rows)) if table.brief is None else table.brief
    if not places and table.rows:
        return []
    rows = [
        [_escaped(column.title) for column in table.columns],
        ["---:" if each else "---" for each in table.right],
    ]
    texts = table.texts()
    for place in places:
        cells = list(map(_escaped, texts[place]))
        for k, cell in enumerate(table.rows[place]):
            if isinstance(cell, Figure) and cell.strong:
                cells[k] = f"**{cells[k]}**"
        if place == table.own:
            cells[0] = f"★ **{cells[0]}**"
        rows.append(cells)
    left_out = len(table.rows) - len(places)
    return [
        *([f"**{_escaped(table.title)}**"] if table.title else []),
        "\n".join(f"| {' | '.join(cells)} |" for cells in rows),
        *([f"{left_out} more rows are left out."] if left_out else []),
    ]


def _escaped(text: str) -> str:
    """Text that Markdown leaves as it is; names of decks and files may hold anything.

    A command of ours between backticks stays code.
    """
    return "".join(
        f"`{part}`" if code else re.sub(r"([\\`*_|<>\[\]])", r"\\\1", part)
        for part, code in with_commands(" ".join(text.split()))
    )


# --- a page


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
        f'<div class="lead">{"".join(map(_paragraph, document.lead))}</div>'
        if document.panes is None
        else _cards(document.panes),
        f"<nav><ul>{links}</ul></nav>" if len(numbered) > 2 else "",
        *(_html(section, 1, place) for place, section in numbered),
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


def _html(block: Block, level: int, place: str = "") -> str:
    """A block below a heading of some level; `place` is what links name."""
    match block:
        case str():
            return _paragraph(block)
        case Table():
            return _folded(block) if block.shown else ""
        case Picture():
            return _html_figure(block)
        case Code():
            return f"<pre>{escape(block.text)}</pre>"
    blocks = "\n".join(_html(each, level + 1) for each in block.blocks)
    title = escape(block.title)
    name = f' id="{place}"' if place else ""
    if block.folded:
        colon = "" if title.endswith("?") else ":"
        beside = f"<span>{colon} {_inline(block.said)}</span>" if block.said else ""
        return f"<details{name}><summary>{title}{beside}</summary>\n{blocks}\n</details>"
    said = f"{_paragraph(block.said)}\n" if block.said else ""
    tag = f"h{min(level + 1, 4)}"
    if block.side_by_side:
        blocks = f'<div class="grid">\n{blocks}\n</div>'
    return f"<section{name}>\n<{tag}>{title}</{tag}>\n{said}{blocks}\n</section>"


def _cards(screen: FirstScreen) -> str:
    """The panes, each a card with its bars."""
    cards = [
        f'<section class="card"><h2>{escape(pane.title)}</h2>\n'
        + "\n".join(
            f"<table>{''.join(map(_html_row, items))}</table>"
            if is_row
            else "".join(map(_html_item, items))
            for is_row, items in _runs(pane)
        )
        + "</section>"
        for pane in screen.panes
    ]
    below = "".join(f'<p class="soft">{escape(each.text)}</p>' for each in screen.below)
    return f'<div class="cards">\n{"".join(cards)}\n</div>\n{below}'


def _html_item(item: Item) -> str:
    if isinstance(item, ByMonth):
        bars = (
            f'<li><i style="height:{max(figure - _LOWEST_MONTH, 1) / 50:.2f}rem"></i>'
            f"<span>{figure}</span>{escape(name)}</li>"
            for name, figure in item.months
        )
        return f'<ol class="months">{"".join(bars)}</ol>'
    assert isinstance(item, Line)
    right = f" <span>{escape(item.right)}</span>" if item.right else ""
    mark = f"<b>{escape(item.mark)}</b> " if item.mark else ""
    text = f"{mark}{escape(item.text.strip())}{right}"
    return f"<p{_given('class', item.level.replace(' ', '-'))}>{text}</p>"


def _html_row(item: Item) -> str:
    """A row of figures; a bar is drawn in its last cell: full, range and mark."""
    tag = "th" if isinstance(item, Heading) else "td"
    first, *others = map(escape, _cells(item))
    cells = f"<{tag}>{first}</{tag}>"
    cells += "".join(f'<{tag} class="n">{each}</{tag}>' for each in others)
    if isinstance(item, Bar):
        at = "" if item.tick is None else f"--at:{item.tick:.1%};"
        style = f"{at}--full:{item.share:.1%};--until:{max(item.until, item.share):.1%}"
        cells += f'<td class="bar"><i style="{style}"></i>{escape(item.note)}</td>'
    level = item.level if isinstance(item, Bar | Row) else ""
    return f"<tr{_given('class', level.replace(' ', '-'))}>{cells}</tr>"


def _paragraph(text: str) -> str:
    return f"<p>{_inline(text)}</p>"


def _inline(text: str) -> str:
    return "".join(
        f"<code>{escape(part)}</code>" if code else escape(part)
        for part, code in with_commands(text)
    )


def _html_figure(picture: Picture) -> str:
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
        table = f"\n{folded}\n{_html_table(picture.table)}\n</details>"
    return (
        f"<figure><figcaption>{escape(picture.title)}</figcaption>"
        f'<div class="scroll">{drawn}</div>{table}</figure>'
    )


def _folded(table: Table) -> str:
    """A table; of a long one what is enough, all of it below."""
    if not table.brief or len(table.brief) == len(table.rows):
        return _html_table(table)
    whole = _html_table(replace(table, title=""))
    some = _html_table(table.in_brief)
    more = f"All {len(table.rows)} rows"
    return f"{some}\n<details><summary>{more}</summary>\n{whole}\n</details>"


def _html_table(table: Table) -> str:
    columns = list(zip(table.columns, table.right, strict=True))
    heads = "".join(
        f'<th scope="col"{_kind(column, right)}{_given("title", column.note)}>'
        f"<button>{escape(column.title)}</button></th>"
        for column, right in columns
    )
    rows = ""
    for place, (row, texts) in enumerate(zip(table.rows, table.texts(), strict=True)):
        rows += f"<tr{_given('class', 'own' if place == table.own else '')}>"
        for cell, text, (column, right) in zip(row, texts, columns, strict=True):
            value, shown = "", escape(text)
            if not isinstance(cell, str):
                number = cell.value if isinstance(cell, Figure) else cell
                known = number is not None and not math.isnan(number)
                value = f' data-v="{number:.10g}"' if known else ' data-v=""'
            if isinstance(cell, Figure) and cell.strong:
                shown = f"<b>{shown}</b>"
            rows += f"<td{_kind(column, right, text)}{value}>{shown}</td>"
        rows += "</tr>\n"
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    return (
        f'<div class="scroll"><table>{caption}\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div>"
    )


def _kind(column: Column, right: bool, text: str = "") -> str:
    kinds = {"n": right, "long": not right and len(text) > _LONG, "minor": column.minor}
    return _given("class", " ".join(name for name, is_so in kinds.items() if is_so))


def _given(attribute: str, value: str) -> str:
    return f' {attribute}="{escape(value)}"' if value else ""
