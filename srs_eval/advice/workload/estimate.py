"""What each desired retention costs a learner, and how sure that is.

    workload(log, ...) -> Iterator[Workload]

Each Workload is whole and knows more than the one before: first one course of events by the fit to
the learner's own reviews, beside what the schedule of today costs on the same cards, then draw by
draw what else these reviews allow. Closing the iterator ends the work.

A draw is a fit to days drawn with replacement (`memories.draws`); cards' states are followed
through their histories by it, it schedules, and answers are drawn from it: what the cards would
cost somebody whose parameters were known to be these. Cards are those that there are: when the new
ones have all been learned, none follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from srs_eval.advice.candidates import Learner, refuse_without_presets, too_few
from srs_eval.advice.findings import OPEN, Evidence, Finding
from srs_eval.advice.workload.memories import FITTED, SM2, Memory, draws, fitted
from srs_eval.advice.workload.simulator import Costs, Deck, Settings, simulate
from srs_eval.advice.workload.today import (
    States,
    Today,
    cards_of,
    costs_of,
    deck_of,
    memory_state,
    own_pace,
    seen_retentions,
    settings_of,
    todays_cards,
)
from srs_eval.data.errors import InputError, NotEnoughData, counted
from srs_eval.data.paths import VERSION
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.data.rows import only_preset
from srs_eval.data.trials import Trials
from srs_eval.engine.workers import cores
from srs_eval.models import anki_sm2
from srs_eval.models.own_parameters import as_anki_runs, why_left_out
from srs_eval.stats.intervals import FEWEST_REVIEWS
from srs_eval.training.compile import kernels_there, mark_kernels
from srs_eval.training.hyperparameters import Context

RETENTIONS = tuple(round(percent / 100, 2) for percent in range(70, 100))
GLANCED = (0.80, 0.85, 0.90, 0.95)  # desired retentions told beside today's at a glance
COSTS = "costs"  # the question of a glance
_AGAIN = 12  # courses of events for what is asked at one retention only
ENDS = (0.05, 0.95)  # quantiles of the draws that a range lies between
MONTH = 30  # days of the backlog

FIGURES = ("reviews", "minutes", "known", "recalled", "over budget")
"""A day (mean over all days): reviews, minutes. At the end: cards known. Share of reviews that
are passed. Days above the budget."""
REVIEWS, MINUTES, KNOWN, RECALLED, OVER = range(len(FIGURES))

_KERNELS = "workload"  # what the simulation's kernels are marked by


class _TooFewReviews(NotEnoughData):
    """A preset has too few for its costs to be told."""


@dataclass(frozen=True)
class TooFew(Evidence):
    """That a preset has too few reviews for its costs to be told."""

    reason: str
    says: str = OPEN


@dataclass(frozen=True)
class Question:
    """What is asked of a preset."""

    retentions: tuple[float, ...] = RETENTIONS
    days: int = 365
    new_a_day: int | None = None  # None: as many as of late
    budget: float | None = None  # minutes a day
    states: States = "history"
    draws: int = 50
    after: int = 0  # days without a review, from the last one in the log to the first simulated
    model: str = "FSRS-6"  # of FITTED: what is optimized, remembers and schedules


_Figures = tuple[float, ...]  # (FIGURES,)


@dataclass(frozen=True)
class Workload(Evidence):
    """What is known so far of what r desired retentions cost, once optimized to all reviews."""

    preset: str
    question: Question
    retentions: tuple[float, ...]  # (r,)
    reviews: int  # that its parameters can be fitted to
    desired: float  # today's
    learned: int  # cards
    unseen: int  # new cards that the preset has
    overdue: int
    new_a_day: int
    pace_days: int  # the days that one's own pace was seen over
    done_a_day: int  # reviews in these
    presets: int  # that this one was chosen from, as that with the most reviews; 1 if named
    limit: int  # reviews a day, by the preset
    schedule: str  # what today's is, in words; SM2 where FSRS is off
    seen: tuple[float, float] | None  # the least and the most that a month had recalled
    left_out: tuple[str, ...]  # sentences on presets whose parameters Anki does not run
    first: tuple[_Figures, ...]  # (r, FIGURES) one course of events by the fit to all reviews
    draws: tuple[tuple[_Figures, ...], ...]  # (draws so far, r, FIGURES)
    as_now: _Figures | None = None
    """What the same cards cost (FIGURES,) while today's schedule goes on, for a memory of the fit
    to all reviews. None where that fit is what schedules today."""
    backlog: tuple[float, float] | None = None  # reviews, minutes of MONTH for overdue cards
    says: str = "see figures"

    @property
    def is_off(self) -> bool:
        """Whether FSRS is: then all is told as if it were on."""
        return self.schedule == SM2

    @property
    def drawn(self) -> bool:
        """Whether all draws are there; a range of fewer would look surer than it is."""
        return len(self.draws) == self.question.draws

    @property
    def doing(self) -> str:
        """What is being computed."""
        done = f"{len(self.draws)} of {self.question.draws}"
        return f"parameters that your reviews allow: {done}"

    @property
    def share(self) -> float:
        """How much of all the work lies behind it."""
        return (1 + len(self.draws)) / (1 + self.question.draws)

    @property
    def _runs(self) -> FloatArray:
        return np.array(self.draws or (self.first,))

    @property
    def median(self) -> FloatArray:
        """(r, FIGURES) over the draws; while there are none, of the fit to all reviews."""
        return np.median(self._runs, axis=0)

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """The ends (r, FIGURES) that 90 % of the draws lie between."""
        low, high = np.quantile(self._runs, ENDS, axis=0)
        return low, high

    def at(self, retention: float) -> int:
        """The place of the nearest retention."""
        return int(np.argmin(np.abs(np.array(self.retentions) - retention)))

    @property
    def finding(self) -> Finding:
        return Finding("workload", self.preset, reviews=self.reviews, evidence=self)

    @property
    def glance(self) -> Finding:
        """The same at a few retentions."""
        wanted = sorted({self.at(each) for each in (*GLANCED, self.desired)})

        def of(figures: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(figures[place] for place in wanted)

        few = replace(
            self,
            question=replace(self.question, retentions=GLANCED),
            retentions=of(self.retentions),
            first=of(self.first),
            draws=tuple(map(of, self.draws)),
        )
        return Finding(COSTS, self.preset, reviews=self.reviews, evidence=few)


def beginning() -> str:
    """What is done until the first figures are there."""
    words = "preparing, about a minute once after an update"
    return "playing your cards forward" if kernels_there(_KERNELS) else words


def workload(
    log: ReviewLog,
    preset: str | None = None,
    question: Question | None = None,
    *,
    parameters: Sequence[float] | None = None,
    context: Context | None = None,
) -> Generator[Workload]:
    """What a preset's cards cost, better known with every item; where FSRS is off, were it on.

    `preset` is a name or an id, by default that with the most reviews; `parameters` stand in for
    those in force (17, 19 or 21 numbers). Raises InputError for what the log does not tell and
    for a question that makes no sense, NotEnoughData for too few reviews.
    """
    question = question or Question()
    _check(question)
    refuse_without_presets(log)
    is_off = log.import_summary.fsrs_enabled is False and parameters is None
    log = log if preset is None else only_preset(log, preset)
    if is_off or parameters is not None:  # whatever is stored
        bare = {key: replace(each, fsrs_parameters={}) for key, each in log.presets.items()}
        log = replace(log, presets=bare)
    try:
        learner = Learner.of(log, context)
    except NotEnoughData as error:
        raise NotEnoughData(too_few(log, error)) from None
    group = next(iter(learner.groups))
    stored = learner.log.presets.get(group)
    if stored is None:
        raise InputError(f"{log.import_summary.path} does not say how these cards are scheduled.")
    index = np.flatnonzero(learner.trials.partition == group)
    if len(index) < FEWEST_REVIEWS:
        few = f"{learner.name_of(group)} has {counted(len(index), 'review')} of later days"
        few = f"{few}, and what it costs can be told from {FEWEST_REVIEWS:,} on"
        raise _TooFewReviews(too_few(log, NotEnoughData(few)))
    today = todays_cards(learner.log, group, question.after)
    pace, done, pace_days = own_pace(learner.log, group)
    new = pace if question.new_a_day is None else question.new_a_day
    settings = settings_of(stored, question.days, new)
    if is_off:
        schedule, scheduler = SM2, Memory(SM2, stored.sm2_settings or anki_sm2.DEFAULTS)
    else:
        schedule = f"the parameters {'in force' if parameters is None else 'given'}"
        in_force = stored.parameters_in_force if parameters is None else parameters
        scheduler = Memory("FSRS-6", tuple(as_anki_runs(in_force)))
    desired = round(stored.desired_retention or 0.9, 2)
    found = Workload(
        preset=learner.name_of(group),
        question=question,
        retentions=tuple(sorted({*question.retentions, desired})),
        reviews=len(index),
        desired=desired,
        learned=len(today),
        unseen=today.new,
        overdue=today.overdue,
        new_a_day=new,
        pace_days=pace_days,
        done_a_day=done,
        presets=len(learner.groups) if preset is None else 1,
        limit=settings.reviews_a_day,
        schedule=schedule,
        seen=seen_retentions(learner, index),
        left_out=tuple(why_left_out(log).values()),
        first=(),
        draws=(),
    )
    costs = costs_of(learner.log, cards_of(learner.log, group))
    trials = learner.trials
    if question.model == "FSRS-7":
        trials = learner.session.trials(replace(trials.protocol, secs=True))
        index = np.flatnonzero(trials.partition == group)
    asked = _Preset(learner.context, trials, index, question, today, scheduler, settings, costs)
    return _refine(asked, found)


def at_a_glance(log: ReviewLog, context: Context | None = None) -> Finding:
    """About what the preset with the most reviews takes a day, at some retentions.

    Raises InputError and NotEnoughData as `workload` does, but of a preset with few reviews says
    so.
    """
    try:
        coming = workload(log, question=Question(retentions=GLANCED), context=context)
    except _TooFewReviews as few:
        return Finding(COSTS, "all reviews", evidence=TooFew(str(few)))
    try:
        return next(coming).glance
    finally:
        coming.close()


def document(found: Workload) -> dict[str, Any]:
    """As JSON has it, but for the words (layout: docs/formats.md)."""
    low, high = found.band
    parts = {"median": found.median, "low": low, "high": high}
    return {
        "layout": 2,
        "srs_eval": VERSION,
        "preset": found.preset,
        "question": asdict(found.question),
        "desired_retention": found.desired,
        "schedule": found.schedule,
        "cards": {"learned": found.learned, "new": found.unseen, "overdue": found.overdue},
        "new_a_day": found.new_a_day,
        "done_a_day": found.done_a_day,
        "draws": len(found.draws),
        "retentions": [
            {"desired": retention, **{name: _named(part[place]) for name, part in parts.items()}}
            for place, retention in enumerate(found.retentions)
        ],
        "now": _named(found.as_now or found.median[found.at(found.desired)]),
        "months_recalled": found.seen,
        "backlog": found.backlog and dict(zip(("reviews", "minutes"), found.backlog, strict=True)),
    }


def _named(figures: Sequence[float] | FloatArray) -> dict[str, float | None]:
    names = (name.replace(" ", "_") for name in FIGURES)
    values = (float(value) if math.isfinite(value) else None for value in figures)
    return dict(zip(names, values, strict=True))


@dataclass(frozen=True, eq=False)
class _Preset:
    context: Context
    trials: Trials  # as the question's model is fitted to
    index: np.ndarray  # positions of the preset's reviews among them
    question: Question
    today: Today
    scheduler: Memory  # today's
    settings: Settings
    costs: Costs

    def figures(
        self, scheduler: Memory, deck: Deck, seed: int, retention: float, memory: Memory | None
    ) -> _Figures:
        """What one course of events costs."""
        settings = replace(self.settings, desired_retention=retention)
        run = simulate(scheduler, deck, self.costs, settings, seed, memory)
        days, minutes, reviews = settings.days, run.seconds / 60, int(run.reviews.sum())
        budget = self.question.budget
        return (
            reviews / days,
            float(minutes.sum()) / days,
            run.known,
            float(run.recalled.sum()) / reviews if reviews else math.nan,
            0.0 if budget is None else float((minutes > budget).sum()),
        )

    def as_now(self, best: Memory, desired: float) -> _Figures | None:
        """What `Workload.as_now` tells."""
        scheduler = self.scheduler
        if scheduler.model == best.model and np.allclose(best.parameters, scheduler.parameters):
            return None
        deck = deck_of(self.today, scheduler, self.question.states)
        deck = replace(deck, memory_state=memory_state(self.today, best))
        aimed_at = 0.9 if scheduler.model == SM2 else desired  # where SM-2's own intervals are
        runs = [self.figures(scheduler, deck, seed, aimed_at, best) for seed in range(_AGAIN)]
        return tuple(np.mean(runs, axis=0).tolist())

    def backlog(self, memory: Memory, desired: float) -> tuple[float, float] | None:
        """The first month with overdue cards less that without, at today's retention."""
        kept = self.today.due_day >= 0
        if kept.all():
            return None
        deck = deck_of(self.today, memory, self.question.states)
        rest = replace(
            deck,
            state=deck.state[:, kept],
            last_day=deck.last_day[kept],
            due_day=deck.due_day[kept],
        )
        days = min(MONTH, self.settings.days)
        settings = replace(self.settings, desired_retention=desired, days=days)

        def mean(cards: Deck) -> FloatArray:
            runs = [simulate(memory, cards, self.costs, settings, seed) for seed in range(_AGAIN)]
            return np.mean([(run.reviews.sum(), run.seconds.sum() / 60) for run in runs], axis=0)

        reviews, minutes = mean(deck) - mean(rest)
        return float(reviews), float(minutes)


