"""Stored parameters: as a person writes them, and how Anki's own evaluation judges them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srs_eval.data.bins import rmse_bin_ids
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials, recency_weights
from srs_eval.metrics import log_losses, rmse_bins
from srs_eval.models import fsrs6
from srs_eval.models.own_parameters import as_anki_runs
from srs_eval.training.context import Context


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


@dataclass(frozen=True)
class AnkiFigures:
    """Log loss and RMSE(bins) as Anki's evaluation shows them; newer reviews weigh more."""

    log_loss: float
    rmse_bins: float
    reviews: int


def _anki_figures(trials: Trials, p: FloatArray, index: IntArray) -> AnkiFigures:
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
    return _anki_figures(trials, p, everything)


def in_sample_losses(trials: Trials, parameters: Sequence[float], index: IntArray) -> FloatArray:
    """Log loss in nats of each review `index` (k,), unweighted; it flatters as well."""
    return log_losses(trials.y[index], fsrs6.predict(trials, list(parameters), index, Context()))
