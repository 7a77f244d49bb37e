"""Time all configurations without a network on whole learners, before a change and after it.

    python benchmarks/large.py --before CHECKOUT [--golden DIR] [--data DIR] [--models NAMES]
                               [--learners 25] [--repeat 3]

Two logs: learner 106 of the golden data set, and one of 500,000 reviews, the histories of 25
simulated learners with as much same-day relearning, side by side. These are different people
from different seeds; the nodes of the trie per evaluated review, printed next to those of the real
learner 101, show how much they share nevertheless. Each log is evaluated from loaded reviews to
metrics, by the code of this checkout and by that of CHECKOUT in turn, each time in a fresh
process with one thread, its kernels loaded and its caches of results off. Numbers are seconds
of processor time, the least of `--repeat` runs; `all` is the sum of these. The last column is
the largest change of any metric. `--data` keeps the simulated log (a minute's work) in a folder.
Networks run if they are named, as in --models LSTM,Transformer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
SIMULATED = 1  # user id
REVIEWS = 20_000  # of each learner
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.child is not None:
        serve(Path(options.child[0]), int(options.child[1]), options.models)
        return
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or Path(folder)
        if not (data / "revlogs").is_dir():
            make_dataset(data, options.learners)
        if options.golden is not None:
            golden = options.golden / "dataset"
            print(f"Learner 101: {describe_sharing(golden, 101)}\n")
            compare("Learner 106", golden, 106, options)
        compare(f"{options.learners} simulated learners in one log", data, SIMULATED, options)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    shared = HERE.parents[2] / "shared" / "golden"
    parser = argparse.ArgumentParser(description="whole learners, before and after a change")
    parser.add_argument("--before", type=Path, default=None, help="a checkout of the older code")
    parser.add_argument("--golden", type=Path, default=shared if shared.is_dir() else None)
    parser.add_argument("--data", type=Path, default=None, help="keeps the simulated log")
    parser.add_argument("--models", default="all", help="as for `srs-eval run`")
    parser.add_argument("--learners", type=int, default=25)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--child", nargs=2, default=None, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


# The simulated log


def make_dataset(folder: Path, learners: int) -> None:
    """Make a data set with one user: the rows of `learners` simulated ones, day by day."""
    import pyarrow
    import pyarrow.parquet

    from tools.simulated import simulate_learner, write_dataset

    tables: dict[str, list[Any]] = {"revlogs": [], "cards": [], "decks": []}
    free = {"card_id": 0, "note_id": 0, "deck_id": 0, "preset_id": 0}
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(1, learners + 1):
            learner = simulate_learner(seed, REVIEWS, new_per_day=4, character=make_character(seed))
            write_dataset({seed: learner}, Path(scratch))
            used = dict(free)
            for name, table in tables.items():
                file = Path(scratch) / name / f"user_id={seed}" / "data.parquet"
                columns = pyarrow.parquet.read_table(file).to_pydict()
                columns = {key: np.array(values) for key, values in columns.items()}
                for key in free.keys() & columns.keys():
                    used[key] = max(used[key], free[key] + int(columns[key].max()) + 1)
                    columns[key] = columns[key] + free[key]
                table.append(columns)
            free = used
    for name, table in tables.items():
        joined = {}
        for key in table[0]:
            joined[key] = np.concatenate([columns[key] for columns in table])
        if name == "revlogs":
            order = np.argsort(joined["day_offset"], kind="stable")
            joined = {key: values[order] for key, values in joined.items()}
        target = folder / name / f"user_id={SIMULATED}"
        target.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.table(joined), target / "data.parquet")


def make_character(seed: int) -> Any:
    """Make a learner who relearns much within a day, like 106 of the golden data set."""
    from tools.simulated import Character, Habits
    from tools.simulated.character import make_single_deck
    from tools.simulated.memory import DEFAULT_PARAMETERS, SPREAD, Fsrs6

    random = np.random.default_rng(seed)
    w = np.array(DEFAULT_PARAMETERS) * np.exp(SPREAD * random.standard_normal(21))
    w[:4] = np.sort(w[:4])
    w[4] = min(w[4], 9.5)
    w[20] = np.clip(w[20], 0.1, 0.5)
    minutes = float(random.integers(5, 16)), float(random.integers(16, 31))
    decks, presets, shares = make_single_deck(
        tuple(w.tolist()),
        float(random.uniform(0.78, 0.86)),
        (1.0, *minutes, 40.0),
        (*minutes, 40.0),
    )
    habits = Habits(
        first=random.dirichlet([10.0, 6.0, 16.0, 6.0]),
        hard=float(random.uniform(0.03, 0.12)),
        easy=float(random.uniform(0.03, 0.12)),
        forgets=True,
        skip=0.06,
        stop=0.03,
        seconds=6.0,
        hour=8.0,
        daily_limit=250,
    )
    return Character(Fsrs6(w[:, None]), habits, "fsrs", decks, presets, shares)


def describe_sharing(data: Path, user: int) -> str:
    """Describe the number of nodes per evaluated review."""
    from srs_eval.data.datasets import open_dataset
    from srs_eval.engine.session import LearnerSession
    from srs_eval.models.configurations import resolve_configurations
    from srs_eval.training.trie import history_trie

    session = LearnerSession(open_dataset(data).load(user))
    ratios = []
    for name in ("FSRS-6", "SBD", "HLR"):
        trials = session.trials(resolve_configurations(name)[0].protocol)
        evaluated = len(trials.test_index)
        ratios.append(
            f"{len(history_trie(trials).parent) / evaluated:.2f} ({name}, {evaluated:,} evaluated)"
        )
    return "nodes per evaluated review " + ", ".join(ratios)


# Measuring


class MeasuredProcess:
    """A process that evaluates one learner with the code of one checkout."""

    def __init__(self, checkout: Path, data: Path, user: int, models: str) -> None:
        environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": str(checkout)}
        script = checkout / "benchmarks" / HERE.name  # its own, because names differ over time
        self._process = subprocess.Popen(
            [sys.executable, str(script), "--models", models, "--child", str(data), str(user)],
            env=environment,
            cwd=checkout,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names: list[str] = self._answer()

    def measure(self, name: str) -> Any:
        """Return seconds, metrics and log loss of a configuration; an empty name starts over."""
        assert self._process.stdin is not None
        print(name, file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that measures has died")
        return json.loads(line)


def serve(data: Path, user: int, models: str) -> None:
    """Serve `MeasuredProcess`: read names from standard input and answer in JSON."""
    from srs_eval.data.datasets import open_dataset
    from srs_eval.engine.session import LearnerSession
    from srs_eval.models.configurations import resolve_configurations

    named = models != "all"
    configurations = {
        configuration.name: configuration
        for configuration in resolve_configurations(models)
        if named or configuration.model.family != "neural"
    }
    log = open_dataset(data).load(user)
    warm = LearnerSession(cut_rows(log, 3_000))
    for configuration in configurations.values():  # compiles or loads the kernels
        warm.run(configuration)
    print(json.dumps(list(configurations)), flush=True)
    session = LearnerSession(log)
    for line in sys.stdin:
        name = line.strip()
        if not name:
            session = LearnerSession(log)
            print("null", flush=True)
            continue
        start = time.process_time()
        result = session.run(configurations[name])
        used = time.process_time() - start
        figures = result.metrics.to_upstream()
        print(json.dumps([used, figures, result.metrics.log_loss]), flush=True)


def cut_rows(log: Any, n: int) -> Any:
    """Cut the log after n rows."""
    from dataclasses import fields, replace

    rows = log.rows
    columns = {column.name: getattr(rows, column.name) for column in fields(rows)}
    cut = {name: None if values is None else values[:n] for name, values in columns.items()}
    return replace(log, rows=type(rows)(**cut))


def compare(title: str, data: Path, user: int, options: argparse.Namespace) -> None:
    checkouts = [HERE.parents[1]]
    if options.before is not None:
        checkouts.insert(0, options.before.resolve())
    sides = [
        MeasuredProcess(checkout, data.resolve(), user, options.models) for checkout in checkouts
    ]
    names = [name for name in sides[-1].names if name in sides[0].names]
    least = [dict.fromkeys(names, float("inf")) for _ in sides]
    last: list[dict[str, Any]] = [{} for _ in sides]
    for _ in range(options.repeat):
        for side in sides:
            side.measure("")
        for name in names:
            for side, best, results in zip(sides, least, last, strict=True):
                used, *results[name] = side.measure(name)
                best[name] = min(best[name], used)
    for side in sides:
        side.close()

    print(f"### {title}\n\n{describe_sharing(data, user)}; load {os.getloadavg()[0]:.1f}\n")
    print("| configuration | before s | after s | after / before | log loss, others change by |")
    print("| --- | --- | --- | --- | --- |")
    before = least[0]
    after = least[-1]
    for name in sorted(names, key=lambda name: -before[name]):
        old, old_loss = last[0][name]
        new, new_loss = last[-1][name]
        change = max(abs((new[key] or 0.0) - (old[key] or 0.0)) for key in new)
        ratio = after[name] / before[name]
        print(
            f"| {name} | {before[name]:.4f} | {after[name]:.4f} | {ratio:.2f} "
            f"| {new_loss - old_loss:+.1e}, {change:.6f} |"
        )
    sums = sum(before.values()), sum(after.values())
    print(
        f"| **all {len(names)}** | **{sums[0]:.2f}** | **{sums[1]:.2f}** "
        f"| **{sums[1] / sums[0]:.2f}** | |\n",
        flush=True,
    )


if __name__ == "__main__":
    main()
