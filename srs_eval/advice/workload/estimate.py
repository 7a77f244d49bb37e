"""Estimate the cost of each desired retention for a learner, with its uncertainty.

    workload(log, ...) -> Iterator[Workload]

Each Workload contains more than the one before. The first has the cost by the fit to the learner's
own reviews, beside the cost of today's schedule on the same cards. The others add draws of the
other parameters that these reviews allow: the figures stay the same, and the last has a range for
each. Closing the iterator ends the work. The cards of each preset are simulated by its own
settings, and the costs of several presets are summed.

Presets for which new parameters are advised are scheduled by the fit to all reviews; the others
keep their current parameters.

A draw is a fit to days drawn with replacement (`simulator.draw_memories`). It is taken to be the
learner's memory: cards are scheduled as advised, or by today's schedule, and answers follow the
draw. So the draws differ in what may happen to this learner, while the schedule is the one that the
learner would have. Only existing cards are simulated: when all new ones have been learned, no
others follow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from srs_eval.advice.candidates import (
    ALL_REVIEWS_PROTOCOL,
    Learner,
    can_evaluate_by_preset,
    explain_too_few,
    require_presets,
)
from srs_eval.advice.findings import (
    ALL_PRESETS,
    ALL_REVIEWS,
    CANT_TELL,
    Evidence,
    Finding,
    MissingData,
)
from srs_eval.advice.parameters import assess_parameters, find_unchanged_presets
from srs_eval.advice.workload import limits, ranges
from srs_eval.advice.workload import presets as preset_simulation
from srs_eval.advice.workload import today as habits
from srs_eval.advice.workload.limits import DailyLimit, LimitEffects
from srs_eval.advice.workload.presets import CardMemories, ScheduledDecks
from srs_eval.advice.workload.ranges import (
    FIGURES,
    KNOWN,
    RECALLED,
    ScheduleComparison,
    compare_schedules,
)
from srs_eval.advice.workload.simulator import SM2, TRAINABLES, Memory, SimulationResult
from srs_eval.data.arguments import check_numbers, check_texts, check_type
from srs_eval.data.errors import InputError, NotEnoughData, format_count
from srs_eval.data.paths import VERSION
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.data.rows import select_presets
from srs_eval.engine.workers import count_cores
from srs_eval.models.own_parameters import explain_left_out_presets, model_name, why_replaced
from srs_eval.stats.intervals import MIN_REVIEWS
from srs_eval.training.compile import has_kernels, mark_kernels
from srs_eval.training.hyperparameters import Context

RETENTIONS = tuple(round(percent / 100, 2) for percent in range(70, 100))
GLANCE_RETENTIONS = (0.80, 0.85, 0.90, 0.95)  # desired retentions at a glance, besides today's
COMPARED_RETENTIONS = (0.70, *GLANCE_RETENTIONS, 0.97)
"""Desired retentions that are simulated at a glance. The outer ones are not shown: they serve the
comparison with today's schedule, which may remember less or more than the others."""
HIGHEST_RETENTION = 0.99
"""Simulated at a glance only if today's schedule remembers about as much as the highest of
COMPARED_RETENTIONS would, or more: it costs the most time."""
_NEAR_HIGHEST = 1.25  # shares forgotten that differ by less than this factor are about the same
COSTS = "costs"  # name of the question at a glance
IN_FORCE = "your current parameters"  # name of today's schedule
BY_GIVEN_PARAMETERS = "the parameters given"  # its name where the user gave parameters
Assumption = Literal["advised", "current", "optimized"]
"""Parameters that a workload assumes: the advised ones (optimized where new ones are advised, else
current), the current ones (FSRS's defaults while it is off), or optimized ones in all presets."""
_Figures = tuple[float, ...]  # (FIGURES,)
_PendingSimulations = list[list[list[Future[SimulationResult]]]]  # like `presets.Simulations`
_KERNEL_MARK = "workload"  # mark of the simulation's kernels


class _TooFewReviews(NotEnoughData):
    """Error for too few reviews to estimate costs."""

    reviews = 0  # how many there are; set by `_make_learner`


@dataclass(frozen=True)
class TooFewForCosts(Evidence):
    """Evidence that there are too few reviews to estimate costs."""

    reason: str
    conclusion: str = CANT_TELL


@dataclass(frozen=True)
class WorkloadQuestion:
    """Question about the workload of one preset, or of all presets."""

    retentions: tuple[float, ...] = RETENTIONS
    days: int = 365
    new_a_day: int | None = None  # None: the recent pace
    budget: float | None = None  # minutes a day
    states: habits.States = "history"
    draws: int = 36
    after: int = 0  # days without a review, from the last one in the log to the first simulated
    model: str = "FSRS-6"  # of TRAINABLES: it is fitted, and determines recall and intervals
    with_sm2: bool = False  # simulate SM-2, too, where FSRS is on
    assume: Assumption = "advised"


@dataclass(frozen=True)
class ScheduleEstimate:
    """Estimate so far of what the cards cost under one schedule."""

    figures: _Figures  # (FIGURES,)
    limit_effects: LimitEffects
    draws: tuple[_Figures, ...] = ()  # (draws so far, FIGURES)


