"""The operations that a model's step is written in.

They are numpy's, so a step can be called with floats or arrays; called with `tracing`'s
values they become vector instructions on `LANES` nodes at once. A step may use these,
+ - * /, comparisons and other such functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LANES = 8  # numbers in a vector

Value = Any  # a float, an array or, compiled, a vector of LANES floats


def exp(x: Value) -> Value:
    return np.exp(x)


def log(x: Value) -> Value:
    return np.log(x)


def where(condition: Value, a: Value, b: Value) -> Value:
    """a where the condition holds, else b; both are computed."""
    return np.where(condition, a, b)


def power(x: Value, y: Value) -> Value:
    """x ** y for x > 0."""
    return exp(y * log(x))


def clamp(x: Value, low: float, high: float) -> Value:
    return where(x < low, low, where(x > high, high, x))


def clamp_bar(x: Value, low: float, high: float, bar: Value) -> Value:
    """Gradient through `clamp`: all of it inside and at the bounds, as torch has it."""
    return where(x < low, 0.0, where(x > high, 0.0, bar))


def minimum(a: Value, b: Value) -> Value:
    return where(b < a, b, a)


def share_of_first(a: Value, b: Value) -> Value:
    """Share of a in the gradient of `minimum(a, b)`: a half where they are equal."""
    return where(a < b, 1.0, where(b < a, 0.0, 0.5))
