"""Folders of this program on each system, what a file in them holds, a folder's digest.

SRS_EVAL_{CACHE,CONFIG,DATA,STATE}_DIR override the folders.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_NAME = "srs-eval"
VERSION = "0.1.0"
DEMO_FILE = Path(__file__).with_name("demo.anki2.zst")
"""The demo's learner: 20,000 reviews of a year, simulated by `tools/simulated`."""


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


def anki_folders(home: Path) -> Iterator[Path]:
    """Where Anki keeps its profiles (manual, "File locations"; packagers' sandboxes)."""
    if os.environ.get("ANKI_BASE"):
        yield Path(os.environ["ANKI_BASE"])
    if sys.platform == "win32":
        yield Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming") / "Anki2"
    elif sys.platform == "darwin":
        yield home / "Library" / "Application Support" / "Anki2"
    else:
        data = os.environ.get("XDG_DATA_HOME")
        if data:
            yield Path(data) / "Anki2"
        yield home / ".local" / "share" / "Anki2"
        yield home / ".var" / "app" / "net.ankiweb.Anki" / "data" / "Anki2"
        with contextlib.suppress(OSError):
            yield from sorted(home.glob("snap/anki*/*/.local/share/Anki2"))
    yield home / "Documents" / "Anki"  # before Anki 2.1.5
    yield home / "Anki"


def content_of(path: Path, most: int) -> bytes:
    """All that a small file holds, `most` bytes at most.

    Raises OSError, also of what is larger and of what is no file: a pipe or a device is not opened,
    for that may wait for ever.
    """
    _refuse_other_than_file(os.stat(path), path)
    with open(path, "rb", opener=_without_waiting) as file:
        _refuse_other_than_file(os.fstat(file.fileno()), path)
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
    return content


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _refuse_other_than_file(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))


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

    path: Path = getattr(platformdirs, function)(_NAME, appauthor=False)
    return path
