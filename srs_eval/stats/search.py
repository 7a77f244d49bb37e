"""Find the minimum of a function of one number."""

from __future__ import annotations

from collections.abc import Callable


def find_minimum(
    function: Callable[[float], float], low: float, high: float, tolerance: float
) -> float:
    """Return where a function with one minimum is least between `low` and `high`.

    A ternary search: of three equal parts, the one next to the larger value is left out, until less
    than the tolerance is left.
    """
    while high - low > tolerance:
        first_third = low + (high - low) / 3
        second_third = high - (high - low) / 3
        if function(first_third) < function(second_third):
            high = second_third
        else:
            low = first_third
    return (low + high) / 2
