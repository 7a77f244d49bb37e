"""Write files for the user without replacing the user's other files.

srs-eval replaces only files that it wrote itself. It recognises them by their content: a page, JSON
and the CSV of a run by their beginning, Markdown by its last line. A folder of tables or pictures
has a list, `.srs-eval-files`, with the hash of each file that was written there. All other files
stay as they are.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

from srs_eval.data.errors import InputError
from srs_eval.data.file_contents import write_atomically
from srs_eval.data.paths import VERSION

MARKDOWN_SIGNATURE = f"Made by srs-eval {VERSION}."
"""The last line of Markdown."""
HTML_GENERATOR = f'<meta name="generator" content="srs-eval {VERSION}">'
"""The first line of the head of a page."""
_MANIFEST_NAME = ".srs-eval-files"
JOURNAL = ".journal"
"""The folder in which a batch or an audit records its finished work."""
PRETRAINED = "pretrained"
"""The folder in which a batch keeps weights that it trained on other users."""
_BATCH_NAMES = (
    "setup.json",
    "result",
    "timing",
    "failed",
    "skipped",
    "raw",
    "evaluation",
    PRETRAINED,
)
_AUDIT_NAMES = ("audit.json", "ledger.json", "published", "tuned")
RESULT_NAMES = frozenset((*_BATCH_NAMES, *_AUDIT_NAMES))
"""The other names that a batch or an audit writes, beside its journal."""
_FILE_START_PATTERN = re.compile(
    rb'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta name="generator" content="srs-eval '
    rb'|\{\s+"layout": \d+,\s+"srs_eval": "'
    rb"|group,place,configuration,words,model,parameters,status,"
)
_FILE_END_PATTERN = re.compile(rb"\n\nMade by srs-eval [^\n]+\.\n\Z")
_BYTES_AT_EACH_END = 500  # bytes that are read at either end of a file
_SQLITE_JOURNAL_SUFFIXES = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps beside a database."""
_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd")


def check_outputs(
    files: Sequence[Path], folders: Sequence[tuple[str, Path]] = (), inputs: Sequence[Path] = ()
) -> None:
    """Refuse, before the work, outputs that cannot be written or would cost the user a file.

    `folders` are pairs of the extension of the files to be written and their folder; `inputs` are
    the files and folders that will be read. Raises InputError if the folder of a file does not
    exist, if two outputs are the same, if an output lies in an input, or if srs-eval did not write
    the file to be replaced.
    """
    for path in files:
        if path.is_dir():
            raise InputError(f'"{path}" is a folder: name a file in it.')
        if not path.parent.is_dir():
            raise InputError(f'"{path}" cannot be written: there is no folder "{path.parent}".')
        _refuse_input(path, inputs, "file")
        if not _is_stream(path):
            _refuse_foreign_file(path, "file", _resolve(path))
            _refuse_unwritable(path, _resolve(path).parent)
    for first, second in combinations(files, 2):
        if not _is_stream(first) and _is_same_file(first, second):
            raise InputError(
                f'"{first}" and "{second}" are the same file: name another for one of them.'
            )
    for extension, folder in folders:
        if folder.exists() and not folder.is_dir():
            raise InputError(f'"{folder}" is not a folder: name one for the files.')
        _refuse_input(folder, inputs, "folder")
        _refuse_unwritable(folder, _resolve(folder))
        for path in list_files_with_extension(folder, extension):
            _refuse_foreign_file(path, "folder")
        ancestors = (folder, *_resolve(folder).parents)
        for path in files:
            if any(_is_same_file(path, ancestor) for ancestor in ancestors):
                raise InputError(
                    f'"{path}" will be a file, so the folder "{folder}" cannot be created: '
                    "name another for one of them."
                )
            if _has_extension(path, extension) and _is_same_file(path.parent, folder):
                raise InputError(
                    f'"{path}" lies in the folder of the {extension} files: choose another name.'
                )


def list_files_with_extension(folder: Path, extension: str) -> list[Path]:
    """List the entries of a folder with an extension such as "csv", in any case."""
    entries = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in entries if _has_extension(path, extension))


def refuse_nested(out: Path, data: Path) -> None:
    """Raise InputError if results would lie in a data set, or a data set among results."""
    for inner, outer in ((out, data), (data, out)):
        if _is_inside(inner, outer):
            raise InputError(
                f'"{inner}" lies in "{outer}", but results and data sets must not be mixed: '
                "choose another --out."
            )


def is_written_by_srs_eval(path: Path) -> bool:
    """Return whether a file exists and srs-eval wrote it, by its content or its folder's list."""
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(_BYTES_AT_EACH_END)
            file.seek(max(0, os.fstat(file.fileno()).st_size - _BYTES_AT_EACH_END))
            if _FILE_START_PATTERN.match(start) or _FILE_END_PATTERN.search(file.read()):
                return True
        digests = {digest for digest, name in _read_manifest(path.parent) if name == path.name}
        return bool(digests) and _digest_bytes(path.read_bytes()) in digests
    except OSError:
        return False


