"""Jump mode: every part of the screen that can have the focus gets a letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
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

    def __init__(self, targets: Sequence[Widget]) -> None:
        super().__init__()
        self._targets = dict(zip(_LETTERS, targets, strict=False))

    def compose(self) -> ComposeResult:
        for letter, widget in self._targets.items():
            label = Label(letter)
            label.styles.offset = (widget.region.x, widget.region.y)
            yield label

    def on_key(self, event: events.Key) -> None:
        if event.key in self._targets:
            event.stop()
            self.dismiss(self._targets[event.key])
