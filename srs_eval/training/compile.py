"""Compilation on first use, with a cache on disk that is never stale.

Functions stay plain Python in their files; `compile_kernel` turns one into a numba
dispatcher, `_compile_step` a step or its `Gradient` into instructions on vectors (`tracing`),
`specialise` a template that calls a model's steps. numba is imported at the first call of any
of them.

Kernels are stored in a folder named after the versions of srs-eval, numba and Python and the digest
of all sources that kernels are made from, so each is compiled once more after an update. If a
kernel uses a function of another program, such as a user's model, the content of that function's
folder is part of the kernel's key (`data.model_folder`).
"""

from __future__ import annotations

import dis
import errno
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
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

from srs_eval.data.file_contents import digest_files
from srs_eval.data.model_folder import read_model_folder
from srs_eval.data.paths import VERSION, cache_dir
from srs_eval.training.packing import unpack

_PACKAGE = Path(__file__).parents[1]
_VIEW_PACKAGES = frozenset({"report", "tui", "app", "cli", "__main__"})
"""Entries of the package that only show figures: the figures do not depend on them."""
_KERNEL_PACKAGES = ("training", "models", "advice/workload")
_NUMBA_OPTIONS = {"nogil": True, "error_model": "numpy"}
_KEEP_UNUSED_SECONDS = 30 * 86_400  # folders that have not been used for so long are deleted


def _read_file_stamps() -> dict[Path, tuple[int, int]]:
    """Return the modification time in ns and the size of each of the program's files."""
    stamps = {}
    with suppress(OSError):
        for path in _PACKAGE.rglob("*.py"):
            status = path.stat()
            stamps[path] = (status.st_mtime_ns, status.st_size)
    return stamps


_STAMPS_AT_START = _read_file_stamps()


def is_program_changed() -> bool:
    """Return whether the program's files have changed since this process began.

    An update leaves old code in memory beside new files; its results must not be stored.
    """
    return _read_file_stamps() != _STAMPS_AT_START


@cache
def compute_program_digest(package: Path = _PACKAGE) -> str:
    """Return the digest of the whole package except its views, shipped weights included.

    Once the program's files have changed, it is a random one that no other process has.
    """
    if package == _PACKAGE and is_program_changed():
        return secrets.token_hex(32)
    files = (
        path
        for path in package.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and path.relative_to(package).parts[0].removesuffix(".py") not in _VIEW_PACKAGES
    )
    return digest_files(package, files)


@cache
def _kernel_folder_name() -> str:
    from importlib.metadata import version

    files: list[Path] = []
    for package in _KERNEL_PACKAGES:
        files.extend((_PACKAGE / package).glob("*.py"))
    digest = secrets.token_hex(32) if is_program_changed() else digest_files(_PACKAGE, files)
    python = f"py{sys.version_info[0]}{sys.version_info[1]}"
    return f"srs-eval{VERSION}-{digest[:16]}-numba{version('numba')}-{python}"


def _kernel_folder() -> Path:
    """Return the folder of the kernels, in the user's cache or in NUMBA_CACHE_DIR."""
    variable = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(variable) if variable else cache_dir() / "kernels"
    return folder / _kernel_folder_name()


def has_kernels(name: str) -> bool:
    """Return whether `mark_kernels` was called for `name` with the present kernel sources."""
    return os.path.exists(_kernel_folder() / f"{name}.mark")


def mark_kernels(name: str) -> None:
    """Record that all kernels for `name` are on disk, so that no compilation is announced."""
    folder = _kernel_folder()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.mark").touch()


@cache
def _import_numba() -> tuple[Any, Path | None]:
    """Return numba and the folder for kernels, or None if that cannot be used.

    Marks the folder as used now, and deletes the ones that have not been used for long.
    """
    import importlib

    numba = importlib.import_module("numba")
    folder = _kernel_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        if is_program_changed() or not os.access(folder, os.W_OK):
            return numba, None
        # Older versions began the names of these folders with "numba".
        for kernel_folder in [*folder.parent.glob("srs-eval*"), *folder.parent.glob("numba*-py*")]:
            if time.time() - kernel_folder.stat().st_mtime > _KEEP_UNUSED_SECONDS:
                shutil.rmtree(kernel_folder, ignore_errors=True)
    except OSError:
        return numba, None
    return numba, folder


