"""Read, hash and replace the contents of files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_CLOCK_TICK_S = 3.0  # longer than the resolution of any file system's dates


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """Read the whole content of a small file.

    Raises OSError, also if the file has more than `max_bytes`, and if it is not a regular file: a
    pipe or a device is not opened, because that may wait for ever.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with open(path, "rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes:,} bytes", str(path))
    return content


def digest_files(folder: Path, files: Iterable[Path]) -> str:
    """Compute the SHA-256 of the paths in `folder` and the contents of files, in order of path."""
    digest = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}:{len(content)};".encode())
        digest.update(content)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, cached while its dates and size stay the same.

    Raises OSError.
    """
    status = path.stat()
    changed_at = max(status.st_mtime, status.st_ctime)
    if time.time() - changed_at < _CLOCK_TICK_S:  # it may change again with the same date
        return _compute_file_digest(path)
    return _cached_file_digest(path, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


@cache
def _cached_file_digest(path: Path, modified_ns: int, changed_ns: int, size: int) -> str:
    """Compute a file's digest; the other arguments make the cache forget an older content."""
    return _compute_file_digest(path)


def _compute_file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(
    path: Path, content: bytes, *, durable: bool = True, private: bool = False
) -> None:
    """Replace a file in one step. Raises OSError.

    `durable`: the content is on disk before this returns; `private`: only the user may read the
    file (mode 0600).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:50]}.srs-eval.tmp")
    temporary.unlink(missing_ok=True)  # left by a process that was killed
    try:
        with open(temporary, "xb", opener=_open_privately if private else None) as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        _replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable and os.name == "posix":  # the folder holds the file's new name
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _replace(temporary: Path, path: Path) -> None:
    """Replace a file, with several attempts on Windows.

    Windows refuses as long as another program, such as a virus scanner, has the old file open.
    """
    if sys.platform == "win32":
        for seconds in (0.01, 0.05, 0.2, 0.5):
            try:
                return os.replace(temporary, path)
            except PermissionError:
                time.sleep(seconds)
    os.replace(temporary, path)
