"""Split or merge? Parameters for each preset against one set for all of them.

Merging is the rule: separate parameters have to prove themselves. The presets that could share
theirs are found by what one's parameters predict of another's reviews, never by how far apart the
parameters themselves lie, which says little (many parameters hardly matter).

All that is compared here is fitted in one way, that of `srs_eval.advice.pooling`: differences
are then those that sharing makes. Fits by FSRS-6's own training differ by its chances, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal

import numpy as np

from srs_eval.advice.candidates import ALONE, POOLED, TOGETHER, Learner
from srs_eval.advice.findings import Finding, phrased
from srs_eval.advice.sentences import figures, listed, what_is_missing
from srs_eval.advice.tables import Cell, Table
from srs_eval.data.errors import counted
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import FEWEST_REVIEWS, Interval, Verdict, enough_to_tell, verdicts

_CANDIDATES = {"split": ALONE, "pooled": POOLED}
_MOST_IN_MATRIX = 6  # presets, those with the most reviews
_POPULATION = (
    "Over 9,999 users, presets of their own gained people nothing on average, and decks of "
    "their own lost 0.006 log loss."
)

_FITTED_ALIKE = (
    "All of these are fitted in the same way, so that only sharing makes a difference; “one for "
    "all presets” among the parameters is FSRS-6's own training, and pooled ones may differ from "
    "it for that reason alone."
)

Decision = Literal["keep shared", "split", "can't tell"]


def decide(difference: Interval, says: Verdict, equivalence: float) -> Decision:
    """From (split - shared) in log loss; `says` is the verdict on it."""
    if not enough_to_tell(difference):
        return "can't tell"
    if difference.low >= -equivalence:
        return "keep shared"
    return "split" if says == "better" else "can't tell"


def over_all_presets(
    learner: Learner, equivalence: float
) -> tuple[dict[str, Interval], dict[str, Decision]]:
    """Of separate ("split") and of pooled parameters: log loss minus that of shared ones, and
    what follows."""
    shared = learner.held_out_losses(TOGETHER)
    index = learner.trials.test_index
    overall = {
        words: learner.interval(learner.held_out_losses(candidate) - shared, index)
        for words, candidate in _CANDIDATES.items()
    }
    says = verdicts(overall, equivalence=equivalence)
    return overall, {
        words: decide(difference, says[words], equivalence) for words, difference in overall.items()
    }


def _of_each_preset(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> dict[int, tuple[Interval, Decision]]:
    """Of those with held-out reviews: log loss of separate minus shared parameters, decided."""
    index = learner.trials.test_index
    partition = learner.trials.partition[index]
    change = learner.held_out_losses(ALONE) - learner.held_out_losses(TOGETHER)
    found = {}
    for group in groups:
        mine = partition == group
        if mine.any():
            found[str(group)] = learner.interval(change[mine], index[mine])
    says = verdicts(found, equivalence=equivalence)
    return {
        int(group): (each, decide(each, says[group], equivalence)) for group, each in found.items()
    }


def one_is_enough_for(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> frozenset[int]:
    """The presets that can have the parameters that all share.

    None unless these are enough over all presets, and none that gains from its own alone.
    """
    if len(groups) < 2 or concluded(over_all_presets(learner, equivalence)[1]) != "keep shared":
        return frozenset()
    by_preset = _of_each_preset(learner, groups, equivalence)
    return frozenset(group for group, (_, decision) in by_preset.items() if decision != "split")


def split_or_merge(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> Iterator[Finding]:
    """One answer over all presets, then one for each preset with several decks."""
    if len(groups) < 2:
        name = learner.name_of(groups[0])
        yield phrased("split", name, "one preset", ("There is one preset with reviews only.",))
    else:
        yield _of_presets(learner, groups, equivalence)
    for group in groups:
        decks = learner.by_deck(group)
        if decks is not None and len(decks.groups) > 1:
            yield _of_decks(learner.name_of(group), decks, equivalence)


def _of_decks(preset: str, decks: Learner, equivalence: float) -> Finding:
    """Of a preset's decks; `decks` are its reviews alone, by deck."""
    judged = len(decks.trials.test_index)
    several = f"The preset's {len(decks.groups)} decks"
    if judged < FEWEST_REVIEWS:
        sentence = (
            f"{several} keep sharing: {counted(judged, 'review')} can be held out, "
            f"{FEWEST_REVIEWS:,} are needed to tell."
        )
        return phrased("split", preset, "can't tell", (sentence,))
    overall, decisions = over_all_presets(decks, equivalence)
    rows = tuple(
        (words, each.reviews, each, _shown(words, decisions)) for words, each in overall.items()
    )
    columns = ("parameters", "reviews", "minus shared", "decision")
    table = Table(f"{preset}: parameters for each of {len(decks.groups)} decks", columns, rows)
    sentences = (
        _sentence(decisions, overall["split"], "deck"),
        _pooled_sentence(decisions["pooled"], overall["pooled"], "deck"),
    )
    return phrased("split", preset, concluded(decisions), sentences, (table,))


