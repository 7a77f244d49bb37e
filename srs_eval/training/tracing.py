"""Turn steps into instructions and derive their gradients by reverse mode.

numba sees a whole step (`step_graph`) as one intrinsic and infers no types inside, which used to
take half of the compile time. Values that both a step and its gradient need are computed by the
step alone (`trace_with_tape`).

Traced values are floats, vectors of LANES floats and conditions on them. Tuples stay tuples; rows
of vectors and arrays are read and written element by element, at literal indices. A step that is
called with vectors returns vectors, even where a result depends on none of them. A `kind` is a
numba type here.

`derive_adjoint` derives the gradient of a step: it runs the step, so that the graph contains all of
it, and goes back through the graph from the results to the arguments; each operation adds to the
gradients of its operands. Values that both need are in the graph once. At a kink the gradient is
torch's: if both operands are equal, `minimum` and `maximum` give half of it to each; `clamp` gives
it to x at a bound, too; `where` gives it to the side that is taken. The gradient through the other
side may be infinite or not a number. It is therefore set to 0 where it leaves that side, not where
it enters.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from srs_eval.training import simd, step_graph
from srs_eval.training.elementwise import where
from srs_eval.training.step_graph import (
    DOUBLE,
    OPERATIONS,
    SLOW_OPERATIONS,
    VECTOR_OPERATIONS,
    GraphValue,
    StepGraph,
    Store,
    Traced,
    emit,
    find_unemitted,
    to_value,
)


class _ArrayElements:
    """The vectors or the numbers of an array in memory. Arrays must not overlap.

    An element is loaded once; `stores` writes the elements that the step has changed.
    """

    def __init__(self, graph: StepGraph, data: Any, vectors: bool) -> None:
        self.graph = graph
        self.data = data
        self.vectors = vectors
        self._loaded: dict[int, GraphValue] = {}
        self._current: dict[int, GraphValue] = {}

    def _pointer_to(self, builder: Any, k: int) -> Any:
        index = ir.IntType(64)(k * simd.LANES if self.vectors else k)
        pointer = builder.gep(self.data, [index])
        if not self.vectors:
            return pointer
        return builder.bitcast(pointer, ir.PointerType(step_graph.VECTOR))

    def load(self, builder: Any, *, k: int) -> Any:
        value = builder.load(self._pointer_to(builder, k))
        value.align = 8
        return value

    def _store(self, builder: Any, value: Any, *, k: int) -> None:
        builder.store(value, self._pointer_to(builder, k)).align = 8

    def __getitem__(self, k: int) -> Traced:
        if k not in self._current:
            element_type = step_graph.VECTOR if self.vectors else DOUBLE
            load = functools.partial(self.load, k=k)
            value = self.graph.add(element_type, load, varies=self.vectors)
            self._current[k] = value
            self._loaded[k] = value
        return Traced(self.graph, self._current[k])

    def __setitem__(self, k: int, new: Any) -> None:
        value = to_value(self.graph, new)
        self._current[k] = self.graph.to_vector(value) if self.vectors else value

    def loaded_values(self) -> dict[int, Traced]:
        """Return the elements that the step has read, as they were before it, by index."""
        return {k: Traced(self.graph, value) for k, value in self._loaded.items()}

    def stores(self) -> list[Store]:
        """Return the stores of the elements that the step has changed."""
        return [
            Store(value, functools.partial(self._store, k=k), self._loaded.get(k))
            for k, value in self._current.items()
            if value is not self._loaded.get(k)
        ]


def trace_step(function: Callable[..., Any]) -> Any:
    """Return the step as an intrinsic of numba, which compiled code inlines.

    Its arguments are floats, vectors, arrays of floats, rows of vectors and tuples of these.
    """

    def emit_function(
        builder: Any, graph: StepGraph, kind: Any, arguments: Sequence[Any]
    ) -> list[GraphValue]:
        results = _flatten_result(graph, kind, function(*arguments))
        emit(builder, results, _collect_stores(arguments))
        return results

    return _make_intrinsic(function, (), emit_function)


def trace_with_tape(step: Callable[..., Any], adjoint: Callable[..., Any]) -> tuple[Any, Any]:
    """Return a step and its gradient (`derive_adjoint`) as `trace_step` does, with a tape.

    The tape is the last argument of both, rows of vectors. The step leaves values on it that take
    long to compute and that the gradient needs.
    """

    def emit_step(
        builder: Any, graph: StepGraph, kind: Any, arguments: Sequence[Any]
    ) -> list[GraphValue]:
        *inputs, tape = arguments
        results, _, _, shared = _trace_both(graph, step, adjoint, inputs)
        for k, value in enumerate(shared):
            tape[k] = Traced(graph, value)
        emit(builder, results, tape.stores())
        return results

    def emit_adjoint(
        builder: Any, graph: StepGraph, kind: Any, arguments: Sequence[Any]
    ) -> list[GraphValue]:
        *inputs, bar, w_bar, tape = arguments
        _, results, stores, shared = _trace_both(graph, step, adjoint, inputs, (bar, w_bar))
        for k, value in enumerate(shared):
            # Load the value from the tape instead of computing it.
            value.make = functools.partial(tape.load, k=k)
            value.operands = ()
        emit(builder, results, stores)
        return results

    step_intrinsic = _make_intrinsic(step, ("tape",), emit_step)
    return step_intrinsic, _make_intrinsic(adjoint, ("tape",), emit_adjoint)


def compute_tape_length(
    step: Callable[..., Any], adjoint: Callable[..., Any], arguments: Sequence[int], values: int
) -> int:
    """Return the number of vectors on the tape of a step.

    `arguments` are the sizes of the step's arguments that are tuples of vectors, 0 for a single
    vector; the last argument is a tuple of `values` numbers.
    """
    graph = StepGraph()
    kinds = [types.UniTuple(simd.vector, count) if count else simd.vector for count in arguments]
    kinds.append(types.UniTuple(types.float64, values))
    inputs = [_make_stand_in(graph, kind) for kind in kinds]
    _, _, _, shared = _trace_both(graph, step, adjoint, inputs)
    return len(shared)


def _trace_both(
    graph: StepGraph,
    step: Callable[..., Any],
    adjoint: Callable[..., Any],
    inputs: Sequence[Any],
    gradients: tuple[Any, _ArrayElements] | None = None,
) -> tuple[list[GraphValue], list[GraphValue], list[Store], list[GraphValue]]:
    """Return the step's results, its gradient's results and stores, and the tape's values.

    `gradients` are the gradient's further arguments. None stands for any, if only the step's
    results and the tape are wanted.
    """
    result = step(*inputs)
    if gradients is None:
        kind = _infer_type(result, vectors=True)
        gradients = _make_stand_in(graph, kind), _ArrayElements(graph, None, vectors=True)
    results = _flatten_to_vectors(graph, result)
    adjoint_results = _flatten_to_vectors(graph, adjoint(*inputs, *gradients))
    stores = _collect_stores(gradients)
    slow = _find_worth_keeping(find_unemitted(results))
    needed = find_unemitted([*adjoint_results, *(value for value, _, _ in stores)], slow)
    shared = [value for value in needed if value.number in slow]
    return results, adjoint_results, stores, shared


def _find_worth_keeping(values: Sequence[GraphValue]) -> set[int]:
    """Return the numbers of the values that the gradient of a step should not compute again.

    These are exp, log, and quotients that depend on them. Other quotients are computed as quickly
    as they are loaded. `values` are the step's values, in order of creation.
    """
    slow: set[int] = set()
    late: set[int] = set()  # values that depend on exp or log, and these
    for value in values:
        depends = any(operand.number in late for operand in value.operands)
        is_slow = value.varies and value.make in SLOW_OPERATIONS
        if is_slow or (depends and value.make is VECTOR_OPERATIONS["fdiv"]):
            slow.add(value.number)
        if is_slow or depends:
            late.add(value.number)
    return slow


def _flatten_to_vectors(graph: StepGraph, result: Any) -> list[GraphValue]:
    """Return all parts of a result as vectors."""
    if isinstance(result, tuple):
        return [value for part in result for value in _flatten_to_vectors(graph, part)]
    return [] if result is None else [graph.to_vector(to_value(graph, result))]


def _collect_stores(arguments: Sequence[Any]) -> list[Store]:
    arrays = [value for value in arguments if isinstance(value, _ArrayElements)]
    return [store for elements in arrays for store in elements.stores()]


def _make_intrinsic(
    function: Callable[..., Any], extra_parameters: Sequence[str], emit_body: Any
) -> Any:
    """Return the intrinsic of a step, with the function's parameters and `extra_parameters`.

    `emit_body` emits its instructions and returns the values of its result.
    """

    def step(typing_context: Any, *kinds: Any) -> Any:
        result_type = _result_type(function, kinds[: len(kinds) - len(extra_parameters)])

        def codegen(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            graph = StepGraph()
            arguments = [
                _trace_argument(context, builder, graph, kind, value)
                for kind, value in zip(sig.args, values, strict=True)
            ]
            results = emit_body(builder, graph, sig.return_type, arguments)
            return _pack_result(context, builder, sig.return_type, iter(results))

        return result_type(*kinds), codegen

    step.__qualname__ = function.__qualname__
    names = ["typing_context", *inspect.signature(function).parameters, *extra_parameters]
    return intrinsic(_set_signature(step, function.__name__, names))


def _set_signature(function: Callable[..., Any], name: str, parameters: Sequence[str]) -> Any:
    """Set the function's name and parameters, for which numba asks; return the function."""
    function.__name__ = name
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [inspect.Parameter(parameter, either) for parameter in parameters]
    )
    vars(function)["__signature__"] = signature
    return function


