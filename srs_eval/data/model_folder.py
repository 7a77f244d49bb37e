"""Read the folder of a model file, because the model's figures may depend on everything in it.

A model may read parameters from a file beside it, or import code from subfolders. So its figures
are stored by the contents of all files below its folder. These do not count:

- names that begin with a dot, `__pycache__`, and virtual environments (folders with `pyvenv.cfg`);
- files that srs-eval itself writes: its cache and its other folders, results of batches and audits
  (beside a `.journal`), and reports, which name srs-eval as their author;
- logs (`*.log`, `nohup.out`, and files that this program prints into) and notebooks (`*.ipynb`).

A folder with more than `MAX_ENTRIES` files and folders, or with more than `MAX_BYTES` in them, such
as a home folder, is not read as a whole. Then only the Python files of the first two levels
distinguish one state of the model from another, and its figures are not stored.
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

from srs_eval.data.file_contents import file_digest
from srs_eval.data.outputs import JOURNAL, RESULT_NAMES, is_written_by_srs_eval
from srs_eval.data.paths import cache_dir, config_dir, data_dir, state_dir

MAX_ENTRIES = 1_000
MAX_BYTES = 100_000_000
_VIRTUAL_ENVIRONMENT_FILE = "pyvenv.cfg"
_IGNORED_SUFFIXES = (".log", ".ipynb")
_NOHUP_LOG = "nohup.out"

_FileIdentity = tuple[int, int]
"""Device and inode number of a file: the same for all its names."""


@dataclass(frozen=True)
class FolderContent:
    """Content of the folder of a model file."""

    digest: str  # of all files that count, or of the code alone if there are too many
    code_digest: str  # of the Python files alone
    code_files: tuple[Path, ...]
    is_complete: bool  # every file that counts was read


def read_model_folder(model_file: Path) -> FolderContent:
    """Read the files that a model's figures may depend on.

    Raises OSError if the model file itself cannot be read.
    """
    model_file.stat()  # fails before the folder is read in vain
    folder = model_file.parent
    files = _files_below(folder)
    is_complete = files is not None
    if files is None:
        files = [*folder.glob("*.py"), *folder.glob("*/*.py")]
    counted = {path for path in files if path.is_file() and os.access(path, os.R_OK)}
    counted.add(model_file)  # even if its name would be ignored
    code_files = [path for path in sorted(counted) if path.suffix == ".py" or path == model_file]
    code_digest = _compute_digest(model_file, code_files)
    digest = _compute_digest(model_file, sorted(counted)) if is_complete else code_digest
    return FolderContent(
        digest=digest,
        code_digest=code_digest,
        code_files=tuple(code_files),
        is_complete=is_complete,
    )


def _compute_digest(model_file: Path, paths: Iterable[Path]) -> str:
    """Compute the SHA-256 of the model file's name and the paths and contents of files."""
    digest = hashlib.sha256(model_file.name.encode("utf-8", "surrogateescape"))
    for path in paths:
        relative_path = path.relative_to(model_file.parent).as_posix()
        try:
            content_digest = file_digest(path)
        except OSError:
            if path == model_file:
                raise
            continue  # deleted meanwhile
        digest.update(f"\n{content_digest} {relative_path}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files_below(folder: Path) -> list[Path] | None:
    """Return all files below a folder that count, None if there are too many."""
    excluded = {_file_identity(path) for path in _program_folders()} | _output_files()
    visited = set[_FileIdentity | None]()
    queue = deque([folder])
    files = list[Path]()
    entry_count = 0
    total_bytes = 0
    while queue:
        current = queue.popleft()
        identity = _file_identity(current)
        if identity in visited:  # a link leads back
            continue
        visited.add(identity)
        entries = _list_entries(current, MAX_ENTRIES - entry_count)
        if entries is None:
            return None
        entry_count += len(entries)
        names = {entry.name for entry in entries}
        if _VIRTUAL_ENVIRONMENT_FILE in names:
            continue
        has_results = JOURNAL in names
        for entry in entries:
            if _is_ignored(entry.name) or (has_results and entry.name in RESULT_NAMES):
                continue
            path = Path(entry.path)
            if _file_identity(path) in excluded:
                continue
            if entry.is_dir():
                queue.append(path)
            elif entry.is_file() and not is_written_by_srs_eval(path):
                with suppress(OSError):
                    total_bytes += entry.stat().st_size
                files.append(path)
        if total_bytes > MAX_BYTES:
            return None
    return files


def _list_entries(folder: Path, limit: int) -> list[os.DirEntry[str]] | None:
    """List a folder: None for more than `limit` entries, an empty list if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            listed_entries = list(islice(entries, limit + 1))
    except OSError:
        return []
    return listed_entries if len(listed_entries) <= limit else None


def _is_ignored(name: str) -> bool:
    if name.startswith(".") or name == "__pycache__":
        return True
    return name.lower().endswith(_IGNORED_SUFFIXES) or name == _NOHUP_LOG


def _program_folders() -> list[Path]:
    """Return the folders in which srs-eval keeps its own files."""
    folders = [cache_dir(), config_dir(), data_dir(), state_dir()]
    kernels = os.environ.get("NUMBA_CACHE_DIR")
    if kernels:
        folders.append(Path(kernels))
    return folders


def _output_files() -> set[_FileIdentity | None]:
    """Return the files that this process prints into, as in `srs-eval batch > progress.txt`."""
    identities = set[_FileIdentity | None]()
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(AttributeError, OSError, ValueError):  # the stream is closed, or None
            status = os.fstat(stream.fileno())  # type: ignore[union-attr]
            identities.add((status.st_dev, status.st_ino))
    return identities


def _file_identity(path: Path) -> _FileIdentity | None:
    """Return a file's device and inode number, None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
