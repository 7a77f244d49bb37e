"""FSRS v4.5: v4 with a flatter forgetting curve; a failure never lengthens S.

Formulas, defaults and training: srs-benchmark other.py `class FSRS4dot5` (January 2025).
State and parameters are those of v4; defaults differ where intervals are fractions of
a day. Kept parameters have 6 decimals.
"""

from __future__ import annotations

from srs_eval.models._fsrs import (
    S_MAX,
    early_version,
    s0_fit,
    stability_after_failure,
    stability_after_success,
)
from srs_eval.models.fsrs4 import NO_BOUND, after_second_review, first, next_d
from srs_eval.training.elementwise import State, Value, clamp, minimum, power
from srs_eval.training.recurrent import RecurrentModel

_FACTOR = 19 / 81  # 0.9^(1 / -0.5) - 1


def forgetting_curve(t: Value, s: Value) -> Value:
    """R(t) = (1 + 19/81 t/s)^-0.5."""
    return power(1.0 + _FACTOR * t / s, -0.5)


def recall(t: Value, state: State, w: Value) -> Value:
    return forgetting_curve(t, state[0])


def _success(state: State, t: Value, rating: Value, w: Value) -> State:
    s, d = state
    new_s = stability_after_success(s, d, forgetting_curve(t, s), rating, w)
    return clamp(new_s, w[17], S_MAX), next_d(d, rating, w)


def _failure(state: State, t: Value, rating: Value, w: Value) -> State:
    s, d = state
    new_s = minimum(stability_after_failure(s, d, forgetting_curve(t, s), w), s)
    return clamp(new_s, w[17], S_MAX), next_d(d, rating, w)


# fmt: off
_DEFAULT = (
    0.4872, 1.4003, 3.7145, 13.8206,  # S0 by first rating
    5.1618, 1.2298, 0.8975, 0.031,  # difficulty
    1.6474, 0.1367, 1.0461,  # success
    2.1072, 0.0793, 0.3246, 1.587,  # failure
    0.2272, 2.8755,  # Hard, Easy
)
_DEFAULT_SECS = (
    0.0012, 0.0826, 0.8382, 26.2146, 4.8622, 1.0311, 0.8295, 0.0379, 2.0884,
    0.4704, 1.2009, 1.7196, 0.1874, 0.1593, 1.5636, 0.2358, 3.3175,
)
RECURRENT = RecurrentModel(
    name="FSRS_4_5",
    states=2,
    default=_DEFAULT,
    lower=(
        *(-bound for bound in NO_BOUND),
        0, 0.01, 0.01, 0, 0, 0, 0.01, 0.2, 0.01, 0.01, 0.01, 0, 1,
    ),
    upper=(*NO_BOUND, 10, 5, 5, 0.8, 6, 0.8, 5, 6, 0.4, 0.9, 4, 1, 10),
    first=first,
    success=_success,
    failure=_failure,
    recall=recall,
    constants=(0.01,),
    frozen=(0, 1, 2, 3),
    decimals=6,
    tie_order="quicksort",
    trained_on=after_second_review,
)
# fmt: on
fit_s0 = s0_fit(_DEFAULT, decay=0.5, default_secs=_DEFAULT_SECS)


MODELS = (
    early_version(
        "4dot5",
        RECURRENT,
        fit_s0,
        name="FSRS-4.5",
        default_secs=lambda context: list(_DEFAULT_SECS),
        seconds_per_10k=0.0085,
    ),
)
