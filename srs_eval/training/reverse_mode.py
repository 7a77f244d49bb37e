"""The gradient of a step, derived from the step by reverse mode.

`adjoint` makes a function of a step: it runs the step on `tracing`'s values, so that all of it
stands in the graph, and goes back through the graph from the results to the arguments, each
operation adding to the gradients of its operands. What both need stands in the graph once.

At a kink the gradient is torch's: where the two are equal, `minimum` and `maximum` give half of
it to each; `clamp` gives it to x at a bound, too; `where` gives it to the side that is taken.
What would go through the other side may be infinite or not a number. It is therefore set to 0
where it leaves that side, not where it enters.

This module imports numba; import it inside functions only.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from srs_eval.training.elementwise import where
from srs_eval.training.step_graph import Value, unknown
from srs_eval.training.tracing import OPERATIONS, Traced

_Sides = tuple[tuple[Value, bool], ...]  # of `where`s, from the outermost: condition, first side?


def adjoint(
    step: Callable[..., Any],
    by: Sequence[str],
    w: str | None = None,
    parameters: int | None = None,
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
        values = _values(inputs[w], parameters) if w else {}
        bars = _gradients(results, given[len(names)], [*values.values(), *_parts(others)])
        for k, x in values.items():
            if x.value in bars:
                given[-1][k] += bars[x.value]
        found = tuple(_replaced(x, bars) for x in others)
        return found if len(found) > 1 else found[0] if found else None

    gradient.__name__ = gradient.__qualname__ = f"{step.__name__}_adjoint"
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    gradient.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # numba asks for it
        [inspect.Parameter(name, kind) for name in (*names, "bar", *(("w_bar",) if w else ()))]
    )
    return gradient


def _values(w: Any, count: int | None) -> dict[int, Traced]:
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
