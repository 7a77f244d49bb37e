"""Fit initial stabilities to the first interval of each card (fsrs-optimizer `pretrain`).

Each first rating gets the stability whose forgetting curve fits the recall after the
first interval best. The reference minimises with scipy's L-BFGS-B, whose early stop
(as many iterations as reviews, tolerances) is part of the result where data are few,
so the same method is followed here in its one-dimensional form: Byrd, Lu, Nocedal and
Zhu (1995); line search by Moré and Thuente (1994); forward differences of 1e-8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.training.compile import compile_kernel

_Point = tuple[float, float, float]
"""A step, and the loss and its slope there."""
_Problem = tuple[FloatArray, FloatArray, FloatArray, float, float, float]
"""Intervals, recall, counts, default, decay and pull, as `_compute_loss` takes them."""
_HARD_WEIGHT = 0.41  # w1 and w2 of `_fill_missing_stabilities`
_GOOD_WEIGHT = 0.54


@dataclass(frozen=True)
class InitialStability:
    """Settings for fitting the initial stabilities of one model.

    R(t) = (1 + factor t/S)^-decay with factor such that R(S) = 0.9.
    """

    default: tuple[float, float, float, float]
    decay: float
    minimum: float  # days
    maximum: float = 100.0
    smoothing: float = 1.0  # reviews of average recall added to each interval
    pull: float = 1 / 16  # factor on |S - default| in the loss


@dataclass(frozen=True, eq=False)
class _FirstIntervals:
    """Groups of cards' second reviews (i = 2) with the same first rating and interval."""

    rating: IntArray  # (g,), sorted
    delta_t: FloatArray  # (g,), sorted within a rating
    group_of_trial: IntArray  # (n,) group of each trial, -1 where i != 2


def _group_first_intervals(trials: Trials) -> _FirstIntervals:
    second = np.flatnonzero(trials.i == 2)
    delta_t, interval = np.unique(trials.delta_t[second], return_inverse=True)
    intervals = max(len(delta_t), 1)
    key = trials.first_rating[second] * intervals + interval  # one number for both
    keys, group_of_second = np.unique(key, return_inverse=True)
    group_of_trial = np.full(len(trials), -1)
    group_of_trial[second] = group_of_second
    rating, interval_of_group = np.divmod(keys, intervals)
    return _FirstIntervals(rating, delta_t[interval_of_group], group_of_trial)


def fit_initial_stability(
    trials: Trials, train: IntArray, settings: InitialStability
) -> list[float]:
    """Fit S0 in days for Again, Hard, Good and Easy on the positions `train`.

    Raises NotEnoughData if no card's second review is among them.
    """
    groups = trials.derived(_group_first_intervals)
    group = groups.group_of_trial[train]
    second = group >= 0
    size = len(groups.rating)
    count = np.bincount(group[second], minlength=size).astype(np.float64)
    recalled = np.bincount(group[second], weights=trials.y[train][second], minlength=size)
    average = float(trials.y[train].mean()) if len(train) else 0.0
    has_reviews = count > 0
    if not has_reviews.any():
        raise NotEnoughData("no card has a second review to fit the initial stabilities on")
    smoothed_count = np.where(has_reviews, count + settings.smoothing, 1.0)
    recall = (recalled + average * settings.smoothing) / smoothed_count
    fitted: dict[int, float] = {}
    reviews: dict[int, float] = {}
    for rating in range(1, 5):
        selected = has_reviews & (groups.rating == rating)
        if not selected.any():
            continue
        reviews[rating] = float(count[selected].sum())
        problem = (
            groups.delta_t[selected],
            recall[selected],
            count[selected],
            settings.default[rating - 1],
            settings.decay,
            settings.pull,
        )
        fitted[rating] = compile_kernel(_minimise)(
            problem, settings.minimum, settings.maximum, int(reviews[rating])
        )
    return order_and_complete(fitted, reviews, settings)


