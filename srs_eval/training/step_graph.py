"""Record a step's computation as a graph and choose the order of a kernel's instructions.

A step (see `recurrent`) is arithmetic without branches. Called with `Traced` values, which stand
for numbers that are known only when the kernel runs, every operation becomes a value of a graph.
numpy hands its functions over to such values (`__array_ufunc__`, `__array_function__`), so the
operations of `elementwise` are written once. A computation that occurs twice in a step becomes one
instruction.

A processor looks at few instructions at a time, too few to notice that two exp which follow each
other are independent. So the whole step is recorded first; then exp and log are computed side by
side, beginning with the ones that most others wait for, and everything else is computed as late as
possible.

pip's numba has no vector mathematics library, so exp and log in a loop stay scalar and the loop
is not vectorised. Here they are polynomials (minimax fits, errors below 3e-16 relative) on
`<8 x double>`, and shorter ones (errors below 2e-7) on `<16 x float>`.

This module imports llvmlite; import it inside functions only.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from srs_eval.training.elementwise import LANES, SINGLE_LANES

VECTOR = ir.VectorType(ir.DoubleType(), LANES)
BITS = ir.VectorType(ir.IntType(1), LANES)
SINGLE_VECTOR = ir.VectorType(ir.FloatType(), SINGLE_LANES)
SINGLE_BITS = ir.VectorType(ir.IntType(1), SINGLE_LANES)
INDEX_TYPE = ir.IntType(32)
_FUSED_FLAGS = ("contract",)  # multiply-add where the processor has it; no reordering


def _constant_makers(x: Any) -> tuple[Callable[[float], Any], Callable[[int], Any], Any]:
    """Return a function for constants of x's type, one for integer constants, and their type.

    They make vectors as wide as x, with the constant in every lane.
    """
    lanes = x.type.count
    integers = ir.VectorType(ir.IntType(_precision_of(x).bits), lanes)
    return (
        lambda number: ir.Constant(x.type, [float(number)] * lanes),
        lambda number: ir.Constant(integers, [number] * lanes),
        integers,
    )


def as_vector(builder: Any, value: Any, kind: Any = VECTOR) -> Any:
    """Return a vector with a scalar in every lane; return a vector unchanged."""
    if value.type == kind:
        return value
    if value.type != kind.element:
        value = builder.fptrunc(value, kind.element)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, INDEX_TYPE(0))
    return builder.shuffle_vector(
        one,
        ir.Constant(kind, ir.Undefined),
        ir.Constant(ir.VectorType(INDEX_TYPE, kind.count), [0] * kind.count),
    )


def _join_lanes(builder: Any, a: Any, b: Any) -> Any:
    """Join the lanes of a and b to one vector."""
    lanes = 2 * a.type.count
    chosen = ir.Constant(ir.VectorType(INDEX_TYPE, lanes), list(range(lanes)))
    return builder.shuffle_vector(a, b, chosen)


def _extract_vector(builder: Any, wide: Any, k: int) -> Any:
    """Extract the vector k of the vectors that a wider one was joined from."""
    chosen = list(range(k * LANES, (k + 1) * LANES))
    undefined = ir.Constant(wide.type, ir.Undefined)
    mask = ir.Constant(ir.VectorType(INDEX_TYPE, LANES), chosen)
    return builder.shuffle_vector(wide, undefined, mask)


def _emit_polynomial(builder: Any, x: Any, coefficients: tuple[float, ...]) -> Any:
    """Emit a polynomial by Horner's scheme, highest power first."""
    number, _, _ = _constant_makers(x)
    value = number(coefficients[0])
    for coefficient in coefficients[1:]:
        value = builder.fadd(
            builder.fmul(value, x, flags=_FUSED_FLAGS), number(coefficient), flags=_FUSED_FLAGS
        )
    return value


_LOG2_E = 1.4426950408889634


