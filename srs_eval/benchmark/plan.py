"""What a batch or an audit is going to do, how far it is, and where its tasks run.

They run in worker processes of this machine, or on a Dask cluster, whose executor
(`distributed.Client.get_executor`) has the interface of `WorkerPool`, with two differences. It
delivers no messages, so that the units of a user come all at once. And when a worker dies, Dask
gives up every task that the worker held, not only the one that it worked on: whoever submitted them
has to find out which it was.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from srs_eval.benchmark.setup import SIMD, environment
from srs_eval.benchmark.store import ResultStore, Status, Unit
from srs_eval.data.datasets import TABLES, Dataset
from srs_eval.data.errors import InputError, require
from srs_eval.engine.session import seconds_to_compile
from srs_eval.engine.workers import WorkerDied, WorkerPool, WorkersCannotStart
from srs_eval.models.configurations import Configuration

if TYPE_CHECKING:
    from distributed import Client

_P = ParamSpec("_P")
_T = TypeVar("_T")

_ON_THIS_MACHINE = ("local", "dask-local")  # engines whose workers share its compiled kernels
_AHEAD = 1_000
"""Tasks that wait on a cluster of unknown size, so that it knows what there is to do."""
_SECONDS_TO_CONNECT = 20
_REVIEWS_A_BYTE = {"parquet": 0.1, "csv": 0.03}  # about, of a file
_UNIT_SECONDS = 0.005  # of preparation and metrics, whatever the model

START_SECONDS = 1.5  # of a worker

Tasks = list[tuple[int, tuple[str, ...]]]  # user, names of configurations


@dataclass(frozen=True)
class CheckingModels:
    """A person's own models are checked for reading the future, before anything is planned."""

    models: tuple[str, ...]


@dataclass(frozen=True)
class Planned:
    """What there is to do; nothing is started yet."""

    users: int
    configurations: tuple[str, ...]
    data: str  # fingerprint of the data set
    units: int  # to evaluate now, those that failed before included
    present: int  # done before
    skipped_before: int = 0
    retried: int = 0  # of `units`: failed before
    jobs: int = 0  # 0: a cluster without workers so far
    expected_seconds: float = 0  # a rough guess, with starting workers and compiling
    compile_seconds: float = 0  # of these: kernels that are not there yet; 0 on a cluster of others
    damaged: int = 0  # lines of the journal that were not whole


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


BatchEvent = CheckingModels | Planned | UnitDone | Ended


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


class ToDo:
    """The units that are missing in a store, and how far they have come."""

    def __init__(
        self,
        store: ResultStore,
        dataset: Dataset,
        sizes: Mapping[int, int],
        configurations: Sequence[Configuration],
        users: Sequence[int] | Mapping[str, Sequence[int]],
        kinds: Collection[str],
    ) -> None:
        """`sizes` are those of `survey`, `kinds` of the files to keep of a unit."""
        self._store, self._configurations = store, {each.name: each for each in configurations}
        self._sizes, self._reviews_a_byte = sizes, _REVIEWS_A_BYTE[dataset.layout]
        self._done_with_less: set[tuple[str, int]] = set()  # without all files of these kinds
        self.before: dict[Status, int] = {"done": 0, "failed": 0, "skipped": 0}
        missing: dict[int, list[str]] = {}
        for name in self._configurations:
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
        self.tasks: Tasks = sorted(tasks, key=lambda task: (-self._expected(*task), task[0]))
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
        share = self._worked / self._work if finished < self.units else 1.0
        return UnitDone(unit, finished, share)

    def planned(
        self, data: str, place: Place | None, others: Tasks, on_device: Tasks, engine: str
    ) -> Planned:
        """What there is to do at a place; `data` is the data set's fingerprint."""
        compiling = seconds = 0.0
        if place is not None:
            awaited = {name for _, names in self.tasks for name in names}
            chosen = [each for name, each in self._configurations.items() if name in awaited]
            compiling = seconds_to_compile(chosen) if engine in _ON_THIS_MACHINE else 0.0
            seconds = self._seconds(others) / max(1, place.jobs)
            if place.for_device is not None:
                seconds = max(seconds, self._seconds(on_device) / place.for_device.jobs)
            seconds += START_SECONDS + compiling
        return Planned(
            users=self.users,
            configurations=tuple(self._configurations),
            data=data,
            units=self.units,
            present=self.before["done"],
            skipped_before=self.before["skipped"],
            retried=self.before["failed"],
            jobs=sum(each.jobs for each in (place, place and place.for_device) if each),
            expected_seconds=seconds,
            compile_seconds=compiling,
            damaged=self._store.damaged,
        )

    def _expected(self, user: int, names: Sequence[str]) -> float:
        """A guess of the seconds that configurations take on a user, from the size of the file."""
        reviews = self._sizes.get(user, 0) * self._reviews_a_byte
        its = (self._configurations[name].expected_seconds(reviews) for name in names)
        return sum(_UNIT_SECONDS + each for each in its)

    def _seconds(self, tasks: Tasks) -> float:
        """Of one worker."""
        return sum(self._expected(*task) for task in tasks)


# --- where tasks run


