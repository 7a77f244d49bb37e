"""What fitting anew would change: how often to optimize, and which parameters are noise.

Log loss against the age of the parameters; and how far each parameter moves when days had gone
otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np

from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import (
    OPEN,
    RECENCY,
    Candidate,
    Finding,
    Missing,
    Noise,
    Often,
    Spread,
    missing_of,
)
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Fold, recency_weights
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import FEWEST_DAYS, FEWEST_REVIEWS, Interval, verdicts

GROWTHS = (0.02, 0.10, 0.25, 0.50, 1.00)
"""Optimizing again whenever there are so many more reviews; the first is the yardstick."""
NEVER, DEFAULTS = "once, then never", "never (defaults)"
_START = 6  # the first fit has a sixth of the reviews, as the first of five folds has
_SAFE = "+10 %"  # for everybody: its mean cost was 0.0001 to 0.0006 (docs/verdicts.md)
_CANDIDATE = RECENCY  # what Anki's optimizer fits


def how_often(learner: Learner, groups: Sequence[int], equivalence: float) -> Iterator[Finding]:
    """One finding for each preset."""
    for group in groups:
        judged = len(_judged(learner, group))
        act, evidence = f"every {_SAFE}", Often("safe")
        if judged >= FEWEST_REVIEWS:
            cost = staleness(learner, group)
            says = verdicts(cost, equivalence=equivalence)
            *costs, defaults = (
                Candidate(name, difference=cost[name], verdict=says[name]) for name in cost
            )
            # The first that costs something ends the search: what passes after it is chance.
            enough = list(takewhile(lambda each: each.verdict in ("as good", "better"), costs[:-1]))
            act = enough[-1].name if enough else act
            evidence = Often("as good" if enough else "safe", tuple(costs), defaults)
        yield Finding("often", learner.name_of(group), act, reviews=judged, evidence=evidence)


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


def _label(growth: float) -> str:
    return f"every +{growth:.0%}".replace("%", " %")


# Which numbers are noise?

DRAWS = 20
_NOISE = 0.5
"""A parameter is noise where it moves by more than this share of what learners differ by."""


def which_numbers_are_noise(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> Iterator[Finding]:
    """One finding for each preset."""
    del equivalence
    for group in groups:
        name = learner.name_of(group)
        index = np.flatnonzero(learner.trials.partition == group)
        lacks = missing_of(len(index), learner.days_of(index), FEWEST_REVIEWS, FEWEST_DAYS)
        if lacks != Missing():
            evidence = Noise(OPEN)
            yield Finding("noise", name, reviews=len(index), missing=lacks, evidence=evidence)
            continue
        fitted, over_days = _fitted(learner, index), by_days(learner, index).std(axis=0, ddof=1)
        spreads = tuple(
            Spread(value, spread, usual, spread > _NOISE * usual)
            for value, spread, usual in zip(
                fitted, over_days.tolist(), fsrs6.DEVIATION, strict=True
            )
        )
        says = f"{sum(each.is_noise for each in spreads)} of {len(spreads)}"
        yield Finding("noise", name, reviews=len(index), evidence=Noise(says, spreads))


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
