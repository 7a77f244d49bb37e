"""The demo's collection: a simulated learner as an Anki file."""

from __future__ import annotations

from pathlib import Path

_DEMO_SEED = 2024
DEMO_REVIEWS = 20_000


def make_demo_collection(folder: Path) -> Path:
    """Write the demo learner to `folder/collection.anki2` and return that path.

    About 20,000 reviews in a few decks under two presets, the same every time. Raises
    FileExistsError if the file exists.
    """
    from srs_eval.data.simulated import simulate_learner, write_collection

    path = folder / "collection.anki2"
    write_collection(simulate_learner(_DEMO_SEED, DEMO_REVIEWS), path)
    return path
