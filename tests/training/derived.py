"""Steps and their derived gradients in numpy: what a kernel computes, without compiling it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from srs_eval.training.step_graph import (
    COMPARISONS,
    DOUBLE,
    OPERATIONS,
    VECTOR,
    GraphValue,
    StepGraph,
    Traced,
)
from srs_eval.training.tracing import derive_adjoint

COMPUTED: dict[str, Callable[..., Any]] = {
    "fadd": np.add,
    "fsub": np.subtract,
    "fmul": np.multiply,
    "fdiv": np.divide,
    "negative": np.negative,
    "exp": np.exp,
    "log": np.log,
    "select": np.where,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "clamp": np.clip,
    "as_vector": np.asarray,
    "first_lane": np.asarray,
}
COMPARED: dict[str, Callable[..., Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
}


def derive_gradient(
    step: Callable[..., Any], by: Sequence[str], w: str | None = None, numbers: bool = False
) -> Callable[..., Any]:
    """The derived gradient as a function of arrays: of the step's arguments, the gradients of its
    results and, if w names an argument, rows to which the gradients of w's values are added.

    `numbers`: derived as for a kernel that calls the step with numbers, not vectors.
    """
    derived = derive_adjoint(step, by, w)

    def run(*given: Any) -> Any:
        graph, known = StepGraph(), dict[GraphValue, Any]()

        def stand_in(x: Any, kind: Any) -> Any:
            if isinstance(x, tuple | list):
                return tuple(stand_in(part, kind) for part in x)
            made = graph.add(kind, varies=kind is not DOUBLE)
            known[made] = x
            return Traced(graph, made)

        def found(x: Any) -> Any:
            if isinstance(x, tuple):
                return tuple(found(part) for part in x)
            return x if x is None or isinstance(x, float) else _computed(x.value, known)

        inputs = given[:-1] if w else given
        kinds = [
            DOUBLE if numbers or name == w else VECTOR
            for name in inspect.signature(step).parameters
        ]
        arguments = [stand_in(x, kind) for x, kind in zip(inputs[:-1], kinds, strict=True)]
        bar = stand_in(inputs[-1], DOUBLE if numbers else VECTOR)
        sums = _Rows()
        with np.errstate(all="ignore"):
            result = found(derived(*arguments, bar, *((sums,) if w else ())))
            for k, x in sums.items():
                given[-1][k] += found(x)
        return result

    return run


class _Rows(dict[int, Any]):
    def __missing__(self, k: int) -> float:
        return 0.0


def _computed(value: GraphValue, known: dict[GraphValue, Any]) -> Any:
    if value not in known:
        if value.instruction is not None:  # a constant
            known[value] = value.instruction.constant
        else:
            operation = _operation(value.make)
            known[value] = operation(*(_computed(each, known) for each in value.operands))
    return known[value]


def _operation(make: Any) -> Callable[..., Any]:
    if make in OPERATIONS:
        return COMPUTED[OPERATIONS[make]]
    return next(COMPARED[sign] for sign, each in COMPARISONS.items() if each is make)
