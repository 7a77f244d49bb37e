"""A learner's overview: answers in one line each, the screens, and the parameters they copy."""

from __future__ import annotations

import itertools
import math
import os
import random
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.widgets import SelectionList

import srs_eval
from srs_eval.advice import shown
from srs_eval.advice.answering import _order_for_compilation, stream_answers
from srs_eval.advice.candidates import ALL_REVIEWS_PROTOCOL, Learner
from srs_eval.advice.findings import (
    ExcludedCards,
    Finding,
    Fit,
    Health,
    MissingData,
    Months,
    OptimizationFrequency,
    RecallGroup,
    Retention,
    Rival,
    Sharing,
    Unanswered,
    make_unanswered,
)
from srs_eval.advice.fsrs import assess_fit
from srs_eval.advice.over_time import assess_calibration, assess_predictability, assess_retention
from srs_eval.advice.overview import INCONCLUSIVE_LINE, Overview
from srs_eval.advice.parameters import assess_parameters
from srs_eval.advice.questions import (
    CHECKS,
    FURTHER_QUESTIONS,
    PARAMETERS,
    QUESTION_REGISTRY,
    TASKS_WITH_PRESETS,
    TASKS_WITHOUT_PRESETS,
    TAUGHT_PARAMETERS,
)
from srs_eval.advice.saved_answers import SavedAnswers, load_answers, save_answers
from srs_eval.advice.sentences import (
    format_difference_with_range,
    format_month,
    format_parameters,
    parse_parameters,
)
from srs_eval.advice.shown.columns import log_loss_difference, make_evidence_table
from srs_eval.advice.workload.estimate import estimate_at_a_glance
from srs_eval.app import AppOptions
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import Cards, ReviewLog
from srs_eval.engine.workers import send
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import Interval, mean_interval, ratio_interval
from srs_eval.training.hyperparameters import Context
from srs_eval.tui.widgets.facts import render_table_with_intervals
from tests.conftest import PATIENCE, shared_or_skip, write_simulated_collection
from tests.helpers.advice import build_overview
from tests.helpers.marks import slow_except
from tests.tui.app_world import (
    MODELS,
    FakeAnswers,
    FakeEngine,
    is_on_screen,
    make_answers,
    make_app,
    make_costs,
    make_log,
    screen_text,
    wait_until,
)

EVIDENCE_ONLY = {name for name, question in QUESTION_REGISTRY.items() if question.is_evidence_only}
FILE = Path("collection.anki2")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> ReviewLog:
    return srs_eval.load(write_simulated_collection(tmp_path_factory, 4, 4_000))


def first_sentence(overview: Overview) -> str:
    """Return the sentence on how well FSRS predicts."""
    (fit,) = overview.find_answers("fit")
    return shown.sentences(fit)[0]


# The engine's side


