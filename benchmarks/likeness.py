"""Compare the population's simulated learners with real ones.

    SRS_EVAL_REAL=FOLDER python benchmarks/likeness.py [--simulated 40] [--seed 1]

Prints quantiles of `tools.pretraining.likeness` over the people in FOLDER and over simulated
learners, side by side; residuals are those of FSRS-6-recency's predictions.
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
from srs_eval.engine.session import LearnerSession
from srs_eval.models.configurations import resolve_configurations
from tools.pretraining.likeness import Likeness, compute_likeness
from tools.pretraining.population import population_learner

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--real", type=Path, default=os.environ.get("SRS_EVAL_REAL"))
    parser.add_argument("--simulated", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sides = {}
    if options.real is not None:
        sides["real"] = compute_table(load_real_people(Path(options.real)))
    numbers = range(options.simulated)
    sides["simulated"] = compute_table(population_learner(options.seed, n).log() for n in numbers)
    heads = []
    for name in sides:
        heads += [f"{name} {level:.0%}" for level in LEVELS]
    print(f"| {' | '.join(['', *heads])} |\n|{'---|' * (1 + len(heads))}")
    for column, figure in enumerate(fields(Likeness)):
        row = [figure.name.replace("_", " ")]
        for side in sides.values():
            defined = side[:, column][~np.isnan(side[:, column])]
            if len(defined):
                row += [f"{value:.4g}" for value in np.quantile(defined, LEVELS)]
            else:
                row += [""] * len(LEVELS)
        print(f"| {' | '.join(map(str, row))} |")


def load_real_people(folder: Path) -> Iterator[ReviewLog]:
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        try:
            yield load_log(path)
        except InputError as error:
            print(error, file=sys.stderr)


def compute_table(logs: Iterator[ReviewLog]) -> FloatArray:
    """Compute the figures of all people (people, figures)."""
    (configuration,) = resolve_configurations("FSRS-6-recency")
    rows: list[Sequence[float]] = []
    for log in logs:
        session = LearnerSession(log)
        try:
            p = session.run(configuration).p
        except NotEnoughData:
            continue
        likeness = compute_likeness(log, session.trials(Protocol(short=True)), p)
        rows.append([float(getattr(likeness, figure.name)) for figure in fields(likeness)])
    return np.array(rows)


if __name__ == "__main__":
    main()
