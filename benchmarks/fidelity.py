"""Measure how closely every configuration reproduces the reference's results.

    python benchmarks/fidelity.py [--golden DIR] [--models NAMES] [--weights DIR]
    python benchmarks/fidelity.py --fresh 20 --peer-python PYTHON --models FSRS-6

The first form compares with the reference benchmark's output on the golden data set
(DIR holds `dataset/` and `expected/`), the second with the fsrs-optimizer installed for
PYTHON on newly simulated learners: version 6 for FSRS-6, version 5 for FSRS-5. It prints
a table in Markdown. The criterion is log loss; differences are ours minus theirs. The limits for
each user are 0.000002 without training, 0.0001 if only initial stabilities are fitted,
0.0005 for FSRS and 0.001 for other trained models; on average no model may be more than
0.0002 worse. The process ends with 1 if anything exceeds its limit.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from _peers import run_peer

from srs_eval.data.datasets import open_dataset
from srs_eval.data.errors import NotEnoughData
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import log_loss
from srs_eval.models import Context
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.models.published import from_upstream_name

WORSE_ON_AVERAGE = 0.0002


@dataclass(frozen=True)
class Comparison:
    configuration: Configuration
    difference: Mapping[int, float]  # by user, log loss, ours minus theirs
    sizes_equal: bool

    @property
    def allowed(self) -> float:
        model = self.configuration.model
        if not model.parameters or self.configuration.fit == "default":
            return 2e-6
        if self.configuration.fit == "S0":
            return 1e-4
        return 5e-4 if model.family == "fsrs" else 1e-3

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.difference.values())))

    @property
    def worst_user(self) -> int:
        return max(self.difference, key=lambda user: abs(self.difference[user]))

    @property
    def is_good(self) -> bool:
        worst = abs(self.difference[self.worst_user])
        return self.sizes_equal and worst <= self.allowed and self.mean <= WORSE_ON_AVERAGE

    def format_row(self) -> str:
        worst = self.worst_user
        return (
            f"| {self.configuration.name} | {len(self.difference)} "
            f"| {'yes' if self.sizes_equal else 'NO'} | {self.mean:+.7f} "
            f"| {self.difference[worst]:+.7f} (user {worst}) | {self.allowed:g} "
            f"| {'equal' if self.is_good else 'BEYOND'} |"
        )


def compare_with_golden(golden: Path, names: str, context: Context) -> Iterator[Comparison]:
    dataset = open_dataset(golden / "dataset")
    sessions = {user: LearnerSession(dataset.load(user)) for user in dataset.users}
    files = {
        configuration.name: file
        for file in sorted((golden / "expected").glob("*.jsonl"))
        if (configuration := from_upstream_name(file.stem)) is not None
    }
    for configuration in resolve_configurations(names):
        file = files.get(configuration.name)
        if file is None:
            continue
        expected = {line["user"]: line for line in map(json.loads, file.read_text().splitlines())}
        difference = {}
        sizes_equal = True
        for user, session in sessions.items():
            try:
                result = session.run(configuration, replace(context, user=user))
            except NotEnoughData:
                sizes_equal &= user not in expected
                continue
            published = expected[user]
            difference[user] = result.metrics.log_loss - published["metrics"]["LogLoss"]
            sizes_equal &= result.size == published["size"]
        yield Comparison(configuration, difference, sizes_equal)


def compare_with_fresh_learners(number: int, names: str, peer_python: str) -> Iterator[Comparison]:
    from tools.simulated import simulate_learner, write_dataset

    users = range(1, number + 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reviews = [1000 + 500 * user for user in users]
        write_dataset(
            {
                user: simulate_learner(9000 + user, reviews=n)
                for user, n in zip(users, reviews, strict=True)
            },
            folder,
        )
        dataset = open_dataset(folder)
        for configuration in resolve_configurations(names):
            difference = {}
            sizes_equal = True
            for user in users:
                session = LearnerSession(dataset.load(user))
                result = session.run(configuration)
                trials = session.trials(configuration.protocol)
                peer_p = run_peer(peer_python, trials, folder, repeat=0)["p"]
                difference[user] = result.metrics.log_loss - log_loss(result.y, peer_p)
                sizes_equal &= len(peer_p) == result.size
            yield Comparison(configuration, difference, sizes_equal)


def main() -> None:
    shared = Path(__file__).resolve().parents[2] / "shared" / "golden"
    parser = argparse.ArgumentParser(description="Fidelity to the reference benchmark")
    parser.add_argument("--golden", type=Path, default=shared)
    parser.add_argument("--models", default="all,FSRS-5-secs-no_test_same_day")
    parser.add_argument("--weights", type=Path, help="the reference's network weights")
    parser.add_argument("--fresh", type=int, default=0, metavar="N", help="simulated learners")
    parser.add_argument("--peer-python", default=sys.executable, help="has fsrs-optimizer")
    options = parser.parse_args()
    if options.fresh:
        comparisons = compare_with_fresh_learners(
            options.fresh, options.models, options.peer_python
        )
    else:
        comparisons = compare_with_golden(
            options.golden, options.models, Context(weights=options.weights)
        )
    print("| configuration | users | sizes equal | mean difference | worst | allowed | verdict |")
    print("|---|---|---|---|---|---|---|")
    good = True
    for comparison in comparisons:
        print(comparison.format_row(), flush=True)
        good &= comparison.is_good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
