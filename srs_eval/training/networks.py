"""Networks: their weights on disk, and the training that the small ones share.

Weights. A network starts from pretrained weights: those of the folder that the person
names (`Context.weights`), else those installed with the program. Two kinds of file:

    NAME.safetensors      tensors by torch's names (rnn.weight_ih_l0, ...), float32;
                          the metadata says how they were made: "model", "made_by",
                          "seed", "users", "reviews", "date" (strings)
    NAME_pretrain.pth     srs-benchmark's own (torch state_dict)

NAME is that of the configuration with its flags on inputs, such as GRU-P-short; where
there is none, flags are dropped from the end (GRU-P serves GRU-P-recency too).

Training of the small ones: srs-benchmark other.py `Trainer` (January 2025) keeps the
weights with the least training loss, but the dictionary that it keeps refers to the
network's own tensors, so that what it returns are the last ones. So it is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError, NotEnoughData, NotInstalled, require
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray, read_only
from srs_eval.data.trials import Trials
from srs_eval.training import hyperparameters
from srs_eval.training.hyperparameters import Context
from srs_eval.training.optimisers import permutations, quicksort_order
from srs_eval.training.trie import Trie, TrieBatches, history_trie, trie_batches

SHIPPED = Path(__file__).parents[1] / "models" / "weights"
OF_ADAM = ("adam_mean", "adam_square", "adam_steps")
"""Tensors beside the weights, where training goes on from the optimiser's state."""
SEED = 2023  # of the order of batches
_SHUFFLE_SEED = 2025
_AT_ONCE = 64  # batches between two looks at whether the person has cancelled

Tensors = Mapping[str, NDArray[np.float32]]
Shapes = Mapping[str, tuple[int, ...]]


# Weights on disk


def weight_names(model: str, protocol: Protocol) -> tuple[str, ...]:
    """Names of the weight files that fit, the best one first."""
    flags = [flag for flag in ("short", "secs") if getattr(protocol, flag)]
    suffixes = ["-".join(["", *flags]), *(f"-{flag}" for flag in reversed(flags)), ""]
    return tuple(dict.fromkeys(model + suffix for suffix in suffixes))


def load_weights(
    names: Iterable[str], shapes: Shapes, context: Context, besides: Collection[str] = ()
) -> Tensors | None:
    """The tensors of the first of these files that exists, read-only; None where there is none.

    `shapes` says which tensors a file must hold, `besides` which others it may hold. Raises
    InputError if a file is damaged or holds another network.
    """
    path = _find_weights(names, context)
    if path is None:
        return None
    stat = path.stat()
    tensors = _read(path, stat.st_mtime_ns, stat.st_size)
    for name, shape in shapes.items():
        if name not in tensors:
            raise InputError(f"{path.name} is not for this network: it lacks the tensor {name}.")
        if tensors[name].shape != shape:
            raise InputError(
                f"{path.name} is not for this network: {name} has the shape "
                f"{tensors[name].shape}, not {shape}."
            )
        if not np.isfinite(tensors[name]).all():
            raise InputError(f"{path.name} is damaged: {name} holds numbers that are not finite.")
    for name, tensor in tensors.items():
        if name not in shapes and name not in besides:
            raise InputError(
                f"{path.name} is not for this network: it has a further tensor, {name}."
            )
        if tensor.dtype != np.float32:
            raise InputError(
                f"{path.name} is not for this network: {name} is of {tensor.dtype}, not float32."
            )
    return {name: tensors[name] for name in shapes}


def _find_weights(names: Iterable[str], context: Context) -> Path | None:
    """The weight file that serves, from the person's folder if they name one."""
    given = context.weights
    folder = SHIPPED if given is None or given.is_file() else given
    for name in names:
        for path in (folder / f"{name}.safetensors", folder / f"{name}_pretrain.pth"):
            if path.is_file():
                return path
    return None


