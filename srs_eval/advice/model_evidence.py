"""Where a model errs: recall against what it expected, by what is known before a review."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import MISSING, Deck, FloatArray, IntArray, Preset, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.engine.session import Result, losses
from srs_eval.models import fsrs6
from srs_eval.models.configurations import Configuration
from srs_eval.stats.intervals import Interval, mean_interval
from srs_eval.training.hyperparameters import Context

_RATINGS = ("Again", "Hard", "Good", "Easy")
_DAYS = (1, 2, 4, 8, 15, 30, 60, 120, 240)
_REVIEWS = (1, 2, 3, 5, 8, 12, 20)
_LAPSES = (0, 1, 2, 3, 5, 8)
_STABILITIES = {0: "0-3 d", 3: "3-10 d", 10: "10-30 d", 30: "30-100 d", 100: "100 d and more"}
_HOURS = (0, 4, 8, 12, 16, 20)
_MOST_DECKS = 12
_HOUR_S = 3_600


@dataclass(frozen=True)
class Errors:
    """What a model expected of some reviews, and what was recalled."""

    of: str  # a deck, a rating; "" where these are told by the range alone
    first: int  # of the range
    last: int | None  # None: and more
    days: float  # since the review before, the mean
    recalled: Interval
    expected: float
    bias: Interval  # recalled minus expected
    log_loss: float

    @property
    def is_enough(self) -> bool:
        """Of fewer neither an interval nor a point is shown: six passes of six vary too little."""
        return self.recalled.reviews >= 30


@dataclass(frozen=True)
class Where:
    """Where a model errs, by what is known before a review, and its parameters."""

    model: str
    by: Mapping[str, tuple[Errors, ...]]  # "days", "reviews", "lapses", ...; those there are
    decks: int  # with evaluated reviews
    is_own: bool  # the parameters are stored in Anki, not those of the last fold
    parts: str  # "none", "preset" or "deck": who has parameters of their own
    defaults: tuple[float, ...]
    parameters: tuple[tuple[str, tuple[float, ...]], ...]  # by name of these


@dataclass(frozen=True, eq=False)
class _Reviews:
    """What was evaluated (k,)."""

    result: Result
    losses: FloatArray
    days: IntArray  # since the review before

    def errors(
        self, chosen: IntArray, of: str = "", first: int = 0, last: int | None = None
    ) -> Errors:
        y, p, day = self.result.y[chosen], self.result.p[chosen], self.result.day[chosen]
        means = (float(each.mean()) for each in (self.days[chosen], p, self.losses[chosen]))
        days, expected, loss = means
        bias = mean_interval(y - p, day)
        found = Errors(of, first, last, days, mean_interval(y, day), expected, bias, loss)
        without = replace(found.bias, half_width=math.nan)
        return found if found.is_enough else replace(found, bias=without)

    def by(
        self,
        values: IntArray,
        steps: Sequence[int],
        of: str = "",
        where: NDArray[np.bool_] | None = None,
    ) -> Iterator[Errors]:
        """By ranges that begin at `steps`; what lies below the first is in it."""
        place = np.maximum(np.searchsorted(steps, values, "right") - 1, 0)
        firsts = (min(steps[0], int(values.min())), *steps[1:])
        lasts = (*(each - 1 for each in steps[1:]), None)
        for number, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
            chosen = np.flatnonzero((place == number) & (True if where is None else where))
            if len(chosen):
                yield self.errors(chosen, of, first, last)


def model_evidence(
    log: ReviewLog, trials: Trials, configuration: Configuration, result: Result
) -> Where:
    """Errors by interval, reviews, lapses, hour, deck, first rating and stability; parameters.

    `trials` are those that the result was evaluated on (`engine.Session.trials` of the
    configuration's protocol). What the source does not know (hours, decks) is left out. Raises
    ValueError where the two do not belong together.
    """
    index = trials.test_index
    if not np.array_equal(trials.review_th[index], result.review_th):
        raise ValueError(f"{configuration.name} was not evaluated on these trials")
    days = trials.elapsed_days[index]
    reviews = _Reviews(result, losses(result), days)
    deck = _decks(log, trials.card_id[index])
    known, count = np.unique(deck[deck != MISSING], return_counts=True)
    largest = known[np.lexsort((known, -count))][:_MOST_DECKS].tolist()
    # The learner's day begins at 4:00 by default: hour 0 is from 4 to 5 o'clock.
    seconds = trials.history_time_of_day_s[trials.history_end[index]]
    of_hours = [] if (seconds == MISSING).any() else reviews.by(seconds // _HOUR_S, _HOURS)
    first_rating = np.where(trials.i[index] == 2, trials.first_rating[index], MISSING)
    # By what FSRS-6's defaults take for the stability before: the same for all models.
    p = fsrs6.predict(trials, list(fsrs6.DEFAULT), index, Context())
    stability = _stability(np.maximum(days, 1), p, fsrs6.DEFAULT[20])
    place = np.searchsorted([*_STABILITIES], stability, "right") - 1

    def curves(names: Iterable[tuple[int, str]], group: IntArray) -> Iterator[Errors]:
        for number, name in names:
            yield from reviews.by(days, _DAYS, name, group == number)

    by = {
        "days": reviews.by(days, _DAYS),
        "reviews": reviews.by(trials.i[index] - 1, _REVIEWS),
        "lapses": reviews.by(trials.bin_lapses[index], _LAPSES),
        "hours": of_hours,
        "deck": (
            reviews.errors(np.flatnonzero(deck == each), _name_of(log.decks, each, "deck"))
            for each in largest
        ),
        "first rating": curves(enumerate(_RATINGS, start=1), first_rating),
        "stability": curves(enumerate(_STABILITIES.values()), place),
    }
    found = {name: tuple(each) for name, each in by.items()}
    found = {name: each for name, each in found.items() if each}
    own = configuration.fit == "own"
    parts = "preset" if own else configuration.protocol.partitions
    parameters = tuple(_parameters(log, parts, result))
    model, defaults = configuration.model.name, _defaults(configuration)
    return Where(model, found, len(known), own, parts, defaults, parameters)


def _decks(log: ReviewLog, card: IntArray) -> IntArray:
    """The decks of cards; of deleted ones MISSING."""
    cards = log.cards
    if not len(cards.card_id):
        return np.full(len(card), MISSING)
    place = np.minimum(np.searchsorted(cards.card_id, card), len(cards.card_id) - 1)
    return np.where(cards.card_id[place] == card, cards.deck_id[place], MISSING)


def _stability(days: IntArray, p: FloatArray, decay: float) -> FloatArray:
    """Days until recall falls to 90 %, of who recalls p after some days: FSRS-6's curve, solved."""
    return days * np.expm1(-math.log(0.9) / decay) / np.expm1(-np.log(p) / decay)


def _parameters(
    log: ReviewLog, parts: str, result: Result
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """By preset or deck, "" where all reviews are one part."""
    known = log.presets if parts == "preset" else log.decks
    for part, values in (result.parameters or {}).items():
        name = "" if parts == "none" else _name_of(known, part, parts)
        yield name, tuple(map(float, values))


def _name_of(known: Mapping[int, Deck] | Mapping[int, Preset], part: int, kind: str) -> str:
    return known[part].name if part in known else f"{kind} {part}"


def _defaults(configuration: Configuration) -> tuple[float, ...]:
    """() where the model's are no list."""
    model = configuration.model
    of_defaults = (model.default_secs if configuration.protocol.secs else None) or model.default
    usual = of_defaults(Context())
    return tuple(map(float, usual)) if isinstance(usual, (list, tuple, np.ndarray)) else ()
