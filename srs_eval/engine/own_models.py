"""Check users' own models when they first run, and pretrain them across many users.

The check says whether the figures of a model mean anything. Pretraining (`srs-eval models
pretrain`) calls `TrainedModel.pretrain`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from srs_eval.data.dataset_hub import load_plausible
from srs_eval.data.datasets import Dataset
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.file_contents import file_digest, write_atomically
from srs_eval.data.paths import cache_dir
from srs_eval.data.protocol import Protocol
from srs_eval.data.readers.features import add_features
from srs_eval.data.recognition import sketch_of
from srs_eval.data.trials import Trials
from srs_eval.engine.result import Result
from srs_eval.engine.session import LearnerSession
from srs_eval.engine.workers import WorkerDied, WorkerPool
from srs_eval.models import IN_MEMORY, Model, TrainedModel, all_models
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.models.held_out import without_current_state
from srs_eval.training.compile import compute_program_digest
from srs_eval.training.hyperparameters import Context
from srs_eval.training.networks import Arrays

LONGEST_CHECK_S = 30.0
"""Seconds that the check of a model may take while the user waits for its figures."""
_GRACE_S = 30.0  # extra time for a process to start and to end by itself

_OUTCOME_LEAKS = {
    "own outcome": "reads the outcome that it predicts",
    "later outcome": "reads outcomes of later reviews",
    "fit sees test": "is fitted to reviews that it is evaluated on",
    "learns": "learns from answers after its training, as only online models may",
}
_FUTURE_LEAKS = {
    "own answer time": "reads how long the answer that it predicts took",
    "later input": "reads later reviews",
    "fit sees later": "is fitted to reviews after its training part",
    "needs later": "fails without later reviews, so it must be reading them",
}
_UNCHECKED = "was not checked for reading the future"
_UNCHECKABLE = "could not be checked for reading the future"
_OTHER_MISTAKES = {
    "gradient": "has a wrong gradient, and may be trained badly",
    "no probability": "predicts something that is not a probability for a simulated learner",
    "repeats": f"{_UNCHECKABLE}, because its predictions change from run to run",
    "fails": f"{_UNCHECKABLE}, because it fails on a simulated learner",
    "unfinished": "is too slow: the check for reading the future did not finish",
}
_CACHED_USERS = 64  # users in memory
_USUAL_PROTOCOL = Protocol()
_NO_MISTAKE = "nothing found"
"""Stands for "" in stored files, because a crash may leave an empty file."""


def leak_label(kind: str) -> str:
    """Return the label beside the name of a model whose figures mean nothing; "" for others."""
    if kind in _OUTCOME_LEAKS:
        return "reads outcomes"
    if kind in _FUTURE_LEAKS:
        return "reads the future"
    return ""


def describe_mistake(kind: str | None) -> str:
    """Return the words that describe a kind of mistake, to follow a model's name.

    They are "" for kinds that leave the figures meaningful. None stands for a model that has not
    been checked.
    """
    if kind is None:
        description = _UNCHECKED
    elif leak_label(kind):
        leak = (_OUTCOME_LEAKS | _FUTURE_LEAKS)[kind]
        description = f"{leak}: its figures mean nothing"
    else:
        description = _OTHER_MISTAKES.get(kind, "")
    return f"{description} (details: `srs-eval models check`)" if description else ""


def is_checked(configuration: Configuration, features: Path | None = None) -> bool:
    """Return whether `find_mistake_kind` takes no time, because it needs no check or had one."""
    model = configuration.model
    return model.file is None or _load_kind(model, features, configuration.protocol) is not None


def list_unchecked(
    configurations: Iterable[Configuration], features: Path | None
) -> tuple[str, ...]:
    """Return the names of models that `find_mistake_kinds` has to check."""
    names: dict[str, None] = {}
    for configuration in configurations:
        if not is_checked(configuration, features):
            names[configuration.model.name] = None
    return tuple(names)


def find_mistake_kind(
    model: Model,
    features: Path | None = None,
    protocol: Protocol = _USUAL_PROTOCOL,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> str:
    """Return the kind of mistake that `quick_check.find_first_mistake` finds; "" if none.

    The kind is stored, so that a model is checked once.

    Raises:
        Cancelled: `is_cancelled` returned true.
    """
    from srs_eval.engine.quick_check import find_first_mistake

    stored_kind = _load_kind(model, features, protocol)
    if stored_kind is not None:
        return stored_kind
    try:
        mistake = find_first_mistake(
            model, features, protocol, seconds=LONGEST_CHECK_S, is_cancelled=is_cancelled
        )
    except BaseException as error:
        if type(error) is KeyboardInterrupt or is_cancelled():  # the user's decision
            raise
        return "fails"
    kind = "" if mistake is None else mistake.kind
    _store_kind(model, features, protocol, kind)
    return kind


def find_mistake_kinds(
    configurations: Iterable[Configuration], features: Path | None
) -> dict[str, str]:
    """Return the kinds of mistakes in users' own models, by names of configurations.

    Each check runs in a process of its own, which a model may crash.
    """
    kinds = {}
    for configuration in configurations:
        model = configuration.model
        if model.file is None:
            continue
        kind = _load_kind(model, features, configuration.protocol)
        if kind is None:
            kind = _find_kind_in_subprocess(model, features, configuration.protocol)
        kinds[configuration.name] = kind
    return kinds


def _find_kind_in_subprocess(model: Model, features: Path | None, protocol: Protocol) -> str:
    with WorkerPool(1, initializer=all_models) as pool:
        try:
            future = pool.submit(find_mistake_kind, model, features, protocol)
            return future.result(LONGEST_CHECK_S + _GRACE_S)
        except WorkerDied:
            return "fails"
        except TimeoutError:  # the model's code never checks the time
            _store_kind(model, features, protocol, "unfinished")
            return "unfinished"


def add_leak_warning(
    result: Result,
    configuration: Configuration,
    features: Path | None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Result:
    """Return the result of a user's own model, with a warning if the model has a mistake.

    Raises:
        Cancelled: `is_cancelled` returned true.
    """
    kind = find_mistake_kind(configuration.model, features, configuration.protocol, is_cancelled)
    warning = describe_mistake(kind)
    if not warning:
        return result
    return replace(result, invalid_reason=leak_label(kind), notes=(*result.notes, warning))


def _flags(protocol: Protocol) -> str:
    """Return a text with all flags that may affect a check: some leaks need certain flags."""
    from srs_eval.engine.model_checks import short_protocol

    return repr(short_protocol(protocol))


_Check = tuple[Model, Path | None, str]
"""A checked model, the table of features it was checked with, and the kind of its mistake."""
_checks_in_memory: dict[tuple[str, str], _Check] = {}
"""Checks of models that are in no file, by name and flags. A notebook's cell may have replaced the
model of this name, so the check says which object it was made of."""


def _store_kind(model: Model, features: Path | None, protocol: Protocol, kind: str) -> None:
    if model.file == IN_MEMORY:
        _checks_in_memory[model.name, _flags(protocol)] = (model, features, kind)
    elif kind != "fails":  # such a model may work next time, if only a module was missing
        with suppress(OSError):
            content = (kind or _NO_MISTAKE).encode()
            write_atomically(_kind_path(model, features, protocol), content, durable=False)


def _load_kind(model: Model, features: Path | None, protocol: Protocol) -> str | None:
    if model.file == IN_MEMORY:
        check = _checks_in_memory.get((model.name, _flags(protocol)))
        if check is None:
            return None
        checked_model, checked_features, kind = check
        is_same = checked_model is model and checked_features == features
        return kind if is_same else None
    try:
        kind = _kind_path(model, features, protocol).read_text("utf-8")
    except (OSError, ValueError):
        return None
    if kind == _NO_MISTAKE:
        return ""
    return kind if describe_mistake(kind) else None  # a damaged file counts as none


def _kind_path(model: Model, features: Path | None, protocol: Protocol) -> Path:
    assert model.file is not None
    key = f"{compute_program_digest()} {model.file.digest} {model.name} {_flags(protocol)}"
    if features:
        key += f" {file_digest(features)}"
    digest = hashlib.sha256(key.encode()).hexdigest()
    return cache_dir() / "results" / digest[:2] / f"{digest}.txt"


# Across users


@dataclass(frozen=True)
class _LazyTrials(Sequence[Trials]):
    """The trials of each user, read on demand."""

    users: Sequence[int]
    read: Callable[[int], Trials]

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _LazyTrials(self.users[index], self.read)
        return self.read(self.users[index])


def pretrain_on_users(
    model: Model,
    dataset: Dataset,
    users: Sequence[int],
    context: Context,
    protocol: Protocol | None = None,
    *,
    leaves_out_unreadable: bool = False,
) -> tuple[Arrays, tuple[str, ...]]:
    """Pretrain a model; return its weights and sketches of the users with enough reviews.

    The users' trials are those of `protocol`, or without it those of the model's standard
    configuration. `context.record` gets the settings of the training and its losses. With
    `leaves_out_unreadable`, users whose files cannot be read are left out, too.

    Raises:
        InputError: The model has no `pretrain`, or fewer than two users have enough reviews.
    """
    if not isinstance(model, TrainedModel) or model.pretrain is None:
        raise InputError(f"{model.name} has no pretrain; docs/adding-a-model.md describes it.")
    trials_protocol = protocol or resolve_configurations(model.name)[0].protocol
    reasons_to_leave_out: tuple[type[Exception], ...] = (NotEnoughData,)
    if leaves_out_unreadable:
        reasons_to_leave_out = (NotEnoughData, InputError)

    @lru_cache(_CACHED_USERS)
    def prepare_user_trials(user: int) -> Trials:
        log = add_features(load_plausible(dataset, user), context.features)
        trials = LearnerSession(log).trials(trials_protocol)
        if model.file is None:
            return trials
        rows = trials.source[1]
        return replace(trials, log=without_current_state(log, rows))

    sketch_by_user: dict[int, str] = {}
    for user in users:
        with suppress(*reasons_to_leave_out):
            sketch_by_user[user] = sketch_of(prepare_user_trials(user).source[0])
    usable = list(sketch_by_user)
    if len(usable) < 2:
        raise InputError(f"{len(usable)} of these users have enough reviews to pretrain on.")
    with model.isolate_settings():
        arrays = model.pretrain(_LazyTrials(usable, prepare_user_trials), context)
    settings = {
        hyperparameter.name: hyperparameter.value_in(context)
        for hyperparameter in model.hyperparameters
    }
    if settings and context.record is not None and not context.record.settings:
        context.record.begin(**settings)
    return arrays, tuple(sketch_by_user.values())
