"""What a loss consists of: groups give back the whole, beside the average on the same reviews."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srs_eval.engine.loss_breakdown import LossGroup, break_down_loss
from srs_eval.engine.ranking import find_average, rank_results
from srs_eval.engine.result import Result
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import skill
from srs_eval.models.configurations import resolve_configurations
from srs_eval.stats.ranges import REVIEW_STEPS, format_range, split_by_range
from srs_eval.training.hyperparameters import Context
from tools.simulated import simulate_learner

(AVERAGE,) = resolve_configurations("AVG")
(FSRS,) = resolve_configurations("FSRS-6-dry-run")


@pytest.fixture(scope="module")
def session() -> LearnerSession:
    return LearnerSession(simulate_learner(5, 2_500).log())


@pytest.fixture(scope="module")
def average(session: LearnerSession) -> Result:
    return session.run(AVERAGE, Context(), use_cache=False)


@pytest.fixture(scope="module")
def result(session: LearnerSession) -> Result:
    return session.run(FSRS, Context(), use_cache=False)


def average_groups(groups: tuple[LossGroup, ...], field: str) -> float:
    """Average a figure of groups, weighted by their reviews."""
    weights = [group.reviews for group in groups]
    return float(np.average([getattr(group, field) for group in groups], weights=weights))


@pytest.mark.parametrize("name", ["by_reviews_before", "by_fold"])
def test_losses_of_groups_give_back_the_whole(name: str, result: Result, average: Result) -> None:
    groups = getattr(break_down_loss(result, average), name)
    assert sum(group.reviews for group in groups) == result.size
    assert average_groups(groups, "log_loss") == pytest.approx(result.metrics.log_loss)
    assert average_groups(groups, "average_log_loss") == pytest.approx(average.metrics.log_loss)
    for group in groups:
        assert group.difference is not None
        assert group.difference.estimate == pytest.approx(group.log_loss - group.average_log_loss)
        assert np.isnan(group.difference.half_width) == (group.reviews < 30)


def test_groups_are_the_cards_reviews_before(
    session: LearnerSession, result: Result, average: Result
) -> None:
    trials = session.trials(FSRS.protocol)
    before = trials.i[trials.test_index] - 1
    losses = -np.log(np.where(result.y == 1, result.p, 1 - result.p))
    groups = break_down_loss(result, average).by_reviews_before
    assert len(groups) == len(REVIEW_STEPS)
    for group in groups:
        last = np.inf if group.last is None else group.last
        in_group = (before >= group.first) & (before <= last)
        assert group.reviews == in_group.sum()
        assert group.log_loss == pytest.approx(losses[in_group].mean())


def test_folds_begin_after_more_and_more_reviews(result: Result, average: Result) -> None:
    groups = break_down_loss(result, average).by_fold
    assert len(groups) == 5
    firsts = [group.first for group in groups]
    assert firsts == sorted(set(firsts))
    assert firsts[0] == result.review_th.min() - 1


def test_folds_that_share_reviews_are_no_learning_curve(result: Result, average: Result) -> None:
    tests = replace(result.tests, fold=1 + np.arange(result.size) % 2)
    one_fold = replace(result.tests, fold=np.ones(result.size, np.int64))
    assert break_down_loss(replace(result, tests=tests), None).by_fold == ()
    assert break_down_loss(replace(result, tests=one_fold), None).by_fold == ()


def test_skill_compares_with_the_average_on_the_same_reviews(
    result: Result, average: Result
) -> None:
    breakdown = break_down_loss(result, average)
    assert breakdown.log_loss_skill == skill(result.metrics.log_loss, average.metrics.log_loss)
    brier = ((result.p - result.y) ** 2).mean()
    average_brier = ((average.p - average.y) ** 2).mean()
    assert breakdown.brier_skill == pytest.approx(1 - brier / average_brier)
    assert breakdown.brier_parts.brier == pytest.approx(result.metrics.rmse**2, abs=1e-12)


def test_average_has_none_to_be_compared_with(result: Result, average: Result) -> None:
    other_reviews = replace(average, tests=replace(average.tests, review_th=average.review_th + 1))
    for breakdown in (
        break_down_loss(average, average),
        break_down_loss(result, None),
        break_down_loss(result, other_reviews),
    ):
        assert breakdown.log_loss_skill is None
        assert breakdown.brier_skill is None
        assert all(group.difference is None for group in breakdown.by_reviews_before)
        assert all(group.average_log_loss is None for group in breakdown.by_fold)


def test_average_is_found_on_the_same_reviews(result: Result, average: Result) -> None:
    groups = rank_results([(AVERAGE, average), (FSRS, result)])
    assert find_average(groups, result) is average
    other_reviews = replace(result, tests=replace(result.tests, review_th=result.review_th + 1))
    assert find_average(groups, other_reviews) is None
    assert find_average(rank_results([(FSRS, result)]), result) is None


def test_every_value_has_one_range() -> None:
    values = np.array([0, 1, 2, 3, 4, 5, 7, 30])
    ranges = list(split_by_range(values, (1, 2, 3, 6)))
    assert [(first, last) for first, last, _ in ranges] == [(0, 1), (2, 2), (3, 5), (6, None)]
    positions = np.concatenate([positions for _, _, positions in ranges])
    assert sorted(positions.tolist()) == list(range(len(values)))
    assert [format_range(first, last) for first, last, _ in ranges] == [
        "0-1",
        "2",
        "3-5",
        "6 and more",
    ]
