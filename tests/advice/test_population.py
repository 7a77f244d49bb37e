"""Other people's gains joined with one's own evidence: the table, beliefs, percentiles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.advice import population
from srs_eval.advice.population import (
    Published,
    StoredParameters,
    compute_belief,
    compute_divergence,
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


def make_difference(estimate: float, error: float, reviews: int) -> Interval:
    return Interval(estimate, 1.96 * error, reviews, 300, ((error, 299),))


def test_population_table_equals_one_built_from_published_files() -> None:
    table = experience.build_table(shared_or_skip("published"))
    with np.load(population.POPULATION_FILE) as shipped:
        assert set(shipped.files) == set(table)
        for name in shipped.files:
            assert np.array_equal(shipped[name], table[name]), name


@given(pairs, differences, st.floats(0.001, 0.05), errors, sizes)
def test_belief_falls_with_a_worse_own_difference(
    pair: tuple[Published, Published], estimate: float, change: float, error: float, reviews: int
) -> None:
    """Check differences like other people's: one far outside is an outlier, which says little."""
    prior = published_prior(*pair, reviews)
    reach = population.compute_belief(None, prior)
    better = make_difference(max(-reach.high, min(estimate, -reach.low)), error, reviews)
    worse = make_difference(min(better.estimate + change, -reach.low), error, reviews)
    first = compute_belief(better, prior)
    second = compute_belief(worse, prior)
    assert second.probability <= first.probability + 1e-9


@given(pairs, differences, errors, sizes)
def test_belief_is_never_surer_than_98_percent(
    pair: tuple[Published, Published], estimate: float, error: float, reviews: int
) -> None:
    belief = compute_belief(
        make_difference(estimate, error, reviews), published_prior(*pair, reviews)
    )
    assert 0.02 <= belief.probability <= 0.98
    assert belief.low <= belief.gain + 1e-9
    assert belief.gain - 1e-9 <= belief.high


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("reviews", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("nothing", [None, Interval(-0.05, math.nan)])
def test_belief_without_evidence_is_the_share_of_like_learners(
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
def test_prior_of_a_rare_size_rests_on_over_100_users(reviews: int) -> None:
    weight = np.exp(published_prior("recency", "defaults", reviews).log_weight)
    assert weight.sum() ** 2 / (weight**2).sum() > 100


@pytest.mark.parametrize(("estimate", "surer"), [(-0.01, np.greater), (0.01, np.less)])
def test_belief_is_surer_with_more_reviews(estimate: float, surer: np.ufunc) -> None:
    """Check that the error and what may differ in future shrink with the root of the reviews."""
    prior = refit_prior(StoredParameters(0.005, 4_000, 2_000))
    probabilities = [
        compute_belief(
            make_difference(estimate, 0.3 / math.sqrt(reviews), reviews), prior
        ).probability
        for reviews in (200, 1_000, 5_000, 25_000)
    ]
    assert surer(probabilities[1:], probabilities[:-1]).all()


def test_refit_gains_more_with_more_new_reviews() -> None:
    beliefs = [
        compute_belief(None, refit_prior(StoredParameters(0.004, 6_000, unseen)))
        for unseen in (0, 600, 2_000, 3_000, 4_800)
    ]
    probabilities = [belief.probability for belief in beliefs]
    assert probabilities == sorted(set(probabilities))
    assert [belief.gain for belief in beliefs] == sorted(belief.gain for belief in beliefs)
    assert compute_belief(None, refit_prior(StoredParameters(0.004, 6_000, None))) == beliefs[2]


def test_refit_that_predicts_the_same_cannot_gain() -> None:
    belief = compute_belief(None, refit_prior(StoredParameters(0.0, 6_000, 300)))
    assert belief.probability < 0.03


def test_refit_over_good_parameters_from_elsewhere_is_unlikely_to_gain() -> None:
    """Check parameters that differ from a refit by little more than the chance in its reviews."""
    good = compute_belief(None, refit_prior(StoredParameters(0.002, 2_000, 2_000)))
    assert good.probability < 0.5
    bad = compute_belief(None, refit_prior(StoredParameters(0.05, 2_000, 2_000)))
    assert bad.probability > good.probability
    own = compute_belief(None, refit_prior(StoredParameters(0.002, 2_000, 1_000)))
    assert own.probability > 0.6  # the learner's own, from earlier reviews


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_divergence_is_what_the_better_prediction_gains(shift: float) -> None:
    p = np.array([0.8, 0.9])
    q = p - shift
    gain = float(np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))))
    assert compute_divergence(p, q) == pytest.approx(gain, rel=0.1, abs=1e-12)
    assert compute_divergence(p, q) == pytest.approx(compute_divergence(q, p))
    assert math.isfinite(compute_divergence(np.array([1.0]), np.array([0.5])))


def test_percentiles_of_the_median_learner_are_in_the_middle() -> None:
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
    percentiles = compute_percentiles(figures, median["average"], 10_000)
    assert [percentile.metric for percentile in percentiles] == list(figures)
    for percentile in percentiles:
        assert percentile.share_worse == pytest.approx(0.5, abs=0.1), percentile.metric
        assert list(percentile.quantiles) == sorted(percentile.quantiles)
    (better,) = compute_percentiles({"AUC": figures["AUC"] + 0.05}, median["average"], 10_000)
    assert better.share_worse > 0.6  # the higher, the better
    assert compute_percentiles({"LogLoss": None}, 0.3, 10_000) == []
