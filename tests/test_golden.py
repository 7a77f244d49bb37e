"""The bundled golden figures are those of the shared golden data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import shared_or_skip
from tests.helpers.golden import BUNDLED, BUNDLED_USERS


def files(*folders: str) -> list[Path]:
    """Return the bundled files in a folder below tests/golden, as paths relative to it."""
    paths = BUNDLED.joinpath(*folders).rglob("*.*")
    return sorted(path.relative_to(BUNDLED) for path in paths if path.is_file())


def read_parquet(path: Path) -> list[dict[str, Any]]:
    from pyarrow import parquet

    return parquet.ParquetFile(path).read().to_pylist()


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_bundled_learners_are_the_shared_ones() -> None:
    paths = files("dataset")
    assert len(paths) == 3 * len(BUNDLED_USERS)
    for path in paths:
        assert read_parquet(BUNDLED / path) == read_parquet(shared_or_skip("golden", str(path)))


@pytest.mark.parametrize(
    ("folder", "key", "read"),
    [
        ("expected", "user", read_lines),
        pytest.param("features", "user_id", read_parquet, marks=pytest.mark.slow),
        pytest.param("predictions", "user_id", read_parquet, marks=pytest.mark.slow),
    ],
)
def test_bundled_figures_are_those_of_the_reference(
    folder: str, key: str, read: Callable[[Path], list[dict[str, Any]]]
) -> None:
    paths = files(folder)
    assert paths
    for path in paths:
        bundled = read(BUNDLED / path)
        shared = read(shared_or_skip("golden", str(path)))
        assert repr(bundled) == repr([row for row in shared if row[key] in BUNDLED_USERS]), path
        assert {row[key] for row in bundled} == set(BUNDLED_USERS), path
