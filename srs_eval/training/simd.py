"""Vectors of 8 float64 as numba values.

`<8 x double>` is a numba type of its own here: a step that is written for one node works on eight,
and its code consists of vector instructions from the start (`step_graph`).

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

from srs_eval.training.elementwise import LANES
from srs_eval.training.packing import field_schema
from srs_eval.training.step_graph import (
    BITS,
    COMPARISONS,
    INDEX_TYPE,
    VECTOR,
    VECTOR_OPERATIONS,
    as_vector,
    emit_exp,
    emit_log,
)

_intrinsic: Any = extending.intrinsic  # mypy cannot follow the signatures of its results


class _VectorType(types.Type):
    def __init__(self, name: str) -> None:
        super().__init__(name=f"srs_eval.{name}")


vector = _VectorType("float64x8")
_mask = _VectorType("bool8")
rows = _VectorType("rows_of_float64x8")
"""Rows of vectors in memory: `rows[k]` is a vector."""
_LLVM_TYPES = {vector: VECTOR, _mask: BITS, rows: ir.PointerType(ir.DoubleType())}


@register_model(_VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, _LLVM_TYPES[fe_type])


_OPERAND_TYPES = ((vector, vector), (vector, types.float64), (types.float64, vector))


def _register_operator(function: Any, result: Any, emit: Callable[[Any, Any, Any], Any]) -> None:
    """Register an operator on vectors and numbers; `emit(builder, a, b)` makes its instruction."""

    @infer_global(function)
    class Operator(ConcreteTemplate):  # numba finds it by the decorator
        cases = [signature(result, *operands) for operands in _OPERAND_TYPES]  # noqa: RUF012

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return emit(builder, *(as_vector(builder, value) for value in args))

    for operands in _OPERAND_TYPES:
        lower_builtin(function, *operands)(lower)


for _name, _instruction in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul")):
    _register_operator(getattr(operator, _name), vector, VECTOR_OPERATIONS[_instruction])
    _register_operator(getattr(operator, f"i{_name}"), vector, VECTOR_OPERATIONS[_instruction])
_register_operator(operator.truediv, vector, VECTOR_OPERATIONS["fdiv"])
for _name, _sign in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "==")):
    _register_operator(getattr(operator, _name), _mask, COMPARISONS[_sign])


@infer_global(operator.neg)
class _Negative(ConcreteTemplate):
    cases = [signature(vector, vector)]  # noqa: RUF012


@lower_builtin(operator.neg, vector)
def _lower_negative(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.fneg(args[0])


@infer_global(operator.getitem)
class _RowGet(ConcreteTemplate):
    cases = [signature(vector, rows, types.intp)]  # noqa: RUF012


@infer_global(operator.setitem)
class _RowSet(ConcreteTemplate):
    cases = [signature(types.none, rows, types.intp, vector)]  # noqa: RUF012


def _pointer(builder: Any, base: Any, index: Any) -> Any:
    at = builder.gep(base, [index])
    return builder.bitcast(at, ir.PointerType(VECTOR))


def _load(builder: Any, base: Any, index: Any) -> Any:
    value = builder.load(_pointer(builder, base, index))
    value.align = 8
    return value


def _store(builder: Any, value: Any, base: Any, index: Any) -> None:
    builder.store(value, _pointer(builder, base, index)).align = 8


@lower_builtin(operator.getitem, rows, types.intp)
def _lower_row_get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _load(builder, args[0], builder.mul(args[1], args[1].type(LANES)))


@lower_builtin(operator.setitem, rows, types.intp, vector)
def _lower_row_set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    _store(builder, args[2], args[0], builder.mul(args[1], args[1].type(LANES)))
    return context.get_dummy_value()


def array_field(context: Any, builder: Any, array_type: Any, value: Any, name: str) -> Any:
    """Return a field of an array's descriptor, such as "data"."""
    return context.data_model_manager[array_type].get(builder, value, name)


def _data_pointer(context: Any, builder: Any, array_type: Any, value: Any) -> Any:
    """Return the address of an array's elements; a pointer is that address already."""
    if isinstance(array_type, types.CPointer):
        return value
    return array_field(context, builder, array_type, value, "data")


