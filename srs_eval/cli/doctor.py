"""What a report about a mistake needs to tell, and nothing personal."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from srs_eval.cli.options import FINE, SOME_FAILED
from srs_eval.data.paths import DEMO_FILE, VERSION, cache_dir, config_dir
from srs_eval.report.console import say, show

_TRIED = "HLR"
_TOLD = ("TERM", "COLORTERM", "TERM_PROGRAM")
_SET = ("TMUX", "WT_SESSION", "SSH_CONNECTION")  # what they hold is nobody's business


def about() -> str:
    """Version, Python and the system that Python was built for."""
    return f"srs-eval {VERSION}, Python {sys.version.split()[0]}, {sysconfig.get_platform()}"


def doctor() -> int:
    """Print what a report about a mistake needs, without names, and try whether models compile."""
    for line in _facts():
        show(line)
    say("Compiling a model in a worker process ...")
    failed, words = _compiles()
    show(f"Compiling: {words}")
    return SOME_FAILED if failed else FINE


def _facts() -> Iterator[str]:
    from importlib.metadata import PackageNotFoundError, version

    from srs_eval.anki_import import find_profiles
    from srs_eval.benchmark.setup import environment
    from srs_eval.data.errors import EXTRAS, counted, is_installed
    from srs_eval.engine.workers import cores

    yield about()
    found = dict(environment())
    for name in ("llvmlite", "textual", "pyarrow"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    told = ("srs_eval", "python", "machine")
    yield ", ".join(f"{name} {what}" for name, what in found.items() if name not in told)
    lacking = [name for name in EXTRAS if not is_installed(name)]
    yield f"Without: {', '.join(lacking) or 'nothing'}"
    yield f"Processor cores: {cores()}"
    for what, folder in (("Cache", cache_dir()), ("Settings", config_dir())):
        yield f"{what}: {_nameless(str(folder))}, {_state(folder)}"
    size = shutil.get_terminal_size()
    named = [f"{name}={os.environ[name]}" for name in _TOLD if os.environ.get(name)]
    named += [f"{name} is set" for name in _SET if name in os.environ]
    named += ["a terminal" if sys.stdout.isatty() else "not a terminal"]
    yield f"Output: {size.columns} x {size.lines}, {sys.stdout.encoding}, {', '.join(named)}"
    yield f"Anki: {counted(len(find_profiles()), 'profile')}"


def _state(folder: Path) -> str:
    if not folder.is_dir():
        return "not there yet"
    return "can be written" if os.access(folder, os.W_OK) else "cannot be written"


def _nameless(text: str) -> str:
    """A text without the home folder and without the name of whoever it belongs to."""
    home = Path.home()
    for each in (str(home), home.as_posix(), str(home.resolve())):
        text = re.sub(re.escape(each) + r"(?![\w-])", "~", text, flags=re.IGNORECASE)
    name = re.escape(home.name or "/")
    return re.sub(rf"(?<![\w-]){name}(?![\w-])", "NAME", text, flags=re.IGNORECASE)


def _compiles() -> tuple[bool, str]:
    """Whether a kernel cannot be compiled by a process that finds none; in words."""
    import json

    start = time.monotonic()
    words = ["run", str(DEMO_FILE), "--models", _TRIED, "--jobs", "1", "--no_cache", "--json", "-"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        done = subprocess.run(
            [sys.executable, "-m", "srs_eval", *words],
            env={**os.environ, "NUMBA_CACHE_DIR": folder, "PYTHONUTF8": "1"},
            capture_output=True,
            encoding="utf-8",
        )
    if done.returncode:
        return True, _nameless(done.stderr.strip() or f"it ended with {done.returncode}")
    (loss,) = (
        each["metrics"]["LogLoss"]
        for each in json.loads(done.stdout)["results"]
        if each["configuration"] == _TRIED
    )
    seconds = time.monotonic() - start
    return False, f"{_TRIED} took {seconds:.1f} s; its log loss on the demo is {loss:.4f}"
