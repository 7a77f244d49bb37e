"""Read the parameters that the learner's presets schedule with, and predict with them.

Anki runs every list of parameters as FSRS-6's and recognises the version that it was made for by
its length (open-spaced-repetition/fsrs-rs: src/model.rs, `check_and_fill_parameters`;
src/parameter_clipper.rs). Two forks of Anki also run FSRS-7 (JSchoreels/fsrs-rs: src/model_v7.rs,
src/parameter_clipper_v7.rs); the reader says for which presets (`Preset.runs_fsrs7`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from srs_eval.data.errors import InputError, NotEnoughData, format_count
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import (
    FSRS_7_PARAMETER_COUNT,
    MAX_PARAMETERS,
    FloatArray,
    IntArray,
    Preset,
    ReviewLog,
)
from srs_eval.data.trials import Trials
from srs_eval.models import fsrs6, fsrs7
from srs_eval.models.held_out import HeldOutTask, Prediction
from srs_eval.models.kinds import TrainedModel

if TYPE_CHECKING:
    from srs_eval.models.configurations import Configuration

_FSRS5_DECAY = 0.5
_VERSION_BY_LENGTH = MappingProxyType(
    {0: "FSRS-6 defaults", 17: "FSRS-4.5", 19: "FSRS-5", 21: "FSRS-6"}
)
"""Versions by the length of a list that Anki runs."""
_FSRS_7 = "FSRS-7"


_FIRST_ANKI_VERSIONS = MappingProxyType(
    {"FSRS-6": "25.07", "FSRS-rs": "25.07", "FSRS-5": "24.11", "FSRS-4.5": "23.12", "Anki": ""}
)
"""Models that Anki schedules with, and the first version that does; "" means any version."""


def is_available_in_anki(configuration: Configuration) -> bool:
    """Return whether some version of Anki can schedule with the configuration.

    Anki has parameters for presets, but not for decks.
    """
    flags = configuration.protocol
    name = configuration.model.name
    if flags.partitions == "deck" or flags.two_buttons or flags.secs or flags.disable_short_term:
        return False
    return name in _FIRST_ANKI_VERSIONS and (name != "Anki" or configuration.fit == "default")


def make_table_remarks(configurations: Sequence[Configuration]) -> list[str]:
    """Return remarks to show below a table: what Anki can use, what is fitted in seconds."""
    usable_models: set[str] = set()
    models_in_seconds: list[str] = []
    for configuration in configurations:
        model = configuration.model
        if is_available_in_anki(configuration):
            usable_models.add(model.name)
        flags = configuration.protocol
        is_in_seconds = flags.secs and flags.clock == "seconds" and configuration.fit != "own"
        if is_in_seconds and model.parameters and model.name not in models_in_seconds:
            models_in_seconds.append(model.name)
    versions = [
        f"{name} (from {version})"
        for name, version in _FIRST_ANKI_VERSIONS.items()
        if version and name in usable_models
    ]
    remarks = []
    if usable_models:
        remarks.append(f"✓ Anki can use {', '.join(versions) or 'it'}.")
    if models_in_seconds:
        remarks.append(f"Fitted on intervals in seconds: {', '.join(models_in_seconds)}.")
    return remarks


def version_name(values: Sequence[float]) -> str:
    """Return the version of FSRS that a list of parameters is of, such as "FSRS-5"."""
    return _FSRS_7 if len(values) == FSRS_7_PARAMETER_COUNT else _VERSION_BY_LENGTH[len(values)]


def model_name(values: Sequence[float]) -> str:
    """Return the model that runs a list from `normalize_parameters`: "FSRS-6" or "FSRS-7"."""
    return _FSRS_7 if len(values) == FSRS_7_PARAMETER_COUNT else "FSRS-6"


def normalize_parameters(values: Sequence[float]) -> list[float]:
    """Return the parameters that a user's list stands for: 34 of FSRS-7 or 21 of FSRS-6.

    All are limited to the model's bounds. Raises InputError where `find_fault` finds a fault.
    """
    fault = find_fault(values, allow_fsrs7=True)
    if fault:
        raise InputError(f"FSRS cannot use {fault}.")
    if len(values) != FSRS_7_PARAMETER_COUNT:
        return normalize_as_anki(values)
    model = fsrs7.make_recurrent(secs=True)
    bounds = zip(values, model.lower, model.upper, strict=True)
    w = [min(max(float(value), low), high) for value, low, high in bounds]
    for larger, smaller in model.not_below:  # positions of two parameters
        w[larger] = max(w[larger], w[smaller])
    return w


def preset_parameters(preset: Preset) -> list[float]:
    """Return the parameters that schedule a preset's cards: 21 of FSRS-6 or 34 of FSRS-7.

    Raises InputError where `find_preset_fault` finds a fault.
    """
    values = preset.active_parameters
    if preset.runs_fsrs7:
        return normalize_parameters(values or fsrs7.DEFAULT)
    return normalize_as_anki(values)


def find_preset_fault(preset: Preset) -> str:
    """Return the fault that `find_fault` finds in a preset's active parameters, or "" for none.

    A preset that runs FSRS-7 has none: the fork takes another list where one is unusable.
    """
    return "" if preset.runs_fsrs7 else find_fault(preset.active_parameters)


def normalize_as_anki(values: Sequence[float]) -> list[float]:
    """Return the 21 parameters that Anki schedules with for a stored list.

    An empty list stands for the defaults, 17 parameters are FSRS-4.5's (difficulty transformed), 19
    are FSRS-5's; both get FSRS-5's decay. All are limited to FSRS-6's bounds. Raises InputError
    where `find_fault` finds a fault.
    """
    fault = find_fault(values)
    if fault:
        raise InputError(f"Anki cannot use {fault}.")
    w = _fill_to_21(values)
    bounds = zip(w, fsrs6.lower_bounds(0.001), fsrs6.UPPER, strict=True)
    return [min(max(value, low), high) for value, low, high in bounds]


def find_fault(values: Sequence[float], *, allow_fsrs7: bool = False) -> str:
    """Return the reason why Anki cannot schedule with a stored list, or "" if it can.

    The text continues a sentence after "its" or "these". With `allow_fsrs7`, lists of FSRS-7, which
    forks of Anki run, have no fault either.
    """
    if not all(map(math.isfinite, values)):
        return "FSRS parameters (not all are finite numbers)"
    if allow_fsrs7 and len(values) == FSRS_7_PARAMETER_COUNT:
        return ""
    if len(values) not in _VERSION_BY_LENGTH:
        count = format_count(len(values), "FSRS parameter")
        if len(values) > MAX_PARAMETERS:
            count = f"more than {MAX_PARAMETERS:,} FSRS parameters"
        needed = "17, 19 or 21 are needed"
        if allow_fsrs7:
            needed += ", or FSRS-7's 34"
        return f"{count} ({needed})"
    if len(values) == 17 and 3 * values[5] + 1 <= 0:
        return "FSRS parameters (of FSRS-4.5, with a sixth that cannot be converted)"
    return ""


def _fill_to_21(values: Sequence[float]) -> list[float]:
    """Convert 0, 17, 19 or 21 parameters into 21, as fsrs-rs does."""
    w = [float(value) for value in values] or list(fsrs6.DEFAULT)
    if len(w) == 17:  # FSRS-4.5 has another formula for the first difficulty, and no short term
        w[4] += 2 * w[5]
        w[5] = math.log(3 * w[5] + 1) / 3
        w[6] += 0.5
        w += [0.0, 0.0]
    if len(w) == 19:
        w += [0.0, _FSRS5_DECAY]
    return w


def find_preset_faults(log: ReviewLog) -> dict[int, str]:
    """Return the faults of the parameters stored in presets with reviews, by preset id.

    Presets without a fault (`find_fault`) are omitted. The result is empty while FSRS is off,
    because the stored parameters are not active then.
    """
    if log.import_summary.fsrs_enabled is False:
        return {}
    faults: dict[int, str] = {}
    for preset_id, preset in log.presets.items():
        fault = find_preset_fault(preset)
        if fault:
            faults[preset_id] = fault
    return _with_reviews(log, faults)


def _with_reviews(log: ReviewLog, by_preset: Mapping[int, str]) -> dict[int, str]:
    """Return the texts of presets that have reviews, by preset id."""
    if not by_preset or log.entries is None:
        return {}
    used_presets = set(log.preset_of(log.deck_of(log.entries.card_id)).tolist())
    return {preset_id: text for preset_id, text in by_preset.items() if preset_id in used_presets}


def find_fsrs7_presets(log: ReviewLog) -> set[int]:
    """Return the presets with reviews that a fork of Anki schedules with FSRS-7."""
    if log.entries is None or log.import_summary.fsrs_enabled is False:
        return set()
    fsrs7_presets = {preset_id for preset_id, preset in log.presets.items() if preset.runs_fsrs7}
    if not fsrs7_presets:
        return set()
    used_presets = set(log.preset_of(log.deck_of(log.entries.card_id)).tolist())
    return fsrs7_presets & used_presets


def explain_left_out_presets(log: ReviewLog) -> dict[int, str]:
    """Return a sentence for each preset that `find_preset_faults` returns, by preset id."""
    return {
        preset_id: f"{log.preset_name(preset_id)} is left out because Anki cannot use its {fault}: "
        "optimize the preset in Anki."
        for preset_id, fault in find_preset_faults(log).items()
    }


def why_replaced(log: ReviewLog) -> dict[int, str]:
    """Return a sentence for each preset whose chosen parameters a fork of Anki replaces, by id.

    Only presets with reviews are included, and none while FSRS is off.
    """
    if log.import_summary.fsrs_enabled is False:
        return {}
    sentences = {}
    for preset_id, preset in log.presets.items():
        values = preset.replaced_parameters
        if not values:
            continue
        version = preset.chosen_version
        active = preset.active_parameters
        replacement = f"its {version_name(active)} parameters" if active else "FSRS-7's defaults"
        fault = f"FSRS-{version} parameters (not all are finite numbers)"
        if all(map(math.isfinite, values)):
            needed = FSRS_7_PARAMETER_COUNT if version == 7 else "17, 19 or 21"
            fault = (
                f"{format_count(len(values), f'FSRS-{version} parameter')} ({needed} are needed)"
            )
        sentences[preset_id] = (
            f"{log.preset_name(preset_id)}: your Anki cannot use its {fault} and uses "
            f"{replacement} instead; optimize the preset in Anki."
        )
    return _with_reviews(log, sentences)


def latest_possible_fit_s(log: ReviewLog, preset: Preset) -> int | None:
    """Return the latest Unix time at which the preset's parameters may have been fitted.

    Later reviews were not used for the fit. Anki does not store when a preset was optimized, so
    this is the later of the preset's last change and the last "Optimize all presets"; None if the
    source has neither.
    """
    return max(filter(None, (preset.modified_s, log.optimized_before_s)), default=None)


def find_active_parameters(log: ReviewLog) -> dict[int, list[float]]:
    """Return the parameters that Anki runs, by preset id, for presets that hold some.

    They are 21 of FSRS-6, or 34 of FSRS-7 in forks of Anki. Raises NotEnoughData if no preset holds
    parameters that Anki runs.
    """
    parameters = {
        preset_id: preset_parameters(preset)
        for preset_id, preset in log.presets.items()
        if preset.active_parameters and not find_preset_fault(preset)
    }
    if not parameters:
        faults = [
            f"{log.preset_name(preset_id)} holds {fault}"
            for preset_id, fault in find_preset_faults(log).items()
        ]
        reasons = f" that Anki can use: {', '.join(faults)}" if faults else ""
        raise NotEnoughData(f"the file contains no FSRS parameters{reasons}")
    return parameters


def _mark_possibly_seen(log: ReviewLog, preset: IntArray, entry: IntArray) -> np.ndarray:
    """Mark the reviews (k,) to which their preset's parameters may have been fitted.

    `preset` (k,) holds preset ids, `entry` (k,) positions among the log's entries.
    """
    if log.entries is None:
        return np.ones(len(preset), np.bool_)
    time_s: FloatArray = log.entries.time_ms[entry] / 1000
    seen = np.zeros(len(preset), np.bool_)
    for preset_id, stored_preset in log.presets.items():
        if not stored_preset.active_parameters or find_preset_fault(stored_preset):
            continue
        possibly_seen = preset == preset_id
        latest_s = latest_possible_fit_s(log, stored_preset)
        if latest_s is not None:
            possibly_seen &= time_s <= latest_s
        seen |= possibly_seen
    return seen


def describe_own_parameters(
    log: ReviewLog, parameters: Mapping[int, Sequence[float]], preset: IntArray, entry: IntArray
) -> tuple[tuple[str, ...], int]:
    """Return notes on the figures of presets' parameters, and a number of reviews.

    This is the number of reviews to which the parameters may have been fitted. `parameters` are
    those of `find_active_parameters`; `preset` and `entry` stand for the evaluated reviews as in
    `_mark_possibly_seen`.
    """
    names = []
    for preset_id, values in parameters.items():
        if preset_id not in preset:
            continue
        name = log.presets[preset_id].name
        if model_name(values) == _FSRS_7:
            name += f" ({_FSRS_7})"
        names.append(name)
    notes = [f"as stored in {', '.join(names)}"] if names else []
    faults = find_preset_faults(log)
    for preset_id, fault in faults.items():
        reviews = int((preset == preset_id).sum())
        notes.append(
            f"uses the defaults for {format_count(reviews, 'review')} of "
            f"{log.preset_name(preset_id)}: "
            f"Anki cannot use its {fault}"
        )
    without_count = int((~np.isin(preset, [*parameters, *faults])).sum())
    if without_count:
        reviews_without = format_count(without_count, "review")
        notes.append(f"uses the defaults for {reviews_without} without stored parameters")
    seen = int(_mark_possibly_seen(log, preset, entry).sum())
    if seen:
        notes.append(
            f"may have been fitted to {seen:,} of these {format_count(len(preset), 'review')}: "
            "that makes the log loss look better than it is; the advice uses only newer reviews"
        )
    return tuple(notes), seen


# Predictions


def predict_with_presets(
    task: HeldOutTask,
    log: ReviewLog,
    entry_index: IntArray,
    prepare_trials: Callable[[Protocol], Trials],
) -> Prediction:
    """Predict all held-out reviews with the parameters of the learner's presets.

    `entry_index` (n,) holds the positions of rows among the log's entries; `prepare_trials` returns
    the log's trials under another protocol.

    Raises:
        NotEnoughData: No preset holds parameters, presets run the other version of FSRS, or one
            runs FSRS-6 where reviews of the same day are evaluated, too.
    """
    model = task.configuration.model
    assert isinstance(model, TrainedModel)
    trials = task.trials
    parameters = find_active_parameters(log)
    if (model.name == _FSRS_7) != bool(find_fsrs7_presets(log)):
        other = "FSRS-6" if model.name == _FSRS_7 else _FSRS_7
        raise NotEnoughData(f"the presets run {other}: use your {other} parameters instead")
    index = trials.test_index
    presets = trials.partition[index]
    p = np.empty(len(index))
    for preset in np.unique(presets).tolist():
        of_preset = presets == preset
        values = parameters.get(preset)
        if values is None:
            values = model.default_parameters(task.configuration.protocol, task.context)
        if model_name(values) == model.name:
            p[of_preset] = model.predict(trials, values, index[of_preset], task.context)
        else:  # a fork of Anki runs this preset as FSRS-6, but others as FSRS-7
            in_days = _as_whole_days(trials, prepare_trials)
            rows = np.searchsorted(in_days.review_th, trials.review_th[index[of_preset]])
            p[of_preset] = fsrs6.predict(in_days, values, rows, task.context)
    task.context.tick(1.0)
    entry = entry_index[trials.review_th[index] - 1]
    notes, seen_reviews = describe_own_parameters(log, parameters, presets, entry)
    used = {preset: values for preset, values in parameters.items() if preset in presets}
    return Prediction(p, used or None, notes, in_sample_reviews=seen_reviews)


def _as_whole_days(trials: Trials, prepare_trials: Callable[[Protocol], Trials]) -> Trials:
    """Return FSRS-6's trials, with intervals in whole days, for trials of FSRS-7.

    Raises:
        NotEnoughData: The trials evaluate reviews of the same day, too.
    """
    if not trials.protocol.equalize_test_with_non_secs:
        raise NotEnoughData("a preset runs FSRS-6, which predicts reviews of later days only")
    return prepare_trials(replace(trials.protocol, secs=False, equalize_test_with_non_secs=False))
