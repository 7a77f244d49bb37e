"""Logs made of a few rows that a test writes down."""

from __future__ import annotations

import numpy as np

from srs_eval.data.reviews import Cards, Deck, ImportSummary, ReviewLog, Rows


def make_log(
    card_id: list[int],
    rating: list[int],
    elapsed_days: list[int],
    elapsed_seconds: list[int] | None = None,
    decks: dict[int, int] | None = None,
    days: list[int] | None = None,
) -> ReviewLog:
    """Return a log of given rows; `decks` maps card to deck 1 or 2 (presets 11, 12).

    `days` are the numbers of the rows' days; without them, all are 0.
    """
    n = len(card_id)
    seconds = elapsed_seconds or [86_400 * d if d >= 0 else -1 for d in elapsed_days]
    columns = [
        np.asarray(column, np.int64)
        for column in (card_id, days or [0] * n, rating, [2] * n, [5000] * n, elapsed_days, seconds)
    ]
    decks = decks or {}
    cards = np.array(sorted(decks), np.int64)
    return ReviewLog(
        ImportSummary("made", "made", n),
        rows=Rows(*columns),
        cards=Cards(
            cards,
            cards,
            np.array([decks[card] for card in cards.tolist()], np.int64),
            np.zeros(len(cards), np.bool_),
        ),
        decks={1: Deck(1, "One", 11), 2: Deck(2, "Two", 12)},
    )
