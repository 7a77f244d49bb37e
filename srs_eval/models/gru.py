"""GRU, plain RNN, GRU-P and LSTM-489: tiny recurrent networks of one layer.

GRU and RNN: two hidden units read (interval, rating) review by review; s = exp(fc h) is the
stability in days, and R(t) = (1 + factor t/s)^-0.5 with R(s) = 0.9, as in FSRS-4.5.

Network and training: srs-benchmark other.py `class RNN` and `Trainer` (January 2025):
AdamW at 0.04 with cosine annealing, 5 epochs, batches of 512 by length, from weights
pretrained on other learners. RNN, for which no weights have been published, starts from
random ones (one seed per user) where none are found.

GRU-P predicts the probability of recall itself: a GRU of 8 hidden units reads a card's history
and the interval until now, each rating paired with the interval that *follows* it, and
sigmoid(fc h) of the last state is the probability. There is no forgetting curve: nothing makes it
fall with time. srs-benchmark other.py `class GRU_P`: the same at a rate of 0.01 and 16 epochs.

LSTM-489 is the network of September 2023 (commit a17baa24c66, other.py `class RNN`): 8 LSTM units
on days and grade, s = exp(fc h), R(t) = 0.9^(t/s), Adam at 0.04, 5 epochs, from random weights (one
seed per user).

srs-benchmark's `Trainer` means to keep the weights with the least training loss. But the dictionary
that it keeps refers to the network's own tensors, so that it returns the last weights. So does this
model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Cost, TrainedModel, no_parameters
from srs_eval.training import hyperparameters
from srs_eval.training.elementwise import LANES
from srs_eval.training.networks import (
    Shapes,
    flatten,
    list_weight_names,
    load_network_weights,
    missing_weights_error,
    require_finite,
)
from srs_eval.training.optimisers import (
    compute_batch_seed,
    draw_permutations,
    select_training_rows,
    sort_by_length,
    spread_over_trials,
)
from srs_eval.training.trie import HistoryTrie, TrieBatches, cut_batches, history_trie

# Kinds of cell and meanings of the output, as in `training.cells`, which needs numba.
_GRU_CELL, _PLAIN_RNN_CELL, _LSTM_CELL = range(3)
_PROBABILITY, _POWER, _EXPONENTIAL = range(3)
_START = hyperparameters.Hyperparameter("start", "pretrained", choices=("pretrained", "random"))


@dataclass(frozen=True)
class GruNetwork:
    """A recurrent network of one layer, and the settings of its training."""

    name: str
    cell: int  # kind of cell
    head: int  # meaning of the output
    hidden: int
    one_hot_rating: bool = False
    """Inputs are days and four indicators of the rating, else days and the rating."""
    following_interval: bool = False
    """Each rating comes with the interval that follows it, and the last rating with the
    trial's own interval."""
    rate: float = 4e-2
    decay: float = 1e-5
    epochs: int = 5
    starts_from_random: bool = False  # if no pretrained weights are found

    @property
    def hyperparameters(self) -> tuple[hyperparameters.Hyperparameter, ...]:
        """Settings of `fit` that the context can change."""
        settings = [
            hyperparameters.learning_rate(self.rate),
            hyperparameters.epochs(self.epochs),
            hyperparameters.batch_size(),
        ]
        if self.decay:
            settings.append(hyperparameters.penalty("decay", self.decay))
        settings.append(hyperparameters.SEED)
        if not self.starts_from_random:
            settings.append(_START)
        return tuple(settings)

    @property
    def inputs(self) -> int:
        return 5 if self.one_hot_rating else 2

    @property
    def shapes(self) -> Shapes:
        """Shapes of the tensors, in the order of the parameters."""
        gates_per_unit = {_GRU_CELL: 3, _PLAIN_RNN_CELL: 1, _LSTM_CELL: 4}
        gates = gates_per_unit[self.cell] * self.hidden
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
        """Return the parameters from which training begins (p,).

        Raises InputError if there are no weights.
        """
        names = list_weight_names(self.name, trials.protocol)
        if _START.value_in(context) == "pretrained":
            tensors = load_network_weights(names, self.shapes, context)
            if tensors is not None:
                return flatten(tensors)
            if not self.starts_from_random:
                raise missing_weights_error(self.name, names, context)
        return self.random_start(context)

    def random_start(self, context: Context) -> FloatArray:
        """Return torch's initial values, uniform within 1/sqrt(hidden), from one seed per user."""
        bound = self.hidden**-0.5
        seed = 42 + hyperparameters.SEED.integer_in(context)
        random = np.random.default_rng([seed, abs(context.user)])
        return random.uniform(-bound, bound, self.parameters)

    def fit(
        self, trials: Trials, train: IntArray, weights: FloatArray, context: Context
    ) -> list[float]:
        """Train the network and return the parameters after the last epoch."""
        from srs_eval.training.cells import AdamWState, network_pass
        from srs_eval.training.compile import compile_kernel

        settings = context.hyperparameters
        w = self.start(trials, context)
        order = sort_by_length(trials, select_training_rows(trials, train))
        size = int(settings.get("batch_size", trials.protocol.batch_size))
        epochs = int(settings.get("epochs", self.epochs))
        batch_rows = [order[k : k + size] for k in range(0, len(order), size)]
        weight_of = spread_over_trials(trials, train, weights)
        batches = cut_batches(self._build_trie(trials), trials, batch_rows, weight_of)
        adam = AdamWState(
            mean=np.zeros(len(w)),
            square=np.zeros(len(w)),
            rate=float(settings.get("learning_rate", self.rate)),
            decay=float(settings.get("decay", self.decay)),
            steps=len(batch_rows) * epochs,
        )
        x = self._compute_inputs(batches)
        scratch = self._make_scratch(batches)
        orders = draw_permutations(len(batch_rows), compute_batch_seed(context))
        for epoch in range(epochs):
            done = epoch * len(batch_rows)
            compile_kernel(network_pass)(
                self._cell_shape(), next(orders), done, w, batches, x, adam, scratch
            )
            context.tick((epoch + 1) / epochs)
        require_finite(w)
        return w.tolist()

    def predict(
        self, trials: Trials, parameters: Any, index: IntArray, context: Context
    ) -> FloatArray:
        """Return recall at the positions `index` (same shape), rounded to float32.

        If `parameters` is empty, the parameters from which training begins are used.
        """
        from srs_eval.training.cells import AdamWState, network_pass
        from srs_eval.training.compile import compile_kernel

        w = np.array(parameters) if len(parameters) else self.start(trials, context)
        if not len(index):
            return np.empty(0)
        batches = cut_batches(self._build_trie(trials), trials, [index])
        x = self._compute_inputs(batches)
        scratch = self._make_scratch(batches)
        unused = np.zeros(0)
        no_descent = AdamWState(unused, unused, 0.0, 0.0, 0)
        order = np.zeros(1, np.int64)
        compile_kernel(network_pass)(
            self._cell_shape(), order, -1, w, batches, x, no_descent, scratch
        )
        return scratch.recall[batches.target].astype(np.float32).astype(np.float64)

    def _cell_shape(self) -> Any:
        from srs_eval.training.cells import CellShape

        return CellShape(self.cell, self.head, self.inputs, self.hidden)

    def _build_trie(self, trials: Trials) -> HistoryTrie:
        if not self.following_interval:
            return history_trie(trials, same_day=False)
        return trials.derived(_build_following_trie)

    def _compute_inputs(self, batches: TrieBatches) -> FloatArray:
        """Return the inputs of a cell at each node (inputs, nodes), rounded to float32."""
        days = batches.delta_t.astype(np.float32).astype(np.float64)
        ratings = [batches.rating]
        if self.one_hot_rating:
            ratings = [batches.rating == grade for grade in (1, 2, 3, 4)]
        return np.stack([days, *ratings]).astype(np.float64)

    def _make_scratch(self, batches: TrieBatches) -> Any:
        from srs_eval.training.cells import LSTM, CellScratch

        nodes = int(np.diff(batches.first_node).max())
        states = self.hidden * (2 if self.cell == LSTM else 1)
        return CellScratch(
            state=np.zeros((states, nodes)),
            bar=np.zeros((states, nodes)),
            kept=np.zeros((5 * self.hidden, nodes)),
            w_bar=np.zeros((self.parameters, LANES)),
            before=np.zeros((states, LANES)),
            before_bar=np.zeros((states, LANES)),
            recall=np.zeros(len(batches.target_node)),
        )


