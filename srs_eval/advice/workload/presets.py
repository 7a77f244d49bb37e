"""Simulate the cards of several presets side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from srs_eval.advice.candidates import Learner
from srs_eval.advice.workload import simulator as sim
from srs_eval.advice.workload import today as habits
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.models import anki_sm2
from srs_eval.models.own_parameters import model_name, normalize_parameters, preset_parameters

CURRENT_REPEATS = 12  # simulations of today's schedule, which is simulated at one retention only
REPEATS = 4  # simulations at each desired retention by the fit to all reviews
_FEWEST_TO_FIT = 64  # below, Anki's optimizer hardly changes the defaults

Simulations = list[list[list[sim.SimulationResult]]]  # by desired retention, seed and preset


@dataclass(frozen=True, eq=False)
class PresetCards:
    """Inputs for simulating a preset's cards."""

    group: int
    index: IntArray  # positions of the preset's reviews among the trials
    today: habits.TodaysCards
    scheduler: sim.Memory  # today's scheduler
    sm2: sim.Memory  # SM-2 with the preset's settings
    settings: sim.SimulationSettings  # its `desired_retention` is replaced in each simulation
    costs: sim.Costs
    desired_retention: float

    def simulate_once(
        self,
        scheduler: sim.Memory,
        memory: sim.Memory,
        deck: sim.SimulatedDeck,
        seed: int,
        retention: float,
    ) -> sim.SimulationResult:
        """Run one simulation; recall follows the memory.

        Scheduler and memory are simulated apart even where they are the same, so that one kernel
        serves estimates and draws.
        """
        settings = replace(self.settings, desired_retention=retention)
        return sim.simulate(scheduler, deck, self.costs, settings, seed, memory)


def prepare_preset(
    learner: Learner,
    group: int,
    days: int,
    after: int,
    parameters: Sequence[float] | None,
    *,
    is_off: bool,
) -> PresetCards:
    """Prepare a simulation of `days` days that starts `after` days after the end of the log.

    Raises InputError if the log does not say how or when cards are scheduled.
    """
    log = learner.log
    preset = log.presets.get(group)
    if preset is None:
        raise InputError(f"{log.import_summary.path} does not say how these cards are scheduled.")
    sm2 = sim.Memory(sim.SM2, preset.sm2_settings or anki_sm2.DEFAULTS)
    scheduler = sm2
    if not is_off:
        values = (
            preset_parameters(preset) if parameters is None else normalize_parameters(parameters)
        )
        scheduler = sim.Memory(model_name(values), tuple(values))
    return PresetCards(
        group=group,
        index=learner.positions(group),
        today=habits.collect_todays_cards(log, group, after),
        scheduler=scheduler,
        sm2=sm2,
        settings=habits.simulation_settings(preset, days, 0),
        costs=habits.estimate_costs(log, habits.active_cards_of_preset(log, group)),
        desired_retention=round(preset.desired_retention or 0.9, 2),
    )


def fit_and_draw(
    learner: Learner, preset: PresetCards, count: int, model: str
) -> Iterator[sim.Memory]:
    """Yield the fit to all of a preset's reviews, then `count` draws, then the fit without end.

    If there are too few reviews to fit, yield the defaults without end.
    """
    best = sim.Memory(model, sim.MODELS[model].default)
    trials = learner.trials
    index = preset.index
    if model == "FSRS-7":
        trials = learner.session.trials(replace(trials.protocol, secs=True))
        index = np.flatnonzero(trials.partition == preset.group)
    if len(index) >= _FEWEST_TO_FIT:
        with suppress(NotEnoughData):
            best = sim.fit_memory(trials, index, learner.context, model)
            yield best
            yield from sim.draw_memories(trials, index, count, 1, learner.context, model)
    yield from repeat(best)


@dataclass(frozen=True, eq=False)
class ScheduledDecks:
    """Cards of several presets with their schedulers, and the cards' states by these."""

    presets: Sequence[PresetCards]
    schedulers: Sequence[sim.Memory]
    decks: Sequence[sim.SimulatedDeck]  # without states by a memory

    @staticmethod
    def make(
        presets: Sequence[PresetCards], schedulers: Sequence[sim.Memory], states: habits.States
    ) -> ScheduledDecks:
        decks = []
        for cards, scheduler in zip(presets, schedulers, strict=True):
            decks.append(habits.make_deck(cards.today, scheduler, states))
        return ScheduledDecks(presets, schedulers, decks)

    def start(
        self,
        pool: ThreadPoolExecutor,
        memories: CardMemories,
        seeds: Sequence[int],
        retentions: Sequence[float],
    ) -> list[list[Future[sim.SimulationResult]]]:
        """Start simulations by seed and preset; each preset has its own desired retention."""
        decks = []
        for number, deck in enumerate(self.decks):
            memory_state = memories.states[number]
            if memories.memories[number] == self.schedulers[number]:
                memory_state = deck.state
            decks.append(replace(deck, memory_state=memory_state))
        by_seed = []
        for seed in seeds:
            by_preset = []
            for number, cards in enumerate(self.presets):
                by_preset.append(
                    pool.submit(
                        cards.simulate_once,
                        self.schedulers[number],
                        memories.memories[number],
                        decks[number],
                        seed,
                        retentions[number],
                    )
                )
            by_seed.append(by_preset)
        return by_seed

    def start_current(
        self, pool: ThreadPoolExecutor, memories: CardMemories, seeds: Sequence[int]
    ) -> list[list[Future[sim.SimulationResult]]]:
        """Start simulations by seed and preset at the presets' desired retentions."""
        retentions = []
        for cards, scheduler in zip(self.presets, self.schedulers, strict=True):
            retention = cards.desired_retention
            if scheduler.model == sim.SM2:
                retention = 0.9  # at which SM-2's intervals stay as they are
            retentions.append(retention)
        return self.start(pool, memories, seeds, retentions)


@dataclass(frozen=True, eq=False)
class CardMemories:
    """A memory for each preset, and the states of its cards by this memory."""

    memories: Sequence[sim.Memory]
    states: Sequence[FloatArray]

    @staticmethod
    def make(presets: Sequence[PresetCards], memories: Sequence[sim.Memory]) -> CardMemories:
        states = []
        for cards, memory in zip(presets, memories, strict=True):
            states.append(habits.compute_memory_state(cards.today, memory))
        return CardMemories(memories, states)


def are_scheduled_by(presets: Sequence[PresetCards], memories: Sequence[sim.Memory]) -> bool:
    """Return True if today's schedulers are these memories."""
    return all(map(_is_same_memory, [cards.scheduler for cards in presets], memories))


def _is_same_memory(scheduler: sim.Memory, memory: sim.Memory) -> bool:
    if scheduler.model != memory.model:
        return False
    return np.allclose(memory.parameters, scheduler.parameters)
