"""Boxes over a screen: help, questions, errors, choices and the export of a report."""

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

from srs_eval.data.errors import InputError, NotEnoughData, format_count, printable
from srs_eval.data.memory import is_memory_error
from srs_eval.data.outputs import check_outputs, list_files_with_extension
from srs_eval.data.reviews import MISSING
from srs_eval.report import formats
from srs_eval.report.files import FOLDER_FORMS
from srs_eval.report.inspection import DeckReport, GroupCounts, Inspection, PresetReport
from srs_eval.tui.config import GLOBAL_ACTIONS, Action
from srs_eval.tui.screens.base import Dialog, HarmlessHighlighter
from srs_eval.tui.session import ChosenIds, ExportRequest
from srs_eval.tui.widgets.facts import WidthDependent, align_columns


def _read_help(screen: str) -> str:
    """Return what help.md says about a screen, one line for each paragraph."""
    text = (Path(__file__).parents[1] / "help.md").read_text("utf-8")
    _, _, text_from_section = f"\n{text}".partition(f"\n# {screen}\n")
    section, _, _ = text_from_section.partition("\n# ")
    paragraphs = section.strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class HelpScreen(Dialog):
    """Help on a screen and its keys, which Esc, ?, F1 and Enter close."""

    box = VerticalScroll
    BINDINGS: ClassVar[list[Any]] = [("escape,question_mark,f1,enter", "close", "Close")]

    def __init__(self, screen: str, actions: Sequence[Action]) -> None:
        super().__init__("Help", "Esc closes")
        self._screen = screen
        self._actions = actions

    def content(self) -> ComposeResult:
        yield Static(Text(_read_help(self._screen)))
        empty_row: Sequence[Text] = [Text("")]
        rows = [empty_row]
        for action in self.session.config.with_keys((*self._actions, *GLOBAL_ACTIONS)):
            rows.append(
                [Text(action.key_label, "bold"), Text(action.label), Text(action.help, "dim")]
            )
        yield Static(WidthDependent(lambda width: align_columns(rows, width)))


class ConfirmDialog(Dialog):
    """A question, dismissed with True for `yes`, else None; `note` is beside the buttons.

    `yes` and `no` are the texts of the buttons; without `yes` there is only one button.
    """

    BINDINGS: ClassVar[list[Any]] = [
        ("y", "yes", "Yes"),
        ("escape,n", "close", "No"),
        ("left,right", "app.focus_next", "Other"),
    ]

    def __init__(self, title: str, sentence: str, yes: str, no: str, note: str = "") -> None:
        super().__init__(title, "y  n" if yes else "Esc")
        self._sentence = sentence
        self._note = note
        self._yes = yes
        self._no = no

    def content(self) -> ComposeResult:
        yield Static(self._sentence, markup=False)
        with Horizontal():
            yield Static(self._note, id="beside")
            yield Button(self._no, variant="default" if self._yes else "primary", compact=True)
            if self._yes:
                yield Button(self._yes, variant="primary", compact=True, id="yes")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(True if event.button.id == "yes" else None)

    def action_yes(self) -> None:
        self.dismiss(True if self._yes else None)


class ErrorDialog(ConfirmDialog):
    """An error message; the screen behind it stays usable."""

    def __init__(self, title: str, error: Exception, button: str, reassurance: str) -> None:
        if isinstance(error, InputError | NotEnoughData):
            sentence = printable(error, None)
        elif is_memory_error(error):
            sentence = "There is not enough memory for this."
        else:
            description = f"{type(error).__name__}: {printable(error)}"
            sentence = f"Something unexpected happened ({description})."
        super().__init__(title, sentence, yes="", no=button, note=reassurance)


class ChooseScreen(Dialog):
    """A choice of presets and decks, dismissed with `ChosenIds`, or with None for no change."""

    BINDINGS: ClassVar[list[Any]] = [
        ("escape", "close", "Close"),
        Binding("enter", "evaluate", "Evaluate", priority=True),
    ]

    def __init__(self, import_summary: Inspection, rows: str, chosen: ChosenIds) -> None:
        super().__init__("Evaluate only", "Space selects, Enter evaluates, Esc changes nothing")
        self._import_summary = import_summary
        self._rows = rows
        self._chosen = chosen

    def content(self) -> ComposeResult:
        preset_ids, deck_ids = self._chosen
        selections = self._make_selections("preset", self._import_summary.presets, preset_ids)
        selections += self._make_selections("deck", self._import_summary.decks, deck_ids)
        yield SelectionList(*selections)
        with Horizontal():
            yield Static("If none is selected, all are evaluated.")
            yield Button("Evaluate", variant="primary", compact=True)

    def _make_selections(
        self,
        kind: str,
        reports: Collection[PresetReport | DeckReport],
        chosen_ids: Collection[str],
    ) -> list[Selection[str]]:
        """Return a line for each preset or deck that has reviews; `kind` is "preset" or "deck"."""
        selections = []
        for report in reports:
            review_count = _count_reviews(report.counts, self._rows)
            if report.id == MISSING or not review_count:
                continue
            label = Text.assemble(
                (f"{kind:<7}", "dim"),
                formats.shorten_middle(report.name or str(report.id), 40),
                (f"  {format_count(review_count, 'review')}", "dim"),
            )
            is_chosen = str(report.id) in chosen_ids
            selections.append(Selection(label, f"{kind} {report.id}", is_chosen))
        return selections

    def on_button_pressed(self) -> None:
        self.action_evaluate()

    def action_evaluate(self) -> None:
        ids: dict[str, list[str]] = {"preset": [], "deck": []}
        for key in self.query_one(SelectionList).selected:
            kind, _, report_id = key.partition(" ")
            ids[kind].append(report_id)
        self.dismiss((tuple(ids["preset"]), tuple(ids["deck"])))


