"""The costs of a desired retention: draws, sentences, the command line."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice.buttons import preview_typical_cards
from srs_eval.advice.candidates import Learner
from srs_eval.advice.questions import CHECKS, MODELS, PARAMETERS, compare, default_questions
from srs_eval.advice.saved_answers import SavedAnswers, load_answers, save_answers
from srs_eval.advice.sentences import Bar, PaneLine
from srs_eval.advice.shown import line, sentences, tables
from srs_eval.advice.shown.costs import _describe_lower_retention, render_minutes
from srs_eval.advice.shown.habits import _format_anki_interval
from srs_eval.advice.workload import estimate
from srs_eval.advice.workload.estimate import (
    ALL_PRESETS,
    COMPARED_RETENTIONS,
    HIGHEST_RETENTION,
    Workload,
    WorkloadQuestion,
    estimate_at_a_glance,
    workload,
    workload_document,
)
from srs_eval.advice.workload.limits import DailyLimit, LimitEffects, find_review_limits
from srs_eval.advice.workload.ranges import (
    FIGURES,
    KNOWN,
    MINUTES,
    OVER_BUDGET,
    RECALLED,
    REVIEWS,
    compare_schedules,
    find_ends,
)
from srs_eval.advice.workload.simulator import Memory, SimulationResult
from srs_eval.advice.workload.today import (
    MIN_MONTH_REVIEWS,
    OverdueCards,
    States,
    TodaysCards,
    collect_todays_cards,
    compute_memory_state,
    count_overdue,
    measure_pace,
)
from srs_eval.cli.main import main
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import LEARNING, REVIEW, Entries, FloatArray, Preset, ReviewLog
from srs_eval.models import fsrs6
from tests.helpers.anki_files import make_collection, plain_history
from tools.simulated import simulate_learner, write_collection

QUICK = WorkloadQuestion(
    retentions=(0.75, 0.85, 0.95), days=60, new_a_day=3, budget=3.0, draws=5, assume="optimized"
)


@pytest.fixture(scope="module")
def log(simulated_collection: Path) -> ReviewLog:
    return srs_eval.load(simulated_collection)


@pytest.fixture(scope="module")
def stages(log: ReviewLog) -> list[Workload]:
    return list(workload(log, question=QUICK))


@pytest.fixture(scope="module")
def off(log: ReviewLog) -> ReviewLog:
    return replace(log, import_summary=replace(log.import_summary, fsrs_enabled=False))


@pytest.fixture(scope="module")
def suspended(log: ReviewLog) -> ReviewLog:
    return replace(log, cards=replace(log.cards, suspended=np.ones(len(log.cards.card_id), bool)))


def join_sentences(result: Workload) -> str:
    return " ".join(sentences(result.finding))


def test_workload_has_a_stage_for_every_draw(stages: list[Workload]) -> None:
    assert [len(stage.draws) for stage in stages] == [0, 1, 2, 3, 4, 5]
    assert [stage.has_all_draws for stage in stages] == [False] * 5 + [True]
    first = stages[0]
    last = stages[-1]
    assert np.array_equal(first.estimates, last.estimates)
    assert np.shape(last.draws) == (5, len(last.retentions), len(FIGURES))
    assert set(QUICK.retentions) < {*last.retentions, last.desired}
    assert [stage.progress for stage in stages] == [(1 + done) / 6 for done in range(6)]
    assert stages[3].progress_text == "simulating versions of your memory: 3 of 5"
    for stage in stages:
        assert sentences(stage.finding)  # every stage can be shown


def test_states_of_the_cards_are_computed_once_by_each_memory(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = []

    def compute(today: TodaysCards, memory: Memory, states: States = "history") -> FloatArray:
        memories.append((id(today), memory))
        return compute_memory_state(today, memory, states)

    monkeypatch.setattr("srs_eval.advice.workload.today.compute_memory_state", compute)
    *_, last = workload(log, question=replace(QUICK, draws=3, with_sm2=True))
    times = Counter(memories)
    best = [count for count in times.values() if count > 1]
    assert best == [2] * len(last.presets)  # as the scheduler and as the memory
    # The fit, three draws, today's parameters and SM-2
    assert len(times) == 6 * len(last.presets)


def test_presets_without_advised_parameters_keep_theirs(
    log: ReviewLog, stages: list[Workload]
) -> None:
    optimized = stages[0]
    names = [name for name, _ in optimized.presets]
    assert len(names) == 2
    question = replace(QUICK, assume="advised")
    figures = []
    for unchanged in ((), names[:1], names[1:], names):
        estimate = next(workload(log, question=question, unchanged_presets=unchanged))
        assert sorted(estimate.unchanged_presets) == sorted(unchanged)
        figures.append(estimate.figures)
    none, first, second, both = figures
    assert np.array_equal(none, optimized.figures)
    # Minutes and reviews of the presets are summed, so the changes of both are, too.
    change = (first - none) + (second - none)
    for figure in (REVIEWS, MINUTES, KNOWN):
        np.testing.assert_allclose((both - none)[:, figure], change[:, figure], atol=1e-9)
    assert not np.array_equal(both, none)
    current = next(workload(log, question=replace(QUICK, assume="current")))
    assert np.array_equal(current.figures, both)
    assert sorted(current.unchanged_presets) == sorted(names)
    # Today's schedule is simulated more often, so it agrees but for chance.
    assert current.current_figures is None
    assert optimized.current_figures is not None
    now = current.figures[current.at(current.desired), MINUTES]
    assert now == pytest.approx(optimized.current_figures[MINUTES], rel=0.1)


def test_workload_asks_itself_what_is_advised(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the advice is on all presets, though only one is simulated."""
    advised = [answer for answer in compare(log, questions=[PARAMETERS]) if answer.probabilities]
    unchanged = {answer.subject for answer in advised if not answer.parameters}
    question = replace(QUICK, assume="advised")
    assert set(next(workload(log, question=question)).unchanged_presets) == unchanged
    for answer in advised:
        monkeypatch.setattr(
            estimate, "assess_parameters", lambda *_, answers=advised: iter(answers)
        )
        of_one = next(workload(log, answer.subject, question))
        is_unchanged = answer.subject in unchanged
        assert of_one.unchanged_presets == ((answer.subject,) if is_unchanged else ())
    by_given = next(workload(log, question=question, parameters=fsrs6.DEFAULT))
    assert by_given.unchanged_presets == ()


def test_fsrs_begins_with_its_defaults_where_they_are_kept(off: ReviewLog) -> None:
    current = next(workload(off, question=replace(QUICK, assume="current")))
    assert current.is_fsrs_off
    assert current.keeps_all
    assert current.current_figures is not None  # SM-2
    text = join_sentences(current)
    assert "With FSRS on and its default parameters, and a desired retention of" in text
    presets = {
        name: replace(preset, fsrs_parameters={6: fsrs6.DEFAULT})
        for name, preset in off.presets.items()
    }
    on = replace(off.import_summary, fsrs_enabled=True)
    with_defaults = replace(off, presets=presets, import_summary=on)
    by_defaults = next(workload(with_defaults, question=replace(QUICK, assume="current")))
    assert np.array_equal(by_defaults.figures, current.figures)


