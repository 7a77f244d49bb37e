"""A graph of lines and points on two axes, in braille dots; estimates as dots with whiskers.

A line of text holds four rows of two dots a column, so that a curve is finer than its letters;
half blocks take their place where a console's font has no braille. All is drawn when the widget is,
in milliseconds, for a graph opens while models are at work.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from rich.text import Text
from textual.app import RenderResult
from textual.reactive import reactive
from textual.widget import Widget

from srs_eval.stats.intervals import Interval

MARGIN = 4  # columns of the labels left of the vertical axis
_ACROSS, _DOWN = 2, 4  # dots of a letter
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # Unicode's, by row and column
_BRAILLE = 0x2800
_ONE_VALUE = 1e-5  # spans of a scale below which its labels would be the same
_UPPER, _LOWER = 0x1B, 0xE4  # the dots of a letter's halves


@dataclass(frozen=True)
class Mark:
    """A line through points in the order given, or a letter at each, over whatever lies there."""

    x: Sequence[float]
    y: Sequence[float]
    style: str  # as rich takes it
    letter: str = ""


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, with labels at some values."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]] = ()

    def place(self, value: float, steps: int) -> int:
        """The one of `steps` equal steps that a value lies in; beyond them where it lies off."""
        return round((value - self.low) / (self.high - self.low) * (steps - 1))


@dataclass(frozen=True)
class Graph:
    """What a plot shows; later marks lie over earlier ones."""

    marks: Sequence[Mark]
    x: Axis
    y: Axis
    axes_style: str


class Plot(Widget):
    """Shows a `Graph` in whatever room it has."""

    ALLOW_SELECT: ClassVar[bool] = False
    graph: reactive[Graph | None] = reactive(None)

    def render(self) -> RenderResult:
        return "" if self.graph is None else draw(self.graph, *self.size)


def draw(graph: Graph, width: int, height: int) -> Text:
    """The graph in lines of text; nothing where there is no room for it."""
    columns, rows = width - MARGIN - 1, height - 2
    if columns < 4 or rows < 1:
        return Text()
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    for mark in graph.marks:
        if not mark.letter:
            _dots(mark, graph, columns, rows, cells)
            continue
        for x, y in zip(mark.x, mark.y, strict=True):
            place = rows - 1 - graph.y.place(y, rows), graph.x.place(x, columns)
            cells[place] = mark.letter, mark.style
    if not _has_braille():
        cells = {place: (_as_block(letter), style) for place, (letter, style) in cells.items()}
    axes = graph.axes_style
    blank, across = (" ", ""), range(columns)
    lines = [
        [*[blank] * MARGIN, ("│", axes), *(cells.get((row, column), blank) for column in across)]
        for row in range(rows)
    ]
    lines.append([*[blank] * MARGIN, ("└", axes), *[("─", axes)] * columns])
    lines.append([blank] * width)
    for value, label in reversed(graph.y.ticks):
        row = rows - 1 - graph.y.place(value, rows)
        if 0 <= row < rows and lines[row][MARGIN][0] == "│":  # two labels may fall on one row
            shown = label[: MARGIN - 1].rjust(MARGIN - 1).ljust(MARGIN)
            lines[row][: MARGIN + 1] = [*((letter, "") for letter in shown), ("┤", axes)]
    free = 0
    for value, label in graph.x.ticks:
        column = MARGIN + 1 + graph.x.place(value, columns)
        start = min(column - len(label) // 2, width - len(label))
        if MARGIN < column < width and start >= free:
            lines[rows][column] = "┬", axes
            lines[rows + 1][start : start + len(label)] = [(letter, "") for letter in label]
            free = start + len(label) + 1
    return Text("\n").join(map(_runs, lines))


def _runs(cells: Iterable[tuple[str, str]]) -> Text:
    """Letters with their styles as one text."""
    runs = groupby(cells, key=lambda cell: cell[1])
    return Text.assemble(*(("".join(letter for letter, _ in run), style) for style, run in runs))


def _has_braille() -> bool:
    """Neither Linux's own console has it nor, outside Windows Terminal, that of Windows."""
    if sys.platform == "win32":
        return "WT_SESSION" in os.environ or "TERM_PROGRAM" in os.environ
    return os.environ.get("TERM") != "linux"


def _as_block(letter: str) -> str:
    dots = ord(letter) - _BRAILLE
    if not 0 <= dots < 256:
        return letter
    return " ▀▄█"[bool(dots & _UPPER) + 2 * bool(dots & _LOWER)]


