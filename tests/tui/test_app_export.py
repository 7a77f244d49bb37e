"""Check the reports that the app writes: their form, their file, nothing overwritten unasked."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Checkbox, Input, OptionList, Static

from srs_eval.app import AppOptions, SrsEvalApp
from srs_eval.data.outputs import write_folder
from srs_eval.engine.workers import send
from srs_eval.report.document import Document
from srs_eval.report.files import render_as
from tests.helpers.marks import slow_except
from tests.tui.app_world import (
    FILE,
    FakeEngine,
    WatchedApp,
    is_on_screen,
    make_app,
    screen_text,
    wait_until,
)
from tools.simulated import simulate_learner, write_collection


class Written:
    """Replace the writing of reports: keep the requests and write one word."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def __call__(self, log: Any, run: Any, protocol: Any, **options: Any) -> Sequence[Path]:
        self.requests.append({"log": log, "run": run, "protocol": protocol, **options})
        options["path"].write_text("report")
        return [options["path"]]


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def refusal(app: SrsEvalApp) -> str:
    """Return the message of the dialog about the path."""
    return str(app.screen.query_one("#said", Static).content)


def chosen_form(app: Any) -> str | None:
    chosen = app.screen.query_one(OptionList).highlighted_option
    return None if chosen is None else chosen.id


async def to_export(pilot: Any) -> None:
    await wait_until(pilot, is_on_screen(pilot.app, "AnswersScreen"))
    await wait_until(pilot, lambda: len(pilot.app.session.models.run.results_by_name()) == 8)
    await pilot.press("x")
    await wait_until(pilot, is_on_screen(pilot.app, "ExportScreen"))


@pytest.mark.slow
async def test_a_report_is_written_where_one_is(working_folder: Path, tmp_path: Path) -> None:
    written = Written()
    app = make_app(tmp_path, FILE, write_report=written, options=AppOptions(jobs=0))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_export(pilot)
        assert "8 of 8 models" in screen_text(app)
        await pilot.press("tab", "enter")
        await wait_until(pilot, lambda: (working_folder / "srs-eval-report.html").exists())
        await wait_until(pilot, lambda: "Written: " in screen_text(app))
        assert not app.notices  # nothing covers the panes
    (request,) = written.requests
    assert request["log"] is app.session.log
    assert sorted(request["run"].results_by_name()) == sorted(
        app.session.models.run.results_by_name()
    )
    assert request["run"].groups()[0].best is not None
    assert (request["form"], request["anonymous"]) == ("html", False)
    assert request["narrowed_to"] == {"preset": None, "deck": None}
    assert request["known"] == tuple(app.session.overview.answers) != ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "ending"),
    [(["enter"], "html"), pytest.param(["down", "enter"], "md", marks=pytest.mark.slow)],
)
async def test_enter_writes_from_the_list_of_forms(
    working_folder: Path, tmp_path: Path, keys: list[str], ending: str
) -> None:
    written = Written()
    app = make_app(tmp_path, FILE, write_report=written, options=AppOptions(jobs=0))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_export(pilot)
        await pilot.press(*keys)
        await wait_until(pilot, (working_folder / f"srs-eval-report.{ending}").exists)


async def test_report_is_overwritten_only_after_confirmation(
    working_folder: Path, tmp_path: Path
) -> None:
    target = working_folder / "srs-eval-report.html"
    target.write_text(before := render_as(Document("T", (), ()), "html"))
    written = Written()
    app = make_app(tmp_path, FILE, write_report=written, options=AppOptions(jobs=0))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_export(pilot)
        await pilot.press("tab", "enter")
        await wait_until(pilot, lambda: "This file exists already" in screen_text(app))
        assert target.read_text() == before
        await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        assert not written.requests
        await pilot.press("x")
        await wait_until(pilot, is_on_screen(app, "ExportScreen"))
        await pilot.press("tab", "enter")
        await wait_until(pilot, lambda: "This file exists already" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: target.read_text() == "report")


