"""A preset's cards played forward, day by day.

    simulate(scheduler, deck, costs, settings, seed) -> Simulated

Semantics are those of fsrs-rs 6.6 (src/simulation.rs, `simulate`) and of Anki 26.08, which
calls it (rslib/src/scheduler/fsrs/simulator.rs); docs/workload.md tells them, and where we
differ. A day is a whole number, today is 0. A card is reviewed at most once a day; learning and
relearning steps cost time and change the memory, but are no reviews of their own.

The scheduler decides on the intervals, the memory on what is recalled. They are one unless
`memory` is given, which is then followed alongside by a state of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from srs_eval.errors import InputError
from srs_eval.fitting.recurrent import RecurrentModel
from srs_eval.models import fsrs5, fsrs6, fsrs7
from srs_eval.reviews import FloatArray, IntArray

Order = Literal[
    "due",
    "random",
    "interval, shortest first",
    "interval, longest first",
    "difficulty, easiest first",
    "difficulty, hardest first",
    "retrievability, lowest first",
    "retrievability, highest first",
]
"""Which cards come first on a day that has more than its limit of reviews."""

MODELS = {
    "FSRS-5": fsrs5.RECURRENT,
    "FSRS-6": fsrs6.recurrent(0.001),
    "FSRS-7": fsrs7.recurrent(secs=True),
}
"""What can be simulated. A state is (s, d), of FSRS-7 (s, q, d)."""


@dataclass(frozen=True)
class Memory:
    """A model with its parameters; raises InputError for another number of them."""

    model: str  # a key of MODELS
    parameters: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise InputError(f"{self.model} cannot be simulated: only {', '.join(MODELS)} can.")
        needed = len(self.recurrent.default)
        if len(self.parameters) != needed:
            raise InputError(
                f"{self.model} has {needed} parameters, not {len(self.parameters)}: "
                "give a whole parameter line."
            )

    @property
    def recurrent(self) -> RecurrentModel:
        return MODELS[self.model]


@dataclass(frozen=True, eq=False)
class Deck:
    """Today's cards that are not suspended: n learned ones, and new ones as a number.

    Days are relative to today (negative: past). `memory_state` is needed where answers are
    drawn from another memory than the scheduler's.
    """

    state: FloatArray  # (states, n) after the last review, by the scheduler's model
    last_day: IntArray  # (n,) of the last review
    due_day: IntArray  # (n,) overdue cards are reviewed today, as long ago as they are
    lapses: IntArray  # (n,)
    new: int = 0
    introduced_today: int = 0  # new cards that today's limit has already been spent on
    memory_state: FloatArray | None = None  # (states of the memory, n)

    def __len__(self) -> int:
        return len(self.last_day)


@dataclass(frozen=True)
class Costs:
    """What answers cost, and which buttons are pressed. States: learning, review, relearning.

    The defaults are fsrs-rs's, of many learners (src/simulation.rs, `SimulatorConfig`).
    """

    seconds: tuple[tuple[float, float, float, float], ...] = (
        (19.58, 18.79, 13.78, 10.71),
        (19.38, 17.59, 12.38, 8.94),
        (16.44, 15.25, 12.32, 8.03),
    )
    """By state and rating (3, 4)."""
    first_rating: tuple[float, float, float, float] = (0.24, 0.094, 0.495, 0.171)
    """Shares of Again, Hard, Good, Easy at the first review of a card."""
    review_rating: tuple[float, float, float] = (0.224, 0.631, 0.145)
    """Shares of Hard, Good, Easy at reviews that are passed."""
    learning_steps: tuple[tuple[float, float, float, float], ...] = (
        (0.3686, 0.0628, 0.5108, 0.0577),
        (0.0442, 0.4553, 0.4457, 0.0549),
        (0.0519, 0.0470, 0.8462, 0.0550),
    )
    """Shares of the four ratings in a step that follows Again, Hard, Good (3, 4)."""
    relearning_steps: tuple[tuple[float, float, float, float], ...] = (
        (0.2157, 0.0643, 0.6595, 0.0604),
        (0.0500, 0.4638, 0.4475, 0.0387),
        (0.1057, 0.1434, 0.7266, 0.0244),
    )


@dataclass(frozen=True)
class Settings:
    """The question: for how long, how much is to be remembered, what limits there are."""

    desired_retention: float = 0.9
    days: int = 365
    new_a_day: int = 20
    reviews_a_day: int = 9999
    new_ignore_review_limit: bool = True
    maximum_interval: int = 36_500  # days
    learning_steps: int = 2  # how many
    relearning_steps: int = 1
    step_minutes: float = 10.0
    """Between the steps of one day; only FSRS-7 asks for it."""
    order: Order = "due"
    suspend_after_lapses: int | None = None
    balanced: bool = True
    """Intervals are drawn from Anki's fuzz range, rather on days with few reviews due."""
    known_every: int = 30
    """How often what is known is counted, in days; always on the first and on the last day."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """What happened on each day (days,)."""

    reviews: IntArray  # of cards learned on an earlier day
    recalled: IntArray  # reviews that were passed
    new: IntArray  # cards learned
    seconds: FloatArray
    known_days: IntArray  # (k,) days at whose end is counted ...
    known: FloatArray  # (k,) ... how many cards would be recalled, by the memory

    @cached_property
    def answers(self) -> int:
        """Reviews and new cards together, as Anki's simulator counts reviews."""
        return int(self.reviews.sum() + self.new.sum())


def days_counted(settings: Settings) -> IntArray:
    """The days at whose end it is counted what is known: every so often, and the last."""
    days = np.arange(0, settings.days, settings.known_every)
    return np.union1d(days, [settings.days - 1])
