"""Today's deck: what a learner remembers of each card now, and when it is due.

Where a card stands comes from Anki's table of cards (`reviews.Schedule`). What is remembered of
it is a model's state after the card's own history, step by step as the model is trained on
("history"), or what Anki stored with the card at its last review or optimization ("stored").
Where the one is lacking the other serves; where both are, the state is guessed from ease and
interval as Anki does when a learner comes from SM-2 (open-spaced-repetition/fsrs-rs:
src/inference.rs, `memory_state_from_sm2`).

With stored states the rest is Anki's reading too (ankitects/anki: rslib/src/scheduler/fsrs/
simulator.rs, `Card::convert`): a card was last reviewed an interval before it is due, and one
that is in its steps or buried was reviewed, and is due, today.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from srs_eval.errors import InputError
from srs_eval.reviews import NEW_CARD, REVIEW_CARD, FloatArray, IntArray, ReviewLog
from srs_eval.rows import select_rows
from srs_eval.workload.simulator import Deck, Memory

States = Literal["history", "stored"]

SUSPENDED, PREVIEWED = -1, 4  # Anki's queues
_LATER_STEP = 3
_AT_ONCE = 2_000_000  # values of a state; more would crowd out the processor's cache
_DAY_S = 86_400


@dataclass(frozen=True, eq=False)
class Histories:
    """The reviews of m cards, most reviews first: column k holds their reviews number k."""

    card: IntArray  # (m,) positions among a preset's cards
    first: IntArray  # (rounds + 1,) where each round begins in the flat columns
    rating: FloatArray  # 1-4
    days: FloatArray  # whole days since the review before
    fraction: FloatArray  # the same with fractions
    last_day: IntArray  # (m,) of the last review, relative to the first simulated day


@dataclass(frozen=True, eq=False)
class Today:
    """The n cards of a preset that are learned and not suspended, before any model."""

    card_id: IntArray  # (n,) sorted
    due_day: IntArray  # (n,) relative to the first simulated day
    interval: IntArray  # (n,) days
    ease: FloatArray  # (n,) 2.5 is SM-2's usual
    lapses: IntArray  # (n,)
    stored: FloatArray  # (2, n) stability and difficulty as Anki keeps them, or NaN
    waits: np.ndarray  # (n,) bool: in its steps
    histories: Histories
    new: int
    historical_retention: float

    def __len__(self) -> int:
        return len(self.card_id)

    @property
    def overdue(self) -> int:
        """Cards that should have been reviewed before the first simulated day."""
        return int((self.due_day < 0).sum())


def todays_cards(log: ReviewLog, preset: int, first_day: int = 0) -> Today:
    """The cards of a preset, by their home decks.

    `first_day` is the first simulated day; 0 is the day after the last review in the log. Raises
    InputError where the source does not say when cards are due, and where there are no cards.
    """
    schedule, grid = log.schedule, log.day_grid
    if schedule is None or grid is None or log.entries is None:
        raise InputError(
            f"{log.receipt.path} does not say when cards are due: give a collection or a package."
        )
    of_preset = log.preset_of(log.deck_of(schedule.card_id)) == preset
    active = of_preset & (schedule.queue != SUSPENDED)
    if not active.any():
        what = "are all suspended" if of_preset.any() else "are none"
        raise InputError(f"The cards of this preset {what}: there is no workload to tell of.")
    k = np.flatnonzero(active & (schedule.kind != NEW_CARD) & (schedule.queue != PREVIEWED))
    in_days = (schedule.kind == REVIEW_CARD) | (schedule.queue == _LATER_STEP)
    settings = log.presets.get(preset)
    retention = None if settings is None else settings.historical_retention
    return Today(
        card_id=schedule.card_id[k],
        due_day=schedule.due_day[k] - first_day,
        interval=schedule.interval[k],
        ease=np.where(schedule.ease[k] > 0, schedule.ease[k], 2500) / 1000,
        lapses=schedule.lapses[k],
        stored=np.stack((schedule.stability[k], schedule.difficulty[k])),
        waits=~in_days[k],
        histories=_histories(log, schedule.card_id[k], first_day),
        new=int((active & (schedule.kind == NEW_CARD)).sum()),
        historical_retention=retention or 0.9,
    )


def deck_of(today: Today, scheduler: Memory, states: States) -> Deck:
    """The deck that the simulation starts from."""
    return decks_of(today, [scheduler], states)[0]


def decks_of(today: Today, schedulers: Sequence[Memory], states: States) -> list[Deck]:
    """The same for several parameters of one model, in less time than one by one."""
    found = memory_states(today, schedulers, states)
    return [_deck(today, state, states) for state in found]


def _deck(today: Today, state: FloatArray, states: States) -> Deck:
    if states == "stored":
        last = np.minimum(today.due_day - today.interval, 0)
        return Deck(
            state=state,
            last_day=np.where(today.waits, 0, last),
            due_day=np.where(today.waits, 0, today.due_day),
            lapses=today.lapses,
            new=today.new,
        )
    last = np.minimum(today.due_day - today.interval, -1)
    last[today.histories.card] = np.minimum(today.histories.last_day, -1)
    return Deck(
        state=state,
        last_day=last,
        due_day=np.maximum(today.due_day, last + 1),
        lapses=today.lapses,
        new=today.new,
    )


def memory_states(
    today: Today, memories: Sequence[Memory], states: States = "history"
) -> FloatArray:
    """What each of some memories of one model makes of the cards (memories, states, n)."""
    model = memories[0].recurrent
    made = np.empty((len(memories), model.states, len(today)))
    at_once = max(1, _AT_ONCE // max(1, len(today)))
    for begin in range(0, len(memories), at_once):
        part = memories[begin : begin + at_once]
        w = [np.array(column)[:, None] for column in zip(*(m.values for m in part), strict=True)]
        made[begin : begin + at_once] = _without_history(today, part[0].model, w)
        known = ~np.isnan(today.stored[0]) if states == "stored" else np.zeros(len(today), np.bool_)
        _follow(today.histories, part[0], w, made[begin : begin + at_once], ~known)
    return made


def _without_history(today: Today, model: str, w: Sequence[FloatArray]) -> FloatArray:
    """Stored states, or else what ease and interval say (memories, states, n)."""
    interval = np.maximum(today.interval, 0.001)[None, :] * np.ones_like(w[0])
    if model == "FSRS-7":
        s, d = interval, np.full_like(interval, 5.0)
    else:
        decay = w[20] if model == "FSRS-6" else np.full_like(w[0], 0.5)
        desired = today.historical_retention
        s = interval * np.expm1(-math.log(0.9) / decay) / np.expm1(-math.log(desired) / decay)
        growth = np.exp(w[8]) * s ** -w[9] * np.expm1((1.0 - desired) * w[10])
        d = np.clip(11.0 - (today.ease[None, :] - 1.0) / growth, 1.0, 10.0)
    known = ~np.isnan(today.stored[0])
    s = np.where(known, today.stored[0], s)
    d = np.where(known, today.stored[1], d)
    found = (s, 0.8 * s, d) if model == "FSRS-7" else (s, d)
    return np.stack(found, axis=1)


def _follow(
    histories: Histories,
    memory: Memory,
    w: Sequence[FloatArray],
    states: FloatArray,
    wanted: np.ndarray,
) -> None:
    """Puts the states after the histories of the `wanted` cards (n,) into (memories, states, n)."""
    model = memory.recurrent
    if not len(histories.card):
        return
    elapsed = histories.fraction if model.same_day is None else histories.days
    state: list[FloatArray] = []
    with np.errstate(all="ignore"):
        for k, begin in enumerate(histories.first[:-1].tolist()):
            end = int(histories.first[k + 1])
            rating, t = histories.rating[begin:end], elapsed[begin:end]
            if k == 0:
                begun = model.first.forward(rating[None, :], w)
                shape = (len(w[0]), end - begin)
                state = [np.broadcast_to(value, shape).copy() for value in begun]
                continue
            passed, failed = np.flatnonzero(rating > 1), np.flatnonzero(rating == 1)
            steps = [(passed, model.success), (failed, model.failure)]
            if model.same_day is not None:
                later = t >= 1
                steps = [
                    (passed[later[passed]], model.success),
                    (failed[later[failed]], model.failure),
                    (np.flatnonzero(~later), model.same_day),
                ]
            for chosen, step in steps:
                if len(chosen):
                    before = tuple(value[:, chosen] for value in state)
                    after = step.forward(before, t[None, chosen], rating[None, chosen], w)
                    for value, new in zip(state, after, strict=True):
                        value[:, chosen] = new
    taken = np.flatnonzero(wanted[histories.card])
    for number, value in enumerate(state):
        states[:, number, histories.card[taken]] = value[:, taken]


def _histories(log: ReviewLog, card_id: IntArray, first_day: int) -> Histories:
    """From the reviews that Anki's optimizer would take, also of cards suspended since."""
    assert log.entries is not None
    assert log.day_grid is not None
    selection = select_rows(log, "anki", include_suspended=True)
    rows = selection.rows
    mine = np.flatnonzero(np.isin(rows.card_id, card_id))
    mine = mine[np.argsort(rows.card_id[mine], kind="stable")]
    cards, begin, count = np.unique(rows.card_id[mine], return_index=True, return_counts=True)
    order = np.argsort(-count, kind="stable")
    number = np.arange(len(mine)) - np.repeat(begin, count)
    rank = np.empty(len(cards), np.int64)
    rank[order] = np.arange(len(cards))
    by_round = mine[np.lexsort((np.repeat(rank, count), number))]
    last = mine[(begin + count - 1)[order]] if len(cards) else mine
    before_s = log.day_grid.next_day_at_s - log.entries.time_ms[selection.entry_index[last]] // 1000
    return Histories(
        card=np.searchsorted(card_id, cards[order]),
        first=np.concatenate(([0], np.cumsum(np.bincount(number)))).astype(np.int64),
        rating=rows.rating[by_round].astype(np.float64),
        days=np.maximum(rows.elapsed_days[by_round], 0).astype(np.float64),
        fraction=np.maximum(rows.elapsed_seconds[by_round], 0) / _DAY_S,
        last_day=-(before_s // _DAY_S) - 1 - first_day,
    )
