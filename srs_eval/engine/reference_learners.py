"""Simulate the learners on whose reviews reference vectors train parameters.

Python's `random.random` gives the same numbers everywhere and in every version, which numpy does
not promise; all draws are made of it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srs_eval.data.days import DAY_S, StoredClock, compute_day_grid
from srs_eval.data.reviews import (
    LEARNING,
    RELEARNING,
    REVIEW,
    Cards,
    Deck,
    Entries,
    ImportSummary,
    ReviewLog,
)

AGAIN, HARD, GOOD, EASY = 1, 2, 3, 4

_START_S = 1_704_067_200  # midnight of 1 January 2024, UTC
_SESSION_S = 18 * 3600  # time of day at which the learner studies
_ANSWER_S = 10  # seconds from one answer to the next
_STEP_S = 600  # seconds of a learning step
_MISSED_DAYS = 0.1  # share of days without study
_FIRST_SHARES = (0.25, 0.1, 0.55, 0.1)  # of first ratings, Again to Easy
_PASSED_SHARES = (0.0, 0.12, 0.78, 0.1)  # of ratings of remembered cards
_FIRST_STABILITY = (0.7, 1.6, 3.2, 11.0)  # days, by first rating
_STEP_PASSED = 0.8  # share of same-day reviews that are remembered
_MOST_STEPS = 3  # same-day reviews after a failure


@dataclass(frozen=True)
class TimedReview:
    """One review of one card."""

    time_s: int  # Unix time
    card: int
    rating: int  # 1-4
    kind: int  # LEARNING, REVIEW or RELEARNING


def simulate_reference_learner(number: int) -> list[TimedReview]:
    """Return the reviews of a learner in order of time; `number` (from 1) decides everything.

    The memory is none of the models': recall falls as (1 + t / 9s)^-1, and a stability grows by a
    factor at each success. Learners with higher numbers have more cards, up to 250.
    """
    draws = random.Random(f"reference learner {number}")
    card_count = 90 + 8 * number
    new_per_day = 6 + number % 5
    growth = 1.0 + 2.0 * draws.random()
    skill = math.exp(0.5 * draw_normal(draws))
    study_days = 60 + 6 * number

    reviews: list[TimedReview] = []
    stability: dict[int, float] = {}
    last_day: dict[int, int] = {}
    due: dict[int, int] = {}
    for day in range(study_days):
        if draws.random() < _MISSED_DAYS:
            continue
        time_s = _START_S + day * DAY_S + _SESSION_S + int(3600 * draws.random())
        seen = len(stability)
        new_cards = range(seen + 1, min(seen + new_per_day, card_count) + 1)
        due_cards = [card for card in sorted(due) if due[card] <= day]
        for card in [*due_cards, *new_cards]:
            time_s += _ANSWER_S
            if card in stability:
                s = stability[card]
                recall = 1.0 / (1.0 + (day - last_day[card]) / (9.0 * s))
                rating = AGAIN
                if draws.random() < recall:
                    rating = _draw_rating(draws, _PASSED_SHARES)
                    s *= 1.0 + growth * s**-0.15 * (1.0 - recall) * (10.0 if rating > HARD else 6.0)
                else:
                    s = max(0.4, 0.3 * s)
                kind = REVIEW
                step_kind = RELEARNING
            else:
                rating = _draw_rating(draws, _FIRST_SHARES)
                s = skill * _FIRST_STABILITY[rating - 1]
                kind = LEARNING
                step_kind = LEARNING
            reviews.append(TimedReview(time_s, card, rating, kind))
            reviews += _simulate_steps(draws, card, rating, time_s, step_kind)
            stability[card] = s
            last_day[card] = day
            due[card] = day + max(1, round(s * (0.8 + 0.4 * draws.random())))
    return sorted(reviews, key=lambda review: (review.time_s, review.card))


def _simulate_steps(
    draws: random.Random, card: int, rating: int, time_s: int, kind: int
) -> list[TimedReview]:
    """Return the reviews that follow on the same day: after Again, and after half of other firsts.

    They do not change the stability.
    """
    reviews: list[TimedReview] = []
    is_passed = rating != AGAIN
    if is_passed and (kind != LEARNING or draws.random() < 0.5):
        return reviews
    for step in range(1, _MOST_STEPS + 1):
        step_rating = AGAIN
        if draws.random() < _STEP_PASSED:
            step_rating = _draw_rating(draws, _PASSED_SHARES)
        reviews.append(TimedReview(time_s + step * _STEP_S, card, step_rating, kind))
        if step_rating != AGAIN:
            break
    return reviews


def _draw_rating(draws: random.Random, shares: Sequence[float]) -> int:
    """Draw a rating from the shares of Again, Hard, Good and Easy."""
    rest = draws.random()
    for rating, share in enumerate(shares, start=1):
        rest -= share
        if rest < 0.0:
            return rating
    return GOOD


def draw_normal(draws: random.Random) -> float:
    """Draw from the normal distribution of mean 0 and variance 1 (Box and Muller, 1958)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - draws.random()))
    return radius * math.cos(2.0 * math.pi * draws.random())


def make_log(reviews: Sequence[TimedReview], time_zone: str, rollover: int) -> ReviewLog:
    """Return a log of reviews in order of time; days begin at the hour `rollover` in a time zone.

    Days are counted as Anki counts them right after the last review.
    """
    time_ms = np.array([review.time_s * 1000 for review in reviews], np.int64)
    card_id = np.array([review.card for review in reviews], np.int64)
    nothing = np.zeros(len(reviews), np.int64)
    cards = np.unique(card_id)
    return ReviewLog(
        ImportSummary("reference vectors", "reference vectors", len(reviews)),
        entries=Entries(
            time_ms=time_ms,
            card_id=card_id,
            rating=np.array([review.rating for review in reviews], np.int64),
            kind=np.array([review.kind for review in reviews], np.int64),
            factor=nothing,
            duration_ms=nothing + 1000 * _ANSWER_S,
        ),
        cards=Cards(cards, cards, np.ones(len(cards), np.int64), np.zeros(len(cards), np.bool_)),
        decks={1: Deck(1, "Default", 1)},
        day_grid=compute_day_grid(int(time_ms[-1]), StoredClock(), time_zone, rollover),
    )
