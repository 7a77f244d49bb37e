"""Check that a seed changes only what is drawn at random, and what reports tell of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srs_eval
from srs_eval.benchmark.result_files import read_folders
from srs_eval.benchmark.seeds import select_first_seeds
from srs_eval.benchmark.setup import (
    add_label,
    add_labels,
    find_disagreement,
    remove_seed,
    repeat_with_seeds,
)
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.engine.cache import compute_cache_key
from srs_eval.engine.session import LearnerSession
from srs_eval.models import all_models, load_model_file
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.training.hyperparameters import Context
from tests.helpers.batches import SETUP
from tests.helpers.program import run_in_process
from tools.simulated import simulate_learner, write_dataset

FSRS_NAMES = tuple(f"FSRS-6-batch_size-16{seed}" for seed in ("", "-seed-1", "-seed-2"))


def resolve(names: str, seed: int) -> list[Configuration]:
    return resolve_configurations(names, Protocol(seed=seed))


def test_only_trainings_with_random_numbers_are_repeated_with_seeds() -> None:
    names = "AVG,FSRS-6,FSRS-6-dry-run,GradientBoosting,GRU,SBD,STATE-1,BLEND,MOVING-AVG"
    configurations = repeat_with_seeds(lambda seed: resolve(names, seed), "", 0, 2)
    with_seed = {item.name for item in configurations if item.protocol.seed}
    assert with_seed == {"FSRS-6-seed-1", "GRU-seed-1", "STATE-1-seed-1", "BLEND-seed-1"}
    assert len(configurations) == len(with_seed) + 9
    labelled = repeat_with_seeds(lambda seed: resolve("FSRS-6", seed), "x", 0, 2)
    assert [item.name for item in labelled] == ["FSRS-6-x", "FSRS-6-x-seed-1"]
    (default,) = add_labels(resolve("FSRS-6", 0), "")
    assert (default.name, default.values_for_fit) == ("FSRS-6", {})


OWN_MODELS = """
import numpy as np
from srs_eval.models import TrainedModel
from srs_eval.training.hyperparameters import SEED


def predict(trials, w, index, context):
    return np.full(len(index), 0.9)


def make(name, *hyperparameters):
    return TrainedModel(
        name=name, fit=lambda *_: [0.9], predict=predict, hyperparameters=hyperparameters
    )


MODELS = (make("SEEDED", SEED), make("UNSEEDED"))
"""


def test_own_models_that_declare_no_seed_are_evaluated_once(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN_MODELS)
    load_model_file(path)
    try:
        configurations = repeat_with_seeds(lambda seed: resolve("SEEDED,UNSEEDED", seed), "", 0, 2)
        assert {item.name for item in configurations} == {"SEEDED", "SEEDED-seed-1", "UNSEEDED"}
    finally:
        for name in ("SEEDED", "UNSEEDED"):
            all_models().pop(name, None)


@given(
    st.sampled_from(("", "x", "weak pull", "gamma 0.5", "n_splits 3")),
    st.sampled_from(("", "on Mine")),
    st.integers(0, 3),
)
def test_names_without_their_seed_are_those_of_the_published_seed(
    label: str, ending: str, seed: int
) -> None:
    (configuration,) = resolve("FSRS-6", seed)
    plain = add_label(configuration, f"{label} {ending}".strip())
    seeded = add_label(
        configuration, " ".join(f"{label} {f'seed {seed}' if seed else ''} {ending}".split())
    )
    assert remove_seed(seeded.name, seeded.label, seed) == plain.name


def test_a_seed_below_0_is_refused() -> None:
    with pytest.raises(InputError, match="--seed must be at least 0, not -1"):
        resolve("FSRS-6", -1)


@pytest.fixture(scope="module")
def session() -> LearnerSession:
    return LearnerSession(simulate_learner(5, 4_000).log())


@pytest.mark.parametrize("name", ["FSRS-6", "DASH", "GRU", "STATE-1"])
def test_a_seed_changes_what_is_predicted(session: LearnerSession, name: str) -> None:
    """Check seeds on batches so small that their order matters."""
    p = []
    for seed in (0, 1, 1):
        (configuration,) = resolve_configurations(name, Protocol(seed=seed, batch_size=64))
        p.append(session.run(configuration, Context(user=1)).p)
    published, other, again = p
    assert np.abs(published - other).max() > 1e-6
    np.testing.assert_array_equal(other, again)


@pytest.mark.parametrize("name", ["SBD", "FSRS-6-dry-run", "AVG"])
def test_a_seed_leaves_what_is_not_random(session: LearnerSession, name: str) -> None:
    first, other = (
        session.run(configuration) for seed in (0, 1) for configuration in resolve(name, seed)
    )
    np.testing.assert_array_equal(first.p, other.p)


def test_a_result_with_another_seed_has_another_key() -> None:
    keys = {
        compute_cache_key("log", configuration, Context())
        for seed in (0, 1, 2)
        for configuration in resolve("FSRS-6", seed)
    }
    assert len(keys) == 3


def test_results_from_before_there_were_seeds_have_the_published_one() -> None:
    """Check that a flag which an older set-up lacks counts as its default."""

    def setup_with(**flags: object) -> dict[str, object]:
        entry = SETUP["configurations"]["AVG"]
        return {**SETUP, "configurations": {"AVG": {**entry, "protocol": flags}}}

    assert not find_disagreement(setup_with(gamma=1.0), setup_with(gamma=1.0, seed=0))
    assert find_disagreement(setup_with(gamma=1.0), setup_with(gamma=1.0, seed=2)) == (
        "AVG had seed 0 and has 2 now"
    )


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data set") / "data"
    write_dataset({user: simulate_learner(user, 400 + 50 * user) for user in range(1, 4)}, folder)
    return folder


@pytest.fixture(scope="module")
def out(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evaluate three seeds of FSRS-6, in batches so small that the seed matters."""
    folder = tmp_path_factory.mktemp("results")
    done = run_batch(dataset, folder, "--seeds", "3")
    assert "Mean log loss with other seeds" in done.stdout
    return folder


