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
_USUAL_FOLDERS = (
    "~/.local/bin",
    "~/.cargo/bin",
    "/opt/homebrew/bin",
    "/usr/local/bin",
)
_ANKI_VARIABLES = (
    "PYTHONHOME",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
)
"""Environment variables that Anki may have set for its own Python; others must not see them."""


class NotFound(Exception):
    """srs-eval cannot be started; `str(error)` says what to do."""


def find(command: list[str], source: str) -> tuple[list[str], bool]:
    """Return the command that starts srs-eval, and whether uv may have to fetch srs-eval first.

    `command` and `source` are the add-on's settings of these names. Raises NotFound.
    """
    if command:
        if _find_executable(command[0]) is None:
            raise NotFound(f'The settings name a program that does not exist: "{command[0]}".')
        return list(command), False
    if program := _find_executable("srs-eval"):
        return [program], False
    uv = _find_executable("uv")
    if uv and source:
        return [uv, "tool", "run", "--python", "3.12", "--from", source, "srs-eval"], True
    hint = "name a source in the add-on's settings" if uv else "see the add-on's page"
    raise NotFound(f"The program srs-eval is not installed: {hint}.")


def _find_executable(name: str) -> str | None:
    folders = [os.environ.get("PATH", os.defpath), *map(os.path.expanduser, _USUAL_FOLDERS)]
    return shutil.which(name, path=os.pathsep.join(folders))


class Evaluation:
    """A run of `srs-eval export` on a collection; it writes a report as HTML to `page`."""

    def __init__(self, program: list[str], collection: Path, page: Path, options: list[str]):
        self.page = page
        self.output_lines: list[str] = []  # progress and messages so far
        self.cancelled = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._command = [*program, "export", str(collection), "--html", str(page), *options]

    def run(self) -> bool:
        """Run until the program ends, and return whether it has written the page.

        Raises OSError if the program cannot start.
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
                env=_make_environment(),
                **_separation_options(),
            )
        for line in self._process.stderr or ():
            if line.strip():
                self.output_lines.append(line.strip())
        return self._process.wait() == 0 and self.page.is_file() and not self.cancelled

    def cancel(self) -> None:
        """End the run and its child processes; `run` returns soon."""
        with self._lock:
            self.cancelled = True
            if self._process is not None and self._process.poll() is None:
                _end_with_children(self._process)


def _make_environment() -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in _ANKI_VARIABLES}
    return {**environment, "PYTHONUTF8": "1", "NO_COLOR": "1"}


def _separation_options() -> dict[str, object]:
    """Return options of `subprocess` that separate a program from Anki.

    On Windows it gets no console window. Elsewhere it gets a process group of its own, which can be
    ended as a whole.
    """
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True}


def _end_with_children(process: subprocess.Popen[str]) -> None:
    """End a program and all that it has started, such as srs-eval by uv, and its workers."""
    if sys.platform == "win32":
        command = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
        subprocess.run(command, capture_output=True, check=False, **_separation_options())
    else:
        os.killpg(process.pid, signal.SIGTERM)
