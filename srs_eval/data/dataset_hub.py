"""Download data sets from the Hugging Face hub, and check the files of a data-set folder.

Only missing files are fetched, and nothing else is sent. huggingface_hub transfers the files with
the user's own token; users accept the conditions of a data set themselves, on its page. Layouts on
the hub: open-spaced-repetition/anki-revlogs-dataset-builder (upload_to_hf.py) and FSRS-Anki-20k's
card.
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
    PUBLISHED_DATASETS,
    TABLES,
    Dataset,
    Layout,
    PublishedDataset,
    count_rows,
    hub_url,
    select_users,
)
from srs_eval.data.errors import InputError, NotEnoughData, require
from srs_eval.data.readers.files import file_errors
from srs_eval.data.reviews import IntArray, ReviewLog, Rows

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_PUBLISHED_BY_LAYOUT: dict[Layout, PublishedDataset] = {
    dataset.layout: dataset for dataset in PUBLISHED_DATASETS
}
PUBLISHED_NAMES = tuple(dataset.name for dataset in PUBLISHED_DATASETS)
_PARALLEL_DOWNLOADS = 8
_USER_FILE_PATTERN = re.compile(
    r"(?:revlogs|cards|decks)/user_id=(0|[1-9]\d{0,14})/[^/]+\.parquet"
    r"|dataset/\d+/(0|[1-9]\d{0,14})\.csv"
)
_README_PATTERN = re.compile(r"(?:README|LICEN[CS]E)(?:\.\w+)?", re.IGNORECASE)


@dataclass(frozen=True)
class _HubFile:
    """A file of a data set on the hub."""

    path: str  # in the repository
    size: int  # bytes
    digest: str  # SHA-256, or git's SHA-1 of a small file


@dataclass(frozen=True)
class DownloadPlan:
    """The size of a requested download; nothing is fetched yet."""

    users: list[int]
    files: int
    bytes: int


@dataclass(frozen=True)
class DownloadedFile:
    """A file that is now present and has the hub's hash, with the progress so far."""

    was_present: bool  # before the download
    files_done: int  # so far
    bytes_done: int  # so far


def resolve_repo(folder: Path, requested: str | None = None) -> str:
    """Return the requested repository, or the one that the folder suggests.

    Without a request, the folder's name decides if it is that of a published data set, else the
    layout of the files in it. Raises InputError for a request that cannot be the name of a data
    set.
    """
    if requested is None:
        present = Dataset(folder)
        layout = present.layout if present.users else "parquet"
        for dataset in PUBLISHED_DATASETS:
            if dataset.name == folder.name:
                return dataset.repo
        return _PUBLISHED_BY_LAYOUT[layout].repo
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", requested, re.ASCII):
        raise InputError(f'"{requested}" is not the name of a data set: name one as OWNER/NAME.')
    return requested


def download(
    repo: str, folder: Path, users: str | None = None
) -> Generator[DownloadPlan | DownloadedFile, None, None]:
    """Download a data set, or its users `1-100,205`, into a folder; complete files there stay.

    Yields a DownloadPlan, then a DownloadedFile for each file. Every file's hash is compared with
    the hub's; a file that arrives damaged is fetched once more. A call after an interruption
    fetches the missing files. Raises NotInstalled, and InputError for problems that the user can
    solve: conditions that are not accepted, no network, no space, no such data set or user.
    """
    require("huggingface_hub", "dataset download")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # we show our own
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import HfApi
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    api = HfApi()
    try:
        revision = str(api.dataset_info(repo).sha)
        tree = list(
            api.list_repo_tree(repo, repo_type="dataset", revision=revision, recursive=True)
        )
    except Exception as error:
        raise _explain_hub_error(error, repo) from error
    hub_files = [entry for entry in tree if hasattr(entry, "blob_id")]  # not folders
    selected_users, files = _select_files(hub_files, repo, users)
    _refuse_other_layout(folder, repo, files)
    yield DownloadPlan(selected_users, len(files), sum(file.size for file in files))
    _check_space(folder, files)
    files_done = 0
    bytes_done = 0
    with ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as threads:
        try:
            futures = {
                threads.submit(_fetch_file, api, repo, revision, folder, file): file
                for file in files
            }
            for future in as_completed(futures):
                files_done += 1
                bytes_done += futures[future].size
                yield DownloadedFile(future.result(), files_done, bytes_done)
        finally:
            threads.shutdown(cancel_futures=True)


