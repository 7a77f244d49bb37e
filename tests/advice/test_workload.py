"""The simulation of a preset's days: its rules, and other programs' answers."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice.workload.simulator import (
    MODELS,
    ORDERS,
    SM2,
    Costs,
    Memory,
    SimulatedDeck,
    SimulationResult,
    SimulationSettings,
    _draw_reviews,
    draw_memories,
    fit_memory,
    simulate,
)
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import IntArray
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.models import anki_sm2
from tests.helpers.anki_simulator import following_ankis_simulator

FSRS6 = Memory("FSRS-6", MODELS["FSRS-6"].default)
FSRS7 = Memory("FSRS-7", MODELS["FSRS-7"].default)
EITHER = (FSRS6, pytest.param(FSRS7, marks=pytest.mark.slow))
NONE = np.empty(0, np.int64)
HABITS = Costs()


def make_deck(n: int, due: IntArray | int = 0, *, new: int = 0, states: int = 2) -> SimulatedDeck:
    """Return n cards of a stability of 20 days, last reviewed 20 days before they are due."""
    due_day = np.broadcast_to(np.asarray(due, np.int64), n)
    state = np.full((states, n), 20.0)
    state[-1] = np.linspace(3.0, 7.0, n) if n else 5.0
    return SimulatedDeck(state, due_day - 20, due_day, new)


def make_new_deck(count: int) -> SimulatedDeck:
    return make_deck(0, new=count)


def simulate_means(
    scheduler: Memory,
    deck: SimulatedDeck,
    settings: SimulationSettings,
    seeds: int = 20,
    **optional_memory: Memory,
) -> dict[str, float]:
    runs = [
        simulate(scheduler, deck, HABITS, settings, seed, **optional_memory)
        for seed in range(seeds)
    ]
    return {
        "reviews": float(np.mean([run.reviews.sum() for run in runs])),
        "seconds": float(np.mean([run.seconds.sum() for run in runs])),
        "known": float(np.mean([run.known for run in runs])),
        "recalled": float(np.mean([run.recalled.sum() for run in runs])),
    }


def is_equal(a: SimulationResult, b: SimulationResult) -> bool:
    return all(np.array_equal(value, vars(b)[name]) for name, value in vars(a).items())


def test_simulation_of_the_same_seed_is_the_same() -> None:
    deck = make_deck(300, new=300)
    settings = SimulationSettings(days=90)
    first, again = (simulate(FSRS6, deck, HABITS, settings, 7) for _ in range(2))
    assert is_equal(first, again)
    assert not is_equal(first, simulate(FSRS6, deck, HABITS, settings, 8))
    assert first.reviews.sum() > 300
    assert first.new.sum() == 300
    assert 0 < first.recalled.sum() < first.reviews.sum()
    assert 0 < first.known < 600


@pytest.mark.parametrize("memory", EITHER)
def test_simulated_recall_is_the_desired_retention(memory: Memory) -> None:
    """Check late days only: intervals are whole days, so only longer ones come close to it."""
    deck = make_deck(4000, np.arange(4000) % 60, states=memory.state_size)
    settings = SimulationSettings(desired_retention=0.85, balanced=False, days=365)
    run = simulate(memory, deck, HABITS, settings, 1)
    late = slice(100, None)
    assert run.recalled[late].sum() / run.reviews[late].sum() == pytest.approx(0.85, abs=0.015)


def test_more_retention_costs_more_and_keeps_more_known() -> None:
    runs = [
        simulate_means(
            FSRS6, make_deck(500, new=500), SimulationSettings(desired_retention=retention), seeds=3
        )
        for retention in (0.7, 0.8, 0.9, 0.97)
    ]
    for figure in ("reviews", "seconds", "known"):
        values = [run[figure] for run in runs]
        assert values == sorted(values)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_limit_of_reviews_is_kept_in_every_order(order: str) -> None:
    deck = make_deck(200)
    settings = SimulationSettings(reviews_a_day=30, days=20, new_a_day=0, order=order)  # type: ignore[arg-type]
    run = simulate(FSRS6, deck, HABITS, settings, 3)
    assert run.reviews.max() == 30
    assert run.reviews[:6].tolist() == [30] * 6
    free = simulate(FSRS6, deck, HABITS, replace(settings, reviews_a_day=9999), 3)
    assert free.reviews[0] == 200


def test_order_decides_which_cards_come_first() -> None:
    """Check 100 of 200 cards due on one day: cards forgotten longer fail more often."""
    forgotten = np.arange(200) % 2 == 1
    deck = make_deck(200)
    deck = replace(deck, last_day=np.where(forgotten, -600, -1))
    one_day = SimulationSettings(days=1, reviews_a_day=100, balanced=False)
    shares = {}
    for order in ("retrievability, highest first", "retrievability, lowest first", "random"):
        settings = replace(one_day, order=order)
        runs = [simulate(FSRS6, deck, HABITS, settings, seed) for seed in range(10)]
        shares[order] = np.mean([run.recalled[0] / 100 for run in runs])
    assert shares["retrievability, highest first"] > 0.95
    assert shares["retrievability, lowest first"] < 0.75
    assert 0.75 < shares["random"] < 0.85


def test_limit_of_new_cards_is_kept() -> None:
    settings = SimulationSettings(days=30, new_a_day=10)
    run = simulate(FSRS6, make_new_deck(95), HABITS, settings, 1)
    assert run.new.tolist() == [10] * 9 + [5] + [0] * 20
    full = replace(settings, reviews_a_day=15, new_ignore_review_limit=False)
    run = simulate(FSRS6, make_new_deck(300), HABITS, full, 1)
    assert run.new[0] == 10
    assert (run.new + run.reviews).max() <= 15
    run = simulate(FSRS6, make_new_deck(300), HABITS, replace(settings, new_a_day=0), 1)
    assert run.reviews.sum() == run.new.sum() == 0
    assert run.known == 0


def test_intervals_are_at_most_the_maximum() -> None:
    """Check that all cards passed on day 0 come back within the maximum interval."""
    always = replace(HABITS, review_rating=(0.0, 0.0, 1.0))
    deck = make_deck(50)
    deck = replace(deck, last_day=np.zeros(50, np.int64))  # just seen: all are recalled
    settings = SimulationSettings(days=15, maximum_interval=7)
    run = simulate(FSRS6, deck, always, settings, 1)
    assert run.reviews[0] == run.recalled[0] == 50
    assert run.reviews[1:8].sum() >= 50
    free = simulate(FSRS6, deck, always, replace(settings, maximum_interval=36_500), 1)
    assert free.reviews[1:].sum() == 0


def test_balanced_intervals_even_out_the_days() -> None:
    deck = make_deck(0, new=1000)
    settings = SimulationSettings(new_a_day=20, days=200)
    even, uneven = (
        simulate(FSRS6, deck, HABITS, replace(settings, balanced=balanced), 2).reviews[60:]
        for balanced in (True, False)
    )
    assert np.diff(even).std() < 0.7 * np.diff(uneven).std()


def test_overdue_cards_come_today_with_their_full_delay() -> None:
    late = make_deck(2000, -400)
    on_time = make_deck(2000)
    one_day = SimulationSettings(days=1)
    assert simulate(FSRS6, late, HABITS, one_day, 1).reviews[0] == 2000
    shares = [
        simulate(FSRS6, deck, HABITS, one_day, 1).recalled[0] / 2000 for deck in (late, on_time)
    ]
    w = FSRS6.values
    for share, days in zip(shares, (420.0, 20.0), strict=True):
        expected = float(MODELS["FSRS-6"].recall(days, (20.0, 5.0), w))
        assert share == pytest.approx(expected, abs=4 * math.sqrt(0.25 / 2000))


def test_seconds_of_a_day_are_the_sum_of_its_answers() -> None:
    costs = replace(
        HABITS,
        seconds=((1.0,) * 4, (100.0,) * 4, (10_000.0,) * 4),
        first_rating=(0.0, 0.0, 1.0, 0.0),
        learning_steps=((0.0, 0.0, 1.0, 0.0),) * 3,
        relearning_steps=((0.0, 0.0, 1.0, 0.0),) * 3,
    )
    settings = SimulationSettings(days=1, learning_steps=3, relearning_steps=2)
    run = simulate(FSRS6, make_deck(500, new=20), costs, settings, 5)
    failed = run.reviews[0] - run.recalled[0]
    assert failed > 0
    # Good at first passes one of three learning steps; a failed review starts relearning anew.
    assert run.seconds[0] == 20 * 3 + 100 * 500 + 10_000 * 2 * failed


@pytest.mark.slow
def test_worse_memory_lowers_recall_under_the_same_scheduler() -> None:
    """Check that the scheduler's own memory changes nothing, and that a worse one does."""
    deck = make_deck(500, new=500)
    settings = SimulationSettings(days=365, balanced=False)
    both = replace(deck, memory_state=deck.state)
    assert is_equal(
        simulate(FSRS6, deck, HABITS, settings, 1),
        simulate(FSRS6, both, HABITS, settings, 1, memory=FSRS6),
    )
    w = list(FSRS6.parameters)
    weak = Memory("FSRS-6", (*(value / 4 for value in w[:4]), *w[4:8], w[8] - 0.7, *w[9:]))
    right = simulate_means(FSRS6, deck, settings, seeds=3)
    wrong = simulate_means(FSRS6, both, settings, seeds=3, memory=weak)
    assert wrong["recalled"] / wrong["reviews"] < right["recalled"] / right["reviews"] - 0.05
    assert wrong["reviews"] > right["reviews"]
    assert wrong["known"] < right["known"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("due", "rating", "days"),
    [
        (0, "good", [0, 25, 25 + 63]),  # 10 days, 25, 62.5
        (-20, "good", [0, 50]),  # half of the days that it is late count
        (-20, "easy", [0, 98]),  # all of them: 30 days, 2.5 and 1.3 times
        (-20, "hard", [0, 12, 12 + 14, 12 + 14 + 17, 12 + 14 + 17 + 20, 63 + 24]),  # none
    ],
)
def test_sm2_schedules_days_as_anki(due: int, rating: str, days: list[int]) -> None:
    """Check a card with an interval of 10 days and an ease of 2.5 that is never forgotten."""
    sure = Memory("FSRS-6", (*FSRS6.parameters[:20], 0.1))
    deck = SimulatedDeck(
        state=np.array([[10.0], [2.5]]),
        last_day=np.array([due - 10]),
        due_day=np.array([due]),
        memory_state=np.array([[1e9], [5.0]]),
    )
    shares = {"hard": (1.0, 0.0, 0.0), "good": (0.0, 1.0, 0.0), "easy": (0.0, 0.0, 1.0)}
    costs = replace(HABITS, review_rating=shares[rating])
    settings = SimulationSettings(desired_retention=0.9, days=99, balanced=False)
    run = simulate(Memory(SM2, anki_sm2.DEFAULTS), deck, costs, settings, 1, sure)
    assert np.flatnonzero(run.reviews).tolist() == days