def _trace_argument(context: Any, builder: Any, graph: StepGraph, kind: Any, value: Any) -> Any:
    if _is_tuple(kind):
        return tuple(
            _trace_argument(context, builder, graph, item, builder.extract_value(value, k))
            for k, item in enumerate(kind)
        )
    if kind == simd.rows:
        return _ArrayElements(graph, value, vectors=True)
    if isinstance(kind, types.Array):
        data = simd.array_field(context, builder, kind, value, "data")
        return _ArrayElements(graph, data, vectors=False)
    return Traced(graph, graph.add_instruction(value))


def _flatten_result(graph: StepGraph, kind: Any, result: Any) -> list[GraphValue]:
    """Return the values of a result of this type, tuples one part after the other."""
    if _is_tuple(kind):
        parts = zip(kind, result, strict=True)
        return [value for item, part in parts for value in _flatten_result(graph, item, part)]
    if kind == types.none:
        return []
    value = to_value(graph, result)
    return [graph.to_vector(value) if kind == simd.vector else value]


def _pack_result(context: Any, builder: Any, kind: Any, values: Iterator[GraphValue]) -> Any:
    if _is_tuple(kind):
        return context.make_tuple(
            builder, kind, [_pack_result(context, builder, item, values) for item in kind]
        )
    if kind == types.none:
        return context.get_dummy_value()
    return next(values).instruction


