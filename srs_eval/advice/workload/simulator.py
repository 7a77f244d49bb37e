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
from functools import cache, lru_cache
from typing import Any, Literal, get_args

import numpy as np

from srs_eval.advice.workload.memories import Memory, loops_of
from srs_eval.data.reviews import FloatArray, IntArray

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


@dataclass(frozen=True, eq=False)
class Deck:
    """Today's cards that are not suspended: n learned ones, and new ones as a number.

    Days are relative to today (negative: past). `memory_state` is needed where answers are
    drawn from another memory than the scheduler's.
    """

    state: FloatArray  # (states, n) after the last review, by the scheduler's model
    last_day: IntArray  # (n,) of the last review
    due_day: IntArray  # (n,) overdue cards are reviewed today, as long ago as they are
    new: int = 0
    memory_state: FloatArray | None = None  # (states of the memory, n)

    def __len__(self) -> int:
        return len(self.last_day)


@dataclass(frozen=True)
class Costs:
    """What answers cost, and which buttons are pressed. States: learning, review, relearning.

    The defaults are fsrs-rs's, of many learners (src/simulation.rs, `SimulatorConfig`).
    """

    seconds: tuple[tuple[float, ...], ...] = (
        (19.58, 18.79, 13.78, 10.71),
        (19.38, 17.59, 12.38, 8.94),
        (16.44, 15.25, 12.32, 8.03),
    )
    """The mean, by state and rating (3, 4): what an answer is charged."""
    first_rating: tuple[float, ...] = (0.24, 0.094, 0.495, 0.171)
    """Shares of Again, Hard, Good, Easy at the first review of a card."""
    review_rating: tuple[float, ...] = (0.224, 0.631, 0.145)
    """Shares of Hard, Good, Easy at reviews that are passed."""
    learning_steps: tuple[tuple[float, ...], ...] = (
        (0.3686, 0.0628, 0.5108, 0.0577),
        (0.0442, 0.4553, 0.4457, 0.0549),
        (0.0519, 0.0470, 0.8462, 0.0550),
    )
    """Shares of the four ratings in a step that follows Again, Hard, Good (3, 4)."""
    relearning_steps: tuple[tuple[float, ...], ...] = (
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
    order: Order = "due"
    balanced: bool = True
    """Intervals are drawn from Anki's fuzz range, rather on days with few reviews due."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """What happened on each day (days,)."""

    reviews: IntArray  # of cards learned on an earlier day
    recalled: IntArray  # reviews that were passed
    new: IntArray  # cards learned
    seconds: FloatArray
    known: float  # cards that would be recalled at the end, by the memory


ORDERS = get_args(Order)


def simulate(
    scheduler: Memory,
    deck: Deck,
    costs: Costs,
    settings: Settings,
    seed: int,
    memory: Memory | None = None,
) -> Simulated:
    """One course of events. The same seed gives the same; threads may run several at once."""
    from srs_eval.advice.workload import kernel, loops
    from srs_eval.training.compile import packed, schema
    from srs_eval.training.elementwise import LANES

    def made(record: Any, size: int) -> Any:
        return record(*(np.zeros(size, dtype) for _, _, dtype in schema(record)))

    answering = memory or scheduler
    question = _question(scheduler, answering, deck, costs, settings)
    room = -(-(question.learned + question.new) // LANES) * LANES + LANES
    state = _with_room(deck.state if memory is None else deck.memory_state, room)
    cards = kernel.Cards(
        room=room,
        state=state,
        scheduler_state=state if memory is None else _with_room(deck.state, room),
        difficulty=(scheduler.states - 1) * room,
        last=_with_room(deck.last_day, room),
        due=_with_room(deck.due_day, room),
    )
    horizon = settings.days + settings.days // 2  # as far as the balance of days looks
    queue = kernel.Queue(
        head=np.full(settings.days, -1, np.int32),
        following=np.empty(room, np.int32),
        due=np.zeros(horizon, np.int32),
        horizon=horizon,
        crowding=_crowding(room + 1),
        of_interval=_of_interval(horizon + LANES),
        crowd=np.zeros(horizon + LANES),
        weights=np.empty(horizon + 2 * LANES),
        low=np.empty(horizon, np.int32),
        high=np.empty(horizon, np.int32),
    )
    day = made(kernel.Day, room + LANES)
    work = loops.work_for(max(answering.states, scheduler.states), room + LANES)
    happened = made(kernel.Happened, settings.days)
    tables = [packed(table) for table in (question, cards, queue, day, work, happened)]
    random = np.array([seed], np.uint64)
    _kernel(scheduler.model, None if memory is None else memory.model)(*tables, random)
    return Simulated(
        reviews=happened.reviews,
        recalled=happened.recalled,
        new=happened.new,
        seconds=happened.seconds,
        known=float(happened.known[0]),
    )


def _question(
    scheduler: Memory, answering: Memory, deck: Deck, costs: Costs, settings: Settings
) -> Any:
    """What does not change while days go by, as `kernel.Question` has it."""
    from srs_eval.advice.workload import kernel

    steps = np.cumsum((costs.learning_steps, costs.relearning_steps), axis=2)
    return kernel.Question(
        days=settings.days,
        retention=settings.desired_retention,
        new_a_day=settings.new_a_day,
        reviews_a_day=settings.reviews_a_day,
        new_ignore_review_limit=int(settings.new_ignore_review_limit),
        maximum_interval=float(settings.maximum_interval),
        learning_steps=settings.learning_steps,
        relearning_steps=settings.relearning_steps,
        order=ORDERS.index(settings.order),
        balanced=int(settings.balanced),
        learned=len(deck),
        new=min(deck.new, settings.new_a_day * settings.days),
        parameters=answering.values,
        scheduler_parameters=scheduler.values,
        seconds=np.array(costs.seconds, np.float64).ravel(),
        first_rating=np.cumsum(costs.first_rating),
        review_rating=np.cumsum(costs.review_rating),
        step_rating=steps.ravel(),
    )


def _with_room(values: Any, room: int) -> FloatArray:
    """A copy with `room` places in its last dimension, filled up with 1."""
    made = np.ones((*np.shape(values)[:-1], room))
    made[..., : np.shape(values)[-1]] = values
    return made


@lru_cache(8)
def _crowding(count: int) -> FloatArray:
    """The weight of a day on which 0, 1 ... cards are due already; see `kernel`."""
    with np.errstate(divide="ignore"):
        return np.arange(float(count)) ** -2.15


@lru_cache(8)
def _of_interval(count: int) -> FloatArray:
    """The weight of an interval of 0, 1 ... days."""
    return np.maximum(np.arange(float(count)), 1.0) ** -3.0


@cache
def _kernel(scheduler: str, memory: str | None) -> Any:
    """The compiled kernel; `memory` None: the scheduler's own."""
    from srs_eval.advice.workload import kernel
    from srs_eval.training.compile import specialised

    own, answering = loops_of(scheduler), loops_of(memory or scheduler)
    loops = {f"_{loop}": answering[loop] for loop in ("begin", "review", "step", "recall")}
    loops |= {
        f"_scheduler_{loop}": own[loop]
        for loop in ("begin", "review", "step", "factor", "intervals")
    }
    constants = {"_SEPARATE": int(memory is not None)}
    name = f"{scheduler}_by_{memory or 'itself'}".replace("-", "_")
    return specialised(kernel.play, name, {}, constants, kernels=loops)
