"""Folders of this program, and what it writes anywhere.

SRS_EVAL_{CACHE,CONFIG,DATA,STATE}_DIR override the folders.

There is one rule for what srs-eval replaces: only what it wrote itself. A file says of itself that
srs-eval wrote it: a page, JSON and the CSV of a run by how they begin, Markdown by its last line. A
folder of tables or pictures has a list, `.srs-eval-files`, with the hash of each file that was
written there. Whatever else there is stays as it is.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import combinations
from pathlib import Path

from srs_eval.data.errors import InputError

_NAME = "srs-eval"
VERSION = "1.0.0"
MADE_BY = f"Made by srs-eval {VERSION}."
"""The last line of Markdown."""
GENERATOR = f'<meta name="generator" content="srs-eval {VERSION}">'
"""The first line of the head of a page."""
_LIST = ".srs-eval-files"
JOURNAL = ".journal"
"""The folder in which a batch or an audit keeps what it has done."""
_OF_BATCH = ("setup.json", "result", "timing", "failed", "skipped", "raw", "evaluation")
_OF_AUDIT = ("audit.json", "ledger.json", "published", "tuned")
RESULT_NAMES = frozenset((*_OF_BATCH, *_OF_AUDIT))
"""What else these write, beside their journal."""
_BEGINS = re.compile(
    rb'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta name="generator" content="srs-eval '
    rb'|\{\s+"layout": \d+,\s+"srs_eval": "'
    rb"|group,place,configuration,words,model,parameters,status,"
)
_ENDS = re.compile(rb"\n\nMade by srs-eval [^\n]+\.\n\Z")
_CLOCK_TICK = 3.0  # seconds, more than any file system's
_READ = 500  # bytes of either end of a file that are looked at
_JOURNALS = ("-wal", "-shm", "-journal")  # that SQLite keeps beside a database
_VARIABLES = tuple(f"SRS_EVAL_{kind}_DIR" for kind in ("CACHE", "CONFIG", "DATA", "STATE"))
_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd")
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


def settle_places() -> None:
    """Make the folders that environment variables name absolute: they stay where they are, also
    while code of somebody's own works in another folder."""
    for name in (*_VARIABLES, "NUMBA_CACHE_DIR"):
        if os.environ.get(name):
            os.environ[name] = os.path.abspath(os.environ[name])


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
        with suppress(OSError):
            yield from sorted(home.glob("snap/anki*/*/.local/share/Anki2"))
    yield home / "Documents" / "Anki"  # before Anki 2.1.5
    yield home / "Anki"


def content_of(path: Path, most: int) -> bytes:
    """All that a small file holds, `most` bytes at most.

    Raises OSError, also of what is larger and of what is no file: a pipe or a device is not opened,
    for that may wait for ever.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
    return content


def content_digest(folder: Path, files: Iterable[Path]) -> str:
    """SHA-256 over the places in `folder` and the contents of files, in order of place."""
    digest = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}:{len(content)};".encode())
        digest.update(content)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of what is in a file, remembered while its date and size stay; raises OSError."""
    about = path.stat()
    changed_at = max(about.st_mtime, about.st_ctime)
    if time.time() - changed_at < _CLOCK_TICK:  # it may change again with the same date
        return _digest_of_file(path)
    return _remembered_digest(path, about.st_mtime_ns, about.st_ctime_ns, about.st_size)


@cache
def _remembered_digest(path: Path, modified_ns: int, changed_ns: int, size: int) -> str:
    return _digest_of_file(path)


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _place(variable: str, function: str) -> Path:
    if os.environ.get(variable):
        return Path(os.environ[variable])
    import platformdirs

    path: Path = getattr(platformdirs, function)(_NAME, appauthor=False)
    return path


# What is written


def check_outputs(
    files: Sequence[Path], folders: Sequence[tuple[str, Path]] = (), read: Sequence[Path] = ()
) -> None:
    """Refuse, before the work, what cannot be written or would cost a person a file.

    `folders` come with the ending of the files that they get; `read` are the files and folders
    that the work is on. Raises InputError where there is no such folder, where two outputs are
    one, where something lies in what is read, and where a file is not srs-eval's own.
    """
    for path in files:
        if path.is_dir():
            raise InputError(f'"{path}" is a folder: name a file in it.')
        if not path.parent.is_dir():
            raise InputError(f'"{path}" cannot be written: there is no folder "{path.parent}".')
        _refuse_what_is_read(path, read, "file")
        if not _is_stream(path):
            _refuse_others(path, "file", _real(path))
            _refuse_closed(path, _real(path).parent)
    for one, other in combinations(files, 2):
        if not _is_stream(one) and _same(one, other):
            raise InputError(f'"{one}" and "{other}" are one file: name another for one of them.')
    for ending, folder in folders:
        if folder.exists() and not folder.is_dir():
            raise InputError(f'"{folder}" is no folder: name one for the files.')
        _refuse_what_is_read(folder, read, "folder")
        _refuse_closed(folder, _real(folder))
        for path in with_ending(folder, ending):
            _refuse_others(path, "folder")
        for path in files:
            if any(_same(path, each) for each in (folder, *_real(folder).parents)):
                raise InputError(f'"{path}" and "{folder}" cannot be both: name another of them.')
            if _has_ending(path, ending) and _same(path.parent, folder):
                raise InputError(
                    f'"{path}" lies in the folder of the {ending} files: name another.'
                )


def with_ending(folder: Path, ending: str) -> list[Path]:
    """What there is in a folder with an ending such as "csv", in any case."""
    there = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in there if _has_ending(path, ending))


