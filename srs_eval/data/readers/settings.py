"""Read presets and decks of a collection from JSON (to schema 14) and protobuf.

Values are untrusted. Defaults and bounds: ankitects/anki rslib/src/deckconfig/mod.rs. Only the few
protobuf messages that are read are declared here, with the fields that matter; their numbers:
proto/anki/{deck_config,decks,stats,import_export}.proto. Text is declared as bytes (the wire is the
same), so that bad UTF-8 in a name is not an error.

Two forks of Anki, JSchoreels' and Clanki, store FSRS-7's parameters and the version that they run
beside Anki's own fields: JSchoreels/anki proto/anki/deck_config.proto and
rslib/src/deckconfig/{mod,fork_fields}.rs; Expertium/Clanki docs/fsrs-presets.MD. Clanki runs FSRS-7
only; a collection of its own has a `schedulingAlgorithm`.
"""

from __future__ import annotations

import json
import math
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, partial
from typing import Any

import numpy as np

from srs_eval.data.errors import InputError, printable
from srs_eval.data.reviews import MAX_PARAMETERS, Deck, Preset

_EASE_PATH = "new.initialFactor"  # where JSON stores the ease, in thousandths
# Settings of the older scheduler: path in JSON, field of protobuf, and the lowest and highest value
# with Anki's default for all others (rslib/src/deckconfig/mod.rs,
# `ensure_deck_config_values_valid`).
_SM2_SETTINGS = (
    ("new.ints.0", "graduating_interval_good", (1, 36500, 1)),
    ("new.ints.1", "graduating_interval_easy", (1, 36500, 4)),
    (_EASE_PATH, "initial_ease", (1.31, 5, 2.5)),
    ("rev.ease4", "easy_multiplier", (1, 5, 1.3)),
    ("rev.hardFactor", "hard_multiplier", (0.5, 1.3, 1.2)),
    ("lapse.mult", "lapse_multiplier", (0, 1, 0)),
    ("rev.ivlFct", "interval_multiplier", (0.5, 2, 1)),
)
_ReadField = Callable[[str, str], Any]
"""Returns a preset's value at a path in JSON or in a field of protobuf, whichever stores it."""
# Keys that forks add to a preset
_FORK_FSRS_KEY = "jschoreels.fsrs"
_FORK_RWKV_KEY = "jschoreels.rwkv"
_FORK_VERSIONS = {0: 7, 1: 6, 2: 5, 3: 4}  # FSRS versions by the numbers of their FsrsVersion
OVERLAY_KEY = "fsrsPresetOverlay"
"""A key of the collection's configuration that only forks write."""
ALGORITHM_KEY = "schedulingAlgorithm"
"""A key of the collection's configuration that only Clanki writes."""


def integer_sql(column: str) -> str:
    """Return SQL that reads a column as an integer, whatever is stored in it."""
    return f"ifnull(cast({column} as integer), 0)"


@dataclass(frozen=True)
class _StoredPreset:
    """A preset as it is stored, before Anki's repairs."""

    key: int
    label: str
    read: _ReadField
    modified: Any  # Unix time of the last change
    fork_fields: _ForkFields | None


@dataclass(frozen=True)
class _ForkFields:
    """Fields that a fork of Anki has added to a preset."""

    parameters: tuple[float, ...] = ()  # FSRS-7's
    version: int = 7  # of FSRS that it runs


def read_presets(
    connection: sqlite3.Connection,
    schema: int,
    dconf: Any,
    name: str,
    notes: list[str],
    config: Mapping[str, Any],
) -> dict[int, Preset]:
    """Read the presets, with Anki's own repairs, and add sentences about them to `notes`.

    Raises InputError if they cannot be read.
    """
    stored = list(_read_stored_presets(connection, schema, dconf, name))
    is_clanki = config.get(ALGORITHM_KEY) is not None
    has_overlay = config.get(OVERLAY_KEY) is not None
    has_fork_fields = any(stored_preset.fork_fields for stored_preset in stored)
    is_fork = is_clanki or has_overlay or has_fork_fields
    presets = {}
    for stored_preset in stored:
        preset = _repair_preset(stored_preset, notes, is_fork=is_fork)
        if is_clanki:
            preset = replace(preset, chosen_version=7, has_fallback=False)
        presets[stored_preset.key] = preset
    return presets


