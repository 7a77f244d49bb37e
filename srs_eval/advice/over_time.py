"""How it went: what was recalled, asked for and predicted; month by month, and by day.

What STATE-FSRS-6 says about a learner beyond their cards compares predictions of the same
held-out reviews, made before each answer: of FSRS-6, of STATE-FSRS-6, and of STATE-FSRS-6 without
some of its features. What a group of features brings is the log loss without it minus the log
loss with it, with a 95 % interval over days. It says that errors come together in time, not why;
and no scheduler could use it, for none knows how a day goes before it has come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.data.protocol import EQUIVALENT, Protocol
from srs_eval.data.reviews import MISSING, FloatArray, IntArray, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.data.trials import Fold, Trials
from srs_eval.engine.session import Result, Session, losses, mark_compiled
from srs_eval.metrics import log_losses
from srs_eval.models import fsrs6
from srs_eval.models.configurations import resolve
from srs_eval.models.state import base_logits, features_of, group_slice, shipped_prior, trace
from srs_eval.stats import intervals
from srs_eval.stats.intervals import Interval, Verdict
from srs_eval.training.hyperparameters import Context

_Says = Literal["below", "above", "no matter", "can't tell"]
_DAYS_OF_A_MONTH = 30  # where the source has no dates


def months(result: Result, name_of: Callable[[int], str]) -> list[f.Month]:
    """A model's figures by month, in order of time; `name_of` are `dates`."""
    return _months(result.day, result.y, result.p, losses(result), name_of)


def _months(
    day: IntArray, y: FloatArray, p: FloatArray, loss: FloatArray, name_of: Callable[[int], str]
) -> list[f.Month]:
    known, place = np.unique(day, return_inverse=True)
    names = np.array([_month_of(name_of(each), each) for each in known.tolist()])
    found = []
    for name in dict.fromkeys(names.tolist()):
        here = (names == name)[place]
        recalled, log_loss = (intervals.mean_interval(each[here], day[here]) for each in (y, loss))
        found.append(f.Month(name, recalled, float(p[here].mean()), log_loss))
    return found


def dates(log: ReviewLog, protocol: Protocol) -> Callable[[int], str]:
    """The date of a day number, or "day 12" where the source has none."""
    selection = select_rows(log, protocol.rows)
    rows = selection.rows
    if log.first_day is not None:
        first_day = date.fromisoformat(log.first_day)
        return lambda day: (first_day + timedelta(day)).isoformat()
    if log.entries is None or rows.time_of_day_s is None or not len(rows):
        return lambda day: f"day {day + 1}"
    began = int(log.entries.time_ms[selection.entry_index[0]]) // 1000 - int(rows.time_of_day_s[0])
    first = int(rows.day_offset[0])
    # Ten hours after a day has begun its date is the same in UTC for nearly all zones.
    inside = began - first * 86_400 + 36_000

    def name(day: int) -> str:
        found: date = datetime.fromtimestamp(inside + day * 86_400, UTC).date()
        return found.isoformat()

    return name


def _month_of(name: str, day: int) -> str:
    """The month of a day, given its name by `dates` and its number."""
    if not name.startswith("day "):
        return name[:7]
    first = int(day) // _DAYS_OF_A_MONTH * _DAYS_OF_A_MONTH
    return f"days {first + 1}-{first + _DAYS_OF_A_MONTH}"


_FEWEST = 100  # reviews of a month that can be held against the others
_NO_MATTER = 0.02
"""Log loss: so much goes with one percentage point of recall at 90 % (its slope is ln 9)."""


def was_i_predictable(learner: Learner) -> f.Finding:
    """One finding over the held-out reviews, in which FSRS-6 knew earlier ones only.

    Its subject is the month of the last review, as `_month_of` names it.
    """
    fsrs = f.OPTIMIZED
    index = learner.trials.test_index
    day, loss = learner.trials.day[index], learner.held_out_losses(fsrs)
    name_of = dates(learner.log, learner.trials.protocol)
    found = _months(day, learner.trials.y[index], learner.held_out(fsrs), loss, name_of)
    latest = found[-1]
    known = np.unique(day).tolist()
    first = next(each for each in known if _month_of(name_of(each), each) == latest.name)
    change, lacks = None, None
    says: _Says = f.OPEN
    for part in (day >= first, day < first):
        reviews, days = int(part.sum()), len(np.unique(day[part]))
        if lacks is None and (reviews < _FEWEST or days < f.FEWEST_DAYS_SHOWN):
            lacks = f.missing_of(reviews, days, _FEWEST, f.FEWEST_DAYS_SHOWN)
    if lacks is None:
        before = intervals.mean_interval(loss[day < first], day[day < first])
        # A month is at least as uncertain as its share of the reviews before makes it.
        of_before = before.half_width * math.sqrt(before.reviews / latest.log_loss.reviews)
        half = math.hypot(max(latest.log_loss.half_width, of_before), before.half_width)
        gained = latest.log_loss.estimate - before.estimate
        change = replace(latest.log_loss, estimate=gained, half_width=half, errors=())
        says = _says(change, _NO_MATTER)
    evidence = f.Months(says, tuple(found))
    finding = f.Finding("time", latest.name, missing=lacks)
    return replace(finding, interval=change, reviews=latest.reviews, evidence=evidence)


