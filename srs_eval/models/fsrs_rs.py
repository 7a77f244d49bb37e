"""FSRS-rs: FSRS-6 as Anki's own optimizer trains it, through the package fsrs-rs-python.

`FSRS(parameters=[]).benchmark(items)` of version 0.9 with the outlier filter off, as
srs-benchmark's script.py calls it (`--rust`); parameters are rounded to 4 decimals. Only the
fit is the package's: the prediction is FSRS-6's with these parameters. Source of the package:
open-spaced-repetition/fsrs-rs, src/training.rs.

It is not like for like with FSRS-6 here: it always weights by recency (item k of n counts
0.25 + 0.75 (k/n)^3), and it keeps the parameters of the last epoch, not of the best one.
No other file of this program calls an FSRS package.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Cost, TrainedModel, fsrs6

_MAX_REVIEWS = 64  # of an item, its own review included; the package drops longer ones


def _make_items(trials: Trials) -> tuple[Any, ...]:
    """Return one FSRSItem per trial: its history and its own review, intervals in whole days."""
    from fsrs_rs_python import FSRSItem, FSRSReview

    reviews = [
        FSRSReview(delta_t=delta_t, rating=rating)
        for delta_t, rating in zip(
            trials.history_elapsed_days.tolist(), trials.history_rating.tolist(), strict=True
        )
    ]
    return tuple(
        FSRSItem(reviews=reviews[start : end + 1])
        for start, end in zip(
            trials.history_start.tolist(), trials.history_end.tolist(), strict=True
        )
    )


def _mark_memory_starts(trials: Trials) -> IntArray:
    """Return 1 for trials whose review is the card's first on a later day, else 0 (n,).

    The package needs at least one such trial: without any, it aborts.
    """
    later = np.concatenate(([0], np.cumsum(trials.history_elapsed_days > 0)))
    count = later[trials.history_end + 1] - later[trials.history_start]
    return ((count == 1) & (trials.elapsed_days > 0)).astype(np.int64)


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """Fit the 21 parameters; `weights` are not used, because the package has its own."""
    del weights
    short = trials.sequence_length[train] + 1 <= _MAX_REVIEWS
    if not (_mark_memory_starts(trials)[train[short]]).any():
        raise NotEnoughData("no card has its first review on a later day among the training rows")
    os.environ["FSRS_NO_OUTLIER"] = "1"
    from fsrs_rs_python import FSRS

    items = trials.derived(_make_items)
    context.tick(0.0)
    try:
        fitted = FSRS(parameters=[]).benchmark([items[k] for k in train.tolist()])
    except BaseException as error:
        # Rust gave up; this is not a subclass of Exception.
        if type(error).__name__ == "PanicException":
            raise RuntimeError(f"fsrs-rs-python failed: {error}") from None
        raise
    if len(fitted) != 21 or not np.isfinite(fitted).all():
        raise NotEnoughData("fsrs-rs-python found no parameters")
    return [round(w, 4) for w in fitted]


MODELS = (
    TrainedModel(
        name="FSRS-rs",
        packages=("fsrs-rs-python",),
        family="fsrs",
        inputs="IL, G, SR",
        parameters=21,
        source="fsrs-rs-python 0.9 (2026), FSRS.benchmark; fsrs-rs src/training.rs",
        fit=_fit,
        predict=fsrs6.predict,
        default=lambda context: list(fsrs6.DEFAULT),
        always_short=True,
        flags=frozenset({"short", "two_buttons", "partitions", "train_equals_test"}),
        cost=Cost(seconds_per_10k=0.06, seconds_to_compile=0.1),
        note="Always weights by recency and keeps the last epoch, unlike FSRS-6.",
    ),
)
