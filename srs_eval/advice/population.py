"""What a change is worth by other people's experience, and where one stands among them.

A learner's paired difference alone settles little; what 9,999 published users gained at that many
reviews (FSRS-5 stands for FSRS-6) settles much. With d_u what user u gained, n_u the user's
evaluated reviews, and m ± se the learner's own difference on n of them,

    w_u ∝ K(log n_u - log n) · t_4((m - d_u) / √(se² + τ²)),  τ = c √(1,000 / n),
    P = Σ w_u [d_u < 0],  gain = -Σ w_u d_u.

K is a Gaussian of width 0.7; τ stands for how much the coming reviews differ from the past. c, and
how surely anything can be said, are chosen by leaving learners out (benchmarks/advice.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from srs_eval.advice.findings import ALL_REVIEWS, Belief, Finding, Standing, Standings
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.engine.session import Session, log_loss_interval
from srs_eval.models.configurations import resolve
from srs_eval.stats.intervals import Interval
from srs_eval.training.hyperparameters import Context

Published = Literal["optimized", "recency", "defaults", "sm2", "average"]
TABLE = Path(__file__).with_name("population.npz")  # made by tools/experience.py
_SCALE = 100_000
_WIDTH = 0.7  # of the kernel, in log reviews
_WIDTH_OF_RECALL = 0.2  # the same in log of the average's log loss
_FREEDOM = 4
_SHIFT = 0.008  # c: between parameters of one model
_SHIFT_OF_MODELS = 0.03  # between models
_SHIFT_OF_SHARING = 0.001  # between pooled and shared parameters of the same reviews
_FEWEST = 50  # reviews: below, differences scatter no more than here
_SIZES = 200, 500_000  # reviews: at these, and between, hundreds of users are near
_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)  # of the quantiles of a `Standing`
_LAPSE = 0.02  # no statement is surer than 98 %: lives change
_UNLIKE, _SHARE_UNLIKE = np.linspace(-1.0, 1.0, 401), 0.01
"""Differences of people who are like no published one, and how many they are."""
_REFIT, _REFIT_SCATTER = 0.006, 0.0086
"""Nats: what a refit gains once reviews have doubled, and by how much learners differ in it."""
_UNKNOWN_GROWTH, _MOST_GROWTH = 0.5, 4.0
_SCATTERED = 0.1  # growth from which on learners differ so much


@dataclass(frozen=True, eq=False)
class Prior:
    """Differences in log loss that are possible before a learner's own evidence is seen."""

    difference: FloatArray  # (k,) nats, negative: the candidate is better
    log_weight: FloatArray  # (k,)
    shift: float = _SHIFT


def published(candidate: Published, reference: Published, reviews: int) -> Prior:
    """What users with about so many evaluated reviews gained by a candidate."""
    users = _users()
    difference = users[candidate] - users[reference]
    few, many = _SIZES
    shift = _SHIFT_OF_MODELS if {"sm2", "average"} & {candidate, reference} else _SHIFT
    return Prior(difference, _near(users["reviews"], min(max(reviews, few), many)), shift)


def refit(growth: float | None) -> Prior:
    """What fitting anew gains when reviews have grown by a share since the last fit.

    By 13 people's histories, in which they grew to fivefold: 0.006 √growth, give or take; without
    new reviews a fit is the same. None: nobody knows when the parameters were fitted.
    """
    from scipy.special import ndtri

    root = math.sqrt(_UNKNOWN_GROWTH if growth is None else min(growth, _MOST_GROWTH))
    scatter = _REFIT_SCATTER * min(root / math.sqrt(_SCATTERED), 1.0)
    z = ndtri((np.arange(200) + 0.5) / 200)
    return Prior(scatter * z - _REFIT * root, np.zeros(len(z)))


def sharing() -> Prior:
    """What separate or pooled parameters of several presets make of shared ones' log loss.

    By simulated pairs: 0.0003 worse where they forget alike, which half of them do; else 0.0049
    better, give or take a factor of 2.
    """
    from scipy.special import ndtri

    z = ndtri((np.arange(200) + 0.5) / 200)
    difference = np.concatenate([0.0003 * (1 + 0.5 * z), -0.0049 * np.exp(0.7 * z)])
    return Prior(difference, np.zeros(len(difference)), _SHIFT_OF_SHARING)


