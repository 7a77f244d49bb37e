"""Show one model's calibration, metrics, parameters and errors, or two models side by side."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import replace
from functools import partial

from rich.markup import escape
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Select, Static

from srs_eval.advice.findings import Fit, estimate_missing_data, get_evidence
from srs_eval.advice.sentences import (
    differs,
    format_cant_tell,
    format_difference_with_range,
    format_interval,
    format_missing_data,
    format_percent,
)
from srs_eval.advice.shown.predicted import CurvesTable, describe_advice_basis, explain_charts
from srs_eval.data.errors import format_count
from srs_eval.engine.failures import describe_failure
from srs_eval.engine.loss_breakdown import LossBreakdown
from srs_eval.engine.ranking import REFERENCE, RankedResult, Standing
from srs_eval.engine.result import Result, have_same_reviews, log_loss_difference, log_loss_interval
from srs_eval.engine.run import Run
from srs_eval.engine.schedulability import Measurement
from srs_eval.engine.shared_reviews import restrict_both_to_shared_reviews
from srs_eval.metrics import METRIC_INFO
from srs_eval.models.configurations import readable_name
from srs_eval.report import formats
from srs_eval.report.schedulability import describe_measurement_at_length
from srs_eval.stats.intervals import MIN_DAYS, Verdict, decide_verdict
from srs_eval.stats.tables import Table
from srs_eval.tui.background import Background
from srs_eval.tui.models import SM2_AND_FSRS
from srs_eval.tui.screens.base import AppScreen
from srs_eval.tui.widgets.calibration import OTHER_MARK, CalibrationChart, CurvesChart, axis_limits
from srs_eval.tui.widgets.facts import (
    WidthDependent,
    align_columns,
    render_loss_breakdown,
    render_metric_table,
    render_parameter_table,
    render_table_with_intervals,
    stack,
)

_MAX_TABLE_WIDTH = 80  # columns of the comparison table, at most


class DetailsScreen(AppScreen, actions="details"):
    """Details of one model; dismissed with the configuration shown last.

    The screen shows models of one run until it closes, even if models are evaluated again in the
    background. The models in `folded` are passed over on the way to the next one.
    """

    def __init__(self, run: Run, configuration: str, folded: Collection[str] = ()) -> None:
        super().__init__()
        self._run = run
        self.configuration = configuration
        self._folded = folded

    def content(self) -> ComposeResult:
        with Horizontal():
            with Vertical(id="graph"):
                yield CalibrationChart(count_rows=3)
            with VerticalScroll(id="facts"):
                yield Static(id="summary")
                yield Static(id="schedulability")
                yield Static(id="metrics")
                yield Static("Parameters", classes="heading")
                yield Static(id="parameters")
                # Last, because it comes from a thread: what is read already does not move.
                yield Static(id="loss")

    def on_mount(self) -> None:
        self._work = Background(self.session.call_in_view_thread)
        self._asked_model = ""  # the model that was last asked whether it could schedule
        self.query_one("#facts").focus()
        self.update_soon()

    def on_unmount(self) -> None:
        self._work.cancel()

    def update_now(self) -> None:
        """Show the chosen configuration."""
        result = self._run.results_by_name()[self.configuration]
        line = self._run.ranked_result(self.configuration)
        graph = self.session.models.find_graph(result)
        self.query_one(CalibrationChart).show(graph)
        box = self.query_one("#graph")
        box.border_title = "Calibration"
        box.border_subtitle = (
            f"off by {format_percent(graph.mae)} on average · {len(graph.count)} bins"
        )
        facts = self.query_one("#facts")
        facts.border_title = escape(line.configuration.words)
        summary = "\n".join(self._describe_result(line, result))
        self.query_one("#summary", Static).update(Text(f"{summary}\n"))
        self.query_one("#metrics", Static).update(render_metric_table(result))
        self.query_one("#parameters", Static).update(
            render_parameter_table(result, self.session.log)
        )
        if self._asked_model != self.configuration:
            self._asked_model = self.configuration
            for name in ("#schedulability", "#loss"):
                self.query_one(name).display = False
            self._work.begin(self._look_closer, lambda error: None)

    def _look_closer(self, _: threading.Event) -> Generator[Callable[[], None]]:
        """Break down the loss, ask the model for intervals, and yield callbacks that show both."""
        models = self.session.models
        yield partial(self._show_loss, models.find_breakdown(self._run, self.configuration))
        measurement = models.measure(self._run, self.configuration)
        if measurement is not None:
            yield partial(self._show_schedulability, measurement)

    def _show_loss(self, breakdown: LossBreakdown) -> None:
        if self.is_missing("#loss"):
            return
        box = self.query_one("#loss", Static)
        box.update(render_loss_breakdown(breakdown))
        box.display = True

    def _show_schedulability(self, measurement: Measurement) -> None:
        if self.is_missing("#schedulability"):
            return
        text = Text("Can it schedule?\n", "bold")
        text.append("\n".join(describe_measurement_at_length(measurement)), "not bold")
        box = self.query_one("#schedulability", Static)
        box.update(text.append("\n"))
        box.display = True

    def _describe_result(self, line: RankedResult, result: Result) -> Iterator[str]:
        """Yield the lines above the metrics: log loss, rank, differences and notes."""
        yield f"log loss {formats.format_loss(line.log_loss, 4)} (95 %)"
        against_average = ""
        if line.relative_to_baseline is not None:
            share = formats.format_relative_loss(line.relative_to_baseline).strip()
            against_average = f" · {share} log loss than the average"
        if line.is_baseline:
            yield "the baseline: always predicts the share recalled so far"
        elif line.rank is None:
            reason = ": the parameters may have been fitted to these reviews"
            if result.invalid_reason:
                reason = f" because it {result.invalid_reason}"
            yield f"not ranked{reason}{against_average}"
        else:
            standing = f", {line.standing}"
            if line.standing is Standing.CANT_TELL and line.to_best is not None:
                missing = estimate_missing_data(line.to_best)
                if missing.can_come:
                    standing += f" ({format_missing_data(missing)})"
                else:
                    verdict = format_cant_tell(missing, " whether it is worse than the best")
                    standing = f"; {verdict}"
            yield f"place {line.rank}{standing}{against_average}"
        if line.to_best is not None:
            difference = format_difference_with_range(line.to_best)
            yield f"log loss compared with the best: {difference}"
        # If the best model is the reference itself, one line says both.
        if line.to_reference is not None and line.to_reference is not line.to_best:
            difference = format_difference_with_range(line.to_reference)
            yield f"log loss compared with {REFERENCE}: {difference}"
        duration = "from the cache" if result.cached else f"{result.seconds:.1f} s"
        yield f"{format_count(result.size, 'review')} evaluated · {duration}"
        if line.configuration.title != line.configuration.words:
            yield f"called {self.configuration} in files"
        for note in result.notes:
            yield f"* {note}"

    def move(self, step: int) -> None:
        ranked = [line.configuration.name for line in self._run.ranked_results()]
        names = [name for name in ranked if name not in self._folded or name == self.configuration]
        index = names.index(self.configuration) + step
        if 0 <= index < len(names):
            self.configuration = names[index]
            self.update_now()

    def action_compare(self) -> None:
        self.compare(self._run, self.configuration)

    def action_errors(self) -> None:
        self.app.push_screen(ErrorsScreen(self._run, self.configuration))

    def action_back(self) -> None:
        self.dismiss(self.configuration)


class ErrorsScreen(AppScreen, actions="errors"):
    """Tables and forgetting curves of where one model errs, computed when the screen opens."""

    def __init__(self, run: Run, configuration: str) -> None:
        super().__init__()
        self._run = run
        self.configuration = configuration
        self._curves: list[tuple[CurvesChart, CurvesTable]] = []  # each chart with its table
        self._overlaid_model: str | None = None  # the model whose curves are drawn over these

    def content(self) -> ComposeResult:
        with VerticalScroll(id="box"):
            yield Static("Looking for its errors …", id="looking")

    def update_now(self) -> None:
        """Draw the curves again, in the colours of the theme."""
        for chart, _ in self._curves:
            chart.draw()

    def _describe_title(self) -> str:
        configuration = self._run.models[self.configuration].configuration
        verb = "err" if configuration.fit == "own" else "errs"  # "your parameters" is plural
        return f"Where {configuration.words} {verb}"

    def on_mount(self) -> None:
        box = self.query_one("#box")
        box.border_title = escape(self._describe_title())
        box.focus()
        self._work = Background(self.session.call_in_view_thread)
        self._work.begin(self._compute_errors, self._show_failure)

    def on_unmount(self) -> None:
        self._work.cancel()

    def _compute_errors(self, _: threading.Event) -> Generator[Callable[[], None]]:
        """Compute the tables of where the model errs, and yield a callback that shows them."""
        tables = self.session.models.errors_of(self._run.models[self.configuration])
        yield partial(self._show_tables, tables)

    def _show_failure(self, error: Exception | None) -> None:
        """Show why there are no tables, if computing them failed."""
        if error is not None and not self.is_missing("#looking"):
            self.query_one("#looking", Static).update(Text(describe_failure(error)[0]))

    def _show_tables(self, tables: list[Table]) -> None:
        if self.is_missing("#looking"):
            return
        widgets: list[Widget] = []
        for table in tables:
            widgets.append(Static(Text(table.heading, "bold")))
            if isinstance(table, CurvesTable) and table.curves:
                chart = CurvesChart(table)
                self._curves.append((chart, table))
                widgets.append(chart)
            widgets.append(Static(stack([render_table_with_intervals(table), Text("")])))
        self.query_one("#looking").remove()
        self.query_one("#box").mount_all(widgets)

    def action_overlay(self) -> None:
        """Draw another model's curves over this one's, or take them off again."""
        if self._overlaid_model is not None:
            self._overlaid_model = None
            self._draw_overlay({}, None)
            return
        other_model = self._find_other_model() if self._curves else None
        if other_model is None:
            self.notify("No second model has been evaluated on these reviews yet.", timeout=3)
            return
        self._overlaid_model = other_model
        self._work.begin(partial(self._compute_overlay, other_model), lambda error: None)

    def _find_other_model(self) -> str | None:
        """Return the learner's own scheduler, or else the best other model, on the same reviews."""
        other_results = self._run.results_by_name()
        this_result = other_results.pop(self.configuration)
        ranked = [line.configuration.name for line in self._run.ranked_results()]
        for name in (self.session.models.own_scheduler, *ranked):
            if not name or name not in other_results:
                continue
            if have_same_reviews(this_result, other_results[name]):
                return name
        return None

    def _compute_overlay(self, name: str, _: threading.Event) -> Generator[Callable[[], None]]:
        """Compute the curves of another model, and yield a callback that draws them."""
        tables = self.session.models.errors_of(self._run.models[name])
        curves_by_title = {table.title: table for table in tables if isinstance(table, CurvesTable)}
        yield partial(self._draw_overlay, curves_by_title, name)

    def _draw_overlay(self, curves_by_title: Mapping[str, CurvesTable], name: str | None) -> None:
        """Draw the curves of a model over this one's; without a name, only this one's."""
        if name != self._overlaid_model or self.is_missing("#box"):
            return  # taken off again, or the screen has closed
        models = self._run.models
        title = self._describe_title()
        names = ("", "")
        box = self.query_one("#box")
        if name is not None:
            this_name = models[self.configuration].configuration.words
            other_name = models[name].configuration.words
            names = (this_name, other_name)
            title += f" · {OTHER_MARK} in the curves: {other_name}"
            first_chart, _ = self._curves[0]
            box.scroll_to_widget(first_chart, top=True, animate=False)
        box.border_title = escape(title)
        for chart, table in self._curves:
            chart.show(curves_by_title.get(table.title), names)


