"""Transformer: an encoder and a decoder of width 2 that give a card's stability.

The encoder reads (interval, rating) of all reviews, without their order being marked.
The decoder has one query, a zero; s = exp(fc output) is the stability in days and
R(t) = (1 + factor t/s)^-0.5 with R(s) = 0.9.

Network and training: srs-benchmark other.py `class Transformer` and `Trainer` (January
2025): AdamW at 0.04 with cosine annealing, 5 epochs, batches of 512 by length, dropout
0.1, from weights pretrained on other learners; the last weights are kept, see `gru`.
It is computed in `transformer_kernel`; torch draws what dropout removes.

Two mistakes are part of the published figures and so of this: nothing marks the order
of reviews, and padding is not masked, so a prediction depends on the longest history
in its batch (8,192 of a fold's evaluated reviews). Upstream draws dropout from one random
stream per process, so its figures depend on the users before; here each fit has its own.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import Context, Cost, TrainedModel, no_parameters
from srs_eval.training import hyperparameters
from srs_eval.training.networks import (
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
from srs_eval.training.torch_networks import build_network, use_one_thread

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
    """Return the torch network for pretraining, defined at the first call.

    Importing torch takes seconds.
    """
    import torch
    from torch import Tensor, nn

    class TransformerNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with warnings.catch_warnings():  # torch recommends another layout
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
            """Return recall (n,) after delta_t (n,) days.

            Histories (longest, n, 2) are padded with 0.
            """
            question = histories.new_zeros(1, histories.shape[1], _WIDTH)
            stability = torch.exp(self.fc(self.transformer(histories, question)))[0, :, 0]
            return (1 + _FACTOR * delta_t / stability) ** -0.5

    return TransformerNetwork


@cache
def _tensor_shapes() -> dict[str, tuple[int, ...]]:
    network = build_network(network_class())
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def _load_start(trials: Trials, context: Context) -> FloatArray:
    names = list_weight_names(_NAME, trials.protocol)
    tensors = load_network_weights(names, _tensor_shapes(), context)
    if tensors is None:
        raise missing_weights_error(_NAME, names, context)
    return flatten(tensors)


def pad_histories(trials: Trials, rows: IntArray) -> FloatArray:
    """Return interval and rating of each review (longest, n, 2), padded with 0.

    Values are rounded to float32.
    """
    lengths = trials.sequence_length[rows]
    step = np.arange(int(lengths.max()))[:, None]
    inside = step < lengths
    position = np.where(inside, trials.history_start[rows] + step, 0)
    pair = np.stack([trials.history_delta_t[position], trials.history_rating[position]], axis=-1)
    return np.where(inside[:, :, None], pair, 0).astype(np.float32).astype(np.float64)


def _batch(trials: Trials, rows: IntArray, weights: FloatArray) -> Batch:
    """Return a batch of the rows with their weights (n,)."""
    from srs_eval.training.transformer_kernel import make_batch

    delta_t = trials.delta_t[rows].astype(np.float32).astype(np.float64)
    return make_batch(pad_histories(trials, rows), delta_t, trials.y[rows], weights)


def _draw_dropout(longest: int, n: int, padded: int) -> FloatArray:
    """Draw `Batch.dropout` (factors, padded) for n histories, in the order of torch's layers."""
    import torch

    from srs_eval.training.transformer_kernel import count_dropout_factors

    dropout = torch.ones(count_dropout_factors(longest), padded, dtype=torch.float64)
    reviews_attention = (n, _WIDTH, longest, longest)
    reviews = (longest, n, _WIDTH)
    question_attention = (n, _WIDTH, 1, 1)
    cross_attention = (n, _WIDTH, 1, longest)
    question = (1, n, _WIDTH)
    shapes = (
        reviews_attention,
        reviews,
        reviews,
        reviews,
        question_attention,
        question,
        cross_attention,
        question,
        question,
        question,
    )
    begin = 0
    for shape in shapes:
        factor = torch.empty(shape).bernoulli_(1 - _DROPOUT).div_(1 - _DROPOUT)
        is_attention = len(shape) == 4
        factor = factor.permute(1, 2, 3, 0) if is_attention else factor.transpose(1, 2)
        count = factor.numel() // n
        dropout[begin : begin + count, :n] = factor.reshape(count, n)
        begin += count
    result: FloatArray = dropout.numpy()
    return result


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
    import torch

    from srs_eval.training.cells import AdamWState
    from srs_eval.training.compile import compile_kernel
    from srs_eval.training.transformer_kernel import new_scratch, transformer_pass

    w = _load_start(trials, context)
    order = sort_by_length(trials, select_training_rows(trials, train))
    weight_of = spread_over_trials(trials, train, weights)
    size = _BATCH_SIZE.integer_in(context, trials.protocol)
    epochs = _EPOCHS.integer_in(context)
    seed = hyperparameters.SEED.integer_in(context)
    batch_rows = [order[first : first + size] for first in range(0, len(order), size)]
    batches = [_batch(trials, rows, weight_of[rows]) for rows in batch_rows]
    adam = AdamWState(
        mean=np.zeros(len(w)),
        square=np.zeros(len(w)),
        rate=_RATE.number_in(context),
        decay=_DECAY.number_in(context),
        steps=epochs * len(batches),
    )
    orders = draw_permutations(len(batches), compute_batch_seed(context))
    run_pass = compile_kernel(transformer_pass)
    done = 0
    with use_one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(42 + seed + context.user)
        for _ in range(epochs):
            for k in next(orders).tolist():
                longest = len(batches[k].reviews) // _WIDTH
                padded = len(batches[k].delta_t)
                dropout = _draw_dropout(longest, len(batch_rows[k]), padded)
                batch = batches[k]._replace(dropout=dropout)
                run_pass(done, w, batch, adam, new_scratch(longest, padded))
                done += 1
                context.tick(done / adam.steps)
    require_finite(w)
    return w.tolist()


def predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    """Predict recall at `index`; empty `parameters` mean the pretrained weights."""
    from srs_eval.training.cells import AdamWState
    from srs_eval.training.compile import compile_kernel
    from srs_eval.training.transformer_kernel import new_scratch, transformer_pass

    w = np.array(parameters) if len(parameters) else _load_start(trials, context)
    unused = np.zeros(0)
    no_descent = AdamWState(unused, unused, 0.0, 0.0, 0)
    predictions = [np.zeros(0)]
    for first in range(0, len(index), _PREDICTED_AT_ONCE):
        rows = index[first : first + _PREDICTED_AT_ONCE]
        batch = _batch(trials, rows, np.ones(len(rows)))
        scratch = new_scratch(len(batch.reviews) // _WIDTH, len(batch.delta_t))
        compile_kernel(transformer_pass)(-1, w, batch, no_descent, scratch)
        predictions.append(scratch.recall[: len(rows)].astype(np.float32).astype(np.float64))
    return np.concatenate(predictions)


MODELS = (
    TrainedModel(
        name=_NAME,
        family="neural",
        inputs="IL, G",
        parameters=127,
        source="srs-benchmark other.py, class Transformer (2024)",
        fit=_fit,
        predict=predict,
        default=no_parameters,
        hyperparameters=(_RATE, _EPOCHS, _BATCH_SIZE, _DECAY, hyperparameters.SEED),
        needs="torch",
        cost=Cost(seconds_per_10k=0.6, seconds_to_compile=10.0),
        note="Only two numbers wide and blind to the order of reviews, with padding that is not "
        "masked: it does badly for these reasons, not because it is a transformer.",
    ),
)
