"""How sure are the figures of an evaluation, and which model is ahead?

Intervals here are 95 % intervals over days, not over reviews: on a bad day everything is
forgotten more often, so the reviews of a day (and of a week) say less than their number
suggests. Where days matter, intervals that take reviews as independent hold the truth in
about two cases of three. The half-width of a mean is the largest of three, each Student's
t(0.975) times a standard error: clustered by day (Liang & Zeger, 1986, Biometrika 73), of
daily sums with the weights of Newey & West (1987, Econometrica 55), and clustered by blocks of
seven review days. docs/metrics.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from srs_eval.context import EQUIVALENT
from srs_eval.metrics import EPSILON
from srs_eval.results import Result
from srs_eval.reviews import FloatArray, IntArray

FEWEST_REVIEWS, FEWEST_DAYS = 1_000, 20  # below either nothing is concluded
TOO_MANY_MORE = 20  # times as many reviews as there are: nobody waits for these

BLOCK_DAYS, FEWEST_BLOCKS = 7, 9
RESAMPLES = 2_000
_TABLE = 4_000_000  # cells of a table that is made at a time
CONFIDENCE = 0.95

Verdict = Literal["better", "worse", "as good", "can't tell yet"]


@dataclass(frozen=True)
class Interval:
    """An estimate with a symmetric 95 % interval, in the estimate's unit."""

    estimate: float
    half_width: float  # nan where the reviews of one day are all there is
    reviews: int = 0  # that it rests on
    days: int = 0  # on which these were done
    errors: tuple[tuple[float, int], ...] = ()
    """Standard errors with their degrees of freedom; the widest decides. () if resampled."""

    @property
    def low(self) -> float:
        return self.estimate - self.half_width

    @property
    def high(self) -> float:
        return self.estimate + self.half_width

    @property
    def standard_error(self) -> float:
        """Of the interval that decides; nan where there is none."""
        if not self.errors:
            return math.nan
        return max(self.errors, key=lambda each: each[0] * _t_quantile(each[1]))[0]

    @property
    def p_value(self) -> float:
        """Two-sided, of the estimate being 0: the largest over the standard errors; nan without.

        Below 0.05 exactly where the interval leaves out 0.
        """
        return max((_p_value(self.estimate, *each) for each in self.errors), default=math.nan)


# Intervals


def log_losses(y: FloatArray, p: FloatArray) -> FloatArray:
    """Log loss of each prediction in nats (k,), p clipped as in `metrics.log_loss`."""
    likelihood = np.where(y == 1, p, 1 - p)
    loss: FloatArray = -np.log(np.clip(likelihood, EPSILON, 1 - EPSILON))
    return loss


def losses(result: Result) -> FloatArray:
    """Log loss of each judged review in nats (k,)."""
    return log_losses(result.y, result.p)


