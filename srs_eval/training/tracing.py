"""Steps as instructions: a plain Python function, run once on values that note what is done.

A step (see `recurrent`) is arithmetic without branches. Called with `Traced` values, which
stand for numbers that are known only when the kernel runs, every operation becomes a value of a
graph (`step_graph`), which appends its instructions to the kernel in the making. numba sees the
whole step as one intrinsic and infers no types inside, which used to be half of the time that
compiling took. numpy hands its functions over to such values (`__array_ufunc__`,
`__array_function__`), so the operations of `elementwise` are written once. What is computed
twice in a step becomes one instruction, and what both a step and its gradient (`reverse_mode`)
need is computed by the step alone (`taped`).

Traced are floats, vectors of LANES floats and conditions on them. Tuples stay tuples; rows of
vectors and arrays are read and written element by element, at literal places. A step that is
given vectors returns vectors, even where a result depends on none of them.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from srs_eval.training import simd, step_graph
from srs_eval.training.step_graph import DOUBLE, SLOW, Graph, Store, Value, as_vector, emit, unknown


def _arithmetic(instruction: str, flags: Sequence[str]) -> Any:
    def make(builder: Any, a: Any, b: Any) -> Any:
        return getattr(builder, instruction)(a, b, flags=flags)

    return make


def _comparison(sign: str) -> Any:
    def make(builder: Any, a: Any, b: Any) -> Any:
        return builder.fcmp_ordered(sign, a, b)

    return make


_INSTRUCTIONS = ("fadd", "fsub", "fmul", "fdiv")
_OF_NUMBERS = {name: _arithmetic(name, ()) for name in _INSTRUCTIONS}
_OF_VECTORS = {name: _arithmetic(name, step_graph.FUSED) for name in _INSTRUCTIONS}
_COMPARISONS = {sign: _comparison(sign) for sign in ("<", "<=", ">", ">=", "==")}


def _negative(builder: Any, x: Any) -> Any:
    return builder.fneg(x)


def _select(builder: Any, condition: Any, a: Any, b: Any) -> Any:
    return builder.select(condition, a, b)


def _minimum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", b, a), b, a)


def _maximum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), b, a)


def _clamp(builder: Any, x: Any, low: Any, high: Any) -> Any:
    held = builder.select(builder.fcmp_ordered(">", x, high), high, x)
    return builder.select(builder.fcmp_ordered("<", x, low), low, held)


def _first_lane(builder: Any, x: Any) -> Any:
    return builder.extract_element(x, ir.IntType(32)(0))


OPERATIONS = {
    **{make: name for makes in (_OF_NUMBERS, _OF_VECTORS) for name, make in makes.items()},
    step_graph.emit_exp: "exp",
    step_graph.emit_log: "log",
    as_vector: "as_vector",
    _first_lane: "first_lane",
    _negative: "negative",
    _select: "select",
    _minimum: "minimum",
    _maximum: "maximum",
    _clamp: "clamp",
}
"""What makes a value that changes smoothly with its operands, and its name (`reverse_mode`)."""


def _value(graph: Graph, x: Any) -> Value:
    return x.value if isinstance(x, Traced) else graph.constant(x)


def _operator(instruction: str, swapped: bool = False) -> Any:
    def method(self: Traced, other: Any) -> Traced:
        x, y, vectors = self._operands(*((other, self) if swapped else (self, other)))
        make = (_OF_VECTORS if vectors else _OF_NUMBERS)[instruction]
        return Traced(self.graph, self.graph.once(x.type, make, x, y))

    return method


def _compared(sign: str) -> Any:
    def method(self: Traced, other: Any) -> Traced:
        x, y, vectors = self._operands(self, other)
        kind = step_graph.BITS if vectors else ir.IntType(1)
        return Traced(self.graph, self.graph.once(kind, _COMPARISONS[sign], x, y))

    return method


class Traced:
    """A number, a vector or a condition in the making."""

    __slots__ = ("graph", "value")

    def __init__(self, graph: Graph, value: Value) -> None:
        self.graph = graph
        self.value = value

    def _operands(self, a: Any, b: Any) -> tuple[Value, Value, bool]:
        x, y = _value(self.graph, a), _value(self.graph, b)
        vectors = step_graph.VECTOR in (x.type, y.type)
        if vectors:
            x, y = self.graph.vector(x), self.graph.vector(y)
        return x, y, vectors

    __add__, __radd__ = _operator("fadd"), _operator("fadd", swapped=True)
    __sub__, __rsub__ = _operator("fsub"), _operator("fsub", swapped=True)
    __mul__, __rmul__ = _operator("fmul"), _operator("fmul", swapped=True)
    __truediv__, __rtruediv__ = _operator("fdiv"), _operator("fdiv", swapped=True)
    __lt__, __le__ = _compared("<"), _compared("<=")
    __gt__, __ge__ = _compared(">"), _compared(">=")
    __eq__ = _compared("==")

    def __neg__(self) -> Traced:
        return Traced(self.graph, self.graph.once(self.value.type, _negative, self.value))

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("a step has no branches; where(condition, a, b) chooses")

    def __float__(self) -> float:
        raise TypeError("a step computes with srs_eval.training.elementwise, not with math")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        if ufunc in (np.minimum, np.maximum):
            x, y, _ = self._operands(*inputs)
            choice = _minimum if ufunc is np.minimum else _maximum
            return Traced(self.graph, self.graph.once(x.type, choice, x, y))
        emit = {np.exp: step_graph.emit_exp, np.log: step_graph.emit_log}.get(ufunc)
        if emit is None:
            return NotImplemented
        result = self.graph.once(step_graph.VECTOR, emit, self.graph.vector(self.value))
        if self.value.type != step_graph.VECTOR:
            # One lane of the same polynomial, so that numbers agree with vectors.
            result = self.graph.once(DOUBLE, _first_lane, result)
        return Traced(self.graph, result)

    def __array_function__(self, function: Any, kinds: Any, inputs: Any, options: Any) -> Any:
        if options or function not in (np.where, np.clip):
            return NotImplemented
        values = [_value(self.graph, x) for x in inputs]
        if any(value.type in (step_graph.BITS, step_graph.VECTOR) for value in values):
            first = 1 if function is np.where else 0  # a condition stays what it is
            values[first:] = [self.graph.vector(value) for value in values[first:]]
        make = _select if function is np.where else _clamp
        return Traced(self.graph, self.graph.once(values[-1].type, make, *values))


class _Elements:
    """The vectors or the numbers of an array, in memory. Arrays must not overlap."""

    def __init__(self, graph: Graph, data: Any, vectors: bool) -> None:
        self.graph = graph
        self.data = data
        self.vectors = vectors
        self._read: dict[int, Value] = {}
        self._now: dict[int, Value] = {}

    def _at(self, builder: Any, k: int) -> Any:
        index = ir.IntType(64)(k * simd.LANES if self.vectors else k)
        at = builder.gep(self.data, [index])
        return builder.bitcast(at, ir.PointerType(step_graph.VECTOR)) if self.vectors else at

    def load(self, builder: Any, *, k: int) -> Any:
        value = builder.load(self._at(builder, k))
        value.align = 8
        return value

    def _store(self, builder: Any, value: Any, *, k: int) -> None:
        builder.store(value, self._at(builder, k)).align = 8

    def __getitem__(self, k: int) -> Traced:
        if k not in self._now:
            kind = step_graph.VECTOR if self.vectors else DOUBLE
            load = functools.partial(self.load, k=k)
            self._now[k] = self._read[k] = self.graph.new(kind, load, varies=self.vectors)
        return Traced(self.graph, self._now[k])

    def __setitem__(self, k: int, new: Any) -> None:
        value = _value(self.graph, new)
        self._now[k] = self.graph.vector(value) if self.vectors else value

    def read(self) -> dict[int, Traced]:
        """What was read, by place."""
        return {k: Traced(self.graph, value) for k, value in self._read.items()}

    def stores(self) -> list[Store]:
        """What has changed."""
        return [
            Store(value, functools.partial(self._store, k=k), self._read.get(k))
            for k, value in self._now.items()
            if value is not self._read.get(k)
        ]


def traced(function: Callable[..., Any]) -> Any:
    """The step for use in compiled code, inlined there. Its arguments are floats, vectors,
    arrays of floats, rows of vectors and tuples of these.
    """

    def emitted(builder: Any, graph: Graph, kind: Any, given: Sequence[Any]) -> list[Value]:
        found = _values_of(graph, kind, function(*given))
        emit(builder, found, _stores(given))
        return found

    return _intrinsic(function, (), emitted)


def taped(step: Callable[..., Any], adjoint: Callable[..., Any]) -> tuple[Any, Any]:
    """A step and its gradient (`reverse_mode.adjoint`) as `traced` makes them, with one more
    argument, rows of vectors: a tape, on which the step leaves what took long and the other needs.
    """

    def emit_step(builder: Any, graph: Graph, kind: Any, given: Sequence[Any]) -> list[Value]:
        *inputs, tape = given
        found, _, _, shared = _both(graph, step, adjoint, inputs)
        for k, value in enumerate(shared):
            tape[k] = Traced(graph, value)
        emit(builder, found, tape.stores())
        return found

    def emit_adjoint(builder: Any, graph: Graph, kind: Any, given: Sequence[Any]) -> list[Value]:
        *inputs, bar, w_bar, tape = given
        _, found, stores, shared = _both(graph, step, adjoint, inputs, (bar, w_bar))
        for k, value in enumerate(shared):
            value.make, value.operands = functools.partial(tape.load, k=k), ()
        emit(builder, found, stores)
        return found

    return _intrinsic(step, ("tape",), emit_step), _intrinsic(adjoint, ("tape",), emit_adjoint)


def tape_length(step: Callable[..., Any], adjoint: Callable[..., Any], kinds: Sequence[Any]) -> int:
    """Vectors on the tape of a step; kinds of arguments: VECTOR, `vectors`, `numbers`."""
    graph = Graph()
    return len(_both(graph, step, adjoint, [_stand_in(graph, kind) for kind in kinds])[3])


VECTOR = simd.vector


def vectors(count: int) -> Any:
    """A tuple of vectors."""
    return types.UniTuple(simd.vector, count)


def numbers(count: int) -> Any:
    """A tuple of floats."""
    return types.UniTuple(types.float64, count)


def _both(
    graph: Graph,
    step: Callable[..., Any],
    adjoint: Callable[..., Any],
    inputs: Sequence[Any],
    gradients: tuple[Any, _Elements] | None = None,
) -> tuple[list[Value], list[Value], list[Store], list[Value]]:
    """What the step returns, what its gradient returns and stores, and what goes on the tape."""
    result = step(*inputs)
    if gradients is None:
        kind = _type_of(result, vectors=True)
        gradients = _stand_in(graph, kind), _Elements(graph, None, vectors=True)
    found = _vectors(graph, result)
    back = _vectors(graph, adjoint(*inputs, *gradients))
    stores = _stores(gradients)
    slow = _worth_keeping(unknown(found))
    needed = unknown([*back, *(value for value, _, _ in stores)], slow)
    return found, back, stores, [value for value in needed if value.number in slow]


def _worth_keeping(values: Sequence[Value]) -> set[int]:
    """Numbers of those of a step's values, in order, that its gradient should not compute again:
    exp, log, and quotients that wait for these. Others are as soon divided as fetched.
    """
    slow: set[int] = set()
    late: set[int] = set()  # what waits for exp or log
    for value in values:
        waits = any(operand.number in late for operand in value.operands)
        is_slow = value.varies and value.make in SLOW
        if is_slow or (waits and value.make is _OF_VECTORS["fdiv"]):
            slow.add(value.number)
        if is_slow or waits:
            late.add(value.number)
    return slow


def _vectors(graph: Graph, result: Any) -> list[Value]:
    """All parts of a result."""
    if isinstance(result, tuple):
        return [value for part in result for value in _vectors(graph, part)]
    return [] if result is None else [graph.vector(_value(graph, result))]


def _stores(given: Sequence[Any]) -> list[Store]:
    arrays = [value for value in given if isinstance(value, _Elements)]
    return [store for elements in arrays for store in elements.stores()]


def _intrinsic(function: Callable[..., Any], more: Sequence[str], emit: Any) -> Any:
    """What numba calls for a step with the arguments of a function, and `more`."""

    def step(typing_context: Any, *kinds: Any) -> Any:
        result = _result_type(function, kinds[: len(kinds) - len(more)])

        def codegen(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            graph = Graph()
            given = [
                _given(context, builder, graph, kind, value)
                for kind, value in zip(sig.args, values, strict=True)
            ]
            found = emit(builder, graph, sig.return_type, given)
            return _packed(context, builder, sig.return_type, iter(found))

        return result(*kinds), codegen

    names = ["typing_context", *inspect.signature(function).parameters, *more]
    step.__name__, step.__qualname__ = function.__name__, function.__qualname__
    step.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # numba asks for it
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return intrinsic(step)


def _given(context: Any, builder: Any, graph: Graph, kind: Any, value: Any) -> Any:
    if _is_tuple(kind):
        return tuple(
            _given(context, builder, graph, item, builder.extract_value(value, k))
            for k, item in enumerate(kind)
        )
    if kind == simd.rows:
        return _Elements(graph, value, vectors=True)
    if isinstance(kind, types.Array):
        data = simd.array_field(context, builder, kind, value, "data")
        return _Elements(graph, data, vectors=False)
    return Traced(graph, graph.given(value))


def _values_of(graph: Graph, kind: Any, result: Any) -> list[Value]:
    """The values of a result of this type, tuples one part after the other."""
    if _is_tuple(kind):
        parts = zip(kind, result, strict=True)
        return [value for item, part in parts for value in _values_of(graph, item, part)]
    if kind == types.none:
        return []
    value = _value(graph, result)
    return [graph.vector(value) if kind == simd.vector else value]


def _packed(context: Any, builder: Any, kind: Any, values: Iterator[Value]) -> Any:
    if _is_tuple(kind):
        return context.make_tuple(
            builder, kind, [_packed(context, builder, item, values) for item in kind]
        )
    if kind == types.none:
        return context.get_dummy_value()
    return next(values).instruction


def _result_type(function: Callable[..., Any], kinds: Sequence[Any]) -> Any:
    """What the step returns for arguments of these types: it is run once for that alone."""
    graph = Graph()
    result = function(*(_stand_in(graph, kind) for kind in kinds))
    return _type_of(result, any(_holds_vectors(kind) for kind in kinds))


def _stand_in(graph: Graph, kind: Any) -> Any:
    if _is_tuple(kind):
        return tuple(_stand_in(graph, item) for item in kind)
    if kind == simd.rows or (isinstance(kind, types.Array) and kind.dtype == types.float64):
        return _Elements(graph, None, vectors=kind == simd.rows)
    if kind == simd.vector:
        return Traced(graph, graph.new(step_graph.VECTOR, varies=True))
    if kind == types.float64:
        return Traced(graph, graph.new(DOUBLE))
    raise TypingError(f"a step takes floats, not {kind}")


def _is_tuple(kind: Any) -> bool:
    return isinstance(kind, types.BaseTuple)


def _holds_vectors(kind: Any) -> bool:
    if _is_tuple(kind):
        return any(_holds_vectors(item) for item in kind)
    return bool(kind in (simd.vector, simd.rows))


def _type_of(result: Any, vectors: bool) -> Any:
    if result is None:
        return types.none
    if isinstance(result, tuple):
        return types.Tuple([_type_of(part, vectors) for part in result])
    return simd.vector if vectors else types.float64
