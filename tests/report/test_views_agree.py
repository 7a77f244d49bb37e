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
from dataclasses import fields, is_dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import srs_eval
from srs_eval.advice import shown
from srs_eval.advice.findings import (
    Calibration,
    Check,
    ExcludedCards,
    Finding,
    Fit,
    MissingData,
    Month,
    Months,
    PresetParameters,
    RecallGroup,
    Recommendation,
    Retention,
    Sharing,
    get_evidence,
)
from srs_eval.advice.questions import PARAMETERS
from srs_eval.advice.sentences import FirstScreen, PaneLine, PresetRow, round_down_percent
from srs_eval.advice.shown.memory import list_recall_by_month
from srs_eval.data.protocol import Protocol
from srs_eval.engine.run import Run
from srs_eval.models import fsrs6
from srs_eval.report.document import Document, Section
from srs_eval.report.files import render_as as as_text_of
from srs_eval.report.learner import build_learner_report
from srs_eval.report.plain import write_plain_screen
from srs_eval.stats.intervals import Interval
from srs_eval.stats.tables import Table
from tests.conftest import shared_or_skip
from tests.helpers.advice import build_overview, build_screen
from tests.helpers.program import run_in_process
from tests.tui.app_world import make_answers

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
    remark = "so presets cannot be evaluated"
    assert {text.count(remark), report_text.count(remark)} == {int("suspended" in path.name)}
    assert document.panes is not None
    assert document.panes == screen
    assert document.lead == tuple(
        " ".join([title, *(line.text for line in pane.answers)])
        for title, pane in screen.titled_panes
    )
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
        words = {*f"{act} {sure}".replace("●", "").replace("○", "").split()}
        assert words <= {*done.stdout.replace(";", "").split()}
        probability = by_json[PARAMETERS, str(name)][1]
        sure_alone = probability is not None and sure != "once FSRS is on"
        assert not sure_alone or f"{round_down_percent(probability or 0)} %" in str(sure)


def _tables(value: Any) -> Iterator[Table]:
    if isinstance(value, Table):
        yield value
    elif isinstance(value, Document):
        for section in value.sections:
            yield from _tables(section)
    elif isinstance(value, Section):
        for block in value.blocks:
            yield from _tables(block)


# Contradictions that readers found, each with findings that brought it about


def read_first_screen(answers: Sequence[Finding], **named: Any) -> str:
    """Return the panes and the notes below them as one text."""
    return " ".join(print_panes(build_screen(answers, **named)).replace("│", " ").split())


def change_answers(question: str, **changes: object) -> list[Finding]:
    """Return made-up answers, with those to one question changed."""
    return [
        replace(finding, **changes) if finding.question == question else finding
        for finding in make_answers()
    ]


def turn_fsrs_off(probability: float = 0.97) -> list[Finding]:
    """Return made-up answers of somebody who schedules with SM-2 and asks for no retention."""
    answers = []
    for finding in make_answers():
        evidence = finding.evidence
        if isinstance(evidence, Fit):
            finding = replace(
                finding,
                recommendation=Recommendation.TURN_FSRS_ON,
                probability=probability,
                evidence=replace(evidence, fsrs_is_off=True),
            )
        elif isinstance(evidence, PresetParameters | Retention | Calibration):
            finding = replace(finding, evidence=replace(evidence, fsrs_is_off=True))
        if isinstance(evidence, Retention):
            off = replace(evidence, desired=None, fsrs_is_off=True, conclusion="not asked for")
            finding = replace(finding, evidence=off)
        answers.append(finding)
    return answers


def test_overdue_cards_are_never_beside_nothing_left() -> None:
    """Check a collection of which 681 cards are suspended, and 156 of the others overdue."""
    excluded = ExcludedCards("suspended", 681, 1_006)
    checks = (
        Check("overdue", "look", 156, 184, 39.0),
        Check("suspended", "look", 681, 1_006),
    )
    text = read_first_screen((), checks=checks, excluded_cards=excluded)
    assert "othing is left" not in text
    assert "Nothing to do" not in text
    assert "Clear the backlog first." in text
    assert "681 of your 1,006 cards are suspended, and most of your reviews were of these." in text
    assert text.count("Too few reviews of the 325 cards still in use.") == 2


def test_suspended_cards_are_not_claimed_where_all_are_deleted() -> None:
    excluded = ExcludedCards("deleted", 0, 1)
    text = read_first_screen((), excluded_cards=excluded)
    assert "Most of your reviews were of cards that you have deleted." in text
    assert "suspended" not in text


def test_turning_fsrs_on_promises_no_parameters_that_cannot_be_copied() -> None:
    answers = [
        replace(finding, parameters=None, recommendation=Recommendation.KEEP)
        if isinstance(finding.evidence, PresetParameters)
        else finding
        for finding in turn_fsrs_off()
    ]
    screen = build_screen(answers)
    assert screen.copyable is None
    assert [line.text for line in screen.panes[0].answers] == [
        "Turn FSRS on.",
        "Then keep the default parameters.",
    ]
    fit = answers[0]
    current = get_evidence(fit, Fit).rivals_of_kind("older scheduler")[0]
    with_scheduler = replace(get_evidence(fit, Fit), current_scheduler=current)
    sentence = shown.sentences(replace(fit, evidence=with_scheduler))[0]
    assert sentence.startswith("Turn FSRS on (sure, 97 %): once optimized, it would predict your")
    assert "fitted to you" not in sentence


