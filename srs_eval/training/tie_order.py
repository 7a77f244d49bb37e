"""The order in which numpy's plain quicksort leaves equal keys.

fsrs-optimizer 5.x sorts training rows by sequence length with an unstable sort, and
so the order of ties decides which rows share a batch. It is that of
`numpy.argsort(kind="quicksort")` without SIMD routines (numpy/_core/src/npysort):
quicksort with a stack, median of three, insertion sort for parts of up to 16,
heapsort where a part is split too often.
"""

from __future__ import annotations

import numpy as np

from srs_eval.data.reviews import IntArray


def quicksort_order(keys: IntArray) -> IntArray:
    """Positions (n,) that sort `keys`, which are not negative, ties in plain quicksort's order.

    numpy has SIMD routines for numbers, but sorts times, which lie in memory as integers do,
    by the plain one on every processor.
    """
    times = np.ascontiguousarray(keys, np.int64).view("timedelta64[s]")
    return np.argsort(times, kind="quicksort").astype(np.int64, copy=False)
