"""Cards that are forgotten far more often than cards ordinarily differ."""

from __future__ import annotations

import numpy as np
import pytest

from srs_eval.advice.leeches import (
    _bound_chances,
    _count_by_interval,
    _estimate_lapse_rates,
    find_leeches,
)

_CARDS = 400
_REVIEWS = 15  # of each card


def _simulate_reviews(
    seed: int, *, spread: float = 0.0, leeches: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return cards, outcomes and days; the first cards are leeches, which are mostly forgotten."""
    random = np.random.default_rng(seed)
    card = np.repeat(np.arange(_CARDS), _REVIEWS)
    days = np.round(2.0 ** random.uniform(0, 8, len(card))).astype(np.int64)
    logit = 2.6 - 0.2 * np.log2(days) - (spread * random.standard_normal(_CARDS))[card]
    logit -= np.where(card < leeches, 3.0, 0.0)
    y = (random.random(len(card)) < 1 / (1 + np.exp(-logit))).astype(np.float64)
    return card, y, days


def _simulate_unlucky_weaker(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return reviews of cards that are alike, but weaker after each lapse, at the same interval."""
    random = np.random.default_rng(seed)
    strength = np.full(_CARDS, 2.2)
    outcomes = []
    for _ in range(_REVIEWS):
        y = random.random(_CARDS) < 1 / (1 + np.exp(-strength))
        strength = np.clip(strength + np.where(y, 0.1, -0.7), 0.5, 3.0)
        outcomes.append(y.astype(np.float64))
    card = np.tile(np.arange(_CARDS), _REVIEWS)
    return card, np.concatenate(outcomes), np.full(len(card), 5)


def test_find_leeches_names_most_leeches_and_hardly_others() -> None:
    leeches = 0
    others = 0
    for seed in range(20):
        named = find_leeches(*_simulate_reviews(seed, leeches=8))
        leeches += sum(leech.card_id < 8 for leech in named)
        others += sum(leech.card_id >= 8 for leech in named)
        assert [leech.chance for leech in named] == sorted(leech.chance for leech in named)
        assert all(leech.lapses > 2 * leech.usual for leech in named)
    assert leeches > 0.6 * 8 * 20
    assert others <= 0.02 * leeches


@pytest.mark.parametrize("spread", [0.0, 0.35, 0.8])
def test_find_leeches_names_none_where_cards_merely_differ(spread: float) -> None:
    alarms = sum(bool(find_leeches(*_simulate_reviews(seed, spread=spread))) for seed in range(40))
    assert alarms <= 1


def test_find_leeches_names_none_for_bad_luck() -> None:
    alarms = sum(bool(find_leeches(*_simulate_unlucky_weaker(seed))) for seed in range(40))
    assert alarms <= 1


def test_lapse_rates_are_not_set_by_a_leech_with_many_reviews() -> None:
    card = np.concatenate([np.repeat(np.arange(100), 2), np.full(800, 100)])
    y = np.concatenate([np.tile([1.0, 1.0, 1.0, 0.0], 50), np.zeros(800)])
    counts = _count_by_interval(card, y, np.ones(1_000, np.int64))
    (rate,) = _estimate_lapse_rates(counts)
    assert rate == pytest.approx((100 * 0.25 + 1) / 101)
    named = find_leeches(card, y, np.ones(1_000, np.int64))
    assert [leech.card_id for leech in named] == [100]
    assert named[0].usual == pytest.approx(800 * rate)


def test_chance_of_an_ordinary_card_is_no_larger_than_its_bound() -> None:
    counts = _count_by_interval(*_simulate_reviews(1, spread=0.3))
    chance = _bound_chances(counts, _estimate_lapse_rates(counts))
    for limit in (0.05, 0.2, 0.5):
        assert (chance <= limit).mean() <= limit


def test_find_leeches_without_reviews_names_none() -> None:
    assert find_leeches(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64)) == ()
