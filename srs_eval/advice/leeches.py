"""Find leeches: cards that are forgotten far more often than cards ordinarily differ.

The expected rate of forgetting after an interval is that of the learner's cards after about the
same interval, where each card counts once, so that a leech with many reviews does not set what is
expected of it. FSRS's own probability would not do: it learns from each lapse to expect the next.

A card's effect u is added to the logit of that rate. Effects of ordinary cards are normal around
0; those of leeches are equally likely from `_LEAST_LEECH_EFFECT` on. The spread of the ordinary
cards and the share of leeches are estimated by maximum likelihood (a two-groups model; Efron, 2008,
Statistical Science 23). A card that was forgotten by chance is weaker than others after the same
interval. The spread of the ordinary cards includes this difference, too.

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


_SMALLEST = np.finfo(np.float64).tiny
"""Smallest likelihood, because that of a card with thousands of reviews may be too small for a
float."""


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
    rates = _estimate_lapse_rates(counts)
    chance = _bound_chances(counts, rates)
    usual = counts.reviews @ rates  # lapses that would be expected
    leeches = []
    for k in _select_unlikely(chance):
        leech = Leech(
            card_id=counts.card_ids[k].item(),
            reviews=int(counts.reviews[k].sum()),
            lapses=int(counts.lapses[k].sum()),
            usual=float(usual[k]),
            chance=float(chance[k]),
        )
        leeches.append(leech)
    return tuple(leeches)


def _select_unlikely(chance: FloatArray) -> list[int]:
    """Return the indices of the cards to name, the least chance first.

    All cards up to the last one whose chance is within its limit are named; the limit grows with
    the number of cards (Wang & Ramdas).
    """
    order = np.argsort(chance, kind="stable")
    limits = _FALSE_DISCOVERY_RATE * np.arange(1, len(order) + 1) / len(order)
    within_limit = np.flatnonzero(chance[order] <= limits)
    if not len(within_limit):
        return []
    count = int(within_limit[-1]) + 1
    selected: list[int] = order[:count].tolist()
    return selected


def _count_by_interval(card: IntArray, y: FloatArray, days: IntArray) -> _CardCounts:
    """Count reviews and lapses by half octaves of the interval: 1, 2, 3, 4, 5-6, 7-9 ... days."""
    card_ids, card_index = np.unique(card, return_inverse=True)
    half_octaves = np.round(2 * np.log2(np.maximum(days, 1)))
    intervals, interval_index = np.unique(half_octaves, return_inverse=True)
    shape = (len(card_ids), len(intervals))
    cell = card_index * len(intervals) + interval_index
    size = shape[0] * shape[1]
    reviews = np.bincount(cell, minlength=size).reshape(shape)
    lapses = np.bincount(cell[y == 0], minlength=size).reshape(shape)
    return _CardCounts(card_ids, reviews, lapses)


def _estimate_lapse_rates(counts: _CardCounts) -> FloatArray:
    """Return the rate of forgetting after each interval (columns of `counts`).

    It is the mean of the cards' own rates, so that every card counts once, drawn to the overall
    rate where few cards had the interval.
    """
    rate_of_card = counts.lapses / np.maximum(counts.reviews, 1)
    cards = (counts.reviews > 0).sum(axis=0)
    overall = rate_of_card.sum() / cards.sum()
    rates: FloatArray = (rate_of_card.sum(axis=0) + _PRIOR_CARDS * overall) / (cards + _PRIOR_CARDS)
    return np.clip(rates, 1e-6, 1 - 1e-6)


def _bound_chances(counts: _CardCounts, rates: FloatArray) -> FloatArray:
    """Return, by card, a bound of the chance that an ordinary card is forgotten so often.

    It is the ratio of the card's likelihood as an ordinary card to that as a leech, at most 1.
    """
    logit = np.log(rates / (1 - rates))[:, None] + _EFFECTS  # of forgetting, (intervals, effects)
    log_lapse = -np.log1p(np.exp(-logit))
    log_recall = -np.log1p(np.exp(logit))
    recalls = counts.reviews - counts.lapses
    log_likelihood = counts.lapses @ log_lapse + recalls @ log_recall  # (cards, effects)
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    as_leech = likelihood[:, _EFFECTS >= _LEAST_LEECH_EFFECT].mean(axis=1)
    as_leech = np.maximum(as_leech, _SMALLEST)
    as_ordinary = max(
        (_average_over_normal(likelihood, spread) for spread in _SPREADS),
        key=lambda candidate: _maximize_mixture(as_leech, candidate),
    )
    ratios: FloatArray = np.minimum(as_ordinary / as_leech, 1.0)
    return ratios


def _average_over_normal(likelihood: FloatArray, spread: float) -> FloatArray:
    """Return the cards' likelihoods (cards, effects) averaged over normally distributed effects."""
    weights = np.exp(-0.5 * np.square(_EFFECTS / spread))
    average: FloatArray = likelihood @ (weights / weights.sum())
    return average


def _maximize_mixture(as_leech: FloatArray, as_ordinary: FloatArray) -> float:
    """Return the log likelihood of all cards with the likeliest share of leeches, found by EM.

    `as_leech` and `as_ordinary` are the likelihoods of each card.
    """
    share = 0.01
    for _ in range(_EM_STEPS):
        leech = share * as_leech
        share = float((leech / (leech + (1 - share) * as_ordinary)).mean())
    return float(np.log(share * as_leech + (1 - share) * as_ordinary).sum())
