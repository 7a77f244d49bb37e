"""What one evaluation yields, and its form in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from srs_eval.metrics import Metrics
from srs_eval.reviews import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Result:
    """One configuration on one learner; k judged reviews, fold after fold."""

    configuration: str
    metrics: Metrics
    size: int  # k
    parameters: Mapping[int, Sequence[float]] | None
    """By partition (0 without partitions), fitted for the last fold; None where not listable."""
    p: FloatArray  # (k,) predicted probability of recall
    y: FloatArray  # (k,) 1.0 recalled
    review_th: IntArray  # (k,) which rows; equal for configurations that are ranked together
    fold: IntArray  # (k,) 1 ... n_splits
    partition: IntArray  # (k,)
    day: IntArray  # (k,) day number of the review; figures of one day are not independent
    bin: IntArray  # (k,) bin of RMSE(bins), as `metrics.rmse_bin_ids` numbers them
    seconds: float = 0.0  # wall time of fits and predictions
    cached: bool = False
    user: int | None = None
    notes: tuple[str, ...] = field(default=())  # e.g. a fold that fell back to the defaults
    flattered: int = 0
    """Judged reviews that the parameters may have been fitted to: figures look better by that."""

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
