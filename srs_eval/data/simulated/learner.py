"""How a simulated learner studies: memory, habits, scheduler and incidents, day by day.

A learner has a memory (the formulas of FSRS-6 with parameters of the learner's own for each
preset, and cards of different difficulty; or another kind of memory, see `memories`) and
habits: pauses, answer times, which buttons are pressed. A scheduler as in Anki (learning and
relearning steps, then FSRS with the preset's parameters, or SM-2, with fuzz) decides which
cards are shown. What else real collections hold is there too: reviews of deleted cards,
leeches, filtered decks, a reset, due dates set by hand.

Steps, intervals and log entries as in ankitects/anki (rslib/src/scheduler).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import (
    FILTERED,
    LEARNING,
    MANUAL,
    RELEARNING,
    REVIEW,
    Cards,
    DayGrid,
    Deck,
    Entries,
    FloatArray,
    ImportReceipt,
    IntArray,
    Preset,
    ReviewLog,
)
from srs_eval.data.simulated.memories import Fsrs6, Memory, Moment, Traits
from srs_eval.data.simulated.memory import (
    DEFAULT_PARAMETERS,
    SPREAD,
    first_state,
    fuzzed,
    interval_for,
    next_state,
)

_BoolArray = NDArray[np.bool_]

_DAY = 86_400
ROLLOVER_HOUR = 4
UTC_OFFSET_HOURS = 1
FIRST_DAY_S = 1_693_796_400  # 4 September 2023, 4:00 at UTC+1
_LEECH_LAPSES = 8
_MAXIMUM_INTERVAL = 36_500
NEW_A_DAY, REVIEWS_A_DAY = 20, 250  # limits of a preset
SM2_SETTINGS = (1.0, 4.0, 2.5, 1.3, 1.2, 0.0, 1.0)  # a new preset's, see Preset.sm2_settings


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
    stability: FloatArray  # as the scheduler believes, days; NaN for new cards and under SM-2
    difficulty: FloatArray
    reps: IntArray
    lapses: IntArray
    last_review_s: IntArray  # 0: never
    suspended: _BoolArray
    filtered: _BoolArray  # in the filtered deck
    deleted: _BoolArray

    def __len__(self) -> int:
        return len(self.card_id)


@dataclass(frozen=True, eq=False)
class Learner:
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
    """Of each entry: the true probability of recall; NaN where there is none (first reviews)."""
    days: int  # from the first day to the last, inclusive

    def log(self) -> ReviewLog:
        """The history as an importer would deliver it."""
        kept = ~self.cards.deleted
        next_day = FIRST_DAY_S + self.days * _DAY
        return ReviewLog(
            receipt=ImportReceipt(
                path=f"simulated learner {self.seed}",
                format="simulated learner",
                entries_read=len(self.entries),
                fsrs_enabled=self.scheduler == "fsrs",
            ),
            entries=self.entries,
            cards=Cards(
                self.cards.card_id[kept],
                self.cards.note_id[kept],
                self.cards.deck_id[kept],
                self.cards.suspended[kept],
            ),
            decks=self.decks,
            presets=self.presets,
            day_grid=DayGrid(next_day, "simulated: rollover 4:00, UTC+1"),
        )


@dataclass(frozen=True)
class Habits:
    """How a learner behaves, apart from memory."""

    first: FloatArray  # (4,) probabilities of the buttons at a first review
    hard: float  # probability of Hard, and of Easy, when recalled
    easy: float
    forgets: bool
    skip: float  # probability of skipping a day
    stop: float  # probability of leaving cards in learning for the next day
    seconds: float  # median answer time
    hour: float  # at which a day's reviews begin, counted from the rollover
    daily_limit: int
    hard_when_unsure: float = 0.0  # how much more often, where recall was unlikely
    slowing: float = 0.0  # how much longer answers take where recall was unlikely
    time_spread: float = 0.55  # standard deviation of an answer time's logarithm
    card_time: float = 0.0  # the same of what is each card's own
    weak_time: float = 0.0  # answer times go with a card's strength to the power of minus this
    buttons_tell: float = 0.0
    """How much rather the strong cards get Easy, and the weak ones Hard: the change of either's
    logit for a standard deviation of what decides on them."""
    first_tells: float = 0.0  # correlation of the first button with a card's strength
    timed: bool = True  # False: the program kept no answer times
    slip: float = 0.0  # share of remembered cards that are failed all the same
    long_pause: float = 0.005  # probability that a day begins a pause
    pause_days: int = 15  # the longest pause
    new_share: float = 0.9  # share of the days with new cards
    new_per_day: int | None = None
    form: float = 0.0
    """Good and bad days: standard deviation of a day's shift of the logit of recall."""
    form_lasts: float = 0.0  # its correlation with that of the last day with reviews


