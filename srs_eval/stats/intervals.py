"""How sure are the figures of an evaluation, and which model is ahead?

Intervals here are 95 % intervals over days, not over reviews: on a bad day everything is
forgotten more often, so the reviews of a day (and of a week) say less than their number
suggests. Where days matter, intervals that take reviews as independent hold the truth in
about two cases of three. The half-width of a mean is the largest of four, each Student's
t(0.975) times a standard error: clustered by day (Liang & Zeger, 1986, Biometrika 73), of
daily sums with the weights of Newey & West (1987, Econometrica 55), clustered by blocks of
seven review days, and of the slowest cosine waves of the daily sums, for good and bad times that
last (Lazarus, Lewis, Stock & Watson, 2018, Journal of Business & Economic Statistics 36).
docs/metrics.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from srs_eval.data.protocol import EQUIVALENT
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.metrics import ascending, checked_pair, lowess_knots

FEWEST_REVIEWS, FEWEST_DAYS = 1_000, 20  # below either nothing is concluded
TOO_MANY_MORE = 20  # times as many reviews as there are: nobody waits for these

BLOCK_DAYS, _FEWEST_BLOCKS = 7, 9
_CONFIDENCE = 0.95

Verdict = Literal["better", "worse", "as good", "can't tell yet"]


@dataclass(frozen=True)
class Interval:
    """An estimate with a symmetric 95 % interval, in the estimate's unit."""

    estimate: float
    half_width: float  # nan where the reviews of one day are all there is
    reviews: int = 0  # that it rests on
    days: int = 0  # on which these were done
    errors: tuple[tuple[float, int], ...] = ()
    """Standard errors with their degrees of freedom; the widest decides."""

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
    if blocks >= _FEWEST_BLOCKS:
        by_block = np.add.reduceat(daily, np.arange(0, days, BLOCK_DAYS))
        errors.append((_clustered(by_block, count), blocks - 1))
    waves = int(0.41 * days ** (2 / 3))
    if days >= FEWEST_DAYS:
        errors.append((_of_waves(daily, waves, count), waves))
    half_width = max(error * _t_quantile(freedom) for error, freedom in errors)
    return Interval(mean, half_width, count, days, tuple(errors))


def relative(values: FloatArray, whole: FloatArray, day: IntArray) -> Interval:
    """The mean of values (k,) as a share of the mean of `whole` (k,), with its interval.

    A ratio of two means of the same reviews, linearised (delta method).
    """
    mean = float(whole.mean())
    share = float(values.mean()) / mean
    return replace(mean_interval((values - share * whole) / mean, day), estimate=share)


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


def _of_waves(daily: FloatArray, waves: int, count: int) -> float:
    """The same from the slowest cosine waves of the daily sums, all weighing the same."""
    days = len(daily)
    phase = np.pi * (np.arange(days) + 0.5) / days
    power = sum(float(daily @ np.cos(k * phase)) ** 2 for k in range(1, waves + 1))
    return math.sqrt(2 * power / waves) / count


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

    return float(stdtrit(freedom, (1 + _CONFIDENCE) / 2))


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
        if telling[name] >= (1 - _CONFIDENCE) / (len(telling) - place):
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


# The calibration graph: how often were reviews recalled that a model gave so much?


_Z = 1.959963984540054  # 97.5 % quantile of the standard normal distribution


@dataclass(frozen=True, eq=False)
class CalibrationGraph:
    """Predicted against observed recall; perfect calibration is the diagonal.

    Bins are in order of p; of empty ones all but `count` and `edges` is NaN.
    """

    edges: FloatArray  # (bins + 1,) from 0 to 1; a bin holds its lower edge, the last both
    count: IntArray  # (bins,)
    predicted: FloatArray  # (bins,) mean p
    observed: FloatArray  # (bins,) mean y
    low: FloatArray  # (bins,) 95 % Wilson interval of `observed`
    high: FloatArray  # (bins,)
    mae: float  # mean over reviews of their bin's |predicted - observed|
    smooth_p: FloatArray  # (k,) rising; the curve without bins, linear between its points
    smooth_y: FloatArray  # (k,) lowess of y on p, kept within [0, 1]


def _wilson_interval(recalled: ArrayLike, count: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """95 % score interval of a proportion (Wilson, 1927); NaN where `count` is 0."""
    hits = np.asarray(recalled, np.float64)
    n = np.asarray(count, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = (hits + _Z**2 / 2) / (n + _Z**2)
        half = _Z / (n + _Z**2) * np.sqrt(hits * (n - hits) / n + _Z**2 / 4)
    # The bounds are exactly 0 or 1 at the ends; rounding must not say otherwise.
    low = np.where(hits == 0, 0.0, middle - half)
    high = np.where(hits == n, 1.0, middle + half)
    empty = n == 0
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def calibration_graph(y: ArrayLike, p: ArrayLike, bins: int = 40) -> CalibrationGraph:
    """Reliability diagram over bins of p of equal width, with a smooth curve."""
    outcome, forecast = checked_pair(y, p)
    edges = np.linspace(0.0, 1.0, bins + 1)
    place = np.minimum(np.searchsorted(edges, forecast, side="right") - 1, bins - 1)
    count = np.bincount(place, minlength=bins)
    recalled = np.bincount(place, outcome, bins)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(place, forecast, bins) / count
        observed = recalled / count
    low, high = _wilson_interval(recalled, count)
    filled = count > 0
    order = ascending(forecast)
    p_sorted = forecast[order]
    smooth_p, smooth_y = lowess_knots(p_sorted, outcome[order], mean_of_ties=True)
    gaps = np.abs(predicted[filled] - observed[filled])
    return CalibrationGraph(
        edges=edges,
        count=count,
        predicted=predicted,
        observed=observed,
        low=low,
        high=high,
        mae=float((gaps * count[filled]).sum() / count.sum()),
        smooth_p=smooth_p,
        smooth_y=np.clip(smooth_y, 0.0, 1.0),
    )
