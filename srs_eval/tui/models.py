"""Evaluate a session's models in the background and hold their results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from srs_eval.data.errors import format_count
from srs_eval.data.protocol import Protocol
from srs_eval.tui.background import Background
from srs_eval.tui.config import Config

if TYPE_CHECKING:
    from srs_eval.advice.findings import Fsrs7Preview
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.loss_breakdown import LossBreakdown
    from srs_eval.engine.ranking import RankingGroup
    from srs_eval.engine.result import Result
    from srs_eval.engine.run import Event, ModelRun, Run
    from srs_eval.engine.schedulability import Measurement
    from srs_eval.engine.session import LearnerSession
    from srs_eval.engine.workers import WorkerPool
    from srs_eval.models.configurations import Configuration
    from srs_eval.stats.intervals import CalibrationGraph
    from srs_eval.stats.tables import Table
    from srs_eval.tui.session import AppSession

_Rows = Literal["benchmark", "anki"]
_SECONDS_BETWEEN_MEASUREMENTS = 2.0
SM2_AND_FSRS = ("Anki-dry-run", "FSRS-6")
"""Anki's two schedulers as configurations: SM-2, and FSRS fitted to earlier reviews."""


class ModelEvaluator:
    """Evaluates the requested models in a thread, and notifies the session's view."""

    def __init__(self, session: AppSession) -> None:
        self._session = session
        self.requested = session.options.models  # names, written as for --models
        self.protocol = session.options.protocol
        self.is_requested_by_user = False  # False: they start by themselves after the answers
        self.background = Background(session.call_in_view_thread)
        self._evaluated_with: tuple[ReviewLog, str, Protocol] | None = None
        """The log, `requested` and `protocol` with which `run` was started."""
        self._rows_before: _Rows | None = None  # restored if the new rows cannot be evaluated
        self._graphs: dict[tuple[int, int], tuple[Result, CalibrationGraph]] = {}
        """Results with their graphs, by the result's id and the number of bins."""
        self._breakdowns: dict[tuple[int, int], tuple[Result, Result | None, LossBreakdown]] = {}
        """Results, each with the average's and with what its loss consists of, by both ids."""
        self._warm_up_pool: WorkerPool | None = None
        self._is_warm_up_over = False  # if so, nothing more is compiled ahead
        self.scheduling = Background(session.call_in_view_thread)
        """Asks the models of a finished run whether they could schedule."""
        self.measurements: dict[str, Measurement] = {}
        """Whether models of the run can schedule, by name, as far as they have been asked."""

        self._fsrs7_preview: tuple[tuple[Result, ...], Fsrs7Preview | None] | None = None
        """The results of a run, and what they say of FSRS-7."""

    @cached_property
    def run(self) -> Run:
        """Return the progress and results so far; `start` and `reset` assign a new run."""
        from srs_eval.engine.run import Run

        return Run()

    # --- compiling ahead

    def warm_up(self) -> None:
        """Compile models while the user chooses a file; needed once after each update."""
        if "evaluate" in self._session.overrides:
            return
        from srs_eval.advice.answering import NEEDED_CONFIGURATIONS
        from srs_eval.engine.evaluate import warm_up_kernels

        self._warm_up_pool = warm_up_kernels(NEEDED_CONFIGURATIONS, "fast")
        if self._is_warm_up_over:  # `end_warm_up` was called while the pool was being created
            self.end_warm_up()

    def end_warm_up(self) -> None:
        """Stop compiling ahead; the evaluation compiles the rest, and finished work is kept."""
        self._is_warm_up_over = True
        pool = self._warm_up_pool
        self._warm_up_pool = None
        if pool is not None:
            pool.terminate_workers()

    # --- the open file

    def forget_graphs(self) -> None:
        """Forget the graphs, because another file, or another part of it, is open."""
        self._graphs = {}
        self._breakdowns = {}

    @property
    def run_of_open_file(self) -> Run:
        """Return the run if it belongs to the open file, else an empty one."""
        from srs_eval.engine.run import Run

        if self._evaluated_with is not None and self._evaluated_with[0] is self._session.log:
            return self.run
        return Run(equivalence=self._session.config.equivalence)

    @property
    def protocol_of_run(self) -> Protocol:
        """Return the protocol that the run was started with, or the chosen one without a run."""
        if self._evaluated_with is None:
            return self.protocol
        _, _, protocol = self._evaluated_with
        return protocol

    @property
    def own_scheduler(self) -> str | None:
        """Return the configuration that represents the learner's scheduler, if it is known."""
        from srs_eval.engine.ranking import own_scheduler

        return None if self._session.log is None else own_scheduler(self._session.log)

    @property
    def is_up_to_date(self) -> bool:
        """Return whether the requested models are, or are being, evaluated on the open file."""
        return self._matches_request and not self.run.cancelled

    @property
    def _matches_request(self) -> bool:
        """Return whether the run is of the open file, the requested models and the protocol."""
        return self._evaluated_with == (self._session.log, self.requested, self.protocol)

    @property
    def can_cancel(self) -> bool:
        """Return whether models are running that have not been asked to stop."""
        return self._is_running and not self.run.cancelled

    @property
    def _is_running(self) -> bool:
        """Return whether models are running; a run that was never started has not ended either."""
        return bool(self.run.started_at) and self.run.is_running

    @property
    def alternative_rows(self) -> _Rows | None:
        """Return the other rule for which reviews count; None if it selects none.

        A table follows one rule only: there is no other.
        """
        import_summary = self._session.import_summary
        if import_summary is None or len(import_summary.rows) < 2:
            return None
        other_rows: _Rows = "anki" if self.protocol.rows == "benchmark" else "benchmark"
        return other_rows if import_summary.rows[other_rows].kept else None

    def review_counts(self) -> tuple[int, int] | None:
        """Return how many reviews there are under the protocol and how many of them are evaluated.

        Return None until both are known.
        """
        run = self.run_of_open_file
        if run.reviews is None or run.evaluated is None or self.protocol != self.protocol_of_run:
            return None
        return run.reviews, run.evaluated

    def describe_report_basis(self) -> str:
        """Describe which models are ranked in a report."""
        run = self.run_of_open_file
        finished_count = len(run.results_by_name())
        model_count = format_count(len(run.models), "model")
        return (
            "The report ranks the models that have finished: "
            f"{finished_count} of {model_count} so far."
        )

    # --- evaluating

    def ensure_started(self) -> None:
        """Evaluate the requested models, unless that is done or under way."""
        self.is_requested_by_user = True
        if not self.is_up_to_date:
            # A run that was cancelled goes on where it stopped.
            self.start(only_missing=self._matches_request and self.run.has_missing_results)

    def start(self, only_missing: bool = False) -> None:
        """Evaluate the open collection; with `only_missing`, only the models without figures.

        The evaluation continues on every screen until it is cancelled or the file is closed.
        """
        from srs_eval.engine.run import Run

        session = self._session
        log = session.log
        previous_run = self.run
        if log is None:
            return
        missing = [
            model.configuration for model in previous_run.models.values() if model.result is None
        ]
        if only_missing and not missing:
            session.view.show_message("Every model has been evaluated.")
            return
        self.cancel()
        self._rows_before = None
        self.measurements = {}
        self.run = Run(started_at=session.monotonic(), equivalence=session.config.equivalence)
        self._evaluated_with = (log, self.requested, self.protocol)
        if only_missing:
            self.run.models = previous_run.models
            self.run.reviews = previous_run.reviews
            self.run.evaluated = previous_run.evaluated
        configurations = missing if only_missing else None
        self.background.begin(partial(self._evaluate, log, configurations), self._finish)

    def _evaluate(
        self, log: ReviewLog, configurations: list[Configuration] | None, cancel: threading.Event
    ) -> Generator[Callable[[], None]]:
        """Evaluate `configurations` (None: all requested) and yield a callback for each event.

        A result's graph and the ranking are computed here, in a thread, so that the app's event
        loop only has to show them.
        """
        from srs_eval.engine.evaluate import evaluate
        from srs_eval.engine.ranking import add_baselines, add_own_parameters, rank_results
        from srs_eval.engine.run import Finished
        from srs_eval.engine.shared_reviews import add_external_configurations
        from srs_eval.models.configurations import resolve_configurations

        self.end_warm_up()
        session = self._session
        protocol = self.protocol
        finished = self.run.finished_results()
        if configurations is None:
            requested = resolve_configurations(self.requested, protocol)
            configurations = add_own_parameters(requested, log, protocol)
            configurations = add_external_configurations(configurations, log, protocol)
            configurations = add_baselines(configurations, excludes_deleted=log.skips_deleted_cards)
        learner_models = resolve_configurations("learner", protocol)
        evaluate_models = session.overrides.get("evaluate", evaluate)
        events: Any = evaluate_models(
            log,
            configurations,
            protocol,
            jobs=session.job_count(),
            context=session.options.context,
            cancel=cancel,
            use_cache=session.options.use_cache,
            prioritized={configuration.name for configuration in learner_models},
        )
        with closing(events):
            for event in events:
                groups = None
                if isinstance(event, Finished):
                    self.find_graph(event.result)  # computes and keeps it
                    finished.append((event.configuration, event.result))
                    groups = rank_results(finished, equivalence=session.config.equivalence)
                yield partial(self._apply_event, event, groups)

    def _apply_event(self, event: Event, groups: list[RankingGroup] | None) -> None:
        from srs_eval.engine.run import Prepared

        self.run.apply(event, self._session.monotonic(), groups)
        if isinstance(event, Prepared):  # the ranking looks for other events several times a second
            self._session.view.show_changes()

    def _finish(self, error: Exception | None) -> None:
        self.run.end(self._session.monotonic())
        view = self._session.view
        view.show_changes()
        if error is None:
            self._measure_quick_models()
            return
        self._evaluated_with = None  # so that a new request tries again
        if self._rows_before is not None:  # the rows had just been switched: go back
            self.protocol = replace(self.protocol, rows=self._rows_before)
            self.start()
            view.show_error(
                "Can't rank models on these reviews", error, button="Back", reassurance=""
            )
        else:
            view.show_evaluation_error(error)

    def switch_rows(self) -> None:
        """Rank the models on the reviews that the other rule selects."""
        new_rows = self.alternative_rows
        old_rows = self.protocol.rows
        if new_rows is not None:
            self.protocol = replace(self.protocol, rows=new_rows)
            self.start()
            self._rows_before = old_rows  # last, because `start` resets it

    def cancel(self) -> None:
        """Ask the engine to stop; the view is notified when it has stopped."""
        if self._is_running:
            self.run.cancelled = True
        self.background.cancel()
        self.scheduling.cancel()

    def reset(self) -> None:
        """Stop the evaluation and forget the figures."""
        from srs_eval.engine.run import Run

        self.cancel()
        self.run = Run()
        self.measurements = {}
        self._evaluated_with = None

    # --- whether models can schedule

    def _measure_quick_models(self) -> None:
        """Ask the models that answer quickly whether they could schedule, best first."""
        log = self._session.log
        if log is None or self.run.cancelled or not self._can_measure:
            return
        self.scheduling.begin(partial(self._measure_in_thread, log, self.run), lambda error: None)

    @property
    def _can_measure(self) -> bool:
        """Return whether models can be asked: those that a test replaces cannot."""
        return "evaluate" not in self._session.overrides or "measure" in self._session.overrides

    def _measure_in_thread(
        self, log: ReviewLog, run: Run, cancel: threading.Event
    ) -> Generator[Callable[[], None]]:
        from srs_eval.engine.schedulability import is_quick
        from srs_eval.engine.session import LearnerSession

        session = LearnerSession(log)
        new: list[Measurement] = []
        shown_at = self._session.monotonic()
        for line in run.ranked_results():
            if cancel.is_set():
                return
            name = line.configuration.name
            if name not in self.measurements and is_quick(line.configuration, line.result):
                new.append(self._measure(session, run, name))
            # Each time they are shown, the ranking is drawn again.
            if new and self._session.monotonic() - shown_at >= _SECONDS_BETWEEN_MEASUREMENTS:
                yield partial(self._add_measurements, run, tuple(new))
                new.clear()
                shown_at = self._session.monotonic()
        if new:
            yield partial(self._add_measurements, run, tuple(new))

    def measure(self, run: Run, name: str) -> Measurement | None:
        """Return whether a model can schedule; slow the first time, so call it in a thread.

        Return None while models are running, so that these are not slowed, and for another file.
        """
        from srs_eval.engine.session import LearnerSession

        log = self._session.log
        if log is None or run is not self.run or self._is_running or not self._can_measure:
            return None
        if name not in self.measurements:
            self.measurements[name] = self._measure(LearnerSession(log), run, name)
        return self.measurements[name]

    def _measure(self, session: LearnerSession, run: Run, name: str) -> Measurement:
        from srs_eval.data.readers.features import add_features
        from srs_eval.engine.schedulability import FEW_HISTORIES, measure_configurations

        context = self._session.options.context
        session.log = add_features(session.log, context.features)
        measure = self._session.overrides.get("measure", measure_configurations)
        measurements: Iterator[Measurement] = measure(
            session,
            [run.models[name].configuration],
            context,
            max_histories=FEW_HISTORIES,
            results=run.results_by_name(),
        )
        return next(iter(measurements))

    def _add_measurements(self, run: Run, measurements: Sequence[Measurement]) -> None:
        if run is self.run:
            for measurement in measurements:
                self.measurements[measurement.configuration.name] = measurement
            self._session.view.show_changes()

    # --- comparing SM-2 and FSRS

    @property
    def can_compare_schedulers(self) -> bool:
        """Return whether SM-2 and FSRS are both evaluated, or are both going to be."""
        from srs_eval.engine.run import Stage

        models = self.run_of_open_file.models
        if not models:  # which ones there are is known only once they have started
            return self.requested == Config.models
        stages = {models[name].stage for name in SM2_AND_FSRS if name in models}
        has_both = models.keys() >= set(SM2_AND_FSRS)
        return has_both and stages.isdisjoint((Stage.FAILED, Stage.SKIPPED))

    @property
    def has_both_schedulers(self) -> bool:
        """Return whether the figures of SM-2 and FSRS are both there."""
        return self.run_of_open_file.results_by_name().keys() >= set(SM2_AND_FSRS)

    # --- FSRS-7

    def find_fsrs7_preview(self) -> Fsrs7Preview | None:
        """Compare FSRS-7 with FSRS-6 where Anki cannot run it; None while that is not known."""
        from srs_eval.advice.questions import find_preview

        log = self._session.log
        results = self.run_of_open_file.results_by_name()
        if log is None:
            return None
        key = tuple(results.values())
        if self._fsrs7_preview is None or self._fsrs7_preview[0] != key:
            preview = find_preview(log, results, self._session.config.equivalence)
            self._fsrs7_preview = key, preview
        return self._fsrs7_preview[1]

    # --- models that are folded

    @property
    def can_fold(self) -> bool:
        """Return whether models that Anki cannot use may be folded in the ranking.

        They may not if the user has chosen which models are evaluated, or if the reviews are not
        Anki's, because another program may use other models.
        """
        session = self._session
        if session.log is None or session.log.import_summary.app_name != "Anki":
            return False
        return session.options.folds_models and self.requested == session.options.models

    def foldable_names(self) -> frozenset[str]:
        """Return the names of the run's models that can be folded."""
        if not self.can_fold:
            return frozenset()
        configurations = [run.configuration for run in self.run.models.values()]
        return _find_unusable(configurations, self.own_scheduler)

    # --- one model

    def errors_of(self, model: ModelRun) -> list[Table]:
        """Return tables of where a finished model errs; slow, so call it in a thread."""
        from srs_eval.advice.questions import model_evidence
        from srs_eval.advice.shown.predicted import error_tables
        from srs_eval.engine.session import LearnerSession

        log = self._session.log
        if log is None or model.result is None:
            return []
        trials = LearnerSession(log).trials(model.configuration.protocol)
        return error_tables(model_evidence(log, trials, model.configuration, model.result))

    def find_graph(self, result: Result) -> CalibrationGraph:
        """Return a result's calibration graph with the chosen number of bins, computed once."""
        from srs_eval.stats.intervals import compute_calibration_graph

        bins = self._session.state.bins
        key = (id(result), bins)  # the result is kept with its graph so that its id stays unique
        if key not in self._graphs:
            graph = compute_calibration_graph(result.y, result.p, bins)
            self._graphs[key] = result, graph
        return self._graphs[key][1]

    def find_breakdown(self, run: Run, name: str) -> LossBreakdown:
        """Return what a finished model's loss consists of, computed once for each of its runs."""
        from srs_eval.engine.loss_breakdown import break_down_loss
        from srs_eval.engine.ranking import find_average

        result = run.ranked_result(name).result
        average = find_average(run.groups(), result)
        key = (id(result), id(average))  # both are kept so that their ids stay unique
        if key not in self._breakdowns:
            self._breakdowns[key] = (result, average, break_down_loss(result, average))
        return self._breakdowns[key][2]


def _find_unusable(
    configurations: Sequence[Configuration], own_scheduler: str | None
) -> frozenset[str]:
    """Return the names of the models that a user of Anki cannot choose.

    The learner's own scheduler, parameters and predictions are not among them, nor is the average
    of the reviews on which a usable model is evaluated.
    """
    from srs_eval.engine.ranking import comparison_rows
    from srs_eval.models.kinds import ExternalModel
    from srs_eval.models.own_parameters import is_available_in_anki

    unusable = set()
    usable_rows = set()
    for configuration in configurations:
        is_own = configuration.fit == "own" or configuration.name == own_scheduler
        is_external = isinstance(configuration.model, ExternalModel)
        if is_own or is_external or is_available_in_anki(configuration):
            usable_rows.add(comparison_rows(configuration))
        elif not configuration.is_baseline:
            unusable.add(configuration.name)
    for configuration in configurations:
        if configuration.is_baseline and comparison_rows(configuration) not in usable_rows:
            unusable.add(configuration.name)
    return frozenset(unusable)
