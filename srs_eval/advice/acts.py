"""Choose what the first screen tells the learner to do, in the order of what it brings.

An act changes a habit (clear the backlog, review on time, forget less), a daily limit, or the
scheduler and its parameters. Each has its own probability. Acts are compared by `Act.worth`: the
share of the cards, of the reviews or of the minutes that an act is about. What only makes
predictions closer has no worth of this kind and comes last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

from srs_eval.advice import findings as f
from srs_eval.advice.findings import Recommendation
from srs_eval.advice.parameters import find_unchanged_presets
from srs_eval.advice.workload.estimate import Workload
from srs_eval.advice.workload.ranges import MINUTES, RECALLED, EqualMemory
from srs_eval.stats.intervals import NORMAL_QUANTILE

MAX_ACTS = 3
_MIN_RECALL_GAIN = f.NEGLIGIBLE_POINTS / 100  # share of reviews (points are per cent)
"""A limit that costs less is not worth an act."""
_MIN_MINUTES_CHANGED = 0.1  # share of today's minutes; a smaller change is not worth a line
_TINY = 1e-9  # smallest standard deviation


class ActKind(StrEnum):
    """What an act changes, or that nothing is to be changed."""

    REPAIR_PARAMETERS = "repair parameters"
    CLEAR_BACKLOG = "clear backlog"
    FORGET_LESS = "forget less"
    REVIEW_ON_TIME = "review on time"
    RAISE_REVIEW_LIMIT = "raise review limit"
    PRESS_AGAIN = "press Again"  # not Hard, for what is forgotten
    EMPTY_IGNORE_DATE = "empty ignore date"
    TURN_FSRS_ON = "turn FSRS on"
    LEAVE_FSRS_OFF = "leave FSRS off"
    OPTIMIZE = "optimize"
    PASTE_PARAMETERS = "paste parameters"
    PASTE_TAUGHT_PARAMETERS = "paste taught parameters"
    CHANGE_TO_FSRS_7 = "change to FSRS-7"
    USE_DEFAULTS = "use defaults"
    CHANGE_TO_FSRS = "change to FSRS"  # from another program's scheduler
    FIT_FSRS = "fit FSRS"  # where another program's scheduler may be as good
    STAY_WITH_SCHEDULER = "stay with scheduler"
    CHANGE_NOTHING = "change nothing"
    WAIT_FOR_REVIEWS = "wait for reviews"


HABITS = (
    ActKind.CLEAR_BACKLOG,
    ActKind.FORGET_LESS,
    ActKind.REVIEW_ON_TIME,
    ActKind.RAISE_REVIEW_LIMIT,
    ActKind.PRESS_AGAIN,
    ActKind.EMPTY_IGNORE_DATE,
)
"""Acts about habits, limits and a date; the others are about the scheduler and its parameters."""
_WITHOUT_MINUTES = (ActKind.USE_DEFAULTS, ActKind.CHANGE_TO_FSRS_7)
"""Acts on parameters for which the simulated minutes, those of optimized FSRS-6, do not apply."""

_KIND_BY_RECOMMENDATION = {
    Recommendation.OPTIMIZE: ActKind.OPTIMIZE,
    Recommendation.POOLED: ActKind.PASTE_PARAMETERS,
    Recommendation.ONE_LINE: ActKind.PASTE_PARAMETERS,
    Recommendation.TAUGHT: ActKind.PASTE_TAUGHT_PARAMETERS,
    Recommendation.CHANGE_TO_FSRS_7: ActKind.CHANGE_TO_FSRS_7,
    Recommendation.DEFAULTS: ActKind.USE_DEFAULTS,
}


@dataclass(frozen=True)
class Backlog:
    """Overdue cards, and how long reviewing them takes."""

    cards: int
    total: int  # learned cards that are not suspended
    minutes: float
    days: int | None = None  # at the learner's recent minutes a day; None if unknown
    last_review_date: str | None = None  # if that is long ago: the cards were overdue by then


@dataclass(frozen=True)
class SameDesire:
    """What changes at the retention that the learner asks for now, each with its figure today."""

    desired: float
    minutes: float  # a day
    minutes_now: float
    recalled: float  # share of the reviews
    recalled_now: float
    is_average: bool = False  # whether presets ask for different retentions


@dataclass(frozen=True)
class Act:
    """One thing to do, how sure it is, and what it brings; None where that is unknown."""

    kind: ActKind
    probability: float | None = None
    """Probability that the act has the claimed effect; 1 if that is counted, not estimated."""
    worth: float = 0.0  # share of cards, reviews or minutes that it is about
    recall_gain: float | None = None  # share of the reviews that are remembered thanks to it
    forgotten: float | None = None  # share of the answers that are Again
    desired: float | None = None  # share that is asked for
    recalled: float | None = None  # share that would be remembered without the act
    equal_memory: EqualMemory | None = None  # FSRS as advised, remembering as much as today
    at_same_desire: SameDesire | None = None  # None if minutes hardly change
    subjects: tuple[str, ...] = ()  # presets, if the act is about single ones
    preset_count: int = 1
    """Number of presets with reviews; with one, the act need not name it."""
    is_known: bool = True  # False if the file does not say which parameters are in force
    is_still_advised: bool = False  # only because it was likely at an earlier milestone
    follows_fsrs: bool = False  # whether FSRS has to be turned on first
    hardly_matters: bool = False
    scheduler: f.Rival | None = None  # of another program; the verdict is on FSRS beside it
    review_limit: int | None = None  # reviews a day, if only one preset's limit is reached
    backlog: Backlog | None = None
    sm2: f.Rival | None = None
    """SM-2 beside optimized FSRS, if FSRS is better and the file does not say which one is used."""
    check: f.Check | None = None  # the check behind it, if it is about a habit or an ignore date
    finding: f.Finding | None = None  # the finding behind it, with parameters to copy or without

    @property
    def saves_minutes(self) -> bool:
        """Return True if the same memory surely costs fewer minutes."""
        return self.equal_memory is not None and self.equal_memory.extra_minutes.high < 0

    @property
    def costs_minutes(self) -> bool:
        """Return True if the same memory surely costs more minutes."""
        return self.equal_memory is not None and self.equal_memory.extra_minutes.low > 0

    @property
    def is_by_other_people(self) -> bool:
        """Return True if FSRS is to be turned on, though one's own reviews do not settle it."""
        if self.kind != ActKind.TURN_FSRS_ON or self.finding is None:
            return False
        difference = self.finding.interval  # log loss of FSRS minus that of SM-2
        return difference is None or not difference.high < 0


