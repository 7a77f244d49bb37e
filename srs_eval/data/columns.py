"""More that is known of reviews before their answers: what `Trials.columns` gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError, printable
from srs_eval.data.reviews import (
    LEARNING,
    MISSING,
    Entries,
    FloatArray,
    ReviewLog,
    Rows,
    run_begins,
)
from srs_eval.data.rows import RowKind, select_rows

if TYPE_CHECKING:
    from srs_eval.data.trials import Trials

BEFORE_ANSWERS = ("scheduled_interval", "ease")
"""Columns of entries: a source may not tell them."""


def columns_of_history(trials: Trials, names: Sequence[str]) -> tuple[NDArray[Any], ...]:
    """As `Trials.columns` says; only what is asked for is made."""
    log, rows = trials.source
    card_id, at = trials.history_card_id, trials.history_review_th - 1
    make: dict[str, Callable[[], NDArray[Any]]] = {
        "note_id": lambda: log.note_of(card_id),
        "deck_id": lambda: log.deck_of(card_id),
        "preset_id": lambda: log.preset_of(log.deck_of(card_id)),
        "state": lambda: rows.state[at],
        "kind": lambda: np.maximum(rows.state[at] - 1, LEARNING),
        **{
            name: partial(lambda name: _of_rows(log, rows, trials.protocol.rows, name)[at], name)
            for name in BEFORE_ANSWERS
        },
    }
    table = log.features.names if log.features else ()
    features = cache(partial(log.features_of, card_id))
    make = {n: partial(lambda k: features()[:, k], k) for k, n in enumerate(table)} | make
    if unknown := [name for name in names if name not in make]:
        raise ValueError(f"no column {unknown[0]!r}; there are {', '.join(make)}")
    return tuple(make[name]() for name in names)


def features_of_trials(trials: Trials) -> FloatArray:
    """As `Trials.features` says."""
    return trials.source[0].features_of(trials.card_id)


def _of_rows(log: ReviewLog, rows: Rows, kind: RowKind, name: str) -> NDArray[Any]:
    """A column of BEFORE_ANSWERS for all rows. Raises InputError where the source lacks it."""
    found: NDArray[Any] | None = getattr(rows, name)
    if log.entries is not None and not _is_silent(log.entries, name):
        found = of_entries(log.entries, name)[select_rows(log, kind).entry_index]
    if found is None:
        source = printable(log.import_summary.format.partition(",")[0])
        raise InputError(f"A model asks for the column {name}, which {source} does not tell.")
    return found


def _is_silent(entries: Entries, name: str) -> bool:
    return entries.interval is None if name == "scheduled_interval" else not entries.factor.any()


def of_entries(entries: Entries, name: str) -> NDArray[Any]:
    """A column of BEFORE_ANSWERS for all entries, of which the source tells it."""
    if name == "scheduled_interval":
        days = entries.interval
        assert days is not None
        return np.where(days < 0, -days / 86_400, days)
    order = np.argsort(entries.card_id, kind="stable")
    first = run_begins(entries.card_id[order])
    ease = np.empty_like(entries.factor)
    ease[order] = np.where(first, MISSING, np.roll(entries.factor[order], 1))
    return ease
