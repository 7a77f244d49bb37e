"""Boxes over a screen: help, questions, refusals, choices, a report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, Checkbox, Input, OptionList, SelectionList, Static
from textual.widgets.option_list import Option
from textual.widgets.selection_list import Selection

from srs_eval.data.errors import InputError, NotEnoughData, printable
from srs_eval.data.memory import is_short_of_memory
from srs_eval.data.paths import check_outputs, with_ending
from srs_eval.data.reviews import MISSING
from srs_eval.report import formats as words
from srs_eval.report.files import FOLDERS
from srs_eval.report.inspection import DeckReport, GroupCounts, Inspection, PresetReport
from srs_eval.tui.config import EVERYWHERE, Action
from srs_eval.tui.screens.base import Dialog, Harmless
from srs_eval.tui.session import Chosen, Wanted
from srs_eval.tui.widgets.facts import WidthDependent, in_columns


def _help_on(screen: str) -> str:
    """What help.md says about it, a line for each paragraph."""
    text = (Path(__file__).parents[1] / "help.md").read_text("utf-8")
    about = f"\n{text}".partition(f"\n# {screen}\n")[2].partition("\n# ")[0]
    return "\n\n".join(" ".join(each.split()) for each in about.strip().split("\n\n"))


class HelpScreen(Dialog):
    """A dialog that Esc, ?, F1 and Enter close."""

    box = VerticalScroll
    BINDINGS: ClassVar[list[Any]] = [("escape,question_mark,f1,enter", "close", "Close")]

    def __init__(self, screen: str, actions: Sequence[Action]) -> None:
        super().__init__("Help", "Esc closes")
        self._screen, self._actions = screen, actions

    def content(self) -> ComposeResult:
        yield Static(Text(_help_on(self._screen)))
        on_keys = self.session.config.on_keys
        rows = [
            (Text(action.key_words, "bold"), Text(action.label), Text(action.help, "dim"))
            for action in on_keys((*self._actions, *EVERYWHERE))
        ]
        yield Static(WidthDependent(lambda width: in_columns([(Text(""),), *rows], width)))


class Question(Dialog):
    """Dismissed with True for `yes`, else with None; `beside` stands beside the buttons."""

    BINDINGS: ClassVar[list[Any]] = [
        ("y", "yes", "Yes"),
        ("escape,n", "close", "No"),
        ("left,right", "app.focus_next", "Other"),
    ]

    def __init__(self, title: str, sentence: str, yes: str, no: str, beside: str = "") -> None:
        super().__init__(title, "y  n" if yes else "Esc")
        self._sentence, self._beside = sentence, beside
        self._yes, self._no = yes, no

    def content(self) -> ComposeResult:
        yield Static(self._sentence, markup=False)
        with Horizontal():
            yield Static(self._beside, id="beside")
            yield Button(self._no, variant="default" if self._yes else "primary", compact=True)
            if self._yes:
                yield Button(self._yes, variant="primary", compact=True, id="yes")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(True if event.button.id == "yes" else None)

    def action_yes(self) -> None:
        self.dismiss(True if self._yes else None)


class Refusal(Question):
    """The screen behind it stays usable."""

    def __init__(
        self,
        title: str,
        error: Exception,
        button: str = "Choose another",
        reassurance: str = "Your file was not changed.",
    ) -> None:
        if isinstance(error, InputError | NotEnoughData):
            sentence = printable(error, None)
        elif is_short_of_memory(error):
            sentence = "There is not enough memory for this."
        else:
            what = f"{type(error).__name__}: {printable(error)}"
            sentence = f"Something unexpected happened ({what})."
        super().__init__(title, sentence, "", button, reassurance)


class ChooseScreen(Dialog):
    """Dismissed with what is `Chosen`, or None where nothing is to change."""

    BINDINGS: ClassVar[list[Any]] = [
        ("escape", "close", "Close"),
        Binding("enter", "evaluate", "Evaluate", priority=True),
    ]

    def __init__(self, import_summary: Inspection, rows: str, chosen: Chosen) -> None:
        super().__init__("Evaluate only", "Space chooses, Enter evaluates, Esc leaves all as it is")
        self._import_summary, self._rows, self._chosen = import_summary, rows, chosen

    def content(self) -> ComposeResult:
        yield SelectionList(
            *self._part("preset", self._import_summary.presets, self._chosen[0]),
            *self._part("deck", self._import_summary.decks, self._chosen[1]),
        )
        with Horizontal():
            yield Static("None chosen: all are evaluated.")
            yield Button("Evaluate", variant="primary", compact=True)

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
        self.action_evaluate()

    def action_evaluate(self) -> None:
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
        super().__init__("Families of models", "Space chooses, Esc closes")
        self._there, self._hidden = there, hidden

    def content(self) -> ComposeResult:
        yield SelectionList[str](
            *(
                Selection(
                    Text(f"{each.letter}  {each.meaning}"), family, family not in self._hidden
                )
                for family, each in words.FAMILIES.items()
                if family in self._there and family != "baseline"
            )
        )
        yield Static("The letters stand before the models' names. The baseline is always shown.")

    def action_close(self) -> None:
        shown = {*self.query_one(SelectionList).selected, "baseline"}
        hidden = (each for each in words.FAMILIES if each in self._there and each not in shown)
        self.dismiss((*(each for each in self._hidden if each not in self._there), *hidden))


_FORMS: Mapping[str, str] = {
    "html": "HTML, a page to read anywhere",
    "md": "Markdown, for a forum",
    "csv": "CSV, a file for each table, in a folder",
    "png": "PNG, a file for each picture, in a folder",
    "json": "JSON, for programs",
}
_REPORT = "srs-eval-report"


class ExportScreen(Dialog):
    """Dismissed with what is `Wanted`, or None; our own is overwritten at a second word only."""

    BINDINGS: ClassVar[list[Any]] = [
        ("escape", "close", "Close"),
        Binding("enter", "write", "Write", priority=True),
    ]

    def __init__(self, source: Path, basis: str) -> None:
        super().__init__("Export a report", "Tab goes on, Enter writes, Esc closes")
        self._source, self._basis = source, basis
        self._asked: Path | None = None  # whether it may be overwritten

    def content(self) -> ComposeResult:
        forms = (Option(meaning, id=form) for form, meaning in _FORMS.items())
        yield OptionList(*forms, compact=True)
        yield Input(str(Path.cwd() / f"{_REPORT}.html"), highlighter=Harmless(), compact=True)
        yield Checkbox("Number decks and presets, name no file", compact=True)
        yield Static(self._basis, markup=False)
        yield Static(id="said", markup=False)
        with Horizontal():
            yield Button("Write", variant="primary", compact=True, id="write")

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    @property
    def _form(self) -> str:
        chosen = self.query_one(OptionList).highlighted_option
        return "html" if chosen is None or chosen.id is None else chosen.id

    @on(OptionList.OptionHighlighted)
    def _chosen(self) -> None:
        """The path follows, unless its ending is one's own or it names nothing."""
        self._say("", "Write")  # what was asked was asked of another form
        entry = self.query_one(Input)
        path = Path(entry.value)
        if path.name.strip(".") and path.suffix.removeprefix(".") in ("", *_FORMS):
            entry.value = str(path.with_suffix("" if self._form in FOLDERS else f".{self._form}"))

    @on(Input.Changed)
    def _typed(self) -> None:
        self._say("", "Write")

    def _say(self, text: str, button: str) -> None:
        self.query_one("#said", Static).update(text)
        self.query_one("#write", Button).label = button
        self._asked = None

    @on(Button.Pressed)
    def action_write(self) -> None:
        text = self.query_one(Input).value.strip()
        path = Path(text).expanduser()
        folder = self._form in FOLDERS
        try:
            if not text:
                raise InputError("Name a file." if not folder else "Name a folder.")
            folders = [(self._form, path)] if folder else []
            check_outputs([] if folder else [path], folders, [self._source])
            taken = bool(with_ending(path, self._form)) if folder else path.exists()
        except (InputError, OSError, RuntimeError, ValueError) as error:  # no home folder, NUL
            self._say(printable(error, None), "Write")
            return
        if taken and self._asked != path:
            what = (
                f"The folder has {self._form.upper()} files" if folder else "There is such a file"
            )
            self._say(f"{what}: Overwrite replaces it, or name another.", "Overwrite")
            self._asked = path
            return
        self.dismiss(Wanted(self._form, path, self.query_one(Checkbox).value))
