"""Fit and evaluate candidate parameters for presets, each on reviews after its training reviews.

Reviews are those that Anki's optimizer uses (`--rows anki`). The engine fits and evaluates
candidates that are its configurations; this module adds the other candidates, and other folds.

A candidate is named as in `findings`: parameters that a preset could get ("optimized", "current"),
or a model beside them ("average"). Reviews are evaluated by group: by preset, by deck, or all
together. A group is its id, which is the partition of its trials. Positions are indices of the
learner's reviews (`Learner.trials`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from srs_eval.advice import findings as f
from srs_eval.advice import taught
from srs_eval.advice.pooling import PooledFits, fit_one_group, fit_pooled
from srs_eval.data.days import find_midnight_s
from srs_eval.data.errors import InputError, NotEnoughData, format_count
from srs_eval.data.protocol import EQUIVALENCE_MARGIN, Protocol
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.rows import IGNORED_DATE, SUSPENDED, exclude_presets, select_presets, select_rows
from srs_eval.data.trials import Fold, Trials
from srs_eval.engine.session import LearnerSession, fit_and_predict
from srs_eval.metrics import log_losses
from srs_eval.models import TrainedModel, all_models, fsrs6, fsrs7
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.models.own_parameters import (
    explain_left_out_presets,
    latest_possible_fit_s,
    model_name,
    normalize_as_anki,
    normalize_parameters,
    preset_parameters,
)
from srs_eval.stats import intervals
from srs_eval.stats.intervals import Interval, Verdict
from srs_eval.stats.persistence import Persistence, estimate_persistence
from srs_eval.training.hyperparameters import Context

CONFIGURATIONS: Mapping[str, str] = {
    f.OPTIMIZED: "FSRS-6-preset",
    f.RECENCY: "FSRS-6-recency-preset",
    f.DEFAULTS: "FSRS-6-dry-run",
    "initial stability only": "FSRS-6-pretrain-preset",
    f.ONE_FOR_ALL: "FSRS-6",
    f.ONE_PER_DECK: "FSRS-6-deck",
    f.AVERAGE: "AVG",
}
"""The engine's configuration of each candidate that has one."""
_CONFIGURATIONS_WITHOUT_PRESETS: Mapping[str, str] = {
    candidate: configuration.removesuffix("-preset")
    for candidate, configuration in CONFIGURATIONS.items()
    if candidate not in (f.ONE_FOR_ALL, f.ONE_PER_DECK)  # these need presets
}
"""Configurations of the candidates where reviews are evaluated by deck or all together."""
_FSRS_7_CONFIGURATIONS: Mapping[str, str] = {
    f.OPTIMIZED: "FSRS-7-short-secs-equalize_test_with_non_secs-preset",
    f.RECENCY: "FSRS-7-short-secs-recency-equalize_test_with_non_secs-preset",
    f.DEFAULTS: "FSRS-7-dry-run-short-secs-equalize_test_with_non_secs",
}
"""Configurations of the engine for presets that a fork of Anki schedules with FSRS-7, or could.
Without presets, their names lack "-preset"."""
_SHORTEST_INTERVAL = 1  # days; the shortest interval that Anki gives a card after its steps
ACROSS_PRESETS = (f.ONE_FOR_ALL, f.POOLED, f.SHARED)  # candidates that need several presets
_ACCEPTED_SOURCES = "give a collection, a package or a research export"
PRESET_PROTOCOL = Protocol(rows="anki", short=True, partitions="preset")
"""Evaluates reviews by preset."""
_DECK_PROTOCOL = Protocol(rows="anki", short=True, partitions="deck")
"""Evaluates the reviews of one preset by deck."""
ALL_REVIEWS_PROTOCOL = Protocol(short=True)
"""Evaluates all reviews together if presets are unknown; its rows are the benchmark's."""
_T = TypeVar("_T")
_PACE_DAYS = 30  # days over which the pace of reviews is measured
_ROLLING_BLOCKS = 5  # blocks of reviews before each of which a candidate is fitted again


def has_known_presets(log: ReviewLog) -> bool:
    """Return True if presets are known and Anki's rule can select the rows."""
    return log.entries is not None and log.has_decks


def has_no_cards(log: ReviewLog) -> bool:
    """Return True if all cards of a collection are deleted."""
    return log.entries is not None and bool(log.decks) and not len(log.cards.card_id)


def find_excluded_cards(log: ReviewLog) -> f.ExcludedCards | None:
    """Return the cards that are gone if presets are known but cannot be evaluated, else None."""
    is_gone = has_no_cards(log)
    if not is_gone and (not has_known_presets(log) or can_evaluate_by_preset(log)):
        return None
    _, state = find_excluded_majority(log)
    return f.ExcludedCards(
        state="deleted" if is_gone or state == "deleted" else "suspended",
        suspended=int(log.cards.suspended.sum()),
        total=len(log.cards.card_id),
        desired=_list_desired_retentions(log),
    )


