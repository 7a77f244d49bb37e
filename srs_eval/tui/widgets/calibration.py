"""Graphs of a model: predicted against actual recall, also as a table; forgetting curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text
from textual.app import App, ComposeResult, RenderResult
from textual.color import Color
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import DataTable, Static

from srs_eval.advice.shown.predicted import Curve, Curves
from srs_eval.stats.intervals import CalibrationGraph
from srs_eval.tui.screens.themes import palette
from srs_eval.tui.widgets import plot

_EIGHTHS = " ▁▂▃▄▅▆▇█"


class _CountBars(Widget):
    """How many reviews each bin holds, as bars below the graph on the same axis."""

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._graph: CalibrationGraph | None = None
        self._limits = (0.0, 1.0)

    def show(self, graph: CalibrationGraph | None, limits: tuple[float, float]) -> None:
        self._graph, self._limits = graph, limits
        self.refresh()

    def render(self) -> RenderResult:
        columns, rows = self.size.width - plot.MARGIN - 1, self.size.height
        if self._graph is None or columns < 4 or rows < 1:
            return ""
        low, high = self._limits
        heights = [0.0] * columns
        tallest = int(self._graph.count.max())
        scale = (columns - 1) / (high - low)
        edges = [round((float(edge) - low) * scale) for edge in self._graph.edges]
        for first, last, number in zip(edges, edges[1:], self._graph.count, strict=False):
            for column in range(max(first, 0), min(max(last, first + 1), columns)):
                heights[column] = max(heights[column], int(number) / tallest)
        lines = []
        for below in range(rows - 1, -1, -1):  # rows of eighths; every bin has one at least
            eighths = [8 * (rows * height - below) for height in heights]
            eighths = [max(each, 1) if each and not below else each for each in eighths]
            bars = "".join(_EIGHTHS[int(min(8, max(0, round(each))))] for each in eighths)
            lines.append(f"{'' if below else 'n':>{plot.MARGIN - 1}}  {bars}")
        return Content("\n".join(lines))


class CalibrationChart(Vertical):
    """One model's calibration as a graph or a table."""

    def __init__(self, *, id: str | None = None, count_rows: int = 1) -> None:
        super().__init__(id=id, classes="-empty")
        self._graph: CalibrationGraph | None = None
        self._limits: tuple[float, float] | None = None
        self._count_rows = count_rows

    def compose(self) -> ComposeResult:
        yield plot.Plot()
        bars = _CountBars()
        bars.styles.height = self._count_rows
        yield bars
        yield Static(id="axes")

    @property
    def as_table(self) -> bool:
        return self.has_class("-table")

    @as_table.setter
    def as_table(self, value: bool) -> None:
        self.set_class(value, "-table")
        if value and not self.query(DataTable):  # few look at it, and its styles take long
            table: DataTable[Any] = DataTable(cursor_type="row", zebra_stripes=True, cell_padding=0)
            self.mount(table)
        self._draw()

    def show(
        self, graph: CalibrationGraph | None, limits: tuple[float, float] | None = None
    ) -> None:
        """Draw `graph`; `limits` of both axes where graphs are to be compared."""
        self._graph = graph
        self._limits = None if graph is None else limits or axis_limits([graph])
        self.set_class(graph is None, "-empty")
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _fill_table(self) -> None:
        table: DataTable[Any] = self.query_one(DataTable)
        table.clear(columns=True)
        graph, wide = self._graph, self.size.width >= 36
        columns = [("pred. %", 8), ("rec. %", 8), ("95 %", 9), ("n", 8)]
        if not wide:
            columns = [("pred.", 5), ("rec.", 5), ("95 %", 7), ("n", 5)]
        for heading, width in columns:
            table.add_column(Text(heading, justify="right"), width=width)
        if graph is None:
            return
        for cells in _in_table(graph, int(wide)):
            table.add_row(*(Text(cell, justify="right") for cell in cells))

    def _draw(self) -> None:
        """Intervals, the smooth curve, and bins: of few reviews ∘, of at least 1 % of them ●."""
        graph = self._graph
        if self.as_table:
            self._fill_table()
        if graph is None or self._limits is None or not self.size.width:
            return
        low, high = self._limits
        primary, secondary, faint = chart_colours(self.app)
        wide = self.size.width >= 40
        large = graph.count >= 0.01 * graph.count.sum()
        inside = (graph.observed >= low) & (graph.predicted >= low)  # NaN where empty: False
        marks = [plot.Mark([low, high], [low, high], faint)]
        for place in ((graph.predicted >= low) & (graph.high > low)).nonzero()[0].tolist():
            if large[place] or wide:
                x = float(graph.predicted[place])
                ends = [max(float(graph.low[place]), low), float(graph.high[place])]
                marks.append(plot.Mark([x, x], ends, faint))
        shown = (graph.smooth_p >= low) & (graph.smooth_y >= low)
        smooth = graph.smooth_p[shown].tolist(), graph.smooth_y[shown].tolist()
        marks.append(plot.Mark(*smooth, secondary))
        for bins, letter, style in (
            (inside & ~large, "∘", faint),
            (inside & large, "●" if wide else "•", primary),
        ):
            points = graph.predicted[bins].tolist(), graph.observed[bins].tolist()
            marks.append(plot.Mark(*points, style, letter))
        axis = plot.Axis(low, high, _percent_ticks(low, high, 8 if wide else 4))
        self.query_one(plot.Plot).graph = plot.Graph(marks, axis, axis, faint)
        self.query_one(_CountBars).show(graph, self._limits)
        self.query_one("#axes", Static).update(
            "→ predicted %   ↑ recalled %" if self.size.width >= 32 else "→predicted ↑recalled"
        )


