"""What Anki says of fixtures, and made-up habits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import REVIEW, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.data.selection import only_preset
from srs_eval.data.trials import Trials, prepare_trials

FIXTURES = "anki/fixtures"
ORACLE_NAMES = ("Default", "Vocabulary", "Sentences", "Older params")


def oracle_trials(log: ReviewLog, preset: str) -> Trials:
    """As Anki was asked: suspended cards left out, no ignore-before date."""
    rows = select_rows(only_preset(log, preset), "anki", apply_ignore_before=False).rows
    return prepare_trials(log, rows, Protocol(rows="anki", short=True))


def with_hard(log: ReviewLog, share_of: int) -> ReviewLog:
    """Answers that were `share_of` (1 Again, 3 Good) become Hard half of the time."""
    assert log.entries is not None
    random = np.random.default_rng(2)
    rating = log.entries.rating.copy()
    chosen = (rating == share_of) & (random.random(len(rating)) < 0.5)
    rating[chosen & (log.entries.kind == REVIEW)] = 2
    return replace(log, entries=replace(log.entries, rating=rating))
