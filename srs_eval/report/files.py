"""Write a document as files: a page, Markdown, JSON, its tables as CSV or LaTeX, its pictures.

A page is self-contained: it opens offline and requests nothing. Its pictures are SVG, which its
style inverts if the reader's system is dark. A click on a heading sorts a table; the code for that
is the only script.
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

from srs_eval.advice.sentences import (
    Bar,
    CostCurve,
    FirstScreen,
    Heading,
    MonthBars,
    Pane,
    PaneItem,
    PaneLine,
    PresetRow,
)
from srs_eval.data.errors import format_csv, sanitize
from srs_eval.data.outputs import HTML_GENERATOR, MARKDOWN_SIGNATURE, write_file, write_folder
from srs_eval.report.cells import format_cell, format_rows
from srs_eval.report.document import Block, Code, Document, Picture, Section
from srs_eval.stats.tables import Cell, Column, Figure, Table, is_best

_MAX_COLUMNS = 14  # most columns of a table in LaTeX, or in place of a picture in Markdown
_FULL_WIDTH_POINTS = 900  # points from which a picture is readable at its full width only
_WRAP_LENGTH = 60  # characters above which a page wraps a cell, and LaTeX has no room for it
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)
_MONTH_FLOOR_PERCENT = 50  # per cent at which a month's column is empty
_MONTH_HEIGHT_REM = 3.0  # height of the bar of a month in which all was remembered
FOLDER_FORMS = ("csv", "tex", "png", "svg", "pdf")
"""Forms that are written as a folder of files; html, md and json are one file."""


def render_as(document: Document, form: str) -> str:
    """Return a document as a page ("html"), as Markdown ("md", "short") or as JSON ("json")."""
    if form == "json":
        from srs_eval.report.export import build_report_document, to_json

        return to_json(build_report_document(document))
    renderers = {"html": _render_page, "short": _render_brief_markdown, "md": _render_markdown}
    return sanitize(renderers[form](document))


def write_document(
    document: Document, form: str, path: Path, inches: Sequence[float] = ()
) -> list[Path]:
    """Write a document to a file or, in FOLDER_FORMS, into a folder; return what was written.

    `inches` are the width and optionally the height of pictures.
    Raises InputError if a file is not srs-eval's own (`data.outputs`) or cannot be written.
    """
    if form == "csv":
        from srs_eval.report.export import flatten_table

        # One file for each table; figures have all their digits, missing ones are empty fields.
        tables = {
            f"{table.name}.csv": format_csv(flatten_table(table, document.names)).encode()
            for table in document.tables()
        }
        return write_folder(path, tables)
    if form == "tex":
        # One file for each table that fits on a page.
        tables = {
            f"{table.name}.tex": _render_latex(table).encode()
            for table in document.tables()
            if _fits_on_page(table)
        }
        return write_folder(path, tables)
    if form in FOLDER_FORMS:
        from srs_eval.report.pictures import render_picture

        # One file for each picture, for a light background.
        pictures = {
            f"{picture.name}.{form}": render_picture(form, picture, inches)
            for picture in document.pictures()
        }
        return write_folder(path, pictures)
    write_file(path, render_as(document, form).encode("utf-8", "replace"))
    return [path]


def _fits_on_page(table: Table) -> bool:
    """Return whether a table is shown and a printed page has room for it."""
    lengths = [len(cell) for row in table.rows for cell in row if isinstance(cell, str)]
    longest = max(lengths, default=0)
    return table.is_shown and len(table.columns) <= _MAX_COLUMNS and longest <= _WRAP_LENGTH


# --- Markdown


def _render_markdown(document: Document) -> str:
    """Render a document as Markdown for a forum: headings, sentences and tables, no pictures.

    Of sections that a page folds, only the summary and lines to copy are kept; of long tables, the
    brief rows. Tables are pipe tables. The last line says which program made the document.
    """
    blocks = [f"# {_escape_markdown(document.title)}"]
    if document.panes is None:
        blocks += map(_escape_markdown, document.lead)
    else:
        blocks += _render_panes(document.panes)
    for section in document.sections:
        blocks += _render_section(section, 2)
    blocks.append(MARKDOWN_SIGNATURE)
    return "\n\n".join(blocks) + "\n"


def _render_brief_markdown(document: Document) -> str:
    """Render a line for each answer, with its certainty, and what to do with each preset."""
    lines = []
    for title, pane in () if document.panes is None else document.panes.titled_panes:
        answers = " ".join(map(_format_answer, pane.answers))
        lines.append(f"- {_format_heading(title, answers)}")
        for item in pane.items:
            if isinstance(item, PresetRow):
                preset, *cells = item.cells
                action = ", ".join(cells)
                lines.append(f"    - {_escape_markdown(f'{preset}: {action}')}")
    answers = "\n".join(lines)
    title = " · ".join([f"**{_escape_markdown(document.title)}**", *document.facts])
    return f"{title}\n\n{answers}\n\n{MARKDOWN_SIGNATURE}\n"


def _format_answer(line: PaneLine) -> str:
    """Format a line with what stands at its right end: "Turn FSRS on. (sure ●●●●●)"."""
    answer = line.text.strip()
    right_text = ", ".join(filter(None, line.right_text.split("  ")))
    return f"{answer} ({right_text})" if right_text else answer


def _format_heading(title: str, text: str) -> str:
    colon = "" if title.endswith("?") else ":"
    return f"**{_escape_markdown(title)}**{colon} {_escape_markdown(text)}"


def _render_panes(screen: FirstScreen) -> Iterator[str]:
    """Yield each question with its answer; figures are tables."""
    for title, pane in screen.titled_panes:
        yield f"## {_escape_markdown(title)}"
        for is_row, items in _group_rows(pane):
            if not is_row:
                for item in items:
                    yield _escape_markdown(_format_sentence(item))
                continue
            rows = [_item_cells(item, with_notes=True) for item in items]
            column_count = len(rows[0])
            if isinstance(items[0], Heading):
                head, *rows = rows
            else:
                head = [""] * column_count
            alignment = ["---"] + ["---:"] * (column_count - 1)
            lines = []
            for cells in (head, alignment, *rows):
                lines.append(f"| {' | '.join(map(_escape_markdown, cells))} |")
            yield "\n".join(lines)
    for note in screen.footer:
        yield _escape_markdown(note.text)


def _group_rows(pane: Pane) -> list[tuple[bool, list[PaneItem]]]:
    """Group the items of a pane into runs of table rows and of other items."""
    items = [item for item in pane.items if not isinstance(item, CostCurve)]
    groups = groupby(items, lambda item: isinstance(item, Heading | Bar | PresetRow))
    return [(is_row, list(items)) for is_row, items in groups]


def _split_commands(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a sentence, each with True if it is an srs-eval command in backticks.

    Other backticks may belong to names of decks and files, which may contain anything.
    """
    # Where a pattern has a group, every second part of the split is a match.
    for position, fragment in enumerate(re.split(r"`(srs-eval [^`|]*)`", text)):
        if fragment:
            yield fragment, position % 2 == 1


