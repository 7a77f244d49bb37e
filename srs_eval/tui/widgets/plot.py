"""A graph of lines and points on two axes, in braille dots, as one widget.

A line of text holds four rows of two dots a column, so that a curve is finer than its letters. All
is drawn when the widget is, in milliseconds, for a graph opens while models are at work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

MARGIN = 4  # columns of the labels left of the vertical axis
_ACROSS, _DOWN = 2, 4  # dots of a letter
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # Unicode's, by row and column
_BRAILLE = 0x2800


@dataclass(frozen=True)
class Curve:
    """A line through points, in the order given."""

    x: Sequence[float]
    y: Sequence[float]
    style: str  # as rich takes it


@dataclass(frozen=True)
class Points:
    """The same letter at each point, over whatever lies there."""

    x: Sequence[float]
    y: Sequence[float]
    style: str
    letter: str


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

    marks: tuple[Curve | Points, ...]
    x: Axis
    y: Axis
    axes_style: str


class Plot(Widget):
    """Shows a `Graph` in whatever room it has."""

    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._graph: Graph | None = None
        self._drawn: list[list[tuple[str, str]]] = []  # letters and styles
        self._drawn_at: Size | None = None

    def show(self, graph: Graph | None) -> None:
        self._graph, self._drawn_at = graph, None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        if self._drawn_at != self.size:
            self._drawn_at = self.size
            self._drawn = [] if self._graph is None else draw(self._graph, *self.size)
        if y >= len(self._drawn):
            return Strip.blank(self.size.width, base)
        runs = groupby(self._drawn[y], key=lambda cell: cell[1])
        segments = [
            Segment("".join(letter for letter, _ in run), base + Style.parse(style))
            for style, run in runs
        ]
        return Strip(segments, self.size.width)


def draw(graph: Graph, width: int, height: int) -> list[list[tuple[str, str]]]:
    """Lines of letters with their styles; none where there is no room for a graph."""
    columns, rows = width - MARGIN - 1, height - 2
    if columns < 4 or rows < 1:
        return []
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    for mark in graph.marks:
        if isinstance(mark, Curve):
            _dots(mark, graph, columns, rows, cells)
        else:
            for x, y in zip(mark.x, mark.y, strict=True):
                place = rows - 1 - graph.y.place(y, rows), graph.x.place(x, columns)
                cells[place] = mark.letter, mark.style
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
    return lines


def _dots(
    curve: Curve,
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
