"""The demo's learner, simulated by `tools/simulated`: 20,000 reviews of a year."""

from __future__ import annotations

from pathlib import Path

DEMO_FILE = Path(__file__).with_name("demo.anki2.zst")


def make_demo_collection(folder: Path) -> Path:
    """Write the demo's collection to `folder/collection.anki2` and return that path.

    Raises FileExistsError if the file exists.
    """
    import zstandard

    path = folder / "collection.anki2"
    with open(path, "xb") as file:
        file.write(zstandard.decompress(DEMO_FILE.read_bytes()))
    return path
