"""Check what deserves attention besides parameters: overdue cards, buttons, leeches, gaps.

Leeches are cards that are forgotten more often than the learner's other cards after similar
intervals. The expected recall of a review is the mean of FSRS-6's held-out probabilities over all
reviews after about the same interval: the review's own probability would not do, because FSRS
learns from each lapse to expect the next one. All expected recalls are scaled to be right on
average, because a bad month is not the fault of a card. The number of a card's lapses then has a
Poisson binomial distribution, which is computed exactly, review by review. The cards with the
smallest probabilities of so many lapses are reported, as many as keep the share of false leeches
within 5 % (Benjamini & Hochberg, 1995, Journal of the Royal Statistical Society B 57).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.buttons import measure_recall_after_buttons, select_review_ratings
from srs_eval.advice.candidates import Learner
from srs_eval.advice.over_time import RETENTION_TOLERANCE
from srs_eval.advice.workload.today import count_overdue
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.stats.intervals import MIN_DAYS, Interval

_CHECK_ORDER = (
    "gap",
    "overdue",
    "old cards",
    "leeches",
    "again",
    "easy",
    "hard",
    "steps",
    "suspended",
)
"""Checks, the most serious of a level first. The gap is first: after a long one, the other checks
describe the time before it."""
_LEVEL_ORDER = ("look", "fine", "not yet")
_BUTTONS: Mapping[str, int] = {"again": 1, "hard": 2, "easy": 4}
_OVERDUE_MINUTES = 60.0  # minutes of overdue cards that deserve attention
_MANY_OVERDUE_SHARE = 0.1  # of all cards; from this share on, fewer minutes deserve attention:
_FEWER_OVERDUE_MINUTES = 15.0
_LONG_GAP_DAYS = 30  # days without reviews
_DAYS_PER_YEAR = 365
_DAY_MS = 86_400_000
_MIN_REVIEWS = 100  # reviews after a button, or of old cards
_TOO_MANY_AGAIN_SHARE = 0.3
"""Share of Again among the answers above which recall is below any retention that Anki offers."""
_SELDOM_SHARE = 0.01  # of the answers; below it a button can do no harm
_FALSE_DISCOVERY_RATE = 0.025
"""Half of the accepted rate of false leeches, because lapses of normal cards come in groups, too.
Of simulated learners without leeches, 5 % get a false one under SM-2, and 2.5 % under FSRS."""
_MAX_LEECHES_SHOWN = 10  # the worst leeches


def run_checks(log: ReviewLog, learner: Learner | None) -> f.Finding:
    """Return one finding over all reviews; without a learner, there are too few to predict."""
    gaps = list(_check_gaps(log))
    since = next((check.last_review_date for check in gaps), None)
    checks = [*gaps, *_check_cards(log, since), *_check_answers(learner)]
    levels = {check.level for check in checks}
    conclusion: Literal["look", "fine", "can't tell"] = f.CANT_TELL
    if "look" in levels:
        conclusion = "look"
    elif "fine" in levels:
        conclusion = "fine"
    evidence = f.Checks(conclusion, tuple(_sort_worst_first(checks)))
    reviews = log.entries if log.entries is not None else log.rows
    return f.Finding("wrong", f.ALL_REVIEWS, reviews=len(reviews or ()), evidence=evidence)


def merge_checks(findings: Sequence[f.Finding]) -> tuple[f.Check, ...]:
    """Return all checks, worst first, including checks from findings on other questions."""
    checks: dict[str, f.Check] = {}
    is_hard_misused = False
    for finding in findings:
        if isinstance(finding.evidence, f.Checks):
            checks |= {check.name: check for check in finding.evidence.checks}
        elif isinstance(finding.evidence, f.HardButton) and finding.conclusion == "yes":
            is_hard_misused = True
    if is_hard_misused:
        checks["hard"] = f.Check("hard", "look", problem="like Again")
    for check in _sort_worst_first(_checks_from_findings(findings)):
        checks.setdefault(check.name, check)  # only that of the worst preset
    return tuple(_sort_worst_first(checks.values()))


def _sort_worst_first(checks: Iterable[f.Check]) -> list[f.Check]:
    def rank(check: f.Check) -> tuple[int, int]:
        return _LEVEL_ORDER.index(check.level), _CHECK_ORDER.index(check.name)

    return sorted(checks, key=rank)


# Cards and days


def _check_cards(log: ReviewLog, since: str | None) -> Iterator[f.Check]:
    """Check overdue and suspended cards.

    `since` is the last review's day if that is long ago: cards not overdue then may be now.
    """
    overdue = count_overdue(log)
    if overdue is not None and overdue.learned:
        many_minutes = _OVERDUE_MINUTES
        if overdue.cards >= _MANY_OVERDUE_SHARE * overdue.learned:
            many_minutes = _FEWER_OVERDUE_MINUTES
        is_much = overdue.minutes >= many_minutes
        if since is None or is_much:
            yield f.Check(
                name="overdue",
                level="look" if is_much else "fine",
                count=overdue.cards,
                total=overdue.learned,
                minutes=overdue.minutes,
                last_review_date=since,
            )
    cards = len(log.cards.card_id)
    if cards:
        suspended = int(log.cards.suspended.sum())
        level: f.CheckLevel = "look" if 2 * suspended > cards else "fine"
        yield f.Check("suspended", level, count=suspended, total=cards)


def _check_gaps(log: ReviewLog) -> Iterator[f.Check]:
    """Check the longest time without reviews: until now, or within the last year with reviews."""
    if log.entries is not None:
        time_ms = log.entries.time_ms[log.entries.rating > 0]
        days = time_ms // _DAY_MS
    else:
        assert log.rows is not None
        days = log.rows.day_offset
    if not len(days):
        return
    if log.entries is not None:
        days_since_last = int(time.time() * 1000 / _DAY_MS - days[-1])
        if days_since_last > _LONG_GAP_DAYS:
            last_date = str(time_ms[-1].astype("datetime64[ms]").astype("datetime64[D]"))
            yield f.Check("gap", "look", count=days_since_last, last_review_date=last_date)
            return
    recent_days = np.unique(days[days >= days[-1] - _DAYS_PER_YEAR])
    gaps = np.diff(recent_days)
    longest = int(gaps.max(initial=1)) - 1  # days between two days with reviews
    end_date = None
    if log.entries is not None and len(gaps):
        end_date = str(recent_days[int(gaps.argmax()) + 1].astype("datetime64[D]"))
    level: f.CheckLevel = "look" if longest >= _LONG_GAP_DAYS else "fine"
    yield f.Check("gap", level, count=longest, gap_end_date=end_date)


# Answers


def _check_answers(learner: Learner | None) -> Iterator[f.Check]:
    recall_after = {}
    ratings = np.empty(0, np.int64)
    if learner is not None:
        for recall in measure_recall_after_buttons(learner):
            recall_after[recall.button.lower()] = recall
        ratings = select_review_ratings(learner)
    answers = len(ratings)
    for name, button in _BUTTONS.items():
        count = int((ratings == button).sum())
        check = f.Check(name, "not yet", count=count, total=answers, problem="few")
        if name in recall_after:
            bias = recall_after[name].bias
            recalled = replace(bias, estimate=recall_after[name].recalled)  # as uncertain as it
            expected = recalled.estimate + bias.estimate
            check = _classify_recall(check, recalled, expected, one_sided=True)
        if answers >= f.MIN_REVIEWS_SHOWN:
            if name == "again" and count > _TOO_MANY_AGAIN_SHARE * answers:
                check = replace(check, level="look", problem="too many")
            elif count < _SELDOM_SHARE * answers:
                check = replace(check, level="fine", problem="seldom")
        yield check
    if learner is None:
        yield f.Check("leeches", "not yet")
    else:
        yield _check_leeches(learner)


def _classify_recall(
    check: f.Check, recalled: Interval, expected: float, one_sided: bool = False
) -> f.Check:
    """Set the level by comparing the gap between recall and expectation with the tolerance.

    A check needs a look if its whole interval lies beyond the tolerance, and is fine if the
    interval lies within twice the tolerance. With `one_sided`, more recall than expected is fine.
    """
    gap = recalled.estimate - expected
    deviation = -gap if one_sided else abs(gap)
    level: f.CheckLevel = "not yet"
    problem: f.CheckProblem = ""
    if recalled.reviews < _MIN_REVIEWS or recalled.days < MIN_DAYS:
        problem = "few"
    elif deviation - recalled.half_width > RETENTION_TOLERANCE:
        level = "look"
    elif deviation + recalled.half_width < 2 * RETENTION_TOLERANCE:
        level = "fine"
    return replace(check, level=level, problem=problem, recalled=recalled, expected=expected)


def _checks_from_findings(findings: Sequence[f.Finding]) -> Iterator[f.Check]:
    """Yield checks on old cards and learning steps for each preset, from its findings."""
    for finding in findings:
        if isinstance(finding.evidence, f.Retention):
            for group in finding.evidence.groups:
                if group.name == "mature cards":
                    check = f.Check("old cards", "not yet", subject=finding.subject)
                    yield _classify_recall(check, group.recalled, group.expected, one_sided=True)
        elif isinstance(finding.evidence, f.StepTimings):
            yield _check_steps(finding.subject, finding.evidence.steps)


def _check_steps(subject: str, steps: Sequence[f.StepTiming]) -> f.Check:
    """Check a preset's learning steps; the first wrong one is the problem."""
    conclusive = [step for step in steps if step.conclusion != f.CANT_TELL]
    wrong = next((step for step in conclusive if step.conclusion != "as it is"), None)
    if wrong is None:
        return f.Check("steps", "fine" if conclusive else "not yet", subject=subject)
    minutes = None
    if wrong.delay and wrong.observed_delays:  # shown only if within the observed delays
        estimate, low, high = wrong.delay
        shortest, longest = wrong.observed_delays
        if high >= shortest and low <= longest:
            minutes = estimate
    return f.Check(
        name="steps",
        level="look",
        minutes=minutes,
        subject=subject,
        problem="longer" if wrong.conclusion == "longer" else "shorter",
        situation=wrong.situation,
    )


