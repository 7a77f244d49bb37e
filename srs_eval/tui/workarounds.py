"""What Textual 8.2 does otherwise than a person would want, and what is done about it.

Private members of Textual are used here, for the reasons that are given, so that pyproject.toml
asks for 8.2. What is reported is so upstream.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from textual import command, events
from textual._styles_cache import StylesCache
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.driver import Driver
from textual.errors import NoWidget
from textual.geometry import Offset
from textual.message_pump import MessagePump
from textual.widget import Widget
from textual.widgets import OptionList


class Forgetful:
    """A screen that takes all its lines along when it goes.

    Textual remembers colours with the widget that they were asked for, the last 1,024 of them,
    and so all lines that these have drawn: hundreds of MB after some hundred keys.
    https://github.com/Textualize/textual/issues/6665
    """

    def on_unmount(self) -> None:
        StylesCache.get_inner_outer.cache_clear()


class ClosedOnce:
    """A screen that a burst of clicks or keys closes once.

    `dismiss` takes whatever screen is on top off the stack: a second one, from an event that was
    on its way already, closed the screen below, or raised ScreenStackError. Not yet reported.
    """

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Close this screen with a result; do nothing where it is not, or no longer, on top."""
        stack = self.app.screen_stack  # type: ignore[attr-defined]
        if len(stack) < 2 or stack[-1] is not self:
            return AwaitComplete.nothing()
        closing: AwaitComplete = super().dismiss(result)  # type: ignore[misc]
        return closing


class SelectsWhatIsThere:
    """A screen on which the mouse selects no text of a widget that has gone.

    A widget that is removed (a toast whose time is over) stays where the mouse finds it until the
    screen is laid out anew. Textual asks such a widget's parent for its place, and there is none:
    AttributeError. Not yet reported.
    """

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Return the widget at a place, and the place in its text; None for what has gone."""
        found: tuple[Widget | None, Offset | None]
        found = super().get_widget_and_offset_at(x, y)  # type: ignore[misc]
        widget = found[0]
        if widget is not None and not widget.is_attached:
            return None, None
        return found


class CommandPalette(ClosedOnce, SelectsWhatIsThere, command.CommandPalette):
    """Textual's palette, which two clicks beside it would close twice."""


_move_page = OptionList._move_page


def _move_page_of_lines(option_list: OptionList, direction: Literal[-1, 1]) -> None:
    """Move the cursor of a list by a page, if its lines are laid out.

    A list that is not drawn (not yet, or hidden: that of the palette without a match) knows no
    lines: KeyError. Not yet reported. This takes the place of Textual's for all lists, for the
    palette and choices make lists of their own.
    """
    if (option_list.highlighted or 0) in option_list._index_to_line:
        _move_page(option_list, direction)


OptionList._move_page = _move_page_of_lines  # type: ignore[method-assign, assignment]

_LONGEST_S = 5.0  # an event that is not through by then keeps the next ones waiting no longer
_LEAD_NOWHERE = (events.MouseMove, events.MouseScrollDown, events.MouseScrollUp)