class CompareScreen(AppScreen, actions="compare"):
    """Two calibration graphs on the same axes, and a table of both models' metrics.

    Both models, and all that can be chosen instead, belong to one run. With `folds_metrics`, for
    learners, the table and all other log losses stay hidden until a key shows them.
    """

    AUTO_FOCUS = ""  # else the first choice of models would get the focus and open its list

    def __init__(self, run: Run, left: str, right: str, *, folds_metrics: bool = False) -> None:
        super().__init__()
        self._run = run
        self.pair = [left, right]
        self.set_class(folds_metrics, "-folded")

    def content(self) -> ComposeResult:
        configurations = [line.configuration for line in self._run.ranked_results()]
        choices = [
            (Text(configuration.words), configuration.name) for configuration in configurations
        ]
        yield Static(id="verdict")
        with Horizontal(id="pair"):
            for side, name in zip(("left", "right"), self.pair, strict=True):
                with Vertical(classes="side", id=side):
                    yield Select(
                        choices, value=name, allow_blank=False, compact=True, id=f"{side}-model"
                    )
                    yield CalibrationChart(id=f"{side}-chart", count_rows=2)
        with VerticalScroll(id="figures"):
            yield Static(id="table")

    def on_mount(self) -> None:
        self.query_one("#figures").focus()

    def on_resize(self) -> None:
        self.update_soon()

    def update_now(self) -> None:
        """Show both models on the reviews that they share."""
        results = self._run.results_by_name()
        left_name, right_name = self.pair
        left, right = restrict_both_to_shared_reviews(results[left_name], results[right_name])
        graphs = [self.session.models.find_graph(result) for result in (left, right)]
        limits = axis_limits(graphs)
        for side, graph in zip(("left", "right"), graphs, strict=True):
            self.query_one(f"#{side}-chart", CalibrationChart).show(graph, limits)
            subtitle = f"off by {format_percent(graph.mae)} on average"
            self.query_one(f"#{side}").border_subtitle = subtitle
        self.query_one("#verdict", Static).update(self._format_verdict(left, right))
        self.query_one("#table", Static).update(self._format_figures(left, right))

    def _format_verdict(self, left: Result, right: Result) -> Text:
        difference = log_loss_difference(left, right)
        if difference is None:
            return Text(
                "They were evaluated on different reviews, so their figures can't be compared.",
                "bold",
            )
        equivalence = self.session.config.equivalence
        verdict = decide_verdict(difference, equivalence=equivalence)
        is_folded = self.has_class("-folded")
        better = "Better on these reviews" if is_folded else "Better"
        heading = {
            "better": f"{better}: {readable_name(left.configuration)}",
            "worse": f"{better}: {readable_name(right.configuration)}",
            "as good": "Both are equally good",
            "can't tell yet": "These reviews alone do not show which predicts better",
        }[verdict]
        is_clear = difference.low > 0 or difference.high < 0
        if verdict == "can't tell yet" and is_clear and difference.days < MIN_DAYS:
            heading = f"{format_count(difference.days, 'day')} are too few to say which is better"
        addition = self._describe_calibration(verdict, left, right)
        advice_basis = self._describe_advice_basis(left, right)
        if verdict == "can't tell yet" and not advice_basis:  # it says what decides instead
            missing = estimate_missing_data(difference, equivalence)
            if missing.can_come:
                addition = f" ({format_missing_data(missing)})"
        if is_folded:
            return Text.assemble(
                (heading, "bold"),
                f"{addition}\n{explain_charts(left.size)}{advice_basis}\n",
                (f"{self.key_of('table')} shows log loss and other metrics", "dim"),
            )
        basis = f"{format_count(left.size, 'review')} from {format_count(difference.days, 'day')}"
        if differs(difference.estimate):
            than = f" than {readable_name(right.configuration)}'s"
            size = format_difference_with_range(difference, than=than)
            comparison = f"{readable_name(left.configuration)}'s is {size}"
        else:
            comparison = f"they are equal {format_interval(difference)}"
        return Text.assemble(
            (heading, "bold"),
            f"{addition}\nLog loss (lower is better): {comparison}",
            (f" on {basis}", "dim"),
            advice_basis,
        )

    def _describe_calibration(self, verdict: Verdict, left: Result, right: Result) -> str:
        """Say so if the better model is further off on average; "" if it is not, or if none is."""
        winner, loser = (left, right) if verdict == "better" else (right, left)
        if verdict not in ("better", "worse"):
            return ""
        winner_mae, loser_mae = (
            round(self.session.models.find_graph(result).mae, 3) for result in (winner, loser)
        )
        if winner_mae <= loser_mae:
            return ""
        if not (winner.metrics.auc or 0.0) > (loser.metrics.auc or 0.0):
            return ", though it is off by more on average"
        return ". It is off by more on average, but is better at telling which cards you forget"

    def _describe_advice_basis(self, left: Result, right: Result) -> str:
        """Say on which other grounds the advice chooses between SM-2 and FSRS; "" if on none."""
        if {left.configuration, right.configuration} != {*SM2_AND_FSRS}:
            return ""
        overview = self.session.overview
        fits = [answer for answer in overview.answers if isinstance(answer.evidence, Fit)]
        if not fits or overview.excluded_cards is not None:
            return ""
        if overview.row_rule == "benchmark" or fits[0].reviews == left.size:
            return "\n“What to do” also takes other people's results into account."
        return f"\n{describe_advice_basis(get_evidence(fits[0], Fit))}"

    def _format_figures(self, left: Result, right: Result) -> WidthDependent:
        results = (left, right)
        names = [readable_name(result.configuration) for result in results]
        explains_metrics = self.size.width >= 110
        rows = []
        for metric, info in METRIC_INFO.items():
            figures = [formats.format_metric(result.metrics, metric) for result in results]
            cells = figures
            if metric == "log_loss":  # shown with its interval, but figures decide what is better
                losses = [log_loss_interval(result) for result in results]
                figures = [
                    formats.format_loss(replace(loss, half_width=math.nan)) for loss in losses
                ]
                cells = [formats.format_loss(loss) for loss in losses]
            winning_side = _find_winning_side(metric, left, right, figures)
            row = [Text(info.name)]
            for side, text in enumerate(cells):
                if side == winning_side:
                    row.append(Text(f"{text} ◀", "bold"))
                else:
                    row.append(Text(f"{text}  "))
            if explains_metrics:
                row.append(Text(info.meaning, "dim"))
            rows.append(row)

        def draw(width: int) -> Text:
            # Two columns beside the names of metrics, each with a gap and room for the mark.
            name_width = max((min(width, _MAX_TABLE_WIDTH) - 13) // 2 - 4, 12)
            headings = [Text("")]
            for name in names:
                headings.append(Text(f"{formats.truncate(name, name_width)}  ", "bold dim"))
            return align_columns([headings, *rows], width, right_aligned=(1, 2))

        return WidthDependent(draw)

    def action_table(self) -> None:
        """Show the metrics if they are hidden, else the charts as tables, or as graphs again."""
        if self.has_class("-folded"):
            self.remove_class("-folded")
            self.update_now()
        else:
            super().action_table()

    @on(Select.Changed)
    def _select_model(self, event: Select.Changed) -> None:
        side = 0 if event.select.id == "left-model" else 1
        if isinstance(event.value, str) and event.value != self.pair[side]:
            self.pair[side] = event.value
            self.update_now()

    def action_swap(self) -> None:
        self.pair.reverse()
        for side, name in zip(("left", "right"), self.pair, strict=True):
            self.query_one(f"#{side}-model", Select).value = name
        self.update_now()

    def _open_choice(self, side: str) -> None:
        select = self.query_one(f"#{side}-model", Select)
        select.focus()
        select.action_show_overlay()

    def action_left_model(self) -> None:
        self._open_choice("left")

    def action_right_model(self) -> None:
        self._open_choice("right")


def _find_winning_side(metric: str, left: Result, right: Result, figures: list[str]) -> int | None:
    """Return the side with the better figure (0: left, 1: right); None if neither is better.

    `figures` are both as they are shown: if these are equal, neither is better.
    """
    better = METRIC_INFO[metric].better
    left_figure = getattr(left.metrics, metric)
    right_figure = getattr(right.metrics, metric)
    if better not in ("lower", "higher") or left_figure is None or right_figure is None:
        return None
    shown_left, shown_right = figures
    if shown_left == shown_right:
        return None
    if better == "lower":
        return 0 if left_figure < right_figure else 1
    return 1 if left_figure < right_figure else 0
