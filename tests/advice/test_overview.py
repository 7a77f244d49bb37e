"""What a learner sees first: answers in one line each, their screen, and what it copies."""

from __future__ import annotations

import math
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
    make_unanswered,
)
from srs_eval.advice.fsrs import assess_fit
from srs_eval.advice.over_time import assess_calibration, assess_predictability, assess_retention
from srs_eval.advice.overview import INCONCLUSIVE_LINE, Overview
from srs_eval.advice.questions import (
    CHECKS,
    PARAMETERS,
    QUESTION_REGISTRY,
    TASKS_WITH_PRESETS,
    TASKS_WITHOUT_PRESETS,
)
from srs_eval.advice.saved_answers import SavedAnswers, load_answers, save_answers
from srs_eval.advice.sentences import (
    FindingTable,
    format_difference_with_range,
    format_month,
    format_parameters,
    parse_parameters,
)
from srs_eval.advice.workload.estimate import estimate_at_a_glance
from srs_eval.app import AppOptions
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import Cards, ReviewLog
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import Interval, mean_interval, ratio_interval
from srs_eval.training.hyperparameters import Context
from srs_eval.tui.widgets.facts import render_table_with_intervals
from tests.conftest import PATIENCE, shared_or_skip, write_simulated_collection
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

BESIDE = {name for name, each in QUESTION_REGISTRY.items() if each.is_evidence_only}
FILE = Path("collection.anki2")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> ReviewLog:
    return srs_eval.load(write_simulated_collection(tmp_path_factory, 4, 4_000))


def answered(log: ReviewLog) -> Overview:
    found = Overview.start(log)
    for answers, questions in stream_answers(log):
        found.add(answers, questions)
    return found


def said_first(found: Overview) -> str:
    """How well FSRS predicts, in a sentence."""
    (fit,) = found.find_answers("fit")
    return shown.sentences(fit)[0]


# The engine's side


