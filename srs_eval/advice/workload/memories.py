"""Which models can be simulated, and how: as a scheduler, or as what answers are drawn from.

The simulation asks the same few things of each: a state of so many numbers for a card, what it is
after a first answer and after a next one, and how probable it is that the card is recalled
(`loops`). FSRS's versions answer by their steps, small networks by their cells, in both cases the
code by which they are fitted and evaluated; LSTM, which PyTorch fits, by loops of its own
(`lstm_loops`). An interval can be had of FSRS only: the networks
have no forgetting curve that need fall, or none by which anybody schedules.

Parameters are not known but fitted; `draws` tells what else they could have been. Each draw is a
fit of FSRS-6 to days drawn with replacement, in blocks of seven review days, since days resemble
their neighbours (circular block bootstrap: Politis and Romano 1992). A review that is drawn twice
counts twice, also in the fit of the initial stabilities.

A fit is pulled towards the default parameters, as towards a prior. Were that the same in every
draw, few reviews would leave little doubt: draws would agree where the penalty decides, not the
learner. So each is pulled towards parameters drawn from that prior (randomize then optimize:
Bardsley et al. 2014, SIAM Journal on Scientific Computing 36).

`ranked` tells which model a preset's own reviews speak for: the engine fits and judges each on the
same held-out reviews of the preset, as in a ranking of the models; small networks start from their
pretrained weights. Where the model of a schedule is wrong, the best of the others is the learner's
best guess at what their memory does instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from srs_eval.data.errors import InputError, NotEnoughData, missing, require
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.engine.session import Session, fit_and_predict
from srs_eval.metrics import log_losses
from srs_eval.models import fsrs5, fsrs6, fsrs7, gru, lstm
from srs_eval.models.configurations import Configuration, resolve
from srs_eval.stats.intervals import (
    BLOCK_DAYS,
    EQUIVALENT,
    Interval,
    Verdict,
    mean_interval,
    verdicts,
)
from srs_eval.training.context import Context
from srs_eval.training.networks import Network
from srs_eval.training.recurrent import RecurrentModel

SCHEDULERS: Mapping[str, RecurrentModel] = {
    "FSRS-5": fsrs5.RECURRENT,
    "FSRS-6": fsrs6.recurrent(0.001),
    "FSRS-7": fsrs7.recurrent(secs=True),
}
"""A state is (s, d), of FSRS-7 (s, q, d)."""

_NETWORKS: Mapping[str, Network] = {"GRU": gru.GRU, "GRU-P": gru.GRU_P}
"""A state are the hidden units, of GRU-P also the last rating."""

LSTM = "LSTM"
"""A state are h and c of both layers and three curves; see `lstm_loops`."""

MODELS = (*SCHEDULERS, *_NETWORKS, LSTM)

SEE_TIME = (LSTM,)
"""What an answer took matters to them."""

_SCALE_WITH_STABILITY = ("FSRS-5", "FSRS-6")
"""Their forgetting curves depend on t / s alone, so that intervals are a multiple of s."""


_ATTEMPTS = 20  # to draw days that can be fitted to

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


@dataclass(frozen=True)
class Memory:
    """A model with its parameters; raises InputError for another number of them."""

    model: str  # of MODELS
    parameters: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise InputError(f"{self.model} cannot be simulated: only {', '.join(MODELS)} can.")
        needed = sizes_of(self.model)[1]
        if len(self.parameters) != needed:
            raise InputError(
                f"{self.model} has {needed} parameters, not {len(self.parameters)}: "
                "give a whole parameter line."
            )

    @property
    def values(self) -> FloatArray:
        """The parameters followed by the model's constants."""
        constants = self.recurrent.constants if self.model in SCHEDULERS else ()
        return np.array([*self.parameters, *constants], np.float64)

    @property
    def recurrent(self) -> RecurrentModel:
        """Of a scheduler."""
        return SCHEDULERS[self.model]

    @property
    def states(self) -> int:
        """Numbers in a card's state."""
        return sizes_of(self.model)[0]

    @property
    def sees_fractions(self) -> bool:
        """Whether time within a day counts; else a card's answers of one day are 0 days apart."""
        return self.model == LSTM or (self.model in SCHEDULERS and self.recurrent.same_day is None)


def sizes_of(model: str) -> tuple[int, int]:
    """How many numbers a card's state consists of, and how many parameters a memory has."""
    if model in SCHEDULERS:
        return SCHEDULERS[model].states, len(SCHEDULERS[model].default)
    if model == LSTM:
        return 4 * lstm.HIDDEN + 3 * lstm.CURVES, lstm.VALUES
    network = _NETWORKS[model]
    parameters = sum(int(np.prod(shape)) for shape in network.shapes.values())
    return network.hidden + int(network.following_interval), parameters


@cache
def loops_of(model: str) -> Mapping[str, Any]:
    """The model's compiled loops by the names that `loops` and `kernel` call them by."""
    from srs_eval.advice.workload import loops, lstm_loops
    from srs_eval.training.compile import specialised

    constants: dict[str, int] = {}
    steps: dict[str, Any] = {}
    if model in SCHEDULERS:
        each = SCHEDULERS[model]
        steps = {"_first": each.first, "_success": each.success, "_failure": each.failure}
        steps |= {"_curve": each.recall} | ({"_same_day": each.same_day} if each.same_day else {})
        constants = {
            "_STATES": each.states,
            "_VALUES": len(each.default) + len(each.constants),
            "_HAS_SAME_DAY": int(each.same_day is not None),
            "_SCALES": int(model in _SCALE_WITH_STABILITY),
        }
    elif model in _NETWORKS:
        network = _NETWORKS[model]
        constants = {
            "_CELL": network.cell,
            "_HEAD": network.head,
            "_INPUTS": network.inputs,
            "_HIDDEN": network.hidden,
            "_FOLLOWING": int(network.following_interval),
        }
    found: dict[str, Any] = {}
    kind = lstm_loops.NETWORK if model == LSTM else loops.NETWORK
    own = loops.RECURRENT if model in SCHEDULERS else {**kind, **loops.OF_NETWORKS}
    templates: dict[str, Any] = {**own, "step": loops.step, "follow": loops.follow}
    for name, template in templates.items():
        called = {f"_{loop}": kernel for loop, kernel in found.items()}
        called = {key: called[key] for key in called if key in template.__code__.co_names}
        word = model.replace("-", "_")
        found[name] = specialised(template, word, steps, constants, kernels=called)
    return found


