"""How it went over time: month by month, and how much of it is the learner's day.

What STATE-FSRS-6 says about a learner beyond their cards compares predictions of the same
held-out reviews, made before each answer: of FSRS-6, of STATE-FSRS-6, and of STATE-FSRS-6 without
some of its features. What a group of features brings is the log loss without it minus the log
loss with it, with a 95 % interval over days. It says that errors come together in time, not why;
and no scheduler could use it, for none knows how a day goes before it has come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from srs_eval.advice.candidates import BY_PRESET, Learner
from srs_eval.advice.findings import Finding, phrased
from srs_eval.advice.sentences import (
    FEWEST_DAYS_SHOWN,
    month_in_words,
    on_days,
    percent,
    signed,
    told,
    why_open,
)
from srs_eval.advice.shown import document
from srs_eval.advice.tables import Cell, Table
from srs_eval.data.errors import counted
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import MISSING, FloatArray, IntArray, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.data.trials import Trials
from srs_eval.engine.results import Result, losses
from srs_eval.engine.session import Session, mark_compiled
from srs_eval.metrics import log_losses
from srs_eval.models import fsrs6
from srs_eval.models.configurations import resolve
from srs_eval.models.state import base_logits, features_of, group_slice, shipped_prior, trace
from srs_eval.stats.intervals import Interval, Verdict, mean_interval, relative, side, verdict
from srs_eval.training.context import Context

_DAYS_OF_A_MONTH = 30  # where the source has no dates


@dataclass(frozen=True)
class Month:
    """The judged reviews of a calendar month, or of 30 days where there are no dates."""

    name: str  # "2024-10", "days 31-60"
    recalled: Interval  # share
    predicted: float  # mean p
    log_loss: Interval

    @property
    def reviews(self) -> int:
        return self.recalled.reviews


def months(result: Result, name_of: Callable[[int], str]) -> list[Month]:
    """A model's figures by month, in order of time; `name_of` are `dates`."""
    day = result.day
    known, place = np.unique(day, return_inverse=True)
    names = np.array([_month_of(name_of(each), each) for each in known.tolist()])
    loss = losses(result)
    found = []
    for name in dict.fromkeys(names.tolist()):
        here = (names == name)[place]
        recalled, log_loss = (mean_interval(each[here], day[here]) for each in (result.y, loss))
        found.append(Month(name, recalled, float(result.p[here].mean()), log_loss))
    return found


def dates(log: ReviewLog, protocol: Protocol) -> Callable[[int], str]:
    """The date of a day number, or "day 12" where the source has none."""
    selection = select_rows(log, protocol.rows)
    rows = selection.rows
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

_CONCLUSIONS = {
    "below": "more predictable than before",
    "above": "less predictable than before",
    "no matter": "about as predictable as before",
    "open": "can't tell",
}
"""By the side on which the log loss of the month lies, minus that of the months before."""


