"""The draft of FSRS-7 of April 2026, as a model of a user's own: one stability, 35 parameters.

Parameters and formulas are those of open-spaced-repetition/srs-benchmark models/fsrs_v7.py at
commit 049be71984b7eeff3ea380f5ccbce2e26b2bb77a, which issue 313 of that repository is about.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, TrainedModel

# fmt: off
PARAMETERS = np.array((
    0.041, 2.4175, 4.1283, 11.9709,  # initial stability
    5.6385, 0.4468, 3.262,  # difficulty
    2.3054, 0.1688, 1.3325, 0.3524, 0.0049, 0.7503, 0.0896, 0.6625, 1.3,  # long term
    0.882, 0.3072, 3.5875, 0.303, 0.0107, 0.2279, 2.6413, 0.5594, 1.3,  # short term
    2.5, 1.0,  # from short to long term
    0.0723, 0.1634, 0.5, 0.9555, 0.2245, 0.6232, 0.1362, 0.3862,  # forgetting curve
))
# fmt: on


def recall(t: Any, s: Any) -> Any:
    """Return recall t days after a review that left the stability s."""
    decay1, decay2, base1, base2, weight1, weight2, power1, power2 = PARAMETERS[27:]
    curve1 = (1 + (base1 ** (-1 / decay1) - 1) * t / s) ** -decay1
    curve2 = (1 + (base2 ** (-1 / decay2) - 1) * t / s) ** -decay2
    share1 = weight1 * s**-power1
    share2 = weight2 * s**power2
    return (share1 * curve1 + share2 * curve2) / (share1 + share2)


def _first_difficulty(rating: float) -> float:
    return float(PARAMETERS[4] - np.exp(PARAMETERS[5] * (rating - 1)) + 1)


def _next_stability(s: float, d: float, r: float, rating: int, b: FloatArray) -> float:
    """Return the stability after a review, by the nine parameters of the long or short term."""
    failed = b[3] * d ** -b[4] * ((s + 1) ** b[5] - 1) * np.exp((1 - r) * b[6])
    after_failure = min(s, failed)
    if rating == 1:
        return float(after_failure)
    modifier = {2: b[7], 3: 1.0, 4: b[8]}[rating]
    growth = np.exp(b[0] - 1.5) * (11 - d) * s ** -b[1] * (np.exp((1 - r) * b[2]) - 1) * modifier
    return float(max(after_failure, s * (1 + growth)))


def stability_after(intervals: FloatArray, ratings: IntArray) -> float:
    """Return the stability after a card's reviews; the first interval does not matter."""
    s = 0.0
    d = 0.0
    for number, (t, rating) in enumerate(zip(intervals.tolist(), ratings.tolist(), strict=True)):
        if number == 0:
            s = float(PARAMETERS[rating - 1])
            d = _first_difficulty(rating)
        else:
            r = recall(t, s)
            long_term = _next_stability(s, d, r, rating, PARAMETERS[7:16])
            short_term = _next_stability(s, d, r, rating, PARAMETERS[16:25])
            share = 1 - PARAMETERS[26] * np.exp(-PARAMETERS[25] * t)
            s = float(share * long_term + (1 - share) * short_term)
            damped = d - PARAMETERS[6] * (rating - 3) * (10 - d) / 9
            d = 0.01 * _first_difficulty(4) + 0.99 * damped
        s = min(max(s, 1e-4), 36_500.0)
        d = min(max(d, 1.0), 10.0)
    return s


def _predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    p = np.empty(len(index))
    for position, trial in enumerate(index.tolist()):
        history = slice(trials.history_start[trial], trials.history_end[trial])
        s = stability_after(trials.history_delta_t[history], trials.history_rating[history])
        p[position] = recall(trials.delta_t[trial], s)
    return np.clip(p, 0.0001, 0.9999)


FSRS_7_DRAFT = TrainedModel(
    name="FSRS-7-DRAFT",
    family="fsrs",
    inputs="FIL, G, SR",
    source="open-spaced-repetition/srs-benchmark (April 2026)",
    always_short=True,
    standard="FSRS-7-DRAFT-secs",
    predict=_predict,
)
