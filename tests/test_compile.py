"""The disk cache of compiled kernels is a help, never a hindrance."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = """
from srs_eval.fitting.compile import compiled

def double(x):
    return x + x

print(compiled(double)(2.0))
"""


def empty(path: Path) -> None:
    path.write_bytes(b"")


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:30])


def block(path: Path) -> None:
    """What can neither be read nor replaced."""
    path.unlink()
    (path / "in the way").mkdir(parents=True)


@pytest.mark.parametrize("suffix", [".nbc", ".nbi"])
@pytest.mark.parametrize("damage", [empty, tear, block])
def test_a_damaged_cache_is_compiled_anew(
    damage: Callable[[Path], None], suffix: str, tmp_path: Path
) -> None:
    program, cache = tmp_path / "program.py", tmp_path / "cache"
    program.write_text(PROGRAM)
    root = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": root}

    def run() -> None:
        done = subprocess.run(
            [sys.executable, program], capture_output=True, text=True, env=environment, timeout=60
        )
        assert (done.stdout, done.stderr) == ("4.0\n", "")

    run()
    (path,) = cache.rglob(f"*{suffix}")
    whole = path.stat().st_size
    damage(path)
    run()
    if damage is not block:
        assert path.stat().st_size > 0.5 * whole  # mended
    run()
