"""What the learner's own presets schedule with, and which reviews it may have been fitted to.

Anki runs every list as FSRS-6 and tells its version by its length (open-spaced-repetition/
fsrs-rs: src/model.rs, `check_and_fill_parameters`; src/parameter_clipper.rs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from srs_eval.errors import InputError, NotEnoughData
from srs_eval.models import fsrs6
from srs_eval.reviews import FloatArray, IntArray, Preset, ReviewLog

FSRS5_DECAY = 0.5


def version_of(values: Sequence[float]) -> str:
    """The version that a stored list is of, in words, by its length."""
    names = {0: "FSRS-6 defaults", 17: "FSRS-4.5", 19: "FSRS-5", 21: "FSRS-6"}
    return names.get(len(values), f"{len(values)} values")


def as_anki_runs(values: Sequence[float]) -> list[float]:
    """The 21 parameters that Anki schedules with for a stored list.

    None are the defaults, 17 are FSRS-4.5's (difficulty transformed), 19 FSRS-5's; both get
    its decay. All are held within FSRS-6's bounds. Raises InputError for another length, and
    for what is no finite number.
    """
    w = [float(value) for value in values]
    if not all(math.isfinite(value) for value in w):
        raise InputError("FSRS parameters must be finite numbers; optimize the preset in Anki.")
    if not w:
        return list(fsrs6.DEFAULT)
    if len(w) == 17:
        w[4] += 2 * w[5]
        w[5] = math.log(3 * w[5] + 1) / 3
        w[6] += 0.5
        w += [0.0, 0.0]
    if len(w) == 19:
        w += [0.0, FSRS5_DECAY]
    if len(w) != 21:
        raise InputError(
            f"A list of {len(w)} FSRS parameters is of no version that Anki runs: "
            "17, 19 or 21 are needed."
        )
    bounds = zip(w, fsrs6.lower_bounds(0.001), fsrs6.UPPER, strict=True)
    return [min(max(value, low), high) for value, low, high in bounds]


def younger_than_s(log: ReviewLog, preset: Preset) -> int | None:
    """Unix time after which the preset's parameters had not seen what is judged.

    The later of two bounds, for neither is the date of an optimization: the preset's last
    change, and the last "Optimize all presets". None where the source knows neither.
    """
    return max(filter(None, (preset.modified_s, log.optimized_before_s)), default=None)


def in_force(log: ReviewLog) -> dict[int, list[float]]:
    """What Anki runs, by id of the preset, where a preset holds parameters.

    Raises NotEnoughData where none does, and InputError as `as_anki_runs`.
    """
    found = {
        key: as_anki_runs(preset.parameters_in_force)
        for key, preset in log.presets.items()
        if preset.parameters_in_force
    }
    if not found:
        raise NotEnoughData("the file holds no FSRS parameters")
    return found


def may_have_seen(log: ReviewLog, preset: IntArray, entry: IntArray) -> np.ndarray:
    """Which reviews (k,) may be among those that their preset's parameters were fitted to.

    `preset` (k,) are ids, `entry` (k,) places among the log's entries.
    """
    if log.entries is None:
        return np.ones(len(preset), np.bool_)
    time_s: FloatArray = log.entries.time_ms[entry] / 1000
    seen = np.zeros(len(preset), np.bool_)
    for key, each in log.presets.items():
        if each.parameters_in_force:
            since = younger_than_s(log, each)
            seen |= (preset == key) & (True if since is None else time_s <= since)
    return seen
