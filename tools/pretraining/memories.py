"""Kinds of memory besides FSRS-6 that a simulated learner can have.

There are several, so that models trained on simulated learners do not merely learn one
model's formulas: FSRS-4.5, half-life regression, DASH, and ACT-R's decaying traces.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray
from tools.simulated.memory import LONGEST, SHORTEST, Moment, Traits

_BoolArray = NDArray[np.bool_]


def _apply_logistic(z: FloatArray) -> FloatArray:
    result: FloatArray = 1 / (1 + np.exp(-z))
    return result


class Fsrs4Dot5:
    """FSRS-4.5 with parameters `w` (17,); reviews of the same day leave the memory as it is.

    Formulas: open-spaced-repetition, "The Algorithm" (FSRS-4.5).
    """

    name = "FSRS-4.5"

    def __init__(self, w: FloatArray) -> None:
        self.w = w

    def begin(self, traits: Traits) -> None:
        self.traits = traits
        self.stability, self.hard = np.full((2, len(traits.preset)), np.nan)

    def seen(self, cards: IntArray) -> _BoolArray:
        return ~np.isnan(self.stability[cards])

    def recall(self, cards: IntArray, moment: Moment) -> FloatArray:
        result: FloatArray = (1 + 19 / 81 * moment.waited / self.stability[cards]) ** -0.5
        return result

    def difficulty(self, cards: IntArray) -> FloatArray:
        return self.hard[cards]

    def learn(self, cards: IntArray, rating: IntArray, moment: Moment) -> None:
        w = self.w
        new = ~self.seen(cards)
        s = np.where(new, 1.0, self.stability[cards])
        d = np.where(new, 5.0, self.hard[cards])
        r = (1 + 19 / 81 * moment.days / s) ** -0.5
        bonus = np.where(rating == 2, w[15], np.where(rating == 4, w[16], 1.0))
        recalled = s * (
            1 + np.exp(w[8]) * (11 - d) * s ** -w[9] * np.expm1(w[10] * (1 - r)) * bonus
        )
        forgotten = w[11] * d ** -w[12] * ((s + 1) ** w[13] - 1) * np.exp(w[14] * (1 - r))
        changed = np.where(rating == 1, np.minimum(forgotten, s), recalled)
        harder = w[7] * w[4] + (1 - w[7]) * (d - w[6] * (rating - 3))
        first_d = w[4] - w[5] * (rating - 3) + self.traits.hardness[cards]
        first_s = w[rating - 1] * self.traits.strength[cards]
        stays = ~new & (moment.days == 0)
        grown = self.traits.later(cards, s, changed)
        self.stability[cards] = np.where(
            stays, s, np.clip(np.where(new, first_s, grown), SHORTEST, LONGEST)
        )
        self.hard[cards] = np.where(stays, d, np.clip(np.where(new, first_d, harder), 1, 10))


class HalfLife:
    """Half-life regression (Settles and Meeder, 2016) with parameters (3,), h = 2^(theta x).

    x = (sqrt(passes), sqrt(failures), 1); reviews of the same day are not counted. A card's
    strength multiplies h.
    """

    name = "HLR"

    def __init__(self, theta: FloatArray) -> None:
        self.theta = theta

    def begin(self, traits: Traits) -> None:
        self.traits = traits
        self.passes, self.failures = np.zeros((2, len(traits.preset)))

    def seen(self, cards: IntArray) -> _BoolArray:
        return self.passes[cards] + self.failures[cards] > 0

    def recall(self, cards: IntArray, moment: Moment) -> FloatArray:
        z = (
            self.theta[0] * np.sqrt(self.passes[cards])
            + self.theta[1] * np.sqrt(self.failures[cards])
            + self.theta[2]
        )
        half_life = 2.0 ** np.clip(z, -5, 15) * self.traits.strength[cards]
        result: FloatArray = 2.0 ** (-moment.waited / half_life)
        return result

    def difficulty(self, cards: IntArray) -> FloatArray:
        return np.clip(5 + 2 * self.traits.hardness[cards], 1, 10)

    def learn(self, cards: IntArray, rating: IntArray, moment: Moment) -> None:
        counts = ~self.seen(cards) | (moment.days > 0)
        self.passes[cards] += counts & (rating > 1)
        self.failures[cards] += counts & (rating == 1)


class _Past:
    """Times of each card's reviews, one column per review; grows as needed."""

    def __init__(self, cards: int) -> None:
        self.count = np.zeros(cards, np.int64)
        self.time = np.zeros((cards, 8))
        self.value = np.zeros((cards, 8))  # another value of the review

    def add(self, cards: IntArray, time: FloatArray, value: FloatArray) -> None:
        column = self.count[cards]
        if len(column) and column.max() >= self.time.shape[1]:
            self.time = np.concatenate([self.time, np.zeros_like(self.time)], axis=1)
            self.value = np.concatenate([self.value, np.zeros_like(self.value)], axis=1)
        self.time[cards, column] = time
        self.value[cards, column] = value
        self.count[cards] += 1

    def of(self, cards: IntArray) -> tuple[_BoolArray, FloatArray, FloatArray]:
        """Return which columns are filled, their times and their values, each (n, longest)."""
        count = self.count[cards]
        longest = int(count.max(initial=0))
        return (
            np.arange(longest) < count[:, None],
            self.time[cards, :longest],
            self.value[cards, :longest],
        )


