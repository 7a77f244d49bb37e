"""Collect the starting point of a simulation from a log: today's cards and the learner's habits.

Today's deck holds the learner's memory of each card now, and the day on which it is due.

The schedule of a card comes from Anki's table of cards (`reviews.Schedule`). Its memory state is a
model's state after the card's own history, step by step as in the model's training ("history"), or
the state that Anki stored with the card at its last review or optimization ("stored"). If one is
missing, the other is used; if both are missing, the state is guessed from ease and interval as Anki
does when a learner comes from SM-2 (open-spaced-repetition/fsrs-rs: src/inference.rs,
`memory_state_from_sm2`).

With stored states, the rest follows Anki too (ankitects/anki: rslib/src/scheduler/fsrs/
simulator.rs, `Card::convert`): a card was last reviewed an interval before it is due, and a card
that is in its steps or buried was reviewed, and is due, today.

Answer times and button frequencies are estimated as Anki does for its simulator
(open-spaced-repetition/fsrs-rs 6.6: src/simulation.rs, `extract_simulator_config` with smoothing),
so that the figures are comparable:

- An answer counts if it took more than 0 and less than 20 minutes.
- Seconds: the mean, in whole milliseconds, by state (learning, review, relearning) and rating.
- Shares of ratings come from the first answer to a card on a day, in learning or as a review; for
  reviews they are the shares of Hard, Good and Easy among those passed.
- Shares of ratings in steps come from how often a rating follows another on the same day, if the
  day began in learning or with a failed review; one is added to each count.
- All of these are shrunk towards the defaults from many learners, with weight 50 / (n + 50) for n
  observed answers.

Anki's rounding differs: it computes these figures in float32, and they are float64 here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from srs_eval.advice.candidates import Learner
from srs_eval.advice.over_time import month_names
from srs_eval.advice.workload.simulator import (
    SM2,
    Costs,
    Memory,
    Order,
    SimulatedDeck,
    SimulationSettings,
    compile_loops,
)
from srs_eval.data import reviews as data
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import LEARNING, REVIEW, Entries, FloatArray, IntArray, Preset, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.models import fsrs7
from srs_eval.models._fsrs import S_MAX
from srs_eval.training.packing import Int32Array

States = Literal["history", "stored"]

# Anki's numbers of queues
_SUSPENDED = -1
_LATER_STEP = 3  # a step that is due on a later day
_PREVIEWED = 4
_DAY_S = 86_400
_PACE_DAYS = 90  # over which the learner's own pace is measured
_MAX_ANSWER_MS = 1_200_000  # limit of an answer that counts
MIN_MONTH_REVIEWS = 50  # reviews from which a month's retention counts as observed
_HALVINGS = 50  # steps of a bisection
_DEFAULTS_WEIGHT = 50.0  # number of answers that the defaults count as

# Anki's numbers of orders (proto/anki/deck_config.proto, ReviewCardOrder), as its simulator reads
# them; numbers missing here count as "difficulty, easiest first".
_ORDERS: dict[int, Order] = {
    0: "due",
    1: "due",
    2: "due",
    3: "interval, shortest first",
    4: "interval, longest first",
    5: "difficulty, hardest first",
    6: "difficulty, easiest first",
    7: "retrievability, lowest first",
    8: "random",
    11: "retrievability, highest first",
}


@dataclass(frozen=True, eq=False)
class _HistoryColumns:
    """Columns of `loops.HistoryTable` that are the same for all models with the same `t`."""

    same_day: IntArray
    card: Int32Array
    t: FloatArray
    rating: FloatArray


@dataclass(frozen=True, eq=False)
class CardHistories:
    """Reviews of m cards, those with most reviews first, stored round by round.

    Round k holds the review number k of each card that has one.
    """

    card: IntArray  # (m,) positions among the preset's cards
    round_start: IntArray  # (rounds + 1,) start of each round in the flat columns
    rating: FloatArray  # 1-4
    days: FloatArray  # whole days since the previous review
    fraction: FloatArray  # days since the previous review, with fractions
    last_day: IntArray  # (m,) day of the last review, relative to the first simulated day

    @cached_property
    def by_days(self) -> _HistoryColumns:
        """Columns for models with a formula for steps, reviews on the day of the previous one."""
        is_step = self.days < 1.0
        is_step[: self.round_start[1]] = False  # a first review is none
        return self._make_columns(self.days, is_step)

    @cached_property
    def by_fraction(self) -> _HistoryColumns:
        """Columns for models without a formula for steps."""
        return self._make_columns(self.fraction, np.zeros(len(self.fraction), np.bool_))

    def _make_columns(self, t: FloatArray, is_step: np.ndarray) -> _HistoryColumns:
        """Sort the reviews round by round, in each round the steps last."""
        from srs_eval.training.elementwise import LANES

        round_start = self.round_start
        round_number = np.repeat(np.arange(len(round_start) - 1), np.diff(round_start))
        order = np.lexsort((is_step, round_number))
        order = np.concatenate((order, np.zeros(LANES, np.int64)))
        steps_in_round = np.bincount(round_number, is_step).astype(np.int64)
        return _HistoryColumns(
            same_day=round_start[1:] - steps_in_round,
            card=(order - round_start[round_number[order]]).astype(np.int32),
            t=t[order],
            rating=self.rating[order],
        )


@dataclass(frozen=True, eq=False)
class TodaysCards:
    """Learned cards (n) of a preset that are not suspended, without any model's states."""

    card_id: IntArray  # (n,) sorted
    due_day: IntArray  # (n,) relative to the first simulated day
    interval: IntArray  # (n,) days
    ease: FloatArray  # (n,) SM-2's usual ease is 2.5
    stored: FloatArray  # (2, n) stability and difficulty stored by Anki, or NaN
    stored_fsrs7: FloatArray  # (2, n) FSRS-7's own stabilities, slow and fast, or NaN
    in_steps: np.ndarray  # (n,) bool: in learning or relearning steps
    histories: CardHistories
    new: int  # number of new cards
    historical_retention: float  # Anki's setting: recall before the learner used FSRS

    def __len__(self) -> int:
        return len(self.card_id)


