"""Find models whose training ends too early: `srs-eval models check`.

The training part of a run's last fold is fitted, and L-BFGS goes on from the fit for a few steps.
It lowers the loss that the model's own training lowers, if that is known: the loss of a
`RecurrentModel` within its bounds, or `TrainedModel.loss`. Otherwise it lowers the log loss of
`predict`, with a gradient by differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.engine.gradient_check import fit_with_observer
from srs_eval.engine.model_mistakes import Mistake, Mistakes
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import log_losses
from srs_eval.models import TrainedModel
from srs_eval.models.configurations import Configuration
from srs_eval.models.held_out import as_float_list
from srs_eval.training.hyperparameters import Context
from srs_eval.training.optimisers import minimise_by_lbfgs
from srs_eval.training.recurrent import TrainingLoss, minimise_by_lbfgsb

CLEAR_GAIN = 0.002
"""Difference in log loss that is worth reporting: smaller ones do not matter."""
_ALLOWED_EXCESS_LOSS = 0.01
"""Log loss above the average's: a formula that cannot fit may be slightly worse."""
_EXTRA_STEPS = 20  # steps of L-BFGS from the fit
_MAX_PARAMETERS = 100  # models with more, such as networks, are not trained further
_INFINITE_LOSS = 1e6  # stands for a loss that is not finite

_Objective = Callable[[FloatArray], tuple[float, FloatArray]]


def can_continue_training(
    configuration: Configuration, session: LearnerSession, context: Context
) -> bool:
    """Return whether training can go on from the model's fit, a list of not too many parameters."""
    model = configuration.model
    if not isinstance(model, TrainedModel) or model.fit is None:
        return False
    trials = session.trials(configuration.protocol)
    train = trials.folds[0].train
    try:
        fitted = model.fit(trials, train, np.ones(len(train)), context)
    except NotEnoughData:
        return False
    return _is_short_list(fitted)


def _is_short_list(fitted: object) -> bool:
    if not isinstance(fitted, list) or as_float_list(fitted) is None:
        return False
    return 0 < len(fitted) <= _MAX_PARAMETERS


def find_poor_training(
    configuration: Configuration, session: LearnerSession, context: Context
) -> Mistakes:
    """Fit the last fold's training part: more steps must not clearly lower the loss.

    The fit must also predict the reviews of this part no worse than their average does.
    """
    model = configuration.model
    if not isinstance(model, TrainedModel) or model.fit is None:
        return
    trials = session.trials(configuration.protocol)
    train = trials.folds[-1].train
    recurrent_calls: list[Mapping[str, Any]] = []  # arguments of each call to train a recurrence

    def observe(trainer: str, arguments: Mapping[str, Any]) -> None:
        if trainer in ("fit_recurrent", "fit_recurrent_by_lbfgs"):
            recurrent_calls.append(arguments)

    try:
        fitted = fit_with_observer(observe, model.fit, trials, train, np.ones(len(train)), context)
    except NotEnoughData:
        return
    log_loss = _MeanLogLoss(model, trials, train, context)
    loss_of_fit = log_loss.evaluate(fitted)
    average_p = np.full(len(train), log_loss.y.mean())
    loss_of_average = float(log_losses(log_loss.y, average_p).mean())
    if loss_of_fit > loss_of_average + _ALLOWED_EXCESS_LOSS:
        yield Mistake(
            configuration.name, "worse than average", found=loss_of_fit, expected=loss_of_average
        )
    if not _is_short_list(fitted):
        return
    if len(recurrent_calls) == 1 and len(recurrent_calls[0]["start"]) == len(fitted):
        loss_before, loss_after = _continue_recurrent_training(recurrent_calls[0], fitted, context)
    elif model.loss is not None:
        objective = _mean_model_loss(model.loss, trials, train, context)
        loss_before, loss_after = _continue_training(objective, fitted)
    else:
        loss_before, loss_after = _continue_training(log_loss.loss_and_gradient, fitted)
    if loss_before - loss_after <= CLEAR_GAIN:
        return
    default = model.default_parameters(configuration.protocol, context)
    idle_parameters = log_loss.find_idle_parameters(fitted, default)
    for parameter, gain in idle_parameters:
        yield Mistake(configuration.name, "idle parameter", parameter=parameter, found=gain)
    if not idle_parameters:
        yield Mistake(configuration.name, "not converged", found=loss_before, expected=loss_after)