def test_sentences_name_the_parameters_that_are_assumed(stages: list[Workload]) -> None:
    last = stages[-1]
    first, _ = last.presets
    some = replace(last, unchanged_presets=(first[0],))
    everywhere = replace(
        last, unchanged_presets=tuple(name for name, _ in last.presets), current_figures=None
    )
    for assumed, parameters in (
        (last, "optimized parameters"),
        (some, "optimized parameters in 1 of your 2 presets"),
        (everywhere, "your current parameters"),
    ):
        text = join_sentences(assumed)
        assert text.startswith(f"With {parameters} and a desired retention of ")
        assert f"With {parameters}, asking for 85 % instead" in text
        summary, _ = render_minutes(assumed, is_one_of_several=False)
        assert parameters in summary.text
    assert "If you keep your current parameters" not in join_sentences(everywhere)
    while_off = replace(some, schedule="SM-2")
    text = join_sentences(while_off)
    assert text.startswith("With FSRS on and optimized in 1 of your 2 presets, and a desired")


def test_row_of_several_desired_retentions_says_which(stages: list[Workload]) -> None:
    """Check that a mean of them does not look like a retention that all presets ask for."""
    last = stages[-1]
    (first, _), (second, _) = last.presets
    for desired, label in (((0.9, 0.9), "90 % (yours)"), ((0.92, 0.88), "yours (88-92 %)")):
        presets = ((first, desired[0]), (second, desired[1]))
        shown = replace(last, presets=presets, desired=0.9, retentions=(0.75, 0.85, 0.9, 0.95))
        _, items = render_minutes(shown, is_one_of_several=False)
        labels = [item.label for item in items if isinstance(item, Bar)]
        assert label in labels
        assert sum("yours" in other for other in labels) == 1


def test_figures_rise_with_the_retention_within_their_band(stages: list[Workload]) -> None:
    median = stages[-1].figures
    for figure in (REVIEWS, MINUTES, KNOWN, RECALLED):
        assert (np.diff(median[:, figure]) > 0).all(), FIGURES[figure]
    low, high = stages[-1].band
    assert (low <= median).all()
    assert (median <= high).all()
    assert (high[:, REVIEWS] > low[:, REVIEWS]).all()
    assert ((median[:, OVER_BUDGET] >= 0) & (median[:, OVER_BUDGET] <= QUICK.days)).all()


def test_same_question_has_the_same_answer(log: ReviewLog, stages: list[Workload]) -> None:
    question = replace(QUICK, draws=2)
    first, again = (list(workload(log, question=question)) for _ in range(2))
    assert workload_document(first[-1]) == workload_document(again[-1])
    assert np.array_equal(first[2].draws, stages[2].draws)  # the first ones of more


def test_workload_is_public_for_notebooks(log: ReviewLog, stages: list[Workload]) -> None:
    first = next(srs_eval.workload(log, question=QUICK))
    assert np.array_equal(first.estimates, stages[0].estimates)


def test_workload_can_be_closed_early(log: ReviewLog) -> None:
    events = workload(log, question=QUICK)
    first: Iterator[Workload] = events
    assert not len(next(first).draws)
    events.close()
    with pytest.raises(StopIteration):
        next(first)


# The cards of the deck


def test_new_cards_are_at_most_those_of_the_deck(log: ReviewLog, stages: list[Workload]) -> None:
    """Check that cards beyond those of the deck are neither learned nor known."""
    few, many, most = (
        next(workload(log, question=replace(QUICK, new_a_day=pace))) for pace in (0, 500, 999)
    )
    for result in (many, most):
        known_cards = result.figures[:, KNOWN]
        assert (few.figures[:, KNOWN] < known_cards).all()
        assert (known_cards <= result.learned_cards + result.unseen_cards).all()
        assert f"and {result.unseen_cards} new ones. " in join_sentences(result)
    assert "and 3 new ones a day until the 179 that are left are" in join_sentences(
        replace(stages[0], unseen_cards=179)
    )
    assert "and 3 new ones a day. " in join_sentences(replace(stages[0], unseen_cards=180))
    assert "no new ones" in join_sentences(few)
    assert "no new ones" in join_sentences(replace(stages[0], unseen_cards=0))


@pytest.mark.parametrize("is_off", [False, True])
def test_todays_schedule_is_compared_on_the_same_cards(
    log: ReviewLog, off: ReviewLog, is_off: bool
) -> None:
    """Check FSRS as it is, and SM-2 while FSRS is off."""
    question = replace(QUICK, draws=1, new_a_day=500, budget=None)
    result = list(workload(off if is_off else log, question=question))[-1]
    assert result.is_fsrs_off == is_off
    current = result.current_figures
    assert current is not None
    assert (
        result.figures[result.at(0.75), REVIEWS]
        < current[REVIEWS]
        < 2 * result.figures[-1, REVIEWS]
    )
    assert result.learned_cards < current[KNOWN] < result.learned_cards + result.unseen_cards
    stated = f"{current[REVIEWS]:,.0f}"
    known_cards = f"{current[KNOWN]:,.0f}"
    schedule = "SM-2" if is_off else "your current parameters"
    sentence = f"If you keep {schedule}, your cards take {current[MINUTES]:.0f}"
    assert sentence in join_sentences(result)
    assert ("With FSRS on and optimized" in join_sentences(result)) == is_off
    row = [str(cell).partition(" (")[0] for cell in tables(result.finding)[0].rows[-1]]
    recalled = f"{100 * current[RECALLED]:.0f} %"
    assert row[:3] == [*(["SM-2", "now"] if is_off else ["now", ""]), recalled]
    assert row[4:] == [stated, known_cards]
    document = workload_document(result)
    assert document["now"]["reviews"] == current[REVIEWS]
    assert document["schedule"] == schedule


def test_sm2_is_simulated_for_those_who_ask_while_fsrs_is_on(
    log: ReviewLog, off: ReviewLog
) -> None:
    question = replace(QUICK, draws=2, with_sm2=True)
    *_, on = workload(log, question=question)
    *_, while_off = workload(off, question=question)
    assert while_off.sm2 is None  # it is today's schedule
    assert on.sm2 is not None
    assert on.sm2.figures == while_off.current_figures
    assert on.sm2.draws == while_off.current_draws
    assert on.sm2_comparison == while_off.comparison
    assert "With FSRS off, SM-2 would take" in join_sentences(on)
    row = tables(on.finding)[0].rows[-1]
    assert row[:2] == ("SM-2", "")
    assert row[2:] == tables(while_off.finding)[0].rows[-1][2:]
    document = workload_document(on)
    assert document["sm2"]["estimate"]["minutes"] == on.sm2.figures[MINUTES]
    assert document["sm2_comparison"] == workload_document(while_off)["comparison"]
    *_, unasked = workload(log, question=replace(question, with_sm2=False))
    assert unasked.sm2 is None
    assert unasked.draws == on.draws


@pytest.mark.slow
def test_glance_has_the_figures_of_the_workload(log: ReviewLog, off: ReviewLog) -> None:
    """Check the glance at once and with ranges, whatever retentions are asked about."""
    for source in (log, off):
        first, glance = estimate_at_a_glance(source)
        *_, last = workload(
            source, question=WorkloadQuestion(retentions=(0.75, *COMPARED_RETENTIONS))
        )
        assert last.glance_finding == glance
        rows = {row[0]: row for row in tables(glance)[0].rows}
        begun = {row[0]: row for row in tables(first)[0].rows}
        assert {*rows} >= {"80 %", "85 %", "90 %", "95 %"}
        for row, early in zip(rows.values(), begun.values(), strict=True):
            assert [str(cell).partition(" (")[0] for cell in row[2:]] == [*early[2:]]
        assert "(" in str(rows["85 %"][3])


def make_figures(minutes: float, recalled: float, known: float) -> list[float]:
    return [10 * minutes, minutes, known, recalled, 0.0]


