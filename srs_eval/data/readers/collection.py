"""Read a collection database (schema 11, 14-18) into columns.

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

from srs_eval.data.days import DAY_S, StoredClock
from srs_eval.data.errors import InputError, printable
from srs_eval.data.readers import files
from srs_eval.data.readers.repeats import (
    DAYS_ONLY,
    Contradiction,
    are_days_only,
    describe_repeats,
    mark_first_occurrences,
)
from srs_eval.data.readers.settings import (
    ALGORITHM_KEY,
    OVERLAY_KEY,
    count_card_rules,
    integer_sql,
    parse_integer,
    parse_json_object,
    parse_number,
    read_decks,
    read_presets,
)
from srs_eval.data.readers.templates import read_templates
from srs_eval.data.reviews import (
    LEARNING,
    NEW_CARD,
    RELEARNING_CARD,
    RESCHEDULED,
    REVIEW_CARD,
    Cards,
    CardTemplates,
    DayGrid,
    Entries,
    FloatArray,
    ImportSummary,
    IntArray,
    ReviewLog,
    Schedule,
    describe_card_rules,
)

_SUPPORTED_SCHEMAS = (11, 14, 15, 16, 17, 18)
_REQUIRED_COLUMNS = {
    "col": {"crt", "ver", "conf", "decks", "dconf"},
    "cards": {
        "id",
        "nid",
        "did",
        "odid",
        "queue",
        "type",
        "due",
        "odue",
        "ivl",
        "factor",
        "lapses",
        "data",
    },
    "revlog": {"id", "cid", "ease", "factor", "time", "type", "lastivl"},
    "config": {"key", "val"},
    "deck_config": {"id", "name", "config", "mtime_secs"},
    "decks": {"id", "name", "kind"},
}
_TEMPLATE_TABLES = ("col", "cards", "notes", "notetypes", "templates")
_CONFIG_KEYS = (
    "fsrs",
    "rollover",
    "schedVer",
    "creationOffset",
    "localOffset",
    "lastFsrsOptimize",
    "newCardsIgnoreReviewLimit",
    OVERLAY_KEY,
    ALGORITHM_KEY,
)
_RWKV_ALGORITHMS = {"rwkvCurve": "RWKV-Curve", "rwkvInstant": "RWKV-Instant"}
_STABILITY_RANGE = (0.0, 36_500.0)  # days
_MEMORY_STATE_FIELDS = {
    "s": ("stability", *_STABILITY_RANGE),
    "d": ("difficulty", 1.0, 10.0),
    "s_int": ("internal_stability", *_STABILITY_RANGE),
    "s_fast": ("fast_stability", *_STABILITY_RANGE),
    "dr": ("desired_retention", 0.0, 1.0),
    "decay": ("decay", 0.0, 10.0),
}
"""Key of cards' data -> column of `Schedule`, and its lowest and highest possible value
(ankitects/anki rslib/src/storage/card/data.rs, and JSchoreels/anki's)."""
_MAX_DAYS = 100_000  # no learner has longer intervals, or cards that are due farther away
_COUNT_DEADLINE_S = 5.0  # for counting answers
_DEADLINE_S = 300.0  # for reading a collection
_STEPS_PER_CLOCK_CHECK = 100_000  # of SQLite's virtual machine, between checks of the clock
_MAX_VALUE_BYTES = 32 << 20
_MAX_ENTRIES = 50_000_000
_SUSPENDED = -1  # queue of suspended cards
_LATER_STEP = 3  # queue of cards with a step on a later day
_NO_DUE_DAY = 1 << 60  # stands for cards that are not due on a day; no such day is stored
_MAX_TIME_MS = 253_402_300_800_000  # the year 10000
_WHOLE_DATABASE = "1"  # argument of quick_check: the number of errors to find, not a table


def read_collection(
    connection: sqlite3.Connection,
    path: Path,
    format_name: str,
    make_grid: Callable[[Entries, StoredClock], DayGrid],
    notes: tuple[str, ...] = (),
) -> ReviewLog:
    """Read the private copy of a collection, whose format is called `format_name`.

    Raises InputError if it is damaged, not a collection, of an unknown schema, or without reviews.
    """
    deadline = time.monotonic() + _DEADLINE_S
    name = printable(path)
    try:
        with files.database_errors(name):
            restrict_connection(connection, deadline)
            return _read_connection(connection, path, name, format_name, make_grid, notes)
    except InputError as error:
        if "interrupted" not in str(error.__cause__):
            raise
        # SQLite is interrupted at the deadline. It is also interrupted if Ctrl-C raises
        # KeyboardInterrupt in our check of the clock, where the exception is lost.
        if time.monotonic() <= deadline:
            raise KeyboardInterrupt from None
        raise InputError(f"{name} takes too long to read; it is damaged or hostile.") from error


def count_answers(connection: sqlite3.Connection) -> tuple[int, int | None]:
    """Return the number of answers in a private copy's review log, and the last one's Unix ms.

    Raises sqlite3.Error and ValueError if the log cannot be read.
    """
    restrict_connection(connection, time.monotonic() + _COUNT_DEADLINE_S)
    query = "select count(*), max(id) from revlog where ease between 1 and 4"
    count, last_id = connection.execute(query).fetchone()
    return int(count), None if last_id is None else int(last_id)


def restrict_connection(connection: sqlite3.Connection, deadline: float) -> None:
    """Restrict an untrusted database to being read, until `deadline` (monotonic)."""
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_PER_CLOCK_CHECK)
    connection.text_factory = lambda value: value.decode("utf-8", "replace")
    connection.create_collation("unicase", _compare_unicase)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for pragma in ("trusted_schema=off", "cell_size_check=on", "mmap_size=0"):
        connection.execute(f"pragma {pragma}")


