"""A question with two answers, of which Esc takes the harmless one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from srs_eval.tui.screens.base import Dialog

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
