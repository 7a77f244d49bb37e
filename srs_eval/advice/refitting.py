"""What fitting anew would change: how often to optimize, and which parameters are noise.

Log loss against the age of the parameters; and how far each parameter moves when days had gone
otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import Finding, phrased
from srs_eval.advice.sentences import figures, needs, on_days, what_is_missing, would_tell
from srs_eval.advice.tables import Table
from srs_eval.data.errors import counted
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Fold, recency_weights
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import FEWEST_DAYS, FEWEST_REVIEWS, Interval, verdicts

GROWTHS = (0.02, 0.10, 0.25, 0.50, 1.00)
"""Optimizing again whenever there are so many more reviews; the first is the yardstick."""
NEVER, DEFAULTS = "once, then never", "never (defaults)"
_START = 6  # the first fit has a sixth of the reviews, as the first of five folds has
_CANDIDATE = "optimized, recency"  # what Anki's optimizer fits


def how_often(learner: Learner, groups: Sequence[int], equivalence: float) -> Iterator[Finding]:
    """One answer for each preset with enough reviews."""
    for group in groups:
        judged = len(_judged(learner, group))
        if judged < FEWEST_REVIEWS:
            can = f"{counted(judged, 'review')} can be judged, {FEWEST_REVIEWS:,} are needed"
            why = needs(judged, FEWEST_REVIEWS)
            sentences = (f"Can't tell yet: {can}.",)
            yield phrased("often", learner.name_of(group), "can't tell", sentences, why=why)
        else:
            yield _answer(learner, group, equivalence)


def refits(index: IntArray, growth: float | None) -> tuple[Fold, ...]:
    """Fits at a sixth of the positions and whenever these have grown; None: never again."""
    sizes = [len(index) // _START]
    while growth is not None:
        larger = max(sizes[-1] + 1, round(sizes[-1] * (1 + growth)))
        if larger >= len(index):
            break
        sizes.append(larger)
    return tuple(
        Fold(train=index[:begin], test=index[begin:end])
        for begin, end in zip(sizes, [*sizes[1:], len(index)], strict=True)
    )


def staleness(learner: Learner, group: int) -> dict[str, Interval]:
    """What optimizing a preset less often than at every 2 % costs, in log loss."""
    return learner.once(("staleness", group), lambda: _staleness(learner, group))


def _staleness(learner: Learner, group: int) -> dict[str, Interval]:
    index = np.flatnonzero(learner.trials.partition == group)
    judged = _judged(learner, group)
    always = learner.losses(learner.predict(_CANDIDATE, refits(index, GROWTHS[0])), judged)
    found = {}
    for growth in (*GROWTHS[1:], None):
        name = NEVER if growth is None else _label(growth)
        p = learner.predict(_CANDIDATE, refits(index, growth))
        found[name] = learner.interval(learner.losses(p, judged) - always, judged)
    p = learner.predict("defaults", refits(index, None))
    found[DEFAULTS] = learner.interval(learner.losses(p, judged) - always, judged)
    return found


def _judged(learner: Learner, group: int) -> IntArray:
    """Positions of the reviews after the first fit."""
    index = np.flatnonzero(learner.trials.partition == group)
    return index[len(index) // _START :]


def _answer(learner: Learner, group: int, equivalence: float) -> Finding:
    cost = staleness(learner, group)
    says = verdicts(cost, equivalence=equivalence)
    labels = [_label(growth) for growth in GROWTHS[1:]]
    enough = [label for label in labels if says[label] in ("as good", "better")]
    sentences, why = [], ""
    doubling = cost[labels[-1]]
    if enough:
        conclusion = enough[-1]
        sentences.append(
            f"Optimizing {conclusion} of reviews is "
            f"{'better than' if says[conclusion] == 'better' else 'as good as'} always: "
            f"{_told(cost[conclusion])}."
        )
    elif says[labels[-1]] == "worse":
        conclusion, why = "can't tell", "at every doubling is too seldom"
        sentences.append(
            "Optimizing at every doubling only is too seldom: it makes "
            f"{_told(doubling)}. How often is enough can't be told yet."
        )
    else:
        conclusion, why = "can't tell", would_tell(doubling)
        sentences.append(
            "How often matters can't be told yet: optimizing at every doubling makes "
            f"{_told(doubling)}. " + what_is_missing(doubling, len(cost))
        )
    sentences += cost_of_age(learner, group)
    at_all = cost[DEFAULTS]
    sentences.append(
        f"Not optimizing at all (the defaults) makes {_told(at_all)}: "
        + {
            "worse": "optimizing is worth it.",
            "better": "the defaults predict better than any fit here.",
            "as good": "the defaults are as good.",
            "can't tell yet": "whether optimizing is worth it can't be told yet. "
            + what_is_missing(at_all, len(cost)),
        }[says[DEFAULTS]]
    )
    rows = tuple((label, difference, says[label]) for label, difference in cost.items())
    name, judged = learner.name_of(group), len(_judged(learner, group))
    title = f"{name}: optimizing less often, {judged:,} reviews"
    table = Table(title, ("optimizing", "minus every +2 %", "verdict"), rows)
    return phrased("often", name, conclusion, tuple(sentences), (table,), why=why)


def cost_of_age(learner: Learner, group: int) -> list[str]:
    """How old the present parameters can be, and what parameters of that age cost, in words.

    Nothing where too few reviews can be judged.
    """
    if len(_judged(learner, group)) < FEWEST_REVIEWS:
        return []
    cost = staleness(learner, group)
    preset = learner.log.presets.get(group)
    if preset is not None and not preset.is_told:
        return []
    if preset is None or not preset.parameters_in_force:
        return ["No parameters are stored: this preset has never been optimized."]
    old = learner.since_optimized(group)
    if old is None:
        return []
    before = int((learner.trials.partition == group).sum()) - len(old)
    if not before:
        return [f"Yours are older than all {len(old):,} reviews: they fit none of these."]
    growth = next((each for each in GROWTHS if each >= len(old) / before), None)
    name = NEVER if growth is None else _label(growth)
    costs = 0.0 if name == _label(GROWTHS[0]) else cost[name].estimate
    return [
        f"Yours are at most {counted(len(old), 'review')} old, with {before:,} before that; "
        f"at that age parameters cost you about {max(costs, 0):.4f} log loss."
    ]


def _label(growth: float) -> str:
    return f"at every +{growth:.0%}".replace("%", " %")


def _told(difference: Interval) -> str:
    return figures(difference, than=" than at every +2 %")


# Which numbers are noise?

DRAWS = 20
_NOISE = 0.5
"""A parameter is noise where it moves by more than this share of what learners differ by."""


def which_numbers_are_noise(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> Iterator[Finding]:
    """One answer for each preset."""
    del equivalence
    folds = [learner.fitted_before(number) for number in range(len(learner.trials.folds))]
    for group in groups:
        name = learner.name_of(group)
        index = np.flatnonzero(learner.trials.partition == group)
        days = learner.days_of(index)
        if len(index) < FEWEST_REVIEWS or days < FEWEST_DAYS:
            needed = f"{FEWEST_REVIEWS:,} on {FEWEST_DAYS} are needed"
            sentence = f"Can't tell yet: {on_days(len(index), days)}; {needed}."
            yield phrased("noise", name, "can't tell", (sentence,))
            continue
        fitted = np.array(_fitted(learner, index))
        over_days = by_days(learner, index).std(axis=0, ddof=1)
        of_folds = np.array([each[group] for each in folds if group in each])
        over_folds: list[float | None] = [None] * len(fitted)
        if len(of_folds) > 1:
            over_folds = of_folds.std(axis=0, ddof=1).tolist()
        usual = np.array(fsrs6.DEVIATION)
        noisy = over_days > _NOISE * usual
        said = ["noise" if each else "" for each in noisy]
        names = [f"w{k}" for k in range(len(fitted))]
        spreads = over_days.tolist(), over_folds, usual.tolist()
        rows = zip(names, fitted.tolist(), *spreads, said, strict=True)
        count = int(noisy.sum())
        are, they = ("is", "it") if count == 1 else ("are", "they")
        named = ", ".join(f"w{k}" for k in np.flatnonzero(noisy))
        sentence = (
            f"{count} of 21 parameters {are} noise: had days gone otherwise, {they} would move by "
            f"more than half of what learners differ by ({named})."
            if count
            else "None of the 21 parameters moves by more than half of what learners differ by."
        )
        columns = ("parameter", "fitted", "over days", "over folds", "learners", "")
        title = f"{name}: parameters and their standard deviations"
        table = Table(title, columns, tuple(rows))
        yield phrased("noise", name, f"{count} of 21", (sentence,), (table,))


def by_days(learner: Learner, index: IntArray) -> FloatArray:
    """Fits (20, 21) to the reviews at the positions, their days drawn anew with replacement."""
    days, place = np.unique(learner.trials.day[index], return_inverse=True)
    draws = np.random.default_rng(0).multinomial(
        len(days), np.full(len(days), 1 / len(days)), DRAWS
    )
    fits = [_fitted(learner, np.repeat(index, draw[place])) for draw in draws]
    return np.array(fits)


def _fitted(learner: Learner, train: IntArray) -> list[float]:
    """As Anki's optimizer fits, newer reviews weighing more."""
    return fsrs6.fit(learner.trials, train, recency_weights(len(train)), learner.context)
