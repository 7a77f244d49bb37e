"""Estimate the cost of configurations and of many users, from the `timing/` of a batch folder.

    srs-eval batch --dataset DIR --models all --jobs 1 --out RESULTS
    python benchmarks/costs.py RESULTS [--users 9999] [--reviews 34996]

Prints Markdown: seconds of processor time per 100,000 evaluated reviews and the peak memory of
each configuration, the most expensive first; then, for `fast` and for everything in the folder,
core-hours, memory and disk for this many users with this many evaluated reviews each. Use
`--jobs 1`, because processes that compile the same kernels wait for each other. Run the batch twice
into two folders: the first of all runs pays for compiling.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from srs_eval.models.configurations import resolve_configurations

PUBLISHED_USERS = 9_999
PUBLISHED_REVIEWS = 34_996  # evaluated reviews of each, on average


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--users", type=int, default=PUBLISHED_USERS)
    parser.add_argument("--reviews", type=int, default=PUBLISHED_REVIEWS)
    options = parser.parse_args()
    costs: dict[str, tuple[float, float]] = {}  # seconds per review, MB
    bytes_a_unit: dict[str, float] = {}
    for path in sorted((options.results / "timing").glob("*.jsonl")):
        units = [json.loads(line) for line in path.read_text().splitlines()]
        seconds = sum(unit["cpu_seconds"] for unit in units)
        size = sum(unit["size"] for unit in units)
        costs[path.stem] = seconds / size, max(unit["peak_mb"] for unit in units)
        files = [options.results / kind / path.name for kind in ("result", "timing", ".journal")]
        bytes_a_unit[path.stem] = sum(file.stat().st_size for file in files) / len(units)
    print("| configuration | s per 100,000 reviews | MB |\n|---|--:|--:|")
    for name, (rate, memory) in sorted(costs.items(), key=lambda item: -item[1][0]):
        print(f"| {name} | {1e5 * rate:,.2f} | {memory:,.0f} |")
    fast = {configuration.name for configuration in resolve_configurations("fast")}
    print("\n| models | configurations | s per 100,000 | core-hours | memory | disk |")
    print("|---|--:|--:|--:|--:|--:|")
    for words, names in (("`fast`", fast & set(costs)), ("`all`", set(costs))):
        rate = sum(costs[name][0] for name in names)
        memory = max(costs[name][1] for name in names)
        disk = options.users * sum(bytes_a_unit[name] for name in names)
        hours = rate * options.users * options.reviews / 3600
        print(
            f"| {words} | {len(names)} | {1e5 * rate:,.1f} | {hours:,.0f} "
            f"| {memory:,.0f} MB | {disk / 1e9:,.1f} GB |"
        )


if __name__ == "__main__":
    main()