def _format_sentence(item: PaneItem) -> str:
    if isinstance(item, MonthBars):
        known_months = [month for month in item.months if month.remembered is not None]
        figures = ", ".join(f"{month.label} {month.remembered}" for month in known_months)
        return f"By month: {figures}"
    assert isinstance(item, PaneLine)
    texts = (item.symbol, item.text.strip(), item.right_text.strip())
    return " ".join(text for text in texts if text)


def _item_cells(item: PaneItem, *, with_notes: bool = False) -> list[str]:
    if isinstance(item, PresetRow):
        return list(item.cells)
    assert isinstance(item, Heading | Bar)
    note = item.note.strip("◀ ") if with_notes and isinstance(item, Bar) else ""
    return [f"{item.label} ({note})" if note else item.label, *item.figures]


def _render_section(section: Section, level: int) -> list[str]:
    if section.folded:
        heading = [_format_heading(section.title, section.summary)] if section.summary else []
        return heading + _render_copy_lines(section)
    blocks = []
    # A summary of pictures is of no use without them.
    if section.summary and not section.side_by_side:
        blocks.append(_escape_markdown(section.summary))
    for block in section.blocks:
        match block:
            case str():
                blocks.append(_escape_markdown(block))
            case Table():
                if block.is_shown:
                    blocks += _render_table(block)
            case Picture(table=Table() as table):
                if table.is_shown and len(table.columns) <= _MAX_COLUMNS:
                    blocks += _render_table(table)
            case Code():
                blocks.append(f"```\n{block.text}\n```")
            case Section():
                blocks += _render_section(block, level + 1)
    if not blocks:
        return []
    return [f"{'#' * level} {_escape_markdown(section.title)}", *blocks]


