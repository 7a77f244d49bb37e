"""What a kernel is compiled from, as one digest: the key under which it is kept on disk.

Taken in are the code of the kernel's function and of every function it uses, wherever it stands,
with constants, defaults and the values of global names; the fields of records; and the
files of those modules here that turn functions into machine code, byte by byte. What these
need not know, dates and places of files and the version of this package, does not count, so
an update of srs-eval compiles anew only what it changed.

A value whose change could go unnoticed, such as an object of a class unknown here, gives no
digest at all, and the kernel is not kept.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import sys
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, EllipsisType, FunctionType, ModuleType
from typing import Any

import numpy as np

from srs_eval.training import installed

MAKERS = (
    *("compile", "elementwise", "kernel_cache", "kernel_source", "records"),
    *("reverse_mode", "simd", "step_graph", "tracing"),
)
"""The modules that turn functions into machine code."""

_OTHERS = {"llvmlite", "numba", "numpy"}  # packages; numba looks at its own version
_PLAIN = (bool, int, float, complex, str, bytes, type(None), EllipsisType)


class _Unknown(Exception):
    """A value that may change without the digest."""


def kernel_digest(function: FunctionType, given: Mapping[str, Any] | None = None) -> str | None:
    """Digest of a kernel, `given` being what takes the place of its global names.

    None where it depends on something that cannot be told.
    """
    given = given or {}
    found = _Found()
    try:
        digest = hashlib.sha256(_makers().encode())
        found.add_function(function, given)
        for name in sorted(given):
            found.add(name, given[name])
        found.follow()
    except _Unknown:
        return None
    for line in found.lines:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()[:16]


@cache
def _makers() -> str:
    if installed.changed():  # the files tell nothing of the code in memory
        raise _Unknown
    digest = hashlib.sha256(np.__version__.encode())
    for name in MAKERS:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()


def _names(code: CodeType) -> set[str]:
    """The names in a function's code, and in that of functions within it: those of globals,
    and of attributes, which look alike.
    """
    return {name for part in _parts(code) for name in part.co_names}


def _parts(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)


_ELSEWHERE = {dis.opmap[name] for name in ("IMPORT_NAME", "LOAD_NAME", "LOAD_BUILD_CLASS")}


def _imports(code: CodeType) -> bool:
    """Whether it has names that come from elsewhere, of which its global names tell nothing."""
    return any(_ELSEWHERE & set(part.co_code[::2]) for part in _parts(code))


class _Found:
    """Lines that describe what was found; each function once, others refer to its number."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._number: dict[FunctionType, int] = {}
        self._waiting: list[FunctionType] = []

    def add(self, name: str, value: Any) -> None:
        self.lines.append(f"{name} = {self.described(value)}")

    def follow(self) -> None:
        """Adds the functions that were mentioned, and those that they mention."""
        while self._waiting:
            self.add_function(self._waiting.pop(0))

    def add_function(self, function: FunctionType, given: Mapping[str, Any] | None = None) -> None:
        if _imports(function.__code__):
            raise _Unknown
        self.lines.append(f"function {_code(function.__code__)}")
        self.add("defaults", (function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            self.add("cell", cell.cell_contents)
        for name in sorted(_names(function.__code__) - set(given or ())):
            if name in function.__globals__:
                self.add(name, function.__globals__[name])

    def described(self, value: Any) -> str:
        if isinstance(value, _PLAIN):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, tuple | list):
            return f"{type(value).__name__} ({', '.join(map(self.described, value))})"
        if isinstance(value, dict):
            return f"dict {self.described([*value.items()])}"
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
        if isinstance(value, np.dtype | np.ufunc):
            return repr(value)
        if isinstance(value, functools.partial):
            return f"partial {self.described((value.func, value.args, value.keywords))}"
        if isinstance(value, ModuleType):
            return _name_of_another(value.__name__)
        if isinstance(value, FunctionType) and not _is_another(value.__module__):
            if value not in self._number:
                self._number[value] = len(self._number)
                self._waiting.append(value)
            return f"function {self._number[value]}"
        if isinstance(value, FunctionType | BuiltinFunctionType):
            return _name_of_another(value.__module__) + value.__qualname__
        if isinstance(value, type):
            return _class(value)
        made_by = getattr(value, "_defn", None)  # an intrinsic of numba's
        if isinstance(made_by, FunctionType) and made_by.__module__ == f"{__package__}.simd":
            return f"intrinsic {made_by.__qualname__}"
        if isinstance(getattr(value, "py_func", None), FunctionType):  # numba's `njit` of one
            return f"compiled {self.described((value.py_func, value.targetoptions))}"
        raise _Unknown


def _is_another(module: str | None) -> bool:
    """Whether the module belongs to Python or to a package whose version is part of the key."""
    package = (module or "").partition(".")[0]
    return package in _OTHERS or package in sys.stdlib_module_names - {"__main__"}


def _name_of_another(module: str | None) -> str:
    if not _is_another(module):
        raise _Unknown
    return f"{module}."


def _class(value: type) -> str:
    if _is_another(value.__module__):
        return f"{value.__module__}.{value.__qualname__}"
    if not (issubclass(value, tuple) and hasattr(value, "_fields")):
        raise _Unknown
    hints = typing.get_type_hints(value)
    return f"record {value.__qualname__} {[(name, str(hints[name])) for name in value._fields]}"


def _code(code: CodeType) -> str:
    """All of a code object but its names for people: file, line and the function's name."""
    parts: list[Any] = [
        code.co_code.hex(),
        code.co_flags,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        getattr(code, "co_exceptiontable", b""),
    ]
    parts += [_constant(constant) for constant in code.co_consts]
    return repr(parts)


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))})"
    if isinstance(value, frozenset):
        return f"frozenset ({', '.join(sorted(map(_constant, value)))})"
    if isinstance(value, _PLAIN):
        return f"{type(value).__name__} {value!r}"
    raise _Unknown
