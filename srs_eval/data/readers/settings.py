"""Presets and decks of a collection, from JSON (to schema 14) and protobuf, and untrusted values.

Defaults and bounds: ankitects/anki rslib/src/deckconfig/mod.rs. Of protobuf are here the few
messages that are read, with the fields that matter; their numbers: proto/anki/{deck_config,decks,
stats,import_export}.proto. Text is declared as bytes (the wire is the same), so that bad UTF-8 in
a name is no error.

Two forks of Anki, JSchoreels' and Clanki, keep FSRS-7's parameters and which version they run
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
from srs_eval.data.reviews import MOST_PARAMETERS, Deck, Preset

# What the older scheduler's settings may be, and Anki's default where they are not
# (rslib/src/deckconfig/mod.rs, `ensure_deck_config_values_valid`).
_EASE = "new.initialFactor"  # in JSON in thousandths
_SM2 = (
    ("new.ints.0", "graduating_interval_good", (1, 36500, 1)),
    ("new.ints.1", "graduating_interval_easy", (1, 36500, 4)),
    (_EASE, "initial_ease", (1.31, 5, 2.5)),
    ("rev.ease4", "easy_multiplier", (1, 5, 1.3)),
    ("rev.hardFactor", "hard_multiplier", (0.5, 1.3, 1.2)),
    ("lapse.mult", "lapse_multiplier", (0, 1, 0)),
    ("rev.ivlFct", "interval_multiplier", (0.5, 2, 1)),
)
_Read = Callable[[str, str], Any]
"""What a preset has at a place in JSON, or in a field of protobuf: whichever it is stored in."""
_FORK_FSRS, _FORK_RWKV = "jschoreels.fsrs", "jschoreels.rwkv"  # keys of what forks add to a preset
_FORK_VERSIONS = {0: 7, 1: 6, 2: 5, 3: 4}  # FSRS versions by the numbers of their FsrsVersion
OVERLAY, ALGORITHM = "fsrsPresetOverlay", "schedulingAlgorithm"
"""Keys of the collection's configuration that only forks write, the latter only Clanki."""
INTEGER = "ifnull(cast({0} as integer), 0)".format
"""SQL of a column as an integer, whatever is stored in it."""


@dataclass(frozen=True)
class _Stored:
    """A preset as it is stored, before Anki's repairs."""

    key: int
    label: str
    read: _Read
    modified: Any
    of_fork: _ForkFields | None


@dataclass(frozen=True)
class _ForkFields:
    """What a fork of Anki has added to a preset."""

    parameters: tuple[float, ...] = ()  # FSRS-7's
    version: int = 7  # of FSRS, which it runs


def presets_of(
    connection: sqlite3.Connection,
    schema: int,
    dconf: Any,
    name: str,
    notes: list[str],
    config: Mapping[str, Any],
) -> dict[int, Preset]:
    """The presets, with Anki's own repairs; what is told of them goes to `notes`.

    Raises InputError for what cannot be read.
    """
    stored = list(_stored_presets(connection, schema, dconf, name))
    is_clanki = config.get(ALGORITHM) is not None
    is_fork = is_clanki or config.get(OVERLAY) is not None or any(each.of_fork for each in stored)
    presets = {}
    for each in stored:
        preset = _preset(each, notes, is_fork=is_fork)
        if is_clanki:
            preset = replace(preset, chosen_version=7, has_fallback=False)
        presets[each.key] = preset
    return presets


def _stored_presets(
    connection: sqlite3.Connection, schema: int, dconf: Any, name: str
) -> Iterator[_Stored]:
    if schema < 14:
        yield from _stored_in_json(json_object(dconf, name))
        return
    rows = connection.execute(
        f"select {INTEGER('id')}, name, config, {INTEGER('mtime_secs')} from deck_config"
    )
    if schema == 14:
        contents = {
            key: {**json_object(content, name), "name": label, "mod": modified}
            for key, label, content, modified in rows
        }
        yield from _stored_in_json(contents)
        return
    for key, label, content, modified in rows:
        config = parse("DeckConfig", _bytes(content), f"{name} is damaged (preset {key})")
        added = _ignoring_damage(config.other)
        of_fork = _fork_fields(added, _floats(config.fsrs_params_7), config.fsrs_version)
        yield _Stored(key, _text(label), partial(_in_proto, config), modified, of_fork)


