"""What all screens share: top line, footer, help, and a notice in too small a window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.highlighter import Highlighter
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Vertical
from textual.css.query import NoMatches
from textual.geometry import Offset
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

from srs_eval.data.printable import harmless
from srs_eval.report import formats as words
from srs_eval.tui.screens.actions import SCREENS, Action, bindings
from srs_eval.tui.widgets.chrome import MINIMUM, Keys, ProtocolLine, TooSmall
from srs_eval.tui.workarounds import Forgetful

if TYPE_CHECKING:
    from srs_eval.tui.session import Session

TOO_NARROW = [(0, "-too-narrow"), (MINIMUM[0], "-narrow"), (76, "-normal"), (120, "-wide")]
TOO_LOW = [(0, "-too-low"), (MINIMUM[1], "-low"), (22, "-usual"), (36, "-high")]


class Harmless(Highlighter):
    """For an input of a path, whose name may hold anything."""

    def highlight(self, text: Text) -> None:
        text.plain = harmless(text.plain)


def _session_of(screen: Screen[Any]) -> Session:
    return cast("Session", screen.app.session)  # type: ignore[attr-defined]


class AppScreen(Forgetful, Screen[Any]):
    """A screen of the app; `actions` are its keys, `about` is its help text, or help.md has it."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("j", "line(1)", "Down", show=False),
        Binding("k", "line(-1)", "Up", show=False),
    ]

    actions: ClassVar[tuple[Action, ...]] = ()
    about: ClassVar[str] = ""
    called: ClassVar[str] = ""
    session = property(_session_of)
    takes_letters: ClassVar[bool] = False
    """Whether letters are typed here, so that none is a key."""
    passed_over: ClassVar[str] = ""
    """Selector of the parts that Tab passes over; a letter of the jump mode goes there."""

    def __init_subclass__(cls, actions: str = "", **more: Any) -> None:
        """`actions` is what the screen is called in the table of SCREENS and in help.md."""
        if actions:
            cls.called, cls.actions = actions, SCREENS[actions]
            cls.BINDINGS = bindings(cls.actions)
        super().__init_subclass__(**more)

    def compose(self) -> ComposeResult:
        self._fit(self.app.size.width, self.app.size.height)
        yield ProtocolLine()
        with Container(id="content"):
            yield from self.content()
        yield TooSmall()
        yield Keys()

    def content(self) -> ComposeResult:
        yield from ()

    def _fit(self, width: int, height: int) -> None:
        """Take on the size's classes at once; Textual would style all widgets anew for them."""
        widths, heights = self.HORIZONTAL_BREAKPOINTS or TOO_NARROW, TOO_LOW
        classes = {name: False for _, name in (*widths, *heights)}
        for length, breakpoints in ((width, widths), (height, heights)):
            classes |= dict.fromkeys(self._get_breakpoint_classes(length, breakpoints), True)
        self.update_classes(classes, animate=False)

    def update_now(self) -> None:
        """Show what is known by now."""

    def lacks(self, selector: str) -> bool:
        """Whether a widget is not there (yet): events may arrive before those of a screen are."""
        try:
            self.query_one(selector)  # which, other than a query, is kept
        except NoMatches:
            return True
        return False

    def update_soon(self) -> None:
        """`update_now` once the frames are drawn, for all at once would be a pause.

        Not where the screen has been left by then: its widgets are gone.
        """
        self.call_after_refresh(
            lambda: self.update_now() if self in self.app.screen_stack else None
        )

    def on_mount(self) -> None:
        self.show_protocol()
        self.show_export()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        if self.outer_size != self.app.size:  # it opens: its widgets have just been styled
            event.refresh_styles = False
        self.show_protocol()

    def show_protocol(self) -> None:
        session = self.session
        if self.lacks("ProtocolLine"):
            return
        line = self.query_one(ProtocolLine)
        if session.log is None or session.receipt is None:
            line.show("")
            return
        facts = []
        counts = session.models.counts()
        if counts is not None:
            facts = [f"{words.count(counts[0])} reviews", f"{words.count(counts[1])} judged"]
        protocol = words.protocol(session.models.protocol)
        line.show(session.file_name, *facts, f"protocol: {protocol}")

    def show_export(self) -> None:
        """How far a report is, in the top line, and the key that stops it."""
        for line in self.query(ProtocolLine):
            line.busy(self.session.reports.said)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "cancel":
            return bool(self.session.reports.said) or self.session.models.can_cancel
        return True

    def action_cancel(self) -> None:
        """Of a report and of models at work, what was begun last."""
        if self.session.reports.said:
            self.session.reports.cancel()
        else:
            self.session.models.cancel()
        self.refresh_bindings()

    def action_line(self, step: int) -> None:
        """One line down or up in whatever has the focus, as ↓ and ↑ do."""
        names = ("cursor_down", "scroll_down") if step > 0 else ("cursor_up", "scroll_up")
        for name in names:
            act = getattr(self.focused, f"action_{name}", None)
            if act is not None:
                act()
                return

    def action_bins(self) -> None:
        self.session.next_bins()
        self.update_now()

    def action_log_bins(self) -> None:
        self.session.switch_log_bins()
        self.update_now()

    def action_back(self) -> None:
        self.app.pop_screen()

    def show_ranking(self) -> None:
        """The ranking of the models asked for; evaluates them unless that is done or under way."""
        from srs_eval.tui.screens.ranking import RunScreen

        self.session.models.rank()
        self.app.push_screen(RunScreen())

    def close_file(self) -> None:
        """Back to the first screen; asks first where that stops what a person waits for."""
        from srs_eval.tui.screens.dialogs import question_before_closing

        def close(stop: bool | None) -> None:
            if stop:
                self.session.close_file()
                self.app.pop_screen()

        question = question_before_closing(self.session)
        if question is None:
            close(True)
        else:
            self.app.push_screen(question, close)

    def action_help(self) -> None:
        from srs_eval.tui.screens.dialogs import HelpScreen, help_on

        self.app.push_screen(HelpScreen(self.about or help_on(self.called), self.actions))

    def action_jump(self) -> None:
        from srs_eval.tui.screens.dialogs import JumpScreen

        self.app.push_screen(JumpScreen(self.places()), self.go_to)

    def places(self) -> list[tuple[Widget, Offset]]:
        """The parts that the jump mode goes to, and where each one's letter stands."""
        parts = [*self.focus_chain, *(self.query(self.passed_over) if self.passed_over else ())]
        return [(part, part.region.offset) for part in dict.fromkeys(parts) if part.region]

    def go_to(self, widget: Widget | None) -> None:
        if widget is not None:
            widget.can_focus = True
            widget.focus()


class Dialog(Forgetful, ModalScreen[Any]):
    """A box over the current screen; Esc closes it. `title` and `keys` stand in its frame."""

    BINDINGS: ClassVar[list[Any]] = [("escape", "close", "Close")]
    box: ClassVar[type[Widget]] = Vertical
    session = property(_session_of)

    def __init__(self, title: str, keys: str) -> None:
        super().__init__()
        self._frame = title, keys

    def compose(self) -> ComposeResult:
        box = self.box(id="box")
        box.border_title, box.border_subtitle = self._frame
        with box:
            yield from self.content()
        yield TooSmall()

    def content(self) -> ComposeResult:
        yield from ()

    def action_close(self) -> None:
        self.dismiss(None)