def find_acts(
    answers: Sequence[f.Finding], checks: Sequence[f.Check], *, has_active_cards: bool = True
) -> tuple[Act, ...]:
    """Return up to MAX_ACTS acts, the one that brings most first; () if nothing is known.

    Without `has_active_cards`, nearly all reviews are of suspended or deleted cards: parameters do
    not matter then.
    """
    workload = next(
        (finding.evidence for finding in answers if isinstance(finding.evidence, Workload)), None
    )
    settings: list[Act] = []
    if has_active_cards:
        settings = list(_find_settings_acts(answers, workload))
    else:  # these cards are not answered any more, so only a habit of answering matters
        checks = [check for check in checks if check.name != "ignored cards"]
    habits = sorted(
        _find_habit_acts(answers, checks, workload), key=lambda act: act.worth, reverse=True
    )
    if settings:
        habits = habits[: MAX_ACTS - 1]  # one act about the settings is always told
    acts = sorted([*habits, *settings], key=_rank)
    return tuple(acts[:MAX_ACTS])


def _rank(act: Act) -> tuple[bool, float, bool]:
    """Return a key that sorts acts by their worth; what has to follow FSRS comes after it.

    Acts on parameters, which are often worth nothing of this kind, keep their order: the one that
    is expected to make predictions closest is first.
    """
    return act.follows_fsrs, -act.worth, act.kind not in HABITS


# Habits


