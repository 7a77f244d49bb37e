"""Work around behaviour of Textual 8.2 that users would not want.

Private members of Textual are used here for the reasons given below, which is why pyproject.toml
asks for 8.2. "Reported" means reported to Textual.
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


class ReleasesStyleCache:
    """A screen that releases its drawn lines when it closes.

    Textual caches the last 1,024 colours together with the widgets that asked for them, and so
    keeps all lines that these widgets have drawn: hundreds of MB after a few hundred keystrokes.
    https://github.com/Textualize/textual/issues/6665
    """

    def on_unmount(self) -> None:
        StylesCache.get_inner_outer.cache_clear()


class ClosesOnce:
    """A screen that closes only once in a burst of clicks or keys.

    Textual's `dismiss` removes whatever screen is on top of the stack: a second call, from an event
    that was already on its way, would close the screen below, or raise ScreenStackError. Not yet
    reported.
    """

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Close this screen with a result; do nothing unless it is on top."""
        stack = self.app.screen_stack  # type: ignore[attr-defined]
        if len(stack) < 2 or stack[-1] is not self:
            return AwaitComplete.nothing()
        closing: AwaitComplete = super().dismiss(result)  # type: ignore[misc]
        return closing


class IgnoresRemovedWidgets:
    """A screen on which the mouse ignores widgets that have been removed.

    The mouse finds a removed widget (such as an expired toast) until the screen's next layout. To
    select text in it, Textual asks the widget's parent for its position. There is no parent any
    more, so that AttributeError is raised. Not yet reported.
    """

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Return the widget at a position and the offset in its text, or None for both."""
        widget: Widget | None
        offset: Offset | None
        widget, offset = super().get_widget_and_offset_at(x, y)  # type: ignore[misc]
        if widget is not None and not widget.is_attached:
            return None, None
        return widget, offset


class CommandPalette(ClosesOnce, IgnoresRemovedWidgets, command.CommandPalette):
    """Textual's palette, which two clicks outside it would otherwise close twice."""


_textuals_move_page = OptionList._move_page


def _move_page_if_laid_out(option_list: OptionList, direction: Literal[-1, 1]) -> None:
    """Move the cursor of a list by a page, if its lines are laid out.

    A list that is not drawn (not yet, or hidden, as the palette's list is without a match) has no
    lines, and Textual's method raises KeyError. Not yet reported. This function replaces the method
    for all lists, because the palette and `Select` create lists of their own.
    """
    if (option_list.highlighted or 0) in option_list._index_to_line:
        _textuals_move_page(option_list, direction)


OptionList._move_page = _move_page_if_laid_out  # type: ignore[method-assign, assignment]

_MAX_EVENT_SECONDS = 5.0  # after this time an unfinished event no longer blocks the next ones
_HARMLESS_EVENTS = (events.MouseMove, events.MouseScrollDown, events.MouseScrollUp)


