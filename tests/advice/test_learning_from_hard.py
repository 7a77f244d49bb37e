"""Growth of memory at reviews answered with Hard, measured without a fit that adapts to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srs_eval.advice.candidates import Learner
from srs_eval.advice.checks import run_checks
from srs_eval.advice.findings import Checks, LearningFromHard, get_evidence
from srs_eval.advice.learning_from_hard import (
    _compute_chance,
    _fit_log_growth,
    _recall,
    _ReviewPairs,
    measure_learning_from_hard,
)
from srs_eval.advice.shown.habits import describe_learning_from_hard
from srs_eval.data.reviews import ReviewLog
from srs_eval.stats.intervals import Interval
from tools.simulated.worlds import World, simulate_world

_GOOD = Interval(1.0, 0.1, 4_000, 200)


def _measure(hard: float, half_width: float) -> LearningFromHard:
    interval = Interval(hard, half_width, 500, 100)
    return LearningFromHard(0.9, 0.88, interval, _GOOD, _compute_chance(interval, _GOOD))


@pytest.mark.parametrize("log_growth", [-0.5, 0.0, 0.8])
def test_fit_log_growth_recovers_the_growth_of_stability(log_growth: float) -> None:
    hits = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        odds = (0.9 ** (-1 / 0.1542) - 1) * np.exp(random.uniform(0, 1.5, 600))
        recalled = (random.random(600) < _recall(odds, log_growth)).astype(np.float64)
        day = np.sort(random.integers(0, 100, 600))
        fitted = _fit_log_growth(_ReviewPairs(np.full(600, 2), odds, recalled, day))
        hits += fitted.low <= log_growth <= fitted.high
    assert hits >= 18


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_fit_log_growth_of_few_equal_outcomes_is_uncertain(outcome: float) -> None:
    pairs = _ReviewPairs(np.full(25, 2), np.full(25, 2.0), np.full(25, outcome), np.arange(25))
    fitted = _fit_log_growth(pairs)
    assert abs(fitted.estimate) == pytest.approx(5.0, abs=1e-3)
    assert fitted.half_width > 1.0
    if outcome == 1.0:
        assert not LearningFromHard(1.0, 0.85, fitted, _GOOD, chance=1.0).is_honest


def test_chance_of_little_growth_is_that_of_published_users() -> None:
    growth_of_good = np.expm1(1.0)
    median = _compute_chance(Interval(np.log1p(0.23 * growth_of_good), 0.01), Interval(1.0, 0.0))
    assert median == pytest.approx(0.5, abs=0.03)
    weaker = _compute_chance(Interval(-0.3, 0.1), _GOOD)
    assert weaker < 1e-3
    assert _compute_chance(Interval(-0.3, 2.0), _GOOD) > 0.15  # too uncertain


@pytest.mark.parametrize(
    ("hard", "half_width", "conclusion"),
    [
        (-0.3, 0.3, "misused"),
        (-0.3, 0.9, ""),
        (0.1, 0.1, ""),  # as little as with some honest users
        (0.3, 0.3, ""),
        (0.6, 0.3, "honest"),
    ],
)
def test_hard_is_misused_honest_or_open(hard: float, half_width: float, conclusion: str) -> None:
    learning = _measure(hard, half_width)
    assert learning.is_misused == (conclusion == "misused")
    assert learning.is_honest == (conclusion == "honest")


@pytest.mark.parametrize(
    ("hard", "more_reviews"),
    [
        (0.3, 30_000),  # it grows by more than a little, 0.09
        (-0.3, 10_000),  # it seems to shrink
        (0.05, None),  # as little as with some honest users, whatever else is reviewed
    ],
)
def test_missing_data_on_hard_are_about_growth_at_hard(
    hard: float, more_reviews: int | None
) -> None:
    learning = _measure(hard, 0.4)
    interval = replace(learning.hard, errors=((0.2, 99),))
    missing = replace(learning, hard=interval).estimate_missing_data(4_000, 200)
    assert missing.reviews == more_reviews
    assert missing.can_come == (more_reviews is not None and not missing.out_of_reach)
    few = replace(learning, hard=interval).estimate_missing_data(900, 15)
    assert (few.reviews, few.days) == (100, 5)


@pytest.mark.parametrize(("hidden", "is_misused"), [(0.6, True), (0.0, False)])
def test_lapses_answered_with_hard_are_found(hidden: float, is_misused: bool) -> None:
    world = World(truth="power law", hard_for_lapses=hidden)
    learner = Learner.of(simulate_world(world, 2, 6_000).log())
    learning = measure_learning_from_hard(learner)
    assert learning is not None
    assert learning.is_misused == is_misused
    (check,) = (
        check
        for check in get_evidence(run_checks(learner.log, learner), Checks).checks
        if check.name == "hard"
    )
    assert (check.problem == "like Again") == is_misused


def test_learning_from_hard_is_unknown_for_few_reviews_after_it(log: ReviewLog) -> None:
    assert log.entries is not None
    rating = np.where(log.entries.rating == 2, 3, log.entries.rating)
    without_hard = replace(log, entries=replace(log.entries, rating=rating))
    assert measure_learning_from_hard(Learner.of(without_hard)) is None


@pytest.mark.parametrize(
    ("recalled", "comparison"),
    [(0.8, "even less than"), (0.86, "about as much as"), (0.9, "more than")],
)
def test_recall_after_hard_is_compared_with_no_growth(recalled: float, comparison: str) -> None:
    growth = Interval(0.0, 0.1, 500, 60)
    learning = LearningFromHard(recalled, 0.858, growth, growth, chance=0.2)
    text = describe_learning_from_hard(learning)
    assert text.endswith(f"{comparison} if Hard had done nothing for your memory (85.8 %).")
    rare = describe_learning_from_hard(replace(learning, chance=0.001))
    assert rare.endswith("it does so little for fewer than 1 %.")
