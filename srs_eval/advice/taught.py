"""Fit FSRS-6 while reviews are few: Anki's own fit, averaged with one that three models teach.

A few hundred answers say little about 21 parameters, and nothing about intervals that the learner
never waited. So a teacher is fitted to the same reviews: the mean of the predictions of FSRS-6,
FSRS-7 and a logistic regression, as in `srs_eval.models.blend`. FSRS-6 then learns half from the
outcomes and half from the teacher, who also answers for shorter and longer intervals. It minimises

    sum over reviews of weight (H((y + q(t)) / 2, p(t)) + 1.25 mean over f of H(q(f t), p(f t)))
      + sum(((x - default) / (10 sd))^2)

with H(target, p) the cross entropy, y the outcome, q the teacher's prediction, p that of FSRS-6, t
the interval, f = 1/4, 1/2, 2, 4, weight 0.25 + 0.75 a^3 (a from 0 to 1 over the reviews), sd the
deviations of Anki's penalty (1 for logarithms), and x = log S0 for the initial stabilities, log w20
for the decay, and w for the others.

The taught parameters are the mean, in x, of these and of what Anki's own optimizer gives. They
predict the reviews to come better than Anki's for more people than the teacher's do, and where
memory follows FSRS-6 they do no harm on average (benchmarks/few_reviews.py, docs/verdicts.md).

Source of the idea: Hinton, Vinyals and Dean (2015), Distilling the Knowledge in a Neural Network,
arXiv:1503.02531.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import TRIAL_COLUMNS, Trials, compute_recency_weights
from srs_eval.models import fsrs6, fsrs7, logistic_regression
from srs_eval.models.blend import average_logits
from srs_eval.training.hyperparameters import Context
from srs_eval.training.recurrent import SummedLoss

MAX_REVIEWS = 3_000  # usable reviews up to which teaching was measured to help
MIN_REVIEWS = 64  # with fewer, Anki's optimizer gives almost the defaults
_OTHER_INTERVALS = (0.25, 0.5, 2.0, 4.0)  # multiples of the interval that was waited
_OTHER_WEIGHT = 1.25  # of all of them together, in units of the review's own weight
_TEACHER_SHARE = 0.5  # of the target at the interval that was waited
_PRIOR_WIDTH = 10.0  # standard deviations of the prior, in units of Anki's
_ITERATIONS = 200
_MIN_STABILITY = 0.001  # days
_LOG_SCALED = np.array([0, 1, 2, 3, 20])
"""Parameters that are fitted as logarithms: the initial stabilities and the decay."""


def fit_taught(
    trials: Trials, train: IntArray, fractional: Trials, context: Context
) -> list[float]:
    """Return the mean of Anki's fit to the positions `train` and of a teacher's.

    The trials have Anki's rows, and the positions are in review order. `fractional` are the trials
    of the same log with intervals in fractions of a day, which include reviews of the same day.
    With fewer than MIN_REVIEWS positions this is Anki's fit alone. Raises NotEnoughData if all
    first intervals are rare, which Anki's optimizer refuses, too.
    """
    by_anki = fsrs6.fit_as_anki(trials, train, context)
    if len(train) < MIN_REVIEWS:
        return by_anki
    return average_lines(by_anki, fit_to_teacher(trials, train, fractional, context))


def fit_to_teacher(
    trials: Trials, train: IntArray, fractional: Trials, context: Context
) -> list[float]:
    """Fit the 21 parameters half to outcomes and half to a teacher; see `fit_taught`."""
    targets = _predict_with_teacher(trials, train, fractional, context)
    targets[0] = _TEACHER_SHARE * targets[0] + (1 - _TEACHER_SHARE) * trials.y[train]
    weights = np.full(targets.shape, _OTHER_WEIGHT / len(_OTHER_INTERVALS))
    weights[0] = 1.0
    weights *= compute_recency_weights(len(train))
    asked = replace(_ask_at_other_intervals(trials, train), y=targets.ravel())
    x = _minimise(SummedLoss(_MODEL, asked, np.arange(len(asked)), weights.ravel()))
    return fsrs6.order_initial_stabilities(trials, train, _to_parameters(x).tolist())


def average_lines(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Return the mean of two lists of FSRS-6's parameters, geometric for S0 and the decay."""
    mean = (_to_scale(np.array(first)) + _to_scale(np.array(second))) / 2
    values: list[float] = _to_parameters(mean).tolist()
    return values


