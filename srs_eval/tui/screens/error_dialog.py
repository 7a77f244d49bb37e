"""The dialog that says, in one sentence, what is wrong with a file and what to do."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from srs_eval.tui.screens.base import Dialog


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
