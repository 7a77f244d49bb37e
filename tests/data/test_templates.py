"""Check which card templates are read from collections."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srs_eval.anki_import import load_log
from srs_eval.data.reviews import ReviewLog
from tests.conftest import shared_or_skip
from tests.helpers.anki_files import make_collection, plain_history

BASIC, BOTH_WAYS, CLOZE = 70, 71, 72  # note types
NOTE_TYPES = {BASIC: "Basic", BOTH_WAYS: "Both ways", CLOZE: "Cloze"}
TEMPLATES = [
    (BASIC, 0, "Card 1"),
    (BOTH_WAYS, 0, "Forwards"),
    (BOTH_WAYS, 1, "Backwards"),
    (CLOZE, 0, "Cloze"),
]
CARDS = [(BASIC, 0), (BOTH_WAYS, 0), (BOTH_WAYS, 1), (CLOZE, 0), (CLOZE, 4), (99, 0)]
NAMES = ["Basic", "Both ways: Forwards", "Both ways: Backwards", "Cloze", "Cloze"]


def make_file(path: Path, schema: int) -> Path:
    """Write six cards of three note types, and of one that is missing."""
    make_collection(path, schema=schema, entries=plain_history(cards=len(CARDS)))
    connection = sqlite3.connect(path)
    connection.execute("create table if not exists notes (id integer primary key, mid integer)")
    if "ord" not in {row[1] for row in connection.execute("pragma table_info(cards)")}:
        connection.execute("alter table cards add column ord integer")
    cards = [row[0] for row in connection.execute("select id from cards order by id")]
    for number, (card, (note_type, position)) in enumerate(zip(cards, CARDS, strict=True)):
        note = 1_000 + number
        connection.execute("insert into notes (id, mid) values (?, ?)", (note, note_type))
        connection.execute("update cards set nid = ?, ord = ? where id = ?", (note, position, card))
    if schema < 15:
        models: dict[int, Any] = {
            key: {"name": name, "tmpls": []} for key, name in NOTE_TYPES.items()
        }
        for note_type, position, name in TEMPLATES:
            models[note_type]["tmpls"].append({"name": name, "ord": position})
        connection.execute("update col set models = ?", (json.dumps(models),))
    else:
        connection.execute("create table notetypes (id integer, name text)")
        connection.execute("create table templates (ntid integer, ord integer, name text)")
        connection.executemany("insert into notetypes values (?, ?)", NOTE_TYPES.items())
        connection.executemany("insert into templates values (?, ?, ?)", TEMPLATES)
    connection.commit()
    connection.close()
    return path


def list_names(log: ReviewLog) -> list[str]:
    assert log.templates is not None
    return [log.templates.names[number] for number in log.templates.template.tolist()]


@pytest.mark.parametrize("schema", [11, 14, 15, 18])
def test_templates_are_named_by_note_type(tmp_path: Path, schema: int) -> None:
    log = load_log(make_file(tmp_path / "collection.anki2", schema))
    assert list_names(log) == NAMES  # the last card's note type is missing
    assert log.templates is not None
    assert np.array_equal(log.templates.card_id, log.cards.card_id[: len(NAMES)])


@pytest.mark.parametrize(
    "damage",
    [
        "drop table notes",
        "update col set models = 'no object'",
        "alter table cards drop column ord",
    ],
)
def test_file_without_templates_is_read(tmp_path: Path, damage: str) -> None:
    path = make_file(tmp_path / "collection.anki2", 11)
    connection = sqlite3.connect(path)
    connection.execute(damage)
    connection.commit()
    connection.close()
    assert load_log(path).templates is None


def test_templates_of_ankis_own_files_are_read() -> None:
    fixtures = shared_or_skip("anki", "fixtures")
    for name in ("collection.anki2", "collection-schema11.anki2", "collection.colpkg"):
        log = load_log(fixtures / name)
        counts = {name: list_names(log).count(name) for name in set(list_names(log))}
        assert counts == {
            "Basic": 1_081,
            "Basic (and reversed card): Card 1": 50,
            "Basic (and reversed card): Card 2": 50,
        }
