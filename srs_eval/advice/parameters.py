"""Assess a preset's parameters: what to change, how likely it is to help, how often to optimize.

Candidates are compared with the current parameters on reviews that neither has seen: those since
the parameters were last changed, or all held-out ones if the defaults are active. Candidates are
fitted again before each of five blocks of these reviews, as if the learner optimized now and then.
The result is combined with the gains of other people (`srs_eval.advice.population`). Evidence is
weighed at milestones (`srs_eval.advice.milestones`), so that advice does not come and go.

The cost of optimizing less often is the log loss that older parameters add. A parameter is noise if
it would move far with other days.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice import population
from srs_eval.advice.candidates import (
    ACROSS_PRESETS,
    CONFIGURATIONS,
    Learner,
)
from srs_eval.advice.findings import Recommendation
from srs_eval.advice.milestones import (
    FIRST_MILESTONE,
    ReviewsForAdvice,
    select_earlier_reviews,
    select_reviews,
)
from srs_eval.advice.split import find_shareable_presets
from srs_eval.advice.taught import MIN_REVIEWS
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray, ReviewLog
from srs_eval.data.trials import Fold, compute_recency_weights
from srs_eval.models import fsrs6, fsrs7
from srs_eval.models.own_parameters import explain_left_out_presets
from srs_eval.stats import intervals
from srs_eval.stats.intervals import Interval, Verdict

_RIVALS = (f.RECENCY, f.OPTIMIZED, f.DEFAULTS, f.ONE_FOR_ALL, f.POOLED)
"""Rivals of the current parameters. The first is Anki's Optimize button and tested by itself; the
others are tested together (`intervals.decide_verdicts`)."""
OTHER_MODELS = (f.AVERAGE, f.SM2)
"""Models compared with FSRS on all held-out reviews. Their comparison is one question wherever it
appears, tested separately from the comparison of ways to fit FSRS."""
_HELD_OUT = (*CONFIGURATIONS, f.POOLED, f.SHARED)
_MIN_REVIEWS = FIRST_MILESTONE  # with fewer, or on fewer days, nothing can be compared
_MIN_DAYS = 5
_TAUGHT_RATIO = 0.5
"""Stored parameters count as taught if taught ones differ from them by less than this share of the
difference (nats) of those of Anki's optimizer."""
_MAX_CERTAINTY_OF_FEW = 0.9  # highest probability of "keep" for a preset with few reviews
_NEGLIGIBLE_DIVERGENCE = 0.00014
"""Nats between predictions that are half a point apart at 90 %: 0.005² / (2 · 0.9 · 0.1)."""
_STILL_ADVISED = 0.6
"""Probability from which a change is still advised if it was likely at an earlier milestone."""


@dataclass(frozen=True, eq=False)
class _CandidateComparison:
    """Candidates evaluated on the same reviews (k,), and their differences from a reference."""

    index: IntArray  # (k,) positions in the trials
    log_loss: Mapping[str, Interval]  # by candidate, like the other fields
    difference: Mapping[str, Interval]  # from the reference, which has none; negative: better
    verdicts: Mapping[str, Verdict]

    @property
    def ordered(self) -> list[str]:
        """Names of the candidates, the lowest log loss first."""
        return sorted(self.log_loss, key=lambda name: self.log_loss[name].estimate)

    def candidates(self) -> tuple[f.Candidate, ...]:
        return tuple(
            f.Candidate(
                name=name,
                log_loss=self.log_loss[name],
                difference=self.difference.get(name),
                verdict=self.verdicts.get(name),
            )
            for name in self.ordered
        )


def compare_candidates(
    learner: Learner,
    losses: Mapping[str, FloatArray],
    index: IntArray,
    reference: str = f.OPTIMIZED,
    *,
    tested: Sequence[str] | None = None,
    tested_separately: Collection[str],
) -> _CandidateComparison:
    """Compute intervals of all candidates, and verdicts on those `tested` against the reference.

    By default all but the reference are tested. `losses` are nats (k,) on the reviews at the
    positions `index` (k,). Candidates `tested_separately` are a question of their own: the more
    candidates one question has, the stricter is each test.
    """
    log_loss = {name: learner.interval(values, index) for name, values in losses.items()}
    difference = {
        name: learner.interval(values - losses[reference], index)
        for name, values in losses.items()
        if name != reference
    }
    separately = {}
    together = {}
    for name in tested or tuple(difference):
        if name not in difference:
            continue
        if name in tested_separately:
            separately[name] = difference[name]
        else:
            together[name] = difference[name]
    verdicts = learner.verdicts(separately) | learner.verdicts(together)
    return _CandidateComparison(index, log_loss, difference, verdicts)


