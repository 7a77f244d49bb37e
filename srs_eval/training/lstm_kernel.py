"""LSTM's network on sixteen cards at once: forward pass and gradient.

The network is that of `models.lstm`, which has its source and runs it in torch on other devices.
Its layers are 20 units wide: so little is computed in each step of a card that most of torch's time
goes into calls. Gradients are written by hand, since layers are loops over units, while `tracing`
derives gradients of steps, in which every operation is written out.

Its rows are those of `card_lanes`. One layer after the other goes through all rows of a group, so
that its weights stay near the processor. Values are float32, as in torch. Those that the backward
pass needs are kept for one group: `Activations` has a part for each layer, which holds some vectors
of each row. Gradients are summed up by lane.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from llvmlite.binding import get_host_cpu_features

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.training.card_lanes import CardBatch, new_aligned
from srs_eval.training.cells import cross_entropy_slope, sigmoid, tanh
from srs_eval.training.compile import compile_kernel
from srs_eval.training.elementwise import SINGLE_LANES
from srs_eval.training.packing import Float32Array, pack, unpack
from srs_eval.training.simd import (
    add_outer_products,
    add_products,
    broadcast,
    exp,
    load,
    log,
    pointer_from,
    rows_after,
    rows_of_all,
    sqrt,
    store,
    total,
    where,
)

INPUTS = 6
HIDDEN = 20
CURVES = 3
_GATES = 4 * HIDDEN
_OUTPUTS = 3 * CURVES

_SQUARE = (HIDDEN, HIDDEN)
_CELL = {
    "weight_ih_l0": (_GATES, HIDDEN),
    "weight_hh_l0": (_GATES, HIDDEN),
    "bias_ih_l0": (_GATES,),
    "bias_hh_l0": (_GATES,),
}
TENSOR_SHAPES: dict[str, tuple[int, ...]] = {
    "process.0.weight": (HIDDEN, INPUTS),
    "process.0.bias": (HIDDEN,),
    "process.2.weight": (HIDDEN,),
    "process.3.weight": _SQUARE,
    "process.3.bias": (HIDDEN,),
    "process.5.module.0.weight": (HIDDEN,),
    **{f"process.5.module.1.module.{name}": shape for name, shape in _CELL.items()},
    "process.6.module.0.weight": (HIDDEN,),
    "process.6.module.0.bias": (HIDDEN,),
    **{f"process.6.module.1.module.{name}": shape for name, shape in _CELL.items()},
    "process.7.module.0.weight": (HIDDEN,),
    "process.7.module.1.weight": _SQUARE,
    "process.7.module.1.bias": (HIDDEN,),
    "process.7.module.3.weight": (HIDDEN,),
    "process.7.module.4.weight": _SQUARE,
    "process.7.module.4.bias": (HIDDEN,),
    "process.8.weight": (HIDDEN,),
    "process.9.weight": _SQUARE,
    "process.9.bias": (HIDDEN,),
    "w_fc.weight": (CURVES, HIDDEN),
    "w_fc.bias": (CURVES,),
    "s_fc.weight": (CURVES, HIDDEN),
    "s_fc.bias": (CURVES,),
    "d_fc.weight": (CURVES, HIDDEN),
    "d_fc.bias": (CURVES,),
}
"""The network's tensors in its own order, in which they lie in the vector of parameters."""

PARAMETERS = sum(math.prod(shape) for shape in TENSOR_SHAPES.values())
_FIRST_TENSORS = {
    "stem_1": "process.0.weight",
    "stem_norm": "process.2.weight",
    "stem_2": "process.3.weight",
    "norm_1": "process.5.module.0.weight",
    "cell_1": "process.5.module.1.module.weight_ih_l0",
    "norm_2": "process.6.module.0.weight",
    "cell_2": "process.6.module.1.module.weight_ih_l0",
    "norm_3": "process.7.module.0.weight",
    "map_3": "process.7.module.1.weight",
    "norm_4": "process.7.module.3.weight",
    "map_4": "process.7.module.4.weight",
    "norm_5": "process.8.weight",
    "map_5": "process.9.weight",
    "heads": "w_fc.weight",
}
"""The first tensor of each layer. A layer's tensors follow each other."""


