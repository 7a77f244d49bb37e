"""Append-only journals: a line is a checksum and a JSON object, and only whole lines count.

A process that is killed loses the line that it was writing and nothing else.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from srs_eval.data.errors import InputError


def append_record(handle: int, record: Mapping[str, Any]) -> None:
    """Add a line. It survives the end of this process as soon as this returns.

    Raises OSError, as on a full disk; the journal is as before then.
    """
    text = json.dumps(record, ensure_ascii=True, allow_nan=False).encode()
    line = b"%08x %s\n" % (zlib.crc32(text), text)
    done = 0
    try:
        while done < len(line):
            done += os.write(handle, line[done:])
    except OSError:
        if done:  # what is written later must not be glued to half a line
            os.ftruncate(handle, os.lseek(handle, 0, os.SEEK_END) - done)
        raise


def read_records(path: Path) -> Iterator[tuple[dict[str, Any] | None, bytes]]:
    """The records in their order, with their lines; None for a line that is damaged or torn."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        for line in file:
            checksum, _, text = line.partition(b" ")
            whole = (
                line.endswith(b"\n")
                and len(checksum) == 8
                and checksum == b"%08x" % zlib.crc32(text[:-1])
            )
            yield (json.loads(text) if whole else None), line


def open_journal(path: Path) -> int:
    """A handle to append to; a torn last line is cut off first."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
    end = os.lseek(handle, 0, os.SEEK_END)
    keep = end
    while keep > 0:
        start = max(0, keep - 65536)
        os.lseek(handle, start, os.SEEK_SET)
        newline = os.read(handle, keep - start).rfind(b"\n")
        keep = start + newline + 1 if newline >= 0 else start
        if newline >= 0:
            break
    if keep < end:
        os.ftruncate(handle, keep)
    return handle


def hold(folder: Path, refusal: str) -> Callable[[], None]:
    """Hold a folder alone; returns what lets go. The system lets go when a process ends.

    Raises InputError with the refusal where another process holds it.
    """
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise InputError(refusal) from None
    return lambda: os.close(handle)
