"""The template of a recurrent model's kernel: forward, loss, gradient, Adam.

`recurrent_pass` is compiled once per model with the model's steps and their gradients in place
of the names below (`compile.specialised`). This module imports numba; import it inside
functions only.
"""

from __future__ import annotations

import math
from typing import Any

from srs_eval.training.elementwise import LANES
from srs_eval.training.optimisers import adam_step, annealed
from srs_eval.training.recurrent import Descent, Scratch
from srs_eval.training.simd import (
    as_tuple,
    broadcast,
    gather_state,
    load,
    load_state,
    log,
    rows_from,
    rows_of,
    scatter_add,
    set_zero,
    store,
    store_state,
    total,
    unpacked,
    where,
)
from srs_eval.training.trie import FAILURE, FIRST, SUCCESS, TrieBatches

_STATES = 0
_PARAMETERS = 0
_VALUES = 0  # parameters and constants
_HAS_SAME_DAY = 0
_TAPE = 0  # numbers that a step leaves for its gradient
_step: Any = None  # of a model, in its kernel
_first = _first_adjoint = _success = _success_adjoint = _failure = _failure_adjoint = _step
_same_day = _same_day_adjoint = _recall = _recall_adjoint = _step


def recurrent_pass(
    order: Any, done: int, weights: Any, batches_table: Any, descent_table: Any, scratch_table: Any
) -> float:
    """Visits the batches in `order`; returns the sum of their losses.

    done < 0: evaluates only. Otherwise `done` steps of training are behind, and each
    batch makes one more, which changes `weights` and the state of the descent.
    """
    batches = unpacked(batches_table, TrieBatches)
    descent = unpacked(descent_table, Descent)
    scratch = unpacked(scratch_table, Scratch)
    # Pointers out of their tuples once: within the loops a name is quicker compiled.
    kinds, starts, ends = batches.kind, batches.start, batches.end
    parent, delta_t, ratings = batches.parent, batches.delta_t, batches.rating
    target_node, target_delta_t = batches.target_node, batches.target_delta_t
    state, bar = (scratch.state, scratch.room), (scratch.bar, scratch.room)
    means, squares = descent.mean, descent.square
    sums = rows_of(scratch.w_bar)
    tape = scratch.tape
    width = _TAPE if done >= 0 else 0  # nobody reads it without learning
    loss = broadcast(0.0)
    for b in order:
        w = as_tuple(weights, _VALUES)
        base = batches.first_node[b]
        first_segment, end_segment = batches.first_segment[b], batches.first_segment[b + 1]
        for segment in range(first_segment, end_segment):
            kind = kinds[segment]
            begin, end = starts[segment], ends[segment]
            for i in range(begin, end, LANES):
                if kind == FIRST:
                    store_state(state, i - base, _first(load(ratings, i), w))
                    continue
                old = gather_state(state, parent, i, _STATES)
                dt, rating = load(delta_t, i), load(ratings, i)
                left = rows_from(tape, (i - base) * width)
                if kind == SUCCESS:
                    store_state(state, i - base, _success(old, dt, rating, w, left))
                elif kind == FAILURE:
                    store_state(state, i - base, _failure(old, dt, rating, w, left))
                elif _HAS_SAME_DAY:  # decided before compilation
                    store_state(state, i - base, _same_day(old, dt, rating, w, left))

        if done >= 0:
            set_zero(bar, batches.first_node[b + 1] - base, _STATES)
            for k in range(_PARAMETERS):
                sums[k] = broadcast(0.0)
        for i in range(batches.first_target[b], batches.first_target[b + 1], LANES):
            now = gather_state(state, target_node, i, _STATES)
            dt = load(target_delta_t, i)
            r = _recall(dt, now, w)
            passes, failures = load(batches.passes, i), load(batches.failures, i)
            if done < 0:
                # torch holds each logarithm at -100 or above
                log_r, log_f = log(r), log(1.0 - r)
                log_r = where(log_r < -100.0, -100.0, log_r)
                log_f = where(log_f < -100.0, -100.0, log_f)
                loss -= passes * log_r + failures * log_f
                store(scratch.recall, i, r)
            else:
                # and its gradient divides by 1e-12 or more
                both = r * (1.0 - r)
                both = where(both < 1e-12, 1e-12, both)
                r_bar = (passes * (r - 1.0) + failures * r) / both
                old_bar = _recall_adjoint(dt, now, w, r_bar, sums)
                scatter_add(bar, target_node, i, old_bar)
        if done < 0:
            continue

        for segment in range(end_segment - 1, first_segment - 1, -1):
            kind = kinds[segment]
            begin, end = starts[segment], ends[segment]
            for i in range(begin, end, LANES):
                new_bar = load_state(bar, i - base, _STATES)
                if kind == FIRST:
                    _first_adjoint(load(ratings, i), w, new_bar, sums)
                    continue
                old = gather_state(state, parent, i, _STATES)
                dt, rating = load(delta_t, i), load(ratings, i)
                left = rows_from(tape, (i - base) * width)
                if kind == SUCCESS:
                    old_bar = _success_adjoint(old, dt, rating, w, new_bar, sums, left)
                    scatter_add(bar, parent, i, old_bar)
                elif kind == FAILURE:
                    old_bar = _failure_adjoint(old, dt, rating, w, new_bar, sums, left)
                    scatter_add(bar, parent, i, old_bar)
                elif _HAS_SAME_DAY:
                    old_bar = _same_day_adjoint(old, dt, rating, w, new_bar, sums, left)
                    scatter_add(bar, parent, i, old_bar)

        rate = annealed(descent.rate, done, descent.steps)
        done += 1
        beta_mean, beta_square = descent.beta_mean, descent.beta_square
        steps = done
        bias_mean = 1.0 - beta_mean**steps
        bias_square = math.sqrt(1.0 - beta_square**steps)
        for k in range(_PARAMETERS):
            if descent.any_idle:
                if descent.idle[b * _PARAMETERS + k]:
                    descent.passed_by[k] += 1
                    continue
                if done - descent.passed_by[k] != steps:
                    steps = done - descent.passed_by[k]
                    bias_mean = 1.0 - beta_mean**steps
                    bias_square = math.sqrt(1.0 - beta_square**steps)
            gradient = total(sums[k])
            gradient += 2.0 * descent.pull[k] * (weights[k] - descent.start[k]) * descent.share[b]
            if descent.penalised:
                gradient += descent.slope[k] * descent.share[b]
            gradient *= descent.free[k]
            mean = beta_mean * means[k] + (1.0 - beta_mean) * gradient
            square = beta_square * squares[k] + (1.0 - beta_square) * gradient * gradient
            means[k] = mean
            squares[k] = square
            step = adam_step(rate, mean, square, bias_mean, bias_square)
            weights[k] = min(max(weights[k] - step, descent.lower[k]), descent.upper[k])
        for k in range(0, 2 * descent.pairs, 2):
            raised, least = descent.not_below[k], descent.not_below[k + 1]
            weights[raised] = max(weights[raised], weights[least])
    return total(loss)
