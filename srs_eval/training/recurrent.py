"""Training of recurrent models, as srs-benchmark and fsrs-optimizer train them.

A recurrent model is a state per card, a step per review and a forgetting curve. Its
file writes each of these once, in the notation of its source, from the operations of
`srs_eval.training.elementwise`, and describes the rest in a `RecurrentModel`; `Trainable`
makes `fit` and `predict` of it. Gradients are derived (`tracing`).

The signatures, with state as a tuple of `states` values and `w` the parameters followed by
the constants:

    first(rating, w) -> state
    success(state, delta_t, rating, w) -> state           also failure, same_day
    recall(delta_t, state, w) -> probability

Steps are called for whole segments of one kind (first review; success, failure;
delta_t < 1 day if `same_day` is given), so they need no branch between them. Every k in
`w[k]` is a literal. Padding calls them with ordinary values and a gradient of 0: keep them
finite.

Reference for the loop: fsrs-optimizer `Trainer`, srs-benchmark other.py `Trainer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.training import hyperparameters
from srs_eval.training.compile import Gradient, Int32Array, as_function, packed
from srs_eval.training.elementwise import LANES
from srs_eval.training.hyperparameters import Context
from srs_eval.training.optimisers import (
    batch_seed,
    by_trial,
    length_order,
    permutations,
    training_rows,
)
from srs_eval.training.trie import TrieBatches, history_trie, trie_batches

_TAPED = ("success", "failure", "same_day")  # steps that leave something for their gradients
_Steps = tuple[tuple[str, Callable[..., Any]], ...]  # by name
_ONE = np.zeros(1, np.int64)  # the order of a single batch


@dataclass(frozen=True)
class RecurrentModel:
    """A recurrent model's functions and its training set-up."""

    name: str  # an identifier, unique among models
    states: int
    default: tuple[float, ...]
    lower: tuple[float, ...]  # parameters are held within these after every step
    upper: tuple[float, ...]
    first: Callable[..., Any]
    success: Callable[..., Any]
    failure: Callable[..., Any]
    recall: Callable[..., Any]
    same_day: Callable[..., Any] | None = None
    """None: success and failure serve delta_t < 1 too."""
    constants: tuple[float, ...] = ()  # values that follow the parameters in w
    deviation: tuple[float, ...] | None = None
    """Standard deviations; the loss has gamma * sum(((w - start) / deviation)^2)."""
    frozen: tuple[int, ...] = ()  # parameters whose gradient is set to 0
    not_below: tuple[tuple[int, int], ...] = ()
    """Pairs (k, j): after the bounds, in this order, w[k] is raised to w[j] where lower."""
    later_only: tuple[int, ...] = ()
    """Parameters that only second and later reviews use. A batch of first reviews alone gives
    torch no gradient for them, so its Adam passes them by: no step, and none is counted."""
    learning_rate: float = 4e-2
    betas: tuple[float, float] = (0.9, 0.999)  # Adam's
    batch_size: int | None = None  # None: the protocol's
    epochs: int = 5
    decimals: int | None = 4  # of the kept parameters
    tie_order: Literal["stable", "quicksort"] = "stable"
    """How training rows of equal history length are ordered before they are cut into
    batches: fsrs-optimizer 6 sorts stably, 5 (and so other.py) by numpy's quicksort."""
    trained_on: Callable[[Trials, IntArray], IntArray] | None = None
    """Which of the positions batches are made of; all count for the best epoch."""
    keep: Literal["best", "last"] = "best"
    """The parameters of the epoch with the least training loss, or the last ones."""
    cut: Callable[[Trials, IntArray, int], list[IntArray]] | None = None
    """How rows become batches of a size. None: by history length (`tie_order`)."""
    orders: Callable[[int, int], Iterator[IntArray]] = permutations
    """The order of batches in each epoch, from their number and a seed."""
    penalty: Callable[[FloatArray, FloatArray], float] | None = None
    """A further term of the loss for each item: of w (p + constants,); adds its gradient to the
    second argument (p,)."""
    anneals_over: Literal["batches", "sizes"] = "batches"
    """The learning rate comes to 0 after so many steps an epoch: the batches there are, or
    rows // batch size + 1."""

    @property
    def hyperparameters(self) -> tuple[hyperparameters.Hyperparameter, ...]:
        """What `fit_recurrent` can be set to by the context."""
        return (
            hyperparameters.learning_rate(self.learning_rate),
            hyperparameters.epochs(self.epochs),
            hyperparameters.batch_size(self.batch_size),
            *((_GAMMA,) if self.deviation is not None else ()),
            replace(_KEEP, default=self.keep),
            hyperparameters.SEED,
        )


