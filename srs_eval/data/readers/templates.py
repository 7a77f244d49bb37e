"""Read which card template made each card of a collection.

Layout: ankitects/anki rslib/src/storage/notetype/ (tables `notetypes` and `templates` from schema
15 on), JSON in `col.models` before. Of notes only the number of their note type is read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import numpy as np

from srs_eval.data.errors import InputError, printable
from srs_eval.data.readers.settings import (
    integer_sql,
    iterate_objects,
    parse_integer,
    parse_json_object,
    to_text,
)
from srs_eval.data.reviews import CardTemplates

_MAX_NAME_LENGTH = 100
_TEMPLATE_TABLES_SCHEMA = 15  # first schema with tables of note types and templates
_Key = tuple[int, int]  # number of the note type, and the template's position in it


def read_templates(
    connection: sqlite3.Connection, schema: int, columns: Mapping[str, set[str]]
) -> CardTemplates | None:
    """Read the cards' templates; None if the collection lacks them, or if they cannot be read.

    `columns` are those of each table; nothing is read from a table that is not listed.
    """
    if not {"id", "mid"} <= columns["notes"] or "ord" not in columns["cards"]:
        return None
    if schema >= _TEMPLATE_TABLES_SCHEMA:
        names = _read_from_tables(connection, columns)
    else:
        names = _read_from_json(connection, columns)
    if not names:
        return None
    wanted = ", ".join(map(integer_sql, ("cards.id", "notes.mid", "cards.ord")))
    rows = connection.execute(
        f"select {wanted} from cards join notes on notes.id = cards.nid order by cards.id"
    )
    number_by_key = {key: number for number, key in enumerate(names)}
    card_id = []
    template = []
    for card, note_type, position in rows:
        number = number_by_key.get((note_type, position))
        if number is None:  # all cards of a cloze note have the note type's only template
            number = number_by_key.get((note_type, 0))
        if number is not None:
            card_id.append(card)
            template.append(number)
    return CardTemplates(
        np.array(card_id, np.int64), np.array(template, np.int64), tuple(names.values())
    )


def _read_from_tables(
    connection: sqlite3.Connection, columns: Mapping[str, set[str]]
) -> dict[_Key, str]:
    if not {"id", "name"} <= columns["notetypes"]:
        return {}
    if not {"ntid", "ord", "name"} <= columns["templates"]:
        return {}
    rows = connection.execute(f"select {integer_sql('id')}, name from notetypes")
    note_types = {key: to_text(name) for key, name in rows}
    templates: dict[int, dict[int, str]] = {}
    wanted = ", ".join(map(integer_sql, ("ntid", "ord")))
    rows = connection.execute(f"select {wanted}, name from templates order by ntid, ord")
    for note_type, position, name in rows:
        templates.setdefault(note_type, {})[position] = to_text(name)
    return _name_templates(note_types, templates)


def _read_from_json(
    connection: sqlite3.Connection, columns: Mapping[str, set[str]]
) -> dict[_Key, str]:
    if "models" not in columns["col"]:
        return {}
    (content,) = connection.execute("select models from col limit 1").fetchone()
    try:
        stored = parse_json_object(content, "")
    except InputError:  # without templates, nothing but one question has less to say
        return {}
    note_types = {}
    templates: dict[int, dict[int, str]] = {}
    for note_type, model in iterate_objects(stored):
        note_types[note_type] = to_text(model.get("name"))
        of_model = model.get("tmpls")
        for place, template in enumerate(of_model if isinstance(of_model, list) else []):
            if isinstance(template, dict):
                position = parse_integer(template.get("ord"))
                position = place if position is None else position
                templates.setdefault(note_type, {})[position] = to_text(template.get("name"))
    return _name_templates(note_types, templates)


def _name_templates(
    note_types: Mapping[int, str], templates: Mapping[int, Mapping[int, str]]
) -> dict[_Key, str]:
    """Name each template by its note type, and by its own name if the note type has several."""
    names = {}
    for note_type, note_type_name in note_types.items():
        by_position = templates.get(note_type, {})
        for position, name in by_position.items():
            full_name = note_type_name
            if len(by_position) > 1:
                full_name = f"{full_name}: {name}"
            names[note_type, position] = printable(full_name, _MAX_NAME_LENGTH)
    return names
