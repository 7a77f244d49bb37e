"""Steps as instructions: a plain Python function, run once on values that note what is done.

A step (see `recurrent`) is arithmetic without branches. Called with `Traced` values, which
stand for numbers that are known only when the kernel runs, every operation appends an
instruction to the kernel in the making. numba sees the whole step as one intrinsic and infers
no types inside, which used to be half of the time that compiling took. numpy hands its functions
over to such values (`__array_ufunc__`, `__array_function__`), so the operations of
`elementwise` are written once. What is computed twice in a step becomes one instruction.

Traced are floats, vectors of LANES floats and conditions on them. Tuples stay tuples; rows of
vectors and arrays are read and written element by element, at literal places. A step that is
given vectors returns vectors, even where a result depends on none of them.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from srs_eval.fitting import simd

_DOUBLE = ir.DoubleType()
_FUSED = ("contract",)  # of vectors, as in simd


class _Emitter:
    """Appends instructions without side effects, each once for equal operands."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self._made: dict[tuple[Any, ...], Any] = {}

    def once(self, make: Any, *operands: Any) -> Any:
        """`make(*operands)`; `make` is named, so that equal ones are known."""
        key = (make, *map(id, operands))
        if key not in self._made:
            # The operands are kept with it: an object's id is its own only while it lives.
            self._made[key] = make(self.builder, *operands), operands
        return self._made[key][0]

    def value(self, x: Any) -> Any:
        if isinstance(x, Traced):
            return x.value
        key = (float, float(x), str(x)[0])  # -0.0 is not 0.0
        if key not in self._made:
            self._made[key] = ir.Constant(_DOUBLE, float(x)), ()
        return self._made[key][0]

    def vector(self, value: Any) -> Any:
        return self.once(simd.as_vector, value)


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
_OF_VECTORS = {name: _arithmetic(name, _FUSED) for name in _INSTRUCTIONS}
_COMPARISONS = {sign: _comparison(sign) for sign in ("<", "<=", ">", ">=", "==")}


def _negative(builder: Any, x: Any) -> Any:
    return builder.fneg(x)


def _select(builder: Any, condition: Any, a: Any, b: Any) -> Any:
    return builder.select(condition, a, b)


def _first_lane(builder: Any, x: Any) -> Any:
    return builder.extract_element(x, ir.IntType(32)(0))


