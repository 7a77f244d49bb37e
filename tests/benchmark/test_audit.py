"""Check audits: the search, the data it sees, and a planted baseline that was trained badly."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.batch import run_batch
from srs_eval.benchmark.audit import Audit, run_audit
from srs_eval.benchmark.check import merge_folders
from srs_eval.benchmark.plan import Planned, UnitDone
from srs_eval.benchmark.result_files import read_folders
from srs_eval.benchmark.setup import Ledger, find_disagreement, make_setup
from srs_eval.benchmark.tuning import _RandomSearch, _split_training_parts
from srs_eval.cli.outputs import Outputs
from srs_eval.cli.research import _warn_tuned_on
from srs_eval.cli.settings import ProtocolFlags
from srs_eval.data.datasets import Dataset, open_dataset
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.engine.session import LearnerSession
from srs_eval.models import all_models, load_model_file
from srs_eval.models.configurations import resolve_configurations
from srs_eval.models.published import from_upstream_name, to_upstream_name
from srs_eval.report.audit import build_audit_document
from srs_eval.training.hyperparameters import (
    SEED,
    Context,
    Hyperparameter,
    Value,
    batch_size,
    epochs,
    learning_rate,
)
from tests.conftest import PATIENCE
from tests.helpers.program import batches_in_process, run_in_process, run_program
from tools.simulated import simulate_learner, write_dataset

# The search

KEEP = Hyperparameter("keep", "best", choices=("best", "last"))
KNOBS = (learning_rate(0.04), epochs(5), batch_size(512), KEEP, SEED)
PUBLISHED: dict[str, Value] = {knob.name: knob.default for knob in KNOBS}


def distance(setup: Mapping[str, Value], rate: float, passes: float) -> float:
    """Return a loss that is least at this learning rate and number of epochs, with "last"."""
    values = {**PUBLISHED, **setup}
    return (
        math.log(float(values["learning_rate"]) / rate) ** 2
        + math.log(float(values["epochs"]) / passes) ** 2 / 10
        + (values["keep"] == "best") / 10
    )


def searched(trials: int, seed: int, rate: float = 0.04, passes: float = 5) -> _RandomSearch:
    search = _RandomSearch(KNOBS, PUBLISHED, trials, seed)
    while setups := search.ask():
        search.tell([distance(setup, rate, passes) for setup in setups])
    return search


@given(seed=st.integers(0, 1_000), orders=st.sampled_from([-2, 2]))
def test_the_search_goes_beyond_its_limits(seed: int, orders: int) -> None:
    """Check rates 100 times too small or too large; the first limits are 10 times away."""
    search = searched(40, seed, rate=0.04 * 10.0**orders)
    best, loss = search.best
    assert search.tried[0] == ({}, distance({}, 0.04 * 10.0**orders, 5))
    assert abs(math.log10(float(best["learning_rate"]) / (0.04 * 10.0**orders))) < 0.5
    assert loss < search.tried[0][1]


@given(seed=st.integers(0, 1_000))
def test_search_keeps_published_values_with_all_their_digits(seed: int) -> None:
    """Check that a published value stays unchanged if it has more digits than the search uses."""
    rate = 0.0123456789
    search = _RandomSearch(
        (learning_rate(rate), epochs(5), KEEP), {**PUBLISHED, "learning_rate": rate}, 30, seed
    )
    while setups := search.ask():
        search.tell([distance({"learning_rate": 0.04, **setup}, 0.04, 60) for setup in setups])
    assert all(setup.get("learning_rate") != float(f"{rate:.4g}") for setup, _ in search.tried)


@given(seed=st.integers(0, 1_000), trials=st.integers(1, 40))
def test_search_gives_every_model_its_budget_of_valid_setups(seed: int, trials: int) -> None:
    search = searched(trials, seed, passes=0.01)
    assert len(search.tried) == 1 + trials
    keys = {json.dumps(setup, sort_keys=True) for setup, _ in search.tried}
    assert len(keys) == 1 + trials  # none twice
    for setup, _ in search.tried:
        assert SEED.name not in setup
        for knob in KNOBS:
            value = setup.get(knob.name, knob.default)
            assert setup.get(knob.name) != knob.default  # what is as published is not named
            if isinstance(value, str):
                assert value in knob.choices
                continue
            assert knob.minimum <= value <= knob.maximum
            assert not knob.is_integer or isinstance(value, int)
    assert [setup for setup, _ in searched(trials, seed, passes=0.01).tried] == [
        setup for setup, _ in search.tried
    ]


def test_search_on_the_edge_of_its_limits_says_so() -> None:
    assert "learning_rate" in searched(6, 0, rate=400).on_edge
    assert "learning_rate" not in searched(60, 0, rate=0.05).on_edge


def test_a_search_ends_where_all_is_tried() -> None:
    search = _RandomSearch((KEEP,), {"keep": "best"}, 30, 0)
    while setups := search.ask():
        search.tell([float(setup == {}) for setup in setups])
    assert search.best == ({"keep": "last"}, 0.0)
    assert len(search.tried) == 2


def test_search_prefers_the_published_setup_among_equals() -> None:
    search = _RandomSearch(KNOBS, PUBLISHED, 12, 0)
    while setups := search.ask():
        search.tell([math.inf if setup else 1.0 for setup in setups])
    assert search.best == ({}, 1.0)


# What it may see


@pytest.mark.parametrize("flags", [Protocol(), Protocol(secs=True, short=True)], ids=["days", "s"])
def test_set_ups_are_chosen_by_training_parts_only(flags: Protocol) -> None:
    trials = LearnerSession(simulate_learner(3, 1_500).log()).trials(flags)
    splits = _split_training_parts(trials)
    assert len(splits) == len(trials.folds) == 5
    for fold, split in zip(trials.folds, splits, strict=True):
        np.testing.assert_array_equal(np.concatenate([split.train, split.test]), fold.train)
        assert split.train.max() < split.test.min() <= split.test.max() < fold.test.min()
        assert len(split.test) == len(fold.train) // 5


def test_search_holds_out_rows_that_would_be_evaluated() -> None:
    protocol = Protocol(secs=True, short=True, no_test_same_day=True)
    trials = LearnerSession(simulate_learner(3, 1_500).log()).trials(protocol)
    for split in _split_training_parts(trials):
        assert (trials.elapsed_days[split.test] > 0).all()
    assert (trials.elapsed_days[split.train] == 0).any()


# Whole audits


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    learners = {user: simulate_learner(user, 700) for user in range(1, 9)}
    write_dataset({**learners, 11: simulate_learner(7, 10)}, folder)  # too few reviews
    return open_dataset(folder)


SMALL_BATCHES = Protocol(batch_size=64)


def audited(dataset: Dataset, names: str, out: Path, **options: Any) -> Audit:
    """Run an audit in this process and return its result."""
    with batches_in_process():
        configurations = resolve_configurations(names, SMALL_BATCHES)
        *_, audit = run_audit(dataset, configurations, out, evaluate=run_batch, **options)
    assert isinstance(audit, Audit)
    return audit


SLOW = """
from dataclasses import replace

