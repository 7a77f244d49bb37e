"""The calibration graph: how often were reviews recalled that a model gave so much?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.metrics import ascending, checked_pair, lowess_knots

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
    outcome, forecast = checked_pair(y, p)
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
