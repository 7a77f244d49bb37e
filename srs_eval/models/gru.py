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

srs-benchmark's `Trainer` keeps the weights with the least training loss, but the dictionary that it
keeps refers to the network's own tensors, so that what it returns are the last ones. So it is here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Model
from srs_eval.training import hyperparameters
from srs_eval.training.elementwise import LANES
from srs_eval.training.networks import (
    Shapes,
    flat,
    load_weights,
    no_weights,
    require_finite,
    weight_names,
)
from srs_eval.training.optimisers import (
    batch_seed,
    by_trial,
    length_order,
    permutations,
    training_rows,
)
from srs_eval.training.trie import Trie, TrieBatches, history_trie, trie_batches

_START = hyperparameters.Hyperparameter("start", "pretrained", choices=("pretrained", "random"))


@dataclass(frozen=True)
class Network:
    """A recurrent network of one layer, and how it is trained."""

    name: str
    cell: int  # as in `training.cells`
    head: int
    hidden: int
    one_hot: bool = False  # inputs are days and four indicators of the rating, else the rating
    following_interval: bool = False
    """Each rating comes with the interval that follows it, the last with the trial's own."""
    rate: float = 4e-2
    decay: float = 1e-5
    epochs: int = 5
    starts_anyhow: bool = False  # from random weights, where no pretrained ones are found

    @property
    def hyperparameters(self) -> tuple[hyperparameters.Hyperparameter, ...]:
        """What `fit` can be set to by the context."""
        return (
            hyperparameters.learning_rate(self.rate),
            hyperparameters.epochs(self.epochs),
            hyperparameters.batch_size(),
            *((hyperparameters.penalty("decay", self.decay),) if self.decay else ()),
            hyperparameters.SEED,
            *(() if self.starts_anyhow else (_START,)),
        )

    @property
    def inputs(self) -> int:
        return 5 if self.one_hot else 2

    @property
    def shapes(self) -> Shapes:
        """Tensors in the order of the parameters."""
        gates = (3, 1, 4)[self.cell] * self.hidden
        return {
            "rnn.weight_ih_l0": (gates, self.inputs),
            "rnn.weight_hh_l0": (gates, self.hidden),
            "rnn.bias_ih_l0": (gates,),
            "rnn.bias_hh_l0": (gates,),
            "fc.weight": (1, self.hidden),
            "fc.bias": (1,),
        }

    @property
    def parameters(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes.values())

    def start(self, trials: Trials, context: Context) -> FloatArray:
        """Where training begins (p,). Raises InputError where there are no weights."""
        names = weight_names(self.name, trials.protocol)
        if _START.of(context) == "pretrained":
            tensors = load_weights(names, self.shapes, context)
            if tensors is not None:
                return flat(tensors)
            if not self.starts_anyhow:
                raise no_weights(self.name, names, context)
        return self.random_start(context)

    def random_start(self, context: Context) -> FloatArray:
        """torch's initial values, uniform within 1/sqrt(hidden), from one seed per user."""
        bound = self.hidden**-0.5
        seed = 42 + hyperparameters.SEED.integer(context)
        random = np.random.default_rng([seed, abs(context.user)])
        return random.uniform(-bound, bound, self.parameters)

    def fit(
        self, trials: Trials, train: IntArray, weights: FloatArray, context: Context
    ) -> list[float]:
        """Parameters after the last epoch."""
        from srs_eval.training.cells import Adam, network_pass
        from srs_eval.training.compile import compiled

        given = context.hyperparameters
        w = self.start(trials, context)
        order = length_order(trials, training_rows(trials, train))
        size = int(given.get("batch_size", trials.protocol.batch_size))
        epochs = int(given.get("epochs", self.epochs))
        parts = [order[k : k + size] for k in range(0, len(order), size)]
        weight_of = by_trial(trials, train, weights)
        batches = trie_batches(self._trie(trials), trials, parts, weight_of)
        adam = Adam(
            mean=np.zeros(len(w)),
            square=np.zeros(len(w)),
            rate=float(given.get("learning_rate", self.rate)),
            decay=float(given.get("decay", self.decay)),
            steps=len(parts) * epochs,
        )
        x, scratch = self._inputs(batches), self._scratch(batches)
        orders = permutations(len(parts), batch_seed(context))
        for epoch in range(epochs):
            done = epoch * len(parts)
            compiled(network_pass)(self._shape(), next(orders), done, w, batches, x, adam, scratch)
            context.tick((epoch + 1) / epochs)
        require_finite(w)
        return w.tolist()

    def predict(
        self, trials: Trials, parameters: Any, index: IntArray, context: Context
    ) -> FloatArray:
        """Probability of recall at the positions `index` (same shape), in float32's steps.

        `parameters` empty: those that training begins with.
        """
        from srs_eval.training.cells import Adam, network_pass
        from srs_eval.training.compile import compiled

        w = np.array(parameters) if len(parameters) else self.start(trials, context)
        if not len(index):
            return np.empty(0)
        batches = trie_batches(self._trie(trials), trials, [index])
        x, scratch, none = self._inputs(batches), self._scratch(batches), np.zeros(0)
        nothing = Adam(none, none, 0.0, 0.0, 0)
        order = np.zeros(1, np.int64)
        compiled(network_pass)(self._shape(), order, -1, w, batches, x, nothing, scratch)
        return scratch.recall[batches.target].astype(np.float32).astype(np.float64)

    def _shape(self) -> Any:
        from srs_eval.training.cells import Shape

        return Shape(self.cell, self.head, self.inputs, self.hidden)

    def _trie(self, trials: Trials) -> Trie:
        if not self.following_interval:
            return history_trie(trials, same_day=False)
        return trials.derived(_following_trie)

    def _inputs(self, batches: TrieBatches) -> FloatArray:
        """What a cell sees at each node (inputs, nodes), rounded as float32 does."""
        days = batches.delta_t.astype(np.float32).astype(np.float64)
        grades = (1, 2, 3, 4)
        seen = [batches.rating == grade for grade in grades] if self.one_hot else [batches.rating]
        return np.stack([days, *seen]).astype(np.float64)

    def _scratch(self, batches: TrieBatches) -> Any:
        from srs_eval.training.cells import LSTM, Scratch

        nodes = int(np.diff(batches.first_node).max())
        states = self.hidden * (2 if self.cell == LSTM else 1)
        return Scratch(
            state=np.zeros((states, nodes)),
            bar=np.zeros((states, nodes)),
            kept=np.zeros((5 * self.hidden, nodes)),
            w_bar=np.zeros((self.parameters, LANES)),
            before=np.zeros((states, LANES)),
            before_bar=np.zeros((states, LANES)),
            recall=np.zeros(len(batches.target_node)),
        )


