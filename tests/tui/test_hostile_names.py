"""Names from outside on the app's screens: no control characters, no markup."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from srs_eval.app import AppOptions
from srs_eval.data.errors import InputError, printable
from srs_eval.models import all_models
from srs_eval.report.console import make_console, render_models_table
from srs_eval.report.export import build_models_document
from srs_eval.tui.config import RecentFile, State, save_state
from srs_eval.tui.screens.answers import EvidenceScreen
from srs_eval.tui.widgets.ranking import RankingTable
from tests.helpers.hostile_names import OBEYED, WICKED
from tests.tui.app_world import (
    MODELS,
    FakeEngine,
    is_on_screen,
    make_app,
    make_log,
    screen_text,
    wait_until,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="names that other systems refuse")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["header", "refusal", "crash"])
async def test_app_shows_no_control_characters_of_names(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / WICKED
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = folder / f"{WICKED}.anki2"
    path.write_bytes(b"")
    save_state(State(recent=(RecentFile(str(path), 0.0, 12),)), tmp_path)
    seen: list[str] = []

    def load(*_: Any, **__: Any) -> Any:
        if kind == "refusal":
            raise InputError(f"{WICKED} is no collection.")
        if kind == "crash":
            raise RuntimeError(WICKED)
        return make_log()

    def write(*_: Any, **named: Any) -> list[Path]:
        return [named["path"]]

    app = make_app(
        tmp_path,
        load=load,
        write_report=write,
        profiles=lambda: [type("Found", (), {"name": "User", "path": path})],
        evaluate=FakeEngine(["AVG"]),
        options=AppOptions(jobs=0),
    )

    def look() -> str:
        seen.append(screen_text(app) + " ".join(app.notices))
        assert not OBEYED.search(seen[-1]), seen[-1]
        return seen[-1]

    async with app.run_test(size=(160, 48)) as pilot:
        await wait_until(pilot, lambda: "In this folder" in look())
        assert "[red]" in seen[-1]
        entry = app.screen.query_one(Input)
        entry.focus()
        entry.value = "./"
        await pilot.press("tab")
        await wait_until(pilot, lambda: WICKED in entry.value)
        await wait_until(pilot, lambda: look().count("./\ufffd") == 2)  # as typed, and what fits
        app.session.open_file(path)
        app.show_reading(f"Reading {printable(path.name)} …")
        if kind != "header":
            await wait_until(pilot, is_on_screen(app, "ErrorDialog"))
            await wait_until(pilot, lambda: "gpj" in look())
            return
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: "[red]" in look().splitlines()[0])
        await wait_until(pilot, lambda: len(app.session.models.run.results_by_name()) == 1)
        await pilot.press("x")
        await wait_until(pilot, is_on_screen(app, "ExportScreen"))
        await wait_until(pilot, lambda: "Export a report" in look())
        app.screen.query_one(Input).value = str(folder / "no" / "x.html")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "cannot" in look())  # one word: lines break anywhere
        app.screen.query_one(Input).value = str(folder / "x.html")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Written" in look())


@pytest.mark.slow
async def test_brackets_in_names_are_no_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check every screen that names a model, and the list of models."""
    name = "HLR [red]"
    monkeypatch.setitem(all_models(), name, replace(all_models()["HLR"], name=name))
    monkeypatch.setitem(MODELS, name, MODELS["DASH"])
    engine = FakeEngine([name, "AVG", "FSRS-6"])
    app = make_app(tmp_path, Path("[red].anki2"), evaluate=engine)
    async with app.run_test(size=(160, 48)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: "[red].anki2" in screen_text(app))
        await wait_until(pilot, lambda: len(app.session.models.run.results_by_name()) == 3)
        await pilot.press("m")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        app.screen.query_one(RankingTable).move_cursor_to(name)
        await wait_until(pilot, lambda: screen_text(app).count(name) > 1)  # row and heading
        await pilot.press("enter")
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        await wait_until(pilot, lambda: name in screen_text(app))
        await pilot.press("e")
        await wait_until(pilot, is_on_screen(app, "ErrorsScreen"))
        await wait_until(pilot, lambda: f"Where {name} errs" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "DetailsScreen"))
        await pilot.press("v")
        await wait_until(pilot, is_on_screen(app, "CompareScreen"))
        await wait_until(pilot, lambda: name in screen_text(app))
    listed = [
        {**model, "words": f"{model['words']} [red]"} for model in build_models_document()["models"]
    ]
    make_console(sys.stdout).print(render_models_table(listed, 80))
    assert "[red]" in capsys.readouterr().out


async def test_brackets_in_preset_names_are_no_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EvidenceScreen, "_format_title", lambda *_: "What to do: Maps [b][/] [/]")
    app = make_app(tmp_path, Path("collection.anki2"), evaluate=FakeEngine(["AVG"]))
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: "models: 1 of 1" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Maps [b][/] [/]" in screen_text(app))
    app.session.shut_down()
