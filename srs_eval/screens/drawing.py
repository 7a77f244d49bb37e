"""Drawing a screen in pieces, so that no key waits for a whole one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

_PIECE_S = 0.008  # of the processor, after which others get their turn
_LINES = 6  # of a widget at once
_ROUNDS = 20  # of a screen that never stops changing, until it is shown as it is


class Piecewise(Screen[Any]):
    """Lets its widgets draw their lines a few at a time, and then shows them all at once.

    Widgets keep the lines that they have drawn, so a last round that has nothing to draw any
    more costs little, and so does showing them. Textual would draw all of them in one turn of
    the loop, which takes a tenth of a second for a window of 160x48 that is new.
    """

    _undrawn: list[tuple[Widget, int]] | None = None  # widgets, and from which line; None: at rest
    _rounds = 0

    async def _dispatch_message(self, message: Message) -> None:
        """As Textual does it; between two messages of a screen others get their turn."""
        await super()._dispatch_message(message)
        await asyncio.sleep(0)

    def _compositor_refresh(self) -> None:
        begun = self._undrawn is not None
        self._undrawn = [(widget, 0) for widget in self._compositor.visible_widgets]
        if not begun:
            self._rounds = 0
            self._draw()

    def _draw(self) -> None:
        if self.app._batch_count:  # what is shown now would be lost
            self.call_later(self._draw)
            return
        end, began_now = time.thread_time() + _PIECE_S, False
        while self._rounds < _ROUNDS and self is self.app.screen:
            if not self._undrawn:  # once more, for what has changed meanwhile
                began_now, self._rounds = True, self._rounds + 1
                self._compositor.update_widgets(self._dirty_widgets)
                self._undrawn = [(widget, 0) for widget in self._compositor.visible_widgets]
            while self._undrawn and time.thread_time() < end:
                self._draw_lines(*self._undrawn.pop())
            if self._undrawn:
                self.call_later(self._draw)
                return
            if began_now:
                break
        self._undrawn = None
        super()._compositor_refresh()

    def _draw_lines(self, widget: Widget, line: int) -> None:
        seen = self._seen(widget)
        if line < seen.height:
            assert self._undrawn is not None
            lines = min(_LINES, seen.height - line)
            widget.render_lines(Region(seen.x, seen.y + line, seen.width, lines))
            self._undrawn.append((widget, line + lines))

    def _seen(self, widget: Widget) -> Region:
        """What of a widget is in the window and has changed there, from its own corner."""
        place = self._compositor.visible_widgets.get(widget)
        if place is None or widget is self or not widget.is_attached:
            return Region()  # a screen itself needs to know what it lies on
        region, clip = place
        seen = region.intersection(clip)
        if not any(seen.overlaps(dirty) for dirty in self._compositor._dirty_regions):
            return Region()
        return seen.translate((-region.x, -region.y))
