"""Users x configurations over worker processes; a stream of events, no output.

A task is one user with all configurations that are missing, so that they share the
prepared trials. Workers compute; this process alone writes, one unit at a time
(`srs_eval.store`).
"""

from __future__ import annotations

import re
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srs_eval import __version__
from srs_eval.errors import InputError, NotEnoughData, NotInstalled
from srs_eval.processes import cores, how_it_died, start_process, stop_processes
from srs_eval.store import ResultStore, Status, Unit, folder_fingerprint

if TYPE_CHECKING:
    from srs_eval.configurations import Configuration
    from srs_eval.context import Context
    from srs_eval.dataset import Dataset
    from srs_eval.engine import Session

PUBLISH_SECONDS = 30.0
UNIT_SECONDS = 0.005  # of preparation and metrics, whatever the model
START_SECONDS = 1.5  # of a worker
LIBRARIES = ("numpy", "numba", "scipy", "torch", "scikit-learn", "fsrs-rs-python", "ebisu")


@dataclass(frozen=True)
class Planned:
    """What there is to do; nothing is started yet."""

    users: int
    configurations: tuple[str, ...]
    units: int  # to evaluate now, those that failed before included
    present: int  # done before
    skipped_before: int
    retried: int  # of `units`: failed before
    jobs: int
    expected_seconds: float  # a rough guess
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


def run_batch(
    dataset: Dataset,
    configurations: Sequence[Configuration],
    out: Path,
    *,
    users: Sequence[int] | None = None,
    jobs: int | None = None,
    fresh: bool = False,
    merge: Sequence[Path] = (),
    context: Context | None = None,
    publish_seconds: float = PUBLISH_SECONDS,
) -> Generator[BatchEvent, None, None]:
    """Evaluate what is missing in `out` of users x configurations.

    Yields Planned, a UnitDone for each unit, and Ended. The files in `out` do not depend
    on `jobs`, on interruptions or on the order of events (`timing/` apart). Closing the
    iterator, or an exception such as KeyboardInterrupt, ends all workers; what they had
    finished is kept and visible. `merge` names other batch folders with the same set-up,
    whose units are taken over first. Raises InputError for an unusable set-up.
    """
    from srs_eval.context import Context

    context = context or Context()
    jobs = cores() if jobs is None else max(1, jobs)
    wanted = list(dataset.users if users is None else users)
    fingerprint, sizes = _survey(dataset)
    setup = make_setup(dataset, fingerprint, configurations, context)
    with ResultStore(out, setup, fresh=fresh) as store:
        try:
            for other in merge:
                store.take_over(other)
            before: dict[Status, int] = {"done": 0, "failed": 0, "skipped": 0}
            missing: dict[int, list[str]] = {user: [] for user in wanted}
            for configuration in configurations:
                statuses = store.statuses(configuration.name)
                for user in wanted:
                    status = statuses.get(user)
                    if status is not None:
                        before[status] += 1
                    if status in (None, "failed"):
                        missing[user].append(configuration.name)
            expected = _expectations(dataset, sizes, configurations)
            tasks = [_Task(user, tuple(names)) for user, names in missing.items() if names]
            # The longest first, so that no worker is left with one at the end.
            tasks.sort(key=lambda task: (-expected(task.user, task.names), task.user))
            units = sum(len(task.names) for task in tasks)
            work = sum(expected(task.user, task.names) for task in tasks)
            jobs = min(jobs, max(1, len(tasks)))
            yield Planned(
                users=len(wanted),
                configurations=tuple(each.name for each in configurations),
                units=units,
                present=before["done"],
                skipped_before=before["skipped"],
                retried=before["failed"],
                jobs=jobs,
                expected_seconds=(work / jobs + START_SECONDS) if tasks else 0.0,
                damaged=store.damaged,
            )
            start = time.monotonic()
            counts: dict[Status, int] = {"done": 0, "failed": 0, "skipped": 0}
            left = {task.user: len(task.names) for task in tasks}
            finished_work = 0.0
            publishing = _Regularly(store.publish, publish_seconds)
            pool = _Pool(dataset, configurations, context, jobs)
            try:
                for unit in pool.run(tasks):
                    store.append(unit)
                    counts[unit.status] += 1
                    left[unit.user] -= 1
                    finished_work += expected(unit.user, (unit.configuration,))
                    publishing()
                    yield UnitDone(
                        unit,
                        finished=sum(counts.values()),
                        users_finished=sum(not count for count in left.values()),
                        share=finished_work / work if sum(counts.values()) < units else 1.0,
                    )
            finally:
                for unit in pool.close():
                    store.append(unit)
            yield Ended(seconds=time.monotonic() - start, **counts)
        finally:
            store.publish(everything=True)