@dataclass(frozen=True, eq=False)
class Character:
    """A learner to simulate: memory, habits and settings."""

    memory: Memory
    habits: Habits
    scheduler: Literal["fsrs", "sm2"]
    decks: Mapping[int, Deck]
    presets: Mapping[int, Preset]
    shares: Mapping[int, float]  # of the cards, by deck
    spread: tuple[float, float] = (0.35, 0.8)
    """Standard deviations of the logarithm of a card's strength and of its hardness."""
    topic: int = 0  # how many cards begun in a row belong together, on average; 0: none do
    topic_spread: tuple[float, float] = (0.0, 0.0)
    """As `spread`, of what the cards of a topic have in common."""
    strength: float = 1.0  # the middle one of the cards' strengths
    strength_lasts: float = 0.0  # see `Traits.lasting`


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
) -> Learner:
    """A learner's history with exactly `reviews` answers; the same arguments give the same one.

    `buttons=2` never presses Hard or Easy; `forgets=False` never fails; `new_per_day` sets how
    dense the history is (by default, 20,000 answers take about a year). `incidents` adds what
    happens to real collections: filtered decks, resets, due dates set by hand, deleted cards.
    `character` is the learner to simulate instead of one drawn from the seed with `scheduler`,
    `buttons` and `forgets`. Raises ValueError for fewer than one review.
    """
    if reviews < 1:
        raise ValueError("a learner has at least one review")
    random = np.random.default_rng(seed)
    memory: Mapping[int, tuple[float, ...]] = {}
    if character is None:
        presets, memory = _presets(random)
        character = Character(
            memory=Fsrs6(np.array(list(memory.values())).T),
            decks=_decks(),
            habits=_habits(random, buttons, forgets),
            scheduler=scheduler,
            presets=presets,
            shares=_DECK_SHARES,
        )
    elif isinstance(character.memory, Fsrs6):
        columns = character.memory.w.T.tolist()
        memory = {preset: tuple(w) for preset, w in zip(character.presets, columns, strict=True)}
    habits = character.habits
    pace = new_per_day or habits.new_per_day or max(3, round(math.sqrt(reviews) / 20))
    sim = _Simulation(random, reviews, character)

    plan = _incident_plan(reviews) if incidents else []
    pause = 0
    while sim.answered < reviews:
        sim.day += 1
        pause -= 1
        if pause > 0 or (random.random() < habits.skip and sim.day > 1):
            continue
        if random.random() < habits.long_pause:
            pause = int(random.integers(4, habits.pause_days + 1))
        sim.begin_day()
        while plan and sim.answered >= plan[0][0]:
            plan.pop(0)[1](sim)
        sim.study(pace if random.random() < habits.new_share else 0)
    return sim.finish(seed, memory)


def _habits(random: np.random.Generator, buttons: int, forgets: bool) -> Habits:
    first = np.array([0.3, 0.08, 0.5, 0.12]) if buttons == 4 else np.array([0.35, 0, 0.65, 0])
    if not forgets:
        first = np.array([0.0, 0.1, 0.7, 0.2]) if buttons == 4 else np.array([0.0, 0, 1, 0])
    hard, easy = random.uniform(0.03, 0.12, 2) if buttons == 4 else (0.0, 0.0)
    return Habits(
        first=first,
        hard=float(hard),
        easy=float(easy),
        forgets=forgets,
        skip=float(random.uniform(0.02, 0.12)),
        stop=float(random.uniform(0.01, 0.05)),
        seconds=float(random.uniform(4.0, 9.0)),
        hour=float(random.uniform(4.0, 16.0)),
        daily_limit=REVIEWS_A_DAY,
    )


# ids as in Anki: time of creation in milliseconds
CREATED_MS = (FIRST_DAY_S - 40 * _DAY) * 1000
LANGUAGES, FACTS = CREATED_MS + 1, CREATED_MS + 2
_LANGUAGES_DECK, _WORDS, _SENTENCES, _GEOGRAPHY, _ANATOMY = (CREATED_MS + k for k in range(11, 16))
FILTERED_DECK = CREATED_MS + 20
_DECK_SHARES = {_WORDS: 0.45, _SENTENCES: 0.15, _GEOGRAPHY: 0.25, _ANATOMY: 0.15}


