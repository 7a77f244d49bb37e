"""A report of what is known already asks nothing again, and tells no name that it should not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import srs_eval
from srs_eval.advice import questions
from srs_eval.advice.answering import stream_answers
from srs_eval.advice.findings import Finding
from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import QuestionContext
from srs_eval.advice.sentences import Bar
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.run import Run
from srs_eval.report.learner import build_learner_report, export_learner
from tests.conftest import shared_or_skip


@pytest.fixture(scope="module")
def log() -> ReviewLog:
    return srs_eval.load(shared_or_skip("anki", "fixtures", "collection.anki2"))


@pytest.fixture(scope="module")
def known(log: ReviewLog) -> tuple[Finding, ...]:
    found = Overview.start(log)
    for answers, settled in stream_answers(log):
        found.add(answers, settled)
    assert not found.waiting
    return tuple(found.answers)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Questions that are asked while this is there."""
    noted = []
    ask = questions.ask

    def noting(question: str, asked: QuestionContext) -> Any:
        noted.append(question)
        return ask(question, asked)

    monkeypatch.setattr("srs_eval.advice.answering.ask", noting)
    return noted


def exported(log: ReviewLog, folder: Path, **options: Any) -> dict[str, Any]:
    path = folder / "report.json"
    path.unlink(missing_ok=True)
    export_learner(log, Run(), Protocol(), form="json", path=path, **options)
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


@pytest.mark.slow
def test_what_is_known_is_not_asked(
    log: ReviewLog,
    known: tuple[Finding, ...],
    asked: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_hand = exported(log, tmp_path, known=known)
    assert asked == []
    monkeypatch.setattr("srs_eval.report.learner._workload", lambda *_, **__: "")
    anew = exported(log, tmp_path)
    assert {"fit", "parameters", "split", "day", "standing"} <= set(asked)
    assert at_hand["lead"] == anew["lead"]
    del at_hand["tables"]["what-to-do"], anew["tables"]["what-to-do"]  # noise is beside presets
    for name, table in anew["tables"].items():
        assert at_hand["tables"][name] == table, name


def test_the_first_screen_is_the_apps(log: ReviewLog, known: tuple[Finding, ...]) -> None:
    """With the ranges of costs that it has, too."""
    report = build_learner_report(log, Run(), Protocol(), known=known)
    assert report.panes == Overview.from_answers(log, known).first_screen
    assert report.panes is not None
    assert any(isinstance(each, Bar) and each.range_end for each in report.panes.panes[2].items)


def test_only_what_is_not_known_is_asked(
    log: ReviewLog, known: tuple[Finding, ...], asked: list[str], tmp_path: Path
) -> None:
    without = tuple(each for each in known if each.question not in ("standing", "retention"))
    exported(log, tmp_path, known=without)
    assert sorted(asked) == ["retention", "standing"]


@pytest.mark.slow
def test_names_are_left_out_of_what_is_known(
    log: ReviewLog, known: tuple[Finding, ...], asked: list[str], tmp_path: Path
) -> None:
    named = json.dumps(exported(log, tmp_path, known=known), ensure_ascii=False)
    said = json.dumps(exported(log, tmp_path, known=known, anonymous=True), ensure_ascii=False)
    assert "parameters" in asked  # anew: of the log without names
    names = {log.preset_name(key) for key in log.presets} - {"Default"}
    names |= {deck.name for deck in log.decks.values()} - {"Default"}
    assert any(name in named for name in names)
    for name in names:
        assert not re.search(rf"\b{re.escape(name)}\b", said), name
    assert "preset 1" in said
