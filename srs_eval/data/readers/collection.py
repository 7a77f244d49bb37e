"""A collection database (schema 11, 14-18) as columns.

Layout: ankitects/anki rslib/src/storage/ (schema11.sql, upgrades/), proto/anki/decks.proto,
proto/anki/deck_config.proto. The content is untrusted: views and virtual tables in place of
tables are refused, and work has a deadline.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import chain
from typing import Any

import numpy as np

from srs_eval.data.days import StoredClock
from srs_eval.data.errors import InputError
from srs_eval.data.printable import printable
from srs_eval.data.readers import files, proto
from srs_eval.data.reviews import (
    LEARNING,
    MOST_PARAMETERS,
    NEW_CARD,
    RELEARNING_CARD,
    RESCHEDULED,
    REVIEW_CARD,
    Cards,
    DayGrid,
    Deck,
    Entries,
    FloatArray,
    IntArray,
    Preset,
    Schedule,
)

_SCHEMAS = (11, 14, 15, 16, 17, 18)
_COLUMNS = {
    "col": {"crt", "ver", "conf", "decks", "dconf"},
    "cards": {"id", "nid", "did", "odid", "queue"},
    "revlog": {"id", "cid", "ease", "factor", "time", "type"},
    "config": {"key", "val"},
    "deck_config": {"id", "name", "config", "mtime_secs"},
    "decks": {"id", "name", "kind"},
}
# What the older scheduler's settings may be, and Anki's default where they are not
# (rslib/src/deckconfig/mod.rs, `ensure_deck_config_values_valid`).
_FORK, _FORK_LENGTH = "jschoreels.fsrs", 34
_SM2_BOUNDS = (
    (1, 36500, 1),
    (1, 36500, 4),
    (1.31, 5, 2.5),
    (1, 5, 1.3),
    (0.5, 1.3, 1.2),
    (0, 1, 0),
    (0.5, 2, 1),
)
_SCHEDULING = {"type", "due", "odue", "ivl", "factor", "lapses", "data"}
_FURTHEST_DAY = 100_000  # from today: beyond, no due day or interval is somebody's
_GLIMPSE_S = 5.0
_DEADLINE_S = 300.0
_STEPS_PER_LOOK = 100_000  # of SQLite's virtual machine, between looks at the clock
_MAX_VALUE_BYTES = 32 << 20
_MAX_ENTRIES = 50_000_000
_MAX_DECKS = 100_000
_SUSPENDED, _LATER_STEP = -1, 3  # queues; the step is one of a later day
_TODAY = 1 << 60  # no day that could be stored
_MAX_TIME_MS = 253_402_300_800_000  # the year 10000

_int = "ifnull(cast({0} as integer), 0)".format
_PRESET_ROWS = (
    f"select {_int('id')}, name, config, {_int('mtime_secs')} from deck_config"  # as stored
)


@dataclass(frozen=True)
class Collection:
    """What is read of a database; `clock` and `config` as stored."""

    schema: int
    entries: Entries
    unreadable: int  # entries whose time is impossible, left out
    cards: Cards
    schedule: Schedule | None  # days due as stored: since the collection was created
    decks: Mapping[int, Deck]
    presets: Mapping[int, Preset]
    clock: StoredClock
    fsrs_enabled: bool | None
    optimized_before_s: int | None = None  # see ReviewLog
    notes: list[str] = field(default_factory=list)


def read_collection(connection: sqlite3.Connection, name: str) -> Collection:
    """Read the private copy of a collection; `name` is how messages call the file.

    Raises InputError if it is damaged, no collection, or of an unknown schema.
    """
    deadline = time.monotonic() + _DEADLINE_S
    try:
        with files.database_errors(name):
            _harden(connection, deadline)
            return _read(connection, name)
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
    _harden(connection, time.monotonic() + _GLIMPSE_S)
    query = "select count(*), max(id) from revlog where ease between 1 and 4"
    count, last = connection.execute(query).fetchone()
    return int(count), None if last is None else int(last)


def _harden(connection: sqlite3.Connection, deadline: float) -> None:
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_PER_LOOK)
    connection.text_factory = lambda value: value.decode("utf-8", "replace")
    connection.create_collation("unicase", _compare_unicase)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for pragma in ("trusted_schema=off", "cell_size_check=on", "mmap_size=0"):
        connection.execute(f"pragma {pragma}")


def _compare_unicase(left: str, right: str) -> int:
    a, b = left.casefold(), right.casefold()
    return (a > b) - (a < b)


def _read(connection: sqlite3.Connection, name: str) -> Collection:
    schema = _schema(connection, name)
    notes = _check(connection, schema, name)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    if connection.execute("select count(*) from revlog").fetchone()[0] > _MAX_ENTRIES:
        raise InputError(f"{name} holds more reviews than one person can give.")
    entries, unreadable = _read_entries(connection)
    cards = _cards(connection)
    schedule = _schedule(connection)
    crt, conf, dconf, decks_json = connection.execute(
        "select crt, conf, dconf, decks from col limit 1"
    ).fetchone()
    config = _json_object(conf, name) if schema < 14 else _config_table(connection)
    if schema < 14:
        presets = _presets_from_json(_json_object(dconf, name), notes)
    elif schema == 14:
        rows = connection.execute(_PRESET_ROWS)
        presets = _presets_from_json(
            {
                key: {**_json_object(content, name), "name": label, "mod": modified}
                for key, label, content, modified in _limited(rows, name)
            },
            notes,
        )
    else:
        rows = connection.execute(_PRESET_ROWS)
        presets = {
            key: _preset_from_proto(key, _text(label), content, modified, name, notes)
            for key, label, content, modified in _limited(rows, name)
        }
    if schema < 15:
        decks = _decks_from_json(_json_object(decks_json, name))
    else:
        rows = connection.execute(f"select {_int('id')}, name, kind from decks")
        decks = {
            key: _deck_from_proto(key, _text(label), kind, name)
            for key, label, kind in _limited(rows, name)
        }
    enabled = config.get("fsrs")
    return Collection(
        schema=schema,
        entries=entries,
        unreadable=unreadable,
        cards=cards,
        schedule=schedule,
        decks=_with_parents(decks),
        presets={
            key: replace(
                preset,
                new_ignore_review_limit=config.get("newCardsIgnoreReviewLimit") is True,
            )
            for key, preset in presets.items()
        },
        clock=_clock(config, crt),
        fsrs_enabled=enabled if isinstance(enabled, bool) else None,
        optimized_before_s=_end_of_day(crt, config.get("lastFsrsOptimize")),
        notes=notes,
    )


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


def _schema(connection: sqlite3.Connection, name: str) -> int:
    tables = {
        table: kind
        for table, kind in connection.execute(
            "select lower(name), type from sqlite_master where lower(name) in "
            "('col','cards','revlog','config','deck_config','decks') "
            "and ifnull(sql, '') not like 'create virtual%'"
        )
    }
    no_collection = (
        f"{name} is a database but no Anki collection; "
        "choose the collection.anki2 of an Anki profile or an exported package."
    )

    def check(table: str) -> None:
        columns = connection.execute(f"pragma table_xinfo({table})").fetchall()
        found = {column[1].lower() for column in columns}
        hidden = any(column[6] for column in columns)  # computed: could run anything
        if tables.get(table) != "table" or hidden or not _COLUMNS[table] <= found:
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


def _read_entries(connection: sqlite3.Connection) -> tuple[Entries, int]:
    """All of `revlog` in order of time, and how many entries had an impossible time.

    As Anki reads them: an unknown type is learning, a negative time taken is 0.
    """
    names = ("id", "cid", "ease", "type", "factor", "time")
    rows = connection.execute(f"select {', '.join(map(_int, names))} from revlog order by id")
    table = _table(rows, len(names))
    return entries_from_columns(*table.T)


def entries_from_columns(
    time_ms: IntArray,
    card_id: IntArray,
    rating: IntArray,
    kind: IntArray,
    factor: IntArray,
    duration_ms: IntArray,
) -> tuple[Entries, int]:
    """Entries in order of time from raw columns; the number left out for their time."""
    order = np.argsort(time_ms, kind="stable")
    order = order[(time_ms[order] > 0) & (time_ms[order] < _MAX_TIME_MS)]
    known = (kind >= LEARNING) & (kind <= RESCHEDULED)
    columns = (
        time_ms,
        card_id,
        rating,
        np.where(known, kind, LEARNING),
        factor,
        np.maximum(duration_ms, 0),
    )
    entries = Entries(*(np.ascontiguousarray(column[order], np.int64) for column in columns))
    return entries, len(time_ms) - len(order)


def _table(rows: Iterable[tuple[int, ...]], width: int) -> IntArray:
    """Rows of integers as an array (n, width), without a Python object per row kept."""
    return np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, width)


def _cards(connection: sqlite3.Connection) -> Cards:
    names = ("id", "nid", "did", "odid", "queue")
    rows = connection.execute(f"select {', '.join(map(_int, names))} from cards order by id")
    card, note, deck, original_deck, queue = np.ascontiguousarray(_table(rows, len(names)).T)
    home = np.where(original_deck != 0, original_deck, deck)
    return Cards(card, note, home, queue == _SUSPENDED)


def _schedule(connection: sqlite3.Connection) -> Schedule | None:
    """Where cards stand (rslib/src/storage/card/); None for tables made without it."""
    found = {column[1].lower() for column in connection.execute("pragma table_xinfo(cards)")}
    if not found >= _SCHEDULING:
        return None
    names = ("id", "type", "queue", "due", "odue", "odid", "ivl", "factor", "lapses")
    rows = connection.execute(f"select {', '.join(map(_int, names))} from cards order by id")
    columns = np.ascontiguousarray(_table(rows, len(names)).T)
    card, kind, queue, due, home_due, home, interval, ease, lapses = columns
    kind = np.where((kind >= NEW_CARD) & (kind <= RELEARNING_CARD), kind, NEW_CARD)
    # Other cards are due at a moment, or have a place among the new ones.
    in_days = (kind == REVIEW_CARD) | (queue == _LATER_STEP)
    due = np.where((home != 0) & (home_due != 0), home_due, due)
    memory = _stored_memory(connection, len(card))
    return Schedule(
        card_id=card,
        kind=kind,
        queue=queue,
        due_day=np.where(in_days, due, _TODAY),
        interval=np.clip(interval, 0, _FURTHEST_DAY),
        ease=np.clip(ease, 0, 100_000),
        lapses=np.clip(lapses, 0, 1 << 31),
        stability=memory[0],
        difficulty=memory[1],
    )


def relative_to(schedule: Schedule | None, grid: DayGrid) -> Schedule | None:
    """The schedule with days due relative to the grid's next day; None without a beginning."""
    if schedule is None or grid.number is None:
        return None
    days = np.where(schedule.due_day == _TODAY, 0, schedule.due_day - grid.number)
    return replace(schedule, due_day=np.clip(days, -_FURTHEST_DAY, _FURTHEST_DAY))


