"""Small Anki files made for tests, written from the format's description (no shared code)."""

from __future__ import annotations

import json
import sqlite3
import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import zstandard

# id, cid, ease, ivl, lastIvl, factor, time, type
Revlog = tuple[int, int, int, float, int, int, int, int]

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000
PARAMETERS = tuple(round(0.1 + 0.05 * index, 2) for index in range(21))

MODIFIED_S = 1_650_000_000


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | float | bytes | tuple[float, ...]) -> bytes:
    """Encode one protobuf field: varint, float32, bytes, or packed float32."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, tuple):
        value = struct.pack(f"<{len(value)}f", *value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def plain_history(cards: int = 6, first_card: int = 1_600_000_000_000) -> list[Revlog]:
    """Return a few cards: learned, learned again the same day, two reviews and a lapse."""
    entries: list[Revlog] = []
    for card in range(cards):
        cid = first_card + card
        at = START_MS + card * 1000
        entries += [
            (at, cid, 3, -600, 0, 0, 4000, 0),
            (at + 600_000, cid, 3, 1, -600, 0, 4000, 0),
            (at + 2 * DAY_MS, cid, 3, 4, 1, 2500, 4000, 1),
            (at + 6 * DAY_MS, cid, 1 + card % 2 * 2, 1, 4, 2300, 4000, 1),
        ]
    return sorted(entries)


def make_collection(
    path: Path,
    *,
    schema: int = 18,
    entries: Iterable[Revlog] = (),
    cards: Iterable[tuple[int, int, int, int, int]] | None = None,
    config: Mapping[str, Any] | None = None,
    wal: bool = False,
    preset: bytes | None = None,
    deck_kind: bytes | None = None,
    deck_name: str = "Parent\x1fChild",
    page_size: int = 4096,
) -> Path:
    """Write a collection; `cards` are (id, nid, did, odid, queue), by default those of `entries`.

    Deck 1 "Default" and deck 2 "Parent::Child" (preset 5), 3 "Parent", 4 filtered.
    """
    entries = list(entries)
    if cards is None:
        card_ids = {entry[1] for entry in entries}
        cards = [(cid, cid, 2, 0, 2) for cid in sorted(card_ids)]
    settings: dict[str, Any] = {
        "rollover": 4,
        "localOffset": 420,
        "creationOffset": 420,
        "schedVer": 2,
        "fsrs": True,
    }
    settings.update(config or {})
    settings = {key: value for key, value in settings.items() if value is not None}
    connection = sqlite3.connect(path, isolation_level=None)
    connection.create_collation("unicase", _compare_folded)
    connection.execute(f"pragma page_size={page_size}")
    if wal:
        connection.execute("pragma journal_mode=wal")
    connection.execute("begin")
    connection.execute(
        "create table col (id integer primary key, crt integer, mod integer, scm integer, "
        "ver integer, dty integer, usn integer, ls integer, conf text, models text, "
        "decks text, dconf text, tags text)"
    )
    connection.execute(
        "create table cards (id integer primary key, nid integer, did integer, ord integer, "
        "queue integer, odid integer, data text, type integer, due integer, odue integer, "
        "ivl integer, factor integer, lapses integer)"
    )
    connection.execute(
        "create table revlog (id integer primary key, cid integer, usn integer, ease integer, "
        "ivl integer, lastIvl integer, factor integer, time integer, type integer)"
    )
    conf = ""
    decks = ""
    dconf = ""
    presets: dict[int, dict[str, Any]] = {
        1: {"name": "Default"},
        5: {
            "name": "Own",
            "fsrsParams6": list(PARAMETERS),
            "fsrsWeights": list(PARAMETERS[:17]),
            "desiredRetention": 0.85,
            "ignoreRevlogsBeforeDate": "2020-02-29",
            "new": {"delays": [1.0, 10.0], "ints": [2, 5, 7], "initialFactor": 2300},
            "lapse": {"delays": [15.0], "mult": 0.25},
            "rev": {"maxIvl": 400, "ease4": 1.5, "hardFactor": 9, "ivlFct": 1.0},
            "mod": MODIFIED_S,
        },
    }
    if schema < 14:
        conf = json.dumps(settings)
        dconf = json.dumps({str(key): {"id": key, **value} for key, value in presets.items()})
    if schema < 15:
        decks = json.dumps(
            {
                "1": {"id": 1, "name": "Default", "dyn": 0, "conf": 1},
                "2": {
                    "id": "2",
                    "name": deck_name.replace("\x1f", "::"),
                    "dyn": 0,
                    "conf": "5",
                    "desiredRetention": 95,
                },
                "3": {"id": 3, "name": "Parent", "dyn": 0, "conf": 1},
                "4": {"id": 4, "name": "Filtered", "dyn": 1},
            }
        )
    connection.execute(
        "insert into col values (1, ?, 0, 0, ?, 0, 0, 0, ?, '', ?, ?, '')",
        (START_MS // 1000 - 7 * 3600, schema, conf, decks, dconf),
    )
    if schema >= 14:
        connection.execute(
            "create table config (KEY text not null primary key, usn integer, "
            "mtime_secs integer, val blob) without rowid"
        )
        connection.executemany(
            "insert into config values (?, 0, 0, ?)",
            [(key, json.dumps(value).encode()) for key, value in settings.items()],
        )
        connection.execute(
            "create table deck_config (id integer primary key, name text collate unicase, "
            "mtime_secs integer, usn integer, config blob)"
        )
        own_preset = preset
        if own_preset is None:
            own_preset = (
                field(1, (1.0, 10.0))
                + field(2, (15.0,))
                + field(3, PARAMETERS[:17])
                + field(6, PARAMETERS)
                + field(11, 2.3)
                + field(12, 1.5)
                + field(13, 9.0)  # impossible: Anki's default
                + field(14, 0.25)
                + field(15, 1.0)
                + field(16, 400)
                + field(18, 2)
                + field(19, 5)
                + field(37, 0.85)
                + field(46, b"2020-02-29")
            )
        stored = (
            [(key, json.dumps(value).encode()) for key, value in presets.items()]
            if schema == 14
            else [(1, b""), (5, own_preset)]
        )
        connection.executemany(
            "insert into deck_config values (?, ?, ?, 0, ?)",
            [
                (key, presets[key]["name"], presets[key].get("mod", 0), content)
                for key, content in stored
            ],
        )
    if schema >= 15:
        connection.execute(
            "create table decks (id integer primary key, name text collate unicase, "
            "mtime_secs integer, usn integer, common blob, kind blob)"
        )
        connection.execute("create unique index idx_decks_name on decks (name)")
        child = deck_kind
        if child is None:
            child = field(1, field(1, 5) + field(10, 0.95))
        connection.executemany(
            "insert into decks values (?, ?, 0, 0, x'', ?)",
            [
                (1, "Default", field(1, field(1, 1))),
                (2, deck_name, child),
                (3, "Parent", field(1, field(1, 1))),
                (4, "Filtered", field(2, field(1, 1))),
            ],
        )
    connection.executemany(
        "insert into cards values (?, ?, ?, 0, ?, ?, '', 0, 0, 0, 0, 0, 0)",
        [(card, note, deck, queue, original) for card, note, deck, original, queue in cards],
    )
    connection.executemany(
        "insert into revlog values (?, ?, 0, ?, ?, ?, ?, ?, ?)",
        [
            (at, cid, ease, ivl, last, f, t, kind)
            for at, cid, ease, ivl, last, f, t, kind in entries
        ],
    )
    connection.execute("commit")
    connection.close()
    return path


def _compare_folded(first: str, second: str) -> int:
    """Return -1, 0 or 1, as SQLite asks of a collation."""
    a = first.casefold()
    b = second.casefold()
    if a == b:
        return 0
    return 1 if a > b else -1


def make_package(path: Path, collection: bytes, version: int | None = 3, **members: bytes) -> Path:
    """Write a package with the database packed as its version asks, and a placeholder."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if version is not None:
            archive.writestr("meta", field(1, version))
        if version == 3:
            packed = zstandard.ZstdCompressor(write_content_size=False).compress(collection)
            archive.writestr("collection.anki21b", packed, zipfile.ZIP_STORED)
        else:
            name = "collection.anki21" if version == 2 else "collection.anki2"
            archive.writestr(name, collection)
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def make_revlog(entries: Iterable[Revlog], next_day_at: int) -> bytes:
    """Encode a research export with one deck (preset 5) and the cards of `entries`."""
    entries = sorted(entries, key=lambda entry: (entry[1], entry[0]))
    messages = [
        field(
            1,
            field(1, at)
            + field(2, cid)
            + field(4, ease)
            + field(5, int(ivl))
            + field(6, last)
            + field(7, factor)
            + field(8, duration)
            + field(9, kind),
        )
        for at, cid, ease, ivl, last, factor, duration, kind in entries
    ]
    card_ids = {entry[1] for entry in entries}
    messages += [field(2, field(1, cid) + field(2, cid) + field(3, 2)) for cid in sorted(card_ids)]
    messages.append(field(3, field(1, 2) + field(3, 5)))
    return b"".join(messages) + field(4, next_day_at)


def folder_state(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return content, time of change and mode of every file below a folder."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes(),
            path.stat().st_mtime_ns,
            path.stat().st_mode,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
