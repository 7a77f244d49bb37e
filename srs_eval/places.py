"""Folders of this program on each system, and the digest of what lies in a folder.

SRS_EVAL_{CACHE,CONFIG,DATA,STATE}_DIR override the folders.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

NAME = "srs-eval"


def cache_dir() -> Path:
    """Results and compiled kernels; safe to delete at any time."""
    return _place("SRS_EVAL_CACHE_DIR", "user_cache_path")


def data_dir() -> Path:
    """Downloaded data sets, by name."""
    return _place("SRS_EVAL_DATA_DIR", "user_data_path")


def config_dir() -> Path:
    """What a person has settled: config.toml."""
    return _place("SRS_EVAL_CONFIG_DIR", "user_config_path")


def state_dir() -> Path:
    """What the app remembers: recent files, theme."""
    return _place("SRS_EVAL_STATE_DIR", "user_state_path")


def content_digest(folder: Path, files: Iterable[Path]) -> str:
    """SHA-256 over the places in `folder` and the contents of files, in order of place."""
    digest = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}:{len(content)};".encode())
        digest.update(content)
    return digest.hexdigest()


def _place(variable: str, function: str) -> Path:
    if os.environ.get(variable):
        return Path(os.environ[variable])
    import platformdirs

    path: Path = getattr(platformdirs, function)(NAME, appauthor=False)
    return path
