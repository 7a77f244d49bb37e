"""Make srs-eval.ankiaddon, a zip of addon/srs_eval_addon with the same bytes each time.

python addon/build.py --out dist
"""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path

SOURCE = Path(__file__).with_name("srs_eval_addon")
_EXTENSIONS = (".py", ".json", ".md")
_DATE = (2020, 2, 2, 0, 0, 0)  # of every file, so that the zip has the same bytes each time


def build(out: Path) -> Path:
    """Build the file that Anki installs, creating its folder if needed, and return its path."""
    out.mkdir(parents=True, exist_ok=True)
    addon_path = out / "srs-eval.ankiaddon"
    with zipfile.ZipFile(addon_path, "w") as archive:
        for path in sorted(SOURCE.iterdir()):
            # Anki writes the user's settings to meta.json, which must not be shipped.
            if path.suffix in _EXTENSIONS and path.name != "meta.json":
                entry = zipfile.ZipInfo(path.name, _DATE)
                entry.create_system = 3  # Unix, on every system
                entry.external_attr = 0o644 << 16  # Unix's permissions are in the upper 16 bits
                content = path.read_bytes().replace(b"\r\n", b"\n")
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=9)
    return addon_path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("dist"))
    print(build(parser.parse_args().out))
