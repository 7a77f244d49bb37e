"""The few protobuf messages that are read, with the fields that matter.

Field numbers: ankitects/anki proto/anki/{deck_config,decks,stats,import_export}.proto.
Text is declared as bytes (the wire is the same), so that bad UTF-8 in a name is no error.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from srs_eval.data.errors import InputError

_Field = tuple[str, int, str]  # name, number, type; "name?" optional, "name*" repeated

_MESSAGES: dict[str, list[_Field]] = {
    "PackageMetadata": [("version", 1, "int32")],
    "DeckConfig": [
        ("learn_steps*", 1, "float"),
        ("relearn_steps*", 2, "float"),
        ("fsrs_params_4*", 3, "float"),
        ("fsrs_params_5*", 5, "float"),
        ("fsrs_params_6*", 6, "float"),
        ("new_per_day", 9, "uint32"),
        ("reviews_per_day", 10, "uint32"),
        ("initial_ease", 11, "float"),
        ("easy_multiplier", 12, "float"),
        ("hard_multiplier", 13, "float"),
        ("lapse_multiplier", 14, "float"),
        ("interval_multiplier", 15, "float"),
        ("maximum_review_interval", 16, "uint32"),
        ("graduating_interval_good", 18, "uint32"),
        ("graduating_interval_easy", 19, "uint32"),
        ("review_order", 33, "int32"),
        ("desired_retention", 37, "float"),
        ("historical_retention", 40, "float"),
        ("param_search", 45, "bytes"),
        ("ignore_revlogs_before_date", 46, "bytes"),
        ("other", 255, "bytes"),
    ],
    "NormalDeck": [("config_id", 1, "int64"), ("desired_retention?", 10, "float")],
    "FilteredDeck": [("reschedule", 1, "bool")],
    "DeckKind": [("normal?", 1, "NormalDeck"), ("filtered?", 2, "FilteredDeck")],
    "RevlogEntry": [
        ("id", 1, "int64"),
        ("cid", 2, "int64"),
        ("button_chosen", 4, "uint32"),
        ("ease_factor", 7, "uint32"),
        ("taken_millis", 8, "uint32"),
        ("review_kind", 9, "int32"),
    ],
    "CardEntry": [("id", 1, "int64"), ("note_id", 2, "int64"), ("deck_id", 3, "int64")],
    "DeckEntry": [("id", 1, "int64"), ("parent_id", 2, "int64"), ("preset_id", 3, "int64")],
    "Dataset": [
        ("revlogs*", 1, "RevlogEntry"),
        ("cards*", 2, "CardEntry"),
        ("decks*", 3, "DeckEntry"),
        ("next_day_at", 4, "int64"),
    ],
}


def parse(message: str, content: bytes, complaint: str) -> Any:
    """Decode `content` as `message`; InputError starting with `complaint` if it is not one."""
    from google.protobuf.message import DecodeError

    found = _classes()[message]()
    try:
        found.ParseFromString(content)
    except (DecodeError, MemoryError, ValueError, RecursionError) as error:
        raise InputError(f"{complaint}; export it again from Anki.") from error
    return found


def count_fields(content: bytes, limit: int) -> int:
    """Number of top-level fields in a message, found without decoding them.

    Stops after `limit` or at the first thing that is not wire format (left to `parse`).
    """
    place = count = 0
    try:
        while place < len(content) and count <= limit:
            tag, place = _varint(content, place)
            kind = tag & 7
            if kind == 0:
                _, place = _varint(content, place)
            elif kind == 2:
                length, place = _varint(content, place)
                place += length
            elif kind in (1, 5):
                place += 8 if kind == 1 else 4
            else:
                break
            count += 1
    except IndexError:
        pass
    return count


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """The number at `place` and the place after it; IndexError at the end."""
    value = content[place]
    place += 1
    if value < 0x80:
        return value, place
    value &= 0x7F
    shift = 7
    while True:
        part = content[place]
        place += 1
        value |= (part & 0x7F) << shift
        if part < 0x80 or shift > 63:
            return value, place
        shift += 7


@cache
def _classes() -> dict[str, type[Any]]:
    """Message classes built at run time in a pool of their own."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="srs_eval/anki.proto", package="srs_eval.anki", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field.rstrip("*?"), number=number)
            added.label = (
                field_type.LABEL_REPEATED if field.endswith("*") else field_type.LABEL_OPTIONAL
            )
            if kind in _MESSAGES:
                added.type = field_type.TYPE_MESSAGE
                added.type_name = f".srs_eval.anki.{kind}"
            else:
                added.type = getattr(field_type, f"TYPE_{kind.upper()}")
                if field.endswith("?"):  # presence of a proto3 scalar: a oneof of its own
                    added.proto3_optional = True
                    added.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{added.name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"srs_eval.anki.{name}"))
        for name in _MESSAGES
    }
