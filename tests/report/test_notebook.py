"""The interface for notebooks: models as objects, representations, frames and pictures."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pandas
import pytest

import srs_eval
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import ReviewLog
from srs_eval.models import Model, TrainedModel, load_model_file
from srs_eval.stats.tables import Figure
from tests.conftest import REPOSITORY
from tests.helpers.program import batches_in_process, run_in_process, run_script
from tools.simulated import simulate_learner, write_collection, write_dataset


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> ReviewLog:
    path = tmp_path_factory.mktemp("learner") / "Ann <Lee>.anki2"
    write_collection(simulate_learner(8, 3000), path)
    return srs_eval.load(path)


def make_constant_model(p: float) -> TrainedModel:
    """Return a model that always predicts p."""
    return TrainedModel(
        "CONSTANT",
        family="baseline",
        parameters=0,
        predict=lambda trials, parameters, index, context: np.full(len(index), p),
    )


def fail(*_: object) -> Any:
    raise ValueError("nothing")


@pytest.mark.slow
def test_models_as_objects_are_evaluated_beside_names(log: ReviewLog, tmp_path: Path) -> None:
    """Check that a changed model is evaluated anew and belongs to no group."""
    with batches_in_process():
        for p in (0.9, 0.6):
            results = srs_eval.evaluate(log, models=["AVG", make_constant_model(p)])
            assert {*results} == {"AVG", "CONSTANT"}
            assert set(results["CONSTANT"].p) == {p}
        assert (
            srs_eval.evaluate(log, models=make_constant_model(0.5)).frame().loc["CONSTANT", "place"]
            == 1
        )
        assert "CONSTANT" not in srs_eval.evaluate(log, models="baseline")
        (finding,) = srs_eval.compare(log, "models", models=make_constant_model(0.9))
        (table,) = srs_eval.tables(finding)
        losses = {row[0]: row[1].value for row in table.rows if isinstance(row[1], Figure)}
        again = srs_eval.evaluate(log, models=make_constant_model(0.9))["CONSTANT"]
        assert losses["CONSTANT"] == again.metrics.log_loss
        with pytest.raises(InputError, match=r"FAILING has failed: .*nothing"):
            srs_eval.compare(
                log,
                "models",
                models=replace(make_constant_model(0.9), name="FAILING", predict=fail),
            )
        with pytest.raises(InputError, match="cannot be sent to worker processes"):
            srs_eval.evaluate(log, models=["AVG", make_constant_model(0.9)], jobs=2)
        wrong = replace(make_constant_model(0.9), name="fsrs-6")
        with pytest.raises(InputError, match="fsrs-6 means FSRS-6 already"):
            srs_eval.evaluate(log, models=wrong)
        file = tmp_path / "mine.py"
        file.write_text(
            "from srs_eval.models import TrainedModel\n"
            "MODELS = (TrainedModel('MINE', parameters=0,\n"
            "    predict=lambda trials, parameters, index, context: index * 0 + 0.8),)\n"
        )
        assert set(srs_eval.evaluate(log, load_model_file(file), jobs=1)["MINE"].p) == {0.8}


def test_objects_have_representations_and_pictures(log: ReviewLog) -> None:
    assert {"load", "evaluate", "compare", "read_results", "leaderboard"} <= set(dir(srs_eval))
    assert all(getattr(srs_eval, name) for name in dir(srs_eval))
    results = srs_eval.evaluate(log, models=["AVG", "FSRS-6-dry-run", "FSRS-6"])
    findings = srs_eval.compare(log, ["hard", "wrong"])
    for value, text in ((log, "entries: 3,"), (results, "log loss"), (findings, "Hard")):
        assert text in value._repr_html_()
        assert len(repr(value)) < 1000
    assert "Ann &lt;Lee&gt;.anki2" in log._repr_html_()
    assert repr(log).startswith("ReviewLog('Ann <Lee>.anki2', entries: 3,")
    assert repr(findings[0]).startswith("Finding('hard', ")
    for figure, words in (
        (results.plot.calibration("FSRS-6", "AVG"), {"FSRS-6", "average"}),
        (results.plot.calibration(), {results.groups[0].lines[0].configuration.words}),
        (results.plot.forgetting_curves("FSRS-6-dry-run"), {"Good"}),
    ):
        (legend,) = figure.legends
        assert words <= {text.get_text() for text in legend.get_texts()}
    assert len(results.plot.calibration(*["AVG"] * 9).axes[0].lines) == 10
    labels = results.plot.ranking().axes[0].get_yticklabels()
    assert {label.get_text() for label in labels} == {"FSRS-6", "FSRS-6 defaults", "average"}


def test_predictions_have_the_chosen_columns(log: ReviewLog) -> None:
    results = srs_eval.evaluate(log, models=["AVG", "SM2"])
    usual = ["configuration", "review_th", "fold", "y", "p", "review_id"]
    assert list(results.predictions()) == usual
    columns = ["card_id", "note_id", "deck_id", "preset_id", "day", "review_id", "p"]
    frame = results.predictions(columns=columns)
    assert list(frame) == ["configuration", *columns]
    assert log.entries is not None
    of_review = dict(zip(log.entries.time_ms.tolist(), log.entries.card_id.tolist(), strict=True))
    assert frame["review_id"].map(of_review).equals(frame["card_id"])
    deck = log.deck_of(frame["card_id"].to_numpy())
    np.testing.assert_array_equal(frame["deck_id"], deck)
    np.testing.assert_array_equal(frame["preset_id"], log.preset_of(deck))
    np.testing.assert_array_equal(frame["day"], np.tile(results["AVG"].day, 2))
    with pytest.raises(InputError, match='There is no column "colour", only review_th, fold'):
        results.predictions(columns=["colour"])


def test_frames_of_result_files_equal_the_reports_tables(tmp_path: Path) -> None:
    data = tmp_path / "data"
    out = tmp_path / "results"
    write_dataset({user: simulate_learner(user, 300 + 50 * user) for user in (1, 2, 3)}, data)
    done = run_in_process("batch", "--dataset", data, "--models", "MOVING-AVG,AVG", "--out", out)
    assert done.returncode == 0, done.stderr
    users = srs_eval.read_results(out)
    assert len(users) == 6
    assert users.index.is_unique
    assert list(users)[:5] == ["configuration", "label", "user", "size", "RMSE"]
    board = srs_eval.leaderboard(out, metrics=["LogLoss", "AUC"])
    by_users = board[board["weighting"] == "users"]
    means = users.groupby("configuration")["LogLoss"].mean()
    assert (by_users["LogLoss"] - means).abs().max() < 1e-9
    assert (board["LogLoss_low"] <= board["LogLoss"]).all()
    with pytest.raises(InputError, match="metrics takes"):
        srs_eval.leaderboard(out, metrics=["loss"])
    with pytest.raises(InputError, match="Name a folder"):
        srs_eval.leaderboard(metrics=["AUC"])
    report = run_in_process("report", out, "--json", "-", "--columns", "LogLoss,AUC")
    table = pandas.DataFrame(json.loads(report.stdout)["tables"]["means-by-users"]["rows"])
    np.testing.assert_allclose(by_users["LogLoss"], table["log_loss"])
    half = (by_users["LogLoss_high"] - by_users["LogLoss_low"]) / 2
    np.testing.assert_allclose(half, table["log_loss_half_width"])


@pytest.mark.slow
def test_cells_of_the_example_run_and_show_something(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Check that docs/example.ipynb runs with an output in every cell, and stores none."""
    notebook = json.loads((REPOSITORY / "docs" / "example.ipynb").read_text(encoding="utf-8"))
    copyfile(log.import_summary.path, tmp_path / "collection.anki2")
    monkeypatch.chdir(tmp_path)
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    outputs = []
    with batches_in_process():
        for cell in cells:
            *lines, last = ast.parse(cell).body
            assert isinstance(last, ast.Expr)
            exec(compile(ast.Module(lines, []), "example.ipynb", "exec"), names)
            outputs.append(
                eval(compile(ast.Expression(last.value), "example.ipynb", "eval"), names)
            )
    figures = [output for output in outputs if hasattr(output, "savefig")]
    assert len(figures) == 3
    assert all(hasattr(output, "_repr_html_") for output in outputs)
    assert not any(cell.get("outputs") for cell in notebook["cells"])


