"""Findings on a preset's parameters: conclusions, sentences, the command line."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import shown
from srs_eval.advice.candidates import ACROSS_PRESETS, Learner
from srs_eval.advice.findings import (
    DEFAULTS,
    OPTIMIZED,
    RECENCY,
    Finding,
    MissingData,
    Sharing,
    estimate_missing_data,
)
from srs_eval.advice.questions import (
    COMPARE_QUESTIONS,
    QuestionContext,
    answer_questions,
    ask,
    compare,
)
from srs_eval.advice.sentences import format_missing_data
from srs_eval.advice.shown.parameters import candidate_name
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import Deck, Entries, ReviewLog
from srs_eval.data.rows import select_decks, select_presets
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import Interval
from srs_eval.training.hyperparameters import Cancelled, Context
from tests.helpers.advice import replace_with_hard, write_small_table
from tests.helpers.marks import slow_except
from tests.helpers.program import run_in_process
from tools.simulated import simulate_learner, write_dataset

# The answer


@pytest.mark.parametrize(
    ("estimate", "error", "reviews", "days", "message"),
    [
        (-0.02, 0.004, 900, 300, "needs 100 more reviews"),
        (-0.02, 0.004, 900, 19, "needs 100 more reviews on 1 more day"),
        (-0.02, 0.004, 5_000, 19, "needs 1 more day"),
        (-0.008, 0.0045, 5_000, 300, "needs 8,000 more reviews"),
        (0.001, 0.05, 5_000, 300, "your reviews will not settle this"),
        (-0.008, 0.0045, 5_000, 500, "your reviews will not settle this"),  # 8,000 take 800 days
    ],
)
def test_missing_data_is_told_in_reviews_and_days(
    estimate: float, error: float, reviews: int, days: int, message: str
) -> None:
    difference = Interval(estimate, 1.97 * error, reviews, days, ((error, 299),))
    assert format_missing_data(estimate_missing_data(difference)) == message


@pytest.mark.parametrize("question", slow_except({"often", "hard"}, ["often", "health", "hard"]))
def test_open_verdicts_of_a_short_log_say_what_is_missing(question: str, log: ReviewLog) -> None:
    assert log.entries is not None
    few = log.entries.time_ms < np.quantile(log.entries.time_ms, 0.35)
    columns = {name: getattr(log.entries, name)[few] for name in log.entries.__dict__}
    short = replace_with_hard(replace(log, entries=Entries(**columns)), 3)
    answers = compare(short, questions=[question])
    assert answers
    for answer in answers:
        if answer.conclusion == "can't tell":
            assert answer.missing is not None, answer


def test_missing_reviews_have_a_date_at_the_learners_pace(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log.entries is not None
    few = log.entries.time_ms < np.quantile(log.entries.time_ms, 0.35)
    columns = {name: getattr(log.entries, name)[few] for name in log.entries.__dict__}
    now_s = int(columns["time_ms"].max()) / 1000 + 10
    monkeypatch.setattr("srs_eval.advice.candidates.time.time", lambda: now_s)
    context = QuestionContext(replace_with_hard(replace(log, entries=Entries(**columns)), 3))
    questions = ("split", "hard", "noise", "retention", "says", "time")
    findings = []
    for name in questions:
        findings += ask(name, context)
    lacking = [finding for finding in findings if finding.missing and finding.missing.reviews]
    assert {"split", "hard", "noise"} <= {finding.question for finding in lacking}
    learner = context.learner
    dated_count = 0
    for finding in lacking:
        assert finding.missing is not None
        assert finding.missing.date is not None, finding.question
        is_counted = np.array(
            [
                learner.group_name(int(group)) == finding.subject
                for group in learner.trials.partition
            ]
        )
        if not is_counted.any():
            is_counted = np.ones(len(is_counted), np.bool_)
        lately = int((is_counted & (learner.time_s > now_s - 30 * 86_400)).sum())
        assert finding.missing.reviews is not None
        wait = max(math.ceil(finding.missing.reviews * 30 / lately), finding.missing.days or 0)
        day = date.fromtimestamp(now_s) + timedelta(wait)
        assert finding.missing.date == day.isoformat()
        last = shown.sentences(finding)[-1]
        if finding.probability is None or finding.probability < 0.95:
            dated_count += f"around {day.day} {day:%B}" in last and "keep up your pace" in last
    assert dated_count > 2
    monkeypatch.setattr("srs_eval.advice.candidates.time.time", lambda: now_s + 90 * 86_400)
    (later,) = ask("hard", context)  # a learner who has stopped has no pace
    assert later.missing is not None
    assert later.missing.date is None
    assert later.missing.can_come


@pytest.mark.parametrize("has_stopped", [False, True])
def test_data_that_take_over_two_years_are_out_of_reach(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch, has_stopped: bool
) -> None:
    assert log.entries is not None
    now_s = int(log.entries.time_ms.max()) / 1000 + 10
    if has_stopped:  # the pace of the whole history counts
        now_s += 90 * 86_400
    monkeypatch.setattr("srs_eval.advice.candidates.time.time", lambda: now_s)
    learner = Learner.of(log)
    span = int(learner.trials.day.max() - learner.trials.day.min()) + 1
    pace = len(learner.trials) / span
    if not has_stopped:
        pace = (learner.time_s > now_s - 30 * 86_400).sum() / 30
    missing = learner.with_due_date(MissingData(int(729 * pace)), "all presets")
    assert missing.can_come
    assert (missing.date is None) == has_stopped
    never = learner.with_due_date(MissingData(int(732 * pace)), "all presets")
    assert (never.can_come, never.out_of_reach, never.date) == (False, True, None)
    evidence = Sharing("preset", 2)
    finding = Finding("split", "all presets", "split", 0.6, missing=never, evidence=evidence)
    assert shown.sentences(finding)[-1] == "Your reviews will not settle this."
    likely = replace(finding, probability=0.9)
    assert shown.sentences(likely)[-1] == (
        "More reviews like yours would hardly make this more certain."
    )
    certain = shown.sentences(replace(finding, probability=0.96))
    assert "will not settle" not in " ".join(certain)


def test_single_preset_has_no_candidates_across_presets(log: ReviewLog) -> None:
    """Check that one preset is offered neither one fit for all presets nor pooling."""
    preset_0 = select_presets(log, "Preset 0")
    preset = preset_0.presets[100]
    never = replace(preset_0, presets={100: replace(preset, fsrs_parameters={}, modified_s=None)})
    answers = compare(never, questions=["parameters"])
    assert [answer.subject for answer in answers] == ["Preset 0"]
    for table in shown.tables(answers[0]):
        names = {row["candidate"] for row in table.records()}
        assert candidate_name(OPTIMIZED) in names
        assert names.isdisjoint({candidate_name(candidate) for candidate in ACROSS_PRESETS})
    first = {row["candidate"] for row in shown.tables(answers[0])[0].records()}
    assert {candidate_name(RECENCY), f"{candidate_name(DEFAULTS)} (current)"} <= first
    assert "all presets" not in " ".join(shown.sentences(answers[0]))


def test_given_parameters_are_a_row_of_the_table(log: ReviewLog) -> None:
    answers = compare(log, questions=["parameters"], parameters={"mine": fsrs6.DEFAULT})
    for answer in answers:
        figures = {row["candidate"]: row["log loss"] for row in shown.tables(answer)[-1].records()}
        assert figures["mine"] == figures[candidate_name(DEFAULTS)]
    with pytest.raises(InputError, match="18 FSRS parameters"):
        compare(log, parameters={"mine": (1.0,) * 18})
    with pytest.raises(InputError, match="no question"):
        compare(log, questions=["color"])


@pytest.mark.slow
def test_answers_come_in_order_and_stop_when_closed_or_cancelled(log: ReviewLog) -> None:
    questions = ("retention", "parameters", "often")  # in any order
    answers = answer_questions(log, questions=questions)
    first = next(answers)
    assert (first.question, first.subject) == ("parameters", "Preset 0")
    answers.close()
    assert compare(log, questions=questions)[0] == first
    order = [finding.question for finding in compare(log, questions=questions)]
    assert order == sorted(order, key=COMPARE_QUESTIONS.index)

    ticks = 0

    def tick(fraction: float) -> None:
        nonlocal ticks
        ticks += 1
        if ticks > 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        next(answer_questions(log, questions=questions, context=Context(tick=tick)))
    with pytest.raises(InputError, match="no question"):
        answer_questions(log, questions=["color"])  # before the first answer is taken


def test_compare_and_tables_serve_notebooks(log: ReviewLog) -> None:
    answers = srs_eval.compare(log, "parameters")
    frame = srs_eval.tables(answers[0])[0].frame()
    assert {"candidate", "log loss", "log loss low", "log loss high"} <= set(frame.columns)
    assert (frame["log loss low"] < frame["log loss"]).all()


# Several decks and presets at once


def test_several_decks_or_presets_are_selected_together(log: ReviewLog) -> None:
    decks = [Deck(1, "A", 100), Deck(2, "B", 101), Deck(3, "C", 100)]
    cards = log.cards.card_id
    three = replace(
        log,
        decks={deck.id: deck for deck in decks},
        cards=replace(log.cards, deck_id=1 + np.arange(len(cards)) % 3),
    )
    assert set(select_decks(three, "A", "b").cards.deck_id) == {1, 2}
    assert set(select_presets(three, "Preset 0").cards.deck_id) == {1, 3}
    assert set(select_presets(three, "Preset 0", "101").cards.deck_id) == {1, 2, 3}
    with pytest.raises(InputError, match='no deck "D"'):
        select_decks(three, "A", "D")


# The command line


@pytest.mark.slow
def test_sentences_first_then_tables_of_80_columns(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srs_eval.report.console.get_width", lambda _: 80)  # as in a terminal
    before = collection.read_bytes()
    target = tmp_path / "answers.json"
    done = run_in_process(
        "compare", collection, "--params", "0.2" + ", 1.0" * 20, "--details", "--json", target
    )
    assert done.returncode == 0, done.stderr
    assert collection.read_bytes() == before
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1] == "Are my parameters good?"
    assert "params 1" in done.stdout
    document = json.loads(target.read_text())
    assert document["rows"] == "anki"
    assert {answer["question"] for answer in document["findings"]} == {*COMPARE_QUESTIONS, "wrong"}
    flattened = " ".join(done.stdout.split())
    assert "based on the reviews that Anki's optimizer uses." in flattened
    for answer in document["findings"]:
        assert all(sentence in flattened for sentence in answer["sentences"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--params", "1, 2, 3"], "17, 19 or 21 are needed"),
        (["--params", "a, b"], "not a list of FSRS parameters"),
        (["--question", "weather"], "'weather' is not one of"),
        (["--preset", "Nothing"], 'There is no preset "Nothing"'),
        (["--preset", "Facts", "--preset", "Nothing"], 'There is no preset "Nothing"'),
    ],
)
def test_compare_with_a_wrong_option_names_it(
    options: list[str], message: str, collection: Path
) -> None:
    done = run_in_process("compare", collection, *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_questions_on_presets_need_a_collection(tmp_path: Path) -> None:
    """Check that questions on presets are refused; which model predicts best is answered."""
    table = tmp_path / "reviews.csv"
    write_small_table(table)
    write_dataset({1: simulate_learner(1, 1_500), 2: simulate_learner(2, 200)}, tmp_path / "users")
    for path, options, message in (
        (table, [], "says nothing about Anki's decks and presets"),
        (tmp_path / "users", ["--user", "1"], "says nothing about Anki's decks and presets"),
    ):
        done = run_in_process("compare", path, *options, "--question", "split")
        assert done.returncode == 2
        assert message in done.stderr
        assert "give a collection" in done.stderr
        done = run_in_process("compare", path, *options, "--details")
        assert "based on the reviews that the benchmark uses" in done.stdout
        done = run_in_process("compare", path, *options, "--json", "-")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["rows"] == "benchmark"
        assert [finding["question"] for finding in document["findings"]] == [
            "parameters",
            "models",
            "wrong",
        ]
    for path, user, message in (
        (table, None, "says nothing about Anki's decks and presets"),
        (tmp_path / "users", 1, "says nothing about Anki's decks and presets"),
    ):
        with pytest.raises(InputError, match=f"{message}: give a collection"):
            srs_eval.compare(srs_eval.load(path, user=user), "split")


def test_titles_stand_on_lines_of_their_own(collection: Path) -> None:
    done = run_in_process("compare", collection, "--question", "hard", "--json", "-")
    titles = []
    for finding in json.loads(done.stdout)["findings"]:
        titles += [table["title"] for table in finding["tables"]]
    assert titles
    lines = run_in_process("compare", collection, "--question", "hard").stdout.splitlines()
    for title in titles:
        (line,) = (shown_line for shown_line in lines if shown_line.startswith(title))
        heading = line.removesuffix(":")
        assert heading == title or heading.endswith(
            ": difference in log loss, below zero is better)"
        )