@pytest.mark.slow
async def test_foreign_files_are_never_overwritten(working_folder: Path, tmp_path: Path) -> None:
    """Check that confirming does not help, and that a folder with such files takes no tables."""
    for name in ("srs-eval-report.html", "srs-eval-report.csv"):
        (working_folder / name).write_text("mine")
    written = Written()
    app = make_app(tmp_path, FILE, write_report=written, options=AppOptions(jobs=0))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_export(pilot)
        path = app.screen.query_one(Input)
        for key, value in (("", path.value), ("down", str(working_folder))):
            if key:
                app.screen.query_one(OptionList).focus()
                await pilot.press(key, key)  # CSV
                await pilot.pause()
            path.value = value
            path.focus()
            for _ in range(2):
                await pilot.press("enter")
                await wait_until(pilot, lambda: "is not overwritten" in refusal(app))
                assert type(app.screen).__name__ == "ExportScreen"
    assert not written.requests
    assert {path.read_text() for path in working_folder.iterdir()} == {"mine"}


@pytest.mark.slow
async def test_report_path_follows_the_form_and_names_can_be_omitted(
    working_folder: Path, tmp_path: Path
) -> None:
    written = Written()
    app = make_app(tmp_path, FILE, write_report=written, options=AppOptions(jobs=0))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_export(pilot)
        path = app.screen.query_one(Input)
        stem = working_folder / "srs-eval-report"
        for form, value in zip(
            ("md", "csv", "png", "json"),
            (f"{stem}.md", str(stem), str(stem), f"{stem}.json"),
            strict=True,
        ):
            await pilot.press("down", "space")
            await wait_until(pilot, lambda form=form: chosen_form(app) == form)
            await wait_until(pilot, lambda value=value: path.value == value)
        path.value = str(working_folder / "elsewhere" / "report.json")
        app.screen.query_one(Checkbox).value = True
        path.focus()
        await pilot.press("enter")
        await wait_until(pilot, lambda: "there is no folder" in refusal(app))
        (working_folder / "elsewhere").mkdir()
        await pilot.press("enter")
        await wait_until(pilot, lambda: written.requests)
    (request,) = written.requests
    assert (request["form"], request["anonymous"]) == ("json", True)
    assert request["path"] == working_folder / "elsewhere" / "report.json"


@pytest.mark.slow
@pytest.mark.parametrize("entered", slow_except({"/"}, ["", "/", ".", ".."]))
async def test_a_form_can_be_chosen_while_no_file_is_named(
    entered: str, working_folder: Path, tmp_path: Path
) -> None:
    app = make_app(tmp_path, FILE, options=AppOptions(jobs=0))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_export(pilot)
        app.screen.query_one(Input).value = entered
        await pilot.press("down", "space")
        await wait_until(pilot, lambda: chosen_form(app) == "md")
        assert app.screen.query_one(Input).value == entered


@pytest.mark.slow
async def test_confirmation_holds_for_one_form_only(working_folder: Path, tmp_path: Path) -> None:
    folder = working_folder / "srs-eval-report"
    write_folder(folder, {"ours.csv": b"a table\n", "ours.png": b"a picture"})
    written = Written()
    app = make_app(tmp_path, FILE, write_report=written, options=AppOptions(jobs=0))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_export(pilot)
        await pilot.press("down", "down", "space")  # CSV
        await pilot.click("#write")
        await wait_until(pilot, lambda: "This folder already has CSV files" in screen_text(app))
        app.screen.query_one(OptionList).focus()
        await pilot.press("down")  # PNG: the same folder
        await wait_until(pilot, lambda: "This folder already has CSV files" not in screen_text(app))
        await pilot.click("#write")
        await wait_until(pilot, lambda: "This folder already has PNG files" in screen_text(app))
    assert not written.requests