def _select_files(
    hub_files: Sequence[Any], repo: str, users: str | None
) -> tuple[list[int], list[_HubFile]]:
    """Return the requested users and their files, plus the data set's README and licence."""
    files = []
    for entry in hub_files:
        digest = entry.lfs.sha256 if entry.lfs else entry.blob_id
        files.append(_HubFile(entry.path, entry.size, digest))
    files_of_user: dict[int, list[_HubFile]] = {}
    for file in files:
        match = _USER_FILE_PATTERN.fullmatch(file.path)
        if match:
            user = int(match[1] or match[2])
            files_of_user.setdefault(user, []).append(file)
    if not files_of_user:
        raise InputError(
            f"{repo} is laid out neither as anki-revlogs-10k nor as FSRS-Anki-20k: choose another "
            "data set."
        )
    selected_users = select_users(sorted(files_of_user), users)
    selected_files = [file for file in files if _README_PATTERN.fullmatch(file.path)]
    for user in selected_users:
        selected_files += files_of_user[user]
    return selected_users, selected_files


def _refuse_other_layout(folder: Path, repo: str, files: Sequence[_HubFile]) -> None:
    """Raise InputError if the folder holds a data set of the other layout.

    Two data sets in one folder would be read as one of them.
    """
    dataset = Dataset(folder)
    new_layout: Layout = "csv" if any(file.path.endswith(".csv") for file in files) else "parquet"
    if dataset.users and dataset.layout != new_layout:
        present_name = _PUBLISHED_BY_LAYOUT[dataset.layout].name
        new_name = _PUBLISHED_BY_LAYOUT[new_layout].name
        raise InputError(
            f'"{folder}" holds a data set laid out as {present_name}, and {repo} is laid out as '
            f"{new_name}: name another folder."
        )


def _check_space(folder: Path, files: Sequence[_HubFile]) -> None:
    """Raise InputError if the files will not fit or the folder cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        writable = os.access(folder, os.W_OK)
    except OSError as error:
        raise InputError(
            f'"{folder}" cannot be created ({error.strerror}): name another.'
        ) from None
    if not writable:
        raise InputError(f'"{folder}" cannot be written to: name another folder.')
    missing_bytes = 0
    for file in files:
        path = folder / file.path
        if not path.is_file() or path.stat().st_size != file.size:
            missing_bytes += file.size
    if missing_bytes > free:
        raise InputError(
            f'"{folder}" has {free / 1e9:,.1f} GB free and needs {missing_bytes / 1e9:,.1f} GB: '
            "make room, choose another folder, or take fewer --users."
        )


def _fetch_file(api: HfApi, repo: str, revision: str, folder: Path, file: _HubFile) -> bool:
    """Make sure that a file exists with the hub's hash; return whether it was complete before."""
    path = folder / file.path
    recorded_digest = _read_hub_digest(folder, path)
    is_complete = _is_complete(path, file)
    if is_complete and recorded_digest == file.digest:
        return True
    if path.exists() and not is_complete and recorded_digest is None:
        raise InputError(
            f'"{path}" is not from the hub and is not overwritten: move it, or name another folder.'
        )
    # Without force, the client may keep a damaged file and record the hub's hash for it.
    is_damaged = path.exists() and not is_complete
    for force in (is_damaged, True):
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
            raise _explain_hub_error(error, repo) from error
        if _is_complete(path, file):
            return False
    with suppress(OSError):
        path.unlink()
    raise InputError(
        f"{file.path} of {repo} arrived twice with a wrong hash and was deleted: run the same "
        "command to try again; if that does not help, something between you and the hub (such as "
        "a proxy) is altering the files."
    )