def _result_type(function: Callable[..., Any], kinds: Sequence[Any]) -> Any:
    """Return the step's result type for arguments of these types, by running the step once."""
    graph = StepGraph()
    result = function(*(_make_stand_in(graph, kind) for kind in kinds))
    return _infer_type(result, any(_holds_vectors(kind) for kind in kinds))


def _make_stand_in(graph: StepGraph, kind: Any) -> Any:
    if _is_tuple(kind):
        return tuple(_make_stand_in(graph, item) for item in kind)
    if kind == simd.rows or (isinstance(kind, types.Array) and kind.dtype == types.float64):
        return _ArrayElements(graph, None, vectors=kind == simd.rows)
    if kind == simd.vector:
        return Traced(graph, graph.add(step_graph.VECTOR, varies=True))
    if kind == types.float64:
        return Traced(graph, graph.add(DOUBLE))
    raise TypingError(f"a step function takes floats, not {kind}")


def _is_tuple(kind: Any) -> bool:
    return isinstance(kind, types.BaseTuple)


def _holds_vectors(kind: Any) -> bool:
    if _is_tuple(kind):
        return any(_holds_vectors(item) for item in kind)
    return bool(kind in (simd.vector, simd.rows))


def _infer_type(result: Any, vectors: bool) -> Any:
    if result is None:
        return types.none
    if isinstance(result, tuple):
        return types.Tuple([_infer_type(part, vectors) for part in result])
    return simd.vector if vectors else types.float64