# Errors are one sentence


def test_model_file_is_loaded_by_its_path_as_text(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from srs_eval.models import TrainedModel\n"
        "MODELS = (TrainedModel('MINE', parameters=0,\n"
        "    predict=lambda trials, parameters, index, context: index * 0 + 0.8),)\n"
    )
    with batches_in_process():
        assert [model.name for model in load_model_file(str(file))] == ["MINE"]
    with pytest.raises(InputError, match="cannot be read"):
        load_model_file(str(tmp_path / "absent.py"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": [3]}, "The models are names or Model objects; 3 is neither."),
        ({"models": 3}, "The models are names or Model objects; 3 is neither."),
        ({"protocol": "secs"}, "protocol is an srs_eval.Protocol, not 'secs'."),
        ({"context": {"user": 1}}, "context is an srs_eval.Context, not {'user': 1}."),
        ({"reference": 3}, "reference is the name of a configuration, not 3."),
        ({"features": 3}, "features is the path of a file, not 3."),
        ({"predictions": 3}, "predictions is the path of a file, not 3."),
        ({"jobs": "2"}, "jobs is a number of worker processes, 0 for none, not '2'."),
        ({"jobs": -1}, "jobs is a number of worker processes, 0 for none, not -1."),
        ({"jobs": True}, "jobs is a number of worker processes, 0 for none, not True."),
        ({"use_cache": "no"}, "use_cache is True or False, not 'no'."),
        ({"on_event": 3}, "on_event is a function of an event, not 3."),
    ],
)
def test_evaluate_refuses_wrong_types_with_what_it_takes(
    options: dict[str, Any], message: str, log: ReviewLog
) -> None:
    with pytest.raises(InputError) as refused:
        srs_eval.evaluate(log, **{"models": "AVG", **options})
    assert str(refused.value) == message


