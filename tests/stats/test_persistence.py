"""How long good and bad spells last, and what that adds to an interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.stats import persistence
from srs_eval.stats.intervals import mean_interval, ratio_interval
from srs_eval.stats.persistence import PHIS, Persistence, estimate_persistence

RECALL = 0.9


def draw_shifts(random: np.random.Generator, days: int, phi: float, sd: float) -> FloatArray:
    """Draw the day's shifts of the logit of recall: AR(1)."""
    shifts = np.empty(days)
    shifts[0] = sd * random.normal()
    for day in range(1, days):
        shifts[day] = phi * shifts[day - 1] + sd * math.sqrt(1 - phi**2) * random.normal()
    return shifts


def draw_outcomes(
    seed: int, days: int, a_day: int, phi: float, sd: float
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return outcomes, predictions that know nothing of the days, and the days."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(days), a_day)
    shift = draw_shifts(random, days, phi, sd)[day]
    p = 1 / (1 + np.exp(-(math.log(RECALL / (1 - RECALL)) + shift)))
    return (random.random(len(day)) < p).astype(float), np.full(len(day), RECALL), day


def certain(phi: float) -> Persistence:
    """Return the knowledge that a learner's days have this persistence."""
    return Persistence(tuple((phi == PHIS).astype(float).tolist()))


def estimate_many(phi: float, sd: float, days: int, a_day: int) -> list[Persistence]:
    return [estimate_persistence(*draw_outcomes(seed, days, a_day, phi, sd)) for seed in range(20)]


def test_log_likelihood_is_that_of_the_normal_distribution() -> None:
    random = np.random.default_rng(0)
    days = np.array([0, 1, 2, 5, 6, 9])
    surplus = random.normal(size=6)
    weight = random.uniform(0.5, 3, 6)
    computed = persistence._compute_log_likelihood(surplus, weight, np.diff(days))
    distance = np.abs(days[:, None] - days)
    expected = np.empty_like(computed)
    for row, phi in enumerate(PHIS):
        for column, sd in enumerate(persistence._SHIFTS):
            shifts = sd**2 * np.where(distance, phi**distance, 1.0)
            covariance = np.diag(weight) + weight[:, None] * shifts * weight
            inverse = np.linalg.inv(covariance)
            information = weight @ inverse @ weight
            mean = weight @ inverse @ surplus / information
            error = surplus - weight * mean
            _, log_determinant = np.linalg.slogdet(covariance)
            expected[row, column] = (
                -(log_determinant + error @ inverse @ error + math.log(information)) / 2
            )
    assert computed == pytest.approx(expected, rel=1e-9)


def test_estimate_with_lasting_spells_says_so() -> None:
    estimates = estimate_many(0.9, 0.6, days=150, a_day=20)
    assert np.mean([estimate.widens for estimate in estimates]) > 0.7
    assert np.mean([estimate.phi for estimate in estimates]) > 0.7


def test_estimate_with_ordinary_days_is_seldom_clear() -> None:
    estimates = estimate_many(0.4, 0.4, days=100, a_day=20)
    assert np.mean([estimate.is_clear for estimate in estimates]) <= 0.05
    assert np.mean([estimate.widens for estimate in estimates]) <= 0.25


def test_estimate_without_day_effects_widens_nothing() -> None:
    estimates = estimate_many(0.0, 0.0, days=80, a_day=20)
    assert np.mean([estimate.widens for estimate in estimates]) <= 0.2


def test_lasting_fault_of_predictions_is_not_taken_for_a_spell() -> None:
    y, p, day = draw_outcomes(1, days=150, a_day=20, phi=0.0, sd=0.0)
    assert not estimate_persistence(y, p - 0.05, day).widens


def test_few_days_tell_nothing_of_persistence() -> None:
    y, p, day = draw_outcomes(1, days=3, a_day=5, phi=0.9, sd=0.6)
    assert not estimate_persistence(y, p, day).widens
    assert not estimate_persistence(y[:1], p[:1], day[:1]).widens


@pytest.mark.parametrize(("phi", "share"), [(0.9, 0.94), (0.97, 0.8)])
def test_wider_interval_covers_the_truth_of_persistent_days(phi: float, share: float) -> None:
    hits = before = 0
    for seed in range(60):
        y, p, day = draw_outcomes(seed, days=200, a_day=15, phi=phi, sd=0.6)
        nodes, weights = np.polynomial.hermite_e.hermegauss(15)
        logit = math.log(RECALL / (1 - RECALL)) + 0.6 * nodes
        truth = float(1 / (1 + np.exp(-logit)) @ (weights / weights.sum()))
        interval = mean_interval(y, day, estimate_persistence(y, p, day))
        hits += interval.low <= truth <= interval.high
        narrow = mean_interval(y, day)
        before += narrow.low <= truth <= narrow.high
    assert hits / 60 >= share
    assert before / 60 < share  # the interval that it replaces


def test_interval_after_a_long_pause_is_about_as_wide_as_without() -> None:
    random = np.random.default_rng(0)
    shift = draw_shifts(random, 240, 0.95, 0.6)
    counts = np.full(240, 20)
    days = np.arange(240)
    with_pause = np.where(days < 120, days, days + 2_000)
    half_widths = [
        persistence.compute_lasting_half_width(shift - shift.mean(), grid, counts, certain(0.95))
        for grid in (days, with_pause)
    ]
    assert half_widths[1] > 0.7 * half_widths[0]


def test_interval_of_ordinary_days_stays_as_it_is() -> None:
    y, _, day = draw_outcomes(3, days=100, a_day=20, phi=0.4, sd=0.4)
    assert mean_interval(y, day, certain(0.5)) == mean_interval(y, day)
    wider = mean_interval(y, day, certain(0.97))
    assert wider.estimate == mean_interval(y, day).estimate
    assert wider.half_width > mean_interval(y, day).half_width
    assert len(wider.errors) == len(mean_interval(y, day).errors) + 1


def test_wider_interval_does_not_depend_on_unit_or_order() -> None:
    y, _, day = draw_outcomes(4, days=80, a_day=10, phi=0.9, sd=0.6)
    interval = mean_interval(y, day, certain(0.9))
    shuffle = np.random.default_rng(0).permutation(len(y))
    again = mean_interval(1 - 3 * y[shuffle], day[shuffle] + 50, certain(0.9))
    assert again.half_width == pytest.approx(3 * interval.half_width, rel=1e-6)
    share = ratio_interval(y, np.full(len(y), 2.0), day, certain(0.9))
    assert share.half_width == pytest.approx(interval.half_width / 2, rel=1e-6)


def test_interval_of_equal_values_has_no_width() -> None:
    day = np.repeat(np.arange(30), 2)
    assert mean_interval(np.ones(60), day, certain(0.97)).half_width == 0
