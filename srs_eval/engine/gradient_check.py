"""Compare the gradients that a fit gives to its trainer with central differences of the loss."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

import numpy as np

from srs_eval.data.reviews import FloatArray

_Objective = Callable[[FloatArray], tuple[float, FloatArray]]
_GradientCase = tuple[str, _Objective, Any]  # source, loss and gradient, start of training

# A module or class, and the name of its function that gets a gradient and trains with it.
_TRAINERS = (
    ("scipy.optimize", "minimize"),
    ("srs_eval.training.optimisers", "minimise_by_lbfgs"),
    ("srs_eval.training.linear", "minimise_by_adam"),
    ("srs_eval.training.linear.LinearModel", "fit"),
    ("srs_eval.training.recurrent", "fit_recurrent"),
    ("srs_eval.training.recurrent", "fit_recurrent_by_lbfgs"),
)
_ALLOWED_ERROR = 0.01  # as a fraction of the largest component


_WrongGradient = tuple[str, int, float, float]
"""Source of a gradient, first parameter with a wrong derivative, its value, and the right one."""


def check_gradient(source: str, objective: _Objective, start: Any) -> _WrongGradient | None:
    """Return what is wrong with a gradient near the start; None if it is right.

    It is checked near the start because values may be equal by design at the start itself.
    """
    point = np.array(start, np.float64).ravel()
    shift = np.random.default_rng(1).uniform(0.01, 0.05, len(point))
    point += shift * np.maximum(np.abs(point), 0.1)
    slope = np.array(objective(point.copy())[1], np.float64).ravel()

    def central_difference(k: int, width: float) -> float:
        step = np.zeros(len(point))
        step[k] = width * max(abs(float(point[k])), 0.1)
        loss_above = objective(point + step)[0]
        loss_below = objective(point - step)[0]
        return float((loss_above - loss_below) / (2 * step[k]))

    # Two widths: narrow ones fail for a loss in single precision, wide ones for a curved loss.
    differences = np.empty((2, len(point)))  # (widths, parameters)
    for row, width in enumerate((1e-5, 1e-3)):
        for k in range(len(point)):
            differences[row, k] = central_difference(k, width)
    allowed = _ALLOWED_ERROR * max(float(np.abs(differences).max()), 1e-6)
    is_right = np.abs(slope - differences) <= allowed  # false for NaN
    wrong = np.flatnonzero((~is_right).all(axis=0))
    if not len(wrong):
        return None
    k = int(wrong[0])
    return source, k, float(slope[k]), float(differences[0, k])


def check_trainer_gradients(fit: Callable[..., Any], *fit_arguments: Any) -> list[_WrongGradient]:
    """Run a fit and return its wrong gradients, at most one for each kind of trainer."""
    wrong_by_source: dict[str, _WrongGradient] = {}

    def observe(trainer: str, arguments: Mapping[str, Any]) -> None:
        for source, objective, start in _extract_gradients(trainer, arguments):
            wrong_gradient = check_gradient(source, objective, start)
            if wrong_gradient is not None:
                wrong_by_source.setdefault(source, wrong_gradient)

    fit_with_observer(observe, fit, *fit_arguments)
    return list(wrong_by_source.values())


def fit_with_observer(
    observe: Callable[[str, Mapping[str, Any]], None], fit: Callable[..., Any], *fit_arguments: Any
) -> Any:
    """Fit, and call `observe` with the name and arguments of each trainer that the fit calls.

    Trainers are those of `srs_eval.training` and `scipy.optimize.minimize`, which are replaced
    while the fit runs. Returns the fit's result.
    """

    def observed(trainer: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            bound = inspect.signature(trainer).bind(*args, **kwargs)
            bound.apply_defaults()
            observe(trainer.__name__, bound.arguments)
            return trainer(*args, **kwargs)

        return wrapped

    with ExitStack() as patches:
        for path, name in _TRAINERS:
            owner = resolve_name(path)
            trainer = getattr(owner, name)
            # The module of the fit may have imported the trainer under any name.
            for namespace in {owner, sys.modules.get(fit.__module__, owner)}:
                for attribute, value in list(vars(namespace).items()):
                    if value is trainer:
                        patches.enter_context(patch.object(namespace, attribute, observed(trainer)))
        if inspect.ismethod(fit):  # it may itself be a trainer, such as `LinearModel.fit`
            fit = getattr(fit.__self__, fit.__name__)
        return fit(*fit_arguments)


def _extract_gradients(trainer: str, arguments: Mapping[str, Any]) -> Iterator[_GradientCase]:
    """Yield each gradient among a trainer's arguments, which are given by parameter name."""
    match trainer:
        case "minimize":
            fun = arguments["fun"]
            jac = arguments["jac"]
            args = arguments["args"]
            if not isinstance(args, tuple):
                args = (args,)
            if jac is True:
                yield "scipy.optimize.minimize", lambda w: fun(w, *args), arguments["x0"]
            elif callable(jac):

                def loss_and_jac(w: FloatArray) -> tuple[float, FloatArray]:
                    return fun(w, *args), jac(w, *args)

                yield "scipy.optimize.minimize", loss_and_jac, arguments["x0"]
        case "minimise_by_lbfgs":
            yield "optimisers.minimise", arguments["objective"], arguments["start"]
        case "minimise_by_adam":
            total_loss = arguments["total_loss"]
            gradient_of_batch = arguments["gradient"]
            batches = range(arguments["n_batches"])

            def summed(w: FloatArray) -> tuple[float, FloatArray]:
                loss = float(total_loss(w))
                gradients = [gradient_of_batch(w, batch) for batch in batches]
                return loss, np.sum(gradients, axis=0)

            yield "linear.adam", summed, arguments["start"]
        case "fit":
            from srs_eval.training.linear import loss_and_gradient

            linear_model = arguments["self"]
            trials = arguments["trials"]
            train = arguments["train"]
            features = linear_model.features(trials)[train]
            delta_t = trials.delta_t[train]
            y = trials.y[train]
            weights = arguments["weights"]
            name = linear_model.name
            step = linear_model.recall_and_slope

            def linear_loss(w: FloatArray) -> tuple[float, FloatArray]:
                return loss_and_gradient(name, step, features, delta_t, y, weights, w)

            yield "Linear", linear_loss, linear_model.start(trials)
        case "fit_recurrent" | "fit_recurrent_by_lbfgs":
            from srs_eval.training.recurrent import SummedLoss

            model = arguments["model"]
            loss = SummedLoss(model, arguments["trials"], arguments["train"])
            yield "RecurrentModel", lambda w: (loss.value(w), loss.gradient(w)), arguments["start"]
            if model.penalty is not None:

                def penalty(w: FloatArray) -> tuple[float, FloatArray]:
                    slope = np.zeros(len(w))
                    return model.penalty(np.array([*w, *model.constants]), slope), slope

                yield "RecurrentModel.penalty", penalty, arguments["start"]
