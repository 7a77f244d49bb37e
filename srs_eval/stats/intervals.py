"""Estimate how sure the figures of an evaluation are, and which model is ahead.

Intervals here are 95 % intervals over days, not over reviews: on a bad day everything is
forgotten more often, so the reviews of a day (and of a week) say less than their number
suggests. Where days matter, intervals that take reviews as independent contain the truth in only
about two cases of three.

The half-width of a mean is the largest of up to five, each Student's t(0.975) times a standard
error:

- clustered by day (Liang & Zeger, 1986, Biometrika 73);
- of daily sums with the weights of Newey & West (1987, Econometrica 55);
- clustered by blocks of seven review days;
- of the slowest cosine waves of the daily sums, for good and bad times that last (Lazarus, Lewis,
  Stock & Watson, 2018, Journal of Business & Economic Statistics 36);
- of these waves with the learner's persistence, if good and bad spells probably last
  (`srs_eval.stats.persistence`).

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

from srs_eval.data.protocol import EQUIVALENCE_MARGIN
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.metrics import argsort_ascending, compute_lowess_knots, validate_pair
from srs_eval.stats.persistence import Persistence, compute_lasting_half_width

MIN_REVIEWS = 1_000  # with fewer, nothing is concluded
MIN_DAYS = 20  # with fewer, nothing is concluded
MAX_MORE_FACTOR = 20  # a need for more than 20 times the present reviews is too long to wait for

BLOCK_DAYS = 7
_MIN_BLOCKS = 9
_LASTING_DEGREES = 4  # of Student's t that falls about as fast as the mixture over phi
_CONFIDENCE = 0.95

Verdict = Literal["better", "worse", "as good", "can't tell yet"]


@dataclass(frozen=True)
class Interval:
    """An estimate with a symmetric 95 % interval, in the estimate's unit."""

    estimate: float
    half_width: float  # nan if all reviews are of one day
    reviews: int = 0  # number of reviews behind it
    days: int = 0  # number of days with these reviews
    errors: tuple[tuple[float, int], ...] = ()
    """Standard errors with their degrees of freedom; the widest interval decides."""

    @property
    def low(self) -> float:
        return self.estimate - self.half_width

    @property
    def high(self) -> float:
        return self.estimate + self.half_width

    @property
    def standard_error(self) -> float:
        """Return the standard error of the interval that decides; nan if there is none."""
        if not self.errors:
            return math.nan

        def half_width(error: tuple[float, int]) -> float:
            standard_error, degrees = error
            return standard_error * _t_quantile(degrees)

        standard_error, _ = max(self.errors, key=half_width)
        return standard_error

    @property
    def p_value(self) -> float:
        """Return the two-sided p-value of the estimate being 0; nan without standard errors.

        It is the largest over the standard errors, below 0.05 exactly if the interval excludes 0.
        """
        p_values = (_p_value(self.estimate, error, degrees) for error, degrees in self.errors)
        return max(p_values, default=math.nan)


# Intervals


def mean_interval(
    values: FloatArray, day: IntArray, persistence: Persistence | None = None
) -> Interval:
    """Compute the mean of values (k,) on the days (k,), with its interval.

    `persistence` is the learner's; if good and bad spells probably last, the interval is wider.
    Raises ValueError if there are no values.
    """
    count = len(values)
    if not count:
        raise ValueError("there are no reviews to average")
    mean = float(values.mean())
    review_days, day_index = np.unique(day, return_inverse=True)
    days = len(review_days)
    if days == 1:
        return Interval(mean, math.nan, reviews=count, days=1)
    daily: FloatArray = np.bincount(day_index, values - mean).astype(np.float64)
    errors = [
        (_clustered_error(daily, count), days - 1),
        (_newey_west_error(daily, count), days - 1),
    ]
    blocks = math.ceil(days / BLOCK_DAYS)
    if blocks >= _MIN_BLOCKS:
        by_block = np.add.reduceat(daily, np.arange(0, days, BLOCK_DAYS))
        errors.append((_clustered_error(by_block, count), blocks - 1))
    if days >= MIN_DAYS:
        waves = int(0.41 * days ** (2 / 3))  # the number that Lazarus et al. recommend
        errors.append((_cosine_wave_error(daily, waves, count), waves))
    if persistence is not None and persistence.widens and days >= MIN_DAYS:
        counts = np.bincount(day_index)
        lasting = compute_lasting_half_width(daily, review_days, counts, persistence)
        errors.append((lasting / _t_quantile(_LASTING_DEGREES), _LASTING_DEGREES))
    half_width = max(error * _t_quantile(degrees) for error, degrees in errors)
    return Interval(mean, half_width, reviews=count, days=days, errors=tuple(errors))