def _stored_memory(connection: sqlite3.Connection, cards: int) -> FloatArray:
    """Stability and difficulty as Anki keeps them in each card's `data`; NaN where it does not."""
    memory = np.full((2, cards), np.nan)
    rows = connection.execute(
        "select data from cards order by id"  # the same order, whatever an id is cast to
    )
    for place, (content,) in enumerate(rows):
        if not isinstance(content, str) or '"s"' not in content:
            continue
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            continue
        if not isinstance(data, dict):
            continue
        stability, difficulty = _number(data.get("s")), _number(data.get("d"))
        if stability is not None and difficulty is not None and stability > 0:
            memory[:, place] = min(stability, 36_500.0), min(max(difficulty, 1.0), 10.0)
    return memory


def _config_table(connection: sqlite3.Connection) -> dict[str, Any]:
    keys = (
        "fsrs",
        "rollover",
        "schedVer",
        "creationOffset",
        "localOffset",
        "lastFsrsOptimize",
        "newCardsIgnoreReviewLimit",
    )
    marks = ",".join("?" * len(keys))
    found: dict[str, Any] = {}
    for key, value in connection.execute(
        f"select key, val from config where key in ({marks})", keys
    ):
        try:
            found[key] = json.loads(value)
        except (ValueError, TypeError, RecursionError):
            continue  # Anki treats an unreadable setting as absent
    return found


