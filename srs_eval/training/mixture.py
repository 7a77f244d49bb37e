"""A gated network whose outputs mix power curves, on a trie of histories: see models/gru_503.py.

For each review: a linear layer, SiLU and a layer norm, then a GRU of seven units. For each
prediction, from the state before it: a layer norm, a linear layer, SiLU and a layer norm, then
for each of two curves a weight, a stability and an exponent. As in `cells`, 8 histories go
through at once, and what histories share is computed once. Float64 throughout. Gradients are
written by hand, for the same reason as there: layers are loops.

Parameters lie as in srs-benchmark's state_dict; layer norms have no bias, and their epsilon is
torch's. This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from srs_eval.data.reviews import FloatArray
from srs_eval.training.cells import (
    cross_entropy_and_slope,
    gather_lanes,
    scatter_lanes,
    sigmoid,
    tanh,
)
from srs_eval.training.elementwise import LANES
from srs_eval.training.optimisers import compute_adam_step
from srs_eval.training.simd import broadcast, exp, load, log, rows_of, store, total, where
from srs_eval.training.trie import FIRST

HIDDEN, INPUTS, CURVES = 7, 5, 2
# Index at which the parameters of each layer begin.
IN, IN_BIAS, IN_NORM = 0, 35, 42
IH, HH, IH_BIAS, HH_BIAS = 49, 196, 343, 364
MID_NORM, MID, MID_BIAS, OUT_NORM = 385, 392, 441, 448
SHARE, SHARE_BIAS, STABILITY, STABILITY_BIAS, EXPONENT, EXPONENT_BIAS = 455, 469, 471, 485, 487, 501
PARAMETERS = 503
# Rows that a review keeps for the backward pass.
PRE_ACTIVATION, IN_HAT, IN_INVERSE, RESET, UPDATE, NEW, OLD = 0, 7, 14, 15, 22, 29, 36
KEPT_ROWS = 43
# Rows of the scratch memory for one vector of nodes or targets.
BEFORE, BEFORE_BAR, X, X_BAR, HAT, HAT_OUT, MIDDLE, OUT = range(0, 56, 7)
WORK_ROWS = 56
_NORM_EPSILON = 1e-5
_CURVE_EPSILON = 1e-7


class MixtureDescent(NamedTuple):
    """AdamW's state (p,) and settings."""

    mean: FloatArray
    square: FloatArray
    start: FloatArray  # what the penalty pulls to
    pull: float  # factor on the squared distance in the penalty
    longest: float  # largest norm of the gradient; longer ones are shortened to it
    beta_mean: float
    beta_square: float
    decay: float
    steps: int  # before this run


class MixtureScratch(NamedTuple):
    """Arrays that passes through a mixture network reuse."""

    state: FloatArray  # (HIDDEN, nodes)
    bar: FloatArray  # (HIDDEN, nodes)
    kept: FloatArray  # (KEPT_ROWS, nodes)
    work: FloatArray  # (WORK_ROWS, LANES)
    w_bar: FloatArray  # (p, LANES)
    recall: FloatArray  # (targets,) of the batches last visited


def _square_root(x):
    """Return the root of x > 0; kernels have exp and log only."""
    return exp(0.5 * log(x))


def _normalise(rows, values, hat):
    """Set rows[hat ...] to rows[values ...] minus their mean, divided by their deviation.

    Returns the inverse of the deviation.
    """
    mean = rows[values]
    for k in range(1, HIDDEN):
        mean += rows[values + k]
    mean = mean * (1.0 / HIDDEN)
    variance = broadcast(0.0)
    for k in range(HIDDEN):
        centred = rows[values + k] - mean
        variance += centred * centred
        rows[hat + k] = centred
    inverse = 1.0 / _square_root(variance * (1.0 / HIDDEN) + _NORM_EPSILON)
    for k in range(HIDDEN):
        rows[hat + k] = rows[hat + k] * inverse
    return inverse


def _normalise_backward(w, sums, norm, rows, hat, inverse, bars):
    """Turn rows[bars ...] from gradients of the weighted results into those of the values.

    A change of all values by the same amount, or along rows[hat ...], does not change the result:
    these two parts of the gradient, `mean` and `along`, are taken out.
    """
    mean, along = broadcast(0.0), broadcast(0.0)
    for k in range(HIDDEN):
        bar, value = rows[bars + k], rows[hat + k]
        sums[norm + k] += bar * value
        bar = w[norm + k] * bar
        mean += bar
        along += bar * value
        rows[bars + k] = bar
    mean, along = mean * (1.0 / HIDDEN), along * (1.0 / HIDDEN)
    for k in range(HIDDEN):
        rows[bars + k] = inverse * (rows[bars + k] - mean - rows[hat + k] * along)


