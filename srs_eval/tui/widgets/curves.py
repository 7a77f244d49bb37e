"""Forgetting curves: what was recalled after some days, and what a model expected."""

from __future__ import annotations

import math

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from srs_eval.advice.model_evidence import Curve, Curves
from srs_eval.tui.screens.themes import palette
from srs_eval.tui.widgets import plot
from srs_eval.tui.widgets.calibration import chart_colours, percent_ticks

_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_LEAST = 0.05  # of recall, below the lowest point


OTHER = "∘"  # at what the other model expected


class CurvesChart(Vertical):
    """Letters are what was recalled, with 95 % intervals; lines are what was expected.

    With another model's curves over the same reviews both are drawn, each model in its colour.
    """

    DEFAULT_CSS = """
    CurvesChart {
        height: 16;
        max-width: 110;
        & #key { height: auto; color: $text-muted; }
        & Plot { background: $surface; }
    }
    """

    def __init__(self, curves: Curves) -> None:
        super().__init__()
        self._curves = curves.curves
        self._other: tuple[Curve, ...] = ()

    def compose(self) -> ComposeResult:
        yield plot.Plot()
        yield Static(id="key", markup=False)

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())
        self.show()

    def on_unmount(self) -> None:
        self.app.theme_changed_signal.unsubscribe(self)  # it would be kept for ever

    def show(self, other: Curves | None = None, names: tuple[str, str] = ("", "")) -> None:
        """Draw the curves, with those of an `other` model if it is given; names: this, other."""
        self._other = () if other is None else other.curves
        lettered = " · ".join(f"{letter} {curve.name}" for letter, curve in self._lettered())
        said = f"{lettered}   → days   ↑ recalled %, lines: expected"
        if self._other:
            said += f" by {names[0]}, with {OTHER} by {names[1]}"
        self.query_one("#key", Static).update(said)
        self._draw()

    def _lettered(self) -> list[tuple[str, Curve]]:
        """Each curve by the first letter of its name, or by its number."""
        letters = [curve.name[0] for curve in self._curves]
        if len(set(letters)) < len(letters) or not all(map(str.isalpha, letters)):
            letters = [str(number) for number in range(1, len(letters) + 1)]
        return list(zip(letters, self._curves, strict=True))

    def _draw(self) -> None:
        if not self._curves:
            return
        primary, secondary, faint = chart_colours(self.app)
        hues = list(palette(self.app.current_theme).families.values())
        low, last = self._limits()
        marks: list[plot.Curve | plot.Points] = []
        for number, (letter, curve) in enumerate(self._lettered()):
            x = [math.log10(day) for day in curve.days]
            hue = primary if self._other else hues[number % len(hues)]
            for place, interval in zip(x, curve.recalled, strict=True):
                ends = [max(interval.low, low), min(interval.high, 1.0)]
                if math.isfinite(ends[0]) and math.isfinite(ends[1]):
                    marks.append(plot.Curve([place, place], ends, faint))
            marks.append(plot.Curve(x, list(curve.expected), hue))
            recalled = [interval.estimate for interval in curve.recalled]
            recalled_style = "bold" if self._other else f"bold {hue}"  # both models met the same
            marks.append(plot.Points(x, recalled, recalled_style, letter))
        for curve in self._other:
            x = [math.log10(day) for day in curve.days]
            marks.insert(0, plot.Curve(x, list(curve.expected), secondary))
            marks.append(plot.Points(x, list(curve.expected), secondary, OTHER))
        days = [(math.log10(day), str(day)) for day in _TICKS if day <= last]
        x_axis = plot.Axis(-0.05, math.log10(last) + 0.05, days)
        y_axis = plot.Axis(low, 1.0, percent_ticks(low, 1.0, 6))
        self.query_one(plot.Plot).show(plot.Graph(tuple(marks), x_axis, y_axis, faint))

    def _limits(self) -> tuple[float, float]:
        """The lowest recall and the last day of the axes."""
        shares = [
            *(each for curve in (*self._curves, *self._other) for each in curve.expected),
            *(each.estimate for curve in self._curves for each in curve.recalled),
        ]
        last = max(day for curve in self._curves for day in curve.days)
        low = math.floor((min(shares) - _LEAST) * 10) / 10
        return min(max(low, 0.0), 0.9), max(last, 2.0)