def _find_habit_acts(
    answers: Sequence[f.Finding], checks: Sequence[f.Check], workload: Workload | None
) -> Iterator[Act]:
    for check in checks:
        # "look" is the level of checks with a problem, which the learner should look at.
        if check.name == "overdue" and check.level == "look" and check.total:
            yield Act(
                ActKind.CLEAR_BACKLOG,
                probability=1.0,
                worth=check.count / check.total,
                backlog=_make_backlog(check, workload),
                check=check,
            )
        if check.name == "again" and check.problem == "too many":
            forgotten = check.count / check.total
            yield Act(
                ActKind.FORGET_LESS,
                probability=1.0,
                worth=forgotten,
                forgotten=forgotten,
                check=check,
            )
        if check.name == "hard" and check.problem == "like Again":
            share = check.count / max(check.total, 1)
            yield Act(ActKind.PRESS_AGAIN, worth=share, check=check)
        if check.name == "ignored cards":
            yield Act(
                ActKind.EMPTY_IGNORE_DATE,
                probability=1.0,
                worth=check.count / max(check.total, 1),
                subjects=(check.subject,),
                check=check,
            )
    late = _find_late_act(answers)
    if late is not None:
        yield late
    limit = _find_limit_act(workload)
    if limit is not None:
        yield limit


def _make_backlog(check: f.Check, workload: Workload | None) -> Backlog:
    minutes = check.minutes or 0.0
    days = None
    if workload is not None and workload.recent_minutes_a_day > 0:
        days = round(minutes / workload.recent_minutes_a_day)
    return Backlog(check.count, check.total, minutes, days, check.last_review_date)


def _find_late_act(answers: Sequence[f.Finding]) -> Act | None:
    """Return the act to review on time if lateness surely costs recall, as the second pane says."""
    retentions = [
        finding.evidence for finding in answers if isinstance(finding.evidence, f.Retention)
    ]
    for part in f.find_shortfall_parts(retentions):
        if part.cause == f.RetentionCause.LATE:
            recall_gain = -part.gap.estimate  # the gap is negative if lateness costs recall
            spread = max(part.gap.half_width / NORMAL_QUANTILE, _TINY)
            return Act(
                ActKind.REVIEW_ON_TIME,
                probability=1 - NormalDist(recall_gain, spread).cdf(0.0),
                worth=recall_gain,
                recall_gain=recall_gain,
            )
    return None


def _find_limit_act(workload: Workload | None) -> Act | None:
    """Return the act to raise a daily limit if it keeps recall below what is asked for.

    While FSRS is off nothing is asked for: the limit has to hold cards back at every retention.
    """
    if workload is None or not workload.review_limits:
        return None
    position = workload.at(workload.desired)  # index of the retention in the figures' first axis
    is_binding = bool(workload.is_limited[position])
    if workload.is_fsrs_off:
        is_binding = bool(workload.is_limited.all())
    if not is_binding:
        return None
    recalled = float(workload.figures[position, RECALLED])
    recall_gain = workload.desired - recalled
    if math.isnan(recall_gain) or recall_gain < _MIN_RECALL_GAIN:  # nan: there are no reviews
        return None
    probability = None
    if workload.has_all_draws:  # else the figures have no ranges yet
        low, high = (float(bound[position, RECALLED]) for bound in workload.band)
        spread = max((high - low) / (2 * NORMAL_QUANTILE), _TINY)
        probability = NormalDist(recalled, spread).cdf(workload.desired)
        if probability < f.LIKELY:
            return None
    review_limits = workload.review_limits
    return Act(
        ActKind.RAISE_REVIEW_LIMIT,
        probability=probability,
        worth=recall_gain,
        recalled=recalled,
        desired=None if workload.is_fsrs_off else workload.desired,
        review_limit=review_limits[0].cards if len(review_limits) == 1 else None,
        subjects=tuple(limit.preset for limit in review_limits),
        preset_count=len(workload.presets),
    )


# Scheduler and parameters