def run_batch(
    dataset: Path, out: Path, *options: str, models: str = "FSRS-6,HLR,AVG"
) -> CompletedProcess[str]:
    settings = ("--batch_size", "16", "--models", models, "--jobs", "1")
    done = run_in_process("batch", "--dataset", dataset, "--out", out, *settings, *options)
    assert done.returncode == 0, done.stderr
    return done


def means_of(folder: Path, names: Sequence[str]) -> list[float]:
    frame = srs_eval.read_results(folder)
    return [frame.loc[frame["configuration"] == name, "LogLoss"].mean() for name in names]


@pytest.mark.slow
def test_seeds_of_a_batch_are_set_ups_of_their_own(dataset: Path, out: Path) -> None:
    names = {path.stem for path in (out / "result").iterdir()}
    assert {name for name in names if name.startswith("FSRS-6")} == set(FSRS_NAMES)
    assert "AVG" in names
    assert "nothing is wrong" in run_in_process("results", "check", out).stdout
    assert "0 units to evaluate" in run_batch(dataset, out, "--seeds", "3").stderr
    # One seed alone is the same as among several.
    assert "0 units to evaluate" in run_batch(dataset, out, "--seed", "2", models="FSRS-6").stderr
    setup = json.loads((out / "setup.json").read_text())["configurations"]
    assert setup["FSRS-6-batch_size-16-seed-2"]["protocol"]["seed"] == 2


@pytest.mark.slow
def test_report_compares_first_seeds_and_tells_the_spread(out: Path) -> None:
    tables = json.loads(run_in_process("report", out, "--json", "-").stdout)["tables"]
    seeds = {(row["model"], row["weighted_by"]): row for row in tables["seeds"]["rows"]}
    row = seeds["FSRS-6 batch_size 16", "users"]
    means = means_of(out, FSRS_NAMES)
    assert row["seeds"] == 3
    assert row["spread"] == pytest.approx(np.std(means, ddof=1))
    assert (row["least"], row["greatest"]) == pytest.approx((min(means), max(means)))
    assert row["log_loss"] == pytest.approx(np.mean(means))
    compared = {row["model"] for row in tables["means-by-users"]["rows"]}
    assert {name for name in compared if name.startswith("FSRS-6")} == {"FSRS-6 batch_size 16"}
    # Any seed can be named.
    named = run_in_process("report", out, "--models", "FSRS-6-batch_size-16-seed-2")
    assert "FSRS-6 batch_size 16 seed 2" in named.stdout
    (folder,) = read_folders([out])
    first = select_first_seeds(folder.files)
    assert [file.seed for file in first] == [0] * len(first)


@pytest.mark.slow
def test_notebook_evaluates_seeds(dataset: Path, out: Path, tmp_path: Path) -> None:
    spread = srs_eval.seed_spread(out).loc["FSRS-6-batch_size-16"].set_index("weighting")
    means = means_of(out, FSRS_NAMES)
    assert spread.loc["users", "spread"] == pytest.approx(np.std(means, ddof=1))
    assert "FSRS-6-batch_size-16-seed-1" not in srs_eval.leaderboard(out).index
    frame = srs_eval.evaluate_dataset(
        dataset,
        "FSRS-6",
        Protocol(batch_size=16),
        seeds=2,
        users="1,2",
        out=tmp_path,
        jobs=1,
        on_event=lambda event: None,
    )
    files = srs_eval.read_results(out)
    same = frame.merge(files, on=["configuration", "user"], suffixes=("", "_of_batch"))
    assert len(same) == len(frame) == 6  # two seeds and the average of two users
    np.testing.assert_array_equal(same["LogLoss"], same["LogLoss_of_batch"])
    with pytest.raises(InputError, match="several seeds"):
        srs_eval.seed_spread(tmp_path, models="AVG")
    log = srs_eval.load(dataset, user=1)
    results = srs_eval.evaluate(log, "FSRS-6", Protocol(batch_size=16, seed=1), jobs=0)
    of_seed = files[files["configuration"] == "FSRS-6-batch_size-16-seed-1"].set_index("user")
    loss = results["FSRS-6"].metrics.log_loss
    assert loss == pytest.approx(of_seed.loc[1, "LogLoss"], abs=1e-6)
