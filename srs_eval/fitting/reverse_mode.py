"""The gradient of a step, derived from the step by reverse mode.

`adjoint` makes of a step a function that computes its gradient. Run on `tracing`'s values it
runs the step, so that all of it stands in the graph, and goes back through the graph from the
results to the arguments, while each operation adds to the gradients of its operands. What both
need is in the graph once.

At a kink the gradient is torch's: where the two are equal, `minimum` and `maximum` give a half
to each; `clamp` gives all to x at its bounds, too; `where` gives all to the side it takes. What
goes back through the other side may be infinite or not a number: it is replaced by 0 as soon as
it comes to a value that is used elsewhere, too.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from srs_eval.fitting.elementwise import where
from srs_eval.fitting.step_graph import Graph, Value, unknown
from srs_eval.fitting.tracing import OPERATIONS, Traced

STEEP = ("fdiv", "log", "exp", "first_lane")
Sides = tuple[tuple[Value, bool], ...]  # of `where`s, outermost first: condition, which side


def adjoint(
    step: Callable[..., Any],
    by: Sequence[str],
    w: str | None = None,
    parameters: int | None = None,
) -> Callable[..., Any]:
    """The gradient of a step by its arguments named in `by`, and by those values in w.

    It takes the arguments of the step, the gradients of its results and, if w names an argument,
    rows to which the gradients of its values are added, of the first `parameters` or of all. It
    returns the gradients of the arguments in `by`, those of one, or a tuple for several.
    """
    names = list(inspect.signature(step).parameters)

    def gradient(*given: Any) -> Any:
        inputs = dict(zip(names, given, strict=False))
        results, bar = step(*inputs.values()), given[len(names)]
        others = [inputs[name] for name in by]
        values = _elements(inputs[w], parameters) if w else {}
        bars = _gradients(results, bar, [*values.values(), *_parts(others)])
        for k, x in values.items():
            if x.value in bars:
                given[-1][k] += bars[x.value]
        found = [_replaced(x, bars) for x in others]
        return tuple(found) if len(found) > 1 else found[0] if found else None

    gradient.__name__ = gradient.__qualname__ = f"{step.__name__}_adjoint"
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    gradient.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # numba asks for it
        [inspect.Parameter(name, kind) for name in (*names, "bar", *(("w_bar",) if w else ()))]
    )
    return gradient


def _elements(w: Any, count: int | None) -> dict[int, Traced]:
    """The values of a tuple, those of an array that the step has read; the first `count`."""
    found = dict(enumerate(w)) if isinstance(w, tuple) else w.read()
    return {k: x for k, x in found.items() if count is None or k < count}


def _parts(x: Any) -> Iterator[Any]:
    if isinstance(x, tuple | list):
        for part in x:
            yield from _parts(part)
    else:
        yield x


def _replaced(x: Any, bars: Mapping[Value, Any]) -> Any:
    """Gradients in the place of the values of an argument."""
    if isinstance(x, tuple):
        return tuple(_replaced(part, bars) for part in x)
    return bars.get(x.value, 0.0)


def _gradients(results: Any, bars: Any, by: Sequence[Traced]) -> dict[Value, Any]:
    """By each of these values on which a result depends, from the gradients of the results."""
    if not by:
        return {}
    sums = _Sums(by[0].graph, {x.value for x in by})
    ends = [
        (result.value, bar)
        for result, bar in zip(_parts(results), _parts(bars), strict=True)
        if isinstance(result, Traced)  # not a constant
    ]
    values = unknown([value for value, _ in ends])
    for value in values:
        if any(operand in sums.active for operand in value.operands):
            sums.active.add(value)
            if OPERATIONS.get(value.make) in STEEP or sums.steep & {*value.operands}:
                sums.steep.add(value)
    for value, bar in ends:
        sums.add(value, bar)
    for value in reversed(values):
        if value in sums and value.operands:
            _back(sums, value)
    return {x.value: sums.whole(x.value) for x in by if x.value in sums}


class _Sums:
    """Gradients in the making, of those values that depend on what they are taken by: a sum for
    each side of the `where`s around a value from which something comes.
    """

    def __init__(self, graph: Graph, active: set[Value]) -> None:
        self.graph = graph
        self.active = active
        self.steep: set[Value] = set()
        """Those whose gradients may be infinite, for all that is known here."""
        self._sums: dict[Value, dict[Sides, Any]] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._sums

    def add(self, value: Value, term: Any, sides: Sides = ()) -> None:
        if value in self.active:
            sums = self._sums.setdefault(value, {})
            sums[sides] = sums[sides] + term if sides in sums else term

    def common(self, value: Value) -> Sides:
        """The sides from which all comes."""
        first, *others = self._sums[value]
        while any(sides[: len(first)] != first for sides in others):
            first = first[:-1]
        return first

    def whole(self, value: Value, within: Sides = ()) -> Any:
        """The sum of all, each but 0 where another side than its own is taken."""
        found = []
        for sides, term in self._sums[value].items():
            for side in reversed(sides[len(within) :]):
                term = self.on_side(term, side)
            found.append(term)
        return functools.reduce(operator.add, found)

    def on_side(self, term: Any, side: tuple[Value, bool]) -> Any:
        """The term, but 0 where the other side is taken."""
        condition, taken = Traced(self.graph, side[0]), side[1]
        return where(condition, term, 0.0) if taken else where(condition, 0.0, term)


def _back(sums: _Sums, value: Value) -> None:
    """Gives the operands of a value their parts of its gradient."""
    sides = sums.common(value)
    bar = sums.whole(value, sides)
    operands = value.operands
    y, *xs = (Traced(sums.graph, each) for each in (value, *operands))

    def give(*terms: Any) -> None:
        for operand, term in zip(operands, terms, strict=True):
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
            (vector,) = operands
            x = Traced(sums.graph, vector.operands[0].operands[0])
            slope = y if OPERATIONS[vector.make] == "exp" else 1.0 / x
            sums.add(x.value, bar * slope, sides)
        case "select":
            condition, *choices = operands
            for choice, taken in zip(choices, (True, False), strict=True):
                side = (condition, taken)
                if choice in sums.steep:
                    sums.add(choice, bar, (*sides, side))
                else:
                    sums.add(choice, sums.on_side(bar, side), sides)
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
