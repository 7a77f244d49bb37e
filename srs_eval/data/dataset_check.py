"""What a data-set folder holds, and whether that is whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from srs_eval.data.datasets import TABLES, Dataset, Layout, rows_in
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.printable import printable
from srs_eval.data.readers.files import file_errors
from srs_eval.data.reviews import IntArray, ReviewLog, Rows

_HIGHEST_STATE = 6  # Anki's kinds of entries are 0-5; a row's state is the kind + 1


@dataclass(frozen=True, eq=False)
class Description:
    """What there is, by the files' own account."""

    folder: Path
    layout: Layout
    users: list[int]
    reviews: IntArray  # shape (users,): of those whose file can be read, -1 for the others
    table_bytes: dict[str, int]  # by table
    without: dict[str, list[int]]  # "cards", "decks" -> the users that have none
    gaps: list[tuple[int, int]]  # first and last of the ids that are left out between users

    @property
    def known_reviews(self) -> IntArray:
        return self.reviews[self.reviews >= 0]


def describe(dataset: Dataset) -> Description:
    """Count users, reviews and bytes; no reviews are read."""
    sizes = dict.fromkeys(TABLES, 0)
    without: dict[str, list[int]] = {table: [] for table in TABLES[1:]}
    reviews = np.full(len(dataset.users), -1, np.int64)
    for place, user in enumerate(dataset.users):
        for table in TABLES:
            parts = dataset.parts(table, user)
            if not parts and table in without:
                without[table].append(user)
            with suppress(OSError):  # a broken link: `check` tells
                sizes[table] += sum(part.stat().st_size for part in parts)
        with suppress(InputError):
            reviews[place] = sum(map(rows_in, dataset.parts("revlogs", user)))
    ids = np.array(dataset.users, np.int64)
    edges = np.flatnonzero(np.diff(ids) > 1)
    gaps = [(int(ids[k]) + 1, int(ids[k + 1]) - 1) for k in edges]
    return Description(dataset.folder, dataset.layout, dataset.users, reviews, sizes, without, gaps)


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a file."""

    path: Path
    what: str


@dataclass(frozen=True)
class Checked:
    """A user whose files were read."""

    user: int
    hashes: int  # files that were held against the hub's hash
    findings: list[Finding] = field(default_factory=list)


def check(dataset: Dataset, users: Sequence[int]) -> Generator[Checked, None, None]:
    """Read every file of some users: hashes where the hub's are known, columns, types, ranges."""
    with ThreadPoolExecutor() as threads:
        try:
            yield from threads.map(lambda user: _check_user(dataset, user), users)
        finally:
            threads.shutdown(cancel_futures=True)


def _check_user(dataset: Dataset, user: int) -> Checked:
    parts = [part for table in TABLES for part in dataset.parts(table, user)]
    findings, hashes = [], 0
    for part in parts:
        with suppress(InputError):  # told below, once
            expected = hub_digest(dataset.folder, part)
            if expected is not None:
                hashes += 1
                if digest(part, like=expected) != expected:
                    findings.append(Finding(part, "its content is not the hub's"))
    if not findings:
        try:
            log = dataset.load(user)
        except InputError as error:
            path = _named(parts, error)
            findings.append(
                Finding(path, _without_remedy(error).removeprefix(f"{printable(path)} "))
            )
        else:
            assert log.rows is not None
            findings += [Finding(parts[0], told) for told in impossible(log.rows)]
    return Checked(user, hashes, findings)


def load_possible(dataset: Dataset, user: int) -> ReviewLog:
    """A user's log, if `impossible` finds nothing.

    Raises NotEnoughData with what it finds, and InputError as `Dataset.load` does.
    """
    log = dataset.load(user)
    assert log.rows is not None
    told = impossible(log.rows) if len(log.rows) else []
    if told:
        raise NotEnoughData(f"what it holds cannot be true: {'; '.join(told)}")
    return log


def impossible(rows: Rows) -> list[str]:
    """What cannot be true of rows, in words: values out of their range, days that go back."""
    told = []
    if not len(rows):
        return ["it holds no reviews"]
    ranges = (
        ("rating", rows.rating, 0, 4),  # 0 is no answer: the protocol leaves such rows out
        ("state", rows.state, 0, _HIGHEST_STATE),
        ("day_offset", rows.day_offset, 0, None),
        ("duration", rows.duration_ms, 0, None),
        ("elapsed_days", rows.elapsed_days, -1, None),
        ("elapsed_seconds", rows.elapsed_seconds, -1, None),
    )
    for name, values, lowest, highest in ranges:
        wrong = values < lowest
        if highest is not None:
            wrong |= values > highest
        if wrong.any():
            first = int(np.argmax(wrong))
            told.append(
                f"{int(wrong.sum()):,} of {len(rows):,} rows have an impossible {name} "
                f"(row {first + 1}: {values[first]})"
            )
    if (np.diff(rows.day_offset) < 0).any():
        told.append("its days go back: the rows are not in order of review")
    return told


# --- hashes ----------------------------------------------------------------------


def hub_digest(folder: Path, path: Path) -> str | None:
    """The hash that the hub has of a file, as its own program left it beside a download.

    SHA-256, or git's SHA-1 for a small file; None where nothing is known. Read from
    `.cache/huggingface/download/PATH.metadata`: commit, hash, time, a line each
    (huggingface_hub: _local_folder.py).
    """
    name = path.relative_to(folder).as_posix()
    metadata = folder / ".cache" / "huggingface" / "download" / f"{name}.metadata"
    try:
        lines = metadata.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeError):
        return None
    found = lines[1].strip().lower() if len(lines) > 1 else ""
    is_hash = len(found) in (40, 64) and set(found) <= set("0123456789abcdef")
    return found if is_hash else None


def digest(path: Path, *, like: str) -> str:
    """A file's hash of the same kind as `like`. Raises InputError where it cannot be read."""
    with file_errors(path), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        kind = hashlib.sha256 if len(like) == 64 else partial(hashlib.sha1, b"blob %d\0" % size)
        return hashlib.file_digest(file, kind).hexdigest()


def _named(parts: Sequence[Path], error: InputError) -> Path:
    """The file that an error names."""
    return next((part for part in parts if printable(part) in str(error)), parts[0])


def _without_remedy(error: InputError) -> str:
    return str(error).removesuffix("; download it again.").removesuffix(".")