@pytest.mark.slow
def test_an_overview_prepares_its_learner_once(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All questions of presets share one; beside it the costs have one of their own."""
    logs, of = list[ReviewLog](), Learner.of

    def counted(log: ReviewLog, context: Context, *protocol: Any, **named: Any) -> Learner:
        if not protocol:  # that of presets
            logs.append(log)
        return of(log, context, *protocol, **named)

    monkeypatch.setattr(Learner, "of", staticmethod(counted))
    answered(log)
    assert len(logs) == 2


def test_every_question_has_an_answer_and_a_line(log: ReviewLog) -> None:
    found = answered(log)
    assert found.rows == "anki"
    assert not found.waiting
    asked = {question for task in TASKS_WITH_PRESETS for question in task} - BESIDE
    assert asked <= {each.question for each in found.answers}
    said = {each.question for line in found.lines for each in line.answers}
    assert said - BESIDE == asked - {"steps"}  # what can't be told yet is one line
    assert all(shown.line(line.answers[-1:]) for line in found.lines)
    presets = [line for line in found.lines if line.question == PARAMETERS]
    assert len(presets) == 2  # those in use, of three
    assert all("of 100" in shown.line(line.answers[:1]) for line in presets)


def test_without_presets_there_are_the_answers_that_need_none(log: ReviewLog) -> None:
    found = answered(replace(log, decks={}, presets={}, cards=Cards.empty()))
    assert found.rows == "benchmark"
    assert all(line.question != "split" for line in found.lines)
    (whole,) = (line for line in found.lines if line.question == PARAMETERS)
    assert (whole.title, whole.answers[0].recommendation) == ("all reviews", "optimize")
    assert whole.parameters == whole.answers[0].parameters
    assert all(line.answers for line in found.lines)


def test_too_few_reviews_are_said_for_each_question(log: ReviewLog) -> None:
    assert log.entries is not None
    few = replace(
        log, entries=replace(log.entries, **{n: c[:8] for n, c in vars(log.entries).items()})
    )
    found = answered(few)
    assert not found.waiting
    assert all("too little data" in shown.line(line.answers) for line in found.lines)


def test_an_open_question_has_a_line_too() -> None:
    found = Overview.start(make_log())
    assert not any(line.answers for line in found.lines)
    found.add(make_answers()[1:2])  # a preset's; more may come
    assert [line.title for line in found.lines[:2]] == ["Default", "FSRS for you?"]
    (finding,) = found.lines[0].answers
    assert finding.recommendation == "optimize"
    assert shown.line([finding]) == "●●●●● sure, 97 of 100"


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("jobs", [1, 2])
def test_kernels_are_compiled_side_by_side(
    monkeypatch: pytest.MonkeyPatch, missing: bool, jobs: int
) -> None:
    """Costs need kernels that nothing else does: beside FSRS-6's, not after all the rest."""
    monkeypatch.setattr("srs_eval.advice.answering.must_compile", lambda configuration: missing)
    for tasks, early in ((TASKS_WITH_PRESETS, ("costs",)), (TASKS_WITHOUT_PRESETS, ("day",))):
        begun = _order_for_compilation(tasks, jobs)
        assert sorted(begun) == sorted(tasks)
        assert begun[0][0] == "fit"
        assert (begun[1] == early) == (missing and jobs > 1)
        assert [each for each in begun if each != early] == [
            each for each in tasks if each != early
        ]


@given(st.integers(0, 1_000), st.floats(0.5, 2.0))
def test_a_share_does_not_depend_on_the_unit(seed: int, unit: float) -> None:
    drawn = np.random.default_rng(seed)
    whole, day = drawn.random(200) + 0.2, np.arange(200) // 5
    part = whole * drawn.random(200)
    one, other = ratio_interval(part, whole, day), ratio_interval(part * unit, whole * unit, day)
    assert other.estimate == pytest.approx(one.estimate)
    assert other.half_width == pytest.approx(one.half_width)
    constant = ratio_interval(
        0.3 * whole, whole, day
    )  # every review saves the same share: no doubt
    assert constant.estimate == pytest.approx(0.3)
    assert constant.half_width == pytest.approx(0.0, abs=1e-12)
    assert one.half_width < mean_interval(part / whole.mean(), day).half_width * 5


@pytest.mark.slow
def test_the_fixture_is_answered() -> None:
    found = answered(srs_eval.load(shared_or_skip("anki", "fixtures", "collection.anki2")))
    lines = {line.title: line for line in found.lines}
    vocabulary = lines["Vocabulary"]
    assert vocabulary.answers[0].recommendation != "keep"
    assert vocabulary.parameters is not None
    line = format_parameters(vocabulary.parameters)
    assert parse_parameters(line) == pytest.approx(vocabulary.parameters, abs=5e-5)
    assert [each.question for each in vocabulary.answers] == ["parameters", "buttons", "noise"]
    _, buttons, noise = vocabulary.answers
    in_force, optimized, _ = shown.tables(buttons)
    assert [row[0] for row in in_force.rows] == [row[0] for row in optimized.rows]
    assert in_force.rows[0][0] == "new"
    assert in_force.rows != optimized.rows
    assert len(shown.tables(noise)[0].rows) == 21
    assert shown.line(lines["When FSRS says"].answers).startswith("90 %, you recall 8")
    assert said_first(found).startswith("FSRS predicts you well: ")


# The screens


@pytest.mark.slow
async def test_answers_fill_as_they_come_and_the_models_follow(tmp_path: Path) -> None:
    answers, engine = FakeAnswers(hold_at="often"), FakeEngine()
    app = make_app(tmp_path, FILE, answer=answers, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: "Press Optimize for “Default”." in screen_text(app))
        await wait_until(pilot, lambda: "questions open" in screen_text(app))
        assert "Your 2 presets forget alike" in screen_text(app)
        assert not engine.asked  # the answers come first
        answers.go.set()
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await wait_until(
            pilot, lambda: len(app.session.models.run.results_by_name()) == len(MODELS)
        )
        await pilot.press("m")
        await wait_until(pilot, is_on_screen(app, "RunScreen"))
        await wait_until(pilot, lambda: "8 of 8 models finished" in screen_text(app))
        assert len(engine.asked) == 1
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
        await wait_until(pilot, lambda: "questions open" in screen_text(app))
        assert "models:" not in screen_text(app)


@pytest.mark.slow
async def test_parameters_are_copied_as_anki_takes_them(tmp_path: Path) -> None:
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
        await pilot.press("y")  # what is remembered has no parameters
        await wait_until(pilot, lambda: "no parameters to copy" in " ".join(app.said))
        assert app.clipboard == ""


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 180])
async def test_nothing_stands_beside_the_line_to_paste(tmp_path: Path, width: int) -> None:
    """A mouse would select that, too; a line is broken between two values only."""
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(width, 48)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        line = app.session.overview.lines[0]
        assert line.parameters is not None
        values = format_parameters(line.parameters).split()
        await pilot.press("enter")
        await wait_until(pilot, lambda: values[-1] in screen_text(app))
        shown = [each.split() for each in screen_text(app).splitlines()]
        alone = [each for each in shown if each and set(each) <= set(values)]
        assert [value for each in alone for value in each] == values
        assert width < 180 or len(alone) == 1