def _compare_unicase(left: str, right: str) -> int:
    """Compare without case, as Anki's collation does; return -1, 0 or 1."""
    folded_left = left.casefold()
    folded_right = right.casefold()
    if folded_left == folded_right:
        return 0
    return 1 if folded_left > folded_right else -1


def _read_connection(
    connection: sqlite3.Connection,
    path: Path,
    name: str,
    format_name: str,
    make_grid: Callable[[Entries, StoredClock], DayGrid],
    notes: tuple[str, ...],
) -> ReviewLog:
    schema = _read_schema(connection, name)
    content_notes = _check_damage(connection, schema, name)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    (entry_count,) = connection.execute("select count(*) from revlog").fetchone()
    if entry_count > _MAX_ENTRIES:
        raise InputError(
            f"{name} holds more reviews than one person can do, so it is probably damaged: "
            "run Tools > Check Database in Anki."
        )
    names = ("id", "cid", "ease", "type", "factor", "time", "lastIvl")
    columns = _read_integers(connection, "revlog", names)

    def duplicate_id_error(first: int, second: int) -> InputError:
        del first
        return files.damaged_database_error(
            name, f"two of its reviews have the id {columns[0][second]}"
        )

    imported = build_entries(*columns, contradiction=duplicate_id_error)
    entries = imported.entries
    cards, schedule = _read_cards(connection)
    # Anki's names: crt is the time of creation, conf the configuration, dconf holds the presets.
    crt, conf, dconf, decks_json = connection.execute(
        "select crt, conf, dconf, decks from col limit 1"
    ).fetchone()
    config = parse_json_object(conf, name) if schema < 14 else _read_config(connection)
    new_ignore_review_limit = config.get("newCardsIgnoreReviewLimit") is True
    presets = {}
    stored_presets = read_presets(connection, schema, dconf, name, content_notes, config)
    for key, preset in stored_presets.items():
        presets[key] = replace(preset, new_ignore_review_limit=new_ignore_review_limit)
    rule_count = count_card_rules(config.get(OVERLAY_KEY))
    content_notes += _describe_fork(config, rule_count)
    decks = read_decks(connection, schema, decks_json, name)
    templates = _read_templates(connection, schema)
    if not len(entries) and len(cards.card_id):
        raise InputError(
            f"{name} holds {len(cards.card_id):,} cards but no reviews; if it was exported "
            "without scheduling, export it again with 'Include scheduling information' ticked."
        )
    if not len(entries):
        raise InputError(f"{name} is an empty collection, without cards or reviews.")
    grid = make_grid(entries, _read_clock(config, crt))
    # Without the setting, FSRS is off in Anki (rslib/src/config/bool.rs). Deck packages have none.
    fsrs_enabled = config.get("fsrs")
    if not isinstance(fsrs_enabled, bool):
        fsrs_enabled = None if path.suffix.lower() == ".apkg" else False
    return ReviewLog(
        import_summary=ImportSummary(
            path=str(path),
            format=f"{format_name}, schema {schema}",
            entries_read=imported.entries_read,
            notes=(*notes, *imported.notes, *content_notes),
            fsrs_enabled=fsrs_enabled,
            repeated=imported.repeated,
        ),
        entries=entries,
        cards=cards,
        schedule=_make_due_days_relative(schedule, grid.anki_day_number),
        templates=templates,
        decks=decks,
        presets=presets,
        day_grid=grid,
        card_rule_count=rule_count,
        optimized_before_s=_end_of_day(crt, config.get("lastFsrsOptimize")),
    )


