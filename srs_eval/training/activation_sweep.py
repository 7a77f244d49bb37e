"""The template of a kernel for activations: sums of what is left of each earlier practice.

For models where a review's activation depends on those of all reviews before it (ACT-R).
`loss_and_gradient` is compiled once per model with the model's steps and their gradients in
place of the names below (`compile.specialised`). This module imports numba; import it inside
functions only.
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
    log,
    rows_from,
    rows_of,
    scatter_add,
    single,
    store_state,
    total,
    where,
)

PARAMETERS = 0
TAPE = 0  # numbers that a term leaves for its gradient
left: Any = None
left_adjoint: Any = None
recall: Any = None
recall_adjoint: Any = None


def loss_and_gradient(learns: bool, weights: Any, part: Any) -> float:
    """The summed loss; activations and, if it learns, the lanes of the gradient stay in `part`.

    Nodes of equal depth lie in groups of LANES. A group's activations are sums over as many
    places in `earlier` and `ln_age` as it is deep.
    """
    w = as_tuple(weights, PARAMETERS)
    first, earlier, ln_age, tape = part.first, part.earlier, part.ln_age, part.tape
    activation, bar = part.activation, part.bar
    sums = rows_of(part.w_bar)
    groups = len(first) - 1
    for group in range(groups):
        sum_left = broadcast(0.0)
        for i in range(first[group], first[group + 1], LANES):
            (before,) = gather_state(activation, earlier, i, 1)
            sum_left += left(before, load(ln_age, i), w, rows_from(tape, i * TAPE))
        store_state(activation, LANES * group, (sum_left,))

    loss = broadcast(0.0)
    for i in range(0, LANES * groups, LANES):
        (now,) = load_state(activation, i, 1)
        p = single(recall(now, w))  # what upstream computes in; see loss
        passes, failures = load(part.passes, i), load(part.failures, i)
        of_pass, of_failure = -log(p), -log(1.0 - p)
        loss += passes * where(of_pass > 100.0, 100.0, of_pass)
        loss += failures * where(of_failure > 100.0, 100.0, of_failure)
    if not learns:
        return total(loss)

    for k in range(PARAMETERS):
        sums[k] = broadcast(0.0)
    bar[:] = 0.0
    for group in range(groups - 1, -1, -1):
        at = LANES * group
        (now,) = load_state(activation, at, 1)
        (now_bar,) = load_state(bar, at, 1)
        p = single(recall(now, w))
        both = p * (1.0 - p)
        both = where(both < 1e-12, 1e-12, both)
        p_bar = (load(part.passes, at) * (p - 1.0) + load(part.failures, at) * p) / both
        now_bar += recall_adjoint(now, w, p_bar, sums)
        for i in range(first[group], first[group + 1], LANES):
            (before,) = gather_state(activation, earlier, i, 1)
            kept = rows_from(tape, i * TAPE)
            before_bar = left_adjoint(before, load(ln_age, i), w, now_bar, sums, kept)
            scatter_add(bar, earlier, i, (before_bar,))
    return total(loss)