def ratio_interval(
    values: FloatArray,
    denominator: FloatArray,
    day: IntArray,
    persistence: Persistence | None = None,
) -> Interval:
    """Compute the mean of values (k,) as a share of the mean of `denominator` (k,), with interval.

    Both are means of the same reviews; their ratio is linearised (delta method).
    """
    denominator_mean = float(denominator.mean())
    share = float(values.mean()) / denominator_mean
    interval = mean_interval((values - share * denominator) / denominator_mean, day, persistence)
    return replace(interval, estimate=share)


def _clustered_error(sums: FloatArray, count: int) -> float:
    """Compute the standard error of a mean of `count` values from clusters' sums of deviations."""
    clusters = len(sums)
    return math.sqrt(float(sums @ sums) * clusters / (clusters - 1)) / count


def _newey_west_error(daily: FloatArray, count: int) -> float:
    """Compute a mean's standard error from successive daily sums.

    The products of neighbours are weighted by Bartlett's kernel.
    """
    days = len(daily)
    lags = min(int(4 * (days / 100) ** (2 / 9)), days - 1)
    variance = float(daily @ daily)
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * float(daily[lag:] @ daily[:-lag])
    return math.sqrt(max(variance, 0.0) * days / (days - 1)) / count


def _cosine_wave_error(daily: FloatArray, waves: int, count: int) -> float:
    """Compute a mean's standard error from the slowest cosine waves of the daily sums.

    All waves have the same weight.
    """
    days = len(daily)
    phase = np.pi * (np.arange(days) + 0.5) / days
    power = sum(float(daily @ np.cos(k * phase)) ** 2 for k in range(1, waves + 1))
    return math.sqrt(2 * power / waves) / count


# Student's t distribution


def _p_value(estimate: float, error: float, degrees: int) -> float:
    """Return the two-sided p-value of an estimate with this standard error."""
    if error == 0:
        return 1.0 if estimate == 0 else 0.0
    from scipy.special import stdtr

    return 2 * float(stdtr(degrees, -abs(estimate) / error))


