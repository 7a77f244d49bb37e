"""What a step computes, as a graph, and the order in which a kernel gets its instructions.

A processor looks at few instructions at a time, too few to find two exp that do not wait for
each other where they stand one after the other. So the whole step is noted first
(`tracing`); then exp and log are computed side by side, first those that most others wait
for, and everything else as late as it is needed.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from srs_eval.training import llvm_vectors

DOUBLE = ir.DoubleType()
SLOW = (llvm_vectors.emit_exp, llvm_vectors.emit_log)
_SIDE_BY_SIDE = (4, 2, 1)  # how many of them are computed at a time


class Value:
    """A number, a vector or a condition: what makes it, of which others."""

    __slots__ = ("instruction", "make", "number", "operands", "type", "varies")

    def __init__(
        self, number: int, type: Any, varies: bool, make: Any, operands: tuple[Value, ...]
    ) -> None:
        self.number = number  # in order of making
        self.type = type
        self.varies = varies
        """Whether it depends on a vector. What does not is taken out of loops by the compiler."""
        self.make = make
        self.operands = operands
        self.instruction: Any = None
        """In the kernel; none yet."""


class Store(NamedTuple):
    value: Value
    into: Callable[[Any, Any], None]  # (builder, instruction)
    before: Value | None  # what was there, if the step reads it: it has to be read by then


class Graph:
    """The values of a step, each once for equal operands."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Value] = {}
        self._values = 0

    def new(
        self,
        type: Any,
        make: Any = None,
        operands: tuple[Value, ...] = (),
        *,
        varies: bool = False,
    ) -> Value:
        self._values += 1
        return Value(self._values, type, varies, make, operands)

    def once(self, type: Any, make: Any, *operands: Value) -> Value:
        """`make(builder, *operands)`; `make` is named, so that equal ones are known."""
        key = (make, *(operand.number for operand in operands))
        if key not in self._known:
            varies = any(operand.varies for operand in operands)
            self._known[key] = self.new(type, make, operands, varies=varies)
        return self._known[key]

    def given(self, instruction: Any) -> Value:
        value = self.new(instruction.type, varies=instruction.type == llvm_vectors.VECTOR)
        value.instruction = instruction
        return value

    def constant(self, x: float) -> Value:
        key = (float, float(x), str(x)[0])  # -0.0 is not 0.0
        if key not in self._known:
            self._known[key] = self.given(ir.Constant(DOUBLE, float(x)))
        return self._known[key]

    def vector(self, value: Value) -> Value:
        return (
            value
            if value.type == llvm_vectors.VECTOR
            else self.once(llvm_vectors.VECTOR, as_vector, value)
        )


def as_vector(builder: Any, x: Any) -> Any:
    return llvm_vectors.as_vector(builder, x)


def unknown(values: Sequence[Value], known: Container[int] = ()) -> list[Value]:
    """Those without an instruction, and of their operands likewise, in order of making.

    Operands of a value whose number is `known` count only where others need them, too.
    """
    found: dict[int, Value] = {}
    stack = list(values)
    while stack:
        value = stack.pop()
        if value.number not in found and value.instruction is None:
            found[value.number] = value
            if value.number not in known:
                stack += value.operands
    return [found[number] for number in sorted(found)]


def emit(builder: Any, results: Sequence[Value], stores: Sequence[Store]) -> None:
    """Appends the instructions for the results and for what is left in memory."""
    wanted = unknown([*results, *(store.value for store in stores)])
    slow = {value.number for value in wanted if value.varies and value.make in SLOW}
    urgency = _urgency(wanted, slow)
    left = list(stores)
    while True:
        waiting: set[int] = set()  # for exp and log that are still to come
        ready = []
        for value in wanted:
            if value.instruction is not None:
                continue
            blocked = any(operand.number in waiting for operand in value.operands)
            if blocked or value.number in slow:
                waiting.add(value.number)
                if not blocked:
                    ready.append(value)
        for store in left:
            if store.value.number not in waiting:
                before = [store.before] if store.before else []
                _emit_all(builder, [*before, store.value])
                store.into(builder, store.value.instruction)
        left = [store for store in left if store.value.number in waiting]
        if not ready:
            break
        ready.sort(key=lambda value: -urgency[value.number])
        now = ready[: _SIDE_BY_SIDE[0]]
        for value in now:
            _emit_all(builder, value.operands)
        for make in SLOW:
            _emit_side_by_side(builder, [value for value in now if value.make is make])
    _emit_all(builder, results)


def _urgency(values: Sequence[Value], slow: Container[int]) -> dict[int, int]:
    """How many slow ones, itself included, follow on one another from each value to the end."""
    urgency: dict[int, int] = {}
    for value in reversed(values):
        own = urgency.get(value.number, 0) + (value.number in slow)
        urgency[value.number] = own
        for operand in value.operands:
            urgency[operand.number] = max(urgency.get(operand.number, 0), own)
    return urgency


def _emit_all(builder: Any, values: Sequence[Value]) -> None:
    for value in unknown(values):
        operands = (operand.instruction for operand in value.operands)
        value.instruction = value.make(builder, *operands)


def _emit_side_by_side(builder: Any, values: list[Value]) -> None:
    """Values of one kind, their operands known, as parts of wider llvm_vectors."""
    for count in _SIDE_BY_SIDE:
        while len(values) >= count:
            chosen, values = values[:count], values[count:]
            wide = [value.operands[0].instruction for value in chosen]
            while len(wide) > 1:
                pairs = zip(wide[::2], wide[1::2], strict=True)
                wide = [llvm_vectors.joined(builder, a, b) for a, b in pairs]
            made = chosen[0].make(builder, wide[0])
            for k, value in enumerate(chosen):
                value.instruction = made if count == 1 else llvm_vectors.part(builder, made, k)
