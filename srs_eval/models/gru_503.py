"""GRU-503: a gated network that mixes two power forgetting curves.

For each review it sees the interval before it in fractions of a day, same-day reviews included,
as ln(0.00001 + days), normalised, and four indicators of the grade. A linear layer, SiLU and a
layer norm, seven GRU units, and again a layer norm, a linear layer, SiLU and a layer norm give
for each of two curves a weight w, a stability s and an exponent d:

    R(t) = (1 - 1e-7) sum of w (1 + t / (1e-7 + s))^-d        t in days

Fitted from weights pretrained by Reptile (Nichol, Achiam and Schulman 2018) on other learners:
21 passes of AdamW over all reviews, newer ones weighing up to 21 times as much, with a pull back
to the pretrained weights. Where the state in which pretraining left AdamW comes with the weights,
fitting goes on from it. `--recency` changes nothing here.

srs-benchmark has called it GRU since 2026 (commit bd9110f791e5b37282c55a9aa8db35f68f0c4aa2). The
network is in models/gru.py, the training in reptile/reptile_trainer_gru.py `finetune`. Upstream
runs every review's whole history as a sequence of its own in single precision; here histories
share what they have in common (`training.mixture`), in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import ANY_FLAG, Context, Cost, TrainedModel, no_parameters
from srs_eval.training import hyperparameters
from srs_eval.training.elementwise import LANES
from srs_eval.training.networks import (
    ADAM_TENSORS,
    Shapes,
    flatten,
    load_network_weights,
    load_optimiser_state,
    missing_weights_error,
    require_finite,
)
from srs_eval.training.optimisers import (
    compute_relative_recency_weights,
    shuffle_rows,
    spread_over_trials,
)
from srs_eval.training.trie import TrieBatches, cut_batches, history_trie

_PASSES = hyperparameters.epochs(21)
_WARM_UP = 6  # passes until the middle learning rate, if there are 21
_BATCH = hyperparameters.batch_size(8_192)
_BATCH_EXPONENT = 1.1846219825046307  # a batch's loss is its mean times n to this power
_RATES = tuple(
    rate * 16_000 ** (1 - _BATCH_EXPONENT)
    for rate in (0.0006251171233448489, 0.009734172583802481, 0.0023871381889009552)
)
_RATE = hyperparameters.learning_rate(_RATES[1])  # the other two scale with it
_DECAY = hyperparameters.penalty("decay", 0.2975369763258536)
_PULL = hyperparameters.penalty("pull", 1.8715615952497154e-05)  # towards the pretrained weights
_HYPERPARAMETERS = (_RATE, _PASSES, _BATCH, _DECAY, _PULL, hyperparameters.SEED)
_BETAS = (0.1753167630791112, 0.9723760956625273)
_LONGEST_GRADIENT = 167.86289911112  # norm to which longer gradients are shortened
_RECENCY = 20.328475441783525, 2.8843952981152463  # weight and degree

_WEIGHT_FILES = ("GRU-503", "GRU-short-secs-equalize_test_with_non_secs", "GRU-short-secs")
"""Weight files, ours and upstream's; upstream's AdamW state is in NAME_opt_pretrain.pth."""

# Tensors of a weight file, in the order of the parameters.
SHAPES: Shapes = {
    "process.0.weight": (7, 5),
    "process.0.bias": (7,),
    "process.2.weight": (7,),
    "process.3.module.weight_ih_l0": (21, 7),
    "process.3.module.weight_hh_l0": (21, 7),
    "process.3.module.bias_ih_l0": (21,),
    "process.3.module.bias_hh_l0": (21,),
    "process.4.weight": (7,),
    "process.5.weight": (7, 7),
    "process.5.bias": (7,),
    "process.7.weight": (7,),
    "w_fc.weight": (2, 7),
    "w_fc.bias": (2,),
    "s_fc.weight": (2, 7),
    "s_fc.bias": (2,),
    "d_fc.weight": (2, 7),
    "d_fc.bias": (2,),
}


@dataclass(frozen=True, eq=False)
class Gru503Weights:
    """Weights of GRU-503, the scale of its input, and the state of its optimizer."""

    values: FloatArray  # (503,)
    mean: float  # of ln(0.00001 + days)
    deviation: float
    adam_mean: FloatArray | None = None  # (503,) AdamW's state after pretraining
    adam_square: FloatArray | None = None
    adam_steps: int = 0


@dataclass(frozen=True)
class _TrainingSchedule:
    """Learning rates and other settings of the training."""

    rates: FloatArray  # of each pass over the batches
    decay: float
    pull: float
    max_gradient_norm: float = _LONGEST_GRADIENT
    exponent: float = _BATCH_EXPONENT  # of a batch's size in its loss


def _make_schedule(context: Context) -> _TrainingSchedule:
    """Return a schedule whose rate rises linearly to the middle one, then falls linearly."""
    passes = _PASSES.integer_in(context)
    begin, middle, end = (rate * (_RATE.number_in(context) / _RATES[1]) for rate in _RATES)
    warm_up = min(max(1, round(passes * _WARM_UP / 21)), passes)
    up = np.linspace(begin, middle, warm_up, endpoint=False)
    down = np.linspace(middle, end, passes - warm_up, endpoint=False)
    return _TrainingSchedule(
        np.concatenate([up, down]), _DECAY.number_in(context), _PULL.number_in(context)
    )


def load_pretrained(context: Context) -> Gru503Weights:
    """Return the weights from which fitting begins.

    Raises InputError if there are no weights.
    """
    shapes = {**SHAPES, "input_mean": (1,), "input_std": (1,)}
    tensors = load_network_weights(_WEIGHT_FILES, shapes, context, optional=ADAM_TENSORS)
    if tensors is None:
        raise missing_weights_error("GRU-503", _WEIGHT_FILES[:1], context)
    weights = Gru503Weights(
        values=flatten({name: tensors[name] for name in SHAPES}),
        mean=float(tensors["input_mean"][0]),
        deviation=float(tensors["input_std"][0]),
    )
    state = load_optimiser_state(_WEIGHT_FILES, SHAPES, context)
    if state is None:
        return weights
    return replace(weights, adam_mean=state[0], adam_square=state[1], adam_steps=state[2])


def _train(
    weights: Gru503Weights,
    trials: Trials,
    batch_rows: list[IntArray],
    weight_of: FloatArray,
    context: Context,
    schedule: _TrainingSchedule,
) -> Gru503Weights:
    """Train the weights on batches of positions; `weight_of` (n,) has the weight of each trial."""
    from srs_eval.training.compile import compile_kernel
    from srs_eval.training.mixture import MixtureDescent, mixture_pass

    batches = cut_batches(history_trie(trials, same_day=False), trials, batch_rows, weight_of)
    delay = _normalise_delay(batches, weights)
    scales = np.array([float(len(rows)) ** (schedule.exponent - 1.0) for rows in batch_rows])
    w = weights.values.copy()
    zeros = np.zeros(len(w))
    descent = MixtureDescent(
        mean=zeros.copy() if weights.adam_mean is None else weights.adam_mean.copy(),
        square=zeros.copy() if weights.adam_square is None else weights.adam_square.copy(),
        start=weights.values,
        pull=schedule.pull,
        longest=schedule.max_gradient_norm,
        beta_mean=_BETAS[0],
        beta_square=_BETAS[1],
        decay=schedule.decay,
        steps=weights.adam_steps,
    )
    scratch = _make_scratch(batches)
    order = np.arange(len(batch_rows))
    run_pass = compile_kernel(mixture_pass)
    for done, rate in enumerate(schedule.rates.tolist(), start=1):
        rates = np.full(len(batch_rows), rate)
        run_pass(order, rates, w, batches, delay, scales, descent, scratch)
        descent = descent._replace(steps=descent.steps + len(batch_rows))
        context.tick(done / len(schedule.rates))
    require_finite(w)
    return replace(
        weights,
        values=w,
        adam_mean=descent.mean,
        adam_square=descent.square,
        adam_steps=descent.steps,
    )


def fine_tune(
    weights: Gru503Weights, trials: Trials, train: IntArray, context: Context
) -> Gru503Weights:
    """Fit the weights to the positions `train`, which are in order of review.

    Raises NotEnoughData without reviews to train on.
    """
    if not len(train):
        raise NotEnoughData("no reviews to train on")
    weight_of = spread_over_trials(
        trials, train, compute_relative_recency_weights(len(train), *_RECENCY)
    )
    rows = shuffle_rows(trials, train, context)
    size = _BATCH.integer_in(context)
    batch_rows = [rows[k : k + size] for k in range(0, len(rows), size)]
    return _train(weights, trials, batch_rows, weight_of, context, _make_schedule(context))


def _fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> Gru503Weights:
    """Fit the pretrained weights to the positions `train`.

    `weights` are not used, because the model has its own recency weights.
    """
    return fine_tune(load_pretrained(context), trials, train, context)


def predict_recall(weights: Gru503Weights, trials: Trials, index: IntArray) -> FloatArray:
    """Return the probability of recall at the positions `index` (same shape)."""
    from srs_eval.training.compile import compile_kernel
    from srs_eval.training.mixture import MixtureDescent, mixture_pass

    if not len(index):
        return np.empty(0)
    batches = cut_batches(history_trie(trials, same_day=False), trials, [index])
    scratch = _make_scratch(batches)
    unused = np.zeros(0)
    compile_kernel(mixture_pass)(
        np.zeros(1, np.int64),
        np.zeros(1),
        weights.values,
        batches,
        _normalise_delay(batches, weights),
        np.ones(1),
        MixtureDescent(
            mean=unused,
            square=unused,
            start=unused,
            pull=0.0,
            longest=0.0,
            beta_mean=0.0,
            beta_square=0.0,
            decay=0.0,
            steps=0,
        ),
        scratch,
    )
    return scratch.recall[batches.target]


def _predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
    """Predict recall at `index`; empty `parameters` mean the pretrained weights."""
    weights = parameters if isinstance(parameters, Gru503Weights) else load_pretrained(context)
    return predict_recall(weights, trials, index)


def _normalise_delay(batches: TrieBatches, weights: Gru503Weights) -> FloatArray:
    """Return the interval before each node, normalised as the network takes it."""
    delay: FloatArray = (np.log(1e-5 + batches.delta_t) - weights.mean) / weights.deviation
    return delay


def _make_scratch(batches: TrieBatches) -> Any:
    from srs_eval.training.mixture import HIDDEN, KEPT_ROWS, PARAMETERS, WORK_ROWS, MixtureScratch

    nodes = int(np.diff(batches.first_node).max())
    return MixtureScratch(
        state=np.zeros((HIDDEN, nodes)),
        bar=np.zeros((HIDDEN, nodes)),
        kept=np.zeros((KEPT_ROWS, nodes)),
        work=np.zeros((WORK_ROWS, LANES)),
        w_bar=np.zeros((PARAMETERS, LANES)),
        recall=np.zeros(len(batches.target_node)),
    )


MODELS = (
    TrainedModel(
        name="GRU-503",
        family="neural",
        inputs="FIL, G, SR",
        parameters=503,
        source="srs-benchmark models/gru.py and reptile/reptile_trainer_gru.py (2026)",
        note="srs-benchmark has called it GRU since 2026.",
        cost=Cost(seconds_per_10k=0.5, seconds_to_compile=8.0),
        standard="GRU-503-short-secs-equalize_test_with_non_secs",
        fit=_fit,
        default=no_parameters,
        predict=_predict,
        flags=ANY_FLAG - {"recency"},
        hyperparameters=_HYPERPARAMETERS,
    ),
)
