"""What a run may set besides the protocol, and what the training of a model can be set to.

A model declares its hyperparameters, such as the learning rate (`Model.hyperparameters`), and reads
their values of a run from the context, the default where the run says nothing. `benchmark.audit`
looks for better ones.
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
    check_flag,
    check_function,
    check_mapping,
    check_number,
    check_path,
    check_type,
    check_whole_number,
    refuse,
)
from srs_eval.data.errors import InputError
from srs_eval.data.paths import content_digest, file_digest
from srs_eval.data.protocol import Protocol

Value = float | str


class Cancelled(Exception):
    """Raised by `Context.tick` when the person has cancelled."""


def _no_tick(fraction: float) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Epoch:
    """One pass of a training over its reviews."""

    loss: float | None  # mean log loss while it was trained; None where it only looked
    held_out_loss: float | None  # afterwards, on learners that it is not trained on


def _unwatched(record: TrainingRecord) -> None:
    """A training that nobody watches."""


@dataclass
class TrainingRecord:
    """What a pretraining writes down of itself: it is printed, and saved with the weights."""

    settings: dict[str, Value] = field(default_factory=dict)
    epochs: list[Epoch] = field(default_factory=list)
    on_change: Callable[[TrainingRecord], None] = _unwatched

    def begin(self, **settings: Value) -> None:
        """Write down what the training is set to: its seed, its learning rate."""
        self.settings |= settings
        self.on_change(self)

    def add_epoch(self, loss: float | None, held_out_loss: float | None = None) -> None:
        """Write down one more epoch."""
        self.epochs.append(Epoch(loss, held_out_loss))
        self.on_change(self)


@dataclass(frozen=True)
class Context:
    """Settings of a run that are no rule of the protocol."""

    sm2_target: float = 0.9  # retention that SM-2's intervals are taken to aim at
    weights: Path | None = None  # folder of pretrained network weights, or RWKV's file
    features: Path | None = None  # the person's table about cards or notes
    seen_users: bool = False  # evaluate those that `weights` were trained on, too
    device: str = "cpu"
    user: int = 0  # seeds the random streams of networks
    hyperparameters: Mapping[str, Value] = field(default_factory=dict)
    """Of the model's training, what is not as by default: the engine sets it from
    `Configuration.hyperparameters`, of which they are."""
    pretrained: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The arrays that `Model.pretrain` returned, of `weights`; the engine sets it."""
    record: TrainingRecord | None = field(default=None, compare=False)
    """Where `Model.pretrain` writes down its settings and losses; None while models are fitted."""
    tick: Callable[[float], None] = _no_tick
    """Call it often with the fraction done of this fit; it may raise Cancelled."""

    def __post_init__(self) -> None:
        """Take paths as texts, too. Raises InputError for a value of another type."""
        target = "a number between 0 and 1"
        check_number("sm2_target", self.sm2_target, target)
        if not 0 < self.sm2_target < 1:
            raise refuse("sm2_target", target, self.sm2_target)
        for name, words in (("weights", A_FILE_OR_FOLDER), ("features", A_FILE)):
            path = getattr(self, name)
            if path is not None:
                check_path(name, words, path)
                object.__setattr__(self, name, Path(path))
        check_flag("seen_users", self.seen_users)
        check_type("device", "a text such as 'cpu' or 'cuda:1'", self.device, str)
        check_whole_number("user", self.user)
        check_mapping("hyperparameters", "a dictionary of values by name", self.hyperparameters)
        check_function("tick", "a function of the fraction done", self.tick)

    def settings(self) -> dict[str, float | int | str | None]:
        """All that figures of every configuration may depend on, by name.

        Of the weights and the table of features, what is in the files.
        """
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("tick", "hyperparameters", "features", "pretrained", "record"):
            del found[name]
        if not self.seen_users:
            del found["seen_users"]
        if self.features is not None:
            found["features"] = file_digest(self.features)
        if self.weights is not None:
            is_folder = self.weights.is_dir()
            inside = self.weights.iterdir() if is_folder else [self.weights]
            folder = self.weights if is_folder else self.weights.parent
            found["weights"] = content_digest(folder, (path for path in inside if path.is_file()))
        return found


