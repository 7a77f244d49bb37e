"""Describe the learner to simulate: memory, habits, decks, presets and how cards differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from srs_eval.data.reviews import Deck, FloatArray, Preset
from tools.simulated.memory import DEFAULT_PARAMETERS, SPREAD, Fsrs6, Memory

DAY_S = 86_400
ROLLOVER_HOUR = 4
UTC_OFFSET_HOURS = 1
FIRST_DAY_S = 1_693_796_400  # 4 September 2023, 4:00 at UTC+1
_MAXIMUM_INTERVAL = 36_500
# Limits of a preset.
NEW_A_DAY = 20
REVIEWS_A_DAY = 250
LEECH_SHIFT = -2.3  # of the logit of recall
LEECH_SPEED = 3.0  # factor on the time over which a leech is forgotten
SM2_SETTINGS = (1.0, 4.0, 2.5, 1.3, 1.2, 0.0, 1.0)  # a new preset's, see Preset.sm2_settings


@dataclass(frozen=True)
class Habits:
    """A learner's behaviour, apart from memory."""

    first: FloatArray  # (4,) probabilities of the buttons at a first review
    hard: float  # probability of Hard on recall, and of Easy
    easy: float
    forgets: bool
    skip: float  # probability of skipping a day
    stop: float  # probability of leaving cards in learning for the next day
    seconds: float  # median answer time
    hour: float  # at which a day's reviews begin, counted from the rollover
    daily_limit: int
    hard_when_unsure: float = 0.0  # rise in Hard presses when recall was unlikely
    slowing: float = 0.0  # slowdown of answers when recall was unlikely
    time_spread: float = 0.55  # standard deviation of an answer time's logarithm
    card_time: float = 0.0  # the same for the part that is each card's own
    weak_time: float = 0.0  # answer times go with a card's strength to the power of minus this
    buttons_tell: float = 0.0
    """Tendency of strong cards to get Easy, and of weak ones to get Hard: the change of either's
    logit for one standard deviation of the underlying score."""
    first_tells: float = 0.0  # correlation of the first button with a card's strength
    timed: bool = True  # False: the program kept no answer times
    slip: float = 0.0  # share of remembered cards that are failed anyway
    long_pause: float = 0.005  # probability that a day begins a pause
    pause_days: int = 15  # the longest pause
    new_share: float = 0.9  # share of the days with new cards
    new_per_day: int | None = None
    form: float = 0.0
    """Good and bad days: standard deviation of a day's shift of the logit of recall."""
    form_lasts: float = 0.0  # correlation with that of the last day with reviews
    hard_for_lapses: float = 0.0  # share of forgotten cards that are answered with Hard
    easy_for_lapses: float = 0.0  # the same with Easy


@dataclass(frozen=True, eq=False)
class Character:
    """A learner to simulate: memory, habits and settings."""

    memory: Memory
    habits: Habits
    scheduler: Literal["fsrs", "sm2"]
    decks: Mapping[int, Deck]
    presets: Mapping[int, Preset]
    shares: Mapping[int, float]  # of cards, by deck
    spread: tuple[float, float] = (0.35, 0.8)
    """Standard deviations of the logarithm of a card's strength and of its hardness."""
    topic: int = 0  # average number of consecutively begun cards that belong together; 0: none do
    topic_spread: tuple[float, float] = (0.0, 0.0)
    """Like `spread`, for what the cards of a topic have in common."""
    strength: float = 1.0  # median of the cards' strengths
    strength_lasts: float = 0.0  # see `Traits.lasting`
    card_shift: float = 0.0
    """Standard deviation of a card's own shift of the logit of recall."""
    leech_share: float = 0.0
    """Share of cards whose recall is lower by `LEECH_SHIFT` and that are forgotten faster."""
    suspends_leeches: bool = True  # as Anki does after eight lapses


