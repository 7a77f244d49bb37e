"""Intervals, ranking and verdicts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from srs_eval.comparison import (
    Interval,
    log_loss_difference,
    log_loss_interval,
    losses,
    mean_interval,
    ranking,
    verdict,
)
from tests.app_world import MODELS, make_result


def test_interval_of_a_mean_worked_by_hand() -> None:
    interval = mean_interval(np.array([1.0, 2.0, 3.0, 4.0]))
    assert interval.estimate == 2.5
    # s = sqrt(5 / 3), standard error s / 2
    assert interval.half_width == pytest.approx(1.959964 * math.sqrt(5 / 3) / 2, rel=1e-6)
    assert (interval.low + interval.high) / 2 == pytest.approx(2.5)
    assert math.isnan(mean_interval(np.array([1.0])).half_width)
    with pytest.raises(ValueError, match="no reviews"):
        mean_interval(np.array([]))


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(3)
    truth, hits = 0.4, 0
    for _ in range(400):
        interval = mean_interval((random.random(500) < truth).astype(np.float64))
        hits += interval.low <= truth <= interval.high
    assert 0.92 <= hits / 400 <= 0.98


def test_log_loss_is_that_of_the_metrics() -> None:
    for name in MODELS:
        result = make_result(name)
        interval = log_loss_interval(result)
        assert interval.estimate == pytest.approx(result.metrics.log_loss, abs=1e-12)
    certain = replace(make_result("AVG"), p=np.zeros(3), y=np.ones(3))
    assert losses(certain) == pytest.approx([36.04365338911715] * 3)


def test_paired_difference_is_sharper_than_two_intervals() -> None:
    one, other = make_result("FSRS-6"), make_result("FSRS-6-dry-run")
    difference = log_loss_difference(one, other)
    assert difference is not None
    assert difference.estimate == pytest.approx(
        one.metrics.log_loss - other.metrics.log_loss, abs=1e-12
    )
    assert difference.half_width < 0.5 * log_loss_interval(one).half_width
    back = log_loss_difference(other, one)
    assert back is not None
    assert back.estimate == -difference.estimate
    assert log_loss_difference(one, make_result("FSRS-5-secs")) is None


def test_ranking_by_groups_of_equal_reviews() -> None:
    rows = ranking(make_result(name) for name in MODELS)
    first = [row for row in rows if row.group == 0]
    assert [row.configuration for row in rows if row.group == 1] == ["FSRS-5-secs"]
    assert rows[-1].against_average is None  # no average among the other reviews
    figures = [row.log_loss.estimate for row in first]
    assert figures == sorted(figures)
    places = [row.place for row in first if row.configuration != "AVG"]
    assert places == list(range(1, len(places) + 1))
    average = next(row for row in first if row.configuration == "AVG")
    assert average.place is None
    assert average.against_average is None
    for row in first:
        if row.against_average is not None:
            expected = row.log_loss.estimate / average.log_loss.estimate - 1
            assert row.against_average == pytest.approx(expected)


def test_ranking_does_not_depend_on_the_order_of_finishing() -> None:
    results = [make_result(name) for name in MODELS]
    assert ranking(results) == ranking(reversed(results))
    twin = replace(results[3], configuration="A-TWIN")  # equal figures: by name
    names = [row.configuration for row in ranking([*results, twin])]
    assert names.index("A-TWIN") + 1 == names.index(results[3].configuration)
    assert ranking([]) == []


@pytest.mark.parametrize(
    ("estimate", "half", "reviews", "says"),
    [
        (-0.01, 0.004, 1_000, "better"),
        (0.01, 0.004, 1_000, "worse"),
        (0.0005, 0.001, 1_000, "as good"),
        (0.0005, 0.004, 1_000, "can't tell yet"),
        (-0.01, 0.004, 299, "can't tell yet"),
        (-0.01, math.nan, 1_000, "can't tell yet"),
        (0.0, 0.0, 1_000, "as good"),
    ],
)
def test_verdicts(estimate: float, half: float, reviews: int, says: str) -> None:
    assert verdict(Interval(estimate, half), reviews) == says
