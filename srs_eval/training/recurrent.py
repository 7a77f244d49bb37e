"""Training of recurrent models, as srs-benchmark and fsrs-optimizer train them.

A recurrent model consists of a state per card, a step per review and a forgetting curve. Its
file writes each of these once, in the notation of its source, from the operations of
`srs_eval.training.elementwise`, and describes the rest in a `RecurrentModel`; `Trainable`
turns it into `fit` and `predict`. Gradients are derived (`tracing`).

The signatures, with state as a tuple of `states` values and `w` the parameters followed by
the constants:

    first(rating, w) -> state
    success(state, delta_t, rating, w) -> state           the same for failure and same_day
    recall(delta_t, state, w) -> probability

Steps are called for whole segments of one kind (first review; success, failure;
delta_t < 1 day if `same_day` is given), so they need no branch between them. Every k in
`w[k]` is a literal. They are also called for padding, with ordinary values and a gradient
of 0: their results must be finite.

Reference for the loop: fsrs-optimizer `Trainer`, srs-benchmark other.py `Trainer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.training import hyperparameters
from srs_eval.training.compile import Gradient, specialise, to_function
from srs_eval.training.elementwise import LANES
from srs_eval.training.hyperparameters import Context
from srs_eval.training.kernel_records import AdamState, RecurrentScratch
from srs_eval.training.optimisers import (
    compute_batch_seed,
    draw_permutations,
    select_training_rows,
    sort_by_length,
    spread_over_trials,
)
from srs_eval.training.packing import pack
from srs_eval.training.trie import TrieBatches, cut_batches, history_trie

_TAPED = ("success", "failure", "same_day")  # steps that save values for their gradients
_Steps = tuple[tuple[str, Callable[..., Any]], ...]  # names and functions
_SINGLE_BATCH = np.zeros(1, np.int64)  # the order of a single batch


@dataclass(frozen=True)
class RecurrentModel:
    """A recurrent model's functions and its training set-up."""

    name: str  # an identifier, unique among models
    states: int
    default: tuple[float, ...]
    lower: tuple[float, ...]  # parameters are clipped to these bounds after every step
    upper: tuple[float, ...]
    first: Callable[..., Any]
    success: Callable[..., Any]
    failure: Callable[..., Any]
    recall: Callable[..., Any]
    same_day: Callable[..., Any] | None = None
    """Step for delta_t < 1; None if success and failure serve it, too."""
    constants: tuple[float, ...] = ()  # values that follow the parameters in w
    deviation: tuple[float, ...] | None = None
    """Standard deviations; the loss contains gamma * sum(((w - start) / deviation)^2)."""
    frozen: tuple[int, ...] = ()  # parameters whose gradient is set to 0
    not_below: tuple[tuple[int, int], ...] = ()
    """Pairs (k, j): after the bounds, in this order, w[k] is raised to w[j] if it is lower."""
    later_only: tuple[int, ...] = ()
    """Parameters that only second and later reviews use. A batch of first reviews alone gives
    torch no gradient for them, so its Adam skips them: it makes and counts no step."""
    learning_rate: float = 4e-2
    betas: tuple[float, float] = (0.9, 0.999)  # Adam's
    batch_size: int | None = None  # None: the protocol's
    epochs: int = 5
    decimals: int | None = 4  # to which fitted parameters are rounded; None: not at all
    tie_order: Literal["stable", "quicksort"] = "stable"
    """Order of training rows with equal history length, before they are cut into batches:
    fsrs-optimizer 6 sorts stably, 5 (and so other.py) by numpy's quicksort."""
    select_rows: Callable[[Trials, IntArray], IntArray] | None = None
    """Selects the positions that batches are made of; the best epoch is chosen on all positions."""
    keep: Literal["best", "last"] = "best"
    """The parameters of the epoch with the least training loss, or those of the last epoch."""
    make_batches: Callable[[Trials, IntArray, int], list[IntArray]] | None = None
    """Cuts rows into batches of a size. None: by history length (`tie_order`)."""
    draw_orders: Callable[[int, int], Iterator[IntArray]] = draw_permutations
    """Draws the order of batches for each epoch, given their number and a seed."""
    penalty: Callable[[FloatArray, FloatArray], float] | None = None
    """A further term of each item's loss, a function of w (p + constants,). It adds its gradient to
    its second argument (p,)."""
    anneals_over: Literal["batches", "sizes"] = "batches"
    """Steps per epoch on which the learning rate's decay to 0 is based: the number of batches, or
    rows // batch size + 1."""

    @property
    def hyperparameters(self) -> tuple[hyperparameters.Hyperparameter, ...]:
        """Return the hyperparameters of `fit_recurrent` that the context can set."""
        settings = [
            hyperparameters.learning_rate(self.learning_rate),
            hyperparameters.epochs(self.epochs),
            hyperparameters.batch_size(self.batch_size),
        ]
        if self.deviation is not None:
            settings.append(_GAMMA)
        settings.append(replace(_KEEP, default=self.keep))
        settings.append(hyperparameters.SEED)
        return tuple(settings)