class Layers(NamedTuple):
    """Where the parameters of each layer begin, or their gradients; in the network's order.

    `cell` is a layer of LSTM cells, `map` a matrix and a bias; SiLU follows each map.
    """

    stem_1: Float32Array
    stem_norm: Float32Array
    stem_2: Float32Array
    norm_1: Float32Array
    cell_1: Float32Array
    norm_2: Float32Array
    cell_2: Float32Array
    norm_3: Float32Array
    map_3: Float32Array
    norm_4: Float32Array
    map_4: Float32Array
    norm_5: Float32Array
    map_5: Float32Array
    heads: Float32Array


_HEAD_SIZE = CURVES * (HIDDEN + 1)  # parameters of the three w, s or d

# Vectors of each row in parts of `Activations`
_OF_NORM = HIDDEN + 1  # the normed values and the inverse of their deviation
_OF_CURVE = 4  # share, value and the value's derivatives with respect to the outputs for s and d
# The gates, the h of the step before, c and tanh c
_BEFORE = _GATES
_C = _GATES + HIDDEN
_SHOWN = _GATES + 2 * HIDDEN
_OF_CELL = _GATES + 3 * HIDDEN

_ACTIVATION_SIZES = {
    "x": INPUTS,
    "stem_1": HIDDEN,
    "stem_norm": _OF_NORM,
    "stem_normed": HIDDEN,
    "stem_2": HIDDEN,
    "norm_1": _OF_NORM,
    "normed_1": HIDDEN,
    "cell_1": _OF_CELL,
    "norm_2": _OF_NORM,
    "normed_2": HIDDEN,
    "cell_2": _OF_CELL,
    "norm_3": _OF_NORM,
    "normed_3": HIDDEN,
    "map_3": HIDDEN,
    "norm_4": _OF_NORM,
    "normed_4": HIDDEN,
    "map_4": HIDDEN,
    "norm_5": _OF_NORM,
    "normed_5": HIDDEN,
    "map_5": HIDDEN,
    "features": HIDDEN,
    "outputs": _OUTPUTS,
    "curves": CURVES * _OF_CURVE,
    "h": HIDDEN,
    "work": HIDDEN,
    "h_bar": HIDDEN,
    "c_bar": HIDDEN,
}


class Activations(NamedTuple):
    """Values of one group (rows, _ACTIVATION_SIZES[name], lanes).

    Most of them are there for the backward pass.
    """

    x: Float32Array  # the inputs
    stem_1: Float32Array  # before SiLU, as the other maps
    stem_norm: Float32Array
    stem_normed: Float32Array  # after the norm's own factors, as the others of that name
    stem_2: Float32Array
    norm_1: Float32Array
    normed_1: Float32Array
    cell_1: Float32Array
    norm_2: Float32Array
    normed_2: Float32Array
    cell_2: Float32Array
    norm_3: Float32Array
    normed_3: Float32Array
    map_3: Float32Array
    norm_4: Float32Array
    normed_4: Float32Array
    map_4: Float32Array
    norm_5: Float32Array
    normed_5: Float32Array
    map_5: Float32Array
    features: Float32Array  # what the heads see
    outputs: Float32Array  # of the heads; in the backward pass, their gradients
    curves: Float32Array
    h: Float32Array  # what goes along the shortcuts; in the backward pass, its gradient
    work: Float32Array
    h_bar: Float32Array
    c_bar: Float32Array


# How many sums stay in registers, of which a processor has 32 of 64 bytes, or 16 of 32. Results do
# not depend on it.
_HAS_AVX512 = get_host_cpu_features().get("avx512f", False)
_TILE = 10 if _HAS_AVX512 else 5
_TILE_ROWS = 10 if _HAS_AVX512 else 2
_TILE_COLUMNS = 2
_ZERO = np.float32(0.0)
_LARGEST_RECALL = 1 - 1e-7
_SMALLEST_STABILITY = 1e-7


@dataclass(frozen=True, eq=False)
class Network:
    """The network's parameters, their gradient, and the memory that passes use."""

    w: Float32Array  # (PARAMETERS,)
    gradient: FloatArray  # (PARAMETERS,) of the last pass that asked for it
    parts: tuple[Layers, Layers, Activations]  # parameters, gradients by lane, values of a group
    tables: tuple[IntArray, IntArray, IntArray]  # of `parts`


