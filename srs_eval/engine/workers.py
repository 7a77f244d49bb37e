"""Run tasks in worker processes, with the interface of `concurrent.futures`.

A task is a picklable function with its arguments; its return value is the result of its future. A
task may `send` messages while it runs. An executor need not deliver them, so only progress and
early results may depend on them. Another executor (a cluster's) can thus take the place of
`WorkerPool`.

Data that all tasks of a worker share are sent once, as the arguments of `initializer`.
"""

from __future__ import annotations

import contextlib
import gc
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

from srs_eval.data.errors import InputError, describe_error, error_message
from srs_eval.data.memory import reserve_blas_memory

_P = ParamSpec("_P")
_T = TypeVar("_T")

_MAX_FAILED_STARTS = 3  # workers that may be killed one after the other before one is ready
_TERMINATE_TIMEOUT_S = 1.0  # seconds before a worker that does not end is killed
_EXIT_NO_MAIN_GUARD = 77  # exit code of a worker whose script starts workers while it is imported
_EXIT_NO_MEMORY = 78  # exit code of a worker that ran out of memory outside its tasks
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_OBJECTS_BEFORE_COLLECTION = 50_000
"""New objects of a worker after which Python looks for garbage. By default it does after 700, which
takes a tenth of the time to load the program, and finds nothing."""

_start_lock = threading.Lock()  # the environment belongs to the whole process
_parent_connection: Connection | None = None
"""Connection to the pool, in its workers."""


class WorkersCannotStart(InputError):
    """No worker process gets ready, so no task was done."""


class WorkerDied(Exception):
    """The process that worked on a task has ended; the message says how."""


def count_cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def send(message: Any) -> None:
    """Send a picklable message from within a task; it is delivered before the task's result.

    The message goes nowhere if no `WorkerPool` runs the task.
    """
    if _parent_connection is not None:
        _parent_connection.send(("message", message))


DONE = object()
"""The event that ends a task, in place of a message."""


class TaskEvents:
    """Messages and ends of the tasks of one or more executors, in one order."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Future[Any], Any]] = SimpleQueue()
        self._open_tasks = 0  # tasks not yet reported as done

    def submit(
        self, executor: Executor, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Submit a task and follow its events."""
        future = executor.submit(fn, *args, **kwargs)
        self._open_tasks += 1
        future.add_done_callback(lambda ended: self.put(ended, DONE))
        return future

    def put(self, future: Future[Any], message: Any) -> None:
        """Add a message; pass this method as `WorkerPool(on_message=...)`."""
        self._queue.put((future, message))

    def until_done(
        self, cancel: threading.Event | None = None
    ) -> Iterator[tuple[Future[Any], Any]]:
        """Yield events until all tasks end or `cancel` is set; tasks may be added meanwhile."""
        while self._open_tasks:
            event = self.next_event(timeout=0.05)
            if cancel is not None and cancel.is_set():
                return
            if event is not None:
                yield event

    def next_event(self, timeout: float) -> tuple[Future[Any], Any] | None:
        """Return a task's message, or DONE after its last one.

        None if nothing comes in `timeout` seconds.
        """
        try:
            event = self._queue.get(timeout=timeout)
        except Empty:
            return None
        if event[1] is DONE:
            self._open_tasks -= 1
        return event


@dataclass(eq=False)
class _PoolTask:
    future: Future[Any]
    call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

    def abort(self, error: BaseException) -> None:
        """End the task with this error, or as cancelled, if it has not ended."""
        if self.future.done() and not self.future.cancelled():
            return
        if isinstance(error, CancelledError):
            self.future.cancel()  # has no effect on a running task
        # Those who wait for a cancelled future must be notified, which returns False.
        if self.future.running() or self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection

    def terminate(self) -> int:
        """Terminate the process, kill it if it does not end, and return its exit code."""
        self.connection.close()
        self.process.terminate()
        self.process.join(timeout=_TERMINATE_TIMEOUT_S)
        self.process.kill()
        self.process.join()
        return self.process.exitcode or 0


