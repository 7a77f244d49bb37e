"""Build the wheel and the sdist twice and check that both builds have the same bytes.

    python tools/build.py                  # into dist/
    python tools/build.py --tag v1.0.0     # also: version, changelog and citation match the tag

The second build is made from the unpacked sdist, in another folder, so that anyone can rebuild
what is published. Dates are that of the last commit (SOURCE_DATE_EPOCH). Needs hatchling.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def build(source: Path, out: Path, epoch: str) -> dict[str, str]:
    """Build the wheel and the sdist; return SHA-256 digests by file name."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    subprocess.run(command, cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL)
    paths = sorted(path for path in out.iterdir() if path.suffix in (".whl", ".gz"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def find_commit_time(source: Path) -> str:
    """Return the last commit's time in seconds, or SOURCE_DATE_EPOCH if that is set."""
    chosen = os.environ.get("SOURCE_DATE_EPOCH")
    if chosen:
        return chosen
    command = ["git", "log", "-1", "--format=%ct"]
    return subprocess.check_output(command, cwd=source, text=True).strip()


def find_differences(first: Path, again: dict[str, str], once: dict[str, str]) -> list[str]:
    """Return a line for each file that differs between the two builds."""
    names = sorted({*once, *again})
    return [
        f"{first / name}: the second build differs"
        for name in names
        if once.get(name) != again.get(name)
    ]


def find_unready_files(tag: str) -> list[str]:
    """Return a line for each file that does not yet have the version of a tag."""
    paths = (REPOSITORY / "srs_eval" / "data" / "paths.py").read_text(encoding="utf-8")
    found = re.search(r'^VERSION = "([^"]+)"', paths, re.M)
    assert found is not None
    version = found[1]
    problems = [] if tag == f"v{version}" else [f"The tag is {tag}, VERSION is {version}."]
    changes = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes, re.M):
        problems.append(f'CHANGELOG.md has no "## [{version}] - YYYY-MM-DD".')
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    if f"\nversion: {version}\n" not in citation:
        problems.append(f'CITATION.cff has no "version: {version}".')
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=REPOSITORY / "dist")
    parser.add_argument("--tag", help="of the release, vX.Y.Z")
    options = parser.parse_args()
    problems = find_unready_files(options.tag) if options.tag else []
    epoch = find_commit_time(REPOSITORY)
    shutil.rmtree(options.out, ignore_errors=True)
    once = build(REPOSITORY, options.out, epoch)
    with tempfile.TemporaryDirectory() as folder:
        (sdist,) = options.out.glob("*.tar.gz")
        shutil.unpack_archive(sdist, folder)
        (source,) = Path(folder).iterdir()
        problems += find_differences(options.out, build(source, Path(folder) / "dist", epoch), once)
    for name, digest in once.items():
        print(f"{digest}  {name}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