def test_schedules_are_compared_at_equal_memory() -> None:
    """Check that what is forgotten more is not taken for minutes that are saved."""
    retentions = np.array([0.8, 0.9])
    figures = np.array([make_figures(10.0, 0.8, 900.0), make_figures(20.0, 0.9, 1_000.0)])
    current = np.array(make_figures(20.0, 0.9, 950.0))
    comparison = compare_schedules(retentions, figures, current, None, None, by_model=False)
    assert comparison.same_share is not None
    assert comparison.same_share.minutes == pytest.approx(20.0)
    assert comparison.same_share.retention == pytest.approx(0.9)
    assert comparison.same_share.extra_minutes.estimate == pytest.approx(0.0)
    assert comparison.same_known is not None
    assert comparison.same_known.minutes == pytest.approx(200**0.5)
    assert comparison.same_known.retention == pytest.approx(0.85)
    assert comparison.same_minutes is not None
    assert comparison.same_minutes.recalled == pytest.approx(0.9)
    assert comparison.same_minutes.known == pytest.approx(1_000.0)


def test_model_knows_less_below_todays_recall_than_it_says() -> None:
    retentions = np.array([0.8, 0.9])
    figures = np.array([make_figures(10.0, 0.8, 900.0), make_figures(20.0, 0.9, 1_000.0)])
    current = np.array(make_figures(20.0, 0.9, 950.0))
    logit = math.log(0.9 / 0.1) - math.log(0.8 / 0.2)
    known = 900.0 * math.exp(-0.016 * logit)
    steps = (950.0 - known) / (1_000.0 - known)  # of log minutes, from 80 to 90 %
    comparison = compare_schedules(retentions, figures, current, None, None)
    assert comparison.same_known is not None
    assert comparison.same_known.minutes == pytest.approx(10.0 * 2.0**steps)
    # Where both schedules are one, there is nothing to correct.
    as_now = compare_schedules(retentions, figures, figures[1], None, None)
    assert as_now.same_known is not None
    assert as_now.same_known.extra_minutes.estimate == pytest.approx(0.0)


def test_comparison_ignores_retentions_beyond_what_a_daily_limit_allows() -> None:
    """Check that a retention whose reviews are not done is not taken for one that knows less."""
    retentions = np.array([0.8, 0.9, 0.97])
    figures = np.array(
        [
            make_figures(10.0, 0.8, 900.0),
            make_figures(20.0, 0.9, 1_000.0),
            make_figures(80.0, 0.96, 950.0),
        ]
    )
    current = np.array(make_figures(20.0, 0.9, 950.0))
    comparison = compare_schedules(retentions, figures, current, None, None, by_model=False)
    assert comparison.same_known is not None
    assert comparison.same_known.minutes == pytest.approx(200**0.5)


def test_range_of_a_comparison_follows_memories_drawn_for_both_schedules() -> None:
    retentions = np.array([0.8, 0.9])
    figures = np.array([make_figures(10.0, 0.8, 900.0), make_figures(20.0, 0.9, 1_000.0)])
    current = np.array(make_figures(25.0, 0.9, 950.0))
    draws = np.array([figures, 2 * figures, 3 * figures])
    draws[..., 2:] = figures[:, 2:]
    current_draws = np.array([current, 2 * current, 3 * current])
    current_draws[:, 2:] = current[2:]
    comparison = compare_schedules(retentions, figures, current, draws, current_draws)
    assert comparison.same_share is not None
    extra = comparison.same_share.extra_minutes
    assert extra.estimate == pytest.approx(-5.0)
    assert extra.is_beyond_zero
    # Memories that make both schedules take longer alike leave the range as it is.
    same = compare_schedules(
        retentions, figures, current, np.array([figures] * 3), np.array([current] * 3)
    )
    assert same.same_share is not None
    assert extra.low == pytest.approx(same.same_share.extra_minutes.low)
    # Memories that make only today's schedule take longer widen it.
    one_sided = compare_schedules(
        retentions, figures, current, np.array([figures] * 3), current_draws
    )
    assert one_sided.same_share is not None
    assert one_sided.same_share.extra_minutes.low < extra.low


def test_range_is_wider_far_from_what_the_learner_has_lived_with() -> None:
    figures = np.array([make_figures(10.0, 0.8, 900.0), make_figures(20.0, 0.9, 1_000.0)])
    draws = np.array([figures] * 5)
    limits = (1e9, 1e9, 2_000.0, 1.0, 365.0)
    low, high = find_ends(figures, draws, limits, recalled_now=0.9)
    relative_width = high[:, MINUTES] / low[:, MINUTES]
    assert relative_width[0] > relative_width[1] > 1.2
    assert (low <= figures).all()
    assert (figures <= high).all()
    assert np.array_equal(low[:, OVER_BUDGET], figures[:, OVER_BUDGET])


@pytest.mark.filterwarnings("error")
def test_neighbouring_retentions_are_not_extrapolated() -> None:
    """Check `--retention 0.9,0.91`: rows near each other, and memories far from them."""
    figures = np.array([make_figures(20.0, 0.9, 1_000.0), make_figures(30.0, 0.9005, 1_000.1)])
    retentions = np.array([0.9, 0.91])
    beyond = np.array(make_figures(50.0, 0.906, 1_005.0))
    comparison = compare_schedules(retentions, figures, beyond, None, None)
    assert comparison.same_share is None
    assert comparison.same_known is None
    within = np.array(make_figures(25.0, 0.9002, 1_000.05))
    draws = np.array([figures] * 20)
    near = np.array([within] * 20)
    far = near.copy()
    far[:3, RECALLED] = 0.5  # in more than a tenth of the draws
    comparison = compare_schedules(retentions, figures, within, draws, near)
    assert comparison.same_share is not None
    assert abs(comparison.same_share.extra_minutes.high) < 20
    assert compare_schedules(retentions, figures, within, draws, far).same_share is None
    far[1:3] = near[1:3]
    assert compare_schedules(retentions, figures, within, draws, far).same_share is not None


def test_memory_beyond_the_simulated_retentions_is_not_compared() -> None:
    figures = np.array([make_figures(10.0, 0.8, 900.0), make_figures(20.0, 0.9, 1_000.0)])
    current = np.array(make_figures(50.0, 0.97, 1_050.0))
    comparison = compare_schedules(np.array([0.8, 0.9]), figures, current, None, None)
    assert comparison.same_share is None
    assert comparison.same_known is None
    assert comparison.same_minutes is None


def test_comparison_of_a_single_retention_has_no_equal_memory() -> None:
    figures = np.array([make_figures(20.0, 0.9, 1_000.0)])
    current = np.array(make_figures(25.0, 0.909, 1_005.0))
    comparison = compare_schedules(np.array([0.9]), figures, current, None, None)
    assert comparison.same_share is None
    assert comparison.same_known is None
    assert comparison.same_minutes is None


def test_ranges_without_reviews_are_those_of_the_other_figures() -> None:
    figures = np.array([make_figures(1.0, math.nan, 900.0)])
    low, high = find_ends(figures, np.array([figures] * 5), (1e9, 1e9, 2e3, 1.0, 365.0), math.nan)
    assert 0.0 < low[0, MINUTES] < 1.0 < high[0, MINUTES]
    assert math.isnan(low[0, RECALLED])


def test_comparison_leaves_out_the_mean_of_unlike_desired_retentions(
    stages: list[Workload],
) -> None:
    last = replace(stages[-1], presets=(("One", 0.7), ("Two", 0.99)))
    position = last.at(last.desired)
    estimates = list(last.estimates)
    estimates[position] = tuple(make_figures(1e6, 0.9, 1.0))
    assert replace(last, estimates=tuple(estimates)).comparison == last.comparison


