"""Which models can be simulated, and how: as a scheduler, or as what answers are drawn from.

The simulation asks the same few things of each: a state of so many numbers for a card, what it is
after a first answer and after a next one, and how probable it is that the card is recalled
(`loops`). FSRS's versions answer by their steps, small networks by their cells, in both cases the
code by which they are fitted and evaluated; LSTM, which PyTorch fits, by loops of its own
(`lstm_loops`). An interval can be had of FSRS only: the networks
have no forgetting curve that need fall, or none by which anybody schedules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray
from srs_eval.models import fsrs5, fsrs6, fsrs7, gru, gru_p, lstm
from srs_eval.training.networks import Network
from srs_eval.training.recurrent import RecurrentModel

SCHEDULERS: Mapping[str, RecurrentModel] = {
    "FSRS-5": fsrs5.RECURRENT,
    "FSRS-6": fsrs6.recurrent(0.001),
    "FSRS-7": fsrs7.recurrent(secs=True),
}
"""A state is (s, d), of FSRS-7 (s, q, d)."""

_NETWORKS: Mapping[str, Network] = {"GRU": gru.GRU, "GRU-P": gru_p.NETWORK}
"""A state are the hidden units, of GRU-P also the last rating."""

LSTM = "LSTM"
"""A state are h and c of both layers and three curves; see `lstm_loops`."""

MODELS = (*SCHEDULERS, *_NETWORKS, LSTM)

SEE_TIME = (LSTM,)
"""What an answer took matters to them."""

_SCALE_WITH_STABILITY = ("FSRS-5", "FSRS-6")
"""Their forgetting curves depend on t / s alone, so that intervals are a multiple of s."""


@dataclass(frozen=True)
class Memory:
    """A model with its parameters; raises InputError for another number of them."""

    model: str  # of MODELS
    parameters: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise InputError(f"{self.model} cannot be simulated: only {', '.join(MODELS)} can.")
        needed = parameters_of(self.model)
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
        return states_of(self.model)

    @property
    def sees_fractions(self) -> bool:
        """Whether time within a day counts; else a card's answers of one day are 0 days apart."""
        return self.model == LSTM or (self.model in SCHEDULERS and self.recurrent.same_day is None)


def states_of(model: str) -> int:
    """Numbers in a card's state."""
    if model in SCHEDULERS:
        return SCHEDULERS[model].states
    if model == LSTM:
        return 4 * lstm.HIDDEN + 3 * lstm.CURVES
    network = _NETWORKS[model]
    return network.hidden + int(network.following_interval)


def parameters_of(model: str) -> int:
    """How many parameters a memory has."""
    if model in SCHEDULERS:
        return len(SCHEDULERS[model].default)
    if model == LSTM:
        return lstm.VALUES
    return sum(int(np.prod(shape)) for shape in _NETWORKS[model].shapes.values())


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