def optimiser_state(
    names: Iterable[str], shapes: Shapes, context: Context
) -> tuple[FloatArray, FloatArray, int] | None:
    """AdamW's running means of gradient and square (p,) and its steps, as pretraining left them.

    Of the file that `_find_weights` finds: the tensors OF_ADAM beside the weights, or
    srs-benchmark's NAME_opt_pretrain.pth. None where there are none. Raises InputError if they
    are damaged or those of another network.
    """
    path = _find_weights(names, context)
    if path is None:
        return None
    size = sum(math.prod(shape) for shape in shapes.values())
    if path.suffix == ".safetensors":
        stat = path.stat()
        found = _read(path, stat.st_mtime_ns, stat.st_size)
        if not any(name in found for name in OF_ADAM):
            return None
        mean, square, taken = (found.get(name, np.empty(0)) for name in OF_ADAM)
        steps = int(taken[0]) if taken.shape == (1,) and np.isfinite(taken[0]) else -1
    else:
        path = path.with_name(path.name.replace("_pretrain.pth", "_opt_pretrain.pth"))
        if not path.is_file():
            return None
        mean, square, steps = _read_adam(path, path.stat().st_mtime_ns)
    of_this = mean.shape == square.shape == (size,) and steps >= 0
    if not of_this or not np.isfinite([mean, square]).all():
        raise InputError(f"{path.name} does not hold the state of AdamW for this network.")
    return mean.astype(np.float64), square.astype(np.float64), steps


@cache
def _read_adam(path: Path, changed_ns: int) -> tuple[Any, Any, int]:
    """What torch's AdamW saves of parameters 0, 1, ..., each kind as one vector."""
    require("torch", path.name)
    import torch

    try:
        state = torch.load(path, map_location="cpu", weights_only=True)["state"]
        of_each = [state[number] for number in range(len(state))]
        mean, square = (
            np.concatenate([each[kind].numpy().ravel() for each in of_each])
            for kind in ("exp_avg", "exp_avg_sq")
        )
        return mean, square, int(of_each[0]["step"])
    except Exception as error:  # the libraries raise whatever they like
        raise InputError(
            f"{path.name} cannot be read as the state of AdamW ({type(error).__name__})."
        ) from error


def no_weights(model: str, names: Iterable[str], context: Context) -> InputError:
    """What to say where `load_weights` finds nothing."""
    if context.weights is None or context.weights.is_file():
        return NotInstalled(
            f"Pretrained weights for {model} are not installed; give --weights DIR."
        )
    listed = " or ".join(f"{name}.safetensors" for name in names)
    return InputError(f"{context.weights} holds no weights for {model}: no {listed}.")


@cache
def _read(path: Path, changed_ns: int, size: int) -> Tensors:
    try:
        if path.suffix == ".safetensors":
            from safetensors.numpy import load_file

            found: Mapping[str, Any] = load_file(path)
        else:
            require("torch", path.name)
            import torch

            state = torch.load(path, map_location="cpu", weights_only=True)
            found = {name: tensor.numpy() for name, tensor in state.items()}
        return read_only({name: np.asarray(tensor) for name, tensor in found.items()})
    except (ImportError, NotInstalled):
        raise
    except Exception as error:  # the libraries raise whatever they like
        raise InputError(
            f"{path.name} cannot be read as network weights ({type(error).__name__})."
        ) from error


