"""Render the five panes of the first screen as text, for any width and height."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from srs_eval.advice.sentences import (
    Bar,
    FirstScreen,
    Heading,
    MonthBars,
    Pane,
    PaneItem,
    PaneLine,
    PresetRow,
)
from srs_eval.report.formats import truncate

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAIN_STYLES: Mapping[str, str] = {
    "": "",
    "fine": "green",
    "look": "yellow",
    "not yet": "dim",
    "bar": "cyan",
    "faint": "dim",
}
"""Rich's styles by level, and the styles of bars and of the faint text beside them."""
_HORIZONTAL_BLOCKS = " ▏▎▍▌▋▊▉█"
_VERTICAL_BLOCKS = " ▁▂▃▄▅▆▇█"
_MIN_BAR_WIDTH = 6
_MAX_BAR_WIDTH = 44
_MIN_INLINE_BAR_WIDTH = 12  # columns; shorter bars stand below their figures if there is room
_MAX_MONTH_LINES = 6  # most lines of months in the app
_MONTH_FLOOR_PERCENT = 50  # per cent at which a month's column is empty
_FRAME_WIDTH = 4  # columns of a pane's frame with its padding
_MAX_PRINTED_LINES = 20  # most lines of a printed pane
_MAX_PRINTED_NOTE_LINES = 9  # most lines of the notes below printed panes


