"""The order in which numpy's plain quicksort leaves equal keys.

fsrs-optimizer 5.x sorts training rows by sequence length with an unstable sort, and
so the order of ties decides which rows share a batch. It is that of
`numpy.argsort(kind="quicksort")` without SIMD routines (numpy/_core/src/npysort):
quicksort with a stack, median of three, insertion sort for parts of up to 16,
heapsort where a part is split too often.
"""

from __future__ import annotations

import numpy as np

from srs_eval.fitting.compile import compiled
from srs_eval.reviews import IntArray


def quicksort_order(keys: IntArray) -> IntArray:
    """Positions (n,) that sort `keys`, ties in numpy's plain quicksort order."""
    order = np.arange(len(keys))
    compiled(_quicksort)(np.ascontiguousarray(keys, np.int64), order)
    return order


def _quicksort(keys: IntArray, order: IntArray) -> None:
    small = 16
    left, right = 0, len(order) - 1
    depth = 0
    while (len(order) >> depth) > 1:
        depth += 1
    depth *= 2  # splits that are left before heapsort takes over
    starts = np.empty(128, np.int64)
    ends = np.empty(128, np.int64)
    depths = np.empty(128, np.int64)
    waiting = 0
    while True:
        heap = depth < 0
        if heap:
            _heapsort(keys, order, left, right - left + 1)
        while not heap and right - left >= small:
            middle = left + ((right - left) >> 1)
            if keys[order[middle]] < keys[order[left]]:
                order[middle], order[left] = order[left], order[middle]
            if keys[order[right]] < keys[order[middle]]:
                order[right], order[middle] = order[middle], order[right]
            if keys[order[middle]] < keys[order[left]]:
                order[middle], order[left] = order[left], order[middle]
            pivot = keys[order[middle]]
            i, j = left, right - 1
            order[middle], order[j] = order[j], order[middle]
            while True:
                i += 1
                while keys[order[i]] < pivot:
                    i += 1
                j -= 1
                while pivot < keys[order[j]]:
                    j -= 1
                if i >= j:
                    break
                order[i], order[j] = order[j], order[i]
            order[i], order[right - 1] = order[right - 1], order[i]
            depth -= 1
            if i - left < right - i:
                starts[waiting], ends[waiting] = i + 1, right
                right = i - 1
            else:
                starts[waiting], ends[waiting] = left, i - 1
                left = i + 1
            depths[waiting] = depth
            waiting += 1
        if not heap:
            for i in range(left + 1, right + 1):
                moved = order[i]
                key = keys[moved]
                j = i
                while j > left and key < keys[order[j - 1]]:
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = moved
        if waiting == 0:
            break
        waiting -= 1
        left, right, depth = starts[waiting], ends[waiting], depths[waiting]


def _heapsort(keys: IntArray, order: IntArray, left: int, n: int) -> None:
    base = left - 1  # the heap counts from 1
    for top in range(n >> 1, 0, -1):
        _sift_down(keys, order, base, top, n, order[base + top])
    while n > 1:
        moved = order[base + n]
        order[base + n] = order[base + 1]
        n -= 1
        _sift_down(keys, order, base, 1, n, moved)


def _sift_down(keys: IntArray, order: IntArray, base: int, top: int, n: int, moved: int) -> None:
    i, j = top, 2 * top
    while j <= n:
        if j < n and keys[order[base + j]] < keys[order[base + j + 1]]:
            j += 1
        if keys[moved] >= keys[order[base + j]]:
            break
        order[base + i] = order[base + j]
        i, j = j, 2 * j
    order[base + i] = moved
