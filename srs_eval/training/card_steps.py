"""All cards' first review, then all cards' second one ...: recurrences without compiling."""

from __future__ import annotations

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials


def card_steps(trials: Trials) -> tuple[IntArray, ...]:
    """For k = 0, 1, ...: positions of the history rows that are a card's review k.

    Only rows that a trial looks back on. Cards keep their order from step to step
    and those with short histories come last, so a model's state of shape (cards,) is
    carried on by its first `len(rows)` elements. The last row before trial j is
    `history_end[j] - 1`.
    """
    return trials.derived(_card_steps)


def _card_steps(trials: Trials) -> tuple[IntArray, ...]:
    starts, card = np.unique(trials.history_start, return_inverse=True)
    lengths = np.zeros(len(starts), np.int64)
    np.maximum.at(lengths, card, trials.sequence_length)
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    steps = np.arange(lengths[0]) if len(lengths) else np.empty(0, np.int64)
    cards_left = len(lengths) - np.searchsorted(lengths[::-1], steps, side="right")
    return tuple(
        starts[:count] + step
        for step, count in zip(steps.tolist(), cards_left.tolist(), strict=True)
    )


def before(trials: Trials, after_review: FloatArray, index: IntArray) -> FloatArray:
    """What `after_review` (m,), the state after each history row, was before the trials `index`."""
    return after_review[trials.history_end[index] - 1]
