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
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from srs_eval.data.errors import InputError, described, in_one_line
from srs_eval.data.memory import prepare_for_evaluating

_P = ParamSpec("_P")
_T = TypeVar("_T")

_STARTS = 3  # so many workers may be killed one after the other before one is ready
_PATIENCE = 1.0  # seconds, before a worker that does not end is killed
_NO_GUARD = 77  # exit code of a worker whose script starts workers while it is imported
_NO_MEMORY = 78  # of one that ran out of memory outside its tasks
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)

_starting = threading.Lock()  # the environment is that of the whole process
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

    def refuse(self, error: BaseException) -> None:
        """End it, if it has not: with this error, or as cancelled."""
        if self.future.done() and not self.future.cancelled():
            return
        if isinstance(error, CancelledError):
            self.future.cancel()
        if self.future.running() or self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection

    def end(self) -> int:
        """Terminate, then kill; its exit code."""
        self.connection.close()
        self.process.terminate()
        self.process.join(timeout=_PATIENCE)
        self.process.kill()
        self.process.join()
        return self.process.exitcode or 0


class WorkerPool(Executor):
    """Spawned worker processes, one task at a time each; replaced when they die.

    As `concurrent.futures.ProcessPoolExecutor`, except that a worker which dies fails its
    own task only (`WorkerDied`), that `terminate_workers` leaves none behind, and that
    tasks can send messages. `on_message(future, message)` is called for each, and callbacks
    of futures are, in a thread of the worker's own; for one task in their order.

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
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        on_message: Callable[[Future[Any], Any], None] | None = None,
    ) -> None:
        _refuse_while_imported()
        self._on_message = on_message
        self._shared = pickle.dumps((initializer, initargs))
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()  # None: a thread ends
        self._lock = threading.Lock()  # for what follows
        self._stopped: BaseException | None = None  # why no task is worked on any more
        self._killed_starts = 0
        self._workers: set[_Worker] = set()
        self._threads = [
            threading.Thread(target=self._work, daemon=True, name="worker pool")
            for _ in range(max_workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run `fn(*args, **kwargs)` in a worker, in the order of submission."""
        future: Future[_T] = Future()
        with self._lock:
            if isinstance(self._stopped, WorkersCannotStart):
                raise self._stopped
            if self._stopped is not None:
                raise RuntimeError("the pool has ended")
            self._tasks.put(_Task(future, (fn, args, kwargs)))
        return future

    def terminate_workers(self) -> None:
        """End all workers now; when this returns they are gone.

        What they had sent by then is delivered; other futures are cancelled, those at work
        by CancelledError as their exception.
        """
        self._stop(CancelledError())
        self._join(_PATIENCE)
        for worker in list(self._workers):
            worker.process.kill()
        self._join()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As `terminate_workers`: at the end of a `with` block nothing is waited for."""
        self.terminate_workers()

    def _stop(self, error: BaseException) -> None:
        with self._lock:
            self._stopped = self._stopped or error
            for worker in self._workers:
                worker.process.terminate()
        with contextlib.suppress(Empty):
            while True:
                if (task := self._tasks.get_nowait()) is not None:
                    task.refuse(self._stopped)
        for _ in self._threads:
            self._tasks.put(None)

    def _join(self, timeout: float | None = None) -> None:
        for thread in self._threads:
            thread.join(timeout)

    # --- the thread of a worker

    def _work(self) -> None:
        task: _Task | None = None
        worker: _Worker | None = None
        try:
            worker = self._ready_worker()
            while (task := self._tasks.get()) is not None:
                worker = self._done(task, worker or self._ready_worker())
        except BaseException as error:  # whatever it is, nobody must wait for ever
            self._stop(error)
            if task is not None and self._stopped is not None:
                task.refuse(self._stopped)
        if worker is not None:
            self._end(worker)

    def _done(self, task: _Task, worker: _Worker) -> _Worker | None:
        """Have a task done; the worker, if it lives."""
        if not task.future.set_running_or_notify_cancel():
            return worker
        try:
            call = pickle.dumps(task.call)
        except Exception as error:
            task.future.set_exception(error)
            return worker
        try:
            worker.connection.send_bytes(call)
            while (answer := worker.connection.recv())[0] == "message":
                if self._on_message is not None:
                    self._on_message(task.future, answer[1])
        except (EOFError, OSError):
            died = WorkerDied(_in_words(self._end(worker)))
            task.future.set_exception(self._stopped or died)
            return None
        kind, value = answer
        if kind == "result":
            task.future.set_result(value)
        else:
            task.future.set_exception(value)
        return worker

    def _ready_worker(self) -> _Worker:
        """A worker that has what the tasks share; one that is killed at its start is replaced."""
        while True:
            worker = self._started()
            try:
                worker.connection.send_bytes(self._shared)
                kind, value = worker.connection.recv()
            except (EOFError, OSError):
                code = self._end(worker)
                if self._stopped is not None:
                    raise self._stopped from None
                self._killed_starts += 1
                if code == _NO_GUARD:
                    raise WorkersCannotStart(
                        "Worker processes cannot start, for each imports your script and would "
                        'start it again: put what it does under `if __name__ == "__main__":`.'
                    ) from None
                if code >= 0 or self._killed_starts >= _STARTS:
                    reason = _in_words(code)
                    raise WorkersCannotStart(f"Worker processes cannot start: {reason}.") from None
                continue
            if kind != "ready":
                self._end(worker)
                raise WorkersCannotStart(f"Worker processes cannot start ({value}).")
            self._killed_starts = 0
            return worker

    def _started(self) -> _Worker:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        try:
            with self._lock:
                if self._stopped is not None:
                    raise self._stopped
                worker = _Worker(_start_process(theirs), ours)
                self._workers.add(worker)
                return worker
        except OSError as error:
            raise WorkersCannotStart(f"Worker processes cannot start ({error}).") from None
        finally:
            theirs.close()

    def _end(self, worker: _Worker) -> int:
        """Its exit code."""
        with self._lock:
            self._workers.discard(worker)
        return worker.end()


def _in_words(code: int) -> str:
    """How a process has ended that should not have."""
    if code < 0:
        return f"the worker process was killed (signal {-code}); perhaps memory ran out"
    if code == _NO_MEMORY:
        return "the worker process had not enough memory"
    return f"the worker process ended unexpectedly (exit code {code})"


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
    with _starting, contextlib.ExitStack() as stack:
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
        try:
            shared = connection.recv_bytes()
            prepare_for_evaluating()
            initializer, arguments = pickle.loads(shared)
            if initializer is not None:
                initializer(*arguments)
        except (EOFError, OSError):
            raise
        except Exception as error:
            refused = isinstance(error, InputError)
            connection.send(("unable", in_one_line(error) if refused else described(error)))
            return
        connection.send(("ready", None))
        _channel = connection
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))
    except (EOFError, OSError):
        return  # the parent has gone, or does not want it any more
    except (MemoryError, SystemError):
        os._exit(_NO_MEMORY)


def _answer(call: bytes) -> bytes:
    """The pickled answer to a pickled call."""
    try:
        function, args, kwargs = pickle.loads(call)
        return pickle.dumps(("result", function(*args, **kwargs)))
    except BaseException as error:
        if isinstance(error, Exception):  # SystemExit, raised anew, would end the parent
            with contextlib.suppress(Exception):
                pickled = pickle.dumps(("error", error))
                pickle.loads(pickled)
                return pickled
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
