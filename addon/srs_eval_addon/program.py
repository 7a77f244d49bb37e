"""Find the program srs-eval, run it on a collection, and end that run.

Does not depend on Anki, and works with Python 3.9 and newer.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

# A program that is started from a desktop does not have the PATH of a terminal.
_USUAL = (
    "~/.local/bin",
    "~/.cargo/bin",
    "/opt/homebrew/bin",
    "/usr/local/bin",
)
_PYTHONS = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables that Anki may have set for itself; another Python must not see them."""


class NotFound(Exception):
    """No program is available for the evaluation; `str(error)` says what to do."""


def find(command: list[str], source: str) -> tuple[list[str], bool]:
    """Return the words that start srs-eval, and whether uv has to fetch it. Raises NotFound."""
    if command:
        if _which(command[0]) is None:
            raise NotFound(f'There is no program "{command[0]}", which the settings name.')
        return list(command), False
    if program := _which("srs-eval"):
        return [program], False
    uv = _which("uv")
    if uv and source:
        return [uv, "tool", "run", "--python", "3.12", "--from", source, "srs-eval"], True
    hint = "name a source in the add-on's settings" if uv else "see the add-on's page"
    raise NotFound(f"The program srs-eval is not installed: {hint}.")


def _which(name: str) -> str | None:
    places = [os.environ.get("PATH", os.defpath), *map(os.path.expanduser, _USUAL)]
    return shutil.which(name, path=os.pathsep.join(places))


class Evaluation:
    """A run of `srs-eval export` on a collection, which it only reads; the page goes to `page`."""

    def __init__(self, program: list[str], collection: Path, page: Path, options: list[str]):
        self.page = page
        self.said: list[str] = []  # lines of progress and messages
        self.cancelled = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._command = [*program, "export", str(collection), "--html", str(page), *options]

    def run(self) -> bool:
        """Run until the page exists or the run fails. Raises OSError if the program cannot start.

        Returns whether the page was made.
        """
        with self._lock:
            if self.cancelled:
                return False
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=_environment(),
                **_apart(),
            )
        for line in self._process.stderr or ():
            if line.strip():
                self.said.append(line.strip())
        return self._process.wait() == 0 and self.page.is_file() and not self.cancelled

    def cancel(self) -> None:
        """End the run and its child processes; `run` returns soon."""
        with self._lock:
            self.cancelled = True
            if self._process is not None and self._process.poll() is None:
                _end(self._process)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _PYTHONS}
    return {**kept, "PYTHONUTF8": "1", "NO_COLOR": "1"}


def _apart() -> dict[str, object]:
    """Return options for a separate process group that can be ended whole; no window on Windows."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True}


def _end(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":  # uv's program has children of its own
        ended = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
        subprocess.run(ended, capture_output=True, check=False, **_apart())
    else:
        os.killpg(process.pid, signal.SIGTERM)
