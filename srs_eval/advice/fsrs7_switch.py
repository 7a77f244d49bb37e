"""Estimate what a learner would gain from a change to FSRS-7, and what it would cost.

FSRS-7 is optimized as forks of Anki do it, and compared with FSRS-6, optimized as Anki does it, on
the same held-out reviews of later days; and with what schedules the cards today, on the reviews
that today's parameters cannot have been fitted to. Minutes are compared at equal memory, in a
simulation of the cards by the schedule of each. Whose memory is simulated decides much: a schedule
does best where memory follows its own model. So both memories are simulated.

Anki cannot run FSRS-7 yet. Two forks can (`ReviewLog.can_run_fsrs7`); the question is answered for
everybody. `find_preview` takes the figure of the ranking, for those who cannot run it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice import population
from srs_eval.advice.candidates import Learner, can_evaluate_by_preset
from srs_eval.advice.health_check import check_health_by_fsrs7
from srs_eval.advice.reschedule import (
    ReasonWithoutCards,
    RescheduledCards,
    reschedule_cards,
    summarize_moves,
)
from srs_eval.advice.workload import limits
from srs_eval.advice.workload.estimate import (
    COMPARED_RETENTIONS,
    WorkloadQuestion,
    average_runs,
    prepare_presets,
    wait_for_runs,
)
from srs_eval.advice.workload.presets import (
    CURRENT_REPEATS,
    CardMemories,
    PresetCards,
    ScheduledDecks,
    are_scheduled_by,
    fit_and_draw,
)
from srs_eval.advice.workload.ranges import RECALLED, ScheduleComparison, compare_schedules
from srs_eval.advice.workload.simulator import Memory, SimulationResult
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.engine.result import (
    Result,
    find_persistence,
    log_loss_difference,
    review_losses,
)
from srs_eval.engine.workers import count_cores
from srs_eval.stats.intervals import (
    MIN_REVIEWS,
    decide_verdict,
    has_enough_data,
    ratio_interval,
)

QUESTION = "fsrs-7"
_MIN_UNSEEN_REVIEWS = 100  # since the parameters were last changed, to compare with today's
_TEN_YEARS = 3_650  # days
_RANKED_FSRS_7 = "FSRS-7-short-secs-recency-equalize_test_with_non_secs"
_RANKED_FSRS_6 = "FSRS-6-recency"


def assess_switch(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield a finding over all presets if there are several, then one for each preset."""
    if len(groups) > 1:
        yield _assess(learner, f.ALL_PRESETS, groups, with_minutes=True)
    for group in groups:
        name = learner.group_name(group)
        yield _assess(learner, name, [group], with_minutes=len(groups) == 1)


def _assess(
    learner: Learner, subject: str, groups: Sequence[int], *, with_minutes: bool
) -> f.Finding:
    test_index = learner.trials.test_index
    is_held_out = np.isin(learner.trials.partition[test_index], groups)
    index = test_index[is_held_out]
    rivals = []
    conclusion: Literal["better", "as good", "worse", "can't tell"] = f.CANT_TELL
    belief = None
    if len(index):
        fsrs7_losses = learner.held_out_losses(f.FSRS_7)[is_held_out]
        fsrs6_losses = learner.held_out_losses(f.RECENCY)[is_held_out]
        over_fsrs6 = _compare(learner, f.RECENCY, fsrs7_losses, fsrs6_losses, index)
        rivals.append(over_fsrs6)
        if over_fsrs6.verdict != "can't tell yet":
            conclusion = over_fsrs6.verdict
        prior = population.fsrs7_prior(len(index))
        belief = population.compute_belief(over_fsrs6.difference, prior)
        today = _compare_with_today(learner, groups, fsrs7_losses, index)
        if today is not None:
            rivals.append(today)
    missing = None
    probability = None
    if belief is not None:
        probability = belief.probability
        if not has_enough_data(rivals[0].difference):
            probability = population.limit_without_evidence(probability)
        missing = learner.missing_data_if_open(rivals[0].difference)
    is_by_preset = can_evaluate_by_preset(learner.log)
    cards = _reschedule_all(learner, groups) if is_by_preset else []
    rescheduled = [some for some in cards if isinstance(some, RescheduledCards)]
    evidence = f.Fsrs7Switch(
        conclusion=conclusion,
        can_run=learner.log.can_run_fsrs7,
        runs_it=all(map(learner.runs_fsrs7, groups)),
        fsrs_is_off=learner.is_fsrs_off,
        rivals=tuple(rivals),
        is_about_minutes=with_minutes and is_by_preset,
        minutes=estimate_minutes(learner) if with_minutes and is_by_preset else (),
        moves=_summarize_moves(learner, cards, rescheduled),
        cards_beyond_ten_years=sum(map(_count_beyond_ten_years, rescheduled)),
        checks=_check_health(learner, groups),
    )
    return f.Finding(
        QUESTION,
        subject,
        probability=probability,
        gain=None if belief is None else belief.gain,
        interval=rivals[0].difference if rivals else None,
        reviews=len(index),
        missing=missing,
        belief=belief,
        hardly_matters=belief is not None and belief.lies_within(learner.equivalence),
        evidence=evidence,
    )


