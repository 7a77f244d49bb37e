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

import ctypes
import struct
import typing
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import FloatArray, IntArray

Int32Array = NDArray[np.int32]

_DOUBLE, _BITS = struct.Struct("d"), struct.Struct("q")
_FLOAT, _INT, _INT32 = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.int32)
_ARRAYS: dict[Any, np.dtype[Any]] = {FloatArray: _FLOAT, IntArray: _INT, Int32Array: _INT32}
_NUMBERS: dict[Any, np.dtype[Any]] = {float: _FLOAT, int: _INT}


def packed(fields: tuple[Any, ...]) -> IntArray:
    """The table of a NamedTuple's fields (fields,). The NamedTuple must outlive its use.

    Raises TypeError where an array is not what its annotation says, or not contiguous.
    """
    slots = []
    for value, (name, is_array, dtype) in zip(fields, schema(type(fields)), strict=True):
        if is_array:
            if value.dtype != dtype or not value.flags.c_contiguous:
                raise TypeError(f"{name} must be a contiguous array of {dtype}")
            slots.append(_address(value))
        elif dtype is _FLOAT:
            slots.append(_BITS.unpack(_DOUBLE.pack(value))[0])
        else:
            slots.append(value)
    return np.array(slots, np.int64)


def _address(array: Any) -> int:
    if not array.size or not array.flags.writeable:
        return int(array.ctypes.data)
    return ctypes.addressof(ctypes.c_char.from_buffer(array))  # a third of the time


def unpacked(table: IntArray, record: type) -> Any:
    """The NamedTuple in a kernel, its arrays as pointers: `simd.unpacked` takes its place."""
    raise NotImplementedError("only compiled code can unpack a table")


@cache
def schema(record: type) -> tuple[tuple[str, bool, np.dtype[Any]], ...]:
    """Name, whether it is an array, and dtype of each field."""
    hints = typing.get_type_hints(record)
    return tuple(
        (name, hint in _ARRAYS, _ARRAYS[hint] if hint in _ARRAYS else _NUMBERS[hint])
        for name, hint in hints.items()
    )