def _read_stored_presets(
    connection: sqlite3.Connection, schema: int, dconf: Any, name: str
) -> Iterator[_StoredPreset]:
    if schema < 14:
        yield from _read_json_presets(parse_json_object(dconf, name))
        return
    rows = connection.execute(
        f"select {integer_sql('id')}, name, config, {integer_sql('mtime_secs')} from deck_config"
    )
    if schema == 14:
        contents = {}
        for key, label, content, modified in rows:
            value = parse_json_object(content, name)
            value["name"] = label
            value["mod"] = modified
            contents[key] = value
        yield from _read_json_presets(contents)
        return
    for key, label, content, modified in rows:
        config = parse_message(
            "DeckConfig", _to_bytes(content), f"{name} is damaged (preset {key})"
        )
        fork_fields = _read_fork_fields(
            _parse_fork_json(config.other),
            _unpack_floats(config.fsrs_params_7),
            config.fsrs_version,
        )
        yield _StoredPreset(
            key=key,
            label=to_text(label),
            read=partial(_read_proto_field, config),
            modified=modified,
            fork_fields=fork_fields,
        )


def _read_json_presets(presets: Mapping[Any, Any]) -> Iterator[_StoredPreset]:
    for key, value in iterate_objects(presets):
        fork_values = value
        other_values = value.get("other")  # forks keep their keys here or beside Anki's own
        if isinstance(other_values, dict):
            fork_values = {**value, **other_values}
        fork_fields = _read_fork_fields(
            fork_values, _parse_parameters(value.get("fsrsParams7")), value.get("fsrsVersion")
        )
        yield _StoredPreset(
            key=key,
            label=to_text(value.get("name")),
            read=partial(_read_json_path, value),
            modified=value.get("mod"),
            fork_fields=fork_fields,
        )


def _read_fork_fields(
    fork_values: Mapping[Any, Any], legacy_parameters: tuple[float, ...], version: Any
) -> _ForkFields | None:
    """Read the fields that a fork has added to a preset; None if it has added nothing.

    `fork_values` has the keys that Anki does not know. `legacy_parameters` and `version` are fields
    of older builds, over which these keys take precedence.
    """
    nested = fork_values.get(_FORK_FSRS_KEY)
    if not (legacy_parameters or isinstance(nested, dict) or _FORK_RWKV_KEY in fork_values):
        return None
    if not isinstance(nested, dict):
        nested = {}
    parameters = _parse_parameters(nested.get("fsrs_params_7")) or legacy_parameters
    version = parse_integer(nested.get("fsrs_version", version)) or 0
    return _ForkFields(parameters, _FORK_VERSIONS.get(version, 7))


def _parse_fork_json(content: bytes) -> dict[Any, Any]:
    """Parse JSON of keys that Anki does not know; as in forks, damaged keys count as absent."""
    try:
        value = json.loads(content) if content else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _unpack_floats(packed: bytes) -> tuple[float, ...]:
    """Unpack float32 numbers; () for other content, because Anki may give the field to others."""
    if len(packed) % 4 or len(packed) > 4 * MAX_PARAMETERS:
        return ()
    return _parse_parameters(struct.unpack(f"<{len(packed) // 4}f", packed))


def iterate_objects(objects: Mapping[Any, Any]) -> Iterator[tuple[int, dict[Any, Any]]]:
    """Yield number and object of each member of a JSON object whose key is a number."""
    for raw_key, value in objects.items():
        key = parse_integer(raw_key)
        if key is not None and isinstance(value, dict):
            yield key, value


