"""Measure how alike learners' histories are, in numbers that networks can learn from.

A memory model's residuals are measured against its predictions p: answers of one day, card or
deck, or of cards begun on the same day, depart from p together. The departures of a group are
taken to be one shift of the logit of recall, normally distributed over groups. To first order
the group's sum of y - p then has the mean square sum of v + (sum of v)^2 sd^2, v = p (1 - p), from
which sd follows by moments, and the correlation of neighbouring groups likewise. (One would
test for such a shift by score tests of variance components, Lin 1997.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Trials

BREAK = 14  # days without an answer


@dataclass(frozen=True)
class Likeness:
    """One learner's figures; NaN where the history has no data for them."""

    evaluated: int
    success: float  # share of recalled reviews among the evaluated ones
    interval: float  # days, median
    same_day: float  # share of all answers that are the card's second or later one that day
    hard: float  # share of the answers that were not Again
    easy: float
    day: float  # sd on the logit, see above
    day_correlation: float  # between a day's shift and that of the previous day with answers
    card: float  # sd
    deck: float
    begun_together: float  # sd, of cards first seen on the same day
    idle: float  # share of days without an answer
    breaks: float  # of 14 days or more, per year
    seconds: float  # median answer time
    spread: float  # sd of ln seconds
    time_and_answer: float  # correlation of ln seconds and success
    time_tells: float  # correlation of a pass's ln seconds with the next answer's departure from p


def compute_likeness(log: ReviewLog, trials: Trials, p: FloatArray) -> Likeness:
    """Compute the figures of a history; p (n,) are predictions of `trials.test_index`.

    `trials` hold same-day reviews in their histories (protocol with `short`).
    """
    index = trials.test_index
    y = trials.y[index].astype(np.float64)
    p = np.clip(p, 0.02, 0.98)
    departure = y - p
    v = p * (1 - p)
    day = trials.day[index]
    card = trials.card_id[index]
    deck_of = dict(zip(log.cards.card_id.tolist(), log.cards.deck_id.tolist(), strict=True))
    deck = np.array([deck_of.get(card_id, -1) for card_id in card.tolist()])
    begun = trials.history_day[trials.history_start[index]]
    day_sd, correlation = estimate_shift(day, departure, v)
    rating = trials.history_rating
    again = np.diff(trials.history_card_id, prepend=-1) == 0
    days = np.unique(trials.day)
    gaps = np.diff(days)
    last = trials.history_end[index] - 1
    milliseconds = trials.history_duration_ms.astype(np.float64)
    timed = milliseconds > 0
    ln = np.log(np.where(timed, np.clip(milliseconds, 100, 60_000), 1.0))
    passed = (rating[last] > 1) & timed[last]
    return Likeness(
        evaluated=len(index),
        success=float(y.mean()),
        interval=float(np.median(trials.delta_t[index])),
        same_day=float(np.mean(again & (trials.history_elapsed_days == 0))),
        hard=float(np.mean(rating[rating > 1] == 2)),
        easy=float(np.mean(rating[rating > 1] == 4)),
        day=day_sd,
        day_correlation=correlation,
        card=estimate_shift(card, departure, v)[0],
        deck=estimate_shift(deck, departure, v)[0] if len(np.unique(deck)) > 1 else math.nan,
        begun_together=estimate_shift(begun, departure, v)[0],
        idle=float(1 - len(days) / (days[-1] - days[0] + 1)),
        breaks=float(np.sum(gaps > BREAK) * 365 / (days[-1] - days[0] + 1)),
        seconds=float(np.median(milliseconds[timed]) / 1000) if timed.any() else math.nan,
        spread=float(np.std(ln[timed])) if timed.any() else math.nan,
        time_and_answer=_correlate(ln[timed], (rating > 1)[timed].astype(np.float64)),
        time_tells=_correlate(ln[last][passed], (departure / np.sqrt(v))[passed]),
    )


def estimate_shift(group: IntArray, departure: FloatArray, v: FloatArray) -> tuple[float, float]:
    """Estimate the standard deviation of the groups' shifts and the correlation of neighbours.

    0 and NaN if departures vary no more than by chance.
    """
    _, position = np.unique(group, return_inverse=True)
    score = np.bincount(position, departure)
    weight = np.bincount(position, v)
    variance = float(np.sum(score**2 - weight) / np.sum(weight**2))
    if variance <= 0:
        return 0.0, math.nan
    common = float(np.sum(score[1:] * score[:-1]) / np.sum(weight[1:] * weight[:-1]))
    return math.sqrt(variance), float(np.clip(common / variance, -1, 1))


def _correlate(a: FloatArray, b: FloatArray) -> float:
    if len(a) < 30 or not np.std(a) or not np.std(b):
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])