def require_finite(*arrays: FloatArray | NDArray[np.float32]) -> None:
    """Raises NotEnoughData where training has led to infinities; the pretrained weights serve."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise NotEnoughData("training diverged")


# What LSTM and GRU-503 share: tuning to one learner


def recency(n: int, weight: float, degree: float) -> FloatArray:
    """Training weights of n rows in order of review, 1 + weight x^degree over their mean."""
    weights = 1.0 + weight * np.power(np.linspace(0, 1, n), degree)
    scaled: FloatArray = weights * (n / weights.sum())
    return scaled


def shuffled_rows(trials: Trials, train: IntArray, context: Context) -> IntArray:
    """The rows that are trained on, in random order."""
    random = np.random.RandomState(_SHUFFLE_SEED + hyperparameters.SEED.integer(context))
    return training_rows(trials, train[random.permutation(len(train))])


# Recurrent networks of one layer


_START = hyperparameters.Hyperparameter("start", "pretrained", choices=("pretrained", "random"))


@dataclass(frozen=True)
class Network:
    """A recurrent network of one layer, and how it is trained."""

    name: str
    cell: int  # as in cells
    head: int
    hidden: int
    one_hot: bool = False  # inputs are days and four indicators of the rating, else the rating
    following_interval: bool = False
    """Each rating comes with the interval that follows it, the last with the trial's own."""
    rate: float = 4e-2
    decay: float = 1e-5
    epochs: int = 5
    starts_anyhow: bool = False  # from random weights, where no pretrained ones are found

    @property
    def hyperparameters(self) -> tuple[hyperparameters.Hyperparameter, ...]:
        """What `_fit_network` can be set to by the context."""
        return (
            hyperparameters.learning_rate(self.rate),
            hyperparameters.epochs(self.epochs),
            hyperparameters.batch_size(),
            *((hyperparameters.penalty("decay", self.decay),) if self.decay else ()),
            hyperparameters.SEED,
            *(() if self.starts_anyhow else (_START,)),
        )

    @property
    def inputs(self) -> int:
        return 5 if self.one_hot else 2

    @property
    def shapes(self) -> Shapes:
        """Tensors in the order of the parameters."""
        gates = (3, 1, 4)[self.cell] * self.hidden
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


def _pretrained(network: Network, trials: Trials, context: Context) -> FloatArray:
    """Where training begins (p,). Raises InputError where there are no weights."""
    names = weight_names(network.name, trials.protocol)
    tensors = None
    if _START.of(context) == "pretrained":
        tensors = load_weights(names, network.shapes, context)
        if tensors is None and not network.starts_anyhow:
            raise no_weights(network.name, names, context)
    return random_start(network, context) if tensors is None else flat(tensors)


def random_start(network: Network, context: Context) -> FloatArray:
    """torch's initial values, uniform within 1/sqrt(hidden), from one seed per user."""
    bound = network.hidden**-0.5
    seed = 42 + hyperparameters.SEED.integer(context)
    return np.random.default_rng([seed, abs(context.user)]).uniform(
        -bound, bound, network.parameters
    )


def flat(tensors: Tensors) -> FloatArray:
    """All tensors as one vector, in their order."""
    return np.concatenate([np.ravel(tensor).astype(np.float64) for tensor in tensors.values()])


def length_order(trials: Trials, rows: IntArray) -> IntArray:
    """Rows by history length, ties in the order that fsrs-optimizer 5 gives them."""
    return rows[quicksort_order(trials.sequence_length[rows])]


def training_rows(trials: Trials, train: IntArray) -> IntArray:
    """The rows that are trained on: those with a history that is not too long."""
    rows = train[trials.sequence_length[train] <= trials.protocol.max_seq_len]
    if not len(rows):
        raise NotEnoughData("all histories are too long to train on")
    return rows


def _fit_network(
    network: Network,
    start: FloatArray,
    trials: Trials,
    train: IntArray,
    weights: FloatArray,
    context: Context,
) -> list[float]:
    """Parameters after the last epoch, `start` being where training begins."""
    from srs_eval.training.cells import Adam, network_pass
    from srs_eval.training.compile import compiled

    given = context.hyperparameters
    order = length_order(trials, training_rows(trials, train))
    size = int(given.get("batch_size", trials.protocol.batch_size))
    epochs = int(given.get("epochs", network.epochs))
    parts = [order[k : k + size] for k in range(0, len(order), size)]
    weight_of = np.ones(len(trials))
    weight_of[train] = weights
    batches = trie_batches(_trie(network, trials), trials, parts, weight_of)
    x = _inputs(network, batches)
    w = start.copy()
    adam = Adam(
        mean=np.zeros(len(w)),
        square=np.zeros(len(w)),
        rate=float(given.get("learning_rate", network.rate)),
        decay=float(given.get("decay", network.decay)),
        steps=len(parts) * epochs,
    )
    scratch = _scratch(network, batches, len(w))
    orders = permutations(len(parts), SEED + hyperparameters.SEED.integer(context))
    run = compiled(network_pass)
    done = 0
    for _ in range(epochs):
        visits = next(orders)
        for first in range(0, len(visits), _AT_ONCE):
            some = visits[first : first + _AT_ONCE]
            run(_shape(network), some, done, w, batches, x, adam, scratch)
            done += len(some)
            context.tick(done / adam.steps)
    require_finite(w)
    return w.tolist()