def limit_rows(result: Workload, waiting: Sequence[float], now: float) -> Workload:
    """Let cards wait for a limit of 200 reviews on these shares of the days.

    Today's schedule is like FSRS asked for 85 %.
    """
    effects = [LimitEffects((share,) * 5, (7,) * 5) for share in waiting]
    position = result.at(0.85)
    return replace(
        result,
        current_figures=result.estimates[position],
        current_draws=tuple(draw[position] for draw in result.draws),
        presets=result.presets[:1],
        limit_effects=tuple(effects),
        current_limit_effects=LimitEffects((now,) * 5, (7,) * 5),
        review_limits=(DailyLimit("Words", 200),),
    )


def test_limit_of_reviews_is_named_where_some_retentions_reach_it(stages: list[Workload]) -> None:
    waiting = [0.0] * (len(stages[-1].retentions) - 1) + [0.9]
    limited = limit_rows(stages[-1], waiting, now=0.0)
    _, items = render_minutes(limited, is_one_of_several=False)
    text = "At 95 %, your limit of 200 reviews a day makes cards wait."
    assert PaneLine(text, drop_order=6) in items
    assert "your limit of 200 reviews a day makes cards wait, and you" in join_sentences(limited)


def test_all_limits_of_reviews_are_named(stages: list[Workload]) -> None:
    waiting = [0.0] * (len(stages[-1].retentions) - 1) + [0.9]
    limited = replace(
        limit_rows(stages[-1], waiting, now=0.0),
        presets=(("Words", 0.9), ("Maps", 0.9)),
        review_limits=(DailyLimit("Words", 200), DailyLimit("Maps", 50)),
    )
    text = "95 %, the limit of reviews a day in “Words” and “Maps” makes cards wait"
    assert text in join_sentences(limited)


def test_limit_for_which_few_cards_wait_is_not_named() -> None:
    def make_result(waiting: int) -> SimulationResult:
        none = np.zeros(3, np.int64)
        return SimulationResult(none, none, none, np.full(3, waiting), np.zeros(3), known=0.0)

    limits = [DailyLimit("Words", 200), DailyLimit("Maps", 50), DailyLimit("Verbs", 10)]
    runs = [[make_result(20), make_result(70), make_result(1)]]
    assert find_review_limits(limits, runs) == (limits[1], limits[0])
    assert find_review_limits(limits, [[make_result(0)] * 3]) == ()


def test_row_of_equal_memory_stands_in_the_order_of_retentions(stages: list[Workload]) -> None:
    last = limit_rows(stages[-1], [0.0] * len(stages[-1].retentions), now=0.0)
    assert last.current_figures is not None
    between = list(last.estimates[last.at(0.85)])
    lower, upper = last.figures[[last.at(0.85), last.at(last.desired)], RECALLED]
    between[RECALLED] = float(lower + upper) / 2
    changed = replace(last, current_figures=tuple(between))
    comparison = changed.comparison
    assert comparison is not None
    assert comparison.same_share is not None
    _, items = render_minutes(changed, is_one_of_several=False)
    labels = [item.label for item in items if isinstance(item, Bar) and item.label[0].isdigit()]
    assert sum("(as today)" in label for label in labels) == 1
    percents = [int(label.split()[0]) for label in labels]
    assert percents == sorted(percents)
    assert f"{100 * comparison.same_share.retention:.0f} % (as today)" in labels
    _, items = render_minutes(last, is_one_of_several=False)
    labels = [item.label for item in items if isinstance(item, Bar)]
    assert "85 % (as today)" in labels  # no bar of its own
    assert sum("(as today)" in label for label in labels) == 1


def test_row_of_equal_memory_has_the_minutes_of_the_summary(stages: list[Workload]) -> None:
    last = limit_rows(stages[-1], [0.0] * len(stages[-1].retentions), now=0.0)
    assert last.current_figures is not None
    position = last.at(0.85)
    slightly_more = list(last.estimates[position])
    slightly_more[RECALLED] = float(last.figures[position, RECALLED]) + 0.001
    changed = replace(last, current_figures=tuple(slightly_more))
    comparison = changed.comparison
    assert comparison is not None
    assert comparison.same_share is not None
    summary, items = render_minutes(changed, is_one_of_several=False)
    (bar,) = [item for item in items if isinstance(item, Bar) and "(as today)" in item.label]
    minutes = bar.figures[1].split()[0]
    assert f"optimized parameters take {minutes} minutes" in summary.text or (
        f"{minutes} minutes a day." in summary.text
    )


def test_recall_that_differs_from_the_past_is_explained(stages: list[Workload]) -> None:
    last = limit_rows(stages[-1], [0.0] * len(stages[-1].retentions), now=0.0)
    recalled = last.recalled_now
    assert "Until now you remembered" not in join_sentences(
        replace(last, recalled_until_now=recalled - 0.02)
    )
    sentences = join_sentences(replace(last, recalled_until_now=recalled - 0.1))
    assert (
        f"Until now you remembered {100 * (recalled - 0.1):.0f} %. The year's figures" in sentences
    )


def test_summary_says_why_recall_rises_and_no_line_repeats_it(stages: list[Workload]) -> None:
    last = limit_rows(stages[-1], [0.0] * len(stages[-1].retentions), now=0.0)
    higher, lower = last.recalled_now + 0.1, last.recalled_now - 0.1

    def read_pane(until_now: float) -> tuple[str, bool]:
        """Return the summary, and whether a line of its own tells the recall until now."""
        changed = replace(last, recalled_until_now=until_now)
        summary, items = render_minutes(changed, is_one_of_several=False)
        lines = [item.text for item in items if isinstance(item, PaneLine)]
        return summary.text, any(line.startswith("Until now you remembered") for line in lines)

    rising, has_line = read_pane(lower)
    assert f" if always on time ({100 * lower:.0f} % until now)" in rising
    assert not has_line
    falling, has_line = read_pane(higher)
    assert "until now" not in falling
    assert has_line
    assert "up from" not in read_pane(last.recalled_now - 0.02)[0]


@pytest.mark.parametrize(
    ("below_asked", "share_overdue", "is_explained"),
    [(0.04, 0.2, True), (0.02, 0.2, False), (0.04, 0.05, False)],
)
def test_recall_below_what_is_asked_for_is_explained_by_overdue_cards(
    stages: list[Workload], below_asked: float, share_overdue: float, is_explained: bool
) -> None:
    last = limit_rows(stages[-1], [0.0] * len(stages[-1].retentions), now=0.0)
    position = last.at(last.desired)
    estimates = [list(figures) for figures in last.estimates]
    estimates[position][RECALLED] = last.desired - below_asked
    cards = round(share_overdue * estimates[position][REVIEWS] * last.question.days)
    changed = replace(
        last,
        estimates=tuple(map(tuple, estimates)),
        overdue=replace(last.overdue, cards=cards),
    )
    explanation = f"{cards:,} cards are overdue. Overdue cards are forgotten more often"
    assert (explanation in join_sentences(changed)) == is_explained
    _, items = render_minutes(changed, is_one_of_several=False)
    lines = [item.text for item in items if isinstance(item, PaneLine)]
    assert (f"{cards:,} overdue cards lower what you remember." in lines) == is_explained


