"""What the simulation starts from: today's cards, and a learner's habits, from their own log.

Today's deck is what a learner remembers of each card now, and when it is due.

Where a card stands comes from Anki's table of cards (`reviews.Schedule`). What is remembered of
it is a model's state after the card's own history, step by step as the model is trained on
("history"), or what Anki stored with the card at its last review or optimization ("stored").
Where the one is lacking the other serves; where both are, the state is guessed from ease and
interval as Anki does when a learner comes from SM-2 (open-spaced-repetition/fsrs-rs:
src/inference.rs, `memory_state_from_sm2`).

With stored states the rest is Anki's reading too (ankitects/anki: rslib/src/scheduler/fsrs/
simulator.rs, `Card::convert`): a card was last reviewed an interval before it is due, and one
that is in its steps or buried was reviewed, and is due, today.

What answers take and which buttons are pressed is told by rules by which Anki feeds its simulator
(open-spaced-repetition/fsrs-rs 6.6: src/simulation.rs, `extract_simulator_config` with smoothing),
so that figures compare:

- An answer counts if it took more than 0 and less than 20 minutes.
- Seconds: the mean, in whole milliseconds, by state (learning, review, relearning) and rating.
- Shares of ratings go by the first answer of a card on a day: one in learning, or a review; of
  reviews the shares of Hard, Good and Easy among those passed.
- Steps: which rating follows which on the same day, where a day began in learning or with a
  failed review, with one more of each than were seen.
- All of these are drawn to the defaults of many learners, with weight 50 / (n + 50) where n
  answers were seen.

Anki's rounding differs: figures of float32 there are of float64 here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from srs_eval.advice.candidates import Learner
from srs_eval.advice.over_time import months_of
from srs_eval.advice.workload.simulator import SM2, Costs, Deck, Memory, Order, Settings, loops_of
from srs_eval.data import reviews as data
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import LEARNING, REVIEW, Entries, FloatArray, IntArray, Preset, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.models import fsrs7
from srs_eval.models._fsrs import S_MAX

States = Literal["history", "stored"]

_SUSPENDED, _PREVIEWED = -1, 4  # Anki's queues
_LATER_STEP = 3
_DAY_S = 86_400
_PACE_DAYS = 90  # over which one's own pace of new cards is taken
_LONGEST_MS = 1_200_000  # of an answer that counts
FEWEST_IN_MONTH = 50  # reviews for a month's retention to be one that was seen
_HALVINGS = 50  # of the logarithm of a stability
_DEFAULTS_COUNT = 50.0  # as many answers as the defaults stand for

# Anki's numbers of orders (proto/anki/deck_config.proto, ReviewCardOrder), as its simulator reads
# them; those that it does not know it takes as the last one here.
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
    stored: FloatArray  # (2, n) stability and difficulty as Anki keeps them, or NaN
    stored_fsrs7: FloatArray  # (2, n) FSRS-7's own stabilities, slow and fast, or NaN
    waits: np.ndarray  # (n,) bool: in its steps
    histories: Histories
    new: int
    historical_retention: float

    def __len__(self) -> int:
        return len(self.card_id)


def todays_cards(log: ReviewLog, preset: int, first_day: int = 0) -> Today:
    """The cards of a preset, by their home decks.

    `first_day` is the first simulated day; 0 is the day after the last review in the log. Raises
    InputError where the source does not say when cards are due, and where there are no cards.
    """
    schedule, grid = log.schedule, log.day_grid
    if schedule is None or grid is None or log.entries is None:
        raise InputError(
            f"{log.import_summary.path} does not say when cards are due: give a collection or "
            "a package."
        )
    of_preset = log.preset_of(log.deck_of(schedule.card_id)) == preset
    active = of_preset & (schedule.queue != _SUSPENDED)
    if not active.any():
        what = "are all suspended" if of_preset.any() else "are none"
        raise InputError(f"The cards of this preset {what}: there is no workload to tell of.")
    k = np.flatnonzero(active & (schedule.kind != data.NEW_CARD) & (schedule.queue != _PREVIEWED))
    in_days = (schedule.kind == data.REVIEW_CARD) | (schedule.queue == _LATER_STEP)
    own = schedule.internal_stability, schedule.fast_stability
    settings = log.presets.get(preset)
    retention = None if settings is None else settings.historical_retention
    return Today(
        card_id=schedule.card_id[k],
        due_day=schedule.due_day[k] - first_day,
        interval=schedule.interval[k],
        ease=np.where(schedule.ease[k] > 0, schedule.ease[k], 2500) / 1000,
        stored=np.stack((schedule.stability[k], schedule.difficulty[k])),
        stored_fsrs7=np.stack([np.full(len(k), np.nan) if s is None else s[k] for s in own]),
        waits=~in_days[k],
        histories=_histories(log, schedule.card_id[k], first_day),
        new=int((active & (schedule.kind == data.NEW_CARD)).sum()),
        historical_retention=retention or 0.9,
    )


def deck_of(today: Today, scheduler: Memory, states: States) -> Deck:
    """The deck that the simulation starts from."""
    if states == "stored":
        last = np.where(today.waits, 0, np.minimum(today.due_day - today.interval, 0))
        due = np.where(today.waits, 0, today.due_day)
    else:
        last = np.minimum(today.due_day - today.interval, -1)
        last[today.histories.card] = np.minimum(today.histories.last_day, -1)
        due = np.maximum(today.due_day, last + 1)
    return Deck(memory_state(today, scheduler, states), last, due, today.new)


def memory_state(today: Today, memory: Memory, states: States = "history") -> FloatArray:
    """What a memory makes of the cards (states, n); as SM-2 has them, interval and ease."""
    if memory.model == SM2:
        return np.stack((np.maximum(today.interval, 1.0), today.ease))
    wanted = np.isnan(today.stored[0]) if states == "stored" else np.ones(len(today), np.bool_)
    taken = np.flatnonzero(wanted[today.histories.card])
    made = _without_history(today, memory)
    made[:, today.histories.card[taken]] = _after_histories(today.histories, memory)[:, taken]
    return made


def _without_history(today: Today, memory: Memory) -> FloatArray:
    """Stored states, or else what ease and interval say (states, n)."""
    w = memory.parameters
    interval, desired = np.maximum(today.interval, 0.001), today.historical_retention
    known = ~np.isnan(today.stored[0])
    if memory.model == "FSRS-7":
        s, d = np.where(known, today.stored, np.stack((interval, np.full(len(today), 5.0))))
        made = _reaching(s, np.where(known, 0.9, desired), d, w)
        own = ~np.isnan(today.stored_fsrs7).any(axis=0) & known
        made[:2, own] = today.stored_fsrs7[:, own]
        return made
    decay = w[20]
    s = interval * (math.expm1(-math.log(0.9) / decay) / math.expm1(-math.log(desired) / decay))
    growth = math.exp(w[8]) * s ** -w[9] * math.expm1((1.0 - desired) * w[10])
    d = np.clip(11.0 - (today.ease - 1.0) / growth, 1.0, 10.0)
    return np.where(known, today.stored, np.stack((s, d)))


def _reaching(t: FloatArray, r: FloatArray, d: FloatArray, w: Sequence[float]) -> FloatArray:
    """FSRS-7's states (3, n) of a difficulty d by which R falls to r after t days (n,).

    Its long-term stability, which the short-term one is 0.8 of, is no time after which R is known;
    nor are the stabilities that Anki stores, after which R is 0.9 (open-spaced-repetition/fsrs-rs
    pull request 459; its src/model_v7.rs has d = 5).
    """

    def state(log_s: FloatArray) -> FloatArray:
        s = np.exp(log_s)
        return np.stack((s, np.maximum(0.8 * s, fsrs7.LEAST), d))

    low, high = (np.full(len(t), math.log(each)) for each in (fsrs7.LEAST, S_MAX))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        forgets = fsrs7.recall(t, tuple(state(middle)), w) < r
        low, high = np.where(forgets, middle, low), np.where(forgets, high, middle)
    return state(0.5 * (low + high))


def _after_histories(histories: Histories, memory: Memory) -> FloatArray:
    """The states (states, m) after m histories, in their order."""
    from srs_eval.advice.workload.loops import Followed, work_for
    from srs_eval.training.compile import packed
    from srs_eval.training.elementwise import LANES

    m, first = len(histories.card), histories.first
    room = m + LANES
    states = np.ones((memory.states, room))
    if not m:
        return states[:, :m]
    in_days = memory.recurrent.same_day is not None
    t = histories.days if in_days else histories.fraction
    number = np.repeat(np.arange(len(first) - 1), np.diff(first))
    step = (t < 1.0) & (number > 0) & in_days
    order = np.concatenate((np.lexsort((step, number)), np.zeros(LANES, np.int64)))
    followed = Followed(
        rounds=len(first) - 1,
        begins=first,
        same_day=first[1:] - np.bincount(number, step).astype(np.int64),
        card=(order - first[number[order]]).astype(np.int32),
        t=t[order],
        rating=histories.rating[order],
        room=room,
        states=states,
        parameters=memory.values,
    )
    work = work_for(memory.states, len(order) + LANES)
    loops_of(memory.model)["follow"](packed(followed), packed(work))
    return states[:, :m]


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


@dataclass(frozen=True)
class Overdue:
    """Cards that should have been reviewed before a day, and what that takes now."""

    cards: int
    learned: int  # of so many that are learned and not suspended
    minutes: float  # an answer each, and one more after Again


def overdue_cards(
    log: ReviewLog, presets: Collection[int] | None = None, first_day: int = 0
) -> Overdue | None:
    """Of all presets, or of some, before the log's last day, or so many days after it. None where
    the source does not say when cards are due."""
    schedule, entries = log.schedule, log.entries
    if schedule is None or entries is None or log.day_grid is None:
        return None
    learned = (schedule.kind != data.NEW_CARD) & ~np.isin(schedule.queue, (_SUSPENDED, _PREVIEWED))
    if presets is not None:
        learned &= np.isin(log.preset_of(log.deck_of(schedule.card_id)), list(presets))
    cards = int((learned & (schedule.due_day < first_day - 1)).sum())
    rating = entries.rating[entries.kind == REVIEW]
    again = (rating == 1).sum() / max(len(rating), 1)
    costs = costs_of(log, schedule.card_id)
    seconds = again * (costs.seconds[1][0] + costs.seconds[2][2])
    seconds += (1 - again) * np.dot(costs.review_rating, costs.seconds[1][1:])
    return Overdue(cards, int(learned.sum()), float(cards * seconds / 60))


# Habits


def cards_of(log: ReviewLog, group: int) -> np.ndarray:
    """Cards of a preset that are not suspended, as Anki's simulator looks for them."""
    assert log.schedule is not None
    of_preset = log.preset_of(log.deck_of(log.schedule.card_id)) == group
    return log.schedule.card_id[of_preset & (log.schedule.queue != _SUSPENDED)]


