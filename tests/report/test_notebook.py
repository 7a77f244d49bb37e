"""The interface for notebooks: models as objects, representations, frames and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from typing import Any

import nbformat
import numpy as np
import pandas
import pytest
from nbclient import NotebookClient

import srs_eval
from srs_eval.benchmark.plan import Planned
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import ReviewLog
from srs_eval.models import Model, TrainedModel, load_model_file
from srs_eval.stats.tables import Figure
from srs_eval.training.hyperparameters import Epoch
from srs_eval.training.networks import WeightsOrigin, save_pretrained
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
        with pytest.raises(InputError, match="cannot be sent to worker processes: write it"):
            srs_eval.evaluate_dataset("a", make_constant_model(0.9), out=tmp_path)
        wrong = replace(make_constant_model(0.9), name="fsrs-6")
        with pytest.raises(InputError, match="fsrs-6 already means FSRS-6"):
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


def test_breakdown_stands_beside_the_average_even_if_it_was_not_asked_for(log: ReviewLog) -> None:
    results = srs_eval.evaluate(log, models="SM2")
    breakdown = results.breakdown("SM2")
    result = results["SM2"]
    assert breakdown.brier_parts.brier == pytest.approx(result.metrics.rmse**2)
    (line,) = (line for line in results.groups[0].lines if line.configuration.name == "SM2")
    assert line.relative_to_baseline is not None
    assert breakdown.log_loss_skill == pytest.approx(-line.relative_to_baseline)
    reviews_before = results.predictions(["reviews_before"])["reviews_before"]
    first = breakdown.by_reviews_before[0]
    assert first.reviews == (reviews_before == 1).sum()
    with pytest.raises(KeyError):
        results.breakdown("FSRS-6")


def test_predictions_have_further_columns_if_named(log: ReviewLog) -> None:
    results = srs_eval.evaluate(log, models=["AVG", "SM2"])
    usual = ["configuration", "review_th", "fold", "y", "p", "review_id"]
    assert list(results.predictions()) == usual
    columns = ["card_id", "note_id", "deck_id", "preset_id", "day", "review_id", "p"]
    frame = results.predictions(columns=columns)
    assert list(frame) == [*usual, *columns[:-2]]
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


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a data set of eight simulated learners."""
    folder = tmp_path_factory.mktemp("data set") / "data"
    write_dataset({user: simulate_learner(user, 250 + 30 * user) for user in range(1, 9)}, folder)
    return folder


@pytest.mark.slow
def test_data_set_is_evaluated_by_one_call_that_goes_on(dataset: Path, tmp_path: Path) -> None:
    """Check a call for some users, then one for all: only what is missing is evaluated."""
    out = tmp_path / "results"
    events: list[object] = []
    settings: dict[str, Any] = {"out": out, "jobs": 1, "on_event": events.append}
    frame = srs_eval.evaluate_dataset(dataset, "MOVING-AVG", users=[3, 1], **settings)
    assert set(zip(frame["configuration"], frame["user"], strict=True)) == {
        (name, user) for name in ("AVG", "MOVING-AVG") for user in (1, 3)
    }
    assert [event.units for event in events if isinstance(event, Planned)] == [4]
    events.clear()
    frame = srs_eval.evaluate_dataset(dataset, ["MOVING-AVG", "AVG"], raw=True, **settings)
    assert len(frame) == 16
    assert {path.suffix for path in (out / "raw").rglob("*") if path.is_file()} == {".parquet"}
    assert set(srs_eval.evaluate_dataset(dataset, "AVG", users="2-3", **settings)["user"]) == {2, 3}
    done = run_in_process("batch", "--dataset", dataset, "--models", "MOVING-AVG", "--out", out)
    assert "0 units to evaluate" in done.stderr


