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
    # Faster than a stable sort: any sort, then equal ones by position, in one sort of integers.
    n = len(p)
    order = np.argsort(p)
    ordered = p[order]
    group = np.zeros(n, np.int64)
    np.cumsum(ordered[1:] != ordered[:-1], out=group[1:])
    if n and group[-1] == n - 1:
        return order
    key = group * n + order
    key.sort()
    return key - group * n


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
    forgotten = p[y == 0]
    pairs = len(forgotten) * (len(p) - len(forgotten))
    if not pairs:
        return None
    below = p.searchsorted(forgotten)
    upto = p.searchsorted(forgotten, side="right")
    # Twice the number of pairs in the right order: above counts 2, equal counts 1. Of all
    # pairs with a forgotten one, those of two forgotten ones count len(forgotten)^2.
    twice = int((2 * len(p) - below - upto).sum()) - len(forgotten) ** 2
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
_MOST_BINS = 1 << 20  # ids below it are counted as they are, others are numbered first


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
    place = ids
    if ids.dtype != np.int64 or ids.min() < 0 or ids.max() >= _MOST_BINS:
        _, place = np.unique(ids, return_inverse=True)
    count = np.bincount(place)
    filled = count > 0
    gap = np.bincount(place, y - p)[filled] / count[filled]
    total = count[filled].astype(np.float64)
    if weights is not None:
        weight = np.asarray(weights, np.float64)
        if weight.shape != y.shape:
            raise ValueError("every review needs one weight")
        total = np.asarray(np.bincount(place, weight)[filled], np.float64)
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
    fitted, lasts = [0], []
    while True:
        at = x[fitted[-1]]
        last = int(x.searchsorted(at, side="right")) - 1  # equal x share the fit
        lasts.append(last)
        if last >= n - 1:
            break
        # On to the last point within delta; if all are, to the last but one.
        beyond = int(x.searchsorted(at + delta, side="right"))
        fitted.append(max(min(beyond, n - 1) - 1, last + 1))
    knots = x[fitted]
    # The window [left, left + k) of a point starts at the first `left` whose middle
    # between the first point and the one behind the last is not below the point.
    left = ((x[: n - k] + x[k:]) / 2).searchsorted(knots)
    blocks = _Blocks(x, y)
    values = np.concatenate(
        [
            blocks.lines(knots[part], left[part], left[part] + k)
            for part in (slice(at, at + _AT_ONCE) for at in range(0, len(knots), _AT_ONCE))
        ]
    )
    for place in np.flatnonzero(np.isnan(values)).tolist():
        begin = left[place]
        at = knots[place]
        fit = _local_line(x[begin : begin + k], y[begin : begin + k], at)
        if fit is None:
            first = int(x.searchsorted(at))
            fit = float(y[first : lasts[place] + 1].mean() if mean_of_ties else y[fitted[place]])
        values[place] = fit
    return knots, values


def _local_line(x: FloatArray, y: FloatArray, at: float) -> float | None:
    """Value at `at` of the tricube-weighted line through a window, None if there is none."""
    radius = max(at - float(x[0]), float(x[-1]) - at)
    if radius == 0:
        return None
    u = (x - at) / radius
    weight = _tricube(np.abs(u))
    total = float(weight.sum())
    if total < _ONE_POINT and np.count_nonzero(weight > 1e-12) < 2:
        return None
    mean = float(weight @ u) / total
    u -= mean
    scratch = weight * u
    variance = max(float(scratch @ u) / total * radius**2, _LEAST_VARIANCE)
    slope = float(scratch @ y) / total * radius**2 / variance
    return float(weight @ y) / total - mean * slope


def _tricube(v: FloatArray) -> FloatArray:
    rest = 1.0 - v * v * v
    return rest * rest * rest


_AT_ONCE = 32  # fitted points, so that what is worked on stays in the cache
_ONE_POINT = 1 + 1e-9  # a point has weight 1; no more means that it is alone
_LEAST_VARIANCE = 1e-12
_LEAST_RADIUS = 1e-150  # below it quotients could overflow
_DEGREE = 9
_TRICUBE = {0: 1.0, 3: -3.0, 6: 3.0, 9: -1.0}  # (1 - v^3)^3, factors by power
_TAYLOR = np.zeros((_DEGREE + 1, _DEGREE + 1))
"""Row j times the powers of v is the tricube's j-th derivative at v over j!."""
for _power, _factor in _TRICUBE.items():
    for _j in range(_power + 1):
        _TAYLOR[_j, _power - _j] = _factor * math.comb(_power, _j)


