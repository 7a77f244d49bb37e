"""FSRS v5: v4.5 with same-day reviews, damped difficulty and a pull towards the start.

R(t) = (1 + 19/81 t/s)^-0.5, as in v4.5.

Formulas, defaults and training: fsrs-optimizer 5.7.0 (fsrs_optimizer.py), run as
srs-benchmark's script.py of January 2025 does. A state is (s, d): stability in days,
difficulty 1-10. Parameters are w[0] ... w[18] as there; w[19] is not a parameter but
the least stability.

`disable_short_term` is the optimizer's `enable_short_term=False`: same-day reviews leave S as it is
(w[17] = w[18] = 0) and the initial stabilities are not trained further. With fractional
intervals the initial stabilities are fitted without smoothing or pull and may be as
short as 1e-6 days; nothing else changes, since script.py tells neither training nor prediction
that intervals are fractional.

Under script.py's older rule for fractional intervals (`later_days_only`) histories lose
their fractions by mistake: intervals of 0 are integers there, and padding gives all histories the
type of the first one. See `_as_padded_tensor`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import ANY_FLAG, Context, Cost, TrainedModel
from srs_eval.models._fsrs import (
    S_MAX,
    limit_lapse_v5,
    make_s0_fit,
    make_steps,
    minimum_stability,
    next_d,
)
from srs_eval.models.fsrs4 import forgetting_curve
from srs_eval.training.elementwise import State, Value, clamp, exp
from srs_eval.training.optimisers import select_training_rows, sort_by_length
from srs_eval.training.recurrent import START, RecurrentModel, fit_recurrent, predict_recurrent


def _same_day(state: State, t: Value, rating: Value, w: Value) -> State:
    """Return the state after a review less than a day after the previous one."""
    s, d = state
    new_s = s * exp(w[17] * (rating - 3.0 + w[18]))
    return clamp(new_s, w[19], S_MAX), next_d(d, rating, w)


# fmt: off
_DEFAULT = (
    0.40255, 1.18385, 3.173, 15.69105,  # S0 by first rating
    7.1949, 0.5345, 1.4604, 0.0046,  # difficulty
    1.54575, 0.1192, 1.01925,  # success
    1.9395, 0.11, 0.29605, 2.2698,  # failure
    0.2315, 2.9898,  # Hard, Easy
    0.51655, 0.6621,  # same day
)
_DEVIATION = (
    6.61, 9.52, 17.69, 27.74, 0.55, 0.28, 0.67, 0.12, 0.4, 0.18,
    0.34, 0.27, 0.08, 0.14, 0.57, 0.25, 1.03, 0.27, 0.39,
)
_UPPER = (100, 100, 100, 100, 10, 4, 4, 0.75, 4.5, 0.8, 3.5, 5, 0.25, 0.9, 4, 1, 6, 2, 2)
# fmt: on


def _lower_bounds(minimum: float) -> tuple[float, ...]:
    # fmt: off
    return (
        minimum, minimum, minimum, minimum, 1, 0.001, 0.001, 0.001, 0, 0, 0.001,
        0.001, 0.001, 0.001, 0, 0, 1, 0, 0,
    )
    # fmt: on


RECURRENT = RecurrentModel(
    name="FSRS_5",
    default=_DEFAULT,
    lower=_lower_bounds(0.01),
    upper=_UPPER,
    **make_steps(19, forgetting_curve, limit=limit_lapse_v5),
    same_day=_same_day,
    constants=(0.01,),
    deviation=_DEVIATION,
    tie_order="quicksort",
)


def _make_recurrent(trials: Trials) -> RecurrentModel:
    frozen = (0, 1, 2, 3, 17, 18) if trials.protocol.disable_short_term else ()
    least = minimum_stability(trials)
    return replace(RECURRENT, lower=_lower_bounds(least), constants=(least,), frozen=frozen)


def _as_padded_tensor(trials: Trials, first_row: int) -> Trials:
    """Return the trials as they are in a padded tensor that begins with the trial `first_row`.

    If all intervals in that trial's history are 0, the tensor holds integers.
    """
    start = trials.history_start[first_row]
    end = trials.history_end[first_row]
    has_intervals = trials.history_delta_t[start:end].any()
    if has_intervals or not trials.protocol.later_days_only:
        return trials
    in_whole_days = trials.derived(_round_to_days)
    return replace(in_whole_days, protocol=trials.protocol)


def _round_to_days(trials: Trials) -> Trials:
    return replace(trials, history_delta_t=np.floor(trials.history_delta_t))


def _zero_short_term(parameters: list[float]) -> list[float]:
    """Return the parameters without an effect of same-day reviews on S."""
    return [*parameters[:17], 0.0, 0.0]


def _fit_s0(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """Return the default parameters with S0 fitted, adapted to `disable_short_term`."""
    start = make_s0_fit(_DEFAULT, decay=0.5)(trials, train, weights, context)
    return _zero_short_term(start) if trials.protocol.disable_short_term else start


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """Fit the 19 parameters, or S0 only if all histories are too long to train on."""
    start = list(_DEFAULT)
    if START.value_in(context) == "fitted":
        start = _fit_s0(trials, train, weights, context)
    try:
        shortest = sort_by_length(trials, select_training_rows(trials, train))[0]
        padded = _as_padded_tensor(trials, int(shortest))
        return fit_recurrent(_make_recurrent(trials), padded, train, weights, start, context)
    except NotEnoughData:
        return start


def _predict(
    trials: Trials, parameters: list[float], index: IntArray, context: Context
) -> FloatArray:
    del context
    if trials.protocol.disable_short_term:
        parameters = _zero_short_term(parameters)
    if not len(index):
        return np.empty(0)
    padded = _as_padded_tensor(trials, int(index[0]))
    return predict_recurrent(_make_recurrent(trials), padded, parameters, index)


MODELS = (
    TrainedModel(
        name="FSRS-5",
        family="fsrs",
        inputs="IL, G, SR",
        parameters=19,
        source="fsrs-optimizer 5.7.0 (2024), src/fsrs_optimizer/fsrs_optimizer.py",
        predict=_predict,
        fit=_fit,
        fit_s0=_fit_s0,
        default=lambda context: list(_DEFAULT),
        configurations=(
            "FSRS-5",
            "FSRS-5-dry-run",
            "FSRS-5-pretrain",
            "FSRS-5-binary",
            "FSRS-5-recency",
            "FSRS-5-preset",
            "FSRS-5-deck",
            "FSRS-5-disable_short_term",
        ),
        always_short=True,
        later_days_only=True,
        flags=ANY_FLAG | {"disable_short_term"},
        parameters_with={"pretrain": 4, "two_buttons": 15, "disable_short_term": 17},
        hyperparameters=(*RECURRENT.hyperparameters, START),
        cost=Cost(seconds_per_10k=0.013, seconds_to_compile=1.8),
        note="Trained with gamma 1; the published FSRS-5 was trained with gamma 2 (--gamma).",
    ),
)
