"""Draw graphs of lines and points in braille dots, and estimates as dots with whiskers.

A braille character holds four rows of two dots, so that a curve is finer than letters; half blocks
replace braille where a console's font has none. A graph takes only milliseconds to draw, because
users look at graphs while models keep all cores busy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from rich.text import Text
from textual.app import RenderResult
from textual.reactive import reactive
from textual.widget import Widget

from srs_eval.engine.ranking import Standing
from srs_eval.report.formats import has_braille
from srs_eval.stats.intervals import Interval

MARGIN = 4  # columns of the labels left of the vertical axis
_DOTS_ACROSS = 2  # dots of a braille character, side by side
_DOTS_DOWN = 4
_DOT_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # Unicode's, by row and column
_BRAILLE = 0x2800  # Unicode's braille character without dots; each dot adds its bit
_MIN_SPAN = 1e-5  # span of a scale below which its labels would be equal
_UPPER_HALF = 0x1B  # the bits of the dots in the upper two rows of a character
_LOWER_HALF = 0xE4


@dataclass(frozen=True)
class GraphMark:
    """A line through points in order, or a letter at each point, drawn over earlier marks."""

    x: Sequence[float]
    y: Sequence[float]
    style: str  # a Rich style
    letter: str = ""


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, with labels at some values."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]] = ()

    def position_of(self, value: float, count: int) -> int:
        """Return the index of the nearest of `count` evenly spaced positions on the axis.

        The first is at `low`, the last at `high`. The index of a value off the axis is negative, or
        at least `count`.
        """
        return round((value - self.low) / (self.high - self.low) * (count - 1))


@dataclass(frozen=True)
class PlotGraph:
    """Content of a plot; later marks lie over earlier ones."""

    marks: Sequence[GraphMark]
    x: Axis
    y: Axis
    axes_style: str


class Plot(Widget):
    """Widget that shows a `PlotGraph` in the room it has."""

    ALLOW_SELECT: ClassVar[bool] = False
    graph: reactive[PlotGraph | None] = reactive(None)

    def render(self) -> RenderResult:
        return "" if self.graph is None else draw_graph(self.graph, *self.size)


def draw_graph(graph: PlotGraph, width: int, height: int) -> Text:
    """Return the graph as lines of text, or an empty text where there is no room for it."""
    columns = width - MARGIN - 1
    rows = height - 2
    if columns < 4 or rows < 1:
        return Text()
    cells: dict[tuple[int, int], tuple[str, str]] = {}  # letter and style, by row and column
    for mark in graph.marks:
        if not mark.letter:
            _add_dots(mark, graph, columns, rows, cells)
            continue
        for x, y in zip(mark.x, mark.y, strict=True):
            row = rows - 1 - graph.y.position_of(y, rows)
            column = graph.x.position_of(x, columns)
            cells[row, column] = mark.letter, mark.style
    if not has_braille():
        for position, (letter, style) in cells.items():
            cells[position] = _convert_to_block(letter), style
    axes_style = graph.axes_style
    blank = (" ", "")
    lines = []
    for row in range(rows):
        line = [blank] * MARGIN
        line.append(("│", axes_style))
        for column in range(columns):
            line.append(cells.get((row, column), blank))
        lines.append(line)
    x_axis_line = [blank] * MARGIN
    x_axis_line.append(("└", axes_style))
    x_axis_line.extend([("─", axes_style)] * columns)
    x_label_line = [blank] * width
    for value, label in reversed(graph.y.ticks):
        row = rows - 1 - graph.y.position_of(value, rows)
        if 0 <= row < rows and lines[row][MARGIN][0] == "│":  # two labels may fall on one row
            padded_label = label[: MARGIN - 1].rjust(MARGIN - 1).ljust(MARGIN)
            lines[row][:MARGIN] = [(letter, "") for letter in padded_label]
            lines[row][MARGIN] = "┤", axes_style
    first_free = 0
    for value, label in graph.x.ticks:
        column = MARGIN + 1 + graph.x.position_of(value, columns)
        start = min(column - len(label) // 2, width - len(label))
        if MARGIN < column < width and start >= first_free:
            end = start + len(label)
            x_axis_line[column] = "┬", axes_style
            x_label_line[start:end] = [(letter, "") for letter in label]
            first_free = end + 1
    return Text("\n").join(map(_join_styled, [*lines, x_axis_line, x_label_line]))


def _join_styled(cells: Iterable[tuple[str, str]]) -> Text:
    """Join letters with their styles into one text."""
    text = Text()
    for style, run in groupby(cells, key=lambda cell: cell[1]):
        letters = "".join(letter for letter, _ in run)
        text.append(letters, style)
    return text


def _convert_to_block(letter: str) -> str:
    """Return the block that covers the halves in which a braille letter has dots.

    Return any other letter as it is.
    """
    dots = ord(letter) - _BRAILLE
    if not 0 <= dots < 256:
        return letter
    has_upper = bool(dots & _UPPER_HALF)
    has_lower = bool(dots & _LOWER_HALF)
    if has_upper and has_lower:
        return "█"
    if has_upper:
        return "▀"
    return "▄" if has_lower else " "


def _add_dots(
    curve: GraphMark,
    graph: PlotGraph,
    columns: int,
    rows: int,
    cells: dict[tuple[int, int], tuple[str, str]],
) -> None:
    """Add a line's dots to the `cells` that it runs through."""
    dot_columns = columns * _DOTS_ACROSS
    dot_rows = rows * _DOTS_DOWN
    x = [graph.x.position_of(value, dot_columns) for value in curve.x]
    y = [dot_rows - 1 - graph.y.position_of(value, dot_rows) for value in curve.y]
    dots = set()
    for x0, y0, x1, y1 in zip(x, y, x[1:], y[1:], strict=False):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            dot_column = x0 + round((x1 - x0) * step / steps)
            dot_row = y0 + round((y1 - y0) * step / steps)
            dots.add((dot_column, dot_row))
    for dot_column, dot_row in dots:
        row = dot_row // _DOTS_DOWN
        column = dot_column // _DOTS_ACROSS
        if not (0 <= row < rows and 0 <= column < columns):
            continue
        letter, _ = cells.get((row, column), (" ", ""))
        bits = ord(letter) - _BRAILLE
        if not 0 <= bits < 256:  # a letter that is not braille is replaced
            bits = 0
        bits |= _DOT_BITS[dot_row % _DOTS_DOWN][dot_column % _DOTS_ACROSS]
        cells[row, column] = chr(_BRAILLE + bits), curve.style


