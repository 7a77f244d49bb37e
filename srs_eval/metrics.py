"""Measure how good predicted probabilities of recall are, by pure functions.

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


def validate_pair(y: ArrayLike, p: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return both as float64 vectors, checked once per public call."""
    outcome = np.asarray(y, np.float64)
    forecast = np.asarray(p, np.float64)
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


def argsort_ascending(p: FloatArray) -> IntArray:
    """Return the indices that sort predictions; equal predictions keep their order."""
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
    """Compute the negative log likelihood in nats of each review (n,); p is clipped at _EPSILON."""
    likelihood = np.where(y == 1, p, 1 - p)
    loss: FloatArray = -np.log(np.clip(likelihood, _EPSILON, 1 - _EPSILON))
    return loss


def log_loss(y: ArrayLike, p: ArrayLike) -> float:
    """Compute the mean negative log likelihood in nats; p is clipped at _EPSILON (scikit-learn)."""
    return float(log_losses(*validate_pair(y, p)).mean())


def auc(y: ArrayLike, p: ArrayLike) -> float | None:
    """Compute the probability that a recalled review has the higher p, with ties counted half.

    None if only one class occurs. This is the Mann-Whitney statistic over the number of
    pairs (Hanley & McNeil, 1982), counted in whole numbers.
    """
    outcome, forecast = validate_pair(y, p)
    order = argsort_ascending(forecast)
    return _auc_sorted(outcome[order], forecast[order])


def _auc_sorted(y: FloatArray, p: FloatArray) -> float | None:
    """Compute the AUC of pairs sorted by p."""
    forgotten = p[y == 0]
    pairs = len(forgotten) * (len(p) - len(forgotten))
    if not pairs:
        return None
    below = p.searchsorted(forgotten)
    upto = p.searchsorted(forgotten, side="right")
    # Twice the number of pairs in the right order: above counts 2, equal counts 1. Among all
    # pairs with a forgotten review, pairs of two forgotten reviews count len(forgotten)^2.
    doubled_count = int((2 * len(p) - below - upto).sum()) - len(forgotten) ** 2
    return doubled_count / (2 * pairs)


_MAX_DENSE_BINS = 1 << 20  # smaller ids are counted as they are, others are numbered first


def rmse_bins(y: ArrayLike, p: ArrayLike, bin_ids: ArrayLike) -> float:
    """Compute the root mean squared difference of mean y and mean p over bins.

    Bins are weighted by their size. bin_ids: any integers, shape (n,); equal ids mean the same bin
    (fsrs-optimizer, `rmse_matrix`).
    """
    outcome, forecast = validate_pair(y, p)
    ids = np.asarray(bin_ids)
    if ids.shape != outcome.shape:
        raise ValueError("every review needs one bin")
    bin_index = ids
    if ids.dtype != np.int64 or ids.min() < 0 or ids.max() >= _MAX_DENSE_BINS:
        _, bin_index = np.unique(ids, return_inverse=True)
    count = np.bincount(bin_index)
    filled = count > 0
    gap = np.bincount(bin_index, outcome - forecast)[filled] / count[filled]
    total = count[filled].astype(np.float64)
    return math.sqrt((total * gap**2).sum() / total.sum())


# LOWESS and the integrated calibration index