from srs_eval.training.recurrent import Trainable
from srs_eval.models import all_models, fsrs1to3

MODEL = replace(fsrs1to3._V1, learning_rate=fsrs1to3._V1.learning_rate / 100)
TRAINABLE = Trainable(lambda trials, context: MODEL)
MODELS = (
    replace(
        all_models()["FSRSv1"],
        name="SLOW",
        fit=TRAINABLE.fit,
        predict=TRAINABLE.predict,
        aliases={},
        hyperparameters=MODEL.hyperparameters,
    ),
)
"""
RIVALS = "SM2-trainable-dry-run,HLR-dry-run"


@pytest.mark.slow
def test_audit_restores_a_badly_trained_model(dataset: Dataset, tmp_path: Path) -> None:
    """Plant FSRSv1 with a learning rate 100 times too small: it is last, and second once tuned."""
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    out = tmp_path / "out"
    page = tmp_path / "audit.json"
    command = [
        sys.executable,
        "-m",
        "srs_eval",
        "audit",
        str(dataset.folder),
        f"--model-file={file}",
        f"--models=SLOW,{RIVALS}",
        "--trials=18",
        "--repeats=1",
        f"--out={out}",
        "--jobs=2",
    ]
    done = subprocess.run(
        [*command, "--json", str(page)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    ranking = json.loads(page.read_text())["tables"]["places-1"]["rows"]
    planted = [row["as published"] for row in ranking]
    restored = [row["tuned"] for row in ranking]

    def means(names: str) -> list[str]:
        """Return the models in the order of their mean log loss, computed without an audit."""
        sessions = [LearnerSession(dataset.load(user)) for user in range(1, 9)]
        losses = {}
        for configuration in resolve_configurations(names):
            user_losses = [session.run(configuration).metrics.log_loss for session in sessions]
            losses[configuration.words] = np.mean(user_losses)
        return sorted(losses, key=lambda name: losses[name])

    right = [name.replace("FSRSv1", "SLOW") for name in means(f"AVG,FSRSv1,{RIVALS}")]
    assert planted.index("SLOW") == len(planted) - 1
    assert right.index("SLOW") == 1  # behind the average only
    assert restored == right

    ledger = json.loads((out / "ledger.json").read_text())
    slow = ledger["configurations"]["SLOW"]
    assert slow["published"]["learning_rate"] == pytest.approx(4e-4)
    for half in slow["halves"]:
        assert half["log_loss"] < half["published_log_loss"] - 0.01
        # A higher rate or, with as many epochs, smaller batches: more is learned from each row.
        best = {"learning_rate": 0.0, "batch_size": 1e9, **half["hyperparameters"]}
        assert best["learning_rate"] > 4e-3 or best["batch_size"] < 64 / 8
    assert [half["trials"] for half in slow["halves"]] == [18, 18]
    # Both folders are results that other commands read.
    report = run_program("report", out / "tuned", "--baseline", out / "published", "--md", "-")
    assert report.returncode == 0, report.stderr
    assert "SLOW" in report.stdout
    again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert again.returncode == 0, again.stderr
    assert ": 0 units to evaluate" in again.stderr


def fits(out: Path, stage: str) -> list[dict[str, Any]]:
    """Return the lines of an audit's journals, each with its hyperparameters."""
    folder = out / ".journal" / stage
    setups = json.loads((folder / "setup.json").read_text())["configurations"]
    records = []
    for path in sorted((folder / ".journal").glob("*.jsonl")):
        hyperparameters = setups[path.stem].get("hyperparameters", {})
        for line in path.read_text().splitlines():
            record = {"name": path.stem, "hyperparameters": hyperparameters}
            records.append(record | json.loads(line.partition(" ")[2]))
    return records