@pytest.mark.slow
@pytest.mark.parametrize("taken", [True, False])
async def test_copied_is_said_only_where_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    monkeypatch.setattr("srs_eval.tui.session.copy_to_system", lambda _: taken)
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("y")
        says = "Copied." if taken else "if nothing pastes"
        await wait_until(pilot, lambda: says in " ".join(app.said))
        assert ("Copied." in " ".join(app.said)) is taken


async def test_closing_asks_only_for_models_that_were_asked_for(tmp_path: Path) -> None:
    engine = FakeEngine(hold_at=("DASH", 3))
    app = make_app(tmp_path, FILE, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, engine.holding.is_set)  # they follow the answers by themselves
        await pilot.press("ctrl+o")
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        await wait_until(pilot, engine.closed.is_set)


def test_suspended_cards_are_evaluated_all_the_same(log: ReviewLog) -> None:
    """Anki's optimizer takes none of them; whether FSRS fits can still be told."""
    suspended = replace(log.cards, suspended=np.ones(len(log.cards.card_id), np.bool_))
    found = answered(replace(log, cards=suspended))
    assert (found.rows, found.excluded_note[:6]) == ("benchmark", "Nearly")
    assert said_first(found).startswith("FSRS predicts you")
    assert {line.title for line in found.lines} >= {"FSRS for you?", "all reviews"}
    assert not Overview.start(log).excluded_note


def test_a_collection_without_cards_is_told_so(log: ReviewLog) -> None:
    found = Overview.start(replace(log, cards=Cards.empty()))
    assert (found.rows, found.excluded_note) == ("benchmark", "This collection has no cards left.")
    assert not Overview.start(replace(log, cards=Cards.empty(), decks={}, presets={})).excluded_note


def test_of_two_answers_the_later_one_stands(log: ReviewLog) -> None:
    """Also where both come at once; the decks of a preset are another question."""
    first, last = (make_costs(done=done).glance_finding for done in (0, 2))
    of_presets = Finding("split", "Maps", evidence=Sharing("preset", 2))
    of_decks = Finding("split", "Maps", evidence=Sharing("deck", 2))
    found = Overview.from_answers(log, [first, of_presets, of_decks, last])
    assert found.answers == [last, of_presets, of_decks]


def test_what_is_ranked_inside_is_counted_outside(log: ReviewLog) -> None:
    """Of deleted cards, too: Anki's optimizer takes none of them, the ranking all."""
    from srs_eval.report.inspection import inspect_log

    few = Cards(*(column[:2] for column in vars(log.cards).values()))
    found = Overview.start(replace(log, cards=few))
    assert (found.rows, found.excluded_note[:6]) == ("benchmark", "Nearly")
    assert inspect_log(replace(log, cards=few)).rows[found.rows].kept > 1_000


@pytest.mark.parametrize(
    ("low", "high", "in_short", "in_full"),
    [
        (-0.004, -0.0012, ".003 better (.001 to .004)", "0.0026 better (0.0012 to 0.0040)"),
        (0.001, 0.005, ".003 worse (.001 to .005)", "0.0030 worse (0.0010 to 0.0050)"),
        (-0.004, 0.002, ".001 better (.004 better to .002 worse)", ""),
        (0.0, 0.004, ".002 worse (.000 to .004)", "0.0020 worse (0.0000 to 0.0040)"),
        (-0.0001, 0.0001, ".000 (.000 to .000)", "0.0000 (0.0001 better to 0.0001 worse)"),
        (-11.0, -9.0, "10.000 better (9.000 to 11.000)", ""),
    ],
)
def test_a_difference_says_which_side_is_better(
    low: float, high: float, in_short: str, in_full: str
) -> None:
    difference = Interval((low + high) / 2, (high - low) / 2)
    assert format_difference_with_range(difference, 3) == in_short
    assert not in_full or format_difference_with_range(difference) == in_full
    assert format_difference_with_range(Interval(-0.002, math.nan)) == "0.0020 better"


