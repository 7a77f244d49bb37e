"""Control characters in names of files, decks, presets and models reach no terminal."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from srs_eval.cli.main import main
from srs_eval.data.errors import format_csv, printable, sanitize
from srs_eval.models.configurations import resolve_configurations
from srs_eval.report.console import make_console
from srs_eval.report.export import flatten_table, format_run_csv
from srs_eval.stats.tables import Column, Figure, Table
from tests.helpers.hostile_names import OBEYED, WICKED
from tests.helpers.tables import format_log
from tools.simulated import simulate_learner, write_collection

pytestmark = pytest.mark.skipif(os.name != "posix", reason="names that other systems refuse")


def test_printable_removes_control_characters() -> None:
    text = printable(f"a\n{WICKED}\tb")
    assert not OBEYED.search(text)
    assert "\t" not in text
    assert "[red]" in text
    assert "gpj" in text
    assert printable("x" * 400) == "x" * 299 + "…"
    assert printable("caf\N{LATIN SMALL LETTER E WITH ACUTE}　日本語 👩\u200d👧 می\u200cخواهم") == (
        "caf\N{LATIN SMALL LETTER E WITH ACUTE}　日本語 👩\u200d👧 می\u200cخواهم"
    )
    assert printable(b"\xff.csv".decode("utf-8", "surrogateescape")) == "\ufffd.csv"
    assert sanitize("two\nlines\tas they are\x1b[0m") == "two\nlines\tas they are\ufffd[0m"


def test_console_writes_no_control_sequences_of_names() -> None:
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
    ids=lambda command: " ".join(command).replace(WICKED, "WICKED"),
)
def test_no_command_prints_control_characters_of_names(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / WICKED
    folder.mkdir()
    file = folder / f"{WICKED}.csv"
    file.write_text(format_log())
    result = {"metrics": {"LogLoss": 0.4}, "user": 1, "size": 9}
    (folder / f"{WICKED}.jsonl").write_text(json.dumps(result))
    user_folder = folder / "revlogs" / "user_id=1"
    user_folder.mkdir(parents=True)
    (user_folder / "data.parquet").write_bytes(b"PAR1")
    command = [argument.format(file=file, folder=folder) for argument in arguments]
    main(command)
    captured = capsys.readouterr()
    assert not OBEYED.search(captured.out + captured.err), captured
    assert captured.out + captured.err
    if "--json" in arguments and "-" in arguments:
        document = json.loads(captured.out)
        assert (document.get("path") or document["source"]["path"]) == str(file)


def test_unreadable_path_is_reported_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "a\x1b[31m\n\u202e.anki2"]) == 2
    message = capsys.readouterr().err
    assert not OBEYED.search(message)
    assert message.count("\n") == 1


# --- spreadsheets


FORMULAS = ("=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1")


def test_formulas_of_names_are_text_in_every_csv() -> None:
    """Check that formulas are quoted, and that numbers and other texts stay as they are."""
    cells = (*FORMULAS, "a=1", "-", "", None, -0.5, -3, True)
    (row,) = csv.reader(io.StringIO(format_csv([cells]), newline=""))
    quoted = [f"'{formula}".replace("\r", "\ufffd") for formula in FORMULAS]
    assert row == [*quoted, "a=1", "-", "", "", "-0.5", "-3", "True"]
    table = Table("t", "", (Column("=name"), Column("n")), (("=1+1", Figure(-2.5)), ("ok", None)))
    assert format_csv(flatten_table(table, {})) == "'=name,n\n'=1+1,-2.5\nok,\n"
    document: dict[str, Any] = {"results": [], "skipped": []}
    document["failed"] = [{"configuration": "AVG", "reason": "=HYPERLINK(1)"}]
    (line,) = csv.DictReader(io.StringIO(format_run_csv(document, resolve_configurations("AVG"))))
    assert line["reason"] == "'=HYPERLINK(1)"


def test_preset_named_like_a_formula_is_text_in_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learner = simulate_learner(4, 300)
    presets = {
        key: replace(preset, name=f'=HYPERLINK("http://x","{key}")')
        for key, preset in learner.presets.items()
    }
    write_collection(replace(learner, presets=presets), tmp_path / "c.anki2")
    out = tmp_path / "tables"
    assert main(["export", str(tmp_path / "c.anki2"), "--models", "AVG", "--csv", str(out)]) == 0
    written = "".join(path.read_text() for path in out.glob("*.csv"))
    assert "'=HYPERLINK" in written
    cells = list[str]()
    for row in csv.reader(io.StringIO(written)):
        cells += row
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r"))]
    assert "file" in capsys.readouterr().err