def files(out: Path) -> dict[str, bytes]:
    """Return the contents of the files that an audit writes, without times."""
    paths = [out / "ledger.json", *out.glob("*/result/*.jsonl"), *out.glob("*/skipped/*.jsonl")]
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


@pytest.mark.slow
def test_interruptions_and_jobs_change_nothing(dataset: Dataset, tmp_path: Path) -> None:
    options: Any = {"trials": 6, "repeats": 2, "users": [1, 2, 3, 11]}
    configurations = resolve_configurations("HLR,AVG", SMALL_BATCHES)
    uninterrupted = audited(dataset, "HLR,AVG", tmp_path / "whole", **options)
    finished = 0
    for stop, backend in ((3, nullcontext()), (20, batches_in_process())):
        with backend:
            events = run_audit(
                dataset, configurations, tmp_path / "parts", evaluate=run_batch, jobs=2, **options
            )
            for event in events:
                if isinstance(event, UnitDone) and event.finished_units == stop:
                    finished += stop
                    break
            events.close()
    searched = tmp_path / "parts" / ".journal" / "search" / ".journal"
    assert len(fits(tmp_path / "parts", "search")) >= finished
    torn = searched / "HLR.jsonl"
    torn.write_bytes(torn.read_bytes()[:-9])
    again = audited(dataset, "HLR,AVG", tmp_path / "parts", **options)
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    for stage in ("search", "evaluated"):
        keys = [(fit["name"], fit["user"]) for fit in fits(tmp_path / "parts", stage)]
        assert len(keys) == len(set(keys))  # nothing is done twice
    assert again.rankings[0].tuned == uninterrupted.rankings[0].tuned
    (hlr,) = (tuned for tuned in uninterrupted.tuned if tuned.configuration.name == "HLR")
    assert hlr.change is not None
    assert hlr.change.users == 3  # the fourth has too few reviews
    assert hlr.spread is not None
    assert min(hlr.spread) > 0


