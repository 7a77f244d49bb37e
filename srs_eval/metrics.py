"""How good are predicted probabilities of recall? Pure functions of outcomes and predictions.

Everywhere `y` is the outcome (1 recalled, 0 forgotten) and `p` the predicted
probability of recall, both one-dimensional and of equal length. Exact definitions,
edge cases and sources are in docs/metrics.md. `ValueError` is raised for an empty
input, for lengths that differ, for outcomes other than 0 and 1 and for predictions
that are not in [0, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from srs_eval.reviews import FloatArray, IntArray

EPSILON = float(np.finfo(np.float64).eps)
"""Log loss keeps probabilities this far from 0 and 1, as scikit-learn does."""


def _pair(y: ArrayLike, p: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both as float64 vectors, checked once per public call."""
    outcome = np.asarray(y, np.float64)
    forecast = np.asarray(p, np.float64)
    if outcome.ndim != 1 or outcome.shape != forecast.shape:
        raise ValueError(
            "y and p must be vectors of equal length, "
            f"not of shapes {outcome.shape} and {forecast.shape}"
        )
    if not len(outcome):
        raise ValueError("metrics of no reviews are undefined")
    if not np.all((outcome == 0) | (outcome == 1)):
        raise ValueError("outcomes must be 0 or 1")
    if not (forecast.min() >= 0 and forecast.max() <= 1):  # also true for NaN
        raise ValueError("predictions must be probabilities in [0, 1]")
    return outcome, forecast


def _order(p: FloatArray) -> IntArray:
    """Sorting order, equal predictions in the order given."""
    return np.argsort(p, kind="stable")


# Log loss, squared and absolute errors


def log_loss(y: ArrayLike, p: ArrayLike) -> float:
    """Mean negative log likelihood in nats; p is clipped at EPSILON (scikit-learn)."""
    return _log_loss(*_pair(y, p))


def _log_loss(y: FloatArray, p: FloatArray) -> float:
    likelihood = np.where(y == 1, p, 1 - p)
    return float(-np.log(np.clip(likelihood, EPSILON, 1 - EPSILON)).mean())


def rmse(y: ArrayLike, p: ArrayLike) -> float:
    """Root of the mean squared error of single predictions (root of the Brier score)."""
    outcome, forecast = _pair(y, p)
    return math.sqrt(((outcome - forecast) ** 2).mean())


def brier_score(y: ArrayLike, p: ArrayLike) -> float:
    """Mean squared error of single predictions (Brier, 1950)."""
    outcome, forecast = _pair(y, p)
    return float(((outcome - forecast) ** 2).mean())


def mae(y: ArrayLike, p: ArrayLike) -> float:
    """Mean absolute error of single predictions. Not proper: it rewards rounding p to 0 or 1."""
    outcome, forecast = _pair(y, p)
    return float(np.abs(outcome - forecast).mean())


def mbe(y: ArrayLike, p: ArrayLike) -> float:
    """Mean bias error: mean of p - y. Positive: recall is overestimated (srs-benchmark)."""
    outcome, forecast = _pair(y, p)
    return float((forecast - outcome).mean())


# Classification at a threshold


def accuracy(y: ArrayLike, p: ArrayLike, threshold: float = 0.5) -> float:
    """Share of reviews for which `p >= threshold` says what happened."""
    outcome, forecast = _pair(y, p)
    return float(((forecast >= threshold) == (outcome == 1)).mean())


def precision_at(y: ArrayLike, p: ArrayLike, threshold: float = 0.9) -> float:
    """Share recalled of the reviews with `p >= threshold`; 0 if there are none."""
    return _precision_recall(*_pair(y, p), threshold)[0]


def recall_at(y: ArrayLike, p: ArrayLike, threshold: float = 0.9) -> float:
    """Share with `p >= threshold` of the reviews recalled; 0 if there are none."""
    return _precision_recall(*_pair(y, p), threshold)[1]


def _precision_recall(y: FloatArray, p: FloatArray, threshold: float) -> tuple[float, float]:
    chosen = p >= threshold
    hits = float(y[chosen].sum())
    positives, recalled = int(np.count_nonzero(chosen)), float(y.sum())
    return (hits / positives if positives else 0.0, hits / recalled if recalled else 0.0)


# Discrimination


