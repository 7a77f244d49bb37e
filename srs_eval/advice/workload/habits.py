"""What a learner's answers take, and which buttons are pressed, from their own log.

The rules are those by which Anki feeds its simulator (open-spaced-repetition/fsrs-rs 6.6:
src/simulation.rs, `extract_simulator_config` with smoothing), so that figures compare:

- An answer counts if it took more than 0 and less than 20 minutes.
- Seconds: the mean, in whole milliseconds, by state (learning, review, relearning) and rating.
- How much answers of one state and rating differ in time: the standard deviation of the logarithm.
- Shares of ratings go by the first answer of a card on a day: one in learning, or a review; of
  reviews the shares of Hard, Good and Easy among those passed.
- Steps: which rating follows which on the same day, where a day began in learning or with a
  failed review, with one more of each than were seen.
- All of these are drawn to the defaults of many learners, with weight 50 / (n + 50) where n
  answers were seen.

Anki's rounding differs: figures of float32 there are of float64 here. The spread is ours: Anki's
simulator knows no memory that sees what an answer takes.
"""

from __future__ import annotations

import numpy as np

from srs_eval.advice.workload.simulator import Costs
from srs_eval.data.reviews import (
    LEARNING,
    RELEARNING,
    REVIEW,
    Entries,
    FloatArray,
    IntArray,
    ReviewLog,
)

_LONGEST_MS = 1_200_000
_DEFAULTS_COUNT = 50.0  # as many answers as the defaults stand for
_DAY_S = 86_400


def costs_of(log: ReviewLog, card_id: IntArray) -> Costs:
    """Costs from all answers to the cards; the defaults where there are none.

    `card_id` may be in any order. The log must have entries and a day grid.
    """
    assert log.entries is not None
    assert log.day_grid is not None
    entries = log.entries
    counted = (entries.duration_ms > 0) & (entries.duration_ms < _LONGEST_MS)
    counted &= (entries.rating >= 1) & (entries.rating <= 4)
    kept = np.flatnonzero(counted & np.isin(entries.card_id, card_id))
    if not len(kept):
        return Costs()
    # By card and day, in order of time.
    late_s = entries.time_ms[kept] // 1000 - log.day_grid.next_day_at_s
    day = np.sign(late_s) * (np.abs(late_s) // _DAY_S)
    order = np.lexsort((np.arange(len(kept)), day, entries.card_id[kept]))
    kept, day = kept[order], day[order]
    card, rating, kind = entries.card_id[kept], entries.rating[kept], entries.kind[kept]
    first = np.ones(len(kept), np.bool_)
    first[1:] = (card[1:] != card[:-1]) | (day[1:] != day[:-1])

    default = Costs()
    first_kind = kind[first][np.cumsum(first) - 1]  # of the card's day
    first_rating = rating[first][np.cumsum(first) - 1]
    learned = np.bincount(rating[first & (kind == LEARNING)], minlength=5)[1:]
    reviewed = np.bincount(rating[first & (kind == REVIEW)], minlength=5)[2:]
    return Costs(
        seconds=_rows(_seconds(entries, kept, default)),
        spread=_spread(entries, kept, default.spread),
        first_rating=_row(_shares(learned, default.first_rating)),
        review_rating=_row(_shares(reviewed, default.review_rating)),
        learning_steps=_rows(_steps(rating, first, first_kind == LEARNING, default.learning_steps)),
        relearning_steps=_rows(
            _steps(
                rating,
                first,
                (first_kind == REVIEW) & (first_rating == 1),
                default.relearning_steps,
            )
        ),
    )


def _by_state_and_rating(entries: Entries, kept: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Where each answer belongs (k,), its milliseconds (k,), and how many belong there (12,)."""
    kind, rating = entries.kind[kept], entries.rating[kept]
    known = (kind >= LEARNING) & (kind <= RELEARNING)
    cell = (4 * kind + rating - 1)[known]
    return cell, entries.duration_ms[kept][known], np.bincount(cell, minlength=12)


def _seconds(entries: Entries, kept: IntArray, default: Costs) -> FloatArray:
    """By state and rating (3, 4)."""
    cell, ms, count = _by_state_and_rating(entries, kept)
    mean = np.bincount(cell, ms, minlength=12) // np.maximum(count, 1) / 1000
    drawn = _drawn(mean, np.ravel(default.seconds), count)
    return np.round(drawn, 2).reshape(3, 4)


def _spread(entries: Entries, kept: IntArray, default: float) -> float:
    """Of ln seconds around the mean of their state and rating."""
    cell, ms, count = _by_state_and_rating(entries, kept)
    log_ms = np.log(ms)
    mean = np.bincount(cell, log_ms, minlength=12) / np.maximum(count, 1)
    free = max(len(ms) - int((count > 0).sum()), 0)  # answers beyond the first of each
    variance = float(((log_ms - mean[cell]) ** 2).sum()) / max(free, 1)
    return float(_drawn(np.sqrt(variance), np.array(default), free))


def _shares(count: IntArray, default: tuple[float, ...]) -> FloatArray:
    """Of ratings that were seen `count` times (k,)."""
    count = count if count.any() else np.ones_like(count)  # as if each had been seen once
    return _drawn(count / count.sum(), np.array(default), int(count.sum()))


def _steps(
    rating: IntArray,
    first: np.ndarray,
    taken: np.ndarray,
    default: tuple[tuple[float, ...], ...],
) -> FloatArray:
    """Shares of the four ratings after Again, Hard and Good (3, 4), on the days `taken` (n,)."""
    follows = np.flatnonzero(~first & taken)
    cell = 4 * (rating[follows - 1] - 1) + rating[follows] - 1
    count = np.bincount(cell, minlength=16).reshape(4, 4)[:3] + 1.0
    total = count.sum(axis=1, keepdims=True)
    return _drawn(count / total, np.array(default), total)


def _drawn(seen: FloatArray, default: FloatArray, count: FloatArray | IntArray | int) -> FloatArray:
    weight = count / (_DEFAULTS_COUNT + count)
    return weight * seen + (1.0 - weight) * default


def _row(values: FloatArray) -> tuple[float, ...]:
    return tuple(values.tolist())


def _rows(values: FloatArray) -> tuple[tuple[float, ...], ...]:
    return tuple(map(_row, values))
