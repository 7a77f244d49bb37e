"""The answer to "Anything wrong?": overdue cards, days without reviews, buttons, leeches."""

from __future__ import annotations

import calendar
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import checks, shown
from srs_eval.advice.checks import complete_checks, merge_checks, run_checks
from srs_eval.advice.findings import (
    Check,
    CheckProblem,
    Checks,
    Finding,
    HardButton,
    LearningFromHard,
    Leech,
    RecallGroup,
    Retention,
    StepTiming,
    StepTimings,
    get_evidence,
)
from srs_eval.advice.questions import CHECKS, QuestionContext, ask, compare
from srs_eval.advice.saved_answers import SavedAnswers, load_answers, save_answers
from srs_eval.advice.shown.habits import MARKS, _explain_check, describe_check
from srs_eval.advice.workload.today import count_overdue
from srs_eval.data.reviews import Cards, ReviewLog
from srs_eval.data.rows import exclude_presets
from srs_eval.stats.intervals import Interval
from srs_eval.stats.tables import Figure
from tests.conftest import shared_or_skip
from tests.helpers.advice import build_overview, keep_first_entries
from tests.helpers.program import run_in_process

FROM_OTHER_QUESTIONS = {"mature cards", "steps"}


def index_by_name(checks: Sequence[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def find_checks(log: ReviewLog) -> dict[str, Check]:
    (finding,) = compare(log, questions=(CHECKS,))
    return index_by_name(get_evidence(finding, Checks).checks)


def find_checks_after(
    monkeypatch: pytest.MonkeyPatch, log: ReviewLog, days: int
) -> dict[str, Check]:
    """Run the checks as if it were `days` after the last review."""
    assert log.entries is not None
    now_s = log.entries.time_ms[-1] / 1000 + days * 86_400
    monkeypatch.setattr(time, "time", lambda: float(now_s))
    return index_by_name(get_evidence(run_checks(log, None), Checks).checks)


# Cards and days


def test_overdue_cards_are_counted_with_their_minutes(
    collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = srs_eval.load(collection)
    assert log.schedule is not None
    find_checks_after(monkeypatch, log, 1)
    overdue = find_checks(log)["overdue"]
    late_schedule = replace(log.schedule, due_day=log.schedule.due_day - 40_000)
    all_overdue = find_checks(replace(log, schedule=late_schedule))["overdue"]
    assert 0 <= overdue.count < all_overdue.count == all_overdue.total
    assert overdue.minutes is not None
    assert all_overdue.minutes is not None
    assert 0.05 < all_overdue.minutes / all_overdue.count < 1.0
    assert all_overdue.minutes / all_overdue.count == pytest.approx(
        overdue.minutes / max(overdue.count, 1)
    ) or (not overdue.count)
    assert (overdue.level, all_overdue.level) == ("fine", "look")
    # Cards due on the last day itself are not late, and a tenth of all cards is worth a look.
    on_the_day = np.where(log.schedule.due_day < 0, -1, log.schedule.due_day)
    due_today = replace(log, schedule=replace(log.schedule, due_day=on_the_day))
    assert find_checks(due_today)["overdue"].count == 0
    for every, level in ((8, "fine"), (5, "look")):
        late = np.arange(len(on_the_day)) % every == 0
        schedule = replace(log.schedule, due_day=np.where(late, -2, on_the_day))
        overdue = find_checks(replace(log, schedule=schedule))["overdue"]
        assert overdue.count > 0.1 * overdue.total
        assert overdue.minutes is not None
        assert 10 < overdue.minutes < 60
        assert overdue.level == level
        assert (overdue.minutes > 15) == (level == "look")
    assert "overdue" not in find_checks(replace(log, schedule=None))
    none = replace(log, schedule=replace(log.schedule, due_day=log.schedule.due_day + 40_000))
    assert find_checks_after(monkeypatch, none, 1)["overdue"].count == 0
    assert "overdue" not in find_checks_after(monkeypatch, none, 90)
    long_ago = find_checks_after(monkeypatch, replace(log, schedule=late_schedule), 90)
    assert list(long_ago)[:2] == ["overdue", "gap"]
    assert " cards were overdue when you last reviewed (" in describe_check(long_ago["overdue"])


def test_gap_without_reviews_is_named_with_its_date(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log.entries is not None
    today = find_checks_after(monkeypatch, log, 1)["gap"]
    assert (today.level, today.last_review_date) == ("fine", None)
    later = find_checks_after(monkeypatch, log, 90)["gap"]
    last_day = str(np.datetime64(int(log.entries.time_ms[-1]), "ms").astype("datetime64[D]"))
    assert (later.level, later.last_review_date, later.count) == ("look", last_day, 90)
    moved = log.entries.time_ms - 50 * 86_400_000 * (np.arange(len(log.entries)) < 4_000)
    paused = replace(log, entries=replace(log.entries, time_ms=moved))
    pause = find_checks_after(monkeypatch, paused, 1)["gap"]
    assert pause.level == "look"
    assert 49 <= pause.count <= 55
    until = np.datetime64(int(log.entries.time_ms[4_000]), "ms").item()
    day = f"{until.day} {calendar.month_abbr[until.month]} {until.year}"
    assert describe_check(pause) == f"A break of {pause.count} days until {day}"
    assert describe_check(replace(pause, gap_end_date=None)).endswith("days in the last year")
    (remedy,) = _explain_check(pause)
    assert "Learn no new cards in the week before the next one" in remedy


def test_suspended_cards_matter_only_if_all_are(log: ReviewLog) -> None:
    partly_suspended = replace(log.cards, suspended=np.arange(len(log.cards.card_id)) % 10 == 0)
    assert "suspended" not in find_checks(replace(log, cards=partly_suspended))
    every = replace(log.cards, suspended=np.ones(len(log.cards.card_id), np.bool_))
    check = find_checks(replace(log, cards=every))["suspended"]
    assert check.level == "look"
    assert describe_check(check) == f"All {len(log.cards.card_id):,} cards are suspended"


# Answers


def test_easy_pressed_for_forgotten_cards_lowers_recall(log: ReviewLog) -> None:
    checks_by_name = find_checks(log)
    assert checks_by_name["easy"].recalled is not None
    assert (
        sum(checks_by_name[name].count for name in ("again", "hard", "easy"))
        < checks_by_name["hard"].total
    )
    assert checks_by_name["easy"].level != "look"
    assert log.entries is not None
    # Every second answer after Easy becomes Again: Easy is pressed for cards that are not known.
    order = np.lexsort((log.entries.time_ms, log.entries.card_id))
    rating = log.entries.rating.copy()
    after = order[1:][
        (rating[order[:-1]] == 4) & np.equal(*_pair_neighbours(log.entries.card_id[order]))
    ]
    rating[after[::2]] = 1
    wrong = find_checks(replace(log, entries=replace(log.entries, rating=rating)))["easy"]
    assert wrong.recalled is not None
    assert checks_by_name["easy"].recalled.estimate - wrong.recalled.estimate > 0.2


def _pair_neighbours(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
def test_recall_three_points_off_is_worth_a_look(
    recalled: float, half: float, one_sided: bool, level: str
) -> None:
    recall = Interval(recalled, half, 500, 60)
    check = checks._classify_recall(Check("mature cards", "not yet"), recall, 0.9, one_sided)
    assert (check.level, check.problem) == (level, "")
    few = checks._classify_recall(
        Check("mature cards", "not yet"), replace(recall, reviews=99), 0.9
    )
    assert (few.level, few.problem) == ("not yet", "few")


@pytest.mark.parametrize(
    ("recalled", "half_width", "level", "least", "most"),
    [
        (0.84, 0.02, "look", 0.99, 1.0),
        (0.86, 0.02, "look", 0.8, 0.95),
        (0.86, 0.05, "not yet", 0.6, 0.8),
        (0.89, 0.03, "not yet", 0.05, 0.2),
        (0.89, 0.01, "fine", 0.0, 0.05),
        (0.99, 0.01, "fine", 0.0, 0.05),
    ],
)
def test_mature_cards_are_judged_by_their_probability(
    recalled: float, half_width: float, level: str, least: float, most: float
) -> None:
    group = RecallGroup("mature cards", Interval(recalled, half_width, 500, 60), 0.9)
    check = checks._check_mature_cards("A", group)
    assert check.level == level
    assert check.probability is not None
    assert least <= check.probability <= most
    few = replace(group, recalled=replace(group.recalled, reviews=99))
    assert checks._check_mature_cards("A", few).problem == "few"


def test_hard_is_fine_only_if_memory_surely_grows_at_it() -> None:
    fine = Check("hard", "fine", 90, 1_000)
    good = Interval(1.0, 0.1, 4_000, 200)

    def check(hard: float, half_width: float, chance: float) -> Check:
        growth = Interval(hard, half_width, 500, 100)
        return checks._check_learning_from_hard(
            fine, LearningFromHard(0.9, 0.9, growth, good, chance)
        )

    assert check(0.6, 0.3, 0.6).level == "fine"
    assert check(0.2, 0.3, 0.3).level == "not yet"
    assert check(-0.3, 0.3, 0.01).problem == "like Again"
    assert checks._check_learning_from_hard(fine, None).level == "not yet"
    assert describe_check(check(0.2, 0.3, 0.3)) == (
        "Do you press Hard (9 % of answers) for cards you forgot? Not clear yet"
    )


def test_checks_are_merged_from_other_questions_findings(log: ReviewLog) -> None:
    findings = tuple(ask(CHECKS, QuestionContext(log)))
    none = Interval(0.0, 0.01, 500, 60)

    def remembered(preset: str, mature: float) -> Finding:
        groups = (
            RecallGroup("all", Interval(0.88, 0.01, 5_000, 90), 0.89),
            RecallGroup("mature cards", Interval(mature, 0.02, 900, 90), 0.9),
        )
        evidence = Retention("not asked for", groups, None, True, none)
        return Finding("retention", preset, evidence=evidence)

    step = StepTiming(
        "first Again",
        "shorter",
        300,
        10.0,
        Interval(0.8, 0.02, 300, 60),
        step=10.0,
        delay=(0.5, 0.3, 0.8),
        observed_delays=(0.2, 20.0),
    )
    more_findings = (
        remembered("A", 0.89),
        remembered("B", 0.8),
        Finding("steps", "A", evidence=StepTimings("shorter", 0.9, (step,))),
        Finding("hard", "all presets", evidence=HardButton("yes", 0.1)),
    )
    merged = merge_checks([*findings, *more_findings])
    named = index_by_name(merged)
    assert len(named) == len(merged)
    assert (
        named.keys()
        == index_by_name(get_evidence(findings[0], Checks).checks).keys() | FROM_OTHER_QUESTIONS
    )
    assert (named["mature cards"].subject, named["mature cards"].level) == ("B", "look")
    assert (
        describe_check(named["mature cards"])
        == "Mature cards: you forget twice as many as expected"
    )
    assert describe_check(named["steps"]) == (
        "Learning step after Again: 10 min is too long, try 30 s"
    )
    assert describe_check(named["hard"]) == (
        "You probably press Hard for cards that you have forgotten"
    )
    (better,) = merge_checks([remembered("A", 0.96)])
    assert (better.level, describe_check(better)) == (
        "fine",
        "Mature cards: you remember better than expected",
    )
    complete = get_evidence(complete_checks(findings[0], more_findings), Checks)
    assert (complete.checks, complete.conclusion) == (merged, "look")
    levels = [list(MARKS).index(check.level) for check in merged]
    assert levels == sorted(levels)
    assert merge_checks(()) == ()


def make_step_check(
    situation: str, problem: CheckProblem, step: float, best: float, longest: float = 600.0
) -> Check:
    """Make the check of a step (minutes) for which `best` would be better."""
    timing = StepTiming(
        situation,
        "longer" if problem == "longer" else "shorter",
        300,
        step,
        Interval(0.8, 0.02, 300, 60),
        step=step,
        delay=(best, best / 1.5, best * 1.5),
        observed_delays=(0.2, longest),
    )
    steps = StepTimings(timing.conclusion, 0.9, (timing,))
    (check,) = merge_checks([Finding("steps", "Words", evidence=steps)])
    return check


@pytest.mark.parametrize(
    ("situation", "step", "best", "text"),
    [
        ("first Again", 1.0, 0.5, "Learning step after Again: 1 min is too long, try 30 s"),
        ("first Good", 10.0, 3.0, "Learning step after Good: 10 min is too long, try 3 min"),
        ("lapse", 10.0, 0.1, "Relearning step: 10 min is too long, try 15 s or less"),
        ("lapse", 10.0, 1e5, "Relearning step: 10 min is too short, try 10 h or more"),
    ],
)
def test_wrong_step_is_named_with_a_better_one(
    situation: str, step: float, best: float, text: str
) -> None:
    check = make_step_check(situation, "longer" if best > step else "shorter", step, best)
    assert check.level == "look"
    assert describe_check(check) == text
    finding = Finding(CHECKS, "all reviews", evidence=Checks("look", (check,)))
    first, explanation = shown.sentences(finding)
    assert first == f"{text}."
    assert explanation.startswith("Of 300 answers after")
    assert "In preset “Words” that step is the" in explanation
    assert "(deck options › " in explanation


def test_steps_of_a_day_are_not_proposed() -> None:
    check = make_step_check("first Good", "longer", 6.0, 1_600.0, longest=5_000.0)
    assert (check.level, check.timing) == ("fine", None)
    assert describe_check(check) == "No learning step is clearly wrong"


def test_delay_after_hard_is_no_step_that_can_be_set() -> None:
    assert make_step_check("first Hard", "longer", 6.0, 144.0).level == "not yet"


def test_hardly_any_again_is_explained_unless_hard_hides_it() -> None:
    seldom = Check("again", "fine", 5, 1_000, problem="seldom")
    hidden = Check("hard", "look", 90, 1_000, problem="like Again")
    alone = Finding(CHECKS, "all reviews", evidence=Checks("fine", (seldom,)))
    stated = shown.sentences(alone)
    assert "You forget less than 1 %: you could review less." in stated
    assert "with FSRS on, a lower desired retention (deck options › FSRS) saves time" in stated[-1]
    both = replace(alone, evidence=Checks("look", (hidden, seldom)))
    assert [check.name for check in merge_checks([both])] == ["hard"]


def test_each_warning_is_followed_by_what_to_change() -> None:
    recall = Interval(0.7, 0.02, 900, 90)
    warnings = [
        Check("overdue", "look", 400, 500, 3_000.0),
        Check("mature cards", "look", subject="A", recalled=recall, expected=0.9, probability=1.0),
        Check("leeches", "look", 1, 900, leeches=(Leech(7, 20, 15, 3.0, 1e-9),)),
        Check("again", "look", 40, 100, problem="too many"),
        *(Check(name, "look", 9, 100, recalled=recall, expected=0.9) for name in ("easy", "hard")),
        make_step_check("first Again", "shorter", 1.0, 0.5),
    ]
    for check in warnings:
        finding = Finding(CHECKS, "all reviews", evidence=Checks("look", (check,)))
        described, explanation = shown.sentences(finding)
        assert described == f"{describe_check(check)}."
        setting_or_habit = ("deck options", "Press ", "Rewrite")
        assert any(words in explanation for words in setting_or_habit), check.name


# Leeches


def test_failing_cards_of_a_collection_are_its_leeches(log: ReviewLog) -> None:
    assert find_checks(log)["leeches"].level == "fine"
    assert log.entries is not None
    card, count = np.unique(log.entries.card_id, return_counts=True)
    bad = card[np.argsort(-count, kind="stable")[:4]]
    rating = np.where(np.isin(log.entries.card_id, bad), 1, log.entries.rating)
    check = find_checks(replace(log, entries=replace(log.entries, rating=rating)))["leeches"]
    assert check.level == "look"
    assert check.count == len(check.leeches)
    assert {leech.card_id for leech in check.leeches} == set(bad.tolist())
    assert all(leech.lapses > 2 * leech.usual for leech in check.leeches)


# All logs and callers


def test_checks_answer_any_log_with_the_names_that_apply(
    log: ReviewLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_checks_after(monkeypatch, log, 1)
    every = replace(log.cards, suspended=np.ones(len(log.cards.card_id), np.bool_))
    suspended = replace(log, cards=every)
    five = keep_first_entries(log, 5)
    bare = replace(log, decks={}, presets={}, cards=Cards.empty(), schedule=None)
    gone = replace(exclude_presets(log, (100, 101)), entries=log.entries)
    for variant, names in (
        (five, {"gap", "again", "hard", "easy", "leeches"}),
        (suspended, {"overdue", "gap", "suspended", "again", "hard", "easy", "leeches"}),
        (bare, {"gap", "again", "hard", "easy", "leeches"}),
        (gone, {"gap", "again", "hard", "easy", "leeches"}),
    ):
        assert find_checks(variant).keys() - FROM_OTHER_QUESTIONS == names
    (finding,) = build_overview(five).find_answers(CHECKS)
    assert index_by_name(get_evidence(finding, Checks).checks)["leeches"].level == "not yet"
    save_answers("file", SavedAnswers((finding,), "basis", 5, 0.0), tmp_path)
    saved = load_answers("file", tmp_path)
    assert saved is not None
    assert saved.findings == (finding,)


def test_checks_reuse_the_fit_of_other_questions(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = QuestionContext(log)
    list(ask("fit", context))

    def fitted_again(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("srs_eval.advice.candidates.fit_and_predict", fitted_again)
    (finding,) = ask(CHECKS, context)
    assert index_by_name(get_evidence(finding, Checks).checks)["leeches"].level == "fine"


def test_one_sided_check_of_better_recall_is_fine() -> None:
    check = Check("mature cards", "not yet")
    better = checks._classify_recall(check, Interval(0.99, 0.01, 600, 90), 0.9, one_sided=True)
    worse = checks._classify_recall(check, Interval(0.81, 0.02, 600, 90), 0.9, one_sided=True)
    assert (better.level, worse.level) == ("fine", "look")


def test_checks_lines_fit_and_sentences_name_leeches() -> None:
    half = Interval(0.784, 0.02, 900, 90)
    of_all = [
        Check("overdue", "look", 12_339, 14_791, 7_890.0),
        Check("overdue", "look", 4_339, 4_791, 1_910.0, last_review_date="2022-09-24"),
        Check("overdue", "fine", 1, 1, 0.2),
        Check("overdue", "fine", 0, 900, 0.0),
        Check("gap", "look", 999, last_review_date="2022-09-24"),
        Check("gap", "look", 300),
        Check("gap", "fine", 29),
        Check("gap", "fine", 0),
        Check("suspended", "look", 123_456, 234_567),
        Check("leeches", "look", 1_000, 9_000, leeches=(Leech(7, 20, 15, 3.0, 1e-9),)),
        Check("leeches", "fine"),
        Check("leeches", "not yet"),
        *(Check("steps", level) for level in ("fine", "not yet")),
        make_step_check("Again, then Good", "shorter", 12.0, 0.5),
        *(
            Check("mature cards", level, 900, recalled=half, expected=0.85, probability=chance)
            for level, chance in (("look", 0.99), ("look", 0.83), ("fine", 0.01), ("not yet", 0.6))
        ),
        Check("mature cards", "look", 900, recalled=half, expected=0.92, probability=1.0),
        Check("mature cards", "not yet", problem="few"),
        Check("hard", "not yet", 490, 1_000, recalled=half, expected=0.85),
        *(Check("easy", level, 49, 100, recalled=half, expected=0.85) for level in MARKS),
        *(Check("again", level, 100, 100, recalled=half, expected=0.85) for level in MARKS),
        Check("hard", "look", 49, 100, problem="like Again"),
        Check("hard", "fine", 0, 9, problem="seldom"),
        Check("again", "look", 40, 100, problem="too many"),
        Check("again", "not yet", problem="few"),
    ]
    for check in of_all:
        assert 10 < len(describe_check(check)) <= 72, describe_check(check)
    assert describe_check(of_all[0]) == "12,339 of 14,791 cards are overdue (132 hours of work)"
    finding = Finding(CHECKS, "all reviews", evidence=Checks("look", tuple(of_all)))
    assert shown.line([finding]).startswith("12,339 of 14,791")
    stated = shown.sentences(finding)
    described = [f"{describe_check(check)}." for check in of_all]
    assert [sentence for sentence in stated if sentence in described] == described
    assert any("15 of 20 times" in sentence for sentence in stated)
    assert stated[-1] == "Next review after Again: no such reviews yet."
    all_checks, worst = shown.tables(finding)
    assert len(all_checks.rows) == len(of_all)
    assert worst.rows == (("7", 20, 15, Figure(3.0), Figure(1e-9)),)


def test_compare_command_prints_the_checks_sentences(collection: Path) -> None:
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
    assert "overdue" not in find_checks(log)  # the reviews ended years ago


def test_points_that_mature_cards_fall_short_are_those_of_the_shares_beside_them() -> None:
    recall = Interval(0.6948, 0.12, 232, 60)  # 69 %, and 87 % expected: the difference is 17.1
    check = Check(
        "mature cards",
        "look",
        232,
        recalled=recall,
        expected=0.8656,
        probability=0.9,
        subject="Maps",
    )
    assert (
        describe_check(check)
        == "Mature cards: you probably forget more than expected, by about 18 points"
    )
    finding = Finding(CHECKS, "all reviews", evidence=Checks("look", (check,)))
    text = " ".join(shown.sentences(finding))
    assert "you recalled 18 fewer than expected (29 fewer to 5 fewer)" in text


def test_hard_hides_nothing_if_more_is_recalled_after_it_than_expected() -> None:
    recalled = Interval(0.834, 0.05, 900, 60)
    open_check = Check("hard", "not yet", 900, 6_000, recalled=recalled, expected=0.771)
    assert describe_check(open_check) == "Next review after Hard: can't tell yet"
    below = replace(open_check, expected=0.9)
    assert describe_check(below) == (
        "Do you press Hard (15 % of answers) for cards you forgot? Not clear yet"
    )


def test_button_with_few_next_reviews_says_how_many() -> None:
    few = Check("again", "not yet", 768, 9_000, problem="few", recalled=Interval(0.71, 0.2, 7, 5))
    assert describe_check(few) == "Next review after Again: only 7 such reviews, too few to say"
    assert (
        describe_check(replace(few, recalled=None))
        == "Next review after Again: none to check, as you mostly relearn on the same day"
    )
