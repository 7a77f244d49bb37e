"""Take the picture for AnkiWeb: the report of the bundled simulated learner in Anki's window.

python -m tests.addon.make_picture addon/picture.png
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import zstandard

from addon import build
from srs_eval.data.paths import DEMO_FILE
from tests.conftest import REPOSITORY


def make_picture(picture: Path) -> None:
    """Start Anki without a screen, with the simulated learner's collection, and save its window."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "Anki2"
        profile = base / "User 1"
        profile.mkdir(parents=True)
        content = zstandard.ZstdDecompressor().decompressobj().decompress(DEMO_FILE.read_bytes())
        (profile / "collection.anki2").write_bytes(content)
        package = build.build(Path(folder))
        command = [sys.executable, "-m", "tests.addon.in_anki", "report", base, package, picture]
        subprocess.run(
            command,
            cwd=REPOSITORY,
            env={
                **os.environ,
                "QT_QPA_PLATFORM": "offscreen",
                "QTWEBENGINE_CHROMIUM_FLAGS": "--no-sandbox --disable-gpu",
            },
            stdout=subprocess.DEVNULL,
            check=True,
        )


if __name__ == "__main__":
    make_picture(Path(sys.argv[1]).resolve())