def test_sure_act_is_not_above_doubts_about_fsrs() -> None:
    """Check the note below the panes: FSRS expects nothing while it is off."""
    group = RecallGroup("all", Interval(0.9, 0.1, 200, 20), 0.9)
    for is_off, answers in ((True, turn_fsrs_off()), (False, make_answers())):
        open_question = Finding(
            "says",
            "all presets",
            missing=MissingData(reviews=90),
            evidence=Calibration("can't tell", None, group, (), is_off),
        )
        others = [finding for finding in answers if finding.question != "says"]
        text = read_first_screen([*others, open_question])
        assert "(sure; " in text
        assert ("Too few reviews to say whether" in text) is not is_off
        assert "right about you" not in text


def test_second_pane_asks_for_nothing_while_fsrs_is_off() -> None:
    for answers in (turn_fsrs_off(), make_answers()):
        pane = build_screen(answers).panes[1]
        assert pane.title == "How well do I remember?"
    text = read_first_screen(turn_fsrs_off())
    assert "FSRS, not yet optimized, would have expected 87 %." in text
    assert "; expected" not in text
    help_text = (Path(srs_eval.__file__).parent / "tui" / "help.md").read_text("utf-8")
    assert "FSRS said" not in help_text


@pytest.mark.parametrize("has_parameters", [True, False])
def test_open_question_of_presets_agrees_with_the_act(has_parameters: bool) -> None:
    answers = []
    for finding in change_answers("split", recommendation=Recommendation.POOLED, probability=0.7):
        if isinstance(finding.evidence, PresetParameters):
            parameters = fsrs6.DEFAULT if has_parameters else None
            finding = replace(
                finding,
                recommendation=Recommendation.POOLED,
                parameters=parameters,
                probability=0.9 if has_parameters else 0.6,
            )
        answers.append(finding)
    without_habits = [finding for finding in answers if finding.question != "retention"]
    acts = " ".join(line.text for line in build_screen(without_habits).panes[0].answers)
    text = read_first_screen(without_habits)
    assert ("Paste new parameters" in acts) == has_parameters
    assert ("take account of one another" in text) == has_parameters
    assert ("it is not clear whether you forget differently in them" in text) is not has_parameters


def test_few_reviews_of_presets_say_keep_in_pane_and_evidence() -> None:
    few = Finding("split", "all presets", reviews=400, evidence=Sharing("preset", 5))
    answers = [finding for finding in make_answers() if finding.question != "split"]
    assert "Keep your 5 presets. You have too few reviews" in read_first_screen([*answers, few])
    assert shown.sentences(few)[0].startswith("Keep your 5 presets for now")


@pytest.mark.parametrize("tells_recall", [True, False])
def test_months_recalled_are_told_by_one_finding(tells_recall: bool) -> None:
    """Check that held-out reviews, which recall otherwise, are not told beside all reviews."""
    held_out = Interval(0.832, 0.03, 300, 25)
    month = Month("2024-08", held_out, 0.85, Interval(0.43, 0.03, 300, 25))
    months = Finding(
        "time",
        "2024-08",
        reviews=300,
        evidence=Months("no matter", (month,), tells_recall=tells_recall),
    )
    group = RecallGroup("2024-08", Interval(0.76, 0.02, 900, 30), 0.8)
    retention = Retention(
        "no matter", (replace(group, name="all"), group), 0.8, False, Interval(0.0, 0.01)
    )
    answers = [months]
    if not tells_recall:
        answers.append(Finding("retention", "Words", reviews=900, evidence=retention))
    told = "83" if tells_recall else "76"
    rows = "benchmark" if tells_recall else "anki"
    assert f"Aug ’24: {told}" in read_first_screen(answers, rows=rows)
    (picture_month,) = list_recall_by_month(answers)
    assert f"{100 * picture_month.recalled.estimate:.0f}" == told
    words = f"{shown.sentences(months)} {shown.tables(months)}"
    assert ("recalled" in words) is tells_recall


def test_short_report_has_all_acts_and_the_facts() -> None:
    screen = build_screen(turn_fsrs_off())
    assert len(screen.panes[0].answers) == 2
    document = Document("collection", (), (), panes=screen, facts=("4,000 reviews", "FSRS is off"))
    text = as_text_of(document, "short")
    assert "**collection** · 4,000 reviews · FSRS is off" in text
    assert "Turn FSRS on. (sure ●●●●●, better predictions)" in text
    assert "Then press Optimize for “Default”. (sure ●●●●●, better predictions)" in text


def test_badge_of_optimizing_while_fsrs_is_off_is_that_of_its_row() -> None:
    answers = []
    for finding in turn_fsrs_off(0.9):
        if finding.subject == "Default" and isinstance(finding.evidence, PresetParameters):
            finding = replace(finding, probability=0.6)
        answers.append(finding)
    screen = build_screen(answers)
    assert [line.right_text.partition("  ")[0] for line in screen.panes[0].answers] == [
        "likely ●●●●○",
        "best bet, 60 %",
    ]
    row = shown.line([answers[1]])
    assert row == "once FSRS is on: best bet, 60 %"
