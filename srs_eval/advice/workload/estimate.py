"""What each desired retention costs a learner, and how sure that is.

    workload(log, ...) -> Iterator[Workload]

Each Workload is whole and knows more than the one before: first one course of events by the fit to
the learner's own reviews, beside what the parameters in force expect of themselves, then draw by
draw what else these reviews allow, then what may be wrong with the model itself. Closing the
iterator ends the work.

A draw is a fit to days drawn with replacement (`memories.draws`); cards' states are followed
through their histories by it, it schedules, and answers are drawn from it: what the cards would
cost somebody whose parameters were known to be these. How many reviews there are hangs on the
parameters first, on chance little: both are told, for several courses of events are drawn from the
same parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srs_eval.advice.candidates import Learner, refuse_without_presets
from srs_eval.advice.workload.memories import (
    BEST,
    REFERENCE,
    Memory,
    Score,
    checked,
    draws,
    fitted,
    fitted_memory,
    ranked,
)
from srs_eval.advice.workload.preview import Preview, previews
from srs_eval.advice.workload.simulator import Costs, Deck, Settings, simulate
from srs_eval.advice.workload.today import (
    States,
    Today,
    cards_of,
    costs_of,
    deck_of,
    memory_state,
    own_pace,
    recalled_by_month,
    settings_of,
    todays_cards,
)
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray, Preset, ReviewLog
from srs_eval.data.selection import only_preset
from srs_eval.engine.session import Session
from srs_eval.engine.workers import cores
from srs_eval.models import fsrs6
from srs_eval.models.own_parameters import as_anki_runs, why_left_out
from srs_eval.stats.intervals import EQUIVALENT
from srs_eval.training.compile import kernels_there, mark_kernels
from srs_eval.training.context import Context

RETENTIONS = tuple(round(percent / 100, 2) for percent in range(70, 100))
_SEEDS = 3  # courses of events from the same parameters
_AGAIN = 12  # courses of events for what is asked at one retention only
ENDS = (0.05, 0.95)  # quantiles of the draws that a range lies between
MONTH = 30  # days of the backlog
FEWEST_IN_MONTH = 50  # reviews for a month's retention to be one that was seen

FIGURES = ("reviews", "minutes", "known", "recalled", "over budget", "minutes per card")
"""A day (mean over all days): reviews, minutes. At the end: cards known. Share of reviews that
are passed. Days above the budget. Minutes in all per card known at the end."""
REVIEWS, MINUTES, KNOWN, RECALLED, OVER, PER_CARD = range(len(FIGURES))

_KERNELS = "workload"  # what the simulation's kernels are marked by

# Where the work's parts begin, as shares of its time; draws come first, after the first estimate.
_DRAWS, _CHANCE, _MODELS, _OTHERS, _REST = 0.06, 0.75, 0.78, 0.88, 0.95

_USUAL_DEVIATION, _ITS_WEIGHT = 0.05, 4
"""Of draws, relative: what most learners' have (half of the bands are narrower than 16 %, see
docs/workload.md), and as many draws as that counts for while there are few."""


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
    memory: str = BEST  # that answers are drawn from, too: of memories.MODELS, or the best one
    equivalence: float = EQUIVALENT  # differences in log loss within it count as none


@dataclass(frozen=True, eq=False)
class Mismatch:
    """The schedule of the parameters in force, with answers drawn from another model."""

    model: str  # that remembers, of memories.MODELS
    figures: FloatArray  # (retentions, FIGURES)

    @property
    def name(self) -> str:
        return f"{self.model}, optimized"


@dataclass(frozen=True)
class Doing:
    """What is being computed, and how much of all the work lies behind it (0-1)."""

    words: str
    share: float


@dataclass(frozen=True, eq=False)
class Workload:
    """What is known so far of what r desired retentions cost."""

    preset: str
    question: Question
    retentions: FloatArray  # (r,)
    desired: float  # today's
    reviews: int  # that its parameters can be fitted to
    learned: int  # cards
    unseen: int  # new cards that the preset has
    overdue: int
    new_a_day: int
    pace_days: int  # the days that one's own pace was seen over
    done_a_day: int  # reviews in these
    presets: int  # that this one was chosen from, as that with the most reviews; 1 if named
    limit: int  # reviews a day, by the preset
    line: str  # what "in force" is here, in words
    in_force: FloatArray  # (r, FIGURES) as the parameters in force expect of themselves
    draws: FloatArray  # (draws so far, r, FIGURES)
    seeds: FloatArray  # (courses of events, r, FIGURES), all from the parameters fitted to all
    months: tuple[tuple[str, int, float], ...]  # the last ones: name, reviews, share recalled
    unchanged: FloatArray | None = None
    """What today's retention costs (FIGURES,) while the parameters in force go on scheduling, for
    a memory of the fit to all reviews. None where the fit is what is in force."""
    scores: tuple[Score, ...] = ()  # models that can be simulated, the best one first
    mismatches: tuple[Mismatch, ...] = ()
    backlog: tuple[float, float] | None = None  # reviews, minutes of MONTH for overdue cards
    paces: tuple[tuple[int, FloatArray], ...] = ()
    """At today's retention: new cards a day and what they cost (draws, FIGURES)."""
    previews: tuple[Preview, ...] = ()  # of intervals, by candidate
    left_out: tuple[str, ...] = ()  # sentences on presets whose parameters Anki does not run
    doing: Doing | None = None  # None: nothing more will come
    finished: bool = False

    @property
    def drawn(self) -> bool:
        """Whether all draws are there; a range of fewer would look surer than it is."""
        return len(self.draws) == self.question.draws

    @property
    def _runs(self) -> FloatArray:
        """The draws (k, r, FIGURES); while there are none, runs of the fit to all reviews."""
        return self.draws if len(self.draws) else self.seeds

    @property
    def median(self) -> FloatArray:
        """(r, FIGURES) over the draws; while there are none, of the fit to all reviews."""
        return np.median(self._runs, axis=0)

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """The ends (r, FIGURES) that 90 % of the draws lie between."""
        low, high = np.quantile(self._runs, ENDS, axis=0)
        return low, high

    @property
    def chance(self) -> FloatArray:
        """Standard deviation (FIGURES,) that chance alone makes, relative to the mean."""
        return _deviation(self.seeds)

    @property
    def spread(self) -> FloatArray:
        """The same of parameters and chance together."""
        return _deviation(self.draws)

    @property
    def cheapest(self) -> tuple[float, float, float]:
        """The retention with the fewest minutes per card known: median of the draws, and band."""
        least = self.retentions[np.argmin(self._runs[:, :, PER_CARD], axis=1)]
        low, middle, high = np.quantile(least, (ENDS[0], 0.5, ENDS[1]), method="nearest")
        return float(middle), float(low), float(high)

    @property
    def seen(self) -> tuple[float, float] | None:
        """The lowest and the highest retention of a month; None where no month had enough."""
        shares = [share for _, count, share in self.months if count >= FEWEST_IN_MONTH]
        return (min(shares), max(shares)) if shares else None

    def may_move(self, place: int, figure: int) -> float:
        """How far a median may still move until all draws are there: two standard errors.

        While there are few draws, their deviation is drawn to the usual one.
        """
        done = len(self.draws)
        middle = abs(float(self.median[place, figure]))
        seen = float(np.var(self.draws[:, place, figure], ddof=1)) if done > 1 else 0.0
        beyond = max(done - 1, 0)
        variance = _ITS_WEIGHT * (_USUAL_DEVIATION * middle) ** 2 + beyond * seen
        variance /= _ITS_WEIGHT + beyond
        missing = 1 / max(done, 1) - 1 / self.question.draws
        return 2.0 * float(np.sqrt(np.pi / 2 * variance * max(missing, 0.0)))

    def at(self, retention: float) -> int:
        """The place of the nearest retention."""
        return int(np.argmin(np.abs(self.retentions - retention)))


