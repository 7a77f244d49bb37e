"""The cards of presets, played forward beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from srs_eval.advice.candidates import Learner
from srs_eval.advice.workload import simulator as sim
from srs_eval.advice.workload import today as habits
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import IntArray
from srs_eval.models import anki_sm2
from srs_eval.models.own_parameters import as_run, model_of, scheduled_by

_AGAIN = 12  # courses of events for what is asked at one retention only
COURSES = 4  # for each other figure
_FEWEST_TO_FIT = 64  # below, Anki's optimizer leaves the defaults nearly as they are
_NEAR_LIMIT = 0.75  # of the limit of reviews a day: from here on it is reached on many days

Runs = list[list[list[sim.Simulated]]]  # by desired retention, seed and preset


@dataclass(frozen=True, eq=False)
class PresetCards:
    """What a preset's cards are played forward with."""

    group: int
    index: IntArray  # positions of its reviews among the trials
    today: habits.Today
    scheduler: sim.Memory  # today's
    settings: sim.Settings  # of which `desired_retention` is asked about
    costs: sim.Costs
    desired: float

    def course(
        self,
        scheduler: sim.Memory,
        deck: sim.Deck,
        seed: int,
        retention: float,
        memory: sim.Memory | None = None,
    ) -> sim.Simulated:
        """One course of events; the scheduler remembers, too, unless there is another memory."""
        settings = replace(self.settings, desired_retention=retention)
        return sim.simulate(scheduler, deck, self.costs, settings, seed, memory)

    def as_now(self, best: sim.Memory, states: habits.States) -> list[sim.Simulated]:
        """While today's scheduler goes on."""
        deck = habits.deck_of(self.today, self.scheduler, states)
        deck = replace(deck, memory_state=habits.memory_state(self.today, best))
        # 0.9 is where SM-2's own intervals are.
        aimed_at = 0.9 if self.scheduler.model == sim.SM2 else self.desired
        return [self.course(self.scheduler, deck, k, aimed_at, best) for k in range(_AGAIN)]


def cards_of_preset(
    learner: Learner,
    group: int,
    days: int,
    after: int,
    parameters: Sequence[float] | None,
    *,
    is_off: bool,
) -> PresetCards:
    """For so many days `after` the log's last one; InputError where it does not tell of cards."""
    log, stored = learner.log, learner.log.presets.get(group)
    if stored is None:
        raise InputError(f"{log.import_summary.path} does not say how these cards are scheduled.")
    if is_off:
        scheduler = sim.Memory(sim.SM2, stored.sm2_settings or anki_sm2.DEFAULTS)
    else:
        values = scheduled_by(stored) if parameters is None else as_run(parameters)
        scheduler = sim.Memory(model_of(values), tuple(values))
    return PresetCards(
        group,
        learner.positions(group),
        habits.todays_cards(log, group, after),
        scheduler,
        habits.settings_of(stored, days, 0),
        habits.costs_of(log, habits.cards_of(log, group)),
        round(stored.desired_retention or 0.9, 2),
    )


def fits(learner: Learner, preset: PresetCards, count: int, model: str) -> Iterator[sim.Memory]:
    """The fit to all of a preset's reviews, then draws of it; of few reviews the defaults."""
    best = sim.Memory(model, sim.MODELS[model].default)
    trials, index = learner.trials, preset.index
    if model == "FSRS-7":
        trials = learner.session.trials(replace(trials.protocol, secs=True))
        index = np.flatnonzero(trials.partition == preset.group)
    if len(index) >= _FEWEST_TO_FIT:
        with suppress(NotEnoughData):
            best = sim.fitted(trials, index, learner.context, model)
            yield best
            yield from sim.draws(trials, index, count, 1, learner.context, model)
    yield from repeat(best)


def as_now(
    presets: Sequence[PresetCards], best: Sequence[sim.Memory], states: habits.States
) -> list[tuple[sim.Simulated, ...]]:
    """Courses of events, each of all presets, while today's schedulers go on; none where these are
    the best."""
    both = list(zip(presets, best, strict=True))
    now = ((preset.scheduler, memory) for preset, memory in both)
    if all(a.model == b.model and np.allclose(b.parameters, a.parameters) for a, b in now):
        return []
    runs = [preset.as_now(memory, states) for preset, memory in both]
    return list(zip(*runs, strict=True))


def held_back(
    presets: Sequence[PresetCards], retentions: Sequence[float], runs: Runs
) -> tuple[float, int] | None:
    """The least retention at which a limit of reviews a day is about reached, and that limit."""
    for retention, each in zip(retentions, runs, strict=True):
        for preset, simulated in zip(presets, each[0], strict=True):
            if simulated.reviews.mean() > _NEAR_LIMIT * preset.settings.reviews_a_day:
                return retention, preset.settings.reviews_a_day
    return None