def _render_copy_lines(section: Section) -> list[str]:
    """Render the lines to copy of a folded section, folded if the forum supports it."""
    blocks = [
        f"```\n{block.text}\n```" for block in section.iter_blocks() if isinstance(block, Code)
    ]
    if not blocks:
        return []
    summary = f"<details><summary>{_escape_markdown(section.title)}</summary>"
    return [summary, *blocks, "</details>"]


def _render_table(table: Table) -> list[str]:
    table = table.shown
    shown_rows = range(len(table.rows)) if table.brief_rows is None else table.brief_rows
    if not shown_rows and table.rows:  # in brief, such a table is left out
        return []
    rows = [
        [_escape_markdown(column.title) for column in table.columns],
        ["---:" if is_right else "---" for is_right in table.right_aligned],
    ]
    texts = format_rows(table)
    for row in shown_rows:
        cells = list(map(_escape_markdown, texts[row]))
        for k, cell in enumerate(table.rows[row]):
            if is_best(cell):
                cells[k] = f"**{cells[k]}**"
        if row == table.own_row:
            cells[0] = f"★ **{cells[0]}**"
        rows.append(cells)
    blocks = []
    if table.heading:
        blocks.append(f"**{_escape_markdown(table.heading)}**")
    blocks.append("\n".join(f"| {' | '.join(cells)} |" for cells in rows))
    omitted_rows = len(table.rows) - len(shown_rows)
    if omitted_rows:
        blocks.append(f"{omitted_rows} more rows are left out.")
    return blocks


def _escape_markdown(text: str) -> str:
    """Escape text for Markdown, because names of decks and files may contain anything.

    An srs-eval command in backticks stays code.
    """
    fragments = []
    for fragment, is_command in _split_commands(" ".join(text.split())):
        if is_command:
            fragments.append(f"`{fragment}`")
        else:
            fragments.append(re.sub(r"([\\`*_|<>\[\]])", r"\\\1", fragment))
    return "".join(fragments)


# --- a page


def _render_page(document: Document) -> str:
    """Render the whole page as text."""
    shown_sections = [section for section in document.sections if not section.is_for_files_only]
    anchored = [(f"s{number}", section) for number, section in enumerate(shown_sections, 1)]
    if document.panes is None:
        lead = "".join(map(_render_paragraph, document.lead))
        body = [f'<div class="lead">{lead}</div>']
    else:
        body = [_render_cards(document.panes)]
    if len(anchored) > 2:
        links = "".join(
            f'<li><a href="#{anchor}">{escape(section.title)}</a></li>'
            for anchor, section in anchored
        )
        body.append(f"<nav><ul>{links}</ul></nav>")
    body += [_render_html(section, 1, anchor) for anchor, section in anchored]
    return Template(_read_resource("page.html")).substitute(
        generator=HTML_GENERATOR,
        policy=_CONTENT_SECURITY_POLICY,
        title=escape(document.title),
        style=_read_resource("page.css"),
        body="\n".join(body),
        made_by=MARKDOWN_SIGNATURE,
        script=_read_resource("page.js"),
    )