def _deviation(runs: FloatArray) -> FloatArray:
    """Of the runs (k, r, FIGURES), relative to their mean: (FIGURES,)."""
    if len(runs) < 2:
        return np.full(len(FIGURES), np.nan)
    mean = np.maximum(runs.mean(axis=0), 1e-9)
    return np.sqrt(np.mean(runs.var(axis=0, ddof=1) / mean**2, axis=0))


def beginning() -> Doing:
    """What is done until the first figures are there."""
    words = "preparing, about a minute once after an update"
    return Doing("playing your cards forward" if kernels_there(_KERNELS) else words, 0.0)


def workload(
    log: ReviewLog,
    preset: str | None = None,
    question: Question | None = None,
    *,
    parameters: Sequence[float] | None = None,
    context: Context | None = None,
) -> Generator[Workload]:
    """What a preset's cards cost, better known with every item.

    `preset` is a name or an id, by default that with the most reviews; `parameters` stand in for
    those in force (17, 19 or 21 numbers). Raises InputError for what the log does not tell, for
    a question that makes no sense and where FSRS is off, NotEnoughData for too few reviews.
    """
    question = _checked(question or Question())
    refuse_without_presets(log)
    log = log if preset is None else only_preset(log, preset)
    if parameters is not None:  # whatever is stored
        bare = {key: replace(each, fsrs_parameters={}) for key, each in log.presets.items()}
        log = replace(log, presets=bare)
    learner = Learner.of(log, context)
    group = next(iter(learner.groups))
    stored = learner.log.presets.get(group)
    if stored is None:
        raise InputError(f"{log.receipt.path} does not say how these cards are scheduled.")
    if log.receipt.fsrs_enabled is False and parameters is None:
        raise InputError(
            f"FSRS is off in {log.receipt.path}, so that no desired retention is in force: turn it "
            "on in Anki's deck options, or give --params to ask what it would cost."
        )
    today = todays_cards(learner.log, group, question.after)
    pace, done, pace_days = own_pace(learner.log, group)
    new = pace if question.new_a_day is None else question.new_a_day
    in_force = stored.parameters_in_force if parameters is None else parameters
    scheduler = Memory("FSRS-6", tuple(as_anki_runs(in_force)))
    index = np.flatnonzero(learner.trials.partition == group)
    settings = settings_of(stored, question.days, new)
    line = "parameters in force" if parameters is None else "parameters given"
    if parameters is not None and tuple(parameters) == tuple(fsrs6.DEFAULT):
        line = "defaults"
    desired = stored.desired_retention or 0.9
    retentions = np.array(sorted({*question.retentions, round(desired, 2)}))
    nothing = np.empty((0, len(retentions), len(FIGURES)))
    found = Workload(
        preset=learner.name_of(group),
        question=question,
        retentions=retentions,
        desired=desired,
        reviews=len(index),
        learned=len(today),
        unseen=today.new,
        overdue=today.overdue,
        new_a_day=new,
        pace_days=pace_days,
        done_a_day=done,
        presets=len(learner.groups) if preset is None else 1,
        limit=settings.reviews_a_day,
        line=line,
        in_force=nothing,
        draws=nothing,
        seeds=nothing,
        months=recalled_by_month(learner, index),
        left_out=tuple(why_left_out(log).values()),
    )
    costs = costs_of(learner.log, cards_of(learner.log, group))
    return _refine(
        _Preset(learner, group, stored, index, question, today, scheduler, settings, costs), found
    )


