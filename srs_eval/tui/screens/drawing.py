"""Drawing a screen in pieces, so that no key waits for a whole one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from rich.console import Console
from rich.style import Style
from textual import events
from textual._compositor import CompositorUpdate, LayoutUpdate
from textual._styles_cache import StylesCache
from textual.await_remove import AwaitRemove
from textual.color import Color
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

_PIECE_S = 0.008  # of the processor, after which others get their turn
_LINES = 6  # of a widget at once
_BAND = 8  # lines of the screen
_TURNS = 60  # of a screen that goes on changing, until it is shown as it is


class _Shown(LayoutUpdate):
    """What has been put together already, as the terminal takes it."""

    def __init__(self, text: str) -> None:
        super().__init__([], Region())
        self._text = text

    def render_segments(self, console: Console) -> str:
        return self._text


class Piecewise(Screen[Any]):
    """Lets its widgets draw their lines a few at a time, and then shows them all at once.

    Widgets keep the lines that they have drawn; what of them is seen is put together in bands.
    Textual would do all this in one turn of the loop, which takes a tenth of a second for a new
    window of 160x48.
    """

    _turns = 0  # since the drawing began; 0 while nothing is drawn

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._bands: list[str] = []  # put together, and not shown yet

    async def _dispatch_message(self, message: Message) -> None:
        """As Textual does it; between two messages of a screen others get their turn."""
        await super()._dispatch_message(message)
        await asyncio.sleep(0)

    async def _on_resize(self, event: events.Resize) -> None:
        """Passed over where the window has another size by now, the event of which comes.

        A screen lays out those below it, too, and each that takes on another size is told so by
        an event of its own: two sizes under way would go from one screen to the other for ever.
        """
        if event.size != self.app.size:
            event.stop()
            event.prevent_default()

    def remove(self) -> AwaitRemove:
        """As Textual does it; what was drawn is freed now, not when Python looks for garbage."""
        for widget in self.walk_children(Widget, with_self=True):
            widget._styles_cache.clear()
        return super().remove()

    def _compositor_refresh(self) -> None:
        self._dirty_widgets.clear()  # the compositor knows of them
        if self is not self.app.screen:
            if self.app.screen.is_modal:  # else nothing is seen of this one
                super()._compositor_refresh()
        elif not self._turns:
            self._turns = 1
            self.call_later(self._draw)  # the layout before it has taken this turn

    def _draw(self) -> None:
        end = time.thread_time() + _PIECE_S
        self._turns += 1
        if self is not self.app.screen:  # when it is again, it shows everything
            self._turns = 0
            self._bands.clear()
        elif self.app._batch_count or not (self._bands or self._drawn(end)):
            self.call_later(self._draw)  # in a batch nothing is shown, and what is would be lost
        elif self._is_time(end) and self._put_together(end):
            self._turns = 0
            shown = "".join(self._bands)
            self._bands.clear()
            if shown:
                self.app._display(self, _Shown(shown))
        else:
            self.call_later(self._draw)

    def _is_time(self, end: float) -> bool:
        return time.thread_time() < end or self._turns >= _TURNS

    def _drawn(self, end: float) -> bool:
        """Draw what is not drawn yet while there is time; whether nothing is left."""
        if self._turns < _TURNS:
            for widget, lines in self._undrawn():
                if not self._is_time(end):
                    return False
                widget.render_lines(lines)
        return True

    def _put_together(self, end: float) -> bool:
        """Put together what has changed while there is time; whether nothing is left."""
        compositor = self._compositor
        window = compositor.size.region
        while changed := _within(window, compositor._dirty_regions):
            top = min(region.y for region in changed)
            band = Region(0, top, window.width, _BAND)
            self._bands.append(self._text(band, _within(band, changed)))
            rest = Region(0, band.bottom, window.width, window.height)
            compositor._dirty_regions = _within(rest, changed)
            if not self._is_time(end):
                return False
        compositor._dirty_regions.clear()
        return True

    def _text(self, band: Region, changed: set[Region]) -> str:
        """What of a band has changed, as the terminal takes it."""
        compositor = self._compositor
        everywhere, _ = compositor.visible_widgets, compositor.cuts  # which are both kept
        compositor._visible_widgets = {
            widget: (region, clip.intersection(band))
            for widget, (region, clip) in everywhere.items()
            if clip.overlaps(band)
        }
        compositor._dirty_regions = changed
        try:
            update = compositor.render_update(screen_stack=self.app._background_screens)
        finally:
            compositor._visible_widgets = everywhere
        assert isinstance(update, CompositorUpdate)
        return update.render_segments(self.app.console)

    def _undrawn(self) -> Iterator[tuple[Widget, Region]]:
        """Some lines at a time of what is to be shown and is not drawn (any more)."""
        changed = Region.from_union(list(self._compositor._dirty_regions) or [Region()])
        for widget, (region, clip) in list(self._compositor.visible_widgets.items()):
            if widget is self or not widget.is_attached or not changed.overlaps(clip):
                continue  # a screen itself needs to know what it lies on
            seen = region.intersection(clip).translate((-region.x, -region.y))
            kept = widget._styles_cache
            line = seen.y
            while line < seen.bottom:
                if line in kept._cache and not kept.is_dirty(line):
                    line += 1
                    continue
                lines = min(_LINES, seen.bottom - line)
                yield widget, Region(seen.x, line, seen.width, lines)
                line += lines


def _within(part: Region, regions: set[Region]) -> set[Region]:
    """What of the regions lies in a part of the window."""
    return {inside for region in regions if (inside := region.intersection(part))}


def _lines_are_freed_with_their_widgets() -> None:
    """Let no line keep itself, and none be kept by a widget that is gone.

    A line that is shown whole is the only piece that it is cut into, and Textual has it remember
    its pieces. Every line drawn, with its seven caches, would then wait until Python looks for
    garbage in circles, tens of thousands of objects after some keys. And what Textual remembers
    of colours, it remembers for each widget: the last 1,024 of them, with all their lines.
    """
    textuals_divide, textuals_crop_extend = Strip.divide, Strip.crop_extend
    textuals_colours = StylesCache.get_inner_outer.__wrapped__

    def divide(self: Strip, cuts: Iterable[int]) -> Sequence[Strip]:
        within = [cut for cut in cuts if cut <= self.cell_length]
        return [self] if within == [self.cell_length] else textuals_divide(self, within)

    def crop_extend(self: Strip, start: int, end: int, style: Style | None) -> Strip:
        if start <= 0 and end == self.cell_length:
            return self
        return textuals_crop_extend(self, start, end, style)

    @lru_cache(1024)
    def colours(base_background: Color, background: Color) -> Any:
        return textuals_colours(StylesCache, base_background, background)

    for of, name, method in (
        (Strip, "divide", divide),
        (Strip, "crop_extend", crop_extend),
        (StylesCache, "get_inner_outer", staticmethod(colours)),
    ):
        setattr(of, name, method)


_lines_are_freed_with_their_widgets()
