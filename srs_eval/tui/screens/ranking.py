"""Show a ranking that fills as models finish, with the selected model beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping
from heapq import heapify, heapreplace
from typing import Any, ClassVar

from rich.markup import escape
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input, OptionList, Static

from srs_eval.advice.sentences import format_percent
from srs_eval.engine.ranking import REFERENCE
from srs_eval.engine.run import Run, Stage
from srs_eval.models.configurations import readable_name
from srs_eval.report import formats
from srs_eval.report.ranking_columns import SORT_KEYS
from srs_eval.report.ranking_words import summarize_ranking
from srs_eval.report.schedulability import COLUMN_TITLE, format_verdict
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.screens.details import DetailsScreen
from srs_eval.tui.screens.dialogs import FamiliesScreen
from srs_eval.tui.widgets.calibration import CalibrationChart
from srs_eval.tui.widgets.facts import render_metric_table, render_parameter_table
from srs_eval.tui.widgets.ranking import FOLD_LINE, RankingTable

_MIN_WIDTH_FOR_OTHER_ROWS = 96  # of the window, to name the other rows in the title, too
_ANSWER_LINES = 3  # lines of the ranking's answer
_ANSWER_LINES_LOW = 2  # the same in a low window
_REFRESH_SECONDS = 1 / 6  # between two updates of the screen
_WORKER_START_SECONDS = {"worker": 0.8, "kernels": 0.8, "imports": 1.0}
"""Seconds that each worker spends once: to start, to load kernels, to import packages."""
_OVERHEAD_SECONDS = 0.06  # for any model: until its result arrives and the next can begin


class _FilterInput(Input):
    """Input of words that model names must contain; Enter goes to the list, Esc shows all."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape", "screen.clear_filter", "Show all"),
        Binding("down", "screen.focus_ranking", "List", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(placeholder="part of a name", compact=True, id="filter")


class RunScreen(AppScreen, actions="run"):
    """Progress, ranking and results on one screen, during the run and after it."""

    follows_changes = True

    def __init__(self) -> None:
        super().__init__()
        self._drawn_model: tuple[object, ...] = ()  # it is drawn again only when this changes

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

    def on_mount(self) -> None:
        self.query_one("#more").can_focus = False
        if self.session.state.order not in SORT_KEYS:  # written by another version
            self.session.remember(order="place")
        self.query_one(_FilterInput).value = self.session.state.filter
        self.table.focus()
        self.query_one(_FilterInput).set_class(not self.session.state.filter, "-closed")
        self.set_interval(_REFRESH_SECONDS, self._tick)

    def on_resize(self) -> None:
        self._drawn_model = ()
        self.update_soon()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self.update_soon()

    def _tick(self) -> None:
        if self.is_current and self.evaluation.is_running:
            self.update_now()

    def update_now(self) -> None:
        """Show the current state of the evaluation."""
        if self.is_missing("RankingTable"):
            return
        now = self.session.monotonic()
        seconds_left = _estimate_seconds_by_model(self.evaluation, now)
        self.table.show(
            self.evaluation,
            seconds_left,
            self.session.state,
            self.session.models.own_scheduler,
            self._folded_names(),
            self.key_of("fold"),
            self.session.models.measurements,
        )
        self.query_one("#headings", Static).update(self.table.heading)
        self._update_titles()
        self._update_status(now)
        self.call_later(self._show_model)  # called separately, because both take long

    def _folded_names(self) -> frozenset[str]:
        """Return the models for which one line stands."""
        if self.session.state.shows_all_models:
            return frozenset()
        return self._foldable_names()

    def _foldable_names(self) -> frozenset[str]:
        """Return the models that can be folded.

        A filter, or the choice of families, says which models the user wants to see: then none can.
        """
        state = self.session.state
        if state.filter.strip() or state.hidden:
            return frozenset()
        return self.session.models.foldable_names()

    def _update_titles(self) -> None:
        """Show which rows and models are shown, and what the ranking says once it is complete."""
        state = self.session.state
        folded = self._folded_names()
        model_count = len(self.evaluation.models)
        title = "Models"
        if not state.filter and not state.hidden:  # else filter and families need the room
            title += f" on {formats.ROW_OWNERS[self.session.models.protocol.rows]} reviews"
            alternative_rows = self.session.models.alternative_rows
            has_room = not folded or self.size.width >= _MIN_WIDTH_FOR_OTHER_ROWS
            if alternative_rows is not None and has_room:
                title += f" (R: {formats.ROW_OWNERS[alternative_rows]})"
        if self.table.shown_count < model_count:
            title += f" · {self.table.shown_count} of {model_count}"
        if folded:
            title += f" ({self.key_of('fold')} shows all)"
        if state.filter:
            title += f' · "{formats.truncate(state.filter, 20)}"'
        if state.hidden:
            hidden_letters = [formats.FAMILIES[family].letter for family in state.hidden]
            title += f" · without {' '.join(hidden_letters)}"
        box = self.query_one("#ranking")
        box.border_title = escape(title)
        box.border_subtitle = escape(formats.explain_letters(self._model_families(without=folded)))
        groups = [] if self.evaluation.is_running else self.evaluation.groups()
        sentence = summarize_ranking(groups[0], folded) if groups else ""
        width = max(self.size.width - 2, 20)
        line_count = _ANSWER_LINES_LOW if self.has_class("-low") else _ANSWER_LINES
        answer = self.query_one("#answer", Static)
        answer.update(Text(textwrap.fill(sentence, width, max_lines=line_count, placeholder=" …")))
        answer.display = bool(sentence)

    def _model_families(self, without: Collection[str] = ()) -> set[str]:
        """Return the families of the models that are evaluated, `without` some models."""
        families: set[str] = set()
        for name, model in self.evaluation.models.items():
            if name not in without:
                families.add(model.configuration.model.family)
        return families

    def _update_status(self, now: float) -> None:
        evaluation = self.evaluation
        duration = formats.format_duration(evaluation.elapsed_seconds(now))
        model_count = len(evaluation.models)
        if evaluation.is_running and not model_count:
            text = "preparing the reviews …"
        elif evaluation.is_running and evaluation.cancelled:
            text = "stopping …"
        elif evaluation.is_running:
            text = f"{evaluation.finished_count} of {model_count} · {duration} elapsed"
            seconds_left = estimate_seconds_left(evaluation, now)
            if seconds_left is not None:
                text += f", about {formats.format_duration(seconds_left)} left"
            if evaluation.is_compiling:
                text += ", preparing models (first run only)"
        else:
            result_count = len(evaluation.results_by_name())
            text = f"{result_count} of {model_count} models finished in {duration}"
            if evaluation.cancelled:
                text = (
                    f"Cancelled after {duration}: {result_count} of {model_count} models are done"
                )
            for stage in (Stage.FAILED, Stage.SKIPPED):
                stage_count = sum(model.stage is stage for model in evaluation.models.values())
                if stage_count:
                    text += f" · {stage_count} {stage.value}"
                if stage_count > 1:  # the reason of a single one is read in its line
                    text += f": {evaluation.most_common_reason(stage)}"
        if self.table.marked:
            marked_names = [readable_name(name) for name in self.table.marked]
            text += f" · marked: {' and '.join(marked_names)}"
        self.query_one("#status", Static).update(Text(text))

    def _show_model(self) -> None:
        """Show the chosen model beside the ranking, if it or its looks have changed."""
        if not self.is_attached:
            return
        if self.table.chosen == FOLD_LINE:
            self._show_fold_line()
            return
        model = self.evaluation.models.get(self.table.chosen or "")
        if model is None:
            return
        measurement = self.session.models.measurements.get(model.name)
        bins = self.session.state.bins
        state = (model.name, model.stage, bins, self.app.theme, measurement is None)
        if state == self._drawn_model:
            return
        self._drawn_model = state
        box = self.query_one("#model")
        box.border_title = escape(model.configuration.words)
        result = model.result
        box.set_class(result is None, "-no-result")
        self.query_one("#more").set_class(result is not None, "-with-result")
        if result is None:
            stage = model.stage.value.capitalize()
            text = f"{stage}: {model.reason}" if model.reason else f"{stage}."
            self.query_one("#reason", Static).update(Text(text))
            self.query_one(CalibrationChart).show(None)
            return
        graph = self.session.models.find_graph(result)
        self.query_one(CalibrationChart).show(graph)
        line = self.evaluation.ranked_result(model.name)
        figures = Text(f"off by {format_percent(graph.mae)}", "bold")
        if not (self.has_class("-wide") and self.has_class("-high")):  # else all are shown below
            for name, figure in (
                ("log loss", formats.format_loss(line.log_loss)),
                ("RMSE(bins)", formats.format_metric(result.metrics, "rmse_bins")),
                ("AUC", formats.format_metric(result.metrics, "auc")),
            ):
                figures = Text.assemble(figures, (f"\n{name} ", "dim"), figure)
        if measurement is not None:
            verdict = format_verdict(measurement)
            width = self.query_one("#figures").size.width
            fits = len(COLUMN_TITLE) + 1 + len(verdict) <= width
            separator = " " if fits else "\n  "
            figures = Text.assemble(figures, (f"\n{COLUMN_TITLE}{separator}", "dim"), verdict)
        self.query_one("#figures", Static).update(figures)
        self.query_one("#all-metrics", Static).update(render_metric_table(result))
        self.query_one("#parameters", Static).update(
            render_parameter_table(result, self.session.log)
        )

    def _show_fold_line(self) -> None:
        """Explain beside the ranking what the folded models are."""
        if self._drawn_model == (FOLD_LINE,):
            return
        self._drawn_model = (FOLD_LINE,)
        box = self.query_one("#model")
        box.border_title = "Hidden models"
        box.set_class(True, "-no-result")
        self.query_one("#more").set_class(False, "-with-result")
        self.query_one("#reason", Static).update(
            Text(
                "Anki cannot schedule with these models, but they are evaluated and ranked too. "
                "Press Enter to show them."
            )
        )
        self.query_one(CalibrationChart).show(None)

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        self._show_model()
        self.refresh_bindings()

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        if event.option_id == FOLD_LINE:
            self.action_fold()
        else:
            self.action_details()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "switch_rows":
            return self.session.models.alternative_rows is not None
        if action == "fold":
            return bool(self._foldable_names())
        if action == "again":
            return not self.evaluation.is_running and self.evaluation.has_missing_results
        return super().check_action(action, parameters)

    @on(Input.Changed, "#filter")
    def _filtered(self, event: Input.Changed) -> None:
        self._change_view(filter=event.value)

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
        """Clear the filter first, because a forgotten filter would hide models; then go back."""
        if self.session.state.filter:
            self.action_clear_filter()
        else:
            super().action_back()

    def on_click(self, event: events.Click) -> None:
        """Sort by the column whose heading was clicked; a second click reverses the order.

        A column that cannot be sorted by restores the ranking, which is never reversed.
        """
        headings = self.query_one("#headings").region
        if not headings.contains_point(event.screen_offset):
            return
        column = self.table.column_at(event.screen_x - headings.x)
        key = column if column in SORT_KEYS else "place"
        backwards = key == self.session.state.order and not self.session.state.backwards
        self._change_view(order=key, backwards=backwards and key != "place")

    def action_order(self) -> None:
        orders = list(SORT_KEYS)
        next_index = (orders.index(self.session.state.order) + 1) % len(orders)
        self._change_view(order=orders[next_index], backwards=False)

    def action_fold(self) -> None:
        self._change_view(shows_all_models=not self.session.state.shows_all_models)

    def action_families(self) -> None:
        screen = FamiliesScreen(self._model_families(), self.session.state.hidden)
        self.app.push_screen(screen, self._hide_families)

    def _hide_families(self, hidden: tuple[str, ...] | None) -> None:
        if hidden is not None:
            self._change_view(hidden=hidden)

    def _change_view(self, **changes: Any) -> None:
        self.session.remember(**changes)
        self.refresh_bindings()
        self.update_now()

    def action_cancel(self) -> None:
        super().action_cancel()
        self.update_now()

    def action_switch_rows(self) -> None:
        self.session.models.switch_rows()
        self.update_top_line()
        self.refresh_bindings()
        self.update_now()

    def action_again(self) -> None:
        self.session.models.start(only_missing=True)
        self.refresh_bindings()

    def action_details(self) -> None:
        """Show the chosen model, or the best one if the list has not been drawn yet."""
        name = self.table.chosen
        if name == FOLD_LINE:
            self.action_fold()
            return
        ranked = self.evaluation.ranked_results()
        if not name and ranked:
            name = ranked[0].configuration.name
        model = self.evaluation.models.get(name or "")
        if model is None or model.result is None:
            self.notify("This model has no figures yet.", timeout=3)
        else:
            details = DetailsScreen(self.evaluation, model.name, self._folded_names())
            self.app.push_screen(details, self.table.move_cursor_to)

    def action_mark(self) -> None:
        chosen = self.table.chosen
        marked = self.table.marked
        if chosen is None or chosen not in self.evaluation.results_by_name():
            self.notify("This model has no figures yet.", timeout=3)
        elif chosen in marked:
            marked.remove(chosen)
        else:
            marked[:] = [*marked[-1:], chosen]  # two at most: the last one that was marked, and it
        self.update_now()

    def action_compare(self) -> None:
        """Compare the marked models, or one marked and the chosen model.

        If no model is marked, compare the learner's own scheduler with the chosen model, which is
        FSRS until the user moves the cursor.
        """
        table = self.table
        chosen = table.chosen
        if table.follows_best and not table.marked:
            chosen = REFERENCE
        if table.marked:
            self.compare(self.evaluation, *table.marked, chosen)
        else:
            self.compare(self.evaluation, self.session.models.own_scheduler, chosen)


def estimate_seconds_left(evaluation: Run, now: float) -> float | None:
    """Estimate the seconds until all models have finished; None in the first second.

    It is assumed that as many models run at once as have done so far. Return None also if nothing
    is running.
    """
    if not evaluation.is_running or not evaluation.models or evaluation.elapsed_seconds(now) < 1:
        return None
    # Seconds until each worker is free; every waiting model goes to the one that is free first.
    seconds_until_free = []
    waiting_seconds = []
    for name, seconds in _estimate_seconds_by_model(evaluation, now).items():
        if evaluation.models[name].stage is Stage.RUNNING:
            seconds_until_free.append(seconds)
        else:
            waiting_seconds.append(seconds)
    while len(seconds_until_free) < evaluation.peak_parallel_models:
        seconds_until_free.append(0.0)
    heapify(seconds_until_free)
    for seconds in waiting_seconds:
        heapreplace(seconds_until_free, seconds_until_free[0] + seconds)
    return max(seconds_until_free)


def _estimate_seconds_by_model(evaluation: Run, now: float) -> dict[str, float]:
    """Estimate the remaining seconds of unfinished models, at this run's pace so far."""
    expected = _estimate_expected_seconds(evaluation)
    total_elapsed = 1.0  # a prior of one second for the pace of the machine
    total_expected = 1.0
    for name, model in evaluation.models.items():
        elapsed = model.elapsed_seconds(now)
        # A running model tells the pace only once it has taken longer than expected.
        if elapsed is not None and (model.is_over or elapsed > expected[name]):
            total_elapsed += elapsed
            total_expected += expected[name]
    seconds_by_model = {}
    for name, model in evaluation.models.items():
        if model.is_over:
            continue
        seconds = expected[name] * total_elapsed / total_expected
        if model.stage is Stage.RUNNING and model.fraction:
            seconds = seconds * (1 - model.fraction)
        elif model.stage is Stage.RUNNING:
            elapsed = now - model.started_at
            seconds = max(seconds - elapsed, seconds / 5)  # a late one still needs a while
        seconds_by_model[name] = seconds
    return seconds_by_model


def _estimate_expected_seconds(evaluation: Run) -> Mapping[str, float]:
    """Estimate each model's seconds from start to end, whatever this machine's pace is.

    What a worker does once, and kernels that several models share, are counted for the models
    that start first.
    """
    starts_left = dict.fromkeys(_WORKER_START_SECONDS, evaluation.peak_parallel_models)
    compiled_kernels = set()
    seconds_by_model = {}
    waiting_last = sorted(evaluation.models.values(), key=lambda run: run.stage is Stage.WAITING)
    for run in waiting_last:
        model = run.configuration.model
        computes = not run.is_cached and not run.lacks_dependency
        seconds = _OVERHEAD_SECONDS
        start_steps = ["worker"]
        if computes:
            seconds += run.configuration.expected_seconds(evaluation.reviews or 0)
            if run.configuration.compiles:
                start_steps.append("kernels")
            if model.needs:
                start_steps.append("imports")
        for step in start_steps:
            if starts_left[step]:
                starts_left[step] -= 1
                seconds += _WORKER_START_SECONDS[step]
        if computes and run.needs_compilation and model.kernel_owner not in compiled_kernels:
            compiled_kernels.add(model.kernel_owner)
            seconds += model.cost.seconds_to_compile
        seconds_by_model[run.name] = seconds
    return seconds_by_model