class _Precision(NamedTuple):
    """Constants of exp and log for numbers of one width."""

    bits: int
    mantissa_bits: int
    lowest: float  # bounds of exp's argument
    highest: float
    ln2_high: float  # with so many zero bits at the end that n * ln2_high is exact
    ln2_low: float
    rounding_shift: float  # 1.5 * 2**mantissa_bits: adding, then subtracting it rounds to integers
    rounding_shift_bits: int
    seam: int  # the bits of sqrt(1/2)
    exp_coefficients: tuple[float, ...]
    """Of (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, highest power first."""
    log_coefficients: tuple[float, ...]
    """Of (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, for (1 + s) / (1 - s) in
    [sqrt(1/2), sqrt(2)]."""


_DOUBLE_PRECISION = _Precision(
    bits=64,
    mantissa_bits=52,
    lowest=-708.0,
    highest=709.0,
    ln2_high=6.93147180369123816490e-01,
    ln2_low=1.90821492927058770002e-10,
    rounding_shift=6755399441055744.0,
    rounding_shift_bits=0x4338000000000000,
    seam=0x3FE6A09E667F3BCD,
    exp_coefficients=(  # error of the product 1.3e-17
        2.5100424157005067e-08,
        2.7620138719733994e-07,
        2.7557268378684192e-06,
        2.480152119021773e-05,
        0.00019841269863105968,
        0.0013888888917281794,
        0.008333333333330051,
        0.04166666666662399,
        0.16666666666666669,
        0.5000000000000001,
    ),
    log_coefficients=(
        0.14617807153417325,
        0.15331611722055008,
        0.1818289243253687,
        0.22222211089379496,
        0.28571428626253836,
        0.3999999999989889,
        0.666666666666667,
    ),
)
_SINGLE_PRECISION = _Precision(
    bits=32,
    mantissa_bits=23,
    lowest=-87.0,
    highest=88.0,
    ln2_high=0.693145751953125,
    ln2_low=1.428606765330187e-06,
    rounding_shift=12582912.0,
    rounding_shift_bits=0x4B400000,
    seam=0x3F3504F3,
    exp_coefficients=(  # error of the product 3e-9
        0.001381461275741458,
        0.008368710055947304,
        0.04166838899254799,
        0.1666652113199234,
        0.4999999403953552,
    ),
    log_coefficients=(0.29871729016304016, 0.3997754156589508, 0.6666677594184875),
)


def _precision_of(x: Any) -> _Precision:
    """Return the precision of a vector."""
    return _SINGLE_PRECISION if x.type.element == ir.FloatType() else _DOUBLE_PRECISION


def emit_exp(builder: Any, x: Any) -> Any:
    """Emit e^x for vectors of any width."""
    number, integer, integer_type = _constant_makers(x)
    precision = _precision_of(x)
    low, high = number(precision.lowest), number(precision.highest)
    x = builder.select(builder.fcmp_ordered("<", x, low), low, x)
    x = builder.select(builder.fcmp_ordered(">", x, high), high, x)
    shifted = builder.fadd(builder.fmul(x, number(_LOG2_E)), number(precision.rounding_shift))
    n = builder.fsub(shifted, number(precision.rounding_shift))
    r = builder.fsub(
        x, builder.fmul(n, number(precision.ln2_high), flags=_FUSED_FLAGS), flags=_FUSED_FLAGS
    )
    r = builder.fsub(
        r, builder.fmul(n, number(precision.ln2_low), flags=_FUSED_FLAGS), flags=_FUSED_FLAGS
    )
    q = builder.fmul(
        builder.fmul(r, r),
        _emit_polynomial(builder, r, precision.exp_coefficients),
        flags=_FUSED_FLAGS,
    )
    value = builder.fadd(number(1.0), builder.fadd(r, q))
    # 2**n: the low bits of `shifted` hold n; add it to the exponent of `value`.
    exponent = builder.shl(builder.bitcast(shifted, integer_type), integer(precision.mantissa_bits))
    return builder.bitcast(builder.add(builder.bitcast(value, integer_type), exponent), x.type)