def _list_desired_retentions(log: ReviewLog) -> tuple[float, ...]:
    """Return the desired retentions of the presets that have cards, in order; () with FSRS off."""
    if not log.import_summary.fsrs_enabled:
        return ()
    used = set(log.preset_of(log.cards.deck_id).tolist())
    desired = {preset.desired_retention for key, preset in log.presets.items() if key in used}
    return tuple(sorted(retention for retention in desired if retention is not None))


def explain_too_few(log: ReviewLog, reason: NotEnoughData) -> str:
    """Return the reason, followed by what leaves out more than half of the entries."""
    future_dates = find_future_dates(log)
    if future_dates and _are_most_ignored(log):
        preset, day = next(iter(future_dates.items()))
        return (
            f"{reason}: in the preset “{preset}”, “Ignore cards reviewed before” is {day}, and "
            "you began all its cards before that date. Empty it in the deck options (FSRS)"
        )
    excluded, state = find_excluded_majority(log)
    if not excluded:
        return str(reason)
    assert log.entries is not None
    are_all = state == "suspended" and bool(log.cards.suspended.all())
    entries = len(log.entries.time_ms)
    cause = f"most of your reviews are of {state} cards ({excluded:,} of {entries:,} entries)"
    if are_all:
        cause = "all your cards are suspended"
    return f"{reason}: {cause}, and Anki's optimizer ignores {state} cards"


def add_required_amount(log: ReviewLog, reason: str) -> str:
    """Return the reason, followed by the number of reviews needed if the log is small."""
    count = len(select_rows(log).rows)
    if count >= intervals.MIN_REVIEWS:
        return reason
    needed = f"{intervals.MIN_REVIEWS:,} reviews on {intervals.MIN_DAYS} days"
    so_far = format_count(count, "review")
    return f"{reason}; you have {so_far} so far, and most answers need {needed}"


def find_future_dates(log: ReviewLog) -> dict[str, str]:
    """Return the dates before which Anki ignores cards that come after the last review.

    They are keyed by the names of their presets, which have reviews. Such a date leaves out all
    cards of its preset.
    """
    dated_presets = [preset for preset in log.presets.values() if preset.ignore_before is not None]
    if log.entries is None or not dated_presets:
        return {}
    reviewed_cards = np.unique(log.entries.card_id)
    with_reviews = set(log.preset_of(log.deck_of(reviewed_cards)).tolist())
    last_s = int(log.entries.time_ms.max()) / 1000
    dates = {}
    for preset in dated_presets:
        assert preset.ignore_before is not None
        if preset.id in with_reviews and find_midnight_s(preset.ignore_before) > last_s:
            dates[preset.name] = preset.ignore_before
    return dates


def _are_most_ignored(log: ReviewLog) -> bool:
    """Return True if presets' dates leave out more than half of the entries."""
    ignored = select_rows(log, "anki").dropped.get(IGNORED_DATE, 0)
    return 2 * ignored > len(log.reviews.card_id)


def find_excluded_majority(log: ReviewLog) -> tuple[int, str]:
    """Return (count, "suspended" or "deleted") if most entries belong to such cards, else (0, "").

    Anki's optimizer ignores these entries; "most" means more than half.
    """
    if not (has_known_presets(log) or has_no_cards(log)):
        return 0, ""
    assert log.entries is not None
    card_id = log.entries.card_id
    cards = log.cards
    is_deleted = ~np.isin(card_id, cards.card_id)
    if 2 * is_deleted.sum() > len(card_id):
        return int(is_deleted.sum()), "deleted"
    is_suspended = np.isin(card_id, cards.card_id[cards.suspended])
    if 2 * is_suspended.sum() <= len(card_id):  # no need to apply Anki's rule, which takes long
        return 0, ""
    suspended = select_rows(log, "anki").dropped.get(SUSPENDED, 0)
    if 2 * suspended > len(card_id):
        return suspended, "suspended"
    return 0, ""


def can_evaluate_by_preset(log: ReviewLog) -> bool:
    """Return True if presets are known, unless excluded entries leave too few of Anki's rows."""
    if not has_known_presets(log):
        return False
    excluded, _ = find_excluded_majority(log)
    if not excluded:
        return True
    return len(select_rows(log, "anki").rows) >= intervals.MIN_REVIEWS