def _stored_in_json(found: Mapping[Any, Any]) -> Iterator[_Stored]:
    for key, value in _objects_in(found):
        added = value.get("other")
        added = {**value, **added} if isinstance(added, dict) else value
        of_fork = _fork_fields(
            added, _parameters(value.get("fsrsParams7")), value.get("fsrsVersion")
        )
        label = _text(value.get("name"))
        yield _Stored(key, label, partial(_in_json, value), value.get("mod"), of_fork)


def _fork_fields(
    added: Mapping[Any, Any], numbered: tuple[float, ...], version: Any
) -> _ForkFields | None:
    """What a fork has added to a preset; None where it has added nothing.

    `added` are keys that Anki does not know; `numbered` and `version` are what older builds have
    written to fields of their own, which the keys go before.
    """
    nested = added.get(_FORK_FSRS)
    if not (numbered or isinstance(nested, dict) or _FORK_RWKV in added):
        return None
    nested = nested if isinstance(nested, dict) else {}
    parameters = _parameters(nested.get("fsrs_params_7")) or numbered
    version = integer_of(nested.get("fsrs_version", version)) or 0
    return _ForkFields(parameters, _FORK_VERSIONS.get(version, 7))


def _ignoring_damage(content: bytes) -> dict[Any, Any]:
    """Keys that Anki does not know, as JSON; forks take them for absent where they are damaged."""
    try:
        found = json.loads(content) if content else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _floats(packed: bytes) -> tuple[float, ...]:
    """Packed numbers of 32 bits. () for what is none: Anki may use the field for something else."""
    if len(packed) % 4 or len(packed) > 4 * MOST_PARAMETERS:
        return ()
    return _parameters(struct.unpack(f"<{len(packed) // 4}f", packed))


def _objects_in(found: Mapping[Any, Any]) -> Iterator[tuple[int, dict[Any, Any]]]:
    """What JSON keeps by numbers."""
    for raw_key, value in found.items():
        key = integer_of(raw_key)
        if key is not None and isinstance(value, dict):
            yield key, value


def _in_proto(config: Any, _: str, field: str) -> Any:
    return getattr(config, field)


def _in_json(value: Any, path: str, _: str) -> Any:
    """What JSON has at a path such as "new.ints.0"; None for nothing."""
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
    if path != _EASE:
        return value
    ease = number_of(value)
    return None if ease is None else ease / 1000


def _preset(stored: _Stored, notes: list[str], *, is_fork: bool) -> Preset:
    """A preset with Anki's own repairs: what is out of range becomes the default."""
    read, label, of_fork = stored.read, stored.label, stored.of_fork or _ForkFields()
    lists = {
        4: _parameters(read("fsrsWeights", "fsrs_params_4")),
        5: _parameters(read("fsrsParams5", "fsrs_params_5")),
        6: _parameters(read("fsrsParams6", "fsrs_params_6")),
        7: of_fork.parameters,
    }
    least_desired = 0.1 if is_fork else 0.7
    longest = integer_of(read("rev.maxIvl", "maximum_review_interval"))
    ignore_before = _text(read("ignoreRevlogsBeforeDate", "ignore_revlogs_before_date"))
    if ignore_before and not _is_date(ignore_before):
        notes.append(
            f"Preset {printable(label)!r} ignores reviews before "
            f"{printable(ignore_before)!r}, which is no date; it is not applied."
        )
        ignore_before = ""
    return Preset(
        id=stored.key,
        name=printable(label),
        fsrs_parameters={version: values for version, values in lists.items() if values},
        chosen_version=of_fork.version if is_fork else None,
        desired_retention=_within(
            read("desiredRetention", "desired_retention"), least_desired, 0.99, 0.9
        ),
        historical_retention=_within(read("sm2Retention", "historical_retention"), 0.7, 0.97, 0.9),
        ignore_before=ignore_before or None,
        learning_steps=_numbers(read("new.delays", "learn_steps")),
        relearning_steps=_numbers(read("lapse.delays", "relearn_steps")),
        maximum_interval=longest if longest and 1 <= longest <= 36500 else 36500,
        search=_text(read("weightSearch", "param_search")) or None,
        sm2_settings=tuple(_within(read(path, field), *bounds) for path, field, bounds in _SM2),
        new_a_day=_limit(read("new.perDay", "new_per_day"), 20),
        reviews_a_day=_limit(read("rev.perDay", "reviews_per_day"), 200),
        review_order=integer_of(read("reviewOrder", "review_order")) or 0,
        modified_s=integer_of(stored.modified) or None,
    )


# Rules for single cards


