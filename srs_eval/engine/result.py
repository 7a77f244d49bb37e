"""Represent the result of one configuration on one learner, and compare two by their reviews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray, ReadOnly
from srs_eval.data.trials import Trials, compute_rmse_bin_ids
from srs_eval.metrics import Metrics, log_losses
from srs_eval.stats.intervals import Interval, mean_interval
from srs_eval.stats.persistence import Persistence, estimate_persistence


@dataclass(frozen=True, eq=False)
class TestSet(ReadOnly):
    """The k held-out reviews, fold after fold; all results on them share one object."""

    y: FloatArray  # (k,) 1.0 recalled
    review_th: IntArray  # (k,) row numbers, from 1; equal for configurations ranked together
    fold: IntArray  # (k,) 1 ... n_splits
    partition: IntArray  # (k,)
    day: IntArray  # (k,) day of the review, for intervals: reviews of a day are not independent
    bin: IntArray  # (k,) bin of RMSE(bins), as `data.trials.compute_rmse_bin_ids` numbers them
    reviews_before: IntArray  # (k,) reviews of the card before, of which a day counts one

    def __len__(self) -> int:
        return len(self.review_th)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, TestSet)
            and all(map(np.array_equal, vars(self).values(), vars(other).values()))
        )

    def __hash__(self) -> int:
        return hash(self.review_th.tobytes())


def make_test_set(trials: Trials) -> TestSet:
    """Return the evaluated reviews of all folds, in the order of their predictions."""
    index = trials.test_index
    sizes = [len(fold.test) for fold in trials.folds]
    return TestSet(
        y=trials.y[index],
        review_th=trials.review_th[index],
        fold=np.repeat(np.arange(1, len(sizes) + 1), sizes),
        partition=trials.partition[index],
        day=trials.day[index],
        bin=compute_rmse_bin_ids(
            trials.bin_delta_t[index], trials.bin_i[index], trials.bin_lapses[index]
        ),
        reviews_before=trials.i[index] - 1,
    )


@dataclass(frozen=True, eq=False)
class Result:
    """The result of one configuration on one learner, with k evaluated reviews."""

    configuration: str
    metrics: Metrics
    tests: TestSet
    parameters: Mapping[int, Sequence[float]] | None
    """Fit of the last fold, by partition (0 without partitions); None if it cannot be listed."""
    p: FloatArray  # (k,) predicted probability of recall
    seconds: float = 0.0  # wall time of fits and predictions
    cached: bool = False
    user: int | None = None
    notes: tuple[str, ...] = ()  # e.g. a fold that fell back to the defaults
    in_sample_reviews: int = 0
    """Evaluated reviews that the parameters may have been fitted to: metrics are optimistic."""
    invalid_reason: str = ""  # why its metrics mean nothing, in a word or two
    missing_predictions: int = 0  # held-out reviews without a prediction, which are not evaluated
    unused_predictions: int = 0  # predictions in a file that match no held-out review
    counted_parameters: int | None = None  # set if `Configuration.parameters` is None

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
        """Return one line of srs-benchmark's result files, with numbers to six decimals."""
        line: dict[str, Any] = {
            "metrics": self.metrics.to_upstream(),
            "user": self.user,
            "size": self.size,
        }
        if self.parameters is not None:
            rounded: dict[str, list[float]] = {}
            for partition, values in self.parameters.items():
                rounded[str(partition)] = [round(float(value), 6) for value in values]
            line["parameters"] = rounded
        return line


def review_losses(result: Result) -> FloatArray:
    """Return the log loss of each evaluated review in nats (k,)."""
    return log_losses(result.y, result.p)


def log_loss_interval(result: Result) -> Interval:
    """Return the log loss with its interval.

    The interval says how certain the log loss itself is, not its difference from another one.
    """
    return mean_interval(review_losses(result), result.day, find_persistence(result))


def log_loss_difference(result: Result, other: Result) -> Interval | None:
    """Return the log loss of `result` minus that of `other`; negative if `result` is better.

    Losses are paired by review, so the interval is much narrower than the two separate intervals
    suggest. None if the two were not evaluated on the same reviews.
    """
    if not have_same_reviews(result, other):
        return None
    better = min(result, other, key=lambda one: one.metrics.log_loss)
    difference = review_losses(result) - review_losses(other)
    return mean_interval(difference, result.day, find_persistence(better))


_persistence_cache: WeakKeyDictionary[Result, Persistence] = WeakKeyDictionary()


def find_persistence(result: Result) -> Persistence:
    """Return how long good and bad spells last beside what a result predicts."""
    if result not in _persistence_cache:
        _persistence_cache[result] = estimate_persistence(result.y, result.p, result.day)
    return _persistence_cache[result]


def have_same_reviews(result: Result, other: Result) -> bool:
    """Return whether two results are on the same reviews, whatever their partitions."""
    return result.tests is other.tests or np.array_equal(result.review_th, other.review_th)
