"""Where a report on the open file goes, and in which form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Checkbox, Input, RadioButton, RadioSet, Static

from srs_eval.data.errors import InputError
from srs_eval.data.outputs import check_outputs, with_ending
from srs_eval.data.printable import printable
from srs_eval.report.files import FOLDERS
from srs_eval.tui.screens.base import Dialog, Harmless
from srs_eval.tui.session import Wanted

_FORMS: Mapping[str, str] = {
    "html": "HTML, a page to read anywhere",
    "md": "Markdown, for a forum",
    "csv": "CSV, a file for each table, in a folder",
    "png": "PNG, a file for each picture, in a folder",
    "json": "JSON, for programs",
}
NAME = "srs-eval-report"


class _Form(RadioButton):
    """Told apart without colour: only the chosen one has a mark."""

    def render(self) -> Any:
        self.BUTTON_INNER = "●" if self.value else " "
        return super().render()


class _Forms(RadioSet):
    """Arrows choose, so that Enter writes what is marked."""

    BINDINGS: ClassVar[list[Any]] = [("enter", "screen.write", "Write")]

    def action_next_button(self) -> None:
        super().action_next_button()
        self.action_toggle_button()

    def action_previous_button(self) -> None:
        super().action_previous_button()
        self.action_toggle_button()


class _Tick(Checkbox):
    """Told apart without colour, too; Space ticks, as Enter writes."""

    BINDINGS: ClassVar[list[Any]] = [("enter", "screen.write", "Write")]

    def render(self) -> Any:
        self.BUTTON_INNER = "X" if self.value else " "
        return super().render()


class ExportScreen(Dialog):
    """Dismissed with what is `Wanted`, or None; our own is overwritten at a second word only."""

    BINDINGS: ClassVar[list[Any]] = [("escape", "close", "Close")]

    def __init__(self, source: Path | None, basis: Callable[[], str]) -> None:
        super().__init__()
        self._source, self._basis = source, basis
        self._asked: Path | None = None  # whether it may be overwritten

    def content(self) -> ComposeResult:
        box = Vertical(classes="box")
        box.border_title = "Export a report"
        box.border_subtitle = "Tab goes on, Enter writes, Esc closes"
        with box:
            with _Forms(compact=True):
                for form, meaning in _FORMS.items():
                    yield _Form(meaning, form == "html", id=form, compact=True)
            yield Input(self._default("html"), highlighter=Harmless(), compact=True)
            yield _Tick("Number decks and presets, name no file", compact=True)
            yield Static(self._basis(), id="basis", markup=False)
            yield Static(id="said", markup=False)
            with Horizontal():
                yield Button("Back", compact=True, id="back")
                yield Button("Write", variant="primary", compact=True, id="write")

    def on_mount(self) -> None:
        self.query_one(RadioSet).focus()
        self.set_interval(0.5, self._look)

    def _look(self) -> None:
        """Models go on finishing behind this."""
        self.query_one("#basis", Static).update(self._basis())

    @staticmethod
    def _default(form: str) -> str:
        return str(Path.cwd() / (NAME if form in FOLDERS else f"{NAME}.{form}"))

    @property
    def _form(self) -> str:
        chosen = self.query_one(RadioSet).pressed_button
        return "html" if chosen is None or chosen.id is None else chosen.id

    @on(RadioSet.Changed)
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

    @on(Input.Submitted)
    @on(Button.Pressed, "#write")
    def action_write(self) -> None:
        text = self.query_one(Input).value.strip()
        path = Path(text).expanduser()
        folder = self._form in FOLDERS
        try:
            if not text:
                raise InputError("Name a file." if not folder else "Name a folder.")
            read = [] if self._source is None else [self._source]
            if folder:
                check_outputs([], [(self._form, path)], read)
                taken = bool(with_ending(path, self._form))
            else:
                check_outputs([path], read=read)
                taken = path.exists()
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

    @on(Button.Pressed, "#back")
    def _back(self) -> None:
        self.dismiss(None)
