"""Vectors of 8 float64, or of 16 float32, as numba values.

`<8 x double>` is a numba type of its own here: a step that is written for one node works on eight,
and its code consists of vector instructions from the start (`step_graph`). `<16 x float>` is
another, for networks that are large enough to be slow in float64. Constants beside such vectors
are rounded to float32. For arrays of float32, `rows_of`, `rows_from`, `load`, `store` and
`broadcast` take and return these vectors.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
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
    SINGLE_BITS,
    SINGLE_VECTOR,
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
single_vector = _VectorType("float32x16")
_mask = _VectorType("bool8")
_single_mask = _VectorType("bool16")
rows = _VectorType("rows_of_float64x8")
"""Rows of vectors in memory: `rows[k]` is a vector."""
single_rows = _VectorType("rows_of_float32x16")
_LLVM_TYPES = {
    vector: VECTOR,
    single_vector: SINGLE_VECTOR,
    _mask: BITS,
    _single_mask: SINGLE_BITS,
    rows: ir.PointerType(ir.DoubleType()),
    single_rows: ir.PointerType(ir.FloatType()),
}
_MASKS = {vector: _mask, single_vector: _single_mask}
_ROWS = {vector: rows, single_vector: single_rows}
_NUMBERS = {vector: (types.float64,), single_vector: (types.float64, types.float32)}
"""The numbers that a vector can be combined with."""


def _vector_of(value: Any) -> Any:
    """Return the type of vectors of a number, or of the numbers in an array or behind a pointer."""
    return single_vector if getattr(value, "dtype", value) == types.float32 else vector


@register_model(_VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, _LLVM_TYPES[fe_type])


def _operand_types(kind: Any) -> list[tuple[Any, Any]]:
    """Return the pairs of operands that an operator on vectors of this type takes."""
    numbers = _NUMBERS[kind]
    return [(kind, kind), *((kind, x) for x in numbers), *((x, kind) for x in numbers)]


def _register_operator(
    function: Any, emit: Callable[[Any, Any, Any], Any], *, compares: bool = False
) -> None:
    """Register an operator on vectors and numbers; `emit(builder, a, b)` makes its instruction."""

    def result_of(kind: Any) -> Any:
        return _MASKS[kind] if compares else kind

    @infer_global(function)
    class Operator(ConcreteTemplate):  # numba finds it by the decorator
        cases = [  # noqa: RUF012
            signature(result_of(kind), *operands)
            for kind in _MASKS
            for operands in _operand_types(kind)
        ]

    def make_lowering(kind: Any) -> Any:
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return emit(builder, *(as_vector(builder, value, _LLVM_TYPES[kind]) for value in args))

        return lower

    for kind in _MASKS:
        for operands in _operand_types(kind):
            lower_builtin(function, *operands)(make_lowering(kind))


for _name, _instruction in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul")):
    _register_operator(getattr(operator, _name), VECTOR_OPERATIONS[_instruction])
    _register_operator(getattr(operator, f"i{_name}"), VECTOR_OPERATIONS[_instruction])
_register_operator(operator.truediv, VECTOR_OPERATIONS["fdiv"])
for _name, _sign in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "==")):
    _register_operator(getattr(operator, _name), COMPARISONS[_sign], compares=True)


@infer_global(operator.neg)
class _Negative(ConcreteTemplate):
    cases = [signature(kind, kind) for kind in _MASKS]  # noqa: RUF012


@infer_global(operator.getitem)
class _RowGet(ConcreteTemplate):
    cases = [signature(kind, _ROWS[kind], types.intp) for kind in _ROWS]  # noqa: RUF012


@infer_global(operator.setitem)
class _RowSet(ConcreteTemplate):
    cases = [signature(types.none, _ROWS[kind], types.intp, kind) for kind in _ROWS]  # noqa: RUF012


def _kind_behind(base: Any) -> Any:
    """Return the LLVM type of the vectors that a pointer to numbers leads to."""
    return SINGLE_VECTOR if base.type.pointee == ir.FloatType() else VECTOR


def _pointer(builder: Any, base: Any, index: Any) -> Any:
    at = builder.gep(base, [index])
    return builder.bitcast(at, ir.PointerType(_kind_behind(base)))


def _load(builder: Any, base: Any, index: Any) -> Any:
    value = builder.load(_pointer(builder, base, index))
    value.align = 4 if value.type == SINGLE_VECTOR else 8
    return value


def _store(builder: Any, value: Any, base: Any, index: Any) -> None:
    align = 4 if value.type == SINGLE_VECTOR else 8
    builder.store(value, _pointer(builder, base, index)).align = align


def _row_index(builder: Any, base: Any, row: Any) -> Any:
    """Return the index of a row's first number."""
    return builder.mul(row, row.type(_kind_behind(base).count))


