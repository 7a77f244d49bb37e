"""Touching a person's files: look, copy, never write.

A collection may be open in Anki while we read it. Anki holds an exclusive lock and keeps
today's reviews in `X-wal`; opening the original in any mode of SQLite fails, misses them or
writes beside it. So the database and its journals are copied into a private folder and only
the copy is opened.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from srs_eval.errors import InputError

MAX_DATABASE_BYTES = 4 << 30
"""Largest collection that is copied or unpacked."""

SQLITE_MAGIC = b"SQLite format 3\x00"
HEADER_BYTES = 100

_JOURNALS = ("-wal", "-journal")
# The last 8 bytes of a rollback journal that names a second file (SQLite file format 3).
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_ATTEMPTS = 8
# File systems may stamp two writes within one tick with the same time.
_CLOCK_TICK_S = 0.02


def printable(text: object, limit: int = 300) -> str:
    """`text` without control characters (names come from files), cut at `limit`."""
    clean = "".join(c if c.isprintable() else "\ufffd" for c in str(text))
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


@contextmanager
def private_folder() -> Iterator[Path]:
    """A temporary folder for this user only, removed however the block ends."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="srs-eval-")
    except OSError as error:
        raise InputError(
            f"No temporary folder can be made ({error.strerror}); free some disk space."
        ) from error
    with folder as name:
        yield Path(name)


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into one sentence about `path`."""
    name = printable(path)
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{name} does not exist; check the path.") from error
    except PermissionError as error:
        raise InputError(f"{name} may not be read; check its permissions.") from error
    except (OSError, RuntimeError, ValueError) as error:  # loops of links, NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name} cannot be read ({printable(reason)}).") from error


def resolve(path: Path) -> Path:
    """The real file behind links (its journals lie there). InputError if it is none."""
    with file_errors(path):
        real = path.resolve(strict=True)
        if not stat.S_ISREG(real.stat().st_mode):
            raise InputError(f"{printable(path)} is not a file; give the path of a file.")
        return real


def read_start(path: Path, size: int) -> bytes:
    with file_errors(path), open(path, "rb") as file:
        return file.read(size)


def read_whole(path: Path, limit: int) -> bytes:
    """All of a small file; InputError beyond `limit` bytes."""
    with file_errors(path), open(path, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise InputError(f"{printable(path)} is larger than {limit >> 20} MB, too large to read.")
    return content


@dataclass(frozen=True)
class Header:
    """What the first 100 bytes of a database say about its length."""

    page_size: int
    length: int | None  # bytes; None where an old writer left the page count out


def sqlite_header(start: bytes) -> Header | None:
    """The header in `start`, or None if this is no SQLite database."""
    if len(start) < HEADER_BYTES or not start.startswith(SQLITE_MAGIC):
        return None
    page_size = int.from_bytes(start[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    if page_size < 512 or page_size & (page_size - 1):
        return None
    pages = int.from_bytes(start[28:32], "big")
    trusted = pages > 0 and start[24:28] == start[92:96]
    return Header(page_size, pages * page_size if trusted else None)


def check_database_length(path: Path, name: str) -> None:
    """InputError unless a database without journals is as long as its header says."""
    start = read_start(path, HEADER_BYTES)
    header = sqlite_header(start)
    size = path.stat().st_size
    if header is None:
        raise InputError(
            f"{name} is damaged (its database header is cut or wrong); restore a backup in Anki."
        )
    if size % header.page_size or (header.length is not None and size != header.length):
        raise InputError(
            f"{name} is damaged ({size:,} bytes where its header promises "
            f"{header.length or 'whole pages'}); copy it again or restore a backup in Anki."
        )


@contextmanager
def private_copy(path: Path) -> Iterator[Path]:
    """A consistent copy of database `path` with its -wal and -journal, in a private folder.

    The originals' sizes and times are compared before and after, and the copy is made again
    if anything changed. Raises InputError if they never hold still, or are too large.
    """
    real = resolve(path)
    with private_folder() as folder:
        target = folder / "collection.anki2"
        for attempt in range(_ATTEMPTS):
            before = _states(real)
            total = sum(state[1] for state in before if state is not None)
            if total > MAX_DATABASE_BYTES:
                raise InputError(
                    f"{printable(path)} is larger than {MAX_DATABASE_BYTES >> 30} GB, "
                    "too large to read."
                )
            newest = max((state[2] for state in before if state is not None), default=0)
            if abs(time.time_ns() - newest) < _CLOCK_TICK_S * 1e9:
                time.sleep(_CLOCK_TICK_S)
                continue
            if _copy_all(real, target, before) and _states(real) == before:
                _refuse_second_journal(Path(f"{target}-journal"), printable(path))
                yield target
                return
            time.sleep(0.05 * (attempt + 1))
    raise InputError(
        f"{printable(path)} keeps changing while it is read; "
        "wait until Anki has finished syncing, or close it, and try again."
    )


def _states(real: Path) -> list[tuple[int, int, int] | None]:
    """Identity, size and time of the database and its journals; None for an absent one."""
    states: list[tuple[int, int, int] | None] = []
    with file_errors(real):
        for suffix in ("", *_JOURNALS):
            try:
                found = os.stat(f"{real}{suffix}")
            except FileNotFoundError:
                if not suffix:
                    raise
                states.append(None)
            else:
                states.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return states


def _copy_all(real: Path, target: Path, states: list[tuple[int, int, int] | None]) -> bool:
    """Copy what exists; False if a file vanished meanwhile."""
    for suffix, state in zip(("", *_JOURNALS), states, strict=True):
        copy = Path(f"{target}{suffix}")
        copy.unlink(missing_ok=True)
        if state is None:
            continue
        with file_errors(real):
            try:
                shutil.copyfile(f"{real}{suffix}", copy)
            except FileNotFoundError:
                if not suffix:
                    raise
                return False
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                raise InputError(
                    f"There is no room for a private copy of {printable(real)} in "
                    f'"{tempfile.gettempdir()}"; free some disk space or set TMPDIR.'
                ) from error
    return True


def _refuse_second_journal(journal: Path, name: str) -> None:
    """A journal may name another file, which SQLite deletes after the roll-back.

    Anki never writes one (it attaches no second database); a hostile one could name any
    file of the user's.
    """
    if not journal.exists() or journal.stat().st_size < 16:
        return
    with open(journal, "rb") as file:
        file.seek(-8, os.SEEK_END)
        if file.read(8) == _JOURNAL_MAGIC:
            raise InputError(
                f"{name} has an unfinished change that names another file; "
                "open and close it in Anki first."
            )
