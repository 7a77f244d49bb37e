"""Open what a learner may hand over as a `ReviewLog`, without ever writing near it.

Collections (.anki2, .anki21, extracted .anki21b), packages (.colpkg, .apkg), research exports
(.revlog), review-log tables (.csv), SuperMemo's exports, and one user of an anki-revlogs-10k
folder. Files are recognised by content, not by name.
"""

from __future__ import annotations

import os
import sqlite3
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from srs_eval.data.days import StoredClock, day_grid
from srs_eval.data.errors import InputError, printable
from srs_eval.data.paths import anki_folders
from srs_eval.data.readers import files
from srs_eval.data.reviews import DayGrid, Entries, ImportSummary, ReviewLog, Rows, unnamed_presets

if TYPE_CHECKING:
    from srs_eval.data.readers.table import Table

_START_BYTES = 1 << 16
_PARQUET_MAGIC = b"PAR1"
OWN_ENDINGS = (".anki2", ".anki21", ".anki21b", ".colpkg", ".apkg", ".revlog")
"""Endings that only Anki's files have."""
ENDINGS = (*OWN_ENDINGS, ".csv", ".tsv", ".txt")
"""Usual names of what can be read, for views that list a folder."""


def load_log(
    path: str | os.PathLike[str],
    *,
    timezone: str | None = None,
    rollover: int | None = None,
    user: int | None = None,
) -> ReviewLog:
    """Read one learner's review history.

    `path` is a file, an Anki profile folder, or a folder in the anki-revlogs-10k layout (then
    `user` says whose). `timezone` (IANA name, "UTC-7", "local") and `rollover` (hour, 0-23)
    override where days begin; without them the source's own evidence is used, then this
    computer's zone and 4:00. Raises InputError, one sentence for the person, for anything
    that cannot be read or holds no reviews. The file and its folder stay as they are.
    """
    files.sweep_abandoned_copies()
    path = Path(path)
    with files.file_errors(path):
        path = path.expanduser()
        is_folder = path.is_dir()
    days = _DayChoice(timezone, rollover)
    if is_folder:
        return _load_folder(path, days, user)
    real = files.resolve(path)
    start = files.read_start(real, _START_BYTES)
    if start.startswith(_PARQUET_MAGIC):
        return _load_user_file(path, days, user)
    if user is not None:
        raise InputError(f"{printable(path)} is one learner's file; leave the user number out.")
    with files.memory_errors(path):
        return _load_file(path, real, start, days)


@dataclass(frozen=True)
class _DayChoice:
    """What the person asked for, to override the source."""

    timezone: str | None
    rollover: int | None

    def grid(self, entries: Entries, clock: StoredClock) -> DayGrid:
        return day_grid(int(entries.time_ms[-1]), clock, self.timezone, self.rollover)

    def refuse(self, what: str) -> None:
        """For a source that has its days already."""
        if self.timezone is not None or self.rollover is not None:
            raise InputError(f"{what} are settled: leave --timezone and --rollover out.")


def _load_file(path: Path, real: Path, start: bytes, days: _DayChoice) -> ReviewLog:
    from srs_eval.data.readers import package, supermemo, table

    name = printable(path)
    if start.startswith(files.SQLITE_MAGIC[:15]) or (not start and _has_wal(real)):
        from srs_eval.data.readers.predictions import beside_collection

        with files.private_copy(path) as (database, notes):
            log = _from_database(database, path, "Anki collection", days, notes)
        assert log.entries is not None
        given = beside_collection(path, log.entries)
        told = (f"{name}: {each.about}." for name, each in given.items())
        summary = replace(log.import_summary, notes=(*log.import_summary.notes, *told))
        return replace(log, given=given, import_summary=summary)
    if not start:
        raise InputError(f"{name} is an empty file (0 bytes); choose another or export it again.")
    if start.startswith((package.ZIP_MAGIC, b"PK\x05\x06")):
        with package.unpacked(real) as (database, words):
            return _from_database(database, path, words, days)
    if start.startswith(package.ZSTD_MAGIC):
        with package.decompressed(real) as (database, words):
            return _from_database(database, path, words, days)
    if supermemo.is_history(start):
        content = files.read_whole(real, table.MAX_BYTES)
        return _from_table(supermemo.read_history(content, name), path, days)
    header = table.header_of(start, name)
    if header is not None:
        content = files.read_whole(real, table.MAX_BYTES)
        return _from_table(table.read_table(content, *header, name), path, days)
    content = files.read_whole(real, package.MAX_EXPORT_BYTES)
    entries, unreadable, cards, decks, next_day = package.read_research_export(content, name)
    _refuse_empty(entries, name)
    return ReviewLog(
        import_summary=ImportSummary(
            path=str(path),
            format="Anki research export (.revlog)",
            entries_read=len(entries) + unreadable,
            notes=_odd_times(entries, unreadable),
        ),
        entries=entries,
        cards=cards,
        decks=decks,
        presets=unnamed_presets(decks),
        day_grid=days.grid(entries, StoredClock(next_day_at_s=next_day)),
    )


