"""Provide what all screens share: top line, keys, help, and a notice if the window is too small."""

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

from srs_eval.data.errors import format_count, sanitize
from srs_eval.report import formats
from srs_eval.tui.config import SCREEN_ACTIONS, Action, make_bindings
from srs_eval.tui.workarounds import ClosesOnce, IgnoresRemovedWidgets, ReleasesStyleCache

if TYPE_CHECKING:
    from srs_eval.engine.run import Run
    from srs_eval.tui.session import AppSession

MIN_SIZE = (60, 16)  # columns and lines
_KEY_SEPARATOR = " · "
_ALWAYS_SHOWN = ("cancel", "again", "back", "help", "quit")  # in the last line of any window


class ProtocolLine(Widget):
    """The top line, which names the open file and the protocol."""

    ALLOW_SELECT = False
    file: reactive[str] = reactive("")
    facts: reactive[Sequence[str]] = reactive(())  # fewer are shown in a narrow window
    busy: reactive[str] = reactive("")  # work in the background

    def render(self) -> RenderResult:
        width = self.size.width
        shown_facts = [fact for fact in (*self.facts, self.busy) if fact]

        def measure_without_file() -> int:
            return sum(cell_len(f"{text} · ") for text in ("srs-eval", *shown_facts))

        while shown_facts and measure_without_file() + min(cell_len(self.file), 16) > width:
            # Those in the middle go first, and the last one stays longest.
            shown_facts.pop(1 if len(shown_facts) > 2 else 0)
        file = formats.shorten_middle(self.file, width - measure_without_file())
        styled_texts = [("srs-eval", "bold $primary")]
        if self.file:
            styled_texts.append((file, "bold"))
        styled_texts += [(fact, "") for fact in shown_facts]
        return Content.from_markup("[$text-muted] · [/]").join(
            Content.assemble(styled_text) for styled_text in styled_texts
        )


class TooSmall(Static):
    """A notice that replaces everything else in a window that is too small to work in."""

    def __init__(self) -> None:
        super().__init__(
            "Please make the window larger:\n"
            f"at least {MIN_SIZE[0]} columns and {MIN_SIZE[1]} lines.\n(q quits)"
        )


class Keys(Widget):
    """The last line: as many of the active keys as there is room for; a click presses one.

    Textual's footer stays blank until the screen is drawn and idle, which takes seconds on a busy
    machine, and it cuts keys in two.
    """

    ALLOW_SELECT = False
    auto_links = False

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._refresh_keys)

    def _refresh_keys(self, screen: Screen[Any]) -> None:
        self.refresh()

    def render(self) -> RenderResult:
        keys_by_action: dict[str, Content] = {}
        takes_letters = getattr(self.screen, "takes_letters", False)
        for active_binding in self.screen.active_bindings.values():
            binding = active_binding.binding
            action = binding.action
            is_typed = takes_letters and len(binding.key) == 1  # q, say, is a letter of the path
            quits_as_q = not takes_letters and binding.key == "ctrl+q"
            if not binding.show or is_typed or quits_as_q:
                continue
            if action in keys_by_action:  # only an action's first key is shown
                continue
            click_action = action if "." in action else f"screen.{action}"
            style = "" if active_binding.enabled else "dim"
            key = Content.assemble(
                (self.app.get_key_display(binding), f"bold $footer-key-foreground {style}"),
                (f" {binding.description}", f"$footer-description-foreground {style}"),
            )
            keys_by_action[action] = key.stylize(Style.from_meta({"@click": click_action}))

        def measure_keys() -> int:
            separators = len(_KEY_SEPARATOR) * max(len(keys_by_action) - 1, 0)
            return separators + sum(key.cell_length for key in keys_by_action.values())

        removable_actions = [
            action for action in keys_by_action if action.rpartition(".")[2] not in _ALWAYS_SHOWN
        ]
        while removable_actions and measure_keys() > self.size.width:
            del keys_by_action[removable_actions.pop()]
        separator = Content.assemble((_KEY_SEPARATOR, "$text-muted"))
        return separator.join(keys_by_action.values())


