"""Plan a batch or an audit, follow its progress and open the workers that run its tasks.

Tasks run in worker processes of this machine or on a Dask cluster, whose executor
(`distributed.Client.get_executor`) has the interface of `WorkerPool`, with two differences. It
delivers no messages, so the units of a user arrive all at once. And when a worker dies, Dask
fails every task that the worker held, not only the one in progress: the caller has to find out
which task killed the worker.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from srs_eval.benchmark.setup import SIMD_KEY, environment
from srs_eval.benchmark.store import ResultStore, Status, Unit
from srs_eval.data.datasets import TABLES, Dataset
from srs_eval.data.errors import InputError, require
from srs_eval.engine.session import estimate_compile_seconds
from srs_eval.engine.workers import WorkerDied, WorkerPool, WorkersCannotStart
from srs_eval.models.configurations import Configuration

if TYPE_CHECKING:
    from distributed import Client

_P = ParamSpec("_P")
_T = TypeVar("_T")

_LOCAL_ENGINES = ("local", "dask-local")  # run here, with this machine's compiled kernels
_CLUSTER_QUEUE_LENGTH = 1_000
"""Tasks submitted ahead to a cluster: one that adapts its size sees how much there is to do."""
_CONNECT_TIMEOUT_SECONDS = 20
_REVIEWS_PER_BYTE = {"parquet": 0.1, "csv": 0.03}  # approximate, by layout of the data set
_UNIT_OVERHEAD_SECONDS = 0.005  # preparation and metrics, for any model

WORKER_START_SECONDS = 1.5

Tasks = list[tuple[int, tuple[str, ...]]]  # users, each with names of configurations


@dataclass(frozen=True)
class CheckingModels:
    """The user's own models are being checked for reading the future, before planning begins."""

    models: tuple[str, ...]


@dataclass(frozen=True)
class Planned:
    """The work to do; nothing has started yet."""

    users: int  # number of users
    configurations: tuple[str, ...]  # names
    fingerprint: str  # of the data set
    units: int  # number of units to evaluate now, including those that failed before
    already_done: int  # finished by earlier runs
    already_skipped: int = 0
    retried: int = 0  # those of `units` that failed before
    jobs: int = 0  # 0 if there is nothing to do, or if a cluster has no workers so far
    expected_seconds: float = 0  # rough estimate, including worker start and compilation
    compile_seconds: float = 0  # part of `expected_seconds`; 0 on a remote cluster
    damaged_lines: int = 0  # damaged or torn lines of the journals
    trainings: int = 0  # on other users, before their results serve units


@dataclass(frozen=True)
class TrainingOnOthers:
    """Models are being trained on other users than those that they will be evaluated on."""

    trained: int  # trainings that have ended
    trainings: int
    fraction_done: float  # of all trainings, from 0 to 1


@dataclass(frozen=True)
class UnitDone:
    """One unit of a batch is finished."""

    unit: Unit
    finished_units: int  # so far
    fraction_done: float  # of the expected working time, from 0 to 1


@dataclass(frozen=True)
class Ended:
    """A batch has ended; the numbers are those of units in this run."""

    done: int
    failed: int
    skipped: int


BatchEvent = CheckingModels | Planned | TrainingOnOthers | UnitDone | Ended


def survey_dataset(dataset: Dataset) -> tuple[str, dict[int, int]]:
    """Return the data set's fingerprint and the size of each user's files of reviews in bytes.

    The fingerprint is made from names and sizes of files; it stays if the folder is moved.
    """
    digest = hashlib.sha256()
    sizes = dict.fromkeys(dataset.users, 0)
    for table in TABLES:
        for user in dataset.users:
            for path in dataset.table_files(table, user):
                size = _file_size(path)
                digest.update(f"{table}/{user}/{path.name}:{size};".encode())
                if table == "revlogs":
                    sizes[user] += max(size, 0)
    return digest.hexdigest(), sizes


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1  # a broken link, which is reported when the user's turn comes


