"""A collection database (schema 11, 14-18) as columns.

Layout: ankitects/anki rslib/src/storage/ (schema11.sql, upgrades/), proto/anki/decks.proto,
proto/anki/deck_config.proto. The content is untrusted: views and virtual tables in place of
tables are refused, and work has a deadline.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.data.days import StoredClock
from srs_eval.data.errors import InputError, printable
from srs_eval.data.readers import files
from srs_eval.data.readers.repeats import (
    DAYS_ONLY,
    Contradiction,
    are_days_only,
    first_of_each,
    repeats_in_words,
)
from srs_eval.data.readers.settings import (
    ALGORITHM,
    INTEGER,
    OVERLAY,
    card_rules_of,
    decks_of,
    integer_of,
    json_object,
    number_of,
    presets_of,
)
from srs_eval.data.reviews import (
    LEARNING,
    NEW_CARD,
    RELEARNING_CARD,
    RESCHEDULED,
    REVIEW_CARD,
    Cards,
    DayGrid,
    Entries,
    FloatArray,
    ImportSummary,
    IntArray,
    ReviewLog,
    Schedule,
    card_rules_in_words,
)

_SCHEMAS = (11, 14, 15, 16, 17, 18)
_COLUMNS = {
    "col": {"crt", "ver", "conf", "decks", "dconf"},
    "cards": {
        *("id", "nid", "did", "odid", "queue"),
        *("type", "due", "odue", "ivl", "factor", "lapses", "data"),
    },
    "revlog": {"id", "cid", "ease", "factor", "time", "type", "lastivl"},
    "config": {"key", "val"},
    "deck_config": {"id", "name", "config", "mtime_secs"},
    "decks": {"id", "name", "kind"},
}
_CONFIG = (
    *("fsrs", "rollover", "schedVer", "creationOffset", "localOffset", "lastFsrsOptimize"),
    *("newCardsIgnoreReviewLimit", OVERLAY, ALGORITHM),
)
_RWKV_ALGORITHMS = {"rwkvCurve": "RWKV-Curve", "rwkvInstant": "RWKV-Instant"}
_STABILITY = (0.0, 36_500.0)  # days
_MEMORY = {
    "s": ("stability", *_STABILITY),
    "d": ("difficulty", 1.0, 10.0),
    "s_int": ("internal_stability", *_STABILITY),
    "s_fast": ("fast_stability", *_STABILITY),
    "dr": ("desired_retention", 0.0, 1.0),
    "decay": ("decay", 0.0, 10.0),
}
"""By the keys of cards' data (ankitects/anki rslib/src/storage/card/data.rs, and JSchoreels/anki's)
the columns of `Schedule`, and the least and most that they can be."""
_FURTHEST_DAY = 100_000  # from today: beyond, no due day or interval is somebody's
_GLIMPSE_S = 5.0
_DEADLINE_S = 300.0
_STEPS_PER_LOOK = 100_000  # of SQLite's virtual machine, between looks at the clock
_MAX_VALUE_BYTES = 32 << 20
_MAX_ENTRIES = 50_000_000
_SUSPENDED, _LATER_STEP = -1, 3  # queues; the step is one of a later day
_TODAY = 1 << 60  # no day that could be stored
_MAX_TIME_MS = 253_402_300_800_000  # the year 10000


def read_collection(
    connection: sqlite3.Connection,
    path: Path,
    words: str,
    grid: Callable[[Entries, StoredClock], DayGrid],
    notes: tuple[str, ...] = (),
) -> ReviewLog:
    """Read the private copy of a collection, whose format is called `words`.

    Raises InputError if it is damaged, no collection, of an unknown schema, or without reviews.
    """
    deadline, name = time.monotonic() + _DEADLINE_S, printable(path)
    try:
        with files.database_errors(name):
            harden(connection, deadline)
            return _read(connection, path, name, words, grid, notes)
    except InputError as error:
        if "interrupted" not in str(error.__cause__):
            raise
        # SQLite stops when the clock says so, or when a signal's exception comes up in our
        # look at the clock, where it is lost.
        if time.monotonic() <= deadline:
            raise KeyboardInterrupt from None
        raise InputError(f"{name} takes too long to read; it is damaged or hostile.") from error


def count_answers(connection: sqlite3.Connection) -> tuple[int, int | None]:
    """How many answers a private copy's review log holds, and the last one's time in Unix ms.

    Raises sqlite3.Error and ValueError for what cannot be read.
    """
    harden(connection, time.monotonic() + _GLIMPSE_S)
    query = "select count(*), max(id) from revlog where ease between 1 and 4"
    count, last = connection.execute(query).fetchone()
    return int(count), None if last is None else int(last)


def harden(connection: sqlite3.Connection, deadline: float) -> None:
    """Let a database that others made do nothing but be read, until `deadline` (monotonic)."""
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_PER_LOOK)
    connection.text_factory = lambda value: value.decode("utf-8", "replace")
    connection.create_collation("unicase", _compare_unicase)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for pragma in ("trusted_schema=off", "cell_size_check=on", "mmap_size=0"):
        connection.execute(f"pragma {pragma}")


def _compare_unicase(left: str, right: str) -> int:
    a, b = left.casefold(), right.casefold()
    return (a > b) - (a < b)


def _read(
    connection: sqlite3.Connection,
    path: Path,
    name: str,
    words: str,
    grid_of: Callable[[Entries, StoredClock], DayGrid],
    notes: tuple[str, ...],
) -> ReviewLog:
    schema = _schema(connection, name)
    told = _check(connection, schema, name)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    if connection.execute("select count(*) from revlog").fetchone()[0] > _MAX_ENTRIES:
        raise InputError(f"{name} holds more reviews than one person can give.")
    # As Anki reads them: an unknown type is learning, a negative time taken is 0.
    columns = _integers(
        connection, "revlog", "id", "cid", "ease", "type", "factor", "time", "lastIvl"
    )

    def two_with_one_id(first: int, second: int) -> InputError:
        del first
        return files.damaged(name, f"two of its reviews have the id {columns[0][second]}")

    found = entries_from_columns(*columns, contradiction=two_with_one_id)
    entries = found.entries
    cards, schedule = _cards(connection)
    crt, conf, dconf, decks_json = connection.execute(
        "select crt, conf, dconf, decks from col limit 1"
    ).fetchone()
    config = json_object(conf, name) if schema < 14 else _config_table(connection)
    ignores = config.get("newCardsIgnoreReviewLimit") is True
    presets = presets_of(connection, schema, dconf, name, told, config)
    rules = card_rules_of(config.get(OVERLAY))
    told += _fork_notes(config, rules)
    decks = decks_of(connection, schema, decks_json, name)
    if not len(entries) and len(cards.card_id):
        raise InputError(
            f"{name} holds {len(cards.card_id):,} cards but no reviews; if it was exported "
            "without scheduling, export it again with 'Include scheduling information' ticked."
        )
    if not len(entries):
        raise InputError(f"{name} is an empty collection, without cards or reviews.")
    grid = grid_of(entries, _clock(config, crt))
    # Anki takes a missing setting for off (rslib/src/config/bool.rs); decks come without any.
    enabled = config.get("fsrs")
    if not isinstance(enabled, bool):
        enabled = None if path.suffix.lower() == ".apkg" else False
    return ReviewLog(
        import_summary=ImportSummary(
            path=str(path),
            format=f"{words}, schema {schema}",
            entries_read=found.read,
            notes=(*notes, *found.notes, *told),
            fsrs_enabled=enabled,
            repeated=found.repeated,
        ),
        entries=entries,
        cards=cards,
        schedule=_relative_to(schedule, grid.number),
        decks=decks,
        presets={
            key: replace(preset, new_ignore_review_limit=ignores) for key, preset in presets.items()
        },
        day_grid=grid,
        card_rules=rules,
        optimized_before_s=_end_of_day(crt, config.get("lastFsrsOptimize")),
    )


def _fork_notes(config: Mapping[str, Any], rules: int) -> list[str]:
    """Sentences about what a fork of Anki schedules by, and what of it is not evaluated here."""
    notes = []
    algorithm = _RWKV_ALGORITHMS.get(str(config.get(ALGORITHM)))
    if algorithm is not None:
        notes.append(
            f"Clanki schedules this collection by {algorithm}; the parameters here are those that "
            "it keeps for FSRS-7."
        )
    if rules:
        notes.append(card_rules_in_words(rules))
    return notes


def _check(connection: sqlite3.Connection, schema: int, name: str) -> list[str]:
    """Refuse damage to what is read; a note about damage to anything else."""
    if _is_sound(connection, "1"):
        return []
    for table in _tables(schema):
        if not _is_sound(connection, table):
            raise files.damaged(name, f"its table {table} cannot be read as a whole")
    return [
        "The file is damaged outside of its reviews, cards and decks; "
        "run Tools > Check Database in Anki."
    ]


def _is_sound(connection: sqlite3.Connection, what: str) -> bool:
    """Whether SQLite finds nothing wrong with a table, or with the whole database ("1").

    What it finds it tells in words of its own workings, which say nothing to a person.
    """
    try:
        found = connection.execute(f"pragma quick_check({what})").fetchone()
    except sqlite3.OperationalError:
        raise  # interrupted
    except sqlite3.DatabaseError:
        return False
    return found is not None and str(found[0]) == "ok"


def _tables(schema: int) -> list[str]:
    """The tables that are read."""
    since = {"config": 14, "deck_config": 14, "decks": 15}
    return [table for table in _COLUMNS if since.get(table, 0) <= schema]


def columns_of(connection: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table, in small letters; none of what could run code as it is read.

    These are views, virtual tables and computed columns.
    """
    columns = connection.execute(f"pragma table_xinfo({table})").fetchall()
    plain = connection.execute(
        "select 1 from sqlite_master where lower(name) = ? and type = 'table' "
        "and ifnull(sql, '') not like 'create virtual%'",
        (table,),
    ).fetchone()
    usable = plain and not any(column[6] for column in columns)
    return {column[1].lower() for column in columns} if usable else set()


