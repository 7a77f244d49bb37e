"""FSRS-6 learnt online: one gradient step after each review, in one pass over the past.

S0 is fitted first, as for FSRS-6. Then, review after review, the state before it is
computed with the current parameters, and these move against the gradient of its log
loss. The gradient looks back through the last transition only, holding the state before
that, and S0 moves 100 times as fast as the rest. Predictions are those of FSRS-6.

Formulas and training: srs-benchmark models/fsrs_v6_one_step.py (commit 1d517ddcf823) and
model_processors.py `fsrs_one_step` (commit 8a8a329c902f). Its quirks are part of it: S
has no upper bound and no limit after a failure, D changes before S, gradients pass
through clamps, a same-day last review gets the gradient of one on a later day, and the
parameters of same-day reviews (w[17] to w[19]) are never trained. A failure's gradient is
written out here: with the stability of a same-day review in it, it is no formula's derivative.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import ANY_FLAG, Context, Model, facts
from srs_eval.models._fsrs import (
    init_d,
    next_d,
    raw_next_d,
    stability_after_failure,
    stability_after_success,
)
from srs_eval.models.fsrs6 import (
    DEFAULT,
    UPPER,
    fit_s0,
    forgetting_curve,
    lower_bounds,
    predict,
    short_term_increase,
)
from srs_eval.training import hyperparameters
from srs_eval.training.compile import Gradient, specialised
from srs_eval.training.elementwise import clamp

_LEARNING_RATE = hyperparameters.learning_rate(1e-4)
_S0_FACTOR = 100.0
_S_MIN = 0.001
_R_MIN = 1e-9  # of the probability that the loss is divided by


_gradient: Any = None  # in the kernel, those that `_kernel` says
_curve_adjoint = _success_adjoint = _difficulty_adjoint = _gradient


def _bounded_d(d: float) -> float:
    return clamp(d, 1.0, 10.0)


def _descend(
    history_start: IntArray,
    history_end: IntArray,
    history_delta_t: FloatArray,
    history_rating: IntArray,
    delta_t: FloatArray,
    y: FloatArray,
    train: IntArray,
    w: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    rate: float,
) -> None:
    """Moves w once for each training row."""
    for row in train:
        t = delta_t[row]
        if t < 1.0:
            continue
        s, d, last_s, last_d, last_t, rating = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(history_start[row], history_end[row]):
            last_s, last_d = s, d
            last_t, rating = history_delta_t[k], float(history_rating[k])
            if k == history_start[row]:
                s = w[history_rating[k] - 1]
                d = _bounded_d(init_d(rating, w))
            elif last_t < 1.0:
                increase = short_term_increase(s, rating, w)
                s *= max(increase, 1.0) if rating >= 3.0 else increase
                d = next_d(d, rating, w)
            else:
                r = forgetting_curve(last_t, s, w)
                d = next_d(d, rating, w)
                if rating == 1.0:
                    s = stability_after_failure(s, d, r, w)
                else:
                    s = stability_after_success(s, d, r, rating, w)
            s = max(s, _S_MIN)
        if s <= _S_MIN:
            continue

        gradient = np.zeros(21)
        r = min(max(forgetting_curve(t, s, w), _R_MIN), 1.0 - _R_MIN)
        s_bar = _curve_adjoint(t, s, w, (r - y[row]) / (r * (1.0 - r)), gradient)
        if history_end[row] - history_start[row] == 1:
            gradient[history_rating[history_start[row]] - 1] = _S0_FACTOR * s_bar
        else:
            last_r = forgetting_curve(last_t, last_s, w)
            if rating == 1.0:
                # By the formula of a later day, but with the s that was found: no derivative.
                grown = (last_s + 1.0) ** w[13]
                factor = w[11] * d ** -w[12] * np.exp((1.0 - last_r) * w[14])
                gradient[11] += s / w[11] * s_bar
                gradient[12] += -np.log(d) * s * s_bar
                gradient[13] += factor * grown * np.log(last_s + 1.0) * s_bar
                gradient[14] += (1.0 - last_r) * s * s_bar
                d_bar = -w[12] * s / d * s_bar
            else:
                d_bar = _success_adjoint(last_s, d, last_r, rating, w, s_bar, gradient)
            _difficulty_adjoint(last_d, rating, w, d_bar, gradient)
        for k in range(21):
            w[k] = min(max(w[k] - rate * gradient[k], lower[k]), upper[k])


@cache
def _kernel() -> Any:
    steps: dict[str, Any] = {
        "_bounded_d": _bounded_d,
        "forgetting_curve": forgetting_curve,
        "init_d": init_d,
        "next_d": next_d,
        "short_term_increase": short_term_increase,
        "stability_after_failure": stability_after_failure,
        "stability_after_success": stability_after_success,
        "_curve_adjoint": Gradient(forgetting_curve, ("s",), "w"),
        "_success_adjoint": Gradient(stability_after_success, ("d",), "w"),
        "_difficulty_adjoint": Gradient(raw_next_d, (), "w"),
    }
    return specialised(_descend, "FSRS_6", steps, {})


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """The 21 parameters after the last training review; they are not rounded."""
    w = np.array(fit_s0(trials, train, weights, context))
    _kernel()(
        trials.history_start,
        trials.history_end,
        trials.history_delta_t,
        trials.history_rating,
        trials.delta_t,
        trials.y,
        train,
        w,
        np.array(lower_bounds(_S_MIN), np.float64),
        np.array(UPPER, np.float64),
        _LEARNING_RATE.number(context),
    )
    context.tick(1.0)
    fitted: list[float] = w.tolist()
    return fitted


MODELS = (
    Model(
        **facts("FSRS-6-one-step"),
        predict=predict,
        fit=_fit,
        default=lambda context: list(DEFAULT),
        always_short=True,
        flags=ANY_FLAG - {"recency"},
        parameters_with={"two_buttons": 17},
        hyperparameters=(_LEARNING_RATE,),
    ),
)
