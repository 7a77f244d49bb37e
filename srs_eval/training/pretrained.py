"""Weights that a model of one's own got from other users: `models pretrain` makes, --weights names.

A file says in its metadata whose model it is for and on which users it was trained. These users
are not evaluated with it, unless the person asks for that (`Context.seen_users`).
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError, NotInstalled, described, printable
from srs_eval.data.paths import VERSION, file_digest, write_file
from srs_eval.data.reviews import read_only
from srs_eval.training.hyperparameters import Context

_KEY = "srs-eval"  # one, for the library writes several in any order
Arrays = Mapping[str, NDArray[Any]]


class Pretrained(NamedTuple):
    """A file of weights."""

    path: Path
    model: str
    users: str  # that it was trained on: "1-5000"

    def __str__(self) -> str:
        """As set-ups and remarks name it."""
        return f"{self.path.name} ({file_digest(self.path)[:16]}), trained on users {self.users}"

    def has_seen(self, user: int | None) -> bool:
        from srs_eval.data.datasets import id_spans

        return user is not None and any(a <= user <= b for a, b in id_spans(self.users))

    def arrays(self) -> Arrays:
        return _arrays(self.path, file_digest(self.path))


def save_pretrained(path: Path, model: str, users: str, arrays: Arrays) -> None:
    """Write weights. Raises InputError where they are none, or not finite, or cannot be written."""
    from safetensors.numpy import save

    if not arrays or not all(isinstance(each, np.ndarray) for each in arrays.values()):
        raise InputError(f"The pretraining of {model} returns no arrays of numpy by name.")
    if not all(np.isfinite(each).all() for each in arrays.values()):
        raise InputError(f"The pretraining of {model} led to numbers that are not finite.")
    about = {_KEY: json.dumps({"model": model, "users": users, "version": VERSION})}
    write_file(path, save({key: np.ascontiguousarray(each) for key, each in arrays.items()}, about))


def pretrained_for(model: str, user: int | None, context: Context) -> Pretrained | None:
    """The file of --weights for a model that a user is new to; None where none is for the model.

    Raises NotInstalled, which is a skip, where all were trained on the user.
    """
    found = [each for each in _given(context) if each.model == model]
    new = [each for each in found if context.seen_users or not each.has_seen(user)]
    if found and not new:
        seen = ", ".join(f"{each.path.name} was trained on users {each.users}" for each in found)
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
    return path is not None and path.is_file() and _read(path) is not None


def _given(context: Context) -> list[Pretrained]:
    path = context.weights
    paths = [] if path is None else sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    return list(filter(None, map(_read, paths)))


def _read(path: Path) -> Pretrained | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            said = json.loads((file.metadata() or {})[_KEY])
            return Pretrained(path, said["model"], said["users"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError):
        return None  # of something else; who wants its weights will say what is wrong


@cache
def _arrays(path: Path, digest: str) -> Arrays:
    from safetensors.numpy import load_file

    try:
        return read_only(load_file(path))
    except Exception as error:  # the library raises whatever it likes
        raise InputError(f'"{printable(path)}" is damaged ({described(error)}).') from error
