"""Find reviews that a file holds twice, as after joining two exports that overlap.

The identity of an entry is Anki's id if the source has it, else the card and the time of the
answer. Entries with one identity are one review: if they are equal, the first counts; if they
differ, only the user can know which is right, and the file is refused. Days without times of day
identify nothing: if a file has only days, entries without an id are all distinct.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import IntArray

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

Contradiction = Callable[[int, int], InputError]
"""Makes the error for two entries with one identity that differ, from their positions (from 0)."""


def mark_first_occurrences(
    identity: Sequence[NDArray[Any]],
    content: Sequence[NDArray[Any]] = (),
    contradiction: Contradiction | None = None,
) -> NDArray[np.bool_]:
    """Mark the first entry of each identity, shape (n,); columns of both kinds are (n,) each.

    Raises `contradiction(first, second)` if entries with one identity differ in `content`. Both are
    left out for a source whose entries are identified by all their columns.
    """
    order = np.lexsort(tuple(reversed(identity)))  # stable: equal entries keep their order
    repeats = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in identity:
        repeats &= _equals_previous(column[order])
    differs = np.zeros(len(repeats), np.bool_)
    for column in content:
        differs |= ~_equals_previous(column[order])
    contradicting = np.flatnonzero(repeats & differs)
    if len(contradicting):
        pairs = order[np.stack([contradicting, contradicting + 1])]
        earliest = np.argmin(pairs[1])  # the pair that the source completes first
        first, second = pairs[:, earliest].tolist()
        assert contradiction is not None
        raise contradiction(first, second)
    is_first = np.ones(len(order), np.bool_)
    is_first[order[1:][repeats]] = False
    return is_first


def are_days_only(time_ms: IntArray) -> bool:
    """Return whether times (n,) in Unix ms share one time of day, as dates without times do.

    Midnights of a zone with summer time fall on two times of day in UTC, one hour apart.
    """
    times_of_day = np.unique(time_ms % _DAY_MS)
    if len(times_of_day) == 2:
        return int(times_of_day[1] - times_of_day[0]) in (_HOUR_MS, _DAY_MS - _HOUR_MS)
    return len(times_of_day) <= 1


def _equals_previous(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each value but the first (n - 1,) equals the previous one."""
    same: NDArray[np.bool_] = values[1:] == values[:-1]
    return same


def describe_repeats(count: int) -> str:
    """Return a sentence for the import summary about entries that were left out as repeats."""
    if count == 1:
        return "1 entry repeats an earlier entry; the repeat was left out."
    return f"{count:,} entries repeat earlier entries; the repeats were left out."


DAYS_ONLY = (
    "The file has days without times of day: several answers to a card on one day all count, in "
    "the order of the file, even if they are equal."
)
"""A sentence for the import summary of such a file."""
