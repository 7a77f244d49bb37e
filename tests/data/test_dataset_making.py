"""`srs-eval dataset make`: participants' files become a data set with the same results."""

from __future__ import annotations

import json
from pathlib import Path

import pandas
import pytest

from srs_eval.data.datasets import open_dataset
from tests.helpers.anki_files import make_package
from tests.helpers.program import read_results, run_in_process
from tools.simulated import simulate_learner, write_collection

MODELS = "FSRS-6-preset,FSRS-6,DASH,AVG"


@pytest.fixture(scope="module")
def participants(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write a collection, a package, and a CSV file without kinds of review and decks."""
    folder = tmp_path_factory.mktemp("participants")
    paths = [folder / name for name in ("Ann Lee.anki2", "bob.colpkg", "=carol.csv")]
    write_collection(simulate_learner(11, 1500), paths[0])
    write_collection(simulate_learner(12, 1300), folder / "bob")
    make_package(paths[1], (folder / "bob").read_bytes())
    entries = simulate_learner(13, 1200).entries
    answers = pandas.DataFrame(
        {
            "card_id": entries.card_id,
            "review_time": entries.time_ms,
            "review_rating": entries.rating,
            "review_duration": entries.duration_ms,
        }
    )
    answers[answers.review_rating > 0].to_csv(paths[2], index=False)
    return paths


@pytest.mark.slow
def test_batch_on_a_made_data_set_equals_runs_on_the_files(
    participants: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "study"
    results = tmp_path / "results"
    make_process = run_in_process(
        "dataset", "make", *participants, "--out", out, "--timezone", "UTC+9"
    )
    assert make_process.returncode == 0, make_process.stderr
    assert (
        "study-mapping.csv records which file became which user. Keep it, and do not publish it."
        in make_process.stdout
    )
    checked = run_in_process("dataset", "verify", out)
    assert "3 users read, no hash to compare: nothing is wrong" in checked.stdout
    done = run_in_process("batch", "--dataset", out, "--models", MODELS, "--out", results)
    assert done.returncode == 0, done.stderr
    for user, path in enumerate(participants, start=1):
        run = run_in_process("run", path, "--models", MODELS, "--timezone", "UTC+9", "--json", "-")
        figures = {result["configuration"]: result for result in json.loads(run.stdout)["results"]}
        names = MODELS.split(",")
        if user == 3:
            names.remove("FSRS-6-preset")  # this file has no decks
        for name in names:
            line = read_results(results, name)[user]
            assert line["size"] == figures[name]["size"]
            assert line["metrics"]["LogLoss"] == figures[name]["metrics"]["LogLoss"], (path, name)


def test_made_data_set_contains_no_names_and_no_real_ids(
    participants: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "study"
    assert run_in_process("dataset", "make", *participants, "--out", out).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study", "study-mapping.csv"]
    files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.parquet"))
    assert files == [
        "cards/user_id=1/data.parquet",
        "cards/user_id=2/data.parquet",
        "decks/user_id=1/data.parquet",
        "decks/user_id=2/data.parquet",
        "revlogs/user_id=1/data.parquet",
        "revlogs/user_id=2/data.parquet",
        "revlogs/user_id=3/data.parquet",
    ]
    for file in files:
        content = (out / file).read_bytes()
        assert not any(word in content for word in (b"Ann", b"bob", b"carol", b"pandas"))
        frame = pandas.read_parquet(out / file)
        ids = [column for column in frame if column.endswith("_id")]
        assert (frame[ids] < len(frame) + 3_000).all(axis=None)
    mapping = pandas.read_csv(tmp_path / "study-mapping.csv")
    by_kind = {kind: rows.reset_index() for kind, rows in mapping.groupby("kind")}
    file_names = [Path(path).name for path in by_kind["file"].original]
    assert file_names == [path.name for path in participants]
    cards = by_kind["card"]
    original_ids = cards[cards.user == 1].original.astype(int)
    rows = open_dataset(out).load(1).rows
    assert rows is not None
    log = simulate_learner(11, 1500).log()
    assert log.entries is not None
    assert set(original_ids[rows.card_id]) <= set(log.entries.card_id.tolist())


def test_bad_input_is_refused_and_leaves_no_files(participants: list[Path], tmp_path: Path) -> None:
    torn = tmp_path / "torn.csv"
    none = tmp_path / "none.csv"
    torn.write_bytes(b"PK\x03\x04 and no more")
    head = "card_id,review_rating,review_time,review_duration\n"
    none.write_text(f"{head}1,0,1700000000000,5\n")
    existing = tmp_path / "there"
    existing.mkdir()
    before = sorted(tmp_path.iterdir())
    sound = participants[0]
    for files, out, words in (
        ((sound, torn), "study", "torn.csv"),
        ((sound, none), "study", "has no usable review: leave it out"),
        ((sound, tmp_path / "gone"), "study", "does not exist"),
        ((sound, sound), "study", "hold the same reviews: leave one of them out"),
        ((sound,), "there", "exists already"),
        ((sound,), "no/study", "there is no folder"),
    ):
        done = run_in_process("dataset", "make", *files, "--out", tmp_path / out)
        assert done.returncode == 2, done.stderr
        assert words in " ".join(done.stderr.split())
        assert done.stderr.count("srs-eval:") == 1
        assert sorted(tmp_path.iterdir()) == before
