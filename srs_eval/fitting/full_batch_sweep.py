"""The template of a kernel for full-batch training: loss and gradient over all rows at once.

For models whose state is one number and whose curve has one of a few shapes, chosen by the
history (SBD). `loss_and_gradient` is compiled once per model with the model's steps in place
of the names below (`compile.specialised`). This module imports numba; import it inside
functions only.
"""

from __future__ import annotations

from typing import Any

from srs_eval.fitting.simd import (
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
from srs_eval.fitting.trie import FIRST as FIRST_REVIEW
from srs_eval.fitting.trie import SUCCESS as RECALLED

VALUES = 0
first: Any = None
first_adjoint: Any = None
success: Any = None
success_adjoint: Any = None
failure: Any = None
failure_adjoint: Any = None
recall: Any = None
loss_and_adjoint: Any = None


def loss_and_gradient(learns: bool, weights: Any, shapes: Any, slopes: Any, all_rows: Any) -> float:
    """Goes through all rows; what it finds stays in `all_rows`, see there.

    learns: loss and gradient, of which the loss is returned; otherwise probabilities of recall.
    `shapes` (1, s) are the values of the s shapes, `slopes` (3, s) the derivatives of their
    logarithms in three parameters, whose gradients follow those of the `weights`.
    """
    w = as_tuple(weights, VALUES)
    kinds, starts, ends = all_rows.kind, all_rows.start, all_rows.end
    parent, ln_t, rating = all_rows.parent, all_rows.ln_t, all_rows.rating
    grade, shape = all_rows.grade_before, all_rows.shape_before
    node, target_ln_t = all_rows.target_node, all_rows.target_ln_t
    target_grade, target_shape = all_rows.target_grade, all_rows.target_shape
    all_passes, all_failures, recalls = all_rows.passes, all_rows.failures, all_rows.recall
    state, bar = all_rows.state, all_rows.bar
    sums = rows_of(all_rows.w_bar)
    for segment in range(len(kinds)):
        kind, begin, end = kinds[segment], starts[segment], ends[segment]
        if kind == FIRST_REVIEW:
            for i in range(begin, end, LANES):
                store_state(state, i, (first(load(rating, i), w),))
        elif kind == RECALLED:
            for i in range(begin, end, LANES):
                (old,) = gather_state(state, parent, i, 1)
                (form,) = gather_state(shapes, shape, i, 1)
                store_state(state, i, (success(old, load(ln_t, i), load(grade, i), form, w),))
        else:
            for i in range(begin, end, LANES):
                (old,) = gather_state(state, parent, i, 1)
                (form,) = gather_state(shapes, shape, i, 1)
                store_state(state, i, (failure(old, load(ln_t, i), load(grade, i), form, w),))

    if not learns:
        for i in range(0, len(node), LANES):
            (now,) = gather_state(state, node, i, 1)
            (form,) = gather_state(shapes, target_shape, i, 1)
            store(recalls, i, recall(now, load(target_ln_t, i), load(target_grade, i), form, w))
        return 0.0

    bar[:] = 0.0
    all_rows.w_bar[:] = 0.0
    loss = broadcast(0.0)
    for i in range(0, len(node), LANES):
        (now,) = gather_state(state, node, i, 1)
        (form,) = gather_state(shapes, target_shape, i, 1)
        t, g = load(target_ln_t, i), load(target_grade, i)
        passes, failures = load(all_passes, i), load(all_failures, i)
        here, now_bar, form_bar = loss_and_adjoint(now, t, g, form, w, passes, failures, sums)
        loss += here
        scatter_add(bar, node, i, (now_bar,))
        slope = gather_state(slopes, target_shape, i, 3)
        for k in range(3):
            sums[VALUES + k] = sums[VALUES + k] + form_bar * slope[k]
    for segment in range(len(kinds) - 1, -1, -1):
        kind, begin, end = kinds[segment], starts[segment], ends[segment]
        if kind == FIRST_REVIEW:
            for i in range(begin, end, LANES):
                (new_bar,) = load_state(bar, i, 1)
                first_adjoint(load(rating, i), w, new_bar, sums)
            continue
        for i in range(begin, end, LANES):
            (old,) = gather_state(state, parent, i, 1)
            (form,) = gather_state(shapes, shape, i, 1)
            (new_bar,) = load_state(bar, i, 1)
            t, g = load(ln_t, i), load(grade, i)
            if kind == RECALLED:
                old_bar, form_bar = success_adjoint(old, t, g, form, w, new_bar, sums)
            else:
                old_bar, form_bar = failure_adjoint(old, t, g, form, w, new_bar, sums)
            scatter_add(bar, parent, i, (old_bar,))
            slope = gather_state(slopes, shape, i, 3)
            for k in range(3):
                sums[VALUES + k] = sums[VALUES + k] + form_bar * slope[k]
    return total(loss)
