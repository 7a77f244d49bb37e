"""FSRS-6 against the installed fsrs-optimizer (torch) and fsrs-rs (Rust), side by side.

    python benchmarks/fsrs6.py [--data DIR --user N] [--peer-python PYTHON]

Same learner, same five folds, one run, one thread each, warm, medians; nothing is
read from a cache of results. Timed is per system:

- srs-eval: the trie of histories, initial stabilities, five epochs, choice of the
  best epoch, prediction of the test parts;
- fsrs-optimizer: `pretrain`, `Trainer(...).train()`, `Collection.batch_predict`, on a
  data frame whose features and tensors are ready;
- fsrs-rs: `FSRS([]).benchmark(items)` on items that are ready; it predicts nothing.

DIR has the layout of anki-revlogs-10k; without it a simulated learner is taken. Where
fsrs-optimizer is in another environment, --peer-python names its interpreter.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _peers import histories, load_trials, run_peer

THREADS = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> None:
    if any(os.environ.get(name) != "1" for name in THREADS):  # libraries read them at start
        os.environ.update(dict.fromkeys(THREADS, "1"))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    parser = argparse.ArgumentParser(description="FSRS-6: time against its peers")
    parser.add_argument("--data", type=Path, help="folder in the layout of anki-revlogs-10k")
    parser.add_argument("--user", type=int, default=1)
    parser.add_argument("--peer-python", default=sys.executable, help="has fsrs-optimizer")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--torch-repeat", type=int, default=3)
    options = parser.parse_args()
    trials = load_trials(options.data, options.user)
    print(
        f"user {options.user}: {len(trials)} reviews to train or judge on, "
        f"{len(trials.test_index)} judged, load {os.getloadavg()[0]:.2f}"
    )

    start = time.perf_counter()
    time_ours(trials, 0)
    cold = time.perf_counter() - start
    ours, p = time_ours(trials, options.repeat)
    print(
        f"srs-eval          {ours:9.4f} s   log loss {log_loss(trials.y[trials.test_index], p):.6f}"
        f"   (first call {cold:.1f} s)"
    )
    rust = time_rust(trials, options.repeat)
    print(f"fsrs-rs           {rust:9.4f} s   {rust / ours:6.1f} times ours")
    with tempfile.TemporaryDirectory() as folder:
        answer = run_peer(options.peer_python, trials, Path(folder), options.torch_repeat)
    torch_seconds = float(answer["seconds"])
    loss = log_loss(trials.y[trials.test_index], answer["p"])
    print(
        f"fsrs-optimizer    {torch_seconds:9.4f} s   {torch_seconds / ours:6.1f} times ours"
        f"   log loss {loss:.6f}   ({answer['versions']})"
    )


def log_loss(y: Any, p: Any) -> float:
    p = np.clip(p, 1e-15, 1 - 1e-15)
    return float(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)))


def median_seconds(run: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Median of `repeat` runs after one that does not count, and the last result."""
    result = run()
    seconds: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) if seconds else 0.0, result


def time_ours(trials: Any, repeat: int) -> tuple[float, Any]:
    from dataclasses import replace

    from srs_eval.models import Context
    from srs_eval.models.fsrs6 import fit, predict

    context = Context()

    def run() -> Any:
        fresh = replace(trials, _derived={})  # the trie is built anew
        parts = []
        for fold in fresh.folds:
            w = fit(fresh, fold.train, np.ones(len(fold.train)), context)
            parts.append(predict(fresh, w, fold.test, context))
        return np.concatenate(parts)

    return median_seconds(run, repeat)


def time_rust(trials: Any, repeat: int) -> float:
    from fsrs_rs_python import FSRS, FSRSItem, FSRSReview

    items = [
        FSRSItem(
            reviews=[
                FSRSReview(delta_t=t, rating=r)
                for t, r in zip([*intervals, int(delta_t)], [*ratings, int(rating)], strict=True)
            ]
        )
        for (intervals, ratings), delta_t, rating in zip(
            histories(trials), trials.delta_t, trials.rating, strict=True
        )
    ]
    folds = [[items[k] for k in fold.train] for fold in trials.folds]
    backend = FSRS(parameters=[])
    seconds, _ = median_seconds(lambda: [backend.benchmark(fold) for fold in folds], repeat)
    return seconds


if __name__ == "__main__":
    main()
