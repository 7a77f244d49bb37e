"""GRU, plain RNN, GRU-P and LSTM-489: tiny recurrent networks of one layer.

GRU and RNN: two hidden units read (interval, rating) review by review; s = exp(fc h) is the
stability in days, and R(t) = (1 + factor t/s)^-0.5 with R(s) = 0.9, as in FSRS-4.5.

Network and training: srs-benchmark other.py `class RNN` and `Trainer` (January 2025):
AdamW at 0.04 with cosine annealing, 5 epochs, batches of 512 by length, from weights
pretrained on other learners. RNN, for which nobody has published weights, starts from
random ones (one seed per user) where none are found.

GRU-P predicts the probability of recall itself: a GRU of 8 hidden units reads a card's history
and the interval until now, each rating paired with the interval that *follows* it, and
sigmoid(fc h) of the last state is the probability. There is no forgetting curve: nothing makes it
fall with time. srs-benchmark other.py `class GRU_P`: the same at a rate of 0.01 and 16 epochs.

LSTM-489 is the network of September 2023 (commit a17baa24c66, other.py `class RNN`): 8 LSTM units
on days and grade, s = exp(fc h), R(t) = 0.9^(t/s), Adam at 0.04, 5 epochs, from random weights (one
seed per user).
"""

from __future__ import annotations

from typing import Any

from srs_eval.models import Model, facts
from srs_eval.training.networks import Network, functions

GRU = Network(name="GRU", cell=0, head=1, hidden=2)
RNN = Network(name="RNN", cell=1, head=1, hidden=2, starts_anyhow=True)
GRU_P = Network(
    name="GRU-P", cell=0, head=0, hidden=8, following_interval=True, rate=1e-2, epochs=16
)
LSTM_489 = Network(
    name="LSTM-489", cell=2, head=2, hidden=8, one_hot=True, decay=0.0, starts_anyhow=True
)


def _model(network: Network, **more: Any) -> Model:
    fit, predict = functions(network)
    return Model(
        **facts(network.name),
        parameters=network.parameters,
        fit=fit,
        predict=predict,
        hyperparameters=network.hyperparameters,
        **more,
    )


MODELS = (
    _model(GRU, aliases={"GRU-39": "GRU"}),
    _model(RNN, extra=True),
    _model(GRU_P, configurations=("GRU-P", "GRU-P-short")),
    _model(LSTM_489, extra=True),
)
