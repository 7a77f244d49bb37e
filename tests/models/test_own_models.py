"""Model files with mistakes: each fails alone, in one line, and changes no other model."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srs_eval import models
from srs_eval.batch import _evaluate_user
from srs_eval.benchmark.store import Unit
from srs_eval.benchmark.tuning import PastSession
from srs_eval.data import model_folder
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.evaluate import evaluate
from srs_eval.engine.result import Result
from srs_eval.engine.run import Event, Failed, Finished, Skipped
from srs_eval.engine.session import LearnerSession
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.training.hyperparameters import Context
from tests.helpers.marks import slow_except
from tests.helpers.program import read_results, run_in_process, run_program
from tools.simulated import simulate_learner, write_collection, write_dataset

OTHERS = "HLR,FSRS-6-dry-run,SM2,AVG"

MODEL = """
import sys
import time
from dataclasses import replace

import numpy as np

from srs_eval.training.hyperparameters import Cancelled
from srs_eval.data.errors import InputError, NotEnoughData, NotInstalled
from srs_eval.training.trie import card_steps
from srs_eval.training.trie import history_trie
from srs_eval.models import TrainedModel, hlr

{above}

def fit(trials, train, weights, context):
    {fit}
    return [0.9]


def predict(trials, w, index, context):
    {predict}
    return np.full(len(index), w[0])


MODELS = (
    TrainedModel(
        name="SLIP",
        family="history",
        inputs="IL",
        parameters=1,
        source="tests",
        fit=fit,
        predict=predict,
        default=lambda context: [0.9],
    ),
)
"""


@pytest.fixture(autouse=True)
def no_cache_of_other_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(tmp_path / "cache"))


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file with one model, SLIP; it runs the given code first."""

    def written(fit: str = "pass", predict: str = "pass", above: str = "") -> Path:
        path = tmp_path / "slip.py"
        fit, predict = (textwrap.indent(code, "    ").strip() for code in (fit, predict))
        path.write_text(MODEL.format(fit=fit, predict=predict, above=above), encoding="utf-8")
        return path

    return written


@pytest.fixture
def loaded(write: Write) -> Iterator[Callable[..., Configuration]]:
    """Return a function that writes and loads SLIP and returns its configuration."""

    def load(*code: str, **named_code: str) -> Configuration:
        models.load_model_file(write(*code, **named_code))
        return resolve_configurations("SLIP")[0]

    yield load
    models.all_models().pop("SLIP", None)


@pytest.fixture(scope="module")
def log() -> ReviewLog:
    return simulate_learner(5, 900).log()


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("learner") / "collection.anki2"
    write_collection(simulate_learner(5, 900), path)
    return path


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    write_dataset({user: simulate_learner(user, 600) for user in (1, 2)}, folder)
    return folder


def collect_outcomes(events: Iterator[Event]) -> dict[str, Any]:
    return {e.configuration.name: e for e in events if isinstance(e, Finished | Failed | Skipped)}


def evaluate_to_results(log: ReviewLog, names: Any, **options: Any) -> dict[str, Result]:
    return {
        name: event.result
        for name, event in collect_outcomes(evaluate(log, names, **options)).items()
        if isinstance(event, Finished)
    }


# Arrays are shared by all models

