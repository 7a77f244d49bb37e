"""Models of somebody's own: whether their figures mean something, looked at when one first runs,
and their training across many users (`Model.pretrain`): `srs-eval models pretrain`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from srs_eval.data.dataset_hub import load_possible
from srs_eval.data.datasets import Dataset
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.paths import cache_dir, file_digest, write_atomically
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.features import with_features
from srs_eval.data.recognition import sketch_of
from srs_eval.data.trials import Trials
from srs_eval.engine.session import Result, Session, without_today
from srs_eval.engine.workers import WorkerDied, WorkerPool
from srs_eval.models import MADE_HERE, Model, all_models
from srs_eval.models.configurations import Configuration, resolve
from srs_eval.training.compile import program_digest
from srs_eval.training.hyperparameters import Context
from srs_eval.training.networks import Arrays

LONGEST_CHECK_S = 30.0
"""Seconds that the check of a model may take where its figures are waited for."""
_GRACE_S = 30.0  # more for a process to start and to end by itself

_OUTCOME_LEAKS = {
    "own outcome": "reads the outcome that it predicts",
    "later outcome": "reads outcomes of later reviews",
    "fit sees test": "is fitted to reviews that it is evaluated on",
    "learns": "learns from answers after its training, as online models alone may",
}
_FUTURE_LEAKS = {
    "own answer time": "reads how long the answer took that it predicts",
    "later input": "reads later reviews",
    "fit sees later": "is fitted to what comes after its training part",
    "needs later": "fails where later reviews are missing, so it reads them",
}
_UNCHECKED = "was not checked for reading the future"
_OTHERS = {
    "gradient": "has a wrong gradient, and may be trained badly",
    "no probability": "predicts what is no probability for a simulated learner",
    "repeats": f"{_UNCHECKED}, for it predicts something else each time",
    "fails": f"{_UNCHECKED}, for it fails on a simulated learner",
    "unfinished": "was not checked to the end for reading the future, for it is slow",
}
_KEPT = 64  # users in memory
_USUAL = Protocol()
_NOTHING = "nothing found"  # as it is kept: a file that a crash has emptied tells nothing


def mark(kind: str) -> str:
    """Return what stands beside the name of a model whose figures mean nothing; "" for others."""
    if kind in _OUTCOME_LEAKS:
        return "reads outcomes"
    if kind in _FUTURE_LEAKS:
        return "reads the future"
    return ""


def in_words(kind: str | None) -> str:
    """Return what is said of a model, behind its name; "" for nothing. None: nobody has looked."""
    if kind is None:
        said = _UNCHECKED
    elif mark(kind):
        said = f"{(_OUTCOME_LEAKS | _FUTURE_LEAKS)[kind]}: its figures mean nothing"
    else:
        said = _OTHERS.get(kind, "")
    return f"{said} (`srs-eval models check` tells more)" if said else ""


def is_checked(configuration: Configuration, features: Path | None = None) -> bool:
    """Whether it is known what is wrong with a configuration, so that `doubt` takes no time."""
    model = configuration.model
    return model.file is None or _known(model, features, configuration.protocol) is not None


def unchecked(configurations: Iterable[Configuration], features: Path | None) -> tuple[str, ...]:
    """Return the names of models that `doubts` has to check."""
    names = (each.model.name for each in configurations if not is_checked(each, features))
    return tuple(dict.fromkeys(names))


def doubt(
    model: Model,
    features: Path | None = None,
    protocol: Protocol = _USUAL,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> str:
    """Return the kind of what `conformance.first_mistake` finds, "" for nothing; kept on disk.

    Raises:
        Cancelled: `is_cancelled` was true.
    """
    from srs_eval.engine.conformance import first_mistake

    known = _known(model, features, protocol)
    if known is not None:
        return known
    try:
        found = first_mistake(
            model, features, protocol, seconds=LONGEST_CHECK_S, is_cancelled=is_cancelled
        )
    except BaseException as error:
        if type(error) is KeyboardInterrupt or is_cancelled():  # the person's
            raise
        return "fails"
    kind = found.kind if found else ""
    _keep(model, features, protocol, kind)
    return kind


def doubts(configurations: Iterable[Configuration], features: Path | None) -> dict[str, str]:
    """Return `doubt` of those whose models are from files, by the names of configurations.

    Each is looked at in a process of its own, for it may die.
    """
    kinds = {}
    for configuration in configurations:
        model = configuration.model
        if model.file is None:
            continue
        kind = _known(model, features, configuration.protocol)
        if kind is None:
            kind = _doubt_of_process(model, features, configuration.protocol)
        kinds[configuration.name] = kind
    return kinds


def _doubt_of_process(model: Model, features: Path | None, protocol: Protocol) -> str:
    with WorkerPool(1, initializer=all_models) as pool:
        try:
            future = pool.submit(doubt, model, features, protocol)
            return future.result(LONGEST_CHECK_S + _GRACE_S)
        except WorkerDied:
            return "fails"
        except TimeoutError:  # in code that never looks at the time
            _keep(model, features, protocol, "unfinished")
            return "unfinished"


def with_doubt(
    result: Result,
    configuration: Configuration,
    features: Path | None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Result:
    """Return the result of a model from a file, marked where that belongs beside it.

    Raises:
        Cancelled: `is_cancelled` was true.
    """
    kind = doubt(configuration.model, features, configuration.protocol, is_cancelled)
    said = in_words(kind)
    if not said:
        return result
    return replace(result, mark=mark(kind), notes=(*result.notes, said))


def _flags(protocol: Protocol) -> str:
    """Return what a check depends on: a model may read the future under some flags alone."""
    from srs_eval.engine.conformance import short_protocol

    return repr(short_protocol(protocol))


_Looked = tuple[Model, Path | None, str]
_of_objects: dict[tuple[str, str], _Looked] = {}
"""What was found of models that are no file's, by name and flags: a cell may have changed them."""


