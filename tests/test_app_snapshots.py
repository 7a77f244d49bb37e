"""How the screens look. After a wanted change: pytest THIS_FILE --snapshot-update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from srs_eval.errors import InputError
from srs_eval.state import DARK, LIGHT, Recent, State, save_state
from srs_eval.widgets.calibration import CalibrationChart
from tests.app_world import NOW, MadeUpEngine, make_app, on, text_of, to_receipt, until

SMALL, LARGE = (80, 24), (160, 48)
LOOKS = [
    pytest.param(SMALL, DARK, id="80x24-dark"),
    pytest.param(SMALL, LIGHT, id="80x24-light"),
    pytest.param(LARGE, DARK, id="160x48-dark"),
    pytest.param(LARGE, LIGHT, id="160x48-light"),
]
SMALL_DARK_LARGE_LIGHT = [LOOKS[0], LOOKS[3]]
FILE = Path("collection.anki2")


async def go_to_run(pilot: Any) -> None:
    await to_receipt(pilot)
    await pilot.press("enter")
    await until(pilot, on(pilot.app, "RunScreen"))


async def go_to_results(pilot: Any) -> None:
    await go_to_run(pilot)
    await until(pilot, lambda: not pilot.app.evaluation.running)
    await until(pilot, lambda: "8 of 8" in text_of(pilot.app))
    await settle(pilot)


async def settle(pilot: Any) -> None:
    """Until nothing changes any more; charts are mounted and drawn after their first layout."""
    await until(
        pilot, lambda: all(chart.is_drawn for chart in pilot.app.screen.query(CalibrationChart))
    )
    looks: list[str] = []
    for _ in range(50):
        await pilot.pause(0.1)
        looks.append(text_of(pilot.app))
        if len(looks) > 3 and len(set(looks[-3:])) == 1:
            return


@pytest.mark.parametrize(("size", "theme"), SMALL_DARK_LARGE_LIGHT)
def test_open(tmp_path: Path, snap_compare: Any, size: tuple[int, int], theme: str) -> None:
    recent = (
        Recent("/anki/User 1/collection.anki2", NOW - 3_600, 12_862),
        Recent("/backups/2024-05-01.colpkg", NOW - 31 * 86_400, 11_204),
    )
    save_state(State(theme=theme, recent=recent), tmp_path)
    assert snap_compare(make_app(tmp_path), terminal_size=size, run_before=settle)


@pytest.mark.parametrize(("size", "theme"), SMALL_DARK_LARGE_LIGHT)
def test_receipt(tmp_path: Path, snap_compare: Any, size: tuple[int, int], theme: str) -> None:
    save_state(State(theme=theme), tmp_path)

    async def receipt(pilot: Any) -> None:
        await to_receipt(pilot)
        await until(pilot, lambda: "judged" in text_of(pilot.app))  # by the models behind
        await settle(pilot)

    assert snap_compare(make_app(tmp_path, FILE), terminal_size=size, run_before=receipt)


def test_running(tmp_path: Path, snap_compare: Any) -> None:
    engine = MadeUpEngine(hold_at=("DASH", 4))

    async def running(pilot: Any) -> None:
        await go_to_run(pilot)
        await until(pilot, engine.holding.is_set)
        await until(pilot, lambda: "fold 4/5" in text_of(pilot.app))
        await settle(pilot)

    app = make_app(tmp_path, FILE, evaluate=engine)
    assert snap_compare(app, terminal_size=SMALL, run_before=running)
    app.shut_down()


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_results(tmp_path: Path, snap_compare: Any, size: tuple[int, int], theme: str) -> None:
    save_state(State(theme=theme), tmp_path)
    app = make_app(tmp_path, FILE)
    assert snap_compare(app, terminal_size=size, run_before=go_to_results)


@pytest.mark.parametrize(("size", "theme"), SMALL_DARK_LARGE_LIGHT)
@pytest.mark.parametrize("keys", ["d", "dt", "2", "2t"])
def test_one_and_two_models(
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


def test_help(tmp_path: Path, snap_compare: Any) -> None:
    async def help_(pilot: Any) -> None:
        await go_to_results(pilot)
        await pilot.press("question_mark")
        await until(pilot, on(pilot.app, "HelpScreen"))
        await settle(pilot)

    assert snap_compare(make_app(tmp_path, FILE), terminal_size=SMALL, run_before=help_)


def test_refusal(tmp_path: Path, snap_compare: Any) -> None:
    def load(path: Path, **_: Any) -> Any:
        raise InputError(
            '"backup.colpkg" ends in the middle (its compressed collection is cut short). '
            "Export it again from Anki (File > Export), or open the collection itself."
        )

    async def refused(pilot: Any) -> None:
        await until(pilot, on(pilot.app, "Refusal"))
        await settle(pilot)

    app = make_app(tmp_path, Path("backup.colpkg"), load=load)
    assert snap_compare(app, terminal_size=SMALL, run_before=refused)


def test_too_small(tmp_path: Path, snap_compare: Any) -> None:
    assert snap_compare(make_app(tmp_path), terminal_size=(40, 10), run_before=settle)
