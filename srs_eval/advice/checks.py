"""Check what deserves attention besides parameters: overdue cards, buttons, leeches, gaps."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from statistics import NormalDist
from typing import Literal

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.buttons import measure_recall_after_buttons, select_review_ratings
from srs_eval.advice.candidates import Learner, find_future_dates
from srs_eval.advice.learning_from_hard import measure_learning_from_hard
from srs_eval.advice.leeches import find_leeches
from srs_eval.advice.over_time import RETENTION_TOLERANCE
from srs_eval.advice.workload.today import count_overdue
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import find_first_date
from srs_eval.stats.intervals import MIN_DAYS, Interval

_CHECK_ORDER = (
    "ignored cards",
    "overdue",
    "mature cards",
    "leeches",
    "again",
    "easy",
    "hard",
    "steps",
    "suspended",
    "gap",
)
"""Checks, the most serious of a level first. The gap is last: a learner who has paused knows it."""
_LEVEL_ORDER = ("look", "fine", "not yet")
_BUTTONS: Mapping[str, int] = {"again": 1, "hard": 2, "easy": 4}
_OVERDUE_MINUTES = 60.0  # minutes of overdue cards that deserve attention
_MANY_OVERDUE_SHARE = 0.1  # of all cards; from this share on, fewer minutes deserve attention:
_FEWER_OVERDUE_MINUTES = 15.0
_LONG_GAP_DAYS = 30  # days without reviews
_DAYS_PER_YEAR = 365
_DAY_MS = 86_400_000
_TOO_MANY_AGAIN_SHARE = 0.3
"""Share of Again above which recall is below any retention that Anki offers."""
_NORMAL_95 = 1.959964
_MIN_STANDARD_ERROR = 1e-6  # where all reviews are recalled
_SELDOM_SHARE = 0.01  # of the answers; below it a button can do no harm
_MAX_LEECHES_SHOWN = 10  # the worst leeches
_DAY_MINUTES = 1440.0  # steps of a day or more are not proposed


def run_checks(log: ReviewLog, learner: Learner | None) -> f.Finding:
    """Return one finding over all reviews; without a learner, there are too few to predict."""
    gaps = list(_check_gaps(log))
    since = next((check.last_review_date for check in gaps), None)
    checks = [
        *gaps,
        *_check_cards(log, since),
        *_check_ignored_cards(log),
        *_check_answers(learner),
    ]
    levels = {check.level for check in checks}
    are_from_grades = log.import_summary.app_name == "SuperMemo"
    evidence = f.Checks(_conclude(levels), tuple(_sort_worst_first(checks)), are_from_grades)
    reviews = log.entries if log.entries is not None else log.rows
    return f.Finding("wrong", f.ALL_REVIEWS, reviews=len(reviews or ()), evidence=evidence)


def _conclude(levels: Collection[f.CheckLevel]) -> Literal["look", "fine", "can't tell"]:
    if "look" in levels:
        return "look"
    return "fine" if "fine" in levels else f.CANT_TELL


def merge_checks(findings: Sequence[f.Finding]) -> tuple[f.Check, ...]:
    """Return all checks, worst first, including checks from findings on other questions."""
    checks: dict[str, f.Check] = {}
    misused_hard: f.HardButton | None = None
    for finding in findings:
        if isinstance(finding.evidence, f.Checks):
            checks |= {check.name: check for check in finding.evidence.checks}
        elif isinstance(finding.evidence, f.HardButton) and finding.conclusion == "yes":
            misused_hard = finding.evidence
    if misused_hard is not None:
        hard = checks.get("hard", f.Check("hard", "look"))
        checks["hard"] = replace(
            hard, level="look", problem="like Again", learning=misused_hard.learning
        )
    for check in _sort_worst_first(_checks_from_findings(findings)):
        checks.setdefault(check.name, check)  # only that of the worst preset
    if _is_hard_like_again(checks) and checks["again"].problem == "seldom":
        del checks["again"]  # lapses are answered with Hard: there are not few
    return tuple(_sort_worst_first(checks.values()))


def _is_hard_like_again(checks: Mapping[str, f.Check]) -> bool:
    return "again" in checks and "hard" in checks and checks["hard"].problem == "like Again"


def complete_checks(finding: f.Finding, findings: Sequence[f.Finding]) -> f.Finding:
    """Return the finding on checks with those that findings on other questions add."""
    if not isinstance(finding.evidence, f.Checks):
        return finding
    others = [other for other in findings if not isinstance(other.evidence, f.Checks)]
    checks = merge_checks([finding, *others])
    levels = {check.level for check in checks}
    evidence = replace(finding.evidence, conclusion=_conclude(levels), checks=checks)
    return replace(finding, evidence=evidence)


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
    suspended = int(log.cards.suspended.sum())
    if 2 * suspended > cards:
        yield f.Check("suspended", "look", count=suspended, total=cards)


def _check_ignored_cards(log: ReviewLog) -> Iterator[f.Check]:
    """Name a date that leaves out all cards of its preset, so that there is nothing to optimize."""
    dates = find_future_dates(log)
    if dates:
        name, day = next(iter(dates.items()))
        groups = [group for group, preset in log.presets.items() if preset.name == name]
        is_ignored = np.isin(log.preset_of(log.cards.deck_id), groups)
        yield f.Check(
            "ignored cards",
            "look",
            count=int(is_ignored.sum()),
            total=len(is_ignored),
            subject=name,
            ignore_date=day,
        )


def _check_gaps(log: ReviewLog) -> Iterator[f.Check]:
    """Check the longest time without reviews: until now, or within the last year with reviews."""
    if log.entries is not None:
        time_ms = log.entries.time_ms[log.entries.rating > 0]
        days = time_ms // _DAY_MS
        first_date: date | None = date(1970, 1, 1)
    else:
        assert log.rows is not None
        days = log.rows.day_offset
        first_date = find_first_date(log)
    if not len(days):
        return
    if first_date is not None:
        last_date = first_date + timedelta(int(days[-1]))
        days_since_last = (datetime.fromtimestamp(time.time(), UTC).date() - last_date).days
        if days_since_last > _LONG_GAP_DAYS:
            yield f.Check(
                "gap", "look", count=days_since_last, last_review_date=last_date.isoformat()
            )
            return
    recent_days = np.unique(days[days >= days[-1] - _DAYS_PER_YEAR])
    gaps = np.diff(recent_days)
    longest = int(gaps.max(initial=1)) - 1  # days between two days with reviews
    end_date = None
    if first_date is not None and len(gaps):
        end_day = int(recent_days[int(gaps.argmax()) + 1])
        end_date = (first_date + timedelta(end_day)).isoformat()
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
        if name == "hard" and learner is not None and count >= f.MIN_HARD_SHARE * answers:
            check = _check_learning_from_hard(check, measure_learning_from_hard(learner))
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
    if recalled.reviews < f.MIN_REVIEWS_CHECKED or recalled.days < MIN_DAYS:
        problem = "few"
    elif deviation - recalled.half_width > RETENTION_TOLERANCE:
        level = "look"
    elif deviation + recalled.half_width < 2 * RETENTION_TOLERANCE:
        level = "fine"
    return replace(check, level=level, problem=problem, recalled=recalled, expected=expected)


def _check_learning_from_hard(check: f.Check, learning: f.LearningFromHard | None) -> f.Check:
    """Say "fine" only if cards are surely stronger after Hard; as FSRS expects is not enough.

    FSRS adapts to lapses that are answered with Hard.
    """
    check = replace(check, learning=learning)
    if learning is not None and learning.is_misused:
        return replace(check, level="look", problem="like Again")
    is_shown = learning is not None and learning.is_honest
    if check.level == "fine" and not is_shown:
        return replace(check, level="not yet")
    return check


def _check_mature_cards(subject: str, group: f.RecallGroup) -> f.Check:
    """Check a preset's mature cards by the probability that too few of them are recalled."""
    recalled = group.recalled
    check = f.Check("mature cards", "not yet", count=recalled.reviews, subject=subject)
    check = replace(check, recalled=recalled, expected=group.expected)
    if recalled.reviews < f.MIN_REVIEWS_CHECKED or recalled.days < MIN_DAYS:
        return replace(check, problem="few")
    standard_error = max(recalled.half_width / _NORMAL_95, _MIN_STANDARD_ERROR)
    shortfall = group.expected - recalled.estimate
    belief = NormalDist(shortfall, standard_error)
    probability = 1 - belief.cdf(RETENTION_TOLERANCE)
    level: f.CheckLevel = "not yet"
    if probability >= f.LIKELY:
        level = "look"
    elif probability <= 1 - f.SURE:
        level = "fine"
    return replace(check, level=level, probability=probability)


