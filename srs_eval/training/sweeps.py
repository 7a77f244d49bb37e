"""Kernels: loss, gradient and Adam of recurrent and other models, eight rows at once.

The first five are templates: each is compiled once per model with the model's steps and their
gradients in place of the names below (`compile.specialise`). This module imports numba;
import it inside functions only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.training.cells import cross_entropy, cross_entropy_slope
from srs_eval.training.kernel_records import AdamState, RecurrentScratch
from srs_eval.training.optimisers import anneal, compute_adam_step
from srs_eval.training.simd import (
    LANES,
    as_tuple,
    broadcast,
    exp,
    gather_state,
    load,
    load_state,
    log,
    rows_from,
    rows_of,
    scatter_add,
    set_zero,
    single,
    store,
    store_state,
    total,
    unpack,
    where,
)
from srs_eval.training.trie import FAILURE, FIRST, SUCCESS, TrieBatches

_STATES = 0
_PARAMETERS = 0
_VALUES = 0  # number of values that the steps take: parameters and constants
_HAS_SAME_DAY = 0
_TAPE = 0  # how many numbers a step saves for its gradient, for each node
# The steps of a model, which `compile.specialise` puts here.
_values: Any = None
_values_adjoint: Any = None
_shape: Any = None
_shape_adjoint: Any = None
_first: Any = None
_first_adjoint: Any = None
_success: Any = None
_success_adjoint: Any = None
_failure: Any = None
_failure_adjoint: Any = None
_same_day: Any = None
_same_day_adjoint: Any = None
_recall: Any = None
_recall_adjoint: Any = None
_loss: Any = None
_loss_adjoint: Any = None
_term: Any = None
_term_adjoint: Any = None
_recall_slope: Any = None
_recall_and_slope: Any = None


# A state per card (FSRS and others): see `recurrent`


def recurrent_pass(
    order: Any,
    steps_done: int,
    weights: Any,
    batches_table: Any,
    descent_table: Any,
    scratch_table: Any,
) -> float:
    """Visit the batches in `order`, to evaluate or to train.

    If steps_done < 0, it returns the sum of the batches' losses and leaves recall in the scratch
    memory. Otherwise it returns 0 and goes on training after `steps_done` steps: each batch makes
    one more, which changes `weights` and the state of the descent.
    """
    batches = unpack(batches_table, TrieBatches)
    descent = unpack(descent_table, AdamState)
    scratch = unpack(scratch_table, RecurrentScratch)
    # Take the pointers out of their tuples once: within the loops, names compile faster.
    kinds, starts, ends = batches.kind, batches.start, batches.end
    parent, delta_t, ratings = batches.parent, batches.delta_t, batches.rating
    target_node, target_delta_t = batches.target_node, batches.target_delta_t
    state, bar = (scratch.state, scratch.room), (scratch.bar, scratch.room)
    means, squares = descent.mean, descent.square
    sums = rows_of(scratch.w_bar)
    tape = scratch.tape
    width = _TAPE if steps_done >= 0 else 0  # only training reads the tape
    loss = broadcast(0.0)
    for b in order:
        w = as_tuple(weights, _VALUES)
        base = batches.first_node[b]
        first_segment, end_segment = batches.first_segment[b], batches.first_segment[b + 1]
        for segment in range(first_segment, end_segment):
            kind = kinds[segment]
            for i in range(starts[segment], ends[segment], LANES):
                if kind == FIRST:
                    store_state(state, i - base, _first(load(ratings, i), w))
                    continue
                old = gather_state(state, parent, i, _STATES)
                dt, rating = load(delta_t, i), load(ratings, i)
                saved = rows_from(tape, (i - base) * width)
                if kind == SUCCESS:
                    store_state(state, i - base, _success(old, dt, rating, w, saved))
                elif kind == FAILURE:
                    store_state(state, i - base, _failure(old, dt, rating, w, saved))
                elif _HAS_SAME_DAY:  # decided before compilation
                    store_state(state, i - base, _same_day(old, dt, rating, w, saved))

        if steps_done >= 0:
            set_zero(bar, batches.first_node[b + 1] - base, _STATES)
            for k in range(_PARAMETERS):
                sums[k] = broadcast(0.0)
        for i in range(batches.first_target[b], batches.first_target[b + 1], LANES):
            last = gather_state(state, target_node, i, _STATES)
            dt = load(target_delta_t, i)
            r = _recall(dt, last, w)
            passes, failures = load(batches.passes, i), load(batches.failures, i)
            if steps_done < 0:
                loss += cross_entropy(r, passes, failures)
                store(scratch.recall, i, r)
            else:
                r_bar = cross_entropy_slope(r, 1.0, passes, failures)
                old_bar = _recall_adjoint(dt, last, w, r_bar, sums)
                scatter_add(bar, target_node, i, old_bar)
        if steps_done < 0:
            continue

        for segment in range(end_segment - 1, first_segment - 1, -1):
            kind = kinds[segment]
            for i in range(starts[segment], ends[segment], LANES):
                new_bar = load_state(bar, i - base, _STATES)
                if kind == FIRST:
                    _first_adjoint(load(ratings, i), w, new_bar, sums)
                    continue
                old = gather_state(state, parent, i, _STATES)
                dt, rating = load(delta_t, i), load(ratings, i)
                saved = rows_from(tape, (i - base) * width)
                if kind == SUCCESS:
                    old_bar = _success_adjoint(old, dt, rating, w, new_bar, sums, saved)
                    scatter_add(bar, parent, i, old_bar)
                elif kind == FAILURE:
                    old_bar = _failure_adjoint(old, dt, rating, w, new_bar, sums, saved)
                    scatter_add(bar, parent, i, old_bar)
                elif _HAS_SAME_DAY:
                    old_bar = _same_day_adjoint(old, dt, rating, w, new_bar, sums, saved)
                    scatter_add(bar, parent, i, old_bar)

        rate = anneal(descent.rate, steps_done, descent.steps)
        steps_done += 1
        beta_mean, beta_square = descent.beta_mean, descent.beta_square
        own_steps = steps_done  # without the ones that parameter k has skipped
        bias_mean = 1.0 - beta_mean**own_steps
        bias_square = math.sqrt(1.0 - beta_square**own_steps)
        for k in range(_PARAMETERS):
            if descent.any_idle:
                if descent.idle[b * _PARAMETERS + k]:
                    descent.passed_by[k] += 1
                    continue
                if steps_done - descent.passed_by[k] != own_steps:
                    own_steps = steps_done - descent.passed_by[k]
                    bias_mean = 1.0 - beta_mean**own_steps
                    bias_square = math.sqrt(1.0 - beta_square**own_steps)
            gradient = total(sums[k])
            gradient += 2.0 * descent.pull[k] * (weights[k] - descent.start[k]) * descent.share[b]
            if descent.penalised:
                gradient += descent.slope[k] * descent.share[b]
            gradient *= descent.free[k]
            means[k] = beta_mean * means[k] + (1.0 - beta_mean) * gradient
            squares[k] = beta_square * squares[k] + (1.0 - beta_square) * gradient * gradient
            step = compute_adam_step(rate, means[k], squares[k], bias_mean, bias_square)
            weights[k] = min(max(weights[k] - step, descent.lower[k]), descent.upper[k])
        for k in range(0, 2 * descent.pairs, 2):  # `not_below` row after row
            raised, least = descent.not_below[k], descent.not_below[k + 1]
            weights[raised] = max(weights[raised], weights[least])
    return total(loss)


# Activations that depend on those of all reviews before (ACT-R)


def activation_pass(learns: bool, weights: Any, batch: Any) -> float:
    """Return the summed loss; leave activations and, if it learns, the gradient's lanes in `batch`.

    Nodes of equal depth lie in groups of LANES. A group's activations are sums of one term for each
    earlier review, of which there are as many as the group is deep: the vectors of `earlier` and
    `ln_age` from first[group] up to first[group + 1].
    """
    w = as_tuple(weights, _PARAMETERS)
    first, earlier, ln_age, tape = batch.first, batch.earlier, batch.ln_age, batch.tape
    activation, bar = batch.activation, batch.bar
    sums = rows_of(batch.w_bar)
    groups = len(first) - 1
    for group in range(groups):
        new = broadcast(0.0)
        for i in range(first[group], first[group + 1], LANES):
            (before,) = gather_state(activation, earlier, i, 1)
            new += _term(before, load(ln_age, i), w, rows_from(tape, i * _TAPE))
        store_state(activation, LANES * group, (new,))

    loss = broadcast(0.0)
    for i in range(0, LANES * groups, LANES):
        (now,) = load_state(activation, i, 1)
        p = single(_recall(now, w))  # the precision of upstream, see `dash._to_single`
        passes, failures = load(batch.passes, i), load(batch.failures, i)
        pass_loss, failure_loss = -log(p), -log(1.0 - p)
        loss += passes * where(pass_loss > 100.0, 100.0, pass_loss)
        loss += failures * where(failure_loss > 100.0, 100.0, failure_loss)
    if not learns:
        return total(loss)

    for k in range(_PARAMETERS):
        sums[k] = broadcast(0.0)
    bar[:] = 0.0
    for group in range(groups - 1, -1, -1):
        at = LANES * group
        (now,) = load_state(activation, at, 1)
        (now_bar,) = load_state(bar, at, 1)
        p = single(_recall(now, w))
        p_bar = cross_entropy_slope(p, 1.0, load(batch.passes, at), load(batch.failures, at))
        now_bar += _recall_adjoint(now, w, p_bar, sums)
        for i in range(first[group], first[group + 1], LANES):
            (before,) = gather_state(activation, earlier, i, 1)
            saved = rows_from(tape, i * _TAPE)
            before_bar = _term_adjoint(before, load(ln_age, i), w, now_bar, sums, saved)
            scatter_add(bar, earlier, i, (before_bar,))
    return total(loss)


# A state of one number, and a curve of one of a few shapes, which the history chooses (SBD)


def full_batch_pass(learns: bool, weights: Any, all_rows: Any) -> float:
    """Return the loss over all rows and leave its gradient in `all_rows` (`sbd._KernelRows`).

    Without `learns`, return 0 and leave the probabilities of recall instead.
    """
    w = as_tuple(weights, _PARAMETERS)
    v = _values(w)
    batch = all_rows.batch
    kinds, starts, ends = batch.kind, batch.start, batch.end
    parent, ln_t, rating = batch.parent, all_rows.ln_t, batch.rating
    grade, shape = all_rows.grade_before, all_rows.shape_before
    node, target_ln_t = batch.target_node, all_rows.target_ln_t
    segments, targets = batch.first_segment[1], batch.first_target[1]
    target_grade, target_shape = all_rows.target_grade, all_rows.target_shape
    state, bar = all_rows.state, all_rows.bar
    beta, beta_bar = all_rows.beta, all_rows.beta_bar
    for n in range(0, beta.shape[1], LANES):
        store_state(beta, n, (_shape(load(all_rows.repetitions, n), w),))
    for segment in range(segments):
        kind, begin, end = kinds[segment], starts[segment], ends[segment]
        for i in range(begin, end, LANES):
            if kind == FIRST:
                store_state(state, i, (_first(load(rating, i), v),))
                continue
            (old,) = gather_state(state, parent, i, 1)
            (b,) = gather_state(beta, shape, i, 1)
            t, g = load(ln_t, i), load(grade, i)
            if kind == SUCCESS:
                store_state(state, i, (_success(old, t, g, b, v),))
            else:
                store_state(state, i, (_failure(old, t, g, b, v),))

    bar[:] = 0.0
    beta_bar[:] = 0.0
    all_rows.v_bar[:] = 0.0
    all_rows.w_bar[:] = 0.0
    v_sums, sums = rows_of(all_rows.v_bar), rows_of(all_rows.w_bar)
    loss, one = broadcast(0.0), broadcast(1.0)
    for i in range(0, targets, LANES):
        (now,) = gather_state(state, node, i, 1)
        (b,) = gather_state(beta, target_shape, i, 1)
        t, g = load(target_ln_t, i), load(target_grade, i)
        if not learns:
            store(all_rows.recall, i, _recall(now, t, g, b, v))
            continue
        passes, failures = load(batch.passes, i), load(batch.failures, i)
        loss += _loss(now, t, g, b, passes, failures, v)
        now_bar, b_bar = _loss_adjoint(now, t, g, b, passes, failures, v, one, v_sums)
        scatter_add(bar, node, i, (now_bar,))
        scatter_add(beta_bar, target_shape, i, (b_bar,))
    if not learns:
        return 0.0

    for segment in range(segments - 1, -1, -1):
        kind, begin, end = kinds[segment], starts[segment], ends[segment]
        for i in range(begin, end, LANES):
            (new_bar,) = load_state(bar, i, 1)
            if kind == FIRST:
                _first_adjoint(load(rating, i), v, new_bar, v_sums)
                continue
            (old,) = gather_state(state, parent, i, 1)
            (b,) = gather_state(beta, shape, i, 1)
            t, g = load(ln_t, i), load(grade, i)
            if kind == SUCCESS:
                old_bar, b_bar = _success_adjoint(old, t, g, b, v, new_bar, v_sums)
            else:
                old_bar, b_bar = _failure_adjoint(old, t, g, b, v, new_bar, v_sums)
            scatter_add(bar, parent, i, (old_bar,))
            scatter_add(beta_bar, shape, i, (b_bar,))

    for n in range(0, beta.shape[1], LANES):
        (b_bar,) = load_state(beta_bar, n, 1)
        _shape_adjoint(load(all_rows.repetitions, n), w, b_bar, sums)
    _values_adjoint(w, load_state(all_rows.v_bar, 0, _VALUES), sums)
    return total(loss)


# A linear predictor in batches (HLR, DASH)


def linear_pass(
    order: Any,
    steps_done: int,
    w: Any,
    batches: Any,
    mean: Any,
    square: Any,
    rate: float,
    steps: int,
) -> float:
    """Visit the batches in `order`; return the sum of their losses before each step.

    If steps_done < 0, it only evaluates. Otherwise it goes on training after `steps_done` of
    `steps` steps: each batch makes one more, which changes `w`, `mean` and `square` (k,). Recall
    and the lanes of the last batch's gradient stay in `batches`.
    """
    x, t, y, weight = batches.x, batches.t, batches.y, batches.weight
    first, recall = batches.first, batches.recall
    sums = rows_of(batches.w_bar)
    loss = broadcast(0.0)
    for b in order:
        for k in range(_PARAMETERS):
            sums[k] = broadcast(0.0)
        for i in range(first[b], first[b + 1], LANES):
            z = broadcast(0.0)
            for k in range(_PARAMETERS):
                z += w[k] * load(x[k], i)
            p, slope = _recall_and_slope(z, load(t, i))
            p = single(p)  # the precision of upstream, see `dash._to_single`
            store(recall, i, p)
            passed, shares = load(y, i), load(weight, i)
            surprise = -log(where(passed > 0.0, p, 1.0 - p))
            loss += shares * where(surprise > 100.0, 100.0, surprise)
            if steps_done >= 0:
                variance = p * (1.0 - p)
                variance = where(variance < 1e-12, 1e-12, variance)  # like torch
                z_bar = shares * (p - passed) / variance * slope
                for k in range(_PARAMETERS):
                    sums[k] = sums[k] + load(x[k], i) * z_bar
        if steps_done < 0:
            continue
        annealed_rate = anneal(rate, steps_done, steps)
        steps_done += 1
        bias_mean, bias_square = 1.0 - 0.9**steps_done, math.sqrt(1.0 - 0.999**steps_done)
        for k in range(_PARAMETERS):
            gradient = total(sums[k])
            mean[k] += 0.1 * (gradient - mean[k])
            square[k] += 0.001 * (gradient * gradient - square[k])
            w[k] -= compute_adam_step(annealed_rate, mean[k], square[k], bias_mean, bias_square)
    return total(loss)


# Penalties on schedules (FSRS-7)

_NEWTON_STEPS = 7
MIN_LN_DAYS, MAX_LN_DAYS = math.log(1 / 86_400), math.log(36_500)  # bounds of intervals
_TEN_MINUTES = 600 / 86_400
_GOOD_RATING = 3.0
GROWTH_RETENTION, SHORT_RETENTION = 0.9, 0.99  # desired retention
GROWTH_WEIGHT, SHORT_WEIGHT = 0.5, 0.0015
# Columns of the scratch memory; columns 0 to 2 hold the state before a review.
_NEWTON_DAYS = 3  # where Newton's method ends
_INTERVAL = 4
_INTERVAL_SLOPE = 5  # derivative of the interval with respect to R
_INTERVAL_BAR = 6  # derivative of the penalty with respect to the interval


def schedule_penalty_pass(weights: Any, w_bar: Any, scratch: Any) -> float:
    """Return the penalty and add its gradient to `w_bar` (values,).

    `fsrs7._add_schedule_penalty` has the formula. `scratch` (reviews, 7) is scratch memory; a
    schedule has as many reviews.
    """
    w = as_tuple(weights, _VALUES)
    reviews = len(scratch)
    penalty = 0.0
    for of_growth in (True, False):  # the penalty on growth, then that on short intervals
        target = GROWTH_RETENTION if of_growth else SHORT_RETENTION
        state = _first(_GOOD_RATING, w)
        for i in range(reviews):
            u = math.log(state[0])  # ln days
            for _ in range(_NEWTON_STEPS):
                u = min(max(u, MIN_LN_DAYS), MAX_LN_DAYS)
                t = math.exp(u)
                steepness = min(_recall_slope(t, state, w, 1.0) * t, -1e-12)
                u -= (_recall(t, state, w) - target) / steepness
            u = min(max(u, MIN_LN_DAYS), MAX_LN_DAYS)
            t = math.exp(u)
            steepness = min(_recall_slope(t, state, w, 1.0) * t, -1e-9)
            v = u - (_recall(t, state, w) - target) / steepness
            interval = math.exp(min(max(v, MIN_LN_DAYS), MAX_LN_DAYS))
            scratch[i, 0], scratch[i, 1], scratch[i, 2] = state
            scratch[i, _NEWTON_DAYS], scratch[i, _INTERVAL] = t, interval
            # Only the last step of Newton's method counts: interval = e^v, dv/dR = -1 / steepness.
            is_within_bounds = MIN_LN_DAYS <= v <= MAX_LN_DAYS
            scratch[i, _INTERVAL_SLOPE] = -interval / steepness if is_within_bounds else 0.0
            scratch[i, _INTERVAL_BAR] = 0.0
            state = _success(state, interval, _GOOD_RATING, w)

        if of_growth:
            largest, largest_at = 0.0, -1
            for i in range(reviews - 1):
                if (
                    scratch[i, _INTERVAL] >= 1.0
                    and scratch[i + 1, _INTERVAL] / scratch[i, _INTERVAL] > largest
                ):
                    largest, largest_at = scratch[i + 1, _INTERVAL] / scratch[i, _INTERVAL], i
            if largest_at < 0:
                continue
            penalty += GROWTH_WEIGHT * largest * largest
            scratch[largest_at, _INTERVAL_BAR] = (
                -2.0 * GROWTH_WEIGHT * largest * largest / scratch[largest_at, _INTERVAL]
            )
            scratch[largest_at + 1, _INTERVAL_BAR] = (
                2.0 * GROWTH_WEIGHT * largest / scratch[largest_at, _INTERVAL]
            )
        else:
            count, days = 0, 0.0
            for i in range(reviews):
                if scratch[i, _INTERVAL] < 1.0:
                    count += 1
                    days += scratch[i, _INTERVAL]
            if count == 0 or days / count >= _TEN_MINUTES:
                continue
            mean = days / count
            penalty += SHORT_WEIGHT * (1.0 / mean - 1.0 / _TEN_MINUTES)
            for i in range(reviews):
                if scratch[i, _INTERVAL] < 1.0:
                    scratch[i, _INTERVAL_BAR] = -SHORT_WEIGHT / (mean * mean * count)

        bar = (0.0, 0.0, 0.0)  # gradient with respect to the state after a review
        for i in range(reviews - 1, -1, -1):
            state = (scratch[i, 0], scratch[i, 1], scratch[i, 2])
            interval = scratch[i, _INTERVAL]
            (s, q, d), through_state = _success_adjoint(
                state, interval, _GOOD_RATING, w, bar, w_bar
            )
            interval_bar = scratch[i, _INTERVAL_BAR] + through_state
            recall_bar = scratch[i, _INTERVAL_SLOPE] * interval_bar
            r_s, r_q, r_d = _recall_adjoint(scratch[i, _NEWTON_DAYS], state, w, recall_bar, w_bar)
            bar = (s + r_s, q + r_q, d + r_d)
        _first_adjoint(_GOOD_RATING, w, bar, w_bar)
    return penalty


# Logistic regression in shuffled batches

_ROWS_PER_BLOCK = 136
"""Rows that are processed together: a multiple of LANES, but not a power of 2, with which a row's
values in all columns would compete for the same places of the processor's cache."""