def new_network(w: Float32Array, batches: Sequence[CardBatch]) -> Network:
    """Return the network with parameters w and memory for the batches."""
    largest_group = max(int(np.diff(batch.first_row).max()) for batch in batches)
    sums = new_aligned(PARAMETERS, SINGLE_LANES)
    kept = new_aligned(sum(_ACTIVATION_SIZES.values()), largest_group, SINGLE_LANES)
    kept_parts = {}
    begin = 0
    for name, size in _ACTIVATION_SIZES.items():
        part = kept[begin : begin + size]
        kept_parts[name] = part.reshape(largest_group, size, SINGLE_LANES)
        begin += size
    parts = _split_into_layers(w), _split_into_layers(sums), Activations(**kept_parts)
    tables = pack(parts[0]), pack(parts[1]), pack(parts[2])
    return Network(w, np.zeros(PARAMETERS), parts, tables)


def _split_into_layers(parameters: Float32Array) -> Layers:
    """Return the layers' parts of an array of PARAMETERS rows."""
    sizes = [math.prod(shape) for shape in TENSOR_SHAPES.values()]
    begin = dict(zip(TENSOR_SHAPES, accumulate(sizes, initial=0), strict=False))
    return Layers(**{layer: parameters[begin[name] :] for layer, name in _FIRST_TENSORS.items()})


def run_pass(network: Network, batch: CardBatch, *, trains: bool) -> None:
    """Compute `batch.recall` of all items; if it trains, also `network.gradient`.

    This is the gradient of the sum of the items' weighted binary cross-entropies.
    """
    run = compile_kernel(lstm_pass)
    run(pack(batch), *network.tables, network.gradient, trains)


# Layers: y is computed from x for n rows. In backward passes, *_bar are gradients of the loss. `w`
# holds the values of the layer's own parameters and `sums` their gradients.


def _gather_inputs(batch, first, x, n):
    """Copy the inputs of n rows, from row `first` on, to x (n, INPUTS, lanes)."""
    for r in range(n):
        for lane in range(SINGLE_LANES):
            position = batch.position[(first + r) * SINGLE_LANES + lane]
            for k in range(INPUTS):
                value = batch.x[position * INPUTS + k] if position >= 0 else _ZERO
                x[(r * INPUTS + k) * SINGLE_LANES + lane] = value


def _map(w, x, inputs, y, n):
    """Set y = W x + b; w holds W, then b."""
    for r in range(n):
        for j in range(HIDDEN):
            y[r * HIDDEN + j] = broadcast(w[inputs * HIDDEN + j])
        for j in range(0, HIDDEN, _TILE):
            add_products(y, r * HIDDEN + j, w, j * inputs, inputs, 1, x, r * inputs, inputs, _TILE)


def _map_sums(sums, x, inputs, y_bar, n):
    """Add to the gradients of a map's W and b."""
    _matrix_sums(sums, x, 0, inputs, inputs, y_bar, HIDDEN, HIDDEN, n)
    for j in range(HIDDEN):
        sums[inputs * HIDDEN + j] += _total_of_rows(y_bar, j, HIDDEN, n)


def _matrix_sums(sums, x, x_at, x_step, inputs, y_bar, y_step, outputs, n):
    """Add to the gradient of a matrix; the rows of x and y_bar have x_step and y_step vectors."""
    for j in range(0, outputs, _TILE_ROWS):
        for k in range(0, inputs, _TILE_COLUMNS):
            add_outer_products(
                sums,
                j * inputs + k,
                inputs,
                y_bar,
                j,
                y_step,
                x,
                x_at + k,
                x_step,
                n,
                _TILE_ROWS,
                _TILE_COLUMNS,
            )


def _total_of_rows(x, at, step, n):
    """Return the sum of a vector over n rows."""
    value = x[at]
    for r in range(1, n):
        value += x[r * step + at]
    return value


