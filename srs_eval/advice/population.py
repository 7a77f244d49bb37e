"""Estimate the gain from a change by the gains of published users; compare a learner with them.

A learner's own paired difference settles little; the gains of 9,999 published users with about as
many reviews (FSRS-5 stands for FSRS-6) settle much. With d_u the difference in log loss of user u,
n_u the user's evaluated reviews, and m ± se the learner's own difference on n reviews,

    w_u ∝ K(log n_u - log n) · t_4((m - d_u) / √(se² + τ²)),  τ = c √(1,000 / n),
    P = Σ w_u [d_u < 0],  gain = -Σ w_u d_u.

K is a Gaussian of width 0.7; τ stands for how much the coming reviews differ from past ones. c and
the limits of certainty were chosen by leaving learners out (benchmarks/advice.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from srs_eval.advice.findings import ALL_REVIEWS, Belief, Finding, Percentile, Percentiles
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.engine.result import (
    find_persistence,
    have_same_reviews,
    log_loss_interval,
    review_losses,
)
from srs_eval.engine.session import LearnerSession
from srs_eval.models.configurations import resolve_configurations
from srs_eval.stats.intervals import Interval, ratio_interval
from srs_eval.training.hyperparameters import Context

Published = Literal["optimized", "recency", "defaults", "sm2", "average"]
POPULATION_FILE = Path(__file__).with_name("population.npz")  # made by tools/experience.py
_SCALE = 100_000  # the file holds figures as whole numbers of 1 / _SCALE
_SIZE_WIDTH = 0.7  # of the kernel, in log reviews
_RECALL_WIDTH = 0.2  # of the kernel for the share recalled, in log of the average's log loss
_DEGREES_OF_FREEDOM = 4
_PARAMETER_SHIFT = 0.008  # c for a difference between parameters of one model, or FSRS-7 and 6
_MODEL_SHIFT = 0.03  # c for a difference between models
_SHARING_SHIFT = 0.001  # c for a difference between pooled and shared parameters
_MIN_REVIEWS = 50  # n in τ is at least this
_SIZE_RANGE = 200, 500_000  # n in K is within these, where hundreds of users are near
_QUANTILE_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)  # of the quantiles of a `Percentile`
_MIN_UNCERTAINTY = 0.02  # no statement is surer than 98 %, because lives change
_MAX_BY_OTHERS = 0.94  # highest probability from other people's experience alone: "likely"
_OUTLIER_DIFFERENCES = np.linspace(-1.0, 1.0, 401)  # of people who are unlike published users
_OUTLIER_SHARE = 0.01  # weight of all such people
_UNKNOWN_UNSEEN_SHARE = 1 / 3  # of the reviews, if the time of the last fit is unknown
_MAX_GROWTH = 4.0
_MOST_GAIN_BY_TEACHING = 0.0045  # nats a review, over Anki's optimizer
_TOTAL_GAIN_BY_TEACHING = 2.7  # nats, over the number of reviews that the parameters are fitted to
_SPREAD_OF_TEACHING = 1.2  # standard deviation between people, in units of the mean gain
_MIN_PROBABILITY = 1e-9  # predictions are within it and 1 minus it, so that their logs are finite
_LOSS_OF_NEXT_FIT = 2.0  # nats over all reviews that a refit loses because it follows chance
_LOSS_OF_FIRST_FIT = 4.0  # the same if the stored parameters come from other reviews
_MIN_REVIEWS_OF_FIT = 64  # with fewer earlier reviews, stored parameters come from elsewhere
_MIN_GROWTH_BASE = 400  # a fit to fewer reviews stays near its start
# fmt: off
_FSRS_7_USERS = (
    (10620, 0.00909), (35900, -0.00554), (4255, -0.00273), (7360, 0.00311), (6275, -0.00331),
    (50685, -0.00590), (11970, -0.00133), (28405, 0.00156), (940, -0.02800), (26100, -0.00420),
    (3195, -0.02910), (51705, -0.00032), (8705, -0.00118), (36950, 0.00397), (52000, -0.01081),
    (2300, 0.01808), (50300, -0.01513), (25145, -0.00610), (5010, -0.00308), (18165, -0.00461),
    (25240, 0.00306), (2650, 0.00376), (4380, -0.00529), (32590, 0.00219), (21920, -0.02313),
    (2830, -0.01079), (3700, 0.02535), (10665, -0.00008), (2355, -0.02392), (7605, -0.01734),
    (13540, -0.00531), (21600, 0.00193), (37765, -0.01375), (43455, 0.00526), (17160, -0.00641),
    (2270, -0.01054), (2855, -0.02541), (37060, -0.00542), (34005, -0.00352), (62020, -0.00286),
    (34440, -0.00087), (800, -0.00932), (13130, -0.00505), (4320, 0.10352), (10610, -0.03947),
    (4655, 0.00230), (13365, -0.00019), (4440, -0.00133), (2810, -0.01880),
)
# fmt: on
"""Evaluated reviews, and log loss of FSRS-7 minus that of FSRS-6, of the users 1 to 49 of
anki-revlogs-10k. Both are trained with recency weights and evaluated on reviews of later days
(srs-benchmark: result/FSRS-7-short-secs-recency-equalize_test_with_non_secs.jsonl at commit
d9472bc339d0 and result/FSRS-6-recency.jsonl at commit 0f70abe71ede)."""


@dataclass(frozen=True, eq=False)
class GainPrior:
    """Possible differences in log loss, weighted, before a learner's own evidence."""

    difference: FloatArray  # (k,) nats, negative: the candidate is better
    log_weight: FloatArray  # (k,)
    shift: float = _PARAMETER_SHIFT


