"""What a desired retention costs, in English."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from srs_eval.advice.findings import Finding, of
from srs_eval.advice.tables import Cell, Table
from srs_eval.advice.workload.estimate import (
    ENDS,
    KNOWN,
    MINUTES,
    MONTH,
    OVER,
    RECALLED,
    REVIEWS,
    Workload,
)
from srs_eval.advice.workload.today import FEWEST_IN_MONTH
from srs_eval.data.errors import counted

OF_DRAWS = (
    "Brackets: 90 % of the draws. ?: no month of yours had this retention. Figures are a model's, "
    "for habits like those of so far."
)
_MOST_ROWS = 12  # of the table; with more retentions every fifth is shown
_LEAST_MINUTES = 1.0  # that overdue cards must cost to be more than chance
_NEAR_LIMIT = 0.75  # of the limit of reviews a day: from here on it is reached on many days


def sentences(finding: Finding) -> tuple[str, ...]:
    """What is known so far; what is not known yet is left out."""
    of_all = (_first, _today, _backlog, _covers, _budget, _limit, _ranges)
    return tuple(each for says in of_all for each in says(of(finding, Workload)))


def _first(found: Workload) -> Iterator[str]:
    if not found.drawn:
        sets = f"{found.question.draws} sets of parameters that your reviews allow"
        yield f"First estimate; ranges come with the last of {sets}."


def _today(found: Workload) -> Iterator[str]:
    here, days = found.at(found.desired), found.question.days
    about = "" if found.drawn else "about "
    reviews, minutes, known = (_within(found, here, figure) for figure in (REVIEWS, MINUTES, KNOWN))
    new = f"{found.new_a_day} new ones a day"
    if not found.unseen or not found.new_a_day:
        new = "no new ones"
    elif found.unseen <= found.new_a_day:
        new = counted(found.unseen, "new one")
    elif found.new_a_day * days > found.unseen:
        new = f"{new} until the {found.unseen:,} there are have come"
    of_cards = f"your {counted(found.learned, 'card')} and {new}"
    is_told_now = found.as_now is not None and not found.is_off
    if found.drawn or not is_told_now:  # a first estimate is not held against what is now
        at = f"a desired retention of {found.desired:.2f}"
        at = f"Were FSRS on, at {at}" if found.is_off else f"At {at}"
        by = "" if found.question.model == "FSRS-6" else f"scheduled by {found.question.model} "
        yield (
            f"{at} and once {by}optimized to all your reviews, {found.preset} takes "
            f"{about}{reviews} reviews and {about}{minutes} minutes a day over the next "
            f"{counted(days, 'day')}: with {of_cards}; {about}{known} cards are known at the end."
        )
    if found.as_now is not None and (found.drawn or is_told_now):
        reviews, minutes = (_number(each, found.as_now[each]) for each in (REVIEWS, MINUTES))
        cards, and_ = "the same cards take", ", with"
        if not found.drawn:
            cards, and_ = f"{found.preset} takes", f": with {of_cards};"
        yield (
            f"While {found.schedule} go{'es' * found.is_off} on scheduling, {cards} about "
            f"{reviews} reviews and {minutes} minutes a day{and_} "
            f"{100 * found.as_now[RECALLED]:.0f} % passed."
        )
    pace = "day" if found.pace_days == 1 else f"{found.pace_days} days"
    yield f"In the last {pace} you did about {found.done_a_day:,} reviews a day."
    if found.presets > 1:
        yield f"This is one preset of {found.presets}: the one with the most reviews."
    yield from found.left_out


def _backlog(found: Workload) -> Iterator[str]:
    if found.backlog is not None:
        reviews, minutes = found.backlog
        days = min(MONTH, found.question.days)
        cost = f"{reviews:,.0f} reviews and {minutes:,.0f} minutes of the first {days} days"
        if minutes < _LEAST_MINUTES:
            cost = "not enough to be felt"
        after = found.question.after
        then = f" after {counted(after, 'day')} without a review" if after else ""
        yield f"{counted(found.overdue, 'overdue card')}{then}: {cost}."


def _covers(found: Workload) -> Iterator[str]:
    if found.seen is None:
        yield (
            f"No month had {FEWEST_IN_MONTH} reviews: what is said of any retention is the "
            "model's guess."
        )
        return
    low, high = (f"{100 * share:.0f}" for share in found.seen)
    yield (
        f"Your months so far with at least {FEWEST_IN_MONTH} reviews had "
        f"{low if low == high else f'{low} to {high}'} % recalled. Beyond, marked with ?, figures "
        "are the model's guess."
    )


def _budget(found: Workload) -> Iterator[str]:
    budget = found.question.budget
    if budget is None or not found.drawn:
        return
    over = _within(found, found.at(found.desired), OVER)
    yield f"Above {budget:g} minutes: {over} of {counted(found.question.days, 'day')}."
    fits = np.flatnonzero(found.band[1][:, MINUTES] <= budget)
    if len(fits):
        yield (
            f"With {budget:g} minutes a day on average, {found.retentions[fits[-1]]:.2f} is the "
            "highest retention that is almost sure to fit."
        )


def _limit(found: Workload) -> Iterator[str]:
    near = found.median[:, REVIEWS] > _NEAR_LIMIT * found.limit
    if near.any() and found.drawn:
        yield (
            f"From {found.retentions[np.argmax(near)]:.2f} on the preset's limit of "
            f"{found.limit:,} reviews a day holds cards back: there, more would be asked of you, "
            "and is not done."
        )


def _ranges(found: Workload) -> Iterator[str]:
    """With what `benchmarks/workload.py --band` finds (docs/workload.md)."""
    is_fsrs6 = found.question.model == "FSRS-6"
    if found.drawn:
        yield (
            f"Ranges hold 90 % of {len(found.draws)} draws of parameters, each fitted to days of "
            "yours drawn anew."
            + " For 100 simulated learners 80 held the truth; 19 were too high."
            * is_fsrs6
        )


# As tables


def tables(finding: Finding) -> tuple[Table]:
    """What each desired retention costs."""
    found = of(finding, Workload)
    budget, median = found.question.budget, found.median
    rows: list[tuple[Cell, ...]] = []
    for k in _shown(found):
        retention = found.retentions[k]
        is_guess = found.seen is None or not found.seen[0] <= retention <= found.seen[1]
        is_now = retention == found.desired and found.as_now is None
        passed = f"{100 * median[k, RECALLED]:.0f} %"
        rows.append(
            (
                f"{retention:.2f}",
                f"{'now' * is_now}{'?' * is_guess}",
                _within(found, k, REVIEWS),
                _within(found, k, MINUTES),
                f"{median[k, KNOWN]:,.0f}",
                passed if budget is None else _within(found, k, OVER),
            )
        )
    if found.as_now is not None:
        now = found.as_now
        passed = f"{100 * now[RECALLED]:.0f} %" if budget is None else f"{now[OVER]:.0f}"
        label = "SM-2" if found.is_off else f"{found.desired:.2f}"
        cells = (_number(figure, now[figure]) for figure in (REVIEWS, MINUTES, KNOWN))
        rows.append((label, "now", *cells, passed))
    last = "passed" if budget is None else f"days > {budget:g} min"
    title = f"{found.preset}: {counted(found.question.days, 'day')}, by desired retention"
    columns = ("desired", "", "reviews/day", "minutes/day", "known", last)
    return (Table(title, columns, tuple(rows)),)


def _shown(found: Workload) -> list[int]:
    """Places of the retentions that a table of few lines shows."""
    if len(found.retentions) <= _MOST_ROWS:
        return list(range(len(found.retentions)))
    every = (*(percent / 100 for percent in range(70, 100, 5)), found.desired, 0.97)
    return sorted({found.at(each) for each in every})


def _within(found: Workload, place: int, figure: int) -> str:
    """ "61 (55-70)": the median of the draws and where 90 % of them lie; "61" while draws are
    missing."""
    if not found.drawn:
        return _number(figure, found.median[place, figure])
    ends = np.quantile([draw[place][figure] for draw in found.draws], (ENDS[0], 0.5, ENDS[1]))
    low, middle, high = (_number(figure, each) for each in ends)
    return middle if low == high else f"{middle} ({low}-{high})"


def _number(figure: int, value: float) -> str:
    """Minutes, and few reviews, with a decimal."""
    return f"{value:,.{int(figure == MINUTES or (figure == REVIEWS and value < 9.95))}f}"
