"""A preset's cards played forward, day by day.

    simulate(scheduler, deck, costs, settings, seed) -> Simulated

Semantics are those of fsrs-rs 6.6 (src/simulation.rs, `simulate`) and of Anki 26.08, which
calls it (rslib/src/scheduler/fsrs/simulator.rs); docs/workload.md tells them, and where we
differ. A day is a whole number, today is 0. A card is reviewed at most once a day; learning and
relearning steps cost time and change the memory, but are no reviews of their own.

The scheduler decides on the intervals, the memory on what is recalled. They are one unless
`memory` is given, which is then followed alongside by a state of its own.

# Models

Which models schedule or remember in the simulation, and which parameters a learner's may have.

The simulation asks the same few things of each: a state of so many numbers for a card, what it is
after a first answer and after a next one, how probable it is that the card is recalled, and which
interval follows (`loops`). FSRS answers by the code by which it is fitted and evaluated.

Parameters are not known but fitted; `draws` tells what else they could have been. Each draw is a
fit to days drawn with replacement, in blocks of seven review days, since days resemble
their neighbours (circular block bootstrap: Politis and Romano 1992). A review that is drawn twice
counts twice, also in the fit of the initial stabilities.

A fit is pulled towards the default parameters, as towards a prior. Were that the same in every
draw, few reviews would leave little doubt: draws would agree where the penalty decides, not the
learner. So each is pulled towards parameters drawn from that prior (randomize then optimize:
Bardsley et al. 2014, SIAM Journal on Scientific Computing 36).
"""

from __future__ import annotations

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
    """Interval and ease after a review that was passed (ankitects/anki:
    rslib/src/scheduler/states/review.rs).

    Where t is within what Anki fuzzes, it is the interval that was planned; what is beyond it is
    late, and counts half for Good. (`anki_sm2` has the formulas of Good and Easy swapped, as they
    were published.)
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
    "FSRS-6": fsrs6.recurrent(0.001),
    "FSRS-7": fsrs7.recurrent(secs=True),
    SM2: replace(anki_sm2.RECURRENT, success=_sm2_success, same_day=_unchanged),
}
"""A state is (s, d), of FSRS-7 (s, q, d), of SM-2 (interval, ease): as a scheduler it gives its own
intervals where 0.9 is desired. But for FSRS-7, forgetting curves depend on t / s alone, so that
intervals are a multiple of s."""
FITTED: Mapping[str, Trainable] = {"FSRS-6": fsrs6.TRAINABLE, "FSRS-7": fsrs7.TRAINABLE}
"""Those that can be fitted to a learner; FSRS-7 to trials with fractional intervals."""

_ATTEMPTS = 20  # to draw days that can be fitted to


@dataclass(frozen=True)
class Memory:
    """A model with its parameters."""

    model: str  # of MODELS
    parameters: tuple[float, ...]

    @property
    def values(self) -> FloatArray:
        """The parameters followed by the model's constants."""
        return np.array([*self.parameters, *self.recurrent.constants], np.float64)

    @property
    def recurrent(self) -> RecurrentModel:
        return MODELS[self.model]

    @property
    def states(self) -> int:
        """Numbers in a card's state."""
        return self.recurrent.states


@cache
def loops_of(model: str) -> Mapping[str, Any]:
    """The model's compiled loops by the names that `loops` and `kernel` call them by."""
    from srs_eval.advice.workload import loops
    from srs_eval.training.compile import specialised

    each = MODELS[model]
    steps: dict[str, Any] = {
        "_first": each.first,
        "_success": each.success,
        "_failure": each.failure,
    }
    steps |= {"_curve": each.recall} | ({"_same_day": each.same_day} if each.same_day else {})
    constants = {
        "_STATES": each.states,
        "_VALUES": len(each.default) + len(each.constants),
        "_HAS_SAME_DAY": int(each.same_day is not None),
        "_SCALES": int(model != "FSRS-7"),
    }
    found: dict[str, Any] = {}
    templates: Mapping[str, Any] = loops.LOOPS
    for name, template in templates.items():
        called = {f"_{loop}": kernel for loop, kernel in found.items()}
        called = {key: called[key] for key in called if key in template.__code__.co_names}
        word = model.replace("-", "_")
        found[name] = specialised(template, word, steps, constants, kernels=called)
    return found


# What parameters the reviews allow


def fitted(
    trials: Trials, index: IntArray, context: Context | None = None, model: str = "FSRS-6"
) -> Memory:
    """A model fitted to the trials at the positions `index`. Raises NotEnoughData."""
    parameters = FITTED[model].fit(trials, index, np.ones(len(index)), context or Context())
    return Memory(model, tuple(parameters))


def draws(
    trials: Trials,
    index: IntArray,
    count: int,
    seed: int,
    context: Context | None = None,
    model: str = "FSRS-6",
) -> Iterator[Memory]:
    """`count` draws of the fit to the trials at the positions `index`, in review order.

    The same seed gives the same draws. Raises NotEnoughData where no drawn days can be fitted to.
    """
    random = np.random.default_rng(seed)
    for _ in range(count):
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                yield _drawn(random, trials, index, context or Context(), model)
                break
            except NotEnoughData:
                if attempt == _ATTEMPTS:
                    raise


def _drawn(
    random: np.random.Generator, trials: Trials, index: IntArray, context: Context, name: str
) -> Memory:
    reviews = _drawn_reviews(random, trials, index)
    weights = np.ones(len(reviews))
    model, start = FITTED[name].model(trials, context), FITTED[name].start
    assert model.deviation is not None
    # gamma ((w - default) / deviation)^2 is a normal prior's with this standard deviation; S0,
    # whose pull is towards their own fit or nil, are as uncertain as the drawn reviews make them.
    deviation = np.array(model.deviation) / np.sqrt(2.0 * trials.protocol.gamma)
    deviation[:4] = 0.0
    centre = np.array(start(trials, reviews, weights, context) if start else model.default)
    centre += deviation * random.standard_normal(len(centre))
    centre = np.clip(centre, model.lower, model.upper)
    trainable = replace(FITTED[name], start=lambda *_: centre.tolist())
    return Memory(name, tuple(trainable.fit(trials, reviews, weights, context)))


def _drawn_reviews(random: np.random.Generator, trials: Trials, index: IntArray) -> IntArray:
    """Positions of the reviews of drawn days, in review order; as many days as there are."""
    days, place = np.unique(trials.day[index], return_inverse=True)
    starts = random.integers(len(days), size=-(-len(days) // BLOCK_DAYS))
    drawn = (starts[:, None] + np.arange(BLOCK_DAYS)).ravel()[: len(days)] % len(days)
    return np.repeat(index, np.bincount(drawn, minlength=len(days))[place])


# One course of events

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
    return Simulated(**{**happened._asdict(), "known": float(happened.known[0])})


def _question(
    scheduler: Memory, answering: Memory, deck: Deck, costs: Costs, settings: Settings
) -> Any:
    """What does not change while days go by, as `kernel.Question` has it."""
    from srs_eval.advice.workload import kernel

    steps = np.cumsum((costs.learning_steps, costs.relearning_steps), axis=2)
    return kernel.Question(
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
