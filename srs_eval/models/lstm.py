"""LSTM: a network that mixes three forgetting curves, read off a card's whole history.

For each review it sees the interval before it in fractions of a day, the answer time and
the grade, same-day reviews included: ln(0.00001 + days) and ln(ms, clipped to 100 ... 60,000),
both normalised, and four indicators of the grade. Two linear layers, two LSTM layers of 20 units
and three linear layers, with layer norms and shortcuts, give for each of three curves a
weight w, a stability s and an exponent d:

    R(t) = (1 - 1e-7) sum of w (1 + t / (1e-7 + s))^-d        t in whole days

Fitted from weights pretrained by Reptile (Nichol, Achiam and Schulman 2018) on other
learners: 20 passes of AdamW without momentum over all reviews of later days, newer ones
weighing up to 7.5 times as much, and a pull back to the pretrained weights. `--recency`
changes nothing here.

Network and training: srs-benchmark, branch lstm, commit fc8fba8505a5, other.py `class
LSTM` and reptile_trainer.py `finetune`. Its published figures rest on a mistake: both
inputs are normalised with the mean and deviation of the *interval*. `LSTM` does that,
`LSTM-fixed` normalises the answer time with its own; nothing else differs.

Upstream runs every review's whole history as a sequence of its own, padded, all at once.
But a card's shorter histories are the beginnings of its longest one. So here each card goes through
the network once, and every review reads the output at its position; cards go in groups, whose
gradients are added up. Results are the same except for rounding.

On the processor, training and prediction are computed in `training.lstm_kernel`. On other devices
torch runs the network that is written below, which tests compare the kernel with.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import ANY_FLAG, Context, Cost, TrainedModel, no_parameters
from srs_eval.training import hyperparameters
from srs_eval.training.card_lanes import CardBatch, make_batch
from srs_eval.training.networks import (
    Tensors,
    load_network_weights,
    missing_weights_error,
    require_finite,
)
from srs_eval.training.optimisers import compute_relative_recency_weights, shuffle_rows
from srs_eval.training.torch_networks import (
    build_network,
    find_previous_rows,
    lstm_layer,
    use_device,
)

_PASSES = hyperparameters.epochs(20)
_WARM_UP = 1 / 4  # share of the passes before the middle learning rate
_BATCH = hyperparameters.batch_size(16_384)
_BATCH_EXPONENT = 1.2103  # a batch's loss is the mean loss of its n reviews times n to this power
_RATES = tuple(
    rate * 16_000 ** (1 - _BATCH_EXPONENT) for rate in (0.0019622, 0.006455344, 0.0034213)
)
_RATE = hyperparameters.learning_rate(_RATES[1])  # the other two scale with it
_DECAY = hyperparameters.penalty("decay", 0.04855)
_PULL = hyperparameters.penalty("pull", 0.000244)  # towards the pretrained weights
_HYPERPARAMETERS = (_RATE, _PASSES, _BATCH, _DECAY, _PULL, hyperparameters.SEED)
_SQUARE_DECAY = 0.999  # of AdamW's running mean of the squared gradient
_LONGEST_GRADIENT = 7050.0  # norm to which longer gradients are shortened
_RECENCY = 6.49, 2.4758  # weight and degree, see `compute_relative_recency_weights`
_REVIEWS_AT_ONCE = 16_384  # history rows in one pass through the network: about 100 MB
_REVIEWS_AT_ONCE_ON_GPU = 131_072  # a GPU takes about as long for a step of few cards as of many

_UPSTREAM_NAME = "LSTM-short-secs-equalize_test_with_non_secs"


@dataclass(frozen=True, eq=False)
class LstmWeights:
    """Weights of LSTM and the scale of its inputs."""

    tensors: Tensors  # in the network's order
    mean: NDArray[np.float32]  # (2,) of ln delay and ln answer time
    deviation: NDArray[np.float32]


@cache
def network_class() -> type:
    """Return the network's class, defined at the first call since importing torch takes seconds."""
    import torch
    from torch import Tensor, nn
    from torch.nn.utils.rnn import PackedSequence

    from srs_eval.training.lstm_kernel import CURVES, HIDDEN, INPUTS

    run_lstm_layer = lstm_layer()

    class Shortcut(nn.Module):
        def __init__(self, *layers: nn.Module) -> None:
            super().__init__()
            self.module = nn.Sequential(*layers)

        def forward(self, h: Tensor) -> Tensor:
            return h + self.module(h)

    def linear() -> nn.Linear:
        return nn.Linear(HIDDEN, HIDDEN)

    def norm(bias: bool = False) -> nn.LayerNorm:
        return nn.LayerNorm(HIDDEN, bias=bias)

    def recurrent() -> nn.ModuleDict:
        return nn.ModuleDict({"module": nn.LSTM(HIDDEN, HIDDEN)})

    class LstmNetwork(nn.Module):
        """The network; its parts have the names that weight files use."""

        def __init__(self) -> None:
            super().__init__()
            self.process = nn.Sequential(
                nn.Linear(INPUTS, HIDDEN),
                nn.SiLU(),
                norm(),
                linear(),
                nn.SiLU(),
                Shortcut(norm(), recurrent()),
                Shortcut(norm(bias=True), recurrent()),
                Shortcut(norm(), linear(), nn.SiLU(), norm(), linear(), nn.SiLU()),
                norm(),
                linear(),
                nn.SiLU(),
            )
            self.w_fc = nn.Linear(HIDDEN, CURVES)
            self.s_fc = nn.Linear(HIDDEN, CURVES)
            self.d_fc = nn.Linear(HIDDEN, CURVES)

        def forward(self, group: _CardGroup) -> Tensor:
            """Return the recall of the group's items (n,)."""
            layers: Any = self.process
            h: Tensor = layers[:5](group.x)
            for shortcut in layers[5:7]:
                normed = shortcut.module[0](h)
                lstm = shortcut.module[1]["module"]
                if h.is_cuda:  # where torch's own layer is faster
                    h = h + lstm(PackedSequence(normed, torch.tensor(group.remaining)))[0].data
                else:
                    h = h + run_lstm_layer(
                        normed, group.previous, group.remaining, *lstm.parameters()
                    )
            h = layers[7:](h[group.item])
            share = torch.softmax(self.w_fc(h), dim=-1)
            s = torch.exp(torch.clamp(self.s_fc(h), -25, 25))
            d = torch.exp(torch.clamp(self.d_fc(h), -25, 25))
            curves = (1 + group.delta_t[:, None] / (1e-7 + s)) ** -d
            return (1 - 1e-7) * torch.sum(share * curves, dim=-1)

    return LstmNetwork


