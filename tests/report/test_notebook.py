"""The interface for notebooks: models that are objects, what is shown, frames and pictures."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
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
from srs_eval.models import Model, load_model_file
from tests.cli.program import in_this_process, main_here
from tests.conftest import PATIENCE, REPOSITORY
from tools.simulated import simulate_learner, write_collection, write_dataset


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> ReviewLog:
    path = tmp_path_factory.mktemp("learner") / "Ann <Lee>.anki2"
    write_collection(simulate_learner(8, 3000), path)
    return srs_eval.load(path)


def constant(p: float) -> Model:
    """A model that says always the same."""
    return Model(
        "CONSTANT",
        *("baseline", "-", 0, "here"),
        predict=lambda trials, parameters, index, context: np.full(len(index), p),
        compiles="never",
    )


def fail(*_: object) -> Any:
    raise ValueError("nothing")


def test_models_that_are_objects(log: ReviewLog, tmp_path: Path) -> None:
    """Beside names; one that is made anew is evaluated anew; no group takes it up."""
    with in_this_process():
        for p in (0.9, 0.6):
            results = srs_eval.evaluate(log, models=["AVG", constant(p)])
            assert {*results} == {"AVG", "CONSTANT"}
            assert set(results["CONSTANT"].p) == {p}
        assert srs_eval.evaluate(log, models=constant(0.5)).frame().loc["CONSTANT", "place"] == 1
        assert "CONSTANT" not in srs_eval.evaluate(log, models="baseline")
        (finding,) = srs_eval.compare(log, "models", models=constant(0.9))
        (table,) = srs_eval.tables(finding)
        losses = {row[0]: row[1].estimate for row in table.rows if hasattr(row[1], "estimate")}
        again = srs_eval.evaluate(log, models=constant(0.9))["CONSTANT"]
        assert losses["CONSTANT"] == again.metrics.log_loss
        with pytest.raises(InputError, match=r"FAILING has failed: .*nothing"):
            srs_eval.compare(
                log, "models", models=replace(constant(0.9), name="FAILING", predict=fail)
            )
        with pytest.raises(InputError, match="cannot be sent to worker processes"):
            srs_eval.evaluate(log, models=["AVG", constant(0.9)], jobs=2)
        wrong = replace(constant(0.9), name="fsrs-6")
        with pytest.raises(InputError, match="fsrs-6 means FSRS-6 already"):
            srs_eval.evaluate(log, models=wrong)
        file = tmp_path / "mine.py"
        file.write_text(
            "from srs_eval.models import Model\n"
            "MODELS = (Model('MINE', 'other', '-', 0, 'here', compiles='never',\n"
            "    predict=lambda trials, parameters, index, context: index * 0 + 0.8),)\n"
        )
        assert set(srs_eval.evaluate(log, load_model_file(file), jobs=1)["MINE"].p) == {0.8}


def test_what_is_shown_and_drawn(log: ReviewLog) -> None:
    assert {"load", "evaluate", "compare", "read_results", "leaderboard"} <= set(dir(srs_eval))
    assert all(getattr(srs_eval, name) for name in dir(srs_eval))
    results = srs_eval.evaluate(log, models=["AVG", "FSRS-6-dry-run", "FSRS-6"])
    findings = srs_eval.compare(log, ["hard", "wrong"])
    for each, told in ((log, "entries: 3,"), (results, "log loss"), (findings, "Hard")):
        assert told in each._repr_html_()
        assert len(repr(each)) < 1000
    assert "Ann &lt;Lee&gt;.anki2" in log._repr_html_()
    assert repr(log).startswith("ReviewLog('Ann <Lee>.anki2', entries: 3,")
    assert repr(findings[0]).startswith("Finding('hard', ")
    for figure, words in (
        (results.plot.calibration("FSRS-6", "AVG"), {"FSRS-6", "average"}),
        (results.plot.calibration(), {results.groups[0].lines[0].configuration.words}),
        (results.plot.forgetting_curves("FSRS-6-dry-run"), {"Good"}),
    ):
        (legend,) = figure.legends
        assert words <= {each.get_text() for each in legend.get_texts()}
    assert len(results.plot.calibration(*["AVG"] * 9).axes[0].lines) == 10
    labels = results.plot.ranking().axes[0].get_yticklabels()
    assert {each.get_text() for each in labels} == {"FSRS-6", "FSRS-6 defaults", "average"}


def test_columns_of_predictions(log: ReviewLog) -> None:
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


def test_frames_of_result_files(tmp_path: Path) -> None:
    """As a report's tables have them."""
    data, out = tmp_path / "data", tmp_path / "results"
    write_dataset({user: simulate_learner(user, 300 + 50 * user) for user in (1, 2, 3)}, data)
    done = main_here("batch", "--dataset", data, "--models", "MOVING-AVG,AVG", "--out", out)
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
    for wrong, said in ((((out,), ["loss"]), "metrics takes"), (((), ["AUC"]), "Name a folder")):
        with pytest.raises(InputError, match=said):
            srs_eval.leaderboard(*wrong[0], metrics=wrong[1])
    report = main_here("report", out, "--json", "-", "--columns", "LogLoss,AUC")
    told = pandas.DataFrame(json.loads(report.stdout)["tables"]["means-by-users"]["rows"])
    np.testing.assert_allclose(by_users["LogLoss"], told["log_loss"])
    half = (by_users["LogLoss_high"] - by_users["LogLoss_low"]) / 2
    np.testing.assert_allclose(half, told["log_loss_half_width"])


