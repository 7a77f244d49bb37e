"""Compare the results of one configuration with several seeds, for `srs-eval report`.

Where a training draws random numbers, another seed gives other figures. How far the mean over
users moves says which differences between models may be the seed's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from srs_eval.benchmark.leaderboard import WEIGHTINGS, Comparison, compute_weights
from srs_eval.benchmark.result_files import ResultFile, batch_folder_of
from srs_eval.data.reviews import FloatArray
from srs_eval.stats.users import MeanInterval, mean_intervals


@dataclass(frozen=True, eq=False)
class SeedSpread:
    """A metric's means of one configuration with k seeds, under one weighting of users."""

    file: ResultFile  # of the first seed
    weighting: str  # one of WEIGHTINGS
    seeds: tuple[int, ...]  # (k,) ascending
    users: int  # users who have the metric with every seed, on the same number of reviews
    means: FloatArray  # (k,) means over these users
    mean: MeanInterval  # over users, of each user's mean over seeds

    @property
    def deviation(self) -> float:
        """Standard deviation of the means over seeds (k - 1 in the denominator)."""
        return float(np.std(self.means, ddof=1))

    @property
    def share_of_half_width(self) -> float:
        """Standard deviation over seeds, divided by half of the interval over users.

        It is nan with fewer than two users, and if all users have the same figure.
        """
        half_width = self.mean.half_width
        return self.deviation / half_width if half_width > 0 else math.nan


def select_first_seeds(files: Sequence[ResultFile]) -> list[ResultFile]:
    """Return the files without those that repeat another one of their folder with a later seed."""
    first_seeds: dict[tuple[Path, str], int] = {}
    for file in files:
        key = _series_of(file)
        first_seeds[key] = min(file.seed, first_seeds.get(key, file.seed))
    return [file for file in files if file.seed == first_seeds[_series_of(file)]]


def compare_seeds(comparison: Comparison, files: Sequence[ResultFile]) -> list[SeedSpread]:
    """Return the spread of the chosen metric of each compared file that has other seeds in `files`.

    Means are over those of the comparison's users who have the metric with every seed. Files
    without such users are left out.
    """
    spreads = []
    for file in comparison.files:
        series = sorted(
            (other for other in files if _series_of(other) == _series_of(file)),
            key=lambda other: other.seed,
        )
        if len(series) < 2 or series[0].path != file.path:
            continue
        values = np.concatenate(
            [other.metric_columns((comparison.metric,), comparison.users) for other in series],
            axis=1,
        )
        is_complete = np.isfinite(values).all(axis=1)
        for other in series:
            sizes_by_user = other.sizes_by_user()
            sizes = [sizes_by_user.get(user, -1) for user in comparison.users.tolist()]
            is_complete &= np.array(sizes) == comparison.sizes
        if not is_complete.any():
            continue
        values = values[is_complete]
        weights = compute_weights(comparison.sizes[is_complete])
        # The last column is each user's mean over seeds.
        columns = np.column_stack([values, values.mean(axis=1)])
        for weighting, intervals in zip(WEIGHTINGS, mean_intervals(columns, weights), strict=True):
            spreads.append(
                SeedSpread(
                    file=file,
                    weighting=weighting,
                    seeds=tuple(other.seed for other in series),
                    users=len(values),
                    means=np.array([interval.estimate for interval in intervals[:-1]]),
                    mean=intervals[-1],
                )
            )
    return spreads


def _series_of(file: ResultFile) -> tuple[Path, str]:
    """Return what all seeds of a configuration have in common: their folder and their name."""
    return batch_folder_of(file.path), file.name_without_seed or file.name
