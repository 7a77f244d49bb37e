"""Operations in which a model's step is written.

They are numpy's, so a step can be called with floats or arrays; called with `tracing`'s
values they become vector instructions on `LANES` nodes at once. A step may use these,
+ - * /, comparisons and other such functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LANES = 8  # numbers in a vector
SINGLE_LANES = 16  # numbers of single precision in a vector

Value = Any
"""A float, an array or, compiled, a vector of LANES floats; or a tuple of these."""
State = tuple[Value, ...]
"""A recurrent model's knowledge of a card."""


def exp(x: Value) -> Value:
    """Return e ** x."""
    return np.exp(x)


def log(x: Value) -> Value:
    """Return the natural logarithm of x."""
    return np.log(x)


def where(condition: Value, a: Value, b: Value) -> Value:
    """Return a where the condition holds, else b; both are computed."""
    return np.where(condition, a, b)


def power(x: Value, y: Value) -> Value:
    """Return x ** y for x > 0."""
    return exp(y * log(x))


def clamp(x: Value, low: Value, high: Value) -> Value:
    """Clip x to low ... high; at either bound its gradient passes unreduced, as in torch."""
    return np.clip(x, low, high)


def minimum(a: Value, b: Value) -> Value:
    """Return the smaller value; if both are equal, each gets half of the gradient, as in torch."""
    return np.minimum(a, b)


def maximum(a: Value, b: Value) -> Value:
    """Return the larger value; if both are equal, each gets half of the gradient, as in torch."""
    return np.maximum(a, b)
