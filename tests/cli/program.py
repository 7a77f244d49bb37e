"""The command line, as a person calls it."""

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

from srs_eval.benchmark.plan import Backend
from srs_eval.benchmark.result_files import read_lines
from srs_eval.benchmark.setup import read_setup, result_file_name
from srs_eval.cli.main import main
from srs_eval.models import all_models
from tests.conftest import PATIENCE


def killing_environment(folder: Path, times: int) -> dict[str, str]:
    """What the environment needs for so many workers to be killed as they appear, one by one.

    Each leaves a file in `folder`.
    """
    (folder / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        f"for number in range({times} * any('spawn_main' in each for each in sys.orig_argv)):\n"
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
    """What `srs-eval` makes of arguments; `options` are those of `subprocess.run`."""
    return subprocess.run(
        [sys.executable, "-m", "srs_eval", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        **options,
    )


def run_in_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The same in this process, batches and audits without workers: a hundredth of the time."""
    said, stated = io.StringIO(), io.StringIO()
    with batches_in_process(), redirect_stdout(said), redirect_stderr(stated):
        code = main([*map(str, arguments)])
    return subprocess.CompletedProcess(arguments, code, said.getvalue(), stated.getvalue())


@contextmanager
def batches_in_process() -> Iterator[None]:
    """Batches make their units in a thread of this process, one after the other.

    Models of one's own are forgotten at the end.
    """

    @contextmanager
    def here(*_: object, **__: object) -> Iterator[Backend]:
        thread = ThreadPoolExecutor(1)
        try:
            yield Backend(thread, jobs=1, queue_length=2)
        finally:
            thread.shutdown(cancel_futures=True)

    with patch("srs_eval.batch.open_backend", here), patch.dict(all_models()):
        yield


def read_results(folder: Path, configuration: str) -> dict[int, dict[str, Any]]:
    """The lines of a configuration's result file by user; none where there is no such file."""
    path = folder / "result" / f"{result_file_name(configuration, read_setup(folder))}.jsonl"
    lines = read_lines(path) if path.exists() else []
    return {line["user"]: line for line in lines if line is not None}
