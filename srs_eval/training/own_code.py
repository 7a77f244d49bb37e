"""Isolate the settings of the whole process that user-supplied code may change.

A model file may go to another folder, make double precision torch's default or seed numpy's random
numbers. It is free to do so, but these settings belong to the process: other models would be
evaluated with them, and results would be written to another place. So `isolate_settings` surrounds
every call of such code. The code finds the settings as it left them the last time; after it, they
are as they were before.

If such code is the first to import a library, the library's original settings are noted right
after the import and restored like the others.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np


@dataclass(frozen=True)
class _Setting:
    """A setting that all code of a process shares."""

    library: str  # until it is imported, there is nothing to set
    read: Callable[[], Any]
    write: Callable[[Any], object]


def _working_folder() -> str | None:
    """Return the working folder, or None if it has been deleted."""
    with suppress(OSError):
        return os.getcwd()
    return None


def _change_folder(folder: str | None) -> None:
    with suppress(OSError):
        if folder is not None and folder != _working_folder():
            os.chdir(folder)


_FIXED_VARIABLE = "NUMBA_NUM_THREADS"
"""numba refuses to change this once its threads have been started; our kernels use no threads."""


def _set_environment(variables: dict[str, str]) -> None:
    for name in os.environ.keys() - variables.keys() - {_FIXED_VARIABLE}:
        del os.environ[name]
    for name, value in variables.items():
        if name != _FIXED_VARIABLE and os.environ.get(name) != value:
            os.environ[name] = value


def _numba_configuration() -> dict[str, Any]:
    from numba.core import config

    values = {name: value for name, value in vars(config).items() if name.isupper()}
    values.pop(_FIXED_VARIABLE, None)
    return values


def _set_numba_configuration(values: dict[str, Any]) -> None:
    from numba.core import config

    for name, value in values.items():
        setattr(config, name, value)


def _numba_threads() -> int | None:
    """Return numba's number of threads, or None before it starts them, since asking would do so."""
    import numba

    parallel = sys.modules.get("numba.np.ufunc.parallel")
    return numba.get_num_threads() if getattr(parallel, "_is_initialized", False) else None


def _set_numba_threads(number: int | None) -> None:
    import numba
    from numba.core import config

    if _numba_threads() is not None:
        numba.set_num_threads(number or getattr(config, _FIXED_VARIABLE))


def _torch_settings() -> dict[str, Any]:
    import torch

    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
    }


def _set_torch_settings(settings: dict[str, Any]) -> None:
    """Set only what differs: a default device slows torch down, even if it is the usual one."""
    import torch

    current = _torch_settings()
    if current["dtype"] != settings["dtype"]:
        torch.set_default_dtype(settings["dtype"])
    if current["device"] != settings["device"]:
        is_cpu = settings["device"] == torch.device("cpu")  # then set none, which is faster
        torch.set_default_device(None if is_cpu else settings["device"])
    if current["gradients"] != settings["gradients"]:
        torch.set_grad_enabled(settings["gradients"])
    if current["threads"] != settings["threads"]:
        torch.set_num_threads(settings["threads"])
    if current["precision"] != settings["precision"]:
        torch.set_float32_matmul_precision(settings["precision"])
    if current["deterministic"] != settings["deterministic"]:
        is_deterministic, warn_only = settings["deterministic"]
        torch.use_deterministic_algorithms(is_deterministic, warn_only=warn_only)


def _torch_random() -> Any:
    import torch

    return torch.get_rng_state()


def _set_torch_random(state: Any) -> None:
    import torch

    torch.set_rng_state(state)


def _sklearn_settings() -> dict[str, Any]:
    import sklearn

    return sklearn.get_config()


def _set_sklearn_settings(settings: dict[str, Any]) -> None:
    import sklearn

    sklearn.set_config(**settings)


def _numpy_random() -> Any:
    """Return the state of the random numbers that all code shares, which `np.random.seed` sets."""
    return np.random.get_state(legacy=False)  # noqa: NPY002


_SETTINGS: Sequence[_Setting] = (
    _Setting("os", _working_folder, _change_folder),
    _Setting("os", lambda: dict(os.environ), _set_environment),
    _Setting("random", random.getstate, random.setstate),
    _Setting("numpy", np.geterr, lambda errors: np.seterr(**errors)),
    _Setting("numpy", np.geterrcall, np.seterrcall),
    _Setting("numpy", np.get_printoptions, lambda options: np.set_printoptions(**options)),
    _Setting("numpy", _numpy_random, np.random.set_state),
    _Setting("numba", _numba_configuration, _set_numba_configuration),
    _Setting("numba", _numba_threads, _set_numba_threads),
    _Setting("torch", _torch_settings, _set_torch_settings),
    _Setting("torch", _torch_random, _set_torch_random),
    _Setting("sklearn", _sklearn_settings, _set_sklearn_settings),
)
_LAZY_LIBRARIES = frozenset(("numba", "torch", "sklearn"))

_Values = dict[_Setting, Any]
_settings_of_owner: dict[Hashable, _Values] = {}
"""The settings as each owner's code left them."""
_running_owner: ContextVar[Hashable] = ContextVar("_running_owner", default=None)
"""The owner of the code that is running; None for code without an owner."""


@contextmanager
def isolate_settings(owner: Hashable | None) -> Iterator[None]:
    """Run an owner's code with its own settings of the process, then restore the old ones.

    An owner is a value that distinguishes one model file from another. None stands for the code of
    a notebook, which runs with the current settings.
    """
    if owner is not None and _running_owner.get() == owner:
        yield
        return
    original_settings = _read_settings()
    imports = _FirstImports(original_settings)
    token = _running_owner.set(owner)
    sys.meta_path.insert(0, imports)
    try:
        _write_settings(_settings_of_owner.get(owner, {}))
        yield
    finally:
        sys.meta_path.remove(imports)
        _running_owner.reset(token)
        if owner is not None:
            _settings_of_owner[owner] = _read_settings()
        _write_settings(original_settings)


def _read_settings() -> _Values:
    """Read the settings of all imported libraries."""
    return {setting: setting.read() for setting in _SETTINGS if _is_imported(setting.library)}


def _write_settings(values: _Values) -> None:
    for setting, value in values.items():
        setting.write(value)


def _is_imported(library: str) -> bool:
    """Return whether a library has been imported completely."""
    module = sys.modules.get(library)
    if module is None:
        return False
    return not getattr(getattr(module, "__spec__", None), "_initializing", False)


class _FirstImports(MetaPathFinder):
    """Note the original settings of libraries right after their first import, in `values`."""

    def __init__(self, values: _Values) -> None:
        self._values = values
        self._awaited = {name for name in _LAZY_LIBRARIES if name not in sys.modules}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._awaited:
            return None
        self._awaited.remove(name)  # so that the search below does not come here again
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_note(module: ModuleType) -> None:
            load(module)
            for setting in _SETTINGS:
                if setting.library == name:
                    self._values[setting] = setting.read()

        spec.loader.exec_module = load_and_note  # type: ignore[method-assign]
        return spec
