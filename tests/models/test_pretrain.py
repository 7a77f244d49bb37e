"""Model files that learn from other users first: `models pretrain` and --weights."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save

from srs_eval.benchmark.plan import survey_dataset
from srs_eval.data.datasets import open_dataset, write_user
from srs_eval.data.recognition import Sketches
from srs_eval.data.reviews import LEARNING, REVIEW, DayGrid, Entries, IntArray, ReviewLog
from tests.helpers.documents import GUIDE, python_blocks
from tests.helpers.own_models import WORDS
from tests.helpers.program import read_results, run_in_process, run_program
from tools.simulated import simulate_learner, write_collection, write_dataset

MEAN = """
import numpy as np
from srs_eval.models import TrainedModel


def pretrain(learners, context):
    return {"mean": np.array([np.mean([trials.y.mean() for trials in learners])])}


def predict(trials, w, index, context):
    return np.full(len(index), context.pretrained.get("mean", [0.5])[0])


MODELS = (
    TrainedModel(
        name="MEAN", family="other", inputs="-", parameters=0, source="a test",
        predict=predict, pretrain=pretrain,
    ),
)
"""
USERS = range(1, 6)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset") / "data"
    write_dataset({user: simulate_learner(user, 400) for user in USERS}, folder)
    return folder


@pytest.fixture
def mean(tmp_path: Path) -> Path:
    path = tmp_path / "mean.py"
    path.write_text(MEAN, encoding="utf-8")
    return path


def run_pretrain(model: Path, dataset: Path, users: str, out: Path) -> None:
    words = ("--dataset", str(dataset), "--users", users, "--out", str(out))
    done = run_in_process("models", "pretrain", str(model), *words)
    assert done.returncode == 0, done.stderr


def run_batch(
    model: Path, dataset: Path, names: str, weights: Path | None, out: Path, *flags: str
) -> subprocess.CompletedProcess[str]:
    words = ("--dataset", str(dataset), "--model-file", str(model), "--models", names)
    weights_flags = () if weights is None else ("--weights", str(weights))
    return run_in_process("batch", *words, *weights_flags, "--out", str(out), "--jobs", "0", *flags)


def read_users(out: Path, name: str) -> list[int]:
    return [*read_results(out, name)]


@pytest.mark.slow
def test_batch_skips_trained_users_unless_seen_users_is_given(
    mean: Path, dataset: Path, tmp_path: Path
) -> None:
    weights = tmp_path / "first.safetensors"
    out = tmp_path / "out"
    run_pretrain(mean, dataset, "1-2", weights)
    done = run_batch(mean, dataset, "MEAN,AVG", weights, out)
    assert done.returncode == 0, done.stderr
    assert "first.safetensors was trained on users 1-2; use --seen-users" in done.stderr
    assert read_users(out, "MEAN") == [3, 4, 5]
    assert read_users(out, "AVG") == [*USERS]
    setup = json.loads((out / "setup.json").read_text("utf-8"))["configurations"]
    assert setup["MEAN"]["pretrained"].endswith("trained on users 1-2")
    assert "pretrained" not in setup["AVG"]
    seen = run_batch(mean, dataset, "MEAN,AVG", weights, out, "--seen-users")
    assert seen.returncode == 2
    assert "seen_users was none and is on now" in seen.stderr
    seen = run_batch(mean, dataset, "MEAN,AVG", weights, tmp_path / "all", "--seen-users")
    assert seen.returncode == 0, seen.stderr
    assert read_users(tmp_path / "all", "MEAN") == [*USERS]

    other_weights = tmp_path / "other.safetensors"
    run_pretrain(mean, dataset, "1-3", other_weights)
    changed = run_batch(mean, dataset, "MEAN,AVG", other_weights, out)
    assert changed.returncode == 2
    unused = run_batch(mean, dataset, "AVG", weights, tmp_path / "none")
    assert unused.returncode == 2
    assert "has weights of MEAN, which is not among the models" in unused.stderr
    again = run_in_process(
        "models",
        "pretrain",
        str(mean),
        "--dataset",
        str(dataset),
        "--users",
        "1-2",
        "--out",
        str(weights),
    )
    assert again.returncode == 2
    assert "not overwritten" in again.stderr


@pytest.mark.slow
def test_two_halves_evaluate_each_user_by_the_other_half(
    mean: Path, dataset: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "halves"
    folder.mkdir()
    expected = {}
    for users, evaluated in (("1-2", (3, 4, 5)), ("3-5", (1, 2))):
        path = folder / f"on-{users}.safetensors"
        run_pretrain(mean, dataset, users, path)
        expected |= dict.fromkeys(evaluated, float(load_file(path)["mean"][0]))
    done = run_batch(mean, dataset, "MEAN", folder, tmp_path / "out", "--raw")
    assert done.returncode == 0, done.stderr
    assert read_users(tmp_path / "out", "MEAN") == [*USERS]
    for user, line in read_results(tmp_path / "out", "MEAN").items():
        table = pq.read_table(
            tmp_path / "out" / "raw" / "MEAN" / f"user_id={user}.parquet", partitioning=None
        )
        np.testing.assert_allclose(table["p"].to_numpy(), expected[user], atol=1e-6)
        assert line["size"] == len(table)


@pytest.fixture(scope="module")
def renumbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write another data set: user 1 is new, users 7 and 8 are users 1 and 4 of `dataset`."""
    folder = tmp_path_factory.mktemp("renumbered") / "data"
    learners = {1: simulate_learner(11, 400), 7: simulate_learner(1, 400)}
    write_dataset({**learners, 8: simulate_learner(4, 400)}, folder)
    return folder


