"""An audit's ledger: the best known training set-up of each configuration; docs/formats.md."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from srs_eval.benchmark.setup import as_json
from srs_eval.data.errors import InputError
from srs_eval.data.outputs import write_atomically
from srs_eval.data.paths import VERSION
from srs_eval.models.configurations import Configuration, meant_by, resolve
from srs_eval.training.hyperparameters import Value

LEDGER = "ledger.json"
_LAYOUT = 1


@dataclass(frozen=True)
class Found:
    """What the search over one half of the users has found."""

    users: int  # whose training parts have chosen
    trials: int  # besides the published set-up
    hyperparameters: Mapping[str, int | Value]  # of the best set-up: what is not as published
    log_loss: float | None  # mean over these users of the held-out training rows
    published_log_loss: float | None  # the same of the published set-up
    limits_moved: Mapping[str, tuple[str, ...]]  # "lower" or "higher", where it is beyond the first
    on_edge: tuple[str, ...]  # where more trials may find a better one


@dataclass(frozen=True)
class Entry:
    """One configuration in a ledger."""

    published: dict[str, int | Value]  # all that can be set
    best: dict[str, int | Value]  # what is not as published
    halves: tuple[Found, ...] = ()


@dataclass(frozen=True)
class _File:
    layout: int
    configurations: dict[str, Entry]
    srs_eval: str = VERSION
    data: str = ""
    users: tuple[int, ...] = ()


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
    import msgspec

    try:
        told = msgspec.json.decode(content, type=_File)
    except (msgspec.DecodeError, RecursionError):
        raise InputError(f'"{path}" is no ledger of `srs-eval audit`, or damaged.') from None
    if told.layout != _LAYOUT:
        raise InputError(
            f'"{path}" is a ledger of layout {told.layout}, not {_LAYOUT}: audit again.'
        )
    best = {name: each.best for name, each in told.configurations.items()}
    published = {name: each.published for name, each in told.configurations.items()}
    for name, values in best.items():
        if meant_by(name) != name:
            raise InputError(
                f'"{path}" names {name}, which is no configuration here; '
                "one of a file of your own needs --model-file."
            )
        (configuration,) = resolve([name])
        configuration.trained_with(values)
    digest = hashlib.sha256(content).hexdigest()
    return Ledger(path, digest, best, published, frozenset(told.users), told.data)


def write_ledger(path: Path, entries: Mapping[str, Entry], users: Sequence[int], data: str) -> None:
    """Renew the ledger of an audit in one step; `data` is the fingerprint of the data set."""
    file = _File(_LAYOUT, dict(entries), data=data, users=tuple(sorted(users)))
    write_atomically(path, as_json(asdict(file)))
