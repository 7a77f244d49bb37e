"""Render the five panes of the first screen as text, for any width and height."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

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
from srs_eval.report.formats import has_braille, truncate

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
_MIN_BAR_WIDTH = 4
_MAX_BAR_WIDTH = 44
_MIN_INLINE_BAR_WIDTH = 12  # columns; shorter bars stand below their figures if there is room
_MAX_MONTH_LINES = 8  # most lines of months in the app
_MONTH_FLOOR_PERCENT = 50  # per cent at which a month's column is empty
_CHART_MARGIN = "100 ┤ "  # left of the bars of months
_LOW_CHART_MARGIN = f"{_MONTH_FLOOR_PERCENT}-100 ┤ "  # the same if bars have one line
_MIN_CURVE_LINES = 8  # fewest and most lines of a curve with its axes
_MAX_CURVE_LINES = 13
_MAX_CURVE_WIDTH = 60
_BRAILLE_BLANK = 0x2800
_BRAILLE_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by line and column
_READABLE_CHART_LINES = 5  # lines of a chart of months whose bars differ visibly
_MIN_CHART_LINES = 3  # fewest lines of a chart of months: bars, figures and names
_FRAME_WIDTH = 4  # columns of a pane's frame with its padding
_MIN_TEXT_WIDTH = 30  # columns; a text with fewer has no text at its right end beside it
_MAX_PRINTED_LINES = 20  # most lines of a printed pane
_MAX_PRINTED_NOTE_LINES = 9  # most lines of the notes below printed panes


def render_first_screen(screen: FirstScreen, width: int) -> RenderableType:
    """Render the five panes, one below another, and the notes below them."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel

    panes = []
    for title, pane in screen.titled_panes:
        lines = render_pane(pane, width - _FRAME_WIDTH, _MAX_PRINTED_LINES, spacious=False)
        panel = Panel(
            Text("\n").join(lines),
            box=box.ROUNDED,
            title=title,
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
        if block and first_line >= height:
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

    Of the items with the highest `drop_order`, the last goes first. A heading goes with its last
    bar.
    """
    items = list(pane.items)
    while True:
        blocks = _render_items(items, width, height, styles, spacious)
        drop_order = max((item.drop_order for item in items), default=0)
        if not drop_order or sum(map(len, blocks)) <= height:
            return items, blocks
        last = max(position for position, item in enumerate(items) if item.drop_order == drop_order)
        del items[last]
        if not any(isinstance(item, Bar) for item in items):
            items = [item for item in items if not isinstance(item, Heading)]


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
            case MonthBars() | CostCurve():
                blocks.append([])
    lines_left = height - sum(map(len, blocks))
    needed_lines = len(bars)  # for bars below their figures
    if any(isinstance(item, MonthBars) for item in items):
        needed_lines += _READABLE_CHART_LINES if spacious else 1
    if bar_width < _MIN_INLINE_BAR_WIDTH and lines_left >= needed_lines:
        wide_bar = min(width - 4, _MAX_BAR_WIDTH)
        for position, item in enumerate(items):
            if isinstance(item, Bar):
                figures_line = _render_bar(item, label_width, figure_widths, 0, styles)
                bar_line = Text("  ").append_text(_draw_bar(item, wide_bar, styles))
                blocks[position] = [figures_line, bar_line]
        lines_left -= len(bars)
    can_draw_curve = spacious and has_braille()
    for position, item in enumerate(items):
        if isinstance(item, MonthBars):
            month_lines = max(1, min(lines_left, _MAX_MONTH_LINES if spacious else 1))
            blocks[position] = _render_months(item, width, month_lines, styles)
            lines_left -= len(blocks[position])
        elif isinstance(item, CostCurve) and can_draw_curve and lines_left >= _MIN_CURVE_LINES:
            blocks[position] = _render_curve(item, width, min(lines_left, _MAX_CURVE_LINES), styles)
            lines_left -= len(blocks[position])
    if spacious and lines_left >= len(blocks) > 2:  # room to breathe
        blocks = [[*block, Text()] if block else [] for block in blocks]
    return blocks


def _render_line(
    line: PaneLine, width: int, styles: Mapping[str, str], max_lines: int = 9
) -> list[Text]:
    style = styles[line.level]
    mark = f"{line.symbol} " if line.symbol else ""
    indent = cell_len(mark) or len(line.text) - len(line.text.lstrip())
    text = line.text.strip()
    room = width - indent
    right_text = line.right_text
    if cell_len(text) + 2 > room - cell_len(right_text):
        right_text = right_text.rstrip()  # without alignment with other lines
    if right_text and cell_len(text) + 2 > room - cell_len(right_text):
        room_beside = room - cell_len(right_text) - 2
        if room_beside < _MIN_TEXT_WIDTH:
            right_text = ""  # it gets a line of its own
    if right_text:
        room -= cell_len(right_text) + 2
    text_style = "" if line.level == "fine" else style
    rendered = []
    for number, wrapped in enumerate(_wrap(text, max(room, 12), max_lines)):
        is_first = number == 0
        prefix = mark if is_first and mark else " " * indent
        rendered_line = Text.assemble((prefix, style), (wrapped, text_style))
        if is_first and right_text:
            _append_right(rendered_line, right_text, width, style)
        rendered.append(rendered_line)
    if line.right_text and not right_text and len(rendered) < max_lines:
        rendered.append(_append_right(Text(" " * indent), line.right_text.strip(), width, style))
    return rendered


def _append_right(line: Text, right_text: str, width: int, style: str) -> Text:
    """Append a text at the right end of a line of `width` columns."""
    gap = max(width - line.cell_len - cell_len(right_text), 1)
    line.append(" " * gap)
    return line.append(right_text, style)


def _wrap(text: str, width: int, max_lines: int) -> list[str]:
    """Wrap text at blanks, where a wide character counts as two columns.

    Text of more than `max_lines` is cut off and ends with "…".
    """
    lines = [""]
    for word in re.split(r" (?!%)", text):  # a number and its % stay together
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
    # In a full bar the marker is a gap, so that it can be seen without colours, too.
    marker_text = ("┆", f"{style} reverse" if marker < len(full) else styles["faint"])
    return Text.assemble(drawn[:marker], marker_text, drawn[marker + 1 :])


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
    """Render months as a chart from 50 to 100 %, or as one line if there is no room for a chart."""
    if height < _MIN_CHART_LINES:
        return [_render_month_line(by_month, width, styles)]
    cell_width = max(cell_len(month.name) for month in by_month.months) + 1
    bar_height = height - 2  # names and figures take a line each
    # Bars of one line have both ends of the scale beside them.
    margin = len(_CHART_MARGIN if bar_height > 1 else _LOW_CHART_MARGIN)
    fitting = max(1, (width - margin) // cell_width)
    months = by_month.months[-fitting:]
    lines = []
    for level in reversed(range(bar_height)):
        label = "│"
        if bar_height == 1:
            label = _LOW_CHART_MARGIN.rstrip()
        elif level == bar_height - 1:
            label = "100 ┤"
        elif level == 0:
            label = f"{_MONTH_FLOOR_PERCENT} ┤"
        line = Text(f"{label:>{margin - 1}} ", styles["faint"])
        for month in months:
            block = _choose_month_block(month.remembered, level, bar_height)
            style = styles["faint" if month.has_few_reviews else "bar"]
            line.append((block * (cell_width - 1)).ljust(cell_width), style)
        lines.append(line)
    first_year = months[0].year
    names = Text(first_year.ljust(margin), styles["faint"])
    figures = Text("%".rjust(margin - 3).ljust(margin), styles["faint"])
    year = first_year
    for month in months:
        name = month.name if month.year == year else month.year
        year = month.year
        names.append(name.ljust(cell_width), styles["faint"])
        figures.append(
            month.figure.ljust(cell_width), styles["faint" if month.has_few_reviews else ""]
        )
    lines += [figures, names]
    for line in lines:
        line.rstrip()
    return lines


def _render_curve(
    curve: CostCurve, width: int, height: int, styles: Mapping[str, str]
) -> list[Text]:
    """Draw minutes a day by the share remembered, and today's schedule as a dot.

    A blank line stands above the curve, and two lines below it explain the axes.
    """
    columns = min(width - len(_CHART_MARGIN), _MAX_CURVE_WIDTH)
    rows = height - 3
    known_points = list(curve.points)
    if curve.current is not None:
        known_points.append(curve.current)
    lowest = math.floor(100 * min(share for share, _ in known_points))
    highest = math.ceil(100 * max(share for share, _ in known_points))
    most_minutes = max(minutes for _, minutes in known_points)

    def find_dot(share: float, minutes: float) -> tuple[int, int]:
        """Return the dot of a point: from the left, and from the top."""
        x = (100 * share - lowest) / max(highest - lowest, 1)
        y = 1 - minutes / most_minutes
        return round(x * (2 * columns - 1)), round(y * (4 * rows - 1))

    cells = [[0] * columns for _ in range(rows)]  # the dots of each character as bits
    for first, second in pairwise(curve.points):
        for x, y in _connect(find_dot(*first), find_dot(*second)):
            cells[y // 4][x // 2] |= _BRAILLE_BITS[y % 4][x % 2]
    lines = [Text()]
    for row, bits in enumerate(cells):
        label = ""
        if row == 0:
            label = f"{most_minutes:.1f}" if most_minutes < 9.95 else f"{most_minutes:.0f}"
        elif row == rows - 1:
            label = "0"
        line = Text(f"{label:>3} {'┤' if label else '│'} ", styles["faint"])
        drawn = "".join(chr(_BRAILLE_BLANK + cell) if cell else " " for cell in bits)
        line.append(drawn, styles["bar"])
        lines.append(line)
    legend = ""
    if curve.current is not None:
        x, y = find_dot(*curve.current)
        position = len(_CHART_MARGIN) + x // 2
        line = lines[1 + y // 4]
        lines[1 + y // 4] = Text.assemble(
            line[:position], ("●", styles["look"]), line[position + 1 :]
        )
        legend = f"● {curve.current_name}; "  # first, because the end may be cut off
    ends = f"{lowest} %".ljust(columns - len(f"{highest} %")) + f"{highest} %"
    lines.append(Text(" " * len(_CHART_MARGIN) + ends, styles["faint"]))
    caption = f"{legend}↑ minutes a day, → what you would remember"
    lines.append(Text(" " * len(_CHART_MARGIN) + caption, styles["faint"]))
    return lines


def _connect(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the dots of a straight line."""
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for step in range(steps + 1):
        share = step / steps
        yield (
            round(start[0] + share * (end[0] - start[0])),
            round(start[1] + share * (end[1] - start[1])),
        )


def _choose_month_block(remembered: int | None, level: int, bar_height: int) -> str:
    """Return the character of a month's bar in the line that is `level` lines above its foot."""
    if remembered is None:
        return " "
    if remembered < _MONTH_FLOOR_PERCENT:
        return "↓" if level == 0 else " "
    above_floor = remembered - _MONTH_FLOOR_PERCENT
    eighths = round(8 * bar_height * above_floor / (100 - _MONTH_FLOOR_PERCENT))
    return _VERTICAL_BLOCKS[min(max(eighths - 8 * level, 0), 8)]


def _render_month_line(by_month: MonthBars, width: int, styles: Mapping[str, str]) -> Text:
    """Render the figures of the latest months in one line, without months that have none."""
    line = Text("months ", styles["faint"])
    months = [month for month in by_month.months if month.remembered is not None]
    cells = [f"{month.label} {month.remembered}" for month in months]
    cell_width = max(map(cell_len, cells)) + 2
    fitting = max(1, (width - line.cell_len) // cell_width)
    for month in months[-fitting:]:
        line.append(f"{month.label} ", styles["faint"])
        line.append(f"{month.remembered}".ljust(cell_width - cell_len(month.label) - 1))
    line.rstrip()
    return line
