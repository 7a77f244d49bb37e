"""Tell why FSRS's difficulty is near 10 for many cards, and whether that does harm.

In FSRS-6 a card's difficulty follows from its answers alone: the first answer sets it, Again and
Hard raise it, the less the nearer it is to 10, Easy lowers it, and Good only lets it drift towards
the difficulty of a first Easy. Whether a high difficulty does harm is seen in the reviews of these
cards: it does, if fewer are recalled than the current parameters expect, or more. Only reviews
count that the parameters cannot have been fitted to; if these are too few, all do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.advice.over_time import RETENTION_TOLERANCE
from srs_eval.data.reviews import FloatArray, IntArray, mark_run_starts
from srs_eval.data.trials import Trials
from srs_eval.models._fsrs import init_d, next_d
from srs_eval.models.own_parameters import normalize_as_anki
from srs_eval.stats import intervals
from srs_eval.stats.intervals import Interval

QUESTION = "difficulty"
_FEW_SHARE = 0.1  # share of the cards up to which few of them are near 10
_MIN_REVIEWS = 100  # of cards near 10, on at least 20 days, to say anything of their recall
_EDGES = (1.0, 3.0, 6.0, f.NEAR_TEN, 10.0)
_MAX_ANSWERS = 200  # with more answers than this, a card's difficulty does not come down in time
_AGAIN = 1
_HARD = 2
_GOOD = 3
_MIDDLE = 5.0  # the difficulty at which the effects of the buttons are shown


def assess_difficulty(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding for each preset that runs FSRS-6."""
    groups = [group for group in groups if not learner.runs_fsrs7(group)]
    if not groups:
        yield f.make_fsrs7_finding(QUESTION)
    for group in groups:
        yield _assess_preset(learner, group)


def _assess_preset(learner: Learner, group: int) -> f.Finding:
    name = learner.group_name(group)
    trials = learner.trials
    w = np.array(normalize_as_anki(learner.active_parameters(group)))
    after = compute_difficulties(trials, w)
    positions = learner.positions(group)
    in_preset = np.isin(trials.history_card_id, np.unique(trials.card_id[positions]))
    is_last = np.append(mark_run_starts(trials.history_card_id)[1:], True)
    last = after[is_last & in_preset]
    near_ten = last > f.NEAR_TEN
    hard_cards = trials.history_card_id[is_last & in_preset][near_ten]
    is_of_hard = np.isin(trials.history_card_id, hard_cards)
    typical = float(np.median(last[near_ten])) if near_ten.any() else 10.0
    index = _select_reviews(learner, group, after)
    is_unseen = index is not None or not learner.stored(group)  # the defaults were fitted to none
    if index is None:
        index = positions
    before = after[trials.history_end[index] - 1]
    p = learner.predict_with_parameters(learner.active_parameters(group), index)
    bias: FloatArray = trials.y[index] - p
    is_hard = before > f.NEAR_TEN
    difference = None
    conclusion: Literal["few", "as expected", "below", "above", "can't tell"] = "few"
    missing = None
    if is_hard.any():
        difference = learner.interval(bias[is_hard], index[is_hard])
    if near_ten.mean() > _FEW_SHARE and difference is not None:
        conclusion, missing = _judge(difference)
        missing = _count_reviews_of_all(missing, float(is_hard.mean()))
    evidence = f.Difficulty(
        conclusion=conclusion,
        cards=len(last),
        cards_near_ten=int(near_ten.sum()),
        answers=_share_answers(trials.history_rating[in_preset & is_of_hard]),
        other_answers=_share_answers(trials.history_rating[in_preset & ~is_of_hard]),
        after_first=tuple(_first_difficulties(w).tolist()),
        after_answer=tuple(
            float(next_d(np.array(_MIDDLE), np.array(float(rating)), w)) for rating in range(1, 5)
        ),
        good_to_nine=_count_good_to_nine(typical, w),
        difference=difference,
        groups=_group_reviews(learner, index, before, p),
        is_unseen=is_unseen,
        fsrs_is_off=learner.is_fsrs_off,
    )
    return f.Finding(QUESTION, name, reviews=len(index), missing=missing, evidence=evidence)