def _schema(connection: sqlite3.Connection, name: str) -> int:
    no_collection = (
        f"{name} is a database but no Anki collection; "
        "choose the collection.anki2 of an Anki profile or an exported package."
    )

    def check(table: str) -> None:
        if not _COLUMNS[table] <= columns_of(connection, table):
            raise InputError(no_collection)

    check("col")
    row = connection.execute("select ver from col limit 1").fetchone()
    schema = row[0] if row and isinstance(row[0], int) else 0
    if schema in (12, 13) or schema > max(_SCHEMAS):
        raise InputError(
            f"{name} was written by a newer Anki (schema {schema}) than is known here; "
            "export it from Anki with 'Support older Anki versions' ticked."
        )
    if schema not in _SCHEMAS:
        raise InputError(
            f"{name} was written by a very old Anki (schema {schema}); "
            "open it in a current Anki once, then try again."
        )
    for table in _tables(schema):
        check(table)
    return schema


@dataclass(frozen=True)
class FoundEntries:
    """The entries of a source, and how many of its lines are none."""

    entries: Entries
    unreadable: int  # left out for an impossible time
    repeated: int  # left out because the source holds them twice
    in_order_of_file: bool = False  # several answers of a card have a day, and no time of day

    @property
    def read(self) -> int:
        """How many entries the source holds, counted or not."""
        return len(self.entries) + self.unreadable + self.repeated

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the import summary about entries that are odd or left out."""
        repeated = [repeats_in_words(self.repeated)] if self.repeated else []
        if self.in_order_of_file:
            repeated.append(DAYS_ONLY)
        return (*repeated, *_odd_times(self.entries, self.unreadable))


def entries_from_columns(
    time_ms: IntArray,
    card_id: IntArray,
    rating: IntArray,
    kind: IntArray,
    factor: IntArray,
    duration_ms: IntArray,
    interval: IntArray | None = None,
    *,
    contradiction: Contradiction,
    has_ids: bool = True,
) -> FoundEntries:
    """Put raw columns (n,) into order of time, without impossible times and repeated entries.

    With ids, as in Anki's revlog, the time is the id of an entry; without, a card and the time of
    its answer are (`srs_eval.data.readers.repeats`), unless all times are whole days apart: then
    no entry repeats another. Raises `contradiction` for two that differ.
    """
    raw = [time_ms, card_id, rating, kind, factor, duration_ms]
    if interval is not None:
        raw.append(interval)
    possible = np.flatnonzero((time_ms > 0) & (time_ms < _MAX_TIME_MS))
    places = possible[np.argsort(time_ms[possible], kind="stable")]
    columns = [column[places] for column in raw]
    identity = columns[:1] if has_ids else columns[:2]

    def of_source(first: int, second: int) -> InputError:
        return contradiction(int(places[first]), int(places[second]))

    in_order_of_file = False
    if not has_ids and are_days_only(columns[0]):
        in_order_of_file = not first_of_each(identity).all()
        kept = np.ones(len(places), np.bool_)
    else:
        kept = first_of_each(identity, columns[len(identity) :], of_source)
    time_ms, card_id, rating, kind, factor, duration_ms, *more = (
        np.ascontiguousarray(column[kept], np.int64) for column in columns
    )
    known = (kind >= LEARNING) & (kind <= RESCHEDULED)
    entries = Entries(
        time_ms,
        card_id,
        rating,
        np.where(known, kind, LEARNING),
        factor,
        np.maximum(duration_ms, 0),
        *more,
    )
    return FoundEntries(entries, len(raw[0]) - len(places), int((~kept).sum()), in_order_of_file)


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


def _integers(connection: sqlite3.Connection, table: str, *names: str) -> IntArray:
    """Columns of a table as integers (names, n), without a Python object per row kept."""
    rows = connection.execute(f"select {', '.join(map(INTEGER, names))} from {table} order by id")
    found = np.fromiter(chain.from_iterable(rows), np.int64)
    return np.ascontiguousarray(found.reshape(-1, len(names)).T)


def _cards(connection: sqlite3.Connection) -> tuple[Cards, Schedule]:
    """Where cards are, and where they stand (rslib/src/storage/card/); days due as stored."""
    card, note, deck, kind, queue, due, home_due, home, interval, ease, lapses = _integers(
        *(connection, "cards", "id", "nid", "did", "type", "queue"),
        *("due", "odue", "odid", "ivl", "factor", "lapses"),
    )
    kind = np.where((kind >= NEW_CARD) & (kind <= RELEARNING_CARD), kind, NEW_CARD)
    # Other cards are due at a moment, or have a place among the new ones.
    in_days = (kind == REVIEW_CARD) | (queue == _LATER_STEP)
    due = np.where((home != 0) & (home_due != 0), home_due, due)
    schedule = Schedule(
        card_id=card,
        kind=kind,
        queue=queue,
        due_day=np.where(in_days, due, _TODAY),
        interval=np.clip(interval, 0, _FURTHEST_DAY),
        ease=np.clip(ease, 0, 100_000),
        lapses=np.clip(lapses, 0, 1 << 31),
        **_stored_memory(connection, len(card)),
    )
    return Cards(card, note, np.where(home != 0, home, deck), queue == _SUSPENDED), schedule


def _relative_to(schedule: Schedule, day: int | None) -> Schedule | None:
    """The schedule with days due relative to the next day's number; None without a beginning."""
    if day is None:
        return None
    days = np.where(schedule.due_day == _TODAY, 0, schedule.due_day - day)
    return replace(schedule, due_day=np.clip(days, -_FURTHEST_DAY, _FURTHEST_DAY))


