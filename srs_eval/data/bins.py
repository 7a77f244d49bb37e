"""The bins of RMSE(bins): reviews alike in interval, number and lapses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from srs_eval.data.reviews import FloatArray, IntArray

_DELTA_T, _REVIEWS, _LAPSES = 3.62, 1.89, 1.73  # a bin is floor(log_base of the value)
_LEAST_K = -5  # of intervals: the reference rounds labels to 0.01 days, all below are one bin
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
        by_interval = np.maximum(_exponent(interval, _DELTA_T), _LEAST_K) - _LEAST_K
        by_lapses = np.maximum(_exponent(failures, _LAPSES), -1) + 1
    by_number = _exponent(number, _REVIEWS)
    ids = (by_interval * _PLACES + by_number) * _PLACES + by_lapses
    return ids.astype(np.int64)