WRITES = {
    "a column": ("t = trials.delta_t; t += 1", ""),
    "a history": ("trials.history_delta_t[:] = 1.0", ""),
    "outcomes": ("trials.y[train] = 1.0", ""),
    "in place": ("trials.history_rating.sort()", ""),
    "a fold": ("trials.folds[-1].test[:] = 0", ""),
    "the training rows": ("train[:] = 0", ""),
    "the weights": ("weights *= 2.0", ""),
    "the rows to predict": ("", "index[:] = index[::-1].copy()"),
    "features": ("x = trials.derived(hlr._compute_features); x += 1.0", ""),
    "the trie": ("history_trie(trials).delta_t[:] = 3.0", ""),
    "through torch": ("import torch; torch.from_numpy(trials.delta_t).add_(1.0)", ""),
    "derived, through torch": (
        "import torch; torch.from_numpy(trials.derived(hlr._compute_features)).add_(1.0)",
        "",
    ),
}


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize(
    ("fit", "predict"),
    slow_except({WRITES["a column"], WRITES["the rows to predict"]}, WRITES.values()),
    ids=WRITES,
)
def test_model_that_writes_to_arrays_changes_no_other_model(
    fit: str, predict: str, loaded: Callable[..., Configuration], log: ReviewLog
) -> None:
    """Check later figures in the same process and the figures in the cache."""
    undisturbed = evaluate_to_results(log, OTHERS, jobs=0, use_cache=False)
    slip = loaded(fit or "pass", predict or "pass")
    events = collect_outcomes(
        evaluate(log, [slip, *resolve_configurations(OTHERS)], jobs=0, prioritized={"SLIP"})
    )
    failed = events.pop("SLIP")
    if "torch" not in fit:  # which does not ask whether it may; `models check` does
        assert isinstance(failed, Failed)
        assert "All models share the arrays" in failed.reason
        assert "copy" in failed.reason
    assert events.keys() == undisturbed.keys()
    cached = evaluate_to_results(log, OTHERS, jobs=0)
    for name, result in undisturbed.items():
        for later_result in (events[name].result, cached[name]):
            np.testing.assert_array_equal(later_result.p, result.p)
            assert later_result.metrics == result.metrics


@pytest.mark.parametrize(("fit", "predict"), WRITES.values(), ids=WRITES)
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_session_is_unchanged_after_a_model_writes(
    fit: str, predict: str, loaded: Callable[..., Configuration], log: ReviewLog
) -> None:
    """Check features that earlier models have derived, as in a worker after some models."""
    slip = loaded(fit or "pass", predict or "pass")
    session = LearnerSession(log)
    before = {
        configuration.name: session.run(configuration)
        for configuration in resolve_configurations(OTHERS)
    }
    with nullcontext() if "torch" in fit else pytest.raises(Exception, match=r"read-only"):
        session.run(slip)
    for configuration in resolve_configurations(OTHERS):
        np.testing.assert_array_equal(session.run(configuration).p, before[configuration.name].p)


def test_shared_lists_cannot_be_changed(
    loaded: Callable[..., Configuration], log: ReviewLog
) -> None:
    slip = loaded("card_steps(trials).pop()")
    session = LearnerSession(log)
    (sm2,) = resolve_configurations("SM2")
    before = session.run(sm2)
    with pytest.raises(AttributeError):
        session.run(slip)
    np.testing.assert_array_equal(session.run(sm2).p, before.p)


