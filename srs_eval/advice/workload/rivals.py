"""Which model of memory a preset's own reviews speak for, of those that can be simulated.

The engine fits and judges each on the same held-out reviews of the preset, as in a ranking of
the models; small networks start from their pretrained weights. Where the model of a schedule is
wrong, the best of the others is the learner's best guess at what their memory does instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from srs_eval.advice.workload.memories import MODELS, Memory
from srs_eval.data.errors import InputError, missing, require
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.engine.session import Session, fit_and_predict
from srs_eval.metrics import log_losses
from srs_eval.models.configurations import Configuration, resolve
from srs_eval.models.lstm import Weights, as_vector
from srs_eval.stats.intervals import Interval, Verdict, mean_interval, verdicts
from srs_eval.training.context import Context

BEST = "best"
REFERENCE = "FSRS-6"  # what others are held against: the model of the schedule

_LONGEST_S = 5.0
"""Processor time that a model's five fits are expected to take, at most, for it to be among those
from which the best is chosen unasked: LSTM's take longer from some 6,000 reviews on."""

# By the names of MODELS. All see a day's later answers, which the simulation has, too.
CONFIGURATIONS = {
    "FSRS-5": "FSRS-5",
    "FSRS-6": "FSRS-6",
    "FSRS-7": "FSRS-7-short-secs-equalize_test_with_non_secs",
    "GRU": "GRU-short",
    "GRU-P": "GRU-P-short",
    "LSTM": "LSTM",
}


@dataclass(frozen=True, eq=False)
class Judged:
    """How well a model predicts the held-out reviews after being fitted to those before."""

    model: str  # of MODELS
    log_loss: Interval
    difference: Interval | None  # in log loss, from REFERENCE's; its own has none
    verdict: Verdict | None  # "better": than REFERENCE


def checked(memory: str) -> str:
    """BEST or one of MODELS; raises InputError for another name, and where PyTorch is missing."""
    for name in (BEST, *MODELS):
        if name.lower() == memory.lower():
            if name != BEST:
                require(_configuration(name).model.needs, f"--memory {name}")
            return name
    raise InputError(
        f"--memory {memory}: a memory that can be simulated is one of {', '.join(MODELS)}, "
        f"or “{BEST}” of these."
    )


def candidates(reviews: int) -> tuple[str, ...]:
    """Of MODELS, those that can be judged here on so many reviews without a long wait."""

    def is_quick(model: str) -> bool:
        configuration = _configuration(model)
        expected_s = configuration.expected_seconds(reviews)
        return not missing(configuration.model.needs) and expected_s <= _LONGEST_S

    return tuple(model for model in MODELS if is_quick(model))


def ranked(session: Session, context: Context, memory: str = BEST) -> list[Judged]:
    """All `candidates`, or one and REFERENCE, the one that predicts best first.

    `session` is of the preset's reviews alone. Raises NotEnoughData.
    """
    reference = _losses(session, REFERENCE, context)
    wanted = tuple(dict.fromkeys((REFERENCE, memory)))
    if memory == BEST:
        wanted = candidates(len(session.trials(_configuration(REFERENCE).protocol)))
    losses = {REFERENCE: reference}
    for model in wanted:
        if model == REFERENCE:
            continue
        found = _losses(session, model, context)
        if not np.array_equal(found[1], reference[1]):
            raise RuntimeError(f"{model} is judged on other reviews")
        losses[model] = found
    differences = {
        model: mean_interval(found[0] - reference[0], reference[1])
        for model, found in losses.items()
        if model != REFERENCE
    }
    says = verdicts(differences)
    made = [
        Judged(model, mean_interval(*found), differences.get(model), says.get(model))
        for model, found in losses.items()
    ]
    return sorted(made, key=lambda each: each.log_loss.estimate)


def fitted_memory(session: Session, model: str, context: Context) -> Memory:
    """The model fitted to all reviews. Raises NotEnoughData."""
    return as_memory(model, _fitted(session, model, context))


def as_memory(model: str, parameters: Any) -> Memory:
    """The memory with the parameters that the model's own fit returns."""
    if isinstance(parameters, Weights):
        parameters = as_vector(parameters).tolist()
    return Memory(model, tuple(parameters))


def _fitted(session: Session, model: str, context: Context) -> Any:
    """Parameters, or whatever else the model's fit returns."""
    configuration = _configuration(model)
    require(configuration.model.needs, configuration.model.name)
    trials = session.trials(configuration.protocol)
    fit = configuration.model.fit
    assert fit is not None
    return fit(trials, np.arange(len(trials)), np.ones(len(trials)), context)


def _losses(session: Session, model: str, context: Context) -> tuple[FloatArray, IntArray]:
    """Log loss of each held-out review, and its day."""
    configuration = _configuration(model)
    trials = session.trials(configuration.protocol)
    p = fit_and_predict(configuration, trials, context)[0]
    index = trials.test_index
    return log_losses(trials.y[index], p), trials.day[index]


def _configuration(model: str) -> Configuration:
    return resolve(CONFIGURATIONS[model], Protocol(rows="anki"))[0]