def _logistic_gradient(
    x: NDArray[np.float32], share: FloatArray, batch: NDArray[np.uint32], coefficients: FloatArray
) -> FloatArray:
    """Return the gradient of the weighted log loss with respect to the coefficients (k,).

    The loss is summed over rows `batch` of x (n, k). `share` (n,) are weights, negative where the
    review was failed.
    """
    features = len(coefficients)
    bar = np.zeros(features)
    columns = np.zeros((features, _ROWS_PER_BLOCK))
    shares, z_bar = np.zeros(_ROWS_PER_BLOCK), np.zeros(_ROWS_PER_BLOCK)
    for begin in range(0, len(batch), _ROWS_PER_BLOCK):
        rows = batch[begin : begin + _ROWS_PER_BLOCK]
        # First read one number of each cache line: then memory fetches many rows at once.
        for i in range(len(rows)):
            shares[i] = share[rows[i]]
            for k in range(0, features, 16):
                columns[k, i] = x[rows[i], k]
        for i in range(len(rows)):
            for k in range(features):
                columns[k, i] = x[rows[i], k]
        shares[len(rows) :] = 0.0
        for i in range(0, len(rows), LANES):
            # Two sums, so that an addition does not wait for the one before.
            even, odd = broadcast(0.0), broadcast(0.0)
            for k in range(0, features - 1, 2):
                even += coefficients[k] * load(columns[k], i)
                odd += coefficients[k + 1] * load(columns[k + 1], i)
            if features % 2:
                even += coefficients[features - 1] * load(columns[features - 1], i)
            p = 1.0 / (1.0 + exp(-(even + odd)))
            signed_weight = load(shares, i)
            store(z_bar, i, signed_weight * where(signed_weight > 0.0, p - 1.0, -p))
        for k in range(features):
            column = columns[k]
            sums = broadcast(0.0)
            for i in range(0, len(rows), LANES):
                sums += load(z_bar, i) * load(column, i)
            bar[k] += total(sums)
    return bar