def test_rows_of_two_retentions_never_look_the_same(stages: list[Workload]) -> None:
    last = replace(stages[-1], current_figures=None, current_draws=(), draws=())

    def show_minutes(*minutes: float) -> list[str]:
        """Return what the rows of 85 and 95 % show of the minutes."""
        estimates = [list(figures) for figures in last.estimates]
        for retention, figure in zip((0.85, 0.95), minutes, strict=True):
            estimates[last.at(retention)][MINUTES] = figure
        changed = replace(last, estimates=tuple(map(tuple, estimates)))
        _, items = render_minutes(changed, is_one_of_several=False)
        bars = {item.label[:4]: item.figures[1] for item in items if isinstance(item, Bar)}
        return [bars[label].partition(" ")[0] for label in ("85 %", "95 %")]

    assert show_minutes(13.6, 14.4) == ["13.6", "14.4"]
    assert show_minutes(12.6, 14.4) == ["13", "14"]


def test_recall_that_rises_as_new_cards_run_out_is_explained(stages: list[Workload]) -> None:
    last = limit_rows(stages[-1], [0.0] * len(stages[-1].retentions), now=0.0)
    lower = last.recalled_now - 0.1
    few_new = replace(
        last,
        recalled_until_now=lower,
        recent_minutes_a_day=40.0,
        recent_minutes_on_begun_cards=30.0,
        unseen_cards=0,
        new_a_day=8,
    )
    assert (
        f"remembered {100 * lower:.0f} %; many of those reviews were of new cards."
        in join_sentences(few_new)
    )
    reviewed = replace(few_new, recent_minutes_on_begun_cards=10.0)
    assert "reviews were of new cards" not in join_sentences(reviewed)


@pytest.mark.parametrize(
    ("above_asked", "share_due", "is_explained"),
    [(0.06, 0.5, True), (0.04, 0.5, False), (0.06, 0.2, False)],
)
def test_recall_above_what_is_asked_for_is_explained_by_dates_that_are_set(
    stages: list[Workload], above_asked: float, share_due: float, is_explained: bool
) -> None:
    last = limit_rows(stages[-1], [0.0] * len(stages[-1].retentions), now=0.0)
    lowest = list(last.estimates[0])
    lowest[RECALLED] = last.retentions[0] + above_asked
    all_reviews = lowest[REVIEWS] * last.question.days
    changed = replace(
        last,
        estimates=(tuple(lowest), *last.estimates[1:]),
        cards_due=round(share_due * all_reviews),
    )
    explanation = "Many of the coming reviews fall on dates that Anki has already set"
    assert (explanation in join_sentences(changed)) == is_explained
    _, items = render_minutes(changed, is_one_of_several=False)
    lines = [item.text for item in items if isinstance(item, PaneLine)]
    assert (
        "Anki has already scheduled many cards earlier than a low retention requires, so you "
        "would remember more than you ask for." in lines
    ) == is_explained


def test_limit_of_reviews_decides_instead_of_a_comparison(stages: list[Workload]) -> None:
    count = len(stages[-1].retentions)
    text = (
        "Whatever you ask for, your limit of 200 reviews a day makes cards wait, so it determines"
    )
    always = limit_rows(stages[-1], [1.0] * count, now=1.0)
    assert always.comparison is None
    assert render_minutes(always, is_one_of_several=False)[0].text.startswith(text)
    assert text in join_sentences(always)
    assert "To remember as much as" not in join_sentences(always)
    only_now = limit_rows(stages[-1], [0.0] * count, now=1.0)
    assert only_now.comparison is None
    assert "so it determines the minutes of your current parameters." in join_sentences(only_now)


def test_comparison_uses_only_rows_that_no_limit_decides(stages: list[Workload]) -> None:
    last = stages[-1]
    waiting = [0.0] * len(last.retentions)
    free = limit_rows(last, waiting, now=0.0)
    assert free.comparison is not None
    assert free.comparison.same_share is not None
    waiting[-1] = 1.0
    limited = limit_rows(last, waiting, now=0.0)
    figures = list(limited.estimates)
    figures[-1] = tuple(make_figures(1.0, 0.2, 1.0))
    assert limited.comparison == replace(limited, estimates=tuple(figures)).comparison
    waiting = [1.0 if retention >= 0.85 else 0.0 for retention in last.retentions]
    none_left = limit_rows(last, waiting, now=0.0)
    assert none_left.comparison is not None
    assert none_left.comparison.same_share is None
    assert "determines the minutes of FSRS at 85 %, 91 % or 95 %" in join_sentences(none_left)
    assert "need for the same recall" in join_sentences(none_left)


def test_limit_that_binds_in_fewer_than_half_of_the_simulations_decides_nothing() -> None:
    assert not LimitEffects((0.9, 0.9, 0.0, 0.0, 0.0), (0,) * 5).is_limited
    assert LimitEffects((0.9, 0.9, 0.0, 0.9, 0.0), (0,) * 5).is_limited
    assert not LimitEffects((0.1,) * 5, (0,) * 5).is_limited  # overdue cards in the first weeks


def test_simulated_limit_of_reviews_is_found_for_both_schedules(off: ReviewLog) -> None:
    presets = {key: replace(preset, reviews_a_day=4) for key, preset in off.presets.items()}
    *_, last = workload(replace(off, presets=presets), question=replace(QUICK, draws=2))
    assert last.is_limited.all()
    assert last.is_current_limited
    assert {limit.cards for limit in last.review_limits} == {4}
    assert len(last.limit_effects[0].waiting_shares) == 4 + 2  # seeds and draws
    assert "the limit of reviews a day in " in join_sentences(last).lower()
    free = next(workload(off, question=QUICK))
    assert not free.is_limited.any()
    assert free.review_limits == ()


def test_new_cards_left_by_a_limit_are_named(stages: list[Workload]) -> None:
    usual = replace(stages[-1].question, new_a_day=None)
    last = limit_rows(stages[-1], [0.0] * len(stages[-1].retentions), now=0.0)
    last = replace(last, question=usual, unseen_cards=500, new_a_day=3)
    effects = tuple(replace(item, new_cards=(180,) * 5) for item in last.limit_effects)
    last = replace(last, limit_effects=effects)
    left = "Your limit of 3 new cards a day leaves 320 new cards at the end."
    assert left not in join_sentences(last)  # a pace of one's own is no limit
    reached = replace(last, new_limits=(DailyLimit("Words", 3),))
    assert left in join_sentences(reached)
    _, items = render_minutes(reached, is_one_of_several=False)
    assert PaneLine(left, drop_order=6) in items
    fewer = tuple(replace(item, new_cards=(100,) * 5) for item in effects)
    held_back = join_sentences(replace(reached, limit_effects=fewer))
    assert "reviews a day holds back new cards, too: it leaves 400 new cards" in held_back


def test_more_new_cards_than_allowed_are_told(stages: list[Workload]) -> None:
    allowed = replace(stages[-1], new_allowed_a_day=2, presets=stages[-1].presets[:1])
    assert "Your preset allows 2 new cards a day; for 3 you would have to" in join_sentences(
        allowed
    )
    assert "Your preset allows" not in join_sentences(replace(allowed, new_allowed_a_day=3))


def test_pace_at_the_limit_of_new_cards_is_recognised(log: ReviewLog) -> None:
    group = next(iter(Learner.of(log).groups))
    for limit, is_reached in ((1, True), (999, False), (None, False)):
        preset = replace(log.presets[group], new_a_day=limit)
        limited = replace(log, presets={**log.presets, group: preset})
        assert measure_pace(limited, group).reaches_new_limit == is_reached


