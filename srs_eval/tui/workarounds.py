"""What Textual 8.2 does otherwise than a person would want, and what is done about it.

Private members of Textual are used here, for the reasons that are given, so that pyproject.toml
asks for 8.2. What is reported is so upstream.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual._styles_cache import StylesCache
from textual.app import App, ComposeResult
from textual.color import Color
from textual.command import DiscoveryHit, Hits
from textual.driver import Driver
from textual.filter import Monochrome
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.system_commands import SystemCommandsProvider
from textual.widgets import Footer
from textual.widgets._footer import FooterKey


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


class Greyscale(Monochrome):
    """For NO_COLOR. Textual's own filter fails on segments without a style, as in charts.

    Not yet reported.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        plain = Style.null()
        styled = [Segment(text, style or plain, control) for text, style, control in segments]
        return super().apply(styled, background)


_STAY = ("cancel", "again", "back", "help", "quit")  # in the footer of however narrow a window


class Keys(Footer):
    """The keys that do something here, there with the screen that they are of.

    Textual's footer stays blank till the screen is drawn and quiet: seconds on a busy machine;
    and it cuts what there is no room for, where this one leaves out whole keys. Not yet reported;
    https://github.com/Textualize/textual/issues/5153 tells of a footer that stays blank.
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


class Commands(SystemCommandsProvider):
    """The palette's list: what is possible here first; Textual's is by the alphabet.

    A wish, not a fault: nothing to report.
    """

    async def discover(self) -> Hits:
        for title, help_, callback, discover in self.app.get_system_commands(self.screen):
            if discover:
                yield DiscoveryHit(title, callback, help=help_)


class ParsedOnce(App[int]):
    """An app whose styles are parsed in its theme's colours at once.

    Textual parses them in those of its own theme first, and again when the theme is another: a
    tenth of a second before the first picture. Not yet reported.
    """

    _parsed_in: dict[str, str] | None = None

    def parse_in_theme(self) -> None:
        """Called once the theme is known."""
        self._parsed_in = self.get_css_variables()
        self.stylesheet.set_variables(self._parsed_in)

    def refresh_css(self, animate: bool = True) -> None:
        if self._parsed_in == self.get_css_variables():
            self.stylesheet.update(self, animate=animate)
        else:
            self._parsed_in = None
            super().refresh_css(animate)
