"""Models of one linear predictor z = x . w: their loss, its gradient, and the fit.

A model gives `recall_and_slope(z, t)`: the probability of recall t days after the last review, and
its derivative with respect to z, written with `elementwise`. Training is that of srs-benchmark
other.py `Trainer` (January 2025), with torch's Adam. `minimise_by_adam` trains other models the
same way, given a function for the gradient.
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
from srs_eval.training.compile import specialise
from srs_eval.training.hyperparameters import Context
from srs_eval.training.optimisers import (
    anneal,
    argsort_by_quicksort,
    compute_adam_step,
    compute_batch_seed,
    draw_permutations,
)
from srs_eval.training.trie import LANES

_RATE = hyperparameters.learning_rate(0.04)
_EPOCHS = hyperparameters.epochs(5)
BATCH_SIZE = hyperparameters.batch_size()
HYPERPARAMETERS = (_RATE, _EPOCHS, BATCH_SIZE, hyperparameters.SEED)

_RecallAndSlope = Callable[[Any, Any], tuple[Any, Any]]


class _RowBatches(NamedTuple):
    """Rows batch by batch, each batch padded to whole vectors with rows of weight 0 (m rows)."""

    x: FloatArray  # (k, m)
    t: FloatArray  # (m,) days
    y: FloatArray  # (m,)
    weight: FloatArray  # (m,)
    first: IntArray  # (batches + 1,) first row of each batch
    recall: FloatArray  # (m,) at the last visit
    w_bar: FloatArray  # (k, LANES)


def _make_row_batches(
    x: FloatArray, t: FloatArray, y: FloatArray, weight: FloatArray, size: int
) -> _RowBatches:
    """Cut the rows x (n, k), in their order, into batches of `size` rows."""
    n, k = x.shape
    counts = np.full(max(-(-n // size), 1), size)
    counts[-1] = n - size * (len(counts) - 1)
    padded_counts = -(-counts // LANES) * LANES
    first = np.concatenate(([0], np.cumsum(padded_counts)))
    # A row moves by as much as its batch does.
    row = np.arange(n)
    position = row + (first[:-1] - size * np.arange(len(counts)))[row // size]

    def spread(values: FloatArray) -> FloatArray:
        padded = np.zeros(first[-1])
        padded[position] = values
        return padded

    columns = np.zeros((k, first[-1]))
    columns[:, position] = x.T
    return _RowBatches(
        x=columns,
        t=spread(t),
        y=spread(y),
        weight=spread(weight),
        first=first,
        recall=np.zeros(first[-1]),
        w_bar=np.zeros((k, LANES)),
    )


@cache
def _compile_kernel(name: str, model: _RecallAndSlope, parameters: int) -> Any:
    from srs_eval.training.sweeps import linear_pass

    return specialise(
        linear_pass, f"linear_{name}", {"_recall_and_slope": model}, {"_PARAMETERS": parameters}
    )


def loss_and_gradient(
    name: str,
    model: _RecallAndSlope,
    x: FloatArray,
    t: FloatArray,
    y: FloatArray,
    weight: FloatArray,
    w: FloatArray,
) -> tuple[float, FloatArray]:
    """Return the weighted sum of the losses of the rows x (n, k), and its gradient (k,).

    `name` is that of a `LinearModel`.
    """
    batches = _make_row_batches(x, t, y, weight, len(y))
    mean = np.zeros(len(w))
    square = np.zeros(len(w))
    run_pass = _compile_kernel(name, model, len(w))
    # A step of training at rate 0 leaves the gradient in `batches`.
    loss = run_pass(np.zeros(1, np.int64), 0, w.copy(), batches, mean, square, 0.0, 1)
    return float(loss), batches.w_bar.sum(axis=1)


@dataclass(frozen=True)
class LinearModel:
    """A model of one linear predictor, with the `fit` and `predict` of a `TrainedModel`."""

    name: str  # an identifier; models share it only if they share the curve
    recall_and_slope: _RecallAndSlope
    features: Callable[[Trials], FloatArray]  # (n, k) of all trials
    start: Callable[[Trials], Sequence[float]]  # (k,)

    def fit(
        self, trials: Trials, train: IntArray, weights: FloatArray, context: Context
    ) -> list[float]:
        """Fit the weights (k,) on the rows `train` of the features, as srs-benchmark does.

        The weights of the epoch with the least loss are kept. The loss is evaluated before each
        epoch and after the last, so the initial weights can be kept. srs-benchmark sorts
        the rows by a length that is the same for all of them, with an unstable sort: its order of
        equal keys is the order of the rows.
        """
        if not len(train):
            raise NotEnoughData("no reviews to train on")
        order = argsort_by_quicksort(np.zeros(len(train), np.int64))
        rows = train[order]
        size = BATCH_SIZE.integer_in(context, trials.protocol)
        epochs = _EPOCHS.integer_in(context)
        rate = _RATE.number_in(context)
        x = trials.derived(self.features)[rows]
        batches = _make_row_batches(x, trials.delta_t[rows], trials.y[rows], weights[order], size)
        n_batches = math.ceil(len(rows) / size)
        w = np.array(self.start(trials), np.float64)
        mean = np.zeros_like(w)
        square = np.zeros_like(w)
        run_pass = _compile_kernel(self.name, self.recall_and_slope, len(w))
        steps = epochs * n_batches
        all_batches = np.arange(n_batches)
        orders = draw_permutations(n_batches, compute_batch_seed(context))
        best = w.copy()
        best_loss = np.inf
        for epoch in range(epochs + 1):
            loss = run_pass(all_batches, -1, w, batches, mean, square, rate, steps)
            if loss < best_loss:
                best = w.copy()
                best_loss = loss
            context.tick(epoch / epochs)
            if epoch < epochs:
                batch_order = np.asarray(next(orders), np.int64)
                done = epoch * n_batches
                run_pass(batch_order, done, w, batches, mean, square, rate, steps)
        result: list[float] = best.tolist()
        return result

    def predict(
        self, trials: Trials, parameters: Any, index: IntArray, context: Context
    ) -> FloatArray:
        """Return the probabilities of recall of the trials `index` (shape of index).

        Without parameters, the initial weights are used.
        """
        n = len(index)
        x = trials.derived(self.features)[index]
        w = np.array(parameters or self.start(trials), np.float64)
        batches = _make_row_batches(x, trials.delta_t[index], trials.y[index], np.ones(n), n)
        mean = np.zeros(len(w))
        square = np.zeros(len(w))
        run_pass = _compile_kernel(self.name, self.recall_and_slope, len(w))
        run_pass(np.zeros(1, np.int64), -1, w, batches, mean, square, 0.0, 1)
        return batches.recall[:n]


def minimise_by_adam(
    start: FloatArray,
    gradient: Callable[[FloatArray, int], FloatArray],
    total_loss: Callable[[FloatArray], float],
    n_batches: int,
    context: Context,
    *,
    lower: FloatArray | float = -np.inf,
    upper: FloatArray | float = np.inf,
) -> FloatArray:
    """Minimise by Adam with a cosine schedule; return the weights (k,) of the best epoch.

    `gradient(w, batch)` is the gradient of the summed loss of batch number `batch`, `total_loss(w)`
    the loss over all rows. The latter decides on the best epoch; it is evaluated before each epoch
    and after the last, so the initial weights can be kept.
    """
    w = start.copy()
    best = start.copy()
    best_loss = np.inf
    mean = np.zeros_like(w)
    square = np.zeros_like(w)
    rate = _RATE.number_in(context)
    epochs = _EPOCHS.integer_in(context)
    steps = epochs * n_batches
    step = 0
    orders = draw_permutations(n_batches, compute_batch_seed(context))
    for epoch in range(epochs + 1):
        loss = total_loss(w)
        if loss < best_loss:
            best = w.copy()
            best_loss = loss
        if epoch == epochs:
            break
        for batch in next(orders).tolist():
            slope = gradient(w, batch)
            annealed_rate = anneal(rate, step, steps)
            step += 1
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope * slope - square)
            bias_mean = 1 - 0.9**step
            bias_square = math.sqrt(1 - 0.999**step)
            w -= compute_adam_step(annealed_rate, mean, square, bias_mean, bias_square)
            np.clip(w, lower, upper, out=w)
            context.tick(step / steps)
    return best
