"""Where one model errs, as tables with drawn intervals."""

from __future__ import annotations

from rich.console import Group as Lines
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from srs_eval.model_evidence import Curves
from srs_eval.presets.answers import Table
from srs_eval.screens.actions import ERRORS, bindings
from srs_eval.screens.base import AppScreen
from srs_eval.widgets.curves import CurvesChart
from srs_eval.widgets.evidence import drawn_table


class ErrorsScreen(AppScreen):
    """Tables of one result, computed in a thread when the screen opens."""

    actions = ERRORS
    BINDINGS = bindings(ERRORS)
    about = """
Recall against what the model expected, for reviews that have something in common. "minus \
expected" is the share recalled minus the mean prediction with its 95 % interval over days, \
drawn beside it: to the right of zero (┊) the model expected too little, to the left too \
much. An interval far from zero names a kind of review that the model does not know well.

Forgetting curves show what was recalled after so many days (letters, with 95 % intervals) and \
what was expected (lines); each has its table below. By first rating they take each card's first \
review on a later day; by stability, all reviews. Points of fewer than 30 reviews are in the \
table only. Parameters are those of the \
last of the five folds.
"""

    def __init__(self, configuration: str) -> None:
        super().__init__()
        self.configuration = configuration

    def content(self) -> ComposeResult:
        with VerticalScroll(id="box"):
            yield Static("Looking for where it errs …", id="looking")

    def on_mount(self) -> None:
        box = self.query_one("#box")
        model = self.srs_app.evaluation.models[self.configuration]
        box.border_title = Text(f"Where {model.configuration.words} errs").plain
        box.focus()
        self._compute()

    @work(thread=True, exit_on_error=False)
    def _compute(self) -> None:
        tables = self.srs_app.errors_of(self.configuration)
        self.app.call_from_thread(self._show, tables)

    def _show(self, tables: list[Table]) -> None:
        parts: list[Widget] = []
        for table in tables:
            parts.append(Static(Text(table.heading, "bold")))
            if isinstance(table, Curves) and table.curves:
                parts.append(CurvesChart(table))
            parts.append(Static(Lines(drawn_table(table), Text(""))))
        self.query_one("#looking").remove()
        self.query_one("#box").mount_all(parts)