def _read_templates(connection: sqlite3.Connection, schema: int) -> CardTemplates | None:
    """Read the cards' templates; None if they are damaged, as only one question is about them."""
    columns = {table: list_columns(connection, table) for table in _TEMPLATE_TABLES}
    try:
        return read_templates(connection, schema, columns)
    except sqlite3.OperationalError:
        raise  # interrupted
    except sqlite3.DatabaseError:
        return None


def _describe_fork(config: Mapping[str, Any], rule_count: int) -> list[str]:
    """Describe the scheduling of a fork of Anki, and the parts that are not evaluated here."""
    notes = []
    algorithm = _RWKV_ALGORITHMS.get(str(config.get(ALGORITHM_KEY)))
    if algorithm is not None:
        notes.append(
            f"Clanki schedules this collection by {algorithm}; srs-eval reads the parameters that "
            "Clanki keeps for FSRS-7."
        )
    if rule_count:
        notes.append(describe_card_rules(rule_count))
    return notes


def _check_damage(connection: sqlite3.Connection, schema: int, name: str) -> list[str]:
    """Raise InputError for damage to tables that are read; return notes about other damage."""
    if _is_sound(connection, _WHOLE_DATABASE):
        return []
    for table in _list_tables(schema):
        if not _is_sound(connection, table):
            raise files.damaged_database_error(name, f"its table {table} cannot be read as a whole")
    return [
        "The file is damaged, though its reviews, cards and decks are intact; "
        "run Tools > Check Database in Anki."
    ]


def _is_sound(connection: sqlite3.Connection, table: str) -> bool:
    """Return whether SQLite finds nothing wrong with a table, or with `_WHOLE_DATABASE`.

    SQLite describes damage in terms of its internals, which mean nothing to a user.
    """
    try:
        result = connection.execute(f"pragma quick_check({table})").fetchone()
    except sqlite3.OperationalError:
        raise  # interrupted
    except sqlite3.DatabaseError:
        return False
    return result is not None and str(result[0]) == "ok"


def _list_tables(schema: int) -> list[str]:
    """List the tables that are read."""
    first_schema = {"config": 14, "deck_config": 14, "decks": 15}
    return [table for table in _REQUIRED_COLUMNS if first_schema.get(table, 0) <= schema]


def list_columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """List the columns of a table, in lower case; none if reading it could run code.

    This is so for views, virtual tables and computed columns.
    """
    columns = connection.execute(f"pragma table_xinfo({table})").fetchall()
    is_table = connection.execute(
        "select 1 from sqlite_master where lower(name) = ? and type = 'table' "
        "and ifnull(sql, '') not like 'create virtual%'",
        (table,),
    ).fetchone()
    # A column's name is at 1; at 6 is `hidden`, which is not 0 for computed columns.
    if not is_table or any(column[6] for column in columns):
        return set()
    return {column[1].lower() for column in columns}


def _read_schema(connection: sqlite3.Connection, name: str) -> int:
    """Return the schema. Raises InputError if it is not supported, or if a column is missing."""
    complaint = (
        f"{name} is a database but not an Anki collection; "
        "choose the collection.anki2 of an Anki profile or an exported package."
    )

    def require_columns(table: str) -> None:
        if not _REQUIRED_COLUMNS[table] <= list_columns(connection, table):
            raise InputError(complaint)

    require_columns("col")
    row = connection.execute("select ver from col limit 1").fetchone()
    schema = row[0] if row and isinstance(row[0], int) else 0
    if schema in (12, 13) or schema > max(_SUPPORTED_SCHEMAS):
        raise InputError(
            f"{name} was written by a newer Anki (schema {schema}) than srs-eval knows; "
            "export it from Anki with 'Support older Anki versions' ticked."
        )
    if schema not in _SUPPORTED_SCHEMAS:
        raise InputError(
            f"{name} was written by a very old Anki (schema {schema}); "
            "open it in a current Anki once, then try again."
        )
    for table in _list_tables(schema):
        require_columns(table)
    return schema