def mean_interval(values: FloatArray, day: IntArray) -> Interval:
    """Mean of (k,) values of the days (k,), with its interval. ValueError if there are none."""
    count = len(values)
    if not count:
        raise ValueError("the mean of no reviews is undefined")
    mean = float(values.mean())
    known, place = np.unique(day, return_inverse=True)
    days = len(known)
    if days == 1:
        return Interval(mean, math.nan, count, 1)
    daily: FloatArray = np.bincount(place, values - mean).astype(np.float64)
    errors = [(_clustered(daily, count), days - 1), (_newey_west(daily, count), days - 1)]
    blocks = -(-days // BLOCK_DAYS)
    if blocks >= FEWEST_BLOCKS:
        by_block = np.add.reduceat(daily, np.arange(0, days, BLOCK_DAYS))
        errors.append((_clustered(by_block, count), blocks - 1))
    half_width = max(error * _t_quantile(freedom) for error, freedom in errors)
    return Interval(mean, half_width, count, days, tuple(errors))


def relative(values: FloatArray, whole: FloatArray, day: IntArray) -> Interval:
    """The mean of values (k,) as a share of the mean of `whole` (k,), with its interval.

    A ratio of two means of the same reviews, linearised (delta method).
    """
    mean = float(whole.mean())
    share = float(values.mean()) / mean
    return replace(mean_interval((values - share * whole) / mean, day), estimate=share)


def log_loss_interval(result: Result) -> Interval:
    """Log loss with its interval; how sure it is by itself, not compared to another."""
    return mean_interval(losses(result), result.day)


def log_loss_difference(result: Result, other: Result) -> Interval | None:
    """Mean of `result`'s losses minus `other`'s on the same reviews; negative: it is better.

    Paired, so it is much narrower than the two intervals suggest. None where the two
    were not judged on the same reviews.
    """
    if not same_reviews(result, other):
        return None
    return mean_interval(losses(result) - losses(other), result.day)


def same_reviews(result: Result, other: Result) -> bool:
    return np.array_equal(result.review_th, other.review_th)


def resampled_interval(
    result: Result, metric: Literal["rmse_bins", "auc"], other: Result | None = None
) -> Interval | None:
    """RMSE(bins) or AUC, or its difference from `other`'s, with an interval.

    2,000 multinomial resamples of days, the same ones for both results; the half-width is the
    95 % quantile of their distance from their mean, about the estimate itself, for a resampled
    RMSE(bins) is too large on average. None where AUC is undefined, and where the two were not
    judged on the same reviews.
    """
    if other is not None and not same_reviews(result, other):
        return None
    known, place = np.unique(result.day, return_inverse=True)
    days = len(known)
    draws = np.random.default_rng(0).multinomial(
        days, np.full(days, 1 / days), RESAMPLES if days > 1 else 0
    )
    weights = draws.astype(np.float64)
    statistic = {"rmse_bins": _resampled_rmse_bins, "auc": _resampled_auc}[metric]
    estimate, drawn = 0.0, np.zeros(len(weights))
    for each, sign in ((result, 1.0), (other, -1.0)):
        if each is None:
            continue
        figure = getattr(each.metrics, metric)
        if figure is None:
            return None
        estimate += sign * figure
        drawn += sign * statistic(each, place, weights)
    drawn = drawn[np.isfinite(drawn)]  # a resample may hold no failure at all
    if not len(drawn):
        return Interval(estimate, math.nan, result.size, days)
    half_width = float(np.quantile(np.abs(drawn - drawn.mean()), CONFIDENCE))
    return Interval(estimate, half_width, result.size, days)


def _clustered(sums: FloatArray, count: int) -> float:
    """Standard error of a mean over `count` values from the clusters' sums of deviations."""
    clusters = len(sums)
    return math.sqrt(float(sums @ sums) * clusters / (clusters - 1)) / count


def _newey_west(daily: FloatArray, count: int) -> float:
    """The same from successive daily sums, neighbours' products weighted by Bartlett's kernel."""
    days = len(daily)
    lags = min(int(4 * (days / 100) ** (2 / 9)), days - 1)
    variance = float(daily @ daily)
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * float(daily[lag:] @ daily[:-lag])
    return math.sqrt(max(variance, 0.0) * days / (days - 1)) / count


def _resampled_rmse_bins(result: Result, day: IntArray, weights: FloatArray) -> FloatArray:
    """RMSE(bins) under (r, days) weights of the days; `day` (k,) are columns of these."""
    _, bin_ = np.unique(result.bin, return_inverse=True)
    shape = weights.shape[1], int(bin_.max()) + 1
    cell = day * shape[1] + bin_
    size = shape[0] * shape[1]
    count = weights @ np.bincount(cell, minlength=size).reshape(shape)
    gap = np.bincount(cell, result.y - result.p, size).reshape(shape)
    squares = np.square(weights @ gap) / np.maximum(count, 1)
    drawn: FloatArray = np.sqrt(squares.sum(axis=1) / count.sum(axis=1))
    return drawn


def _resampled_auc(result: Result, day: IntArray, weights: FloatArray) -> FloatArray:
    """AUC under (r, days) weights of the days, nan where a resample has one class only.

    Counted once, by pair of days: pairs of a failure and a recalled review whose p is not
    higher (an equal one counts one half). A resample weights these counts.
    """
    days = weights.shape[1]
    recalled = result.y == 1
    failures = np.flatnonzero(~recalled)
    failures = failures[np.argsort(result.p[failures], kind="stable")]
    p_failed, day_failed = result.p[failures], day[failures]
    p_recalled, day_recalled = result.p[recalled], day[recalled]
    # A recalled review is below all failures from its place on, and half below its equals.
    lost = np.zeros((days, days))
    for place in (
        np.searchsorted(p_failed, p_recalled, "left"),
        np.searchsorted(p_failed, p_recalled, "right"),
    ):
        below = np.zeros(days)
        step = max(1, _TABLE // days)
        for start in range(0, len(failures), step):
            stop = min(start + step, len(failures))
            inside = (place >= start) & (place < stop)
            cell = (place[inside] - start) * days + day_recalled[inside]
            table = np.bincount(cell, minlength=(stop - start) * days)
            upto = np.cumsum(table.reshape(-1, days), axis=0, dtype=np.float64) + below
            below = upto[-1]
            order = np.argsort(day_failed[start:stop], kind="stable")
            known, first = np.unique(day_failed[start:stop][order], return_index=True)
            lost[known] += 0.5 * np.add.reduceat(upto[order], first, axis=0)
    pairs = (weights @ np.bincount(day_failed, minlength=days)) * (
        weights @ np.bincount(day_recalled, minlength=days)
    )
    with np.errstate(invalid="ignore"):
        drawn: FloatArray = 1 - ((weights @ lost) * weights).sum(axis=1) / pairs
    return drawn


# Student's t distribution


def _p_value(estimate: float, error: float, freedom: int) -> float:
    if error == 0:
        return 1.0 if estimate == 0 else 0.0
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -abs(estimate) / error))


