"""Shared data and simulated learners for all tests.

Golden files and fixtures lie in `../shared`; without them their tests are skipped
and the simulated learners still exercise the whole way. Where they are present,
`SRS_EVAL_REQUIRE_SHARED=1` turns a missing one into a failure.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import hypothesis
import pytest

# Compiling and lazy imports make a first example slow; how slow is nothing to fail on.
hypothesis.settings.register_profile("srs-eval", deadline=None)
hypothesis.settings.load_profile("srs-eval")

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared"

# Compiled kernels are kept between runs and shared by workers; cached results are not, so that no
# test passes on an older version's figures. Nothing touches a person's own cache. Set before
# anything of srs_eval is imported, and inherited by subprocesses.
os.environ.setdefault("NUMBA_CACHE_DIR", str(REPOSITORY / ".cache" / "numba"))
_places = tempfile.TemporaryDirectory(prefix="srs-eval-tests-")
for _name in ("CACHE", "DATA", "STATE"):
    os.environ[f"SRS_EVAL_{_name}_DIR"] = str(Path(_places.name) / _name.lower())


def shared_or_skip(*parts: str) -> Path:
    """The path of shared data; skips the test, or fails it if shared data is required."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        message = f"shared data {'/'.join(parts) or 'folder'} is not here"
        if os.environ.get("SRS_EVAL_REQUIRE_SHARED") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return path
