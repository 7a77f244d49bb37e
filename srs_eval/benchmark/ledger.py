"""An audit's ledger: the best known training set-up of each configuration; docs/formats.md."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srs_eval.data.errors import InputError
from srs_eval.models.configurations import Configuration, meant_by, resolve
from srs_eval.training.hyperparameters import Value

LEDGER = "ledger.json"
LAYOUT = 1


@dataclass(frozen=True)
class Ledger:
    """Set-ups to train with, by configuration."""

    path: Path
    digest: str  # of the file
    best: Mapping[str, Mapping[str, Value]]  # what is not as published
    published: Mapping[str, Mapping[str, Value]]  # all that can be set, as it was published
    users: frozenset[int] = frozenset()  # of the audit; an older ledger does not tell
    data: str = ""  # fingerprint of their data set

    def tuned(self, configurations: Sequence[Configuration]) -> list[Configuration]:
        """The configurations, those that are named here with their set-up and as `NAME-tuned`.

        Raises InputError where a configuration is not published as it was for the audit: what is
        best beside one batch size says nothing of another.
        """
        return [self._tuned(each) if each.name in self.best else each for each in configurations]

    def _tuned(self, configuration: Configuration) -> Configuration:
        before = self.published[configuration.name]
        for knob in configuration.tunable:
            now = knob.default_under(configuration.protocol)
            if knob.searched and before.get(knob.name) != now:
                was = before.get(knob.name, "nothing")
                raise InputError(
                    f'"{self.path}" was made where {configuration.name} has {knob.name} {was}, '
                    f"and here it has {now}: give the flags of the audit, or audit again."
                )
        return configuration.tuned_with(self.best[configuration.name], self.digest)


def read_ledger(path: Path) -> Ledger:
    """The ledger in a file, or in the folder of an audit.

    Raises InputError where there is none, where it is damaged, and where it names a configuration
    that is not here or a set-up that a configuration cannot have.
    """
    if path.is_dir():
        path = path / LEDGER
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f'There is no ledger at "{path}" ({error.strerror}).') from None
    try:
        told = json.loads(content)
        if told["layout"] != LAYOUT:
            raise InputError(
                f'"{path}" is a ledger of layout {told["layout"]}, not {LAYOUT}: audit again.'
            )
        best = {name: _values(each["best"]) for name, each in told["configurations"].items()}
        published = {
            name: _values(each["published"]) for name, each in told["configurations"].items()
        }
        users = frozenset(map(int, told.get("users", ())))
        data = str(told.get("data", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise InputError(f'"{path}" is no ledger of `srs-eval audit`, or damaged.') from None
    for name, values in best.items():
        if meant_by(name) != name:
            raise InputError(
                f'"{path}" names {name}, which is no configuration here; '
                "one of a file of your own needs --model-file."
            )
        (configuration,) = resolve([name])
        configuration.trained_with(values)
    return Ledger(path, hashlib.sha256(content).hexdigest(), best, published, users, data)


def _values(found: Mapping[str, Any]) -> dict[str, Value]:
    for value in found.values():
        if isinstance(value, bool) or not (isinstance(value, str) or math.isfinite(value)):
            raise ValueError(value)
    return dict(found)