def _refine(preset: _Preset, found: Workload) -> Generator[Workload]:
    """What is `found` of a preset before anything is simulated, better and better: courses of
    events run in threads, several draws ahead."""
    question, context, pool = preset.question, preset.context, ThreadPoolExecutor(cores())
    fits = preset.trials, preset.index

    def curve(memory: Memory, seed: int) -> Callable[[], tuple[_Figures, ...]]:
        """What all desired retentions cost (r, FIGURES): begun now, awaited when called."""
        deck = deck_of(preset.today, memory, question.states)
        waiting = [
            pool.submit(preset.figures, memory, deck, seed, each, None) for each in found.retentions
        ]
        return lambda: tuple(each.result() for each in waiting)

    def known(**more: Any) -> Workload:
        made = replace(found, **more)
        context.tick(made.share)
        return made

    try:
        best = fitted(*fits, context, question.model)
        first = curve(best, 0)
        yield (
            found := known(
                as_now=preset.as_now(best, found.desired),
                backlog=preset.backlog(best, found.desired),
                first=first(),
            )
        )
        waiting: list[Callable[[], tuple[_Figures, ...]]] = []
        coming = draws(*fits, question.draws, 1, context, question.model)
        for number, memory in enumerate(coming, start=1):
            waiting.append(curve(memory, number))
            ahead = 3 if number < question.draws else 0  # as many as keep the threads busy
            while len(waiting) > ahead:
                yield (found := known(draws=(*found.draws, waiting.pop(0)())))
        mark_kernels(_KERNELS)
    finally:
        pool.shutdown(cancel_futures=True)


def _check(question: Question) -> None:
    for retention in question.retentions:
        if not 0.5 <= retention <= 0.995:
            raise InputError(
                f"A desired retention of {retention:g} cannot be asked for: give numbers from "
                "0.5 to 0.995, such as 0.8,0.85,0.9."
            )
    if not question.retentions:
        raise InputError("--retention is empty: give numbers such as 0.8,0.85,0.9.")
    new = 0 if question.new_a_day is None else question.new_a_day
    for option, value, least, most in (
        ("--days", question.days, 1, 3650),
        ("--new", new, 0, 999),
        ("--after", question.after, 0, 3650),
    ):
        if not least <= value <= most:
            raise InputError(f"{option} {value} is not between {least} and {most}.")
    if question.model not in FITTED:
        raise InputError(f"--model {question.model} is none of {', '.join(FITTED)}.")
    if question.draws < 1:
        raise InputError(f"{question.draws} draws of parameters tell nothing: ask for 1 or more.")
    if question.budget is not None and not 0 < question.budget <= 1440:
        raise InputError(f"--budget {question.budget:g} is no number of minutes in a day.")
