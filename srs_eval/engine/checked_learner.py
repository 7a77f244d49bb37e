"""The simulated learner of `models check`, also with other answers, and with a person's table."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

import numpy as np

from srs_eval.data.columns import BEFORE_ANSWERS
from srs_eval.data.readers.features import with_made_up_features
from srs_eval.data.reviews import IntArray, ReviewLog, Rows
from srs_eval.engine.evaluate import demo_learner

TABLE: ContextVar[Path | None] = ContextVar("TABLE", default=None)
"""Of features."""


def checked_learner(reviews: int = 300) -> ReviewLog:
    """The demo's, with rows of the table of features if there is one."""
    return with_made_up_features(demo_learner(reviews), TABLE.get())


def rows_of_learner() -> Rows:
    rows = checked_learner().rows
    assert rows is not None
    return rows


def with_ratings(rating: IntArray) -> ReviewLog:
    """The learner with other answers."""
    return replace(checked_learner(), rows=replace(rows_of_learner(), rating=rating))


def with_other_outcomes(at: IntArray) -> ReviewLog:
    """The learner with passes for failures and failures for passes in these rows.

    What a scheduler makes of them is another before each later one of these on the same card.
    """
    rows = rows_of_learner()
    changed = {name: getattr(rows, name).copy() for name in ("rating", "state", *BEFORE_ANSWERS)}
    rating, state, days, ease = changed.values()
    rating[at] = np.where(rating[at] == 1, 3, 1)
    follows = np.delete(at, np.unique(rows.card_id[at], return_index=True)[1])
    state[follows], days[follows], ease[follows] = 5 - state[follows], 77.0, 1300
    return replace(checked_learner(), rows=replace(rows, **changed))
