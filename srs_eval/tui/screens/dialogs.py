"""Boxes over a screen: help, questions, refusals, choices, and the letters of the jump mode."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.geometry import Offset
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Button, Label, SelectionList, Static
from textual.widgets.selection_list import Selection

from srs_eval.data.errors import InputError, NotEnoughData, counted
from srs_eval.data.printable import printable
from srs_eval.data.reviews import MISSING
from srs_eval.report import formats as words
from srs_eval.report.inspection import DeckReport, GroupCounts, Inspection, PresetReport
from srs_eval.tui.screens.actions import EVERYWHERE, Action
from srs_eval.tui.screens.base import Dialog, session_of
from srs_eval.tui.session import Chosen, Session
from srs_eval.tui.widgets.facts import WidthDependent, in_columns


class HelpScreen(Dialog):
    """A dialog that Esc, ?, F1 and Enter close."""

    BINDINGS: ClassVar[list[Any]] = [
        ("escape,question_mark,f1,enter", "close", "Close"),
    ]

    def __init__(self, about: str, actions: Sequence[Action]) -> None:
        super().__init__()
        self._about, self._actions = about, actions

    def content(self) -> ComposeResult:
        box = VerticalScroll()
        box.border_title = "Help"
        box.border_subtitle = "Esc closes"
        with box:
            yield Static(Text(self._about.strip()))
            yield Static(self._keys())

    def _keys(self) -> WidthDependent:
        on_keys = session_of(self).config.on_keys
        rows = [
            (Text(action.key_words, "bold"), Text(action.label), Text(action.help, "dim"))
            for action in on_keys((*self._actions, *EVERYWHERE))
        ]
        return WidthDependent(lambda width: in_columns([(Text(""),), *rows], width))


_LOOK = 0.2  # seconds between two looks whether the question is still one


class Question(Dialog):
    """Dismissed with True for `yes`, with None for anything else.

    Where `settled` says why there is nothing to ask any more, it goes by itself and tells that.
    """

    BINDINGS: ClassVar[list[Any]] = [
        ("y", "dismiss(True)", "Yes"),
        ("escape,n", "close", "No"),
        ("left,right", "app.focus_next", "Other"),
    ]

    def __init__(
        self,
        title: str,
        sentence: str,
        yes: str,
        no: str,
        settled: Callable[[], str] = lambda: "",
    ) -> None:
        super().__init__()
        self._title, self._sentence = title, sentence
        self._yes, self._no = yes, no
        self._settled = settled

    def content(self) -> ComposeResult:
        box = Vertical(classes="box")
        box.border_title = self._title
        box.border_subtitle = "y  n"
        with box:
            yield Static(self._sentence, markup=False)
            with Horizontal():
                yield Button(self._no, compact=True, id="no")
                yield Button(self._yes, variant="primary", compact=True, id="yes")

    def on_mount(self) -> None:
        self.query_one("#no").focus()
        self.set_interval(_LOOK, self._look)

    def _look(self) -> None:
        said = self._settled()
        if said and self.is_current:
            self.app.notify(said, timeout=6)
            self.dismiss(None)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(True if event.button.id == "yes" else None)


class Refusal(Dialog):
    """Dismissed with None; the screen behind it stays usable."""

    def __init__(
        self,
        title: str,
        sentence: str,
        button: str = "Choose another",
        reassurance: str = "Your file was not changed.",
    ) -> None:
        super().__init__()
        self._title, self._sentence = title, sentence
        self._button, self._reassurance = button, reassurance

    def content(self) -> ComposeResult:
        box = Vertical()
        box.border_title = self._title
        box.border_subtitle = "Esc"
        with box:
            yield Static(self._sentence, markup=False)
            with Horizontal():
                yield Static(self._reassurance, id="unchanged")
                yield Button(self._button, variant="primary", compact=True)

    def on_button_pressed(self) -> None:
        self.dismiss(None)


class _Ticked(SelectionList[str]):
    """Told apart without colour: only what is chosen has a mark."""

    def render_line(self, y: int) -> Strip:
        line = super().render_line(y)
        place = self.scroll_offset.y + y
        if place >= self.option_count:
            return line
        if self.get_option_at_index(place).value in self.selected:
            return line
        left, inner, *rest = line
        blank = Segment(" " * inner.cell_length, inner.style, inner.control)
        return Strip([left, blank, *rest])


class ChooseScreen(Dialog):
    """Dismissed with what is `Chosen`, or None where nothing is to change."""

    BINDINGS: ClassVar[list[Any]] = [
        ("escape", "close", "Close"),
        Binding("enter", "judge", "Judge", priority=True),
    ]

    def __init__(self, receipt: Inspection, rows: str, chosen: Chosen) -> None:
        super().__init__()
        self._receipt, self._rows, self._chosen = receipt, rows, chosen

    def content(self) -> ComposeResult:
        box = Vertical(classes="box")
        box.border_title = "Judge only"
        box.border_subtitle = "Space chooses, Enter judges, Esc leaves all as it is"
        with box:
            yield _Ticked(
                *self._part("preset", self._receipt.presets, self._chosen[0]),
                *self._part("deck", self._receipt.decks, self._chosen[1]),
            )
            with Horizontal():
                yield Static("None chosen: all are judged.")
                yield Button("Judge", variant="primary", compact=True)

    def _part(
        self, what: str, reports: Collection[PresetReport | DeckReport], chosen: Collection[str]
    ) -> list[Selection[str]]:
        return [
            Selection(
                Text.assemble(
                    (f"{what:<7}", "dim"),
                    words.shortened(each.name or str(each.id), 40),
                    (f"  {words.count(_reviews(each.counts, self._rows))} reviews", "dim"),
                ),
                f"{what} {each.id}",
                str(each.id) in chosen,
            )
            for each in reports
            if each.id != MISSING and _reviews(each.counts, self._rows)
        ]

    def on_button_pressed(self) -> None:
        self.action_judge()

    def action_judge(self) -> None:
        found: dict[str, list[str]] = {"preset": [], "deck": []}
        for key in self.query_one(SelectionList).selected:
            what, _, number = key.partition(" ")
            found[what].append(number)
        self.dismiss((tuple(found["preset"]), tuple(found["deck"])))


def _reviews(counts: GroupCounts, rows: str) -> int:
    return counts.anki_rows if rows == "anki" else counts.benchmark_rows


class FamiliesScreen(Dialog):
    """Dismissed with the families that are not to be shown, or None."""

    BINDINGS: ClassVar[list[Any]] = [("escape,enter,f", "close", "Close")]

    def __init__(self, there: Collection[str], hidden: tuple[str, ...]) -> None:
        super().__init__()
        self._there, self._hidden = there, hidden

    def content(self) -> ComposeResult:
        box = Vertical()
        box.border_title = "Families of models"
        box.border_subtitle = "Space chooses, Esc closes"
        with box:
            yield SelectionList[str](
                *(
                    Selection(
                        Text(f"{each.letter}  {each.meaning}"), family, family not in self._hidden
                    )
                    for family, each in words.FAMILIES.items()
                    if family in self._there and family != "floor"
                )
            )
            yield Static("The letters stand before the models' names. The floor is always shown.")

    def action_close(self) -> None:
        chosen = self.query_one(SelectionList).selected
        hidden = [each for each in words.FAMILIES if each in self._there and each != "floor"]
        kept = [each for each in self._hidden if each not in self._there]
        self.dismiss((*kept, *(each for each in hidden if each not in chosen)))


_LETTERS = "asdfghjklqwertyuiopzxcvbnm"


class JumpScreen(ModalScreen[Any]):
    """Dismissed with the widget whose letter was pressed, or None."""

    DEFAULT_CSS = """
    JumpScreen { background: $background 40%; }
    JumpScreen Label { position: absolute; background: $accent; color: $background;
                       text-style: bold; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[Any]] = [("escape", "dismiss(None)", "Close")]

    def __init__(self, places: Sequence[tuple[Widget, Offset]]) -> None:
        super().__init__()
        self._targets = dict(zip(_LETTERS, (widget for widget, _ in places), strict=False))
        self._offsets = [offset for _, offset in places]

    def compose(self) -> ComposeResult:
        for letter, offset in zip(self._targets, self._offsets, strict=False):
            label = Label(letter)
            label.styles.offset = (offset.x, offset.y)
            yield label

    def on_key(self, event: events.Key) -> None:
        if event.key in self._targets:
            event.stop()
            self.dismiss(self._targets[event.key])


def sentence_of(error: Exception) -> str:
    """What a person is told of an error."""
    if isinstance(error, InputError | NotEnoughData):
        return printable(error, None)
    if isinstance(error, MemoryError):
        return "There is not enough memory for this."
    return f"Something unexpected happened ({type(error).__name__}: {printable(error)})."


def question_before_closing(session: Session) -> Question | None:
    """Where closing the file stops what a person waits for."""
    if session.models.can_cancel and session.models.wanted:
        return Question(
            "Stop the models that still run?",
            "What has finished is kept on disk and need not be done again.",
            "Stop and close",
            "Keep running",
            lambda: "" if session.models.can_cancel else "The models have ended by themselves.",
        )
    if session.answers_ended is None and session.overview.waiting:
        return Question(
            f"Close with {counted(len(session.overview.waiting), 'question')} still open?",
            "Answers are kept once there are all of them; till then, opening asks anew.",
            "Stop and close",
            "Keep running",
            lambda: "" if session.answers_ended is None else "All questions are answered by now.",
        )
    return None
