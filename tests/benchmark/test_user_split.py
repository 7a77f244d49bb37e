"""Check `batch --split users`: a model learns from other users only, and nothing is done twice."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import srs_eval
from srs_eval.benchmark.plan import TrainingOnOthers, survey_dataset
from srs_eval.benchmark.setup import add_labels
from srs_eval.cli.exit_codes import BAD_INPUT, PARTIAL_FAILURE
from srs_eval.data.datasets import format_id_ranges, open_dataset, parse_id_ranges
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.splits import deal_users
from srs_eval.models import Ensemble, all_models, load_model_file
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training.networks import read_pretrained_file
from tests.conftest import PATIENCE, REPOSITORY
from tests.helpers.batches import read_lines, read_outcomes
from tests.helpers.program import batches_in_process, run_in_process, run_program
from tools.simulated import simulate_learner, write_dataset

GOLDEN = REPOSITORY / "tests" / "golden" / "dataset"
USERS = (102, 108, 110, 111)
NAME = "LEARNT-split-users-n_splits-2"
DRY_RUN = "LEARNT-dry-run-split-users-n_splits-2"
LEARNT = """
import time
from pathlib import Path

import numpy as np
from srs_eval.models import TrainedModel
from srs_eval.training.hyperparameters import SEED


FOLDER = Path(__file__).parent  # its files *.log are not part of the model


def note(word, users):
    with open(FOLDER / "trainings.log", "a") as file:
        file.write(word + " " + " ".join(map(str, users)) + "\\n")


def is_named(name, users):
    path = FOLDER / name
    return path.exists() and int(path.read_text()) in users


def pretrain(learners, context):
    users = [trials.log.user for trials in learners if trials.log.user is not None]
    if users:  # the check of the model has simulated learners
        note("began", users)
    if is_named("stuck.log", users):
        time.sleep(600)
    if is_named("fails.log", users):
        raise ValueError("too hard")
    context.record.begin(seed=SEED.integer_in(context), secs=float(learners[0].protocol.secs))
    context.tick(0.5)
    context.record.add_epoch(0.4)
    mean = np.mean([trials.y.mean() for trials in learners])
    if users:
        note("ended", users)
    return {"mean": np.array([mean + SEED.integer_in(context) / 1000]), "users": np.array(users)}


def start(trials, context):
    users = context.pretrained.get("users", np.array([]))
    assert trials.log.user not in users, "trained on the evaluated user"
    return context.pretrained.get("mean", np.array([0.5]))[0]


def fit(trials, train, weights, context):
    return [float((trials.y[train].sum() + 50 * start(trials, context)) / (len(train) + 50))]


def predict(trials, w, index, context):
    return np.full(len(index), w[0] if w else start(trials, context))


MODELS = (
    TrainedModel(
        name="LEARNT", family="other", inputs="-", parameters=1, source="a test",
        predict=predict, pretrain=pretrain, fit=fit, default=lambda context: [],
        hyperparameters=(SEED,), flags=frozenset({"secs"}),
    ),
)
"""


def write_model(folder: Path) -> Path:
    """Write the model into a folder of its own, in which it notes its trainings."""
    path = folder / "model" / "learnt.py"
    path.parent.mkdir()
    path.write_text(LEARNT, encoding="utf-8")
    return path


def read_training_users(model: Path, word: str = "ended") -> list[list[int]]:
    """Return the users of each training that has ended (or began) ."""
    path = model.with_name("trainings.log")
    lines = path.read_text().splitlines() if path.exists() else []
    noted = [line.split() for line in lines]
    return [[int(user) for user in users] for noted_word, *users in noted if noted_word == word]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path)


@pytest.fixture(scope="module")
def first_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the copy of the model of which the results `out` are."""
    return write_model(tmp_path_factory.mktemp("first"))


def batch_arguments(model: Path, out: Path, *options: object, models: str) -> list[object]:
    start = ["batch", "--dataset", GOLDEN, "--split", "users", "--n_splits", "2"]
    return [*start, "--model-file", model, "--models", models, "--out", out, *options]


def call_batch(
    model: Path, out: Path, *options: object, models: str = "LEARNT,LEARNT-dry-run,AVG,HLR"
) -> subprocess.CompletedProcess[str]:
    return run_in_process(*batch_arguments(model, out, *options, models=models))


