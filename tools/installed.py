"""What an installation weighs and whose licences it carries, by package.

    python tools/installed.py                     # of the environment that runs it
    python tools/installed.py .venv/bin/python    # of another one
    python tools/installed.py --licences          # as a table of Markdown
    python tools/installed.py --most 700          # fails above 700 MB

Bytes are those of files on disk, compiled bytecode included where it is there (pip writes it, uv
does not). Python itself is left out. Needs nothing but the standard library.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

_INSTALLERS = ("pip", "setuptools", "wheel")
MB = 1e6


def bytes_of(distribution: Distribution) -> int:
    """What a package's files weigh; their bytecode counts once, whoever lists it."""
    paths = {
        Path(str(distribution.locate_file(file))).resolve() for file in distribution.files or ()
    }
    compiled = {
        each
        for path in paths
        if path.suffix == ".py"
        for each in path.parent.joinpath("__pycache__").glob(f"{path.stem}.*.pyc")
    }
    return sum(path.stat().st_size for path in paths | compiled if path.is_file())


def licence_of(distribution: Distribution) -> str:
    """As the package declares it: an SPDX expression, a classifier, or the first line of a text."""
    declared = distribution.metadata
    if expression := declared.get("License-Expression"):
        return str(expression)
    classified = [
        each.rpartition(" :: ")[2]
        for each in declared.get_all("Classifier") or ()
        if each.startswith("License :: OSI Approved :: ")
    ]
    return " and ".join(classified) or (declared.get("License") or "not declared").splitlines()[0]


def found() -> list[tuple[str, str, int, str]]:
    """Name, version, bytes and licence of each package of this environment, heaviest first."""
    here = {each.metadata["Name"]: each for each in distributions() if each.metadata["Name"]}
    rows = [
        (name, each.version, bytes_of(each), licence_of(each))
        for name, each in here.items()
        if name.lower() not in _INSTALLERS
    ]
    return sorted(rows, key=lambda row: (-row[2], row[0].lower()))


def _of(python: str | None) -> list[tuple[str, str, int, str]]:
    if python is None:
        return found()
    asked = [python, "-I", "-S", "-c", _ASK, str(Path(__file__).resolve().parent)]
    return [tuple(row) for row in json.loads(subprocess.check_output(asked, text=True))]


_ASK = """
import json, site, sys
site.main()
sys.path.insert(0, sys.argv[1])
import installed
print(json.dumps(installed.found()))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("python", nargs="?", help="of the environment; this one if left out")
    parser.add_argument("--licences", action="store_true", help="a table of licences in Markdown")
    parser.add_argument("--most", type=float, metavar="MB", help="fail where all of it weighs more")
    asked = parser.parse_args()
    rows = _of(asked.python)
    if asked.licences:
        print("| package | licence |\n|---|---|")
        for name, _, _, licence in sorted(rows, key=lambda row: row[0].lower()):
            print(f"| {name} | {licence} |")
        return 0
    for name, version, size, _ in rows:
        print(f"{size / MB:8.1f} MB  {name} {version}")
    total = sum(size for _, _, size, _ in rows) / MB
    print(f"{total:8.1f} MB  in all, {len(rows)} packages")
    if asked.most is not None and total > asked.most:
        print(f"This is more than {asked.most:g} MB.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
