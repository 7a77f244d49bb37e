"""What all screens share: top line, footer, help, and a notice in too small a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.cells import cell_len
from rich.highlighter import Highlighter
from rich.text import Text
from textual import events
from textual.app import ComposeResult, RenderResult
from textual.binding import Binding
from textual.containers import Container, Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.screen import ModalScreen, Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from srs_eval.data.errors import harmless
from srs_eval.report import formats as words
from srs_eval.tui.config import SCREENS, Action, bindings
from srs_eval.tui.workarounds import ClosedOnce, Forgetful, SelectsWhatIsThere

if TYPE_CHECKING:
    from srs_eval.engine.run import Run
    from srs_eval.tui.session import Session

MINIMUM = (60, 16)  # columns and lines
_STAY = ("cancel", "again", "back", "help", "quit")  # in the last line of however narrow a window


class ProtocolLine(Widget):
    """The top line: which file is open, and under which protocol."""

    ALLOW_SELECT = False
    file: reactive[str] = reactive("")
    facts: reactive[Sequence[str]] = reactive(())  # fewer are shown in a narrow window
    busy: reactive[str] = reactive("")  # what is at work behind the screen

    def render(self) -> RenderResult:
        def taken() -> int:
            return sum(cell_len(f"{each} · ") for each in ("srs-eval", *facts))

        facts, width = [*filter(None, (*self.facts, self.busy))], self.size.width
        while facts and taken() + min(cell_len(self.file), 16) > width:
            facts.pop(1 if len(facts) > 2 else 0)  # the first stays as long as another can go
        file = words.shortened(self.file, width - taken())
        parts = [("srs-eval", "bold $primary"), *([(file, "bold")] if self.file else [])]
        parts += [(each, "") for each in facts]
        return Content.from_markup("[$text-muted] · [/]").join(
            Content.assemble(part) for part in parts
        )


class TooSmall(Static):
    """Shown instead of everything else in a window that is too small to work in."""

    def __init__(self) -> None:
        super().__init__(
            f"Please make the window larger:\n{MINIMUM[0]} columns and {MINIMUM[1]} lines"
            " at least.\n(q leaves)"
        )


class Keys(Widget):
    """The last line: keys that do something here, as many as there is room for; a click does it.

    Textual's footer stays blank till the screen is drawn and quiet, seconds on a busy machine, and
    cuts keys in two.
    """

    ALLOW_SELECT = False
    auto_links = False

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, screen: Screen[Any]) -> None:
        self.refresh()

    def render(self) -> RenderResult:
        shown: dict[str, Content] = {}
        typed = getattr(self.screen, "takes_letters", False)
        for each in self.screen.active_bindings.values():
            binding, action = each.binding, each.binding.action
            unsaid = len(binding.key) == 1 if typed else binding.key == "ctrl+q"
            if binding.show and action not in shown and not unsaid:  # of its keys the first
                at = action if "." in action else f"screen.{action}"
                style = "" if each.enabled else "dim"
                shown[action] = Content.assemble(
                    (self.app.get_key_display(binding), f"bold $footer-key-foreground {style}"),
                    (f" {binding.description}", f"$footer-description-foreground {style}"),
                ).stylize(Style.from_meta({"@click": at}))
        may_go = [name for name in shown if name.rpartition(".")[2] not in _STAY]
        while may_go and sum(key.cell_length + 1 for key in shown.values()) > self.size.width + 1:
            del shown[may_go.pop()]
        return Content(" ").join(shown.values())


class Harmless(Highlighter):
    """For an input of a path, whose name may hold anything."""

    def highlight(self, text: Text) -> None:
        text.plain = harmless(text.plain)


def _session_of(screen: Screen[Any]) -> Session:
    return cast("Session", screen.app.session)  # type: ignore[attr-defined]


class AppScreen(ClosedOnce, SelectsWhatIsThere, Forgetful, Screen[Any]):
    """A screen of the app; `actions` are its keys, help.md says what it shows."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("j", "line(1)", "Down", show=False),
        Binding("k", "line(-1)", "Up", show=False),
    ]

    actions: ClassVar[tuple[Action, ...]] = ()
    called: ClassVar[str] = ""
    session = property(_session_of)
    is_live: ClassVar[bool] = False  # whether `update_now` follows each change
    takes_letters: ClassVar[bool] = False
    """Whether letters are typed here, so that none is a key."""

    def __init_subclass__(cls, actions: str = "", **more: Any) -> None:
        """`actions` is what the screen is called in the table of SCREENS and in help.md."""
        if actions:
            cls.called, cls.actions = actions, SCREENS[actions]
            cls.BINDINGS = [*cls.__dict__.get("BINDINGS", ()), *bindings(cls.actions)]
        super().__init_subclass__(**more)

    def compose(self) -> ComposeResult:
        yield ProtocolLine()
        with Container(id="content"):
            yield from self.content()
        yield TooSmall()
        yield Keys()

    def content(self) -> ComposeResult:
        yield from ()

    def update_now(self) -> None:
        """Show what is known by now."""

    def changed(self) -> None:
        """Something has been done behind the screens: show what follows it at once."""
        self.show_protocol()
        if self.is_live:
            self.update_now()

    def lacks(self, selector: str) -> bool:
        """Whether a widget is not there (yet): events may arrive before those of a screen are."""
        return not self.query(selector)

    def update_soon(self) -> None:
        """`update_now` once the frames are drawn, for all at once would be a pause.

        Not where the screen has been left by then: its widgets are gone.
        """
        self.call_after_refresh(
            lambda: self.update_now() if self in self.app.screen_stack else None
        )

    def on_mount(self) -> None:
        self.show_protocol()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self.show_protocol()

    def on_screen_suspend(self, event: events.ScreenSuspend) -> None:
        """What was said of this screen does not cover the next one."""
        self.app.clear_notifications()

    def show_protocol(self) -> None:
        """In the top line what is open, and how far a report is; and the key that stops that."""
        session = self.session
        for line in self.query(ProtocolLine):
            line.file = "" if session.log is None else session.file_name
            line.facts, line.busy = self.facts(), session.reports.said
        self.refresh_bindings()

    def facts(self) -> list[str]:
        """About what is open."""
        if self.session.log is None:
            return []
        models = self.session.models
        counts = models.counts()
        found = [f"{counts[0]:,} reviews", f"{counts[1]:,} evaluated"] if counts else []
        return [*found, f"rows: {words.protocol(models.protocol)}"]

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

    def move(self, step: int) -> None:
        """Show what comes so many places after what is shown."""

    def action_previous(self) -> None:
        self.move(-1)

    def action_next(self) -> None:
        self.move(1)

    def action_table(self) -> None:
        from srs_eval.tui.widgets.calibration import CalibrationChart

        for chart in self.query(CalibrationChart):
            chart.as_table = not chart.as_table

    def action_bins(self) -> None:
        self.session.next_bins()
        self.update_now()

    def action_back(self) -> None:
        self.dismiss()

    def action_ranking(self) -> None:
        """The ranking of the models asked for; evaluates them unless that is done or under way."""
        from srs_eval.tui.screens.ranking import RunScreen

        self.session.models.rank()
        self.app.push_screen(RunScreen())

    def compare(self, run: Run, *wanted: str | None) -> None:
        """Two models of a run: those `wanted` as far as they have figures, else the best."""
        from srs_eval.tui.screens.details import CompareScreen

        ranked = (line.configuration.name for line in run.ranked())
        names = [name for name in dict.fromkeys((*wanted, *ranked)) if name in run.results()]
        if len(names) < 2:
            self.notify("Two finished models are needed to compare.", timeout=3)
        else:
            self.app.push_screen(CompareScreen(run, str(names[0]), str(names[1])))

    def action_help(self) -> None:
        from srs_eval.tui.screens.dialogs import HelpScreen

        self.app.push_screen(HelpScreen(self.called, self.actions))


class Dialog(ClosedOnce, SelectsWhatIsThere, Forgetful, ModalScreen[Any]):
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