def _shown(words: str, decisions: Mapping[str, Decision]) -> str:
    """A decision as a table has it: "pooled" for to split where that is what was asked."""
    return words if decisions[words] == "split" else decisions[words]


def _of_presets(learner: Learner, groups: Sequence[int], equivalence: float) -> Finding:
    overall, decisions = over_all_presets(learner, equivalence)
    rows: list[tuple[Cell, ...]] = []
    for words, each in overall.items():
        rows.append(("all presets", words, each.reviews, each, _shown(words, decisions)))
    by_preset = _of_each_preset(learner, groups, equivalence)
    for group, (difference, decision) in by_preset.items():
        rows.append((learner.name_of(group), "split", difference.reviews, difference, decision))
    apart = [learner.name_of(group) for group, (_, each) in by_preset.items() if each == "split"]
    differences = parameters_on_reviews(learner, list(by_preset)[:_MOST_IN_MATRIX])
    groups_found = proposed_groups(list(by_preset)[:_MOST_IN_MATRIX], differences, equivalence)
    sentences = [_sentence(decisions, overall["split"], "preset")]
    if apart:
        sentences.append(f"Alone, {listed(apart)} gain from parameters of their own.")
    sentences += [_pooled_sentence(decisions["pooled"], overall["pooled"], "preset"), _FITTED_ALIKE]
    conclusion = concluded(decisions)
    parameters = learner.fitted(TOGETHER, groups[0]) if conclusion == "keep shared" else None
    if parameters is not None:
        as_well = ", which does as well as pooled ones" * (decisions["pooled"] == "keep shared")
        sentences.append(
            f"The parameters to copy here are one set for all presets{as_well}: the one line for "
            "every preset that is told to paste one."
        )
    sentences.append(who_could_share(learner, groups_found, differences, equivalence))
    sentences.append(_POPULATION)
    gains = Table(
        "Parameters of their own against one set for all, fitted alike",
        ("reviews of", "parameters", "reviews", "minus shared", "decision"),
        tuple(rows),
    )
    return phrased(
        *("split", "all presets", conclusion, tuple(sentences)),
        (gains, _matrix(learner, differences, equivalence)),
        None if parameters is None else tuple(parameters),
    )


def concluded(decisions: Mapping[str, Decision]) -> str:
    """The decision on separate parameters, or that only pooled ones beat shared ones."""
    if decisions["split"] != "split" and decisions["pooled"] == "split":
        return "pooled"
    return decisions["split"]


