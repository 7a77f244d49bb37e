"""Cards side by side in the lanes of vectors, as kernels of networks take them.

A lane of a vector is a card. Cards of similar lengths share vectors, and vectors form groups. A
group's rows are the first reviews of all its vectors, then all second ones and so on. Where a card
is shorter than the longest one of its vector, its inputs are zeros, and nobody asks for outputs.
The inputs themselves stay where they are, as batches share reviews: a row has their positions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from srs_eval.data.reviews import IntArray
from srs_eval.training.elementwise import SINGLE_LANES
from srs_eval.training.packing import Float32Array, Int32Array

_GROUP_ROWS = 32  # about so many rows form a group: few enough to stay in the processor's cache


class CardBatch(NamedTuple):
    """Reviews of cards, and the reviews after them whose recall is asked for: the items.

    Lanes are the last axis: SINGLE_LANES cards.
    """

    x: Float32Array  # (m, inputs) of all reviews
    position: Int32Array  # (rows, lanes) of a review in x; -1 after a card's end
    delta_t: Float32Array  # (rows, lanes) days from this review to the item
    passes: Float32Array  # (rows, lanes) the item's weight if it is a pass, else 0
    failures: Float32Array  # (rows, lanes) its weight if it is a failure, else 0
    recall: Float32Array  # (rows, lanes) the result
    before: Int32Array  # (rows,) row of the review before, counted in the group; -1 if none
    first_row: IntArray  # (groups + 1,)
    groups: int


def new_aligned(*shape: int) -> Float32Array:
    """Return zeros at an address that suits vectors: otherwise each would span two cache lines."""
    line = 4 * SINGLE_LANES
    count = math.prod(shape)
    memory = np.zeros(count + SINGLE_LANES, np.float32)
    begin = -memory.ctypes.data % line // 4
    return memory[begin : begin + count].reshape(shape)


def make_batch(
    x: Float32Array,
    start: IntArray,
    length: IntArray,
    delta_t: Float32Array,
    passes: Float32Array,
    failures: Float32Array,
) -> tuple[CardBatch, IntArray]:
    """Return a batch, and the positions of its n items in `recall`, read as one row (n,).

    An item asks for the recall `delta_t` days after review `length` of the card whose history
    begins at `start` in the inputs x (m, inputs). All other arguments have the shape (n,).
    """
    cards, card = np.unique(start, return_inverse=True)
    longest = np.zeros(len(cards), np.int64)
    np.maximum.at(longest, card, length)
    # Longest first, so that the cards of a vector have similar lengths.
    order = np.argsort(-longest, kind="stable")
    place = np.empty(len(cards), np.int64)
    place[order] = np.arange(len(cards))
    layout = _lay_out_rows(longest[order[::SINGLE_LANES]])

    def by_vector(values: IntArray) -> IntArray:
        """Return the values of all cards, in order, as an array (vectors, SINGLE_LANES)."""
        filled_up = np.pad(values[order], (0, -len(cards) % SINGLE_LANES))
        return filled_up.reshape(-1, SINGLE_LANES)

    step = layout.step[:, None]
    inside = step < by_vector(longest)[layout.vector]
    position = np.where(inside, by_vector(cards)[layout.vector] + step, -1).astype(np.int32)

    vector, lane = np.divmod(place[card], SINGLE_LANES)
    row = layout.row[layout.begin[vector] + length - 1]
    item = row * SINGLE_LANES + lane

    def spread(values: Float32Array) -> Float32Array:
        array = new_aligned(len(position), SINGLE_LANES)
        array.reshape(-1)[item] = values
        return array

    batch = CardBatch(
        x=x,
        position=position,
        delta_t=spread(delta_t),
        passes=spread(passes),
        failures=spread(failures),
        recall=new_aligned(len(position), SINGLE_LANES),
        before=layout.before,
        first_row=layout.first_row,
        groups=len(layout.first_row) - 1,
    )
    return batch, item


class _RowLayout(NamedTuple):
    """Rows in the order in which a kernel visits them."""

    vector: IntArray  # (rows,) number of the vector
    step: IntArray  # (rows,) number of its cards' reviews before
    before: Int32Array  # as in `CardBatch`, like the next one
    first_row: IntArray
    begin: IntArray  # (vectors,) where each vector begins in `row`
    row: IntArray  # (rows,) the row of each step, vector after vector


def _lay_out_rows(steps: IntArray) -> _RowLayout:
    """Return the layout for vectors whose longest card has `steps` (vectors,) reviews."""
    begin = np.cumsum(steps) - steps
    group = begin // _GROUP_ROWS
    vector = np.repeat(np.arange(len(steps)), steps)
    step = np.arange(len(vector)) - begin[vector]
    order = np.lexsort((vector, step, group[vector]))
    row = np.empty(len(vector), np.int64)
    row[order] = np.arange(len(vector))
    vector, step = vector[order], step[order]
    first_row_of_group = np.flatnonzero(np.diff(group[vector], prepend=-1))
    first_row = np.append(first_row_of_group, len(vector))
    group_number = np.searchsorted(first_row, np.arange(len(vector)), side="right") - 1
    before = row[np.maximum(order - 1, 0)] - first_row[group_number]
    before[step == 0] = -1
    return _RowLayout(vector, step, before.astype(np.int32), first_row, begin, row)
