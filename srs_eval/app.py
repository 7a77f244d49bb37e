"""The terminal app: open a collection, see what counts, watch models being judged, compare.

The app holds the state that the screens share and show. Files are read and models evaluated
in threads (the engine itself works in processes), so the screen never freezes. The first
screen needs none of what reads and judges: that is loaded in a thread once it is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.driver import Driver
from textual.filter import Monochrome
from textual.screen import Screen
from textual.theme import Theme

from srs_eval.data.errors import InputError, NotEnoughData, counted
from srs_eval.data.printable import printable
from srs_eval.data.protocol import Protocol
from srs_eval.training.context import Context
from srs_eval.tui import state as remembered
from srs_eval.tui.config import Config
from srs_eval.tui.screens.actions import EVERYWHERE, QUIT, Action, bindings
from srs_eval.tui.screens.background import (
    AllAnswered,
    Answered,
    AnswerFunction,
    Background,
    EngineEnded,
    EngineEvent,
    EvaluateFunction,
    Remembered,
)
from srs_eval.tui.screens.base import TOO_LOW, TOO_NARROW, AppScreen, commands
from srs_eval.tui.screens.reports import Reports
from srs_eval.tui.screens.themes import DARK_THEME, LIGHT_THEME, check_theme
from srs_eval.tui.widgets.chrome import MINIMUM
from srs_eval.tui.workarounds import Commands, Greyscale, TypedKeys

if TYPE_CHECKING:
    from srs_eval.advice.answers import Answer, Table
    from srs_eval.advice.overview import Line, Overview
    from srs_eval.advice.saved_answers import Kept
    from srs_eval.advice.workload.estimate import Doing
    from srs_eval.data.reviews import ReviewLog
    from srs_eval.engine.results import Result
    from srs_eval.engine.run import Event, Run
    from srs_eval.engine.workers import WorkerPool
    from srs_eval.models.configurations import Configuration
    from srs_eval.report.inspection import Inspection
    from srs_eval.stats.calibration_graph import CalibrationGraph
    from srs_eval.tui.screens.dialogs import Chosen
    from srs_eval.tui.screens.export import Wanted
    from srs_eval.tui.screens.ranking import RunScreen

Rows = Literal["benchmark", "anki"]
_LoadFunction = Callable[..., "ReviewLog"]
"""Like `anki_import.load_log`: (path, *, timezone, rollover, user); user only if asked for."""

_BIN_CHOICES = (10, 20, 40)
_NEXT = (
    "scipy.special",  # intervals
    *(
        f"srs_eval.tui.screens.{each}"
        for each in (
            *("evidence", "ranking", "details", "compare", "costs", "import_summary"),
            *("dialogs", "export"),
        )
    ),
)
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
    context: Context = field(default_factory=Context)
    use_cache: bool = True
    config: Config = field(default_factory=Config)


@dataclass
class Costed:
    """What desired retentions cost, by what is known of one log."""

    of: ReviewLog | None = None
    said: dict[str | None, Sequence[Answer]] = field(default_factory=dict)
    """Whole answers, by preset; None is that with the most reviews."""
    in_short: dict[str, Answer] = field(default_factory=dict)
    """By preset, with ranges: they stand in for the first estimates among the answers."""


class SrsEvalApp(App[int]):
    """The app as described above. The keyword arguments after `options` are for tests."""

    TITLE = "srs-eval"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar[Any] = {Commands}
    BINDINGS: ClassVar[list[Any]] = [
        *bindings(EVERYWHERE),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]
    CSS_PATH = "tui/app.tcss"
    HORIZONTAL_BREAKPOINTS = TOO_NARROW
    VERTICAL_BREAKPOINTS = TOO_LOW

    def __init__(
        self,
        path: Path | None = None,
        options: Options | None = None,
        *,
        evaluate: EvaluateFunction | None = None,
        answer: AnswerFunction | None = None,
        load: _LoadFunction | None = None,
        profiles: Callable[[], Sequence[Any]] | None = None,
        write_report: Callable[..., Sequence[Path]] | None = None,
        state_folder: Path | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._filters = [
            Greyscale() if isinstance(each, Monochrome) else each for each in self._filters
        ]
        self.options = options or Options()
        self.config = self.options.config
        self.set_keymap(dict(self.config.keys))
        if self.config.reduced_motion:
            self.animation_level = "none"
        self.path = path
        self.models = self.options.models
        self.protocol = self.options.protocol
        self.log_: ReviewLog | None = None
        self.whole: tuple[ReviewLog, Inspection] | None = None  # before presets were chosen
        self.judged_only: Chosen = ((), ())
        self.earlier: Kept | None = None  # answers of an earlier day about what is open
        self._place: str | None = None  # of the open file; None for the demo
        self.receipt: Inspection | None = None
        self.file_name = ""
        self.answers_began = 0.0
        self.answers_ended: float | None = None
        self.run_number = 0
        self._asked = 0  # how many times questions were asked
        self._followed = 0  # by models, the last of these times
        self._rows_before: Rows | None = None  # to go back to, where others cannot be judged
        self._evaluated: tuple[ReviewLog, str, Protocol] | None = None
        self.backgrounds: list[Background] = []
        self._asking: list[Background] = []
        self.reports = Reports(self)
        self._costed = Costed()
        self.monotonic, self.now = monotonic, now
        self._keys = TypedKeys(self, self._forward, monotonic)
        self._answer = answer
        self._evaluate, self._load, self._profiles = evaluate, load, profiles
        self._write_report = write_report
        self._state_folder = state_folder
        self._graphs: dict[tuple[int, int, bool], tuple[Result, CalibrationGraph]] = {}
        self._reading = 0
        self._prepared: dict[Protocol, tuple[int, int]] = {}
        self._demo: Path | None = None  # the folder of its learner
        self._warm_up: list[WorkerPool] = []
        self.asked_for_models = False  # or they follow the answers by themselves
        self.compiles = False  # before the questions asked now can be answered
        self._evaluating = threading.Event()  # once set, nothing more is compiled ahead
        self.state = remembered.load_state(state_folder)
        self.register_theme(DARK_THEME)
        self.register_theme(LIGHT_THEME)
        wanted = self.config.theme or self.state.theme
        check_theme(self.config.theme)
        self.theme = wanted if wanted in self.available_themes else remembered.DARK
        self._parsed_in: dict[str, str] | None = self.get_css_variables()
        self.stylesheet.set_variables(self._parsed_in)

    async def on_event(self, event: events.Event) -> None:
        """As Textual does it, but keys one after another."""
        await self._keys.take(event)

    async def _forward(self, event: events.Event) -> None:
        """As Textual does it; where the window is too small for any screen, keys only leave."""
        hidden = self.size.width < MINIMUM[0] or self.size.height < MINIMUM[1]
        if not hidden or not isinstance(event, events.Key | events.Paste):
            await super().on_event(event)
        elif isinstance(event, events.Key) and not self._leaving.isdisjoint(event.aliases):
            await self.action_quit()

    @property
    def _leaving(self) -> set[str]:
        """The keys that quit."""
        (leave,) = self.on_keys([QUIT])
        return {"ctrl+c", *map(str.strip, leave.key.split(","))}

    # --- start and end

    @cached_property
    def evaluation(self) -> Run:
        """What has become of the models so far."""
        from srs_eval.engine.run import Run

        return Run()

    @cached_property
    def overview(self) -> Overview:
        """The answers so far."""
        from srs_eval.advice.overview import Overview

        return Overview("anki")

    def get_default_screen(self) -> Screen[Any]:
        from srs_eval.tui.screens.open import OpenScreen

        return OpenScreen()

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, self._theme_changed)
        self._leave_on_signals()
        if self.path is not None:
            self.call_after_refresh(self.open_file, self.path)

    def on_unmount(self) -> None:
        gc.unfreeze()

    def first_screen_is_there(self) -> None:
        """Load, in a thread, what will be needed; before, it would only keep the screen waiting."""
        self._parsed_in = None
        gc.freeze()  # what is there by now stays: garbage is looked for among the rest only
        threading.Thread(target=self._prepare, daemon=True, name="warm up").start()

    def _prepare(self) -> None:
        """Compile the models while the user chooses a file; needed once after each update."""
        if self._evaluate is not None:
            return
        from srs_eval.advice.overview import NEEDED
        from srs_eval.engine.evaluate import warm_up

        pool = warm_up(NEEDED, "fast")
        if pool is None:
            return
        self._warm_up.append(pool)
        if self._evaluating.is_set():
            self._end_warm_up()

    def _end_warm_up(self) -> None:
        """Stop compiling ahead: the evaluation compiles the rest, and what is done is kept."""
        self._evaluating.set()
        while self._warm_up:
            self._warm_up.pop().terminate_workers()

    def get_driver_class(self) -> type[Driver]:
        from srs_eval.tui.workarounds import lasting

        return lasting(super().get_driver_class())

    def _leave_on_signals(self) -> None:
        """Closing the window or `kill` quits as q does, so that no worker keeps running."""
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            number = getattr(signal, name, None)
            if number is not None:
                with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                    loop.add_signal_handler(number, self.exit, 130 if name == "SIGINT" else 0)

    async def action_quit(self) -> None:
        for background in self._at_work():
            background.cancel.set()
        self.exit(0)

    def _at_work(self) -> list[Background]:
        """What answers, evaluates or writes behind the screens, or has been told to stop."""
        began = (*self._asking, *self.backgrounds, *self.reports.backgrounds)
        return [background for background in began if background.alive]

    def shut_down(self) -> None:
        """End every worker; called after the terminal has been restored."""
        self._end_warm_up()
        backgrounds = self._at_work()
        for background in backgrounds:
            background.cancel.set()
        until = time.monotonic() + _SHUTDOWN_SECONDS
        for background in backgrounds:
            background.stop(max(0.0, until - time.monotonic()))
        if any(background.alive for background in backgrounds):
            import multiprocessing

            for process in multiprocessing.active_children():
                process.terminate()
        if self._demo is not None:
            from srs_eval.data.readers.files import remove_folder

            remove_folder(self._demo)
            self._demo = None

    def refresh_css(self, animate: bool = True) -> None:
        """As Textual does it; at the start, styles are parsed in the theme's colours already."""
        if self._parsed_in == self.get_css_variables():
            self.stylesheet.update(self, animate=animate)
        else:
            super().refresh_css(animate)

    # --- what is remembered

    def remember(self, state: remembered.State) -> None:
        if state != self.state:
            self.state = state
            remembered.save_state(state, self._state_folder)

    def _theme_changed(self, theme: Theme) -> None:
        state = replace(self.state, theme=theme.name)
        if theme.dark:
            self.remember(replace(state, dark_theme=theme.name))
        else:
            self.remember(replace(state, light_theme=theme.name))

    def action_switch_light(self) -> None:
        other = self.state.light_theme if self.current_theme.dark else self.state.dark_theme
        usual = remembered.LIGHT if self.current_theme.dark else remembered.DARK
        self.theme = other if other in self.available_themes else usual

    def deliver_screenshot(
        self,
        filename: str | None = None,
        path: str | None = None,
        time_format: str | None = None,
    ) -> str | None:
        """As Textual does it; where there is no folder of downloads, into the home folder."""
        if path is None:
            from platformdirs import user_downloads_path

            downloads = user_downloads_path()
            path = str(downloads if downloads.is_dir() else Path.home())
        return super().deliver_screenshot(filename, path, time_format)

    @property
    def own_scheduler(self) -> str | None:
        """The configuration that stands for what the learner schedules with, if it is known."""
        from srs_eval.engine.ranking import own_scheduler

        return None if self.log_ is None else own_scheduler(self.log_)

    def next_bins(self) -> None:
        """Switch calibration graphs to the next number of bins."""
        larger = [bins for bins in _BIN_CHOICES if bins > self.state.bins]
        self.remember(replace(self.state, bins=larger[0] if larger else _BIN_CHOICES[0]))

    def switch_log_bins(self) -> None:
        """Switch calibration graphs between bins of equal width and logarithmic ones."""
        self.remember(replace(self.state, log_bins=not self.state.log_bins))

    # --- the command palette

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        here: tuple[Action, ...] = screen.actions if isinstance(screen, AppScreen) else ()
        textuals = super().get_system_commands(screen)
        return commands(screen, self.on_keys(here), self.on_keys(EVERYWHERE), textuals)

    def on_keys(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        """The actions on the keys that config.toml gives them."""
        return tuple(action.on_key(self.config.keys.get(action.id)) for action in actions)

    # --- opening a file

    def find_profiles(self) -> list[tuple[str, Path]]:
        """Names and collections of the Anki profiles found here; called in a thread."""
        if self._profiles is not None:
            found = self._profiles()
        else:
            from srs_eval.anki_import import find_profiles

            found = find_profiles()
        return [(profile.name, profile.path) for profile in found]

    def model_choices(self) -> list[str]:
        """What the receipt offers to evaluate: the models asked for at start, and the groups."""
        from srs_eval.models.configurations import GROUPS

        return list(dict.fromkeys([self.options.models, *GROUPS]))

    def open_file(self, path: Path) -> None:
        """Read a file in a thread, then show its receipt or why it can't be read."""
        self._reading += 1
        number, shown = self._reading, printable(path.name or path)
        self._say(f"Reading {shown} …")

        def read() -> None:
            try:
                log = self._read(path)
                from srs_eval.report.inspection import inspect_log

                for name in ("tui.screens.answers", "engine.run"):  # shown next
                    importlib.import_module(f"srs_eval.{name}")
                outcome: tuple[ReviewLog, Inspection] | Exception = (log, inspect_log(log))
                threading.Thread(target=_import_ahead, daemon=True, name="imports").start()
            except Exception as error:
                outcome = error
            with contextlib.suppress(RuntimeError):  # the app has closed in the meantime
                self.call_from_thread(self._opened, number, path, shown, outcome)

        threading.Thread(target=read, daemon=True, name="import").start()

    def _read(self, path: Path) -> ReviewLog:
        load = self._load
        if load is None:
            from srs_eval.anki_import import load_log

            load = load_log
        options = self.options
        whose = {} if options.user is None else {"user": options.user}
        log = load(path, timezone=options.timezone, rollover=options.rollover, **whose)
        from srs_eval.data.selection import only_deck, only_preset

        if options.decks:
            log = only_deck(log, *options.decks)
        return only_preset(log, *options.presets) if options.presets else log

    def _opened(
        self,
        number: int,
        path: Path,
        shown: str,
        outcome: tuple[ReviewLog, Inspection] | Exception,
    ) -> None:
        if number != self._reading:
            return  # another file has been chosen since
        self._say("")
        if isinstance(outcome, Exception):
            if self.state.recent and not path.exists():
                self.remember(self.state.forgotten(str(path.absolute())))
            self.refuse("Can't read this file", outcome)
            return
        self.whole = outcome
        self.judged_only = ((), ())
        self.log_, self.receipt = outcome
        if self.log_.rows is not None and self.protocol.rows == self.config.rows:
            self.protocol = replace(self.protocol, rows="benchmark")  # chosen already
        asked = map(printable, (*self.options.decks, *self.options.presets))
        self.file_name = " · ".join([shown, *asked])
        self._prepared = {}
        self._graphs = {}
        from srs_eval.data.readers.files import DEMO_FOLDER

        if path.parent.name.startswith(DEMO_FOLDER):
            self.file_name = "demo: a simulated learner"  # deleted when the app closes
            self._place = None
        else:
            self._place = str(path.absolute())
            self.remember(self.state.opened(path, self.receipt.entries_read, self.now()))
        from srs_eval.tui.screens.answers import AnswersScreen

        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.ask()
        self.push_screen(AnswersScreen())

    def close_file(self) -> None:
        """Back to the first screen; asks first where that stops what a person waits for."""

        def close(stop: bool | None) -> None:
            if stop:
                self.cancel_evaluation()
                self.cancel_answers()
                self.log_ = self.receipt = self.whole = None
                self.pop_screen()

        from srs_eval.tui.screens.dialogs import Question

        if self.can_cancel and self.asked_for_models:
            title = "Stop the models that still run?"
            sentence = "What has finished is kept on disk and need not be done again."

            def settled() -> str:
                return "" if self.can_cancel else "The models have ended by themselves."
        elif self.answers_ended is None and self.overview.waiting:
            still_open = counted(len(self.overview.waiting), "question")
            title = f"Close with {still_open} still open?"
            sentence = "Answers are kept once there are all of them; till then, opening asks anew."

            def settled() -> str:
                return "" if self.answers_ended is None else "All questions are answered by now."
        else:
            close(True)
            return
        question = Question(title, sentence, "Stop and close", "Keep running", settled)
        self.push_screen(question, close)

    def open_demo(self) -> None:
        """Write the simulated learner's collection to a temporary folder and open it."""
        self._reading += 1
        number = self._reading
        self._say("Making up a learner …")

        def make() -> None:
            from srs_eval.data.readers.files import DEMO_FOLDER, make_folder
            from srs_eval.data.simulated.files import make_demo_collection

            try:
                if self._demo is None:
                    self._demo = make_folder(DEMO_FOLDER)
                path = self._demo / "collection.anki2"
                outcome: Path | Exception = (
                    path if path.exists() else make_demo_collection(self._demo)
                )
            except Exception as error:
                outcome = error
            with contextlib.suppress(RuntimeError):
                self.call_from_thread(made, outcome)

        def made(outcome: Path | Exception) -> None:
            if number != self._reading:
                return
            self._say("")
            if isinstance(outcome, Exception):
                self.refuse("Can't make the demo", outcome, "Back", "")
            else:
                self.open_file(outcome)

        threading.Thread(target=make, daemon=True, name="demo").start()

    def _say(self, text: str) -> None:
        from srs_eval.tui.screens.open import OpenScreen

        for screen in self.screen_stack:
            if isinstance(screen, OpenScreen) and screen.is_mounted:
                screen.reading(text)

    def refuse(self, title: str, error: Exception, *button_and_reassurance: str) -> None:
        """Say in a dialog why something was not done."""
        from srs_eval.tui.screens.dialogs import Refusal

        if isinstance(error, InputError | NotEnoughData):
            sentence = printable(error, None)
        elif isinstance(error, MemoryError):
            sentence = "There is not enough memory for this."
        else:
            sentence = (
                f"Something unexpected happened ({type(error).__name__}: {printable(error)})."
            )
        self.push_screen(Refusal(title, sentence, *button_and_reassurance))

    def judge_only(self, chosen: Chosen | None) -> None:
        """Answers and ranking of these presets and decks alone; of none chosen, of all."""
        whole = self.whole
        if whole is None or chosen is None or chosen == self.judged_only:
            return
        self._reading += 1
        number = self._reading

        def narrow() -> None:
            from srs_eval.data.selection import only_deck, only_preset
            from srs_eval.report.inspection import inspect_log

            try:
                log = whole[0]
                log = only_preset(log, *chosen[0]) if chosen[0] else log
                log = only_deck(log, *chosen[1]) if chosen[1] else log
                outcome: tuple[ReviewLog, Inspection] | Exception = (log, inspect_log(log))
            except InputError as error:
                outcome = error
            with contextlib.suppress(RuntimeError):  # the app has closed in the meantime
                self.call_from_thread(narrowed, outcome)

        def narrowed(outcome: tuple[ReviewLog, Inspection] | Exception) -> None:
            if number != self._reading:
                return
            if isinstance(outcome, Exception):
                self.refuse("Can't judge this", outcome, "Back", "")
                return
            from srs_eval.engine.run import Run
            from srs_eval.tui.screens.answers import AnswersScreen

            self.cancel_evaluation()
            self.evaluation, self._evaluated = Run(), None
            self.log_, self.receipt = outcome
            self.judged_only = chosen
            presets = [each for each in whole[1].presets if str(each.id) in chosen[0]]
            decks = [each for each in whole[1].decks if str(each.id) in chosen[1]]
            names = [each.name or str(each.id) for each in presets]
            names += [each.name or str(each.id) for each in decks]
            self.file_name = " · ".join([self.file_name.split(" · ")[0], *names])
            self._prepared, self._graphs = {}, {}
            self.ask()
            while not isinstance(self.screen, AnswersScreen):
                self.pop_screen()
            self.screen.show_protocol()
            self.screen.update_now()

        threading.Thread(target=narrow, daemon=True, name="narrow").start()

    # --- answering

    def ask(self) -> None:
        """Ask all questions about the open collection; the models follow behind the answers."""
        from srs_eval.advice.overview import NEEDED, Overview, overview

        log = self.log_
        if log is None:
            return
        self.cancel_answers()
        self._asked += 1
        number = self._asked
        self.overview, self.earlier = Overview.begun(log), None
        context, key = self.options.context, self._kept_as()
        entries = 0 if self.receipt is None else self.receipt.entries_read
        self.answers_began, self.answers_ended = self.monotonic(), None

        def answers(cancel: threading.Event) -> Iterator[Any]:
            from srs_eval.advice import saved_answers as kept_answers
            from srs_eval.engine.session import must_compile
            from srs_eval.models.configurations import resolve

            kept = None if key is None else kept_answers.last(key, self._state_folder)
            now = "" if key is None else kept_answers.basis(log, context)
            if kept is not None and kept.basis == now:
                yield kept.answers, tuple(Overview.begun(log).waiting)
                return
            if kept is not None:
                self.post_message(Remembered(number, kept))
            self._end_warm_up()
            self.compiles = self._answer is None and any(map(must_compile, resolve(NEEDED)))
            found = Overview.begun(log)
            answer = self._answer or overview
            for answers, questions in answer(
                log, jobs=self._jobs(), context=context, cancel=cancel
            ):
                found.add(answers, questions)
                yield answers, questions
            if key is not None and not found.waiting and not found.failed:
                kept = kept_answers.Kept(tuple(found.answers), now, entries, self.now())
                kept_answers.keep(key, kept, self._state_folder)
                if self._costed.of is log:
                    better = list(self._costed.in_short.values())
                    kept_answers.improve(key, now, better, self._state_folder)

        def deliver(found: tuple[tuple[Answer, ...], tuple[str, ...]]) -> None:
            self.post_message(Answered(number, *found))

        def ended(error: Exception | None) -> None:
            self.post_message(AllAnswered(number, error))

        self._asking = [each for each in self._asking if each.alive]
        background = Background(answers, deliver, ended)
        self._asking.append(background)
        background.start()

    def _kept_as(self) -> str | None:
        """What the answers are kept under; None where they are not to be kept."""
        if self._place is None or not self.options.use_cache:
            return None
        options = self.options
        return repr((self._place, options.user, options.decks, options.presets, self.judged_only))

    def on_remembered(self, message: Remembered) -> None:
        if message.run == self._asked:
            self.earlier = message.kept
            self.overview.add(message.kept.answers)
            self._show_answers()

    def cancel_answers(self) -> None:
        for background in self._asking:
            background.cancel.set()
        if self._asking and self.answers_ended is None:
            self.answers_ended = self.monotonic()

    def on_answered(self, message: Answered) -> None:
        from srs_eval.advice.overview import NOT_WAITED_FOR

        if message.run == self._asked:
            self.overview.add(message.answers, message.questions)
            self._show_costs()
            if self.answers_ended is None and set(self.overview.waiting) <= NOT_WAITED_FOR:
                self._rank_behind_answers()

    def on_all_answered(self, message: AllAnswered) -> None:
        if message.run != self._asked or self.log_ is None:
            return
        cancelled = self.answers_ended is not None
        if not cancelled:
            self.answers_ended = self.monotonic()
        self._show_answers()
        if message.error is not None:
            self.refuse("Can't answer this", message.error, "Back", "")
        elif not cancelled:
            self._rank_behind_answers()

    def _rank_behind_answers(self) -> None:
        """Let the models begin, once lines are answered; what they need not wait for may follow."""
        if self._followed != self._asked and not self._is_evaluated:
            self._followed = self._asked
            self.asked_for_models = False
            self.start_evaluation()

    def _show_answers(self) -> None:
        from srs_eval.tui.screens.answers import AnswersScreen
        from srs_eval.tui.screens.evidence import EvidenceScreen

        for screen in self.screen_stack:
            if isinstance(screen, AnswersScreen | EvidenceScreen) and screen.is_mounted:
                screen.update_now()

    def _show_costs(self) -> None:
        """Show the answers, with what costs are known to be in the place of first estimates."""
        if self._costed.of is self.log_:
            told = {each.subject for each in self.overview.of("costs")}
            better = self._costed.in_short
            self.overview.add([better[preset] for preset in told & better.keys()])
        self._show_answers()

    def costs(self, preset: str | None) -> Iterator[tuple[Sequence[Answer], Doing | None]]:
        """What a preset's desired retention costs, as it becomes known, and what is asked next.

        Called in a thread. What was known at the end is kept as long as the file is open; the
        line among the answers has ranges as soon as all draws are there.
        """
        from srs_eval.advice import saved_answers as kept_answers
        from srs_eval.advice.workload.answers import answers
        from srs_eval.advice.workload.estimate import workload
        from srs_eval.advice.workload.glance import in_short, were_it_on

        log, key, context = self.log_, self._kept_as(), self.options.context
        if log is None:
            return
        if self._costed.of is not log:
            self._costed = Costed(log)
        costed = self._costed
        if preset in costed.said:
            yield costed.said[preset], None
            return
        for found in workload(log, preset, parameters=were_it_on(log), context=context):
            said = answers(found)
            if found.drawn and found.preset not in costed.in_short:
                better = costed.in_short[found.preset] = in_short(found, log)
                self.call_later(self._show_costs)
                if key is not None:
                    basis = kept_answers.basis(log, context)
                    kept_answers.improve(key, basis, [better], self._state_folder)
            if found.finished:
                # That with the most reviews is asked for by its name, too.
                costed.said[preset] = costed.said[found.preset] = said
            yield said, found.doing

    def copy_of(self, line: Line | None) -> None:
        """Copy a line's parameters, or say that it has none."""
        if line is None or line.parameters is None:
            elsewhere = [each.title for each in self.overview.lines if each.parameters]
            there = f" “{elsewhere[0]}” has." if elsewhere else ""
            self.notify(f"This answer has no parameters to copy.{there}", timeout=3)
        else:
            self.copy_parameters(next(each for each in line.answers if each.parameters))

    def copy_parameters(self, answer: Answer) -> None:
        """Put the line that Anki takes on the clipboard, the terminal's and the system's."""
        from srs_eval.advice.answers import where_to_paste
        from srs_eval.advice.stored import parameter_line
        from srs_eval.tui.screens.clipboard import copy_to_system

        assert answer.parameters is not None
        line, where = parameter_line(answer.parameters), where_to_paste(answer)
        self.copy_to_clipboard(line)

        def copy() -> None:
            said = f"Copied. {where}"
            if not copy_to_system(line):  # the terminal does not tell whether it took it
                said = f"Sent to your terminal; if nothing pastes, select the line. {where}"
            with contextlib.suppress(RuntimeError):
                self.call_from_thread(self.notify, said, timeout=6)

        threading.Thread(target=copy, daemon=True, name="copy").start()

    # --- a report

    def action_export(self) -> None:
        """Ask where a report on the open file is to go."""
        log = self.log_
        if log is None:
            return
        if self.reports.busy:
            self.notify("A report is still being written: one at a time.", timeout=4)
            return
        from srs_eval.tui.screens.export import ExportScreen

        screen = ExportScreen(Path(log.receipt.path), self._ranked_in_report)
        self.push_screen(screen, self.export)

    def _ranked_in_report(self) -> str:
        """Which models would be ranked in a report that is written now."""
        evaluation = self.of_open_file
        number = len(evaluation.results())
        if not number:
            return "No model has finished yet: the report will have no ranking."
        whole = counted(len(evaluation.models), "model")
        return f"Ranked in it: {number} of {whole}, as far as they have finished."

    @property
    def of_open_file(self) -> Run:
        """The models' figures, if they are of what is open."""
        from srs_eval.engine.run import Run

        same = self._evaluated is not None and self._evaluated[0] is self.log_
        return self.evaluation if same else Run(equivalence=self.config.equivalence)

    def export(self, wanted: Wanted | None) -> None:
        """Write a report in another process, and say where it is."""
        log = self.log_
        if log is None or wanted is None:
            return
        run = self.of_open_file.snapshot()
        protocol = self.protocol if self._evaluated is None else self._evaluated[2]
        presets = [log.presets[int(each)].name for each in self.judged_only[0]]
        decks = [log.decks[int(each)].name for each in self.judged_only[1]]
        chosen = {
            "preset": [*self.options.presets, *presets],
            "deck": [*self.options.decks, *decks],
        }
        from srs_eval.report.build import export_learner

        task = partial(
            self._write_report or export_learner,
            log,
            run,
            protocol,
            form=wanted.form,
            path=wanted.path,
            context=self.options.context,
            narrowed_to={what: ", ".join(names) or None for what, names in chosen.items()},
            anonymous=wanted.anonymous,
        )
        self.reports.write(task, wanted.path, in_process=self._jobs() > 0)

    @property
    def exporting(self) -> str:
        """How far a report is that is being written, "" without one."""
        return self.reports.said

    def cancel_export(self) -> None:
        """Stop writing a report; whatever it has answered is lost."""
        self.reports.cancel()

    def show_export(self) -> None:
        """How far a report is, on whatever screen is shown."""
        for screen in self.screen_stack:
            if isinstance(screen, AppScreen):
                screen.show_export()

    # --- evaluating

    @property
    def _is_evaluated(self) -> bool:
        """Whether the models asked for are, or are being, evaluated on what is open."""
        asked = (self.log_, self.models, self.protocol)
        return self._evaluated == asked and not self.evaluation.cancelled

    def counts(self) -> tuple[int, int] | None:
        """Numbers of reviews and of judged reviews under the protocol, once known."""
        evaluation = self.evaluation
        if evaluation.reviews is not None and evaluation.judged is not None:
            self._prepared[self.protocol] = (evaluation.reviews, evaluation.judged)
        return self._prepared.get(self.protocol)

    def show_ranking(self) -> None:
        """The ranking of the models asked for; evaluates them unless that is done or under way."""
        from srs_eval.tui.screens.ranking import RunScreen

        if self.log_ is None:
            return
        self.asked_for_models = True
        if not self._is_evaluated:
            same = self._evaluated == (self.log_, self.models, self.protocol)
            self.start_evaluation(again=same and self.evaluation.is_incomplete)
        self.push_screen(RunScreen())

    def start_evaluation(self, again: bool = False) -> None:
        """Evaluate the open collection; `again`: only the models without figures.

        It goes on whatever screen is shown, until it is cancelled or the file is closed.
        """
        from srs_eval.engine.ranking import ranking
        from srs_eval.engine.run import Finished, Run
        from srs_eval.models.configurations import resolve

        log = self.log_
        if log is None:
            return
        self.cancel_evaluation()
        self._rows_before = None
        self.run_number += 1
        number = self.run_number
        before = self.evaluation
        missing: list[Configuration] = []
        finished: list[tuple[Configuration, Result]] = []
        self.evaluation = Run(
            started=self.monotonic(),
            equivalence=self.config.equivalence,
        )
        self._evaluated = (log, self.models, self.protocol)
        if again:
            missing = [
                model.configuration for model in before.models.values() if model.result is None
            ]
            self.evaluation.models = before.models
            finished = before.finished_pairs()
            self.evaluation.reviews, self.evaluation.judged = before.reviews, before.judged
            if not missing:
                self.evaluation = before
                self.notify("Every model has its figures.", timeout=3)
                return

        def events(cancel: threading.Event) -> Iterator[Event]:
            evaluate = self._evaluate
            self._end_warm_up()
            if evaluate is None:
                from srs_eval.engine.evaluate import evaluate as engine_evaluate

                evaluate = engine_evaluate
            return evaluate(
                log,
                missing or self._wanted(),
                self.protocol,
                jobs=self._jobs(),
                context=self.options.context,
                cancel=cancel,
                use_cache=self.options.use_cache,
                first={each.name for each in resolve("learner", self.protocol)},
            )

        def deliver(event: Event) -> None:
            groups = None
            if isinstance(event, Finished):
                # Computed here, in the thread: the loop that draws and listens only shows it.
                self.graph(event.result)
                finished.append((event.configuration, event.result))
                groups = ranking(finished, equivalence=self.config.equivalence)
            self.post_message(EngineEvent(number, event, groups))

        def ended(error: Exception | None) -> None:
            self.post_message(EngineEnded(number, error))

        self.backgrounds = [each for each in self.backgrounds if each.alive]
        background = Background(events, deliver, ended)
        self.backgrounds.append(background)
        background.start()

    def on_engine_event(self, message: EngineEvent) -> None:
        from srs_eval.engine.run import Prepared

        if message.run != self.run_number:
            return
        self.evaluation.apply(message.event, self.monotonic(), message.groups)
        for screen in self._rankings():
            screen.evaluation_changed()
        if isinstance(message.event, Prepared) and isinstance(self.screen, AppScreen):
            self.screen.show_protocol()

    def on_engine_ended(self, message: EngineEnded) -> None:
        if message.run != self.run_number:
            return
        self.evaluation.end(self.monotonic())
        for screen in self._rankings():
            screen.evaluation_ended()
        self.screen.refresh_bindings()
        if message.error is not None:
            self._evaluated = None  # asked for again, it is tried again
            self.evaluation_failed(message.error)

    def _rankings(self) -> list[RunScreen]:
        from srs_eval.tui.screens.ranking import RunScreen

        return [screen for screen in self.screen_stack if isinstance(screen, RunScreen)]

    def _wanted(self) -> list[Configuration]:
        """The models asked for, and what they are held against."""
        from srs_eval.engine.ranking import with_floors, with_own
        from srs_eval.models.configurations import resolve

        asked = resolve(self.models, self.protocol)
        if self.log_ is not None:
            asked = with_own(asked, self.log_, self.protocol)
        return with_floors(asked, leaves_out=self.log_ is not None and self.log_.leaves_out)

    def _jobs(self) -> int:
        if self.options.jobs is not None:
            return self.options.jobs
        from srs_eval.engine.workers import cores

        return max(1, cores())

    @property
    def can_cancel(self) -> bool:
        """Whether models are at work that have not been told to stop."""
        return bool(self.backgrounds) and self.evaluation.running and not self.evaluation.cancelled

    @property
    def other_rows(self) -> Rows | None:
        """The other rule of which reviews count, where what is open has both."""
        if self.receipt is None or len(self.receipt.rows) < 2:
            return None
        return "anki" if self.protocol.rows == "benchmark" else "benchmark"

    def switch_rows(self) -> None:
        """Rank the models on the reviews of the other rule."""
        rows, before = self.other_rows, self.protocol.rows
        if rows is not None:
            self.protocol = replace(self.protocol, rows=rows)
            self.start_evaluation()
            self._rows_before = before

    def cancel_evaluation(self) -> None:
        """Ask the engine to stop; `EngineEnded` is posted when it has."""
        if self.evaluation.running and self.evaluation.started:
            self.evaluation.cancelled = True
        for background in self.backgrounds:
            background.cancel.set()

    def evaluation_failed(self, error: Exception) -> None:
        """Say why; where the rows had just been switched, go back to those before."""
        if self._rows_before is not None:
            self.protocol = replace(self.protocol, rows=self._rows_before)
            self.start_evaluation()
            self.refuse("Can't rank on these rows", error, "Back", "")
            return
        rankings = self._rankings()
        if not rankings:
            return  # nobody waits for it; who asks for the ranking will be told
        if self.screen in rankings and not self.evaluation.results():
            self.pop_screen()
        self.refuse("Can't evaluate this", error, "Back", "")

    def errors_of(self, name: str) -> list[Table]:
        """Where a model that has finished errs; takes a moment, so call it in a thread."""
        from srs_eval.advice.model_evidence import model_evidence
        from srs_eval.engine.session import Session

        model = self.evaluation.models[name]
        if self.log_ is None or model.result is None:
            return []
        trials = Session(self.log_).trials(model.configuration.protocol)
        return model_evidence(self.log_, trials, model.configuration, model.result)

    def graph(self, result: Result) -> CalibrationGraph:
        """The calibration graph of a result with the chosen bins, computed once."""
        from srs_eval.stats.calibration_graph import calibration_graph

        bins, log_bins = self.state.bins, self.state.log_bins
        key = (id(result), bins, log_bins)
        found = self._graphs.get(key)
        if found is None or found[0] is not result:
            found = (result, calibration_graph(result.y, result.p, bins, log_bins))
            self._graphs[key] = found
        return found[1]


def _import_ahead() -> None:
    """What the next screens need, imported while the person looks at this one."""
    for name in _NEXT:
        importlib.import_module(name)


def run_app(
    path: Path | None = None,
    *,
    models: str = "all",
    jobs: int | None = None,
    protocol: Protocol | None = None,
    timezone: str | None = None,
    rollover: int | None = None,
    user: int | None = None,
    decks: tuple[str, ...] = (),
    presets: tuple[str, ...] = (),
    context: Context | None = None,
    use_cache: bool = True,
    config: Config | None = None,
) -> int:
    """Run the app until it is left; returns the exit code (0, or 130 after an interrupt).

    `path` is opened at once; without it, the first screen offers files. The other options
    are those of `srs-eval run`. Raises InputError for names of models that do not exist.
    """
    if models != "all" or protocol not in (None, Protocol()):
        from srs_eval.models.configurations import resolve

        resolve(models, protocol)  # refuse unknown names before the app takes the terminal
    app = SrsEvalApp(
        path,
        Options(
            models=models,
            jobs=jobs,
            protocol=protocol or Protocol(),
            timezone=timezone,
            rollover=rollover,
            user=user,
            decks=decks,
            presets=presets,
            context=context or Context(),
            use_cache=use_cache,
            config=config or Config(),
        ),
    )
    try:
        code = app.run()
    finally:
        app.shut_down()
    return code if code is not None else (app.return_code or 0)


if __name__ == "__main__":
    sys.exit(run_app(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