ITERATIONS = hyperparameters.Hyperparameter("iterations", 200, 20.0, 1, 10_000, whole=True)
"""Of L-BFGS-B, at most: for `Model.hyperparameters` of a model with `minimiser="lbfgs"`."""
_NOT_FINITE = 1e6  # stands for a loss that is no number
_GAMMA = hyperparameters.penalty("gamma", 1.0, flag="gamma")
_KEEP = hyperparameters.Hyperparameter("keep", "best", choices=("best", "last"))
"""The parameters of the best epoch (stopping early) or of the last."""
START = hyperparameters.Hyperparameter("start", "fitted", choices=("fitted", "default"))
"""Training begins at fitted initial stabilities, or at the default parameters."""


class Descent(NamedTuple):
    """The state of Adam and what it needs to know (arrays of p parameters)."""

    lower: FloatArray
    upper: FloatArray
    start: FloatArray
    pull: FloatArray  # gamma / deviation^2
    slope: FloatArray  # (p,) of the model's own penalty, for each item
    penalised: int  # whether it has one
    free: FloatArray  # 0.0 where frozen
    mean: FloatArray  # running mean of the gradient
    square: FloatArray  # running mean of its square
    share: FloatArray  # (b,) items of each batch / items in all
    rate: float
    steps: int  # in all
    beta_mean: float
    beta_square: float
    not_below: IntArray  # (pairs, 2)
    pairs: int
    idle: Int32Array  # (b, p) 1 where a batch passes a parameter by; empty where none does
    any_idle: int
    passed_by: IntArray  # (p,) how often, so far


class Scratch(NamedTuple):
    state: FloatArray  # (states, room)
    bar: FloatArray  # (states, room)
    room: int  # for nodes
    w_bar: FloatArray  # (p, LANES)
    recall: FloatArray  # (targets,) of the batches last visited
    tape: FloatArray  # what the steps of a batch leave for their gradients


