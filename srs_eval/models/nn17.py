"""NN-17: a network shaped like SuperMemo's algorithm SM-17.

SM-17 itself is not public. This imitation has a state of stability s (days) and
difficulty d, and five networks of one hidden Mish unit where SM-17 has matrices:

    rt  = 0.9^(t/s)                            R by theory
    rw  = clamp(exp(-softplus(rw net(d, s, rt))), 0.0001, 0.9999)
    sr  = t ln 0.9 / ln rw                     the stability that fits rw
    d'  = sigmoid(next_d net(d, rw, rating))
    s'  = softplus(pls net(rw, lapses))        after a failure
    s'  = sr (1 + softplus(best_sinc net(1 + e^w8 (6 - 5 d') sr^-w9 e^(-w10 rw),
                                         1 + softplus(sinc net(d', sr, rw)))))

and predicts rw of (d, s, 0.9^(t/s)). All stabilities are limited to [least, 36500].

Formulas and training: srs-benchmark other.py `class NN_17` and `Trainer` (January
2025): Adam at 0.04 with cosine annealing, 5 epochs, batches of 512 by length, from
weights pretrained on other learners; the last weights are kept, see `gru`. Parameters
that only later reviews use stay as they are in batches of first reviews (`later_only`).
Parameters in the order of its state_dict; w[39] is not a parameter but the least
stability, 0.01 days (1e-6 with `secs`). A state is (s, d, lapses so far).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Cost, TrainedModel, no_parameters
from srs_eval.models._fsrs import LOG_09, S_MAX, init_s
from srs_eval.training.elementwise import State, Value, clamp, exp, log, power, where
from srs_eval.training.hyperparameters import Hyperparameter
from srs_eval.training.networks import (
    flatten,
    list_weight_names,
    load_network_weights,
    missing_weights_error,
    require_finite,
)
from srs_eval.training.recurrent import RecurrentModel, fit_recurrent, predict_recurrent

_NETS = {  # number of inputs, and where the parameters begin
    "rw": 3,  # w[11] ...
    "next_d": 3,  # w[17] ...
    "pls": 2,  # w[23] ...
    "sinc": 3,  # w[28] ...
    "best_sinc": 2,  # w[34] ...
}
SHAPES: dict[str, tuple[int, ...]] = {"S0": (4,), "D0": (4,), "sinc_w": (3,)}
for _net, _inputs in _NETS.items():
    SHAPES |= {f"{_net}.0.weight": (1, _inputs), f"{_net}.0.bias": (1,)}
    SHAPES |= {f"{_net}.2.weight": (1, 1), f"{_net}.2.bias": (1,)}


def _sigmoid(x: Value) -> Value:
    return 1.0 / (1.0 + exp(-x))


def _softplus(x: Value) -> Value:
    """Return log(1 + e^x), and x itself above 20, as torch does."""
    return where(x > 20.0, x, log(1.0 + exp(where(x > 20.0, 20.0, x))))


def _mish(x: Value) -> Value:
    """Return x tanh(softplus(x))."""
    e = exp(where(x > 20.0, 20.0, x))
    n = e * (e + 2.0)
    return x * n / (n + 2.0)


def _theoretical_recall(t: Value, s: Value) -> Value:
    return exp(LOG_09 * t / s)


# The five networks; u is the input of the hidden unit


def _real_recall(d: Value, s: Value, r: Value, w: Value) -> Value:
    """Return rw, clamped."""
    u = w[11] * d + w[12] * s + w[13] * r + w[14]
    return clamp(exp(-_softplus(w[15] * _mish(u) + w[16])), 0.0001, 0.9999)


def _next_d(d: Value, rw: Value, rating: Value, w: Value) -> Value:
    u = w[17] * d + w[18] * rw + w[19] * rating + w[20]
    return _sigmoid(w[21] * _mish(u) + w[22])


def _stability_after_lapse(rw: Value, lapses: Value, w: Value) -> Value:
    u = w[23] * rw + w[24] * lapses + w[25]
    return _softplus(w[26] * _mish(u) + w[27])


def _increase(d: Value, sr: Value, rw: Value, w: Value) -> Value:
    """Return s' / sr after a success."""
    by_formula = 1.0 + exp(w[8]) * (6.0 - 5.0 * d) * power(sr, -w[9]) * exp(-rw * w[10])
    u = w[28] * d + w[29] * sr + w[30] * rw + w[31]
    by_net = 1.0 + _softplus(w[32] * _mish(u) + w[33])
    u = w[34] * by_formula + w[35] * by_net + w[36]
    return 1.0 + _softplus(w[37] * _mish(u) + w[38])


