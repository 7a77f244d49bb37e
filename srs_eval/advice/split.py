"""Compare separate parameters for each preset with one set for all of them.

Separate parameters have to prove themselves, and so does sharing; in doubt presets get pooled
parameters, which cost next to nothing if the presets forget alike. Presets that could share
parameters are found by how well the parameters of one predict the reviews of another, never by the
distance between the parameters themselves, which says little (many parameters hardly matter).

Everything compared here is fitted in one way, that of `srs_eval.advice.pooling`, so that the
differences come from sharing only. Fits by FSRS-6's own training also differ by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice import population
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import Recommendation
from srs_eval.data.reviews import MISSING, ReviewLog
from srs_eval.models import fsrs6
from srs_eval.stats import intervals
from srs_eval.stats.intervals import Interval, Verdict

_CANDIDATES = {"split": f.SEPARATE, "pooled": f.POOLED}  # compared with f.SHARED
_MAX_PRESETS_IN_MATRIX = 6  # the presets with the most reviews
NEGLIGIBLE_LOSS = 0.0005  # nats: too small to count as a loss
_UNMERGEABLE_DISTANCE = 1e6  # nats: distance of presets that cannot share, beyond any real one
_KEEP_SHARED: f.Decision = "keep shared"


def _decide_sharing(learner: Learner, differences: Mapping[str, Interval]) -> dict[str, f.Decision]:
    """Decide on differences from shared parameters in log loss; together they are one question."""

    def decide(difference: Interval, verdict: Verdict) -> f.Decision:
        if not intervals.has_enough_data(difference):
            return "can't tell"
        if difference.low >= -learner.equivalence:  # surely no gain that matters
            return "keep shared"
        return "split" if verdict == "better" else "can't tell"

    verdicts = learner.verdicts(differences)
    return {name: decide(difference, verdicts[name]) for name, difference in differences.items()}


@dataclass(frozen=True)
class SharingComparison:
    """Differences in log loss between kinds of parameters, over all presets."""

    from_shared: Mapping[str, Interval]  # of "split" and "pooled"
    decisions: Mapping[str, f.Decision]  # on these
    split_from_pooled: Interval


def compare_over_all_presets(learner: Learner) -> SharingComparison:
    """Compare separate ("split"), pooled and shared parameters."""
    shared = learner.held_out_losses(f.SHARED)
    index = learner.trials.test_index
    from_shared = {
        name: learner.interval(learner.held_out_losses(candidate) - shared, index)
        for name, candidate in _CANDIDATES.items()
    }
    split_change = learner.held_out_losses(f.SEPARATE) - learner.held_out_losses(f.POOLED)
    return SharingComparison(
        from_shared=from_shared,
        decisions=_decide_sharing(learner, from_shared),
        split_from_pooled=learner.interval(split_change, index),
    )


def _compare_each_preset(
    learner: Learner, groups: Sequence[int]
) -> dict[int, tuple[Interval, f.Decision]]:
    """Return separate minus shared log loss, and the decision, of presets with held-out reviews."""
    index = learner.trials.test_index
    partition = learner.trials.partition[index]
    change = learner.held_out_losses(f.SEPARATE) - learner.held_out_losses(f.SHARED)
    differences = {}
    for group in groups:
        in_preset = partition == group
        if in_preset.any():
            differences[str(group)] = learner.interval(change[in_preset], index[in_preset])
    decisions = _decide_sharing(learner, differences)
    return {int(group): (difference, decisions[group]) for group, difference in differences.items()}


def find_shareable_presets(learner: Learner, groups: Sequence[int]) -> frozenset[int]:
    """Return the presets whose own reviews show that they can use the shared parameters.

    There are none unless shared parameters suffice over all presets.
    """
    if len(groups) < 2:
        return frozenset()
    comparison = compare_over_all_presets(learner)
    if choose_sharing(comparison) != Recommendation.KEEP_SHARED:
        return frozenset()
    by_preset = _compare_each_preset(learner, groups)
    return frozenset(
        group for group, (_, decision) in by_preset.items() if decision == _KEEP_SHARED
    )


def choose_sharing(comparison: SharingComparison) -> Recommendation:
    """Choose "keep shared", "split" or, in doubt, "pooled".

    Pooled parameters save 0.0049 nats if presets differ, and cost 0.0003 if they do not. The choice
    is "split" if separate parameters are ahead of pooled and of shared ones, of each by more than a
    standard error; else "keep shared" if the decision on both is. Anki's button fits separate
    parameters less well than pooled ones are fitted, which the standard error makes up for
    (benchmarks/verdicts.py).
    """
    separate = comparison.from_shared["split"]
    if _is_ahead(separate) and _is_ahead(comparison.split_from_pooled):
        return Recommendation.SPLIT
    if set(comparison.decisions.values()) == {_KEEP_SHARED}:
        return Recommendation.KEEP_SHARED
    return Recommendation.POOLED


def compute_sharing_belief(difference: Interval, margin: float = NEGLIGIBLE_LOSS) -> f.Belief:
    """Compute the belief about separate or pooled parameters' difference from shared ones.

    The probability is that of a difference below the margin, by default of no loss that counts.
    """
    return population.compute_belief(difference, population.sharing_prior(), margin)


def _is_ahead(difference: Interval) -> bool:
    """Return True if the difference is below zero by more than a standard error."""
    return difference.estimate + difference.standard_error < 0


def assess_sharing(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding over all presets, then one for each preset with several decks to compare.

    Only presets that run FSRS-6 are assessed, because its parameters are the ones to share.
    """
    fsrs6_learner = learner.without_fsrs7()
    fsrs6_groups = []
    if fsrs6_learner is not None:
        fsrs6_groups = [group for group in groups if group in fsrs6_learner.groups]
    if len(groups) < 2:
        reviewed_presets = _count_reviewed_presets(learner.log)
        evidence = f.Sharing(
            "preset",
            1,
            conclusion="one preset",
            has_unused_presets=reviewed_presets > 1,
            has_unreviewed_presets=reviewed_presets == 1 < len(learner.log.presets),
        )
        yield f.Finding("split", learner.group_name(groups[0]), evidence=evidence)
    elif fsrs6_learner is None or len(fsrs6_groups) < 2:
        evidence = f.Sharing("preset", len(groups), conclusion=f.RUNS_FSRS_7)
        yield f.Finding("split", f.ALL_PRESETS, evidence=evidence)
    else:
        yield _compare_presets(fsrs6_learner, fsrs6_groups)
    for group in fsrs6_groups:
        assert fsrs6_learner is not None
        finding = assess_decks(fsrs6_learner, group)
        if finding is not None:
            yield finding


