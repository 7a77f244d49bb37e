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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

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
    parser.add_argument("--torch-peer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch_peer:
        torch_peer(options.torch_peer, options.torch_repeat)
        return
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
        file = Path(folder) / "rows.npz"
        write_rows(trials, file)
        command = [options.peer_python, __file__, "--torch-peer", str(file)]
        command += ["--torch-repeat", str(options.torch_repeat)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            sys.exit(f"fsrs-optimizer failed in {options.peer_python}:\n{result.stderr[-2000:]}")
        answer = np.load(Path(folder) / "answer.npz")
    torch_seconds = float(answer["seconds"])
    loss = log_loss(trials.y[trials.test_index], answer["p"])
    print(
        f"fsrs-optimizer    {torch_seconds:9.4f} s   {torch_seconds / ours:6.1f} times ours"
        f"   log loss {loss:.6f}   ({result.stdout.strip()})"
    )


def load_trials(data: Path | None, user: int) -> Any:
    from srs_eval.dataset import open_dataset
    from srs_eval.protocol import Protocol, prepare_trials
    from srs_eval.rows import select_rows

    with tempfile.TemporaryDirectory() as folder:
        if data is None:
            from srs_eval.simulation import simulate_learner, write_dataset

            write_dataset({user: simulate_learner(user)}, Path(folder))
            data = Path(folder)
        log = open_dataset(data).load(user)
    return prepare_trials(log, select_rows(log, "benchmark").rows, Protocol(short=True))


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


def histories(trials: Any) -> list[tuple[list[int], list[int]]]:
    """Intervals and ratings before each trial."""
    delta_t = trials.history_delta_t.astype(int).tolist()
    rating = trials.history_rating.tolist()
    ends = zip(trials.history_start.tolist(), trials.history_end.tolist(), strict=True)
    return [(delta_t[start:end], rating[start:end]) for start, end in ends]


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


def write_rows(trials: Any, file: Path) -> None:
    np.savez(
        file,
        start=trials.history_start,
        end=trials.history_end,
        history_delta_t=trials.history_delta_t,
        history_rating=trials.history_rating,
        delta_t=trials.delta_t,
        y=trials.y,
        i=trials.i,
        first_test=np.array([fold.test[0] for fold in trials.folds]),
        end_test=np.array([fold.test[-1] + 1 for fold in trials.folds]),
    )


def torch_peer(file: Path, repeat: int) -> None:
    """Runs where fsrs-optimizer is installed; writes answer.npz beside the rows."""
    import importlib.metadata

    import pandas as pd
    import torch
    from fsrs_optimizer import Collection, Optimizer, Trainer, power_forgetting_curve

    torch.set_num_threads(1)
    rows = np.load(file)
    tensors, r_history = [], []
    for start, end in zip(rows["start"], rows["end"], strict=True):
        delta_t, rating = rows["history_delta_t"][start:end], rows["history_rating"][start:end]
        tensors.append(torch.tensor(np.stack([delta_t, rating], axis=1), dtype=torch.float))
        r_history.append(",".join(map(str, rating.tolist())))
    frame = pd.DataFrame(
        {
            "tensor": tensors,
            "r_history": r_history,
            "delta_t": rows["delta_t"].astype(int),
            "y": rows["y"].astype(int),
            "i": rows["i"],
        }
    )
    optimizer = Optimizer()

    def fold(first: int, end: int) -> Any:
        train, test = frame.iloc[:first].copy(), frame.iloc[first:end].copy()
        start = time.perf_counter()
        optimizer.define_model()
        optimizer.pretrain(dataset=train, verbose=False)
        w = Trainer(train, None, optimizer.init_w).train(verbose=False)
        stability, _ = Collection(w).batch_predict(test)
        p = power_forgetting_curve(test["delta_t"].to_numpy(), np.array(stability), -w[20])
        return time.perf_counter() - start, p

    ends = list(zip(rows["first_test"].tolist(), rows["end_test"].tolist(), strict=True))
    fold(*ends[0])  # does not count
    totals = []
    for _ in range(repeat):
        parts = [fold(*both) for both in ends]
        totals.append(sum(seconds for seconds, _ in parts))
    np.savez(
        file.with_name("answer.npz"),
        seconds=statistics.median(totals),
        p=np.concatenate([p for _, p in parts]),
    )
    versions = [
        f"{name} {importlib.metadata.version(name)}" for name in ("fsrs-optimizer", "torch")
    ]
    print(", ".join(versions))


if __name__ == "__main__":
    main()
