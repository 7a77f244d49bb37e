"""What a desired retention costs a preset; better known the longer one waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static

from srs_eval.advice.findings import Finding
from srs_eval.advice.shown import tables
from srs_eval.data.errors import NotEnoughData
from srs_eval.engine.evaluate import in_words
from srs_eval.report.formats import clock
from srs_eval.tui.background import Background
from srs_eval.tui.screens.actions import COSTS, bindings
from srs_eval.tui.screens.answers import show_basis
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.widgets.evidence import evidence
from srs_eval.tui.widgets.facts import WidthDependent, stacked

if TYPE_CHECKING:
    from srs_eval.advice.workload.estimate import Doing


_WERE_IT_ON = "FSRS is off: this is what it would cost, were it on and optimized to your reviews.\n"
_BEGINNING = "Your cards of today are reviewed day by day, at one desired retention after another."


class Costed(Message):
    """What is known by now, and what is being computed."""

    def __init__(self, answers: Sequence[Finding], doing: Doing | None) -> None:
        super().__init__()
        self.answers = answers
        self.doing = doing


class AllCosted(Message):
    """It won't be known better, or can't be told."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.error = error


class CostsScreen(AppScreen):
    """The cards of one preset, played forward day by day."""

    actions = COSTS
    BINDINGS = bindings(COSTS)
    about = """
Your cards of today are reviewed day by day for a year, at one desired retention after \
another, with the answers that your memory, as FSRS knows it, would give. What comes of it \
are reviews and minutes a day and cards known, for the preset under the cursor, or else the \
one with the most reviews. Ranges are 90 % bands over the parameters \
that your reviews allow. In a window of 120 columns they are drawn beside the tables. It is a \
model's estimate, and says so where you have no data.
"""

    def __init__(self, preset: str | None) -> None:
        super().__init__()
        self.preset = preset
        self._work: Background | None = None
        self._doing: Doing | None = None
        self._begun = 0.0
        self._first = 0.0, 0.0  # when the first figures came, and the share of the work by then
        self._ticking: Timer | None = None

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

        self._doing, self._begun = beginning(), self.session.monotonic()
        self._ticking = self.set_interval(1.0, self._tell_progress)
        self._tell_progress()

        def found(cancel: threading.Event) -> Iterator[Any]:
            for known in self.session.costs(self.preset):
                if cancel.is_set():
                    return
                yield known

        def deliver(known: tuple[Sequence[Finding], Doing | None]) -> None:
            self.post_message(Costed(*known))

        def ended(error: Exception | None) -> None:
            self.post_message(AllCosted(error))

        self._work = Background(found, deliver, ended)
        self._work.start()

    def on_unmount(self) -> None:
        if self._work is not None:
            self._work.cancel.set()

    def _tell_progress(self) -> None:
        """What is being computed, a clock, and about how long it will take.

        The time left goes by what came after the first figures, which may wait for kernels.
        """
        assert self._doing is not None
        now, share = self.session.monotonic(), self._doing.share
        since, share_then = self._first
        said = f"{self._doing.words}  {clock(now - self._begun)}"
        if share > share_then > 0:
            left = (now - since) * (1 - share) / (share - share_then)
            said += f", about {clock(left)} left"
        self.query_one("#box").border_subtitle = said

    def on_costed(self, message: Costed) -> None:
        if message.doing is not None:
            self._doing = message.doing
            if self._first[1] == 0:
                self._first = self.session.monotonic(), message.doing.share
            self._tell_progress()
        parts: list[Text | WidthDependent] = []
        log = self.session.log
        if log is not None and log.receipt.fsrs_enabled is False:
            parts.append(Text(_WERE_IT_ON))
        for answer in message.answers:
            parts += [Text(answer.subject, "bold underline"), evidence(answer)]
        self.query_one("#all", Static).update(stacked(parts))
        self._draw_curves(message.answers)

    def _draw_curves(self, answers: Sequence[Finding]) -> None:
        """The curves beside the tables, where the window is wide enough."""
        from srs_eval.advice.workload.answers import CostTable
        from srs_eval.tui.widgets.costs import CostsChart

        found = (
            table for answer in answers for table in tables(answer) if isinstance(table, CostTable)
        )
        costs = next(found, None)
        drawn = self.query_one("#drawn")
        drawn.set_class(costs is not None, "-known")
        if costs is None:
            return
        charts = drawn.query(CostsChart)
        if charts:
            charts.first().show(costs)
        else:
            drawn.mount(CostsChart(costs))

    def on_all_costed(self, message: AllCosted) -> None:
        if self._ticking is not None:
            self._ticking.stop()
        self.query_one("#box").border_subtitle = ""
        if message.error is not None:
            said = in_words(message.error)[0]
            if isinstance(message.error, NotEnoughData):
                said = f"Too little data to tell what a desired retention costs: {message.error}."
            self.query_one("#all", Static).update(Text(said))
