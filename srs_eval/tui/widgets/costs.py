"""What a desired retention costs, drawn: reviews a day and cards known, against the retention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from srs_eval.advice.workload.estimate import KNOWN, REVIEWS, Workload
from srs_eval.tui.screens.themes import palette
from srs_eval.tui.widgets import plot
from srs_eval.tui.widgets.calibration import chart_colours

_HIGHEST = 0.97  # above, reviews grow so fast that they would flatten the rest
_THOUSAND = 1_000  # from here on labels count in thousands, which have room
_NOW = "●"


class CostsChart(Vertical):
    """Two graphs, one below the other; a dot tells today's retention."""

    def __init__(self, found: Workload) -> None:
        super().__init__()
        self._found = found

    def compose(self) -> ComposeResult:
        yield Static(id="of-reviews", classes="said", markup=False)
        yield plot.Plot(id="reviews")
        yield Static(id="of-known", classes="said", markup=False)
        yield plot.Plot(id="known")
        yield Static(id="marks", classes="said", markup=False)

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())
        self._draw()

    def on_unmount(self) -> None:
        self.app.theme_changed_signal.unsubscribe(self)  # it would be kept for ever

    def show(self, found: Workload) -> None:
        self._found = found
        if self.is_mounted:  # else it is drawn when it is
            self._draw()

    def _draw(self) -> None:
        found, at = self._found, self._found.retentions
        reviews, known = (found.median[:, figure].tolist() for figure in (REVIEWS, KNOWN))
        low_end, high_end = (end[:, REVIEWS].tolist() for end in found.band)
        primary, secondary, faint = chart_colours(self.app)
        hue = list(palette(self.app.current_theme).families.values())[1]
        inside = [k for k, each in enumerate(at) if each <= _HIGHEST + 1e-9]
        x_axis = plot.Axis(
            at[0] - 0.005,
            at[-1] + 0.005,
            [(p / 100, f"{p}") for p in range(70, 100, 5)],
        )
        most = max((high_end[k] for k in inside), default=max(high_end))
        graphs = (
            ("reviews", reviews, primary, (low_end, high_end), 0.0, most),
            ("known", known, hue, (), min(known), max(known)),
        )
        for name, values, colour, band, low, high in graphs:
            room = 0.06 * (high - low) or 1.0
            low, high = max(low - room, 0.0), high + room
            now = found.at(found.desired)
            marks: list[plot.Curve | plot.Points] = [
                plot.Curve([at[now], at[now]], [low, high], faint),
                *(plot.Curve(at, end, faint) for end in band),
                plot.Curve(at, values, colour),
                plot.Points([at[now]], [values[now]], f"bold {secondary}", _NOW),
            ]
            y_axis = plot.Axis(low, high, _ticks(low, high))
            self.query_one(f"#{name}", plot.Plot).show(
                plot.Graph(tuple(marks), x_axis, y_axis, faint)
            )
        thousands = ", thousands" if max(known) >= _THOUSAND else ""
        self.query_one("#of-reviews", Static).update(
            Text.assemble((f"{found.preset}: reviews a day", "bold"), ", with 90 % of the draws")
        )
        self.query_one("#of-known", Static).update(
            Text.assemble(("cards known at the end", "bold"), thousands)
        )
        self.query_one("#marks", Static).update(f"→ desired retention, %   {_NOW} today's")


def _ticks(low: float, high: float) -> Sequence[tuple[float, str]]:
    """Some even steps, with labels of three characters at most."""
    unit = _THOUSAND if high >= _THOUSAND else 1
    least = max((high - low) / 6, unit / 10)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= least * (1 - 1e-9))
    values = [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    places = 1 if step < unit and high < 10 * unit else 0
    return [(value, f"{value / unit:.{places}f}") for value in values]
