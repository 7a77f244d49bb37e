"""What the learner's own presets schedule with, and which reviews it may have been fitted to.

Anki runs every list as FSRS-6 and tells its version by its length (open-spaced-repetition/
fsrs-rs: src/model.rs, `check_and_fill_parameters`; src/parameter_clipper.rs). Two forks of Anki
also run FSRS-7 (JSchoreels/fsrs-rs: src/model_v7.rs, src/parameter_clipper_v7.rs): the reader says
which presets (`Preset.runs_fsrs7`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from srs_eval.data.errors import InputError, NotEnoughData, counted
from srs_eval.data.reviews import (
    FSRS_7_PARAMETERS,
    MOST_PARAMETERS,
    FloatArray,
    IntArray,
    Preset,
    ReviewLog,
)
from srs_eval.models import fsrs6, fsrs7

if TYPE_CHECKING:
    from srs_eval.models.configurations import Configuration

_FSRS5_DECAY = 0.5
_VERSIONS = MappingProxyType({0: "FSRS-6 defaults", 17: "FSRS-4.5", 19: "FSRS-5", 21: "FSRS-6"})
"""By the length of a list that Anki runs."""
_FSRS_7 = "FSRS-7"


_IN_ANKI = MappingProxyType(
    {"FSRS-6": "25.07", "FSRS-rs": "25.07", "FSRS-5": "24.11", "FSRS-4.5": "23.12", "Anki": ""}
)
"""Models that Anki schedules with, and the version that does so first; "" is any."""


def is_in_anki(configuration: Configuration) -> bool:
    """Whether a version of Anki schedules with it, from parameters of its presets at most."""
    flags, name = configuration.protocol, configuration.model.name
    if flags.partitions == "deck" or flags.two_buttons or flags.secs or flags.disable_short_term:
        return False
    return name in _IN_ANKI and (name != "Anki" or configuration.fit == "default")


def remarks(configurations: Sequence[Configuration]) -> list[str]:
    """What is told once below a table of them: which Anki can use, what which are fitted on."""
    usable = {each.model.name for each in configurations if is_in_anki(each)}
    versions = [f"{name} (from {of})" for name, of in _IN_ANKI.items() if of and name in usable]
    by_seconds = (each for each in configurations if each.protocol.secs and each.fit != "own")
    by_seconds = (each for each in by_seconds if each.protocol.clock == "seconds")
    seconds = dict.fromkeys(each.model.name for each in by_seconds if each.model.parameters)
    found = []
    if usable:
        found.append(f"✓ Anki can use {', '.join(versions) or 'it'}.")
    if seconds:
        found.append(f"Fitted on intervals in seconds: {', '.join(seconds)}.")
    return found


def version_of(values: Sequence[float]) -> str:
    """The version of a list that Anki or a fork of it runs, in words, by its length."""
    return _FSRS_7 if len(values) == FSRS_7_PARAMETERS else _VERSIONS[len(values)]


def model_of(values: Sequence[float]) -> str:
    """The model by which a list that `as_run` has made predicts: "FSRS-6" or "FSRS-7"."""
    return _FSRS_7 if len(values) == FSRS_7_PARAMETERS else "FSRS-6"


def as_run(values: Sequence[float]) -> list[float]:
    """The parameters that a person's list stands for: 34 of FSRS-7, or 21 of FSRS-6.

    All are held within the model's bounds. Raises InputError for a list of no version.
    """
    fault = fault_of(values, of_fork=True)
    if fault:
        raise InputError(f"FSRS does not run these {fault}.")
    if len(values) != FSRS_7_PARAMETERS:
        return as_anki_runs(values)
    model = fsrs7.recurrent(secs=True)
    bounds = zip(values, model.lower, model.upper, strict=True)
    w = [min(max(float(value), low), high) for value, low, high in bounds]
    for raised, least in model.not_below:
        w[raised] = max(w[raised], w[least])
    return w


def scheduled_by(preset: Preset) -> list[float]:
    """The parameters that a preset's cards are scheduled with: 21 of FSRS-6, or 34 of FSRS-7.

    Raises InputError where `fault_in` finds a fault.
    """
    values = preset.parameters_in_force
    if preset.runs_fsrs7:
        return as_run(values or fsrs7.DEFAULT)
    return as_anki_runs(values)


def fault_in(preset: Preset) -> str:
    """`fault_of` what is in force in a preset; a fork takes another list where one is unusable."""
    return "" if preset.runs_fsrs7 else fault_of(preset.parameters_in_force)


def as_anki_runs(values: Sequence[float]) -> list[float]:
    """The 21 parameters that Anki schedules with for a stored list.

    None are the defaults, 17 are FSRS-4.5's (difficulty transformed), 19 FSRS-5's; both get
    its decay. All are held within FSRS-6's bounds. Raises InputError where `fault_of` finds a
    fault.
    """
    fault = fault_of(values)
    if fault:
        raise InputError(f"Anki does not run these {fault}.")
    w = _filled(values)
    bounds = zip(w, fsrs6.lower_bounds(0.001), fsrs6.UPPER, strict=True)
    return [min(max(value, low), high) for value, low, high in bounds]


def fault_of(values: Sequence[float], *, of_fork: bool = False) -> str:
    """Why Anki runs no scheduler with a stored list, behind "its" or "these"; "" where it does.

    `of_fork`: or a fork of it, which runs FSRS-7, too.
    """
    if not all(map(math.isfinite, values)):
        return "FSRS parameters (not all are finite numbers)"
    if of_fork and len(values) == FSRS_7_PARAMETERS:
        return ""
    if len(values) not in _VERSIONS:
        found = counted(len(values), "FSRS parameter")
        if len(values) > MOST_PARAMETERS:
            found = f"more than {MOST_PARAMETERS:,} FSRS parameters"
        more = ", or FSRS-7's 34" if of_fork else ""
        return f"{found} (17, 19 or 21 are needed{more})"
    if len(values) == 17 and 3 * values[5] + 1 <= 0:
        return "FSRS parameters (of FSRS-4.5, with a sixth that cannot be converted)"
    return ""


def _filled(values: Sequence[float]) -> list[float]:
    """21 parameters out of 0, 17, 19 or 21, as fsrs-rs makes them."""
    w = [float(value) for value in values] or list(fsrs6.DEFAULT)
    if len(w) == 17:
        w[4] += 2 * w[5]
        w[5] = math.log(3 * w[5] + 1) / 3
        w[6] += 0.5
        w += [0.0, 0.0]
    if len(w) == 19:
        w += [0.0, _FSRS5_DECAY]
    return w


def left_out(log: ReviewLog) -> dict[int, str]:
    """`fault_of` what is stored in presets with reviews, where there is a fault, by id.

    None while FSRS is off: what is stored is not in force.
    """
    if log.import_summary.fsrs_enabled is False:
        return {}
    faults = {key: fault for key, preset in log.presets.items() if (fault := fault_in(preset))}
    return _with_reviews(log, faults)


def _with_reviews(log: ReviewLog, by_preset: Mapping[int, str]) -> dict[int, str]:
    """What is said of presets that have reviews, by id."""
    if not by_preset or log.entries is None:
        return {}
    used = set(log.preset_of(log.deck_of(log.entries.card_id)).tolist())
    return {key: words for key, words in by_preset.items() if key in used}


def runs_fsrs7(log: ReviewLog) -> set[int]:
    """The presets with reviews that a fork of Anki schedules with FSRS-7."""
    if log.entries is None or log.import_summary.fsrs_enabled is False:
        return set()
    of_fork = {key for key, preset in log.presets.items() if preset.runs_fsrs7}
    return of_fork and of_fork & set(log.preset_of(log.deck_of(log.entries.card_id)).tolist())


def why_left_out(log: ReviewLog) -> dict[int, str]:
    """A sentence for each preset that is `left_out`, by id."""
    return {
        key: f"{log.name_of_preset(key)} is left out: Anki does not run its {fault}; optimize the "
        "preset in Anki."
        for key, fault in left_out(log).items()
    }


def why_replaced(log: ReviewLog) -> dict[int, str]:
    """A sentence for each preset of a fork that runs another list than the chosen one, by id.

    Of presets with reviews; none while FSRS is off.
    """
    if log.import_summary.fsrs_enabled is False:
        return {}
    sentences = {}
    for key, preset in log.presets.items():
        values = preset.replaced_parameters
        if not values:
            continue
        version, in_force = preset.chosen_version, preset.parameters_in_force
        instead = f"its {version_of(in_force)} parameters" if in_force else "FSRS-7's defaults"
        fault = f"FSRS-{version} parameters (not all are finite numbers)"
        if all(map(math.isfinite, values)):
            needed = FSRS_7_PARAMETERS if version == 7 else "17, 19 or 21"
            fault = f"{counted(len(values), f'FSRS-{version} parameter')} ({needed} are needed)"
        sentences[key] = (
            f"{log.name_of_preset(key)}: your Anki does not run its {fault} and takes {instead} "
            "in place of them; optimize the preset in Anki."
        )
    return _with_reviews(log, sentences)


def younger_than_s(log: ReviewLog, preset: Preset) -> int | None:
    """Unix time after which the preset's parameters had not seen what is evaluated.

    The later of two bounds, for neither is the date of an optimization: the preset's last
    change, and the last "Optimize all presets". None where the source knows neither.
    """
    return max(filter(None, (preset.modified_s, log.optimized_before_s)), default=None)


def in_force(log: ReviewLog) -> dict[int, list[float]]:
    """What is run, by id of the preset, where a preset holds parameters that are run.

    21 of FSRS-6, or 34 of FSRS-7 in forks of Anki. Raises NotEnoughData where none does.
    """
    found = {
        key: scheduled_by(preset)
        for key, preset in log.presets.items()
        if preset.parameters_in_force and not fault_in(preset)
    }
    if not found:
        faults = [f"{log.name_of_preset(key)} holds {why}" for key, why in left_out(log).items()]
        that = f" that Anki runs: {', '.join(faults)}" if faults else ""
        raise NotEnoughData(f"the file holds no FSRS parameters{that}")
    return found


def _may_have_seen(log: ReviewLog, preset: IntArray, entry: IntArray) -> np.ndarray:
    """Which reviews (k,) may be among those that their preset's parameters were fitted to.

    `preset` (k,) are ids, `entry` (k,) places among the log's entries.
    """
    if log.entries is None:
        return np.ones(len(preset), np.bool_)
    time_s: FloatArray = log.entries.time_ms[entry] / 1000
    seen = np.zeros(len(preset), np.bool_)
    for key, each in log.presets.items():
        if each.parameters_in_force and not fault_in(each):
            since = younger_than_s(log, each)
            seen |= (preset == key) & (True if since is None else time_s <= since)
    return seen


def notes_on(
    log: ReviewLog, parameters: Mapping[int, Sequence[float]], preset: IntArray, entry: IntArray
) -> tuple[tuple[str, ...], int]:
    """What belongs beside figures of `in_force` on reviews as `_may_have_seen` takes them.

    With how many of them these may have been fitted to.
    """
    names = [
        log.presets[each].name + (f" ({_FSRS_7})" if model_of(values) == _FSRS_7 else "")
        for each, values in parameters.items()
        if each in preset
    ]
    notes = [f"as stored in {', '.join(names)}"] if names else []
    faults = left_out(log)
    for each, fault in faults.items():
        those = int((preset == each).sum())
        notes.append(
            f"defaults for {counted(those, 'review')} of {log.name_of_preset(each)}: "
            f"Anki does not run its {fault}"
        )
    without = int((~np.isin(preset, [*parameters, *faults])).sum())
    if without:
        notes.append(f"defaults for {counted(without, 'review')} without stored parameters")
    seen = int(_may_have_seen(log, preset, entry).sum())
    if seen:
        notes.append(
            f"may have been fitted to {seen:,} of these {counted(len(preset), 'review')}: that "
            "is optimistic, by 0.002 to 0.009 of log loss; the answers evaluate on younger ones"
        )
    return tuple(notes), seen