@dataclass(frozen=True)
class Place:
    """An executor, and what whoever submits to it has to know."""

    executor: Executor
    jobs: int  # tasks that are worked on at a time; 0 as long as a cluster has no workers
    ahead: int  # tasks to submit before the first is done
    blames_bystanders: bool = False
    """A worker's death fails every task that it held (WorkerDied), and nobody tells which."""
    for_device: Place | None = None
    """Where tasks go that run on a device."""


def is_engine(words: str) -> bool:
    return words in _ON_THIS_MACHINE or _address(words) is not None


@contextmanager
def open_place(
    engine: str,
    jobs: int,
    folder: Path,
    initializer: Callable[[], object],
    on_message: Callable[[Future[Any], Any], None],
    *,
    lane: WorkerPool | None = None,
    gpus: bool = False,
) -> Iterator[Place]:
    """The workers of `local`, `dask-local` or `dask://HOST:PORT`, until the block ends.

    What runs on a device has a place of its own there: beside the workers of `local` the pool
    `lane`, which ends with the block, too; on Dask, if asked for (`gpus`), the workers with the
    resource GPU. `folder` is what workers must be able to read. Raises NotInstalled, and
    InputError where no scheduler answers or no worker has a GPU. Tasks fail with
    WorkersCannotStart on a worker that runs another program, and before they begin.
    """
    if engine == "local":
        pool = WorkerPool(jobs, initializer=initializer, on_message=on_message)
        with pool, lane or nullcontext():
            for_device = None if lane is None else Place(lane, jobs=1, ahead=2)
            yield Place(pool, jobs, ahead=2 * jobs, for_device=for_device)
        return
    require("distributed", f"--engine {engine}")
    with _client(engine, jobs) as client:
        threads = sum(client.nthreads().values())
        expected = {**environment(), "folder": str(folder.absolute())}
        for_device = None
        if gpus:
            there = _with_a_gpu(client)
            executor = _DaskExecutor(client, expected, resources={"GPU": 1})
            for_device = Place(executor, jobs=there, ahead=2 * there, blames_bystanders=True)
        executor = _DaskExecutor(client, expected)
        yield Place(
            executor,
            jobs=threads,
            ahead=max(2 * threads, _AHEAD if engine != "dask-local" else 0),
            blames_bystanders=True,
            for_device=for_device,
        )


def _with_a_gpu(client: Client) -> int:
    """How many workers have the resource GPU. Raises InputError if none has."""
    workers = client.scheduler_info()["workers"].values()
    found = sum(worker["resources"].get("GPU", 0) >= 1 for worker in workers)
    if not found:
        raise InputError(
            "--device: no worker of the Dask cluster has the resource GPU; start one with "
            '"dask worker HOST:PORT --nthreads 1 --resources GPU=1", or leave --engine out.'
        )
    return found


@contextmanager
def _client(engine: str, jobs: int) -> Iterator[Client]:
    import logging

    import dask
    from distributed import Client, LocalCluster

    if engine == "dask-local":
        # A death is told at once; what is tried again, and how, is decided by the batch. Any free
        # port will do for the scheduler's own page, which nobody is told of.
        with (
            dask.config.set({"distributed.scheduler.allowed-failures": 0}),
            LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                memory_limit=None,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    address = _address(engine)
    try:
        client = Client(address, timeout=_SECONDS_TO_CONNECT)
    except OSError:
        raise InputError(
            f"No Dask scheduler answers at {address}: start one (dask scheduler) or correct "
            "the address."
        ) from None
    with client:
        yield client


def _address(engine: str) -> str | None:
    match = re.fullmatch(r"dask://([^\s/:]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", engine)
    return f"tcp://{match[1]}:{match[2]}" if match else None


class _DaskExecutor(Executor):
    """Dask's executor; tasks run on workers like this process only."""

    def __init__(self, client: Client, expected: Mapping[str, str], **where: Any) -> None:
        # Not pure: what is submitted a second time is to be tried a second time.
        self._executor = client.get_executor(pure=False, **where)
        self._expected = expected

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        future: Future[_T] = self._executor.submit(_checked, self._expected, fn, args, kwargs)
        return future


def error_of(future: Future[Any]) -> BaseException | None:
    """Why a task has failed that is done, in the words of `WorkerPool` for every executor."""
    if future.cancelled():
        return WorkersCannotStart(
            "The Dask cluster is gone, or has dropped this batch; the same command goes on from "
            "what is done."
        )
    error = future.exception()
    if type(error).__name__ == "KilledWorker":  # of `distributed`, which need not be there
        return WorkerDied("the worker died that had nothing else to do")
    return error


def _checked(
    expected: Mapping[str, str],
    fn: Callable[..., _T],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> _T:
    """On a worker: the task, if this is the program that sent it."""
    here = environment()
    for name, version in expected.items():
        if name not in ("folder", "machine", SIMD) and here.get(name, "none") != version:
            what = (
                "another srs-eval" if name in ("srs_eval", "code") else f"{name} {here.get(name)}"
            )
            raise WorkersCannotStart(
                f"The Dask worker on {platform.node()} runs {what}, this command "
                f"{name} {version}: install the same there, then run the command again."
            )
    if not os.path.isdir(expected["folder"]):
        raise WorkersCannotStart(
            f"The Dask worker on {platform.node()} has no folder {expected['folder']}: "
            "the data set must lie under the same path on every machine."
        )
    return fn(*args, **kwargs)