def _describe_for_key(value: Any) -> str:
    """Describe functions, constants or collections of them that a kernel is made from.

    The text identifies them together with `_kernel_folder_name` and `_digest_foreign_code`, which
    stand for the code.
    """
    if isinstance(value, Mapping):
        items = [f"{key}: {_describe_for_key(value[key])}" for key in sorted(value)]
        return f"{{{', '.join(items)}}}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_describe_for_key, value))})"
    if not isinstance(value, FunctionType):
        return repr(value)
    line = value.__code__.co_firstlineno
    closure = [cell.cell_contents for cell in value.__closure__ or ()]
    return f"{value.__module__}.{value.__qualname__}:{line} {_describe_for_key(closure)}"


def _find_source_files(value: Any) -> set[Path]:
    """Return the files of the functions in a value that `_describe_for_key` describes."""
    if isinstance(value, Mapping):
        contents = list(value.values())
    elif isinstance(value, FunctionType):
        contents = [cell.cell_contents for cell in value.__closure__ or ()]
    elif isinstance(value, tuple | list):
        contents = list(value)
    else:
        return set()
    files: set[Path] = set()
    for content in contents:
        files |= _find_source_files(content)
    if isinstance(value, FunctionType):
        files.add(Path(value.__code__.co_filename))
    return files


def _digest_foreign_code(value: Any) -> str:
    """Return digests of the folders of user-supplied functions, "" if all are of this package.

    Raises OSError if no digest is possible: for a notebook's code, or a folder that is too large.
    """
    digests = []
    for file in sorted(_find_source_files(value)):
        if _PACKAGE in file.parents:
            continue
        content = read_model_folder(file)
        if not content.is_complete:
            raise OSError(errno.EFBIG, "too many files beside it", str(file))
        digests.append(content.digest)
    return " ".join(digests)


def _copy_function(
    function: FunctionType, name: str, global_names: Mapping[str, Any]
) -> FunctionType:
    """Copy a function under another name, with some of its global names replaced."""
    function_copy = FunctionType(
        function.__code__, {**function.__globals__, **global_names}, name, function.__defaults__
    )
    function_copy.__qualname__ = name
    function_copy.__module__ = function.__module__
    return function_copy


def _make_dispatcher(
    function: FunctionType, name: str, global_names: Mapping[str, Any], key_parts: Any
) -> Any:
    """Return numba's dispatcher for the function, cached on disk if its sources can be read."""
    numba, folder = _import_numba()
    try:
        key = _describe_for_key((function, key_parts)) + _digest_foreign_code((function, key_parts))
    except OSError:
        key = ""
        folder = None
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    kernel_function = _copy_function(function, f"{name}_{digest}", global_names)
    dispatcher = numba.njit(no_cfunc_wrapper=True, **_NUMBA_OPTIONS)(kernel_function)
    if folder is not None:
        dispatcher._cache = _make_kernel_cache(kernel_function, folder)
    return dispatcher


def _make_kernel_cache(function: FunctionType, folder: Path) -> Any:
    """Return numba's cache of one kernel, in a folder and under a name that hold its whole key.

    With a damaged cache or a full disk the kernel is merely compiled again. numba itself would
    fail: it raises all errors of reading and writing, and its files can be empty after a crash of
    the machine, since it writes them without a sync.
    """
    from numba.core import caching

    class _KernelCacheFiles(caching.CompileResultCacheImpl):
        """numba's cache files, without its search for a folder."""

        def __init__(self, function: Any) -> None:
            self._lineno = function.__code__.co_firstlineno
            self._filename_base = function.__name__
            self._locator: Any = SimpleNamespace(
                get_cache_path=lambda: str(folder),
                get_source_stamp=str,  # always the same: the name holds the whole key
                ensure_cache_path=lambda: folder.mkdir(parents=True, exist_ok=True),
                _py_file=function.__code__.co_filename,  # named in numba's warnings
            )

    class Cache(caching.FunctionCache):
        _impl_class: Any = _KernelCacheFiles

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:
                with suppress(Exception):
                    self.flush()
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(Exception):
                if not is_program_changed():
                    super().save_overload(sig, data)

    return Cache(function)


