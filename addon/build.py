"""Make srs-eval.ankiaddon, a zip of addon/srs_eval_addon with the same bytes each time.

python addon/build.py --out dist
"""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path

SOURCE = Path(__file__).with_name("srs_eval_addon")
_ENDINGS = (".py", ".json", ".md")
_DATE = (2020, 2, 2, 0, 0, 0)


def build(out: Path) -> Path:
    """Build the file that Anki installs, creating its folder if needed, and return its path."""
    out.mkdir(parents=True, exist_ok=True)
    made = out / "srs-eval.ankiaddon"
    with zipfile.ZipFile(made, "w") as archive:
        for path in sorted(SOURCE.iterdir()):
            # Anki writes the user's settings to meta.json, which must not be shipped.
            if path.suffix in _ENDINGS and path.name != "meta.json":
                entry = zipfile.ZipInfo(path.name, _DATE)
                entry.create_system, entry.external_attr = 3, 0o644 << 16
                content = path.read_bytes().replace(b"\r\n", b"\n")
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("dist"))
    print(build(parser.parse_args().out))
