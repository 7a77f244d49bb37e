"""What a desired retention costs a preset; better known the longer one waits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from srs_eval.advice.workload.estimate import KNOWN, REVIEWS, Workload, beginning
from srs_eval.data.errors import NotEnoughData
from srs_eval.engine.evaluate import in_words
from srs_eval.tui.background import Background
from srs_eval.tui.screens.answers import show_basis
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.screens.themes import palette
from srs_eval.tui.widgets import plot
from srs_eval.tui.widgets.calibration import chart_colours
from srs_eval.tui.widgets.evidence import evidence
from srs_eval.tui.widgets.facts import stacked

_HIGHEST = 0.97  # above, reviews grow so fast that they would flatten the rest
_THOUSAND = 1_000  # from here on labels count in thousands, which have room
_NOW = "●"
_BEGINNING = "Your cards of today are reviewed day by day, at one desired retention after another."


class CostsScreen(AppScreen, actions="costs"):
    """The cards of one preset, played forward day by day."""

    def __init__(self, preset: str | None) -> None:
        super().__init__()
        self.preset = preset
        self._work: Background | None = None

    def content(self) -> ComposeResult:
        with Horizontal():
            with VerticalScroll(id="box"):
                yield Static(_BEGINNING, id="all")
            yield CostsChart(id="drawn")

    def show_protocol(self) -> None:
        show_basis(self)

    def on_mount(self) -> None:
        box = self.query_one("#box")
        box.border_title = "What a desired retention costs"
        box.focus()
        box.border_subtitle = beginning()

        coming, later = self.session.costs(self.preset), self.session.later
        self._work = Background(
            lambda _: coming, partial(later, self._costed), partial(later, self._all_costed)
        ).start()

    def on_unmount(self) -> None:
        if self._work is not None:
            self._work.cancel.set()

    def _costed(self, found: Workload) -> None:
        """Text, and the curves beside it where the window is wide enough."""
        if self.lacks("#drawn"):
            return
        self.query_one("#box").border_subtitle = found.doing
        stated = stacked([Text(found.preset, "bold underline"), evidence(found.finding)])
        self.query_one("#all", Static).update(stated)
        self.query_one(CostsChart).show(found)

    def update_now(self) -> None:
        for chart in self.query(CostsChart):
            chart.draw()

    def _all_costed(self, error: Exception | None) -> None:
        """It won't be known better, or can't be told."""
        if self.lacks("#all"):
            return
        self.query_one("#box").border_subtitle = ""
        if error is not None:
            said = in_words(error)[0]
            if isinstance(error, NotEnoughData):
                said = f"Too little data to tell what a desired retention costs: {error}."
            self.query_one("#all", Static).update(Text(said))


class CostsChart(Vertical):
    """Two graphs, one below the other; a dot tells today's retention."""

    found: Workload | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="of-reviews", classes="said", markup=False)
        yield plot.Plot(id="reviews")
        yield Static(id="of-known", classes="said", markup=False)
        yield plot.Plot(id="known")
        yield Static(id="marks", classes="said", markup=False)

    def show(self, found: Workload) -> None:
        self.found = found
        self.add_class("-known")
        self.draw()

    def draw(self) -> None:
        """What is known, in the colours of the theme."""
        if self.found is None:
            return
        found, at = self.found, self.found.retentions
        reviews, known = (found.figures[:, figure].tolist() for figure in (REVIEWS, KNOWN))
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
            Text.assemble((f"{found.preset}: reviews a day", "bold"), ", with 95 % ranges")
        )
        self.query_one("#of-known", Static).update(
            Text.assemble(("cards known at the end", "bold"), thousands)
        )
        self.query_one("#marks", Static).update(f"→ desired retention, %   {_NOW} today's")


def _ticks(low: float, high: float) -> Sequence[tuple[float, str]]:
    """Some even steps, with labels of three characters at most."""
    unit = _THOUSAND if high >= _THOUSAND else 1
    step = plot.even_step(max((high - low) / 6, unit / 10))
    values = [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    places = 1 if step < unit and high < 10 * unit else 0
    return [(value, f"{value / unit:.{places}f}") for value in values]
