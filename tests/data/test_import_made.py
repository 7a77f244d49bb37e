"""The importer on small made files: layouts, live writers, hostile content, tables."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from srs_eval.anki_import import find_profiles, load_log
from srs_eval.data.days import DAY_S, StoredClock, compute_day_grid
from srs_eval.data.errors import InputError
from srs_eval.data.readers import collection, files, package
from srs_eval.data.reviews import LEARNING, MISSING, RELEARNING, REVIEW
from srs_eval.data.rows import select_rows
from srs_eval.models.own_parameters import find_fault
from srs_eval.report.console import render_inspection
from srs_eval.report.export import to_json
from srs_eval.report.inspection import inspect_log
from tests.conftest import PATIENCE
from tests.helpers.anki_files import (
    DAY_MS,
    MODIFIED_S,
    PARAMETERS,
    START_MS,
    field,
    folder_state,
    make_collection,
    make_package,
    make_revlog,
    plain_history,
)

HISTORY = plain_history()


@pytest.fixture(autouse=True)
def no_litter(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """Check that no private file is left in the temporary folder."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


# Layouts


@pytest.mark.parametrize("schema", [11, 18])
@pytest.mark.parametrize(("stored", "days"), [(0, 1), (40, 41), ("soon", None), (-1, None)])
def test_last_day_of_optimizing_all_presets_is_read(
    schema: int, stored: object, days: int | None, tmp_path: Path
) -> None:
    path = make_collection(
        tmp_path / "collection.anki2",
        schema=schema,
        entries=HISTORY,
        config={"lastFsrsOptimize": stored},
    )
    created = START_MS // 1000 - 7 * 3600
    expected = None if days is None else created + days * DAY_S
    assert load_log(path).optimized_before_s == expected


@pytest.mark.parametrize("schema", [11, 14, 15, 16, 17, 18])
def test_every_schema_reads_alike(schema: int, tmp_path: Path) -> None:
    path = make_collection(tmp_path / "collection.anki2", schema=schema, entries=HISTORY)
    before = folder_state(tmp_path)
    log = load_log(path)
    assert folder_state(tmp_path) == before
    assert f"schema {schema}" in log.import_summary.format
    assert log.import_summary.fsrs_enabled is True
    assert log.entries is not None
    assert log.entries.time_ms.tolist() == [entry[0] for entry in HISTORY]
    assert log.entries.kind.tolist() == [entry[7] for entry in HISTORY]
    deck = log.decks[2]
    assert (deck.name, deck.preset_id, deck.parent_id) == ("Parent::Child", 5, 3)
    assert deck.desired_retention == 0.95
    assert log.decks[3].desired_retention is None
    assert log.decks[4].filtered
    assert log.decks[4].preset_id is None
    preset = log.presets[5]
    assert preset.name == "Own"
    assert preset.active_parameters == PARAMETERS
    assert preset.fsrs_parameters[4] == PARAMETERS[:17]
    assert preset.desired_retention == 0.85
    assert preset.historical_retention == 0.9
    assert preset.ignore_before == "2020-02-29"
    assert preset.learning_steps == (1.0, 10.0)
    assert preset.relearning_steps == (15.0,)
    assert preset.maximum_interval == 400
    assert preset.sm2_settings == (2, 5, 2.3, 1.5, 1.2, 0.25, 1)
    assert preset.modified_s == MODIFIED_S
    assert log.presets[1].modified_s is None
    assert log.optimized_before_s is None
    assert log.presets[1].active_parameters == ()
    assert log.day_grid is not None
    assert (log.day_grid.next_day_at_s - 11 * 3600) % DAY_S == 0
    assert len(select_rows(log).rows) == len(HISTORY)


UNUSABLE: dict[str, list[Any]] = {
    "20 FSRS parameters": [0.5] * 20,
    "more than 1,000 FSRS parameters": [0.5] * 1050,
    "FSRS parameters (not all are finite numbers)": [math.nan, *PARAMETERS[1:]],
    " FSRS parameters (not all are finite numbers)": [*PARAMETERS[:20], math.inf],
}


@pytest.mark.parametrize("schema", [11, 14, 15, 18])
@pytest.mark.parametrize(("fault", "stored"), UNUSABLE.items())
def test_unusable_parameters_are_kept_and_not_replaced(
    schema: int, fault: str, stored: list[float], tmp_path: Path
) -> None:
    path = write_with_parameters(tmp_path / "collection.anki2", schema, stored)
    packages = [path]
    for version, name in ((1, "deck.apkg"), (3, "collection.colpkg")):
        packages.append(make_package(tmp_path / name, path.read_bytes(), version))
    for source in packages:
        preset = load_log(source).presets[5]
        assert fault.strip() in find_fault(preset.active_parameters), source.name
        assert preset.fsrs_parameters[4] == PARAMETERS[:17]


@pytest.mark.parametrize("schema", [11, 14])
@pytest.mark.parametrize("stored", ["many", [*map(str, PARAMETERS)], 7, {}, [None] * 21])
def test_parameters_that_are_no_numbers_are_kept_as_unusable(
    schema: int, stored: Any, tmp_path: Path
) -> None:
    log = load_log(write_with_parameters(tmp_path / "collection.anki2", schema, stored))
    assert "not all are finite numbers" in find_fault(log.presets[5].active_parameters)


