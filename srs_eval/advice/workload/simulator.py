"""Simulate a preset's cards day by day.

    simulate(scheduler, deck, costs, settings, seed) -> SimulationResult

Semantics are those of fsrs-rs 6.6 (src/simulation.rs, `simulate`) and of Anki 26.08, which
calls it (rslib/src/scheduler/fsrs/simulator.rs); docs/workload.md describes them and the
differences here. A day is a whole number, today is 0. A card is reviewed at most once a day;
learning and relearning steps cost time and change the memory, but do not count as reviews.

The scheduler decides on the intervals, the memory on recall. They are the same unless `memory` is
given; each card then has two states, one by the scheduler and one by the memory.

# Models

The models that schedule or remember in the simulation, and the parameters that a learner may have.

The simulation needs the same few things from each model: a card's state with a fixed number of
values, the state after a first and after a later answer, the probability of recall, and the next
interval (`loops`). FSRS uses the code by which it is fitted and evaluated.

Parameters are not known but fitted; `draw_memories` shows what else they could have been. Each draw
is a fit to days drawn with replacement, in blocks of seven review days, since days resemble
their neighbours (circular block bootstrap: Politis and Romano 1992). A review that is drawn twice
counts twice, also in the fit of the initial stabilities.

A fit is pulled towards the default parameters, as towards a prior. If each draw were pulled towards
the same ones, draws from few reviews would agree too much: wherever the penalty decides and not the
reviews. So each draw is pulled towards parameters drawn from that prior (randomize then optimize:
Bardsley et al. 2014, SIAM Journal on Scientific Computing 36).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal, get_args

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import anki_sm2, fsrs6, fsrs7
from srs_eval.stats.intervals import BLOCK_DAYS
from srs_eval.training.elementwise import maximum, where
from srs_eval.training.hyperparameters import Context
from srs_eval.training.recurrent import RecurrentModel, Trainable

# Models


def _unchanged(state: Any, t: Any, rating: Any, w: Any) -> Any:
    return state


def _sm2_success(state: Any, t: Any, rating: Any, w: Any) -> Any:
    """Return interval and ease after a passed review.

    The rules are Anki's (ankitects/anki: rslib/src/scheduler/states/review.rs); w is that of
    `anki_sm2`, which has the formulas of Good and Easy swapped, as they were published. A t within
    Anki's fuzz counts as planned; otherwise the days beyond the interval are late, and count half
    for Good.
    """
    interval = where(t <= 1.15 * state[0] + 1.0, t, state[0])
    ease, late = state[1], t - interval
    hard = maximum(interval * w[4] * w[6], interval + 1.0)
    good = maximum((interval + 0.5 * late) * ease * w[6], hard + 1.0)
    easy = maximum((interval + late) * ease * w[3] * w[6], good + 1.0)
    _, ease = anki_sm2.RECURRENT.success(state, t, rating, w)
    return where(rating == 2.0, hard, where(rating == 4.0, easy, good)), ease


SM2 = "SM-2"
MODELS: Mapping[str, RecurrentModel] = {
    "FSRS-6": fsrs6.make_recurrent(0.001, hard_shortens=False),  # as in Anki
    "FSRS-7": fsrs7.make_recurrent(secs=True),
    SM2: replace(anki_sm2.RECURRENT, success=_sm2_success, same_day=_unchanged),
}
"""Models of the simulation. A state is (s, d); for FSRS-7 (s, q, d) with two stabilities; for SM-2
(interval, ease). SM-2 as a scheduler gives its own intervals at a desired retention of 0.9. Except
for FSRS-7, forgetting curves depend only on t / s, so that intervals are a multiple of s."""
TRAINABLES: Mapping[str, Trainable] = {
    "FSRS-6": fsrs6.ANKI_TRAINABLE,
    "FSRS-7": fsrs7.TRAINABLE,
}
"""Models that can be fitted to a learner; FSRS-7 needs trials with fractional intervals."""

_MAX_ATTEMPTS = 20  # attempts to draw days that can be fitted


@dataclass(frozen=True)
class Memory:
    """Model with its parameters."""

    model: str  # of MODELS
    parameters: tuple[float, ...]

    @property
    def values(self) -> FloatArray:
        """Parameters followed by the model's constants."""
        return np.array([*self.parameters, *self.recurrent.constants], np.float64)

    @property
    def recurrent(self) -> RecurrentModel:
        return MODELS[self.model]

    @property
    def state_size(self) -> int:
        """Number of values in a card's state."""
        return self.recurrent.states