def _build_following_trie(trials: Trials) -> HistoryTrie:
    """Build a `history_trie` that pairs each review with the interval to its card's next one."""
    following = np.roll(trials.history_delta_t, -1)
    return history_trie(replace(trials, history_delta_t=following), same_day=False)


GRU = GruNetwork(name="GRU", cell=_GRU_CELL, head=_POWER, hidden=2)
RNN = GruNetwork(name="RNN", cell=_PLAIN_RNN_CELL, head=_POWER, hidden=2, starts_from_random=True)
_GRU_P = GruNetwork(
    name="GRU-P",
    cell=_GRU_CELL,
    head=_PROBABILITY,
    hidden=8,
    following_interval=True,
    rate=1e-2,
    epochs=16,
)
_LSTM_489 = GruNetwork(
    name="LSTM-489",
    cell=_LSTM_CELL,
    head=_EXPONENTIAL,
    hidden=8,
    one_hot_rating=True,
    decay=0.0,
    starts_from_random=True,
)


def _make_model(network: GruNetwork, source: str) -> TrainedModel:
    return TrainedModel(
        name=network.name,
        family="neural",
        inputs="IL, G",
        parameters=network.parameters,
        source=source,
        fit=network.fit,
        predict=network.predict,
        default=no_parameters,
        hyperparameters=network.hyperparameters,
    )


_FROM_RANDOM = "Starts from random weights if no pretrained ones are found."

MODELS = (
    replace(
        _make_model(GRU, source="srs-benchmark other.py, class RNN (2023)"),
        note="Retired in 2026 by srs-benchmark, where GRU now means another network.",
        cost=Cost(seconds_per_10k=0.03, seconds_to_compile=6.0),
        aliases={"GRU-39": "GRU"},
    ),
    replace(
        _make_model(RNN, source="srs-benchmark other.py, class RNN (2023)"),
        note=_FROM_RANDOM,
        cost=Cost(seconds_per_10k=0.03, seconds_to_compile=6.0, kernels_of="GRU"),
        extra=True,
    ),
    replace(
        _make_model(_GRU_P, source="srs-benchmark other.py, class GRU_P (2024)"),
        note="Predicts the probability itself, without a forgetting curve: a longer interval "
        "need not mean a lower one. Retired in 2026 by srs-benchmark.",
        cost=Cost(seconds_to_compile=6.0, kernels_of="GRU"),
        configurations=("GRU-P", "GRU-P-short"),
    ),
    replace(
        _make_model(
            _LSTM_489, source="srs-benchmark commit a17baa24c66 (2023), other.py class RNN"
        ),
        note=_FROM_RANDOM,
        cost=Cost(seconds_per_10k=0.2, seconds_to_compile=1.8),
        extra=True,
    ),
)
