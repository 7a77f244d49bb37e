"""Check that the first pane leads to SM-2 and FSRS side by side, where both can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from srs_eval.app import AppOptions
from srs_eval.tui.models import SM2_AND_FSRS
from srs_eval.tui.screens.details import CompareScreen
from srs_eval.tui.widgets.calibration import CalibrationChart
from tests.tui import app_world
from tests.tui.app_world import (
    FILE,
    FakeEngine,
    is_on_screen,
    make_app,
    screen_text,
    wait_until,
)

HINT = "v shows what SM-2 and FSRS predicted, side by side"
SIZE = (80, 24)
NAMES = ["AVG", "Anki-dry-run", "DASH", "FSRS-6"]


@pytest.fixture(autouse=True)
def _sm2_predicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(app_world.MODELS, "Anki-dry-run", (0.1, 0.15, False))


async def test_v_opens_both_schedulers(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE, evaluate=FakeEngine(NAMES))
    async with app.run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: "models: 4 of 4" in screen_text(app))
        assert HINT in screen_text(app)
        await pilot.press("v")
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))
        assert isinstance(app.screen, CompareScreen)
        assert app.screen.pair == list(SM2_AND_FSRS)
        await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            "anki",
            "held-out reviews of cards still in use: there, FSRS is 5 % better than SM-2 (",
        ),
        ("benchmark", "“What to do” also takes other people's results into account."),
    ],
)
async def test_comparison_of_schedulers_says_what_the_advice_counts(
    tmp_path: Path, rows: Literal["anki", "benchmark"], sentence: str
) -> None:
    app = make_app(tmp_path, FILE, evaluate=FakeEngine(NAMES))
    async with app.run_test(size=(120, 30)) as pilot:
        await wait_until(pilot, lambda: "models: 4 of 4" in screen_text(app))
        app.session.overview.row_rule = rows
        await pilot.press("v")
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))
        await wait_until(pilot, lambda: "Better on these reviews: FSRS-6" in screen_text(app))
        text = " ".join(screen_text(app).split())
        assert sentence in text
        assert "Both predicted the same 3,000 reviews. The nearer the dots are" in text


async def test_metrics_are_hidden_from_learners_until_asked_for(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE, evaluate=FakeEngine(NAMES))
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: "models: 4 of 4" in screen_text(app))
        await pilot.press("v")
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))
        await wait_until(pilot, lambda: "Better on these reviews" in screen_text(app))
        assert "RMSE" not in screen_text(app)
        assert "Log loss (lower is better)" not in screen_text(app)
        await pilot.press("t")
        await wait_until(pilot, lambda: "RMSE" in screen_text(app))
        assert "Log loss (lower is better)" in screen_text(app)
        charts = app.screen.query(CalibrationChart)
        assert not any(chart.as_table for chart in charts)
        await pilot.press("t")
        await wait_until(pilot, lambda: all(chart.as_table for chart in charts))
        await pilot.press("escape", "m")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await pilot.press("v")
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))
        await wait_until(pilot, lambda: "RMSE" in screen_text(app))


async def test_v_waits_for_both_schedulers(tmp_path: Path) -> None:
    engine = FakeEngine(NAMES, hold_at=("FSRS-6", 2))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: "models: 3 of 4" in screen_text(app))
        await pilot.press("v")
        progress = "SM-2 and FSRS will open side by side once both are evaluated · models: 3 of 4"
        await wait_until(pilot, lambda: progress in screen_text(app))
        engine.go.set()
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))
        assert app.opened.count("CompareScreen") == 1


async def test_v_starts_models_that_were_cancelled(tmp_path: Path) -> None:
    engine = FakeEngine(NAMES, hold_at=("Anki-dry-run", 2))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=SIZE) as pilot:
        await wait_until(pilot, engine.holding.is_set)
        await wait_until(pilot, lambda: app.session.models.can_cancel)
        app.session.models.cancel()
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        engine.hold_at = None
        await pilot.press("v")
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))


async def test_comparison_does_not_open_over_another_screen(tmp_path: Path) -> None:
    engine = FakeEngine(NAMES, hold_at=("FSRS-6", 2))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: "models: 3 of 4" in screen_text(app))
        await pilot.press("v", "2")
        await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
        engine.go.set()
        await wait_until(pilot, lambda: app.session.models.has_both_schedulers)
        await pilot.press("escape")
        await wait_until(pilot, lambda: "models: 4 of 4" in screen_text(app))
        await pilot.pause(0.6)  # the progress is looked at twice a second
        assert "CompareScreen" not in app.opened


@pytest.mark.parametrize("failing", [(), SM2_AND_FSRS])
async def test_no_hint_without_both_schedulers(tmp_path: Path, failing: tuple[str, ...]) -> None:
    names = NAMES if failing else ["AVG", "FSRS-6"]
    app = make_app(tmp_path, FILE, evaluate=FakeEngine(names, skipping=failing))
    async with app.run_test(size=SIZE) as pilot:
        done = f"models: {len(names)} of {len(names)}"
        await wait_until(pilot, lambda: done in screen_text(app))
        await wait_until(pilot, lambda: not app.session.models.run.is_running)
        assert "side by side" not in screen_text(app)
        assert not app.screen.check_action("compare", ())


async def test_no_hint_if_other_models_were_named(tmp_path: Path) -> None:
    app = make_app(
        tmp_path, FILE, evaluate=FakeEngine(["AVG", "DASH"]), options=AppOptions(models="AVG,DASH")
    )
    async with app.run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: "models: 2 of 2" in screen_text(app))
        assert "side by side" not in screen_text(app)