# Gradients

_Sides = tuple[tuple[GraphValue, bool], ...]
"""The sides of `where`s that a gradient came through, outermost first: the condition of each, and
whether it was the first side, which is taken where the condition holds."""


def derive_adjoint(
    step: Callable[..., Any],
    arguments: Sequence[str],
    w: str | None = None,
    parameters: int | None = None,
) -> Callable[..., Any]:
    """Return the gradient of a step with respect to `arguments` and to the values in w.

    Both are names of the step's arguments. The gradient takes the step's arguments, the gradients
    of its results and, if there is a w, rows to which it adds the gradients of w's values, of all
    or of the first `parameters`. It returns the gradient of the argument in `arguments`, a tuple
    of gradients if there are several, or None if there is none.
    """
    names = list(inspect.signature(step).parameters)

    def gradient(*values: Any) -> Any:
        inputs = dict(zip(names, values, strict=False))  # the gradients of results follow
        differentiated = [inputs[name] for name in arguments]
        results = step(*inputs.values())
        parameters_by_index = _values_by_index(inputs[w], parameters) if w else {}
        bars = _derive_gradients(
            results,
            values[len(names)],
            [*parameters_by_index.values(), *_flatten(differentiated)],
        )
        for k, x in parameters_by_index.items():
            if x.value in bars:
                w_bar = values[-1]
                w_bar[k] += bars[x.value]
        gradients = tuple(_replace_by_gradients(x, bars) for x in differentiated)
        if not gradients:
            return None
        return gradients if len(gradients) > 1 else gradients[0]

    name = f"{step.__name__}_adjoint"
    gradient.__qualname__ = name
    return _set_signature(gradient, name, [*names, "bar", *(["w_bar"] if w else [])])


def _values_by_index(w: Any, count: int | None) -> dict[int, Traced]:
    """Return a tuple's values, or those of an array that the step reads, by index below `count`."""
    values = dict(enumerate(w)) if isinstance(w, tuple) else w.loaded_values()
    return {k: x for k, x in values.items() if count is None or k < count}


def _flatten(x: Any) -> Iterator[Any]:
    if isinstance(x, tuple | list):
        for part in x:
            yield from _flatten(part)
    else:
        yield x


def _replace_by_gradients(x: Any, bars: Mapping[GraphValue, Any]) -> Any:
    """Return an argument with gradients in place of its values."""
    if isinstance(x, tuple):
        return tuple(_replace_by_gradients(part, bars) for part in x)
    return bars.get(x.value, 0.0)