def emit_log(builder: Any, x: Any) -> Any:
    """Emit log x for vectors of any width."""
    number, integer, integer_type = _constant_makers(x)
    precision = _precision_of(x)
    bits = builder.bitcast(x, integer_type)
    # Exponents change at powers of 2; move that to sqrt(1/2), so that the mantissa is around 1.
    moved = builder.sub(bits, integer(precision.seam))
    n = builder.ashr(moved, integer(precision.mantissa_bits))
    mantissa = builder.bitcast(
        builder.sub(bits, builder.shl(n, integer(precision.mantissa_bits))), x.type
    )  # in [sqrt(1/2), sqrt(2))
    # Turn n into a float: these are the bits of the shift + n.
    shifted = builder.add(n, integer(precision.rounding_shift_bits))
    exponent = builder.fsub(builder.bitcast(shifted, x.type), number(precision.rounding_shift))
    f = builder.fsub(mantissa, number(1.0))
    s = builder.fdiv(f, builder.fadd(mantissa, number(1.0)))
    z = builder.fmul(s, s)
    tail = builder.fmul(
        builder.fmul(s, z),
        _emit_polynomial(builder, z, precision.log_coefficients),
        flags=_FUSED_FLAGS,
    )
    # log(m) = 2 s + tail = f - s f + tail: f is exact, the rest is small.
    small = builder.fsub(tail, builder.fmul(s, f, flags=_FUSED_FLAGS), flags=_FUSED_FLAGS)
    small = builder.fadd(
        small,
        builder.fmul(exponent, number(precision.ln2_low), flags=_FUSED_FLAGS),
        flags=_FUSED_FLAGS,
    )
    large = builder.fmul(exponent, number(precision.ln2_high))
    return builder.fadd(large, builder.fadd(f, small))


# The graph

DOUBLE = ir.DoubleType()
SLOW_OPERATIONS = (emit_exp, emit_log)
_GROUP_SIZES = (4, 2, 1)  # how many slow operations are computed at a time


class GraphValue:
    """A number, a vector or a condition, with the operation and the operands that make it."""

    __slots__ = ("instruction", "make", "number", "operands", "type", "varies")

    def __init__(
        self, number: int, type: Any, varies: bool, make: Any, operands: tuple[GraphValue, ...]
    ) -> None:
        self.number = number  # in order of creation
        self.type = type
        self.varies = varies
        """True if it depends on a vector. The compiler moves other values out of loops."""
        self.make = make
        """`make(builder, *operands)`, with the operands' instructions, returns the instruction."""
        self.operands = operands
        self.instruction: Any = None
        """The instruction in the kernel; None until it is emitted."""


class Store(NamedTuple):
    """A value that a step writes into an array."""

    value: GraphValue
    into: Callable[[Any, Any], None]  # (builder, instruction)
    before: GraphValue | None  # the old value, if the step reads it: to be read before the store


class StepGraph:
    """The values of a step; the same operation on the same operands is one value."""

    def __init__(self) -> None:
        self._value_by_key: dict[tuple[Any, ...], GraphValue] = {}
        self._count = 0

    def add(
        self,
        type: Any,
        make: Any = None,
        operands: tuple[GraphValue, ...] = (),
        *,
        varies: bool = False,
    ) -> GraphValue:
        self._count += 1
        return GraphValue(self._count, type, varies, make, operands)

    def add_once(self, type: Any, make: Any, *operands: GraphValue) -> GraphValue:
        """Return the value of `make(builder, *operands)`, the same for equal arguments.

        `make` is a named function, so that equal ones are recognised.
        """
        key = (make, *(operand.number for operand in operands))
        if key not in self._value_by_key:
            varies = any(operand.varies for operand in operands)
            self._value_by_key[key] = self.add(type, make, operands, varies=varies)
        return self._value_by_key[key]

    def add_instruction(self, instruction: Any) -> GraphValue:
        value = self.add(instruction.type, varies=instruction.type == VECTOR)
        value.instruction = instruction
        return value

    def add_constant(self, x: float) -> GraphValue:
        key = (
            float,
            float(x),
            str(x)[0],
        )  # with the sign: -0.0 equals 0.0, but is another constant
        if key not in self._value_by_key:
            self._value_by_key[key] = self.add_instruction(ir.Constant(DOUBLE, float(x)))
        return self._value_by_key[key]

    def to_vector(self, value: GraphValue) -> GraphValue:
        return value if value.type == VECTOR else self.add_once(VECTOR, as_vector, value)