def assess_parameters(
    learner: Learner,
    groups: Sequence[int],
    parameter_sets: Mapping[str, Sequence[float]],
    predictions: Mapping[str, FloatArray],
    *,
    with_late: bool = True,
) -> Iterator[f.Finding]:
    """Yield a finding for each preset as soon as it is known, then one over all if several.

    `parameter_sets` are the user's own parameters, by name; `predictions` are external predictions
    for the held-out reviews. `with_late` adds candidates whose kernels may have to be compiled
    first: TAUGHT for presets with few reviews, and FSRS_7 where the learner's program can run it.
    """
    index = learner.trials.test_index
    external = {
        name: learner.predict_with_parameters(values, index)
        for name, values in parameter_sets.items()
    }
    external |= predictions
    external_losses = {name: learner.losses(p, index) for name, p in external.items()}
    held_out = _compare_held_out(learner, external_losses)
    shareable = _find_shareable_fsrs6_presets(learner, groups)
    by_recommendation: dict[Recommendation, list[str]] = {}
    for group in groups:
        finding = _assess_preset(
            learner,
            group,
            held_out.get(group),
            can_share=group in shareable,
            with_late=with_late,
        )
        yield finding
        recommendation = finding.recommendation if finding.parameters else Recommendation.KEEP
        by_recommendation.setdefault(recommendation, []).append(finding.subject)
    if len(groups) > 1:
        over_all = held_out[None]
        evidence = f.ParameterSummary(
            tuple((code, tuple(names)) for code, names in by_recommendation.items()),
            over_all.candidates(),
        )
        yield f.Finding("parameters", f.ALL_PRESETS, reviews=len(over_all.index), evidence=evidence)


def find_unchanged_presets(answers: Iterable[f.Finding]) -> frozenset[str]:
    """Return the names of the presets whose parameters the answers to "parameters" leave alone."""
    return frozenset(
        answer.subject
        for answer in answers
        if isinstance(answer.evidence, f.PresetParameters) and not answer.parameters
    )


def has_late_candidates(learner: Learner, group: int) -> bool:
    """Return True if `assess_parameters` adds candidates to a preset that come late.

    They may also be those of the milestones before, on which the advice depends.
    """
    by_milestone = [select_reviews(learner, group), *select_earlier_reviews(learner, group)]
    return any(_find_late_candidates(learner, group, reviews) for reviews in by_milestone)


def _find_late_candidates(
    learner: Learner, group: int, reviews: ReviewsForAdvice
) -> tuple[str, ...]:
    candidates = []
    if learner.can_be_taught(group, len(reviews.index)):
        candidates.append(f.TAUGHT)
    if learner.can_change_to_fsrs7(group):
        candidates.append(f.FSRS_7)
    return tuple(candidates)


def _find_shareable_fsrs6_presets(learner: Learner, groups: Sequence[int]) -> frozenset[int]:
    """Return the presets that can share parameters, among those that run FSRS-6."""
    fsrs6_learner = learner.without_fsrs7()
    if fsrs6_learner is None:
        return frozenset()
    fsrs6_groups = [group for group in groups if group in fsrs6_learner.groups]
    return find_shareable_presets(fsrs6_learner, fsrs6_groups)


def find_unsupported_parameters(log: ReviewLog) -> list[f.Finding]:
    """Return a finding for each preset whose stored parameters Anki does not run."""
    findings = []
    for preset, sentence in explain_left_out_presets(log).items():
        evidence = f.UnsupportedParameters(sentence)
        name = log.preset_name(preset)
        findings.append(f.Finding("parameters", name, Recommendation.LEFT_OUT, evidence=evidence))
    return findings