def _in_table(graph: CalibrationGraph, places: int) -> Iterator[tuple[str, ...]]:
    """Rows of a model's table, all in percent but the number of reviews."""
    for row in graph.count.nonzero()[0].tolist():
        predicted, recalled, low, high = (
            100 * each[row] for each in (graph.predicted, graph.observed, graph.low, graph.high)
        )
        shares = f"{predicted:.{places}f}", f"{recalled:.{places}f}"
        yield *shares, f"{low:.0f}–{high:.0f}", str(int(graph.count[row]))


def chart_colours(app: App[Any]) -> tuple[str, str, str]:
    """Colours (#rrggbb) of the points, the smooth curve and the guide lines."""
    names = ("primary", "secondary", "foreground", "surface")
    primary, secondary, text, ground = (Color.parse(app.theme_variables[name]) for name in names)
    return primary.hex6, secondary.hex6, text.blend(ground, 0.65).hex6


def axis_limits(graphs: Sequence[CalibrationGraph]) -> tuple[float, float]:
    """From a tenth that lies below almost all predictions and large bins to 1."""
    import numpy as np

    starts = []
    for graph in graphs:
        # One review in forty may lie left of the axis; the table holds them all.
        below = np.cumsum(graph.count) / graph.count.sum()
        place = int(np.searchsorted(below, 0.025))
        large = graph.count[place:] >= 0.01 * graph.count.sum()
        starts.append(float(graph.edges[place]))
        starts.extend(graph.observed[place:][large].tolist())
    low = np.floor(min(starts) * 10 + 1e-9) / 10
    return (float(min(max(low, 0.0), 0.8)), 1.0)


def _percent_ticks(low: float, high: float, at_most: int) -> list[tuple[float, str]]:
    """Even shares, each with its label in percent."""
    step = plot.even_step(max((high - low) / at_most, 0.05))
    return [(each, f"{100 * each:.0f}") for each in plot.even_values(low, high, step)]


_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_LEAST = 0.05  # of recall, below the lowest point


OTHER = "∘"  # at what the other model expected


class CurvesChart(Vertical):
    """Letters are what was recalled, with 95 % intervals; lines are what was expected.

    With another model's curves over the same reviews both are drawn, each model in its colour.
    """

    def __init__(self, curves: Curves) -> None:
        super().__init__()
        self._curves = curves.curves
        self._other: tuple[Curve, ...] = ()

    def compose(self) -> ComposeResult:
        yield plot.Plot()
        yield Static(id="key", markup=False)

    def on_mount(self) -> None:
        self.show()

    def show(self, other: Curves | None = None, names: tuple[str, str] = ("", "")) -> None:
        """Draw the curves, with those of an `other` model if it is given; names: this, other."""
        self._other = () if other is None else other.curves
        lettered = " · ".join(f"{letter} {curve.name}" for letter, curve in self._lettered())
        said = f"{lettered}   → days   ↑ recalled %, lines: expected"
        if self._other:
            said += f" by {names[0]}, with {OTHER} by {names[1]}"
        self.query_one("#key", Static).update(said)
        self.draw()

    def _lettered(self) -> list[tuple[str, Curve]]:
        """Each curve by the first letter of its name, or by its number."""
        letters = [curve.name[0] for curve in self._curves]
        if len(set(letters)) < len(letters) or not all(map(str.isalpha, letters)):
            letters = [str(number) for number in range(1, len(letters) + 1)]
        return list(zip(letters, self._curves, strict=True))

    def draw(self) -> None:
        """In the colours of the theme."""
        if not self._curves:
            return
        primary, secondary, faint = chart_colours(self.app)
        hues = list(palette(self.app.current_theme).families.values())
        low, last = self._limits()
        marks: list[plot.Mark] = []
        for number, (letter, curve) in enumerate(self._lettered()):
            x = [math.log10(day) for day in curve.days]
            hue = primary if self._other else hues[number % len(hues)]
            for place, interval in zip(x, curve.recalled, strict=True):
                ends = [max(interval.low, low), min(interval.high, 1.0)]
                if math.isfinite(ends[0]) and math.isfinite(ends[1]):
                    marks.append(plot.Mark([place, place], ends, faint))
            marks.append(plot.Mark(x, list(curve.expected), hue))
            recalled = [interval.estimate for interval in curve.recalled]
            recalled_style = "bold" if self._other else f"bold {hue}"  # both models met the same
            marks.append(plot.Mark(x, recalled, recalled_style, letter))
        for curve in self._other:
            x = [math.log10(day) for day in curve.days]
            marks.insert(0, plot.Mark(x, list(curve.expected), secondary))
            marks.append(plot.Mark(x, list(curve.expected), secondary, OTHER))
        days = [(math.log10(day), str(day)) for day in _TICKS if day <= last]
        x_axis = plot.Axis(-0.05, math.log10(last) + 0.05, days)
        y_axis = plot.Axis(low, 1.0, _percent_ticks(low, 1.0, 6))
        self.query_one(plot.Plot).graph = plot.Graph(marks, x_axis, y_axis, faint)

    def _limits(self) -> tuple[float, float]:
        """The lowest recall and the last day of the axes."""
        shares = [
            *(each for curve in (*self._curves, *self._other) for each in curve.expected),
            *(each.estimate for curve in self._curves for each in curve.recalled),
        ]
        last = max(day for curve in self._curves for day in curve.days)
        low = math.floor((min(shares) - _LEAST) * 10) / 10
        return min(max(low, 0.0), 0.9), max(last, 2.0)
