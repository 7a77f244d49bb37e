"""Read and write the weights of networks and of user-supplied models.

A network starts from pretrained weights: from the folder that the user names
(`Context.weights`), else from the weights installed with the program. There are two kinds of file:

    NAME.safetensors      tensors by torch's names (rnn.weight_ih_l0, ...), float32;
                          the metadata says how they were made: "model", "made_by",
                          "seed", "users", "reviews", "date" (strings)
    NAME_pretrain.pth     srs-benchmark's own (torch state_dict)

NAME is that of the model with the configuration's flags on inputs (-short, -secs), such as
GRU-P-short. If there is no such file, one of the flags is left out, then both: GRU-P serves
GRU-P-short, too.

A user-supplied model can have weights that were trained on other people: `models pretrain` makes
them, --weights names them. The metadata of their file say which model it is for, on which users of
which data set it was trained, and how. The model is not evaluated on these people, unless
`Context.seen_users` is set. They are recognised by sketches of their reviews (`data.recognition`).
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
from srs_eval.data.file_contents import file_digest
from srs_eval.data.outputs import write_file
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.data.recognition import Sketches
from srs_eval.data.reviews import FloatArray, ReviewLog, make_read_only
from srs_eval.training.hyperparameters import Context, Epoch, Value

SHIPPED_WEIGHTS = Path(__file__).parents[1] / "models" / "weights"
ADAM_TENSORS = ("adam_mean", "adam_square", "adam_steps")
"""Tensors beside the weights, if training continues from the optimiser's state."""
_METADATA_KEY = "srs-eval"  # the only one, since the library writes several in any order
_IDS_ONLY_WARNING = "the file identifies people only by user number, whatever the data set"

Tensors = Mapping[str, NDArray[np.float32]]
Shapes = Mapping[str, tuple[int, ...]]
Arrays = Mapping[str, NDArray[Any]]


# Weights of networks


def list_weight_names(model: str, protocol: Protocol) -> tuple[str, ...]:
    """Return the names that a model's weight file may have, the best one first."""
    flags = [flag for flag in ("short", "secs") if getattr(protocol, flag)]
    all_flags = "".join(f"-{flag}" for flag in flags)
    single_flags = [f"-{flag}" for flag in reversed(flags)]
    suffixes = [all_flags, *single_flags, ""]
    return tuple(dict.fromkeys(model + suffix for suffix in suffixes))


def load_network_weights(
    names: Iterable[str], shapes: Shapes, context: Context, optional: Collection[str] = ()
) -> Tensors | None:
    """Return the tensors of the first of these files that exists, or None if there is none.

    `shapes` says which tensors a file must hold, `optional` which others it may hold. Raises
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
        if name not in shapes and name not in optional:
            raise InputError(
                f"{path.name} is not for this network: it has an extra tensor, {name}."
            )
        if tensor.dtype != np.float32:
            raise InputError(
                f"{path.name} is not for this network: {name} is of {tensor.dtype}, not float32."
            )
    return {name: tensors[name] for name in shapes}


def _find_weights(names: Iterable[str], context: Context) -> Path | None:
    """Return the weight file to use, from the user's folder if there is one."""
    folder = context.weights
    if folder is None or folder.is_file():
        folder = SHIPPED_WEIGHTS
    for name in names:
        for path in (folder / f"{name}.safetensors", folder / f"{name}_pretrain.pth"):
            if path.is_file():
                return path
    return None


def load_optimiser_state(
    names: Iterable[str], shapes: Shapes, context: Context
) -> tuple[FloatArray, FloatArray, int] | None:
    """Return AdamW's running means of gradient and square (p,) and its steps after pretraining.

    They come from the tensors ADAM_TENSORS beside the weights in the file that `_find_weights`
    finds, or from srs-benchmark's NAME_opt_pretrain.pth. Returns None if there are none. Raises
    InputError if they are damaged or belong to another network.
    """
    path = _find_weights(names, context)
    if path is None:
        return None
    size = sum(math.prod(shape) for shape in shapes.values())
    if path.suffix == ".safetensors":
        tensors = read_tensors(path)
        if not any(name in tensors for name in ADAM_TENSORS):
            return None
        mean, square, step_count = (tensors.get(name, np.empty(0)) for name in ADAM_TENSORS)
        is_number = step_count.shape == (1,) and np.isfinite(step_count[0])
        steps = int(step_count[0]) if is_number else -1
    else:
        path = path.with_name(path.name.replace("_pretrain.pth", "_opt_pretrain.pth"))
        if not path.is_file():
            return None
        mean, square, steps = _read_torch_adam(path)
    is_of_this_network = mean.shape == square.shape == (size,) and steps >= 0
    if not is_of_this_network or not np.isfinite([mean, square]).all():
        raise InputError(f"{path.name} does not hold the state of AdamW for this network.")
    return mean.astype(np.float64), square.astype(np.float64), steps


def _read_torch_adam(path: Path) -> tuple[Any, Any, int]:
    """Read the means, squares and steps of an AdamW that torch saved, as `load_optimiser_state`."""
    try:
        state: Any = _read_pth(path)["state"]
        states = [state[number] for number in range(len(state))]
        mean = np.concatenate([parameter["exp_avg"].ravel() for parameter in states])
        square = np.concatenate([parameter["exp_avg_sq"].ravel() for parameter in states])
        return mean, square, int(states[0]["step"])
    except Exception as error:  # the libraries raise whatever they like
        raise InputError(
            f"{path.name} cannot be read as the state of AdamW ({type(error).__name__})."
        ) from error


def missing_weights_error(model: str, names: Iterable[str], context: Context) -> InputError:
    """Return the error to raise if `load_network_weights` finds nothing."""
    if context.weights is None or context.weights.is_file():
        return NotInstalled(
            f"Pretrained weights for {model} are not installed; give --weights DIR."
        )
    files = " or ".join(f"{name}.safetensors" for name in names)
    return InputError(f"{context.weights} holds no weights for {model}: no {files}.")


def require_finite(*arrays: FloatArray | NDArray[np.float32]) -> None:
    """Raise NotEnoughData, after which pretrained weights serve, if training led to infinities."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise NotEnoughData("training diverged")


def flatten(tensors: Tensors) -> FloatArray:
    """Return all tensors as one vector, in their order."""
    return np.concatenate([np.ravel(tensor).astype(np.float64) for tensor in tensors.values()])


# Files


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read the tensors of a .safetensors or .pth file without running anything in it.

    Raises InputError if it cannot be read.
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
    """Read dictionaries of tensors that torch.save has written."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        (listing,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = listing.removesuffix("data.pkl")

        class Reader(pickle.Unpickler):
            def find_class(self, module: str, name: str) -> Any:
                return _ALLOWED_CLASSES[module, name]  # refuses all others

            def persistent_load(self, identity: Any) -> NDArray[Any]:
                _, kind, key, *_ = identity
                return np.frombuffer(archive.read(f"{folder}data/{key}"), kind)

        with archive.open(listing) as file:
            return dict(Reader(file).load())


def _rebuild_tensor(
    storage: NDArray[Any], offset: int, size: Any, stride: Any, *rest: Any
) -> NDArray[Any]:
    """Return a tensor as `torch._utils._rebuild_tensor_v2` does."""
    if math.prod(size) > len(storage):
        raise ValueError("a tensor repeats its storage")
    bytes_each = storage.itemsize
    byte_strides = [bytes_each * elements for elements in stride]
    view = np.ndarray(size, storage.dtype, storage.data, bytes_each * offset, byte_strides)
    return view.copy()


_ALLOWED_CLASSES: Mapping[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch", "FloatStorage"): "<f4",
    ("torch", "HalfStorage"): "<f2",
    ("torch", "DoubleStorage"): "<f8",
    ("torch", "LongStorage"): "<i8",
}


# Weights of user-supplied models


@dataclass(frozen=True)
class WeightsOrigin:
    """What the metadata of a weight file say, besides "model" and "version", on its making."""

    users: str  # the users that the weights were trained on: "1-5000"
    data: str = ""  # fingerprint of these users' data set
    sketches: tuple[str, ...] = ()  # one for the reviews of each of these users
    settings: Mapping[str, Value] = field(default_factory=dict)
    epochs: Sequence[Epoch] = ()
    left_out: str = ""  # "part 2 of 5" where a batch trained on all parts of its users but this
    setup: str = ""  # digest of everything else that a batch's training depends on


class PretrainedFile(NamedTuple):
    """A file of weights."""

    path: Path
    model: str
    users: str  # the users that it was trained on: "1-5000"
    sketches: Sketches | None = None  # of these users; None in files that know only their numbers
    settings: Mapping[str, Value] = {}  # of the training
    epochs: tuple[Epoch, ...] = ()  # of the training, in order
    left_out: str = ""  # see `WeightsOrigin`
    setup: str = ""

    def __str__(self) -> str:
        """Return the description that set-ups and remarks use."""
        return (
            f"{self.path.name} ({file_digest(self.path)[:16]}), trained on {self._users_in_words}"
        )

    def has_seen(self, log: ReviewLog) -> bool:
        """Return whether it was trained on this person; without sketches, on this user number."""
        if self.sketches is None:
            return self._includes_user(log.user)
        return self.sketches.recognise(log)

    def describe_seen(self, log: ReviewLog) -> str:
        """Say that the file was trained on the person with these reviews, which it `has_seen`."""
        name = self.path.name
        users = self._users_in_words
        if self._includes_user(log.user):
            return f"{name} was trained on {users}{self.ids_only_warning}"
        return f"{name} was trained on this person, under another number among its {users}"

    @property
    def ids_only_warning(self) -> str:
        """Return the warning that follows the users of a file without sketches, else ""."""
        return f" ({_IDS_ONLY_WARNING})" if self.sketches is None else ""

    @property
    def _users_in_words(self) -> str:
        """Return "users 1-5000"; users that were dealt into parts are too many ranges to name."""
        return f"users outside {self.left_out}" if self.left_out else f"users {self.users}"

    def _includes_user(self, user: int | None) -> bool:
        from srs_eval.data.datasets import parse_id_ranges

        if user is None:
            return False
        return any(first <= user <= last for first, last in parse_id_ranges(self.users))

    def read_arrays(self) -> Arrays:
        return _read_arrays(self.path, file_digest(self.path))


@cache
def _read_arrays(path: Path, digest: str) -> Arrays:
    """Read the arrays once for all users and partitions."""
    return make_read_only(read_tensors(path))


def save_pretrained(path: Path, model: str, origin: WeightsOrigin, arrays: Arrays) -> None:
    """Write a file of weights.

    Raises InputError as `encode_pretrained` does, and if the file cannot be written.
    """
    write_file(path, encode_pretrained(model, origin, arrays))


def encode_pretrained(model: str, origin: WeightsOrigin, arrays: Arrays) -> bytes:
    """Return the content of a file of weights.

    Raises InputError if there are none, or if some are not finite.
    """
    from safetensors.numpy import save

    if not arrays or not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise InputError(f"pretrain of {model} must return a dictionary of NumPy arrays.")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise InputError(f"The pretraining of {model} led to numbers that are not finite.")
    description = {"model": model, "version": VERSION, **asdict(origin)}
    for key in ("left_out", "setup"):
        if not description[key]:  # only a batch has them
            del description[key]
    metadata = {_METADATA_KEY: json.dumps(description)}
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content: bytes = save(contiguous, metadata)
    return content


def find_pretrained(
    model: str, log: ReviewLog, context: Context, own_file: Path | None = None
) -> PretrainedFile | None:
    """Return the model's first file in --weights that was not trained on the learner.

    `own_file` is the only file that may be used, in the place of those in --weights. With
    `seen_users`, a file that was trained on the learner is allowed, too. Returns None if no file is
    for the model. Raises NotInstalled, so that the model is skipped, if all its files were trained
    on the learner.
    """
    if own_file is not None:
        files = [read_pretrained_file(own_file)]
    else:
        files = [file for file in _find_pretrained_files(context) if file.model == model]
    usable = [file for file in files if context.seen_users or not file.has_seen(log)]
    if files and not usable:
        reasons = ", ".join(file.describe_seen(log) for file in files)
        raise NotInstalled(f"{reasons}; use --seen-users to evaluate them anyway")
    return usable[0] if usable else None


def describe_pretrained(model: str, context: Context) -> str:
    """Describe the model's files in --weights for its set-up; "" for none."""
    files = [file for file in _find_pretrained_files(context) if file.model == model]
    return "; ".join(str(file) for file in files)


def refuse_unused_weights(context: Context, models: Container[str]) -> None:
    """Raise InputError if a file in --weights is for none of these models."""
    for file in _find_pretrained_files(context):
        if file.model not in models:
            raise InputError(
                f'"{file.path}" has weights of {file.model}, which is not among the models.'
            )


def is_pretrained_file(path: Path | None) -> bool:
    """Return whether the path is a file of weights for a user-supplied model."""
    return path is not None and path.is_file() and _read_metadata(path) is not None


def read_pretrained_file(path: Path) -> PretrainedFile:
    """Return what a file of `srs-eval models pretrain` says about itself. Raises InputError."""
    file = _read_metadata(path)
    if file is None:
        raise InputError(f'"{path}" is not a file of weights from `srs-eval models pretrain`.')
    return file


def _find_pretrained_files(context: Context) -> list[PretrainedFile]:
    path = context.weights
    if path is None:
        return []
    paths = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    files = [_read_metadata(path) for path in paths]
    return [file for file in files if file is not None]


def _read_metadata(path: Path) -> PretrainedFile | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return _read_metadata_cached(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)  # a batch asks for each user, and a file may name thousands of learners
def _read_metadata_cached(path: Path, modified_ns: int, size: int) -> PretrainedFile | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            origin = json.loads((file.metadata() or {})[_METADATA_KEY])
            sketches = Sketches.of(origin["sketches"]) if "sketches" in origin else None
            epochs = tuple(Epoch(**epoch) for epoch in origin.get("epochs", ()))
            settings = origin.get("settings", {})
            left_out = origin.get("left_out", "")
            setup = origin.get("setup", "")
            return PretrainedFile(
                path, origin["model"], origin["users"], sketches, settings, epochs, left_out, setup
            )
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError):
        return None  # another kind of file; the reader of its weights will report what is wrong