def _has_wal(real: Path) -> bool:
    """A new collection may still live in its -wal alone."""
    wal = Path(f"{real}-wal")
    return wal.is_file() and wal.stat().st_size > 0


def _from_database(
    database: sqlite3.Connection,
    path: Path,
    words: str,
    days: _DayChoice,
    notes: tuple[str, ...] = (),
) -> ReviewLog:
    from srs_eval.data.readers.collection import read_collection, relative_to

    name = printable(path)
    found = read_collection(database, name)
    if not len(found.entries) and len(found.cards.card_id):
        raise InputError(
            f"{name} holds {len(found.cards.card_id):,} cards but no reviews; if it was "
            "exported without scheduling, export it again with 'Include scheduling "
            "information' ticked."
        )
    if not len(found.entries):
        raise InputError(f"{name} is an empty collection, without cards or reviews.")
    grid = days.grid(found.entries, found.clock)
    return ReviewLog(
        import_summary=ImportSummary(
            path=str(path),
            format=f"{words}, schema {found.schema}",
            entries_read=len(found.entries) + found.unreadable,
            notes=(*notes, *_odd_times(found.entries, found.unreadable), *found.notes),
            fsrs_enabled=_scheduled_by_fsrs(found.fsrs_enabled, path),
        ),
        entries=found.entries,
        cards=found.cards,
        schedule=relative_to(found.schedule, grid),
        decks=found.decks,
        presets=found.presets,
        day_grid=grid,
        optimized_before_s=found.optimized_before_s,
    )


def _scheduled_by_fsrs(stored: bool | None, path: Path) -> bool | None:
    """Anki takes a missing setting for off (rslib/src/config/bool.rs); decks come without any."""
    if stored is None and path.suffix.lower() != ".apkg":
        return False
    return stored


def _from_table(found: Table, path: Path, days: _DayChoice) -> ReviewLog:
    from srs_eval.data.readers.table import with_inferred_kinds

    entries, grid, notes = found.entries, None, found.notes
    _refuse_empty(found.rows if entries is None else entries, printable(path))
    if entries is None:
        days.refuse(f"The days of {printable(path)}")
    else:
        grid = days.grid(entries, StoredClock())
        notes += _odd_times(entries, found.left_out)
        if not found.has_kinds:
            entries = with_inferred_kinds(entries, grid.next_day_at_s)
            notes += ("Kinds of review are inferred: a card is learned on its first day.",)
    return ReviewLog(
        import_summary=ImportSummary(
            path=str(path),
            format=found.format,
            entries_read=len(found.rows or entries or ()) + found.left_out,
            notes=notes,
            app_name=found.app_name,
        ),
        entries=entries,
        rows=found.rows,
        day_grid=grid,
        predictions=found.predictions,
        first_day=found.first_day,
    )


def _refuse_empty(reviews: Entries | Rows | None, name: str) -> None:
    if not reviews:
        raise InputError(f"{name} holds no reviews; choose another file.")


