"""The template of the penalties on schedules; see `scheduled`. Import it inside functions only."""

from __future__ import annotations

import math
from typing import Any

from srs_eval.training.simd import as_tuple

VALUES = 0  # parameters and constants
first: Any = None
first_adjoint: Any = None
success: Any = None
success_adjoint: Any = None
recall: Any = None
recall_slope: Any = None
recall_adjoint: Any = None

_NEWTON_STEPS = 7
LEAST, MOST = math.log(1 / 86_400), math.log(36_500)  # of ln days
_TEN_MINUTES = 600 / 86_400
_GOOD = 3.0
GROWTH_AT, SHORT_AT = 0.9, 0.99  # desired retention
OF_GROWTH, OF_SHORT = 0.5, 0.0015  # weights


def penalty_pass(weights: Any, w_bar: Any, kept: Any) -> float:
    """The penalty; adds its gradient to `w_bar` (values,). `kept` (reviews, 7) is scratch."""
    w = as_tuple(weights, VALUES)
    reviews = len(kept)
    penalty = 0.0
    for of_growth in (True, False):
        target = GROWTH_AT if of_growth else SHORT_AT
        state = first(_GOOD, w)
        for i in range(reviews):
            u = math.log(state[0])
            for _ in range(_NEWTON_STEPS):
                u = min(max(u, LEAST), MOST)
                t = math.exp(u)
                steepness = min(recall_slope(t, state, w, 1.0) * t, -1e-12)
                u -= (recall(t, state, w) - target) / steepness
            u = min(max(u, LEAST), MOST)
            t = math.exp(u)
            steepness = min(recall_slope(t, state, w, 1.0) * t, -1e-9)
            v = u - (recall(t, state, w) - target) / steepness
            interval = math.exp(min(max(v, LEAST), MOST))
            kept[i, 0], kept[i, 1], kept[i, 2] = state
            kept[i, 3], kept[i, 4] = t, interval
            kept[i, 5] = -interval / steepness if LEAST <= v <= MOST else 0.0  # by R(t)
            kept[i, 6] = 0.0  # gradient of the penalty by the interval
            state = success(state, interval, _GOOD, w)

        if of_growth:
            largest, at = 0.0, -1
            for i in range(reviews - 1):
                if kept[i, 4] >= 1.0 and kept[i + 1, 4] / kept[i, 4] > largest:
                    largest, at = kept[i + 1, 4] / kept[i, 4], i
            if at < 0:
                continue
            penalty += OF_GROWTH * largest * largest
            kept[at, 6] = -2.0 * OF_GROWTH * largest * largest / kept[at, 4]
            kept[at + 1, 6] = 2.0 * OF_GROWTH * largest / kept[at, 4]
        else:
            count, total = 0, 0.0
            for i in range(reviews):
                if kept[i, 4] < 1.0:
                    count += 1
                    total += kept[i, 4]
            if count == 0 or total / count >= _TEN_MINUTES:
                continue
            mean = total / count
            penalty += OF_SHORT * (1.0 / mean - 1.0 / _TEN_MINUTES)
            for i in range(reviews):
                if kept[i, 4] < 1.0:
                    kept[i, 6] = -OF_SHORT / (mean * mean * count)

        bar = (0.0, 0.0, 0.0)
        for back in range(reviews):
            i = reviews - 1 - back
            state = (kept[i, 0], kept[i, 1], kept[i, 2])
            interval = kept[i, 4]
            by_success, of_interval = success_adjoint(state, interval, _GOOD, w, bar, w_bar)
            of_recall = kept[i, 5] * (kept[i, 6] + of_interval)
            by_recall = recall_adjoint(kept[i, 3], state, w, of_recall, w_bar)
            bar = (
                by_success[0] + by_recall[0],
                by_success[1] + by_recall[1],
                by_success[2] + by_recall[2],
            )
        first_adjoint(_GOOD, w, bar, w_bar)
    return penalty
