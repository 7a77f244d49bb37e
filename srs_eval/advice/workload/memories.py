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
    """The model's compiled loops by their names in `loops`."""
    from srs_eval.advice.workload import loops, lstm_loops
    from srs_eval.training.compile import specialised

    kind, wanted = "network", ["begin", "review", "recall"]
    steps: dict[str, Any] = {}
    templates: Any = loops
    constants: dict[str, int]
    if model == LSTM:
        kind, templates = "lstm", lstm_loops
        constants = {"HAS_SAME_DAY": 0}
    elif model in _NETWORKS:
        network = _NETWORKS[model]
        constants = {
            "CELL": network.cell,
            "HEAD": network.head,
            "INPUTS": network.inputs,
            "HIDDEN": network.hidden,
            "FOLLOWING": int(network.following_interval),
            "HAS_SAME_DAY": 1,
        }
    else:
        kind, wanted = "recurrent", [*wanted, "factor", "intervals"]
        recurrent = SCHEDULERS[model]
        for name in ("first", "success", "failure", "same_day", "recall"):
            step = getattr(recurrent, name)
            if step is not None:
                steps["curve" if name == "recall" else name] = step
        constants = {
            "STATES": recurrent.states,
            "VALUES": len(recurrent.default) + len(recurrent.constants),
            "HAS_SAME_DAY": int("same_day" in steps),
            "SCALES": int(model in _SCALE_WITH_STABILITY),
        }

    def made(template: Any, **kernels: Any) -> Any:
        return specialised(template, model.replace("-", "_"), steps, constants, kernels=kernels)

    found = {loop: made(getattr(templates, f"{kind}_{loop}")) for loop in wanted}
    step_of = loops.network_step if model in _NETWORKS else loops.recurrent_step
    found["step"] = made(step_of, review=found["review"])
    follow = made(loops.follow, **{loop: found[loop] for loop in ("begin", "review", "step")})
    return {**found, "follow": follow}
