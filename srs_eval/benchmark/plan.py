"""What a batch or an audit is going to do: its set-up, its size, what it is expected to take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from srs_eval.benchmark.cluster import environment
from srs_eval.benchmark.store import Unit, folder_fingerprint
from srs_eval.data.datasets import TABLES, Dataset, rows_in
from srs_eval.data.errors import InputError
from srs_eval.data.paths import VERSION
from srs_eval.models.configurations import Configuration
from srs_eval.training.context import Context

_UNIT_SECONDS = 0.005  # of preparation and metrics, whatever the model

START_SECONDS = 1.5  # of a worker


@dataclass(frozen=True)
class Planned:
    """What there is to do; nothing is started yet."""

    users: int
    configurations: tuple[str, ...]
    data: str  # fingerprint of the data set
    units: int  # to evaluate now, those that failed before included
    present: int  # done before
    skipped_before: int
    retried: int  # of `units`: failed before
    jobs: int  # 0: a cluster without workers so far
    expected_seconds: float  # a rough guess, with starting workers and compiling
    compile_seconds: float  # of these: kernels that are not there yet; 0 on a cluster of others
    damaged: int  # lines of the journal that were not whole


@dataclass(frozen=True)
class UnitDone:
    unit: Unit
    finished: int  # units so far
    users_finished: int
    share: float  # of the expected work, 0-1


@dataclass(frozen=True)
class Ended:
    done: int
    failed: int
    skipped: int
    seconds: float


BatchEvent = Planned | UnitDone | Ended


def make_setup(
    dataset: Dataset,
    fingerprint: str,
    configurations: Sequence[Configuration],
    context: Context,
) -> dict[str, Any]:
    """What figures depend on, as `OUT/setup.json` holds it."""
    options = context.settings()
    del options["user"]  # each unit has its own
    return {
        "srs_eval": VERSION,
        "data": {
            "folder": str(dataset.folder.absolute()),
            "users": len(dataset.users),
            "fingerprint": fingerprint,
        },
        "options": options,
        "configurations": {
            each.name: {
                "model": each.model.name,
                "model_version": each.model.version,
                **({"model_file": each.model.file.digest} if each.model.file else {}),
                "fit": each.fit,
                **({"hyperparameters": dict(each.hyperparameters)} if each.hyperparameters else {}),
                **({"ledger": each.ledger} if each.ledger else {}),
                "protocol": asdict(each.protocol),
            }
            for each in configurations
        },
        "environment": dict(environment()),
    }


def survey(dataset: Dataset) -> tuple[str, dict[int, int]]:
    """Fingerprint of the folder, and the bytes of each user's reviews."""
    names: list[tuple[str, Path]] = []
    sizes: dict[int, int] = {}
    for table in TABLES:
        for user in dataset.users:
            parts = dataset.parts(table, user)
            names += [(f"{table}/{user}/{part.name}", part) for part in parts]
            if table == "revlogs":
                sizes[user] = sum(_size(part) for part in parts)
    return folder_fingerprint(names), sizes


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # a broken link is told when its turn comes


def expectations(
    dataset: Dataset, sizes: Mapping[int, int], configurations: Sequence[Configuration]
) -> Callable[[int, Sequence[str]], float]:
    """A guess of the seconds that configurations take on a user, from the size of the file."""
    by_name = {each.name: each for each in configurations}
    rows = size = 0
    by_size = sorted(sizes, key=lambda user: (sizes[user], user))
    for user in by_size[len(by_size) // 2 :][: 8 * 64 : 64] + by_size[-1:]:
        for part in dataset.parts("revlogs", user):
            try:
                rows += rows_in(part)
            except InputError:
                continue  # a damaged file is told when its turn comes
            size += _size(part)
    rows_per_byte = rows / size if size else 0.1

    def expected(user: int, names: Sequence[str]) -> float:
        reviews = sizes.get(user, 0) * rows_per_byte
        return sum(_UNIT_SECONDS + by_name[name].expected_seconds(reviews) for name in names)

    return expected