def _decks() -> dict[int, Deck]:
    return {
        deck.id: deck
        for deck in (
            Deck(1, "Default", 1),
            Deck(_LANGUAGES_DECK, "Languages", LANGUAGES),
            Deck(_WORDS, "Languages::Words", LANGUAGES, _LANGUAGES_DECK),
            Deck(_SENTENCES, "Languages::Sentences", LANGUAGES, _LANGUAGES_DECK, 0.85),
            Deck(_GEOGRAPHY, "Geography", FACTS),
            Deck(_ANATOMY, "Anatomy", FACTS),
            Deck(FILTERED_DECK, "Cram before the exam", None, filtered=True),
        )
    }


# FSRS-5's 19 defaults: collections keep an older list beside the newer one.
_FSRS5_DEFAULTS = (
    0.40255, 1.18385, 3.173, 15.69105, 7.1949, 0.5345, 1.4604, 0.0046, 1.54575, 0.1192,
    1.01925, 1.9395, 0.11, 0.29605, 2.2698, 0.2315, 2.9898, 0.51655, 0.6621,
)  # fmt: skip


def _presets(
    random: np.random.Generator,
) -> tuple[dict[int, Preset], dict[int, tuple[float, ...]]]:
    """The presets, and the true parameters of the memory for each.

    The stored parameters of "Languages" are close to the true ones, as after optimising; those
    of "Facts" are far from them, so that optimising would help.
    """

    def vary(parameters: FloatArray, scale: float) -> FloatArray:
        varied = parameters * np.exp(scale * SPREAD * random.standard_normal(21))
        varied[:4] = np.sort(varied[:4])
        varied[4] = min(varied[4], 9.5)
        varied[20] = np.clip(varied[20], 0.1, 0.5)
        return np.round(varied, 4)

    learner = vary(np.array(DEFAULT_PARAMETERS), 1.0)
    languages, facts = learner.copy(), learner.copy()
    languages[:4] *= 0.7
    facts[:4] *= 2.0
    facts[8] += 0.3
    stored = tuple(vary(languages, 0.1).tolist())
    foreign = tuple(vary(np.array(DEFAULT_PARAMETERS), 1.5).tolist())
    presets = (
        Preset(1, "Default", {}, 0.9, 0.9, None, (1.0, 10.0), (10.0,), _MAXIMUM_INTERVAL,
               None, SM2_SETTINGS, NEW_A_DAY, REVIEWS_A_DAY, modified_s=FIRST_DAY_S),
        Preset(
            LANGUAGES, "Languages", {6: stored}, 0.9, 0.9, None,
            (1.0, 10.0), (10.0,), _MAXIMUM_INTERVAL, None, SM2_SETTINGS, NEW_A_DAY, REVIEWS_A_DAY,
            modified_s=FIRST_DAY_S,
        ),
        Preset(
            FACTS, "Facts", {5: _FSRS5_DEFAULTS, 6: foreign}, 0.92, 0.9, None,
            (1.0, 10.0, 30.0), (10.0, 30.0), 3650, None, SM2_SETTINGS, NEW_A_DAY, REVIEWS_A_DAY,
            modified_s=FIRST_DAY_S,
        ),
    )  # fmt: skip
    memory = {1: learner, LANGUAGES: languages, FACTS: facts}
    return {preset.id: preset for preset in presets}, {
        preset: tuple(np.round(parameters, 6).tolist()) for preset, parameters in memory.items()
    }


def character_presets(
    stored: tuple[float, ...],
    retention: float,
    learning_steps: tuple[float, ...],
    relearning_steps: tuple[float, ...],
) -> tuple[dict[int, Deck], dict[int, Preset], dict[int, float]]:
    """Decks, presets and deck shares of a `Character` with one deck and these settings."""
    preset = Preset(
        1, "Default", {6: stored}, retention, 0.9, None,
        learning_steps, relearning_steps, _MAXIMUM_INTERVAL, None, SM2_SETTINGS,
        NEW_A_DAY, REVIEWS_A_DAY, modified_s=FIRST_DAY_S,
    )  # fmt: skip
    decks = {
        1: Deck(1, "Default", 1),
        FILTERED_DECK: Deck(FILTERED_DECK, "Cram", None, filtered=True),
    }
    return decks, {1: preset}, {1: 1.0}


_NEW, _IN_LEARNING, _IN_REVIEW, _IN_RELEARNING = range(4)
_KIND_OF_PHASE = np.array([LEARNING, LEARNING, REVIEW, RELEARNING])
_ENTRY_COLUMNS = (
    "time_ms", "card", "rating", "kind", "factor", "duration_ms", "interval", "last_interval",
    "recall",
)  # fmt: skip