@dataclass(frozen=True, eq=False)
class _Preset:
    learner: Learner
    group: int
    stored: Preset
    index: np.ndarray  # positions of the preset's reviews among the trials
    question: Question
    today: Today
    scheduler: Memory  # the parameters in force, or given
    settings: Settings
    costs: Costs

    def deck(self, memory: Memory) -> Deck:
        made = deck_of(self.today, memory, self.question.states)
        return replace(made, new=self.settings.new_a_day * self.settings.days)

    def remembered_by(self, memory: Memory, deck: Deck) -> Deck:
        """The deck as its scheduler has it, with what a memory knows of it."""
        return replace(deck, memory_state=memory_state(self.today, memory))

    def figures(
        self, scheduler: Memory, deck: Deck, seed: int, memory: Memory | None = None, **changed: Any
    ) -> FloatArray:
        """What one course of events costs (FIGURES,), with some settings changed."""
        settings = replace(self.settings, **changed)
        run = simulate(scheduler, deck, self.costs, settings, seed, memory)
        days, minutes, reviews = settings.days, run.seconds / 60, int(run.reviews.sum())
        budget, known = self.question.budget, float(run.known[-1])
        return np.array(
            [
                reviews / days,
                minutes.sum() / days,
                known,
                run.recalled.sum() / reviews if reviews else np.nan,
                0.0 if budget is None else float((minutes > budget).sum()),
                minutes.sum() / max(known, 1e-9),
            ]
        )