def _predict_with_teacher(
    trials: Trials, train: IntArray, fractional: Trials, context: Context
) -> FloatArray:
    """Return the teacher's predictions (1 + other intervals, k) for the positions `train` (k,)."""
    position = np.searchsorted(fractional.review_th, trials.review_th[train])
    is_same_partition = np.isin(fractional.partition, trials.partition[train])
    is_same_partition[position[-1] + 1 :] = False
    fractional_train = np.flatnonzero(is_same_partition)
    recency = compute_recency_weights(len(train))
    fsrs6_parameters = fsrs6.fit(trials, train, recency, context)
    asked = _ask_at_other_intervals(trials, train)
    index = np.arange(len(asked))
    predictions = [fsrs6.predict(asked, fsrs6_parameters, index, context)]
    fractional_recency = fsrs7.compute_fsrs7_recency_weights(len(fractional_train))
    fsrs7_parameters = fsrs7.fit(fractional, fractional_train, fractional_recency, context)
    asked = _ask_at_other_intervals(fractional, position)
    predictions.append(fsrs7.predict(asked, fsrs7_parameters, index, context))
    # A logistic regression has weights of its own, whatever weights it gets.
    coefficients = logistic_regression.fit(
        fractional, fractional_train, fractional_recency, context
    )
    at_each_interval = [
        logistic_regression.predict_at(fractional, coefficients, position, days)
        for days in asked.delta_t.reshape(-1, len(train))
    ]
    predictions.append(np.concatenate(at_each_interval))
    return average_logits(predictions).reshape(1 + len(_OTHER_INTERVALS), len(train))


def _ask_at_other_intervals(trials: Trials, index: IntArray) -> Trials:
    """Return the trials at the positions (k,), and then again at each other interval.

    Their histories stay as they were.
    """
    multiples = (1.0, *_OTHER_INTERVALS)
    columns: dict[str, Any] = {
        name: np.tile(getattr(trials, name)[index], len(multiples)) for name in TRIAL_COLUMNS
    }
    columns["delta_t"] = np.outer(multiples, trials.delta_t[index]).ravel()
    return replace(trials, folds=(), **columns)


def _minimise(loss: SummedLoss) -> FloatArray:
    """Return the x (21,) with the least loss and penalty, found by L-BFGS-B from the defaults."""
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    def objective(z: FloatArray) -> tuple[float, FloatArray]:
        w = _to_parameters(_DEFAULT + _SCALE * z)
        slope = loss.gradient(w)
        slope[_LOG_SCALED] *= w[_LOG_SCALED]
        value = loss.value(w) + float(z @ z) / _PRIOR_WIDTH**2
        return value, slope * _SCALE + 2.0 * z / _PRIOR_WIDTH**2

    bounds = np.stack([(_LOWER - _DEFAULT) / _SCALE, (_UPPER - _DEFAULT) / _SCALE], axis=1)
    with threadpool_limits(1):  # with more, most of the time goes to threads
        result = minimize(
            objective,
            np.zeros(len(_DEFAULT)),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": _ITERATIONS},
        )
    return _DEFAULT + _SCALE * np.asarray(result.x, np.float64)


def _to_scale(w: FloatArray) -> FloatArray:
    """Return x of the parameters w (21,): logarithms of S0 and of the decay, the others as is."""
    x = w.copy()
    x[_LOG_SCALED] = np.log(w[_LOG_SCALED])
    return x


def _to_parameters(x: FloatArray) -> FloatArray:
    w = x.copy()
    w[_LOG_SCALED] = np.exp(x[_LOG_SCALED])
    return w


_MODEL = fsrs6.make_anki_recurrent()
_DEFAULT = _to_scale(np.array(_MODEL.default))
_LOWER = _to_scale(np.array(_MODEL.lower, np.float64))
_UPPER = _to_scale(np.array(_MODEL.upper, np.float64))
_SCALE = np.array((1.0, 1.0, 1.0, 1.0, *fsrs6.DEVIATION[4:20], 1.0))
"""Typical differences between learners in each x (21,)."""
