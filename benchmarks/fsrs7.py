"""What FSRS-7 makes of clocks, of buttons and of more epochs, for real people.

    python benchmarks/fsrs7.py [--real DIR] [--zone Europe/Berlin]

reads every history in --real (or the environment variable SRS_EVAL_REAL). Log loss minus that of
FSRS-7 recency, on the reviews of later days (equalized) and on all. No file names a time zone, so
study days are taken as if all lived in --zone, whose clocks change; days begin as before.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from srs_eval.anki_import import load_log
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.session import Session
from srs_eval.metrics import log_loss
from srs_eval.models.configurations import resolve
from srs_eval.training.hyperparameters import Context

RECENCY = "FSRS-7-short-secs-recency"
EQUALIZED = f"{RECENCY}-equalize_test_with_non_secs"
COMPARED = {
    "seconds, later days": EQUALIZED,
    "study days, later days": f"{RECENCY}-study_days-equalize_test_with_non_secs",
    "whole days, later days": f"{RECENCY}-whole_days-equalize_test_with_non_secs",
    "seconds, all reviews": RECENCY,
    "study days, all reviews": f"{RECENCY}-study_days",
    "whole days, all reviews": f"{RECENCY}-whole_days",
}


def in_zone(log: ReviewLog, zone: str) -> ReviewLog:
    """The same days, of 23 and 25 hours where clocks change in the zone."""
    return replace(log, day_grid=log.day_grid and replace(log.day_grid, zone=zone))


def losses(log: ReviewLog, names: Sequence[str]) -> dict[str, float]:
    session = Session(log)
    found = {}
    for name in names:
        result = session.run(resolve(name, Protocol())[0], Context(), use_cache=True)
        found[name] = log_loss(result.y, result.p)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--real", type=Path, default=os.environ.get("SRS_EVAL_REAL"))
    parser.add_argument("--zone", default="Europe/Berlin")
    options = parser.parse_args()
    if options.real is None:
        parser.error("nobody to predict: give --real")
    paths = sorted(path for path in Path(options.real).iterdir() if path.is_file())
    people = [
        losses(in_zone(load_log(path), options.zone), tuple(COMPARED.values())) for path in paths
    ]
    print("| | log loss | minus seconds | better | least | most |\n|---|---|---|---|---|---|")
    for words, name in COMPARED.items():
        own = np.array([each[name] for each in people])
        base = EQUALIZED if "later" in words else RECENCY
        less = own - np.array([each[base] for each in people])
        cells = (f"{each:+.4f}" for each in (less.mean(), less.min(), less.max()))
        mean, least, most = cells
        print(f"| {words} | {own.mean():.4f} | {mean} | {(less < 0).sum()} | {least} | {most} |")
        print("    ", " ".join(f"{each:+.4f}" for each in less))


if __name__ == "__main__":
    main()
