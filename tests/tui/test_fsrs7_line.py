"""Check the line behind Enter about FSRS-7, for learners whose Anki cannot run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from srs_eval.advice.findings import Fsrs7Preview
from srs_eval.stats.intervals import Interval
from srs_eval.tui.models import ModelEvaluator
from tests.tui.app_world import (
    FILE,
    is_on_screen,
    make_app,
    screen_text,
    wait_until,
)

PREVIEW = Fsrs7Preview("better", Interval(0.0142, 0.004, 2_000, 100))
LINE = "FSRS-7 would predict your answers 1.4 % better; Anki cannot run it yet."


@pytest.mark.parametrize("pane", ["1", "2"])
async def test_line_stands_behind_the_first_pane_only(
    pane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelEvaluator, "find_fsrs7_preview", lambda _: PREVIEW)
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(140, 60)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: app.session.answers_ended_at is not None)
        assert LINE not in screen_text(app)
        await pilot.press(pane)
        await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
        await pilot.press("end")
        await pilot.pause()
        assert (LINE in screen_text(app)) == (pane == "1")


async def test_without_both_models_there_is_no_line(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(140, 60)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: app.session.answers_ended_at is not None)
        assert app.session.models.find_fsrs7_preview() is None
        await pilot.press("1")
        await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
        assert "Anki cannot run it yet" not in screen_text(app)