class Dash:
    """DASH (Lindsey and others, 2014) with parameters (9,).

    Counts are taken over 1, 7 and 30 days and over all time; reviews of the same day do not
    count. A harder or weaker card has a lower logit; on the day of its last review a card is
    recalled more often than the counts say.
    """

    name = "DASH"
    windows = (1.0, 7.0, 30.0, math.inf)

    def __init__(self, theta: FloatArray) -> None:
        self.theta = theta

    def begin(self, traits: Traits) -> None:
        self.traits = traits
        self.past = _Past(len(traits.preset))

    def seen(self, cards: IntArray) -> _BoolArray:
        return self.past.count[cards] > 0

    def recall(self, cards: IntArray, moment: Moment) -> FloatArray:
        filled, day, success = self.past.of(cards)
        age = np.floor(moment.time)[:, None] - day
        z = self.theta[8] - 0.6 * self.traits.hardness[cards]
        z = z + 0.5 * np.log(self.traits.strength[cards])
        for number, window in enumerate(self.windows):
            inside = filled & (age <= window)
            z = z + self.theta[2 * number] * np.log1p(inside.sum(axis=1))
            z = z + self.theta[2 * number + 1] * np.log1p((inside * success).sum(axis=1))
        p = _apply_logistic(np.clip(z, -20, 20))
        return np.where(moment.days == 0, 1 - 0.4 * (1 - p), p)

    def difficulty(self, cards: IntArray) -> FloatArray:
        return np.clip(5 + 2 * self.traits.hardness[cards], 1, 10)

    def learn(self, cards: IntArray, rating: IntArray, moment: Moment) -> None:
        counts = ~self.seen(cards) | (moment.days > 0)
        day = np.floor(moment.time)
        self.past.add(cards[counts], day[counts], (rating[counts] > 1).astype(np.float64))


