"""Settings of the process that own code changes stay with that code."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srs_eval.training import own_code
from srs_eval.training.own_code import isolate_settings

Setting = tuple[Callable[[], Any], Callable[[], Any]]
"""A function that reads a setting and one that changes it."""


def _of_numba() -> Setting:
    from numba.core import config

    return lambda: config.DISABLE_JIT, lambda: setattr(config, "DISABLE_JIT", 1)


def _threads_of_numba() -> Setting:
    import numba

    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    return numba.get_num_threads, lambda: numba.set_num_threads(1)


def _of_torch(name: str) -> Setting:
    torch = pytest.importorskip("torch")
    settings: dict[str, Setting] = {
        "dtype": (torch.get_default_dtype, lambda: torch.set_default_dtype(torch.float64)),
        "device": (torch.get_default_device, lambda: torch.set_default_device("meta")),
        "gradients": (torch.is_grad_enabled, lambda: torch.set_grad_enabled(False)),
        "threads": (torch.get_num_threads, lambda: torch.set_num_threads(3)),
        "random": (lambda: torch.get_rng_state().tolist(), lambda: torch.manual_seed(7)),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled,
            lambda: torch.use_deterministic_algorithms(True),
        ),
        "precision": (
            torch.get_float32_matmul_precision,
            lambda: torch.set_float32_matmul_precision("medium"),
        ),
    }
    return settings[name]


def _of_sklearn() -> Setting:
    import sklearn

    return sklearn.get_config, lambda: sklearn.set_config(assume_finite=True)


def _of_numpy(name: str) -> Setting:
    settings: dict[str, Setting] = {
        "errors": (np.geterr, lambda: np.seterr(all="raise")),
        "printing": (np.get_printoptions, lambda: np.set_printoptions(precision=2)),
        "random": (lambda: np.random.get_state()[1].tolist(), lambda: np.random.seed(7)),  # noqa: NPY002
    }
    return settings[name]


SETTINGS: dict[str, Callable[[], Setting]] = {
    "folder": lambda: (os.getcwd, lambda: os.chdir(os.sep)),
    "variables": lambda: (
        lambda: os.environ.get("NUMBA_OPT"),
        lambda: os.environ.update(NUMBA_OPT="0"),
    ),
    "random": lambda: (random.getstate, lambda: random.seed(7)),
    "numpy errors": lambda: _of_numpy("errors"),
    "numpy printing": lambda: _of_numpy("printing"),
    "numpy random": lambda: _of_numpy("random"),
    "numba": _of_numba,
    "numba threads": _threads_of_numba,
    "sklearn": _of_sklearn,
    "torch dtype": lambda: _of_torch("dtype"),
    "torch device": lambda: _of_torch("device"),
    "torch gradients": lambda: _of_torch("gradients"),
    "torch threads": lambda: _of_torch("threads"),
    "torch random": lambda: _of_torch("random"),
    "torch deterministic": lambda: _of_torch("deterministic"),
    "torch precision": lambda: _of_torch("precision"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_stays_with_its_owner(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code, "_settings_of_owner", {})
    read, change = SETTINGS[name]()
    before = read()
    with isolate_settings("mine"):
        change()
        changed = read()
    assert read() == before
    assert changed != before
    with isolate_settings("another"):
        assert read() == before
    with isolate_settings("mine"):
        assert read() == changed
        with isolate_settings("mine"):
            assert read() == changed
        assert read() == changed
    assert read() == before


def test_settings_are_restored_after_an_error() -> None:
    before = np.geterr()

    def fails() -> None:
        with isolate_settings("mine"):
            np.seterr(all="raise")
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert np.geterr() == before


def test_code_without_owner_keeps_no_settings() -> None:
    before = np.get_printoptions()
    with isolate_settings(None):
        np.set_printoptions(precision=3)
    assert np.get_printoptions() == before
    with isolate_settings(None):
        assert np.get_printoptions() == before


def test_deleted_working_folder_is_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    before = os.getcwd()
    with isolate_settings("mine"):
        os.chdir(folder)
    folder.rmdir()
    with isolate_settings("mine"):
        assert os.getcwd() == before
    assert os.getcwd() == before


FIRST = """
import sys
from srs_eval.training.own_code import isolate_settings

assert not {"torch", "numba", "sklearn"} & set(sys.modules)
with isolate_settings("mine"):
    import numba, sklearn
    numba.config.DISABLE_JIT = 1
    sklearn.set_config(assume_finite=True)
    try:
        import torch
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(7)
    except ImportError:
        torch = None
assert not numba.config.DISABLE_JIT
assert not sklearn.get_config()["assume_finite"]
assert torch is None or torch.get_default_dtype() == torch.float32
assert torch is None or torch.get_num_threads() != 7
"""


@pytest.mark.slow
def test_library_first_imported_by_own_code_has_its_defaults() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
