"""What Anki says of fixtures, and made-up habits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import REVIEW, ReviewLog
from srs_eval.data.rows import select_presets, select_rows
from srs_eval.data.trials import (
    Trials,
    compute_recency_weights,
    compute_rmse_bin_ids,
    prepare_trials,
)
from srs_eval.metrics import log_losses
from srs_eval.models import fsrs6
from srs_eval.training.hyperparameters import Context

FIXTURES = "anki/fixtures"
ORACLE_NAMES = ("Default", "Vocabulary", "Sentences", "Older params")


def oracle_trials(log: ReviewLog, preset: str) -> Trials:
    """As Anki was asked: suspended cards left out, no ignore-before date."""
    rows = select_rows(select_presets(log, preset), "anki", apply_ignore_before=False).rows
    return prepare_trials(log, rows, Protocol(rows="anki", short=True))


def compute_in_sample(trials: Trials, parameters: Sequence[float]) -> tuple[float, float]:
    """Log loss and RMSE(bins) of parameters on all reviews, as Anki's "Evaluate" shows them.

    Newer reviews weigh more, in the bins too (fsrs-rs: src/dataset.rs, src/inference.rs).
    """
    everything = np.arange(len(trials))
    p = fsrs6.predict(trials, list(parameters), everything, Context())
    weights = compute_recency_weights(len(trials))
    bins = compute_rmse_bin_ids(trials.bin_delta_t, trials.bin_i, trials.bin_lapses)
    log_loss = float((log_losses(trials.y, p) * weights).sum() / weights.sum())
    _, place = np.unique(bins, return_inverse=True)
    apart = np.bincount(place, trials.y - p) / np.bincount(place)  # weights are of bins only
    return log_loss, math.sqrt(np.average(apart**2, weights=np.bincount(place, weights)))


def replace_with_hard(log: ReviewLog, share_of: int) -> ReviewLog:
    """Answers that were `share_of` (1 Again, 3 Good) become Hard half of the time."""
    assert log.entries is not None
    random = np.random.default_rng(2)
    rating = log.entries.rating.copy()
    chosen = (rating == share_of) & (random.random(len(rating)) < 0.5)
    rating[chosen & (log.entries.kind == REVIEW)] = 2
    return replace(log, entries=replace(log.entries, rating=rating))
