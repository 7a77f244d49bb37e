"""Anything wrong? What is worth a look besides parameters: cards that wait, buttons, leeches.

Leeches are cards that are forgotten more often than the learner's others after like intervals. What
is expected of a review is the mean of FSRS-6's held-out probabilities over all reviews after about
the same interval: its own probability would not do, for FSRS learns from each lapse to expect the
next one. All are multiplied to be right on average, for a bad month is not the fault of a card. The
number of a card's lapses then has a Poisson binomial distribution, which is convolved exactly,
review by review; of its upper tails those are taken that keep the share of false leeches within 5 %
(Benjamini & Hochberg, 1995, Journal of the Royal Statistical Society B 57).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.buttons import expected_after, review_ratings
from srs_eval.advice.candidates import Learner
from srs_eval.advice.over_time import AS_ASKED
from srs_eval.advice.workload.today import overdue_cards
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.stats.intervals import FEWEST_DAYS, Interval

_NAMES = ("gap", "overdue", "old cards", "leeches", "again", "easy", "hard", "steps", "suspended")
"""Of one level the first is the worst; all that follows was so before a long absence."""
_LEVELS = ("look", "fine", "not yet")
_BUTTONS: Mapping[str, int] = {"again": 1, "hard": 2, "easy": 4}
_MUCH = 60.0  # minutes for overdue cards that are worth a look,
_SOME, _MANY = 15.0, 0.1  # and fewer for such a share of all cards
_LONG = 30  # days without reviews
_YEAR = 365
_DAY_MS = 86_400_000
_FEWEST = 100  # reviews after a button, or of old cards
_TOO_MANY = 0.3  # of the answers are Again: less than the least that Anki can be asked for
_SELDOM = 0.01  # of the answers; below it nothing can be wrong with a button
_LEVEL = 0.025
"""Half of the false leeches that are allowed: lapses of a card without fault come in groups, too.
Of simulated learners without leeches 5 % are named one under SM-2, 2.5 % under FSRS."""
_SHOWN = 10  # leeches, the worst ones


def is_anything_wrong(log: ReviewLog, learner: Learner | None) -> f.Finding:
    """One finding over all reviews; without a learner there are too few to predict any."""
    days = list(_of_days(log))
    since = next((each.since for each in days), None)
    checks = [*days, *_of_cards(log, since), *_of_answers(learner)]
    levels = {each.level for each in checks}
    says: Literal["look", "fine"] = "look" if "look" in levels else "fine"
    evidence = f.Checks(says if levels - {"not yet"} else f.OPEN, tuple(_worst_first(checks)))
    reviews = log.entries if log.entries is not None else log.rows
    return f.Finding("wrong", f.ALL_REVIEWS, reviews=len(reviews or ()), evidence=evidence)


def together(findings: Sequence[f.Finding]) -> tuple[f.Check, ...]:
    """All checks, worst first: also what the findings on other questions so far tell."""
    own = [each.evidence for each in findings if isinstance(each.evidence, f.Checks)]
    checks = {check.name: check for evidence in own for check in evidence.checks}
    if any(isinstance(each.evidence, f.Hard) and each.says == "yes" for each in findings):
        checks["hard"] = f.Check("hard", "look", says="like Again")
    for check in _worst_first(_told_by_others(findings)):
        checks.setdefault(check.name, check)  # of the presets the worst one
    return tuple(_worst_first(checks.values()))


def _worst_first(checks: Iterable[f.Check]) -> list[f.Check]:
    return sorted(checks, key=lambda each: (_LEVELS.index(each.level), _NAMES.index(each.name)))


# Cards and days


def _of_cards(log: ReviewLog, since: str | None) -> Iterator[f.Check]:
    """`since`: when nobody has reviewed since; cards that were not overdue then may be now."""
    if (late := overdue_cards(log)) is not None and late.learned:
        is_much = late.minutes >= (_SOME if late.cards >= _MANY * late.learned else _MUCH)
        level: f.Level = "look" if is_much else "fine"
        if since is None or is_much:
            yield f.Check("overdue", level, late.cards, late.learned, late.minutes, since)
    if cards := len(log.cards.card_id):
        suspended = int(log.cards.suspended.sum())
        yield f.Check("suspended", "look" if 2 * suspended > cards else "fine", suspended, cards)


def _of_days(log: ReviewLog) -> Iterator[f.Check]:
    """The longest time without reviews: until now, or within the last year with reviews."""
    since = None
    if log.entries is not None:
        time_ms = log.entries.time_ms[log.entries.rating > 0]
        days = time_ms // _DAY_MS
        if len(days) and (gone := int(time.time() * 1000 / _DAY_MS - days[-1])) > _LONG:
            since = str(time_ms[-1].astype("datetime64[ms]").astype("datetime64[D]"))
            yield f.Check("gap", "look", gone, since=since)
    else:
        assert log.rows is not None
        days = log.rows.day_offset
    if len(days) and since is None:
        lately = np.unique(days[days >= days[-1] - _YEAR])
        gaps = np.diff(lately)
        longest, until = int(gaps.max(initial=1)) - 1, None
        if log.entries is not None and len(gaps):
            until = str(lately[int(gaps.argmax()) + 1].astype("datetime64[D]"))
        yield f.Check("gap", "look" if longest >= _LONG else "fine", longest, until=until)


# Answers


def _of_answers(learner: Learner | None) -> Iterator[f.Check]:
    after = {}
    if learner is not None:
        after = {each.button.lower(): each for each in expected_after(learner)}
    ratings = np.empty(0, np.int64) if learner is None else review_ratings(learner)
    for name, button in _BUTTONS.items():
        count, answers = int((ratings == button).sum()), len(ratings)
        found = f.Check(name, "not yet", count, answers, says="few")
        if name in after:
            bias = after[name].bias
            recalled = replace(bias, estimate=after[name].recalled)
            found = _evaluated(found, recalled, recalled.estimate + bias.estimate, one_sided=True)
        if answers >= f.FEWEST_SHOWN and name == "again" and count > _TOO_MANY * answers:
            found = replace(found, level="look", says="too many")
        elif answers >= f.FEWEST_SHOWN and count < _SELDOM * answers:
            found = replace(found, level="fine", says="seldom")
        yield found
    yield f.Check("leeches", "not yet") if learner is None else _leeches(learner)


def _evaluated(
    check: f.Check, recalled: Interval, expected: float, one_sided: bool = False
) -> f.Check:
    """Whether the interval leaves out what does not matter, or twice as much of it.

    `one_sided`: to recall more than expected is fine.
    """
    gap = recalled.estimate - expected
    off, says = -gap if one_sided else abs(gap), ""
    level: f.Level = "not yet"
    if recalled.reviews < _FEWEST or recalled.days < FEWEST_DAYS:
        says = "few"
    elif off - recalled.half_width > AS_ASKED:
        level = "look"
    elif off + recalled.half_width < 2 * AS_ASKED:
        level = "fine"
    return replace(check, level=level, says=says, recalled=recalled, expected=expected)


def _told_by_others(findings: Sequence[f.Finding]) -> Iterator[f.Check]:
    """Old cards and learning steps, of each preset."""
    for finding in findings:
        if isinstance(finding.evidence, f.Retention):
            for part in finding.evidence.parts:
                if part.name == "mature cards":
                    check = f.Check("old cards", "not yet", subject=finding.subject)
                    yield _evaluated(check, part.recalled, part.expected, one_sided=True)
        elif isinstance(finding.evidence, f.Steps):
            said = [each for each in finding.evidence.steps if each.says != f.OPEN]
            level: f.Level = "fine" if said else "not yet"
            check = f.Check("steps", level, subject=finding.subject)
            for wrong in [each for each in said if each.says != "as it is"][:1]:
                check = replace(check, level="look", says=f"{wrong.says} after {wrong.situation}")
                if wrong.delay and wrong.seen:  # not beyond all delays so far
                    estimate, low, high = wrong.delay
                    is_seen = high >= wrong.seen[0] and low <= wrong.seen[1]
                    check = replace(check, minutes=estimate if is_seen else None)
            yield check


# Leeches


def _leeches(learner: Learner) -> f.Check:
    index = learner.trials.test_index
    card, y = learner.trials.card_id[index], learner.trials.y[index]
    if len(index) < f.FEWEST_SHOWN:
        return f.Check("leeches", "not yet")
    interval = learner.trials.elapsed_days[index]
    found = _improbable(card, learner.held_out(f.OPTIMIZED), y, interval)
    level: f.Level = "look" if found else "fine"
    return f.Check("leeches", level, len(found), len(np.unique(card)), leeches=found[:_SHOWN])


def _improbable(
    card: IntArray, p: FloatArray, y: FloatArray, days: IntArray
) -> tuple[f.Leech, ...]:
    """The least likely first, from reviews (n,): probabilities, outcomes, intervals."""
    rounded = np.round(2 * np.log2(np.maximum(days, 1)))  # 1, 2, 3, 4, 5-6, 7-9 ... days
    _, like = np.unique(rounded, return_inverse=True)
    forgotten = (np.bincount(like, 1.0 - p) / np.bincount(like))[like]
    share = (1.0 - y).sum() / max(forgotten.sum(), 1e-9)  # of what is expected in all
    forgotten = np.minimum(share * forgotten, 1.0)
    known, place, count = np.unique(card, return_inverse=True, return_counts=True)
    lapses = np.bincount(place, 1.0 - y).astype(np.int64)
    expected = np.bincount(place, forgotten)
    chance = _tails(forgotten, place, count, lapses)
    order = np.argsort(chance, kind="stable")
    below = chance[order] <= _LEVEL * np.arange(1, len(order) + 1) / len(order)
    taken = order[: int(np.flatnonzero(below)[-1]) + 1] if below.any() else order[:0]
    columns = (known, count, lapses, expected, chance)
    return tuple(f.Leech(*each) for each in zip(*(c[taken].tolist() for c in columns), strict=True))


def _tails(q: FloatArray, place: IntArray, count: IntArray, lapses: IntArray) -> FloatArray:
    """The chance of each card (k,) of so many lapses or more, from its reviews' q (n,)."""
    tails = np.ones(len(count))
    cards = np.flatnonzero(lapses > 0)
    cards = cards[np.argsort(-count[cards], kind="stable")]  # at each review those that have it
    if not len(cards):
        return tails
    by_card = q[np.argsort(place, kind="stable")]
    begin = (np.cumsum(count) - count)[cards]
    chances = np.zeros((len(cards), int(lapses.max())))  # of so many lapses so far
    chances[:, 0] = 1.0
    for number in range(int(count[cards[0]])):
        have = int((count[cards] > number).sum())
        here, forgets = chances[:have], by_card[begin[:have] + number, None]
        more = here[:, :-1] * forgets
        here *= 1 - forgets
        here[:, 1:] += more
    fewer = np.cumsum(chances, axis=1)[np.arange(len(cards)), lapses[cards] - 1]
    tails[cards] = np.clip(1 - fewer, 0.0, 1.0)
    return tails
