"""Split or merge? Parameters for each preset against one set for all of them.

Separate parameters have to prove themselves, and so has sharing; in doubt presets get pooled ones,
which cost next to nothing where they forget alike. The presets that could share
theirs are found by what one's parameters predict of another's reviews, never by how far apart the
parameters themselves lie, which says little (many parameters hardly matter).

All that is compared here is fitted in one way, that of `srs_eval.advice.pooling`: differences
are then those that sharing makes. Fits by FSRS-6's own training differ by its chances, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice import population
from srs_eval.advice.candidates import Learner
from srs_eval.models import fsrs6
from srs_eval.stats import intervals
from srs_eval.stats.intervals import Interval, Verdict

_CANDIDATES = {"split": f.ALONE, "pooled": f.POOLED}
_MOST_IN_MATRIX = 6  # presets, those with the most reviews
_NO_LOSS = 0.0005  # nats: what nobody would call a loss
_NEVER = 1e6  # nats: so far apart are presets that cannot share
_KEEP_SHARED: Final = "keep shared"


def _decided(learner: Learner, differences: Mapping[str, Interval]) -> dict[str, f.Decision]:
    """From (split - shared) in log loss, which are one question."""

    def decide(difference: Interval, says: Verdict) -> f.Decision:
        if not intervals.enough_to_tell(difference):
            return "can't tell"
        if difference.low >= -learner.equivalence:
            return "keep shared"
        return "split" if says == "better" else "can't tell"

    says = learner.verdicts(differences)
    return {name: decide(each, says[name]) for name, each in differences.items()}


def over_all_presets(learner: Learner) -> tuple[dict[str, Interval], dict[str, f.Decision]]:
    """Of separate ("split") and of pooled parameters: log loss minus that of shared ones, and
    what follows."""
    shared = learner.held_out_losses(f.TOGETHER)
    index = learner.trials.test_index
    overall = {
        words: learner.interval(learner.held_out_losses(candidate) - shared, index)
        for words, candidate in _CANDIDATES.items()
    }
    return overall, _decided(learner, overall)


def _of_each_preset(
    learner: Learner, groups: Sequence[int]
) -> dict[int, tuple[Interval, f.Decision]]:
    """Of those with held-out reviews: log loss of separate minus shared parameters, decided."""
    index = learner.trials.test_index
    partition = learner.trials.partition[index]
    change = learner.held_out_losses(f.ALONE) - learner.held_out_losses(f.TOGETHER)
    found = {}
    for group in groups:
        mine = partition == group
        if mine.any():
            found[str(group)] = learner.interval(change[mine], index[mine])
    decisions = _decided(learner, found)
    return {int(group): (each, decisions[group]) for group, each in found.items()}


def one_is_enough_for(learner: Learner, groups: Sequence[int]) -> frozenset[int]:
    """The presets that can have the parameters that all share: whose own reviews show it.

    None unless these are enough over all presets.
    """
    if len(groups) < 2 or recommended(*over_all_presets(learner)) != _KEEP_SHARED:
        return frozenset()
    by_preset = _of_each_preset(learner, groups)
    return frozenset(group for group, (_, each) in by_preset.items() if each == _KEEP_SHARED)


def recommended(overall: Mapping[str, Interval], decisions: Mapping[str, f.Decision]) -> str:
    """In doubt "pooled": these save 0.0049 where presets differ, and cost 0.0003 where they do not.

    "keep shared" where both differences show it; "split" where separate parameters are ahead of
    pooled ones and by a standard error of shared ones (benchmarks/verdicts.py: what is recommended
    so loses 0.0004 to the best, and one pair in 300 is split that forgets alike).
    """
    separate = overall["split"]
    is_ahead = separate.estimate < overall["pooled"].estimate
    if is_ahead and separate.estimate + separate.standard_error < 0:
        return "split"
    return _KEEP_SHARED if set(decisions.values()) == {_KEEP_SHARED} else "pooled"


def split_or_merge(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """One finding over all presets, then one for each preset with several decks.

    Of presets that run FSRS-6: what is shared are its parameters.
    """
    others = learner.without_fsrs7()
    of_fsrs6 = [] if others is None else [group for group in groups if group in others.groups]
    if len(groups) < 2:
        evidence = f.Sharing("preset", 1, says="one preset")
        yield f.Finding("split", learner.name_of(groups[0]), evidence=evidence)
    elif others is None or len(of_fsrs6) < 2:
        evidence = f.Sharing("preset", len(groups), says=f.RUNS_FSRS_7)
        yield f.Finding("split", "all presets", evidence=evidence)
    else:
        yield _of_presets(others, of_fsrs6)
    for group in of_fsrs6:
        assert others is not None
        decks = others.by_deck(group)
        if decks is not None and len(decks.groups) > 1:
            yield _found(others.name_of(group), decks, "deck")


def _found(subject: str, learner: Learner, part: str) -> f.Finding:
    """Over all presets, or over the decks of one; a learner's reviews are by these."""
    parts, count = len(learner.groups), len(learner.trials.test_index)
    if count < f.FEWEST_SHOWN:
        lacks, evidence = f.missing_of(count, 0), f.Sharing(part, parts)
        return f.Finding("split", subject, reviews=count, missing=lacks, evidence=evidence)
    overall, decisions = over_all_presets(learner)
    act = recommended(overall, decisions)
    if part == "deck" and decisions["split"] != "split":
        act = _KEEP_SHARED  # Anki has no parameters for a deck: that takes presets
    if act == "pooled" and all(
        learner.fitted(f.POOLED, group) == learner.fitted(f.TOGETHER, group)
        for group in learner.groups
    ):
        act = _KEEP_SHARED  # they are drawn all the way to one set
    evaluated = "split" if act == "split" else "pooled"
    is_shared, own = act == _KEEP_SHARED, overall[evaluated]
    margin = -learner.equivalence if is_shared else _NO_LOSS
    belief = population.belief(own, population.sharing(), margin)
    differences = (f.Difference("all", *each, decisions[each[0]]) for each in overall.items())
    return f.Finding(
        *("split", subject, act),
        probability=1 - belief.probability if is_shared else belief.probability,
        gain=0.0 if is_shared else max(belief.gain, 0.0),
        interval=own,
        reviews=count,
        missing=learner.still_missing(own),
        evidence=f.Sharing(part, parts, tuple(differences)),
    )


