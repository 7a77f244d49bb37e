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
    """Return the derived gradient as a function of arrays.

    It takes the step's arguments, the gradients of its results and, if w names an argument, rows to
    which the gradients of w's values are added. With `numbers` it is derived as for a kernel that
    calls the step with numbers, not vectors.
    """
    derived = derive_adjoint(step, by, w)

    def run(*arrays: Any) -> Any:
        graph = StepGraph()
        values = dict[GraphValue, Any]()

        def stand_in(x: Any, kind: Any) -> Any:
            if isinstance(x, tuple | list):
                return tuple(stand_in(item, kind) for item in x)
            node = graph.add(kind, varies=kind is not DOUBLE)
            values[node] = x
            return Traced(graph, node)

        def evaluate(x: Any) -> Any:
            if isinstance(x, tuple):
                return tuple(evaluate(item) for item in x)
            if x is None or isinstance(x, float):
                return x
            return _compute(x.value, values)

        inputs = arrays[:-1] if w else arrays
        kinds = [
            DOUBLE if numbers or name == w else VECTOR
            for name in inspect.signature(step).parameters
        ]
        arguments = [stand_in(x, kind) for x, kind in zip(inputs[:-1], kinds, strict=True)]
        bar = stand_in(inputs[-1], DOUBLE if numbers else VECTOR)
        sums = _Rows()
        gradients_of_w = (sums,) if w else ()
        with np.errstate(all="ignore"):
            result = evaluate(derived(*arguments, bar, *gradients_of_w))
            for k, x in sums.items():
                arrays[-1][k] += evaluate(x)
        return result

    return run


class _Rows(dict[int, Any]):
    def __missing__(self, k: int) -> float:
        return 0.0


def _compute(value: GraphValue, values: dict[GraphValue, Any]) -> Any:
    """Return the value of a node and keep it, and those that it rests on, in `values`."""
    if value not in values:
        if value.instruction is not None:  # a constant
            values[value] = value.instruction.constant
        else:
            operation = _find_operation(value.make)
            operands = [_compute(operand, values) for operand in value.operands]
            values[value] = operation(*operands)
    return values[value]


def _find_operation(make: Any) -> Callable[..., Any]:
    """Return numpy's function for the function that makes a node."""
    if make in OPERATIONS:
        return COMPUTED[OPERATIONS[make]]
    return next(COMPARED[sign] for sign, compare in COMPARISONS.items() if compare is make)