def test_far_fewer_minutes_than_now_are_explained_by_new_cards(stages: list[Workload]) -> None:
    last = replace(
        stages[-1],
        recent_minutes_a_day=27.0,
        recent_minutes_on_begun_cards=20.0,
        unseen_cards=12,
        new_a_day=8,
    )
    reason = "Until now, most of your time went to new cards, and 12 are left."
    assert reason in join_sentences(last)
    assert PaneLine(reason, drop_order=6) in render_minutes(last, is_one_of_several=False)[1]
    for changes in (
        {"recent_minutes_on_begun_cards": 2.0},
        {"unseen_cards": 5_000},
        {"recent_minutes_a_day": 5.0, "recent_minutes_on_begun_cards": 5.0},
    ):
        assert "Until now" not in join_sentences(replace(last, **changes))


def test_more_minutes_than_now_are_explained_by_overdue_cards(stages: list[Workload]) -> None:
    last = replace(stages[-1], recent_minutes_a_day=1.0, overdue=OverdueCards(94, 300, 30.0))
    reason = "Until now, you reviewed fewer cards than came due: 94 are overdue."
    assert reason in join_sentences(last)
    stopped = join_sentences(replace(last, recent_minutes_a_day=0.0))
    assert reason in stopped
    assert "In the last 90 days you spent" not in stopped
    on_time = replace(last, overdue=OverdueCards(2, 300, 1.0))
    assert "Until now" not in join_sentences(on_time)


def test_minutes_spent_on_begun_cards_are_part_of_all(log: ReviewLog) -> None:
    for group in Learner.of(log).groups:
        pace = measure_pace(log, group)
        assert 0.0 < pace.minutes_on_begun_cards < pace.minutes_a_day


def test_comparison_is_the_same_at_a_glance_and_in_full(stages: list[Workload]) -> None:
    last = stages[-1]
    retentions = (*COMPARED_RETENTIONS, 0.88)
    figures = [make_figures(4 / (1 - at), at, 1_000 * at) for at in retentions]
    figures[-1][MINUTES] *= 1.1  # chance moves single rows
    full = replace(
        last,
        presets=last.presets[:1],
        retentions=retentions,
        estimates=tuple(map(tuple, figures)),
        draws=(),
        limit_effects=(),
        current_figures=tuple(make_figures(30.0, 0.87, 900.0)),
    )
    glance = replace(full, retentions=retentions[:-1], estimates=full.estimates[:-1])
    assert full.comparison == glance.comparison


def test_highest_retention_is_simulated_where_today_remembers_that_much(log: ReviewLog) -> None:
    """Check a learner under FSRS who asks for 98 %: at a glance as in full."""
    presets = {key: replace(preset, desired_retention=0.98) for key, preset in log.presets.items()}
    demanding = replace(log, presets=presets)
    question = replace(QUICK, draws=1, retentions=COMPARED_RETENTIONS)
    *_, glance = workload(demanding, question=question)
    assert glance.retentions == (*COMPARED_RETENTIONS, 0.98, 0.99)
    assert len(glance.draws[0]) == len(glance.limit_effects) == len(glance.retentions)
    assert glance.comparison is not None
    assert glance.comparison.same_share is not None
    full_question = replace(question, retentions=(*COMPARED_RETENTIONS, 0.96, 0.99))
    *_, full = workload(demanding, question=full_question)
    assert full.comparison == glance.comparison
    assert full.glance_finding.evidence == replace(glance, question=question)
    *_, usual = workload(log, question=question)
    assert HIGHEST_RETENTION not in usual.retentions


def test_comparison_is_none_where_nothing_is_due(stages: list[Workload]) -> None:
    current_figures = tuple(make_figures(0.0, math.nan, 900.0))
    result = replace(stages[-1], current_figures=current_figures)
    assert result.comparison is None
    json.dumps(workload_document(result), allow_nan=False)


def test_comparison_with_given_parameters_does_not_say_now(stages: list[Workload]) -> None:
    text = join_sentences(replace(stages[-1], schedule="the parameters given"))
    assert "To remember as much as with the parameters given" in text
    assert "as now" not in text


@pytest.mark.parametrize(("recalled", "expected"), [(0.01, "more"), (0.9999, "less")])
def test_workload_beyond_simulated_memory_says_on_which_side(
    stages: list[Workload], recalled: float, expected: str
) -> None:
    last = stages[-1]
    assert last.current_figures is not None
    current_figures = list(last.current_figures)
    current_figures[RECALLED] = recalled
    text = join_sentences(replace(last, current_figures=tuple(current_figures)))
    assert f"you would remember {expected}. So their minutes are not compared" in text
    amount = "little" if expected == "more" else "much"
    assert f"remember as {amount} as with your current parameters (" in text


def test_retention_with_about_todays_memory_is_the_nearest(stages: list[Workload]) -> None:
    last = stages[-1]
    recalled = last.figures[:, RECALLED]
    middle = len(last.retentions) // 2
    current_figures = list(last.current_figures or ())
    current_figures[RECALLED] = float(recalled[middle])
    assert recalled.min() < recalled[middle] < recalled.max()
    beyond = [list(draw) for draw in last.current_draws]
    for draw in beyond:
        draw[RECALLED] = 0.9999  # so that too few draws reach today's memory
    text = join_sentences(
        replace(
            last,
            current_figures=tuple(current_figures),
            current_draws=tuple(map(tuple, beyond)),
        )
    )
    optimized = f"With FSRS at {100 * last.retentions[middle]:.0f} %"
    assert f"{optimized}, you would remember about as much as" in text


def test_workload_says_what_today_costs_at_equal_memory(stages: list[Workload]) -> None:
    last = stages[-1]
    comparison = last.comparison
    assert comparison is not None
    assert comparison.same_share is not None
    assert f"To remember as much as with {last.schedule} (" in join_sentences(last)
    document = workload_document(last)
    assert document["comparison"]["same_share"]["minutes"] == comparison.same_share.minutes
    assert document["now_low"]["minutes"] <= document["now"]["minutes"]
    assert replace(last, current_figures=None).comparison is None


def test_estimate_of_an_older_version_is_shown_without_ranges(stages: list[Workload]) -> None:
    older = replace(stages[-1], current_draws=())
    assert older.current_figures is not None
    assert not older.has_all_draws
    comparison = older.comparison
    assert comparison is not None
    assert comparison.same_share is not None
    assert comparison.same_share.extra_minutes.low == comparison.same_share.extra_minutes.high
    assert workload_document(older)["now_low"] == workload_document(older)["now"]
    render_minutes(older, is_one_of_several=False)


def test_saved_glance_is_loaded_unchanged(stages: list[Workload], tmp_path: Path) -> None:
    for stage in (stages[0], stages[-1]):
        save_answers(
            "file", SavedAnswers((stage.glance_finding,), "these reviews", 4_000, 1.0), tmp_path
        )
        saved = load_answers("file", tmp_path)
        assert saved is not None
        assert saved.findings == (stage.glance_finding,)


def test_sentence_on_overdue_cards_names_their_minutes(
    log: ReviewLog, stages: list[Workload]
) -> None:
    """Check that cards and minutes are those under "Anything wrong?"."""
    later = next(workload(log, question=replace(QUICK, after=30)))
    assert later.overdue.cards > stages[0].overdue.cards
    assert later.learned_cards == stages[0].learned_cards
    cards = later.overdue.cards
    minutes = later.overdue.minutes
    work = f"{minutes:.0f} minutes of work"
    sentence = f"{cards:,} cards are overdue after 30 days without a review: {work}."
    assert sentence in join_sentences(later)
    assert workload_document(later)["overdue_minutes"] == minutes
    assert stages[0].overdue == count_overdue(log)


