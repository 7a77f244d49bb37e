"""A document as one self-contained page: opens offline, asks nobody for anything.

Pictures are inline SVG in the page's colours, dark or light as the reader's system has it. Tables
sort by a click on a heading; what does that is the only script.
"""

from __future__ import annotations

import math
import re
from html import escape

from srs_eval.data.outputs import GENERATOR, MADE_BY
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

_STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#5b6570;--rule:#d5dade;
--band:#f4f6f8;--accent:#0b62c4;--c1:#0072b2;--c2:#d55e00;--c3:#009e73;--c4:#a8478a;--c5:#b07d00;
--c6:#3d97d3;--c7:#6b4fc8;--c8:#6f7780}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--ink:#e6e9ec;--soft:#9aa5b0;
--rule:#353c43;--band:#1d2226;--accent:#6fb1ff;--c1:#5ab4ec;--c2:#ff8d4e;--c3:#3fcf9f;
--c4:#e08cc4;--c5:#e2b33c;--c6:#8ac7f2;--c7:#a995f5;--c8:#a3acb5}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0 1rem}
h2{font-size:1.3rem;line-height:1.25;margin:2.5rem 0 .75rem;padding-top:.75rem;
border-top:1px solid var(--rule)}
h3{font-size:1.08rem;margin:1.75rem 0 .5rem}
p{max-width:46rem;margin:.5rem 0;overflow-wrap:anywhere}
.lead p{font-size:1.1rem;max-width:60rem}
nav ul{list-style:none;padding:0;margin:1rem 0;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem}
a{color:var(--accent)}
code{font-size:.92em;background:var(--band);padding:.1em .25em;border-radius:3px}
.scroll{overflow-x:auto;margin:.75rem 0;max-width:100%}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.25rem 0}
th,td{padding:.28rem .65rem;border-bottom:1px solid var(--rule);text-align:left;white-space:nowrap;
vertical-align:top}
th,td:first-child{white-space:normal}
td:first-child{min-width:6.5rem;max-width:22rem;overflow-wrap:anywhere}
tr.own td{background:var(--band);font-weight:600}
tr.own td:first-child{box-shadow:inset 3px 0 var(--c2)}
tr.own td:first-child::before{content:"\\2605  ";color:var(--c2)}
td.long{white-space:normal;min-width:18rem;overflow-wrap:anywhere}
th{background:var(--band);font-weight:600}
th button{all:unset;cursor:pointer;display:block;width:100%}
th button:focus-visible,summary:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
th[aria-sort=ascending] button::after{content:" \\25B2"}
th[aria-sort=descending] button::after{content:" \\25BC"}
.n{text-align:right}
td:first-child,th:first-child{position:sticky;left:0;background:var(--paper)}
th:first-child{background:var(--band)}
tbody tr:hover td{background:var(--band)}
figure{margin:1rem 0;min-width:0}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));
gap:.5rem 1.5rem}
pre{background:var(--band);padding:.5rem .7rem;margin:.5rem 0;white-space:pre-wrap;
overflow-wrap:anywhere;user-select:all;-webkit-user-select:all;font-size:.88rem}
figure .scroll>svg{display:block;width:100%;height:auto}
figcaption{font-weight:600;margin-bottom:.25rem}
summary{cursor:pointer;font-weight:600;padding:.3rem 0}
summary span{font-weight:400}
details{margin:.75rem 0;border-left:3px solid var(--rule);padding-left:.9rem}
footer{margin-top:3rem;color:var(--soft);font-size:.88rem}
@media (max-width:600px){body{font-size:15px}main{padding:1rem .75rem 3rem}
th,td{padding:.28rem .4rem}h1{font-size:1.4rem}.minor{display:none}td{white-space:normal}
td.long{min-width:6.5rem}td:first-child{max-width:44vw}
details table{font-size:.78rem}details th,details td{padding:.25rem .2rem}th{overflow-wrap:anywhere}
details td:first-child{min-width:3.5rem}details td.long{min-width:7rem}}
@media print{:root{--paper:#fff;--ink:#000;--soft:#444;--rule:#bbb;--band:#eee;--accent:#000;
--c1:#0072b2;--c2:#d55e00;--c3:#009e73;--c4:#a8478a;--c5:#b07d00;--c6:#3d97d3;--c7:#6b4fc8;
--c8:#6f7780}body{font-size:10pt}main{max-width:none;padding:0}nav{display:none}
.scroll{overflow:visible}table{font-size:8pt}th,td{padding:.1rem .3rem}
tr,figure{break-inside:avoid}h2,h3,caption{break-after:avoid}}
"""

_SCRIPT = """
document.addEventListener('click', event => {
  const button = event.target.closest('th button');
  if (!button) return;
  const heading = button.parentElement, body = heading.closest('table').tBodies[0];
  const column = heading.cellIndex, up = heading.getAttribute('aria-sort') !== 'ascending';
  const key = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
  const known = row => key(row) !== '';
  const rows = [...body.rows];
  const numbers = rows.every(row => !known(row) || !isNaN(key(row)));
  const sorted = rows.filter(known).sort((a, b) =>
    numbers ? key(a) - key(b) : key(a).localeCompare(key(b), undefined, {numeric: true}));
  if (!up) sorted.reverse();
  body.append(...sorted, ...rows.filter(row => !known(row)));
  for (const other of heading.parentElement.cells) other.removeAttribute('aria-sort');
  heading.setAttribute('aria-sort', up ? 'ascending' : 'descending');
});
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_LONG = 60  # characters from which a cell is wrapped


def page(document: Document) -> str:
    """The whole page as text."""
    numbered = [(f"s{number}", section) for number, section in enumerate(document.sections, 1)]
    links = "".join(
        f'<li><a href="#{place}">{escape(section.title)}</a></li>' for place, section in numbered
    )
    drawn = _Counter()
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
        f"<style>{_STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{escape(document.title)}</h1>",
        f'<div class="lead">{"".join(_paragraph(each) for each in document.lead)}</div>',
        f"<nav><ul>{links}</ul></nav>" if len(numbered) > 2 else "",
        *(_section(section, 2, drawn, place) for place, section in numbered),
        f"<footer>{MADE_BY}</footer>",
        "</main>",
        f"<script>{_SCRIPT}</script>",
        "</body>",
        "</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


class _Counter:
    """Numbers the pictures, whose inner names must not meet on one page."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> int:
        self.count += 1
        return self.count


def _section(section: Section, level: int, drawn: _Counter, place: str = "") -> str:
    blocks = "\n".join(_block(each, level, drawn) for each in section.blocks)
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


def _block(block: Block, level: int, drawn: _Counter) -> str:
    match block:
        case str():
            return _paragraph(block)
        case Table():
            return _table(block) if block.shown else ""
        case Picture():
            return _figure(block, drawn.next())
        case Code():
            return f"<pre>{escape(block.text)}</pre>"
        case Section():
            return _section(block, level + 1, drawn)


def _paragraph(text: str) -> str:
    return f"<p>{_inline(text)}</p>"


def _inline(text: str) -> str:
    return "".join(
        f"<code>{escape(part)}</code>" if code else escape(part)
        for part, code in with_commands(text)
    )


def _figure(picture: Picture, number: int) -> str:
    from srs_eval.report.pictures import svg

    told = f' role="img" aria-label="{escape(picture.told)}"'
    drawn = re.sub(r"<svg\b", f"<svg{told}", svg(picture, f"p{number}"), count=1)
    table = ""
    if picture.table is not None:
        folded = "<details><summary>The same as a table</summary>"
        table = f"\n{folded}\n{_table(picture.table)}\n</details>"
    return (
        f"<figure><figcaption>{escape(picture.title)}</figcaption>"
        f'<div class="scroll">{drawn}</div>{table}</figure>'
    )


def _table(table: Table) -> str:
    right = [
        bool(table.rows) and all(not isinstance(row[k], str) for row in table.rows)
        for k in range(len(table.columns))
    ]
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
