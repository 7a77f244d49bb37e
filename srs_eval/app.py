"""The terminal app: open a collection, see what counts, watch models being evaluated, compare.

Theme, keys and screens; the work is done by its `Session`, which tells the app what has changed.
The first screen needs none of what reads and evaluates: a thread loads that once it is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.driver import Driver
from textual.screen import Screen
from textual.theme import Theme, ThemeProvider

from srs_eval.data.protocol import Protocol
from srs_eval.tui.config import DARK, EVERYWHERE, LIGHT, bindings
from srs_eval.tui.screens.base import MINIMUM, AppScreen
from srs_eval.tui.screens.open import OpenScreen
from srs_eval.tui.screens.themes import DARK_THEME, LIGHT_THEME, check_theme
from srs_eval.tui.session import Options, Session
from srs_eval.tui.workarounds import CommandPalette, InputInOrder, lasting

_Kind = TypeVar("_Kind", bound=Screen[Any])
_WIDTHS = [(0, "-too-narrow"), (MINIMUM[0], "-narrow"), (76, "-normal"), (120, "-wide")]
_HEIGHTS = [(0, "-too-low"), (MINIMUM[1], "-low"), (22, "-usual"), (36, "-high")]
_LEFT_OUT = ("Quit", "Keys", "Screenshot")  # of Textual's own commands


class SrsEvalApp(App[int]):
    """The app as described above. The keyword arguments after `options` are for tests."""

    TITLE = "srs-eval"
    BINDINGS: ClassVar[list[Any]] = [
        *bindings(EVERYWHERE),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
        Binding("ctrl+q", "quit", "Quit", priority=True),
    ]
    CSS_PATH = "tui/app.tcss"
    HORIZONTAL_BREAKPOINTS = _WIDTHS
    VERTICAL_BREAKPOINTS = _HEIGHTS

    def __init__(
        self,
        path: Path | None = None,
        options: Options | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        **made_up: Any,
    ) -> None:
        super().__init__()
        self.session = Session(self, options or Options(), monotonic=monotonic, **made_up)
        self._path = path
        self._input = InputInOrder(self, self._forward, monotonic)
        config, state = self.session.config, self.session.state
        self.set_keymap(dict(config.keys))
        if config.reduced_motion:
            self.animation_level = "none"
        self.register_theme(DARK_THEME)
        self.register_theme(LIGHT_THEME)
        check_theme(config.theme)
        wanted = config.theme or state.theme
        self.theme = wanted if wanted in self.available_themes else DARK

    # --- keys

    async def on_event(self, event: events.Event) -> None:
        """As Textual does it, but keys and clicks one after another."""
        await self._input.take(event)

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
        *_, leave = self.session.config.on_keys(EVERYWHERE)
        return {"ctrl+c", "ctrl+q", *map(str.strip, leave.key.split(","))}

    def action_command_palette(self) -> None:
        """Show the palette of all commands."""
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette(id="--command-palette"))

    def search_themes(self) -> None:
        """Show the palette of themes."""
        self.push_screen(CommandPalette([ThemeProvider], placeholder="Search for themes…"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The screen's actions as far as they are possible, those of all screens, Textual's own."""
        here = screen.actions if isinstance(screen, AppScreen) else ()
        for where, actions in (("Here", here), ("Everywhere", EVERYWHERE)):
            for action in self.session.config.on_keys(actions):
                if action.id != "command_palette" and screen.check_action(action.name, ()):
                    run = partial(self.call_later, screen.run_action, action.name)
                    help_text = f"{where}: {action.help} ({action.key_words})"
                    yield SystemCommand(action.label, help_text, run)
        for title, help_, callback, *rest in super().get_system_commands(screen):
            if title not in _LEFT_OUT:
                yield SystemCommand(title, f"Everywhere: {help_}", callback, *rest)

    # --- start and end

    def get_default_screen(self) -> Screen[Any]:
        return OpenScreen()

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, self._theme_changed)
        self._leave_on_signals()
        if self._path is not None:
            self.call_after_refresh(self.session.open_file, self._path)

    def on_unmount(self) -> None:
        gc.unfreeze()

    def first_screen_is_there(self) -> None:
        """Load, in a thread, what will be needed; before, it would only keep the screen waiting."""
        gc.freeze()  # what is there by now stays: garbage is looked for among the rest only
        threading.Thread(target=self.session.models.warm_up, daemon=True, name="warm up").start()

    def get_driver_class(self) -> type[Driver]:
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
        self.session.cancel_all()
        self.exit(0)

    # --- looks

    def _theme_changed(self, theme: Theme) -> None:
        self.session.remember(
            theme=theme.name, **{"dark_theme" if theme.dark else "light_theme": theme.name}
        )
        for screen in self._shown(AppScreen):  # charts and lists have colours of their own
            screen.update_now()

    def action_switch_light(self) -> None:
        dark, state = self.current_theme.dark, self.session.state
        other = state.light_theme if dark else state.dark_theme
        usual = LIGHT if dark else DARK
        self.theme = other if other in self.available_themes else usual

    # --- screens, and what the session tells them

    def action_export(self) -> None:
        """Ask where a report on the open file is to go."""
        log = self.session.log
        if log is None:
            return
        if self.session.reports.is_busy:
            self.tell("A report is still being written: one at a time.", 4)
            return
        from srs_eval.tui.screens.dialogs import ExportScreen

        source = Path(log.import_summary.path)
        screen = ExportScreen(source, self.session.models.in_report())
        self.push_screen(screen, self.session.export)

    def tell(self, said: str, seconds: float = 3) -> None:
        self.notify(said, markup=False, timeout=seconds)

    def refuse(self, title: str, error: Exception, *button_and_reassurance: str) -> None:
        """Say in a dialog why something was not done."""
        from srs_eval.tui.screens.dialogs import Refusal

        self.push_screen(Refusal(title, error, *button_and_reassurance))

    def reading(self, said: str) -> None:
        for each in self._shown(OpenScreen):
            each.reading(said)

    def get_ready(self) -> None:
        import_module("srs_eval.tui.screens.answers")
        # Of intervals: it comes while the person looks at the answers.
        threading.Thread(target=import_module, args=["scipy.special"], daemon=True).start()

    def file_opened(self) -> None:
        from srs_eval.tui.screens.answers import AnswersScreen

        while len(self.screen_stack) > 1 and not isinstance(self.screen, AnswersScreen):
            self.pop_screen()
        if isinstance(self.screen, AnswersScreen):
            self.screen.changed()
        else:
            self.push_screen(AnswersScreen())

    def changed(self) -> None:
        for screen in self._shown(AppScreen):
            screen.changed()

    def evaluation_failed(self, error: Exception) -> None:
        """Say why to who waits for it; who asks for the ranking later will be told."""
        from srs_eval.tui.screens.ranking import RunScreen

        if rankings := self._shown(RunScreen):
            if self.screen in rankings and not self.session.models.run.results():
                self.pop_screen()
            self.refuse("Can't evaluate this", error, "Back", "")

    def _shown(self, kind: type[_Kind]) -> list[_Kind]:
        return [
            screen for screen in self.screen_stack if isinstance(screen, kind) and screen.is_mounted
        ]


def run_app(path: Path | None = None, **options: Any) -> int:
    """Run the app until it is left; returns the exit code (0, or 130 after an interrupt).

    `path` is opened at once; without it, the first screen offers files. `options` are those of
    `tui.session.Options`, as of `srs-eval run`. Raises InputError for models that do not exist.
    """
    how = Options(**options)
    if (how.models, how.protocol) != (Options.models, Protocol()):
        from srs_eval.models.configurations import resolve

        resolve(how.models, how.protocol)  # refuse unknown names before the app takes the terminal
    app = SrsEvalApp(path, how)
    try:
        code = app.run()
    finally:
        app.session.shut_down()
    return code if code is not None else (app.return_code or 0)


if __name__ == "__main__":
    sys.exit(run_app(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