def logistic_epoch(
    x: NDArray[np.float32],
    share: FloatArray,
    train: IntArray,
    mean: FloatArray,
    std: FloatArray,
    words: NDArray[np.uint32],
    residual: FloatArray,
    square: FloatArray,
    epochs_done: int,
    epochs: int,
    size: int,
    start_rate: float,
    beta: float,
    decay: float,
) -> None:
    """Make one pass over shuffled batches of rows `train`; change `residual` and `square` (k,).

    The coefficients are residual * std + mean (k,), `share` is as in `_logistic_gradient`. `words`
    are the n - 1 random words of `torch.randperm(n)`, `epochs_done` of `epochs` passes were made
    before this one, and `size` is the number of rows in a batch.
    """
    n = len(train)
    order = train.astype(np.uint32)
    for k in range(n - 1):
        # Numbers of 32 bits divide in half the time.
        other = k + np.int64(words[k] % np.uint32(n - k))
        order[k], order[other] = order[other], order[k]
    batches = (n + size - 1) // size
    for batch in range(batches):
        step = epochs_done * batches + batch
        rate = anneal(start_rate, step, epochs * batches)
        chosen = order[batch * size : (batch + 1) * size]
        slope = _logistic_gradient(x, share, chosen, residual * std + mean) * std
        correction = math.sqrt(1 - beta ** (step + 1))
        for k in range(len(slope)):
            square[k] = beta * square[k] + (1 - beta) * slope[k] * slope[k]
            residual[k] *= 1 - rate * decay
            # No momentum: the slope takes the place of its running mean.
            residual[k] -= compute_adam_step(rate, slope[k], square[k], 1.0, correction)