class PendingUnits:
    """The units that a batch still has to evaluate, and the progress with them."""

    def __init__(
        self,
        store: ResultStore,
        dataset: Dataset,
        sizes: Mapping[int, int],
        configurations: Sequence[Configuration],
        users: Sequence[int] | Mapping[str, Sequence[int]],
        file_kinds: Collection[str],
    ) -> None:
        """Find the units that are missing in the store or failed before.

        `sizes` come from `survey_dataset`; `file_kinds` are the files to keep for each unit.
        """
        self._store = store
        self._configurations = {
            configuration.name: configuration for configuration in configurations
        }
        self._sizes = sizes
        self._reviews_per_byte = _REVIEWS_PER_BYTE[dataset.layout]
        self._done_without_files: set[tuple[str, int]] = set()  # units that lack some of the files
        self.counts_before: dict[Status, int] = {"done": 0, "failed": 0, "skipped": 0}
        """Number of units by their status in the store, before this run."""
        names_by_user: dict[int, list[str]] = {}  # configurations to evaluate; [] if none is left
        for name in self._configurations:
            statuses = store.statuses(name)
            users_of_configuration = users[name] if isinstance(users, Mapping) else users
            for user in users_of_configuration:
                names_to_evaluate = names_by_user.setdefault(user, [])
                status = statuses.get(user)
                has_files = all(store.has_file(kind, name, user) for kind in file_kinds)
                if status == "done" and not has_files:
                    self._done_without_files.add((name, user))
                    status = None  # as if it were missing
                if status is not None:
                    self.counts_before[status] += 1
                if status in (None, "failed"):
                    names_to_evaluate.append(name)
        self._user_count = len(names_by_user)
        tasks = [(user, tuple(names)) for user, names in names_by_user.items() if names]
        # Longest first, so that the last worker is not left alone with a long task.
        self.tasks: Tasks = sorted(
            tasks, key=lambda task: (-self._expected_seconds(*task), task[0])
        )
        self._unit_count = sum(len(names) for _, names in tasks)
        self.counts: dict[Status, int] = {"done": 0, "failed": 0, "skipped": 0}
        """Number of units that this run has recorded so far."""
        self._expected_total_seconds = sum(self._expected_seconds(*task) for task in tasks)
        self._expected_done_seconds = 0.0

    def record(self, unit: Unit) -> UnitDone:
        """Store a unit and return the event for it.

        A unit that was done before, and is evaluated again for its files only, is not stored if it
        fails now: the earlier result stays.
        """
        if unit.status == "done" or (unit.configuration, unit.user) not in self._done_without_files:
            self._store.append(unit)
        self.counts[unit.status] += 1
        self._expected_done_seconds += self._expected_seconds(unit.user, (unit.configuration,))
        finished = sum(self.counts.values())
        fraction = 1.0
        if finished < self._unit_count:
            fraction = self._expected_done_seconds / self._expected_total_seconds
        return UnitDone(unit, finished, fraction)

    def make_plan(
        self, fingerprint: str, backend: Backend | None, engine: str, trainings: int = 0
    ) -> Planned:
        """Plan the work on a backend (None: there is none).

        `fingerprint` is the data set's; so many `trainings` on other users come first.
        """
        jobs = 0
        compile_seconds = 0.0
        seconds = 0.0
        if backend is not None:
            jobs = backend.jobs
            if engine in _LOCAL_ENGINES:
                compile_seconds = estimate_compile_seconds(self._pending_configurations())
            work_seconds = self._expected_total_seconds / max(1, jobs)
            seconds = work_seconds + WORKER_START_SECONDS + compile_seconds
        return Planned(
            users=self._user_count,
            configurations=tuple(self._configurations),
            fingerprint=fingerprint,
            units=self._unit_count,
            already_done=self.counts_before["done"],
            already_skipped=self.counts_before["skipped"],
            retried=self.counts_before["failed"],
            jobs=jobs,
            expected_seconds=seconds,
            compile_seconds=compile_seconds,
            damaged_lines=self._store.damaged_line_count,
            trainings=trainings,
        )

    def _pending_configurations(self) -> list[Configuration]:
        """Return the configurations with units to evaluate."""
        pending_names: set[str] = set()
        for _, names in self.tasks:
            pending_names.update(names)
        return [
            configuration
            for name, configuration in self._configurations.items()
            if name in pending_names
        ]

    def _expected_seconds(self, user: int, names: Sequence[str]) -> float:
        """Estimate the seconds that configurations take on a user, from the size of the files."""
        reviews = self._sizes.get(user, 0) * self._reviews_per_byte
        return sum(
            _UNIT_OVERHEAD_SECONDS + self._configurations[name].expected_seconds(reviews)
            for name in names
        )


# --- where tasks run


