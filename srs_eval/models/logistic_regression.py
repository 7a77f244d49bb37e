"""Logistic regression on 34 features of a card's history, with fractional intervals.

    p = sigmoid(sum over k of c_k x_k),  c = residual * std + mean

The mean and std of each coefficient over users are fixed; the residuals start at 0 and are
fitted per user. With v the transformed time since the last review, (ln(t + 1e-5) + 1.3) / 5 for
t in days, x holds ten features times v and then 24 plain ones: `LogisticFeature` names them, and
`_compute_features` has their formulas.

Follows open-spaced-repetition/srs-benchmark commit 07166732ccb5, models/
logistic_regression.py, with features/logistic_regression_engineer.py (commit 25d7fe7cc430):
AdamW with beta = (0, 0.85) and weight decay 0.3, cosine schedule from 0.2, ten epochs over
shuffled batches of 2,048. Rows are weighted 0.1 + 0.9 x^4, x from 0 to 1 in order of review,
whatever `recency` says. Upstream shuffles with one random stream per process, so its figures for a
user depend on the users before; here each fit has its own stream with the same seed, 42.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray, mark_run_starts
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Cost, TrainedModel
from srs_eval.training import hyperparameters
from srs_eval.training.compile import compile_kernel


class LogisticFeature(IntEnum):
    """Number of each feature's column, with the mean and std of its coefficient over users.

    The columns are in this order, which is upstream's.
    """

    mean: float
    std: float

    def __new__(cls, mean: float, std: float) -> LogisticFeature:
        """Set the number of the feature: features are numbered in the order below."""
        column = len(cls.__members__)
        feature = int.__new__(cls, column)
        feature._value_ = column
        feature.mean = mean
        feature.std = std
        return feature

    # Times v
    TIME = -0.9012, 0.2869
    TIME_AFTER_HARD = -0.6941, 0.2811
    TIME_AFTER_GOOD = -0.6258, 0.2910
    TIME_AFTER_EASY = -0.4678, 0.2166
    TIME_FIRST_TRIAL_HARD = 0.3926, 0.1740
    TIME_FIRST_TRIAL_ABOVE_HARD = 0.1316, 0.1612
    TIME_SAME_DAY_FAILURES = 0.3508, 0.1428
    TIME_OTHER_DAY_PASSES = -0.3259, 0.1352
    TIME_OTHER_DAY_FAILURES = -0.2125, 0.1284
    TIME_SAME_DAY_PASSES = -0.1402, 0.0331

    # Plain
    INTERCEPT = 1.2775, 0.4013
    LAST_HARD = 0.0669, 0.2065
    LAST_GOOD = 0.3914, 0.2022
    LAST_EASY = 0.5828, 0.1670
    FIRST_HARD = 0.9292, 0.2454
    FIRST_GOOD = 1.1583, 0.2954
    FIRST_EASY = 1.4103, 0.2896
    FIRST_TRIAL_HARD = 0.9388, 0.3473
    FIRST_TRIAL_GOOD = 0.9164, 0.5685
    FIRST_TRIAL_EASY = 0.9797, 0.2795
    SAME_DAY_FAILURES = -0.6411, 0.1298
    OTHER_DAY_PASSES_ON_LATER_DAY = 0.4951, 0.0467
    INTERVAL_BEFORE = 0.1038, 0.1200
    OTHER_DAY_FAILURES = -0.1564, 0.1317
    OTHER_DAY_PASSES = 0.4332, 0.0785
    SAME_DAY_PASSES_ON_SAME_DAY = 0.3287, 0.1190
    EVER_PASSED = 0.3429, 0.0854
    TIME_SINCE_LAPSE = 0.4068, 0.1634
    SAME_DAY = -0.1779, 0.1892
    TIME_SINCE_FIRST_TRIAL = -0.0585, 0.1052
    FIRST_PASSED_SAME_DAY_FAILURES = -0.1062, 0.0750
    FIRST_PASSED_OTHER_DAY_FAILURES = -0.3521, 0.1913
    FIRST_PASSED_SAME_DAY_INTERVALS = -0.1613, 0.1372
    FIRST_PASSED_OTHER_DAY_INTERVALS = -0.1758, 0.0783


_FEATURE_COUNT = len(LogisticFeature)
_MEAN = np.array([feature.mean for feature in LogisticFeature])
_STD = np.array([feature.std for feature in LogisticFeature])
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
    start: NDArray[np.bool_],
    last_rating: IntArray,
    delta_t: FloatArray,
    elapsed_days: IntArray,
    asked: IntArray,
    asked_t: FloatArray,
    asked_days: IntArray,
) -> NDArray[np.float32]:
    """Return x (k, features) of the trials `asked` (k,), positions in ascending order.

    They come `asked_t` days after their last reviews, `asked_days` whole days later, in which they
    may differ from the trials (n,) that make up the histories. A trial can be asked several times.
    `start` marks the first trial of each card; trials are ordered by card. Counts are over the
    card's earlier trials except the first, whose rating is that of the review before it. A trial is
    same-day if its whole days are 0.
    """
    n = len(start)
    x = np.empty((len(asked), _FEATURE_COUNT), np.float32)  # as upstream keeps them
    row = np.empty(_FEATURE_COUNT)
    logs = np.empty(n + 1)  # ln(1 + count)
    logs_known = 0
    number = 0  # of the next trial that is asked
    for k in range(n):
        rating = last_rating[k]
        passed = rating > 1
        before, days_before = 0.0, 0  # interval of the card's trial before, if there is one
        if start[k]:
            first = rating
            same_day_failures = 0
            other_day_failures = 0
            same_day_passes = 0
            other_day_passes = 0
            passes = 0
            same_day_intervals = 0
            other_day_intervals = 0
            time, last_lapse = 0.0, np.float32(0.0)
        else:
            before, days_before = delta_t[k - 1], elapsed_days[k - 1]
            if days_before <= 0:
                same_day_passes += passed
                same_day_failures += not passed
            else:
                other_day_passes += passed
                other_day_failures += not passed
        time += before
        passes += passed
        same_day_intervals += days_before <= 0
        other_day_intervals += days_before > 0
        now = np.float32(time)  # single precision as upstream: minutes after years vanish
        if start[k] or not passed:
            last_lapse = max(last_lapse, now)
        while logs_known <= same_day_intervals + other_day_intervals:
            logs[logs_known] = math.log(1 + logs_known)
            logs_known += 1
        if number == len(asked) or asked[number] != k:
            continue

        # What does not depend on the time that is asked
        row[:] = 0.0
        row[LogisticFeature.INTERCEPT] = 1.0
        row[LogisticFeature.LAST_HARD] = rating == 2
        row[LogisticFeature.LAST_GOOD] = rating == 3
        row[LogisticFeature.LAST_EASY] = rating == 4
        row[LogisticFeature.FIRST_HARD] = first == 2
        row[LogisticFeature.FIRST_GOOD] = first == 3
        row[LogisticFeature.FIRST_EASY] = first == 4
        row[LogisticFeature.FIRST_TRIAL_HARD] = start[k] and first == 2
        row[LogisticFeature.FIRST_TRIAL_GOOD] = start[k] and first == 3
        row[LogisticFeature.FIRST_TRIAL_EASY] = start[k] and first == 4
        row[LogisticFeature.SAME_DAY_FAILURES] = logs[same_day_failures]
        row[LogisticFeature.INTERVAL_BEFORE] = _transform_time(before)
        row[LogisticFeature.OTHER_DAY_FAILURES] = logs[other_day_failures]
        row[LogisticFeature.OTHER_DAY_PASSES] = logs[other_day_passes]
        row[LogisticFeature.EVER_PASSED] = passes > 0
        row[LogisticFeature.TIME_SINCE_LAPSE] = _transform_time(float(now - last_lapse))
        row[LogisticFeature.TIME_SINCE_FIRST_TRIAL] = _transform_time(float(now))
        if first > 1:
            row[LogisticFeature.FIRST_PASSED_SAME_DAY_FAILURES] = logs[same_day_failures]
            row[LogisticFeature.FIRST_PASSED_OTHER_DAY_FAILURES] = logs[other_day_failures]
            row[LogisticFeature.FIRST_PASSED_SAME_DAY_INTERVALS] = logs[same_day_intervals]
            row[LogisticFeature.FIRST_PASSED_OTHER_DAY_INTERVALS] = logs[other_day_intervals]

        while number < len(asked) and asked[number] == k:
            same_day = asked_days[number] <= 0
            v = _transform_time(asked_t[number])
            row[LogisticFeature.TIME] = v
            row[LogisticFeature.TIME_AFTER_HARD] = v * (rating == 2)
            row[LogisticFeature.TIME_AFTER_GOOD] = v * (rating == 3)
            row[LogisticFeature.TIME_AFTER_EASY] = v * (rating == 4)
            row[LogisticFeature.TIME_FIRST_TRIAL_HARD] = v * (start[k] and rating == 2)
            row[LogisticFeature.TIME_FIRST_TRIAL_ABOVE_HARD] = v * (start[k] and rating > 2)
            row[LogisticFeature.TIME_SAME_DAY_FAILURES] = v * logs[same_day_failures]
            row[LogisticFeature.TIME_OTHER_DAY_PASSES] = v * (
                0.0 if same_day else logs[other_day_passes]
            )
            row[LogisticFeature.TIME_OTHER_DAY_FAILURES] = v * (
                0.0 if same_day else logs[other_day_failures]
            )
            row[LogisticFeature.TIME_SAME_DAY_PASSES] = v * logs[same_day_passes]
            row[LogisticFeature.OTHER_DAY_PASSES_ON_LATER_DAY] = (
                0.0 if same_day else logs[other_day_passes]
            )
            row[LogisticFeature.SAME_DAY_PASSES_ON_SAME_DAY] = (
                logs[same_day_passes] if same_day else 0.0
            )
            row[LogisticFeature.SAME_DAY] = same_day
            x[number] = row
            number += 1
    return x


def _features_of_trials(trials: Trials) -> NDArray[np.float32]:
    everything = np.arange(len(trials))
    return _features_at(trials, everything, trials.delta_t[:, None], trials.elapsed_days[:, None])


def _features_at(
    trials: Trials, index: IntArray, days: FloatArray, elapsed_days: IntArray
) -> NDArray[np.float32]:
    """Return x (k t, features) of the trials `index` (k,) if they come at other times.

    The times are `days` and `elapsed_days` (k, t) after each trial's last review. What came before
    the trials stays as it was.
    """
    rows = np.flatnonzero(np.isin(trials.card_id, trials.card_id[index]))
    rows = rows[np.argsort(trials.card_id[rows], kind="stable")]
    # The trials as the kernel wants them, and those asked in their order among these
    row_of_trial = np.empty(len(trials), np.int64)
    row_of_trial[rows] = np.arange(len(rows))
    order = np.argsort(row_of_trial[index], kind="stable")
    times = days.shape[1]
    x = np.empty((len(index), times, _FEATURE_COUNT), np.float32)
    x[order] = compile_kernel(_compute_features)(
        mark_run_starts(trials.card_id[rows]),
        trials.history_rating[trials.history_end[rows] - 1],
        trials.delta_t[rows],
        trials.elapsed_days[rows],
        np.repeat(row_of_trial[index[order]], times),
        days[order].ravel(),
        elapsed_days[order].ravel(),
    ).reshape(x.shape)
    return x.reshape(-1, _FEATURE_COUNT)


def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    """Fit the coefficients; `weights` are not used, because the model has its own."""
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
    residual = np.zeros(_FEATURE_COUNT)
    square = np.zeros(_FEATURE_COUNT)
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
    return _compute_recall(trials.derived(_features_of_trials)[index], parameters)


def predict_at(
    trials: Trials, parameters: Sequence[float], index: IntArray, days: FloatArray
) -> FloatArray:
    """Predict recall of the trials `index` (k,) at other times: `days` (k,) after the last review.

    The history before the trials stays as it was; a same-day trial stays a same-day one.
    """
    _require_seconds(trials)
    x = _features_at(trials, index, days[:, None], trials.elapsed_days[index][:, None])
    return _compute_recall(x, parameters)


def _predict_at_times(
    trials: Trials,
    parameters: Any,
    index: IntArray,
    days: FloatArray,
    elapsed_days: IntArray,
    context: Context,
) -> FloatArray:
    _require_seconds(trials)
    days_of_each = np.broadcast_to(days, elapsed_days.shape)
    x = _features_at(trials, index, days_of_each, elapsed_days)
    return _compute_recall(x, parameters).reshape(elapsed_days.shape)


def _compute_recall(x: NDArray[np.float32], parameters: Sequence[float]) -> FloatArray:
    z = x @ np.array(parameters)
    return (1 / (1 + np.exp(-z))).astype(np.float32).astype(np.float64)


def _require_seconds(trials: Trials) -> None:
    if not trials.protocol.secs:
        raise InputError("LogisticRegression needs fractional intervals: add --secs --short.")


MODELS = (
    TrainedModel(
        name="LogisticRegression",
        family="history",
        inputs="FIL, G, SR",
        parameters=_FEATURE_COUNT,
        source="srs-benchmark pull request 301 (2026), models/logistic_regression.py",
        fit=fit,
        predict=_predict,
        predict_at=_predict_at_times,
        default=lambda context: _MEAN.tolist(),
        standard="LogisticRegression-short-secs-recency",
        hyperparameters=(_RATE, _EPOCHS, _BATCH, _DECAY, hyperparameters.SEED),
        cost=Cost(seconds_per_10k=0.022, seconds_to_compile=7.0),
    ),
)
