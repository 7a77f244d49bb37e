"""Pretrain the networks on simulated learners: `python -m tools.pretraining`.

Simulates learners (`population.py`), trains each network on all of them at once, and
writes its weights. After every epoch the log loss on other simulated learners is computed; the
weights with the least are kept, and training ends when it has not fallen for a while.
LSTM is then trained further in the way it is used, for a start that tuning profits from most (Finn,
Abbeel and Levine, Model-Agnostic Meta-Learning, 2017, to first order).

The same arguments give the same weights on the same machine (CPU); docs/pretraining.md says
more. srs-benchmark's pretrain.py and reptile_trainer.py show how upstream made its weights.
"""

from __future__ import annotations

import argparse
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.data.errors import InputError
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.data.trials import Trials, prepare_trials
from srs_eval.engine.workers import WorkerPool
from srs_eval.models import gru, gru_503, lstm, nn17, transformer
from srs_eval.training import networks, torch_networks
from srs_eval.training.hyperparameters import Context
from srs_eval.training.networks import Tensors
from srs_eval.training.packing import pack
from tools.pretraining import population

log = logging.getLogger(__name__)

DAYS = Protocol()
SHORT = Protocol(short=True)
SECS = Protocol(secs=True)
EVERYTHING = Protocol(short=True, secs=True, equalize_test_with_non_secs=True)  # LSTM's protocol
BATCH = 2_048  # reviews, approximately
PATIENCE = 8  # epochs without a new best


@dataclass(frozen=True)
class Settings:
    """Settings of a pretraining run: everything that the weights depend on."""

    learners: int = 240
    validation: int = 20  # additional learners, who choose the best epoch
    seed: int = 1
    epochs: int | None = None  # at most; None: each network's own
    device: str = "cpu"  # of the networks on torch


@dataclass(frozen=True)
class Recipe:
    """A network's training data and method."""

    protocol: Protocol
    course: Callable[[Recipe, Trials, Trials, Settings, int], Course]
    network: gru.GruNetwork | None = None
    epochs: int = 32
    rate: float = 0.04
    starts: int = 1  # random initializations, of which the best is kept
    files: tuple[str, ...] = ()  # if not named like the network


@dataclass(frozen=True)
class Course:
    """One network in training; the functions share a state."""

    epoch: Callable[[int], None]
    log_loss: Callable[[], float]  # on the validation learners
    tensors: Callable[[], Tensors]


@dataclass(frozen=True)
class Pretrained:
    tensors: Tensors
    log_loss: float  # on the validation learners, without tuning
    epochs: int
    tuned_log_loss: float | None = None  # LSTM: see `compute_tuned_loss`


# Learners


def simulate_logs(seed: int, numbers: Sequence[int], jobs: int = 1) -> list[ReviewLog]:
    """Simulate the population's learners with these numbers, in order, in `jobs` processes."""
    if jobs <= 1:
        return [_simulate_log(seed, number) for number in numbers]
    with WorkerPool(jobs) as pool:
        return list(pool.map(_simulate_log, [seed] * len(numbers), numbers))


def _simulate_log(seed: int, number: int) -> ReviewLog:
    return population.population_learner(seed, number).log()


def pool_trials(logs: Iterable[ReviewLog], protocol: Protocol) -> Trials:
    """Join the trials of all learners in sequence, without folds; cards stay separate."""
    return pool([prepare_trials(log, select_rows(log).rows, protocol) for log in logs])


def pool(several: Sequence[Trials]) -> Trials:
    """Join several learners' trials as if they were one learner's; no folds."""
    rows = np.cumsum([0, *(len(trials.history_rating) for trials in several)])
    cards = 0
    shifted = []
    for trials, first_row in zip(several, rows.tolist(), strict=False):
        card_ids, numbers = np.unique(trials.history_card_id, return_inverse=True)
        shifted.append(
            replace(
                trials,
                card_id=np.searchsorted(card_ids, trials.card_id) + cards,
                history_card_id=numbers + cards,
                history_start=trials.history_start + first_row,
                history_end=trials.history_end + first_row,
            )
        )
        cards += len(card_ids)
    columns: dict[str, Any] = {}
    for column in fields(Trials):
        if column.name not in ("folds", "protocol", "log", "rows", "_derived"):
            values = [getattr(trials, column.name) for trials in shifted]
            columns[column.name] = np.concatenate(values)
    return Trials(**columns, folds=(), protocol=several[0].protocol)


