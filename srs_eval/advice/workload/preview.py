"""What the four buttons would give, as Anki shows it above them.

A new card, and a young and a mature one that are typical of the preset and answered when they
are due. Rules (ankitects/anki: rslib/src/scheduler/states/{review,learning,steps}.rs): steps come
first where there are any; after Again a learned card goes through relearning; Good is a day longer
than Hard at least, Easy than Good; an interval that would grow is a day longer than the last one
at least, and fuzz alone does not make it shorter. Anki then moves longer intervals a little at
random (fuzz), which is said here and not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from srs_eval.advice.candidates import RECENCY, Learner
from srs_eval.advice.findings import Evidence, Finding
from srs_eval.advice.workload.memories import Memory
from srs_eval.advice.workload.today import Today, memory_state, todays_cards
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray, Preset
from srs_eval.models.own_parameters import as_anki_runs

_MATURE_DAYS = 21  # Anki's border between young and mature cards
_NO_FUZZ = 2.5  # days: shorter intervals are not fuzzed
_DAY_S = 86_400.0


@dataclass(frozen=True)
class Card:
    """A typical card and what the buttons give it."""

    kind: str  # "new", "young" or "mature"
    interval: int  # days
    seconds: tuple[float, ...]  # until it comes again, by button


@dataclass(frozen=True)
class Buttons(Evidence):
    """What the buttons of a preset would give."""

    retention: float
    by_candidate: tuple[tuple[str, tuple[Card, ...]], ...]  # by whose parameters
    says: str = "see figures"


def what_buttons_show(learner: Learner, groups: Sequence[int]) -> Iterator[Finding]:
    """One answer for each preset: the parameters in force, optimized ones and the defaults.

    None where the file does not tell what its cards are scheduled by, or FSRS is off.
    """
    for group in groups:
        preset = learner.log.presets.get(group)
        if preset is None or preset.desired_retention is None:
            continue
        if learner.log.receipt.fsrs_enabled is False:
            continue
        try:
            today = todays_cards(learner.log, group)
        except InputError:
            continue
        stored = preset.parameters_in_force
        made = {
            "the parameters in force": as_anki_runs(stored) if stored else None,
            "optimized ones": learner.fitted(RECENCY, group),
            "the defaults": as_anki_runs(()),
        }
        retention = preset.desired_retention
        by_candidate = tuple(
            (candidate, tuple(cards_by(parameters, today, preset, retention)))
            for candidate, parameters in made.items()
            if parameters is not None
        )
        evidence = Buttons(retention, by_candidate)
        yield Finding("buttons", learner.name_of(group), evidence=evidence)


def cards_by(
    parameters: Sequence[float], today: Today, preset: Preset, retention: float
) -> Iterator[Card]:
    """By FSRS-6 parameters: a new card, and a young and a mature one if the preset has any."""
    memory = Memory("FSRS-6", tuple(parameters))
    yield Card("new", 0, _new_card(memory, preset, retention))
    state = memory_state(today, memory)
    for kind, chosen in (
        ("young", (today.interval > 0) & (today.interval < _MATURE_DAYS)),
        ("mature", today.interval >= _MATURE_DAYS),
    ):
        if chosen.any():
            s, d = np.median(state[:, chosen], axis=1).tolist()
            days = round(float(np.median(today.interval[chosen])))
            yield Card(kind, days, _learned_card(memory, preset, retention, (s, d), days))


def _interval(memory: Memory, s: float, retention: float) -> float:
    """Days until R falls to the desired retention: FSRS-6's curve, solved for t."""
    decay = memory.parameters[20]
    return s * math.expm1(-math.log(retention) / decay) / math.expm1(-math.log(0.9) / decay)


def _new_card(memory: Memory, preset: Preset, retention: float) -> tuple[float, ...]:
    w = memory.values
    first = [memory.recurrent.first(float(rating), w) for rating in range(1, 5)]
    days = [_whole(_interval(memory, float(s), retention), preset) for s, _ in first]
    easy = max(days[3], min(days[2] + 1, _longest(preset)))
    steps = [60 * minutes for minutes in preset.learning_steps]
    if not steps:
        return (*(_DAY_S * each for each in days[:3]), _DAY_S * easy)
    hard = (steps[0] + steps[1]) / 2 if len(steps) > 1 else min(1.5 * steps[0], steps[0] + _DAY_S)
    if hard > _DAY_S:
        hard = _DAY_S * round(hard / _DAY_S)
    good = steps[1] if len(steps) > 1 else _DAY_S * days[2]
    return steps[0], hard, good, _DAY_S * easy


def _learned_card(
    memory: Memory, preset: Preset, retention: float, state: tuple[float, float], interval: int
) -> tuple[float, ...]:
    """A card with a state that is answered on the day it is due."""
    w, model, t = memory.values, memory.recurrent, float(interval)
    failed = model.failure(state, t, 1.0, w)
    after: list[FloatArray] = [model.success(state, t, float(rating), w) for rating in range(2, 5)]
    longest = _longest(preset)
    days: list[int] = []
    for s, _ in after:
        raw = _interval(memory, float(s), retention)
        least = 1
        if round(raw) > interval:
            least = interval + 1
        elif interval <= round(raw + _fuzz(raw)):
            least = interval
        if days:
            least = max(least, days[-1] + 1)
        days.append(min(max(_whole(raw, preset), least), longest))
    again = _DAY_S * _whole(_interval(memory, float(failed[0]), retention), preset)
    if preset.relearning_steps:
        again = 60 * preset.relearning_steps[0]
    return again, *(_DAY_S * each for each in days)


def _fuzz(days: float) -> float:
    """By how much Anki moves an interval at most (rslib/src/scheduler/states/fuzz.rs)."""
    if days < _NO_FUZZ:
        return 0.0
    parts = ((_NO_FUZZ, 7.0, 0.15), (7.0, 20.0, 0.1), (20.0, math.inf, 0.05))
    return 1.0 + sum(share * max(min(days, end) - start, 0.0) for start, end, share in parts)


def _whole(days: float, preset: Preset) -> int:
    return int(min(max(round(days), 1), _longest(preset)))


def _longest(preset: Preset) -> int:
    return preset.maximum_interval or 36_500
