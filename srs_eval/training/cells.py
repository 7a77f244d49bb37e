"""Small recurrent networks on a trie of histories: forward, loss, gradient, Adam.

One layer of GRU, plain or LSTM cells and one linear output. Nets of 2 to 8 hidden
units are too small for a tensor library, whose calls cost more than their work;
here 8 histories go through a cell at once, and what histories share is computed once.

Equations and order of gates are those of torch.nn.GRU, RNN and LSTM. Parameters lie
as in their state_dict: weight_ih (gates, inputs), weight_hh (gates, hidden), bias_ih,
bias_hh, then the output's weight (hidden,) and bias. Float64 throughout.

Gradients are written by hand here: `tracing` derives gradients of steps, in which every
operation is written out, while a cell is loops over as many units as a network has.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from srs_eval.data.reviews import FloatArray
from srs_eval.training.elementwise import LANES
from srs_eval.training.optimisers import anneal, compute_adam_step
from srs_eval.training.simd import broadcast, exp, load, log, rows_of, store, total, where
from srs_eval.training.trie import FIRST

GRU, PLAIN_RNN, LSTM = range(3)  # kinds of cell
PROBABILITY, POWER, EXPONENTIAL = range(3)  # meanings of the output z, see `recall_and_slope`

_POWER_FACTOR = 0.9**-2 - 1  # R = 0.9 after s days, (1 + factor t/s)^-0.5
_LOG_09 = math.log(0.9)


class CellShape(NamedTuple):
    """Kind and sizes of a network of recurrent cells."""

    cell: int  # kind of cell
    head: int  # meaning of the output
    inputs: int
    hidden: int


class AdamWState(NamedTuple):
    """AdamW's state (p,) and settings."""

    mean: FloatArray
    square: FloatArray
    rate: float
    decay: float  # of the weights, apart from the gradient
    steps: int  # in all, for the cosine schedule


class CellScratch(NamedTuple):
    """Arrays that passes through a network of cells reuse."""

    state: FloatArray  # (states, nodes) h, for LSTM cells then c
    bar: FloatArray  # (states, nodes)
    kept: FloatArray  # (5 hidden, nodes) values for the backward pass
    w_bar: FloatArray  # (p, LANES)
    before: FloatArray  # (states, LANES) state of the parents
    before_bar: FloatArray  # (states, LANES)
    recall: FloatArray  # (targets,) of the batches last visited


def sigmoid(x):
    """Return the logistic function of x."""
    return 1.0 / (1.0 + exp(-x))


def tanh(x):
    """Return the hyperbolic tangent of x."""
    return 2.0 / (1.0 + exp(-2.0 * x)) - 1.0


def gather_lanes(array, parent, at, first, out):
    """Set out[:, lane] to the state of the lane's parent, or to 0 before a card's first review."""
    for k in range(len(out)):
        for lane in range(LANES):
            out[k, lane] = 0.0 if first else array[k, parent[at + lane]]


def scatter_lanes(array, parent, at, values):
    """Add values[:, lane] to the elements that `gather_lanes` reads."""
    for k in range(len(values)):
        for lane in range(LANES):
            array[k, parent[at + lane]] += values[k, lane]


def _parameter_offsets(shape):
    """Return the indices at which weight_hh, bias_ih and bias_hh begin."""
    gates = 4 * shape.hidden
    if shape.cell == GRU:
        gates = 3 * shape.hidden
    elif shape.cell == PLAIN_RNN:
        gates = shape.hidden
    hh = gates * shape.inputs
    return hh, hh + gates * shape.hidden, hh + gates * shape.hidden + gates


