"""Run the terminal app: open a collection, see which reviews count, evaluate and compare models.

The app has the theme, keys and screens. Its `AppSession` does the work and notifies the app of
changes. The first screen needs none of the code that reads and evaluates: a thread loads that code
once the screen is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.driver import Driver
from textual.screen import Screen
from textual.theme import Theme, ThemeProvider

from srs_eval.data.protocol import Protocol
from srs_eval.tui.config import DARK, GLOBAL_ACTIONS, LIGHT, Action, make_bindings
from srs_eval.tui.screens.base import MIN_SIZE, AppScreen
from srs_eval.tui.screens.open import OpenScreen
from srs_eval.tui.screens.themes import DARK_THEME, LIGHT_THEME, check_theme
from srs_eval.tui.session import AppOptions, AppSession
from srs_eval.tui.workarounds import CommandPalette, InputQueue, with_safe_output

if TYPE_CHECKING:
    from srs_eval.engine.run import Run

_ScreenT = TypeVar("_ScreenT", bound=Screen[Any])
# The fewest columns, or lines, from which a screen has a CSS class.
_WIDTHS = [(0, "-too-narrow"), (MIN_SIZE[0], "-narrow"), (76, "-normal"), (120, "-wide")]
_HEIGHTS = [(0, "-too-low"), (MIN_SIZE[1], "-low"), (22, "-usual"), (36, "-high")]
_HIDDEN_COMMANDS = ("Quit", "Keys", "Screenshot")  # commands of Textual's own that are not offered


class SrsEvalApp(App[int]):
    """The terminal app. The keyword arguments after `options` are for tests."""

    TITLE = "srs-eval"
    BINDINGS: ClassVar[list[Any]] = [
        *make_bindings(GLOBAL_ACTIONS),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
        Binding("ctrl+q", "quit", "Quit", priority=True),
    ]
    CSS_PATH = "tui/app.tcss"
    HORIZONTAL_BREAKPOINTS = _WIDTHS
    VERTICAL_BREAKPOINTS = _HEIGHTS

    def __init__(
        self,
        path: Path | None = None,
        options: AppOptions | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        **overrides: Any,
    ) -> None:
        super().__init__()
        self.session = AppSession(self, options or AppOptions(), monotonic=monotonic, **overrides)
        self._path = path
        self._input = InputQueue(self, self._forward, monotonic)
        config = self.session.config
        self.set_keymap(dict(config.keys))
        if config.reduced_motion:
            self.animation_level = "none"
        self.register_theme(DARK_THEME)
        self.register_theme(LIGHT_THEME)
        check_theme(config.theme)
        theme = config.theme or self.session.state.theme
        self.theme = theme if theme in self.available_themes else DARK

    # --- keys

    async def on_event(self, event: events.Event) -> None:
        """Handle an event as Textual does, but one key or click after another."""
        await self._input.handle(event)

    async def _forward(self, event: events.Event) -> None:
        """Pass an event on to Textual; if the window is too small for a screen, keys only quit."""
        is_too_small = self.size.width < MIN_SIZE[0] or self.size.height < MIN_SIZE[1]
        if not is_too_small or not isinstance(event, events.Key | events.Paste):
            await super().on_event(event)
        elif isinstance(event, events.Key) and not self._quit_keys.isdisjoint(event.aliases):
            await self.action_quit()

    @property
    def _quit_keys(self) -> set[str]:
        """Return the keys that quit the app."""
        keys = {"ctrl+c", "ctrl+q"}
        for action in self.session.config.with_keys(GLOBAL_ACTIONS):
            if action.name == "app.quit":
                keys.update(map(str.strip, action.key.split(",")))
        return keys

    def action_command_palette(self) -> None:
        """Show the palette of all commands."""
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette(id="--command-palette"))

    def search_themes(self) -> None:
        """Show the palette of themes."""
        self.push_screen(CommandPalette([ThemeProvider], placeholder="Search for themes…"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Yield the screen's possible actions, those of all screens, and Textual's own commands."""
        screen_actions = screen.actions if isinstance(screen, AppScreen) else ()
        for scope, actions in (("Here", screen_actions), ("Everywhere", GLOBAL_ACTIONS)):
            for action in self.session.config.with_keys(actions):
                if action.id != "command_palette" and screen.check_action(action.name, ()):
                    # Later: once the palette has closed.
                    run = partial(self.call_later, screen.run_action, action.name)
                    help_text = f"{scope}: {action.help} ({action.key_label})"
                    yield SystemCommand(action.label, help_text, run)
        for command in super().get_system_commands(screen):
            if command.title not in _HIDDEN_COMMANDS:
                yield command._replace(help=f"Everywhere: {command.help}")

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

    def preload_after_first_screen(self) -> None:
        """Load the code that evaluates, and compile models if needed, in a thread.

        Any earlier, this would only delay the first screen.
        """
        gc.freeze()  # existing objects stay: garbage is collected among later ones only
        threading.Thread(target=self.session.models.warm_up, daemon=True, name="warm up").start()

    def get_driver_class(self) -> type[Driver]:
        return with_safe_output(super().get_driver_class())

    def _leave_on_signals(self) -> None:
        """Quit on `kill` or when the window closes, as with q, so that no worker keeps running."""
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
        if theme.dark:
            self.session.remember(theme=theme.name, dark_theme=theme.name)
        else:
            self.session.remember(theme=theme.name, light_theme=theme.name)
        for screen in self._screens_of_type(AppScreen):  # charts and lists are drawn in its colours
            screen.update_now()

    def action_switch_light(self) -> None:
        if self.current_theme.dark:
            theme = self.session.state.light_theme
            default_theme = LIGHT
        else:
            theme = self.session.state.dark_theme
            default_theme = DARK
        self.theme = theme if theme in self.available_themes else default_theme

    # --- screens, and messages from the session

    def action_export(self) -> None:
        """Ask where to save a report on the open file."""
        log = self.session.log
        if log is None:
            return
        if self.session.reports.is_busy:
            self.show_message(
                "A report is still being written. Please wait for it to finish.", seconds=4
            )
            return
        from srs_eval.tui.screens.dialogs import ExportScreen

        source = Path(log.import_summary.path)
        screen = ExportScreen(source, self.session.models.describe_report_basis())
        self.push_screen(screen, self.session.export)

    def show_message(self, message: str, seconds: float = 3) -> None:
        """Show a message, on the first screen below its panes so that it hides none."""
        from srs_eval.tui.screens.answers import AnswersScreen

        if isinstance(self.screen, AnswersScreen):
            self.screen.show_note(message, seconds)
        else:
            self.notify(message, markup=False, timeout=seconds)

    def show_error(
        self,
        title: str,
        error: Exception,
        *,
        button: str = "Choose another",
        reassurance: str = "Your file was not changed.",
    ) -> None:
        """Show a dialog that says why something was not done."""
        from srs_eval.tui.screens.dialogs import ErrorDialog

        self.push_screen(ErrorDialog(title, error, button, reassurance))

    def show_reading(self, message: str) -> None:
        """Show which file is being read; the message is "" when reading is done."""
        for screen in self._screens_of_type(OpenScreen):
            screen.show_reading(message)

    def preload(self) -> None:
        """Load the modules of the next screen; called in a thread."""
        import_module("srs_eval.tui.screens.answers")
        # Intervals of the ranking need it: it is loaded while the user looks at the answers.
        threading.Thread(target=import_module, args=["scipy.special"], daemon=True).start()

    def show_opened_file(self) -> None:
        """Show the answers about the open file, and close the screens above them."""
        from srs_eval.tui.screens.answers import AnswersScreen

        while len(self.screen_stack) > 1 and not isinstance(self.screen, AnswersScreen):
            self.pop_screen()
        if isinstance(self.screen, AnswersScreen):
            self.screen.show_changes()
        else:
            self.push_screen(AnswersScreen())

    def show_changes(self) -> None:
        for screen in self._screens_of_type(AppScreen):
            screen.show_changes()

    def show_evaluation_error(self, error: Exception) -> None:
        """Show the error if the ranking is open; else opening it tries again and shows the error.

        A ranking without any results is closed.
        """
        from srs_eval.tui.screens.ranking import RunScreen

        rankings = self._screens_of_type(RunScreen)
        if rankings:
            if self.screen in rankings and not self.session.models.run.results_by_name():
                self.pop_screen()
            self.show_error("Can't evaluate this", error, button="Back", reassurance="")

    def show_ranking(self) -> None:
        from srs_eval.tui.screens.ranking import RunScreen

        self.push_screen(RunScreen())

    def show_comparison(
        self, run: Run, left: str, right: str, *, folds_metrics: bool = False
    ) -> None:
        """Show two models of a run side by side."""
        from srs_eval.tui.screens.details import CompareScreen

        self.push_screen(CompareScreen(run, left, right, folds_metrics=folds_metrics))

    def show_help(self, screen_name: str, actions: Sequence[Action]) -> None:
        """Show the help of a screen with its keys."""
        from srs_eval.tui.screens.dialogs import HelpScreen

        self.push_screen(HelpScreen(screen_name, actions))

    def _screens_of_type(self, screen_type: type[_ScreenT]) -> list[_ScreenT]:
        return [
            screen
            for screen in self.screen_stack
            if isinstance(screen, screen_type) and screen.is_mounted
        ]


def run_app(path: Path | None = None, **options: Any) -> int:
    """Run the app until the user leaves it; return the exit code (0, or 130 if interrupted).

    `path` is opened at once; without it, the first screen offers files. `options` are the fields
    of `tui.session.AppOptions`, as for `srs-eval run`.

    Raises:
        InputError: A model, or the theme in config.toml, does not exist.
    """
    app_options = AppOptions(**options)
    is_default = app_options.models == AppOptions.models and app_options.protocol == Protocol()
    if not is_default:
        from srs_eval.models.configurations import resolve_configurations

        # Refuse unknown names before the app takes the terminal.
        resolve_configurations(app_options.models, app_options.protocol)
    app = SrsEvalApp(path, app_options)
    try:
        code = app.run()
    finally:
        app.session.shut_down()
    return code if code is not None else (app.return_code or 0)


if __name__ == "__main__":
    sys.exit(run_app(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