# What parameters the reviews allow


def fitted(trials: Trials, index: IntArray, context: Context | None = None) -> Memory:
    """FSRS-6 fitted to the trials at the positions `index`. Raises NotEnoughData."""
    parameters = fsrs6.fit(trials, index, np.ones(len(index)), context or Context())
    return Memory("FSRS-6", tuple(parameters))


def draws(
    trials: Trials, index: IntArray, count: int, seed: int, context: Context | None = None
) -> Iterator[Memory]:
    """`count` draws of the fit to the trials at the positions `index`, in review order.

    The same seed gives the same draws. Raises NotEnoughData where no drawn days can be fitted to.
    """
    random = np.random.default_rng(seed)
    for _ in range(count):
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                yield _drawn(random, trials, index, context or Context())
                break
            except NotEnoughData:
                if attempt == _ATTEMPTS:
                    raise


def _drawn(
    random: np.random.Generator, trials: Trials, index: IntArray, context: Context
) -> Memory:
    reviews = drawn_reviews(random, trials, index)
    weights = np.ones(len(reviews))
    model = fsrs6.TRAINABLE.model(trials, context)
    # gamma ((w - default) / deviation)^2 is a normal prior's with this standard deviation; S0,
    # whose pull is towards their own fit, are as uncertain as the drawn reviews make them.
    deviation = np.array(fsrs6.DEVIATION) / np.sqrt(2.0 * trials.protocol.gamma)
    deviation[:4] = 0.0
    centre = np.array(fsrs6.fit_s0(trials, reviews, weights, context))
    centre += deviation * random.standard_normal(len(centre))
    centre = np.clip(centre, model.lower, model.upper)
    trainable = replace(fsrs6.TRAINABLE, start=lambda *_: centre.tolist())
    return Memory("FSRS-6", tuple(trainable.fit(trials, reviews, weights, context)))


def drawn_reviews(random: np.random.Generator, trials: Trials, index: IntArray) -> IntArray:
    """Positions of the reviews of drawn days, in review order; as many days as there are."""
    days, place = np.unique(trials.day[index], return_inverse=True)
    starts = random.integers(len(days), size=-(-len(days) // BLOCK_DAYS))
    drawn = (starts[:, None] + np.arange(BLOCK_DAYS)).ravel()[: len(days)] % len(days)
    return np.repeat(index, np.bincount(drawn, minlength=len(days))[place])


# Which model predicts the reviews best


@dataclass(frozen=True, eq=False)
class Score:
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


def ranked(
    session: Session, context: Context, memory: str = BEST, equivalence: float = EQUIVALENT
) -> tuple[Score, ...]:
    """All `candidates`, or one and REFERENCE, the one that predicts best first; none where there
    is too little data. `session` is of the preset's reviews alone.
    """
    wanted = tuple(dict.fromkeys((REFERENCE, memory)))
    try:
        losses = {REFERENCE: _losses(session, REFERENCE, context)}
        reference, days = losses[REFERENCE]
        if memory == BEST:
            wanted = candidates(len(session.trials(_configuration(REFERENCE).protocol)))
        for model in wanted:
            if model != REFERENCE:
                losses[model] = _losses(session, model, context)
                if not np.array_equal(losses[model][1], days):
                    raise RuntimeError(f"{model} is judged on other reviews")
    except NotEnoughData:
        return ()
    differences = {
        model: mean_interval(found - reference, days)
        for model, (found, _) in losses.items()
        if model != REFERENCE
    }
    says = verdicts(differences, equivalence=equivalence)
    made = [
        Score(model, mean_interval(*found), differences.get(model), says.get(model))
        for model, found in losses.items()
    ]
    return tuple(sorted(made, key=lambda each: each.log_loss.estimate))


def fitted_memory(session: Session, model: str, context: Context) -> Memory:
    """The model fitted to all reviews. Raises NotEnoughData."""
    configuration = _configuration(model)
    require(configuration.model.needs, configuration.model.name)
    trials = session.trials(configuration.protocol)
    fit = configuration.model.fit
    assert fit is not None
    return as_memory(model, fit(trials, np.arange(len(trials)), np.ones(len(trials)), context))


def as_memory(model: str, parameters: Any) -> Memory:
    """The memory with the parameters that the model's own fit returns."""
    if isinstance(parameters, lstm.Weights):
        parameters = lstm.as_vector(parameters).tolist()
    return Memory(model, tuple(parameters))


def _losses(session: Session, model: str, context: Context) -> tuple[FloatArray, IntArray]:
    """Log loss of each held-out review, and its day."""
    configuration = _configuration(model)
    trials = session.trials(configuration.protocol)
    p = fit_and_predict(configuration, trials, context)[0]
    index = trials.test_index
    return log_losses(trials.y[index], p), trials.day[index]


def _configuration(model: str) -> Configuration:
    return resolve(CONFIGURATIONS[model], Protocol(rows="anki"))[0]