# Leeches


def _check_leeches(learner: Learner) -> f.Check:
    index = learner.trials.test_index
    if len(index) < f.MIN_REVIEWS_SHOWN:
        return f.Check("leeches", "not yet")
    card = learner.trials.card_id[index]
    p = learner.held_out_predictions(f.OPTIMIZED)
    leeches = _find_leeches(card, p, learner.trials.y[index], learner.trials.elapsed_days[index])
    return f.Check(
        name="leeches",
        level="look" if leeches else "fine",
        count=len(leeches),
        total=len(np.unique(card)),
        leeches=leeches[:_MAX_LEECHES_SHOWN],
    )


def _find_leeches(
    card: IntArray, p: FloatArray, y: FloatArray, days: IntArray
) -> tuple[f.Leech, ...]:
    """Find leeches in reviews (n,), the least likely first.

    `p` are the probabilities of recall, `y` the outcomes, `days` the days since the review before.
    """
    rounded = np.round(2 * np.log2(np.maximum(days, 1)))  # 1, 2, 3, 4, 5-6, 7-9 ... days
    _, bin_index = np.unique(rounded, return_inverse=True)
    q = (np.bincount(bin_index, 1.0 - p) / np.bincount(bin_index))[bin_index]  # of a lapse
    ratio = (1.0 - y).sum() / max(q.sum(), 1e-9)  # observed over expected lapses
    q = np.minimum(ratio * q, 1.0)
    card_ids, card_index, reviews = np.unique(card, return_inverse=True, return_counts=True)
    lapses = np.bincount(card_index, 1.0 - y).astype(np.int64)
    expected = np.bincount(card_index, q)
    chance = _lapse_tail_probabilities(q, card_index, reviews, lapses)
    order = np.argsort(chance, kind="stable")
    # Benjamini and Hochberg: up to the last card in this order whose chance is within its limit.
    limits = _FALSE_DISCOVERY_RATE * np.arange(1, len(order) + 1) / len(order)
    is_below = chance[order] <= limits
    count = int(np.flatnonzero(is_below)[-1]) + 1 if is_below.any() else 0
    leeches = []
    for k in order[:count].tolist():
        leech = f.Leech(
            card_id=card_ids[k].item(),
            reviews=reviews[k].item(),
            lapses=lapses[k].item(),
            usual=expected[k].item(),
            chance=chance[k].item(),
        )
        leeches.append(leech)
    return tuple(leeches)


