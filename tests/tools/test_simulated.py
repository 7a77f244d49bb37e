"""Check that simulated learners are deterministic and lifelike, and their files valid."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import srs_eval
from srs_eval.data.datasets import Dataset
from srs_eval.data.reviews import FILTERED, LEARNING, MANUAL, RELEARNING, REVIEW
from srs_eval.data.rows import select_rows
from tests.conftest import make_simulated_users
from tools.simulated import SimulatedLearner, simulate_learner, write_collection
from tools.simulated.character import DAY_S, FIRST_DAY_S
from tools.simulated.learner import average_over_shifts
from tools.simulated.memory import DEFAULT_PARAMETERS, fuzz_interval, interval_for, retrievability
from tools.simulated.worlds import World, simulate_world


def test_simulate_learner_depends_on_its_seed_alone() -> None:
    first, again, next_seed = (simulate_learner(seed, 500) for seed in (3, 3, 4))
    assert first.log().fingerprint() == again.log().fingerprint()
    assert first.log().fingerprint() != next_seed.log().fingerprint()


@pytest.mark.slow
def test_20_000_reviews_take_about_a_second() -> None:
    begin = time.process_time()
    simulate_learner(5)
    assert time.process_time() - begin < 3  # 0.5 s on a laptop; machines that run tests are busy


def answers(learner: SimulatedLearner) -> np.ndarray:
    return (learner.entries.rating > 0) & (learner.entries.factor > 0)


@pytest.mark.parametrize("reviews", [1, 2, 10, 777])
@pytest.mark.parametrize("scheduler", ["fsrs", "sm2"])
def test_number_of_answers_is_exact(reviews: int, scheduler: Literal["fsrs", "sm2"]) -> None:
    learner = simulate_learner(1, reviews, scheduler=scheduler, incidents=False)
    assert len(learner.entries) == reviews
    assert (learner.entries.rating > 0).all()


def test_no_learner_without_reviews() -> None:
    with pytest.raises(ValueError, match="at least one"):
        simulate_learner(1, 0)


def test_entries_are_those_of_a_real_collection(simulated_learner: SimulatedLearner) -> None:
    entries = simulated_learner.entries
    cards = simulated_learner.cards
    assert (np.diff(entries.time_ms) > 0).all()
    for kind in (LEARNING, REVIEW, RELEARNING):
        assert (entries.kind == kind).sum() > 500
    previews = (entries.kind == FILTERED) & (entries.factor == 0)
    early = (entries.kind == FILTERED) & (entries.factor > 0)
    resets = (entries.kind == MANUAL) & (entries.factor == 0)
    due_dates = (entries.kind == MANUAL) & (entries.factor > 0)
    assert min(previews.sum(), early.sum(), resets.sum(), due_dates.sum()) >= 3
    assert ((entries.rating == 0) == (entries.kind == MANUAL)).all()
    assert entries.duration_ms.max() <= 60_000
    median = np.median(entries.duration_ms[answers(simulated_learner)])
    assert 3_000 < median < 10_000
    # Cards: deleted ones keep their entries, leeches are suspended, some wait in a filtered deck.
    assert np.isin(cards.card_id[cards.deleted], entries.card_id).sum() > 10
    assert (cards.suspended & (cards.lapses >= 8)).any()
    assert cards.filtered.any()
    assert (cards.phase == 0).sum() > 50
    assert (np.diff(cards.card_id) > 0).all()


def test_intervals_and_days_agree(simulated_learner: SimulatedLearner) -> None:
    """Check that reviews are not early and follow the interval scheduled last."""
    learner = simulated_learner
    entries = learner.entries
    order = np.argsort(entries.card_id, kind="stable")
    card = entries.card_id[order]
    kind = entries.kind[order]
    day = (entries.time_ms[order] // 1000 - 3 * 3600) // 86_400
    follows = (card[1:] == card[:-1]) & (kind[1:] == REVIEW) & (kind[:-1] <= RELEARNING)
    scheduled = learner.interval[order][:-1][follows]
    waited = (day[1:] - day[:-1])[follows]
    assert (scheduled > 0).all()
    assert (waited >= scheduled).all()
    assert (learner.last_interval[order][1:][follows] == scheduled).all()
    steps = (card[1:] == card[:-1]) & np.isin(kind[1:], (LEARNING, RELEARNING))
    steps &= np.isin(kind[:-1], (LEARNING, REVIEW, RELEARNING))
    seconds = np.diff(entries.time_ms[order])[steps] / 1000
    assert (seconds >= -learner.interval[order][:-1][steps] - 1).all()


def test_recall_is_what_the_memory_says(simulated_learner: SimulatedLearner) -> None:
    """Check that answers follow the recorded probability of recall, in every band of it."""
    is_recall = ~np.isnan(simulated_learner.recall)
    p = simulated_learner.recall[is_recall]
    y = simulated_learner.entries.rating[is_recall] > 1
    assert len(p) > 15_000
    for low, high in ((0.3, 0.8), (0.8, 0.9), (0.9, 0.96), (0.96, 1.0)):
        band = (p >= low) & (p < high)
        error = np.sqrt((p[band] * (1 - p[band])).sum()) / band.sum()
        assert abs(y[band].mean() - p[band].mean()) < 4 * error, (low, high)


def test_recall_on_usual_days_has_lost_the_shift_of_its_own_day() -> None:
    spells = World(day_sd=0.6, day_persistence=0.95)
    simulated = simulate_world(spells, seed=4, reviews=2_000)
    later = ~np.isnan(simulated.recall)
    recall = simulated.recall[later]
    logit = np.log(recall / (1 - recall))
    usual = simulated.average_recall_over_days(0.0)[later]
    day = (simulated.entries.time_ms // 1000 - FIRST_DAY_S) // DAY_S
    shift = simulated.day_shifts[day[later]]
    assert np.ptp(shift) > 0.5
    np.testing.assert_allclose(np.log(usual / (1 - usual)), logit - shift, atol=1e-6)


def test_average_over_shifts_equals_that_of_many_draws() -> None:
    draws = 0.6 * np.random.default_rng(0).standard_normal(400_000)
    average = average_over_shifts(np.array([2.0, -1.0]), 0.6)
    for logit, p in zip((2.0, -1.0), average, strict=True):
        assert p == pytest.approx(np.mean(1 / (1 + np.exp(-(logit + draws)))), abs=1e-3)


def test_benchmark_rows_have_the_retention_of_the_scheduler(
    simulated_learner: SimulatedLearner,
) -> None:
    """Select rows as the benchmark does: retention is near the scheduler's aim."""
    rows = select_rows(simulated_learner.log()).rows
    later = rows.elapsed_days > 0
    assert later.sum() > 8_000
    assert (rows.elapsed_days == 0).sum() > 2_000
    assert 0.8 < (rows.rating[later] > 1).mean() < 0.97


