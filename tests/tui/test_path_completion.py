"""Check which paths the open screen offers for what has been typed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from srs_eval.tui.screens.open import _complete_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a current folder with hidden and other entries."""
    for name in (".hidden", ".hollow", "decks"):
        (tmp_path / name).mkdir()
    for name in (".backup.colpkg", "collection.anki2", ".notes"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("typed", "paths"),
    [
        (".", ["./", "../", ".hidden/", ".hollow/", ".backup.colpkg"]),
        (".h", [".hidden/", ".hollow/"]),
        ("..", ["../"]),
        ("./", ["./decks/", "./collection.anki2"]),
        ("./.h", ["./.hidden/", "./.hollow/"]),
        ("c", ["collection.anki2"]),
        ("~", ["~/"]),
    ],
)
def test_complete_path_offers_what_a_shell_does(typed: str, paths: list[str]) -> None:
    assert _complete_path(typed) == paths


@pytest.mark.skipif(os.name == "nt", reason="there, a root has a letter")
def test_complete_path_of_a_root_lists_the_root(folder: Path) -> None:
    assert f"/{folder.parts[1]}/" in _complete_path(f"/{folder.parts[1]}")