def _build_network(weights: LstmWeights, device: Any) -> Any:
    import torch

    network = build_network(network_class())
    network.load_state_dict(
        {name: torch.from_numpy(tensor.copy()) for name, tensor in weights.tensors.items()}
    )
    return network.to(device)


def _tensor_shapes() -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the tensors."""
    from srs_eval.training.lstm_kernel import TENSOR_SHAPES

    return TENSOR_SHAPES


def _flatten(tensors: Tensors) -> NDArray[np.float32]:
    """Return all tensors as one vector, in the order of `_tensor_shapes`."""
    return np.concatenate([np.ravel(tensors[name]) for name in _tensor_shapes()])


def _unflatten(w: NDArray[np.float32]) -> Tensors:
    """Return the tensors of a vector that `_flatten` made."""
    tensors = {}
    begin = 0
    for name, shape in _tensor_shapes().items():
        end = begin + math.prod(shape)
        tensors[name] = w[begin:end].reshape(shape)
        begin = end
    return tensors


def _load_start(fixed: bool, context: Context) -> LstmWeights:
    model = "LSTM-fixed" if fixed else "LSTM"
    names: tuple[str, ...] = (_UPSTREAM_NAME, "LSTM")
    if fixed:
        names = ("LSTM-fixed", *names)
    shapes = {**_tensor_shapes(), "input_mean": (2,), "input_std": (2,)}
    tensors = load_network_weights(names, shapes, context)
    if tensors is None:
        raise missing_weights_error(model, names, context)
    mean = tensors["input_mean"]
    deviation = tensors["input_std"]
    if not fixed:
        mean = mean[[0, 0]]
        deviation = deviation[[0, 0]]
    return LstmWeights({name: tensors[name] for name in _tensor_shapes()}, mean, deviation)


# Reviews as the network takes them


@dataclass(frozen=True, eq=False)
class _CardGroup:
    """Cards that go through the network together.

    The rows are all first reviews of the cards, then all second ones and so on, longest card first.
    """

    x: Any  # torch tensor of inputs (rows, 6)
    previous: Any  # tensor: the row of the step before each row from step two on
    remaining: list[int]  # (longest,) number of cards that reach each step
    item: Any  # tensor (n,): for each item, a trial, the row of the review before it
    delta_t: Any  # tensor (n,): days since that review
    position: IntArray  # (n,) of the items in the requested trials


def _compute_inputs(
    trials: Trials, mean: NDArray[np.float32], deviation: NDArray[np.float32]
) -> Any:
    """Return what the network sees of every history row (m, 6), float32."""
    delay = np.log(np.float32(1e-5) + trials.history_delta_t.astype(np.float32))
    duration = np.log(np.clip(trials.history_duration_ms, 100, 60_000).astype(np.float32))
    normalised = (np.stack([delay, duration], axis=1) - mean) / deviation
    grades = trials.history_rating[:, None] == np.arange(1, 5)
    return np.concatenate([normalised, grades], axis=1).astype(np.float32)


def _days_since_last(trials: Trials, rows: IntArray) -> NDArray[np.float32]:
    """Return the whole days since the last review; on the same day, the fraction of a day."""
    days = trials.elapsed_days[rows]
    return np.where(days > 0, days, trials.delta_t[rows]).astype(np.float32)


def group_cards(
    trials: Trials, rows: IntArray, x: NDArray[np.float32], device: Any, max_rows: int
) -> Iterator[_CardGroup]:
    """Yield the cards of the trials `rows` in groups of about `max_rows` history rows at most."""
    import torch

    start = trials.history_start[rows]
    length = trials.sequence_length[rows]
    cards, card = np.unique(start, return_inverse=True)
    longest = np.zeros(len(cards), np.int64)
    np.maximum.at(longest, card, length)
    # Longest first, so that cards of a group have similar lengths.
    order = np.argsort(-longest, kind="stable")
    rank = np.empty(len(cards), np.int64)
    rank[order] = np.arange(len(cards))
    lengths = longest[order]
    group_of_card = (np.cumsum(lengths) - lengths) // max_rows
    group_of_item = group_of_card[rank[card]]
    by_group = np.argsort(group_of_item, kind="stable")
    ends = np.searchsorted(group_of_item[by_group], np.unique(group_of_card), side="right")
    begin = 0
    for number, end in zip(np.unique(group_of_card).tolist(), ends.tolist(), strict=True):
        position = by_group[begin:end]
        begin = end
        first_card = int(np.searchsorted(group_of_card, number))
        end_card = int(np.searchsorted(group_of_card, number, side="right"))
        group_lengths = lengths[first_card:end_card]
        steps = np.arange(group_lengths[0])
        # Lengths fall: count the cards that are longer than each step.
        remaining = np.searchsorted(-group_lengths, -steps, side="left")
        first_row_of_step = np.cumsum(remaining) - remaining
        history_rows = np.concatenate(
            [cards[order[first_card : first_card + n]] + step for step, n in enumerate(remaining)]
        )
        item = first_row_of_step[length[position] - 1] + rank[card[position]] - first_card
        yield _CardGroup(
            x=torch.from_numpy(x[history_rows]).to(device),
            previous=torch.from_numpy(find_previous_rows(remaining)).to(device),
            remaining=remaining.tolist(),
            item=torch.from_numpy(item).to(device),
            delta_t=torch.from_numpy(_days_since_last(trials, rows[position])).to(device),
            position=position,
        )


def _make_batch(
    trials: Trials, rows: IntArray, x: NDArray[np.float32], weight: NDArray[np.float32]
) -> tuple[CardBatch, IntArray]:
    """Return the trials `rows` with their weights (n,) as the kernel takes them."""
    y = trials.y[rows].astype(np.float32)
    return make_batch(
        x,
        trials.history_start[rows],
        trials.sequence_length[rows],
        _days_since_last(trials, rows),
        weight * y,
        weight * (1 - y),
    )


def _rows_per_pass(context: Context) -> int:
    return _REVIEWS_AT_ONCE_ON_GPU if context.device.startswith("cuda") else _REVIEWS_AT_ONCE


def rate_of_pass(passes_done: int, passes: int = 20) -> float:
    """Return the learning rate of the pass after `passes_done` of `passes`.

    It rises linearly to the middle rate, then falls linearly. `_RATE` scales it later.
    """
    begin, middle, end = _RATES
    warm_up = _WARM_UP * passes
    if passes_done < warm_up:
        return begin + (middle - begin) * passes_done / warm_up
    return middle + (end - middle) * (passes_done - warm_up) / (passes - warm_up)


def fine_tune(
    weights: LstmWeights, trials: Trials, train: IntArray, context: Context
) -> LstmWeights:
    """Fit the weights to the positions `train`, which are in order of review.

    Raises NotEnoughData if there are no reviews to train on.
    """
    if trials.protocol.secs:
        train = train[trials.elapsed_days[train] > 0]
    if not len(train):
        raise NotEnoughData("no reviews of later days to train on")
    weight_of = np.zeros(len(trials), np.float32)
    weight_of[train] = compute_relative_recency_weights(len(train), *_RECENCY)
    rows = shuffle_rows(trials, train, context)
    train_network = _train_compiled if context.device == "cpu" else _train_in_torch
    tensors = train_network(weights, trials, rows, weight_of, context)
    require_finite(*tensors.values())
    return replace(weights, tensors=tensors)


def _split_into_batches(rows: IntArray, context: Context) -> list[tuple[IntArray, float]]:
    """Return the rows of each batch, and the factor on the sum of their losses."""
    size = _BATCH.integer_in(context)
    batches = [rows[first : first + size] for first in range(0, len(rows), size)]
    return [(batch, len(batch) ** (_BATCH_EXPONENT - 1)) for batch in batches]


def _train_compiled(
    weights: LstmWeights,
    trials: Trials,
    rows: IntArray,
    weight_of: NDArray[np.float32],
    context: Context,
) -> Tensors:
    """Return the tensors after training on the shuffled rows, with weights (trials,)."""
    from srs_eval.training.lstm_kernel import new_network, run_pass

    x = _compute_inputs(trials, weights.mean, weights.deviation)
    batches = []
    for batch_rows, scale in _split_into_batches(rows, context):
        batch, _ = _make_batch(trials, batch_rows, x, weight_of[batch_rows])
        batches.append((batch, scale))
    start = _flatten(weights.tensors)
    w = start.copy()
    network = new_network(w, [batch for batch, _ in batches])
    square = np.zeros(len(w))
    passes = _PASSES.integer_in(context)
    rate_factor = _RATE.number_in(context) / _RATES[1]
    decay = _DECAY.number_in(context)
    pull = _PULL.number_in(context)
    steps = passes * len(batches)
    for done in range(steps):
        number, batch_number = divmod(done, len(batches))
        batch, scale = batches[batch_number]
        run_pass(network, batch, trains=True)
        gradient = scale * network.gradient + 2 * pull * (w - start)
        length = np.linalg.norm(gradient)
        gradient *= min(1.0, _LONGEST_GRADIENT / (length + 1e-6))
        # AdamW without momentum, in torch's order of operations
        rate = rate_factor * rate_of_pass(number, passes)
        square += (1 - _SQUARE_DECAY) * (gradient * gradient - square)
        deviation = np.sqrt(square / (1 - _SQUARE_DECAY ** (done + 1))) + 1e-8
        w[:] = w * (1 - rate * decay) - rate * gradient / deviation
        context.tick((done + 1) / steps)
    return _unflatten(w)


def _train_in_torch(
    weights: LstmWeights,
    trials: Trials,
    rows: IntArray,
    weight_of: NDArray[np.float32],
    context: Context,
) -> Tensors:
    """Return the tensors after training on the shuffled rows, with weights (trials,)."""
    import torch
    from torch.nn.functional import binary_cross_entropy

    x = _compute_inputs(trials, weights.mean, weights.deviation)
    passes = _PASSES.integer_in(context)
    pull = _PULL.number_in(context)
    rate_factor = _RATE.number_in(context) / _RATES[1]
    with use_device(context) as device:
        network = _build_network(weights, device).train()
        parameters = list(network.parameters())
        start = [parameter.detach().clone() for parameter in parameters]
        batches = []
        for batch, scale in _split_into_batches(rows, context):
            groups = []
            for group in group_cards(trials, batch, x, device, _rows_per_pass(context)):
                group_rows = batch[group.position]
                y = torch.from_numpy(trials.y[group_rows].astype(np.float32)).to(device)
                weight = torch.from_numpy(weight_of[group_rows]).to(device)
                groups.append((group, y, weight))
            batches.append((groups, scale))
        optimizer = torch.optim.AdamW(
            parameters,
            lr=_RATES[0],
            betas=(0.0, _SQUARE_DECAY),
            weight_decay=_DECAY.number_in(context),
        )
        steps = passes * sum(len(groups) for groups, _ in batches)
        done = 0
        for number in range(passes):
            for settings in optimizer.param_groups:
                settings["lr"] = rate_factor * rate_of_pass(number, passes)
            for groups, scale in batches:
                optimizer.zero_grad()
                for group, y, weight in groups:
                    p = network(group)
                    loss = binary_cross_entropy(p, y, weight=weight, reduction="sum")
                    (scale * loss).backward()
                    done += 1
                    context.tick(done / steps)
                for parameter, origin in zip(parameters, start, strict=True):
                    parameter.grad += 2 * pull * (parameter.detach() - origin)
                torch.nn.utils.clip_grad_norm_(parameters, _LONGEST_GRADIENT)
                optimizer.step()
        return {name: tensor.cpu().numpy() for name, tensor in network.state_dict().items()}


def predict_recall(
    weights: LstmWeights, trials: Trials, rows: IntArray, context: Context
) -> FloatArray:
    """Return the probability of recall at the positions `rows` (same shape)."""
    if not len(rows):
        return np.empty(0)
    predict_rows = _predict_compiled if context.device == "cpu" else _predict_in_torch
    return predict_rows(weights, trials, rows, context)


def _predict_compiled(
    weights: LstmWeights, trials: Trials, rows: IntArray, context: Context
) -> FloatArray:
    from srs_eval.training.lstm_kernel import new_network, run_pass

    x = _compute_inputs(trials, weights.mean, weights.deviation)
    batch, item = _make_batch(trials, rows, x, np.zeros(len(rows), np.float32))
    run_pass(new_network(_flatten(weights.tensors), [batch]), batch, trains=False)
    return batch.recall.reshape(-1)[item].astype(np.float64)


def _predict_in_torch(
    weights: LstmWeights, trials: Trials, rows: IntArray, context: Context
) -> FloatArray:
    """Return what `predict_recall` returns, computed on the context's device."""
    import torch

    result = np.empty(len(rows))
    x = _compute_inputs(trials, weights.mean, weights.deviation)
    with use_device(context) as device, torch.no_grad():
        network = _build_network(weights, device).eval()
        for group in group_cards(trials, rows, x, device, _rows_per_pass(context)):
            p = network(group)
            result[group.position] = p.cpu().numpy()
    return result