def require_presets(log: ReviewLog) -> None:
    """Raise InputError unless `has_known_presets` holds."""
    if has_known_presets(log):
        return
    raise InputError(
        f"{log.import_summary.path} says nothing about Anki's decks and presets: "
        f"{_ACCEPTED_SOURCES}."
    )


@dataclass(frozen=True, eq=False)
class _FractionalTrials:
    """FSRS-7's trials: intervals in fractions of a day, including same-day reviews."""

    trials: Trials
    position: IntArray  # (n,) index of each of the learner's trials among these

    def map_folds(self, folds: Sequence[Fold]) -> tuple[Fold, ...]:
        """Map the folds' tests to these trials; train on the tested presets' earlier reviews."""
        partition = self.trials.partition
        mapped = []
        for fold in folds:
            test = self.position[fold.test]
            earlier = np.arange(test.min())
            is_tested_preset = np.isin(partition[earlier], partition[test])
            mapped.append(Fold(train=earlier[is_tested_preset], test=test))
        return tuple(mapped)


@dataclass(frozen=True, eq=False)
class Learner:
    """Reviews of one learner by preset (or deck), with fits and predictions for them."""

    log: ReviewLog
    session: LearnerSession
    trials: Trials
    """The n reviews that came on a later day than the card's previous review; the partition is the
    preset."""
    context: Context
    equivalence: float = EQUIVALENCE_MARGIN
    """Smaller differences in log loss count as zero."""
    _memo: dict[tuple[Hashable, ...], Any] = field(default_factory=dict, repr=False)
    """Results that several questions need, by function and arguments; each is computed once."""

    @staticmethod
    def of(
        log: ReviewLog,
        context: Context | None = None,
        protocol: Protocol = PRESET_PROTOCOL,
        equivalence: float = EQUIVALENCE_MARGIN,
    ) -> Learner:
        """Create a learner; by preset, leave out presets whose parameters Anki does not run.

        Raises NotEnoughData, which names the presets left out.
        """
        left_out = {}
        if protocol.partitions != "none":
            left_out = explain_left_out_presets(log)
        if left_out:
            log = exclude_presets(log, left_out)
        # Without the user's number, all models are evaluated on the same reviews.
        session = LearnerSession(replace(log, user=None))
        try:
            trials = session.trials(protocol)
            return Learner(log, session, trials, context or Context(), equivalence)
        except NotEnoughData as reason:
            if not left_out:
                raise
            sentences = " ".join(left_out.values())
            if not len(log.cards.card_id):
                raise NotEnoughData(sentences.removesuffix(".")) from None
            raise NotEnoughData(f"{sentences} In the other presets: {reason}") from None

    @property
    def configurations(self) -> Mapping[str, str]:
        """Configurations of the engine by candidate name."""
        if self.trials.protocol == PRESET_PROTOCOL:
            return CONFIGURATIONS
        return _CONFIGURATIONS_WITHOUT_PRESETS

    @cached_property
    def groups(self) -> Mapping[int, str]:
        """Names of the presets with evaluated reviews by id, the preset with most reviews first."""
        group_ids, count = np.unique(self.trials.partition, return_counts=True)
        order = np.lexsort((group_ids, -count))
        return {group: self.group_name(group) for group in group_ids[order].tolist()}

    def split_preset_by_deck(self, group: int) -> Learner | None:
        """Return a learner of one preset whose groups are its decks; None for too few reviews."""
        if group not in self.log.presets:
            return None
        try:
            log = select_presets(self.log, str(group))
            return Learner.of(log, self.context, _DECK_PROTOCOL, self.equivalence)
        except NotEnoughData:
            return None

    def group_name(self, group: int) -> str:
        """Return the group's name; no two groups have the same name."""
        if self.trials.protocol.partitions == "none":
            return f.ALL_REVIEWS
        return self.log.preset_name(group)

    @cached_property
    def entry_index(self) -> IntArray:
        """Index of each review (n,) among the log's entries, or among its rows if it has rows."""
        selection = self.session.selection(self.trials.protocol)
        return selection.entry_index[self.trials.review_th - 1]

    @cached_property
    def held_out_entries(self) -> IntArray:
        """Index of each held-out review (k,), as in `entry_index`."""
        return self.entry_index[self.trials.test_index]

    @cached_property
    def time_s(self) -> FloatArray:
        """Unix time of each review (n,); the log must have entries."""
        assert self.log.entries is not None
        return self.log.entries.time_ms[self.entry_index] / 1000

    def stored(self, group: int) -> tuple[float, ...]:
        """Return the preset's active parameters; () if the defaults apply or none are known.

        While FSRS is off, none are active.
        """
        preset = self.log.presets.get(group)
        if preset is None or self.is_fsrs_off:
            return ()
        return preset.active_parameters

    def runs_fsrs7(self, group: int) -> bool:
        """Return True if a fork of Anki schedules the preset with FSRS-7, or would with FSRS on.

        While FSRS is off, stored parameters do not count: a preset begins with its chosen version.
        """
        preset = self.log.presets.get(group)
        if preset is None:
            return False
        if self.is_fsrs_off:
            return preset.chosen_version == 7
        return preset.runs_fsrs7

    def can_change_to_fsrs7(self, group: int) -> bool:
        """Return True if the learner's program can run FSRS-7, but runs FSRS-6 for the preset."""
        return self.log.can_run_fsrs7 and not self.runs_fsrs7(group)

    def can_be_taught(self, group: int, count: int | None = None) -> bool:
        """Return True if three models can teach FSRS-6 what a preset's few reviews do not show.

        With `count`, only the preset's first reviews count.
        """
        if self.trials.protocol != PRESET_PROTOCOL or self.runs_fsrs7(group):
            return False
        if count is None:
            count = len(self.positions(group))
        return taught.MIN_REVIEWS <= count < taught.MAX_REVIEWS

    @cached_property
    def fractional_trials(self) -> _FractionalTrials:
        """Trials from which FSRS-7 predicts the same reviews."""
        protocol = replace(
            self.trials.protocol, short=True, secs=True, equalize_test_with_non_secs=True
        )
        trials = self.session.trials(protocol)
        return _FractionalTrials(trials, np.searchsorted(trials.review_th, self.trials.review_th))

    def without_fsrs7(self) -> Learner | None:
        """Return the learner without FSRS-7 presets; None if nothing else can be evaluated."""
        fsrs7_groups = [group for group in self.groups if self.runs_fsrs7(group)]
        if not fsrs7_groups:
            return self
        if len(fsrs7_groups) == len(self.groups):
            return None

        def exclude_fsrs7() -> Learner | None:
            try:
                log = exclude_presets(self.log, fsrs7_groups)
                return Learner.of(log, self.context, self.trials.protocol, self.equivalence)
            except NotEnoughData:
                return None

        return self.compute_once(("without FSRS-7",), exclude_fsrs7)

    def positions(self, group: int) -> IntArray:
        """Return the positions of a preset's reviews of later days."""
        return np.flatnonzero(self.trials.partition == group)

    def since_optimized(self, group: int) -> IntArray | None:
        """Return positions of a preset's reviews that its parameters cannot have been fitted to.

        If the defaults are active, these are all held-out reviews: the defaults are fitted to none.
        Returns None if the source does not say how old the parameters are.
        """
        if not self.stored(group):
            test_index = self.trials.test_index
            return test_index[self.trials.partition[test_index] == group]
        latest_fit_s = latest_possible_fit_s(self.log, self.log.presets[group])
        if latest_fit_s is None:
            return None
        index = self.positions(group)
        return index[self.time_s[index] > latest_fit_s]

    def rolling_folds(self, index: IntArray) -> tuple[Fold, ...]:
        """Split positions into blocks, each tested after training on all reviews before it."""
        blocks = [block for block in np.array_split(index, _ROLLING_BLOCKS) if len(block)]
        return tuple(Fold(train=np.arange(block[0]), test=block) for block in blocks)

    @property
    def is_fsrs_off(self) -> bool:
        """Return True if the file says that FSRS is off."""
        return self.log.import_summary.fsrs_enabled is False

    @cached_property
    def excluded_majority(self) -> str:
        """Return "suspended" or "deleted" if nearly all reviewed cards are, else ""."""
        if can_evaluate_by_preset(self.log):
            return ""
        _, state = find_excluded_majority(self.log)
        return state

    @property
    def sm2_candidates(self) -> tuple[str, ...]:
        """Return (SM2,) for a log from Anki, because the model is Anki's SM-2, else ()."""
        if self.log.import_summary.app_name == "Anki":
            return (f.SM2,)
        return ()

    def predict(self, candidate: str, folds: Sequence[Fold] | None = None) -> FloatArray:
        """Return the probabilities of the folds' tested reviews, one fold after the other.

        `candidate` is one of CONFIGURATIONS, CURRENT, POOLED, SHARED, SEPARATE, TAUGHT, SM2 or
        FSRS_7, which is fitted as forks of Anki optimize it.
        Without `folds`, the protocol's folds over all reviews are used. Raises NotEnoughData.
        """
        folds = tuple(self.trials.folds if folds is None else folds)
        if candidate == f.CURRENT:
            active = {group: self.active_parameters(group) for group in self.groups}
            return self._predict_by_preset(folds, active)
        if candidate in (f.POOLED, f.SHARED, f.SEPARATE, f.TAUGHT):
            p_by_fold = []
            for fold in folds:
                parameters = self._fit_before_fold(candidate, fold)
                p_by_fold.append(self._predict_by_preset([fold], parameters))
            return np.concatenate(p_by_fold)
        if candidate == f.SM2:
            return self._predict_with_sm2(folds)
        if candidate == f.FSRS_7:
            return self._predict_with_fsrs7(f.RECENCY, folds)
        configuration = self.configuration(candidate)
        trials = self._trials_for(configuration)
        if configuration.protocol.partitions == "preset":
            folds = self._train_on_tested_presets(folds)
        return fit_and_predict(configuration, replace(trials, folds=folds), self.context).p

    def _train_on_tested_presets(self, folds: Sequence[Fold]) -> tuple[Fold, ...]:
        """Return the folds without training positions of presets that they do not test."""
        partition = self.trials.partition
        reduced = []
        for fold in folds:
            is_tested = np.isin(partition[fold.train], partition[fold.test])
            reduced.append(replace(fold, train=fold.train[is_tested]))
        return tuple(reduced)

    def predict_refitted(self, candidate: str, group: int, folds: Sequence[Fold]) -> FloatArray:
        """Predict like `predict`, but fits and defaults are FSRS-7's if the preset runs it."""
        if not self.runs_fsrs7(group) or candidate not in _FSRS_7_CONFIGURATIONS:
            return self.predict(candidate, folds)
        return self._predict_with_fsrs7(candidate, folds)

    def _predict_with_fsrs7(self, candidate: str, folds: Sequence[Fold]) -> FloatArray:
        """Return the probabilities of the folds' tested reviews by one of FSRS-7's fits."""
        configuration = self._fsrs7_configuration(candidate)
        folds = self.fractional_trials.map_folds(folds)
        trials = self._fsrs7_trials(configuration, folds)
        return fit_and_predict(configuration, trials, self.context).p

    def _fsrs7_trials(self, configuration: Configuration, folds: Sequence[Fold]) -> Trials:
        """Return FSRS-7's trials for a configuration; with recency, FSRS-7 has its own weights."""
        trials = self.fractional_trials.trials
        protocol = replace(trials.protocol, recency=configuration.protocol.recency)
        return replace(trials, folds=tuple(folds), protocol=protocol)

    def active_parameters(self, group: int) -> list[float]:
        """Return the parameters that schedule a preset: 21 of FSRS-6, or 34 of FSRS-7.

        While FSRS is off, these are the defaults of the version that the preset would run. They are
        FSRS-6's defaults for an unknown preset.
        """
        preset = self.log.presets.get(group)
        if preset is not None and not self.is_fsrs_off:
            return preset_parameters(preset)
        if self.runs_fsrs7(group):
            return normalize_parameters(fsrs7.DEFAULT)
        return normalize_as_anki(())

    def _fsrs7_configuration(self, candidate: str) -> Configuration:
        rows = self.trials.protocol.rows
        name = _FSRS_7_CONFIGURATIONS[candidate]
        if self.trials.protocol.partitions != "preset":
            name = name.removesuffix("-preset")
        return resolve_configurations(name, Protocol(rows=rows))[0]

    def configuration(self, candidate: str) -> Configuration:
        """Return the engine's configuration of a candidate."""
        rows = self.trials.protocol.rows
        return resolve_configurations(self.configurations[candidate], Protocol(rows=rows))[0]

    @cached_property
    def active_predictions(self) -> FloatArray:
        """Probabilities of all reviews (n,) by the active parameters, which may have seen them."""
        index = np.arange(len(self.trials))
        return self.predict(f.CURRENT, [Fold(train=index[:0], test=index)])

    @cached_property
    def persistence(self) -> Persistence:
        """Persistence of good and bad spells beside what optimized FSRS predicts.

        It rests on the held-out reviews, as in the ranking, so that one difference has one interval
        wherever it is shown.
        """
        index = self.trials.test_index
        p = self.held_out_predictions(f.OPTIMIZED)
        return estimate_persistence(self.trials.y[index], p, self.trials.day[index])

    def predict_with_parameters(
        self, values: Sequence[float], index: IntArray, days_late: IntArray | None = None
    ) -> FloatArray:
        """Return the probabilities of the reviews at the positions by FSRS-6 or FSRS-7 parameters.

        With `days_late` (n,), each review is predicted as if it had been done so many days earlier;
        its history stays as it was.
        """
        trials = self.trials
        position = np.arange(len(trials))
        predict = fsrs6.predict
        if model_name(values) == "FSRS-7":
            trials = self.fractional_trials.trials
            position = self.fractional_trials.position
            predict = fsrs7.predict
        if days_late is not None:
            delta_t = trials.delta_t.copy()
            delta_t[position] -= days_late
            trials = replace(trials, delta_t=delta_t)
        return predict(trials, list(values), position[index], self.context)

    @cached_property
    def days_late(self) -> IntArray | None:
        """Days past due of each review (n,), below 0 if it was early; None if unknown.

        A review without a scheduled interval of a day or more counts as done when it was due.
        """
        entries = self.log.entries
        if entries is None or entries.interval is None:
            return None
        scheduled = entries.interval[self.entry_index]
        late: IntArray = np.where(scheduled >= 1, self.trials.elapsed_days - scheduled, 0)
        return late

    @property
    def is_due_after_a_day(self) -> NDArray[np.bool_]:
        """Tell of each review (n,) whether its card was due after a day, the shortest interval.

        False for all reviews if the source does not say when cards were due.
        """
        if self.days_late is None:
            return np.zeros(len(self.trials), dtype=bool)
        is_due: NDArray[np.bool_] = self.trials.elapsed_days - self.days_late == _SHORTEST_INTERVAL
        return is_due

    def predict_on_due_days(self) -> FloatArray | None:
        """Return each review's probability (n,) on its due day by the active parameters.

        None if the source does not say when cards were due.
        """
        if self.days_late is None:
            return None
        p = np.empty(len(self.trials))
        for group in self.groups:
            positions = self.positions(group)
            values = self.active_parameters(group)
            p[positions] = self.predict_with_parameters(values, positions, self.days_late)
        return p

    def fit_parameters(
        self, candidate: str, group: int, count: int | None = None
    ) -> list[float] | None:
        """Return the parameters that a preset would get, fitted to all available reviews.

        With `count`, which only RECENCY takes, they are fitted to the preset's first reviews. None
        for a candidate that is a model without parameters.
        """
        if count is not None and count < len(self.positions(group)):
            assert candidate == f.RECENCY
            return self.compute_once(
                ("fit", group, count), lambda: self._fit_first_reviews(group, count)
            )
        if candidate == f.FSRS_7:
            return self._fit_fsrs7_once(f.RECENCY, group)
        if self.runs_fsrs7(group) and candidate in _FSRS_7_CONFIGURATIONS:
            return self._fit_fsrs7_once(candidate, group)
        if candidate == f.DEFAULTS:
            return list(fsrs6.DEFAULT)
        all_positions = np.arange(len(self.trials))
        if candidate == f.POOLED:
            return self._fit_pooled(len(all_positions)).by_group[group]
        if candidate == f.TAUGHT:
            return self.fit_taught(self.positions(group))
        if candidate == f.SHARED:
            return self.compute_once(
                ("together",), lambda: fit_one_group(self.trials, all_positions)
            )
        return self.compute_once(
            ("fit", candidate, group), lambda: self._fit_configuration(candidate, group)
        )

    def _fit_configuration(self, candidate: str, group: int) -> list[float] | None:
        """Fit an engine's configuration to a preset's reviews, or to all, as it says."""
        all_positions = np.arange(len(self.trials))
        configuration = self.configuration(candidate)
        preset_positions = self.positions(group)
        train = all_positions
        if configuration.protocol.partitions == "preset":
            train = preset_positions
        fold = Fold(train=train, test=preset_positions[-1:])  # tests one review because it must
        trials = replace(self._trials_for(configuration), folds=(fold,))
        by_partition = fit_and_predict(configuration, trials, self.context).parameters
        if by_partition is None:
            return None
        return list(next(iter(by_partition.values())))

    def _fit_first_reviews(self, group: int, count: int) -> list[float] | None:
        """Fit a preset's version of FSRS to its first reviews as Anki's optimizer would."""
        positions = self.positions(group)[:count]
        fold = Fold(train=positions, test=positions[-1:])  # tests one review because it must
        if self.runs_fsrs7(group):
            configuration = self._fsrs7_configuration(f.RECENCY)
            at_last = self.fractional_trials.position[positions[-1]]
            earlier = np.arange(at_last + 1)
            train = earlier[self.fractional_trials.trials.partition[earlier] == group]
            fold = Fold(train=train, test=train[-1:])
            trials = self._fsrs7_trials(configuration, (fold,))
        else:
            configuration = self.configuration(f.RECENCY)
            trials = replace(self._trials_for(configuration), folds=(fold,))
        by_partition = fit_and_predict(configuration, trials, self.context).parameters
        if by_partition is None:
            return None
        return list(next(iter(by_partition.values())))

    def _fit_fsrs7_once(self, candidate: str, group: int) -> list[float]:
        return self.compute_once(
            ("fit FSRS-7", candidate, group), lambda: self._fit_fsrs7(candidate, group)
        )

    def _fit_fsrs7(self, candidate: str, group: int) -> list[float]:
        """Fit FSRS-7 as a candidate to all reviews of a preset."""
        if candidate == f.DEFAULTS:
            return list(fsrs7.DEFAULT)
        trials = self.fractional_trials.trials
        index = np.flatnonzero(trials.partition == group)
        fold = Fold(train=index, test=index[-1:])  # tests one review because it must
        configuration = self._fsrs7_configuration(candidate)
        trials = self._fsrs7_trials(configuration, (fold,))
        by_partition = fit_and_predict(configuration, trials, self.context).parameters
        assert by_partition is not None
        return list(by_partition[group])

    def losses(self, p: FloatArray, index: IntArray) -> FloatArray:
        """Return the log loss in nats of each prediction (k,) for the positions (k,)."""
        return log_losses(self.trials.y[index], p)

    def held_out_predictions(self, candidate: str) -> FloatArray:
        """Return probabilities for the protocol's held-out reviews (`trials.test_index`)."""
        return self.compute_once(("held out", candidate), lambda: self.predict(candidate))

    def held_out_losses(self, candidate: str) -> FloatArray:
        """Return the log loss in nats of each held-out review."""
        return self.losses(self.held_out_predictions(candidate), self.trials.test_index)

    def count_days(self, index: IntArray) -> int:
        """Return the number of days on which the reviews at the positions were done."""
        return len(np.unique(self.trials.day[index]))

    def interval(self, values: FloatArray, index: IntArray, fewest_days: int = 0) -> Interval:
        """Return the mean of values (k,) at the positions (k,), with its interval over days.

        If there are fewer than `fewest_days` days, the interval has no bounds.
        """
        interval = intervals.mean_interval(values, self.trials.day[index], self.persistence)
        if interval.days < fewest_days:
            return replace(interval, half_width=math.nan)
        return interval

    def verdict(self, difference: Interval) -> Verdict:
        """Decide on one difference in log loss."""
        return intervals.decide_verdict(difference, equivalence=self.equivalence)

    def verdicts(self, differences: Mapping[str, Interval]) -> dict[str, Verdict]:
        """Decide on several differences in log loss that answer one question."""
        return intervals.decide_verdicts(differences, equivalence=self.equivalence)

    def missing_data(self, difference: Interval) -> f.MissingData:
        """Return the data still needed for a verdict on an inconclusive difference in log loss."""
        return f.estimate_missing_data(difference, self.equivalence)

    def missing_data_if_open(self, difference: Interval) -> f.MissingData | None:
        """Return the data still needed; None if decided, or if more reviews would not help."""
        missing = self.missing_data(difference)
        more_would_help = missing.reviews is not None or missing.days is not None
        if self.verdict(difference) == "can't tell yet" and more_would_help:
            return missing
        return None

    def with_due_date(self, missing: f.MissingData, subject: str) -> f.MissingData:
        """Add the date when the preset `subject` will have enough reviews and days.

        If that is not the name of a preset, the reviews of all presets count. The date follows from
        the pace of the last month. If dates are unknown or reviews have stopped, there is no date,
        and the pace from the first review to the last tells whether the data are out of reach.
        """
        index = np.arange(len(self.trials))
        groups_by_name = {name: group for group, name in self.groups.items()}
        if subject in groups_by_name:
            index = self.positions(groups_by_name[subject])
        now = time.time()
        recent_reviews = 0
        if self.log.entries is not None:
            recent_reviews = int((self.time_s[index] > now - _PACE_DAYS * 86_400).sum())
        if not recent_reviews:
            day = self.trials.day[index]
            days_covered = int(day.max()) - int(day.min()) + 1
            return missing.mark_reach(len(index) / days_covered)
        pace = recent_reviews / _PACE_DAYS  # reviews a day
        missing = missing.mark_reach(pace)
        if missing.out_of_reach:
            return missing
        days_to_wait = math.ceil(missing.count_days_to_wait(pace))
        due_date = date.fromtimestamp(now) + timedelta(days_to_wait)
        return replace(missing, date=due_date.isoformat())

    def compute_once(self, key: tuple[Hashable, ...], compute: Callable[[], _T]) -> _T:
        """Return the result of `compute`, which is called only once for each key."""
        if key not in self._memo:
            self._memo[key] = compute()
        result: _T = self._memo[key]
        return result

    def _trials_for(self, configuration: Configuration) -> Trials:
        """Return the learner's reviews as trials of a configuration, at the same positions."""
        trials = self.session.trials(configuration.protocol)
        if not np.array_equal(trials.review_th, self.trials.review_th):
            raise RuntimeError(f"{configuration.name} is evaluated on other reviews")
        return trials

    def _positions_by_preset(self, index: IntArray) -> dict[int, IntArray]:
        """Split the positions by preset."""
        partition = self.trials.partition[index]
        return {int(group): index[partition == group] for group in np.unique(partition)}

    def _predict_by_preset(
        self, folds: Sequence[Fold], parameters: Mapping[int, Sequence[float]]
    ) -> FloatArray:
        """Predict the folds' tested reviews by each preset's parameters, else by the defaults."""
        index = np.concatenate([fold.test for fold in folds])
        p = np.empty(len(self.trials))
        for group, positions in self._positions_by_preset(index).items():
            values = parameters.get(group, fsrs6.DEFAULT)
            p[positions] = self.predict_with_parameters(values, positions)
        return p[index]

    def _fit_before_fold(self, candidate: str, fold: Fold) -> Mapping[int, Sequence[float]]:
        """Fit parameters by preset for a fold's test positions to all reviews before them."""
        count = len(fold.train)
        groups = tuple(np.unique(self.trials.partition[fold.test]).tolist())
        if candidate == f.SEPARATE:
            return self.fit_separately(count)
        if candidate == f.TAUGHT:
            trained = self._positions_by_preset(fold.train)
            return {group: self.fit_taught(trained[group]) for group in groups if group in trained}
        pooled = self._fit_pooled_before(count, groups)
        if candidate == f.SHARED:
            return dict.fromkeys(groups, pooled.shared)
        return {group: pooled.by_group.get(group, pooled.shared) for group in groups}

    def fit_separately(self, count: int) -> dict[int, list[float]]:
        """Fit each preset alone, by the method for shared ones, to the first `count` reviews."""
        positions = self._positions_by_preset(np.arange(count))

        def fit() -> dict[int, list[float]]:
            return {group: fit_one_group(self.trials, index) for group, index in positions.items()}

        return self.compute_once(("alone", count), fit)

    def fit_taught(self, train: IntArray) -> list[float]:
        """Fit the parameters that three models teach to the first reviews of one preset."""
        group = int(self.trials.partition[train[0]])
        self.context.tick(0.0)
        return self.compute_once(
            (f.TAUGHT, group, len(train)),
            lambda: taught.fit_taught(
                self.trials, train, self.fractional_trials.trials, self.context
            ),
        )

    def _pooling_checkpoint(self, count: int) -> int:
        """Return how many first reviews (at most `count`) decided last how much presets share.

        This is decided, which takes long, on the training reviews of the protocol's first fold, and
        again each time the reviews have doubled.
        """
        checkpoint = len(self.trials.folds[0].train)
        while 2 * checkpoint <= count:
            checkpoint *= 2
        return min(checkpoint, count)

    def _fit_pooled(self, count: int) -> PooledFits:
        """Fit pooled parameters to the first `count` reviews and choose how much presets share."""
        self.context.tick(0.0)
        positions = self._positions_by_preset(np.arange(count))
        return self.compute_once(("pooled", count), lambda: fit_pooled(self.trials, positions))

    def _fit_pooled_before(self, count: int, groups: tuple[int, ...]) -> PooledFits:
        """Fit pooled parameters of at least the presets `groups` to the first `count` reviews.

        How much presets share was decided at the last checkpoint (`_pooling_checkpoint`).
        """
        checkpoint = self._pooling_checkpoint(count)
        earlier = self._fit_pooled(checkpoint)
        if checkpoint == count:
            return earlier
        self.context.tick(0.0)

        def fit() -> PooledFits:
            positions = self._positions_by_preset(np.arange(count))
            return fit_pooled(self.trials, positions, earlier, groups)

        return self.compute_once(("pooled", count, groups), fit)

    def _predict_with_sm2(self, folds: Sequence[Fold]) -> FloatArray:
        """Predict with Anki's older scheduler, by each preset's own settings."""
        model = all_models()["Anki"]
        protocol = Protocol(rows=self.trials.protocol.rows)
        configuration = resolve_configurations("Anki-dry-run", protocol)[0]
        trials = self._trials_for(configuration)
        assert isinstance(model, TrainedModel)
        index = np.concatenate([fold.test for fold in folds])
        p = np.empty(len(trials))
        for group, positions in self._positions_by_preset(index).items():
            preset = self.log.presets.get(group)
            settings = None if preset is None else preset.sm2_settings
            parameters = list(settings or model.default_parameters(protocol, self.context))
            p[positions] = model.predict(trials, parameters, positions, self.context)
        return p[index]