def draw_character(
    random: np.random.Generator, scheduler: Literal["fsrs", "sm2"], buttons: int, forgets: bool
) -> Character:
    """Draw a learner with two presets and a memory of FSRS-6 for each."""
    presets, memory = _draw_presets(random)
    return Character(
        memory=Fsrs6(np.array(list(memory.values())).T),
        decks=_make_decks(),
        habits=_draw_habits(random, buttons, forgets),
        scheduler=scheduler,
        presets=presets,
        shares=_DECK_SHARES,
    )


def _draw_habits(random: np.random.Generator, buttons: int, forgets: bool) -> Habits:
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
CREATED_MS = (FIRST_DAY_S - 40 * DAY_S) * 1000
LANGUAGES = CREATED_MS + 1
FACTS = CREATED_MS + 2
_LANGUAGES_DECK, WORDS, _SENTENCES, _GEOGRAPHY, _ANATOMY = (CREATED_MS + k for k in range(11, 16))
FILTERED_DECK = CREATED_MS + 20
_DECK_SHARES = {WORDS: 0.45, _SENTENCES: 0.15, _GEOGRAPHY: 0.25, _ANATOMY: 0.15}


def _make_decks() -> dict[int, Deck]:
    return {
        deck.id: deck
        for deck in (
            Deck(1, "Default", 1),
            Deck(_LANGUAGES_DECK, "Languages", LANGUAGES),
            Deck(WORDS, "Languages::Words", LANGUAGES, _LANGUAGES_DECK),
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


def _make_preset(
    identity: int, name: str, fsrs_parameters: Mapping[int, tuple[float, ...]]
) -> Preset:
    """Make a preset with Anki's defaults for everything else."""
    return Preset(
        identity,
        name,
        fsrs_parameters,
        desired_retention=0.9,
        historical_retention=0.9,
        ignore_before=None,
        learning_steps=(1.0, 10.0),
        relearning_steps=(10.0,),
        maximum_interval=_MAXIMUM_INTERVAL,
        sm2_settings=SM2_SETTINGS,
        new_a_day=NEW_A_DAY,
        reviews_a_day=REVIEWS_A_DAY,
        modified_s=FIRST_DAY_S,
    )


def _draw_presets(
    random: np.random.Generator,
) -> tuple[dict[int, Preset], dict[int, tuple[float, ...]]]:
    """Draw the presets and the true parameters of the memory for each.

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
    languages = learner.copy()
    facts = learner.copy()
    languages[:4] *= 0.7
    facts[:4] *= 2.0
    facts[8] += 0.3
    stored = tuple(vary(languages, 0.1).tolist())
    foreign = tuple(vary(np.array(DEFAULT_PARAMETERS), 1.5).tolist())
    presets = (
        _make_preset(1, "Default", {}),
        _make_preset(LANGUAGES, "Languages", {6: stored}),
        replace(
            _make_preset(FACTS, "Facts", {5: _FSRS5_DEFAULTS, 6: foreign}),
            desired_retention=0.92,
            learning_steps=(1.0, 10.0, 30.0),
            relearning_steps=(10.0, 30.0),
            maximum_interval=3650,
        ),
    )
    memory = {1: learner, LANGUAGES: languages, FACTS: facts}
    return {preset.id: preset for preset in presets}, {
        preset: tuple(np.round(parameters, 6).tolist()) for preset, parameters in memory.items()
    }


def make_single_deck(
    stored: tuple[float, ...],
    retention: float,
    learning_steps: tuple[float, ...],
    relearning_steps: tuple[float, ...],
) -> tuple[dict[int, Deck], dict[int, Preset], dict[int, float]]:
    """Return decks, presets and deck shares of a `Character` with one deck and these settings."""
    preset = replace(
        _make_preset(1, "Default", {6: stored}),
        desired_retention=retention,
        learning_steps=learning_steps,
        relearning_steps=relearning_steps,
    )
    decks = {
        1: Deck(1, "Default", 1),
        FILTERED_DECK: Deck(FILTERED_DECK, "Cram", None, filtered=True),
    }
    return decks, {1: preset}, {1: 1.0}