def _read_proto_field(config: Any, _: str, field: str) -> Any:
    return getattr(config, field)


def _read_json_path(value: Any, path: str, _: str) -> Any:
    """Read the value at a path such as "new.ints.0" in JSON; None if there is none."""
    for key in path.split("."):
        if isinstance(value, list) and key.isdigit():
            value = value[int(key)] if int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    if path != _EASE_PATH:
        return value
    ease = parse_number(value)
    return None if ease is None else ease / 1000


def _repair_preset(stored: _StoredPreset, notes: list[str], *, is_fork: bool) -> Preset:
    """Build a preset with Anki's own repairs: values out of range become the default."""
    read = stored.read
    label = stored.label
    fork_fields = stored.fork_fields or _ForkFields()
    lists = {
        4: _parse_parameters(read("fsrsWeights", "fsrs_params_4")),
        5: _parse_parameters(read("fsrsParams5", "fsrs_params_5")),
        6: _parse_parameters(read("fsrsParams6", "fsrs_params_6")),
        7: fork_fields.parameters,
    }
    min_desired_retention = 0.1 if is_fork else 0.7
    maximum_interval = parse_integer(read("rev.maxIvl", "maximum_review_interval"))
    if maximum_interval is None or not 1 <= maximum_interval <= 36500:
        maximum_interval = 36500
    ignore_before = to_text(read("ignoreRevlogsBeforeDate", "ignore_revlogs_before_date"))
    if ignore_before and not _is_date(ignore_before):
        notes.append(
            f"Preset {printable(label)!r} ignores reviews before "
            f"{printable(ignore_before)!r}, which is not a date; the setting is ignored."
        )
        ignore_before = ""
    return Preset(
        id=stored.key,
        name=printable(label),
        fsrs_parameters={version: values for version, values in lists.items() if values},
        chosen_version=fork_fields.version if is_fork else None,
        desired_retention=_parse_bounded(
            read("desiredRetention", "desired_retention"), min_desired_retention, 0.99, 0.9
        ),
        historical_retention=_parse_bounded(
            read("sm2Retention", "historical_retention"), 0.7, 0.97, 0.9
        ),
        ignore_before=ignore_before or None,
        learning_steps=_parse_numbers(read("new.delays", "learn_steps")),
        relearning_steps=_parse_numbers(read("lapse.delays", "relearn_steps")),
        maximum_interval=maximum_interval,
        search=to_text(read("weightSearch", "param_search")) or None,
        sm2_settings=tuple(
            _parse_bounded(read(path, field), *bounds) for path, field, bounds in _SM2_SETTINGS
        ),
        new_a_day=_parse_daily_limit(read("new.perDay", "new_per_day"), 20),
        reviews_a_day=_parse_daily_limit(read("rev.perDay", "reviews_per_day"), 200),
        review_order=parse_integer(read("reviewOrder", "review_order")) or 0,
        modified_s=parse_integer(stored.modified) or None,
    )


# Rules for single cards


def count_card_rules(overlay: Any) -> int:
    """Count the rules that give single cards the parameters of other presets (`OVERLAY_KEY`).

    A rule is a search and the preset of the cards that it finds; the first rule that finds a card
    decides. Forks take an overlay as a whole or not at all: no rule counts if one of them names a
    preset that does not exist.
    """
    if not isinstance(overlay, dict):
        return 0
    presets = overlay.get("presets")
    rules = overlay.get("rules")
    if not isinstance(presets, list) or not isinstance(rules, list):
        return 0
    preset_ids = {str(preset.get("id")) for preset in presets if isinstance(preset, dict)}
    for rule in rules:
        if not isinstance(rule, dict) or str(rule.get("preset_id")) not in preset_ids:
            return 0
    return len(rules)


# Decks