def _compare_held_out(
    learner: Learner, external_losses: Mapping[str, FloatArray]
) -> dict[int | None, _CandidateComparison]:
    """Compare all candidates but the current parameters on the five folds' held-out reviews.

    The result is by preset; None stands for all. `external_losses` are losses of external
    predictions for these reviews (k,).
    """
    index = learner.trials.test_index
    partition = learner.trials.partition[index]
    names = (*_select_candidates(_HELD_OUT, learner), *learner.sm2_candidates)
    losses = {name: learner.held_out_losses(name) for name in names}
    losses |= external_losses
    comparisons: dict[int | None, _CandidateComparison] = {}
    if len(index):
        comparisons[None] = compare_candidates(
            learner, losses, index, tested_separately=OTHER_MODELS
        )
    for group in learner.groups:
        if learner.runs_fsrs7(group):
            comparison = _compare_held_out_fsrs7(learner, group, external_losses)
            if comparison is not None:
                comparisons[group] = comparison
            continue
        in_preset = partition == group
        if in_preset.any():
            preset_losses = {name: values[in_preset] for name, values in losses.items()}
            comparisons[group] = compare_candidates(
                learner, preset_losses, index[in_preset], tested_separately=OTHER_MODELS
            )
    return comparisons


def _compare_held_out_fsrs7(
    learner: Learner, group: int, external_losses: Mapping[str, FloatArray]
) -> _CandidateComparison | None:
    """Compare FSRS-7's fits and defaults on a preset's held-out reviews; None if it has none."""
    test_index = learner.trials.test_index
    in_preset = learner.trials.partition[test_index] == group
    index = test_index[in_preset]
    folds = []
    for fold in learner.trials.folds:
        test = fold.test[learner.trials.partition[fold.test] == group]
        if len(test):
            folds.append(replace(fold, test=test))
    if not folds:
        return None
    losses = {}
    for name in (f.OPTIMIZED, f.RECENCY, f.DEFAULTS):
        p = learner.predict_refitted(name, group, folds)
        losses[name] = learner.losses(p, index)
    for name in (f.AVERAGE, *learner.sm2_candidates):
        losses[name] = learner.held_out_losses(name)[in_preset]
    losses |= {name: values[in_preset] for name, values in external_losses.items()}
    return compare_candidates(learner, losses, index, tested_separately=OTHER_MODELS)


def _select_candidates(
    candidates: Sequence[str], learner: Learner, group: int | None = None
) -> list[str]:
    """Return the candidates that the learner can have.

    Omitted are candidates that the learner has no configuration for, candidates that need several
    presets if there is only one, and, for a preset that runs FSRS-7, those that exist for FSRS-6
    only.
    """
    available = {*learner.configurations, f.POOLED, f.SHARED, f.SM2}
    if group is not None and learner.runs_fsrs7(group):
        available = {f.OPTIMIZED, f.RECENCY, f.DEFAULTS, f.SM2}
    if len(learner.groups) == 1:
        available -= {*ACROSS_PRESETS}
    return [name for name in candidates if name in available]


def _compare_unseen(
    learner: Learner, group: int, reviews: ReviewsForAdvice, candidates: Sequence[str]
) -> _CandidateComparison | None:
    """Compare candidates on reviews unseen by the current parameters; None for too few."""
    index = reviews.unseen
    if index is None or len(index) < _MIN_REVIEWS or learner.count_days(index) < _MIN_DAYS:
        return None
    folds = learner.rolling_folds(index)
    losses = {f.CURRENT: learner.losses(learner.predict(f.CURRENT, folds), index)}
    for name in candidates:
        with suppress(NotEnoughData):
            losses[name] = learner.losses(learner.predict_refitted(name, group, folds), index)
    return compare_candidates(
        learner, losses, index, f.CURRENT, tested=_RIVALS, tested_separately=(f.RECENCY,)
    )


