"""The four kinds of models: what each needs, and files from before there were kinds."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.engine.demo_learner import load_demo_learner
from srs_eval.engine.session import LearnerSession, fit_and_predict
from srs_eval.models import (
    IN_MEMORY,
    Context,
    Model,
    OnlineModel,
    TrainedModel,
    add_model,
    all_models,
    load_model_file,
)
from srs_eval.models.configurations import Configuration, resolve_configurations
from tests.conftest import write_simulated_collection
from tests.helpers.program import run_in_process
from tools.simulated import simulate_learner

THREE_FIELDS = '''
"""The share recalled, one parameter."""

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.models import TrainedModel


def predict(trials, w, index, context):
    return np.full(len(index), w[0])


def fit(trials, train, weights, context):
    if len(train) < 5:
        raise NotEnoughData("fewer than five reviews")
    return [float(np.average(trials.y[train], weights=weights))]


MODELS = (TrainedModel(name="PLAIN", fit=fit, predict=predict),)
'''


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "plain" / "plain.py"
    path.parent.mkdir()
    path.write_text(THREE_FIELDS, encoding="utf-8")
    yield path
    all_models().pop("PLAIN", None)


def test_a_model_of_three_fields_is_run_and_described(
    plain: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    collection = write_simulated_collection(tmp_path_factory, seed=5, reviews=1_500)
    models = ("--model-file", str(plain), "--models", "PLAIN,PLAIN-preset,AVG", "--jobs", "1")
    done = run_in_process("run", str(collection), *models, "--json", "-")
    assert done.returncode == 0, done.stderr
    results = {each["configuration"]: each for each in json.loads(done.stdout)["results"]}
    assert set(results) == {"PLAIN", "PLAIN-preset", "AVG"}
    assert len(results["PLAIN"]["parameters"]["0"]) == 1
    table = run_in_process("run", str(collection), *models)
    assert "PLAIN" in table.stdout
    described = run_in_process("models", "PLAIN", "--model-file", str(plain), "--json", "-")
    (entry,) = json.loads(described.stdout)["models"]
    assert entry["family"] == "other"
    assert entry["parameters"] is None
    assert entry["trained"]


def test_a_model_without_defaults_is_fitted_jointly_only_if_needed() -> None:
    log = simulate_learner(5, 2_000).log()
    fits: list[int] = []

    def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
        fits.append(len(np.unique(trials.partition[train])))
        return [float(trials.y[train].mean())]

    model = TrainedModel(
        "COUNTING",
        fit=fit,
        predict=lambda trials, parameters, index, context: np.full(len(index), parameters[0]),
    )
    protocol = Protocol(partitions="preset")
    configuration = Configuration("COUNTING-preset", model, protocol)
    session = LearnerSession(log)
    trials = session.trials(protocol)
    assert len(np.unique(trials.partition)) > 1
    needs_joint_fit = 0
    for fold in trials.folds:
        unseen = np.setdiff1d(trials.partition[fold.test], trials.partition[fold.train])
        needs_joint_fit += len(unseen) > 0
    fit_and_predict(configuration, trials, Context())
    assert fits.count(1) > 0
    assert len(fits) - fits.count(1) == needs_joint_fit


@pytest.mark.slow
def test_a_model_of_three_fields_passes_its_check(plain: Path) -> None:
    done = run_in_process("models", "check", str(plain))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("line", ["Model(name='OLD', fit=len, predict=len)", "Model('OLD')"])
def test_a_file_with_the_base_class_says_what_to_write(tmp_path: Path, line: str) -> None:
    file = tmp_path / "old.py"
    file.write_text(f"from srs_eval.models import Model\nMODELS = ({line},)\n", encoding="utf-8")
    done = run_in_process("models", "--model-file", str(file))
    assert done.returncode == 2
    assert "use TrainedModel(...) for fit and predict" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_a_subclass_in_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from srs_eval.models import TrainedModel\nclass Mine(TrainedModel): pass\n"
        "MODELS = (Mine('MINE', predict=len),)\n"
    )
    with pytest.raises(InputError, match="type Mine; use TrainedModel"):
        load_model_file(file)


@pytest.fixture
def never_fitted() -> Iterator[TrainedModel]:
    def fit(*_: object) -> list[float]:
        raise NotEnoughData("too few reviews")

    def predict(trials: Trials, w: list[float], index: object, context: Context) -> object:
        return np.full(np.shape(index), w[0])

    yield TrainedModel("NEVER", fit=fit, predict=predict)  # type: ignore[arg-type]
    all_models().pop("NEVER", None)


def test_a_learner_without_a_fit_is_skipped_if_there_is_no_default(
    never_fitted: TrainedModel,
) -> None:
    add_model(never_fitted)
    with pytest.raises(NotEnoughData, match="too few reviews"):
        LearnerSession(load_demo_learner(600)).run(resolve_configurations("NEVER")[0])
    with pytest.raises(InputError, match="NEVER does not support parameters that are not fitted"):
        resolve_configurations("NEVER-dry-run")


def test_models_of_every_kind_are_pickled_by_name() -> None:
    for name in ("FSRS-6", "AVG", "BLEND", "RWKV-Anki"):
        model = all_models()[name]
        assert pickle.loads(pickle.dumps(model)) is model
    with pytest.raises(pickle.PicklingError, match="the model AVG is not the one"):
        pickle.dumps(OnlineModel("AVG", online=lambda trials, context: trials.y))


def test_the_base_class_makes_no_model() -> None:
    with pytest.raises(InputError, match=r"use TrainedModel\(\.\.\.\)"):
        Model("NAME")


@pytest.mark.parametrize("kind", ["trained", "online"])
def test_remarks_of_an_own_model_see_what_its_predictions_see(kind: str) -> None:
    seen: list[Trials] = []

    def remember(trials: Trials, context: Context) -> tuple[str, ...]:
        seen.append(trials)
        return ("a remark",)

    def predict(trials: Trials, w: object, index: object, context: Context) -> object:
        return np.full(np.shape(index), 0.9)

    def online(trials: Trials, context: Context) -> object:
        return np.full(len(trials.test_index), 0.9)

    model: Model
    if kind == "trained":
        model = TrainedModel("SEES", predict=predict, remarks=remember, file=IN_MEMORY)  # type: ignore[arg-type]
    else:
        model = OnlineModel("SEES", online=online, remarks=remember, file=IN_MEMORY)  # type: ignore[arg-type]
    add_model(model)
    session = LearnerSession(load_demo_learner(600))
    try:
        result = session.run(resolve_configurations("SEES")[0])
    finally:
        all_models().pop("SEES", None)
    assert "a remark" in result.notes
    (trials,) = seen
    assert trials.log is not session.log  # a copy without what was recorded after the reviews