def read_training_metadata(weights: Path) -> dict[str, Any]:
    """Read what a file of weights records about its training."""
    with safe_open(weights, "numpy") as file:
        training: dict[str, Any] = json.loads(file.metadata()["srs-eval"])
    return training


def test_people_are_recognised_by_reviews_not_by_user_number(
    mean: Path, dataset: Path, renumbered: Path, tmp_path: Path
) -> None:
    weights = tmp_path / "first.safetensors"
    out = tmp_path / "out"
    run_pretrain(mean, dataset, "1-2", weights)
    done = run_batch(mean, renumbered, "MEAN", weights, out)
    assert done.returncode == 0, done.stderr
    assert read_users(out, "MEAN") == [1, 8]
    words = "first.safetensors was trained on this person, under another number among its users"
    assert f"skipped: 1 x {words} 1-2; use --seen-users" in done.stderr
    done = run_batch(mean, renumbered, "MEAN", weights, tmp_path / "all", "--seen-users")
    assert read_users(tmp_path / "all", "MEAN") == [1, 7, 8]


def test_halves_are_chosen_by_reviews(
    mean: Path, dataset: Path, renumbered: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "halves"
    folder.mkdir()
    for users in ("1-2", "3-5"):
        run_pretrain(mean, dataset, users, folder / f"on-{users}.safetensors")
    done = run_batch(mean, renumbered, "MEAN", folder, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    timing = (tmp_path / "out" / "timing" / "MEAN.jsonl").read_text("utf-8").splitlines()
    notes = {line["user"]: line["notes"][0] for line in map(json.loads, timing)}
    assert "on-3-5.safetensors" in notes[7]
    assert "on-1-2.safetensors" in notes[8]


def test_weights_record_their_training_data(
    mean: Path, dataset: Path, renumbered: Path, tmp_path: Path
) -> None:
    weights = tmp_path / "first.safetensors"
    run_pretrain(mean, dataset, "1-2", weights)
    training = read_training_metadata(weights)
    assert (training["model"], training["users"]) == ("MEAN", "1-2")
    assert training["data"] == survey_dataset(open_dataset(dataset))[0]
    assert len(training["sketches"]) == 2
    assert all(len(sketch) < 400 for sketch in training["sketches"])
    sketches = Sketches.of(training["sketches"])
    assert sketches.recognise(open_dataset(renumbered).load(7))
    assert sketches.recognise(open_dataset(dataset).load(1))
    assert not sketches.recognise(open_dataset(dataset).load(3))


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write data sets of the same three people: as they were at first, and with later reviews.

    Later on user 1 has another rollover, and user 2 has reset some cards.
    """
    folder = tmp_path_factory.mktemp("exports")
    later = [simulate_learner(seed, 800).log() for seed in (21, 22, 23)]
    for user, log in enumerate(later, start=1):
        write_user(folder / "first", user, first_entries(log, 400))
    grid = later[0].day_grid
    assert grid is not None
    later[0] = replace(later[0], day_grid=DayGrid(grid.next_day_at_s + 12 * 3600, "moved"))
    later[1] = without_beginning(later[1], np.unique(later[1].reviews.card_id)[:10])
    for user, log in enumerate((*later, simulate_learner(24, 800).log()), start=1):
        write_user(folder / "later", user, log)
    return folder / "first", folder / "later"


def first_entries(log: ReviewLog, count: int) -> ReviewLog:
    """Return an earlier export, of the first `count` entries."""
    assert log.entries is not None
    columns = {
        name: column[:count] for name, column in vars(log.entries).items() if column is not None
    }
    return replace(log, entries=Entries(**columns))


def without_beginning(log: ReviewLog, cards: IntArray) -> ReviewLog:
    """Return the log with the last review of some cards as a learning start, as after a reset."""
    assert log.entries is not None
    kind = log.entries.kind.copy()
    index = np.arange(len(log.entries))
    for card in cards:
        of_card = index[log.entries.card_id == card]
        kind[of_card] = REVIEW
        kind[of_card[-1]] = LEARNING
    return replace(log, entries=replace(log.entries, kind=kind))


@pytest.mark.slow
def test_people_are_recognised_in_later_exports(
    mean: Path, exports: tuple[Path, Path], tmp_path: Path
) -> None:
    earlier, later = exports
    weights = tmp_path / "first.safetensors"
    run_pretrain(mean, earlier, "1-3", weights)
    done = run_batch(mean, later, "MEAN", weights, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert read_users(tmp_path / "out", "MEAN") == [4]
    assert (
        "skipped: 3 x first.safetensors was trained on users 1-3; use --seen-users" in done.stderr
    )


def test_a_collection_with_reset_cards_is_recognised_in_run(mean: Path, tmp_path: Path) -> None:
    learner = simulate_learner(31, 2_000)
    folder = tmp_path / "data"
    weights = tmp_path / "first.safetensors"
    write_dataset({1: learner, 2: simulate_learner(32, 400)}, folder)
    run_pretrain(mean, folder, "1-2", weights)
    cards = np.unique(learner.entries.card_id)
    changed = without_beginning(learner.log(), cards[: len(cards) // 4])
    collection = tmp_path / "collection.anki2"
    assert changed.entries is not None
    write_collection(replace(learner, entries=changed.entries), collection)
    words = ("--model-file", str(mean), "--models", "MEAN,AVG", "--weights", str(weights))
    done = run_in_process("run", str(collection), *words, "--jobs", "0")
    printed = " ".join((done.stdout + done.stderr).split())
    assert "first.safetensors was trained on this person, under another number" in printed


@pytest.mark.slow
def test_older_weights_recognise_users_by_number_with_a_note(
    mean: Path, dataset: Path, renumbered: Path, tmp_path: Path
) -> None:
    """Check files from before weights recorded people by their reviews."""
    weights = tmp_path / "old.safetensors"
    out = tmp_path / "out"
    old = {"srs-eval": json.dumps({"model": "MEAN", "users": "1-2", "version": "1.0.0"})}
    weights.write_bytes(save({"mean": np.array([0.5])}, old))
    done = run_batch(mean, renumbered, "MEAN", weights, out)
    assert done.returncode == 0, done.stderr
    assert read_users(out, "MEAN") == [7, 8]
    alone = "the file identifies people only by user number, whatever the data set"
    assert f"skipped: 1 x old.safetensors was trained on users 1-2 ({alone})" in done.stderr
    timing = (out / "timing" / "MEAN.jsonl").read_text("utf-8").splitlines()
    assert alone in json.loads(timing[0])["notes"][0]


LINEAR = """
from srs_eval.models.adapters import torch_model


def module():
    import torch

    return torch.nn.Linear(10, 1)


MODELS = (torch_model("LINEAR", module),)
"""


def test_pretraining_prints_and_stores_losses_and_settings(dataset: Path, tmp_path: Path) -> None:
    model = tmp_path / "linear.py"
    weights = tmp_path / "linear.safetensors"
    model.write_text(LINEAR, encoding="utf-8")
    words = ("--dataset", str(dataset), "--users", "1-5", "--out", str(weights))
    done = run_in_process("models", "pretrain", str(model), *words)
    assert done.returncode == 0, done.stderr
    training = read_training_metadata(weights)
    settings = training["settings"]
    assert (settings["seed"], settings["learning_rate"]) == (0, 0.01)
    assert settings["most_epochs"] >= len(training["epochs"]) > 1
    losses = [epoch["held_out_loss"] for epoch in training["epochs"]]
    assert all(0 < loss < 2 for loss in losses)
    assert losses[0] > min(losses)
    assert all(0 < epoch["loss"] < 2 for epoch in training["epochs"])
    assert "seed 0" in done.stderr
    for number, epoch in enumerate(training["epochs"], start=1):
        line = f"epoch {number}: log loss {epoch['loss']:.4f}, held out {losses[number - 1]:.4f}"
        assert line in done.stderr


@pytest.mark.slow
def test_seed_changes_pretraining_and_is_stored(dataset: Path, tmp_path: Path) -> None:
    model = tmp_path / "linear.py"
    model.write_text(LINEAR, encoding="utf-8")
    files = [tmp_path / f"{name}.safetensors" for name in ("plain", "other", "again")]
    for path, seed in zip(files, ("0", "7", "7"), strict=True):
        words = ("--dataset", str(dataset), "--users", "1-3", "--out", str(path), "--seed", seed)
        done = run_in_process("models", "pretrain", str(model), *words)
        assert done.returncode == 0, done.stderr
        assert f"seed {seed}" in done.stderr
        assert read_training_metadata(path)["settings"]["seed"] == int(seed)
    plain, other, again = (path.read_bytes() for path in files)
    assert other == again
    assert other != plain


@pytest.mark.slow
def test_torch_module_of_the_guide_gains_from_pretraining(dataset: Path, tmp_path: Path) -> None:
    """Check fits that start from pretrained weights, and these weights without training."""
    model = tmp_path / "my_gru.py"
    (example,) = (block for block in python_blocks(GUIDE) if "SMALL-GRU" in block)
    model.write_text(example, encoding="utf-8")
    weights = tmp_path / "half.safetensors"
    again = tmp_path / "again.safetensors"
    run_pretrain(model, dataset, "1-3", weights)
    run_pretrain(model, dataset, "1-3", again)
    assert weights.read_bytes() == again.read_bytes()
    done = run_batch(model, dataset, "SMALL-GRU,SMALL-GRU-dry-run,AVG", weights, tmp_path / "with")
    assert done.returncode == 0, done.stderr
    assert read_users(tmp_path / "with", "SMALL-GRU") == [4, 5]
    assert run_batch(model, dataset, "SMALL-GRU", None, tmp_path / "without").returncode == 0

    def loss(out: str, name: str) -> float:
        results = read_results(tmp_path / out, name)
        return float(np.mean([results[user]["metrics"]["LogLoss"] for user in (4, 5)]))

    alone = loss("without", "SMALL-GRU")
    assert loss("with", "SMALL-GRU") < alone
    assert loss("with", "SMALL-GRU-dry-run") < alone
    assert loss("with", "SMALL-GRU") != loss("with", "SMALL-GRU-dry-run")


def read_result_files(folder: Path) -> dict[Path, bytes]:
    """Return the contents of a batch's result files by their paths below `folder`."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("result/*")}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "dask-local"])
def test_workers_and_dask_write_the_same_files(engine: str, dataset: Path, tmp_path: Path) -> None:
    """Run a torch module with weights, a model with a table and trees in one batch."""
    files = {"SMALL-GRU": tmp_path / "gru.py", "WORDS": tmp_path / "words.py"}
    (example,) = (block for block in python_blocks(GUIDE) if "SMALL-GRU" in block)
    files["SMALL-GRU"].write_text(example, encoding="utf-8")
    files["WORDS"].write_text(WORDS, encoding="utf-8")
    weights = tmp_path / "half.safetensors"
    table = tmp_path / "words.csv"
    table.write_text("user_id,card_id,frequency\n4,1,2.5\n4,2,1\n5,1,3\n", encoding="utf-8")
    run_pretrain(files["SMALL-GRU"], dataset, "1-3", weights)
    words = ["--dataset", dataset, "--users", "4-5", "--weights", weights, "--features", table]
    words += ["--models", "GradientBoosting,SMALL-GRU,WORDS,AVG"]
    for path in files.values():
        words += ["--model-file", path]
    for out, flags in (("one", ("--jobs", 0)), ("many", ("--jobs", 2, "--engine", engine))):
        run = run_in_process if out == "one" else run_program
        done = run("batch", *words, "--out", tmp_path / out, *flags)
        assert done.returncode == 0, done.stderr
    by_one_process = read_result_files(tmp_path / "one")
    by_workers = read_result_files(tmp_path / "many")
    assert len(by_one_process) == 4
    assert by_one_process == by_workers


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("FSRS-6", "--users", "1-3", "--out", "w.safetensors"), "FSRS-6 has no pretrain"),
        (
            ("{mean}", "--users", "1-3", "--out", "w.safetensors", "--seed", "1"),
            "has no hyperparameter SEED",
        ),
        (("{mean}", "--users", "1", "--out", "w.safetensors"), "1 of these users"),
        (("{mean}", "--users", "1-3"), "takes a file with one model"),
    ],
)
def test_pretrain_refuses_unusable_models_and_users(
    words: tuple[str, ...], message: str, mean: Path, dataset: Path, tmp_path: Path
) -> None:
    arguments = [word.format(mean=mean) for word in words]
    arguments = [
        str(tmp_path / argument) if argument.endswith("safetensors") else argument
        for argument in arguments
    ]
    done = run_in_process("models", "pretrain", *arguments, "--dataset", str(dataset))
    assert done.returncode == 2
    assert message in done.stderr