def _forward(shape, w, x, at, state, kept, to, before):
    """Compute the cells of LANES nodes.

    Their inputs are the columns of x from `at` on, their results those of state and kept from `to`
    on. Names of an LSTM's gates: enter, forget, new and leave are torch's i, f, g and o.
    """
    n, m = shape.inputs, shape.hidden
    hh, ih_bias, hh_bias = _parameter_offsets(shape)
    for j in range(m):
        if shape.cell == GRU:
            r = broadcast(w[ih_bias + j] + w[hh_bias + j])
            z = broadcast(w[ih_bias + m + j] + w[hh_bias + m + j])
            new = broadcast(w[ih_bias + 2 * m + j])
            old = broadcast(w[hh_bias + 2 * m + j])
            for k in range(n):
                value = load(x[k], at)
                r += w[j * n + k] * value
                z += w[(m + j) * n + k] * value
                new += w[(2 * m + j) * n + k] * value
            for k in range(m):
                value = before[k]
                r += w[hh + j * m + k] * value
                z += w[hh + (m + j) * m + k] * value
                old += w[hh + (2 * m + j) * m + k] * value
            r, z = sigmoid(r), sigmoid(z)
            new = tanh(new + r * old)
            store(kept[j], to, r)
            store(kept[m + j], to, z)
            store(kept[2 * m + j], to, new)
            store(kept[3 * m + j], to, old)
            store(state[j], to, new + z * (before[j] - new))
        elif shape.cell == PLAIN_RNN:
            new = broadcast(w[ih_bias + j] + w[hh_bias + j])
            for k in range(n):
                new += w[j * n + k] * load(x[k], at)
            for k in range(m):
                new += w[hh + j * m + k] * before[k]
            store(state[j], to, tanh(new))
        else:
            enter = broadcast(w[ih_bias + j] + w[hh_bias + j])
            forget = broadcast(w[ih_bias + m + j] + w[hh_bias + m + j])
            new = broadcast(w[ih_bias + 2 * m + j] + w[hh_bias + 2 * m + j])
            leave = broadcast(w[ih_bias + 3 * m + j] + w[hh_bias + 3 * m + j])
            for k in range(n):
                value = load(x[k], at)
                enter += w[j * n + k] * value
                forget += w[(m + j) * n + k] * value
                new += w[(2 * m + j) * n + k] * value
                leave += w[(3 * m + j) * n + k] * value
            for k in range(m):
                value = before[k]
                enter += w[hh + j * m + k] * value
                forget += w[hh + (m + j) * m + k] * value
                new += w[hh + (2 * m + j) * m + k] * value
                leave += w[hh + (3 * m + j) * m + k] * value
            enter, forget = sigmoid(enter), sigmoid(forget)
            new, leave = tanh(new), sigmoid(leave)
            memory = forget * before[m + j] + enter * new
            shown = tanh(memory)
            store(kept[j], to, enter)
            store(kept[m + j], to, forget)
            store(kept[2 * m + j], to, new)
            store(kept[3 * m + j], to, leave)
            store(kept[4 * m + j], to, shown)
            store(state[j], to, leave * shown)
            store(state[m + j], to, memory)


def _backward(shape, w, x, at, state, kept, to, bar, before, before_bar, sums):
    """Compute the gradients of LANES cells: add to `sums`, set `before_bar`."""
    n, m = shape.inputs, shape.hidden
    hh, ih_bias, hh_bias = _parameter_offsets(shape)
    for k in range(2 * m if shape.cell == LSTM else m):
        before_bar[k] = broadcast(0.0)
    for j in range(m):
        h_bar = load(bar[j], to)
        if shape.cell == GRU:
            r, z = load(kept[j], to), load(kept[m + j], to)
            new, old = load(kept[2 * m + j], to), load(kept[3 * m + j], to)
            new_bar = h_bar * (1.0 - z) * (1.0 - new * new)
            old_bar = new_bar * r
            r_bar = new_bar * old * r * (1.0 - r)
            z_bar = h_bar * (before[j] - new) * z * (1.0 - z)
            before_bar[j] += h_bar * z
            for k in range(n):
                value = load(x[k], at)
                sums[j * n + k] += r_bar * value
                sums[(m + j) * n + k] += z_bar * value
                sums[(2 * m + j) * n + k] += new_bar * value
            for k in range(m):
                value = before[k]
                to_r, to_z = hh + j * m + k, hh + (m + j) * m + k
                to_old = hh + (2 * m + j) * m + k
                sums[to_r] += r_bar * value
                sums[to_z] += z_bar * value
                sums[to_old] += old_bar * value
                k_bar = before_bar[k] + w[to_r] * r_bar + w[to_z] * z_bar
                before_bar[k] = k_bar + w[to_old] * old_bar
            sums[ih_bias + j] += r_bar
            sums[ih_bias + m + j] += z_bar
            sums[ih_bias + 2 * m + j] += new_bar
            sums[hh_bias + j] += r_bar
            sums[hh_bias + m + j] += z_bar
            sums[hh_bias + 2 * m + j] += old_bar
        elif shape.cell == PLAIN_RNN:
            h = load(state[j], to)
            new_bar = h_bar * (1.0 - h * h)
            for k in range(n):
                sums[j * n + k] += new_bar * load(x[k], at)
            for k in range(m):
                to_new = hh + j * m + k
                sums[to_new] += new_bar * before[k]
                before_bar[k] += w[to_new] * new_bar
            sums[ih_bias + j] += new_bar
            sums[hh_bias + j] += new_bar
        else:
            _backward_lstm(shape, w, x, at, kept, to, j, h_bar, bar, before, before_bar, sums)