def _refine(preset: _Preset, found: Workload) -> Generator[Workload]:
    """What is `found` of a preset before anything is simulated, better and better: courses of
    events run in threads, several draws ahead."""
    learner, question, scheduler = preset.learner, preset.question, preset.scheduler
    context, pool = learner.context, ThreadPoolExecutor(cores())

    def then(words: str, share: float, **known: Any) -> Workload:
        context.tick(share)
        return replace(found, doing=Doing(words, share), **known)

    def drawing(done: int, **known: Any) -> Workload:
        words = f"parameters that your reviews allow: {done} of {question.draws}"
        return then(words, _DRAWS + (_CHANCE - _DRAWS) * done / question.draws, **known)

    def curve(*course: Any) -> Callable[[], FloatArray]:
        """What all desired retentions cost (r, FIGURES): begun now, awaited when called."""
        waiting = [
            pool.submit(preset.figures, *course, desired_retention=each)
            for each in found.retentions.tolist()
        ]
        return lambda: np.array([each.result() for each in waiting])

    try:
        best = fitted(learner.trials, preset.index, context)
        deck, deck_of_best = preset.deck(scheduler), preset.deck(best)
        in_force, seeds = curve(scheduler, deck, 0), [curve(best, deck_of_best, 0)]
        is_in_force, unchanged = np.allclose(best.parameters, scheduler.parameters), None
        if not is_in_force:
            cards, today = preset.remembered_by(best, deck), round(found.desired, 2)
            unchanged = preset.figures(scheduler, cards, 0, best, desired_retention=today)
        first = seeds[0]()[None]
        found = drawing(0, in_force=in_force(), seeds=first, unchanged=unchanged)
        yield found
        kept: list[tuple[Memory, Deck]] = []
        done: list[FloatArray] = []
        waiting: list[Callable[[], FloatArray]] = []
        for memory in draws(learner.trials, preset.index, question.draws, 1, context):
            kept.append((memory, preset.deck(memory)))
            waiting.append(curve(*kept[-1], len(kept)))
            ahead = 3 if len(kept) < question.draws else 0  # as many as keep the threads busy
            while len(waiting) > ahead:
                done.append(waiting.pop(0)())
                yield (found := drawing(len(done), draws=np.array(done)))
        yield (found := then("how much of the ranges is chance", _CHANCE))
        seeds += [curve(best, deck_of_best, seed) for seed in range(1, _SEEDS)]
        again = np.array([each() for each in seeds])
        words = "which model of memory predicts your reviews best"
        yield (found := then(words, _MODELS, seeds=again))
        session = Session(replace(only_preset(learner.log, str(preset.group)), user=None))
        scores = ranked(session, context, question.memory, question.equivalence)
        words = "your schedule, if other models of memory are right"
        yield (found := then(words, _OTHERS, scores=scores))
        for memory in _others(None if is_in_force else best, session, scores, context):
            runs = curve(scheduler, preset.remembered_by(memory, deck), 0, memory)
            wrong = Mismatch(memory.model, runs())
            yield (found := replace(found, mismatches=(*found.mismatches, wrong)))
        yield (found := then("overdue cards, and fewer or more new ones a day", _REST))
        mark_kernels(_KERNELS)
        candidates = {
            f"the {found.line}": scheduler.parameters,
            "optimized ones": best.parameters,
            "the defaults": fsrs6.DEFAULT,
        }
        yield replace(
            found,
            doing=None,
            backlog=_backlog(preset, found.desired, best, deck_of_best),
            paces=_paces(preset, found, kept, pool),
            previews=previews(candidates, preset.today, preset.stored, found.desired),
            finished=True,
        )
    finally:
        pool.shutdown(cancel_futures=True)