def _derive_gradients(
    results: Any, bars: Any, arguments: Sequence[Traced]
) -> dict[GraphValue, Any]:
    """Return the gradient with respect to each value in `arguments` that a result depends on.

    `bars` are the gradients of the results.
    """
    ends = [
        (result.value, bar)
        for result, bar in zip(_flatten(results), _flatten(bars), strict=True)
        if isinstance(result, Traced)  # not a constant
    ]
    sums = _GradientSums({x.value for x in arguments})
    values = find_unemitted([value for value, _ in ends])
    for value in values:
        if any(operand in sums.active for operand in value.operands):
            sums.active.add(value)
    for value, bar in ends:
        sums.add(value, bar)
    for value in reversed(values):
        if value in sums and value.operands:
            _propagate_back(sums, value)
    return {x.value: sums.total(x.value) for x in arguments if x.value in sums}


class _GradientSums:
    """Partial sums of gradients, separate for the sides of `where`s that they came through."""

    def __init__(self, active: set[GraphValue]) -> None:
        self.active = active  # the values whose gradients are wanted, and all that depend on them
        self._sums: dict[GraphValue, dict[_Sides, Any]] = {}

    def __contains__(self, value: GraphValue) -> bool:
        return value in self._sums

    def add(self, value: GraphValue, term: Any, sides: _Sides = ()) -> None:
        if value in self.active:
            sums = self._sums.setdefault(value, {})
            sums[sides] = sums[sides] + term if sides in sums else term

    def common_sides(self, value: GraphValue) -> _Sides:
        """Return the sides that all terms came through."""
        sides, *others = self._sums[value]
        while any(other[: len(sides)] != sides for other in others):
            sides = sides[:-1]
        return sides

    def total(self, value: GraphValue, within: _Sides = ()) -> Any:
        """Return the sum of all terms, each 0 where another side than its own is taken.

        The sides `within`, which all terms came through, are left to the caller.
        """
        terms = []
        for sides, term in self._sums[value].items():
            for condition, first in reversed(sides[len(within) :]):
                chosen = Traced(term.graph, condition)
                term = where(chosen, term, 0.0) if first else where(chosen, 0.0, term)
            terms.append(term)
        return functools.reduce(operator.add, terms)


def _propagate_back(sums: _GradientSums, value: GraphValue) -> None:
    """Add to the gradients of a value's operands what its own gradient contributes."""
    sides = sums.common_sides(value)
    bar = sums.total(value, sides)
    y, *xs = (Traced(bar.graph, node) for node in (value, *value.operands))

    def give(*terms: Any) -> None:
        for operand, term in zip(value.operands, terms, strict=True):
            sums.add(operand, term, sides)

    match OPERATIONS[value.make]:
        case "fadd":
            give(bar, bar)
        case "fsub":
            give(bar, -bar)
        case "fmul":
            give(bar * xs[1], bar * xs[0])
        case "fdiv":
            over = 1.0 / xs[1]  # computed once for all quotients with this divisor
            give(bar * over, -(bar * over * xs[0]) * over)
        case "negative":
            give(-bar)
        case "as_vector":
            give(bar)
        case "exp":
            give(bar * y)
        case "log":
            give(bar * (1.0 / xs[0]))
        case "first_lane":
            # A number's exp or log is computed as that of a vector, `as_vector` of the number.
            (vector,) = value.operands
            x = Traced(bar.graph, vector.operands[0].operands[0])
            slope = y if OPERATIONS[vector.make] == "exp" else 1.0 / x
            sums.add(x.value, bar * slope, sides)
        case "select":
            condition, a, b = value.operands
            sums.add(a, bar, (*sides, (condition, True)))
            sums.add(b, bar, (*sides, (condition, False)))
        case "minimum" | "maximum" as choice:
            # The first operand is the result where small < large.
            small, large = xs if choice == "minimum" else reversed(xs)
            first = where(small < large, bar, where(large < small, 0.0, 0.5 * bar))
            give(first, bar - first)
        case "clamp":
            x, low, high = xs
            give(
                where(x < low, 0.0, where(x > high, 0.0, bar)),
                where(x < low, bar, 0.0),
                where(x < low, 0.0, where(x > high, bar, 0.0)),
            )
