"""Folders of this program on each system; SRS_EVAL_{CACHE,DATA,STATE}_DIR override them."""

from __future__ import annotations

import os
from pathlib import Path

NAME = "srs-eval"


def cache_dir() -> Path:
    """Results and compiled kernels; safe to delete at any time."""
    return _place("SRS_EVAL_CACHE_DIR", "user_cache_path")


def data_dir() -> Path:
    """Downloaded data sets, by name."""
    return _place("SRS_EVAL_DATA_DIR", "user_data_path")


def state_dir() -> Path:
    """What the app remembers: recent files, theme."""
    return _place("SRS_EVAL_STATE_DIR", "user_state_path")


def _place(variable: str, function: str) -> Path:
    if os.environ.get(variable):
        return Path(os.environ[variable])
    import platformdirs

    path: Path = getattr(platformdirs, function)(NAME, appauthor=False)
    return path
