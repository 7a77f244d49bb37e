"""Data sets from the Hugging Face hub: what is missing in a folder is fetched, nothing else sent;
and whether what lies in a folder is whole.

By huggingface_hub, with the person's own token; the conditions of a data set are theirs to
accept, on its page. Layouts on the hub: open-spaced-repetition/anki-revlogs-dataset-builder
(upload_to_hf.py) and FSRS-Anki-20k's card.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from srs_eval.data.datasets import (
    PUBLISHED,
    TABLES,
    Dataset,
    Layout,
    Published,
    page_of,
    rows_in,
    select_users,
)
from srs_eval.data.errors import InputError, NotEnoughData, require
from srs_eval.data.readers.files import file_errors
from srs_eval.data.reviews import IntArray, ReviewLog, Rows

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_KNOWN_AS: dict[Layout, Published] = {each.layout: each for each in PUBLISHED}
KNOWN = tuple(each.name for each in PUBLISHED)
_AT_A_TIME = 8
_OF_A_USER = re.compile(
    r"(?:revlogs|cards|decks)/user_id=(0|[1-9]\d{0,14})/[^/]+\.parquet"
    r"|dataset/\d+/(0|[1-9]\d{0,14})\.csv"
)
_ABOUT = re.compile(r"(?:README|LICEN[CS]E)(?:\.\w+)?", re.IGNORECASE)


@dataclass(frozen=True)
class _HubFile:
    path: str
    size: int
    digest: str  # SHA-256, or git's SHA-1 of a small file


@dataclass(frozen=True)
class Listed:
    """What was asked for; nothing is fetched yet."""

    users: list[int]
    files: int
    bytes: int


@dataclass(frozen=True)
class Fetched:
    """One more file is there and has the hub's hash."""

    was_there: bool
    files: int  # so far
    bytes: int


def repo_of(folder: Path, asked: str | None = None) -> str:
    """What is asked for, else what a folder is of by its name, or the layout of what lies there.

    Raises InputError for what cannot be the name of a data set.
    """
    if asked is None:
        there = Dataset(folder)
        layout = there.layout if there.users else "parquet"
        named = next((each for each in PUBLISHED if each.name == folder.name), _KNOWN_AS[layout])
        return named.repo
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", asked, re.ASCII):
        raise InputError(f'"{asked}" is no name of a data set: name one as OWNER/NAME.')
    return asked


def download(
    repo: str, folder: Path, users: str | None = None
) -> Generator[Listed | Fetched, None, None]:
    """Bring a data set, or its users `1-100,205`, into a folder; what is whole there stays.

    Yields Listed, then Fetched for each file. Every file's hash is compared with the hub's; one
    that arrives damaged is fetched once more. A call after an interruption fetches what is
    missing. Raises NotInstalled, and InputError for what a person can mend: conditions that are
    not accepted, no network, no space, no such data set or user.
    """
    require("huggingface_hub", "dataset download")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # ours are shown
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import HfApi
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()
    api = HfApi()
    try:
        revision = str(api.dataset_info(repo).sha)
        tree = list(
            api.list_repo_tree(repo, repo_type="dataset", revision=revision, recursive=True)
        )
    except Exception as error:
        raise _in_words(error, repo) from error
    chosen, wanted = _wanted([each for each in tree if hasattr(each, "blob_id")], repo, users)
    _refuse_other_layout(folder, repo, wanted)
    yield Listed(chosen, len(wanted), sum(each.size for each in wanted))
    _check_space(folder, wanted)
    files = size = 0
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        try:
            futures = {
                threads.submit(_fetch, api, repo, revision, folder, each): each for each in wanted
            }
            for future in as_completed(futures):
                files, size = files + 1, size + futures[future].size
                yield Fetched(future.result(), files, size)
        finally:
            threads.shutdown(cancel_futures=True)


def _wanted(tree: Sequence[Any], repo: str, users: str | None) -> tuple[list[int], list[_HubFile]]:
    """The users that are asked for, and their files (with the data set's conditions)."""
    files = [
        _HubFile(each.path, each.size, each.lfs.sha256 if each.lfs else each.blob_id)
        for each in tree
    ]
    of_user: dict[int, list[_HubFile]] = {}
    for file in files:
        if match := _OF_A_USER.fullmatch(file.path):
            of_user.setdefault(int(match[1] or match[2]), []).append(file)
    if not of_user:
        raise InputError(
            f"{repo} is laid out neither as anki-revlogs-10k nor as FSRS-Anki-20k: name another."
        )
    chosen = select_users(sorted(of_user), users)
    about = [file for file in files if _ABOUT.fullmatch(file.path)]
    return chosen, [*about, *(file for user in chosen for file in of_user[user])]


def _refuse_other_layout(folder: Path, repo: str, wanted: Sequence[_HubFile]) -> None:
    """Two data sets in one folder would be read as one of them."""
    there = Dataset(folder)
    coming: Layout = "csv" if any(file.path.endswith(".csv") for file in wanted) else "parquet"
    if there.users and there.layout != coming:
        is_now, would_be = _KNOWN_AS[there.layout].name, _KNOWN_AS[coming].name
        raise InputError(
            f'"{folder}" holds a data set laid out as {is_now}, and {repo} is laid out as '
            f"{would_be}: name another folder."
        )