class Traced:
    """A number, a vector or a condition in the making."""

    __slots__ = ("emitter", "value")

    def __init__(self, emitter: _Emitter, value: Any) -> None:
        self.emitter = emitter
        self.value = value

    def _operands(self, a: Any, b: Any) -> tuple[Any, Any, bool]:
        x, y = self.emitter.value(a), self.emitter.value(b)
        vectors = simd.VECTOR in (x.type, y.type)
        if vectors:
            x, y = self.emitter.vector(x), self.emitter.vector(y)
        return x, y, vectors

    def _arithmetic(self, instruction: str, a: Any, b: Any) -> Traced:
        x, y, vectors = self._operands(a, b)
        make = (_OF_VECTORS if vectors else _OF_NUMBERS)[instruction]
        return Traced(self.emitter, self.emitter.once(make, x, y))

    def _compared(self, sign: str, other: Any) -> Traced:
        x, y, _ = self._operands(self, other)
        return Traced(self.emitter, self.emitter.once(_COMPARISONS[sign], x, y))

    def __add__(self, other: Any) -> Traced:
        return self._arithmetic("fadd", self, other)

    def __radd__(self, other: Any) -> Traced:
        return self._arithmetic("fadd", other, self)

    def __sub__(self, other: Any) -> Traced:
        return self._arithmetic("fsub", self, other)

    def __rsub__(self, other: Any) -> Traced:
        return self._arithmetic("fsub", other, self)

    def __mul__(self, other: Any) -> Traced:
        return self._arithmetic("fmul", self, other)

    def __rmul__(self, other: Any) -> Traced:
        return self._arithmetic("fmul", other, self)

    def __truediv__(self, other: Any) -> Traced:
        return self._arithmetic("fdiv", self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return self._arithmetic("fdiv", other, self)

    def __neg__(self) -> Traced:
        return Traced(self.emitter, self.emitter.once(_negative, self.value))

    def __lt__(self, other: Any) -> Traced:
        return self._compared("<", other)

    def __le__(self, other: Any) -> Traced:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Traced:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> Traced:
        return self._compared(">=", other)

    def __eq__(self, other: Any) -> Traced:  # type: ignore[override]
        return self._compared("==", other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("a step has no branches; where(condition, a, b) chooses")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        emit = {np.exp: simd.emit_exp, np.log: simd.emit_log}.get(ufunc)
        if emit is None or method != "__call__" or options:
            return NotImplemented
        result = self.emitter.once(emit, self.emitter.vector(self.value))
        if self.value.type != simd.VECTOR:
            # One lane of the same polynomial, so that numbers agree with vectors.
            result = self.emitter.once(_first_lane, result)
        return Traced(self.emitter, result)

    def __array_function__(self, function: Any, kinds: Any, inputs: Any, options: Any) -> Any:
        if function is not np.where or options:
            return NotImplemented
        condition, a, b = inputs
        x, y = self.emitter.value(a), self.emitter.value(b)
        if condition.value.type == simd.BITS or simd.VECTOR in (x.type, y.type):
            x, y = self.emitter.vector(x), self.emitter.vector(y)
        return Traced(self.emitter, self.emitter.once(_select, condition.value, x, y))


class _Elements:
    """The vectors or the numbers of an array, in memory."""

    def __init__(self, emitter: _Emitter, data: Any, vectors: bool) -> None:
        self.emitter = emitter
        self.data = data
        self.vectors = vectors

    def _at(self, k: int) -> Any:
        builder = self.emitter.builder
        index = ir.IntType(64)(k * simd.LANES if self.vectors else k)
        at = builder.gep(self.data, [index])
        return builder.bitcast(at, ir.PointerType(simd.VECTOR)) if self.vectors else at

    def __getitem__(self, k: int) -> Traced:
        value = self.emitter.builder.load(self._at(k))
        value.align = 8
        return Traced(self.emitter, value)

    def __setitem__(self, k: int, new: Any) -> None:
        value = self.emitter.value(new)
        if self.vectors:
            value = self.emitter.vector(value)
        self.emitter.builder.store(value, self._at(k)).align = 8


def traced(function: FunctionType) -> Any:
    """The step for use in compiled code, inlined there. Its arguments are floats, vectors,
    arrays of floats, rows of vectors and tuples of these.
    """

    def step(typing_context: Any, *kinds: Any) -> Any:
        result = _result_type(function, kinds)

        def codegen(context: Any, builder: Any, sig: Any, values: Any) -> Any:
            emitter = _Emitter(builder)
            given = [
                _given(context, emitter, kind, value)
                for kind, value in zip(sig.args, values, strict=True)
            ]
            return _packed(context, emitter, sig.return_type, function(*given))

        return result(*kinds), codegen

    names = ["typing_context", *inspect.signature(function).parameters]
    step.__name__, step.__qualname__ = function.__name__, function.__qualname__
    step.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # numba asks for it
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return intrinsic(step)


def _given(context: Any, emitter: _Emitter, kind: Any, value: Any) -> Any:
    builder = emitter.builder
    if _is_tuple(kind):
        return tuple(
            _given(context, emitter, item, builder.extract_value(value, k))
            for k, item in enumerate(kind)
        )
    if kind == simd.rows:
        return _Elements(emitter, value, vectors=True)
    if isinstance(kind, types.Array):
        data = simd.array_field(context, builder, kind, value, "data")
        return _Elements(emitter, data, vectors=False)
    return Traced(emitter, value)


def _packed(context: Any, emitter: _Emitter, kind: Any, result: Any) -> Any:
    if _is_tuple(kind):
        values = [
            _packed(context, emitter, item, part) for item, part in zip(kind, result, strict=True)
        ]
        return context.make_tuple(emitter.builder, kind, values)
    if kind == types.none:
        return context.get_dummy_value()
    value = emitter.value(result)
    return emitter.vector(value) if kind == simd.vector else value


def _result_type(function: FunctionType, kinds: Sequence[Any]) -> Any:
    """What the step returns for arguments of these types: it is run once for that alone."""
    trial = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), ()), "trial")
    emitter = _Emitter(ir.IRBuilder(trial.append_basic_block()))
    result = function(*(_stand_in(emitter, kind) for kind in kinds))
    return _type_of(result, any(_holds_vectors(kind) for kind in kinds))


def _stand_in(emitter: _Emitter, kind: Any) -> Any:
    if _is_tuple(kind):
        return tuple(_stand_in(emitter, item) for item in kind)
    if kind == simd.rows or (isinstance(kind, types.Array) and kind.dtype == types.float64):
        data = ir.Constant(ir.PointerType(_DOUBLE), None)
        return _Elements(emitter, data, vectors=kind == simd.rows)
    if kind == simd.vector:
        return Traced(emitter, ir.Constant(simd.VECTOR, ir.Undefined))
    if kind == types.float64:
        return Traced(emitter, ir.Constant(_DOUBLE, ir.Undefined))
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
