"""Read a user's files through private copies, and never write to them.

A collection may be open in Anki while we read it. Anki holds an exclusive lock and keeps
today's reviews in `X-wal`; opening the original in any mode of SQLite fails, misses them or
writes beside it. So the database is copied, and only the copy is opened.

A copy holds everything that the user wrote on cards and must not outlive this process, however it
ends. So it is made in memory. It lies in a private folder only while SQLite folds a journal
into it, and, if it is larger than `_MEMORY_BYTES`, as long as it is read. Such a folder is locked
while its process lives: the next start deletes the folders that killed processes have left.
"""

from __future__ import annotations

import atexit
import codecs
import errno
import io
import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from srs_eval.data.errors import InputError, printable

if TYPE_CHECKING:
    from filelock import FileLock

MAX_DATABASE_BYTES = 4 << 30
"""Largest collection that is copied or unpacked."""
_MEMORY_BYTES = 512 << 20
"""Largest copy in memory; SQLite briefly needs twice as much."""

SQLITE_MAGIC = b"SQLite format 3\x00"
HEADER_BYTES = 100
START_BYTES = 1 << 16
"""Bytes at the beginning of a file, by which it is recognised."""

_FOLDER_PREFIX = "srs-eval-private-"  # names of private folders begin so
_COLLECTION_NAME = "collection.anki2"  # the only file in each of them, beside its journals and lock
_LOCK_NAME = f"{_COLLECTION_NAME}-lock"
_JOURNAL_SUFFIXES = ("-wal", "-journal")
# The first 8 bytes of a rollback journal, and the last 8 of one that names a second file
# (SQLite file format 3).
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_ATTEMPTS = 8  # at copying a file that does not change meanwhile
# File systems may stamp two writes within one tick with the same time.
_CLOCK_TICK_S = 0.02


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's errors into one sentence about `path`."""
    name = printable(path)
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{name} does not exist; check the path.") from error
    except PermissionError as error:
        raise InputError(f"You are not allowed to read {name}; check its permissions.") from error
    except (OSError, RuntimeError, ValueError) as error:  # loops of links, NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name} cannot be read ({printable(reason)}).") from error


def resolve_file(path: Path) -> Path:
    """Return the real file behind links, where its journals lie.

    Raises InputError if it is not a file.
    """
    with file_errors(path):
        real = path.resolve(strict=True)
        if not stat.S_ISREG(real.stat().st_mode):
            raise InputError(f"{printable(path)} is not a file; give the path of a file.")
        return real


def read_start(path: Path, size: int) -> bytes:
    """Read up to `size` bytes from the start of a file. Raises InputError."""
    with file_errors(path), open(path, "rb") as file:
        return file.read(size)


