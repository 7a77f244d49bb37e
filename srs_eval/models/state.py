"""STATE: how the learner has been doing today and lately, on top of a model of the cards.

People have days: a memory model that follows cards only misses what all cards of a day have in
common. STATE-FSRS-6 takes FSRS-6's prediction and some 80 features of the answers given so far
(`fitting/state_features.py`) into a logistic regression that learns after every judged review
(`fitting/online_filter.py`). Its prior, means and spreads of the weights over other people, is
part of the package (`pretraining/state.py` made it). Two filters, of which one follows change
faster, and FSRS-6 itself are mixed by how well each has done.

STATE-1 is the same idea with one number, the running offset x of the logit: what a richer
model has to be better than. STATE-FSRS-6+7 takes FSRS-7's logit as a feature too.

These models know the answers up to the one before the review they predict, and so how today is
going. A scheduler chooses a day long before it comes and cannot know that: they can't schedule.

Sources: none has published it; the base is FSRS-6 as in `fsrs6.py`, the comparison of
forecasters that learn from the same stream that of srs-benchmark's RWKV and moving average.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray
from srs_eval.data.trials import MINIMUM_TRIALS, Trials, recency_weights
from srs_eval.models import Context, Model, fsrs6, fsrs7
from srs_eval.training.compile import compiled
from srs_eval.training.online_filter import SMALLEST, kalman_filter, mixture, running_offset
from srs_eval.training.state_features import COUNT, FEATURES, NAMES, state_features, timeline

PRIOR_FILE = Path(__file__).with_name("state.json")
_WARM_UP_REFITS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)  # of the reviews before the first judged
_LARGEST_LOGIT = 6.0
STATE_1_RATE = 0.5

_FILTERS = ((1.0, 1e-4), (0.3, 1e-3))
"""Drift of each filter's weights, and by what it takes the prior's variances."""
_MEMBERS = (0.25, 0.25, 0.5)  # prior weight of each filter, and of the base
_SHARE = 1e-3  # of the weight that starts anew with each review
FLOOR = 100.0  # after so many reviews the base's weight may fall below one half


class Prior(NamedTuple):
    """What is believed of the weights before the first review, (k,) each."""

    mean: FloatArray
    deviation: FloatArray


@dataclass(frozen=True, eq=False)
class Trace:
    """The model at every review that can be trained or judged on, in their order (n,)."""

    p: FloatArray  # predicted probability of recall
    offset: FloatArray  # what the learner's state adds to the logit, of the first filter
    offset_variance: FloatArray


def without_prior(count: int = COUNT) -> Prior:
    """For want of other people: the base's logit as it is, all else about 0."""
    mean = np.zeros(count)
    mean[0] = 1.0
    deviation = np.full(count, 0.15)
    deviation[1] = 0.2
    return Prior(mean, deviation)


@cache
def shipped_prior(model: str) -> Prior:
    """The prior from other people; raises RuntimeError if it is for other features."""
    content = json.loads(PRIOR_FILE.read_text("utf-8"))["priors"][model]
    if tuple(content["features"]) != feature_names(model):
        raise RuntimeError(f"{PRIOR_FILE.name} was made for other features of {model}")
    return Prior(np.array(content["mean"]), np.array(content["deviation"]))


def feature_names(model: str) -> tuple[str, ...]:
    second = ("base: second logit",) if model == "STATE-FSRS-6+7" else ()
    return NAMES + second


def group_slice(group: str) -> tuple[int, int]:
    """First feature of a group and the one after its last."""
    begin = 0
    for name, members in FEATURES:
        if name == group:
            return begin, begin + len(members)
        begin += len(members)
    raise ValueError(f"no group of features is called {group}")


def base_logits(trials: Trials, model: Any, context: Context) -> FloatArray:
    """Logits of `model` (a module with DEFAULT, fit and predict) for all trials (n,).

    Each fold's test part is predicted after a fit to all before it, weighted by recency. The
    reviews before the first test part, from which the filters warm up, are predicted after
    fits to what lies before `_WARM_UP_REFITS` of them.
    """
    first = int(trials.folds[0].test[0])
    cuts = sorted({0, first, *(int(share * first) for share in _WARM_UP_REFITS)})
    parts = [np.arange(begin, end) for begin, end in pairwise(cuts)]
    parts += [fold.test for fold in trials.folds]
    p = np.full(len(trials), 0.5)
    for number, part in enumerate(parts):
        train = np.arange(part[0])
        parameters = list(model.DEFAULT)
        if len(train) >= MINIMUM_TRIALS:
            with suppress(NotEnoughData):
                parameters = model.fit(trials, train, recency_weights(len(train)), context)
        p[part] = model.predict(trials, parameters, part, context)
        context.tick((number + 1) / (len(parts) + 1))
    p = np.clip(p, SMALLEST, 1 - SMALLEST)
    logits: FloatArray = np.log(p / (1 - p))
    return logits


