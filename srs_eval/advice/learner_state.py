"""How much is your day? What STATE-FSRS-6 says about a learner beyond their cards.

Every figure compares predictions of the same judged reviews, made before each answer: of
FSRS-6, of STATE-FSRS-6, and of STATE-FSRS-6 without some of its features. What a group of
features brings is the log loss without it minus the log loss with it, with a 95 % interval over
days. It says that errors come together in time, not why; and no scheduler could use it, for
none knows how a day goes before it has come.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srs_eval.advice.answers import Answer, Cell, Table, signed, told, why_open
from srs_eval.advice.over_time import dates, month_of
from srs_eval.data.paths import VERSION
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import MISSING, FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.engine.session import Session, mark_compiled
from srs_eval.metrics import log_losses
from srs_eval.models import fsrs6
from srs_eval.models.configurations import resolve
from srs_eval.models.state import base_logits, features_of, group_slice, shipped_prior, trace
from srs_eval.stats.intervals import Interval, Verdict, mean_interval, relative, verdict
from srs_eval.training.context import Context

MODEL = "STATE-FSRS-6"
_TAKEN_BY = {"anki": "those that Anki's optimizer takes", "benchmark": "the benchmark's"}
_LAYOUT = 1
_DAYS_SHOWN = 14
_NORMAL_95 = 1.959964
_USUAL_RECALL = 0.9  # the card by which a state is put into words


@dataclass(frozen=True, eq=False)
class LearnerState:
    """Answers, and the state of every day with judged reviews (days,)."""

    answers: tuple[Answer, ...]
    days: Table

    def document(self) -> dict[str, Any]:
        """As JSON has it (layout: docs/formats.md)."""
        return {
            "layout": _LAYOUT,
            "srs_eval": VERSION,
            "model": MODEL,
            "answers": [answer.document() for answer in self.answers],
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


def _how_much(judged: _Judged, name_of: Callable[[int], str]) -> Answer:
    without = judged.without("state", "session", "hour")
    gained = mean_interval(judged.fsrs - judged.state, judged.day)
    by_day = mean_interval(judged.state - without, judged.day)
    found = verdict(by_day)
    base = float(judged.fsrs.mean())
    of_it = _percent(relative(without - judged.state, judged.fsrs, judged.day))
    sentences = [
        {
            "better": f"Your day matters: knowing it takes {of_it} off FSRS-6's log loss.",
            "as good": f"Your day hardly matters: knowing it takes {of_it} off FSRS-6's log loss.",
            "worse": "Your day does not matter: following it makes predictions worse.",
            "can't tell yet": "Can't tell yet whether your day matters.",
        }[found],
        f"FSRS-6, fitted to all together with newer reviews weighing more, predicts your "
        f"{len(judged.y):,} judged reviews "
        f"({_TAKEN_BY[judged.trials.protocol.rows]}) with a log loss of {base:.4f}, a "
        f"model that also knows how you have been doing with {base - gained.estimate:.4f}: "
        f"{told(replace(gained, estimate=-gained.estimate))}.",
    ]
    if found == "can't tell yet":
        sentences[0] = (
            "Can't tell yet whether your day matters: of itself it makes log loss "
            f"{told(by_day)}{_why_open(by_day)}."
        )
        sentences[1] += " Most of that need not be your day: such a model also corrects FSRS-6."
    if found == "better" and gained.low > 0:
        share = min(max(-by_day.estimate / gained.estimate, 0.0), 1.0)
        sentences.append(
            f"Of what could so be avoided, {100 * share:.0f} % is your day; the rest is what "
            "FSRS-6 gets wrong about cards."
        )
    sentences.append("It says that errors come together, not why; no scheduler can know it ahead.")
    months = [month_of(name_of(day), day) for day in judged.day]
    rows: list[tuple[Cell, ...]] = []
    for month in dict.fromkeys(months):
        here = np.array([each == month for each in months])
        day = judged.day[here]
        rows.append(
            (
                month,
                int(here.sum()),
                f"{100 * judged.y[here].mean():.1f} %",
                round(float(judged.fsrs[here].mean()), 4),
                mean_interval((without - judged.state)[here], day),
                mean_interval((judged.fsrs - without)[here], day),
            )
        )
    columns = ("month", "reviews", "recalled", "FSRS-6", "your day", "cards")
    table = Table("Log loss of FSRS-6, and by how much it falls, by month", columns, tuple(rows))
    return Answer("day", "your reviews", _conclusion(found), tuple(sentences), (table,))


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
                f"{100 * judged.y[here].mean():.1f} %",
                f"{100 * judged.expected[here].mean():.1f} %",
                Interval(float(judged.offset[here].mean()) - usual, band, int(here.sum()), 1),
            )
        )
    columns = ("day", "reviews", "recalled", "FSRS-6 expected", "state (logits)")
    return Table("Your state day by day", columns, tuple(rows))


def _today(judged: _Judged, days: Table) -> Answer:
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
        f"logits: of what is usually recalled at 90 %, about {100 * recall:.0f} %"
    )
    when = days.rows[-1][0]
    if last.low <= 0 <= last.high:
        conclusion = "as usual"
        sentences = [f"On {when}, your last day, you recalled about as usual ({shown})."]
    else:
        conclusion = "more forgotten" if below else "less forgotten"
        word = "more" if below else "less"
        sentences = [
            f"You forget {word} than usual since {days.rows[since][0]}; on {when}, your last day: "
            f"{shown}."
        ]
    table = replace(days, title="Your last days", rows=days.rows[-_DAYS_SHOWN:])
    return Answer("today", "your last day", conclusion, tuple(sentences), (table,))


def _matters(judged: _Judged, group: str, what: str, knowing: str) -> Answer:
    """Whether a group of features makes a difference for this learner."""
    if group == "hour" and (judged.trials.history_time_of_day_s == MISSING).all():
        sentence = f"{what}: unknown, this source has no clock times."
        return Answer(group, what, "unknown", (sentence,))
    difference = judged.brings(group)
    found = verdict(difference)
    change = f"{knowing} makes log loss {told(difference)}"
    sentence = {
        "better": f"{what} matters: {change}.",
        "as good": f"{what} hardly matters: {change}.",
        "worse": f"{what} does not matter: {change}.",
        "can't tell yet": f"Can't tell yet whether it matters: {change}{_why_open(difference)}.",
    }[found]
    return Answer(group, what, _conclusion(found), (sentence,))


def _conclusion(found: Verdict) -> str:
    return {
        "better": "matters",
        "as good": "hardly matters",
        "worse": "does not matter",
        "can't tell yet": "can't tell yet",
    }[found]


def _why_open(difference: Interval) -> str:
    """What the interval does not show: there are too few reviews for any verdict."""
    why = why_open(difference)
    return f" (only {why})" if why else ""


def _sign_of(state: Cell) -> bool:
    assert isinstance(state, Interval)
    return state.estimate < 0
