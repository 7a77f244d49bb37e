"""Worker processes: tasks, messages, and every way in which a worker can end."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srs_eval.engine.workers import (
    DONE,
    TaskEvents,
    WorkerDied,
    WorkerPool,
    WorkersCannotStart,
    send,
)
from tests.conftest import PATIENCE, REPOSITORY, write_simulated_collection
from tests.helpers.program import killing_environment

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="reads the process table of Linux"
)

_shared: Any = None


def share(value: Any) -> None:
    global _shared
    _shared = value


def sum_of_shared() -> float:
    return float(_shared.sum())


def change_shared() -> float:
    _shared[0] = 7.0
    return float(_shared[0])


def count_up(to: int) -> int:
    for number in range(to):
        send(number)
    return to


def kill_yourself() -> None:
    send("before")
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    os._exit(3)


def sleep(seconds: float) -> None:
    send("asleep")
    time.sleep(seconds)


def fail(words: str) -> None:
    raise ValueError(words)


def end_with(error: BaseException) -> None:
    raise error


class Unpicklable(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def fail_strangely() -> None:
    raise Unpicklable("one", "two")


def warn() -> str:
    warnings.warn("overflow", RuntimeWarning, stacklevel=1)
    print("this must not reach stdout", flush=True)
    return os.environ["OPENBLAS_NUM_THREADS"]


def raise_at_start() -> None:
    raise ValueError("no such library")


@contextlib.contextmanager
def pool_of(number: int, **keywords: Any) -> Iterator[WorkerPool]:
    pool = WorkerPool(number, **keywords)
    try:
        yield pool
    finally:
        pool.terminate_workers()
        assert not multiprocessing.active_children()


def test_workers_look_for_garbage_rarely() -> None:
    with WorkerPool(1) as pool:
        assert pool.submit(gc.get_threshold).result()[0] > 10_000


def test_pool_returns_results_exceptions_and_messages() -> None:
    happenings = TaskEvents()
    with pool_of(2, on_message=happenings.put) as pool:
        counts = {happenings.submit(pool, count_up, to): to for to in (3, 0, 5)}
        failing = happenings.submit(pool, fail, "no such memory")
        heard: dict[Future[Any], list[Any]] = {future: [] for future in (*counts, failing)}
        for future, message in happenings.until_done():
            heard[future].append(message)
        assert all(messages[-1] is DONE for messages in heard.values())
        for future, to in counts.items():
            assert heard[future] == [*range(to), DONE]
            assert future.result() == to
        with pytest.raises(ValueError, match="no such memory"):
            failing.result()
        assert happenings.next_event(timeout=0) is None
        assert list(pool.map(len, ["a", "bc"])) == [1, 2]
        strange = pool.submit(fail_strangely).exception()
        assert isinstance(strange, RuntimeError)
        assert "Unpicklable: onetwo" in str(strange)
        unsendable = pool.submit(len, lambda: None).exception()  # type: ignore[arg-type]
        assert unsendable is not None
        assert pool.submit(threading.Lock).exception() is not None  # a result that cannot travel
        assert pool.submit(len, "abc").result() == 3


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(0),
        pytest.param(KeyboardInterrupt(), marks=pytest.mark.slow),
        pytest.param(GeneratorExit(), marks=pytest.mark.slow),
    ],
)
def test_exception_that_ends_programs_ends_no_worker(error: BaseException) -> None:
    """Check that the worker goes on and that asking for the result raises a RuntimeError."""
    with pool_of(1) as pool:
        ended = pool.submit(end_with, error)
        pid = pool.submit(os.getpid)
        with pytest.raises(RuntimeError, match=type(error).__name__):
            ended.result()
        assert pool.submit(os.getpid).result() == pid.result()


def test_send_outside_a_pool_does_nothing() -> None:
    assert count_up(3) == 3


@pytest.mark.slow
def test_shared_values_are_sent_once_and_writeable() -> None:
    values = np.arange(300_000, dtype=np.float64)  # 2.4 MB, more than a pipe takes at once
    with pool_of(2, initializer=share, initargs=(values,)) as pool:
        sums = [pool.submit(sum_of_shared) for _ in range(4)]
        assert {future.result() for future in sums} == {values.sum()}
        assert pool.submit(change_shared).result() == 7.0
    assert values[0] == 0.0


def test_workers_are_silent_and_use_one_thread(capfd: pytest.CaptureFixture[str]) -> None:
    with pool_of(1) as pool:
        assert pool.submit(warn).result() == "1"
    heard = capfd.readouterr()
    assert heard.out == ""
    assert "overflow" not in heard.err


def test_a_dying_worker_fails_its_own_task_only() -> None:
    messages = []
    with pool_of(2, on_message=lambda future, message: messages.append(message)) as pool:
        killed = pool.submit(kill_yourself)
        counting = [pool.submit(count_up, 1) for _ in range(6)]
        leaving = pool.submit(leave)
        assert [future.result() for future in as_completed(counting)] == [1] * 6
        with pytest.raises(WorkerDied, match=r"killed \(signal 9\); perhaps memory ran out"):
            killed.result()
        with pytest.raises(WorkerDied, match="exit code 3"):
            leaving.result()
    assert "before" in messages


def test_terminate_ends_running_tasks_and_cancels_the_rest() -> None:
    asleep = threading.Event()
    pool = WorkerPool(1, on_message=lambda *_: asleep.set())
    at_work = pool.submit(sleep, 600)
    waiting = pool.submit(count_up, 1)
    assert asleep.wait(PATIENCE)
    start = time.monotonic()
    pool.terminate_workers()
    assert time.monotonic() - start < 300  # of the 600 that it would sleep
    assert not multiprocessing.active_children()
    assert waiting.cancelled()
    assert isinstance(at_work.exception(), CancelledError)
    with pytest.raises(RuntimeError):
        pool.submit(count_up, 1)
    pool.terminate_workers()


@pytest.mark.slow
def test_leaving_the_block_waits_for_no_task() -> None:
    asleep = threading.Event()
    with contextlib.suppress(KeyError), WorkerPool(1, on_message=lambda *_: asleep.set()) as pool:
        at_work = pool.submit(sleep, 600)
        assert asleep.wait(PATIENCE)
        raise KeyError
    assert isinstance(at_work.exception(), CancelledError)
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_workers_that_cannot_start_fail_every_task() -> None:
    with pool_of(2, initializer=raise_at_start) as pool:
        futures = []
        with contextlib.suppress(WorkersCannotStart):  # as soon as that is known
            futures = [pool.submit(count_up, 1) for _ in range(3)]
        for future in futures:
            with pytest.raises(WorkersCannotStart, match="ValueError: no such library"):
                future.result()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_a_worker_killed_as_it_appears_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in killing_environment(tmp_path, 1).items():
        monkeypatch.setenv(name, value)
    values = np.arange(300_000, dtype=np.float64)
    with pool_of(1, initializer=share, initargs=(values,)) as pool:
        assert pool.submit(sum_of_shared).result(timeout=PATIENCE) == values.sum()
    assert (tmp_path / "0").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_workers_killed_every_time_cannot_start() -> None:
    with pool_of(1, initializer=kill_yourself) as pool:
        future = pool.submit(count_up, 1)
        with pytest.raises(WorkersCannotStart, match=r"killed \(signal 9\)"):
            future.result(timeout=PATIENCE)


# --- as a person meets it ---------------------------------------------------------


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a collection whose history does not fit into a pipe's buffer."""
    return write_simulated_collection(tmp_path_factory, 3, 4_000)