def count_second_reviews(trials: Trials, train: IntArray) -> dict[int, float]:
    """Count the cards' second reviews among `train`, by first rating."""
    second = train[trials.i[train] == 2]
    counts = np.bincount(trials.first_rating[second], minlength=5)
    return {rating: float(counts[rating]) for rating in range(1, 5) if counts[rating]}


def order_and_complete(
    fitted: dict[int, float], reviews: Mapping[int, float], settings: InitialStability
) -> list[float]:
    """Return S0 of all four ratings, given those of the ratings used and how many reviews each has.

    Raises NotEnoughData if no rating was used.
    """
    if not fitted:
        raise NotEnoughData("no card has a second review to fit the initial stabilities on")
    _order_stabilities(fitted, reviews)
    values = _fill_missing_stabilities(fitted, settings.default)
    return [max(min(settings.maximum, value), settings.minimum) for value in values]


def _order_stabilities(fitted: dict[int, float], reviews: Mapping[int, float]) -> None:
    """Make a better rating's stability at least as long; the one with more reviews wins.

    Each pair is compared once, neighbours first, so a rating in between can end up out of order.
    fsrs-optimizer 5.7.0 (`Optimizer.pretrain`) and srs-benchmark (`pretrain` of
    models/fsrs_v7.py at commit 7737214e767c) do the same, with pairs in this order; if the numbers
    of reviews are equal, the better rating's stability wins there, too.
    """
    for small, big in ((1, 2), (2, 3), (3, 4), (1, 3), (2, 4), (1, 4)):
        if small in fitted and big in fitted and fitted[small] > fitted[big]:
            if reviews[small] > reviews[big]:
                fitted[big] = fitted[small]
            else:
                fitted[small] = fitted[big]


def _fill_missing_stabilities(fitted: dict[int, float], default: Sequence[float]) -> list[float]:
    """Return all four stabilities, computing those of ratings that were never used.

    log S2 = w1 log S1 + (1 - w1) log S3 and log S3 = (1 - w2) log S2 + w2 log S4.
    """
    if len(fitted) == 1:
        ((rating, value),) = fitted.items()
        return [s * value / default[rating - 1] for s in default]
    s = {rating: math.log(value) for rating, value in fitted.items()}
    if 2 not in s and 3 not in s:  # solve both equations together
        total_weight = _HARD_WEIGHT + _GOOD_WEIGHT - _HARD_WEIGHT * _GOOD_WEIGHT
        s[2] = (_HARD_WEIGHT * s[1] + (1 - _HARD_WEIGHT) * _GOOD_WEIGHT * s[4]) / total_weight
    lower = (1, 2, 3)
    upper = (2, 3, 4)
    for _ in range(2):  # the second equation may need what the first gives, or vice versa
        triples = (upper, lower) if 3 not in s else (lower, upper)
        for triple in triples:
            unknown = [rating for rating in triple if rating not in s]
            if len(unknown) == 1:
                a, b, c = triple
                share = _HARD_WEIGHT if triple == lower else 1 - _GOOD_WEIGHT
                # Both equations read s[b] = share * s[a] + (1 - share) * s[c].
                if unknown == [a]:
                    s[a] = (s[b] - (1 - share) * s[c]) / share
                elif unknown == [b]:
                    s[b] = share * s[a] + (1 - share) * s[c]
                else:
                    s[c] = (s[b] - share * s[a]) / (1 - share)
    return [fitted[k] if k in fitted else math.exp(s[k]) for k in range(1, 5)]


def _compute_loss(s: float, problem: _Problem) -> float:
    """Return the log loss of the stability s, with the pull towards the default."""
    delta_t, recall, count, default, decay, pull = problem
    factor = 0.9 ** (-1.0 / decay) - 1.0
    loss = 0.0
    for k in range(len(delta_t)):
        r = (1.0 + factor * delta_t[k] / s) ** -decay
        loss -= (recall[k] * math.log(r) + (1.0 - recall[k]) * math.log(1.0 - r)) * count[k]
    return loss + abs(s - default) * pull