def _forward(w, delay, rating, at, state, kept, to, rows):
    """Compute the reviews of LANES nodes from `at` on, into state and kept from column `to` on."""
    interval, grade = load(delay, at), load(rating, at)
    for j in range(HIDDEN):
        grade_weight = where(
            grade == 1.0,
            w[IN + 5 * j + 1],
            where(
                grade == 2.0,
                w[IN + 5 * j + 2],
                where(grade == 3.0, w[IN + 5 * j + 3], broadcast(w[IN + 5 * j + 4])),
            ),
        )
        pre_activation = w[IN + 5 * j] * interval + grade_weight + w[IN_BIAS + j]
        store(kept[PRE_ACTIVATION + j], to, pre_activation)
        rows[MIDDLE + j] = pre_activation * sigmoid(pre_activation)
    store(kept[IN_INVERSE], to, _normalise(rows, MIDDLE, HAT))
    for k in range(HIDDEN):
        store(kept[IN_HAT + k], to, rows[HAT + k])
        rows[X + k] = w[IN_NORM + k] * rows[HAT + k]
    for j in range(HIDDEN):
        r = broadcast(w[IH_BIAS + j] + w[HH_BIAS + j])
        z = broadcast(w[IH_BIAS + HIDDEN + j] + w[HH_BIAS + HIDDEN + j])
        new = broadcast(w[IH_BIAS + 2 * HIDDEN + j])
        old = broadcast(w[HH_BIAS + 2 * HIDDEN + j])
        for k in range(HIDDEN):
            x, h = rows[X + k], rows[BEFORE + k]
            r += w[IH + j * HIDDEN + k] * x + w[HH + j * HIDDEN + k] * h
            z += w[IH + (HIDDEN + j) * HIDDEN + k] * x + w[HH + (HIDDEN + j) * HIDDEN + k] * h
            new += w[IH + (2 * HIDDEN + j) * HIDDEN + k] * x
            old += w[HH + (2 * HIDDEN + j) * HIDDEN + k] * h
        r, z = sigmoid(r), sigmoid(z)
        new = tanh(new + r * old)
        store(kept[RESET + j], to, r)
        store(kept[UPDATE + j], to, z)
        store(kept[NEW + j], to, new)
        store(kept[OLD + j], to, old)
        store(state[j], to, new + z * (rows[BEFORE + j] - new))


def _backward(w, sums, delay, rating, at, kept, to, bar, rows):
    """Compute the gradients of LANES reviews: add to `sums`, set rows[BEFORE_BAR ...]."""
    for k in range(HIDDEN):
        rows[X + k] = w[IN_NORM + k] * load(kept[IN_HAT + k], to)
        rows[HAT + k] = load(kept[IN_HAT + k], to)
        rows[X_BAR + k] = broadcast(0.0)
        rows[BEFORE_BAR + k] = broadcast(0.0)
    for j in range(HIDDEN):
        h_bar = load(bar[j], to)
        r, z = load(kept[RESET + j], to), load(kept[UPDATE + j], to)
        new, old = load(kept[NEW + j], to), load(kept[OLD + j], to)
        new_bar = h_bar * (1.0 - z) * (1.0 - new * new)
        old_bar = new_bar * r
        r_bar = new_bar * old * r * (1.0 - r)
        z_bar = h_bar * (rows[BEFORE + j] - new) * z * (1.0 - z)
        rows[BEFORE_BAR + j] += h_bar * z
        for k in range(HIDDEN):
            x, h = rows[X + k], rows[BEFORE + k]
            to_r, to_z = j * HIDDEN + k, (HIDDEN + j) * HIDDEN + k
            to_new = (2 * HIDDEN + j) * HIDDEN + k
            sums[IH + to_r] += r_bar * x
            sums[IH + to_z] += z_bar * x
            sums[IH + to_new] += new_bar * x
            sums[HH + to_r] += r_bar * h
            sums[HH + to_z] += z_bar * h
            sums[HH + to_new] += old_bar * h
            rows[X_BAR + k] += w[IH + to_r] * r_bar
            rows[X_BAR + k] += w[IH + to_z] * z_bar
            rows[X_BAR + k] += w[IH + to_new] * new_bar
            rows[BEFORE_BAR + k] += w[HH + to_r] * r_bar
            rows[BEFORE_BAR + k] += w[HH + to_z] * z_bar
            rows[BEFORE_BAR + k] += w[HH + to_new] * old_bar
        sums[IH_BIAS + j] += r_bar
        sums[IH_BIAS + HIDDEN + j] += z_bar
        sums[IH_BIAS + 2 * HIDDEN + j] += new_bar
        sums[HH_BIAS + j] += r_bar
        sums[HH_BIAS + HIDDEN + j] += z_bar
        sums[HH_BIAS + 2 * HIDDEN + j] += old_bar
    _normalise_backward(w, sums, IN_NORM, rows, HAT, load(kept[IN_INVERSE], to), X_BAR)
    interval, grade = load(delay, at), load(rating, at)
    for j in range(HIDDEN):
        pre_activation = load(kept[PRE_ACTIVATION + j], to)
        gate = sigmoid(pre_activation)
        in_bar = rows[X_BAR + j] * gate * (1.0 + pre_activation * (1.0 - gate))
        row = IN + 5 * j
        sums[row] += in_bar * interval
        for k in range(1, 5):
            sums[row + k] += where(grade == float(k), in_bar, 0.0)
        sums[IN_BIAS + j] += in_bar


