"""Models of one linear predictor z = x . w: their loss, its gradient, and the fit.

A model gives `recall_and_slope(z, t)`: the probability of recall t days after the
last review, and its derivative in z.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from srs_eval.errors import NotEnoughData
from srs_eval.models import Context
from srs_eval.models._compile import specialised
from srs_eval.models._history_loss import loss_of, single, slope_of
from srs_eval.models._history_training import adam
from srs_eval.models._tie_order import quicksort_order
from srs_eval.protocol import Trials
from srs_eval.reviews import FloatArray, IntArray

Recall = Callable[[float, float], tuple[float, float]]


def recall_and_slope(z: float, t: float) -> tuple[float, float]:
    """Replaced by the model's own where a kernel is made of the functions below."""
    raise NotImplementedError


def _loss(x: FloatArray, t: FloatArray, y: FloatArray, weight: FloatArray, w: FloatArray) -> float:
    """Weighted sum of the losses of the rows x (n, k)."""
    total = 0.0
    for row in range(len(y)):
        z = 0.0
        for k in range(len(w)):
            z += x[row, k] * w[k]
        p, _ = recall_and_slope(z, t[row])
        total += weight[row] * loss_of(single(p), y[row])
    return total


def _gradient(
    x: FloatArray, t: FloatArray, y: FloatArray, weight: FloatArray, w: FloatArray
) -> FloatArray:
    """Gradient of `_loss` in w (k,)."""
    bar = np.zeros(len(w))
    for row in range(len(y)):
        z = 0.0
        for k in range(len(w)):
            z += x[row, k] * w[k]
        p, slope = recall_and_slope(z, t[row])
        z_bar = weight[row] * slope_of(single(p), y[row]) * slope
        for k in range(len(w)):
            bar[k] += x[row, k] * z_bar
    return bar


def _recall(x: FloatArray, t: FloatArray, w: FloatArray) -> FloatArray:
    p = np.empty(len(t))
    for row in range(len(t)):
        z = 0.0
        for k in range(len(w)):
            z += x[row, k] * w[k]
        recall, _ = recall_and_slope(z, t[row])
        p[row] = single(recall)
    return p


@cache
def kernels(name: str, model: Recall) -> tuple[Any, Any, Any]:
    """Loss, gradient and recall, compiled for one model's `recall_and_slope`."""
    steps: dict[str, Callable[..., Any]] = {
        "recall_and_slope": model,
        "single": single,
        "loss_of": loss_of,
        "slope_of": slope_of,
    }
    loss, gradient, recall = (
        specialised(template, name, steps, {}) for template in (_loss, _gradient, _recall)
    )
    return loss, gradient, recall


def fit(
    name: str,
    model: Recall,
    features: FloatArray,
    start: Sequence[float],
    trials: Trials,
    train: IntArray,
    weights: FloatArray,
    context: Context,
) -> list[float]:
    """The weights (k,) fitted on the rows `train` of the features (n, k), as srs-benchmark does.

    All sequences have equal length there, so the order of the rows is that of its
    unstable sort of equal keys.
    """
    if not len(train):
        raise NotEnoughData("no reviews to train on")
    loss, gradient, _ = kernels(name, model)
    order = quicksort_order(np.zeros(len(train), np.int64))
    rows = train[order]
    x, t, y, weight = features[rows], trials.delta_t[rows], trials.y[rows], weights[order]
    size = trials.protocol.batch_size

    def batch_gradient(w: FloatArray, batch: int) -> FloatArray:
        part = slice(batch * size, (batch + 1) * size)
        slope: FloatArray = gradient(x[part], t[part], y[part], weight[part], w)
        return slope

    return adam(
        np.array(start),
        batch_gradient,
        lambda w: float(loss(x, t, y, weight, w)),
        math.ceil(len(rows) / size),
        n_epoch=5,
        rate=0.04,
        tick=context.tick,
    ).tolist()


def predict(
    name: str,
    model: Recall,
    features: FloatArray,
    w: Sequence[float],
    trials: Trials,
    index: IntArray,
) -> FloatArray:
    """Probabilities of recall of the trials `index` (shape of index)."""
    _, _, recall = kernels(name, model)
    p: FloatArray = recall(features[index], trials.delta_t[index], np.array(w, np.float64))
    return p
