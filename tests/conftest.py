"""Shared data and simulated learners for all tests.

Golden files and fixtures lie in `../shared`; without them their tests are skipped
and the simulated learners still exercise the whole way. Where they are present,
`SRS_EVAL_REQUIRE_SHARED=1` turns a missing one into a failure.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared"

# Compiled kernels are kept between runs and shared by workers; a person's own cache stays as it
# is. Set before anything of srs_eval is imported, and inherited by subprocesses.
_CACHE = Path(os.environ.get("SRS_EVAL_TEST_CACHE", REPOSITORY / ".cache"))
for _name in ("CACHE", "DATA", "STATE"):
    os.environ[f"SRS_EVAL_{_name}_DIR"] = str(_CACHE / _name.lower())


def shared_or_skip(*parts: str) -> Path:
    """The path of shared data; skips the test, or fails it if shared data is required."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        message = f"shared data {'/'.join(parts) or 'folder'} is not here"
        if os.environ.get("SRS_EVAL_REQUIRE_SHARED") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return path
