"""Data sets from the Hugging Face hub: what is missing in a folder is fetched, nothing else sent.

By huggingface_hub, with the person's own token; the conditions of a data set are theirs to
accept, on its page. Layouts on the hub: open-spaced-repetition/anki-revlogs-dataset-builder
(upload_to_hf.py) and FSRS-Anki-20k's card.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval.data.dataset_check import digest, hub_digest
from srs_eval.data.datasets import Dataset, Layout, select_users
from srs_eval.data.errors import InputError, require

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_OWNER = "open-spaced-repetition"
_KNOWN_AS: dict[Layout, str] = {"parquet": "anki-revlogs-10k", "csv": "FSRS-Anki-20k"}
KNOWN = tuple(_KNOWN_AS.values())
_AT_A_TIME = 8
_OF_A_USER = re.compile(
    r"(?:revlogs|cards|decks)/user_id=(0|[1-9]\d{0,14})/[^/]+\.parquet"
    r"|dataset/\d+/(0|[1-9]\d{0,14})\.csv"
)
_ABOUT = re.compile(r"(?:README|LICEN[CS]E)(?:\.\w+)?", re.IGNORECASE)


@dataclass(frozen=True)
class HubFile:
    path: str
    size: int
    digest: str  # SHA-256, or git's SHA-1 of a small file


@dataclass(frozen=True)
class Listed:
    """What was asked for; nothing is fetched yet."""

    repo: str
    revision: str
    users: list[int]
    files: int
    bytes: int


@dataclass(frozen=True)
class Fetched:
    """One more file is there and has the hub's hash."""

    path: str
    was_there: bool
    files: int  # so far
    bytes: int


def page_of(repo: str) -> str:
    return f"https://huggingface.co/datasets/{repo}"


def usual_repo(folder: Path) -> str:
    """The data set that a folder is of by its name, else by the layout of what lies there."""
    there = Dataset(folder)
    layout = there.layout if there.users else "parquet"
    return f"{_OWNER}/{folder.name if folder.name in KNOWN else _KNOWN_AS[layout]}"


def refuse_misnamed(repo: str) -> None:
    """Raises InputError for what cannot be the name of a data set."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo, re.ASCII):
        raise InputError(f'"{repo}" is no name of a data set: name one as OWNER/NAME.')


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
    yield Listed(repo, revision, chosen, len(wanted), sum(each.size for each in wanted))
    _check_space(folder, wanted)
    files = size = 0
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        try:
            futures = {
                threads.submit(_fetch, api, repo, revision, folder, each): each for each in wanted
            }
            for future in as_completed(futures):
                files, size = files + 1, size + futures[future].size
                yield Fetched(futures[future].path, future.result(), files, size)
        finally:
            threads.shutdown(cancel_futures=True)


def _wanted(tree: Sequence[Any], repo: str, users: str | None) -> tuple[list[int], list[HubFile]]:
    """The users that are asked for, and their files (with the data set's conditions)."""
    files = [
        HubFile(each.path, each.size, each.lfs.sha256 if each.lfs else each.blob_id)
        for each in tree
    ]
    of_user: dict[int, list[HubFile]] = {}
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


def _refuse_other_layout(folder: Path, repo: str, wanted: Sequence[HubFile]) -> None:
    """Two data sets in one folder would be read as one of them."""
    there = Dataset(folder)
    coming: Layout = "csv" if any(file.path.endswith(".csv") for file in wanted) else "parquet"
    if there.users and there.layout != coming:
        raise InputError(
            f'"{folder}" holds a data set laid out as {_KNOWN_AS[there.layout]}, and {repo} is '
            f"laid out as {_KNOWN_AS[coming]}: name another folder."
        )


def _check_space(folder: Path, wanted: Sequence[HubFile]) -> None:
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


def _fetch(api: HfApi, repo: str, revision: str, folder: Path, file: HubFile) -> bool:
    """Make sure that a file is there, with the hub's hash; whether it was before."""
    path = folder / file.path
    if _is_whole(path, file):
        if hub_digest(folder, path) == file.digest:
            return True
        force = False  # the hub's program keeps it and notes its hash
    else:
        if path.exists() and hub_digest(folder, path) is None:
            raise InputError(
                f'"{path}" is not from the hub and is not overwritten: move it, or name another '
                "folder."
            )
        force = path.exists()
    for _ in range(2):
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
        force = True
    with suppress(OSError):
        path.unlink()
    raise InputError(
        f"{file.path} of {repo} arrived twice with a wrong hash and is deleted again: the same "
        "command tries anew; if that does not help, something on the way changes files."
    )


def _is_whole(path: Path, file: HubFile) -> bool:
    return (
        path.is_file()
        and path.stat().st_size == file.size
        and digest(path, like=file.digest) == file.digest
    )


def _in_words(error: Exception, repo: str) -> Exception:
    """What a person can do about an error of the hub's program; itself where that is nothing."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
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
    if isinstance(error, HFValidationError):
        return InputError(f'"{repo}" is no name of a data set: name one as OWNER/NAME.')
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