def _check_health(learner: Learner, groups: Sequence[int]) -> tuple[f.HealthCheck, ...]:
    if len(groups) > 1 or learner.log.import_summary.app_name != "Anki":
        return ()
    return check_health_by_fsrs7(learner, groups[0])


# Log loss


def _compare(
    learner: Learner,
    name: str,
    fsrs7_losses: FloatArray,
    losses: FloatArray,
    index: IntArray,
) -> f.Fsrs7Rival:
    """Compare losses in nats (k,) at the positions (k,) of the learner's reviews."""
    difference = learner.interval(fsrs7_losses - losses, index)
    day = learner.trials.day[index]
    return f.Fsrs7Rival(
        name=name,
        log_loss=learner.interval(losses, index),
        fsrs7_log_loss=learner.interval(fsrs7_losses, index),
        difference=difference,
        verdict=learner.verdict(difference),
        saved=ratio_interval(losses - fsrs7_losses, losses, day, learner.persistence),
    )


def _compare_with_today(
    learner: Learner, groups: Sequence[int], fsrs7_losses: FloatArray, index: IntArray
) -> f.Fsrs7Rival | None:
    """Compare with what schedules the cards today; None if that is unknown, or FSRS-7.

    `fsrs7_losses` (k,) are those of the held-out reviews at the positions `index` (k,). Without
    FSRS, today's scheduler is SM-2, which is fitted to nothing. Otherwise only reviews count that
    the current parameters cannot have been fitted to, and FSRS-7 is fitted again before each of
    five blocks of them.
    """
    if learner.is_fsrs_off and learner.sm2_candidates:
        is_held_out = np.isin(learner.trials.test_index, index)
        losses = learner.held_out_losses(f.SM2)[is_held_out]
        return _compare(learner, f.SM2, fsrs7_losses, losses, index)
    unseen = []
    for group in groups:
        preset = learner.log.presets.get(group)
        if preset is None or not preset.has_settings or learner.runs_fsrs7(group):
            continue
        since = learner.since_optimized(group)
        if since is not None:
            unseen.append(since)
    if not unseen:
        return None
    unseen_index = np.sort(np.concatenate(unseen))
    if len(unseen_index) < _MIN_UNSEEN_REVIEWS or learner.count_days(unseen_index) < 2:
        return None
    folds = learner.rolling_folds(unseen_index)
    try:
        fsrs7_p = learner.predict(f.FSRS_7, folds)
    except NotEnoughData:
        return None
    losses = learner.losses(learner.predict(f.CURRENT, folds), unseen_index)
    return _compare(learner, f.CURRENT, learner.losses(fsrs7_p, unseen_index), losses, unseen_index)


def find_preview(
    log: ReviewLog, results: Mapping[str, Result], equivalence: float
) -> f.Fsrs7Preview | None:
    """Compare FSRS-7 with FSRS-6 in a ranking, for a learner of Anki's that cannot run FSRS-7.

    None for other learners, if one of the two has no result on the same reviews, or if it is not
    settled which is better.
    """
    fsrs7 = results.get(_RANKED_FSRS_7)
    fsrs6 = results.get(_RANKED_FSRS_6)
    if fsrs7 is None or fsrs6 is None or log.can_run_fsrs7 or log.import_summary.app_name != "Anki":
        return None
    difference = log_loss_difference(fsrs7, fsrs6)
    if difference is None:
        return None
    verdict = decide_verdict(difference, equivalence=equivalence)
    if verdict == "can't tell yet":
        return None
    fsrs6_losses = review_losses(fsrs6)
    saved = ratio_interval(
        fsrs6_losses - review_losses(fsrs7), fsrs6_losses, fsrs6.day, find_persistence(fsrs6)
    )
    return f.Fsrs7Preview(verdict, saved)


# The day of the switch


def _reschedule_all(
    learner: Learner, groups: Sequence[int]
) -> list[RescheduledCards | ReasonWithoutCards]:
    """Reschedule the cards of all presets that FSRS-7 does not schedule yet."""
    cards = []
    for group in groups:
        preset = learner.log.presets.get(group)
        if preset is None or learner.runs_fsrs7(group):
            continue
        try:
            parameters = learner.fit_parameters(f.FSRS_7, group)
        except NotEnoughData:
            continue
        assert parameters is not None
        cards.append(reschedule_cards(learner, group, preset, parameters))
    return cards


def _summarize_moves(
    learner: Learner,
    cards: Sequence[RescheduledCards | ReasonWithoutCards],
    rescheduled: Sequence[RescheduledCards],
) -> f.Reschedule | None:
    """Summarize the moves of all presets; None if there is no preset whose cards could move."""
    if rescheduled:
        return summarize_moves(rescheduled, fsrs_is_off=learner.is_fsrs_off)
    reasons = [reason for reason in cards if not isinstance(reason, RescheduledCards)]
    return f.Reschedule(reasons[0]) if reasons else None