def _read_out(w, rows):
    """Set rows[X ...], which the outputs read, from the state rows[BEFORE ...].

    Returns the inverse deviations of both layer norms.
    """
    before = _normalise(rows, BEFORE, HAT)
    for j in range(HIDDEN):
        value = broadcast(w[MID_BIAS + j])
        for k in range(HIDDEN):
            value += w[MID + j * HIDDEN + k] * w[MID_NORM + k] * rows[HAT + k]
        rows[MIDDLE + j] = value
        rows[OUT + j] = value * sigmoid(value)
    after = _normalise(rows, OUT, HAT_OUT)
    for k in range(HIDDEN):
        rows[X + k] = w[OUT_NORM + k] * rows[HAT_OUT + k]
    return before, after


def _read_out_backward(w, sums, rows, before, after):
    """Set rows[BEFORE_BAR ...] from the gradients rows[X_BAR ...]; add to `sums`."""
    _normalise_backward(w, sums, OUT_NORM, rows, HAT_OUT, after, X_BAR)
    for k in range(HIDDEN):
        rows[BEFORE_BAR + k] = broadcast(0.0)
    for j in range(HIDDEN):
        value = rows[MIDDLE + j]
        gate = sigmoid(value)
        bar = rows[X_BAR + j] * gate * (1.0 + value * (1.0 - gate))
        sums[MID_BIAS + j] += bar
        for k in range(HIDDEN):
            place = MID + j * HIDDEN + k
            sums[place] += bar * (w[MID_NORM + k] * rows[HAT + k])
            rows[BEFORE_BAR + k] += w[place] * bar
    _normalise_backward(w, sums, MID_NORM, rows, HAT, before, BEFORE_BAR)


def _output(w, weight, bias, curve, rows):
    """Return a linear output for one of the curves from rows[X ...]."""
    value = broadcast(w[bias + curve])
    for k in range(HIDDEN):
        value += w[weight + curve * HIDDEN + k] * rows[X + k]
    return value


def _output_backward(w, sums, weight, bias, curve, rows, bar):
    """Add the gradients of an output to `sums` and to rows[X_BAR ...]."""
    sums[bias + curve] += bar
    for k in range(HIDDEN):
        place = weight + curve * HIDDEN + k
        sums[place] += bar * rows[X + k]
        rows[X_BAR + k] += w[place] * bar


def _clip(z):
    return where(z < -25.0, -25.0, where(z > 25.0, 25.0, z))


def _clip_gradient(z, bar):
    return where(z < -25.0, 0.0, where(z > 25.0, 0.0, bar))


def _power_curve(t, s, d):
    """Return log(1 + t/s) and (1 + t/s)^-d; s contains its epsilon."""
    log_base = log(1.0 + t / s)
    return log_base, exp(-d * log_base)


def _take_step(w, sums, descent, scratch, steps, rate):
    """Take step number `steps` of AdamW (Loshchilov and Hutter 2017) with a clipped gradient."""
    square_length = 0.0
    for k in range(PARAMETERS):
        gradient = total(sums[k]) + 2.0 * descent.pull * (w[k] - descent.start[k])
        scratch.w_bar[k, 0] = gradient
        square_length += gradient * gradient
    shrink = min(1.0, descent.longest / (math.sqrt(square_length) + 1e-6))  # as torch clips
    bias_mean = 1.0 - descent.beta_mean**steps
    bias_square = math.sqrt(1.0 - descent.beta_square**steps)
    means, squares = descent.mean, descent.square
    for k in range(PARAMETERS):
        gradient = shrink * scratch.w_bar[k, 0]
        means[k] = descent.beta_mean * means[k] + (1.0 - descent.beta_mean) * gradient
        squares[k] *= descent.beta_square
        squares[k] += (1.0 - descent.beta_square) * gradient * gradient
        step = compute_adam_step(rate, means[k], squares[k], bias_mean, bias_square)
        w[k] = w[k] * (1.0 - rate * descent.decay) - step


