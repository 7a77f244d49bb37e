"""Parameters are not known but fitted: what else they could have been.

Each draw is a fit of FSRS-6 to days drawn with replacement, in blocks of seven review days, since
days resemble their neighbours (circular block bootstrap: Politis and Romano 1992). A review that is
drawn twice counts twice, also in the fit of the initial stabilities.

A fit is pulled towards the default parameters, as towards a prior. Were that the same in every
draw, few reviews would leave little doubt: draws would agree where the penalty decides, not the
learner. So each is pulled towards parameters drawn from that prior (randomize then optimize:
Bardsley et al. 2014, SIAM Journal on Scientific Computing 36).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from srs_eval.advice.workload.memories import Memory
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import BLOCK_DAYS
from srs_eval.training.context import Context

_ATTEMPTS = 20  # to draw days that can be fitted to


def fitted(trials: Trials, index: IntArray, context: Context | None = None) -> Memory:
    """FSRS-6 fitted to the trials at the positions `index`. Raises NotEnoughData."""
    parameters = fsrs6.fit(trials, index, np.ones(len(index)), context or Context())
    return Memory("FSRS-6", tuple(parameters))


def draws(
    trials: Trials, index: IntArray, count: int, seed: int, context: Context | None = None
) -> Iterator[Memory]:
    """`count` draws of the fit to the trials at the positions `index`, in review order.

    The same seed gives the same draws. Raises NotEnoughData where no drawn days can be fitted to.
    """
    random = np.random.default_rng(seed)
    for _ in range(count):
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                yield _drawn(random, trials, index, context or Context())
                break
            except NotEnoughData:
                if attempt == _ATTEMPTS:
                    raise


def _drawn(
    random: np.random.Generator, trials: Trials, index: IntArray, context: Context
) -> Memory:
    reviews = drawn_reviews(random, trials, index)
    weights = np.ones(len(reviews))
    model = fsrs6.TRAINABLE.model(trials, context)
    # gamma ((w - default) / deviation)^2 is a normal prior's with this standard deviation; S0,
    # whose pull is towards their own fit, are as uncertain as the drawn reviews make them.
    deviation = np.array(fsrs6.DEVIATION) / np.sqrt(2.0 * trials.protocol.gamma)
    deviation[:4] = 0.0
    centre = np.array(fsrs6.fit_s0(trials, reviews, weights, context))
    centre += deviation * random.standard_normal(len(centre))
    centre = np.clip(centre, model.lower, model.upper)
    trainable = replace(fsrs6.TRAINABLE, start=lambda *_: centre.tolist())
    return Memory("FSRS-6", tuple(trainable.fit(trials, reviews, weights, context)))


def drawn_reviews(random: np.random.Generator, trials: Trials, index: IntArray) -> IntArray:
    """Positions of the reviews of drawn days, in review order; as many days as there are."""
    days, place = np.unique(trials.day[index], return_inverse=True)
    starts = random.integers(len(days), size=-(-len(days) // BLOCK_DAYS))
    drawn = (starts[:, None] + np.arange(BLOCK_DAYS)).ravel()[: len(days)] % len(days)
    return np.repeat(index, np.bincount(drawn, minlength=len(days))[place])