def _count_beyond_ten_years(cards: RescheduledCards) -> int:
    return int((cards.new_due_day - cards.last_day >= _TEN_YEARS).sum())


# Minutes


def estimate_minutes(learner: Learner) -> tuple[f.SwitchMinutes, ...]:
    """Estimate minutes at equal memory, for the cards of all presets together.

    () if there are fewer than 1,000 reviews, or if the log does not say when cards are due.
    Comparisons that a daily limit of reviews decides are left out.
    """
    question = WorkloadQuestion(retentions=COMPARED_RETENTIONS)
    if len(learner.trials) < MIN_REVIEWS:
        return ()
    try:
        presets, _ = prepare_presets(learner, question, is_off=learner.is_fsrs_off)
    except InputError:
        return ()
    fits = {model: _fit_all(learner, presets, model) for model in (f.BY_FSRS_7, f.BY_FSRS_6)}
    schedulers = {f.BY_FSRS_6: fits[f.BY_FSRS_6]}
    today = [cards.scheduler for cards in presets]
    is_today_known = not any(are_scheduled_by(presets, fitted) for fitted in fits.values())
    if is_today_known and not all(memory.model == f.BY_FSRS_7 for memory in today):
        schedulers[f.BY_TODAY] = today
    minutes = []
    with ThreadPoolExecutor(count_cores()) as pool:
        simulation = _Simulation(presets, pool)
        for model, memories in fits.items():
            card_memories = CardMemories.make(presets, memories)
            grid = simulation.run_grid(fits[f.BY_FSRS_7], card_memories)
            if grid is None:
                continue
            for schedule, scheduler in schedulers.items():
                comparison = simulation.compare(grid, scheduler, card_memories)
                if comparison is not None:
                    minutes.append(_make_minutes(schedule, model, comparison))
    return tuple(minutes)


def _fit_all(learner: Learner, presets: Sequence[PresetCards], model: str) -> list[Memory]:
    return [next(fit_and_draw(learner, cards, 0, model)) for cards in presets]


def _make_minutes(schedule: str, memory: str, comparison: ScheduleComparison) -> f.SwitchMinutes:
    share = comparison.same_share
    known = comparison.same_known
    return f.SwitchMinutes(
        schedule=schedule,
        memory=memory,
        minutes=comparison.minutes,
        recalled=comparison.recalled,
        known=comparison.known,
        extra_minutes=None if share is None else share.extra_minutes,
        extra_minutes_same_known=None if known is None else known.extra_minutes,
    )


@dataclass(frozen=True, eq=False)
class _Grid:
    """Figures of FSRS-7 at r desired retentions that no daily limit decides."""

    retentions: FloatArray  # (r,)
    figures: FloatArray  # (r, FIGURES)
    by_seed: FloatArray  # (seeds, r, FIGURES)


@dataclass(frozen=True, eq=False)
class _Simulation:
    """Simulations of all presets' cards, which run in the threads of a pool.

    A schedule is simulated as often as the other one, by the same seeds. How far the seeds lie
    apart is part of the range of a comparison.
    """

    presets: Sequence[PresetCards]
    pool: ThreadPoolExecutor

    def run_grid(self, schedulers: Sequence[Memory], memories: CardMemories) -> _Grid | None:
        """Simulate each preset's own scheduler at desired retentions that all presets share.

        None if a daily limit decides all of them.
        """
        decks = ScheduledDecks.make(self.presets, schedulers, "history")
        pending = []
        for retention in COMPARED_RETENTIONS:
            by_preset = [retention] * len(self.presets)
            pending.append(decks.start(self.pool, memories, range(CURRENT_REPEATS), by_preset))
        retentions = []
        runs_by_retention = []
        for retention, runs in zip(COMPARED_RETENTIONS, map(wait_for_runs, pending), strict=True):
            if not limits.measure_effects(runs).is_limited:
                retentions.append(retention)
                runs_by_retention.append(runs)
        if not retentions:
            return None
        by_seed = np.stack([_figures_by_seed(runs) for runs in runs_by_retention], axis=1)
        return _Grid(np.array(retentions), by_seed.mean(axis=0), by_seed)

    def compare(
        self, grid: _Grid, schedulers: Sequence[Memory], memories: CardMemories
    ) -> ScheduleComparison | None:
        """Compare FSRS-7's grid with other schedulers at the presets' desired retentions."""
        decks = ScheduledDecks.make(self.presets, schedulers, "history")
        runs = wait_for_runs(decks.start_current(self.pool, memories, range(CURRENT_REPEATS)))
        by_seed = _figures_by_seed(runs)
        current = by_seed.mean(axis=0)
        if limits.measure_effects(runs).is_limited or np.isnan(current[RECALLED]):
            return None
        return compare_schedules(grid.retentions, grid.figures, current, grid.by_seed, by_seed)


def _figures_by_seed(runs: Sequence[Sequence[SimulationResult]]) -> FloatArray:
    """Return the figures of each run (seeds, FIGURES)."""
    return np.array([average_runs([results], None) for results in runs])
