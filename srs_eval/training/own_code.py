"""Settings of the whole process that code of somebody's own may change, kept apart from all others.

A model file may go to another folder, make double precision torch's default or seed numpy's random
numbers. That is its affair, but these settings belong to the process: other models would be
evaluated with them, and results be written to another place. So `kept_apart` surrounds every piece
of such code. Within it, settings are as the code left them the last time; behind it, they are as
they were before.

A library that the code is the first to import has the settings that it comes with afterwards: they
are noted as soon as it is imported.
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
    """Something that all code of a process shares."""

    library: str  # there is nothing to set before it is imported
    read: Callable[[], Any]
    write: Callable[[Any], object]


def _working_folder() -> str | None:
    """None where somebody has deleted it."""
    with suppress(OSError):
        return os.getcwd()
    return None


def _go_to(folder: str | None) -> None:
    with suppress(OSError):
        if folder is not None and folder != _working_folder():
            os.chdir(folder)


_STAYS = "NUMBA_NUM_THREADS"
"""numba refuses another number once its threads have been started; no kernel of ours has any."""


def _set_environment(variables: dict[str, str]) -> None:
    for name in os.environ.keys() - variables.keys() - {_STAYS}:
        del os.environ[name]
    for name, value in variables.items():
        if name != _STAYS and os.environ.get(name) != value:
            os.environ[name] = value


def _numba_configuration() -> dict[str, Any]:
    from numba.core import config

    named = {name: value for name, value in vars(config).items() if name.isupper()}
    named.pop(_STAYS, None)
    return named


def _set_numba_configuration(named: dict[str, Any]) -> None:
    from numba.core import config

    for name, value in named.items():
        setattr(config, name, value)


def _numba_threads() -> int | None:
    """None where numba has started no threads: to ask it would start them."""
    import numba

    parallel = sys.modules.get("numba.np.ufunc.parallel")
    return numba.get_num_threads() if getattr(parallel, "_is_initialized", False) else None


def _set_numba_threads(number: int | None) -> None:
    import numba
    from numba.core import config

    if _numba_threads() is not None:
        numba.set_num_threads(number or getattr(config, _STAYS))


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


def _set_torch(settings: dict[str, Any]) -> None:
    """Only what differs is set: a default device slows torch down, even if it is the usual one."""
    import torch

    now = _torch_settings()
    if now["dtype"] != settings["dtype"]:
        torch.set_default_dtype(settings["dtype"])
    if now["device"] != settings["device"]:
        usual = settings["device"] == torch.device("cpu")
        torch.set_default_device(None if usual else settings["device"])
    if now["gradients"] != settings["gradients"]:
        torch.set_grad_enabled(settings["gradients"])
    if now["threads"] != settings["threads"]:
        torch.set_num_threads(settings["threads"])
    if now["precision"] != settings["precision"]:
        torch.set_float32_matmul_precision(settings["precision"])
    if now["deterministic"] != settings["deterministic"]:
        on, only_warns = settings["deterministic"]
        torch.use_deterministic_algorithms(on, warn_only=only_warns)


def _torch_random() -> Any:
    import torch

    return torch.get_rng_state()


def _set_torch_random(state: Any) -> None:
    import torch

    torch.set_rng_state(state)


def _sklearn_settings() -> dict[str, Any]:
    import sklearn

    return sklearn.get_config()


def _set_sklearn(settings: dict[str, Any]) -> None:
    import sklearn

    sklearn.set_config(**settings)


def _numpy_random() -> Any:
    """The state of the random numbers that all code shares, which `np.random.seed` sets."""
    return np.random.get_state(legacy=False)  # noqa: NPY002


_SETTINGS: Sequence[_Setting] = (
    _Setting("os", _working_folder, _go_to),
    _Setting("os", lambda: dict(os.environ), _set_environment),
    _Setting("random", random.getstate, random.setstate),
    _Setting("numpy", np.geterr, lambda errors: np.seterr(**errors)),
    _Setting("numpy", np.geterrcall, np.seterrcall),
    _Setting("numpy", np.get_printoptions, lambda options: np.set_printoptions(**options)),
    _Setting("numpy", _numpy_random, np.random.set_state),
    _Setting("numba", _numba_configuration, _set_numba_configuration),
    _Setting("numba", _numba_threads, _set_numba_threads),
    _Setting("torch", _torch_settings, _set_torch),
    _Setting("torch", _torch_random, _set_torch_random),
    _Setting("sklearn", _sklearn_settings, _set_sklearn),
)
_LAZY = frozenset(("numba", "torch", "sklearn"))

_Values = dict[_Setting, Any]
_left_by: dict[Hashable, _Values] = {}
"""The settings as each owner's code has left them."""
_running: ContextVar[Hashable] = ContextVar("_running", default=None)
"""Whose code is running; None for nobody's."""


@contextmanager
def kept_apart(owner: Hashable | None) -> Iterator[None]:
    """Run an owner's code with its own settings of the process; afterwards they are as before.

    An owner is whatever tells one model file from another. None is the code of a notebook: it runs
    with the settings that there are.
    """
    if owner is not None and _running.get() == owner:
        yield
        return
    before = _read()
    imports = _FirstImports(before)
    token = _running.set(owner)
    sys.meta_path.insert(0, imports)
    try:
        _write(_left_by.get(owner, {}))
        yield
    finally:
        sys.meta_path.remove(imports)
        _running.reset(token)
        if owner is not None:
            _left_by[owner] = _read()
        _write(before)


def _read() -> _Values:
    """All settings of what is imported."""
    return {each: each.read() for each in _SETTINGS if _is_imported(each.library)}


def _write(values: _Values) -> None:
    for setting, value in values.items():
        setting.write(value)


def _is_imported(library: str) -> bool:
    """Whether a library is there; one that is just being imported is not."""
    module = sys.modules.get(library)
    if module is None:
        return False
    return not getattr(getattr(module, "__spec__", None), "_initializing", False)


class _FirstImports(MetaPathFinder):
    """Notes the settings that libraries come with, right behind their first import."""

    def __init__(self, values: _Values) -> None:
        self._values = values
        self._awaited = {name for name in _LAZY if name not in sys.modules}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._awaited:
            return None
        self._awaited.remove(name)  # so that the others find it
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
