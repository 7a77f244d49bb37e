"""Drawing a screen in pieces, so that no key waits for a whole one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

_PIECE_S = 0.008  # of the processor, after which others get their turn
_LINES = 6  # of a widget at once
_TURNS = 60  # of a screen that goes on changing, until it is shown as it is


class Piecewise(Screen[Any]):
    """Lets its widgets draw their lines a few at a time, and then shows them all at once.

    Widgets keep the lines that they have drawn, so that showing them costs little. Textual would
    draw all of them in one turn of the loop, which takes a tenth of a second for a new window of
    160x48.
    """

    _turns = 0  # since the drawing began; 0 while nothing is drawn

    async def _dispatch_message(self, message: Message) -> None:
        """As Textual does it; between two messages of a screen others get their turn."""
        await super()._dispatch_message(message)
        await asyncio.sleep(0)

    def _compositor_refresh(self) -> None:
        self._dirty_widgets.clear()  # the compositor knows of them
        if not self._turns:
            self._draw()

    def _draw(self) -> None:
        end = time.thread_time() + _PIECE_S
        self._turns += 1
        if self.app._batch_count:  # nothing is shown while it lasts, and what is would be lost
            self.call_later(self._draw)
            return
        if self is self.app.screen and self._turns < _TURNS:
            for widget, lines in self._undrawn():
                if time.thread_time() > end:
                    self.call_later(self._draw)
                    return
                widget.render_lines(lines)
        self._turns = 0
        super()._compositor_refresh()

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