def test_the_example(log: ReviewLog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every cell of docs/example.ipynb runs, and what it shows is short or a figure."""
    notebook = json.loads((REPOSITORY / "docs" / "example.ipynb").read_text(encoding="utf-8"))
    copyfile(log.import_summary.path, tmp_path / "collection.anki2")
    monkeypatch.chdir(tmp_path)
    cells = ["".join(each["source"]) for each in notebook["cells"] if each["cell_type"] == "code"]
    names: dict[str, Any] = {}
    shown = []
    with in_this_process():
        for cell in cells:
            *lines, last = ast.parse(cell).body
            assert isinstance(last, ast.Expr)
            exec(compile(ast.Module(lines, []), "example.ipynb", "exec"), names)
            shown.append(eval(compile(ast.Expression(last.value), "example.ipynb", "eval"), names))
    figures = [each for each in shown if hasattr(each, "savefig")]
    assert len(figures) == 3
    assert all(hasattr(each, "_repr_html_") for each in shown)
    assert not any(each.get("outputs") for each in notebook["cells"])


# What is missing or wrong is one sentence


def test_a_model_file_may_be_named_by_a_text(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from srs_eval.models import Model\n"
        "MODELS = (Model('MINE', 'other', '-', 0, 'here', compiles='never',\n"
        "    predict=lambda trials, parameters, index, context: index * 0 + 0.8),)\n"
    )
    with in_this_process():
        assert [model.name for model in load_model_file(str(file))] == ["MINE"]
    with pytest.raises(InputError, match="cannot be read"):
        load_model_file(str(tmp_path / "absent.py"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"models": [3]}, "models are names or Model objects; 3 is neither"),
        ({"models": 3}, "models are names or Model objects; 3 is neither"),
        ({"models": "AVG", "protocol": "secs"}, "protocol is a srs_eval.Protocol, not 'secs'"),
        ({"models": "AVG", "context": {"user": 1}}, "context is a srs_eval.Context, not {'user'"),
        ({"models": "AVG", "reference": 3}, "reference is the name of a configuration, not 3"),
        ({"models": "AVG", "features": 3}, "features is the path of a file, not 3"),
        ({"models": "AVG", "predictions": 3}, "predictions is the path of a file, not 3"),
    ],
)
def test_evaluate_with_something_else_says_what_it_takes(
    options: dict[str, Any], says: str, log: ReviewLog
) -> None:
    with pytest.raises(InputError) as refused:
        srs_eval.evaluate(log, **options)
    assert says in str(refused.value)


def test_compare_with_something_else_says_what_it_takes(log: ReviewLog) -> None:
    for function in (srs_eval.evaluate, srs_eval.compare):
        with pytest.raises(InputError, match=r"log is what srs_eval.load returns, not 'a.anki2'"):
            function("a.anki2")  # type: ignore[operator]
    with pytest.raises(InputError, match="3 is neither"):
        srs_eval.compare(log, models=[3])  # type: ignore[list-item]


def test_a_name_without_a_result_proposes_what_has_one(log: ReviewLog) -> None:
    broken = replace(constant(0.9), name="BROKEN", predict=fail)
    with in_this_process():
        results = srs_eval.evaluate(log, ["AVG", "FSRS-6-dry-run", broken])
        for name, says in {
            "FSRS-9": 'There is no result of "FSRS-9". Did you mean FSRS-6-dry-run?',
            "FSRS-7": 'There is no result of "FSRS-7". Did you mean FSRS-6-dry-run?',
            "xyz": 'There is no result of "xyz", only of FSRS-6-dry-run, AVG.',
            "broken": "BROKEN has no result: it failed (ValueError: nothing).",
        }.items():
            with pytest.raises(KeyError) as missing:
                results[name]
            assert missing.value.args == (says,)


def test_the_names_that_callers_need_are_exported_and_lazy() -> None:
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
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stdout.splitlines() == ["False Protocol", "True"]
