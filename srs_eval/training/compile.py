"""Compilation on first use, with a cache on disk that is never stale.

Functions stay plain Python in their files; `compiled` turns one into a numba
dispatcher, `compiled_step` a step or its `Gradient` into instructions on vectors (`tracing`),
`specialised` a template that calls a model's steps. numba is imported at the first call of any
of them.

Kernels lie in a folder for numba's and Python's version under the user's cache folder,
each under the digest of all that it is compiled from (`kernel_source`), which is also part of
its name. So an update of srs-eval compiles anew what it changed, and nothing else.
"""

from __future__ import annotations

import dis
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from srs_eval.data.paths import cache_dir
from srs_eval.training import records
from srs_eval.training.kernel_source import kernel_digest

_OPTIONS = {"nogil": True, "error_model": "numpy"}
_UNUSED_SECONDS = 30 * 86_400  # what nobody used for so long goes
_NOT_KEPT = "not_kept"  # stands for a kernel's digest where there is none


def kernel_folder() -> Path:
    """Where kernels lie, for this version of numba and of Python."""
    if os.environ.get("NUMBA_CACHE_DIR"):  # someone has chosen
        return Path(os.environ["NUMBA_CACHE_DIR"])
    from importlib.metadata import version

    python = f"py{sys.version_info[0]}{sys.version_info[1]}"
    return cache_dir() / "kernels" / f"numba{version('numba')}-{python}"


@cache
def _numba() -> tuple[Any, Path | None]:
    """numba, and the folder for kernels if it can be used."""
    import importlib

    numba = importlib.import_module("numba")
    folder = kernel_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        if not os.access(folder, os.W_OK):
            return numba, None
        if not os.environ.get("NUMBA_CACHE_DIR"):
            _remove_unused(folder)
    except OSError:
        return numba, None
    return numba, folder


def _remove_unused(folder: Path) -> None:
    """Kernels of older versions, and the folders of other versions of numba and Python."""
    import shutil

    long_ago = time.time() - _UNUSED_SECONDS
    for path in [*folder.parent.iterdir(), *folder.glob("*.nbi"), *folder.glob("*.mark")]:
        try:
            if path.stat().st_mtime > long_ago:
                continue
            if path.is_dir():
                shutil.rmtree(path)
                continue
            for data in folder.glob(f"{path.stem}.*.nbc"):  # an index names its kernels
                data.unlink()
            path.unlink()
        except OSError:
            pass  # another process was first


def _copy(function: FunctionType, name: str, names: Mapping[str, Any]) -> FunctionType:
    made = FunctionType(
        function.__code__, {**function.__globals__, **names}, name, function.__defaults__
    )
    made.__qualname__ = name
    made.__module__ = function.__module__
    return made


def _dispatcher(
    function: FunctionType, name: str, names: Mapping[str, Any], digest: str | None
) -> Any:
    """What numba makes of the function; None for a digest: it is not kept on disk."""
    numba, folder = _numba()
    made = _copy(function, f"{name}_{digest or _NOT_KEPT}", names)
    dispatcher = numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(made)
    if digest is not None and folder is not None:
        from srs_eval.training.kernel_cache import KernelCache

        dispatcher._cache = KernelCache(made, folder, digest)
    return dispatcher


@cache
def compiled(function: FunctionType) -> Any:
    """A model-independent kernel, compiled at its first call and kept on disk.

    Python functions of the same kind that it calls are compiled along with it.
    """
    names = _inner_names(function)
    return _dispatcher(function, function.__name__, names, kernel_digest(function))


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
def compiled_step(step: Callable[..., Any] | Gradient) -> Any:
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
    names |= {key: compiled_step(step) for key, step in steps.items()}
    for key in taped:
        pair = as_function(steps[key]), as_function(steps[f"{key}_adjoint"])
        names[key], names[f"{key}_adjoint"] = tracing.taped(*pair)
    called = {key: kernel.py_func.__name__ for key, kernel in kernels.items()}
    digest = kernel_digest(template, {**constants, **steps, **called, "taped": tuple(taped)})
    if any(each.endswith(_NOT_KEPT) for each in called.values()):  # else a name holds its digest
        digest = None
    return _dispatcher(template, f"{template.__name__}_{name}", names, digest)


def _called(function: FunctionType) -> dict[str, FunctionType]:
    """The Python functions that a function uses by their global names."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(function)
        if instruction.opname == "LOAD_GLOBAL"
    }
    found = ((name, function.__globals__.get(name)) for name in sorted(names))
    return {name: value for name, value in found if isinstance(value, FunctionType)}