def settings_of(preset: Preset, days: int, new: int) -> Settings:
    """A preset's, for so many days with so many new cards."""
    return Settings(
        days=days,
        new_a_day=new,
        reviews_a_day=9999 if preset.reviews_a_day is None else preset.reviews_a_day,
        new_ignore_review_limit=preset.new_ignore_review_limit,
        maximum_interval=preset.maximum_interval or 36_500,
        learning_steps=len(preset.learning_steps),
        relearning_steps=len(preset.relearning_steps),
        order=_ORDERS.get(preset.review_order, "difficulty, easiest first"),
    )


def own_pace(log: ReviewLog, group: int) -> tuple[float, float, float, int]:
    """New cards, reviews and minutes a day of late, and the days that this is seen over.

    New is a card on the day of its first learning; steps of learning are no reviews, and a card has
    one a day, as in the simulation. The days are the last `_PACE_DAYS`, or all since the first
    answer to the preset's cards where they are fewer.
    """
    assert log.entries is not None
    assert log.day_grid is not None
    entries = log.entries
    mine = np.isin(entries.card_id, cards_of(log, group))
    if not mine.any():
        return 0.0, 0.0, 0.0, _PACE_DAYS
    end_ms, day_ms = 1000 * log.day_grid.next_day_at_s, 1000 * _DAY_S
    days = min(_PACE_DAYS, max(1, -((int(entries.time_ms[mine].min()) - end_ms) // day_ms)))
    learned = mine & (entries.kind == LEARNING)
    _, first = np.unique(entries.card_id[learned], return_index=True)
    since_ms = end_ms - days * day_ms
    new = int((entries.time_ms[learned][first] >= since_ms).sum())
    of_preset = log.preset_of(log.deck_of(entries.card_id)) == group  # suspended ones as well
    lately = np.flatnonzero(of_preset & (entries.time_ms >= since_ms) & (entries.rating > 0))
    answers = entries.duration_ms[lately]
    minutes = float(answers[answers < _LONGEST_MS].sum()) / 60_000
    lately = lately[entries.kind[lately] == REVIEW]
    day = (entries.time_ms[lately] - end_ms) // day_ms
    done = len(set(zip(entries.card_id[lately].tolist(), day.tolist(), strict=True)))
    return new / days, done / days, minutes / days, days


def seen_retentions(learner: Learner, index: IntArray) -> tuple[float, float] | None:
    """The least and the most that was recalled in one of the last twelve months with reviews;
    None where none of them had enough."""
    _, month = np.unique(months_of(learner.time_s[index]), return_inverse=True)
    reviews = np.bincount(month)[-12:]
    recalled = np.bincount(month, learner.trials.y[index])[-12:] / np.maximum(reviews, 1)
    shares = recalled[reviews >= FEWEST_IN_MONTH]
    return (float(shares.min()), float(shares.max())) if len(shares) else None


def costs_of(log: ReviewLog, card_id: IntArray) -> Costs:
    """Costs from all answers to the cards; the defaults where there are none.

    `card_id` may be in any order. The log must have entries and a day grid.
    """
    assert log.entries is not None
    assert log.day_grid is not None
    entries = log.entries
    counted = (entries.duration_ms > 0) & (entries.duration_ms < _LONGEST_MS)
    counted &= (entries.rating >= 1) & (entries.rating <= 4)
    kept = np.flatnonzero(counted & np.isin(entries.card_id, card_id))
    if not len(kept):
        return Costs()
    # By card and day, in order of time.
    late_s = entries.time_ms[kept] // 1000 - log.day_grid.next_day_at_s
    day = np.sign(late_s) * (np.abs(late_s) // _DAY_S)
    order = np.lexsort((np.arange(len(kept)), day, entries.card_id[kept]))
    kept, day = kept[order], day[order]
    card, rating, kind = entries.card_id[kept], entries.rating[kept], entries.kind[kept]
    first = np.ones(len(kept), np.bool_)
    first[1:] = (card[1:] != card[:-1]) | (day[1:] != day[:-1])

    default = Costs()
    first_kind = kind[first][np.cumsum(first) - 1]  # of the card's day
    first_rating = rating[first][np.cumsum(first) - 1]
    failed = (first_kind == REVIEW) & (first_rating == 1)
    learned = np.bincount(rating[first & (kind == LEARNING)], minlength=5)[1:]
    reviewed = np.bincount(rating[first & (kind == REVIEW)], minlength=5)[2:]
    return Costs(
        seconds=_rows(_times(entries, kept, default)),
        first_rating=tuple(_shares(learned, default.first_rating).tolist()),
        review_rating=tuple(_shares(reviewed, default.review_rating).tolist()),
        learning_steps=_rows(_steps(rating, first, first_kind == LEARNING, default.learning_steps)),
        relearning_steps=_rows(_steps(rating, first, failed, default.relearning_steps)),
    )


def _times(entries: Entries, kept: IntArray, default: Costs) -> FloatArray:
    """Seconds by state and rating (3, 4)."""
    kind, rating = entries.kind[kept], entries.rating[kept]
    known = (kind >= LEARNING) & (kind <= data.RELEARNING)
    cell, ms = (4 * kind + rating - 1)[known], entries.duration_ms[kept][known]
    count = np.bincount(cell, minlength=12)
    mean = np.bincount(cell, ms, minlength=12) // np.maximum(count, 1) / 1000
    return np.round(_shrunk(mean, np.ravel(default.seconds), count), 2).reshape(3, 4)


def _shares(count: IntArray, default: tuple[float, ...]) -> FloatArray:
    """Of ratings that were seen `count` times (k,)."""
    count = count if count.any() else np.ones_like(count)  # as if each had been seen once
    return _shrunk(count / count.sum(), np.array(default), int(count.sum()))


def _steps(rating: IntArray, first: np.ndarray, taken: np.ndarray, default: Any) -> FloatArray:
    """Shares of the four ratings after Again, Hard and Good (3, 4), on the days `taken` (n,)."""
    follows = np.flatnonzero(~first & taken)
    cell = 4 * (rating[follows - 1] - 1) + rating[follows] - 1
    count = np.bincount(cell, minlength=16).reshape(4, 4)[:3] + 1.0
    total = count.sum(axis=1, keepdims=True)
    return _shrunk(count / total, np.array(default), total)


def _shrunk(
    seen: FloatArray, default: FloatArray, count: FloatArray | IntArray | int
) -> FloatArray:
    weight = count / (_DEFAULTS_COUNT + count)
    return weight * seen + (1.0 - weight) * default


def _rows(values: FloatArray) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, values.tolist()))