def _others(
    best: Memory | None, session: Session, scores: Sequence[Score], context: Context
) -> Iterator[Memory]:
    """Memories that the schedule is tried on: the fit to all reviews, where it is not in force,
    and the model asked for, or that of the others which predicts best."""
    if best is not None:
        yield best
    for each in scores:
        if each.model != REFERENCE:
            yield fitted_memory(session, each.model, context)
            return


def _backlog(
    preset: _Preset, desired: float, memory: Memory, deck: Deck
) -> tuple[float, float] | None:
    """The first month with and without the overdue cards, at today's retention."""
    kept = preset.today.due_day >= 0
    if kept.all():
        return None
    rest = replace(
        deck,
        state=deck.state[:, kept],
        last_day=deck.last_day[kept],
        due_day=deck.due_day[kept],
    )
    days = min(MONTH, preset.settings.days)
    settings = replace(preset.settings, desired_retention=desired, days=days)

    def mean(cards: Deck) -> tuple[float, float]:
        runs = [simulate(memory, cards, preset.costs, settings, seed) for seed in range(_AGAIN)]
        seconds = float(np.mean([run.seconds.sum() for run in runs]))
        return float(np.mean([run.reviews.sum() for run in runs])), seconds / 60

    (reviews, minutes), without = mean(deck), mean(rest)
    return reviews - without[0], minutes - without[1]


def _paces(
    preset: _Preset, found: Workload, kept: Sequence[tuple[Memory, Deck]], pool: ThreadPoolExecutor
) -> tuple[tuple[int, FloatArray], ...]:
    """Fewer and more new cards a day, at today's retention, by the draws `kept` (draws,); of
    today's pace the figures that `found` has, so that they are the same wherever they are told."""
    now, today = found.new_a_day, round(found.desired, 2)

    def one(pace: int, seed: int) -> FloatArray:
        memory, deck = kept[seed - 1]
        new = replace(deck, new=pace * preset.settings.days)
        return preset.figures(memory, new, seed, desired_retention=today, new_a_day=pace)

    paces = sorted({0, now // 2, now, 2 * now} if now else {0, 5, 10, 20})
    waiting = {
        pace: [pool.submit(one, pace, seed) for seed in range(1, len(kept) + 1)]
        for pace in paces
        if pace != now
    }
    runs = {pace: np.array([each.result() for each in waiting[pace]]) for pace in waiting}
    runs[now] = found.draws[:, found.at(found.desired)]
    return tuple((pace, runs[pace]) for pace in paces)


def _checked(question: Question) -> Question:
    for retention in question.retentions:
        if not 0.5 <= retention <= 0.995:
            raise InputError(
                f"A desired retention of {retention:g} cannot be asked for: give numbers from "
                "0.5 to 0.995, such as 0.8,0.85,0.9."
            )
    question = replace(question, memory=checked(question.memory))
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
    if question.draws < 1:
        raise InputError(f"{question.draws} draws of parameters tell nothing: ask for 1 or more.")
    if question.budget is not None and not 0 < question.budget <= 1440:
        raise InputError(f"--budget {question.budget:g} is no number of minutes in a day.")
    return question