def _backward_lstm(shape, w, x, at, kept, to, j, h_bar, bar, before, before_bar, sums):
    """Compute the gradients of unit j of LSTM cells."""
    n, m = shape.inputs, shape.hidden
    hh, ih_bias, hh_bias = _parameter_offsets(shape)
    enter, forget = load(kept[j], to), load(kept[m + j], to)
    new, leave = load(kept[2 * m + j], to), load(kept[3 * m + j], to)
    shown = load(kept[4 * m + j], to)
    memory_bar = load(bar[m + j], to) + h_bar * leave * (1.0 - shown * shown)
    leave_bar = h_bar * shown * leave * (1.0 - leave)
    enter_bar = memory_bar * new * enter * (1.0 - enter)
    forget_bar = memory_bar * before[m + j] * forget * (1.0 - forget)
    new_bar = memory_bar * enter * (1.0 - new * new)
    before_bar[m + j] = memory_bar * forget
    for k in range(n):
        value = load(x[k], at)
        sums[j * n + k] += enter_bar * value
        sums[(m + j) * n + k] += forget_bar * value
        sums[(2 * m + j) * n + k] += new_bar * value
        sums[(3 * m + j) * n + k] += leave_bar * value
    for k in range(m):
        value = before[k]
        to_enter, to_forget = hh + j * m + k, hh + (m + j) * m + k
        to_new, to_leave = hh + (2 * m + j) * m + k, hh + (3 * m + j) * m + k
        sums[to_enter] += enter_bar * value
        sums[to_forget] += forget_bar * value
        sums[to_new] += new_bar * value
        sums[to_leave] += leave_bar * value
        k_bar = before_bar[k] + w[to_enter] * enter_bar + w[to_forget] * forget_bar
        before_bar[k] = k_bar + w[to_new] * new_bar + w[to_leave] * leave_bar
    for start in (ih_bias, hh_bias):
        sums[start + j] += enter_bar
        sums[start + m + j] += forget_bar
        sums[start + 2 * m + j] += new_bar
        sums[start + 3 * m + j] += leave_bar


def recall_and_slope(head, z, t):
    """Return the probability of recall and its derivative with respect to the output z.

    PROBABILITY: sigmoid(z). Else exp(z) is the stability s, and R after t days is
    POWER: (1 + factor t/s)^-0.5, EXPONENTIAL: 0.9^(t/s).
    """
    if head == PROBABILITY:
        p = sigmoid(z)
        return p, p * (1.0 - p)
    share = t * exp(-z)
    if head == POWER:
        grown = _POWER_FACTOR * share
        p = exp(-0.5 * log(1.0 + grown))
        return p, 0.5 * p * grown / (1.0 + grown)
    p = exp(_LOG_09 * share)
    return p, -_LOG_09 * share * p


def cross_entropy(p, passes, failures):
    """Return the weighted binary cross-entropy, with logarithms of at least -100 as in torch."""
    log_p, log_f = log(p), log(1.0 - p)
    log_p = where(log_p < -100.0, -100.0, log_p)
    log_f = where(log_f < -100.0, -100.0, log_f)
    return -(passes * log_p + failures * log_f)


