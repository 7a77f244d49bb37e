"""Compilation on first use, with a cache on disk that is never stale.

Functions stay plain Python in their files; `compiled` turns one into a numba
dispatcher, `compiled_step` a step into instructions on vectors (`tracing`), `specialised`
a template that calls a model's steps. numba is imported at the first call of any of them.

The cache is a folder per content of the kernel sources (and numba's and Python's
version) under the user's cache folder. numba notices a change only in the file of
the outermost function, so the content's hash is also part of every function's name.
"""

from __future__ import annotations

import contextlib
import dis
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from srs_eval.fitting import records
from srs_eval.places import cache_dir

_OPTIONS = {"nogil": True, "error_model": "numpy"}
_UNUSED_SECONDS = 30 * 86_400  # a cache folder untouched for so long goes


def kernels_there(name: str) -> bool:
    """Whether `mark_kernels` was called with this name by this version on this machine."""
    try:
        return _mark(name).exists()
    except OSError:
        return False


@cache
def mark_kernels(name: str) -> None:
    """Remember that all that is compiled for `name` is on disk."""
    try:
        mark = _mark(name)
        if mark.parent.is_dir():
            mark.touch()
    except OSError:
        pass  # it will be announced again


def _mark(name: str) -> Path:
    return _kernel_folder() / f"{_models_hash()}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


@cache
def _models_hash() -> str:
    package = Path(__file__).parents[1]
    return _hash(sorted([*package.glob("fitting/*.py"), *package.glob("models/*.py")]))


def _kernel_folder() -> Path:
    if os.environ.get("NUMBA_CACHE_DIR"):  # someone has chosen
        return Path(os.environ["NUMBA_CACHE_DIR"])
    from importlib.metadata import version

    python = f"py{sys.version_info[0]}{sys.version_info[1]}"
    return cache_dir() / "kernels" / f"{source_hash()}-numba{version('numba')}-{python}"


@cache
def source_hash() -> str:
    """Hash of the sources that every compiled function may depend on."""
    return _hash(sorted(Path(__file__).parent.glob("*.py")))


def _hash(paths: Iterable[Path], more: str = "") -> str:
    digest = hashlib.sha256(more.encode())
    for path in paths:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def _numba() -> tuple[Any, bool]:
    """numba, and whether its disk cache can be used."""
    import importlib

    numba = importlib.import_module("numba")

    if numba.config.CACHE_DIR:  # NUMBA_CACHE_DIR
        return numba, True
    folder = _kernel_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        if not os.access(folder, os.W_OK):
            return numba, False
    except OSError:
        return numba, False
    _remove_unused(folder.parent)
    numba.config.CACHE_DIR = str(folder)
    return numba, True


def _remove_unused(parent: Path) -> None:
    import shutil

    now = time.time()
    for folder in parent.iterdir():
        try:
            if now - folder.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(folder)
        except OSError:
            pass  # another process was first


def _copy(function: FunctionType, name: str, names: Mapping[str, Any]) -> FunctionType:
    made = FunctionType(
        function.__code__, {**function.__globals__, **names}, name, function.__defaults__
    )
    made.__qualname__ = f"{name}_{source_hash()}"
    made.__module__ = function.__module__
    return made


@cache
def compiled(function: FunctionType) -> Any:
    """A model-independent kernel, compiled at its first call and kept on disk.

    Python functions of the same kind that it calls are compiled along with it.
    """
    numba, disk = _numba()
    made = _copy(function, function.__name__, _inner_names(function))
    return _forgiving(numba.njit(cache=disk, no_cfunc_wrapper=True, **_OPTIONS)(made))


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
            from srs_eval.fitting import simd

            names[name] = simd.unpacked
        elif value is not function:
            names[name] = _inner(value)
    return names


@cache
def compiled_step(function: FunctionType) -> Any:
    """A step or adjoint (see `recurrent`) for use in a kernel, where it is inlined."""
    from srs_eval.fitting.tracing import traced

    return traced(function)


def specialised(
    template: Callable[..., Any],
    name: str,
    steps: Mapping[str, Callable[..., Any]],
    constants: Mapping[str, int],
    taped: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] | None = None,
    kernels: Mapping[str, Any] | None = None,
) -> Any:
    """The template compiled with its global names `steps` and `constants` replaced.

    `taped` are steps with their adjoints, which share a tape (`tracing.taped`); the adjoint of
    `success` is called `success_adjoint`. `kernels` are what this function returned for other
    templates, which this one calls. Every `name` must be unique: it is the name in the disk
    cache.
    """
    from srs_eval.fitting import tracing

    numba, disk = _numba()
    assert isinstance(template, FunctionType)
    files: set[Path] = {Path(template.__code__.co_filename)}
    names: dict[str, Any] = {**_inner_names(template), **constants, **(kernels or {})}
    for key, step in steps.items():
        assert isinstance(step, FunctionType)
        _add_files(step, files)
        names[key] = compiled_step(step)
    for key, pair in (taped or {}).items():
        for step in pair:
            assert isinstance(step, FunctionType)
            _add_files(step, files)
        names[key], names[f"{key}_adjoint"] = tracing.taped(*pair)
    called = "".join(sorted(kernel.__name__ for kernel in (kernels or {}).values()))
    unique = f"{template.__name__}_{name}_{_hash(sorted(files), called)}"
    made = _copy(template, unique, names)
    return _forgiving(numba.njit(cache=disk, no_cfunc_wrapper=True, **_OPTIONS)(made))


def _forgiving(dispatcher: Any) -> Any:
    """The dispatcher, for which a damaged cache or a full disk only means compiling.

    numba writes its files without a sync, so a crash of the machine can leave them empty, and
    lets every error of reading and writing them through.
    """
    kept = dispatcher._cache
    load, save = kept.load_overload, kept.save_overload

    def load_or_nothing(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception:
            with contextlib.suppress(Exception):
                kept.flush()
            return None

    def save_or_not(*arguments: Any) -> None:
        with contextlib.suppress(Exception):
            save(*arguments)

    kept.load_overload, kept.save_overload = load_or_nothing, save_or_not
    return dispatcher


def _add_files(function: FunctionType, files: set[Path]) -> None:
    files.add(Path(function.__code__.co_filename))
    for value in _called(function).values():
        _add_files(value, files)


def _called(function: FunctionType) -> dict[str, FunctionType]:
    """The Python functions that a function uses by their global names."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(function)
        if instruction.opname == "LOAD_GLOBAL"
    }
    found = ((name, function.__globals__.get(name)) for name in sorted(names))
    return {name: value for name, value in found if isinstance(value, FunctionType)}
