"""The command line, as a person calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import PATIENCE


def dying_workers(folder: Path, times: int) -> dict[str, str]:
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


def program(
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
