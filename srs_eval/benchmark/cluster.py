"""Where a batch's tasks run: worker processes of this machine, or a Dask cluster.

Dask's executor (`distributed.Client.get_executor`) has the interface of `WorkerPool`, with
two differences. It delivers no messages, so that the units of a user come all at once. And
when a worker dies, Dask gives up every task that the worker held, not only the one that it
worked on: whoever submitted them has to find out which it was.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from srs_eval.benchmark.setup import environment
from srs_eval.data.errors import InputError, require
from srs_eval.engine.workers import WorkerDied, WorkerPool, WorkersCannotStart

if TYPE_CHECKING:
    from distributed import Client

_P = ParamSpec("_P")
_T = TypeVar("_T")

ON_THIS_MACHINE = ("local", "dask-local")  # engines whose workers share its compiled kernels
_AHEAD = 1_000
"""Tasks that wait on a cluster of unknown size, so that it knows what there is to do."""
_SECONDS_TO_CONNECT = 20


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

    @property
    def all_jobs(self) -> int:
        """With those on a device."""
        return self.jobs + (0 if self.for_device is None else self.for_device.jobs)

    def seconds(self, work: float, on_device: float) -> float:
        """What takes so many seconds of one worker, of either kind, takes here."""
        there = 0.0 if self.for_device is None else on_device / self.for_device.jobs
        return max(work / max(1, self.jobs), there)


def is_engine(words: str) -> bool:
    return words in ON_THIS_MACHINE or _address(words) is not None


@contextmanager
def open_place(
    engine: str,
    jobs: int,
    folder: Path,
    initializer: Callable[[], None],
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
        try:
            for_device = None if lane is None else Place(lane, jobs=1, ahead=2)
            yield Place(pool, jobs, ahead=2 * jobs, for_device=for_device)
        finally:
            pool.terminate_workers()
            if lane is not None:
                lane.terminate_workers()
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
        executor.shutdown(wait=False, cancel_futures=True)


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
    """Dask's executor, its errors translated; tasks run on workers like this process only."""

    def __init__(self, client: Client, expected: Mapping[str, str], **where: Any) -> None:
        # Not pure: what is submitted a second time is to be tried a second time.
        self._executor = client.get_executor(pure=False, **where)
        self._expected = expected

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        outer: Future[_T] = Future()

        def done(inner: Future[_T]) -> None:
            from distributed import KilledWorker

            if inner.cancelled():
                outer.set_exception(
                    WorkersCannotStart(
                        "The Dask cluster is gone, or has dropped this batch; the same command "
                        "goes on from what is done."
                    )
                )
                return
            error = inner.exception()
            if isinstance(error, KilledWorker):
                outer.set_exception(WorkerDied("the worker died that had nothing else to do"))
            elif error is not None:
                outer.set_exception(error)
            else:
                outer.set_result(inner.result())

        self._executor.submit(_checked, self._expected, fn, args, kwargs).add_done_callback(done)
        return outer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._executor.shutdown(wait=wait)


def _checked(
    expected: Mapping[str, str],
    fn: Callable[..., _T],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> _T:
    """On a worker: the task, if this is the program that sent it."""
    here = environment()
    for name, version in expected.items():
        if name not in ("folder", "machine") and here.get(name, "none") != version:
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