def collect_todays_cards(log: ReviewLog, preset: int, first_day: int = 0) -> TodaysCards:
    """Collect the cards of a preset, by their home decks.

    `first_day` is the first simulated day; 0 is the day after the last review in the log. Raises
    InputError if the source does not say when cards are due, and if there are no cards.
    """
    schedule = log.schedule
    if schedule is None or log.day_grid is None or log.entries is None:
        raise InputError(
            f"{log.import_summary.path} does not say when cards are due: give a collection or "
            "a package."
        )
    in_preset = log.preset_of(log.deck_of(schedule.card_id)) == preset
    is_active = in_preset & (schedule.queue != _SUSPENDED)
    if not is_active.any():
        problem = "This preset has no cards"
        if in_preset.any():
            problem = "The cards of this preset are all suspended"
        raise InputError(f"{problem}, so there is no workload to estimate.")
    is_new = schedule.kind == data.NEW_CARD
    learned = np.flatnonzero(is_active & ~is_new & (schedule.queue != _PREVIEWED))
    waits_for_day = (schedule.kind == data.REVIEW_CARD) | (schedule.queue == _LATER_STEP)
    fsrs7_stabilities = []
    for stability in (schedule.internal_stability, schedule.fast_stability):
        if stability is None:
            fsrs7_stabilities.append(np.full(len(learned), np.nan))
        else:
            fsrs7_stabilities.append(stability[learned])
    settings = log.presets.get(preset)
    historical_retention = None if settings is None else settings.historical_retention
    return TodaysCards(
        card_id=schedule.card_id[learned],
        due_day=schedule.due_day[learned] - first_day,
        interval=schedule.interval[learned],
        ease=np.where(schedule.ease[learned] > 0, schedule.ease[learned], 2500) / 1000,
        stored=np.stack((schedule.stability[learned], schedule.difficulty[learned])),
        stored_fsrs7=np.stack(fsrs7_stabilities),
        in_steps=~waits_for_day[learned],
        histories=_collect_histories(log, schedule.card_id[learned], first_day),
        new=int((is_active & is_new).sum()),
        historical_retention=historical_retention or 0.9,
    )


