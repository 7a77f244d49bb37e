"""People recognised by their reviews: the same person in other exports, and nobody else."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from srs_eval.anki_import import load_log
from srs_eval.data.recognition import Sketches, review_hashes, sketch_of
from srs_eval.data.reviews import (
    LEARNING,
    MANUAL,
    DayGrid,
    Entries,
    ImportSummary,
    ReviewLog,
    Rows,
)
from srs_eval.data.rows import select_decks, select_rows
from tools.simulated import simulate_learner


def simulate_log(seed: int, reviews: int = 800) -> ReviewLog:
    return simulate_learner(seed, reviews).log()


def entries_of(log: ReviewLog) -> Entries:
    assert log.entries is not None
    return log.entries


def with_entries(log: ReviewLog, entries: Entries, order: NDArray[np.int64]) -> ReviewLog:
    """Return the log with other entries, brought into the given order."""
    columns = {name: column[order] for name, column in vars(entries).items() if column is not None}
    return replace(log, entries=Entries(**columns))


def take_first(log: ReviewLog, count: int) -> ReviewLog:
    """Return an earlier export: the first `count` entries."""
    return with_entries(log, entries_of(log), np.arange(count))


def as_dataset(log: ReviewLog, **changed: object) -> ReviewLog:
    """Return the rows of a log as user 1 of a data set."""
    columns = dict(vars(select_rows(log).rows))
    rows = Rows(**{**columns, **changed})
    return ReviewLog(ImportSummary("", "", 0), rows=rows, user=1)


def without_times(log: ReviewLog) -> ReviewLog:
    """Return the rows as in older tables: intervals in whole days, no answer times."""
    rows = select_rows(log).rows
    days = np.maximum(rows.elapsed_days, 0)
    elapsed_s = np.where(rows.elapsed_days < 0, -1, days * 86_400)
    return as_dataset(log, elapsed_seconds=elapsed_s, duration_ms=0 * days)


def is_recognised(earlier: ReviewLog, later: ReviewLog) -> bool:
    return Sketches.of([sketch_of(earlier)]).recognise(later)


FORMS = pytest.mark.parametrize("form", [as_dataset, without_times])
Form = Callable[[ReviewLog], ReviewLog]


@FORMS
@pytest.mark.parametrize("reviews", [100, 200, 400])
def test_a_longer_export_is_the_same_person(form: Form, reviews: int) -> None:
    log = simulate_log(3)
    assert is_recognised(form(take_first(log, reviews)), form(log))


def test_a_collection_is_recognised_by_the_dataset_made_of_it() -> None:
    log = simulate_log(3)
    assert is_recognised(as_dataset(take_first(log, 400)), log)


def reset_cards(log: ReviewLog, share: float) -> ReviewLog:
    """Return the log with the first cards, a share of all, forgotten and learned anew."""
    entries = entries_of(log)
    cards = np.unique(entries.card_id)
    cards = cards[: int(share * len(cards))]
    count = len(cards)
    after_ms = int(entries.time_ms.max()) + 1_000 * np.arange(1, count + 1)
    zeros = np.zeros(count, np.int64)
    forgotten = (after_ms, cards, zeros, zeros + MANUAL, zeros, zeros)
    learned = (after_ms + 600_000, cards, zeros + 3, zeros + LEARNING, zeros, zeros + 5_000)
    names = ("time_ms", "card_id", "rating", "kind", "factor", "duration_ms")
    columns = {
        name: np.concatenate([getattr(entries, name), old, new])
        for name, old, new in zip(names, forgotten, learned, strict=True)
    }
    changed = Entries(**columns)
    return with_entries(log, changed, np.argsort(changed.time_ms, kind="stable"))


@FORMS
def test_reset_cards_leave_a_person_recognisable(form: Form) -> None:
    log = simulate_log(3)
    assert is_recognised(form(take_first(log, 400)), form(reset_cards(log, 0.2)))
    assert len(select_rows(reset_cards(log, 0.2)).rows) < 0.9 * len(select_rows(log).rows)


def test_a_collection_with_all_cards_reset_is_the_same_person() -> None:
    """Check that entries from before the reset are used, which no data set has."""
    log = simulate_log(3)
    assert is_recognised(as_dataset(log), reset_cards(log, 1.0))


def test_time_zone_and_rollover_do_not_matter() -> None:
    log = simulate_log(3)
    assert log.day_grid is not None
    times = select_rows(log).rows.time_of_day_s
    assert times is not None
    while_studying_s = log.day_grid.next_day_at_s + int(np.median(times))
    shifted = replace(log, day_grid=DayGrid(while_studying_s, "test"))
    days = [select_rows(version).rows.elapsed_days for version in (log, shifted)]
    assert (days[0] != days[1]).any()
    assert sketch_of(log) == sketch_of(shifted)
    assert is_recognised(as_dataset(log), as_dataset(shifted))


@FORMS
def test_numbers_of_cards_do_not_matter(form: Form) -> None:
    log = form(simulate_log(3))
    assert log.rows is not None
    renumbered = replace(log.rows, card_id=log.rows.card_id.max() + 1 - log.rows.card_id)
    assert sketch_of(replace(log, rows=renumbered, user=99)) == sketch_of(log)


@FORMS
def test_an_earlier_export_is_the_same_person(form: Form) -> None:
    log = simulate_log(3, 2_000)
    assert is_recognised(form(log), form(take_first(log, 500)))


def test_some_decks_of_a_collection_are_the_same_person() -> None:
    log = simulate_log(3, 2_000)
    sizes = {
        deck.name: len(select_decks(log, deck.name).reviews)
        for deck in log.decks.values()
        if deck.name and np.isin(log.cards.deck_id, deck.id).any()
    }
    smallest = min(sizes, key=lambda name: sizes[name])
    assert sizes[smallest] < len(log.reviews) / 2
    assert is_recognised(as_dataset(log), select_decks(log, smallest))


@FORMS
def test_strangers_are_not_recognised(form: Form) -> None:
    logs = [form(simulate_log(seed, reviews)) for seed, reviews in ((1, 60), (2, 400), (3, 3_000))]
    assert not any(is_recognised(earlier, later) for earlier, later in permutations(logs, 2))


@FORMS
def test_real_people_are_recognised_and_no_strangers(form: Form) -> None:
    folder = os.environ.get("SRS_EVAL_REAL")
    if folder is None:
        pytest.skip("needs SRS_EVAL_REAL, a folder with real collections")
    logs = [form(load_log(path)) for path in sorted(Path(folder).glob("*.anki2"))]
    assert len(logs) > 1
    for log in logs:
        rows = log.rows
        assert rows is not None
        third = {
            name: column[: len(rows) // 3]
            for name, column in vars(rows).items()
            if column is not None
        }
        assert is_recognised(replace(log, rows=Rows(**third)), log)
    assert not any(is_recognised(earlier, later) for earlier, later in permutations(logs, 2))


@given(st.integers(4, 60), st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_half_of_a_small_history_suffices(size: int, random: object) -> None:
    """Replace half of a person's reviews by as many of somebody else."""
    seconds = np.array(random.sample(range(1, 10**7), 2 * size))  # type: ignore[attr-defined]

    def log(elapsed_s: NDArray[np.int64]) -> ReviewLog:
        count = len(elapsed_s)
        card = np.arange(count).repeat(2)
        elapsed = np.stack([np.full(count, -1), elapsed_s], axis=1).ravel()
        unit = np.ones(2 * count, np.int64)
        rows = Rows(card, 0 * unit, 3 * unit, unit, 1_234 * unit, 0 * unit, elapsed)
        return ReviewLog(ImportSummary("", "", 0), rows=rows, user=1)

    half = max(-(-size // 2), 4)
    assert is_recognised(log(seconds[:size]), log(seconds[size - half : 2 * size]))
    assert not is_recognised(log(seconds[:size]), log(seconds[size:]))


def test_a_sketch_is_short_and_hashes_fit_into_32_bits() -> None:
    log = simulate_log(3, 3_000)
    assert len(sketch_of(log)) == 344
    hashes = review_hashes(log)
    assert hashes.dtype == np.uint32
    assert (np.diff(hashes.astype(np.int64)) > 0).all()


def test_person_without_later_reviews_is_not_recognised() -> None:
    log = take_first(simulate_log(3), 1)
    assert sketch_of(log) == ""
    assert not is_recognised(log, log)
    assert not Sketches.of([]).recognise(simulate_log(3))


@pytest.mark.slow
def test_many_sketches_are_held_against_one_log_at_once() -> None:
    logs = [as_dataset(take_first(simulate_log(seed), 300)) for seed in range(1, 5)]
    sketches = Sketches.of(map(sketch_of, logs))
    answers = [sketches.recognise(as_dataset(simulate_log(seed))) for seed in range(1, 7)]
    assert answers == [True, True, True, True, False, False]


@pytest.mark.parametrize("text", ["!", "AAA", "AAAA", 3])
def test_a_damaged_sketch_is_a_value_error(text: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        Sketches.of([text])  # type: ignore[list-item]
