"""Learners whose true memory is known and is not always FSRS, to check what the program says.

    simulate_world(World(truth="power law", skipped=0.05), seed=1, reviews=3_000)

A `World` says what is true of its learners; each seed gives another one. The program's answers
about them are compared with the known probabilities of recall (`SimulatedLearner.recall`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from srs_eval.data.reviews import FloatArray
from tools.pretraining.memories import ActR, PowerLaw
from tools.simulated.character import REVIEWS_A_DAY, Character, Habits, make_single_deck
from tools.simulated.learner import SimulatedLearner, simulate_learner
from tools.simulated.memory import DEFAULT_PARAMETERS, Fsrs6, Memory

Truth = Literal["FSRS-6", "ACT-R", "power law"]
TRUTHS: tuple[Truth, ...] = ("power law", "ACT-R", "FSRS-6")
Stored = Literal["defaults", "true", "bold"]
"""Parameters in force: FSRS-6's defaults, the true ones, or ones that expect too much. For other
memories than FSRS-6 there are no true ones, and the defaults are in force."""

_BETTER_RECALL = 0.6
"""Activation by which a card is recalled more easily than in the literature's experiments, so that
learners of ACT-R's kind remember 80 to 95 of 100, as most people with Anki do."""


_HARD_GROWTH_QUANTILES = (0.0, 0.014, 0.056, 0.139, 0.231, 0.325, 0.478, 0.749, 1.0)
_HARD_GROWTH_LEVELS = (0.03, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975, 1.0)
"""Quantiles of FSRS-5's w15, fitted to each of 9,999 published users, and the shares of users below
them; 3 % of users have 0. w15 is the growth of stability after Hard, relative to Good's."""


@dataclass(frozen=True)
class World:
    """What is true of the learners of a world, who have one deck and one preset."""

    truth: Truth = "FSRS-6"
    scheduler: Literal["fsrs", "sm2"] = "fsrs"
    stored: Stored = "defaults"
    retention: float = 0.9  # desired
    day_sd: float = 0.4  # standard deviation of a day's shift of the logit of recall
    day_persistence: float = 0.4  # phi of these shifts, an AR(1) process
    skipped: float = 0.03  # share of the days without reviews
    card_shift: float = 0.0  # standard deviation of a card's own shift of the logit
    card_speed: float = 0.0  # standard deviation of the logarithm of a card's strength
    leeches: float = 0.0  # share of cards that are forgotten far more often
    suspends_leeches: bool = True  # as Anki does after eight lapses
    hard_when_unsure: float = 0.0  # how far Hard is pressed more often where recall was unlikely
    varies_hard: bool = False  # growth after Hard is drawn as among published users
    hard_for_lapses: float = 0.0  # share of lapses answered with Hard
    easy_for_lapses: float = 0.0  # share of lapses answered with Easy
    new_per_day: tuple[int, int] = (4, 12)  # fewest and most


def draw_character(world: World, random: np.random.Generator) -> Character:
    """Draw one learner's memory, habits and settings."""
    w = _draw_parameters(random)
    if world.varies_hard:
        w[15] = np.interp(random.random(), _HARD_GROWTH_LEVELS, _HARD_GROWTH_QUANTILES)
    stored = np.array(DEFAULT_PARAMETERS)
    memory: Memory
    if world.truth == "ACT-R":
        memory = ActR.around_literature(random)
        memory.tau -= _BETTER_RECALL
    elif world.truth == "power law":
        memory = PowerLaw.draw(random)
    else:
        memory = Fsrs6(w[:, None])
        if world.stored != "defaults":
            stored = w.copy()
        if world.stored == "bold":
            stored[8] += random.uniform(0.3, 0.8)
    decks, presets, shares = make_single_deck(
        tuple(stored.tolist()), world.retention, (1.0, 10.0), (10.0,)
    )
    habits = Habits(
        first=np.array([0.25, 0.1, 0.5, 0.15]),
        hard=float(random.uniform(0.03, 0.1)),
        easy=float(random.uniform(0.03, 0.1)),
        forgets=True,
        skip=world.skipped,
        stop=0.0,
        seconds=float(random.uniform(6.0, 14.0)),
        hour=8.0,
        daily_limit=REVIEWS_A_DAY,
        slowing=0.6,  # as in the averages of many learners, Again takes half as long again as Good
        long_pause=0.0,
        new_share=1.0,
        new_per_day=int(random.integers(world.new_per_day[0], world.new_per_day[1] + 1)),
        form=world.day_sd,
        form_lasts=world.day_persistence,
        hard_when_unsure=world.hard_when_unsure,
        hard_for_lapses=world.hard_for_lapses,
        easy_for_lapses=world.easy_for_lapses,
    )
    return Character(
        memory=memory,
        habits=habits,
        scheduler=world.scheduler,
        decks=decks,
        presets=presets,
        shares=shares,
        spread=(world.card_speed, 0.0),
        strength_lasts=1.0,
        card_shift=world.card_shift,
        leech_share=world.leeches,
        suspends_leeches=world.suspends_leeches,
    )


def _draw_parameters(random: np.random.Generator) -> FloatArray:
    """Draw FSRS-6 parameters of a learner who forgets more slowly than its defaults say."""
    w = np.array(DEFAULT_PARAMETERS)
    w[:4] *= np.exp(random.normal(0.5, 0.3, 4))
    w[8] += random.normal(0, 0.15)
    return w


def simulate_world(world: World, seed: int, reviews: int) -> SimulatedLearner:
    """Simulate a learner of this world with exactly `reviews` answers."""
    character = draw_character(world, np.random.default_rng(seed))
    return simulate_learner(seed, reviews, incidents=False, character=character)