def test_two_buttons_and_never_forgetting() -> None:
    pressed = simulate_learner(2, 800, buttons=2, incidents=False).entries.rating
    assert set(pressed.tolist()) == {1, 3}
    learner = simulate_learner(2, 800, forgets=False)
    assert (learner.entries.rating != 1).all()


def test_interval_and_retrievability_are_inverse() -> None:
    w = np.repeat(np.array(DEFAULT_PARAMETERS)[:, None], 4, axis=1)
    stability = np.array([0.1, 1.0, 20.0, 500.0])
    retention = np.array([0.7, 0.8, 0.9, 0.97])
    days = interval_for(w, stability, retention)
    np.testing.assert_allclose(retrievability(w, stability, days), retention, rtol=1e-12)
    assert days[2] == pytest.approx(20.0)  # at 90 % the interval is the stability


def test_fuzz_stays_near() -> None:
    random = np.random.default_rng(0)
    assert (fuzz_interval(random, np.full(100, 2.4)) == 2).all()
    drawn = fuzz_interval(random, np.full(1000, 50.0))
    spread = 1 + 0.15 * 4.5 + 0.1 * 13 + 0.05 * 30
    assert drawn.min() == round(50 - spread)
    assert drawn.max() == round(50 + spread)


# Files


def test_collection_is_imported_as_it_was_simulated(
    simulated_learner: SimulatedLearner, simulated_collection: Path
) -> None:
    log = srs_eval.load(simulated_collection)
    expected = simulated_learner.log()
    assert log.fingerprint() == expected.fingerprint()
    assert log.import_summary.entries_read == len(simulated_learner.entries)
    assert dict(log.presets) == dict(expected.presets)
    assert dict(log.decks) == dict(expected.decks)
    used = [preset for preset in log.presets.values() if len(preset.active_parameters) == 21]
    assert len(used) == 2


def test_collection_is_a_sound_database(simulated_collection: Path) -> None:
    with closing(sqlite3.connect(f"file:{simulated_collection}?immutable=1", uri=True)) as database:
        figures = {
            name: database.execute(query).fetchone()[0]
            for name, query in {
                "check": "pragma integrity_check",
                "schema": "select ver from col",
                "homeless cards": "select count() from cards"
                " where nid not in (select id from notes)",
                "empty notes": "select count() from notes where id not in (select nid from cards)",
                "graves": "select count() from graves where type = 0",
                "gone cards": "select count(distinct cid) from revlog"
                " where cid not in (select id from cards)",
                "filtered": "select count() from cards where odid != 0 and odue > 0 and due < 0",
            }.items()
        }
    assert figures["check"] == "ok"
    assert figures["schema"] == 11
    assert figures["homeless cards"] == figures["empty notes"] == 0
    assert figures["graves"] >= figures["gone cards"] > 0
    assert figures["filtered"] > 0


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "collection.anki2"
    path.write_text("somebody's")
    with pytest.raises(FileExistsError):
        write_collection(simulate_learner(1, 10), path)
    assert path.read_text() == "somebody's"


def test_dataset_has_the_rows_of_the_collections(simulated_dataset: Path) -> None:
    dataset = Dataset(simulated_dataset)
    users = make_simulated_users()
    assert dataset.users == sorted(users)
    for user, learner in users.items():
        stored = dataset.load(user)
        source = learner.log()
        expected = select_rows(source).rows
        assert stored.rows is not None
        for name in ("rating", "state", "day_offset", "elapsed_days", "elapsed_seconds"):
            np.testing.assert_array_equal(getattr(stored.rows, name), getattr(expected, name))
        # Ids are others, but they tell the same things apart.
        for new, old in (
            (stored.rows.card_id, expected.card_id),
            (stored.deck_of(stored.rows.card_id), source.deck_of(expected.card_id)),
            (
                stored.preset_of(stored.deck_of(stored.rows.card_id)),
                source.preset_of(source.deck_of(expected.card_id)),
            ),
        ):
            pairs = set(zip(new.tolist(), old.tolist(), strict=True))
            assert len(pairs) == len({pair[0] for pair in pairs}) == len({p[1] for p in pairs})
    missing = dataset.load(6)
    assert missing.rows is not None
    decks = missing.deck_of(missing.rows.card_id)
    assert (decks == -1).sum() > 20
    assert ((decks >= 0) & (missing.preset_of(decks) == -1)).sum() > 20
