"""Find the date for Anki's option "Ignore cards reviewed before", if any date helps.

Anki leaves a card out of training if its learning began before the date, with all its reviews, and
schedules it with the parameters all the same (ankitects/anki: rslib/src/scheduler/fsrs/params.rs).
So each date is judged on all reviews of the last third, of old cards and new ones (or on the last
1,000 reviews, if these are at most half of all): before each of three blocks of them, parameters
are fitted like Anki's Optimize button fits them, to the earlier reviews of the cards that the date
leaves. A preset's own date is one of the candidates, and is not applied to the reviews on which
they are judged.

Anki also computes the memory of a card from its reviews after the date only. That is not judged
here: all histories are whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner, find_future_dates
from srs_eval.data.days import find_midnight_s
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Fold
from srs_eval.stats.intervals import MIN_DAYS, MIN_REVIEWS

QUESTION = "ignore"
_HELD_OUT_DIVISOR = 3  # the last third of the reviews is held out, or more if there are few
_BLOCKS = 3  # of the held-out reviews; parameters are fitted again before each
_MAX_DATES = 4
_MIN_TRAINING = 400  # reviews that a date has to leave; with fewer, a fit is hardly the learner's
_MIN_SHARE_CHANGED = 0.05  # share of the training reviews by which two candidates have to differ
_YEAR_MONTHS = (1,)
_QUARTER_MONTHS = (1, 4, 7, 10)


def assess_ignore_dates(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding on the best date for each preset that runs FSRS-6."""
    for name, day in find_future_dates(learner.log).items():
        yield f.Finding(QUESTION, name, evidence=f.IgnoreBefore("empty", current=day))
    fsrs6_learner = learner.without_fsrs7()
    if fsrs6_learner is None:
        yield f.make_fsrs7_finding(QUESTION)
        return
    whole = _without_dates(fsrs6_learner)
    for group in groups:
        if group in fsrs6_learner.groups:
            yield _assess_preset(whole, fsrs6_learner, group)


def _without_dates(learner: Learner) -> Learner:
    """Return the learner with the cards that dates leave out; the same if there are no dates."""
    presets = learner.log.presets
    if not any(preset.ignore_before for preset in presets.values()):
        return learner
    log = replace(
        learner.log,
        presets={group: replace(preset, ignore_before=None) for group, preset in presets.items()},
    )
    return learner.compute_once(
        ("without dates",),
        lambda: Learner.of(log, learner.context, learner.trials.protocol, learner.equivalence),
    )


def _assess_preset(whole: Learner, learner: Learner, group: int) -> f.Finding:
    """Compare the dates for one preset; `whole` has the cards that its date leaves out."""
    name = learner.group_name(group)
    index = whole.positions(group)
    started_s = _find_learning_starts(whole)
    preset = learner.log.presets.get(group)
    current = None if preset is None else preset.ignore_before
    if current is not None and find_midnight_s(current) <= started_s[index].min():
        current = None
    held_out_count = _count_held_out(len(index))
    held_out = index[len(index) - held_out_count :]
    missing = _count_missing_data(len(index), len(held_out), whole.count_days(held_out))
    if missing != f.MissingData():
        evidence = f.IgnoreBefore(f.CANT_TELL, current=current)
        return f.Finding(QUESTION, name, reviews=held_out_count, missing=missing, evidence=evidence)
    earlier = index[: len(index) - held_out_count]
    dates = _choose_dates(started_s[earlier], whole.time_s[earlier], current)
    losses: dict[str | None, FloatArray] = {
        None: _evaluate(whole, index, held_out, None, started_s)
    }
    for day in dates:
        with suppress(NotEnoughData):
            losses[day] = _evaluate(whole, index, held_out, day, started_s)
    return _decide(whole, name, current, held_out, losses, started_s[index])


def _count_missing_data(reviews: int, held_out: int, held_out_days: int) -> f.MissingData:
    """Return the reviews missing from the minimum, or for the held-out ones to have enough days.

    At the learner's pace, the held-out reviews cover as many more days as there are more of them.
    """
    missing = f.count_missing_data(reviews, held_out_days, fewest=2 * MIN_REVIEWS)
    if missing.days is None or not held_out_days:
        return missing
    needed_held_out = math.ceil(held_out / held_out_days * MIN_DAYS)
    share = 2 if needed_held_out <= MIN_REVIEWS else _HELD_OUT_DIVISOR
    needed = share * needed_held_out
    return f.MissingData(reviews=max(needed - reviews, missing.reviews or 0))


