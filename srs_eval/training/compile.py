"""Compilation on first use, with a cache on disk that is never stale.

Functions stay plain Python in their files; `compiled` turns one into a numba
dispatcher, `_compiled_step` a step or its `Gradient` into instructions on vectors (`tracing`),
`specialised` a template that calls a model's steps. numba is imported at the first call of any
of them.

Kernels lie in a folder for this version of srs-eval, numba and Python and for the digest of all
sources that kernels are made from: after an update all are compiled once. Of functions from
elsewhere, the files below their file's folder are part of a kernel's key (`data.model_folder`).

NamedTuples of arrays and numbers are handed to a kernel as one table of addresses. numba takes
them as they are, too, but describes each array by seven values, and a kernel with thirty arrays
takes a second to compile for these alone. Here it gets a table with the address of each array and
the bits of each number:

    kernel(packed(batches))              in Python
    batches = unpacked(table, Batches)   in the kernel: a NamedTuple of pointers and numbers

What a field holds is read from the annotations of its class: FloatArray, IntArray, Int32Array,
float or int. A pointer has neither length nor shape; a kernel that needs them has them as fields.
"""

from __future__ import annotations

import ctypes
import dis
import errno
import hashlib
import os
import secrets
import shutil
import struct
import sys
import time
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.model_folder import read_model_folder
from srs_eval.data.paths import VERSION, cache_dir, content_digest
from srs_eval.data.reviews import FloatArray, IntArray

_PACKAGE = Path(__file__).parents[1]
_VIEWS = frozenset({"report", "tui", "app", "cli", "__main__"})
"""The entries that show figures: those of other entries do not depend on them."""
_WITH_KERNELS = ("training", "models", "advice/workload")
_OPTIONS = {"nogil": True, "error_model": "numpy"}
_UNUSED_SECONDS = 30 * 86_400  # folders that nobody used for so long go


def _stamps() -> dict[Path, tuple[int, int]]:
    """Date and size of the program's files."""
    found = {}
    with suppress(OSError):
        for path in _PACKAGE.rglob("*.py"):
            about = path.stat()
            found[path] = about.st_mtime_ns, about.st_size
    return found


_AT_FIRST = _stamps()


def changed() -> bool:
    """Whether the program's files are others than when this process began.

    An update leaves old code in memory beside new files; what comes of it must not be kept.
    """
    return _stamps() != _AT_FIRST


@cache
def program_digest(package: Path = _PACKAGE) -> str:
    """Of the whole package but its views, shipped weights included; nobody else's if `changed`."""
    if package == _PACKAGE and changed():
        return secrets.token_hex(32)
    files = (
        path
        for path in package.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and path.relative_to(package).parts[0].removesuffix(".py") not in _VIEWS
    )
    return content_digest(package, files)


@cache
def _folder_name() -> str:
    from importlib.metadata import version

    files = [path for part in _WITH_KERNELS for path in (_PACKAGE / part).glob("*.py")]
    digest = secrets.token_hex(32) if changed() else content_digest(_PACKAGE, files)
    python = f"py{sys.version_info[0]}{sys.version_info[1]}"
    return f"srs-eval{VERSION}-{digest[:16]}-numba{version('numba')}-{python}"


def _kernel_folder() -> Path:
    """Where kernels lie: in a person's own cache, or where somebody has chosen."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(chosen) if chosen else cache_dir() / "kernels") / _folder_name()


def kernels_there(name: str) -> bool:
    """Whether `mark_kernels` was called so, and no source of kernels has changed since."""
    return os.path.exists(_kernel_folder() / f"{name}.mark")


def mark_kernels(name: str) -> None:
    """Remember that all that is compiled for `name` is on disk; else it is announced again."""
    folder = _kernel_folder()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.mark").touch()


@cache
def _numba() -> tuple[Any, Path | None]:
    """numba, and the folder for kernels if it can be used."""
    import importlib

    numba = importlib.import_module("numba")
    folder = _kernel_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        if changed() or not os.access(folder, os.W_OK):
            return numba, None
        for other in [*folder.parent.glob("srs-eval*"), *folder.parent.glob("numba*-py*")]:
            if time.time() - other.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:
        return numba, None
    return numba, folder


def _described(value: Any) -> str:
    """What a kernel is made from, with `_folder_name` and `_own_digests` its key."""
    if not isinstance(value, FunctionType):
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{key}: {_described(value[key])}' for key in sorted(value))}}}"
        if isinstance(value, tuple | list):
            return f"({', '.join(map(_described, value))})"
        return repr(value)
    code, held = value.__code__, [each.cell_contents for each in value.__closure__ or ()]
    return f"{value.__module__}.{value.__qualname__}:{code.co_firstlineno} {_described(held)}"


def _files_of(value: Any) -> set[Path]:
    """The files of the functions in what `_described` describes."""
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, FunctionType):
        parts = [cell.cell_contents for cell in value.__closure__ or ()]
    elif isinstance(value, tuple | list):
        parts = list(value)
    else:
        return set()
    files = set[Path]().union(*map(_files_of, parts))
    if isinstance(value, FunctionType):
        files.add(Path(value.__code__.co_filename))
    return files


def _own_digests(value: Any) -> str:
    """Digests of the folders of somebody's own functions, "" where all are of this package.

    Raises OSError where nobody can tell: for a notebook's code, or a file in a folder too large.
    """
    digests = []
    for file in sorted(_files_of(value)):
        if _PACKAGE in file.parents:
            continue
        content = read_model_folder(file)
        if not content.is_whole:
            raise OSError(errno.EFBIG, "too many files beside it", str(file))
        digests.append(content.digest)
    return " ".join(digests)


def _copy(function: FunctionType, name: str, names: Mapping[str, Any]) -> FunctionType:
    made = FunctionType(
        function.__code__, {**function.__globals__, **names}, name, function.__defaults__
    )
    made.__qualname__ = name
    made.__module__ = function.__module__
    return made


def _dispatcher(function: FunctionType, name: str, names: Mapping[str, Any], made_of: Any) -> Any:
    """What numba makes of the function, kept on disk where its files can be read."""
    numba, folder = _numba()
    try:
        text = f"{_described((function, made_of))}{_own_digests((function, made_of))}"
    except OSError:
        text, folder = "", None
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    made = _copy(function, f"{name}_{digest}", names)
    dispatcher = numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(made)
    if folder is not None:
        dispatcher._cache = _cache_of(made, folder)
    return dispatcher


def _cache_of(function: FunctionType, folder: Path) -> Any:
    """numba's cache of one kernel, in a folder and under a name that hold all of its key.

    A damaged cache or a full disk only means compiling: numba writes its files without a sync, so a
    crash of the machine can leave them empty, and lets every error of reading and writing through.
    """
    from numba.core import caching

    class Results(caching.CompileResultCacheImpl):
        """numba's, without its search for a place."""

        def __init__(self, function: Any) -> None:
            self._lineno = function.__code__.co_firstlineno
            self._filename_base = function.__name__
            self._locator: Any = SimpleNamespace(
                get_cache_path=lambda: str(folder),
                get_source_stamp=str,
                ensure_cache_path=lambda: folder.mkdir(parents=True, exist_ok=True),
                _py_file=function.__code__.co_filename,  # named in numba's warnings
            )

    class Cache(caching.FunctionCache):
        _impl_class: Any = Results

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:
                with suppress(Exception):
                    self.flush()
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(Exception):
                if not changed():
                    super().save_overload(sig, data)

    return Cache(function)


