"""Instructions on vectors of 8 float64: what exp, log and others are made of in LLVM.

pip's numba has no vector mathematics library, so exp and log in a loop stay scalar
and the loop is not vectorised. Here they are polynomials (minimax fits, errors below 3e-16
relative) on `<8 x double>`. This module imports llvmlite; import it inside functions only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from srs_eval.training.elementwise import LANES

VECTOR = ir.VectorType(ir.DoubleType(), LANES)
BITS = ir.VectorType(ir.IntType(1), LANES)
INDEX = ir.IntType(32)
FUSED = ("contract",)  # multiply-add where the processor has it; no reordering


def _constants(x: Any) -> tuple[Callable[[float], Any], Callable[[int], Any], Any]:
    """Numbers and integers in every lane of vectors as wide as x, and the type of the integers."""
    lanes = x.type.count
    integers = ir.VectorType(ir.IntType(64), lanes)
    return (
        lambda number: ir.Constant(x.type, [float(number)] * lanes),
        lambda number: ir.Constant(integers, [number] * lanes),
        integers,
    )


def as_vector(builder: Any, value: Any) -> Any:
    """A scalar in every lane; a vector as it is."""
    if value.type == VECTOR:
        return value
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, INDEX(0))
    return builder.shuffle_vector(
        one,
        ir.Constant(VECTOR, ir.Undefined),
        ir.Constant(ir.VectorType(INDEX, LANES), [0] * LANES),
    )


def joined(builder: Any, a: Any, b: Any) -> Any:
    """One vector of the lanes of a and those of b."""
    lanes = 2 * a.type.count
    chosen = ir.Constant(ir.VectorType(INDEX, lanes), list(range(lanes)))
    return builder.shuffle_vector(a, b, chosen)


def part(builder: Any, wide: Any, k: int) -> Any:
    """The vector k of those that a wider one is joined of."""
    chosen = list(range(k * LANES, (k + 1) * LANES))
    undefined = ir.Constant(wide.type, ir.Undefined)
    mask = ir.Constant(ir.VectorType(INDEX, LANES), chosen)
    return builder.shuffle_vector(wide, undefined, mask)


def _polynomial(builder: Any, x: Any, coefficients: tuple[float, ...]) -> Any:
    """Horner's scheme, highest power first."""
    number, _, _ = _constants(x)
    value = number(coefficients[0])
    for coefficient in coefficients[1:]:
        value = builder.fadd(builder.fmul(value, x, flags=FUSED), number(coefficient), flags=FUSED)
    return value


_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # 21 zero bits at the end, so n * high is exact
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer

# (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, error of the product 1.3e-17
_EXP = (
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
)

# (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, for (1 + s) / (1 - s) in [sqrt(1/2), sqrt(2)]
_LOG = (
    0.14617807153417325,
    0.15331611722055008,
    0.1818289243253687,
    0.22222211089379496,
    0.28571428626253836,
    0.3999999999989889,
    0.666666666666667,
)


def emit_exp(builder: Any, x: Any) -> Any:
    """e^x of vectors of any width."""
    number, integer, integers = _constants(x)
    low, high = number(-708.0), number(709.0)
    x = builder.select(builder.fcmp_ordered("<", x, low), low, x)
    x = builder.select(builder.fcmp_ordered(">", x, high), high, x)
    shifted = builder.fadd(builder.fmul(x, number(_LOG2_E)), number(_ROUND))
    n = builder.fsub(shifted, number(_ROUND))
    r = builder.fsub(x, builder.fmul(n, number(_LN2_HIGH), flags=FUSED), flags=FUSED)
    r = builder.fsub(r, builder.fmul(n, number(_LN2_LOW), flags=FUSED), flags=FUSED)
    q = builder.fmul(builder.fmul(r, r), _polynomial(builder, r, _EXP), flags=FUSED)
    value = builder.fadd(number(1.0), builder.fadd(r, q))
    # 2**n: the low bits of `shifted` hold n; add it to the exponent of `value`.
    exponent = builder.shl(builder.bitcast(shifted, integers), integer(52))
    return builder.bitcast(builder.add(builder.bitcast(value, integers), exponent), x.type)


def emit_log(builder: Any, x: Any) -> Any:
    """log x of vectors of any width."""
    number, integer, integers = _constants(x)
    bits = builder.bitcast(x, integers)
    # Move the seam between exponents to sqrt(1/2), so that the mantissa is around 1.
    seam = 0x3FE6A09E667F3BCD
    moved = builder.sub(bits, integer(seam))
    n = builder.ashr(moved, integer(52))
    mantissa = builder.bitcast(
        builder.sub(bits, builder.shl(n, integer(52))), x.type
    )  # in [sqrt(1/2), sqrt(2))
    # n to floating point by the bits of 1.5 * 2**52 + n
    shifted = builder.add(n, integer(0x4338000000000000))
    exponent = builder.fsub(builder.bitcast(shifted, x.type), number(_ROUND))
    f = builder.fsub(mantissa, number(1.0))
    s = builder.fdiv(f, builder.fadd(mantissa, number(1.0)))
    z = builder.fmul(s, s)
    tail = builder.fmul(builder.fmul(s, z), _polynomial(builder, z, _LOG), flags=FUSED)
    # log(m) = 2 s + tail = f - s f + tail: f is exact, the rest is small.
    small = builder.fsub(tail, builder.fmul(s, f, flags=FUSED), flags=FUSED)
    small = builder.fadd(small, builder.fmul(exponent, number(_LN2_LOW), flags=FUSED), flags=FUSED)
    whole = builder.fmul(exponent, number(_LN2_HIGH))
    return builder.fadd(whole, builder.fadd(f, small))