def _fit(
    trials: Trials,
    train: IntArray,
    weights: FloatArray,
    context: Context,
    *,
    fixed: bool = False,
) -> LstmWeights:
    return fine_tune(_load_start(fixed, context), trials, train, context)


def _predict(
    trials: Trials, parameters: Any, index: IntArray, context: Context, *, fixed: bool = False
) -> FloatArray:
    """Predict recall at `index`; empty `parameters` mean the pretrained weights."""
    weights = parameters if isinstance(parameters, LstmWeights) else _load_start(fixed, context)
    return predict_recall(weights, trials, index, context)


# LSTM has its own recency weights and, with `secs`, trains only on later days anyway.
_FLAGS = ANY_FLAG - {"recency", "no_train_same_day"}

_STANDARD = "LSTM-short-secs-equalize_test_with_non_secs"
_LSTM = TrainedModel(
    name="LSTM",
    family="neural",
    inputs="FIL, G, SR, AT",
    parameters=8869,
    source="srs-benchmark branch lstm (2025), other.py class LSTM and reptile_trainer.py",
    note="As published: the answer time is normalised with the interval's mean and "
    "deviation, by mistake; LSTM-fixed corrects this.",
    cost=Cost(seconds_per_10k=0.5, seconds_to_compile=6.0),
    standard=_STANDARD,
    # Upstream of 2026 has an LSTM without answer times, too; -duration names this one.
    aliases={"LSTM-short-secs-duration-equalize_test_with_non_secs": _STANDARD},
    uses_device=True,
    fit=_fit,
    default=no_parameters,
    predict=_predict,
    flags=_FLAGS,
    hyperparameters=_HYPERPARAMETERS,
)

MODELS = (
    _LSTM,
    replace(
        _LSTM,
        name="LSTM-fixed",
        note="LSTM with the answer time normalised as it should be; no published figures.",
        cost=replace(_LSTM.cost, kernels_of="LSTM"),
        standard="LSTM-fixed-short-secs-equalize_test_with_non_secs",
        aliases={},
        fit=partial(_fit, fixed=True),
        predict=partial(_predict, fixed=True),
    ),
)
