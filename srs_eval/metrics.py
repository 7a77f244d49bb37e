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
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from srs_eval.data.reviews import FloatArray, IntArray

_EPSILON = float(np.finfo(np.float64).eps)
"""Log loss keeps probabilities this far from 0 and 1, as scikit-learn does."""


def validate_pair(y: ArrayLike, p: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return y and p as float64 vectors, or raise `ValueError` (see above)."""
    outcome = np.asarray(y, np.float64)
    forecast = np.asarray(p, np.float64)
    if outcome.ndim != 1 or outcome.shape != forecast.shape:
        shapes = f"{outcome.shape} and {forecast.shape}"
        raise ValueError(f"y and p must be vectors of equal length, not of shapes {shapes}")
    if not len(outcome):
        raise ValueError("there are no reviews to compute metrics for")
    if not np.all((outcome == 0) | (outcome == 1)):
        raise ValueError("outcomes must be 0 or 1")
    if not (forecast.min() >= 0 and forecast.max() <= 1):  # also true for NaN
        raise ValueError("predictions must be probabilities in [0, 1]")
    return outcome, forecast


def argsort_ascending(p: FloatArray) -> IntArray:
    """Return the indices that sort predictions; equal predictions keep their order."""
    # np.argsort is unstable. Sorting the integers rank * n + position restores the order of ties
    # and is still faster than kind="stable".
    n = len(p)
    order = np.argsort(p)
    ordered = p[order]
    rank = np.zeros(n, np.int64)  # equal predictions have the same rank
    np.cumsum(ordered[1:] != ordered[:-1], out=rank[1:])
    if n and rank[-1] == n - 1:  # no ties
        return order
    key = rank * n + order
    key.sort()
    return key - rank * n


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
    # For each forgotten review, a review with a higher p counts 2 and one with an equal p counts 1.
    # Pairs of two forgotten reviews count len(forgotten)^2 in all; subtract them.
    doubled_count = int((2 * len(p) - below - upto).sum()) - len(forgotten) ** 2
    return doubled_count / (2 * pairs)


_MAX_DENSE_BINS = 1 << 20  # np.bincount counts ids below it directly; others are renumbered first


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
    size = np.bincount(bin_index)
    filled = size > 0
    mean_difference = np.bincount(bin_index, outcome - forecast)[filled] / size[filled]
    weight = size[filled].astype(np.float64)
    return math.sqrt((weight * mean_difference**2).sum() / weight.sum())


# Skill and the parts of the Brier score


def skill(loss: float, reference_loss: float) -> float:
    """Return the share of a reference's loss that a model saves; nan if that loss is 0.

    1 - loss / reference_loss: 1 is perfect, 0 no better than the reference, negative worse. Both
    are means over the same reviews, of log loss or of the Brier score; the reference of reports is
    AVG. Murphy (1988), Monthly Weather Review 116.
    """
    if reference_loss == 0:
        return math.nan
    return 1 - loss / reference_loss


@dataclass(frozen=True)
class BrierParts:
    """The Brier score in parts, all in its unit: reliability - resolution + uncertainty."""

    reliability: float  # calibration error, squared; lower is better
    resolution: float  # what telling reviews apart gains; higher is better
    uncertainty: float  # score of predicting the share recalled for every review
    within_bins: float  # the part of `resolution` that is within bins: Murphy's has none
    expected_reliability: float
    """Mean `reliability` of perfectly calibrated predictions: chance alone makes it this large."""

    @property
    def brier(self) -> float:
        """Return the Brier score."""
        return self.reliability - self.resolution + self.uncertainty

    @property
    def skill(self) -> float:
        """Return the skill against the share recalled; nan if all reviews ended alike."""
        return skill(self.brier, self.uncertainty)


def murphy(y: ArrayLike, p: ArrayLike, bins: int = 10) -> BrierParts:
    """Split the Brier score, the mean of (p - y)^2, into reliability, resolution and uncertainty.

    The score is reliability - resolution + uncertainty, whatever the bins: about equally many
    reviews in the order of p, equal p in one bin. Murphy (1973), Journal of Applied Meteorology
    12, whose sum needs equal predictions within a bin; otherwise resolution also has the two terms
    within bins of Stephenson, Coelho & Jolliffe (2008), Weather and Forecasting 23.

    Raises ValueError if there is less than one bin.
    """
    outcome, forecast = validate_pair(y, p)
    if bins < 1:
        raise ValueError(f"there must be at least one bin, not {bins}")
    n = len(outcome)
    first_in_bin = np.sort(forecast)[np.arange(1, bins) * n // bins]
    bin_index = np.unique(first_in_bin).searchsorted(forecast, side="right")
    size = np.bincount(bin_index)
    is_filled = size > 0
    counts = np.where(is_filled, size, 1)
    recalled = np.bincount(bin_index, outcome) / counts
    predicted = np.bincount(bin_index, forecast) / counts
    mean = outcome.mean()
    share = size / n
    outcome_deviation = outcome - recalled[bin_index]
    forecast_deviation = forecast - predicted[bin_index]
    covariance = (outcome_deviation * forecast_deviation).mean()
    within_bins = 2 * covariance - (forecast_deviation**2).mean()
    between_bins = share @ np.where(is_filled, (recalled - mean) ** 2, 0.0)
    chance = np.bincount(bin_index, forecast * (1 - forecast))
    return BrierParts(
        reliability=float(share @ (predicted - recalled) ** 2),
        resolution=float(between_bins + within_bins),
        uncertainty=float(mean * (1 - mean)),
        within_bins=float(within_bins),
        expected_reliability=float((chance / counts).sum() / n),
    )


# LOWESS and the integrated calibration index


def compute_lowess_knots(
    x: FloatArray, y: FloatArray, *, mean_of_ties: bool
) -> tuple[FloatArray, FloatArray]:
    """Fit a locally weighted linear regression of y on sorted x (n,) (Cleveland, 1979).

    Returns points (k,) of the curve and its values there (k,); between them the curve is linear.
    Each line is fitted to the nearest two thirds of the points, with tricube weights and without
    robustness iterations. Points closer to a fitted point than 1 % of the range of x are not
    fitted but interpolated. Equals statsmodels' `lowess(y, x, it=0, frac=2/3, delta=...)`.

    Where no line can be fitted and `mean_of_ties` is True, the value is the mean y of all points
    with this x. If it is False, the value is the fitted point's own y, as in statsmodels: that of
    the first point with this x, or of the last one if points before it are interpolated.
    """
    n = len(x)
    window_size = min(max(int(2 / 3 * n + 1e-10), 2), n)
    delta = 0.01 * float(x[-1] - x[0])
    fitted_positions = [0]
    last_positions: list[int] = []
    while True:
        knot_x = x[fitted_positions[-1]]
        last_equal = int(x.searchsorted(knot_x, side="right")) - 1  # equal x share the fit
        last_positions.append(last_equal)
        if last_equal >= n - 1:
            break
        # Go on with the last point within delta, but stop before the last point of all: like
        # statsmodels, fit a line there, too.
        beyond = int(x.searchsorted(knot_x + delta, side="right"))
        fitted_positions.append(max(min(beyond, n - 1) - 1, last_equal + 1))
    knots = x[fitted_positions]
    # Slide the window right while the point just beyond it is nearer than its first point.
    midpoints = (x[: n - window_size] + x[window_size:]) / 2
    window_starts = midpoints.searchsorted(knots)
    values = _window_lines(x, y, knots, window_starts, window_size)
    for knot in np.flatnonzero(np.isnan(values)).tolist():
        knot_x = knots[knot]
        window = slice(window_starts[knot], window_starts[knot] + window_size)
        fit = _local_line(x[window], y[window], knot_x)
        if fit is None and mean_of_ties:
            first_equal = int(x.searchsorted(knot_x))
            fit = float(y[first_equal : last_positions[knot] + 1].mean())
        elif fit is None:
            fit = float(y[fitted_positions[knot]])
        values[knot] = fit
    return knots, values


def _local_line(x: FloatArray, y: FloatArray, at: float) -> float | None:
    """Fit a tricube-weighted line to a window; return its value at `at`, None if there is none."""
    radius = max(at - float(x[0]), float(x[-1]) - at)
    if radius == 0:
        return None
    u = (x - at) / radius
    weight = _tricube(np.abs(u))
    total = float(weight.sum())
    # As in statsmodels, a line needs two weights above 1e-12. Count them only if the total may be
    # that of a single point.
    if total < _SINGLE_POINT_WEIGHT and np.count_nonzero(weight > 1e-12) < 2:
        return None
    mean = float(weight @ u) / total
    u -= mean
    weighted_u = weight * u
    variance = max(float(weighted_u @ u) / total * radius**2, _MIN_VARIANCE)
    slope = float(weighted_u @ y) / total * radius**2 / variance
    return float(weight @ y) / total - mean * slope


def _tricube(v: FloatArray) -> FloatArray:
    """Compute (1 - v^3)^3."""
    complement = 1.0 - v * v * v
    return complement * complement * complement


_KNOTS_PER_BLOCK = 8  # few enough that the arrays of a block stay in the CPU cache
_SINGLE_POINT_WEIGHT = 1 + 1e-9
"""A window whose weights sum to less holds one point alone: the fitted one, which has weight 1."""
_MIN_VARIANCE = 1e-12  # avoids a division by 0
_MIN_RADIUS = 1e-150  # below it quotients could overflow
_MIN_SPREAD = 1e-6  # variance of u in a window; below it, the difference E[u^2] - E[u]^2 cancels
_DEGREE = 9
_TRICUBE = {0: 1.0, 3: -3.0, 6: 3.0, 9: -1.0}  # coefficients of (1 - v^3)^3 by power of v
_TAYLOR = np.zeros((_DEGREE + 1, _DEGREE + 1))
"""`_TAYLOR[j] @ [v^0 ... v^9]` is the tricube's j-th derivative at v, divided by j!."""
for _power, _factor in _TRICUBE.items():
    for _j in range(_power + 1):
        _TAYLOR[_j, _power - _j] = _factor * math.comb(_power, _j)


def _window_lines(
    x: FloatArray, y: FloatArray, knots: FloatArray, lefts: IntArray, size: int
) -> FloatArray:
    """Return the value at each knot (k,) of the line fitted to its window, x[left : left + size].

    It is NaN where the caller must fit the line directly (`_local_line`). Knots and the ends of
    windows cut the points into cells. Over a cell the tricube is a polynomial, so its weighted sums
    follow from the cell's moments: exactly, with a tenth of the work.
    """
    splits = x.searchsorted(knots)
    edges = np.unique(np.concatenate([lefts, splits, lefts + size]))
    cell = edges[:-1]
    sizes = np.diff(edges)
    low = x[cell]
    high = x[edges[1:] - 1]
    centre = (low + high) / 2
    extent = (high - low) / 2
    # `away` is a point's distance from the centre of its cell, from -1 to 1. moments[j] holds the
    # sums over each cell of away^j and of away^j y.
    points = slice(edges[0], edges[-1])
    divisor = np.where(extent > 0, extent, 1.0)
    away = (x[points] - centre.repeat(sizes)) / divisor.repeat(sizes)
    summands = np.stack([np.ones_like(away), y[points]])
    moments = np.empty((_DEGREE + 3, 2, len(cell)))
    for moment in moments:
        np.add.reduceat(summands, cell - edges[0], axis=1, out=moment)
        summands *= away
    blocks = []
    for begin in range(0, len(knots), _KNOTS_PER_BLOCK):
        block = slice(begin, begin + _KNOTS_PER_BLOCK)
        at = knots[block, None]
        left = lefts[block, None]
        split = splits[block, None]
        radius = np.maximum(at - x[left], x[left + size - 1] - at)
        is_wide = radius > _MIN_RADIUS
        unit = np.where(is_wide, radius, 1.0)
        # In a window, u = (x - at) / radius runs from -1 to 1. In a cell, u is
        # centre_u + extent_u * away.
        is_inside = (cell >= left) & (cell < left + size)
        centre_u = np.where(is_inside, (centre - at) / unit, 0.0)
        extent_u = np.where(is_inside, extent / unit, 0.0)
        # The tricube's argument is |u|, which falls as x rises if the cell is left of the knot.
        step = np.where(cell < split, -extent_u, extent_u)
        terms = _expand_tricube(np.abs(centre_u), step)
        terms *= is_inside
        # Sums over each cell of w, w away and w away^2 (w is the tricube), and of these times y.
        # Letters: j is the power, k the knot, c the cell, y 0 for the sums without y and 1 for
        # those times y.
        w = np.einsum("jkc,jyc->ykc", terms, moments[: _DEGREE + 1])
        w_away = np.einsum("jkc,jyc->ykc", terms, moments[1 : _DEGREE + 2])
        w_away2 = np.einsum("jkc,jyc->ykc", terms, moments[2 : _DEGREE + 3])
        # Sums over each window: `total` of w, u1 of w u, u2 of w u^2, y0 of w y, y1 of w u y.
        total, y0 = w.sum(axis=2)
        u1, y1 = (centre_u * w + extent_u * w_away).sum(axis=2)
        cross = centre_u * w + 2 * extent_u * w_away
        u2 = (centre_u * cross + extent_u**2 * w_away2)[0].sum(axis=1)
        mean = u1 / total
        radius = radius[:, 0]
        spread = u2 / total - mean * mean
        variance = np.maximum(spread * radius**2, _MIN_VARIANCE)
        slope = (y1 - mean * y0) / total * radius**2 / variance
        has_line = is_wide[:, 0] & (total >= _SINGLE_POINT_WEIGHT) & (spread > _MIN_SPREAD)
        blocks.append(np.where(has_line, y0 / total - mean * slope, np.nan))
    return np.concatenate(blocks)


def _expand_tricube(v: FloatArray, step: FloatArray) -> FloatArray:
    """Return the coefficients (10, ...) by power of d of the polynomial tricube(v + step * d)."""
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

    This is the mean of |c(p) - p|, where c is the LOWESS of y on p (Austin & Steyerberg, 2019). As
    in srs-benchmark, if two thirds of the reviews share one p, c gives them all the outcome of
    the first one: for nearly constant predictions the index says nothing.
    """
    knots, values = compute_lowess_knots(p, y, mean_of_ties=False)
    return float(np.abs(np.interp(p, knots, values) - p).mean())


# Smooth calibration error

_MIN_BANDWIDTH = 0.001  # no bandwidth below this is tried


def _smece(y: FloatArray, p: FloatArray) -> float:
    """Compute the smooth calibration error of pairs sorted by p, with its automatic bandwidth.

    Residuals p - y and the density of p are smoothed over p by a Gaussian kernel reflected at 0
    and 1. The error is the integral of the smoothed residual's absolute value divided by that of
    the smoothed density. The bandwidth is, to 1/1024, the smallest sigma with error(sigma) <= sigma
    (Błasiok & Nakkiran, 2023). Grids are those of relplot 1.0.3, which srs-benchmark uses.
    """
    summands = np.stack([p, p - y, p * (p - y)])

    @cache
    def transform(points: int) -> NDArray[np.complex128]:
        return _transform_on_grid(summands, points)

    @cache
    def error(sigma: float) -> float:
        points = max(2000, round(20 / sigma)) // 2 + 1
        return _smooth_error(transform(points), points, sigma)

    high = 1.0
    low = 0.0
    for _ in range(10):
        middle = (high + low) / 2
        if middle < _MIN_BANDWIDTH or middle < error(middle):
            low = middle
        else:
            high = middle
    return error(high)


def _transform_on_grid(summands: FloatArray, points: int) -> NDArray[np.complex128]:
    """Return the FFT of the residuals (row 0) and counts (row 1) on an even grid from 0 to 1.

    `summands` (3, n) holds p, sorted, the residuals p - y, and the product of both.
    """
    cells = points - 1
    edges = summands[0].searchsorted(np.arange(points) / cells)
    edges[-1] = summands.shape[1]  # p = 1 belongs to the last cell
    count = np.diff(edges)
    filled = np.flatnonzero(count)
    sums = np.zeros((3, cells))
    sums[:, filled] = np.add.reduceat(summands, edges[filled], axis=1)
    # A prediction p in cell j lies between the grid points j / cells and (j + 1) / cells. The
    # upper one gets the share cells * p - j of the prediction, the lower one gets the rest.
    cell = np.arange(cells)
    p, residual, product = sums
    upper_residual = cells * product - cell * residual
    upper_count = cells * p - cell * count
    on_grid = np.zeros((2, points))
    on_grid[0, :-1] = residual - upper_residual
    on_grid[0, 1:] += upper_residual
    on_grid[1, :-1] = count - upper_count
    on_grid[1, 1:] += upper_count
    # The mirror image makes one period of 2 * (points - 1) values, so that the FFT's cyclic
    # convolution is the one with a kernel reflected at 0 and 1.
    return np.fft.rfft(np.hstack([on_grid, on_grid[:, -2:0:-1]]))


def _smooth_error(transformed: NDArray[np.complex128], points: int, sigma: float) -> float:
    """Compute the smooth calibration error at bandwidth sigma from `_transform_on_grid`."""
    period = 2 * points - 2
    # The kernel is centred at 0.5, half the grid from its start, so the result is shifted by half
    # the grid: it begins at points // 2.
    kernel = np.zeros(period)
    kernel[:points] = np.exp(-((np.linspace(0, 1, points) - 0.5) ** 2) / (2 * sigma**2))
    kernel /= math.sqrt(2 * math.pi) * sigma
    smoothed = np.fft.irfft(transformed * np.fft.rfft(kernel), period)
    residual, density = smoothed[:, points // 2 : points // 2 + points]
    # Integrate by sums over evenly spaced probabilities.
    at = np.linspace(0, 1, max(round(10 / sigma), 200)) * (points - 1)
    residual_at = np.interp(at, np.arange(points), residual)
    density_at = np.interp(at, np.arange(points), density) + 1e-4  # never quite 0, as in relplot
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
    """Metrics of one model on one set of reviews: log loss in nats, all others as fractions."""

    size: int  # number of reviews
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
    key: str  # in result files; "" if they do not have it
    name: str
    style: Literal["3", "%", "+%"]  # decimals, per cent, per cent with a sign
    better: _Direction
    meaning: str


METRIC_INFO = {  # by field, in the order of tables
    info.field: info
    for info in (
        _MetricInfo("log_loss", "LogLoss", "log loss", "3", "lower",
             "surprise per review; lower is better"),
        _MetricInfo("rmse_bins", "RMSE(bins)", "RMSE(bins)", "%", "lower",
             "error of average recall in groups of similar reviews; "
             "lower is better, but it can be gamed"),
        _MetricInfo("auc", "AUC", "AUC", "3", "higher",
             "separation of forgotten from recalled; 0.5 is guessing, 1 perfect"),
        _MetricInfo("rmse", "RMSE", "RMSE", "3", "lower",
             "error of single predictions; the root of the Brier score"),
        _MetricInfo("mbe", "MBE", "MBE", "+%", "nearer 0",
             "bias; above zero: too much recall was expected"),
        _MetricInfo("ici", "ICI", "ICI", "%", "lower",
             "mean distance of the calibration curve from perfect calibration"),
        _MetricInfo("smece", "smECE", "smECE", "%", "lower", "calibration error without bins"),
        _MetricInfo("precision_90", "precision@90", "precision@90", "%", "higher",
             "share recalled of reviews predicted at 90 % or more"),
        _MetricInfo("recall_90", "recall@90", "recall@90", "%", "higher",
             "share of recalled reviews predicted at 90 % or more"),
        _MetricInfo("mae", "", "MAE", "3", "lower", "mean absolute error; rewards overconfidence"),
        _MetricInfo("accuracy", "", "accuracy", "%", "higher",
             "share predicted correctly, at a threshold of 50 %"),
    )
}  # fmt: skip
METRIC_BY_KEY = {info.key: info for info in METRIC_INFO.values() if info.key}
"""METRIC_INFO by the keys of result files."""


def better_direction(key: str) -> _Direction:
    """Return the direction in which a column of result files is better.

    All other columns are times, where lower is better.
    """
    return METRIC_BY_KEY[key].better if key in METRIC_BY_KEY else "lower"


def compute_metrics(y: ArrayLike, p: ArrayLike, bin_ids: ArrayLike) -> Metrics:
    """Compute all metrics of one learner's reviews.

    All arguments have the shape (n,); `bin_ids` come from `data.trials.compute_rmse_bin_ids`.
    """
    outcome, forecast = validate_pair(y, p)
    order = argsort_ascending(forecast)
    y_sorted = outcome[order]
    p_sorted = forecast[order]
    error = forecast - outcome
    is_confident = forecast >= 0.9
    confident_hits = float(outcome[is_confident].sum())
    confident_count = int(is_confident.sum())
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
        precision_90=confident_hits / confident_count if confident_count else 0.0,
        recall_90=confident_hits / recalled if recalled else 0.0,
        mae=float(np.abs(error).mean()),
        accuracy=float(((forecast >= 0.5) == (outcome == 1)).mean()),
    )
