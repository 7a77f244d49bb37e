"""Was I predictable this month? Log loss, retention and what was expected, month by month."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from srs_eval.comparison import Interval
from srs_eval.over_time import dates, month_of
from srs_eval.plural import counted
from srs_eval.presets.answers import Answer, Cell, Table, told
from srs_eval.presets.candidates import BY_PRESET, Learner

FEWEST_DAYS_SHOWN = 10  # below, no interval is shown
FEWEST = 100  # reviews of a month that can be held against the others


def was_i_predictable(learner: Learner) -> Answer:
    """One answer over the held-out reviews, in which FSRS-6 knew earlier ones only."""
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
        if interval[0].days < FEWEST_DAYS_SHOWN:
            interval = [replace(each, half_width=math.nan) for each in interval]
        recalled, loss, gained = interval
        rows.append((name, int(here.sum()), recalled, float(p[here].mean()), loss, gained))
    columns = ("month", "reviews", "recalled", "expected", "log loss", "minus the average")
    table = Table("Month by month, FSRS-6 against your average", columns, tuple(rows))
    enough = [name for name in names if (month == name).sum() >= FEWEST]
    latest = enough[-1] if enough else names[-1]  # the last one may only have begun
    last, earlier = month == latest, np.isin(month, names[: names.index(latest)])
    conclusion, change = "can't tell", None
    sentences: list[str] = []
    if last.sum() < FEWEST or earlier.sum() < FEWEST:
        sentences.append(
            f"Can't tell yet: {latest} has {counted(int(last.sum()), 'review')}, the months "
            f"before it have {earlier.sum():,}; {FEWEST} are needed of each."
        )
    else:
        now = learner.interval(losses[last], index[last])
        before = learner.interval(losses[earlier], index[earlier])
        half = math.hypot(now.half_width, before.half_width)
        change = Interval(now.estimate - before.estimate, half, now.reviews, now.days)
        words = "about as predictable as before"
        conclusion = "as before"
        if change.high < 0:
            words = conclusion = "more predictable than before"
        elif change.low > 0:
            words = conclusion = "less predictable than before"
        sentences.append(
            f"In {latest} you were {words}: log loss {now.estimate:.3f}, {told(change, 3)}."
        )
        expected = 100 * float(p[last].mean())
        sentences.append(
            f"You recalled {100 * float(y[last].mean()):.1f} %, FSRS-6 expected {expected:.1f} %, "
            f"on {counted(now.reviews, 'review')}."
        )
    if fsrs == "optimized":
        sentences.append("FSRS-6 is fitted to each preset here, all reviews weighing the same.")
    sentences.append("The more is recalled, the lower log loss is anyway: see both columns.")
    return Answer("time", "all reviews", conclusion, tuple(sentences), (table,), difference=change)
