"""Which parameters a preset could have, each evaluated on reviews after those it was fitted to.

Reviews are those that Anki's optimizer takes (`--rows anki`). Whatever the engine has as a
configuration is fitted and evaluated by the engine; here are the others, and other folds.
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

from srs_eval.advice import findings as f
from srs_eval.advice.pooling import Pooled, fitted, pooled_fits
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.rows import SUSPENDED, only_preset, select_rows, without_presets
from srs_eval.data.trials import Fold, Trials
from srs_eval.engine.session import Session, fit_and_predict
from srs_eval.metrics import log_losses
from srs_eval.models import all_models, fsrs6, fsrs7
from srs_eval.models.configurations import Configuration, resolve
from srs_eval.models.own_parameters import (
    as_anki_runs,
    as_run,
    model_of,
    scheduled_by,
    why_left_out,
    younger_than_s,
)
from srs_eval.stats import intervals
from srs_eval.stats.intervals import Interval, Verdict
from srs_eval.training.hyperparameters import Context

# Candidates and the engine's configurations that they are.
CONFIGURATIONS: Mapping[str, str] = {
    f.OPTIMIZED: "FSRS-6-preset",
    f.RECENCY: "FSRS-6-recency-preset",
    f.DEFAULTS: "FSRS-6-dry-run",
    "initial stability only": "FSRS-6-pretrain-preset",
    "one for all presets": "FSRS-6",
    "one per deck": "FSRS-6-deck",
    f.AVERAGE: "AVG",
}
_WITHOUT_PRESETS: Mapping[str, str] = {
    name: configuration.removesuffix("-preset")
    for name, configuration in CONFIGURATIONS.items()
    if not name.startswith("one ")
}
_FSRS_7: Mapping[str, str] = {
    f.OPTIMIZED: "FSRS-7-short-secs-equalize_test_with_non_secs-preset",
    f.RECENCY: "FSRS-7-short-secs-recency-equalize_test_with_non_secs-preset",
    f.DEFAULTS: "FSRS-7-dry-run-short-secs-equalize_test_with_non_secs",
}
"""What these are of a preset that a fork of Anki schedules with FSRS-7."""
ACROSS_PRESETS = ("one for all presets", f.POOLED, f.TOGETHER)  # only where there are several
_SOURCES = "give a collection, a package or a research export"
BY_PRESET = Protocol(rows="anki", short=True, partitions="preset")
_BY_DECK = Protocol(rows="anki", short=True, partitions="deck")
WHOLE = Protocol(short=True)  # where presets are not known: the benchmark's rows
_T = TypeVar("_T")
_PACE_DAYS = 30
_BLOCKS = 5  # before each of which rivals of the present parameters are fitted anew


def knows_presets(log: ReviewLog) -> bool:
    """Whether presets are known, and rows are Anki's to choose."""
    return log.entries is not None and log.knows_decks


def has_no_cards(log: ReviewLog) -> bool:
    """Whether all cards of a collection are deleted."""
    return log.entries is not None and bool(log.decks) and not len(log.cards.card_id)


def too_few(log: ReviewLog, reason: NotEnoughData) -> str:
    """Why there are too few reviews to ask of presets; cards may be suspended or deleted."""
    count, how = mostly_gone(log)
    if not count:
        return str(reason)
    assert log.entries is not None
    are_all = how == "suspended" and bool(log.cards.suspended.all())
    cards = "all your cards are" if are_all else "most of what you reviewed is"
    return (
        f"{reason}: {cards} {how} ({count:,} of {len(log.entries.time_ms):,} entries), "
        f"and Anki's optimizer takes none of {how} cards"
    )


def and_needed(log: ReviewLog, why: str) -> str:
    """Why nothing can be told, and of a small log how much is needed."""
    there = len(select_rows(log).rows)
    if there >= intervals.FEWEST_REVIEWS:
        return why
    needed = f"{intervals.FEWEST_REVIEWS:,} reviews on {intervals.FEWEST_DAYS} days"
    return f"{why}; there are {there:,} so far, and most answers need {needed}"


def mostly_gone(log: ReviewLog) -> tuple[int, str]:
    """Entries of suspended or of deleted cards, which Anki's optimizer leaves out, and how it is.

    0 unless these are more than half of all.
    """
    if not (knows_presets(log) or has_no_cards(log)):
        return 0, ""
    assert log.entries is not None
    card_id, cards = log.entries.card_id, log.cards
    there = np.isin(card_id, cards.card_id)
    if 2 * (~there).sum() > len(there):
        return int((~there).sum()), "deleted"
    theirs = np.isin(card_id, cards.card_id[cards.suspended])
    if 2 * theirs.sum() <= len(theirs):  # the rule itself takes longer to ask
        return 0, ""
    suspended = select_rows(log, "anki").dropped.get(SUSPENDED, 0)
    return (suspended, "suspended") if 2 * suspended > len(theirs) else (0, "")


