"""Draw the five panes of the first screen, and decide how much room each one has."""

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
from srs_eval.data.errors import format_count
from srs_eval.report.panes import count_hidden_items, render_pane, render_unframed

NOTE_LINES = 3  # most lines below the panes, for notes and progress
_NO_SHORT_PANES: Mapping[int, int] = {}
_MAX_UNFRAMED_LINES = 2  # lines of a pane without a frame, at most
_ROOMY_HEIGHT = 30  # lines of the screen from which the first pane is shown in full
_MIN_LOWER_LINES = 5
_SIDE_BY_SIDE_SIZE = (96, 23)  # columns and lines from which panes stand side by side
_MIN_FRAMED_HEIGHTS = {2: 6, 3: 6, 4: 5, 5: 5}  # fewest lines of a pane in its frame
_MAX_HEIGHTS = {1: 5, 2: 14, 3: 11, 4: 9, 5: 9}
_FRAME_ORDER = (2, 3, 5, 4)  # the order in which panes get their frames
_GROWTH_ORDER = (3, 2, 5, 4, 1)  # the order in which framed panes get one more line
_THEME_COLOURS = ("foreground", "surface", "success", "warning", "primary")  # colours of the theme


def compute_heights(
    width: int,
    height: int,
    short_panes: Mapping[int, int] = _NO_SHORT_PANES,
    action_lines: int = 2,
    lower_lines: int = 11,
    note_lines: int = NOTE_LINES,
) -> tuple[bool, dict[int, int]]:
    """Return whether panes stand side by side, and the height of each pane by its number.

    A pane of one or two lines has no frame. `action_lines` is what the first pane (What to do)
    needs inside its frame. Where panes are stacked, a pane of `short_panes` never has a frame; it
    gets the lines that it needs without one (the mapping's values) if there are any to spare. Of
    panes side by side, the lower row gets its `lower_lines` and a frame at most, whatever the
    number of `note_lines` below the panes; the upper row gets the rest.
    """
    lines_left = height - note_lines
    max_action_lines = 3 if height < _ROOMY_HEIGHT else 6
    first_height = 2 + min(max(action_lines, 2), max_action_lines)  # 2: the frame
    min_width, min_height = _SIDE_BY_SIDE_SIZE
    if width >= min_width and height >= min_height:
        # The lower row has less to say: it gets 45 %, and at most 13 lines.
        lower_height = min((9 * (height - NOTE_LINES - first_height)) // 20, 13)
        lower_height = min(lower_height, max(lower_lines, _MIN_LOWER_LINES) + 2)
        upper_height = lines_left - first_height - lower_height
        return True, {
            1: first_height,
            2: upper_height,
            3: upper_height,
            4: lower_height,
            5: lower_height,
        }
    heights = {1: first_height, **dict.fromkeys(_FRAME_ORDER, 1)}
    lines_left -= sum(heights.values())
    for number in _FRAME_ORDER:
        if number in short_panes:
            continue
        added_lines = _MIN_FRAMED_HEIGHTS[number] - heights[number]
        if lines_left < added_lines:
            break
        lines_left -= added_lines
        heights[number] = _MIN_FRAMED_HEIGHTS[number]
    for number, needed_lines in short_panes.items():
        if heights[number] == 1 and lines_left > 0:
            heights[number] = min(needed_lines, _MAX_UNFRAMED_LINES)
            lines_left -= heights[number] - 1
    while lines_left > 0:
        growing_panes = [
            number
            for number in _GROWTH_ORDER
            if _MAX_UNFRAMED_LINES < heights[number] < _MAX_HEIGHTS[number]
        ]
        if not growing_panes:
            break
        for number in growing_panes[:lines_left]:
            heights[number] += 1
        lines_left -= len(growing_panes)
    return False, heights


def theme_styles(app: App[Any]) -> Mapping[str, str]:
    """Return the styles of `report.panes.PLAIN_STYLES` in the theme's colours."""
    colours = {name: Color.parse(app.theme_variables[name]) for name in _THEME_COLOURS}
    grey = colours["foreground"].blend(colours["surface"], 0.45).hex6
    return {
        "": "",
        "fine": colours["success"].hex6,
        # Without colours a warning would look dimmer than the other lines.
        "look": f"bold {colours['warning'].hex6}" if app.no_color else colours["warning"].hex6,
        "not yet": grey,
        "bar": colours["primary"].hex6,
        "faint": grey,
    }


class PaneBox(Widget, can_focus=True):
    """A question and its answer in a frame, or without one in one or two lines."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("down,right", "cursor_down", "Next", show=False),
        Binding("up,left", "cursor_up", "Previous", show=False),
    ]

    def __init__(self, number: int) -> None:
        super().__init__(id=f"pane-{number}")
        self.number = number
        self.hint = ""  # about a key, in the lower edge of the frame
        self.pane = Pane(
            first_screen.TITLES[number - 1], first_screen.WAITING, (first_screen.WAITING,), ()
        )

    def on_mount(self) -> None:
        self.set_class(self.app.no_color, "-no-colour")

    def show(self, pane: Pane, hint: str = "") -> None:
        self.pane = pane
        self.hint = hint
        self._update_titles()
        self.refresh()

    def unframed_lines(self, width: int) -> int:
        """Return how many lines the pane needs without a frame.

        Return 0 if it has no answer yet, or more to say than one sentence.
        """
        is_one_sentence = self.pane.items == (self.pane.summary,)
        if not is_one_sentence or self.pane.summary == first_screen.WAITING:
            return 0
        return len(render_unframed(self.number, self.pane, width - 2, _MAX_UNFRAMED_LINES))

    def set_lines(self, lines: int) -> None:
        """Set the height of the pane; with too few lines it has no frame."""
        self.styles.height = lines
        self.set_class(lines <= _MAX_UNFRAMED_LINES, "-line")
        self._update_titles()

    def _update_titles(self) -> None:
        self.border_title = f"{self.number} {self.pane.title}"
        hidden_count = 0
        if not self.has_class("-line"):
            hidden_count = count_hidden_items(self.pane, *self.size)
        subtitles = []
        if hidden_count and self.size.height:
            subtitles.append(f"{format_count(hidden_count, 'more line')}: press {self.number}")
        if self.hint:
            subtitles.append(self.hint)
        self.border_subtitle = " · ".join(subtitles)

    def on_resize(self) -> None:
        self._update_titles()

    def render(self) -> RenderResult:
        width, height = self.size
        colours = theme_styles(self.app)
        if self.has_class("-line"):
            lines = render_unframed(self.number, self.pane, width, height, colours)
        else:
            lines = render_pane(self.pane, width, height, colours)
        return Content.from_rich_text(Text("\n").join(lines))

    async def on_click(self) -> None:
        await self.run_action(f"screen.pane({self.number})")

    def action_cursor_down(self) -> None:
        self.screen.focus_next(PaneBox)

    def action_cursor_up(self) -> None:
        self.screen.focus_previous(PaneBox)

    def action_first(self) -> None:
        self.screen.query(PaneBox).first().focus()

    def action_last(self) -> None:
        self.screen.query(PaneBox).last().focus()
