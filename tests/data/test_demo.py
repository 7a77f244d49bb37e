"""The demo's collection."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import zstandard

import srs_eval
from srs_eval.data.paths import DEMO_FILE
from srs_eval.data.rows import select_rows
from tools.simulated.__main__ import DEMO_REVIEWS, write_demo


def test_demo_collection_has_enough_reviews_for_verdicts() -> None:
    log = srs_eval.load(DEMO_FILE)
    assert DEMO_REVIEWS <= log.import_summary.entries_read < 1.03 * DEMO_REVIEWS
    rows = select_rows(log).rows
    presets = log.preset_of(log.deck_of(rows.card_id))
    later = rows.elapsed_days > 0
    # Each preset has enough held-out reviews for a verdict.
    _, counts = np.unique(presets[later & (presets >= 0)], return_counts=True)
    assert len(counts) == 2
    assert counts.min() > 3_000
    assert len(np.unique(log.deck_of(rows.card_id))) >= 4


def _content(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


@pytest.mark.slow
def test_demo_collection_equals_a_newly_made_one(tmp_path: Path) -> None:
    shipped = tmp_path / "shipped.anki2"
    rebuilt = tmp_path / "made.anki2"
    shipped.write_bytes(zstandard.decompress(DEMO_FILE.read_bytes()))
    write_demo(rebuilt)
    assert _content(rebuilt) == _content(shipped)
