"""Read the golden data: learners and what srs-benchmark prints for them.

Twelve learners lie in the shared folder. Where it is missing, as in a plain clone, the four
simulated ones in `tests/golden` take their place.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srs_eval.data.datasets import Dataset, open_dataset
from srs_eval.data.reviews import ReviewLog
from tests.conftest import REPOSITORY, SHARED, shared_or_skip

BUNDLED = REPOSITORY / "tests" / "golden"
BUNDLED_USERS = [102, 108, 110, 111]
SHARED_USERS = [*range(101, 113)]
TOO_FEW_REVIEWS = 109
"""The user whom srs-benchmark has no line for."""


def golden_folder() -> Path:
    """Return the folder of the golden data: the shared one, else the bundled subset."""
    shared = SHARED / "golden"
    return shared if shared.exists() else BUNDLED


def is_bundled() -> bool:
    """Return whether the subset stands in for the shared data."""
    return golden_folder() == BUNDLED


def golden_users() -> list[int]:
    """Return the users that the golden data must have."""
    return BUNDLED_USERS if is_bundled() else SHARED_USERS


def golden_file(*names: str) -> Path:
    """Return the path of a golden file; skip the test where only the shared folder has it."""
    path = golden_folder().joinpath(*names)
    if not path.exists():
        return shared_or_skip("golden", *names)
    return path


def golden_dataset() -> Dataset:
    """Open the golden learners, of whom none may be missing."""
    dataset = open_dataset(golden_folder() / "dataset")
    assert dataset.users == golden_users()
    return dataset


def golden_log(user: int) -> ReviewLog:
    """Load the log of a golden learner; skip the test where this learner is not bundled."""
    dataset = golden_dataset()
    if user not in dataset.users:
        shared_or_skip("golden", "dataset", "revlogs", f"user_id={user}")
        pytest.fail(f"the golden data set has no user {user}")
    return dataset.load(user)


def golden_lines(name: str) -> dict[int, dict[str, Any]]:
    """Read what srs-benchmark prints for configuration `name`: a line for each usable user."""
    text = golden_file("expected", f"{name}.jsonl").read_text(encoding="utf-8")
    lines = {line["user"]: line for line in map(json.loads, text.splitlines())}
    assert sorted(lines) == [user for user in golden_users() if user != TOO_FEW_REVIEWS]
    return lines
