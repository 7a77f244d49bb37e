"""One rule for a review that a file holds twice, as two exports that overlap do when put together.

What makes an entry itself is Anki's id where the source has it, else the card and the moment of
the answer. Entries with one identity are one review: where they are alike, the first counts; where
they differ, only the person can know which is right, and the file is refused. Days without times
of day are no moments: where a file tells days only, entries without an id are all their own.
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
"""What is raised for the places (from 0) of two entries with one identity that differ."""


def first_of_each(
    identity: Sequence[NDArray[Any]],
    content: Sequence[NDArray[Any]] = (),
    contradiction: Contradiction | None = None,
) -> NDArray[np.bool_]:
    """Mark the first entry of each identity, shape (n,); columns of both kinds are (n,) each.

    Raises `contradiction(first, second)` where entries with one identity differ in `content`; a
    source whose entries have no identity but all that they hold gives neither.
    """
    order = np.lexsort(tuple(reversed(identity)))  # keeps the order of equal ones
    repeats = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in identity:
        repeats &= _equals_previous(column[order])
    differs = np.zeros(len(repeats), np.bool_)
    for column in content:
        differs |= ~_equals_previous(column[order])
    wrong = np.flatnonzero(repeats & differs)
    if len(wrong):
        pairs = order[np.stack([wrong, wrong + 1])]
        first, second = pairs[:, np.argmin(pairs[1])].tolist()
        assert contradiction is not None
        raise contradiction(first, second)
    is_first = np.ones(len(order), np.bool_)
    is_first[order[1:][repeats]] = False
    return is_first


def are_days_only(time_ms: IntArray) -> bool:
    """Whether times (n,) in Unix ms all have one time of day, as dates without any do.

    Midnights of a zone with summer time have two in UTC, one hour apart.
    """
    times_of_day = np.unique(time_ms % _DAY_MS)
    if len(times_of_day) == 2:
        return int(times_of_day[1] - times_of_day[0]) in (_HOUR_MS, _DAY_MS - _HOUR_MS)
    return len(times_of_day) <= 1


def _equals_previous(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each value but the first (n - 1,) equals the one before it."""
    same: NDArray[np.bool_] = values[1:] == values[:-1]
    return same


def repeats_in_words(count: int) -> str:
    """A sentence for the import summary about entries that were left out by this rule."""
    if count == 1:
        return "1 entry is in the file a second time; it was left out."
    return f"{count:,} entries are in the file a second time; they were left out."


DAYS_ONLY = (
    "The file has days without times of day: several answers of a card on one day all count, in "
    "the order of the file, even where they are alike."
)
"""A sentence for the import summary of such a file."""
