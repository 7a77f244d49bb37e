"""A document as files: a page, Markdown, JSON, its tables as CSV or LaTeX, its pictures.

A page is self-contained: it opens offline and asks nobody for anything. Its pictures are SVG, which
its style inverts where the reader's system is dark. Tables sort by a click on a heading; what does
that is the only script.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from importlib import resources
from itertools import groupby
from pathlib import Path
from string import Template

from srs_eval.advice.sentences import Bar, ByMonth, FirstScreen, Heading, Item, Line, Pane, Row
from srs_eval.data.errors import csv_text, harmless
from srs_eval.data.paths import GENERATOR, MADE_BY, write_file, write_folder
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
    is_strong,
    written,
)

_WIDEST = 14  # columns of a table that stands for a picture in Markdown
_DENSE = 900  # points from which a picture is read at its full width only
_LONG = 60  # characters from which a cell of a page is wrapped
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_LOWEST_MONTH = 50  # of 100: an empty column of a month
FOLDERS = ("csv", "tex", "png", "svg", "pdf")
"""Forms that are a folder of files; html, md and json are one file."""


def as_text(document: Document, form: str) -> str:
    """A document as a page ("html"), as Markdown ("md", "short") or as JSON ("json")."""
    if form == "json":
        from srs_eval.report.export import report_document, to_json

        return to_json(report_document(document))
    return harmless({"html": _page, "short": _in_brief, "md": _markdown}[form](document))


def write_as(document: Document, form: str, path: Path, inches: Sequence[float] = ()) -> list[Path]:
    """Write a document to a file or, in one of the FOLDERS, into a folder; what was written.

    `inches` are the width and perhaps the height of pictures.
    Raises InputError where a file is not srs-eval's own (`outputs`), or cannot be written.
    """
    if form == "csv":
        from srs_eval.report.export import plain_rows

        # One file for each table; figures have all their digits, none is an empty field.
        tables = {
            f"{each.name}.csv": csv_text(plain_rows(each, document.names)).encode()
            for each in document.tables()
        }
        return write_folder(path, tables)
    if form == "tex":
        # One file for each table that fits on a page.
        fitting = (each for each in document.tables() if _fits(each))
        return write_folder(path, {f"{each.name}.tex": _latex(each).encode() for each in fitting})
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


def _with_commands(text: str) -> Iterator[tuple[str, bool]]:
    """A sentence in parts, and which of them are commands of ours (between backticks).

    Other backticks are somebody's: names of decks and files may hold anything.
    """
    for place, part in enumerate(re.split(r"`(srs-eval [^`|]*)`", text)):
        if part:
            yield part, bool(place % 2)


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
            if is_strong(cell):
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
        for part, code in _with_commands(" ".join(text.split()))
    )


# --- a page


def _page(document: Document) -> str:
    """The whole page as text."""
    numbered = [(f"s{number}", section) for number, section in enumerate(document.sections, 1)]
    links = "".join(
        f'<li><a href="#{place}">{escape(section.title)}</a></li>' for place, section in numbered
    )
    lead = "".join(map(_paragraph, document.lead))
    body = [
        f'<div class="lead">{lead}</div>' if document.panes is None else _cards(document.panes),
        *([f"<nav><ul>{links}</ul></nav>"] if len(numbered) > 2 else []),
        *(_html(section, 1, place) for place, section in numbered),
    ]
    return Template(_beside("page.html")).substitute(
        generator=GENERATOR,
        policy=_POLICY,
        title=escape(document.title),
        style=_beside("page.css"),
        body="\n".join(body),
        made_by=MADE_BY,
        script=_beside("page.js"),
    )


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
        for part, code in _with_commands(text)
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
            if is_strong(cell):
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


# --- LaTeX, for \input: with booktabs, siunitx for figures, adjustbox for width

_SIGNS = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"−": "$-$", "±": r"$\pm$", "↓": r"$\downarrow$", "↑": r"$\uparrow$", "√": r"$\surd$"},
    **{"<": "$<$", ">": "$>$", "–": "--"},
}
_FIGURE = re.compile(r"([−+]?)(\d+)(?:\.(\d+))?(?:±([\d.]+))?")
_SETTINGS = "separate-uncertainty, table-align-uncertainty"
_BOLD = ", mode=text, detect-weight"  # what bold figures need


def _latex(table: Table) -> str:
    """A table that floats, with its caption; the best of a column is bold."""
    columns = [
        (k, each, _alignment(table, k)) for k, each in enumerate(table.columns) if each.in_papers
    ]
    heads = [f"{{{_in_latex(each.title)}}}" for _, each, _ in columns]
    rows = [[_latex_cell(row[k], each, kind) for k, each, kind in columns] for row in table.rows]
    settings = _SETTINGS + _BOLD * any(is_strong(cell) for row in table.rows for cell in row)
    lines = [
        r"% needs \usepackage{adjustbox,booktabs,siunitx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_in_latex(f'{table.title}. {table.caption}'.strip())}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\sisetup{{{settings}}}",
        r"\begin{adjustbox}{max width=\linewidth}",
        rf"\begin{{tabular}}{{{' '.join(kind for *_, kind in columns)}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        r"\midrule",
        *(f"{' & '.join(each)} \\\\" for each in rows),
        *(r"\bottomrule", r"\end{tabular}", r"\end{adjustbox}", r"\end{table}"),
    ]
    return "\n".join(lines) + "\n"


def _alignment(table: Table, place: int) -> str:
    """How a column is aligned: by the decimal points of its figures, where it has nothing else."""
    column = table.columns[place]
    if not table.right[place]:
        return "l"
    found = [_FIGURE.fullmatch(_bare(row[place], column)) for row in table.rows]
    known = [each for each in found if each]
    figures = (row[place] for row in table.rows)
    if not known or any(isinstance(each, Figure) and each.ends for each in figures):
        return "r"
    sign = "-" if any(each[1] for each in known) else ""
    whole, decimals = (max(len(each[k] or "") for each in known) for k in (2, 3))
    digits = max(len((each[4] or "").replace(".", "").lstrip("0")) for each in known)
    return f"S[table-format={sign}{whole}.{decimals}{f'({digits})' if digits else ''}]"


def _bare(cell: Cell, column: Column) -> str:
    return str(cell) if isinstance(cell, int) else written(cell, column)


def _latex_cell(cell: Cell, column: Column, kind: str) -> str:
    text = _bare(cell, column)
    if kind[0] != "S":
        return _in_latex(text)
    if not _FIGURE.fullmatch(text):
        return f"{{{_in_latex(text)}}}"
    bold = r"\bfseries " if is_strong(cell) else ""
    return bold + text.replace("−", "-").replace("±", r" \pm ")


def _in_latex(text: str) -> str:
    return "".join(_SIGNS.get(each, each) for each in text).replace(r" \%", r"~\%")
