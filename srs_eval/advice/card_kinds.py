"""Compare parameters for kinds of cards within a preset with one set for all of them.

Two divisions are tried: by card template, and by the first answer. Where the source does not say
which template a card has, the card's place among the cards of its note stands for it: they were
made in the order of the templates. Cards whose first answer was Again or Hard are one kind, those
with Good or Easy the other.

Before each of the five folds, each kind's parameters are fitted to its earlier reviews and one set
to those of all kinds, in the way of `srs_eval.advice.pooling`, so that the difference comes from
dividing only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.advice.pooling import fit_one_group
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import Interval, Verdict, has_enough_data

QUESTION = "kinds"
_MIN_SHARE = 0.1  # of the preset's reviews; a smaller kind is not worth parameters of its own
_MIN_TRAINING = 64  # reviews of a kind before a fold; with fewer, it has the parameters of all
_MAX_PLACES = 3  # places in a note beyond this count as this one
_GOOD = 3


def assess_card_kinds(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding for each preset that runs FSRS-6."""
    fsrs6_learner = learner.without_fsrs7()
    if fsrs6_learner is None:
        yield f.make_fsrs7_finding(QUESTION)
        return
    for group in groups:
        if group in fsrs6_learner.groups:
            yield _assess_preset(fsrs6_learner, group)


def _assess_preset(learner: Learner, group: int) -> f.Finding:
    name = learner.group_name(group)
    trials = learner.trials
    test = trials.test_index[trials.partition[trials.test_index] == group]
    missing = f.count_missing_data(len(test), learner.count_days(test) if len(test) else 0)
    if missing != f.MissingData():
        evidence = f.CardKinds(f.CANT_TELL)
        return f.Finding(QUESTION, name, reviews=len(test), missing=missing, evidence=evidence)
    kinds = _find_kinds(learner, learner.positions(group))
    differences: dict[str, Interval] = {}
    if kinds:
        shared_losses = _evaluate_together(learner, group, test)
        for division, kind in kinds.items():
            losses = _evaluate_kinds(learner, group, test, kind)
            differences[division] = learner.interval(losses - shared_losses, test)
    verdicts = learner.verdicts(differences)
    divisions = []
    for division, difference in differences.items():
        in_preset = kinds[division][learner.positions(group)]
        numbers, counts = np.unique(in_preset, return_counts=True)
        decision = _decide(learner, difference, verdicts[division])
        divisions.append(
            f.CardDivision(
                division,
                tuple(counts.tolist()),
                difference,
                decision,
                kinds=_name_kinds(learner, division, numbers),
            )
        )
    decisions = {division.conclusion for division in divisions}
    conclusion: f.YesNo = "no"
    if "yes" in decisions:
        conclusion = "yes"
    elif decisions == {f.CANT_TELL}:
        conclusion = f.CANT_TELL
    best = min(differences.values(), key=lambda difference: difference.estimate, default=None)
    return f.Finding(
        QUESTION,
        name,
        interval=best if conclusion == "yes" else None,
        reviews=len(test),
        evidence=f.CardKinds(conclusion, tuple(divisions)),
    )


def _decide(learner: Learner, difference: Interval, verdict: Verdict) -> f.YesNo:
    """Decide whether kinds of cards should have their own parameters."""
    if not has_enough_data(difference):
        return f.CANT_TELL
    if verdict == "better":
        return "yes"
    # Parameters of their own have to prove themselves: they take work, and decks of their own.
    if difference.low >= -learner.equivalence or difference.estimate >= 0:
        return "no"
    return f.CANT_TELL


def _find_kinds(learner: Learner, index: IntArray) -> dict[str, IntArray]:
    """Return the kind of each review (n,) by division; `index` are the preset's positions.

    A division is left out if the preset has no two kinds with enough reviews.
    """
    trials = learner.trials
    kinds = {
        f.BY_TEMPLATE: _find_templates(learner),
        f.BY_FIRST_ANSWER: (trials.first_rating >= _GOOD).astype(np.int64),
    }
    usable = {}
    for division, kind in kinds.items():
        values, counts = np.unique(kind[index], return_counts=True)
        large = values[counts >= _MIN_SHARE * len(index)]
        if len(large) > 1:
            # Kinds that are too small go with the largest one.
            usable[division] = np.where(np.isin(kind, large), kind, values[counts.argmax()])
    return usable


def _find_templates(learner: Learner) -> IntArray:
    """Return a number for the template of each review's card (n,); -1 if it is not known."""
    templates = learner.log.templates
    if templates is None:
        return _find_places(learner)
    wanted = learner.trials.card_id
    position = np.searchsorted(templates.card_id, wanted)
    position = np.minimum(position, len(templates.card_id) - 1)
    is_known = templates.card_id[position] == wanted
    found: IntArray = np.where(is_known, templates.template[position], -1)
    return found


def _name_kinds(learner: Learner, division: str, numbers: IntArray) -> tuple[str, ...]:
    """Return the names of the templates with these numbers; () for other kinds."""
    templates = learner.log.templates
    if division != f.BY_TEMPLATE or templates is None:
        return ()
    return tuple(
        templates.names[number] if number >= 0 else "unknown" for number in numbers.tolist()
    )


def _find_places(learner: Learner) -> IntArray:
    """Return the place of each review's card among the cards of its note (n,), from 1 to 3."""
    cards = learner.log.cards
    place = np.ones(len(cards.card_id), np.int64)
    order = np.lexsort((cards.card_id, cards.note_id))
    note = cards.note_id[order]
    first = np.searchsorted(note, note, side="left")
    place[order] = np.minimum(np.arange(len(order)) - first + 1, _MAX_PLACES)
    position = np.searchsorted(cards.card_id, learner.trials.card_id)
    position = np.minimum(position, len(place) - 1)
    found: IntArray = place[position]
    return found


def _evaluate_together(learner: Learner, group: int, test: IntArray) -> FloatArray:
    """Return the losses (nats) of the held-out reviews by one set of parameters for the preset."""
    p = np.empty(len(learner.trials))
    for fold in learner.trials.folds:
        fold_test = fold.test[np.isin(fold.test, test)]
        parameters = learner.fit_separately(len(fold.train)).get(group, fsrs6.DEFAULT)
        p[fold_test] = learner.predict_with_parameters(parameters, fold_test)
    return learner.losses(p[test], test)


def _evaluate_kinds(learner: Learner, group: int, test: IntArray, kind: IntArray) -> FloatArray:
    """Return the losses (nats) of the held-out reviews by parameters for each kind (n,)."""
    trials = learner.trials
    p = np.empty(len(trials))
    for fold in trials.folds:
        earlier = fold.train[trials.partition[fold.train] == group]
        fold_test = fold.test[np.isin(fold.test, test)]
        for value in np.unique(kind[fold_test]).tolist():
            train = earlier[kind[earlier] == value]
            selected = fold_test[kind[fold_test] == value]
            parameters = _fit_kind(learner, group, len(fold.train), train)
            p[selected] = learner.predict_with_parameters(parameters, selected)
    return learner.losses(p[test], test)


def _fit_kind(learner: Learner, group: int, count: int, train: IntArray) -> Sequence[float]:
    """Fit parameters to a kind's reviews; those of the preset if there are too few."""
    if len(train) < _MIN_TRAINING:
        by_preset: Mapping[int, Sequence[float]] = learner.fit_separately(count)
        return by_preset.get(group, fsrs6.DEFAULT)
    learner.context.tick(0.0)
    return fit_one_group(learner.trials, train)
