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

from srs_eval.models import Model
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
        name=network.name,
        family="neural",
        inputs="IL, G",
        parameters=network.parameters,
        fit=fit,
        predict=predict,
        hyperparameters=network.hyperparameters,
        **more,
    )


_FROM_RANDOM = "Starts from random weights where no pretrained ones are found."

MODELS = (
    _model(
        GRU,
        source="srs-benchmark other.py, class RNN (2023)",
        aliases={"GRU-39": "GRU"},
        seconds_per_10k=0.03,
        seconds_to_compile=6.0,
        note="Retired upstream in 2026, where GRU is another network since then.",
    ),
    _model(
        RNN,
        source="srs-benchmark other.py, class RNN (2023)",
        seconds_per_10k=0.03,
        seconds_to_compile=6.0,
        kernels_of="GRU",
        note=_FROM_RANDOM,
        extra=True,
    ),
    _model(
        GRU_P,
        source="srs-benchmark other.py, class GRU_P (2024)",
        configurations=("GRU-P", "GRU-P-short"),
        seconds_per_10k=0.1,
        seconds_to_compile=6.0,
        kernels_of="GRU",
        note="Predicts the probability itself, without a forgetting curve: a longer interval "
        "need not mean a lower one. Retired upstream in 2026.",
    ),
    _model(
        LSTM_489,
        source="srs-benchmark commit a17baa24c66 (2023), other.py class RNN",
        seconds_per_10k=0.2,
        note=_FROM_RANDOM,
        extra=True,
    ),
)