def figures_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the results of a run without the time they took and where they came from."""
    return [{**row, "seconds": 0, "cached": False} for row in document["results"]]


@pytest.mark.slow
def test_run_reports_a_model_that_writes_in_a_worker(
    write: Write, collection: Path, tmp_path: Path
) -> None:
    """Run a model that adds 1 to all intervals; the other models keep their figures."""
    file = write("t = trials.delta_t\nt += 1")
    common = ("run", collection, "--models", f"SLIP,{OTHERS}", "--jobs", "1", "--json", "-")
    done = run_in_process(*common, "--model-file", file)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    (failed,) = document["failed"]
    assert failed["configuration"] == "SLIP"
    assert failed["reason"].startswith(
        "The model writes to a read-only array. All models share the arrays"
    )
    without = ("run", collection, "--models", OTHERS, "--jobs", "0", "--json", "-")
    for flags in ((), ("--no-cache",)):
        again = json.loads(run_in_process(*without, *flags).stdout)
        assert figures_of(again) == figures_of(document)


@pytest.mark.slow
def test_batch_reports_a_model_that_writes(write: Write, dataset: Path, tmp_path: Path) -> None:
    file = write("t = trials.delta_t\nt += 1")
    run = ("batch", "--dataset", dataset)
    with_slip = tmp_path / "with"
    done = run_in_process(
        *run, "--models", f"SLIP,{OTHERS}", "--model-file", file, "--out", with_slip
    )
    assert done.returncode == 1
    alone = tmp_path / "alone"
    assert run_in_process(*run, "--models", OTHERS, "--out", alone).returncode == 0
    for name in (configuration.name for configuration in resolve_configurations(OTHERS)):
        assert read_results(with_slip, name) == read_results(alone, name)
    failed = (with_slip / "failed" / "SLIP.jsonl").read_text().splitlines()
    assert [json.loads(line)["user"] for line in failed] == [1, 2]
    assert all("All models share the arrays" in json.loads(line)["reason"] for line in failed)


def test_returned_arrays_may_be_changed_later(
    loaded: Callable[..., Configuration], log: ReviewLog
) -> None:
    """Check predictions and parameters that the model changes later, and an online model's."""
    (usual,) = resolve_configurations("FSRS-6-dry-run")
    groups = np.arange(len(LearnerSession(log).trials(usual.protocol))) % 2
    slip = loaded(
        "kept[:] = 0.5 + 0.4 * train[0]\nreturn kept",
        "p[:] = w[0]\nreturn p[: len(index)]",
        above="kept, p = np.zeros(1), np.zeros(10_000)",
    )
    trials = replace(LearnerSession(log).trials(slip.protocol), partition=groups)
    session = LearnerSession(log)
    session._trials[session.preparation_key(slip.protocol)] = trials
    result = session.run(slip)
    assert result.parameters == {0: [0.5], 1: [0.9]}
    np.testing.assert_array_equal(result.p, np.where(result.tests.partition == 0, 0.5, 0.9))

    predicted = np.full(len(trials.test_index), 0.7)
    online = replace(usual, model=models.OnlineModel("KEPT", online=lambda *_: predicted))
    result = session.run(online)
    predicted[:] = 0.1
    assert (result.p == 0.7).all()


# Parameters that are not finite


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "-np.inf"])
@pytest.mark.parametrize("kind", ["[0.9, {}]", "np.array([0.9, {}])", "(0.9, {})"])
def test_parameters_that_are_not_finite_fail_the_model(
    kind: str, value: str, loaded: Callable[..., Configuration], log: ReviewLog
) -> None:
    slip = loaded(f"return {kind.format(value)}")
    events = collect_outcomes(evaluate(log, [slip, *resolve_configurations("AVG")], jobs=0))
    assert isinstance(events["AVG"], Finished)
    assert events["SLIP"].reason == (
        "ArithmeticError: SLIP ended up with parameters that are not finite numbers"
    )


@pytest.mark.slow
def test_report_describes_a_model_as_its_batch_did(
    write: Write, dataset: Path, tmp_path: Path
) -> None:
    run = ("batch", "--dataset", dataset, "--out", tmp_path / "r", "--model-file", write())
    assert run_in_process(*run, "--models", "SLIP", "--recency").returncode == 0
    done = run_in_process("report", tmp_path / "r", "--json", "-")
    assert done.returncode == 0, done.stderr
    for table in json.loads(done.stdout)["tables"].values():
        for row in (row for row in table["rows"] if row.get("file") == "SLIP-recency.jsonl"):
            assert (row["model"], row["configuration"]) == ("SLIP recency", "SLIP-recency")
            assert (row.get("input", "IL"), row.get("parameters", 1)) == ("IL", 1)
    means = json.loads(done.stdout)["tables"]["means-by-users"]["rows"]
    assert "SLIP recency" in [row["model"] for row in means if row["parameters"] == 1]


@pytest.mark.slow
def test_a_batch_survives_parameters_that_are_not_finite(
    write: Write, dataset: Path, tmp_path: Path
) -> None:
    file = write("return [0.9, float('nan')] if context.user == 1 else [0.9, 1.0]")
    out = tmp_path / "out"
    run = ("batch", "--dataset", dataset, "--out", out, "--model-file", file)
    for _ in range(2):  # the second run tries again
        done = run_in_process(*run, "--models", "SLIP,AVG")
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert set(read_results(out, "SLIP")) == {2}
        assert set(read_results(out, "AVG")) == {1, 2}
        (failed,) = (out / "failed" / "SLIP.jsonl").read_text().splitlines()
        assert "not finite numbers" in json.loads(failed)["reason"]


