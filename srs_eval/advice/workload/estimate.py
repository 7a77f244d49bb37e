"""What each desired retention costs a learner, and how sure that is.

    workload(log, ...) -> Iterator[Workload]

Each Workload is whole and knows more than the one before: first one course of events by the fit to
the learner's own reviews, beside what the parameters in force expect of themselves, then draw by
draw what else these reviews allow, then what may be wrong with the model itself. Closing the
iterator ends the work.

A draw is a fit to days drawn with replacement (`draws`); cards' states are followed through their
histories by it, it schedules, and answers are drawn from it: what the cards would cost somebody
whose parameters were known to be these. How many reviews there are hangs on the parameters first,
on chance little: both are told, for several courses of events are drawn from the same parameters.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from srs_eval.advice.candidates import Learner, refuse_without_presets
from srs_eval.advice.retention import months_of
from srs_eval.advice.workload.draws import draws, fitted
from srs_eval.advice.workload.habits import costs_of
from srs_eval.advice.workload.memories import Memory
from srs_eval.advice.workload.preview import Preview, preview
from srs_eval.advice.workload.rivals import BEST, REFERENCE, Judged, checked, fitted_memory, ranked
from srs_eval.advice.workload.simulator import Costs, Deck, Order, Settings, Simulated, simulate
from srs_eval.advice.workload.today import (
    SUSPENDED,
    States,
    Today,
    deck_of,
    memory_state,
    todays_cards,
)
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import LEARNING, REVIEW, FloatArray, Preset, ReviewLog
from srs_eval.data.selection import only_preset
from srs_eval.engine.session import Session
from srs_eval.engine.workers import cores
from srs_eval.models import fsrs6
from srs_eval.models.own_parameters import as_anki_runs, why_left_out
from srs_eval.training.compile import kernels_there, mark_kernels
from srs_eval.training.context import Context

RETENTIONS = tuple(round(percent / 100, 2) for percent in range(70, 100))
DRAWS = 50
_SEEDS = 3  # courses of events from the same parameters
_AGAIN = 12  # courses of events for what is asked at one retention only
ENDS = (0.05, 0.95)  # quantiles of the draws that a range lies between
MONTH = 30  # days of the backlog
_PACE_DAYS = 90  # over which one's own pace of new cards is taken
_DAY_S = 86_400
FEWEST_IN_MONTH = 50  # reviews for a month's retention to be one that was seen

FIGURES = ("reviews", "minutes", "known", "recalled", "over budget", "minutes per card")
"""A day (mean over all days): reviews, minutes. At the end: cards known. Share of reviews that
are passed. Days above the budget. Minutes in all per card known at the end."""
REVIEWS, MINUTES, KNOWN, RECALLED, OVER, PER_CARD = range(len(FIGURES))

# Anki's numbers of orders (proto/anki/deck_config.proto, ReviewCardOrder), as its simulator reads
# them; those that it does not know it takes as the last one here.
_ORDERS: dict[int, Order] = {
    0: "due",
    1: "due",
    2: "due",
    3: "interval, shortest first",
    4: "interval, longest first",
    5: "difficulty, hardest first",
    6: "difficulty, easiest first",
    7: "retrievability, lowest first",
    8: "random",
    11: "retrievability, highest first",
}


_KERNELS = "workload"  # what the simulation's kernels are marked by

# Where the work's parts begin, as shares of its time; draws come first, after the first estimate.
_DRAWS, _CHANCE, _MODELS, _OTHERS, _REST = 0.06, 0.75, 0.78, 0.88, 0.95

USUAL_DEVIATION, ITS_WEIGHT = 0.05, 4
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
    draws: int = DRAWS
    after: int = 0  # days without a review, from the last one in the log to the first simulated
    memory: str = BEST  # that answers are drawn from, too: of memories.MODELS, or the best one


@dataclass(frozen=True, eq=False)
class Wrong:
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
    judged: tuple[Judged, ...] = ()
    """How well models that can be simulated predict the preset's reviews, the best one first."""
    wrong: tuple[Wrong, ...] = ()
    backlog: tuple[float, float] | None = None
    """Reviews and minutes in the first month that are due to overdue cards."""
    paces: tuple[tuple[int, FloatArray], ...] = ()
    """At today's retention: new cards a day and what they cost (draws, FIGURES)."""
    previews: tuple[Preview, ...] = ()  # of intervals, by candidate
    left_out: tuple[str, ...] = ()
    """A sentence for each preset that is, for Anki does not run its parameters."""
    doing: Doing | None = None  # None: nothing more will come
    finished: bool = False

    @property
    def drawn(self) -> bool:
        """Whether all draws are there; a range of fewer would look surer than it is."""
        return len(self.draws) == self.question.draws

    @property
    def median(self) -> FloatArray:
        """(r, FIGURES) over the draws; while there are none, of the fit to all reviews."""
        return np.median(self.draws if len(self.draws) else self.seeds, axis=0)

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """The ends (r, FIGURES) that 90 % of the draws lie between."""
        low, high = np.quantile(self.draws if len(self.draws) else self.seeds, ENDS, axis=0)
        return low, high

    @property
    def chance(self) -> FloatArray:
        """Standard deviation (FIGURES,) that chance alone makes, relative to the mean."""
        if len(self.seeds) < 2:
            return np.full(len(FIGURES), np.nan)
        mean = np.maximum(self.seeds.mean(axis=0), 1e-9)
        return np.sqrt(np.mean(self.seeds.var(axis=0, ddof=1) / mean**2, axis=0))

    @property
    def spread(self) -> FloatArray:
        """The same of parameters and chance together."""
        if len(self.draws) < 2:
            return np.full(len(FIGURES), np.nan)
        mean = np.maximum(self.draws.mean(axis=0), 1e-9)
        return np.sqrt(np.mean(self.draws.var(axis=0, ddof=1) / mean**2, axis=0))

    @property
    def cheapest(self) -> tuple[float, float, float]:
        """The retention with the fewest minutes per card known: median of the draws, and band."""
        of_draws = self.draws if len(self.draws) else self.seeds
        least = self.retentions[np.argmin(of_draws[:, :, PER_CARD], axis=1)]
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
        variance = ITS_WEIGHT * (USUAL_DEVIATION * middle) ** 2 + beyond * seen
        variance /= ITS_WEIGHT + beyond
        missing = 1 / max(done, 1) - 1 / self.question.draws
        return 2.0 * float(np.sqrt(np.pi / 2 * variance * max(missing, 0.0)))

    def at(self, retention: float) -> int:
        """The place of the nearest retention."""
        return int(np.argmin(np.abs(self.retentions - retention)))