def _is_complete(path: Path, file: _HubFile) -> bool:
    return (
        path.is_file()
        and path.stat().st_size == file.size
        and _compute_digest(path, reference=file.digest) == file.digest
    )


def _explain_hub_error(error: Exception, repo: str) -> Exception:
    """Return an InputError that says what to do about an error of the hub's client.

    Returns the error itself if the user can do nothing about it.
    """
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    advice = "run the same command to continue"
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, HfHubHTTPError):
        cause = cause.__cause__
    response = getattr(cause, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(cause, GatedRepoError) or status in (401, 403):
        return InputError(
            f"{repo} is only for people who have accepted its conditions: accept them at "
            f"{hub_url(repo)} with your own account, then log in here with `hf auth login` (or "
            "put your token into HF_TOKEN) and run the same command again."
        )
    if isinstance(cause, RepositoryNotFoundError) or status == 404:
        return InputError(f"The hub has no data set {repo}: name one as OWNER/NAME.")
    if status == 429:
        return InputError(f"The hub asks you to wait (too many requests): {advice} later.")
    if status is not None:
        return InputError(f"The hub answers with error {status}: {advice} later.")
    if isinstance(error, OfflineModeIsEnabled):
        return InputError("HF_HUB_OFFLINE is set, so nothing can be downloaded: unset it.")
    if isinstance(error, InputError):
        return error
    error_number = getattr(error, "errno", None)
    if isinstance(error, OSError) and error_number is not None:
        return InputError(
            f"{os.strerror(error_number)} while downloading {repo}: fix that, then {advice}."
        )
    module = type(error).__module__.partition(".")[0]
    if isinstance(error, OSError) or module.startswith(("httpx", "httpcore", "huggingface_hub")):
        return InputError(f"The hub cannot be reached: check the network, then {advice}.")
    return error


# Checks of a data-set folder


_HIGHEST_STATE = 6  # Anki's kinds of entries are 0-5; a row's state is the kind + 1


@dataclass(frozen=True, eq=False)
class DatasetDescription:
    """Users, reviews and bytes of a data set, as its files state them."""

    folder: Path
    layout: Layout
    users: list[int]
    review_counts: IntArray  # shape (users,); -1 for users whose file cannot be read
    table_bytes: dict[str, int]  # by table
    users_without: dict[str, list[int]]  # "cards", "decks" -> users without that table
    id_gaps: list[tuple[int, int]]  # first and last id of each gap between users

    @property
    def known_review_counts(self) -> IntArray:
        return self.review_counts[self.review_counts >= 0]


def describe_dataset(dataset: Dataset) -> DatasetDescription:
    """Count users, reviews and bytes without reading any reviews."""
    table_bytes = dict.fromkeys(TABLES, 0)
    users_without: dict[str, list[int]] = {table: [] for table in TABLES[1:]}
    review_counts = np.full(len(dataset.users), -1, np.int64)
    for index, user in enumerate(dataset.users):
        for table in TABLES:
            files = dataset.table_files(table, user)
            if not files and table in users_without:
                users_without[table].append(user)
            with suppress(OSError):  # a broken link, which `check_users` reports
                table_bytes[table] += sum(file.stat().st_size for file in files)
        with suppress(InputError):
            review_counts[index] = sum(map(count_rows, dataset.table_files("revlogs", user)))
    ids = np.array(dataset.users, np.int64)
    before_gaps = np.flatnonzero(np.diff(ids) > 1)
    gaps = [(int(ids[index]) + 1, int(ids[index + 1]) - 1) for index in before_gaps]
    return DatasetDescription(
        folder=dataset.folder,
        layout=dataset.layout,
        users=dataset.users,
        review_counts=review_counts,
        table_bytes=table_bytes,
        users_without=users_without,
        id_gaps=gaps,
    )


@dataclass(frozen=True)
class _UserCheck:
    """Result of the check of one user's files."""

    user: int
    hashed_files: int  # files that were compared with the hub's hash
    problems: list[str]  # each names the file, then what is wrong with it


def check_users(dataset: Dataset, users: Sequence[int]) -> Generator[_UserCheck, None, None]:
    """Read every file of the given users and check hashes, columns, types and ranges.

    Hashes are checked where the hub's are known.
    """
    with ThreadPoolExecutor() as threads:
        try:
            yield from threads.map(lambda user: _check_user(dataset, user), users)
        finally:
            threads.shutdown(cancel_futures=True)


def _check_user(dataset: Dataset, user: int) -> _UserCheck:
    files: list[Path] = []
    for table in TABLES:
        files += dataset.table_files(table, user)
    problems = []
    hashed_files = 0
    for file in files:
        with suppress(InputError):  # reported once, below
            expected = _read_hub_digest(dataset.folder, file)
            if expected is not None:
                hashed_files += 1
                if _compute_digest(file, reference=expected) != expected:
                    problems.append(f"{file}: its content differs from the hub's")
    if not problems:
        try:
            log = dataset.load(user)
        except InputError as error:
            problems.append(str(error))
        else:
            assert log.rows is not None
            problems += [f"{files[0]}: {problem}" for problem in _find_impossible_values(log.rows)]
    return _UserCheck(user, hashed_files, problems)


def load_plausible(dataset: Dataset, user: int) -> ReviewLog:
    """Load a user's log if `_find_impossible_values` finds nothing in it.

    Raises NotEnoughData with what it finds, and InputError as `Dataset.load` does.
    """
    log = dataset.load(user)
    assert log.rows is not None
    problems = _find_impossible_values(log.rows) if len(log.rows) else []
    if problems:
        raise NotEnoughData(f"its content is impossible: {'; '.join(problems)}")
    return log


def _find_impossible_values(rows: Rows) -> list[str]:
    """Describe what cannot be true of the rows: values out of range, and days in wrong order."""
    problems = []
    if not len(rows):
        return ["it holds no reviews"]
    ranges = (
        ("rating", rows.rating, 0, 4),  # 0 is not an answer: the protocol leaves such rows out
        ("state", rows.state, 0, _HIGHEST_STATE),
        ("day_offset", rows.day_offset, 0, None),
        ("duration", rows.duration_ms, 0, None),
        ("elapsed_days", rows.elapsed_days, -1, None),
        ("elapsed_seconds", rows.elapsed_seconds, -1, None),
    )
    for name, values, lowest, highest in ranges:
        is_wrong = values < lowest
        if highest is not None:
            is_wrong |= values > highest
        if is_wrong.any():
            first_row = int(np.argmax(is_wrong))
            problems.append(
                f"{int(is_wrong.sum()):,} of {len(rows):,} rows have an impossible {name} "
                f"(row {first_row + 1}: {values[first_row]})"
            )
    if (np.diff(rows.day_offset) < 0).any():
        problems.append(
            "its days are not in order, so its rows are not in the order of the reviews"
        )
    return problems


# Hashes


def _read_hub_digest(folder: Path, path: Path) -> str | None:
    """Return the hub's hash of a file, which its client has saved beside the download.

    SHA-256, or git's SHA-1 for a small file; None if no hash is known. It is read from
    `.cache/huggingface/download/PATH.metadata`, which has commit, hash and time on a line each
    (huggingface_hub: _local_folder.py).
    """
    name = path.relative_to(folder).as_posix()
    metadata = folder / ".cache" / "huggingface" / "download" / f"{name}.metadata"
    try:
        lines = metadata.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeError):
        return None
    digest = lines[1].strip().lower() if len(lines) > 1 else ""
    is_hash = len(digest) in (40, 64) and set(digest) <= set("0123456789abcdef")
    return digest if is_hash else None


def _compute_digest(path: Path, *, reference: str) -> str:
    """Compute a file's hash, of the same kind as `reference`.

    Raises InputError if the file cannot be read.
    """
    with file_errors(path), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if len(reference) == 64:
            return hashlib.file_digest(file, hashlib.sha256).hexdigest()
        git_sha1 = partial(hashlib.sha1, b"blob %d\0" % size)
        return hashlib.file_digest(file, git_sha1).hexdigest()
