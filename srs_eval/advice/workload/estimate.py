"""What each desired retention costs a learner, and how sure that is.

    workload(log, ...) -> Iterator[Workload]

Each Workload is whole and knows more than the one before: first what the fit to the learner's own
reviews costs, beside what the schedule of today costs on the same cards, then draw by draw what
else these reviews allow. The figures stay as they are; ranges come with the draws. Closing the
iterator ends the work. Several presets' cards are played forward each by its own settings, and
summed.

A draw is a fit to days drawn with replacement (`memories.draws`); cards' states are followed
through their histories by it, it schedules, and answers are drawn from it: what the cards would
cost somebody whose parameters were known to be these. Cards are those that there are: when the new
ones have all been learned, none follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from srs_eval.advice.candidates import (
    WHOLE,
    Learner,
    evaluated_by_preset,
    refuse_without_presets,
    too_few,
)
from srs_eval.advice.findings import ALL_REVIEWS, OPEN, Evidence, Finding, Missing
from srs_eval.advice.workload import presets as played
from srs_eval.advice.workload import today as habits
from srs_eval.advice.workload.simulator import FITTED, SM2, Memory, Simulated
from srs_eval.data.arguments import check_numbers, check_type
from srs_eval.data.errors import InputError, NotEnoughData, counted
from srs_eval.data.paths import VERSION
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.data.rows import only_preset
from srs_eval.engine.workers import cores
from srs_eval.models.own_parameters import why_left_out, why_replaced
from srs_eval.stats.intervals import FEWEST_REVIEWS
from srs_eval.training.compile import kernels_there, mark_kernels
from srs_eval.training.hyperparameters import Context

RETENTIONS = tuple(round(percent / 100, 2) for percent in range(70, 100))
GLANCED = (0.80, 0.85, 0.90, 0.95)  # desired retentions told beside today's at a glance
COSTS = "costs"  # the question of a glance
IN_FORCE = "the parameters in force"  # today's schedule, in words
ALL_PRESETS = "all presets"  # their name where several are summed
_ENDS = (0.025, 0.5, 0.975)  # quantiles of the draws: the ends of a range, and its middle
FIGURES = ("reviews", "minutes", "known", "recalled", "over budget")
"""A day (mean over all days): reviews, minutes. At the end: cards known. Share of reviews that
are passed. Days above the budget."""
REVIEWS, MINUTES, KNOWN, RECALLED, OVER = range(len(FIGURES))

_Figures = tuple[float, ...]  # (FIGURES,)
_KERNELS = "workload"  # what the simulation's kernels are marked by


class _TooFewReviews(NotEnoughData):
    """There are too few for costs to be told."""

    reviews = 0


@dataclass(frozen=True)
class TooFew(Evidence):
    """That there are too few reviews for costs to be told."""

    reason: str
    says: str = OPEN


@dataclass(frozen=True)
class Question:
    """What is asked of one preset, or of all."""

    retentions: tuple[float, ...] = RETENTIONS
    days: int = 365
    new_a_day: int | None = None  # None: as many as of late
    budget: float | None = None  # minutes a day
    states: habits.States = "history"
    draws: int = 50
    after: int = 0  # days without a review, from the last one in the log to the first simulated
    model: str = "FSRS-6"  # of FITTED: what is optimized, remembers and schedules


@dataclass(frozen=True)
class Workload(Evidence):
    """What is known so far of what r desired retentions cost, once optimized to all reviews."""

    preset: str  # its name, or ALL_PRESETS
    question: Question
    retentions: tuple[float, ...]  # (r,)
    reviews: int  # that parameters can be fitted to
    desired: float  # today's; of several presets the mean by reviews, each having its own there
    presets: tuple[tuple[str, float], ...]  # whose cards these are, and what each desires
    learned: int  # cards
    unseen: int  # new cards that there are
    overdue: habits.Overdue
    new_a_day: int
    pace_days: int  # the days that one's own pace was seen over
    done_a_day: int  # reviews in these
    minutes_a_day: float
    schedule: str  # what today's is, in words; SM2 where FSRS is off
    seen: tuple[float, float] | None  # the least and the most that a month had recalled
    left_out: tuple[str, ...]
    """Sentences on presets whose parameters Anki does not run."""
    first: tuple[_Figures, ...]  # (r, FIGURES) by the fit to all reviews
    draws: tuple[tuple[_Figures, ...], ...]  # (draws so far, r, FIGURES)
    as_now: _Figures | None = None
    """What the same cards cost (FIGURES,) while today's schedule goes on, for a memory of the fit
    to all reviews. None where that fit is what schedules today."""
    held_back: tuple[float, int] | None = None
    """The least retention at which a preset's limit of reviews a day is about reached, and it."""
    by_fsrs7: tuple[str, ...] = ()
    """Presets that FSRS-7 schedules today (by the parameters given, all of them), or would once
    FSRS is on, where FSRS-6 is asked about: in order of `presets`."""
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
    def figures(self) -> FloatArray:
        """(r, FIGURES): the one estimate, with ranges or without."""
        return np.array(self.first)

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """The ends (r, FIGURES) of a range around the figures: as 95 % of the draws lie around
        their median."""
        figures = self.figures
        if not self.drawn:
            return figures, figures
        low, middle, high = np.quantile(np.array(self.draws), _ENDS, axis=0)
        most = (math.inf, math.inf, self.learned + self.unseen, 1.0, self.question.days)
        return np.maximum(figures + low - middle, 0.0), np.minimum(figures + high - middle, most)

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

    `preset` is a name or an id, by default all of them; `parameters` stand in for those in force
    (17, 19 or 21 numbers, or FSRS-7's 34). Raises InputError for what the log does not tell and for
    a question that makes no sense, NotEnoughData for too few reviews: for an argument of another
    type at once, for the others where the first item is asked for.
    """
    check_type("log", "what srs_eval.load returns", log, ReviewLog)
    if preset is not None:
        check_type("preset", "the name or the number of a preset as text", preset, str)
    if question is not None:
        words = "an srs_eval.advice.workload.estimate.Question"
        check_type("question", words, question, Question)
    if parameters is not None:
        check_numbers("parameters", "a list of numbers", parameters)
    if context is not None:
        check_type("context", "an srs_eval.Context", context, Context)
    return _estimates(log, preset, question or Question(), parameters, context)


def _estimates(
    log: ReviewLog,
    preset: str | None,
    question: Question,
    parameters: Sequence[float] | None,
    context: Context | None,
) -> Generator[Workload]:
    _check(question)
    refuse_without_presets(log)
    is_off = log.import_summary.fsrs_enabled is False and parameters is None
    log = log if preset is None else only_preset(log, preset)
    replaced = why_replaced(log) if parameters is None else {}
    if is_off or parameters is not None:  # whatever is stored
        bare = {key: replace(each, fsrs_parameters={}) for key, each in log.presets.items()}
        log = replace(log, presets=bare)
    try:
        learner = Learner.of(log, context)
    except NotEnoughData as error:
        said = NotEnoughData(f"{error}{_counted_elsewhere(log, context)}")
        raise NotEnoughData(too_few(log, said)) from None
    if len(learner.trials) < FEWEST_REVIEWS:
        who = "There are" if preset is None else f"{next(iter(learner.groups.values()))} has"
        few = f"{who} {counted(len(learner.trials), 'usable review')}"
        few += _counted_elsewhere(log, context)
        few = f"{few}, and what it costs can be told from {FEWEST_REVIEWS:,} on"
        refusal = _TooFewReviews(too_few(log, NotEnoughData(few)))
        refusal.reviews = len(learner.trials)
        raise refusal
    presets, refused = [], None
    for group in learner.groups:
        try:
            presets.append(
                played.cards_of_preset(
                    learner, group, question.days, question.after, parameters, is_off=is_off
                )
            )
        except InputError as error:  # all its cards are suspended, say
            refused = error
    if not presets:
        assert refused is not None
        raise refused
    paces = [habits.own_pace(learner.log, each.group) for each in presets]
    new, weights = question.new_a_day, [float(each.today.new) for each in presets]
    if new is None:
        new, weights = round(sum(pace[0] for pace in paces)), [pace[0] for pace in paces]
    presets = [
        replace(each, settings=replace(each.settings, new_a_day=some))
        for each, some in zip(presets, _shared_out(new, weights), strict=True)
    ]
    schedule = IN_FORCE if parameters is None else "the parameters given"
    overdue = habits.overdue_cards(learner.log, {each.group for each in presets}, question.after)
    assert overdue is not None
    counts = [len(each.index) for each in presets]
    desired = round(float(np.average([each.desired for each in presets], weights=counts)), 2)
    found = Workload(
        preset=learner.name_of(presets[0].group) if len(presets) == 1 else ALL_PRESETS,
        question=question,
        retentions=tuple(sorted({*question.retentions, desired})),
        reviews=sum(counts),
        desired=desired,
        presets=tuple((learner.name_of(each.group), each.desired) for each in presets),
        learned=sum(len(each.today) for each in presets),
        unseen=sum(each.today.new for each in presets),
        overdue=overdue,
        new_a_day=new,
        pace_days=max(pace[3] for pace in paces),
        done_a_day=round(sum(pace[1] for pace in paces)),
        minutes_a_day=sum(pace[2] for pace in paces),
        schedule=SM2 if is_off else schedule,
        seen=habits.seen_retentions(learner, np.concatenate([each.index for each in presets])),
        left_out=(*why_left_out(log).values(), *replaced.values()),
        first=(),
        draws=(),
        by_fsrs7=_scheduled_by_fsrs7(learner, presets, question, is_off=is_off),
    )
    return _refine(learner, presets, found)


def held_out_of_all(count: int) -> str:
    """So many of the reviews that are evaluated where nearly all cards are gone, in words."""
    return f"{counted(count, 'held-out review')}, also of suspended and deleted cards"


def _counted_elsewhere(log: ReviewLog, context: Context | None) -> str:
    """What the first screen counts where nearly all cards are gone, in brackets; "" elsewhere.

    Costs rest on the cards that Anki's optimizer takes, the first screen then on all of them.
    """
    if evaluated_by_preset(log):
        return ""
    with suppress(NotEnoughData):
        whole = Learner.of(log, context, WHOLE)
        return f" (the first screen counts {held_out_of_all(len(whole.trials.test_index))})"
    return ""


def _scheduled_by_fsrs7(
    learner: Learner, presets: Sequence[played.PresetCards], question: Question, *, is_off: bool
) -> tuple[str, ...]:
    """`Workload.by_fsrs7`."""
    if question.model == "FSRS-7":
        return ()
    names = []
    for preset in presets:
        runs_fsrs7 = preset.scheduler.model == "FSRS-7"
        if is_off:
            runs_fsrs7 = learner.runs_fsrs7(preset.group)
        if runs_fsrs7:
            names.append(learner.name_of(preset.group))
    return tuple(names)


def _shared_out(count: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers that sum to `count`, by weights."""
    added = np.cumsum(weights if sum(weights) > 0 else np.ones(len(weights)))
    return np.diff(np.round(count * added / added[-1]), prepend=0).astype(int).tolist()


def at_a_glance(log: ReviewLog, context: Context | None = None) -> Iterator[Finding]:
    """About what all cards take a day at some retentions: at once, and again with ranges.

    Raises InputError and NotEnoughData as `workload` does, but of few reviews says so.
    """
    try:
        coming = workload(log, question=Question(retentions=GLANCED), context=context)
    except _TooFewReviews as few:
        lacks, why = Missing(FEWEST_REVIEWS - few.reviews), TooFew(str(few))
        yield Finding(COSTS, ALL_REVIEWS, reviews=few.reviews, missing=lacks, evidence=why)
        return
    with closing(coming):
        yield next(coming).glance
        *_, last = coming
        yield last.glance


def document(found: Workload) -> dict[str, Any]:
    """As JSON has it, but for the words (layout: docs/formats.md)."""
    low, high = found.band
    parts = {"estimate": found.figures, "low": low, "high": high}
    return {
        "layout": 3,
        "srs_eval": VERSION,
        "preset": found.preset,
        "question": asdict(found.question),
        "desired_retention": found.desired,
        "schedule": found.schedule,
        "cards": {"learned": found.learned, "new": found.unseen, "overdue": found.overdue.cards},
        "overdue_minutes": found.overdue.minutes,
        "new_a_day": found.new_a_day,
        "done_a_day": found.done_a_day,
        "draws": len(found.draws),
        "retentions": [
            {"desired": retention, **{name: _named(part[place]) for name, part in parts.items()}}
            for place, retention in enumerate(found.retentions)
        ],
        "now": _named(found.as_now or found.figures[found.at(found.desired)]),
        "months_recalled": found.seen,
    }


def _named(figures: Sequence[float] | FloatArray) -> dict[str, float | None]:
    names = (name.replace(" ", "_") for name in FIGURES)
    values = (float(value) if math.isfinite(value) else None for value in figures)
    return dict(zip(names, values, strict=True))


def _refine(
    learner: Learner, presets: Sequence[played.PresetCards], found: Workload
) -> Generator[Workload]:
    """What is `found` before anything is simulated, better and better: courses of events run in
    threads, several draws ahead."""
    question, pool = found.question, ThreadPoolExecutor(cores())

    def curve(memories: Sequence[Memory], seeds: Sequence[int]) -> Callable[[], played.Runs]:
        """What happens at each desired retention: begun now, awaited when called."""
        parts = [
            (preset, memory, habits.deck_of(preset.today, memory, question.states))
            for preset, memory in zip(presets, memories, strict=True)
        ]

        def run(retention: float, seed: int) -> list[Future[Simulated]]:
            is_own = retention == found.desired
            return [
                pool.submit(each.course, memory, deck, seed, each.desired if is_own else retention)
                for each, memory, deck in parts
            ]

        waiting = [[run(retention, seed) for seed in seeds] for retention in found.retentions]
        return lambda: [[[each.result() for each in run] for run in runs] for runs in waiting]

    def known(**more: Any) -> Workload:
        made = replace(found, **more)
        learner.context.tick(made.share)
        return made

    def costs(at_each: played.Runs) -> tuple[_Figures, ...]:
        return tuple(_mean_figures(runs, question.budget) for runs in at_each)

    try:
        of_each = (played.fits(learner, each, question.draws, question.model) for each in presets)
        coming = zip(*of_each, strict=False)
        best = next(coming)
        first = curve(best, range(played.COURSES))()
        now = played.as_now(presets, best, question.states)
        found = known(
            first=costs(first),
            as_now=_mean_figures(now, question.budget) if now else None,
            held_back=played.held_back(presets, found.retentions, first),
        )
        yield found
        waiting: list[Callable[[], played.Runs]] = []
        for number in range(1, question.draws + 1):
            waiting.append(curve(next(coming), (number,)))
            ahead = 3 if number < question.draws else 0  # as many as keep the threads busy
            while len(waiting) > ahead:
                yield (found := known(draws=(*found.draws, costs(waiting.pop(0)()))))
        mark_kernels(_KERNELS)
    finally:
        pool.shutdown(cancel_futures=True)


def _mean_figures(runs: Sequence[Sequence[Simulated]], budget: float | None) -> _Figures:
    """What the presets (of each of the runs) cost together."""
    found = []
    for presets in runs:
        minutes: FloatArray = np.sum([each.seconds for each in presets], axis=0) / 60
        reviews = int(sum(each.reviews.sum() for each in presets))
        recalled = int(sum(each.recalled.sum() for each in presets))
        share = recalled / reviews if reviews else math.nan
        over = 0.0 if budget is None else (minutes > budget).sum()
        known = sum(each.known for each in presets)
        found.append((reviews / len(minutes), minutes.mean(), known, share, over))
    return tuple(np.mean(found, axis=0).tolist())


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
