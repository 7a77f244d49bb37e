"""The layout of anki-revlogs-10k: the golden users, and made folders with faults."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srs_eval.anki_import import load_log
from srs_eval.cli.main import main
from srs_eval.data import errors
from srs_eval.data.datasets import count_rows, open_dataset
from srs_eval.data.errors import InputError, NotInstalled
from srs_eval.data.reviews import MISSING
from srs_eval.report.inspection import inspect_log
from srs_eval.report.notebook import Results
from tests.helpers.golden import golden_folder, golden_users
from tests.helpers.program import run_in_process
from tools.simulated import simulate_learner, write_dataset

COLUMNS = ("card_id", "day_offset", "rating", "state", "duration", "elapsed_days")


def write_table(folder: Path, table: str, user: int, stem: str = "data", **columns: list) -> Path:
    path = folder / table / f"user_id={user}" / f"{stem}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def data_folder(tmp_path: Path) -> Path:
    for user in (10, 2):
        rows = {name: [1, 2, 1] for name in COLUMNS}
        write_table(tmp_path, "revlogs", user, **rows, elapsed_seconds=[-1, -1, 100])
        write_table(tmp_path, "cards", user, card_id=[2, 1], note_id=[7, 8], deck_id=[5, 6])
        write_table(tmp_path, "decks", user, deck_id=[5, 6], parent_id=[-1, 5], preset_id=[1, 3])
    (tmp_path / "revlogs" / "notes.txt").write_text("not a user")
    return tmp_path


def test_golden_users_have_the_rows_of_their_files() -> None:
    folder = golden_folder() / "dataset"
    dataset = open_dataset(folder)
    assert dataset.users == golden_users()
    for user in dataset.users:
        log = dataset.load(user)
        table = pq.read_table(folder / "revlogs" / f"user_id={user}" / "data.parquet")
        assert log.rows is not None
        assert log.user == user
        assert log.rows.time_of_day_s is None
        for attribute, column_name in zip(
            vars(log.rows), (*COLUMNS, "elapsed_seconds"), strict=False
        ):
            column = getattr(log.rows, attribute)
            assert column.dtype == np.int64
            np.testing.assert_array_equal(column, table.column(column_name).to_numpy())
        assert inspect_log(log).rows["benchmark"].kept == len(table)
    incomplete = dataset.load(111)  # some cards and one deck are missing
    assert incomplete.rows is not None
    decks = incomplete.deck_of(incomplete.rows.card_id)
    assert (decks == MISSING).any()
    presets = incomplete.preset_of(decks)
    assert (presets[decks == MISSING] == MISSING).all()
    assert (presets[(decks != MISSING) & ~np.isin(decks, list(incomplete.decks))] == MISSING).all()


def test_open_dataset_reads_users_cards_decks_and_presets(data_folder: Path) -> None:
    dataset = open_dataset(data_folder)
    assert dataset.users == [2, 10]
    log = dataset.load(10)
    assert log.cards.card_id.tolist() == [1, 2]
    assert log.cards.deck_id.tolist() == [6, 5]
    assert log.decks[5].parent_id is None
    assert log.decks[6].parent_id == 5
    assert log.deck_of(np.array([1, 2, 3])).tolist() == [6, 5, MISSING]
    assert sorted(log.presets) == [1, 3]
    assert log.fingerprint() == dataset.load(2).fingerprint()  # the same reviews


def test_files_of_one_user_are_joined_in_order_of_name(data_folder: Path) -> None:
    write_table(data_folder, "revlogs", 2, "more", **{n: [9] for n in COLUMNS}, elapsed_seconds=[9])
    log = open_dataset(data_folder).load(2)
    assert log.rows is not None
    assert log.rows.card_id.tolist() == [1, 2, 1, 9]


def test_load_log_accepts_a_users_folder_or_file(data_folder: Path) -> None:
    fingerprint = open_dataset(data_folder).load(10).fingerprint()
    folder = data_folder / "revlogs" / "user_id=10"
    assert load_log(data_folder, user=10).fingerprint() == fingerprint
    assert load_log(folder).user == 10
    assert load_log(folder / "data.parquet").fingerprint() == fingerprint
    with pytest.raises(InputError, match="2 users"):
        load_log(data_folder)
    with pytest.raises(InputError, match="not to user 3"):
        load_log(folder, user=3)
    alone = data_folder / "alone.parquet"
    alone.write_bytes((folder / "data.parquet").read_bytes())
    with pytest.raises(InputError, match="outside a data set"):
        load_log(alone)


def test_open_dataset_finds_names_in_the_data_folder(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import srs_eval.data.datasets

    monkeypatch.setattr(srs_eval.data.datasets, "datasets_folder", lambda: data_folder.parent)
    monkeypatch.chdir(data_folder)
    assert open_dataset(data_folder.name).users == [2, 10]
    with pytest.raises(InputError, match="There is no data set nothing-here"):
        open_dataset("nothing-here")
    with pytest.raises(InputError, match="not a folder"):
        open_dataset("../no/such/folder")


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("anki-revlogs-10k", "10,000 users, 727 million reviews, several GB"),
        ("FSRS-Anki-20k", "20,000 users, 1.7 billion reviews, about 20 GB"),
    ],
)
def test_missing_published_data_set_names_the_download_command(
    name: str, size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the message has command, size and licence, and that its examples run."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refusal:
        open_dataset(name)
    message = str(refusal.value)
    assert f"`srs-eval dataset download {name}`" in message
    assert size in message
    assert "not to pass it on" in message
    assert f"https://huggingface.co/datasets/open-spaced-repetition/{name}" in message
    commands = re.findall(r"`srs-eval ([^`]+)`", message)[1:]
    make_command, batch_command = map(shlex.split, commands)
    assert run_in_process(*make_command).returncode == 0
    assert run_in_process(*batch_command, "--models", "AVG").returncode == 0
    with pytest.raises(InputError, match=f"`srs-eval dataset download .*nowhere.*{name}"):
        open_dataset(tmp_path / "nowhere" / name)


def test_users_without_cards_or_decks_are_loaded_with_a_note(data_folder: Path) -> None:
    rows = {name: [1] for name in COLUMNS}
    write_table(data_folder, "revlogs", 3, **rows, elapsed_seconds=[-1])
    dataset = open_dataset(data_folder)
    log = dataset.load(3)
    assert len(log.cards.card_id) == 0
    assert [note.partition(" for")[0] for note in log.import_summary.notes] == [
        "There is no table of cards",
        "There is no table of decks",
    ]
    assert not log.has_decks
    assert dataset.load(2).has_decks
    assert dataset.missing_tables == ()
    shutil.rmtree(data_folder / "decks")
    assert open_dataset(data_folder).missing_tables == ("decks",)
    log = dataset.load(2)
    assert len(log.cards.card_id) == 2
    assert not log.has_decks
    assert "no table of decks" in log.import_summary.notes[0]


@pytest.mark.parametrize("table", [pytest.param("cards", marks=pytest.mark.slow), "decks"])
def test_models_that_need_decks_are_skipped_with_a_reason(table: str, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write_dataset({1: simulate_learner(1, 400), 2: simulate_learner(2, 400)}, folder)
    shutil.rmtree(folder / table / "user_id=2")
    out = tmp_path / "out"
    models = "AVG,SM2,Anki-dry-run-deck"
    done = run_in_process("batch", "--dataset", folder, "--models", models, "--out", out)
    assert done.returncode == 0
    assert "2 x the source has no cards or no decks" in done.stderr
    for name, users in (("AVG", [1, 2]), ("SM2", [1]), ("Anki-dry-run-deck", [1])):
        lines = (out / "result" / f"{name}.jsonl").read_text().splitlines()
        assert [json.loads(line)["user"] for line in lines] == users
    skipped = json.loads((out / "skipped" / "Anki-dry-run-deck.jsonl").read_text())
    assert skipped["user"] == 2
    assert "decks" in skipped["reason"]
    refused = run_in_process(
        "run", folder, "--user", "2", "--partitions", "deck", "--models", "AVG"
    )
    assert refused.returncode == 2
    assert "contains no decks" in refused.stderr
    shutil.rmtree(folder / table)
    refused = run_in_process("batch", "--dataset", folder, "--partitions", "preset", "--out", out)
    assert refused.returncode == 2
    assert f"no folder {table}: leave --partitions preset out" in refused.stderr


def test_empty_folder_of_a_user_is_refused(data_folder: Path) -> None:
    (data_folder / "revlogs" / "user_id=5").mkdir()
    with pytest.raises(InputError, match=r"user_id=5 holds no parquet file"):
        open_dataset(data_folder).load(5)
    with pytest.raises(InputError, match=r"user_id=5 holds no parquet file"):
        load_log(data_folder / "revlogs" / "user_id=5")
    with pytest.raises(InputError, match=r"user_id=5 holds no parquet file"):
        load_log(data_folder, user=5)


def test_missing_or_damaged_files_are_input_errors(
    data_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    dataset = open_dataset(data_folder)
    with pytest.raises(InputError, match="no user 7"):
        dataset.load(7)
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(InputError, match="not a data set"):
        open_dataset(empty)
    (empty / "revlogs").mkdir()
    with pytest.raises(InputError, match="no users"):
        open_dataset(empty)
    rows: dict[str, list] = {name: [1, 2] for name in COLUMNS}
    path = write_table(data_folder, "revlogs", 4, **rows)
    with pytest.raises(InputError, match="elapsed_seconds"):
        dataset.load(4)
    for bad in ([1, None], [1.5, 2.0], ["a", "b"], pa.array([2**64 - 1, 0], pa.uint64())):
        write_table(data_folder, "revlogs", 4, **rows, elapsed_seconds=bad)
        with pytest.raises(InputError, match="user_id=4"):
            dataset.load(4)
    sound = data_folder / "revlogs" / "user_id=2" / "data.parquet"
    content = sound.read_bytes()
    for size in (0, 3, 4, 50, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match="user_id=4"):
            dataset.load(4)
    rng = np.random.default_rng(5)
    for _ in range(150):
        changed = bytearray(content)
        changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        with contextlib.suppress(InputError):  # a changed value may be read as well
            dataset.load(4)


def write_csv_dataset(dataset: Path, target: Path, columns: dict[str, str]) -> None:
    """Write the reviews of a parquet data set in the layout of FSRS-Anki-20k, card by card."""
    for user in open_dataset(dataset).users:
        frame = pandas.read_parquet(dataset / "revlogs" / f"user_id={user}" / "data.parquet")
        frame["review_th"] = range(1, len(frame) + 1)
        frame = frame.rename(columns=columns).drop(columns="day_offset")
        frame = frame.sort_values(["card_id", "review_th"])
        path = target / "dataset" / str(1 + user % 2) / f"{user}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(path, index=False)


@pytest.mark.parametrize("columns", [{}, {"elapsed_days": "delta_t"}], ids=["2024", "2023"])
def test_csv_data_set_has_the_rows_of_the_parquet_one(
    columns: dict[str, str], tmp_path: Path
) -> None:
    """Check all columns of FSRS-Anki-20k against the same reviews in parquet."""
    learners = {7: simulate_learner(7, 500), 8: simulate_learner(8, 400)}
    write_dataset(learners, tmp_path / "parquet")
    write_csv_dataset(tmp_path / "parquet", tmp_path / "csv", columns)
    (tmp_path / "csv" / "revlogs" / "1").mkdir(parents=True)  # the raw files of that data set
    csv_dataset = open_dataset(tmp_path / "csv")
    parquet_dataset = open_dataset(tmp_path / "parquet")
    assert (csv_dataset.layout, parquet_dataset.layout) == ("csv", "parquet")
    assert csv_dataset.users == parquet_dataset.users == [7, 8]
    assert csv_dataset.missing_tables == ("cards", "decks")
    for user in csv_dataset.users:
        log = csv_dataset.load(user)
        expected = parquet_dataset.load(user).rows
        assert log.rows is not None
        assert expected is not None
        for name in ("card_id", "rating", "elapsed_days"):
            np.testing.assert_array_equal(getattr(log.rows, name), getattr(expected, name))
        if not columns:
            for name in ("state", "duration_ms", "elapsed_seconds"):
                np.testing.assert_array_equal(getattr(log.rows, name), getattr(expected, name))
        assert (np.diff(log.rows.day_offset) >= 0).all()
        assert (log.rows.day_offset <= expected.day_offset).all()  # the earliest possible days
        assert count_rows(csv_dataset.table_files("revlogs", user)[0]) == len(log.rows)
        assert count_rows(parquet_dataset.table_files("revlogs", user)[0]) == len(log.rows)
        assert not log.has_decks
    assert load_log(tmp_path / "csv", user=8).user == 8
    out = tmp_path / "out"
    done = run_in_process(
        "batch", "--dataset", tmp_path / "csv", "--models", "AVG,SM2", "--out", out
    )
    assert done.returncode == 0, done.stderr
    assert len((out / "result" / "AVG.jsonl").read_text().splitlines()) == 2
    assert len((out / "skipped" / "SM2.jsonl").read_text().splitlines()) == 2


def test_rows_without_a_final_newline_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "5.csv"
    for content, rows in ((b"", 0), (b"a,b\n", 0), (b"a,b", 0), (b"a\n1\n2", 2), (b"a\n1\n2\n", 2)):
        path.write_bytes(content)
        assert count_rows(path) == rows


def test_csv_data_set_with_duplicate_or_bad_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dataset" / "1").mkdir(parents=True)
    twice = tmp_path / "dataset" / "1" / "5.csv"
    twice.write_text("card_id,review_th,delta_t,rating\n1,1,-1,3\n")
    (tmp_path / "5.csv").write_text(twice.read_text())
    with pytest.raises(InputError, match="User 5 has two files"):
        open_dataset(tmp_path)
    (tmp_path / "5.csv").unlink()
    for content in ("", "a,b,c\n1,2,3\n", "card_id,review_th,delta_t,rating\n1,1,x,3\n"):
        twice.write_text(content)
        with pytest.raises(InputError, match=r"5\.csv"):
            open_dataset(tmp_path).load(5)


def test_ids_of_anki_are_read_and_parent_0_is_no_parent(tmp_path: Path) -> None:
    """Check the layout of anki-revlogs-10k-id, which has the time of each review, too."""
    start_ms = 1_700_000_000_000
    rows = {name: [1, 2, 1] for name in COLUMNS} | {"card_id": [start_ms, start_ms + 1, start_ms]}
    moments = {"review_time": [start_ms, start_ms + 5, start_ms + 9]}
    write_table(tmp_path, "revlogs", 1, **rows, elapsed_seconds=[-1, -1, 100], **moments)
    write_table(
        tmp_path, "cards", 1, card_id=[start_ms], note_id=[start_ms + 2], deck_id=[start_ms + 3]
    )
    write_table(tmp_path, "decks", 1, deck_id=[start_ms + 3], parent_id=[0], preset_id=[1])
    log = open_dataset(tmp_path).load(1)
    assert log.rows is not None
    assert log.rows.card_id.tolist() == rows["card_id"]
    assert log.deck_of(np.array([start_ms, start_ms + 1])).tolist() == [start_ms + 3, MISSING]
    assert log.preset_of(np.array([start_ms + 3])).tolist() == [1]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's memory use")
def test_too_little_memory_for_a_user_is_an_input_error(tmp_path: Path) -> None:
    """Read a user with many reviews in little more memory than the libraries take."""
    rows = {name: np.zeros(2_000_000, np.int64) for name in (*COLUMNS, "elapsed_seconds")}
    write_table(tmp_path, "revlogs", 1, **rows)
    script = (
        "import resource, sys\n"
        "import pyarrow.parquet\n"
        "from srs_eval.data.datasets import open_dataset\n"
        "from srs_eval.data.errors import InputError\n"
        "data = open_dataset(sys.argv[1])\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "limit = pages * resource.getpagesize() + (40 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "try:\n"
        "    data.load(1)\n"
        "except InputError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "needs more memory than is free" in done.stdout, done.stderr
    assert len(open_dataset(tmp_path).load(1).rows or ()) == 2_000_000


@pytest.mark.parametrize(
    ("system", "machine", "reason"),
    [
        ("linux", "x86_64", r"pip install 'srs-eval\[parquet\]'"),
        ("win32", "ARM64", "not published for this kind of machine"),
    ],
)
def test_missing_pyarrow_names_the_package_to_install(
    system: str,
    machine: str,
    reason: str,
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.setattr(errors, "is_installed", lambda module: module != "pyarrow")
    monkeypatch.setattr(errors, "sys", SimpleNamespace(platform=system))
    monkeypatch.setattr(errors, "platform", SimpleNamespace(machine=lambda: machine))
    with pytest.raises(NotInstalled, match=reason):
        open_dataset(data_folder)
    assert (
        main(["batch", "--dataset", str(data_folder), "--raw", "--out", str(tmp_path / "out")]) == 2
    )
    assert re.search(f"--raw needs pyarrow.*{reason}", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_missing_pandas_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "is_installed", lambda module: module != "pandas")
    with pytest.raises(
        NotInstalled, match=r"A frame needs pandas: pip install 'srs-eval\[notebook"
    ):
        Results([], {}, {}, {}).frame()