def published_prior(candidate: Published, reference: Published, reviews: int) -> GainPrior:
    """Return the prior from users with about as many evaluated reviews."""
    users = _load_users()
    difference = users[candidate] - users[reference]
    shift = _PARAMETER_SHIFT
    if {"sm2", "average"} & {candidate, reference}:
        shift = _MODEL_SHIFT
    smallest, largest = _SIZE_RANGE
    size = min(max(reviews, smallest), largest)
    return GainPrior(difference, _log_kernel_weights(users["reviews"], size), shift)


@dataclass(frozen=True)
class StoredParameters:
    """Facts about a preset's stored parameters on which the gain by a refit depends."""

    divergence: float
    """Nats by which the predictions of a refit and of the stored parameters differ (the mean of
    both Kullback-Leibler divergences). Little can be gained or lost where it is small."""
    reviews: int  # of the preset, to which a refit is fitted
    unseen: int | None
    """Reviews that the stored parameters cannot have been fitted to; None if unknown."""

    @property
    def unseen_reviews(self) -> float:
        """Return the number of unseen reviews, or an assumption if it is unknown."""
        if self.unseen is None:
            return _UNKNOWN_UNSEEN_SHARE * self.reviews
        return self.unseen

    @property
    def growth(self) -> float:
        """Return by what share the reviews have grown since the parameters were fitted to them.

        It is 0 if the parameters were fitted to other reviews, such as those of another preset.
        """
        if not self.is_earlier_fit:
            return 0.0
        seen = self.reviews - self.unseen_reviews
        return min(self.unseen_reviews / max(seen, _MIN_GROWTH_BASE), _MAX_GROWTH)

    @property
    def is_earlier_fit(self) -> bool:
        """Return True if the parameters can have been fitted to some of the reviews."""
        return self.reviews - self.unseen_reviews >= _MIN_REVIEWS_OF_FIT