def card_rules_of(overlay: Any) -> int:
    """How many rules give single cards the parameters of other presets (`OVERLAY`).

    A rule is a search and the preset of the cards that it finds; the first that finds a card
    decides. Forks take an overlay as a whole or not at all: none counts where one of its rules
    names a preset that is not there.
    """
    if not isinstance(overlay, dict):
        return 0
    presets, rules = overlay.get("presets"), overlay.get("rules")
    if not isinstance(presets, list) or not isinstance(rules, list):
        return 0
    known = {str(each.get("id")) for each in presets if isinstance(each, dict)}
    named = [str(each.get("preset_id")) for each in rules if isinstance(each, dict)]
    return len(named) if len(named) == len(rules) and set(named) <= known else 0


# Decks


def decks_of(
    connection: sqlite3.Connection, schema: int, decks_json: Any, name: str
) -> dict[int, Deck]:
    """The decks, with their parents. Raises InputError for what cannot be read."""
    if schema < 15:
        return _with_parents(_decks_from_json(json_object(decks_json, name)))
    rows = connection.execute(f"select {INTEGER('id')}, name, kind from decks")
    return _with_parents(
        {key: _deck_from_proto(key, _text(label), kind, name) for key, label, kind in rows}
    )


def _deck_from_proto(key: int, label: str, kind: Any, name: str) -> Deck:
    found = parse("DeckKind", _bytes(kind), f"{name} is damaged (deck {key})")
    filtered = found.HasField("filtered")
    desired = None
    if found.HasField("normal") and found.normal.HasField("desired_retention"):
        desired = _shortest(found.normal.desired_retention)
    return Deck(
        id=key,
        name=printable(label.replace("\x1f", "::"), 1000),
        preset_id=None if filtered else found.normal.config_id,
        desired_retention=desired,
        filtered=filtered,
    )


def _decks_from_json(found: Mapping[Any, Any]) -> dict[int, Deck]:
    decks: dict[int, Deck] = {}
    for key, value in _objects_in(found):
        filtered = integer_of(value.get("dyn")) == 1
        preset = integer_of(value.get("conf"))
        percent = number_of(value.get("desiredRetention"))
        decks[key] = Deck(
            id=key,
            name=printable(_text(value.get("name")), 1000),
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


# Values from untrusted places


def json_object(content: Any, name: str) -> dict[Any, Any]:
    try:
        found = json.loads(content)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{name} is damaged (its settings cannot be read); restore a backup in Anki."
        ) from error
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return value if isinstance(value, bytes) else b""


def integer_of(value: Any) -> int | None:
    """An integer that fits 64 bits, also from text or a whole float; else None."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def number_of(value: Any) -> float | None:
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
    found = (number_of(value) for value in values[: MOST_PARAMETERS + 1])
    return tuple(math.nan if value is None else value for value in found)


def _numbers(values: Any) -> tuple[float, ...]:
    """A list of numbers; () if it is none, too long, or one of them is no finite number."""
    found = _parameters(values)
    return found if len(found) <= MOST_PARAMETERS and all(map(math.isfinite, found)) else ()


def _within(value: Any, low: float, high: float, default: float) -> float:
    number = number_of(value)
    return number if number is not None and low <= number <= high else default


def _limit(value: Any, default: int) -> int:
    number = integer_of(value)
    return number if number is not None and 0 <= number <= 9999 else default


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


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
        # Of forks. The list is declared as bytes: whatever Anki may put there is no damage.
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


def parse(message: str, content: bytes, complaint: str) -> Any:
    """Decode `content` as `message`; InputError starting with `complaint` if it is not one."""
    from google.protobuf.message import DecodeError

    found = _classes()[message]()
    try:
        found.ParseFromString(content)
    except (DecodeError, MemoryError, ValueError, RecursionError) as error:
        raise InputError(f"{complaint}; export it again from Anki.") from error
    return found


@cache
def _classes() -> dict[str, type[Any]]:
    """Message classes built at run time in a pool of their own."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field_type = descriptor_pb2.FieldDescriptorProto
    # Of Anki's syntax, proto3, the wire is the same; here a field tells whether it is there.
    file = descriptor_pb2.FileDescriptorProto(
        name="srs_eval/anki.proto", package="srs_eval.anki", syntax="proto2"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in map(str.split, fields.split(", ")):
            repeated = field.endswith("*")
            added = message.field.add(name=field.rstrip("*"), number=int(number))
            added.label = field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
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
