"""Predictions that were made elsewhere, of many users: result lines as of any model.

They may lack reviews. So what they are held against is evaluated twice: on all reviews, and as
`NAME-on-THEIRS` on those that they have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srs_eval.benchmark.labels import check_name, labelled, without
from srs_eval.data.errors import InputError
from srs_eval.data.paths import file_digest
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
        return [self.of_file, *(one for each in configurations for one in self._twice(each))]

    def _twice(self, configuration: Configuration) -> Iterator[Configuration]:
        yield configuration
        plain = without(configuration.name, configuration.label)
        label = f"{configuration.label} on {self.name}".lstrip()
        yield labelled(replace(configuration, name=plain), label)

    def concerns(self, configuration: Configuration) -> bool:
        """Whether its figures depend on the file."""
        on_theirs = f" {configuration.label}".endswith(f" on {self.name}")
        return configuration.model.name == OF_FILE or on_theirs


def others_in(path: Path | None, name: str, of_file: Configuration) -> Others:
    """What a file holds; `of_file` is the configuration of OF_FILE. Raises InputError."""
    if path is None or not name:
        raise InputError("--predictions FILE and --name NAME, what they are called, go together.")
    check_name("--name", name)
    if meant_by(name):
        raise InputError(f"--name {name}: {meant_by(name)} is computed here; take another name.")
    refuse_unusable(path)
    named = of_file.name.replace(OF_FILE, name, 1)
    return Others(path.absolute(), name, file_digest(path), replace(of_file, name=named))


class _WithOthers(Session):
    def __init__(self, log: ReviewLog, others: Others) -> None:
        super().__init__(log)
        self._others = others
        self._last: tuple[str, Result] | None = None  # it is wanted once more, as a rule next

    def run(
        self, configuration: Configuration, context: Context | None = None, **how: Any
    ) -> Result:
        others = self._others
        if configuration.model.name == OF_FILE and not self.log.given:
            given = of_user(self.log, others.path, others.name)
            self.log = replace(self.log, given={OF_FILE: given})
        if configuration.model.given or not others.concerns(configuration):
            self._last = configuration.name, super().run(configuration, context, **how)
            return self._last[1]
        name = without(configuration.name, f"on {others.name}")
        known = self._last and self._last[0] == name and self._last[1]
        mine = known or self.run(replace(configuration, name=name, label=""), context, **how)
        theirs = self.run(replace(others.of_file, protocol=configuration.protocol), context)
        return two_on_shared_reviews(mine, theirs)[0]