def refuse_nested(out: Path, data: Path) -> None:
    """Raises InputError where results would lie in a data set, or a data set among results."""
    for inner, outer in ((out, data), (data, out)):
        if _lies_in(inner, outer):
            raise InputError(
                f'"{out}" and the data set "{data}" lie in one another: choose another --out.'
            )


def is_own(path: Path) -> bool:
    """Whether a file is there and says, or its folder's list does, that srs-eval wrote it."""
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            begins = file.read(_READ)
            file.seek(max(0, os.fstat(file.fileno()).st_size - _READ))
            if _BEGINS.match(begins) or _ENDS.search(file.read()):
                return True
        known = {digest for digest, name in _listed(path.parent) if name == path.name}
        return bool(known) and _digest(path.read_bytes()) in known
    except OSError:
        return False


def write_file(path: Path, content: bytes) -> None:
    """Write a file, or to a pipe or device; only a file of srs-eval's own is replaced.

    Raises InputError otherwise, and where it cannot be written; what was there is whole then.
    """
    with _refusals_in_words(path):
        if _is_stream(path):
            path.write_bytes(content)
        else:
            _refuse_others(path, "file", _real(path))
            write_atomically(_real(path), content)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder, by name, and note them in its list; their paths.

    Raises InputError as `write_file`, before anything is written where one is not srs-eval's own.
    """
    paths = {folder / name: content for name, content in files.items()}
    for path in paths:
        _refuse_others(path, "folder")
    with _refusals_in_words(folder):
        # Noted first: a file that is there when this is killed is known, whether old or new.
        known = {(_digest(path.read_bytes()), path.name) for path in _own_in(folder)}
        known |= {(_digest(content), name) for name, content in files.items()}
        lines = (f"{digest}  {name}\n" for digest, name in sorted(known, key=lambda each: each[1]))
        write_atomically(folder / _LIST, "".join(lines).encode())
        for path, content in paths.items():
            write_atomically(path, content)
    return list(paths)


def write_atomically(
    path: Path, content: bytes, *, lasting: bool = True, private: bool = False
) -> None:
    """Replace a file in one step. Raises OSError.

    `lasting`: it is on disk before this returns; `private`: nobody else may read it (mode 0600).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:50]}.srs-eval.tmp")
    temporary.unlink(missing_ok=True)  # of a process that was killed
    try:
        with open(temporary, "xb", opener=_open_privately if private else None) as file:
            file.write(content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        _replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if lasting and os.name == "posix":
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# --- inside


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _replace(temporary: Path, path: Path) -> None:
    """Windows refuses for as long as somebody, a virus scanner say, has the old file open."""
    for seconds in (0.01, 0.05, 0.2, 0.5) if sys.platform == "win32" else ():
        try:
            return os.replace(temporary, path)
        except PermissionError:
            time.sleep(seconds)
    os.replace(temporary, path)


def _refuse_others(path: Path, what: str, real: Path | None = None) -> None:
    """`real` is what would be replaced, if not the path itself, which may be a link."""
    replaced = real or path
    if os.path.lexists(replaced) and not is_own(replaced):
        raise InputError(
            f'"{path}" is not known as a file that srs-eval wrote, and is not overwritten: '
            f"name another {what}."
        )


def _refuse_closed(path: Path, folder: Path) -> None:
    """`folder` is where it would be made, perhaps itself in what there is above."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(there, os.W_OK):
        raise InputError(f'"{path}" cannot be written ({os.strerror(errno.EACCES)}).')


def _refuse_what_is_read(path: Path, read: Iterable[Path], what: str) -> None:
    for each in read:
        source = each.expanduser()
        if _lies_in(path, source):
            raise InputError(f'"{path}" lies in what is read: name a {what} elsewhere.')
        journals = (Path(f"{_real(source)}{ending}") for ending in _JOURNALS)
        if any(_same(path, own) for own in (source, *journals)):
            raise InputError(f'"{path}" is read, and is not overwritten: name another {what}.')


def _is_stream(path: Path) -> bool:
    """Whether it is a pipe, a device or an open stream, which has nothing to lose."""
    return any(path.is_relative_to(each) for each in _STREAMS) or (
        path.exists() and not path.is_file() and not path.is_dir()
    )


def _lies_in(path: Path, folder: Path) -> bool:
    real = _real(path)
    return folder.is_dir() and any(_same(each, folder) for each in (real, *real.parents))


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _same(one: Path, other: Path) -> bool:
    """Whether two paths are one file or may be: also hard links, links, and names in other case."""
    try:
        if one.samefile(other):
            return True
    except OSError:  # one of them is not there
        pass
    return _spelled(one) == _spelled(other)


def _spelled(path: Path) -> str:
    return unicodedata.normalize("NFC", str(_real(path))).casefold()


def _has_ending(path: Path, ending: str) -> bool:
    return path.suffix.casefold() == f".{ending}"


def _listed(folder: Path) -> set[tuple[str, str]]:
    """Hashes and names that a folder's list has."""
    try:
        lines = (folder / _LIST).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return set()
    return {(digest, name) for digest, _, name in (line.partition("  ") for line in lines)}


def _own_in(folder: Path) -> Iterator[Path]:
    """The files of a folder's list that are as they were written."""
    names = {name for _, name in _listed(folder)}
    return (folder / name for name in sorted(names) if is_own(folder / name))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def _refusals_in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f'"{path}" cannot be written ({error.strerror or error}).') from None
