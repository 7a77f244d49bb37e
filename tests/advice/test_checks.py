"""Anything wrong: overdue cards, days without reviews, buttons, leeches."""

from __future__ import annotations

import calendar
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import srs_eval
from srs_eval.advice import checks, shown
from srs_eval.advice.answering import stream_answers
from srs_eval.advice.checks import merge_checks, run_checks
from srs_eval.advice.findings import (
    Check,
    Checks,
    Finding,
    HardButton,
    Leech,
    RecallGroup,
    Retention,
    StepTiming,
    StepTimings,
    get_evidence,
)
from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import CHECKS, QuestionContext, ask, compare
from srs_eval.advice.saved_answers import SavedAnswers, load_answers, save_answers
from srs_eval.advice.shown.habits import MARKS, describe_check
from srs_eval.advice.workload.today import count_overdue
from srs_eval.data.reviews import Cards, ReviewLog
from srs_eval.data.rows import exclude_presets
from srs_eval.stats.intervals import Interval
from tests.advice.test_standing import with_first
from tests.cli.program import run_in_process
from tests.conftest import shared_or_skip

OF_OTHERS = {"old cards", "steps"}  # other questions' findings tell these


def by_name(found: Sequence[Check]) -> dict[str, Check]:
    return {each.name: each for each in found}


def checked(log: ReviewLog) -> dict[str, Check]:
    (finding,) = compare(log, questions=(CHECKS,))
    return by_name(get_evidence(finding, Checks).checks)


def seen_at(monkeypatch: pytest.MonkeyPatch, log: ReviewLog, days: int) -> dict[str, Check]:
    """So many days after the last review."""
    assert log.entries is not None
    now = log.entries.time_ms[-1] / 1000 + days * 86_400
    monkeypatch.setattr(time, "time", lambda: float(now))
    return by_name(get_evidence(run_checks(log, None), Checks).checks)


# Cards and days


