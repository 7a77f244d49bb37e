"""The template of a linear predictor's kernel: loss, gradient and Adam, eight rows at once.

`visit_batches` is compiled once per model with its `recall_and_slope` (`compile.specialised`).
This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import math
from typing import Any

from srs_eval.training.simd import LANES, broadcast, load, log, rows_of, single, store, total, where

PARAMETERS = 0
recall_and_slope: Any = None


def visit_batches(
    order: Any, done: int, w: Any, batches: Any, mean: Any, square: Any, rate: float, steps: int
) -> float:
    """Visits the batches in `order`; returns the sum of their losses before each step.

    done < 0: evaluates only. Otherwise `done` of `steps` steps of training are behind,
    and each batch makes one more, which changes `w`, `mean` and `square` (k,). Recall
    and the lanes of the last batch's gradient stay in `batches`.
    """
    x, t, y, weight = batches.x, batches.t, batches.y, batches.weight
    first, recall = batches.first, batches.recall
    sums = rows_of(batches.w_bar)
    loss = broadcast(0.0)
    for b in order:
        for k in range(PARAMETERS):
            sums[k] = broadcast(0.0)
        for i in range(first[b], first[b + 1], LANES):
            z = broadcast(0.0)
            for k in range(PARAMETERS):
                z += w[k] * load(x[k], i)
            p, slope = recall_and_slope(z, load(t, i))
            p = single(p)  # what upstream computes in; see loss
            store(recall, i, p)
            passed, shares = load(y, i), load(weight, i)
            surprise = -log(where(passed > 0.0, p, 1.0 - p))
            loss += shares * where(surprise > 100.0, 100.0, surprise)
            if done >= 0:
                both = p * (1.0 - p)
                both = where(both < 1e-12, 1e-12, both)
                z_bar = shares * (p - passed) / both * slope
                for k in range(PARAMETERS):
                    sums[k] = sums[k] + load(x[k], i) * z_bar
        if done < 0:
            continue
        now = rate * (1.0 + math.cos(math.pi * done / steps)) / 2.0
        done += 1
        for k in range(PARAMETERS):
            gradient = total(sums[k])
            mean[k] += 0.1 * (gradient - mean[k])
            square[k] += 0.001 * (gradient * gradient - square[k])
            scale = math.sqrt(square[k]) / math.sqrt(1.0 - 0.999**done) + 1e-8
            w[k] -= now / (1.0 - 0.9**done) * mean[k] / scale
    return total(loss)
