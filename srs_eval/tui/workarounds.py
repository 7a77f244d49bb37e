"""What Textual 8.2 does otherwise than a person would want, and what is done about it.

Private members of Textual are used here, for the reasons that are given, so that pyproject.toml
asks for 8.2. What is reported is so upstream.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual import events
from textual._styles_cache import StylesCache
from textual.app import App
from textual.driver import Driver
from textual.message_pump import MessagePump


class Forgetful:
    """A screen that takes all its lines along when it goes.

    Textual remembers colours with the widget that they were asked for, the last 1,024 of them,
    and so all lines that these have drawn: hundreds of MB after some hundred keys.
    https://github.com/Textualize/textual/issues/6665
    """

    def on_unmount(self) -> None:
        StylesCache.get_inner_outer.cache_clear()


_LONGEST_S = 5.0  # a key that is not through by then keeps the next ones waiting no longer


class TypedKeys:
    """The keys that are on their way through an app.

    Textual forwards a key to what has the focus at once, even where a key before it is about to
    open a screen; the key would reach the screen that the person has left, or nobody. Here the
    next key is forwarded when all that the one before leads to is there. `forward` is what the
    app does with an event otherwise. Not yet reported.
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
        """Forward an event, a key when its turn comes; Ctrl+C does not wait."""
        keys = isinstance(event, events.Key | events.Paste) and not event.is_forwarded
        if not keys or (isinstance(event, events.Key) and event.key == "ctrl+c"):
            await self._forward(event)
            return
        if self.waiting and self._monotonic() - self.since > _LONGEST_S:
            self.waiting.clear()  # whatever became of it, the keyboard must not stay dead
        self.waiting.append(event)
        if len(self.waiting) == 1:
            await self._forward_oldest()

    async def _forward_oldest(self) -> None:
        """The next one follows when all that the oldest leads to is there."""
        while self.waiting:
            event, way = self.waiting[0], self._way()
            self.since = self._monotonic()
            stays = isinstance(event, events.Key) and self._moves_cursor(event.key)
            await self._forward(event)
            if not stays:
                await self._follow(event, way, again=True)
                return
            self.waiting.popleft()

    def _moves_cursor(self, key: str) -> bool:
        """Whether it leads nowhere: the next one need not wait until all of this one is drawn."""
        found = self._app.screen.active_bindings.get(key)
        action = "" if found is None else found.binding.action.rpartition(".")[2]
        return action.startswith(("cursor_", "line(", "page_", "scroll_"))

    def _way(self) -> Sequence[MessagePump]:
        """Whose queues a key goes through; the last is the app, which acts on it."""
        return (self._app.focused or self._app.screen).ancestors_with_self

    async def _follow(self, event: events.Event, way: Sequence[MessagePump], again: bool) -> None:
        """Come behind a key wherever it comes, `again` behind what the app has done upon it.

        That may be a screen that opens, a message of what has the focus, or another focus.
        """
        for place, pump in enumerate(way, start=1):
            if pump.call_later(self._follow, event, way[place:], again):
                return  # else it is closed: on to the next
        if again:
            await self._follow(event, self._way(), again=False)
        elif self.waiting and self.waiting[0] is event:
            self.waiting.popleft()
            await self._forward_oldest()


def lasting(driver: type[Driver]) -> type[Driver]:
    """A driver of Textual's whose output never fails.

    Textual writes in a thread through a queue of 30 places. Where the terminal is gone, that
    thread ends with an error, and as soon as the queue is full the app waits for it for ever.
    https://github.com/Textualize/textual/issues/6692 tells of the same queue after `suspend`.
    """

    class Lasting(driver):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if getattr(self, "_file", None) is not None:
                self._file: Any = _Unfailing(self._file)

    return Lasting


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
