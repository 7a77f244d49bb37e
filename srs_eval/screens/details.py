"""One model: its calibration, its metrics with explanations, its parameters."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from srs_eval import words
from srs_eval.comparison import log_loss_interval
from srs_eval.configurations import in_words
from srs_eval.screens.actions import DETAILS, bindings
from srs_eval.screens.base import AppScreen
from srs_eval.widgets.calibration import CalibrationChart
from srs_eval.widgets.facts import metric_table, parameter_table


class DetailsScreen(AppScreen):
    """Dismissed with the configuration shown last."""

    actions = DETAILS
    BINDINGS = bindings(DETAILS)
    about = """
Left: of the reviews in a bin, how many the model expected to be recalled (across) and \
how many were (up). On the diagonal the two agree. Vertical lines are 95 % intervals, \
bars at the foot count reviews. t shows the numbers, b changes the bins.

Right: every metric with its meaning, then the parameters that were fitted for the last \
of the five folds, that is on most of your reviews. A single figure never tells all: \
log loss and RMSE(bins) disagree at times, and RMSE(bins) can be gamed.
"""

    def __init__(self, configuration: str) -> None:
        super().__init__()
        self.configuration = configuration

    def content(self) -> ComposeResult:
        with Horizontal():
            with Vertical(id="graph"):
                yield CalibrationChart(count_rows=3)
            with VerticalScroll(id="facts"):
                yield Static(id="summary")
                yield Static(id="metrics")
                yield Static("Parameters", classes="heading")
                yield Static(id="parameters")

    def on_mount(self) -> None:
        self.query_one("#facts").focus()
        self.update_now()

    def update_now(self) -> None:
        """Show the currently chosen configuration."""
        evaluation = self.srs_app.evaluation
        result = evaluation.results()[self.configuration]
        row = next(r for r in evaluation.ranking() if r.configuration == self.configuration)
        graph = self.srs_app.graph(result)
        self.query_one(CalibrationChart).show(graph)
        box = self.query_one("#graph")
        box.border_title = "Calibration"
        box.border_subtitle = (
            f"off by {words.percent(graph.mae)} on average · {len(graph.count)} bins"
        )
        facts = self.query_one("#facts")
        facts.border_title = in_words(self.configuration)
        place = "the floor" if row.place is None else f"place {row.place}"
        against = words.against_average(row).replace("  ", " ")
        lines = [
            f"log loss {words.loss(log_loss_interval(result))} (95 %)",
            place + (f" · {against} against average" if row.place is not None else ""),
            f"{words.count(result.size)} reviews judged · "
            + ("from the cache" if result.cached else f"{result.seconds:.1f} s"),
        ]
        if in_words(self.configuration) != self.configuration:
            lines.append(f"called {self.configuration} in files")
        lines += [f"* {note}" for note in result.notes]
        self.query_one("#summary", Static).update(Text("\n".join(lines) + "\n"))
        self.query_one("#metrics", Static).update(metric_table(result))
        self.query_one("#parameters", Static).update(parameter_table(result, self.srs_app.log_))

    def _move(self, step: int) -> None:
        names = [row.configuration for row in self.srs_app.evaluation.ranking()]
        place = names.index(self.configuration) + step
        if 0 <= place < len(names):
            self.configuration = names[place]
            self.update_now()

    def action_previous(self) -> None:
        self._move(-1)

    def action_next(self) -> None:
        self._move(1)

    def action_table(self) -> None:
        chart = self.query_one(CalibrationChart)
        chart.as_table = not chart.as_table

    def action_bins(self) -> None:
        self.srs_app.next_bins()
        self.update_now()

    def action_compare(self) -> None:
        others = [
            row.configuration
            for row in self.srs_app.evaluation.ranking()
            if row.configuration != self.configuration
        ]
        if not others:
            self.notify("Two finished models are needed to compare.", timeout=3)
            return
        from srs_eval.screens.compare import CompareScreen

        self.app.push_screen(CompareScreen(self.configuration, others[0]))

    def action_back(self) -> None:
        self.dismiss(self.configuration)