def auc(y: ArrayLike, p: ArrayLike) -> float | None:
    """Probability that a recalled review has the higher p, ties counted half.

    None where only one class occurs. The Mann-Whitney statistic over the number of
    pairs (Hanley & McNeil, 1982), counted in whole numbers.
    """
    outcome, forecast = _pair(y, p)
    order = _order(forecast)
    return _auc_sorted(outcome[order], forecast[order])


def _auc_sorted(y: FloatArray, p: FloatArray) -> float | None:
    """AUC of pairs sorted by p."""
    last = np.append(np.flatnonzero(p[1:] != p[:-1]), len(p) - 1)  # of each group of equal p
    recalled_upto = np.cumsum(y)[last].astype(np.int64)
    forgotten_upto = last + 1 - recalled_upto
    recalled = np.diff(recalled_upto, prepend=0)
    forgotten = np.diff(forgotten_upto, prepend=0)
    pairs = int(recalled_upto[-1]) * int(forgotten_upto[-1])
    if not pairs:
        return None
    # Twice the number of pairs in the right order: below counts 2, equal counts 1.
    twice = int((recalled * (2 * forgotten_upto - forgotten)).sum())
    return twice / (2 * pairs)


@dataclass(frozen=True, eq=False)
class RocCurve:
    """Rates at falling thresholds, from (0, 0) to (1, 1); corners only."""

    false_positive_rate: FloatArray
    true_positive_rate: FloatArray
    threshold: FloatArray  # `p >= threshold` is called recalled; the first is infinite


def roc_curve(y: ArrayLike, p: ArrayLike) -> RocCurve | None:
    """Receiver operating characteristic, None where only one class occurs.

    Points on a straight line between their neighbours are left out (Fawcett, 2006).
    """
    outcome, forecast = _pair(y, p)
    order = _order(-forecast)
    falling = forecast[order]
    last = np.append(np.flatnonzero(falling[1:] != falling[:-1]), len(falling) - 1)
    hits = np.cumsum(outcome[order])[last]
    alarms = last + 1 - hits
    if hits[-1] == 0 or alarms[-1] == 0:
        return None
    if len(last) > 2:
        bends = (np.diff(hits, 2) != 0) | (np.diff(alarms, 2) != 0)
        keep = np.concatenate([[True], bends, [True]])
        hits, alarms, last = hits[keep], alarms[keep], last[keep]
    return RocCurve(
        false_positive_rate=np.concatenate([[0.0], alarms / alarms[-1]]),
        true_positive_rate=np.concatenate([[0.0], hits / hits[-1]]),
        threshold=np.concatenate([[np.inf], falling[last]]),
    )


# RMSE(bins)

_DELTA_T = (2.48, 3.62)  # a bin's label is a * b^k; k = floor(log_b of the value)
_REVIEWS = (1.99, 1.89)
_LAPSES = (1.65, 1.73)
_LEAST_K = -5  # labels of intervals are rounded to 0.01 days: all below are 0.00, one bin
_PLACES = 64  # distinct k of review counts and of lapses


def _exponent(values: NDArray[Any], base: float) -> FloatArray:
    return np.floor(np.log(values) / np.log(base))


def rmse_bin_ids(delta_t: ArrayLike, i: ArrayLike, lapses: ArrayLike) -> IntArray:
    """Bin of each review for RMSE(bins), shape (n,), int64, comparable between calls.

    delta_t: days since the last review (fractions allowed, 0 too); i: number of the
    review among the card's reviews on later days, the first review being 1; lapses:
    earlier failures on later days. Bins are geometric: intervals by powers of 3.62,
    reviews of 1.89, lapses of 1.73, 0 lapses alone (fsrs-optimizer, `rmse_matrix`).
    """
    interval = np.asarray(delta_t, np.float64)
    number = np.asarray(i, np.float64)
    failures = np.asarray(lapses, np.float64)
    if not (interval.ndim == 1 and interval.shape == number.shape == failures.shape):
        raise ValueError("delta_t, i and lapses must be vectors of equal length")
    if not len(interval):
        return np.empty(0, np.int64)
    if not (interval.min() >= 0 and number.min() >= 1 and failures.min() >= 0):
        raise ValueError("bins need delta_t >= 0, i >= 1 and lapses >= 0")
    with np.errstate(divide="ignore"):  # log 0 is -inf, which is the lowest bin
        by_interval = np.maximum(_exponent(interval, _DELTA_T[1]), _LEAST_K) - _LEAST_K
        by_lapses = np.maximum(_exponent(failures, _LAPSES[1]), -1) + 1
    by_number = _exponent(number, _REVIEWS[1])
    ids = (by_interval * _PLACES + by_number) * _PLACES + by_lapses
    return ids.astype(np.int64)