def _keep(model: Model, features: Path | None, protocol: Protocol, kind: str) -> None:
    if model.file == MADE_HERE:
        _of_objects[model.name, _flags(protocol)] = model, features, kind
    elif kind != "fails":  # perhaps for want of a module: it may not next time
        with suppress(OSError):
            content = (kind or _NOTHING).encode()
            write_atomically(_kept_at(model, features, protocol), content, lasting=False)


def _known(model: Model, features: Path | None, protocol: Protocol) -> str | None:
    if model.file == MADE_HERE:
        looked = _of_objects.get((model.name, _flags(protocol)))
        seen, table, kind = looked or (None, None, "")
        return kind if seen is model and table == features else None
    try:
        kind = _kept_at(model, features, protocol).read_text("utf-8")
    except (OSError, ValueError):
        return None
    if kind == _NOTHING:
        return ""
    return kind if in_words(kind) else None


def _kept_at(model: Model, features: Path | None, protocol: Protocol) -> Path:
    assert model.file is not None
    key = f"{program_digest()} {model.file.digest} {model.name} {_flags(protocol)}"
    key += f" {file_digest(features)}" if features else ""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return cache_dir() / "results" / digest[:2] / f"{digest}.txt"


# Across users


@dataclass(frozen=True)
class _Learners(Sequence[Trials]):
    """Each user's trials, read when asked for."""

    users: Sequence[int]
    read: Callable[[int], Trials]

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, place: Any) -> Any:
        some = self.users[place]
        return _Learners(some, self.read) if isinstance(place, slice) else self.read(some)


def pretrained_on(
    model: Model, dataset: Dataset, users: Sequence[int], context: Context
) -> tuple[Arrays, tuple[str, ...]]:
    """The weights that a model gets from users, and sketches of those that have reviews enough.

    `context.record` gets the settings of the training and its losses. Raises InputError where the
    model has no `pretrain`, or fewer than two users have.
    """
    if model.pretrain is None:
        raise InputError(f"{model.name} has no pretrain; docs/adding-a-model.md tells of it.")
    protocol = resolve(model.name)[0].protocol

    @lru_cache(_KEPT)
    def trials_of(user: int) -> Trials:
        log = with_features(load_possible(dataset, user), context.features)
        trials = Session(log).trials(protocol)
        rows = trials.source[1]
        return replace(trials, log=without_today(log, rows)) if model.file else trials

    sketch_of_user = dict[int, str]()
    for user in users:
        with suppress(NotEnoughData):
            sketch_of_user[user] = sketch_of(trials_of(user).source[0])
    usable = list(sketch_of_user)
    if len(usable) < 2:
        raise InputError(f"{len(usable)} of these users have reviews enough to pretrain on.")
    with model.code_kept_apart():
        arrays = model.pretrain(_Learners(usable, trials_of), context)
    settings = {each.name: each.of(context) for each in model.hyperparameters}
    if settings and context.record is not None and not context.record.settings:
        context.record.begin(**settings)
    return arrays, tuple(sketch_of_user.values())
