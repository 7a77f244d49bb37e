"""Intervals and verdicts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.engine.result import log_loss_difference, log_loss_interval, review_losses
from srs_eval.stats import intervals as comparison
from srs_eval.stats.intervals import (
    Interval,
    decide_verdict,
    decide_verdicts,
    estimate_more_reviews,
    mean_interval,
)
from tests.tui.app_world import MODELS, make_result


def test_interval_of_a_mean_worked_by_hand() -> None:
    # Two days, deviations from the mean 3: -2, -1 and 0, 3, so daily sums -3 and 3.
    interval = mean_interval(np.array([1.0, 2.0, 3.0, 6.0]), np.array([4, 4, 9, 9]))
    assert interval.estimate == 3
    assert (interval.reviews, interval.days) == (4, 2)
    by_day = math.sqrt(2 / 1 * (9 + 9)) / 4
    # One lag of weight 1/2 where D is so small: 18 + 2 * 0.5 * (-9)
    newey_west = math.sqrt(2 / 1 * (18 - 9)) / 4
    assert np.asarray(interval.errors) == pytest.approx(np.array([(by_day, 1), (newey_west, 1)]))
    assert interval.half_width == pytest.approx(12.706204736 * by_day)
    assert interval.standard_error == pytest.approx(by_day)
    assert (interval.low + interval.high) / 2 == pytest.approx(3)


def test_interval_of_a_single_day_is_unknown() -> None:
    assert math.isnan(mean_interval(np.array([1.0, 5.0]), np.array([7, 7])).half_width)
    with pytest.raises(ValueError, match="no reviews"):
        mean_interval(np.array([]), np.array([], np.int64))


def test_weeks_count_from_nine_blocks_of_review_days_on() -> None:
    days = np.arange(0, 63 * 3, 3)  # only days with reviews count
    values = np.repeat(np.arange(9) % 2, 7).astype(float)  # good and bad weeks
    assert len(mean_interval(values[:56], days[:56]).errors) == 3
    interval = mean_interval(values, days)
    deviations = np.array([-28 / 63, 35 / 63] * 4 + [-28 / 63]) * 7
    by_week = math.sqrt(9 / 8 * (deviations**2).sum()) / 63
    assert interval.errors[2] == (pytest.approx(by_week), 8)
    assert interval.half_width == pytest.approx(2.306004135 * by_week)


def test_lasting_good_and_bad_times_widen_the_interval() -> None:
    day = np.arange(60)
    bad_then_good = np.repeat([-1.0, 1.0], 30)
    waves = int(0.41 * 60 ** (2 / 3))
    cosine = [np.cos(np.pi * k * (day + 0.5) / 60) for k in range(1, waves + 1)]
    error = math.sqrt(sum(2 * float(bad_then_good @ wave) ** 2 for wave in cosine) / waves) / 60
    interval = mean_interval(bad_then_good, day)
    assert interval.errors[-1] == (pytest.approx(error), 6)
    assert interval.standard_error == pytest.approx(error)
    assert interval.half_width > 1.7 * mean_interval(np.tile([-1.0, 1.0], 30), day).half_width


@given(st.integers(2, 40), st.data())
def test_order_of_reviews_and_number_of_the_day_do_not_matter(
    days: int, data: st.DataObject
) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    day = np.sort(random.integers(0, days, 120))
    values = random.normal(size=120) + random.normal(size=days)[day]
    interval = mean_interval(values, day)
    shuffle = random.permutation(120)
    again = mean_interval(values[shuffle], day[shuffle] * 2 + 100)
    assert again.half_width == pytest.approx(interval.half_width, nan_ok=True)
    moved = mean_interval(3 * values + 1, day)
    assert moved.half_width == pytest.approx(3 * interval.half_width, nan_ok=True)
    assert (interval.p_value < 0.05) == (abs(interval.estimate) > interval.half_width)


def _draw_autoregressive_days(
    random: np.random.Generator, days: int, phi: float
) -> tuple[FloatArray, IntArray]:
    """Draw differences of losses with a lasting effect of the day (AR(1)), and their days."""
    shocks = random.normal(size=days) * math.sqrt(1 - phi**2)
    fortune = np.empty(days)
    fortune[0] = random.normal()
    for day in range(1, days):
        fortune[day] = phi * fortune[day - 1] + shocks[day]
    day = np.repeat(np.arange(days), random.integers(5, 40, days))
    return 0.3 * fortune[day] + random.normal(size=len(day)), day


@pytest.mark.parametrize(
    ("days", "phi", "share"), [(30, 0.4, 0.9), (120, 0.4, 0.93), (120, 0.9, 0.82), (480, 0.9, 0.84)]
)
def test_interval_covers_the_truth_where_days_matter(days: int, phi: float, share: float) -> None:
    """Draw days that matter more than on real learners; few days give too narrow intervals."""
    random = np.random.default_rng(days)
    hits = as_independent = 0
    for _ in range(400):
        values, day = _draw_autoregressive_days(random, days, phi)
        interval = mean_interval(values, day)
        hits += interval.low <= 0 <= interval.high
        error = values.std(ddof=1) / math.sqrt(len(values))
        as_independent += abs(values.mean()) <= 1.96 * error
    assert hits / 400 >= share
    assert as_independent / 400 < 0.75  # the interval that it replaces


def test_t_quantile_and_p_value_equal_scipys() -> None:
    from scipy.stats import t

    for freedom in (1, 2, 3, 4, 8, 9, 30, 999, 4_000):
        assert comparison._t_quantile(freedom) == pytest.approx(t.ppf(0.975, freedom), abs=1e-12)
        for value in (0.0, 0.3, 1.0, -2.5, 7.0, 40.0):
            interval = Interval(value, math.inf, errors=((1.0, freedom),))
            expected = 2 * t.sf(abs(value), freedom)
            assert interval.p_value == pytest.approx(expected, rel=1e-12, abs=0)
    assert Interval(0.0, 0.0, errors=((0.0, 5),)).p_value == 1
    assert Interval(0.1, 0.0, errors=((0.0, 5),)).p_value == 0


def test_log_loss_interval_is_around_the_metrics_log_loss() -> None:
    for name in MODELS:
        result = make_result(name)
        interval = log_loss_interval(result)
        assert interval.estimate == pytest.approx(result.metrics.log_loss, abs=1e-12)
    result = make_result("AVG")
    certain = replace(result, p=np.zeros(3), tests=replace(result.tests, y=np.ones(3)))
    assert review_losses(certain) == pytest.approx([36.04365338911715] * 3)


def test_paired_difference_is_sharper_than_two_intervals() -> None:
    trained = make_result("FSRS-6")
    default = make_result("FSRS-6-dry-run")
    difference = log_loss_difference(trained, default)
    assert difference is not None
    assert difference.estimate == pytest.approx(
        trained.metrics.log_loss - default.metrics.log_loss, abs=1e-12
    )
    assert difference.half_width < 0.5 * log_loss_interval(trained).half_width
    back = log_loss_difference(default, trained)
    assert back is not None
    assert back.estimate == -difference.estimate
    assert log_loss_difference(trained, make_result("FSRS-5-secs")) is None


def _make_difference(
    estimate: float, error: float, reviews: int = 5_000, days: int = 400
) -> Interval:
    freedom = days - 1
    return Interval(
        estimate,
        error * comparison._t_quantile(freedom),
        reviews,
        days,
        ((error, freedom), (0.9 * error, freedom)),
    )


@pytest.mark.parametrize(
    ("difference", "verdict"),
    [
        (_make_difference(-0.01, 0.004), "better"),
        (_make_difference(0.01, 0.004), "worse"),
        (_make_difference(0.0005, 0.0005), "as good"),
        (_make_difference(-0.0010, 0.0004), "as good"),  # not zero, but too small to matter
        (_make_difference(0.0005, 0.004), "can't tell yet"),
        (_make_difference(-0.01, 0.004, reviews=999), "can't tell yet"),
        (_make_difference(-0.01, 0.004, days=19), "can't tell yet"),
        (Interval(-0.01, math.nan, 5_000, 1), "can't tell yet"),
        (Interval(0.0, 0.0, 5_000, 400, ((0.0, 399),)), "as good"),
    ],
)
def test_decide_verdict_for_clear_and_unclear_differences(
    difference: Interval, verdict: str
) -> None:
    assert decide_verdict(difference) == verdict


def test_equivalence_bound_changes_the_verdict() -> None:
    small = _make_difference(-0.0010, 0.0004)
    assert decide_verdict(small, equivalence=0.0005) == "better"
    assert decide_verdict(_make_difference(0.001, 0.004), equivalence=0.02) == "as good"


def test_several_candidates_are_held_to_five_percent_together() -> None:
    # p = 0.03 alone is better; as the weakest of three only if the others are better, too.
    weak = _make_difference(-0.0109, 0.005)
    strong = _make_difference(-0.03, 0.005)
    none = _make_difference(0.001, 0.005)
    assert 0.025 < weak.p_value < 0.035
    assert decide_verdict(weak) == "better"
    assert decide_verdicts({"a": weak, "b": none})["a"] == "can't tell yet"
    assert decide_verdicts({"a": weak, "b": strong}) == {"a": "better", "b": "better"}
    assert decide_verdicts({"a": weak, "b": strong, "c": none})["a"] == "can't tell yet"
    equal = _make_difference(-0.0005, 0.0005)
    assert decide_verdicts({"a": equal, "b": none, "c": none})["a"] == "as good"
    assert decide_verdicts({}) == {}


@given(st.lists(st.floats(-0.02, 0.02), min_size=1, max_size=6), st.floats(1e-4, 0.01))
def test_more_candidates_never_make_a_difference_surer(
    estimates: list[float], error: float
) -> None:
    several = {str(k): _make_difference(estimate, error) for k, estimate in enumerate(estimates)}
    together = decide_verdicts(several)
    for name, difference in several.items():
        alone = decide_verdict(difference)
        assert together[name] in (alone, "can't tell yet")
        assert (together[name] == "as good") == (alone == "as good")


def test_estimate_more_reviews_until_a_verdict() -> None:
    # 5,000 ((2.8 * 0.004 / 0.008)^2 - 1) = 4,800
    assert estimate_more_reviews(_make_difference(-0.008, 0.004)) == 5_000
    # The distance to the bound of equivalence is the larger:
    # 5,000 ((2.8 * 0.003 / 0.002)^2 - 1) = 83,200
    assert estimate_more_reviews(_make_difference(0.0, 0.003)) == 90_000
    # 20 times the reviews so far is about the largest estimate
    assert estimate_more_reviews(_make_difference(0.0, 0.003273)) == 100_000
    assert estimate_more_reviews(_make_difference(0.0, 0.003274)) is None
    assert estimate_more_reviews(_make_difference(0.0, 0.05)) is None
    assert estimate_more_reviews(_make_difference(-0.008, 0.004, reviews=900)) is None
    assert estimate_more_reviews(_make_difference(-0.02, 0.004)) is None
    assert estimate_more_reviews(Interval(-0.01, math.nan, 5_000, 1)) is None
