"""One model: its calibration, its metrics with explanations, its parameters."""

from __future__ import annotations

from rich.markup import escape
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from srs_eval.advice.sentences import told, why_open
from srs_eval.engine.ranking import REFERENCE
from srs_eval.report import formats as words
from srs_eval.tui.screens.actions import DETAILS, bindings
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.widgets.calibration import CalibrationChart
from srs_eval.tui.widgets.facts import metric_table, parameter_table


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
        self.update_soon()

    def update_now(self) -> None:
        """Show the currently chosen configuration."""
        evaluation = self.srs_app.evaluation
        result = evaluation.results()[self.configuration]
        line = evaluation.line(self.configuration)
        graph = self.srs_app.graph(result)
        self.query_one(CalibrationChart).show(graph)
        box = self.query_one("#graph")
        box.border_title = "Calibration"
        box.border_subtitle = (
            f"off by {words.percent(graph.mae)} on average · {len(graph.count)} "
            + ("log bins" if self.srs_app.state.log_bins else "bins")
        )
        facts = self.query_one("#facts")
        facts.border_title = escape(line.configuration.words)
        against = f"{words.against_floor(line.against_floor).strip()} than the average"
        lines = [f"log loss {words.loss(line.log_loss, 4)} (95 %)"]
        if line.is_floor:
            lines.append("the floor: what the average alone predicts")
        elif line.place is None:
            lines.append(f"no place, for it is {line.verdict_words} · {against}")
        else:
            why = ""
            if line.standing == "can't tell yet" and line.to_best is not None:
                why = why_open(line.to_best)
            standing = f"{line.standing} ({why})" if why else line.standing
            lines.append(f"place {line.place}, {standing} · {against}")
        if line.to_best is not None:
            lines.append(f"against the best: {told(line.to_best)}")
        if line.to_reference is not None and line.to_reference is not line.to_best:
            lines.append(f"against {REFERENCE}: {told(line.to_reference)}")
        lines.append(
            f"{words.count(result.size)} reviews judged · "
            + ("from the cache" if result.cached else f"{result.seconds:.1f} s")
        )
        if line.configuration.title != line.configuration.words:
            lines.append(f"called {self.configuration} in files")
        lines += [f"* {note}" for note in result.notes]
        self.query_one("#summary", Static).update(Text("\n".join(lines) + "\n"))
        self.query_one("#metrics", Static).update(metric_table(result))
        self.query_one("#parameters", Static).update(parameter_table(result, self.srs_app.log_))

    def _move(self, step: int) -> None:
        names = [line.configuration.name for line in self.srs_app.evaluation.ranked()]
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

    def action_log_bins(self) -> None:
        self.srs_app.switch_log_bins()
        self.update_now()

    def action_compare(self) -> None:
        others = [
            line.configuration.name
            for line in self.srs_app.evaluation.ranked()
            if line.configuration.name != self.configuration
        ]
        if not others:
            self.notify("Two finished models are needed to compare.", timeout=3)
            return
        from srs_eval.tui.screens.compare import CompareScreen

        self.app.push_screen(CompareScreen(self.configuration, others[0]))

    def action_errors(self) -> None:
        from srs_eval.tui.screens.model_errors import ErrorsScreen

        self.app.push_screen(ErrorsScreen(self.configuration))

    def action_back(self) -> None:
        self.dismiss(self.configuration)
