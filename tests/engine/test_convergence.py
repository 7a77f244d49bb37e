"""Recurrent models can be trained by L-BFGS, and a training that ends too early is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.engine.convergence import CLEAR_GAIN, find_poor_training
from srs_eval.engine.demo_learner import load_demo_learner
from srs_eval.engine.model_checks import CONTEXT
from srs_eval.engine.model_mistakes import Mistake
from srs_eval.engine.session import LearnerSession
from srs_eval.models import ANY_FLAG, TrainedModel
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.training.elementwise import Value, exp, power
from srs_eval.training.hyperparameters import Context
from srs_eval.training.recurrent import (
    ITERATIONS,
    RecurrentModel,
    SummedLoss,
    Trainable,
    TrainingLoss,
)

# S = exp(w0 + w1 passes - w2 failures), R = (1 + t / S)^-exp(w3): ln S is the state.


def first(rating: Value, w: FloatArray) -> tuple[Value]:
    return (w[0],)


def success(state: tuple[Value], t: Value, rating: Value, w: FloatArray) -> tuple[Value]:
    return (state[0] + w[1],)


def failure(state: tuple[Value], t: Value, rating: Value, w: FloatArray) -> tuple[Value]:
    return (state[0] - w[2],)


def recall(t: Value, state: tuple[Value], w: FloatArray) -> Value:
    return power(1.0 + t * exp(-state[0]), -exp(w[3]))


COUNTING = RecurrentModel(
    name="COUNTING",
    states=1,
    default=(1.0, 0.5, 0.5, -1.0),
    lower=(-10.0, -5.0, -5.0, -6.0),
    upper=(10.0, 5.0, 5.0, 2.0),
    first=first,
    success=success,
    failure=failure,
    recall=recall,
    learning_rate=0.1,
)
EVERYTHING = 1_000_000


def recurrent_model(trials: Trials, context: Context) -> RecurrentModel:
    return COUNTING


BY_ADAM = Trainable(recurrent_model)
BY_LBFGS = Trainable(recurrent_model, minimiser="lbfgs")


def configuration_of(trainable: Trainable) -> Configuration:
    model = TrainedModel(
        name="COUNTING",
        family="other",
        inputs="IL, G",
        parameters=4,
        source="a test, 2026",
        fit=trainable.fit,
        predict=trainable.predict,
        default=lambda context: list(COUNTING.default),
        flags=ANY_FLAG,
    )
    return replace(resolve_configurations("HLR", Protocol())[0], name="COUNTING", model=model)


def list_poor_training(configuration: Configuration) -> list[Mistake]:
    session = LearnerSession(load_demo_learner(EVERYTHING))
    return list(find_poor_training(configuration, session, CONTEXT))


def test_lbfgs_training_is_no_worse_than_a_constant() -> None:
    session = LearnerSession(load_demo_learner(EVERYTHING))
    average = session.run(resolve_configurations("AVG")[0]).metrics.log_loss
    by_adam = session.run(configuration_of(BY_ADAM)).metrics.log_loss
    by_lbfgs = session.run(configuration_of(BY_LBFGS)).metrics.log_loss
    assert by_adam > average + 0.01
    assert by_lbfgs < average + 0.001


def test_find_poor_training_finds_undertrained_models() -> None:
    finding_of_kind = {
        finding.kind: finding for finding in list_poor_training(configuration_of(BY_ADAM))
    }
    finding = finding_of_kind["not converged"]
    assert finding.found - finding.expected > 2 * CLEAR_GAIN
    assert list_poor_training(configuration_of(BY_LBFGS)) == []


def test_find_poor_training_without_a_known_trainer() -> None:
    """Check that the log loss of `predict` is lowered when `fit` calls no known trainer."""

    def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
        return [1.0, -1.0]  # any with the same sum: the average of a half

    def predict(trials: Trials, w: list[float], index: IntArray, context: Context) -> FloatArray:
        return np.full(len(index), 1 / (1 + np.exp(-(w[0] + w[1]))))

    right = configuration_of(BY_LBFGS)
    model = replace(right.model, fit=fit, predict=predict, default=lambda context: [0.0, 0.0])
    kinds = {finding.kind for finding in list_poor_training(replace(right, model=model))}
    assert kinds == {"not converged", "worse than average"}


def test_lbfgs_stays_within_bounds_and_leaves_frozen_parameters() -> None:
    bounded = replace(COUNTING, lower=(-10.0, -5.0, -5.0, -2.0), frozen=(1,), decimals=None)
    trainable = Trainable(lambda trials, context: bounded, minimiser="lbfgs")
    trials = LearnerSession(load_demo_learner(2_000)).trials(Protocol())
    train = trials.folds[-1].train
    w = trainable.fit(trials, train, np.ones(len(train)), Context())
    assert w[1] == 0.5
    assert w[3] == -2.0
    assert w[0] != 1.0


def test_lbfgs_uses_weights_pull_and_iterations() -> None:
    trials = LearnerSession(load_demo_learner(2_000)).trials(Protocol())
    train = trials.folds[-1].train
    equal = np.ones(len(train))
    newer = np.linspace(0.1, 2.0, len(train))

    def fitted(weights: FloatArray = equal, context: Context | None = None) -> list[float]:
        return trainable.fit(trials, train, weights, context or Context())

    trainable = BY_LBFGS
    plain = fitted()
    assert plain == fitted()
    assert fitted(newer) != plain
    short = Context(hyperparameters={ITERATIONS.name: 2})
    assert fitted(context=short) != plain
    pulled = replace(COUNTING, deviation=(0.01,) * 4)
    trainable = Trainable(lambda trials, context: pulled, minimiser="lbfgs")
    distance = np.abs(np.array(fitted()) - COUNTING.default).max()
    assert distance < np.abs(np.array(plain) - COUNTING.default).max() / 2


def test_lbfgs_refuses_ordered_parameters() -> None:
    ordered = replace(COUNTING, not_below=((0, 1),))
    trainable = Trainable(lambda trials, context: ordered, minimiser="lbfgs")
    trials = LearnerSession(load_demo_learner(2_000)).trials(Protocol())
    train = trials.folds[-1].train
    with pytest.raises(ValueError, match="leave not_below out"):
        trainable.fit(trials, train, np.ones(len(train)), Context())


@pytest.mark.parametrize("penalised", [False, True])
def test_training_loss_gradient_equals_differences(penalised: bool) -> None:
    def penalty(w: FloatArray, slope: FloatArray) -> float:
        slope += 0.2 * w
        return 0.1 * float(w @ w)

    model = replace(COUNTING, deviation=(0.5, 0.5, 1.0, 2.0))
    if penalised:
        model = replace(model, penalty=penalty)
    trials = LearnerSession(load_demo_learner(2_000)).trials(Protocol())
    train = trials.folds[-1].train
    weights = np.linspace(0.5, 1.5, len(train))
    loss = TrainingLoss(model, trials, train, weights, COUNTING.default, Context())
    w = np.array([1.3, 0.2, 0.9, -0.7])
    gradient = loss.value_and_gradient(w)[1]
    for k in range(len(w)):
        step = 1e-6 * (np.arange(len(w)) == k)
        above, below = (loss.value_and_gradient(w + h)[0] for h in (step, -step))
        assert gradient[k] == pytest.approx((above - below) / 2e-6, rel=1e-5, abs=1e-8)


def test_summed_loss_uses_weights() -> None:
    trials = LearnerSession(load_demo_learner(2_000)).trials(Protocol())
    train = trials.folds[-1].train
    w = np.array(COUNTING.default)
    once = SummedLoss(COUNTING, trials, train).value(w)
    twice = SummedLoss(COUNTING, trials, train, np.full(len(trials), 2.0)).value(w)
    assert twice == pytest.approx(2 * once)
