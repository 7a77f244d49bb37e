"""Whether the program's files are still those that this process runs.

An update while the app is open leaves old code in memory beside new files. What is kept under
a digest of the files must then not be kept: the updated program would take it for its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def changed() -> bool:
    """Whether a file of the package is another than when this module was imported."""
    return _stamps(PACKAGE) != _AT_FIRST


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Date and size by path; nothing of a folder that cannot be read."""
    try:
        return dict(_walk(str(folder)))
    except OSError:
        return {}


def _walk(folder: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for entry in os.scandir(folder):
        if entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _walk(entry.path)
        else:
            about = entry.stat()
            yield entry.path, (about.st_mtime_ns, about.st_size)


_AT_FIRST = _stamps(PACKAGE)