@_intrinsic
def rows_of(typing_context, array):
    """Return the rows of a C-contiguous float64 array of shape (k, LANES)."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _data_pointer(context, builder, sig.args[0], args[0])

    return rows(array), codegen


@_intrinsic
def rows_from(typing_context, array, index):
    """Return the rows of vectors that begin at an index of a contiguous float64 array."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.gep(_data_pointer(context, builder, sig.args[0], args[0]), [args[1]])

    return rows(array, types.intp), codegen


@_intrinsic
def load(typing_context, array, index):
    """Return array[index : index + LANES] of a contiguous float64 array."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _load(builder, _data_pointer(context, builder, sig.args[0], args[0]), args[1])

    return vector(array, types.intp), codegen


@_intrinsic
def store(typing_context, array, index, value):
    """Set array[index : index + LANES] to value."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _store(builder, args[2], _data_pointer(context, builder, sig.args[0], args[0]), args[1])
        return context.get_dummy_value()

    return types.none(array, types.intp, vector), codegen


def _row_pointers(context: Any, builder: Any, kind: Any, value: Any, count: int) -> list[Any]:
    """Return pointers to the first rows of a C-contiguous matrix.

    The matrix is an array, or its address and number of columns.
    """
    if isinstance(kind, types.BaseTuple):
        data, columns = builder.extract_value(value, 0), builder.extract_value(value, 1)
    else:
        data = _data_pointer(context, builder, kind, value)
        columns = builder.extract_value(array_field(context, builder, kind, value, "shape"), 1)
    return [builder.gep(data, [builder.mul(columns, columns.type(k))]) for k in range(count)]


def _literal_value(value: Any) -> int:
    if not isinstance(value, types.IntegerLiteral):
        raise TypingError("the number of values must be a literal")
    return int(value.literal_value)


def _state_type(count: Any) -> Any:
    return types.UniTuple(vector, _literal_value(count))


@_intrinsic
def load_state(typing_context, states, index, count):
    """Return the vectors states[k, index : index + LANES] for k < count (a literal)."""
    result = _state_type(count)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row_pointers = _row_pointers(context, builder, sig.args[0], args[0], result.count)
        values = [_load(builder, row_pointer, args[1]) for row_pointer in row_pointers]
        return context.make_tuple(builder, result, values)

    return result(states, types.intp, count), codegen


@_intrinsic
def store_state(typing_context, states, index, state):
    """Set states[k, index : index + LANES] to state[k] for all k."""
    if not isinstance(state, types.UniTuple) or state.dtype != vector:
        raise TypingError("a step returns a tuple of vectors")

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row_pointers = _row_pointers(context, builder, sig.args[0], args[0], state.count)
        for k, row_pointer in enumerate(row_pointers):
            _store(builder, builder.extract_value(args[2], k), row_pointer, args[1])
        return context.get_dummy_value()

    return types.none(states, types.intp, state), codegen


def _lane_indices(context: Any, builder: Any, kind: Any, value: Any, index: Any) -> list[Any]:
    """Return the LANES 32-bit elements from `index` on, as 64-bit integers."""
    at = builder.gep(_data_pointer(context, builder, kind, value), [index])
    return [
        builder.zext(builder.load(builder.gep(at, [INDEX_TYPE(lane)])), ir.IntType(64))
        for lane in range(LANES)
    ]


@_intrinsic
def gather_state(typing_context, states, positions, index, count):
    """Return the vectors states[k, positions[index : index + LANES]] for k < count (a literal)."""
    result = _state_type(count)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row_pointers = _row_pointers(context, builder, sig.args[0], args[0], result.count)
        indices = _lane_indices(context, builder, sig.args[1], args[1], args[2])
        values = []
        for row_pointer in row_pointers:
            value = ir.Constant(VECTOR, ir.Undefined)
            for lane, element_index in enumerate(indices):
                element = builder.load(builder.gep(row_pointer, [element_index]))
                value = builder.insert_element(value, element, INDEX_TYPE(lane))
            values.append(value)
        return context.make_tuple(builder, result, values)

    return result(states, positions, types.intp, count), codegen