def _find_settings_acts(answers: Sequence[f.Finding], workload: Workload | None) -> Iterator[Act]:
    """Yield acts on the scheduler and on parameters; "change nothing" if there are none."""
    for finding in answers:
        if isinstance(finding.evidence, f.UnsupportedParameters):
            yield Act(ActKind.REPAIR_PARAMETERS, worth=1.0, finding=finding)
            return
    presets = [finding for finding in answers if isinstance(finding.evidence, f.PresetParameters)]
    if not presets:
        return
    fit = next((finding for finding in answers if isinstance(finding.evidence, f.Fit)), None)
    scheduler = None if fit is None else f.get_evidence(fit, f.Fit).current_scheduler
    parameter_acts = _group_presets(presets)
    if fit is not None and fit.recommendation == Recommendation.STAY_WITH_SM2:
        yield _make_scheduler_act(ActKind.LEAVE_FSRS_OFF, fit, workload)
    elif fit is not None and fit.recommendation == Recommendation.TURN_FSRS_ON:
        yield _make_scheduler_act(ActKind.TURN_FSRS_ON, fit, workload)
        after_fsrs = parameter_acts or [_make_keep_act(presets)]
        yield from (replace(act, follows_fsrs=True) for act in after_fsrs)
    elif fit is not None and scheduler is not None and parameter_acts:
        yield _make_other_scheduler_act(f.get_evidence(fit, f.Fit), scheduler, parameter_acts[0])
    elif parameter_acts:
        sm2 = None if fit is None else f.get_evidence(fit, f.Fit).sm2
        if sm2 is not None and sm2.verdict == "better":  # of FSRS
            parameter_acts = [
                act if act.is_known else replace(act, sm2=sm2) for act in parameter_acts
            ]
        if _is_costed(parameter_acts, presets, workload):
            parameter_acts = _add_all_minutes(parameter_acts, workload)
        yield from parameter_acts
    else:
        yield _make_keep_act(presets)


def _make_scheduler_act(kind: ActKind, fit: f.Finding, workload: Workload | None) -> Act:
    belief = fit.belief
    act = Act(
        kind,
        probability=fit.probability,
        hardly_matters=belief is not None and belief.lies_within(fit.equivalence),
        finding=fit,
    )
    if kind == ActKind.TURN_FSRS_ON:
        return _add_minutes(act, workload)
    return act


def _make_other_scheduler_act(fit: f.Fit, scheduler: f.Rival, parameters: Act) -> Act:
    """Return the act for somebody who learns with another program."""
    verdict_on_fsrs = scheduler.verdict  # a rival's verdict says how FSRS compares with the rival
    if verdict_on_fsrs == "worse":
        return Act(ActKind.STAY_WITH_SCHEDULER, probability=f.SURE, scheduler=scheduler)
    act = replace(parameters, scheduler=scheduler)
    if verdict_on_fsrs == "better" and fit.seems_to_beat_average:
        return replace(act, kind=ActKind.CHANGE_TO_FSRS, probability=f.SURE)
    return replace(act, kind=ActKind.FIT_FSRS)


def _group_presets(presets: Sequence[f.Finding]) -> list[Act]:
    """Return an act for presets with the same recommendation, and equally sure.

    Its probability is the lowest of them, its finding that of the preset that gains most.
    """
    groups: dict[tuple[ActKind, bool, bool], list[f.Finding]] = {}
    for finding in sorted(presets, key=_expected_gain, reverse=True):
        # Only findings that recommend a change have parameters, so there is a kind for each.
        if finding.parameters:
            kind = _KIND_BY_RECOMMENDATION[finding.recommendation]
            is_sure, is_likely = _certainty_steps(finding)
            groups.setdefault((kind, is_sure, is_likely), []).append(finding)
    return [
        Act(
            kind,
            probability=min(finding.probability or 0.0 for finding in findings),
            subjects=tuple(finding.subject for finding in findings),
            preset_count=len(presets),
            is_known=f.get_evidence(findings[0], f.PresetParameters).is_known,
            is_still_advised=f.get_evidence(findings[0], f.PresetParameters).is_still_advised,
            finding=findings[0],
        )
        for (kind, _, _), findings in groups.items()
    ]


def _certainty_steps(finding: f.Finding) -> tuple[bool, bool]:
    """Return whether the recommendation is sure, and whether it is at least likely."""
    probability = finding.probability or 0.0
    return probability >= f.SURE, probability >= f.LIKELY


