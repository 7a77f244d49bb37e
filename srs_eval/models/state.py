"""STATE: how the learner has been doing today and lately, on top of a model of the cards.

People have good and bad days: a memory model that follows only cards misses what all cards of a
day have in common. STATE-FSRS-6 puts FSRS-6's logit and some 80 features of the answers given so
far (`training/state_features.py`), together x, into a logistic regression that learns the outcome y
of every evaluated review after it has predicted it (`_run_kalman_filter`):

    p = sigmoid(w.x / sqrt(1 + pi s2 / 8)),  s2 = x'Px,  h = p (1 - p)
    w += P x (y - p) / (1 + h s2),  P -= h / (1 + h s2) P x (P x)'
    P += q V,  w -= q / 2 (w - w_0)

w_0 and V, means and variances of the weights over other people, are part of the package
(`tools/pretraining/state.py` made them). Two such filters, of which one follows change faster
(q = 0.0001; q = 0.001 with 0.3 V), and FSRS-6 itself are mixed by how well each has done, with
u = (1/4, 1/4, 1/2) before the first review (`_mix_predictions`):

    p = sum u_m p_m,  l_m = p_m if y = 1, else 1 - p_m
    u_m <- 0.999 u_m l_m / sum u l + 0.001 u_m0

STATE-1 is the same idea with one number, the running offset o of FSRS-6's logit z: a richer
model has to beat it.

    p = sigmoid(z + o),  o <- 0.95 o + 0.5 (y - p),  o_0 = 0

STATE-FSRS-6+7 takes FSRS-7's logit as a feature too, and STATE-FSRS-6+7+RWKV that of RWKV-Instant,
which needs its weights (`rwkv.py`).

These models know all answers before the review that they predict, and so how today is going. A
scheduler chooses a day long before it comes and cannot know that, so these models cannot schedule.

A filter's weights drift as a random walk around the prior; their posterior is kept as a normal
distribution (West, Harrison & Migon, 1985, JASA 80; the prediction's integral as MacKay, 1992,
Neural Computation 4). A mixture weighs predictors by how likely each of them made the outcomes so
far, which costs at most the logarithm of its prior weight against the best of them (Vovk, 1990,
COLT), and lets a share of the weight start anew each time (Herbster & Warmuth, 1998, Machine
Learning 32).

Sources: unpublished; the base is FSRS-6 as in `fsrs6.py`, the comparison of
forecasters that learn from the same stream that of srs-benchmark's RWKV and moving average.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray
from srs_eval.data.trials import MIN_TRIALS, Trials, compute_recency_weights
from srs_eval.models import Context, Cost, OnlineModel, fsrs6, fsrs7, rwkv
from srs_eval.training.compile import compile_kernel
from srs_eval.training.state_features import (
    FEATURE_COUNT,
    FEATURE_NAMES,
    FeatureGroup,
    StateFeature,
    build_timeline,
    compute_state_features,
)

_PRIOR_FILE = Path(__file__).with_name("state.json")
_WARM_UP_REFITS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)  # of the reviews before evaluation
_LARGEST_LOGIT = 6.0
_STATE_1_RATE = 0.5
_BASE_MODELS: dict[str, tuple[Any, ...]] = {
    "STATE-FSRS-6": (fsrs6,),
    "STATE-FSRS-6+7": (fsrs6, fsrs7),
    "STATE-FSRS-6+7+RWKV": (fsrs6, fsrs7, rwkv),
}
"""Modules whose logits each model uses; the features refer to the first one's predictions."""

_FILTERS = ((1.0, 1e-4), (0.3, 1e-3))
"""Factor on the prior's variances, and drift of the weights, of each filter."""
_PRIOR_WEIGHTS = (0.25, 0.25, 0.5)  # prior weight of each filter, and of the base
_RESTART_SHARE = 1e-3  # of the weight that starts anew with each review
_BASELINE = 100.0  # after so many reviews the base's weight may fall below one half
_MIN_PROBABILITY = 1e-6