@_intrinsic
def scatter_add(typing_context, states, positions, index, state):
    """Add state[k][lane] to states[k, positions[index + lane]], lane after lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row_pointers = _row_pointers(context, builder, sig.args[0], args[0], state.count)
        indices = _lane_indices(context, builder, sig.args[1], args[1], args[2])
        for k, row_pointer in enumerate(row_pointers):
            value = builder.extract_value(args[3], k)
            for lane, element_index in enumerate(indices):
                at = builder.gep(row_pointer, [element_index])
                term = builder.extract_element(value, INDEX_TYPE(lane))
                builder.store(builder.fadd(builder.load(at), term), at)
        return context.get_dummy_value()

    return types.none(states, positions, types.intp, state), codegen


@_intrinsic
def set_zero(typing_context, states, width, count):
    """Set states[k, :width] to 0 for k < count (a literal)."""
    row_count = _literal_value(count)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        size = builder.mul(args[1], args[1].type(8))  # bytes
        for row_pointer in _row_pointers(context, builder, sig.args[0], args[0], row_count):
            cgutils.memset(builder, row_pointer, size, 0)
        return context.get_dummy_value()

    return types.none(states, types.intp, count), codegen


@_intrinsic
def unpack(typing_context, table, record):
    """Return the NamedTuple `record` of pointers and numbers in a table, see `packing`."""
    kinds = [
        types.CPointer(getattr(types, dtype.name)) if is_array else getattr(types, dtype.name)
        for _, is_array, dtype in field_schema(record.instance_class)
    ]
    result = types.NamedTuple(kinds, record.instance_class)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data_pointer(context, builder, sig.args[0], args[0])
        values = []
        for k, kind in enumerate(kinds):
            bits = builder.load(builder.gep(data, [INDEX_TYPE(k)]))
            convert = builder.inttoptr if isinstance(kind, types.CPointer) else builder.bitcast
            values.append(convert(bits, context.get_value_type(kind)))
        return context.make_tuple(builder, result, values)

    return result(table, record), codegen


def _elementary(x: Any, emit: Callable[[Any, Any], Any]) -> Any:
    """Return the signature and the code of exp or log."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if sig.args[0] == vector:
            return emit(builder, args[0])
        # One lane of the same polynomial, so that scalars agree with vectors.
        value = emit(builder, as_vector(builder, args[0]))
        return builder.extract_element(value, INDEX_TYPE(0))

    kind = vector if x == vector else types.float64
    return kind(kind), codegen


@_intrinsic
def exp(typing_context, x):
    """Return e^x, with x clipped to [-708, 709]."""
    return _elementary(x, emit_exp)


@_intrinsic
def log(typing_context, x):
    """Return the natural logarithm for normal numbers > 0; about -709 at 0."""
    return _elementary(x, emit_log)


@_intrinsic
def where(typing_context, condition, a, b):
    """Return a where the condition holds, else b, lane by lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(args[0], as_vector(builder, args[1]), as_vector(builder, args[2]))

    def scalar_codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(args[0], args[1], args[2])

    kinds = [vector if value == vector else types.float64 for value in (a, b)]
    if condition != _mask:
        return types.float64(types.boolean, types.float64, types.float64), scalar_codegen
    return vector(_mask, *kinds), codegen


@_intrinsic
def single(typing_context, x):
    """Return x rounded to single precision."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        rounded = builder.fptrunc(args[0], ir.VectorType(ir.FloatType(), LANES))
        return builder.fpext(rounded, VECTOR)

    return vector(vector), codegen


@_intrinsic
def total(typing_context, x):
    """Return the sum of the lanes, first to last."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = builder.extract_element(args[0], INDEX_TYPE(0))
        for lane in range(1, LANES):
            value = builder.fadd(value, builder.extract_element(args[0], INDEX_TYPE(lane)))
        return value

    return types.float64(vector), codegen


@_intrinsic
def broadcast(typing_context, x):
    """Return a vector with the number in every lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return as_vector(builder, args[0])

    return vector(types.float64), codegen


@_intrinsic
def as_tuple(typing_context, array, count):
    """Return the first `count` (a literal) elements of a float64 array as values.

    Values instead of memory let the compiler move computations that depend only on
    parameters out of the loops.
    """
    result = types.UniTuple(types.float64, _literal_value(count))

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = _data_pointer(context, builder, sig.args[0], args[0])
        values = [builder.load(builder.gep(data, [INDEX_TYPE(k)])) for k in range(result.count)]
        return context.make_tuple(builder, result, values)

    return result(array, count), codegen