def read_decks(
    connection: sqlite3.Connection, schema: int, decks_json: Any, name: str
) -> dict[int, Deck]:
    """Read the decks, with their parents. Raises InputError if they cannot be read."""
    if schema < 15:
        return _with_parents(_decks_from_json(parse_json_object(decks_json, name)))
    rows = connection.execute(f"select {integer_sql('id')}, name, kind from decks")
    decks = {}
    for key, label, kind in rows:
        decks[key] = _deck_from_proto(key, to_text(label), kind, name)
    return _with_parents(decks)


def _deck_from_proto(key: int, label: str, kind: Any, name: str) -> Deck:
    message = parse_message("DeckKind", _to_bytes(kind), f"{name} is damaged (deck {key})")
    filtered = message.HasField("filtered")
    desired = None
    if message.HasField("normal") and message.normal.HasField("desired_retention"):
        desired = _shortest_float(message.normal.desired_retention)
    return Deck(
        id=key,
        name=printable(label.replace("\x1f", "::"), 1000),  # \x1f separates parts of names
        preset_id=None if filtered else message.normal.config_id,
        desired_retention=desired,
        filtered=filtered,
    )


def _decks_from_json(stored: Mapping[Any, Any]) -> dict[int, Deck]:
    decks: dict[int, Deck] = {}
    for key, value in iterate_objects(stored):
        name = printable(to_text(value.get("name")), 1000)
        if parse_integer(value.get("dyn")) == 1:
            decks[key] = Deck(id=key, name=name, preset_id=None, filtered=True)
            continue
        preset = parse_integer(value.get("conf"))
        percent = parse_number(value.get("desiredRetention"))
        decks[key] = Deck(
            id=key,
            name=name,
            preset_id=1 if preset is None else preset,
            desired_retention=None if percent is None else percent / 100,
        )
    return decks


def _with_parents(decks: Mapping[int, Deck]) -> dict[int, Deck]:
    """Fill in `parent_id` by the decks' names, as Anki does."""
    id_by_name = {deck.name.casefold(): deck.id for deck in decks.values()}
    with_parents = {}
    for key, deck in decks.items():
        parent_name, separator, _ = deck.name.rpartition("::")
        if separator:
            deck = replace(deck, parent_id=id_by_name.get(parent_name.casefold()))
        with_parents[key] = deck
    return with_parents


# Values from untrusted places


def parse_json_object(content: Any, name: str) -> dict[Any, Any]:
    """Parse JSON and return its object, or {} for another value. Raises InputError."""
    try:
        value = json.loads(content)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{name} is damaged (its settings cannot be read); restore a backup in Anki."
        ) from error
    return value if isinstance(value, dict) else {}


