"""The importer on files that Anki wrote, against the figures that Anki gives for them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srs_eval.anki_import import load_log
from srs_eval.data.days import DAY_S
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import Deck, ReviewLog
from srs_eval.data.rows import select_rows
from tests.conftest import PATIENCE, SHARED, shared_or_skip
from tests.helpers.anki_files import folder_state
from tests.helpers.marks import slow_except

FIXTURES = SHARED / "anki" / "fixtures"
BROKEN = sorted(path.name for path in (FIXTURES / "broken").glob("*"))
# Files that Anki and we read: the last of two members counts, other members do not.
READ_ANYWAY = {"two-collections.colpkg": 12_862}

COLLECTIONS = [
    "collection.anki2",
    "collection-schema11.anki2",
    "collection-schema11-v1-scheduler.anki2",
    "collection.colpkg",
    "collection-legacy.colpkg",
    "repacked-legacy2-no-meta.colpkg",
    "deck-with-scheduling.apkg",
    "deck-with-scheduling-legacy.apkg",
    "repacked-legacy1-no-meta.apkg",
    "all-decks-with-scheduling-no-presets.apkg",
]


@pytest.fixture
def fixtures() -> Path:
    return shared_or_skip("anki", "fixtures")


@pytest.fixture
def oracle(fixtures: Path) -> dict[str, Any]:
    return json.loads((fixtures / "oracle.json").read_text())


@pytest.fixture
def no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Check that no private file is left in the temporary folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def count_anki_items(log: ReviewLog, **options: bool) -> int:
    return int((select_rows(log, "anki", **options).rows.elapsed_days > 0).sum())


def expected_of(oracle: dict[str, Any], name: str) -> dict[str, Any]:
    return oracle[name] if name in oracle else oracle["other_fixtures"][name]


@pytest.mark.parametrize("name", COLLECTIONS)
def test_counts_equal_ankis(
    name: str, fixtures: Path, oracle: dict[str, Any], no_litter: Path
) -> None:
    expected = expected_of(oracle, name)
    log = load_log(fixtures / name)
    assert log.entries is not None
    entries = log.entries
    cards = log.cards
    assert log.import_summary.entries_read == len(entries) == expected["revlog_count"]
    assert Counter(entries.kind.tolist()) == Counter(
        {int(kind): count for kind, count in expected["revlog_by_type"].items()}
    )
    assert Counter(entries.rating.tolist()) == Counter(
        {int(ease): count for ease, count in expected["revlog_by_ease"].items()}
    )
    factorless = entries.factor == 0
    assert int(((entries.kind == 3) & factorless).sum()) == expected["revlog_type3_factor0"]
    assert int(((entries.kind == 4) & factorless).sum()) == expected["revlog_type4_factor0"]
    assert entries.time_ms[0] == expected["revlog_first_id"]
    assert entries.time_ms[-1] == expected["revlog_last_id"]
    assert len(np.unique(entries.card_id)) == expected["revlog_cards"]
    gone = ~np.isin(entries.card_id, cards.card_id)
    assert int(gone.sum()) == expected["revlog_of_deleted_cards"]
    assert len(np.unique(entries.card_id[gone])) == expected["deleted_cards_with_revlog"]
    assert len(cards.card_id) == expected["cards"]
    assert len(np.unique(cards.note_id)) == expected["notes"]
    assert int(cards.suspended.sum()) == expected["suspended_cards"]
    fsrs_enabled = expected["config"]["fsrs"]  # Anki takes a missing value for off
    assert log.import_summary.fsrs_enabled == (
        fsrs_enabled if name.endswith(".apkg") else bool(fsrs_enabled)
    )
    assert log.day_grid is not None
    assert (log.day_grid.next_day_at_s - expected["timing"]["next_day_at"]) % DAY_S == 0

    brief = (
        expected.get("fsrs_brief")
        or oracle["day_boundary_depends_on_time_zone"]["by_zone"]["America/Los_Angeles"]
    )
    options = {"include_suspended": True, "apply_ignore_before": False}
    assert (
        count_anki_items(log, include_deleted=False, **options) == brief["compute_items_deck_star"]
    )
    assert (
        count_anki_items(log, include_deleted=True, **options)
        == brief["compute_items_empty_search"]
    )


@pytest.mark.parametrize("name", COLLECTIONS)
def test_decks_and_presets_equal_ankis(name: str, fixtures: Path, oracle: dict[str, Any]) -> None:
    expected = expected_of(oracle, name)
    log = load_log(fixtures / name)
    at_home = Counter(log.cards.deck_id.tolist())
    by_name = {deck.name: deck for deck in log.decks.values()}
    # An import into an empty collection gives new ids to decks, and adds Anki's own deck 1.
    for anki_deck in expected["decks"]:
        if anki_deck["name"] not in by_name:
            assert name.endswith(".apkg")
            assert anki_deck["name"] == "Default"
            assert not anki_deck["cards_at_home"]
            continue
        deck = by_name[anki_deck["name"]]
        if not name.endswith(".apkg"):
            assert deck.id == anki_deck["id"]
        assert deck.filtered == anki_deck["filtered"]
        assert at_home[deck.id] == anki_deck["cards_at_home"]
        assert deck.desired_retention == pytest.approx(anki_deck.get("desired_retention_override"))
        if not deck.filtered:
            assert deck.preset_id == anki_deck["preset_id"]
        _check_parent(deck, by_name)
    stored = {preset.name: preset for preset in log.presets.values()}
    for anki_preset in expected["presets"]:
        if anki_preset["name"] == "Default" and name.endswith(".apkg"):
            continue  # from the importing collection
        preset = stored[anki_preset["name"]]
        assert preset.id == anki_preset["id"]
        assert preset.active_parameters == pytest.approx(anki_preset["params_effective"], abs=1e-6)
        counts = [len(preset.fsrs_parameters.get(version, ())) for version in (4, 5, 6)]
        assert counts == anki_preset["lens_4_5_6"]
        assert preset.desired_retention == pytest.approx(anki_preset["desired_retention"])
        assert preset.historical_retention == pytest.approx(anki_preset["historical_retention"])
        assert (preset.ignore_before or "") == anki_preset["ignore_revlogs_before_date"]
        assert (preset.search or "") == anki_preset["param_search"]
        assert preset.learning_steps == pytest.approx(anki_preset["learn_steps"])
        assert preset.relearning_steps == pytest.approx(anki_preset["relearn_steps"])


def _check_parent(deck: Deck, by_name: dict[str, Deck]) -> None:
    parent = deck.name.rpartition("::")[0]
    assert deck.parent_id == (by_name[parent].id if parent in by_name else None)


def test_counts_by_preset_equal_ankis_searches(fixtures: Path, oracle: dict[str, Any]) -> None:
    log = load_log(fixtures / "collection.anki2")
    names = {preset.id: preset.name for preset in log.presets.values()}
    all_rows = select_rows(
        log, "anki", include_suspended=True, include_deleted=False, apply_ignore_before=False
    ).rows
    screen_rows = select_rows(log, "anki").rows
    seen = 0
    for words, answer in oracle["collection.anki2"]["fsrs"].items():
        preset, _, search = words.partition(": ")
        if preset not in names.values() or "compute_fsrs_params" not in answer:
            continue
        if search == "whole preset with suspended":
            rows = all_rows
        elif search == "as the deck-options screen does" and "deck:" not in answer["search"]:
            rows = screen_rows
        else:
            continue
        items = rows.card_id[rows.elapsed_days > 0]
        of_preset = log.preset_of(log.deck_of(items))
        count = sum(names.get(preset_id) == preset for preset_id in of_preset.tolist())
        assert count == answer["compute_fsrs_params"]["fsrs_items"], words
        seen += 1
    assert seen >= 7
    assert count_anki_items(log, apply_ignore_before=False) == 6_056


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "UTC", "Asia/Tokyo", "Europe/Berlin"])
def test_day_boundaries_equal_ankis_in_each_zone(
    zone: str, fixtures: Path, oracle: dict[str, Any]
) -> None:
    expected = oracle["day_boundary_depends_on_time_zone"]["by_zone"][zone]
    log = load_log(fixtures / "collection.anki2", timezone=zone)
    assert log.day_grid is not None
    assert log.day_grid.next_day_at_s % DAY_S == expected["next_day_at_mod_86400"]
    assert zone in log.day_grid.description
    assert log.day_grid.time_zone == zone
    options = {"include_suspended": True, "apply_ignore_before": False}
    assert (
        count_anki_items(log, include_deleted=False, **options)
        == expected["compute_items_deck_star"]
    )
    assert (
        count_anki_items(log, include_deleted=True, **options)
        == expected["compute_items_empty_search"]
    )


ZONES = ("UTC", "America/Los_Angeles", "Asia/Tokyo")
OTHER_SOURCES = [
    "open-in-anki/collection.anki2",
    "hot-journal/collection.anki2",
    "quirks.anki2",
    "quirks.revlog",
    "dataset.revlog",
]


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Yield a function that sets this computer's time zone until the test ends."""

    def set_zone(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "name",
    slow_except({"collection.colpkg", "collection-legacy.colpkg"}, [*COLLECTIONS, *OTHER_SOURCES]),
)
def test_days_do_not_depend_on_this_computer(
    name: str, fixtures: Path, in_zone: Callable[[str], None]
) -> None:
    prints = set()
    for zone in ZONES:
        in_zone(zone)
        prints.add(load_log(fixtures / name).fingerprint())
    assert len(prints) == 1


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("collection-schema11-v1-scheduler.anki2", None),
        ("collection-schema11-v1-scheduler.anki2", 3),
        ("collection-schema11-v1-scheduler.anki2", "2"),
        ("collection.anki2", None),
    ],
)
def test_days_without_a_known_scheduler_are_the_first_schedulers(
    name: str,
    stored: object,
    fixtures: Path,
    oracle: dict[str, Any],
    tmp_path: Path,
    in_zone: Callable[[str], None],
) -> None:
    """Check that any version but 1 and 2, or none, counts as 1, as in Anki."""
    path = tmp_path / "collection.anki2"
    shutil.copyfile(fixtures / name, path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        _store_scheduler(connection, stored)
        (created,) = connection.execute("select crt from col").fetchone()
    counts = set()
    for zone in ZONES:
        in_zone(zone)
        log = load_log(path)
        assert log.day_grid is not None
        assert (log.day_grid.next_day_at_s - created) % DAY_S == 0
        counts.add(count_anki_items(log, include_suspended=True, apply_ignore_before=False))
    assert len(counts) == 1
    if "v1" in name:
        expected = expected_of(oracle, name)["fsrs_brief"]
        assert counts == {expected["compute_items_deck_star"]}


def _store_scheduler(connection: sqlite3.Connection, stored: object) -> None:
    """Write the scheduler's version into the settings; None removes it."""
    (conf,) = connection.execute("select conf from col").fetchone()
    if not conf:  # schema 14 or later: a table
        assert stored is None
        connection.execute("delete from config where key = 'schedVer'")
        return
    settings = json.loads(conf)
    settings["schedVer"] = stored
    if stored is None:
        del settings["schedVer"]
    connection.execute("update col set conf = ?", (json.dumps(settings),))


def test_days_of_real_collections_ignore_the_computers_zone(in_zone: Callable[[str], None]) -> None:
    """Check collections of people, some from before there was a second scheduler."""
    folder = os.environ.get("SRS_EVAL_REAL")
    if not folder:
        pytest.skip("needs SRS_EVAL_REAL, a folder with real collections")
    paths = [
        path for path in Path(folder).iterdir() if path.suffix in (".anki2", ".apkg", ".colpkg")
    ]
    assert paths
    for path in paths:
        prints = set()
        for zone in ZONES:
            in_zone(zone)
            prints.add(load_log(path).fingerprint())
        assert len(prints) == 1


def test_research_export_has_the_counts_of_the_oracle(
    fixtures: Path, oracle: dict[str, Any], no_litter: Path
) -> None:
    expected = oracle["other_fixtures"]["dataset.revlog"]
    log = load_log(fixtures / "dataset.revlog")
    assert log.entries is not None
    assert len(log.entries) == expected["revlogs"]
    assert len(log.cards.card_id) == expected["cards"]
    assert [
        {"id": deck.id, "parent_id": deck.parent_id or 0, "preset_id": deck.preset_id}
        for deck in log.decks.values()
    ] == expected["decks"]
    assert log.day_grid is not None
    assert log.day_grid.next_day_at_s == expected["next_day_at"]
    assert int((log.entries.rating == 0).sum()) == expected["revlogs_with_button_0"]


def test_collection_open_in_anki_includes_the_wal(
    fixtures: Path, oracle: dict[str, Any], tmp_path: Path, no_litter: Path
) -> None:
    folder = tmp_path / "profile"
    shutil.copytree(fixtures / "open-in-anki", folder)
    _make_writable(folder)
    before = folder_state(folder)
    expected = oracle["open-in-anki"]
    log = load_log(folder / "collection.anki2")
    assert log.import_summary.entries_read == expected["revlog_with_wal"]
    assert log.entries is not None
    assert log.entries.time_ms[-1] == expected["last_wal_entry"]
    assert folder_state(folder) == before
    assert load_log(folder).fingerprint() == log.fingerprint()  # a profile's folder, too
    # Links are followed to the folder of the -wal.
    link = tmp_path / "link.anki2"
    link.symlink_to(folder / "collection.anki2")
    assert load_log(link).import_summary.entries_read == expected["revlog_with_wal"]


def test_hot_journal_is_rolled_back(
    fixtures: Path, oracle: dict[str, Any], tmp_path: Path, no_litter: Path
) -> None:
    folder = tmp_path / "profile"
    shutil.copytree(fixtures / "hot-journal", folder)
    _make_writable(folder)
    before = folder_state(folder)
    log = load_log(folder / "collection.anki2")
    assert log.entries is not None
    assert len(log.entries) == oracle["hot-journal"]["revlog"]
    assert not (log.entries.rating == 4).any()
    assert folder_state(folder) == before


def _make_writable(folder: Path) -> None:
    """Make the files writable as a user's are, so that SQLite could write here."""
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)