def _of_presets(learner: Learner, groups: Sequence[int]) -> f.Finding:
    found = _found("all presets", learner, "preset")
    evidence = f.of(found, f.Sharing)
    if not evidence.differences:
        return found
    by_preset = _of_each_preset(learner, groups)
    several = list(by_preset)[:_MOST_IN_MATRIX]
    differences = _parameters_on_reviews(learner, several)
    says = learner.verdicts({f"{a} {b}": each for (a, b), each in differences.items()})
    name = learner.name_of
    shared = learner.fitted(f.TOGETHER, groups[0]) if found.act == _KEEP_SHARED else None
    own = (f.Difference(name(group), "split", *each) for group, each in by_preset.items())
    pairs = ((name(a), name(b), each, says[f"{a} {b}"]) for (a, b), each in differences.items())
    proposed = _proposed_groups(several, differences, learner.equivalence)
    evidence = replace(
        evidence,
        differences=(*evidence.differences, *own),
        pairs=tuple(pairs),
        groups=tuple(tuple(map(name, each)) for each in proposed),
    )
    return replace(found, parameters=tuple(shared) if shared else None, evidence=evidence)


def _parameters_on_reviews(
    learner: Learner, groups: Sequence[int]
) -> dict[tuple[int, int], Interval]:
    """(a, b): what a's parameters lose on b's held-out reviews against b's own parameters.

    Both are fitted on the reviews before each fold.
    """
    trials = learner.trials
    index = trials.test_index
    p = {a: np.empty(len(trials)) for a in groups}
    for fold in trials.folds:
        fitted = learner.alone(len(fold.train))
        for a in groups:
            p[a][fold.test] = learner.with_parameters(fitted.get(a, fsrs6.DEFAULT), fold.test)
    found = {}
    for b in groups:
        mine = index[trials.partition[index] == b]
        own = learner.losses(p[b][mine], mine)
        for a in groups:
            if a != b:
                found[a, b] = learner.interval(learner.losses(p[a][mine], mine) - own, mine)
    return found


def _proposed_groups(
    groups: Sequence[int], differences: Mapping[tuple[int, int], Interval], equivalence: float
) -> list[list[int]]:
    """Presets that can share parameters, as far as one can tell; those given first come first.

    Two can unless one's parameters are worse on the other's reviews by more than matters; a
    group needs that of all its pairs. Merged is first what loses least on average.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    both = [(differences[a, b], differences[b, a]) for a, b in combinations(groups, 2)]
    if not both:
        return [[each] for each in groups]
    lost = np.array([one.estimate + other.estimate for one, other in both])
    is_worse = [
        [
            intervals.verdict(e, equivalence=equivalence) == "worse" and e.low > equivalence
            for e in each
        ]
        for each in both
    ]
    apart = np.where(np.any(is_worse, axis=1), _NEVER, lost - lost.min())
    labels = fcluster(linkage(apart, "average"), _NEVER / 1000, "distance")
    found: dict[int, list[int]] = {}
    for group, label in zip(groups, labels.tolist(), strict=True):
        found.setdefault(label, []).append(group)
    return list(found.values())
