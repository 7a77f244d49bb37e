"""Do I remember as much as I asked for, and as FSRS says? Recalled, predicted and desired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from srs_eval.advice.candidates import NOW, Learner
from srs_eval.advice.findings import Finding, phrased
from srs_eval.advice.sentences import (
    FEWEST_DAYS_SHOWN,
    percent,
    share_bounds,
    signed,
    spanned,
    what_is_missing,
)
from srs_eval.advice.tables import Cell, Table
from srs_eval.data.errors import counted
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Fold
from srs_eval.stats.intervals import FEWEST_DAYS, Interval, enough_to_tell, side

_NO_MATTER = 0.03
"""Recall is as it should be within three percentage points: for a smaller gap nobody would ask
Anki for another retention."""
_MATURE_DAYS = 21  # Anki's border between young and mature cards
_MONTHS = 12  # shown, the latest
_NOT_ASKED_FOR = "recalled"  # the conclusion where no retention is desired, or nobody knows which
_CONCLUSIONS = {
    "below": "less than desired",
    "above": "more than desired",
    "no matter": "as desired",
    "open": "can't tell",
}
"""By the side on which recall lies of what is desired."""
_ASKED = 0.9  # the retention that Anki asks for, unless told otherwise
_EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.88, 0.92, 0.96, 1.0)
_FEWEST_OF_A_BIN = 100


def _said_now(learner: Learner) -> FloatArray:
    """What the parameters in force say of all reviews of later days; they may know these."""
    everything = np.arange(len(learner.trials))
    return learner.predict(NOW, [Fold(everything[:0], everything)])


def do_i_remember_enough(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> Iterator[Finding]:
    """One answer for each preset, over all its reviews of later days."""
    del equivalence
    p = _said_now(learner)
    for group in groups:
        yield _of_preset(learner, group, p)


def _of_preset(learner: Learner, group: int, p: FloatArray) -> Finding:
    trials, preset, name = learner.trials, learner.log.presets.get(group), learner.name_of(group)
    is_off = learner.log.receipt.fsrs_enabled is False
    desired = None if preset is None or is_off else preset.desired_retention
    mine = trials.partition == group
    rows: list[tuple[Cell, ...]] = []
    for part, here in _parts(learner, mine).items():
        index = np.flatnonzero(here)
        if len(index):
            recalled = learner.interval(trials.y[index], index, FEWEST_DAYS_SHOWN)
            rows.append((part, len(index), recalled, float(p[index].mean()), desired))
    index = np.flatnonzero(mine)
    recalled = learner.interval(trials.y[index], index)
    figures = (
        f"{percent(recalled.estimate)} recalled on {counted(len(index), 'review')} "
        + spanned(*share_bounds(recalled, 1), recalled)
    )
    who = "FSRS, which is off, would have" if is_off else "the parameters in force"
    if not is_off and preset is not None and not preset.is_told:
        who = "FSRS-6 with its defaults"
    mean = percent(float(p[index].mean()))
    expected = f"{who} expected {mean} of these"
    basis, why, conclusion = f"{expected[0].upper()}{expected[1:]}.", "", "can't tell"
    if desired is None:
        conclusion = _NOT_ASKED_FOR
        nobody = "FSRS is off, so none was asked for" if is_off else "the file does not say"
        sentences = [f"{figures}; desired: {nobody}."]
        why = f"FSRS{' would have' * is_off} expected {mean}"
    else:
        off = replace(recalled, estimate=recalled.estimate - desired)
        if enough_to_tell(recalled):
            conclusion = _CONCLUSIONS[side(off, _NO_MATTER)]
        lead = f"{conclusion[0].upper()}{conclusion[1:]}"
        sentences = [f"{lead}: {figures}, {percent(desired)} desired."]
        if conclusion == "can't tell":
            sentences.append(what_is_missing(off, 1, _NO_MATTER))
        elif conclusion != _CONCLUSIONS["no matter"]:
            timing = learner.interval(p[index] - desired, index)
            expecting = learner.interval(trials.y[index] - p[index], index)
            basis = _two_parts(off, timing, expecting, expected, percent(desired))
            why = _in_short(off, timing, expecting)
    sentences.append(basis)
    columns = ("reviews of", "reviews", "recalled", "expected", "desired")
    table = Table(f"{name}: retention", columns, tuple(rows))
    return phrased("retention", name, conclusion, tuple(sentences), (table,), why=why)


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


# When Anki says 90 %, do I recall 90 %?


def does_it_mean_it(learner: Learner) -> Finding:
    """One answer over all reviews of later days, by what the parameters in force say of them."""
    p, y = _said_now(learner), learner.trials.y
    rows: list[tuple[Cell, ...]] = []
    said: dict[float, tuple[float, Interval]] = {}
    for low, high in pairwise(_EDGES):
        index: IntArray = np.flatnonzero((p >= low) & ((p < high) | (high == 1.0)))
        if not len(index):
            continue
        recalled = learner.interval(y[index], index, FEWEST_DAYS_SHOWN)
        mean = float(p[index].mean())
        rows.append((f"{100 * low:.0f}–{percent(high, 0)}", len(index), mean, recalled))
        if len(index) >= _FEWEST_OF_A_BIN and recalled.days >= FEWEST_DAYS:
            said[low] = mean, recalled
    columns = ("when it says", "reviews", "expected", "recalled")
    table = Table("What Anki's FSRS says and what you recall", columns, tuple(rows))
    if not said:
        sentence = (
            f"Can't tell yet: {_FEWEST_OF_A_BIN} reviews on {FEWEST_DAYS} days with about the same "
            "prediction are needed."
        )
        return phrased("says", "all presets", "can't tell", (sentence,), (table,))
    nearest = min(said, key=lambda low: (abs(said[low][0] - _ASKED), low))
    mean, recalled = said[nearest]
    conclusion, words = {
        "below": ("less than it says", "less than it says"),
        "above": ("more than it says", "more than it says"),
        "no matter": ("means it", "it means what it says"),
        "open": ("can't tell", "can't tell yet whether it means what it says"),
    }[side(replace(recalled, estimate=recalled.estimate - mean), _NO_MATTER)]
    bounds = " … ".join(share_bounds(recalled, 0)).replace(" % …", " …")
    brief = (
        f"{percent(mean, 0)}{_while_off(learner)}, you recall {percent(recalled.estimate, 0)} "
        f"({bounds}) on these {percent(recalled.reviews / len(p), 0)} of your reviews: {words}."
    )
    basis = (
        f"Of these {counted(recalled.reviews, 'review')} of {counted(recalled.days, 'day')} it "
        f"said about {percent(mean, 0)}. Over all {counted(len(p), 'review')} of later days, of "
        f"which it said more or less, it expected {percent(float(p.mean()))}, and you recalled "
        f"{percent(float(y.mean()))}. It is judged with the parameters in force, which may have "
        "been fitted to these reviews."
    )
    sentences = (f"When it says {brief}", basis)
    return phrased("says", "all presets", conclusion, sentences, (table,), brief=brief)


def _while_off(learner: Learner) -> str:
    """Which parameters speak where FSRS is off."""
    if learner.log.receipt.fsrs_enabled is not False:
        return ""
    presets = [learner.log.presets.get(group) for group in learner.groups]
    stored = any(preset is not None and preset.parameters_in_force for preset in presets)
    return f" (FSRS is off; {'the parameters stored' if stored else 'its defaults'} would)"