def _check_space(folder: Path, wanted: Sequence[_HubFile]) -> None:
    """Refuse at the start what will not fit, and a folder that cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        writable = os.access(folder, os.W_OK)
    except OSError as error:
        raise InputError(f'"{folder}" cannot be made ({error.strerror}): name another.') from None
    if not writable:
        raise InputError(f'"{folder}" cannot be written to: name another folder.')
    missing = 0
    for file in wanted:
        path = folder / file.path
        missing += 0 if path.is_file() and path.stat().st_size == file.size else file.size
    if missing > free:
        raise InputError(
            f'"{folder}" has {free / 1e9:,.1f} GB free and {missing / 1e9:,.1f} GB are to come: '
            "make room, choose another folder, or take fewer --users."
        )


def _fetch(api: HfApi, repo: str, revision: str, folder: Path, file: _HubFile) -> bool:
    """Make sure that a file is there, with the hub's hash; whether it was before."""
    path = folder / file.path
    known, whole = _hub_digest(folder, path), _is_whole(path, file)
    if whole and known == file.digest:
        return True
    if path.exists() and not whole and known is None:
        raise InputError(
            f'"{path}" is not from the hub and is not overwritten: move it, or name another folder.'
        )
    for force in (path.exists() and not whole, True):  # else it notes the hash of what is there
        try:
            api.hf_hub_download(
                repo,
                file.path,
                repo_type="dataset",
                revision=revision,
                local_dir=folder,
                force_download=force,
            )
        except Exception as error:
            raise _in_words(error, repo) from error
        if _is_whole(path, file):
            return False
    with suppress(OSError):
        path.unlink()
    raise InputError(
        f"{file.path} of {repo} arrived twice with a wrong hash and is deleted again: the same "
        "command tries anew; if that does not help, something on the way changes files."
    )


def _is_whole(path: Path, file: _HubFile) -> bool:
    return (
        path.is_file()
        and path.stat().st_size == file.size
        and _digest(path, like=file.digest) == file.digest
    )


def _in_words(error: Exception, repo: str) -> Exception:
    """What a person can do about an error of the hub's program; itself where that is nothing."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    again = "the same command goes on from there"
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, HfHubHTTPError):
        cause = cause.__cause__
    response = getattr(cause, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(cause, GatedRepoError) or status in (401, 403):
        return InputError(
            f"{repo} is for those only who have accepted its conditions: accept them at "
            f"{page_of(repo)} with your own account, then log in here with `hf auth login` (or "
            "put your token into HF_TOKEN) and run the same command again."
        )
    if isinstance(cause, RepositoryNotFoundError) or status == 404:
        return InputError(f"The hub knows no data set {repo}: name one as OWNER/NAME.")
    if status == 429:
        return InputError(f"The hub asks to wait (too many requests): later, {again}.")
    if status is not None:
        return InputError(f"The hub answers with error {status}: later, {again}.")
    if isinstance(error, OfflineModeIsEnabled):
        return InputError("HF_HUB_OFFLINE is set, so nothing can be downloaded: unset it.")
    if isinstance(error, InputError):
        return error
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and number is not None:
        return InputError(
            f"{os.strerror(number)} while downloading {repo}: mend that, then {again}."
        )
    module = type(error).__module__.partition(".")[0]
    if isinstance(error, OSError) or module.startswith(("httpx", "httpcore", "huggingface_hub")):
        return InputError(f"The hub cannot be reached: check the network, then {again}.")
    return error


# Whether what lies there is whole


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
class _Checked:
    """A user whose files were read."""

    user: int
    hashes: int  # files that were held against the hub's hash
    findings: list[str]  # what is wrong with a file, behind its path


def check(dataset: Dataset, users: Sequence[int]) -> Generator[_Checked, None, None]:
    """Read every file of some users: hashes where the hub's are known, columns, types, ranges."""
    with ThreadPoolExecutor() as threads:
        try:
            yield from threads.map(lambda user: _check_user(dataset, user), users)
        finally:
            threads.shutdown(cancel_futures=True)


def _check_user(dataset: Dataset, user: int) -> _Checked:
    parts = [part for table in TABLES for part in dataset.parts(table, user)]
    findings, hashes = [], 0
    for part in parts:
        with suppress(InputError):  # told below, once
            expected = _hub_digest(dataset.folder, part)
            if expected is not None:
                hashes += 1
                if _digest(part, like=expected) != expected:
                    findings.append(f"{part}: its content is not the hub's")
    if not findings:
        try:
            log = dataset.load(user)
        except InputError as error:
            findings.append(str(error))
        else:
            assert log.rows is not None
            findings += [f"{parts[0]}: {said}" for said in _impossible(log.rows)]
    return _Checked(user, hashes, findings)


def load_possible(dataset: Dataset, user: int) -> ReviewLog:
    """A user's log, if `_impossible` finds nothing.

    Raises NotEnoughData with what it finds, and InputError as `Dataset.load` does.
    """
    log = dataset.load(user)
    assert log.rows is not None
    said = _impossible(log.rows) if len(log.rows) else []
    if said:
        raise NotEnoughData(f"what it holds cannot be true: {'; '.join(said)}")
    return log


def _impossible(rows: Rows) -> list[str]:
    """What cannot be true of rows, in words: values out of their range, days that go back."""
    said = []
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
            said.append(
                f"{int(wrong.sum()):,} of {len(rows):,} rows have an impossible {name} "
                f"(row {first + 1}: {values[first]})"
            )
    if (np.diff(rows.day_offset) < 0).any():
        said.append("its days go back: the rows are not in order of review")
    return said


# --- hashes ----------------------------------------------------------------------


def _hub_digest(folder: Path, path: Path) -> str | None:
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


def _digest(path: Path, *, like: str) -> str:
    """A file's hash of the same kind as `like`. Raises InputError where it cannot be read."""
    with file_errors(path), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        kind = hashlib.sha256 if len(like) == 64 else partial(hashlib.sha1, b"blob %d\0" % size)
        return hashlib.file_digest(file, kind).hexdigest()