def make_card_batches(
    trials: Trials, rows: IntArray, size: int, random: np.random.Generator
) -> list[IntArray]:
    """Split the positions `rows` into batches of about `size`, cards whole and in random order.

    Cards are whole because their histories are prefixes of each other; the order is random so that
    each batch resembles all.
    """
    card = trials.card_id[rows]
    card_order = random.permutation(int(card.max()) + 1)[card]
    order = np.argsort(card_order, kind="stable")
    count = max(1, round(len(rows) / size))
    cuts = [k * len(rows) // count for k in range(1, count)]
    # Never within a card.
    cuts = [int(np.searchsorted(card_order[order], card_order[order][cut])) for cut in cuts]
    return [batch for batch in np.split(rows[order], cuts) if len(batch)]


def _select_training_rows(trials: Trials) -> IntArray:
    """Return the reviews of later days with a history that is not too long."""
    short = trials.sequence_length <= trials.protocol.max_seq_len
    return np.flatnonzero(short & (trials.elapsed_days > 0))


def _compute_loss(y: FloatArray, p: FloatArray) -> float:
    p = np.clip(p, 1e-7, 1 - 1e-7)
    return -float(np.mean(np.where(y == 1, np.log(p), np.log(1 - p))))


# Training


def pretrain(name: str, train: Trials, validation: Trials, settings: Settings) -> Pretrained:
    """Train the network `name` on `train` and return its weights.

    Raises InputError for a name that is not in `RECIPES`, and ArithmeticError if no start led
    anywhere.
    """
    if name not in RECIPES:
        raise InputError(f"No network {name!r} to pretrain; there are {', '.join(RECIPES)}.")
    recipe = RECIPES[name]
    epochs = settings.epochs or recipe.epochs
    best: Pretrained | None = None
    for start in range(recipe.starts):
        course = recipe.course(recipe, train, validation, settings, start)
        for epoch in range(epochs):
            began = time.perf_counter()
            course.epoch(epoch)
            loss = course.log_loss()
            better = math.isfinite(loss) and (best is None or loss < best.log_loss)
            if better:
                best = Pretrained(course.tensors(), loss, epoch + 1)
                since = epoch
            elif epoch == 0:
                since = epoch
            title = f"{name} start {start + 1}" if recipe.starts > 1 else name
            mark = " *" if better else ""
            seconds = time.perf_counter() - began
            log.info(
                f"{title} epoch {epoch + 1}/{epochs}: log loss {loss:.4f}{mark} ({seconds:.1f} s)"
            )
            if not math.isfinite(loss) or epoch - since >= PATIENCE:
                break
    if best is None:
        raise ArithmeticError(f"{name}: training diverged")
    return best


def _set_up_recurrent(
    recipe: Recipe, train: Trials, validation: Trials, settings: Settings, start: int
) -> Course:
    """Set up GRU, plain and LSTM cells of one layer, in the kernels of `cells`."""
    from srs_eval.training.cells import AdamWState, network_pass
    from srs_eval.training.compile import compile_kernel
    from srs_eval.training.trie import cut_batches

    network = recipe.network
    assert network is not None
    random = np.random.default_rng([settings.seed, start])
    batch_rows = make_card_batches(train, _select_training_rows(train), BATCH, random)
    batches = cut_batches(network._build_trie(train), train, batch_rows)
    x = network._compute_inputs(batches)
    w = network.random_start(Context(user=1_000 * settings.seed + start))
    adam = AdamWState(
        mean=np.zeros(len(w)),
        square=np.zeros(len(w)),
        rate=recipe.rate,
        decay=1e-4,
        steps=len(batch_rows) * (settings.epochs or recipe.epochs),
    )
    scratch = network._make_scratch(batches)
    evaluated = _select_training_rows(validation)

    def epoch(number: int) -> None:
        visits = random.permutation(len(batch_rows))
        shape = network._cell_shape()
        compile_kernel(network_pass)(
            shape, visits, number * len(batch_rows), w, batches, x, adam, scratch
        )

    def log_loss() -> float:
        if not np.isfinite(w).all():
            return math.inf
        p = network.predict(validation, w, evaluated, Context())
        return _compute_loss(validation.y[evaluated], p)

    return Course(epoch, log_loss, lambda: _split_tensors(w, network.shapes))


def _set_up_nn17(
    recipe: Recipe, train: Trials, validation: Trials, settings: Settings, start: int
) -> Course:
    from srs_eval.training import recurrent
    from srs_eval.training.trie import cut_batches, history_trie

    model = nn17._recurrent_for(train)
    random = np.random.default_rng([settings.seed, start])
    batch_rows = make_card_batches(train, _select_training_rows(train), BATCH, random)
    batches = cut_batches(history_trie(train, same_day=False), train, batch_rows)
    # torch's initialization: within 1/sqrt(inputs).
    w = np.array([*model.default, *model.constants])
    start_of_tensor = 11
    for name, shape in list(nn17.SHAPES.items())[3:]:
        size = math.prod(shape)
        inputs = nn17.SHAPES[name.replace("bias", "weight")][1]
        w[start_of_tensor : start_of_tensor + size] = random.uniform(-1, 1, size) / math.sqrt(
            inputs
        )
        start_of_tensor += size
    p = len(model.default)
    descent = recurrent._new_adam_state(
        w[:p].copy(),
        np.array([len(batch) for batch in batch_rows]) / sum(len(batch) for batch in batch_rows),
        rate=recipe.rate,
        steps=len(batch_rows) * (settings.epochs or recipe.epochs),
    )._replace(lower=np.array(model.lower, np.float64), upper=np.array(model.upper, np.float64))
    scratch = recurrent._make_scratch(model, (batches,))
    evaluated = _select_training_rows(validation)

    def epoch(number: int) -> None:
        visits = random.permutation(len(batch_rows))
        tables = pack(batches), pack(descent), pack(scratch)
        recurrent._kernel_of_model(model)(visits, number * len(batch_rows), w, *tables)

    def log_loss() -> float:
        if not np.isfinite(w).all():
            return math.inf
        predicted = recurrent.predict_recurrent(model, validation, w[:p].tolist(), evaluated)
        return _compute_loss(validation.y[evaluated], predicted)

    return Course(epoch, log_loss, lambda: _split_tensors(w[:p], nn17.SHAPES))


def _split_tensors(w: FloatArray, shapes: networks.Shapes) -> Tensors:
    """Split the vector of parameters into tensors (copies)."""
    tensors = {}
    start = 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        tensors[name] = w[start : start + size].reshape(shape).astype(np.float32)
        start += size
    return tensors


def _set_up_transformer(
    recipe: Recipe, train: Trials, validation: Trials, settings: Settings, start: int
) -> Course:
    """Set up a transformer.

    Its batches are sorted by length, as in tuning, or mix all lengths, as in prediction.
    """
    import torch
    from torch.nn.functional import binary_cross_entropy

    device = torch_networks._resolve_device(Context(device=settings.device))
    random = np.random.default_rng([settings.seed, start])
    torch.manual_seed(1_000 * settings.seed + start)
    network = transformer.network_class()().to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=1e-4)
    rows = _select_training_rows(train)
    per_epoch = min(len(rows), 60_000)
    size = 512
    count = -(-per_epoch // size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, T_max=count * (settings.epochs or recipe.epochs)
    )
    evaluated = _select_training_rows(validation)
    evaluated = evaluated[:: -(-len(evaluated) // 30_000)]

    def epoch(number: int) -> None:
        chosen = random.choice(rows, per_epoch, replace=False)
        mixed = len(chosen) // 6
        by_length = chosen[mixed:][np.argsort(train.sequence_length[chosen[mixed:]], kind="stable")]
        ordered = np.concatenate([chosen[:mixed], by_length])
        batches = [ordered[k : k + size] for k in range(0, per_epoch, size)]
        network.train()
        for k in random.permutation(len(batches)):
            batch = batches[k]
            arrays = (
                transformer.pad_histories(train, batch),
                train.delta_t[batch],
                train.y[batch],
            )
            histories, delta_t, y = (torch.from_numpy(array).float().to(device) for array in arrays)
            optimizer.zero_grad()
            binary_cross_entropy(network(histories, delta_t), y).backward()
            optimizer.step()
            schedule.step()

    def tensors() -> Tensors:
        return {name: tensor.cpu().numpy().copy() for name, tensor in network.state_dict().items()}

    def log_loss() -> float:
        p = transformer.predict(validation, networks.flatten(tensors()), evaluated, Context())
        return _compute_loss(validation.y[evaluated], p) if np.isfinite(p).all() else math.inf

    return Course(epoch, log_loss, tensors)


# LSTM

META_RATE = 5e-4
TASKS = 4  # per learner and round
TASKS_AT_ONCE = 6  # per step
LONGEST_TASK = 2_500  # reviews to tune on
EVALUATED_AFTER_TUNING = 8  # validation learners
# The same for GRU-503.
MIXTURE_TASKS = 8
MIXTURE_META_RATE = 2e-3


def _set_up_lstm(
    recipe: Recipe, train: Trials, validation: Trials, settings: Settings, start: int
) -> Course:
    """Set up joint training of LSTM; `meta_train` continues from there."""
    import torch
    from torch.nn.functional import binary_cross_entropy

    device = torch_networks._resolve_device(Context(device=settings.device))
    random = np.random.default_rng([settings.seed, start])
    torch.manual_seed(1_000 * settings.seed + start)
    mean, deviation = compute_input_normalisation(train)
    network = lstm.network_class()().to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=0.03)
    x = lstm._compute_inputs(train, mean, deviation)
    rows = _select_training_rows(train)
    batch_rows = make_card_batches(train, rows, 2 * BATCH, random)
    groups: list[tuple[Any, Any]] = []
    for batch in batch_rows:
        for group in lstm.group_cards(train, batch, x, device, 1 << 30):
            y = train.y[batch[group.position]].astype(np.float32)
            groups.append((group, torch.from_numpy(y).to(device)))
    steps = len(groups) * (settings.epochs or recipe.epochs)
    warm_up = min(200, 1 + steps // 4)
    done = 0
    evaluated = _select_training_rows(validation)

    def epoch(number: int) -> None:
        nonlocal done
        network.train()
        for k in random.permutation(len(groups)):
            group, y = groups[k]
            rate = (1 + math.cos(math.pi * done / steps)) / 2 * min(1.0, (done + 1) / warm_up)
            for parameter_group in optimizer.param_groups:
                parameter_group["lr"] = recipe.rate * rate
            optimizer.zero_grad()
            p = network(group)
            binary_cross_entropy(p, y).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            done += 1

    def weights() -> lstm.LstmWeights:
        state = network.state_dict()
        tensors = {name: tensor.cpu().numpy().copy() for name, tensor in state.items()}
        return lstm.LstmWeights(tensors, mean, deviation)

    def log_loss() -> float:
        p = lstm.predict_recall(weights(), validation, evaluated, Context(device=settings.device))
        return _compute_loss(validation.y[evaluated], p) if np.isfinite(p).all() else math.inf

    return Course(epoch, log_loss, lambda: export_lstm(weights()))


def compute_input_normalisation(trials: Trials) -> tuple[Any, Any]:
    """Compute mean and deviation (2,) of LSTM's ln delay and ln answer time over history rows."""
    zero = np.zeros(2, np.float32)
    unit = np.ones(2, np.float32)
    raw = lstm._compute_inputs(trials, zero, unit)[:, :2].astype(np.float64)
    return raw.mean(axis=0).astype(np.float32), raw.std(axis=0).astype(np.float32)


def export_lstm(weights: lstm.LstmWeights) -> Tensors:
    """Return the weights under the names of the weight file."""
    return {**weights.tensors, "input_mean": weights.mean, "input_std": weights.deviation}


def import_lstm(tensors: Tensors) -> lstm.LstmWeights:
    """Invert `export_lstm`."""
    named = {name: tensors[name] for name in lstm._tensor_shapes()}
    return lstm.LstmWeights(named, tensors["input_mean"], tensors["input_std"])


def merge_normalisations(tensors: Tensors) -> Tensors:
    """Rescale the first layer so that both inputs are normalised as the delay is; same function.

    `LSTM` normalises them this way.
    """
    mean = tensors["input_mean"]
    deviation = tensors["input_std"]
    first = tensors["process.0.weight"].copy()
    bias = tensors["process.0.bias"] + first[:, 1] * (mean[0] - mean[1]) / deviation[1]
    first[:, 1] *= deviation[0] / deviation[1]
    return {
        **tensors,
        "process.0.weight": first,
        "process.0.bias": bias,
        "input_mean": mean[[0, 0]],
        "input_std": deviation[[0, 0]],
    }


def meta_train(
    pretrained: Pretrained,
    learners: Sequence[Trials],
    validation: Sequence[Trials],
    settings: Settings,
    rounds: int,
) -> Pretrained:
    """Improve LSTM's weights as a start for tuning; the old ones are kept if nothing is better.

    A task is a learner's reviews up to some time, few or many: the network is tuned on them as
    in use, and the gradient of its log loss on the reviews that follow, taken at the tuned
    weights, moves the weights that tuning began from. The result is the mean (`average_weights`) of
    the old weights and the best new ones.
    """
    import torch

    context = Context(device=settings.device)
    random = np.random.default_rng([settings.seed, 99])
    weights = import_lstm(pretrained.tensors)
    evaluated = validation[:EVALUATED_AFTER_TUNING]
    joint = best = weights
    before = least = compute_tuned_loss(weights, evaluated, context)
    log.info("LSTM after tuning: log loss %.4f", least)
    meta = {
        name: torch.nn.Parameter(torch.from_numpy(tensor.copy()))
        for name, tensor in weights.tensors.items()
    }
    optimizer = torch.optim.AdamW(meta.values(), lr=META_RATE, weight_decay=0.0)
    steps = -(-rounds * TASKS * len(learners) // TASKS_AT_ONCE)
    done = 0
    for number in range(rounds):
        began = time.perf_counter()
        tasks = random.permutation(np.repeat(np.arange(len(learners)), TASKS))
        for first in range(0, len(tasks), TASKS_AT_ONCE):
            tensors = {name: parameter.detach().numpy() for name, parameter in meta.items()}
            weights = replace(weights, tensors=tensors)
            gradients = {name: torch.zeros_like(parameter) for name, parameter in meta.items()}
            step_tasks = tasks[first : first + TASKS_AT_ONCE].tolist()
            for k in step_tasks:
                task_gradients = _compute_task_gradient(weights, learners[k], random, context)
                for name, gradient in task_gradients.items():
                    gradients[name] += gradient / len(step_tasks)
            for name, parameter in meta.items():
                parameter.grad = gradients[name]
            torch.nn.utils.clip_grad_norm_(meta.values(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = META_RATE * (1 + math.cos(math.pi * done / steps)) / 2
            optimizer.step()
            done += 1
            if done % 20 == 0:
                log.info("LSTM step %d/%d", done, steps)
        tensors = {name: parameter.detach().numpy().copy() for name, parameter in meta.items()}
        weights = replace(weights, tensors=tensors)
        loss = compute_tuned_loss(weights, evaluated, context)
        log.info(
            "LSTM round %d/%d: log loss after tuning %.4f%s (%.0f s)",
            number + 1,
            rounds,
            loss,
            " *" if loss < least else "",
            time.perf_counter() - began,
        )
        if loss < least:
            best = weights
            least = loss
    if best is not joint:
        best = replace(joint, tensors=average_weights(joint.tensors, best.tensors))
        least = compute_tuned_loss(best, evaluated, context)
        log.info("LSTM halfway: log loss after tuning %.4f", least)
        if least > before:
            best = joint
            least = before
    pooled = pool(validation)
    rows = _select_training_rows(pooled)
    untuned = _compute_loss(pooled.y[rows], lstm.predict_recall(best, pooled, rows, context))
    return replace(pretrained, tensors=export_lstm(best), log_loss=untuned, tuned_log_loss=least)


def average_weights(before: Tensors, after: Tensors) -> Tensors:
    """Average two sets of weights of which one was the start of the other.

    Meta-learning improves weights on simulated learners, and part of the gain holds for them alone;
    the mean does better on others (Wortsman and others, Robust fine-tuning of zero-shot models,
    2022).
    """
    return {name: np.float32(0.5) * (before[name] + after[name]) for name in before}


def _compute_task_gradient(
    weights: lstm.LstmWeights, trials: Trials, random: np.random.Generator, context: Context
) -> dict[str, Any]:
    """Tune on a random stretch of reviews; return the log loss's gradient on those that follow."""
    import torch
    from torch.nn.functional import binary_cross_entropy

    later = np.flatnonzero(trials.elapsed_days > 0)
    most = max(5, min(LONGEST_TASK, len(later) // 2))
    cut = int(math.exp(random.uniform(math.log(5), math.log(most))))
    begin = int(random.integers(0, len(later) - 2 * cut + 1))
    train = later[begin : begin + cut]
    rows = later[begin + cut : begin + cut + max(cut, 300)]
    tuned = lstm.fine_tune(weights, trials, train, context)
    device = torch_networks._resolve_device(context)
    network = lstm._build_network(tuned, device)
    x = lstm._compute_inputs(trials, weights.mean, weights.deviation)
    for group in lstm.group_cards(trials, rows, x, device, lstm._REVIEWS_AT_ONCE):
        y = torch.from_numpy(trials.y[rows[group.position]].astype(np.float32)).to(device)
        p = network(group)
        (binary_cross_entropy(p, y, reduction="sum") / len(rows)).backward()
    return {name: parameter.grad.cpu() for name, parameter in network.named_parameters()}


def compute_tuned_loss(
    weights: lstm.LstmWeights, learners: Sequence[Trials], context: Context
) -> float:
    """Return mean log loss on what follows after tuning on little, some and most of a learner."""
    losses = []
    for trials in learners:
        later = np.flatnonzero(trials.elapsed_days > 0)
        most = 2 * len(later) // 3
        for cut in (min(15, most), min(300, most), most):
            tuned = lstm.fine_tune(weights, trials, later[:cut], context)
            rows = later[cut : cut + 2_000]
            losses.append(
                _compute_loss(trials.y[rows], lstm.predict_recall(tuned, trials, rows, context))
            )
    return float(np.mean(losses))


# GRU-503

TUNED = 0.1  # share by which the shipped state of AdamW moves towards the last task's


def _set_up_mixture(
    recipe: Recipe, train: Trials, validation: Trials, settings: Settings, start: int
) -> Course:
    """Set up joint training of GRU-503; `meta_train_mixture` continues from there."""
    from srs_eval.training.compile import compile_kernel
    from srs_eval.training.mixture import MixtureDescent, mixture_pass
    from srs_eval.training.trie import cut_batches, history_trie

    random = np.random.default_rng([settings.seed, start])
    rows = _select_short_rows(train)
    batch_rows = make_card_batches(train, rows, BATCH, random)
    batches = cut_batches(history_trie(train, same_day=False), train, batch_rows)
    waited = np.log(1e-5 + train.history_delta_t)
    weights = gru_503.Gru503Weights(
        _draw_mixture(random), float(waited.mean()), float(waited.std())
    )
    w = weights.values
    delay = gru_503._normalise_delay(batches, weights)
    scales = np.array([1.0 / len(batch) for batch in batch_rows])
    scratch = gru_503._make_scratch(batches)
    descent = MixtureDescent(
        mean=np.zeros(len(w)),
        square=np.zeros(len(w)),
        start=np.zeros(len(w)),
        pull=0.0,
        longest=1.0,
        beta_mean=0.9,
        beta_square=0.999,
        decay=0.01,
        steps=0,
    )
    steps = len(batch_rows) * (settings.epochs or recipe.epochs)
    warm_up = min(200, 1 + steps // 4)
    evaluated = _select_training_rows(validation)

    def epoch(number: int) -> None:
        visits = random.permutation(len(batch_rows))
        done = number * len(batch_rows) + np.arange(len(batch_rows))
        rates = recipe.rate * (1 + np.cos(np.pi * done / steps)) / 2
        rates *= np.minimum(1.0, (done + 1) / warm_up)
        epoch_descent = descent._replace(steps=number * len(batch_rows))
        compile_kernel(mixture_pass)(
            visits, rates, w, batches, delay, scales, epoch_descent, scratch
        )

    def log_loss() -> float:
        if not np.isfinite(w).all():
            return math.inf
        return _compute_loss(
            validation.y[evaluated], gru_503.predict_recall(weights, validation, evaluated)
        )

    def tensors() -> Tensors:
        return export_mixture(replace(weights, values=w.copy()))

    return Course(epoch, log_loss, tensors)


def _select_short_rows(trials: Trials) -> IntArray:
    """Return the reviews with a history that is not too long."""
    return np.flatnonzero(trials.sequence_length <= trials.protocol.max_seq_len)


def _draw_mixture(random: np.random.Generator) -> FloatArray:
    """Draw parameters: within 1/sqrt(inputs), as torch does; norms 1; the GRU orthogonal."""
    values = []
    inputs = 1
    for name, shape in gru_503.SHAPES.items():
        if "weight_ih" in name or "weight_hh" in name:
            inputs = shape[1]
            tensor, _ = np.linalg.qr(random.normal(size=shape))
        elif name in ("process.2.weight", "process.4.weight", "process.7.weight"):
            tensor = np.ones(shape)
        else:
            inputs = shape[1] if len(shape) == 2 else inputs
            tensor = random.uniform(-1, 1, shape) / math.sqrt(inputs)
        values.append(tensor.ravel())
    return np.concatenate(values)


def export_mixture(weights: gru_503.Gru503Weights) -> Tensors:
    """Return the weights under the names of the weight file, with AdamW's state if there is one."""
    tensors = dict(_split_tensors(weights.values, gru_503.SHAPES))
    tensors["input_mean"] = np.array([weights.mean], np.float32)
    tensors["input_std"] = np.array([weights.deviation], np.float32)
    if weights.adam_mean is not None and weights.adam_square is not None:
        tensors["adam_mean"] = weights.adam_mean.astype(np.float32)
        tensors["adam_square"] = weights.adam_square.astype(np.float32)
        tensors["adam_steps"] = np.array([weights.adam_steps], np.float32)
    return tensors


def import_mixture(tensors: Tensors) -> gru_503.Gru503Weights:
    """Invert `export_mixture`, without AdamW's state."""
    values = networks.flatten({name: tensors[name] for name in gru_503.SHAPES})
    mean = float(tensors["input_mean"][0])
    deviation = float(tensors["input_std"][0])
    return gru_503.Gru503Weights(values, mean, deviation)


def meta_train_mixture(
    pretrained: Pretrained,
    learners: Sequence[Trials],
    validation: Sequence[Trials],
    settings: Settings,
    rounds: int,
) -> Pretrained:
    """Improve GRU-503's weights as a start for tuning; the best ones are kept.

    This works like `meta_train`; AdamW's state after tuning carries over from task to task.
    """
    random = np.random.default_rng([settings.seed, 98])
    best = weights = import_mixture(pretrained.tensors)
    evaluated = validation[: 2 * EVALUATED_AFTER_TUNING]
    least = compute_tuned_mixture_loss(weights, evaluated)
    log.info("GRU-503 after tuning: log loss %.4f", least)
    count = rounds * MIXTURE_TASKS * len(learners)
    mean = np.zeros(len(weights.values))
    square = np.zeros(len(weights.values))
    done = 0
    for number in range(rounds):
        tasks = random.permutation(np.repeat(np.arange(len(learners)), MIXTURE_TASKS))
        for first in range(0, len(tasks), TASKS_AT_ONCE):
            step_tasks = tasks[first : first + TASKS_AT_ONCE].tolist()
            gradients = []
            tuned = weights
            for k in step_tasks:
                tuned, gradient = _compute_mixture_task(weights, learners[k], random)
                gradients.append(gradient)
            gradient = np.mean(gradients, axis=0)
            gradient /= max(1.0, float(np.linalg.norm(gradient)))
            done += 1
            rate = MIXTURE_META_RATE * (1 + math.cos(math.pi * done * TASKS_AT_ONCE / count)) / 2
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.99 * square + 0.01 * np.square(gradient)
            step = mean / (1 - 0.9**done) / (np.sqrt(square / (1 - 0.99**done)) + 1e-8)
            weights = _merge_optimiser_state(weights, tuned, weights.values - rate * step)
        loss = compute_tuned_mixture_loss(weights, evaluated)
        log.info(
            "GRU-503 round %d/%d: log loss after tuning %.4f%s",
            number + 1,
            rounds,
            loss,
            " *" if loss < least else "",
        )
        if loss < least:
            best = weights
            least = loss
    pooled = pool(validation)
    rows = _select_training_rows(pooled)
    untuned = _compute_loss(pooled.y[rows], gru_503.predict_recall(best, pooled, rows))
    return replace(pretrained, tensors=export_mixture(best), log_loss=untuned, tuned_log_loss=least)


def _merge_optimiser_state(
    weights: gru_503.Gru503Weights, tuned: gru_503.Gru503Weights, values: FloatArray
) -> gru_503.Gru503Weights:
    """Return new values, with AdamW's state moved a little towards that of a tuned network."""
    assert tuned.adam_mean is not None
    assert tuned.adam_square is not None
    if weights.adam_mean is None or weights.adam_square is None:
        return replace(tuned, values=values)
    return replace(
        tuned,
        values=values,
        adam_mean=weights.adam_mean + TUNED * (tuned.adam_mean - weights.adam_mean),
        adam_square=weights.adam_square + TUNED * (tuned.adam_square - weights.adam_square),
    )


def _compute_mixture_task(
    weights: gru_503.Gru503Weights, trials: Trials, random: np.random.Generator
) -> tuple[gru_503.Gru503Weights, FloatArray]:
    """Tune on a random stretch; return the weights and the log loss's gradient on what follows."""
    most = max(5, min(LONGEST_TASK, len(trials) // 2))
    cut = int(math.exp(random.uniform(math.log(5), math.log(most))))
    usable = trials.sequence_length <= trials.protocol.max_seq_len
    begin = int(random.integers(0, len(trials) - 2 * cut + 1))
    while not usable[begin : begin + cut].any():  # nothing to tune on
        begin = int(random.integers(0, len(trials) - 2 * cut + 1))
    tuned = gru_503.fine_tune(weights, trials, np.arange(begin, begin + cut), Context())
    rows = np.arange(begin + cut, min(len(trials), begin + cut + max(cut, 300)))
    rows = rows[trials.elapsed_days[rows] > 0]
    if not len(rows):
        return tuned, np.zeros(len(weights.values))
    return tuned, compute_gradient(tuned, trials, rows) / len(rows)


def write_weights(path: Path, tensors: Tensors, metadata: Mapping[str, str]) -> None:
    """Write a weight file with this metadata, see `networks`."""
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in tensors.items()}
    save_file(arrays, path, metadata=dict(metadata))


def compute_gradient(weights: gru_503.Gru503Weights, trials: Trials, index: IntArray) -> FloatArray:
    """Return the gradient (503,) of the log loss, summed over the positions `index`."""
    nowhere = gru_503._TrainingSchedule(
        np.array([1e-300]), decay=0.0, pull=0.0, max_gradient_norm=np.inf, exponent=1.0
    )
    still = replace(weights, adam_mean=None, adam_square=None, adam_steps=0)
    trained = gru_503._train(still, trials, [index], np.ones(len(trials)), Context(), nowhere)
    assert trained.adam_mean is not None
    return trained.adam_mean / (1.0 - gru_503._BETAS[0])


def compute_tuned_mixture_loss(weights: gru_503.Gru503Weights, learners: Sequence[Trials]) -> float:
    """Return mean log loss on what follows after tuning on little, some and most of a learner."""
    losses = []
    for trials in learners:
        most = 2 * len(trials) // 3
        for cut in (min(15, most), min(300, most), min(1_500, most), most):
            tuned = gru_503.fine_tune(weights, trials, np.arange(cut), Context())
            rows = np.arange(cut, min(len(trials), cut + 2_000))
            rows = rows[trials.elapsed_days[rows] > 0]
            if len(rows):
                losses.append(
                    _compute_loss(trials.y[rows], gru_503.predict_recall(tuned, trials, rows))
                )
    return float(np.mean(losses))


RECIPES: dict[str, Recipe] = {
    "GRU": Recipe(DAYS, _set_up_recurrent, gru.GRU, starts=6),
    "RNN": Recipe(DAYS, _set_up_recurrent, gru.RNN, starts=6),
    "GRU-secs": Recipe(SECS, _set_up_recurrent, gru.GRU, starts=3),
    "GRU-P": Recipe(DAYS, _set_up_recurrent, gru._GRU_P, starts=2),
    "GRU-P-short": Recipe(SHORT, _set_up_recurrent, gru._GRU_P),
    "GRU-P-secs": Recipe(SECS, _set_up_recurrent, gru._GRU_P),
    "LSTM-489": Recipe(DAYS, _set_up_recurrent, gru._LSTM_489, rate=0.02),
    "NN-17": Recipe(DAYS, _set_up_nn17, starts=6),
    "NN-17-secs": Recipe(SECS, _set_up_nn17, starts=3),
    "Transformer": Recipe(DAYS, _set_up_transformer, epochs=24, rate=0.02, starts=2),
    "GRU-503": Recipe(EVERYTHING, _set_up_mixture, epochs=40, rate=0.01, starts=2),
    "LSTM": Recipe(EVERYTHING, _set_up_lstm, epochs=10, rate=0.004, files=("LSTM-fixed", "LSTM")),
}
"""Recipes for pretraining by the name of the weight file, the slowest last."""


# Command line


def main(arguments: Sequence[str] | None = None) -> None:
    """Pretrain networks and write their weight files; see `--help`."""
    parser = argparse.ArgumentParser(prog="python -m tools.pretraining", description=__doc__)
    parser.add_argument("--models", default="all", help="names, commas between; all by default")
    parser.add_argument("--learners", type=int, default=240, help="simulated learners")
    parser.add_argument("--validation", type=int, default=20, help="further ones, held out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, help="at most; by default each network's own")
    parser.add_argument("--rounds", type=int, default=2, help="of meta-learning (LSTM)")
    parser.add_argument(
        "--out", type=Path, default=networks.SHIPPED_WEIGHTS, help="folder for weights"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes that simulate")
    parser.add_argument("--threads", type=int, default=1, help="torch's; more are not repeatable")
    parser.add_argument("--device", default="cpu", help="of networks on torch: cpu or cuda")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    names = list(RECIPES) if options.models == "all" else options.models.split(",")
    try:
        settings = Settings(
            options.learners, options.validation, options.seed, options.epochs, options.device
        )
        run(names, settings, options.out, options.jobs, options.rounds, options.threads)
    except InputError as error:
        parser.error(str(error))


def run(
    names: Sequence[str],
    settings: Settings,
    out: Path,
    jobs: int = 1,
    rounds: int = 2,
    threads: int = 1,
) -> list[Path]:
    """Pretrain these networks, write their files to `out` and return the paths.

    Raises InputError for unknown names, numbers below one, or an unavailable device.
    """
    unknown = [name for name in names if name not in RECIPES]
    if unknown:
        raise InputError(f"No network {unknown[0]!r} to pretrain; there are {', '.join(RECIPES)}.")
    if min(settings.learners, settings.validation, settings.epochs or 1) < 1:
        raise InputError("At least one learner, one for validation and one epoch are needed.")
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    count = settings.learners + settings.validation
    logs = simulate_logs(settings.seed, range(count), jobs)
    log.info("%d learners simulated in %.0f s", count, time.perf_counter() - began)
    written = []
    for protocol in dict.fromkeys(RECIPES[name].protocol for name in names):
        all_trials = [
            prepare_trials(history, select_rows(history).rows, protocol) for history in logs
        ]
        train = pool(all_trials[: settings.learners])
        validation = pool(all_trials[settings.learners :])
        reviews = len(_select_training_rows(train))
        for name in names:
            if RECIPES[name].protocol != protocol:
                continue
            began = time.perf_counter()
            with _limit_threads(threads):
                pretrained = pretrain(name, train, validation, settings)
            course = RECIPES[name].course
            if rounds and course in (_set_up_lstm, _set_up_mixture):
                learners = all_trials[: settings.learners]
                validation_learners = all_trials[settings.learners :]
                further = meta_train if course is _set_up_lstm else meta_train_mixture
                pretrained = further(pretrained, learners, validation_learners, settings, rounds)
            for file in RECIPES[name].files or (name,):
                tensors = pretrained.tensors
                if file == "LSTM":
                    tensors = merge_normalisations(tensors)
                path = out / f"{file}.safetensors"
                write_weights(
                    path, tensors, _build_metadata(file, settings, pretrained, reviews, rounds)
                )
                path.chmod(0o644)  # safetensors makes it readable for its owner only
                written.append(path)
                log.info(
                    "%s written, log loss %.4f (%.0f s)",
                    path.name,
                    pretrained.log_loss,
                    time.perf_counter() - began,
                )
    return written


def _limit_threads(count: int) -> Any:
    from contextlib import contextmanager

    @contextmanager
    def limited() -> Any:
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    return limited()


def _build_metadata(
    name: str, settings: Settings, pretrained: Pretrained, reviews: int, rounds: int
) -> dict[str, str]:
    """Build a weight file's metadata: how the weights were made."""
    command = (
        f"python -m tools.pretraining --models {name.replace('-fixed', '')} "
        f"--learners {settings.learners} --validation {settings.validation} --seed {settings.seed}"
    )
    if settings.epochs:
        command += f" --epochs {settings.epochs}"
    if pretrained.tuned_log_loss is not None:
        command += f" --rounds {rounds}"
    metadata = {
        "model": name,
        "made_by": f"srs-eval {VERSION}",
        "command": command,
        "seed": str(settings.seed),
        "users": str(settings.learners),
        "reviews": str(reviews),
        "validation_log_loss": f"{pretrained.log_loss:.6f}",
        "epochs": str(pretrained.epochs),
        "device": settings.device,
    }
    if pretrained.tuned_log_loss is not None:
        metadata["tuned_validation_log_loss"] = f"{pretrained.tuned_log_loss:.6f}"
    return metadata
