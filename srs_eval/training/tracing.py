"""Steps as instructions, and their gradients, which are derived by reverse mode.

numba sees a whole step (`step_graph`) as one intrinsic and infers no types inside, which used to be
half of the time that compiling took. What both a step and its gradient need is computed by the step
alone (`taped`).

Traced are floats, vectors of LANES floats and conditions on them. Tuples stay tuples; rows of
vectors and arrays are read and written element by element, at literal places. A step that is
given vectors returns vectors, even where a result depends on none of them.

`adjoint` makes the gradient of a step: it runs the step, so that all of it stands in the graph, and
goes back through the graph from the results to the arguments, each operation adding to the
gradients of its operands. What both need stands in the graph once. At a kink the gradient is
torch's: where the two are equal, `minimum` and `maximum` give half of it to each; `clamp` gives it
to x at a bound, too; `where` gives it to the side that is taken. What would go through the other
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
    OF_VECTORS,
    OPERATIONS,
    SLOW,
    Graph,
    Store,
    Traced,
    Value,
    emit,
    unknown,
    value_of,
)


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
        value = value_of(self.graph, new)
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
    """A step and its gradient (`tracing.adjoint`) as `traced` makes them, with one more
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


def tape_length(
    step: Callable[..., Any], adjoint: Callable[..., Any], arguments: Sequence[int], values: int
) -> int:
    """Vectors on the tape of a step, whose `arguments` are tuples of so many vectors, 0 for one
    vector that is in none, and so many values."""
    graph = Graph()
    kinds = [types.UniTuple(simd.vector, count) if count else simd.vector for count in arguments]
    kinds.append(types.UniTuple(types.float64, values))
    return len(_both(graph, step, adjoint, [_stand_in(graph, kind) for kind in kinds])[3])


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
        if is_slow or (waits and value.make is OF_VECTORS["fdiv"]):
            slow.add(value.number)
        if is_slow or waits:
            late.add(value.number)
    return slow


def _vectors(graph: Graph, result: Any) -> list[Value]:
    """All parts of a result."""
    if isinstance(result, tuple):
        return [value for part in result for value in _vectors(graph, part)]
    return [] if result is None else [graph.vector(value_of(graph, result))]


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

    step.__qualname__ = function.__qualname__
    names = ["typing_context", *inspect.signature(function).parameters, *more]
    return intrinsic(_named(step, function.__name__, names))


def _named(function: Callable[..., Any], name: str, parameters: Sequence[str]) -> Any:
    """The function with these parameters: numba asks for them."""
    function.__name__ = name
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(each, kind) for each in parameters])
    vars(function)["__signature__"] = signature
    return function


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
    value = value_of(graph, result)
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


# Gradients

_Sides = tuple[tuple[Value, bool], ...]  # of `where`s, from the outermost: condition, first side?


def adjoint(
    step: Callable[..., Any], by: Sequence[str], w: str | None = None, parameters: int | None = None
) -> Callable[..., Any]:
    """The gradient of a step by those of its arguments that `by` names, and by the values in w.

    It takes the step's arguments, the gradients of its results and, if w names an argument,
    rows to which the gradients of w's values are added, of all or of the first `parameters`.
    It returns the gradient of the one argument in `by`, or a tuple of several.
    """
    names = list(inspect.signature(step).parameters)

    def gradient(*given: Any) -> Any:
        inputs = dict(zip(names, given, strict=False))
        others = [inputs[name] for name in by]
        results = step(*inputs.values())
        values = _values_by_place(inputs[w], parameters) if w else {}
        bars = _gradients(results, given[len(names)], [*values.values(), *_parts(others)])
        for k, x in values.items():
            if x.value in bars:
                given[-1][k] += bars[x.value]
        found = tuple(_replaced(x, bars) for x in others)
        return found if len(found) > 1 else found[0] if found else None

    name = gradient.__qualname__ = f"{step.__name__}_adjoint"
    return _named(gradient, name, [*names, "bar", *(["w_bar"] if w else [])])


def _values_by_place(w: Any, count: int | None) -> dict[int, Traced]:
    """Those of a tuple by place, or of an array as far as the step has read it."""
    found = dict(enumerate(w)) if isinstance(w, tuple) else w.read()
    return {k: x for k, x in found.items() if count is None or k < count}


def _parts(x: Any) -> Iterator[Any]:
    if isinstance(x, tuple | list):
        for part in x:
            yield from _parts(part)
    else:
        yield x


def _replaced(x: Any, bars: Mapping[Value, Any]) -> Any:
    """An argument with gradients in the place of its values."""
    if isinstance(x, tuple):
        return tuple(_replaced(part, bars) for part in x)
    return bars.get(x.value, 0.0)


def _gradients(results: Any, bars: Any, by: Sequence[Traced]) -> dict[Value, Any]:
    """By each of these values that a result depends on, from the gradients of the results."""
    ends = [
        (result.value, bar)
        for result, bar in zip(_parts(results), _parts(bars), strict=True)
        if isinstance(result, Traced)  # not a constant
    ]
    sums = _Sums({x.value for x in by})
    values = unknown([value for value, _ in ends])
    for value in values:
        if any(operand in sums.active for operand in value.operands):
            sums.active.add(value)
    for value, bar in ends:
        sums.add(value, bar)
    for value in reversed(values):
        if value in sums and value.operands:
            _back(sums, value)
    return {x.value: sums.whole(x.value) for x in by if x.value in sums}


class _Sums:
    """Gradients in the making, apart by the sides of `where`s that they came through."""

    def __init__(self, active: set[Value]) -> None:
        self.active = active  # what depends on the values that gradients are taken by
        self._sums: dict[Value, dict[_Sides, Any]] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._sums

    def add(self, value: Value, term: Any, sides: _Sides = ()) -> None:
        if value in self.active:
            sums = self._sums.setdefault(value, {})
            sums[sides] = sums[sides] + term if sides in sums else term

    def within(self, value: Value) -> _Sides:
        """The sides that all came through."""
        sides, *others = self._sums[value]
        while any(other[: len(sides)] != sides for other in others):
            sides = sides[:-1]
        return sides

    def whole(self, value: Value, within: _Sides = ()) -> Any:
        """All together, each 0 where another side than its own is taken."""
        found = []
        for sides, term in self._sums[value].items():
            for condition, first in reversed(sides[len(within) :]):
                chosen = Traced(term.graph, condition)
                term = where(chosen, term, 0.0) if first else where(chosen, 0.0, term)
            found.append(term)
        return functools.reduce(operator.add, found)


def _back(sums: _Sums, value: Value) -> None:
    """Gives the operands of a value their parts of its gradient."""
    sides = sums.within(value)
    bar = sums.whole(value, sides)
    y, *xs = (Traced(bar.graph, each) for each in (value, *value.operands))

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
            over = 1.0 / xs[1]  # once for all that is divided by the same
            give(bar * over, -(bar * over * xs[0]) * over)
        case "negative":
            give(-bar)
        case "as_vector":
            give(bar)
        case "exp":
            give(bar * y)
        case "log":
            give(bar * (1.0 / xs[0]))
        case "first_lane":  # of the exp or log of a number
            (vector,) = value.operands
            x = Traced(bar.graph, vector.operands[0].operands[0])
            slope = y if OPERATIONS[vector.make] == "exp" else 1.0 / x
            sums.add(x.value, bar * slope, sides)
        case "select":
            condition, a, b = value.operands
            sums.add(a, bar, (*sides, (condition, True)))
            sums.add(b, bar, (*sides, (condition, False)))
        case "minimum" | "maximum" as choice:
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