def features_of(trials: Trials, logits: Sequence[FloatArray]) -> FloatArray:
    """Features of all trials (n, k): those of `NAMES`, and what further bases say beyond."""
    answers = trials.derived(timeline)
    base, *others = (np.clip(each, -_LARGEST_LOGIT, _LARGEST_LOGIT) for each in logits)
    features: FloatArray = np.zeros((len(trials), COUNT + len(others)))
    compiled(state_features)(answers, base, features)
    for column, other in enumerate(others, start=COUNT):
        features[:, column] = other - base
    return features


def trace(features: FloatArray, y: FloatArray, prior: Prior) -> Trace:
    """Predictions of the mixture; the base is the first feature, a logit."""
    base = 1 / (1 + np.exp(-features[:, 0]))
    members, offsets = [], []
    for share, drift in _FILTERS:
        p, *offset, _, _ = compiled(kalman_filter)(
            features,
            y,
            prior.mean,
            share * prior.deviation**2,
            drift,
            group_slice("state"),
        )
        members.append(p)
        offsets.append(offset)
    p = compiled(mixture)(np.array([*members, base]), y, np.array(_MEMBERS), _SHARE, FLOOR)
    return Trace(p, *offsets[0])


def _state_fsrs6(trials: Trials, context: Context) -> FloatArray:
    """STATE-FSRS-6 for `trials.test_index` (k,)."""
    features = features_of(trials, [base_logits(trials, fsrs6, context)])
    return trace(features, trials.y, shipped_prior("STATE-FSRS-6")).p[trials.test_index]


def _state_fsrs6_and_7(trials: Trials, context: Context) -> FloatArray:
    """STATE-FSRS-6+7 for `trials.test_index` (k,)."""
    logits = [base_logits(trials, model, context) for model in (fsrs6, fsrs7)]
    prior = shipped_prior("STATE-FSRS-6+7")
    return trace(features_of(trials, logits), trials.y, prior).p[trials.test_index]


def _state_1(trials: Trials, context: Context) -> FloatArray:
    """STATE-1 for `trials.test_index` (k,): p = sigma(z + x), x the running offset."""
    z = base_logits(trials, fsrs6, context)
    p: FloatArray = compiled(running_offset)(z, trials.y, STATE_1_RATE)
    return p[trials.test_index]


_SOURCE = "models/state.py: FSRS-6 (fsrs-optimizer 6.1.3) and an extended Kalman filter"
_NOTE = "Knows how today is going, from every answer before; a scheduler cannot."

MODELS = (
    Model(
        name="STATE-1",
        family="online",
        inputs="IL, G, SR",
        parameters=22,
        source=_SOURCE,
        online=_state_1,
        always_short=True,
        flags=frozenset({"two_buttons"}),
        seconds_per_10k=0.02,
        seconds_to_compile=0.2,
        note=_NOTE,
    ),
    Model(
        name="STATE-FSRS-6",
        family="online",
        inputs="IL, G, SR, AT",
        parameters=21 + COUNT,
        source=_SOURCE,
        online=_state_fsrs6,
        always_short=True,
        flags=frozenset({"two_buttons"}),
        seconds_per_10k=0.08,
        seconds_to_compile=7.0,
        note=_NOTE,
    ),
    Model(
        name="STATE-FSRS-6+7",
        family="online",
        inputs="IL, G, SR, AT",
        parameters=21 + 34 + COUNT + 1,
        source=_SOURCE,
        online=_state_fsrs6_and_7,
        always_short=True,
        flags=frozenset({"two_buttons"}),
        seconds_per_10k=0.12,
        seconds_to_compile=3.0,
        kernels_of="FSRS-7",
        note=_NOTE,
    ),
)
