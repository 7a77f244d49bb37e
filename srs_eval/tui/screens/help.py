"""Help: what the screen behind it shows, and its keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from srs_eval.tui.screens.actions import EVERYWHERE, Action
from srs_eval.tui.screens.base import Dialog
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
        everywhere = self.app.on_keys(EVERYWHERE)  # type: ignore[attr-defined]
        rows = [
            (Text(action.key_words, "bold"), Text(action.label), Text(action.help, "dim"))
            for action in (*self._actions, *everywhere)
        ]
        return WidthDependent(lambda width: in_columns([(Text(""),), *rows], width))