def compute_lowess_knots(
    x: FloatArray, y: FloatArray, *, mean_of_ties: bool
) -> tuple[FloatArray, FloatArray]:
    """Fit a locally weighted linear regression of y on sorted x (n,) (Cleveland, 1979).

    Returns points (k,) of the curve and its values there (k,); between them the curve is linear.
    Tricube weights over the nearest two thirds of the points, no robustness iterations; points
    within 1 % of the range of x of a fitted one are skipped. Equals statsmodels'
    `lowess(y, x, it=0, frac=2/3, delta=...)`. If no line can be fitted, the value is the mean
    y of equal x with `mean_of_ties`; otherwise it is, as in statsmodels, the first y of equal x
    (the last if points before it have been skipped).
    """
    n = len(x)
    k = min(max(int(2 / 3 * n + 1e-10), 2), n)
    delta = 0.01 * float(x[-1] - x[0])
    fitted_positions = [0]
    last_positions: list[int] = []
    while True:
        knot_x = x[fitted_positions[-1]]
        last_equal = int(x.searchsorted(knot_x, side="right")) - 1  # equal x share the fit
        last_positions.append(last_equal)
        if last_equal >= n - 1:
            break
        # On to the last point within delta; if all are, to the last but one.
        reach = int(x.searchsorted(knot_x + delta, side="right"))
        fitted_positions.append(max(min(reach, n - 1) - 1, last_equal + 1))
    knots = x[fitted_positions]
    # The window [start, start + k) of a point starts at the first `start` whose middle
    # between the first point and the one behind the last is not below the point.
    window_starts = ((x[: n - k] + x[k:]) / 2).searchsorted(knots)
    values = _window_lines(x, y, knots, window_starts, k)
    for knot in np.flatnonzero(np.isnan(values)).tolist():
        knot_x = knots[knot]
        window = slice(window_starts[knot], window_starts[knot] + k)
        fit = _local_line(x[window], y[window], knot_x)
        if fit is None and mean_of_ties:
            first_equal = int(x.searchsorted(knot_x))
            fit = float(y[first_equal : last_positions[knot] + 1].mean())
        elif fit is None:
            fit = float(y[fitted_positions[knot]])
        values[knot] = fit
    return knots, values


def _local_line(x: FloatArray, y: FloatArray, at: float) -> float | None:
    """Return the value at `at` of the tricube-weighted line through a window, None without one."""
    radius = max(at - float(x[0]), float(x[-1]) - at)
    if radius == 0:
        return None
    u = (x - at) / radius
    weight = _tricube(np.abs(u))
    total = float(weight.sum())
    if total < _SINGLE_POINT_WEIGHT and np.count_nonzero(weight > 1e-12) < 2:
        return None
    mean = float(weight @ u) / total
    u -= mean
    scratch = weight * u
    variance = max(float(scratch @ u) / total * radius**2, _MIN_VARIANCE)
    slope = float(scratch @ y) / total * radius**2 / variance
    return float(weight @ y) / total - mean * slope


def _tricube(v: FloatArray) -> FloatArray:
    complement = 1.0 - v * v * v
    return complement * complement * complement


_KNOTS_PER_BLOCK = 8  # knots, so that the working data stay in the cache
_SINGLE_POINT_WEIGHT = 1 + 1e-9  # a point has weight 1; a sum of no more means a single point
_MIN_VARIANCE = 1e-12
_MIN_RADIUS = 1e-150  # below it quotients could overflow
_MIN_SPREAD = 1e-6  # of the points of a window; below it the difference of its sums is inexact
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
    """Return the value at each knot (k,) of the line through its window left ... left + size - 1.

    NaN where a closer look is needed to see if there is a line. Knots and the ends of windows cut
    the points into cells. Over a cell the tricube is a polynomial, so that its weighted sums follow
    from the cell's moments: they are exact, at a tenth of the work.
    """
    splits = x.searchsorted(knots)
    edges = np.unique(np.concatenate([lefts, splits, lefts + size]))
    cell = edges[:-1]
    sizes = np.diff(edges)
    low = x[cell]
    high = x[edges[1:] - 1]
    centre = (low + high) / 2
    extent = (high - low) / 2
    # Sums over each cell of away^j and of away^j y; `away` lies between -1 and 1.
    points = slice(edges[0], edges[-1])
    divisor = np.where(extent > 0, extent, 1.0)
    away = (x[points] - centre.repeat(sizes)) / divisor.repeat(sizes)
    amounts = np.stack([np.ones_like(away), y[points]])
    moments = np.empty((_DEGREE + 3, 2, len(cell)))
    for moment in moments:
        np.add.reduceat(amounts, cell - edges[0], axis=1, out=moment)
        amounts *= away
    blocks = []
    for begin in range(0, len(knots), _KNOTS_PER_BLOCK):
        block = slice(begin, begin + _KNOTS_PER_BLOCK)
        at = knots[block, None]
        left = lefts[block, None]
        split = splits[block, None]
        radius = np.maximum(at - x[left], x[left + size - 1] - at)
        is_wide = radius > _MIN_RADIUS
        unit = np.where(is_wide, radius, 1.0)
        # Sums of w, w u, w u^2, w y, w u y with u = (x - at) / radius.
        counts = (cell >= left) & (cell < left + size)
        middle = np.where(counts, (centre - at) / unit, 0.0)
        reach = np.where(counts, extent / unit, 0.0)
        terms = _expand_tricube(np.abs(middle), np.where(cell < split, -reach, reach))
        terms *= counts
        w = np.einsum("jkb,jyb->ykb", terms, moments[: _DEGREE + 1])
        w_away = np.einsum("jkb,jyb->ykb", terms, moments[1 : _DEGREE + 2])
        w_away2 = np.einsum("jkb,jyb->ykb", terms, moments[2 : _DEGREE + 3])
        total, y0 = w.sum(axis=2)
        u1, y1 = (middle * w + reach * w_away).sum(axis=2)
        u2 = (middle * (middle * w + 2 * reach * w_away) + reach**2 * w_away2)[0].sum(axis=1)
        mean = u1 / total
        radius = radius[:, 0]
        spread = u2 / total - mean * mean
        variance = np.maximum(spread * radius**2, _MIN_VARIANCE)
        slope = (y1 - mean * y0) / total * radius**2 / variance
        has_line = is_wide[:, 0] & (total >= _SINGLE_POINT_WEIGHT) & (spread > _MIN_SPREAD)
        blocks.append(np.where(has_line, y0 / total - mean * slope, np.nan))
    return np.concatenate(blocks)


