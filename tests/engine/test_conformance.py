"""`srs-eval models check` reports each kind of mistake in a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from srs_eval.cli.main import _describe_mistake
from srs_eval.engine.conformance import find_mistakes
from srs_eval.engine.model_checks import check_gradients, check_hyperparameters, resolve_models
from srs_eval.engine.model_mistakes import Mistake
from srs_eval.models import Model, all_models, load_model_file
from tests.helpers.program import run_in_process, run_program

RIGHT = '''
"""p = 1 / (1 + exp(-(a + b ln(1 + t)))), fitted by scipy with a gradient written by hand."""

import numpy as np
from srs_eval.data.errors import NotEnoughData
from srs_eval.models import TrainedModel
from srs_eval.training.hyperparameters import penalty

RIDGE = penalty("ridge", 0.01)
START = [1.0, 0.0]


def features(trials):
    return np.stack([np.ones(len(trials)), np.log1p(trials.delta_t)], axis=1)


def predict(trials, w, index, context):
    return 1 / (1 + np.exp(-np.clip(features(trials)[index] @ np.array(w), -8, 8)))


def loss(trials, w, train, weights, context):
    x, y, ridge = features(trials)[train], trials.y[train], RIDGE.number_in(context)
    p = np.clip(1 / (1 + np.exp(-x @ w)), 1e-9, 1 - 1e-9)
    value = -weights @ np.where(y == 1, np.log(p), np.log(1 - p))
    return value + ridge * w @ w, x.T @ (weights * (p - y)) + 2 * ridge * w


def fit(trials, train, weights, context):
    from scipy.optimize import minimize

    if len(train) < 2:
        raise NotEnoughData("too few reviews")
    f = lambda w: loss(trials, w, train, weights, context)
    return minimize(f, START, jac=True, method="L-BFGS-B").x.tolist()


MODELS = (
    TrainedModel(
        name="NAME", family="history", inputs="IL", parameters=2, source="a test", fit=fit,
        predict=predict, default=lambda context: START, hyperparameters=(RIDGE,),
    ),
)
'''

# A regression whose slope is half the right one.
SLOPE = """
import numpy as np
from srs_eval.models import TrainedModel
from srs_eval.training.elementwise import exp
from srs_eval.training.linear import LinearModel


def recall_and_slope(z, t):
    p = 1 / (1 + exp(-z))
    return p, 0.5 * p * (1 - p)


def features(trials):
    return np.stack([np.ones(len(trials)), np.log1p(trials.delta_t)], axis=1)


