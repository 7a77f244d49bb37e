"""Weights on disk: of networks, and of models of one's own.

A network starts from pretrained weights: those of the folder that the person
names (`Context.weights`), else those installed with the program. Two kinds of file:

    NAME.safetensors      tensors by torch's names (rnn.weight_ih_l0, ...), float32;
                          the metadata says how they were made: "model", "made_by",
                          "seed", "users", "reviews", "date" (strings)
    NAME_pretrain.pth     srs-benchmark's own (torch state_dict)

NAME is that of the configuration with its flags on inputs, such as GRU-P-short; where
there is none, flags are dropped from the end (GRU-P serves GRU-P-recency too).

A model of one's own gets weights from other users: `models pretrain` makes them, --weights names
them. Their file says in its metadata which model it is for, on which users of which data set it was
trained, and how. These people are not evaluated with it, unless that is asked for
(`Context.seen_users`). They are recognised by sketches of their reviews (`data.recognition`).
"""

from __future__ import annotations

import json
import math
import pickle
from collections import OrderedDict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError, NotEnoughData, NotInstalled
from srs_eval.data.paths import VERSION, file_digest, write_file
from srs_eval.data.protocol import Protocol
from srs_eval.data.recognition import Sketches
from srs_eval.data.reviews import FloatArray, ReviewLog, read_only
from srs_eval.training.hyperparameters import Context, Epoch, Value

SHIPPED = Path(__file__).parents[1] / "models" / "weights"
OF_ADAM = ("adam_mean", "adam_square", "adam_steps")
"""Tensors beside the weights, where training goes on from the optimiser's state."""
_KEY = "srs-eval"  # of the metadata: one, for the library writes several in any order
_NUMBERS_ALONE = "the file knows people by their numbers alone, whatever the data set"

Tensors = Mapping[str, NDArray[np.float32]]
Shapes = Mapping[str, tuple[int, ...]]
Arrays = Mapping[str, NDArray[Any]]


# Of networks


def weight_names(model: str, protocol: Protocol) -> tuple[str, ...]:
    """Names of the weight files that fit, the best one first."""
    flags = [flag for flag in ("short", "secs") if getattr(protocol, flag)]
    suffixes = ["-".join(["", *flags]), *(f"-{flag}" for flag in reversed(flags)), ""]
    return tuple(dict.fromkeys(model + suffix for suffix in suffixes))


def load_weights(
    names: Iterable[str], shapes: Shapes, context: Context, besides: Collection[str] = ()
) -> Tensors | None:
    """The tensors of the first of these files that exists; None where there is none.

    `shapes` says which tensors a file must hold, `besides` which others it may hold. Raises
    InputError if a file is damaged or holds another network.
    """
    path = _find_weights(names, context)
    if path is None:
        return None
    tensors = read_tensors(path)
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
        found = read_tensors(path)
        if not any(name in found for name in OF_ADAM):
            return None
        mean, square, taken = (found.get(name, np.empty(0)) for name in OF_ADAM)
        steps = int(taken[0]) if taken.shape == (1,) and np.isfinite(taken[0]) else -1
    else:
        path = path.with_name(path.name.replace("_pretrain.pth", "_opt_pretrain.pth"))
        if not path.is_file():
            return None
        mean, square, steps = _read_adam(path)
    of_this = mean.shape == square.shape == (size,) and steps >= 0
    if not of_this or not np.isfinite([mean, square]).all():
        raise InputError(f"{path.name} does not hold the state of AdamW for this network.")
    return mean.astype(np.float64), square.astype(np.float64), steps


