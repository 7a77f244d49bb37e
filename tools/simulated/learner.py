"""A simulated learner: the whole collection after the last day, as columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import (
    Cards,
    DayGrid,
    Deck,
    Entries,
    FloatArray,
    ImportSummary,
    IntArray,
    Preset,
    ReviewLog,
)
from tools.simulated.character import DAY_S, FIRST_DAY_S, Character, draw_character
from tools.simulated.memory import Fsrs6
from tools.simulated.studying import ENTRY_COLUMNS, IN_REVIEW, Simulation

_BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CardStates:
    """The final state of every card (shape (n,), sorted by card id).

    Deleted cards are included, with `deleted` set.
    """

    card_id: IntArray
    note_id: IntArray
    ordinal: IntArray  # 0, or 1 for the second card of a note
    deck_id: IntArray
    phase: IntArray  # 0 new, 1 learning, 2 review, 3 relearning
    step: IntArray  # learning steps done
    due_day: IntArray  # days since the first day
    due_s: IntArray  # Unix time, for cards in learning
    interval: IntArray  # days
    ease: IntArray  # SM-2 ease x 1000
    stability: FloatArray  # the scheduler's estimate, days; NaN for new cards and under SM-2
    difficulty: FloatArray
    reps: IntArray
    lapses: IntArray
    last_review_s: IntArray  # 0: never
    suspended: _BoolArray
    filtered: _BoolArray  # in the filtered deck
    deleted: _BoolArray
    leech: _BoolArray  # whether the card is forgotten far more often than others

    def __len__(self) -> int:
        return len(self.card_id)


@dataclass(frozen=True, eq=False)
class SimulatedLearner:
    """A simulated learner's whole collection as plain columns."""

    seed: int
    entries: Entries
    interval: IntArray  # of each entry: new interval, > 0 days, < 0 seconds
    last_interval: IntArray  # of each entry: interval before
    cards: CardStates
    decks: Mapping[int, Deck]
    presets: Mapping[int, Preset]
    scheduler: Literal["fsrs", "sm2"]
    memory: Mapping[int, tuple[float, ...]]
    """The memory's true FSRS-6 parameters by preset, which a perfect fit would find; empty for
    another kind of memory."""
    recall: FloatArray
    """True probability of recall of each entry; NaN where there is none (first reviews)."""
    days: int  # from the first day to the last, inclusive
    day_shifts: FloatArray  # (days,) shift of the logit of recall; 0 on days without reviews

    def average_recall_over_days(self, sd: float) -> FloatArray:
        """Return each entry's true probability of recall on a day like any other.

        The shift of the entry's own day is taken away, and the probability is averaged over the
        distribution of shifts, whose standard deviation is `sd`. NaN for first reviews. The learner
        must not slip, because slips are not part of the shifted logit.
        """
        day = (self.entries.time_ms // 1000 - FIRST_DAY_S) // DAY_S
        logit = np.log(self.recall / (1 - self.recall)) - self.day_shifts[day]
        return average_over_shifts(logit, sd)

    def log(self) -> ReviewLog:
        """Return the history as an importer would deliver it."""
        present = ~self.cards.deleted
        next_day = FIRST_DAY_S + self.days * DAY_S
        return ReviewLog(
            import_summary=ImportSummary(
                path=f"simulated learner {self.seed}",
                format="simulated learner",
                entries_read=len(self.entries),
                fsrs_enabled=self.scheduler == "fsrs",
            ),
            entries=replace(self.entries, interval=self.last_interval),
            cards=Cards(
                self.cards.card_id[present],
                self.cards.note_id[present],
                self.cards.deck_id[present],
                self.cards.suspended[present],
            ),
            decks=self.decks,
            presets=self.presets,
            day_grid=DayGrid(next_day, "simulated: rollover 4:00, UTC+1"),
        )


def average_over_shifts(logit: FloatArray, sd: float) -> FloatArray:
    """Average the probability of recall over normally distributed shifts of its logit (n,)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)
    p = 1 / (1 + np.exp(-(logit[:, None] + sd * nodes)))
    result: FloatArray = p @ (weights / weights.sum())
    return result


def simulate_learner(
    seed: int,
    reviews: int = 20_000,
    *,
    scheduler: Literal["fsrs", "sm2"] = "fsrs",
    buttons: Literal[2, 4] = 4,
    forgets: bool = True,
    new_per_day: int | None = None,
    incidents: bool = True,
    character: Character | None = None,
) -> SimulatedLearner:
    """Simulate a history with exactly `reviews` answers; the same arguments give the same one.

    `buttons=2` never presses Hard or Easy; `forgets=False` never fails; `new_per_day` sets how
    dense the history is (by default, 20,000 answers take about a year). `incidents` adds events
    of real collections: filtered decks, resets, due dates set by hand, deleted cards.
    `character` is the learner to simulate instead of one drawn from the seed with `scheduler`,
    `buttons` and `forgets`. Raises ValueError for fewer than one review.
    """
    if reviews < 1:
        raise ValueError("a learner has at least one review")
    random = np.random.default_rng(seed)
    if character is None:
        character = draw_character(random, scheduler, buttons, forgets)
    sim = Simulation(random, reviews, character)
    pace = new_per_day or character.habits.new_per_day or max(3, round(math.sqrt(reviews) / 20))
    study_days(sim, pace, reviews=reviews, plan=_plan_incidents(reviews) if incidents else [])
    return collect_learner(sim, seed)


Incident = tuple[float, Callable[[Simulation], None]]
"""An incident with the number of answers after which it happens."""


def study_days(
    sim: Simulation,
    new_per_day: int,
    *,
    reviews: float = math.inf,
    days: float = math.inf,
    plan: Sequence[Incident] = (),
) -> None:
    """Go on studying until there are so many answers in all, or for so many days."""
    random = sim.random
    habits = sim.habits
    to_come = list(plan)
    last_day = sim.day + days
    pause = 0
    while sim.answered < reviews and sim.day < last_day:
        sim.day += 1
        pause -= 1
        if pause > 0 or (random.random() < habits.skip and sim.day > 1):
            continue
        if random.random() < habits.long_pause:
            pause = int(random.integers(4, habits.pause_days + 1))
        sim.begin_day()
        while to_come and sim.answered >= to_come[0][0]:
            to_come.pop(0)[1](sim)
        sim.study(new_per_day if random.random() < habits.new_share else 0)


def collect_learner(
    sim: Simulation, seed: int, *, unseen: int | None = None, set_aside: bool = True
) -> SimulatedLearner:
    """Add unseen cards and return everything as columns; the simulation cannot go on after this.

    There is one unseen card for 15 others, or `unseen` of them. `set_aside` suspends some cards and
    puts some into the filtered deck.
    """
    days = sim.day + 1
    memory: Mapping[int, tuple[float, ...]] = {}
    if isinstance(sim.memory, Fsrs6):
        columns = sim.memory.w.T.tolist()
        memory = {preset: tuple(w) for preset, w in zip(sim.presets, columns, strict=True)}
    sim.add_cards(sim.n // 15 if unseen is None else unseen, new_notes=True)
    for note, ordinal in sim.waiting:
        owner = int(np.flatnonzero(sim.integer["note_id"][: sim.n] == note)[0])
        sim.add_card(note, ordinal, int(sim.integer["deck_id"][owner]))
    if days > 1 and set_aside:
        sim.filtered[sim.draw_share(0.02, IN_REVIEW)] = True
        sim.suspended[sim.draw_share(0.01, IN_REVIEW)] = True

    order = np.argsort(sim.integer["card_id"][: sim.n])
    integer = {name: column[order] for name, column in sim.integer.items()}
    number = {name: column[order] for name, column in sim.number.items()}
    suspended, filtered, deleted, leech = (
        column[order] for column in (sim.suspended, sim.filtered, sim.deleted, sim.is_leech)
    )
    column = {}
    for name in ENTRY_COLUMNS:
        column[name] = np.concatenate([row[name] for row in sim.entries])
    whole_numbers = {
        name: np.round(values).astype(np.int64)
        for name, values in column.items()
        if name != "recall"
    }
    return SimulatedLearner(
        seed=seed,
        entries=Entries(
            time_ms=whole_numbers["time_ms"],
            card_id=sim.integer["card_id"][whole_numbers["card"]],
            rating=whole_numbers["rating"],
            kind=whole_numbers["kind"],
            factor=whole_numbers["factor"],
            duration_ms=whole_numbers["duration_ms"],
        ),
        interval=whole_numbers["interval"],
        last_interval=whole_numbers["last_interval"],
        cards=CardStates(
            card_id=integer["card_id"],
            note_id=integer["note_id"],
            ordinal=integer["ordinal"],
            deck_id=integer["deck_id"],
            phase=integer["phase"],
            step=integer["step"],
            due_day=integer["due_day"],
            due_s=integer["due_s"],
            interval=integer["interval"],
            ease=integer["ease"],
            stability=number["sched_stability"],
            difficulty=number["sched_difficulty"],
            reps=integer["reps"],
            lapses=integer["lapses"],
            last_review_s=integer["last_s"],
            suspended=suspended,
            filtered=filtered & ~suspended & ~deleted,
            deleted=deleted,
            leech=leech,
        ),
        decks=sim.decks,
        presets=sim.presets,
        scheduler=sim.scheduler,
        memory=memory,
        recall=column["recall"],
        days=days,
        day_shifts=np.array([sim.form_of_day.get(day, 0.0) for day in range(days)]),
    )


def _plan_incidents(reviews: int) -> list[Incident]:
    """List incidents in order, each with the number of answers after which it happens."""
    return [
        (0.30 * reviews, lambda sim: sim.set_by_hand(sim.draw_share(0.01, IN_REVIEW), None)),
        (0.45 * reviews, Simulation.preview),
        (0.50 * reviews, _postpone),
        (0.60 * reviews, Simulation.review_early),
        (0.70 * reviews, Simulation.delete),
        (0.80 * reviews, lambda sim: sim.set_by_hand(sim.draw_share(0.004, IN_REVIEW), None)),
    ]


def _postpone(sim: Simulation) -> None:
    cards = sim.draw_share(0.03, IN_REVIEW)
    sim.set_by_hand(cards, sim.random.integers(1, 15, len(cards)))
