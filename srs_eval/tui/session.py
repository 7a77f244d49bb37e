"""One person's session: opens a file, asks, evaluates, exports. Knows no Textual.

All is done in threads (the engine itself works in processes); the `_View` is told what comes of it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import typing
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval.data import paths
from srs_eval.data.errors import printable
from srs_eval.data.protocol import Protocol
from srs_eval.training.hyperparameters import Context
from srs_eval.tui.background import Background, Reports, copy_to_system
from srs_eval.tui.config import Config, load_state, save_state
from srs_eval.tui.models import Models

if TYPE_CHECKING:
    from srs_eval.advice.findings import Finding
    from srs_eval.advice.overview import Kept, Line, Overview
    from srs_eval.advice.workload.estimate import Workload
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.report.inspection import Inspection

Chosen = tuple[tuple[str, ...], tuple[str, ...]]
"""Ids of presets and of decks; none of either means all."""
_Opened = tuple["ReviewLog", "Inspection"]
_BIN_CHOICES = (10, 20, 40)
_SHUTDOWN_SECONDS = 5.0  # that workers get to end in once the app has closed


@dataclass(frozen=True)
class Options:
    """How the app was started."""

    models: str = "all"
    jobs: int | None = None
    protocol: Protocol = field(default_factory=Protocol)
    timezone: str | None = None
    rollover: int | None = None
    user: int | None = None  # which user of a data-set folder
    decks: tuple[str, ...] = ()  # only these of every file that is opened
    presets: tuple[str, ...] = ()
    predictions: Path | None = None  # a file of one's own, beside every file that is opened
    context: Context = field(default_factory=Context)
    use_cache: bool = True
    config: Config = field(default_factory=Config)


@dataclass(frozen=True)
class Wanted:
    """A report to write."""

    form: str
    path: Path  # a file, or a folder for one of report.files.FOLDERS
    anonymous: bool


class _View(typing.Protocol):
    """Who is told what has changed; called in its own thread, but for `call_later`."""

    def call_later(self, callback: Callable[..., Any], *arguments: Any) -> bool: ...
    def copy_to_clipboard(self, text: str) -> None: ...
    def tell(self, said: str, seconds: float = 3) -> None: ...
    def refuse(self, title: str, error: Exception, *button_and_reassurance: str) -> None: ...
    def reading(self, said: str) -> None: ...
    def file_opened(self) -> None: ...
    def changed(self) -> None: ...
    def evaluation_failed(self, error: Exception) -> None: ...
    def get_ready(self) -> None:
        """Load what is shown next; called in a thread."""


class Session:
    """What is open and what is known of it.

    The keyword arguments are for tests; what is `made_up` takes the place of the function that
    would be called: evaluate, answer, load, profiles, profile_folders, write_report.
    """

    def __init__(
        self,
        view: _View,
        options: Options,
        *,
        state_folder: Path | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        **made_up: Callable[..., Any],
    ) -> None:
        self.view, self.options, self.config = view, options, options.config
        self.monotonic, self.now, self.made_up = monotonic, now, made_up
        self.state_folder, self.state = state_folder, load_state(state_folder)
        self.log: ReviewLog | None = None
        self.import_summary: Inspection | None = None
        self.whole: _Opened | None = None  # before presets were chosen
        self.evaluated_only: Chosen = ((), ())
        self.file_name = ""
        self._place: str | None = None  # of the open file; None for the demo
        self.earlier: Kept | None = None  # answers of an earlier day about what is open
        self.answers_began = 0.0
        self.answers_ended: float | None = None
        self.compiles = False  # before the questions asked now can be answered
        self._followed = False  # by models, what was asked last
        self._costs: tuple[ReviewLog, Workload] | None = None  # with all draws, and of what
        self._reading, self.asking = Background(self.later), Background(self.later)
        self.reports = Reports(self)
        self.models = Models(self)

    # --- start and end

    @cached_property
    def overview(self) -> Overview:
        """The answers so far."""
        from srs_eval.advice.overview import Overview

        return Overview("anki")

    def cancel_all(self) -> tuple[Background, ...]:
        """Tell all that answers, evaluates or writes behind the screens to stop."""
        backgrounds = self.asking, self.models.work, self.reports
        for background in backgrounds:
            background.cancel()
        return backgrounds

    def shut_down(self) -> None:
        """End every worker; called after the terminal has been restored."""
        self.models.end_warm_up()
        backgrounds = self.cancel_all()
        until = time.monotonic() + _SHUTDOWN_SECONDS
        for background in backgrounds:
            background.wait(until)
        if any(background.alive for background in backgrounds):
            import multiprocessing

            for process in multiprocessing.active_children():
                process.terminate()

    def later(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Call it in the view's thread."""
        with contextlib.suppress(RuntimeError):  # the app has closed in the meantime
            self.view.call_later(callback, *arguments)

    # --- what is remembered

    def remember(self, **changes: Any) -> None:
        """Change parts of the state; kept for the next start."""
        state = replace(self.state, **changes)
        if state != self.state:
            self.state = state
            save_state(state, self.state_folder)

    def next_bins(self) -> None:
        """Switch calibration graphs to the next number of bins."""
        larger = (bins for bins in _BIN_CHOICES if bins > self.state.bins)
        self.remember(bins=next(larger, _BIN_CHOICES[0]))

    # --- opening a file

    def find_profiles(self) -> list[tuple[str, Path]]:
        """Names and collections of the Anki profiles found here; called in a thread."""
        from srs_eval.anki_import import find_profiles

        return [(each.name, each.path) for each in self.made_up.get("profiles", find_profiles)()]

    def profile_folders(self) -> list[Path]:
        """Where Anki profiles were looked for."""
        from srs_eval.data.paths import anki_folders

        return list(self.made_up.get("profile_folders", anki_folders)(Path.home()))

    def open_file(self, path: Path) -> None:
        """Read a file in a thread, then show answers about it or why it can't be read."""
        shown = printable(path.name or path)

        def read(_: threading.Event) -> Generator[Callable[[], None]]:
            from srs_eval.report.inspection import inspect_log

            log = self._read(path)
            self.view.get_ready()
            yield partial(self._opened, path, shown, (log, inspect_log(log)))

        def ended(error: Exception | None) -> None:
            self.view.reading("")
            if error is not None:
                # Path.exists raises where a name is too long.
                if self.state.recent and not os.path.exists(path):
                    self.forget(str(path.absolute()))
                self.view.refuse("Can't read this file", error)

        self._reading.begin(read, ended)
        self.view.reading(f"Reading {shown} …")

    def _read(self, path: Path) -> ReviewLog:
        from srs_eval.anki_import import load_log
        from srs_eval.data.rows import only_deck, only_preset
        from srs_eval.engine.shared import with_file

        options = self.options
        whose = {} if options.user is None else {"user": options.user}
        log: ReviewLog = self.made_up.get("load", load_log)(
            path, timezone=options.timezone, rollover=options.rollover, **whose
        )
        log = only_deck(log, *options.decks) if options.decks else log
        log = only_preset(log, *options.presets) if options.presets else log
        return with_file(log, options.predictions)

    def _opened(self, path: Path, shown: str, opened: _Opened) -> None:
        self.whole, self.evaluated_only = opened, ((), ())
        protocol = self.models.protocol
        if opened[0].rows is not None and protocol.rows == self.config.rows:
            self.models.protocol = replace(protocol, rows="benchmark")  # chosen already
        asked = map(printable, (*self.options.decks, *self.options.presets))
        if path == paths.DEMO_FILE:
            shown, self._place = "demo: a simulated learner", None
        else:
            self._place = str(path.absolute())
            state = self.state.opened(path, opened[1].entries_read, self.now())
            self.remember(recent=state.recent)
        self._begin(opened, " · ".join([shown, *asked] if self._place else [shown]))

    def _begin(self, opened: _Opened, name: str) -> None:
        """Ask about what has been read, or chosen of it."""
        self.log, self.import_summary = opened
        self.file_name = name
        self.models.forget()
        self.ask()
        self.view.file_opened()

    def forget(self, path: str) -> None:
        """Take a file off the list of recent ones."""
        self.remember(recent=self.state.forgotten(path).recent)

    def close_file(self) -> None:
        self.models.cancel()
        self.cancel_answers()
        self.log = self.import_summary = self.whole = None

    def evaluate_only(self, chosen: Chosen | None) -> None:
        """Answers and ranking of these presets and decks alone; of none chosen, of all."""
        whole = self.whole
        if whole is None or chosen is None or chosen == self.evaluated_only:
            return

        def narrow(_: threading.Event) -> Generator[Callable[[], None]]:
            from srs_eval.data.rows import only_deck, only_preset
            from srs_eval.report.inspection import inspect_log

            log = only_preset(whole[0], *chosen[0]) if chosen[0] else whole[0]
            log = only_deck(log, *chosen[1]) if chosen[1] else log
            yield partial(narrowed, (log, inspect_log(log)))

        def narrowed(opened: _Opened) -> None:
            if self.whole is not whole:  # closed meanwhile
                return
            self.models.reset()
            self.evaluated_only = chosen
            of = [each for each in whole[1].presets if str(each.id) in chosen[0]]
            of_decks = [each for each in whole[1].decks if str(each.id) in chosen[1]]
            names = [each.name or str(each.id) for each in of]
            names += [each.name or str(each.id) for each in of_decks]
            self._begin(opened, " · ".join([self.file_name.split(" · ")[0], *names]))

        self._reading.begin(narrow, partial(self._refuse_if, "Can't evaluate this"))

    def _refuse_if(self, title: str, error: Exception | None) -> None:
        if error is not None:
            self.view.refuse(title, error, "Back", "")

    # --- answering

    def ask(self) -> None:
        """Ask all questions about the open collection; the models follow behind the answers."""
        from srs_eval.advice.overview import Overview

        log = self.log
        if log is None:
            return
        self.cancel_answers()
        self._followed = False
        self.overview, self.earlier = Overview.begun(log), None
        self.answers_began, self.answers_ended = self.monotonic(), None
        self.asking.begin(partial(self._answers, log), self._all_answered)

    def _answers(self, log: ReviewLog, cancel: threading.Event) -> Generator[Callable[[], None]]:
        """Answers with the questions that they settle; those of an earlier day are told first."""
        from srs_eval.advice import overview
        from srs_eval.engine.session import must_compile
        from srs_eval.models.configurations import resolve

        context, key = self.options.context, self.kept_as()
        kept = None if key is None else overview.last(key, self.state_folder)
        now = "" if key is None else overview.basis(log, context, self.config.equivalence)
        found = overview.Overview.begun(log)
        if kept is not None and kept.basis == now:
            yield partial(self._answered, kept.findings, tuple(found.waiting))
            return
        if kept is not None:
            yield partial(self._remembered, kept)
        self.models.end_warm_up()
        must = any(map(must_compile, resolve(overview.NEEDED)))
        self.compiles = must and "answer" not in self.made_up
        coming = self.made_up.get("answer", overview.overview)(
            log,
            jobs=self.jobs(),
            context=context,
            cancel=cancel,
            equivalence=self.config.equivalence,
        )
        for answers, questions in coming:
            found.add(answers, questions)
            yield partial(self._answered, answers, questions)
        if key is not None and not found.waiting and not found.failed:
            entries = 0 if self.import_summary is None else self.import_summary.entries_read
            kept = overview.Kept(tuple(found.answers), now, entries, self.now())
            overview.keep(key, kept, self.state_folder)

    def kept_as(self) -> str | None:
        """What the answers are kept under; None where they are not to be kept."""
        if self._place is None or not self.options.use_cache:
            return None
        options = self.options
        return repr(
            (self._place, options.user, options.decks, options.presets, self.evaluated_only)
        )

    def cancel_answers(self) -> None:
        self.asking.cancel()
        if self.answers_ended is None:
            self.answers_ended = self.monotonic()

    def _remembered(self, kept: Kept) -> None:
        """What was answered before about the same file, some of which may be out of date."""
        self.earlier = kept
        self.overview.add(kept.findings)
        self.overview.earlier = True
        self.view.changed()

    def _answered(self, answers: tuple[Finding, ...], questions: tuple[str, ...]) -> None:
        from srs_eval.advice.questions import NOT_WAITED_FOR

        self.overview.add(answers, questions)
        self.view.changed()
        if self.answers_ended is None and set(self.overview.waiting) <= NOT_WAITED_FOR:
            self._rank_behind_answers()

    def _all_answered(self, error: Exception | None) -> None:
        if self.log is None:
            return
        cancelled = self.answers_ended is not None
        if not cancelled:
            self.answers_ended = self.monotonic()
        self.view.changed()
        self._refuse_if("Can't answer this", error)
        if error is None and not cancelled:
            self._rank_behind_answers()

    def _rank_behind_answers(self) -> None:
        """Let the models begin, once lines are answered; what they need not wait for may follow."""
        if not self._followed and not self.models.are_evaluated:
            self._followed = True
            self.models.wanted = False
            self.models.start()

    def costs(self) -> Iterator[Workload]:
        """What desired retentions cost, as it becomes known. Called in a thread."""
        from srs_eval.advice.findings import of
        from srs_eval.advice.questions import Asked, ask
        from srs_eval.advice.workload.estimate import Workload

        log, known = self.log, self._costs
        if known is not None and known[0] is log:
            yield known[1]
        elif log is not None:
            for answer in ask("workload", Asked(log, self.options.context)):
                found = of(answer, Workload)
                if found.drawn:
                    self._costs = log, found
                yield found

    def copy_of(self, line: Line | None) -> None:
        """Copy a line's parameters, or say that it has none."""
        if line is None or line.parameters is None:
            elsewhere = [each.title for each in self.overview.lines if each.parameters]
            there = f" “{elsewhere[0]}” has." if elsewhere else ""
            self.view.tell(f"This answer has no parameters to copy.{there}")
        else:
            self._copy(next(each for each in line.answers if each.parameters))

    def _copy(self, answer: Finding) -> None:
        """Put the line that Anki takes on the clipboard, the terminal's and the system's."""
        from srs_eval.advice.sentences import parameter_line, where_to_paste

        assert answer.parameters is not None
        line, where = parameter_line(answer.parameters), where_to_paste(answer)
        self.view.copy_to_clipboard(line)

        def copy() -> None:
            said = f"Copied. {where}"
            if not copy_to_system(line):  # the terminal does not tell whether it took it
                said = f"Sent to your terminal; if nothing pastes, select the line. {where}"
            self.later(self.view.tell, said, 6)

        threading.Thread(target=copy, daemon=True, name="copy").start()

    def export(self, wanted: Wanted | None) -> None:
        """Write a report in another process, and say where it is."""
        log = self.log
        if log is None or wanted is None:
            return
        from srs_eval.report.learner import export_learner

        presets = [log.presets[int(each)].name for each in self.evaluated_only[0]]
        decks = [log.decks[int(each)].name for each in self.evaluated_only[1]]
        chosen = {
            "preset": [*self.options.presets, *presets],
            "deck": [*self.options.decks, *decks],
        }
        task = partial(
            self.made_up.get("write_report", export_learner),
            log,
            self.models.of_open_file.snapshot(),
            self.models.protocol_of_run,
            form=wanted.form,
            path=wanted.path,
            context=self.options.context,
            narrowed_to={what: ", ".join(names) or None for what, names in chosen.items()},
            anonymous=wanted.anonymous,
            known=self._known(),
            costs=self._costs[1] if self._costs is not None and self._costs[0] is log else None,
        )
        self.reports.write(task, wanted.path, in_process=self.jobs() > 0)

    def _known(self) -> tuple[Finding, ...]:
        """Today's answers, to questions that have no more to come."""
        from srs_eval.advice.findings import Unanswered
        from srs_eval.advice.questions import DAYS

        waiting = {*self.overview.waiting, *(DAYS if DAYS[0] in self.overview.waiting else ())}
        return tuple(
            each
            for each in self.overview.answers
            if each.question not in waiting and not isinstance(each.evidence, Unanswered)
        )

    def jobs(self) -> int:
        """Processes that work at once."""
        from srs_eval.engine.workers import cores

        return cores() if self.options.jobs is None else self.options.jobs
