"""Two models side by side."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Select, Static

from srs_eval.advice.findings import missing
from srs_eval.advice.sentences import difference_in_words, lacks, percent
from srs_eval.data.errors import counted
from srs_eval.engine.session import Result, log_loss_difference, log_loss_interval
from srs_eval.engine.shared import two_on_shared_reviews
from srs_eval.metrics import FACTS
from srs_eval.models.configurations import in_words
from srs_eval.report import formats as words
from srs_eval.stats.intervals import verdict
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.widgets.calibration import CalibrationChart, axis_limits
from srs_eval.tui.widgets.facts import WidthDependent, in_columns

_TABLE = 80  # columns of the figures, at most


class CompareScreen(AppScreen, actions="compare"):
    """Two calibration graphs on the same axes, and a table of both models' metrics."""

    AUTO_FOCUS = ""  # the first would be a choice of models, whose list would open

    def __init__(self, left: str, right: str) -> None:
        super().__init__()
        self.pair = [left, right]

    def content(self) -> ComposeResult:
        configurations = [line.configuration for line in self.session.models.run.ranked()]
        names = [(Text(each.words), each.name) for each in configurations]
        yield Static(id="verdict")
        with Horizontal(id="pair"):
            for side, name in zip(("left", "right"), self.pair, strict=True):
                with Vertical(classes="side", id=side):
                    yield Select(
                        names, value=name, allow_blank=False, compact=True, id=f"{side}-model"
                    )
                    yield CalibrationChart(id=f"{side}-chart", count_rows=2)
        with VerticalScroll(id="figures"):
            yield Static(id="table")

    def on_mount(self) -> None:
        self.query_one("#figures").focus()

    def on_resize(self) -> None:
        self.update_soon()

    def update_now(self) -> None:
        results = self.session.models.run.results()
        left, right = two_on_shared_reviews(*(results[name] for name in self.pair))
        graphs = [self.session.models.graph(result) for result in (left, right)]
        limits = axis_limits(graphs)
        for side, graph in zip(("left", "right"), graphs, strict=True):
            self.query_one(f"#{side}-chart", CalibrationChart).show(graph, limits)
            off = f"off by {percent(graph.mae)} on average"
            self.query_one(f"#{side}").border_subtitle = off
        self.query_one("#verdict", Static).update(self._verdict(left, right))
        self.query_one("#table", Static).update(self._figures(left, right))

    def _verdict(self, left: Result, right: Result) -> Text:
        difference = log_loss_difference(left, right)
        names = [in_words(result.configuration) for result in (left, right)]
        if difference is None:
            return Text("Evaluated on different reviews: their figures can't be compared.", "bold")
        says = verdict(difference, equivalence=self.session.config.equivalence)
        head = {
            "better": f"Better: {names[0]}",
            "worse": f"Better: {names[1]}",
            "as good": "Each is as good as the other",
            "can't tell yet": "Can't tell yet which predicts better",
        }[says]
        margin = self.session.config.equivalence
        why = f": {lacks(missing(difference, margin))}" if says == "can't tell yet" else ""
        basis = f"{counted(left.size, 'review')} of {counted(difference.days, 'day')}"
        return Text.assemble(
            (head, "bold"),
            f"{why}\nlog loss, left against right: {difference_in_words(difference)}",
            (f" on {basis}", "dim"),
        )

    def _figures(self, left: Result, right: Result) -> WidthDependent:
        rows = []
        explained = self.size.width >= 110
        for field, fact in FACTS.items():
            figures = [getattr(result.metrics, field) for result in (left, right)]
            shown = [words.metric(result.metrics, field) for result in (left, right)]
            if field == "log_loss":
                shown = [words.loss(log_loss_interval(result)) for result in (left, right)]
            winner = None
            bare = [text.split(" ±")[0] for text in shown]
            if fact.better in ("lower", "higher") and None not in figures and bare[0] != bare[1]:
                winner = int((figures[0] < figures[1]) != (fact.better == "lower"))
            cells = [
                Text(f"{text} ◀", "bold") if side == winner else Text(f"{text}  ")
                for side, text in enumerate(shown)
            ]
            if explained:
                cells.append(Text(fact.meaning, "dim"))
            rows.append([Text(fact.name), *cells])
        names = [in_words(result.configuration) for result in (left, right)]

        def draw(width: int) -> Text:
            room = max((min(width, _TABLE) - 13) // 2 - 4, 12)
            heads = [Text(f"{words.cut(name, room)}  ", "bold dim") for name in names]
            return in_columns([[Text(""), *heads], *rows], width, right=(1, 2))

        return WidthDependent(draw)

    @on(Select.Changed)
    def _chosen(self, event: Select.Changed) -> None:
        side = 0 if event.select.id == "left-model" else 1
        if isinstance(event.value, str) and event.value != self.pair[side]:
            self.pair[side] = event.value
            self.update_now()

    def action_swap(self) -> None:
        self.pair.reverse()
        for side, name in zip(("left", "right"), self.pair, strict=True):
            self.query_one(f"#{side}-model", Select).value = name
        self.update_now()

    def _choose(self, side: str) -> None:
        select = self.query_one(f"#{side}-model", Select)
        select.focus()
        select.action_show_overlay()

    def action_left_model(self) -> None:
        self._choose("left")

    def action_right_model(self) -> None:
        self._choose("right")

    def action_table(self) -> None:
        for chart in self.query(CalibrationChart):
            chart.as_table = not chart.as_table