class WeightPrior(NamedTuple):
    """Prior of the weights before the first review, (k,) each."""

    mean: FloatArray
    deviation: FloatArray


@dataclass(frozen=True, eq=False)
class _FilterTrace:
    """Predictions at every review that can be trained or evaluated on, in order (n,)."""

    p: FloatArray  # predicted probability of recall
    offset: FloatArray  # what the learner's state adds to the logit, by the first filter
    offset_variance: FloatArray


def _make_uninformed_prior(count: int = FEATURE_COUNT) -> WeightPrior:
    """Return a prior without data: a weight of 1 for the base's logit, about 0 for the rest."""
    mean = np.zeros(count)
    mean[StateFeature.LOGIT] = 1.0
    deviation = np.full(count, 0.15)
    deviation[StateFeature.INTERCEPT] = 0.2
    return WeightPrior(mean, deviation)


@cache
def load_prior(model: str) -> WeightPrior:
    """Return a model's prior, which comes from other people.

    Raises RuntimeError if it is for other features.
    """
    content = json.loads(_PRIOR_FILE.read_text("utf-8"))["priors"][model]
    if tuple(content["features"]) != _feature_names(model):
        raise RuntimeError(f"{_PRIOR_FILE.name} was made for other features of {model}")
    return WeightPrior(np.array(content["mean"]), np.array(content["deviation"]))


def _feature_names(model: str) -> tuple[str, ...]:
    further_bases = len(_BASE_MODELS[model]) - 1
    names = ("base: second logit", "base: third logit")
    return FEATURE_NAMES + names[:further_bases]


