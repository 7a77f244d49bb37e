"""`srs-eval dataset make`: participants' files become a data set that is evaluated as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pandas
import pytest

from srs_eval.data.datasets import open_dataset
from tests.cli.program import read_results, run_in_process
from tests.data.anki_files import make_package
from tools.simulated import simulate_learner, write_collection

MODELS = "FSRS-6-preset,FSRS-6,DASH,AVG"


@pytest.fixture(scope="module")
def participants(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A collection, a package, and a CSV file without kinds of review and without decks."""
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
def test_a_batch_on_it_equals_runs_on_the_files(participants: list[Path], tmp_path: Path) -> None:
    out, results = tmp_path / "study", tmp_path / "results"
    made = run_in_process("dataset", "make", *participants, "--out", out, "--timezone", "UTC+9")
    assert made.returncode == 0, made.stderr
    assert "study-mapping.csv tells whose is whose. Keep it, and do not publish it." in made.stdout
    checked = run_in_process("dataset", "verify", out)
    assert "3 users read, no hash to compare: nothing is wrong" in checked.stdout
    done = run_in_process("batch", "--dataset", out, "--models", MODELS, "--out", results)
    assert done.returncode == 0, done.stderr
    for user, path in enumerate(participants, start=1):
        run = run_in_process("run", path, "--models", MODELS, "--timezone", "UTC+9", "--json", "-")
        figures = {each["configuration"]: each for each in json.loads(run.stdout)["results"]}
        without_decks = user == 3
        for name in MODELS.split(",")[without_decks:]:
            found = read_results(results, name)[user]
            assert found["size"] == figures[name]["size"]
            assert found["metrics"]["LogLoss"] == figures[name]["metrics"]["LogLoss"], (path, name)


def test_it_tells_nothing_but_numbers(participants: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "study"
    assert run_in_process("dataset", "make", *participants, "--out", out).returncode == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["study", "study-mapping.csv"]
    files = sorted(each.relative_to(out).as_posix() for each in out.rglob("*.parquet"))
    assert files == [
        *("cards/user_id=1/data.parquet", "cards/user_id=2/data.parquet"),
        *("decks/user_id=1/data.parquet", "decks/user_id=2/data.parquet"),
        *(f"revlogs/user_id={user}/data.parquet" for user in (1, 2, 3)),
    ]
    for file in files:
        content = (out / file).read_bytes()
        assert not any(word in content for word in (b"Ann", b"bob", b"carol", b"pandas"))
        frame = pandas.read_parquet(out / file)
        ids = [each for each in frame if each.endswith("_id")]
        assert (frame[ids] < len(frame) + 3_000).all(axis=None)
    mapping = pandas.read_csv(tmp_path / "study-mapping.csv")
    of = {kind: each.reset_index() for kind, each in mapping.groupby("kind")}
    assert [Path(each).name for each in of["file"].original] == [each.name for each in participants]
    cards = of["card"][of["card"].user == 1].original.astype(int)
    ours = open_dataset(out).load(1).rows
    assert ours is not None
    entries = simulate_learner(11, 1500).log()
    assert entries.entries is not None
    assert set(cards[ours.card_id]) <= set(entries.entries.card_id.tolist())


def test_bad_input_is_one_sentence_and_leaves_nothing(
    participants: list[Path], tmp_path: Path
) -> None:
    torn, none = tmp_path / "torn.csv", tmp_path / "none.csv"
    torn.write_bytes(b"PK\x03\x04 and no more")
    head = "card_id,review_rating,review_time,review_duration\n"
    none.write_text(f"{head}1,0,1700000000000,5\n")
    there = tmp_path / "there"
    there.mkdir()
    before = sorted(tmp_path.iterdir())
    one = participants[0]
    for files, out, words in (
        ((one, torn), "study", "torn.csv"),
        ((one, none), "study", "has no review that counts: leave it out"),
        ((one, tmp_path / "gone"), "study", "does not exist"),
        ((one, one), "study", "hold the same reviews: leave one of them out"),
        ((one,), "there", "is there already"),
        ((one,), "no/study", "there is no folder"),
    ):
        done = run_in_process("dataset", "make", *files, "--out", tmp_path / out)
        assert done.returncode == 2, done.stderr
        assert words in " ".join(done.stderr.split())
        assert done.stderr.count("srs-eval:") == 1
        assert sorted(tmp_path.iterdir()) == before