class _Simulation:
    """The running state: arrays with one element per card, in order of creation."""

    def __init__(self, random: np.random.Generator, reviews: int, character: Character) -> None:
        self.random, self.habits, self.scheduler = random, character.habits, character.scheduler
        self.decks, self.presets, self.memory = character.decks, character.presets, character.memory
        self.deck_ids = list(character.shares)
        self.deck_shares = list(character.shares.values())
        self.spread, self.usual_strength = character.spread, math.log(character.strength)
        self.topic, self.topic_spread = character.topic, np.array(character.topic_spread)
        self.topic_shift = np.zeros(2)
        self.form = 0.0
        presets = character.presets
        self.reviews, self.answered, self.day, self.now_s = reviews, 0, -1, 0.0
        self.entries: list[dict[str, NDArray[Any]]] = []

        # Per preset and per deck, looked up by position.
        self.preset_ids = list(presets)
        self.stored_w = np.array(
            [presets[preset].fsrs_parameters.get(6, DEFAULT_PARAMETERS) for preset in presets]
        ).T
        self.steps, self.step_count = _step_tables(list(presets.values()))
        self.longest = np.array([preset.maximum_interval for preset in presets.values()])
        self.suspends_leeches = np.array([preset != FACTS for preset in presets])

        # Room for a card per answer, and for the unseen ones added at the end.
        size = 2 * reviews + 400
        self.n = 0
        self.notes = 0
        self.waiting: list[tuple[int, int]] = []  # notes whose second card has not been shown
        self.integer = {
            name: np.zeros(size, np.int64)
            for name in (
                "card_id", "note_id", "ordinal", "deck_id", "preset", "phase", "step", "delay_s",
                "due_day", "due_s", "interval", "ease", "reps", "lapses", "last_s", "last_day",
            )
        }  # fmt: skip
        self.number = {
            name: np.full(size, np.nan)
            for name in (
                "sched_stability", "sched_difficulty",  # as the scheduler believes
                "strength", "hardness", "retention", "time",
            )
        }  # fmt: skip
        self.suspended, self.deleted, self.filtered = np.zeros((3, size), np.bool_)
        self.memory.begin(
            Traits(
                self.integer["preset"],
                self.number["strength"],
                self.number["hardness"],
                character.strength_lasts,
            )
        )

    # Cards

    def add_cards(self, count: int, new_notes: bool = False) -> IntArray:
        """Add `count` unseen cards and return their positions; siblings are added days apart."""
        begin = self.n
        decks = self.random.choice(self.deck_ids, count, p=self.deck_shares)
        for deck in decks.tolist():
            if (
                deck == _WORDS
                and not new_notes
                and len(self.waiting) > 10
                and self.random.random() < 0.6
            ):
                note, ordinal = self.waiting.pop(0)[0], 1
            else:
                note, ordinal = CREATED_MS + 1_000_000 + 7_300 * self.notes, 0
                self.notes += 1
                if deck == _WORDS:
                    self.waiting.append((note, 1))
            self._add_card(note, ordinal, deck)
        return np.arange(begin, self.n)

    def _add_card(self, note: int, ordinal: int, deck: int) -> None:
        at, integer, number = self.n, self.integer, self.number
        preset = self.decks[deck].preset_id
        assert preset is not None
        retention = self.decks[deck].desired_retention or self.presets[preset].desired_retention
        integer["card_id"][at], integer["note_id"][at] = note + ordinal, note
        integer["ordinal"][at], integer["deck_id"][at] = ordinal, deck
        integer["preset"][at] = self.preset_ids.index(preset)
        integer["ease"][at] = 2500
        number["retention"][at] = retention
        # Cards differ: some are easily learnt, some become leeches.
        if self.topic and (not at or self.random.random() < 1 / self.topic):
            self.topic_shift = self.topic_spread * self.random.standard_normal(2)
        strength, hardness = self.spread
        number["strength"][at] = math.exp(
            self.usual_strength + self.topic_shift[0] + strength * self.random.standard_normal()
        )
        number["hardness"][at] = self.topic_shift[1] + hardness * self.random.standard_normal()
        usual = math.exp(self.usual_strength)
        number["time"][at] = (number["strength"][at] / usual) ** -self.habits.weak_time
        if self.habits.card_time:
            number["time"][at] *= math.exp(self.habits.card_time * self.random.standard_normal())
        self.n += 1

    def active(self, *phases: int) -> IntArray:
        """Positions of the cards in these phases that are neither suspended nor deleted."""
        n = self.n
        shown = np.isin(self.integer["phase"][:n], phases)
        return np.flatnonzero(shown & ~self.suspended[:n] & ~self.deleted[:n])

    # Time

    def begin_day(self) -> None:
        hour = np.clip(self.habits.hour + 1.5 * self.random.standard_normal(), 0.5, 20.0)
        self.now_s = max(self.now_s + 1, FIRST_DAY_S + self.day * _DAY + float(hour) * 3600)
        if self.habits.form:
            lasts = self.habits.form_lasts
            news = self.habits.form * math.sqrt(1 - lasts**2) * self.random.standard_normal()
            self.form = lasts * self.form + news

    def study(self, new: int) -> None:
        """A day's reviews: due cards and new ones, then learning steps until none is left."""
        due = self.active(_IN_REVIEW)
        due = due[self.integer["due_day"][due] <= self.day]
        due = due[np.argsort(self.integer["due_day"][due], kind="stable")]
        cards = np.concatenate(
            [
                self.active(_IN_LEARNING, _IN_RELEARNING),
                due[: self.habits.daily_limit],
                self.active(_NEW)[:5],  # reset by hand
                self.add_cards(new),
            ]
        )
        cards = self.random.permutation(cards)
        not_before = np.zeros(len(cards))
        for turn in range(20):
            cards = cards[: self.reviews - self.answered]
            if not len(cards) or (turn and self.random.random() < self.habits.stop):
                return
            self.ask(cards, not_before[: len(cards)])
            left = cards[np.isin(self.integer["phase"][cards], (_IN_LEARNING, _IN_RELEARNING))]
            left = left[~self.suspended[left]]
            cards = left[np.argsort(self.integer["due_s"][left], kind="stable")]
            not_before = self.integer["due_s"][cards].astype(np.float64)
            if self.now_s > FIRST_DAY_S + (self.day + 1) * _DAY - 3600:
                return

    # Answers

    def ask(self, cards: IntArray, not_before: FloatArray, early: bool = False) -> None:
        """Show cards in turn, each at its time at the earliest, and record the answers."""
        count = len(cards)
        seconds = self.habits.seconds * self.number["time"][cards]
        seconds *= np.exp(self.habits.time_spread * self.random.standard_normal(count))
        if self.habits.slowing:
            seconds *= self._slowing(cards, np.maximum(self.now_s, not_before))
        seconds = np.clip(seconds, 0.8, 60.0)  # Anki stops the clock after a minute
        spent = np.cumsum(seconds + 0.4)
        at = spent + np.maximum(
            self.now_s, np.maximum.accumulate(not_before - np.concatenate([[0.0], spent[:-1]]))
        )
        self.now_s = float(at[-1])

        recall, rating = self._answers(cards, at)
        self.memory.learn(cards, rating, self._moment(cards, at))
        before = self.integer["phase"][cards]
        last = np.where(
            before == _IN_REVIEW, self.integer["interval"][cards], -self.integer["delay_s"][cards]
        )
        self._schedule(cards, rating, at)
        phase = self.integer["phase"][cards]
        if self.scheduler == "fsrs":
            factor = np.round(100 + 1000 * (self.number["sched_difficulty"][cards] - 1) / 9)
        else:
            factor = np.where(
                (before == _NEW) | (before == _IN_LEARNING), 0, self.integer["ease"][cards]
            )
        kind = np.full(count, FILTERED) if early else _KIND_OF_PHASE[before]
        interval = np.where(
            phase == _IN_REVIEW, self.integer["interval"][cards], -self.integer["delay_s"][cards]
        )
        took_ms = 1000 * seconds * self.habits.timed
        self._record(at, cards, rating, kind, factor, took_ms, interval, last, recall)
        self.integer["last_s"][cards] = at.astype(np.int64)
        self.integer["last_day"][cards] = self.day
        self.integer["reps"][cards] += 1
        self.answered += count

    def _moment(self, cards: IntArray, at: FloatArray) -> Moment:
        days = (self.day - self.integer["last_day"][cards]).astype(np.float64)
        same_day = (at - self.integer["last_s"][cards]) / _DAY
        return Moment((at - FIRST_DAY_S) / _DAY, days, np.where(days > 0, days, same_day))

    def _recall(self, cards: IntArray, at: FloatArray) -> tuple[FloatArray, _BoolArray]:
        """Probability of recall (NaN for unseen cards), and which cards have been seen."""
        seen = self.memory.seen(cards)
        moment = self._moment(cards, at)
        recall = np.full(len(cards), np.nan)
        known = self.memory.recall(cards[seen], Moment(*(column[seen] for column in moment)))
        if self.form:
            known = known / (known + (1 - known) * math.exp(-self.form))
        recall[seen] = known * (1 - self.habits.slip)
        return recall, seen

    def _slowing(self, cards: IntArray, at: FloatArray) -> FloatArray:
        """Factor on each answer's time; answers take longer where recall is unlikely."""
        recall = np.clip(np.nan_to_num(self._recall(cards, at)[0], nan=0.5), 0.1, 0.995)
        logit = np.log(recall / (1 - recall))
        result: FloatArray = np.exp(0.25 * self.habits.slowing * (2.2 - logit))
        return result

    def _answers(self, cards: IntArray, at: FloatArray) -> tuple[FloatArray, IntArray]:
        """Probability of recall (NaN for unseen cards) and the button pressed."""
        habits = self.habits
        recall, seen = self._recall(cards, at)
        if not habits.forgets:
            recall[seen] = 1.0
        chance = self.random.random((2, len(cards)))
        draw = chance[0]
        if habits.first_tells:
            draw = self._told_by_strength(cards, draw)
        first = 1 + np.searchsorted(np.cumsum(habits.first)[:-1], draw, side="right")
        shaky = habits.hard_when_unsure * (1 - np.nan_to_num(recall, nan=1.0))
        hard = habits.hard * np.nan_to_num(self.memory.difficulty(cards)) / 5 * (1 + 6 * shaky)
        easy = habits.easy / (1 + 6 * shaky)
        if habits.buttons_tell:
            tells = np.exp(habits.buttons_tell * self._ease(cards, recall))
            hard = hard / (hard + np.maximum(1 - hard, 0) * tells)
            easy = easy * tells / (easy * tells + 1 - easy)
        passed = np.where(chance[1] < hard, 2, np.where(chance[1] > 1 - easy, 4, 3))
        known = np.where(chance[0] < recall, passed, 1)
        return recall, np.where(seen, known, first)

    def _told_by_strength(self, cards: IntArray, chance: FloatArray) -> FloatArray:
        """Uniform draws that go together with the cards' strengths."""
        from scipy.special import ndtr, ndtri

        strength = np.log(self.number["strength"][cards]) - self.usual_strength
        tells = self.habits.first_tells
        score = tells * strength / math.hypot(self.spread[0], self.topic_spread[0])
        result: FloatArray = ndtr(score + math.sqrt(1 - tells**2) * ndtri(chance))
        return result

    def _ease(self, cards: IntArray, recall: FloatArray) -> FloatArray:
        """How easy the cards feel, around 0: what is likely recalled, and what sticks well."""
        likely = np.clip(np.nan_to_num(recall, nan=0.9), 0.3, 0.995)
        strength = np.log(self.number["strength"][cards]) - self.usual_strength
        ease = 0.5 * (np.log(likely / (1 - likely)) - 2.2) + 0.7 * strength
        result: FloatArray = np.clip(ease - 0.5 * self.number["hardness"][cards], -2.5, 2.5)
        return result

    def _schedule(self, cards: IntArray, rating: IntArray, at: FloatArray) -> None:
        """Update steps, lapses and intervals as Anki does."""
        integer, random = self.integer, self.random
        preset, phase = integer["preset"][cards], integer["phase"][cards]
        days_since = np.where(phase == _NEW, 0, self.day - integer["last_day"][cards])
        wish = self._intervals(cards, rating, days_since.astype(np.float64))
        wish = np.clip(wish, 1, self.longest[preset])
        interval = np.clip(fuzzed(random, wish), 1, self.longest[preset])

        lapsed = (phase == _IN_REVIEW) & (rating == 1)
        integer["lapses"][cards] += lapsed
        lapses = integer["lapses"][cards]
        leech = lapsed & (lapses >= _LEECH_LAPSES) & ((lapses - _LEECH_LAPSES) % 4 == 0)
        self.suspended[cards] |= leech & self.suspends_leeches[preset]

        relearning = lapsed | (phase == _IN_RELEARNING)
        stepping = relearning | (phase == _NEW) | (phase == _IN_LEARNING)
        table = (relearning.astype(np.int64), preset)
        total = self.step_count[table]
        step = np.where(lapsed | (phase == _NEW), 0, integer["step"][cards])
        # A lapse goes to the first step; Good advances by one, Hard repeats the step.
        step = np.where(rating == 1, 0, step + (rating == 3))
        leaves = stepping & ~lapsed & ((rating == 4) | (step >= total))
        place = np.minimum(step, total - 1)
        delay = self.steps[*table, place]
        longer = self.steps[*table, np.minimum(place + 1, total - 1)]
        # Hard on the first of several steps waits for the mean of the first two delays.
        delay = np.where((rating == 2) & (step == 0), (delay + longer) // 2, delay)

        stays = stepping & ~leaves
        integer["phase"][cards] = np.where(
            stays, np.where(relearning, _IN_RELEARNING, _IN_LEARNING), _IN_REVIEW
        )
        integer["step"][cards] = np.where(stays, step, 0)
        integer["delay_s"][cards] = np.where(stays, delay, 0)
        integer["due_s"][cards] = np.where(stays, at.astype(np.int64) + delay, 0)
        integer["interval"][cards] = np.where(
            stays & (phase != _IN_REVIEW) & ~relearning, 0, interval
        )
        integer["due_day"][cards] = self.day + interval

    def _intervals(self, cards: IntArray, rating: IntArray, days: FloatArray) -> FloatArray:
        """The scheduler's intervals in days, before fuzz and limits."""
        integer, number = self.integer, self.number
        preset, phase = integer["preset"][cards], integer["phase"][cards]
        if self.scheduler == "fsrs":
            w = self.stored_w[:, preset]
            stability = number["sched_stability"][cards]
            new = np.isnan(stability)
            first = first_state(w, rating)
            later = next_state(
                w,
                np.where(new, 1, stability),
                np.where(new, 5, number["sched_difficulty"][cards]),
                rating,
                days,
            )
            number["sched_stability"][cards] = np.where(new, first[0], later[0])
            number["sched_difficulty"][cards] = np.where(new, first[1], later[1])
            return interval_for(w, number["sched_stability"][cards], number["retention"][cards])

        ease, old = integer["ease"][cards] / 1000, integer["interval"][cards].astype(np.float64)
        late = np.maximum(days - old, 0)
        grown = np.select(
            [rating == 1, rating == 2, rating == 3],
            [np.ones(len(cards)), 1.2 * old, (old + late / 2) * ease],
            (old + late) * ease * 1.3,
        )
        change = np.select([rating == 1, rating == 2, rating == 4], [-200, -150, 150], 0)
        reviewing = phase == _IN_REVIEW
        integer["ease"][cards] = np.where(
            reviewing, np.maximum(integer["ease"][cards] + change, 1300), integer["ease"][cards]
        )
        graduating = np.where(rating == 4, 4.0, 1.0)
        kept = np.maximum(old, 1)  # a relearned card keeps the interval that its lapse left it
        return np.select([reviewing, phase == _IN_RELEARNING], [grown, kept], graduating)

    def _record(
        self, at_s: NDArray[np.floating[Any]], cards: IntArray, *columns: NDArray[Any]
    ) -> None:
        row = dict(
            zip(_ENTRY_COLUMNS, ((at_s * 1000).astype(np.int64), cards, *columns), strict=True)
        )
        self.entries.append(row)

    # Incidents

    def set_by_hand(self, cards: IntArray, days: IntArray | None) -> None:
        """Reset the cards (days None) or set their due dates."""
        if not len(cards):
            return
        count, none = len(cards), np.zeros(len(cards), np.int64)
        at = self.now_s + 0.001 * np.arange(1, count + 1)
        self.now_s = float(at[-1]) + 1
        last = self.integer["interval"][cards]
        unknown = np.full(count, np.nan)
        if days is None:
            self._record(at, cards, none, none + MANUAL, none, none, none, last, unknown)
            for name in ("phase", "step", "delay_s", "interval", "reps", "lapses"):
                self.integer[name][cards] = 0
            self.number["sched_stability"][cards] = np.nan
            self.number["sched_difficulty"][cards] = np.nan
            self.integer["ease"][cards] = 2500
        else:
            factor = self.integer["ease"][cards]
            self._record(at, cards, none, none + MANUAL, factor, none, days, last, unknown)
            self.integer["interval"][cards] = days
            self.integer["due_day"][cards] = self.day + days

    def some(self, share: float, *phases: int) -> IntArray:
        """A random `share` of the cards in these phases, at least one if there are any."""
        cards = self.active(*phases)
        count = min(len(cards), max(1, round(share * len(cards))))
        return np.sort(self.random.choice(cards, count, replace=False))

    def preview(self) -> None:
        """Cram in a filtered deck without rescheduling: log entries that leave memory unchanged."""
        cards = self.some(0.08, _IN_REVIEW)
        count, none = len(cards), np.zeros(len(cards), np.int64)
        seconds = np.clip(3 * np.exp(0.5 * self.random.standard_normal(count)), 0.8, 60.0)
        at = self.now_s + np.cumsum(seconds)
        if count:
            self.now_s = float(at[-1]) + 1
        fails = (self.random.random(count) < 0.2) & self.habits.forgets
        rating = np.where(fails, 1, 3)
        unknown = np.full(count, np.nan)
        self._record(at, cards, rating, none + FILTERED, none, seconds * 1000, none, none, unknown)

    def review_early(self) -> None:
        """Review cards before they are due, in a filtered deck that reschedules."""
        cards = self.some(0.05, _IN_REVIEW)
        early = self.integer["due_day"][cards] > self.day
        seen_today = self.integer["last_day"][cards] == self.day
        cards = cards[early & ~seen_today][: self.reviews - self.answered]
        if len(cards):
            self.ask(cards, np.zeros(len(cards)), early=True)

    def delete(self) -> None:
        """Delete notes with all of their cards; their reviews stay in the log."""
        notes = self.integer["note_id"][self.some(0.02, _IN_REVIEW)]
        self.deleted[: self.n] |= np.isin(self.integer["note_id"][: self.n], notes)
        self.waiting = [pair for pair in self.waiting if pair[0] not in set(notes.tolist())]

    # The end

    def finish(self, seed: int, memory: Mapping[int, tuple[float, ...]]) -> Learner:
        """Add unseen cards, put some into the filtered deck, and return everything as columns."""
        days = self.day + 1
        self.add_cards(self.n // 15, new_notes=True)
        for note, ordinal in self.waiting:
            owner = int(np.flatnonzero(self.integer["note_id"][: self.n] == note)[0])
            self._add_card(note, ordinal, int(self.integer["deck_id"][owner]))
        if days > 1:
            self.filtered[self.some(0.02, _IN_REVIEW)] = True
            self.suspended[self.some(0.01, _IN_REVIEW)] = True

        order = np.argsort(self.integer["card_id"][: self.n])
        integer = {name: column[order] for name, column in self.integer.items()}
        number = {name: column[order] for name, column in self.number.items()}
        suspended, filtered, deleted = (
            column[order] for column in (self.suspended, self.filtered, self.deleted)
        )
        column = {
            name: np.concatenate([row[name] for row in self.entries]) for name in _ENTRY_COLUMNS
        }
        whole = {
            name: np.round(values).astype(np.int64)
            for name, values in column.items()
            if name != "recall"
        }
        return Learner(
            seed=seed,
            entries=Entries(
                time_ms=whole["time_ms"],
                card_id=self.integer["card_id"][whole["card"]],
                rating=whole["rating"],
                kind=whole["kind"],
                factor=whole["factor"],
                duration_ms=whole["duration_ms"],
            ),
            interval=whole["interval"],
            last_interval=whole["last_interval"],
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
            ),
            decks=self.decks,
            presets=self.presets,
            scheduler=self.scheduler,
            memory=memory,
            recall=column["recall"],
            days=days,
        )


def _step_tables(presets: Sequence[Preset]) -> tuple[IntArray, IntArray]:
    """Learning (0) and relearning (1) steps of each preset in seconds, and their numbers."""
    kinds = [
        [preset.learning_steps for preset in presets],
        [preset.relearning_steps for preset in presets],
    ]
    count = np.array([[len(minutes) for minutes in steps] for steps in kinds])
    table = np.zeros((2, len(presets), count.max()), np.int64)
    for kind, steps in enumerate(kinds):
        for place, minutes in enumerate(steps):
            table[kind, place, : len(minutes)] = np.round(60 * np.array(minutes))
    return table, count


def _incident_plan(reviews: int) -> list[tuple[float, Callable[[_Simulation], None]]]:
    """Incidents in order, each with the number of answers after which it happens."""
    return [
        (0.30 * reviews, lambda sim: sim.set_by_hand(sim.some(0.01, _IN_REVIEW), None)),
        (0.45 * reviews, _Simulation.preview),
        (0.50 * reviews, _postpone),
        (0.60 * reviews, _Simulation.review_early),
        (0.70 * reviews, _Simulation.delete),
        (0.80 * reviews, lambda sim: sim.set_by_hand(sim.some(0.004, _IN_REVIEW), None)),
    ]


def _postpone(sim: _Simulation) -> None:
    cards = sim.some(0.03, _IN_REVIEW)
    sim.set_by_hand(cards, sim.random.integers(1, 15, len(cards)))
