"""Check that screens name the command that gives the same, and that lists have ends."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from srs_eval.advice.findings import Finding, Sharing, SharingDifference
from srs_eval.advice.questions import NAMED_QUESTIONS, QUESTION_REGISTRY, name_command
from srs_eval.cli import options
from srs_eval.stats.intervals import Interval
from srs_eval.tui.widgets.panes import PaneBox
from tests.tui import app_world
from tests.tui.app_world import (
    FILE,
    is_on_screen,
    make_answers,
    make_app,
    screen_text,
    to_results,
    wait_until,
)


def test_named_questions_are_those_of_compare() -> None:
    literal, *_ = get_args(options.Question)
    assert set(get_args(literal)) == {*NAMED_QUESTIONS, "all"}
    for question in QUESTION_REGISTRY:
        command, *rest = name_command(question).split()
        assert command in ("compare", "workload", "state")
        assert not rest or rest[-1] in (*NAMED_QUESTIONS, "--details")


async def test_evidence_names_its_command(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("2")
        await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
        assert f"srs-eval compare --question retention {FILE.name}" in screen_text(app)


async def test_g_and_end_go_to_the_first_and_the_last_line(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        for key, number in (("G", 5), ("g", 1), ("end", 5), ("home", 1)):
            await pilot.press(key)
            assert isinstance(app.screen.focused, PaneBox)
            assert app.screen.focused.number == number
        await to_results(pilot, app)
        table = app.screen.table
        await pilot.press("G")
        last = table.highlighted
        await pilot.press("g")
        assert (table.highlighted or 0) < (last or 0)


async def test_evidence_on_decks_of_one_preset_says_what_it_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that an answer that the pane gives already has no heading of its own below it."""
    one = Finding("split", "Default", evidence=Sharing("preset", 1))
    apart = SharingDifference("all", "split", Interval(0.006, 0.004, 2_000, 90), "keep shared")
    by_deck = Finding(
        "split", "Default", "keep shared", 0.98, evidence=Sharing("deck", 2, (apart,))
    )
    answers = [one, by_deck, *(answer for answer in make_answers() if answer.question != "split")]
    monkeypatch.setattr(app_world, "make_answers", lambda: answers)
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: "You have one. Keep it." in screen_text(app))
        await pilot.press("4")
        await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
        await wait_until(pilot, lambda: "Default, deck by deck" in screen_text(app))
        headings = [line.strip("│ ") for line in screen_text(app).splitlines()]
        assert "Default" not in headings


async def test_n_shows_the_answers_that_have_no_pane(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        assert "n More" in screen_text(app)
        await pilot.press("n")
        await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
        shown = app.screen.query_one("#box").border_title
        titles = {pane.title for pane in app.session.overview.first_screen.panes}
        assert str(shown) not in titles
        behind_panes = {
            question
            for pane in app.session.overview.first_screen.panes
            for question in pane.questions
        }
        further = {line.question for line in app.session.overview.lines} - behind_panes
        assert str(shown) in {QUESTION_REGISTRY[question].title for question in further}
