"""The disk cache of compiled kernels is a help, never a hindrance, and never stale."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from srs_eval.training import compile as compile_module
from tests.conftest import COMPILED, PATIENCE, REPOSITORY

PROGRAM = """
from srs_eval.training.compile import compile_kernel

def double(x):
    return x + x

print(compile_kernel(double)(2.0))
"""


def run_program(program: Path, cache: Path, package: Path = REPOSITORY, **settings: str) -> str:
    """Run a program with kernels in `cache` and srs_eval from `package`; return its output."""
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "NUMBA_CACHE_DIR": str(cache),
            "PYTHONPATH": str(package),
            **settings,
        },
        timeout=PATIENCE,
    )
    assert not done.stderr
    return done.stdout


def empty(path: Path) -> None:
    path.write_bytes(b"")


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:30])


def block(path: Path) -> None:
    """Replace the file by a folder, which can neither be read nor replaced."""
    path.unlink()
    (path / "in the way").mkdir(parents=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "suffix"),
    [
        (tear, ".nbc"),
        *(
            pytest.param(damage, suffix, marks=pytest.mark.slow)
            for damage, suffix in (
                (empty, ".nbc"),
                (empty, ".nbi"),
                (tear, ".nbi"),
                (block, ".nbc"),
                (block, ".nbi"),
            )
        ),
    ],
)
def test_a_damaged_cache_is_compiled_anew(
    damage: Callable[[Path], None], suffix: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    cache = tmp_path / "cache"
    program.write_text(PROGRAM)

    def run() -> None:
        assert run_program(program, cache) == "4.0\n"

    run()
    (path,) = cache.rglob(f"*{suffix}")
    size = path.stat().st_size
    damage(path)
    run()
    if damage is not block:
        assert path.stat().st_size > 0.5 * size  # compiled and written again
    run()


# The folder of kernels depends on the sources of all kernels


HLR = f"""{COMPILED}
import numpy as np
from srs_eval.training import linear
from srs_eval.models.hlr import _recall_and_slope

x, ones = np.ones((8, 3)), np.ones(8)
loss, slope = linear.loss_and_gradient(
    "HLR", _recall_and_slope, x, ones, ones, ones, np.array([0.5, 0.1, 0.2])
)
print(any("linear_pass" in name for name in compiled), loss, *slope)
"""


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_kernel_folder_depends_on_all_kernel_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "srs_eval"
    for name in ("training/sweeps.py", "models/hlr.py", "report/console.py"):
        (package / name).parent.mkdir(parents=True)
        shutil.copy(REPOSITORY / "srs_eval" / name, package / name)
    monkeypatch.setattr(compile_module, "_PACKAGE", package)

    def folder() -> str:
        monkeypatch.setattr(compile_module, "_STAMPS_AT_START", compile_module._read_file_stamps())
        return compile_module._kernel_folder_name.__wrapped__()

    first = folder()
    edit(package / "report/console.py", "from __future__", "# of no kernel\nfrom __future__")
    assert folder() == first
    edit(package / "models/hlr.py", "p * x * _LN2", "2.0 * p * x * _LN2")
    second = folder()
    edit(package / "training/sweeps.py", "surprise > 100.0, 100.0", "surprise > 0.01, 0.01")
    assert len({first, second, folder()}) == 3


@pytest.mark.slow
def test_kernels_are_compiled_anew_after_a_source_changes(tmp_path: Path) -> None:
    """Check that place and time of the sources do not matter, but any kernel's code does."""
    program = tmp_path / "program.py"
    cache = tmp_path / "cache"
    program.write_text(HLR)
    first = tmp_path / "first"
    second = tmp_path / "second" / "elsewhere"
    for folder in (first, second):
        ignored = shutil.ignore_patterns("__pycache__", "weights")
        shutil.copytree(REPOSITORY / "srs_eval", folder / "srs_eval", ignore=ignored)

    def run(folder: Path) -> tuple[bool, list[str]]:
        compiled, *figures = run_program(program, cache, folder).split()
        return compiled == "True", figures

    compiled, figures = run(first)
    assert compiled

    package = second / "srs_eval"
    for path in package.rglob("*.py"):
        os.utime(path, (1e9, 1e9))
    edit(package / "report/console.py", "from __future__", "# of no kernel\nfrom __future__")
    assert run(second) == (False, figures)

    model = package / "models/hlr.py"
    template = package / "training/sweeps.py"
    for path, old, new in (
        (model, "p * x * _LN2", "2.0 * p * x * _LN2"),  # a function that the kernel calls
        (template, "surprise > 100.0, 100.0", "surprise > 0.01, 0.01"),  # the kernel itself
    ):
        edit(path, old, new)
        compiled, changed = run(second)
        assert compiled
        assert changed != figures
        figures = changed
    assert run(second) == (False, figures)
    assert run(first)[0] is False  # the other version's kernel is still there


OWN = """
from helper import FACTOR
from srs_eval.training.compile import compile_kernel

def times(x):
    return FACTOR * x

print(compile_kernel(times)(3.0))
"""


@pytest.mark.slow
def test_own_kernel_depends_on_its_file_and_its_folder(tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    cache = tmp_path / "cache"
    helper.write_text("FACTOR = 2\n")
    programs = {tmp_path / f"times_{by}.py": by for by in (3, 4)}  # two similar files
    for path, by in programs.items():
        path.write_text(OWN.replace("FACTOR * x", f"FACTOR * x * {by}.0"))
    assert [run_program(path, cache) for path in programs] == ["18.0\n", "24.0\n"]
    helper.write_text("FACTOR = 4\n")
    for _ in range(2):
        assert run_program(path, cache) == "48.0\n"
    assert len(list(cache.rglob("*.nbc"))) == 3


def test_kernel_key_depends_on_closures() -> None:
    def make_step(power: int) -> Any:
        return lambda x: x**power

    two, three, again = (
        compile_module._describe_for_key({"recall": make_step(k)}) for k in (2, 3, 2)
    )
    assert two == again != three


def test_unused_kernel_folders_are_deleted(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    cache = tmp_path / "cache"
    program.write_text(PROGRAM)
    old, young, another = (cache / name for name in ("srs-eval0-old", "srs-eval0-young", "others"))
    for folder in (old, young, another):
        folder.mkdir(parents=True)
    for folder in (old, another):
        os.utime(folder, (1e9, 1e9))
    assert run_program(program, cache) == "4.0\n"
    assert [folder.exists() for folder in (old, young, another)] == [False, True, True]


def test_kernel_marks_count_for_the_same_sources_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not compile_module.has_kernels("MINE trained")
    compile_module.mark_kernels("MINE trained")
    assert compile_module.has_kernels("MINE trained")
    monkeypatch.setattr(compile_module, "_kernel_folder_name", lambda: "srs-eval-of-other-sources")
    assert not compile_module.has_kernels("MINE trained")