def was_i_predictable(learner: Learner) -> Finding:
    """One answer over the held-out reviews, in which FSRS-6 knew earlier ones only.

    Its subject is the latest month with enough reviews and days, as `_month_of` names it.
    """
    fsrs = "optimized" if learner.trials.protocol == BY_PRESET else "FSRS-6"
    index = learner.trials.test_index
    p, losses = learner.held_out(fsrs), learner.held_out_losses(fsrs)
    average = learner.held_out_losses("average")
    y = learner.trials.y[index]
    name_of = dates(learner.log, learner.trials.protocol)
    month = np.array([_month_of(name_of(day), day) for day in learner.trials.day[index].tolist()])
    rows: list[tuple[Cell, ...]] = []
    names = list(dict.fromkeys(month[np.argsort(index, kind="stable")].tolist()))
    for name in names:
        here = month == name
        share, loss, gained = (
            learner.interval(values[here], index[here], FEWEST_DAYS_SHOWN)
            for values in (y, losses, losses - average)
        )
        rows.append((name, int(here.sum()), share, float(p[here].mean()), loss, gained))
    columns = ("month", "reviews", "recalled", "expected", "log loss", "minus the average")
    table = Table("Month by month, FSRS-6 against your average", columns, tuple(rows))
    enough = [name for name in names if _is_enough(learner, index[month == name])]
    latest = enough[-1] if enough else names[-1]  # the last one may only have begun
    shown = month_in_words(latest)
    last, earlier = month == latest, np.isin(month, names[: names.index(latest)])
    conclusion, change = "can't tell", None
    sentences: list[str] = []
    if not (enough and _is_enough(learner, index[earlier])):
        sentences.append(
            f"Can't tell yet: {shown} has {_size(learner, index[last])}, the months "
            f"before it have {_size(learner, index[earlier])}; {_FEWEST} on {FEWEST_DAYS_SHOWN} "
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
        lead = f"In {shown} you were {conclusion}"
        if where == "open":
            lead = f"Whether you were more predictable in {shown} than before can't be told yet"
        recalled, expected = (percent(float(each[last].mean())) for each in (y, p))
        sentences += [
            f"{lead}: {figures}.",
            f"You recalled {recalled}, FSRS-6 expected {expected}, on "
            f"{counted(now.reviews, 'review')}.",
        ]
    if fsrs == "optimized":
        sentences.append("FSRS-6 is fitted to each preset here, all reviews weighing the same.")
    sentences.append("The more is recalled, the lower log loss is anyway: see both columns.")
    return phrased("time", latest, conclusion, tuple(sentences), (table,), difference=change)


def _is_enough(learner: Learner, index: IntArray) -> bool:
    return len(index) >= _FEWEST and learner.days_of(index) >= FEWEST_DAYS_SHOWN


def _size(learner: Learner, index: IntArray) -> str:
    return on_days(len(index), learner.days_of(index))


# The learner's day

MODEL = "STATE-FSRS-6"
_TAKEN_BY = {"anki": "those that Anki's optimizer takes", "benchmark": "the benchmark's"}
_LAYOUT = 1
_DAYS_SHOWN = 14
_NORMAL_95 = 1.959964
_USUAL_RECALL = 0.9  # the card by which a state is put into words


@dataclass(frozen=True, eq=False)
class LearnerState:
    """Answers, and the state of every day with judged reviews (days,)."""

    answers: tuple[Finding, ...]
    days: Table

    def document(self) -> dict[str, Any]:
        """As JSON has it (layout: docs/formats.md)."""
        return {
            "layout": _LAYOUT,
            "srs_eval": VERSION,
            "model": MODEL,
            "answers": list(map(document, self.answers)),
            "days": self.days.records(),
        }


@dataclass(frozen=True, eq=False)
class _Judged:
    """The judged reviews in order (k,)."""

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

    def brings(self, *groups: str) -> Interval:
        """Log loss with these groups minus that without; negative: knowing them helps."""
        return mean_interval(self.state - self.without(*groups), self.day)


def learner_state(
    log: ReviewLog, protocol: Protocol | None = None, context: Context | None = None
) -> LearnerState:
    """How much of a learner's errors is their day; raises NotEnoughData for too few reviews."""
    protocol = protocol or Protocol()
    judged = _judge(log, protocol, context or Context())
    name_of = dates(log, protocol)
    days = _day_by_day(judged, name_of)
    return LearnerState(
        (
            _how_much(judged, name_of),
            _today(judged, days),
            _matters(judged, "hour", "Time of day", "knowing the time of day"),
            _matters(judged, "session", "The length of a session", "counting the day's reviews"),
        ),
        days,
    )


def _judge(log: ReviewLog, protocol: Protocol, context: Context) -> _Judged:
    (configuration,) = resolve(MODEL, protocol)
    trials = Session(log).trials(configuration.protocol)
    z = base_logits(trials, fsrs6, context)
    features = features_of(trials, [z])
    traced = trace(features, trials.y, shipped_prior(MODEL))
    mark_compiled(configuration)  # all that the model runs
    index = np.sort(trials.test_index)
    y, expected = trials.y[index], 1 / (1 + np.exp(-z[index]))
    return _Judged(
        trials,
        index,
        features,
        log_losses(y, expected),
        log_losses(y, traced.p[index]),
        traced.offset[index],
        traced.offset_variance[index],
        expected,
    )


# Questions


def _how_much(judged: _Judged, name_of: Callable[[int], str]) -> Finding:
    without = judged.without("state", "session", "hour")
    gained = mean_interval(judged.fsrs - judged.state, judged.day)
    by_day = mean_interval(judged.state - without, judged.day)
    found = verdict(by_day)
    base = float(judged.fsrs.mean())
    of_it = _percent(relative(without - judged.state, judged.fsrs, judged.day))
    brief = {
        "better": f"matters: knowing it takes {of_it} off FSRS-6's log loss.",
        "as good": f"hardly matters: knowing it takes {of_it} off FSRS-6's log loss.",
        "worse": "does not matter: following it makes predictions worse.",
    }.get(found, "")
    lead, also = f"Your day {brief}", ""
    if not brief:
        lead = (
            "Can't tell yet whether your day matters: of itself it makes log loss "
            f"{told(by_day)}{_why_open(by_day)}."
        )
        also = " Most of that need not be your day: such a model also corrects FSRS-6."
    sentences = [
        lead,
        f"FSRS-6, fitted to all together with newer reviews weighing more, predicts your "
        f"{len(judged.y):,} judged reviews "
        f"({_TAKEN_BY[judged.trials.protocol.rows]}) with a log loss of {base:.4f}, a "
        f"model that also knows how you have been doing with {base - gained.estimate:.4f}: "
        f"{told(replace(gained, estimate=-gained.estimate))}.{also}",
    ]
    if found == "better" and gained.low > 0:
        share = min(max(-by_day.estimate / gained.estimate, 0.0), 1.0)
        sentences.append(
            f"Of what could so be avoided, {percent(share, 0)} is your day; the rest is what "
            "FSRS-6 gets wrong about cards."
        )
    sentences.append("It says that errors come together, not why; no scheduler can know it ahead.")
    months = [_month_of(name_of(day), day) for day in judged.day]
    rows: list[tuple[Cell, ...]] = []
    for month in dict.fromkeys(months):
        here = np.array([each == month for each in months])
        day = judged.day[here]
        rows.append(
            (
                month,
                int(here.sum()),
                percent(judged.y[here].mean()),
                round(float(judged.fsrs[here].mean()), 4),
                mean_interval((without - judged.state)[here], day),
                mean_interval((judged.fsrs - without)[here], day),
            )
        )
    columns = ("month", "reviews", "recalled", "FSRS-6", "your day", "cards")
    table = Table("Log loss of FSRS-6, and by how much it falls, by month", columns, tuple(rows))
    conclusion = _CONCLUSION[found]
    return phrased("day", "your reviews", conclusion, tuple(sentences), (table,), brief=brief)


def _percent(share: Interval) -> str:
    """ "2.1 % (1.5 … 2.7 %)"."""
    estimate, low, high = (
        f"{100 * each:.1f}".replace("-", "−") for each in (share.estimate, share.low, share.high)
    )
    return f"{estimate} % ({low} … {high} %)"


def _day_by_day(judged: _Judged, name_of: Callable[[int], str]) -> Table:
    """The state of each day: its reviews' mean offset above that of all, with a 95 % band."""
    usual = float(judged.offset.mean())
    rows: list[tuple[Cell, ...]] = []
    for day in np.unique(judged.day).tolist():
        here = judged.day == day
        band = _NORMAL_95 * math.sqrt(max(float(judged.offset_variance[here].mean()), 0.0))
        rows.append(
            (
                name_of(day),
                int(here.sum()),
                percent(judged.y[here].mean()),
                percent(judged.expected[here].mean()),
                Interval(float(judged.offset[here].mean()) - usual, band, int(here.sum()), 1),
            )
        )
    columns = ("day", "reviews", "recalled", "FSRS-6 expected", "state (logits)")
    return Table("Your state day by day", columns, tuple(rows))


def _today(judged: _Judged, days: Table) -> Finding:
    states = [row[-1] for row in days.rows]
    last = states[-1]
    assert isinstance(last, Interval)
    below = last.estimate < 0
    since = len(states) - 1
    while since > 0 and _sign_of(states[since - 1]) == _sign_of(last):
        since -= 1
    recall = 1 / (1 + math.exp(-math.log(_USUAL_RECALL / (1 - _USUAL_RECALL)) - last.estimate))
    shown = (
        f"state {signed(last.estimate, 2)} ({signed(last.low, 2)} … {signed(last.high, 2)}) in "
        f"logits: of what is usually recalled at 90 %, about {percent(recall, 0)}"
    )
    when = days.rows[-1][0]
    conclusion = "as usual"
    sentence = f"On {when}, your last day, you recalled about as usual ({shown})."
    if not last.low <= 0 <= last.high:
        word = "more" if below else "less"
        conclusion = f"{word} forgotten"
        since_when = days.rows[since][0]
        sentence = (
            f"You forget {word} than usual since {since_when}; on {when}, your last day: {shown}."
        )
    table = replace(days, title="Your last days", rows=days.rows[-_DAYS_SHOWN:])
    return phrased("today", "your last day", conclusion, (sentence,), (table,))


def _matters(judged: _Judged, group: str, what: str, knowing: str) -> Finding:
    """Whether a group of features makes a difference for this learner."""
    if group == "hour" and (judged.trials.history_time_of_day_s == MISSING).all():
        sentence = f"{what}: unknown, this source has no clock times."
        return phrased(group, what, "unknown", (sentence,))
    difference = judged.brings(group)
    found = verdict(difference)
    change = f"{knowing} makes log loss {told(difference)}"
    sentence = f"{what} {_CONCLUSION[found]}: {change}."
    if found == "can't tell yet":
        sentence = f"Can't tell yet whether it matters: {change}{_why_open(difference)}."
    return phrased(group, what, _CONCLUSION[found], (sentence,))


_CONCLUSION: Mapping[Verdict, str] = {
    "better": "matters",
    "as good": "hardly matters",
    "worse": "does not matter",
    "can't tell yet": "can't tell yet",
}


def _why_open(difference: Interval) -> str:
    """What the interval does not show: there are too few reviews for any verdict."""
    why = why_open(difference)
    return f" (only {why})" if why else ""


def _sign_of(state: Cell) -> bool:
    assert isinstance(state, Interval)
    return state.estimate < 0