@dataclass(frozen=True)
class ImportedEntries:
    """The entries of a source, and the numbers of its lines that are left out."""

    entries: Entries
    unreadable: int  # left out for an impossible time
    repeated: int  # left out because the source holds them twice
    in_order_of_file: bool = False  # a card has several answers on a day, without times of day

    @property
    def entries_read(self) -> int:
        """Return the number of entries that the source holds, including those left out."""
        return len(self.entries) + self.unreadable + self.repeated

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences for the import summary about entries that are odd or left out."""
        notes = []
        if self.repeated:
            notes.append(describe_repeats(self.repeated))
        if self.in_order_of_file:
            notes.append(DAYS_ONLY)
        notes += _describe_odd_times(self.entries, self.unreadable)
        return tuple(notes)


def build_entries(
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
) -> ImportedEntries:
    """Build entries from raw columns (n,), in order of time.

    Impossible times and repeated entries are left out. With ids, as in Anki's revlog, the time is
    the id of an entry; without ids, the card and the time of its answer identify an entry
    (`srs_eval.data.readers.repeats`), unless all times are whole days apart: then no entry repeats
    another. Raises `contradiction` for two entries with one identity that differ.
    """
    raw_columns = [time_ms, card_id, rating, kind, factor, duration_ms]
    if interval is not None:
        raw_columns.append(interval)
    possible_positions = np.flatnonzero((time_ms > 0) & (time_ms < _MAX_TIME_MS))
    positions = possible_positions[np.argsort(time_ms[possible_positions], kind="stable")]
    columns = [column[positions] for column in raw_columns]
    identity = columns[:1] if has_ids else columns[:2]

    def source_contradiction(first: int, second: int) -> InputError:
        return contradiction(int(positions[first]), int(positions[second]))

    in_order_of_file = False
    if not has_ids and are_days_only(columns[0]):
        in_order_of_file = not mark_first_occurrences(identity).all()
        is_kept = np.ones(len(positions), np.bool_)
    else:
        is_kept = mark_first_occurrences(identity, columns[len(identity) :], source_contradiction)
    columns = [np.ascontiguousarray(column[is_kept], np.int64) for column in columns]
    time_ms, card_id, rating, kind, factor, duration_ms = columns[:6]
    # As Anki reads them: an unknown type is learning, a negative time taken is 0.
    has_known_kind = (kind >= LEARNING) & (kind <= RESCHEDULED)
    entries = Entries(
        time_ms=time_ms,
        card_id=card_id,
        rating=rating,
        kind=np.where(has_known_kind, kind, LEARNING),
        factor=factor,
        duration_ms=np.maximum(duration_ms, 0),
        interval=None if interval is None else columns[6],
    )
    return ImportedEntries(
        entries,
        unreadable=len(raw_columns[0]) - len(positions),
        repeated=int((~is_kept).sum()),
        in_order_of_file=in_order_of_file,
    )


def _describe_odd_times(entries: Entries, unreadable: int) -> tuple[str, ...]:
    """Describe times that no review can have had."""
    notes: list[str] = []
    if unreadable:
        count = "1 entry" if unreadable == 1 else f"{unreadable:,} entries"
        verb = "was" if unreadable == 1 else "were"
        notes.append(f"{count} with an impossible time {verb} left out.")
    future = int((entries.time_ms > time.time() * 1000).sum())
    if future:
        one_or_many = "1 entry is" if future == 1 else f"{future:,} entries are"
        newest = datetime.fromtimestamp(int(entries.time_ms[-1]) // 1000, UTC)
        notes.append(
            f"{one_or_many} dated in the future (up to {newest:%Y-%m-%d}): Anki counts "
            "such entries as today's; srs-eval keeps their dates."
        )
    return tuple(notes)


def _read_integers(connection: sqlite3.Connection, table: str, names: tuple[str, ...]) -> IntArray:
    """Read columns of a table as integers (names, n), without keeping a Python object per row."""
    rows = connection.execute(
        f"select {', '.join(map(integer_sql, names))} from {table} order by id"
    )
    values = np.fromiter(chain.from_iterable(rows), np.int64)
    return np.ascontiguousarray(values.reshape(-1, len(names)).T)


def _read_cards(connection: sqlite3.Connection) -> tuple[Cards, Schedule]:
    """Read the cards' decks and their states in the scheduler, with due days as stored.

    Source: ankitects/anki rslib/src/storage/card/.
    """
    state_names = ("id", "nid", "did", "type", "queue")
    schedule_names = ("due", "odue", "odid", "ivl", "factor", "lapses")
    columns = _read_integers(connection, "cards", state_names + schedule_names)
    card, note, deck, kind, queue = columns[: len(state_names)]
    due, home_due, home_deck, interval, ease, lapses = columns[len(state_names) :]
    kind = np.where((kind >= NEW_CARD) & (kind <= RELEARNING_CARD), kind, NEW_CARD)
    # Other cards are due at a point in time, or have a position among the new cards.
    has_due_day = (kind == REVIEW_CARD) | (queue == _LATER_STEP)
    in_filtered_deck = home_deck != 0
    due = np.where(in_filtered_deck & (home_due != 0), home_due, due)
    schedule = Schedule(
        card_id=card,
        kind=kind,
        queue=queue,
        due_day=np.where(has_due_day, due, _NO_DUE_DAY),
        interval=np.clip(interval, 0, _MAX_DAYS),
        ease=np.clip(ease, 0, 100_000),
        lapses=np.clip(lapses, 0, 1 << 31),
        **_read_memory_states(connection, len(card)),
    )
    cards = Cards(
        card_id=card,
        note_id=note,
        deck_id=np.where(in_filtered_deck, home_deck, deck),
        suspended=queue == _SUSPENDED,
    )
    return cards, schedule


def _make_due_days_relative(schedule: Schedule, next_day: int | None) -> Schedule | None:
    """Make due days relative to the next day, whose number is given; None if that is unknown."""
    if next_day is None:
        return None
    days = np.where(schedule.due_day == _NO_DUE_DAY, 0, schedule.due_day - next_day)
    return replace(schedule, due_day=np.clip(days, -_MAX_DAYS, _MAX_DAYS))


def _read_memory_states(connection: sqlite3.Connection, count: int) -> dict[str, FloatArray]:
    """Read the memory states in cards' `data`, by column of `Schedule`; NaN if there is none."""
    memory = {name: np.full(count, np.nan) for name, *_ in _MEMORY_STATE_FIELDS.values()}
    # `_read_integers` has the same order.
    rows = connection.execute("select data from cards order by id")
    for row, (content,) in enumerate(rows):
        data = _parse_json(content) if isinstance(content, str) and '"s"' in content else None
        if not isinstance(data, dict):
            continue
        values = {key: parse_number(data.get(key)) for key in _MEMORY_STATE_FIELDS}
        if values["s"] is None or values["d"] is None or values["s"] <= 0:
            continue
        for key, value in values.items():
            name, low, high = _MEMORY_STATE_FIELDS[key]
            # A difficulty of 0 is raised to the lowest one; other values of 0 count as absent.
            if value is not None and (value > 0 or key == "d"):
                memory[name][row] = min(max(value, low), high)
    return memory


