"""Compare pretrained weights with each other on real people.

    SRS_EVAL_REAL=FOLDER python benchmarks/pretrained.py --weights reference=DIR [--weights new=DIR]
                         [--models LSTM,GRU-P-short] [--golden DIR] [--results FILE]

For each of the people in FOLDER (numbered, not named), or golden users with --golden: log loss of
FSRS-6-recency, and of each network tuned from the shipped weights and from those of each folder,
minus FSRS-6-recency's, on the reviews that all of them share. Then means over the people.
--results keeps the finished results, so that the next run continues from there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from srs_eval.anki_import import load_log
from srs_eval.data.datasets import open_dataset
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.session import LearnerSession
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training.hyperparameters import Context

BASE = "FSRS-6-recency"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--real", type=Path, default=os.environ.get("SRS_EVAL_REAL"))
    parser.add_argument("--golden", type=Path)
    parser.add_argument("--weights", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--models", default="LSTM")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    folders: dict[str, Path | None] = {"shipped": None}
    for argument in options.weights:
        name, _, folder = argument.partition("=")
        folders[name] = Path(folder)
    losses: dict[str, float] = {}
    if options.results is not None and options.results.exists():
        losses = json.loads(options.results.read_text())
    columns = list(product(options.models.split(","), folders))
    heads = [f"{model}, {weights}" for model, weights in columns]
    print(f"| person | evaluated | {BASE} | {' | '.join(heads)} |")
    print("|---|" + "---|" * (2 + len(columns)), flush=True)
    rows = []
    for person, log in load_people(options.real and Path(options.real), options.golden):
        session = LearnerSession(log)

        def compute_loss(
            model: str, weights: str | None, session: LearnerSession = session
        ) -> float:
            key = f"{session.log.fingerprint()} {model} {weights}"
            if key not in losses:
                folder = None if weights is None else folders[weights]
                result = session.run(resolve_configurations(model)[0], Context(weights=folder))
                losses[key] = result.metrics.log_loss
                if options.results is not None:
                    options.results.write_text(json.dumps(losses))
            return losses[key]

        try:
            evaluated = len(session.trials(resolve_configurations(BASE)[0].protocol).test_index)
            base = compute_loss(BASE, None)
            rows.append([base, *(compute_loss(*column) - base for column in columns)])
        except NotEnoughData:
            continue
        cells = " | ".join(f"{difference:+.4f}" for difference in rows[-1][1:])
        print(f"| {person} | {evaluated:,} | {base:.4f} | {cells} |", flush=True)
    if not rows:
        parser.error("nobody to predict: give --real or --golden")
    mean = np.mean(rows, axis=0)
    cells = " | ".join(f"{difference:+.4f}" for difference in mean[1:])
    print(f"| mean of {len(rows)} | | {mean[0]:.4f} | {cells} |")


def load_people(real: Path | None, golden: Path | None) -> Iterator[tuple[str, ReviewLog]]:
    if golden is not None:
        dataset = open_dataset(golden / "dataset")
        yield from ((f"golden {user}", dataset.load(user)) for user in dataset.users)
    if real is not None and golden is None:
        number = 0
        for path in sorted(path for path in real.iterdir() if path.is_file()):
            try:
                log = load_log(path)
            except InputError as error:
                print(error, file=sys.stderr)
                continue
            number += 1
            yield str(number), log


if __name__ == "__main__":
    main()