def refit_prior(stored: StoredParameters) -> GainPrior:
    """Return the prior for the gain by a refit over stored parameters.

    With divergence D, growth g, n reviews and u of them unseen, the gain is

        0.45 D + 0.06 √(g D) - c u / n²  ±  √((1.1 D)² + 0.085² D).

    The first term is what a refit would gain if it was nearly right, the second what people gain
    because they change, the third what a refit loses because it follows the chance in n reviews:
    c is 2 if the stored parameters were fitted to some of these reviews, because they follow this
    chance, too, and 4 if they come from other reviews. Good stored parameters differ from a refit
    by little but this chance, so that a refit loses. The constants suit 12 people's histories and
    simulated learners (benchmarks/advice.py, acts.py).
    """
    from scipy.special import ndtri

    divergence = stored.divergence
    gain_by_change = 0.06 * math.sqrt(stored.growth * divergence)
    nats_by_chance = _LOSS_OF_NEXT_FIT if stored.is_earlier_fit else _LOSS_OF_FIRST_FIT
    loss_by_chance = nats_by_chance * stored.unseen_reviews / max(stored.reviews, 1) ** 2
    gain = max(0.45 * divergence + gain_by_change - loss_by_chance, -divergence)
    scatter = math.hypot(1.1 * divergence, 0.085 * math.sqrt(divergence))
    z = ndtri((np.arange(200) + 0.5) / 200)  # 200 equally likely values of a standard normal
    return GainPrior(scatter * z - gain, np.zeros(len(z)))


def taught_prior(by_anki: GainPrior, reviews: int) -> GainPrior:
    """Return the prior for parameters taught by three models, from that for Anki's optimizer.

    Both are about the gain over the same parameters. On reviews to come, taught parameters were
    better by min(0.0045, 2.7 / n) after n usable reviews, with a spread of 1.2 times this between
    people: in 22 of 25 trials on 13 real people (benchmarks/few_reviews.py), and in 28 of 35 on
    19 others.
    """
    return replace(by_anki, difference=by_anki.difference - _draw_taught_gains(by_anki, reviews))


def untaught_prior(taught: GainPrior, reviews: int) -> GainPrior:
    """Return the prior for Anki's optimizer from that for taught parameters: see `taught_prior`."""
    return replace(taught, difference=taught.difference + _draw_taught_gains(taught, reviews))


def _draw_taught_gains(prior: GainPrior, reviews: int) -> FloatArray:
    """Return a gain of taught parameters over Anki's for each value of the prior (k,)."""
    from scipy.special import ndtri

    count = len(prior.difference)
    z = ndtri((np.arange(count) + 0.5) / count)
    shuffled = np.random.default_rng(0).permutation(z)  # independent of the prior's own values
    gain = min(_MOST_GAIN_BY_TEACHING, _TOTAL_GAIN_BY_TEACHING / max(reviews, 1))
    gains: FloatArray = gain * (1 + _SPREAD_OF_TEACHING * shuffled)
    return gains


def fsrs7_prior(reviews: int) -> GainPrior:
    """Return the prior for optimized FSRS-7 over FSRS-6, optimized as Anki does it.

    It comes from 49 published users: FSRS-7 was better for 36, by 0.0034 on average. Those with
    about as many evaluated reviews count more. On 13 real people, the differences in the two halves
    of the held-out reviews lie as far apart as this prior's shift allows.
    """
    sizes, difference = np.array(_FSRS_7_USERS).T
    smallest, largest = sizes.min(), sizes.max()
    size = min(max(reviews, smallest), largest)
    return GainPrior(difference, _log_kernel_weights(sizes, size))


def fsrs7_change_prior(by_anki: GainPrior, reviews: int) -> GainPrior:
    """Return the prior for a change to optimized FSRS-7 from that for Anki's optimizer.

    Both are about the gain over the current parameters. What FSRS-7 gains over FSRS-6 is taken to
    be independent of what optimizing gains.
    """
    over_fsrs6 = fsrs7_prior(reviews)
    difference = np.add.outer(by_anki.difference, over_fsrs6.difference)
    log_weight = np.add.outer(by_anki.log_weight, over_fsrs6.log_weight)
    return GainPrior(difference.ravel(), log_weight.ravel(), by_anki.shift)