@cache
def compile_kernel(function: FunctionType) -> Any:
    """Compile a model-independent kernel at its first call and keep it on disk.

    The Python functions that it calls are compiled along with it.
    """
    names = _compile_called_functions(function)
    return _make_dispatcher(function, function.__name__, names, ())


@cache
def _compile_inner(function: FunctionType) -> Any:
    """Compile a function that a kernel calls, without entry points for Python."""
    numba, _ = _import_numba()
    inner_function = _copy_function(
        function, function.__name__, _compile_called_functions(function)
    )
    compile_inner = numba.njit(no_cfunc_wrapper=True, no_cpython_wrapper=True, **_NUMBA_OPTIONS)
    return compile_inner(inner_function)


def _compile_called_functions(function: FunctionType) -> dict[str, Any]:
    """Return the functions that a function calls, ready to be compiled, by their global names."""
    names = {}
    for name, value in _find_called_functions(function).items():
        if value is unpack:
            from srs_eval.training import simd

            names[name] = simd.unpack
        elif value is not function:
            names[name] = _compile_inner(value)
    return names


class Gradient(NamedTuple):
    """The gradient of a step, which is a step itself; see `tracing.derive_adjoint`."""

    of: Callable[..., Any]  # the step
    by: tuple[str, ...]  # names of the arguments whose gradients it returns
    w: str | None = None  # name of the argument with parameters, whose gradients it adds up
    parameters: int | None = None  # number of values in w that are parameters; None for all


@cache
def _compile_step(step: Callable[..., Any] | Gradient) -> Any:
    """Make a step (see `recurrent`) or its gradient callable in kernels, which inline it."""
    from srs_eval.training.tracing import trace_step

    return trace_step(to_function(step))


def to_function(step: Callable[..., Any] | Gradient) -> Callable[..., Any]:
    """Return a step or its gradient as a function on the values of `tracing`."""
    if not isinstance(step, Gradient):
        return step
    from srs_eval.training.tracing import derive_adjoint

    return derive_adjoint(*step)


def specialise(
    template: Callable[..., Any],
    name: str,
    steps: Mapping[str, Callable[..., Any] | Gradient],
    constants: Mapping[str, int],
    taped: Sequence[str] = (),
    kernels: Mapping[str, Any] | None = None,
) -> Any:
    """Compile a template, with `steps` and `constants` in place of its global names.

    Each step named in `taped` shares a tape (`tracing.trace_with_tape`) with its gradient, which
    is the step `success_adjoint` for `success`. `kernels` are results of this function for other
    templates, which this one calls by their names there.
    """
    from srs_eval.training import tracing

    assert isinstance(template, FunctionType)
    kernels = kernels or {}
    names: dict[str, Any] = {**_compile_called_functions(template), **constants, **kernels}
    names |= {key: _compile_step(step) for key, step in steps.items()}
    for key in taped:
        step = to_function(steps[key])
        adjoint = to_function(steps[f"{key}_adjoint"])
        names[key], names[f"{key}_adjoint"] = tracing.trace_with_tape(step, adjoint)
    # A kernel's name contains its key, so its name is enough here.
    kernel_names = {key: kernel.py_func.__name__ for key, kernel in kernels.items()}
    key_parts = ({**constants, **steps, **kernel_names}, tuple(taped))
    return _make_dispatcher(template, f"{template.__name__}_{name}", names, key_parts)


def _find_called_functions(function: FunctionType) -> dict[str, FunctionType]:
    """Return the Python functions that a function refers to, by their global names."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(function)
        if instruction.opname == "LOAD_GLOBAL"
    }
    functions = {}
    for name in sorted(names):
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType):
            functions[name] = value
    return functions
