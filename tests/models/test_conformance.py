"""Every listed model keeps the rules of `models check`.

The package's own models keep further rules, about the device, settings and kernels. One small
learner has same-day reviews, several decks and all buttons.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from srs_eval.data.errors import InputError
from srs_eval.engine import leakage, model_checks
from srs_eval.engine.demo_learner import load_demo_learner
from srs_eval.engine.model_checks import CONTEXT, PROTOCOL
from srs_eval.engine.model_mistakes import Mistake, Mistakes
from srs_eval.engine.replay import TrainingRun, train
from srs_eval.engine.session import LearnerSession
from srs_eval.models import ExternalModel, Model, TrainedModel, all_models
from srs_eval.models.configurations import Configuration, resolve_configurations
from tests.conftest import PATIENCE, REPOSITORY
from tests.helpers.marks import slow_except

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

SHIPPED = {
    name: model
    for name, model in all_models().items()
    if model.weights is None and not isinstance(model, ExternalModel)
}
CONFIGURATIONS = {
    configuration.name: configuration
    for configuration in model_checks.resolve_models(SHIPPED.values())
}
MODELS = {
    configuration.model.name: configuration for configuration in list(CONFIGURATIONS.values())[::-1]
}
FIVE_EPOCHS = (
    # Trained as their sources train them, five epochs of Adam as a rule: some stop while there is
    # a little left to gain. More would be other models than the published ones.
    "Anki",
    "DASH",
    "DASH[MCM]",
    "FSRS-6",
    "FSRS-6-one-step",
    "FSRS-rs",
    "FSRSv1",
    "FSRSv2",
    "HLR",
    "RNN",
    "SM2-trainable",
    "Transformer",
    "FSRS-7-ordinal-short-secs-recency",  # it lowers the loss of all four grades
    "LogisticRegression-short-secs-recency",  # its weights are kept small
)
KNOWN = {
    ("RMSE-BINS-EXPLOIT", "certain"),  # it predicts from past outcomes, to cheat RMSE(bins)
    *((name, "not converged") for name in FIVE_EPOCHS),
    *((name, "worse than average") for name in FIVE_EPOCHS),
    ("FSRSv2", "idle parameter"),
}
SELDOM = {
    # Each of these takes as long as ten others, and a relative is checked always: RNN of the
    # networks, BLEND and STATE-FSRS-6+7 of the averages.
    "BLEND-GRU",
    "GRU-503",
    "LSTM",
    "LSTM-489",
    "LSTM-fixed",
    "STATE-FSRS-6",
    "Transformer",
}
PLAIN = {
    configuration.name for name, configuration in MODELS.items() if name not in SELDOM
}  # without more flags
FEW = {"90%", "AVG", "SM2", "FSRS-6", "DASH", "RNN"}


@cache
def session() -> LearnerSession:
    return LearnerSession(load_demo_learner())


@cache
def train_once(name: str) -> TrainingRun:
    return train(CONFIGURATIONS[name], session(), CONTEXT)


@cache
def trainings() -> dict[str, TrainingRun]:
    """Return all configurations' trainings on one session, in order."""
    session = LearnerSession(load_demo_learner())
    return {
        name: train(configuration, session, CONTEXT)
        for name, configuration in CONFIGURATIONS.items()
    }


@cache
def trainings_in_reverse() -> dict[str, TrainingRun]:
    """Return one training of each model on one session, in reverse order."""
    session = LearnerSession(load_demo_learner())
    return {
        configuration.name: train(configuration, session, CONTEXT)
        for configuration in list(MODELS.values())[::-1]
    }


@pytest.fixture(params=slow_except(PLAIN, CONFIGURATIONS))
def training(request: pytest.FixtureRequest) -> TrainingRun:
    return train_once(request.param)


@pytest.fixture(params=slow_except(MODELS.keys() - SELDOM, MODELS))
def model(request: pytest.FixtureRequest) -> Configuration:
    """Return each model's configuration once."""
    return MODELS[request.param]


@pytest.fixture(params=slow_except(FEW, MODELS))
def quick_model(request: pytest.FixtureRequest) -> Configuration:
    """Return each model's configuration once, marked slow for all but a few."""
    return MODELS[request.param]