def test_json_survives_parameters_that_are_not_finite(write: Write, collection: Path) -> None:
    file = write("return [0.9, float('inf')]")
    run = ("run", collection, "--models", "SLIP,AVG", "--model-file", file, "--jobs", "0")
    done = run_in_process(*run, "--json", "-")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert [row["configuration"] for row in document["results"]] == ["AVG"]
    assert "not finite numbers" in document["failed"][0]["reason"]


# Imports from the folder of a model file


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [pytest.param("0", marks=pytest.mark.slow), "1"])
def test_model_file_imports_modules_beside_it(
    jobs: str, write: Write, collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check imports while the model runs, in this process and in a worker."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(models, "_model_folders", [])
    runs = run_program if jobs == "0" else run_in_process  # a worker is a new process anyway
    file = write("from parts.fitted import more\nassert more == 2", above="import helper_of_slip")
    (file.parent / "helper_of_slip.py").write_text("x = 1\n")
    (file.parent / "parts").mkdir()
    (file.parent / "parts" / "fitted.py").write_text("more = 2\n")
    run = ("run", collection, "--models", "SLIP", "--model-file", file, "--jobs", jobs, "--json")
    first = json.loads(runs(*run).stdout)
    assert [row["configuration"] for row in first["results"]] == ["SLIP"]
    assert json.loads(runs(*run).stdout)["results"][0]["cached"]
    (file.parent / "parts" / "fitted.py").write_text("more = 3\n")
    assert "AssertionError" in json.loads(runs(*run).stdout)["failed"][0]["reason"]
    sys.modules.pop("helper_of_slip", None)


@pytest.mark.slow
def test_a_changed_copy_beside_a_model_has_its_own_figures(write: Write, log: ReviewLog) -> None:
    file = write()
    copy = file.with_name("copy_of_slip.py")
    copy.write_text(file.read_text("utf-8").replace("[0.9]", "[0.7]"), encoding="utf-8")
    predictions = []
    for path in (file, copy):
        models.load_model_file(path)
        try:
            predictions.append(
                evaluate_to_results(log, resolve_configurations("SLIP"), jobs=0)["SLIP"].p[0]
            )
        finally:
            del models.all_models()["SLIP"]
    assert predictions == [0.9, 0.7]


READS = """
import json
from pathlib import Path

W = json.loads((Path(__file__).parent / "data" / "w.json").read_text())
"""


def write_in_a_folder(write: Write, content: str, predict: str, above: str) -> Path:
    """Write a model file into a folder of its own, with a module two folders down."""
    path = write(predict=predict, above=above)
    folder = path.parent / "project"
    (folder / "data" / "more").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "w.json").write_text(content)
    (folder / "data" / "more" / "of_slip.py").write_text(f"W = {content}\n")
    return path.rename(folder / path.name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "above"),
    [
        ("data/w.json", READS),
        pytest.param(
            "data/more/of_slip.py", "from data.more.of_slip import W", marks=pytest.mark.slow
        ),
    ],
)
def test_a_changed_file_below_the_folder_has_new_figures(
    changed: str,
    above: str,
    write: Write,
    log: ReviewLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check in one process; the earlier content's figures are found again."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(models, "_model_folders", [])
    file = write_in_a_folder(write, "0.8", "return np.full(len(index), W)", above)
    figures = []
    for content in ("0.8", "0.7", "0.8"):
        written = content if changed.endswith("json") else f"W = {content}  # is {content}\n"
        (file.parent / changed).write_text(written)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        models.load_model_file(file)
        result = evaluate_to_results(log, resolve_configurations("SLIP"), jobs=0)["SLIP"]
        figures.append((result.p[0], result.cached))
    del models.all_models()["SLIP"]
    for name in ("data", "data.more", "data.more.of_slip"):
        sys.modules.pop(name, None)
    assert figures == [(0.8, False), (0.7, False), (0.8, True)]


@pytest.mark.slow
def test_model_in_a_large_folder_is_not_cached(
    write: Write, collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "MAX_ENTRIES", 3)
    file = write_in_a_folder(write, "0.8", "return np.full(len(index), W)", READS)
    run = ("run", collection, "--models", "SLIP,HLR", "--model-file", file, "--jobs", 0, "--json")
    figures = []
    for content in ("0.8", "0.7"):
        (file.parent / "data" / "w.json").write_text(content)
        done = run_in_process(*run)
        result_of = {row["configuration"]: row for row in json.loads(done.stdout)["results"]}
        figures.append((result_of["SLIP"]["metrics"]["LogLoss"], result_of["SLIP"]["cached"]))
        assert done.stderr.count('Results of "slip.py" are not kept') == 1
        assert done.stderr.count("its folder has more than 3 files") == 1
    assert result_of["HLR"]["cached"]
    assert figures[0][0] != figures[1][0]
    assert not figures[1][1]


@pytest.mark.slow
@pytest.mark.parametrize("out", ["results", "."])
def test_batch_resumes_with_its_results_beside_the_model(
    out: str, write: Write, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_in_a_folder(write, "0.8", "return np.full(len(index), W)", READS)
    monkeypatch.chdir(file.parent)
    common = ("--dataset", dataset, "--models", "SLIP,AVG", "--model-file", "slip.py")
    batch = ("batch", *common, "--out", out, "--file", "--plot", "--users")
    assert run_in_process(*batch, "1").returncode == 0
    if out != ".":  # reports lie in no folder that they read
        report = ("report", out, "--html", "report.html", "--csv", "tables")
        assert run_in_process(*report).returncode == 0
    (file.parent / "batch.log").write_text("what a shell has noted")
    done = run_in_process(*batch, "1-2")
    assert done.returncode == 0, done.stderr
    assert set(read_results(Path(out), "SLIP")) == {1, 2}
    (file.parent / "data" / "w.json").write_text("0.7")
    refused = run_in_process(*batch, "1-2")
    assert refused.returncode == 2
    assert "SLIP had model file " in refused.stderr


@pytest.mark.slow
def test_a_growing_log_beside_a_model_does_not_stop_a_run(write: Write, collection: Path) -> None:
    """Check that workers compare the code of a model, not every file beside it."""
    notes = "(Path(__file__).parent / 'notes.txt').open('a').write('fitted')"
    file = write_in_a_folder(write, "0.8", notes, READS)
    run = ("run", collection, "--models", "SLIP,AVG", "--model-file", file, "--jobs", 2, "--json")
    for _ in range(2):
        done = run_in_process(*run)
        assert done.returncode == 0, done.stderr
        assert not json.loads(done.stdout)["failed"]


def test_code_that_changes_while_it_is_in_use_is_refused(
    loaded: Callable[..., Configuration], write: Write
) -> None:
    model = loaded().model
    restored, arguments = models._reduce_model(model)
    assert restored(*arguments) is model
    write(predict="index = index + 0")
    del models.all_models()["SLIP"]
    with pytest.raises(InputError, match="was changed while it was in use"):
        restored(*arguments)


def test_two_files_with_equally_named_helpers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(models, "_model_folders", [])
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        text = MODEL.format(fit="pass", predict="pass", above="import helper_of_two")
        (tmp_path / name / f"{name}.py").write_text(text.replace("SLIP", f"SLIP-{name}"))
        (tmp_path / name / "helper_of_two.py").write_text("x = 1\n")
    try:
        models.load_model_file(tmp_path / "one" / "one.py")
        with pytest.raises(InputError, match=r"helper_of_two\.py.*cannot be used in one run"):
            models.load_model_file(tmp_path / "two" / "two.py")
    finally:
        models.all_models().pop("SLIP-one", None)
        sys.modules.pop("helper_of_two", None)


# Changes to the process

ELSEWHERE = """
import os
import random

os.chdir(os.sep)
np.seterr(all="raise")
np.random.seed(5)
random.seed(5)
"""
IN_DOUBLE = """
import numba
import torch

torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
numba.config.DISABLE_JIT = 1
"""


@pytest.mark.parametrize("function", slow_except({"fit"}, ["above", "fit", "predict"]))
def test_run_writes_outputs_where_named_after_a_model_has_moved(
    function: str, write: Write, collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(**{function: ELSEWHERE})
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    common = ("--models", "SLIP,HLR", "--model-file", file, "--jobs", "0")
    done = run_in_process("run", collection, *common, "--json", "run.json", "--csv", "run.csv")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in folder.iterdir()} == {"run.json", "run.csv"}
    assert Path.cwd() == folder


def test_export_writes_where_named_after_a_model_has_moved(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(above=ELSEWHERE)
    small = tmp_path / "small.anki2"
    write_collection(simulate_learner(5, 300), small)
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    common = (small, "--models", "SLIP,HLR", "--model-file", file, "--jobs", "0")
    forms = ("--html", "a.html", "--md", "a.md", "--csv", "tables", "--json", "a")
    done = run_in_process("export", *common, *forms)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in folder.iterdir()} == {"a.html", "a.md", "tables", "a"}


@pytest.mark.slow
def test_batch_writes_where_named_after_a_model_has_moved(
    write: Write, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    batch = ("batch", "--dataset", dataset, "--models", "SLIP,AVG", "--model-file")
    assert run_in_process(*batch, write(fit=ELSEWHERE, above=ELSEWHERE)).returncode == 0
    assert set(read_results(folder / "results", "SLIP")) == {1, 2}


@pytest.mark.slow
def test_settings_of_a_model_file_change_no_other_model(
    loaded: Callable[..., Configuration], log: ReviewLog
) -> None:
    pytest.importorskip("torch")
    configurations = resolve_configurations("LSTM,FSRS-6,HLR")
    alone = [LearnerSession(log).run(configuration).p for configuration in configurations]
    slip = loaded(above=IN_DOUBLE + ELSEWHERE, fit="assert torch.empty(1).dtype == torch.float64")
    session = LearnerSession(log)
    for configuration, before in zip(configurations, alone, strict=True):
        session.run(slip)
        assert (session.run(configuration).p == before).all(), configuration.name


def test_model_continues_the_random_stream_of_its_file(
    loaded: Callable[..., Configuration], log: ReviewLog
) -> None:
    """Check that random numbers drawn by others do not change the model's."""
    slip = loaded(above="np.random.seed(5)", predict="return np.random.random(len(index))")
    np.random.seed(1)  # noqa: NPY002
    drawn = [LearnerSession(log).run(slip).p for _ in range(2)]
    stream = np.random.RandomState(5)
    assert (np.concatenate(drawn) == stream.random_sample(2 * len(drawn[0]))).all()


# Exceptions

WICKED = """
class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")
    __repr__ = __str__

class Leaving(Exception):
    def __str__(self):
        sys.exit(0)
    __repr__ = __str__

class Ends(BaseException):
    pass

class Stops(KeyboardInterrupt):
    pass

class NoText(Exception):
    def __str__(self):
        return 5

Nameless = type("N" * 1_000_000, (Exception,), {})
"""
RAISES = {
    "exit 0": ("sys.exit(0)", "SystemExit: 0"),
    "exit": ("sys.exit()", "SystemExit"),
    "exit with words": ('sys.exit("enough")', "SystemExit: enough"),
    "base": ("raise Ends('of the world')", "Ends: of the world"),
    "like an interrupt": ("raise Stops", "Stops"),
    "end of a generator": ("raise GeneratorExit", "GeneratorExit"),
    "stop": ("raise StopIteration", "StopIteration"),
    "cancelled by nobody": ("raise Cancelled", "Cancelled"),
    "long": ("raise ValueError('x' * 50_000_000)", "ValueError: xxx"),
    "long input error": ("raise InputError('x' * 50_000_000)", "xxx"),
    "without words": ("raise Mute", "Mute: its text cannot be read"),
    "exits when told": ("raise Leaving", "Leaving: its text cannot be read"),
    "no text": ("raise NoText", "NoText: its text cannot be read"),
    "long name": ("raise Nameless", "NNNN"),
    "many lines": ("raise ValueError('one\\ntwo\\r\\nthree\\u2028four')", "one two three four"),
    "escapes": ("raise ValueError('\\x1b[2Jred \\ud800')", "ValueError: \ufffd[2Jred \ufffd"),
    "read-only, its own": (
        "np.broadcast_to(1.0, 3)[:] = 2",
        "All models share the arrays",
    ),
}


IN_WORKERS = {"exit 0", "base", "like an interrupt", "long", "exits when told", "no text"}


@pytest.mark.parametrize(
    ("kind", "jobs"),
    [
        pytest.param(*case, marks=() if case[0] in IN_WORKERS or not case[1] else pytest.mark.slow)
        for case in itertools.product(RAISES, (0, 1))
    ],
)
def test_exception_in_a_model_is_a_short_failure(
    kind: str, jobs: int, loaded: Callable[..., Configuration], log: ReviewLog
) -> None:
    code, words = RAISES[kind]
    slip = loaded(code, above=WICKED)
    events = collect_outcomes(
        evaluate(log, [slip, *resolve_configurations("AVG")], jobs=jobs, prioritized={"SLIP"})
    )
    assert isinstance(events["AVG"], Finished)
    failed = events["SLIP"]
    assert isinstance(failed, Failed)
    assert words in failed.reason
    assert len(f"failed: SLIP: {failed.reason}") <= 500
    assert failed.reason.isprintable()
    assert len(failed.detail) <= 50_000
    failed.detail.encode()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise NotEnoughData('x' * 50_000_000)", "xxx"),
        ("raise NotInstalled('nothing is here')", "nothing is here"),
    ],
)
def test_missing_data_or_package_skips_the_model_in_one_line(
    code: str, words: str, loaded: Callable[..., Configuration], log: ReviewLog
) -> None:
    slip = loaded(predict=code, above=WICKED)
    skipped = collect_outcomes(evaluate(log, [slip], jobs=0))["SLIP"]
    assert isinstance(skipped, Skipped)
    assert words in skipped.reason
    assert len(skipped.reason) <= 500
    assert skipped.missing_module == ""


@pytest.mark.parametrize("code", ["raise KeyboardInterrupt", "raise AttributeError('read-only')"])
def test_exception_in_a_worker_is_the_models_failure(
    code: str, loaded: Callable[..., Configuration], log: ReviewLog
) -> None:
    """Check a keyboard interrupt and an error whose text resembles that of a read-only array."""
    events = collect_outcomes(
        evaluate(log, [loaded(code), *resolve_configurations("AVG")], jobs=1, prioritized={"SLIP"})
    )
    assert isinstance(events["AVG"], Finished)
    assert isinstance(events["SLIP"], Failed)
    assert code.removeprefix("raise ").partition("(")[0] in events["SLIP"].reason
    assert "All models share the arrays" not in events["SLIP"].reason


def test_notes_are_one_line(loaded: Callable[..., Configuration], log: ReviewLog) -> None:
    slip = loaded("raise NotEnoughData('too\\nfew ' * 10_000_000)")
    for note in LearnerSession(log).run(slip).notes:
        assert "default parameters (too few too few" in note
        assert len(note) <= 500


def test_run_with_a_failed_model_prints_its_table_and_exits_1(
    write: Write, collection: Path
) -> None:
    file = write("sys.exit(0)")
    run = ("run", collection, "--models", "SLIP,AVG", "--model-file", file, "--jobs", "0")
    done = run_in_process(*run)
    assert done.returncode == 1
    assert "\naverage: log loss " in done.stdout
    assert [line for line in done.stderr.splitlines() if "SLIP" in line] == [
        "failed: SLIP: SystemExit: 0"
    ]


def test_batch_goes_on_after_any_exception(write: Write, dataset: Path, tmp_path: Path) -> None:
    code = "raise Leaving if context.user == 1 else ValueError('x' * 50_000_000)"
    out = tmp_path / "out"
    file = write(code, above=WICKED)
    run = ("batch", "--dataset", dataset, "--out", out, "--model-file", file)
    done = run_in_process(*run, "--models", "SLIP,AVG")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert set(read_results(out, "AVG")) == {1, 2}
    failed = [json.loads(line) for line in (out / "failed" / "SLIP.jsonl").open()]
    assert [row["user"] for row in failed] == [1, 2]
    assert all(len(row["reason"]) <= 500 for row in failed)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("sys.exit(0)", "SystemExit: 0"),
        ("raise Leaving", "Leaving: its text cannot be read"),
        ("raise ValueError('x' * 50_000_000)", "ValueError: xxx"),
        ("return [float('nan')]", "not finite numbers"),
    ],
    ids=["exit", "no words", "long", "nan"],
)
def test_audit_goes_on_after_a_failed_model(
    code: str, words: str, loaded: Callable[..., Configuration], dataset: Path
) -> None:
    """Check the training parts as well as the held-out reviews."""
    (usual,) = resolve_configurations("HLR-dry-run")
    slip = loaded(code, above=WICKED)
    for session in (LearnerSession, PastSession):

        def units(*chosen: Configuration, kind: type[LearnerSession] = session) -> list[Unit]:
            return _evaluate_user(dataset, 1, chosen, Context(), {}, session_factory=kind)

        failed, done = units(slip, usual)
        assert [failed.status, done.status] == ["failed", "done"]
        assert words in failed.reason
        assert len(failed.reason) <= 500
        (alone,) = units(usual)
        assert done.result_line == alone.result_line


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_ctrl_c_interrupts_a_running_model(
    number: signal.Signals, code: int, write: Write, collection: Path, tmp_path: Path
) -> None:
    marker = tmp_path / "there"
    file = write(f"open({str(marker)!r}, 'w').close()\ntime.sleep(60)")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "srs_eval",
            "run",
            str(collection),
            "--jobs",
            "0",
            "--models",
            "SLIP",
            "--model-file",
            str(file),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not marker.exists() and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Interrupted" in stderr