def test_overdue_cards_are_those_of_the_workload_and_cost_minutes(
    collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = srs_eval.load(collection)
    assert log.schedule is not None
    seen_at(monkeypatch, log, 1)
    found = checked(log)["overdue"]
    late_schedule = replace(log.schedule, due_day=log.schedule.due_day - 40_000)
    more = checked(replace(log, schedule=late_schedule))["overdue"]
    assert 0 <= found.count < more.count == more.total
    assert found.minutes is not None
    assert more.minutes is not None
    assert 0.05 < more.minutes / more.count < 1.0
    assert more.minutes / more.count == pytest.approx(found.minutes / max(found.count, 1)) or (
        not found.count
    )
    assert (found.level, more.level) == ("fine", "look")
    # What is due on the last day itself is not late, and a tenth of all cards is worth a look.
    on_the_day = np.where(log.schedule.due_day < 0, -1, log.schedule.due_day)
    assert (
        checked(replace(log, schedule=replace(log.schedule, due_day=on_the_day)))["overdue"].count
        == 0
    )
    for every, level in ((8, "fine"), (5, "look")):
        late = np.arange(len(on_the_day)) % every == 0
        some = replace(log.schedule, due_day=np.where(late, -2, on_the_day))
        found = checked(replace(log, schedule=some))["overdue"]
        assert found.count > 0.1 * found.total
        assert found.minutes is not None
        assert 10 < found.minutes < 60
        assert (found.level, found.minutes > 15) == (level, level == "look")
    assert "overdue" not in checked(replace(log, schedule=None))
    none = replace(log, schedule=replace(log.schedule, due_day=log.schedule.due_day + 40_000))
    assert seen_at(monkeypatch, none, 1)["overdue"].count == 0
    assert "overdue" not in seen_at(monkeypatch, none, 90)
    long_ago = seen_at(monkeypatch, replace(log, schedule=late_schedule), 90)
    assert list(long_ago)[:2] == ["gap", "overdue"]
    assert " cards overdue by then: " in describe_check(long_ago["overdue"])


def test_days_without_reviews(log: ReviewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    assert log.entries is not None
    today = seen_at(monkeypatch, log, 1)["gap"]
    assert (today.level, today.last_review_date) == ("fine", None)
    later = seen_at(monkeypatch, log, 90)["gap"]
    last_day = str(np.datetime64(int(log.entries.time_ms[-1]), "ms").astype("datetime64[D]"))
    assert (later.level, later.last_review_date, later.count) == ("look", last_day, 90)
    moved = log.entries.time_ms - 50 * 86_400_000 * (np.arange(len(log.entries)) < 4_000)
    paused = replace(log, entries=replace(log.entries, time_ms=moved))
    pause = seen_at(monkeypatch, paused, 1)["gap"]
    assert pause.level == "look"
    assert 49 <= pause.count <= 55
    until = np.datetime64(int(log.entries.time_ms[4_000]), "ms").item()
    day = f"{until.day} {calendar.month_abbr[until.month]} {until.year}"
    assert describe_check(pause) == f"a break of {pause.count} days, until {day}"
    assert describe_check(replace(pause, gap_end_date=None)).endswith("days, in the last year")


def test_suspended_cards(log: ReviewLog) -> None:
    some = replace(log.cards, suspended=np.arange(len(log.cards.card_id)) % 10 == 0)
    found = checked(replace(log, cards=some))["suspended"]
    assert (found.level, found.count) == ("fine", int(some.suspended.sum()))
    assert describe_check(replace(found, count=0)) == "no card is suspended"
    every = replace(log.cards, suspended=np.ones(len(log.cards.card_id), np.bool_))
    found = checked(replace(log, cards=every))["suspended"]
    assert found.level == "look"
    assert describe_check(found) == f"all {len(log.cards.card_id):,} cards suspended"


# Answers


def test_recall_after_a_button_is_held_against_what_fsrs_expects(log: ReviewLog) -> None:
    found = checked(log)
    assert found["easy"].recalled is not None
    assert sum(found[name].count for name in ("again", "hard", "easy")) < found["hard"].total
    assert found["easy"].level != "look"
    assert log.entries is not None
    # What was answered Easy is forgotten next time: Easy is pressed for what is not known.
    order = np.lexsort((log.entries.time_ms, log.entries.card_id))
    rating = log.entries.rating.copy()
    after = order[1:][(rating[order[:-1]] == 4) & np.equal(*_pairs(log.entries.card_id[order]))]
    rating[after[::2]] = 1
    wrong = checked(replace(log, entries=replace(log.entries, rating=rating)))["easy"]
    assert wrong.recalled is not None
    assert found["easy"].recalled.estimate - wrong.recalled.estimate > 0.2


def _pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return values[1:], values[:-1]


@pytest.mark.parametrize(
    ("recalled", "half", "one_sided", "level"),
    [
        (0.81, 0.05, False, "look"),
        (0.81, 0.07, False, "not yet"),
        (0.89, 0.02, False, "fine"),
        (0.98, 0.02, False, "look"),
        (0.98, 0.02, True, "fine"),
        (0.86, 0.02, True, "not yet"),
    ],
)
def test_three_points_matter(recalled: float, half: float, one_sided: bool, level: str) -> None:
    found = Interval(recalled, half, 500, 60)
    check = checks._classify_recall(Check("old cards", "not yet"), found, 0.9, one_sided)
    assert (check.level, check.problem) == (level, "")
    few = checks._classify_recall(Check("old cards", "not yet"), replace(found, reviews=99), 0.9)
    assert (few.level, few.problem) == ("not yet", "few")


def test_other_findings_tell_of_old_cards_steps_and_hard(log: ReviewLog) -> None:
    own = tuple(ask(CHECKS, QuestionContext(log)))
    none = Interval(0.0, 0.01, 500, 60)

    def remembered(preset: str, mature: float) -> Finding:
        parts = (
            RecallGroup("all", Interval(0.88, 0.01, 5_000, 90), 0.89),
            RecallGroup("mature cards", Interval(mature, 0.02, 900, 90), 0.9),
        )
        evidence = Retention("not asked for", parts, None, True, none, none)
        return Finding("retention", preset, evidence=evidence)

    step = StepTiming("first Again", "shorter", 300, 10.0, Interval(0.8, 0.02, 300, 60), 10.0)
    others = (
        *(remembered("A", 0.89), remembered("B", 0.8)),
        Finding("steps", "A", evidence=StepTimings("shorter", 0.9, (step,))),
        Finding("hard", "all presets", evidence=HardButton("yes", 0.1)),
    )
    found = merge_checks([*own, *others])
    named = by_name(found)
    assert len(named) == len(found)
    assert named.keys() == by_name(get_evidence(own[0], Checks).checks).keys() | OF_OTHERS
    assert (named["old cards"].subject, named["old cards"].level) == ("B", "look")
    assert describe_check(named["old cards"]) == "old cards forgotten twice as often as expected"
    assert describe_check(named["steps"]) == "steps should be shorter after first Again"
    known = replace(step, delay=(288.0, 200.0, 400.0), observed_delays=(1.0, 900.0))
    (told,) = merge_checks([replace(others[2], evidence=StepTimings("shorter", 0.9, (known,)))])
    assert describe_check(told) == "shorter step after first Again: 4.8 h"
    assert describe_check(named["hard"]) == "Hard is pressed for what you have forgotten"
    (better,) = merge_checks([remembered("A", 0.96)])
    assert (better.level, describe_check(better)) == (
        "fine",
        "old cards: remembered better than expected",
    )
    levels = [list(MARKS).index(each.level) for each in found]
    assert levels == sorted(levels)
    assert merge_checks(()) == ()


# Leeches


def _reviews(
    random: np.random.Generator, cards: int, bad: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of cards with 5 to 20 reviews each, of which the first `bad` are mostly forgotten."""
    card = np.repeat(np.arange(cards), random.integers(5, 21, cards))
    days = np.round(2.0 ** random.uniform(0, 8, len(card))).astype(np.int64)
    usual = 0.95 - 0.02 * np.log2(days)
    p = np.clip(usual + random.normal(0, 0.03, len(card)), 0.5, 0.99)
    y = (random.random(len(card)) < np.where(card < bad, 0.3, p)).astype(np.float64)
    return card, p, y, days


def test_leeches_are_found_and_few_others() -> None:
    found = others = 0
    for seed in range(40):
        named = checks._find_leeches(*_reviews(np.random.default_rng(seed), 300, 5))
        found += sum(each.card_id < 5 for each in named)
        others += sum(each.card_id >= 5 for each in named)
        assert [each.chance for each in named] == sorted(each.chance for each in named)
    assert found > 0.75 * 5 * 40
    assert others <= 0.05 * found


def test_without_leeches_hardly_ever_one_is_named() -> None:
    named = [
        checks._find_leeches(*_reviews(np.random.default_rng(seed), 300, 0)) for seed in range(200)
    ]
    assert sum(map(bool, named)) <= 10
    assert (
        checks._find_leeches(*(each[:0] for each in _reviews(np.random.default_rng(1), 3, 0))) == ()
    )


def test_tails_are_exact() -> None:
    place = np.repeat(np.arange(4), (6, 9, 3, 1))
    count, lapses = np.bincount(place), np.array([2, 9, 0, 1])
    tails = checks._lapse_tail_probabilities(np.full(len(place), 0.2), place, count, lapses)
    assert tails == pytest.approx(binom.sf(lapses - 1, count, 0.2))
    q = np.array([0.1, 0.4, 0.7])
    at_least_two = 0.1 * 0.4 * 0.3 + 0.1 * 0.6 * 0.7 + 0.9 * 0.4 * 0.7 + 0.1 * 0.4 * 0.7
    three = np.zeros(3, np.int64)
    tails = checks._lapse_tail_probabilities(q, three, np.array([3]), np.array([2]))
    assert tails == pytest.approx([at_least_two])


def test_a_bad_month_is_not_the_fault_of_a_card() -> None:
    card, p, y, days = _reviews(np.random.default_rng(3), 300, 0)
    hopeful = 1 - (1 - p) / 4  # of what is forgotten
    assert (
        checks._find_leeches(card, hopeful, y, days) == checks._find_leeches(card, p, y, days) == ()
    )


def test_leeches_of_a_collection(log: ReviewLog) -> None:
    assert checked(log)["leeches"].level == "fine"
    assert log.entries is not None
    card, count = np.unique(log.entries.card_id, return_counts=True)
    bad = card[np.argsort(-count, kind="stable")[:4]]
    rating = np.where(np.isin(log.entries.card_id, bad), 1, log.entries.rating)
    found = checked(replace(log, entries=replace(log.entries, rating=rating)))["leeches"]
    assert found.level == "look"
    assert found.count == len(found.leeches)
    assert {each.card_id for each in found.leeches} == set(bad.tolist())
    assert all(each.lapses > 2 * each.usual for each in found.leeches)


# Wherever it is asked


def test_it_is_answered_of_anything(
    log: ReviewLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_at(monkeypatch, log, 1)
    every = replace(log.cards, suspended=np.ones(len(log.cards.card_id), np.bool_))
    suspended = replace(log, cards=every)
    five, bare = with_first(log, 5), replace(log, decks={}, presets={}, cards=Cards.empty())
    bare = replace(bare, schedule=None)
    gone = replace(exclude_presets(log, (100, 101)), entries=log.entries)
    for each, names in (
        (five, {"gap", "suspended", "again", "hard", "easy", "leeches"}),
        (suspended, {"overdue", "gap", "suspended", "again", "hard", "easy", "leeches"}),
        (bare, {"gap", "again", "hard", "easy", "leeches"}),
        (gone, {"gap", "again", "hard", "easy", "leeches"}),
    ):
        assert checked(each).keys() == names
    found = Overview.start(five)
    for answers, questions in stream_answers(five):
        found.add(answers, questions)
    (finding,) = found.find_answers(CHECKS)
    assert by_name(get_evidence(finding, Checks).checks)["leeches"].level == "not yet"
    save_answers("file", SavedAnswers((finding,), "basis", 5, 0.0), tmp_path)
    kept = load_answers("file", tmp_path)
    assert kept is not None
    assert kept.findings == (finding,)


def test_it_needs_no_fit_of_its_own(log: ReviewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = QuestionContext(log)
    list(ask("fit", asked))

    def fitted_again(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("srs_eval.advice.candidates.fit_and_predict", fitted_again)
    (finding,) = ask(CHECKS, asked)
    assert by_name(get_evidence(finding, Checks).checks)["leeches"].level == "fine"


def test_old_cards_that_are_remembered_better_are_fine() -> None:
    check = Check("old cards", "not yet")
    better = checks._classify_recall(check, Interval(0.99, 0.01, 600, 90), 0.9, one_sided=True)
    worse = checks._classify_recall(check, Interval(0.81, 0.02, 600, 90), 0.9, one_sided=True)
    assert (better.level, worse.level) == ("fine", "look")


def test_lines_fit_and_sentences_say_more() -> None:
    half = Interval(0.784, 0.02, 900, 90)
    of_all = [
        Check("overdue", "look", 12_339, 14_791, 7_890.0),
        Check("overdue", "look", 4_339, 4_791, 1_910.0, last_review_date="2022-09-24"),
        *(Check("overdue", "fine", 1, 1, 0.2), Check("overdue", "fine", 0, 900, 0.0)),
        *(Check("gap", "look", 999, last_review_date="2022-09-24"), Check("gap", "look", 300)),
        *(Check("gap", "fine", 29), Check("gap", "fine", 0)),
        *(Check("suspended", "look", 123_456, 234_567), Check("suspended", "fine", 0, 9)),
        Check("leeches", "look", 1_000, 9_000, leeches=(Leech(7, 20, 15, 3.0, 1e-9),)),
        *(Check("leeches", "fine"), Check("leeches", "not yet")),
        *(Check("steps", level) for level in ("fine", "not yet")),
        Check("steps", "look", 1, 5, problem="shorter", situation="Again, then Good", subject="B"),
        *(Check("old cards", level, 900, recalled=half, expected=0.85) for level in MARKS),
        Check("old cards", "look", 900, recalled=half, expected=0.92),
        *(Check("easy", level, 49, 100, recalled=half, expected=0.85) for level in MARKS),
        *(Check("again", level, 100, 100, recalled=half, expected=0.85) for level in MARKS),
        Check("hard", "look", 49, 100, problem="like Again"),
        *(
            Check("hard", "fine", 0, 9, problem="seldom"),
            Check("again", "look", 40, 100, problem="too many"),
        ),
        Check("again", "not yet", problem="few"),
    ]
    for check in of_all:
        assert 10 < len(describe_check(check)) <= 46, describe_check(check)
    assert describe_check(of_all[0]) == "12,339 of 14,791 cards overdue: 132 hours"
    finding = Finding(CHECKS, "all reviews", evidence=Checks("look", tuple(of_all)))
    assert shown.line([finding]).startswith("12,339 of 14,791")
    said = shown.sentences(finding)
    assert said[0] == f"{shown.line([finding])}."
    assert any("15 of 20 times" in each for each in said)
    assert said[-1] == "After Again: too few to say."
    everything, worst = shown.tables(finding)
    assert len(everything.rows) == len(of_all)
    assert worst.rows == (("7", 20, 15, 3.0, 1e-9),)


def test_the_command(collection: Path) -> None:
    done = run_in_process("compare", collection, "--question", CHECKS)
    assert done.returncode == 0, done.stderr
    assert "Anything wrong?" in done.stdout
    (finding,) = compare(srs_eval.load(collection), questions=(CHECKS,))
    flattened = " ".join(done.stdout.split())
    assert all(sentence in flattened for sentence in shown.sentences(finding))
    fixture = shared_or_skip("anki", "fixtures", "collection.anki2")
    log = srs_eval.load(fixture)
    late = count_overdue(log)
    assert late is not None
    assert late.cards > 50
    assert "overdue" not in checked(log)  # years later that they were few tells nothing