@pytest.fixture(scope="module")
def results_folder(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results")
    models = "AVG,FSRS-6-dry-run,HLR"
    done = run_in_process("batch", "--dataset", dataset, "--models", models, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
def test_pairs_and_confidence_set_equal_the_report(results_folder: Path) -> None:
    report = run_in_process("report", results_folder, "--json", "-")
    tables = json.loads(report.stdout)["tables"]
    pairs = srs_eval.pairs(results_folder)
    expected = pandas.DataFrame(tables["pairs"]["rows"])
    assert len(pairs) == len(expected) == 6
    for column, title in (
        ("superiority", "superiority"),
        ("difference_by_users", "difference_by_users"),
        ("wilcoxon_r", "r"),
        ("wilcoxon_r_p_holm", "r_p_holm"),
        ("cohens_d", "d"),
        ("cohens_d_p", "d_p"),
    ):
        np.testing.assert_allclose(pairs[column], expected[title].astype(float), err_msg=column)
    swapped = pairs.set_index(["other", "configuration"])["difference_by_reviews"]
    straight = pairs.set_index(["configuration", "other"])["difference_by_reviews"]
    np.testing.assert_allclose(straight, -swapped.reindex(straight.index))
    chosen = srs_eval.confidence_set(results_folder)
    by_users = chosen[chosen["weighting"] == "users"]
    assert list(by_users.index) == list(dict.fromkeys(pairs["configuration"]))
    assert (by_users["is_in_set"] == (by_users["p_value"] >= 0.01)).all()
    assert by_users["is_in_set"].any()


def test_training_log_has_the_losses_that_were_saved_with_weights(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    epochs = (Epoch(0.5, None), Epoch(0.4, 0.45))
    origin = WeightsOrigin("1-100", settings={"seed": 3, "rate": 0.1}, epochs=epochs)
    save_pretrained(file, "Mine", origin, {"w": np.ones(3)})
    frame = srs_eval.training_log(file)
    assert list(frame.index) == [1, 2]
    np.testing.assert_array_equal(frame["loss"], [0.5, 0.4])
    np.testing.assert_array_equal(frame["held_out_loss"], [np.nan, 0.45])
    assert frame.attrs == {"seed": 3, "rate": 0.1}
    silent_file = tmp_path / "silent.safetensors"
    save_pretrained(silent_file, "Mine", WeightsOrigin("1-100"), {"w": np.ones(3)})
    assert srs_eval.training_log(silent_file).empty


@pytest.mark.slow
def test_some_models_and_users_of_results_are_selected(results_folder: Path) -> None:
    board = srs_eval.leaderboard(results_folder, models=["avg", "HLR"], users=[2, 4, 5])
    assert set(board.index) == {"AVG", "HLR"}
    assert set(board["users"]) == {3}
    users = srs_eval.read_results(results_folder)
    of_three = users[users["user"].isin([2, 4, 5]) & (users["configuration"] == "HLR")]
    by_users = board[board["weighting"] == "users"]
    assert by_users.loc["HLR", "LogLoss"] == pytest.approx(of_three["LogLoss"].mean(), abs=1e-12)
    assert len(srs_eval.pairs(results_folder, models="AVG,HLR", users="2-5")) == 2
    with pytest.raises(InputError, match=r'models: there are no results for "LSTM", only for'):
        srs_eval.pairs(results_folder, models="LSTM")
    with pytest.raises(InputError, match=r"users: there is no user 12 in this data set"):
        srs_eval.leaderboard(results_folder, users=[12])
    with pytest.raises(InputError, match=r"users: there is no user 12 in this data set"):
        srs_eval.confidence_set(results_folder, users="1-3,12")


@pytest.mark.slow
def test_example_runs_in_jupyter_and_every_cell_shows_something(
    log: ReviewLog, tmp_path: Path
) -> None:
    """Run docs/example.ipynb, which stores no outputs, in a kernel of Jupyter."""
    notebook = nbformat.read(REPOSITORY / "docs" / "example.ipynb", as_version=4)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)
    copyfile(log.import_summary.path, tmp_path / "collection.anki2")
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [
        {mime_type for output in cell["outputs"] for mime_type in output.get("data", ())}
        for cell in cells
    ]
    assert all("text/html" in types or "image/png" in types for types in shown)
    assert sum("image/png" in types for types in shown) == 3


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
        ({"protocol": "secs"}, "protocol must be an srs_eval.Protocol, not 'secs'."),
        ({"context": {"user": 1}}, "context must be an srs_eval.Context, not {'user': 1}."),
        ({"reference": 3}, "reference must be the name of a configuration, not 3."),
        ({"features": 3}, "features must be the path of a file, not 3."),
        ({"predictions": 3}, "predictions must be the path of a file, not 3."),
        ({"jobs": "2"}, "jobs must be a number of worker processes, 0 for none, not '2'."),
        ({"jobs": -1}, "jobs must be a number of worker processes, 0 for none, not -1."),
        ({"jobs": True}, "jobs must be a number of worker processes, 0 for none, not True."),
        ({"use_cache": "no"}, "use_cache must be True or False, not 'no'."),
        ({"on_event": 3}, "on_event must be a function of an event, not 3."),
    ],
)
def test_evaluate_refuses_wrong_types_with_what_it_takes(
    options: dict[str, Any], message: str, log: ReviewLog
) -> None:
    with pytest.raises(InputError) as refused:
        srs_eval.evaluate(log, **{"models": "AVG", **options})
    assert str(refused.value) == message