def _back_through_matrix(w, y_bar, y_at, outputs, x_bar, x_at):
    """Set x_bar = W' y_bar for one row."""
    for k in range(HIDDEN):
        x_bar[x_at + k] = broadcast(_ZERO)
    for k in range(0, HIDDEN, _TILE):
        add_products(x_bar, x_at + k, w, k, 1, HIDDEN, y_bar, y_at, outputs, _TILE)


def _map_back(w, sums, x, y_bar, x_bar, n):
    """Go back through a map of HIDDEN to HIDDEN numbers."""
    _map_sums(sums, x, HIDDEN, y_bar, n)
    for r in range(n):
        _back_through_matrix(w, y_bar, r * HIDDEN, HIDDEN, x_bar, r * HIDDEN)


def _silu(x, y, n):
    for k in range(n * HIDDEN):
        y[k] = x[k] * sigmoid(x[k])


def _silu_back(x, bar, n):
    """Turn the gradients of SiLU's output into those of its input."""
    for k in range(n * HIDDEN):
        share = sigmoid(x[k])
        bar[k] *= share * (1.0 + x[k] * (1.0 - share))


def _norm(w, has_bias, x, kept, y, n):
    """Set y to the layer norm of x; w holds the factors, then the bias if it has one."""
    for r in range(n):
        mean = x[r * HIDDEN]
        for k in range(1, HIDDEN):
            mean += x[r * HIDDEN + k]
        mean *= 1.0 / HIDDEN
        square = broadcast(_ZERO)
        for k in range(HIDDEN):
            difference = x[r * HIDDEN + k] - mean
            square += difference * difference
        inverse = 1.0 / sqrt(square * (1.0 / HIDDEN) + 1e-5)
        kept[r * _OF_NORM + HIDDEN] = inverse
        for k in range(HIDDEN):
            normed = (x[r * HIDDEN + k] - mean) * inverse
            kept[r * _OF_NORM + k] = normed
            y[r * HIDDEN + k] = normed * w[k]
        if has_bias:
            for k in range(HIDDEN):
                y[r * HIDDEN + k] += w[HIDDEN + k]


def _norm_back(w, sums, has_bias, kept, bar, n):
    """Turn the gradients of a norm's output into those of its input."""
    if has_bias:
        for k in range(HIDDEN):
            sums[HIDDEN + k] += _total_of_rows(bar, k, HIDDEN, n)
    for r in range(n):
        mean = broadcast(_ZERO)
        along = broadcast(_ZERO)
        for k in range(HIDDEN):
            y_bar = bar[r * HIDDEN + k]
            normed = kept[r * _OF_NORM + k]
            sums[k] += y_bar * normed
            y_bar *= w[k]
            bar[r * HIDDEN + k] = y_bar
            mean += y_bar
            along += y_bar * normed
        mean *= 1.0 / HIDDEN
        along *= 1.0 / HIDDEN
        inverse = kept[r * _OF_NORM + HIDDEN]
        for k in range(HIDDEN):
            normed = kept[r * _OF_NORM + k]
            bar[r * HIDDEN + k] = (bar[r * HIDDEN + k] - mean - normed * along) * inverse


def _copy(x, y, n):
    for k in range(n * HIDDEN):
        y[k] = x[k]


def _add_to(h, x, n):
    for k in range(n * HIDDEN):
        h[k] += x[k]


# A layer of LSTM cells, with the parameters of torch.nn.LSTM in their order. For each row, `kept`
# has the gates, the h of the step before, c and tanh c.
_HH = _GATES * HIDDEN  # where the second matrix begins
_IH_BIAS = 2 * _GATES * HIDDEN
_HH_BIAS = _IH_BIAS + _GATES


def _add_gates(w, x, x_at, kept, row):
    """Add W x to the gates of a row."""
    for j in range(0, _GATES, _TILE):
        add_products(kept, row + j, w, j * HIDDEN, HIDDEN, 1, x, x_at, HIDDEN, _TILE)