def test_workload_of_few_reviews_is_refused_in_a_sentence(
    log: ReviewLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "few.anki2"
    write_collection(simulate_learner(3, 700), path)
    few = srs_eval.load(path)
    with pytest.raises(NotEnoughData, match="srs-eval needs 1,000 to estimate"):
        workload(few)
    (glance,) = estimate_at_a_glance(few)
    assert glance.missing is not None
    assert glance.reviews + (glance.missing.reviews or 0) == 1_000
    assert (glance.conclusion, tables(glance)) == ("can't tell", ())
    text = line([glance])
    assert "srs-eval needs 1,000 to estimate what a desired retention costs" in text
    assert "at 90 %" not in text
    assert main(["workload", str(path)]) == 2
    out, error = capsys.readouterr()
    assert "srs-eval needs 1,000 to estimate" in error
    assert len(error.strip().splitlines()) == 1
    assert not out


def test_suspended_cards_get_models_but_no_workload(suspended: ReviewLog) -> None:
    """Check that models, not presets, are evaluated, on the benchmark's rows as in the app."""
    assert default_questions(suspended) == (PARAMETERS, MODELS, CHECKS)
    assert {finding.question for finding in compare(suspended)} == {PARAMETERS, MODELS, CHECKS}
    with pytest.raises(NotEnoughData, match="all your cards are suspended"):
        workload(suspended)


# Sentences


def test_desired_retention_has_one_figure_everywhere(stages: list[Workload]) -> None:
    last = stages[-1]
    stated = last.finding
    rows = {row[0]: row for row in reversed(tables(stated)[0].rows)}
    row = rows["yours"]  # two presets ask for different retentions
    assert (
        f"take {row[3]} minutes and {row[4]} reviews a day".replace("-", " to ")
        in (sentences(stated)[0])
    )
    figures = {f"{stage.figures[last.at(0.9), MINUTES]:.1f}" for stage in stages}
    assert figures == {str(row[3]).split()[0]}


def test_optimized_schedule_in_force_is_now(stages: list[Workload]) -> None:
    same = replace(stages[-1], current_figures=None)
    assert [row[1] for row in tables(same.glance_finding)[0].rows].count("now") == 1
    assert "go on" not in join_sentences(same)
    optimized = workload_document(same)["retentions"][same.at(same.desired)]["estimate"]
    assert workload_document(same)["now"] == optimized
    assert workload_document(stages[-1])["now"] != optimized


def test_coverage_is_told_only_of_what_was_measured(stages: list[Workload]) -> None:
    last = stages[-1]
    year = replace(last, question=replace(last.question, days=365))
    after_pause = replace(year, question=replace(year.question, after=30))
    assert "We tested such ranges" in join_sentences(year)
    assert "We tested such ranges" not in join_sentences(last)  # of 60 days
    assert "We tested such ranges" not in join_sentences(after_pause)


def test_figures_have_no_ranges_while_draws_are_missing(stages: list[Workload]) -> None:
    for stage in stages[:5]:
        stated = stage.finding
        assert sentences(stated)[-1].startswith("Ranges appear once 5 versions")
        assert stated.conclusion == "see figures"
        cells = itertools.chain.from_iterable(tables(stated)[0].rows)
        assert "(" not in "".join(map(str, cells))
    assert "(" in sentences(stages[5].finding)[0]


def test_pace_is_measured_over_the_days_of_the_log(log: ReviewLog, stages: list[Workload]) -> None:
    assert log.entries is not None
    assert log.day_grid is not None
    group = next(key for key in log.presets if log.presets[key].name == stages[0].presets[0][0])
    per_day, done_a_day, minutes, days, *_ = measure_pace(log, group)
    assert days == 90
    usual = next(workload(log, str(group), replace(QUICK, new_a_day=None)))
    assert usual.new_a_day == round(per_day)
    assert (usual.recent_reviews_a_day, usual.pace_days) == (round(done_a_day), days)
    lately = (
        f"In the last 90 days you spent {minutes:.1f} minutes and did {done_a_day:.0f} reviews a"
    )
    assert lately in join_sentences(usual)
    since_ms = 1000 * (log.day_grid.next_day_at_s - 30 * 86_400)
    late = log.entries.time_ms >= since_ms
    columns = {field.name: getattr(log.entries, field.name)[late] for field in fields(log.entries)}
    in_preset = log.preset_of(log.deck_of(columns["card_id"])) == group
    begun = np.unique(columns["card_id"][in_preset & (columns["kind"] == LEARNING)])
    is_done = in_preset & (columns["kind"] == REVIEW)
    day = (columns["time_ms"][is_done] - since_ms) // 86_400_000
    done = len({*zip(columns["card_id"][is_done].tolist(), day.tolist(), strict=True)})
    spent = columns["duration_ms"][in_preset & (columns["rating"] > 0)].sum() / 60_000
    assert round(done / 30) > 0
    assert round(len(begun) / 30) > round(len(begun) / 90)
    young = replace(log, entries=Entries(**columns), source_predictions={})
    assert measure_pace(young, group)[1:4] == (done / 30, pytest.approx(spent / 30), 30)
    assert round(measure_pace(young, group)[0]) == round(len(begun) / 30)


def test_workload_of_all_presets_is_their_sum(log: ReviewLog) -> None:
    """Check each preset with its own settings; at the mean retention each has its own."""
    question = replace(QUICK, draws=1, new_a_day=None, budget=None)
    *_, both = workload(log, question=question)
    single_results = [list(workload(log, name, question))[-1] for name, _ in both.presets]
    assert len(single_results) == 2
    assert both.preset == ALL_PRESETS
    assert {result.preset: result.desired for result in single_results} == dict(both.presets)
    assert both.learned_cards == sum(result.learned_cards for result in single_results)
    assert both.unseen_cards == sum(result.unseen_cards for result in single_results)
    assert both.overdue.cards == sum(result.overdue.cards for result in single_results)
    for figure in (REVIEWS, MINUTES, KNOWN):
        summed = sum(result.figures[result.at(0.85), figure] for result in single_results)
        assert both.figures[both.at(0.85), figure] == pytest.approx(summed, rel=0.02)
        own_total = sum(
            result.figures[result.at(result.desired), figure] for result in single_results
        )
        assert both.figures[both.at(both.desired), figure] == pytest.approx(own_total, rel=0.02)
    assert ", all your cards take" in sentences(both.finding)[0]
    assert "each preset keeps the retention that you ask of it now: " in join_sentences(both)
    for name, desired in both.presets:
        assert f"{100 * desired:.0f} % in {name}" in join_sentences(both)
    of_preset = f", the cards in “{single_results[0].preset}” take"
    assert of_preset in sentences(single_results[0].finding)[0]
    named = next(workload(log, both.presets[0][0], replace(question, new_a_day=7)))
    assert named.new_a_day == 7
    few = next(workload(log, question=replace(question, new_a_day=7)))
    assert few.new_a_day == 7  # in all, not in each preset


def test_given_parameters_replace_those_in_force(
    log: ReviewLog, off: ReviewLog, stages: list[Workload]
) -> None:
    forgetful = [value / 4 if k < 4 else value for k, value in enumerate(fsrs6.DEFAULT)]
    for source in (log, off):
        by_given = next(workload(source, question=QUICK, parameters=forgetful))
        assert by_given.current_figures is not None
        assert stages[0].current_figures is not None
        assert by_given.current_figures[REVIEWS] > stages[0].current_figures[REVIEWS]
        assert "If you keep the parameters given, your cards take" in join_sentences(by_given)
    with pytest.raises(InputError, match="17, 19 or 21"):
        next(workload(log, question=QUICK, parameters=forgetful[:5]))


def test_sentences_state_the_figures_of_the_table(stages: list[Workload]) -> None:
    last = stages[-1]
    desired_index = last.at(last.desired)
    assert f"{last.figures[desired_index, REVIEWS]:.0f} " in join_sentences(last)
    assert f"{last.figures[desired_index, MINUTES]:.1f} " in join_sentences(last)
    assert "come from 5 versions of your memory that fit your reviews" in join_sentences(last)
    rows = tables(last.finding)[0].rows
    curve = rows[:-1]  # below it is today's schedule
    labels = []
    for retention in last.retentions:
        labels.append("yours" if retention == last.desired else f"{100 * retention:.0f} %")
    assert [row[0] for row in curve] == labels
    # A retention that no month came near is marked as the model's guess.
    assert last.observed_retentions is not None
    low, high = last.observed_retentions
    assert f"you recalled {100 * low:.0f} to {100 * high:.0f} %" in join_sentences(last)
    marks = ["?" in str(row[1]) for row in curve]
    assert marks == [not low <= retention <= high for retention in last.retentions]
    never = replace(last, observed_retentions=None)
    assert f"In no month did you do at least {MIN_MONTH_REVIEWS} reviews" in join_sentences(never)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"retentions": (1.2,)}, "is out of range"),
        ({"retentions": ()}, "is empty"),
        ({"days": 0}, "--days 0"),
        ({"new_a_day": -1}, "--new -1"),
        ({"budget": 0.0}, "--budget 0"),
        ({"after": -1}, "--after -1"),
        ({"draws": 0}, "--draws must be 1 or more, not 0"),
        ({"assume": "usual"}, "--assume usual is not one of advised, current, optimized"),
    ],
)
def test_impossible_questions_are_refused(
    log: ReviewLog, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        workload(log, question=replace(QUICK, **changes))  # type: ignore[arg-type]


def test_workload_without_schedule_preset_or_reviews_is_refused(
    log: ReviewLog, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="when cards are due"):
        workload(replace(log, schedule=None), question=QUICK)
    with pytest.raises(InputError, match="Did you mean"):
        workload(log, "no such preset", QUICK)
    few = srs_eval.load(make_collection(tmp_path / "few.anki2", entries=plain_history(6)[:2]))
    with pytest.raises(NotEnoughData):
        workload(few, question=QUICK)


# Intervals of the buttons


def test_preview_of_buttons_has_ankis_intervals(log: ReviewLog) -> None:
    group = next(key for key in log.presets if (log.preset_of(log.cards.deck_id) == key).any())
    today = collect_todays_cards(log, group)
    steps = Preset(1, "P", learning_steps=(1.0, 10.0), relearning_steps=(10.0,))

    def preview(preset: Preset, retention: float) -> dict[str, tuple[float, ...]]:
        cards = preview_typical_cards(fsrs6.DEFAULT, today, preset, retention)
        return {card.kind: card.seconds for card in cards}

    lines = preview(steps, 0.9)
    # FSRS-6's defaults at 0.90: intervals are stabilities; Easy begins at 8.2956 days.
    assert lines["new"] == (60.0, 330.0, 600.0, 8 * 86_400.0)
    for seconds in lines.values():
        assert sorted(seconds) == list(seconds)
    none = preview(Preset(1, "P"), 0.9)
    days = [interval_s / 86_400 for interval_s in none["new"]]
    assert days == [round(max(1, fsrs6.DEFAULT[k])) for k in range(4)]
    shorter = preview(replace(steps, maximum_interval=30), 0.9)
    assert max(max(seconds) for seconds in shorter.values()) == 30 * 86_400
    for shorter_steps, longer_steps in zip(
        preview(steps, 0.8).values(), lines.values(), strict=True
    ):
        assert shorter_steps[3] >= longer_steps[3]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (59, "59s"),
        (600, "10m"),
        (3600, "1h"),
        (5400, "1.5h"),
        (86_400 * 12, "12d"),
        (86_400 * 30, "1mo"),
        (86_400 * 42, "1.4mo"),
        (86_400 * 730, "2y"),
    ],
)
def test_intervals_are_formatted_as_by_anki(seconds: float, words: str) -> None:
    assert _format_anki_interval(seconds) == words


