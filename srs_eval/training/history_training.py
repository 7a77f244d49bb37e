"""Descent on models whose gradient is one function call, as srs-benchmark trains them.

Reference: srs-benchmark other.py `Trainer` (January 2025), torch.optim.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from srs_eval.data.reviews import FloatArray
from srs_eval.training import hyperparameters
from srs_eval.training.context import Context
from srs_eval.training.permutation import permutations

SEED = 2023  # of the order of batches
RATE = hyperparameters.learning_rate(0.04)
EPOCHS = hyperparameters.epochs(5)
BATCH_SIZE = hyperparameters.batch_size()
HYPERPARAMETERS = (RATE, EPOCHS, BATCH_SIZE, hyperparameters.SEED)


def adam(
    start: FloatArray,
    gradient: Callable[[FloatArray, int], FloatArray],
    total_loss: Callable[[FloatArray], float],
    n_batches: int,
    context: Context,
    *,
    clip: Callable[[FloatArray], None] | None = None,
) -> FloatArray:
    """Adam with a cosine schedule; the weights of the epoch with the least loss (k,).

    `gradient(w, batch)` is that of one batch's summed loss, `total_loss(w)` the loss over
    all rows. It is looked at before each epoch and at the end, so the start can win.
    """
    w = start.copy()
    best, best_loss = start.copy(), np.inf
    mean = np.zeros_like(w)
    square = np.zeros_like(w)
    rate, n_epoch = RATE.number(context), EPOCHS.integer(context)
    steps = n_epoch * n_batches
    step = 0
    orders = permutations(n_batches, SEED + hyperparameters.seed(context))
    for _ in range(n_epoch):
        loss = total_loss(w)
        if loss < best_loss:
            best, best_loss = w.copy(), loss
        for batch in next(orders).tolist():
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
            context.tick(step / steps)
    if total_loss(w) < best_loss:
        best = w.copy()
    return best
