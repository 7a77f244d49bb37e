"""Print diagnostic information for a bug report, and nothing personal."""

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

from srs_eval.cli.exit_codes import PARTIAL_FAILURE, SUCCESS
from srs_eval.data.paths import DEMO_FILE, VERSION, cache_dir, config_dir
from srs_eval.report.console import say, show

_TRIAL_MODEL = "HLR"
_SHOWN_VARIABLES = ("TERM", "COLORTERM", "TERM_PROGRAM")
_MENTIONED_VARIABLES = ("TMUX", "WT_SESSION", "SSH_CONNECTION")  # without their private values


def format_version() -> str:
    """Return the version, Python's version and the system that Python was built for."""
    return f"srs-eval {VERSION}, Python {sys.version.split()[0]}, {sysconfig.get_platform()}"


def doctor() -> int:
    """Print diagnostic information for a bug report.

    The information contains no names. The command also tests whether models compile.
    """
    for fact in _collect_facts():
        show(fact)
    say("Compiling a model in a worker process ...")
    has_failed, message = _try_compiling()
    show(f"Compiling: {message}")
    return PARTIAL_FAILURE if has_failed else SUCCESS


def _collect_facts() -> Iterator[str]:
    """Yield lines about the installation, folders, the terminal and Anki."""
    from importlib.metadata import PackageNotFoundError, version

    from srs_eval.anki_import import find_profiles
    from srs_eval.benchmark.setup import environment
    from srs_eval.data.errors import EXTRAS, format_count, is_installed
    from srs_eval.engine.workers import count_cores

    yield format_version()
    versions = dict(environment())
    for name in ("llvmlite", "textual", "pyarrow"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    shown_above = ("srs_eval", "python", "machine")
    yield ", ".join(
        f"{name} {value}" for name, value in versions.items() if name not in shown_above
    )
    missing = [name for name in EXTRAS if not is_installed(name)]
    yield f"Not installed: {', '.join(missing) or 'nothing'}"
    yield f"Processor cores: {count_cores()}"
    for label, folder in (("Cache", cache_dir()), ("Settings", config_dir())):
        yield f"{label}: {_anonymize(str(folder))}, {_describe_folder(folder)}"
    size = shutil.get_terminal_size()
    facts = [f"{name}={os.environ[name]}" for name in _SHOWN_VARIABLES if os.environ.get(name)]
    facts += [f"{name} is set" for name in _MENTIONED_VARIABLES if name in os.environ]
    facts.append("a terminal" if sys.stdout.isatty() else "not a terminal")
    yield f"Output: {size.columns} x {size.lines}, {sys.stdout.encoding}, {', '.join(facts)}"
    yield f"Anki: {format_count(len(find_profiles()), 'profile')}"


def _describe_folder(folder: Path) -> str:
    if not folder.is_dir():
        return "does not exist yet"
    return "can be written" if os.access(folder, os.W_OK) else "cannot be written"


def _anonymize(text: str) -> str:
    """Return a text with ~ for the path of the home folder and NAME for its owner's name."""
    home = Path.home()
    for path in (str(home), home.as_posix(), str(home.resolve())):
        text = re.sub(re.escape(path) + r"(?![\w-])", "~", text, flags=re.IGNORECASE)
    name = re.escape(home.name or "/")
    return re.sub(rf"(?<![\w-]){name}(?![\w-])", "NAME", text, flags=re.IGNORECASE)


def _try_compiling() -> tuple[bool, str]:
    """Evaluate a model in a process that has to compile it; return whether that failed, and why.

    If it has not failed, the message says how long it took.
    """
    import json

    start = time.monotonic()
    arguments = [
        "run",
        str(DEMO_FILE),
        "--models",
        _TRIAL_MODEL,
        "--jobs",
        "1",
        "--no_cache",
        "--json",
        "-",
    ]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.run(
            [sys.executable, "-m", "srs_eval", *arguments],
            env={**os.environ, "NUMBA_CACHE_DIR": folder, "PYTHONUTF8": "1"},
            capture_output=True,
            encoding="utf-8",
        )
    if process.returncode:
        return True, _anonymize(
            process.stderr.strip() or f"it ended with exit code {process.returncode}"
        )
    (loss,) = (
        result["metrics"]["LogLoss"]
        for result in json.loads(process.stdout)["results"]
        if result["configuration"] == _TRIAL_MODEL
    )
    seconds = time.monotonic() - start
    return False, f"{_TRIAL_MODEL} took {seconds:.1f} s; its log loss on the demo is {loss:.4f}"
