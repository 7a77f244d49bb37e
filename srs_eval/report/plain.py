"""Write screens and tables as plain text for screen readers, grep and dumb terminals.

There are no boxes, bars or symbols, every fact has a line of its own, and lines are not wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from srs_eval.advice.sentences import (
    GUESS_MARK,
    Bar,
    FirstScreen,
    Heading,
    LineLevel,
    MonthBars,
    Pane,
    PaneLine,
    PresetRow,
)
from srs_eval.report.cells import format_rows
from srs_eval.stats.tables import Table

_MISSING = ("", "–", "-")  # cells without a figure
_MARKS = ("!", "?")
_DOTS = re.compile("[●○]+| {2,}")  # of a probability, or a gap between notes
_NUMBER_STARTS = "0123456789+-−±.<"
_LEVEL_WORDS: Mapping[LineLevel, str] = {"look": "Look here: ", "not yet": "Not known yet: "}


def write_plain_screen(screen: FirstScreen) -> Iterator[str]:
    """Yield the lines of the first screen: each pane's question, and its answer a fact a line."""
    for number, pane in enumerate(screen.panes, start=1):
        yield f"{number} of {len(screen.panes)}: {pane.title}"
        yield from _write_pane(pane)
        yield ""
    for note in screen.footer:
        yield note.text.strip()


def _write_pane(pane: Pane) -> Iterator[str]:
    row_title = ""
    column_titles: tuple[str, ...] = ()
    for item in pane.items:
        match item:
            case PaneLine():
                yield _write_line(item)
            case Heading():
                row_title = item.label
                column_titles = item.figures
            case Bar():
                label = item.label.strip()
                if label[:1].isdigit():  # "asked for 80 %"
                    label = f"{row_title} {label}"
                figures = _join_cells(column_titles, item.figures)
                yield f"{label}: {figures}{_write_bar_note(item)}"
            case PresetRow():
                name, *cells = item.cells
                yield f"{name}: {', '.join(filter(None, cells))}"
            case MonthBars():
                for month in item.months:
                    if month.remembered is not None:
                        note = " (few reviews)" if month.has_few_reviews else ""
                        yield f"{month.label}: {month.remembered} % remembered{note}"
                    elif month.has_few_reviews:
                        yield f"{month.label}: few reviews"


def _write_bar_note(bar: Bar) -> str:
    """Write the note at the end of a bar: ", look here", ", too few"."""
    if bar.level == "look":
        return ", look here"
    return f", {bar.note}" if bar.note else ""


def _write_line(line: PaneLine) -> str:
    words = _LEVEL_WORDS.get(line.level, "") if line.symbol in _MARKS else ""
    notes = _remove_dots(line.right_text)
    if notes:
        return f"{words}{line.text.strip()} ({notes})"
    return f"{words}{line.text.strip()}"


def _remove_dots(text: str) -> str:
    """Remove the dots of a probability: "sure ●●●●●  5 days" becomes "sure; 5 days"."""
    parts = [part.strip() for part in _DOTS.split(text)]
    return "; ".join(part for part in parts if part)


def write_plain_table(table: Table) -> Iterator[str]:
    """Yield the heading of a table, and a line for each row that repeats the columns' titles."""
    if table.heading:
        yield f"{table.heading}:"
    first_title, *titles = [column.plain_title or column.title for column in table.columns]
    for name, *cells in format_rows(table):
        label = name or first_title
        if label[:1].isdigit() and label.endswith(" %"):  # "asked for 90 %"
            label = f"{first_title} {label}"
        yield f"{label}: {_join_cells(titles, cells)}"


def _join_cells(titles: Sequence[str], cells: Sequence[str]) -> str:
    """Join the cells of a row that hold something, each behind its column's title."""
    facts = []
    for title, cell in zip(titles, cells, strict=True):
        text = _remove_dots(cell).replace("✓", "yes")
        if not title:  # marks of the row
            text = text.replace(GUESS_MARK, " a guess").strip()
        if text in _MISSING:
            continue
        colon = "" if text[0] in _NUMBER_STARTS or not title else ":"
        facts.append(f"{title}{colon} {text}".strip())
    return "; ".join(facts)
