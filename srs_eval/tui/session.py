"""Manage a user's session: open a file, answer questions, evaluate models, export reports.

This module does not depend on Textual. Slow work is done in threads (the engine itself works in
processes), and the `_View` is notified of the results.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import typing
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval.data import paths
from srs_eval.data.errors import printable
from srs_eval.data.protocol import Protocol
from srs_eval.training.hyperparameters import Context
from srs_eval.tui.background import Background, ReportWriter, copy_to_system
from srs_eval.tui.config import Action, Config, load_state, save_state
from srs_eval.tui.models import ModelEvaluator

if TYPE_CHECKING:
    from srs_eval.advice.findings import Finding
    from srs_eval.advice.overview import AnswerLine, Overview
    from srs_eval.advice.saved_answers import SavedAnswers
    from srs_eval.advice.workload.estimate import Workload
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.run import Run
    from srs_eval.report.inspection import Inspection

ChosenIds = tuple[tuple[str, ...], tuple[str, ...]]
"""Ids of presets and of decks; if both are empty, everything is evaluated."""
_LogWithSummary = tuple["ReviewLog", "Inspection"]
_BIN_CHOICES = (10, 20, 40)
_SHUTDOWN_SECONDS = 5.0  # time for workers to end after the app has closed


@dataclass(frozen=True)
class AppOptions:
    """Options that the app was started with."""

    models: str = "all"
    folds_models: bool = True  # False: no model is folded, because the user has named the models
    jobs: int | None = None
    protocol: Protocol = field(default_factory=Protocol)
    timezone: str | None = None
    rollover: int | None = None
    user: int | None = None  # which user of a data-set folder
    decks: tuple[str, ...] = ()  # only these decks of every opened file
    presets: tuple[str, ...] = ()
    predictions: Path | None = None  # a file of the user's, added to every opened file
    context: Context = field(default_factory=Context)
    use_cache: bool = True
    config: Config = field(default_factory=Config)


@dataclass(frozen=True)
class ExportRequest:
    """A request to write a report."""

    form: str
    path: Path  # a file, or a folder for report.files.FOLDER_FORMS
    anonymous: bool


class _View(typing.Protocol):
    """The view that is notified of changes.

    It is called in its own thread, except for `call_later` and `preload`.
    """

    def call_later(self, callback: Callable[..., Any], *arguments: Any) -> bool: ...
    def copy_to_clipboard(self, text: str) -> None: ...
    def show_message(self, message: str, seconds: float = 3) -> None: ...
    def show_error(
        self, title: str, error: Exception, *, button: str = ..., reassurance: str = ...
    ) -> None: ...
    def show_reading(self, message: str) -> None: ...
    def show_opened_file(self) -> None: ...
    def show_changes(self) -> None: ...
    def show_evaluation_error(self, error: Exception) -> None: ...
    def show_ranking(self) -> None: ...
    def show_comparison(
        self, run: Run, left: str, right: str, *, folds_metrics: bool = False
    ) -> None: ...
    def show_help(self, screen_name: str, actions: Sequence[Action]) -> None: ...
    def preload(self) -> None:
        """Load the modules of the next screen; called in a thread."""


class AppSession:
    """The open file, its answers and its models.

    The keyword arguments are for tests. `overrides` replaces functions by name: evaluate, answer,
    load, profiles, profile_folders, write_report.
    """

    def __init__(
        self,
        view: _View,
        options: AppOptions,
        *,
        state_folder: Path | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        **overrides: Callable[..., Any],
    ) -> None:
        self.view = view
        self.options = options
        self.config = options.config
        self.monotonic = monotonic
        self.now = now
        self.overrides = overrides
        self.state_folder = state_folder
        self.state = load_state(state_folder)
        self.log: ReviewLog | None = None
        self.import_summary: Inspection | None = None
        self.unfiltered: _LogWithSummary | None = None
        """The open file with all its presets and decks, whichever of them are chosen."""
        self.chosen_ids: ChosenIds = ((), ())
        self.file_name = ""  # as the top line shows it: with the chosen presets and decks
        self._path_key: str | None = None  # of the open file; None for the demo
        self.saved_answers: SavedAnswers | None = None  # outdated ones, shown until new ones come
        self.answers_started_at = 0.0
        self.answers_ended_at: float | None = None  # also set when they are cancelled
        self.compiles = False  # True if models are compiled before answers can come
        self.shows_tables = False  # whether evidence is shown with its tables of figures
        self._models_started = False  # True once models have started after the answers
        self._costs: tuple[ReviewLog, Workload] | None = None  # a log with its final estimate
        self._reading = Background(self.call_in_view_thread)
        self.answering = Background(self.call_in_view_thread)
        self.reports = ReportWriter(self)
        self.models = ModelEvaluator(self)

    # --- start and end

    @cached_property
    def overview(self) -> Overview:
        """Return the answers so far; `ask_questions` assigns a new overview."""
        from srs_eval.advice.overview import Overview

        return Overview(row_rule="anki")

    def cancel_all(self) -> tuple[Background, ...]:
        """Ask the work on answers, models and reports to stop, and return it."""
        models = self.models
        backgrounds = self.answering, models.background, models.scheduling, self.reports
        for background in backgrounds:
            background.cancel()
        return backgrounds

    def shut_down(self) -> None:
        """Wait for workers to end, then terminate those that have not.

        This is called after the terminal has been restored.
        """
        self.models.end_warm_up()
        backgrounds = self.cancel_all()
        deadline = time.monotonic() + _SHUTDOWN_SECONDS
        for background in backgrounds:
            background.wait(deadline)
        if any(background.is_alive for background in backgrounds):
            import multiprocessing

            for process in multiprocessing.active_children():
                process.terminate()

    def call_in_view_thread(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Call `callback` in the view's thread."""
        with contextlib.suppress(RuntimeError):  # the app has closed in the meantime
            self.view.call_later(callback, *arguments)

    # --- saved state

    def remember(self, **changes: Any) -> None:
        """Change parts of the state and save it for the next start."""
        state = replace(self.state, **changes)
        if state != self.state:
            self.state = state
            save_state(state, self.state_folder)

    def next_bins(self) -> None:
        """Switch calibration graphs to the next larger number of bins, or back to the smallest."""
        larger_choices = (bins for bins in _BIN_CHOICES if bins > self.state.bins)
        self.remember(bins=next(larger_choices, _BIN_CHOICES[0]))

    # --- opening a file

    def find_profiles(self) -> list[tuple[str, Path]]:
        """Return names and collections of Anki profiles on this machine; called in a thread."""
        from srs_eval.anki_import import find_profiles

        list_profiles = self.overrides.get("profiles", find_profiles)
        return [(profile.name, profile.path) for profile in list_profiles()]

    def profile_folders(self) -> list[Path]:
        """Return the folders that were searched for Anki profiles."""
        from srs_eval.data.paths import anki_folders

        list_folders = self.overrides.get("profile_folders", anki_folders)
        return list(list_folders(Path.home()))

    def open_file(self, path: Path) -> None:
        """Read a file in a thread, then show answers about it or why it can't be read."""
        shown_name = printable(path.name or path)

        def read(_: threading.Event) -> Generator[Callable[[], None]]:
            from srs_eval.report.inspection import inspect_log

            log = self._load(path)
            self.view.preload()
            yield partial(self._finish_opening, path, shown_name, (log, inspect_log(log)))

        def finish_reading(error: Exception | None) -> None:
            self.view.show_reading("")
            if error is not None:
                if not os.path.exists(path):  # Path.exists raises if a name is too long
                    self.forget(str(path.absolute()))
                self.view.show_error("Can't read this file", error)

        self._reading.begin(read, finish_reading)
        self.view.show_reading(f"Reading {shown_name} …")

    def _load(self, path: Path) -> ReviewLog:
        from srs_eval.anki_import import load_log
        from srs_eval.data.rows import select_decks, select_presets
        from srs_eval.engine.shared_reviews import add_predictions_file

        options = self.options
        load = self.overrides.get("load", load_log)
        log: ReviewLog = load(
            path, timezone=options.timezone, rollover=options.rollover, user=options.user
        )
        if options.decks:
            log = select_decks(log, *options.decks)
        if options.presets:
            log = select_presets(log, *options.presets)
        if self.config.fsrs_7:
            log = replace(log, user_has_fsrs7=True)
        return add_predictions_file(log, options.predictions)

    def _finish_opening(self, path: Path, shown_name: str, opened: _LogWithSummary) -> None:
        """Make a file that was read the open one, remember it as recent, and ask the questions."""
        log, import_summary = opened
        self.unfiltered = opened
        self.chosen_ids = ((), ())
        protocol = self.models.protocol
        # Whoever wrote a table has already chosen its rows: the rule in config.toml does not
        # apply to it, but a rule that differs was named on the command line.
        if log.rows is not None and protocol.rows == self.config.rows:
            self.models.protocol = replace(protocol, rows="benchmark")
        if path == paths.DEMO_FILE:
            self._path_key = None
            self._start_on(opened, "demo: a simulated learner")
            return
        self._path_key = str(path.absolute())
        state = self.state.with_opened(path, import_summary.entries_read, self.now())
        self.remember(recent=state.recent)
        selected_names = map(printable, (*self.options.decks, *self.options.presets))
        self._start_on(opened, " · ".join([shown_name, *selected_names]))

    def _start_on(self, opened: _LogWithSummary, name: str) -> None:
        """Show an opened file, or the chosen part of it, and ask the questions about it."""
        self.log, self.import_summary = opened
        self.file_name = name
        self.models.forget_graphs()
        self.ask_questions()
        self.view.show_opened_file()

    def forget(self, path: str) -> None:
        """Remove a file from the list of recent files."""
        self.remember(recent=self.state.without_file(path).recent)

    def close_file(self) -> None:
        """Cancel answers and models, and forget the file."""
        self.models.cancel()
        self.cancel_answers()
        self.log = None
        self.import_summary = None
        self.unfiltered = None

    def restrict_to(self, chosen: ChosenIds | None) -> None:
        """Restrict answers and ranking to presets and decks; if none are chosen, use all.

        None, from a dialog that was closed, changes nothing.
        """
        unfiltered = self.unfiltered
        if unfiltered is None or chosen is None or chosen == self.chosen_ids:
            return
        unfiltered_log, import_summary = unfiltered
        preset_ids, deck_ids = chosen

        def select(_: threading.Event) -> Generator[Callable[[], None]]:
            from srs_eval.data.rows import select_decks, select_presets
            from srs_eval.report.inspection import inspect_log

            log = unfiltered_log
            if preset_ids:
                log = select_presets(log, *preset_ids)
            if deck_ids:
                log = select_decks(log, *deck_ids)
            yield partial(open_selection, (log, inspect_log(log)))

        def open_selection(selection: _LogWithSummary) -> None:
            if self.unfiltered is not unfiltered:  # closed in the meantime
                return
            self.models.reset()
            self.chosen_ids = chosen
            names = [self.file_name.split(" · ")[0]]  # without what was chosen before
            for preset in import_summary.presets:
                if str(preset.id) in preset_ids:
                    names.append(preset.name or str(preset.id))
            for deck in import_summary.decks:
                if str(deck.id) in deck_ids:
                    names.append(deck.name or str(deck.id))
            self._start_on(selection, " · ".join(names))

        self._reading.begin(select, partial(self._show_error_if_any, "Can't evaluate this"))

    def _show_error_if_any(self, title: str, error: Exception | None) -> None:
        if error is not None:
            self.view.show_error(title, error, button="Back", reassurance="")

    # --- answering

    def ask_questions(self) -> None:
        """Ask all questions about the open collection; the models start after the answers."""
        from srs_eval.advice.overview import Overview

        log = self.log
        if log is None:
            return
        self.cancel_answers()
        self._models_started = False
        self.overview = Overview.start(log)
        self.saved_answers = None
        self.answers_started_at = self.monotonic()
        self.answers_ended_at = None
        self.answering.begin(partial(self._compute_answers, log), self._finish_answers)

    def _compute_answers(
        self, log: ReviewLog, cancel: threading.Event
    ) -> Generator[Callable[[], None]]:
        """Yield callbacks that add answers, which settle questions, as they come.

        Saved answers come first. If nothing that they depend on has changed, they are all.
        """
        from srs_eval.advice import answering, saved_answers
        from srs_eval.advice.overview import Overview
        from srs_eval.engine.session import must_compile
        from srs_eval.models.configurations import resolve_configurations

        context = self.options.context
        equivalence = self.config.equivalence
        key = self.answers_key()
        saved = None
        digest = ""
        if key is not None:
            saved = saved_answers.load_answers(key, self.state_folder)
            digest = saved_answers.answers_digest(log, context, equivalence)
        new_overview = Overview.start(log)
        if saved is not None and saved.inputs_digest == digest:
            yield partial(self._add_answers, saved.findings, tuple(new_overview.waiting))
            return
        if saved is not None:
            yield partial(self._show_saved_answers, saved)
        self.models.end_warm_up()
        needed = resolve_configurations(answering.NEEDED_CONFIGURATIONS)
        self.compiles = any(map(must_compile, needed)) and "answer" not in self.overrides
        stream_answers = self.overrides.get("answer", answering.stream_answers)
        answer_stream = stream_answers(
            log,
            jobs=self.job_count(),
            context=context,
            cancel=cancel,
            equivalence=equivalence,
        )
        for answers, questions in answer_stream:
            new_overview.add(answers, questions)
            yield partial(self._add_answers, answers, questions)
        if key is not None and not new_overview.waiting and not new_overview.has_unanswered:
            summary = self.import_summary
            answers_to_save = saved_answers.SavedAnswers(
                findings=tuple(new_overview.answers),
                inputs_digest=digest,
                entry_count=0 if summary is None else summary.entries_read,
                saved_at_s=self.now(),
            )
            saved_answers.save_answers(key, answers_to_save, self.state_folder)

    def answers_key(self) -> str | None:
        """Return the key under which the answers are saved; None where they are not to be saved."""
        if self._path_key is None or not self.options.use_cache:
            return None
        options = self.options
        return repr((self._path_key, options.user, options.decks, options.presets, self.chosen_ids))

    def cancel_answers(self) -> None:
        self.answering.cancel()
        if self.answers_ended_at is None:
            self.answers_ended_at = self.monotonic()

    def _show_saved_answers(self, saved: SavedAnswers) -> None:
        """Show the saved answers about an earlier state of the file until new ones come."""
        self.saved_answers = saved
        self.overview.add(saved.findings)
        self.overview.shows_saved_answers = True
        self.view.show_changes()

    def _add_answers(self, answers: tuple[Finding, ...], questions: tuple[str, ...]) -> None:
        from srs_eval.advice.questions import NON_BLOCKING_QUESTIONS

        self.overview.add(answers, questions)
        self.view.show_changes()
        if self.answers_ended_at is None and set(self.overview.waiting) <= NON_BLOCKING_QUESTIONS:
            self._start_models()

    def _finish_answers(self, error: Exception | None) -> None:
        if self.log is None:
            return
        cancelled = self.answers_ended_at is not None  # by `cancel_answers`
        if not cancelled:
            self.answers_ended_at = self.monotonic()
        self.view.show_changes()
        self._show_error_if_any("Can't answer this", error)
        if error is None and not cancelled:
            self._start_models()

    def _start_models(self) -> None:
        """Start the models, once after the answers; non-blocking questions may still be open."""
        if not self._models_started and not self.models.is_up_to_date:
            self._models_started = True
            self.models.is_requested_by_user = False
            self.models.start()

    def costs(self) -> Iterator[Workload]:
        """Yield more and more exact estimates of what desired retentions cost; called in a thread.

        If the final estimate is known already, it is the only one.
        """
        from srs_eval.advice.findings import get_evidence
        from srs_eval.advice.questions import PARAMETERS, TAUGHT_PARAMETERS, QuestionContext, ask
        from srs_eval.advice.workload.estimate import Workload

        log = self.log
        costs = self._final_costs(log)
        if costs is not None:
            yield costs
        elif log is not None:
            parameter_answers = list(self.overview.find_answers(PARAMETERS))
            if TAUGHT_PARAMETERS in self.overview.waiting:
                parameter_answers = []  # they may change
            question_context = QuestionContext(
                log, self.options.context, parameter_answers=parameter_answers
            )
            for answer in ask("workload", question_context):
                workload = get_evidence(answer, Workload)
                if workload.has_all_draws:  # of the parameters that the reviews allow
                    self._costs = log, workload
                yield workload

    def _final_costs(self, log: ReviewLog | None) -> Workload | None:
        """Return the final estimate for this log; None until it has been computed."""
        costs = self._costs
        if costs is None or costs[0] is not log:
            return None
        return costs[1]

    def copy_parameters(self, line: AnswerLine | None) -> None:
        """Copy a line's parameters, or say that it has none."""
        if line is None or line.parameters is None:
            message = "There are no parameters to copy here."
            titles = [other.title for other in self.overview.lines if other.parameters]
            if titles:
                message += f" “{titles[0]}” has some."
            self.view.show_message(message)
        else:
            self._copy_to_clipboards(next(answer for answer in line.answers if answer.parameters))

    def _copy_to_clipboards(self, answer: Finding) -> None:
        """Copy an answer's parameters to the clipboards of the terminal and of the system."""
        from srs_eval.advice.sentences import (
            abbreviate_parameters,
            explain_where_to_paste,
            format_parameters,
        )

        assert answer.parameters is not None
        text = format_parameters(answer.parameters)
        line = abbreviate_parameters(answer.parameters)
        explanation = explain_where_to_paste(answer)
        self.view.copy_to_clipboard(text)

        def copy() -> None:
            message = f"Copied {line}. {explanation}"
            if not copy_to_system(text):  # and the terminal never confirms that it has copied
                message = (
                    f"Sent {line} to your terminal's clipboard. {explanation} If pasting "
                    "does not work, press Enter to show the parameters, and copy them by hand."
                )
            self.call_in_view_thread(self.view.show_message, message, 10)

        threading.Thread(target=copy, daemon=True, name="copy").start()

    def export(self, request: ExportRequest | None) -> None:
        """Write a report in the background, and show where it is."""
        log = self.log
        if log is None or request is None:
            return
        from srs_eval.report.learner import export_learner

        preset_ids, deck_ids = self.chosen_ids
        preset_names = [log.presets[int(preset_id)].name for preset_id in preset_ids]
        deck_names = [log.decks[int(deck_id)].name for deck_id in deck_ids]
        selected_names = {
            "preset": [*self.options.presets, *preset_names],
            "deck": [*self.options.decks, *deck_names],
        }
        task = partial(
            self.overrides.get("write_report", export_learner),
            log,
            self.models.run_of_open_file.snapshot(),
            self.models.protocol_of_run,
            form=request.form,
            path=request.path,
            context=self.options.context,
            narrowed_to={kind: ", ".join(names) or None for kind, names in selected_names.items()},
            anonymous=request.anonymous,
            known=self._final_answers(),
            costs=self._final_costs(log),
            measurements=dict(self.models.measurements),
        )
        self.reports.write(task, request.path, in_process=self.job_count() > 0)

    def _final_answers(self) -> tuple[Finding, ...]:
        """Return the answers to settled questions, without those that could not be answered."""
        from srs_eval.advice.findings import Unanswered
        from srs_eval.advice.questions import DAY_QUESTIONS

        waiting = set(self.overview.waiting)
        if DAY_QUESTIONS[0] in waiting:  # one task answers them all
            waiting.update(DAY_QUESTIONS)
        return tuple(
            answer
            for answer in self.overview.answers
            if answer.question not in waiting and not isinstance(answer.evidence, Unanswered)
        )

    def job_count(self) -> int:
        """Return the number of processes that work at once; 0 if the work is done in threads."""
        from srs_eval.engine.workers import count_cores

        return count_cores() if self.options.jobs is None else self.options.jobs