def test_all_models_are_checked_here_or_elsewhere() -> None:
    assert set(MODELS) == set(SHIPPED)
    assert set(all_models()) - set(SHIPPED) == {
        # test_rwkv.py
        "RWKV-Curve",
        "RWKV-Instant",
        # test_blend.py
        "BLEND+RWKV-Curve",
        "STATE-FSRS-6+7+RWKV",
        # engine/test_shared_reviews.py
        "RWKV-Anki",
        "FSRS-Anki",
        "Predictions",
    }


def drop_known_mistakes(mistakes: Mistakes) -> list[Mistake]:
    return [mistake for mistake in mistakes if (mistake.configuration, mistake.kind) not in KNOWN]


def test_predictions_cover_every_evaluated_review(training: TrainingRun) -> None:
    result = training.result
    trials = LearnerSession(load_demo_learner()).trials(training.configuration.protocol)
    assert len(trials.folds) == 2
    assert result.p.shape == trials.test_index.shape
    assert result.p.dtype == np.float64
    np.testing.assert_array_equal(result.review_th, trials.review_th[trials.test_index])
    assert (
        drop_known_mistakes(model_checks.check_probabilities(training)) == []
    )  # nor did it fall back to the defaults


def find_own_answers(training: TrainingRun) -> Mistakes:
    return leakage.find_own_answers(training, rounds=2)


@pytest.mark.parametrize(
    "check",
    [
        leakage.find_outcome_leaks,
        leakage.find_online_learning,
        find_own_answers,
        model_checks.check_prediction_order,
    ],
)
def test_predictions_use_no_outcome_too_early(
    training: TrainingRun, check: Callable[[TrainingRun], Mistakes]
) -> None:
    assert list(check(training)) == []


def test_predictions_read_nothing_of_later_reviews(training: TrainingRun) -> None:
    assert list(leakage.find_future_inputs(training, cuts=4)) == []


@pytest.mark.slow
def test_figures_do_not_depend_on_models_run_before(model: Configuration) -> None:
    once = trainings()[model.name]
    again = trainings_in_reverse()[model.name]
    assert list(model_checks.check_repeatability(once, again)) == []
    np.testing.assert_array_equal(once.result.p, again.result.p)
    assert once.result.metrics == again.result.metrics
    assert once.result.parameters == again.result.parameters


@pytest.mark.parametrize("check", [leakage.find_leaky_fits, leakage.find_future_fits])
def test_fit_sees_the_training_part_only(
    model: Configuration, check: Callable[[TrainingRun], Mistakes]
) -> None:
    assert list(check(train_once(model.name))) == []


@pytest.mark.parametrize("check", [model_checks.check_long_log, model_checks.check_long_training])
def test_long_logs_read_nothing_of_later_reviews(
    quick_model: Configuration, check: Callable[[Model], Mistakes]
) -> None:
    assert list(check(quick_model.model)) == []


@pytest.mark.parametrize("check", [model_checks.check_array_writes, model_checks.check_gradients])
def test_training_writes_no_array_and_has_right_gradients(
    model: Configuration, check: Callable[[Configuration], Mistakes]
) -> None:
    assert list(check(model)) == []


def test_training_converges(quick_model: Configuration) -> None:
    assert drop_known_mistakes(model_checks.check_training(quick_model.model)) == []


@pytest.mark.parametrize("reviews", [0, 1, 6])
def test_fit_on_hardly_any_reviews_gives_a_result_or_a_reason(
    model: Configuration, reviews: int
) -> None:
    assert list(model_checks.check_few_reviews(model, reviews)) == []


@pytest.mark.parametrize("rating", [1, 3], ids=["all failed", "all passed"])
def test_fit_on_outcomes_of_one_kind_gives_probabilities(model: Configuration, rating: int) -> None:
    assert list(model_checks.check_single_outcome(model, rating)) == []


