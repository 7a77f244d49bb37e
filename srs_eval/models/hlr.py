"""Half-life regression (Settles and Meeder, 2016), on the counts of one card.

    h = 2^(theta . x),  x = (sqrt(passes), sqrt(failures), 1)
    p = 2^(-delta_t / h)

A trainable spaced repetition model for language learning (ACL 2016); duolingo/
halflife-regression `experiment.py`. Features, start and training are those of
srs-benchmark other.py `class HLR` (January 2025); there is no regularisation and no
limit on h. Where p rounds to 0 or 1 in single precision, an unexpected outcome has a gradient of
up to 10^12. That is why fits with very short half-lives wander; the published figures include it.
"""

from __future__ import annotations

import math

import numpy as np

from srs_eval.data.reviews import FloatArray
from srs_eval.data.trials import Trials
from srs_eval.models import Cost, TrainedModel
from srs_eval.training.elementwise import Value, exp, where
from srs_eval.training.linear import HYPERPARAMETERS, LinearModel

START = (2.5819, -0.8674, 2.7245)
_LN2 = math.log(2)


def _recall_and_slope(z: Value, t: Value) -> tuple[Value, Value]:
    """Return p = 2^(-t / 2^z) and dp/dz."""
    x = _LN2 * t * exp(-_LN2 * z)
    x = where(x > 1000.0, 1000.0, x)  # p and its slope are zero long before that
    p = exp(-x)
    return p, p * x * _LN2


def _compute_features(trials: Trials) -> FloatArray:
    """Return the roots of the passes and of the failures before each trial, and ones (n, 3)."""
    passes = np.concatenate(([0], np.cumsum(trials.history_rating > 1)))
    passes = passes[trials.history_end] - passes[trials.history_start]
    failures = trials.sequence_length - passes
    return np.stack([np.sqrt(passes), np.sqrt(failures), np.ones(len(trials))], axis=1)


_LINEAR = LinearModel("HLR", _recall_and_slope, _compute_features, lambda trials: START)


MODELS = (
    TrainedModel(
        name="HLR",
        family="history",
        inputs="IL, G",
        parameters=3,
        source="Settles & Meeder 2016; srs-benchmark other.py, class HLR",
        fit=_LINEAR.fit,
        predict=_LINEAR.predict,
        default=lambda context: list(START),
        configurations=("HLR", "HLR-short"),
        hyperparameters=HYPERPARAMETERS,
        cost=Cost(seconds_per_10k=0.006, seconds_to_compile=0.8),
    ),
)
