"""Anki's older scheduler (SM-2 as Anki changed it), read as a model of memory.

The review-state formulas of Anki 24.11's scheduler as srs-benchmark has them
(other.py `class Anki`), learning steps and fuzz left out. Like SM-2 it predicts
nothing; R is derived from its interval:

    R(t) = 0.9^(t / interval)

Known quirk of the published figures, kept under the published name: the formulas of
Good and Easy are swapped, so that Good gets the easy bonus and Easy does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from srs_eval.models import UNTRAINED_FLAGS, Context, Model
from srs_eval.models._steps import before, card_steps
from srs_eval.models.sm2 import MAXIMUM_INTERVAL, recall_by_interval
from srs_eval.protocol import Trials
from srs_eval.reviews import FloatArray, IntArray

# Graduating interval, easy interval, starting ease, easy bonus, hard interval, new interval,
# interval multiplier: w[0] ... w[6], Anki's defaults.
DEFAULTS = (1.0, 4.0, 2.5, 1.3, 1.2, 0.0, 1.0)

_EASE_CHANGE = np.array([0.0, -0.2, -0.15, 0.0, 0.15])  # by rating


def first_step(w: Sequence[float], rating: IntArray) -> tuple[FloatArray, FloatArray]:
    """Interval and ease after a card's first review: w0 (Easy: w1) and w2. Shapes (n,)."""
    return _limited(np.where(rating < 4, w[0], w[1]), np.full(len(rating), w[2]))


def step(
    w: Sequence[float],
    delta_t: FloatArray,
    rating: IntArray,
    interval: FloatArray,
    ease: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Interval and ease after one more review, `delta_t` days after the last. Shapes (n,).

    With late = delta_t - interval:

        Again                 interval * w5
        Hard, late >= 0       interval * w4 * w6
        Good, late >= 0       (interval + late) * ease * w3 * w6
        Easy, late >= 0       (interval + late / 2) * ease * w6
        Hard, late < 0        max(delta_t * w4, interval * w4 / 2) * w6
        Good, late < 0        max(delta_t * ease, interval) * (w3 - (w3 - 1) / 2) * w6
        Easy, late < 0        max(delta_t * ease, interval) * w6

        ease <- ease - 0.2, - 0.15, + 0, + 0.15 for Again, Hard, Good, Easy
    """
    late = delta_t - interval
    elapsed = interval + late
    early_growth = np.maximum(elapsed * ease, interval)
    early = _by_answer(
        rating,
        hard=np.maximum(elapsed * w[4], interval * w[4] / 2),
        good=early_growth * (w[3] - (w[3] - 1) / 2),
        easy=early_growth,
    )
    on_time = _by_answer(
        rating,
        hard=interval * w[4],
        good=elapsed * ease * w[3],
        easy=(interval + late / 2) * ease,
    )
    passed = np.where(late < 0, early, on_time) * w[6]
    new_interval = np.where(rating == 1, interval * w[5], passed)
    return _limited(new_interval, ease + _EASE_CHANGE[rating])


def _by_answer(
    rating: IntArray, hard: FloatArray, good: FloatArray, easy: FloatArray
) -> NDArray[np.float64]:
    return np.where(rating == 2, hard, np.where(rating == 4, easy, good))


def _limited(interval: FloatArray, ease: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ease within 1.3 ... 5.5; intervals below a day shrink to a hundredth of their way below."""
    softened = np.where(interval < 1, 1 + 0.01 * (interval - 1), interval)
    return np.minimum(softened, MAXIMUM_INTERVAL), np.clip(ease, 1.3, 5.5)


def anki_intervals(trials: Trials, w: Sequence[float]) -> FloatArray:
    """The interval in days that the scheduler gives after each history row (m,)."""
    first, *later = card_steps(trials)
    after = np.ones(len(trials.history_rating))
    interval, ease = first_step(w, trials.history_rating[first])
    after[first] = interval
    for rows in later:
        left = len(rows)
        interval, ease = step(
            w,
            trials.history_delta_t[rows],
            trials.history_rating[rows],
            interval[:left],
            ease[:left],
        )
        after[rows] = interval
    return after


def predict(
    trials: Trials, parameters: Sequence[float], index: IntArray, context: Context
) -> FloatArray:
    """R(t) = target^(t / interval) for the trials `index` (shape of `index`)."""
    w = tuple(parameters)
    after = trials.derived(f"Anki intervals {w}", lambda trials: anki_intervals(trials, w))
    interval = before(trials, after, index)
    return recall_by_interval(trials.delta_t[index], interval, context.sm2_target)


def default(context: Context) -> list[float]:
    """Anki's default deck options."""
    return list(DEFAULTS)


MODELS = (
    Model(
        name="Anki",
        family="sm2",
        inputs="IL, G",
        parameters=7,
        source=(
            "ankitects/anki rslib/src/scheduler/states/review.rs; "
            "open-spaced-repetition/srs-benchmark other.py `Anki`"
        ),
        predict=predict,
        default=default,
        aliases={"Anki-SM-2": "Anki-dry-run"},
        configurations=("Anki-dry-run",),
        standard="Anki-dry-run",
        flags=UNTRAINED_FLAGS,
        seconds_per_10k=0.005,
        note=(
            "Anki's scheduler predicts nothing: R is derived from its interval, as if it aimed "
            "at 90 %. As published, Good and Easy are swapped."
        ),
    ),
)