def find_unemitted(
    values: Sequence[GraphValue], known_numbers: Container[int] = ()
) -> list[GraphValue]:
    """Return the values and their operands that have no instruction yet, in order of creation.

    Those in `known_numbers` need no operands: these are returned only if other values need them.
    """
    found: dict[int, GraphValue] = {}
    stack = list(values)
    while stack:
        value = stack.pop()
        if value.number not in found and value.instruction is None:
            found[value.number] = value
            if value.number not in known_numbers:
                stack += value.operands
    return [found[number] for number in sorted(found)]


def emit(builder: Any, results: Sequence[GraphValue], stores: Sequence[Store]) -> None:
    """Append the instructions for the results and for the stores to memory."""
    wanted = find_unemitted([*results, *(store.value for store in stores)])
    slow = {value.number for value in wanted if value.varies and value.make in SLOW_OPERATIONS}
    urgency = _compute_urgency(wanted, slow)
    stores_left = list(stores)
    while True:
        waiting: set[int] = set()  # exp and log that are still to come, and values that need them
        ready = []  # exp and log whose operands wait for no others
        for value in wanted:
            if value.instruction is not None:
                continue
            blocked = any(operand.number in waiting for operand in value.operands)
            if blocked or value.number in slow:
                waiting.add(value.number)
                if not blocked:
                    ready.append(value)
        for store in stores_left:
            if store.value.number not in waiting:
                before = [store.before] if store.before else []
                _emit_all(builder, [*before, store.value])
                store.into(builder, store.value.instruction)
        stores_left = [store for store in stores_left if store.value.number in waiting]
        if not ready:
            break
        ready.sort(key=lambda value: -urgency[value.number])
        group = ready[: _GROUP_SIZES[0]]
        for value in group:
            _emit_all(builder, value.operands)
        for make in SLOW_OPERATIONS:
            _emit_side_by_side(builder, [value for value in group if value.make is make])
    _emit_all(builder, results)


def _compute_urgency(values: Sequence[GraphValue], slow: Container[int]) -> dict[int, int]:
    """Return the number of slow values on the longest path from each value to a result.

    The value itself counts.
    """
    urgency: dict[int, int] = {}
    for value in reversed(values):
        own = urgency.get(value.number, 0) + (value.number in slow)
        urgency[value.number] = own
        for operand in value.operands:
            urgency[operand.number] = max(urgency.get(operand.number, 0), own)
    return urgency


def _emit_all(builder: Any, values: Sequence[GraphValue]) -> None:
    for value in find_unemitted(values):
        operands = (operand.instruction for operand in value.operands)
        value.instruction = value.make(builder, *operands)


def _emit_side_by_side(builder: Any, values: list[GraphValue]) -> None:
    """Emit exp, or log, of several vectors by joining the vectors to wider ones."""
    for count in _GROUP_SIZES:
        while len(values) >= count:
            chosen, values = values[:count], values[count:]
            wide = [value.operands[0].instruction for value in chosen]
            while len(wide) > 1:
                pairs = zip(wide[::2], wide[1::2], strict=True)
                wide = [_join_lanes(builder, a, b) for a, b in pairs]
            joined = chosen[0].make(builder, wide[0])
            for k, value in enumerate(chosen):
                value.instruction = joined if count == 1 else _extract_vector(builder, joined, k)


# Values that record the operations on them


def _make_instruction(name: str, *first: str, **options: Any) -> Any:
    """Return a function (builder, *operands) for an instruction of llvmlite's builder."""

    def make(builder: Any, *operands: Any) -> Any:
        return getattr(builder, name)(*first, *operands, **options)

    return make


_INSTRUCTIONS = ("fadd", "fsub", "fmul", "fdiv")
_NUMBER_OPERATIONS = {name: _make_instruction(name) for name in _INSTRUCTIONS}
VECTOR_OPERATIONS = {name: _make_instruction(name, flags=_FUSED_FLAGS) for name in _INSTRUCTIONS}
COMPARISONS = {
    sign: _make_instruction("fcmp_ordered", sign) for sign in ("<", "<=", ">", ">=", "==")
}
_negative, _select = _make_instruction("fneg"), _make_instruction("select")