@pytest.mark.parametrize("stored", [None, []])
def test_nothing_stored_leaves_older_parameters_in_force(stored: Any, tmp_path: Path) -> None:
    log = load_log(write_with_parameters(tmp_path / "collection.anki2", 11, stored))
    assert log.presets[5].active_parameters == PARAMETERS[:17]


def write_with_parameters(path: Path, schema: int, stored: Any) -> Path:
    """Write a collection with `stored` in place of FSRS-6's list, and a list of FSRS-4.5."""
    message = None
    if schema >= 15:
        message = field(3, PARAMETERS[:17]) + field(6, tuple(map(float, stored)))
    make_collection(path, schema=schema, entries=HISTORY, preset=message)
    if schema < 15:
        preset = {"name": "Own", "fsrsWeights": PARAMETERS[:17], "fsrsParams6": stored}
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.create_collation("unicase", lambda a, b: (a > b) - (a < b))
            if schema == 11:
                content = json.dumps({"5": preset})
                connection.execute("update col set dconf = ?", (content,))
            else:
                content = json.dumps(preset)
                connection.execute("update deck_config set config = ? where id = 5", (content,))
    return path


@pytest.mark.parametrize(
    ("version", "with_meta"), [(1, True), (1, False), (2, True), (2, False), (3, True)]
)
def test_package_of_any_version_equals_its_collection(
    version: int, with_meta: bool, tmp_path: Path
) -> None:
    inner = make_collection(tmp_path / "inner", schema=11 if version < 3 else 18, entries=HISTORY)
    empty = make_collection(tmp_path / "empty", schema=11).read_bytes()
    placeholder = {} if version == 1 else {"collection.anki2": empty}
    path = tmp_path / "renamed.txt"  # content decides, not the name
    make_package(path, inner.read_bytes(), version, media=b"{}", **placeholder)
    if not with_meta:
        with zipfile.ZipFile(path) as archive:
            contents = {name: archive.read(name) for name in archive.namelist() if name != "meta"}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in contents.items():
                archive.writestr(name, content)
    log = load_log(path)
    assert log.import_summary.entries_read == len(HISTORY)
    assert f"version {version}" in log.import_summary.format
    direct = load_log(inner)
    assert log.fingerprint() == direct.fingerprint()


def test_extracted_anki21b_is_read_and_damaged_ones_refused(tmp_path: Path) -> None:
    inner = make_collection(tmp_path / "inner", entries=HISTORY)
    packed = zstandard.ZstdCompressor().compress(inner.read_bytes())
    (tmp_path / "collection.anki21b").write_bytes(packed)
    assert load_log(tmp_path / "collection.anki21b").import_summary.entries_read == len(HISTORY)
    (tmp_path / "cut").write_bytes(packed[:-4])
    (tmp_path / "longer").write_bytes(packed + b"\0")
    for name in ("cut", "longer"):
        with pytest.raises(InputError, match=name):
            load_log(tmp_path / name)


def test_research_export_is_read_and_swollen_ones_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.bin").write_bytes(make_revlog(HISTORY, 1_700_740_800))
    log = load_log(tmp_path / "a.bin")
    assert log.entries is not None
    assert log.entries.time_ms.tolist() == [entry[0] for entry in HISTORY]
    assert log.day_grid is not None
    assert log.day_grid.next_day_at_s == 1_700_740_800
    assert log.decks[2].preset_id == 5
    moved = load_log(tmp_path / "a.bin", timezone="UTC+9", rollover=0)
    assert moved.day_grid is not None
    assert moved.day_grid.next_day_at_s % DAY_S == 15 * 3600
    monkeypatch.setattr(package, "parse_message", None)
    short = field(1, b"") * 300_000 + field(4, 1_700_740_800)  # swells a hundredfold if decoded
    for start in (b"", field(7, 1 << 63), b"\x0b\x0c", b"\x09" + bytes(8), b"\x0d" + bytes(4)):
        (tmp_path / "swell").write_bytes(start + short)
        with pytest.raises(InputError, match="swell"):
            load_log(tmp_path / "swell")


def overwrite_page_with(path: Path, words: bytes) -> None:
    """Write noise over the page that contains `words`."""
    content = bytearray(path.read_bytes())
    begin = content.index(words) // 4096 * 4096
    content[begin : begin + 4096] = np.random.default_rng(1).bytes(4096)
    path.write_bytes(content)


@pytest.mark.parametrize("wal", [False, True])
def test_damage_outside_the_reviews_gets_a_note(wal: bool, tmp_path: Path) -> None:
    path = make_collection(tmp_path / "collection.anki2", entries=HISTORY, wal=wal)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table notes (id integer primary key, flds text)")
        connection.executemany(
            "insert into notes values (?, ?)", [(n, f"note {n} " + "x" * 300) for n in range(500)]
        )
    sound = load_log(path)
    overwrite_page_with(path, b"note 250 ")
    before = folder_state(tmp_path)
    log = load_log(path)
    assert log.fingerprint() == sound.fingerprint()
    (note,) = log.import_summary.notes
    assert note == (
        "The file is damaged, though its reviews, cards and decks are intact; "
        "run Tools > Check Database in Anki."
    )
    assert folder_state(tmp_path) == before


