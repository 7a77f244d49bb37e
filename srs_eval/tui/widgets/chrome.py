"""The frame around every screen's content."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

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