def _count_held_out(reviews: int) -> int:
    """Return how many of the latest reviews are held out: a third, or a half of few."""
    return max(reviews // _HELD_OUT_DIVISOR, min(MIN_REVIEWS, reviews // 2))


def _find_learning_starts(learner: Learner) -> FloatArray:
    """Return when the learning of each review's card (n,) began, in Unix seconds."""
    entries = learner.log.entries
    assert entries is not None
    selection = learner.session.selection(learner.trials.protocol)
    time_s = entries.time_ms[selection.entry_index] / 1000
    cards, first_row = np.unique(selection.rows.card_id, return_index=True)
    started: FloatArray = time_s[first_row][np.searchsorted(cards, learner.trials.card_id)]
    return started


def _choose_dates(started_s: FloatArray, time_s: FloatArray, current: str | None) -> list[str]:
    """Choose up to four dates that leave enough of the training reviews, the earliest first.

    They are the beginnings of years or, if fewer than two will do, of quarters. `started_s` is
    when learning of each training review's card began, and `time_s` when it was reviewed.
    """
    first = datetime.fromtimestamp(float(started_s.min()), UTC).date()
    last = datetime.fromtimestamp(float(time_s.max()), UTC).date()
    chosen: list[str] = []
    for months in (_YEAR_MONTHS, _QUARTER_MONTHS):
        chosen = _select_distinct(_list_dates(first, last, months), started_s)
        if len(chosen) > 1:
            break
    if len(chosen) > _MAX_DATES:
        positions = np.linspace(0, len(chosen) - 1, _MAX_DATES).round().astype(int)
        chosen = [chosen[position] for position in positions]
    if current is not None and current not in chosen:
        chosen.append(current)
    return sorted(chosen)


def _list_dates(first: date, last: date, months: Sequence[int]) -> list[str]:
    """List the first days of these months that lie between two days."""
    days = []
    for year in range(first.year, last.year + 1):
        for month in months:
            day = date(year, month, 1)
            if first < day <= last:
                days.append(day.isoformat())
    return days


def _select_distinct(days: Sequence[str], started_s: FloatArray) -> list[str]:
    """Select the dates that leave enough reviews, and other ones than the date before them."""
    selected = []
    count_before = len(started_s)
    for day in days:
        count = int((started_s >= find_midnight_s(day)).sum())
        if count < _MIN_TRAINING:
            break
        if count_before - count >= _MIN_SHARE_CHANGED * len(started_s):
            selected.append(day)
            count_before = count
    return selected


def _evaluate(
    learner: Learner, index: IntArray, held_out: IntArray, day: str | None, started_s: FloatArray
) -> FloatArray:
    """Return the losses (nats) of the held-out reviews by parameters fitted under a date.

    Raises NotEnoughData.
    """
    is_used = np.ones(len(index), np.bool_)
    if day is not None:
        is_used = started_s[index] >= find_midnight_s(day)
    folds = []
    for block in np.array_split(held_out, _BLOCKS):
        train = index[(index < block[0]) & is_used]
        if not len(train):
            raise NotEnoughData(f"no card was learned on or after {day}")
        folds.append(Fold(train=train, test=block))
    return learner.losses(learner.predict(f.RECENCY, folds), held_out)


def _decide(
    learner: Learner,
    name: str,
    current: str | None,
    held_out: IntArray,
    losses: dict[str | None, FloatArray],
    started_s: FloatArray,
) -> f.Finding:
    """Decide on the dates with these losses; None stands for no date."""
    differences = {
        day: learner.interval(values - losses[None], held_out)
        for day, values in losses.items()
        if day is not None
    }
    verdicts = learner.verdicts(differences)
    dates = []
    for day, difference in differences.items():
        left = int((started_s >= find_midnight_s(day)).sum())
        log_loss = learner.interval(losses[day], held_out)
        dates.append(f.DateCandidate(day, left, log_loss, difference, verdicts[day]))
    conclusion, best = _conclude(dates, current, learner.equivalence)
    first_s = float(started_s.min())
    evidence = f.IgnoreBefore(
        conclusion,
        tuple(dates),
        current,
        best=None if best is None else best.date,
        first_review=datetime.fromtimestamp(first_s, UTC).date().isoformat(),
        training_reviews=len(started_s),
    )
    return f.Finding(
        QUESTION,
        name,
        gain=None if best is None else -best.difference.estimate,
        interval=None if best is None else best.difference,
        reviews=len(held_out),
        evidence=evidence,
    )


def _conclude(
    dates: Sequence[f.DateCandidate], current: str | None, equivalence: float
) -> tuple[f.DateConclusion, f.DateCandidate | None]:
    """Return the conclusion, and the date that it is about if one is ahead."""
    if not dates:
        return "no date to try", None
    better = [candidate for candidate in dates if candidate.verdict == "better"]
    best = min(better or dates, key=lambda candidate: candidate.difference.estimate)
    if better:
        return "date", best
    if best.difference.estimate < -equivalence:
        return "maybe", best
    verdict_on_current = next(
        (candidate.verdict for candidate in dates if candidate.date == current), "worse"
    )
    return ("empty" if verdict_on_current == "worse" else "no matter"), None
