"""Choose the reviews that the advice on a preset's stored parameters rests on.

Each fit differs a little from the last one, so advice that took in every new review would come and
go from week to week where a change is hardly likely enough to help. So evidence is weighed at
milestones only, each time the unseen reviews have grown by a quarter. Later reviews count from the
next milestone on. All of this follows from the reviews: nothing is remembered between runs.

Presets whose defaults are active have no milestones: their evidence is all held-out reviews, on
which other answers evaluate the defaults, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from srs_eval.advice.candidates import Learner
from srs_eval.data.reviews import IntArray

FIRST_MILESTONE = 100  # unseen reviews; with fewer, candidates are not compared
_EARLIER = 3  # milestones before the last; at the first of them, unseen reviews were half as many


@dataclass(frozen=True, eq=False)
class ReviewsForAdvice:
    """The first reviews of a preset, up to a milestone."""

    index: IntArray  # (n,) positions
    unseen: IntArray | None
    """Reviews (u,) that the active parameters cannot have been fitted to; None if unknown."""


def select_reviews(learner: Learner, group: int) -> ReviewsForAdvice:
    """Return a preset's reviews up to the last milestone; before the first one, all of them."""
    index = learner.positions(group)
    unseen = learner.since_optimized(group)
    milestones = _find_milestones(learner, group)
    if not milestones:
        return ReviewsForAdvice(index, unseen)
    return _cut(index, unseen, milestones[-1])


def select_earlier_reviews(learner: Learner, group: int) -> list[ReviewsForAdvice]:
    """Return a preset's reviews up to each of three milestones before the last, latest first."""
    index = learner.positions(group)
    unseen = learner.since_optimized(group)
    milestones = _find_milestones(learner, group)[:-1]
    return [_cut(index, unseen, count) for count in reversed(milestones[-_EARLIER:])]


def _find_milestones(learner: Learner, group: int) -> list[int]:
    """Return a preset's milestones so far, as numbers of unseen reviews.

    They count all reviews if it is unknown which of them are unseen.
    """
    if not learner.stored(group):
        return []
    unseen = learner.since_optimized(group)
    count = len(learner.positions(group) if unseen is None else unseen)
    milestones = []
    milestone = FIRST_MILESTONE
    while milestone <= count:
        milestones.append(milestone)
        milestone = milestone * 5 // 4
    return milestones


def _cut(index: IntArray, unseen: IntArray | None, count: int) -> ReviewsForAdvice:
    """Return the reviews up to the unseen one of this number, or of all if `unseen` is None."""
    if unseen is None:
        return ReviewsForAdvice(index[:count], None)
    unseen = unseen[:count]
    return ReviewsForAdvice(index[index <= unseen[-1]], unseen)
