"""Ebisu v2 (Ahmed Fasih): Bayesian updates of a belief about each card's half-life.

The recall probability t days after the last review is believed to have the distribution
Beta(alpha, beta); at another time delta it is that variable to the power delta / t. A quiz at
delta = tnow multiplies the density by p^(tnow/t) (success) or 1 - p^(tnow/t) (failure).
The result is matched to a Beta distribution by its first two moments at the new
half-life, the time at which its mean is 1/2. So alpha = beta after every update.

    fasiha/ebisu, ebisu.py 2.2.0 `updateRecall`, `predictRecall` (exact=True) and README
    start: 512 days, alpha = beta = 0.2; intervals at least 0.001 days (srs-benchmark)

Here cards with the same intervals and outcomes so far share one belief. All
arithmetic is on logarithms of ratios of Beta functions, which also stays finite where the
package gives up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import UNTRAINED_FLAGS, Context, Cost, TrainedModel
from srs_eval.training.trie import card_steps, state_before

_START_HALFLIFE = 512.0  # days
_START_ALPHA = 0.2
_SHORTEST_INTERVAL = 0.001  # days

_LOG_2 = math.log(2)

# Differences of logarithms of Gamma functions

_SHIFT = np.arange(8.0)[:, None]
_SHIFTED = 8.0  # arguments are shifted by so much, since the series need large ones
# Stirling's series sum B_2k / (2k (2k-1) x^(2k-1)), highest power first; its error is 1e-14 at 8.
_STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)


def _stirling(x: FloatArray) -> FloatArray:
    """Return log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2) for x >= 8."""
    square = 1 / (x * x)
    series = np.full_like(x, _STIRLING[0])
    for coefficient in _STIRLING[1:]:
        series = series * square + coefficient
    return series / x


def _log_gamma_ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return log Gamma(a) - log Gamma(a + b) for a, b > 0.

    This is log Beta(a, b) without the term of b alone, written without the difference of large
    terms, so that a may be anything up to 1e15. The argument is first shifted by 8:

        Gamma(a) = Gamma(a + 8) / (a (a+1) ... (a+7))
    """
    shift = np.log(np.multiply.reduce(1 + b / (a + _SHIFT), axis=0))
    x = a + _SHIFTED
    y = x + b
    result: FloatArray = (
        shift - (x - 0.5) * np.log1p(b / x) - b * (np.log(y) - 1) + (_stirling(x) - _stirling(y))
    )
    return result


# The series for the digamma function: sum B_2k / (2k x^2k).
_DIGAMMA = (-691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)


def _log_minus_digamma(x: FloatArray) -> FloatArray:
    """Return log x - psi(x) for x >= 8."""
    square = 1 / (x * x)
    series = np.full_like(x, _DIGAMMA[0])
    for coefficient in _DIGAMMA[1:]:
        series = series * square + coefficient
    return 0.5 / x + series * square


