"""What a desired retention costs; better known the longer one waits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Static

from srs_eval.advice.workload.estimate import REVIEWS, Workload, beginning
from srs_eval.data.errors import NotEnoughData
from srs_eval.engine.evaluate import in_words
from srs_eval.tui.background import Background
from srs_eval.tui.screens.answers import show_basis
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.widgets import plot
from srs_eval.tui.widgets.calibration import chart_colours
from srs_eval.tui.widgets.evidence import evidence
from srs_eval.tui.widgets.facts import stacked
from srs_eval.tui.widgets.panes import paint

_HIGHEST = 0.97  # above, reviews grow so fast that they would flatten the rest
_THOUSAND = 1_000  # from here on labels count in thousands
_NOW = "●"
_BEGINNING = "Your cards of today are reviewed day by day, at one desired retention after another."


class CostsScreen(AppScreen, actions="costs"):
    """The cards there are, played forward day by day."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Workload | None = None
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

        coming, later = self.session.costs(), self.session.later
        self._work = Background(
            lambda _: coming, partial(later, self._costed), partial(later, self._all_costed)
        ).start()

    def on_unmount(self) -> None:
        if self._work is not None:
            self._work.cancel.set()

    def _costed(self, found: Workload) -> None:
        """Text, and the curves beside it where the window is wide enough."""
        if not self.lacks("#drawn"):
            self.found = found
            self.query_one("#box").border_subtitle = found.doing
            self.update_now()

    def update_now(self) -> None:
        if self.found is not None and not self.lacks("#drawn"):
            head = Text(self.found.preset, "bold underline")
            shown = evidence(self.found.finding, paint(self.app))
            self.query_one("#all", Static).update(stacked([head, shown]))
            self.query_one(CostsChart).draw(self.found)

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


class CostsChart(plot.Plot):
    """Reviews a day by desired retention; a dot tells today's."""

    def on_mount(self) -> None:
        self.border_title = "Reviews a day, with 95 % ranges"

    def draw(self, found: Workload) -> None:
        """In the colours of the theme."""
        self.add_class("-known")
        at = found.retentions
        reviews = found.figures[:, REVIEWS].tolist()
        low_end, high_end = (end[:, REVIEWS].tolist() for end in found.band)
        primary, secondary, faint = chart_colours(self.app)
        inside = [end for each, end in zip(at, high_end, strict=True) if each <= _HIGHEST + 1e-9]
        high = 1.06 * max(inside or high_end) or 1.0
        marks: list[plot.Curve | plot.Points] = [
            plot.Curve(at, low_end, faint),
            plot.Curve(at, high_end, faint),
            plot.Curve(at, reviews, primary),
        ]
        self.border_subtitle = "→ desired retention, %"
        if not found.is_off:
            now = found.at(found.desired)
            marks.insert(0, plot.Curve([at[now], at[now]], [0.0, high], faint))
            marks.append(plot.Points([at[now]], [reviews[now]], f"bold {secondary}", _NOW))
            self.border_subtitle += f"   {_NOW} today's"
        percents = [(p / 100, f"{p}") for p in range(70, 100, 5)]
        x_axis = plot.Axis(at[0] - 0.005, at[-1] + 0.005, percents)
        y_axis = plot.Axis(0.0, high, _ticks(high))
        self.show(plot.Graph(tuple(marks), x_axis, y_axis, faint))


def _ticks(high: float) -> Sequence[tuple[float, str]]:
    """Some even steps from zero, with labels of three characters at most."""
    in_thousands = high >= _THOUSAND
    step = plot.even_step(max(high / 6, _THOUSAND if in_thousands else 0.1))
    values = [step * k for k in range(math.floor(high / step) + 1)]
    if in_thousands:
        return [(value, f"{value / _THOUSAND:.0f}k") for value in values]
    return [(value, f"{value:.{int(step < 1)}f}") for value in values]
