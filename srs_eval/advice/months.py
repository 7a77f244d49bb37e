"""Was I predictable this month? Log loss, retention and what was expected, month by month."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from srs_eval.advice.answers import Answer, Cell, Table, told
from srs_eval.advice.candidates import BY_PRESET, Learner
from srs_eval.advice.over_time import dates, in_words, month_of
from srs_eval.data.errors import counted
from srs_eval.data.reviews import IntArray
from srs_eval.stats.intervals import Interval, side

_FEWEST_DAYS_SHOWN = 10  # below, no interval is shown
_FEWEST = 100  # reviews of a month that can be held against the others
_NO_MATTER = 0.02
"""Log loss: so much goes with one percentage point of recall at 90 % (its slope is ln 9)."""

_CONCLUSIONS = {
    "below": "more predictable than before",
    "above": "less predictable than before",
    "no matter": "about as predictable as before",
    "open": "can't tell",
}
"""By the side on which the log loss of the month lies, minus that of the months before."""


def was_i_predictable(learner: Learner) -> Answer:
    """One answer over the held-out reviews, in which FSRS-6 knew earlier ones only.

    Its subject is the latest month with enough reviews and days, as `month_of` names it.
    """
    fsrs = "optimized" if learner.trials.protocol == BY_PRESET else "FSRS-6"
    index = learner.trials.test_index
    p, losses = learner.held_out(fsrs), learner.held_out_losses(fsrs)
    average = learner.held_out_losses("average")
    y = learner.trials.y[index]
    name_of = dates(learner.log, learner.trials.protocol)
    month = np.array([month_of(name_of(day), day) for day in learner.trials.day[index].tolist()])
    rows: list[tuple[Cell, ...]] = []
    names = list(dict.fromkeys(month[np.argsort(index, kind="stable")].tolist()))
    for name in names:
        here = month == name
        interval = [
            learner.interval(values[here], index[here]) for values in (y, losses, losses - average)
        ]
        if interval[0].days < _FEWEST_DAYS_SHOWN:
            interval = [replace(each, half_width=math.nan) for each in interval]
        recalled, loss, gained = interval
        rows.append((name, int(here.sum()), recalled, float(p[here].mean()), loss, gained))
    columns = ("month", "reviews", "recalled", "expected", "log loss", "minus the average")
    table = Table("Month by month, FSRS-6 against your average", columns, tuple(rows))
    enough = [name for name in names if _is_enough(learner, index[month == name])]
    latest = enough[-1] if enough else names[-1]  # the last one may only have begun
    last, earlier = month == latest, np.isin(month, names[: names.index(latest)])
    conclusion, change = "can't tell", None
    sentences: list[str] = []
    if not (enough and _is_enough(learner, index[earlier])):
        sentences.append(
            f"Can't tell yet: {in_words(latest)} has {_size(learner, index[last])}, the months "
            f"before it have {_size(learner, index[earlier])}; {_FEWEST} on {_FEWEST_DAYS_SHOWN} "
            "days are needed of each."
        )
    else:
        now = learner.interval(losses[last], index[last])
        before = learner.interval(losses[earlier], index[earlier])
        half = math.hypot(now.half_width, before.half_width)
        change = Interval(now.estimate - before.estimate, half, now.reviews, now.days)
        figures = f"log loss {now.estimate:.3f}, {told(change, 3)}"
        where = side(change, _NO_MATTER)
        conclusion = _CONCLUSIONS[where]
        if where == "open":
            sentences.append(
                f"Whether you were more predictable in {in_words(latest)} than before can't be "
                f"told yet: {figures}."
            )
        else:
            sentences.append(f"In {in_words(latest)} you were {conclusion}: {figures}.")
        expected = 100 * float(p[last].mean())
        sentences.append(
            f"You recalled {100 * float(y[last].mean()):.1f} %, FSRS-6 expected {expected:.1f} %, "
            f"on {counted(now.reviews, 'review')}."
        )
    if fsrs == "optimized":
        sentences.append("FSRS-6 is fitted to each preset here, all reviews weighing the same.")
    sentences.append("The more is recalled, the lower log loss is anyway: see both columns.")
    return Answer("time", latest, conclusion, tuple(sentences), (table,), difference=change)


def _is_enough(learner: Learner, index: IntArray) -> bool:
    days = len(np.unique(learner.trials.day[index]))
    return len(index) >= _FEWEST and days >= _FEWEST_DAYS_SHOWN


def _size(learner: Learner, index: IntArray) -> str:
    days = len(np.unique(learner.trials.day[index]))
    return f"{counted(len(index), 'review')} on {counted(days, 'day')}"
