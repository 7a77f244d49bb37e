"""FSRS-6 for n cards at once, and the fuzz of intervals, for simulated learners.

Formulas as described by open-spaced-repetition/fsrs-optimizer; fuzz as in ankitects/anki
(rslib/src/scheduler/states/fuzz.rs). `w` has shape (21, n), everything else (n,).
"""

from __future__ import annotations

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray

DEFAULT_PARAMETERS = (
    0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796,
    1.4835, 0.0614, 0.2629, 1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542,
)  # fmt: skip
"""FSRS-6's defaults, taken as an average learner's memory."""

# How much learners differ: standard deviation of each parameter's logarithm.
SPREAD = np.array([0.4] * 4 + [0.08, 0.15, 0.1, 0.1, 0.12, 0.1, 0.12, 0.12, 0.1, 0.1, 0.1]
                   + [0.1, 0.1, 0.15, 0.1, 0.1, 0.15])  # fmt: skip


def retrievability(w: FloatArray, stability: FloatArray, days: FloatArray) -> FloatArray:
    """Probability of recall `days` after the last review."""
    factor = 0.9 ** (-1 / w[20]) - 1
    result: FloatArray = (1 + factor * days / stability) ** -w[20]
    return result


def interval_for(w: FloatArray, stability: FloatArray, retention: FloatArray) -> FloatArray:
    """Days until the probability of recall falls to `retention`."""
    factor = 0.9 ** (-1 / w[20]) - 1
    result: FloatArray = stability / factor * (retention ** (-1 / w[20]) - 1)
    return result


def _initial_difficulty(w: FloatArray, rating: IntArray | float) -> FloatArray:
    result: FloatArray = w[4] - np.exp(w[5] * (rating - 1)) + 1
    return result


def first_state(w: FloatArray, rating: IntArray) -> tuple[FloatArray, FloatArray]:
    """Stability and difficulty after a card's first review."""
    stability = np.take_along_axis(w[:4], rating[None] - 1, 0)[0]
    return stability, np.clip(_initial_difficulty(w, rating), 1, 10)


def next_state(
    w: FloatArray, stability: FloatArray, difficulty: FloatArray, rating: IntArray, days: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Stability and difficulty after a review `days` (whole; 0: same day) after the last."""
    s, d = stability, difficulty
    r = retrievability(w, s, days)
    bonus = np.where(rating == 2, w[15], np.where(rating == 4, w[16], 1.0))
    recalled = s * (
        1 + np.exp(w[8]) * (11 - d) * s ** -w[9] * (np.exp(w[10] * (1 - r)) - 1) * bonus
    )
    forgotten = w[11] * d ** -w[12] * ((s + 1) ** w[13] - 1) * np.exp(w[14] * (1 - r))
    forgotten = np.minimum(forgotten, s / np.exp(w[17] * w[18]))
    increase = np.exp(w[17] * (rating - 3 + w[18])) * s ** -w[19]
    same_day = s * np.where(rating >= 3, np.maximum(increase, 1), increase)
    later = np.where(rating == 1, forgotten, recalled)
    damped = d - w[6] * (rating - 3) * (10 - d) / 9
    reverted = w[7] * _initial_difficulty(w, 4.0) + (1 - w[7]) * damped
    return (
        np.clip(np.where(days > 0, later, same_day), 0.001, 36_500.0),
        np.clip(reverted, 1, 10),
    )


def fuzzed(random: np.random.Generator, interval: FloatArray) -> IntArray:
    """Whole days near `interval`, spread as in Anki so that cards do not stay together."""
    spread = (
        1
        + 0.15 * np.clip(interval - 2.5, 0, 4.5)
        + 0.1 * np.clip(interval - 7, 0, 13)
        + 0.05 * np.maximum(interval - 20, 0)
    )
    low = np.maximum(np.round(interval - spread), 2)
    high = np.maximum(np.round(interval + spread), low)
    drawn = np.floor(low + random.random(len(interval)) * (high - low + 1))
    return np.where(interval < 2.5, np.round(interval), drawn).astype(np.int64)
