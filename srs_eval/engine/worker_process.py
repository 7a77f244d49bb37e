"""The process of a worker: how it is started, what it is sent, and what runs in it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from srs_eval.data.errors import described

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
NO_GUARD = 77  # exit code of a worker whose script starts workers while it is imported

channel: Connection | None = None
"""To the pool, in its workers."""


class Parcel:
    """A pickled value whose arrays stay where they are, to be written from there."""

    def __init__(self, value: Any) -> None:
        buffers: list[pickle.PickleBuffer] = []
        self._head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        self._arrays = [buffer.raw() for buffer in buffers]

    def send(self, connection: Connection) -> None:
        connection.send([array.nbytes for array in self._arrays])
        connection.send_bytes(self._head)
        for array in self._arrays:
            connection.send_bytes(array)

    @staticmethod
    def receive(connection: Connection) -> Any:
        sizes = connection.recv()
        head = connection.recv_bytes()
        arrays = [bytearray(size) for size in sizes]  # may be written to, as those here may
        for array in arrays:
            connection.recv_bytes_into(array)
        return pickle.loads(head, buffers=arrays)


def refuse_while_imported() -> None:
    """A worker that imports a script without the `__main__` guard would start the script anew.

    It ends here, silently; the parent says it. (`multiprocessing` itself raises in the
    worker, so that a person sees a traceback, and not from where it came.)
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(NO_GUARD)


def start_process(connection: Connection, tied: bool) -> BaseProcess:
    # Nothing else travels here: `start` writes what the process needs into a pipe whose
    # reading end it holds too, so that it would wait for a dead process for ever.
    silent = not _has_file(sys.stderr)
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(connection, tied, silent), daemon=True, name="srs-eval worker"
    )
    with _one_thread_each(), _interrupts_wait(), _stderr_with_file(silent):
        process.start()
    return process


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
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


# --- in the worker -----------------------------------------------------------------


def _serve(connection: Connection, tied: bool, silent: bool) -> None:
    """A worker's main loop: tasks in, results out, until the pipe closes."""
    global channel
    import warnings

    _settle(tied, silent)
    warnings.simplefilter("ignore")  # a chaotic fit's overflow is no news to a person
    try:
        connection.send(("started", None))
        try:
            initializer, arguments = Parcel.receive(connection)
            if initializer is not None:
                initializer(*arguments)
        except (EOFError, OSError):
            raise
        except Exception as error:
            connection.send(("unable", described(error)))
            return
        connection.send(("ready", None))
        channel = connection
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


def _settle(tied: bool, silent: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if silent:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        if hasattr(os, "nice"):
            os.nice(5)  # the app's screen comes first
    os.dup2(sys.__stderr__.fileno() if sys.__stderr__ else 2, 1)  # stdout is for data only
    _end_with_parent(tied)


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