def to_text(value: Any) -> str:
    """Return stored text; "" for anything else."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return value if isinstance(value, bytes) else b""


def parse_integer(value: Any) -> int | None:
    """Return an integer that fits 64 bits, also from text or a whole float; else None."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def parse_number(value: Any) -> float | None:
    """Return a finite number that fits float32 (as Anki stores), in its shortest decimals."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return _shortest_float(value)


def _shortest_float(value: float) -> float | None:
    """Return the nearest float32 in its shortest decimals: 0.9, not 0.89999998. None beyond it."""
    with np.errstate(over="ignore"):
        try:
            short = np.float32(value)
        except OverflowError:
            return None
    return float(str(short)) if np.isfinite(short) else None


def _parse_parameters(values: Any) -> tuple[float, ...]:
    """Parse a stored list with its faults as NaN (`Preset.fsrs_parameters`); Anki repairs none."""
    if values is None:
        return ()
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__len__"):
        return (math.nan,)
    parameters = []
    for value in values[: MAX_PARAMETERS + 1]:
        number = parse_number(value)
        parameters.append(math.nan if number is None else number)
    return tuple(parameters)


def _parse_numbers(values: Any) -> tuple[float, ...]:
    """Parse a list of numbers; () if it is not a list, too long, or one of them is not finite."""
    numbers = _parse_parameters(values)
    if len(numbers) > MAX_PARAMETERS or not all(map(math.isfinite, numbers)):
        return ()
    return numbers


def _parse_bounded(value: Any, low: float, high: float, default: float) -> float:
    number = parse_number(value)
    return number if number is not None and low <= number <= high else default


def _parse_daily_limit(value: Any, default: int) -> int:
    number = parse_integer(value)
    return number if number is not None and 0 <= number <= 9999 else default


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10  # YYYY-MM-DD; Python also knows other forms


# Protobuf

_MESSAGES = {
    "PackageMetadata": "version 1 int32",
    "DeckConfig": (
        "learn_steps* 1 float, relearn_steps* 2 float, fsrs_params_4* 3 float, "
        "fsrs_params_5* 5 float, fsrs_params_6* 6 float, new_per_day 9 uint32, "
        "reviews_per_day 10 uint32, initial_ease 11 float, easy_multiplier 12 float, "
        "hard_multiplier 13 float, lapse_multiplier 14 float, interval_multiplier 15 float, "
        "maximum_review_interval 16 uint32, graduating_interval_good 18 uint32, "
        "graduating_interval_easy 19 uint32, review_order 33 int32, "
        "desired_retention 37 float, historical_retention 40 float, param_search 45 bytes, "
        "ignore_revlogs_before_date 46 bytes, "
        # Fields of forks. The list is declared as bytes, so that other content is not an error.
        "fsrs_params_7 52 bytes, fsrs_version 53 int32, other 255 bytes"
    ),
    "NormalDeck": "config_id 1 int64, desired_retention 10 float",
    "FilteredDeck": "reschedule 1 bool",
    "DeckKind": "normal 1 NormalDeck, filtered 2 FilteredDeck",
    "RevlogEntry": (
        "id 1 int64, cid 2 int64, button_chosen 4 uint32, last_interval 6 int32, "
        "ease_factor 7 uint32, taken_millis 8 uint32, review_kind 9 int32"
    ),
    "CardEntry": "id 1 int64, note_id 2 int64, deck_id 3 int64",
    "DeckEntry": "id 1 int64, parent_id 2 int64, preset_id 3 int64",
    "Dataset": (
        "revlogs* 1 RevlogEntry, cards* 2 CardEntry, decks* 3 DeckEntry, next_day_at 4 int64"
    ),
}
"""Name, number and type of each field; "name*" is repeated."""


def parse_message(message: str, content: bytes, complaint: str) -> Any:
    """Decode `content` as the named message. Raises InputError beginning with `complaint`."""
    from google.protobuf.message import DecodeError

    parsed = _build_message_classes()[message]()
    try:
        parsed.ParseFromString(content)
    except (DecodeError, MemoryError, ValueError, RecursionError) as error:
        raise InputError(f"{complaint}; export it again from Anki.") from error
    return parsed


@cache
def _build_message_classes() -> dict[str, type[Any]]:
    """Build message classes at run time in a separate descriptor pool."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field_type = descriptor_pb2.FieldDescriptorProto
    # The wire is the same as in Anki's proto3; in proto2 a field tells whether it is set.
    file = descriptor_pb2.FileDescriptorProto(
        name="srs_eval/anki.proto", package="srs_eval.anki", syntax="proto2"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for declaration in fields.split(", "):
            field, number, kind = declaration.split()
            is_repeated = field.endswith("*")
            added = message.field.add(name=field.rstrip("*"), number=int(number))
            added.label = field_type.LABEL_REPEATED if is_repeated else field_type.LABEL_OPTIONAL
            if kind in _MESSAGES:
                added.type = field_type.TYPE_MESSAGE
                added.type_name = f".srs_eval.anki.{kind}"
            else:
                added.type = getattr(field_type, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"srs_eval.anki.{name}"))
        for name in _MESSAGES
    }
