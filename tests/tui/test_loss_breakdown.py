"""Details show what a model's loss consists of, with the figures of reports and notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from srs_eval.advice.shown.predicted import (
    list_loss_figures,
    make_loss_by_fold_table,
    make_loss_by_reviews_table,
)
from srs_eval.engine.loss_breakdown import break_down_loss
from srs_eval.report.cells import format_rows
from srs_eval.tui.screens.details import DetailsScreen
from tests.tui.app_world import FakeEngine, is_on_screen, make_app, screen_text, wait_until


def flatten(text: str) -> str:
    """Return the words of a screen, with single spaces and without borders."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("size", [(80, 24), (140, 45)])
async def test_details_show_the_breakdown_of_the_loss(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app = make_app(tmp_path, Path("x.anki2"), evaluate=FakeEngine(["AVG", "FSRS-6"]))
    async with app.run_test(size=size) as pilot:
        await wait_until(pilot, lambda: app.session.log is not None)
        app.session.models.start()
        models = app.session.models
        await wait_until(pilot, lambda: not models.run.is_running and "AVG" in models.run.models)
        app.push_screen(DetailsScreen(models.run, "FSRS-6"))
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        box = app.screen.query_one("#loss")
        await wait_until(pilot, lambda: box.display)
        results = models.run.results_by_name()
        breakdown = break_down_loss(results["FSRS-6"], results["AVG"])
        assert models.find_breakdown(models.run, "FSRS-6") == breakdown
        assert models.find_breakdown(models.run, "FSRS-6") is models.find_breakdown(
            models.run, "FSRS-6"
        )
        tables = [
            make_loss_by_reviews_table({"": breakdown}),
            make_loss_by_fold_table({"": breakdown}),
        ]
        seen = set()
        facts = app.screen.query_one("#facts")
        facts.scroll_home(animate=False)
        while True:
            await pilot.pause(0.1)
            seen.update(line.strip() for line in screen_text(app).splitlines())
            if facts.scroll_y >= facts.max_scroll_y:
                break
            facts.scroll_relative(y=8, animate=False)
        lines = "\n".join(map(flatten, seen))
        for name, figure, _ in list_loss_figures(breakdown):
            assert f"{name} {figure}" in lines
        for table in tables:
            for row in format_rows(table):
                assert " ".join(row[:3]) in lines  # the narrow screen has no room for more
        if size[0] >= 140:
            assert "minus average" in lines
            for row in format_rows(tables[0]):
                assert " ".join(row) in lines