@pytest.mark.slow
def test_overview_prepares_its_learner_once(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that all questions on presets share one learner; only the costs have their own."""
    logs: list[ReviewLog] = []
    make_learner = Learner.of

    def counted(log: ReviewLog, context: Context, *protocol: Any, **named: Any) -> Learner:
        if not protocol:  # the learner of the presets
            logs.append(log)
        return make_learner(log, context, *protocol, **named)

    monkeypatch.setattr(Learner, "of", staticmethod(counted))
    build_overview(log)
    assert len(logs) == 2


def test_overview_has_an_answer_and_a_line_for_every_question(log: ReviewLog) -> None:
    overview = build_overview(log)
    assert overview.row_rule == "anki"
    assert not overview.waiting
    questions = set(itertools.chain.from_iterable(TASKS_WITH_PRESETS)) - EVIDENCE_ONLY
    questions.remove(TAUGHT_PARAMETERS)  # its answers are to PARAMETERS
    assert questions <= {finding.question for finding in overview.answers}
    with_line: set[str] = set()
    for line in overview.lines:
        with_line |= {finding.question for finding in line.answers}
    # All that can't be told yet is one line.
    assert with_line - EVIDENCE_ONLY == questions - {"steps"}
    assert all(shown.line(line.answers[-1:]) for line in overview.lines)
    presets = [line for line in overview.lines if line.question == PARAMETERS]
    assert len(presets) == 2  # the presets in use, of three
    assert all(" %" in shown.line(line.answers[:1]) for line in presets)


def test_overview_without_presets_answers_what_needs_none(log: ReviewLog) -> None:
    overview = build_overview(replace(log, decks={}, presets={}, cards=Cards.empty()))
    assert overview.row_rule == "benchmark"
    assert all(line.question != "split" for line in overview.lines)
    (line_of_all,) = (line for line in overview.lines if line.question == PARAMETERS)
    assert (line_of_all.title, line_of_all.answers[0].recommendation) == ("all reviews", "optimize")
    assert line_of_all.parameters == line_of_all.answers[0].parameters
    assert all(line.answers for line in overview.lines)


def test_overview_of_eight_reviews_says_too_little_data(log: ReviewLog) -> None:
    assert log.entries is not None
    few = replace(
        log, entries=replace(log.entries, **{n: c[:8] for n, c in vars(log.entries).items()})
    )
    overview = build_overview(few)
    assert not overview.waiting
    assert all("too little data" in shown.line(line.answers) for line in overview.lines)


def test_open_question_has_a_line_too() -> None:
    overview = Overview.start(make_log())
    assert not any(line.answers for line in overview.lines)
    overview.add(make_answers()[1:2])  # a preset's; more may come
    assert [line.title for line in overview.lines[:2]] == ["Default", "FSRS for you?"]
    (finding,) = overview.lines[0].answers
    assert finding.recommendation == "optimize"
    assert shown.line([finding]) == "●●●●● sure, 97 %"


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("jobs", [1, 2])
def test_costs_start_early_if_kernels_must_be_compiled(
    monkeypatch: pytest.MonkeyPatch, missing: bool, jobs: int
) -> None:
    """Check that costs, whose kernels nothing else needs, come second, not last."""
    monkeypatch.setattr("srs_eval.advice.answering.must_compile", lambda configuration: missing)
    for tasks, early in ((TASKS_WITH_PRESETS, "costs"), (TASKS_WITHOUT_PRESETS, "day")):
        begun = _order_for_compilation(tasks, jobs)
        questions = list(itertools.chain.from_iterable(tasks))
        questions_begun = list(itertools.chain.from_iterable(begun))
        assert sorted(questions_begun) == sorted(questions)
        assert begun[0][0] == "fit"
        assert (begun[1] == (early,)) == (missing and jobs > 1)
        questions.remove(early)
        questions_begun.remove(early)
        assert questions_begun == questions


def die_at_costs(questions: tuple[str, ...]) -> list[Finding]:
    for question in questions:
        if question == "costs":
            os._exit(1)
        answer = Finding(question, "Default")
        send(((answer,), (question,)))
    return []


def answer_at_once(questions: tuple[str, ...]) -> list[Finding]:
    answers = [Finding(question, "Default") for question in questions]
    for answer in answers:
        send(((answer,), ()))
        send(((answer,), (answer.question,)))
    return answers


def test_each_question_is_settled_once(monkeypatch: pytest.MonkeyPatch, log: ReviewLog) -> None:
    monkeypatch.setattr("srs_eval.advice.answering._answer_task", answer_at_once)
    settled: list[str] = []
    for _, questions in stream_answers(log, jobs=2):
        settled += questions
    assert sorted(settled) == sorted(Overview.start(log).waiting)


def test_answers_remain_if_the_worker_dies_at_a_later_question(
    monkeypatch: pytest.MonkeyPatch, log: ReviewLog
) -> None:
    monkeypatch.setattr("srs_eval.advice.answering._answer_task", die_at_costs)
    overview = Overview.start(log)
    for answers, questions in stream_answers(log, jobs=2):
        overview.add(answers, questions)
    assert overview.waiting == []
    unanswered = [
        finding.question for finding in overview.answers if isinstance(finding.evidence, Unanswered)
    ]
    assert unanswered == ["costs"]


@given(st.integers(0, 1_000), st.floats(0.5, 2.0))
def test_ratio_interval_does_not_depend_on_the_unit(seed: int, unit: float) -> None:
    drawn = np.random.default_rng(seed)
    total = drawn.random(200) + 0.2
    day = np.arange(200) // 5
    saved = total * drawn.random(200)
    ratio = ratio_interval(saved, total, day)
    scaled = ratio_interval(saved * unit, total * unit, day)
    assert scaled.estimate == pytest.approx(ratio.estimate)
    assert scaled.half_width == pytest.approx(ratio.half_width)
    # Every review saves the same share: no doubt.
    constant = ratio_interval(0.3 * total, total, day)
    assert constant.estimate == pytest.approx(0.3)
    assert constant.half_width == pytest.approx(0.0, abs=1e-12)
    assert ratio.half_width < mean_interval(saved / total.mean(), day).half_width * 5


@pytest.mark.slow
def test_overview_of_the_fixture_has_evidence_for_its_lines() -> None:
    overview = build_overview(srs_eval.load(shared_or_skip("anki", "fixtures", "collection.anki2")))
    lines = {line.title: line for line in overview.lines}
    vocabulary = lines["Vocabulary"]
    assert vocabulary.answers[0].recommendation != "keep"
    assert vocabulary.parameters is not None
    line = format_parameters(vocabulary.parameters)
    assert parse_parameters(line) == pytest.approx(vocabulary.parameters, abs=5e-5)
    assert [finding.question for finding in vocabulary.answers] == [
        "parameters",
        "buttons",
        "noise",
    ]
    _, buttons, noise = vocabulary.answers
    in_force, optimized, _ = shown.tables(buttons)
    assert [row[0] for row in in_force.rows] == [row[0] for row in optimized.rows]
    assert in_force.rows[0][0] == "new"
    assert in_force.rows != optimized.rows
    assert len(shown.tables(noise)[0].rows) == 21
    assert shown.line(lines["When FSRS says"].answers).startswith("90 %, you recall 8")
    assert first_sentence(overview).startswith("FSRS predicts your answers well: ")


# The screens


@pytest.mark.slow
async def test_answers_appear_as_they_come_before_the_models(tmp_path: Path) -> None:
    answers = FakeAnswers(hold_at="often")
    engine = FakeEngine()
    app = make_app(tmp_path, FILE, answer=answers, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: "Press Optimize for “Default”." in screen_text(app))
        await wait_until(pilot, lambda: "questions to go" in screen_text(app))
        assert "at much the same rate" in screen_text(app)
        assert not engine.requests  # the answers come first
        answers.go.set()
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await wait_until(
            pilot, lambda: len(app.session.models.run.results_by_name()) == len(MODELS)
        )
        await pilot.press("m")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: "8 of 8 models finished" in screen_text(app))
        assert len(engine.requests) == 1
        await pilot.press("escape", "ctrl+o")
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))


@pytest.mark.slow
async def test_models_of_the_file_before_are_not_counted(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "models: 8 of 8" in screen_text(app))
        await pilot.press("ctrl+o")
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        app.session.overrides["answer"] = FakeAnswers(hold_at="fit")
        app.session.open_file(Path("other.anki2"))
        await wait_until(pilot, lambda: "questions to go" in screen_text(app))
        assert "models:" not in screen_text(app)


@pytest.mark.slow
async def test_copied_parameters_are_in_ankis_format(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        line = app.session.overview.lines[0]
        assert line.parameters is not None
        await pilot.press("y")
        assert parse_parameters(app.clipboard) == pytest.approx(line.parameters, abs=5e-5)
        await pilot.press("2", "n")
        await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
        app.copy_to_clipboard("")
        await pilot.press("y")  # recall has no parameters
        await wait_until(pilot, lambda: "no parameters to copy" in " ".join(app.notices))
        assert app.clipboard == ""


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 180])
async def test_parameters_stand_alone_on_their_lines(tmp_path: Path, width: int) -> None:
    """Check that a mouse selects parameters only, and that lines break between two values."""
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(width, 48)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        line = app.session.overview.lines[0]
        assert line.parameters is not None
        values = format_parameters(line.parameters).split()
        await pilot.press("enter")
        await wait_until(pilot, lambda: values[-1] in screen_text(app))
        lines = [line.split() for line in screen_text(app).splitlines()]
        alone = [words for words in lines if words and set(words) <= set(values)]
        assert list(itertools.chain.from_iterable(alone)) == values
        assert width < 180 or len(alone) == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_copied", [True, False])
async def test_copied_is_said_only_if_the_system_took_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_copied: bool
) -> None:
    monkeypatch.setattr("srs_eval.tui.session.copy_to_system", lambda _: is_copied)
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("y")
        message = "Copied " if is_copied else "Sent "
        await wait_until(pilot, lambda: message in screen_text(app))
        assert ("Copied " in screen_text(app)) is is_copied
        assert "numbers)" in screen_text(app)  # what was copied
        assert not app.notices  # nothing covers the panes


async def test_opening_another_file_stops_unasked_models_silently(tmp_path: Path) -> None:
    engine = FakeEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, engine.holding.is_set)  # models follow the answers by themselves
        await pilot.press("ctrl+o")
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        await wait_until(pilot, engine.closed.is_set)


def test_overview_of_suspended_cards_is_evaluated_all_the_same(log: ReviewLog) -> None:
    """Check that whether FSRS fits is told though Anki's optimizer takes none of the cards."""
    cards = len(log.cards.card_id)
    suspended = replace(log.cards, suspended=np.ones(cards, np.bool_))
    overview = build_overview(replace(log, cards=suspended))
    assert overview.row_rule == "benchmark"
    assert overview.excluded_cards == ExcludedCards("suspended", cards, cards, (0.9, 0.92))
    assert first_sentence(overview).startswith("FSRS predicts your answers")
    assert {line.title for line in overview.lines} >= {"FSRS for you?", "all reviews"}
    assert Overview.start(log).excluded_cards is None


def test_overview_of_a_collection_without_cards_says_so(log: ReviewLog) -> None:
    overview = Overview.start(replace(log, cards=Cards.empty()))
    assert overview.row_rule == "benchmark"
    assert overview.excluded_cards == ExcludedCards("deleted", 0, 0)
    without_decks = replace(log, cards=Cards.empty(), decks={}, presets={})
    assert Overview.start(without_decks).excluded_cards is None


def test_overview_keeps_the_later_of_two_answers(log: ReviewLog) -> None:
    """Check that the later answer stays, though both come at once; decks are another question."""
    first, last = (make_costs(done=done).glance_finding for done in (0, 2))
    of_presets = Finding("split", "Maps", evidence=Sharing("preset", 2))
    of_decks = Finding("split", "Maps", evidence=Sharing("deck", 2))
    overview = Overview.from_answers(log, [first, of_presets, of_decks, last])
    assert overview.answers == [last, of_presets, of_decks]


def test_inspection_counts_the_rows_that_the_overview_uses(log: ReviewLog) -> None:
    """Check a log of deleted cards: Anki's optimizer takes none of them, the ranking all."""
    from srs_eval.report.inspection import inspect_log

    few = Cards(*(column[:2] for column in vars(log.cards).values()))
    overview = Overview.start(replace(log, cards=few))
    assert overview.row_rule == "benchmark"
    assert overview.excluded_cards == ExcludedCards("deleted", 0, 2, (0.9, 0.92))
    assert inspect_log(replace(log, cards=few)).rows[overview.row_rule].kept > 1_000


@pytest.mark.parametrize(
    ("low", "high", "in_short", "in_full"),
    [
        (-0.004, -0.0012, ".003 lower (.001 to .004)", "0.0026 lower (0.0012 to 0.0040)"),
        (0.001, 0.005, ".003 higher (.001 to .005)", "0.0030 higher (0.0010 to 0.0050)"),
        (-0.004, 0.002, ".001 lower (from .004 lower to .002 higher)", ""),
        (0.0, 0.004, ".002 higher (.000 to .004)", "0.0020 higher (0.0000 to 0.0040)"),
        (-0.0001, 0.0001, ".000 (.000 to .000)", "0.0000 (from 0.0001 lower to 0.0001 higher)"),
        (-11.0, -9.0, "10.000 lower (9.000 to 11.000)", ""),
    ],
)
def test_difference_with_range_says_which_side_is_lower(
    low: float, high: float, in_short: str, in_full: str
) -> None:
    difference = Interval((low + high) / 2, (high - low) / 2)
    assert format_difference_with_range(difference, 3) == in_short
    assert not in_full or format_difference_with_range(difference) == in_full
    assert format_difference_with_range(Interval(-0.002, math.nan)) == "0.0020 lower"


def test_line_of_how_often_groups_the_presets() -> None:
    answers = [
        Finding("often", "Words", "every +10 %", evidence=OptimizationFrequency("safe")),
        Finding("often", "Maps", "every +25 %", evidence=OptimizationFrequency("as good")),
        Finding("often", "Fish", "every +10 %", evidence=OptimizationFrequency("safe")),
    ]
    assert shown.line(answers[:1]) == "after 10 % more reviews, which is safe for everybody"
    assert shown.line(answers) == (
        "after 10 % more reviews, which is safe for everybody: Words and Fish; "
        "after 25 % more reviews, which is as good as optimizing all the time: Maps"
    )


def test_overview_of_300_reviews_names_only_what_is_missing(log: ReviewLog) -> None:
    """Check that no numbers appear but the reviews and days that a verdict still needs."""
    assert log.entries is not None
    first = {n: c[:300] for n, c in vars(log.entries).items()}
    overview = build_overview(replace(log, entries=replace(log.entries, **first)))
    evaluated = next(finding.interval for finding in overview.find_answers("fit"))
    assert evaluated is not None
    excluded_questions = (
        INCONCLUSIVE_LINE,
        "costs",
        "often",
        "split",
        "health",
        CHECKS,
        PARAMETERS,
        *FURTHER_QUESTIONS,
    )
    lines = [
        shown.line(line.answers)
        for line in overview.lines
        if line.question not in excluded_questions
    ]
    text = " ".join([first_sentence(overview), *lines])
    assert set(re.findall(r"[\d,]*\d", text)) == {
        f"{1_000 - evaluated.reviews:,}",
        str(20 - evaluated.days),
    }
    (split,) = (shown.line(line.answers) for line in overview.lines if line.question == "split")
    assert split.startswith("Keep your 2 presets for now: ")


@pytest.mark.parametrize("reason", ["schedule", "expecting"])
def test_retention_below_desired_is_split_by_its_reason(
    monkeypatch: pytest.MonkeyPatch, log: ReviewLog, reason: str
) -> None:
    """Check that the gaps of timing and of expectation add up to the difference."""
    presets = {key: replace(preset, desired_retention=0.97) for key, preset in log.presets.items()}
    learner = Learner.of(replace(log, presets=presets))
    recall = float(learner.trials.y.mean())
    expected = np.full(len(learner.trials), recall if reason == "schedule" else 0.97)
    monkeypatch.setattr(Learner, "active_predictions", expected)
    monkeypatch.setattr(Learner, "predict_on_due_days", lambda _: expected)
    answer = next(assess_retention(learner, list(learner.groups)))
    evidence = answer.evidence
    assert isinstance(evidence, Retention)
    assert evidence.conclusion == "below"
    in_first_group = learner.trials.partition == next(iter(learner.groups))
    difference = float(learner.trials.y[in_first_group].mean()) - 0.97
    assert evidence.shortest_gap is not None
    assert evidence.schedule_gap is not None
    schedule_gaps = evidence.shortest_gap.estimate + evidence.schedule_gap.estimate
    assert schedule_gaps + evidence.expectation_gap.estimate == pytest.approx(difference)
    assert schedule_gaps == pytest.approx(expected[0] - 0.97)
    line = shown.line([answer])
    assert any(
        "The difference, in percentage points" in sentence for sentence in shown.sentences(answer)
    )
    assert ("points less because Anki aimed at a lower retention" in line) == (reason == "schedule")
    assert ("points less because FSRS expected too much" in line) == (reason == "expecting")


def _make_fit_finding(
    conclusion: Any,
    changes: bool = False,
    verdict: Any = "better",
    defaults: Any = None,
    reviews: int = 4_000,
) -> Finding:
    difference = Interval(-0.1, 0.02, reviews, 60)
    saved = Interval(0.27, 0.08)
    loss = Interval(0.4, 0.02, reviews, 60)
    figures = loss, difference, verdict, saved
    average = Rival("average", "average", *figures)
    older = Rival("SM-2 as scheduled", "older scheduler", *figures)
    instead = older if changes else None
    evidence = Fit(
        conclusion,
        "optimized",
        Interval(0.73, 0.32),
        loss,
        (average, older),
        True,
        instead,
        defaults,
    )
    missing = None if reviews >= 1_000 else MissingData(1_000 - reviews)
    return Finding(
        "fit",
        "all reviews",
        interval=difference,
        reviews=reviews,
        missing=missing,
        evidence=evidence,
    )


@pytest.mark.parametrize("alone", ["better", "worse", "as good", "can't tell yet"])
def test_sentence_on_changing_to_fsrs_names_one_act(alone: str) -> None:
    """Check that the defaults are named only as the reason for copying parameters."""
    sentence = shown.sentences(_make_fit_finding("well", True, "better", alone))[0]
    assert sentence.count(".") == 1
    assert sentence.startswith("Change to FSRS? Yes: with parameters fitted to your reviews")
    assert ("its defaults alone" in sentence) == (alone != "better")


def test_sm2_among_rivals_is_named_as_a_candidate() -> None:
    finding = _make_fit_finding("well")
    assert isinstance(finding.evidence, Fit)
    against = (replace(finding.evidence.rivals[1], name="sm2"),)
    (table,) = shown.tables(replace(finding, evidence=replace(finding.evidence, rivals=against)))
    assert [row[0] for row in table.rows] == ["FSRS-6, optimized", "SM-2"]


def test_row_without_a_verdict_has_its_own_dot() -> None:
    columns = ("candidate", "log loss", log_loss_difference("minus now"), "verdict")
    verdicts = (("pooled", "better"), ("one for all, as pooled", ""), ("deck", "the same"))
    rows = tuple((name, None, Interval(-0.01, 0.004), verdict) for name, verdict in verdicts)
    drawn = render_table_with_intervals(make_evidence_table("", columns, rows)).draw(120)
    better, without_verdict, same = drawn.plain.strip().splitlines()[-3:]
    assert "●" in better
    assert "●" in same
    assert "●" not in without_verdict
    assert "·" in without_verdict


def test_questions_of_one_reason_share_a_line() -> None:
    questions = ("fit", "day", "often")
    overview = Overview("anki")
    overview.add(
        [make_unanswered(question, "too little data; no usable reviews") for question in questions]
    )
    (line,) = overview.lines
    assert shown.line(line.answers) == "Can't tell: too little data; no usable reviews."
    waiting_overview = Overview("anki", waiting=["day"], answers=list(overview.answers))
    assert len(waiting_overview.lines) > 1


def test_change_to_fsrs_comes_first_for_other_schedulers(log: ReviewLog) -> None:
    """Check users of the older scheduler and of SuperMemo."""
    assert log.entries is not None
    off = replace(log, import_summary=replace(log.import_summary, fsrs_enabled=False))
    finding = assess_fit(Learner.of(off))
    assert shown.sentences(finding)[0].startswith("Turn FSRS on (")
    assert finding.recommendation == "turn on"
    assert "SM-2, your scheduler" in shown.sentences(finding)[0]
    assert "FSRS would predict your answers" in shown.sentences(finding)[1]
    drawn = np.random.default_rng(1)
    sure = {"SuperMemo SM-15": drawn.uniform(0.1, 0.9, len(log.entries.time_ms))}
    brought = replace(log, decks={}, presets={}, cards=Cards.empty(), source_predictions=sure)
    finding = assess_fit(Learner.of(brought, protocol=ALL_REVIEWS_PROTOCOL))
    assert shown.sentences(finding)[0].startswith(
        "Change to FSRS? Yes: with parameters fitted to your reviews, it would predict your "
        "answers "
    )
    overview = Overview("benchmark")
    overview.add([finding, make_unanswered("models", "of no matter here")])
    assert overview.lines[0].title == "FSRS for you?"


def test_fsrs_is_not_to_be_turned_on_while_all_cards_are_suspended(log: ReviewLog) -> None:
    assert log.cards is not None
    cards = replace(log.cards, suspended=np.ones_like(log.cards.suspended))
    summary = replace(log.import_summary, fsrs_enabled=False)
    suspended = replace(log, cards=cards, import_summary=summary)
    learner = Learner.of(suspended, protocol=ALL_REVIEWS_PROTOCOL)
    sentence = shown.sentences(assess_fit(learner))[0]
    assert sentence.startswith("If you learn such cards again, turn FSRS on (")
    parameters = next(assess_parameters(learner, list(learner.groups), {}, {}))
    assert shown.sentences(parameters)[:2] == (
        "Nothing to do.",
        "Most of your reviews are of cards that are now suspended, so presets cannot be evaluated.",
    )
    assert not any("settle" in text for text in shown.sentences(parameters))


def test_sentence_on_fit_names_own_parameters_before_a_new_fit(log: ReviewLog) -> None:
    """Check that the presets' parameters come first, and a new fit on the same reviews second."""
    stored = {6: (0.1, 0.5, 1.0, 3.0, *fsrs6.DEFAULT[4:])}
    presets = {key: replace(preset, fsrs_parameters=stored) for key, preset in log.presets.items()}
    learner = Learner.of(replace(log, presets=presets))
    mean = {
        name: float(learner.held_out_losses(name).mean())
        for name in ("now", "average", "optimized")
    }
    own_text, fitted = (
        f"{100 * (1 - mean[name] / mean['average']):.0f} % better" for name in ("now", "optimized")
    )
    sentence = shown.sentences(assess_fit(learner))[0]
    assert (
        f"better than guessing your average; so far, with your parameters, it is {own_text}"
        in sentence
    )
    assert f", and optimized, {fitted}" in sentence
    assert own_text != fitted  # else the two figures could not be told apart


@pytest.mark.parametrize(
    ("reviews", "message"),
    [
        (44, "better than guessing your average; that needs 956 more reviews."),
        (
            4_000,
            "guessing your average; so far, with optimized parameters, it would be 73 % better",
        ),
    ],
)
def test_sentence_on_fit_of_few_reviews_has_no_figure(reviews: int, message: str) -> None:
    """Check that few reviews have no figure, and that nobody saves more than all of a loss."""
    sentence = shown.sentences(_make_fit_finding("can't tell", reviews=reviews))[0]
    assert message in sentence
    assert ("(41 to 100 %)" in sentence) == (reviews == 4_000)


def test_predictability_is_of_the_last_reviews_month(log: ReviewLog) -> None:
    """Check that the month is never surer than its share of the months before makes it."""
    answer = assess_predictability(Learner.of(log))
    evidence = answer.evidence
    assert isinstance(evidence, Months)
    assert answer.subject == evidence.months[-1].name
    assert (answer.interval is None) == (answer.missing is not None)
    if answer.interval is not None:
        assert answer.interval.half_width >= evidence.months[-1].log_loss.half_width
    assert format_month(answer.subject) in shown.sentences(answer)[0]


def test_line_of_the_month_is_named_this_month_while_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overview = Overview("anki", answers=make_answers())
    titles = [line.title for line in overview.lines if line.question == "time"]
    assert titles == ["May 2024"]
    monkeypatch.setattr("srs_eval.advice.overview.time.strftime", lambda _: "2024-05")
    titles = [line.title for line in overview.lines if line.question == "time"]
    assert titles == ["This month"]


@pytest.mark.parametrize(
    ("recall", "conclusion"),
    [
        (0.93, "can't tell"),
        (0.9, "no matter"),
        (0.8, "below"),
        (0.99, "above"),
    ],
)
def test_recall_is_called_equal_only_within_three_points(
    monkeypatch: pytest.MonkeyPatch, log: ReviewLog, recall: float, conclusion: str
) -> None:
    """Check against predicted and desired retention: only an interval within 3 points is equal."""
    presets = {key: replace(preset, desired_retention=0.9) for key, preset in log.presets.items()}
    learner = Learner.of(replace(log, presets=presets))
    monkeypatch.setattr(Learner, "predict", lambda self, *_: np.full(len(self.trials), 0.9))
    half = 0.05 if recall == 0.93 else 0.02
    recall_interval = replace(mean_interval(learner.trials.y, learner.trials.day), estimate=recall)
    monkeypatch.setattr(Learner, "interval", lambda *_: replace(recall_interval, half_width=half))
    assert assess_calibration(learner).conclusion == conclusion
    assert next(assess_retention(learner, list(learner.groups))).conclusion == conclusion


def test_retention_while_fsrs_is_off_is_not_asked_for(log: ReviewLog) -> None:
    off = replace(log, import_summary=replace(log.import_summary, fsrs_enabled=False))
    learner = Learner.of(off)
    answer = next(assess_retention(learner, list(learner.groups)))
    assert answer.conclusion == "not asked for"
    assert "desired" not in shown.line([answer])
    assert shown.line([answer]).startswith("recalled: ")


def test_line_of_retention_groups_presets_worst_first() -> None:
    def answer(name: str, conclusion: Any, recalled: float, desired: float | None) -> Finding:
        group = RecallGroup("all", Interval(recalled, 0.01, 2_000, 60), 0.9)
        none = Interval(0.0, 0.01)
        evidence = Retention(conclusion, (group,), desired, False, none)
        return Finding("retention", name, evidence=evidence)

    answers = (
        answer("Maps", "no matter", 0.902, 0.9),
        answer("Words", "below", 0.788, 0.92),
        answer("Birds", "can't tell", 0.8, 0.82),
        answer("New", "not asked for", 0.8, None),
    )
    assert shown.line(answers) == (
        "less than desired: Words 78.8 % (desired 92 %); "
        "less than desired, but perhaps not by much: Birds 80.0 % (desired 82 %, 79 to 81 %); "
        "as desired: Maps 90.2 % (desired 90 %); "
        "recalled: New 80.0 %"
    )


def test_line_of_health_joins_the_presets() -> None:
    def answer(name: str, act: str = "", probability: float | None = None) -> Finding:
        return Finding("health", name, act, probability, evidence=Health(None, None))

    words = answer("Words", "keep", 0.98)
    maps = answer("Maps", "keep", 0.84)
    assert shown.line([words]) == "FSRS is right for you (sure, 98 %)"
    assert shown.line([words, maps, answer("New")]) == (
        "FSRS is right for you: Words (sure, 98 %) and Maps (likely, 84 %); too few reviews: New"
    )


@pytest.mark.parametrize("enabled", slow_except({True}, [True, False]))
def test_glance_at_costs_has_todays_schedule_and_rising_costs(
    simulated_collection: Path, enabled: bool
) -> None:
    log = srs_eval.load(simulated_collection)
    *_, answer = estimate_at_a_glance(
        replace(log, import_summary=replace(log.import_summary, fsrs_enabled=enabled))
    )
    rows = {row[0]: row for row in shown.tables(answer)[0].rows}
    low, high = (
        float(str(rows[retention][2]).partition(" %")[0]) for retention in ("85 %", "90 %")
    )
    assert 0 < low < high
    assert ["now" in row[:2] for row in rows.values()].count(True) == 1
    assert ("SM-2" in rows) == (not enabled)


@pytest.mark.slow
async def test_opening_another_file_asks_while_questions_are_open(tmp_path: Path) -> None:
    answers = FakeAnswers(hold_at="hard")
    app = make_app(tmp_path, FILE, answer=answers)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, answers.holding.is_set)
        await pilot.press("ctrl+o")
        await wait_until(pilot, is_on_screen(app, "ConfirmDialog"))
        await wait_until(pilot, lambda: "Stop what is still running?" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        assert app.session.answers_ended_at is None
        await pilot.press("ctrl+o", "y")
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))


