"""FSRS v4: R(t) = 1 / (1 + t/(9 s)); S0 is fitted separately; Hard and Easy modify the growth of S.

Formulas, defaults and training: srs-benchmark other.py `class FSRS4` (January 2025). A
state is (s, d): stability in days, difficulty 1-10. Parameters are w[0] ... w[16] as
there; w[17] is not a parameter but the least stability. Initial stabilities are fitted
first and then held; the rest is trained on the reviews after the second one of
each card, while the best epoch is chosen on all reviews.

v4.5 (`class FSRS4dot5`) has R(t) = (1 + 19/81 t/s)^-0.5, and a failure never lengthens S. Its
defaults differ where intervals are fractions of a day, and parameters are rounded to 6 decimals.
"""

from __future__ import annotations

import math
from functools import partial

from srs_eval.data.reviews import IntArray
from srs_eval.data.trials import Trials
from srs_eval.models._fsrs import make_early_version, make_s0_fit, make_steps
from srs_eval.training.elementwise import Value, clamp, minimum, power
from srs_eval.training.recurrent import RecurrentModel


def _curve_v4(t: Value, s: Value, w: Value) -> Value:
    """Return R(t) = 1 / (1 + t/(9 s))."""
    return 1.0 / (1.0 + t / (9.0 * s))


def _init_d(rating: Value, w: Value) -> Value:
    return w[4] - w[5] * (rating - 3.0)


def _next_d(d: Value, rating: Value, w: Value) -> Value:
    """Return the next difficulty, which reverts to the difficulty of a first Good."""
    return clamp(w[7] * w[4] + (1.0 - w[7]) * (d - w[6] * (rating - 3.0)), 1.0, 10.0)


def _select_after_second_review(trials: Trials, rows: IntArray) -> IntArray:
    """Select the rows after each card's second review, on which v4 and v4.5 are trained.

    The fit of the initial stabilities has already used the second reviews.
    """
    return rows[trials.i[rows] > 2]


_NO_BOUND = 4 * (math.inf,)
_recurrent = partial(
    RecurrentModel,
    constants=(0.01,),
    frozen=(0, 1, 2, 3),
    tie_order="quicksort",
    select_rows=_select_after_second_review,
)

# fmt: off
_DEFAULT_V4 = (
    0.4, 0.9, 2.3, 10.9,  # S0 by first rating
    4.93, 0.94, 0.86, 0.01,  # difficulty
    1.49, 0.14, 0.94,  # success
    2.18, 0.05, 0.34, 1.26,  # failure
    0.29, 2.61,  # Hard, Easy
)
_V4 = _recurrent(
    name="FSRSv4",
    default=_DEFAULT_V4,
    lower=(
        *(-bound for bound in _NO_BOUND),
        1, 0.1, 0.1, 0, 0, 0.1, 0.01, 0.5, 0.01, 0.01, 0.01, 0, 1,
    ),
    upper=(*_NO_BOUND, 10, 5, 5, 0.5, 3, 0.8, 2.5, 5, 0.2, 0.9, 2, 1, 4),
    **make_steps(17, _curve_v4, _init_d, _next_d),
)
# fmt: on
_fit_s0_v4 = make_s0_fit(_DEFAULT_V4, decay=1.0)


# v4.5

_FACTOR = 19 / 81  # 0.9^(1 / -0.5) - 1


def forgetting_curve(t: Value, s: Value, w: Value) -> Value:
    """Return R(t) = (1 + 19/81 t/s)^-0.5."""
    return power(1.0 + _FACTOR * t / s, -0.5)


def _limit_to_previous(after_failure: Value, s: Value, w: Value) -> Value:
    return minimum(after_failure, s)


# fmt: off
_DEFAULT_V45 = (
    0.4872, 1.4003, 3.7145, 13.8206,  # S0 by first rating
    5.1618, 1.2298, 0.8975, 0.031,  # difficulty
    1.6474, 0.1367, 1.0461,  # success
    2.1072, 0.0793, 0.3246, 1.587,  # failure
    0.2272, 2.8755,  # Hard, Easy
)
_DEFAULT_V45_SECS = (
    0.0012, 0.0826, 0.8382, 26.2146, 4.8622, 1.0311, 0.8295, 0.0379, 2.0884,
    0.4704, 1.2009, 1.7196, 0.1874, 0.1593, 1.5636, 0.2358, 3.3175,
)
_V45 = _recurrent(
    name="FSRS_4_5",
    default=_DEFAULT_V45,
    lower=(
        *(-bound for bound in _NO_BOUND),
        0, 0.01, 0.01, 0, 0, 0, 0.01, 0.2, 0.01, 0.01, 0.01, 0, 1,
    ),
    upper=(*_NO_BOUND, 10, 5, 5, 0.8, 6, 0.8, 5, 6, 0.4, 0.9, 4, 1, 10),
    **make_steps(17, forgetting_curve, _init_d, _next_d, _limit_to_previous),
    decimals=6,
)
# fmt: on
_fit_s0_v45 = make_s0_fit(_DEFAULT_V45, decay=0.5, default_secs=_DEFAULT_V45_SECS)

MODELS = (
    make_early_version(
        "FSRSv4",
        _V4,
        _fit_s0_v4,
        source="srs-benchmark other.py, class FSRS4 (2023)",
        seconds_per_10k=0.0085,
    ),
    make_early_version(
        "FSRS-4.5",
        _V45,
        _fit_s0_v45,
        source="srs-benchmark other.py, class FSRS4dot5 (2023)",
        seconds_per_10k=0.0085,
        default_secs=lambda context: list(_DEFAULT_V45_SECS),
    ),
)