def _expand_tricube(v: FloatArray, step: FloatArray) -> FloatArray:
    """Return the coefficients (10, ...) of the tricube at v + step d as a polynomial in d."""
    powers = _powers(v)
    terms = (_TAYLOR @ powers.reshape(len(powers), -1)).reshape(powers.shape)
    terms *= _powers(step)
    return terms


def _powers(v: FloatArray) -> FloatArray:
    """Compute v^0 ... v^9, shape (10, ...)."""
    powers = np.empty((_DEGREE + 1, *v.shape))
    powers[0] = 1.0
    for j in range(_DEGREE):
        np.multiply(powers[j], v, out=powers[j + 1])
    return powers


def _ici(y: FloatArray, p: FloatArray) -> float:
    """Compute the integrated calibration index of pairs sorted by p.

    This is the mean of |lowess of y on p - p|: Austin & Steyerberg (2019); LOWESS as srs-benchmark
    calls it. As in srs-benchmark, if two thirds of the reviews share one p, all of them are taken
    to be recalled as the first was: for near-constant predictions the index says nothing.
    """
    knots, values = compute_lowess_knots(p, y, mean_of_ties=False)
    return float(np.abs(np.interp(p, knots, values) - p).mean())


# Smooth calibration error

_MIN_BANDWIDTH = 0.001  # no bandwidth below this is tried


def _smece(y: FloatArray, p: FloatArray) -> float:
    """Compute the smooth calibration error of pairs sorted by p, with its automatic bandwidth.

    Residuals p - y are smoothed over p by a Gaussian kernel reflected at 0 and 1; the
    error is the integral of the smoothed residual's absolute value. The bandwidth is
    the smallest, to 1/1024, that the error at that bandwidth does not exceed
    (Błasiok & Nakkiran, 2023). Grids as in relplot 1.0.3, which srs-benchmark uses.
    """
    amounts = np.stack([p, p - y, p * (p - y)])
    grid = cache(partial(_transform_on_grid, amounts))

    @cache
    def error(sigma: float) -> float:
        points = max(2000, round(20 / sigma)) // 2 + 1
        return _smooth_error(grid(points), points, sigma)

    high = 1.0
    low = 0.0
    for _ in range(10):
        middle = (high + low) / 2
        if middle < _MIN_BANDWIDTH or middle < error(middle):
            low = middle
        else:
            high = middle
    return error(high)