def _stored_memory(connection: sqlite3.Connection, cards: int) -> dict[str, FloatArray]:
    """What Anki keeps in each card's `data`, by column of `Schedule`; NaN where it does not."""
    memory = {name: np.full(cards, np.nan) for name, *_ in _MEMORY.values()}
    rows = connection.execute(
        "select data from cards order by id"  # the same order, whatever an id is cast to
    )
    for place, (content,) in enumerate(rows):
        data = _from_json(content) if isinstance(content, str) and '"s"' in content else None
        if not isinstance(data, dict):
            continue
        found = {key: number_of(data.get(key)) for key in _MEMORY}
        if found["s"] is None or found["d"] is None or found["s"] <= 0:
            continue
        for key, value in found.items():
            name, low, high = _MEMORY[key]
            if value is not None and (value > 0 or key == "d"):
                memory[name][place] = min(max(value, low), high)
    return memory


def _config_table(connection: sqlite3.Connection) -> dict[str, Any]:
    """Anki treats an unreadable setting as absent."""
    found = connection.execute(
        f"select key, val from config where key in ({','.join('?' * len(_CONFIG))})", _CONFIG
    )
    return {key: _from_json(value) for key, value in found}


def _from_json(content: Any) -> Any:
    """None for what cannot be read."""
    try:
        return json.loads(content)
    except (ValueError, TypeError, RecursionError):
        return None


