"""The app, a report, `compare` and its JSON, and a notebook say the same, finding by finding.

Of the fixture, and of three people's files in the folder that SRS_EVAL_REAL names.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import fields, is_dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import srs_eval
from srs_eval.advice.answering import stream_answers
from srs_eval.advice.findings import Finding
from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import PARAMETERS
from srs_eval.advice.sentences import FirstScreen, PaneLine, PresetRow, round_down_percent
from srs_eval.data.protocol import Protocol
from srs_eval.engine.run import Run
from srs_eval.report.document import Document, Section, Table
from srs_eval.report.files import render_as as as_text_of
from srs_eval.report.learner import build_learner_report
from srs_eval.report.panes import render_first_screen
from tests.cli.program import run_in_process
from tests.conftest import shared_or_skip

REAL = ("IllDepence.anki2", "supermemo-andyjak.txt", "niplav-revlog.csv")
Said = dict[tuple[str, str], tuple[str | None, float | None]]


@pytest.fixture(params=[pytest.param("fixture", marks=pytest.mark.slow), "suspended", *REAL])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param in ("fixture", "suspended"):
        fixture = shared_or_skip("anki", "fixtures", "collection.anki2")
        if request.param == "fixture":
            return fixture
        copied = tmp_path / "suspended.anki2"
        copied.write_bytes(fixture.read_bytes())
        with closing(sqlite3.connect(copied)) as connection, connection:
            connection.execute("update cards set queue = -1")
        return copied
    folder = os.environ.get("SRS_EVAL_REAL")
    if folder is None:
        pytest.skip("needs SRS_EVAL_REAL, a folder with people's files")
    found = Path(folder) / str(request.param)
    if not found.exists():
        pytest.skip(f"needs {request.param} in SRS_EVAL_REAL")
    return found


def said_by(findings: Sequence[Finding]) -> Said:
    """Act and probability, by question and subject."""
    return {
        (each.question, each.subject): (
            each.recommendation or None,
            None if each.probability is None else round(each.probability, 6),
        )
        for each in findings
    }


def words_of(value: Any) -> Iterator[str]:
    """All that a document says, with the cells of its tables."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Section | Table | Document):
        for each in fields(value):
            yield from words_of(getattr(value, each.name))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from words_of(each)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (each for each in vars(value).values() if isinstance(each, str))


def panes_printed(screen: FirstScreen) -> str:
    """As the command line prints them without a terminal."""
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    console.print(render_first_screen(screen, 80))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_all_views_say_the_same(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srs_eval.report.learner._workload", lambda *_, **__: "")
    log = srs_eval.load(path)

    target = tmp_path / "answers.json"
    done = run_in_process("compare", path, "--json", target)
    assert done.returncode == 0, done.stderr
    printed, _, table = done.stdout.partition("\npreset ")
    text = " ".join(run_in_process("compare", path, "--details").stdout.split())
    in_json = json.loads(target.read_text("utf-8"))["findings"]
    by_json: Said = {
        (each["question"], each["subject"]): (each["act"], each["probability"]) for each in in_json
    }
    assert any(act for act, _ in by_json.values())

    assert said_by(srs_eval.compare(log)) == by_json

    app = Overview.start(log)
    for answers, questions in stream_answers(log):
        app.add(answers, questions)
    by_app = said_by(app.answers)
    both = by_app.keys() & by_json.keys()
    assert {question for question, _ in both} >= {PARAMETERS}
    assert {key: by_app[key] for key in both} == {key: by_json[key] for key in both}
    asked = {question for question, _ in by_app}
    assert all(key in both for key in by_json if key[0] in asked - {"noise"})
    screen = app.first_screen
    panes = panes_printed(screen).rstrip()
    assert printed.rstrip() == panes
    ran = run_in_process("run", path, "--models", "AVG", "--jobs", "0")
    assert ran.stdout.startswith(panes)
    if screen.copyable is not None:
        copied = said_by([screen.copyable])
        assert copied.items() <= by_json.items()

    document = build_learner_report(log, Run(), Protocol(), on_question=lambda *_: None)
    said = " ".join(" ".join(words_of(document)).split())
    for each in in_json:
        for sentence in each["sentences"]:
            assert sentence in text
        if (each["question"], each["subject"]) in both:
            assert each["sentences"][0].rstrip(".") in said
    left = "nothing is left to schedule"
    assert {text.count(left), said.count(left)} == {int("suspended" in path.name)}
    assert document.panes is not None
    assert document.panes == screen
    assert document.lead == tuple(f"{each.title} {each.summary.text}" for each in screen.panes)
    assert json.loads(as_text_of(document, "json"))["lead"] == list(document.lead)
    html, markdown = (unescape(as_text_of(document, form)) for form in ("html", "md"))
    for line in (
        each for pane in screen.panes for each in pane.items if isinstance(each, PaneLine)
    ):
        assert line.text.strip() in html
        assert line.text.strip() in markdown.replace("\\", "")
    presets = [each for each in _tables(document) if each.name == "what-to-do"]
    rows = {
        each.cells[0]: each.cells[-1]
        for each in screen.panes[3].items
        if isinstance(each, PresetRow)
    }
    for name, act, sure in (row for each in presets for row in each.rows):
        assert rows.get(str(name), act) == act
        assert {*f"{act} {sure}".split()} <= {*table.split()}
        probability = by_json[PARAMETERS, str(name)][1]
        sure_alone = probability is not None and sure != "once FSRS is on"
        assert not sure_alone or f"{round_down_percent(probability or 0)} of 100" in str(sure)


def _tables(value: Any) -> Iterator[Table]:
    if isinstance(value, Table):
        yield value
    elif isinstance(value, Document):
        yield from (found for each in value.sections for found in _tables(each))
    elif isinstance(value, Section):
        yield from (found for each in value.blocks for found in _tables(each))
