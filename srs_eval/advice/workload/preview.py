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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from srs_eval.advice.candidates import RECENCY, Learner
from srs_eval.advice.findings import Finding, phrased
from srs_eval.advice.tables import Table
from srs_eval.advice.workload.memories import Memory
from srs_eval.advice.workload.today import Today, deck_of, todays_cards
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray, Preset
from srs_eval.models.own_parameters import as_anki_runs

_BUTTONS = ("Again", "Hard", "Good", "Easy")
_MATURE_DAYS = 21  # Anki's border between young and mature cards
_NO_FUZZ = 2.5  # days: shorter intervals are not fuzzed
_DAY_S = 86_400.0


@dataclass(frozen=True)
class Preview:
    """One candidate's intervals: a line for each typical card."""

    candidate: str
    retention: float
    lines: tuple[tuple[str, tuple[float, ...]], ...]
    """The card in words; seconds until it comes again, by button."""

    @property
    def table(self) -> Table:
        return Table(
            f"Buttons by {self.candidate} at {self.retention:.2f}; Anki fuzzes 3 days and more",
            ("card", *_BUTTONS),
            tuple((card, *map(worded, seconds)) for card, seconds in self.lines),
        )

    @property
    def records(self) -> list[dict[str, Any]]:
        return [
            {
                "candidate": self.candidate,
                "desired": self.retention,
                "card": card,
                **{name.lower(): each for name, each in zip(_BUTTONS, seconds, strict=True)},
            }
            for card, seconds in self.lines
        ]


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
        made = previews(
            {
                "the parameters in force": as_anki_runs(stored) if stored else None,
                "optimized ones": learner.fitted(RECENCY, group),
                "the defaults": as_anki_runs(()),
            },
            today,
            preset,
            preset.desired_retention,
        )
        sentence = (
            "What the buttons would show at the desired retention of "
            f"{preset.desired_retention:.2f}, for a new card and for typical ones that are "
            "answered when they are due."
        )
        tables = tuple(each.table for each in made)
        yield phrased("buttons", learner.name_of(group), "see figures", (sentence,), tables)


def previews(
    candidates: Mapping[str, Sequence[float] | None],
    today: Today,
    preset: Preset,
    retention: float,
) -> tuple[Preview, ...]:
    """By each candidate's FSRS-6 parameters, but those that there are none of: the intervals for a
    new card and for typical ones of the preset."""
    made = []
    for candidate, parameters in candidates.items():
        if parameters is None:
            continue
        memory = Memory("FSRS-6", tuple(parameters))
        lines = [("new", _new_card(memory, preset, retention))]
        state = deck_of(today, memory, "history").state
        for name, chosen in (
            ("young", (today.interval > 0) & (today.interval < _MATURE_DAYS)),
            ("mature", today.interval >= _MATURE_DAYS),
        ):
            if chosen.any():
                s, d = np.median(state[:, chosen], axis=1).tolist()
                interval = round(float(np.median(today.interval[chosen])))
                seconds = _learned_card(memory, preset, retention, (s, d), interval)
                lines.append((f"{name}, {interval} d", seconds))
        made.append(Preview(candidate, retention, tuple(lines)))
    return tuple(made)


def worded(seconds: float) -> str:
    """As Anki writes it: "10m", "3.1h", "12d", "1.4mo", "2.1y"."""
    units = (("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", _DAY_S), ("mo", 30 * _DAY_S))
    unit, length = "y", 365 * _DAY_S
    for (smaller, small), (_, limit) in zip(units, (*units[1:], (unit, length)), strict=True):
        if seconds < limit:
            unit, length = smaller, small
            break
    places = 0 if unit in ("s", "m", "d") else 1
    shown = f"{seconds / length:.{places}f}"
    return f"{shown.removesuffix('.0')}{unit}"


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