def evaluated_by_preset(log: ReviewLog) -> bool:
    """Whether Anki's rows are there to evaluate presets on: not where nearly all cards are gone."""
    if not knows_presets(log):
        return False
    return not mostly_gone(log)[0] or len(select_rows(log, "anki").rows) >= intervals.FEWEST_REVIEWS


def refuse_without_presets(log: ReviewLog) -> None:
    """Raises InputError where `knows_presets` is false."""
    if not knows_presets(log):
        chosen = "has rows that Anki did not choose"
        lacking = chosen if log.entries is None else "says nothing of decks and presets"
        raise InputError(f"{log.import_summary.path} {lacking}: {_SOURCES}.")


@dataclass(frozen=True, eq=False)
class _Fractional:
    """FSRS-7's trials: intervals in fractions of a day, same-day reviews among them."""

    trials: Trials
    place: IntArray  # (n,) where each of the learner's trials is among these

    def of(self, folds: Sequence[Fold]) -> tuple[Fold, ...]:
        """The folds among these, trained on all reviews of the tested presets before them."""
        partition, found = self.trials.partition, []
        for fold in folds:
            test = self.place[fold.test]
            train = np.arange(test.min())
            same = np.isin(partition[train], partition[test])
            found.append(Fold(train=train[same], test=test))
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Learner:
    """One learner's reviews, by preset (or deck), and what can be asked of them."""

    log: ReviewLog
    session: Session
    trials: Trials  # n reviews of later days; the partition is the preset
    context: Context
    equivalence: float = intervals.EQUIVALENT  # differences in log loss within it count as none
    _known: dict[tuple[Hashable, ...], Any] = field(default_factory=dict, repr=False)
    """What several questions ask for, by function and arguments: computed once."""

    @staticmethod
    def of(
        log: ReviewLog,
        context: Context | None = None,
        protocol: Protocol = BY_PRESET,
        equivalence: float = intervals.EQUIVALENT,
    ) -> Learner:
        """Without presets whose parameters Anki does not run, where it is asked of presets.

        Raises NotEnoughData, which names them.
        """
        said = why_left_out(log) if protocol.partitions != "none" else {}
        if said:
            log = without_presets(log, said)
        session = Session(replace(log, user=None))  # all models are evaluated on the same reviews
        try:
            trials = session.trials(protocol)
            return Learner(log, session, trials, context or Context(), equivalence)
        except NotEnoughData as reason:
            if not said:
                raise
            sentences = " ".join(said.values())
            others = f"{sentences} Of the others: {reason}"
            raise NotEnoughData(others if len(log.cards.card_id) else sentences[:-1]) from None

    @property
    def configurations(self) -> Mapping[str, str]:
        """The candidates that are the engine's configurations, by name."""
        return CONFIGURATIONS if self.trials.protocol == BY_PRESET else _WITHOUT_PRESETS

    @cached_property
    def groups(self) -> Mapping[int, str]:
        """Presets with reviews that can be evaluated, most of them first, with their names."""
        known, count = np.unique(self.trials.partition, return_counts=True)
        order = np.lexsort((known, -count))
        return {int(known[k]): self.name_of(int(known[k])) for k in order}

    def by_deck(self, group: int) -> Learner | None:
        """A preset's reviews alone, with its decks as the groups; None for too few of them."""
        if group not in self.log.presets:
            return None

        try:
            of_preset = only_preset(self.log, str(group))
            return Learner.of(of_preset, self.context, _BY_DECK, self.equivalence)
        except NotEnoughData:
            return None

    def name_of(self, group: int) -> str:
        """No two groups have the same name."""
        if self.trials.protocol.partitions == "none":
            return f.ALL_REVIEWS
        return self.log.name_of_preset(group)

    @cached_property
    def source_place(self) -> IntArray:
        """Place of each review (n,) among the log's entries, or its rows where it has these."""
        selection = self.session.selection(self.trials.protocol)
        return selection.entry_index[self.trials.review_th - 1]

    @cached_property
    def time_s(self) -> FloatArray:
        """Unix time of each review (n,). Only of a log with entries."""
        assert self.log.entries is not None
        return self.log.entries.time_ms[self.source_place] / 1000

    def stored(self, group: int) -> tuple[float, ...]:
        """The parameters in force of a preset; () where defaults are, or nobody knows any.

        While FSRS is off none are in force.
        """
        preset = self.log.presets.get(group)
        return () if preset is None or self.is_off else preset.parameters_in_force

    def runs_fsrs7(self, group: int) -> bool:
        """Whether a fork of Anki schedules a preset with FSRS-7, or would once FSRS is on.

        While FSRS is off no stored list counts: a preset begins with its chosen version.
        """
        preset = self.log.presets.get(group)
        if preset is None:
            return False
        return preset.chosen_version == 7 if self.is_off else preset.runs_fsrs7

    @cached_property
    def fractional(self) -> _Fractional:
        """What FSRS-7 predicts the same reviews by."""
        protocol = replace(
            self.trials.protocol, short=True, secs=True, equalize_test_with_non_secs=True
        )
        trials = self.session.trials(protocol)
        return _Fractional(trials, np.searchsorted(trials.review_th, self.trials.review_th))

    def without_fsrs7(self) -> Learner | None:
        """The learner without presets that run FSRS-7; None where nothing else can be evaluated."""
        of_fork = [group for group in self.groups if self.runs_fsrs7(group)]
        if not of_fork:
            return self
        if len(of_fork) == len(self.groups):
            return None

        def others() -> Learner | None:
            try:
                log = without_presets(self.log, of_fork)
                return Learner.of(log, self.context, self.trials.protocol, self.equivalence)
            except NotEnoughData:
                return None

        return self.once(("without FSRS-7",), others)

    def positions(self, group: int) -> IntArray:
        """Of a preset's reviews, those of later days."""
        return np.flatnonzero(self.trials.partition == group)

    def since_optimized(self, group: int) -> IntArray | None:
        """Positions of a preset's reviews that its parameters cannot have been fitted to.

        Where the defaults are in force these are all held-out reviews, for they are fitted to none.
        None where the source does not tell the age of the parameters.
        """
        if not self.stored(group):
            index = self.trials.test_index
            return index[self.trials.partition[index] == group]
        since, mine = younger_than_s(self.log, self.log.presets[group]), self.positions(group)
        return None if since is None else mine[self.time_s[mine] > since]

    def renewed(self, index: IntArray) -> tuple[Fold, ...]:
        """The positions `index` in five blocks, each after training on all reviews before it."""
        blocks = (each for each in np.array_split(index, _BLOCKS) if len(each))
        return tuple(Fold(train=np.arange(block[0]), test=block) for block in blocks)

    @property
    def is_off(self) -> bool:
        """Whether the file says that FSRS is."""
        return self.log.import_summary.fsrs_enabled is False

    @property
    def sm2(self) -> tuple[str, ...]:
        """SM2 among the rivals, where Anki, whose SM-2 it is, has scheduled."""
        return (f.SM2,) if self.log.import_summary.app_name == "Anki" else ()

    def predict(self, candidate: str, folds: Sequence[Fold] | None = None) -> FloatArray:
        """Probabilities for the folds' test positions, one fold after the other.

        `candidate` is one of CONFIGURATIONS, NOW, POOLED, TOGETHER, ALONE or SM2. Without
        `folds`: the protocol's, over all reviews. Raises NotEnoughData.
        """
        folds = tuple(self.trials.folds if folds is None else folds)
        if candidate == f.NOW:
            return self._by_preset(folds, {group: self.in_force(group) for group in self.groups})
        if candidate in (f.POOLED, f.TOGETHER, f.ALONE):
            parts = (self._by_preset([fold], self._drawn(candidate, fold)) for fold in folds)
            return np.concatenate(list(parts))
        if candidate == f.SM2:
            return self._as_scheduled_by_sm2(folds)
        configuration = self.configuration(candidate)
        trials = self._trials_of(configuration)
        if configuration.protocol.partitions == "preset":
            # What other presets' reviews would be fitted to is not asked.
            partition = self.trials.partition
            same = (np.isin(partition[fold.train], partition[fold.test]) for fold in folds)
            pairs = zip(folds, same, strict=True)
            folds = tuple(replace(fold, train=fold.train[mine]) for fold, mine in pairs)
        return fit_and_predict(configuration, replace(trials, folds=folds), self.context)[0]

    def refitted(self, candidate: str, group: int, folds: Sequence[Fold]) -> FloatArray:
        """The same of one preset's reviews, by the version of FSRS that the preset runs."""
        if not self.runs_fsrs7(group) or candidate not in _FSRS_7:
            return self.predict(candidate, folds)
        configuration = self._by_fsrs7(candidate)
        trials = replace(self.fractional.trials, folds=self.fractional.of(folds))
        return fit_and_predict(configuration, trials, self.context)[0]

    def in_force(self, group: int) -> list[float]:
        """The parameters that a preset is scheduled with: 21 of FSRS-6, or 34 of FSRS-7.

        The defaults of its version while FSRS is off, FSRS-6's where nobody knows any.
        """
        preset = self.log.presets.get(group)
        if preset is None or self.is_off:
            return as_run(fsrs7.DEFAULT) if self.runs_fsrs7(group) else as_anki_runs(())
        return scheduled_by(preset)

    def _by_fsrs7(self, candidate: str) -> Configuration:
        rows = self.trials.protocol.rows
        return resolve(_FSRS_7[candidate], Protocol(rows=rows))[0]

    def configuration(self, candidate: str) -> Configuration:
        rows = self.trials.protocol.rows
        return resolve(self.configurations[candidate], Protocol(rows=rows))[0]

    def with_parameters(self, values: Sequence[float], index: IntArray) -> FloatArray:
        """Probabilities with given parameters, of FSRS-6 or FSRS-7, for positions (int64)."""
        if model_of(values) == "FSRS-6":
            return fsrs6.predict(self.trials, list(values), index, self.context)
        trials, place = self.fractional.trials, self.fractional.place[index]
        return fsrs7.predict(trials, list(values), place, self.context)

    def fitted(self, candidate: str, group: int) -> list[float] | None:
        """The parameters that a preset would get, fitted on all reviews there are."""
        if self.runs_fsrs7(group) and candidate in _FSRS_7:
            return self._fitted_fsrs7(candidate, group)
        if candidate == "defaults":
            return list(fsrs6.DEFAULT)
        everything = np.arange(len(self.trials))
        if candidate == f.POOLED:
            return self._pooled_fits(len(everything)).by_group[group]
        if candidate == f.TOGETHER:
            return self.once(("together",), lambda: fitted(self.trials, everything))
        configuration = self.configuration(candidate)
        mine = self.positions(group)
        of_preset = configuration.protocol.partitions == "preset"
        last = Fold(train=mine if of_preset else everything, test=mine[-1:])
        trials = replace(self._trials_of(configuration), folds=(last,))
        found = fit_and_predict(configuration, trials, self.context)[1]
        return None if found is None else list(next(iter(found.values())))

    def _fitted_fsrs7(self, candidate: str, group: int) -> list[float]:
        if candidate == f.DEFAULTS:
            return list(fsrs7.DEFAULT)
        trials = self.fractional.trials
        mine = np.flatnonzero(trials.partition == group)
        trials = replace(trials, folds=(Fold(train=mine, test=mine[-1:]),))
        found = fit_and_predict(self._by_fsrs7(candidate), trials, self.context)[1]
        assert found is not None
        return list(found[group])

    def losses(self, p: FloatArray, index: IntArray) -> FloatArray:
        """Log loss in nats of each prediction (k,) for the positions (k,)."""
        return log_losses(self.trials.y[index], p)

    def held_out(self, candidate: str) -> FloatArray:
        """Probabilities for the protocol's held-out reviews (`trials.test_index`)."""
        return self.once(("held out", candidate), lambda: self.predict(candidate))

    def held_out_losses(self, candidate: str) -> FloatArray:
        """Losses on these."""
        return self.losses(self.held_out(candidate), self.trials.test_index)

    def days_of(self, index: IntArray) -> int:
        """On how many days the reviews at the positions were done."""
        return len(np.unique(self.trials.day[index]))

    def interval(self, values: FloatArray, index: IntArray, fewest_days: int = 0) -> Interval:
        """Mean of values (k,) over the reviews at the positions (k,), over their days.

        Without bounds where these are fewer than `fewest_days`.
        """
        found = intervals.mean_interval(values, self.trials.day[index])
        return found if found.days >= fewest_days else replace(found, half_width=math.nan)

    def verdict(self, difference: Interval) -> Verdict:
        """On one difference in log loss."""
        return intervals.verdict(difference, equivalence=self.equivalence)

    def verdicts(self, differences: Mapping[str, Interval]) -> dict[str, Verdict]:
        """On the differences in log loss that are one question."""
        return intervals.verdicts(differences, equivalence=self.equivalence)

    def missing(self, difference: Interval) -> f.Missing:
        """What has to be added to a difference in log loss of which nothing can be told."""
        return f.missing(difference, self.equivalence)

    def still_missing(self, difference: Interval) -> f.Missing | None:
        """The same; None where it is told already, or where more reviews would not help."""
        lacks = self.missing(difference)
        is_open = self.verdict(difference) == "can't tell yet" and lacks != f.Missing()
        return lacks if is_open else None

    def dated(self, lacks: f.Missing, subject: str) -> f.Missing:
        """With the date by which a preset (default: all) has so many more reviews and days.

        By the pace of the last month; without one where nobody knows dates, or reviews have
        stopped.
        """
        if self.log.entries is None:
            return lacks
        group = next((each for each, name in self.groups.items() if name == subject), None)
        mine = slice(None) if group is None else self.trials.partition == group
        now = time.time()
        lately = int((self.time_s[mine] > now - _PACE_DAYS * 86_400).sum())
        if not lately:
            return lacks
        wait = max(math.ceil((lacks.reviews or 0) * _PACE_DAYS / lately), lacks.days or 0)
        return replace(lacks, date=(date.fromtimestamp(now) + timedelta(wait)).isoformat())

    def once(self, key: tuple[Hashable, ...], make: Callable[[], _T]) -> _T:
        if key not in self._known:
            self._known[key] = make()
        found: _T = self._known[key]
        return found

    def _trials_of(self, configuration: Configuration) -> Trials:
        trials = self.session.trials(configuration.protocol)
        if not np.array_equal(trials.review_th, self.trials.review_th):
            raise RuntimeError(f"{configuration.name} is evaluated on other reviews")
        return trials

    def _positions(self, index: IntArray) -> dict[int, IntArray]:
        """The positions `index` by preset."""
        partition = self.trials.partition[index]
        return {int(group): index[partition == group] for group in np.unique(partition)}

    def _by_preset(
        self, folds: Sequence[Fold], parameters: Mapping[int, Sequence[float]]
    ) -> FloatArray:
        index = np.concatenate([fold.test for fold in folds])
        p = np.empty(len(self.trials))
        for group, positions in self._positions(index).items():
            p[positions] = self.with_parameters(parameters.get(group, fsrs6.DEFAULT), positions)
        return p[index]

    def _drawn(self, candidate: str, fold: Fold) -> Mapping[int, Sequence[float]]:
        """Parameters by preset for a fold's test positions, fitted on all reviews before it."""
        count = len(fold.train)
        wanted = tuple(np.unique(self.trials.partition[fold.test]).tolist())
        if candidate == f.ALONE:
            return self.alone(count)
        pooled = self._pooled_before(count, wanted)
        if candidate == f.TOGETHER:
            return dict.fromkeys(wanted, pooled.shared)
        return {group: pooled.by_group.get(group, pooled.shared) for group in wanted}

    def alone(self, count: int) -> dict[int, list[float]]:
        """Each preset's parameters, fitted as the shared ones are, on the first `count` reviews."""
        positions = self._positions(np.arange(count))

        def fits() -> dict[int, list[float]]:
            return {group: fitted(self.trials, index) for group, index in positions.items()}

        return self.once(("alone", count), fits)

    def _settled(self, count: int) -> int:
        """The number of first reviews at which it was last settled how much presets share.

        With the protocol's first fold, and again whenever there were twice as many.
        """
        size = len(self.trials.folds[0].train)
        while 2 * size <= count:
            size *= 2
        return min(size, count)

    def _pooled_fits(self, count: int) -> Pooled:
        """Of the first `count` reviews, by which it is also settled how much presets share."""
        self.context.tick(0.0)
        positions = self._positions(np.arange(count))
        return self.once(("pooled", count), lambda: pooled_fits(self.trials, positions))

    def _pooled_before(self, count: int, wanted: tuple[int, ...]) -> Pooled:
        """Of the first `count` reviews, for the `wanted` presets at least."""
        settled = self._pooled_fits(self._settled(count))
        if self._settled(count) == count:
            return settled
        self.context.tick(0.0)
        return self.once(
            ("pooled", count, wanted),
            lambda: pooled_fits(self.trials, self._positions(np.arange(count)), settled, wanted),
        )

    def _as_scheduled_by_sm2(self, folds: Sequence[Fold]) -> FloatArray:
        """Anki's older scheduler with each preset's own settings."""
        model = all_models()["Anki"]
        configuration = resolve("Anki-dry-run", Protocol(rows=self.trials.protocol.rows))[0]
        trials = self._trials_of(configuration)
        assert model.predict is not None
        index = np.concatenate([fold.test for fold in folds])
        p = np.empty(len(trials))
        for group, positions in self._positions(index).items():
            preset = self.log.presets.get(group)
            parameters = list((preset and preset.sm2_settings) or model.default(self.context))
            p[positions] = model.predict(trials, parameters, positions, self.context)
        return p[index]
