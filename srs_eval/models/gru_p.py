"""GRU-P: a recurrent network that predicts the probability of recall itself.

A GRU of 8 hidden units reads a card's history and the interval until now, each rating
paired with the interval that *follows* it, and sigmoid(fc h) of the last state is the
probability. There is no forgetting curve: nothing makes it fall with time.

Network and training: srs-benchmark other.py `class GRU_P` and `Trainer` (January 2025):
AdamW at 0.01 with cosine annealing, 16 epochs, batches of 512 by length, from weights
pretrained on other learners.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import ANY_FLAG, Context, Model
from srs_eval.training.networks import START, Network, fit_network, predict_network, pretrained

NETWORK = Network(
    name="GRU-P",
    cell=0,
    head=0,
    hidden=8,
    following_interval=True,
    rate=1e-2,
    epochs=16,
)


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    start = pretrained(NETWORK, trials, context)
    return fit_network(NETWORK, start, trials, train, weights, context)


def _predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    """`parameters` empty: the pretrained ones."""
    w = np.array(parameters) if len(parameters) else pretrained(NETWORK, trials, context)
    return predict_network(NETWORK, w, trials, index)


MODELS = (
    Model(
        name="GRU-P",
        family="neural",
        inputs="IL, G",
        parameters=297,
        source="srs-benchmark other.py, class GRU_P",
        fit=_fit,
        predict=_predict,
        configurations=("GRU-P", "GRU-P-short"),
        flags=ANY_FLAG,
        hyperparameters=(*NETWORK.hyperparameters, START),
        seconds_per_10k=0.1,
        seconds_to_compile=6.0,
        kernels_of="GRU",
        note="Predicts the probability itself, without a forgetting curve: a longer interval "
        "need not mean a lower one. Retired upstream in 2026.",
    ),
)