def test_how_often_to_optimize_is_said_of_all_presets_at_once() -> None:
    answers = [
        Finding("often", "Words", "every +10 %", evidence=OptimizationFrequency("safe")),
        Finding("often", "Maps", "every +25 %", evidence=OptimizationFrequency("as good")),
        Finding("often", "Fish", "every +10 %", evidence=OptimizationFrequency("safe")),
    ]
    assert shown.line(answers[:1]) == "every +10 % of reviews, safe for everybody"
    assert shown.line(answers) == (
        "every +10 % of reviews, safe for everybody: Words and Fish; "
        "every +25 % of reviews, as good as always: Maps"
    )


def test_too_few_reviews_for_anything_are_said_once(log: ReviewLog) -> None:
    """What there is to evaluate and what a verdict needs: no other number of reviews is said."""
    assert log.entries is not None
    first = {n: c[:300] for n, c in vars(log.entries).items()}
    found = answered(replace(log, entries=replace(log.entries, **first)))
    evaluated = next(each.interval for each in found.find_answers("fit"))
    assert evaluated is not None
    left = (INCONCLUSIVE_LINE, "costs", "often", "split", "health", CHECKS, PARAMETERS)
    others = (line for line in found.lines if line.question not in left)
    lines = [shown.line(line.answers) for line in others]
    said = " ".join([said_first(found), *lines])
    assert set(re.findall(r"[\d,]*\d", said)) == {
        f"{1_000 - evaluated.reviews:,}",
        str(20 - evaluated.days),
    }
    (split,) = (shown.line(line.answers) for line in found.lines if line.question == "split")
    assert split.startswith("Let your 2 presets share parameters for now: ")


@pytest.mark.parametrize("reason", ["timing", "expecting"])
def test_why_less_is_remembered_than_desired(
    monkeypatch: pytest.MonkeyPatch, log: ReviewLog, reason: str
) -> None:
    """Because of when cards came, or of what is expected of them: both parts make it up."""
    presets = {key: replace(each, desired_retention=0.97) for key, each in log.presets.items()}
    learner = Learner.of(replace(log, presets=presets))
    recall = float(learner.trials.y.mean())
    expected = recall if reason == "timing" else 0.97
    monkeypatch.setattr(Learner, "predict", lambda self, *_: np.full(len(self.trials), expected))
    answer = next(assess_retention(learner, list(learner.groups)))
    found = answer.evidence
    assert isinstance(found, Retention)
    assert found.conclusion == "below"
    mine = learner.trials.partition == next(iter(learner.groups))
    off = float(learner.trials.y[mine].mean()) - 0.97
    assert found.timing_gap.estimate + found.expectation_gap.estimate == pytest.approx(off)
    assert found.timing_gap.estimate == pytest.approx(expected - 0.97)
    line = shown.line([answer])
    assert any("Of the difference in points" in each for each in shown.sentences(answer))
    assert ("points less as cards came later" in line) == (reason == "timing")
    assert ("points less as FSRS expects too much" in line) == (reason == "expecting")


def _fit(
    says: Any,
    changes: bool = False,
    verdict: Any = "better",
    defaults: Any = None,
    reviews: int = 4_000,
) -> Finding:
    difference, saved = Interval(-0.1, 0.02, reviews, 60), Interval(0.27, 0.08)
    loss = Interval(0.4, 0.02, reviews, 60)
    figures = loss, difference, verdict, saved
    average = Rival("average", "average", *figures)
    older = Rival("SM-2 as scheduled", "older scheduler", *figures)
    against, instead = (average, older), older if changes else None
    evidence = Fit(says, "optimized", Interval(0.73, 0.32), loss, against, True, instead, defaults)
    lacks = None if reviews >= 1_000 else MissingData(1_000 - reviews)
    return Finding(
        "fit", "all reviews", interval=difference, reviews=reviews, missing=lacks, evidence=evidence
    )