def test_same_collection_in_other_containers_is_the_same_log(fixtures: Path) -> None:
    prints = {
        load_log(fixtures / name).fingerprint()
        for name in (
            "collection.anki2",
            "collection-schema11.anki2",
            "collection.colpkg",
            "collection-legacy.colpkg",
            "repacked-legacy2-no-meta.colpkg",
            "hot-journal/collection.anki2",
        )
    }
    assert len(prints) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("empty-collection.anki2", "empty collection"),
        ("deck-without-scheduling.apkg", "without scheduling"),
        ("broken/path-traversal.colpkg", "empty collection"),
    ],
)
def test_file_without_reviews_is_refused(
    name: str, words: str, fixtures: Path, no_litter: Path
) -> None:
    with pytest.raises(InputError, match=words):
        load_log(fixtures / name)


@pytest.mark.parametrize("name", BROKEN or ["(none here)"])
def test_broken_files_get_one_sentence(name: str, fixtures: Path, no_litter: Path) -> None:
    path = fixtures / "broken" / name
    began = time.process_time()
    if name in READ_ANYWAY:
        assert load_log(path).import_summary.entries_read == READ_ANYWAY[name]
        return
    with pytest.raises(InputError) as caught:
        load_log(path)
    sentence = str(caught.value)
    assert name in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 500
    assert time.process_time() - began < 5


