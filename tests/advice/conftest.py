"""A simulated learner with two presets, for all questions about presets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import srs_eval
from srs_eval.advice.candidates import Learner
from srs_eval.data.reviews import Preset, ReviewLog
from srs_eval.models import fsrs6
from tests.conftest import write_simulated_collection


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_simulated_collection(tmp_path_factory, 11, 5_000)


@pytest.fixture(scope="session")
def log(collection: Path) -> ReviewLog:
    """A simulated learner whose decks have a preset each, all changed before the last third."""
    read = srs_eval.load(collection)
    assert read.entries is not None
    changed = int(read.entries.time_ms[len(read.entries) * 2 // 3] // 1000)
    decks = sorted(read.decks)
    presets = {
        100 + k: Preset(100 + k, f"Preset {k}", {6: fsrs6.DEFAULT}, 0.9, modified_s=changed)
        for k in range(2)
    }
    return replace(
        read,
        decks={
            key: replace(read.decks[key], preset_id=100 + position % 2)
            for position, key in enumerate(decks)
        },
        presets=presets,
    )


@pytest.fixture(scope="session")
def learner(log: ReviewLog) -> Learner:
    return Learner.of(log)
