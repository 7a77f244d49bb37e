"""Screens that are drawn in pieces, and tables that are text."""

from __future__ import annotations

import asyncio
import gc
import re
import time
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from srs_eval.tui.screens.drawing import Piecewise
from srs_eval.tui.screens.garbage import AWAY_S, Garbage
from srs_eval.tui.widgets.facts import in_columns
from tests.conftest import PATIENCE

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


class OfThree(OfWidget):
    """One beside and one below another."""

    CSS = "#beside { dock: right; width: 9; } #below { dock: bottom; height: 5; }"

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield Lines("beside")
        yield Lines("below")


class Pieces(App[Any]):
    """Keeps what its terminal would show."""

    def __init__(self) -> None:
        super().__init__()
        self.terminal: dict[tuple[int, int], str] = {}

    def post_display_hook(self) -> None:
        if isinstance(self.screen, OfWidget):
            self.screen.shown += 1

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        if renderable is not None and not self._batch_count:
            sent = re.sub(r"\x1b\[[0-9;]*m", "", renderable.render_segments(self.console))
            for y, x, text in re.findall(r"\x1b\[(\d+);(\d+)H([^\x1b\n]*)", sent):
                for place, letter in enumerate(text, int(x) - 1):
                    self.terminal[int(y) - 1, place] = letter
        super()._display(screen, renderable)


async def until(holds: Any) -> None:
    async with asyncio.timeout(PATIENCE):
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


class Lines(Widget):
    """Lines of one letter each, of different lengths."""

    def __init__(self, name: str = "all") -> None:
        super().__init__(id=name)
        self.letters = [name[0]] * LINES

    def show(self, letter: str, *lines: int) -> None:
        for line in lines:
            self.letters[line] = letter
        self.refresh(*(Region(0, line, self.size.width, 1) for line in lines))

    def render_line(self, y: int) -> Strip:
        width = self.size.width - y % 7
        return Strip([Segment(self.letters[y] * width)], width)


async def test_what_is_shown_in_bands_is_what_the_screen_holds() -> None:
    app, widget = Pieces(), Lines()
    screen = OfThree(widget)

    async def settles() -> None:
        await pilot.pause()
        await until(lambda: not screen._turns and not screen._compositor._dirty_regions)
        screen._compositor.reflow(screen, screen.size)  # forgets what it keeps
        for y, strip in enumerate(screen._compositor.render_strips()):
            seen = "".join(app.terminal[y, x] for x in range(screen.size.width))
            assert seen == strip.text, (y, screen.size)

    async with app.run_test(size=(60, LINES)) as pilot:
        await app.push_screen(screen)
        await settles()
        widget.show("s", *range(LINES))
        await settles()
        widget.show("c", 3, 5, 17, 18, 33)
        await settles()
        await pilot.resize_terminal(33, LINES - 13)
        await settles()
        widget.show("d", 2, 20)
        await app.push_screen(OfWidget(Lines()))
        await pilot.pause()
        widget.show("e", 4, 21)
        await pilot.resize_terminal(60, LINES)
        app.pop_screen()
        await settles()


async def test_what_changes_below_an_opaque_screen_does_not_draw_that_anew() -> None:
    app, below, above = Pieces(), Lines(), OfWidget(Lines())
    async with app.run_test(size=(60, LINES)) as pilot:
        await app.push_screen(OfWidget(below))
        await app.push_screen(above)
        await pilot.pause()
        await until(lambda: above.shown and not above._turns)
        shown = above.shown
        for height in range(3, 20, 4):
            below.styles.height = height
            await pilot.pause()
        await asyncio.sleep(0.1)
        assert above.shown == shown


async def test_sizes_of_before_do_not_go_round_between_screens() -> None:
    app, below, above = Pieces(), OfWidget(Lines()), OfWidget(Lines())
    async with app.run_test(size=(60, LINES)) as pilot:
        await app.push_screen(below)
        await app.push_screen(above)
        await pilot.pause()

        async def chatter() -> None:
            """Messages between those of sizes, which else would be taken for one."""
            while True:
                for screen in (below, above):
                    screen.call_later(lambda: None)
                await asyncio.sleep(0)

        chattering = asyncio.create_task(chatter())
        for size in (Size(50, 30), Size(40, 20)):  # which the window had, and has no more
            for screen in (below, above):
                screen.post_message(events.Resize(size, size))
            await asyncio.sleep(0)
        await pilot.resize_terminal(70, LINES)
        await asyncio.sleep(0.1)
        chattering.cancel()
        await asyncio.sleep(0.2)
        for screen in (below, above):
            await until(lambda screen=screen: screen.size == (70, LINES))
        laid_out = 0

        def again(screen: Screen[Any]) -> None:
            nonlocal laid_out
            laid_out += 1

        for screen in (below, above):
            screen.screen_layout_refresh_signal.subscribe(app, again)
        await asyncio.sleep(0.3)
        assert laid_out == 0
        assert below.size == above.size == (70, LINES)


class Circle:
    """What Python frees only when it looks for garbage."""

    def __init__(self) -> None:
        self.itself = self


def needed(garbage: Garbage, objects: int) -> list[list[int]]:
    """So many new ones, looked at again and again while they are needed."""
    kept: list[list[int]] = []
    for _ in range(objects // 4_000):
        kept += ([] for _ in range(4_000))
        garbage.touched()
        garbage.collect()
    return kept


def test_what_a_screen_needed_is_freed_though_keys_are_pressed_without_a_pause() -> None:
    garbage = Garbage(lambda: 0.0)
    garbage.begin()
    try:
        circle = Circle()
        freed = weakref.ref(circle)
        more = needed(garbage, 60_000)
        assert freed() is not None
        del circle, more
        needed(garbage, 40_000)
        assert freed() is None
    finally:
        garbage.end()


def test_what_was_needed_long_is_freed_when_the_person_is_away() -> None:
    now = 0.0
    garbage = Garbage(lambda: now)
    garbage.begin()
    try:
        circle = Circle()
        freed = weakref.ref(circle)
        more = needed(garbage, 200_000)
        del circle, more
        needed(garbage, 40_000)
        assert freed() is not None, "everything is looked through while keys are pressed"
        now = AWAY_S + 1
        garbage.collect()
        assert freed() is None
    finally:
        garbage.end()


async def test_lines_are_freed_with_the_screen_that_they_are_of() -> None:
    """Neither kept by colours, which Textual remembers for each widget, nor until Python looks."""
    app = Pieces()

    async def left() -> weakref.ref[Any]:
        widget = Lines()
        screen = OfWidget(widget)
        await app.push_screen(screen)
        await until(lambda: screen.shown and not screen._turns)
        lines = widget._styles_cache._cache
        assert len(lines) == LINES
        await app.pop_screen()
        assert not lines
        return weakref.ref(widget._styles_cache)

    async with app.run_test(size=(60, LINES)) as pilot:
        kept = await left()
        await left()  # Textual holds the last one
        await pilot.pause()
        gc.collect()
        assert kept() is None


def test_a_line_shown_whole_is_freed_at_once() -> None:
    def lines() -> int:
        return sum(type(each) is Strip for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = lines()
        for _ in range(100):
            strip = Strip([Segment("word"), Segment(" and word")])
            assert strip.divide([13, 20]) == [strip]
            assert [piece.text for piece in strip.divide([4, 13])] == ["word", " and word"]
            assert strip.crop_extend(0, 13, None) is strip
            assert strip.crop_extend(0, 15, None).text == "word and word  "
            assert strip.crop_extend(1, 4, None).text == "ord"
        del strip
        assert lines() - before < 100
    finally:
        gc.enable()


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
