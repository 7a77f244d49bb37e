"""Transformer: an encoder and a decoder of width 2 that give a card's stability.

The encoder reads (interval, rating) of all reviews, without their order being marked;
the decoder asks once, with a zero; s = exp(fc output) is the stability in days and
R(t) = (1 + factor t/s)^-0.5 with R(s) = 0.9.

Network and training: srs-benchmark other.py `class Transformer` and `Trainer` (January
2025): AdamW at 0.04 with cosine annealing, 5 epochs, batches of 512 by length, dropout
0.1, from weights pretrained on other learners; the last weights are kept, see `networks`.

Two mistakes are part of the published figures and so of this: nothing marks the order
of reviews, and padding is not masked, so a prediction depends on the longest history
in its batch (8,192 of a fold's judged reviews). Upstream draws dropout from one random
stream per process, so its figures depend on who ran before; here each fit has its own.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np

from srs_eval import hyperparameters
from srs_eval.fitting.networks import (
    SEED,
    Tensors,
    build,
    device_of,
    length_order,
    load_weights,
    no_weights,
    one_thread,
    require_finite,
    training_rows,
    weight_names,
)
from srs_eval.fitting.permutation import permutations
from srs_eval.models import ANY_FLAG, Context, Model
from srs_eval.protocol import Trials
from srs_eval.reviews import FloatArray, IntArray

NAME = "Transformer"
WIDTH = 2
DROPOUT = 0.1
RATE = hyperparameters.learning_rate(4e-2)
DECAY = hyperparameters.penalty("decay", 1e-5)
EPOCHS = hyperparameters.epochs(5)
BATCH_SIZE = hyperparameters.batch_size()
PREDICTED_AT_ONCE = 8192
_FACTOR = 0.9**-2 - 1


@cache
def _network_class() -> type:
    """The network; defined at the first call, for torch takes seconds to import."""
    import torch
    from torch import Tensor, nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with warnings.catch_warnings():  # torch advises another layout
                warnings.simplefilter("ignore", UserWarning)
                self.transformer = nn.Transformer(
                    d_model=WIDTH,
                    nhead=WIDTH,
                    num_encoder_layers=1,
                    num_decoder_layers=1,
                    dim_feedforward=WIDTH,
                    dropout=DROPOUT,
                )
            self.fc = nn.Linear(WIDTH, 1)

        def forward(self, histories: Tensor, delta_t: Tensor) -> Tensor:
            """Recall (n,) after delta_t (n,) days; histories (longest, n, 2), padded with 0."""
            question = torch.zeros(1, histories.shape[1], WIDTH, device=histories.device)
            stability = torch.exp(self.fc(self.transformer(histories, question)))[0, :, 0]
            return (1 + _FACTOR * delta_t / stability) ** -0.5

    return Network


def _network(tensors: Tensors, device: Any) -> Any:
    import torch

    network = build(_network_class())
    network.load_state_dict(
        {name: torch.from_numpy(tensor.copy()) for name, tensor in tensors.items()}
    )
    return network.to(device)


@cache
def _shapes() -> dict[str, tuple[int, ...]]:
    network = build(_network_class())
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def _start(trials: Trials, context: Context) -> Tensors:
    names = weight_names(NAME, trials.protocol)
    tensors = load_weights(names, _shapes(), context)
    if tensors is None:
        raise no_weights(NAME, names, context)
    return tensors


def _histories(trials: Trials, rows: IntArray) -> FloatArray:
    """Interval and rating of each review (longest, n, 2) float32, padded with 0."""
    lengths = trials.sequence_length[rows]
    step = np.arange(int(lengths.max()))[:, None]
    inside = step < lengths
    place = np.where(inside, trials.history_start[rows] + step, 0)
    pair = np.stack([trials.history_delta_t[place], trials.history_rating[place]], axis=-1)
    return np.where(inside[:, :, None], pair, 0).astype(np.float32)


def _batch(trials: Trials, rows: IntArray, device: Any) -> tuple[Any, Any]:
    import torch

    histories = torch.from_numpy(_histories(trials, rows)).to(device)
    return histories, torch.from_numpy(trials.delta_t[rows].astype(np.float32)).to(device)


def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> Tensors:
    import torch
    from torch.nn.functional import binary_cross_entropy

    start = _start(trials, context)
    order = length_order(trials, training_rows(trials, train))
    weight_of = np.zeros(len(trials), np.float32)
    weight_of[train] = weights
    size, epochs = BATCH_SIZE.integer(context, trials.protocol), EPOCHS.integer(context)
    seed = hyperparameters.seed(context)
    device = device_of(context)
    with one_thread(), torch.random.fork_rng(devices=[] if device.type == "cpu" else None):
        torch.manual_seed(42 + seed + context.user)
        network = _network(start, device).train()
        batches = []
        for first in range(0, len(order), size):
            rows = order[first : first + size]
            y = torch.from_numpy(trials.y[rows].astype(np.float32)).to(device)
            weight = torch.from_numpy(weight_of[rows]).to(device)
            batches.append((*_batch(trials, rows, device), y, weight))
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=RATE.number(context), weight_decay=DECAY.number(context)
        )
        steps = epochs * len(batches)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
        visits = permutations(len(batches), SEED + seed)
        done = 0
        for _ in range(epochs):
            for k in next(visits):
                histories, delta_t, y, weight = batches[k]
                optimizer.zero_grad()
                loss = binary_cross_entropy(
                    network(histories, delta_t), y, weight=weight, reduction="sum"
                )
                loss.backward()
                optimizer.step()
                schedule.step()
                done += 1
                context.tick(done / steps)
        fitted = {name: tensor.cpu().numpy() for name, tensor in network.state_dict().items()}
    require_finite(*fitted.values())
    return fitted


def predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    """`parameters` empty: the pretrained ones."""
    import torch

    device = device_of(context)
    with one_thread(), torch.no_grad():
        network = _network(parameters or _start(trials, context), device).eval()
        parts = [np.empty(0)]
        for first in range(0, len(index), PREDICTED_AT_ONCE):
            rows = index[first : first + PREDICTED_AT_ONCE]
            p = network(*_batch(trials, rows, device))
            parts.append(p.cpu().numpy().astype(np.float64))
    return np.concatenate(parts)


MODELS = (
    Model(
        name=NAME,
        family="neural",
        inputs="IL, G",
        parameters=127,
        source="srs-benchmark other.py, class Transformer",
        fit=fit,
        predict=predict,
        flags=ANY_FLAG,
        hyperparameters=(RATE, EPOCHS, BATCH_SIZE, DECAY, hyperparameters.SEED),
        compiles="to train",
        needs="torch",
        seconds_per_10k=3.0,
        note="Two numbers wide and blind to the order of reviews, with padding that is not "
        "masked: it does badly for these reasons, not because transformers must.",
    ),
)