def _count_reviewed_presets(log: ReviewLog) -> int:
    """Count the presets whose cards have been answered."""
    assert log.entries is not None
    presets = log.preset_of(log.deck_of(log.entries.card_id))
    return len(log.presets.keys() & set(presets.tolist()))


def assess_decks(learner: Learner, group: int) -> f.Finding | None:
    """Return the finding on the decks of a preset; None if there are not two to compare."""
    return learner.compute_once(("decks", group), lambda: _assess_decks(learner, group))


def _assess_decks(learner: Learner, group: int) -> f.Finding | None:
    decks = learner.split_preset_by_deck(group)
    if decks is None or len(decks.groups) < 2:
        return None
    return _make_finding(learner.group_name(group), decks, "deck")


def _make_finding(subject: str, learner: Learner, unit: f.SharingUnit) -> f.Finding:
    """Make the finding on the learner's groups, which are presets or the decks of one preset."""
    # Cards that have lost their deck belong to no preset.
    unit_count = max(1, sum(group != MISSING for group in learner.groups))
    review_count = len(learner.trials.test_index)
    if review_count < f.MIN_REVIEWS_SHOWN:
        return f.Finding(
            "split",
            subject,
            reviews=review_count,
            missing=f.count_missing_data(review_count, days=0),
            evidence=f.Sharing(unit, unit_count),
        )
    comparison = compare_over_all_presets(learner)
    overall = comparison.from_shared
    decisions = comparison.decisions
    recommendation = choose_sharing(comparison)
    if unit == "deck" and decisions["split"] != "split":
        # A deck gets parameters only with a new preset, which has to be worth it.
        recommendation = Recommendation.KEEP_SHARED
    if recommendation == Recommendation.POOLED and all(
        learner.fit_parameters(f.POOLED, group) == learner.fit_parameters(f.SHARED, group)
        for group in learner.groups
    ):
        recommendation = Recommendation.KEEP_SHARED  # the pooled ones are all the shared ones
    difference = overall["split" if recommendation == Recommendation.SPLIT else "pooled"]
    differences = [
        f.SharingDifference("all", name, overall_difference, decisions[name])
        for name, overall_difference in overall.items()
    ]
    # To keep shared parameters is right unless others gain more than the equivalence; to give them
    # up is right unless the others lose more than a negligible amount.
    is_shared = recommendation == Recommendation.KEEP_SHARED
    margin = -learner.equivalence if is_shared else NEGLIGIBLE_LOSS
    belief = compute_sharing_belief(difference, margin)
    hardly_matters = belief.lies_within(learner.equivalence)
    if is_shared:
        probability = 1 - belief.probability
        gain = 0.0
    else:
        probability = belief.probability
        gain = max(belief.gain, 0.0)
    return f.Finding(
        "split",
        subject,
        recommendation,
        probability=probability,
        gain=gain,
        belief=belief,
        hardly_matters=hardly_matters,
        interval=difference,
        reviews=review_count,
        missing=learner.missing_data_if_open(difference),
        evidence=f.Sharing(unit, unit_count, tuple(differences)),
    )