class InputInOrder:
    """The keys and clicks that are on their way through an app.

    Textual forwards them to the screen on top at once, even where a key or a click before them is
    about to open or close a screen; they would reach the screen that the person has left, or
    nobody. Here the next one is forwarded when all that the one before leads to is there.
    `forward` is what the app does with an event otherwise. Not yet reported.
    """

    def __init__(
        self,
        app: App[int],
        forward: Callable[[events.Event], Awaitable[None]],
        monotonic: Callable[[], float],
    ) -> None:
        self._app, self._forward, self._monotonic = app, forward, monotonic
        self.waiting: deque[events.Event] = deque()  # the first one is being handled
        self.since = 0.0  # when that began

    async def take(self, event: events.Event) -> None:
        """Forward an event, a key or a click when its turn comes; Ctrl+C does not wait."""
        waits = isinstance(event, events.Key | events.Paste | events.MouseEvent)
        if isinstance(event, events.Key) and event.key == "ctrl+c":
            waits = False
        if not waits or event.is_forwarded:
            await self._forward(event)
            return
        if self.waiting and self._monotonic() - self.since > _LONGEST_S:
            self.waiting.clear()  # whatever became of it, keyboard and mouse must not stay dead
        self.waiting.append(event)
        if len(self.waiting) == 1:
            await self._forward_oldest()

    async def _forward_oldest(self) -> None:
        """The next one follows when all that the oldest leads to is there."""
        while self.waiting:
            event = self.waiting[0]
            way = self._way(event)
            leads_nowhere = self._leads_nowhere(event)
            self.since = self._monotonic()
            await self._forward(event)
            if not leads_nowhere:
                await self._follow(event, way, again=True)
                return
            self.waiting.popleft()

    def _leads_nowhere(self, event: events.Event) -> bool:
        """Whether no screen opens or closes: the next event need not wait until all is drawn."""
        if not isinstance(event, events.Key):
            return isinstance(event, _LEAD_NOWHERE)
        found = self._app.screen.active_bindings.get(event.key)
        action = "" if found is None else found.binding.action.rpartition(".")[2]
        return action.startswith(("cursor_", "line(", "page_", "scroll_"))

    def _way(self, event: events.Event) -> Sequence[MessagePump]:
        """Whose queues an event goes through; the last is the app, which acts on it."""
        first = self._app.focused or self._app.screen
        if isinstance(event, events.MouseEvent):
            with contextlib.suppress(NoWidget):
                first = self._app.mouse_captured or self._app.get_widget_at(event.x, event.y)[0]
        return first.ancestors_with_self

    async def _follow(self, event: events.Event, way: Sequence[MessagePump], again: bool) -> None:
        """Come behind an event wherever it comes, `again` behind what the app has done upon it.

        That may be a screen that opens, a message of what has the focus, or another focus.
        """
        for place, pump in enumerate(way, start=1):
            if pump.call_later(self._follow, event, way[place:], again):
                return  # else it is closed: on to the next
        if again:
            await self._follow(event, self._way(event), again=False)
        elif self.waiting and self.waiting[0] is event:
            self.waiting.popleft()
            await self._forward_oldest()


_LOOKS_S = 0.5  # between two looks whether the terminal is still there


def lasting(driver: type[Driver]) -> type[Driver]:
    """Return a driver of Textual's that ends the app, and does not fail, when its terminal goes.

    Textual writes in a thread through a queue of 30 places. Where the terminal is gone, that
    thread ends with an error, and as soon as the queue is full the app waits for it for ever.
    https://github.com/Textualize/textual/issues/6692 tells of the same queue after `suspend`.

    It reads in another thread. Where no signal says that the terminal has gone, for the terminal
    does not control the process, each read returns nothing at once, and that thread keeps a core
    busy for ever. Bytes that are no UTF-8, which a terminal with another encoding or with an older
    notation for the mouse sends, end the app with UnicodeDecodeError. Neither is reported yet.
    """

    class Lasting(driver):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._has_ended = threading.Event()
            if getattr(self, "_file", None) is not None:
                self._file: Any = _Unfailing(self._file)

        def start_application_mode(self) -> None:
            super().start_application_mode()
            if getattr(self, "input_tty", False):
                watch = threading.Thread(target=self._watch_terminal, daemon=True, name="terminal")
                watch.start()

        def run_input_thread(self) -> None:
            while True:
                try:
                    super().run_input_thread()
                    return
                except UnicodeDecodeError:
                    continue  # with what comes after these bytes
                except OSError:
                    if is_terminal(self.fileno):
                        raise
                    self._end_app()
                    return

        def close(self) -> None:
            self._has_ended.set()
            super().close()

        def _watch_terminal(self) -> None:
            while not self._has_ended.wait(_LOOKS_S):
                if not is_terminal(self.fileno):
                    self.exit_event.set()  # which ends the thread that reads
                    self._end_app()
                    return

        def _end_app(self) -> None:
            with contextlib.suppress(RuntimeError):  # it has ended in the meantime
                self._loop.call_soon_threadsafe(self._app.exit, 0)

    return Lasting


def is_terminal(file_number: int) -> bool:
    """Return whether a file is a terminal that somebody still has open at its other end."""
    import termios

    try:
        termios.tcgetattr(file_number)
    except termios.error:
        return False
    return True


class _Unfailing:
    """A text file that takes whatever is written, also when nobody can read it."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