# The learner's day

MODEL = "STATE-FSRS-6"
_NORMAL_95 = 1.959964


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """The held-out reviews in order (k,)."""

    trials: Trials
    index: IntArray
    features: FloatArray  # of all trials
    fsrs: FloatArray  # losses of FSRS-6, nats
    state: FloatArray  # losses of STATE-FSRS-6
    offset: FloatArray  # what the learner's state adds to the logit
    offset_variance: FloatArray
    expected: FloatArray  # recall, by FSRS-6

    @property
    def day(self) -> IntArray:
        return self.trials.day[self.index]

    @property
    def y(self) -> FloatArray:
        return self.trials.y[self.index]

    def without(self, *groups: str) -> FloatArray:
        """Losses of STATE-FSRS-6 that knows nothing of these groups of features."""
        blind = self.features.copy()
        for group in groups:
            blind[:, slice(*group_slice(group))] = 0.0
        p = trace(blind, self.trials.y, shipped_prior(MODEL)).p[self.index]
        return log_losses(self.y, p)


def _evaluate(log: ReviewLog, protocol: Protocol, context: Context) -> _Evaluated:
    (configuration,) = resolve(MODEL, protocol)
    trials = Session(log).trials(configuration.protocol)
    z = base_logits(trials, fsrs6, context)
    features = features_of(trials, [z])
    traced = trace(features, trials.y, shipped_prior(MODEL))
    mark_compiled(configuration)  # all that the model runs
    index = np.sort(trials.test_index)
    y, expected = trials.y[index], 1 / (1 + np.exp(-z[index]))
    fsrs, state = log_losses(y, expected), log_losses(y, traced.p[index])
    offset, variance = traced.offset[index], traced.offset_variance[index]
    return _Evaluated(trials, index, features, fsrs, state, offset, variance, expected)


# Questions


def learner_state(
    log: ReviewLog,
    protocol: Protocol | None = None,
    context: Context | None = None,
    equivalence: float = EQUIVALENT,
) -> list[f.Finding]:
    """How much of a learner's errors is their day; raises NotEnoughData for too few reviews."""
    protocol = protocol or Protocol()
    evaluated = _evaluate(log, protocol, context or Context())
    return [
        _matters(evaluated, equivalence, "day", "your reviews", "state", "session", "hour"),
        _today(_day_by_day(evaluated, dates(log, protocol))),
        _matters(evaluated, equivalence, "hour", "Time of day", "hour"),
        _matters(evaluated, equivalence, "session", "The length of a session", "session"),
    ]


def _matters(
    evaluated: _Evaluated, equivalence: float, question: str, subject: str, *groups: str
) -> f.Finding:
    """Whether groups of features make a difference for this learner."""
    if question == "hour" and (evaluated.trials.history_time_of_day_s == MISSING).all():
        return f.Finding(question, subject, evidence=f.Habit("unknown"))
    worth = evaluated.without(*groups) - evaluated.state
    difference = intervals.mean_interval(-worth, evaluated.day)
    says = _SAYS[intervals.verdict(difference, equivalence=equivalence)]
    evidence = f.Habit(says, intervals.relative(worth, evaluated.fsrs, evaluated.day))
    lacks = f.missing(difference, equivalence) if says == f.OPEN else None
    found = f.Finding(question, subject, missing=lacks, evidence=evidence)
    return replace(found, interval=difference, reviews=difference.reviews)


_SAYS: Mapping[Verdict, Literal["matters", "hardly matters", "does not matter", "can't tell"]] = {
    "better": "matters",
    "as good": "hardly matters",
    "worse": "does not matter",
    "can't tell yet": f.OPEN,
}


def _day_by_day(evaluated: _Evaluated, name_of: Callable[[int], str]) -> list[f.DayState]:
    """The state of each day: its reviews' mean offset above that of all, with a 95 % band."""
    usual = float(evaluated.offset.mean())
    found = []
    for day in np.unique(evaluated.day).tolist():
        here = evaluated.day == day
        band = _NORMAL_95 * math.sqrt(max(float(evaluated.offset_variance[here].mean()), 0.0))
        state = Interval(float(evaluated.offset[here].mean()) - usual, band, int(here.sum()), 1)
        recalled, expected = float(evaluated.y[here].mean()), float(evaluated.expected[here].mean())
        found.append(f.DayState(name_of(day), recalled, expected, state))
    return found


def _today(days: Sequence[f.DayState]) -> f.Finding:
    last, since = days[-1].state, len(days) - 1
    while since > 0 and (days[since - 1].state.estimate < 0) == (last.estimate < 0):
        since -= 1
    says: Literal["as usual", "more forgotten", "less forgotten"] = "as usual"
    if not last.low <= 0 <= last.high:
        says = "more forgotten" if last.estimate < 0 else "less forgotten"
    evidence = f.Days(says, days[since].name, tuple(days))
    return f.Finding("today", "your last day", reviews=last.reviews, evidence=evidence)


