"""Jump mode: every part of the screen that one may want to go to gets a letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.geometry import Offset
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Label

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
