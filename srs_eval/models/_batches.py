"""Batches as srs-benchmark trains on them: which rows share one, and in which order.

Facts: fsrs-optimizer 5.7.0 `BatchDataset` and `BatchLoader`, srs-benchmark other.py
`Trainer` (January 2025).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from srs_eval.reviews import FloatArray, IntArray

SEED = 2023


def quicksort_order(key: IntArray) -> IntArray:
    """numpy's plain `argsort(kind="quicksort")` (npysort/quicksort.cpp), ties and all.

    Its order of ties depends on the partitioning alone, so it is spelled out: median of
    three, larger part pushed, insertion sort up to 16 elements, heapsort when too deep.
    """
    n = len(key)
    order = np.arange(n)
    if n == 0:
        return order
    starts = np.empty(128, np.int64)
    ends = np.empty(128, np.int64)
    depths = np.empty(128, np.int64)
    depth = 0
    rest = n >> 1
    while rest:
        depth += 1
        rest >>= 1
    depth *= 2
    top = 0
    low = 0
    high = n - 1
    while True:
        if depth < 0:
            _heapsort(key, order, low, high - low + 1)
        else:
            while high - low > 15:
                middle = low + ((high - low) >> 1)
                if key[order[middle]] < key[order[low]]:
                    order[middle], order[low] = order[low], order[middle]
                if key[order[high]] < key[order[middle]]:
                    order[high], order[middle] = order[middle], order[high]
                if key[order[middle]] < key[order[low]]:
                    order[middle], order[low] = order[low], order[middle]
                pivot = key[order[middle]]
                i = low
                j = high - 1
                order[middle], order[j] = order[j], order[middle]
                while True:
                    i += 1
                    while key[order[i]] < pivot:
                        i += 1
                    j -= 1
                    while pivot < key[order[j]]:
                        j -= 1
                    if i >= j:
                        break
                    order[i], order[j] = order[j], order[i]
                order[i], order[high - 1] = order[high - 1], order[i]
                if i - low < high - i:
                    starts[top] = i + 1
                    ends[top] = high
                    high = i - 1
                else:
                    starts[top] = low
                    ends[top] = i - 1
                    low = i + 1
                depth -= 1
                depths[top] = depth
                top += 1
            for i in range(low + 1, high + 1):
                moved = order[i]
                j = i
                while j > low and key[moved] < key[order[j - 1]]:
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = moved
        if top == 0:
            return order
        top -= 1
        low = starts[top]
        high = ends[top]
        depth = depths[top]


def _heapsort(key: IntArray, order: IntArray, offset: int, n: int) -> None:
    """numpy's `aheapsort` of order[offset : offset + n] (npysort/heapsort.cpp)."""
    base = offset - 1  # the heap counts from 1
    for start in range(n >> 1, 0, -1):
        _sift(key, order, base, start, n, order[base + start])
    while n > 1:
        moved = order[base + n]
        order[base + n] = order[base + 1]
        n -= 1
        _sift(key, order, base, 1, n, moved)


def _sift(key: IntArray, order: IntArray, base: int, i: int, n: int, moved: int) -> None:
    j = i << 1
    while j <= n:
        if j < n and key[order[base + j]] < key[order[base + j + 1]]:
            j += 1
        if key[moved] >= key[order[base + j]]:
            break
        order[base + i] = order[base + j]
        i = j
        j += j
    order[base + i] = moved


def batch_visits(n_batches: int, n_epoch: int, seed: int = SEED) -> IntArray:
    """Which batch each step takes (n_epoch, n_batches): `torch.randperm`, one generator.

    ATen draws 32 bits of MT19937 per swap (aten/src/ATen/native/TensorFactories.cpp).
    """
    generator = np.random.MT19937()
    generator._legacy_seeding(seed)  # type: ignore[attr-defined]
    visits = np.empty((n_epoch, n_batches), np.int64)
    for epoch in range(n_epoch):
        order = np.arange(n_batches)
        draws = generator.random_raw(n_batches - 1) if n_batches > 1 else []
        for i, draw in enumerate(draws):
            j = i + int(draw) % (n_batches - i)
            order[i], order[j] = order[j], order[i]
        visits[epoch] = order
    return visits


def adam(
    start: FloatArray,
    gradient: Callable[[FloatArray, int], FloatArray],
    total_loss: Callable[[FloatArray], float],
    n_batches: int,
    *,
    n_epoch: int,
    rate: float,
    clip: Callable[[FloatArray], None] | None = None,
    tick: Callable[[float], None] | None = None,
) -> FloatArray:
    """Adam with a cosine schedule; the weights of the epoch with the least loss (k,).

    `gradient(w, batch)` is that of one batch's summed loss, `total_loss(w)` the loss over
    all rows. It is looked at before each epoch and at the end, so the start can win.
    """
    w = start.copy()
    best, best_loss = start.copy(), np.inf
    mean = np.zeros_like(w)
    square = np.zeros_like(w)
    steps = n_epoch * n_batches
    step = 0
    for visits in batch_visits(n_batches, n_epoch):
        loss = total_loss(w)
        if loss < best_loss:
            best, best_loss = w.copy(), loss
        for batch in visits:
            slope = gradient(w, batch)
            current = rate * (1 + np.cos(np.pi * step / steps)) / 2
            step += 1
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope * slope - square)
            w -= (
                current
                / (1 - 0.9**step)
                * mean
                / (np.sqrt(square) / np.sqrt(1 - 0.999**step) + 1e-8)
            )
            if clip is not None:
                clip(w)
            if tick is not None:
                tick(step / steps)
    if total_loss(w) < best_loss:
        best = w.copy()
    return best
