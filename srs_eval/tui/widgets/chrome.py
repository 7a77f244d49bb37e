"""The frame around every screen's content."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from textual.app import RenderResult
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from srs_eval.report import formats as words

MINIMUM = (60, 16)
_STAY = ("cancel", "again", "back", "help", "quit")  # in the last line of however narrow a window


class ProtocolLine(Widget):
    """The top line: which file is open, and under which protocol."""

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
            rest = sum(len(gap) + cell_len(fact) for fact in facts)
            room = width - len("srs-eval") - rest - (len(gap) if self._file else 0)
            if room >= min(cell_len(self._file), 16) or not facts:
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


class TooSmall(Static):
    """Shown instead of everything else in a window that is too small to work in."""

    def __init__(self) -> None:
        super().__init__(
            f"Please make the window larger:\n{MINIMUM[0]} columns and {MINIMUM[1]} lines"
            " at least.\n(q leaves)"
        )


class Keys(Widget):
    """The last line: keys that do something here, as many as there is room for; a click does it.

    Textual's footer stays blank till the screen is drawn and quiet, seconds on a busy machine, and
    cuts keys in two.
    """

    ALLOW_SELECT = False
    auto_links = False

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, screen: Screen[Any]) -> None:
        self.refresh()

    def render(self) -> RenderResult:
        shown: dict[str, Content] = {}
        typed = getattr(self.screen, "takes_letters", False)
        for each in self.screen.active_bindings.values():
            binding, action = each.binding, each.binding.action
            unsaid = len(binding.key) == 1 if typed else binding.key == "ctrl+q"
            if binding.show and action not in shown and not unsaid:  # of its keys the first
                at = action if "." in action else f"screen.{action}"
                style = "" if each.enabled else "dim"
                shown[action] = Content.assemble(
                    (self.app.get_key_display(binding), f"bold $footer-key-foreground {style}"),
                    (f" {binding.description}", f"$footer-description-foreground {style}"),
                ).stylize(Style.from_meta({"@click": at}))
        may_go = [name for name in shown if name.rpartition(".")[2] not in _STAY]
        while may_go and sum(key.cell_length + 1 for key in shown.values()) > self.size.width + 1:
            del shown[may_go.pop()]
        return Content(" ").join(shown.values())
