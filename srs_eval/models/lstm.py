"""LSTM: a network that mixes three forgetting curves, read off a card's whole history.

For each review it sees the interval before it in fractions of a day, the answer time and
the grade, same-day reviews included: ln(0.00001 + days) and ln(ms held within 100 and
60,000), both normalised, and four indicators of the grade. Two linear layers, two LSTM
layers of 20 units and three linear layers, with layer norms and shortcuts, give for
each of three curves a weight w, a stability s and an exponent d:

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
But the histories of a card are each other's beginnings, so here each card goes through the
network once and every review reads the output at its place; cards go in groups whose
gradients add up. Results are the same but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import ANY_FLAG, Context, Model
from srs_eval.training import hyperparameters
from srs_eval.training.networks import Tensors, load_weights, no_weights, require_finite
from srs_eval.training.optimisers import recency, shuffled_rows
from srs_eval.training.torch_networks import build, layer, on_device, previous_rows

INPUTS, HIDDEN, CURVES = 6, 20, 3
_PASSES = hyperparameters.epochs(20)
_WARM_UP = 1 / 4  # of the passes, until the middle learning rate
_BATCH = hyperparameters.batch_size(16_384)
_BATCH_EXPONENT = 1.2103  # the loss of n reviews is their mean times n to this power
_RATES = tuple(
    rate * 16_000 ** (1 - _BATCH_EXPONENT) for rate in (0.0019622, 0.006455344, 0.0034213)
)
_RATE = hyperparameters.learning_rate(_RATES[1])  # the others go along with it
_DECAY = hyperparameters.penalty("decay", 0.04855)
_PULL = hyperparameters.penalty("pull", 0.000244)  # towards the pretrained weights
_HYPERPARAMETERS = (_RATE, _PASSES, _BATCH, _DECAY, _PULL, hyperparameters.SEED)
_LONGEST_GRADIENT = 7050.0
_RECENCY = 6.49, 2.4758  # weight and degree
_REVIEWS_AT_ONCE = 16_384  # history rows in one pass through the network: about 100 MB
_ON_A_GPU_AT_ONCE = 131_072  # a step takes a GPU about as long for few cards as for many

_UPSTREAM_NAME = "LSTM-short-secs-equalize_test_with_non_secs"


@dataclass(frozen=True, eq=False)
class Weights:
    tensors: Tensors  # in the network's order
    mean: NDArray[np.float32]  # (2,) of ln delay and ln answer time
    deviation: NDArray[np.float32]


@cache
def network_class() -> type:
    """The network; defined at the first call, for torch takes seconds to import."""
    import torch
    from torch import Tensor, nn
    from torch.nn.utils.rnn import PackedSequence

    cells = layer()

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

    class Network(nn.Module):
        """Its parts have the names that they have in weight files."""

        def __init__(self) -> None:
            super().__init__()
            self.process = nn.Sequential(
                *(nn.Linear(INPUTS, HIDDEN), nn.SiLU(), norm(), linear(), nn.SiLU()),
                Shortcut(norm(), recurrent()),
                Shortcut(norm(bias=True), recurrent()),
                Shortcut(norm(), linear(), nn.SiLU(), norm(), linear(), nn.SiLU()),
                *(norm(), linear(), nn.SiLU()),
            )
            self.w_fc = nn.Linear(HIDDEN, CURVES)
            self.s_fc = nn.Linear(HIDDEN, CURVES)
            self.d_fc = nn.Linear(HIDDEN, CURVES)

        def forward(self, group: _Group) -> Tensor:
            """Recall of the group's items (n,)."""
            layers: Any = self.process
            h: Tensor = layers[:5](group.x)
            for shortcut in layers[5:7]:
                normed, lstm = shortcut.module[0](h), shortcut.module[1]["module"]
                if h.is_cuda:  # where a step costs more than what is in it
                    h = h + lstm(PackedSequence(normed, torch.tensor(group.still)))[0].data
                else:
                    h = h + cells(normed, group.previous, group.still, *lstm.parameters())
            h = layers[7:](h[group.item])
            share = torch.softmax(self.w_fc(h), dim=-1)
            s = torch.exp(torch.clamp(self.s_fc(h), -25, 25))
            d = torch.exp(torch.clamp(self.d_fc(h), -25, 25))
            curves = (1 + group.delta_t[:, None] / (1e-7 + s)) ** -d
            return (1 - 1e-7) * torch.sum(share * curves, dim=-1)

    return Network


def _network(weights: Weights, device: Any) -> Any:
    import torch

    network = build(network_class())
    network.load_state_dict(
        {name: torch.from_numpy(tensor.copy()) for name, tensor in weights.tensors.items()}
    )
    return network.to(device)