def _odd_times(entries: Entries, unreadable: int) -> tuple[str, ...]:
    """Notes about times that no review can have had."""
    notes: list[str] = []
    if unreadable:
        notes.append(f"{unreadable:,} entries with an impossible time were left out.")
    future = int((entries.time_ms > time.time() * 1000).sum())
    if future:
        one_or_many = "1 entry is" if future == 1 else f"{future:,} entries are"
        newest = datetime.fromtimestamp(int(entries.time_ms[-1]) // 1000, UTC)
        notes.append(
            f"{one_or_many} dated in the future (up to {newest:%Y-%m-%d}): Anki counts "
            "such entries as today's, here they keep their dates."
        )
    return tuple(notes)


# Folders


def _load_folder(folder: Path, days: _DayChoice, user: int | None) -> ReviewLog:
    name = printable(folder)
    if (folder / "collection.anki2").is_file():
        return load_log(
            folder / "collection.anki2", timezone=days.timezone, rollover=days.rollover, user=user
        )
    from srs_eval.data.datasets import is_dataset, open_dataset

    if is_dataset(folder):
        days.refuse("The days of a data set")
        dataset = open_dataset(folder)
        if user is None and len(dataset.users) == 1:
            user = dataset.users[0]
        if user is None:
            raise InputError(
                f"{name} is a data set of {len(dataset.users):,} users; "
                "say whose with --user (in Python user=), or take all with 'srs-eval batch'."
            )
        return dataset.load(user)
    if folder.name.startswith("user_id="):
        return _load_user_file(folder / "data.parquet", days, user)
    with files.file_errors(folder):
        profiles = sorted(
            entry.parent.name for entry in folder.glob("*/collection.anki2") if entry.is_file()
        )
    if profiles:
        raise InputError(
            f"{name} holds the Anki profiles {printable(', '.join(profiles))}; "
            "give the folder of one of them."
        )
    raise InputError(
        f"{name} holds neither an Anki collection nor an anki-revlogs-10k data set; "
        "give a collection file, a package or a data-set folder."
    )


def _load_user_file(path: Path, days: _DayChoice, user: int | None) -> ReviewLog:
    """One parquet file or folder `.../revlogs/user_id=N` of a data set."""
    from srs_eval.data.datasets import open_dataset

    parents = path.absolute().parents
    number = parents[0].name.removeprefix("user_id=")
    if not (
        parents[0].name.startswith("user_id=")
        and number.isdecimal()
        and len(parents) > 2
        and parents[1].name == "revlogs"
    ):
        raise InputError(
            f"{printable(path)} is a parquet file outside a data set; "
            "expected revlogs/user_id=N/data.parquet as in anki-revlogs-10k."
        )
    if user is not None and user != int(number):
        raise InputError(f"{printable(path)} is user {number}, not user {user}.")
    days.refuse("The days of a data set")
    return open_dataset(parents[2]).load(int(number))


# Profiles


@dataclass(frozen=True)
class _Profile:
    """An Anki profile found on this machine."""

    name: str
    path: Path  # its collection.anki2
    size: int  # bytes
    modified: datetime  # last written, also by an open Anki


@dataclass(frozen=True)
class _Glimpse:
    """What a collection holds at a glance."""

    reviews: int  # answers in its review log
    last: datetime | None  # when the last of them was made


def glimpse(path: Path) -> _Glimpse | None:
    """How many reviews a collection holds and when the last was; None if it can't be read."""
    from srs_eval.data.readers.collection import count_answers

    try:
        with files.private_copy(path) as (database, _):
            reviews, last_ms = count_answers(database)
            last = None if last_ms is None else datetime.fromtimestamp(last_ms / 1000, UTC)
            return _Glimpse(reviews, last)
    except (InputError, sqlite3.Error, ValueError, OverflowError, OSError, MemoryError):
        return None


def find_profiles(home: Path | None = None) -> list[_Profile]:
    """Anki profiles in the usual places of this system, the last used first.

    `home` overrides the home folder. Folders that may not be read are passed over.
    """
    found: dict[Path, _Profile] = {}
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
            if real in found or not real.is_file():
                continue
            newest = max(state.st_mtime for state in states)
            found[real] = _Profile(
                name=printable(collection.parent.name),
                path=collection,
                size=sum(state.st_size for state in states),
                modified=datetime.fromtimestamp(newest, UTC),
            )
    return sorted(found.values(), key=lambda profile: profile.modified, reverse=True)