def _clock(config: Mapping[str, Any], crt: Any) -> StoredClock:
    # Packages lack localOffset; where the collection was made is the next best evidence.
    offset, source = _offset_s(config.get("localOffset")), "from the collection"
    created_offset = _offset_s(config.get("creationOffset"))
    if offset is None:
        offset, source = created_offset, "where the collection was created"
    crt = integer_of(crt)
    # Whatever is not a plain 2 is scheduler 1 to Anki, also nothing at all: collections that
    # Anki 2.1 made before there was a second scheduler (rslib/src/config/mod.rs).
    version = config.get("schedVer")
    old_scheduler = crt is not None and not (type(version) is int and version == 2)
    return StoredClock(
        rollover=_hour(config.get("rollover")),
        utc_offset_s=offset,
        offset_source=source,
        first_day_s=crt if old_scheduler else None,
        created_s=crt,
        created_offset_s=created_offset,
    )


def _end_of_day(crt: Any, day: Any) -> int | None:
    """Unix time at which the day with this number since the collection's creation ends."""
    created, number = integer_of(crt), integer_of(day)
    if created is None or number is None or not 0 <= number < 100_000:
        return None
    return created + (number + 1) * 86_400


def _hour(stored: Any) -> int | None:
    """An hour as Anki reads it: a byte, 23 at most; else None."""
    return min(stored, 23) if type(stored) is int and 0 <= stored <= 255 else None


def _offset_s(minutes_west: Any) -> int | None:
    minutes = integer_of(minutes_west)
    return None if minutes is None or abs(minutes) > 23 * 60 else -60 * minutes
