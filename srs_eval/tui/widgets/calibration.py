"""Draw predicted against actual recall, also as a table, and forgetting curves of a model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.app import App, ComposeResult, RenderResult
from textual.color import Color
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import DataTable, Static

from srs_eval.advice.shown.predicted import CurvesTable, RecallCurve
from srs_eval.stats.intervals import CalibrationGraph
from srs_eval.tui.screens.themes import find_palette
from srs_eval.tui.widgets import plot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_VERTICAL_BLOCKS = " ▁▂▃▄▅▆▇█"


class _CountBars(Widget):
    """Bars of the number of reviews in each bin, below the graph and on the same axis."""

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._graph: CalibrationGraph | None = None
        self._limits = (0.0, 1.0)

    def show(self, graph: CalibrationGraph | None, limits: tuple[float, float]) -> None:
        self._graph = graph
        self._limits = limits
        self.refresh()

    def render(self) -> RenderResult:
        columns = self.size.width - plot.MARGIN - 1
        rows = self.size.height
        if self._graph is None or columns < 4 or rows < 1:
            return ""
        low, high = self._limits
        heights = [0.0] * columns
        tallest = int(self._graph.count.max())
        scale = (columns - 1) / (high - low)
        edges = [round((float(edge) - low) * scale) for edge in self._graph.edges]
        for first, last, count in zip(edges, edges[1:], self._graph.count, strict=False):
            for column in range(max(first, 0), min(max(last, first + 1), columns)):
                heights[column] = max(heights[column], int(count) / tallest)
        lines = []
        for rows_below in range(rows - 1, -1, -1):
            is_lowest = rows_below == 0
            bars = ""
            for height in heights:
                eighths = 8 * (rows * height - rows_below)  # of this row are filled
                if is_lowest and eighths:
                    eighths = max(eighths, 1)  # so that each bin with reviews shows
                bars += _VERTICAL_BLOCKS[int(min(8, max(0, round(eighths))))]
            label = "n" if is_lowest else ""
            lines.append(f"{label:>{plot.MARGIN - 1}}  {bars}")
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
        # Created only now, because few users look at the table and its styles take long.
        if value and not self.query(DataTable):
            table: DataTable[Any] = DataTable(cursor_type="row", zebra_stripes=True, cell_padding=0)
            self.mount(table)
        self._draw()

    def show(
        self, graph: CalibrationGraph | None, limits: tuple[float, float] | None = None
    ) -> None:
        """Draw `graph`; `limits` sets both axes so that graphs can be compared."""
        self._graph = graph
        if graph is None:
            self._limits = None
        else:
            self._limits = limits or axis_limits([graph])
        self.set_class(graph is None, "-empty")
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _fill_table(self) -> None:
        table: DataTable[Any] = self.query_one(DataTable)
        table.clear(columns=True)
        if self.size.width >= 36:
            columns = [("pred. %", 8), ("rec. %", 8), ("95 %", 9), ("n", 8)]
            decimals = 1
        else:
            columns = [("pred.", 5), ("rec.", 5), ("95 %", 7), ("n", 5)]
            decimals = 0
        for heading, width in columns:
            table.add_column(Text(heading, justify="right"), width=width)
        if self._graph is None:
            return
        for row in _table_rows(self._graph, decimals):
            table.add_row(*(Text(cell, justify="right") for cell in row))

    def _draw(self) -> None:
        """Draw the graph, and fill the table if it is shown.

        Intervals and the smooth curve are lines. A bin is a dot: ● with at least 1 % of the
        reviews, else ∘.
        """
        graph = self._graph
        if self.as_table:
            self._fill_table()
        if graph is None or self._limits is None or not self.size.width:
            return
        low, high = self._limits
        primary, secondary, faint = chart_colours(self.app)
        is_wide = self.size.width >= 40
        is_large = graph.count >= 0.01 * graph.count.sum()
        # NaN where a bin is empty, which makes these False.
        is_shown = (graph.observed >= low) & (graph.predicted >= low)
        has_interval = (graph.predicted >= low) & (graph.high > low)
        marks = [plot.GraphMark([low, high], [low, high], faint)]  # the diagonal
        for bin_index in has_interval.nonzero()[0].tolist():
            if is_large[bin_index] or is_wide:
                x = float(graph.predicted[bin_index])
                ends = [max(float(graph.low[bin_index]), low), float(graph.high[bin_index])]
                marks.append(plot.GraphMark([x, x], ends, faint))
        is_on_graph = (graph.smooth_p >= low) & (graph.smooth_y >= low)
        smooth_x = graph.smooth_p[is_on_graph].tolist()
        smooth_y = graph.smooth_y[is_on_graph].tolist()
        marks.append(plot.GraphMark(smooth_x, smooth_y, secondary))
        small_bins = is_shown & ~is_large
        marks.append(_make_points(graph, small_bins, faint, "∘"))
        large_bins = is_shown & is_large
        marks.append(_make_points(graph, large_bins, primary, "●" if is_wide else "•"))
        axis = plot.Axis(low, high, _percent_ticks(low, high, 8 if is_wide else 4))
        self.query_one(plot.Plot).graph = plot.PlotGraph(marks, axis, axis, faint)
        self.query_one(_CountBars).show(graph, self._limits)
        self.query_one("#axes", Static).update(
            "→ predicted %   ↑ recalled %" if self.size.width >= 32 else "→predicted ↑recalled"
        )


def _make_points(
    graph: CalibrationGraph, is_chosen: NDArray[np.bool_], style: str, letter: str
) -> plot.GraphMark:
    """Return the points of the chosen bins: recall against prediction."""
    predicted = graph.predicted[is_chosen].tolist()
    observed = graph.observed[is_chosen].tolist()
    return plot.GraphMark(predicted, observed, style, letter)


def _table_rows(graph: CalibrationGraph, decimals: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a model's table, all in percent except the number of reviews."""
    for bin_index in graph.count.nonzero()[0].tolist():
        predicted = 100 * graph.predicted[bin_index]
        recalled = 100 * graph.observed[bin_index]
        low = 100 * graph.low[bin_index]
        high = 100 * graph.high[bin_index]
        yield (
            f"{predicted:.{decimals}f}",
            f"{recalled:.{decimals}f}",
            f"{low:.0f}–{high:.0f}",
            str(int(graph.count[bin_index])),
        )


