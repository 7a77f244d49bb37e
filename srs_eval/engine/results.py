"""What one evaluation yields, and its form in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray, ReadOnly
from srs_eval.metrics import Metrics, log_losses
from srs_eval.stats.intervals import Interval, mean_interval


@dataclass(frozen=True, eq=False)
class TestSet(ReadOnly):
    """k held-out reviews, fold after fold: one object for all results on them."""

    y: FloatArray  # (k,) 1.0 recalled
    review_th: IntArray  # (k,) which rows; equal for configurations that are ranked together
    fold: IntArray  # (k,) 1 ... n_splits
    partition: IntArray  # (k,)
    day: IntArray  # (k,) day number of the review; figures of one day are not independent
    bin: IntArray  # (k,) bin of RMSE(bins), as `data.trials.rmse_bin_ids` numbers them

    def __len__(self) -> int:
        return len(self.review_th)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, TestSet)
            and all(map(np.array_equal, vars(self).values(), vars(other).values()))
        )

    def __hash__(self) -> int:
        return hash(self.review_th.tobytes())


@dataclass(frozen=True, eq=False)
class Result:
    """One configuration on one learner; k evaluated reviews."""

    configuration: str
    metrics: Metrics
    tests: TestSet
    parameters: Mapping[int, Sequence[float]] | None
    """By partition (0 without partitions), fitted for the last fold; None where not listable."""
    p: FloatArray  # (k,) predicted probability of recall
    seconds: float = 0.0  # wall time of fits and predictions
    cached: bool = False
    user: int | None = None
    notes: tuple[str, ...] = field(default=())  # e.g. a fold that fell back to the defaults
    flattered: int = 0
    """Judged reviews that the parameters may have been fitted to: figures look better by that."""

    @property
    def size(self) -> int:
        return len(self.tests)

    @property
    def y(self) -> FloatArray:
        return self.tests.y

    @property
    def review_th(self) -> IntArray:
        return self.tests.review_th

    @property
    def fold(self) -> IntArray:
        return self.tests.fold

    @property
    def day(self) -> IntArray:
        return self.tests.day

    def to_upstream(self) -> dict[str, Any]:
        """One line of srs-benchmark's result files; figures have six decimals."""
        line: dict[str, Any] = {
            "metrics": self.metrics.to_upstream(),
            "user": self.user,
            "size": self.size,
        }
        if self.parameters is not None:
            line["parameters"] = {
                str(partition): [round(float(w), 6) for w in values]
                for partition, values in self.parameters.items()
            }
        return line


def losses(result: Result) -> FloatArray:
    """Log loss of each evaluated review in nats (k,)."""
    return log_losses(result.y, result.p)


def log_loss_interval(result: Result) -> Interval:
    """Log loss with its interval; how sure it is by itself, not compared to another."""
    return mean_interval(losses(result), result.day)


def log_loss_difference(result: Result, other: Result) -> Interval | None:
    """Mean of `result`'s losses minus `other`'s on the same reviews; negative: it is better.

    Paired, so it is much narrower than the two intervals suggest. None where the two
    were not evaluated on the same reviews.
    """
    if not same_reviews(result, other):
        return None
    return mean_interval(losses(result) - losses(other), result.day)


def same_reviews(result: Result, other: Result) -> bool:
    """Whatever the partitions are."""
    return result.tests is other.tests or np.array_equal(result.review_th, other.review_th)
