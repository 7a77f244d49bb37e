"""Split reviews by ranges of a number, such as the card's reviews before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from srs_eval.data.reviews import IntArray

REVIEW_STEPS = (1, 2, 3, 5, 8, 12, 20)
"""Numbers of a card's reviews before, at which groups of reviews begin."""


def split_by_range(
    values: IntArray, range_starts: Sequence[int]
) -> Iterator[tuple[int, int | None, IntArray]]:
    """Yield ranges that hold any values: first, last (None if open) and positions of the values.

    Ranges begin at `range_starts`; the first one includes all values below it, the last one all
    above it.
    """
    range_index = np.maximum(np.searchsorted(range_starts, values, "right") - 1, 0)
    firsts = [min(range_starts[0], int(values.min(initial=range_starts[0]))), *range_starts[1:]]
    lasts: list[int | None] = [start - 1 for start in range_starts[1:]]
    lasts.append(None)
    for number, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        positions = np.flatnonzero(range_index == number)
        if len(positions):
            yield first, last, positions


def format_range(first: int, last: int | None) -> str:
    """Format a range of whole numbers: "5-8", "30 and more", "0"."""
    if last is None:
        return f"{first} and more"
    return str(first) if first == last else f"{first}-{last}"