def _count_reviews(counts: GroupCounts, rows: str) -> int:
    return counts.anki_rows if rows == "anki" else counts.benchmark_rows


class FamiliesScreen(Dialog):
    """A choice of model families, dismissed with the families to hide."""

    BINDINGS: ClassVar[list[Any]] = [("escape,enter,f", "close", "Close")]

    def __init__(self, families: Collection[str], hidden: tuple[str, ...]) -> None:
        super().__init__("Families of models", "Space selects, Esc closes")
        self._families = families
        self._hidden = hidden

    def content(self) -> ComposeResult:
        selections = []
        for name, family in formats.FAMILIES.items():
            if name in self._families and name != "baseline":
                label = Text(f"{family.letter}  {family.meaning}")
                selections.append(Selection(label, name, name not in self._hidden))
        yield SelectionList[str](*selections)
        yield Static(
            "These letters appear before the names of models. The baseline is always shown."
        )

    def action_close(self) -> None:
        shown_families = {*self.query_one(SelectionList).selected, "baseline"}
        # Families that do not occur in this run stay hidden if they were.
        hidden = [family for family in self._hidden if family not in self._families]
        for family in formats.FAMILIES:
            if family in self._families and family not in shown_families:
                hidden.append(family)
        self.dismiss(tuple(hidden))


_FORM_LABELS: Mapping[str, str] = {
    "html": "HTML, a page to read anywhere",
    "md": "Markdown, for a forum",
    "csv": "CSV, a file for each table, in a folder",
    "png": "PNG, a file for each picture, in a folder",
    "json": "JSON, for programs",
}
_REPORT_NAME = "srs-eval-report"


class ExportScreen(Dialog):
    """The export of a report, dismissed with an `ExportRequest`, or None.

    A file that srs-eval wrote is overwritten only after confirmation, any other file never.
    """

    BINDINGS: ClassVar[list[Any]] = [
        ("escape", "close", "Close"),
        Binding("enter", "write", "Write", priority=True),
    ]

    def __init__(self, source: Path, basis: str) -> None:
        super().__init__("Export a report", "Tab moves on, Enter writes, Esc closes")
        self._source = source
        self._basis = basis
        self._path_to_confirm: Path | None = None  # overwritten if the user presses Enter again

    def content(self) -> ComposeResult:
        options = [Option(label, id=form) for form, label in _FORM_LABELS.items()]
        yield OptionList(*options, compact=True)
        yield Static("Write the report to this file or folder:")
        yield Input(
            str(Path.cwd() / f"{_REPORT_NAME}.html"),
            highlighter=HarmlessHighlighter(),
            compact=True,
        )
        yield Checkbox("Hide the names of decks, presets and the file", compact=True)
        yield Static(self._basis, markup=False)
        yield Static(id="said", markup=False)
        with Horizontal():
            yield Button("Write", variant="primary", compact=True, id="write")

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    @property
    def _selected_form(self) -> str:
        option = self.query_one(OptionList).highlighted_option
        return "html" if option is None or option.id is None else option.id

    @on(OptionList.OptionHighlighted)
    def _follow_form(self) -> None:
        """Give the path the form's ending, unless it has an unknown ending or no name."""
        self._show_message("", "Write")  # what it asked was about another form
        entry = self.query_one(Input)
        path = Path(entry.value)
        if path.name.strip(".") and path.suffix.removeprefix(".") in ("", *_FORM_LABELS):
            suffix = "" if self._selected_form in FOLDER_FORMS else f".{self._selected_form}"
            entry.value = str(path.with_suffix(suffix))

    @on(Input.Changed)
    def _clear_message(self) -> None:
        self._show_message("", "Write")

    def _show_message(self, text: str, button: str) -> None:
        """Show a message and the button's text; nothing waits for confirmation any more."""
        self.query_one("#said", Static).update(text)
        self.query_one("#write", Button).label = button
        self._path_to_confirm = None

    @on(Button.Pressed)
    def action_write(self) -> None:
        form = self._selected_form
        is_folder = form in FOLDER_FORMS
        text = self.query_one(Input).value.strip()
        path = Path(text).expanduser()
        try:
            if is_folder:
                if not text:
                    raise InputError("Name a folder.")
                check_outputs([], [(form, path)], [self._source])
                is_taken = bool(list_files_with_extension(path, form))
            else:
                if not text:
                    raise InputError("Name a file.")
                check_outputs([path], [], [self._source])
                is_taken = path.exists()
        # RuntimeError: ~ without a home folder; ValueError: a null character.
        except (InputError, OSError, RuntimeError, ValueError) as error:
            self._show_message(printable(error, None), "Write")
            return
        if is_taken and self._path_to_confirm != path:
            reason = "This file exists already: overwrite it"
            if is_folder:
                reason = f"This folder already has {form.upper()} files: overwrite them"
            self._show_message(f"{reason}, or choose another name.", "Overwrite")
            self._path_to_confirm = path
            return
        self.dismiss(ExportRequest(form, path, self.query_one(Checkbox).value))
