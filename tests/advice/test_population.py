"""What others gained, joined with one's own evidence: a table of them, beliefs, a place in it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.advice import population
from srs_eval.advice.population import (
    Published,
    compute_belief,
    compute_percentiles,
    published_prior,
    refit_prior,
)
from srs_eval.stats.intervals import Interval
from tests.conftest import shared_or_skip
from tools import experience

PAIRS: tuple[tuple[Published, Published], ...] = (
    ("recency", "defaults"),
    ("optimized", "defaults"),
    ("defaults", "optimized"),
    ("sm2", "optimized"),
)
differences = st.floats(-0.1, 0.1)
errors = st.floats(0.0005, 0.05)
sizes = st.integers(100, 100_000)
pairs = st.sampled_from(PAIRS)


def own(estimate: float, error: float, reviews: int) -> Interval:
    return Interval(estimate, 1.96 * error, reviews, 300, ((error, 299),))


def test_the_table_is_made_of_the_published_files() -> None:
    made = experience.build_table(shared_or_skip("published"))
    with np.load(population.POPULATION_FILE) as shipped:
        assert set(shipped.files) == set(made)
        for name in shipped.files:
            assert np.array_equal(shipped[name], made[name]), name


@given(pairs, differences, st.floats(0.001, 0.05), errors, sizes)
def test_the_worse_the_own_difference_the_less_likely_a_gain(
    pair: tuple[Published, Published], estimate: float, more: float, error: float, reviews: int
) -> None:
    """Within what others saw: one far outside of it is an outlier, which says little."""
    prior = published_prior(*pair, reviews)
    reach = population.compute_belief(None, prior)
    better = own(max(-reach.high, min(estimate, -reach.low)), error, reviews)
    worse = own(min(better.estimate + more, -reach.low), error, reviews)
    first, second = compute_belief(better, prior), compute_belief(worse, prior)
    assert second.probability <= first.probability + 1e-9


@given(pairs, differences, errors, sizes)
def test_no_statement_is_surer_than_98_of_100(
    pair: tuple[Published, Published], estimate: float, error: float, reviews: int
) -> None:
    found = compute_belief(own(estimate, error, reviews), published_prior(*pair, reviews))
    assert 0.02 <= found.probability <= 0.98
    assert found.low <= found.gain + 1e-9
    assert found.gain - 1e-9 <= found.high


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("reviews", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("nothing", [None, Interval(-0.05, math.nan)])
def test_without_own_evidence_it_is_the_share_of_those_like_one(
    pair: tuple[Published, Published], reviews: int, nothing: Interval | None
) -> None:
    with np.load(population.POPULATION_FILE) as table:
        size = table["reviews"].astype(float)
        gained = table[pair[0]] < table[pair[1]]
    near = (size > reviews / 1.5) & (size < reviews * 1.5)
    share = gained[near].mean()
    assert compute_belief(nothing, published_prior(*pair, reviews)).probability == pytest.approx(
        share, abs=0.06
    )


@pytest.mark.parametrize("reviews", [1, 200, 500_000, 10**9])
def test_sizes_that_hardly_anybody_has_rest_on_hundreds_of_users_too(reviews: int) -> None:
    weight = np.exp(published_prior("recency", "defaults", reviews).log_weight)
    assert weight.sum() ** 2 / (weight**2).sum() > 100


@pytest.mark.parametrize(("estimate", "surer"), [(-0.01, np.greater), (0.01, np.less)])
def test_more_reviews_with_the_same_difference_are_surer(estimate: float, surer: np.ufunc) -> None:
    """The error shrinks with the root of the reviews, and so does what may differ in future."""
    prior = refit_prior(1.0)
    found = [
        compute_belief(own(estimate, 0.3 / math.sqrt(reviews), reviews), prior).probability
        for reviews in (200, 1_000, 5_000, 25_000)
    ]
    assert surer(found[1:], found[:-1]).all()


def test_a_refit_gains_the_more_the_more_reviews_have_grown() -> None:
    growths = (0.0, 0.1, 0.5, 1.0, 4.0)
    found = [compute_belief(None, refit_prior(growth)) for growth in growths]
    probabilities = [each.probability for each in found]
    assert probabilities == sorted(set(probabilities))
    assert [each.gain for each in found] == sorted(each.gain for each in found)
    assert probabilities[0] < 0.03  # nothing new has come: it cannot be better
    assert compute_belief(None, refit_prior(None)) == found[2]


def test_the_median_learner_stands_in_the_middle() -> None:
    with np.load(population.POPULATION_FILE) as table:
        columns = {name: table[name].astype(float) for name in table.files}
    near = (columns["reviews"] > 8_000) & (columns["reviews"] < 12_000)
    auc = columns["auc"][near]
    median = {name: float(np.median(column[near])) / 100_000 for name, column in columns.items()}
    median["auc"] = float(np.median(auc[auc < experience.UNKNOWN])) / 100_000
    figures = {
        "LogLoss": median["optimized"],
        "RMSE(bins)": median["rmse_bins"],
        "AUC": median["auc"],
    }
    found = compute_percentiles(figures, median["average"], 10_000)
    assert [each.metric for each in found] == list(figures)
    for each in found:
        assert each.share_worse == pytest.approx(0.5, abs=0.1), each.metric
        assert list(each.quantiles) == sorted(each.quantiles)
    (better,) = compute_percentiles({"AUC": figures["AUC"] + 0.05}, median["average"], 10_000)
    assert better.share_worse > 0.6  # the higher, the better
    assert compute_percentiles({"LogLoss": None}, 0.3, 10_000) == []