def _transform_on_grid(amounts: FloatArray, points: int) -> NDArray[np.complex128]:
    """Transform residuals (row 0) and counts (row 1) on an even grid from 0 to 1.

    `amounts` (3, n): p sorted, p - y, and their product. Each prediction is shared between the
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
    for row, total, upper in (  # `upper` is the share of the upper point
        (values[0], residual, cells * product - cell * residual),
        (values[1], count, cells * p - cell * count),
    ):
        row[:-1] = total - upper
        row[1:] += upper
    return np.fft.rfft(np.hstack([values, values[:, -2:0:-1]]))


def _smooth_error(grid: NDArray[np.complex128], points: int, sigma: float) -> float:
    """Compute the smooth calibration error at bandwidth sigma."""
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
_UPSTREAM_KEYS = (
    "RMSE",
    "LogLoss",
    "RMSE(bins)",
    "smECE",
    "AUC",
    "precision@90",
    "recall@90",
    "ICI",
    "MBE",
)


@dataclass(frozen=True)
class Metrics:
    """Metrics of one model on one set of reviews; all are rates or nats."""

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
        """Return the metrics under srs-benchmark's keys, in its order, with six decimals."""
        figures = {key: getattr(self, METRIC_BY_KEY[key].field) for key in _UPSTREAM_KEYS}
        return {
            key: None if figure is None else round(figure, 6) for key, figure in figures.items()
        }


@dataclass(frozen=True)
class _MetricInfo:
    """Facts about a metric for all places that show it."""

    field: str  # of Metrics
    key: str  # in result files; "" if these do not have it
    name: str
    style: Literal["3", "%", "+%"]  # decimals, per cent, per cent with a sign
    better: _Direction
    meaning: str


METRIC_INFO = {  # by field, in the order of tables
    fact.field: fact
    for fact in (
        _MetricInfo("log_loss", "LogLoss", "log loss", "3", "lower",
             "surprise per review; lower is better"),
        _MetricInfo("rmse_bins", "RMSE(bins)", "RMSE(bins)", "%", "lower",
             "error of average recall in groups of alike reviews; "
             "lower is better, but it can be gamed"),
        _MetricInfo("auc", "AUC", "AUC", "3", "higher",
             "how well it tells forgotten from recalled; 0.5 is guessing, 1 perfect"),
        _MetricInfo("rmse", "RMSE", "RMSE", "3", "lower",
             "error of single predictions; the root of the Brier score"),
        _MetricInfo("mbe", "MBE", "MBE", "+%", "nearer 0",
             "bias; above zero: it expects more recall than there was"),
        _MetricInfo("ici", "ICI", "ICI", "%", "lower",
             "mean distance of its calibration curve from the truth"),
        _MetricInfo("smece", "smECE", "smECE", "%", "lower", "calibration error without bins"),
        _MetricInfo("precision_90", "precision@90", "precision@90", "%", "higher",
             "recalled, of the reviews it gave 90 % or more"),
        _MetricInfo("recall_90", "recall@90", "recall@90", "%", "higher",
             "given 90 % or more, of the reviews recalled"),
        _MetricInfo("mae", "", "MAE", "3", "lower", "mean absolute error; rewards overconfidence"),
        _MetricInfo("accuracy", "", "accuracy", "%", "higher",
             "right more often than not, at a threshold of 50 %"),
    )
}  # fmt: skip
METRIC_BY_KEY = {fact.key: fact for fact in METRIC_INFO.values() if fact.key}
"""METRIC_INFO by the keys of result files."""


def better_direction(key: str) -> _Direction:
    """Return the direction in which a column of result files is better.

    Columns that are no metrics are times, where lower is better.
    """
    return METRIC_BY_KEY[key].better if key in METRIC_BY_KEY else "lower"


def compute_metrics(y: ArrayLike, p: ArrayLike, bin_ids: ArrayLike) -> Metrics:
    """Compute every file-level metric.

    All arguments have the shape (n,); `bin_ids` come from `compute_rmse_bin_ids`.
    """
    outcome, forecast = validate_pair(y, p)
    order = argsort_ascending(forecast)
    y_sorted = outcome[order]
    p_sorted = forecast[order]
    error = forecast - outcome
    is_confident = forecast >= 0.9
    hits = float(outcome[is_confident].sum())
    count = int(is_confident.sum())
    recalled = float(outcome.sum())
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