def _dots(
    curve: Mark,
    graph: Graph,
    columns: int,
    rows: int,
    cells: dict[tuple[int, int], tuple[str, str]],
) -> None:
    """Add a line's dots to the cells that it runs through."""
    x = [graph.x.place(each, columns * _ACROSS) for each in curve.x]
    y = [rows * _DOWN - 1 - graph.y.place(each, rows * _DOWN) for each in curve.y]
    seen = set()
    for x0, y0, x1, y1 in zip(x, y, x[1:], y[1:], strict=False):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            seen.add((x0 + round((x1 - x0) * step / steps), y0 + round((y1 - y0) * step / steps)))
    for column, row in seen:
        place = row // _DOWN, column // _ACROSS
        if 0 <= place[0] < rows and 0 <= place[1] < columns:
            before = ord(cells.get(place, " ")[0]) - _BRAILLE
            dots = before if 0 <= before < 256 else 0
            dots |= _DOTS[row % _DOWN][column % _ACROSS]
            cells[place] = chr(_BRAILLE + dots), curve.style


DOTS = {"best": "●", "as good": "●", "can't tell yet": "◌", "worse": "○", "below the baseline": "×"}
"""A verdict's dot, at the estimate between whiskers: none rests on colour."""


@dataclass(frozen=True)
class Scale:
    """Which values the first and the last of `width` columns stand for."""

    low: float
    high: float
    width: int

    def column(self, value: float) -> int:
        """Where a value lies; beyond 0 ... width - 1 if it is not on the scale."""
        return round((value - self.low) / (self.high - self.low) * (self.width - 1))

    def whisker(
        self, interval: Interval, dot: str, style: str, line: float | None, line_style: str
    ) -> Text:
        """ "├──●──┤", with a vertical line at `line` behind it, crossed as "┼"."""
        cells = [" "] * self.width
        styles = [""] * self.width
        at = -1 if line is None else self.column(line)
        if 0 <= at < self.width:
            cells[at], styles[at] = "┊", line_style
        low, high = (self.column(end) for end in _ends(interval))
        middle = self.column(interval.estimate)
        last = self.width - 1
        for column in range(max(low, 0), min(high, last) + 1):
            cells[column], styles[column] = "┼" if cells[column] == "┊" else "─", style
        if low != high:
            for column, end in ((low, "├"), (high, "┤")):
                if 0 <= column <= last:
                    cells[column] = end
        if 0 <= middle <= last:
            cells[middle], styles[middle] = dot, style
        elif low > last or middle > last:
            cells[last], styles[last] = "▸", style
        return _runs(zip(cells, styles, strict=True))

    def labels(self, line: float | None, line_style: str) -> Text:
        """Even values, for a column's heading."""
        span = self.high - self.low
        step = even_step(span * 5.5 / self.width)  # a label and some room
        places = max(0, -math.floor(math.log10(step) + 1e-9))
        cells = [" "] * self.width
        values, free = even_values(self.low, self.high, step), 0
        if span < _ONE_VALUE:
            values, places = [(self.low + self.high) / 2], 2
        for value in values:
            label = f"{round(value, places) + 0.0:.{places}f}"  # no "-0"
            label = label.replace("0.", ".", 1) if abs(value) < 1 else label
            start = self.column(value) - len(label) // 2
            if start >= free and start + len(label) <= self.width:
                cells[start : start + len(label)] = label
                free = start + len(label) + 1
        styles = ["dim"] * self.width
        at = -1 if line is None else self.column(line)
        if 0 <= at < self.width and cells[at] == " ":
            cells[at], styles[at] = "┊", line_style
        return _runs(zip(cells, styles, strict=True))


def common_scale(
    intervals: Iterable[Interval], width: int, reference: Interval | None = None
) -> Scale | None:
    """A scale for all intervals; None without any.

    One that lies well beyond `reference` (the baseline, say) is left off, for it would press all
    others together.
    """
    shown = [each for each in intervals if math.isfinite(each.estimate)]
    if not shown or width < 8:
        return None
    best = min(shown, key=lambda each: each.estimate)
    if reference is not None:
        reach = 1.15 * max(reference.estimate - best.estimate, reference.half_width or 0.0)
        shown = [each for each in shown if each.estimate <= best.estimate + reach] or [best]
        shown.append(reference)
    ends = [end for each in shown for end in _ends(each)]
    low, high = min(ends), max(ends)
    room = max(high - low, 1e-6) * 0.02
    return Scale(low - room, high + room, width)


def even_values(low: float, high: float, step: float) -> list[float]:
    """The multiples of a step from `low` to `high`."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(step * number, 9) for number in range(first, last + 1)]


def even_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 0.1 ... that is no less."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * each for each in (1, 2, 5, 10) if power * each >= least * (1 - 1e-9))


def _ends(interval: Interval) -> tuple[float, float]:
    half = 0.0 if math.isnan(interval.half_width) else interval.half_width
    return interval.estimate - half, interval.estimate + half