LINEAR = LinearModel("HALF", recall_and_slope, features, lambda trials: [1.0, 0.0])
MODELS = (
    TrainedModel(
        name="NAME", family="history", inputs="IL", parameters=2, source="a test", fit=LINEAR.fit,
        predict=LINEAR.predict, default=lambda context: [1.0, 0.0],
    ),
)
"""

PREDICTED = "return 1 / (1 + np.exp(-np.clip(features(trials)[index] @ np.array(w), -8, 8)))"
FITTED = 'return minimize(f, START, jac=True, method="L-BFGS-B").x.tolist()'
# By name: correct code, wrong code in its place, and the kinds of findings expected.
WRONG: dict[str, tuple[str, str, set[str]]] = {
    "own": (PREDICTED, "return np.where(trials.y[index] == 1, 0.9, 0.3)", {"own outcome"}),
    "later": (
        PREDICTED,
        "return np.append(0.3 + 0.5 * trials.y[1:], 0.5)[index]",
        {"later outcome"},
    ),
    "future": (
        PREDICTED,
        "p = 0.1 + 0.8 * trials.y.mean()\n    return np.full(len(index), p)",
        {"later outcome"},
    ),
    "test-part": (
        FITTED,
        "return [float(trials.y.mean()), 0.0]",
        {"fit sees test"},
    ),
    "learns": (
        PREDICTED,
        "seen = np.cumsum(trials.y) - trials.y\n"
        "    return ((1 + seen) / (2 + np.arange(len(trials))))[index]",
        {"learns"},
    ),
    "sign": ("(p - y)", "(y - p)", {"gradient"}),
    "factor": ("(weights * (p - y))", "(weights * (p - y)) * np.array([1, 0.5])", {"gradient"}),
    "missing": ("(weights * (p - y))", "(weights * (p - y)) * np.array([1, 0])", {"gradient"}),
    "left-alone": (FITTED, "return [START[0], -3.0]", {"idle parameter"}),
    "early": (FITTED, "return [-1.0, 0.1]", {"not converged", "worse than average"}),
    "useless-knob": ("RIDGE.number_in(context)", "0.01", {"hyperparameter"}),
    "default": (
        "RIDGE.number_in(context)",
        '.context.hyperparameters.get("ridge", 3.0)'[1:],
        {"default"},
    ),
    "nan": (PREDICTED, "return np.log(w[0] * 0 - 1) * np.ones(len(index))", {"no probability"}),
    "above-1": (PREDICTED, "return np.full(len(index), 1.2)", {"no probability"}),
    "certain": (PREDICTED, "return np.ones(len(index))", {"certain"}),
    "nan-parameters": (FITTED, "return [float('nan'), 0.0]", {"no probability"}),
    "raises": (FITTED, "raise KeyError('w')", {"fails"}),
    "exits": (FITTED, "import sys\n    sys.exit(3)", {"fails"}),
    "never-enough": (FITTED, "raise NotEnoughData('never enough')", {"not trained"}),
    "one-row": ("if len(train) < 2:", "if trials.y[train].max() < 0:", {"few reviews"}),
    "one-class": (
        "if len(train) < 2:",
        "if trials.y.min() == 1:\n        1 / 0\n    if len(train) < 2:",
        {"one outcome"},
    ),
    "state": (
        FITTED,
        "START[0] += 0.1\n    return list(START)",
        {"repeats"},
    ),
    "random": (FITTED, "return [1.0 + np.random.random(), 0.0]", {"repeats"}),
    "process": (
        FITTED,
        "import multiprocessing as m\n"
        "    return [1.0 + (m.current_process().name == 'MainProcess'), -0.1]",
        {"workers"},
    ),
    "order": (
        PREDICTED,
        "t = trials.delta_t[index]\n    return 0.9 - 0.2 * (t > t.mean())",
        {"order"},
    ),
    "next-ease": (
        PREDICTED,
        "ease = np.append(trials.columns('ease')[0], [0])[trials.history_end[index] + 1]\n"
        "    return np.where(ease == 1300, 0.4, 0.9)",
        {"later input"},
    ),
    "next-interval": (
        PREDICTED,
        "t = np.append(trials.history_delta_t, 0)[trials.history_end + 1]\n"
        "    return 1 / (1 + np.exp(-w[0] - 0.1 * np.log1p(t[index])))",
        {"later input"},
    ),
    "writes": (
        PREDICTED,
        "import torch\n    torch.from_numpy(trials.delta_t).add_(1)\n    " + PREDICTED,
        {"writes"},
    ),
}
QUICK = {
    "own",
    "later",
    "nan",
    "state",
}
LEAKS = {
    "own outcome",
    "own answer time",
    "later outcome",
    "later input",
    "needs later",
    "fit sees test",
    "fit sees later",
    "learns",
    "repeats",
    "workers",
    "order",
}


Check = Callable[[Sequence[Model]], Iterable[Mistake]]


def gradients_of(models: Sequence[Model]) -> Iterable[Mistake]:
    (configuration, *_) = resolve_models(models)
    return check_gradients(configuration)


def hyperparameters_of(models: Sequence[Model]) -> Iterable[Mistake]:
    (model,) = models
    return check_hyperparameters(model)


def find_in_file(
    path: Path, name: str, content: str, check: Check = find_mistakes
) -> list[Mistake]:
    file = path / f"{name}.py"
    file.write_text(content.replace('"NAME"', f'"{name}"'), encoding="utf-8")
    models = load_model_file(file)
    try:
        return list(check(models))
    finally:
        for model in models:
            del all_models()[model.name]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in WRONG],
)
def test_find_mistakes_finds_each_kind_of_mistake(name: str, tmp_path: Path) -> None:
    right, wrong, kinds = WRONG[name]
    assert RIGHT.count(right) == 1
    mistakes = find_in_file(tmp_path, name, RIGHT.replace(right, wrong))
    assert kinds <= {mistake.kind for mistake in mistakes}
    assert {mistake.kind for mistake in mistakes} & LEAKS <= kinds  # no other leak is reported
    for mistake in mistakes:
        assert "{" not in _describe_mistake(mistake)
        assert _describe_mistake(mistake).startswith(f"{name}: ")


def test_check_gradients_finds_wrong_slopes_in_any_form(tmp_path: Path) -> None:
    """Check gradients given to scipy, by `TrainedModel.loss`, and as a regression's slope."""
    half = RIGHT.replace("x.T @ (weights", "0.5 * x.T @ (weights")
    as_function = half.replace(
        "minimize(f, START, jac=True", "minimize(lambda w: f(w)[0], START, jac=lambda w: f(w)[1]"
    )
    by_model_loss = half.replace(FITTED, "return [0.5, 0.1]").replace(
        "fit=fit,", "fit=fit, loss=loss,"
    )
    for name, content, where in (
        ("function", as_function, "scipy.optimize.minimize"),
        ("by-itself", by_model_loss, "TrainedModel.loss"),
        ("slope", SLOPE, "Linear"),
    ):
        (mistake,) = find_in_file(tmp_path, name, content, gradients_of)
        assert mistake.what == where
        assert mistake.found == pytest.approx(mistake.expected / 2, rel=0.05)