LISTS = "parameters is a dictionary of lists of numbers by name, such as {'mine': [0.2, ...]}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": [3]}, "The models are names or Model objects; 3 is neither."),
        ({"questions": 3}, "questions is a question's name or a list of such names, not 3."),
        ({"questions": [3]}, "questions is a question's name or a list of such names, not [3]."),
        ({"parameters": [0.5, 1.0]}, f"{LISTS}, not [0.5, 1.0]."),
        ({"parameters": "0.5"}, f"{LISTS}, not '0.5'."),
        ({"parameters": {"mine": 3}}, f"{LISTS}, not {{'mine': 3}}."),
        ({"parameters": {"mine": ["a"]}}, f"{LISTS}, not {{'mine': ['a']}}."),
        ({"parameters": {3: [0.5]}}, f"{LISTS}, not {{3: [0.5]}}."),
        ({"parameters": {"mine": [0.5]}}, "FSRS does not run these 1 FSRS parameter"),
        ({"predictions": 3}, "predictions is the path of a file, not 3."),
        ({"context": 3}, "context is an srs_eval.Context, not 3."),
        ({"equivalence": "0"}, "equivalence is a number of 0 or more, not '0'."),
        ({"equivalence": -1.0}, "equivalence is a number of 0 or more, not -1.0."),
        ({"equivalence": float("nan")}, "equivalence is a number of 0 or more, not nan."),
    ],
)
def test_compare_refuses_wrong_values_with_what_it_takes(
    options: dict[str, Any], message: str, log: ReviewLog
) -> None:
    with pytest.raises(InputError) as refused:
        srs_eval.compare(log, **options)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("function", [srs_eval.evaluate, srs_eval.compare, srs_eval.workload])