def _read_config(connection: sqlite3.Connection) -> dict[str, Any]:
    """Read the settings; as in Anki, an unreadable setting counts as absent."""
    settings = connection.execute(
        f"select key, val from config where key in ({','.join('?' * len(_CONFIG_KEYS))})",
        _CONFIG_KEYS,
    )
    return {key: _parse_json(value) for key, value in settings}


def _parse_json(content: Any) -> Any:
    """Parse JSON; return None if it cannot be read."""
    try:
        return json.loads(content)
    except (ValueError, TypeError, RecursionError):
        return None


def _read_clock(config: Mapping[str, Any], crt: Any) -> StoredClock:
    # Packages lack localOffset. Then the offset at the collection's creation is the best guess.
    offset = _parse_offset_s(config.get("localOffset"))
    source = "from the collection"
    created_offset = _parse_offset_s(config.get("creationOffset"))
    if offset is None:
        offset = created_offset
        source = "where the collection was created"
    crt = parse_integer(crt)
    # Anki takes anything but a plain 2 for scheduler 1, even a missing value: Anki 2.1 made such
    # collections before there was a second scheduler (rslib/src/config/mod.rs).
    version = config.get("schedVer")
    old_scheduler = crt is not None and not (type(version) is int and version == 2)
    return StoredClock(
        rollover=_parse_hour(config.get("rollover")),
        utc_offset_s=offset,
        offset_source=source,
        first_day_s=crt if old_scheduler else None,
        created_s=crt,
        created_offset_s=created_offset,
    )


def _end_of_day(crt: Any, day: Any) -> int | None:
    """Return the Unix time of a day's end, from its number since the creation; None if unusable."""
    created = parse_integer(crt)
    day_number = parse_integer(day)
    if created is None or day_number is None or not 0 <= day_number < _MAX_DAYS:
        return None
    return created + (day_number + 1) * DAY_S


def _parse_hour(stored: Any) -> int | None:
    """Parse an hour as Anki does: a byte, of which more than 23 counts as 23; else None."""
    return min(stored, 23) if type(stored) is int and 0 <= stored <= 255 else None


def _parse_offset_s(minutes_west: Any) -> int | None:
    """Convert minutes west of UTC, as Anki stores, to seconds east; None if unusable."""
    minutes = parse_integer(minutes_west)
    return None if minutes is None or abs(minutes) > 23 * 60 else -60 * minutes
