"""NamedTuples of arrays and numbers, handed to a kernel as one table of addresses.

numba takes a NamedTuple of arrays, too, but describes each array by seven values, and a kernel
with thirty arrays takes a second to compile for these alone. Here it gets a table with the
address of each array and the bits of each number:

    kernel(packed(batches))              in Python
    batches = unpacked(table, Batches)   in the kernel: a NamedTuple of pointers and numbers

What a field holds is read from the annotations of its class: FloatArray, IntArray, Int32Array,
float or int. A pointer has neither length nor shape; a kernel that needs them has them as fields.
"""

from __future__ import annotations

import typing
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.reviews import FloatArray, IntArray

Int32Array = NDArray[np.int32]

_ARRAYS: dict[Any, str] = {FloatArray: "float64", IntArray: "int64", Int32Array: "int32"}
_NUMBERS: dict[Any, str] = {float: "float64", int: "int64"}


def packed(fields: tuple[Any, ...]) -> IntArray:
    """The table of a NamedTuple's fields (fields,). The NamedTuple must outlive its use.

    Raises TypeError where an array is not what its annotation says, or not contiguous.
    """
    table = np.empty(len(fields), np.int64)
    for k, (value, (name, is_array, dtype)) in enumerate(
        zip(fields, schema(type(fields)), strict=True)
    ):
        if is_array:
            if value.dtype != dtype or not value.flags.c_contiguous:
                raise TypeError(f"{name} must be a contiguous array of {dtype}")
            table[k] = value.ctypes.data
        else:
            table[k : k + 1].view(dtype)[0] = value
    return table


def unpacked(table: IntArray, record: type) -> Any:
    """The NamedTuple in a kernel, its arrays as pointers: `simd.unpacked` takes its place."""
    raise NotImplementedError("only compiled code can unpack a table")


@cache
def schema(record: type) -> tuple[tuple[str, bool, str], ...]:
    """Name, whether it is an array, and dtype of each field."""
    hints = typing.get_type_hints(record)
    return tuple(
        (name, hint in _ARRAYS, _ARRAYS[hint] if hint in _ARRAYS else _NUMBERS[hint])
        for name, hint in hints.items()
    )