def _compare_presets(learner: Learner, groups: Sequence[int]) -> f.Finding:
    finding = _make_finding(f.ALL_PRESETS, learner, "preset")
    evidence = f.get_evidence(finding, f.Sharing)
    if not evidence.differences:
        return finding
    name = learner.group_name
    by_preset = _compare_each_preset(learner, groups)
    differences = list(evidence.differences)
    for group, (difference, decision) in by_preset.items():
        differences.append(f.SharingDifference(name(group), "split", difference, decision))
    largest = list(by_preset)[:_MAX_PRESETS_IN_MATRIX]
    across = _compare_across_presets(learner, largest)
    verdicts = learner.verdicts({f"{a} {b}": difference for (a, b), difference in across.items()})
    pairs = []
    for (a, b), difference in across.items():
        pairs.append((name(a), name(b), difference, verdicts[f"{a} {b}"]))
    proposed = _propose_groups(largest, across, learner.equivalence)
    evidence = replace(
        evidence,
        differences=tuple(differences),
        pairs=tuple(pairs),
        groups=tuple(tuple(map(name, members)) for members in proposed),
    )
    shared = None
    if finding.recommendation == Recommendation.KEEP_SHARED:
        shared = learner.fit_parameters(f.SHARED, groups[0])
    return replace(finding, parameters=tuple(shared) if shared else None, evidence=evidence)


def _compare_across_presets(
    learner: Learner, groups: Sequence[int]
) -> dict[tuple[int, int], Interval]:
    """Return for (a, b) the log loss of a's parameters on b's held-out reviews, minus b's own.

    Both are fitted to the reviews before each fold.
    """
    trials = learner.trials
    test_index = trials.test_index
    p = {a: np.empty(len(trials)) for a in groups}
    for fold in trials.folds:
        by_group = learner.fit_separately(len(fold.train))
        for a in groups:
            parameters = by_group.get(a, fsrs6.DEFAULT)
            p[a][fold.test] = learner.predict_with_parameters(parameters, fold.test)
    differences = {}
    for b in groups:
        index = test_index[trials.partition[test_index] == b]
        own_losses = learner.losses(p[b][index], index)
        for a in groups:
            if a != b:
                losses = learner.losses(p[a][index], index)
                differences[a, b] = learner.interval(losses - own_losses, index)
    return differences


def _propose_groups(
    groups: Sequence[int], differences: Mapping[tuple[int, int], Interval], equivalence: float
) -> list[list[int]]:
    """Propose groups of presets that may share parameters, in the order of `groups`.

    Two presets may share unless the parameters of one are worse on the other's reviews by more than
    `equivalence`; in a group, all pairs must be able to share. Presets that lose least on average
    are merged first.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(groups) < 2:
        return [[group] for group in groups]

    def is_worse(difference: Interval) -> bool:
        verdict = intervals.decide_verdict(difference, equivalence=equivalence)
        return verdict == "worse" and difference.low > equivalence

    losses = []
    cannot_share = []
    for a, b in combinations(groups, 2):
        losses.append(differences[a, b].estimate + differences[b, a].estimate)
        cannot_share.append(is_worse(differences[a, b]) or is_worse(differences[b, a]))
    loss = np.array(losses)
    # Distances of 0 and more; one pair that cannot share keeps the average of two groups so far
    # apart that they are not merged.
    distance = np.where(cannot_share, _UNMERGEABLE_DISTANCE, loss - loss.min())
    labels = fcluster(linkage(distance, "average"), _UNMERGEABLE_DISTANCE / 1000, "distance")
    by_label: dict[int, list[int]] = {}
    for group, label in zip(groups, labels.tolist(), strict=True):
        by_label.setdefault(label, []).append(group)
    return list(by_label.values())