def select_users(
    available: Sequence[int], ranges: str | None = None, max_user_id: int | None = None
) -> list[int]:
    """The users that `1-1000,1005` and an upper bound leave, ascending.

    A range takes what there is in it; a single id that is not there raises InputError, and
    so does a selection without anyone.
    """
    chosen = set(available)
    if ranges is not None:
        chosen = set()
        present = set(available)
        for part in ranges.split(","):
            match = re.fullmatch(r"\s*(\d{1,15})\s*(?:-\s*(\d{1,15})\s*)?", part)
            if not match:
                raise InputError(
                    "--users takes ids and ranges such as 1-1000,1005; "
                    f'"{part.strip()}" is neither.'
                )
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                raise InputError(f'--users: "{part.strip()}" ends before it begins.')
            if match[2] is None and first not in present:
                raise InputError(f"--users: there is no user {first} in this data set.")
            chosen.update(user for user in available if first <= user <= last)
    if max_user_id is not None:
        chosen = {user for user in chosen if user <= max_user_id}
    if not chosen:
        raise InputError(
            f"No user is selected: the data set has {len(available)}, "
            f"ids {min(available)} to {max(available)}."
        )
    return sorted(chosen)


def make_setup(
    dataset: Dataset,
    fingerprint: str,
    configurations: Sequence[Configuration],
    context: Context,
) -> dict[str, Any]:
    """What figures depend on, as `OUT/setup.json` holds it."""
    import platform
    from importlib import metadata

    versions = {"python": platform.python_version(), "machine": platform.machine()}
    for library in LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    options = context.settings()
    del options["user"]  # each unit has its own
    return {
        "srs_eval": __version__,
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
                "fit": each.fit,
                "protocol": asdict(each.protocol),
            }
            for each in configurations
        },
        "environment": versions,
    }


def _survey(dataset: Dataset) -> tuple[str, dict[int, int]]:
    """Fingerprint of the folder, and the bytes of each user's reviews."""
    names: list[tuple[str, Path]] = []
    sizes: dict[int, int] = {}
    for table in ("revlogs", "cards", "decks"):
        for user in dataset.users:
            folder = dataset.folder / table / f"user_id={user}"
            parts = sorted(folder.glob("*.parquet"))
            names += [(f"{table}/{user}/{part.name}", part) for part in parts]
            if table == "revlogs":
                sizes[user] = sum(_size(part) for part in parts)
    return folder_fingerprint(names), sizes


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # a broken link is told when its turn comes


