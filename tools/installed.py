"""List the packages of an installation with their sizes and licences.

    python tools/installed.py                     # of the environment that runs it
    python tools/installed.py .venv/bin/python    # of another one
    python tools/installed.py --licences          # as a table of Markdown
    python tools/installed.py --most 700          # fails above 700 MB

Sizes are those of files on disk, including compiled bytecode if there is any (pip writes it, uv
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


def count_bytes(distribution: Distribution) -> int:
    """Return the size of a package's files in bytes; bytecode counts once, even if listed, too."""
    paths = {
        Path(str(distribution.locate_file(file))).resolve() for file in distribution.files or ()
    }
    compiled: set[Path] = set()
    for path in paths:
        if path.suffix == ".py":
            compiled.update(path.parent.joinpath("__pycache__").glob(f"{path.stem}.*.pyc"))
    return sum(path.stat().st_size for path in paths | compiled if path.is_file())


def find_licence(distribution: Distribution) -> str:
    """Return the declared licence: an SPDX expression, a classifier, or a text's first line."""
    declared = distribution.metadata
    expressions = list(filter(None, declared.get_all("License-Expression") or ()))
    if expressions:
        return str(expressions[0])
    licences = [
        classifier.rpartition(" :: ")[2]
        for classifier in declared.get_all("Classifier") or ()
        if classifier.startswith("License :: OSI Approved :: ")
    ]
    if licences:
        return " and ".join(licences)
    texts = list(filter(None, declared.get_all("License") or ()))
    return str(texts[0]).splitlines()[0] if texts else "not declared"


def list_packages() -> list[tuple[str, str, int, str]]:
    """Return name, version, bytes and licence of this environment's packages, heaviest first."""
    by_name = {
        distribution.metadata["Name"]: distribution
        for distribution in distributions()
        if distribution.metadata["Name"]
    }
    rows = [
        (name, distribution.version, count_bytes(distribution), find_licence(distribution))
        for name, distribution in by_name.items()
        if name.lower() not in _INSTALLERS
    ]
    return sorted(rows, key=lambda row: (-row[2], row[0].lower()))


def _list_packages_of(python: str | None) -> list[tuple[str, str, int, str]]:
    if python is None:
        return list_packages()
    command = [python, "-I", "-S", "-c", _ASK, str(Path(__file__).resolve().parent)]
    return [tuple(row) for row in json.loads(subprocess.check_output(command, text=True))]


_ASK = """
import json, site, sys
site.main()
sys.path.insert(0, sys.argv[1])
import installed
print(json.dumps(installed.list_packages()))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("python", nargs="?", help="of the environment; this one if left out")
    parser.add_argument("--licences", action="store_true", help="a table of licences in Markdown")
    parser.add_argument("--most", type=float, metavar="MB", help="fail where all of it weighs more")
    options = parser.parse_args()
    rows = _list_packages_of(options.python)
    if options.licences:
        print("| package | licence |\n|---|---|")
        for name, _, _, licence in sorted(rows, key=lambda row: row[0].lower()):
            print(f"| {name} | {licence} |")
        return 0
    for name, version, size, _ in rows:
        print(f"{size / MB:8.1f} MB  {name} {version}")
    total = sum(size for _, _, size, _ in rows) / MB
    print(f"{total:8.1f} MB  in all, {len(rows)} packages")
    if options.most is not None and total > options.most:
        print(f"This is more than {options.most:g} MB.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