def predict_network(
    network: Network, parameters: FloatArray, trials: Trials, index: IntArray
) -> FloatArray:
    """Probability of recall at the positions `index` (same shape), in float32's steps."""
    from srs_eval.training.cells import Adam, network_pass
    from srs_eval.training.compile import compiled

    if not len(index):
        return np.empty(0)
    batches = trie_batches(_trie(network, trials), trials, [index])
    none = np.zeros(0)
    scratch = _scratch(network, batches, len(parameters))
    compiled(network_pass)(
        _shape(network),
        np.zeros(1, np.int64),
        -1,
        np.asarray(parameters, np.float64),
        batches,
        _inputs(network, batches),
        Adam(none, none, 0.0, 0.0, 0),
        scratch,
    )
    return scratch.recall[batches.target].astype(np.float32).astype(np.float64)


def functions(network: Network) -> tuple[Fit, Predict]:
    """`fit` and `predict` of a `Model`."""

    def fit(trials: Trials, train: IntArray, weights: FloatArray, context: Context) -> list[float]:
        start = _pretrained(network, trials, context)
        return _fit_network(network, start, trials, train, weights, context)

    def predict(trials: Trials, parameters: Any, index: IntArray, context: Context) -> FloatArray:
        """`parameters` empty: those that training begins with."""
        w = np.array(parameters) if len(parameters) else _pretrained(network, trials, context)
        return predict_network(network, w, trials, index)

    return fit, predict


def _shape(network: Network) -> Any:
    from srs_eval.training.cells import Shape

    return Shape(network.cell, network.head, network.inputs, network.hidden)


def _trie(network: Network, trials: Trials) -> Trie:
    if not network.following_interval:
        return history_trie(trials, same_day=False)
    return trials.derived(_following_trie)


def _following_trie(trials: Trials) -> Trie:
    """As `history_trie`, each review with the interval to the next one of its card."""
    following = np.roll(trials.history_delta_t, -1)
    return history_trie(replace(trials, history_delta_t=following), same_day=False)


def _inputs(network: Network, batches: TrieBatches) -> FloatArray:
    """What a cell sees at each node (inputs, nodes), rounded as float32 does."""
    days = batches.delta_t.astype(np.float32).astype(np.float64)
    if not network.one_hot:
        return np.stack([days, batches.rating])
    return np.stack([days, *(batches.rating == rating for rating in (1, 2, 3, 4))]).astype(
        np.float64
    )


def _scratch(network: Network, batches: TrieBatches, parameters: int) -> Any:
    from srs_eval.training.cells import LSTM, Scratch
    from srs_eval.training.elementwise import LANES

    nodes = int(np.diff(batches.first_node).max())
    states = network.hidden * (2 if network.cell == LSTM else 1)
    return Scratch(
        state=np.zeros((states, nodes)),
        bar=np.zeros((states, nodes)),
        kept=np.zeros((5 * network.hidden, nodes)),
        w_bar=np.zeros((parameters, LANES)),
        before=np.zeros((states, LANES)),
        before_bar=np.zeros((states, LANES)),
        recall=np.zeros(len(batches.target_node)),
    )


Fit = Callable[[Trials, IntArray, FloatArray, Context], Any]
Predict = Callable[[Trials, Any, IntArray, Context], FloatArray]