def _expected_gain(finding: f.Finding) -> float:
    """Return the log loss that a preset's parameters can be expected to save over its reviews."""
    held_out = f.get_evidence(finding, f.PresetParameters).held_out
    log_loss = held_out[0].log_loss if held_out else None
    reviews = finding.reviews if log_loss is None else log_loss.reviews
    return (finding.probability or 0.0) * (finding.gain or 0.0) * reviews


def _is_costed(
    acts: Sequence[Act], presets: Sequence[f.Finding], workload: Workload | None
) -> bool:
    """Return True if the costs are those of following all the acts on parameters, and no others.

    For a moment they may be those of earlier answers.
    """
    if workload is None or any(act.kind in _WITHOUT_MINUTES for act in acts):
        return False
    unchanged_presets = find_unchanged_presets(presets)
    simulated = {name for name, _ in workload.presets}  # others have no cards in use
    return simulated & unchanged_presets == set(workload.unchanged_presets)


def _add_all_minutes(acts: Sequence[Act], workload: Workload | None) -> list[Act]:
    """Return the acts with the minutes of following all of them.

    A single act gets those at equal memory, the last act those at the retention asked for.
    """
    if len(acts) == 1:
        acts = [_add_minutes(acts[0], workload)]
    last = replace(acts[-1], at_same_desire=_find_same_desire(workload))
    return [*acts[:-1], last]


def _find_same_desire(workload: Workload | None) -> SameDesire | None:
    """Return what the acts change at the retention asked for now, for all presets together.

    None until all draws are done, if minutes hardly change, and if a limit of reviews decides them.
    """
    if workload is None or workload.is_fsrs_off or workload.current_figures is None:
        return None
    position = workload.at(workload.desired)
    is_limited = workload.is_current_limited or bool(workload.is_limited[position])
    if is_limited or not workload.has_all_draws:
        return None
    minutes, recalled = workload.figures[position, [MINUTES, RECALLED]].tolist()
    minutes_now = workload.current_figures[MINUTES]
    if not abs(minutes - minutes_now) >= _MIN_MINUTES_CHANGED * minutes_now:  # nan: no reviews
        return None
    return SameDesire(
        workload.desired,
        minutes,
        minutes_now,
        recalled,
        workload.current_figures[RECALLED],
        is_average=len({desired for _, desired in workload.presets}) > 1,
    )


def _add_minutes(act: Act, workload: Workload | None) -> Act:
    """Add what FSRS as advised changes in minutes a day at equal memory, if that is known."""
    same_memory = _find_equal_memory(workload)
    if same_memory is None:
        return act
    extra = same_memory.extra_minutes
    act = replace(act, equal_memory=same_memory)
    if not act.saves_minutes:
        return act
    minutes_now = same_memory.minutes - extra.estimate  # FSRS's minutes without the extra ones
    spread = max((extra.high - extra.low) / (2 * NORMAL_QUANTILE), _TINY)
    probability = NormalDist(extra.estimate, spread).cdf(0.0)
    return replace(
        act,
        probability=min(act.probability or 0.0, probability),
        worth=-extra.estimate / minutes_now,
    )


def _find_equal_memory(workload: Workload | None) -> EqualMemory | None:
    """Return the comparison at equal memory; None until all draws are done and it has its range."""
    if workload is None or not workload.has_all_draws:
        return None
    comparison = workload.comparison
    return None if comparison is None else comparison.same_share


def _make_keep_act(presets: Sequence[f.Finding]) -> Act:
    """Return the act to change nothing, with the finding of the preset that is least sure."""
    if all(map(f.lacks_own_evidence, presets)):
        return Act(ActKind.WAIT_FOR_REVIEWS, preset_count=len(presets), finding=presets[0])
    # No preset has parameters to use, but a change may look better without being likely enough.
    unlikely_changes = [
        finding for finding in presets if finding.recommendation != Recommendation.KEEP
    ]
    least_sure = min(unlikely_changes or presets, key=lambda finding: finding.probability or 0.0)
    return Act(
        ActKind.CHANGE_NOTHING,
        probability=least_sure.probability,
        preset_count=len(presets),
        hardly_matters=least_sure.hardly_matters,
        finding=least_sure,
    )
