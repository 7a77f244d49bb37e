"""What `Trials.columns` tells of a review before its answer."""

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
    trials, entries = trials_of(log), log.entries
    assert entries is not None
    assert entries.interval is not None
    before = dict[int, int]()
    expected = dict[tuple[int, int], tuple[int, float, int]]()
    for time, card, kind, factor, interval in zip(
        *(entries.time_ms, entries.card_id, entries.kind, entries.factor, entries.interval),
        strict=True,
    ):
        days = interval if interval >= 0 else interval / -86_400
        expected[card, time] = kind, days, before.get(card, MISSING)
        before[card] = factor
    kind, days, ease = trials.columns("kind", "scheduled_interval", "ease")
    chosen = LearnerSession(log).selection(trials.protocol).entry_index
    time = entries.time_ms[chosen[trials.history_review_th - 1]]
    wanted = [expected[at] for at in zip(trials.history_card_id, time, strict=True)]
    assert list(zip(kind, days, ease, strict=True)) == wanted
    assert len(set(ease)) > 3
    assert len(set(days)) > 3
    assert LEARNING in kind


def test_what_comes_later_changes_no_column(log: ReviewLog) -> None:
    entries, trials = log.entries, trials_of(log)
    assert entries is not None
    assert entries.interval is not None
    at = len(entries) * 2 // 3
    others = {name: getattr(entries, name).copy() for name in ("rating", "factor", "duration_ms")}
    others["rating"][at:] = np.where(others["rating"][at:] == 1, 3, 1)
    others["factor"][at:] += 77
    others["duration_ms"][at:] += 500
    interval = entries.interval.copy()
    interval[at + 1 :] += 5
    after = trials_of(replace(log, entries=replace(entries, interval=interval, **others)))
    chosen = LearnerSession(log).selection(trials.protocol).entry_index
    rows, later = (
        dict(zip(each.history_review_th, range(len(each.history_card_id)), strict=True))
        for each in (trials, after)
    )
    so_far = [row for row in rows if chosen[row - 1] <= at and row in later]
    assert len(so_far) > 500
    for name in NAMES:
        (was,), (now,) = trials.columns(name), after.columns(name)
        assert (was[[rows[k] for k in so_far]] == now[[later[k] for k in so_far]]).all(), name
    (was,), (now,) = trials.columns("ease"), after.columns("ease")
    assert sum(was) != sum(now)


@pytest.mark.parametrize("name", ["scheduled_interval", "ease"])
def test_a_source_without_a_column_says_so(name: str) -> None:
    log = simulate_learner(3, 400).log()
    rows = replace(LearnerSession(log).rows(Protocol()), scheduled_interval=None, ease=None)
    told = replace(log.import_summary, format="anki-revlogs-10k, user 3")
    trials = trials_of(replace(log, entries=None, day_grid=None, rows=rows, import_summary=told))
    with pytest.raises(InputError, match=f"the column {name}, which anki-revlogs-10k does not"):
        trials.columns(name)
    assert len(trials.columns("kind")[0]) == len(trials.history_day)
