"""The calibration graph: predicted against actual recall, with counts, also as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.app import App, ComposeResult, RenderResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import DataTable, Static

from srs_eval import words
from srs_eval.metrics import CalibrationGraph

if TYPE_CHECKING:
    from textual_plot import PlotWidget

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_MARGIN_LEFT = 4  # columns of the vertical axis's labels


class CountBars(Widget):
    """How many reviews each bin holds, as bars below the graph on the same axis."""

    DEFAULT_CSS = """
    CountBars { height: 1; color: $primary 70%; }
    """
    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._graph: CalibrationGraph | None = None
        self._limits = (0.0, 1.0)

    def show(self, graph: CalibrationGraph | None, limits: tuple[float, float]) -> None:
        self._graph, self._limits = graph, limits
        self.refresh()

    def render(self) -> RenderResult:
        left = _MARGIN_LEFT + 1
        columns, rows = self.size.width - left - 1, self.size.height
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
        for row in range(rows):
            line = ""
            for height in heights:
                eighths = height * rows * 8 - (rows - 1 - row) * 8
                # A bin with few reviews still gets a visible bar.
                least = 1 if height and row == rows - 1 else 0
                line += _EIGHTHS[int(min(8, max(least, round(eighths))))]
            name = "n".rjust(_MARGIN_LEFT) if row == rows - 1 else " " * _MARGIN_LEFT
            lines.append(f"{name} {line}")
        return Content("\n".join(lines))


class CalibrationChart(Vertical):
    """One model's calibration as a graph or a table."""

    DEFAULT_CSS = """
    CalibrationChart {
        height: 1fr;
        & #empty { color: $text-muted; content-align: center middle; height: 1fr; width: 1fr; }
        & PlotWidget { height: 1fr; }
        & PlotWidget > .plot--axis { color: $text-disabled; }
        & PlotWidget > .plot--tick { color: $text-muted; text-style: none; }
        & PlotWidget > .plot--label { color: $text-muted; text-style: none; }
        & #axes { height: 1; color: $text-muted; text-align: right; padding-right: 1; }
        & #plot { background: $surface; }
        & DataTable { height: 1fr; display: none; background: $surface;
                      scrollbar-size-vertical: 1; overflow-x: hidden; }
        &.-table { PlotWidget, CountBars, #axes { display: none; } DataTable { display: block; } }
        &.-empty { PlotWidget, CountBars, #axes { visibility: hidden; } }
    }
    """

    def __init__(self, *, id: str | None = None, count_rows: int = 1) -> None:
        super().__init__(id=id, classes="-empty")
        self._graph: CalibrationGraph | None = None
        self._limits: tuple[float, float] | None = None
        self._count_rows = count_rows
        self._plot: PlotWidget | None = None

    def compose(self) -> ComposeResult:
        bars = CountBars()
        bars.styles.height = self._count_rows
        yield bars
        yield Static(id="axes")
        table: DataTable[Any] = DataTable(cursor_type="row", zebra_stripes=True, cell_padding=0)
        yield table

    @property
    def is_drawn(self) -> bool:
        """Whether the graph given to `show` is on the screen."""
        return self._graph is None or (self._plot is not None and self._plot.is_mounted)

    @property
    def as_table(self) -> bool:
        return self.has_class("-table")

    @as_table.setter
    def as_table(self, value: bool) -> None:
        self.set_class(value, "-table")

    def show(
        self, graph: CalibrationGraph | None, limits: tuple[float, float] | None = None
    ) -> None:
        """Draw `graph`; `limits` of both axes where graphs are to be compared."""
        self._graph = graph
        self._limits = None if graph is None else limits or axis_limits([graph])
        self.set_class(graph is None, "-empty")
        self._fill_table()
        if graph is not None and self._plot is None:
            # The chart library is imported only when the first chart is shown.
            from textual_plot import PlotWidget

            self._plot = PlotWidget(allow_pan_and_zoom=False)
            self._plot.can_focus = False
            self.run_worker(self._mount(self._plot))
        else:
            self._draw()

    async def _mount(self, plot: PlotWidget) -> None:
        await self.mount(plot, before=0)
        self._draw()
        self.call_after_refresh(self._draw)  # once more, in the room that the layout leaves it

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())

    def on_unmount(self) -> None:
        self.app.theme_changed_signal.unsubscribe(self)  # it would be kept for ever

    def on_resize(self) -> None:
        self._fill_table()
        self._draw()

    def _fill_table(self) -> None:
        table: DataTable[Any] = self.query_one(DataTable)
        wide = self.size.width >= 36
        columns = [("predicted", 10), ("recalled", 10), ("95 %", 9), ("reviews", 8)]
        if not wide:
            columns = [("pred.", 5), ("rec.", 5), ("95 %", 7), ("n", 5)]
        table.clear(columns=True)
        for heading, width in columns:
            table.add_column(Text(heading, justify="right"), width=width)
        if self._graph is None:
            return
        graph = self._graph
        for row in graph.count.nonzero()[0].tolist():
            predicted, recalled = graph.predicted[row], graph.observed[row]
            number = int(graph.count[row])
            low, high = f"{100 * graph.low[row]:.0f}", f"{100 * graph.high[row]:.0f}"
            if wide:
                interval = f"{low} – {high}"
                cells = [words.percent(predicted), words.percent(recalled), interval]
                cells.append(words.count(number))
            else:
                cells = [f"{100 * predicted:.0f}", f"{100 * recalled:.0f}", f"{low}–{high}"]
                cells.append(str(number))
            table.add_row(*(Text(cell, justify="right") for cell in cells))

    def _draw(self) -> None:
        graph, plot = self._graph, self._plot
        if graph is None or plot is None or not plot.is_mounted or self._limits is None:
            return
        import numpy as np
        from textual_plot import HiResMode

        low, high = self._limits
        primary, secondary, faint = chart_colours(self.app)
        wide = self.size.width >= 40
        plot.margin_top = 0
        plot.margin_left = _MARGIN_LEFT
        plot.margin_bottom = 1
        plot.clear()
        plot.set_xlimits(low, high)
        plot.set_ylimits(low, high)
        ticks = _ticks(low, high, 8 if wide else 4)
        plot.set_x_formatter(percent_axis())
        plot.set_y_formatter(percent_axis())
        plot.set_xticks(ticks)
        plot.set_yticks(ticks)
        plot.plot(
            [low, high],
            [low, high],
            line_style=faint,
            hires_mode=HiResMode.BRAILLE,
        )
        large = graph.count >= 0.01 * graph.count.sum()
        inside = (graph.observed >= low) & (graph.predicted >= low)  # NaN where empty: False
        for place in np.flatnonzero((graph.predicted >= low) & (graph.high > low)):
            if large[place] or wide:
                x = graph.predicted[place]
                plot.plot(
                    [x, x],
                    [max(graph.low[place], low), graph.high[place]],
                    line_style=faint,
                    hires_mode=HiResMode.BRAILLE,
                )
        drawn = (graph.smooth_p >= low) & (graph.smooth_y >= low)
        plot.plot(
            graph.smooth_p[drawn],
            graph.smooth_y[drawn],
            line_style=secondary,
            hires_mode=HiResMode.BRAILLE,
        )
        for bins, marker, style in (
            (inside & ~large, "∘", faint),
            (inside & large, "●" if wide else "•", primary),
        ):
            plot.scatter(
                graph.predicted[bins], graph.observed[bins], marker=marker, marker_style=style
            )
        plot.refresh(layout=True)  # else its canvas keeps the size of the layout before
        self.query_one(CountBars).show(graph, self._limits)
        self.query_one("#axes", Static).update(
            "→ predicted %   ↑ recalled %" if self.size.width >= 32 else "→predicted ↑recalled"
        )


def chart_colours(app: App[Any]) -> tuple[str, str, str]:
    """Colours (#rrggbb) of the points, the smooth curve and the guide lines."""
    from textual.color import Color

    colours = app.theme_variables
    foreground = Color.parse(colours["foreground"])
    surface = Color.parse(colours["surface"])
    return (
        Color.parse(colours["primary"]).hex6,
        Color.parse(colours["secondary"]).hex6,
        foreground.blend(surface, 0.65).hex6,
    )


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


def _ticks(low: float, high: float, at_most: int) -> list[float]:
    for step in (0.05, 0.1, 0.2, 0.25, 0.5):
        number = round((high - low) / step)
        if number <= at_most:
            break
    return [high - step * place for place in range(int((high - low) / step + 1e-9) + 1)][::-1]


def percent_axis() -> Any:
    from textual_plot import NumericAxisFormatter

    class Percent(NumericAxisFormatter):
        def get_labels_for_ticks(self, ticks: Any) -> list[str]:
            return [f"{100 * tick:.0f}" for tick in ticks]

    return Percent()