def _assess_preset(
    learner: Learner,
    group: int,
    held_out: _CandidateComparison | None,
    *,
    can_share: bool,
    with_late: bool,
) -> f.Finding:
    """Choose between the current parameters of a preset and the best change."""
    preset = learner.log.presets.get(group)
    reviews = select_reviews(learner, group)
    late_candidates = _find_late_candidates(learner, group, reviews) if with_late else ()
    names = _select_candidates((*_RIVALS, f.SHARED, f.SM2), learner, group)
    comparison = _compare_unseen(learner, group, reviews, [*names, *late_candidates])
    count = len(reviews.index)
    priors = _make_priors(learner, group, reviews, late_candidates)
    candidates = _collect_candidates(learner, group, comparison, priors)
    # A change has to gain this much, and one that takes pasting as much again.
    min_gain = learner.equivalence / 2
    still_advised = _StillAdvised(learner, group, min_gain, with_late)
    best = _choose_best(
        candidates, can_share=can_share, min_gain=min_gain, still_advised=still_advised.includes
    )
    if best.name == f.POOLED:
        pooled = learner.fit_parameters(f.POOLED, group)
        if pooled == learner.fit_parameters(f.SHARED, group):
            # Presets that hardly differ are shrunk fully to the shared parameters.
            best = next(candidate for candidate in candidates if candidate.name == f.SHARED)
    belief = best.belief
    assert belief is not None
    is_change = belief.gain >= min_gain and count >= f.MIN_REVIEWS_TO_FIT
    if is_change:
        probability = belief.probability
    else:
        # The probability of "keep" is that the best change would not gain a noticeable amount.
        prior = _choose_prior(best.name, priors)
        if prior is None or (priors.refit is None and count < f.MIN_REVIEWS_TO_FIT):
            prior = _make_no_change_prior()  # the defaults are active and would stay
        noticeable = population.compute_belief(best.difference, prior, -learner.equivalence)
        limit = 1.0 if count >= f.MIN_REVIEWS_SHOWN else _MAX_CERTAINTY_OF_FEW
        probability = min(1 - noticeable.probability, limit)
    # If the change would predict the same, that is known without any experience.
    hardly_matters = belief.lies_within(learner.equivalence) and _predicts_nearly_the_same(
        learner, group, best.name, reviews.index
    )
    if best.difference is None and not hardly_matters:
        probability = population.limit_without_evidence(probability)
    # If nearly all cards are gone, this is about reviews of other rows: nothing is recommended.
    excluded_majority = learner.excluded_majority
    is_change = is_change and not excluded_majority
    is_still_advised = is_change and still_advised.includes(best)
    # If FSRS is to be turned on, it needs parameters to start with, however unsure they are.
    parameters = None
    if is_change and (learner.is_fsrs_off or probability >= f.LIKELY or is_still_advised):
        parameters = learner.fit_parameters(best.name, group)
    missing = None
    is_open = best.difference is not None and intervals.has_enough_data(best.difference)
    if best.difference is not None and is_open and not excluded_majority:
        missing = learner.missing_data_if_open(best.difference)
    probabilities = {}
    for candidate in candidates:
        if candidate.belief:
            probabilities[candidate.name] = candidate.belief.probability
        elif candidate.name == f.DEFAULTS:  # which are active, and not better than themselves
            probabilities[candidate.name] = 0.0
    evidence = f.PresetParameters(
        is_fitted=priors.refit is not None,
        is_known=preset is not None and preset.has_settings,
        fsrs_is_off=learner.is_fsrs_off,
        candidates=tuple(
            candidate
            for candidate in candidates
            if candidate.name != f.SM2 or learner.sm2_candidates
        ),
        held_out=() if held_out is None else held_out.candidates(),
        compared_candidate=best.name,
        search=None if preset is None else preset.search,
        excluded_majority=excluded_majority,
        is_still_advised=is_still_advised,
        can_be_fitted=count >= f.MIN_REVIEWS_TO_FIT,
    )
    return f.Finding(
        "parameters",
        learner.group_name(group),
        f.RECOMMENDATIONS[best.name] if is_change else Recommendation.KEEP,
        probability=None if excluded_majority else probability,
        gain=belief.gain if is_change else 0.0,
        belief=belief,
        hardly_matters=hardly_matters,
        interval=best.difference,
        parameters=None if parameters is None else tuple(parameters),
        reviews=0 if comparison is None else len(comparison.index),
        missing=missing,
        probabilities=probabilities,
        evidence=evidence,
    )


def _predicts_nearly_the_same(
    learner: Learner, group: int, candidate: str, index: IntArray
) -> bool:
    """Return True if a candidate predicts the same as the current parameters but for half a point.

    What such a change gains or loses is small even in a spell of good or bad days.
    """
    if not len(index):
        return True
    try:
        # Anki's fit is that of the milestone, so that the answer is the same until the next one.
        count = len(index) if candidate == f.RECENCY else None
        values = learner.fit_parameters(candidate, group, count)
    except NotEnoughData:
        return True  # Anki's optimizer would keep the current parameters
    if values is None:
        return False
    return _diverge_from_active(learner, group, values, index) <= _NEGLIGIBLE_DIVERGENCE


