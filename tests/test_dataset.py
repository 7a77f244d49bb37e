"""The anki-revlogs-10k layout: golden's twelve users, and made folders that are not right."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srs_eval.anki_import import load_log
from srs_eval.dataset import open_dataset
from srs_eval.errors import InputError
from srs_eval.inspection import inspect_log
from srs_eval.reviews import MISSING
from tests.conftest import shared_or_skip

COLUMNS = ("card_id", "day_offset", "rating", "state", "duration", "elapsed_days")


def write(folder: Path, table: str, user: int, part: str = "data", **columns: list) -> Path:
    path = folder / table / f"user_id={user}" / f"{part}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def made(tmp_path: Path) -> Path:
    for user in (10, 2):
        rows = {name: [1, 2, 1] for name in COLUMNS}
        write(tmp_path, "revlogs", user, **rows, elapsed_seconds=[-1, -1, 100])
        write(tmp_path, "cards", user, card_id=[2, 1], note_id=[7, 8], deck_id=[5, 6])
        write(tmp_path, "decks", user, deck_id=[5, 6], parent_id=[-1, 5], preset_id=[1, 3])
    (tmp_path / "revlogs" / "notes.txt").write_text("not a user")
    return tmp_path


def test_golden_users() -> None:
    folder = shared_or_skip("golden", "dataset")
    dataset = open_dataset(folder)
    assert dataset.users == list(range(101, 113))
    for user in dataset.users:
        log = dataset.load(user)
        table = pq.read_table(folder / "revlogs" / f"user_id={user}" / "data.parquet")
        assert log.rows is not None
        assert log.user == user
        for ours, theirs in zip(log.rows.__dict__, (*COLUMNS, "elapsed_seconds"), strict=True):
            column = getattr(log.rows, ours)
            assert column.dtype == np.int64
            np.testing.assert_array_equal(column, table.column(theirs).to_numpy())
        assert inspect_log(log).rows["benchmark"].kept == len(table)
    odd = dataset.load(111)  # some cards and one deck are missing
    assert odd.rows is not None
    decks = odd.deck_of(odd.rows.card_id)
    assert (decks == MISSING).any()
    presets = odd.preset_of(decks)
    assert (presets[decks == MISSING] == MISSING).all()
    assert (presets[(decks != MISSING) & ~np.isin(decks, list(odd.decks))] == MISSING).all()


def test_made(made: Path) -> None:
    dataset = open_dataset(made)
    assert dataset.users == [2, 10]
    log = dataset.load(10)
    assert log.cards.card_id.tolist() == [1, 2]
    assert log.cards.deck_id.tolist() == [6, 5]
    assert log.decks[5].parent_id is None
    assert log.decks[6].parent_id == 5
    assert log.deck_of(np.array([1, 2, 3])).tolist() == [6, 5, MISSING]
    assert sorted(log.presets) == [1, 3]
    assert log.fingerprint() == dataset.load(2).fingerprint()  # the same reviews


def test_parts_are_joined_in_order(made: Path) -> None:
    write(made, "revlogs", 2, "more", **{n: [9] for n in COLUMNS}, elapsed_seconds=[9])
    log = open_dataset(made).load(2)
    assert log.rows is not None
    assert log.rows.card_id.tolist() == [1, 2, 1, 9]


def test_paths_that_name_a_user(made: Path) -> None:
    wanted = open_dataset(made).load(10).fingerprint()
    folder = made / "revlogs" / "user_id=10"
    assert load_log(made, user=10).fingerprint() == wanted
    assert load_log(folder).user == 10
    assert load_log(folder / "data.parquet").fingerprint() == wanted
    with pytest.raises(InputError, match="2 users"):
        load_log(made)
    with pytest.raises(InputError, match="not user 3"):
        load_log(folder, user=3)
    alone = made / "alone.parquet"
    alone.write_bytes((folder / "data.parquet").read_bytes())
    with pytest.raises(InputError, match="outside a data set"):
        load_log(alone)


def test_name_in_the_data_folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import srs_eval.dataset

    monkeypatch.setattr(srs_eval.dataset, "datasets_folder", lambda: made.parent)
    monkeypatch.chdir(made)
    assert open_dataset(made.name).users == [2, 10]
    with pytest.raises(InputError, match="There is no data set nothing-here"):
        open_dataset("nothing-here")
    with pytest.raises(InputError, match="no folder"):
        open_dataset("../no/such/folder")


def test_users_without_cards(made: Path) -> None:
    rows = {name: [1] for name in COLUMNS}
    write(made, "revlogs", 3, **rows, elapsed_seconds=[-1])
    log = open_dataset(made).load(3)
    assert len(log.cards.card_id) == 0
    assert log.receipt.notes == ("There is no table of cards for this user.",)


def test_refusals(made: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    dataset = open_dataset(made)
    with pytest.raises(InputError, match="no user 7"):
        dataset.load(7)
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(InputError, match="no data set"):
        open_dataset(empty)
    (empty / "revlogs").mkdir()
    with pytest.raises(InputError, match="no users"):
        open_dataset(empty)
    rows: dict[str, list] = {name: [1, 2] for name in COLUMNS}
    path = write(made, "revlogs", 4, **rows)
    with pytest.raises(InputError, match="elapsed_seconds"):
        dataset.load(4)
    for bad in ([1, None], [1.5, 2.0], ["a", "b"], pa.array([2**64 - 1, 0], pa.uint64())):
        write(made, "revlogs", 4, **rows, elapsed_seconds=bad)
        with pytest.raises(InputError, match="user_id=4"):
            dataset.load(4)
    sound = made / "revlogs" / "user_id=2" / "data.parquet"
    content = sound.read_bytes()
    for part in (0, 3, 4, 50, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:part])
        with pytest.raises(InputError, match="user_id=4"):
            dataset.load(4)
    rng = np.random.default_rng(5)
    for _ in range(150):
        changed = bytearray(content)
        changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        with contextlib.suppress(InputError):  # a changed value may be read, nothing else happens
            dataset.load(4)