def predict_base_logits(trials: Trials, model: Any, context: Context) -> FloatArray:
    """Return the logits of `model` (a module of `_BASE_MODELS`) for all trials (n,).

    RWKV is not fitted. With other models, each fold's test part is predicted after a fit to all
    trials before it, weighted by recency. The trials before the first test part, on which the
    filters warm up, are predicted after fits to shares of them, `_WARM_UP_REFITS`.
    """
    if model is rwkv:
        p = rwkv.predict_all_trials(trials, context)
    else:
        p = _predict_with_refits(model, trials, context)
    p = np.clip(p, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    logits: FloatArray = np.log(p / (1 - p))
    return logits


def _predict_with_refits(model: Any, trials: Trials, context: Context) -> FloatArray:
    """Return probabilities for all trials (n,), as `predict_base_logits` describes."""
    first = int(trials.folds[0].test[0])
    cuts = sorted({0, first, *(int(share * first) for share in _WARM_UP_REFITS)})
    segments = [np.arange(begin, end) for begin, end in pairwise(cuts)]
    segments += [fold.test for fold in trials.folds]
    p = np.full(len(trials), 0.5)
    for number, segment in enumerate(segments, start=1):
        train = np.arange(segment[0])
        parameters = list(model.DEFAULT)
        if len(train) >= MIN_TRIALS:
            with suppress(NotEnoughData):
                parameters = model.fit(trials, train, compute_recency_weights(len(train)), context)
        p[segment] = model.predict(trials, parameters, segment, context)
        context.tick(number / (len(segments) + 1))
    return p


def compute_features(trials: Trials, logits: Sequence[FloatArray]) -> FloatArray:
    """Return the features of all trials (n, k).

    They are those of `StateFeature`, and the logits of further bases minus the first one's.
    """
    answers = trials.derived(build_timeline)
    base, *further_bases = (np.clip(z, -_LARGEST_LOGIT, _LARGEST_LOGIT) for z in logits)
    features: FloatArray = np.zeros((len(trials), FEATURE_COUNT + len(further_bases)))
    compile_kernel(compute_state_features)(answers, base, features)
    for column, further_base in enumerate(further_bases, start=FEATURE_COUNT):
        features[:, column] = further_base - base
    return features


def run_filters(features: FloatArray, y: FloatArray, prior: WeightPrior) -> _FilterTrace:
    """Run the filters and mix their predictions with those of the base model."""
    base = 1 / (1 + np.exp(-features[:, StateFeature.LOGIT]))
    predictions = []
    offsets = []
    for variance_factor, drift in _FILTERS:
        p, offset, offset_variance, _, _ = compile_kernel(_run_kalman_filter)(
            features,
            y,
            prior.mean,
            variance_factor * prior.deviation**2,
            drift,
            FeatureGroup.STATE.columns,
        )
        predictions.append(p)
        offsets.append((offset, offset_variance))
    mixed = compile_kernel(_mix_predictions)(
        np.array([*predictions, base]), y, np.array(_PRIOR_WEIGHTS), _RESTART_SHARE, _BASELINE
    )
    first_offset, first_offset_variance = offsets[0]
    return _FilterTrace(mixed, first_offset, first_offset_variance)


def _compute_learner_features(model: str, trials: Trials, context: Context) -> FloatArray:
    """Return the features of all trials (n, k) for one of `_BASE_MODELS`."""
    logits = [predict_base_logits(trials, base, context) for base in _BASE_MODELS[model]]
    return compute_features(trials, logits)


def _predict_state(model: str, trials: Trials, context: Context) -> FloatArray:
    """Predict with one of `_BASE_MODELS` for `trials.test_index` (k,)."""
    features = _compute_learner_features(model, trials, context)
    return run_filters(features, trials.y, load_prior(model)).p[trials.test_index]


def _predict_state_1(trials: Trials, context: Context) -> FloatArray:
    """Predict with STATE-1 for `trials.test_index` (k,).

    p = sigma(z + o), where o is the running offset.
    """
    z = predict_base_logits(trials, fsrs6, context)
    p: FloatArray = compile_kernel(_run_offset)(z, trials.y, _STATE_1_RATE)
    return p[trials.test_index]


# Learning after every answer


def _run_kalman_filter(
    features: FloatArray,
    y: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    drift: float,
    group: tuple[int, int],
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Predict each of n outcomes from k features, then learn from it (formulas at the top).

    `mean` and `variance` (k,) are the prior's, `drift` is q. Returns the probabilities (n,), the
    addition of the features from `group[0]` up to `group[1]` to the logit (n,) with its variance
    (n,), and the weights after the last outcome with their variances (k,).
    """
    n, k = features.shape
    w = mean.copy()
    covariance = np.diag(variance)
    predicted, offset, offset_variance = np.empty(n), np.empty(n), np.empty(n)
    gain = np.empty(k)
    begin, end = group
    for at in range(n):
        x = features[at]
        gain[:] = 0.0
        for row in range(k):  # the covariance is symmetric: its rows are its columns
            value, line = x[row], covariance[row]
            if value != 0.0:
                for column in range(k):
                    gain[column] += line[column] * value
        logit, logit_variance, group_logit = 0.0, 0.0, 0.0
        for row in range(k):
            logit += w[row] * x[row]
            logit_variance += gain[row] * x[row]
        group_variance = 0.0
        for row in range(begin, end):
            group_logit += w[row] * x[row]
            inner, line = 0.0, covariance[row]
            for column in range(begin, end):
                inner += line[column] * x[column]
            group_variance += x[row] * inner
        offset[at], offset_variance[at] = group_logit, group_variance
        p = 1 / (1 + math.exp(-logit / math.sqrt(1 + math.pi * logit_variance / 8)))
        p = min(max(p, _MIN_PROBABILITY), 1 - _MIN_PROBABILITY)
        predicted[at] = p
        h = p * (1 - p)
        damping = 1 / (1 + h * logit_variance)
        error = (y[at] - p) * damping
        for row in range(k):
            w[row] += gain[row] * error
            w[row] -= drift / 2 * (w[row] - mean[row])
            value, line = h * damping * gain[row], covariance[row]
            for column in range(k):
                line[column] -= value * gain[column]
            line[row] += drift * variance[row]
    return predicted, offset, offset_variance, w, np.diag(covariance).copy()


def _mix_predictions(
    predictions: FloatArray, y: FloatArray, prior: FloatArray, share: float, baseline: float
) -> FloatArray:
    """Return the means (n,) of predictions (members, n), weighted by their success so far.

    `prior` (members,) sums to 1. After each outcome `share` of the weight goes back to the prior.
    The last member is the base: its weight at review k is at least 1 / (1 + (k / baseline)^2).
    """
    members, n = predictions.shape
    weights = prior.copy()
    mixed = np.empty(n)
    for at in range(n):
        least = 1 / (1 + (at / baseline) ** 2)
        base = max(weights[members - 1], least)
        # The other members share what is left by the base.
        rest = (1 - base) / max(1 - weights[members - 1], 1e-300)
        mean = base * predictions[members - 1, at]
        for member in range(members - 1):
            mean += rest * weights[member] * predictions[member, at]
        mixed[at] = mean
        likelihood = 0.0
        for member in range(members):
            p = predictions[member, at]
            weights[member] *= p if y[at] > 0 else 1 - p
            likelihood += weights[member]
        for member in range(members):
            weights[member] = (1 - share) * weights[member] / likelihood + share * prior[member]
    return mixed


def _run_offset(z: FloatArray, y: FloatArray, rate: float) -> FloatArray:
    """Return sigma(z + x) for each of n outcomes, where x is a running offset.

    x <- (1 - 0.1 rate) x + rate (y - p), x_0 = 0.
    """
    predicted = np.empty(len(z))
    x = 0.0
    for at in range(len(z)):
        p = 1 / (1 + math.exp(-z[at] - x))
        predicted[at] = p
        x += rate * (y[at] - p) - 0.1 * rate * x
    return predicted


_online_model = partial(
    OnlineModel,
    family="online",
    source="models/state.py (2026): FSRS-6 (fsrs-optimizer 6.1.3) and an extended Kalman filter",
    always_short=True,
    flags=frozenset({"two_buttons"}),
    note="Knows from all earlier answers how today is going, which a scheduler cannot know.",
)

MODELS = (
    _online_model(
        name="STATE-1",
        inputs="IL, G, SR",
        parameters=22,
        online=_predict_state_1,
        cost=Cost(seconds_per_10k=0.02, seconds_to_compile=0.2),
    ),
    _online_model(
        name="STATE-FSRS-6",
        inputs="IL, G, SR, AT",
        parameters=21 + FEATURE_COUNT,
        online=partial(_predict_state, "STATE-FSRS-6"),
        cost=Cost(seconds_per_10k=0.08, seconds_to_compile=7.0),
    ),
    _online_model(
        name="STATE-FSRS-6+7",
        inputs="IL, G, SR, AT",
        parameters=21 + 34 + FEATURE_COUNT + 1,
        online=partial(_predict_state, "STATE-FSRS-6+7"),
        cost=Cost(seconds_per_10k=0.12, seconds_to_compile=3.0, kernels_of="FSRS-7"),
    ),
    _online_model(
        name="STATE-FSRS-6+7+RWKV",
        inputs="FIL, G, SR, AT",
        parameters=21 + 34 + FEATURE_COUNT + 2,
        online=partial(_predict_state, "STATE-FSRS-6+7+RWKV"),
        flags=frozenset(),
        weights=rwkv.compute_weights_digest,
        remarks=rwkv.make_remarks,
        cost=Cost(seconds_per_10k=0.7, seconds_to_compile=3.0, kernels_of="FSRS-7"),
        note=f"Also uses RWKV-Instant's logit, which a scheduler cannot know; needs "
        f"{rwkv.WEIGHTS_HINT}.",
    ),
)
