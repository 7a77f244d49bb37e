"""Columns of `Trials`: what is known of a review before its answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import LEARNING, MISSING, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from tools.simulated import simulate_learner

NAMES = ("note_id", "deck_id", "preset_id", "state", "kind", "scheduled_interval", "ease")


@pytest.fixture(scope="module")
def log(simulated_collection: Path) -> ReviewLog:
    return srs_eval.load(simulated_collection)


def trials_of(log: ReviewLog) -> Trials:
    return LearnerSession(log).trials(Protocol(short=True))


def test_kind_interval_and_ease_are_those_before_the_answer(log: ReviewLog) -> None:
    trials = trials_of(log)
    entries = log.entries
    assert entries is not None
    assert entries.interval is not None
    before = dict[int, int]()
    by_review = dict[tuple[int, int], tuple[int, float, int]]()
    for time, card, kind, factor, interval in zip(
        entries.time_ms,
        entries.card_id,
        entries.kind,
        entries.factor,
        entries.interval,
        strict=True,
    ):
        days = interval if interval >= 0 else interval / -86_400
        by_review[card, time] = kind, days, before.get(card, MISSING)
        before[card] = factor
    kind, days, ease = trials.columns("kind", "scheduled_interval", "ease")
    chosen = LearnerSession(log).selection(trials.protocol).entry_index
    time = entries.time_ms[chosen[trials.history_review_th - 1]]
    expected = [by_review[review] for review in zip(trials.history_card_id, time, strict=True)]
    assert list(zip(kind, days, ease, strict=True)) == expected
    assert len(set(ease)) > 3
    assert len(set(days)) > 3
    assert LEARNING in kind


def test_columns_do_not_change_with_later_reviews(log: ReviewLog) -> None:
    entries = log.entries
    trials = trials_of(log)
    assert entries is not None
    assert entries.interval is not None
    at = len(entries) * 2 // 3
    changes = {name: getattr(entries, name).copy() for name in ("rating", "factor", "duration_ms")}
    changes["rating"][at:] = np.where(changes["rating"][at:] == 1, 3, 1)
    changes["factor"][at:] += 77
    changes["duration_ms"][at:] += 500
    interval = entries.interval.copy()
    interval[at + 1 :] += 5
    after = trials_of(replace(log, entries=replace(entries, interval=interval, **changes)))
    chosen = LearnerSession(log).selection(trials.protocol).entry_index
    rows = rows_by_number(trials)
    rows_after = rows_by_number(after)
    earlier = [number for number in rows if chosen[number - 1] <= at and number in rows_after]
    assert len(earlier) > 500
    for name in NAMES:
        (column,) = trials.columns(name)
        (column_after,) = after.columns(name)
        values = column[[rows[number] for number in earlier]]
        values_after = column_after[[rows_after[number] for number in earlier]]
        assert (values == values_after).all(), name
    (column,) = trials.columns("ease")
    (column_after,) = after.columns("ease")
    assert sum(column) != sum(column_after)


def rows_by_number(trials: Trials) -> dict[int, int]:
    """Return the row in the histories of each review, by the review's number."""
    return {number: row for row, number in enumerate(trials.history_review_th)}


@pytest.mark.parametrize("name", ["scheduled_interval", "ease"])
def test_missing_column_is_an_error_that_names_the_source(name: str) -> None:
    log = simulate_learner(3, 400).log()
    rows = replace(LearnerSession(log).rows(Protocol()), scheduled_interval=None, ease=None)
    summary = replace(log.import_summary, format="anki-revlogs-10k, user 3")
    trials = trials_of(replace(log, entries=None, day_grid=None, rows=rows, import_summary=summary))
    with pytest.raises(InputError, match=f"the column {name}, which anki-revlogs-10k does not"):
        trials.columns(name)
    assert len(trials.columns("kind")[0]) == len(trials.history_day)
