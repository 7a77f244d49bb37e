"""Predictions that were made elsewhere, of many users: result lines as of any model.

They may lack reviews. So what they are held against is evaluated twice: on all reviews, and as
`NAME-on-THEIRS` on those that they have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srs_eval.benchmark.labels import check_name, labelled, without
from srs_eval.data.errors import InputError
from srs_eval.data.readers.predictions import of_user, refuse_unusable
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.session import Result, Session
from srs_eval.engine.shared import two_on_shared_reviews
from srs_eval.models.configurations import Configuration, meant_by
from srs_eval.models.given import OF_FILE
from srs_eval.training.hyperparameters import Context


@dataclass(frozen=True)
class Others:
    """Predictions of a file under a name; makes the sessions of a batch that know them."""

    path: Path
    name: str
    digest: str  # of the file
    of_file: Configuration

    def __call__(self, log: ReviewLog) -> Session:
        return _WithOthers(log, self)

    def beside(self, configurations: Sequence[Configuration]) -> list[Configuration]:
        """Themselves, and the others, each also on the reviews that they have."""
        on = f"on {self.name}"
        return [self.of_file] + [
            one
            for each in configurations
            for one in (
                each,
                labelled(
                    replace(each, name=without(each.name, each.label)), f"{each.label} {on}".strip()
                ),
            )
        ]

    def concerns(self, configuration: Configuration) -> bool:
        """Whether its figures depend on the file."""
        return configuration.name == self.of_file.name or self._held_against(configuration)

    def _held_against(self, configuration: Configuration) -> bool:
        return f" {configuration.label}".endswith(f" on {self.name}")


def others_in(path: Path, name: str, of_file: Configuration) -> Others:
    """What a file holds; `of_file` is the configuration of OF_FILE. Raises InputError."""
    if not name:
        raise InputError("What are the predictions called? Say so with --name NAME.")
    check_name("--name", name)
    if meant_by(name):
        raise InputError(f"--name {name}: {meant_by(name)} is computed here; take another name.")
    refuse_unusable(path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    named = of_file.name.replace(OF_FILE, name, 1)
    return Others(path.absolute(), name, digest, replace(of_file, name=named))


class _WithOthers(Session):
    def __init__(self, log: ReviewLog, others: Others) -> None:
        super().__init__(log)
        self._others = others
        self._last: tuple[str, Result] | None = None  # it is wanted once more, as a rule next

    def run(
        self, configuration: Configuration, context: Context | None = None, **how: Any
    ) -> Result:
        others = self._others
        if configuration.model.given:
            if OF_FILE not in self.log.given:
                given = of_user(self.log, others.path, others.name)
                self.log = replace(self.log, given={OF_FILE: given})
            return super().run(configuration, context, **how)
        if not others._held_against(configuration):
            result = super().run(configuration, context, **how)
            self._last = configuration.name, result
            return result
        theirs = self.run(replace(others.of_file, protocol=configuration.protocol), context)
        name = without(configuration.name, f"on {others.name}")
        if self._last is None or self._last[0] != name:
            self.run(replace(configuration, name=name, label=""), context, **how)
        assert self._last is not None
        return two_on_shared_reviews(self._last[1], theirs)[0]