ITERATIONS = hyperparameters.Hyperparameter("iterations", 200, 20.0, 1, 10_000, is_integer=True)
"""Most steps of L-BFGS-B, a hyperparameter of models with `minimiser="lbfgs"`."""
_NOT_FINITE = 1e6  # in place of a loss that is not finite
_GAMMA = hyperparameters.penalty("gamma", 1.0, flag="gamma")
_KEEP = hyperparameters.Hyperparameter("keep", "best", choices=("best", "last"))
"""The parameters of the best epoch (stopping early) or of the last."""
START = hyperparameters.Hyperparameter("start", "fitted", choices=("fitted", "default"))
"""Training begins at fitted initial stabilities, or at the default parameters."""


def _new_adam_state(start: FloatArray, share: FloatArray, *, rate: float, steps: int) -> AdamState:
    """Return Adam's state before its first step, without bounds, pull or idle parameters."""
    p = len(start)
    return AdamState(
        lower=np.full(p, -np.inf),
        upper=np.full(p, np.inf),
        start=start,
        pull=np.zeros(p),
        slope=np.zeros(p),
        penalised=0,
        free=np.ones(p),
        mean=np.zeros(p),
        square=np.zeros(p),
        share=share,
        rate=rate,
        steps=steps,
        beta_mean=0.9,
        beta_square=0.999,
        not_below=np.zeros((0, 2), np.int64),
        pairs=0,
        idle=np.zeros((0, p), np.int32),
        any_idle=0,
        passed_by=np.zeros(p, np.int64),
    )