def make_deck(today: TodaysCards, scheduler: Memory, states: States) -> SimulatedDeck:
    """Make the deck with which the simulation starts.

    With states by "history", the last review of a card is that of its history; a card without one
    was reviewed an interval before it is due. That is before the first day in any case, and a card
    is due after its last review.
    """
    if states == "stored":
        last = np.where(today.in_steps, 0, np.minimum(today.due_day - today.interval, 0))
        due = np.where(today.in_steps, 0, today.due_day)
    else:
        last = np.minimum(today.due_day - today.interval, -1)
        last[today.histories.card] = np.minimum(today.histories.last_day, -1)
        due = np.maximum(today.due_day, last + 1)
    return SimulatedDeck(compute_memory_state(today, scheduler, states), last, due, today.new)


def compute_memory_state(
    today: TodaysCards, memory: Memory, states: States = "history"
) -> FloatArray:
    """Compute the states (states, n) of the cards by a memory's model and parameters."""
    if memory.model == SM2:
        return np.stack((np.maximum(today.interval, 1.0), today.ease))
    state = _states_without_history(today, memory)
    needs_history = np.ones(len(today), np.bool_)
    if states == "stored":
        needs_history = np.isnan(today.stored[0])
    histories = today.histories
    selected = np.flatnonzero(needs_history[histories.card])
    after_history = _states_after_histories(histories, memory)
    state[:, histories.card[selected]] = after_history[:, selected]
    return state


def _states_without_history(today: TodaysCards, memory: Memory) -> FloatArray:
    """Return the stored states, or states guessed from ease and interval (states, n)."""
    w = memory.parameters
    interval = np.maximum(today.interval, 0.001)
    retention = today.historical_retention
    is_stored = ~np.isnan(today.stored[0])
    if memory.model == "FSRS-7":
        # After a stored stability recall is 0.9; after an interval, the historical retention.
        guess = np.stack((interval, np.full(len(today), 5.0)))
        t, d = np.where(is_stored, today.stored, guess)
        state = _fsrs7_states_at_recall(t, np.where(is_stored, 0.9, retention), d, w)
        has_fsrs7 = ~np.isnan(today.stored_fsrs7).any(axis=0) & is_stored
        state[:2, has_fsrs7] = today.stored_fsrs7[:, has_fsrs7]
        return state
    # fsrs-rs: recall after the interval is the historical retention, which gives s; d is such that
    # a review answered Good then multiplies s by the ease.
    decay = w[20]
    s = interval * (math.expm1(-math.log(0.9) / decay) / math.expm1(-math.log(retention) / decay))
    growth = math.exp(w[8]) * s ** -w[9] * math.expm1((1.0 - retention) * w[10])
    d = np.clip(11.0 - (today.ease - 1.0) / growth, 1.0, 10.0)
    return np.where(is_stored, today.stored, np.stack((s, d)))


def _fsrs7_states_at_recall(
    t: FloatArray, r: FloatArray, d: FloatArray, w: Sequence[float]
) -> FloatArray:
    """Return FSRS-7's states (3, n) with difficulty d for which R falls to r after t days (n,).

    They are found by bisection. FSRS-7's long-term stability (the short-term one is 0.8 times it)
    is not a time after which R is known: it differs from the stability that Anki stores, after
    which R is 0.9 (open-spaced-repetition/fsrs-rs pull request 459; its src/model_v7.rs has d = 5).
    """

    def state(log_s: FloatArray) -> FloatArray:
        s = np.exp(log_s)
        return np.stack((s, np.maximum(0.8 * s, fsrs7.MIN_STABILITY), d))

    low = np.full(len(t), math.log(fsrs7.MIN_STABILITY))
    high = np.full(len(t), math.log(S_MAX))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_too_low = fsrs7.recall(t, tuple(state(middle)), w) < r
        low = np.where(is_too_low, middle, low)
        high = np.where(is_too_low, high, middle)
    return state(0.5 * (low + high))


def _states_after_histories(histories: CardHistories, memory: Memory) -> FloatArray:
    """Compute the states (states, m) after the m histories, in the order of `histories.card`."""
    from srs_eval.advice.workload.loops import HistoryTable, make_workspace
    from srs_eval.training.elementwise import LANES
    from srs_eval.training.packing import pack

    m = len(histories.card)
    room = m + LANES  # the loops process LANES cards at once, and may write beyond the last one
    states = np.ones((memory.state_size, room))
    if not m:
        return states[:, :m]
    has_steps = memory.recurrent.same_day is not None
    columns = histories.by_days if has_steps else histories.by_fraction
    table = HistoryTable(
        rounds=len(histories.round_start) - 1,
        begins=histories.round_start,
        same_day=columns.same_day,
        card=columns.card,
        t=columns.t,
        rating=columns.rating,
        room=room,
        states=states,
        parameters=memory.values,
    )
    work = make_workspace(memory.state_size, len(columns.card) + LANES)
    compile_loops(memory.model)["follow"](pack(table), pack(work))
    return states[:, :m]