@dataclass(frozen=True, eq=False)
class _StillAdvised:
    """Changes of a preset that were likely to help, and that later evidence is not against.

    At one of the last milestones such a change was likely, and it was never below 60 % since then.
    If another change takes its place, as Optimize that of taught parameters when reviews are no
    longer few, that one is still advised.
    """

    learner: Learner
    group: int
    min_gain: float
    with_late: bool

    def includes(self, change: f.Candidate) -> bool:
        """Return True if a change is not likely, but still advised."""
        belief = change.belief
        assert belief is not None
        may_help = _STILL_ADVISED <= belief.probability < f.LIKELY
        if not may_help or belief.gain < self.min_gain:
            return False
        return self.learner.compute_once(
            ("was advised", self.group, change.name, self.min_gain, self.with_late),
            lambda: self._was_advised(change.name),
        )

    def _was_advised(self, name: str) -> bool:
        for reviews in select_earlier_reviews(self.learner, self.group):
            may_help = False
            for belief in self._believe(name, reviews):
                if belief.probability >= f.LIKELY and belief.gain >= self.min_gain:
                    return True
                may_help = may_help or belief.probability >= _STILL_ADVISED
            if not may_help:
                return False
        return False

    def _believe(self, name: str, reviews: ReviewsForAdvice) -> Iterator[f.Belief]:
        """Yield the beliefs in a change, and in taught parameters, at an earlier milestone."""
        late_candidates: tuple[str, ...] = ()
        if self.with_late:
            late_candidates = _find_late_candidates(self.learner, self.group, reviews)
        priors = _make_priors(self.learner, self.group, reviews, late_candidates)
        for candidate in dict.fromkeys((name, f.TAUGHT)):
            prior = _choose_prior(candidate, priors)
            if prior is None:
                continue
            comparison = _compare_unseen(self.learner, self.group, reviews, [candidate])
            difference = None if comparison is None else comparison.difference.get(candidate)
            yield population.compute_belief(difference, prior)


@dataclass(frozen=True)
class _Priors:
    """What other people's gains say about the candidates of a preset."""

    evaluated_count: int  # reviews that five folds hold out
    refit: population.GainPrior | None = None
    """Prior for a fit if there are stored parameters, which count as an earlier fit; None if the
    defaults are active."""
    taught: population.GainPrior | None = None  # None if TAUGHT is no candidate
    fsrs7: population.GainPrior | None = None  # None if FSRS_7 is no candidate


