"""Simulate a learner's studying day by day: memory, habits, scheduler and incidents.

A learner has a memory (the formulas of FSRS-6 with the learner's own parameters for each
preset, and cards of different difficulty; or another kind of memory) and
habits: pauses, answer times, preferred buttons. A scheduler as in Anki (learning and
relearning steps, then FSRS with the preset's parameters, or SM-2, with fuzz) decides which
cards are shown. Other things that real collections contain are there too: reviews of deleted
cards, leeches, filtered decks, a reset, due dates set by hand.

Steps, intervals and log entries as in ankitects/anki (rslib/src/scheduler).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import (
    FILTERED,
    LEARNING,
    MANUAL,
    RELEARNING,
    REVIEW,
    FloatArray,
    IntArray,
    Preset,
)
from tools.simulated.character import (
    CREATED_MS,
    DAY_S,
    FACTS,
    FIRST_DAY_S,
    LEECH_SHIFT,
    LEECH_SPEED,
    WORDS,
    Character,
)
from tools.simulated.memory import (
    DEFAULT_PARAMETERS,
    Moment,
    Traits,
    first_state,
    fuzz_interval,
    interval_for,
    next_state,
)

_BoolArray = NDArray[np.bool_]

_LEECH_LAPSES = 8
_NEW, _IN_LEARNING, IN_REVIEW, _IN_RELEARNING = range(4)
_KIND_OF_PHASE = np.array([LEARNING, LEARNING, REVIEW, RELEARNING])
ENTRY_COLUMNS = (
    "time_ms", "card", "rating", "kind", "factor", "duration_ms", "interval", "last_interval",
    "recall",
)  # fmt: skip


class Simulation:
    """The running state: arrays with one element per card, in order of creation."""

    def __init__(
        self,
        random: np.random.Generator,
        reviews: int,
        character: Character,
        card_room: int | None = None,
    ) -> None:
        """Start a learner of at most `reviews` answers and `card_room` cards.

        Without `card_room` there is room for two cards for each answer.
        """
        self.random = random
        self.habits = character.habits
        self.scheduler = character.scheduler
        self.decks = character.decks
        self.presets = character.presets
        self.memory = character.memory
        self.deck_ids = list(character.shares)
        self.deck_shares = list(character.shares.values())
        self.spread = character.spread
        self.usual_strength = math.log(character.strength)
        self.card_shift = character.card_shift
        self.leech_share = character.leech_share
        self.topic = character.topic
        self.topic_spread = np.array(character.topic_spread)
        self.topic_shift = np.zeros(2)
        self.form = 0.0
        self.form_of_day: dict[int, float] = {}
        presets = character.presets
        self.reviews = reviews
        self.answered = 0
        self.day = -1
        self.now_s = 0.0
        self.entries: list[dict[str, NDArray[Any]]] = []

        # Per preset and per deck, looked up by position.
        self.preset_ids = list(presets)
        self.stored_w = np.array(
            [presets[preset].fsrs_parameters.get(6, DEFAULT_PARAMETERS) for preset in presets]
        ).T
        self.steps, self.step_count = _make_step_tables(list(presets.values()))
        self.longest = np.array([preset.maximum_interval for preset in presets.values()])
        self.suspends_leeches = np.array(
            [character.suspends_leeches and preset != FACTS for preset in presets]
        )

        # Room for a card per answer, and for the unseen ones added at the end.
        size = 2 * reviews + 400 if card_room is None else card_room
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
                "sched_stability", "sched_difficulty",  # as the scheduler estimates
                "strength", "hardness", "shift", "retention", "time",
            )
        }  # fmt: skip
        self.suspended, self.deleted, self.filtered, self.is_leech = np.zeros((4, size), np.bool_)
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
                deck == WORDS
                and not new_notes
                and len(self.waiting) > 10
                and self.random.random() < 0.6
            ):
                note = self.waiting.pop(0)[0]
                ordinal = 1
            else:
                note = CREATED_MS + 1_000_000 + 7_300 * self.notes
                ordinal = 0
                self.notes += 1
                if deck == WORDS:
                    self.waiting.append((note, 1))
            self.add_card(note, ordinal, deck)
        return np.arange(begin, self.n)

    def add_card(self, note: int, ordinal: int, deck: int) -> None:
        at = self.n
        integer = self.integer
        number = self.number
        preset = self.decks[deck].preset_id
        assert preset is not None
        retention = self.decks[deck].desired_retention or self.presets[preset].desired_retention
        integer["card_id"][at] = note + ordinal
        integer["note_id"][at] = note
        integer["ordinal"][at] = ordinal
        integer["deck_id"][at] = deck
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
        number["shift"][at] = 0.0
        if self.card_shift:
            number["shift"][at] = self.card_shift * self.random.standard_normal()
        if self.leech_share and self.random.random() < self.leech_share:
            self.is_leech[at] = True
            number["shift"][at] += LEECH_SHIFT
        usual = math.exp(self.usual_strength)
        number["time"][at] = (number["strength"][at] / usual) ** -self.habits.weak_time
        if self.habits.card_time:
            number["time"][at] *= math.exp(self.habits.card_time * self.random.standard_normal())
        self.n += 1

    def active_cards(self, *phases: int) -> IntArray:
        """Return positions of the cards in these phases that are neither suspended nor deleted."""
        n = self.n
        in_phases = np.isin(self.integer["phase"][:n], phases)
        return np.flatnonzero(in_phases & ~self.suspended[:n] & ~self.deleted[:n])

    # Time

    def begin_day(self) -> None:
        hour = np.clip(self.habits.hour + 1.5 * self.random.standard_normal(), 0.5, 20.0)
        self.now_s = max(self.now_s + 1, FIRST_DAY_S + self.day * DAY_S + float(hour) * 3600)
        if self.habits.form:
            lasts = self.habits.form_lasts if self.form_of_day else 0.0  # the first day has no past
            news = self.habits.form * math.sqrt(1 - lasts**2) * self.random.standard_normal()
            self.form = lasts * self.form + news
        self.form_of_day[self.day] = self.form

    def study(self, new: int) -> None:
        """Simulate a day's reviews: due and new cards, then learning steps until none is left."""
        due = self.active_cards(IN_REVIEW)
        due = due[self.integer["due_day"][due] <= self.day]
        due = due[np.argsort(self.integer["due_day"][due], kind="stable")]
        cards = np.concatenate(
            [
                self.active_cards(_IN_LEARNING, _IN_RELEARNING),
                due[: self.habits.daily_limit],
                self.active_cards(_NEW)[:5],  # reset by hand
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
            unfinished = cards[
                np.isin(self.integer["phase"][cards], (_IN_LEARNING, _IN_RELEARNING))
            ]
            unfinished = unfinished[~self.suspended[unfinished]]
            cards = unfinished[np.argsort(self.integer["due_s"][unfinished], kind="stable")]
            not_before = self.integer["due_s"][cards].astype(np.float64)
            if self.now_s > FIRST_DAY_S + (self.day + 1) * DAY_S - 3600:
                return

    # Answers

    def ask(self, cards: IntArray, not_before: FloatArray, early: bool = False) -> None:
        """Show cards in turn, none before its time, and record the answers."""
        count = len(cards)
        seconds = self.habits.seconds * self.number["time"][cards]
        seconds *= np.exp(self.habits.time_spread * self.random.standard_normal(count))
        if self.habits.slowing:
            seconds *= self._answer_time_factor(cards, np.maximum(self.now_s, not_before))
        seconds = np.clip(seconds, 0.8, 60.0)  # Anki stops the clock after a minute
        spent = np.cumsum(seconds + 0.4)
        at = spent + np.maximum(
            self.now_s, np.maximum.accumulate(not_before - np.concatenate([[0.0], spent[:-1]]))
        )
        self.now_s = float(at[-1])

        recall, rating = self._draw_answers(cards, at)
        self.memory.learn(cards, rating, self._make_moment(cards, at))
        rating = self._hide_lapses(cards, rating)
        before = self.integer["phase"][cards]
        last = np.where(
            before == IN_REVIEW, self.integer["interval"][cards], -self.integer["delay_s"][cards]
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
            phase == IN_REVIEW, self.integer["interval"][cards], -self.integer["delay_s"][cards]
        )
        took_ms = 1000 * seconds * self.habits.timed
        self._record(
            at,
            cards,
            rating=rating,
            kind=kind,
            factor=factor,
            duration_ms=took_ms,
            interval=interval,
            last_interval=last,
            recall=recall,
        )
        self.integer["last_s"][cards] = at.astype(np.int64)
        self.integer["last_day"][cards] = self.day
        self.integer["reps"][cards] += 1
        self.answered += count

    def _make_moment(self, cards: IntArray, at: FloatArray) -> Moment:
        days = (self.day - self.integer["last_day"][cards]).astype(np.float64)
        same_day = (at - self.integer["last_s"][cards]) / DAY_S
        return Moment((at - FIRST_DAY_S) / DAY_S, days, np.where(days > 0, days, same_day))

    def _recall(self, cards: IntArray, at: FloatArray) -> tuple[FloatArray, _BoolArray]:
        """Return the probability of recall (NaN if unseen) and which cards have been seen."""
        seen = self.memory.seen(cards)
        moment = self._make_moment(cards, at)
        recall = np.full(len(cards), np.nan)
        speed = np.where(self.is_leech[cards], LEECH_SPEED, 1.0)
        moment = Moment(moment.time, speed * moment.days, speed * moment.waited)
        recall_of_seen = self.memory.recall(
            cards[seen], Moment(*(column[seen] for column in moment))
        )
        if self.form or self.card_shift or self.leech_share:
            shift = self.form + self.number["shift"][cards[seen]]
            recall_of_seen = recall_of_seen / (
                recall_of_seen + (1 - recall_of_seen) * np.exp(-shift)
            )
        recall[seen] = recall_of_seen * (1 - self.habits.slip)
        return recall, seen

    def _answer_time_factor(self, cards: IntArray, at: FloatArray) -> FloatArray:
        """Return a factor on each answer's time; answers take longer where recall is unlikely."""
        recall = np.clip(np.nan_to_num(self._recall(cards, at)[0], nan=0.5), 0.1, 0.995)
        logit = np.log(recall / (1 - recall))
        result: FloatArray = np.exp(0.25 * self.habits.slowing * (2.2 - logit))
        return result

    def _draw_answers(self, cards: IntArray, at: FloatArray) -> tuple[FloatArray, IntArray]:
        """Draw answers; return the probability of recall (NaN if unseen) and the buttons."""
        habits = self.habits
        recall, seen = self._recall(cards, at)
        if not habits.forgets:
            recall[seen] = 1.0
        chance = self.random.random((2, len(cards)))
        draw = chance[0]
        if habits.first_tells:
            draw = self._draw_by_strength(cards, draw)
        first = 1 + np.searchsorted(np.cumsum(habits.first)[:-1], draw, side="right")
        shaky = habits.hard_when_unsure * (1 - np.nan_to_num(recall, nan=1.0))
        hard = habits.hard * np.nan_to_num(self.memory.difficulty(cards)) / 5 * (1 + 6 * shaky)
        easy = habits.easy / (1 + 6 * shaky)
        if habits.buttons_tell:
            odds = np.exp(habits.buttons_tell * self._estimate_ease(cards, recall))
            hard = hard / (hard + np.maximum(1 - hard, 0) * odds)
            easy = easy * odds / (easy * odds + 1 - easy)
        passed = np.where(chance[1] < hard, 2, np.where(chance[1] > 1 - easy, 4, 3))
        later = np.where(chance[0] < recall, passed, 1)
        return recall, np.where(seen, later, first)

    def _hide_lapses(self, cards: IntArray, rating: IntArray) -> IntArray:
        """Return the buttons that are pressed; some learners press Hard or Easy after a lapse."""
        hard = self.habits.hard_for_lapses
        easy = self.habits.easy_for_lapses
        if not hard and not easy:
            return rating
        is_lapse = (rating == 1) & (self.integer["phase"][cards] == IN_REVIEW)
        draw = self.random.random(len(cards))
        hidden = np.where(draw < hard, 2, np.where(draw < hard + easy, 4, 1))
        return np.where(is_lapse, hidden, rating)

    def _draw_by_strength(self, cards: IntArray, chance: FloatArray) -> FloatArray:
        """Draw uniform values that correlate with the cards' strengths."""
        from scipy.special import ndtr, ndtri

        strength = np.log(self.number["strength"][cards]) - self.usual_strength
        correlation = self.habits.first_tells
        score = correlation * strength / math.hypot(self.spread[0], self.topic_spread[0])
        result: FloatArray = ndtr(score + math.sqrt(1 - correlation**2) * ndtri(chance))
        return result

    def _estimate_ease(self, cards: IntArray, recall: FloatArray) -> FloatArray:
        """Estimate how easy the cards feel, around 0: likely recalls and strong cards feel easy."""
        likely = np.clip(np.nan_to_num(recall, nan=0.9), 0.3, 0.995)
        strength = np.log(self.number["strength"][cards]) - self.usual_strength
        ease = 0.5 * (np.log(likely / (1 - likely)) - 2.2) + 0.7 * strength
        result: FloatArray = np.clip(ease - 0.5 * self.number["hardness"][cards], -2.5, 2.5)
        return result

    def _schedule(self, cards: IntArray, rating: IntArray, at: FloatArray) -> None:
        """Update steps, lapses and intervals as Anki does."""
        integer = self.integer
        random = self.random
        preset = integer["preset"][cards]
        phase = integer["phase"][cards]
        days_since = np.where(phase == _NEW, 0, self.day - integer["last_day"][cards])
        wish = self._intervals(cards, rating, days_since.astype(np.float64))
        wish = np.clip(wish, 1, self.longest[preset])
        interval = np.clip(fuzz_interval(random, wish), 1, self.longest[preset])

        lapsed = (phase == IN_REVIEW) & (rating == 1)
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
        step_index = np.minimum(step, total - 1)
        delay = self.steps[*table, step_index]
        longer = self.steps[*table, np.minimum(step_index + 1, total - 1)]
        # Hard on the first of several steps waits for the mean of the first two delays.
        delay = np.where((rating == 2) & (step == 0), (delay + longer) // 2, delay)

        stays = stepping & ~leaves
        integer["phase"][cards] = np.where(
            stays, np.where(relearning, _IN_RELEARNING, _IN_LEARNING), IN_REVIEW
        )
        integer["step"][cards] = np.where(stays, step, 0)
        integer["delay_s"][cards] = np.where(stays, delay, 0)
        integer["due_s"][cards] = np.where(stays, at.astype(np.int64) + delay, 0)
        integer["interval"][cards] = np.where(
            stays & (phase != IN_REVIEW) & ~relearning, 0, interval
        )
        integer["due_day"][cards] = self.day + interval

    def _intervals(self, cards: IntArray, rating: IntArray, days: FloatArray) -> FloatArray:
        """Return the scheduler's intervals in days, before fuzz and limits."""
        integer = self.integer
        number = self.number
        preset = integer["preset"][cards]
        phase = integer["phase"][cards]
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

        ease = integer["ease"][cards] / 1000
        old = integer["interval"][cards].astype(np.float64)
        late = np.maximum(days - old, 0)
        grown = np.select(
            [rating == 1, rating == 2, rating == 3],
            [np.ones(len(cards)), 1.2 * old, (old + late / 2) * ease],
            (old + late) * ease * 1.3,
        )
        change = np.select([rating == 1, rating == 2, rating == 4], [-200, -150, 150], 0)
        reviewing = phase == IN_REVIEW
        integer["ease"][cards] = np.where(
            reviewing, np.maximum(integer["ease"][cards] + change, 1300), integer["ease"][cards]
        )
        graduating = np.where(rating == 4, 4.0, 1.0)
        lapse_interval = np.maximum(old, 1)  # a relearned card keeps the interval from its lapse
        return np.select([reviewing, phase == _IN_RELEARNING], [grown, lapse_interval], graduating)

    def _record(
        self,
        at_s: NDArray[np.floating[Any]],
        cards: IntArray,
        *,
        rating: NDArray[Any],
        kind: NDArray[Any],
        factor: NDArray[Any],
        duration_ms: NDArray[Any],
        interval: NDArray[Any],
        last_interval: NDArray[Any],
        recall: NDArray[Any],
    ) -> None:
        """Add entries to the log; arrays (n,)."""
        self.entries.append(
            {
                "time_ms": (at_s * 1000).astype(np.int64),
                "card": cards,
                "rating": rating,
                "kind": kind,
                "factor": factor,
                "duration_ms": duration_ms,
                "interval": interval,
                "last_interval": last_interval,
                "recall": recall,
            }
        )

    # Incidents

    def set_by_hand(self, cards: IntArray, days: IntArray | None) -> None:
        """Reset the cards (days None) or set their due dates."""
        if not len(cards):
            return
        count = len(cards)
        none = np.zeros(len(cards), np.int64)
        at = self.now_s + 0.001 * np.arange(1, count + 1)
        self.now_s = float(at[-1]) + 1
        last = self.integer["interval"][cards]
        unknown = np.full(count, np.nan)
        if days is None:
            self._record(
                at,
                cards,
                rating=none,
                kind=none + MANUAL,
                factor=none,
                duration_ms=none,
                interval=none,
                last_interval=last,
                recall=unknown,
            )
            for name in ("phase", "step", "delay_s", "interval", "reps", "lapses"):
                self.integer[name][cards] = 0
            self.number["sched_stability"][cards] = np.nan
            self.number["sched_difficulty"][cards] = np.nan
            self.integer["ease"][cards] = 2500
        else:
            factor = self.integer["ease"][cards]
            self._record(
                at,
                cards,
                rating=none,
                kind=none + MANUAL,
                factor=factor,
                duration_ms=none,
                interval=days,
                last_interval=last,
                recall=unknown,
            )
            self.integer["interval"][cards] = days
            self.integer["due_day"][cards] = self.day + days

    def draw_share(self, share: float, *phases: int) -> IntArray:
        """Draw a random `share` of the cards in these phases, at least one if there are any."""
        cards = self.active_cards(*phases)
        count = min(len(cards), max(1, round(share * len(cards))))
        return np.sort(self.random.choice(cards, count, replace=False))

    def preview(self) -> None:
        """Cram in a filtered deck without rescheduling: log entries that leave memory unchanged."""
        cards = self.draw_share(0.08, IN_REVIEW)
        count = len(cards)
        none = np.zeros(len(cards), np.int64)
        seconds = np.clip(3 * np.exp(0.5 * self.random.standard_normal(count)), 0.8, 60.0)
        at = self.now_s + np.cumsum(seconds)
        if count:
            self.now_s = float(at[-1]) + 1
        fails = (self.random.random(count) < 0.2) & self.habits.forgets
        rating = np.where(fails, 1, 3)
        unknown = np.full(count, np.nan)
        self._record(
            at,
            cards,
            rating=rating,
            kind=none + FILTERED,
            factor=none,
            duration_ms=seconds * 1000,
            interval=none,
            last_interval=none,
            recall=unknown,
        )

    def review_early(self) -> None:
        """Review cards before they are due, in a filtered deck that reschedules."""
        cards = self.draw_share(0.05, IN_REVIEW)
        early = self.integer["due_day"][cards] > self.day
        seen_today = self.integer["last_day"][cards] == self.day
        cards = cards[early & ~seen_today][: self.reviews - self.answered]
        if len(cards):
            self.ask(cards, np.zeros(len(cards)), early=True)

    def delete(self) -> None:
        """Delete notes with all of their cards; their reviews stay in the log."""
        notes = self.integer["note_id"][self.draw_share(0.02, IN_REVIEW)]
        self.deleted[: self.n] |= np.isin(self.integer["note_id"][: self.n], notes)
        self.waiting = [pair for pair in self.waiting if pair[0] not in set(notes.tolist())]


def _make_step_tables(presets: Sequence[Preset]) -> tuple[IntArray, IntArray]:
    """Return learning (0) and relearning (1) steps of each preset in seconds, and their numbers."""
    kinds = [
        [preset.learning_steps for preset in presets],
        [preset.relearning_steps for preset in presets],
    ]
    counts = []
    for steps in kinds:
        counts.append([len(minutes) for minutes in steps])
    count = np.array(counts)
    table = np.zeros((2, len(presets), count.max()), np.int64)
    for kind, steps in enumerate(kinds):
        for number, minutes in enumerate(steps):
            table[kind, number, : len(minutes)] = np.round(60 * np.array(minutes))
    return table, count