# Do I remember as much as I asked for, and as FSRS says?

AS_ASKED = 0.03
"""Recall is as it should be within three percentage points: for a smaller gap nobody would ask
Anki for another retention."""
_MATURE_DAYS = 21  # Anki's border between young and mature cards
_MONTHS_SHOWN = 12  # shown, the latest
_USUAL = 0.9  # the retention that Anki asks for, unless told otherwise
_EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.88, 0.92, 0.96, 1.0)
_FEWEST_OF_A_BIN = 100


def _said_now(learner: Learner) -> FloatArray:
    """What the parameters in force say of all reviews of later days; they may know these."""
    everything = np.arange(len(learner.trials))
    return learner.predict(f.NOW, [Fold(everything[:0], everything)])


def do_i_remember_enough(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """One finding for each preset, over all its reviews of later days."""
    p = _said_now(learner)
    for group in groups:
        yield _of_preset(learner, group, p)


def _of_preset(learner: Learner, group: int, p: FloatArray) -> f.Finding:
    preset = learner.log.presets.get(group)
    desired = None if preset is None or learner.is_off else preset.desired_retention
    mine = learner.trials.partition == group
    whole, *parts = (
        _part(learner, name, np.flatnonzero(here), p)
        for name, here in _parts(learner, mine).items()
        if here.any()
    )
    index, y = np.flatnonzero(mine), learner.trials.y
    recalled = learner.interval(y[index], index)
    off = replace(recalled, estimate=recalled.estimate - (desired or 0.0))
    says = _says(off) if intervals.enough_to_tell(recalled) else f.OPEN
    timing = learner.interval(p[index] - (desired or 0.0), index)
    expecting = learner.interval(y[index] - p[index], index)
    said = "not asked for" if desired is None else says
    in_parts = replace(whole, recalled=recalled), *parts
    evidence = f.Retention(said, in_parts, desired, learner.is_off, timing, expecting)
    lacks = f.missing(off, AS_ASKED) if evidence.says == f.OPEN else None
    return f.Finding(
        "retention", learner.name_of(group), reviews=len(index), missing=lacks, evidence=evidence
    )


def _says(difference: Interval, margin: float = AS_ASKED) -> _Says:
    where = intervals.side(difference, margin)
    return f.OPEN if where == "open" else where


def _part(learner: Learner, name: str, index: IntArray, p: FloatArray) -> f.Part:
    recalled = learner.interval(learner.trials.y[index], index, f.FEWEST_DAYS_SHOWN)
    return f.Part(name, recalled, float(p[index].mean()))


def _parts(learner: Learner, mine: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """All reviews of a preset, young and mature ones, and those of each of the last months."""
    assert learner.log.entries is not None
    interval = learner.trials.elapsed_days
    if learner.log.entries.interval is not None:  # as scheduled, which is Anki's meaning
        interval = learner.log.entries.interval[learner.source_place]
    mature = interval >= _MATURE_DAYS
    parts = {"all": mine, "young cards": mine & ~mature, "mature cards": mine & mature}
    month = months_of(learner.time_s)
    latest = np.unique(month[mine]).tolist()[-_MONTHS_SHOWN:]
    return parts | {name: mine & (month == name) for name in latest}


def months_of(time_s: FloatArray) -> NDArray[np.str_]:
    """ "2024-10" for each moment (Unix seconds, UTC)."""
    return time_s.astype("datetime64[s]").astype("datetime64[M]").astype(str)


# When Anki says 90 %, do I recall 90 %?


def does_it_mean_it(learner: Learner) -> f.Finding:
    """One finding over all reviews of later days, by what the parameters in force say of them."""
    p = _said_now(learner)
    bins = []
    for low, high in pairwise(_EDGES):
        index: IntArray = np.flatnonzero((p >= low) & ((p < high) | (high == 1.0)))
        if len(index):
            bins.append(_part(learner, f"{100 * low:.0f}–{100 * high:.0f} %", index, p))
    enough = [each for each in bins if _is_enough(each.recalled)]
    near = min(enough, key=lambda each: abs(each.expected - _USUAL), default=None)
    says: _Says = f.OPEN
    lacks = None
    if near is None:
        most = max((each.recalled for each in bins), key=lambda each: each.reviews)
        lacks = f.missing_of(most.reviews, most.days, _FEWEST_OF_A_BIN, intervals.FEWEST_DAYS)
    else:
        says = _says(replace(near.recalled, estimate=near.recalled.estimate - near.expected))
    whole = _part(learner, "all", np.arange(len(p)), p)
    evidence = f.Calibration(says, near, whole, tuple(bins), learner.is_off)
    return f.Finding("says", "all presets", reviews=len(p), missing=lacks, evidence=evidence)


def _is_enough(found: Interval) -> bool:
    return found.reviews >= _FEWEST_OF_A_BIN and found.days >= intervals.FEWEST_DAYS
