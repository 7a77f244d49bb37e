"""The command line, as a person calls it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def program(
    *arguments: object, timeout: float = 300, **options: Any
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