def _checks_from_findings(findings: Sequence[f.Finding]) -> Iterator[f.Check]:
    """Yield checks on mature cards and learning steps for each preset, from its findings."""
    for finding in findings:
        if isinstance(finding.evidence, f.Retention):
            for group in finding.evidence.groups:
                if group.name == "mature cards":
                    yield _check_mature_cards(finding.subject, group)
        elif isinstance(finding.evidence, f.StepTimings):
            yield _check_steps(finding.subject, finding.evidence)


_WITHOUT_A_STEP = ("first Hard",)  # Anki repeats after the mean of the first two steps


def _check_steps(subject: str, timings: f.StepTimings) -> f.Check:
    """Check a preset's learning steps; the first that could be better within a day is wrong."""
    conclusive = [step for step in timings.steps if step.conclusion != f.CANT_TELL]
    for step in conclusive:
        if step.conclusion == "as it is" or step.situation in _WITHOUT_A_STEP:
            continue
        minutes, is_bound = _find_best_step(step)
        if minutes >= _DAY_MINUTES:
            continue
        return f.Check(
            name="steps",
            level="look",
            count=step.answers,
            minutes=minutes,
            is_bound=is_bound,
            recalled=step.recalled,
            subject=subject,
            problem="longer" if step.conclusion == "longer" else "shorter",
            timing=step,
            desired=timings.desired,
        )
    settable = [step for step in conclusive if step.situation not in _WITHOUT_A_STEP]
    return f.Check("steps", "fine" if settable else "not yet", subject=subject)


def _find_best_step(step: f.StepTiming) -> tuple[float, bool]:
    """Return the best step in minutes, and whether it is only known to lie beyond that.

    It is known only within the delays that were observed.
    """
    assert step.delay is not None
    assert step.observed_delays is not None
    estimate, low, high = step.delay
    shortest, longest = step.observed_delays
    if high < shortest:
        return shortest, True
    if low > longest:
        return longest, True
    return estimate, False


# Leeches


def _check_leeches(learner: Learner) -> f.Check:
    trials = learner.trials
    if len(trials.test_index) < f.MIN_REVIEWS_SHOWN:
        return f.Check("leeches", "not yet")
    leeches = find_leeches(trials.card_id, trials.y, trials.elapsed_days)
    return f.Check(
        name="leeches",
        level="look" if leeches else "fine",
        count=len(leeches),
        total=len(np.unique(trials.card_id)),
        leeches=leeches[:_MAX_LEECHES_SHOWN],
    )