@dataclass(frozen=True)
class Backend:
    """An executor with its capacity and failure behaviour."""

    executor: Executor
    jobs: int  # tasks in progress at a time; 0 as long as a cluster has no workers
    queue_length: int  # tasks to submit before the first is done
    loses_whole_queue: bool = False
    """When a worker dies, all its tasks fail (WorkerDied), and the culprit is unknown."""


def is_engine(text: str) -> bool:
    """Return whether a text names an engine or an address of a Dask scheduler."""
    return text in _LOCAL_ENGINES or _parse_address(text) is not None


@contextmanager
def open_backend(
    engine: str,
    jobs: int,
    folder: Path,
    initializer: Callable[[], object],
    on_message: Callable[[Future[Any], Any], None],
) -> Iterator[Backend]:
    """Open the workers of `local`, `dask-local` or `dask://HOST:PORT` until the block ends.

    With `local`, each worker runs `initializer` first, and `on_message` takes its messages. With
    Dask, workers must be able to read `folder`; on a worker that cannot, or that runs another
    program, tasks fail with WorkersCannotStart before they begin. Raises NotInstalled, and
    InputError if no scheduler answers.
    """
    if engine == "local":
        pool = WorkerPool(jobs, initializer=initializer, on_message=on_message)
        with pool:
            yield Backend(pool, jobs, queue_length=2 * jobs)
        return
    require("distributed", f"--engine {engine}")
    with _open_client(engine, jobs) as client:
        threads = sum(client.nthreads().values())
        expected = {**environment(), "folder": str(folder.absolute())}
        queue_length = 2 * threads
        if engine != "dask-local":
            queue_length = max(queue_length, _CLUSTER_QUEUE_LENGTH)
        yield Backend(
            _DaskExecutor(client, expected),
            jobs=threads,
            queue_length=queue_length,
            loses_whole_queue=True,
        )


@contextmanager
def _open_client(engine: str, jobs: int) -> Iterator[Client]:
    import logging

    import dask
    from distributed import Client, LocalCluster

    if engine == "dask-local":
        # Dask reports a worker's death without retries of its own: the batch decides what is tried
        # again. The scheduler opens a port even without its web page; any free one will do.
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
    address = _parse_address(engine)
    try:
        client = Client(address, timeout=_CONNECT_TIMEOUT_SECONDS)
    except OSError:
        raise InputError(
            f"No Dask scheduler answers at {address}: start one (dask scheduler) or correct "
            "the address."
        ) from None
    with client:
        yield client


def _parse_address(engine: str) -> str | None:
    match = re.fullmatch(r"dask://([^\s/:]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", engine)
    if match is None:
        return None
    return f"tcp://{match[1]}:{match[2]}"


class _DaskExecutor(Executor):
    """Dask's executor, restricted to workers that run the same program as this process."""

    def __init__(self, client: Client, expected_environment: Mapping[str, str]) -> None:
        # Otherwise Dask would answer a task that is submitted again with the first one's result.
        self._executor = client.get_executor(pure=False)
        self._expected = expected_environment

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        future: Future[_T] = self._executor.submit(_run_checked, self._expected, fn, args, kwargs)
        return future


def find_error(future: Future[Any]) -> BaseException | None:
    """Return the error of a finished task, if it failed; Dask's errors become `WorkerPool`'s."""
    if future.cancelled():
        return WorkersCannotStart(
            "The Dask cluster is gone, or has dropped this batch: run the same command again to "
            "continue."
        )
    error = future.exception()
    if type(error).__name__ == "KilledWorker":  # from `distributed`, which may not be installed
        return WorkerDied("the worker died while it worked on this task alone")
    return error


def _run_checked(
    expected_environment: Mapping[str, str],
    fn: Callable[..., _T],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> _T:
    """Run a task on a worker that runs the program which sent it and can read the data set.

    Raises WorkersCannotStart on any other worker.
    """
    actual = environment()
    for name, version in expected_environment.items():
        if name in ("folder", "machine", SIMD_KEY):
            continue
        if actual.get(name, "none") != version:
            installed = f"{name} {actual.get(name)}"
            if name in ("srs_eval", "code"):
                installed = "another srs-eval"
            raise WorkersCannotStart(
                f"The Dask worker on {platform.node()} runs {installed}, but this command "
                f"runs {name} {version}: install the same version there, then run the command "
                "again."
            )
    if not os.path.isdir(expected_environment["folder"]):
        raise WorkersCannotStart(
            f"The Dask worker on {platform.node()} has no folder {expected_environment['folder']}: "
            "the data set must lie under the same path on every machine."
        )
    return fn(*args, **kwargs)
