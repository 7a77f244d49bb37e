"""Baselines: predictions without a model of memory, and a way to game a metric.

    AVG:         p = share of successes among the reviews before the fold's test part
    90%:         p = 0.9
    MOVING-AVG:  p = 1 / (1 + e^-x),  x <- x + 0.3 (y - p) after each outcome y,  x_0 = 1.2

RMSE-BINS-EXPLOIT knows how RMSE(bins) is computed and evens out each bin's error. Its sums and its
share are over the earlier evaluated reviews:

    p = clip(sum of y in the bin + share of successes - sum of p in the bin, 0, 1)

A memory model that is not better than these has learned nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials, compute_rmse_bin_ids
from srs_eval.models import UNTRAINED_FLAGS, Context, Cost, OnlineModel, TrainedModel


def _predict_average(trials: Trials, context: Context) -> FloatArray:
    """Predict for each fold's reviews the share of successes in the fold's training part.

    Returns (k,) in the order of `trials.test_index`. srs-benchmark counts no parameter for it and
    lists none. Raises NotEnoughData if a fold has nothing to average.
    """
    p = [np.empty(0)]
    for fold in trials.folds:
        if not len(fold.train):
            raise NotEnoughData("no reviews to average before the first evaluated one")
        p.append(np.full(len(fold.test), trials.y[fold.train].mean()))
    return np.concatenate(p)


def _predict_ninety_percent(
    trials: Trials, parameters: Any, index: IntArray, context: Context
) -> FloatArray:
    """Return 0.9 for every review, Anki's default desired retention."""
    return np.full(len(index), 0.9)


_MOVING_AVERAGE_START = 1.2  # log-odds, p = 0.77
_MOVING_AVERAGE_RATE = 0.3


def _predict_moving_average(trials: Trials, context: Context) -> FloatArray:
    """Predict by a logistic regression with only an intercept, one gradient step per review.

    It follows the outcomes of all reviews in order, including those before the first evaluated one,
    and sees neither cards nor intervals. Returns (k,) for `trials.test_index`.
    """
    x = _MOVING_AVERAGE_START
    predictions = []
    for y in trials.y.tolist():
        p = 1 / (1 + math.exp(-x))
        predictions.append(p)
        x += _MOVING_AVERAGE_RATE * (y - p)
    return np.array(predictions)[trials.test_index]


def _exploit_rmse_bins(trials: Trials, context: Context) -> FloatArray:
    """Predict what evens out the error so far in each bin of RMSE(bins).

    It learns from the outcomes that it is evaluated on, one by one: its RMSE(bins) is almost zero,
    its log loss ruinous. The very first prediction is 0.5 and, as upstream, never enters its bin's
    sum. Returns (k,) for `trials.test_index`.
    """
    evaluated = trials.test_index
    outcomes = trials.y[evaluated].tolist()
    bins = compute_rmse_bin_ids(
        trials.bin_delta_t[evaluated], trials.bin_i[evaluated], trials.bin_lapses[evaluated]
    ).tolist()
    sum_of_y = dict.fromkeys(bins, 0.0)
    sum_of_p = dict.fromkeys(bins, 0.0)
    predictions = []
    successes = 0.0
    for count, (bin_id, y) in enumerate(zip(bins, outcomes, strict=True)):
        if count:
            p = min(max(sum_of_y[bin_id] + successes / count - sum_of_p[bin_id], 0.0), 1.0)
            sum_of_p[bin_id] += p
        else:
            p = 0.5
        predictions.append(p)
        sum_of_y[bin_id] += y
        successes += y
    return np.array(predictions)


MODELS = (
    OnlineModel(
        name="AVG",
        family="baseline",
        parameters=0,
        source="open-spaced-repetition/srs-benchmark other.py `baseline` (2025)",
        online=_predict_average,
        flags=UNTRAINED_FLAGS | {"train_equals_test", "no_train_same_day", "known_decks_only"},
        cost=Cost(seconds_per_10k=0.0025),
        note="One number for all reviews of a fold: the retention of the reviews before it.",
    ),
    TrainedModel(
        name="90%",
        family="baseline",
        parameters=0,
        source="open-spaced-repetition/srs-benchmark other.py `ConstantModel` (2025)",
        predict=_predict_ninety_percent,
        flags=UNTRAINED_FLAGS,
        cost=Cost(seconds_per_10k=0.002),
        note="Every review gets 0.9.",
    ),
    OnlineModel(
        name="MOVING-AVG",
        family="online",
        parameters=0,
        source="srs-benchmark model_processors.py `moving_avg`, commit 1e414b7497b6 (2025)",
        online=_predict_moving_average,
        flags=UNTRAINED_FLAGS,
        cost=Cost(seconds_per_10k=0.0055),
        note="Follows the outcomes of all cards and knows nothing about any of them.",
    ),
    OnlineModel(
        name="RMSE-BINS-EXPLOIT",
        family="other",
        inputs="IL, G",
        parameters=0,
        source="open-spaced-repetition/srs-benchmark other.py `RMSEBinsExploit` (2025)",
        online=_exploit_rmse_bins,
        flags=UNTRAINED_FLAGS,
        cost=Cost(seconds_per_10k=0.0065),
        note="Shows that RMSE(bins) can be gamed: it learns from the outcomes it is evaluated on.",
    ),
)
