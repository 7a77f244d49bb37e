"""The operations that a model's step is written in.

They are numpy's, so a step can be called with floats or arrays; called with `tracing`'s
values they become vector instructions on `LANES` nodes at once. A step may use these,
+ - * /, comparisons and other such functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LANES = 8  # numbers in a vector

_Value = Any  # a float, an array or, compiled, a vector of LANES floats


def exp(x: _Value) -> _Value:
    return np.exp(x)


def log(x: _Value) -> _Value:
    return np.log(x)


def where(condition: _Value, a: _Value, b: _Value) -> _Value:
    """a where the condition holds, else b; both are computed."""
    return np.where(condition, a, b)


def power(x: _Value, y: _Value) -> _Value:
    """x ** y for x > 0."""
    return exp(y * log(x))


def clamp(x: _Value, low: _Value, high: _Value) -> _Value:
    """x between low and high; at either, its gradient passes whole, as torch has it."""
    return np.clip(x, low, high)


def minimum(a: _Value, b: _Value) -> _Value:
    """The smaller one; where they are equal, each gets half of the gradient, as torch has it."""
    return np.minimum(a, b)


def maximum(a: _Value, b: _Value) -> _Value:
    """The larger one; where they are equal, each gets half of the gradient, as torch has it."""
    return np.maximum(a, b)