@pytest.mark.slow
async def test_the_open_collection_is_never_a_target(working_folder: Path, tmp_path: Path) -> None:
    collection = working_folder / "collection.anki2"
    collection.write_bytes(b"SQLite format 3\0 and so on")
    app = make_app(tmp_path, collection, options=AppOptions(jobs=0))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_export(pilot)
        app.screen.query_one(Input).value = str(collection)
        app.screen.query_one(Input).focus()
        await pilot.press("enter")
        await wait_until(pilot, lambda: "is not overwritten" in refusal(app))


async def test_failed_writing_shows_an_error(working_folder: Path, tmp_path: Path) -> None:
    def full(*_: Any, **__: Any) -> Sequence[Path]:
        from srs_eval.data.errors import InputError

        raise InputError('"report.html" cannot be written (No space left on device).')

    app = make_app(tmp_path, FILE, write_report=full, options=AppOptions(jobs=0))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_export(pilot)
        await pilot.press("tab", "enter")
        await wait_until(pilot, is_on_screen(app, "ErrorDialog"))
        assert "No space left" in screen_text(app)


def endless(*_: Any, **__: Any) -> Sequence[Path]:
    send((2, 9, "often"))
    time.sleep(300)
    return []


@pytest.mark.slow
async def test_report_shows_progress_and_can_be_cancelled(
    working_folder: Path, tmp_path: Path
) -> None:
    app = make_app(tmp_path, FILE, write_report=endless, options=AppOptions(jobs=1))
    async with app.run_test(size=(80, 24)) as pilot:
        await to_export(pilot)
        await pilot.press("tab", "enter")
        await wait_until(pilot, lambda: "report: step 2 of 9" in screen_text(app))
        await pilot.press("m")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: "report: step 2 of 9" in screen_text(app))
        await pilot.press("x")
        await wait_until(pilot, lambda: "still being written" in " ".join(app.notices))
        assert type(app.screen).__name__ == "RunScreen"
        await pilot.press("c")
        await wait_until(pilot, lambda: not app.session.reports.progress)
        assert "report: step 2 of 9" not in screen_text(app)
        await wait_until(pilot, lambda: not app.session.reports.is_alive)
    assert not list(working_folder.iterdir())


@pytest.mark.slow
async def test_export_states_how_many_models_are_ranked(
    working_folder: Path, tmp_path: Path
) -> None:
    engine = FakeEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, engine.holding.is_set)
        await pilot.press("x")
        await wait_until(pilot, is_on_screen(app, "ExportScreen"))
        await wait_until(
            pilot, lambda: "that have finished: 3 of 8 models so far" in screen_text(app)
        )
        engine.go.set()


@pytest.mark.slow
async def test_the_report_is_that_of_the_command(working_folder: Path, tmp_path: Path) -> None:
    """Write a real report in its own process: answers, finished models, no names."""
    path = working_folder / "collection.anki2"
    write_collection(simulate_learner(5, 1_500), path)
    app = WatchedApp(path, AppOptions(models="AVG,FSRS-6-dry-run", jobs=1), state_folder=tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: not app.session.overview.waiting, 240)
        await wait_until(pilot, lambda: not app.session.models.run.is_running, 240)
        await pilot.press("x")
        await wait_until(pilot, is_on_screen(app, "ExportScreen"))
        app.screen.query_one(OptionList).action_last()
        await wait_until(pilot, lambda: app.screen.query_one(Input).value.endswith(".json"))
        app.screen.query_one(Checkbox).value = True
        await pilot.click("#write")
        await wait_until(pilot, lambda: (working_folder / "srs-eval-report.json").exists(), 240)
    app.session.shut_down()
    report = json.loads((working_folder / "srs-eval-report.json").read_text())
    ranked = report["tables"]["ranking"]["rows"]
    assert {"average", "FSRS-6 defaults"} <= {row["model"] for row in ranked}
    assert "calibration" in report["tables"]
    assert "collection.anki2" not in json.dumps(report)
