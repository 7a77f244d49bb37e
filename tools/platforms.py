"""Check that srs-eval installs from wheels alone on every supported system.

    python tools/platforms.py    # needs uv and a package index; about a minute

Nothing is installed: uv resolves pyproject.toml with all extras of users for each system and
Python. A system that is listed in NONE has to fail, so that the list is corrected when it does not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

SYSTEMS = {
    "Linux x86-64": "x86_64-manylinux_2_28",
    "Linux aarch64": "aarch64-manylinux_2_28",
    "macOS Apple silicon": "aarch64-apple-darwin",
    "macOS Intel": "x86_64-apple-darwin",
    "Windows x64": "x86_64-pc-windows-msvc",
    "Windows ARM64": "aarch64-pc-windows-msvc",
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
NONE = {
    ("macOS Intel", "3.14"): "numba 0.62 knows Python up to 3.13",
    ("Windows ARM64", "3.11"): "numba has wheels from Python 3.12 on",
}
EXTRAS = ("networks", "parquet", "notebook", "cluster", "download")
_PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
_SHOWN = ("numba", "numpy", "pyarrow", "torch")


def resolve(system: str, python: str) -> tuple[bool, str]:
    """Return whether wheels exist, with the versions of some packages or else uv's reason."""
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += ["--only-binary", ":all:", "--prerelease", "disallow"]
    command += ["--python-platform", SYSTEMS[system], "--python-version", python]
    for extra in EXTRAS:
        command += ["--extra", extra]
    run = subprocess.run([*command, str(_PROJECT)], capture_output=True, text=True)
    if run.returncode:
        return False, run.stderr.strip()
    lines = run.stdout.splitlines()
    shown_lines = [line for line in lines if line.partition("==")[0] in _SHOWN]
    return True, f"{len(lines)} packages, {', '.join(shown_lines)}"


def main(arguments: Sequence[str] | None = None) -> int:
    argparse.ArgumentParser(
        description="Check that srs-eval installs from wheels alone on every supported system.",
        epilog="Needs uv and a package index, and takes about a minute. Nothing is installed.",
    ).parse_args(arguments)
    wrong = 0
    for system, python in product(SYSTEMS, PYTHONS):
        has_wheels, words = resolve(system, python)
        reason = NONE.get((system, python))
        if has_wheels == (reason is None):
            words = reason or words
        else:
            wrong += 1
            words = f"WRONG: {words}" if reason is None else f"WRONG: no longer so: {reason}"
        print(f"{system:20} {python:5} {'wheels' if has_wheels else 'none':7} {words}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
