"""BLEND: the mean of the predictions of differently built models.

    p = 1 / (1 + e^-z),  z = mean over its members of ln(p_i / (1 - p_i))

with p_i, the prediction of a member, limited to 1e-6 ... 1 - 1e-6.

Models that are wrong in different ways are less wrong together. The members of BLEND are FSRS-6,
FSRS-7, a logistic regression and SBD; the weights are equal, because weights fitted to other people
did no better. It knows nothing of the current day, so a scheduler could use it. BLEND-GRU, the
BLEND of earlier versions, has a small network in place of the last two. With weights of RWKV there
is BLEND+RWKV-Curve, whose two members are BLEND and RWKV-Curve.

The engine runs each member once for all models that need it. docs/models/blend.md.

Source: unpublished; the members are those of srs-benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from srs_eval.data.reviews import FloatArray
from srs_eval.models import Cost, Ensemble
from srs_eval.models.rwkv import WEIGHTS_HINT, compute_weights_digest

_MIN_PROBABILITY = 1e-6


def average_logits(predictions: Sequence[FloatArray]) -> FloatArray:
    """Return the probabilities whose logits are the means of the members' logits (k,)."""
    p = np.clip(np.array(predictions), _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    mean: FloatArray = 1 / (1 + np.exp(-np.log(p / (1 - p)).mean(axis=0)))
    return mean


_FSRS_6 = "FSRS-6-recency"
_FSRS_7 = "FSRS-7-short-secs-recency-equalize_test_with_non_secs"

_make_blend = partial(
    Ensemble,
    family="neural",
    source="models/blend.py: mean of logits (2026)",
    combine=average_logits,
    always_short=True,
)

MODELS = (
    _make_blend(
        name="BLEND",
        family="history",
        inputs="FIL, G, SR",
        parameters=21 + 34 + 34 + 7,
        members=(
            _FSRS_6,
            _FSRS_7,
            "LogisticRegression-short-secs-equalize_test_with_non_secs",
            "SBD-short-secs-equalize_test_with_non_secs",
        ),
        flags=frozenset({"two_buttons"}),
        version=2,
        cost=Cost(seconds_per_10k=0.2, seconds_to_compile=7.0, kernels_of="LogisticRegression"),
        note="The mean of the logits of FSRS-6 recency, FSRS-7 recency, LogisticRegression and "
        "SBD.",
    ),
    _make_blend(
        name="BLEND-GRU",
        inputs="FIL, G, SR",
        parameters=21 + 34 + 503,
        members=(_FSRS_6, _FSRS_7, "GRU-503-short-secs-equalize_test_with_non_secs"),
        flags=frozenset({"two_buttons"}),
        cost=Cost(seconds_per_10k=0.6, seconds_to_compile=8.0, kernels_of="GRU-503"),
        note="The mean of the logits of FSRS-6 recency, FSRS-7 recency and GRU-503.",
    ),
    _make_blend(
        name="BLEND+RWKV-Curve",
        inputs="FIL, G, SR, AT",
        parameters=21 + 34 + 34 + 7,
        members=("BLEND", "RWKV-Curve"),
        flags=frozenset(),
        weights=compute_weights_digest,
        version=2,
        cost=Cost(seconds_per_10k=0.7, seconds_to_compile=7.0, kernels_of="LogisticRegression"),
        note=f"Half BLEND, half RWKV-Curve; needs {WEIGHTS_HINT}.",
    ),
)