@pytest.mark.slow
async def test_enter_shows_the_evidence_of_an_answer(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(100, 45)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
        await pilot.press("t")
        await wait_until(pilot, lambda: "├" in screen_text(app))
        assert "−0.0290 ±.0120" in screen_text(app)
        await pilot.press("end")
        await wait_until(
            pilot, lambda: "How well does FSRS predict my answers?" in screen_text(app)
        )
        await pilot.press("n")
        await wait_until(pilot, lambda: "Maps" in screen_text(app))
        for key, evidence in (
            ("2", "Default: retention"),
            ("3", "by desired retention"),
            ("4", "A set of parameters for each preset, or one set for all"),
        ):
            await pilot.press("escape", key)
            await wait_until(pilot, lambda evidence=evidence: evidence in screen_text(app))
        await pilot.press("escape", "escape", "escape")  # the file stays open
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: "Ctrl-O chooses another" in " ".join(app.notices))


@pytest.mark.slow
async def test_chosen_preset_or_deck_is_evaluated_alone(tmp_path: Path) -> None:
    answers = FakeAnswers()
    without_cache = AppOptions(use_cache=False)  # else the answers from before are shown again
    app = make_app(tmp_path, FILE, answer=answers, options=without_cache)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("P")
        await wait_until(pilot, is_on_screen(app, "ChooseScreen"))
        await wait_until(pilot, lambda: "preset Default" in screen_text(app))
        await pilot.press("home", "space")

        ticked = app.screen.query_one(SelectionList)
        await wait_until(pilot, lambda: ticked.selected)
        (chosen,) = ticked.selected
        assert "Default" in str(ticked.options[ticked.highlighted or 0].prompt)
        assert ticked.options[ticked.highlighted or 0].value == chosen
        await pilot.press("enter")
        await wait_until(
            pilot, lambda: len(answers.requests) == 2 and is_on_screen(app, "AnswersScreen")()
        )
        of_default = answers.requests[1]
        assert set(of_default.cards.deck_id.tolist()) == {10}
        assert app.session.file_name == "collection.anki2 · Default"
        # A row of the import summary does the same, and nothing chosen takes all back.
        await pilot.press("P")
        await wait_until(pilot, is_on_screen(app, "ChooseScreen"))
        await pilot.press("home", "space", "enter")
        await wait_until(
            pilot, lambda: len(answers.requests) == 3 and is_on_screen(app, "AnswersScreen")()
        )
        assert len(answers.requests[2].cards.deck_id) == len(answers.requests[0].cards.deck_id)
        await pilot.press("i")
        await wait_until(pilot, is_on_screen(app, "ImportSummaryScreen"))
        app.screen.query_one("TabbedContent").active = "per-deck"  # type: ignore[attr-defined]
        decks = app.screen.query_one("#decks")
        decks.focus()
        await wait_until(pilot, lambda: decks.has_focus)
        await pilot.press("enter")
        await wait_until(
            pilot, lambda: len(answers.requests) == 4 and is_on_screen(app, "AnswersScreen")()
        )
        assert len(set(answers.requests[3].cards.deck_id.tolist())) == 1