def _read_resource(name: str) -> str:
    """Return the text of a file beside this module."""
    return resources.files("srs_eval.report").joinpath(name).read_text(encoding="utf-8")


def _render_html(block: Block, level: int, anchor: str = "") -> str:
    """Render a block below a heading of some level; `anchor` is the id to which links point."""
    match block:
        case str():
            return _render_paragraph(block)
        case Table():
            return _render_folded_table(block) if block.is_shown else ""
        case Picture():
            return _render_html_picture(block)
        case Code():
            return f"<pre>{escape(block.text)}</pre>"
    blocks = "\n".join(_render_html(subblock, level + 1) for subblock in block.blocks)
    title = escape(block.title)
    name = f' id="{anchor}"' if anchor else ""
    if block.folded or block.folded_on_page:
        heading = title
        if block.summary:
            colon = "" if title.endswith("?") else ":"
            heading += f"<span>{colon} {_render_inline(block.summary)}</span>"
        return f"<details{name}><summary>{heading}</summary>\n{blocks}\n</details>"
    summary = f"{_render_paragraph(block.summary)}\n" if block.summary else ""
    tag = f"h{min(level + 1, 4)}"
    if block.side_by_side:
        blocks = f'<div class="grid">\n{blocks}\n</div>'
    return f"<section{name}>\n<{tag}>{title}</{tag}>\n{summary}{blocks}\n</section>"


def _render_cards(screen: FirstScreen) -> str:
    """Render each pane as a card with its bars."""
    cards = []
    for title, pane in screen.titled_panes:
        groups = []
        for is_row, items in _group_rows(pane):
            if is_row:
                groups.append(f"<table>{''.join(map(_render_html_row, items))}</table>")
            else:
                groups.append("".join(map(_render_html_item, items)))
        content = "\n".join(groups)
        cards.append(f'<section class="card"><h2>{escape(title)}</h2>\n{content}</section>')
    notes = "".join(f'<p class="soft">{escape(note.text)}</p>' for note in screen.footer)
    return f'<div class="cards">\n{"".join(cards)}\n</div>\n{notes}'


def _render_html_item(item: PaneItem) -> str:
    if isinstance(item, MonthBars):
        bars = []
        for month in item.months:
            height = 0.0
            if month.remembered is not None:
                above_floor = max(month.remembered - _MONTH_FLOOR_PERCENT, 0)
                height = above_floor / (100 - _MONTH_FLOOR_PERCENT)
            bars.append(
                f'<li><i style="height:{_MONTH_HEIGHT_REM * height:.2f}rem"></i>'
                f"<span>{month.figure}</span>"
                f"{escape(month.label)}</li>"
            )
        scale = f"Remembered by month, in per cent (bars from {_MONTH_FLOOR_PERCENT} to 100):"
        return f'<p class="soft">{scale}</p><ol class="months">{"".join(bars)}</ol>'
    assert isinstance(item, PaneLine)
    right = f" <span>{escape(item.right_text.strip())}</span>" if item.right_text else ""
    mark = f"<b>{escape(item.symbol)}</b> " if item.symbol else ""
    text = f"{mark}{escape(item.text.strip())}{right}"
    classes = [item.level.replace(" ", "-")]
    if item.text.startswith(" "):  # details of the line above
        classes.append("detail")
    return f"<p{_format_attribute('class', ' '.join(filter(None, classes)))}>{text}</p>"