def belief(own: Interval | None, prior: Prior, margin: float = 0.0) -> Belief:
    """Of a candidate, from the learner's own paired difference, if there is one, and a prior.

    The probability is that of a difference below the margin.
    """
    total = float(np.logaddexp.reduce(prior.log_weight))
    unlike = np.full(len(_UNLIKE), total + math.log(_SHARE_UNLIKE / len(_UNLIKE)))
    difference = np.concatenate([prior.difference, _UNLIKE])
    log_weight = np.concatenate([prior.log_weight, unlike])
    if own is not None and math.isfinite(own.standard_error):
        tau = prior.shift * math.sqrt(1000 / max(own.reviews, _FEWEST))
        z = (own.estimate - difference) / math.hypot(own.standard_error, tau)
        log_weight = log_weight - (_FREEDOM + 1) / 2 * np.log1p(z * z / _FREEDOM)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    order = np.argsort(difference)
    place = np.searchsorted(np.cumsum(weight[order]), (0.025, 0.975))
    low, high = difference[order[np.minimum(place, len(order) - 1)]]
    better = float(weight[difference < margin].sum())
    probability, gain = _LAPSE + (1 - 2 * _LAPSE) * better, -float(weight @ difference)
    return Belief(probability, gain, low=-float(high), high=-float(low))


# Where do I stand? Like with like: FSRS-5 on the benchmark's reviews, as all were published.


def standings(figures: Mapping[str, float | None], average: float, reviews: int) -> list[Standing]:
    """FSRS-5's log loss, RMSE(bins) and AUC among learners of like size and recall.

    `average` is the log loss of the average baseline, which the share recalled decides. Others'
    log loss is taken as a multiple of theirs, for who recalls more has less of it however they are
    predicted.
    """
    users = _users()
    columns = {"LogLoss": "optimized", "RMSE(bins)": "rmse_bins", "AUC": "auc"}
    like = (average + 0.01) / (users["average"] + 0.01)
    log_weight = _near(users["reviews"], reviews) + _near(like, 1.0, _WIDTH_OF_RECALL)
    found = []
    for metric, column in columns.items():
        figure = figures.get(metric)
        if figure is None:
            continue
        known = np.flatnonzero(np.isfinite(users[column]))
        values, weight = users[column][known], np.exp(log_weight[known] - log_weight.max())
        if metric == "LogLoss":
            values = values * like[known]
        order = np.argsort(values)
        weight = weight[order] / weight.sum()
        worse = values[order] < figure if metric == "AUC" else values[order] > figure
        place = np.searchsorted(np.cumsum(weight), _LEVELS)
        theirs = values[order][np.minimum(place, len(order) - 1)].tolist()
        share_worse, quantiles = float(weight[worse].sum()), zip(_LEVELS, theirs, strict=True)
        found.append(Standing(metric, figure, share_worse, tuple(quantiles)))
    return found


def _near(sizes: FloatArray, size: float, width: float = _WIDTH) -> FloatArray:
    """Log weights (users,) of how near their sizes are."""
    weight: FloatArray = -0.5 * ((np.log(sizes) - math.log(size)) / width) ** 2
    return weight


@cache
def _users() -> dict[str, FloatArray]:
    """Columns (users,) of the table: reviews, and figures; nan where a user has none."""
    with np.load(TABLE) as table:
        raw = {name: table[name] for name in table.files}
    unknown = np.iinfo(np.uint32).max
    known = {name: np.where(each == unknown, np.nan, each / _SCALE) for name, each in raw.items()}
    return known | {"reviews": raw["reviews"].astype(np.float64)}


FEWEST = 300  # evaluated reviews: below these, a figure is mostly chance
_MODEL, _AVERAGE = "FSRS-5", "AVG"


def where_do_i_stand(log: ReviewLog, context: Context) -> Iterator[Finding]:
    """One finding over all reviews; none below FEWEST evaluated reviews."""
    session = Session(log)
    try:
        own, average = (session.run(resolve(name)[0], context) for name in (_MODEL, _AVERAGE))
    except NotEnoughData:
        return
    if own.size < FEWEST:
        return
    figures = own.metrics.to_upstream()
    found = standings(figures, log_loss_interval(average).estimate, own.size)
    says = f"better than {found[0].of_100} of 100"
    evidence = Standings(says, tuple(found))
    yield Finding("standing", ALL_REVIEWS, reviews=own.size, evidence=evidence)
