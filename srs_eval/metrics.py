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
from functools import cache, partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from srs_eval.data.reviews import FloatArray, IntArray

_EPSILON = float(np.finfo(np.float64).eps)
"""Log loss keeps probabilities this far from 0 and 1, as scikit-learn does."""


def checked_pair(y: ArrayLike, p: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both as float64 vectors, checked once per public call."""
    outcome, forecast = np.asarray(y, np.float64), np.asarray(p, np.float64)
    if outcome.ndim != 1 or outcome.shape != forecast.shape:
        shapes = f"{outcome.shape} and {forecast.shape}"
        raise ValueError(f"y and p must be vectors of equal length, not of shapes {shapes}")
    if not len(outcome):
        raise ValueError("metrics of no reviews are undefined")
    if not np.all((outcome == 0) | (outcome == 1)):
        raise ValueError("outcomes must be 0 or 1")
    if not (forecast.min() >= 0 and forecast.max() <= 1):  # also true for NaN
        raise ValueError("predictions must be probabilities in [0, 1]")
    return outcome, forecast


def ascending(p: FloatArray) -> IntArray:
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


def log_losses(y: FloatArray, p: FloatArray) -> FloatArray:
    """Negative log likelihood in nats of each review (n,); p is clipped at _EPSILON."""
    likelihood = np.where(y == 1, p, 1 - p)
    loss: FloatArray = -np.log(np.clip(likelihood, _EPSILON, 1 - _EPSILON))
    return loss


def log_loss(y: ArrayLike, p: ArrayLike) -> float:
    """Mean negative log likelihood in nats; p is clipped at _EPSILON (scikit-learn)."""
    return float(log_losses(*checked_pair(y, p)).mean())


def auc(y: ArrayLike, p: ArrayLike) -> float | None:
    """Probability that a recalled review has the higher p, ties counted half.

    None where only one class occurs. The Mann-Whitney statistic over the number of
    pairs (Hanley & McNeil, 1982), counted in whole numbers.
    """
    outcome, forecast = checked_pair(y, p)
    order = ascending(forecast)
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


_MOST_BINS = 1 << 20  # ids below it are counted as they are, others are numbered first


def rmse_bins(y: ArrayLike, p: ArrayLike, bin_ids: ArrayLike) -> float:
    """Root mean squared difference of mean y and mean p over bins, weighted by bin size.

    bin_ids: any integers, shape (n,); equal means same bin (fsrs-optimizer, `rmse_matrix`).
    """
    outcome, forecast = checked_pair(y, p)
    ids = np.asarray(bin_ids)
    if ids.shape != outcome.shape:
        raise ValueError("every review needs one bin")
    place = ids
    if ids.dtype != np.int64 or ids.min() < 0 or ids.max() >= _MOST_BINS:
        _, place = np.unique(ids, return_inverse=True)
    count = np.bincount(place)
    filled = count > 0
    gap = np.bincount(place, outcome - forecast)[filled] / count[filled]
    total = count[filled].astype(np.float64)
    return math.sqrt((total * gap**2).sum() / total.sum())


# LOWESS and the integrated calibration index


def lowess_knots(
    x: FloatArray, y: FloatArray, *, mean_of_ties: bool
) -> tuple[FloatArray, FloatArray]:
    """Locally weighted linear regression of y on sorted x (n,): points (k,) of the curve and its
    values there (k,); it is linear between them (Cleveland, 1979).

    Tricube weights over the nearest two thirds of the points, no robustness iterations; points
    within 1 % of the range of x of a fitted one are skipped. Equals statsmodels'
    `lowess(y, x, it=0, frac=2/3, delta=...)`. Where no line can be fitted, the value is the mean
    y of equal x, or else, as there, the first y of them (the last where points before it have
    been skipped).
    """
    n = len(x)
    k = min(max(int(2 / 3 * n + 1e-10), 2), n)
    delta = 0.01 * float(x[-1] - x[0])
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
    values = _window_lines(x, y, knots, left, k)
    for place in np.flatnonzero(np.isnan(values)).tolist():
        begin, at = left[place], knots[place]
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


_AT_ONCE = 8  # knots, so that what is worked on stays in the cache
_ONE_POINT = 1 + 1e-9  # a point has weight 1; no more means that it is alone
_LEAST_VARIANCE = 1e-12
_LEAST_RADIUS = 1e-150  # below it quotients could overflow
_LEAST_SPREAD = 1e-6  # of the points of a window; below it the difference of its sums is inexact
_DEGREE = 9
_TRICUBE = {0: 1.0, 3: -3.0, 6: 3.0, 9: -1.0}  # (1 - v^3)^3, factors by power
_TAYLOR = np.zeros((_DEGREE + 1, _DEGREE + 1))
"""Row j times the powers of v is the tricube's j-th derivative at v over j!."""
for _power, _factor in _TRICUBE.items():
    for _j in range(_power + 1):
        _TAYLOR[_j, _power - _j] = _factor * math.comb(_power, _j)


def _window_lines(
    x: FloatArray, y: FloatArray, knots: FloatArray, lefts: IntArray, size: int
) -> FloatArray:
    """Value at each of the knots (k,) of the line through its window left ... left + size - 1.

    NaN where one has to look closely whether there is a line. Knots and the ends of windows cut
    the points into cells. Over a cell the tricube is a polynomial, so that its weighted sums follow
    from the cell's moments: they are exact, at a tenth of the work.
    """
    splits = x.searchsorted(knots)
    edges = np.unique(np.concatenate([lefts, splits, lefts + size]))
    cell, sizes = edges[:-1], np.diff(edges)
    low, high = x[cell], x[edges[1:] - 1]
    centre, extent = (low + high) / 2, (high - low) / 2
    # Sums over each cell of away^j and of away^j y; `away` lies between -1 and 1.
    points = slice(edges[0], edges[-1])
    away = (x[points] - centre.repeat(sizes)) / np.where(extent > 0, extent, 1.0).repeat(sizes)
    amounts = np.stack([np.ones_like(away), y[points]])
    moments = np.empty((_DEGREE + 3, 2, len(cell)))
    for moment in moments:
        np.add.reduceat(amounts, cell - edges[0], axis=1, out=moment)
        amounts *= away
    found = []
    of_knots = knots[:, None], lefts[:, None], splits[:, None]
    for begin in range(0, len(knots), _AT_ONCE):
        at, left, split = (each[begin : begin + _AT_ONCE] for each in of_knots)
        radius = np.maximum(at - x[left], x[left + size - 1] - at)
        wide = radius > _LEAST_RADIUS
        unit = np.where(wide, radius, 1.0)
        # Sums of w, w u, w u^2, w y, w u y with u = (x - at) / radius.
        counts = (cell >= left) & (cell < left + size)
        middle = np.where(counts, (centre - at) / unit, 0.0)
        reach = np.where(counts, extent / unit, 0.0)
        terms = _tricube_around(np.abs(middle), np.where(cell < split, -reach, reach))
        terms *= counts
        w, w_away, w_away2 = (
            np.einsum("jkb,jyb->ykb", terms, moments[j : j + _DEGREE + 1]) for j in range(3)
        )
        total, y0 = w.sum(axis=2)
        u1, y1 = (middle * w + reach * w_away).sum(axis=2)
        u2 = (middle * (middle * w + 2 * reach * w_away) + reach**2 * w_away2)[0].sum(axis=1)
        mean, radius, wide = u1 / total, radius[:, 0], wide[:, 0]
        spread = u2 / total - mean * mean
        variance = np.maximum(spread * radius**2, _LEAST_VARIANCE)
        slope = (y1 - mean * y0) / total * radius**2 / variance
        known = wide & (total >= _ONE_POINT) & (spread > _LEAST_SPREAD)
        found.append(np.where(known, y0 / total - mean * slope, np.nan))
    return np.concatenate(found)


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


def _ici(y: FloatArray, p: FloatArray) -> float:
    """Integrated calibration index of pairs sorted by p: mean of |lowess of y on p - p|.

    Austin & Steyerberg (2019); LOWESS as srs-benchmark calls it. As there, a p that two thirds
    of the reviews share is taken to be recalled as the first of them was: for near-constant
    predictions the index says nothing.
    """
    return float(np.abs(np.interp(p, *lowess_knots(p, y, mean_of_ties=False)) - p).mean())


# Smooth calibration error

_RESOLUTION = 0.001  # no bandwidth below this is tried


def _smece(y: FloatArray, p: FloatArray) -> float:
    """Smooth calibration error of pairs sorted by p, with its automatic bandwidth.

    Residuals p - y are smoothed over p by a Gaussian kernel reflected at 0 and 1; the
    error is the integral of the smoothed residual's absolute value. The bandwidth is
    the smallest, to 1/1024, that the error at that bandwidth does not exceed
    (Błasiok & Nakkiran, 2023). Grids as in relplot 1.0.3, which srs-benchmark uses.
    """
    amounts = np.stack([p, p - y, p * (p - y)])
    grid = cache(partial(_on_grid, amounts))

    @cache
    def error(sigma: float) -> float:
        points = max(2000, round(20 / sigma)) // 2 + 1
        return _smooth_error(grid(points), points, sigma)

    high, low = 1.0, 0.0
    for _ in range(10):
        middle = (high + low) / 2
        if middle < _RESOLUTION or middle < error(middle):
            low = middle
        else:
            high = middle
    return error(high)


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
    residual_at = np.interp(at, np.arange(points), residual)
    density_at = np.interp(at, np.arange(points), density) + 1e-4  # never quite 0
    return float(np.abs(residual_at).sum() / density_at.sum())


_Direction = Literal["lower", "higher", "nearer 0"]
_IN_FILES = (
    *("RMSE", "LogLoss", "RMSE(bins)", "smECE", "AUC"),
    *("precision@90", "recall@90", "ICI", "MBE"),
)


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
        figures = {key: getattr(self, KEYS[key].field) for key in _IN_FILES}
        return {key: None if x is None else round(x, 6) for key, x in figures.items()}


@dataclass(frozen=True)
class _Fact:
    """What is to know about a metric, wherever it is shown."""

    field: str  # of Metrics
    key: str  # in result files; "" where these do not have it
    name: str
    style: Literal["3", "%", "+%"]  # decimals, per cent, per cent with a sign
    better: _Direction
    meaning: str


FACTS = {  # by field, in the order of tables
    fact.field: fact
    for fact in (
        _Fact("log_loss", "LogLoss", "log loss", "3", "lower",
             "surprise per review; lower is better"),
        _Fact("rmse_bins", "RMSE(bins)", "RMSE(bins)", "%", "lower",
             "error of average recall in groups of alike reviews; "
             "lower is better, but it can be gamed"),
        _Fact("auc", "AUC", "AUC", "3", "higher",
             "how well it tells forgotten from recalled; 0.5 is guessing, 1 perfect"),
        _Fact("rmse", "RMSE", "RMSE", "3", "lower",
             "error of single predictions; the root of the Brier score"),
        _Fact("mbe", "MBE", "MBE", "+%", "nearer 0",
             "bias; above zero: it expects more recall than there was"),
        _Fact("ici", "ICI", "ICI", "%", "lower",
             "mean distance of its calibration curve from the truth"),
        _Fact("smece", "smECE", "smECE", "%", "lower", "calibration error without bins"),
        _Fact("precision_90", "precision@90", "precision@90", "%", "higher",
             "recalled, of the reviews it gave 90 % or more"),
        _Fact("recall_90", "recall@90", "recall@90", "%", "higher",
             "given 90 % or more, of the reviews recalled"),
        _Fact("mae", "", "MAE", "3", "lower", "mean absolute error; rewards overconfidence"),
        _Fact("accuracy", "", "accuracy", "%", "higher",
             "right more often than not, at a threshold of 50 %"),
    )
}  # fmt: skip
KEYS = {fact.key: fact for fact in FACTS.values() if fact.key}
"""The facts by key of result files."""


def better(key: str) -> _Direction:
    """Which way a column of result files is better; those that are no metric are times."""
    return KEYS[key].better if key in KEYS else "lower"


def summary(y: ArrayLike, p: ArrayLike, bin_ids: ArrayLike) -> Metrics:
    """Every file-level metric; `bin_ids` from `rmse_bin_ids`, all of shape (n,)."""
    outcome, forecast = checked_pair(y, p)
    order = ascending(forecast)
    y_sorted, p_sorted = outcome[order], forecast[order]
    error = forecast - outcome
    chosen = forecast >= 0.9
    hits, count, recalled = float(outcome[chosen].sum()), int(chosen.sum()), float(outcome.sum())
    return Metrics(
        size=len(outcome),
        log_loss=float(log_losses(outcome, forecast).mean()),
        rmse=math.sqrt((error**2).mean()),
        rmse_bins=rmse_bins(outcome, forecast, bin_ids),
        auc=_auc_sorted(y_sorted, p_sorted),
        ici=_ici(y_sorted, p_sorted),
        smece=_smece(y_sorted, p_sorted),
        mbe=float(error.mean()),
        precision_90=hits / count if count else 0.0,
        recall_90=hits / recalled if recalled else 0.0,
        mae=float(np.abs(error).mean()),
        accuracy=float(((forecast >= 0.5) == (outcome == 1)).mean()),
    )