@cache
def compile_loops(model: str) -> Mapping[str, Any]:
    """Compile the model's loops; return them by their names in `loops.LOOPS`."""
    from srs_eval.advice.workload import loops
    from srs_eval.training.compile import specialise

    recurrent = MODELS[model]
    steps: dict[str, Any] = {
        "_first": recurrent.first,
        "_success": recurrent.success,
        "_failure": recurrent.failure,
        "_curve": recurrent.recall,
    }
    if recurrent.same_day:
        steps["_same_day"] = recurrent.same_day
    constants = {
        "_STATES": recurrent.states,
        "_VALUES": len(recurrent.default) + len(recurrent.constants),
        "_HAS_SAME_DAY": int(recurrent.same_day is not None),
        "_SCALES": int(model != "FSRS-7"),
    }
    compiled: dict[str, Any] = {}
    templates: Mapping[str, Any] = loops.LOOPS
    suffix = model.replace("-", "_")
    for name, template in templates.items():
        called = {}  # the loops compiled so far that this one calls
        for loop, kernel in compiled.items():
            if f"_{loop}" in template.__code__.co_names:
                called[f"_{loop}"] = kernel
        compiled[name] = specialise(template, suffix, steps, constants, kernels=called)
    return compiled


# Parameters that the reviews allow


def fit_memory(
    trials: Trials, index: IntArray, context: Context | None = None, model: str = "FSRS-6"
) -> Memory:
    """Fit a model to the trials at the positions `index`. Raises NotEnoughData."""
    parameters = TRAINABLES[model].fit(trials, index, np.ones(len(index)), context or Context())
    return Memory(model, tuple(parameters))


def draw_memories(
    trials: Trials,
    index: IntArray,
    count: int,
    seed: int,
    context: Context | None = None,
    model: str = "FSRS-6",
) -> Iterator[Memory]:
    """Yield `count` draws of the fit to the trials at the positions `index`, in review order.

    The same seed gives the same draws. Raises NotEnoughData if no drawn days can be fitted.
    """
    random = np.random.default_rng(seed)
    for _ in range(count):
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                yield _draw_memory(random, trials, index, context or Context(), model)
                break
            except NotEnoughData:
                if attempt == _MAX_ATTEMPTS:
                    raise


def _draw_memory(
    random: np.random.Generator, trials: Trials, index: IntArray, context: Context, name: str
) -> Memory:
    reviews = _draw_reviews(random, trials, index)
    weights = np.ones(len(reviews))
    trainable = TRAINABLES[name]
    model = trainable.model(trials, context)
    assert model.deviation is not None
    # The penalty gamma ((w - default) / deviation)^2 is that of a normal prior with the standard
    # deviation below. The four initial stabilities are not drawn from it: fits pull them to a
    # separate fit of their own or not at all, so that only the drawn reviews make them vary.
    standard_deviation = np.array(model.deviation) / np.sqrt(2.0 * trials.protocol.gamma)
    standard_deviation[:4] = 0.0
    centre = np.array(model.default)
    if trainable.start:
        centre = np.array(trainable.start(trials, reviews, weights, context))
    centre += standard_deviation * random.standard_normal(len(centre))
    centre = np.clip(centre, model.lower, model.upper)
    trainable = replace(trainable, start=lambda *_: centre.tolist())  # the penalty pulls to it
    return Memory(name, tuple(trainable.fit(trials, reviews, weights, context)))


def _draw_reviews(random: np.random.Generator, trials: Trials, index: IntArray) -> IntArray:
    """Draw as many days as there are, in blocks; return their reviews' positions in review order.

    A review is returned as often as its day was drawn.
    """
    days, day_index = np.unique(trials.day[index], return_inverse=True)
    block_count = math.ceil(len(days) / BLOCK_DAYS)
    starts = random.integers(len(days), size=block_count)
    drawn_days = (starts[:, None] + np.arange(BLOCK_DAYS)).ravel()[: len(days)] % len(days)
    times_drawn = np.bincount(drawn_days, minlength=len(days))
    return np.repeat(index, times_drawn[day_index])