def test_setup_of_a_half_depends_on_the_other_half_alone(dataset: Dataset, tmp_path: Path) -> None:
    """Exchange the users of one half: its set-up stays, that of the other half changes."""
    changed_folder = tmp_path / "others"
    learners = {user: simulate_learner(user, 700) for user in (1, 3)}
    learners |= {user: simulate_learner(user, 900, forgets=False) for user in (2, 4)}
    write_dataset(learners, changed_folder)
    halves = {}
    for name, data in (("here", dataset), ("there", open_dataset(changed_folder))):
        out = tmp_path / name
        audit = audited(data, "FSRSv1", out, trials=4, repeats=1, users=[1, 2, 3, 4])
        halves[name] = audit.tuned[0].halves
    unchanged_half, changed_half = halves["there"]
    assert unchanged_half == halves["here"][0]
    assert changed_half.hyperparameters != halves["here"][1].hyperparameters
    assert unchanged_half.hyperparameters
    evaluated: dict[int, set[str]] = {}
    for record in fits(tmp_path / "there", "evaluated"):
        evaluated.setdefault(record["user"], set()).add(str(record["hyperparameters"]))
    for users, setup in (
        ((2, 4), unchanged_half.hyperparameters),
        ((1, 3), changed_half.hyperparameters),
    ):
        assert all(evaluated[user] == {"{}", str(dict(sorted(setup.items())))} for user in users)


DYING = """
from dataclasses import replace

from srs_eval.training.hyperparameters import learning_rate
from srs_eval.models import all_models

RATE = learning_rate(1.0)
HLR = all_models()["HLR"]


def fit(trials, train, weights, context):
    if context.user == 2 and RATE.number_in(context) > 1:
        raise SystemExit(9)
    if context.user == 1 and RATE.number_in(context) < 1:
        raise FloatingPointError("it went too far")
    return HLR.fit(trials, train, weights, replace(context, hyperparameters={}))


MODELS = (replace(HLR, name="DYING", fit=fit, hyperparameters=(RATE,)),)
"""


@pytest.mark.slow
def test_search_never_chooses_a_failing_setup(dataset: Dataset, tmp_path: Path) -> None:
    file = tmp_path / "dying.py"
    file.write_text(DYING)
    load_model_file(file)
    try:
        audit = audited(dataset, "DYING", tmp_path / "out", trials=4, users=[1, 2, 3, 4])
    finally:
        del all_models()["DYING"]
    (tuned,) = audit.tuned
    first, second = tuned.halves
    assert first.trials == second.trials == 4
    assert first.hyperparameters.get("learning_rate", 1.0) >= 1  # the first user fails below
    assert second.hyperparameters.get("learning_rate", 1.0) <= 1  # the second user's ends above
    assert tuned.change is not None
    records = fits(tmp_path / "out", "search")
    reasons = {record["reason"] for record in records if record["status"] == "failed"}
    assert any("it went too far" in reason for reason in reasons)
    assert any("SystemExit: 9" in reason for reason in reasons)