# Steps


def _first(rating: Value, w: Value) -> State:
    d = where(rating == 1.0, w[4], where(rating == 2.0, w[5], where(rating == 3.0, w[6], w[7])))
    return clamp(init_s(rating, w), w[39], S_MAX), d, where(rating == 1.0, 1.0, 0.0)


def _recall_at_review(state: State, t: Value, w: Value) -> Value:
    """Return rw at the time of the review."""
    s, d, _ = state
    return _real_recall(d, s, clamp(_theoretical_recall(t, s), 0.0001, 0.9999), w)


def _success(state: State, t: Value, rating: Value, w: Value) -> State:
    rw = _recall_at_review(state, t, w)
    sr = clamp(LOG_09 / log(rw) * t, w[39], S_MAX)
    d = _next_d(state[1], rw, rating, w)
    return clamp(sr * _increase(d, sr, rw, w), w[39], S_MAX), d, state[2]


def _failure(state: State, t: Value, rating: Value, w: Value) -> State:
    rw = _recall_at_review(state, t, w)
    s = clamp(_stability_after_lapse(rw, state[2], w), w[39], S_MAX)
    return s, _next_d(state[1], rw, rating, w), state[2] + 1.0


def _recall(t: Value, state: State, w: Value) -> Value:
    return _real_recall(state[1], state[0], _theoretical_recall(t, state[0]), w)


_IN_DAYS = RecurrentModel(
    name="NN-17",
    states=3,
    # Upstream's start without pretrained weights, from which training begins otherwise.
    default=(1.0, 2.5, 4.5, 10.0, 1.0, 0.72, 0.07, 0.05, 1.26, 0.0, 0.67) + (0.0,) * 28,
    lower=(0.01,) * 4 + (0.0,) * 4 + (-5.0, 0.0, -5.0) + (-math.inf,) * 28,
    upper=(100.0,) * 4 + (1.0,) * 4 + (5.0, 1.0, 5.0) + (math.inf,) * 28,
    first=_first,
    success=_success,
    failure=_failure,
    recall=_recall,
    constants=(0.01,),
    later_only=(*range(8, 11), *range(17, 39)),  # all but S0, D0 and rw
    learning_rate=4e-2,
    epochs=5,
    decimals=None,
    tie_order="quicksort",
    keep="last",
)
_START = Hyperparameter("start", "pretrained", choices=("pretrained", "default"))
_IN_FRACTIONS = replace(_IN_DAYS, lower=(1e-6,) * 4 + _IN_DAYS.lower[4:], constants=(1e-6,))


def _load_start(trials: Trials, context: Context) -> list[float]:
    names = list_weight_names("NN-17", trials.protocol)
    tensors = load_network_weights(names, SHAPES, context)
    if tensors is None:
        raise missing_weights_error("NN-17", names, context)
    return flatten(tensors).tolist()


def _recurrent_for(trials: Trials) -> RecurrentModel:
    return _IN_FRACTIONS if trials.protocol.secs else _IN_DAYS


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    model = _recurrent_for(trials)
    pretrained = _START.value_in(context) == "pretrained"
    start = _load_start(trials, context) if pretrained else model.default
    fitted = fit_recurrent(model, trials, train, weights, start, context)
    require_finite(np.array(fitted))
    return fitted


def _predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    """Predict recall at `index`; empty `parameters` mean the pretrained weights."""
    w = parameters if len(parameters) else _load_start(trials, context)
    return predict_recurrent(_recurrent_for(trials), trials, w, index)


MODELS = (
    TrainedModel(
        name="NN-17",
        family="neural",
        inputs="IL, G",
        parameters=39,
        source="srs-benchmark other.py, class NN_17 (2024)",
        fit=_fit,
        default=no_parameters,
        predict=_predict,
        hyperparameters=(*_IN_DAYS.hyperparameters, _START),
        cost=Cost(seconds_per_10k=0.035, seconds_to_compile=2.5),
        version=2,
        note="An outsider's imitation of SuperMemo's SM-17, which is not public; one hidden unit "
        "stands for each of its matrices, so it says little about SM-17 itself.",
    ),
)
