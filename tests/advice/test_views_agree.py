"""The app, a report, `compare` and its JSON, and a notebook say the same, finding by finding.

Of the fixture, and of three people's files in the folder that SRS_EVAL_REAL names.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import srs_eval
from srs_eval.advice import shown
from srs_eval.advice.findings import Finding
from srs_eval.advice.overview import Overview, overview
from srs_eval.advice.questions import OF_PRESETS
from srs_eval.advice.sentences import times_in_100
from srs_eval.data.protocol import Protocol
from srs_eval.engine.run import Run
from srs_eval.report.document import Document, Section, Table
from srs_eval.report.learner import learner_report
from tests.cli.program import main_here
from tests.conftest import shared_or_skip

REAL = ("IllDepence.anki2", "supermemo-andyjak.txt", "niplav-revlog.csv")
Said = dict[tuple[str, str], tuple[str | None, float | None]]


@pytest.fixture(params=["fixture", "suspended", *REAL])
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
            each.act or None,
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


def test_all_views_say_the_same(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srs_eval.report.learner._workload", lambda *_, **__: "")
    log = srs_eval.load(path)

    target = tmp_path / "answers.json"
    done = main_here("compare", path, "--json", target)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    in_json = json.loads(target.read_text("utf-8"))["findings"]
    by_json: Said = {
        (each["question"], each["subject"]): (each["act"], each["probability"]) for each in in_json
    }
    assert any(act for act, _ in by_json.values())

    assert said_by(srs_eval.compare(log)) == by_json

    app = Overview.begun(log)
    for answers, questions in overview(log):
        app.add(answers, questions)
    by_app = said_by(app.answers)
    both = by_app.keys() & by_json.keys()
    assert {question for question, _ in both} >= {OF_PRESETS}
    assert {key: by_app[key] for key in both} == {key: by_json[key] for key in both}
    asked = {question for question, _ in by_app}
    assert all(key in both for key in by_json if key[0] in asked - {"noise"})
    lines = {(line.question, line.title): line for line in app.lines}
    for question, subject in both:
        probability = by_json[question, subject][1]
        if question == OF_PRESETS and probability is not None:
            line = lines[question, subject]
            assert f"{times_in_100(probability)} of 100" in line.text
            (finding,) = (each for each in app.of(question) if each.subject == subject)
            assert line.way == shown.act(finding)

    document = learner_report(log, Run(), Protocol(), tell=lambda *_: None)
    said = " ".join(" ".join(words_of(document)).split())
    for each in in_json:
        for sentence in each["sentences"]:
            assert sentence in text
        if (each["question"], each["subject"]) in both:
            assert each["sentences"][0].rstrip(".") in said
    left = "nothing is left to schedule"
    assert {text.count(left), said.count(left)} == {int("suspended" in path.name)}
    (table,) = (each for each in _tables(document) if each.name == "what-to-do")
    assert {row[0]: (row[1], row[2]) for row in table.rows} == {
        line.title: (line.way.capitalize(), line.text) for line in app.lines if line.way
    }


def _tables(value: Any) -> Iterator[Table]:
    if isinstance(value, Table):
        yield value
    elif isinstance(value, Document):
        yield from (found for each in value.sections for found in _tables(each))
    elif isinstance(value, Section):
        yield from (found for each in value.blocks for found in _tables(each))
