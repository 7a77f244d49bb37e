"""Measure how long a report on result files takes, in seconds of one core.

    python benchmarks/report.py DIR

prints the time to read the files, to compare them, and to lay out the page with its pictures,
and how many times faster the comparison's intervals are than scipy's bootstrap of one mean.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from srs_eval.benchmark.leaderboard import compare_files
from srs_eval.benchmark.result_files import read_folders
from srs_eval.report.dataset import build_results_report
from srs_eval.report.files import render_as
from srs_eval.stats.users import RESAMPLES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    clock = [time.process_time()]
    (results,) = read_folders([folder])
    clock.append(time.process_time())
    comparisons = compare_files(results.files)
    clock.append(time.process_time())
    text = render_as(build_results_report([folder]), "html")  # everything once more
    clock.append(time.process_time())
    read, compared, together = np.diff(clock)
    print(f"read        {read:6.2f} s")
    print(f"compared    {compared:6.2f} s")
    print(f"page        {together - read - compared:6.2f} s ({len(text):,} characters)")
    print(f"together    {together:6.2f} s")
    intervals = 0
    for comparison in comparisons:
        for leaderboard in comparison.leaderboards:
            intervals += sum(len(row.means) for row in leaderboard.rows)
    scipy_seconds = _time_scipy(comparisons[0].values[:, 0], comparisons[0].sizes)
    print(
        f"scipy's bootstrap of one mean takes {scipy_seconds:.1f} s; "
        f"here {intervals} intervals and all else"
    )
    print(f"are {scipy_seconds * intervals / compared:.0f} times faster")


def _time_scipy(values: np.ndarray, weights: np.ndarray) -> float:
    from scipy.stats import bootstrap

    start = time.process_time()
    bootstrap(
        (values, weights),
        lambda v, w, axis: (v * w).sum(axis) / w.sum(axis),
        paired=True,
        n_resamples=RESAMPLES,
        batch=100,
        confidence_level=0.99,
    )
    return time.process_time() - start


if __name__ == "__main__":
    main()
