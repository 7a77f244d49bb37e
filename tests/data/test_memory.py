"""Too little memory is reported in one sentence, whatever error a library raises."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from srs_eval.cli import learner
from srs_eval.cli.main import main
from srs_eval.data import memory
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.memory import is_memory_error, memory_errors, require_memory
from srs_eval.data.paths import DEMO_FILE
from srs_eval.engine.failures import describe_failure
from tests.helpers.marks import slow_except

SEGMENT = "libtorch_cpu.so: failed to map segment from shared object"


def with_context(cause: Exception, error: Exception) -> Exception:
    """Return the error as raised while `cause` was handled, as llvmlite does."""
    error.__context__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError(SEGMENT),
        with_context(
            OSError(SEGMENT), OSError("Could not find/load shared object file 'libllvmlite.so'")
        ),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: not enough memory"
        ),
        RuntimeError("std::bad_alloc"),
        with_context(MemoryError(), ValueError("of what follows")),
    ],
    ids=str,
)
def test_memory_errors_of_libraries_are_recognised(error: Exception) -> None:
    assert is_memory_error(error)
    assert describe_failure(error) == ("not enough memory", "")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("not enough memory of it"),
        # a file system mounted without execution
        ImportError(f"{SEGMENT}: Operation not permitted"),
        OSError(errno.ENOENT, "No such file or directory"),
        SystemError("error return without exception set"),
        RuntimeError("can't start new thread"),
    ],
    ids=str,
)
def test_other_errors_are_no_memory_errors(error: Exception) -> None:
    assert not is_memory_error(error)
    assert describe_failure(error)[0].startswith(type(error).__name__)


@pytest.mark.parametrize(
    "error", [SystemError("error return without exception set"), ImportError("of something")]
)
def test_unexplained_error_counts_if_memory_is_short(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_memory_limit", lambda: 900_000_000)
    assert not is_memory_error(error)
    monkeypatch.setattr(memory, "_can_allocate", lambda size: False)
    assert is_memory_error(error)


class Mute(RuntimeError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_error_without_readable_text_is_no_memory_error() -> None:
    assert not is_memory_error(Mute())


def test_circle_of_causes_ends_the_search() -> None:
    first = ValueError("one")
    second = ValueError("other")
    first.__context__, second.__context__ = second, first
    assert not is_memory_error(first)


def test_input_error_is_raised_unchanged() -> None:
    def refused() -> None:
        with memory_errors():
            raise with_context(MemoryError(), InputError("It does not fit."))

    with pytest.raises(InputError, match=r"^It does not fit\.$"):
        refused()


def test_require_memory_refuses_torch_if_memory_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    require_memory("torch")
    monkeypatch.setattr(memory, "_memory_limit", lambda: 900_000_000)
    monkeypatch.setattr(memory, "_can_allocate", lambda size: size < 500_000_000)
    require_memory("numpy")
    with pytest.raises(MemoryError):
        require_memory("torch")


@pytest.mark.parametrize(
    "error", [MemoryError(), ImportError(SEGMENT), OSError(errno.ENOMEM, "Cannot allocate memory")]
)
def test_a_command_that_runs_out_of_memory_says_so(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(learner.Source, "read", fails)
    assert main(["inspect", str(DEMO_FILE)]) == 2
    assert capsys.readouterr().err == f"srs-eval: {memory.NOT_ENOUGH_MEMORY}\n"


def test_too_few_reviews_are_no_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise NotEnoughData("two reviews")

    monkeypatch.setattr(learner.Source, "read", fails)
    assert main(["inspect", str(DEMO_FILE)]) == 2
    assert capsys.readouterr().err == "srs-eval: Too little data: two reviews.\n"


def make_limiter(megabytes: int) -> Callable[[], None]:
    """Return a function that limits a process as `ulimit -v` does."""
    import resource

    size = megabytes * 1_000_000
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux: it limits memory")
@pytest.mark.parametrize("megabytes", slow_except({400}, [150, 400, 700]))
@pytest.mark.parametrize(
    "arguments",
    [
        ("run", DEMO_FILE, "--models", "AVG,HLR", "--jobs", "0"),
        pytest.param(("compare", DEMO_FILE), marks=pytest.mark.slow),
        pytest.param(("export", DEMO_FILE, "--html", "a.html"), marks=pytest.mark.slow),
        ("batch", "--dataset", "nowhere"),
        ("models", "check", "HLR"),
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_a_small_limit_is_refused_before_the_work(
    arguments: tuple[object, ...], megabytes: int, tmp_path: Path
) -> None:
    """Check limits with which OpenBLAS would never return or torch would end the process."""
    done = subprocess.run(
        [sys.executable, "-m", "srs_eval", *map(str, arguments)],
        cwd=tmp_path,
        preexec_fn=make_limiter(megabytes),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("srs-eval: There is not enough memory")
    assert not list(tmp_path.iterdir())