def _clock(config: Mapping[str, Any], crt: Any) -> StoredClock:
    offset, source = _offset_s(config.get("localOffset")), "from the collection"
    if offset is None:
        # Packages lack localOffset; where the collection was made is the next best evidence.
        offset = _offset_s(config.get("creationOffset"))
        source = "where the collection was created"
    crt = _integer(crt)
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
        created_offset_s=_offset_s(config.get("creationOffset")),
    )


def _end_of_day(crt: Any, day: Any) -> int | None:
    """Unix time at which the day with this number since the collection's creation ends."""
    created, number = _integer(crt), _integer(day)
    if created is None or number is None or not 0 <= number < 100_000:
        return None
    return created + (number + 1) * 86_400


def _hour(stored: Any) -> int | None:
    """An hour as Anki reads it: a byte, 23 at most; else None."""
    return min(stored, 23) if type(stored) is int and 0 <= stored <= 255 else None


def _offset_s(minutes_west: Any) -> int | None:
    minutes = _integer(minutes_west)
    return None if minutes is None or abs(minutes) > 23 * 60 else -60 * minutes


# Presets


def _preset_from_proto(
    key: int, label: str, content: Any, modified: Any, name: str, notes: list[str]
) -> Preset:
    config = proto.parse("DeckConfig", _bytes(content), f"{name} is damaged (preset {key})")
    return _preset(
        key,
        label,
        parameters={
            4: config.fsrs_params_4,
            5: config.fsrs_params_5,
            6: config.fsrs_params_6,
        },
        desired=config.desired_retention,
        historical=config.historical_retention,
        ignore_before=_text(config.ignore_revlogs_before_date),
        learning=config.learn_steps,
        relearning=config.relearn_steps,
        maximum=config.maximum_review_interval,
        fork=_fork_parameters(config.other),
        search=_text(config.param_search),
        sm2=(
            config.graduating_interval_good,
            config.graduating_interval_easy,
            config.initial_ease,
            config.easy_multiplier,
            config.hard_multiplier,
            config.lapse_multiplier,
            config.interval_multiplier,
        ),
        limits=(config.new_per_day, config.reviews_per_day),
        order=config.review_order,
        modified=modified,
        notes=notes,
    )


