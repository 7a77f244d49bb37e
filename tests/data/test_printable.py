"""Names from outside reach no terminal as they are: files, decks, presets, models of others."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from textual.widgets import Input

from srs_eval.app import AppOptions
from srs_eval.cli.main import main
from srs_eval.data.errors import InputError, format_csv, printable, sanitize
from srs_eval.models import all_models
from srs_eval.models.configurations import resolve_configurations
from srs_eval.report.console import make_console, render_models_table
from srs_eval.report.document import Column, Figure, Table
from srs_eval.report.export import build_models_document, flatten_table, format_run_csv
from srs_eval.tui.config import RecentFile, State, save_state
from srs_eval.tui.widgets.ranking import RankingTable
from tests.tui.app_world import MODELS, FakeEngine, is_on_screen, make_app, screen_text, wait_until
from tools.simulated import simulate_learner, write_collection

WICKED = "\x1b[2J\x1b]0;owned\x07[red]\u202egpj\x9b31m"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="names that other systems refuse")


def test_what_is_shown_of_a_name() -> None:
    shown = printable(f"a\n{WICKED}\tb")
    assert not OBEYED.search(shown)
    assert "\t" not in shown
    assert "[red]" in shown
    assert "gpj" in shown
    assert printable("x" * 400) == "x" * 299 + "…"
    assert printable("caf\N{LATIN SMALL LETTER E WITH ACUTE}　日本語 👩\u200d👧 می\u200cخواهم") == (
        "caf\N{LATIN SMALL LETTER E WITH ACUTE}　日本語 👩\u200d👧 می\u200cخواهم"
    )
    assert printable(b"\xff.csv".decode("utf-8", "surrogateescape")) == "\ufffd.csv"
    assert sanitize("two\nlines\tas they are\x1b[0m") == "two\nlines\tas they are\ufffd[0m"


def test_nothing_raw_goes_to_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    make_console(stream).print(Text(f"file {WICKED}", "bold"))
    assert "\x1b[2J" not in stream.getvalue()
    assert "\x1b]0;" not in stream.getvalue()
    assert not re.search("[\x07\x9b\u202e]", stream.getvalue())
    assert "[red]" in stream.getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "{file}"],
        ["inspect", "{file}", "--json", "-"],
        ["run", "{file}", "--models", "AVG", "--no-cache"],
        ["run", "{file}", "--models", "AVG", "--no-cache", "--json", "-"],
        ["run", "{file}", "--models", "AVG", "--partitions", "deck"],
        ["run", "{file}.missing"],
        ["run", "{file}", "--models", WICKED],
        ["run", "{file}", "--deck", WICKED],
        ["run", "{file}", "--models", "AVG", "--json", "{folder}/no/x"],
        ["run", "{file}", "--models", "AVG", "--model-file", "{file}"],
        ["export", "{file}", "--models", "AVG", "--md", "-"],
        ["compare", "{file}", "--predictions", "{file}"],
        ["report", "{folder}"],
        ["report", "{folder}", "--md", "-"],
        ["results", "check", "{folder}"],
        ["dataset", "info", "{folder}"],
        ["dataset", "verify", "{folder}"],
        [WICKED],
    ],
    ids=lambda given: " ".join(given).replace(WICKED, "WICKED"),
)
def test_no_command_says_a_name_as_it_is(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / WICKED
    folder.mkdir()
    file = folder / f"{WICKED}.csv"
    lines = ["card_id,review_rating,review_time"]
    lines += [
        f"{k % 40},{1 + 2 * (k % 7 > 0)},{1_700_000_000_000 + k * 9_000_000}" for k in range(900)
    ]
    file.write_text("\n".join(lines))
    result = {"metrics": {"LogLoss": 0.4}, "user": 1, "size": 9}
    (folder / f"{WICKED}.jsonl").write_text(json.dumps(result))
    made = folder / "revlogs" / "user_id=1"
    made.mkdir(parents=True)
    (made / "data.parquet").write_bytes(b"PAR1")
    given = [each.format(file=file, folder=folder) for each in arguments]
    main(given)
    captured = capsys.readouterr()
    assert not OBEYED.search(captured.out + captured.err), captured
    assert captured.out + captured.err
    if "--json" in arguments and "-" in arguments:
        said_of = json.loads(captured.out)
        assert (said_of.get("path") or said_of["source"]["path"]) == str(file)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["header", "refusal", "crash"])
async def test_the_app_shows_names_harmlessly(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / WICKED
    here.mkdir()
    monkeypatch.chdir(here)
    path = here / f"{WICKED}.anki2"
    path.write_bytes(b"")
    save_state(State(recent=(RecentFile(str(path), 0.0, 12),)), tmp_path)
    seen: list[str] = []

    def load(*_: Any, **__: Any) -> Any:
        if kind == "refusal":
            raise InputError(f"{WICKED} is no collection.")
        if kind == "crash":
            raise RuntimeError(WICKED)
        from tests.tui.app_world import make_log

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
        seen.append(screen_text(app) + " ".join(app.said))
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
        app.screen.query_one(Input).value = str(here / "no" / "x.html")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "cannot" in look())  # one word: lines break anywhere
        app.screen.query_one(Input).value = str(here / "x.html")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Written" in look())


@pytest.mark.slow
async def test_brackets_in_names_are_no_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On every screen that names a model, and in the list of models."""
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
        {**each, "words": f"{each['words']} [red]"} for each in build_models_document()["models"]
    ]
    make_console(sys.stdout).print(render_models_table(listed, 80))
    assert "[red]" in capsys.readouterr().out


def test_a_name_that_cannot_be_a_path_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "a\x1b[31m\n\u202e.anki2"]) == 2
    said = capsys.readouterr().err
    assert not OBEYED.search(said)
    assert said.count("\n") == 1


# --- spreadsheets


FORMULAS = ("=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1")


def test_formulas_of_names_are_text_in_every_csv() -> None:
    """Numbers stay numbers; what was none of a formula stays as it is."""
    cells = (*FORMULAS, "a=1", "-", "", None, -0.5, -3, True)
    (row,) = csv.reader(io.StringIO(format_csv([cells]), newline=""))
    quoted = [f"'{each}".replace("\r", "\ufffd") for each in FORMULAS]
    assert row == [*quoted, "a=1", "-", "", "", "-0.5", "-3", "True"]
    table = Table("t", "", (Column("=name"), Column("n")), (("=1+1", Figure(-2.5)), ("ok", None)))
    assert format_csv(flatten_table(table, {})) == "'=name,n\n'=1+1,-2.5\nok,\n"
    document: dict[str, Any] = {"results": [], "skipped": []}
    document["failed"] = [{"configuration": "AVG", "reason": "=HYPERLINK(1)"}]
    (line,) = csv.DictReader(io.StringIO(format_run_csv(document, resolve_configurations("AVG"))))
    assert line["reason"] == "'=HYPERLINK(1)"


def test_a_preset_called_like_a_formula(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a collection to the folder of its report."""
    learner = simulate_learner(4, 300)
    presets = {
        key: replace(each, name=f'=HYPERLINK("http://x","{key}")')
        for key, each in learner.presets.items()
    }
    write_collection(replace(learner, presets=presets), tmp_path / "c.anki2")
    out = tmp_path / "tables"
    assert main(["export", str(tmp_path / "c.anki2"), "--models", "AVG", "--csv", str(out)]) == 0
    written = "".join(path.read_text() for path in out.glob("*.csv"))
    assert "'=HYPERLINK" in written
    cells = [cell for row in csv.reader(io.StringIO(written)) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r"))]
    assert "file" in capsys.readouterr().err