VERDICT_DOTS: Mapping[str, str] = {
    Standing.BEST: "●",
    Standing.AS_GOOD: "●",
    Standing.CANT_TELL: "◌",
    Standing.WORSE: "○",
    Standing.BELOW_BASELINE: "×",
}
"""Dots by verdict, drawn at the estimate between whiskers.

They can be told apart without colour."""


@dataclass(frozen=True)
class Scale:
    """A scale of `width` columns, whose first and last stand for `low` and `high`."""

    low: float
    high: float
    width: int

    def column(self, value: float) -> int:
        """Return the column of a value; outside 0 ... width - 1 if it is not on the scale."""
        return round((value - self.low) / (self.high - self.low) * (self.width - 1))

    def draw_interval(
        self, interval: Interval, dot: str, style: str, line: float | None, line_style: str
    ) -> Text:
        """Draw an interval as "├──●──┤" over a vertical line at `line`, crossed as "┼"."""
        letters = [" "] * self.width
        styles = [""] * self.width
        line_column = -1 if line is None else self.column(line)
        if 0 <= line_column < self.width:
            letters[line_column] = "┊"
            styles[line_column] = line_style
        low, high = (self.column(end) for end in _interval_ends(interval))
        middle = self.column(interval.estimate)
        last = self.width - 1
        for column in range(max(low, 0), min(high, last) + 1):
            letters[column] = "┼" if letters[column] == "┊" else "─"
            styles[column] = style
        if low != high:
            if 0 <= low <= last:
                letters[low] = "├"
            if 0 <= high <= last:
                letters[high] = "┤"
        if 0 <= middle <= last:
            letters[middle] = dot
            styles[middle] = style
        elif low > last or middle > last:  # the estimate lies beyond the right end
            letters[last] = "▸"
            styles[last] = style
        return _join_styled(zip(letters, styles, strict=True))

    def draw_labels(self, line: float | None, line_style: str) -> Text:
        """Draw the labels of even values, for a column's heading."""
        span = self.high - self.low
        step = even_step(span * 5.5 / self.width)  # at least 5.5 columns: a label and some room
        if span < _MIN_SPAN:
            values = [(self.low + self.high) / 2]
            decimals = 2
        else:
            values = even_values(self.low, self.high, step)
            decimals = max(0, -math.floor(math.log10(step) + 1e-9))  # log10 may be a bit too low
        letters = [" "] * self.width
        first_free = 0
        for value in values:
            label = f"{round(value, decimals) + 0.0:.{decimals}f}"  # no "-0"
            if abs(value) < 1:
                label = label.replace("0.", ".", 1)
            start = self.column(value) - len(label) // 2
            end = start + len(label)
            if start >= first_free and end <= self.width:
                letters[start:end] = label
                first_free = end + 1
        styles = ["dim"] * self.width
        line_column = -1 if line is None else self.column(line)
        if 0 <= line_column < self.width and letters[line_column] == " ":
            letters[line_column] = "┊"
            styles[line_column] = line_style
        return _join_styled(zip(letters, styles, strict=True))


def fit_scale(
    intervals: Iterable[Interval], width: int, reference: Interval | None = None
) -> Scale | None:
    """Return a scale on which all intervals lie; None without intervals or without room.

    If `reference` (such as the baseline) is given, it lies on the scale, but intervals well beyond
    it may not, because they would press all others together.
    """
    shown = [interval for interval in intervals if math.isfinite(interval.estimate)]
    if not shown or width < 8:
        return None
    best = min(shown, key=lambda interval: interval.estimate)
    if reference is not None:
        reach = 1.15 * max(reference.estimate - best.estimate, reference.half_width or 0.0)
        limit = best.estimate + reach
        shown = [interval for interval in shown if interval.estimate <= limit] or [best]
        shown.append(reference)
    ends: list[float] = []
    for interval in shown:
        ends.extend(_interval_ends(interval))
    low = min(ends)
    high = max(ends)
    margin = max(high - low, 1e-6) * 0.02
    return Scale(low - margin, high + margin, width)


def even_values(low: float, high: float, step: float) -> list[float]:
    """Return the multiples of a step from `low` to `high`, including both if they are multiples."""
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(step * number, 9) for number in range(first, last + 1)]


def even_step(least: float) -> float:
    """Return the smallest of ... 0.1, 0.2, 0.5, 1, 2, 5, 10 ... that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    steps = (power * factor for factor in (1, 2, 5, 10))
    return next(step for step in steps if step >= least * (1 - 1e-9))


def _interval_ends(interval: Interval) -> tuple[float, float]:
    """Return both ends of an interval; the estimate twice if its width is unknown."""
    half_width = 0.0 if math.isnan(interval.half_width) else interval.half_width
    return interval.estimate - half_width, interval.estimate + half_width
