"""How screens look that the tour of test_app_looks.py does not come by.

After a wanted change: pytest THIS_FILE --snapshot-update.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from srs_eval.tui.config import DARK, LIGHT, State, save_state
from tests.tui.app_world import MadeUpEngine, make_app, on, text_of, to_receipt, until

SMALL, LARGE = (80, 24), (160, 48)
FILE = Path("collection.anki2")


async def go_to_run(pilot: Any) -> None:
    await to_receipt(pilot)
    await pilot.press("enter")
    await until(pilot, on(pilot.app, "RunScreen"))


async def go_to_results(pilot: Any) -> None:
    await go_to_run(pilot)
    await until(pilot, lambda: not pilot.app.session.models.run.running)
    await until(pilot, lambda: "8 of 8" in text_of(pilot.app))
    await settle(pilot)


async def settle(pilot: Any) -> None:
    """Until nothing changes any more."""
    looks: list[str] = []
    for _ in range(50):
        await pilot.pause(0.03)
        looks.append(text_of(pilot.app))
        worked_out = all(each.is_finished for each in pilot.app.workers)
        if worked_out and len(looks) > 3 and len(set(looks[-3:])) == 1:
            return


def test_running(tmp_path: Path, snap_compare: Any) -> None:
    engine = MadeUpEngine(hold_at=("DASH", 4))

    async def running(pilot: Any) -> None:
        await go_to_run(pilot)
        await until(pilot, engine.holding.is_set)
        await until(pilot, lambda: "fold 4/5" in text_of(pilot.app))
        await settle(pilot)

    app = make_app(tmp_path, FILE, evaluate=engine)
    assert snap_compare(app, terminal_size=SMALL, run_before=running)
    app.session.shut_down()


@pytest.mark.parametrize(
    ("keys", "size", "theme"),
    [
        pytest.param(keys, size, theme, id=f"{keys}-{look}", marks=marks)
        for keys, size, theme, look, marks in (
            ("dt", SMALL, DARK, "80x24-dark", ()),
            ("2v", LARGE, LIGHT, "160x48-light", ()),
            ("2t", SMALL, DARK, "80x24-dark", pytest.mark.slow),
            ("2v", SMALL, DARK, "80x24-dark", pytest.mark.slow),
            ("dt", LARGE, LIGHT, "160x48-light", pytest.mark.slow),
            ("2t", LARGE, LIGHT, "160x48-light", pytest.mark.slow),
        )
    ],
)
def test_tables_of_one_and_two_models(
    tmp_path: Path, snap_compare: Any, size: tuple[int, int], theme: str, keys: str
) -> None:
    save_state(State(theme=theme), tmp_path)

    async def look(pilot: Any) -> None:
        await go_to_results(pilot)
        for key in keys:
            await pilot.press(key)
            if key in screens:  # a quiet moment of the screen before is no look at this one
                await until(pilot, on(pilot.app, screens[key]))
            await settle(pilot)

    screens = {"2": "CompareScreen", "d": "DetailsScreen"}
    assert snap_compare(make_app(tmp_path, FILE), terminal_size=size, run_before=look)


def test_too_small(tmp_path: Path, snap_compare: Any) -> None:
    assert snap_compare(make_app(tmp_path), terminal_size=(40, 10), run_before=settle)
