"""Worker processes that start the same on every system and never outlive their parent."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_process(target: Callable[..., None], args: tuple[Any, ...]) -> BaseProcess:
    """Start a spawned worker that runs `target(*args)`.

    Its libraries use one thread, so that jobs are what uses the cores. It does not react
    to Ctrl-C (what happens then is the parent's decision), prints nothing to stdout and
    ends when the parent does, however that went. While a terminal app has replaced
    sys.stderr it prints nothing at all, for it would print over the app's screen.
    """
    # Linux can tie it to the starting thread; only the main one surely outlives the work.
    tied = threading.current_thread() is threading.main_thread()
    silent = not _has_file(sys.stderr)
    process = multiprocessing.get_context("spawn").Process(
        target=_begin, args=(target, args, tied, silent), daemon=True, name="srs-eval worker"
    )
    with _one_thread_each(), _interrupts_wait(), _stderr_with_file(silent):
        process.start()
    return process


def stop_processes(processes: Iterable[BaseProcess], patience: float = 1.0) -> None:
    """Terminate, then kill; afterwards none is left."""
    processes = list(processes)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(timeout=patience)
        if process.is_alive():
            process.kill()
            process.join()


def how_it_died(process: BaseProcess) -> str:
    """The end of a worker in words, for a record of failures."""
    code = process.exitcode
    if code is not None and code < 0:
        return f"the worker process was killed (signal {-code}); perhaps memory ran out"
    return f"the worker process ended unexpectedly (exit code {code})"


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _has_file(stream: Any) -> bool:
    try:
        return int(stream.fileno()) >= 0
    except (AttributeError, OSError, ValueError):
        return False


@contextlib.contextmanager
def _stderr_with_file(silent: bool) -> Iterator[None]:
    """Spawning hands over sys.stderr's file number; a stand-in's may be none (-1)."""
    if not silent:
        yield
        return
    with contextlib.redirect_stderr(sys.__stderr__):
        yield


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(target: Callable[..., None], args: tuple[Any, ...], tied: bool, silent: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if silent:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        if hasattr(os, "nice"):
            os.nice(5)  # the app's screen comes first
    os.dup2(sys.__stderr__.fileno() if sys.__stderr__ else 2, 1)  # stdout is for data only
    _end_with_parent(tied)
    target(*args)


def _end_with_parent(tied: bool) -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent watch").start()
    if tied and sys.platform == "linux":
        # The watching thread needs the interpreter's lock, which a long computation may hold:
        # the kernel needs nothing.
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.name == "posix" and os.getppid() != parent.pid:
        os._exit(1)  # it went before we could listen