def who_could_share(
    learner: Learner,
    found: Sequence[Sequence[int]],
    differences: Mapping[tuple[int, int], Interval],
    equivalence: float,
) -> str:
    """The groups found in a sentence, with how many of the pairs they rest on are open."""
    says = [each for *_, each in _matrix(learner, differences, equivalence).rows]
    basis = "By what each preset's parameters predict of the others' reviews"
    open_ = says.count("can't tell yet")
    if open_ == len(says):
        return f"{basis}, it can't be told yet which could share theirs."
    together = [" + ".join(learner.name_of(group) for group in each) for each in found]
    doubt = f" ({open_} of {len(says)} pairs can't be told yet)" if open_ else ""
    if len(together) > 1:
        return f"{basis}, these could share{doubt}: {'; '.join(together)}."
    if open_:
        return f"{basis}, nothing speaks against all sharing theirs{doubt}."
    return f"{basis}, all can share theirs."


def parameters_on_reviews(
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


def proposed_groups(
    groups: Sequence[int], differences: Mapping[tuple[int, int], Interval], equivalence: float
) -> list[list[int]]:
    """Presets that can share parameters, as far as one can tell; those given first come first.

    Two can unless one's parameters are worse on the other's reviews by more than matters; a
    group needs that of all its pairs. Merged is first what loses least.
    """
    lost = {
        (a, b): differences[a, b].estimate + differences[b, a].estimate
        for a, b in combinations(groups, 2)
    }
    barred = {
        (a, b)
        for a, b in lost
        if any(
            verdicts({"": each}, equivalence=equivalence)[""] == "worse" and each.low > equivalence
            for each in (differences[a, b], differences[b, a])
        )
    }
    found = [[group] for group in groups]
    while True:
        best: tuple[float, int, int] | None = None
        for left, right in combinations(range(len(found)), 2):
            pairs = [
                (a, b) if (a, b) in lost else (b, a) for a in found[left] for b in found[right]
            ]
            if barred.isdisjoint(pairs):
                mean = sum(lost[pair] for pair in pairs) / len(pairs)
                best = min(best or (mean, left, right), (mean, left, right))
        if best is None:
            order = {group: place for place, group in enumerate(groups)}
            return [sorted(each, key=order.__getitem__) for each in found]
        _, left, right = best
        found[left] += found.pop(right)


def _sentence(decisions: Mapping[str, Decision], difference: Interval, part: str) -> str:
    told = figures(difference, "held-out review")
    match decisions["split"]:
        case "keep shared" if decisions["pooled"] == "split":
            return f"Separate parameters gain nothing over one set for all {part}s: {told}."
        case "keep shared":
            return f"One set of parameters for all {part}s is enough: separate ones make {told}."
        case "split":
            return f"Parameters for each {part} predict better: {told}."
    return (
        f"Let all {part}s share parameters until splitting proves better, which can't be told "
        f"yet: {told}. {what_is_missing(difference, len(_CANDIDATES))}"
    )


def _pooled_sentence(decision: Decision, difference: Interval, part: str) -> str:
    words = {
        "split": "predict better than one set for all that is fitted alike",
        "keep shared": "are no better, by more than matters, than one set for all fitted alike",
        "can't tell": "can't be told apart yet from one set for all that is fitted alike",
    }[decision]
    sentence = f"Parameters of each {part} drawn towards all {part}s' (pooled) {words}: "
    sentence += f"{figures(difference)}."
    if decision == "can't tell":
        return f"{sentence} {what_is_missing(difference, len(_CANDIDATES))}"
    return sentence


def _matrix(
    learner: Learner, differences: Mapping[tuple[int, int], Interval], equivalence: float
) -> Table:
    says = verdicts(
        {f"{a} {b}": difference for (a, b), difference in differences.items()},
        equivalence=equivalence,
    )
    rows = tuple(
        (learner.name_of(a), learner.name_of(b), difference, says[f"{a} {b}"])
        for (a, b), difference in differences.items()
    )
    columns = ("parameters of", "reviews of", "minus its own", "verdict")
    return Table("Parameters of one preset on reviews of another", columns, rows)
