"""Read a learner's file or folder as a `ReviewLog`, without ever writing to it or beside it.

It may be a collection (.anki2, .anki21, extracted .anki21b), a package (.colpkg, .apkg), a research
export (.revlog), a review-log table (.csv), an export of SuperMemo's, or one user of a data set.
Files are recognised by content, not by name.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from srs_eval.data.datasets import is_dataset, open_dataset
from srs_eval.data.days import StoredClock, compute_day_grid
from srs_eval.data.errors import InputError, printable
from srs_eval.data.paths import anki_folders
from srs_eval.data.readers import files, package
from srs_eval.data.readers.collection import count_answers, read_collection
from srs_eval.data.readers.imported_table import ImportedTable
from srs_eval.data.readers.predictions import read_anki_predictions
from srs_eval.data.readers.table import infer_kinds, read_table
from srs_eval.data.reviews import DayGrid, Entries, ImportSummary, ReviewLog

_PARQUET_MAGIC = b"PAR1"
ANKI_EXTENSIONS = (".anki2", ".anki21", ".anki21b", ".colpkg", ".apkg", ".revlog")
"""Extensions that only Anki's files have."""
EXTENSIONS = (*ANKI_EXTENSIONS, ".csv", ".tsv", ".txt")
"""Usual extensions of readable files, for views that list a folder."""


def load_log(
    path: str | os.PathLike[str],
    *,
    timezone: str | None = None,
    rollover: int | None = None,
    user: int | None = None,
) -> ReviewLog:
    """Read one learner's review history.

    `path` is a file, an Anki profile folder, or the folder of a data set (then `user` selects the
    learner). `timezone` (IANA name, "UTC-7", "local") and `rollover` (hour, 0-23) override when
    days begin. By default, this is taken from the source; if the source lacks it, days begin at
    4:00 in this computer's time zone. Raises InputError, one sentence for the user, for anything
    that cannot be read or holds no reviews. The file and its folder stay as they are.
    """
    files.sweep_abandoned_copies()
    path = Path(path)
    with files.file_errors(path):
        path = path.expanduser()
        is_folder = path.is_dir()
    days = _DayOverrides(timezone, rollover)
    if is_folder:
        return _load_folder(path, days, user)
    real = files.resolve_file(path)
    start = files.read_start(real, files.START_BYTES)
    if start.startswith(_PARQUET_MAGIC):
        return _load_user_file(path, days, user)
    if user is not None:
        raise InputError(f"{printable(path)} is one learner's file; leave the user number out.")
    try:
        return _load_file(path, real, start, days)
    except MemoryError as error:
        raise InputError(
            f"{printable(path)} does not fit into the free memory; "
            "close other programs and try again."
        ) from error


@dataclass(frozen=True)
class _DayOverrides:
    """The user's choice of when days begin, which overrides the source's."""

    timezone: str | None
    rollover: int | None

    def make_grid(self, entries: Entries, clock: StoredClock) -> DayGrid:
        return compute_day_grid(int(entries.time_ms[-1]), clock, self.timezone, self.rollover)

    def refuse_override(self, subject: str) -> None:
        """Raise InputError if the user overrides the days of a source that has dates of its own."""
        if self.timezone is not None or self.rollover is not None:
            raise InputError(
                f"{subject} fixes when days begin: leave --timezone and --rollover out."
            )


def _load_file(path: Path, real: Path, start: bytes, days: _DayOverrides) -> ReviewLog:
    """Load the file `real`, which the user calls `path`, by its first bytes."""
    name = printable(path)
    # A collection that is damaged in the last byte of its magic is still a (damaged) collection.
    if start.startswith(files.SQLITE_MAGIC[:15]) or (not start and _has_wal(real)):
        with files.private_copy(path) as (database, copy_notes):
            log = read_collection(database, path, "Anki collection", days.make_grid, copy_notes)
        assert log.entries is not None
        predictions = read_anki_predictions(path, log.entries)
        notes = log.import_summary.notes
        for model, model_predictions in predictions.items():
            notes += (f"{model}: {model_predictions.note}.",)
        summary = replace(log.import_summary, notes=notes)
        return replace(log, external_predictions=predictions, import_summary=summary)
    if not start:
        raise InputError(f"{name} is an empty file (0 bytes); choose another or export it again.")
    packed = package.open_package(real, start)
    if packed is not None:
        with packed as (database, format_name):
            return read_collection(database, path, format_name, days.make_grid)
    table = read_table(real, start, name)
    if table is not None:
        return _log_from_table(table, path, days)
    return package.read_research_export(real, path, days.make_grid)


def _has_wal(real: Path) -> bool:
    """Return whether a -wal with content lies beside a file: a new collection may be only there."""
    wal = Path(f"{real}-wal")
    return wal.is_file() and wal.stat().st_size > 0


