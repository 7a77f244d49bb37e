"""What LSTM, as a memory, does to many cards at once: its part of `loops`.

The network is that of `models.lstm`, in double precision and 8 cards at a time; its weights are
the vector that `models.lstm.as_vector` makes, layer after layer. A card's state are h and c of
both recurrent layers, and then weight, stability and exponent of its forgetting curves: what
the network makes of an answer is computed once, when it is given.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from srs_eval.advice.workload.loops import keep
from srs_eval.models.lstm import CURVES, HIDDEN, INPUTS, VALUES
from srs_eval.training.cells import LSTM, Shape, forward
from srs_eval.training.elementwise import LANES
from srs_eval.training.simd import (
    broadcast,
    exp,
    gather_state,
    load,
    log,
    rows_of,
    starting_at,
    store,
    where,
)

_RECURRENT = 4 * HIDDEN  # numbers in a card's state before those of its curves
_CURVE_VALUES = 3 * CURVES
_NORMALISATION = VALUES - 4  # where mean and deviation of both inputs begin among the weights
_EPSILON = 1e-5  # of the layer norms
_LARGEST_LOG = 25.0  # of stabilities and exponents


def silu(x: Any) -> Any:
    return x / (1.0 + exp(-x))


def _linear(w: Any, at: int, inputs: int, outputs: int, x: Any, out: Any) -> int:
    """out = W x + b. Returns where the next layer's weights begin, as all layers do."""
    bias = at + inputs * outputs
    for j in range(outputs):
        value = broadcast(w[bias + j])
        for k in range(inputs):
            value += w[at + j * inputs + k] * x[k]
        out[j] = value
    return bias + outputs


def _through_silu(x: Any) -> None:
    for k in range(HIDDEN):
        x[k] = silu(x[k])


def _normed(w: Any, at: int, x: Any, out: Any) -> int:
    """out = the layer norm of x, without a bias."""
    mean, square = broadcast(0.0), broadcast(0.0)
    for k in range(HIDDEN):
        mean += x[k]
    mean = mean * (1.0 / HIDDEN)
    for k in range(HIDDEN):
        square += (x[k] - mean) * (x[k] - mean)
    scale = exp(-0.5 * log(square * (1.0 / HIDDEN) + _EPSILON))
    for k in range(HIDDEN):
        out[k] = w[at + k] * ((x[k] - mean) * scale)
    return at + HIDDEN


def _scratch() -> Any:
    """Room for LANES cards: two of a layer's values, a cell's state before and after, its rest."""
    return (
        np.empty((HIDDEN, LANES)),
        np.empty((HIDDEN, LANES)),
        np.empty((2 * HIDDEN, LANES)),
        np.empty((2 * HIDDEN, LANES)),
        np.empty((5 * HIDDEN, LANES)),
    )


def _recurrent_layer(
    w: Any, at: int, states: Any, room: int, card: Any, i: int, end: int, first: int, row: int,
    scratch: Any,
) -> int:  # fmt: skip
    """The cells, whose states begin at a row of the cards': h + their output in place of h."""
    h, x, before, after, kept = scratch
    for k in range(2 * HIDDEN):
        for lane in range(LANES):
            before[k, lane] = 0.0 if first else states[(row + k) * room + card[i + lane]]
    shape = Shape(LSTM, 0, HIDDEN, HIDDEN)
    forward(shape, starting_at(w, at), x, 0, after, kept, 0, rows_of(before))
    own = starting_at(states, row * room)
    keep(own, room, 2 * HIDDEN, card, i, end, starting_at(after, 0))
    sums, added = rows_of(h), rows_of(after)
    for k in range(HIDDEN):
        sums[k] = sums[k] + added[k]
    return at + 4 * HIDDEN * (2 * HIDDEN + 2)


def _answered(
    w: Any, states: Any, room: int, card: Any, i: int, end: int, first: int, t: Any, rating: Any,
    seconds: Any, scratch: Any,
) -> None:  # fmt: skip
    """LANES answers, to the cards from card[i] on: their states after them."""
    h, x, _, after, _ = scratch
    rows, others, curves = rows_of(h), rows_of(x), rows_of(after)
    ms = 1000.0 * seconds
    ms = where(ms < 100.0, 100.0, where(ms > 60_000.0, 60_000.0, ms))
    others[0] = (log(1e-5 + t) - w[_NORMALISATION]) / broadcast(w[_NORMALISATION + 2])
    others[1] = (log(ms) - w[_NORMALISATION + 1]) / broadcast(w[_NORMALISATION + 3])
    for k in range(1, 5):
        others[1 + k] = where(rating == float(k), 1.0, broadcast(0.0))
    at = _linear(w, 0, INPUTS, HIDDEN, others, rows)
    _through_silu(rows)
    at = _normed(w, at, rows, others)
    at = _linear(w, at, HIDDEN, HIDDEN, others, rows)
    _through_silu(rows)

    at = _normed(w, at, rows, others)
    at = _recurrent_layer(w, at, states, room, card, i, end, first, 0, scratch)
    at = _normed(w, at, rows, others)
    for k in range(HIDDEN):  # the only norm with a bias
        others[k] = others[k] + w[at + k]
    at += HIDDEN
    at = _recurrent_layer(w, at, states, room, card, i, end, first, 2 * HIDDEN, scratch)

    mixed = curves
    at = _normed(w, at, rows, others)
    at = _linear(w, at, HIDDEN, HIDDEN, others, mixed)
    _through_silu(mixed)
    at = _normed(w, at, mixed, others)
    at = _linear(w, at, HIDDEN, HIDDEN, others, mixed)
    _through_silu(mixed)
    for k in range(HIDDEN):
        rows[k] = rows[k] + mixed[k]
    at = _normed(w, at, rows, others)
    at = _linear(w, at, HIDDEN, HIDDEN, others, rows)
    _through_silu(rows)

    for part in range(3):  # weights, stabilities, exponents
        at = _linear(w, at, HIDDEN, CURVES, rows, others)
        total = broadcast(0.0)
        for k in range(CURVES):
            z = others[k]
            if part > 0:
                z = where(
                    z < -_LARGEST_LOG, -_LARGEST_LOG, where(z > _LARGEST_LOG, _LARGEST_LOG, z)
                )
            curves[part * CURVES + k] = exp(z)
            total += exp(z)
        if part == 0:
            for k in range(CURVES):
                curves[k] = curves[k] / total
    own = starting_at(states, _RECURRENT * room)
    keep(own, room, _CURVE_VALUES, card, i, end, starting_at(after, 0))


def _recall(
    parameters: Any, states: Any, room: int, card: Any, t: Any, count: int, out: Any
) -> None:
    for i in range(0, count, LANES):
        curves = gather_state(
            (starting_at(states, _RECURRENT * room), room), card, i, _CURVE_VALUES
        )
        p = broadcast(0.0)
        for k in range(CURVES):
            s, d = curves[CURVES + k], curves[2 * CURVES + k]
            p += curves[k] * exp(-d * log(1.0 + load(t, i) / (1e-7 + s)))
        store(out, i, (1.0 - 1e-7) * p)


NETWORK = {"scratch": _scratch, "answered": _answered, "recall": _recall}
