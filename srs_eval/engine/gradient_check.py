"""Gradients that a fit gives to its trainer, compared with central differences of the loss."""

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
_Given = tuple[str, _Objective, Any]  # whose gradient, loss and gradient, where training begins

# A module or class, and the name of its function.
_TRAINERS = (
    ("scipy.optimize", "minimize"),
    ("srs_eval.training.optimisers", "minimise"),
    ("srs_eval.training.linear", "adam"),
    ("srs_eval.training.linear.Linear", "fit"),
    ("srs_eval.training.recurrent", "fit_recurrent"),
    ("srs_eval.training.recurrent", "fit_by_lbfgs"),
)
_OFF = 0.01  # as a part of the largest component


_Wrong = tuple[str, int, float, float]
"""Whose gradient; the first parameter whose derivative is wrong; that, and what it should be."""


def wrong_gradient(where: str, objective: _Objective, start: Any) -> _Wrong | None:
    """What is wrong with a gradient near the start; None where it is right.

    Near it, for at the start itself equal things may be equal by design.
    """
    at = np.array(start, np.float64).ravel()
    at += np.random.default_rng(1).uniform(0.01, 0.05, len(at)) * np.maximum(np.abs(at), 0.1)
    slope = np.array(objective(at.copy())[1], np.float64).ravel()

    def difference(k: int, width: float) -> float:
        h = width * max(abs(float(at[k])), 0.1) * (np.arange(len(at)) == k)
        return float((objective(at + h)[0] - objective(at - h)[0]) / (2 * h.sum()))

    # Two widths: a loss in single precision has no fine differences, a curved one no wide ones.
    by_width = [[difference(k, width) for k in range(len(at))] for width in (1e-5, 1e-3)]
    differences = np.array(by_width)
    allowed = _OFF * max(float(np.abs(differences).max()), 1e-6)
    off = np.flatnonzero((~(np.abs(slope - differences) <= allowed)).all(axis=0))
    if not len(off):
        return None
    k = int(off[0])
    return where, k, float(slope[k]), float(differences[0, k])


def wrong_gradients(fit: Callable[..., Any], *given: Any) -> list[_Wrong]:
    """One for each trainer that the fit gives a wrong gradient to."""
    found: dict[str, _Wrong] = {}

    def look(trainer: str, arguments: Mapping[str, Any]) -> None:
        for each in _gradients_in(trainer, arguments):
            wrong = wrong_gradient(*each)
            if wrong is not None:
                found.setdefault(wrong[0], wrong)

    fit_observed(look, fit, *given)
    return list(found.values())


def fit_observed(
    observe: Callable[[str, Mapping[str, Any]], None], fit: Callable[..., Any], *given: Any
) -> Any:
    """Fit, and call `observe` with the name and arguments of each trainer that the fit calls.

    Seen are those of `srs_eval.training` and `scipy.optimize.minimize`, which are replaced while
    the fit runs. Returns what the fit returns.
    """

    def observed(trainer: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            arguments = inspect.signature(trainer).bind(*given, **named)
            arguments.apply_defaults()
            observe(trainer.__name__, arguments.arguments)
            return trainer(*given, **named)

        return called

    with ExitStack() as replaced:
        for path, name in _TRAINERS:
            owner = resolve_name(path)
            trainer = getattr(owner, name)
            for place in {owner, sys.modules.get(fit.__module__, owner)}:
                for known, value in list(vars(place).items()):
                    if value is trainer:
                        replaced.enter_context(patch.object(place, known, observed(trainer)))
        if inspect.ismethod(fit):  # of a trainer, perhaps: as it is now
            fit = getattr(fit.__self__, fit.__name__)
        return fit(*given)


def _gradients_in(trainer: str, given: Mapping[str, Any]) -> Iterator[_Given]:
    """What a trainer is given, by its parameters' names."""
    match trainer:
        case "minimize":
            fun, jac, args = given["fun"], given["jac"], given["args"]
            more = args if isinstance(args, tuple) else (args,)
            if jac is True:
                yield "scipy.optimize.minimize", lambda w: fun(w, *more), given["x0"]
            elif callable(jac):
                apart = (lambda w: (fun(w, *more), jac(w, *more)), given["x0"])
                yield "scipy.optimize.minimize", *apart
        case "minimise":
            yield "optimisers.minimise", given["objective"], given["start"]
        case "adam":
            total, batches, part = given["total_loss"], given["n_batches"], given["gradient"]

            def summed(w: FloatArray) -> tuple[float, FloatArray]:
                return float(total(w)), np.sum([part(w, b) for b in range(batches)], axis=0)

            yield "linear.adam", summed, given["start"]
        case "fit":
            from srs_eval.training.linear import loss_and_gradient

            model, trials, train = given["self"], given["trials"], given["train"]
            rows = (
                model.features(trials)[train],
                trials.delta_t[train],
                trials.y[train],
                given["weights"],
            )
            name, step = model.name, model.recall_and_slope
            yield "Linear", lambda w: loss_and_gradient(name, step, *rows, w), model.start(trials)
        case "fit_recurrent" | "fit_by_lbfgs":
            from srs_eval.training.recurrent import SummedLoss

            model = given["model"]
            loss = SummedLoss(model, given["trials"], given["train"])
            yield "RecurrentModel", lambda w: (loss.value(w), loss.gradient(w)), given["start"]
            if model.penalty is not None:

                def penalty(w: FloatArray) -> tuple[float, FloatArray]:
                    slope = np.zeros(len(w))
                    return model.penalty(np.array([*w, *model.constants]), slope), slope

                yield "RecurrentModel.penalty", penalty, given["start"]