def test_run_audit_refuses_unusable_arguments(dataset: Dataset, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def audit(names: str, folder: Path = out, **options: Any) -> Generator[object, None, None]:
        protocol = options.pop("protocol", Protocol())
        return run_audit(
            dataset, resolve_configurations(names, protocol), folder, evaluate=run_batch, **options
        )

    with pytest.raises(InputError, match="two users"):
        next(audit("HLR", users=[1]))
    with pytest.raises(InputError, match="trains on what it is evaluated on"):
        next(audit("HLR-train_equals_test"))
    assert not out.exists()
    held = audit("AVG", users=[1, 2])
    next(held)
    with pytest.raises(InputError, match="Another audit is writing"):
        next(audit("AVG", users=[1, 2]))
    held.close()
    four_folds = Protocol(n_splits=4)
    with pytest.raises(InputError, match="AVG had n_splits 5 and has 4 now"):
        next(audit("AVG", users=[1, 2], protocol=four_folds))
    fresh = audit("AVG", users=[1, 2], protocol=four_folds, fresh=True)
    next(fresh)
    fresh.close()
    (out / ".journal" / "evaluated" / "setup.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        next(audit("AVG", users=[1, 2], protocol=four_folds))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="choose another --out"):
        next(audit("AVG", tmp_path / "file", users=[1, 2]))


def test_an_audit_without_any_result_says_why(tmp_path: Path) -> None:
    write_dataset({user: simulate_learner(user, 10) for user in (1, 2)}, tmp_path / "data")
    with pytest.raises(NotEnoughData, match=r"results for any user; .* reason: \w+"):
        audited(open_dataset(tmp_path / "data"), "AVG", tmp_path / "out")


# Runs that a ledger sets


def main_says(*arguments: object) -> tuple[int, str]:
    """Run a command and return its exit code and stderr."""
    done = run_in_process(*arguments)
    return done.returncode, done.stderr


def lines_of(folder: Path, name: str) -> dict[int, dict[str, Any]]:
    text = (folder / "result" / f"{name}.jsonl").read_text()
    return {line["user"]: line for line in map(json.loads, text.splitlines())}


@pytest.mark.slow
def test_batch_with_ledger_has_the_figures_of_the_audit(dataset: Dataset, tmp_path: Path) -> None:
    out = tmp_path / "audit"
    results = tmp_path / "results"
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    load_model_file(file)
    try:
        audited(dataset, "SLOW,AVG", out, trials=3, repeats=1, users=[1, 2, 3, 4])
        stated = json.loads((out / "ledger.json").read_text())["configurations"]["SLOW"]
        tuned_values = [half["hyperparameters"] for half in stated["halves"]]
        half = tuned_values.index(stated["best"])
        command = [
            "batch",
            f"--dataset={dataset.folder}",
            "--users=1-4",
            "--batch_size=64",
            "--models=SLOW,HLR",
            f"--model-file={file}",
            f"--out={results}",
            "--jobs=1",
        ]
        assert main_says(*command)[0] == 0
        code, words = main_says(*command, "--setup", out / "ledger.json")
        assert code == 0, words
        assert 'ledger.json" were tuned on 4 of 4 users here, for whom figures' in words
        labels = {file.label for file in read_folders([results])[0].files}
        for user, is_optimistic in ((2, True), (5, False)):
            whom = ("run", dataset.folder, "--user", user, "--batch_size", 64, "--jobs", 1)
            which = ("--models", "SLOW", "--model-file", file, "--setup", out)
            code, words = main_says(*whom, *which)
            assert code == 0, words
            assert ("were tuned on this user, for whom figures" in words) == is_optimistic
        alone = dataset.folder / "revlogs" / "user_id=2" / "data.parquet"
        code, words = main_says("run", alone, "--batch_size", 64, "--jobs", 1, *which)
        assert code == 0, words
    finally:
        del all_models()["SLOW"]
    assert {"SLOW batch_size 64", "SLOW tuned batch_size 64"} <= labels
    tuned = lines_of(results, "SLOW-tuned-batch_size-64")
    for user in ((1, 3), (2, 4))[1 - half]:  # one half is evaluated with what the other has found
        assert tuned[user] == lines_of(out / "tuned", "SLOW")[user]
        assert tuned[user] != lines_of(results, "SLOW-batch_size-64")[user]
    assert not list((results / "result").glob("HLR-tuned*"))  # the audit knew no HLR
    setup = json.loads((results / "setup.json").read_text())["configurations"]
    assert setup["SLOW-tuned-batch_size-64"]["hyperparameters"] == stated["best"]
    assert "hyperparameters" not in setup["SLOW-batch_size-64"]
    # With the same set-up in it, another ledger is another one all the same.
    other_ledger = tmp_path / "other.json"
    other_ledger.write_text((out / "ledger.json").read_text() + "\n")
    code, words = main_says(*command, "--setup", other_ledger)
    assert code == 2
    assert "SLOW-tuned-batch_size-64 had ledger" in words
    # On one collection, too; the ledger is found in the audit's folder.
    page = tmp_path / "run.json"
    run = ("run", dataset.folder, "--user", 1, "--batch_size", 64, "--model-file", file)
    code, words = main_says(*run, "--models", "SLOW", "--setup", out, "--json", page)
    assert code == 0, words
    (line,) = json.loads(page.read_text())["results"]
    assert line["configuration"] == "SLOW-tuned"
    assert line["hyperparameters"] == stated["best"]
    assert line["metrics"] == tuned[1]["metrics"]
    # The reference is the one that is named: as published, though it was not asked for, or tuned.
    for name, difference in (("SLOW", True), ("SLOW-tuned", False)):
        tuned_run = (*run, "--models", "SLOW-tuned", "--setup", out, "--json", page)
        code, words = main_says(*tuned_run, "--reference", name)
        assert code == 0, words
        document = json.loads(page.read_text())
        assert document["groups"][0]["reference"] == name
        (line,) = document["results"]
        assert line["configuration"] == "SLOW-tuned"
        assert (line["to_reference"] is not None) is difference


def test_a_ledger_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    (hlr,) = resolve_configurations("HLR")
    published = {
        knob.name: knob.default_under(hlr.protocol) for knob in hlr.tunable_hyperparameters
    }
    path = tmp_path / "ledger.json"

    def written(name: str = "HLR", layout: int = 1, best: Any = None, **changes: Any) -> None:
        entry = {"best": best or {}, "published": {**published, **changes}}
        path.write_text(json.dumps({"layout": layout, "configurations": {name: entry}}))

    def refusal(models: str = "HLR") -> str:
        with pytest.raises(InputError) as refused:
            ProtocolFlags(Protocol(), "trained").with_ledger(path, models)
        return str(refused.value)

    assert "There is no ledger" in refusal()
    for text in ("{", "[]", '{"layout": 1, "configurations": {"HLR": {"best": {}}}}'):
        path.write_text(text)
        assert "is not a ledger" in refusal()
    path.write_text('{"layout": 1, "configurations": {}, "users": [1e999]}')
    assert "is not a ledger" in refusal()
    for value in (None, True, [1], math.nan):
        written(best={"epochs": value})
        assert "is not a ledger" in refusal()
    written(layout=2)
    assert "not a ledger" in refusal()
    written("HLR-9")
    assert "names HLR-9, which is not a configuration here" in refusal()
    written(best={"warmth": 3})
    assert "HLR has no hyperparameter warmth" in refusal()
    written(best={"epochs": 2.5})
    assert "whole number" in refusal()
    written(epochs=99)
    assert "was made with epochs 99 for HLR" in refusal()
    written()
    assert "No model of --models is in" in refusal("SM2-trainable,AVG")
    configurations = (
        ProtocolFlags(Protocol(), "trained").with_ledger(path, "HLR").resolve("HLR,AVG")
    )
    assert sorted(configuration.name for configuration in configurations) == ["AVG", "HLR-tuned"]


def test_a_tuned_name_asks_for_its_ledger(tmp_path: Path) -> None:
    (hlr,) = resolve_configurations("HLR")
    published = {
        knob.name: knob.default_under(hlr.protocol) for knob in hlr.tunable_hyperparameters
    }
    entry = {"best": {"epochs": 6}, "published": published}
    content = {"layout": 1, "configurations": {"HLR": entry}, "users": [1, 5], "data": "f"}
    (tmp_path / "ledger.json").write_text(json.dumps(content))
    flags = ProtocolFlags(Protocol(), "trained")
    with pytest.raises(InputError, match=r"is HLR, trained with .* with --setup LEDGER"):
        flags.resolve("HLR-tuned")
    (configuration,) = flags.with_ledger(tmp_path, "HLR-tuned").resolve("HLR-tuned")
    assert configuration.name == "HLR-tuned"
    with pytest.raises(InputError, match="There is no model"):
        flags.resolve("HLRX-tuned")
    with pytest.raises(InputError, match=r"^AVG is not in .* which has HLR"):
        flags.with_ledger(tmp_path, "HLR").resolve("HLR,AVG-tuned")
    with pytest.raises(InputError, match=r'takes one model; "HLR,AVG" stands for 2'):
        flags.resolve_reference("HLR,AVG")


@pytest.mark.parametrize(
    ("users", "data", "stated"),
    [
        ([1, 2, 5], "f", "were tuned on 2 of 3 users here, for whom"),
        ([1, 2, 5], "g", ""),
        ([2, 3], "f", ""),
        ([5], "f", "were tuned on this user, for whom figures"),
    ],
)
def test_tuned_models_warn_on_users_of_their_audit(
    users: list[int], data: str, stated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger(Path("ledger.json"), "", {}, frozenset((1, 5)), "f")
    _warn_tuned_on(ledger, users, data)
    message = capsys.readouterr().err
    assert stated in message
    assert bool(message) is bool(stated)


def test_names_of_tuned_runs_in_both_years() -> None:
    assert to_upstream_name("FSRS-6-tuned", "2026") == "FSRS-6-short-tuned"
    for name in ("FSRS-6-tuned", "FSRS-6-short-tuned"):
        configuration = from_upstream_name(name, "2026" if "short" in name else "2025")
        assert configuration is not None
        assert configuration.name == "FSRS-6-tuned"
        assert configuration.words == "FSRS-6 tuned"


def test_setups_of_tuned_and_published_models_disagree(dataset: Dataset) -> None:
    (hlr,) = resolve_configurations("HLR")
    setups = [
        make_setup(dataset, "f", [hlr.with_hyperparameters(values)], Context(), {})
        for values in ({}, {"epochs": 6}, {"epochs": 6, "seed": 1})
    ]
    assert setups[0] == make_setup(dataset, "f", [hlr], Context(), {})
    for earlier, later in itertools.permutations(setups, 2):
        assert "HLR had hyperparameters" in find_disagreement(earlier, later)


def test_audit_command_refuses_in_one_sentence(dataset: Dataset, tmp_path: Path) -> None:
    for arguments, words in (
        (("--users", "1"), "two users"),
        (("--rows", "anki"), "rows"),
        (("--models", "HLR", "--train_equals_test"), "trains on what it is evaluated on"),
        (("--trials", "0"), "trials"),
        (("--seed", "-1"), "seed"),
    ):
        out = ("--out", tmp_path / "out", "--models", "HLR")
        done = run_in_process("audit", dataset.folder, *out, *arguments)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1
        assert words in done.stderr


@pytest.mark.slow
def test_batch_and_audit_refuse_each_others_folders(dataset: Dataset, tmp_path: Path) -> None:
    """Check that both refuse in one sentence and change nothing, also within an audit."""
    out = tmp_path / "audit"
    results = tmp_path / "results"
    audited(dataset, "AVG", out, users=[1, 2], trials=1, repeats=1)
    list(run_batch(dataset, resolve_configurations("AVG"), results, users=[1, 2], jobs=1))
    inner = tmp_path / "audit" / "beside"
    list(run_batch(dataset, resolve_configurations("AVG"), inner, users=[1, 2], jobs=1))
    before = contents(tmp_path)
    for folder in (out, out / "tuned", out / "published" / "result"):
        for fresh in (False, True):
            with pytest.raises(InputError, match="holds an audit: choose another --out"):
                list(
                    run_batch(
                        dataset, resolve_configurations("AVG"), folder, users=[1, 2], fresh=fresh
                    )
                )
        with pytest.raises(InputError, match="holds an audit"):
            merge_folders([results], folder)
    for fresh in (False, True):
        with pytest.raises(InputError, match="not from an audit in this folder"):
            audited(dataset, "AVG", results, users=[1, 2], fresh=fresh)
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_results_of_others_are_not_written_over(dataset: Dataset, tmp_path: Path) -> None:
    """Check that an audit replaces its own results, but no foreign file and no batch."""
    out = tmp_path / "out"
    foreign = out / "published" / "result" / "AVG.jsonl"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("of somebody else\n")
    options: Any = {"users": [1, 2], "trials": 1, "repeats": 1}
    for fresh in (False, True):
        with pytest.raises(InputError, match=r"AVG\.jsonl.*choose another --out"):
            audited(dataset, "AVG", out, fresh=fresh, **options)
    assert foreign.read_text() == "of somebody else\n"
    foreign.unlink()
    for fresh in (False, True, False):
        audited(dataset, "AVG", out, fresh=fresh, **options)
        assert len(foreign.read_text().splitlines()) == 2
    batch = out / "tuned"
    before = contents(batch)
    for fresh in (False, True):
        with pytest.raises(InputError, match="choose another --out"):
            audited(dataset, "AVG", batch, fresh=fresh, **options)
    assert contents(batch) == before


MENDED = """
from dataclasses import replace
from pathlib import Path

from srs_eval.models import all_models

HLR = all_models()["HLR"]


def fit(trials, train, weights, context):
    if context.user == 1 and not Path(__file__).with_name("mended").exists():
        raise OSError("the disk is full")
    return HLR.fit(trials, train, weights, context)


MODELS = (replace(HLR, name="MENDED", fit=fit, hyperparameters=()),)
"""


@pytest.mark.slow
def test_audit_tries_failed_units_again(dataset: Dataset, tmp_path: Path) -> None:
    file = tmp_path / "mended.py"
    file.write_text(MENDED)
    load_model_file(file)
    options: Any = {"users": [1, 2]}
    try:
        first = audited(dataset, "MENDED", tmp_path / "out", **options)
        (tmp_path / "mended").touch()
        events = list(
            run_audit(
                dataset,
                resolve_configurations("MENDED", SMALL_BATCHES),
                tmp_path / "out",
                evaluate=run_batch,
                **options,
            )
        )
    finally:
        del all_models()["MENDED"]
    assert list(first.failed.values()) == [1]
    planned, *units, _, again = events
    assert isinstance(planned, Planned)
    assert (planned.units, planned.already_done, planned.retried) == (1, 1, 1)
    assert [event.unit.status for event in units if isinstance(event, UnitDone)] == ["done"]
    assert isinstance(again, Audit)
    assert not again.failed
    assert again.tuned[0].change is not None
    assert again.tuned[0].change.users == 2


def test_audit_half_without_usable_users_has_no_figures(dataset: Dataset, tmp_path: Path) -> None:
    """Evaluate a half as published if the other half has too few reviews to choose by."""
    out = tmp_path / "out"
    page = tmp_path / "audit.json"
    audit = audited(dataset, "HLR,AVG", out, users=[1, 11], trials=1, repeats=1)
    halves = json.loads((out / "ledger.json").read_text())["configurations"]["HLR"]["halves"]
    assert [half["users"] for half in halves] == [1, 0]
    assert halves[0]["log_loss"] > 0
    assert halves[1]["log_loss"] is None
    assert halves[1]["published_log_loss"] is None
    Outputs(json=page).write(build_audit_document(audit))
    tables = json.loads(page.read_text())["tables"]
    (line,) = (row for row in tables["audit"]["rows"] if row["configuration"] == "HLR")
    assert line["tuning"] == "no users to choose a set-up on in half 2"
    assert line["tuned − published"] is None
    (setup,) = (row for row in tables["set-ups"]["rows"] if row["half"] == 2)
    assert setup["set-up"] == "no users to choose a set-up on"
    assert setup["published"] is None


def test_search_leaves_out_published_values_of_0(dataset: Dataset, tmp_path: Path) -> None:
    none = replace(SMALL_BATCHES, gamma=0.0)
    (fsrs,) = resolve_configurations("FSRS-6", none)
    published = {knob.name: knob.default_under(none) for knob in fsrs.tunable_hyperparameters}
    search = _RandomSearch(fsrs.tunable_hyperparameters, published, 8, 0)
    while setups := search.ask():
        search.tell([float(bool(setup)) for setup in setups])
    assert search.not_searched == ("gamma",)
    assert len(search.tried) == 9
    assert all("gamma" not in setup for setup, _ in search.tried)


@given(size=st.sampled_from([1, 2, 2**21]), seed=st.integers(0, 100))
def test_search_starts_from_a_published_value_beyond_its_limits(size: int, seed: int) -> None:
    knob = batch_size()
    search = _RandomSearch((knob,), {"batch_size": size}, 10, seed)
    while setups := search.ask():
        search.tell([float(not setup) for setup in setups])
    values = [setup["batch_size"] for setup, _ in search.tried if setup]
    assert values
    assert all(knob.minimum <= float(value) <= knob.maximum for value in values)
