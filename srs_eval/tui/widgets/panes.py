"""The five panes of the first screen as widgets, and how much room each one has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, RenderResult
from textual.binding import Binding
from textual.color import Color
from textual.content import Content
from textual.widget import Widget

from srs_eval.advice.sentences import Pane
from srs_eval.advice.shown import first_screen
from srs_eval.report.panes import drawn, left_out, without_frame

BELOW = 3  # lines under the panes, which keep their places while answers come
_NOTHING: Mapping[int, int] = {}
_NO_FRAME = 2  # lines of a pane that has none, at most
_ROOMY = 30  # lines from which all of what to do is shown
_BESIDE = (96, 23)  # columns and lines from which panes stand beside each other
_LEAST = {2: 6, 3: 6, 4: 5, 5: 5}  # lines of a pane in its frame
_MOST = {1: 5, 2: 14, 3: 11, 4: 9, 5: 9}
_ORDER = (2, 3, 5, 4)  # which pane gets its frame first
_USED = ("foreground", "surface", "success", "warning", "primary")  # colours of the theme


def heights(
    width: int, height: int, little: Mapping[int, int] = _NOTHING, act: int = 2
) -> tuple[bool, dict[int, int]]:
    """Whether panes stand side by side, and each one's lines; one or two of these have no frame.

    Where panes are stacked those with `little` to say get the lines that takes, if there are any
    to spare; what to do needs `act` lines.
    """
    left = height - BELOW
    first = 2 + min(max(act, 2), 3 if height < _ROOMY else 6)
    if width >= _BESIDE[0] and height >= _BESIDE[1]:
        lower = min((9 * (left - first)) // 20, 13)
        upper = left - first - lower
        return True, {1: first, 2: upper, 3: upper, 4: lower, 5: lower}
    found = {1: first, **dict.fromkeys(_ORDER, 1)}
    left -= sum(found.values())
    for number in (each for each in _ORDER if each not in little):
        if left < _LEAST[number] - 1:
            break
        left -= _LEAST[number] - found[number]
        found[number] = _LEAST[number]
    for number in (each for each in little if found[each] == 1 and left > 0):
        found[number] = min(little[number], 2)
        left -= found[number] - 1
    while left > 0:
        framed = [n for n in (3, 2, 5, 4, 1) if _NO_FRAME < found[n] < _MOST[n]]
        for number in framed[:left]:
            found[number] += 1
        left -= len(framed) or left
    return False, found


def paint(app: App[Any]) -> Mapping[str, str]:
    """Rich's styles by level in the theme's colours: green only for good, yellow for "look"."""
    colours = {name: Color.parse(app.theme_variables[name]) for name in _USED}
    grey = colours["foreground"].blend(colours["surface"], 0.45).hex6
    return {
        "": "",
        "fine": colours["success"].hex6,
        "look": colours["warning"].hex6,
        "not yet": grey,
        "bar": colours["primary"].hex6,
        "faint": grey,
    }


class PaneBox(Widget, can_focus=True):
    """A question and its answer in a frame, or both in one line."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("down,right", "cursor_down", "Next", show=False),
        Binding("up,left", "cursor_up", "Previous", show=False),
    ]

    def __init__(self, number: int) -> None:
        super().__init__(id=f"pane-{number}")
        self.number = number
        self.pane = Pane(
            first_screen.TITLES[number - 1], first_screen.WAITING, (first_screen.WAITING,), ()
        )

    def show(self, pane: Pane) -> None:
        self.pane = pane
        self._entitle()
        self.refresh()

    def little(self, width: int) -> int:
        """The lines that it takes without a frame, if a sentence is all that it has to say."""
        if not self.pane.items == (self.pane.short,) != (first_screen.WAITING,):
            return 0
        return len(without_frame(self.number, self.pane, width - 2, _NO_FRAME))

    def give(self, lines: int) -> None:
        """So many lines of the screen."""
        self.styles.height = lines
        self.set_class(lines <= _NO_FRAME, "-line")
        self._entitle()

    def _entitle(self) -> None:
        self.border_title = f"{self.number} {self.pane.title}"
        more = 0 if self.has_class("-line") else left_out(self.pane, *self.size)
        self.border_subtitle = f"{more} more: Enter" if more and self.size.height else ""

    def on_resize(self) -> None:
        self._entitle()

    def render(self) -> RenderResult:
        width, height = self.size
        colours = paint(self.app)
        if self.has_class("-line"):
            lines = without_frame(self.number, self.pane, width, height, colours)
        else:
            lines = drawn(self.pane, width, height, colours)
        return Content.from_rich_text(Text("\n").join(lines))

    async def on_click(self) -> None:
        await self.run_action(f"screen.pane({self.number})")

    def action_cursor_down(self) -> None:
        self.screen.focus_next(PaneBox)

    def action_cursor_up(self) -> None:
        self.screen.focus_previous(PaneBox)
