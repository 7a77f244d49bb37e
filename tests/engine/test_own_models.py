"""Models that read the future are marked and never best in runs, batches and reports."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srs_eval
from srs_eval.engine import evaluate as engine
from srs_eval.engine import quick_check
from srs_eval.engine.demo_learner import load_demo_learner
from srs_eval.engine.own_models import find_mistake_kind
from srs_eval.engine.run import Checking
from srs_eval.models import TrainedModel, all_models, load_model_file
from srs_eval.report.console import RunProgress
from tests.engine.test_conformance import RIGHT, WRONG
from tests.helpers.marks import slow_except
from tests.helpers.program import read_results, run_in_process
from tools.simulated import simulate_learner, write_dataset

NOTHING = "its figures mean nothing"
MESSAGES = {
    "right": "",
    "own": f"CHEAT reads the outcome that it predicts: {NOTHING}",
    "later": f"CHEAT reads outcomes of later reviews: {NOTHING}",
    "test-part": f"CHEAT is fitted to reviews that it is evaluated on: {NOTHING}",
    "next-interval": f"CHEAT reads later reviews: {NOTHING}",
    "sign": "CHEAT has a wrong gradient, and may be trained badly",
    "random": "CHEAT could not be checked for reading the future, because its predictions",
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    write_dataset({user: simulate_learner(user, 400) for user in (1, 2)}, folder)
    return folder


def write_model(kind: str, folder: Path) -> Path:
    right, wrong, _ = WRONG.get(kind, ("", "", set()))
    path = folder / "cheat.py"
    path.write_text(RIGHT.replace(right, wrong).replace("NAME", "CHEAT"), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", slow_except({"own"}, MESSAGES))
def test_leaking_model_is_marked_and_never_best(
    kind: str, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(tmp_path / "cache"))
    out = tmp_path / "out"
    model = write_model(kind, tmp_path)
    common = ("--models", "CHEAT,HLR,AVG", "--model-file", model)
    done = run_in_process("batch", "--dataset", dataset, *common, "--out", out)
    assert done.returncode == 0, done.stderr
    assert MESSAGES[kind] in done.stderr
    begun, _, after = done.stderr.partition("\n")
    assert begun.startswith("Checking whether CHEAT can see the future")
    assert ("CHEAT " in after) == bool(MESSAGES[kind])
    assert set(read_results(out, "CHEAT")) == {1, 2}
    setup = json.loads((out / "setup.json").read_text())
    mistake = setup["configurations"]["CHEAT"]["check"]
    assert {mistake} == (WRONG[kind][2] if kind != "right" else {""})
    report = run_in_process("report", out, "--md", "-").stdout
    marked = NOTHING in MESSAGES[kind]
    assert MESSAGES[kind] in " ".join(report.partition("##")[0].split())  # at the top
    assert not re.search(r"\| CHEAT \(reads.*\*\*", report)  # it is best in no column
    mark = "reads the future" if kind == "next-interval" else "reads outcomes"
    assert (f"CHEAT ({mark})" in report) == marked
    assert ("CHEAT (" in report) == marked
    assert bool(re.search(r"HLR has the lowest|HLR can be compared only", report)) == marked

    ran = run_in_process("run", dataset, "--user", "1", *common, "--jobs", "0", "--json", "-")
    document = json.loads(ran.stdout)
    (line,) = [row for row in document["results"] if row["configuration"] == "CHEAT"]
    assert (line["place"] is None) == marked
    assert document["groups"][0]["best"] == "HLR" or not marked
    note_start = MESSAGES[kind].removeprefix("CHEAT ")
    assert any(note.startswith(note_start) for note in line["notes"]) == bool(note_start)


@pytest.mark.slow
def test_tex_tables_and_audits_mark_leaking_models(dataset: Path, tmp_path: Path) -> None:
    model = write_model("next-interval", tmp_path)
    out = tmp_path / "out"
    common = ("--models", "CHEAT,HLR,AVG", "--model-file", model)
    assert run_in_process("batch", "--dataset", dataset, *common, "--out", out).returncode == 0
    assert run_in_process("report", out, "--tex", tmp_path / "tex").returncode == 0
    tables = [path.read_text("utf-8") for path in (tmp_path / "tex").glob("*.tex")]
    lines = [line for line in "\n".join(tables).splitlines() if "CHEAT" in line]
    assert lines
    assert all("CHEAT (reads the future)" in line for line in lines if line.startswith("CHEAT"))
    assert not any("textbf" in line for line in lines)

    tries = ("--trials", 1, "--repeats", 1, "--out", tmp_path / "audit")
    printed = run_in_process("audit", dataset, *common, *tries).stdout
    assert "CHEAT reads later reviews: its figures mean nothing" in " ".join(printed.split())
    assert "CHEAT (reads the future)" in printed
    (ranking,) = [
        paragraph for paragraph in printed.split("\n\n") if paragraph.startswith("Places by mean")
    ]
    assert "CHEAT" not in ranking


def test_notebook_compares_nothing_with_a_leaking_model(tmp_path: Path) -> None:
    load_model_file(write_model("next-interval", tmp_path))
    results = srs_eval.evaluate(load_demo_learner(4_000), "CHEAT,AVG,HLR", reference="CHEAT")
    all_models().pop("CHEAT")
    assert "CHEAT reads the future, so its figures mean nothing." in repr(results)
    html = results._repr_html_()
    assert "CHEAT reads the future, so its figures mean nothing." in html
    (row,) = re.findall(r"<tr><td>CHEAT</td>.*?</tr>", html)
    assert "<td>reads the future</td>" in row
    assert not re.search(r"less|more|better|worse", row)
    frame = results.frame()
    assert frame.loc["CHEAT", "standing"] == "reads the future"
    differences = [name for name in frame.columns if name.startswith("to_")]
    assert frame.loc["CHEAT", ["place", *differences]].isna().all()
    assert frame["to_reference"].isna().all()  # a leaking reference compares with nothing
    assert frame.loc["HLR", "place"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [0, 1])
def test_check_is_announced_once(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(tmp_path / "cache"))
    load_model_file(write_model("right", tmp_path))
    log = load_demo_learner(600)
    for times in (1, 0):
        with RunProgress() as progress:
            checked = []
            for event in engine.evaluate(log, "CHEAT,AVG", jobs=jobs, use_cache=False):
                progress.show(event)
                if isinstance(event, Checking):
                    checked.append(event.configuration.name)
        assert checked == ["CHEAT"] * times
        printed = capsys.readouterr().err
        assert printed.count("Checking whether CHEAT can see the future") == times
    (cached,) = (tmp_path / "cache" / "results").glob("*/*.txt")
    cached.unlink()
    srs_eval.evaluate(log, "CHEAT")
    assert "Checking whether CHEAT can see the future" in capsys.readouterr().err
    all_models().pop("CHEAT")


@pytest.mark.slow
def test_batch_notes_older_results_that_were_not_checked(dataset: Path, tmp_path: Path) -> None:
    model = write_model("right", tmp_path)
    common = ("--dataset", dataset, "--models", "CHEAT", "--model-file", model)
    assert run_in_process("batch", *common, "--out", tmp_path / "out").returncode == 0
    file = tmp_path / "out" / "setup.json"
    setup = json.loads(file.read_text())
    assert setup["configurations"]["CHEAT"].pop("check") == ""
    del setup["configurations"]["CHEAT"]["shown"]
    file.write_text(json.dumps(setup))
    done = run_in_process("batch", *common, "--out", tmp_path / "out")
    assert done.returncode == 0
    assert "CHEAT was not checked for reading the future (" in done.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_invalid_probabilities_are_named_in_batch_and_report(dataset: Path, tmp_path: Path) -> None:
    common = ("--models", "CHEAT,AVG", "--model-file", write_model("nan", tmp_path))
    done = run_in_process("batch", "--dataset", dataset, *common, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "CHEAT predicted something that is not a probability" in done.stderr
    report = run_in_process("report", tmp_path / "out", "--md", "-").stdout
    assert "CHEAT predicts something that is not a probability for a simulated learner" in report


def test_changed_model_object_is_checked_again() -> None:
    """Run a model under the same name three times, as when a notebook's cell is edited."""
    nothing = {"fit": lambda *_: [0.8], "default": lambda _: [0.8]}
    predictions: dict[str, Any] = {
        "reads outcomes": lambda trials, w, index, context: 0.2 + 0.6 * trials.y[index],
        "": lambda trials, w, index, context: np.full(len(index), w[0]),
    }
    for mark in ("reads outcomes", "", "reads outcomes"):
        model = TrainedModel("CHEAT", parameters=1, predict=predictions[mark], **nothing)
        assert srs_eval.evaluate(load_demo_learner(600), [model])["CHEAT"].invalid_reason == mark
    all_models().pop("CHEAT")


def test_damaged_verdict_in_the_cache_is_found_again(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(tmp_path / "cache"))
    run = ("run", dataset, "--user", "1", "--models", "CHEAT", "--jobs", "0", "--json", "-")
    model = write_model("own", tmp_path)
    for damaged in (b"\xff\xfe", b"own outco", b""):
        (line,) = json.loads(run_in_process(*run, "--model-file", model).stdout)["results"]
        assert line["place"] is None
        (cached,) = (tmp_path / "cache" / "results").glob("*/*.txt")
        assert cached.read_bytes() == b"own outcome"
        cached.write_bytes(damaged)


def test_failed_check_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRS_EVAL_CACHE_DIR", str(tmp_path / "cache"))
    (model,) = load_model_file(write_model("right", tmp_path))
    with monkeypatch.context() as broken:
        broken.setattr(quick_check, "load_learner", lambda *_: 1 / 0)
        assert find_mistake_kind(model) == "fails"
    assert find_mistake_kind(model) == ""
    all_models().pop("CHEAT")