def write_file(path: Path, content: bytes) -> None:
    """Write to a file, a pipe or a device; only a file that srs-eval wrote is replaced.

    Raises InputError for any other file, and if it cannot be written; the old content is intact
    then.
    """
    with _write_errors(path):
        if _is_stream(path):
            path.write_bytes(content)
        else:
            _refuse_foreign_file(path, "file", _resolve(path))
            write_atomically(_resolve(path), content)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write files (contents by name) into a folder, note them in its list, and return their paths.

    Raises InputError as `write_file` does. If srs-eval did not write one of the files to be
    replaced, nothing is written.
    """
    content_of_path = {folder / name: content for name, content in files.items()}
    for path in content_of_path:
        _refuse_foreign_file(path, "folder")
    with _write_errors(folder):
        # The list is written first, with the hashes of the old and the new files. So each file is
        # recognised even if this process is killed in between.
        records = set()
        for path in _find_unchanged_files(folder):
            records.add((_digest_bytes(path.read_bytes()), path.name))
        for name, content in files.items():
            records.add((_digest_bytes(content), name))
        by_name = sorted(records, key=lambda record: record[1])
        lines = (f"{digest}  {name}\n" for digest, name in by_name)
        write_atomically(folder / _MANIFEST_NAME, "".join(lines).encode())
        for path, content in content_of_path.items():
            write_atomically(path, content)
    return list(content_of_path)


def _refuse_foreign_file(path: Path, kind: str, target: Path | None = None) -> None:
    """Raise InputError if a file would be replaced that srs-eval did not write.

    `kind` ("file" or "folder") is what the user should choose anew. `target` is the file that would
    be replaced, if it is not the path itself, which may be a link.
    """
    replaced = target or path
    if os.path.lexists(replaced) and not is_written_by_srs_eval(replaced):
        raise InputError(
            f'srs-eval does not recognise "{path}" as its own file, so it is not overwritten: '
            f"name another {kind}."
        )


def _refuse_unwritable(path: Path, folder: Path) -> None:
    """Raise InputError if `folder`, or its nearest parent that exists, cannot be written to."""
    existing = next(ancestor for ancestor in (folder, *folder.parents) if ancestor.exists())
    if not os.access(existing, os.W_OK):
        raise InputError(f'"{path}" cannot be written ({os.strerror(errno.EACCES)}).')


def _refuse_input(path: Path, inputs: Iterable[Path], kind: str) -> None:
    """Raise InputError if an output is an input, lies in one, or is its journal."""
    for input_path in inputs:
        source = input_path.expanduser()
        if _is_inside(path, source):
            raise InputError(f'"{path}" is inside an input folder: name a {kind} elsewhere.')
        journals = (Path(f"{_resolve(source)}{suffix}") for suffix in _SQLITE_JOURNAL_SUFFIXES)
        if any(_is_same_file(path, read_file) for read_file in (source, *journals)):
            raise InputError(f'"{path}" is an input, and is not overwritten: name another {kind}.')


def _is_stream(path: Path) -> bool:
    """Return whether a path is a pipe, a device or an open stream, which has nothing to lose."""
    if any(path.is_relative_to(stream) for stream in _STREAMS):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def _is_inside(path: Path, folder: Path) -> bool:
    real = _resolve(path)
    if not folder.is_dir():
        return False
    return any(_is_same_file(ancestor, folder) for ancestor in (real, *real.parents))


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_same_file(first: Path, second: Path) -> bool:
    """Return whether two paths may be one file: as hard links, links, or names in another case."""
    try:
        if first.samefile(second):
            return True
    except OSError:  # one of them does not exist
        pass
    return _normalize_path(first) == _normalize_path(second)


def _normalize_path(path: Path) -> str:
    return unicodedata.normalize("NFC", str(_resolve(path))).casefold()


def _has_extension(path: Path, extension: str) -> bool:
    return path.suffix.casefold() == f".{extension}"


def _read_manifest(folder: Path) -> set[tuple[str, str]]:
    """Read the hashes and names in a folder's list."""
    try:
        lines = (folder / _MANIFEST_NAME).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return set()
    records = set()
    for line in lines:
        digest, _, name = line.partition("  ")
        records.add((digest, name))
    return records


def _find_unchanged_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder's list that have not changed since they were written."""
    names = {name for _, name in _read_manifest(folder)}
    for name in sorted(names):
        if is_written_by_srs_eval(folder / name):
            yield folder / name


def _digest_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's errors into one sentence about `path`."""
    try:
        yield
    except OSError as error:
        raise InputError(f'"{path}" cannot be written ({error.strerror or error}).') from None
