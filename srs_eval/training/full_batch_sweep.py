"""The template of a kernel for full-batch training: loss and gradient over all rows at once.

For models whose state is one number and whose curve has one of a few shapes, chosen by the
history (SBD). `loss_and_gradient` is compiled once per model with the model's steps and
their gradients in place of the names below (`compile.specialised`). This module imports numba;
import it inside functions only.
"""

from __future__ import annotations

from typing import Any

from srs_eval.training.simd import (
    LANES,
    as_tuple,
    broadcast,
    gather_state,
    load,
    load_state,
    rows_of,
    scatter_add,
    store,
    store_state,
    total,
)
from srs_eval.training.trie import FIRST as FIRST_REVIEW
from srs_eval.training.trie import SUCCESS as RECALLED

PARAMETERS = 0
VALUES = 0  # that the steps take
values: Any = None
values_adjoint: Any = None
shape: Any = None
shape_adjoint: Any = None
first: Any = None
first_adjoint: Any = None
success: Any = None
success_adjoint: Any = None
failure: Any = None
failure_adjoint: Any = None
recall: Any = None
loss: Any = None
loss_adjoint: Any = None


def loss_and_gradient(learns: bool, weights: Any, all_rows: Any) -> float:
    """Goes through all rows; what it finds stays in `all_rows`, see there.

    learns: loss and gradient, of which the loss is returned; otherwise probabilities of recall.
    """
    w = as_tuple(weights, PARAMETERS)
    v = values(w)
    kinds, starts, ends = all_rows.kind, all_rows.start, all_rows.end
    parent, ln_t, rating = all_rows.parent, all_rows.ln_t, all_rows.rating
    grade, repeated = all_rows.grade_before, all_rows.shape_before
    node, target_ln_t = all_rows.target_node, all_rows.target_ln_t
    target_grade, target_shape = all_rows.target_grade, all_rows.target_shape
    all_passes, all_failures, recalls = all_rows.passes, all_rows.failures, all_rows.recall
    state, bar = all_rows.state, all_rows.bar
    beta, beta_bar = all_rows.beta, all_rows.beta_bar
    for n in range(0, beta.shape[1], LANES):
        store_state(beta, n, (shape(load(all_rows.repetitions, n), w),))
    for segment in range(len(kinds)):
        kind, begin, end = kinds[segment], starts[segment], ends[segment]
        if kind == FIRST_REVIEW:
            for i in range(begin, end, LANES):
                store_state(state, i, (first(load(rating, i), v),))
            continue
        for i in range(begin, end, LANES):
            (old,) = gather_state(state, parent, i, 1)
            (b,) = gather_state(beta, repeated, i, 1)
            t, g = load(ln_t, i), load(grade, i)
            if kind == RECALLED:
                store_state(state, i, (success(old, t, g, b, v),))
            else:
                store_state(state, i, (failure(old, t, g, b, v),))

    if not learns:
        for i in range(0, len(node), LANES):
            (now,) = gather_state(state, node, i, 1)
            (b,) = gather_state(beta, target_shape, i, 1)
            store(recalls, i, recall(now, load(target_ln_t, i), load(target_grade, i), b, v))
        return 0.0

    bar[:] = 0.0
    beta_bar[:] = 0.0
    all_rows.v_bar[:] = 0.0
    all_rows.w_bar[:] = 0.0
    v_sums, sums = rows_of(all_rows.v_bar), rows_of(all_rows.w_bar)
    lost, one = broadcast(0.0), broadcast(1.0)
    for i in range(0, len(node), LANES):
        (now,) = gather_state(state, node, i, 1)
        (b,) = gather_state(beta, target_shape, i, 1)
        t, g = load(target_ln_t, i), load(target_grade, i)
        passes, failures = load(all_passes, i), load(all_failures, i)
        lost += loss(now, t, g, b, passes, failures, v)
        now_bar, b_bar = loss_adjoint(now, t, g, b, passes, failures, v, one, v_sums)
        scatter_add(bar, node, i, (now_bar,))
        scatter_add(beta_bar, target_shape, i, (b_bar,))
    for segment in range(len(kinds) - 1, -1, -1):
        kind, begin, end = kinds[segment], starts[segment], ends[segment]
        if kind == FIRST_REVIEW:
            for i in range(begin, end, LANES):
                (new_bar,) = load_state(bar, i, 1)
                first_adjoint(load(rating, i), v, new_bar, v_sums)
            continue
        for i in range(begin, end, LANES):
            (old,) = gather_state(state, parent, i, 1)
            (b,) = gather_state(beta, repeated, i, 1)
            (new_bar,) = load_state(bar, i, 1)
            t, g = load(ln_t, i), load(grade, i)
            if kind == RECALLED:
                old_bar, b_bar = success_adjoint(old, t, g, b, v, new_bar, v_sums)
            else:
                old_bar, b_bar = failure_adjoint(old, t, g, b, v, new_bar, v_sums)
            scatter_add(bar, parent, i, (old_bar,))
            scatter_add(beta_bar, repeated, i, (b_bar,))

    for n in range(0, beta.shape[1], LANES):
        (b_bar,) = load_state(beta_bar, n, 1)
        shape_adjoint(load(all_rows.repetitions, n), w, b_bar, sums)
    values_adjoint(w, load_state(all_rows.v_bar, 0, VALUES), sums)
    return total(lost)