def _expectations(
    dataset: Dataset, sizes: Mapping[int, int], configurations: Sequence[Configuration]
) -> Callable[[int, Sequence[str]], float]:
    """A guess of the seconds that configurations take on a user, from the size of the file."""
    import pyarrow.parquet

    per_10k = {each.name: each.expected_seconds_per_10k for each in configurations}
    rows = size = 0
    by_size = sorted(sizes, key=lambda user: (sizes[user], user))
    for user in by_size[len(by_size) // 2 :][: 8 * 64 : 64] + by_size[-1:]:
        for part in (dataset.folder / "revlogs" / f"user_id={user}").glob("*.parquet"):
            try:
                rows += pyarrow.parquet.read_metadata(part).num_rows
            except (OSError, pyarrow.ArrowException):
                continue  # a damaged file is told when its turn comes
            size += _size(part)
    rows_per_byte = rows / size if size else 0.1

    def expected(user: int, names: Sequence[str]) -> float:
        ten_thousands = sizes.get(user, 0) * rows_per_byte / 10_000
        return sum(UNIT_SECONDS + ten_thousands * per_10k[name] for name in names)

    return expected


class _Regularly:
    """Calls a function now and then, never for more than a small share of the time."""

    def __init__(self, function: Callable[[], None], seconds: float) -> None:
        self.function = function
        self.seconds = seconds
        self.next = time.monotonic() + seconds

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self.next:
            self.function()
            cost = time.monotonic() - now
            self.next = now + cost + max(self.seconds, 20 * cost)


# --- the parent's side of the workers ------------------------------------------


@dataclass(frozen=True)
class _Task:
    user: int
    names: tuple[str, ...]


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    ready: bool = False  # it has started up
    user: int | None = None
    waiting: list[str] | None = None  # configurations of the user without a unit
    current: str | None = None  # the one it is working on


class _Pool:
    """Worker processes that are replaced when they die."""

    def __init__(
        self,
        dataset: Dataset,
        configurations: Sequence[Configuration],
        context: Context,
        jobs: int,
    ) -> None:
        self.arguments = (str(dataset.folder), list(configurations), context)
        self.jobs = jobs
        self.workers: list[_Worker] = []
        self.tasks: deque[_Task] = deque()

    def run(self, tasks: Sequence[_Task]) -> Iterator[Unit]:
        """Units in the order in which they are finished."""
        self.tasks.extend(tasks)
        while self.tasks or any(worker.user is not None for worker in self.workers):
            while len(self.workers) < self.jobs and len(self.workers) < self._needed():
                self._start()
            ready = wait([worker.connection for worker in self.workers])
            for worker in [each for each in self.workers if each.connection in ready]:
                try:
                    message = worker.connection.recv()
                except (EOFError, OSError):
                    yield from self._bury(worker)
                    continue
                unit = self._heard(worker, message)
                if unit is not None:
                    yield unit

    def close(self) -> list[Unit]:
        """End all workers; returns what they had finished and nobody had read."""
        units = []
        for worker in self.workers:
            try:
                while worker.connection.poll():
                    unit = self._heard(worker, worker.connection.recv(), more=False)
                    if unit is not None:
                        units.append(unit)
            except (EOFError, OSError):
                continue
        stop_processes(worker.process for worker in self.workers)
        for worker in self.workers:
            worker.connection.close()
        self.workers.clear()
        return units

    def _needed(self) -> int:
        return len(self.tasks) + sum(worker.user is not None for worker in self.workers)

    def _start(self) -> None:
        ours, theirs = Pipe()
        process = start_process(_work, (theirs, *self.arguments))
        theirs.close()
        self.workers.append(_Worker(process, ours))

    def _heard(self, worker: _Worker, message: Any, *, more: bool = True) -> Unit | None:
        match message:
            case ("ready",):
                worker.ready = True
                if more:
                    self._give_task(worker)
            case ("started", name):
                worker.current = name
            case ("unit", Unit() as unit):
                assert worker.waiting is not None
                worker.waiting.remove(unit.configuration)
                worker.current = None
                if not worker.waiting:
                    worker.user = worker.waiting = None
                    if more:
                        self._give_task(worker)
                return unit
            case ("broken", reason):
                raise InputError(f"Worker processes cannot start ({reason}).")
        return None

    def _give_task(self, worker: _Worker) -> None:
        if not self.tasks:
            return
        task = self.tasks.popleft()
        worker.user, worker.waiting, worker.current = task.user, list(task.names), None
        try:
            worker.connection.send(task)
        except OSError:
            return  # it is gone: the next read says so

    def _bury(self, worker: _Worker) -> Iterator[Unit]:
        """A worker has died: what it was working on has failed, the rest goes to another."""
        self.workers.remove(worker)
        worker.connection.close()
        worker.process.join(timeout=1)
        stop_processes([worker.process])
        reason = how_it_died(worker.process)
        if not worker.ready:
            raise InputError(f"Worker processes cannot start: {reason}.")
        if worker.user is None or worker.waiting is None:
            return
        # Without a configuration at work it died over the user's data: so would the next.
        lost = worker.waiting if worker.current is None else [worker.current]
        rest = tuple(name for name in worker.waiting if name not in lost)
        if rest:
            self.tasks.appendleft(_Task(worker.user, rest))
        for name in lost:
            yield Unit(name, worker.user, "failed", reason=reason)


# --- the workers' side ---------------------------------------------------------


def _work(
    connection: Connection,
    folder: str,
    configurations: Sequence[Configuration],
    context: Context,
) -> None:
    """A worker's main loop: tasks in, units out, until the pipe closes."""
    import warnings

    try:
        from srs_eval.dataset import Dataset

        warnings.simplefilter("ignore")  # a chaotic fit's overflow is no news to a person
        dataset = Dataset(Path(folder))
        by_name = {each.name: each for each in configurations}
    except Exception as error:
        connection.send(("broken", f"{type(error).__name__}: {error}"))
        return
    try:
        connection.send(("ready",))
        while True:
            task: _Task = connection.recv()
            chosen = [by_name[name] for name in task.names]
            for message in _evaluate_user(dataset, task.user, chosen, context):
                connection.send(message)
    except (EOFError, OSError):
        return


def _evaluate_user(
    dataset: Dataset, user: int, configurations: Sequence[Configuration], context: Context
) -> Iterator[tuple[str, Any]]:
    from srs_eval.engine import Session

    try:
        session = Session(dataset.load(user))
    except Exception as error:
        for configuration in configurations:
            yield "unit", _failed(configuration.name, user, error)
        return
    for configuration in configurations:
        yield "started", configuration.name
        yield "unit", _evaluate_unit(session, configuration, user, replace(context, user=user))


def _evaluate_unit(
    session: Session, configuration: Configuration, user: int, context: Context
) -> Unit:
    _forget_peak()
    start = time.perf_counter()
    try:
        result = session.run(configuration, context)
        return Unit(
            configuration.name,
            user,
            "done",
            line={**result.to_upstream(), "user": user},
            seconds=time.perf_counter() - start,
            peak_mb=_peak_mb(),
            notes=tuple(result.notes),
        )
    except (NotEnoughData, NotInstalled) as reason:
        return Unit(configuration.name, user, "skipped", reason=str(reason))
    except Exception as error:
        return _failed(configuration.name, user, error)


def _failed(name: str, user: int, error: Exception) -> Unit:
    if isinstance(error, InputError):
        return Unit(name, user, "failed", reason=str(error))
    if isinstance(error, MemoryError):
        reason = "not enough memory"
    else:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    detail = "".join(traceback.format_exception(error))
    return Unit(name, user, "failed", reason=reason, detail=detail)


def _forget_peak() -> None:
    """Linux can start its record of the highest memory use anew."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return


def _peak_mb() -> float:
    """Highest resident memory in MB, since `_forget_peak` on Linux, else since the start."""
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    try:
        import resource
        import sys
    except ImportError:  # Windows
        return 0.0
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