def _run_cells(w, before, x, kept, h, n):
    """Compute the cells' h of all rows; with i, f, g, o the gates, c = f c' + i g, h = o tanh c."""
    w_hh = pointer_from(w, _HH)
    for r in range(n):
        row = r * _OF_CELL
        for j in range(_GATES):
            kept[row + j] = broadcast(np.float32(w[_IH_BIAS + j] + w[_HH_BIAS + j]))
        _add_gates(w, x, r * HIDDEN, kept, row)
        step_before = before[r]
        if step_before >= 0:
            for k in range(HIDDEN):
                kept[row + _BEFORE + k] = h[step_before * HIDDEN + k]
            _add_gates(w_hh, kept, row + _BEFORE, kept, row)
        else:
            for k in range(HIDDEN):
                kept[row + _BEFORE + k] = broadcast(_ZERO)
        for k in range(HIDDEN):
            enter = sigmoid(kept[row + k])
            forget = sigmoid(kept[row + HIDDEN + k])
            new = tanh(kept[row + 2 * HIDDEN + k])
            leave = sigmoid(kept[row + 3 * HIDDEN + k])
            memory = enter * new
            if step_before >= 0:
                memory += forget * kept[step_before * _OF_CELL + _C + k]
            shown = tanh(memory)
            kept[row + k] = enter
            kept[row + HIDDEN + k] = forget
            kept[row + 2 * HIDDEN + k] = new
            kept[row + 3 * HIDDEN + k] = leave
            kept[row + _C + k] = memory
            kept[row + _SHOWN + k] = shown
            h[r * HIDDEN + k] = leave * shown


def _cells_back(w, sums, before, x, kept, bar, h_bar, c_bar, n):
    """Turn the gradients of the cells' h in `bar` into those of x; use up h_bar and c_bar."""
    w_hh = pointer_from(w, _HH)
    for k in range(n * HIDDEN):
        h_bar[k] = broadcast(_ZERO)
        c_bar[k] = broadcast(_ZERO)
    for r in range(n - 1, -1, -1):
        row = r * _OF_CELL
        step_before = before[r]
        for k in range(HIDDEN):
            enter = kept[row + k]
            forget = kept[row + HIDDEN + k]
            new = kept[row + 2 * HIDDEN + k]
            leave = kept[row + 3 * HIDDEN + k]
            shown = kept[row + _SHOWN + k]
            shown_bar = bar[r * HIDDEN + k] + h_bar[r * HIDDEN + k]
            memory_bar = c_bar[r * HIDDEN + k] + shown_bar * leave * (1.0 - shown * shown)
            # The gradients of the gates' sums replace the gates.
            kept[row + k] = memory_bar * new * enter * (1.0 - enter)
            kept[row + 2 * HIDDEN + k] = memory_bar * enter * (1.0 - new * new)
            kept[row + 3 * HIDDEN + k] = shown_bar * shown * leave * (1.0 - leave)
            if step_before >= 0:
                memory_before = kept[step_before * _OF_CELL + _C + k]
                kept[row + HIDDEN + k] = memory_bar * memory_before * forget * (1.0 - forget)
                c_bar[step_before * HIDDEN + k] = memory_bar * forget
            else:
                kept[row + HIDDEN + k] = broadcast(_ZERO)
        if step_before >= 0:
            _back_through_matrix(w_hh, kept, row, _GATES, h_bar, step_before * HIDDEN)
        _back_through_matrix(w, kept, row, _GATES, bar, r * HIDDEN)
    _matrix_sums(sums, x, 0, HIDDEN, HIDDEN, kept, _OF_CELL, _GATES, n)
    hh_sums = rows_after(sums, _HH)
    _matrix_sums(hh_sums, kept, _BEFORE, _OF_CELL, HIDDEN, kept, _OF_CELL, _GATES, n)
    for j in range(_GATES):
        gate_bar = _total_of_rows(kept, j, _OF_CELL, n)
        sums[_IH_BIAS + j] += gate_bar
        sums[_HH_BIAS + j] += gate_bar


# The mixture of curves


def _heads(w, x, y, n):
    """Compute the three outputs of three curves: w, s and d before softmax and exp."""
    for r in range(n):
        for head in range(3):
            at = head * _HEAD_SIZE
            to = r * _OUTPUTS + head * CURVES
            for k in range(CURVES):
                y[to + k] = broadcast(w[at + CURVES * HIDDEN + k])
            add_products(y, to, w, at, HIDDEN, 1, x, r * HIDDEN, HIDDEN, CURVES)