def _compute_slope(s: float, value: float, high: float, problem: _Problem) -> float:
    """Return the slope at s, whose loss is `value`: a forward difference, backward at `high`."""
    h = 1e-8 if s + 1e-8 <= high else -1e-8
    moved = s + h
    return (_compute_loss(moved, problem) - value) / (moved - s)


def _fit_cubic(first: _Point, second: _Point) -> tuple[float, float]:
    """Return theta and root of the cubic through two points with slopes."""
    (a, fa, ga), (b, fb, gb) = first, second
    theta = 3.0 * (fa - fb) / (b - a) + ga + gb
    scale = max(abs(theta), abs(ga), abs(gb))
    inner = (theta / scale) ** 2 - (ga / scale) * (gb / scale)
    return theta, scale * math.sqrt(max(inner, 0.0))


def _next_trial(
    best: _Point, end: _Point, trial: _Point, bracketed: bool, low: float, high: float
) -> tuple[float, bool]:
    """Return the next step of Moré and Thuente's search, and whether a minimum is bracketed.

    It follows from the best step so far, the other end of the interval, and the step just tried.
    """
    (x, fx, gx), (t, ft, gt), y = best, trial, end[0]
    if ft > fx:  # the minimum lies between: cubic, or halfway to the quadratic
        theta, root = _fit_cubic(best, trial)
        if t < x:
            root = -root
        share = ((root - gx) + theta) / (((root - gx) + root) + gt)
        cubic = x + share * (t - x)
        quadratic = x + ((gx / ((fx - ft) / (t - x) + gx)) / 2.0) * (t - x)
        if abs(cubic - x) < abs(quadratic - x):
            return cubic, True
        return cubic + (quadratic - cubic) / 2.0, True
    if gt * math.copysign(1.0, gx) < 0.0:  # slopes of opposite sign: between, too
        theta, root = _fit_cubic(best, trial)
        if t > x:
            root = -root
        share = ((root - gt) + theta) / (((root - gt) + root) + gx)
        cubic = t + share * (x - t)
        secant = t + (gt / (gt - gx)) * (x - t)
        return (cubic if abs(cubic - t) > abs(secant - t) else secant), True
    if abs(gt) < abs(gx):  # same sign, flatter: the minimum may lie beyond
        theta, root = _fit_cubic(best, trial)
        if t > x:
            root = -root
        share = ((root - gt) + theta) / ((root + (gx - gt)) + root)
        beyond = high if t > x else low
        cubic = t + share * (x - t) if share < 0.0 and root != 0.0 else beyond
        secant = t + (gt / (gt - gx)) * (x - t)
        if bracketed:
            step = cubic if abs(cubic - t) < abs(secant - t) else secant
            limit = t + 0.66 * (y - t)
            return (min(limit, step) if t > x else max(limit, step)), True
        step = cubic if abs(cubic - t) > abs(secant - t) else secant
        return max(low, min(high, step)), False
    if bracketed:
        theta, root = _fit_cubic(trial, end)
        if t > y:
            root = -root
        share = ((root - gt) + theta) / (((root - gt) + root) + end[2])
        return t + share * (y - t), True
    return (high if t > x else low), False


