"""What published users gained: the table behind `srs_eval.advice.population`.

    python tools/experience.py PUBLISHED [OUT]

PUBLISHED holds per-user result files of srs-benchmark (`FSRS-5.jsonl.gz`, ...: one JSON line a
user). Of each user the table keeps the number of evaluated reviews and figures to five decimals,
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
    columns = table(options.published)
    with options.out.open("wb") as file:
        np.savez_compressed(file, **columns)
    print(f"{options.out}: {len(columns['reviews']):,} users, {options.out.stat().st_size:,} bytes")


def table(published: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Columns (users,), uint32: reviews, and figures times 100,000, ordered by reviews."""
    files = {name: results(published / f"{file}.jsonl.gz") for name, file in LOSSES.items()}
    users = sorted(set.intersection(*(set(each) for each in files.values())))
    fsrs = [files["optimized"][user] for user in users]
    columns = {"reviews": np.array([each["size"] for each in fsrs], np.uint32)}
    for name, found in files.items():
        columns[name] = scaled([found[user]["metrics"]["LogLoss"] for user in users])
    for name, metric in {"rmse_bins": "RMSE(bins)", "auc": "AUC"}.items():
        columns[name] = scaled([each["metrics"][metric] for each in fsrs])
    order = np.lexsort((columns["optimized"], columns["reviews"]))
    return {name: column[order] for name, column in columns.items()}


def results(path: Path) -> dict[int, dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return {each["user"]: each for each in map(json.loads, lines)}


def scaled(values: Sequence[float | None]) -> np.ndarray[Any, Any]:
    return np.array(
        [UNKNOWN if each is None else round(each * SCALE) for each in values], np.uint32
    )


if __name__ == "__main__":
    main()
