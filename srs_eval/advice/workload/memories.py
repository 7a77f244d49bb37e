"""Which models schedule or remember in the simulation, and which parameters a learner's may have.

The simulation asks the same few things of each: a state of so many numbers for a card, what it is
after a first answer and after a next one, how probable it is that the card is recalled, and which
interval follows (`loops`). FSRS answers by the code by which it is fitted and evaluated.

Parameters are not known but fitted; `draws` tells what else they could have been. Each draw is a
fit to days drawn with replacement, in blocks of seven review days, since days resemble
their neighbours (circular block bootstrap: Politis and Romano 1992). A review that is drawn twice
counts twice, also in the fit of the initial stabilities.

A fit is pulled towards the default parameters, as towards a prior. Were that the same in every
draw, few reviews would leave little doubt: draws would agree where the penalty decides, not the
learner. So each is pulled towards parameters drawn from that prior (randomize then optimize:
Bardsley et al. 2014, SIAM Journal on Scientific Computing 36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from srs_eval.data.errors import NotEnoughData
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.models import anki_sm2, fsrs6, fsrs7
from srs_eval.stats.intervals import BLOCK_DAYS
from srs_eval.training.elementwise import maximum, where
from srs_eval.training.hyperparameters import Context
from srs_eval.training.recurrent import RecurrentModel, Trainable


def _unchanged(state: Any, t: Any, rating: Any, w: Any) -> Any:
    return state


def _sm2_success(state: Any, t: Any, rating: Any, w: Any) -> Any:
    """Interval and ease after a review that was passed (ankitects/anki:
    rslib/src/scheduler/states/review.rs).

    Where t is within what Anki fuzzes, it is the interval that was planned; what is beyond it is
    late, and counts half for Good. (`anki_sm2` has the formulas of Good and Easy swapped, as they
    were published.)
    """
    interval = where(t <= 1.15 * state[0] + 1.0, t, state[0])
    ease, late = state[1], t - interval
    hard = maximum(interval * w[4] * w[6], interval + 1.0)
    good = maximum((interval + 0.5 * late) * ease * w[6], hard + 1.0)
    easy = maximum((interval + late) * ease * w[3] * w[6], good + 1.0)
    _, ease = anki_sm2.RECURRENT.success(state, t, rating, w)
    return where(rating == 2.0, hard, where(rating == 4.0, easy, good)), ease


SM2 = "SM-2"
MODELS: Mapping[str, RecurrentModel] = {
    "FSRS-6": fsrs6.recurrent(0.001),
    "FSRS-7": fsrs7.recurrent(secs=True),
    SM2: replace(anki_sm2.RECURRENT, success=_sm2_success, same_day=_unchanged),
}
"""A state is (s, d), of FSRS-7 (s, q, d), of SM-2 (interval, ease): as a scheduler it gives its own
intervals where 0.9 is desired. But for FSRS-7, forgetting curves depend on t / s alone, so that
intervals are a multiple of s."""
FITTED: Mapping[str, Trainable] = {"FSRS-6": fsrs6.TRAINABLE, "FSRS-7": fsrs7.TRAINABLE}
"""Those that can be fitted to a learner; FSRS-7 to trials with fractional intervals."""

_ATTEMPTS = 20  # to draw days that can be fitted to


@dataclass(frozen=True)
class Memory:
    """A model with its parameters."""

    model: str  # of MODELS
    parameters: tuple[float, ...]

    @property
    def values(self) -> FloatArray:
        """The parameters followed by the model's constants."""
        return np.array([*self.parameters, *self.recurrent.constants], np.float64)

    @property
    def recurrent(self) -> RecurrentModel:
        return MODELS[self.model]

    @property
    def states(self) -> int:
        """Numbers in a card's state."""
        return self.recurrent.states


@cache
def loops_of(model: str) -> Mapping[str, Any]:
    """The model's compiled loops by the names that `loops` and `kernel` call them by."""
    from srs_eval.advice.workload import loops
    from srs_eval.training.compile import specialised

    each = MODELS[model]
    steps: dict[str, Any] = {
        "_first": each.first,
        "_success": each.success,
        "_failure": each.failure,
    }
    steps |= {"_curve": each.recall} | ({"_same_day": each.same_day} if each.same_day else {})
    constants = {
        "_STATES": each.states,
        "_VALUES": len(each.default) + len(each.constants),
        "_HAS_SAME_DAY": int(each.same_day is not None),
        "_SCALES": int(model != "FSRS-7"),
    }
    found: dict[str, Any] = {}
    templates: Mapping[str, Any] = loops.LOOPS
    for name, template in templates.items():
        called = {f"_{loop}": kernel for loop, kernel in found.items()}
        called = {key: called[key] for key in called if key in template.__code__.co_names}
        word = model.replace("-", "_")
        found[name] = specialised(template, word, steps, constants, kernels=called)
    return found


# What parameters the reviews allow


def fitted(
    trials: Trials, index: IntArray, context: Context | None = None, model: str = "FSRS-6"
) -> Memory:
    """A model fitted to the trials at the positions `index`. Raises NotEnoughData."""
    parameters = FITTED[model].fit(trials, index, np.ones(len(index)), context or Context())
    return Memory(model, tuple(parameters))


def draws(
    trials: Trials,
    index: IntArray,
    count: int,
    seed: int,
    context: Context | None = None,
    model: str = "FSRS-6",
) -> Iterator[Memory]:
    """`count` draws of the fit to the trials at the positions `index`, in review order.

    The same seed gives the same draws. Raises NotEnoughData where no drawn days can be fitted to.
    """
    random = np.random.default_rng(seed)
    for _ in range(count):
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                yield _drawn(random, trials, index, context or Context(), model)
                break
            except NotEnoughData:
                if attempt == _ATTEMPTS:
                    raise


def _drawn(
    random: np.random.Generator, trials: Trials, index: IntArray, context: Context, name: str
) -> Memory:
    reviews = _drawn_reviews(random, trials, index)
    weights = np.ones(len(reviews))
    model, start = FITTED[name].model(trials, context), FITTED[name].start
    assert model.deviation is not None
    # gamma ((w - default) / deviation)^2 is a normal prior's with this standard deviation; S0,
    # whose pull is towards their own fit or nil, are as uncertain as the drawn reviews make them.
    deviation = np.array(model.deviation) / np.sqrt(2.0 * trials.protocol.gamma)
    deviation[:4] = 0.0
    centre = np.array(start(trials, reviews, weights, context) if start else model.default)
    centre += deviation * random.standard_normal(len(centre))
    centre = np.clip(centre, model.lower, model.upper)
    trainable = replace(FITTED[name], start=lambda *_: centre.tolist())
    return Memory(name, tuple(trainable.fit(trials, reviews, weights, context)))


def _drawn_reviews(random: np.random.Generator, trials: Trials, index: IntArray) -> IntArray:
    """Positions of the reviews of drawn days, in review order; as many days as there are."""
    days, place = np.unique(trials.day[index], return_inverse=True)
    starts = random.integers(len(days), size=-(-len(days) // BLOCK_DAYS))
    drawn = (starts[:, None] + np.arange(BLOCK_DAYS)).ravel()[: len(days)] % len(days)
    return np.repeat(index, np.bincount(drawn, minlength=len(days))[place])