def _presets_from_json(found: Mapping[Any, Any], notes: list[str]) -> dict[int, Preset]:
    presets: dict[int, Preset] = {}
    for raw_key, value in found.items():
        key = _integer(raw_key)
        if key is None or not isinstance(value, dict):
            continue
        presets[key] = _preset(
            key,
            _text(value.get("name")),
            parameters={
                4: value.get("fsrsWeights"),
                5: value.get("fsrsParams5"),
                6: value.get("fsrsParams6"),
            },
            desired=value.get("desiredRetention"),
            historical=value.get("sm2Retention"),
            ignore_before=_text(value.get("ignoreRevlogsBeforeDate")),
            learning=_part(value, "new").get("delays"),
            relearning=_part(value, "lapse").get("delays"),
            maximum=_part(value, "rev").get("maxIvl"),
            fork=_fork_parameters(value),
            search=_text(value.get("weightSearch")),
            sm2=_sm2_from_json(value),
            limits=(_part(value, "new").get("perDay"), _part(value, "rev").get("perDay")),
            order=value.get("reviewOrder"),
            modified=value.get("mod"),
            notes=notes,
        )
    return presets


def _fork_parameters(other: Any) -> tuple[float, ...]:
    """The FSRS-7 list that a fork of Anki keeps among the keys that Anki does not know.

    JSON of its own in a newer preset, keys of the preset in an older one (JSchoreels/anki:
    rslib/src/deckconfig). Anything else is (), and so are drafts of another length.
    """
    if isinstance(other, bytes):
        try:
            other = json.loads(other) if other else {}
        except (ValueError, RecursionError):
            return ()
    fields = other.get(_FORK) if isinstance(other, dict) else None
    found = _numbers(fields.get("fsrs_params_7")) if isinstance(fields, dict) else ()
    return found if len(found) == _FORK_LENGTH else ()


def _sm2_from_json(value: Mapping[str, Any]) -> tuple[Any, ...]:
    new, review = _part(value, "new"), _part(value, "rev")
    intervals = new.get("ints")
    good, easy, *_ = (*intervals, None, None) if isinstance(intervals, list) else (None, None)
    ease = _number(new.get("initialFactor"))
    return (
        good,
        easy,
        None if ease is None else ease / 1000,
        review.get("ease4"),
        review.get("hardFactor"),
        _part(value, "lapse").get("mult"),
        review.get("ivlFct"),
    )


def _preset(
    key: int,
    label: str,
    *,
    parameters: Mapping[int, Any],
    desired: Any,
    historical: Any,
    ignore_before: str,
    learning: Any,
    relearning: Any,
    maximum: Any,
    fork: tuple[float, ...],
    search: str,
    sm2: tuple[Any, ...],
    limits: tuple[Any, Any],
    order: Any,
    modified: Any,
    notes: list[str],
) -> Preset:
    """A preset with Anki's own repairs: what is out of range becomes the default."""
    lists = {version: _parameters(values) for version, values in parameters.items()}
    longest = _integer(maximum)
    if ignore_before and not _is_date(ignore_before):
        notes.append(
            f"Preset {printable(label)!r} ignores reviews before "
            f"{printable(ignore_before)!r}, which is no date; it is not applied."
        )
        ignore_before = ""
    return Preset(
        id=key,
        name=printable(label),
        fsrs_parameters={version: values for version, values in lists.items() if values},
        desired_retention=_within(desired, 0.7, 0.99, 0.9),
        historical_retention=_within(historical, 0.7, 0.97, 0.9),
        ignore_before=ignore_before or None,
        learning_steps=_numbers(learning),
        relearning_steps=_numbers(relearning),
        maximum_interval=longest if longest and 1 <= longest <= 36500 else 36500,
        search=search or None,
        fork_parameters=fork,
        sm2_settings=tuple(
            _within(value, *bounds) for value, bounds in zip(sm2, _SM2_BOUNDS, strict=True)
        ),
        new_a_day=_limit(limits[0], 20),
        reviews_a_day=_limit(limits[1], 200),
        review_order=_integer(order) or 0,
        modified_s=_integer(modified) or None,
    )