def cross_entropy_slope(p, slope, passes, failures):
    """Return the derivative of `cross_entropy`, where p's derivative is `slope`.

    As in torch, the divisor is at least 1e-12.
    """
    variance = p * (1.0 - p)
    variance = where(variance < 1e-12, 1e-12, variance)
    return slope * (passes * (p - 1.0) + failures * p) / variance


def cross_entropy_and_slope(p, slope, passes, failures):
    """Return the cross-entropy and its derivative."""
    return cross_entropy(p, passes, failures), cross_entropy_slope(p, slope, passes, failures)


def take_adamw_step(w, sums, adam, steps_done):
    """Take one step of AdamW with cosine annealing, after `steps_done` others.

    `sums` are the lanes of the gradient. Source: Loshchilov and Hutter (2017).
    """
    rate = anneal(adam.rate, steps_done, adam.steps)
    bias_mean = 1.0 - 0.9 ** (steps_done + 1)
    bias_square = math.sqrt(1.0 - 0.999 ** (steps_done + 1))
    for k in range(len(w)):
        gradient = total(sums[k])
        adam.mean[k] = 0.9 * adam.mean[k] + 0.1 * gradient
        adam.square[k] = 0.999 * adam.square[k] + 0.001 * gradient * gradient
        step = compute_adam_step(rate, adam.mean[k], adam.square[k], bias_mean, bias_square)
        w[k] = w[k] * (1.0 - rate * adam.decay) - step


def network_pass(shape, order, steps_done, w, batches, x, adam, scratch):
    """Visit the batches in `order`; return the sum of their losses before each step.

    If steps_done < 0, it only evaluates. Otherwise it goes on training after `steps_done` steps:
    each batch makes one more, which changes `w` and the state of `adam`. Recall stays in `scratch`.
    """
    state, bar, kept = scratch.state, scratch.bar, scratch.kept
    before, before_bar = rows_of(scratch.before), rows_of(scratch.before_bar)
    sums = rows_of(scratch.w_bar)
    hidden = shape.hidden
    output = len(w) - hidden - 1  # where the output's weights begin
    loss = broadcast(0.0)
    for b in order:
        base = batches.first_node[b]
        first_segment, end_segment = batches.first_segment[b], batches.first_segment[b + 1]
        for segment in range(first_segment, end_segment):
            first = batches.kind[segment] == FIRST
            for i in range(batches.start[segment], batches.end[segment], LANES):
                gather_lanes(state, batches.parent, i, first, scratch.before)
                _forward(shape, w, x, i, state, kept, i - base, before)
        if steps_done >= 0:
            bar[:, : batches.first_node[b + 1] - base] = 0.0
            scratch.w_bar[:] = 0.0

        for i in range(batches.first_target[b], batches.first_target[b + 1], LANES):
            gather_lanes(state, batches.target_node, i, False, scratch.before)
            z = broadcast(w[output + hidden])
            for k in range(hidden):
                z += w[output + k] * before[k]
            p, slope = recall_and_slope(shape.head, z, load(batches.target_delta_t, i))
            target_loss, z_bar = cross_entropy_and_slope(
                p, slope, load(batches.passes, i), load(batches.failures, i)
            )
            loss += target_loss
            store(scratch.recall, i, p)
            if steps_done >= 0:
                for k in range(len(scratch.before_bar)):
                    before_bar[k] = broadcast(0.0)
                for k in range(hidden):
                    sums[output + k] += z_bar * before[k]
                    before_bar[k] = w[output + k] * z_bar
                sums[output + hidden] += z_bar
                scatter_lanes(bar, batches.target_node, i, scratch.before_bar)
        if steps_done < 0:
            continue

        for segment in range(end_segment - 1, first_segment - 1, -1):
            first = batches.kind[segment] == FIRST
            for i in range(batches.start[segment], batches.end[segment], LANES):
                to = i - base
                gather_lanes(state, batches.parent, i, first, scratch.before)
                _backward(shape, w, x, i, state, kept, to, bar, before, before_bar, sums)
                if not first:
                    scatter_lanes(bar, batches.parent, i, scratch.before_bar)

        take_adamw_step(w, sums, adam, steps_done)
        steps_done += 1
    return total(loss)
