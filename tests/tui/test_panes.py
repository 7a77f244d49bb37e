"""Check the layout of the five panes: words or lines without room are left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from srs_eval.advice.sentences import Bar, Heading, MonthBars, MonthFigure, Pane, PaneLine
from srs_eval.report.panes import (
    count_hidden_items,
    count_needed_lines,
    render_pane,
    render_unframed,
    wrap_notes,
)
from srs_eval.tui.widgets.panes import PaneBox, compute_heights
from tests.helpers.advice import build_screen
from tests.tui.app_world import is_on_screen, make_answers, make_app, screen_text, wait_until

SAID = "one two, three; four · five six seven eight nine ten eleven twelve thirteen"
LINE = PaneLine(SAID, "look", "!")
PANE = Pane("Anything wrong?", LINE, (LINE,), ())
BARS = (
    Heading("", ("you", "asked", "expected")),
    *(Bar(label, ("91 %",) * 3, 0.91) for label in ("all", "young cards", "mature cards")),
)
MONTHS = MonthBars(tuple(MonthFigure("Feb", "’24", 91) for _ in range(9)))


@pytest.mark.parametrize("width", range(30, 100, 3))
def test_pane_text_is_cut_after_a_word(width: int) -> None:
    (only_line,) = render_unframed(5, PANE, width, 1)
    lines = [only_line, *render_pane(PANE, width, 2)]
    assert max(line.cell_len for line in lines) <= width
    assert only_line.plain.startswith("5 Anything wrong?  ! one")
    for text in (
        only_line.plain.partition("! ")[2],
        " ".join(line.plain.strip(" !") for line in lines[1:]),
    ):
        beginning = text.removesuffix(" …")
        assert SAID.startswith(beginning)
        assert text == SAID or SAID[len(beginning)] in " ,;"


def test_notes_take_the_available_lines() -> None:
    screen = replace(build_screen(make_answers()), footer=(PaneLine("Where you stand."), LINE))
    assert wrap_notes(screen, 40, 2)[0] == " Where you stand."
    assert wrap_notes(screen, 40, 2)[1].endswith(" …")
    assert " ".join(wrap_notes(screen, 40, 9)).split()[3:] == SAID.split()


def test_pane_heights_depend_on_frames_and_long_actions() -> None:
    assert compute_heights(80, 22, {3: 1})[1] == {1: 4, 2: 7, 3: 1, 4: 1, 5: 6}
    assert compute_heights(80, 22, action_lines=3)[1] == {1: 5, 2: 6, 3: 6, 4: 1, 5: 1}
    assert compute_heights(80, 22, {2: 1, 3: 2, 4: 1, 5: 2})[1] == {1: 5, 2: 1, 3: 2, 4: 1, 5: 2}
    assert [len(render_unframed(5, PANE, width, 2)) for width in (60, 110)] == [2, 1]


def test_upper_panes_get_the_lines_without_notes() -> None:
    with_notes = compute_heights(100, 28, lower_lines=7)[1]
    without_notes = compute_heights(100, 28, lower_lines=7, note_lines=1)[1]
    assert without_notes[2] == with_notes[2] + 2
    assert without_notes[4] == with_notes[4] == 9


def test_upper_panes_get_the_lines_that_the_lower_ones_do_not_need() -> None:
    heights = compute_heights(100, 28, lower_lines=5)[1]
    assert heights[4] == 7
    assert heights[2] + heights[4] + heights[1] == 25


async def test_months_are_a_chart_in_a_usual_window(tmp_path: Path) -> None:
    app = make_app(tmp_path, Path("collection.anki2"))
    pane = Pane("How well do I remember?", LINE, (LINE, *BARS, MONTHS), ())
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        box = app.screen.query_one("#pane-2", PaneBox)
        box.show(pane)
        await pilot.pause()
        lines = screen_text(app).splitlines()
        top, bottom = [
            next(number for number, line in enumerate(lines) if label in line)
            for label in ("100 ┤", " 50 ┤")
        ]
        assert bottom - top + 1 >= 3
    app.session.shut_down()


async def test_at_the_least_size_keys_that_matter_stay(tmp_path: Path) -> None:
    app = make_app(tmp_path, Path("collection.anki2"))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        keys = screen_text(app).splitlines()[-1]
        assert all(key in keys for key in ("Enter Why", "y Copy", "w Costs", "x Export", "q Quit"))
        box = app.screen.query_one("#pane-3", PaneBox)
        assert box.has_class("-line") is bool(box.unframed_lines(80))
    app.session.shut_down()


@pytest.mark.slow
async def test_evidence_stands_below_its_question(tmp_path: Path) -> None:
    app = make_app(tmp_path, Path("collection.anki2"))
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        for key, title in (("2", "How well do I remember?"), ("1", "What to do")):
            await pilot.press(key)
            await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
            assert app.screen.query_one("#box").border_title == title
            await pilot.press("escape")
            await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
    app.session.shut_down()


def test_heading_goes_with_its_last_bar() -> None:
    heading, *bars = BARS
    items = (LINE, heading, *(replace(bar, drop_order=1) for bar in bars))
    pane = replace(PANE, items=items)
    texts = [
        "\n".join(line.plain for line in render_pane(pane, 60, height)) for height in (2, 3, 4, 9)
    ]
    assert ["asked" in text for text in texts] == [
        "mature cards" in text or "all" in text for text in texts
    ]
    assert "asked" not in texts[0]
    assert "asked" in texts[-1]


def test_hidden_items_are_counted() -> None:
    items = (LINE, PaneLine("a", drop_order=1), PaneLine("b", drop_order=2))
    pane = replace(PANE, items=items)
    least = count_needed_lines(pane, 60)
    assert least == len(render_pane(replace(pane, items=(LINE,)), 60, 9)) + 2
    assert [count_hidden_items(pane, 60, least - less) for less in range(3)] == [0, 1, 2]


@pytest.mark.slow
async def test_evidence_begins_with_the_panes_own_lines(tmp_path: Path) -> None:
    app = make_app(tmp_path, Path("collection.anki2"))
    async with app.run_test(size=(80, 40)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        for pane in (1, 2, 4):
            await pilot.press(str(pane))
            await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
            pane_lines = render_pane(
                app.session.overview.first_screen.panes[pane - 1], 75, 99, spacious=False
            )
            first = pane_lines[0].plain.partition("  ")[0].rstrip()
            assert first in screen_text(app).splitlines()[2]
            await pilot.press("escape")
            await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
    app.session.shut_down()


async def test_figures_behind_evidence_are_folded_until_asked_for(tmp_path: Path) -> None:
    app = make_app(tmp_path, Path("collection.anki2"))
    heading = "A set of parameters for each preset, or one set for all"
    async with app.run_test(size=(100, 60)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("4")
        await wait_until(pilot, lambda: "t shows the figures behind this: " in screen_text(app))
        assert heading not in screen_text(app)
        await pilot.press("t")
        await wait_until(pilot, lambda: heading in screen_text(app))
        assert "shows the figures" not in screen_text(app)
        await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await pilot.press("4")
        await wait_until(pilot, lambda: heading in screen_text(app))
        await pilot.press("t")
        await wait_until(pilot, lambda: heading not in screen_text(app))
    app.session.shut_down()


async def test_notification_disappears_with_its_screen(tmp_path: Path) -> None:
    app = make_app(tmp_path, Path("collection.anki2"))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.screen.query("Toast"))
        assert app.screen.query("Toast").first().region.y > 12
        await pilot.press("1")
        await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
        await wait_until(pilot, lambda: not app.screen.query("Toast"))
    app.session.shut_down()


@pytest.mark.parametrize(("width", "line_count"), [(60, 1), (48, 1), (30, 2)])
def test_right_text_has_its_own_line_if_there_is_no_room(width: int, line_count: int) -> None:
    """Check a right text that is padded, so that it is aligned with longer ones where it fits."""
    line = PaneLine("Press Optimize.", "fine", "●", "likely ●●●●○  closer".ljust(32))
    pane = replace(PANE, items=(line,))
    rendered = [text.plain for text in render_pane(pane, width, 9, spacious=False)]
    assert len(rendered) == line_count
    assert all(len(text) <= width for text in rendered)
    words = " ".join(" ".join(rendered).split())
    assert words == "● Press Optimize. likely ●●●●○ closer"
    is_aligned = rendered[-1].rstrip() != rendered[-1]
    assert is_aligned == (width == 60)


@pytest.mark.slow
async def test_evidence_of_acts_is_that_of_all_acts(tmp_path: Path) -> None:
    """Check that recall, behind the first act, and the parameters of the second are both there."""
    app = make_app(tmp_path, Path("collection.anki2"))
    async with app.run_test(size=(100, 90)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("1")
        await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
        text = screen_text(app)
        assert "Less than desired: you recalled 84.7 % of" in text
        assert "Are my parameters good?" in text
        assert "Press Optimize (sure" in text
        words = " ".join(text.replace("│", " ").split())
        assert "To paste them instead, go to deck options, preset Default" in words
        await pilot.press("y")
        await wait_until(pilot, lambda: "preset Default" in " ".join(app.notices))
    app.session.shut_down()