@pytest.mark.parametrize("value", ["a.anki2", None])
def test_functions_of_a_log_refuse_anything_else_at_once(
    function: Callable[..., object], value: object
) -> None:
    with pytest.raises(InputError, match=r"log is what srs_eval.load returns, not "):
        function(value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": 3}, "preset is the name or the number of a preset as text, not 3."),
        (
            {"question": 3},
            "question is an srs_eval.advice.workload.estimate.WorkloadQuestion, not 3.",
        ),
        ({"parameters": 3}, "parameters is a list of numbers, not 3."),
        ({"parameters": ["a"]}, "parameters is a list of numbers, not ['a']."),
        ({"context": 3}, "context is an srs_eval.Context, not 3."),
    ],
)
def test_workload_refuses_wrong_types_with_what_it_takes(
    options: dict[str, Any], message: str, log: ReviewLog
) -> None:
    with pytest.raises(InputError) as refused:
        srs_eval.workload(log, **options)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: srs_eval.load(3), "path is the path of a file or folder, not 3."),
        (lambda: srs_eval.load(None), "path is the path of a file or folder, not None."),
        (lambda: srs_eval.load("a", timezone=3), "timezone is the name of a time zone, not 3."),
        (lambda: srs_eval.load("a", rollover="4"), "rollover is a whole number, not '4'."),
        (lambda: srs_eval.load("a", user=1.5), "user is a whole number, not 1.5."),
        (lambda: load_model_file(3), "path is the path of a file, not 3."),
        (lambda: srs_eval.read_results(3), "folders are paths of folders; 3 is not one."),
        (lambda: srs_eval.read_results(["a"]), "folders are paths of folders; ['a'] is not one."),
        (lambda: srs_eval.leaderboard(3), "folders are paths of folders; 3 is not one."),
        (lambda: srs_eval.leaderboard("a", metrics=3), "metrics is a list of names, not 3."),
        (lambda: srs_eval.leaderboard("a", metrics="RMSE"), "metrics is a list of names, not 'RM"),
        (lambda: srs_eval.leaderboard("a", metrics=[]), "metrics is a list of names, not []."),
        (lambda: srs_eval.line(3), "findings is a list of what srs_eval.compare returns, not 3."),
        (lambda: srs_eval.line([]), "findings is a list of what srs_eval.compare returns, not []"),
        (lambda: srs_eval.sentences([]), "finding is one of what srs_eval.compare returns, not []"),
        (lambda: srs_eval.tables(None), "finding is one of what srs_eval.compare returns, not Non"),
    ],
)
def test_functions_refuse_wrong_types_with_what_they_take(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        call()
    assert str(refused.value).startswith(message)


def test_results_refuse_wrong_types_with_what_they_take(log: ReviewLog) -> None:
    results = srs_eval.evaluate(log, "AVG")
    calls: dict[Callable[[], object], str] = {
        lambda: results.predictions(columns=3): "columns is a list of names, not 3.",  # type: ignore[arg-type]
        lambda: results.predictions(columns="y"): "columns is a list of names, not 'y'.",
        lambda: results.predictions(columns=[3]): "columns is a list of names, not [3].",  # type: ignore[list-item]
        lambda: results.plot.ranking(1): "group is 0, the number of the only ranking, not 1.",
        lambda: results.plot.ranking("a"): "group is 0, the number of the only ranking, not 'a'.",  # type: ignore[arg-type]
    }
    for call, message in calls.items():
        with pytest.raises(InputError) as refused:
            call()
        assert str(refused.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": 3}, "weights is the path of a file or folder, not 3."),
        ({"features": 3}, "features is the path of a file, not 3."),
        ({"sm2_target": "a"}, "sm2_target is a number between 0 and 1, not 'a'."),
        ({"sm2_target": 1.5}, "sm2_target is a number between 0 and 1, not 1.5."),
        ({"seen_users": "no"}, "seen_users is True or False, not 'no'."),
        ({"device": 3}, "device is a text such as 'cpu' or 'cuda:1', not 3."),
        ({"user": "a"}, "user is a whole number, not 'a'."),
        ({"hyperparameters": 3}, "hyperparameters is a dictionary of values by name, not 3."),
        ({"tick": 3}, "tick is a function of the fraction done, not 3."),
    ],
)
def test_context_refuses_wrong_types_with_what_it_takes(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        srs_eval.Context(**options)
    assert str(refused.value) == message


def test_context_takes_paths_as_text() -> None:
    context = srs_eval.Context(weights="a", features="b")  # type: ignore[arg-type]
    assert (context.weights, context.features) == (Path("a"), Path("b"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 3}, "3 stands where a model has a text"),
        ({"parameters": "many"}, "CONSTANT: parameters is a whole number, not 'many'."),
        ({"predict": 3}, "CONSTANT: predict is a function, not 3."),
        ({"fit": "fit"}, "CONSTANT: fit is a function, not 'fit'."),
        ({"flags": 3}, "CONSTANT: flags is a collection of texts, not 3."),
        ({"aliases": ["a"]}, "CONSTANT: aliases is a dictionary of texts, not ['a']."),
        ({"configurations": "CONSTANT"}, "CONSTANT: configurations is a collection of texts, not "),
        ({"hyperparameters": 3}, "CONSTANT: hyperparameters is a tuple of Hyperparameter objects"),
    ],
)
def test_model_refuses_wrong_types_with_what_it_takes(
    changes: dict[str, Any], message: str, log: ReviewLog
) -> None:
    with batches_in_process(), pytest.raises(InputError) as refused:
        srs_eval.evaluate(log, replace(make_constant_model(0.9), **changes))
    assert str(refused.value).startswith(message)


def test_missing_result_proposes_a_name_that_has_one(log: ReviewLog) -> None:
    broken = replace(make_constant_model(0.9), name="BROKEN", predict=fail)
    with batches_in_process():
        results = srs_eval.evaluate(log, ["AVG", "FSRS-6-dry-run", broken])
        for name, message in {
            "FSRS-9": 'There is no result of "FSRS-9". Did you mean FSRS-6-dry-run?',
            "FSRS-7": 'There is no result of "FSRS-7". Did you mean FSRS-6-dry-run?',
            "xyz": 'There is no result of "xyz", only of FSRS-6-dry-run, AVG.',
            "broken": "BROKEN has no result: it failed (ValueError: nothing).",
        }.items():
            with pytest.raises(KeyError) as missing:
                results[name]
            assert missing.value.args == (message,)


def test_names_that_callers_need_are_exported_lazily() -> None:
    from srs_eval.data.errors import InputError as error
    from srs_eval.data.protocol import Protocol
    from srs_eval.training.hyperparameters import Context

    assert srs_eval.Protocol is Protocol
    assert srs_eval.Context is Context
    assert srs_eval.Model is Model
    assert srs_eval.InputError is error
    script = (
        "import sys, srs_eval\nprint('numpy' in sys.modules, srs_eval.Protocol.__name__)\n"
        "print({'Protocol', 'Context', 'Model', 'InputError'} <= {*dir(srs_eval)})"
    )
    done = run_script(script)
    assert done.stdout.splitlines() == ["False Protocol", "True"], done.stderr