def read_limited(path: Path, limit: int) -> bytes:
    """Read all of a small file. Raises InputError beyond `limit` bytes."""
    with file_errors(path), open(path, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise InputError(f"{printable(path)} is larger than {limit >> 20} MB, too large to read.")
    return content


_UTF16_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_UTF16_SAMPLE_BYTES = 32  # bytes by which UTF-16 is recognised without a mark


def detect_utf16(start: bytes) -> str | None:
    """Return the encoding of a text with this beginning if it is UTF-16, else None.

    Text without a byte-order mark is recognised by its first letters, as in a table's header: every
    second byte is zero.
    """
    if start[:2] in _UTF16_MARKS:
        return _UTF16_MARKS[start[:2]]
    beginning = start[:_UTF16_SAMPLE_BYTES]
    even = beginning[::2]
    odd = beginning[1::2]
    if len(beginning) == _UTF16_SAMPLE_BYTES and not any(odd) and all(even):
        return "utf-16-le"
    if len(beginning) == _UTF16_SAMPLE_BYTES and not any(even) and all(odd):
        return "utf-16-be"
    return None


def normalize_text(content: bytes) -> bytes:
    """Convert UTF-16 to UTF-8, and the line ends of old Mac programs to line feeds.

    Half a character at the end, as when only the beginning of a file was read, is dropped.
    """
    encoding = detect_utf16(content)
    if encoding is not None:
        content = content.decode(encoding, "ignore").encode()
    end = content.find(b"\r")
    if end >= 0 and b"\n" not in content[: end + 2]:  # the first line ends with \r alone
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return content


def decode_text(content: bytes) -> str:
    """Decode the text of a table: UTF-8, or the encodings of Chinese and western systems."""
    for encoding in ("utf-8", "gbk"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1")


def parse_sqlite_header(start: bytes) -> tuple[int, int | None] | None:
    """Return a database's page size and total bytes from its first 100 bytes.

    None if it is not an SQLite database. If an old writer left out the number of pages, the total
    is None.
    """
    if len(start) < HEADER_BYTES or not start.startswith(SQLITE_MAGIC):
        return None
    page_size = int.from_bytes(start[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    is_power_of_two = page_size & (page_size - 1) == 0
    if page_size < 512 or not is_power_of_two:
        return None
    pages = int.from_bytes(start[28:32], "big")
    # The number of pages is valid if the change counter (24) was the same when it was written (92).
    is_valid_count = pages > 0 and start[24:28] == start[92:96]
    if not is_valid_count:
        return page_size, None
    return page_size, pages * page_size


def _check_database_length(start: bytes, size: int, name: str) -> None:
    """Raise InputError unless a database without journals is as long as its header says."""
    header = parse_sqlite_header(start)
    if header is None:
        raise InputError(
            f"{name} is damaged (its database header is cut or wrong); restore a backup in Anki."
        )
    page_size, length = header
    if size % page_size or (length is not None and size != length):
        promised_size = f"{length:,}" if length else "whole pages"
        raise InputError(
            f"{name} is damaged ({size:,} bytes where its header promises {promised_size}); "
            "copy it again or restore a backup in Anki."
        )


@contextmanager
def database_errors(name: str) -> Iterator[None]:
    """Turn SQLite's errors about a database into one sentence about `name`."""
    try:
        yield
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        raise damaged_database_error(name, error) from error


def damaged_database_error(name: str, reason: object) -> InputError:
    """Return the InputError for a damaged database of Anki, with what to do about it."""
    return InputError(
        f"{name} is damaged ({printable(reason, 100)}); "
        "run Tools > Check Database in Anki or restore a backup."
    )


# Private copies


class _FileState(NamedTuple):
    """Identity, size and date of a file, which tell whether it has changed."""

    inode: int
    size: int
    modified_ns: int


class PrivateFile:
    """A database that is being written: in memory, or in a private folder if necessary."""

    def __init__(self, size: int, *, on_disk: bool = False) -> None:
        """Prepare for `size` bytes; `on_disk` if journals will lie beside it."""
        self.path: Path | None = None  # set if it lies on disk
        self.stream: BinaryIO = io.BytesIO()
        if on_disk or size > _MEMORY_BYTES:
            self.path = _make_private_folder() / _COLLECTION_NAME
            self.stream = open(self.path, "w+b")  # noqa: SIM115

    def connect(self) -> sqlite3.Connection:
        """Open the database for reading; if it fits into memory, it is removed from disk.

        Raises sqlite3.Error if it is not a database.
        """
        if self.path is not None:
            self.stream.close()
            connection = sqlite3.connect(self.path, isolation_level=None)
            try:
                (pages,) = connection.execute("pragma page_count").fetchone()
                (page_size,) = connection.execute("pragma page_size").fetchone()
                if pages * page_size > _MEMORY_BYTES:
                    return connection
                memory = sqlite3.connect(":memory:", isolation_level=None)
                connection.backup(memory)
            except BaseException:
                connection.close()
                raise
            connection.close()
            self.close()
            return memory
        assert isinstance(self.stream, io.BytesIO)
        connection = sqlite3.connect(":memory:", isolation_level=None)
        with self.stream.getbuffer() as content:
            if len(content) > 20:
                content[18:20] = b"\1\1"  # turns write-ahead logging off: memory has no log
            connection.deserialize(content)
        self.stream.close()
        return connection

    def close(self) -> None:
        """Delete the database."""
        self.stream.close()
        if self.path is not None:
            _remove_private_folder(self.path.parent)

    def __enter__(self) -> PrivateFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def private_copy(path: Path) -> Iterator[tuple[sqlite3.Connection, tuple[str, ...]]]:
    """Yield a consistent copy of database `path` with its journals folded in, and notes about it.

    The originals' sizes and times are compared before and after, and the copy is made again
    if anything changed. Raises InputError if they keep changing, are too large or damaged.
    """
    real = resolve_file(path)
    name = printable(path)
    for attempt in range(_ATTEMPTS):
        states = _read_file_states(real)
        sizes = [0 if state is None else state.size for state in states]
        if sum(sizes) > MAX_DATABASE_BYTES:
            raise InputError(
                f"{name} is larger than {MAX_DATABASE_BYTES >> 30} GB, too large to read."
            )
        newest_ns = max((state.modified_ns for state in states if state is not None), default=0)
        if abs(time.time_ns() - newest_ns) < _CLOCK_TICK_S * 1e9:
            time.sleep(_CLOCK_TICK_S)
            continue
        has_journals = any(sizes[1:])
        with PrivateFile(sum(sizes), on_disk=has_journals) as copy:
            if _copy_all(real, copy, states) and _read_file_states(real) == states:
                notes = _check_journals(copy, name)
                with database_errors(name):
                    connection = copy.connect()
                with closing(connection):
                    yield connection, notes
                return
        time.sleep(0.05 * (attempt + 1))
    raise InputError(
        f"{name} keeps changing while it is read; "
        "wait until Anki has finished syncing, or close it, and try again."
    )


def sweep_abandoned_copies() -> None:
    """Delete private folders whose process was killed before it could delete them."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_FOLDER_PREFIX) and _is_abandoned(Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    """Return whether a private folder is this user's, and no living process has locked it."""
    from filelock import FileLock

    with suppress(OSError):  # locked, or another user's
        names = {entry.name for entry in folder.iterdir()}
        is_own = not hasattr(os, "getuid") or folder.lstat().st_uid == os.getuid()
        # A folder without both is only just being made. On Windows the lock may be deleted already.
        has_copy = not names.isdisjoint({_LOCK_NAME, _COLLECTION_NAME})
        has_only_copy = all(name.startswith(_COLLECTION_NAME) for name in names)
        if is_own and has_copy and has_only_copy:
            with FileLock(folder / _LOCK_NAME, timeout=0):
                return True
    return False


_private_folders: dict[Path, FileLock] = {}
"""Private folders of this process with their locks, which the system releases when it ends."""


def _make_private_folder() -> Path:
    """Make a temporary folder for this user only, locked until `_remove_private_folder`.

    If the process ends without removing it, the next one does. Raises InputError if there is no
    room.
    """
    from filelock import FileLock

    try:
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
        _private_folders[folder] = FileLock(folder / _LOCK_NAME, thread_local=False)
        _private_folders[folder].acquire()
        return folder
    except OSError as error:
        raise InputError(
            f"No temporary folder can be created ({error.strerror}); free some disk space."
        ) from error


def _remove_private_folder(folder: Path) -> None:
    if folder in _private_folders:
        _private_folders[folder].release()  # Windows does not delete open files
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            del _private_folders[folder]


@atexit.register
def _remove_private_folders() -> None:
    """Remove folders that a second interruption, or a thread that still reads, has left."""
    for _ in range(5):  # the thread may write while they are removed
        for folder in list(_private_folders):
            _remove_private_folder(folder)


def _read_file_states(real: Path) -> list[_FileState | None]:
    """Read the states of the database and its journals; None for an absent one."""
    states: list[_FileState | None] = []
    with file_errors(real):
        for suffix in ("", *_JOURNAL_SUFFIXES):
            try:
                status = os.stat(f"{real}{suffix}")
            except FileNotFoundError:
                if not suffix:
                    raise
                states.append(None)
            else:
                states.append(_FileState(status.st_ino, status.st_size, status.st_mtime_ns))
    return states


def _copy_all(real: Path, copy: PrivateFile, states: list[_FileState | None]) -> bool:
    """Copy the files that exist; return False if a file vanished meanwhile."""
    for suffix, state in zip(("", *_JOURNAL_SUFFIXES), states, strict=True):
        if state is None or (suffix and copy.path is None):
            continue
        with file_errors(real):
            try:
                if suffix:
                    shutil.copyfile(f"{real}{suffix}", f"{copy.path}{suffix}")
                else:
                    with open(real, "rb") as source:
                        shutil.copyfileobj(source, copy.stream, 1 << 20)
                    copy.stream.flush()
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


def _check_journals(copy: PrivateFile, name: str) -> tuple[str, ...]:
    """Return notes about what a copy's journals mean.

    Raises InputError for a journal that must not be folded in, and for a database without journals
    whose length is wrong.
    """
    if copy.path is not None:
        wal_suffix, journal_suffix = _JOURNAL_SUFFIXES
        wal = Path(f"{copy.path}{wal_suffix}")
        journal = Path(f"{copy.path}{journal_suffix}")
        if wal.exists() and wal.stat().st_size:
            return ("Reviews that Anki has not yet written back to the file are included.",)
        if journal.exists() and read_start(journal, 8) == _JOURNAL_MAGIC:
            _refuse_second_journal(journal, name)
            return ("An unfinished change by another program was ignored.",)
    size = copy.stream.seek(0, os.SEEK_END)
    copy.stream.seek(0)
    _check_database_length(copy.stream.read(HEADER_BYTES), size, name)
    return ()


def _refuse_second_journal(journal: Path, name: str) -> None:
    """Raise InputError if a journal names another file, which SQLite deletes after the roll-back.

    Anki never writes such a journal (it attaches no second database); a hostile one could name any
    file of the user's.
    """
    if journal.stat().st_size < 16:
        return
    with open(journal, "rb") as file:
        file.seek(-8, os.SEEK_END)
        if file.read(8) == _JOURNAL_MAGIC:
            raise InputError(
                f"{name} has an unfinished change that involves another file; "
                "open and close it in Anki first."
            )