@pytest.mark.parametrize("alone", ["better", "worse", "as good", "can't tell yet"])
def test_whether_to_change_leads_to_one_act(alone: str) -> None:
    """That the defaults would not do is why parameters are pasted, no second thought."""
    told = shown.sentences(_fit("well", True, "better", alone))[0]
    assert told.count(".") == 1
    assert told.startswith("Change to FSRS? Yes, with parameters fitted to you")
    assert ("its defaults alone" in told) == (alone != "better")


def test_sm2_is_named_as_among_candidates() -> None:
    finding = _fit("well")
    assert isinstance(finding.evidence, Fit)
    against = (replace(finding.evidence.rivals[1], name="sm2"),)
    (table,) = shown.tables(replace(finding, evidence=replace(finding.evidence, rivals=against)))
    assert [row[0] for row in table.rows] == ["FSRS-6, optimized", "SM-2"]


def test_a_row_without_a_verdict_has_a_dot_of_its_own() -> None:
    columns = ("candidate", "log loss", "minus now", "verdict")
    said = (("pooled", "better"), ("one for all, as pooled", ""), ("deck", "the same"))
    rows = tuple((name, None, Interval(-0.01, 0.004), says) for name, says in said)
    shown = render_table_with_intervals(FindingTable("", columns, rows)).draw(120)
    better, beside, same = shown.plain.strip().splitlines()[-3:]
    assert "●" in better
    assert "●" in same
    assert "●" not in beside
    assert "·" in beside


def test_one_reason_for_all_questions_has_one_line() -> None:
    questions = ("fit", "day", "often")
    found = Overview("anki")
    found.add([make_unanswered(each, "too little data, no usable reviews") for each in questions])
    (line,) = found.lines
    assert shown.line(line.answers) == "Can't tell: too little data, no usable reviews."
    some = Overview("anki", waiting=["day"], answers=list(found.answers))
    assert len(some.lines) > 1


def test_whether_to_change_to_fsrs_is_said_first(log: ReviewLog) -> None:
    """Of who schedules with something else: the older scheduler, or SuperMemo's predictions."""
    assert log.entries is not None
    off = replace(log, import_summary=replace(log.import_summary, fsrs_enabled=False))
    said = assess_fit(Learner.of(off))
    assert shown.sentences(said)[0].startswith("Turn FSRS on, with parameters fitted to you (")
    assert said.recommendation == "turn on"
    assert "SM-2, your scheduler" in shown.sentences(said)[0]
    assert "FSRS would predict you" in shown.sentences(said)[1]
    drawn = np.random.default_rng(1)
    sure = {"SuperMemo SM-15": drawn.uniform(0.1, 0.9, len(log.entries.time_ms))}
    brought = replace(log, decks={}, presets={}, cards=Cards.empty(), source_predictions=sure)
    said = assess_fit(Learner.of(brought, protocol=ALL_REVIEWS_PROTOCOL))
    assert shown.sentences(said)[0].startswith(
        "Change to FSRS? Yes, with parameters fitted to you: it would predict you "
    )
    found = Overview("benchmark")
    found.add([said, make_unanswered("models", "of no matter here")])
    assert found.lines[0].title == "FSRS for you?"


def test_ones_own_parameters_are_said_before_what_a_fit_would_add(log: ReviewLog) -> None:
    """On the same reviews, with what the presets hold; a fit comes second."""
    stored = {6: (0.1, 0.5, 1.0, 3.0, *fsrs6.DEFAULT[4:])}
    presets = {key: replace(each, fsrs_parameters=stored) for key, each in log.presets.items()}
    learner = Learner.of(replace(log, presets=presets))
    mean = {
        name: float(learner.held_out_losses(name).mean())
        for name in ("now", "average", "optimized")
    }
    own, fitted = (
        f"{100 * (1 - mean[name] / mean['average']):.0f} % better" for name in ("now", "optimized")
    )
    said = shown.sentences(assess_fit(learner))[0]
    assert f"with your parameters {own} than guessing your average" in said
    assert f", optimized {fitted}" in said
    assert own != fitted  # else it is not known whose figure is whose