def _following_trie(trials: Trials) -> Trie:
    """As `history_trie`, each review with the interval to the next one of its card."""
    following = np.roll(trials.history_delta_t, -1)
    return history_trie(replace(trials, history_delta_t=following), same_day=False)


GRU = Network(name="GRU", cell=0, head=1, hidden=2)
RNN = Network(name="RNN", cell=1, head=1, hidden=2, starts_anyhow=True)
_GRU_P = Network(
    name="GRU-P", cell=0, head=0, hidden=8, following_interval=True, rate=1e-2, epochs=16
)
_LSTM_489 = Network(
    name="LSTM-489", cell=2, head=2, hidden=8, one_hot=True, decay=0.0, starts_anyhow=True
)


def _model(network: Network, **more: Any) -> Model:
    return Model(
        name=network.name,
        family="neural",
        inputs="IL, G",
        parameters=network.parameters,
        fit=network.fit,
        predict=network.predict,
        hyperparameters=network.hyperparameters,
        **more,
    )


_FROM_RANDOM = "Starts from random weights where no pretrained ones are found."

MODELS = (
    _model(
        GRU,
        source="srs-benchmark other.py, class RNN (2023)",
        note="Retired upstream in 2026, where GRU is another network since then.",
        seconds_per_10k=0.03,
        seconds_to_compile=6.0,
        aliases={"GRU-39": "GRU"},
    ),
    _model(
        RNN,
        source="srs-benchmark other.py, class RNN (2023)",
        note=_FROM_RANDOM,
        seconds_per_10k=0.03,
        seconds_to_compile=6.0,
        kernels_of="GRU",
        extra=True,
    ),
    _model(
        _GRU_P,
        source="srs-benchmark other.py, class GRU_P (2024)",
        note="Predicts the probability itself, without a forgetting curve: a longer interval "
        "need not mean a lower one. Retired upstream in 2026.",
        seconds_to_compile=6.0,
        kernels_of="GRU",
        configurations=("GRU-P", "GRU-P-short"),
    ),
    _model(
        _LSTM_489,
        source="srs-benchmark commit a17baa24c66 (2023), other.py class RNN",
        note=_FROM_RANDOM,
        seconds_per_10k=0.2,
        extra=True,
    ),
)
