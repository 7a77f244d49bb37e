"""Write SHA256SUMS, by which anybody can check what was downloaded.

python tools/checksums.py dist
cd dist && sha256sum --check SHA256SUMS
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

NAME = "SHA256SUMS"


def write_checksums(folder: Path) -> Path:
    """Write the SHA-256 digest of every file in the folder, sorted by name; return the path."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != NAME:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            lines.append(f"{digest}  {path.name}\n")
    sums = folder / NAME
    sums.write_bytes("".join(lines).encode())
    return sums


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="with the wheel, the sdist and the add-on")
    print(write_checksums(parser.parse_args().folder))


if __name__ == "__main__":
    main()
