"""The models of a session: which are asked for, on which reviews, and what has become of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from srs_eval.data.errors import counted
from srs_eval.data.protocol import Protocol
from srs_eval.tui.background import Background

if TYPE_CHECKING:
    from srs_eval.advice.sentences import Table
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.ranking import Group
    from srs_eval.engine.run import Event, ModelRun, Run
    from srs_eval.engine.session import Result
    from srs_eval.engine.workers import WorkerPool
    from srs_eval.models.configurations import Configuration
    from srs_eval.stats.intervals import CalibrationGraph
    from srs_eval.tui.session import Session

_Rows = Literal["benchmark", "anki"]


class Models:
    """Evaluates them in a thread, and tells the session's view."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.asked = session.options.models
        self.protocol = session.options.protocol
        self.wanted = False  # by the person; or they follow the answers by themselves
        self.work = Background(session.later)
        self._evaluated: tuple[ReviewLog, str, Protocol] | None = None
        self._rows_before: _Rows | None = None  # to go back to, where others cannot be evaluated
        self._graphs: dict[tuple[int, int], tuple[Result, CalibrationGraph]] = {}
        self._warm_up: WorkerPool | None = None
        self._has_begun = False  # from then on nothing more is compiled ahead

    @cached_property
    def run(self) -> Run:
        """What has become of them so far."""
        from srs_eval.engine.run import Run

        return Run()

    # --- compiling ahead

    def warm_up(self) -> None:
        """Compile models while the user chooses a file; needed once after each update."""
        if "evaluate" in self._session.made_up:
            return
        from srs_eval.advice.overview import NEEDED
        from srs_eval.engine.evaluate import warm_up

        self._warm_up = warm_up(NEEDED, "fast")
        if self._has_begun:
            self.end_warm_up()

    def end_warm_up(self) -> None:
        """Stop compiling ahead: the evaluation compiles the rest, and what is done is kept."""
        self._has_begun = True
        pool, self._warm_up = self._warm_up, None
        if pool is not None:
            pool.terminate_workers()

    # --- what is open

    def forget(self) -> None:
        """Another file, or another part of it, is open."""
        self._graphs = {}

    @property
    def of_open_file(self) -> Run:
        """The figures, if they are of what is open."""
        from srs_eval.engine.run import Run

        same = self._evaluated is not None and self._evaluated[0] is self._session.log
        return self.run if same else Run(equivalence=self._session.config.equivalence)

    @property
    def protocol_of_run(self) -> Protocol:
        return self.protocol if self._evaluated is None else self._evaluated[2]

    @property
    def own_scheduler(self) -> str | None:
        """The configuration that stands for what the learner schedules with, if it is known."""
        from srs_eval.engine.ranking import own_scheduler

        return None if self._session.log is None else own_scheduler(self._session.log)

    @property
    def are_evaluated(self) -> bool:
        """Whether those asked for are, or are being, evaluated on what is open."""
        asked = (self._session.log, self.asked, self.protocol)
        return self._evaluated == asked and not self.run.cancelled

    @property
    def can_cancel(self) -> bool:
        """Whether models are at work that have not been told to stop."""
        return bool(self.run.started) and self.run.running and not self.run.cancelled

    @property
    def other_rows(self) -> _Rows | None:
        """The other rule of which reviews count, where what is open has reviews for both."""
        import_summary = self._session.import_summary
        if import_summary is None or len(import_summary.rows) < 2:
            return None
        other: _Rows = "anki" if self.protocol.rows == "benchmark" else "benchmark"
        return other if import_summary.rows[other].kept else None

    def counts(self) -> tuple[int, int] | None:
        """Numbers of reviews and of evaluated reviews under the protocol, once known."""
        run = self.of_open_file
        if run.reviews is None or run.evaluated is None or self.protocol != self.protocol_of_run:
            return None
        return run.reviews, run.evaluated

    def in_report(self) -> str:
        """Which are ranked in a report."""
        run = self.of_open_file
        of = f"{len(run.results())} of {counted(len(run.models), 'model')} so far"
        return f"Ranked in it are the models that have finished: {of}."

    # --- evaluating

    def rank(self) -> None:
        """Evaluate those asked for, unless that is done or under way."""
        self.wanted = True
        if not self.are_evaluated:
            same = self._evaluated == (self._session.log, self.asked, self.protocol)
            self.start(again=same and self.run.is_incomplete)

    def start(self, again: bool = False) -> None:
        """Evaluate the open collection; `again`: only the models without figures.

        It goes on whatever screen is shown, until it is cancelled or the file is closed.
        """
        from srs_eval.engine.run import Run

        log, session, before = self._session.log, self._session, self.run
        if log is None:
            return
        missing = [model.configuration for model in before.models.values() if model.result is None]
        if again and not missing:
            session.view.tell("Every model has its figures.")
            return
        self.cancel()
        self._rows_before = None
        self.run = Run(started=session.monotonic(), equivalence=session.config.equivalence)
        self._evaluated = (log, self.asked, self.protocol)
        if again:
            self.run.models = before.models
            self.run.reviews, self.run.evaluated = before.reviews, before.evaluated
        self.work.begin(partial(self._events, log, missing if again else None), self._ended)

    def _events(
        self, log: ReviewLog, missing: list[Configuration] | None, cancel: threading.Event
    ) -> Generator[Callable[[], None]]:
        """Tell what the engine sends of those that are `missing`, or of all asked for.

        A result's graph and the ranking are computed here, in a thread: the loop that draws and
        listens only shows them.
        """
        from srs_eval.engine.evaluate import evaluate
        from srs_eval.engine.ranking import ranking, with_baselines, with_own
        from srs_eval.engine.run import Finished
        from srs_eval.engine.shared import with_given
        from srs_eval.models.configurations import resolve

        self.end_warm_up()
        session, protocol, wanted = self._session, self.protocol, missing
        finished = self.run.finished_pairs()
        if wanted is None:
            wanted = with_own(resolve(self.asked, protocol), log, protocol)
            wanted = with_given(wanted, log, protocol)
            wanted = with_baselines(wanted, leaves_out=log.leaves_out)
        events: Any = session.made_up.get("evaluate", evaluate)(
            log,
            wanted,
            protocol,
            jobs=session.jobs(),
            context=session.options.context,
            cancel=cancel,
            use_cache=session.options.use_cache,
            first={each.name for each in resolve("learner", protocol)},
        )
        with closing(events):
            for event in events:
                groups = None
                if isinstance(event, Finished):
                    self.graph(event.result)
                    finished.append((event.configuration, event.result))
                    groups = ranking(finished, equivalence=session.config.equivalence)
                yield partial(self._told, event, groups)

    def _told(self, event: Event, groups: list[Group] | None) -> None:
        from srs_eval.engine.run import Prepared

        self.run.apply(event, self._session.monotonic(), groups)
        if isinstance(event, Prepared):
            self._session.view.changed()

    def _ended(self, error: Exception | None) -> None:
        self.run.end(self._session.monotonic())
        view = self._session.view
        view.changed()
        if error is None:
            return
        self._evaluated = None  # asked for again, it is tried again
        if self._rows_before is not None:  # where they had just been switched, back to those before
            self.protocol = replace(self.protocol, rows=self._rows_before)
            self.start()
            view.refuse("Can't rank on these rows", error, "Back", "")
        else:
            view.evaluation_failed(error)

    def switch_rows(self) -> None:
        """Rank the models on the reviews of the other rule."""
        rows, before = self.other_rows, self.protocol.rows
        if rows is not None:
            self.protocol = replace(self.protocol, rows=rows)
            self.start()
            self._rows_before = before

    def cancel(self) -> None:
        """Ask the engine to stop; the view is told when it has."""
        if self.run.running and self.run.started:
            self.run.cancelled = True
        self.work.cancel()

    def reset(self) -> None:
        """Stop, and forget the figures."""
        from srs_eval.engine.run import Run

        self.cancel()
        self.run, self._evaluated = Run(), None

    # --- one model

    def errors_of(self, model: ModelRun) -> list[Table]:
        """Where a model that has finished errs; takes a moment, so call it in a thread."""
        from srs_eval.advice.questions import model_evidence
        from srs_eval.advice.shown.predicted import errors_tables
        from srs_eval.engine.session import Session

        log = self._session.log
        if log is None or model.result is None:
            return []
        trials = Session(log).trials(model.configuration.protocol)
        return errors_tables(model_evidence(log, trials, model.configuration, model.result))

    def graph(self, result: Result) -> CalibrationGraph:
        """The calibration graph of a result with the chosen bins, computed once."""
        from srs_eval.stats.intervals import calibration_graph

        bins = self._session.state.bins
        key = (id(result), bins)
        if key not in self._graphs:  # the result is kept, too, for its id stands for it
            self._graphs[key] = result, calibration_graph(result.y, result.p, bins)
        return self._graphs[key][1]