@pytest.mark.parametrize("table", ["revlog", "cards", "config"])
def test_damage_to_reviews_cards_or_settings_is_refused(table: str, tmp_path: Path) -> None:
    entries = [(START_MS + number, number, 3, 1, 0, 0, 1, 0) for number in range(1000)]
    path = make_collection(tmp_path / "collection.anki2", entries=entries)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "select rootpage from sqlite_master where name = ?", (table,)
        ).fetchone()
    content = bytearray(path.read_bytes())
    begin = (root - 1) * 4096
    content[begin : begin + 4096] = np.random.default_rng(1).bytes(4096)
    sentence = expect_refusal(path, bytes(content), match="damaged")
    assert "\ufffd" not in sentence


def test_entries_dated_in_the_future_get_a_note(tmp_path: Path) -> None:
    future = 4_000_000_000_000
    entries = [*HISTORY, (future, HISTORY[0][1], 3, 1, 1, 2500, 9, 1)]
    log = load_log(make_collection(tmp_path / "a", entries=entries))
    assert log.import_summary.notes == (
        "1 entry is dated in the future (up to 2096-10-02): Anki counts such entries as today's; "
        "srs-eval keeps their dates.",
    )


def test_odd_values_are_read_as_anki_does(tmp_path: Path) -> None:
    entries = [
        (START_MS, 1, 3, 1.7, 0, 0, -5, 0),
        (START_MS + 1, 1, 3, 1, 0, 0, 3_000_000_000, 9),
        (START_MS + 2, 1, 7, 1, 0, 0, 10, 1),
        (-5, 1, 3, 1, 0, 0, 10, 1),
        (1 << 60, 1, 3, 1, 0, 0, 10, 1),
    ]
    log = load_log(make_collection(tmp_path / "a", entries=entries))
    assert log.entries is not None
    assert log.import_summary.entries_read == 5
    assert log.entries.duration_ms.tolist() == [0, 3_000_000_000, 10]
    assert log.entries.kind.tolist() == [0, 0, 1]
    assert log.entries.rating.tolist() == [3, 3, 7]
    assert log.import_summary.notes == ("2 entries with an impossible time were left out.",)


def test_cards_have_their_home_deck_or_none(tmp_path: Path) -> None:
    entries = [(START_MS + card, card, 3, 1, 0, 0, 1, 0) for card in (10, 11, 12, 13)]
    cards = [(10, 1, 4, 2, 2), (11, 2, 3, 0, -1), (12, 3, 99, 0, 2)]  # 13 is deleted
    log = load_log(make_collection(tmp_path / "a", entries=entries, cards=cards))
    deck_ids = log.deck_of(np.array([10, 11, 12, 13]))
    assert deck_ids.tolist() == [2, 3, 99, MISSING]
    assert log.preset_of(deck_ids).tolist() == [5, 1, MISSING, MISSING]
    assert log.cards.suspended.tolist() == [False, True, False]
    inspection = inspect_log(log)
    assert inspection.deleted_cards == 1
    assert [deck.name for deck in inspection.decks][-2:] == ["(deleted cards)", "(missing deck 99)"]