# Decks


def _deck_from_proto(key: int, label: str, kind: Any, name: str) -> Deck:
    found = proto.parse("DeckKind", _bytes(kind), f"{name} is damaged (deck {key})")
    filtered = found.HasField("filtered")
    desired = None
    if found.HasField("normal") and found.normal.HasField("desired_retention"):
        desired = _shortest(found.normal.desired_retention)
    return Deck(
        id=key,
        name=_deck_name(label.replace("\x1f", "::")),
        preset_id=None if filtered else found.normal.config_id,
        desired_retention=desired,
        filtered=filtered,
    )


def _decks_from_json(found: Mapping[Any, Any]) -> dict[int, Deck]:
    decks: dict[int, Deck] = {}
    for raw_key, value in found.items():
        key = _integer(raw_key)
        if key is None or not isinstance(value, dict):
            continue
        filtered = _integer(value.get("dyn")) == 1
        preset = _integer(value.get("conf"))
        percent = _number(value.get("desiredRetention"))
        decks[key] = Deck(
            id=key,
            name=_deck_name(_text(value.get("name"))),
            preset_id=None if filtered else (1 if preset is None else preset),
            desired_retention=None if filtered or percent is None else percent / 100,
            filtered=filtered,
        )
    return decks


def _with_parents(decks: Mapping[int, Deck]) -> dict[int, Deck]:
    """Fill `parent_id` in: Anki finds parents by name."""
    by_name = {deck.name.casefold(): deck.id for deck in decks.values()}
    return {
        key: replace(deck, parent_id=by_name.get(deck.name.rpartition("::")[0].casefold()))
        if "::" in deck.name
        else deck
        for key, deck in decks.items()
    }


def _deck_name(label: str) -> str:
    return printable(label, 1000)


# Values from untrusted places


def _limited(rows: Iterable[tuple[Any, ...]], name: str) -> list[tuple[Any, ...]]:
    found = []
    for row in rows:
        found.append(row)
        if len(found) > _MAX_DECKS:
            raise InputError(f"{name} has too many decks or presets to be a real collection.")
    return found


def _json_object(content: Any, name: str) -> dict[Any, Any]:
    try:
        found = json.loads(content)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{name} is damaged (its settings cannot be read); restore a backup in Anki."
        ) from error
    return found if isinstance(found, dict) else {}


def _part(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = value.get(key)
    return part if isinstance(part, dict) else {}


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return value if isinstance(value, bytes) else b""


def _integer(value: Any) -> int | None:
    """An integer that fits 64 bits, also from text or a whole float; else None."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def _number(value: Any) -> float | None:
    """A finite number that fits float32 (what Anki keeps), in its shortest decimals."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return _shortest(value)


def _shortest(value: float) -> float | None:
    with np.errstate(over="ignore"):
        try:
            short = np.float32(value)
        except OverflowError:
            return None
    return float(str(short)) if np.isfinite(short) else None


def _parameters(values: Any) -> tuple[float, ...]:
    """A stored list with its faults (`Preset.fsrs_parameters`), which Anki does not mend either."""
    if values is None:
        return ()
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__len__"):
        return (math.nan,)
    found = (_number(value) for value in values[: MOST_PARAMETERS + 1])
    return tuple(math.nan if value is None else value for value in found)


def _numbers(values: Any) -> tuple[float, ...]:
    """A list of numbers; () if it is none or one of them is no finite number."""
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__len__"):
        return ()
    if len(values) > 1000:
        return ()
    found = [_number(value) for value in values]
    return tuple(value for value in found if value is not None) if None not in found else ()


def _within(value: Any, low: float, high: float, default: float) -> float:
    number = _number(value)
    return number if number is not None and low <= number <= high else default


def _limit(value: Any, default: int) -> int:
    number = _integer(value)
    return number if number is not None and 0 <= number <= 9999 else default


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10