def rmse_bin_labels(ids: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The reference's labels (delta_t in days, i, lapses) of bins made by `rmse_bin_ids`."""
    k_lapses = ids % _PLACES - 1
    k_number = ids // _PLACES % _PLACES
    k_interval = ids // _PLACES**2 + _LEAST_K
    return (
        np.round(_DELTA_T[0] * _DELTA_T[1] ** k_interval.astype(np.float64), 2),
        np.round(_REVIEWS[0] * _REVIEWS[1] ** k_number.astype(np.float64)),
        np.where(k_lapses < 0, 0.0, np.round(_LAPSES[0] * _LAPSES[1] ** k_lapses.astype(float))),
    )


def rmse_bins(
    y: ArrayLike, p: ArrayLike, bin_ids: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Root mean squared difference of mean y and mean p over bins, weighted by bin size.

    bin_ids: any integers, shape (n,); equal means same bin. weights: per review, shape
    (n,); they weight the bins (by their sums), not the means within them, as in the
    reference (fsrs-optimizer, `rmse_matrix`). Default: each review counts 1.
    """
    outcome, forecast = _pair(y, p)
    return _rmse_bins(outcome, forecast, bin_ids, weights)


def _rmse_bins(
    y: FloatArray, p: FloatArray, bin_ids: ArrayLike, weights: ArrayLike | None = None
) -> float:
    ids = np.asarray(bin_ids)
    if ids.shape != y.shape:
        raise ValueError("every review needs one bin")
    _, place = np.unique(ids, return_inverse=True)
    count = np.bincount(place)
    gap = np.bincount(place, y - p) / count
    total = count.astype(np.float64)
    if weights is not None:
        weight = np.asarray(weights, np.float64)
        if weight.shape != y.shape:
            raise ValueError("every review needs one weight")
        total = np.asarray(np.bincount(place, weight), np.float64)
        if not (weight.min() >= 0 and total.sum() > 0):
            raise ValueError("weights must not be negative, and not all zero")
    return math.sqrt((total * gap**2).sum() / total.sum())


# LOWESS and the integrated calibration index


def lowess(x: ArrayLike, y: ArrayLike, frac: float = 2 / 3, delta: float = 0.0) -> FloatArray:
    """Locally weighted linear regression of y on x, at each x (Cleveland, 1979).

    Tricube weights over the `frac * n` nearest points, no robustness iterations.
    Points within `delta` of a fitted point are interpolated. Equals
    `statsmodels.nonparametric.lowess(y, x, it=0, frac=frac, delta=delta)` save where all
    neighbours share one x and no line can be fitted: the value there is the mean of y,
    not the y of whichever point an unstable sort has left in front.
    """
    position = np.asarray(x, np.float64)
    value = np.asarray(y, np.float64)
    if position.ndim != 1 or position.shape != value.shape or not len(position):
        raise ValueError("x and y must be vectors of equal, positive length")
    if not (np.isfinite(position).all() and np.isfinite(value).all()):
        raise ValueError("x and y must be finite")
    if not 0 <= frac <= 1:
        raise ValueError("frac must be between 0 and 1")
    order = _order(position)
    return np.interp(position, *_lowess_knots(position[order], value[order], frac, delta, True))


def _lowess_knots(
    x: FloatArray,
    y: FloatArray,
    frac: float,
    delta: float,
    mean_of_ties: bool,
) -> tuple[FloatArray, FloatArray]:
    """Fitted points of sorted x, all others being linear between them.

    Which points are fitted, down to the last but one, follows statsmodels. Where no
    line can be fitted, the value is the mean y of equal x, or else, as in statsmodels,
    the first y of them (the last where points before it have been skipped).
    """
    n = len(x)
    k = min(max(int(frac * n + 1e-10), 2), n)
    # The window [left, left + k) of a point starts at the first `left` whose middle
    # between the first point and the one behind the last is not below the point.
    middles = (x[: n - k] + x[k:]) / 2
    buffers = np.empty((3, k))
    knots_x: list[float] = []
    knots_y: list[float] = []
    i = 0
    while True:
        at = float(x[i])
        left = int(np.searchsorted(middles, at))
        last = int(np.searchsorted(x, at, side="right")) - 1  # equal x share the fit
        fit = _local_line(x[left : left + k], y[left : left + k], at, buffers)
        if fit is None:
            first = int(np.searchsorted(x, at))
            fit = float(y[first : last + 1].mean() if mean_of_ties else y[i])
        knots_x.append(at)
        knots_y.append(fit)
        if last >= n - 1:
            return np.array(knots_x), np.array(knots_y)
        # On to the last point within delta; if all are, to the last but one.
        beyond = int(np.searchsorted(x, at + delta, side="right"))
        i = max(min(beyond, n - 1) - 1, last + 1)


def _local_line(x: FloatArray, y: FloatArray, at: float, buffers: FloatArray) -> float | None:
    """Value at `at` of the tricube-weighted line through a window, None if there is none."""
    radius = max(at - float(x[0]), float(x[-1]) - at)
    if radius == 0:
        return None
    u, weight, scratch = buffers
    np.subtract(x, at, out=u)
    u /= radius
    np.abs(u, out=scratch)
    np.multiply(u, u, out=weight)
    weight *= scratch
    np.subtract(1.0, weight, out=scratch)
    np.multiply(scratch, scratch, out=weight)
    weight *= scratch
    total = float(weight.sum())
    if total < 1 + 1e-9 and np.count_nonzero(weight > 1e-12) < 2:
        return None
    mean = float(weight @ u) / total
    u -= mean
    np.multiply(weight, u, out=scratch)
    variance = max(float(scratch @ u) / total * radius**2, 1e-12)
    slope = float(scratch @ y) / total * radius**2 / variance
    return float(weight @ y) / total - mean * slope


def ici(y: ArrayLike, p: ArrayLike) -> float:
    """Integrated calibration index: mean of |lowess of y on p - p| (Austin & Steyerberg, 2019).

    frac = 2/3, no robustness iterations, delta = 1 % of the range of p, as in
    srs-benchmark. As there, a p that two thirds of the reviews share is taken to be
    recalled as the first of them was: for near-constant predictions the index says nothing.
    """
    outcome, forecast = _pair(y, p)
    order = _order(forecast)
    return _ici_sorted(outcome[order], forecast[order])


def _ici_sorted(y: FloatArray, p: FloatArray) -> float:
    curve = _lowess_knots(p, y, 2 / 3, 0.01 * float(p[-1] - p[0]), mean_of_ties=False)
    return float(np.abs(np.interp(p, *curve) - p).mean())


# Smooth calibration error

_RESOLUTION = 0.001  # no bandwidth below this is tried
_DENSITY_FLOOR = 1e-4


def smece(y: ArrayLike, p: ArrayLike) -> float:
    """Smooth calibration error with its automatic bandwidth (Błasiok & Nakkiran, 2023).

    Residuals p - y are smoothed over p by a Gaussian kernel reflected at 0 and 1; the
    error is the integral of the smoothed residual's absolute value. The bandwidth is
    the smallest, to 1/1024, that the error at that bandwidth does not exceed. Grids as
    in relplot 1.0.3, which srs-benchmark uses.
    """
    return _smece(*_pair(y, p))


def _smece(y: FloatArray, p: FloatArray) -> float:
    grids: dict[int, NDArray[np.complex128]] = {}

    def too_narrow(sigma: float) -> bool:
        return sigma < _RESOLUTION or sigma < _smooth_error(y, p, sigma, grids)

    high, low = 1.0, 0.0
    for _ in range(10):
        middle = (high + low) / 2
        if too_narrow(middle):
            low = middle
        else:
            high = middle
    return _smooth_error(y, p, high, grids)


def _smooth_error(
    y: FloatArray, p: FloatArray, sigma: float, grids: dict[int, NDArray[np.complex128]]
) -> float:
    """Smooth calibration error at bandwidth sigma."""
    points = max(2000, round(20 / sigma)) // 2 + 1
    period = 2 * points - 2
    if points not in grids:
        # Residuals (row 0) and counts (row 1) shared out between neighbouring grid points,
        # then reflected: an even extension of period 2 (points - 1), so that the
        # convolution with reflected borders is a cyclic one.
        position = p * (points - 1)
        cell = np.minimum(position.astype(np.int64), points - 2)
        upper = position - cell
        values = np.empty((2, points))
        for row, amount in zip(values, (p - y, np.ones(len(p))), strict=True):
            row[:] = np.bincount(cell, (1 - upper) * amount, points)
            row[1:] += np.bincount(cell, upper * amount, points)[:-1]
        grids[points] = np.fft.rfft(np.hstack([values, values[:, -2:0:-1]]))
    kernel = np.zeros(period)
    kernel[:points] = np.exp(-((np.linspace(0, 1, points) - 0.5) ** 2) / (2 * sigma**2))
    kernel /= math.sqrt(2 * math.pi) * sigma
    smoothed = np.fft.irfft(grids[points] * np.fft.rfft(kernel), period)
    residual, density = smoothed[:, points // 2 : points // 2 + points]
    # Read off at evenly spaced probabilities.
    at = np.linspace(0, 1, max(round(10 / sigma), 200)) * (points - 1)
    cells = np.arange(points)
    residual_at = np.interp(at, cells, residual)
    density_at = np.interp(at, cells, density) + _DENSITY_FLOOR
    return float(np.abs(residual_at).sum() / density_at.sum())


# The calibration graph

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
    trend: tuple[float, float] | None
    """Intercept and slope of observed on predicted, bins weighted by their counts.

    None where fewer than two bins are filled.
    """
    smooth_p: FloatArray  # (k,) rising; the curve without bins, linear between its points
    smooth_y: FloatArray  # (k,) lowess of y on p, kept within [0, 1]


def wilson_interval(recalled: ArrayLike, count: ArrayLike) -> tuple[FloatArray, FloatArray]:
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


def _bin_by_width(p: FloatArray, bins: int) -> tuple[FloatArray, IntArray]:
    """Edges of equal-width bins over [0, 1], and each prediction's bin."""
    if bins < 1:
        raise ValueError("a graph needs one bin at least")
    edges = np.linspace(0.0, 1.0, bins + 1)
    return edges, np.minimum(np.searchsorted(edges, p, side="right") - 1, bins - 1)


def calibration_graph(y: ArrayLike, p: ArrayLike, bins: int = 40) -> CalibrationGraph:
    """Reliability diagram over equal-width bins of p, with a trend line and a smooth curve."""
    outcome, forecast = _pair(y, p)
    edges, place = _bin_by_width(forecast, bins)
    count = np.bincount(place, minlength=bins)
    recalled = np.bincount(place, outcome, bins)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(place, forecast, bins) / count
        observed = recalled / count
    low, high = wilson_interval(recalled, count)
    filled = count > 0
    order = _order(forecast)
    p_sorted = forecast[order]
    delta = 0.01 * float(p_sorted[-1] - p_sorted[0])
    smooth_p, smooth_y = _lowess_knots(p_sorted, outcome[order], 2 / 3, delta, mean_of_ties=True)
    gaps = np.abs(predicted[filled] - observed[filled])
    return CalibrationGraph(
        edges=edges,
        count=count,
        predicted=predicted,
        observed=observed,
        low=low,
        high=high,
        mae=float((gaps * count[filled]).sum() / count.sum()),
        trend=_weighted_line(predicted[filled], observed[filled], count[filled]),
        smooth_p=smooth_p,
        smooth_y=np.clip(smooth_y, 0.0, 1.0),
    )


def _weighted_line(x: FloatArray, y: FloatArray, weight: IntArray) -> tuple[float, float] | None:
    """Intercept and slope of weighted least squares, None where x has one value only."""
    if len(x) < 2:
        return None
    x_mean, y_mean = np.average(x, weights=weight), np.average(y, weights=weight)
    slope = (weight * (x - x_mean) * (y - y_mean)).sum() / (weight * (x - x_mean) ** 2).sum()
    return float(y_mean - slope * x_mean), float(slope)


# The Brier score taken apart


@dataclass(frozen=True)
class BrierDecomposition:
    """score = reliability - resolution + uncertainty + within_variance - within_covariance."""

    score: float
    reliability: float  # lower is better: how far bins' mean p and mean y are apart
    resolution: float  # higher is better: how far bins' mean y are from the overall mean
    uncertainty: float  # variance of y; the same for every model
    within_variance: float  # of p within bins; 0 where bins hold one value of p
    within_covariance: float  # twice that of p and y within bins; 0 likewise


def brier_decomposition(y: ArrayLike, p: ArrayLike, bins: int | None = 40) -> BrierDecomposition:
    """Murphy's (1973) parts of the Brier score over equal-width bins of p.

    bins=None: every distinct p is a bin, which is Murphy's own partition. Bins that
    hold several values of p leave two more terms (Stephenson, Coelho & Jolliffe, 2008).
    """
    outcome, forecast = _pair(y, p)
    if bins is None:
        _, place = np.unique(forecast, return_inverse=True)
    else:
        _, place = _bin_by_width(forecast, bins)
    n = len(outcome)
    count = np.maximum(np.bincount(place), 1)
    predicted = np.bincount(place, forecast) / count
    observed = np.bincount(place, outcome) / count
    weight = np.bincount(place) / n
    overall = float(outcome.mean())
    around_p = forecast - predicted[place]
    around_y = outcome - observed[place]
    return BrierDecomposition(
        score=float(((outcome - forecast) ** 2).mean()),
        reliability=float((weight * (predicted - observed) ** 2).sum()),
        resolution=float((weight * (observed - overall) ** 2).sum()),
        uncertainty=overall * (1 - overall),
        within_variance=float((around_p**2).mean()),
        within_covariance=float(2 * (around_p * around_y).mean()),
    )


# Cross-comparison of two models

_BW_BINS = 20


@dataclass(frozen=True, eq=False)
class CrossComparison:
    """One model's bias seen in bins of another's predictions; only filled bins."""

    binned_by: FloatArray  # (k,) mean prediction of the model that makes the bins
    count: IntArray  # (k,)
    bias: FloatArray  # (k,) B-W: mean prediction of the judged model less mean outcome
    universal_metric: float  # root of the mean squared bias, bins weighted by their counts


def cross_comparison(y: ArrayLike, p: ArrayLike, by: ArrayLike) -> CrossComparison:
    """B-W of model `p` in bins of model `by` (srs-benchmark, `cross_comparison`).

    The 20 bins are finer towards 1: bin = floor(21^by) - 1. `by` may be `p` itself.
    """
    outcome, forecast = _pair(y, p)
    _, other = _pair(outcome, by)
    scale = np.floor(np.exp(np.log(_BW_BINS + 1) * other) - 1)
    place = np.minimum(scale, _BW_BINS - 1).astype(np.int64)
    count = np.bincount(place, minlength=_BW_BINS)
    filled = count > 0
    n = count[filled]
    bias = np.bincount(place, forecast - outcome, _BW_BINS)[filled] / n
    return CrossComparison(
        binned_by=np.bincount(place, other, _BW_BINS)[filled] / n,
        count=n,
        bias=bias,
        universal_metric=math.sqrt((n * bias**2).sum() / n.sum()),
    )


def universal_metric(y: ArrayLike, p: ArrayLike, by: ArrayLike) -> float:
    """Universal metric of model `p` in bins of model `by`; the lower, the better calibrated."""
    return cross_comparison(y, p, by).universal_metric


# All at once


@dataclass(frozen=True)
class Metrics:
    """The figures of one model on one set of reviews; all are rates or nats."""

    size: int
    log_loss: float
    rmse: float
    rmse_bins: float
    auc: float | None  # None where only one class occurs
    ici: float
    smece: float
    mbe: float
    precision_90: float
    recall_90: float
    mae: float
    accuracy: float

    def to_upstream(self) -> dict[str, float | None]:
        """srs-benchmark's keys in its order, six decimals."""
        figures = {
            "RMSE": self.rmse,
            "LogLoss": self.log_loss,
            "RMSE(bins)": self.rmse_bins,
            "smECE": self.smece,
            "AUC": self.auc,
            "precision@90": self.precision_90,
            "recall@90": self.recall_90,
            "ICI": self.ici,
            "MBE": self.mbe,
        }
        return {key: None if x is None else round(x, 6) for key, x in figures.items()}


def summary(y: ArrayLike, p: ArrayLike, bin_ids: ArrayLike) -> Metrics:
    """Every file-level metric; `bin_ids` from `rmse_bin_ids`, all of shape (n,)."""
    outcome, forecast = _pair(y, p)
    order = _order(forecast)
    y_sorted, p_sorted = outcome[order], forecast[order]
    error = forecast - outcome
    precision, recall = _precision_recall(outcome, forecast, 0.9)
    return Metrics(
        size=len(outcome),
        log_loss=_log_loss(outcome, forecast),
        rmse=math.sqrt((error**2).mean()),
        rmse_bins=_rmse_bins(outcome, forecast, bin_ids),
        auc=_auc_sorted(y_sorted, p_sorted),
        ici=_ici_sorted(y_sorted, p_sorted),
        smece=_smece(outcome, forecast),
        mbe=float(error.mean()),
        precision_90=precision,
        recall_90=recall,
        mae=float(np.abs(error).mean()),
        accuracy=float(((forecast >= 0.5) == (outcome == 1)).mean()),
    )
