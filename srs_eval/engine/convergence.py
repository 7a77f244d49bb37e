"""Find models whose training ends too early: `srs-eval models check`.

The training part of a run's last fold is fitted, and L-BFGS goes on from the fit for a few steps.
What a model's own training lowers is lowered where that is known: the loss of a `RecurrentModel`
within its bounds, and `Model.loss`. Else it is the log loss of `predict`, with a gradient by
differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.engine.gradient_check import fit_observed
from srs_eval.engine.model_findings import Finding, Findings
from srs_eval.engine.session import Session, listed
from srs_eval.metrics import log_losses
from srs_eval.models.configurations import Configuration
from srs_eval.training.hyperparameters import Context
from srs_eval.training.optimisers import minimise
from srs_eval.training.recurrent import TrainingLoss, lower_by_lbfgs

CLEAR = 0.002
"""Log loss that is worth mentioning: a smaller difference matters to nobody."""
_WORSE = 0.01  # log loss above the average's: a formula that cannot fit may be a little worse
_STEPS = 20  # of L-BFGS, from the fit
_MOST_PARAMETERS = 100  # that are looked at; networks have more
_NOT_FINITE = 1e6  # stands for a loss that is no number

_Objective = Callable[[FloatArray], tuple[float, FloatArray]]


def can_be_continued(configuration: Configuration, session: Session, context: Context) -> bool:
    """Whether the model's fit returns a list of parameters, few enough to go on from them."""
    if configuration.model.fit is None:
        return False
    trials = session.trials(configuration.protocol)
    train = trials.folds[0].train
    try:
        fitted = configuration.model.fit(trials, train, np.ones(len(train)), context)
    except NotEnoughData:
        return False
    return _is_short_list(fitted)


def _is_short_list(fitted: object) -> bool:
    if not isinstance(fitted, list) or listed(fitted) is None:
        return False
    return 0 < len(fitted) <= _MOST_PARAMETERS


def find_poor_training(
    configuration: Configuration, session: Session, context: Context
) -> Findings:
    """Fit the last fold's training part: more steps must not lower the loss clearly.

    And its reviews must be predicted no worse than by their average.
    """
    model = configuration.model
    if model.predict is None or model.fit is None:
        return
    trials = session.trials(configuration.protocol)
    train = trials.folds[-1].train
    recurrent: list[Mapping[str, Any]] = []

    def observe(trainer: str, arguments: Mapping[str, Any]) -> None:
        if trainer in ("fit_recurrent", "fit_by_lbfgs"):
            recurrent.append(arguments)

    try:
        fitted = fit_observed(observe, model.fit, trials, train, np.ones(len(train)), context)
    except NotEnoughData:
        return
    log_loss = _LogLoss(configuration, trials, train, context)
    found = log_loss.of(fitted)
    average = float(log_losses(log_loss.y, np.full(len(train), log_loss.y.mean())).mean())
    if found > average + _WORSE:
        yield Finding(configuration.name, "worse than average", found=found, expected=average)
    if not _is_short_list(fitted):
        return
    if len(recurrent) == 1 and len(recurrent[0]["start"]) == len(fitted):
        before, after = _continued_within_bounds(recurrent[0], fitted, context)
    elif model.loss is not None:
        before, after = _continued(_of_model(configuration, trials, train, context), fitted)
    else:
        before, after = _continued(log_loss.with_gradient, fitted)
    if before - after <= CLEAR:
        return
    idle = [*log_loss.idle_parameters(fitted, model.default(context))]
    for parameter, gain in idle:
        yield Finding(configuration.name, "idle parameter", parameter=parameter, found=gain)
    if not idle:
        yield Finding(configuration.name, "not converged", found=before, expected=after)


class _LogLoss:
    """Mean log loss of `predict` on some trials, as a function of parameters."""

    def __init__(
        self, configuration: Configuration, trials: Trials, index: IntArray, context: Context
    ) -> None:
        self._model = configuration.model
        self._trials = trials
        self._index = index
        self._context = context
        self.y = trials.y[index]

    def of(self, parameters: Any) -> float:
        """Return the loss of parameters as `fit` returns them."""
        assert self._model.predict is not None
        p = self._model.predict(self._trials, parameters, self._index, self._context)
        return float(log_losses(self.y, p).mean())

    def with_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss at w (p,), and its gradient by differences."""
        value = self._possible(w)
        if value == _NOT_FINITE:
            return value, np.zeros(len(w))
        gradient = np.zeros(len(w))
        for k in range(len(w)):
            step = 1e-5 * max(abs(float(w[k])), 0.1)
            moved = w.copy()
            moved[k] += step
            gradient[k] = (self._possible(moved) - value) / step
        return value, gradient

    def _possible(self, w: FloatArray) -> float:
        """Return the loss at w (p,), or a large number where the model predicts nothing there."""
        with suppress(ArithmeticError, ValueError):
            value = self.of(w.tolist())
            if np.isfinite(value):
                return value
        return _NOT_FINITE

    def idle_parameters(self, fitted: list[float], default: Any) -> list[tuple[int, float]]:
        """Return parameters that are at their default though moving them lowers the loss clearly.

        With each comes what a move by a tenth gains.
        """
        if not isinstance(default, list) or len(default) != len(fitted):
            return []
        loss = self.of(fitted)
        idle = []
        for k, value in enumerate(fitted):
            if value != default[k]:
                continue
            step = 0.1 * abs(value) or 0.01
            moved = np.array([fitted, fitted], np.float64)
            moved[0, k] -= step
            moved[1, k] += step
            gain = loss - min(self._possible(moved[0]), self._possible(moved[1]))
            if gain > CLEAR:
                idle.append((k, gain))
        return idle


def _continued(objective: _Objective, fitted: list[float]) -> tuple[float, float]:
    """Return an objective at the fit, and after some steps of L-BFGS from there."""
    start = np.array(fitted, np.float64)
    before = objective(start)[0]
    end = minimise(
        objective,
        start,
        iterations=_STEPS,
        history=10,
        tolerance_gradient=1e-7,
        tolerance_change=1e-9,
    )
    return before, min(before, objective(end)[0])


def _continued_within_bounds(
    arguments: Mapping[str, Any], fitted: list[float], context: Context
) -> tuple[float, float]:
    """Return the training loss of a recurrent model at the fit, and after some steps from there."""
    model = arguments["model"]
    loss = TrainingLoss(
        model,
        arguments["trials"],
        arguments["train"],
        arguments["weights"],
        arguments["start"],
        arguments["context"],
    )
    before = loss.value_and_gradient(np.array(fitted, np.float64))[0]
    end = lower_by_lbfgs(model, loss, fitted, _STEPS, context)
    return before, min(before, loss.value_and_gradient(end)[0])


def _of_model(
    configuration: Configuration, trials: Trials, train: IntArray, context: Context
) -> _Objective:
    """Return `Model.loss` as a mean over the reviews that are trained on."""
    loss = configuration.model.loss
    assert loss is not None
    weights = np.ones(len(train))

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = loss(trials, w, train, weights, context)
        return float(value) / len(train), np.asarray(gradient, np.float64) / len(train)

    return objective