def render_first_screen(screen: FirstScreen, width: int) -> RenderableType:
    """Render the five panes, one below another, and the notes below them."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel

    panes = []
    for number, pane in enumerate(screen.panes, start=1):
        lines = render_pane(pane, width - _FRAME_WIDTH, _MAX_PRINTED_LINES, spacious=False)
        panel = Panel(
            Text("\n").join(lines),
            box=box.ROUNDED,
            title=f"{number} {pane.title}",
            title_align="left",
            width=width,
        )
        panes.append(panel)
    note_lines = wrap_notes(screen, width, _MAX_PRINTED_NOTE_LINES)
    notes = [Text(line, PLAIN_STYLES["not yet"]) for line in note_lines]
    return Group(*panes, *notes)


def wrap_notes(screen: FirstScreen, width: int, height: int) -> list[str]:
    """Wrap the notes below the panes; the last note takes the lines that are left."""
    lines: list[str] = []
    for number, note in enumerate(screen.footer, start=1):
        notes_after = len(screen.footer) - number
        lines_left = height - len(lines) - notes_after
        lines += _wrap(note.text, width - 2, lines_left)
    return [f" {line}" for line in lines]


def render_unframed(
    number: int, pane: Pane, width: int, max_lines: int, styles: Mapping[str, str] = PLAIN_STYLES
) -> list[Text]:
    """Render a pane without a frame in up to `max_lines` lines.

    Example: "4 One preset or several?  You have one. Keep it."
    """
    title = Text.assemble((f"{number} {pane.title}", styles["bar"]), "  ")
    summary = replace(pane.summary, text=pane.summary.text.strip(), right_text="")
    first, *continued = _render_line(summary, width - title.cell_len, styles, max_lines)
    indent = " " * title.cell_len
    return [title + first, *(Text(indent) + line for line in continued)]


def render_pane(
    pane: Pane,
    width: int,
    height: int,
    styles: Mapping[str, str] = PLAIN_STYLES,
    spacious: bool = True,
) -> list[Text]:
    """Render a pane; if there is too little room, its most expendable items are left out first.

    A `spacious` pane, as in the app, has hints about keys, taller months and blank lines.
    """
    items, blocks = _select_items(pane, width, height, styles, spacious)
    lines: list[Text] = []
    for item, block in zip(items, blocks, strict=True):
        lines_left = height - len(lines)
        if isinstance(item, PaneLine) and 0 < lines_left < len(block):
            block = _render_line(item, width, styles, lines_left)
        lines += block[:lines_left]
    return lines


def count_hidden_items(pane: Pane, width: int, height: int) -> int:
    """Count the items that have no room when the app renders a pane."""
    items, blocks = _select_items(pane, width, height, PLAIN_STYLES, spacious=True)
    hidden = len(pane.items) - len(items)
    first_line = 0
    for block in blocks:
        if first_line >= height:
            hidden += 1
        first_line += len(block)
    return hidden


def count_needed_lines(pane: Pane, width: int) -> int:
    """Return the fewest lines in which the app can show all items of a pane."""
    blocks = _render_items(pane.items, width, 0, PLAIN_STYLES, spacious=True)
    return sum(map(len, blocks))


def _select_items(
    pane: Pane, width: int, height: int, styles: Mapping[str, str], spacious: bool
) -> tuple[list[PaneItem], list[list[Text]]]:
    """Return the items that have room, and the lines of each.

    Of the items with the highest `drop_order`, the last goes first.
    """
    items = list(pane.items)
    while True:
        blocks = _render_items(items, width, height, styles, spacious)
        drop_order = max((item.drop_order for item in items), default=0)
        if not drop_order or sum(map(len, blocks)) <= height:
            return items, blocks
        last = max(position for position, item in enumerate(items) if item.drop_order == drop_order)
        del items[last]


def _render_items(
    items: Sequence[PaneItem], width: int, height: int, styles: Mapping[str, str], spacious: bool
) -> list[list[Text]]:
    """Return the lines of each item; bars and months use the lines that are left."""
    bars = [item for item in items if isinstance(item, Bar)]
    labelled = [item for item in items if isinstance(item, Bar | Heading)]
    preset_rows = [item for item in items if isinstance(item, PresetRow)]
    label_width = max((cell_len(item.label) for item in labelled), default=0) + 1
    figure_widths = []
    for column in zip(*(item.figures for item in labelled), strict=True):
        figure_widths.append(max(cell_len(cell) for cell in column) + 2)
    note_width = max((cell_len(bar.note) + 1 for bar in bars if bar.note), default=0)
    room = width - 2 - label_width - sum(figure_widths)
    bar_width = min(room - note_width, _MAX_BAR_WIDTH)
    blocks: list[list[Text]] = []
    for item in items:
        match item:
            case PaneLine():
                right_text = item.right_text
                if spacious and not right_text:
                    right_text = item.key_hint
                line = replace(item, right_text=right_text)
                blocks.append(_render_line(line, width, styles))
            case Heading() | Bar():
                blocks.append([_render_bar(item, label_width, figure_widths, bar_width, styles)])
            case PresetRow():
                blocks.append([_render_row(item, preset_rows, width, styles)])
            case MonthBars():
                blocks.append([])
    lines_left = height - sum(map(len, blocks))
    needed_lines = len(bars)  # for bars below their figures
    if any(isinstance(item, MonthBars) for item in items):
        needed_lines += 1
    if bar_width < _MIN_INLINE_BAR_WIDTH and lines_left >= needed_lines:
        wide_bar = min(width - 4, _MAX_BAR_WIDTH)
        for position, item in enumerate(items):
            if isinstance(item, Bar):
                figures_line = _render_bar(item, label_width, figure_widths, 0, styles)
                bar_line = Text("  ").append_text(_draw_bar(item, wide_bar, styles))
                blocks[position] = [figures_line, bar_line]
        lines_left -= len(bars)
    for position, item in enumerate(items):
        if isinstance(item, MonthBars):
            month_lines = max(1, min(lines_left, _MAX_MONTH_LINES if spacious else 2))
            blocks[position] = _render_months(item, width, month_lines, styles)
            lines_left -= month_lines
    if spacious and lines_left >= len(blocks) > 2:  # room to breathe
        blocks = [[*block, Text()] for block in blocks]
    return blocks


def _render_line(
    line: PaneLine, width: int, styles: Mapping[str, str], max_lines: int = 9
) -> list[Text]:
    style = styles[line.level]
    mark = f"{line.symbol} " if line.symbol else ""
    right_width = cell_len(line.right_text) + 2 if line.right_text else 0
    indent = cell_len(mark) or len(line.text) - len(line.text.lstrip())
    texts = _wrap(line.text.strip(), max(width - indent - right_width, 12), max_lines)
    text_style = "" if line.level == "fine" else style
    rendered = []
    for number, text in enumerate(texts):
        is_first = number == 0
        prefix = mark if is_first and mark else " " * indent
        rendered_line = Text.assemble((prefix, style), (text, text_style))
        if is_first and line.right_text:
            room = width - rendered_line.cell_len - cell_len(line.right_text)
            gap = max(room, 1)
            rendered_line.append(" " * gap)
            rendered_line.append(line.right_text, style)
        rendered.append(rendered_line)
    return rendered


def _wrap(text: str, width: int, max_lines: int) -> list[str]:
    """Wrap text at blanks, where a wide character counts as two columns.

    Text of more than `max_lines` is cut off and ends with "…".
    """
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    if len(lines) > max_lines:
        last = lines[max_lines - 1]
        while cell_len(last) > width - 2 and " " in last:
            last = last.rpartition(" ")[0]
        lines[max_lines - 1 :] = [f"{last.rstrip(' ,;:·')} …"]
    return lines


def _render_bar(
    bar: Bar | Heading,
    label_width: int,
    figure_widths: Sequence[int],
    bar_width: int,
    styles: Mapping[str, str],
) -> Text:
    style = styles[bar.level if isinstance(bar, Bar) else "faint"]
    line = Text(set_cell_size(bar.label, label_width), style)
    for figure, figure_width in zip(bar.figures, figure_widths, strict=True):
        line.append(f"{figure:>{figure_width}}", style)
    if isinstance(bar, Heading):
        return line
    if bar_width >= _MIN_BAR_WIDTH:
        line.append("  ").append_text(_draw_bar(bar, bar_width, styles))
    if bar.note:
        line.append(f" {bar.note}", style)
    line.rstrip()
    return line


def _draw_bar(bar: Bar, size: int, styles: Mapping[str, str]) -> Text:
    """Draw the bar itself, its range and its marker over `size` columns."""
    style = styles[bar.level] or styles["bar"]
    full = _draw_filled(bar.share, size)
    full_and_range = full + "▒" * (round(bar.range_end * size) - len(full))
    empty = " " * (size - len(full_and_range))
    drawn = Text.assemble((full_and_range, style), empty)
    if bar.marker is None:
        return drawn
    marker = min(int(bar.marker * size), size - 1)
    if len(full) <= marker < size:
        drawn = Text.assemble(drawn[:marker], ("┆", styles["faint"]), drawn[marker + 1 :])
    return drawn


def _draw_filled(share: float, size: int) -> str:
    """Draw the full part of a bar to an eighth of a column."""
    eighths = round(8 * size * min(max(share, 0.0), 1.0))
    full_blocks, remainder = divmod(eighths, 8)
    return f"{'█' * full_blocks}{_HORIZONTAL_BLOCKS[remainder].strip()}"[:size]


def _render_row(
    row: PresetRow, rows: Sequence[PresetRow], width: int, styles: Mapping[str, str]
) -> Text:
    longest_name, *cell_widths = [
        max(cell_len(preset_row.cells[k]) for preset_row in rows) for k in range(len(row.cells))
    ]
    room = max(width - sum(cell_widths) - 3 * len(cell_widths), 8)
    name_width = min(longest_name, room)
    name, *cells = row.cells
    line = Text.assemble(set_cell_size(truncate(name, name_width), name_width))
    for number, (cell, cell_width) in enumerate(zip(cells, cell_widths, strict=True), start=1):
        style = "bold" if row.level and number == len(cells) else ""
        line.append("   ").append(set_cell_size(cell, cell_width), style)
    return line


def _render_months(
    by_month: MonthBars, width: int, height: int, styles: Mapping[str, str]
) -> list[Text]:
    """Render month names with figures, and bars below them if there are more lines."""
    prefix = "months "
    cells = [f"{name} {figure}" for name, figure in by_month.months]
    cell_width = max(map(cell_len, cells)) + 2
    fitting = max(1, (width - len(prefix)) // cell_width)
    months = by_month.months[-fitting:]
    first_line = Text.assemble((prefix, styles["faint"]))
    for name, figure in months:
        first_line.append(f"{name} ", styles["faint"])
        first_line.append(f"{figure}".ljust(cell_width - cell_len(name) - 1))
    lines = [first_line]
    bar_height = height - 1
    for level in reversed(range(bar_height)):
        line = Text(" " * len(prefix))
        for _, figure in months:
            above_floor = max(figure - _MONTH_FLOOR_PERCENT, 1)
            eighths = round(8 * bar_height * above_floor / (100 - _MONTH_FLOOR_PERCENT))
            eighths_of_line = min(max(eighths - 8 * level, 0), 8)
            block = _VERTICAL_BLOCKS[eighths_of_line]
            line.append(f"{block * (cell_width - 2)}  ", styles["bar"])
        lines.append(line)
    for line in lines:
        line.rstrip()
    return lines