@pytest.mark.slow
async def test_known_file_shows_its_last_answers_at_once(tmp_path: Path) -> None:
    async def opened(answers: FakeAnswers) -> None:
        app = make_app(tmp_path, FILE, answer=answers)
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until(pilot, lambda: "answered in" in screen_text(app))
            assert app.session.overview.answers == make_answers()

    first = FakeAnswers()
    second = FakeAnswers()
    await opened(first)
    await opened(second)
    assert first.requests
    assert not second.requests

    def newer(path: Path, **_: Any) -> ReviewLog:
        log = make_log()
        return replace(log, presets={k: replace(p, modified_s=1) for k, p in log.presets.items()})

    held = FakeAnswers(hold_at="fit")
    app = make_app(tmp_path, FILE, answer=held, load=newer)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, held.holding.is_set)
        await wait_until(
            pilot,
            lambda: "Answers saved on " in screen_text(app) and "sure ●●●●●" in screen_text(app),
        )
        held.go.set()
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        assert "Answers saved on" not in screen_text(app)


@pytest.mark.slow
async def test_costs_screen_follows_the_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = threading.Event()
    all_draws = threading.Event()

    def costs() -> Any:
        yield make_costs("Default", done=0)
        assert first.wait(PATIENCE)
        yield make_costs("Default", done=1, scale=2.0)
        assert all_draws.wait(PATIENCE)
        yield make_costs("Default")
        raise NotEnoughData("the next preset has 3 reviews")

    app = make_app(tmp_path, FILE)
    monkeypatch.setattr(app.session, "costs", costs)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("w")
        await wait_until(pilot, lambda: "take 2.5 minutes and 20 reviews" in screen_text(app))
        assert "versions of your memory: 0 of 2" in screen_text(app)
        first.set()
        await wait_until(pilot, lambda: "take 5.0 minutes and 40 reviews" in screen_text(app))
        assert "versions of your memory: 1 of 2" in screen_text(app)
        all_draws.set()
        await wait_until(pilot, lambda: "The next preset has 3 reviews." in screen_text(app))
        assert "NotEnoughData" not in screen_text(app)
        await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))


