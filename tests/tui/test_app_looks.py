"""Every screen in both themes, small and large: a tour through one app for each look.

After a wanted change: pytest THIS_FILE --snapshot-update, and look at the pictures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension
from textual.widgets import Input

from srs_eval.advice.model_evidence import COLUMNS, Curve, Curves
from srs_eval.advice.tables import Table
from srs_eval.stats.intervals import Interval
from srs_eval.tui.config import DARK, LIGHT, Recent, State, save_state
from srs_eval.tui.screens.dialogs import Question, Refusal
from tests.tui.app_world import (
    MODELS,
    NOW,
    MadeUpEngine,
    make_app,
    make_costs,
    on,
    text_of,
    until,
)
from tests.tui.test_app_snapshots import FILE, LARGE, SMALL, settle

WITH_FIGURES = {
    *("AnswersScreen", "EvidenceScreen", "CostsScreen", "ReceiptScreen"),
    *("RunScreen", "DetailsScreen", "ErrorsScreen", "CompareScreen"),
}
OTHERS = {
    *("OpenScreen", "ChooseScreen", "ExportScreen", "FamiliesScreen"),
    *("HelpScreen", "JumpScreen", "Question", "Refusal"),
}
LOOKS = [
    pytest.param(SMALL, DARK, WITH_FIGURES | OTHERS, id="80x24-dark"),
    pytest.param(LARGE, LIGHT, WITH_FIGURES, id="160x48-light"),
    pytest.param(LARGE, LIGHT, OTHERS, id="160x48-light-others", marks=pytest.mark.slow),
    pytest.param(SMALL, LIGHT, WITH_FIGURES | OTHERS, id="80x24-light", marks=pytest.mark.slow),
    pytest.param(LARGE, DARK, WITH_FIGURES | OTHERS, id="160x48-dark", marks=pytest.mark.slow),
]
# From the ranking and from the answers: keys, and the screen that they lead to.
FROM_ANSWERS = (
    *(("enter", "EvidenceScreen"), ("w", "CostsScreen"), ("p", "ChooseScreen")),
    *(("x", "ExportScreen"), ("i", "ReceiptScreen"), ("g", "JumpScreen")),
)
FROM_RANKING = (("f", "FamiliesScreen"), ("v", "CompareScreen"), ("question_mark", "HelpScreen"))


def errors(name: str) -> list[Table]:
    """What a model's errors look like, made up."""

    def recalled(share: float) -> Interval:
        return Interval(share, 0.03, 400, 60)

    curves = tuple(
        Curve(name, days, tuple(map(recalled, shares)), tuple(p + 0.02 for p in shares))
        for name, days, shares in (
            ("Again", (1.0, 3.2, 9.5), (0.7, 0.6, 0.5)),
            ("Good", (1.4, 4.8, 21.0), (0.95, 0.9, 0.84)),
        )
    )
    rows = tuple(
        (curve.name, f"{day:.0f}", 400, found.estimate, p, Interval(found.estimate - p, 0.03), 0.4)
        for curve in curves
        for day, found, p in zip(curve.days, curve.recalled, curve.expected, strict=True)
    )
    title = "Forgetting curves: the first review on a later day, by first rating"
    return [Curves(title, ("first rating", "days", *COLUMNS), rows, curves)]


@pytest.mark.parametrize(("size", "theme", "wanted"), LOOKS)
async def test_every_screen(
    tmp_path: Path,
    snapshot: Any,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    theme: str,
    wanted: set[str],
) -> None:
    recent = (Recent("/anki/User 1/collection.anki2", NOW - 3_600, 12_862),)
    save_state(State(theme=theme, recent=recent), tmp_path)
    monkeypatch.chdir(tmp_path)
    app = make_app(tmp_path, evaluate=MadeUpEngine([*MODELS, "FSRS-6-own"]))
    monkeypatch.setattr(app.session.models, "errors_of", errors)
    monkeypatch.setattr(app.session, "costs", lambda preset: [make_costs()])
    pictures = snapshot.use_extension(SVGImageExtension)
    seen: list[str] = []
    different: list[str] = []

    async def look(name: str) -> None:
        await until(pilot, on(app, name))
        if name not in wanted:
            return
        for entry in app.screen.query(Input):
            entry.cursor_blink = False
        await settle(pilot)
        seen.append(name)
        if pictures(name=name) != app.export_screenshot():
            different.append(name)

    async with app.run_test(size=size) as pilot:
        await look("OpenScreen")
        app.session.open_file(FILE)
        await until(pilot, lambda: "models: 9 of 9" in text_of(app))
        await look("AnswersScreen")
        for key, name in FROM_ANSWERS:
            await pilot.press(key)
            await until(pilot, on(app, name))
            if name == "ExportScreen":
                app.screen.query_one(Input).value = "srs-eval-report.html"  # whatever folder
            await look(name)
            await pilot.press("escape")
            await until(pilot, on(app, "AnswersScreen"))
        await pilot.press("m")
        await until(pilot, lambda: "9 of 9" in text_of(app))
        await look("RunScreen")
        for key, name in FROM_RANKING:
            await pilot.press(key)
            await look(name)
            await pilot.press("escape")
            await until(pilot, on(app, "RunScreen"))
        await pilot.press("d")
        await look("DetailsScreen")
        await pilot.press("e")
        await until(pilot, lambda: "Forgetting curves" in text_of(app))
        await look("ErrorsScreen")
        for dialog in (
            Question("Stop the models?", "What has finished is kept.", "Stop", "Keep running"),
            Refusal("Can't read this file", '"backup.colpkg" ends in the middle.'),
        ):
            app.push_screen(dialog)
            await look(type(dialog).__name__)
            await pilot.press("escape")
            await until(pilot, on(app, "ErrorsScreen"))
    app.session.shut_down()
    assert sorted(seen) == sorted(wanted)
    assert not different, f"look at {', '.join(different)}; wanted: --snapshot-update"
