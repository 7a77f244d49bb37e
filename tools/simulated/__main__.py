"""Regenerate the demo's learner: `python -m tools.simulated` writes the file in the package."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import zstandard

from srs_eval.data.paths import DEMO_FILE
from tools.simulated.files import write_collection
from tools.simulated.learner import simulate_learner

DEMO_REVIEWS = 20_000
_SEED = 2024


def write_demo(path: Path) -> None:
    """Write the demo's learner as a new collection: a few decks under two presets."""
    write_collection(simulate_learner(_SEED, DEMO_REVIEWS), path)


def main(arguments: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(
        prog="python -m tools.simulated",
        description="Simulate the demo's learner anew and write the file in the package.",
    ).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        collection = Path(folder) / "collection.anki2"
        write_demo(collection)
        DEMO_FILE.write_bytes(zstandard.ZstdCompressor(level=22).compress(collection.read_bytes()))


if __name__ == "__main__":
    main()
