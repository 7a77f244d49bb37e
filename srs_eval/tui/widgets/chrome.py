"""The frame around every screen's content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textual.app import ComposeResult, RenderResult
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static
from textual.widgets._footer import FooterKey

from srs_eval.report import formats as words

MINIMUM = (60, 16)


class ProtocolLine(Widget):
    """The top line: which file is open, and under which protocol."""

    DEFAULT_CSS = """
    ProtocolLine {
        dock: top;
        height: 1;
        padding: 0 1;
        background: $panel;
        color: $foreground;
    }
    """
    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._file = ""
        self._facts: tuple[str, ...] = ()
        self._busy = ""

    def busy(self, text: str) -> None:
        """What is at work behind the screen; "" for nothing."""
        if text != self._busy:
            self._busy = text
            self.refresh()

    def show(self, file: str, *facts: str) -> None:
        """Show the file's name and `facts`, of which fewer are shown in a narrow window."""
        self._file, self._facts = file, facts
        self.refresh()

    def render(self) -> RenderResult:
        width = self.size.width
        facts = [*self._facts, *([self._busy] if self._busy else [])]
        gap = "  ·  "
        while True:
            rest = sum(len(gap) + len(fact) for fact in facts)
            room = width - len("srs-eval") - rest - (len(gap) if self._file else 0)
            if room >= min(len(self._file), 16) or not facts:
                break
            if len(gap) > 3:
                gap = " · "
            elif ": " in facts[-1]:
                facts[-1] = facts[-1].partition(": ")[2]
            else:  # the first, how many reviews, stays as long as another can go
                facts.pop(1 if len(facts) > 2 else 0)
        parts: list[tuple[str, str]] = [("srs-eval", "bold $primary")]
        if self._file:
            file = words.shortened(self._file, max(room, 3))
            parts += [(gap, "$text-muted"), (file, "bold")]
        for fact in facts:
            parts += [(gap, "$text-muted"), (fact, "")]
        return Content.assemble(*parts)


_STAY = ("cancel", "again", "back", "help", "quit")  # in the footer of however narrow a window


class Keys(Footer):
    """The keys that do something here, there with the screen that they are of.

    Textual's footer stays blank till the screen is drawn and quiet: seconds on a busy machine;
    and it cuts what there is no room for, where this one leaves out whole keys.
    """

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self.set_reactive(Footer._bindings_ready, True)
        self._shown: list[tuple[str, str, bool]] = []

    def _to_show(self) -> list[tuple[str, str, bool]]:
        """Keys, their words, and whether they do something now, as many as there is room for."""
        shown: dict[str, tuple[str, str, bool]] = {}
        for each in self.screen.active_bindings.values():
            if each.binding.show:  # of an action's keys the first
                key = self.app.get_key_display(each.binding)
                shown.setdefault(each.binding.action, (key, each.binding.description, each.enabled))
        may_go = [name for name in shown if name.rpartition(".")[2] not in _STAY]
        while may_go and _width(shown.values()) > self.app.size.width:
            del shown[may_go.pop()]
        return list(shown.values())

    def compose(self) -> ComposeResult:
        self._shown = self._to_show()
        fitting = {(key, description) for key, description, _ in self._shown}
        for key in super().compose():
            if not isinstance(key, FooterKey) or (key.key_display, key.description) in fitting:
                yield key

    def on_resize(self) -> None:
        if self._to_show() != self._shown:
            self.call_after_refresh(self.recompose)

    def bindings_changed(self, screen: Screen[Any]) -> None:
        """Compose anew only where that shows something else."""
        if screen is self.screen and self._to_show() != self._shown:
            super().bindings_changed(screen)


def _width(keys: Iterable[tuple[str, str, bool]]) -> int:
    """Columns of the footer that these take, with a blank between two."""
    return sum(len(key) + 1 + len(description) + 1 for key, description, _ in keys) - 1


class TooSmall(Static):
    """Shown instead of everything else in a window that is too small to work in."""

    DEFAULT_CSS = """
    TooSmall {
        display: none;
        width: 1fr;
        height: 1fr;
        content-align: center middle;
        text-align: center;
    }
    """

    def __init__(self) -> None:
        super().__init__(
            f"Please make the window larger:\n{MINIMUM[0]} columns and {MINIMUM[1]} lines"
            " at least.\n(q leaves)"
        )
