"""The five panes of the first screen as text, for whatever width and height."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from srs_eval.advice.sentences import Bar, ByMonth, FirstScreen, Heading, Item, Line, Pane, Row
from srs_eval.report.formats import cut

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAIN: Mapping[str, str] = {
    "": "",
    "fine": "green",
    "look": "yellow",
    "not yet": "dim",
    "bar": "cyan",
    "faint": "dim",
}
"""Rich's styles by level, and of a bar and what stands beside it."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LOWER = " ▁▂▃▄▅▆▇█"
_LEAST_BAR, _MOST_BAR = 6, 44
_SHORT_BAR = 12  # columns below which bars rather stand below their figures
_MOST_OF_MONTHS = 6  # lines
_LOWEST_MONTH = 50  # of 100: an empty column of a month


def as_text(screen: FirstScreen, width: int) -> RenderableType:
    """The five panes, one below another, and what stands below them."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel

    panes = [
        Panel(
            Text("\n").join(drawn(pane, width - 4, 20, airy=False)),
            box=box.ROUNDED,
            title=f"{number} {pane.title}",
            title_align="left",
            width=width,
        )
        for number, pane in enumerate(screen.panes, start=1)
    ]
    return Group(*panes, *(Text(line, PLAIN["not yet"]) for line in below(screen, width, 9)))


def below(screen: FirstScreen, width: int, height: int) -> list[str]:
    """What stands below the panes; the last of it takes the lines that are left."""
    lines: list[str] = []
    for number, each in enumerate(screen.below, start=1):
        left = height - len(lines) - (len(screen.below) - number)
        lines += _wrapped(each.text, width - 2, left)
    return [f" {line}" for line in lines]


def without_frame(
    number: int, pane: Pane, width: int, most: int, paint: Mapping[str, str] = PLAIN
) -> list[Text]:
    """ "4 One preset or several?  You have one. Keep it.", in up to so many lines."""
    title = Text.assemble((f"{number} {pane.title}", paint["bar"]), "  ")
    short = replace(pane.short, text=pane.short.text.strip(), right="")
    first, *others = _line(short, width - title.cell_len, paint, most)
    return [title + first, *(Text(" " * title.cell_len) + line for line in others)]


def drawn(
    pane: Pane, width: int, height: int, paint: Mapping[str, str] = PLAIN, airy: bool = True
) -> list[Text]:
    """A pane's lines; what it can spare goes first where there is too little room.

    `airy`: as in the app, which has keys and fills its room.
    """
    kept, blocks = _kept(pane, width, height, paint, airy)
    lines: list[Text] = []
    for item, block in zip(kept, blocks, strict=True):
        left = height - len(lines)
        if isinstance(item, Line) and 0 < left < len(block):
            block = _line(item, width, paint, left)
        lines += block[:left]
    return lines


def left_out(pane: Pane, width: int, height: int) -> int:
    """How many items of a pane `drawn` in the app have no room."""
    kept, blocks = _kept(pane, width, height, PLAIN, airy=True)
    begins = (sum(map(len, blocks[:place])) for place in range(len(blocks)))
    return len(pane.items) - len(kept) + sum(each >= height for each in begins)


def needed(pane: Pane, width: int) -> int:
    """The least lines in the app that leave nothing out."""
    return sum(map(len, _blocks(pane.items, width, 0, PLAIN, airy=True)))


def _kept(
    pane: Pane, width: int, height: int, paint: Mapping[str, str], airy: bool
) -> tuple[list[Item], list[list[Text]]]:
    """The items there is room for, each with its lines."""
    kept = list(pane.items)
    while True:
        blocks = _blocks(kept, width, height, paint, airy)
        spare = max((each.spare for each in kept), default=0)
        if not spare or sum(map(len, blocks)) <= height:
            return kept, blocks
        last = max(place for place, each in enumerate(kept) if each.spare == spare)
        del kept[last]


def _blocks(
    items: Sequence[Item], width: int, height: int, paint: Mapping[str, str], airy: bool
) -> list[list[Text]]:
    bars = [each for each in items if isinstance(each, Bar | Heading)]
    label = max((cell_len(each.label) for each in bars), default=0) + 1
    figures = [
        max(cell_len(cell) for cell in column) + 2
        for column in zip(*(each.figures for each in bars), strict=True)
    ]
    rows = [each for each in items if isinstance(each, Row)]
    room = width - 2 - label - sum(figures)
    note = max(
        (cell_len(each.note) + 1 for each in bars if isinstance(each, Bar) and each.note), default=0
    )
    bar = min(room - note, _MOST_BAR)
    blocks: list[list[Text]] = []
    for item in items:
        match item:
            case Line():
                kept = item.right or (item.key if airy else "")
                blocks.append(_line(replace(item, right=kept), width, paint))
            case Heading() | Bar():
                blocks.append([_bar(item, label, figures, bar, paint)])
            case Row():
                blocks.append([_row(item, rows, width, paint)])
            case ByMonth():
                blocks.append([])
    left = height - sum(map(len, blocks))
    below = [each for each in items if isinstance(each, Bar)]
    if bar < _SHORT_BAR and left >= len(below) + any(isinstance(each, ByMonth) for each in items):
        for place, item in enumerate(items):
            if isinstance(item, Bar):
                beneath = Text("  ").append_text(_drawn(item, min(width - 4, _MOST_BAR), paint))
                blocks[place] = [_bar(item, label, figures, 0, paint), beneath]
        left -= len(below)
    for place, item in enumerate(items):
        if isinstance(item, ByMonth):
            lines = max(1, min(left, _MOST_OF_MONTHS if airy else 2))
            blocks[place] = _months(item, width, lines, paint)
            left -= lines
    if airy and left >= len(blocks) > 2:  # room to breathe
        blocks = [[*block, Text()] for block in blocks]
    return blocks


def _line(line: Line, width: int, paint: Mapping[str, str], most: int = 9) -> list[Text]:
    style = paint[line.level]
    mark = f"{line.mark} " if line.mark else ""
    beside = cell_len(line.right) + 2 if line.right else 0
    indent = cell_len(mark) or len(line.text) - len(line.text.lstrip())
    lines = _wrapped(line.text.strip(), max(width - indent - beside, 12), most)
    shown = []
    for number, text in enumerate(lines):
        begins = mark if number == 0 and mark else " " * indent
        first = Text.assemble((begins, style), (text, style if line.level != "fine" else ""))
        if number == 0 and line.right:
            first.append(" " * max(width - first.cell_len - cell_len(line.right), 1))
            first.append(line.right, style)
        shown.append(first)
    return shown


def _wrapped(text: str, width: int, most: int) -> list[str]:
    """Broken at blanks; a wide character counts as two columns. "…" ends what has no room."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    if len(lines) > most:
        last = lines[most - 1]
        while cell_len(last) > width - 2 and " " in last:
            last = last.rpartition(" ")[0]
        lines[most - 1 :] = [f"{last.rstrip(' ,;:·')} …"]
    return lines


