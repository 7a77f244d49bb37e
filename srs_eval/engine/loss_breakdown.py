"""Break down a result's loss: into parts, by the card's reviews before, and as the history grew.

Every loss stands beside that of AVG, the average, on the same reviews. docs/metrics.md has the
definitions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.engine.result import Result, have_same_reviews, review_losses
from srs_eval.metrics import BrierParts, murphy, skill
from srs_eval.stats.intervals import Interval, mean_interval
from srs_eval.stats.ranges import REVIEW_STEPS, split_by_range

MIN_GROUP_REVIEWS = 30
"""With fewer reviews, a group has no interval: there may be too little variation, such as six
passes of six."""


@dataclass(frozen=True)
class LossGroup:
    """Mean log loss of a group of reviews."""

    first: int  # start of the range
    last: int | None  # end of the range; None if open
    reviews: int
    log_loss: float
    average_log_loss: float | None  # of AVG on the same reviews; None without AVG
    difference: Interval | None
    """Log loss minus AVG's, negative if better; None without AVG. The half-width is nan with fewer
    than 30 reviews."""


@dataclass(frozen=True)
class LossBreakdown:
    """A result's loss in parts and by groups that hold each review once."""

    brier_parts: BrierParts
    log_loss_skill: float | None  # against AVG; None without AVG, nan if AVG's loss is 0
    brier_skill: float | None
    by_reviews_before: tuple[LossGroup, ...]
    """By earlier reviews of the card, of which a day counts one."""
    by_fold: tuple[LossGroup, ...]
    """Fold by fold, with the numbers of the rows before its first and before its last review; empty
    if the folds do not follow one another."""
    in_sample_reviews: int  # as in `Result`: figures may be optimistic


def break_down_loss(result: Result, average: Result | None) -> LossBreakdown:
    """Break down the loss of a result, with that of AVG beside it.

    Without `average`, or if it has other reviews or is the result itself, there is none beside it.
    """
    if average is not None and (average is result or not have_same_reviews(result, average)):
        average = None
    parts = murphy(result.y, result.p)
    log_loss_skill = None
    brier_skill = None
    average_losses = None
    if average is not None:
        log_loss_skill = skill(result.metrics.log_loss, average.metrics.log_loss)
        brier_skill = skill(parts.brier, average.metrics.rmse**2)
        average_losses = review_losses(average)
    losses = _ReviewLosses(review_losses(result), average_losses, result.day)
    by_reviews = []
    for first, last, positions in split_by_range(result.tests.reviews_before, REVIEW_STEPS):
        by_reviews.append(losses.summarize(positions, first, last))
    return LossBreakdown(
        brier_parts=parts,
        log_loss_skill=log_loss_skill,
        brier_skill=brier_skill,
        by_reviews_before=tuple(by_reviews),
        by_fold=tuple(_summarize_folds(result, losses)),
        in_sample_reviews=result.in_sample_reviews,
    )


@dataclass(frozen=True, eq=False)
class _ReviewLosses:
    """Log losses of all evaluated reviews (k,)."""

    losses: FloatArray
    average_losses: FloatArray | None  # AVG's; None without AVG
    day: IntArray

    def summarize(self, positions: IntArray, first: int, last: int | None) -> LossGroup:
        losses = self.losses[positions]
        average_log_loss = None
        difference = None
        if self.average_losses is not None:
            average_losses = self.average_losses[positions]
            average_log_loss = float(average_losses.mean())
            difference = mean_interval(losses - average_losses, self.day[positions])
            if len(positions) < MIN_GROUP_REVIEWS:
                difference = replace(difference, half_width=math.nan)
        return LossGroup(
            first=first,
            last=last,
            reviews=len(positions),
            log_loss=float(losses.mean()),
            average_log_loss=average_log_loss,
            difference=difference,
        )


def _summarize_folds(result: Result, losses: _ReviewLosses) -> list[LossGroup]:
    """Return the log loss of each fold; [] if folds overlap or if there is only one."""
    groups = []
    previous_last = 0
    for fold in np.unique(result.fold).tolist():
        positions = np.flatnonzero(result.fold == fold)
        rows = result.review_th[positions]
        first = int(rows.min())
        if first <= previous_last:
            return []
        previous_last = int(rows.max())
        groups.append(losses.summarize(positions, first - 1, previous_last - 1))
    return groups if len(groups) > 1 else []