def compute_divergence(first: FloatArray, second: FloatArray) -> float:
    """Return the mean Kullback-Leibler divergence of two predictions (k,) of the same reviews.

    It is averaged over both directions.
    """
    first, second = np.clip((first, second), _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    log_odds_ratio = np.log(first / second) - np.log((1 - first) / (1 - second))
    return float(((first - second) * log_odds_ratio).mean()) / 2


def sharing_prior() -> GainPrior:
    """Return the prior for the log loss of separate or pooled parameters minus shared ones.

    It comes from simulated pairs of presets: 0.0003 worse if they forget alike, as half of them do,
    otherwise 0.0049 better, within a factor of about 2.
    """
    from scipy.special import ndtri

    z = ndtri((np.arange(200) + 0.5) / 200)
    difference = np.concatenate([0.0003 * (1 + 0.5 * z), -0.0049 * np.exp(0.7 * z)])
    return GainPrior(difference, np.zeros(len(difference)), _SHARING_SHIFT)


def compute_belief(own: Interval | None, prior: GainPrior, margin: float = 0.0) -> Belief:
    """Compute the belief about a candidate from the learner's own difference, if any, and a prior.

    The probability is that of a difference below the margin.
    """
    total_log_weight = float(np.logaddexp.reduce(prior.log_weight))
    outlier_log_weight = total_log_weight + math.log(_OUTLIER_SHARE / len(_OUTLIER_DIFFERENCES))
    outlier_log_weights = np.full(len(_OUTLIER_DIFFERENCES), outlier_log_weight)
    difference = np.concatenate([prior.difference, _OUTLIER_DIFFERENCES])
    log_weight = np.concatenate([prior.log_weight, outlier_log_weights])
    if own is not None and math.isfinite(own.standard_error):  # multiply by the density of t_4
        tau = prior.shift * math.sqrt(1000 / max(own.reviews, _MIN_REVIEWS))
        z = (own.estimate - difference) / math.hypot(own.standard_error, tau)
        log_weight = log_weight - (_DEGREES_OF_FREEDOM + 1) / 2 * np.log1p(
            z * z / _DEGREES_OF_FREEDOM
        )
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    order = np.argsort(difference)
    # Weighted quantiles
    position = np.searchsorted(np.cumsum(weight[order]), (0.025, 0.975))
    low, high = difference[order[np.minimum(position, len(order) - 1)]]
    share_better = float(weight[difference < margin].sum())
    return Belief(
        probability=_MIN_UNCERTAINTY + (1 - 2 * _MIN_UNCERTAINTY) * share_better,
        gain=-float(weight @ difference),
        low=-float(high),
        high=-float(low),
    )


def limit_without_evidence(probability: float) -> float:
    """Limit a probability that rests on other people's experience alone."""
    return min(probability, _MAX_BY_OTHERS)


# Percentiles. All are FSRS-5 on the benchmark's reviews, as published, so that they compare.


def compute_percentiles(
    figures: Mapping[str, float | None],
    average: float,
    reviews: int,
    log_loss_bounds: tuple[float, float] | None = None,
) -> list[Percentile]:
    """Compute percentiles of FSRS-5's metrics among learners of similar size and recall.

    The metrics are log loss, RMSE(bins) and AUC. `average` is the log loss of the average baseline,
    which the share recalled determines. The log loss of published learners is scaled to this
    baseline, because people who recall more have lower log loss by any prediction. Metrics without
    a figure are omitted. `log_loss_bounds` is the 95 % interval of the log loss, while `average`
    stays as it is.

    Learners far smaller or larger, or with other recall, are moved to the learner's size and recall
    along a local line. Otherwise a learner at the edge of the population, where neighbours lie on
    one side only, would be compared with people who are easier or harder to predict.
    """
    users = _load_users()
    columns = {"LogLoss": "optimized", "RMSE(bins)": "rmse_bins", "AUC": "auc"}
    baseline_ratio = (average + 0.01) / (users["average"] + 0.01)  # an average may be near 0
    log_weight = _log_kernel_weights(users["reviews"], reviews) + _log_kernel_weights(
        baseline_ratio, 1.0, _RECALL_WIDTH
    )
    percentiles = []
    for metric, column in columns.items():
        figure = figures.get(metric)
        if figure is None:
            continue
        index = np.flatnonzero(np.isfinite(users[column]))
        values = users[column][index]
        weight = np.exp(log_weight[index] - log_weight.max())
        if metric == "LogLoss":
            values = values * baseline_ratio[index]
        distances = np.log([users["reviews"][index] / reviews, baseline_ratio[index]])
        values = _move_along_line(values, distances, weight)
        order = np.argsort(values)
        values = values[order]
        weight = weight[order] / weight.sum()

        higher_is_better = metric == "AUC"
        share_worse = _share_worse(figure, values, weight, higher_is_better=higher_is_better)
        share_worse_range = None
        if metric == "LogLoss" and log_loss_bounds is not None:
            low, high = log_loss_bounds
            share_worse_range = (
                _share_worse(high, values, weight, higher_is_better=higher_is_better),
                _share_worse(low, values, weight, higher_is_better=higher_is_better),
            )
        position = np.searchsorted(np.cumsum(weight), _QUANTILE_LEVELS)
        quantiles = values[np.minimum(position, len(order) - 1)].tolist()
        percentile = Percentile(
            metric=metric,
            figure=figure,
            share_worse=share_worse,
            quantiles=tuple(zip(_QUANTILE_LEVELS, quantiles, strict=True)),
            share_worse_range=share_worse_range,
        )
        percentiles.append(percentile)
    return percentiles


def _share_worse(
    figure: float, values: FloatArray, weight: FloatArray, *, higher_is_better: bool
) -> float:
    """Return the share by weight of the values (k,) that are worse than a figure."""
    is_worse = values < figure if higher_is_better else values > figure
    return float(weight[is_worse].sum())


def _move_along_line(values: FloatArray, distances: FloatArray, weight: FloatArray) -> FloatArray:
    """Move values (k,) to where they would lie at no distance from the learner.

    `distances` are (2, k). Logarithms of the values are moved along the line that fits them best
    with the weights (k,).
    """
    logarithm = np.log(np.maximum(values, 1 / _SCALE))
    design = np.vstack([np.ones(len(values)), distances])
    slopes = np.linalg.lstsq((design * weight) @ design.T, (design * weight) @ logarithm)[0]
    moved: FloatArray = np.exp(logarithm - slopes[1:] @ distances)
    return moved


def _log_kernel_weights(sizes: FloatArray, size: float, width: float = _SIZE_WIDTH) -> FloatArray:
    """Return log weights (users,) by how close their sizes are to `size`."""
    weight: FloatArray = -0.5 * ((np.log(sizes) - math.log(size)) / width) ** 2
    return weight


@cache
def _load_users() -> dict[str, FloatArray]:
    """Load the table's columns (users,): reviews and figures; nan if a user has none."""
    with np.load(POPULATION_FILE) as table:
        stored = {name: table[name] for name in table.files}
    missing = np.iinfo(np.uint32).max
    users = {
        name: np.where(column == missing, np.nan, column / _SCALE)
        for name, column in stored.items()
    }
    users["reviews"] = stored["reviews"].astype(np.float64)
    return users


MIN_EVALUATED_REVIEWS = 300  # evaluated reviews; with fewer, a figure is mostly chance
_MODEL = "FSRS-5"
_AVERAGE = "AVG"


def assess_percentiles(log: ReviewLog, context: Context) -> Iterator[Finding]:
    """Yield a finding over all reviews; none below MIN_EVALUATED_REVIEWS."""
    session = LearnerSession(log)
    try:
        model = session.run(resolve_configurations(_MODEL)[0], context)
        average = session.run(resolve_configurations(_AVERAGE)[0], context)
    except NotEnoughData:
        return
    if model.size < MIN_EVALUATED_REVIEWS:
        return
    average_loss = log_loss_interval(average).estimate
    bounds = None
    if have_same_reviews(model, average) and average_loss > 0:
        ratio = ratio_interval(
            review_losses(model), review_losses(average), model.day, find_persistence(model)
        )
        if math.isfinite(ratio.half_width):
            bounds = (ratio.low * average_loss, ratio.high * average_loss)
    percentiles = compute_percentiles(model.metrics.to_upstream(), average_loss, model.size, bounds)
    conclusion = f"better than {percentiles[0].people_worse_of_100} of 100"
    evidence = Percentiles(conclusion, tuple(percentiles))
    yield Finding("standing", ALL_REVIEWS, reviews=model.size, evidence=evidence)