class InputQueue:
    """A queue of the keys and clicks that are on their way through an app.

    Textual forwards events to the screen on top at once, even if an earlier key or click is about
    to open or close a screen; they would reach the screen that the user has left, or no screen. Not
    yet reported. Here each event is forwarded only when all effects of the previous one are
    complete. `forward` is the app's usual handling of an event.
    """

    def __init__(
        self,
        app: App[int],
        forward: Callable[[events.Event], Awaitable[None]],
        monotonic: Callable[[], float],
    ) -> None:
        self._app = app
        self._forward = forward
        self._monotonic = monotonic
        self.waiting: deque[events.Event] = deque()  # the first event is being handled
        self.started_at = 0.0  # when its handling began

    async def handle(self, event: events.Event) -> None:
        """Forward an event; keys and clicks wait for their turn, but Ctrl+C does not."""
        waits = isinstance(event, events.Key | events.Paste | events.MouseEvent)
        if isinstance(event, events.Key) and event.key == "ctrl+c":
            waits = False
        if not waits or event.is_forwarded:
            await self._forward(event)
            return
        if self.waiting and self._monotonic() - self.started_at > _MAX_EVENT_SECONDS:
            self.waiting.clear()  # keyboard and mouse must not stay dead, whatever blocks them
        self.waiting.append(event)
        if len(self.waiting) == 1:
            await self._forward_oldest()

    async def _forward_oldest(self) -> None:
        """Forward the oldest event; the next one follows when its effects are complete.

        Events that keep the screen have no effects to wait for.
        """
        while self.waiting:
            event = self.waiting[0]
            path = self._event_path(event)  # found first: the event may move the focus
            keeps_screen = self._keeps_screen(event)
            self.started_at = self._monotonic()
            await self._forward(event)
            if not keeps_screen:
                await self._wait_behind(event, path, follow_effects=True)
                return
            self.waiting.popleft()

    def _keeps_screen(self, event: events.Event) -> bool:
        """Return whether an event surely opens and closes no screen, so that the next can follow.

        These are moves of the mouse, and keys that move a cursor or scroll.
        """
        if not isinstance(event, events.Key):
            return isinstance(event, _HARMLESS_EVENTS)
        active_binding = self._app.screen.active_bindings.get(event.key)
        if active_binding is None:
            return False
        action = active_binding.binding.action.rpartition(".")[2]
        return action.startswith(("cursor_", "line(", "page_", "scroll_"))

    def _event_path(self, event: events.Event) -> Sequence[MessagePump]:
        """Return the message pumps that an event goes through, from a widget to the app.

        A message pump is a widget, a screen or the app: each has a queue of messages.
        """
        first = self._app.focused or self._app.screen
        if isinstance(event, events.MouseEvent):
            with contextlib.suppress(NoWidget):
                first = self._app.mouse_captured or self._app.get_widget_at(event.x, event.y)[0]
        return first.ancestors_with_self

    async def _wait_behind(
        self, event: events.Event, path: Sequence[MessagePump], follow_effects: bool
    ) -> None:
        """Queue up behind an event in each pump of its `path`, then forward the next event.

        With `follow_effects`, first go through the pumps once more, behind what the app has done in
        response to the event: it may have opened a screen, sent a message of the focused widget, or
        moved the focus.
        """
        for number, pump in enumerate(path, start=1):
            if pump.call_later(self._wait_behind, event, path[number:], follow_effects):
                return  # False: the pump is closed; try the next one
        if follow_effects:
            await self._wait_behind(event, self._event_path(event), follow_effects=False)
        elif self.waiting and self.waiting[0] is event:
            self.waiting.popleft()
            await self._forward_oldest()


_TERMINAL_CHECK_SECONDS = 0.5  # between checks that the terminal still exists


def with_safe_output(driver: type[Driver]) -> type[Driver]:
    """Return a Textual driver that ends the app properly when its terminal is gone.

    Textual writes in a thread, through a queue of at most 30 texts. When the terminal is gone, that
    thread ends with an error, and as soon as the queue is full the app waits for it forever.
    https://github.com/Textualize/textual/issues/6692 describes the same queue after `suspend`.

    Textual reads in another thread. If no signal says that the terminal is gone, because the
    terminal does not control the process, each read returns nothing at once, and that thread keeps
    a core busy forever. Bytes that are not UTF-8, which a terminal with another encoding or an
    older mouse protocol sends, end the app with UnicodeDecodeError. Neither is reported yet.
    """

    class SafeDriver(driver):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._has_ended = threading.Event()
            if getattr(self, "_file", None) is not None:
                self._file: Any = _SafeFile(self._file)

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
                    continue  # with the bytes that follow
                except OSError:
                    if is_terminal(self.fileno):
                        raise
                    self._end_app()
                    return

        def close(self) -> None:
            self._has_ended.set()
            super().close()

        def _watch_terminal(self) -> None:
            while not self._has_ended.wait(_TERMINAL_CHECK_SECONDS):
                if not is_terminal(self.fileno):
                    self.exit_event.set()  # ends the thread that reads
                    self._end_app()
                    return

        def _end_app(self) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended in the meantime
                self._loop.call_soon_threadsafe(self._app.exit, 0)

    return SafeDriver


def is_terminal(file_number: int) -> bool:
    """Return whether a file is a terminal whose other end is still open."""
    import termios

    try:
        termios.tcgetattr(file_number)
    except termios.error:
        return False
    return True


class _SafeFile:
    """A text file whose writes never fail; they are lost if the terminal is gone."""

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
