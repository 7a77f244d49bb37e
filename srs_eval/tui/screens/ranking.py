"""The run: a ranking that fills as models finish, with the selected model beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from heapq import heapify, heapreplace
from typing import Any, ClassVar

from rich.markup import escape
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input, OptionList, Static

from srs_eval.advice.sentences import percent
from srs_eval.engine.ranking import ORDERS, REFERENCE
from srs_eval.engine.run import Run, Stage
from srs_eval.models.configurations import in_words
from srs_eval.report import formats as words
from srs_eval.report.formats import clock
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.screens.details import DetailsScreen
from srs_eval.tui.screens.dialogs import FamiliesScreen
from srs_eval.tui.widgets.calibration import CalibrationChart
from srs_eval.tui.widgets.facts import metric_table, parameter_table
from srs_eval.tui.widgets.ranking import RankingTable

_WHOSE = {"anki": "Anki's", "benchmark": "the benchmark's"}  # rows
_ANSWER_LINES, _ANSWER_LINES_LOW = 3, 2  # of what the ranking says
_REFRESH = 1 / 6  # seconds between two updates of the screen
_ONCE_S = {"worker": 0.8, "kernels": 0.8, "imports": 4.0}  # what each worker does once
_BESIDES_S = 0.06  # of any model: until its result is told, and the next may begin


class _FilterInput(Input):
    """Words that names of models must have in them; Enter goes to the list, Esc shows all."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape", "screen.clear_filter", "Show all"),
        Binding("down", "screen.focus_ranking", "List", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(placeholder="part of a name", compact=True, id="filter")


class RunScreen(AppScreen, actions="run"):
    """Progress, ranking and results in one screen, during the run and after it."""

    is_live = True

    def content(self) -> ComposeResult:
        with Horizontal():
            with Vertical(id="ranking"):
                yield Static(id="headings")
                yield RankingTable()
                yield _FilterInput()
            with Vertical(id="model"):
                yield CalibrationChart(id="chart", count_rows=2)
                yield Static(id="figures")
                with VerticalScroll(id="more"):
                    yield Static(id="all-metrics")
                    yield Static("Parameters", classes="heading")
                    yield Static(id="parameters")
                yield Static(id="reason")
        yield Static(id="answer")
        yield Static(id="status")

    @property
    def evaluation(self) -> Run:
        return self.session.models.run

    @property
    def table(self) -> RankingTable:
        return self.query_one(RankingTable)

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()

    def on_mount(self) -> None:
        self.query_one("#more").can_focus = False
        if self.session.state.order not in ORDERS:  # of another version
            self.session.remember(order="place")
        self.query_one(_FilterInput).value = self.session.state.filter
        self.table.focus()
        self.query_one(_FilterInput).set_class(not self.session.state.filter, "-closed")
        self.set_interval(_REFRESH, self._tick)

    def on_resize(self) -> None:
        self._shown = ()
        self.update_soon()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self.update_soon()

    def _tick(self) -> None:
        if self.is_current and self.evaluation.running:
            self.update_now()

    def update_now(self) -> None:
        """Show the current state of the evaluation."""
        if self.lacks("RankingTable"):
            return
        now = self.session.monotonic()
        left, state = _seconds_by_model(self.evaluation, now), self.session.state
        self.table.show(self.evaluation, left, state, self.session.models.own_scheduler)
        self.query_one("#headings", Static).update(self.table.heading)
        self._title()
        self._status(now)
        self.call_later(self._show_model)  # in a turn of its own: both take long

    def _title(self) -> None:
        """How many models are shown, where some are not, and what sets them apart."""
        state, everyone = self.session.state, len(self.evaluation.models)
        title = "Models"
        if not state.filter and not state.hidden:  # else the room is for what is not shown
            title += f" on {_WHOSE[self.session.models.protocol.rows]} rows"
            if other := self.session.models.other_rows:
                title += f" (R: {_WHOSE[other]})"
        if self.table.shown < everyone:
            title += f" · {self.table.shown} of {everyone}"
        if state.filter:
            title += f' · "{words.cut(state.filter, 20)}"'
        if state.hidden:
            hidden = (words.FAMILIES[each].letter for each in state.hidden)
            title += f" · without {' '.join(hidden)}"
        box = self.query_one("#ranking")
        box.border_title = escape(title)
        there = {each.configuration.model.family for each in self.evaluation.models.values()}
        box.border_subtitle = escape(words.letters(there))
        groups = [] if self.evaluation.running else self.evaluation.groups()
        answer, width = self.query_one("#answer", Static), max(self.size.width - 2, 20)
        lines = _ANSWER_LINES_LOW if self.has_class("-low") else _ANSWER_LINES
        said = groups[0].answer if groups else ""
        answer.update(Text(textwrap.fill(said, width, max_lines=lines, placeholder=" …")))
        answer.display = bool(said)

    def _status(self, now: float) -> None:
        evaluation = self.evaluation
        gone = clock(evaluation.seconds_gone(now))
        total = len(evaluation.models)
        if evaluation.running and not total:
            text = "preparing the reviews …"
        elif evaluation.running and evaluation.cancelled:
            text = "stopping …"
        elif evaluation.running:
            left = seconds_left(evaluation, now)
            text = f"{evaluation.finished} of {total} · {gone} gone"
            text += f", about {clock(left)} left" if left is not None else ""
            text += ", preparing models (first run only)" if evaluation.preparing else ""
        else:
            done = len(evaluation.results())
            text = f"{done} of {total} models finished in {gone}"
            if evaluation.cancelled:
                text = f"Cancelled after {gone}: {done} of {total} models are done"
            for stage in (Stage.FAILED, Stage.SKIPPED):
                number = sum(model.stage is stage for model in evaluation.models.values())
                if number:
                    text += f" · {number} {stage.value}"
                    text += f": {evaluation.usual_reason(stage)}" if number > 1 else ""
        if self.table.marked:
            text += f" · marked: {' and '.join(in_words(name) for name in self.table.marked)}"
        self.query_one("#status", Static).update(Text(text))

    def _show_model(self) -> None:
        model = self.evaluation.models.get(self.table.chosen or "") if self.is_attached else None
        if model is None:
            return
        seen = (model.name, model.stage, self.session.state.bins, self.app.theme)
        if seen == self._shown:
            return
        self._shown = seen
        box = self.query_one("#model")
        box.border_title = escape(model.configuration.words)
        result = model.result
        box.set_class(result is None, "-no-result")
        self.query_one("#more").set_class(result is not None, "-with-result")
        if result is None:
            text = model.stage.value.capitalize() + (f": {model.reason}" if model.reason else ".")
            self.query_one("#reason", Static).update(Text(text))
            self.query_one(CalibrationChart).show(None)
            return
        graph = self.session.models.graph(result)
        self.query_one(CalibrationChart).show(graph)
        line = self.evaluation.line(model.name)
        figures = Text(f"{percent(graph.mae)} off on average", "bold")
        if not (self.has_class("-wide") and self.has_class("-high")):  # else all are shown below
            for name, figure in (
                ("log loss", words.loss(line.log_loss)),
                ("RMSE(bins)", words.metric(result.metrics, "rmse_bins")),
                ("AUC", words.metric(result.metrics, "auc")),
            ):
                figures = Text.assemble(figures, (f"\n{name} ", "dim"), figure)
        self.query_one("#figures", Static).update(figures)
        self.query_one("#all-metrics", Static).update(metric_table(result))
        self.query_one("#parameters", Static).update(parameter_table(result, self.session.log))

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        self._show_model()
        self.refresh_bindings()

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        self.action_details()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "switch_rows":
            return self.session.models.other_rows is not None
        if action == "again":
            return not self.evaluation.running and self.evaluation.is_incomplete
        return super().check_action(action, parameters)

    @on(Input.Changed, "#filter")
    def _filtered(self, event: Input.Changed) -> None:
        self._arrange(filter=event.value)

    @on(Input.Submitted, "#filter")
    def action_focus_ranking(self) -> None:
        self.query_one(_FilterInput).set_class(not self.session.state.filter, "-closed")
        self.table.focus()

    def action_filter(self) -> None:
        entry = self.query_one(_FilterInput)
        entry.remove_class("-closed")
        entry.focus()

    def action_clear_filter(self) -> None:
        self.query_one(_FilterInput).value = ""
        self.query_one(_FilterInput).add_class("-closed")
        self.table.focus()

    def action_back(self) -> None:
        """First all models are shown again: a filter that is forgotten would hide some."""
        if self.session.state.filter:
            self.action_clear_filter()
        else:
            super().action_back()

    def on_click(self, event: events.Click) -> None:
        """A column's heading orders by that; a second click turns it round."""
        headings = self.query_one("#headings").region
        if not headings.contains_point(event.screen_offset):
            return
        column = self.table.column_at(event.screen_x - headings.x)
        key = column if column in ORDERS else "place"
        backwards = key == self.session.state.order and not self.session.state.backwards
        self._arrange(order=key, backwards=backwards and key != "place")

    def action_order(self) -> None:
        orders = [*ORDERS, *ORDERS]
        self._arrange(order=orders[orders.index(self.session.state.order) + 1], backwards=False)

    def action_families(self) -> None:
        there = {model.configuration.model.family for model in self.evaluation.models.values()}
        self.app.push_screen(FamiliesScreen(there, self.session.state.hidden), self._hide)

    def _hide(self, hidden: tuple[str, ...] | None) -> None:
        if hidden is not None:
            self._arrange(hidden=hidden)

    def _arrange(self, **changes: Any) -> None:
        self.session.remember(**changes)
        self.update_now()

    def action_cancel(self) -> None:
        super().action_cancel()
        self.update_now()

    def action_switch_rows(self) -> None:
        self.session.models.switch_rows()
        self.show_protocol()
        self.refresh_bindings()
        self.update_now()

    def action_again(self) -> None:
        self.session.models.start(again=True)
        self.refresh_bindings()

    def action_details(self) -> None:
        # A key may come before the list is drawn: its first line is then meant.
        first = [line.configuration.name for line in self.evaluation.ranked()[:1]]
        model = self.evaluation.models.get(self.table.chosen or "".join(first))
        if model is None or model.result is None:
            self.notify("This model has no figures yet.", timeout=3)
        else:
            self.app.push_screen(DetailsScreen(self.evaluation, model.name), self.table.choose)

    def action_mark(self) -> None:
        chosen, marked = self.table.chosen, self.table.marked
        if chosen is None or chosen not in self.evaluation.results():
            self.notify("This model has no figures yet.", timeout=3)
        elif chosen in marked:
            marked.remove(chosen)
        else:
            marked[:] = [*marked[-1:], chosen]
        self.update_now()

    def action_compare(self) -> None:
        """The marked models; else the learner's own scheduler and the chosen one, at first FSRS."""
        table = self.table
        chosen = REFERENCE if table.follows_best and not table.marked else table.chosen
        wanted = table.marked or [self.session.models.own_scheduler]
        self.compare(self.evaluation, *wanted, chosen)


def seconds_left(evaluation: Run, now: float) -> float | None:
    """Until all models are over, `lanes` of them at work at once; None in the first second."""
    if not evaluation.running or not evaluation.models or evaluation.seconds_gone(now) < 1:
        return None
    left = _seconds_by_model(evaluation, now)
    models = evaluation.models
    free = [left.pop(name) for name in list(left) if models[name].stage is Stage.RUNNING]
    free += [0.0] * (evaluation.lanes - len(free))
    heapify(free)
    for seconds in left.values():
        heapreplace(free, free[0] + seconds)
    return max(free)


def _seconds_by_model(evaluation: Run, now: float) -> dict[str, float]:
    """What each model that is not over will take still: as expected, at this run's pace so far."""
    expected = _expected_seconds(evaluation)
    took = usual = 1.0  # how slow the machine is counts as much before anything is measured
    for name, model in evaluation.models.items():
        gone = model.seconds_at(now)
        if gone is not None and (model.over or gone > expected[name]):
            took += gone
            usual += expected[name]
    found = {}
    for name, model in evaluation.models.items():
        if not model.over:
            left = expected[name] * took / usual
            if model.stage is Stage.RUNNING:
                gone = now - model.started
                left = left * (1 - model.fraction) if model.fraction else max(left - gone, left / 5)
            found[name] = left
    return found


def _expected_seconds(evaluation: Run) -> Mapping[str, float]:
    """Of each model; what workers do once, and what is compiled for several, in the first ones."""
    once = dict.fromkeys(_ONCE_S, evaluation.lanes)
    found, compiled = {}, set()
    order = sorted(evaluation.models.values(), key=lambda each: each.stage is Stage.WAITING)
    for model in order:
        of, computes = model.configuration.model, not model.cached and not model.lacks
        seconds = _BESIDES_S
        if computes:
            seconds += model.configuration.expected_seconds(evaluation.reviews or 0)
        for what, wanted in (
            ("worker", True),
            ("kernels", computes and model.configuration.compiles),
            ("imports", computes and of.needs),
        ):
            if wanted and once[what]:
                once[what] -= 1
                seconds += _ONCE_S[what]
        if computes and model.compiles and of.compiled_as not in compiled:
            compiled.add(of.compiled_as)
            seconds += of.seconds_to_compile
        found[model.name] = seconds
    return found
