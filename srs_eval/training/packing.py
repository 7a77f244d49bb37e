"""Hand NamedTuples of arrays and numbers to kernels as one table of addresses.

numba takes NamedTuples as they are, too, but describes each array by seven values, and a kernel
with thirty arrays takes a second to compile for these alone. Here it gets a table of the addresses
of arrays and the bits of numbers instead:

    kernel(pack(batches))              in Python
    batches = unpack(table, Batches)   in the kernel: a NamedTuple of pointers and numbers

A field's content follows from its annotation in the class: FloatArray, Float32Array, IntArray,
Int32Array, float or int. A pointer has neither length nor shape; a kernel that needs them has them
as fields.
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
Float32Array = NDArray[np.float32]
_DOUBLE_STRUCT = struct.Struct("d")
_INT_STRUCT = struct.Struct("q")
_FLOAT = np.dtype(np.float64)
_INT = np.dtype(np.int64)
_ARRAY_DTYPES: dict[Any, np.dtype[Any]] = {
    FloatArray: _FLOAT,
    Float32Array: np.dtype(np.float32),
    IntArray: _INT,
    Int32Array: np.dtype(np.int32),
}
_NUMBER_DTYPES: dict[Any, np.dtype[Any]] = {float: _FLOAT, int: _INT}


def pack(fields: tuple[Any, ...]) -> IntArray:
    """Return the table of a NamedTuple's fields (fields,). The NamedTuple must outlive it.

    Raises TypeError if an array does not match its annotation or is not contiguous.
    """
    slots = []
    for value, (name, is_array, dtype) in zip(fields, field_schema(type(fields)), strict=True):
        if is_array:
            if value.dtype != dtype or not value.flags.c_contiguous:
                raise TypeError(f"{name} must be a contiguous array of {dtype}")
            slots.append(_address_of(value))
        elif dtype is _FLOAT:
            slots.append(_INT_STRUCT.unpack(_DOUBLE_STRUCT.pack(value))[0])
        else:
            slots.append(value)
    return np.array(slots, np.int64)


def _address_of(array: Any) -> int:
    if not array.size or not array.flags.writeable:  # what `from_buffer` refuses
        return int(array.ctypes.data)
    return ctypes.addressof(ctypes.c_char.from_buffer(array))  # a third of the time


def unpack(table: IntArray, record: type) -> Any:
    """Return the NamedTuple in a kernel, its arrays as pointers; `simd.unpack` replaces this."""
    raise NotImplementedError("only compiled code can unpack a table")


@cache
def field_schema(record: type) -> tuple[tuple[str, bool, np.dtype[Any]], ...]:
    """Return the name of each field, whether it is an array, and its dtype."""
    schema = []
    for name, hint in typing.get_type_hints(record).items():
        is_array = hint in _ARRAY_DTYPES
        dtype = _ARRAY_DTYPES[hint] if is_array else _NUMBER_DTYPES[hint]
        schema.append((name, is_array, dtype))
    return tuple(schema)
