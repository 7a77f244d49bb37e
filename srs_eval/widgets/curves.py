"""Forgetting curves: what was recalled after some days, and what a model expected."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from srs_eval.model_evidence import Curve, Curves
from srs_eval.screens.themes import palette
from srs_eval.widgets.calibration import chart_colours, percent_axis

if TYPE_CHECKING:
    from textual_plot import PlotWidget

_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_LEAST = 0.05  # of recall, below the lowest point


class CurvesChart(Vertical):
    """Letters are what was recalled, with 95 % intervals; lines are what was expected."""

    DEFAULT_CSS = """
    CurvesChart {
        height: 16;
        max-width: 110;
        & PlotWidget { height: 1fr; }
        & PlotWidget > .plot--axis { color: $text-disabled; }
        & PlotWidget > .plot--tick { color: $text-muted; text-style: none; }
        & #key { height: 1; color: $text-muted; }
        & #plot { background: $surface; }
    }
    """

    def __init__(self, curves: Curves) -> None:
        super().__init__()
        self._curves = curves.curves
        self._plot: PlotWidget | None = None

    def compose(self) -> ComposeResult:
        from textual_plot import PlotWidget

        self._plot = PlotWidget(allow_pan_and_zoom=False)
        self._plot.can_focus = False
        yield self._plot
        yield Static(id="key", markup=False)

    @property
    def is_drawn(self) -> bool:
        """Whether the curves are on the screen."""
        return self._plot is not None and self._plot.is_mounted

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())
        named = " · ".join(f"{letter} {curve.name}" for letter, curve in self._lettered())
        self.query_one("#key", Static).update(f"{named}   → days   ↑ recalled %, lines: expected")

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _lettered(self) -> list[tuple[str, Curve]]:
        """Each curve by the first letter of its name, or by its number."""
        letters = [curve.name[0] for curve in self._curves]
        if len(set(letters)) < len(letters) or not all(map(str.isalpha, letters)):
            letters = [str(number) for number in range(1, len(letters) + 1)]
        return list(zip(letters, self._curves, strict=True))

    def _draw(self) -> None:
        plot = self._plot
        if plot is None or not plot.is_mounted or not self._curves:
            return
        from textual_plot import HiResMode

        _, _, faint = chart_colours(self.app)
        hues = list(palette(self.app.current_theme).families.values())
        low, last = self._limits()
        plot.margin_top, plot.margin_left, plot.margin_bottom = 0, 4, 1
        plot.clear()
        plot.set_xlimits(-0.05, math.log10(last) + 0.05)
        plot.set_ylimits(low, 1.0)
        ticks = [day for day in _TICKS if day <= last]
        plot.set_x_formatter(_days_axis())
        plot.set_xticks([math.log10(day) for day in ticks])
        plot.set_y_formatter(percent_axis())
        for number, (letter, curve) in enumerate(self._lettered()):
            x = [math.log10(day) for day in curve.days]
            hue = hues[number % len(hues)]
            for place, interval in zip(x, curve.recalled, strict=True):
                ends = [max(interval.low, low), min(interval.high, 1.0)]
                if math.isfinite(ends[0]) and math.isfinite(ends[1]):
                    plot.plot([place, place], ends, line_style=faint, hires_mode=HiResMode.BRAILLE)
            if len(x) > 1:
                plot.plot(x, list(curve.expected), line_style=hue, hires_mode=HiResMode.BRAILLE)
            recalled = [interval.estimate for interval in curve.recalled]
            plot.scatter(x, recalled, marker=letter, marker_style=f"bold {hue}")
        plot.refresh(layout=True)  # else its canvas keeps the size of the layout before

    def _limits(self) -> tuple[float, float]:
        """The lowest recall and the last day of the axes."""
        shares = [
            *(each for curve in self._curves for each in curve.expected),
            *(each.estimate for curve in self._curves for each in curve.recalled),
        ]
        last = max(day for curve in self._curves for day in curve.days)
        low = math.floor((min(shares) - _LEAST) * 10) / 10
        return min(max(low, 0.0), 0.9), max(last, 2.0)


def _days_axis() -> Any:
    from textual_plot import NumericAxisFormatter

    class Days(NumericAxisFormatter):
        def get_labels_for_ticks(self, ticks: Any) -> list[str]:
            return [f"{10**tick:.0f}" for tick in ticks]

    return Days()
