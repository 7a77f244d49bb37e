"""Worker processes with the interface of `concurrent.futures`.

A task is a picklable function with its arguments; what it returns is its future's result. A
task may `send` messages on its way: whoever runs it may deliver them, so that nothing but
progress and early results may rest on them. Another executor (a cluster's) can thus take the
place of `WorkerPool`.

What all tasks of a worker share travels once, as the arguments of `initializer`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from srs_eval.data.errors import InputError, described

_P = ParamSpec("_P")
_T = TypeVar("_T")

_STARTS = 3  # so many workers may be killed one after the other before one is ready
_NO_GUARD = 77  # exit code of a worker whose script starts workers while it is imported
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)

_channel: Connection | None = None
"""To the pool, in its workers."""


class WorkersCannotStart(InputError):
    """No worker process gets ready; nothing was done."""


class WorkerDied(Exception):
    """The process that worked on a task has ended; its text says how."""


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def send(message: Any) -> None:
    """From within a task: a picklable message, delivered before the task's result.

    It goes nowhere where no `WorkerPool` runs the task.
    """
    if _channel is not None:
        _channel.send(("message", message))


DONE = object()


class TaskEvents:
    """What comes of the tasks of one or more executors, in one order."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Future[Any], Any]] = SimpleQueue()
        self._open = 0  # tasks that are not done, as far as is told

    def submit(
        self, executor: Executor, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Submit a task that is to be followed."""
        future = executor.submit(fn, *args, **kwargs)
        self._open += 1
        future.add_done_callback(lambda done: self.put(done, DONE))
        return future

    def put(self, future: Future[Any], message: Any) -> None:
        """For `WorkerPool(on_message=...)`."""
        self._queue.put((future, message))

    def until_done(
        self, cancel: threading.Event | None = None
    ) -> Iterator[tuple[Future[Any], Any]]:
        """What comes, until no task is left or `cancel` is set; more may be submitted meanwhile."""
        while self._open:
            event = self.next(timeout=0.05)
            if cancel is not None and cancel.is_set():
                return
            if event is not None:
                yield event

    def next(self, timeout: float) -> tuple[Future[Any], Any] | None:
        """A task's message, or DONE after its last; None if nothing comes in `timeout` seconds."""
        try:
            event = self._queue.get(timeout=timeout)
        except Empty:
            return None
        self._open -= event[1] is DONE
        return event


@dataclass(eq=False)
class _Task:
    future: Future[Any]
    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    ready: bool = False  # it has what the tasks share
    task: _Task | None = None


class WorkerPool(Executor):
    """Spawned worker processes, one task at a time each; replaced when they die.

    As `concurrent.futures.ProcessPoolExecutor`, except that a worker which dies fails its
    own task only (`WorkerDied`), that `terminate_workers` leaves none behind, and that
    tasks can send messages. `on_message(future, message)` is called for each, and callbacks
    of futures are, in a thread of the pool's own; for one task in their order.

    A worker's libraries use one thread, so that workers are what uses the cores. It ignores
    Ctrl-C (what happens then is the parent's decision), shows no warnings, prints nothing
    to stdout and ends when its parent does, however that went. While a terminal app has
    replaced sys.stderr it prints nothing at all, for it would print over the app's screen.

    Futures get `WorkersCannotStart` where no worker gets ready.
    """

    def __init__(
        self,
        max_workers: int,
        *,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
        on_message: Callable[[Future[Any], Any], None] | None = None,
    ) -> None:
        _refuse_while_imported()
        self._max_workers = max_workers
        self._on_message = on_message
        self._shared = pickle.dumps((initializer, initargs))
        self._pending: deque[_Task] = deque()
        self._lock = threading.Lock()  # for what follows
        self._closed = False  # no new tasks
        self._terminated = False
        self._failure: BaseException | None = None
        self._woken = False
        self._wake_reader, self._wake_writer = multiprocessing.get_context("spawn").Pipe(False)
        # The rest belongs to the thread alone, once it runs.
        self._killed_starts = 0
        self._workers: list[_Worker] = []
        self._thread = threading.Thread(target=self._manage, daemon=True, name="worker pool")
        try:
            for _ in range(max_workers):
                self._start_worker()
        except BaseException:
            self._end_workers()
            raise
        self._thread.start()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run `fn(*args, **kwargs)` in a worker, in the order of submission."""
        future: Future[_T] = Future()
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise RuntimeError("the pool is shut down")
            self._pending.append(_Task(future, (fn, args, kwargs)))
            self._wake()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks; the workers end when all are done (`wait`: before this returns)."""
        with self._lock:
            self._closed = True
            pending = list(self._pending)
            self._wake()
        if cancel_futures:
            for task in pending:
                task.future.cancel()
        if wait:
            self._thread.join()

    def terminate_workers(self) -> None:
        """End all workers now; when this returns they are gone.

        What they had sent by then is delivered; other futures are cancelled, those at work
        by CancelledError as their exception.
        """
        with self._lock:
            self._closed = self._terminated = True
            self._wake()
        self._thread.join()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """After the block wait for what was submitted; after an exception end it."""
        if kind is None:
            self.shutdown()
        else:
            self.terminate_workers()

    # --- the pool's thread

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            with contextlib.suppress(OSError):  # the thread has ended
                self._wake_writer.send_bytes(b"1")

    def _manage(self) -> None:
        failure: BaseException | None = None
        try:
            while not self._is_over():
                self._give_tasks()
                connections = {worker.connection: worker for worker in self._workers}
                for ready in wait([self._wake_reader, *connections]):
                    if ready is self._wake_reader:
                        self._wake_reader.recv_bytes()
                        with self._lock:
                            self._woken = False
                    else:
                        self._listen(connections[ready])  # type: ignore[index]
        except BaseException as error:  # whatever it is, nobody must wait for ever
            failure = error
        self._end(failure)

    def _is_over(self) -> bool:
        with self._lock:
            done = not self._pending and not any(worker.task for worker in self._workers)
            return self._terminated or (self._closed and done)

    def _give_tasks(self) -> None:
        busy = sum(worker.task is not None for worker in self._workers)
        while len(self._workers) < min(self._max_workers, busy + len(self._pending)):
            self._start_worker()
        for worker in self._workers:
            while worker.ready and worker.task is None:
                with self._lock:
                    if not self._pending:
                        return
                    task = self._pending.popleft()
                if not task.future.set_running_or_notify_cancel():
                    continue
                try:
                    call = pickle.dumps(task.call)
                except Exception as error:
                    task.future.set_exception(error)
                    continue
                worker.task = task
                with contextlib.suppress(OSError):  # it is gone: the next read says so
                    worker.connection.send_bytes(call)

    def _listen(self, worker: _Worker) -> None:
        try:
            kind, value = worker.connection.recv()
        except (EOFError, OSError):
            self._dismiss(worker)
            return
        if kind == "started":
            with contextlib.suppress(OSError):
                worker.connection.send_bytes(self._shared)
        elif kind == "ready":
            worker.ready = True
            self._killed_starts = 0
        elif kind == "unable":
            raise WorkersCannotStart(f"Worker processes cannot start ({value}).")
        elif worker.task is not None:
            future = worker.task.future
            if kind == "message":
                if self._on_message is not None:
                    self._on_message(future, value)
                return
            worker.task = None
            if kind == "result":
                future.set_result(value)
            else:
                future.set_exception(value)

    def _dismiss(self, worker: _Worker) -> None:
        """It has died: its task has failed; one that was not ready yet is tried again."""
        self._workers.remove(worker)
        _stop([worker], patience=1.0)
        code = worker.process.exitcode
        killed = code is not None and code < 0
        reason = (
            f"the worker process was killed (signal {-(code or 0)}); perhaps memory ran out"
            if killed
            else f"the worker process ended unexpectedly (exit code {code})"
        )
        if worker.task is not None:
            worker.task.future.set_exception(WorkerDied(reason))
        if worker.ready:
            return
        self._killed_starts += 1
        if code == _NO_GUARD:
            raise WorkersCannotStart(
                "Worker processes cannot start, for each imports your script and would start it "
                'again: put what it does under `if __name__ == "__main__":`.'
            )
        if not killed or self._killed_starts >= _STARTS:
            raise WorkersCannotStart(f"Worker processes cannot start: {reason}.")

    def _start_worker(self) -> None:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        try:
            self._workers.append(_Worker(_start_process(theirs), ours))
        except OSError as error:
            ours.close()
            raise WorkersCannotStart(f"Worker processes cannot start ({error}).") from None
        finally:
            theirs.close()

    def _end(self, failure: BaseException | None) -> None:
        with self._lock:
            self._closed = True
            self._failure = failure
            pending = list(self._pending)
            self._pending.clear()
        for worker in list(self._workers):
            with contextlib.suppress(Exception):
                while worker in self._workers and worker.ready and worker.connection.poll():
                    self._listen(worker)
        at_work = [worker.task.future for worker in self._workers if worker.task is not None]
        self._end_workers()
        for future in at_work:
            future.set_exception(failure or CancelledError())
        for task in pending:
            if failure is None:
                task.future.cancel()
            if task.future.set_running_or_notify_cancel():
                task.future.set_exception(failure)

    def _end_workers(self) -> None:
        _stop(self._workers, patience=1.0)
        self._workers.clear()
        self._wake_reader.close()
        with self._lock:
            self._woken = True  # nobody listens
            self._wake_writer.close()


def _stop(workers: Iterable[_Worker], patience: float) -> None:
    """Terminate, then kill; afterwards none is left."""
    workers = list(workers)
    for worker in workers:
        worker.connection.close()
        worker.process.terminate()
    for worker in workers:
        worker.process.join(timeout=patience)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def _refuse_while_imported() -> None:
    """A worker that imports a script without the `__main__` guard would start the script anew.

    It ends here, silently; the parent says it. (`multiprocessing` itself raises in the
    worker, so that a person sees a traceback, and not from where it came.)
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(_NO_GUARD)


def _start_process(connection: Connection) -> BaseProcess:
    # Nothing else travels here: `start` writes what the process needs into a pipe whose
    # reading end it holds too, so that it would wait for a dead process for ever.
    silent = not _has_file(sys.stderr)
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(connection, silent), daemon=True, name="srs-eval worker"
    )
    with contextlib.ExitStack() as stack:
        for name in _THREAD_VARIABLES:
            stack.callback(_set_variable, name, os.environ.get(name))
            _set_variable(name, "1")
        if hasattr(signal, "pthread_sigmask"):  # Ctrl-C waits
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        if silent:  # spawning hands over the number of sys.stderr's file
            stack.enter_context(contextlib.redirect_stderr(sys.__stderr__))
        process.start()
    return process


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _has_file(stream: Any) -> bool:
    try:
        return int(stream.fileno()) >= 0
    except (AttributeError, OSError, ValueError):
        return False


# --- in the worker -----------------------------------------------------------------


def _serve(connection: Connection, silent: bool) -> None:
    """A worker's main loop: tasks in, results out, until the pipe closes."""
    global _channel
    import warnings

    _settle(silent)
    warnings.simplefilter("ignore")  # a chaotic fit's overflow is no news to a person
    try:
        connection.send(("started", None))
        try:
            initializer, arguments = pickle.loads(connection.recv_bytes())
            if initializer is not None:
                initializer(*arguments)
        except (EOFError, OSError):
            raise
        except Exception as error:
            connection.send(("unable", described(error)))
            return
        connection.send(("ready", None))
        _channel = connection
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))
    except (EOFError, OSError):
        return  # the parent has gone, or does not want it any more


def _answer(call: bytes) -> bytes:
    """The pickled answer to a pickled call."""
    try:
        function, args, kwargs = pickle.loads(call)
        return pickle.dumps(("result", function(*args, **kwargs)))
    except Exception as error:
        return _pickled_error(error)
    except BaseException as error:  # SystemExit, raised anew, would end the parent
        return pickle.dumps(("error", RuntimeError(described(error))))


def _pickled_error(error: Exception) -> bytes:
    try:
        pickled = pickle.dumps(("error", error))
        pickle.loads(pickled)
        return pickled
    except Exception:
        return pickle.dumps(("error", RuntimeError(described(error))))


def _settle(silent: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if silent:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        if hasattr(os, "nice"):
            os.nice(5)  # the app's screen comes first
    os.dup2(sys.__stderr__.fileno() if sys.__stderr__ else 2, 1)  # stdout is for data only
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True, name="parent watch").start()


def _end_with(parent: BaseProcess) -> None:
    wait([parent.sentinel])
    os._exit(1)
