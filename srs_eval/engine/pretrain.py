"""Trains a model of one's own across many users (`Model.pretrain`): `srs-eval models pretrain`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from srs_eval.data.dataset_hub import load_possible
from srs_eval.data.datasets import Dataset
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.readers.features import with_features
from srs_eval.data.trials import Trials
from srs_eval.engine.session import Session
from srs_eval.models import Model
from srs_eval.models.configurations import resolve
from srs_eval.training.hyperparameters import Context
from srs_eval.training.networks import Arrays

_KEPT = 64  # users in memory


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
) -> tuple[Arrays, int]:
    """The weights that a model gets from users, and how many of them have reviews enough.

    Raises InputError where the model has no `pretrain`, or fewer than two users have.
    """
    if model.pretrain is None:
        raise InputError(f"{model.name} has no pretrain; docs/adding-a-model.md tells of it.")
    protocol = resolve(model.name)[0].protocol

    @lru_cache(_KEPT)
    def trials_of(user: int) -> Trials:
        log = with_features(load_possible(dataset, user), context.features)
        return Session(log).trials(protocol)

    usable = list[int]()
    for user in users:
        with suppress(NotEnoughData):
            trials_of(user)
            usable.append(user)
    if len(usable) < 2:
        raise InputError(f"{len(usable)} of these users have reviews enough to pretrain on.")
    return model.pretrain(_Learners(usable, trials_of), context), len(usable)
