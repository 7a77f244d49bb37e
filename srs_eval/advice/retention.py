"""Do I remember as much as I asked for, and as FSRS says? Recalled, predicted and desired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import (
    FEWEST_DAYS_SHOWN,
    NOW,
    OPEN,
    Calibration,
    Finding,
    Part,
    Retention,
    missing,
    missing_of,
)
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Fold
from srs_eval.stats.intervals import FEWEST_DAYS, Interval, enough_to_tell, side

NO_MATTER = 0.03
"""Recall is as it should be within three percentage points: for a smaller gap nobody would ask
Anki for another retention."""
_MATURE_DAYS = 21  # Anki's border between young and mature cards
_MONTHS = 12  # shown, the latest
_ASKED = 0.9  # the retention that Anki asks for, unless told otherwise
_EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.88, 0.92, 0.96, 1.0)
_FEWEST_OF_A_BIN = 100
_Says = Literal["below", "above", "no matter", "can't tell"]


def _said_now(learner: Learner) -> FloatArray:
    """What the parameters in force say of all reviews of later days; they may know these."""
    everything = np.arange(len(learner.trials))
    return learner.predict(NOW, [Fold(everything[:0], everything)])


def do_i_remember_enough(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> Iterator[Finding]:
    """One finding for each preset, over all its reviews of later days."""
    del equivalence
    p = _said_now(learner)
    for group in groups:
        yield _of_preset(learner, group, p)


def _of_preset(learner: Learner, group: int, p: FloatArray) -> Finding:
    preset, is_off = learner.log.presets.get(group), learner.log.receipt.fsrs_enabled is False
    desired = None if preset is None or is_off else preset.desired_retention
    mine = learner.trials.partition == group
    parts = tuple(
        _part(learner, name, np.flatnonzero(here), p)
        for name, here in _parts(learner, mine).items()
        if here.any()
    )
    index, y = np.flatnonzero(mine), learner.trials.y
    recalled = learner.interval(y[index], index)
    off = replace(recalled, estimate=recalled.estimate - (desired or 0.0))
    says: _Says = _says(off) if enough_to_tell(recalled) else OPEN
    timing = learner.interval(p[index] - (desired or 0.0), index)
    expecting = learner.interval(y[index] - p[index], index)
    evidence = Retention(
        "not asked for" if desired is None else says,
        (replace(parts[0], recalled=recalled), *parts[1:]),
        desired,
        is_off,
        timing,
        expecting,
    )
    lacks = missing(off, NO_MATTER) if evidence.says == OPEN else None
    return Finding(
        "retention", learner.name_of(group), reviews=len(index), missing=lacks, evidence=evidence
    )


def _says(difference: Interval) -> _Says:
    where = side(difference, NO_MATTER)
    return OPEN if where == "open" else where


def _part(learner: Learner, name: str, index: IntArray, p: FloatArray) -> Part:
    recalled = learner.interval(learner.trials.y[index], index, FEWEST_DAYS_SHOWN)
    return Part(name, recalled, float(p[index].mean()))


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
    """One finding over all reviews of later days, by what the parameters in force say of them."""
    p = _said_now(learner)
    bins = []
    for low, high in pairwise(_EDGES):
        index: IntArray = np.flatnonzero((p >= low) & ((p < high) | (high == 1.0)))
        if len(index):
            bins.append(_part(learner, f"{100 * low:.0f}–{100 * high:.0f} %", index, p))
    enough = [each for each in bins if _is_enough(each.recalled)]
    near = min(enough, key=lambda each: abs(each.expected - _ASKED), default=None)
    says: _Says = OPEN
    lacks = None
    if near is None:
        most = max((each.recalled for each in bins), key=lambda each: each.reviews)
        lacks = missing_of(most.reviews, most.days, _FEWEST_OF_A_BIN, FEWEST_DAYS)
    else:
        says = _says(replace(near.recalled, estimate=near.recalled.estimate - near.expected))
    whole = _part(learner, "all", np.arange(len(p)), p)
    is_off = learner.log.receipt.fsrs_enabled is False
    evidence = Calibration(says, near, whole, tuple(bins), is_off)
    return Finding("says", "all presets", reviews=len(p), missing=lacks, evidence=evidence)


def _is_enough(found: Interval) -> bool:
    return found.reviews >= _FEWEST_OF_A_BIN and found.days >= FEWEST_DAYS
