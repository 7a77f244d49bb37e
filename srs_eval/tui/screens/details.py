"""One model: its calibration, metrics and parameters; where it errs; two side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from functools import partial

from rich.markup import escape
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Select, Static

from srs_eval.advice.findings import missing
from srs_eval.advice.sentences import Table, difference_in_words, lacks, percent
from srs_eval.advice.shown.predicted import Curves
from srs_eval.data.errors import counted
from srs_eval.engine.evaluate import in_words as explained
from srs_eval.engine.ranking import REFERENCE
from srs_eval.engine.run import Run
from srs_eval.engine.session import Result, log_loss_difference, log_loss_interval, same_reviews
from srs_eval.engine.shared import two_on_shared_reviews
from srs_eval.metrics import FACTS
from srs_eval.models.configurations import in_words
from srs_eval.report import formats as words
from srs_eval.stats.intervals import verdict
from srs_eval.tui.background import Background
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.widgets.calibration import OTHER, CalibrationChart, CurvesChart, axis_limits
from srs_eval.tui.widgets.facts import (
    WidthDependent,
    drawn_table,
    in_columns,
    metric_table,
    parameter_table,
    stacked,
)

_TABLE = 80  # columns of the figures that are compared, at most


class DetailsScreen(AppScreen, actions="details"):
    """Dismissed with the configuration shown last.

    It shows models of one run to its end, also where models are evaluated anew behind it.
    """

    def __init__(self, run: Run, configuration: str) -> None:
        super().__init__()
        self._run = run
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
        result = self._run.results()[self.configuration]
        line = self._run.line(self.configuration)
        graph = self.session.models.graph(result)
        self.query_one(CalibrationChart).show(graph)
        box = self.query_one("#graph")
        box.border_title = "Calibration"
        box.border_subtitle = f"off by {percent(graph.mae)} on average · {len(graph.count)} bins"
        facts = self.query_one("#facts")
        facts.border_title = escape(line.configuration.words)
        against = ""
        if line.against_baseline is not None:
            share = words.against_baseline(line.against_baseline).strip()
            against = f" · {share} than the average"
        lines = [f"log loss {words.loss(line.log_loss, 4)} (95 %)"]
        if line.is_baseline:
            lines.append("the baseline: what the average alone predicts")
        elif line.place is None:
            why = result.mark or f"is {line.verdict_words}"
            lines.append(f"no place, for it {why}{against}")
        else:
            why = ""
            if line.standing == "can't tell yet" and line.to_best is not None:
                why = lacks(missing(line.to_best))
            standing = f"{line.standing} ({why})" if why else line.standing
            lines.append(f"place {line.place}, {standing}{against}")
        if line.to_best is not None:
            lines.append(f"against the best: {difference_in_words(line.to_best)}")
        if line.to_reference is not None and line.to_reference is not line.to_best:
            lines.append(f"against {REFERENCE}: {difference_in_words(line.to_reference)}")
        lines.append(
            f"{words.count(result.size)} reviews evaluated · "
            + ("from the cache" if result.cached else f"{result.seconds:.1f} s")
        )
        if line.configuration.title != line.configuration.words:
            lines.append(f"called {self.configuration} in files")
        lines += [f"* {note}" for note in result.notes]
        self.query_one("#summary", Static).update(Text("\n".join(lines) + "\n"))
        self.query_one("#metrics", Static).update(metric_table(result))
        self.query_one("#parameters", Static).update(parameter_table(result, self.session.log))

    def move(self, step: int) -> None:
        names = [line.configuration.name for line in self._run.ranked()]
        place = names.index(self.configuration) + step
        if 0 <= place < len(names):
            self.configuration = names[place]
            self.update_now()

    def action_compare(self) -> None:
        self.compare(self._run, self.configuration)

    def action_errors(self) -> None:
        self.app.push_screen(ErrorsScreen(self._run, self.configuration))

    def action_back(self) -> None:
        self.dismiss(self.configuration)


class ErrorsScreen(AppScreen, actions="errors"):
    """Tables of one result of a run, computed in a thread when the screen opens."""

    def __init__(self, run: Run, configuration: str) -> None:
        super().__init__()
        self._run = run
        self.configuration = configuration
        self._curves: list[tuple[CurvesChart, Curves]] = []
        self._other: str | None = None  # the model that is drawn over this one

    def content(self) -> ComposeResult:
        with VerticalScroll(id="box"):
            yield Static("Looking for where it errs …", id="looking")

    def update_now(self) -> None:
        for chart, _ in self._curves:
            chart.draw()

    def _title(self) -> str:
        configuration = self._run.models[self.configuration].configuration
        errs = "err" if configuration.fit == "own" else "errs"  # "your parameters"
        return f"Where {configuration.words} {errs}"

    def on_mount(self) -> None:
        box = self.query_one("#box")
        box.border_title = escape(self._title())
        box.focus()
        self._work = Background(self.session.later)
        self._work.begin(self._compute, self._computed)

    def on_unmount(self) -> None:
        self._work.cancel()

    def _compute(self, _: threading.Event) -> Generator[Callable[[], None]]:
        """Find where the model errs; in a thread."""
        tables = self.session.models.errors_of(self._run.models[self.configuration])
        yield partial(self._show, tables)

    def _computed(self, error: Exception | None) -> None:
        """Say why there are no tables, where that is so."""
        if error is not None and not self.lacks("#looking"):
            self.query_one("#looking", Static).update(Text(explained(error)[0]))

    def _show(self, tables: list[Table]) -> None:
        if self.lacks("#looking"):
            return
        parts: list[Widget] = []
        for table in tables:
            parts.append(Static(Text(table.heading, "bold")))
            if isinstance(table, Curves) and table.curves:
                self._curves.append((CurvesChart(table), table))
                parts.append(self._curves[-1][0])
            parts.append(Static(stacked([drawn_table(table), Text("")])))
        self.query_one("#looking").remove()
        self.query_one("#box").mount_all(parts)

    def action_overlay(self) -> None:
        """Another model's curves over this one's; or this one's alone."""
        if self._other is not None:
            self._other = None
            self._overlay({})
        elif self._curves and (other := self._against()) is not None:
            self._other = other
            self._work.begin(partial(self._compute_other, other), lambda error: None)
        else:
            self.notify("There are no curves of two models of these reviews yet.", timeout=3)

    def _against(self) -> str | None:
        """The learner's own scheduler, or else the best other model on the same reviews."""
        results = self._run.results()
        this = results.pop(self.configuration)
        ranked = (line.configuration.name for line in self._run.ranked())
        names = [self.session.models.own_scheduler, *ranked]
        others = (name for name in names if name and name in results)
        return next((name for name in others if same_reviews(this, results[name])), None)

    def _compute_other(self, name: str, _: threading.Event) -> Generator[Callable[[], None]]:
        """Find where another model errs; in a thread."""
        tables = self.session.models.errors_of(self._run.models[name])
        found = {table.title: table for table in tables if isinstance(table, Curves)}
        yield partial(self._overlay, found, name)

    def _overlay(self, others: Mapping[str, Curves], name: str | None = None) -> None:
        if name != self._other or self.lacks("#box"):
            return  # it has been taken off again, or the screen has been left
        models = self._run.models
        this = models[self.configuration].configuration.words
        box = self.query_one("#box")
        over = f" · {OTHER} in the curves: {models[name].configuration.words}" if name else ""
        box.border_title = escape(self._title() + over)
        if name is not None and self._curves:
            box.scroll_to_widget(self._curves[0][0], top=True, animate=False)
        for chart, table in self._curves:
            names = (this, models[name].configuration.words) if name else ("", "")
            chart.show(others.get(table.title), names)


class CompareScreen(AppScreen, actions="compare"):
    """Two calibration graphs on the same axes, and a table of both models' metrics.

    Both models, and those that can be chosen instead, are of one run.
    """

    AUTO_FOCUS = ""  # the first would be a choice of models, whose list would open

    def __init__(self, run: Run, left: str, right: str) -> None:
        super().__init__()
        self._run = run
        self.pair = [left, right]

    def content(self) -> ComposeResult:
        configurations = [line.configuration for line in self._run.ranked()]
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
        results = self._run.results()
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