def _minimum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", b, a), b, a)


def _maximum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), b, a)


def _clamp(builder: Any, x: Any, low: Any, high: Any) -> Any:
    below = builder.select(builder.fcmp_ordered(">", x, high), high, x)
    return builder.select(builder.fcmp_ordered("<", x, low), low, below)


def _first_lane(builder: Any, x: Any) -> Any:
    return builder.extract_element(x, INDEX_TYPE(0))


OPERATIONS = {
    **{
        make: name
        for makes in (_NUMBER_OPERATIONS, VECTOR_OPERATIONS)
        for name, make in makes.items()
    },
    emit_exp: "exp",
    emit_log: "log",
    as_vector: "as_vector",
    _first_lane: "first_lane",
    _negative: "negative",
    _select: "select",
    _minimum: "minimum",
    _maximum: "maximum",
    _clamp: "clamp",
}
"""Operations that `tracing` derives gradients of, and the names it knows them by."""


def to_value(graph: StepGraph, x: Any) -> GraphValue:
    """Return the graph's value for a traced value or a constant."""
    return x.value if isinstance(x, Traced) else graph.add_constant(x)


def _operator(instruction: str, swapped: bool = False) -> Any:
    """Return the method of an operator; `swapped` for the one that gets the right operand first."""

    def method(self: Traced, other: Any) -> Traced:
        x, y, vectors = self._operands(*((other, self) if swapped else (self, other)))
        make = (VECTOR_OPERATIONS if vectors else _NUMBER_OPERATIONS)[instruction]
        return Traced(self.graph, self.graph.add_once(x.type, make, x, y))

    return method


def _comparison(sign: str) -> Any:
    def method(self: Traced, other: Any) -> Traced:
        x, y, vectors = self._operands(self, other)
        kind = BITS if vectors else ir.IntType(1)
        return Traced(self.graph, self.graph.add_once(kind, COMPARISONS[sign], x, y))

    return method


class Traced:
    """A number, a vector or a condition that records the operations on it."""

    __slots__ = ("graph", "value")

    def __init__(self, graph: StepGraph, value: GraphValue) -> None:
        self.graph = graph
        self.value = value

    def _operands(self, a: Any, b: Any) -> tuple[GraphValue, GraphValue, bool]:
        x, y = to_value(self.graph, a), to_value(self.graph, b)
        vectors = VECTOR in (x.type, y.type)
        if vectors:
            x, y = self.graph.to_vector(x), self.graph.to_vector(y)
        return x, y, vectors

    __add__, __radd__ = _operator("fadd"), _operator("fadd", swapped=True)
    __sub__, __rsub__ = _operator("fsub"), _operator("fsub", swapped=True)
    __mul__, __rmul__ = _operator("fmul"), _operator("fmul", swapped=True)
    __truediv__, __rtruediv__ = _operator("fdiv"), _operator("fdiv", swapped=True)
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")
    __eq__ = _comparison("==")

    def __neg__(self) -> Traced:
        return Traced(self.graph, self.graph.add_once(self.value.type, _negative, self.value))

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
            return Traced(self.graph, self.graph.add_once(x.type, choice, x, y))
        emit = {np.exp: emit_exp, np.log: emit_log}.get(ufunc)
        if emit is None:
            return NotImplemented
        result = self.graph.add_once(VECTOR, emit, self.graph.to_vector(self.value))
        if self.value.type != VECTOR:
            # One lane of the same polynomial, so that numbers agree with vectors.
            result = self.graph.add_once(DOUBLE, _first_lane, result)
        return Traced(self.graph, result)

    def __array_function__(self, function: Any, kinds: Any, inputs: Any, options: Any) -> Any:
        if options or function not in (np.where, np.clip):
            return NotImplemented
        values = [to_value(self.graph, x) for x in inputs]
        if any(value.type in (BITS, VECTOR) for value in values):
            first = 1 if function is np.where else 0  # a condition stays what it is
            values[first:] = [self.graph.to_vector(value) for value in values[first:]]
        make = _select if function is np.where else _clamp
        return Traced(self.graph, self.graph.add_once(values[-1].type, make, *values))