class _Blocks:
    """Sorted points in blocks of equal size, with the moments of each.

    On either side of its point the tricube is a polynomial, so the weighted sums over a whole
    block follow from its moments. Only the blocks at the ends of a window and the one with the
    point itself are summed up point by point: the sums are exact, at a tenth of the work.
    """

    def __init__(self, x: FloatArray, y: FloatArray) -> None:
        n = len(x)
        self.x, self.y = x, y
        self.size = max(int(math.sqrt(n)), 1)  # blocks and points cost about the same
        blocks = n // self.size
        whole = blocks * self.size
        inside = x[:whole].reshape(blocks, self.size)
        outcome = y[:whole].reshape(blocks, self.size)
        # Distances from a point of the block, in units of the farthest one.
        self.centre = inside[:, self.size // 2].copy()
        away = inside - self.centre[:, None]
        self.reach = np.abs(away[:, [0, -1]]).max(axis=1)
        away /= np.where(self.reach > 0, self.reach, 1.0)[:, None]
        self.moments = np.empty((_DEGREE + 3, blocks))  # sums of away^j
        self.outcomes = np.empty((_DEGREE + 2, blocks))  # sums of away^j y
        power = np.ones_like(away)
        for j in range(_DEGREE + 3):
            self.moments[j] = power.sum(axis=1)
            if j < _DEGREE + 2:
                self.outcomes[j] = np.einsum("bi,bi->b", power, outcome)
            power *= away

    def lines(self, at: FloatArray, left: IntArray, right: IntArray) -> FloatArray:
        """Value at each of `at` (k,) of the line through its window left ... right - 1.

        NaN where one has to look closely whether there is a line.
        """
        x, size = self.x, self.size
        radius = np.maximum(at - x[left], x[right - 1] - at)
        wide = radius > _LEAST_RADIUS
        unit = np.where(wide, radius, 1.0)
        split = x.searchsorted(at)
        first, behind = -(-left // size), right // size  # whole blocks
        mixed = split // size  # holds points on both sides, unless `split` is its first
        mixed = np.where((split % size > 0) & (first <= mixed) & (mixed < behind), mixed, -1)

        # Sums of w, w u, w u^2, w y, w u y with u = (x - at) / radius: whole blocks first
        number = np.arange(len(self.centre))
        counts = (number >= first[:, None]) & (number < behind[:, None])
        counts &= number != mixed[:, None]
        side = np.where(self.centre < at[:, None], -1.0, 1.0)
        middle = np.where(counts, (self.centre - at[:, None]) / unit[:, None], 0.0)
        reach = np.where(counts, self.reach / unit[:, None], 0.0)
        terms = _tricube_around(np.abs(middle), side * reach)
        terms *= counts
        w, w_away, w_away2 = (
            np.einsum("jkb,jb->kb", terms, self.moments[j : j + _DEGREE + 1]) for j in range(3)
        )
        wy, wy_away = (
            np.einsum("jkb,jb->kb", terms, self.outcomes[j : j + _DEGREE + 1]) for j in range(2)
        )
        sums = np.stack(
            [
                w,
                middle * w + reach * w_away,
                middle * (middle * w + 2 * reach * w_away) + reach * reach * w_away2,
                wy,
                middle * wy + reach * wy_away,
            ]
        ).sum(axis=2)

        # ... then the points outside of these, in three runs shorter than a block
        end = np.minimum(first * size, right)
        starts = np.stack([left, np.maximum(mixed, 0) * size, np.maximum(behind * size, end)])
        ends = np.stack([end, starts[1] + size * (mixed >= 0), right])
        place = starts[:, :, None] + np.arange(size)
        inside = place < ends[:, :, None]
        place = np.minimum(place, len(x) - 1)
        u = np.where(inside, (x[place] - at[:, None]) / unit[:, None], 1.0)  # which weighs 0
        weight, near = _tricube(np.abs(u)), self.y[place]
        weight_u = weight * u
        sums[0] += weight.sum(axis=(0, 2))
        sums[1] += weight_u.sum(axis=(0, 2))
        sums[2] += np.einsum("rki,rki->k", weight_u, u)
        sums[3] += np.einsum("rki,rki->k", weight, near)
        sums[4] += np.einsum("rki,rki->k", weight_u, near)

        total, u1, u2, y0, y1 = sums
        mean = u1 / total
        variance = np.maximum((u2 / total - mean * mean) * radius**2, _LEAST_VARIANCE)
        slope = (y1 - mean * y0) / total * radius**2 / variance
        return np.where(wide & (total >= _ONE_POINT), y0 / total - mean * slope, np.nan)


def _tricube_around(v: FloatArray, step: FloatArray) -> FloatArray:
    """Coefficients (10, ...) of the tricube at v + step d as a polynomial in d."""
    powers = _powers(v)
    terms = (_TAYLOR @ powers.reshape(len(powers), -1)).reshape(powers.shape)
    terms *= _powers(step)
    return terms


def _powers(v: FloatArray) -> FloatArray:
    """v^0 ... v^9, shape (10, ...)."""
    powers = np.empty((_DEGREE + 1, *v.shape))
    powers[0] = 1.0
    for j in range(_DEGREE):
        np.multiply(powers[j], v, out=powers[j + 1])
    return powers


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
    outcome, forecast = _pair(y, p)
    order = _order(forecast)
    return _smece_sorted(outcome[order], forecast[order])


def _smece_sorted(y: FloatArray, p: FloatArray) -> float:
    amounts = np.stack([p, p - y, p * (p - y)])
    grids: dict[int, NDArray[np.complex128]] = {}

    def error(sigma: float) -> float:
        points = max(2000, round(20 / sigma)) // 2 + 1
        if points not in grids:
            grids[points] = _on_grid(amounts, points)
        return _smooth_error(grids[points], points, sigma)

    high, low = 1.0, 0.0
    found = None  # the error at `high`
    for _ in range(10):
        middle = (high + low) / 2
        at_middle = error(middle) if middle >= _RESOLUTION else math.inf
        if middle < at_middle:
            low = middle
        else:
            high, found = middle, at_middle
    return error(high) if found is None else found


def _on_grid(amounts: FloatArray, points: int) -> NDArray[np.complex128]:
    """Transforms of residuals (row 0) and counts (row 1) on an even grid from 0 to 1.

    `amounts` (3, n): p sorted, p - y, and their product. A prediction is shared out between the
    grid points beside it. Reflected borders make an even extension of period 2 (points - 1), so
    that the convolution with reflected borders is a cyclic one.
    """
    cells = points - 1
    edges = amounts[0].searchsorted(np.arange(points) / cells)
    edges[-1] = amounts.shape[1]  # p = 1 belongs to the last cell
    count = np.diff(edges)
    filled = np.flatnonzero(count)
    sums = np.zeros((3, cells))
    sums[:, filled] = np.add.reduceat(amounts, edges[filled], axis=1)
    cell = np.arange(cells)
    p, residual, product = sums
    values = np.zeros((2, points))
    shared = cells * product - cell * residual, cells * p - cell * count  # to the upper point
    for row, whole, upper in zip(values, (residual, count), shared, strict=True):
        row[:-1] = whole - upper
        row[1:] += upper
    return np.fft.rfft(np.hstack([values, values[:, -2:0:-1]]))


def _smooth_error(grid: NDArray[np.complex128], points: int, sigma: float) -> float:
    """Smooth calibration error at bandwidth sigma."""
    period = 2 * points - 2
    kernel = np.zeros(period)
    kernel[:points] = np.exp(-((np.linspace(0, 1, points) - 0.5) ** 2) / (2 * sigma**2))
    kernel /= math.sqrt(2 * math.pi) * sigma
    smoothed = np.fft.irfft(grid * np.fft.rfft(kernel), period)
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


def calibration_graph(
    y: ArrayLike, p: ArrayLike, bins: int = 40, log_bins: bool = False
) -> CalibrationGraph:
    """Reliability diagram over bins of p, with a trend line and a smooth curve.

    Bins are of equal width or, with `log_bins`, narrower the higher p is, as most predictions
    are high: bin k ends at log(k + 1) / log(bins + 1) (fsrs-optimizer, `get_bin`).
    """
    outcome, forecast = _pair(y, p)
    edges, place = _bin_by_width(forecast, bins)
    if log_bins:
        edges = np.log1p(np.arange(bins + 1)) / np.log1p(bins)
        place = np.minimum(np.searchsorted(edges, forecast, side="right") - 1, bins - 1)
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
        smece=_smece_sorted(y_sorted, p_sorted),
        mbe=float(error.mean()),
        precision_90=precision,
        recall_90=recall,
        mae=float(np.abs(error).mean()),
        accuracy=float(((forecast >= 0.5) == (outcome == 1)).mean()),
    )