# One simulation

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
"""Order of cards on a day with more reviews than its limit."""


@dataclass(frozen=True, eq=False)
class SimulatedDeck:
    """Today's cards that are not suspended: n learned ones, and the number of new ones.

    Days are relative to today (negative: past). `memory_state` is needed if a separate memory
    determines the answers.
    """

    state: FloatArray  # (states, n) after the last review, by the scheduler's model
    last_day: IntArray  # (n,) day of the last review
    due_day: IntArray  # (n,); overdue cards are reviewed today
    new: int = 0  # number of new cards
    memory_state: FloatArray | None = None  # (states of the memory, n)

    def __len__(self) -> int:
        return len(self.last_day)


@dataclass(frozen=True)
class Costs:
    """Answer times and button frequencies; the states are learning, review and relearning.

    The defaults are those of fsrs-rs, from many learners (src/simulation.rs, `SimulatorConfig`).
    """

    seconds: tuple[tuple[float, ...], ...] = (
        (19.58, 18.79, 13.78, 10.71),
        (19.38, 17.59, 12.38, 8.94),
        (16.44, 15.25, 12.32, 8.03),
    )
    """Mean seconds of an answer, by state and rating (3, 4)."""
    first_rating: tuple[float, ...] = (0.24, 0.094, 0.495, 0.171)
    """Shares of Again, Hard, Good, Easy at the first review of a card."""
    review_rating: tuple[float, ...] = (0.224, 0.631, 0.145)
    """Shares of Hard, Good, Easy among passed reviews."""
    learning_steps: tuple[tuple[float, ...], ...] = (
        (0.3686, 0.0628, 0.5108, 0.0577),
        (0.0442, 0.4553, 0.4457, 0.0549),
        (0.0519, 0.0470, 0.8462, 0.0550),
    )
    """Shares of the four ratings in a learning step that follows Again, Hard, Good (3, 4)."""
    relearning_steps: tuple[tuple[float, ...], ...] = (
        (0.2157, 0.0643, 0.6595, 0.0604),
        (0.0500, 0.4638, 0.4475, 0.0387),
        (0.1057, 0.1434, 0.7266, 0.0244),
    )
    """The same in a relearning step; the lapse counts as Again."""


@dataclass(frozen=True)
class SimulationSettings:
    """Settings of a simulation: number of days, desired retention, limits and order."""

    desired_retention: float = 0.9
    days: int = 365
    new_a_day: int = 20
    reviews_a_day: int = 9999
    new_ignore_review_limit: bool = True
    maximum_interval: int = 36_500  # days
    learning_steps: int = 2  # their number
    relearning_steps: int = 1
    order: Order = "due"
    balanced: bool = True
    """Intervals are drawn from Anki's fuzz range, preferably for days with few reviews due."""


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """Daily totals (days,) of a simulation."""

    reviews: IntArray  # of cards learned on an earlier day
    recalled: IntArray  # passed reviews
    new: IntArray  # new cards introduced
    waiting: IntArray  # due cards that wait for the next day, because of the limit of reviews
    seconds: FloatArray
    known: float  # cards that would be recalled at the end, by the memory


ORDERS = get_args(Order)