def start(*command: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
@pytest.mark.parametrize("kills", [1, 100])
def test_run_survives_one_killed_worker_but_not_all(
    collection: Path, tmp_path: Path, kills: int
) -> None:
    run = ("-m", "srs_eval", "run", str(collection), "--no-cache")
    run = (*run, "--models", "AVG,SM2", "--jobs", "1", "--json", "-")
    process = start(*run, **killing_environment(tmp_path, kills))
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert (tmp_path / "0").exists()
    assert "Traceback" not in stderr
    if kills == 1:
        assert process.returncode == 0, stderr
        assert stdout.count('"LogLoss"') == 2
    else:
        assert process.returncode == 2
        assert "Worker processes cannot start: the worker process was killed (signal 9)" in stderr


@pytest.mark.slow
def test_script_without_main_guard_gets_one_sentence(collection: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import srs_eval
            from srs_eval.data.errors import InputError
            log = srs_eval.load({str(collection)!r})
            try:
                srs_eval.evaluate(log, "AVG,SM2", jobs=2, use_cache=False)
            except InputError as error:
                print("TOLD:", error)
            """
        )
    )
    process = start(str(script))
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, stderr
    assert stdout.count("TOLD:") == 1
    assert '`if __name__ == "__main__":`' in stdout
    assert stderr == ""


def runs_out_of_memory() -> None:
    """Make every later receipt of a message in this worker raise MemoryError."""
    from multiprocessing.connection import Connection

    def fails(*_: object) -> bytes:
        raise MemoryError

    Connection.recv_bytes = fails  # type: ignore[method-assign, assignment]


@pytest.mark.slow
def test_worker_without_memory_fails_without_printing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with WorkerPool(1) as pool:
        pool.submit(runs_out_of_memory).result()
        error = pool.submit(os.getpid).exception()
    assert isinstance(error, WorkerDied)
    assert str(error) == "the worker process did not have enough memory"
    assert capfd.readouterr().err == ""
