"""How sure are the figures of an evaluation, and which model is ahead?

Intervals here are 95 % normal approximations of a mean over reviews: mean loss
± 1.96 standard errors, the reviews taken as independent. Reviews of one day are
not quite independent, so these intervals are somewhat too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from srs_eval.metrics import EPSILON
from srs_eval.results import Result
from srs_eval.reviews import FloatArray

Z_95 = 1.959963984540054  # the normal distribution's 97.5 % quantile
FLOOR = "AVG"
"""The configuration that knows the average only; others are held against it."""


@dataclass(frozen=True)
class Interval:
    """An estimate with a symmetric 95 % interval, in the estimate's unit."""

    estimate: float
    half_width: float  # nan where one review is all there is

    @property
    def low(self) -> float:
        return self.estimate - self.half_width

    @property
    def high(self) -> float:
        return self.estimate + self.half_width


@dataclass(frozen=True)
class Ranked:
    """A configuration's place. Places count within models judged on the same reviews."""

    configuration: str
    place: int | None  # from 1; None for the floor
    log_loss: Interval  # nats
    against_average: float | None
    """(log loss - average's) / average's; negative is better. None without the average."""
    group: int  # 0 for the largest set of models judged on the same reviews, then 1 ...


def losses(result: Result) -> FloatArray:
    """Log loss of each judged review in nats (k,), p clipped as in `metrics.log_loss`."""
    likelihood = np.where(result.y == 1, result.p, 1 - result.p)
    loss: FloatArray = -np.log(np.clip(likelihood, EPSILON, 1 - EPSILON))
    return loss


def mean_interval(values: FloatArray) -> Interval:
    """Mean of (k,) values, ± 1.96 standard errors. ValueError if there are none."""
    if not len(values):
        raise ValueError("the mean of no reviews is undefined")
    if len(values) == 1:
        return Interval(float(values[0]), math.nan)
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return Interval(float(values.mean()), Z_95 * error)


def log_loss_interval(result: Result) -> Interval:
    """Log loss with its interval; how sure it is by itself, not compared to another."""
    return mean_interval(losses(result))


def log_loss_difference(result: Result, other: Result) -> Interval | None:
    """Mean of `result`'s losses minus `other`'s on the same reviews; negative: it is better.

    Paired, so it is much narrower than the two intervals suggest. None where the two
    were not judged on the same reviews.
    """
    if not same_reviews(result, other):
        return None
    return mean_interval(losses(result) - losses(other))


EQUIVALENT = 0.002
"""Differences in log loss within this are too small to matter."""
FEWEST_REVIEWS = 300  # below this nothing is concluded


def verdict(
    difference: Interval, reviews: int
) -> Literal["better", "worse", "as good", "can't tell yet"]:
    """What a paired difference in log loss over so many reviews says about the first model."""
    if reviews < FEWEST_REVIEWS or math.isnan(difference.half_width):
        return "can't tell yet"
    if difference.high < 0:
        return "better"
    if difference.low > 0:
        return "worse"
    if difference.low >= -EQUIVALENT and difference.high <= EQUIVALENT:
        return "as good"
    return "can't tell yet"


def same_reviews(result: Result, other: Result) -> bool:
    return np.array_equal(result.review_th, other.review_th)


def ranking(results: Iterable[Result]) -> list[Ranked]:
    """Best first by log loss, ties by name; the groups one after another."""
    groups: list[list[Result]] = []
    for result in results:
        for group in groups:
            if same_reviews(group[0], result):
                group.append(result)
                break
        else:
            groups.append([result])
    # Reviews on later days are the rule, so their group is usually the larger one; the
    # floor decides where sizes are equal.
    groups.sort(
        key=lambda group: (
            -len(group),
            all(result.configuration != FLOOR for result in group),
            group[0].configuration,
        )
    )
    rows = []
    for number, group in enumerate(groups):
        intervals = {result.configuration: log_loss_interval(result) for result in group}
        average = next(
            (
                interval.estimate
                for name, interval in intervals.items()
                if name.split("-")[0] == FLOOR
            ),
            None,
        )
        place = 0
        for name in sorted(intervals, key=lambda name: (intervals[name].estimate, name)):
            floor = name.split("-")[0] == FLOOR
            place += not floor
            against = None
            if average and not floor:
                against = (intervals[name].estimate - average) / average
            rows.append(
                Ranked(
                    configuration=name,
                    place=None if floor else place,
                    log_loss=intervals[name],
                    against_average=against,
                    group=number,
                )
            )
    return rows