LISTS = "parameters must be a dictionary of lists of numbers by name, such as {'mine': [0.2, ...]}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": [3]}, "The models are names or Model objects; 3 is neither."),
        ({"questions": 3}, "questions must be a question's name or a list of such names, not 3."),
        (
            {"questions": [3]},
            "questions must be a question's name or a list of such names, not [3].",
        ),
        ({"parameters": [0.5, 1.0]}, f"{LISTS}, not [0.5, 1.0]."),
        ({"parameters": "0.5"}, f"{LISTS}, not '0.5'."),
        ({"parameters": {"mine": 3}}, f"{LISTS}, not {{'mine': 3}}."),
        ({"parameters": {"mine": ["a"]}}, f"{LISTS}, not {{'mine': ['a']}}."),
        ({"parameters": {3: [0.5]}}, f"{LISTS}, not {{3: [0.5]}}."),
        ({"parameters": {"mine": [0.5]}}, "FSRS cannot use 1 FSRS parameter"),
        ({"predictions": 3}, "predictions must be the path of a file, not 3."),
        ({"context": 3}, "context must be an srs_eval.Context, not 3."),
        ({"equivalence": "0"}, "equivalence must be a number of 0 or more, not '0'."),
        ({"equivalence": -1.0}, "equivalence must be a number of 0 or more, not -1.0."),
        ({"equivalence": float("nan")}, "equivalence must be a number of 0 or more, not nan."),
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
    with pytest.raises(InputError, match=r"log must be what srs_eval.load returns, not "):
        function(value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": 3}, "preset must be the name or the number of a preset as text, not 3."),
        (
            {"question": 3},
            "question must be an srs_eval.advice.workload.estimate.WorkloadQuestion, not 3.",
        ),
        ({"parameters": 3}, "parameters must be a list of numbers, not 3."),
        ({"parameters": ["a"]}, "parameters must be a list of numbers, not ['a']."),
        ({"context": 3}, "context must be an srs_eval.Context, not 3."),
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
        (lambda: srs_eval.load(3), "path must be the path of a file or folder, not 3."),
        (lambda: srs_eval.load(None), "path must be the path of a file or folder, not None."),
        (
            lambda: srs_eval.load("a", timezone=3),
            "timezone must be the name of a time zone, not 3.",
        ),
        (lambda: srs_eval.load("a", rollover="4"), "rollover must be a whole number, not '4'."),
        (lambda: srs_eval.load("a", user=1.5), "user must be a whole number, not 1.5."),
        (lambda: load_model_file(3), "path must be the path of a file, not 3."),
        (lambda: srs_eval.read_results(3), "folders are paths of folders; 3 is not one."),
        (lambda: srs_eval.read_results(["a"]), "folders are paths of folders; ['a'] is not one."),
        (lambda: srs_eval.leaderboard(3), "folders are paths of folders; 3 is not one."),
        (lambda: srs_eval.leaderboard("a", metrics=3), "metrics must be a list of names, not 3."),
        (
            lambda: srs_eval.leaderboard("a", metrics="RMSE"),
            "metrics must be a list of names, not 'RM",
        ),
        (lambda: srs_eval.leaderboard("a", metrics=[]), "metrics must be a list of names, not []."),
        (lambda: srs_eval.pairs("a", metric=3), "metric must be the name of a metric, not 3."),
        (lambda: srs_eval.pairs("a", models=3), "models must be a list of names, not 3."),
        (
            lambda: srs_eval.evaluate_dataset(3, out="a"),
            "dataset must be the path of a file or folder",
        ),
        (lambda: srs_eval.evaluate_dataset("a", out=3), "out must be the path of a folder, not 3."),
        (
            lambda: srs_eval.evaluate_dataset("a", out="b", jobs=0),
            "jobs must be a number of worker processes, at least 1, not 0.",
        ),
        (lambda: srs_eval.training_log(3), "weights must be the path of a file, not 3."),
        (lambda: srs_eval.training_log("a.safetensors"), '"a.safetensors" is not a file of wei'),
        (
            lambda: srs_eval.line(3),
            "findings must be a list of what srs_eval.compare returns, not 3.",
        ),
        (
            lambda: srs_eval.line([]),
            "findings must be a list of what srs_eval.compare returns, not []",
        ),
        (
            lambda: srs_eval.sentences([]),
            "finding must be one of what srs_eval.compare returns, not []",
        ),
        (
            lambda: srs_eval.tables(None),
            "finding must be one of what srs_eval.compare returns, not Non",
        ),
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
        lambda: results.predictions(columns=3): "columns must be a list of names, not 3.",  # type: ignore[arg-type]
        lambda: results.predictions(columns="y"): "columns must be a list of names, not 'y'.",
        lambda: results.predictions(columns=[3]): "columns must be a list of names, not [3].",  # type: ignore[list-item]
        lambda: results.plot.ranking(1): "group must be 0, the number of the only ranking, not 1.",
        lambda: results.plot.ranking(
            "a"
        ): "group must be 0, the number of the only ranking, not 'a'.",  # type: ignore[arg-type]
    }
    for call, message in calls.items():
        with pytest.raises(InputError) as refused:
            call()
        assert str(refused.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": 3}, "weights must be the path of a file or folder, not 3."),
        ({"features": 3}, "features must be the path of a file, not 3."),
        ({"sm2_target": "a"}, "sm2_target must be a number between 0 and 1, not 'a'."),
        ({"sm2_target": 1.5}, "sm2_target must be a number between 0 and 1, not 1.5."),
        ({"seen_users": "no"}, "seen_users must be True or False, not 'no'."),
        ({"device": 3}, "device must be a string such as 'cpu' or 'cuda:1', not 3."),
        ({"user": "a"}, "user must be a whole number, not 'a'."),
        ({"hyperparameters": 3}, "hyperparameters must be a dictionary of values by name, not 3."),
        ({"tick": 3}, "tick must be a function of the fraction done, not 3."),
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
        ({"name": 3}, "3 is not a string"),
        ({"parameters": "many"}, "CONSTANT: parameters must be a whole number, not 'many'."),
        ({"predict": 3}, "CONSTANT: predict must be a function, not 3."),
        ({"fit": "fit"}, "CONSTANT: fit must be a function, not 'fit'."),
        ({"flags": 3}, "CONSTANT: flags must be a collection of strings, not 3."),
        ({"aliases": ["a"]}, "CONSTANT: aliases must be a dictionary of strings, not ['a']."),
        (
            {"configurations": "CONSTANT"},
            "CONSTANT: configurations must be a collection of strings, not ",
        ),
        (
            {"hyperparameters": 3},
            "CONSTANT: hyperparameters must be a tuple of Hyperparameter objects",
        ),
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
            "FSRS-9": 'There is no result for "FSRS-9". Did you mean FSRS-6-dry-run?',
            "FSRS-7": 'There is no result for "FSRS-7". Did you mean FSRS-6-dry-run?',
            "xyz": 'There is no result for "xyz", only for FSRS-6-dry-run, AVG.',
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
