"""Learners for tests of advice: Anki's figures on its fixtures, and made-up habits."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.advice import shown
from srs_eval.advice.acts import find_acts
from srs_eval.advice.answering import stream_answers
from srs_eval.advice.findings import Check, ExcludedCards, Finding
from srs_eval.advice.overview import Overview
from srs_eval.advice.sentences import FirstScreen
from srs_eval.advice.shown.first_screen import build_first_screen
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
    """Prepare trials as Anki was asked: without suspended cards, with no ignore-before date."""
    rows = select_rows(select_presets(log, preset), "anki", apply_ignore_before=False).rows
    return prepare_trials(log, rows, Protocol(rows="anki", short=True))


def compute_in_sample(trials: Trials, parameters: Sequence[float]) -> tuple[float, float]:
    """Compute log loss and RMSE(bins) of parameters on all reviews, as Anki's "Evaluate" does.

    Newer reviews weigh more, in the bins too (fsrs-rs: src/dataset.rs, src/inference.rs).
    """
    index = np.arange(len(trials))
    p = fsrs6.predict(trials, list(parameters), index, Context())
    weights = compute_recency_weights(len(trials))
    bins = compute_rmse_bin_ids(trials.bin_delta_t, trials.bin_i, trials.bin_lapses)
    log_loss = float((log_losses(trials.y, p) * weights).sum() / weights.sum())
    _, bin_of = np.unique(bins, return_inverse=True)
    apart = np.bincount(bin_of, trials.y - p) / np.bincount(bin_of)  # weights are of bins only
    return log_loss, math.sqrt(np.average(apart**2, weights=np.bincount(bin_of, weights)))


def replace_with_hard(log: ReviewLog, share_of: int) -> ReviewLog:
    """Turn half of the answers that were `share_of` (1 Again, 3 Good) into Hard."""
    assert log.entries is not None
    random = np.random.default_rng(2)
    rating = log.entries.rating.copy()
    chosen = (rating == share_of) & (random.random(len(rating)) < 0.5)
    rating[chosen & (log.entries.kind == REVIEW)] = 2
    return replace(log, entries=replace(log.entries, rating=rating))


def keep_first_entries(log: ReviewLog, count: int) -> ReviewLog:
    assert log.entries is not None
    columns = {name: column[:count] for name, column in vars(log.entries).items()}
    return replace(log, entries=replace(log.entries, **columns))


def join_sentences(findings: Iterable[Finding]) -> str:
    """Join all sentences of the findings."""
    return " ".join(" ".join(shown.sentences(finding)) for finding in findings)


def build_overview(log: ReviewLog) -> Overview:
    """Build a learner's overview from the answers as they come."""
    overview = Overview.start(log)
    for answers, questions in stream_answers(log):
        overview.add(answers, questions)
    return overview


def build_screen(
    answers: Sequence[Finding],
    waiting: Collection[str] = (),
    checks: Sequence[Check] = (),
    *,
    excluded_cards: ExcludedCards | None = None,
    **named: Any,
) -> FirstScreen:
    """Build the first screen of answers and checks, with the acts that follow from them."""
    acts = find_acts(answers, checks, has_active_cards=excluded_cards is None)
    return build_first_screen(
        answers, waiting, checks, acts, excluded_cards=excluded_cards, **named
    )


def find_used_presets(log: ReviewLog) -> list[int]:
    """Find the presets that the decks of cards use."""
    presets = np.unique(log.preset_of(log.cards.deck_id)).tolist()
    return [preset for preset in presets if preset in log.presets]


def write_small_table(path: Path) -> None:
    """Write 720 reviews of 120 cards as a CSV file without decks and presets."""
    lines = ["card_id,review_time,review_rating"]
    for day in range(6):
        for card in range(120):
            time_ms = 1_600_000_000_000 + (day * 86_400 + card) * 1000
            lines.append(f"{card},{time_ms},{1 + (card + day) % 3}")
    path.write_text("\n".join(lines))
