"""Transformer: an encoder and a decoder of width 2 that give a card's stability.

The encoder reads (interval, rating) of all reviews, without their order being marked;
the decoder asks once, with a zero; s = exp(fc output) is the stability in days and
R(t) = (1 + factor t/s)^-0.5 with R(s) = 0.9.

Network and training: srs-benchmark other.py `class Transformer` and `Trainer` (January
2025): AdamW at 0.04 with cosine annealing, 5 epochs, batches of 512 by length, dropout
0.1, from weights pretrained on other learners; the last weights are kept, see `gru`.
It is computed in `transformer_kernel`; torch draws what dropout takes.

Two mistakes are part of the published figures and so of this: nothing marks the order
of reviews, and padding is not masked, so a prediction depends on the longest history
in its batch (8,192 of a fold's evaluated reviews). Upstream draws dropout from one random
stream per process, so its figures depend on who ran before; here each fit has its own.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Model
from srs_eval.training import hyperparameters
from srs_eval.training.networks import flat, load_weights, no_weights, require_finite, weight_names
from srs_eval.training.optimisers import (
    batch_seed,
    by_trial,
    length_order,
    permutations,
    training_rows,
)
from srs_eval.training.torch_networks import build, one_thread

if TYPE_CHECKING:
    from srs_eval.training.transformer_kernel import Batch

_NAME = "Transformer"
_WIDTH = 2
_DROPOUT = 0.1
_RATE = hyperparameters.learning_rate(4e-2)
_DECAY = hyperparameters.penalty("decay", 1e-5)
_EPOCHS = hyperparameters.epochs(5)
_BATCH_SIZE = hyperparameters.batch_size()
_PREDICTED_AT_ONCE = 8192
_FACTOR = 0.9**-2 - 1


@cache
def network_class() -> type:
    """The network on torch, to pretrain; defined at the first call, for torch takes seconds."""
    import torch
    from torch import Tensor, nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with warnings.catch_warnings():  # torch advises another layout
                warnings.simplefilter("ignore", UserWarning)
                self.transformer = nn.Transformer(
                    d_model=_WIDTH,
                    nhead=_WIDTH,
                    num_encoder_layers=1,
                    num_decoder_layers=1,
                    dim_feedforward=_WIDTH,
                    dropout=_DROPOUT,
                )
            self.fc = nn.Linear(_WIDTH, 1)

        def forward(self, histories: Tensor, delta_t: Tensor) -> Tensor:
            """Recall (n,) after delta_t (n,) days; histories (longest, n, 2), padded with 0."""
            question = histories.new_zeros(1, histories.shape[1], _WIDTH)
            stability = torch.exp(self.fc(self.transformer(histories, question)))[0, :, 0]
            return (1 + _FACTOR * delta_t / stability) ** -0.5

    return Network


@cache
def _shapes() -> dict[str, tuple[int, ...]]:
    network = build(network_class())
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def _start(trials: Trials, context: Context) -> FloatArray:
    names = weight_names(_NAME, trials.protocol)
    tensors = load_weights(names, _shapes(), context)
    if tensors is None:
        raise no_weights(_NAME, names, context)
    return flat(tensors)


def histories(trials: Trials, rows: IntArray) -> FloatArray:
    """Interval and rating of each review (longest, n, 2), padded with 0, as float32 rounds."""
    lengths = trials.sequence_length[rows]
    step = np.arange(int(lengths.max()))[:, None]
    inside = step < lengths
    place = np.where(inside, trials.history_start[rows] + step, 0)
    pair = np.stack([trials.history_delta_t[place], trials.history_rating[place]], axis=-1)
    return np.where(inside[:, :, None], pair, 0).astype(np.float32).astype(np.float64)


def _batch(trials: Trials, rows: IntArray, weights: FloatArray) -> Batch:
    """The rows with their weights (n,)."""
    from srs_eval.training.transformer_kernel import whole_vectors

    delta_t = trials.delta_t[rows].astype(np.float32).astype(np.float64)
    return whole_vectors(histories(trials, rows), delta_t, trials.y[rows], weights)


def _left_by_dropout(longest: int, n: int, padded: int) -> FloatArray:
    """`Batch.left` (dropped, padded), in the order in which torch's own layers draw it."""
    import torch

    from srs_eval.training.transformer_kernel import dropped

    left = torch.ones(dropped(longest), padded, dtype=torch.float64)
    attention, row = (n, _WIDTH, longest, longest), (longest, n, _WIDTH)
    question = (1, n, _WIDTH)
    draws = (
        attention, row, row, row,
        (n, _WIDTH, 1, 1), question, (n, _WIDTH, 1, longest), question, question, question,
    )  # fmt: skip
    at = 0
    for shape in draws:
        drawn = torch.empty(shape).bernoulli_(1 - _DROPOUT).div_(1 - _DROPOUT)
        drawn = drawn.permute(1, 2, 3, 0) if len(shape) == 4 else drawn.transpose(1, 2)
        count = drawn.numel() // n
        left[at : at + count, :n] = drawn.reshape(count, n)
        at += count
    made: FloatArray = left.numpy()
    return made


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    import torch

    from srs_eval.training.cells import Adam
    from srs_eval.training.compile import compiled
    from srs_eval.training.transformer_kernel import new_scratch, transformer_pass

    w = _start(trials, context)
    order = length_order(trials, training_rows(trials, train))
    weight_of = by_trial(trials, train, weights)
    size, epochs = _BATCH_SIZE.integer(context, trials.protocol), _EPOCHS.integer(context)
    rate, decay = _RATE.number(context), _DECAY.number(context)
    seed = hyperparameters.SEED.integer(context)
    parts = [order[first : first + size] for first in range(0, len(order), size)]
    batches = [_batch(trials, rows, weight_of[rows]) for rows in parts]
    adam = Adam(np.zeros(len(w)), np.zeros(len(w)), rate, decay, epochs * len(parts))
    visits = permutations(len(parts), batch_seed(context))
    run = compiled(transformer_pass)
    done = 0
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(42 + seed + context.user)
        for _ in range(epochs):
            for k in next(visits).tolist():
                longest, padded = len(batches[k].reviews) // _WIDTH, len(batches[k].delta_t)
                left = _left_by_dropout(longest, len(parts[k]), padded)
                run(done, w, batches[k]._replace(left=left), adam, new_scratch(longest, padded))
                done += 1
                context.tick(done / adam.steps)
    require_finite(w)
    return w.tolist()


def predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    """`parameters` empty: the pretrained ones."""
    from srs_eval.training.cells import Adam
    from srs_eval.training.compile import compiled
    from srs_eval.training.transformer_kernel import new_scratch, transformer_pass

    w = np.array(parameters) if len(parameters) else _start(trials, context)
    none = np.zeros(0)
    parts = [none]
    for first in range(0, len(index), _PREDICTED_AT_ONCE):
        rows = index[first : first + _PREDICTED_AT_ONCE]
        batch = _batch(trials, rows, np.ones(len(rows)))
        scratch = new_scratch(len(batch.reviews) // _WIDTH, len(batch.delta_t))
        compiled(transformer_pass)(-1, w, batch, Adam(none, none, 0.0, 0.0, 0), scratch)
        parts.append(scratch.recall[: len(rows)].astype(np.float32).astype(np.float64))
    return np.concatenate(parts)


MODELS = (
    Model(
        name=_NAME,
        family="neural",
        inputs="IL, G",
        parameters=127,
        source="srs-benchmark other.py, class Transformer (2024)",
        fit=_fit,
        predict=predict,
        hyperparameters=(_RATE, _EPOCHS, _BATCH_SIZE, _DECAY, hyperparameters.SEED),
        needs="torch",
        seconds_per_10k=0.6,
        seconds_to_compile=10.0,
        note="Two numbers wide and blind to the order of reviews, with padding that is not "
        "masked: it does badly for these reasons, not because transformers must.",
    ),
)
