"""What a batch or an audit is going to do: its size, what it is expected to take, how far it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from srs_eval.benchmark.cluster import ON_THIS_MACHINE, Place
from srs_eval.benchmark.store import ResultStore, Status, Unit
from srs_eval.data.datasets import TABLES, Dataset, rows_in
from srs_eval.data.errors import InputError
from srs_eval.engine.session import seconds_to_compile
from srs_eval.models.configurations import Configuration

_UNIT_SECONDS = 0.005  # of preparation and metrics, whatever the model

START_SECONDS = 1.5  # of a worker

Tasks = list[tuple[int, tuple[str, ...]]]  # user, names of configurations
Expected = Callable[[int, Sequence[str]], float]  # seconds of such a task


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
    share: float  # of the expected work, 0-1


@dataclass(frozen=True)
class Ended:
    done: int
    failed: int
    skipped: int
    seconds: float


BatchEvent = Planned | UnitDone | Ended


def survey(dataset: Dataset) -> tuple[str, dict[int, int]]:
    """Fingerprint of the folder, and the bytes of each user's reviews."""
    digest = hashlib.sha256()  # of names within the folder, which may move, and sizes
    sizes = dict.fromkeys(dataset.users, 0)
    for table in TABLES:
        for user in dataset.users:
            for part in dataset.parts(table, user):
                size = _size(part)
                digest.update(f"{table}/{user}/{part.name}:{size};".encode())
                if table == "revlogs":
                    sizes[user] += max(size, 0)
    return digest.hexdigest(), sizes


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1  # a broken link is told when its turn comes


def expectations(
    dataset: Dataset, sizes: Mapping[int, int], configurations: Sequence[Configuration]
) -> Expected:
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
            size += max(_size(part), 0)
    rows_per_byte = rows / size if size else 0.1

    def expected(user: int, names: Sequence[str]) -> float:
        reviews = sizes.get(user, 0) * rows_per_byte
        return sum(_UNIT_SECONDS + by_name[name].expected_seconds(reviews) for name in names)

    return expected


class ToDo:
    """The units that are missing in a store, and how far they have come."""

    def __init__(
        self,
        store: ResultStore,
        configurations: Sequence[Configuration],
        users: Sequence[int] | Mapping[str, Sequence[int]],
        kinds: Collection[str],
        expected: Expected,
    ) -> None:
        self._store, self._expected = store, expected
        self._configurations = configurations
        self._done_with_less: set[tuple[str, int]] = set()  # without all files of these kinds
        self.before: dict[Status, int] = {"done": 0, "failed": 0, "skipped": 0}
        missing: dict[int, list[str]] = {}
        for configuration in configurations:
            name = configuration.name
            statuses = store.statuses(name)
            for user in users[name] if isinstance(users, Mapping) else users:
                missing.setdefault(user, [])
                status = statuses.get(user)
                if status == "done" and not all(store.keeps(kind, name, user) for kind in kinds):
                    self._done_with_less.add((name, user))
                    status = None
                if status is not None:
                    self.before[status] += 1
                if status in (None, "failed"):
                    missing[user].append(name)
        self.users = len(missing)
        tasks = [(user, tuple(names)) for user, names in missing.items() if names]
        # The longest first, so that no worker is left with one at the end.
        self.tasks: Tasks = sorted(tasks, key=lambda task: (-expected(*task), task[0]))
        self.units = sum(len(names) for _, names in tasks)
        self.counts: dict[Status, int] = {"done": 0, "failed": 0, "skipped": 0}
        self._work = self._seconds(tasks)
        self._worked = 0.0

    def store(self, unit: Unit) -> UnitDone:
        """Keep a unit, unless it is a vain try for more files of one that is done."""
        if unit.status == "done" or (unit.configuration, unit.user) not in self._done_with_less:
            self._store.append(unit)
        self.counts[unit.status] += 1
        self._worked += self._expected(unit.user, (unit.configuration,))
        finished = sum(self.counts.values())
        return UnitDone(
            unit,
            finished=finished,
            share=self._worked / self._work if finished < self.units else 1.0,
        )

    def planned(
        self, data: str, place: Place | None, others: Tasks, on_device: Tasks, engine: str
    ) -> Planned:
        """What there is to do at a place; `data` is the data set's fingerprint."""
        compiling = seconds = 0.0
        if place is not None:
            awaited = {name for _, names in self.tasks for name in names}
            chosen = [each for each in self._configurations if each.name in awaited]
            compiling = seconds_to_compile(chosen) if engine in ON_THIS_MACHINE else 0.0
            seconds = place.seconds(self._seconds(others), self._seconds(on_device))
            seconds += START_SECONDS + compiling
        return Planned(
            users=self.users,
            configurations=tuple(each.name for each in self._configurations),
            data=data,
            units=self.units,
            present=self.before["done"],
            skipped_before=self.before["skipped"],
            retried=self.before["failed"],
            jobs=0 if place is None else place.all_jobs,
            expected_seconds=seconds,
            compile_seconds=compiling,
            damaged=self._store.damaged,
        )

    def _seconds(self, tasks: Tasks) -> float:
        """Of one worker."""
        return sum(self._expected(*task) for task in tasks)