def chart_colours(app: App[Any]) -> tuple[str, str, str]:
    """Return the colours (#rrggbb) of main marks, of a second curve, and of faint lines."""
    names = ("primary", "secondary", "foreground", "surface")
    primary, secondary, text, ground = (Color.parse(app.theme_variables[name]) for name in names)
    return primary.hex6, secondary.hex6, text.blend(ground, 0.65).hex6


def axis_limits(graphs: Sequence[CalibrationGraph]) -> tuple[float, float]:
    """Return the limits of an axis that is suited to all graphs: a multiple of 0.1, and 1.

    Almost all predictions, and what was observed in their large bins, lie between them.
    """
    import numpy as np

    starts = []
    for graph in graphs:
        # One review in forty may lie left of the axis; the chart's table has them all.
        cumulative_share = np.cumsum(graph.count) / graph.count.sum()
        first_bin = int(np.searchsorted(cumulative_share, 0.025))
        is_large = graph.count[first_bin:] >= 0.01 * graph.count.sum()
        starts.append(float(graph.edges[first_bin]))
        starts.extend(graph.observed[first_bin:][is_large].tolist())
    low = np.floor(min(starts) * 10 + 1e-9) / 10  # 1e-9: 0.7 may be 0.699999...
    return (float(min(max(low, 0.0), 0.8)), 1.0)


def _percent_ticks(low: float, high: float, max_steps: int) -> list[tuple[float, str]]:
    """Return evenly spaced shares, 5 % or more apart, each with its label in percent."""
    step = plot.even_step(max((high - low) / max_steps, 0.05))
    return [(share, f"{100 * share:.0f}") for share in plot.even_values(low, high, step)]


