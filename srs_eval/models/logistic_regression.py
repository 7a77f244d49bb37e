"""Logistic regression on 34 features of a card's history, with fractional intervals.

    p = sigmoid(sum over k of c_k x_k),  c = residual * std + mean

The mean and std of each coefficient over users are fixed; the residuals start at 0 and are
fitted per user. With v the transformed time since the last review, (ln(t + 1e-5) + 1.3) / 5 for
t in days, x holds ten features times v and then 24 plain ones.

Times v: 1; last rating is Hard, Good, Easy; Hard at the first trial; better than Hard
there; ln(1 + same-day failures); ln(1 + other-day passes) and ln(1 + other-day
failures), both 0 if the trial is same-day; ln(1 + same-day passes). Plain: 1; last
rating Hard, Good, Easy; first rating Hard, Good, Easy; those three at the first trial
only; ln(1 + same-day failures); ln(1 + other-day passes), 0 if same-day; the interval
before, transformed; ln(1 + other-day failures); ln(1 + other-day passes); ln(1 +
same-day passes), 0 unless same-day; passed ever; time since the first review or the
last lapse, transformed; same-day; time since the first trial, transformed; and with a
first rating above Again, ln(1 + ...) of same-day failures, other-day failures,
same-day and other-day intervals.

Follows open-spaced-repetition/srs-benchmark commit 07166732ccb5, models/
logistic_regression.py, with features/logistic_regression_engineer.py (commit 25d7fe7cc430):
AdamW with beta = (0, 0.85) and weight decay 0.3, cosine schedule from 0.2, ten epochs over
shuffled batches of 2,048. Rows are weighted 0.1 + 0.9 x^4, x from 0 to 1 in order of review,
whatever `recency` says. Upstream shuffles with one random stream per process, so its figures for a
user depend on the users before; here each fit has its own stream with the same seed, 42.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray, mark_run_starts
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Model
from srs_eval.training import hyperparameters
from srs_eval.training.compile import compile_kernel

# fmt: off
_MEAN = np.array([
    -0.9012, -0.6941, -0.6258, -0.4678, 0.3926, 0.1316, 0.3508, -0.3259, -0.2125, -0.1402,
    1.2775, 0.0669, 0.3914, 0.5828, 0.9292, 1.1583, 1.4103, 0.9388, 0.9164, 0.9797,
    -0.6411, 0.4951, 0.1038, -0.1564, 0.4332, 0.3287, 0.3429, 0.4068, -0.1779, -0.0585,
    -0.1062, -0.3521, -0.1613, -0.1758,
])
_STD = np.array([
    0.2869, 0.2811, 0.2910, 0.2166, 0.1740, 0.1612, 0.1428, 0.1352, 0.1284, 0.0331,
    0.4013, 0.2065, 0.2022, 0.1670, 0.2454, 0.2954, 0.2896, 0.3473, 0.5685, 0.2795,
    0.1298, 0.0467, 0.1200, 0.1317, 0.0785, 0.1190, 0.0854, 0.1634, 0.1892, 0.1052,
    0.0750, 0.1913, 0.1372, 0.0783,
])
# fmt: on
_EPOCHS = hyperparameters.epochs(10)
_BATCH = hyperparameters.batch_size(2048)
_RATE = hyperparameters.learning_rate(0.2)
_DECAY = hyperparameters.penalty("decay", 0.3)
_BETA = 0.85
_SEED = 42


def _transform_time(days: float) -> float:
    """Return the logarithm of a time in days, scaled to about -2 ... 2."""
    return (math.log(days + 1e-5) + 1.3) / 5


def _compute_features(
    start: NDArray[np.bool_], last_rating: IntArray, delta_t: FloatArray, elapsed_days: IntArray
) -> NDArray[np.float32]:
    """Return x of each trial (n, 34); `start` marks the first trial of each card.

    Trials are ordered by card. Counts are over the card's earlier trials except the first, whose
    rating is that of the review before it. A trial is same-day if its `elapsed_days` are 0.
    """
    n = len(start)
    x = np.empty((n, 34), np.float32)  # as upstream keeps them
    row = np.empty(34)
    logs = np.empty(n + 1)  # ln(1 + count)
    known = 0
    for k in range(n):
        rating = last_rating[k]
        passed = rating > 1
        before, days_before = 0.0, 0
        if start[k]:
            first = rating
            same_fails = 0
            other_fails = 0
            same_passes = 0
            other_passes = 0
            passes = 0
            same = 0
            other = 0
            time, last_lapse = 0.0, np.float32(0.0)
        else:
            before, days_before = delta_t[k - 1], elapsed_days[k - 1]
            if days_before <= 0:
                same_passes += passed
                same_fails += not passed
            else:
                other_passes += passed
                other_fails += not passed
        time += before
        passes += passed
        same += days_before <= 0
        other += days_before > 0
        now = np.float32(time)  # single precision as upstream: minutes after years vanish
        if start[k] or not passed:
            last_lapse = max(last_lapse, now)
        same_day = elapsed_days[k] <= 0

        while known <= same + other:
            logs[known] = math.log(1 + known)
            known += 1
        row[:] = 0.0
        row[0] = 1
        if passed:
            row[rating - 1] = 1
        row[4] = start[k] and rating == 2
        row[5] = start[k] and rating > 2
        row[6] = logs[same_fails]
        row[7] = 0 if same_day else logs[other_passes]
        row[8] = 0 if same_day else logs[other_fails]
        row[9] = logs[same_passes]
        v = _transform_time(delta_t[k])
        for j in range(10):
            row[j] *= v
        row[10] = 1
        if passed:
            row[9 + rating] = 1
        if first > 1:
            row[12 + first] = 1
            if start[k]:
                row[15 + first] = 1
            row[30] = logs[same_fails]
            row[31] = logs[other_fails]
            row[32] = logs[same]
            row[33] = logs[other]
        row[20] = logs[same_fails]
        row[21] = 0 if same_day else logs[other_passes]
        row[22] = _transform_time(before)
        row[23] = logs[other_fails]
        row[24] = logs[other_passes]
        row[25] = logs[same_passes] if same_day else 0
        row[26] = passes > 0
        row[27] = _transform_time(float(now - last_lapse))
        row[28] = same_day
        row[29] = _transform_time(float(now))
        x[k] = row
    return x


def _features_of_trials(trials: Trials) -> NDArray[np.float32]:
    order = np.argsort(trials.card_id, kind="stable")
    x = np.empty((len(order), 34), np.float32)
    x[order] = compile_kernel(_compute_features)(
        mark_run_starts(trials.card_id[order]),
        trials.history_rating[trials.history_end[order] - 1],
        trials.delta_t[order],
        trials.elapsed_days[order],
    )
    return x


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """Fit the 34 coefficients; `weights` are not used, because the model has its own."""
    del weights
    _require_seconds(trials)
    n = len(train)
    if not n:
        raise NotEnoughData("no reviews to train on")
    from srs_eval.training.sweeps import logistic_epoch

    share = np.zeros(len(trials))
    share[train] = 0.1 + 0.9 * np.linspace(0, 1, n) ** 4
    share[trials.y == 0] *= -1
    # With the same seed, torch's generator gives the same words as this one.
    stream = np.random.RandomState(_SEED + hyperparameters.SEED.integer_in(context))
    residual = np.zeros(34)
    square = np.zeros(34)
    epochs = _EPOCHS.integer_in(context)
    size = _BATCH.integer_in(context)
    rate = _RATE.number_in(context)
    decay = _DECAY.number_in(context)
    for epoch in range(epochs):
        context.tick(epoch / epochs)
        words = stream.randint(0, 2**32, n - 1, np.uint32)
        compile_kernel(logistic_epoch)(
            trials.derived(_features_of_trials),
            share,
            train,
            _MEAN,
            _STD,
            words,
            residual,
            square,
            epoch,
            epochs,
            size,
            rate,
            _BETA,
            decay,
        )
    coefficients: list[float] = (residual * _STD + _MEAN).tolist()
    return coefficients


def _predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    _require_seconds(trials)
    z = trials.derived(_features_of_trials)[index] @ np.array(parameters)
    return (1 / (1 + np.exp(-z))).astype(np.float32).astype(np.float64)


def _require_seconds(trials: Trials) -> None:
    if not trials.protocol.secs:
        raise InputError("LogisticRegression needs fractional intervals: add --secs --short.")


MODELS = (
    Model(
        name="LogisticRegression",
        family="history",
        inputs="FIL, G, SR",
        parameters=34,
        source="srs-benchmark pull request 301 (2026), models/logistic_regression.py",
        fit=_fit,
        predict=_predict,
        default=lambda context: _MEAN.tolist(),
        standard="LogisticRegression-short-secs-recency",
        hyperparameters=(_RATE, _EPOCHS, _BATCH, _DECAY, hyperparameters.SEED),
        seconds_per_10k=0.022,
        seconds_to_compile=7.0,
    ),
)