@pytest.fixture(scope="module")
def out(first_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    done = call_batch(first_model, folder, "--raw")
    assert done.returncode == 0, done.stderr
    assert "before that, 2 training runs on other users" in done.stderr
    return folder


def weights_of(out: Path, part: int, name: str = NAME) -> Path:
    return out / "pretrained" / name / f"part-{part}.safetensors"


def read_setup(out: Path) -> dict[str, Any]:
    setup: dict[str, Any] = json.loads((out / "setup.json").read_text(encoding="utf-8"))
    return setup


# --- what a model learns from


def test_weights_of_a_part_were_trained_on_the_other_users(out: Path, first_model: Path) -> None:
    parts = deal_users(USERS, 2)
    assert read_training_users(first_model)[-2:] == [list(parts[1]), list(parts[0])]
    fingerprint, _ = survey_dataset(open_dataset(GOLDEN))
    for number, part in enumerate(parts, start=1):
        others = set(USERS).difference(part)
        assert set(load_file(weights_of(out, number))["users"].tolist()) == others
        file = read_pretrained_file(weights_of(out, number))
        spans = parse_id_ranges(file.users)
        assert {user for first, last in spans for user in range(first, last + 1)} == others
        assert file.left_out == f"part {number} of 2"
        assert file.settings["seed"] == 0
        assert len(file.epochs) == 1
        for user in USERS:
            assert file.has_seen(open_dataset(GOLDEN).load(user)) == (user in others)
    metadata = read_pretrained_file(weights_of(out, 1))
    assert fingerprint.encode() in weights_of(out, 1).read_bytes()
    assert metadata.model == "LEARNT"


def test_each_user_is_predicted_by_weights_of_other_users(out: Path) -> None:
    import pyarrow.parquet as pq

    for number, part in enumerate(deal_users(USERS, 2), start=1):
        mean = load_file(weights_of(out, number))["mean"][0]
        for user in part:
            path = f"user_id={user}.parquet"
            untouched = pq.read_table(out / "raw" / DRY_RUN / path, partitioning=None).to_pandas()
            np.testing.assert_allclose(untouched["p"], mean, atol=1e-6)
            fitted = pq.read_table(out / "raw" / NAME / path, partitioning=None).to_pandas()
            average = pq.read_table(out / "raw" / "AVG" / path, partitioning=None).to_pandas()
            assert fitted["review_th"].tolist() == average["review_th"].tolist()
            # Its own fits in five folds begin at these weights, and have gone some of the way.
            assert fitted["fold"].nunique() == 5
            by_fold = fitted.groupby("fold")["p"].first()
            goal = average.groupby("fold")["p"].first()
            assert ((by_fold - mean) * (goal - by_fold) >= -1e-9).all()
            assert by_fold.nunique() > 1


def test_figures_are_those_of_pretraining_and_weights_by_hand(
    model: Path, out: Path, tmp_path: Path
) -> None:
    first, second = deal_users(USERS, 2)
    weights = tmp_path / "second.safetensors"
    pretrained = run_in_process(
        *("models", "pretrain", model, "--dataset", GOLDEN, "--out", weights),
        *("--users", format_id_ranges(second)),
    )
    assert pretrained.returncode == 0, pretrained.stderr
    done = run_in_process(
        *("batch", "--dataset", GOLDEN, "--users", format_id_ranges(first), "--weights", weights),
        *("--model-file", model, "--models", "LEARNT,LEARNT-dry-run", "--out", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    for name, split_name in (("LEARNT", NAME), ("LEARNT-dry-run", DRY_RUN)):
        by_hand = read_lines(tmp_path / "out" / "result" / f"{name}.jsonl")
        by_split = read_lines(out / "result" / f"{split_name}.jsonl")
        assert by_hand == {user: by_split[user] for user in first}


def test_other_models_are_evaluated_as_always_under_plain_names(out: Path, tmp_path: Path) -> None:
    names = {path.stem for path in (out / "result").iterdir()}
    assert names == {NAME, DRY_RUN, "AVG", "HLR"}
    done = run_in_process(*("batch", "--dataset", GOLDEN, "--models", "AVG,HLR", "--out", tmp_path))
    assert done.returncode == 0, done.stderr
    for name in ("AVG", "HLR"):
        path = Path("result") / f"{name}.jsonl"
        assert (out / path).read_bytes() == (tmp_path / path).read_bytes()
        entry = read_setup(tmp_path)["configurations"][name]
        assert read_setup(out)["configurations"][name] == entry
    sizes: dict[str, dict[int, int]] = {}
    for name in names:
        lines = read_lines(out / "result" / f"{name}.jsonl")
        sizes[name] = {user: line["size"] for user, line in lines.items()}
    assert all(users == sizes["AVG"] for users in sizes.values())
    assert "nothing is wrong" in run_in_process("results", "check", out).stdout


def test_weights_are_not_used_for_a_person_with_two_numbers(model: Path, tmp_path: Path) -> None:
    first, second = deal_users([1, 2, 3, 4], 2)
    twin = {first[0]: second[0]}  # the same person in both parts
    learners = {user: simulate_learner(twin.get(user, user), 600) for user in (1, 2, 3, 4)}
    write_dataset(learners, tmp_path / "data")
    done = run_in_process(
        *("batch", "--dataset", tmp_path / "data", "--split", "users", "--n_splits", "2"),
        *("--model-file", model, "--models", "LEARNT", "--out", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    skipped = read_lines(tmp_path / "out" / "skipped" / f"{NAME}.jsonl")
    assert set(skipped) == {first[0], second[0]}
    reason = skipped[first[0]]["reason"]
    assert "was trained on this person, under another number among its users outside part" in reason


# --- names, set-ups and reports


def test_names_and_sources_say_that_a_model_learnt_from_others(out: Path) -> None:
    setup = read_setup(out)["configurations"]
    assert setup[NAME]["protocol"]["split"] == "users"
    assert setup[NAME]["protocol"]["n_splits"] == 2
    assert setup[NAME]["pretrained"] == "on the other part of 4 users, 102,108,110-111"
    report = run_in_process("report", out, "--json", "-")
    tables = json.loads(report.stdout)["tables"]
    (sources,) = tables["sources"]["rows"]
    label = "LEARNT split users n_splits 2"
    assert f"{label}: trained on the users of the other part" in sources["to_know"]
    assert {row["evaluated_on"] for row in tables["results"]["rows"]} == {
        tables["results"]["rows"][0]["evaluated_on"]
    }
    page = " ".join(run_in_process("report", out, "--md", "-").stdout.split())
    assert (
        "were first trained on other people: the models for each of 2 parts of the users were "
        "trained on the other part."
    ) in page
    assert "This is not the benchmark's split" not in page
    notes = read_lines(out / "timing" / f"{NAME}.jsonl")[102]["notes"]
    assert "starts from part-" in notes[0]
    assert "trained on users outside part" in notes[0]


def test_names_end_with_the_split_only_for_models_with_pretrain(model: Path) -> None:
    """Check that a model which combines a pretrained one stays as it is."""

    def names_of(protocol: Protocol, label: str = "") -> list[str]:
        configurations = resolve_configurations("LEARNT,BOTH,FSRS-6", protocol)
        return sorted(item.name for item in add_labels(configurations, label))

    with batches_in_process():
        load_model_file(model)
        both = Ensemble(
            name="BOTH",
            family="other",
            inputs="-",
            parameters=1,
            source="a test",
            members=("LEARNT", "AVG"),
            combine=lambda predictions: predictions[0],
        )
        all_models()["BOTH"] = both
        users = Protocol(split="users")
        assert names_of(users) == ["BOTH", "FSRS-6", "LEARNT-split-users"]
        assert names_of(users, "x") == ["BOTH-x", "FSRS-6-x", "LEARNT-x-split-users"]
        assert names_of(Protocol(split="users", train_until="40", seed=1)) == [
            "BOTH-train_until-40-seed-1",
            "FSRS-6-train_until-40-seed-1",
            "LEARNT-split-users-train_until-40-seed-1",
        ]


@pytest.mark.slow
def test_seeds_and_flags_reach_the_training(model: Path, tmp_path: Path) -> None:
    done = call_batch(model, tmp_path / "out", "--seeds", "2", "--secs", models="LEARNT")
    assert done.returncode == 0, done.stderr
    means = []
    for seed, ending in ((0, ""), (1, "-seed-1")):
        path = weights_of(tmp_path / "out", 1, f"LEARNT-secs-split-users-n_splits-2{ending}")
        assert read_pretrained_file(path).settings == {"seed": seed, "secs": 1.0}
        means.append(load_file(path)["mean"][0])
    assert means[1] == pytest.approx(means[0] + 0.001)


# --- what is not done twice


def test_a_second_run_trains_nothing_again(model: Path, out: Path) -> None:
    done = call_batch(model, out)
    assert done.returncode == 0
    assert "0 units to evaluate" in done.stderr
    assert read_training_users(model) == []
    before = read_outcomes(out)
    weights = weights_of(out, 1).read_bytes()
    redone = call_batch(model, out, "--redo", NAME)
    assert redone.returncode == 0
    assert len(read_training_users(model)) == 2
    assert read_outcomes(out) == before
    assert weights_of(out, 1).read_bytes() == weights


def test_a_changed_file_of_the_model_is_trained_anew(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert call_batch(model, folder, models="LEARNT").returncode == 0
    first = load_file(weights_of(folder, 1))["mean"][0]
    model.write_text(LEARNT.replace("mean + SEED", "mean - 0.1 + SEED"), encoding="utf-8")
    refused = call_batch(model, folder, models="LEARNT")
    assert refused.returncode == BAD_INPUT
    assert f"{NAME} had model file" in refused.stderr
    assert call_batch(model, folder, "--redo", NAME, models="LEARNT").returncode == 0
    assert load_file(weights_of(folder, 1))["mean"][0] == pytest.approx(first - 0.1)
    other_users = call_batch(model, folder, "--users", "102,108,110", models="LEARNT")
    assert other_users.returncode == BAD_INPUT
    assert f"{NAME} had pretrained on the other part of 4 users" in other_users.stderr
    count = len(read_training_users(model))
    assert call_batch(model, folder, "--fresh", models="AVG,LEARNT").returncode == 0
    assert len(read_training_users(model)) == count + 2


@pytest.mark.slow
def test_kill_9_while_training_or_evaluating_loses_nothing(
    model: Path, out: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    first, second = deal_users(USERS, 2)  # part 1 is trained on `second`, part 2 on `first`
    arguments = batch_arguments(
        model, folder, "--jobs", "1", models="LEARNT,LEARNT-dry-run,AVG,HLR"
    )

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "srs_eval", *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    model.with_name("stuck.log").write_text(str(first[0]))
    process = start()
    until = time.monotonic() + PATIENCE
    while list(first) not in read_training_users(model, "began"):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert weights_of(folder, 1).exists()
    assert not weights_of(folder, 2).exists()
    assert not (folder / "result").exists()
    model.with_name("stuck.log").unlink()
    # Killed again as soon as the second one is trained.
    process = start()
    while not weights_of(folder, 2).exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.001)
    process.kill()
    process.wait()
    last = run_program(*arguments)
    assert last.returncode == 0, last.stderr
    assert read_training_users(model) == [list(second), list(first)]
    assert read_outcomes(folder) == read_outcomes(out)
    for part in (1, 2):
        assert weights_of(folder, part).read_bytes() == weights_of(out, part).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "dask-local"])
def test_workers_write_the_same_files(engine: str, model: Path, out: Path, tmp_path: Path) -> None:
    if engine != "local":
        pytest.importorskip("distributed")
    options = ("--jobs", "2", "--engine", engine)
    done = run_program(
        *batch_arguments(model, tmp_path, *options, models="LEARNT,LEARNT-dry-run,AVG,HLR")
    )
    assert done.returncode == 0, done.stderr
    assert read_outcomes(tmp_path) == read_outcomes(out)
    for part in (1, 2):
        assert weights_of(tmp_path, part).read_bytes() == weights_of(out, part).read_bytes()


def test_a_failed_training_fails_the_users_of_its_part_alone(
    model: Path, out: Path, tmp_path: Path
) -> None:
    first, second = deal_users(USERS, 2)
    model.with_name("fails.log").write_text(str(first[0]))
    folder = tmp_path / "out"
    done = call_batch(model, folder)
    assert done.returncode == PARTIAL_FAILURE
    assert "4 x training on other users failed: ValueError: too hard" in done.stderr
    failed = read_lines(folder / "failed" / f"{NAME}.jsonl")
    assert set(failed) == set(second)
    assert "Traceback" in failed[second[0]]["detail"]
    assert set(read_lines(folder / "result" / f"{NAME}.jsonl")) == set(first)
    assert set(read_lines(folder / "result" / "HLR.jsonl")) == set(USERS)
    model.with_name("fails.log").unlink()
    assert call_batch(model, folder).returncode == 0
    assert read_outcomes(folder) == read_outcomes(out)


def test_an_unreadable_user_is_left_out_of_trainings(model: Path, tmp_path: Path) -> None:
    learners = {user: simulate_learner(user, 400) for user in range(1, 7)}
    write_dataset(learners, tmp_path / "data")
    (path,) = (tmp_path / "data" / "revlogs" / "user_id=2").iterdir()
    path.write_bytes(b"PAR1 but nothing else")
    done = run_in_process(
        *("batch", "--dataset", tmp_path / "data", "--split", "users", "--n_splits", "2"),
        *("--model-file", model, "--models", "LEARNT", "--out", tmp_path / "out"),
    )
    assert done.returncode == PARTIAL_FAILURE
    assert set(read_lines(tmp_path / "out" / "failed" / f"{NAME}.jsonl")) == {2}
    assert set(read_lines(tmp_path / "out" / "result" / f"{NAME}.jsonl")) == {1, 3, 4, 5, 6}


# --- refusals


@pytest.mark.parametrize(
    ("options", "models", "sentence"),
    [
        (["--n_splits", "5"], "LEARNT", "--split users cannot deal 4 users into 5 parts"),
        (["--users", "102"], "LEARNT", "--split users cannot deal 1 user into 2 parts"),
        (["--shard", "1/2"], "LEARNT", "--shard leaves users out"),
        (["--engine", "dask://localhost:1"], "LEARNT", "workers of a cluster may not see"),
        ([], "AVG,FSRS-6", "models of your own that define `pretrain`, but none of the given"),
    ],
)
def test_batch_refuses_in_one_sentence(
    model: Path, tmp_path: Path, options: list[str], models: str, sentence: str
) -> None:
    done = call_batch(model, tmp_path / "out", *options, models=models)
    assert done.returncode == BAD_INPUT
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_weights_of_the_same_model_are_refused(model: Path, out: Path, tmp_path: Path) -> None:
    weights = ("--weights", weights_of(out, 1))
    done = call_batch(model, tmp_path / "out", *weights, models="LEARNT")
    assert done.returncode == BAD_INPUT
    assert (
        "--split users trains LEARNT on other users, but --weights already gives weights"
        in done.stderr
    )


def test_a_foreign_file_in_the_place_of_weights_is_kept(model: Path, tmp_path: Path) -> None:
    foreign = weights_of(tmp_path, 1)
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    done = call_batch(model, tmp_path, models="LEARNT")
    assert done.returncode == BAD_INPUT
    assert "is not from a batch in this folder" in done.stderr
    assert foreign.read_text() == "mine"


def test_weights_that_cannot_be_written_are_reported_in_one_sentence(
    model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "pretrained").write_text("mine")
    done = call_batch(model, folder, models="LEARNT")
    assert done.returncode == BAD_INPUT
    assert "cannot be written" in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert (folder / "pretrained").read_text() == "mine"


def test_one_user_cannot_be_split_by_users() -> None:
    words = ("run", GOLDEN, "--user", "108", "--models", "AVG")
    done = run_in_process(*words, "--split", "users")
    assert done.returncode == BAD_INPUT
    assert "--split users trains models on other people" in done.stderr
    log = srs_eval.load(GOLDEN, user=108)
    with pytest.raises(InputError, match="--split users trains models on other people"):
        srs_eval.evaluate(log, "AVG", Protocol(split="users"))


# --- notebooks, and ids


@pytest.mark.slow
def test_notebook_trains_on_other_users_and_hears_of_it(model: Path, tmp_path: Path) -> None:
    events: list[object] = []
    with batches_in_process():
        load_model_file(model)
        frame = srs_eval.evaluate_dataset(
            GOLDEN,
            "LEARNT",
            Protocol(split="users", n_splits=2),
            out=tmp_path / "out",
            jobs=1,
            on_event=events.append,
        )
    assert set(frame["configuration"]) == {NAME, "AVG"}
    trainings = [event for event in events if isinstance(event, TrainingOnOthers)]
    assert trainings[-1] == TrainingOnOthers(2, 2, 1.0)
    with pytest.raises(InputError, match="none of the given models does"):
        srs_eval.evaluate_dataset(GOLDEN, "AVG", Protocol(split="users"), out=tmp_path)


def test_ids_are_written_as_ranges() -> None:
    assert format_id_ranges([5, 1, 2, 3, 9]) == "1-3,5,9"
    assert format_id_ranges([]) == ""
