"""The folder of a model file: everything in it that the model's figures may depend on.

A model reads parameters from a file beside it, or imports code from folders further down. So its
figures are kept by the contents of all files below its folder. These do not count:

- names that begin with a dot, `__pycache__`, and virtual environments (folders with `pyvenv.cfg`);
- what srs-eval itself writes: its cache and its other folders, results of batches and audits
  (beside a `.journal`), and reports, which say of themselves who wrote them;
- logs (`*.log`, `nohup.out`, and whatever this program prints into) and notebooks (`*.ipynb`).

Where there are more than `MOST_ENTRIES` files and folders, or more than `MOST_BYTES` in them,
nobody reads them all: a home folder is such a place. Then only the Python files of the first two
levels tell one state of the model from another, and its figures are not kept.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from srs_eval.data.paths import (
    JOURNAL,
    RESULT_NAMES,
    cache_dir,
    config_dir,
    data_dir,
    file_digest,
    is_own,
    state_dir,
)

MOST_ENTRIES = 1_000
MOST_BYTES = 100_000_000
_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"
_LOGS = (".log", ".ipynb")
_OF_NOHUP = "nohup.out"

_File = tuple[int, int]
"""Device and number of a file: the same for all its names."""


@dataclass(frozen=True)
class FolderContent:
    """What lies in the folder of a model file."""

    digest: str  # of all files that count, or of the code alone where they are too many
    code_digest: str  # of the Python files alone
    code: tuple[Path, ...]
    is_whole: bool  # whether every file that counts was read


def read_model_folder(model_file: Path) -> FolderContent:
    """Read what the figures of a model file may depend on. Raises OSError for the file itself."""
    model_file.stat()  # before the folder is read for nothing
    folder = model_file.parent
    files = _files_below(folder)
    is_whole = files is not None
    if files is None:
        files = [*folder.glob("*.py"), *folder.glob("*/*.py")]
    counted = {path for path in files if path.is_file() and os.access(path, os.R_OK)}
    counted.add(model_file)
    code = tuple(sorted(path for path in counted if path.suffix == ".py" or path == model_file))
    code_digest = _digest_of(model_file, code)
    digest = _digest_of(model_file, sorted(counted)) if is_whole else code_digest
    return FolderContent(digest, code_digest, code, is_whole)


def _digest_of(model_file: Path, paths: Iterable[Path]) -> str:
    """SHA-256 over the model file's name, and the places and contents of files."""
    digest = hashlib.sha256(model_file.name.encode("utf-8", "surrogateescape"))
    for path in paths:
        place = path.relative_to(model_file.parent).as_posix()
        try:
            content = file_digest(path)
        except OSError:
            if path == model_file:
                raise
            continue  # it has gone meanwhile
        digest.update(f"\n{content} {place}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files_below(folder: Path) -> list[Path] | None:
    """All files below a folder that count, None where there are too many."""
    not_counted = {_identity(path) for path in _own_folders()} | _printed_into()
    visited = set[_File | None]()
    waiting = deque([folder])
    files = list[Path]()
    looked_at = 0
    size = 0
    while waiting:
        current = waiting.popleft()
        identity = _identity(current)
        if identity in visited:  # a link leads back
            continue
        visited.add(identity)
        entries = _entries(current, MOST_ENTRIES - looked_at)
        if entries is None:
            return None
        looked_at += len(entries)
        names = {entry.name for entry in entries}
        if _VIRTUAL_ENVIRONMENT in names:
            continue
        has_results = JOURNAL in names
        for entry in entries:
            if _never_counts(entry.name) or (has_results and entry.name in RESULT_NAMES):
                continue
            path = Path(entry.path)
            if _identity(path) in not_counted:
                continue
            if entry.is_dir():
                waiting.append(path)
            elif entry.is_file() and not is_own(path):
                with suppress(OSError):
                    size += entry.stat().st_size
                files.append(path)
        if size > MOST_BYTES:
            return None
    return files


def _entries(folder: Path, most: int) -> list[os.DirEntry[str]] | None:
    """What lies in a folder, None for more than `most`; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            found = list(islice(entries, most + 1))
    except OSError:
        return []
    return found if len(found) <= most else None


def _never_counts(name: str) -> bool:
    hidden = name.startswith(".")
    log = name.lower().endswith(_LOGS) or name == _OF_NOHUP
    return hidden or log or name == "__pycache__"


def _own_folders() -> list[Path]:
    """Where srs-eval keeps what is its own."""
    kernels = os.environ.get("NUMBA_CACHE_DIR")
    chosen = [Path(kernels)] if kernels else []
    return [cache_dir(), config_dir(), data_dir(), state_dir(), *chosen]


def _printed_into() -> set[_File | None]:
    """The files that this process prints into, as in `srs-eval batch > progress.txt`."""
    found = set[_File | None]()
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(AttributeError, OSError, ValueError):  # closed, or none at all
            about = os.fstat(stream.fileno())  # type: ignore[union-attr]
            found.add((about.st_dev, about.st_ino))
    return found


def _identity(path: Path) -> _File | None:
    """None where there is nothing."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino
