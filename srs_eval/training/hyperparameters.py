"""Settings of a run besides the protocol, and hyperparameters of a model's training.

A model declares its hyperparameters, such as the learning rate (`TrainedModel.hyperparameters`),
and reads a run's values from the context; where the run sets none, the default applies.
`benchmark.audit` looks for better values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from srs_eval.data.arguments import (
    A_FILE,
    A_FILE_OR_FOLDER,
    argument_error,
    check_flag,
    check_function,
    check_mapping,
    check_number,
    check_path,
    check_type,
    check_whole_number,
)
from srs_eval.data.errors import InputError
from srs_eval.data.file_contents import digest_files, file_digest
from srs_eval.data.protocol import Protocol

Value = float | str


class Cancelled(Exception):
    """Raised by `Context.tick` when the user has cancelled."""


def _ignore_progress(fraction: float) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class Epoch:
    """One pass of a training over its reviews."""

    loss: float | None  # mean log loss during the training pass; None if it only evaluated
    held_out_loss: float | None  # after the pass, on learners outside the training data


def _ignore_record(training_record: TrainingRecord) -> None:
    """Ignore the training's record."""


@dataclass
class TrainingRecord:
    """The settings and losses of a pretraining, to be printed and saved with the weights."""

    settings: dict[str, Value] = field(default_factory=dict)
    epochs: list[Epoch] = field(default_factory=list)
    on_change: Callable[[TrainingRecord], None] = _ignore_record

    def begin(self, **settings: Value) -> None:
        """Record the settings of the training, such as its seed and its learning rate."""
        self.settings |= settings
        self.on_change(self)

    def add_epoch(self, loss: float | None, held_out_loss: float | None = None) -> None:
        """Record one more epoch."""
        self.epochs.append(Epoch(loss, held_out_loss))
        self.on_change(self)


@dataclass(frozen=True)
class Context:
    """Settings of a run that are not rules of the protocol."""

    sm2_target: float = 0.9  # retention that SM-2's intervals are assumed to aim at
    weights: Path | None = None  # folder of pretrained network weights, or RWKV's file
    features: Path | None = None  # user-supplied table about cards or notes
    seen_users: bool = False  # evaluate users that `weights` were trained on, too
    device: str = "cpu"
    user: int = 0  # seeds the random streams of networks
    hyperparameters: Mapping[str, Value] = field(default_factory=dict)
    """Overridden hyperparameters of the model's training. The engine takes them from
    `Configuration.hyperparameters`."""
    pretrained: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The arrays that `TrainedModel.pretrain` returned, read from `weights` by the engine."""
    other_users_weights: Mapping[str, Path] = field(default_factory=dict)
    """Files of weights that a batch trained on users other than the evaluated one, by configuration
    (`--split users`)."""
    record: TrainingRecord | None = field(default=None, compare=False)
    """Settings and losses that `TrainedModel.pretrain` records; None while models are fitted."""
    tick: Callable[[float], None] = _ignore_progress
    """Call it often with the fraction of this fit that is done; it may raise Cancelled."""

    def __post_init__(self) -> None:
        """Accept paths as text, too. Raises InputError for a value of another type."""
        target = "a number between 0 and 1"
        check_number("sm2_target", self.sm2_target, target)
        if not 0 < self.sm2_target < 1:
            raise argument_error("sm2_target", target, self.sm2_target)
        for name, words in (("weights", A_FILE_OR_FOLDER), ("features", A_FILE)):
            path = getattr(self, name)
            if path is not None:
                check_path(name, words, path)
                object.__setattr__(self, name, Path(path))
        check_flag("seen_users", self.seen_users)
        check_type("device", "a string such as 'cpu' or 'cuda:1'", self.device, str)
        check_whole_number("user", self.user)
        check_mapping("hyperparameters", "a dictionary of values by name", self.hyperparameters)
        check_function("tick", "a function of the fraction done", self.tick)

    def settings(self) -> dict[str, float | int | str | None]:
        """Return the settings that figures of every configuration may depend on, by name.

        The weights and the table of features are represented by digests of their files.
        """
        settings = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        for name in (
            "tick",
            "hyperparameters",
            "features",
            "pretrained",
            "other_users_weights",
            "record",
        ):
            del settings[name]
        if not self.seen_users:
            del settings["seen_users"]
        if self.features is not None:
            settings["features"] = file_digest(self.features)
        if self.weights is not None:
            is_folder = self.weights.is_dir()
            paths = self.weights.iterdir() if is_folder else [self.weights]
            folder = self.weights if is_folder else self.weights.parent
            files = (path for path in paths if path.is_file())
            settings["weights"] = digest_files(folder, files)
        return settings


def check_weights(path: Path | None) -> None:
    """Raise InputError if the path does not exist or is a folder without weights."""
    if path is None:
        return
    if not path.exists():
        raise InputError(f'--weights: there is no folder or file "{path}".')
    if not path.is_dir():
        return
    weight_files = [*path.glob("*.safetensors"), *path.glob("*.pth")]
    if not weight_files:
        raise InputError(f'--weights: there are no weights (.safetensors or .pth) in "{path}".')


@dataclass(frozen=True)
class Hyperparameter:
    """One setting of a training: a positive number, or one of a few words."""

    name: str
    default: Value  # as published
    spread: float = 1.0
    """A search for a number begins between default / spread and default x spread."""
    minimum: float = 0.0  # smaller or larger numbers make no sense
    maximum: float = math.inf
    is_integer: bool = False  # whole numbers only
    choices: tuple[str, ...] = ()  # the words; () for numbers
    flag: str = ""  # the protocol's flag with the same meaning, whose value is the default
    is_searched: bool = True  # False for seeds, since no seed is better than another

    def default_under(self, protocol: Protocol) -> Value:
        """Return the value that applies where a run sets none."""
        return getattr(protocol, self.flag) if self.flag else self.default

    def value_in(self, context: Context) -> Value:
        """Return the value in a run."""
        return context.hyperparameters.get(self.name, self.default)

    def number_in(self, context: Context) -> float:
        """Return the value in a run of a hyperparameter that is a number."""
        value = self.value_in(context)
        assert not isinstance(value, str)
        return value

    def integer_in(self, context: Context, protocol: Protocol | None = None) -> int:
        """Return the value in a run of a hyperparameter that is a whole number.

        Where the run sets none, it is the flag's value if there is a flag and `protocol` is given.
        """
        default = self.default if protocol is None else self.default_under(protocol)
        return int(context.hyperparameters.get(self.name, default))


def learning_rate(default: float) -> Hyperparameter:
    """Declare the optimiser's learning rate, the largest one where a schedule changes it."""
    return Hyperparameter("learning_rate", default, 10.0, 1e-8, 1e3)


def epochs(default: int) -> Hyperparameter:
    """Declare the number of passes over the training rows.

    A smaller number acts like early stopping; learning rates that fall to 0 then do so sooner.
    """
    return Hyperparameter("epochs", default, 4.0, 1, 1_000, is_integer=True)


def batch_size(default: int | None = None) -> Hyperparameter:
    """Declare the number of rows in a batch; None stands for the protocol's number."""
    flag = "" if default else "batch_size"
    return Hyperparameter("batch_size", default or 512, 8.0, 4, 2**20, is_integer=True, flag=flag)


def penalty(name: str, default: float, flag: str = "") -> Hyperparameter:
    """Declare the strength of a regularisation."""
    return Hyperparameter(name, default, 100.0, 1e-9, 1e9, flag=flag)


SEED = Hyperparameter("seed", 0, minimum=0, is_integer=True, flag="seed", is_searched=False)
"""Number added to the seeds of a training: those of the order of batches and of random starts. With
0, they are as published."""


def check_values(
    model: str, hyperparameters: Sequence[Hyperparameter], values: Mapping[str, Value]
) -> None:
    """Raise InputError unless these are allowed values of a model's hyperparameters."""
    hyperparameter_by_name = {
        hyperparameter.name: hyperparameter for hyperparameter in hyperparameters
    }
    for name, value in values.items():
        hyperparameter = hyperparameter_by_name.get(name)
        if hyperparameter is None:
            names = ", ".join(hyperparameter_by_name) or "none"
            raise InputError(f"{model} has no hyperparameter {name}; it has {names}.")
        minimum = hyperparameter.minimum
        maximum = hyperparameter.maximum
        if hyperparameter.choices:
            if value not in hyperparameter.choices:
                words = ", ".join(hyperparameter.choices)
                raise InputError(f"{model}: {name} must be one of {words}, not {value}.")
        elif isinstance(value, str) or not minimum <= value <= maximum:
            raise InputError(
                f"{model}: {name} must be a number from {minimum:g} to {maximum:g}, not {value}."
            )
        elif hyperparameter.is_integer and value != int(value):
            raise InputError(f"{model}: {name} must be a whole number, not {value:g}.")


def describe_values(values: Mapping[str, Value]) -> str:
    """Describe the values: "epochs 12, learning_rate 0.0412", or "as published" without any."""
    if not values:
        return "as published"
    descriptions = []
    for name, value in sorted(values.items()):
        text = value if isinstance(value, str) else format(value, ".4g")
        descriptions.append(f"{name} {text}")
    return ", ".join(descriptions)