def _new_descent(start: FloatArray, share: FloatArray, *, rate: float, steps: int) -> Descent:
    """Adam before its first step, without bounds, pull or parameters that rest."""
    p = len(start)
    return Descent(
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
    """Parameters with the least training loss among those after each epoch, or the last ones.

    `train` are positions in the trials in review order, `weights` theirs; `start`
    is where training begins and what the penalty pulls to. Longest history and gamma
    are the protocol's, batch size too unless the model has its own. Raises NotEnoughData where
    all histories are too long.
    """
    protocol = trials.protocol
    given = context.hyperparameters
    kinds = {"learning_rate": float, "keep": str, "epochs": int, "batch_size": int}
    as_set: dict[str, Any] = {name: kinds[name](given[name]) for name in kinds if name in given}
    model = replace(model, **as_set)
    gamma = float(given.get("gamma", protocol.gamma))
    rows = training_rows(trials, train)
    weight_of = by_trial(trials, train, weights)
    batched = rows if model.trained_on is None else model.trained_on(trials, rows)
    if not len(batched):
        raise NotEnoughData("no reviews to train on")
    size, epochs = model.batch_size or protocol.batch_size, model.epochs
    if model.cut is None:
        if model.tie_order == "quicksort":
            order = length_order(trials, batched)
        else:  # a radix sort
            length = trials.sequence_length[batched].astype(np.int16)
            order = batched[np.argsort(length, kind="stable")]
        parts = [order[k : k + size] for k in range(0, len(order), size)]
    else:
        parts = model.cut(trials, batched, size)
    trie = history_trie(trials, model.same_day is not None)
    batches = trie_batches(trie, trials, parts, weight_of)
    whole = trie_batches(trie, trials, [rows], weight_of)

    run = _kernel_of(model)
    p = len(model.default)
    first = np.array(start, np.float64)
    w = _values(model, first)
    steps = epochs * (len(parts) if model.anneals_over == "batches" else len(rows) // size + 1)
    descent = _descent(model, first, parts, trials.sequence_length, len(rows), steps, gamma)
    scratch = _scratch(model, (batches,), (whole,))
    training = packed(batches), packed(descent), packed(scratch)
    evaluation = packed(whole), training[1], training[2]
    orders = model.orders(len(parts), batch_seed(context))
    best, best_loss = first, np.inf
    for epoch in range(epochs + 1):
        loss = -np.inf
        if model.keep == "best":
            loss = run(_ONE, -1, w, *evaluation)
            loss = (loss + float(np.sum(descent.pull * np.square(w[:p] - first)))) / len(rows)
        if loss < best_loss or model.keep == "last":
            best, best_loss = w[:p].copy(), loss
        context.tick(epoch / epochs)
        if epoch < epochs and model.penalty is None:
            run(next(orders), epoch * len(parts), w, *training)
        elif epoch < epochs and model.penalty is not None:
            for done, batch in enumerate(next(orders), start=epoch * len(parts)):
                descent.slope.fill(0.0)
                model.penalty(w, descent.slope)
                run(np.array([batch]), done, w, *training)
    kept = best.tolist()
    if model.decimals is None:
        return kept
    return [round(value, model.decimals) for value in kept]


def _descent(
    model: RecurrentModel,
    start: FloatArray,
    parts: Sequence[IntArray],
    length: IntArray,
    rows: int,
    steps: int,
    gamma: float,
) -> Descent:
    """Before the first of `steps` steps on these batches of `rows` rows; histories' `length`."""
    shares = np.array([len(part) for part in parts]) / rows
    descent = _new_descent(start, shares, rate=model.learning_rate, steps=steps)._replace(
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
    idle = np.zeros((len(parts), len(start)), np.int32)
    of_firsts = [int(length[part].max()) == 1 for part in parts]
    idle[np.ix_(of_firsts, model.later_only)] = 1
    return descent._replace(idle=idle, any_idle=1)


class SummedLoss:
    """Log loss summed over the positions `index`, in nats, as a function of parameters w (p,).

    For searches other than the training above: no penalty and no bounds. `weights` (n,) are those
    of all trials, 1 where None.
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
        batches = trie_batches(trie, trials, [index], weights)
        # A step of length 0, whose running mean is the gradient itself (beta 0).
        still = _new_descent(np.zeros(p), np.ones(1), rate=0.0, steps=1)
        self._still = still._replace(beta_mean=0.0)
        self._w = _values(model, np.zeros(p))
        self._pass = _kernel_of(model)
        self._kept = batches, self._still, _scratch(model, (batches,))
        self._tables = [packed(each) for each in self._kept]  # addresses of what is kept

    def value(self, w: FloatArray) -> float:
        self._w[: len(w)] = w
        return float(self._pass(_ONE, -1, self._w, *self._tables))

    def gradient(self, w: FloatArray) -> FloatArray:
        """(p,)"""
        self._w[: len(w)] = w
        self._still.mean.fill(0.0)  # what was not finite must not stay
        self._still.square.fill(0.0)
        self._pass(_ONE, 0, self._w, *self._tables)
        return self._still.mean.copy()


class TrainingLoss:
    """What a training lowers, a mean over its rows, as a function of parameters w (p,).

    It is the weighted log loss, with the model's pull towards `centre` and its own penalty.
    `train`, `weights` and `context` are those of `fit`. Raises NotEnoughData where all histories
    are too long.
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
        rows = training_rows(trials, train)
        if model.trained_on is not None:
            rows = model.trained_on(trials, rows)
        if not len(rows):
            raise NotEnoughData("no reviews to train on")
        self._model = model
        self._rows = len(rows)
        self._centre = np.array(centre, np.float64)
        self._pull = np.zeros(len(centre))
        if model.deviation is not None:
            gamma = float(context.hyperparameters.get("gamma", trials.protocol.gamma))
            self._pull = gamma / np.square(np.array(model.deviation))
        self._summed = SummedLoss(model, trials, rows, by_trial(trials, train, weights))

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss at w, and its gradient (p,)."""
        away = w - self._centre
        value = self._summed.value(w) + float(np.sum(self._pull * np.square(away)))
        gradient = self._summed.gradient(w) + 2.0 * self._pull * away
        if self._model.penalty is not None:
            slope = np.zeros(len(w))
            value += self._rows * self._model.penalty(_values(self._model, w), slope)
            gradient += self._rows * slope
        return value / self._rows, gradient / self._rows


def fit_by_lbfgs(
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
    errors are those of `fit_recurrent`. Raises ValueError for a model with `not_below`, which are
    no bounds.
    """
    if model.not_below:
        raise ValueError('minimiser="lbfgs" knows bounds only: leave not_below out')
    loss = TrainingLoss(model, trials, train, weights, start, context)
    iterations = ITERATIONS.integer(context)
    w = lower_by_lbfgs(model, loss, start, iterations, context)
    decimals = model.decimals
    if decimals is None:
        return w.tolist()
    return [round(value, decimals) for value in w.tolist()]


def lower_by_lbfgs(
    model: RecurrentModel,
    loss: TrainingLoss,
    start: Sequence[float],
    iterations: int,
    context: Context,
) -> FloatArray:
    """Return the parameters (p,) to which at most so many steps of L-BFGS-B lead from `start`.

    They stay within the model's bounds, and frozen ones where they are.
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
        found = minimize(
            objective,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=np.stack([lower, upper], axis=1),
            options={"maxiter": iterations, "maxfun": 2 * iterations},
        )
    best = np.asarray(found.x, np.float64)
    return best if objective(best)[0] < objective(first)[0] else first


def predict_recurrent(
    model: RecurrentModel, trials: Trials, parameters: Sequence[float], index: IntArray
) -> FloatArray:
    """Probability of recall at the positions `index` (same shape)."""
    if not len(index):
        return np.empty(0)
    trie = history_trie(trials, model.same_day is not None)
    whole = trie_batches(trie, trials, [index])
    w = _values(model, parameters)
    scratch = _scratch(model, (), (whole,))
    idle = np.zeros(len(Descent._fields), np.int64)
    _kernel_of(model)(_ONE, -1, w, packed(whole), idle, packed(scratch))
    return scratch.recall[whole.target]


@dataclass(frozen=True)
class Trainable:
    """`fit` and `predict` of a recurrent model, as `Model` takes them."""

    model: Callable[[Trials, Context], RecurrentModel]
    """The same for all trials, or with the bounds and constants that these ask for."""
    start: Callable[[Trials, IntArray, FloatArray, Context], Sequence[float]] | None = None
    """Where training begins; its arguments are those of `fit`. None: at the default."""
    start_will_do: bool = False
    """Whether it is returned where there is nothing to train on; else NotEnoughData is raised."""
    minimiser: Literal["adam", "lbfgs"] = "adam"
    """What lowers the loss. "adam": a few epochs of Adam, as srs-benchmark trains FSRS, which find
    the least loss of models that begin close to it. "lbfgs": L-BFGS until nothing is left to gain;
    it uses none of `learning_rate`, `epochs`, `batch_size` and `keep`."""

    def fit(
        self, trials: Trials, train: IntArray, weights: FloatArray, context: Context
    ) -> list[float]:
        """See `fit_recurrent` and `fit_by_lbfgs`."""
        model = self.model(trials, context)
        start: Sequence[float] = model.default
        if self.start is not None and START.of(context) == "fitted":
            start = self.start(trials, train, weights, context)
        try:
            fit = fit_by_lbfgs if self.minimiser == "lbfgs" else fit_recurrent
            return fit(model, trials, train, weights, start, context)
        except NotEnoughData:
            if not self.start_will_do:
                raise
            return list(start)

    def predict(
        self, trials: Trials, parameters: Sequence[float], index: IntArray, context: Context
    ) -> FloatArray:
        """See `predict_recurrent`."""
        return predict_recurrent(self.model(trials, context), trials, parameters, index)


def _values(model: RecurrentModel, parameters: Sequence[float] | FloatArray) -> FloatArray:
    """w: the parameters followed by the constants."""
    return np.array([*parameters, *model.constants], np.float64)


def _scratch(
    model: RecurrentModel, learned: Sequence[TrieBatches], evaluated: Sequence[TrieBatches] = ()
) -> Scratch:
    """Room for batches that are trained on and for others that are only evaluated."""
    nodes = max(_nodes(batches) for batches in (*learned, *evaluated))
    targets = max(len(batches.target_node) for batches in (*learned, *evaluated))
    taped = max((_nodes(batches) for batches in learned), default=LANES)
    p, constants = len(model.default), len(model.constants)
    tape = _tape_length(_steps(model), model.states, p, constants)
    return Scratch(
        state=np.empty((model.states, nodes)),
        bar=np.empty((model.states, nodes)),
        room=nodes,
        w_bar=np.empty((p, LANES)),
        recall=np.empty(targets),
        tape=np.empty(taped * tape),
    )


def _nodes(batches: TrieBatches) -> int:
    """In the largest batch."""
    return int(np.diff(batches.first_node).max())


def _kernel_of(model: RecurrentModel) -> Any:
    """The model's compiled kernel."""
    return _kernel(
        model.name, _steps(model), model.states, len(model.default), len(model.constants)
    )


def _steps(model: RecurrentModel) -> _Steps:
    names = ("first", "success", "failure", "recall", "same_day")
    return tuple((name, step) for name in names if (step := getattr(model, name)) is not None)


@cache
def _kernel(name: str, steps: _Steps, states: int, parameters: int, constants: int) -> Any:
    """The same for all bounds, constants and training set-ups."""
    import re

    from srs_eval.training.compile import specialised
    from srs_eval.training.sweeps import recurrent_pass

    _check_states(steps, states, parameters + constants)
    named: dict[str, Any] = {**dict(steps), **_gradients(steps, parameters)}
    return specialised(
        recurrent_pass,
        re.sub(r"\W", "_", name),
        {f"_{key}": step for key, step in named.items()},
        {
            "_STATES": states,
            "_PARAMETERS": parameters,
            "_VALUES": parameters + constants,
            "_HAS_SAME_DAY": int("same_day" in dict(steps)),
            "_TAPE": _tape_length(steps, states, parameters, constants),
        },
        taped=[f"_{key}" for key, _ in steps if key in _TAPED],
    )


def _check_states(steps: _Steps, states: int, values: int) -> None:
    """Raises TypeError where a step, called with ones, returns no tuple of so many states."""
    state, w = (1.0,) * states, np.ones(values)
    for key, step in steps:
        if key == "recall":
            continue
        with np.errstate(all="ignore"):
            found = step(1.0, w) if key == "first" else step(state, 1.0, 1.0, w)
        if not isinstance(found, tuple) or len(found) != states:
            raise TypeError(f"{step.__name__} returns no tuple of {states} (states={states})")


def _gradients(steps: _Steps, parameters: int) -> dict[str, Gradient]:
    """Of the steps, by the state and by the parameters."""
    import inspect

    found = {}
    for key, step in steps:
        names = tuple(inspect.signature(step).parameters)
        state = {"first": (), "recall": names[1:2]}.get(key, names[:1])
        found[f"{key}_adjoint"] = Gradient(step, state, names[-1], parameters)
    return found


@cache
def _tape_length(steps: _Steps, states: int, parameters: int, constants: int) -> int:
    """Numbers on the tape for each node."""
    from srs_eval.training.tracing import tape_length

    gradients = _gradients(steps, parameters)
    return max(
        tape_length(
            step, as_function(gradients[f"{key}_adjoint"]), (states, 0, 0), parameters + constants
        )
        for key, step in steps
        if key in _TAPED
    )