def beginning() -> Doing:
    """What is done until the first figures are there."""
    if kernels_there(_KERNELS):
        return Doing("playing your cards forward", 0.0)
    return Doing("preparing, about a minute once after an update", 0.0)


def _in_words(parameters: Sequence[float] | None) -> str:
    """What schedules: the parameters given, or by default those in force."""
    if parameters is None:
        return "parameters in force"
    return "defaults" if tuple(parameters) == tuple(fsrs6.DEFAULT) else "parameters given"


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
    settings_of = learner.log.presets.get(group)
    if settings_of is None:
        raise InputError(f"{log.receipt.path} does not say how these cards are scheduled.")
    if log.receipt.fsrs_enabled is False and parameters is None:
        raise InputError(
            f"FSRS is off in {log.receipt.path}, so that no desired retention is in force: turn it "
            "on in Anki's deck options, or give --params to ask what it would cost."
        )
    today = todays_cards(learner.log, group, question.after)
    pace, done, pace_days = _own_pace(learner.log, group)
    stored = settings_of.parameters_in_force if parameters is None else parameters
    in_force = Memory("FSRS-6", tuple(as_anki_runs(stored)))
    index = np.flatnonzero(learner.trials.partition == group)
    return _known_better(
        _Asked(
            learner=learner,
            group=group,
            index=index,
            question=question,
            today=today,
            scheduler=in_force,
            line=_in_words(parameters),
            settings=_settings(
                settings_of, question, pace if question.new_a_day is None else question.new_a_day
            ),
            costs=costs_of(learner.log, _cards_of(learner.log, group)),
            desired=settings_of.desired_retention or 0.9,
            months=_months(learner, index),
            pace_days=pace_days,
            done_a_day=done,
            presets=len(learner.groups) if preset is None else 1,
            left_out=tuple(why_left_out(log).values()),
        )
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    learner: Learner
    group: int
    index: np.ndarray  # positions of the preset's reviews among the trials
    question: Question
    today: Today
    scheduler: Memory  # the parameters in force, or given
    line: str  # which of these
    settings: Settings
    costs: Costs
    desired: float
    months: tuple[tuple[str, int, float], ...]
    pace_days: int
    done_a_day: int
    presets: int
    left_out: tuple[str, ...]
    retentions: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        asked = {*self.question.retentions, round(self.desired, 2)}
        object.__setattr__(self, "retentions", np.array(sorted(asked)))

    @property
    def new(self) -> int:
        return self.settings.new_a_day * self.settings.days

    def deck(self, memory: Memory) -> Deck:
        return replace(deck_of(self.today, memory, self.question.states), new=self.new)

    def figures(self, run: Simulated) -> FloatArray:
        days, minutes = self.settings.days, run.seconds / 60
        known, reviews = float(run.known[-1]), int(run.reviews.sum())
        budget = self.question.budget
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


def _known_better(asked: _Asked) -> Generator[Workload]:
    """Courses of events run in threads, several draws ahead."""
    pool = ThreadPoolExecutor(cores())

    def doing(words: str, share: float) -> Doing:
        asked.learner.context.tick(share)
        return Doing(words, share)

    def drawing(done: int) -> Doing:
        share = _DRAWS + (_CHANCE - _DRAWS) * done / asked.question.draws
        what = "parameters that your reviews allow"
        return doing(f"{what}: {done} of {asked.question.draws}", share)

    def curve(
        scheduler: Memory, deck: Deck, seed: int, memory: Memory | None = None
    ) -> list[Future[FloatArray]]:
        def one(retention: float) -> FloatArray:
            settings = replace(asked.settings, desired_retention=retention)
            run = simulate(scheduler, deck, asked.costs, settings, seed, memory)
            return asked.figures(run)

        return [pool.submit(one, retention) for retention in asked.retentions.tolist()]

    def gathered(futures: list[Future[FloatArray]]) -> FloatArray:
        return np.array([future.result() for future in futures])

    try:
        context = asked.learner.context
        deck = asked.deck(asked.scheduler)
        best = fitted(asked.learner.trials, asked.index, context)
        deck_of_best = asked.deck(best)
        first = [curve(asked.scheduler, deck, 0), curve(best, deck_of_best, 0)]
        unchanged = None
        if not _are_alike(best, asked.scheduler):
            unchanged = asked.figures(_unchanged(asked, deck, best))
        nothing = np.empty((0, len(asked.retentions), len(FIGURES)))
        found = Workload(
            preset=asked.learner.name_of(asked.group),
            question=asked.question,
            retentions=asked.retentions,
            desired=asked.desired,
            learned=len(asked.today),
            unseen=asked.today.new,
            overdue=asked.today.overdue,
            new_a_day=asked.settings.new_a_day,
            pace_days=asked.pace_days,
            done_a_day=asked.done_a_day,
            presets=asked.presets,
            left_out=asked.left_out,
            reviews=len(asked.index),
            limit=asked.settings.reviews_a_day,
            line=asked.line,
            in_force=gathered(first[0]),
            draws=nothing,
            seeds=gathered(first[1])[None],
            months=asked.months,
            unchanged=unchanged,
            doing=drawing(0),
        )
        yield found
        waiting: list[list[Future[FloatArray]]] = []
        done: list[FloatArray] = []
        kept: list[tuple[Memory, Deck]] = []
        drawn = draws(
            asked.learner.trials, asked.index, asked.question.draws, seed=1, context=context
        )
        for seed, memory in enumerate(drawn, start=1):
            kept.append((memory, asked.deck(memory)))
            waiting.append(curve(*kept[-1], seed))
            while len(waiting) > 3:  # as many as keep the threads busy
                done.append(gathered(waiting.pop(0)))
                found = replace(found, draws=np.array(done), doing=drawing(len(done)))
                yield found
        for last in waiting:
            done.append(gathered(last))
            found = replace(found, draws=np.array(done), doing=drawing(len(done)))
            yield found
        found = replace(found, doing=doing("how much of the ranges is chance", _CHANCE))
        yield found
        waiting = [curve(best, deck_of_best, seed) for seed in range(1, _SEEDS)]
        again = np.array([gathered(each) for each in waiting])
        found = replace(
            found,
            seeds=np.concatenate((found.seeds, again)),
            doing=doing("which model of memory predicts your reviews best", _MODELS),
        )
        yield found
        session = Session(replace(only_preset(asked.learner.log, str(asked.group)), user=None))
        found = replace(
            found,
            judged=_judged(session, asked.question.memory, context),
            doing=doing("your schedule, if other models of memory are right", _OTHERS),
        )
        yield found
        for memory in _others(asked, best, session, found.judged):
            runs = curve(asked.scheduler, _remembered_by(asked, deck, memory), 0, memory)
            tried = Wrong(memory.model, gathered(runs))
            found = replace(found, wrong=(*found.wrong, tried))
            yield found
        found = replace(
            found, doing=doing("overdue cards, and fewer or more new ones a day", _REST)
        )
        yield found
        mark_kernels(_KERNELS)
        found = replace(
            found,
            doing=None,
            backlog=_backlog(asked, best, deck_of_best),
            paces=_paces(asked, kept, found.draws[:, found.at(asked.desired)], pool),
            previews=_previews(asked, best),
            finished=True,
        )
        yield found
    finally:
        pool.shutdown(cancel_futures=True)


def _are_alike(best: Memory, scheduler: Memory) -> bool:
    return np.allclose(best.parameters, scheduler.parameters)


def _remembered_by(asked: _Asked, deck: Deck, memory: Memory) -> Deck:
    """The deck as its scheduler has it, with what a memory knows of it."""
    return replace(deck, memory_state=memory_state(asked.today, memory))


def _unchanged(asked: _Asked, deck: Deck, memory: Memory) -> Simulated:
    """Today's schedule at today's retention; the first of `Workload.wrong` has the same figures."""
    settings = replace(asked.settings, desired_retention=round(asked.desired, 2))
    cards = _remembered_by(asked, deck, memory)
    return simulate(asked.scheduler, cards, asked.costs, settings, 0, memory)


def _judged(session: Session, memory: str, context: Context) -> tuple[Judged, ...]:
    try:
        return tuple(ranked(session, context, memory))
    except NotEnoughData:
        return ()


def _others(
    asked: _Asked, best: Memory, session: Session, judged: Sequence[Judged]
) -> Iterator[Memory]:
    """Memories that the schedule is tried on: FSRS-6 fitted to all reviews, and the one asked
    for, or that of the others which predicts best."""
    if not _are_alike(best, asked.scheduler):
        yield best
    for each in judged:
        if each.model != REFERENCE:
            yield fitted_memory(session, each.model, asked.learner.context)
            return


def _backlog(asked: _Asked, memory: Memory, deck: Deck) -> tuple[float, float] | None:
    """The first month with and without the overdue cards, at today's retention."""
    late = asked.today.due_day < 0
    if not late.any():
        return None
    kept = np.flatnonzero(~late)
    rest = replace(
        deck,
        state=deck.state[:, kept],
        last_day=deck.last_day[kept],
        due_day=deck.due_day[kept],
        lapses=deck.lapses[kept],
    )
    settings = replace(
        asked.settings, desired_retention=asked.desired, days=min(MONTH, asked.settings.days)
    )
    costs = []
    for each in (deck, rest):
        runs = [simulate(memory, each, asked.costs, settings, seed) for seed in range(_AGAIN)]
        costs.append(
            (
                float(np.mean([run.reviews.sum() for run in runs])),
                float(np.mean([run.seconds.sum() for run in runs])) / 60,
            )
        )
    return costs[0][0] - costs[1][0], costs[0][1] - costs[1][1]


def _paces(
    asked: _Asked, kept: Sequence[tuple[Memory, Deck]], now: FloatArray, pool: ThreadPoolExecutor
) -> tuple[tuple[int, FloatArray], ...]:
    """Fewer and more new cards a day, at today's retention, by the draws `kept` (draws,).

    `now` (draws, FIGURES) is what they make of today's pace: it is not asked again, so that it is
    the same figure wherever it is told.
    """
    pace_now = asked.settings.new_a_day

    def one(pace: int, seed: int) -> FloatArray:
        memory, deck = kept[seed - 1]
        settings = replace(
            asked.settings, desired_retention=round(asked.desired, 2), new_a_day=pace
        )
        new = replace(deck, new=pace * settings.days)
        return asked.figures(simulate(memory, new, asked.costs, settings, seed))

    paces = sorted({0, pace_now // 2, pace_now, 2 * pace_now} if pace_now else {0, 5, 10, 20})
    waiting = {
        pace: [pool.submit(one, pace, seed) for seed in range(1, len(kept) + 1)]
        for pace in paces
        if pace != pace_now
    }
    return tuple(
        (pace, now if pace == pace_now else np.array([each.result() for each in waiting[pace]]))
        for pace in paces
    )


def _previews(asked: _Asked, best: Memory) -> tuple[Preview, ...]:
    candidates = {
        f"the {asked.line}": asked.scheduler,
        "optimized ones": best,
        "the defaults": Memory("FSRS-6", best.recurrent.default),
    }
    preset = asked.learner.log.presets[asked.group]
    return tuple(
        preview(name, memory, asked.today, preset, asked.desired)
        for name, memory in candidates.items()
    )


def _cards_of(log: ReviewLog, group: int) -> np.ndarray:
    """Cards of a preset that are not suspended, as Anki's simulator looks for them."""
    assert log.schedule is not None
    of_preset = log.preset_of(log.deck_of(log.schedule.card_id)) == group
    return log.schedule.card_id[of_preset & (log.schedule.queue != SUSPENDED)]


def _settings(preset: Preset, question: Question, new: int) -> Settings:
    return Settings(
        days=question.days,
        new_a_day=new,
        reviews_a_day=9999 if preset.reviews_a_day is None else preset.reviews_a_day,
        new_ignore_review_limit=preset.new_ignore_review_limit,
        maximum_interval=preset.maximum_interval or 36_500,
        learning_steps=len(preset.learning_steps),
        relearning_steps=len(preset.relearning_steps),
        order=_ORDERS.get(preset.review_order, "difficulty, easiest first"),
        known_every=question.days,  # only the end is told
    )


def _own_pace(log: ReviewLog, group: int) -> tuple[int, int, int]:
    """New cards and reviews a day of late, rounded, and the days that this is seen over.

    New is a card on the day of its first learning; steps of learning are no reviews. The days are
    the last `_PACE_DAYS`, or all since the first answer to the preset's cards where they are fewer.
    """
    assert log.entries is not None
    assert log.day_grid is not None
    entries = log.entries
    mine = np.isin(entries.card_id, _cards_of(log, group))
    if not mine.any():
        return 0, 0, _PACE_DAYS
    end_ms, day_ms = 1000 * log.day_grid.next_day_at_s, 1000 * _DAY_S
    days = min(_PACE_DAYS, max(1, -((int(entries.time_ms[mine].min()) - end_ms) // day_ms)))
    learned = mine & (entries.kind == LEARNING)
    _, first = np.unique(entries.card_id[learned], return_index=True)
    since_ms = end_ms - days * day_ms
    new = int((entries.time_ms[learned][first] >= since_ms).sum())
    of_preset = log.preset_of(log.deck_of(entries.card_id)) == group  # suspended ones as well
    done = int((of_preset & (entries.kind == REVIEW) & (entries.time_ms >= since_ms)).sum())
    return round(new / days), round(done / days), days


def _months(learner: Learner, index: np.ndarray) -> tuple[tuple[str, int, float], ...]:
    """What was remembered in each month with reviews, the last twelve."""
    months = months_of(learner.time_s[index])
    found = []
    for month in np.unique(months)[-12:].tolist():
        part = index[months == month]
        found.append((month, len(part), float(learner.trials.y[part].mean())))
    return tuple(found)


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
    if not 1 <= question.days <= 3650:
        raise InputError(f"--days {question.days} is not between 1 and 3650.")
    if question.new_a_day is not None and not 0 <= question.new_a_day <= 999:
        raise InputError(f"--new {question.new_a_day} is not between 0 and 999.")
    if not 0 <= question.after <= 3650:
        raise InputError(f"--after {question.after} is not between 0 and 3650.")
    if question.draws < 1:
        raise InputError(f"{question.draws} draws of parameters tell nothing: ask for 1 or more.")
    if question.budget is not None and not 0 < question.budget <= 1440:
        raise InputError(f"--budget {question.budget:g} is no number of minutes in a day.")
    return question
