"""Find leeches: cards that are forgotten far more often than cards ordinarily differ.

The expected rate of forgetting after an interval is that of the learner's cards after about the
same interval, where each card counts once, so that a leech with many reviews does not set what is
expected of it. FSRS's own probability would not do: it learns from each lapse to expect the next.

A card's effect u is added to the logit of that rate. Effects of ordinary cards are normal around
0; those of leeches are equally likely from `_LEAST_LEECH_EFFECT` on. The spread of the ordinary
cards and the share of leeches are estimated by maximum likelihood (a two-groups model; Efron, 2008,
Statistical Science 23). The spread also takes up that a card that was forgotten by chance is weaker
after the same interval.

How often a card is forgotten then speaks for a leech by the ratio of the two likelihoods. For an
ordinary card this ratio is 1 on average, and it exceeds e with a probability of at most 1/e
(Markov's inequality). The cards with the largest ratios are named, as many as keep the share of
ordinary cards among them within `_FALSE_DISCOVERY_RATE` (Wang & Ramdas, 2022, Journal of the Royal
Statistical Society B 84).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from srs_eval.advice.findings import Leech
from srs_eval.data.reviews import FloatArray, IntArray

_EFFECTS = np.arange(-2.5, 5.01, 0.25)
"""Possible effects u of a card on the logit of forgetting."""
_LEAST_LEECH_EFFECT = 1.0
_SPREADS = np.arange(0.3, 1.51, 0.1)
"""Possible standard deviations of the effects of ordinary cards. Cards always differ a little, also
where few reviews cannot show it; on real collections the estimates are 0.4 to 0.9."""
_FALSE_DISCOVERY_RATE = 0.025
"""Measured by benchmarks/alarms.py, which also says how often a learner without leeches is told of
one."""
_PRIOR_CARDS = 10.0  # cards with the overall rate that are added to those of an interval
_EM_STEPS = 30


@dataclass(frozen=True, eq=False)
class _CardCounts:
    """Numbers of reviews and lapses by card (row) and interval (column)."""

    card_ids: IntArray
    reviews: IntArray
    lapses: IntArray


def find_leeches(card: IntArray, y: FloatArray, days: IntArray) -> tuple[Leech, ...]:
    """Find leeches in reviews (n,), the clearest first.

    `y` are the outcomes (1.0 recalled), `days` the days since the review before.
    """
    if not len(card):
        return ()
    counts = _count_by_interval(card, y, days)
    rate = _estimate_lapse_rates(counts)
    chance = _bound_chances(counts, rate)
    usual = counts.reviews @ rate
    order = np.argsort(chance, kind="stable")
    limits = _FALSE_DISCOVERY_RATE * np.arange(1, len(order) + 1) / len(order)
    is_below = chance[order] <= limits
    count = int(np.flatnonzero(is_below)[-1]) + 1 if is_below.any() else 0
    leeches = []
    for k in order[:count].tolist():
        leech = Leech(
            card_id=counts.card_ids[k].item(),
            reviews=int(counts.reviews[k].sum()),
            lapses=int(counts.lapses[k].sum()),
            usual=float(usual[k]),
            chance=float(chance[k]),
        )
        leeches.append(leech)
    return tuple(leeches)


def _count_by_interval(card: IntArray, y: FloatArray, days: IntArray) -> _CardCounts:
    card_ids, card_index = np.unique(card, return_inverse=True)
    rounded = np.round(2 * np.log2(np.maximum(days, 1)))  # 1, 2, 3, 4, 5-6, 7-9 ... days
    intervals, interval_index = np.unique(rounded, return_inverse=True)
    shape = (len(card_ids), len(intervals))
    cell = card_index * len(intervals) + interval_index
    size = shape[0] * shape[1]
    reviews = np.bincount(cell, minlength=size).reshape(shape)
    lapses = np.bincount(cell[y == 0], minlength=size).reshape(shape)
    return _CardCounts(card_ids, reviews, lapses)


def _estimate_lapse_rates(counts: _CardCounts) -> FloatArray:
    """Return the rate of forgetting after each interval; every card counts once.

    It is drawn to the overall rate where few cards had the interval.
    """
    has_reviews = counts.reviews > 0
    rate_of_card = counts.lapses / np.maximum(counts.reviews, 1)
    cards = has_reviews.sum(axis=0)
    overall = rate_of_card.sum() / cards.sum()
    rates: FloatArray = (rate_of_card.sum(axis=0) + _PRIOR_CARDS * overall) / (cards + _PRIOR_CARDS)
    return np.clip(rates, 1e-6, 1 - 1e-6)


def _bound_chances(counts: _CardCounts, rate: FloatArray) -> FloatArray:
    """Return, by card, a bound of the chance that an ordinary card is forgotten so often."""
    logit = np.log(rate / (1 - rate))[:, None] + _EFFECTS  # of forgetting
    log_lapse = -np.log1p(np.exp(-logit))
    log_recall = -np.log1p(np.exp(logit))
    recalls = counts.reviews - counts.lapses
    log_likelihood = counts.lapses @ log_lapse + recalls @ log_recall  # (cards, effects)
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    as_leech = likelihood[:, _EFFECTS >= _LEAST_LEECH_EFFECT].mean(axis=1)
    as_leech = np.maximum(as_leech, np.finfo(np.float64).tiny)  # of thousands of reviews
    as_ordinary = as_leech
    highest = -np.inf
    for spread in _SPREADS:
        weights = np.exp(-0.5 * np.square(_EFFECTS / spread))
        candidate = likelihood @ (weights / weights.sum())
        fit = _maximize_mixture(as_leech, candidate)
        if fit > highest:
            highest = fit
            as_ordinary = candidate
    ratios: FloatArray = np.minimum(as_ordinary / as_leech, 1.0)
    return ratios


def _maximize_mixture(as_leech: FloatArray, as_ordinary: FloatArray) -> float:
    """Return the log likelihood of the cards with the best share of leeches (found by EM)."""
    share = 0.01
    for _ in range(_EM_STEPS):
        leech = share * as_leech
        share = float((leech / (leech + (1 - share) * as_ordinary)).mean())
    return float(np.log(share * as_leech + (1 - share) * as_ordinary).sum())
