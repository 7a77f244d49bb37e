"""The app, a report, `compare` and its JSON, and a notebook state the same findings.

The files are the fixture and three people's, in the folder that SRS_EVAL_REAL names.
"""

from __future__ import annotations

import itertools
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

import srs_eval
from srs_eval.advice.findings import Finding
from srs_eval.advice.questions import PARAMETERS
from srs_eval.advice.sentences import FirstScreen, PaneLine, PresetRow, round_down_percent
from srs_eval.data.protocol import Protocol
from srs_eval.engine.run import Run
from srs_eval.report.document import Document, Section
from srs_eval.report.files import render_as as as_text_of
from srs_eval.report.learner import build_learner_report
from srs_eval.report.plain import write_plain_screen
from srs_eval.stats.tables import Table
from tests.conftest import shared_or_skip
from tests.helpers.advice import build_overview
from tests.helpers.program import run_in_process

REAL = ("IllDepence.anki2", "supermemo-andyjak.txt", "niplav-revlog.csv")
Acts = dict[tuple[str, str], tuple[str | None, float | None]]


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
    file = Path(folder) / str(request.param)
    if not file.exists():
        pytest.skip(f"needs {request.param} in SRS_EVAL_REAL")
    return file


def collect_acts(findings: Sequence[Finding]) -> Acts:
    """Return act and probability by question and subject."""
    return {
        (finding.question, finding.subject): (
            finding.recommendation or None,
            None if finding.probability is None else round(finding.probability, 6),
        )
        for finding in findings
    }


def iterate_words(value: Any) -> Iterator[str]:
    """Yield all texts of a document, with the cells of its tables."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Section | Table | Document):
        for item in fields(value):
            yield from iterate_words(getattr(value, item.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from iterate_words(item)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (text for text in vars(value).values() if isinstance(text, str))


def print_panes(screen: FirstScreen) -> str:
    """Return the panes as the command line prints them without a terminal."""
    return "\n".join(write_plain_screen(screen))


def test_views_state_the_same_acts_and_sentences(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srs_eval.report.learner._estimate_costs", lambda *_, **__: "")
    log = srs_eval.load(path)

    target = tmp_path / "answers.json"
    done = run_in_process("compare", path, "--json", target)
    assert done.returncode == 0, done.stderr
    text = " ".join(run_in_process("compare", path, "--details").stdout.split())
    in_json = json.loads(target.read_text("utf-8"))["findings"]
    by_json: Acts = {
        (finding["question"], finding["subject"]): (finding["act"], finding["probability"])
        for finding in in_json
    }
    assert any(act for act, _ in by_json.values())

    assert collect_acts(srs_eval.compare(log)) == by_json

    app = build_overview(log)
    by_app = collect_acts(app.answers)
    both = by_app.keys() & by_json.keys()
    assert {question for question, _ in both} >= {PARAMETERS}
    assert {key: by_app[key] for key in both} == {key: by_json[key] for key in both}
    app_questions = {question for question, _ in by_app}
    assert all(key in both for key in by_json if key[0] in app_questions - {"noise"})
    screen = app.first_screen
    panes = print_panes(screen).rstrip()
    assert done.stdout.startswith(f"{panes}\n\n")
    ran = run_in_process("run", path, "--models", "AVG", "--jobs", "0")
    assert ran.stdout.startswith(panes)
    if screen.copyable is not None:
        copied = collect_acts([screen.copyable])
        assert copied.items() <= by_json.items()

    document = build_learner_report(log, Run(), Protocol(), on_question=lambda *_: None)
    report_text = " ".join(" ".join(iterate_words(document)).split())
    for finding in in_json:
        for sentence in finding["sentences"]:
            assert sentence in text
        if (finding["question"], finding["subject"]) in both:
            assert finding["sentences"][0].rstrip(".") in report_text
    remark = "nothing is left to schedule"
    assert {text.count(remark), report_text.count(remark)} == {int("suspended" in path.name)}
    assert document.panes is not None
    assert document.panes == screen
    assert document.lead == tuple(f"{pane.title} {pane.summary.text}" for pane in screen.panes)
    assert json.loads(as_text_of(document, "json"))["lead"] == list(document.lead)
    html, markdown = (unescape(as_text_of(document, form)) for form in ("html", "md"))
    for pane in screen.panes:
        for item in pane.items:
            if isinstance(item, PaneLine):
                assert item.text.strip() in html
                assert item.text.strip() in markdown.replace("\\", "")
    presets = [row_table for row_table in _tables(document) if row_table.name == "what-to-do"]
    rows = {
        item.cells[0]: item.cells[-1]
        for item in screen.panes[3].items
        if isinstance(item, PresetRow)
    }
    for name, act, sure in itertools.chain.from_iterable(preset.rows for preset in presets):
        assert rows.get(str(name), act) == act
        assert {*f"{act} {sure}".split()} <= {*done.stdout.replace(";", "").split()}
        probability = by_json[PARAMETERS, str(name)][1]
        sure_alone = probability is not None and sure != "once FSRS is on"
        assert not sure_alone or f"{round_down_percent(probability or 0)} of 100" in str(sure)


def _tables(value: Any) -> Iterator[Table]:
    if isinstance(value, Table):
        yield value
    elif isinstance(value, Document):
        for section in value.sections:
            yield from _tables(section)
    elif isinstance(value, Section):
        for block in value.blocks:
            yield from _tables(block)