@cache
def _t_quantile(degrees: int) -> float:
    """Return the value that |t| exceeds in 5 % of all cases."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + _CONFIDENCE) / 2))


# Verdicts


def decide_verdict(difference: Interval, *, equivalence: float = EQUIVALENCE_MARGIN) -> Verdict:
    """Decide what a paired difference in log loss says about the first model.

    With fewer than 1,000 reviews or 20 days, the verdict is "can't tell yet". Otherwise it is "as
    good" if the interval lies within ± equivalence, else "better" or "worse" if it excludes 0, else
    "can't tell yet". A verdict holds only for reviews like these.
    """
    return decide_verdicts({"": difference}, equivalence=equivalence)[""]


def decide_verdicts(
    differences: Mapping[str, Interval], *, equivalence: float = EQUIVALENCE_MARGIN
) -> dict[str, Verdict]:
    """Decide the verdicts on all candidates of one question, by name.

    Among many comparisons some find a difference by chance. So the probability of any wrong
    "better" or "worse" is kept at 5 % for all candidates together (Holm, 1979, Scandinavian Journal
    of Statistics 6). "As good" uses the plain interval.
    """
    p_values = {
        name: difference.p_value
        for name, difference in differences.items()
        if not math.isnan(difference.p_value)
    }
    differing: set[str] = set()
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        hypotheses_left = len(p_values) - rank
        if p_values[name] >= (1 - _CONFIDENCE) / hypotheses_left:
            break
        differing.add(name)
    return {
        name: _decide(difference, differs=name in differing, equivalence=equivalence)
        for name, difference in differences.items()
    }


def has_enough_data(interval: Interval) -> bool:
    """Return whether an interval rests on as many reviews and days as any verdict needs."""
    return interval.reviews >= MIN_REVIEWS and interval.days >= MIN_DAYS


def classify_side(
    difference: Interval, margin: float
) -> Literal["below", "above", "no matter", "open"]:
    """Classify the side of 0 on which an interval lies; the caller checks for enough data first.

    Returns "no matter" if the interval lies within ± margin, else "below" or "above" if it excludes
    0, else "open". An interval without a width (nan) is "open", too.
    """
    if -margin <= difference.low and difference.high <= margin:
        return "no matter"
    if difference.high < 0:
        return "below"
    return "above" if difference.low > 0 else "open"


def _decide(difference: Interval, *, differs: bool, equivalence: float) -> Verdict:
    """Decide one verdict; `differs` tells whether the difference is significant."""
    if not has_enough_data(difference):
        return "can't tell yet"
    if classify_side(difference, equivalence) == "no matter":
        return "as good"
    if differs:
        return "better" if difference.estimate < 0 else "worse"
    return "can't tell yet"


def estimate_more_reviews(
    difference: Interval, *, equivalence: float = EQUIVALENCE_MARGIN
) -> int | None:
    """Estimate how many more reviews a verdict needs, rounded up to one digit.

    With that many, the effect to be detected is 2.8 standard errors, which is enough in four cases
    of five (1.96 for p = 0.05 plus 0.84 for a power of 80 %). The effect is the difference itself
    or its distance from the equivalence margin, whichever is larger.

    Returns None below 1,000 reviews, where the error is not known well enough, if there are enough
    reviews already, and if more than 20 times the present reviews would be needed.
    """
    error = difference.standard_error
    if difference.reviews < MIN_REVIEWS or math.isnan(error):
        return None
    size = abs(difference.estimate)
    needed_factor = (2.8 * error / max(size, equivalence - size)) ** 2
    missing_reviews = difference.reviews * (needed_factor - 1)
    if not 1 <= missing_reviews <= MAX_MORE_FACTOR * difference.reviews:
        return None
    unit = int(10 ** math.floor(math.log10(missing_reviews)))
    return math.ceil(missing_reviews / unit) * unit


# The calibration graph


NORMAL_QUANTILE = 1.959963984540054  # 97.5 % quantile of the standard normal distribution


@dataclass(frozen=True, eq=False)
class CalibrationGraph:
    """Predicted against observed recall; perfect calibration is the diagonal.

    Bins are in order of p; empty bins have NaN everywhere but in `count` and `edges`.
    """

    edges: FloatArray  # (bins + 1,) from 0 to 1; a bin includes its lower edge, the last one both
    count: IntArray  # (bins,)
    predicted: FloatArray  # (bins,) mean p
    observed: FloatArray  # (bins,) mean y
    low: FloatArray  # (bins,) exact 95 % interval of `observed`, as if reviews were independent
    high: FloatArray  # (bins,)
    mae: float  # mean over reviews of their bin's |predicted - observed|
    smooth_p: FloatArray  # (k,) ascending: p of the smooth curve, which is linear between points
    smooth_y: FloatArray  # (k,) LOWESS of y on p at these points, limited to [0, 1]


def binomial_interval(recalled: ArrayLike, count: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Compute the exact 95 % interval of a proportion (k,); NaN where `count` is 0.

    It holds every probability under which neither so few nor so many recalled reviews have less
    than 2.5 % probability, and so contains the true one in at least 95 % of cases, whatever it is
    and however small the count. Clopper & Pearson (1934), Biometrika 26.
    """
    from scipy.special import betaincinv

    successes = np.asarray(recalled, np.float64)
    n = np.asarray(count, np.float64)
    failures = n - successes
    tail = (1 - _CONFIDENCE) / 2
    # Where the formula is undefined, at the ends and without reviews, 1 stands in.
    low = betaincinv(np.maximum(successes, 1), failures + 1, tail)
    high = betaincinv(successes + 1, np.maximum(failures, 1), 1 - tail)
    low = np.where(successes == 0, 0.0, low)
    high = np.where(failures == 0, 1.0, high)
    return np.where(n == 0, np.nan, low), np.where(n == 0, np.nan, high)


def compute_calibration_graph(y: ArrayLike, p: ArrayLike, bins: int = 40) -> CalibrationGraph:
    """Compute a reliability diagram over bins of p of equal width, with a smooth curve."""
    outcome, forecast = validate_pair(y, p)
    edges = np.linspace(0.0, 1.0, bins + 1)
    bin_index = np.minimum(np.searchsorted(edges, forecast, side="right") - 1, bins - 1)
    count = np.bincount(bin_index, minlength=bins)
    recalled = np.bincount(bin_index, outcome, bins)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(bin_index, forecast, bins) / count
        observed = recalled / count
    low, high = binomial_interval(recalled, count)
    filled = count > 0
    order = argsort_ascending(forecast)
    p_sorted = forecast[order]
    smooth_p, smooth_y = compute_lowess_knots(p_sorted, outcome[order], mean_of_ties=True)
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
