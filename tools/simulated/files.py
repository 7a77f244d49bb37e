"""Simulated learners as files: an Anki collection, and the layout of anki-revlogs-10k.

The collection has schema 11, the one that every version of Anki reads: settings, note types,
decks and presets are JSON in the table `col` (ankitects/anki: rslib/src/storage/schema11.sql,
rslib/src/decks/schema11.rs, rslib/src/deckconfig/schema11.rs).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.data.datasets import write_user
from srs_eval.data.reviews import Deck, Preset
from tools.simulated.character import (
    CREATED_MS,
    FILTERED_DECK,
    FIRST_DAY_S,
    NEW_A_DAY,
    REVIEWS_A_DAY,
    ROLLOVER_HOUR,
    SM2_SETTINGS,
    UTC_OFFSET_HOURS,
)
from tools.simulated.learner import SimulatedLearner

_TABLES = """
create table col (
  id integer primary key, crt integer not null, mod integer not null, scm integer not null,
  ver integer not null, dty integer not null, usn integer not null, ls integer not null,
  conf text not null, models text not null, decks text not null, dconf text not null,
  tags text not null
);
create table notes (
  id integer primary key, guid text not null, mid integer not null, mod integer not null,
  usn integer not null, tags text not null, flds text not null, sfld integer not null,
  csum integer not null, flags integer not null, data text not null
);
create table cards (
  id integer primary key, nid integer not null, did integer not null, ord integer not null,
  mod integer not null, usn integer not null, type integer not null, queue integer not null,
  due integer not null, ivl integer not null, factor integer not null, reps integer not null,
  lapses integer not null, left integer not null, odue integer not null, odid integer not null,
  flags integer not null, data text not null
);
create table revlog (
  id integer primary key, cid integer not null, usn integer not null, ease integer not null,
  ivl integer not null, lastIvl integer not null, factor integer not null, time integer not null,
  type integer not null
);
create table graves (usn integer not null, oid integer not null, type integer not null);
"""
_INDEXES = """
create index ix_notes_usn on notes (usn);
create index ix_cards_usn on cards (usn);
create index ix_revlog_usn on revlog (usn);
create index ix_cards_nid on cards (nid);
create index ix_cards_sched on cards (did, queue, due);
create index ix_revlog_cid on revlog (cid);
create index ix_notes_csum on notes (csum);
"""

# Ids of note types.
_ONE_CARD = CREATED_MS + 101
_TWO_CARDS = CREATED_MS + 102
_UNSYNCED = -1


def write_collection(learner: SimulatedLearner, path: Path) -> None:
    """Write the learner as a new `.anki2` file that Anki can open.

    Raises FileExistsError if the file exists; it is never overwritten.
    """
    if path.exists():
        raise FileExistsError(f"{path} exists already")
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(_TABLES)
        _insert(database, "notes", _make_note_rows(learner))
        _insert(database, "cards", _make_card_rows(learner))
        entries = learner.entries
        _insert(
            database,
            "revlog",
            _zip_columns(
                [
                    entries.time_ms,
                    entries.card_id,
                    np.full(len(entries), _UNSYNCED),
                    entries.rating,
                    learner.interval,
                    learner.last_interval,
                    entries.factor,
                    entries.duration_ms,
                    entries.kind,
                ]
            ),
        )
        _insert(database, "graves", _make_grave_rows(learner))
        _insert(database, "col", [_make_collection_row(learner)])
        database.executescript(_INDEXES)


def _insert(database: sqlite3.Connection, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    rows = list(rows)
    if rows:
        placeholders = ",".join("?" * len(rows[0]))
        database.executemany(f"insert into {table} values ({placeholders})", rows)


def _zip_columns(columns: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _make_note_rows(learner: SimulatedLearner) -> Iterable[tuple[Any, ...]]:
    cards = learner.cards
    present = ~cards.deleted
    both = set(cards.note_id[present & (cards.ordinal == 1)].tolist())
    for number, note in enumerate(np.unique(cards.note_id[present]).tolist(), 1):
        front = f"Term {number:04}"
        checksum = int(hashlib.sha1(front.encode()).hexdigest()[:8], 16)
        fields = f"{front}\x1fMeaning {number:04}"
        yield (
            note, f"sim{learner.seed:x}-{number:04x}", _TWO_CARDS if note in both else _ONE_CARD,
            note // 1000, _UNSYNCED, "", fields, front, checksum, 0, "",
        )  # fmt: skip


def _make_card_rows(learner: SimulatedLearner) -> Iterable[tuple[Any, ...]]:
    """Return the rows of `cards`; cards in a filtered deck keep their own deck in `odid`."""
    cards = learner.cards
    presets = learner.presets
    decks = learner.decks
    position = 0
    for at in np.flatnonzero(~cards.deleted).tolist():
        phase = int(cards.phase[at])
        deck = decks[int(cards.deck_id[at])]
        preset = presets[deck.preset_id or 1]
        data: dict[str, Any] = {}
        steps_left = 0
        if phase == 0:
            position += 1
            due = position
            data["pos"] = position
        elif phase == 2:
            due = int(cards.due_day[at])
        else:
            due = int(cards.due_s[at])
            steps = preset.learning_steps if phase == 1 else preset.relearning_steps
            steps_left = len(steps) - int(cards.step[at])
        if not np.isnan(cards.stability[at]):
            data["s"] = round(float(cards.stability[at]), 4)
            data["d"] = round(float(cards.difficulty[at]), 3)
            data["dr"] = deck.desired_retention or preset.desired_retention
            data["decay"] = round((preset.active_parameters or (0.1542,))[-1], 3)
            data["lrt"] = int(cards.last_review_s[at])
        queue = -1 if cards.suspended[at] else (0, 1, 2, 1)[phase]
        home = 0
        now_in = deck.id
        home_due = 0
        if cards.filtered[at]:
            home = deck.id
            now_in = FILTERED_DECK
            home_due = due
            due = at - 100_000
        yield (
            int(cards.card_id[at]), int(cards.note_id[at]), now_in, int(cards.ordinal[at]),
            int(cards.last_review_s[at]) or int(cards.card_id[at]) // 1000, _UNSYNCED, phase, queue,
            due, int(cards.interval[at]), 0 if phase == 0 else int(cards.ease[at]),
            int(cards.reps[at]), int(cards.lapses[at]), steps_left, home_due, home, 0,
            json.dumps(data),
        )  # fmt: skip


def _make_grave_rows(learner: SimulatedLearner) -> Iterable[tuple[int, int, int]]:
    cards = learner.cards
    for kind, column in enumerate((cards.card_id, cards.note_id)):
        for gone in np.unique(column[cards.deleted]).tolist():
            yield (_UNSYNCED, gone, kind)


def _make_collection_row(learner: SimulatedLearner) -> tuple[Any, ...]:
    """Return the only row of the table `col`."""
    modified_ms = int(learner.entries.time_ms[-1]) + 1000
    west = -60 * UTC_OFFSET_HOURS  # minutes, as Anki stores it
    settings = {
        "activeDecks": [1], "addToCur": True, "collapseTime": 1200, "creationOffset": west,
        "curDeck": 1, "curModel": _ONE_CARD, "dayLearnFirst": False, "dueCounts": True,
        "estTimes": True, "fsrs": learner.scheduler == "fsrs", "localOffset": west,
        "newSpread": 0, "nextPos": len(learner.cards) + 1, "rollover": ROLLOVER_HOUR,
        "sched2021": True, "schedVer": 2, "sortBackwards": False, "sortType": "noteFld",
        "timeLim": 0,
    }  # fmt: skip
    models = {str(model["id"]): model for model in _make_note_types()}
    decks = {
        str(deck.id): _encode_deck(deck, modified_ms // 1000) for deck in learner.decks.values()
    }
    presets = {str(preset.id): _encode_preset(preset) for preset in learner.presets.values()}
    texts = (json.dumps(content) for content in (settings, models, decks, presets, {}))
    return (1, FIRST_DAY_S, modified_ms, CREATED_MS, 11, 0, 0, 0, *texts)


def _make_note_types() -> Iterable[dict[str, Any]]:
    for identity, name, sides in (
        (_ONE_CARD, "Simulated term", 1),
        (_TWO_CARDS, "Simulated term, both ways", 2),
    ):
        fields = [
            {"name": field, "ord": ordinal, "sticky": False, "rtl": False, "font": "Arial",
             "size": 20, "media": []}
            for ordinal, field in enumerate(("Term", "Meaning"))
        ]  # fmt: skip
        templates = [
            {"name": f"Card {ordinal + 1}", "ord": ordinal, "qfmt": f"{{{{{question}}}}}",
             "afmt": f"{{{{FrontSide}}}}<hr id=answer>{{{{{answer}}}}}", "bqfmt": "", "bafmt": "",
             "did": None}
            for ordinal, (question, answer) in enumerate((("Term", "Meaning"), ("Meaning", "Term")))
        ]  # fmt: skip
        yield {
            "id": identity, "name": name, "type": 0, "mod": 0, "usn": 0, "sortf": 0, "did": None,
            "tmpls": templates[:sides], "flds": fields, "css": "", "latexPre": "",
            "latexPost": "", "tags": [], "vers": [],
            "req": [[ordinal, "any", [ordinal]] for ordinal in range(sides)],
        }  # fmt: skip


def _encode_deck(deck: Deck, modified_s: int) -> dict[str, Any]:
    nothing = [0, 0]
    common = {
        "id": deck.id, "name": deck.name, "mod": modified_s, "usn": _UNSYNCED, "desc": "",
        "lrnToday": nothing, "revToday": nothing, "newToday": nothing, "timeToday": nothing,
        "collapsed": False, "browserCollapsed": False,
    }  # fmt: skip
    if deck.filtered:
        return common | {
            "dyn": 1, "resched": True, "terms": [["is:review", 100, 1]], "separate": True,
            "delays": None, "previewDelay": 10,
        }  # fmt: skip
    retention = deck.desired_retention
    return common | {
        "dyn": 0, "conf": deck.preset_id, "extendNew": 0, "extendRev": 0,
        "desiredRetention": None if retention is None else round(100 * retention),
    }  # fmt: skip


def _encode_preset(preset: Preset) -> dict[str, Any]:
    stored = preset.fsrs_parameters
    graduating, easy, ease, bonus, hard, lapse, factor = preset.sm2_settings or SM2_SETTINGS
    return {
        "id": preset.id, "name": preset.name, "mod": preset.modified_s or FIRST_DAY_S,
        "usn": _UNSYNCED, "dyn": False,
        "maxTaken": 60, "autoplay": True, "timer": 0, "replayq": True,
        "new": {"delays": list(preset.learning_steps), "ints": [round(graduating), round(easy), 0],
                "initialFactor": round(1000 * ease), "order": 1, "bury": False,
                "perDay": preset.new_a_day or NEW_A_DAY},
        "rev": {"perDay": preset.reviews_a_day or REVIEWS_A_DAY, "ease4": bonus, "ivlFct": factor,
                "hardFactor": hard, "bury": False, "maxIvl": preset.maximum_interval},
        "lapse": {"delays": list(preset.relearning_steps), "mult": lapse, "minInt": 1,
                  "leechFails": 8, "leechAction": 0},
        "desiredRetention": preset.desired_retention, "sm2Retention": preset.historical_retention,
        "ignoreRevlogsBeforeDate": preset.ignore_before or "", "weightSearch": "",
        "fsrsWeights": list(stored.get(4, ())), "fsrsParams5": list(stored.get(5, ())),
        "fsrsParams6": list(stored.get(6, ())),
    }  # fmt: skip


def write_dataset(learners: Mapping[int, SimulatedLearner], folder: Path) -> None:
    """Write learners, by user id, in the layout of anki-revlogs-10k."""
    for user, learner in learners.items():
        write_user(folder, user, learner.log())
