"""Screens that are drawn in pieces, and tables that are text."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from textual.app import App, ComposeResult
from textual.strip import Strip
from textual.widget import Widget

from srs_eval.screens.drawing import Piecewise
from srs_eval.widgets.facts import in_columns

LINES = 40


class Slow(Widget):
    """Each of its lines takes long to draw."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = 0
        self.drawn: dict[int, int] = {}  # lines, and the turn of the loop they were drawn in

    def render_line(self, y: int) -> Strip:
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass
        self.drawn[y] = self.turn
        return Strip.blank(self.size.width)


class Restless(Widget):
    """Asks to be drawn anew whenever it is drawn."""

    def render_line(self, y: int) -> Strip:
        self.app.call_later(self.refresh)
        return Strip.blank(self.size.width)


class OfWidget(Piecewise):
    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget, self.shown = widget, 0  # how often it was shown

    def compose(self) -> ComposeResult:
        yield self.widget


class Pieces(App[Any]):
    def post_display_hook(self) -> None:
        if isinstance(self.screen, OfWidget):
            self.screen.shown += 1


async def until(holds: Any) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_screen_is_drawn_over_several_turns_and_shown_whole() -> None:
    app, slow = Pieces(), Slow()
    async with app.run_test(size=(80, LINES)) as pilot:

        async def count() -> None:
            while True:
                slow.turn += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await app.push_screen(OfWidget(slow))
        await until(lambda: len(slow.drawn) == LINES)
        counting.cancel()
        await pilot.pause()
        by_turn = [list(slow.drawn.values()).count(turn) for turn in set(slow.drawn.values())]
        assert max(by_turn) <= LINES // 2, "others had to wait for nearly all of it"


async def test_a_screen_that_never_stops_changing_is_shown() -> None:
    app, screen = Pieces(), OfWidget(Restless())
    async with app.run_test(size=(80, LINES)):
        await app.push_screen(screen)
        await until(lambda: screen.shown >= 3)


async def test_what_changes_while_nothing_is_shown_is_shown_afterwards() -> None:
    app, screen = Pieces(), OfWidget(Slow())
    async with app.run_test(size=(80, LINES)):
        await app.push_screen(screen)
        await until(lambda: screen.shown and not screen._turns)
        with app.batch_update():
            screen._compositor._dirty_regions.add(screen.region)
            screen._compositor_refresh()  # as Textual calls it, with nothing left to draw
            await asyncio.sleep(0.1)
            assert screen._compositor._dirty_regions, "said to be shown, and it was not"
        await until(lambda: not screen._turns)
        assert not screen._compositor._dirty_regions


@given(
    st.lists(
        st.tuples(st.text("ab ", max_size=9), st.text("cd ", max_size=60).map(str.strip)),
        min_size=1,
    ),
    st.integers(24, 90),
)
def test_columns_keep_every_word_within_the_width(rows: list[tuple[str, str]], width: int) -> None:
    shown = in_columns([tuple(map(Text, row)) for row in rows], width, right=[0])
    assert all(len(line) <= width for line in shown.plain.split("\n"))
    words = " ".join(word for row in rows for word in " ".join(row).split())
    assert sorted(shown.plain.replace(" ", "").replace("\n", "")) == sorted(words.replace(" ", ""))


@pytest.mark.parametrize("cells", [[], [("one",)], [("a", "b"), ("c",)]])
def test_columns_of_uneven_rows(cells: list[tuple[str, ...]]) -> None:
    shown = in_columns([tuple(map(Text, row)) for row in cells], 40)
    assert [line.split() for line in shown.plain.splitlines()] == [list(row) for row in cells]
