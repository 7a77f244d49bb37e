"""Models of one linear predictor z = x . w: their loss, its gradient, and the fit.

A model gives `recall_and_slope(z, t)`: the probability of recall t days after the
last review, and its derivative in z, written with `elementwise`. Training is that of
srs-benchmark other.py `Trainer` (January 2025), torch.optim; `adam` is the same for other models
whose gradient is one function call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.training import hyperparameters
from srs_eval.training.compile import specialised
from srs_eval.training.hyperparameters import Context
from srs_eval.training.optimisers import (
    adam_step,
    annealed,
    batch_seed,
    permutations,
    quicksort_order,
)
from srs_eval.training.trie import LANES

_RATE = hyperparameters.learning_rate(0.04)
_EPOCHS = hyperparameters.epochs(5)
BATCH_SIZE = hyperparameters.batch_size()
HYPERPARAMETERS = (_RATE, _EPOCHS, BATCH_SIZE, hyperparameters.SEED)

_Recall = Callable[[Any, Any], tuple[Any, Any]]


class _RowBatches(NamedTuple):
    """Rows batch by batch, each filled up to whole vectors with rows of weight 0 (m rows)."""

    x: FloatArray  # (k, m)
    t: FloatArray  # (m,) days
    y: FloatArray  # (m,)
    weight: FloatArray  # (m,)
    first: IntArray  # (batches + 1,) where each begins
    recall: FloatArray  # (m,) of the last visit
    w_bar: FloatArray  # (k, LANES)


def _row_batches(
    x: FloatArray, t: FloatArray, y: FloatArray, weight: FloatArray, size: int
) -> _RowBatches:
    """Batches of `size` of the rows x (n, k) in their order."""
    n, k = x.shape
    counts = np.full(max(-(-n // size), 1), size)
    counts[-1] = n - size * (len(counts) - 1)
    room = -(-counts // LANES) * LANES
    first = np.concatenate(([0], np.cumsum(room)))
    row = np.arange(n)
    place = row + (first[:-1] - size * np.arange(len(counts)))[row // size]

    def spread(values: FloatArray) -> FloatArray:
        padded = np.zeros(first[-1])
        padded[place] = values
        return padded

    columns = np.zeros((k, first[-1]))
    columns[:, place] = x.T
    empty = np.zeros(first[-1])
    return _RowBatches(
        columns, spread(t), spread(y), spread(weight), first, empty, np.zeros((k, LANES))
    )


@cache
def _kernel(name: str, model: _Recall, parameters: int) -> Any:
    from srs_eval.training.sweeps import visit_batches

    return specialised(
        visit_batches, f"linear_{name}", {"_recall_and_slope": model}, {"_PARAMETERS": parameters}
    )


def loss_and_gradient(
    name: str,
    model: _Recall,
    x: FloatArray,
    t: FloatArray,
    y: FloatArray,
    weight: FloatArray,
    w: FloatArray,
) -> tuple[float, FloatArray]:
    """Weighted sum of the losses of the rows x (n, k), and its gradient in w (k,)."""
    batches = _row_batches(x, t, y, weight, len(y))
    none = np.zeros(len(w))
    visit = _kernel(name, model, len(w))
    loss = visit(np.zeros(1, np.int64), 0, w.copy(), batches, none, none.copy(), 0.0, 1)
    return float(loss), batches.w_bar.sum(axis=1)


@dataclass(frozen=True)
class Linear:
    """A model of one linear predictor: its `fit` and `predict` are those of a `Model`."""

    name: str  # an identifier, the same for the same curve only
    recall_and_slope: _Recall
    features: Callable[[Trials], FloatArray]  # (n, k) of all trials
    start: Callable[[Trials], Sequence[float]]  # (k,)

    def fit(
        self, trials: Trials, train: IntArray, weights: FloatArray, context: Context
    ) -> list[float]:
        """The weights (k,) fitted on the rows `train` of the features, as srs-benchmark does.

        The weights of the epoch with the least loss are kept; it is looked at before each epoch
        and at the end, so the start can win. All sequences have equal length there, so the
        order of the rows is that of its unstable sort of equal keys.
        """
        if not len(train):
            raise NotEnoughData("no reviews to train on")
        order = quicksort_order(np.zeros(len(train), np.int64))
        rows = train[order]
        size = BATCH_SIZE.integer(context, trials.protocol)
        epochs, rate = _EPOCHS.integer(context), _RATE.number(context)
        x = trials.derived(self.features)[rows]
        batches = _row_batches(x, trials.delta_t[rows], trials.y[rows], weights[order], size)
        n_batches = math.ceil(len(rows) / size)
        w = np.array(self.start(trials), np.float64)
        mean, square = np.zeros_like(w), np.zeros_like(w)
        visit = _kernel(self.name, self.recall_and_slope, len(w))
        steps = epochs * n_batches
        every = np.arange(n_batches)
        orders = permutations(n_batches, batch_seed(context))
        best, best_loss = w.copy(), np.inf
        for epoch in range(epochs + 1):
            loss = visit(every, -1, w, batches, mean, square, rate, steps)
            if loss < best_loss:
                best, best_loss = w.copy(), loss
            context.tick(epoch / epochs)
            if epoch < epochs:
                visited = np.asarray(next(orders), np.int64)
                visit(visited, epoch * n_batches, w, batches, mean, square, rate, steps)
        result: list[float] = best.tolist()
        return result

    def predict(
        self, trials: Trials, parameters: Any, index: IntArray, context: Context
    ) -> FloatArray:
        """Probabilities of recall of the trials `index` (shape of index); at the start for none."""
        n, x = len(index), trials.derived(self.features)[index]
        w = np.array(parameters or self.start(trials), np.float64)
        batches = _row_batches(x, trials.delta_t[index], trials.y[index], np.ones(n), n)
        none = np.zeros(len(w))
        visit = _kernel(self.name, self.recall_and_slope, len(w))
        visit(np.zeros(1, np.int64), -1, w, batches, none, none.copy(), 0.0, 1)
        return batches.recall[:n]


def adam(
    start: FloatArray,
    gradient: Callable[[FloatArray, int], FloatArray],
    total_loss: Callable[[FloatArray], float],
    n_batches: int,
    context: Context,
    *,
    lower: FloatArray | float = -np.inf,
    upper: FloatArray | float = np.inf,
) -> FloatArray:
    """Adam with a cosine schedule; the weights of the epoch with the least loss (k,).

    `gradient(w, batch)` is that of one batch's summed loss, `total_loss(w)` the loss over
    all rows. It is looked at before each epoch and at the end, so the start can win.
    """
    w = start.copy()
    best, best_loss = start.copy(), np.inf
    mean = np.zeros_like(w)
    square = np.zeros_like(w)
    rate, n_epoch = _RATE.number(context), _EPOCHS.integer(context)
    steps = n_epoch * n_batches
    step = 0
    orders = permutations(n_batches, batch_seed(context))
    for epoch in range(n_epoch + 1):
        loss = total_loss(w)
        if loss < best_loss:
            best, best_loss = w.copy(), loss
        for batch in next(orders).tolist() if epoch < n_epoch else ():
            slope = gradient(w, batch)
            current = annealed(rate, step, steps)
            step += 1
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope * slope - square)
            w -= adam_step(current, mean, square, 1 - 0.9**step, math.sqrt(1 - 0.999**step))
            np.clip(w, lower, upper, out=w)
            context.tick(step / steps)
    return best