def _bar(
    bar: Bar | Heading, label: int, figures: Sequence[int], size: int, paint: Mapping[str, str]
) -> Text:
    style = paint[bar.level if isinstance(bar, Bar) else "faint"]
    shown = Text(set_cell_size(bar.label, label), style)
    for cell, room in zip(bar.figures, figures, strict=True):
        shown.append(f"{cell:>{room}}", style)
    if isinstance(bar, Heading):
        return shown
    if size >= _LEAST_BAR:
        shown.append("  ").append_text(_drawn(bar, size, paint))
    if bar.note:
        shown.append(f" {bar.note}", style)
    shown.rstrip()
    return shown


def _drawn(bar: Bar, size: int, paint: Mapping[str, str]) -> Text:
    """The bar itself, its range and its mark, over `size` columns."""
    style = paint[bar.level] or paint["bar"]
    full = _filled(bar.share, size)
    ranges = "▒" * (round(bar.until * size) - len(full))
    shown = Text.assemble((full + ranges, style), " " * (size - len(full + ranges)))
    at = size if bar.tick is None else min(int(bar.tick * size), size - 1)
    if len(full) <= at < size:
        shown = Text.assemble(shown[:at], ("┆", paint["faint"]), shown[at + 1 :])
    return shown


def _filled(share: float, size: int) -> str:
    eighths = round(8 * size * min(max(share, 0.0), 1.0))
    whole, part = divmod(eighths, 8)
    return f"{'█' * whole}{_EIGHTHS[part].strip()}"[:size]


def _row(row: Row, rows: Sequence[Row], width: int, paint: Mapping[str, str]) -> Text:
    others = [max(cell_len(each.cells[k]) for each in rows) for k in range(1, len(row.cells))]
    room = max(width - sum(others) - 3 * len(others), 8)
    name = min(max(cell_len(each.cells[0]) for each in rows), room)
    shown = Text.assemble(set_cell_size(cut(row.cells[0], name), name))
    for number, (cell, size) in enumerate(zip(row.cells[1:], others, strict=True), start=2):
        style = "bold" if row.level and number == len(row.cells) else ""
        shown.append("   ").append(set_cell_size(cell, size), style)
    return shown


def _months(by_month: ByMonth, width: int, height: int, paint: Mapping[str, str]) -> list[Text]:
    """Names with figures; bars below them where there are more lines."""
    cells = [f"{name} {figure}" for name, figure in by_month.months]
    lead = "months"
    size = max(map(cell_len, cells)) + 2
    fits = max(1, (width - len(lead) - 1) // size)
    months = by_month.months[-fits:]
    rows = [Text.assemble((f"{lead} ", paint["faint"]))]
    for name, figure in months:
        rows[0].append(f"{name} ", paint["faint"]).append(
            f"{figure}".ljust(size - cell_len(name) - 1)
        )
    for level in reversed(range(height - 1)):
        line = Text(" " * (len(lead) + 1))
        for _, figure in months:
            full = 8 * (height - 1) * max(figure - _LOWEST_MONTH, 1) / (100 - _LOWEST_MONTH)
            part = min(max(round(full) - 8 * level, 0), 8)
            line.append(f"{_LOWER[part] * (size - 2)}  ", paint["bar"])
        rows.append(line)
    for row in rows:
        row.rstrip()
    return rows
