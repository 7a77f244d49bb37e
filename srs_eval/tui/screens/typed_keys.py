"""Keys one after another: each reaches what the one before it has led to."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from textual import events
from textual.app import App
from textual.message_pump import MessagePump

_LONGEST_S = 5.0  # a key that is not through by then keeps the next ones waiting no longer


class TypedKeys:
    """The keys that are on their way through an app.

    Textual forwards a key to what has the focus at once, even where a key before it is about to
    open a screen; the key would reach the screen that the person has left, or nobody. Here the
    next key is forwarded when all that the one before leads to is there. `forward` is what the
    app does with an event otherwise.
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
