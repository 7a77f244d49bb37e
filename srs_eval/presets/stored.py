"""Stored parameters: what a preset schedules with, and how Anki's own evaluation judges it.

Anki runs every list as FSRS-6 and tells its version by its length (open-spaced-repetition/
fsrs-rs: src/model.rs, `check_and_fill_parameters`; src/parameter_clipper.rs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srs_eval.comparison import log_losses
from srs_eval.context import Context
from srs_eval.errors import InputError
from srs_eval.metrics import rmse_bin_ids, rmse_bins
from srs_eval.models import fsrs6
from srs_eval.protocol import Trials, recency_weights
from srs_eval.reviews import FloatArray, IntArray, Preset, ReviewLog

FSRS5_DECAY = 0.5


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


def parsed_parameters(text: str) -> list[float]:
    """A parameter line as Anki shows it: numbers separated by commas or blanks."""
    try:
        values = [float(each) for each in text.replace(",", " ").strip(" []").split()]
    except ValueError:
        raise InputError(
            f'"{text[:40]}" is no list of FSRS parameters: give numbers separated by commas.'
        ) from None
    if not values:
        raise InputError("--params is empty: give 17, 19 or 21 numbers separated by commas.")
    return as_anki_runs(values)


def parameter_line(values: Sequence[float]) -> str:
    """A list as it can be pasted into Anki's deck options."""
    return ", ".join(f"{value:.4f}" for value in values)


def version_of(values: Sequence[float]) -> str:
    """In words, by length."""
    names = {0: "FSRS-6 defaults", 17: "FSRS-4.5", 19: "FSRS-5", 21: "FSRS-6"}
    return names.get(len(values), f"{len(values)} values")


def younger_than_s(log: ReviewLog, preset: Preset) -> int | None:
    """Unix time after which the preset's parameters had not seen what is judged.

    The later of two bounds, for neither is the date of an optimization: the preset's last
    change, and the last "Optimize all presets". None where the source knows neither.
    """
    return max(filter(None, (preset.modified_s, log.optimized_before_s)), default=None)


@dataclass(frozen=True)
class AnkiFigures:
    """Log loss and RMSE(bins) as Anki's evaluation shows them; newer reviews weigh more."""

    log_loss: float
    rmse_bins: float
    reviews: int


def anki_figures(trials: Trials, p: FloatArray, index: IntArray) -> AnkiFigures:
    """Both figures of predictions p (k,) for the trials `index` (k,), in review order.

    The weights count in the bins too (fsrs-rs: src/dataset.rs, src/inference.rs).
    """
    weights = recency_weights(len(index))
    bins = rmse_bin_ids(trials.bin_delta_t[index], trials.bin_i[index], trials.bin_lapses[index])
    return AnkiFigures(
        log_loss=float((log_losses(trials.y[index], p) * weights).sum() / weights.sum()),
        rmse_bins=rmse_bins(trials.y[index], p, bins, weights),
        reviews=len(index),
    )


def in_sample(trials: Trials, parameters: Sequence[float]) -> AnkiFigures:
    """What Anki's "Evaluate" said of parameters on all reviews of the trials.

    Reviews that the parameters were fitted to are among these: the figure flatters.
    """
    everything = np.arange(len(trials))
    p = fsrs6.predict(trials, list(parameters), everything, Context())
    return anki_figures(trials, p, everything)


def in_sample_losses(trials: Trials, parameters: Sequence[float], index: IntArray) -> FloatArray:
    """Log loss in nats of each review `index` (k,), unweighted; it flatters as well."""
    return log_losses(trials.y[index], fsrs6.predict(trials, list(parameters), index, Context()))