def check_weights(path: Path | None) -> None:
    """Refuse what is not there, and a folder without weights. Raises InputError."""
    if path is not None and not path.exists():
        raise InputError(f'--weights: there is no folder or file "{path}".')
    if (
        path is not None
        and path.is_dir()
        and not {*path.glob("*.safetensors"), *path.glob("*.pth")}
    ):
        raise InputError(f'--weights: there are no weights (.safetensors or .pth) in "{path}".')


@dataclass(frozen=True)
class Hyperparameter:
    """One knob of a training: a positive number, or one of a few words."""

    name: str
    default: Value  # as published
    spread: float = 1.0
    """A search begins between default / spread and default x spread (of numbers)."""
    least: float = 0.0  # numbers that make sense at all
    most: float = math.inf
    whole: bool = False  # whole numbers only
    choices: tuple[str, ...] = ()  # the words; () for numbers
    flag: str = ""  # the protocol's flag of the same meaning: its value is the default
    searched: bool = True  # not for seeds: there are no better ones

    def default_under(self, protocol: Protocol) -> Value:
        """What it is where a run says nothing."""
        return getattr(protocol, self.flag) if self.flag else self.default

    def of(self, context: Context) -> Value:
        """Its value in a run."""
        return context.hyperparameters.get(self.name, self.default)

    def number(self, context: Context) -> float:
        """Its value in a run, of a number."""
        value = self.of(context)
        assert not isinstance(value, str)
        return value

    def integer(self, context: Context, protocol: Protocol | None = None) -> int:
        """Its value in a run, of a whole number; the flag's if it has one and is given it."""
        usual = self.default if protocol is None else self.default_under(protocol)
        return int(context.hyperparameters.get(self.name, usual))


def learning_rate(default: float) -> Hyperparameter:
    """Of the optimiser: its largest, where a schedule changes it."""
    return Hyperparameter("learning_rate", default, 10.0, 1e-8, 1e3)


def epochs(default: int) -> Hyperparameter:
    """Passes over the training rows; with a schedule that ends with them, early stopping."""
    return Hyperparameter("epochs", default, 4.0, 1, 1_000, whole=True)


def batch_size(default: int | None = None) -> Hyperparameter:
    """Rows of a batch; None: the protocol's."""
    flag = "" if default else "batch_size"
    return Hyperparameter("batch_size", default or 512, 8.0, 4, 2**20, whole=True, flag=flag)


def penalty(name: str, default: float, flag: str = "") -> Hyperparameter:
    """The strength of a regularisation."""
    return Hyperparameter(name, default, 100.0, 1e-9, 1e9, flag=flag)


SEED = Hyperparameter("seed", 0, least=0, whole=True, searched=False)
"""Is added to the seeds of a training: order of batches, random starts. 0: as published."""


def refuse_unknown(
    model: str, declared: Sequence[Hyperparameter], values: Mapping[str, Value]
) -> None:
    """Raises InputError where a model cannot be set to these values."""
    known = {each.name: each for each in declared}
    for name, value in values.items():
        each = known.get(name)
        if each is None:
            there = ", ".join(known) or "none"
            raise InputError(f"{model} has no hyperparameter {name}; it has {there}.")
        if each.choices:
            if value not in each.choices:
                words = ", ".join(each.choices)
                raise InputError(f"{model}: {name} is one of {words}, not {value}.")
        elif isinstance(value, str) or not each.least <= value <= each.most:
            raise InputError(
                f"{model}: {name} is a number from {each.least:g} to {each.most:g}, not {value}."
            )
        elif each.whole and value != int(value):
            raise InputError(f"{model}: {name} is a whole number, not {value:g}.")


def setup_in_words(values: Mapping[str, Value]) -> str:
    """ "epochs 12, learning_rate 0.0412"; "as published" where nothing differs."""
    said = [
        f"{name} {value if isinstance(value, str) else format(value, '.4g')}"
        for name, value in sorted(values.items())
    ]
    return ", ".join(said) or "as published"