def _collect_histories(log: ReviewLog, card_id: IntArray, first_day: int) -> CardHistories:
    """Collect histories from reviews that Anki's optimizer would use, also of suspended cards."""
    assert log.entries is not None
    assert log.day_grid is not None
    selection = select_rows(log, "anki", include_suspended=True)
    rows = selection.rows
    by_card = np.flatnonzero(np.isin(rows.card_id, card_id))
    by_card = by_card[np.argsort(rows.card_id[by_card], kind="stable")]
    cards, begin, count = np.unique(rows.card_id[by_card], return_index=True, return_counts=True)
    most_reviews_first = np.argsort(-count, kind="stable")
    round_number = np.arange(len(by_card)) - np.repeat(begin, count)
    rank = np.empty(len(cards), np.int64)  # of each card, 0 for the one with most reviews
    rank[most_reviews_first] = np.arange(len(cards))
    by_round = by_card[np.lexsort((np.repeat(rank, count), round_number))]
    last_reviews = by_card  # empty, unless there are cards
    if len(cards):
        last_reviews = by_card[(begin + count - 1)[most_reviews_first]]
    last_s = log.entries.time_ms[selection.entry_index[last_reviews]] // 1000
    seconds_ago = log.day_grid.next_day_at_s - last_s
    reviews_in_round = np.bincount(round_number)
    return CardHistories(
        card=np.searchsorted(card_id, cards[most_reviews_first]),
        round_start=np.concatenate(([0], np.cumsum(reviews_in_round))).astype(np.int64),
        rating=rows.rating[by_round].astype(np.float64),
        days=np.maximum(rows.elapsed_days[by_round], 0).astype(np.float64),
        fraction=np.maximum(rows.elapsed_seconds[by_round], 0) / _DAY_S,
        last_day=-(seconds_ago // _DAY_S) - 1 - first_day,
    )


@dataclass(frozen=True)
class OverdueCards:
    """Number of cards that are overdue on a day, and the minutes that reviewing them takes."""

    cards: int
    learned: int  # all cards that are learned and not suspended
    minutes: float  # for one answer to each card, and a second one to those answered Again


def count_overdue(
    log: ReviewLog, presets: Collection[int] | None = None, first_day: int = 0
) -> OverdueCards | None:
    """Count the overdue cards of all presets, or of some.

    Cards are overdue if they were due before the last day of the log, or before the day that is
    `first_day` days later. None if the source does not say when cards are due.
    """
    schedule = log.schedule
    entries = log.entries
    if schedule is None or entries is None or log.day_grid is None:
        return None
    is_inactive = np.isin(schedule.queue, (_SUSPENDED, _PREVIEWED))
    is_learned = (schedule.kind != data.NEW_CARD) & ~is_inactive
    if presets is not None:
        is_learned &= np.isin(log.preset_of(log.deck_of(schedule.card_id)), list(presets))
    cards = int((is_learned & (schedule.due_day < first_day - 1)).sum())
    rating = entries.rating[entries.kind == REVIEW]
    again_share = (rating == 1).sum() / max(len(rating), 1)
    costs = estimate_costs(log, schedule.card_id)
    _, review_seconds, relearning_seconds = costs.seconds
    again, *passed = review_seconds
    seconds = again_share * (again + relearning_seconds[2])  # relearned with Good
    seconds += (1 - again_share) * np.dot(costs.review_rating, passed)
    return OverdueCards(cards, int(is_learned.sum()), float(cards * seconds / 60))


# Habits


def active_cards_of_preset(log: ReviewLog, group: int) -> np.ndarray:
    """Return the ids of a preset's cards that are not suspended, by their home decks as in Anki."""
    assert log.schedule is not None
    in_preset = log.preset_of(log.deck_of(log.schedule.card_id)) == group
    return log.schedule.card_id[in_preset & (log.schedule.queue != _SUSPENDED)]


def simulation_settings(preset: Preset, days: int, new: int) -> SimulationSettings:
    """Return a preset's simulation settings for `days` days with `new` new cards a day."""
    return SimulationSettings(
        days=days,
        new_a_day=new,
        reviews_a_day=9999 if preset.reviews_a_day is None else preset.reviews_a_day,
        new_ignore_review_limit=preset.new_ignore_review_limit,
        maximum_interval=preset.maximum_interval or 36_500,
        learning_steps=len(preset.learning_steps),
        relearning_steps=len(preset.relearning_steps),
        order=_ORDERS.get(preset.review_order, "difficulty, easiest first"),
    )


class Pace(NamedTuple):
    """Recent pace of a preset."""

    new_a_day: float
    reviews_a_day: float
    minutes_a_day: float
    days: int  # over which it was measured
    minutes_on_begun_cards: float = 0.0  # those of `minutes_a_day` for cards begun in these days
    reaches_new_limit: bool = False  # on most days with new cards


def measure_pace(log: ReviewLog, group: int) -> Pace:
    """Measure the recent pace of a preset.

    A card is new on the day of its first learning. As in the simulation, learning steps are not
    reviews, and a card has at most one review a day. The days are the last `_PACE_DAYS`, or all
    since the first answer to the preset's cards if these are fewer.
    """
    assert log.entries is not None
    assert log.day_grid is not None
    entries = log.entries
    is_active = np.isin(entries.card_id, active_cards_of_preset(log, group))
    if not is_active.any():
        return Pace(0.0, 0.0, 0.0, _PACE_DAYS)
    end_ms = 1000 * log.day_grid.next_day_at_s
    day_ms = 1000 * _DAY_S
    days_since_first = -((int(entries.time_ms[is_active].min()) - end_ms) // day_ms)  # rounded up
    days = min(_PACE_DAYS, max(1, days_since_first))
    start_ms = end_ms - days * day_ms
    is_learning = is_active & (entries.kind == LEARNING)
    learned, first_learning = np.unique(entries.card_id[is_learning], return_index=True)
    begun_ms = entries.time_ms[is_learning][first_learning]
    is_begun = begun_ms >= start_ms
    in_preset = log.preset_of(log.deck_of(entries.card_id)) == group  # suspended ones as well
    is_recent = entries.time_ms >= start_ms
    recent = np.flatnonzero(in_preset & is_recent & (entries.rating > 0))
    counted = recent[entries.duration_ms[recent] < _MAX_ANSWER_MS]
    minutes = float(entries.duration_ms[counted].sum()) / 60_000
    counted = counted[np.isin(entries.card_id[counted], learned[is_begun])]
    minutes_on_begun_cards = float(entries.duration_ms[counted].sum()) / 60_000
    reviews = recent[entries.kind[recent] == REVIEW]
    day = (entries.time_ms[reviews] - end_ms) // day_ms
    cards_and_days = set(zip(entries.card_id[reviews].tolist(), day.tolist(), strict=True))
    _, new_by_day = np.unique((begun_ms[is_begun] - end_ms) // day_ms, return_counts=True)
    return Pace(
        new_a_day=int(is_begun.sum()) / days,
        reviews_a_day=len(cards_and_days) / days,
        minutes_a_day=minutes / days,
        days=days,
        minutes_on_begun_cards=minutes_on_begun_cards / days,
        reaches_new_limit=_reaches_limit(new_by_day, log.presets.get(group)),
    )


def _reaches_limit(new_by_day: IntArray, preset: Preset | None) -> bool:
    """Return True if most days with new cards have as many as the preset allows."""
    if preset is None or not preset.new_a_day or not len(new_by_day):
        return False
    return float((new_by_day >= preset.new_a_day).mean()) > 0.5


def observed_retention_range(learner: Learner, index: IntArray) -> tuple[float, float] | None:
    """Return the lowest and the highest share recalled in one of the last twelve months.

    Months without reviews are not counted. None if no month had enough reviews.
    """
    _, month = np.unique(month_names(learner.time_s[index]), return_inverse=True)
    reviews = np.bincount(month)[-12:]
    recalled = np.bincount(month, learner.trials.y[index])[-12:] / np.maximum(reviews, 1)
    shares = recalled[reviews >= MIN_MONTH_REVIEWS]
    if not len(shares):
        return None
    return float(shares.min()), float(shares.max())


def estimate_costs(log: ReviewLog, card_id: IntArray) -> Costs:
    """Estimate costs from all answers to the cards; the defaults if there are none.

    `card_id` may be in any order. The log must have entries and a day grid.
    """
    assert log.entries is not None
    assert log.day_grid is not None
    entries = log.entries
    is_counted = (entries.duration_ms > 0) & (entries.duration_ms < _MAX_ANSWER_MS)
    is_counted &= (entries.rating >= 1) & (entries.rating <= 4)
    index = np.flatnonzero(is_counted & np.isin(entries.card_id, card_id))
    if not len(index):
        return Costs()
    # Sort by card and day, then by time. Days are rounded towards 0, as Rust divides whole numbers.
    since_end_s = entries.time_ms[index] // 1000 - log.day_grid.next_day_at_s
    day = np.sign(since_end_s) * (np.abs(since_end_s) // _DAY_S)
    order = np.lexsort((np.arange(len(index)), day, entries.card_id[index]))
    index = index[order]
    day = day[order]
    card = entries.card_id[index]
    rating = entries.rating[index]
    kind = entries.kind[index]
    is_first = np.ones(len(index), np.bool_)
    is_first[1:] = (card[1:] != card[:-1]) | (day[1:] != day[:-1])

    default = Costs()
    first_answer = np.cumsum(is_first) - 1  # number of the first answer on the card's day
    first_kind = kind[is_first][first_answer]
    first_rating = rating[is_first][first_answer]
    began_failed = (first_kind == REVIEW) & (first_rating == 1)
    learning_counts = np.bincount(rating[is_first & (kind == LEARNING)], minlength=5)[1:]
    passed_counts = np.bincount(rating[is_first & (kind == REVIEW)], minlength=5)[2:]
    learning_steps = _step_rating_shares(
        rating, is_first, first_kind == LEARNING, default.learning_steps
    )
    relearning_steps = _step_rating_shares(rating, is_first, began_failed, default.relearning_steps)
    return Costs(
        seconds=_to_tuples(_answer_seconds(entries, index, default)),
        first_rating=tuple(_rating_shares(learning_counts, default.first_rating).tolist()),
        review_rating=tuple(_rating_shares(passed_counts, default.review_rating).tolist()),
        learning_steps=_to_tuples(learning_steps),
        relearning_steps=_to_tuples(relearning_steps),
    )


def _answer_seconds(entries: Entries, positions: IntArray, default: Costs) -> FloatArray:
    """Estimate the seconds of an answer by state and rating (3, 4)."""
    kind = entries.kind[positions]
    positions = positions[(kind >= LEARNING) & (kind <= data.RELEARNING)]
    cell = 4 * entries.kind[positions] + entries.rating[positions] - 1  # LEARNING is 0
    duration_ms = entries.duration_ms[positions]
    count = np.bincount(cell, minlength=12)
    mean = np.bincount(cell, duration_ms, minlength=12) // np.maximum(count, 1) / 1000
    return np.round(_shrink_to_default(mean, np.ravel(default.seconds), count), 2).reshape(3, 4)


def _rating_shares(count: IntArray, default: tuple[float, ...]) -> FloatArray:
    """Estimate the shares of ratings that were seen `count` times (k,)."""
    if not count.any():
        count = np.ones_like(count)  # as if each had been seen once
    return _shrink_to_default(count / count.sum(), np.array(default), int(count.sum()))


def _step_rating_shares(
    rating: IntArray, is_first: np.ndarray, is_selected: np.ndarray, default: Any
) -> FloatArray:
    """Estimate the shares of the four ratings after Again, Hard and Good (3, 4).

    Of the selected answers (n,), only those that are not the first of their day are used; in
    `rating` (n,) an answer follows the one before it.
    """
    follows = np.flatnonzero(~is_first & is_selected)
    cell = 4 * (rating[follows - 1] - 1) + rating[follows] - 1
    count = np.bincount(cell, minlength=16).reshape(4, 4)[:3] + 1.0
    total = count.sum(axis=1, keepdims=True)
    return _shrink_to_default(count / total, np.array(default), total)


def _shrink_to_default(
    observed: FloatArray, default: FloatArray, count: FloatArray | IntArray | int
) -> FloatArray:
    """Return the means of observed and default values, with the weights of `count` answers."""
    weight = count / (_DEFAULTS_WEIGHT + count)
    return weight * observed + (1.0 - weight) * default


def _to_tuples(values: FloatArray) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, values.tolist()))