def _render_html_row(item: PaneItem) -> str:
    """Render a row of figures; its last cell draws the bar: full part, range and marker."""
    tag = "th" if isinstance(item, Heading) else "td"
    label, *figures = map(escape, _item_cells(item))
    cells = f"<{tag}>{label}</{tag}>"
    for figure in figures:
        cells += f'<{tag} class="n">{figure}</{tag}>'
    if isinstance(item, Bar):
        cells += f'<td class="bar">{_draw_html_bar(item)}{escape(item.note)}</td>'
    level = item.level if isinstance(item, Bar | PresetRow) else ""
    return f"<tr{_format_attribute('class', level.replace(' ', '-'))}>{cells}</tr>"


def _draw_html_bar(bar: Bar) -> str:
    """Draw a bar with its range and marker; "" if there is nothing to draw."""
    if bar.marker is None and not max(bar.share, bar.range_end):
        return ""
    marker = "" if bar.marker is None else f"--at:{bar.marker:.1%};"
    style = f"{marker}--full:{bar.share:.1%};--until:{max(bar.range_end, bar.share):.1%}"
    return f'<i style="{style}"></i>'


def _render_paragraph(text: str) -> str:
    return f"<p>{_render_inline(text)}</p>"


def _render_inline(text: str) -> str:
    return "".join(
        f"<code>{escape(fragment)}</code>" if is_command else escape(fragment)
        for fragment, is_command in _split_commands(text)
    )


def _render_html_picture(picture: Picture) -> str:
    from srs_eval.report.pictures import render_svg

    content, width = render_svg(picture)
    # On a page that is narrower than the least width, the picture scrolls.
    min_width = width * 0.75 if width < _FULL_WIDTH_POINTS else width
    image = (
        f'<img alt="{escape(picture.title)}" '
        f'style="max-width:{width:.0f}px;min-width:{min_width:.0f}px" '
        f'src="data:image/svg+xml;base64,{b64encode(content).decode()}">'
    )
    table = ""
    if picture.table is not None and picture.table.is_shown:
        summary = "<details><summary>The same as a table</summary>"
        table = f"\n{summary}\n{_render_html_table(picture.table)}\n</details>"
    return (
        f"<figure><figcaption>{escape(picture.title)}</figcaption>"
        f'<div class="scroll">{image}</div>{table}</figure>'
    )


def _render_folded_table(table: Table) -> str:
    """Render a table; of a long one the brief rows, with all rows folded below."""
    if not table.brief_rows or len(table.brief_rows) == len(table.rows):
        return _render_html_table(table)
    brief = _render_html_table(table.abridged)
    full = _render_html_table(replace(table, title=""))
    summary = f"All {len(table.rows)} rows"
    return f"{brief}\n<details><summary>{summary}</summary>\n{full}\n</details>"


def _render_html_table(table: Table) -> str:
    table = table.shown
    columns = list(zip(table.columns, table.right_aligned, strict=True))
    heads = ""
    for column, is_right in columns:
        attributes = _format_class(column, is_right) + _format_attribute("title", column.note)
        heads += f'<th scope="col"{attributes}><button>{escape(column.title)}</button></th>'
    rows = ""
    for index, (row, texts) in enumerate(zip(table.rows, format_rows(table), strict=True)):
        rows += f"<tr{_format_attribute('class', 'own' if index == table.own_row else '')}>"
        for cell, text, (column, is_right) in zip(row, texts, columns, strict=True):
            value = ""  # attribute by which a page sorts
            if not isinstance(cell, str):
                number = cell.value if isinstance(cell, Figure) else cell
                if number is None or math.isnan(number):
                    value = ' data-v=""'
                else:
                    value = f' data-v="{number:.10g}"'
            content = f"<b>{escape(text)}</b>" if is_best(cell) else escape(text)
            rows += f"<td{_format_class(column, is_right, text)}{value}>{content}</td>"
        rows += "</tr>\n"
    caption = f"<caption>{escape(table.heading)}</caption>" if table.heading else ""
    return (
        f'<div class="scroll"><table>{caption}\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div>"
    )