@cache
def compiled(function: FunctionType) -> Any:
    """A model-independent kernel, compiled at its first call and kept on disk.

    Python functions of the same kind that it calls are compiled along with it.
    """
    names = _inner_names(function)
    return _dispatcher(function, function.__name__, names, ())


@cache
def _inner(function: FunctionType) -> Any:
    """What a kernel calls; without the ways in that only Python would use."""
    numba, _ = _numba()
    made = _copy(function, function.__name__, _inner_names(function))
    return numba.njit(no_cfunc_wrapper=True, no_cpython_wrapper=True, **_OPTIONS)(made)


def _inner_names(function: FunctionType) -> dict[str, Any]:
    names = {}
    for name, value in _called(function).items():
        if value is unpacked:
            from srs_eval.training import simd

            names[name] = simd.unpacked
        elif value is not function:
            names[name] = _inner(value)
    return names


class Gradient(NamedTuple):
    """The gradient of a step as a step of its own, see `tracing.adjoint`."""

    of: Callable[..., Any]
    by: tuple[str, ...]  # names of arguments
    w: str | None = None
    parameters: int | None = None


@cache
def _compiled_step(step: Callable[..., Any] | Gradient) -> Any:
    """A step (see `recurrent`) or its gradient for use in a kernel, where it is inlined."""
    from srs_eval.training.tracing import traced

    return traced(as_function(step))


def as_function(step: Callable[..., Any] | Gradient) -> Callable[..., Any]:
    """On the values of `tracing`."""
    if not isinstance(step, Gradient):
        return step
    from srs_eval.training.tracing import adjoint

    return adjoint(*step)


def specialised(
    template: Callable[..., Any],
    name: str,
    steps: Mapping[str, Callable[..., Any] | Gradient],
    constants: Mapping[str, int],
    taped: Sequence[str] = (),
    kernels: Mapping[str, Any] | None = None,
) -> Any:
    """The template compiled with its global names `steps` and `constants` replaced.

    Each step named in `taped` shares a tape (`tracing.taped`) with its gradient, which is called
    `success_adjoint` for `success`. `kernels` are what this function returned for other
    templates, which this one calls.
    """
    from srs_eval.training import tracing

    assert isinstance(template, FunctionType)
    kernels = kernels or {}
    names: dict[str, Any] = {**_inner_names(template), **constants, **kernels}
    names |= {key: _compiled_step(step) for key, step in steps.items()}
    for key in taped:
        pair = as_function(steps[key]), as_function(steps[f"{key}_adjoint"])
        names[key], names[f"{key}_adjoint"] = tracing.taped(*pair)
    called = {key: kernel.py_func.__name__ for key, kernel in kernels.items()}  # with their keys
    made_of = ({**constants, **steps, **called}, tuple(taped))
    return _dispatcher(template, f"{template.__name__}_{name}", names, made_of)


def _called(function: FunctionType) -> dict[str, FunctionType]:
    """The Python functions that a function uses by their global names."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(function)
        if instruction.opname == "LOAD_GLOBAL"
    }
    found = ((name, function.__globals__.get(name)) for name in sorted(names))
    return {name: value for name, value in found if isinstance(value, FunctionType)}


# NamedTuples as tables

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