def simulate(
    scheduler: Memory,
    deck: SimulatedDeck,
    costs: Costs,
    settings: SimulationSettings,
    seed: int,
    memory: Memory | None = None,
) -> SimulationResult:
    """Run one simulation. The same seed gives the same result; threads may run several at once."""
    from srs_eval.advice.workload import kernel, loops
    from srs_eval.training.elementwise import LANES
    from srs_eval.training.packing import field_schema, pack

    def make_zeros(record: Any, size: int) -> Any:
        return record(*(np.zeros(size, dtype) for _, _, dtype in field_schema(record)))

    answering = memory or scheduler
    inputs = _make_kernel_inputs(scheduler, answering, deck, costs, settings)
    # The loops read and write LANES cards at once, also beyond the last one.
    room = math.ceil((inputs.learned + inputs.new) / LANES) * LANES + LANES
    state = _pad(deck.state if memory is None else deck.memory_state, room)
    cards = kernel.CardTable(
        room=room,
        state=state,
        scheduler_state=state if memory is None else _pad(deck.state, room),
        difficulty=(scheduler.state_size - 1) * room,
        last=_pad(deck.last_day, room),
        due=_pad(deck.due_day, room),
    )
    horizon = settings.days + settings.days // 2  # days whose due cards are counted for balancing
    queue = kernel.Queue(
        head=np.full(settings.days, -1, np.int32),
        following=np.empty(room, np.int32),
        due=np.zeros(horizon, np.int32),
        horizon=horizon,
        crowding=_crowding_weights(room + 1),
        interval_weight=_interval_weights(horizon + LANES),
        crowd=np.zeros(horizon + LANES),
        weights=np.empty(horizon + 2 * LANES),
        low=np.empty(horizon, np.int32),
        high=np.empty(horizon, np.int32),
    )
    day = make_zeros(kernel.DayBuffers, room + LANES)
    work = loops.make_workspace(max(answering.state_size, scheduler.state_size), room + LANES)
    totals = make_zeros(kernel.DailyTotals, settings.days)
    tables = [pack(table) for table in (inputs, cards, queue, day, work, totals)]
    random = np.array([seed], np.uint64)
    simulate_days = _compile_kernel(scheduler.model, None if memory is None else memory.model)
    simulate_days(*tables, random)
    return SimulationResult(
        reviews=totals.reviews,
        recalled=totals.recalled,
        new=totals.new,
        waiting=totals.waiting,
        seconds=totals.seconds,
        known=float(totals.known[0]),
    )


def _make_kernel_inputs(
    scheduler: Memory,
    answering: Memory,
    deck: SimulatedDeck,
    costs: Costs,
    settings: SimulationSettings,
) -> Any:
    """Make the inputs that stay the same on all days, as `kernel.KernelInputs`."""
    from srs_eval.advice.workload import kernel

    steps = np.cumsum((costs.learning_steps, costs.relearning_steps), axis=2)
    return kernel.KernelInputs(
        **{**vars(settings), "order": ORDERS.index(settings.order)},
        learned=len(deck),
        new=min(deck.new, settings.new_a_day * settings.days),
        parameters=answering.values,
        scheduler_parameters=scheduler.values,
        seconds=np.array(costs.seconds, np.float64).ravel(),
        first_rating=np.cumsum(costs.first_rating),
        review_rating=np.cumsum(costs.review_rating),
        step_rating=steps.ravel(),
    )


def _pad(values: Any, room: int) -> FloatArray:
    """Return a copy with `room` elements in its last dimension, filled up with ones."""
    padded = np.ones((*np.shape(values)[:-1], room))
    padded[..., : np.shape(values)[-1]] = values
    return padded


@lru_cache(8)
def _crowding_weights(count: int) -> FloatArray:
    """Return the weights of days with 0 (inf), 1 ... cards due; see `kernel._balanced_interval`."""
    with np.errstate(divide="ignore"):
        return np.arange(float(count)) ** -2.15


@lru_cache(8)
def _interval_weights(count: int) -> FloatArray:
    """Return the weights of intervals of 0, 1 ... days."""
    return np.maximum(np.arange(float(count)), 1.0) ** -3.0


@cache
def _compile_kernel(scheduler: str, memory: str | None) -> Any:
    """Compile the kernel for a scheduler's model and, if it is separate, the memory's model."""
    from srs_eval.advice.workload import kernel
    from srs_eval.training.compile import specialise

    scheduler_loops = compile_loops(scheduler)
    memory_loops = compile_loops(memory or scheduler)
    loops = {}
    for loop in ("begin", "review", "step", "recall"):
        loops[f"_{loop}"] = memory_loops[loop]
    for loop in ("begin", "review", "step", "factor", "intervals"):
        loops[f"_scheduler_{loop}"] = scheduler_loops[loop]
    constants = {"_SEPARATE": int(memory is not None)}
    name = f"{scheduler}_by_{memory or 'itself'}".replace("-", "_")
    return specialise(kernel.simulate_days, name, {}, constants, kernels=loops)
