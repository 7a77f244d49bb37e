"""Run batches with the models of `batch_with_test_models` and read their files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("batch_with_test_models.py")
SETUP: dict[str, Any] = {
    "srs_eval": "1",
    "data": {"folder": "here", "users": 3, "fingerprint": "f"},
    "options": {"sm2_target": 0.9, "device": "cpu", "weights": None},
    "configurations": {
        "AVG": {"model": "AVG", "model_version": 1, "fit": "trained", "protocol": {"gamma": 1.0}}
    },
    "environment": {"python": "3"},
}
"""The set-up of a batch of one baseline."""
MODELS = "AVG,90%,MOVING-AVG,SM2-short,Memrise,Anki-dry-run"


def batch_command(dataset: Path, out: Path, *options: str, models: str = MODELS) -> list[str]:
    """Return the command line of a batch with two jobs, in which models may misbehave."""
    start = [sys.executable, str(PROGRAM), "batch", "--dataset", str(dataset)]
    return [*start, "--out", str(out), "--models", models, "--jobs", "2", *options]


def read_lines(path: Path) -> dict[int, dict[str, Any]]:
    """Read a file with a line of JSON for each user, and return the lines by user."""
    return {line["user"]: line for line in map(json.loads, path.read_text().splitlines())}


def read_outcomes(out: Path) -> dict[str, bytes]:
    """Read all files of a batch that do not tell times, and return their contents by name."""
    contents = {}
    for kind in ("result", "skipped", "failed"):
        for path in sorted((out / kind).glob("*")):
            contents[f"{kind}/{path.name}"] = path.read_bytes()
    return contents