def _make_priors(
    learner: Learner, group: int, reviews: ReviewsForAdvice, late_candidates: Sequence[str]
) -> _Priors:
    """Return the priors for the candidates of a preset, of which some may come late."""
    priors = _Priors(
        evaluated_count=max(len(reviews.index) * 5 // 6, 1),  # five folds hold out five sixths
        refit=_make_refit_prior(learner, group, reviews),
    )
    if f.TAUGHT in late_candidates:
        with suppress(NotEnoughData):  # Anki's optimizer would refuse
            priors = _add_taught_prior(priors, learner, group, reviews)
    if f.FSRS_7 in late_candidates:
        by_anki = _choose_prior(f.RECENCY, priors)
        assert by_anki is not None
        fsrs7_prior = population.fsrs7_change_prior(by_anki, priors.evaluated_count)
        priors = replace(priors, fsrs7=fsrs7_prior)
    return priors


def _make_refit_prior(
    learner: Learner, group: int, reviews: ReviewsForAdvice
) -> population.GainPrior | None:
    """Return the prior for a refit of a preset's stored parameters; None if it has none."""
    if not learner.stored(group):
        return None
    if not len(reviews.index):
        return _make_no_change_prior()
    refit = None
    with suppress(NotEnoughData):
        refit = learner.fit_parameters(f.RECENCY, group, len(reviews.index))
    if refit is None:
        refit = learner.fit_parameters(f.DEFAULTS, group)
        assert refit is not None
    return population.refit_prior(_describe_stored(learner, group, refit, reviews))


def _describe_stored(
    learner: Learner, group: int, refit: Sequence[float], reviews: ReviewsForAdvice
) -> population.StoredParameters:
    """Describe a preset's stored parameters beside those of a new fit."""
    return population.StoredParameters(
        divergence=_diverge_from_active(learner, group, refit, reviews.index),
        reviews=len(reviews.index),
        unseen=None if reviews.unseen is None else len(reviews.unseen),
    )


def _add_taught_prior(
    priors: _Priors, learner: Learner, group: int, reviews: ReviewsForAdvice
) -> _Priors:
    """Add the prior for TAUGHT.

    If the stored parameters were taught, the prior for a refit is about teaching again, and Anki's
    optimizer would take back what teaching gained. Raises NotEnoughData.
    """
    count = len(reviews.index)
    parameters = learner.fit_taught(reviews.index)
    if priors.refit is None or not _were_taught(learner, group, reviews):
        by_anki = _choose_prior(f.RECENCY, priors)
        assert by_anki is not None
        return replace(priors, taught=population.taught_prior(by_anki, count))
    taught = population.refit_prior(_describe_stored(learner, group, parameters, reviews))
    return replace(priors, refit=population.untaught_prior(taught, count), taught=taught)


def _were_taught(learner: Learner, group: int, reviews: ReviewsForAdvice) -> bool:
    """Return True if a preset's stored parameters came from teaching, not from Anki's optimizer.

    Both are fitted again to the reviews that the stored parameters can have been fitted to.
    """
    if reviews.unseen is None:
        return False
    seen = reviews.index[: len(reviews.index) - len(reviews.unseen)]
    if len(seen) < MIN_REVIEWS:
        return False
    by_anki = fsrs6.fit_as_anki(learner.trials, seen, learner.context)
    from_taught = _diverge_from_active(learner, group, learner.fit_taught(seen), seen)
    from_anki = _diverge_from_active(learner, group, by_anki, seen)
    return from_taught < _TAUGHT_RATIO * from_anki


def _diverge_from_active(
    learner: Learner, group: int, values: Sequence[float], index: IntArray
) -> float:
    """Return the divergence of parameters from a preset's active ones on the positions."""
    return population.compute_divergence(
        learner.predict_with_parameters(values, index),
        learner.predict_with_parameters(learner.active_parameters(group), index),
    )


def _make_no_change_prior() -> population.GainPrior:
    """Return the prior for a fit that gives almost the active parameters."""
    return population.refit_prior(population.StoredParameters(0.0, 0, 0))


def _collect_candidates(
    learner: Learner,
    group: int,
    comparison: _CandidateComparison | None,
    priors: _Priors,
) -> list[f.Candidate]:
    """Return a preset's candidates: the current parameters, then the others with beliefs."""
    log_loss = None if comparison is None else comparison.log_loss[f.CURRENT]
    candidates = [f.Candidate(f.CURRENT, log_loss)]
    compared = {}
    if comparison is not None:
        compared = {candidate.name: candidate for candidate in comparison.candidates()}
    names = _select_candidates(
        (*f.RECOMMENDATIONS, f.OPTIMIZED, f.ONE_FOR_ALL, f.SM2), learner, group
    )
    if priors.taught is not None:
        names.append(f.TAUGHT)
    if priors.fsrs7 is not None:
        names.append(f.FSRS_7)
    for name in names:
        candidate = compared.get(name, f.Candidate(name))
        prior = _choose_prior(name, priors)
        if prior is not None:
            belief = population.compute_belief(candidate.difference, prior)
            candidate = replace(candidate, belief=belief)
        candidates.append(candidate)
    return candidates


def _choose_prior(candidate: str, priors: _Priors) -> population.GainPrior | None:
    """Choose the prior from other people's gains by a candidate over the active parameters.

    The result is None for the defaults compared with themselves.
    """
    refit_prior = priors.refit
    reviews = priors.evaluated_count
    if candidate == f.TAUGHT:
        return priors.taught
    if candidate == f.FSRS_7:
        return priors.fsrs7
    if candidate == f.SM2:
        active: population.Published = "defaults" if refit_prior is None else "optimized"
        return population.published_prior("sm2", active, reviews)
    if candidate == f.DEFAULTS:
        if refit_prior is None:
            return None
        return population.published_prior("defaults", "optimized", reviews)
    if refit_prior is not None:
        return refit_prior
    if candidate == f.RECENCY:
        return population.published_prior("recency", "defaults", reviews)
    return population.published_prior("optimized", "defaults", reviews)


def _choose_best(
    candidates: Sequence[f.Candidate],
    *,
    can_share: bool,
    min_gain: float,
    still_advised: Callable[[f.Candidate], bool] = lambda _: False,
) -> f.Candidate:
    """Choose the change with the highest expected gain.

    Anki's Optimize button has precedence because it takes no work: any other change has to gain
    `min_gain` more, and be at least as likely to help. If presets can share one set of parameters,
    that is preferred to pooled ones for each. Taught parameters, which nobody would know of
    otherwise, and a change to FSRS-7 are chosen only if they are likely to help or `still_advised`.
    """
    beliefs = {candidate.name: candidate.belief for candidate in candidates if candidate.belief}
    button_probability = beliefs[f.RECENCY].probability
    gains = {}
    for candidate in candidates:
        name, belief = candidate.name, candidate.belief
        if belief is None or (name == f.SHARED and not can_share):
            continue
        if name not in f.RECOMMENDATIONS or belief.probability < button_probability:
            continue
        is_likely = belief.probability >= f.LIKELY
        if name in (f.TAUGHT, f.FSRS_7) and not is_likely and not still_advised(candidate):
            continue
        gains[name] = belief.gain
    if can_share and f.SHARED in gains:
        gains.pop(f.POOLED, None)
    for name in gains:
        if name != f.RECENCY:
            gains[name] -= min_gain
    best = max(gains, key=lambda name: gains[name])
    return next(candidate for candidate in candidates if candidate.name == best)


# How often, and which parameters are noise?

_GROWTH_STEPS = (0.02, 0.10, 0.25, 0.50, 1.00)
"""Growth in reviews after which to optimize again; the first is the reference."""
_NEVER_AGAIN = "once, then never"
_FIRST_FIT_DIVISOR = 6  # the first fit has a sixth of the reviews, like the first of five folds
_SAFE_FREQUENCY = Recommendation.EVERY_10_PERCENT
"""Safe for everyone: its mean cost was 0.0001 to 0.0006 nats in simulations."""
_OPTIMIZER_CANDIDATE = f.RECENCY  # what Anki's optimizer fits


def assess_optimization_frequency(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding on how often to optimize for each preset."""
    for group in groups:
        yield learner.compute_once(("often", group), partial(_assess_frequency, learner, group))


def _assess_frequency(learner: Learner, group: int) -> f.Finding:
    """Find how often it is enough to optimize a preset."""
    evaluated_count = len(_positions_after_first_fit(learner, group))
    recommendation = _SAFE_FREQUENCY
    evidence = f.OptimizationFrequency("safe")
    if evaluated_count >= intervals.MIN_REVIEWS:
        differences = _estimate_staleness_costs(learner, group)
        verdicts = learner.verdicts(differences)
        costs = [
            f.Candidate(name, difference=difference, verdict=verdicts[name])
            for name, difference in differences.items()
        ]
        # The first that costs something ends the search: any that pass later do so by chance.
        # The last, never to optimize again, is not recommended.
        enough = list(
            takewhile(lambda candidate: candidate.verdict in ("as good", "better"), costs[:-1])
        )
        if enough:
            recommendation = Recommendation(enough[-1].name)
        evidence = f.OptimizationFrequency("as good" if enough else "safe", tuple(costs))
    return f.Finding(
        "often",
        learner.group_name(group),
        recommendation,
        reviews=evaluated_count,
        evidence=evidence,
    )


def _make_refit_folds(index: IntArray, growth: float | None) -> tuple[Fold, ...]:
    """Make folds that fit to the first sixth of the positions, and again after each growth.

    If `growth` is None, there is no second fit.
    """
    sizes = [len(index) // _FIRST_FIT_DIVISOR]
    while growth is not None:
        larger = max(sizes[-1] + 1, round(sizes[-1] * (1 + growth)))
        if larger >= len(index):
            break
        sizes.append(larger)
    ends = [*sizes[1:], len(index)]
    return tuple(
        Fold(train=index[:begin], test=index[begin:end])
        for begin, end in zip(sizes, ends, strict=True)
    )


def _estimate_staleness_costs(learner: Learner, group: int) -> dict[str, Interval]:
    """Estimate the cost in log loss of optimizing a preset less often than every +2 % reviews."""
    index = learner.positions(group)
    evaluated = _positions_after_first_fit(learner, group)
    reference_folds = _make_refit_folds(index, _GROWTH_STEPS[0])
    p = learner.predict_refitted(_OPTIMIZER_CANDIDATE, group, reference_folds)
    reference_losses = learner.losses(p, evaluated)
    costs = {}
    for growth in (*_GROWTH_STEPS[1:], None):
        name = _NEVER_AGAIN if growth is None else f"every +{100 * growth:.0f} %"
        folds = _make_refit_folds(index, growth)
        p = learner.predict_refitted(_OPTIMIZER_CANDIDATE, group, folds)
        losses = learner.losses(p, evaluated)
        costs[name] = learner.interval(losses - reference_losses, evaluated)
    return costs


def _positions_after_first_fit(learner: Learner, group: int) -> IntArray:
    """Return the positions of the reviews after the first fit."""
    index = learner.positions(group)
    return index[len(index) // _FIRST_FIT_DIVISOR :]


# Which FSRS parameters are mostly noise?

_BOOTSTRAP_DRAWS = 20
_NOISE_RATIO = 0.5
"""A parameter is noise if its own spread exceeds this share of the spread between learners."""


def assess_parameter_noise(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding on noisy parameters for each preset."""
    for group in groups:
        name = learner.group_name(group)
        index = learner.positions(group)
        missing = f.count_missing_data(len(index), learner.count_days(index))
        if missing != f.MissingData():
            evidence = f.ParameterNoise(f.CANT_TELL)
            yield f.Finding("noise", name, reviews=len(index), missing=missing, evidence=evidence)
            continue
        learner_sds: Sequence[float]
        if learner.runs_fsrs7(group):
            parameters, draws = _fit_fsrs7_draws(learner, group)
            learner_sds = fsrs7.DEVIATION
        else:
            parameters, draws = _fit_fsrs6_draws(learner, index)
            learner_sds = fsrs6.DEVIATION
        day_sds = draws.std(axis=0, ddof=1).tolist()
        spreads = []
        for value, day_sd, learner_sd in zip(parameters, day_sds, learner_sds, strict=True):
            is_noise = day_sd > _NOISE_RATIO * learner_sd
            spreads.append(f.ParameterSpread(value, day_sd, learner_sd, is_noise))
        noisy = [spread for spread in spreads if spread.is_noise]
        evidence = f.ParameterNoise(f"{len(noisy)} of {len(spreads)}", tuple(spreads))
        yield f.Finding("noise", name, reviews=len(index), evidence=evidence)


def _fit_fsrs6_draws(learner: Learner, index: IntArray) -> tuple[list[float], FloatArray]:
    """Fit FSRS-6 to the reviews, and 20 times (20, 21) to their days drawn with replacement."""

    def fit(train: IntArray) -> list[float]:
        weights = compute_recency_weights(len(train))
        return fsrs6.fit(learner.trials, train, weights, learner.context)

    return fit(index), _fit_bootstrap_days(learner.trials.day[index], index, fit)


def _fit_fsrs7_draws(learner: Learner, group: int) -> tuple[list[float], FloatArray]:
    """Fit FSRS-7 to a preset's reviews, and 20 times (20, 34) to their days drawn again."""
    trials = learner.fractional_trials.trials
    index = np.flatnonzero(trials.partition == group)

    def fit(train: IntArray) -> list[float]:
        weights = fsrs7.compute_fsrs7_recency_weights(len(train))
        return fsrs7.fit(trials, train, weights, learner.context)

    return fit(index), _fit_bootstrap_days(trials.day[index], index, fit)


def _fit_bootstrap_days(
    day: IntArray, index: IntArray, fit: Callable[[IntArray], list[float]]
) -> FloatArray:
    """Fit 20 times (20, parameters) to the reviews at the positions (k,), with drawn days.

    `day` (k,) is the day of each review. A day that is drawn twice counts twice.
    """
    days, day_index = np.unique(day, return_inverse=True)
    draws = np.random.default_rng(0).multinomial(
        len(days), np.full(len(days), 1 / len(days)), _BOOTSTRAP_DRAWS
    )
    return np.array([fit(np.repeat(index, draw[day_index])) for draw in draws])