def compute_difficulties(trials: Trials, w: FloatArray) -> FloatArray:
    """Compute FSRS-6's difficulty after each history row (m,) by the parameters w (21,)."""
    rating = trials.history_rating
    is_first = mark_run_starts(trials.history_card_id)
    start = np.flatnonzero(is_first)
    length = np.diff(np.append(start, len(rating)))
    difficulty = np.empty(len(rating))
    difficulty[start] = _first_difficulties(w)[rating[start] - 1]
    order = np.argsort(-length, kind="stable")  # so that each round's cards come first
    start = start[order]
    longest_first = length[order]
    for number in range(1, int(longest_first[0]) if len(start) else 0):
        row = start[: int((longest_first > number).sum())] + number
        difficulty[row] = next_d(difficulty[row - 1], rating[row].astype(np.float64), w)
    return difficulty


def _first_difficulties(w: FloatArray) -> FloatArray:
    """Return the difficulty after a first Again, Hard, Good and Easy (4,)."""
    first: FloatArray = np.clip(init_d(np.arange(1.0, 5.0), w), 1.0, 10.0)
    return first


def _select_reviews(learner: Learner, group: int, after: FloatArray) -> IntArray | None:
    """Return the reviews unseen by the parameters; None if too few are of cards near 10."""
    index = learner.since_optimized(group)
    if index is None:
        return None
    before = after[learner.trials.history_end[index] - 1]
    is_hard = before > f.NEAR_TEN
    has_enough = is_hard.sum() >= _MIN_REVIEWS
    has_enough &= learner.count_days(index[is_hard]) >= intervals.MIN_DAYS
    return index if has_enough else None


def _share_answers(rating: IntArray) -> f.AnswerShares | None:
    """Return the shares of Again and Hard; None without answers."""
    if not len(rating):
        return None
    return f.AnswerShares(float((rating == _AGAIN).mean()), float((rating == _HARD).mean()))


def _count_good_to_nine(difficulty: float, w: FloatArray) -> int | None:
    """Count the answers Good that bring a difficulty down to 9; None if more than 200."""
    current = np.array(difficulty)
    good = np.array(float(_GOOD))
    for count in range(1, _MAX_ANSWERS + 1):
        current = next_d(current, good, w)
        if current <= f.NEAR_TEN:
            return count
    return None


def _judge(
    difference: Interval,
) -> tuple[Literal["as expected", "below", "above", "can't tell"], f.MissingData | None]:
    """Compare what is recalled of the cards near 10 with what is expected."""
    missing = f.count_missing_data(difference.reviews, difference.days, fewest=_MIN_REVIEWS)
    if missing != f.MissingData():
        # Only a large difference would show from then on, so the number that is told is the one
        # from which a small one would.
        missing = f.count_missing_data(difference.reviews, difference.days)
    else:
        side = intervals.classify_side(difference, RETENTION_TOLERANCE)
        if side == "no matter":
            return "as expected", None
        if side == "below" and difference.estimate < -RETENTION_TOLERANCE:
            return "below", None
        if side == "above" and difference.estimate > RETENTION_TOLERANCE:
            return "above", None
        missing = f.estimate_missing_data(difference, RETENTION_TOLERANCE)
    return f.CANT_TELL, missing


def _count_reviews_of_all(missing: f.MissingData | None, share: float) -> f.MissingData | None:
    """Return the data missing in reviews of all cards; `share` of them are of cards near 10."""
    if missing is None or missing.reviews is None:
        return missing
    return replace(missing, reviews=math.ceil(missing.reviews / share))


def _group_reviews(
    learner: Learner, index: IntArray, before: FloatArray, p: FloatArray
) -> tuple[f.DifficultyGroup, ...]:
    """Group reviews at the positions (k,) by the difficulty before them (k,)."""
    groups = []
    for low, high in pairwise(_EDGES):
        in_group = (before > low) & (before <= high)
        if low == _EDGES[0]:
            in_group |= before == low
        if in_group.any():
            selected = index[in_group]
            recalled = learner.interval(learner.trials.y[selected], selected, f.MIN_DAYS_SHOWN)
            groups.append(f.DifficultyGroup(low, high, recalled, float(p[in_group].mean())))
    return tuple(groups)
