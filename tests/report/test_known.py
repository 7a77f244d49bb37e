"""A report from saved findings asks nothing again, and an anonymous one tells no names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import srs_eval
from srs_eval.advice import questions
from srs_eval.advice.findings import Finding
from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import QuestionContext
from srs_eval.advice.sentences import Bar
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.run import Run
from srs_eval.engine.schedulability import Measurement
from srs_eval.models.configurations import resolve_configurations
from srs_eval.report import learner
from srs_eval.report.learner import build_learner_report, export_learner
from tests.conftest import shared_or_skip
from tests.helpers.advice import build_overview


@pytest.fixture(scope="module")
def log() -> ReviewLog:
    return srs_eval.load(shared_or_skip("anki", "fixtures", "collection.anki2"))


@pytest.fixture(scope="module")
def saved_findings(log: ReviewLog) -> tuple[Finding, ...]:
    overview = build_overview(log)
    assert not overview.waiting
    return tuple(overview.answers)


@pytest.fixture
def asked_questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the questions that are asked."""
    noted = []
    ask = questions.ask

    def noting(question: str, context: QuestionContext) -> Any:
        noted.append(question)
        return ask(question, context)

    monkeypatch.setattr("srs_eval.advice.answering.ask", noting)
    return noted


def export_report(log: ReviewLog, folder: Path, **options: Any) -> dict[str, Any]:
    path = folder / "report.json"
    path.unlink(missing_ok=True)
    export_learner(log, Run(), Protocol(), form="json", path=path, **options)
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


@pytest.mark.slow
def test_report_of_saved_findings_asks_nothing(
    log: ReviewLog,
    saved_findings: tuple[Finding, ...],
    asked_questions: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_hand = export_report(log, tmp_path, known=saved_findings)
    assert asked_questions == []
    monkeypatch.setattr("srs_eval.report.learner._estimate_costs", lambda *_, **__: "")
    anew = export_report(log, tmp_path)
    assert {"fit", "parameters", "split", "day", "standing"} <= set(asked_questions)
    assert at_hand["lead"] == anew["lead"]
    del at_hand["tables"]["what-to-do"]  # noise is beside presets
    del anew["tables"]["what-to-do"]
    for name, table in anew["tables"].items():
        assert at_hand["tables"][name] == table, name


def test_models_in_measurements_are_not_asked_again(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        SimpleNamespace(configuration=configuration, result=SimpleNamespace(invalid_reason=""))
        for configuration in resolve_configurations("FSRS-6,FSRS-5", Protocol())
    ]
    known = {"FSRS-6": Measurement(lines[0].configuration)}
    asked = []

    def measure(session: Any, configurations: Any, *_: Any, **__: Any) -> Iterator[Measurement]:
        asked.extend(configuration.name for configuration in configurations)
        yield Measurement(configurations[0])

    monkeypatch.setattr(learner, "measure_configurations", measure)
    run = SimpleNamespace(ranked_results=lambda: lines, results_by_name=dict)
    measurements = learner._measure_schedulability(log, cast(Run, run), None, known)
    assert asked == ["FSRS-5"]
    assert list(measurements) == ["FSRS-6", "FSRS-5"]


def test_report_of_saved_findings_has_their_first_screen(
    log: ReviewLog, saved_findings: tuple[Finding, ...]
) -> None:
    """Check that the ranges of costs are there, too."""
    report = build_learner_report(log, Run(), Protocol(), known=saved_findings)
    assert report.panes == Overview.from_answers(log, saved_findings).first_screen
    assert report.panes is not None
    assert any(isinstance(item, Bar) and item.range_end for item in report.panes.panes[2].items)


def test_report_asks_only_questions_without_a_finding(
    log: ReviewLog, saved_findings: tuple[Finding, ...], asked_questions: list[str], tmp_path: Path
) -> None:
    without = tuple(
        finding for finding in saved_findings if finding.question not in ("standing", "retention")
    )
    export_report(log, tmp_path, known=without)
    assert sorted(asked_questions) == ["retention", "standing"]


@pytest.mark.slow
def test_anonymous_report_of_saved_findings_has_no_names(
    log: ReviewLog, saved_findings: tuple[Finding, ...], asked_questions: list[str], tmp_path: Path
) -> None:
    named = json.dumps(export_report(log, tmp_path, known=saved_findings), ensure_ascii=False)
    anonymous = json.dumps(
        export_report(log, tmp_path, known=saved_findings, anonymous=True), ensure_ascii=False
    )
    assert "parameters" in asked_questions  # asked again, of the log without names
    names = {log.preset_name(key) for key in log.presets} - {"Default"}
    names |= {deck.name for deck in log.decks.values()} - {"Default"}
    assert any(name in named for name in names)
    for name in names:
        assert not re.search(rf"\b{re.escape(name)}\b", anonymous), name
    assert "preset 1" in anonymous
