"""Make the table of published users' gains behind `srs_eval.advice.population`.

    python tools/experience.py PUBLISHED [OUT]

PUBLISHED holds per-user result files of srs-benchmark (`FSRS-5.jsonl.gz`, ...: one JSON line a
user). The table keeps each user's number of evaluated reviews and metrics to five decimals, but
not the user's number.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

LOSSES = {  # column: result file
    "optimized": "FSRS-5",
    "recency": "FSRS-5-recency",
    "defaults": "FSRS-5-dry-run",
    "sm2": "Anki-dry-run",
    "average": "AVG",
}
OUT = Path(__file__).resolve().parents[1] / "srs_eval" / "advice" / "population.npz"
SCALE = 100_000
UNKNOWN = 2**32 - 1


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="make the table of what published users gained")
    parser.add_argument("published", type=Path)
    parser.add_argument("out", type=Path, nargs="?", default=OUT)
    options = parser.parse_args(arguments)
    columns = build_table(options.published)
    with options.out.open("wb") as file:
        np.savez_compressed(file, **columns)
    print(f"{options.out}: {len(columns['reviews']):,} users, {options.out.stat().st_size:,} bytes")


def build_table(published: Path) -> dict[str, Any]:
    """Return columns (users,), uint32: reviews, and metrics times 100,000, ordered by reviews."""
    files = {name: read_results(published / f"{file}.jsonl.gz") for name, file in LOSSES.items()}
    users = sorted(set.intersection(*(set(results) for results in files.values())))
    fsrs_results = [files["optimized"][user] for user in users]
    columns = {"reviews": np.array([result["size"] for result in fsrs_results], np.uint32)}
    for name, results in files.items():
        columns[name] = scale([results[user]["metrics"]["LogLoss"] for user in users])
    for name, metric in {"rmse_bins": "RMSE(bins)", "auc": "AUC"}.items():
        columns[name] = scale([result["metrics"][metric] for result in fsrs_results])
    order = np.lexsort((columns["optimized"], columns["reviews"]))
    return {name: column[order] for name, column in columns.items()}


def read_results(path: Path) -> dict[int, dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return {result["user"]: result for result in map(json.loads, lines)}


def scale(values: Sequence[float | None]) -> np.ndarray[Any, Any]:
    return np.array(
        [UNKNOWN if value is None else round(value * SCALE) for value in values], np.uint32
    )


if __name__ == "__main__":
    main()