class WorkerPool(Executor):
    """Spawned worker processes that run one task at a time and are replaced when they die.

    The pool works like `concurrent.futures.ProcessPoolExecutor`, except that a worker that dies
    fails only its own task (`WorkerDied`), that `terminate_workers` leaves no worker behind, and
    that tasks can send messages. `on_message(future, message)` is called for each message. It and
    the callbacks of futures run in a thread of the worker's own, in order for any one task.

    A worker's libraries use one thread, so that the workers themselves use the cores. A worker
    ignores Ctrl-C (the parent decides what happens then), shows no warnings, prints nothing to
    stdout and ends when its parent does, however the parent ends. While a terminal app has
    replaced sys.stderr, a worker prints nothing at all, because it would print over the app's
    screen.

    Futures get `WorkersCannotStart` if no worker gets ready.
    """

    def __init__(
        self,
        max_workers: int,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        on_message: Callable[[Future[Any], Any], None] | None = None,
    ) -> None:
        _exit_if_importing()
        self._on_message = on_message
        self._initializer_payload = pickle.dumps((initializer, initargs))
        self._tasks: SimpleQueue[_PoolTask | None] = SimpleQueue()  # None ends a thread
        self._lock = threading.Lock()  # guards the fields below
        self._stop_error: BaseException | None = None  # why the pool runs no more tasks
        self._failed_starts = 0
        self._workers: set[_Worker] = set()
        self._threads = [
            threading.Thread(target=self._serve_tasks, daemon=True, name="worker pool")
            for _ in range(max_workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run `fn(*args, **kwargs)` in a worker, in the order of submission."""
        future: Future[_T] = Future()
        with self._lock:
            if isinstance(self._stop_error, WorkersCannotStart):
                raise self._stop_error
            if self._stop_error is not None:
                raise RuntimeError("the pool has ended")
            self._tasks.put(_PoolTask(future, (fn, args, kwargs)))
        return future

    def terminate_workers(self) -> None:
        """End all workers now; they are gone when this returns.

        Messages and results sent by then are delivered. Other futures are cancelled; futures of
        running tasks get CancelledError as their exception.
        """
        self._stop(CancelledError())
        self._join(_TERMINATE_TIMEOUT_S)
        for worker in list(self._workers):
            worker.process.kill()
        self._join()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Terminate all workers, so that the end of a `with` block waits for no task."""
        self.terminate_workers()

    def _stop(self, error: BaseException) -> None:
        with self._lock:
            self._stop_error = self._stop_error or error
            for worker in self._workers:
                worker.process.terminate()
        with contextlib.suppress(Empty):
            while True:
                task = self._tasks.get_nowait()
                if task is not None:
                    task.abort(self._stop_error)
        for _ in self._threads:
            self._tasks.put(None)

    def _join(self, timeout: float | None = None) -> None:
        for thread in self._threads:
            thread.join(timeout)

    # --- the thread of a worker

    def _serve_tasks(self) -> None:
        """Give tasks to a worker, one after the other, until the pool ends."""
        task: _PoolTask | None = None
        worker: _Worker | None = None
        try:
            worker = self._start_ready_worker()
            while (task := self._tasks.get()) is not None:
                worker = self._execute_task(task, worker or self._start_ready_worker())
        except BaseException as error:  # whatever it is, no caller must wait for ever
            self._stop(error)
            if task is not None and self._stop_error is not None:
                task.abort(self._stop_error)
        if worker is not None:
            self._terminate_worker(worker)

    def _execute_task(self, task: _PoolTask, worker: _Worker) -> _Worker | None:
        """Run a task in a worker; return the worker if it is still alive."""
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
            exit_code = self._terminate_worker(worker)
            death = WorkerDied(_describe_exit(exit_code))
            task.future.set_exception(self._stop_error or death)
            return None
        kind, value = answer
        if kind == "result":
            task.future.set_result(value)
        else:
            task.future.set_exception(value)
        return worker

    def _start_ready_worker(self) -> _Worker:
        """Return a worker that has the shared data; replace any that is killed at its start."""
        while True:
            worker = self._start_worker()
            try:
                worker.connection.send_bytes(self._initializer_payload)
                kind, value = worker.connection.recv()
            except (EOFError, OSError):
                code = self._terminate_worker(worker)
                if self._stop_error is not None:
                    raise self._stop_error from None
                self._failed_starts += 1
                if code == _EXIT_NO_MAIN_GUARD:
                    raise WorkersCannotStart(
                        "Worker processes cannot start, because each imports your script and would "
                        'run it again: put its code under `if __name__ == "__main__":`.'
                    ) from None
                if code >= 0 or self._failed_starts >= _MAX_FAILED_STARTS:
                    reason = _describe_exit(code)
                    raise WorkersCannotStart(f"Worker processes cannot start: {reason}.") from None
                continue
            if kind != "ready":
                self._terminate_worker(worker)
                raise WorkersCannotStart(f"Worker processes cannot start ({value}).")
            self._failed_starts = 0
            return worker

    def _start_worker(self) -> _Worker:
        own_end, worker_end = multiprocessing.get_context("spawn").Pipe()
        try:
            with self._lock:
                if self._stop_error is not None:
                    raise self._stop_error
                worker = _Worker(_start_process(worker_end), own_end)
                self._workers.add(worker)
                return worker
        except OSError as error:
            raise WorkersCannotStart(f"Worker processes cannot start ({error}).") from None
        finally:
            worker_end.close()

    def _terminate_worker(self, worker: _Worker) -> int:
        """Terminate a worker and return its exit code."""
        with self._lock:
            self._workers.discard(worker)
        return worker.terminate()


def _describe_exit(code: int) -> str:
    """Say how a process ended, from its exit code."""
    if code < 0:
        return f"the worker process was killed (signal {-code}); perhaps memory ran out"
    if code == _EXIT_NO_MEMORY:
        return "the worker process did not have enough memory"
    return f"the worker process ended unexpectedly (exit code {code})"


def _exit_if_importing() -> None:
    """End this process if it is a worker that imports a script without the `__main__` guard.

    The script is about to start workers again. The worker ends silently, and the parent reports the
    error. (`multiprocessing` itself would raise in the worker, and the user would see a traceback
    but not where it came from.)
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(_EXIT_NO_MAIN_GUARD)


def _start_process(connection: Connection) -> BaseProcess:
    # Pass nothing large here: `start` writes the arguments into a pipe whose reading end this
    # process holds, too. If the worker died and the pipe was full, it would wait for ever.
    silent = not _has_file_descriptor(sys.stderr)
    process = multiprocessing.get_context("spawn").Process(
        target=_worker_main, args=(connection, silent), daemon=True, name="srs-eval worker"
    )
    with _start_lock, contextlib.ExitStack() as stack:
        for name in _THREAD_VARIABLES:
            stack.callback(_set_environment_variable, name, os.environ.get(name))
            _set_environment_variable(name, "1")
        if hasattr(signal, "pthread_sigmask"):  # delays Ctrl-C
            previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, previous_mask)
        if silent:  # spawning passes on the file number of sys.stderr
            stack.enter_context(contextlib.redirect_stderr(sys.__stderr__))
        process.start()
    return process


def _set_environment_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _has_file_descriptor(stream: Any) -> bool:
    try:
        return int(stream.fileno()) >= 0
    except (AttributeError, OSError, ValueError):
        return False


# --- in the worker -----------------------------------------------------------------


def _worker_main(connection: Connection, silent: bool) -> None:
    """Receive tasks and send results until the pipe closes: a worker's main loop."""
    global _parent_connection
    import warnings

    _set_up_process(silent)
    warnings.simplefilter("ignore")  # such as an overflow in a fit, which users need not know of
    try:
        try:
            payload = connection.recv_bytes()
            reserve_blas_memory()
            initializer, arguments = pickle.loads(payload)
            if initializer is not None:
                initializer(*arguments)
        except (EOFError, OSError):
            raise
        except Exception as error:
            if isinstance(error, InputError):
                reason = error_message(error)
            else:
                reason = describe_error(error)
            connection.send(("unable", reason))
            return
        connection.send(("ready", None))
        _parent_connection = connection
        while True:
            connection.send_bytes(_execute_call(connection.recv_bytes()))
    except (EOFError, OSError):
        return  # the parent has gone, or no longer wants this worker
    except (MemoryError, SystemError):
        os._exit(_EXIT_NO_MEMORY)


def _execute_call(call: bytes) -> bytes:
    """Return the pickled answer to a pickled call."""
    try:
        function, args, kwargs = pickle.loads(call)
        return pickle.dumps(("result", function(*args, **kwargs)))
    except BaseException as error:
        # SystemExit would end the parent when it is raised there. Some exceptions can be pickled
        # but not unpickled.
        if isinstance(error, Exception):
            with contextlib.suppress(Exception):
                pickled = pickle.dumps(("error", error))
                pickle.loads(pickled)
                return pickled
        return pickle.dumps(("error", RuntimeError(describe_error(error))))


def _set_up_process(silent: bool) -> None:
    """Ignore Ctrl-C, redirect the worker's output, and end the process when the parent ends.

    Garbage is collected more rarely than usual.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    if silent:
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, 2)
        if hasattr(os, "nice"):
            os.nice(5)  # the app's screen comes first
    stderr_number = sys.__stderr__.fileno() if sys.__stderr__ else 2
    os.dup2(stderr_number, 1)  # stdout is for data only
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(
            target=_exit_with_parent, args=(parent,), daemon=True, name="parent watch"
        ).start()


def _exit_with_parent(parent: BaseProcess) -> None:
    wait([parent.sentinel])
    os._exit(1)
