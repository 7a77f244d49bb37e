"""How near the population's simulated learners come to real ones.

    SRS_EVAL_REAL=FOLDER python benchmarks/likeness.py [--simulated 40] [--seed 1]

Prints quantiles of `tools.pretraining.likeness` over the people in FOLDER and over simulated
learners, side by side; what a memory model leaves is taken from FSRS-6-recency's predictions.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from srs_eval.anki_import import load_log
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.engine.session import Session
from srs_eval.models.configurations import resolve
from tools.pretraining.likeness import Likeness, likeness
from tools.pretraining.population import population_learner

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--real", type=Path, default=os.environ.get("SRS_EVAL_REAL"))
    parser.add_argument("--simulated", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sides = {}
    if given.real is not None:
        sides["real"] = table(real_people(Path(given.real)))
    numbers = range(given.simulated)
    sides["simulated"] = table(population_learner(given.seed, n).log() for n in numbers)
    heads = [f"{name} {level:.0%}" for name in sides for level in LEVELS]
    print(f"| {' | '.join(['', *heads])} |\n|{'---|' * (1 + len(heads))}")
    for column, each in enumerate(fields(Likeness)):
        row = [each.name.replace("_", " ")]
        for side in sides.values():
            known = side[:, column][~np.isnan(side[:, column])]
            quantiles = np.quantile(known, LEVELS) if len(known) else []
            row += [f"{value:.4g}" for value in quantiles] or [""] * len(LEVELS)
        print(f"| {' | '.join(map(str, row))} |")


def real_people(folder: Path) -> Iterator[ReviewLog]:
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        try:
            yield load_log(path)
        except InputError as error:
            print(error, file=sys.stderr)


def table(logs: Iterator[ReviewLog]) -> FloatArray:
    """Everybody's figures (people, figures)."""
    (configuration,) = resolve("FSRS-6-recency")
    rows: list[Sequence[float]] = []
    for log in logs:
        session = Session(log)
        try:
            p = session.run(configuration).p
        except NotEnoughData:
            continue
        found = likeness(log, session.trials(Protocol(short=True)), p)
        rows.append([float(getattr(found, each.name)) for each in fields(found)])
    return np.array(rows)


if __name__ == "__main__":
    main()
