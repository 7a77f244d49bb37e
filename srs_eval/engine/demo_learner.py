"""Load parts of the demo's collection: learners for warming up kernels and for checking models."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from srs_eval.anki_import import load_log
from srs_eval.data.paths import DEMO_FILE
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import select_rows


@cache
def load_demo_learner(reviews: int = 300, skip_reviews: int = 0) -> ReviewLog:
    """Return a log of the demo's first cards, which together have up to `reviews` reviews.

    If `skip_reviews` is given, the cards come after those that have so many reviews. The log has
    same-day reviews, several decks and all buttons.
    """
    log = _demo()
    rows = select_rows(log).rows
    cards, first_rows, counts = np.unique(rows.card_id, return_index=True, return_counts=True)
    order = np.argsort(first_rows)
    reviews_so_far = np.cumsum(counts[order])
    is_chosen = (reviews_so_far > skip_reviews) & (reviews_so_far <= skip_reviews + reviews)
    chosen_cards = cards[order][is_chosen]
    positions = np.flatnonzero(np.isin(rows.card_id, chosen_cards))
    columns = {name: column[positions] for name, column in vars(rows).items() if column is not None}
    return replace(log, rows=replace(rows, **columns))


@cache
def _demo() -> ReviewLog:
    """Return the log of the demo's collection, with rows in place of entries."""
    log = load_log(DEMO_FILE)
    rows = select_rows(log).rows
    return replace(log, entries=None, schedule=None, day_grid=None, rows=rows)
