"""Tell whether Hard is pressed for forgotten cards, by what happens to cards after it.

FSRS counts Hard as remembered. A learner who presses it for forgotten cards cannot be found by
comparing recall after Hard with what a fitted FSRS expects, because the fit adapts to it. So the
growth of memory at a review is measured without the fit of what follows. The probability p that was
predicted for a review, t days after the one before, gives the stability before it by FSRS's
forgetting curve. If the review multiplies stability by e^g, recall after t' more days is

    R = (1 + e^-g t'/t (p^(-1/decay) - 1))^-decay.

g is fitted by maximum likelihood to the reviews after Hard, and to those after Good or Easy. Its
interval is that of the mean influence of the reviews, over days (Huber, 1967, Proceedings of the
Fifth Berkeley Symposium 1); where all are recalled, or all forgotten, that of the information.

In FSRS, Hard makes stability grow by w15 times as much as Good does: e^g of Hard is
1 + w15 (e^g of Good - 1). People differ in w15, which is 0 to 1. `chance` is the probability that
somebody whose w15 is drawn from 9,999 published users would show so little growth after Hard or
less. It is small only if cards are weaker after Hard than nearly anybody's are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import NORMAL_QUANTILE, Interval, mean_interval
from srs_eval.stats.search import find_minimum

_HARD = 2
_GOOD = 3
_EASY = 4
_DECAY = fsrs6.DEFAULT[20]
_PUBLISHED_W15 = (
    0.0, 0.004, 0.027, 0.046, 0.065, 0.081, 0.094, 0.108, 0.12, 0.133,
    0.145, 0.155, 0.166, 0.176, 0.186, 0.196, 0.205, 0.214, 0.221, 0.228,
    0.232, 0.234, 0.24, 0.247, 0.255, 0.266, 0.277, 0.289, 0.303, 0.318,
    0.334, 0.352, 0.374, 0.396, 0.425, 0.457, 0.504, 0.573, 0.667, 0.888,
)  # fmt: skip
"""FSRS-5's w15, fitted to each of 9,999 users of the published benchmark: quantiles at 1/80, 3/80
... 79/80. For 3 % of the users it is 0."""
_MIN_REVIEWS = 20  # fewest after Hard, and after Good or Easy, to fit growth
_MIN_P = 0.02  # keeps probabilities away from 0 and 1 where they give a stability
_MAX_LOG_GROWTH = 5.0
_BOUND_WIDTH = 0.01  # estimates so near to the largest or smallest growth are at it
_EPSILON = 1e-6  # keeps probabilities away from 0 and 1
_STANDARD_NORMAL = NormalDist()


@dataclass(frozen=True, eq=False)
class _ReviewPairs:
    """Held-out reviews (k,) whose review before is held out, too."""

    button: IntArray  # pressed at the review before
    odds: FloatArray  # t'/t (p^(-1/decay) - 1), see the module
    recalled: FloatArray  # 1.0 or 0.0
    day: IntArray

    def select(self, *buttons: int) -> _ReviewPairs:
        """Return the pairs with one of some buttons at the review before."""
        mask = np.isin(self.button, buttons)
        return _ReviewPairs(self.button[mask], self.odds[mask], self.recalled[mask], self.day[mask])

    @property
    def are_enough(self) -> bool:
        """Return True if growth can be fitted: there are enough pairs, on more than one day."""
        return len(self.day) >= _MIN_REVIEWS and len(np.unique(self.day)) > 1


def measure_learning_from_hard(learner: Learner) -> f.LearningFromHard | None:
    """Measure the growth of memory at reviews answered with Hard; None for too few of them."""
    pairs = _pair_reviews(learner)
    after_hard = pairs.select(_HARD)
    after_good = pairs.select(_GOOD, _EASY)
    if not (after_hard.are_enough and after_good.are_enough):
        return None
    hard = _fit_log_growth(after_hard)
    good = _fit_log_growth(after_good)
    return f.LearningFromHard(
        recalled=float(after_hard.recalled.mean()),
        unchanged=float(_recall(after_hard.odds, 0.0).mean()),
        hard=hard,
        good=good,
        chance=_compute_chance(hard, good),
    )


def _pair_reviews(learner: Learner) -> _ReviewPairs:
    """Return the held-out reviews whose review before is held out, too."""
    trials = learner.trials
    index = trials.test_index
    p = np.full(len(trials), np.nan)  # nan for reviews that are not held out
    p[index] = learner.held_out_predictions(f.OPTIMIZED)
    trial_of_row = np.full(len(trials.history_rating), -1)  # -1 for rows that are no trials
    trial_of_row[trials.history_end] = np.arange(len(trials))
    row_before = trials.history_end[index] - 1
    before = trial_of_row[row_before]  # trial of the review before
    has_before = (before >= 0) & ~np.isnan(p[before])
    index = index[has_before]
    before = before[has_before]
    p_before = np.clip(p[before], _MIN_P, 1 - _EPSILON)
    ratio = trials.elapsed_days[index] / trials.elapsed_days[before]
    return _ReviewPairs(
        button=trials.history_rating[row_before[has_before]],
        odds=ratio * (np.power(p_before, -1 / _DECAY) - 1),
        recalled=trials.y[index],
        day=trials.day[index],
    )


def _recall(odds: FloatArray, log_growth: float) -> FloatArray:
    """Return recall if the review before multiplied stability by e^`log_growth`."""
    recall: FloatArray = np.power(1 + odds * math.exp(-log_growth), -_DECAY)
    return np.clip(recall, _EPSILON, 1 - _EPSILON)


def _fit_log_growth(pairs: _ReviewPairs) -> Interval:
    """Fit g by maximum likelihood; its interval follows from the influence of each pair on it."""

    def loss(log_growth: float) -> float:
        recall = _recall(pairs.odds, log_growth)
        return -float(np.log(np.where(pairs.recalled == 1, recall, 1 - recall)).sum())

    estimate = find_minimum(loss, -_MAX_LOG_GROWTH, _MAX_LOG_GROWTH, tolerance=1e-6)
    recall = _recall(pairs.odds, estimate)
    odds = pairs.odds * math.exp(-estimate)
    slope = _DECAY * recall * odds / (1 + odds)  # d recall / dg
    variance = recall * (1 - recall)
    score = (pairs.recalled - recall) / variance * slope  # d log likelihood / dg
    information = float((np.square(slope) / variance).mean())
    influence = score / information
    interval = replace(mean_interval(influence, pairs.day), estimate=estimate)
    if abs(estimate) < _MAX_LOG_GROWTH - _BOUND_WIDTH:
        return interval
    # All are recalled, or all forgotten: influences that are alike say nothing of the error.
    half_width_of_model = NORMAL_QUANTILE / math.sqrt(len(pairs.day) * information)
    return replace(interval, half_width=max(interval.half_width, half_width_of_model))


def _compute_chance(hard: Interval, good: Interval) -> float:
    """Return the chance that an honest learner shows so little growth after Hard.

    `hard` and `good` are the g after each button.
    """
    growth = math.exp(max(good.estimate, 0.0)) - 1  # e^g of Good - 1
    chances = []
    for w15 in _PUBLISHED_W15:
        expected = math.log1p(w15 * growth)  # g of Hard
        slope = w15 * (growth + 1) / (1 + w15 * growth)  # of `expected`, by g of Good
        error = math.hypot(hard.half_width, slope * good.half_width) / NORMAL_QUANTILE
        chances.append(_STANDARD_NORMAL.cdf((hard.estimate - expected) / error))
    return sum(chances) / len(chances)