class ActR:
    """Memory traces that decay as powers of their age (Pavlik and Anderson, 2005).

    m = ln sum over reviews of age^-d, d = c e^m(at the time of that review) + a, and
    p = 1 / (1 + e^((tau - m) / s)); ages in seconds, of which only the share `h` counts
    for time between sessions. Every review leaves a trace; those of failures decay faster.
    """

    name = "ACT-R"

    def __init__(
        self, a: float, c: float, s: float, tau: float, h: float, after_failure: float
    ) -> None:
        self.a = a
        self.c = c
        self.s = s
        self.tau = tau
        self.h = h
        self.after_failure = after_failure  # added to d

    @staticmethod
    def around_literature(random: np.random.Generator) -> ActR:
        """Draw constants near those of Pavlik and Anderson (2005)."""
        return ActR(
            a=float(0.177 * np.exp(random.normal(0, 0.25))),
            c=float(0.217 * np.exp(random.normal(0, 0.3))),
            s=float(0.255 * np.exp(random.normal(0, 0.3))),
            tau=float(random.normal(-1.2, 0.3)),
            h=float(0.025 * np.exp(random.normal(0, 0.6))),
            after_failure=float(random.uniform(0.0, 0.15)),
        )

    def begin(self, traits: Traits) -> None:
        self.traits = traits
        self.past = _Past(len(traits.preset))

    def seen(self, cards: IntArray) -> _BoolArray:
        return self.past.count[cards] > 0

    def _activation(self, cards: IntArray, moment: Moment) -> FloatArray:
        filled, time, decay = self.past.of(cards)
        age = np.maximum((moment.time[:, None] - time) * 86_400 * self.h, 1.0)
        traces = np.where(filled, age**-decay, 0.0).sum(axis=1)
        result: FloatArray = np.log(np.maximum(traces, 1e-12))
        return result

    def recall(self, cards: IntArray, moment: Moment) -> FloatArray:
        tau = self.tau + 0.25 * self.traits.hardness[cards]
        z = (self._activation(cards, moment) - tau) / self.s
        return _apply_logistic(np.clip(z, -20, 20))

    def difficulty(self, cards: IntArray) -> FloatArray:
        return np.clip(5 + 2 * self.traits.hardness[cards], 1, 10)

    def learn(self, cards: IntArray, rating: IntArray, moment: Moment) -> None:
        before = np.where(self.seen(cards), np.exp(self._activation(cards, moment)), 0.0)
        decay = self.c * np.minimum(before, 3.0) + self.a / self.traits.strength[cards] ** 0.3
        decay += self.after_failure * (rating == 1) - 0.03 * (rating == 4)
        self.past.add(cards, moment.time, np.clip(decay, 0.02, 2.0))


class PowerLaw:
    """Recall that falls as a power of time, with a half-time that grows as a power of practice.

    p = 1 / (1 + t / h) and h = strength * a * x^b days, with practice x. A first review gives x by
    its button. Later, a passed review adds sqrt((1 - p) / 0.1), so that spaced reviews add more
    than massed ones, and a failed one multiplies x by `kept`. A harder card adds less.
    """

    name = "power law"

    def __init__(self, a: float, b: float, kept: float) -> None:
        self.a = a
        self.b = b
        self.kept = kept

    @staticmethod
    def draw(random: np.random.Generator) -> PowerLaw:
        """Draw constants with which a card's intervals at 90 % are about 3, 15, 40 and 80 days."""
        return PowerLaw(
            a=float(25.0 * np.exp(random.normal(0, 0.35))),
            b=float(random.uniform(2.0, 2.6)),
            kept=float(random.uniform(0.3, 0.6)),
        )

    def begin(self, traits: Traits) -> None:
        self.traits = traits
        self.practice = np.full(len(traits.preset), np.nan)

    def seen(self, cards: IntArray) -> _BoolArray:
        return ~np.isnan(self.practice[cards])

    def recall(self, cards: IntArray, moment: Moment) -> FloatArray:
        half_time = self.traits.strength[cards] * self.a * self.practice[cards] ** self.b
        result: FloatArray = 1 / (1 + moment.waited / half_time)
        return result

    def difficulty(self, cards: IntArray) -> FloatArray:
        return np.clip(5 + 2 * self.traits.hardness[cards], 1, 10)

    def learn(self, cards: IntArray, rating: IntArray, moment: Moment) -> None:
        new = ~self.seen(cards)
        first = np.array([0.4, 0.7, 1.0, 1.5])[rating - 1]
        before = np.where(new, 1.0, self.practice[cards])
        forgotten = np.where(new, 0.0, 1 - self.recall(cards, moment))
        gain = np.sqrt(forgotten / 0.1) * np.exp(-0.3 * self.traits.hardness[cards])
        gain *= np.array([0.0, 0.6, 1.0, 1.4])[rating - 1]
        later = np.where(rating == 1, np.maximum(self.kept * before, 0.3), before + gain)
        self.practice[cards] = np.where(new, first, later)
