"""A simulated learner's memory: its interface, FSRS-6 for n cards at once, the fuzz of intervals.

A memory keeps a state for each card, gives the probability of recall and is updated by each
answer. Kinds other than FSRS-6 live where networks are pretrained (`tools/pretraining`).

Formulas as described by open-spaced-repetition/fsrs-optimizer; fuzz as in ankitects/anki
(rslib/src/scheduler/states/fuzz.rs). `w` has shape (21, n), everything else (n,).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray

_BoolArray = NDArray[np.bool_]

DEFAULT_PARAMETERS = (
    0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796,
    1.4835, 0.0614, 0.2629, 1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542,
)  # fmt: skip
"""FSRS-6's defaults, taken as an average learner's memory."""

# Differences between learners: standard deviation of each parameter's logarithm.
SPREAD = np.array([0.4] * 4 + [0.08, 0.15, 0.1, 0.1, 0.12, 0.1, 0.12, 0.12, 0.1, 0.1, 0.1]
                   + [0.1, 0.1, 0.15, 0.1, 0.1, 0.15])  # fmt: skip


def retrievability(w: FloatArray, stability: FloatArray, days: FloatArray) -> FloatArray:
    """Return the probability of recall `days` after the last review."""
    factor = 0.9 ** (-1 / w[20]) - 1
    result: FloatArray = (1 + factor * days / stability) ** -w[20]
    return result


def interval_for(w: FloatArray, stability: FloatArray, retention: FloatArray) -> FloatArray:
    """Return the days until the probability of recall falls to `retention`."""
    factor = 0.9 ** (-1 / w[20]) - 1
    result: FloatArray = stability / factor * (retention ** (-1 / w[20]) - 1)
    return result


def _compute_initial_difficulty(w: FloatArray, rating: IntArray | float) -> FloatArray:
    result: FloatArray = w[4] - np.exp(w[5] * (rating - 1)) + 1
    return result


def first_state(w: FloatArray, rating: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return stability and difficulty after a card's first review."""
    stability = np.take_along_axis(w[:4], rating[None] - 1, 0)[0]
    return stability, np.clip(_compute_initial_difficulty(w, rating), 1, 10)


def next_state(
    w: FloatArray, stability: FloatArray, difficulty: FloatArray, rating: IntArray, days: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return stability and difficulty after a review `days` (whole; 0: same day) after the last."""
    s = stability
    d = difficulty
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
    reverted = w[7] * _compute_initial_difficulty(w, 4.0) + (1 - w[7]) * damped
    return (
        np.clip(np.where(days > 0, later, same_day), 0.001, 36_500.0),
        np.clip(reverted, 1, 10),
    )


def fuzz_interval(random: np.random.Generator, interval: FloatArray) -> IntArray:
    """Return whole days near `interval`, spread as in Anki so that cards do not stay together."""
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


# A memory

# Limits of stability, in days.
LONGEST = 36_500.0
SHORTEST = 0.001


class Moment(NamedTuple):
    """Time at which each of n cards is shown, in days (n,)."""

    time: FloatArray  # since the beginning of the first day
    days: FloatArray  # whole days since the card's last review; 0: same day
    waited: FloatArray  # like `days`, but a fraction of a day for reviews on the same day


@dataclass(frozen=True, eq=False)
class Traits:
    """Differences between cards, by position (size,); filled in by the simulation."""

    preset: IntArray  # position of the card's preset
    strength: FloatArray  # around 1: stability of its memory, relative to other cards
    hardness: FloatArray  # around 0: difficulty, relative to other cards
    lasting: float = 0.0
    """Exponent for FSRS: later stability grows by strength to the power of this. 0: strength
    affects the first review only."""

    def later(self, cards: IntArray, before: FloatArray, after: FloatArray) -> FloatArray:
        """Return stability after a later review, as the cards' strength changes it."""
        if not self.lasting:
            return after
        factor = self.strength[cards] ** self.lasting
        grown = np.where(after > before, before + (after - before) * factor, after * factor)
        return np.clip(grown, SHORTEST, LONGEST)


class Memory(Protocol):
    """One learner's memory; `begin` is called once, before anything else."""

    name: str

    def begin(self, traits: Traits) -> None:
        """Start without any card seen; the traits' length is the largest number of cards."""

    def seen(self, cards: IntArray) -> _BoolArray:
        """Return which cards have been reviewed at least once."""

    def recall(self, cards: IntArray, moment: Moment) -> FloatArray:
        """Return the probability of recall of cards that have been reviewed."""

    def difficulty(self, cards: IntArray) -> FloatArray:
        """Return how hard the cards feel, 1 to 10; NaN for cards never seen."""

    def learn(self, cards: IntArray, rating: IntArray, moment: Moment) -> None:
        """Update the memory with answers (1 to 4); for some cards it may be the first."""


class Fsrs6:
    """FSRS-6; `w` has shape (21, presets)."""

    name = "FSRS-6"

    def __init__(self, w: FloatArray) -> None:
        self.w = w

    def begin(self, traits: Traits) -> None:
        self.traits = traits
        self.stability, self.hard = np.full((2, len(traits.preset)), np.nan)

    def seen(self, cards: IntArray) -> _BoolArray:
        return ~np.isnan(self.stability[cards])

    def recall(self, cards: IntArray, moment: Moment) -> FloatArray:
        w = self.w[:, self.traits.preset[cards]]
        return retrievability(w, self.stability[cards], moment.waited)

    def difficulty(self, cards: IntArray) -> FloatArray:
        return self.hard[cards]

    def learn(self, cards: IntArray, rating: IntArray, moment: Moment) -> None:
        w = self.w[:, self.traits.preset[cards]]
        stability = self.stability[cards]
        difficulty = self.hard[cards]
        new = np.isnan(stability)
        first_s, first_d = first_state(w, rating)
        first_d = np.clip(first_d + self.traits.hardness[cards], 1, 10)
        later = next_state(
            w, np.where(new, 1, stability), np.where(new, 5, difficulty), rating, moment.days
        )
        grown = self.traits.later(cards, stability, later[0])
        self.stability[cards] = np.where(new, first_s * self.traits.strength[cards], grown)
        self.hard[cards] = np.where(new, first_d, later[1])