def _format_class(column: Column, is_right: bool, text: str = "") -> str:
    """Return the class attribute of a cell; page.css has the classes."""
    names = []
    if is_right:
        names.append("n")
    elif len(text) > _WRAP_LENGTH:
        names.append("long")
    if column.minor:
        names.append("minor")
    return _format_attribute("class", " ".join(names))


def _format_attribute(attribute: str, value: str) -> str:
    return f' {attribute}="{escape(value)}"' if value else ""


# --- LaTeX, for \input: with booktabs, siunitx for figures, adjustbox for width

_LATEX_SYMBOLS = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "±": r"$\pm$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "√": r"$\surd$",
    "<": "$<$",
    ">": "$>$",
    "–": "--",
}
_FIGURE_PATTERN = re.compile(r"([−+]?)(\d+)(?:\.(\d+))?(?:±([\d.]+))?")
"""Sign, integer digits, decimals and half-width of a figure."""
_SIUNITX_SETTINGS = "separate-uncertainty, table-align-uncertainty"
_SIUNITX_BOLD = ", mode=text, detect-weight"  # needed for bold figures


def _render_latex(table: Table) -> str:
    """Render a floating table with its caption; the best of a column is bold."""
    table = table.shown
    columns = [
        (k, column, _latex_alignment(table, k))
        for k, column in enumerate(table.columns)
        if column.in_latex
    ]
    heads = [f"{{{_escape_latex(column.title)}}}" for _, column, _ in columns]
    alignments = [alignment for _, _, alignment in columns]
    rows = []
    for row in table.rows:
        cells = [_render_latex_cell(row[k], column, alignment) for k, column, alignment in columns]
        rows.append(f"{' & '.join(cells)} \\\\")
    settings = _SIUNITX_SETTINGS
    if any(is_best(cell) for row in table.rows for cell in row):
        settings += _SIUNITX_BOLD
    lines = [
        r"% needs \usepackage{adjustbox,booktabs,siunitx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escape_latex(f'{table.heading}. {table.caption}'.strip())}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\sisetup{{{settings}}}",
        r"\begin{adjustbox}{max width=\linewidth}",
        rf"\begin{{tabular}}{{{' '.join(alignments)}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{adjustbox}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_alignment(table: Table, column_index: int) -> str:
    """Return a column's alignment: left for text, right for intervals, else at decimal points."""
    column = table.columns[column_index]
    if not table.right_aligned[column_index]:
        return "l"
    cells = [row[column_index] for row in table.rows]
    matches = [_FIGURE_PATTERN.fullmatch(_plain_text(cell, column)) for cell in cells]
    figures = [match for match in matches if match]
    if not figures or any(isinstance(cell, Figure) and cell.ends for cell in cells):
        return "r"
    sign = "-" if any(figure[1] for figure in figures) else ""
    integer_digits = max(len(figure[2] or "") for figure in figures)
    decimals = max(len(figure[3] or "") for figure in figures)
    half_widths = [(figure[4] or "").replace(".", "").lstrip("0") for figure in figures]
    half_width_digits = max(map(len, half_widths))
    uncertainty = f"({half_width_digits})" if half_width_digits else ""
    return f"S[table-format={sign}{integer_digits}.{decimals}{uncertainty}]"


def _plain_text(cell: Cell, column: Column) -> str:
    return str(cell) if isinstance(cell, int) else format_cell(cell, column)


def _render_latex_cell(cell: Cell, column: Column, alignment: str) -> str:
    text = _plain_text(cell, column)
    if not alignment.startswith("S"):
        return _escape_latex(text)
    if not _FIGURE_PATTERN.fullmatch(text):
        return f"{{{_escape_latex(text)}}}"
    bold = r"\bfseries " if is_best(cell) else ""
    return bold + text.replace("−", "-").replace("±", r" \pm ")


def _escape_latex(text: str) -> str:
    escaped = "".join(_LATEX_SYMBOLS.get(character, character) for character in text)
    return escaped.replace(r" \%", r"~\%")  # no line break before the sign
