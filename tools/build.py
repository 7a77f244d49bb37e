"""Build the wheel and the sdist, twice, and see that both times the same bytes come out.

    python tools/build.py                  # into dist/
    python tools/build.py --tag v1.0.0     # also: version, changelog and citation are of this tag

The second time is from the unpacked sdist, in another folder: what is published can be built anew
by anybody. Dates are that of the last commit (SOURCE_DATE_EPOCH). Needs hatchling.
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
    """Names and SHA-256 of what is built."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    subprocess.run(command, cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL)
    made = sorted(path for path in out.iterdir() if path.suffix in (".whl", ".gz"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made}


def last_commit(source: Path) -> str:
    """Its time in seconds, as SOURCE_DATE_EPOCH has it, unless that is set."""
    if chosen := os.environ.get("SOURCE_DATE_EPOCH"):
        return chosen
    asked = ["git", "log", "-1", "--format=%ct"]
    return subprocess.check_output(asked, cwd=source, text=True).strip()


def differences(first: Path, again: dict[str, str], once: dict[str, str]) -> list[str]:
    """What was not built alike."""
    names = sorted({*once, *again})
    return [
        f"{first / name}: the second build differs"
        for name in names
        if once.get(name) != again.get(name)
    ]


def unready(tag: str) -> list[str]:
    """What does not yet say the version of a tag."""
    paths = (REPOSITORY / "srs_eval" / "data" / "paths.py").read_text(encoding="utf-8")
    version = re.search(r'^VERSION = "([^"]+)"', paths, re.M)[1]
    wrong = [] if tag == f"v{version}" else [f"The tag is {tag}, VERSION is {version}."]
    changes = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes, re.M):
        wrong.append(f'CHANGELOG.md has no "## [{version}] - YYYY-MM-DD".')
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    if f"\nversion: {version}\n" not in citation:
        wrong.append(f'CITATION.cff has no "version: {version}".')
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=REPOSITORY / "dist")
    parser.add_argument("--tag", help="of the release, vX.Y.Z")
    asked = parser.parse_args()
    wrong = unready(asked.tag) if asked.tag else []
    epoch = last_commit(REPOSITORY)
    shutil.rmtree(asked.out, ignore_errors=True)
    once = build(REPOSITORY, asked.out, epoch)
    with tempfile.TemporaryDirectory() as folder:
        (sdist,) = asked.out.glob("*.tar.gz")
        shutil.unpack_archive(sdist, folder)
        (source,) = Path(folder).iterdir()
        wrong += differences(asked.out, build(source, Path(folder) / "dist", epoch), once)
    for name, digest in once.items():
        print(f"{digest}  {name}")
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
