"""Do I remember as much as I asked for? True, predicted and desired retention."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from srs_eval.advice.answers import (
    RECALL_NO_MATTER,
    Answer,
    Cell,
    Table,
    signed,
    spanned,
    what_is_missing,
)
from srs_eval.advice.candidates import NOW, Learner
from srs_eval.data.errors import counted
from srs_eval.data.reviews import FloatArray
from srs_eval.data.trials import Fold
from srs_eval.stats.intervals import Interval, enough_to_tell, side

_MATURE_DAYS = 21  # Anki's border between young and mature cards
_MONTHS = 12  # shown, the latest
FEWEST_DAYS_SHOWN = 10  # below, no interval is shown
_NOT_ASKED_FOR = "recalled"  # the conclusion where no retention is desired, or nobody knows which
_CONCLUSIONS = {
    "below": "less than desired",
    "above": "more than desired",
    "no matter": "as desired",
    "open": "can't tell",
}
"""By the side on which recall lies of what is desired."""


def do_i_remember_enough(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> Iterator[Answer]:
    """One answer for each preset, over all its reviews of later days."""
    del equivalence
    trials = learner.trials
    everything = np.arange(len(trials))
    p = learner.predict(NOW, [Fold(everything[:0], everything)])
    for group in groups:
        preset = learner.log.presets.get(group)
        is_off = learner.log.receipt.fsrs_enabled is False
        desired = None if preset is None or is_off else preset.desired_retention
        mine = trials.partition == group
        rows: list[tuple[Cell, ...]] = []
        for name, part in _parts(learner, mine).items():
            index = np.flatnonzero(part)
            if len(index):
                recalled = learner.interval(trials.y[index], index)
                if recalled.days < FEWEST_DAYS_SHOWN:
                    recalled = replace(recalled, half_width=math.nan)
                rows.append((name, len(index), recalled, float(p[index].mean()), desired))
        index = np.flatnonzero(mine)
        recalled = learner.interval(trials.y[index], index)
        figures = (
            f"{_percent(recalled.estimate)} recalled on {counted(len(index), 'review')} "
            + spanned(_percent(max(recalled.low, 0.0)), _percent(min(recalled.high, 1.0)), recalled)
        )
        told = preset is None or preset.is_told
        who = "the parameters in force" if told else "FSRS-6 with its defaults"
        who = "FSRS, which is off, would have" if is_off else who
        expected = f"{who} expected {_percent(float(p[index].mean()))} of these"
        basis, why = f"{expected[0].upper()}{expected[1:]}.", ""
        conclusion = "can't tell"
        if desired is None:
            conclusion = _NOT_ASKED_FOR
            nobody = "FSRS is off, so none was asked for" if is_off else "the file does not say"
            sentences = [f"{figures}; desired: {nobody}."]
            would = "FSRS would have" if is_off else "FSRS"
            why = f"{would} expected {_percent(float(p[index].mean()))}"
        else:
            off = replace(recalled, estimate=recalled.estimate - desired)
            if enough_to_tell(recalled):
                conclusion = _CONCLUSIONS[side(off, RECALL_NO_MATTER)]
            lead = f"{conclusion[0].upper()}{conclusion[1:]}"
            sentences = [f"{lead}: {figures}, {_percent(desired)} desired."]
            if conclusion == "can't tell":
                sentences.append(what_is_missing(off, 1, RECALL_NO_MATTER))
            elif conclusion != _CONCLUSIONS["no matter"]:
                timing = learner.interval(p[index] - desired, index)
                expecting = learner.interval(trials.y[index] - p[index], index)
                basis = _two_parts(off, timing, expecting, expected, _percent(desired))
                why = _in_short(off, timing, expecting)
        sentences.append(basis)
        title = f"{learner.name_of(group)}: retention"
        columns = ("reviews of", "reviews", "recalled", "expected", "desired")
        table = Table(title, columns, tuple(rows))
        yield Answer(
            "retention", learner.name_of(group), conclusion, tuple(sentences), (table,), why=why
        )


def _two_parts(
    off: Interval, timing: Interval, expecting: Interval, expected: str, desired: str
) -> str:
    """Where recall minus desired retention, `off`, comes from; all three are shares.

    `timing` is what was expected of the reviews when they were done, minus what is desired;
    `expecting` is what was recalled minus that. They add up.
    """
    came = {
        "below": f"later than {desired} asks for: done late, spaced by other settings, or "
        "forgotten within a day",
        "above": f"earlier than {desired} asks for: done early, or spaced by other settings",
        "no matter": f"when {desired} asks for",
        "open": f"about when {desired} asks for",
    }[side(timing, 0.0)]
    is_off = {
        "below": "too much was expected",
        "above": "too little was expected",
        "no matter": "what was expected came true",
        "open": "whether too much or too little was expected can't be told yet",
    }[side(expecting, 0.0)]
    return (
        f"The difference of {_points(off)} points has two parts. {_points(timing)} "
        f"{_bounds(timing)} is when cards came: {expected} when you answered, for they came {came}."
        f" {_points(expecting)} {_bounds(expecting)} is what you recalled beyond that: {is_off}."
    )


def _in_short(off: Interval, timing: Interval, expecting: Interval) -> str:
    """The parts that are known to make for `off`, in a few words.

    Known is what lies beyond zero: as `off` matters, so does what it consists of.
    """
    where = "below" if off.estimate < 0 else "above"
    lost, when, much = {
        "below": ("less", "later", "much"),
        "above": ("more", "earlier", "little"),
    }[where]
    causes = (
        (timing, f"as cards came {when} than that asks for"),
        (expecting, f"as FSRS expects too {much}"),
    )
    said = [
        f"{abs(100 * part.estimate):.1f} points {lost} {cause}"
        for part, cause in causes
        if side(part, 0.0) == where
    ]
    return ", ".join(said) or "why can't be told yet"


def _points(difference: Interval) -> str:
    return signed(100 * difference.estimate, 1)


def _bounds(difference: Interval) -> str:
    """ "(−13.4 … −10.8)"."""
    return f"({signed(100 * difference.low, 1)} … {signed(100 * difference.high, 1)})"


def _parts(learner: Learner, mine: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """All reviews of a preset, young and mature ones, and those of each of the last months."""
    mature = learner.trials.elapsed_days >= _MATURE_DAYS
    parts = {"all": mine, "young cards": mine & ~mature, "mature cards": mine & mature}
    months = months_of(learner.time_s)
    return parts | {
        month: mine & (months == month) for month in np.unique(months[mine]).tolist()[-_MONTHS:]
    }


def months_of(time_s: FloatArray) -> NDArray[np.str_]:
    """ "2024-10" for each moment (Unix seconds, UTC)."""
    return time_s.astype("datetime64[s]").astype("datetime64[M]").astype(str)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