async def test_costs_are_kept_while_the_file_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def workload(log: ReviewLog, **_: Any) -> Any:
        for done in (0, 2):
            yield make_costs("Default", done=done)

    monkeypatch.setattr("srs_eval.advice.questions.workload", workload)
    app = make_app(tmp_path, FILE)

    def has_all_draws() -> list[bool]:
        return [estimate.has_all_draws for estimate in app.session.costs()]

    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        begun = app.session.costs()
        assert not next(begun).has_all_draws
        begun.close()  # left before the end: nothing is kept
        assert has_all_draws() == [False, True]
        assert has_all_draws() == [True]
        app.session.log = make_log()  # another file
        assert has_all_draws() == [False, True]


def test_damaged_answers_are_not_loaded(tmp_path: Path) -> None:
    """Check that any changed byte is noticed."""
    saved = SavedAnswers(tuple(make_answers()), "these reviews", 4_000, 1.0)
    save_answers("file", saved, tmp_path)
    assert load_answers("file", tmp_path) == saved
    (file,) = (tmp_path / "answers").iterdir()
    content = file.read_bytes()
    for at in random.Random(1).sample(range(len(content)), 200):
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert load_answers("file", tmp_path) is None, at
    for damaged in (b"", b"{", content[:-1], content[32:], content + content):
        file.write_bytes(damaged)
        assert load_answers("file", tmp_path) is None


async def test_leaving_the_file_ends_the_questions(tmp_path: Path) -> None:
    answers = FakeAnswers(hold_at="often")
    engine = FakeEngine()
    app = make_app(tmp_path, FILE, answer=answers, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, answers.holding.is_set)
        await pilot.press("ctrl+o", "y")
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        await wait_until(pilot, lambda: not app.session.answering.is_alive)
        assert not engine.requests
