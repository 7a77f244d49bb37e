"""Check that missing shared data fails a run that requires it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, REPOSITORY

TESTS = """
import pytest
from tests.conftest import shared_or_skip

def test_shared():
    shared_or_skip("no such folder")

def test_own_way():
    pytest.skip({reason!r})

def test_fine():
    pass
"""


@pytest.mark.parametrize(
    ("required", "reason", "outcome", "code"),
    [
        pytest.param("0", "no golden files", "1 passed, 2 skipped", 0, marks=pytest.mark.slow),
        ("1", "no golden files", "1 failed, 1 passed, 1 skipped", 1),
        pytest.param(
            "1", "needs a printer", "1 failed, 1 passed, 1 skipped", 1, marks=pytest.mark.slow
        ),
    ],
)
def test_missing_shared_data(
    tmp_path: Path, required: str, reason: str, outcome: str, code: int
) -> None:
    done = run(tmp_path, TESTS.format(reason=reason), required)
    assert outcome in done.stdout
    assert done.returncode == code


@pytest.mark.slow
@pytest.mark.parametrize(("reason", "code"), [("no golden files", 1), ("needs a printer", 0)])
def test_skipped_test_fails_the_run_unless_the_machine_lacks_it(
    tmp_path: Path, reason: str, code: int
) -> None:
    source = f"import pytest\n\ndef test_own_way():\n    pytest.skip({reason!r})\n"
    done = run(tmp_path, source, "1")
    assert "1 skipped" in done.stdout
    assert done.returncode == code
    assert ("required" in done.stdout) == bool(code)


def run(folder: Path, source: str, required: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text("from tests.conftest import pytest_sessionfinish\n")
    (folder / "test_it.py").write_text(source)
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "SRS_EVAL_REQUIRE_SHARED": required,
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", folder],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