def _heads_back(w, sums, x, y_bar, x_bar, n):
    for head in range(3):
        at, y_at = head * _HEAD_SIZE, head * CURVES
        for k in range(0, HIDDEN, _TILE_COLUMNS):
            add_outer_products(
                sums,
                at + k,
                HIDDEN,
                y_bar,
                y_at,
                _OUTPUTS,
                x,
                k,
                HIDDEN,
                n,
                CURVES,
                _TILE_COLUMNS,
            )
        for k in range(CURVES):
            sums[at + CURVES * HIDDEN + k] += _total_of_rows(y_bar, y_at + k, _OUTPUTS, n)
    for r in range(n):
        for k in range(HIDDEN):
            x_bar[r * HIDDEN + k] = broadcast(_ZERO)
        for head in range(3):
            at, y_at = head * _HEAD_SIZE, r * _OUTPUTS + head * CURVES
            for k in range(0, HIDDEN, _TILE):
                add_products(
                    x_bar, r * HIDDEN + k, w, at + k, 1, HIDDEN, y_bar, y_at, CURVES, _TILE
                )


def _exp_clamped(x):
    """Return e^x and its derivative, with x clipped to -25 ... 25."""
    clamped = where(x < -25.0, -25.0, where(x > 25.0, 25.0, x))
    value = exp(clamped)
    return value, where(x == clamped, value, 0.0)


def _mix(outputs, o, curves, c, t):
    """Return the recall after t days; keep each curve's share, value and derivatives."""
    top = outputs[o]
    for k in range(1, CURVES):
        top = where(outputs[o + k] > top, outputs[o + k], top)
    size = broadcast(_ZERO)
    for k in range(CURVES):
        share = exp(outputs[o + k] - top)
        curves[c + k * _OF_CURVE] = share
        size += share
    p = broadcast(_ZERO)
    for k in range(CURVES):
        share = curves[c + k * _OF_CURVE] / size
        s, s_slope = _exp_clamped(outputs[o + CURVES + k])
        d, d_slope = _exp_clamped(outputs[o + 2 * CURVES + k])
        elapsed = t / (_SMALLEST_STABILITY + s)
        grown = log(1.0 + elapsed)
        curve = exp(-d * grown)
        curves[c + k * _OF_CURVE] = share
        curves[c + k * _OF_CURVE + 1] = curve
        slope = curve * d * elapsed / ((1.0 + elapsed) * (_SMALLEST_STABILITY + s))
        curves[c + k * _OF_CURVE + 2] = slope * s_slope
        curves[c + k * _OF_CURVE + 3] = -curve * grown * d_slope
        p += share * curve
    return p


def _mix_back(outputs, o, curves, c, p, p_bar):
    """Replace the outputs by their gradients."""
    for k in range(CURVES):
        share_bar = curves[c + k * _OF_CURVE] * p_bar
        outputs[o + k] = share_bar * (curves[c + k * _OF_CURVE + 1] - p)
        outputs[o + CURVES + k] = share_bar * curves[c + k * _OF_CURVE + 2]
        outputs[o + 2 * CURVES + k] = share_bar * curves[c + k * _OF_CURVE + 3]


def _recall(batch, first, outputs, curves, n, trains):
    """Store the recall of all rows; if it trains, replace the outputs by the loss's gradients."""
    for r in range(n):
        at = (first + r) * SINGLE_LANES
        o, c = r * _OUTPUTS, r * CURVES * _OF_CURVE
        mixed = _mix(outputs, o, curves, c, load(batch.delta_t, at))
        p = _LARGEST_RECALL * mixed
        store(batch.recall, at, p)
        if trains:
            passes, failures = load(batch.passes, at), load(batch.failures, at)
            p_bar = cross_entropy_slope(p, _LARGEST_RECALL, passes, failures)
            _mix_back(outputs, o, curves, c, mixed, p_bar)


