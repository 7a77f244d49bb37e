"""Compare pictures of screens: the first one in all sizes and both themes, others in one.

All in a tour through one app. After a wanted change: pytest THIS_FILE --snapshot-update, and look
at the pictures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension

from srs_eval.tui.config import DARK, LIGHT
from tests.tui.app_world import (
    MODELS,
    FakeEngine,
    is_on_screen,
    make_app,
    make_costs,
    screen_text,
    wait_until,
)

SIZES = ((80, 24), (140, 45), (100, 30))


async def settle(pilot: Any) -> None:
    """Wait until nothing changes any more."""
    looks: list[str] = []
    for _ in range(50):
        await pilot.pause(0.03)
        looks.append(screen_text(pilot.app))
        worked_out = all(worker.is_finished for worker in pilot.app.workers)
        if worked_out and len(looks) > 3 and len(set(looks[-3:])) == 1:
            return


@pytest.mark.slow
async def test_looks(tmp_path: Path, snapshot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(tmp_path, Path("collection.anki2"), evaluate=FakeEngine([*MODELS, "FSRS-6-own"]))
    monkeypatch.setattr(app.session, "costs", lambda: iter([make_costs()]))
    pictures = snapshot.use_extension(SVGImageExtension)
    different: list[str] = []

    async def look(name: str) -> None:
        await settle(pilot)
        if pictures(name=name) != app.export_screenshot():
            different.append(name)

    async with app.run_test(size=SIZES[0]) as pilot:
        await wait_until(pilot, lambda: "models: 9 of 9" in screen_text(app))
        for theme in (LIGHT, DARK):
            app.theme = theme
            for size in SIZES:
                await pilot.resize_terminal(*size)
                await look(f"answers-{size[0]}x{size[1]}-{theme}")
        for keys, screen in (
            (["enter"], "EvidenceScreen"),
            (["escape", "w"], "CostsScreen"),
            (["escape", "m"], "RunScreen"),
            (["v"], "CompareScreen"),
            (["escape", "d"], "DetailsScreen"),
        ):
            await pilot.press(*keys)
            await wait_until(pilot, is_on_screen(app, screen))
            if screen == "DetailsScreen":  # a thread breaks the loss down
                await wait_until(pilot, lambda: app.screen.query_one("#loss").display)
            await look(screen)
            if screen == "RunScreen":
                await pilot.press("a")
                await look("RunScreen-folded")
                await pilot.press("a")
    app.session.shut_down()
    assert not different, f"look at {', '.join(different)}; wanted: --snapshot-update"