def test_scheduler_1_begins_days_at_the_creation_hour(tmp_path: Path) -> None:
    path = make_collection(tmp_path / "a", entries=HISTORY, config={"schedVer": 1})
    log = load_log(path)
    assert log.day_grid is not None
    assert (log.day_grid.next_day_at_s - (START_MS // 1000 - 7 * 3600)) % DAY_S == 0
    moved = load_log(path, timezone="UTC", rollover=2)
    assert moved.day_grid is not None
    assert moved.day_grid.next_day_at_s % DAY_S == 2 * 3600


def test_zone_of_this_computer_is_used_without_another(tmp_path: Path) -> None:
    bare = {"localOffset": None, "creationOffset": None, "rollover": None}
    log = load_log(make_collection(tmp_path / "a", entries=HISTORY, config=bare))
    assert log.day_grid is not None
    assert "this computer's zone" in log.day_grid.description
    newest = datetime.fromtimestamp(HISTORY[-1][0] / 1000, UTC).astimezone()
    offset = newest.utcoffset()
    assert offset is not None
    assert (log.day_grid.next_day_at_s + offset.total_seconds() - 4 * 3600) % DAY_S == 0
    package = {"localOffset": None, "rollover": None}
    log = load_log(make_collection(tmp_path / "b", entries=HISTORY, config=package))
    assert log.day_grid is not None
    assert "UTC-7 (where the collection was created)" in log.day_grid.description


@pytest.mark.parametrize(
    ("zone", "hours"),
    [("UTC", 0), ("UTC-7", -7), ("+05:30", 5.5), ("Asia/Tokyo", 9), ("Europe/Berlin", 1)],
)
def test_day_grid_follows_the_zone(zone: str, hours: float) -> None:
    winter = int(datetime(2024, 1, 15, tzinfo=UTC).timestamp())
    grid = compute_day_grid(winter * 1000, StoredClock(), zone, 4)
    assert grid.next_day_at_s % DAY_S == (4 - hours) % 24 * 3600
    assert winter < grid.next_day_at_s <= winter + DAY_S


@pytest.mark.parametrize("zone", ["Mars/Base", "", "../../etc/passwd", "\0", "UTC+99", "Europe"])
def test_unknown_zone_or_hour_is_refused(zone: str) -> None:
    with pytest.raises(InputError, match="time zone"):
        compute_day_grid(START_MS, StoredClock(), zone, None)
    with pytest.raises(InputError, match="rollover"):
        compute_day_grid(START_MS, StoredClock(), None, 24)


# Files that another program is writing

WRITER = """
import sqlite3, sys
path, table_of = sys.argv[1], "revlog"
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("pragma locking_mode=exclusive")
connection.execute("pragma journal_mode=wal")
connection.execute("pragma wal_autocheckpoint=0")
newest = connection.execute("select max(id) from revlog").fetchone()[0]
for number in range(1, 41):
    connection.execute("insert into revlog values (?, 7, 0, 3, 1, 1, 2500, 9, 1)",
                       (newest + number * 1000,))
connection.execute("begin immediate")
connection.execute("insert into revlog values (1, 7, 0, 3, 1, 1, 2500, 9, 1)")  # not committed
print("ready", flush=True)
sys.stdin.readline()
connection.execute("rollback")
connection.execute("insert into revlog values (?, 7, 0, 3, 1, 1, 2500, 9, 1)", (newest + 99_000,))
print(connection.execute("select count(*) from revlog").fetchone()[0], flush=True)
connection.close()
"""


def test_collection_open_in_another_process_is_read_with_wal(tmp_path: Path) -> None:
    """Check that reviews in the -wal are read, no file changes and the writer continues."""
    folder = tmp_path / "profile"
    folder.mkdir()
    path = make_collection(folder / "collection.anki2", entries=HISTORY, wal=True)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline().strip() == "ready"
        before = folder_state(folder)
        assert "collection.anki2-wal" in before
        # Read in a third process, because POSIX locks belong to a process.
        code = (
            "import sys; from srs_eval.anki_import import load_log; "
            "print(load_log(sys.argv[1]).import_summary.entries_read)"
        )
        reader = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        assert int(reader.stdout) == len(HISTORY) + 40
        assert folder_state(folder) == before
        writer.stdin.write("go on\n")
        writer.stdin.flush()
        assert int(writer.stdout.readline()) == len(HISTORY) + 41
        assert writer.wait(timeout=PATIENCE) == 0
    finally:
        if writer.poll() is None:
            writer.kill()
        writer.communicate()
    assert load_log(path).import_summary.entries_read == len(HISTORY) + 41


def test_unfinished_change_of_a_killed_program_is_rolled_back(tmp_path: Path) -> None:
    """Check that a hot journal is rolled back in the copy and the user's files stay unchanged."""
    path = make_collection(tmp_path / "collection.anki2", schema=11, entries=HISTORY)
    code = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('pragma cache_size=1'); c.execute('begin immediate'); "
        "c.execute('update revlog set ease = 4'); "
        "c.execute('create table filler (x)'); "
        "c.executemany('insert into filler values (zeroblob(4000))', [()] * 50); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=PATIENCE)
    before = folder_state(tmp_path)
    assert set(before) == {"collection.anki2", "collection.anki2-journal"}
    log = load_log(path)
    assert log.entries is not None
    assert log.entries.rating.tolist() == [entry[2] for entry in HISTORY]
    assert folder_state(tmp_path) == before


def test_journal_that_names_another_file_is_refused(tmp_path: Path) -> None:
    """Check that SQLite does not delete the file that a journal names as its super-journal."""
    path = make_collection(tmp_path / "collection.anki2", schema=11, entries=HISTORY)
    victim = tmp_path / "victim.txt"
    victim.write_text("dear to its owner")
    name = str(victim).encode()
    check = sum(byte if byte < 128 else byte - 256 for byte in name) & 0xFFFFFFFF
    record = (
        (1073741824 // 4096 + 1).to_bytes(4, "big")
        + name
        + len(name).to_bytes(4, "big")
        + check.to_bytes(4, "big")
        + bytes.fromhex("d9d505f920a163d7")
    )
    header = bytes.fromhex("d9d505f920a163d7") + b"\0" * 4 + b"\0\0\0\1" + b"\0\0\0\4"
    header = header + (512).to_bytes(4, "big") + (4096).to_bytes(4, "big")
    (tmp_path / "collection.anki2-journal").write_bytes(header.ljust(512, b"\0") + record)
    with pytest.raises(InputError, match="involves another file"):
        load_log(path)
    assert victim.read_text() == "dear to its owner"


def test_change_while_copying_is_repeated_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_collection(tmp_path / "collection.anki2", entries=HISTORY)
    copy_all = files._copy_all
    calls = []

    def disturbed(real: Path, target: Path, states: list) -> bool:
        done = copy_all(real, target, states)
        calls.append(1)
        if len(calls) <= disturbances:
            connection = sqlite3.connect(path)
            connection.execute(
                "insert into revlog values (?, 7, 0, 3, 1, 1, 2500, 9, 1)", (START_MS + len(calls),)
            )
            connection.commit()
            connection.close()
        return done

    monkeypatch.setattr(files, "_copy_all", disturbed)
    monkeypatch.setattr(files, "_ATTEMPTS", 5)
    disturbances = 2
    log = load_log(path)
    assert log.import_summary.entries_read == len(HISTORY) + 2
    disturbances = 10**6
    with pytest.raises(InputError, match="keeps changing"):
        load_log(path)


def test_interrupted_import_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    path = make_collection(tmp_path / "collection.anki2", entries=HISTORY)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(collection, "_read_cards", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_log(path)  # no_litter checks the temporary folder


# Refusals


def expect_refusal(
    path: Path, content: bytes | None = None, match: str = ".", **options: object
) -> str:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=match) as caught:
        load_log(path, **options)  # type: ignore[arg-type]
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def test_paths_that_are_no_readable_file_are_refused(tmp_path: Path) -> None:
    expect_refusal(tmp_path / "none.anki2", match="does not exist")
    expect_refusal(tmp_path, match="neither an Anki collection nor")
    expect_refusal(tmp_path / "empty", b"", match="0 bytes")
    expect_refusal(tmp_path / "text", b"just words\n" * 50, match="not a collection")
    for strange in ("a\0b", "a" * 5000, "~no-such-user-here/collection.anki2"):
        expect_refusal(Path(strange), match="cannot be read")
    os.mkfifo(tmp_path / "pipe")
    expect_refusal(tmp_path / "pipe", match="not a file")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    expect_refusal(loop)


@pytest.mark.parametrize("schema", [1, 10, 12, 13, 19, 1000])
def test_unknown_schema_is_refused(schema: int, tmp_path: Path) -> None:
    path = make_collection(tmp_path / "a", entries=HISTORY)
    connection = sqlite3.connect(path)
    connection.execute(f"update col set ver = {schema}")
    connection.commit()
    connection.close()
    expect_refusal(
        path, match="newer Anki" if schema in (12, 13) or schema > 18 else "very old Anki"
    )


def test_views_and_computed_columns_are_not_run(tmp_path: Path) -> None:
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n"
    for statement in (
        "drop table revlog; create view revlog as select x as id, x as cid, 1 as usn, 3 as ease, "
        f"1 as ivl, 1 as lastIvl, 1 as factor, 1 as time, 1 as type from ({endless})",
        "drop table revlog; create table revlog (id integer primary key, cid, ease, factor, "
        "type, time as (length(hex(zeroblob(100000000)))))",
    ):
        path = tmp_path / "a"
        path.unlink(missing_ok=True)
        make_collection(path, entries=HISTORY)
        connection = sqlite3.connect(path)
        connection.executescript(statement)
        connection.close()
        expect_refusal(path, match="not an Anki collection")


def test_import_stops_at_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr(collection, "_DEADLINE_S", -1.0)
    entries = [(START_MS + number, number, 3, 1, 0, 0, 1, 0) for number in range(20_000)]
    path = make_collection(tmp_path / "a", entries=entries)
    expect_refusal(path, match="too long")


@pytest.mark.slow
def test_compressed_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a header that promises gigabytes does not have them unpacked."""
    sound = make_collection(tmp_path / "sound", entries=HISTORY).read_bytes()
    pages = (2 << 30) // 4096
    header = bytearray(sound[:100])
    header[28:32] = pages.to_bytes(4, "big")
    header[92:96] = header[24:28]
    packed = zstandard.ZstdCompressor().compressobj()
    content = packed.compress(bytes(header)) + packed.compress(bytes((400 << 20) - 100))
    bomb = tmp_path / "bomb.colpkg"
    with zipfile.ZipFile(bomb, "w") as archive:
        archive.writestr("meta", field(1, 3))
        archive.writestr("collection.anki21b", content + packed.flush())
    expect_refusal(bomb, match="more than an Anki package does")
    header[92:96] = b"\0\0\0\0"  # without a valid page count the general limit applies
    packed = zstandard.ZstdCompressor().compressobj()
    content = packed.compress(bytes(header)) + packed.compress(bytes((400 << 20) - 100))
    expect_refusal(
        tmp_path / "bomb", content + packed.flush(), match="more than an Anki package does"
    )
    monkeypatch.setattr(files, "MAX_DATABASE_BYTES", 4096)
    expect_refusal(tmp_path / "sound", match="too large")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_malicious_packages_are_read_safely_or_refused(tmp_path: Path) -> None:
    sound = make_collection(tmp_path / "sound", entries=HISTORY).read_bytes()
    path = tmp_path / "a.colpkg"
    outside = {"../../evil": b"x", "/tmp/evil": b"x", "C:\\evil": b"x"}
    make_package(path, sound, 3, **outside)
    before = set(tmp_path.parent.rglob("*evil*"))
    assert load_log(path).import_summary.entries_read == len(HISTORY)
    assert set(tmp_path.parent.rglob("*evil*")) == before
    make_package(path, sound, 4)
    expect_refusal(path, match="newer version")
    make_package(path, sound, 3, meta=b"x" * 100_000)
    expect_refusal(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("collection.anki2", sound)
    expect_refusal(path, match="does not use")
    content = bytearray(make_package(path, sound, 2).read_bytes())
    offset = content.rindex(b"collection.anki21") - 46
    content[offset + 8] |= 1  # the flag of encrypted members
    expect_refusal(path, bytes(content))
    expect_refusal(path, b"PK\x05\x06" + b"\0" * 18, match="without an Anki collection")
    many = b"PK\x03\x04" + b"PK\x05\x06" + b"\0" * 4 + b"\xff\xff" * 2 + b"\xff" * 4 + b"\0" * 6
    expect_refusal(path, many, match="too many files")


def test_control_characters_in_names_are_replaced(tmp_path: Path) -> None:
    name = "a\x1b[31mred\x07\x1f[bold]b[/]\u202e"
    log = load_log(make_collection(tmp_path / "a", entries=HISTORY, deck_name=name))
    assert log.decks[2].name.isprintable()
    assert log.decks[2].name.endswith("::[bold]b[/]\ufffd")

    out = Console(file=StringIO(), width=100)
    out.print(render_inspection(inspect_log(log)))
    assert "[bold]b[/]" in out.file.getvalue()  # type: ignore[attr-defined]
    strange = tmp_path / "bad\x1b[31m\nname"
    sentence = expect_refusal(strange, b"", match="0 bytes")
    assert "\x1b" not in sentence


def test_bad_protobuf_or_json_is_refused_or_ignored(tmp_path: Path) -> None:
    for argument in ("preset", "deck_kind"):
        path = tmp_path / argument
        make_collection(path, entries=HISTORY, **{argument: b"\xff\xff\xff"})  # type: ignore[arg-type]
        expect_refusal(path, match="damaged")
    bad = field(6, (float("nan"),) * 21) + field(37, 5.0) + field(46, b"15.05.2024")
    log = load_log(make_collection(tmp_path / "nan", entries=HISTORY, preset=bad))
    assert "not all are finite" in find_fault(log.presets[5].active_parameters)
    assert log.presets[5].desired_retention == 0.9  # out of range: Anki's default
    assert log.presets[5].ignore_before is None
    assert "not a date" in " ".join(log.import_summary.notes)
    path = make_collection(tmp_path / "json", schema=11, entries=HISTORY)
    connection = sqlite3.connect(path)
    for content in ("[" * 100_000, "{", "null", '{"x": 1, "9e999": {}, "5": {"conf": []}}'):
        connection.execute("update col set decks = ?", (content,))
        connection.commit()
        if content[0] in "[{" and not content.endswith("}"):
            expect_refusal(path, match="settings")
        else:
            assert all(isinstance(key, int) for key in load_log(path).decks)
    connection.close()


@pytest.mark.slow
def test_inspect_shows_the_largest_of_thousands_of_decks(tmp_path: Path) -> None:
    """Nest 3,000 decks in one another, so that names grow to many kilobytes."""
    path = make_collection(tmp_path / "collection.anki2", entries=HISTORY)
    names = [f"Deck {number}" for number in range(3000)]
    connection = sqlite3.connect(path)
    connection.create_collation("unicase", lambda a, b: (a > b) - (a < b))
    connection.executemany(
        "insert into decks values (?, ?, 0, 0, x'', ?)",
        [
            (100 + number, "\x1f".join(names[: number + 1]), field(1, field(1, 1)))
            for number in range(len(names))
        ],
    )
    connection.commit()
    connection.close()
    inspection = inspect_log(load_log(path))
    assert len(inspection.to_document()["decks"]) == 3000 + 4
    output = StringIO()
    Console(width=100, file=output).print(render_inspection(inspection, 100))
    text = output.getvalue()
    assert len(text) < 50_000
    assert "Parent::Child" in text  # the deck with the entries
    assert "--json also lists 2,904 more decks with fewer entries." in text


# Tables


def test_raw_table_in_any_dialect_equals_the_collection(tmp_path: Path) -> None:
    lines = ["id,cid,usn,ease,ivl,lastIvl,factor,time,type"]
    lines += [f"{e[0]},{e[1]},-1,{e[2]},{e[3]},{e[4]},{e[5]},{e[6]},{e[7]}" for e in HISTORY[::-1]]
    direct = load_log(make_collection(tmp_path / "a", entries=HISTORY))
    assert direct.entries is not None
    for name, content in {
        "comma": "\n".join(lines),
        "windows": "\r\n".join(lines) + "\r\n",
        "tabs": "\n".join(lines).replace(",", "\t"),
        "semicolons": "\n".join(lines).replace(",", ";"),
        "bom": "\ufeff" + "\n".join(lines),
        "quoted": "\n".join('"' + line.replace(",", '","') + '"' for line in lines),
    }.items():
        (tmp_path / name).write_text(content, encoding="utf-8", newline="")
        log = load_log(tmp_path / name, timezone="UTC-7")
        assert log.entries is not None
        for column in ("time_ms", "card_id", "rating", "kind", "factor", "duration_ms"):
            np.testing.assert_array_equal(
                getattr(log.entries, column), getattr(direct.entries, column), err_msg=name
            )
        assert log.day_grid is not None
        assert direct.day_grid is not None
        assert log.day_grid.next_day_at_s == direct.day_grid.next_day_at_s


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_tables_are_read_in_utf_16_and_with_any_line_end(
    encoding: str, end: str, tmp_path: Path
) -> None:
    lines = ["id,cid,usn,ease,ivl,lastIvl,factor,time,type"]
    lines += [f"{e[0]},{e[1]},-1,{e[2]},{e[3]},{e[4]},{e[5]},{e[6]},{e[7]}" for e in HISTORY]
    path = tmp_path / "log.csv"
    for last in ("", end):
        path.write_bytes((end.join(lines) + last).encode(encoding))
        log = load_log(path)
        assert log.entries is not None
        assert log.entries.time_ms.tolist() == [entry[0] for entry in HISTORY]
        assert log.entries.rating.tolist() == [entry[2] for entry in HISTORY]
    lines[3] = lines[3].replace(",-1,", ",-1,x")
    expect_refusal(path, end.join(lines).encode(encoding), match="not a readable review log")


def test_old_mac_table_may_have_a_line_feed_in_quotes(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b'note,card_id,rating,review_datetime\r"a\nb",5,3,2024-01-03T10:00:00Z\r')
    assert len(load_log(path).reviews) == 1


def test_bare_table_infers_kinds(tmp_path: Path) -> None:
    day = START_MS // DAY_MS * DAY_MS + 12 * 3_600_000
    rows = [  # time, rating, expected kind
        (day, 1, LEARNING),
        (day + 60_000, 3, LEARNING),
        (day + 120_000, 1, LEARNING),
        (day + DAY_MS, 1, REVIEW),
        (day + DAY_MS + 60_000, 1, RELEARNING),
        (day + DAY_MS + 120_000, 3, RELEARNING),
        (day + 3 * DAY_MS, 3, REVIEW),
        (day + 3 * DAY_MS + 60_000, 3, REVIEW),
    ]
    lines = ["card_id,review_rating,review_time,review_duration"]
    for card in (5, 4):
        lines += [f"{card},{rating},{at + card},1234" for at, rating, _ in rows]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    log = load_log(tmp_path / "log.csv", timezone="UTC")
    assert log.entries is not None
    for card in (4, 5):
        of_card = log.entries.card_id == card
        assert log.entries.kind[of_card].tolist() == [kind for _, _, kind in rows]
    selected = select_rows(log).rows
    assert len(selected) == len(log.entries)
    assert (selected.state == 0).sum() == 2
    assert "first day is taken as learning" in log.import_summary.notes[-1]
    (tmp_path / "short.csv").write_text("review_time,card_id,review_rating\n1700000000000,1,3\n")
    assert load_log(tmp_path / "short.csv").import_summary.entries_read == 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("1,3,1700000000000,x", "line 2: review_duration is 'x', not a whole number"),
        ("1,3.5,1700000000000,1", "line 2: review_rating is '3.5', not a whole number"),
        ("1,3", "."),
        ("1,3,1700000000,1", "milliseconds"),
        ("1,3,2024-01-01,1", "."),
        ("", "no reviews"),
        ("99999999999999999999,3,1700000000000,1", "."),
    ],
)
def test_bad_table_is_refused(body: str, words: str, tmp_path: Path) -> None:
    head = "card_id,review_rating,review_time,review_duration\n"
    expect_refusal(tmp_path / "a.csv", (head + body).encode(), match=words)


PY_FSRS = "card_id,rating,review_datetime,review_duration"


def test_py_fsrs_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    lines = [
        "5,3,2024-01-03T10:00:00+00:00,1234",
        "5,1,2024-01-01T12:00:00.500000+02:00,",
        "6,4,2024-01-01 10:30:00,20.0",  # no zone: UTC
        "5,3,2024-01-01T10:10:00Z,7",
    ]
    path.write_text("\n".join([PY_FSRS, *lines]) + "\n")
    log = load_log(path, timezone="UTC")
    assert log.entries is not None
    begin = int(datetime(2024, 1, 1, 10, tzinfo=UTC).timestamp()) * 1000
    assert log.entries.time_ms.tolist() == [
        begin + 500,
        begin + 600_000,
        begin + 1_800_000,
        begin + 2 * DAY_MS,
    ]
    assert log.entries.rating.tolist() == [1, 3, 4, 3]
    assert log.entries.duration_ms.tolist() == [0, 7, 20, 1234]
    assert log.entries.kind.tolist() == [LEARNING, LEARNING, LEARNING, REVIEW]
    assert "py-fsrs" in log.import_summary.format
    (tmp_path / "short.csv").write_text("rating;review_datetime;card_id\n3;2024-01-01;1\n")
    assert load_log(tmp_path / "short.csv").import_summary.entries_read == 1
    for bad in ("5,Good,2024-01-03T10:00:00Z,1", "5,3,yesterday,1", "5,3", "5,3,2024-01-03,x"):
        sentence = expect_refusal(path, f"{PY_FSRS}\n{lines[0]}\n{bad}\n".encode(), match="line 3")
        assert "correct that line" in sentence
    expect_refusal(path, PY_FSRS.encode() + b"\n", match="no reviews")


@given(st.integers(0, 10**6))
def test_table_without_dates_keeps_intervals_and_order(seed: int) -> None:
    """Check that intervals are kept and that days never decrease in order of review."""
    random = np.random.default_rng(seed)
    day = np.sort(random.integers(0, 60, 80))
    card = random.integers(0, 12, 80)
    before: dict[int, int] = {}
    lines = []
    reviews = zip(card.tolist(), day.tolist(), strict=True)
    for number, (card_id, review_day) in enumerate(reviews, 1):
        delta = review_day - before[card_id] if card_id in before else -1
        before[card_id] = review_day
        lines.append(f"{card_id},{number},{delta},{random.integers(1, 5)}")
    random.shuffle(lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_text("\n".join(["card_id,review_th,delta_t,rating", *lines]))
        rows = load_log(path).rows
    assert rows is not None
    assert rows.card_id.tolist() == card.tolist()
    first = np.isin(np.arange(80), np.unique(card, return_index=True)[1])
    np.testing.assert_array_equal(rows.elapsed_days == -1, first)
    np.testing.assert_array_equal(rows.state == 0, first)
    assert (np.diff(rows.day_offset) >= 0).all()
    assert (rows.day_offset <= day - day[0]).all()  # the earliest possible days
    for card_id in np.unique(card):
        of_card = card == card_id
        np.testing.assert_array_equal(np.diff(day[of_card]), rows.elapsed_days[of_card][1:])
        np.testing.assert_array_equal(
            np.diff(rows.day_offset[of_card]), rows.elapsed_days[of_card][1:]
        )


def test_file_without_dates_is_read_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text("card_id,review_th,delta_t,rating\n1,1,-1,3\n1,3,5,1\n2,2,-1,4\n")
    log = load_log(path)
    assert log.rows is not None
    assert log.rows.card_id.tolist() == [1, 2, 1]
    assert log.rows.elapsed_days.tolist() == [-1, -1, 5]
    assert "no dates" in log.import_summary.notes[0]
    expect_refusal(path, match="fixes when days begin", timezone="UTC")
    # Intervals that contradict the order of review are read all the same.
    path.write_text("card_id,review_th,delta_t,rating\n1,1,-1,3\n2,2,-1,3\n2,3,9,3\n1,4,1,3\n")
    contradicting = load_log(path).rows
    assert contradicting is not None
    assert (np.diff(contradicting.day_offset) >= 0).all()
    expect_refusal(path, b"card_id,review_th,delta_t,rating\n", match="no reviews")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("card,when,grade", ["card, when, grade", "card_id, review_rating", "id, cid, ease"]),
        ("card_id,rating,timestamp", ["review_datetime is missing", "card_id, rating, timestamp"]),
        ("review_time;card_id;grade", ["review_rating is missing"]),
        ("id,cid,ease,factor,time", ["type is missing"]),
    ],
)
def test_table_of_other_columns_names_the_columns_it_needs(
    header: str, words: list[str], tmp_path: Path
) -> None:
    sentence = expect_refusal(
        tmp_path / "a.csv", (header + "\n1,2,3\n").encode(), match="is a table"
    )
    for word in words:
        assert word in sentence
    assert "damaged" not in sentence
    assert "not a collection" not in sentence


# Folders


def test_find_profiles_lists_newest_first_on_each_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANKI_BASE", "XDG_DATA_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    folders_by_system = {
        "linux": [".local/share/Anki2", ".var/app/net.ankiweb.Anki/data/Anki2"],
        "darwin": ["Library/Application Support/Anki2"],
        "win32": ["AppData/Roaming/Anki2"],
    }
    for system, folders in folders_by_system.items():
        home = tmp_path / system
        for number, folder in enumerate([*folders, "Documents/Anki"]):
            profile = home / folder / f"User {number}"
            profile.mkdir(parents=True)
            (profile / "collection.anki2").write_bytes(b"x" * 10)
            os.utime(profile / "collection.anki2", (1000 + number, 1000 + number))
        (home / folders[0] / "addons21").mkdir()
        monkeypatch.setattr(sys, "platform", system)
        profiles = find_profiles(home)
        names = [f"User {number}" for number in range(len(folders) + 1)]
        assert [profile.name for profile in profiles] == names[::-1]
        assert profiles[-1].modified == datetime.fromtimestamp(1000, UTC)
        assert profiles[0].size == 10
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("ANKI_BASE", str(tmp_path / "darwin/Documents/Anki"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "win32/AppData/Roaming"))
    assert len(find_profiles(tmp_path / "nobody")) == 2
    with pytest.raises(InputError, match="User 0"):
        load_log(tmp_path / "linux/.local/share/Anki2")


# The inspection


def test_inspection_counts_add_up_and_show_presets(tmp_path: Path) -> None:
    history = [*HISTORY, (START_MS + 50 * DAY_MS, HISTORY[0][1], 0, 0, 0, 0, 0, 4)]
    log = load_log(make_collection(tmp_path / "collection.anki2", entries=history))
    inspection = inspect_log(log)
    document = json.loads(to_json(inspection.to_document()))
    assert document["entries_read"] == len(history)
    for counts in document["rows"].values():
        assert counts["kept"] + sum(counts["dropped"].values()) == len(history)
    assert document["rows"]["anki"]["dropped"]["card reset and not learned again"] == 4
    assert document["rows"]["benchmark"]["kept"] == len(HISTORY)
    for groups in ("decks", "presets"):
        for column, kind in (("benchmark_rows", "benchmark"), ("anki_rows", "anki")):
            total = sum(group["counts"][column] for group in document[groups])
            assert total == document["rows"][kind]["kept"]
        assert sum(group["counts"]["entries"] for group in document[groups]) == len(history)
    child = next(deck for deck in document["decks"] if deck["name"] == "Parent::Child")
    assert child["preset"] == "Own"
    assert child["counts"]["cards"] == 6
    own_preset = next(preset for preset in document["presets"] if preset["name"] == "Own")
    assert own_preset["parameters"] == list(PARAMETERS)
    assert own_preset["parameters_version"] == 6
    assert own_preset["stored_versions"] == [4, 6]
    assert document["entries_by_kind"] == {"learning": 12, "review": 12, "manual": 1}
    assert document["first_review"] == "2023-11-14T22:13:20Z"
    assert "UTC-7" in document["day_boundaries"]

    out = Console(file=StringIO(), width=80)
    out.print(render_inspection(inspection))
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "Parent::Child" in text
    assert "FSRS-6" in text