def _digamma_difference(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return psi(a + b) - psi(a) for a, b > 0.

    This is minus the derivative of `_log_gamma_ratio` with respect to a.
    """
    steps = a + _SHIFT
    shift = np.add.reduce(b / (steps * (steps + b)), axis=0)
    x = a + _SHIFTED
    y = x + b

    result: FloatArray = shift + np.log1p(b / x) + (_log_minus_digamma(x) - _log_minus_digamma(y))
    return result


# One update


def _update(
    alpha: FloatArray, halflife: FloatArray, success: NDArray[np.bool_], tnow: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return alpha (= beta) and half-life in days after a quiz `tnow` days after the last.

    Shapes are (n,). With dt = tnow / t and B the Beta function, moment N of the posterior at time x
    t is

        success   B(alpha + dt + N x, beta) / B(alpha + dt, beta)
        failure   (B(alpha + N x, beta) - B(alpha + dt + N x, beta))
                  / (B(alpha, beta) - B(alpha + dt, beta))

    The new half-life is x t where moment 1 is 1/2; alpha and beta follow from moment 2.
    """
    dt = tnow / halflife
    base = np.where(success, alpha + dt, alpha)
    failed = np.flatnonzero(~success)

    def log_weight(x: FloatArray) -> FloatArray:
        return _log_weight(base + x, alpha, failed, dt[failed])

    at_review = log_weight(np.zeros_like(dt))

    def log_twice_the_mean(x: FloatArray) -> FloatArray:
        return log_weight(x) - at_review + _LOG_2

    x = _find_root(log_twice_the_mean, base)
    mean = 0.5
    second = np.exp(log_weight(2 * x) - at_review)
    # E[p^2] - E[p]^2, kept above 0 for beliefs that are almost certain.
    variance = np.maximum(second - mean * mean, 1e-15)
    return mean * (mean * (1 - mean) / variance - 1), x * halflife


def _log_weight(a: FloatArray, b: FloatArray, failed: IntArray, dt: FloatArray) -> FloatArray:
    """Return log B(a, b), but log(B(a, b) - B(a + dt, b)) at the positions `failed`.

    log Gamma(b) is subtracted from both. `dt` has the shape of `failed`.
    """
    if not len(failed):
        return _log_gamma_ratio(a, b)
    a_failed = a[failed]
    b_failed = b[failed]
    ratios = _log_gamma_ratio(np.concatenate([a, a_failed + dt]), np.concatenate([b, b_failed]))
    result = ratios[: len(a)]
    drop = result[failed] - ratios[len(a) :]  # log of B(a) / B(a + dt)
    # For a short dt the difference of logarithms loses digits; the derivative keeps them.
    short = np.flatnonzero(dt < 3e-5 * a_failed)
    if len(short):
        drop[short] = dt[short] * _digamma_difference(
            a_failed[short] + dt[short] / 2, b_failed[short]
        )
    result[failed] += np.log(-np.expm1(-drop))
    return result


def _find_root(f: Callable[[FloatArray], FloatArray], base: FloatArray) -> FloatArray:
    """Return the root of each of n decreasing functions f, given f(0) = log 2.

    This is the secant method in v = log(1 + x / base), in which f is almost a straight line; a step
    that leaves the interval known to hold the root becomes a bisection.
    """
    low = np.zeros_like(base)  # f > 0
    high = np.full_like(base, np.inf)  # f < 0
    v_before = low
    f_before = np.full_like(base, _LOG_2)
    v = np.log1p(1 / base)  # begin with x = 1: the half-life stays
    for _ in range(100):
        f_v = f(base * np.expm1(v))
        low = np.where(f_v > 0, v, low)
        high = np.where(f_v < 0, v, high)
        change = f_v - f_before
        flat = change == 0
        step = -f_v * (v - v_before) / np.where(flat, 1.0, change)
        new = v + np.where(flat, 0.0, np.clip(step, -8.0, 8.0))
        outside = ((new <= low) | (new >= high)) & (f_v != 0)
        if outside.any():
            middle = np.where(np.isinf(high), low + 8.0, 0.5 * (low + np.minimum(high, 1e3)))
            new = np.where(outside, middle, new)
        v_before = v
        f_before = f_v
        v = new
        if np.all(np.abs(v - v_before) <= 1e-8 * np.minimum(v, 1.0)):
            break
    result: FloatArray = base * np.expm1(v)
    return result


# Beliefs of all cards


def _compute_beliefs(trials: Trials) -> tuple[FloatArray, FloatArray]:
    """Return alpha (= beta) and half-life in days after each history row, (m,) each.

    Cards whose outcomes and intervals were the same so far share one belief, which is updated once.
    """
    steps = card_steps(trials)
    after_alpha = np.full(len(trials.history_rating), _START_ALPHA)
    after_halflife = np.full(len(trials.history_rating), _START_HALFLIFE)
    interval = np.maximum(trials.history_delta_t, _SHORTEST_INTERVAL)
    outcome = np.unique(interval, return_inverse=True)[1] * 2 + (trials.history_rating > 1)
    outcomes = int(outcome.max(initial=0)) + 1
    belief = np.zeros(len(steps[0]), np.int64)  # of each card
    alpha = np.array([_START_ALPHA])
    halflife = np.array([_START_HALFLIFE])
    for rows in steps:
        key = belief[: len(rows)] * outcomes + outcome[rows]
        _, example, belief = np.unique(key, return_index=True, return_inverse=True)
        parent = key[example] // outcomes
        row = rows[example]
        alpha, halflife = _update(
            alpha[parent], halflife[parent], trials.history_rating[row] > 1, interval[row]
        )
        after_alpha[rows] = alpha[belief]
        after_halflife[rows] = halflife[belief]
    return after_alpha, after_halflife


def _predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    """Return expected recall B(alpha + delta_t / t, beta) / B(alpha, beta).

    The result has the shape of `index`.
    """
    after_alpha, after_halflife = trials.derived(_compute_beliefs)
    alpha = state_before(trials, after_alpha, index)
    halflife = state_before(trials, after_halflife, index)
    dt = trials.delta_t[index] / halflife
    log_recall = _log_gamma_ratio(alpha + dt, alpha) - _log_gamma_ratio(alpha, alpha)
    recall: FloatArray = np.exp(np.clip(log_recall, -700.0, 0.0))
    return recall


MODELS = (
    TrainedModel(
        name="Ebisu-v2",
        family="other",
        inputs="IL, G",
        parameters=0,
        source="fasiha/ebisu 2.2.0; srs-benchmark (2024) other.py `ebisu_v2`",
        predict=_predict,
        known_decks_only=True,
        flags=UNTRAINED_FLAGS,
        cost=Cost(seconds_per_10k=0.005),
        note=(
            "Starts from a half-life of 512 days as in srs-benchmark. "
            "On data sets, reviews of missing cards or decks are not evaluated, as there."
        ),
    ),
)