class HarmlessHighlighter(Highlighter):
    """Highlighter of an input for paths, which replaces characters that a terminal would obey."""

    def highlight(self, text: Text) -> None:
        text.plain = sanitize(text.plain)


def _get_session(screen: Screen[Any]) -> AppSession:
    return cast("AppSession", screen.app.session)  # type: ignore[attr-defined]


def _name_owner(rows: str) -> str:
    """Name who counts these reviews, for a line without room for an article: "benchmark's"."""
    return formats.ROW_OWNERS[rows].removeprefix("the ")


class AppScreen(ClosesOnce, IgnoresRemovedWidgets, ReleasesStyleCache, Screen[Any]):
    """A screen of the app; `actions` are what its keys do, and help.md describes it."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("j", "line(1)", "Down", show=False),
        Binding("k", "line(-1)", "Up", show=False),
        Binding("g,home", "end(-1)", "First", show=False),
        Binding("G,end", "end(1)", "Last", show=False),
    ]

    actions: ClassVar[tuple[Action, ...]] = ()
    help_name: ClassVar[str] = ""
    follows_changes: ClassVar[bool] = False  # True if each change calls `update_now`
    takes_letters: ClassVar[bool] = False
    """True if users type letters on the screen, so that no letter is a key."""

    def __init_subclass__(cls, actions: str = "", **class_options: Any) -> None:
        """Bind the keys of `actions`, the screen's name in SCREEN_ACTIONS and in help.md."""
        if actions:
            cls.help_name = actions
            cls.actions = SCREEN_ACTIONS[actions]
            own_bindings = cls.__dict__.get("BINDINGS", ())
            cls.BINDINGS = [*own_bindings, *make_bindings(cls.actions)]
        super().__init_subclass__(**class_options)

    @property
    def session(self) -> AppSession:
        return _get_session(self)

    def compose(self) -> ComposeResult:
        yield ProtocolLine()
        with Container(id="content"):
            yield from self.content()
        yield TooSmall()
        yield Keys()

    def content(self) -> ComposeResult:
        yield from ()

    def key_of(self, action_id: str) -> str:
        """Return the key of one of the screen's actions, as the user has set it."""
        actions = self.session.config.with_keys(self.actions)
        return next(action.key_label for action in actions if action.id == action_id)

    def update_now(self) -> None:
        """Show the current state."""

    def show_changes(self) -> None:
        """Show changes that come from work in the background."""
        self.update_top_line()
        if self.follows_changes:
            self.update_now()

    def is_missing(self, selector: str) -> bool:
        """Return whether a widget is missing; events may arrive before a screen has its widgets."""
        return not self.query(selector)

    def update_soon(self) -> None:
        """Call `update_now` after the screen has been drawn without its content.

        Drawing both at once would cause a pause. Do nothing if the user has left the screen by
        then, because its widgets are gone.
        """

        def update_if_open() -> None:
            if self in self.app.screen_stack:
                self.update_now()

        self.call_after_refresh(update_if_open)

    def on_mount(self) -> None:
        self.update_top_line()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self.update_top_line()

    def on_screen_suspend(self, event: events.ScreenSuspend) -> None:
        """Clear notifications about this screen so that they do not cover the next one."""
        self.app.clear_notifications()

    def update_top_line(self) -> None:
        """Update the top line, and which keys are active: one of them stops a report."""
        session = self.session
        for line in self.query(ProtocolLine):
            line.file = "" if session.log is None else session.file_name
            line.facts = self.facts()
            line.busy = session.reports.progress
        self.refresh_bindings()

    def facts(self) -> list[str]:
        """Return facts about the open file for the top line."""
        if self.session.log is None:
            return []
        models = self.session.models
        counts = models.review_counts()
        facts = []
        if counts is not None:
            review_count, evaluated_count = counts
            facts.append(format_count(review_count, "review"))
            facts.append(f"{evaluated_count:,} evaluated")
        prefix = "" if counts is not None else "reviews: "  # the first fact says what is counted
        facts.append(f"{prefix}{self._describe_protocol()}")
        return facts

    def _describe_protocol(self) -> str:
        """Say whose reviews these are, and with which flags: "benchmark's (Anki's: 11,713)"."""
        protocol = self.session.models.protocol
        words = [_name_owner(protocol.rows), *formats.list_flags(protocol)]
        return ", ".join(words) + self._count_other_rows()

    def _count_other_rows(self) -> str:
        """Count the reviews by the other rule if their number differs: " (Anki's: 11,713)"."""
        models = self.session.models
        import_summary = self.session.import_summary
        if import_summary is None or models.alternative_rows is None:
            return ""
        count = import_summary.rows[models.protocol.rows].kept
        other_count = import_summary.rows[models.alternative_rows].kept
        if count == other_count:
            return ""
        return f" ({_name_owner(models.alternative_rows)}: {other_count:,})"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "cancel":
            return bool(self.session.reports.progress) or self.session.models.can_cancel
        return True

    def action_cancel(self) -> None:
        """Cancel the report in progress, or else the models at work."""
        if self.session.reports.progress:
            self.session.reports.cancel()
        else:
            self.session.models.cancel()
        self.refresh_bindings()

    def action_line(self, step: int) -> None:
        """Move one line down or up in the focused widget, as ↓ and ↑ do."""
        names = ("cursor_down", "scroll_down") if step > 0 else ("cursor_up", "scroll_up")
        for name in names:
            action = getattr(self.focused, f"action_{name}", None)
            if action is not None:
                action()
                return

    def action_end(self, direction: int) -> None:
        """Move to the first or the last line of the focused widget."""
        names = ("first", "scroll_home") if direction < 0 else ("last", "scroll_end")
        for name in names:
            action = getattr(self.focused, f"action_{name}", None)
            if action is not None:
                action()
                return

    def move(self, step: int) -> None:
        """Show the item that comes `step` places after the current one."""

    def action_previous(self) -> None:
        self.move(-1)

    def action_next(self) -> None:
        self.move(1)

    def action_table(self) -> None:
        """Show each calibration chart as a table, or as a graph again."""
        from srs_eval.tui.widgets.calibration import CalibrationChart

        for chart in self.query(CalibrationChart):
            chart.as_table = not chart.as_table

    def action_bins(self) -> None:
        self.session.next_bins()
        self.update_now()

    def action_back(self) -> None:
        self.dismiss()

    def action_ranking(self) -> None:
        """Open the ranking; evaluate the requested models unless that is done or under way."""
        self.session.models.ensure_started()
        self.session.view.show_ranking()

    def compare(self, run: Run, *preferred: str | None, folds_metrics: bool = False) -> None:
        """Compare two models of a run: the first `preferred` ones with figures, else the best."""
        ranked = [line.configuration.name for line in run.ranked_results()]
        results = run.results_by_name()
        names = [name for name in dict.fromkeys((*preferred, *ranked)) if name in results]
        if len(names) < 2:
            self.notify("Two finished models are needed to compare.", timeout=3)
        else:
            left, right = names[:2]
            self.session.view.show_comparison(
                run, str(left), str(right), folds_metrics=folds_metrics
            )

    def action_help(self) -> None:
        self.session.view.show_help(self.help_name, self.actions)


class Dialog(ClosesOnce, IgnoresRemovedWidgets, ReleasesStyleCache, ModalScreen[Any]):
    """A box over the current screen, closed by Esc; its frame shows `title` and `keys`."""

    BINDINGS: ClassVar[list[Any]] = [("escape", "close", "Close")]
    box: ClassVar[type[Widget]] = Vertical

    def __init__(self, title: str, keys: str) -> None:
        super().__init__()
        self._frame_texts = title, keys

    @property
    def session(self) -> AppSession:
        return _get_session(self)

    def compose(self) -> ComposeResult:
        box = self.box(id="box")
        box.border_title, box.border_subtitle = self._frame_texts
        with box:
            yield from self.content()
        yield TooSmall()

    def content(self) -> ComposeResult:
        yield from ()

    def action_close(self) -> None:
        self.dismiss(None)