@dataclass(frozen=True)
class Workload(Evidence):
    """Estimate so far of what r desired retentions cost, with the parameters assumed."""

    preset: str  # the preset's name, or ALL_PRESETS
    question: WorkloadQuestion
    retentions: tuple[float, ...]  # (r,)
    reviews: int  # available for fitting parameters
    desired: float  # today's; for several presets the mean by reviews (each uses its own)
    presets: tuple[tuple[str, float], ...]  # name and desired retention of each preset
    learned_cards: int  # learned cards
    unseen_cards: int  # new cards
    overdue: habits.OverdueCards
    new_a_day: int
    pace_days: int  # days over which the learner's pace was measured
    recent_reviews_a_day: int  # reviews a day over these days
    recent_minutes_a_day: float
    schedule: str  # name of today's schedule; SM2 if FSRS is off
    observed_retentions: tuple[float, float] | None  # lowest and highest share recalled in a month
    excluded_preset_sentences: tuple[str, ...]
    """Sentences about presets whose parameters Anki cannot use."""
    estimates: tuple[_Figures, ...]  # (r, FIGURES) by the fit to all reviews
    draws: tuple[tuple[_Figures, ...], ...]  # (draws so far, r, FIGURES)
    unchanged_presets: tuple[str, ...] = ()  # names of the presets with their current parameters
    current_figures: _Figures | None = None
    """Cost of the same cards (FIGURES,) while today's schedule continues and recall follows the fit
    to all reviews. None if today's schedule is the one of the estimates."""
    current_draws: tuple[_Figures, ...] = ()
    """The same (draws so far, FIGURES) with recall by each draw."""
    limit_effects: tuple[LimitEffects, ...] = ()  # (r,) in all simulations so far
    current_limit_effects: LimitEffects | None = None
    """The same under today's schedule; None where `current_figures` is."""
    review_limits: tuple[DailyLimit, ...] = ()
    """Limits of reviews a day for which cards wait, the one for which most wait first."""
    new_limits: tuple[DailyLimit, ...] = ()
    """Limits of new cards a day that the learner reaches on most days with new cards."""
    new_allowed_a_day: int | None = None  # by the limits of all presets; None if one is unknown
    recent_minutes_on_begun_cards: float = 0.0
    """Minutes a day, of `recent_minutes_a_day`, for cards that were begun in these days."""
    recalled_until_now: float | None = None  # share of the reviews until now
    cards_due: int = 0  # learned cards whose next review Anki has set within the question's days
    sm2: ScheduleEstimate | None = None  # if FSRS is on and the question asks for SM-2, too
    by_fsrs7: tuple[str, ...] = ()
    """If the question is about FSRS-6: presets that FSRS-7 schedules today (all of them if the user
    gave FSRS-7 parameters) or would schedule with FSRS on; in the order of `presets`."""
    conclusion: str = "see figures"

    @property
    def is_fsrs_off(self) -> bool:
        """Return True if FSRS is off; the figures are then those with FSRS on."""
        return self.schedule == SM2

    @property
    def keeps_all(self) -> bool:
        """Return True if all presets have their current parameters."""
        return bool(self.unchanged_presets) and len(self.unchanged_presets) == len(self.presets)

    @property
    def has_all_draws(self) -> bool:
        """Return True if all draws are done; a range of fewer would look surer than it is.

        Estimates saved by older versions have no draws of today's schedule, and so no ranges.
        """
        if self.current_figures is not None and len(self.current_draws) != len(self.draws):
            return False
        return len(self.draws) == self.question.draws

    @property
    def progress_text(self) -> str:
        """Text about the current step of the computation."""
        done = f"{len(self.draws)} of {self.question.draws}"
        return f"simulating versions of your memory: {done}"

    @property
    def progress(self) -> float:
        """Share of the whole work that is done."""
        return (1 + len(self.draws)) / (1 + self.question.draws)

    @property
    def figures(self) -> FloatArray:
        """Estimate (r, FIGURES), the same with and without ranges."""
        return np.array(self.estimates)

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """Ends (r, FIGURES) of the 95 % ranges around the figures."""
        if not self.has_all_draws:
            return self.figures, self.figures
        return ranges.find_ends(self.figures, np.array(self.draws), self._limits, self.recalled_now)

    @property
    def current_band(self) -> tuple[FloatArray, FloatArray]:
        """Ends (FIGURES,) of the ranges around `current_figures`."""
        assert self.current_figures is not None
        figures = np.array(self.current_figures)
        if not self.has_all_draws:
            return figures, figures
        return ranges.find_ends(
            figures, np.array(self.current_draws), self._limits, self.recalled_now
        )

    @property
    def sm2_band(self) -> tuple[FloatArray, FloatArray]:
        """Ends (FIGURES,) of the ranges around SM-2's figures."""
        assert self.sm2 is not None
        figures = np.array(self.sm2.figures)
        if not self.has_all_draws:
            return figures, figures
        return ranges.find_ends(figures, np.array(self.sm2.draws), self._limits, self.recalled_now)

    @property
    def is_limited(self) -> np.ndarray:
        """Return for each retention (r,) if a limit of reviews a day decides its figures."""
        if not self.limit_effects:  # an estimate of an older version does not know
            return np.zeros(len(self.retentions), np.bool_)
        return np.array([effects.is_limited for effects in self.limit_effects])

    @property
    def is_current_limited(self) -> bool:
        """Return True if a limit of reviews a day decides the figures of today's schedule."""
        if self.current_figures is None:
            return bool(self.is_limited[self.at(self.desired)])
        return self.current_limit_effects is not None and self.current_limit_effects.is_limited

    @property
    def new_left(self) -> int:
        """Number of new cards that are left at the end, at the desired retention."""
        if not self.limit_effects:
            return 0
        return self.unseen_cards - round(self.limit_effects[self.at(self.desired)].mean_new_cards)

    @property
    def new_planned(self) -> int:
        """Number of new cards that are begun if no limit of reviews holds them back."""
        return min(self.unseen_cards, self.new_a_day * self.question.days)

    @property
    def _limits(self) -> tuple[float, ...]:
        """Largest possible figures (FIGURES,)."""
        cards = self.learned_cards + self.unseen_cards
        return (math.inf, math.inf, cards, 1.0, self.question.days)

    @property
    def recalled_now(self) -> float:
        """Share remembered under today's schedule."""
        if self.current_figures is not None:
            return self.current_figures[RECALLED]
        return self.estimates[self.at(self.desired)][RECALLED]

    @cached_property  # a screen needs it many times, and it takes milliseconds
    def comparison(self) -> ScheduleComparison | None:
        """Today's schedule beside FSRS as assumed; None if they are the same, or nothing is due.

        None, too, if a limit of reviews a day decides the figures of today's schedule, or of all
        retentions; those of which it does are left out. Of the simulated retentions it uses
        COMPARED_RETENTIONS, and HIGHEST_RETENTION where that is needed, if all of these are there,
        so that it is the same at a glance and in full.
        """
        if self.current_figures is None or self.is_current_limited:
            return None
        return self._compare_with(self.current_figures, self.current_draws)

    @cached_property
    def sm2_comparison(self) -> ScheduleComparison | None:
        """SM-2 beside FSRS as assumed, like `comparison`; None if SM-2 is not asked for."""
        if self.sm2 is None or self.sm2.limit_effects.is_limited:
            return None
        return self._compare_with(self.sm2.figures, self.sm2.draws)

    def _compare_with(
        self, other_figures: _Figures, other_draws: tuple[_Figures, ...]
    ) -> ScheduleComparison | None:
        """Compare another schedule with FSRS as assumed, as `comparison` says."""
        if math.isnan(other_figures[RECALLED]):
            return None
        retentions = np.array(self.retentions)
        compared: tuple[float, ...] = COMPARED_RETENTIONS
        if self._needs_highest(other_figures):
            compared = (*compared, HIGHEST_RETENTION)
        is_compared = np.isin(retentions, compared)
        if is_compared.sum() < len(compared):
            is_compared[:] = True
        if len({desired for _, desired in self.presets}) > 1:
            # Where each preset has its own retention, figures are not those of their mean.
            is_compared &= retentions != self.desired
        is_compared &= ~self.is_limited
        if not is_compared.any():
            return None
        has_draws = self.has_all_draws
        return compare_schedules(
            retentions[is_compared],
            self.figures[is_compared],
            np.array(other_figures),
            np.array(self.draws)[:, is_compared] if has_draws else None,
            np.array(other_draws) if has_draws else None,
        )

    @property
    def compared_retentions(self) -> tuple[float, ...]:
        """Desired retentions that are compared with today's schedule."""
        if self.current_figures is not None and self._needs_highest(self.current_figures):
            return (*COMPARED_RETENTIONS, HIGHEST_RETENTION)
        return COMPARED_RETENTIONS

    def _needs_highest(self, other_figures: _Figures) -> bool:
        """Return True if a schedule remembers or knows about as much as COMPARED_RETENTIONS."""
        index = self.at(COMPARED_RETENTIONS[-1])
        if self.is_limited[index]:  # and any higher retention, too
            return False
        highest = self.estimates[index]
        forgotten = 1.0 - highest[RECALLED]
        forgets_less = 1.0 - other_figures[RECALLED] < _NEAR_HIGHEST * forgotten
        return forgets_less or other_figures[KNOWN] >= highest[KNOWN]

    def at(self, retention: float) -> int:
        """Return the position in `retentions` of the nearest one."""
        return int(np.argmin(np.abs(np.array(self.retentions) - retention)))

    @property
    def finding(self) -> Finding:
        return Finding("workload", self.preset, reviews=self.reviews, evidence=self)

    @property
    def glance_finding(self) -> Finding:
        """Return the finding with a few retentions only: COMPARED_RETENTIONS and today's."""
        retentions = (*self.compared_retentions, self.desired)
        positions = sorted({self.at(retention) for retention in retentions})

        def select(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(values[position] for position in positions)

        at_a_glance = replace(
            self,
            question=replace(self.question, retentions=COMPARED_RETENTIONS),
            retentions=select(self.retentions),
            estimates=select(self.estimates),
            draws=tuple(map(select, self.draws)),
            limit_effects=select(self.limit_effects) if self.limit_effects else (),
        )
        return Finding(COSTS, self.preset, reviews=self.reviews, evidence=at_a_glance)


def describe_beginning() -> str:
    """Describe the work until the first figures are ready."""
    if has_kernels(_KERNEL_MARK):
        return "simulating your cards"
    return "preparing: about a minute, only after an update"


def workload(
    log: ReviewLog,
    preset: str | None = None,
    question: WorkloadQuestion | None = None,
    *,
    parameters: Sequence[float] | None = None,
    context: Context | None = None,
    unchanged_presets: Collection[str] | None = None,
) -> Generator[Workload]:
    """Yield estimates of what a preset's cards cost, each better than the one before.

    If FSRS is off, the estimates are for FSRS turned on. `preset` is a name or an id, by default
    all presets; `parameters` replace the active ones (17, 19 or 21 numbers, or FSRS-7's 34).
    `unchanged_presets` are the names of the presets for which no new parameters are advised, if
    that is known. Raises InputError, before the first item, if an argument has the wrong type, the
    log lacks what is needed, or the question makes no sense; and NotEnoughData for too few reviews.
    """
    check_type("log", "what srs_eval.load returns", log, ReviewLog)
    if preset is not None:
        check_type("preset", "the name or the number of a preset as text", preset, str)
    if question is not None:
        expected = "an srs_eval.advice.workload.estimate.WorkloadQuestion"
        check_type("question", expected, question, WorkloadQuestion)
    if parameters is not None:
        check_numbers("parameters", "a list of numbers", parameters)
    if context is not None:
        check_type("context", "an srs_eval.Context", context, Context)
    if unchanged_presets is not None:
        check_texts("unchanged_presets", "names of presets", unchanged_presets)
    return _start_estimates(
        log, preset, question or WorkloadQuestion(), parameters, context, unchanged_presets
    )


def _start_estimates(
    log: ReviewLog,
    preset: str | None,
    question: WorkloadQuestion,
    parameters: Sequence[float] | None,
    context: Context | None,
    unchanged_presets: Collection[str] | None,
) -> Generator[Workload]:
    """Check the question and prepare the presets; `_refine` yields the estimates."""
    _check_question(question)
    require_presets(log)
    is_off = log.import_summary.fsrs_enabled is False and parameters is None
    whole_log = log
    if preset is not None:
        log = select_presets(log, preset)
    sentences_on_replaced: Mapping[int, str] = {}
    if parameters is None:
        sentences_on_replaced = why_replaced(log)
    if is_off or parameters is not None:
        # Stored parameters do not matter then: no preset is left out because of them.
        log = _without_stored_parameters(log)
    learner = _make_learner(log, context, is_one_preset=preset is not None)
    presets, paces = prepare_presets(learner, question, parameters, is_off=is_off)
    if question.assume == "current":
        unchanged_presets = [learner.group_name(cards.group) for cards in presets]
    elif question.assume == "optimized" or parameters is not None:
        unchanged_presets = ()  # no advice is about the parameters given
    elif unchanged_presets is None:
        unchanged_presets = _find_presets_left_alone(whole_log, context)
    current_schedulers = _find_current_schedulers(learner, presets, question, unchanged_presets)
    new_a_day = sum(cards.settings.new_a_day for cards in presets)
    group_ids = {cards.group for cards in presets}
    overdue = habits.count_overdue(learner.log, group_ids, question.after)
    assert overdue is not None
    review_counts = [len(cards.index) for cards in presets]
    index = np.concatenate([cards.index for cards in presets])
    desired_retentions = [cards.desired_retention for cards in presets]
    desired = round(float(np.average(desired_retentions, weights=review_counts)), 2)
    name = ALL_PRESETS
    if len(presets) == 1:
        name = learner.group_name(presets[0].group)
    schedule = IN_FORCE
    if is_off:
        schedule = SM2
    elif parameters is not None:
        schedule = BY_GIVEN_PARAMETERS
    without_figures = Workload(
        preset=name,
        question=question,
        retentions=tuple(sorted({*question.retentions, desired})),
        reviews=sum(review_counts),
        desired=desired,
        presets=tuple(
            (learner.group_name(cards.group), cards.desired_retention) for cards in presets
        ),
        learned_cards=sum(len(cards.today) for cards in presets),
        unseen_cards=sum(cards.today.new for cards in presets),
        overdue=overdue,
        new_a_day=new_a_day,
        pace_days=max(pace.days for pace in paces),
        recent_reviews_a_day=round(sum(pace.reviews_a_day for pace in paces)),
        recent_minutes_a_day=sum(pace.minutes_a_day for pace in paces),
        schedule=schedule,
        observed_retentions=habits.observed_retention_range(learner, index),
        excluded_preset_sentences=(
            *explain_left_out_presets(log).values(),
            *sentences_on_replaced.values(),
        ),
        estimates=(),
        draws=(),
        new_limits=_find_new_limits(learner, presets, paces),
        new_allowed_a_day=_sum_new_limits(learner, presets),
        recent_minutes_on_begun_cards=sum(pace.minutes_on_begun_cards for pace in paces),
        recalled_until_now=float(learner.trials.y[index].mean()),
        cards_due=sum(int((cards.today.due_day < question.days).sum()) for cards in presets),
        by_fsrs7=_scheduled_by_fsrs7(learner, presets, question, is_off=is_off),
        unchanged_presets=tuple(learner.group_name(group) for group in current_schedulers),
    )
    return _refine(learner, presets, current_schedulers, without_figures)


def _find_presets_left_alone(log: ReviewLog, context: Context | None) -> Collection[str]:
    """Return the names of the presets for which no new parameters are advised."""
    try:
        learner = Learner.of(log, context)
    except NotEnoughData:
        return ()  # the estimates cannot be made either, and say why
    return find_unchanged_presets(assess_parameters(learner, list(learner.groups), {}, {}))


def _find_current_schedulers(
    learner: Learner,
    presets: Sequence[preset_simulation.PresetCards],
    question: WorkloadQuestion,
    unchanged_presets: Collection[str],
) -> dict[int, Memory]:
    """Return, by preset id, FSRS with the current parameters of the presets that keep these.

    A preset that runs another version of FSRS than the one asked about cannot keep its parameters.
    """
    schedulers = {}
    for cards in presets:
        if learner.group_name(cards.group) not in unchanged_presets:
            continue
        scheduler = cards.scheduler
        if scheduler.model == SM2:  # FSRS is to be turned on, and begins with its defaults
            parameters = learner.active_parameters(cards.group)
            scheduler = Memory(model_name(parameters), tuple(parameters))
        if scheduler.model == question.model:
            schedulers[cards.group] = scheduler
    return schedulers


def prepare_presets(
    learner: Learner,
    question: WorkloadQuestion,
    parameters: Sequence[float] | None = None,
    *,
    is_off: bool,
) -> tuple[list[preset_simulation.PresetCards], list[habits.Pace]]:
    """Prepare the simulation of all presets with cards in use, and measure the learner's paces.

    Raises InputError if there are none, or if the log does not say when cards are due.
    """
    presets: list[preset_simulation.PresetCards] = []
    last_error: InputError | None = None
    for group in learner.groups:
        try:
            presets.append(
                preset_simulation.prepare_preset(
                    learner, group, question.days, question.after, parameters, is_off=is_off
                )
            )
        except InputError as input_error:  # for example, all its cards are suspended
            last_error = input_error
    if not presets:
        assert last_error is not None
        raise last_error
    paces = [habits.measure_pace(learner.log, cards.group) for cards in presets]
    if question.new_a_day is None:
        new_a_day = round(sum(pace.new_a_day for pace in paces))
        weights = [pace.new_a_day for pace in paces]
    else:
        new_a_day = question.new_a_day
        weights = [float(cards.today.new) for cards in presets]
    for number, preset_new_a_day in enumerate(_apportion(new_a_day, weights)):
        settings = replace(presets[number].settings, new_a_day=preset_new_a_day)
        presets[number] = replace(presets[number], settings=settings)
    return presets, paces


def _find_new_limits(
    learner: Learner,
    presets: Sequence[preset_simulation.PresetCards],
    paces: Sequence[habits.Pace],
) -> tuple[DailyLimit, ...]:
    """Find the limits of new cards a day that the learner reaches."""
    reached = []
    for cards, pace in zip(presets, paces, strict=True):
        if pace.reaches_new_limit:
            limit = learner.log.presets[cards.group].new_a_day
            assert limit is not None
            reached.append(DailyLimit(learner.group_name(cards.group), limit))
    return tuple(reached)


def _sum_new_limits(
    learner: Learner, presets: Sequence[preset_simulation.PresetCards]
) -> int | None:
    """Return how many new cards a day all presets allow; None if one does not say it."""
    total = 0
    for cards in presets:
        limit = learner.log.presets[cards.group].new_a_day
        if limit is None:
            return None
        total += limit
    return total


def _without_stored_parameters(log: ReviewLog) -> ReviewLog:
    presets = {
        preset_id: replace(preset, fsrs_parameters={}) for preset_id, preset in log.presets.items()
    }
    return replace(log, presets=presets)


def _make_learner(log: ReviewLog, context: Context | None, *, is_one_preset: bool) -> Learner:
    """Create the learner by preset. Raises NotEnoughData for too few reviews."""
    try:
        learner = Learner.of(log, context)
    except NotEnoughData as error:
        reason = NotEnoughData(f"{error}{_first_screen_count_note(log, context)}")
        raise NotEnoughData(explain_too_few(log, reason)) from None
    count = len(learner.trials)
    if count >= MIN_REVIEWS:
        return learner
    subject = "there is" if count == 1 else "there are"
    if is_one_preset:
        subject = f"{next(iter(learner.groups.values()))} has"
    note = _first_screen_count_note(log, context)
    reason = NotEnoughData(
        f"{subject} only {format_count(count, 'usable review')}{note}, and srs-eval needs "
        f"{MIN_REVIEWS:,} to estimate what a desired retention costs"
    )
    refusal = _TooFewReviews(explain_too_few(log, reason))
    refusal.reviews = count
    raise refusal


def format_held_out_count(count: int) -> str:
    """Format the number of held-out reviews of a log whose cards are nearly all gone."""
    return (
        f"{format_count(count, 'held-out review')}, including those of suspended and deleted cards"
    )


def _first_screen_count_note(log: ReviewLog, context: Context | None) -> str:
    """Return a note on the first screen's count of reviews, if nearly all cards are gone, else "".

    In that case, the first screen counts reviews of all cards, but costs rest only on those of the
    cards that Anki's optimizer uses.
    """
    if can_evaluate_by_preset(log):
        return ""
    with suppress(NotEnoughData):
        learner = Learner.of(log, context, ALL_REVIEWS_PROTOCOL)
        count = format_held_out_count(len(learner.trials.test_index))
        return f" (the first screen counts {count})"
    return ""


def _scheduled_by_fsrs7(
    learner: Learner,
    presets: Sequence[preset_simulation.PresetCards],
    question: WorkloadQuestion,
    *,
    is_off: bool,
) -> tuple[str, ...]:
    """Return the names of the presets in `Workload.by_fsrs7`."""
    if question.model == "FSRS-7":
        return ()
    names = []
    for preset in presets:
        runs_fsrs7 = preset.scheduler.model == "FSRS-7"
        if is_off:
            runs_fsrs7 = learner.runs_fsrs7(preset.group)
        if runs_fsrs7:
            names.append(learner.group_name(preset.group))
    return tuple(names)


def _apportion(count: int, weights: Sequence[float]) -> list[int]:
    """Return whole numbers that sum to `count`, in proportion to the weights."""
    if not sum(weights) > 0:
        weights = [1.0] * len(weights)
    cumulative = np.cumsum(weights)
    rounded = np.round(count * cumulative / cumulative[-1])  # so that the parts sum to the count
    return np.diff(rounded, prepend=0).astype(int).tolist()


def estimate_at_a_glance(
    log: ReviewLog, context: Context | None = None, unchanged_presets: Collection[str] | None = None
) -> Iterator[Finding]:
    """Yield daily costs of all cards at a few retentions, first without and then with ranges.

    `unchanged_presets` is as in `workload`. Raises InputError and NotEnoughData like `workload`;
    but if there are reviews, only too few, a finding says so.
    """
    question = WorkloadQuestion(retentions=COMPARED_RETENTIONS)
    try:
        estimates = workload(
            log, question=question, context=context, unchanged_presets=unchanged_presets
        )
    except _TooFewReviews as error:
        yield Finding(
            COSTS,
            ALL_REVIEWS,
            reviews=error.reviews,
            missing=MissingData(MIN_REVIEWS - error.reviews),
            evidence=TooFewForCosts(str(error)),
        )
        return
    with closing(estimates):
        yield next(estimates).glance_finding
        *_, last = estimates
        yield last.glance_finding


def workload_document(result: Workload) -> dict[str, Any]:
    """Return the result as the object of its JSON file (layout: docs/formats.md)."""
    estimate = result.figures
    low, high = result.band
    by_retention = []
    for position, retention in enumerate(result.retentions):
        by_retention.append(
            {
                "desired": retention,
                "estimate": _figures_by_name(estimate[position]),
                "low": _figures_by_name(low[position]),
                "high": _figures_by_name(high[position]),
                "limited": bool(result.is_limited[position]),
            }
        )
    sm2 = None
    if result.sm2 is not None:
        sm2 = {"estimate": _figures_by_name(result.sm2.figures)}
        for name, ends in zip(("low", "high"), result.sm2_band, strict=True):
            sm2[name] = _figures_by_name(ends)
    current: Sequence[float] | FloatArray | None = result.current_figures
    current_low = None
    current_high = None
    if current is None:  # today's schedule is that of the estimate
        current = estimate[result.at(result.desired)]
    else:
        current_low, current_high = result.current_band
    return {
        "layout": 3,
        "srs_eval": VERSION,
        "preset": result.preset,
        "question": asdict(result.question),
        "desired_retention": result.desired,
        "schedule": result.schedule,
        "unchanged_presets": result.unchanged_presets,
        "cards": {
            "learned": result.learned_cards,
            "new": result.unseen_cards,
            "overdue": result.overdue.cards,
        },
        "overdue_minutes": result.overdue.minutes,
        "new_a_day": result.new_a_day,
        "done_a_day": result.recent_reviews_a_day,
        "draws": len(result.draws),
        "retentions": by_retention,
        "now": _figures_by_name(current),
        "now_low": None if current_low is None else _figures_by_name(current_low),
        "now_high": None if current_high is None else _figures_by_name(current_high),
        "now_limited": result.is_current_limited,
        "review_limit": asdict(result.review_limits[0]) if result.review_limits else None,
        "review_limits": [asdict(limit) for limit in result.review_limits],
        "new_left": result.new_left,
        "comparison": None if result.comparison is None else asdict(result.comparison),
        "sm2": sm2,
        "sm2_comparison": None if result.sm2_comparison is None else asdict(result.sm2_comparison),
        "months_recalled": result.observed_retentions,
    }


def _figures_by_name(figures: Sequence[float] | FloatArray) -> dict[str, float | None]:
    names = (name.replace(" ", "_") for name in FIGURES)
    values = (float(value) if math.isfinite(value) else None for value in figures)
    return dict(zip(names, values, strict=True))


def _refine(
    learner: Learner,
    presets: Sequence[preset_simulation.PresetCards],
    current_schedulers: Mapping[int, Memory],
    latest: Workload,
) -> Generator[Workload]:
    """Yield estimates, each better than the one before; `latest` has no figures yet.

    Presets with a current scheduler, by id, keep it; the fit to all reviews schedules the others.
    Simulations run in threads, a few draws before the one that is yielded next.
    """
    question = latest.question
    pool = ThreadPoolExecutor(count_cores())

    def start(
        decks: ScheduledDecks,
        memories: CardMemories,
        seeds: Sequence[int],
        retentions: Sequence[float],
    ) -> _PendingSimulations:
        """Start the simulations of all presets at each of the desired retentions."""
        by_retention = []
        for retention in retentions:
            by_preset = [retention] * len(presets)
            if retention == latest.desired:
                by_preset = [cards.desired_retention for cards in presets]
            by_retention.append(decks.start(pool, memories, seeds, by_preset))
        return by_retention

    def report(workload: Workload) -> Workload:
        learner.context.tick(workload.progress)
        return workload

    review_limits = [
        DailyLimit(learner.group_name(cards.group), cards.settings.reviews_a_day)
        for cards in presets
    ]

    try:
        memories_by_preset = [
            preset_simulation.fit_and_draw(learner, cards, question.draws, question.model)
            for cards in presets
        ]
        # The fits of all presets, then draw by draw; `fit_and_draw` never ends.
        memories = zip(*memories_by_preset, strict=False)
        best = next(memories)
        fits = CardMemories.make(presets, best)
        assumed = [
            current_schedulers.get(cards.group, fit)
            for cards, fit in zip(presets, best, strict=True)
        ]
        decks = ScheduledDecks.make(presets, assumed, question.states)
        repeats = range(preset_simulation.REPEATS)
        current_repeats = range(preset_simulation.CURRENT_REPEATS)
        simulations = _wait_for(start(decks, fits, repeats, latest.retentions))
        all_runs = list(itertools.chain.from_iterable(simulations))
        current_decks = None
        current_figures = None
        current_limit_effects = None
        if not preset_simulation.are_scheduled_by(presets, assumed):
            schedulers = [cards.scheduler for cards in presets]
            current_decks = ScheduledDecks.make(presets, schedulers, question.states)
            runs = wait_for_runs(current_decks.start_current(pool, fits, current_repeats))
            current_figures = average_runs(runs, question.budget)
            current_limit_effects = limits.measure_effects(runs)
            all_runs += runs
        sm2_decks = None
        sm2 = None
        if question.with_sm2 and not latest.is_fsrs_off:
            schedulers = [cards.sm2 for cards in presets]
            sm2_decks = ScheduledDecks.make(presets, schedulers, question.states)
            runs = wait_for_runs(sm2_decks.start_current(pool, fits, current_repeats))
            sm2 = ScheduleEstimate(
                average_runs(runs, question.budget), limits.measure_effects(runs)
            )
            all_runs += runs
        latest = replace(
            latest,
            estimates=tuple(average_runs(runs, question.budget) for runs in simulations),
            current_figures=current_figures,
            limit_effects=tuple(map(limits.measure_effects, simulations)),
            current_limit_effects=current_limit_effects,
            sm2=sm2,
        )
        is_at_a_glance = question.retentions == COMPARED_RETENTIONS
        if is_at_a_glance and HIGHEST_RETENTION in latest.compared_retentions:
            (highest,) = _wait_for(start(decks, fits, repeats, [HIGHEST_RETENTION]))
            latest = _add_highest(latest, highest)
            all_runs += highest
        latest = replace(latest, review_limits=limits.find_review_limits(review_limits, all_runs))
        yield report(latest)
        pending: list[tuple[_PendingSimulations, _PendingSimulations, _PendingSimulations]] = []
        for number in range(1, question.draws + 1):
            drawn = CardMemories.make(presets, next(memories))
            seeds = range(number, number + 1)  # the draw's number is its seed
            current = []
            if current_decks is not None:
                current.append(current_decks.start_current(pool, drawn, seeds))
            by_retention = start(decks, drawn, seeds, latest.retentions)
            by_sm2 = []
            if sm2_decks is not None:
                by_sm2.append(sm2_decks.start_current(pool, drawn, seeds))
            pending.append((by_retention, current, by_sm2))
            most_pending = 3 if number < question.draws else 0  # enough to keep the threads busy
            while len(pending) > most_pending:
                latest = _add_draw(latest, *map(_wait_for, pending.pop(0)))
                yield report(latest)
        mark_kernels(_KERNEL_MARK)
    finally:
        pool.shutdown(cancel_futures=True)


def _add_highest(latest: Workload, runs: Sequence[Sequence[SimulationResult]]) -> Workload:
    """Add the simulations at HIGHEST_RETENTION to estimates without draws, unless it is there."""
    if HIGHEST_RETENTION in latest.retentions:
        return latest
    return replace(
        latest,
        retentions=(*latest.retentions, HIGHEST_RETENTION),
        estimates=(*latest.estimates, average_runs(runs, latest.question.budget)),
        limit_effects=(*latest.limit_effects, limits.measure_effects(runs)),
    )


def _add_draw(
    latest: Workload,
    simulations: preset_simulation.Simulations,
    current_simulations: preset_simulation.Simulations,
    sm2_simulations: preset_simulation.Simulations,
) -> Workload:
    """Add the simulations of a draw: by desired retention, of today's schedule and of SM-2.

    The last two may be empty.
    """
    budget = latest.question.budget
    figures = []
    limit_effects = []
    for effects, runs in zip(latest.limit_effects, simulations, strict=True):
        figures.append(average_runs(runs, budget))
        limit_effects.append(effects.join(limits.measure_effects(runs)))
    current_draws = latest.current_draws
    current_limit_effects = latest.current_limit_effects
    for runs in current_simulations:
        current_draws = (*current_draws, average_runs(runs, budget))
        assert current_limit_effects is not None
        current_limit_effects = current_limit_effects.join(limits.measure_effects(runs))
    sm2 = latest.sm2
    for runs in sm2_simulations:
        assert sm2 is not None
        sm2 = ScheduleEstimate(
            sm2.figures,
            sm2.limit_effects.join(limits.measure_effects(runs)),
            (*sm2.draws, average_runs(runs, budget)),
        )
    return replace(
        latest,
        draws=(*latest.draws, tuple(figures)),
        current_draws=current_draws,
        limit_effects=tuple(limit_effects),
        current_limit_effects=current_limit_effects,
        sm2=sm2,
    )


def _wait_for(pending: _PendingSimulations) -> preset_simulation.Simulations:
    """Return the results of started simulations."""
    return [wait_for_runs(runs) for runs in pending]


def wait_for_runs(
    pending: Sequence[Sequence[Future[SimulationResult]]],
) -> list[list[SimulationResult]]:
    """Return the results of one schedule's simulations, by seed and preset."""
    by_seed = []
    for futures in pending:
        by_seed.append([future.result() for future in futures])
    return by_seed


def average_runs(runs: Sequence[Sequence[SimulationResult]], budget: float | None) -> _Figures:
    """Return the mean FIGURES of runs; those of a run are of all its presets together."""
    figures = []
    for results in runs:
        minutes: FloatArray = np.sum([result.seconds for result in results], axis=0) / 60
        reviews = int(sum(result.reviews.sum() for result in results))
        recalled = int(sum(result.recalled.sum() for result in results))
        share = recalled / reviews if reviews else math.nan
        days_over_budget = 0.0 if budget is None else (minutes > budget).sum()
        known = sum(result.known for result in results)
        figures.append((reviews / len(minutes), minutes.mean(), known, share, days_over_budget))
    return tuple(np.mean(figures, axis=0).tolist())


def _check_question(question: WorkloadQuestion) -> None:
    for retention in question.retentions:
        if not 0.5 <= retention <= 0.995:
            raise InputError(
                f"A desired retention of {retention:g} is out of range: give numbers from "
                "0.5 to 0.995, such as 0.8,0.85,0.9."
            )
    if not question.retentions:
        raise InputError("--retention is empty: give numbers such as 0.8,0.85,0.9.")
    new = 0 if question.new_a_day is None else question.new_a_day
    for option, value, lowest, highest in (
        ("--days", question.days, 1, 3650),
        ("--new", new, 0, 999),
        ("--after", question.after, 0, 3650),
    ):
        if not lowest <= value <= highest:
            raise InputError(f"{option} {value} is not between {lowest} and {highest}.")
    if question.model not in TRAINABLES:
        raise InputError(f"--model {question.model} is not one of {', '.join(TRAINABLES)}.")
    if question.assume not in get_args(Assumption):
        choices = ", ".join(get_args(Assumption))
        raise InputError(f"--assume {question.assume} is not one of {choices}.")
    if question.draws < 1:
        raise InputError(f"--draws must be 1 or more, not {question.draws}.")
    if question.budget is not None and not 0 < question.budget <= 1440:
        raise InputError(f"--budget {question.budget:g} is not a number of minutes in a day.")