def mixture_pass(order, rates, w, batches, delay, scales, descent, scratch):
    """Visit the batches in `order`; return the sum of their losses before each step.

    `rates` (len(order),) are the learning rates of the visits, 0 for a visit that only evaluates.
    Training minimises `scales` (b,) times a batch's summed loss. `delay` is each node's interval as
    the network takes it. A step changes `w` and the arrays of `descent`; its `steps` are the
    caller's to count. Recall stays in `scratch`.
    """
    state, bar, kept, work = scratch.state, scratch.bar, scratch.kept, scratch.work
    rows, sums = rows_of(work), rows_of(scratch.w_bar)
    before, before_bar = work[BEFORE : BEFORE + HIDDEN], work[BEFORE_BAR : BEFORE_BAR + HIDDEN]
    loss = broadcast(0.0)
    steps = descent.steps
    for visit in range(len(order)):
        b, rate = order[visit], rates[visit]
        base = batches.first_node[b]
        first_segment, end_segment = batches.first_segment[b], batches.first_segment[b + 1]
        for segment in range(first_segment, end_segment):
            first = batches.kind[segment] == FIRST
            for i in range(batches.start[segment], batches.end[segment], LANES):
                gather_lanes(state, batches.parent, i, first, before)
                _forward(w, delay, batches.rating, i, state, kept, i - base, rows)
        if rate > 0.0:
            bar[:, : batches.first_node[b + 1] - base] = 0.0
            scratch.w_bar[:] = 0.0

        for i in range(batches.first_target[b], batches.first_target[b + 1], LANES):
            gather_lanes(state, batches.target_node, i, False, before)
            norm_before, norm_after = _read_out(w, rows)
            t = load(batches.target_delta_t, i)
            zs1 = _output(w, STABILITY, STABILITY_BIAS, 0, rows)
            zs2 = _output(w, STABILITY, STABILITY_BIAS, 1, rows)
            zd1 = _output(w, EXPONENT, EXPONENT_BIAS, 0, rows)
            zd2 = _output(w, EXPONENT, EXPONENT_BIAS, 1, rows)
            share = sigmoid(
                _output(w, SHARE, SHARE_BIAS, 0, rows) - _output(w, SHARE, SHARE_BIAS, 1, rows)
            )
            s1, s2 = exp(_clip(zs1)) + _CURVE_EPSILON, exp(_clip(zs2)) + _CURVE_EPSILON
            d1, d2 = exp(_clip(zd1)), exp(_clip(zd2))
            log_base1, curve1 = _power_curve(t, s1, d1)
            log_base2, curve2 = _power_curve(t, s2, d2)
            p = (1.0 - 1e-7) * (share * curve1 + (1.0 - share) * curve2)
            passes, failures = load(batches.passes, i), load(batches.failures, i)
            target_loss, p_bar = cross_entropy_and_slope(
                p, scales[b] * (1.0 - 1e-7), passes, failures
            )
            loss += target_loss
            store(scratch.recall, i, p)
            if rate > 0.0:
                for k in range(HIDDEN):
                    rows[X_BAR + k] = broadcast(0.0)
                share_bar = p_bar * (curve1 - curve2) * share * (1.0 - share)
                _output_backward(w, sums, SHARE, SHARE_BIAS, 0, rows, share_bar)
                _output_backward(w, sums, SHARE, SHARE_BIAS, 1, rows, -share_bar)
                curve_bar1 = p_bar * share * curve1 * d1
                curve_bar2 = p_bar * (1.0 - share) * curve2 * d2
                s_bar = _clip_gradient(
                    zs1, curve_bar1 * t / (s1 * (s1 + t)) * (s1 - _CURVE_EPSILON)
                )
                _output_backward(w, sums, STABILITY, STABILITY_BIAS, 0, rows, s_bar)
                s_bar = _clip_gradient(
                    zs2, curve_bar2 * t / (s2 * (s2 + t)) * (s2 - _CURVE_EPSILON)
                )
                _output_backward(w, sums, STABILITY, STABILITY_BIAS, 1, rows, s_bar)
                d_bar = _clip_gradient(zd1, -curve_bar1 * log_base1)
                _output_backward(w, sums, EXPONENT, EXPONENT_BIAS, 0, rows, d_bar)
                d_bar = _clip_gradient(zd2, -curve_bar2 * log_base2)
                _output_backward(w, sums, EXPONENT, EXPONENT_BIAS, 1, rows, d_bar)
                _read_out_backward(w, sums, rows, norm_before, norm_after)
                scatter_lanes(bar, batches.target_node, i, before_bar)
        if not rate > 0.0:
            continue

        for segment in range(end_segment - 1, first_segment - 1, -1):
            first = batches.kind[segment] == FIRST
            for i in range(batches.start[segment], batches.end[segment], LANES):
                gather_lanes(state, batches.parent, i, first, before)
                _backward(w, sums, delay, batches.rating, i, kept, i - base, bar, rows)
                if not first:
                    scatter_lanes(bar, batches.parent, i, before_bar)

        steps += 1
        _take_step(w, sums, descent, scratch, steps, rate)
    return total(loss)