def _search_line(
    s: float,
    f_start: float,
    g: float,
    d: float,
    max_step: float,
    target: float,
    high: float,
    problem: _Problem,
) -> tuple[float, float, float, float, bool]:
    """Search from s along d as Moré and Thuente do.

    The loss at s is f_start, its slope g; `target` is s + d without rounding errors. Returns the
    step, loss, stability and slope where the search ends, and whether it failed. The constants
    are L-BFGS-B's: 1e-3 for sufficient decrease, 0.9 for curvature, 0.1 for the width.
    """
    slope = g * d
    t, ft, gt = 1.0, f_start, slope
    s_new, g_new = s, g
    if slope >= 0.0:
        return t, ft, s_new, g_new, True
    enough = 1e-3 * slope
    bracketed = slope > 0.0  # false; a literal would be compiled as a type of its own
    first_stage = True
    width = max_step
    width_before = 2.0 * width
    x, fx, gx = 0.0, f_start, slope
    y, fy, gy = 0.0, f_start, slope
    t_low, t_high = 0.0, t + 4.0 * t
    tries = 0
    while True:
        if tries >= 20:
            return t, ft, s_new, g_new, True
        tries += 1
        s_new = target if t == 1.0 else s + t * d
        ft = _compute_loss(s_new, problem)
        g_new = _compute_slope(s_new, ft, high, problem)
        gt = g_new * d
        line = f_start + t * enough
        if first_stage and ft <= line and gt >= 0.0:
            first_stage = False
        if bracketed and (t <= t_low or t >= t_high or t_high - t_low <= 0.1 * t_high):
            break
        if t == max_step and ft <= line and gt <= enough:
            break
        if t == 0.0 and (ft > line or gt >= enough):
            break
        if ft <= line and abs(gt) <= 0.9 * -slope:
            break
        # The first stage minimises the loss less its sufficient decrease.
        tilt = enough if first_stage and ft <= fx and ft > line else 0.0
        step, bracketed = _next_trial(
            (x, fx - x * tilt, gx - tilt),
            (y, fy - y * tilt, gy - tilt),
            (t, ft - t * tilt, gt - tilt),
            bracketed,
            t_low,
            t_high,
        )
        if ft - t * tilt > fx - x * tilt:
            y, fy, gy = t, ft, gt
        else:
            if (gt - tilt) * math.copysign(1.0, gx - tilt) < 0.0:
                y, fy, gy = x, fx, gx
            x, fx, gx = t, ft, gt
        t = step
        if bracketed:
            if abs(y - x) >= 0.66 * width_before:
                t = x + 0.5 * (y - x)
            width_before = width
            width = abs(y - x)
            t_low, t_high = min(x, y), max(x, y)
        else:
            t_low, t_high = t + 1.1 * (t - x), t + 4.0 * (t - x)
        t = max(0.0, min(max_step, t))
        if bracketed and (t <= t_low or t >= t_high or t_high - t_low <= 0.1 * t_high):
            t = x
    return t, ft, s_new, g_new, False


def _minimise(problem: _Problem, low: float, high: float, max_iterations: int) -> float:
    """Return the stability in [low, high] where L-BFGS-B stops.

    It starts at the default and makes at most `max_iterations` iterations.
    """
    s = problem[3]
    f = _compute_loss(s, problem)
    g = _compute_slope(s, f, high, problem)
    curvature = 1.0
    learned = False  # curvature is from a step, not the initial guess
    # L-BFGS-B keeps its products of earlier steps as it goes, but not where the next point
    # lies on a bound; once it lies inside again they are unusable, and it starts over.
    stale = False
    iterations = 0
    # 1e-5 and 2.2e-9 are scipy's tolerances of the projected gradient and of the loss.
    if abs(max(min(s - g, high), low) - s) <= 1e-5:
        return s
    while True:
        target = max(min(s - g / curvature, high), low)
        if learned and (target <= low or target >= high):
            stale = True
        elif learned and stale:
            curvature, learned, stale = 1.0, False, False
            target = max(min(s - g, high), low)
        d = target - s
        slope = g * d
        longest = 1.0
        if iterations > 0 and d != 0.0:
            room = (high - s) / d if d > 0.0 else (low - s) / d
            longest = min(1e10, room)
        f_start = f
        t, ft, s_new, g_new, failed = _search_line(s, f, g, d, longest, target, high, problem)
        if failed:
            if not learned:
                return s
            curvature, learned, stale = 1.0, False, False
            continue
        iterations += 1
        s_change, g_change = s_new - s, g_new - g
        s, f, g = s_new, ft, g_new
        if iterations >= max_iterations:
            return s
        if abs(max(min(s - g, high), low) - s) <= 1e-5:
            return s
        if f_start - f <= 2.220446049250313e-09 * max(abs(f_start), abs(f), 1.0):
            return s
        # The curvature is kept where the slope did not rise along the step.
        if g_change * s_change > 2.2e-16 * -slope * t:
            curvature, learned = g_change / s_change, True
