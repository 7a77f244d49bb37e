"""The interface for notebooks: models that are objects, what is shown, frames and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srs_eval
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import ReviewLog
from srs_eval.models import Model, load_model_file
from tests.cli.program import in_this_process
from tools.simulated import simulate_learner, write_collection


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> ReviewLog:
    path = tmp_path_factory.mktemp("learner") / "Ann <Lee>.anki2"
    write_collection(simulate_learner(8, 3000), path)
    return srs_eval.load(path)


def constant(p: float, **about: Any) -> Model:
    """A model that says always the same."""
    return Model(
        "CONSTANT",
        **{"family": "baseline", "inputs": "-", "parameters": 0, "source": "here", "compiles": "never"}
        | about,
        predict=lambda trials, parameters, index, context: np.full(len(index), p),
    )


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
        with pytest.raises(InputError, match="cannot be sent to worker processes"):
            srs_eval.evaluate(log, models=["AVG", constant(0.9)], jobs=2)
        wrong = Model(**{**vars(constant(0.9)), "name": "fsrs-6"})
        with pytest.raises(InputError, match="fsrs-6 means FSRS-6 already"):
            srs_eval.evaluate(log, models=wrong)
        file = tmp_path / "mine.py"
        file.write_text(
            "from srs_eval.models import Model\n"
            "MODELS = (Model('MINE', 'other', '-', 0, 'here', compiles='never',\n"
            "    predict=lambda trials, parameters, index, context: index * 0 + 0.8),)\n"
        )
        assert set(srs_eval.evaluate(log, load_model_file(file), jobs=1)["MINE"].p) == {0.8}