# Invalid files


def test_model_file_without_models_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("MODEL = ()\n")
    with pytest.raises(InputError, match=r'none.py" has no models in MODELS\.$'):
        models.load_model_file(tmp_path / "none.py")


@pytest.mark.parametrize(
    "change",
    [
        ('name="SLIP"', "name=5"),
        ('name="SLIP"', "name=None"),
        ('name="SLIP"', 'name="x" * 50_000_000'),
        ('name="SLIP"', 'name="a\\x1b[2J"'),
        ('family="history"', "family=5"),
        ('inputs="IL"', "inputs=b'IL'"),
        ('source="tests"', "source=object()"),
        ('source="tests"', "source='tests', needs=[]"),
        ('source="tests"', "source='tests', configurations=(5,)"),
        ('source="tests"', "source='tests', aliases={5: 6}"),
        ('source="tests"', "source='tests', aliases=5"),
        ('source="tests"', "source='tests', flags=5"),
        ("MODELS = (", "class Ends(BaseException): pass\nraise Ends\nMODELS = ("),
        ("MODELS = (", "raise ValueError('x' * 50_000_000)\nMODELS = ("),
        ("MODELS = (", "MODELS = 5, ("),
    ],
    ids=lambda change: change[1][:40],
)
def test_invalid_model_files_are_refused_in_one_sentence(
    change: tuple[str, str], write: Write
) -> None:
    file = write()
    text = file.read_text()
    assert change[0] in text
    file.write_text(text.replace(*change))
    with pytest.raises(InputError) as refused:
        models.load_model_file(file)
    assert "SLIP" not in models.all_models()
    assert str(file) in str(refused.value)
    assert len(str(refused.value).removeprefix(f'"{file}"')) <= 500
    assert str(refused.value).isprintable()