def _lapse_tail_probabilities(
    q: FloatArray, card_index: IntArray, count: IntArray, lapses: IntArray
) -> FloatArray:
    """Return the chance (k,) that a card has at least its number of `lapses` (k,).

    `q` (n,) are the reviews' probabilities of a lapse, `count` (k,) the cards' numbers of reviews.
    """
    tails = np.ones(len(count))
    cards = np.flatnonzero(lapses > 0)
    cards = cards[np.argsort(-count[cards], kind="stable")]  # most reviews first
    if not len(cards):
        return tails
    by_card = q[np.argsort(card_index, kind="stable")]
    begin = (np.cumsum(count) - count)[cards]
    # Of 0, 1 ... lapses so far; larger numbers than the largest one's are not needed.
    chances = np.zeros((len(cards), int(lapses.max())))
    chances[:, 0] = 1.0
    for number in range(int(count[cards[0]])):  # add one review of each card that has so many
        reviewed = int((count[cards] > number).sum())
        chances_so_far = chances[:reviewed]
        q_of_review = by_card[begin[:reviewed] + number, None]
        with_lapse = chances_so_far[:, :-1] * q_of_review
        chances_so_far *= 1 - q_of_review
        chances_so_far[:, 1:] += with_lapse
    fewer = np.cumsum(chances, axis=1)[np.arange(len(cards)), lapses[cards] - 1]
    tails[cards] = np.clip(1 - fewer, 0.0, 1.0)
    return tails