class _MeanLogLoss:
    """Mean log loss of `predict` on some trials, as a function of parameters."""

    def __init__(
        self, model: TrainedModel, trials: Trials, index: IntArray, context: Context
    ) -> None:
        self._model = model
        self._trials = trials
        self._index = index
        self._context = context
        self.y = trials.y[index]

    def evaluate(self, parameters: Any) -> float:
        """Return the loss at parameters in the form that `fit` returns."""
        p = self._model.predict(self._trials, parameters, self._index, self._context)
        return float(log_losses(self.y, p).mean())

    def loss_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss at w (p,), and its gradient by differences."""
        value = self._finite_loss(w)
        if value == _INFINITE_LOSS:
            return value, np.zeros(len(w))
        gradient = np.zeros(len(w))
        for k in range(len(w)):
            step = 1e-5 * max(abs(float(w[k])), 0.1)
            shifted = w.copy()
            shifted[k] += step
            gradient[k] = (self._finite_loss(shifted) - value) / step
        return value, gradient

    def _finite_loss(self, w: FloatArray) -> float:
        """Return the loss at w (p,), or a large number if the model cannot predict there."""
        with suppress(ArithmeticError, ValueError):
            value = self.evaluate(w.tolist())
            if np.isfinite(value):
                return value
        return _INFINITE_LOSS

    def find_idle_parameters(self, fitted: list[float], default: Any) -> list[tuple[int, float]]:
        """Return parameters left at their default although moving them clearly lowers the loss.

        Each position comes with the gain from moving the parameter by a tenth.
        """
        if not isinstance(default, list) or len(default) != len(fitted):
            return []
        loss = self.evaluate(fitted)
        idle: list[tuple[int, float]] = []
        for k, value in enumerate(fitted):
            if value != default[k]:
                continue
            step = 0.1 * abs(value)
            if step == 0:
                step = 0.01
            lowered = np.array(fitted, np.float64)
            lowered[k] -= step
            raised = np.array(fitted, np.float64)
            raised[k] += step
            gain = loss - min(self._finite_loss(lowered), self._finite_loss(raised))
            if gain > CLEAR_GAIN:
                idle.append((k, gain))
        return idle


def _continue_training(objective: _Objective, fitted: list[float]) -> tuple[float, float]:
    """Return an objective's value at the fit, and after some steps of L-BFGS from there."""
    start = np.array(fitted, np.float64)
    before = objective(start)[0]
    end = minimise_by_lbfgs(
        objective,
        start,
        iterations=_EXTRA_STEPS,
        history=10,
        tolerance_gradient=1e-7,
        tolerance_change=1e-9,
    )
    return before, min(before, objective(end)[0])


def _continue_recurrent_training(
    arguments: Mapping[str, Any], fitted: list[float], context: Context
) -> tuple[float, float]:
    """Return a recurrent model's training loss at the fit, and after some steps from there."""
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
    end = minimise_by_lbfgsb(model, loss, fitted, _EXTRA_STEPS, context)
    return before, min(before, loss.value_and_gradient(end)[0])


def _mean_model_loss(
    loss: Callable[..., tuple[float, FloatArray]],
    trials: Trials,
    train: IntArray,
    context: Context,
) -> _Objective:
    """Return `TrainedModel.loss` as a mean over the training reviews."""
    weights = np.ones(len(train))

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        total, gradient = loss(trials, w, train, weights, context)
        return float(total) / len(train), np.asarray(gradient, np.float64) / len(train)

    return objective
