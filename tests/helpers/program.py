"""Run the command line as a person calls it, and read its results."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from srs_eval.benchmark.file_names import FileNaming
from srs_eval.benchmark.plan import Backend
from srs_eval.benchmark.result_files import read_lines
from srs_eval.benchmark.setup import read_setup
from srs_eval.cli.main import main
from srs_eval.models import all_models
from tests.conftest import PATIENCE


def killing_environment(folder: Path, times: int) -> dict[str, str]:
    """Return an environment in which so many workers are killed as they start, one by one.

    Each leaves a file in `folder`.
    """
    (folder / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "is_worker = any('spawn_main' in argument for argument in sys.orig_argv)\n"
        f"for number in range({times} if is_worker else 0):\n"
        "    try:\n"
        f"        os.close(os.open(f'{folder}/{{number}}', os.O_CREAT | os.O_EXCL))\n"
        "    except FileExistsError:\n"
        "        continue\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def run_program(
    *arguments: object, timeout: float = PATIENCE, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `srs-eval` with arguments; `options` are those of `subprocess.run`."""
    return subprocess.run(
        [sys.executable, "-m", "srs_eval", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        **options,
    )


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def run_in_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `srs-eval` in this process, which is fast; batches and audits have no workers."""
    stdout = io.StringIO()
    stderr = io.StringIO()
    with batches_in_process(), redirect_stdout(stdout), redirect_stderr(stderr):
        code = main([*map(str, arguments)])
    return subprocess.CompletedProcess(arguments, code, stdout.getvalue(), stderr.getvalue())


@contextmanager
def batches_in_process() -> Iterator[None]:
    """Evaluate batches in a thread of this process, one unit after the other.

    Own models are forgotten at the end.
    """

    @contextmanager
    def open_thread(*_: object, **__: object) -> Iterator[Backend]:
        thread = ThreadPoolExecutor(1)
        try:
            yield Backend(thread, jobs=1, queue_length=2)
        finally:
            thread.shutdown(cancel_futures=True)

    with patch("srs_eval.batch.open_backend", open_thread), patch.dict(all_models()):
        yield


def read_results(folder: Path, configuration: str) -> dict[int, dict[str, Any]]:
    """Read a configuration's result file as lines by user; none where there is no such file."""
    path = folder / "result" / f"{FileNaming.of(read_setup(folder)).file_stem(configuration)}.jsonl"
    lines = read_lines(path) if path.exists() else []
    return {line["user"]: line for line in lines if line is not None}
