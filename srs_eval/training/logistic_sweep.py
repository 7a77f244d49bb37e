"""Logistic regression in shuffled batches: gradient and AdamW, eight rows at once.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.training.simd import LANES, broadcast, exp, load, store, total, where

_AT_ONCE = 136  # rows that are worked on together, a multiple of LANES but no power of 2
_LINE = 16  # numbers in a line of the processor's cache


def gradient(
    x: NDArray[np.float32],
    share: FloatArray,
    batch: NDArray[np.uint32],
    coefficients: FloatArray,
) -> FloatArray:
    """Of the weighted log loss, summed over rows `batch` of x (n, k), in the coefficients (k,).

    `share` (n,) are weights, negative where the review was failed.
    """
    features = len(coefficients)
    bar = np.zeros(features)
    columns = np.zeros((features, _AT_ONCE))
    shares, z_bar = np.zeros(_AT_ONCE), np.zeros(_AT_ONCE)
    for begin in range(0, len(batch), _AT_ONCE):
        rows = batch[begin : begin + _AT_ONCE]
        # One number of each line first: then memory fetches the lines of many rows at a time.
        for i in range(len(rows)):
            shares[i] = share[rows[i]]
            for k in range(0, features, _LINE):
                columns[k, i] = x[rows[i], k]
        for i in range(len(rows)):
            for k in range(features):
                columns[k, i] = x[rows[i], k]
        shares[len(rows) :] = 0.0
        for i in range(0, len(rows), LANES):
            even = broadcast(0.0)
            odd = broadcast(0.0)  # two sums, so that no addition waits for the one before
            for k in range(0, features - 1, 2):
                even += coefficients[k] * load(columns[k], i)
                odd += coefficients[k + 1] * load(columns[k + 1], i)
            if features % 2:
                even += coefficients[features - 1] * load(columns[features - 1], i)
            p = 1.0 / (1.0 + exp(-(even + odd)))
            here = load(shares, i)
            store(z_bar, i, here * where(here > 0.0, p - 1.0, -p))
        for k in range(features):
            column = columns[k]
            sums = broadcast(0.0)
            for i in range(0, len(rows), LANES):
                sums += load(z_bar, i) * load(column, i)
            bar[k] += total(sums)
    return bar


def epoch(
    x: NDArray[np.float32],
    share: FloatArray,
    train: IntArray,
    mean: FloatArray,
    std: FloatArray,
    words: NDArray[np.uint32],
    residual: FloatArray,
    square: FloatArray,
    done: int,
    epochs: int,
    size: int,
    start_rate: float,
    beta: float,
    decay: float,
) -> None:
    """One pass over shuffled batches of rows `train`; changes `residual` and `square` (k,).

    `words` are the n - 1 random words of `torch.randperm(n)`, `done` the epochs behind.
    """
    n = len(train)
    order = train.astype(np.uint32)
    for k in range(n - 1):
        # Numbers of 32 bits divide in half the time.
        other = k + np.int64(words[k] % np.uint32(n - k))
        order[k], order[other] = order[other], order[k]
    batches = (n + size - 1) // size
    for batch in range(batches):
        step = done * batches + batch
        rate = start_rate * (1 + math.cos(math.pi * step / (epochs * batches))) / 2
        chosen = order[batch * size : (batch + 1) * size]
        slope = gradient(x, share, chosen, residual * std + mean) * std
        correction = math.sqrt(1 - beta ** (step + 1))
        for k in range(len(slope)):
            square[k] = beta * square[k] + (1 - beta) * slope[k] * slope[k]
            residual[k] *= 1 - rate * decay
            residual[k] -= rate * slope[k] / (math.sqrt(square[k]) / correction + 1e-8)