_DAY_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_RECALL_MARGIN = 0.05  # recall shown below the lowest point
OTHER_MARK = "∘"  # marks the other model's expected recall


class CurvesChart(Vertical):
    """Forgetting curves: letters show actual recall with 95 % intervals, lines expected recall.

    Another model's curves over the same reviews can be drawn, too; each model then has one colour.
    """

    def __init__(self, curves: CurvesTable) -> None:
        super().__init__()
        self._curves = curves.curves
        self._other: tuple[RecallCurve, ...] = ()

    def compose(self) -> ComposeResult:
        yield plot.Plot()
        yield Static(id="key", markup=False)

    def on_mount(self) -> None:
        self.show()

    def show(self, other: CurvesTable | None = None, names: tuple[str, str] = ("", "")) -> None:
        """Draw the curves and, if given, those of an `other` model.

        `names` are this model's and the other's, for the legend.
        """
        self._other = () if other is None else other.curves
        legend = " · ".join(f"{letter} {curve.name}" for letter, curve in self._assign_letters())
        text = f"{legend}   → days   ↑ recalled %, lines: expected"
        if self._other:
            this_name, other_name = names
            text += f" by {this_name}, with {OTHER_MARK} by {other_name}"
        self.query_one("#key", Static).update(text)
        self.draw()

    def _assign_letters(self) -> list[tuple[str, RecallCurve]]:
        """Return each curve with the first letter of its name, or with its number."""
        letters = [curve.name[0] for curve in self._curves]
        if len(set(letters)) < len(letters) or not all(map(str.isalpha, letters)):
            letters = [str(number) for number in range(1, len(letters) + 1)]
        return list(zip(letters, self._curves, strict=True))

    def draw(self) -> None:
        """Draw the curves in the colours of the theme."""
        if not self._curves:
            return
        primary, secondary, faint = chart_colours(self.app)
        hues = list(find_palette(self.app.current_theme).families.values())
        low, last_day = self._axis_limits()
        marks: list[plot.GraphMark] = []
        for number, (letter, curve) in enumerate(self._assign_letters()):
            log_days = [math.log10(day) for day in curve.days]
            hue = primary if self._other else hues[number % len(hues)]
            for log_day, interval in zip(log_days, curve.recalled, strict=True):
                ends = [max(interval.low, low), min(interval.high, 1.0)]
                if all(map(math.isfinite, ends)):
                    marks.append(plot.GraphMark([log_day, log_day], ends, faint))
            marks.append(plot.GraphMark(log_days, list(curve.expected), hue))
            recalled = [interval.estimate for interval in curve.recalled]
            recalled_style = "bold" if self._other else f"bold {hue}"  # recall is the same for both
            marks.append(plot.GraphMark(log_days, recalled, recalled_style, letter))
        for curve in self._other:
            log_days = [math.log10(day) for day in curve.days]
            marks.insert(0, plot.GraphMark(log_days, list(curve.expected), secondary))
            marks.append(plot.GraphMark(log_days, list(curve.expected), secondary, OTHER_MARK))
        day_ticks = [(math.log10(day), str(day)) for day in _DAY_TICKS if day <= last_day]
        x_axis = plot.Axis(-0.05, math.log10(last_day) + 0.05, day_ticks)
        y_axis = plot.Axis(low, 1.0, _percent_ticks(low, 1.0, 6))
        self.query_one(plot.Plot).graph = plot.PlotGraph(marks, x_axis, y_axis, faint)

    def _axis_limits(self) -> tuple[float, float]:
        """Return the recall at which the upright axis begins, and the last day."""
        shares: list[float] = []
        for curve in (*self._curves, *self._other):
            shares.extend(curve.expected)
        days: list[float] = []
        for curve in self._curves:
            shares.extend(interval.estimate for interval in curve.recalled)
            days.extend(curve.days)
        low = math.floor((min(shares) - _RECALL_MARGIN) * 10) / 10
        return min(max(low, 0.0), 0.9), max(max(days), 2.0)