def _read_adam(path: Path) -> tuple[Any, Any, int]:
    """What torch's AdamW saves of parameters 0, 1, ..., each kind as one vector."""
    try:
        state: Any = _read_pth(path)["state"]
        of_each = [state[number] for number in range(len(state))]
        mean, square = (
            np.concatenate([each[kind].ravel() for each in of_each])
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


def require_finite(*arrays: FloatArray | NDArray[np.float32]) -> None:
    """Raises NotEnoughData where training has led to infinities; the pretrained weights serve."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise NotEnoughData("training diverged")


def flat(tensors: Tensors) -> FloatArray:
    """All tensors as one vector, in their order."""
    return np.concatenate([np.ravel(tensor).astype(np.float64) for tensor in tensors.values()])


# Files


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """What a .safetensors or .pth file holds; nothing in it is run.

    Raises InputError where it cannot be read.
    """
    try:
        if path.suffix == ".pth":
            return _read_pth(path)
        from safetensors.numpy import load_file

        return load_file(path)
    except ImportError:
        raise
    except Exception as error:  # the libraries raise whatever they like
        raise InputError(
            f'"{path}" cannot be read as network weights ({type(error).__name__}).'
        ) from error


def _read_pth(path: Path) -> dict[str, Any]:
    """What torch.save has made of dictionaries of tensors."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        (listing,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = listing.removesuffix("data.pkl")

        class Reader(pickle.Unpickler):
            def find_class(self, module: str, name: str) -> Any:
                return _ALLOWED[module, name]  # and nothing else

            def persistent_load(self, identity: Any) -> NDArray[Any]:
                _, kind, key, *_ = identity
                return np.frombuffer(archive.read(f"{folder}data/{key}"), kind)

        with archive.open(listing) as file:
            return dict(Reader(file).load())


def _tensor(storage: NDArray[Any], offset: int, size: Any, stride: Any, *rest: Any) -> NDArray[Any]:
    if math.prod(size) > len(storage):
        raise ValueError("a tensor repeats its storage")
    bytes_each = storage.itemsize
    steps = [bytes_each * each for each in stride]
    whole = np.ndarray(size, storage.dtype, storage.data, bytes_each * offset, steps)
    return whole.copy()


_ALLOWED: Mapping[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch", "FloatStorage"): "<f4",
    ("torch", "HalfStorage"): "<f2",
    ("torch", "DoubleStorage"): "<f8",
    ("torch", "LongStorage"): "<i8",
}


# Of models of one's own


@dataclass(frozen=True)
class Origin:
    """How weights were made, as the metadata of their file has it beside "model" and "version"."""

    users: str  # that they were trained on: "1-5000"
    data: str = ""  # fingerprint of these users' data set
    sketches: tuple[str, ...] = ()  # of each of these users' reviews (`sketch_of`)
    settings: Mapping[str, Value] = field(default_factory=dict)
    epochs: Sequence[Epoch] = ()


class Pretrained(NamedTuple):
    """A file of weights."""

    path: Path
    model: str
    users: str  # that it was trained on: "1-5000"
    sketches: Sketches | None = None  # of these; None in files that know ids alone

    def __str__(self) -> str:
        """As set-ups and remarks name it."""
        return f"{self.path.name} ({file_digest(self.path)[:16]}), trained on users {self.users}"

    def has_seen(self, log: ReviewLog) -> bool:
        """Whether it was trained on this person; of a file without sketches, on this number."""
        if self.sketches is None:
            return self._names(log.user)
        return self.sketches.recognise(log)

    def describe_seen(self, log: ReviewLog) -> str:
        """Say that it was trained on the person of these reviews, which it `has_seen`."""
        name, users = self.path.name, self.users
        if self._names(log.user):
            return f"{name} was trained on users {users}{self.doubt}"
        return f"{name} was trained on this person, under another number among its users {users}"

    @property
    def doubt(self) -> str:
        """What belongs behind the users of a file that does not know them by their reviews."""
        return f" ({_NUMBERS_ALONE})" if self.sketches is None else ""

    def _names(self, user: int | None) -> bool:
        from srs_eval.data.datasets import id_spans

        return user is not None and any(a <= user <= b for a, b in id_spans(self.users))

    def arrays(self) -> Arrays:
        return _arrays(self.path, file_digest(self.path))


@cache
def _arrays(path: Path, digest: str) -> Arrays:
    """Read once for all users and partitions."""
    return read_only(read_tensors(path))


def save_pretrained(path: Path, model: str, origin: Origin, arrays: Arrays) -> None:
    """Write weights. Raises InputError where they are none, or not finite, or cannot be written."""
    from safetensors.numpy import save

    if not arrays or not all(isinstance(each, np.ndarray) for each in arrays.values()):
        raise InputError(f"The pretraining of {model} returns no arrays of numpy by name.")
    if not all(np.isfinite(each).all() for each in arrays.values()):
        raise InputError(f"The pretraining of {model} led to numbers that are not finite.")
    about = {_KEY: json.dumps({"model": model, "version": VERSION, **asdict(origin)})}
    write_file(path, save({key: np.ascontiguousarray(each) for key, each in arrays.items()}, about))


def pretrained_for(model: str, log: ReviewLog, context: Context) -> Pretrained | None:
    """The file of --weights for a model that a learner is new to; None where none is for the model.

    Raises NotInstalled, which is a skip, where all were trained on the learner.
    """
    found = [each for each in _given(context) if each.model == model]
    new = [each for each in found if context.seen_users or not each.has_seen(log)]
    if found and not new:
        seen = ", ".join(each.describe_seen(log) for each in found)
        raise NotInstalled(f"{seen}; --seen-users evaluates them all the same")
    return next(iter(new), None)


def names_of_pretrained(model: str, context: Context) -> str:
    """The files of --weights for a model, as a set-up names them; "" for none."""
    return "; ".join(str(each) for each in _given(context) if each.model == model)


def refuse_unused(context: Context, models: Container[str]) -> None:
    """Raises InputError where a file of --weights is for none of these models."""
    for each in _given(context):
        if each.model not in models:
            raise InputError(
                f'"{each.path}" has weights of {each.model}, which is not among the models.'
            )


def is_pretrained(path: Path | None) -> bool:
    """Whether a file is one of these."""
    return path is not None and path.is_file() and _about(path) is not None


def _given(context: Context) -> list[Pretrained]:
    path = context.weights
    paths = [] if path is None else sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    return list(filter(None, map(_about, paths)))


def _about(path: Path) -> Pretrained | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return _about_as_of(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=64)  # a batch asks for each user, and a file may name thousands of learners
def _about_as_of(path: Path, changed_ns: int, size: int) -> Pretrained | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            said = json.loads((file.metadata() or {})[_KEY])
            sketches = Sketches.of(said["sketches"]) if "sketches" in said else None
            return Pretrained(path, said["model"], said["users"], sketches)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError):
        return None  # of something else; who wants its weights will say what is wrong