def test_sm2_card_comes_back_the_day_after_a_lapse() -> None:
    deck = SimulatedDeck(np.full((2, 200), 2.5), np.full(200, -100), np.zeros(200, np.int64))
    deck = replace(deck, memory_state=np.array([[1e-2], [9.0]]) * np.ones(200))
    run = simulate(
        Memory(SM2, anki_sm2.DEFAULTS), deck, HABITS, SimulationSettings(days=2), 1, FSRS6
    )
    assert 0 < run.recalled[0] < 200
    assert run.reviews.tolist() == [200, 200 - run.recalled[0]]


@pytest.fixture(scope="module")
def trials(simulated_collection: Path) -> Trials:
    return LearnerSession(srs_eval.load(simulated_collection)).trials(Protocol(short=True))


def test_drawn_parameters_spread_around_the_fit(trials: Trials) -> None:
    """Check that the same seed draws the same, and that fewer reviews spread more."""
    index = np.arange(len(trials))
    few = index[: len(trials) // 8]
    fit = fit_memory(trials, index)
    parameters = [
        np.array(memory.parameters) for memory in draw_memories(trials, index, 12, seed=1)
    ]
    again = [np.array(memory.parameters) for memory in draw_memories(trials, index, 12, seed=1)]
    np.testing.assert_array_equal(parameters, again)
    spread = np.std(parameters, axis=0)
    assert spread.max() > 0
    assert abs(np.mean(parameters, axis=0)[2] - fit.parameters[2]) < 3 * spread[2] + 1e-3
    # The penalty holds the shape of small fits, but S0 is as uncertain as it is.
    wide = [memory.parameters[:4] for memory in draw_memories(trials, few, 12, seed=1)]
    assert np.median(np.log(wide).std(0) / np.log(np.array(parameters)[:, :4]).std(0)) > 1


def test_days_are_drawn_whole_and_in_blocks(trials: Trials) -> None:
    index = np.arange(len(trials))[10:]
    drawn = _draw_reviews(np.random.default_rng(1), trials, index)
    assert np.all(np.diff(drawn) >= 0)
    assert np.all(np.isin(drawn, index))
    days, day_number = np.unique(trials.day[index], return_inverse=True)
    times = np.bincount(np.searchsorted(index, drawn), minlength=len(index))
    of_day = np.array([times[day_number == k][0] for k in range(len(days))])
    np.testing.assert_array_equal(times, of_day[day_number])  # all reviews of a day equally often
    assert of_day.sum() == len(days)
    changes = np.count_nonzero(np.diff(of_day))
    assert changes <= 2 * -(-len(days) // 7)


@pytest.mark.parametrize(
    ("retention", "limits"),
    [
        pytest.param(0.8, {}, marks=pytest.mark.slow),
        (0.9, {"learning_steps": 0, "relearning_steps": 0}),
        pytest.param(0.95, {"learning_steps": 3, "relearning_steps": 2}, marks=pytest.mark.slow),
        pytest.param(0.9, {"reviews_a_day": 100}, marks=pytest.mark.slow),
        pytest.param(
            0.9, {"reviews_a_day": 100, "new_ignore_review_limit": False}, marks=pytest.mark.slow
        ),
    ],
)
def test_simulation_of_a_new_deck_equals_fsrs_rs(retention: float, limits: dict[str, int]) -> None:
    """Check means over 20 seeds, within 2 % (a seed's own noise is about 1 %)."""
    fsrs_rs = pytest.importorskip("fsrs_rs_python", reason="needs fsrs-rs-python")
    settings = SimulationSettings(
        desired_retention=retention,
        balanced=False,
        order="difficulty, easiest first",
        **limits,  # type: ignore[arg-type]
    )
    config = fsrs_rs.SimulatorConfig(
        7300,
        settings.days,
        1e9,
        settings.maximum_interval,
        HABITS.first_rating,
        HABITS.review_rating,
        settings.new_a_day,
        settings.reviews_a_day,
        settings.new_ignore_review_limit,
        HABITS.learning_steps,
        HABITS.relearning_steps,
        HABITS.seconds,
        settings.learning_steps,
        settings.relearning_steps,
    )
    runs = [fsrs_rs.simulate(FSRS6.parameters, retention, config, seed) for seed in range(20)]
    expected = {
        "reviews": np.mean([sum(run.review_cnt_per_day) for run in runs]),
        "seconds": np.mean([sum(run.cost_per_day) for run in runs]),
        "known": np.mean([run.memorized_cnt_per_day[-1] for run in runs]),
        "recalled": np.mean([sum(run.correct_cnt_per_day) for run in runs]),
    }
    with following_ankis_simulator():
        simulated = simulate_means(FSRS6, make_new_deck(7300), settings)
    for figure, value in expected.items():
        assert simulated[figure] == pytest.approx(value, rel=0.02), figure
