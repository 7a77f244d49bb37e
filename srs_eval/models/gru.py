"""GRU, plain RNN and GRU-P: tiny recurrent networks; of the first two, the output is a stability.

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
"""

from __future__ import annotations

from srs_eval.models import Model
from srs_eval.training.networks import START, Network, functions

GRU = Network(name="GRU", cell=0, head=1, hidden=2)
RNN = Network(name="RNN", cell=1, head=1, hidden=2, starts_anyhow=True)
GRU_P = Network(
    name="GRU-P", cell=0, head=0, hidden=8, following_interval=True, rate=1e-2, epochs=16
)


_fit_gru, _predict_gru = functions(GRU)
_fit_rnn, _predict_rnn = functions(RNN)
_fit_gru_p, _predict_gru_p = functions(GRU_P)

MODELS = (
    Model(
        name="GRU",
        family="neural",
        inputs="IL, G",
        parameters=39,
        source="srs-benchmark other.py, class RNN",
        fit=_fit_gru,
        predict=_predict_gru,
        aliases={"GRU-39": "GRU"},
        hyperparameters=(*GRU.hyperparameters, START),
        seconds_per_10k=0.03,
        seconds_to_compile=6.0,
        note="Retired upstream in 2026, where GRU is another network since then.",
    ),
    Model(
        name="RNN",
        family="neural",
        inputs="IL, G",
        parameters=15,
        source="srs-benchmark other.py, class RNN",
        fit=_fit_rnn,
        predict=_predict_rnn,
        hyperparameters=RNN.hyperparameters,
        seconds_per_10k=0.03,
        seconds_to_compile=6.0,
        kernels_of="GRU",
        note="Starts from random weights where no pretrained ones are found.",
        extra=True,
    ),
    Model(
        name="GRU-P",
        family="neural",
        inputs="IL, G",
        parameters=297,
        source="srs-benchmark other.py, class GRU_P",
        fit=_fit_gru_p,
        predict=_predict_gru_p,
        configurations=("GRU-P", "GRU-P-short"),
        hyperparameters=(*GRU_P.hyperparameters, START),
        seconds_per_10k=0.1,
        seconds_to_compile=6.0,
        kernels_of="GRU",
        note="Predicts the probability itself, without a forgetting curve: a longer interval "
        "need not mean a lower one. Retired upstream in 2026.",
    ),
)
