"""Steps of optimisers as torch takes them: Adam's, and the whole of L-BFGS.

Adam: Kingma and Ba (2014), with cosine annealing (Loshchilov and Hutter 2016).
L-BFGS with a strong Wolfe line search, in the steps of torch.optim.LBFGS: Nocedal and Wright,
Numerical Optimization (2006), algorithms 3.5, 3.6 and 7.4; limits and tolerances as in
torch/optim/lbfgs.py, so that a fit takes the same path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray

_Objective = Callable[[FloatArray], tuple[float, FloatArray]]

_DECREASE = 1e-4  # c1
_CURVATURE = 0.9  # c2


@dataclass(frozen=True, eq=False)
class _Point:
    """A place on the line: step length, value, gradient and slope along the line."""

    t: float
    f: float
    g: FloatArray
    slope: float


def annealed(rate: float, done: int, steps: int) -> float:
    """The learning rate after `done` of `steps` steps, along half a cosine."""
    return rate * (1.0 + np.cos(np.pi * done / steps)) / 2.0


def adam_step(rate: float, mean: Any, square: Any, bias_mean: float, bias_square: float) -> Any:
    """What a step takes off weights, by the running means of the gradient and of its square.

    The biases are 1 - beta**steps, of the square its root. Callers run the means themselves: by
    b m + (1 - b) g or by m + (1 - b)(g - m), as what they follow does, which rounds differently.
    Compiled into kernels, too.
    """
    return rate / bias_mean * mean / (np.sqrt(square) / bias_square + 1e-8)


def minimise(
    objective: _Objective,
    start: FloatArray,
    *,
    iterations: int,
    history: int,
    tolerance_gradient: float,
    tolerance_change: float,
) -> FloatArray:
    """Where the search ends (k,); at most 1.25 * iterations evaluations, as in torch."""
    x = start.copy()
    f, g = objective(x)
    evaluations, most = 1, iterations * 5 // 4
    if np.abs(g).max() <= tolerance_gradient:
        return x
    steps: list[FloatArray] = []
    changes: list[FloatArray] = []
    scale = 1.0
    direction, t, before = -g, 0.0, g
    for iteration in range(iterations):
        if iteration:
            step, change = direction * t, g - before
            curvature = float(change @ step)
            if curvature > 1e-10:
                steps, changes = [*steps, step][-history:], [*changes, change][-history:]
                scale = curvature / float(change @ change)
            direction = _two_loops(-g, steps, changes, scale)
        before, f_before = g, f
        t = min(1.0, 1.0 / float(np.abs(g).sum())) if not iteration else 1.0
        slope = float(g @ direction)
        if slope > -tolerance_change:
            break

        def along(t: float, x: FloatArray = x, direction: FloatArray = direction) -> _Point:
            f, g = objective(x + t * direction)
            return _Point(t, f, g, float(g @ direction))

        found, used = _line_search(
            along,
            _Point(0.0, f, g, slope),
            t,
            float(np.abs(direction).max()),
            tolerance_change,
            most - evaluations,
        )
        t, f, g = found.t, found.f, found.g
        x = x + t * direction
        evaluations += used
        if (
            evaluations >= most
            or np.abs(g).max() <= tolerance_gradient
            or np.abs(direction * t).max() <= tolerance_change
            or abs(f - f_before) < tolerance_change
        ):
            break
    return x


def _two_loops(
    q: FloatArray, steps: list[FloatArray], changes: list[FloatArray], scale: float
) -> FloatArray:
    """The product of the inverse Hessian's approximation with q."""
    shares = []
    for step, change in zip(reversed(steps), reversed(changes), strict=True):
        share = float(step @ q) / float(change @ step)
        q = q - share * change
        shares.append(share)
    q = q * scale
    for step, change, share in zip(steps, changes, reversed(shares), strict=True):
        q = q + step * (share - float(change @ q) / float(change @ step))
    return q


def _line_search(
    along: Callable[[float], _Point],
    origin: _Point,
    t: float,
    length: float,
    tolerance: float,
    most: int,
) -> tuple[_Point, int]:
    """A point with enough decrease and a flat enough slope, and the evaluations used,
    `most` after the first."""
    previous = origin
    now = along(t)
    searches = 0
    bracket: list[_Point] = []
    while searches < most:
        if not _decreases(now, origin) or (searches > 1 and now.f >= previous.f):
            bracket = [previous, now]
            break
        if abs(now.slope) <= -_CURVATURE * origin.slope:
            return now, searches + 1
        if now.slope >= 0:
            bracket = [previous, now]
            break
        low = now.t + 0.01 * (now.t - previous.t)
        t = _cubic_minimum(previous, now, low, now.t * 10)
        previous, now = now, along(t)
        searches += 1
    if not bracket:
        bracket = [origin, now]

    stuck = False
    best = int(bracket[0].f > bracket[1].f)
    while searches < most:
        left, right = sorted(point.t for point in bracket)
        if (right - left) * length < tolerance:
            break
        t = _cubic_minimum(bracket[0], bracket[1], left, right)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = along(t)
        searches += 1
        if not _decreases(now, origin) or now.f >= bracket[best].f:
            bracket[1 - best] = now
            best = int(bracket[0].f > bracket[1].f)
        else:
            if abs(now.slope) <= -_CURVATURE * origin.slope:
                bracket[best] = now
                break
            if now.slope * (bracket[1 - best].t - bracket[best].t) >= 0:
                bracket[1 - best] = bracket[best]
            bracket[best] = now
    return bracket[best], searches + 1


def _decreases(point: _Point, origin: _Point) -> bool:
    return point.f <= origin.f + _DECREASE * point.t * origin.slope


def _cubic_minimum(a: _Point, b: _Point, low: float, high: float) -> float:
    """Least value of the cubic through two points with their slopes, within low ... high."""
    d1 = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    if a.t > b.t:
        a, b = b, a
    rise = b.slope - a.slope + 2 * d2
    if rise == 0:
        return (low + high) / 2
    t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / rise)
    return min(max(t, low), high)
