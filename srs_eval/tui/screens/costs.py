"""What a desired retention costs a preset; better known the longer one waits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from srs_eval.data.errors import NotEnoughData
from srs_eval.engine.evaluate import in_words
from srs_eval.tui.background import Background
from srs_eval.tui.screens.actions import COSTS, bindings
from srs_eval.tui.screens.answers import show_basis
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.widgets.evidence import evidence
from srs_eval.tui.widgets.facts import stacked

if TYPE_CHECKING:
    from srs_eval.advice.workload.estimate import Workload


_BEGINNING = "Your cards of today are reviewed day by day, at one desired retention after another."


class CostsScreen(AppScreen):
    """The cards of one preset, played forward day by day."""

    actions = COSTS
    BINDINGS = bindings(COSTS)
    about = """
Your cards of today are reviewed day by day for a year, at one desired retention after \
another, with the answers that your memory, as FSRS knows it, would give. What comes of it \
are reviews and minutes a day and cards known, for the preset under the cursor, or else the \
one with the most reviews. Ranges are 90 % bands over the parameters \
that your reviews allow. In a window of 120 columns they are drawn beside the table. Cards are \
those that there are. Beside them stands what today's schedule costs: SM-2's where FSRS is off. \
It is a model's estimate, and says so where you have no data.
"""

    def __init__(self, preset: str | None) -> None:
        super().__init__()
        self.preset = preset
        self._work: Background | None = None

    def content(self) -> ComposeResult:
        with Horizontal():
            with VerticalScroll(id="box"):
                yield Static(_BEGINNING, id="all")
            with Vertical(id="drawn"):
                pass

    def show_protocol(self) -> None:
        show_basis(self)

    def on_mount(self) -> None:
        box = self.query_one("#box")
        box.border_title = "What a desired retention costs"
        box.focus()
        from srs_eval.advice.workload.estimate import beginning

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
        from srs_eval.tui.widgets.costs import CostsChart

        if self.lacks("#drawn"):
            return
        self.query_one("#box").border_subtitle = found.doing
        told = stacked([Text(found.preset, "bold underline"), evidence(found.finding)])
        self.query_one("#all", Static).update(told)
        drawn = self.query_one("#drawn")
        drawn.add_class("-known")
        charts = drawn.query(CostsChart)
        if charts:
            charts.first().show(found)
        else:
            drawn.mount(CostsChart(found))

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