@cache
def _t_quantile(freedom: int) -> float:
    """What |T| exceeds in 5 % of all cases."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


# Verdicts


def verdict(difference: Interval, *, equivalence: float = EQUIVALENT) -> Verdict:
    """What a paired difference in log loss says about the first model.

    In this order: as good, if the interval lies within ± equivalence; better or worse, if it
    leaves out 0; else one can't tell yet, nor with fewer than 1,000 reviews or 20 days.
    It speaks of reviews like these.
    """
    return verdicts({"": difference}, equivalence=equivalence)[""]


def verdicts(
    differences: Mapping[str, Interval], *, equivalence: float = EQUIVALENT
) -> dict[str, Verdict]:
    """The verdicts on all candidates of one question.

    Who asks often enough finds a difference by chance: "better" and "worse" are held to 5 %
    for all candidates together (Holm, 1979, Scandinavian Journal of Statistics 6). "As good"
    takes the plain interval.
    """
    telling = {
        name: difference.p_value
        for name, difference in differences.items()
        if not math.isnan(difference.p_value)
    }
    differ: set[str] = set()
    for place, name in enumerate(sorted(telling, key=lambda name: telling[name])):
        if telling[name] >= (1 - CONFIDENCE) / (len(telling) - place):
            break
        differ.add(name)
    return {
        name: _verdict(difference, name in differ, equivalence)
        for name, difference in differences.items()
    }


def enough_to_tell(found: Interval) -> bool:
    """Whether it rests on as many reviews and days as any verdict needs."""
    return found.reviews >= FEWEST_REVIEWS and found.days >= FEWEST_DAYS


def side(difference: Interval, margin: float) -> Literal["below", "above", "no matter", "open"]:
    """Where an interval lies, for whoever has seen to it that there is enough to tell by.

    In the order of `verdict`: it does not matter within ± margin, it is below or above 0, or
    that is open, as it is without an interval. "Not distinguishable" is never "equal".
    """
    if -margin <= difference.low and difference.high <= margin:
        return "no matter"
    if difference.high < 0:
        return "below"
    return "above" if difference.low > 0 else "open"


def _verdict(difference: Interval, differs: bool, equivalence: float) -> Verdict:
    if not enough_to_tell(difference):
        return "can't tell yet"
    if side(difference, equivalence) == "no matter":
        return "as good"
    if differs:
        return "better" if difference.estimate < 0 else "worse"
    return "can't tell yet"


def more_reviews(difference: Interval, *, equivalence: float = EQUIVALENT) -> int | None:
    """At most about how many more reviews would tell, as a figure with one digit.

    So many make the standard error 2.8 times smaller than what has to be told apart, which is
    the difference itself or its distance from what is too small to matter, whichever is
    larger; in four cases of five that is enough. None below 1,000 reviews, where the error is
    not known well enough, where reviews are not what is missing, and where more than 20 times as
    many as there are would be needed.
    """
    error = difference.standard_error
    if difference.reviews < FEWEST_REVIEWS or math.isnan(error):
        return None
    size = abs(difference.estimate)
    needed = (2.8 * error / max(size, equivalence - size)) ** 2
    more = difference.reviews * (needed - 1)
    if not 1 <= more <= TOO_MANY_MORE * difference.reviews:
        return None
    unit = 10 ** math.floor(math.log10(more))
    return math.ceil(more / unit) * int(unit)