@cache
def _shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors."""
    return {name: tuple(t.shape) for name, t in build(network_class()).state_dict().items()}


def _start(fixed: bool, context: Context) -> Weights:
    model = "LSTM-fixed" if fixed else "LSTM"
    names = ("LSTM-fixed",) * fixed + (_UPSTREAM_NAME, "LSTM")
    found = load_weights(names, {**_shapes(), "input_mean": (2,), "input_std": (2,)}, context)
    if found is None:
        raise no_weights(model, names, context)
    mean, deviation = found["input_mean"], found["input_std"]
    if not fixed:
        mean, deviation = mean[[0, 0]], deviation[[0, 0]]
    return Weights({name: found[name] for name in _shapes()}, mean, deviation)


# Reviews as the network takes them


@dataclass(frozen=True, eq=False)
class _Group:
    """Some cards on their way through the network.

    Rows are all first reviews of the cards, then all second ones and so on, longest card first.
    """

    x: Any  # torch tensors: (rows, 6)
    previous: Any  # of each row from the second reviews on, the row of the card's review before
    still: list[int]  # (longest,) how many cards get so far
    item: Any  # (n,) the row of each item's last review
    delta_t: Any  # (n,) days since
    position: IntArray  # (n,) of the items in what was asked for


def _inputs(trials: Trials, mean: NDArray[np.float32], deviation: NDArray[np.float32]) -> Any:
    """What the network sees of every history row (m, 6) float32."""
    delay = np.log(np.float32(1e-5) + trials.history_delta_t.astype(np.float32))
    duration = np.log(np.clip(trials.history_duration_ms, 100, 60_000).astype(np.float32))
    both = (np.stack([delay, duration], axis=1) - mean) / deviation
    grades = trials.history_rating[:, None] == np.arange(1, 5)
    return np.concatenate([both, grades], axis=1).astype(np.float32)


def _days(trials: Trials, rows: IntArray) -> NDArray[np.float32]:
    """Whole days since the last review; fractions of a day where it was today."""
    whole = trials.elapsed_days[rows]
    return np.where(whole > 0, whole, trials.delta_t[rows]).astype(np.float32)


def groups(
    trials: Trials, rows: IntArray, x: NDArray[np.float32], device: Any, at_once: int
) -> Iterator[_Group]:
    """The cards of `rows`, together at most about `at_once` history rows at a time."""
    import torch

    start, length = trials.history_start[rows], trials.sequence_length[rows]
    cards, card = np.unique(start, return_inverse=True)
    longest = np.zeros(len(cards), np.int64)
    np.maximum.at(longest, card, length)
    # Longest first, so that cards of a group are of like length.
    order = np.argsort(-longest, kind="stable")
    rank = np.empty(len(cards), np.int64)
    rank[order] = np.arange(len(cards))
    lengths = longest[order]
    group_of_card = (np.cumsum(lengths) - lengths) // at_once
    group_of_item = group_of_card[rank[card]]
    by_group = np.argsort(group_of_item, kind="stable")
    ends = np.searchsorted(group_of_item[by_group], np.unique(group_of_card), side="right")
    begin = 0
    for number, end in zip(np.unique(group_of_card).tolist(), ends.tolist(), strict=True):
        position = by_group[begin:end]
        begin = end
        first_card = int(np.searchsorted(group_of_card, number))
        end_card = int(np.searchsorted(group_of_card, number, side="right"))
        here = lengths[first_card:end_card]
        steps = np.arange(here[0])
        still = np.searchsorted(-here, -steps, side="left")  # cards longer than the step
        before = np.cumsum(still) - still
        place = np.concatenate(
            [cards[order[first_card : first_card + n]] + step for step, n in enumerate(still)]
        )
        item = before[length[position] - 1] + rank[card[position]] - first_card
        yield _Group(
            x=torch.from_numpy(x[place]).to(device),
            previous=torch.from_numpy(previous_rows(still)).to(device),
            still=still.tolist(),
            item=torch.from_numpy(item).to(device),
            delta_t=torch.from_numpy(_days(trials, rows[position])).to(device),
            position=position,
        )


def _at_once(context: Context) -> int:
    return _ON_A_GPU_AT_ONCE if context.device.startswith("cuda") else _REVIEWS_AT_ONCE


def learning_rate(done: int, passes: int = 20) -> float:
    """Of the pass after `done` others: straight up to the middle one, then straight down."""
    begin, middle, end = _RATES
    warm_up = _WARM_UP * passes
    if done < warm_up:
        return begin + (middle - begin) * done / warm_up
    return middle + (end - middle) * (done - warm_up) / (passes - warm_up)


def tune(
    weights: Weights, trials: Trials, train: IntArray, context: Context, at_once: int
) -> Weights:
    """The weights fitted to the positions `train`, in order of review."""
    import torch
    from torch.nn.functional import binary_cross_entropy

    if trials.protocol.secs:
        train = train[trials.elapsed_days[train] > 0]
    if not len(train):
        raise NotEnoughData("no reviews of later days to train on")
    weight_of = np.zeros(len(trials), np.float32)
    weight_of[train] = recency(len(train), *_RECENCY)
    rows = shuffled_rows(trials, train, context)
    x = _inputs(trials, weights.mean, weights.deviation)
    size, passes = _BATCH.integer(context), _PASSES.integer(context)
    pull, faster = _PULL.number(context), _RATE.number(context) / _RATES[1]
    with on_device(context) as device:
        network = _network(weights, device).train()
        parameters = list(network.parameters())
        start = [parameter.detach().clone() for parameter in parameters]
        batches = []
        for first in range(0, len(rows), size):
            batch = rows[first : first + size]
            made = []
            for group in groups(trials, batch, x, device, at_once):
                here = batch[group.position]
                y = torch.from_numpy(trials.y[here].astype(np.float32)).to(device)
                made.append((group, y, torch.from_numpy(weight_of[here]).to(device)))
            batches.append((made, len(batch) ** (_BATCH_EXPONENT - 1)))
        optimizer = torch.optim.AdamW(
            parameters, lr=_RATES[0], betas=(0.0, 0.999), weight_decay=_DECAY.number(context)
        )
        steps = passes * sum(len(made) for made, _ in batches)
        done = 0
        for number in range(passes):
            for settings in optimizer.param_groups:
                settings["lr"] = faster * learning_rate(number, passes)
            for made, scale in batches:
                optimizer.zero_grad()
                for group, y, weight in made:
                    p = network(group)
                    loss = binary_cross_entropy(p, y, weight=weight, reduction="sum")
                    (scale * loss).backward()
                    done += 1
                    context.tick(done / steps)
                for parameter, origin in zip(parameters, start, strict=True):
                    parameter.grad += 2 * pull * (parameter.detach() - origin)
                torch.nn.utils.clip_grad_norm_(parameters, _LONGEST_GRADIENT)
                optimizer.step()
        tensors = {name: tensor.cpu().numpy() for name, tensor in network.state_dict().items()}
    require_finite(*tensors.values())
    return replace(weights, tensors=tensors)


def recall(weights: Weights, trials: Trials, rows: IntArray, context: Context) -> FloatArray:
    """Probability of recall at the positions `rows` (same shape)."""
    import torch

    result = np.empty(len(rows))
    if not len(rows):
        return result
    x = _inputs(trials, weights.mean, weights.deviation)
    with on_device(context) as device, torch.no_grad():
        network = _network(weights, device).eval()
        for group in groups(trials, rows, x, device, _at_once(context)):
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
) -> Weights:
    return tune(_start(fixed, context), trials, train, context, _at_once(context))


def _predict(
    trials: Trials, parameters: Any, index: IntArray, context: Context, *, fixed: bool = False
) -> FloatArray:
    """`parameters` empty: the pretrained ones."""
    weights = parameters if isinstance(parameters, Weights) else _start(fixed, context)
    return recall(weights, trials, index, context)


# It has recency weights of its own and, with `secs`, trains on later days only anyway.
_FLAGS = ANY_FLAG - {"recency", "no_train_same_day"}

_STANDARD = "LSTM-short-secs-equalize_test_with_non_secs"
_LSTM = Model(
    name="LSTM",
    family="neural",
    inputs="FIL, G, SR, AT",
    parameters=8869,
    source="srs-benchmark branch lstm (2025), other.py class LSTM and reptile_trainer.py",
    note="As published: the answer time is normalised with the interval's mean and "
    "deviation, by mistake; LSTM-fixed mends it.",
    seconds_per_10k=3.5,
    seconds_besides=1.7,
    standard=_STANDARD,
    # Upstream of 2026 has an LSTM without answer times, too; -duration names this one.
    aliases={"LSTM-short-secs-duration-equalize_test_with_non_secs": _STANDARD},
    compiles="never",
    needs="torch",
    uses_device=True,
    fit=_fit,
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
        standard="LSTM-fixed-short-secs-equalize_test_with_non_secs",
        aliases={},
        fit=partial(_fit, fixed=True),
        predict=partial(_predict, fixed=True),
    ),
)
