"""The anki-revlogs-10k layout: golden's twelve users, and made folders that are not right."""

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
from tests.cli.program import run_in_process
from tests.helpers.golden import golden_folder, golden_users
from tools.simulated import simulate_learner, write_dataset

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
    folder = golden_folder() / "dataset"
    dataset = open_dataset(folder)
    assert dataset.users == golden_users()
    for user in dataset.users:
        log = dataset.load(user)
        table = pq.read_table(folder / "revlogs" / f"user_id={user}" / "data.parquet")
        assert log.rows is not None
        assert log.user == user
        assert log.rows.time_of_day_s is None
        for ours, theirs in zip(vars(log.rows), (*COLUMNS, "elapsed_seconds"), strict=False):
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
    import srs_eval.data.datasets

    monkeypatch.setattr(srs_eval.data.datasets, "datasets_folder", lambda: made.parent)
    monkeypatch.chdir(made)
    assert open_dataset(made.name).users == [2, 10]
    with pytest.raises(InputError, match="There is no data set nothing-here"):
        open_dataset("nothing-here")
    with pytest.raises(InputError, match="no folder"):
        open_dataset("../no/such/folder")


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("anki-revlogs-10k", "10,000 users, 727 million reviews, several GB"),
        ("FSRS-Anki-20k", "20,000 users, 1.7 billion reviews, about 20 GB"),
    ],
)
def test_published_data_set_that_is_not_here_names_the_way(
    name: str, size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command, size and licence, and what can be tried meanwhile, which works as it stands."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refusal:
        open_dataset(name)
    said = str(refusal.value)
    assert f"`srs-eval dataset download {name}`" in said
    assert size in said
    assert "forbids to pass them on" in said
    assert f"https://huggingface.co/datasets/open-spaced-repetition/{name}" in said
    commands = re.findall(r"`srs-eval ([^`]+)`", said)[1:]
    made, evaluated = map(shlex.split, commands)
    assert run_in_process(*made).returncode == 0
    assert run_in_process(*evaluated, "--models", "AVG").returncode == 0
    with pytest.raises(InputError, match=f"`srs-eval dataset download .*nowhere.*{name}"):
        open_dataset(tmp_path / "nowhere" / name)


def test_users_without_cards_or_decks(made: Path) -> None:
    rows = {name: [1] for name in COLUMNS}
    write(made, "revlogs", 3, **rows, elapsed_seconds=[-1])
    dataset = open_dataset(made)
    log = dataset.load(3)
    assert len(log.cards.card_id) == 0
    assert [note.partition(" for")[0] for note in log.import_summary.notes] == [
        "There is no table of cards",
        "There is no table of decks",
    ]
    assert not log.has_decks
    assert dataset.load(2).has_decks
    assert dataset.missing_tables == ()
    shutil.rmtree(made / "decks")
    assert open_dataset(made).missing_tables == ("decks",)
    log = dataset.load(2)
    assert len(log.cards.card_id) == 2
    assert not log.has_decks
    assert "no table of decks" in log.import_summary.notes[0]


@pytest.mark.parametrize("table", [pytest.param("cards", marks=pytest.mark.slow), "decks"])
def test_what_rests_on_decks_is_skipped_by_name(table: str, tmp_path: Path) -> None:
    """Neither a partition that is none, nor a model that vanishes without a word."""
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
    assert "says nothing of decks" in refused.stderr
    shutil.rmtree(folder / table)
    refused = run_in_process("batch", "--dataset", folder, "--partitions", "preset", "--out", out)
    assert refused.returncode == 2
    assert f"no folder {table}: leave --partitions preset out" in refused.stderr


def test_folder_of_a_user_that_is_empty(made: Path) -> None:
    (made / "revlogs" / "user_id=5").mkdir()
    with pytest.raises(InputError, match=r"user_id=5 holds no parquet file"):
        open_dataset(made).load(5)
    with pytest.raises(InputError, match=r"user_id=5 holds no parquet file"):
        load_log(made / "revlogs" / "user_id=5")
    with pytest.raises(InputError, match=r"user_id=5 holds no parquet file"):
        load_log(made, user=5)


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


def write_tables(dataset: Path, target: Path, columns: dict[str, str]) -> None:
    """The reviews of a parquet data set in the layout of FSRS-Anki-20k, by card as there."""
    for user in open_dataset(dataset).users:
        frame = pandas.read_parquet(dataset / "revlogs" / f"user_id={user}" / "data.parquet")
        frame["review_th"] = range(1, len(frame) + 1)
        frame = frame.rename(columns=columns).drop(columns="day_offset")
        frame = frame.sort_values(["card_id", "review_th"])
        path = target / "dataset" / str(1 + user % 2) / f"{user}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(path, index=False)


@pytest.mark.parametrize("columns", [{}, {"elapsed_days": "delta_t"}], ids=["2024", "2023"])
def test_csv_data_set(columns: dict[str, str], tmp_path: Path) -> None:
    """FSRS-Anki-20k: the same reviews as in parquet, and all that its columns tell of them."""
    learners = {7: simulate_learner(7, 500), 8: simulate_learner(8, 400)}
    write_dataset(learners, tmp_path / "parquet")
    write_tables(tmp_path / "parquet", tmp_path / "csv", columns)
    (tmp_path / "csv" / "revlogs" / "1").mkdir(parents=True)  # the raw files of that data set
    ours, theirs = open_dataset(tmp_path / "csv"), open_dataset(tmp_path / "parquet")
    assert (ours.layout, theirs.layout) == ("csv", "parquet")
    assert ours.users == theirs.users == [7, 8]
    assert ours.missing_tables == ("cards", "decks")
    for user in ours.users:
        log, expected = ours.load(user), theirs.load(user).rows
        assert log.rows is not None
        assert expected is not None
        for name in ("card_id", "rating", "elapsed_days"):
            np.testing.assert_array_equal(getattr(log.rows, name), getattr(expected, name))
        if not columns:
            for name in ("state", "duration_ms", "elapsed_seconds"):
                np.testing.assert_array_equal(getattr(log.rows, name), getattr(expected, name))
        assert (np.diff(log.rows.day_offset) >= 0).all()
        assert (log.rows.day_offset <= expected.day_offset).all()  # the earliest days
        assert count_rows(ours.table_files("revlogs", user)[0]) == len(log.rows)
        assert count_rows(theirs.table_files("revlogs", user)[0]) == len(log.rows)
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


def test_csv_data_set_refuses(tmp_path: Path) -> None:
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


def test_real_ids(tmp_path: Path) -> None:
    """anki-revlogs-10k-id: Anki's own ids, the moment of each review, 0 for no parent."""
    now = 1_700_000_000_000
    rows = {name: [1, 2, 1] for name in COLUMNS} | {"card_id": [now, now + 1, now]}
    moments = {"review_time": [now, now + 5, now + 9]}
    write(tmp_path, "revlogs", 1, **rows, elapsed_seconds=[-1, -1, 100], **moments)
    write(tmp_path, "cards", 1, card_id=[now], note_id=[now + 2], deck_id=[now + 3])
    write(tmp_path, "decks", 1, deck_id=[now + 3], parent_id=[0], preset_id=[1])
    log = open_dataset(tmp_path).load(1)
    assert log.rows is not None
    assert log.rows.card_id.tolist() == rows["card_id"]
    assert log.deck_of(np.array([now, now + 1])).tolist() == [now + 3, MISSING]
    assert log.preset_of(np.array([now + 3])).tolist() == [1]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's memory use")
def test_too_little_memory_is_said_as_that(tmp_path: Path) -> None:
    """A user with many reviews, read with little more memory than the libraries take."""
    rows = {name: np.zeros(2_000_000, np.int64) for name in (*COLUMNS, "elapsed_seconds")}
    write(tmp_path, "revlogs", 1, **rows)
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
    ("system", "machine", "says"),
    [
        ("linux", "x86_64", r"pip install 'srs-eval\[parquet\]'"),
        ("win32", "ARM64", "not published for this kind of machine"),
    ],
)
def test_without_pyarrow(
    system: str,
    machine: str,
    says: str,
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.setattr(errors, "is_installed", lambda module: module != "pyarrow")
    monkeypatch.setattr(errors, "sys", SimpleNamespace(platform=system))
    monkeypatch.setattr(errors, "platform", SimpleNamespace(machine=lambda: machine))
    with pytest.raises(NotInstalled, match=says):
        open_dataset(made)
    assert main(["batch", "--dataset", str(made), "--raw", "--out", str(tmp_path / "out")]) == 2
    assert re.search(f"--raw needs pyarrow.*{says}", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "is_installed", lambda module: module != "pandas")
    with pytest.raises(
        NotInstalled, match=r"A frame needs pandas: pip install 'srs-eval\[notebook"
    ):
        Results([], {}, {}, {}).frame()