SEEDED = """
from srs_eval.models.adapters import sklearn_model


def trees(seed):
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=4, random_state=seed)


MODELS = (sklearn_model("NAME", trees),)
"""


def test_unused_seed_is_reported_with_its_remedy(tmp_path: Path) -> None:
    (finding,) = find_in_file(tmp_path, "SEEDED", SEEDED, hyperparameters_of)
    assert (finding.kind, finding.what) == ("idle seed", "seed")
    assert "settings=()" in _describe_mistake(finding)
    without = SEEDED.replace("trees(seed)", "trees()").replace("random_state=seed", "verbose=0")
    without = without.replace("trees),", "trees, settings=()),")
    assert find_in_file(tmp_path, "UNSEEDED", without, hyperparameters_of) == []


@pytest.mark.slow
def test_models_check_hides_warnings_of_the_model(tmp_path: Path) -> None:
    file = tmp_path / "warns.py"
    warning = "np.float64(1.0) / np.float64(len(train))"
    file.write_text(
        RIGHT.replace("    if len(train) < 2:", f"    share = {warning}\n    if len(train) < 2:"),
        encoding="utf-8",
    )
    done = run_program("models", "check", str(file))
    assert (done.returncode, done.stdout) == (0, "Nothing wrong was found with NAME.\n")
    assert "Warning" not in done.stderr


@pytest.mark.slow
def test_models_check_prints_mistakes_and_exits_1(tmp_path: Path) -> None:
    right = tmp_path / "right.py"
    wrong = tmp_path / "wrong.py"
    right.write_text(RIGHT, encoding="utf-8")
    wrong.write_text(RIGHT.replace(*WRONG["own"][:2]), encoding="utf-8")
    done = run_in_process("models", "check", right)
    assert (done.returncode, done.stdout) == (0, "Nothing wrong was found with NAME.\n")
    done = run_program("models", "check", str(wrong))
    assert done.returncode == 1
    assert "with the outcome of this review" in done.stdout.replace("\n", " ")
    printed_help = run_in_process("models", "check", "--help")
    assert printed_help.returncode == 0
    for words in ("answer time", "later", "gradient", "Exit codes: 0", "--features FILE"):
        assert words in printed_help.stdout
    for words in ((), ("NO-SUCH-MODEL",), (str(tmp_path / "none.py"),), ("AVG", "--json", "-")):
        refused = run_in_process("models", "check", *words)
        assert refused.returncode == 2
        assert refused.stderr.startswith("srs-eval: ")