@pytest.mark.parametrize(
    ("reviews", "says"),
    [
        (44, "can't be told yet: needs 956 more reviews."),
        (4_000, "can't be told yet: optimized, 73 % better than guessing"),
    ],
)
def test_no_figure_of_a_few_reviews(reviews: int, says: str) -> None:
    """It would be read as praise; and nobody saves more than all of a loss."""
    told = shown.sentences(_fit("can't tell", reviews=reviews))[0]
    assert says in told
    assert ("(41 to 100 %)" in told) == (reviews == 4_000)


def test_the_latest_month_is_that_of_the_last_review(log: ReviewLog) -> None:
    """It is never surer than its share of the months before makes it."""
    answer = assess_predictability(Learner.of(log))
    found = answer.evidence
    assert isinstance(found, Months)
    assert answer.subject == found.months[-1].name
    assert (answer.interval is None) == (answer.missing is not None)
    if answer.interval is not None:
        assert answer.interval.half_width >= found.months[-1].log_loss.half_width
    assert format_month(answer.subject) in shown.sentences(answer)[0]


def test_the_months_line_is_named_by_its_month(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "This month" is said only while it lasts."""
    found = Overview("anki", answers=make_answers())
    titles = [line.title for line in found.lines if line.question == "time"]
    assert titles == ["May 2024"]
    monkeypatch.setattr("srs_eval.advice.overview.time.strftime", lambda _: "2024-05")
    titles = [line.title for line in found.lines if line.question == "time"]
    assert titles == ["This month"]


@pytest.mark.parametrize(
    ("recall", "says"),
    [
        (0.93, "can't tell"),
        (0.9, "no matter"),
        (0.8, "below"),
        (0.99, "above"),
    ],
)
def test_what_cannot_be_told_apart_is_not_called_equal(
    monkeypatch: pytest.MonkeyPatch, log: ReviewLog, recall: float, says: str
) -> None:
    """As equal counts an interval within three points of what was said, or desired."""
    presets = {key: replace(each, desired_retention=0.9) for key, each in log.presets.items()}
    learner = Learner.of(replace(log, presets=presets))
    monkeypatch.setattr(Learner, "predict", lambda self, *_: np.full(len(self.trials), 0.9))
    half = 0.05 if recall == 0.93 else 0.02
    said = replace(mean_interval(learner.trials.y, learner.trials.day), estimate=recall)
    monkeypatch.setattr(Learner, "interval", lambda *_: replace(said, half_width=half))
    assert assess_calibration(learner).conclusion == says
    assert next(assess_retention(learner, list(learner.groups))).conclusion == says


def test_nobody_desired_a_retention_while_fsrs_was_off(log: ReviewLog) -> None:
    off = replace(log, import_summary=replace(log.import_summary, fsrs_enabled=False))
    learner = Learner.of(off)
    answer = next(assess_retention(learner, list(learner.groups)))
    assert answer.conclusion == "not asked for"
    assert "desired" not in shown.line([answer])
    assert shown.line([answer]).startswith("recalled: ")


def test_what_is_remembered_is_grouped_worst_first() -> None:
    def answer(name: str, says: Any, recalled: float, desired: float | None) -> Finding:
        whole = RecallGroup("all", Interval(recalled, 0.01, 2_000, 60), 0.9)
        none = Interval(0.0, 0.01)
        evidence = Retention(says, (whole,), desired, False, none, none)
        return Finding("retention", name, evidence=evidence)

    answers = (
        answer("Maps", "no matter", 0.902, 0.9),
        answer("Words", "below", 0.788, 0.92),
        answer("Birds", "can't tell", 0.8, 0.82),
        answer("New", "not asked for", 0.8, None),
    )
    assert shown.line(answers) == (
        "less than desired: Words 78.8 % (desired 92 %); "
        "as desired: Maps 90.2 % (desired 90 %); "
        "can't tell yet: Birds 80.0 % (desired 82 %, 79 to 81 %); "
        "recalled: New 80.0 %"
    )


def test_whether_fsrs_is_right_is_said_of_presets_together() -> None:
    def answer(name: str, act: str = "", probability: float | None = None) -> Finding:
        return Finding("health", name, act, probability, evidence=Health(None, None))

    words, maps = answer("Words", "keep", 0.98), answer("Maps", "keep", 0.84)
    assert shown.line([words]) == "FSRS is right (sure, 98 of 100)"
    assert shown.line([words, maps, answer("New")]) == (
        "FSRS is right: Words (sure, 98 of 100) and Maps (likely, 84 of 100); too few reviews: New"
    )


@pytest.mark.parametrize("enabled", slow_except({True}, [True, False]))
def test_what_another_retention_costs_is_said_at_a_glance(
    simulated_collection: Path, enabled: bool
) -> None:
    """Also of who has not turned FSRS on: it is what they would ask before they do."""
    log = srs_eval.load(simulated_collection)
    *_, answer = estimate_at_a_glance(
        replace(log, import_summary=replace(log.import_summary, fsrs_enabled=enabled))
    )
    rows = {row[0]: row for row in shown.tables(answer)[0].rows}
    low, high = (float(str(rows[each][2]).partition(" (")[0]) for each in ("0.85", "0.90"))
    assert 0 < low < high
    assert [row[1] for row in rows.values()].count("now") == 1
    assert ("SM-2" in rows) == (not enabled)


@pytest.mark.slow
async def test_closing_asks_while_questions_are_open(tmp_path: Path) -> None:
    answers = FakeAnswers(hold_at="hard")
    app = make_app(tmp_path, FILE, answer=answers)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, answers.holding.is_set)
        await pilot.press("ctrl+o")
        await wait_until(pilot, is_on_screen(app, "ConfirmDialog"))
        await wait_until(pilot, lambda: "Stop what still runs?" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        assert app.session.answers_ended_at is None
        await pilot.press("ctrl+o", "y")
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))


@pytest.mark.slow
async def test_enter_shows_what_an_answer_rests_on(tmp_path: Path) -> None:
    app = make_app(tmp_path, FILE)
    async with app.run_test(size=(100, 30)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, is_on_screen(app, "EvidenceScreen"))
        await wait_until(pilot, lambda: "├" in screen_text(app))
        assert "−0.0290 ±.0120" in screen_text(app)
        await pilot.press("end")
        await wait_until(pilot, lambda: "What the buttons would show" in screen_text(app))
        await pilot.press("n")
        await wait_until(pilot, lambda: "Maps" in screen_text(app))
        for key, evidence in (
            ("2", "Default: retention"),
            ("3", "by desired retention"),
            ("4", "Parameters of their own or one set for all"),
        ):
            await pilot.press("escape", key)
            await wait_until(pilot, lambda evidence=evidence: evidence in screen_text(app))
        await pilot.press(*["escape"] * 3)  # the file stays open
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))
        await wait_until(pilot, lambda: "Ctrl-O chooses another" in " ".join(app.said))


@pytest.mark.slow
async def test_presets_and_decks_are_evaluated_alone(tmp_path: Path) -> None:
    answers = FakeAnswers()
    asked_anew = AppOptions(use_cache=False)  # else what was answered before is shown again
    app = make_app(tmp_path, FILE, answer=answers, options=asked_anew)
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
            pilot, lambda: len(answers.asked) == 2 and is_on_screen(app, "AnswersScreen")()
        )
        of_default = answers.asked[1]
        assert set(of_default.cards.deck_id.tolist()) == {10}
        assert app.session.file_name == "collection.anki2 · Default"
        # A row of the import summary does the same, and nothing chosen takes all back.
        await pilot.press("P")
        await wait_until(pilot, is_on_screen(app, "ChooseScreen"))
        await pilot.press("home", "space", "enter")
        await wait_until(
            pilot, lambda: len(answers.asked) == 3 and is_on_screen(app, "AnswersScreen")()
        )
        assert len(answers.asked[2].cards.deck_id) == len(answers.asked[0].cards.deck_id)
        await pilot.press("i")
        await wait_until(pilot, is_on_screen(app, "ImportSummaryScreen"))
        app.screen.query_one("TabbedContent").active = "per-deck"  # type: ignore[attr-defined]
        decks = app.screen.query_one("#decks")
        decks.focus()
        await wait_until(pilot, lambda: decks.has_focus)
        await pilot.press("enter")
        await wait_until(
            pilot, lambda: len(answers.asked) == 4 and is_on_screen(app, "AnswersScreen")()
        )
        assert len(set(answers.asked[3].cards.deck_id.tolist())) == 1


@pytest.mark.slow
async def test_a_known_file_shows_its_last_answers_at_once(tmp_path: Path) -> None:
    async def opened(answers: FakeAnswers) -> None:
        app = make_app(tmp_path, FILE, answer=answers)
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_until(pilot, lambda: "answered in" in screen_text(app))
            assert app.session.overview.answers == make_answers()

    first, second = FakeAnswers(), FakeAnswers()
    await opened(first)
    await opened(second)
    assert first.asked
    assert not second.asked

    def newer(path: Path, **_: Any) -> ReviewLog:
        log = make_log()
        return replace(log, presets={k: replace(p, modified_s=1) for k, p in log.presets.items()})

    held = FakeAnswers(hold_at="fit")
    app = make_app(tmp_path, FILE, answer=held, load=newer)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, held.holding.is_set)
        await wait_until(
            pilot, lambda: "As of " in screen_text(app) and "sure ●●●●●" in screen_text(app)
        )
        held.go.set()
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        assert "As of" not in screen_text(app)


@pytest.mark.slow
async def test_what_a_retention_costs_gets_better_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, known = threading.Event(), threading.Event()

    def costs() -> Any:
        yield make_costs("Default", done=0)
        assert first.wait(PATIENCE)
        yield make_costs("Default", done=1, scale=2.0)
        assert known.wait(PATIENCE)
        yield make_costs("Default")
        raise NotEnoughData("the next preset has 3 reviews")

    app = make_app(tmp_path, FILE)
    monkeypatch.setattr(app.session, "costs", costs)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        await pilot.press("w")
        await wait_until(pilot, lambda: "take 2.5 minutes and 20 reviews" in screen_text(app))
        assert "your reviews allow: 0 of 2" in screen_text(app)
        first.set()
        await wait_until(pilot, lambda: "take 5.0 minutes and 40 reviews" in screen_text(app))
        assert "your reviews allow: 1 of 2" in screen_text(app)
        known.set()
        await wait_until(
            pilot, lambda: "Too little data to tell what a desired" in screen_text(app)
        )
        assert "NotEnoughData" not in screen_text(app)
        await pilot.press("escape")
        await wait_until(pilot, is_on_screen(app, "AnswersScreen"))


async def test_what_a_retention_costs_is_kept_while_the_file_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def workload(log: ReviewLog, **_: Any) -> Any:
        for done in (0, 2):
            yield make_costs("Default", done=done)

    monkeypatch.setattr("srs_eval.advice.questions.workload", workload)
    app = make_app(tmp_path, FILE)

    def said() -> list[bool]:
        return [found.has_all_draws for found in app.session.costs()]

    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, lambda: "answered in" in screen_text(app))
        begun = app.session.costs()
        assert not next(begun).has_all_draws
        begun.close()  # left before the end: nothing is kept
        assert said() == [False, True]
        assert said() == [True]
        app.session.log = make_log()  # another file
        assert said() == [False, True]


def test_damaged_answers_are_as_good_as_none(tmp_path: Path) -> None:
    """Whatever is not as it was written: no number of it need be looked at."""
    kept = SavedAnswers(tuple(make_answers()), "these reviews", 4_000, 1.0)
    save_answers("file", kept, tmp_path)
    assert load_answers("file", tmp_path) == kept
    (place,) = (tmp_path / "answers").iterdir()
    whole = place.read_bytes()
    for at in random.Random(1).sample(range(len(whole)), 200):
        place.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert load_answers("file", tmp_path) is None, at
    for damaged in (b"", b"{", whole[:-1], whole[32:], whole + whole):
        place.write_bytes(damaged)
        assert load_answers("file", tmp_path) is None


async def test_leaving_ends_the_questions(tmp_path: Path) -> None:
    answers, engine = FakeAnswers(hold_at="often"), FakeEngine()
    app = make_app(tmp_path, FILE, answer=answers, evaluate=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(pilot, answers.holding.is_set)
        await pilot.press("ctrl+o", "y")
        await wait_until(pilot, is_on_screen(app, "OpenScreen"))
        await wait_until(pilot, lambda: not app.session.answering.is_alive)
        assert not engine.asked
