"""What all screens share: top line, footer, help, and a notice in too small a window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer

from srs_eval import words
from srs_eval.screens.actions import Action
from srs_eval.widgets.chrome import MINIMUM, ProtocolLine, TooSmall

if TYPE_CHECKING:
    from srs_eval.app import SrsEvalApp

TOO_NARROW = [(0, "-too-narrow"), (MINIMUM[0], "-narrow"), (76, "-normal"), (120, "-wide")]
TOO_LOW = [(0, "-too-low"), (MINIMUM[1], "-low"), (22, "-usual"), (36, "-high")]


class AppScreen(Screen[Any]):
    """A screen of the app; `actions` are its keys, `about` is its help text."""

    HORIZONTAL_BREAKPOINTS = TOO_NARROW
    VERTICAL_BREAKPOINTS = TOO_LOW
    actions: ClassVar[tuple[Action, ...]] = ()
    about: ClassVar[str] = ""

    def compose(self) -> ComposeResult:
        yield ProtocolLine()
        with Container(id="content"):
            yield from self.content()
        yield TooSmall()
        yield Footer(compact=True, show_command_palette=False)

    def content(self) -> ComposeResult:
        yield from ()

    @property
    def srs_app(self) -> SrsEvalApp:
        return cast("SrsEvalApp", self.app)

    def on_mount(self) -> None:
        self.show_protocol()

    def on_screen_resume(self) -> None:
        self.show_protocol()

    def show_protocol(self) -> None:
        app = self.srs_app
        lines = self.query(ProtocolLine)
        if not lines:
            return
        line = lines.first()
        if app.log_ is None or app.receipt is None:
            line.show("")
            return
        facts = []
        counts = app.counts()
        if counts is not None:
            facts = [f"{words.count(counts[0])} reviews", f"{words.count(counts[1])} judged"]
        line.show(app.file_name, *facts, f"protocol: {words.protocol(app.protocol)}")

    def action_back(self) -> None:
        self.app.pop_screen()

    def action_help(self) -> None:
        from srs_eval.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self.about, self.actions))


class Dialog(ModalScreen[Any]):
    """A box over the current screen; Esc closes it."""

    HORIZONTAL_BREAKPOINTS = TOO_NARROW
    VERTICAL_BREAKPOINTS = TOO_LOW
    BINDINGS: ClassVar[list[Any]] = [("escape", "close", "Close")]

    def compose(self) -> ComposeResult:
        yield from self.content()
        yield TooSmall()

    def content(self) -> ComposeResult:
        yield from ()

    def action_close(self) -> None:
        self.dismiss(None)