def _log_from_table(table: ImportedTable, path: Path, days: _DayOverrides) -> ReviewLog:
    entries = table.entries
    grid = None
    notes = table.notes
    reviews = table.rows if entries is None else entries
    if reviews is None or not len(reviews):
        raise InputError(f"{printable(path)} holds no reviews; choose another file.")
    if entries is None:
        days.refuse_override(printable(path))
    else:
        grid = days.make_grid(entries, StoredClock())
        if not table.app_name:
            entries = infer_kinds(entries, grid.next_day_at_s)
            notes += ("The file has no review types: a card's first day is taken as learning.",)
    return ReviewLog(
        import_summary=ImportSummary(
            path=str(path),
            format=table.format,
            entries_read=len(reviews) + table.excluded + table.repeated,
            notes=notes,
            app_name=table.app_name,
            repeated=table.repeated,
        ),
        entries=entries,
        rows=table.rows,
        day_grid=grid,
        source_predictions=table.source_predictions,
        first_day=table.first_day,
    )


# Folders


def _load_folder(folder: Path, days: _DayOverrides, user: int | None) -> ReviewLog:
    name = printable(folder)
    if (folder / "collection.anki2").is_file():
        return load_log(
            folder / "collection.anki2", timezone=days.timezone, rollover=days.rollover, user=user
        )
    if is_dataset(folder):
        days.refuse_override("A data set")
        dataset = open_dataset(folder)
        if user is None and len(dataset.users) == 1:
            user = dataset.users[0]
        if user is None:
            raise InputError(
                f"{name} is a data set of {len(dataset.users):,} users; "
                "choose one with --user (in Python user=), or take all with 'srs-eval batch'."
            )
        return dataset.load(user)
    if folder.name.startswith("user_id="):
        return _load_user_file(folder / "data.parquet", days, user)
    with files.file_errors(folder):
        collections = [path for path in folder.glob("*/collection.anki2") if path.is_file()]
        profiles = sorted(path.parent.name for path in collections)
    if profiles:
        raise InputError(
            f"{name} holds the Anki profiles {printable(', '.join(profiles))}; "
            "give the folder of one of them."
        )
    raise InputError(
        f"{name} holds neither an Anki collection nor an anki-revlogs-10k data set; "
        "give a collection file, a package or a data-set folder."
    )


def _load_user_file(path: Path, days: _DayOverrides, user: int | None) -> ReviewLog:
    """Load the user of a parquet file in a data set, `.../revlogs/user_id=N/NAME.parquet`."""
    folder = path.absolute().parent
    number = folder.name.removeprefix("user_id=")
    if folder.parent.name != "revlogs" or number == folder.name or not number.isdecimal():
        raise InputError(
            f"{printable(path)} is a parquet file outside a data set; "
            "expected revlogs/user_id=N/data.parquet as in anki-revlogs-10k."
        )
    if user not in (None, int(number)):
        raise InputError(f"{printable(path)} belongs to user {number}, not to user {user}.")
    days.refuse_override("A data set")
    return open_dataset(folder.parents[1]).load(int(number))


# Profiles


@dataclass(frozen=True)
class _Profile:
    """An Anki profile found on this machine."""

    name: str
    path: Path  # its collection.anki2
    size: int  # bytes
    modified: datetime  # last write, even by an open Anki


@dataclass(frozen=True)
class _CollectionPreview:
    """The number of reviews in a collection and the time of the last."""

    reviews: int  # number of answers in its review log
    last: datetime | None  # time of the last of them


def preview_collection(path: Path) -> _CollectionPreview | None:
    """Return a collection's number of reviews and the time of the last; None if unreadable."""
    try:
        with files.private_copy(path) as (database, _):
            reviews, last_ms = count_answers(database)
            last_answer = None if last_ms is None else datetime.fromtimestamp(last_ms / 1000, UTC)
            return _CollectionPreview(reviews, last_answer)
    except (InputError, sqlite3.Error, ValueError, OverflowError, OSError, MemoryError):
        return None


def find_profiles(home: Path | None = None) -> list[_Profile]:
    """Find Anki profiles in the usual places of this system, most recently used first.

    `home` overrides the home folder. Folders that may not be read are skipped.
    """
    profiles: dict[Path, _Profile] = {}
    for base in anki_folders(home or Path.home()):
        try:
            collections = sorted(base.glob("*/collection.anki2"))
        except OSError:
            continue
        for collection in collections:
            try:
                real = collection.resolve(strict=True)
                states = [real.stat()]
                wal = Path(f"{real}-wal")
                if wal.exists():
                    states.append(wal.stat())
            except OSError:
                continue
            if real in profiles or not real.is_file():
                continue
            newest = max(state.st_mtime for state in states)
            profiles[real] = _Profile(
                name=printable(collection.parent.name),
                path=collection,
                size=sum(state.st_size for state in states),
                modified=datetime.fromtimestamp(newest, UTC),
            )
    return sorted(profiles.values(), key=lambda profile: profile.modified, reverse=True)