def test_uses_device_says_whether_the_device_is_used(model: Configuration) -> None:
    """Check the mark by which a batch decides where a model runs."""
    if not isinstance(model.model, TrainedModel):
        assert not model.model.uses_device
        return
    trials = LearnerSession(load_demo_learner()).trials(model.protocol)
    nowhere = replace(CONTEXT, device="nowhere")
    test = trials.folds[0].test
    default = model.model.default_parameters(model.protocol, nowhere)
    if model.model.uses_device:
        with pytest.raises(InputError, match="The device 'nowhere' cannot be used"):
            model.model.predict(trials, default, test, nowhere)
    else:
        p = model.model.predict(trials, default, test, nowhere)
        assert ((p >= 0) & (p <= 1)).all()


# What a training can be set to


TRAINED = [name for name, model in all_models().items() if getattr(model, "hyperparameters", ())]


@pytest.mark.parametrize("name", slow_except({"FSRS-6", "DASH", "RNN", "SM2-trainable"}, TRAINED))
def test_hyperparameters_have_their_default_and_an_effect(name: str) -> None:
    """Check that a default changes no figure and that another value changes some."""
    assert list(model_checks.check_hyperparameters(all_models()[name])) == []


def test_trained_models_have_hyperparameters() -> None:
    trained = {name for name, model in all_models().items() if model.is_trained}
    assert trained - set(TRAINED) == {"FSRS-rs"}  # whose package takes no settings


def test_with_hyperparameters_refuses_unknown_names_and_values() -> None:
    fsrs6, untrained, average = resolve_configurations("FSRS-6,FSRS-6-dry-run,AVG", PROTOCOL)[::-1]
    for values, words in (
        ({"rate": 0.1}, "FSRS-6 has no hyperparameter rate; it has learning_rate, epochs"),
        ({"keep": "worst"}, "FSRS-6: keep must be one of best, last, not worst"),
        ({"learning_rate": -1.0}, "learning_rate must be a number from"),
        ({"learning_rate": "fast"}, "learning_rate must be a number from"),
        ({"epochs": 2.5}, "epochs must be a whole number, not 2.5"),
    ):
        with pytest.raises(InputError, match=words):
            fsrs6.with_hyperparameters(values)
    for nothing_trained in (untrained, average):
        with pytest.raises(InputError, match="it has none"):
            nothing_trained.with_hyperparameters({"epochs": 3})


# Who compiles

SPY = """
import json, sys
from srs_eval.training import compile

used = []
kernels = []

def spied(make):
    made = {}
    def wrapper(function, *arguments, **keywords):
        used.append(function)
        key = (function, *arguments[:1], repr(keywords))
        if key not in made:
            made[key] = make(function, *arguments, **keywords)
            kernels.append(made[key])
        return made[key]
    return wrapper

compile.compile_kernel = spied(compile.compile_kernel)
compile.specialise = spied(compile.specialise)
from tests.models import test_conformance as conformance

def forget():
    for name, module in list(sys.modules.items()):
        if name.startswith("srs_eval.training.") and module is not compile:
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()

found = {}
def compiles(configuration):
    return configuration.compiles

for configuration in sorted(conformance.with_untrained(), key=compiles):
    if configuration.compiles and "numba" not in found:
        found["numba"] = "numba" in sys.modules
    forget()
    used.clear()
    session = conformance.LearnerSession(conformance.load_demo_learner())
    session.run(configuration, conformance.CONTEXT)
    found[configuration.name] = bool(used)
found["twice"] = []
for kernel in kernels:
    kinds = [tuple(str(kind).replace("readonly ", "") for kind in s) for s in kernel.signatures]
    if len(set(kinds)) < len(kinds):
        found["twice"].append(kernel.py_func.__name__)
print(json.dumps(found))
"""


def with_untrained() -> list[Configuration]:
    models = [configuration.model for configuration in CONFIGURATIONS.values()]
    trained = [model.name for model in models if model.is_trained and model.parameters]
    untrained = resolve_configurations([f"{name}-dry-run" for name in trained], PROTOCOL)
    return [*CONFIGURATIONS.values(), *untrained]


@pytest.mark.slow
def test_models_compile_when_they_say_so() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SPY],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    has_compiled = json.loads(done.stdout)
    assert not has_compiled.pop("numba")  # models that compile nothing do not import it
    # Where an array is read-only at one call and not at another, a kernel is compiled for both.
    assert has_compiled.pop("twice") == []
    assert has_compiled == {
        configuration.name: configuration.compiles for configuration in with_untrained()
    }
