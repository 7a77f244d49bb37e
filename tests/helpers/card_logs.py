"""Logs made of cards whose reviews a test writes down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srs_eval.data.reviews import Cards, Deck, ImportSummary, ReviewLog, Rows


def draw_cards_rated_again_or_good(rng: np.random.Generator) -> list[list[tuple[float, int]]]:
    """Draw forty cards that were never rated Hard or Easy."""
    cards: list[list[tuple[float, int]]] = []
    for _ in range(40):
        later = [(int(rng.integers(1, 9)), int(rng.choice([1, 3]))) for _ in range(6)]
        cards.append([(0, 3), *later])
    return cards


def make_log(cards: Sequence[Sequence[tuple[float, int]]]) -> ReviewLog:
    """Return a log of cards, each a list of (days since the review before, rating).

    The cards follow one another. Fractions of a day reach `--secs` only; elapsed_days is the whole
    part.
    """
    rows = []
    for number, card in enumerate(cards):
        for position, (gap, rating) in enumerate(card):
            if position == 0:
                rows.append((number, rating, -1, -1))
            else:
                rows.append((number, rating, int(gap), int(gap * 86_400)))
    card_id, rating, days, seconds = (
        np.array(column, np.int64) for column in zip(*rows, strict=True)
    )
    nothing = np.zeros(len(rows), np.int64)
    ids = np.arange(len(cards))
    return ReviewLog(
        ImportSummary("made", "made", len(rows)),
        rows=Rows(card_id, nothing, rating, nothing, nothing + 1000, days, seconds),
        cards=Cards(ids, ids, np.ones(len(ids), np.int64), np.zeros(len(ids), np.bool_)),
        decks={1: Deck(1, "One", 1)},
    )