def lstm_pass(batch_table, w_table, sums_table, kept_table, gradient, trains):
    """Compute the recall of all items; if it trains, also the gradient of the loss.

    The tables are those of `CardBatch`, `Layers` of parameters and of gradients, and `Activations`.
    """
    batch, w = unpack(batch_table, CardBatch), unpack(w_table, Layers)
    sums = rows_of_all(unpack(sums_table, Layers))
    inputs = unpack(kept_table, Activations).x
    kept = rows_of_all(unpack(kept_table, Activations))
    h, work, h_bar, c_bar = kept.h, kept.work, kept.h_bar, kept.c_bar
    if trains:
        for k in range(PARAMETERS):
            sums.stem_1[k] = broadcast(_ZERO)
    for group in range(batch.groups):
        first = batch.first_row[group]
        n = batch.first_row[group + 1] - first
        before = pointer_from(batch.before, first)

        _gather_inputs(batch, first, inputs, n)
        _map(w.stem_1, kept.x, INPUTS, kept.stem_1, n)
        _silu(kept.stem_1, work, n)
        _norm(w.stem_norm, False, work, kept.stem_norm, kept.stem_normed, n)
        _map(w.stem_2, kept.stem_normed, HIDDEN, kept.stem_2, n)
        _silu(kept.stem_2, h, n)
        _norm(w.norm_1, False, h, kept.norm_1, kept.normed_1, n)
        _run_cells(w.cell_1, before, kept.normed_1, kept.cell_1, work, n)
        _add_to(h, work, n)
        _norm(w.norm_2, True, h, kept.norm_2, kept.normed_2, n)
        _run_cells(w.cell_2, before, kept.normed_2, kept.cell_2, work, n)
        _add_to(h, work, n)
        _norm(w.norm_3, False, h, kept.norm_3, kept.normed_3, n)
        _map(w.map_3, kept.normed_3, HIDDEN, kept.map_3, n)
        _silu(kept.map_3, work, n)
        _norm(w.norm_4, False, work, kept.norm_4, kept.normed_4, n)
        _map(w.map_4, kept.normed_4, HIDDEN, kept.map_4, n)
        _silu(kept.map_4, work, n)
        _add_to(h, work, n)
        _norm(w.norm_5, False, h, kept.norm_5, kept.normed_5, n)
        _map(w.map_5, kept.normed_5, HIDDEN, kept.map_5, n)
        _silu(kept.map_5, kept.features, n)
        _heads(w.heads, kept.features, kept.outputs, n)
        _recall(batch, first, kept.outputs, kept.curves, n, trains)
        if not trains:
            continue

        # From here on, h and `work` hold gradients.
        _heads_back(w.heads, sums.heads, kept.features, kept.outputs, work, n)
        _silu_back(kept.map_5, work, n)
        _map_back(w.map_5, sums.map_5, kept.normed_5, work, h, n)
        _norm_back(w.norm_5, sums.norm_5, False, kept.norm_5, h, n)
        _copy(h, work, n)
        _silu_back(kept.map_4, work, n)
        _map_back(w.map_4, sums.map_4, kept.normed_4, work, h_bar, n)
        _norm_back(w.norm_4, sums.norm_4, False, kept.norm_4, h_bar, n)
        _silu_back(kept.map_3, h_bar, n)
        _map_back(w.map_3, sums.map_3, kept.normed_3, h_bar, work, n)
        _norm_back(w.norm_3, sums.norm_3, False, kept.norm_3, work, n)
        _add_to(h, work, n)
        _copy(h, work, n)
        _cells_back(
            w.cell_2, sums.cell_2, before, kept.normed_2, kept.cell_2, work, h_bar, c_bar, n
        )
        _norm_back(w.norm_2, sums.norm_2, True, kept.norm_2, work, n)
        _add_to(h, work, n)
        _copy(h, work, n)
        _cells_back(
            w.cell_1, sums.cell_1, before, kept.normed_1, kept.cell_1, work, h_bar, c_bar, n
        )
        _norm_back(w.norm_1, sums.norm_1, False, kept.norm_1, work, n)
        _add_to(h, work, n)
        _silu_back(kept.stem_2, h, n)
        _map_back(w.stem_2, sums.stem_2, kept.stem_normed, h, work, n)
        _norm_back(w.stem_norm, sums.stem_norm, False, kept.stem_norm, work, n)
        _silu_back(kept.stem_1, work, n)
        _map_sums(sums.stem_1, kept.x, INPUTS, work, n)
    if trains:
        for k in range(PARAMETERS):
            gradient[k] = total(sums.stem_1[k])