# The command line


def make_question_class(count: int) -> type[WorkloadQuestion]:
    """Return the class of questions, with few draws by default."""

    @dataclass(frozen=True)
    class Quick(WorkloadQuestion):
        draws: int = count

    return Quick


def test_workload_command_prints_and_writes_the_figures(
    simulated_collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(estimate, "WorkloadQuestion", make_question_class(3))
    monkeypatch.setattr("srs_eval.report.console.get_width", lambda _: 80)
    target = tmp_path / "workload.json"
    status = main(
        [
            "workload",
            str(simulated_collection),
            "--retention",
            "80,0.9",
            "--days",
            "30",
            "--new",
            "2",
            "--budget",
            "5",
            "--json",
            str(target),
        ]
    )
    out, error = capsys.readouterr()
    assert status == 0, error
    assert max(map(len, out.splitlines())) <= 80
    assert "What does a desired retention cost?" in out
    assert "days > 5 min" in out
    document = json.loads(target.read_text())
    assert document["layout"] == 3
    assert document["draws"] == 3
    assert {retention["desired"] for retention in document["retentions"]} >= {0.8, 0.9}
    for retention in document["retentions"]:
        assert (
            retention["low"]["reviews"]
            <= retention["estimate"]["reviews"]
            <= retention["high"]["reviews"]
        )


def test_workload_command_while_fsrs_is_off_names_sm2(
    off: ReviewLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(estimate, "WorkloadQuestion", make_question_class(2))
    monkeypatch.setattr("srs_eval.cli.settings.Source.load", lambda self: off)
    assert main(["workload", "somebody.anki2", "--retention", "90", "--days", "30"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "With FSRS on and optimized, and a desired retention of 91 %" in out
    assert "If you keep SM-2, your cards take" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--retention", "ninety"], "is not a list of numbers"),
        (["--retention", "9"], "is out of range"),
        (["--params", "1, 2, 3"], "17, 19 or 21"),
        (["--states", "guess"], "--states"),
        (["--preset", "nowhere"], "no preset"),
    ],
)
def test_workload_command_refuses_bad_input_in_a_sentence(
    simulated_collection: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["workload", str(simulated_collection), *arguments]) == 2
    out, error = capsys.readouterr()
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not out


def test_asking_for_85_percent_is_compared_with_what_is_asked_for(stages: list[Workload]) -> None:
    last = limit_rows(stages[-1], [0.0] * len(stages[-1].retentions), now=0.0)
    lower, current = last.figures[[last.at(0.85), last.at(last.desired)]]
    desired = f"{100 * last.desired:.0f} %"
    saved = current[MINUTES] - lower[MINUTES]
    assert saved > 0
    (sentence,) = _describe_lower_retention(last)
    assert f"asking for 85 % instead of {desired} would take about" in sentence
    assert f"about {saved:.1f} minutes a day less" in sentence
    assert f"remember {100 * lower[RECALLED]:.0f} % of your reviews instead of" in sentence
    assert sentence in join_sentences(last)
    assert not list(_describe_lower_retention(replace(last, desired=0.85)))
    others = tuple(0.86 if retention == 0.85 else retention for retention in last.retentions)
    assert not list(_describe_lower_retention(replace(last, retentions=others)))