def _lower_negative(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.fneg(args[0])


def _lower_row_get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _load(builder, args[0], _row_index(builder, args[0], args[1]))


def _lower_row_set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    _store(builder, args[2], args[0], _row_index(builder, args[0], args[1]))
    return context.get_dummy_value()


for _kind in _ROWS:
    lower_builtin(operator.neg, _kind)(_lower_negative)
    lower_builtin(operator.getitem, _ROWS[_kind], types.intp)(_lower_row_get)
    lower_builtin(operator.setitem, _ROWS[_kind], types.intp, _kind)(_lower_row_set)


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
    """Return the rows of a C-contiguous array of shape (k, lanes)."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _data_pointer(context, builder, sig.args[0], args[0])

    return _ROWS[_vector_of(array)](array), codegen


@_intrinsic
def rows_from(typing_context, array, index):
    """Return the rows of vectors that begin at an index of a contiguous array."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.gep(_data_pointer(context, builder, sig.args[0], args[0]), [args[1]])

    return _ROWS[_vector_of(array)](array, types.intp), codegen


@_intrinsic
def rows_of_all(typing_context, record):
    """Return a NamedTuple of pointers (`unpack`) as a NamedTuple of rows of vectors."""
    kinds = [_ROWS[_vector_of(pointer)] for pointer in record.types]
    result = types.NamedTuple(kinds, record.instance_class)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = [builder.extract_value(args[0], k) for k in range(len(kinds))]
        return context.make_tuple(builder, result, values)

    return result(record), codegen


@_intrinsic
def rows_after(typing_context, rows, count):
    """Return the rows of vectors without the first `count` ones."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.gep(args[0], [_row_index(builder, *args)])

    return rows(rows, types.intp), codegen


@_intrinsic
def pointer_from(typing_context, array, index):
    """Return the address of an element of a contiguous array, behind which the others follow."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.gep(_data_pointer(context, builder, sig.args[0], args[0]), [args[1]])

    return types.CPointer(array.dtype)(array, types.intp), codegen


@_intrinsic
def load(typing_context, array, index):
    """Return the vector that begins at an index of a contiguous array."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _load(builder, _data_pointer(context, builder, sig.args[0], args[0]), args[1])

    return _vector_of(array)(array, types.intp), codegen


@_intrinsic
def store(typing_context, array, index, value):
    """Set the vector that begins at an index of a contiguous array."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _store(builder, args[2], _data_pointer(context, builder, sig.args[0], args[0]), args[1])
        return context.get_dummy_value()

    return types.none(array, types.intp, _vector_of(array)), codegen


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
        if sig.args[0] in _MASKS:
            return emit(builder, args[0])
        # One lane of the same polynomial, so that scalars agree with vectors.
        value = emit(builder, as_vector(builder, args[0]))
        return builder.extract_element(value, INDEX_TYPE(0))

    kind = x if x in _MASKS else types.float64
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
def sqrt(typing_context, x):
    """Return the square root of a vector."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = args[0].type
        letter = "f32" if kind == SINGLE_VECTOR else "f64"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind]), f"llvm.sqrt.v{kind.count}{letter}"
        )
        return builder.call(function, [args[0]])

    return x(x), codegen


@_intrinsic
def where(typing_context, condition, a, b):
    """Return a where the condition holds, else b, lane by lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = _LLVM_TYPES[sig.return_type]
        a, b = (as_vector(builder, value, kind) for value in args[1:])
        return builder.select(args[0], a, b)

    def scalar_codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(args[0], args[1], args[2])

    kinds = [value if value in _MASKS else types.float64 for value in (a, b)]
    if condition not in _MASKS.values():
        return types.float64(types.boolean, types.float64, types.float64), scalar_codegen
    result = vector if condition == _mask else single_vector
    return result(condition, *kinds), codegen


@_intrinsic
def single(typing_context, x):
    """Return x rounded to single precision."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        rounded = builder.fptrunc(args[0], ir.VectorType(ir.FloatType(), LANES))
        return builder.fpext(rounded, VECTOR)

    return vector(vector), codegen


@_intrinsic
def total(typing_context, x):
    """Return the sum of the lanes, first to last, as a float64."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = args[0]
        if lanes.type == SINGLE_VECTOR:
            lanes = builder.fpext(lanes, ir.VectorType(ir.DoubleType(), lanes.type.count))
        value = builder.extract_element(lanes, INDEX_TYPE(0))
        for lane in range(1, lanes.type.count):
            value = builder.fadd(value, builder.extract_element(lanes, INDEX_TYPE(lane)))
        return value

    return types.float64(x if x in _MASKS else vector), codegen


@_intrinsic
def broadcast(typing_context, x):
    """Return a vector with the number in every lane."""
    result = _vector_of(x)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return as_vector(builder, args[0], _LLVM_TYPES[result])

    return result(types.float32 if result == single_vector else types.float64), codegen


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


# Products of matrices, whose sums stay in registers


def _loop(
    builder: Any,
    count: Any,
    sums: Sequence[Any],
    add: Callable[[Any, Sequence[Any]], Sequence[Any]],
) -> list[Any]:
    """Emit `sums = add(k, sums)` for k < count, which is at least 1; return the last sums."""
    before = builder.block
    body = builder.append_basic_block("products")
    after = builder.append_basic_block("products.end")
    builder.branch(body)
    builder.position_at_end(body)
    k = builder.phi(count.type)
    sums_now = [builder.phi(value.type) for value in sums]
    sums_next = list(add(k, sums_now))
    k_next = builder.add(k, k.type(1))
    builder.cbranch(builder.icmp_signed("<", k_next, count), body, after)
    for phi, first, later in zip(
        [k, *sums_now], [k.type(0), *sums], [k_next, *sums_next], strict=True
    ):
        phi.add_incoming(first, before)
        phi.add_incoming(later, builder.block)
    builder.position_at_end(after)
    return sums_next


def _add_product(builder: Any, value: Any, a: Any, b: Any) -> Any:
    return VECTOR_OPERATIONS["fadd"](builder, value, VECTOR_OPERATIONS["fmul"](builder, a, b))


@_intrinsic
def add_products(typing_context, y, y_at, w, w_at, y_stride, x_stride, x, x_at, inputs, count):
    """Add the sum over k < inputs of w[w_at + y_stride j + x_stride k] x[x_at + k] to y[y_at + j].

    That for all j < count (a literal); x and y are rows of vectors, w is an array of numbers.
    """
    columns = _literal_value(count)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        y, y_at, w, w_at, y_stride, x_stride, x, x_at, inputs, _ = args
        w = builder.gep(_data_pointer(context, builder, sig.args[2], w), [w_at])
        kind = _kind_behind(y)
        indices = [_row_index(builder, y, builder.add(y_at, y_at.type(j))) for j in range(columns)]

        def add(k: Any, sums: Sequence[Any]) -> list[Any]:
            value = _load(builder, x, _row_index(builder, x, builder.add(x_at, k)))
            at = builder.mul(k, x_stride)
            results = []
            for j, current in enumerate(sums):
                weight_at = builder.add(at, builder.mul(y_stride, y_stride.type(j)))
                weight = as_vector(builder, builder.load(builder.gep(w, [weight_at])), kind)
                results.append(_add_product(builder, current, weight, value))
            return results

        sums = _loop(builder, inputs, [_load(builder, y, index) for index in indices], add)
        for index, value in zip(indices, sums, strict=True):
            _store(builder, value, y, index)
        return context.get_dummy_value()

    i = types.intp
    return types.none(y, i, w, i, i, i, x, i, i, count), codegen


@_intrinsic
def add_outer_products(
    typing_context, sums, sums_at, stride, y, y_at, y_step, x, x_at, x_step, n, j, k
):
    """Add sums over r < n of y[y_at + y_step r + j] x[...] to sums[sums_at + stride j + k].

    That for all j and k below the two literals; sums, x and y are rows of vectors.
    """
    tile = [(a, b) for a in range(_literal_value(j)) for b in range(_literal_value(k))]

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        sums, sums_at, stride, y, y_at, y_step, x, x_at, x_step, n, _, _ = args
        indices = []
        for a, b in tile:
            row = builder.add(builder.mul(stride, stride.type(a)), stride.type(b))
            indices.append(_row_index(builder, sums, builder.add(sums_at, row)))

        def load_row(values: Any, at: Any, step: Any, r: Any, count: int) -> list[Any]:
            first = builder.add(at, builder.mul(r, step))
            rows = [builder.add(first, first.type(a)) for a in range(count)]
            return [_load(builder, values, _row_index(builder, values, row)) for row in rows]

        def add(r: Any, sums_now: Sequence[Any]) -> list[Any]:
            left = load_row(y, y_at, y_step, r, tile[-1][0] + 1)
            right = load_row(x, x_at, x_step, r, tile[-1][1] + 1)
            return [
                _add_product(builder, value, left[a], right[b])
                for value, (a, b) in zip(sums_now, tile, strict=True)
            ]

        totals = _loop(builder, n, [_load(builder, sums, index) for index in indices], add)
        for index, value in zip(indices, totals, strict=True):
            _store(builder, value, sums, index)
        return context.get_dummy_value()

    i = types.intp
    return types.none(sums, i, i, y, i, i, x, i, i, i, j, k), codegen