def fit_recurrent(
    model: RecurrentModel,
    trials: Trials,
    train: IntArray,
    weights: FloatArray,
    start: Sequence[float],
    context: Context,
) -> list[float]:
    """Return the parameters of the epoch with the least training loss, or those of the last one.

    `train` are positions in the trials in review order and `weights` their weights; training begins
    at `start`, and the penalty pulls towards it. The length of the longest history is the
    protocol's. So are gamma, unless the context sets it, and the batch size, unless the context or
    the model does. Raises NotEnoughData if all histories are too long.
    """
    protocol = trials.protocol
    settings = context.hyperparameters
    types = {"learning_rate": float, "keep": str, "epochs": int, "batch_size": int}
    changes: dict[str, Any] = {
        name: to_type(settings[name]) for name, to_type in types.items() if name in settings
    }
    model = replace(model, **changes)
    gamma = float(settings.get("gamma", protocol.gamma))
    rows = select_training_rows(trials, train)
    weight_of = spread_over_trials(trials, train, weights)
    batched = rows if model.select_rows is None else model.select_rows(trials, rows)
    if not len(batched):
        raise NotEnoughData("no reviews to train on")
    size = model.batch_size or protocol.batch_size
    epochs = model.epochs
    if model.make_batches is None:
        if model.tie_order == "quicksort":
            order = sort_by_length(trials, batched)
        else:
            # Numbers of 16 bits are sorted by a radix sort, the fastest.
            length = trials.sequence_length[batched].astype(np.int16)
            order = batched[np.argsort(length, kind="stable")]
        batch_rows = [order[k : k + size] for k in range(0, len(order), size)]
    else:
        batch_rows = model.make_batches(trials, batched, size)
    trie = history_trie(trials, model.same_day is not None)
    batches = cut_batches(trie, trials, batch_rows, weight_of)
    all_rows = cut_batches(trie, trials, [rows], weight_of)

    run_pass = _kernel_of_model(model)
    p = len(model.default)
    first = np.array(start, np.float64)
    w = _parameters_and_constants(model, first)
    if model.anneals_over == "batches":
        steps = epochs * len(batch_rows)
    else:
        steps = epochs * (len(rows) // size + 1)
    descent = _prepare_adam_state(
        model, first, batch_rows, trials.sequence_length, len(rows), steps, gamma
    )
    scratch = _make_scratch(model, (batches,), (all_rows,))
    batches_table = pack(batches)
    all_rows_table = pack(all_rows)
    descent_table = pack(descent)
    scratch_table = pack(scratch)
    orders = model.draw_orders(len(batch_rows), compute_batch_seed(context))
    best = first
    best_loss = np.inf
    for epoch in range(epochs + 1):
        loss = -np.inf
        if model.keep == "best":
            loss = run_pass(_SINGLE_BATCH, -1, w, all_rows_table, descent_table, scratch_table)
            loss = (loss + float(np.sum(descent.pull * np.square(w[:p] - first)))) / len(rows)
        if loss < best_loss or model.keep == "last":
            best = w[:p].copy()
            best_loss = loss
        context.tick(epoch / epochs)
        if epoch == epochs:
            break
        done = epoch * len(batch_rows)
        if model.penalty is None:
            run_pass(next(orders), done, w, batches_table, descent_table, scratch_table)
        else:
            for batch in next(orders):
                descent.slope.fill(0.0)
                model.penalty(w, descent.slope)
                run_pass(np.array([batch]), done, w, batches_table, descent_table, scratch_table)
                done += 1
    parameters = best.tolist()
    if model.decimals is None:
        return parameters
    return [round(value, model.decimals) for value in parameters]


def _prepare_adam_state(
    model: RecurrentModel,
    start: FloatArray,
    batches: Sequence[IntArray],
    lengths: IntArray,
    rows: int,
    steps: int,
    gamma: float,
) -> AdamState:
    """Return Adam's state before the first of `steps` steps on these batches.

    `lengths` (n,) are the lengths of all trials' histories, `rows` is the number of training rows.
    """
    shares = np.array([len(batch) for batch in batches]) / rows
    descent = _new_adam_state(start, shares, rate=model.learning_rate, steps=steps)._replace(
        lower=np.array(model.lower, np.float64),
        upper=np.array(model.upper, np.float64),
        penalised=int(model.penalty is not None),
        beta_mean=model.betas[0],
        beta_square=model.betas[1],
        not_below=np.array(model.not_below, np.int64).reshape(-1, 2),
        pairs=len(model.not_below),
    )
    descent.free[list(model.frozen)] = 0.0
    if model.deviation is not None:
        descent.pull[:] = gamma / np.square(np.array(model.deviation))
    if not model.later_only:
        return descent
    idle = np.zeros((len(batches), len(start)), np.int32)
    has_first_reviews_only = [int(lengths[batch].max()) == 1 for batch in batches]
    idle[np.ix_(has_first_reviews_only, model.later_only)] = 1
    return descent._replace(idle=idle, any_idle=1)


class SummedLoss:
    """Log loss summed over the positions `index`, in nats, as a function of parameters w (p,).

    It serves searches other than the training above, without penalty or bounds. `weights` (n,) are
    the weights of all trials; None stands for 1.
    """

    def __init__(
        self,
        model: RecurrentModel,
        trials: Trials,
        index: IntArray,
        weights: FloatArray | None = None,
    ) -> None:
        p = len(model.default)
        trie = history_trie(trials, model.same_day is not None)
        batches = cut_batches(trie, trials, [index], weights)
        # `gradient` takes a step of length 0: with beta 0, its running mean is the gradient.
        descent = _new_adam_state(np.zeros(p), np.ones(1), rate=0.0, steps=1)
        self._descent = descent._replace(beta_mean=0.0)
        self._w = _parameters_and_constants(model, np.zeros(p))
        self._pass = _kernel_of_model(model)
        # The tables hold addresses of these records' arrays, which must live as long.
        self._records = (batches, self._descent, _make_scratch(model, (batches,)))
        self._tables = [pack(record) for record in self._records]

    def value(self, w: FloatArray) -> float:
        """Return the loss."""
        self._w[: len(w)] = w
        return float(self._pass(_SINGLE_BATCH, -1, self._w, *self._tables))

    def gradient(self, w: FloatArray) -> FloatArray:
        """Return the gradient (p,)."""
        self._w[: len(w)] = w
        self._descent.mean.fill(0.0)  # even at beta 0, values that are not finite would stay
        self._descent.square.fill(0.0)
        self._pass(_SINGLE_BATCH, 0, self._w, *self._tables)
        return self._descent.mean.copy()


class TrainingLoss:
    """The loss that training minimises, a mean over its rows, as a function of parameters w (p,).

    It is the weighted log loss, with the model's pull towards `centre` and the model's own penalty.
    `train`, `weights` and `context` are the arguments of `fit`. Raises NotEnoughData if all
    histories are too long.
    """

    def __init__(
        self,
        model: RecurrentModel,
        trials: Trials,
        train: IntArray,
        weights: FloatArray,
        centre: Sequence[float],
        context: Context,
    ) -> None:
        rows = select_training_rows(trials, train)
        if model.select_rows is not None:
            rows = model.select_rows(trials, rows)
        if not len(rows):
            raise NotEnoughData("no reviews to train on")
        self._model = model
        self._rows = len(rows)
        self._centre = np.array(centre, np.float64)
        self._pull = np.zeros(len(centre))
        if model.deviation is not None:
            gamma = float(context.hyperparameters.get("gamma", trials.protocol.gamma))
            self._pull = gamma / np.square(np.array(model.deviation))
        self._summed = SummedLoss(model, trials, rows, spread_over_trials(trials, train, weights))

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss at w, and its gradient (p,)."""
        distance = w - self._centre
        value = self._summed.value(w) + float(np.sum(self._pull * np.square(distance)))
        gradient = self._summed.gradient(w) + 2.0 * self._pull * distance
        if self._model.penalty is not None:
            slope = np.zeros(len(w))
            value += self._rows * self._model.penalty(
                _parameters_and_constants(self._model, w), slope
            )
            gradient += self._rows * slope
        return value / self._rows, gradient / self._rows


def fit_recurrent_by_lbfgs(
    model: RecurrentModel,
    trials: Trials,
    train: IntArray,
    weights: FloatArray,
    start: Sequence[float],
    context: Context,
) -> list[float]:
    """Return the parameters with the least training loss within the model's bounds.

    L-BFGS-B (Byrd, Lu, Nocedal and Zhu, 1995), on all rows at once, ends where no step lowers the
    loss any more. It needs neither a learning rate nor a number of epochs; `weights`, `start` and
    errors are as in `fit_recurrent`. Raises ValueError for a model with `not_below`, which is not a
    bound.
    """
    if model.not_below:
        raise ValueError('minimiser="lbfgs" knows bounds only: leave not_below out')
    loss = TrainingLoss(model, trials, train, weights, start, context)
    iterations = ITERATIONS.integer_in(context)
    w = minimise_by_lbfgsb(model, loss, start, iterations, context)
    decimals = model.decimals
    if decimals is None:
        return w.tolist()
    return [round(value, decimals) for value in w.tolist()]


def minimise_by_lbfgsb(
    model: RecurrentModel,
    loss: TrainingLoss,
    start: Sequence[float],
    iterations: int,
    context: Context,
) -> FloatArray:
    """Return the parameters (p,) after at most `iterations` steps of L-BFGS-B from `start`.

    They stay within the model's bounds, and frozen parameters keep their values.
    """
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    evaluations = 0

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        nonlocal evaluations
        evaluations += 1
        context.tick(min(evaluations / iterations, 0.99))
        value, gradient = loss.value_and_gradient(w)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return _NOT_FINITE, np.zeros(len(w))
        return value, gradient

    lower = np.array(model.lower, np.float64)
    upper = np.array(model.upper, np.float64)
    first = np.clip(np.array(start, np.float64), lower, upper)
    frozen = list(model.frozen)
    lower[frozen] = first[frozen]
    upper[frozen] = first[frozen]
    with threadpool_limits(1):  # with more, most of the time goes to threads
        result = minimize(
            objective,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=np.stack([lower, upper], axis=1),
            options={"maxiter": iterations, "maxfun": 2 * iterations},
        )
    best = np.asarray(result.x, np.float64)
    return best if objective(best)[0] < objective(first)[0] else first


def predict_recurrent(
    model: RecurrentModel, trials: Trials, parameters: Sequence[float], index: IntArray
) -> FloatArray:
    """Return the probability of recall at the positions `index` (same shape)."""
    if not len(index):
        return np.empty(0)
    trie = history_trie(trials, model.same_day is not None)
    batch = cut_batches(trie, trials, [index])
    w = _parameters_and_constants(model, parameters)
    scratch = _make_scratch(model, (), (batch,))
    no_descent = np.zeros(len(AdamState._fields), np.int64)
    _kernel_of_model(model)(_SINGLE_BATCH, -1, w, pack(batch), no_descent, pack(scratch))
    return scratch.recall[batch.target]


@dataclass(frozen=True)
class Trainable:
    """`fit` and `predict` of a recurrent model, for a `TrainedModel`."""

    model: Callable[[Trials, Context], RecurrentModel]
    """Returns the model: one for all trials, or one with bounds and constants for these trials."""
    start: Callable[[Trials, IntArray, FloatArray, Context], Sequence[float]] | None = None
    """Returns the parameters at which training begins, from the arguments of `fit`. None: the
    default parameters."""
    falls_back_to_start: bool = False
    """Whether `fit` returns the start where there is nothing to train on. If not, it raises
    NotEnoughData."""
    minimiser: Literal["adam", "lbfgs"] = "adam"
    """The method that minimises the loss. "adam": a few epochs of Adam, as srs-benchmark trains
    FSRS; enough for models that begin close to the least loss. "lbfgs": L-BFGS until nothing
    is left to gain; it uses none of `learning_rate`, `epochs`, `batch_size` and `keep`."""

    def fit(
        self, trials: Trials, train: IntArray, weights: FloatArray, context: Context
    ) -> list[float]:
        """Fit the model; see `fit_recurrent` and `fit_recurrent_by_lbfgs`."""
        model = self.model(trials, context)
        start: Sequence[float] = model.default
        if self.start is not None and START.value_in(context) == "fitted":
            start = self.start(trials, train, weights, context)
        try:
            fit = fit_recurrent_by_lbfgs if self.minimiser == "lbfgs" else fit_recurrent
            return fit(model, trials, train, weights, start, context)
        except NotEnoughData:
            if not self.falls_back_to_start:
                raise
            return list(start)

    def predict(
        self, trials: Trials, parameters: Sequence[float], index: IntArray, context: Context
    ) -> FloatArray:
        """Predict recall; see `predict_recurrent`."""
        return predict_recurrent(self.model(trials, context), trials, parameters, index)


def _parameters_and_constants(
    model: RecurrentModel, parameters: Sequence[float] | FloatArray
) -> FloatArray:
    """Return w: the parameters followed by the constants."""
    return np.array([*parameters, *model.constants], np.float64)


def _make_scratch(
    model: RecurrentModel, trained: Sequence[TrieBatches], evaluated: Sequence[TrieBatches] = ()
) -> RecurrentScratch:
    """Allocate memory for batches to train on and for others that are only evaluated."""
    nodes = max(_largest_batch_nodes(batches) for batches in (*trained, *evaluated))
    targets = max(len(batches.target_node) for batches in (*trained, *evaluated))
    taped_nodes = max((_largest_batch_nodes(batches) for batches in trained), default=LANES)
    p = len(model.default)
    constants = len(model.constants)
    tape = _compute_tape_length(_steps_of_model(model), model.states, p, constants)
    return RecurrentScratch(
        state=np.empty((model.states, nodes)),
        bar=np.empty((model.states, nodes)),
        room=nodes,
        w_bar=np.empty((p, LANES)),
        recall=np.empty(targets),
        tape=np.empty(taped_nodes * tape),
    )


def _largest_batch_nodes(batches: TrieBatches) -> int:
    """Return the number of nodes in the largest batch."""
    return int(np.diff(batches.first_node).max())


def _kernel_of_model(model: RecurrentModel) -> Any:
    """Return the model's compiled kernel."""
    return _compile_kernel(
        model.name, _steps_of_model(model), model.states, len(model.default), len(model.constants)
    )


def _steps_of_model(model: RecurrentModel) -> _Steps:
    steps = [
        ("first", model.first),
        ("success", model.success),
        ("failure", model.failure),
        ("recall", model.recall),
    ]
    if model.same_day is not None:
        steps.append(("same_day", model.same_day))
    return tuple(steps)


@cache
def _compile_kernel(name: str, steps: _Steps, states: int, parameters: int, constants: int) -> Any:
    """Compile the kernel, which is the same for all bounds, constants and training set-ups."""
    import re

    from srs_eval.training.sweeps import recurrent_pass

    _check_states(steps, states, parameters + constants)
    all_steps: dict[str, Any] = {**dict(steps), **_gradients_of_steps(steps, parameters)}
    return specialise(
        recurrent_pass,
        re.sub(r"\W", "_", name),
        {f"_{key}": step for key, step in all_steps.items()},
        {
            "_STATES": states,
            "_PARAMETERS": parameters,
            "_VALUES": parameters + constants,
            "_HAS_SAME_DAY": int("same_day" in dict(steps)),
            "_TAPE": _compute_tape_length(steps, states, parameters, constants),
        },
        taped=[f"_{key}" for key, _ in steps if key in _TAPED],
    )


def _check_states(steps: _Steps, states: int, values: int) -> None:
    """Raise TypeError if a step, called with ones, does not return a tuple of `states` values."""
    state = (1.0,) * states
    w = np.ones(values)
    for key, step in steps:
        if key == "recall":
            continue
        with np.errstate(all="ignore"):
            result = step(1.0, w) if key == "first" else step(state, 1.0, 1.0, w)
        if not isinstance(result, tuple) or len(result) != states:
            raise TypeError(
                f"{step.__name__} does not return a tuple of {states} (states={states})"
            )


def _gradients_of_steps(steps: _Steps, parameters: int) -> dict[str, Gradient]:
    """Return the gradients of the steps with respect to the state and the parameters."""
    import inspect

    gradients = {}
    for key, step in steps:
        names = tuple(inspect.signature(step).parameters)
        if key == "first":  # takes no state
            state_name: tuple[str, ...] = ()
        elif key == "recall":
            state_name = names[1:2]
        else:
            state_name = names[:1]
        gradients[f"{key}_adjoint"] = Gradient(step, state_name, names[-1], parameters)
    return gradients


@cache
def _compute_tape_length(steps: _Steps, states: int, parameters: int, constants: int) -> int:
    """Return how many numbers the tape holds for each node."""
    from srs_eval.training.tracing import compute_tape_length

    gradients = _gradients_of_steps(steps, parameters)
    return max(
        compute_tape_length(
            step, to_function(gradients[f"{key}_adjoint"]), (states, 0, 0), parameters + constants
        )
        for key, step in steps
        if key in _TAPED
    )
