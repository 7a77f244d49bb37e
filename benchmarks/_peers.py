"""Run fsrs-optimizer on the same rows, in the interpreter that has it.

As a program (`python _peers.py ROWS REPEAT`) it needs numpy, pandas and fsrs-optimizer, of
version 5 (FSRS-5) or 6 (FSRS-6), and writes answer.npz beside the rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def list_histories(trials: Any) -> list[tuple[list[int], list[int]]]:
    """Return intervals and ratings before each trial."""
    delta_t = trials.history_delta_t.astype(int).tolist()
    rating = trials.history_rating.tolist()
    ends = zip(trials.history_start.tolist(), trials.history_end.tolist(), strict=True)
    return [(delta_t[start:end], rating[start:end]) for start, end in ends]


def run_peer(python: str, trials: Any, folder: Path, repeat: int) -> Mapping[str, Any]:
    """Return the peer's predictions `p` of the test parts, its `versions`, and its time.

    `seconds` and `cpu_seconds` are medians of `repeat` runs.
    """
    write_rows(trials, folder / "rows.npz")
    # fsrs-optimizer 5 sorts unstably: the published results come from numpy without SIMD.
    features = "AVX512_ICL AVX512_CNL AVX512_CLX AVX512_SKX AVX512CD AVX512F AVX2 FMA3"
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": features}
    result = subprocess.run(
        [python, __file__, str(folder / "rows.npz"), str(repeat)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if result.returncode:
        sys.exit(f"fsrs-optimizer failed in {python}:\n{result.stderr[-2000:]}")
    with np.load(folder / "answer.npz") as answer:
        return {name: answer[name] for name in answer.files}


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


def run_torch_peer(file: Path, repeat: int) -> None:
    """Train and predict where fsrs-optimizer is installed; write answer.npz beside the rows."""
    import importlib.metadata

    import pandas as pd
    import torch
    from fsrs_optimizer import Collection, Optimizer, Trainer, power_forgetting_curve

    torch.set_num_threads(1)
    rows = np.load(file)
    tensors = []
    r_history = []
    for start, end in zip(rows["start"], rows["end"], strict=True):
        delta_t = rows["history_delta_t"][start:end]
        rating = rows["history_rating"][start:end]
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
    # Values of srs-benchmark; the packages' own defaults differ between versions.
    settings = {"n_epoch": 5, "lr": 4e-2, "gamma": 1, "batch_size": 512, "max_seq_len": 64}

    def run_fold(first: int, end: int) -> Any:
        train = frame.iloc[:first].copy()
        test = frame.iloc[first:end].copy()
        start = np.array([time.perf_counter(), time.process_time()])
        optimizer.define_model()
        optimizer.pretrain(dataset=train, verbose=False)
        w = Trainer(train, None, optimizer.init_w, **settings).train(verbose=False)
        stability, _ = Collection(w).batch_predict(test)
        decay = [-w[20]] if len(w) > 20 else []  # fixed in FSRS-5
        p = power_forgetting_curve(test["delta_t"].to_numpy(), np.array(stability), *decay)
        return np.array([time.perf_counter(), time.process_time()]) - start, p

    ends = list(zip(rows["first_test"].tolist(), rows["end_test"].tolist(), strict=True))
    totals = []
    for _ in range(repeat + 1):  # the first run does not count
        folds = [run_fold(first, end) for first, end in ends]
        totals.append(np.sum([seconds for seconds, _ in folds], axis=0))
    wall, cpu = np.median(totals[1:] or totals, axis=0)
    versions = [
        f"{name} {importlib.metadata.version(name)}" for name in ("fsrs-optimizer", "torch")
    ]
    np.savez(
        file.with_name("answer.npz"),
        seconds=wall,
        cpu_seconds=cpu,
        p=np.concatenate([p for _, p in folds]),
        versions=", ".join(versions),
    )


if __name__ == "__main__":
    run_torch_peer(Path(sys.argv[1]), int(sys.argv[2]))
