"""The template of the penalties on schedules; see `scheduled`. Import it inside functions only."""

from __future__ import annotations

import math
from typing import Any

from srs_eval.fitting.simd import as_tuple

VALUES = 0  # parameters and constants
first: Any = None
first_adjoint: Any = None
success: Any = None
success_adjoint: Any = None
success_interval_bar: Any = None
recall_slopes: Any = None
interval_bar: Any = None

NEWTON_STEPS = 7
LEAST, MOST = math.log(1 / 86_400), math.log(36_500)  # of ln days
TEN_MINUTES = 600 / 86_400
GOOD = 3.0
GROWTH_AT, SHORT_AT = 0.9, 0.99  # desired retention
OF_GROWTH, OF_SHORT = 0.5, 0.0015  # weights


def penalty_pass(weights: Any, w_bar: Any, kept: Any) -> float:
    """The penalty; adds its gradient to `w_bar` (values,). `kept` (reviews, 7) is scratch."""
    w = as_tuple(weights, VALUES)
    reviews = len(kept)
    penalty = 0.0
    for of_growth in (True, False):
        target = GROWTH_AT if of_growth else SHORT_AT
        state = first(GOOD, w)
        for i in range(reviews):
            u = math.log(state[0])
            for _ in range(NEWTON_STEPS):
                u = min(max(u, LEAST), MOST)
                t = math.exp(u)
                r, slope, _ = recall_slopes(t, state, w)
                u -= (r - target) / min(slope * t, -1e-12)
            u = min(max(u, LEAST), MOST)
            t = math.exp(u)
            r, slope, _ = recall_slopes(t, state, w)
            steepness = min(slope * t, -1e-9)
            v = u - (r - target) / steepness
            interval = math.exp(min(max(v, LEAST), MOST))
            kept[i, 0], kept[i, 1], kept[i, 2] = state
            kept[i, 3], kept[i, 4] = t, interval
            kept[i, 5] = -interval / steepness if LEAST <= v <= MOST else 0.0  # by R(t)
            kept[i, 6] = 0.0  # gradient of the penalty by the interval
            state = success(state, interval, GOOD, w)

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
            if count == 0 or total / count >= TEN_MINUTES:
                continue
            mean = total / count
            penalty += OF_SHORT * (1.0 / mean - 1.0 / TEN_MINUTES)
            for i in range(reviews):
                if kept[i, 4] < 1.0:
                    kept[i, 6] = -OF_SHORT / (mean * mean * count)

        bar = (0.0, 0.0, 0.0)
        for back in range(reviews):
            i = reviews - 1 - back
            state = (kept[i, 0], kept[i, 1], kept[i, 2])
            interval = kept[i, 4]
            of_interval = kept[i, 6] + success_interval_bar(state, interval, GOOD, w, bar)
            by_success = success_adjoint(state, interval, GOOD, w, bar, w_bar)
            by_interval = interval_bar(kept[i, 3], state, w, kept[i, 5] * of_interval, w_bar)
            bar = (
                by_success[0] + by_interval[0],
                by_success[1] + by_interval[1],
                by_success[2] + by_interval[2],
            )
        first_adjoint(GOOD, w, bar, w_bar)
    return penalty
