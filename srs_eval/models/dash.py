"""DASH (Lindsey, Shroyer, Pashler and Mozer, 2014) and its variants, on the history of one card.

    p = sigmoid(sum over windows W of theta_(2W-1) ln(1 + n_W) + theta_2W ln(1 + c_W) + theta_9)

with n_W the number of reviews in window W before now and c_W that of the successful ones;
the windows are 1, 7, 30 days and all time. DASH[MCM] lets each review's count decay,
exp(-age / tau_W) with tau = 0.2434, 1.9739, 16.009, 129.8426 days. DASH[ACT-R] has no windows:

    p = sigmoid(theta_1 ln(1 + max(0, sum over reviews k of m_k age_k^(-theta_2))) + theta_5)

with m_k = theta_3 after a failure and theta_4 after a success; reviews at most 0.1 days ago
do not count.

Improving Students' Long-Term Knowledge Retention Through Personalized Review (Psychological
Science 25, 2014); Mozer and Lindsey, Predicting and improving memory retention (2016), for
the variants. Ability and difficulty terms are left out. Constants, start and training are
those of srs-benchmark other.py `class DASH`, `class DASH_ACTR` and
`create_features_helper` (January 2025).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from srs_eval.models import Context, Model
from srs_eval.models import _history_linear as linear
from srs_eval.models._compile import compiled
from srs_eval.protocol import Trials
from srs_eval.reviews import FloatArray, IntArray

START = (0.2024, 0.5967, 0.1255, 0.6039, -0.1485, 0.572, 0.0933, 0.4801, 0.787)
START_SHORT = (-0.1766, 0.4483, -0.3618, 0.5953, -0.5104, 0.8609, -0.3643, 0.6447, 1.2815)
START_MCM = (0.2783, 0.8131, 0.4252, 1.0056, -0.1527, 0.6455, 0.1409, 0.669, 0.843)

WINDOWS = (1.0, 7.0, 30.0, math.inf)  # days
TAU = (0.2434, 1.9739, 16.0090, 129.8426)  # days


def recall_and_slope(z: float, t: float) -> tuple[float, float]:
    """p = sigmoid(z) and dp/dz."""
    p = 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))
    return p, p * (1 - p)


def window_counts(
    delta_t: FloatArray, rating: IntArray, start: IntArray, end: IntArray, decay: bool
) -> FloatArray:
    """Reviews and successes in each window before each trial (n, 8), decayed with `decay`.

    A trial's history are the rows start ... end - 1; its own row is `end`.
    """
    counts = np.zeros((len(start), 8))
    for trial in range(len(start)):
        age = 0.0
        for row in range(end[trial] - 1, start[trial] - 1, -1):
            age += delta_t[row + 1]
            for window in range(4):
                if age <= WINDOWS[window]:
                    share = math.exp(-age / TAU[window]) if decay else 1.0
                    counts[trial, 2 * window] += share
                    if rating[row] > 1:
                        counts[trial, 2 * window + 1] += share
    return counts


def _features(trials: Trials, decay: bool) -> FloatArray:
    """ln(1 + count) of each window, and 1 (n, 9)."""
    counts = compiled(window_counts)(
        trials.history_delta_t,
        trials.history_rating,
        trials.history_start,
        trials.history_end,
        decay,
    )
    return np.concatenate([np.log1p(counts), np.ones((len(counts), 1))], axis=1)


def features(trials: Trials) -> FloatArray:
    return trials.derived("DASH", lambda trials: _features(trials, decay=False))


def features_mcm(trials: Trials) -> FloatArray:
    return trials.derived("DASH[MCM]", lambda trials: _features(trials, decay=True))


def _start(trials: Trials, start: Sequence[float]) -> Sequence[float]:
    return START_SHORT if trials.protocol.short else start


def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    start = _start(trials, START)
    return linear.fit(
        "DASH", recall_and_slope, features(trials), start, trials, train, weights, context
    )


def predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    w = parameters or _start(trials, START)
    return linear.predict("DASH", recall_and_slope, features(trials), w, trials, index)


def fit_mcm(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    start = _start(trials, START_MCM)
    return linear.fit(
        "DASH", recall_and_slope, features_mcm(trials), start, trials, train, weights, context
    )


def predict_mcm(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    w = parameters or _start(trials, START_MCM)
    return linear.predict("DASH", recall_and_slope, features_mcm(trials), w, trials, index)


_SOURCE = "Lindsey et al. 2014; srs-benchmark other.py, class DASH"

MODELS = (
    # The defaults depend on `short`, so they are chosen where the trials are known.
    Model(
        name="DASH",
        family="history",
        inputs="IL, G",
        parameters=9,
        source=_SOURCE,
        fit=fit,
        predict=predict,
        configurations=("DASH", "DASH-short", "DASH-recency"),
        seconds_per_10k=0.06,
    ),
    Model(
        name="DASH[MCM]",
        family="history",
        inputs="IL, G",
        parameters=9,
        source=_SOURCE,
        fit=fit_mcm,
        predict=predict_mcm,
        seconds_per_10k=0.06,
    ),
)