@pytest.mark.starts_program
def test_zip_bombs_are_refused_in_one_gigabyte(fixtures: Path) -> None:
    """Read all three bombs (2.2 GB, 2.2 GB, 300 MB) in a process limited to 1 GB."""
    pytest.importorskip("resource")
    code = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))
from srs_eval.anki_import import load_log
from srs_eval.data.errors import InputError
for path in sys.argv[1:]:
    try:
        load_log(path)
    except InputError:
        continue
    sys.exit(3)
"""
    bombs = sorted(map(str, (fixtures / "broken").glob("bomb-*")))
    assert len(bombs) == 3
    done = subprocess.run([sys.executable, "-c", code, *bombs], timeout=PATIENCE, check=False)
    assert done.returncode == 0


def test_truncated_file_is_refused(fixtures: Path, tmp_path: Path, no_litter: Path) -> None:
    """Check that a file cut at any byte is refused, not read in part."""
    for name in ("quirks.anki2", "quirks.revlog", "repacked-legacy1-no-meta.apkg"):
        content = (fixtures / name).read_bytes()
        for size in np.linspace(1, len(content) - 1, 25).astype(int).tolist():
            cut = tmp_path / name
            cut.write_bytes(content[:size])
            with pytest.raises(InputError):
                load_log(cut)
