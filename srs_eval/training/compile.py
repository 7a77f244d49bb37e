"""Compilation on first use, with a cache on disk that is never stale.

Functions stay plain Python in their files; `compiled` turns one into a numba
dispatcher, `_compiled_step` a step or its `Gradient` into instructions on vectors (`tracing`),
`specialised` a template that calls a model's steps. numba is imported at the first call of any
of them.

Kernels lie in a folder for this version of srs-eval, numba and Python and for the digest of all
sources that kernels are made from: after an update all are compiled once. Of functions from
elsewhere, the Python files beside theirs are part of a kernel's key.
"""

from __future__ import annotations

import dis
import hashlib
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from srs_eval.data.paths import VERSION, cache_dir, content_digest
from srs_eval.training import records

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


def own_digest(path: Path) -> str:
    """Of a Python file, by its name, and of those beside it, also in folders there, which it may
    import."""
    beside = (each for kind in ("*.py", "*/*.py") for each in path.parent.glob(kind))
    readable = (each for each in beside if each.is_file() and os.access(each, os.R_OK))
    content = content_digest(path.parent, {path, *readable})
    return hashlib.sha256(f"{path.name}:{content}".encode()).hexdigest()


def _described(value: Any) -> str:
    """What a kernel is made from, with `_folder_name` its key."""
    if not isinstance(value, FunctionType):
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{key}: {_described(value[key])}' for key in sorted(value))}}}"
        if isinstance(value, tuple | list):
            return f"({', '.join(map(_described, value))})"
        return repr(value)
    code, held = value.__code__, [each.cell_contents for each in value.__closure__ or ()]
    text = f"{value.__module__}.{value.__qualname__}:{code.co_firstlineno} {_described(held)}"
    file = Path(code.co_filename)
    return text if _PACKAGE in file.parents else f"{text} {own_digest(file)}"


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
        text = _described((function, made_of))
    except OSError:  # from a notebook, say
        text, folder = "", None
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    made = _copy(function, f"{name}_{digest}", names)
    dispatcher = numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(made)
    if folder is not None:
        from srs_eval.training.kernel_cache import KernelCache

        dispatcher._cache = KernelCache(made, folder)
    return dispatcher


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
        if value is records.unpacked:
            from srs_eval.training import simd

            names[name] = simd.unpacked
        elif value is not function:
            names[name] = _inner(value)
    return names


class Gradient(NamedTuple):
    """The gradient of a step as a step of its own, see `reverse_mode.adjoint`."""

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
    from srs_eval.training.reverse_mode import adjoint

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
