"""SM-2 with its constants trained: intervals and ease factors, read as a model of memory.

Formulas, defaults and training: srs-benchmark other.py `class SM2` (January 2025). A state
is (interval, ef, reps): days, ease factor, successes in a row. Parameters are w[0] ... w[5]
as there. w[6] is no parameter but the least interval, w[7] the logarithm of the retention
that the interval aims at (`Context.sm2_target`):

    R(t) = 0.9^(t / interval)

Unlike SM-2 it does not round intervals, and a failure sets reps to 1, not 0, so that the
next success gives w[1] days.
"""

from __future__ import annotations

import math

from srs_eval.data.trials import Trials
from srs_eval.models import Model
from srs_eval.models.sm2 import MAXIMUM_INTERVAL, log_target
from srs_eval.training.elementwise import State, Value, clamp, exp, where
from srs_eval.training.recurrent import RecurrentModel, Trainable


def _recall(t: Value, state: State, w: Value) -> Value:
    return exp(w[7] * t / state[0])


def _next_ef(ef: Value, rating: Value, w: Value) -> Value:
    """ef - w3 (q - w4)^2 + w5 with SM-2's grade q = rating + 1."""
    q = rating + 1.0
    return clamp(ef - w[3] * (q - w[4]) * (q - w[4]) + w[5], 1.3, 10.0)


def _first(rating: Value, w: Value) -> State:
    return clamp(w[0], w[6], MAXIMUM_INTERVAL), _next_ef(w[2], rating, w), 1.0


def _success(state: State, t: Value, rating: Value, w: Value) -> State:
    interval, ef, reps = state
    grown = clamp(where(reps == 1.0, w[1], interval * ef), w[6], MAXIMUM_INTERVAL)
    return grown, _next_ef(ef, rating, w), reps + 1.0


def _failure(state: State, t: Value, rating: Value, w: Value) -> State:
    return clamp(w[0], w[6], MAXIMUM_INTERVAL), _next_ef(state[1], rating, w), 1.0


DEFAULT = (1.0, 6.0, 2.5, 0.02, 7.0, 0.18)


def recurrent(least: float, target: float = 0.9) -> RecurrentModel:
    """`least` interval in days, `target` the retention it aims at."""
    return RecurrentModel(
        name="SM2_trainable",
        states=3,
        default=DEFAULT,
        lower=(least, least, 1.3, 0, 5, -math.inf),
        upper=(MAXIMUM_INTERVAL, MAXIMUM_INTERVAL, 10, math.inf, math.inf, math.inf),
        first=_first,
        success=_success,
        failure=_failure,
        recall=_recall,
        constants=(least, log_target(target)),
        tie_order="quicksort",
    )


def _least_interval(trials: Trials) -> float:
    """In days; smaller where intervals are fractions of a day."""
    return 1e-6 if trials.protocol.secs else 0.01


_TRAINABLE = Trainable(
    lambda trials, context: recurrent(_least_interval(trials), context.sm2_target)
)

MODELS = (
    Model(
        name="SM2-trainable",
        family="sm2",
        inputs="IL, G",
        parameters=6,
        source=(
            "P. A. Wozniak, SuperMemo 2 (1990); "
            "open-spaced-repetition/srs-benchmark other.py, class SM2"
        ),
        predict=_TRAINABLE.predict,
        fit=_TRAINABLE.fit,
        default=lambda context: list(DEFAULT),
        hyperparameters=recurrent(0.01).hyperparameters,
        seconds_per_10k=0.008,
        note="SM-2 predicts nothing: R is derived from its interval, as if it aimed at 90 %.",
    ),
)
