"""Break down a model's errors, recall minus expectation, by what is known before a review."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.reviews import MISSING, Deck, FloatArray, IntArray, Preset, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.engine.loss_breakdown import MIN_GROUP_REVIEWS
from srs_eval.engine.result import Result, review_losses
from srs_eval.models import TrainedModel, fsrs6
from srs_eval.models.configurations import Configuration
from srs_eval.stats.intervals import Interval, mean_interval
from srs_eval.stats.ranges import REVIEW_STEPS, split_by_range
from srs_eval.training.hyperparameters import Context

_RATINGS = ("Again", "Hard", "Good", "Easy")
_DAY_STEPS = (1, 2, 4, 8, 15, 30, 60, 120, 240)
_LAPSE_STEPS = (0, 1, 2, 3, 5, 8)
_STABILITIES = {0: "0-3 d", 3: "3-10 d", 10: "10-30 d", 30: "30-100 d", 100: "100 d and more"}
_HOUR_STEPS = (0, 4, 8, 12, 16, 20)
_MAX_DECKS = 12
_HOUR_S = 3_600


@dataclass(frozen=True)
class ErrorGroup:
    """Share recalled in a group of reviews, and the share that a model expected."""

    label: str  # a deck or a rating; "" if the range alone names the group
    first: int  # start of the range
    last: int | None  # end of the range; None if open
    mean_days: float  # mean interval since the previous review
    recalled: Interval
    expected: float
    bias: Interval  # recalled minus expected
    log_loss: float

    @property
    def has_enough_reviews(self) -> bool:
        """Return True if there are enough reviews to show an interval and a point.

        With fewer there may be too little variation, such as six passes of six.
        """
        return self.recalled.reviews >= MIN_GROUP_REVIEWS


@dataclass(frozen=True)
class ModelErrors:
    """Errors of a model by what is known before a review, and its parameters."""

    model: str
    by_feature: Mapping[str, tuple[ErrorGroup, ...]]  # "days", "reviews", "lapses", ... if known
    deck_count: int  # number of decks with evaluated reviews
    is_own: bool  # the parameters are those stored in Anki, otherwise those of the last fold
    partitions: str  # "none", "preset" or "deck": unit with its own parameters
    defaults: tuple[float, ...]
    parameters: tuple[tuple[str, tuple[float, ...]], ...]  # by name of the unit


@dataclass(frozen=True, eq=False)
class _ReviewErrors:
    """Evaluated reviews (k,) with their losses and intervals."""

    result: Result
    losses: FloatArray
    days: IntArray  # since the previous review

    def summarize(
        self, positions: IntArray, label: str = "", first: int = 0, last: int | None = None
    ) -> ErrorGroup:
        y = self.result.y[positions]
        p = self.result.p[positions]
        day = self.result.day[positions]
        group = ErrorGroup(
            label=label,
            first=first,
            last=last,
            mean_days=float(self.days[positions].mean()),
            recalled=mean_interval(y, day),
            expected=float(p.mean()),
            bias=mean_interval(y - p, day),
            log_loss=float(self.losses[positions].mean()),
        )
        if not group.has_enough_reviews:
            group = replace(group, bias=replace(group.bias, half_width=math.nan))
        return group

    def summarize_by_range(
        self,
        values: IntArray,
        range_starts: Sequence[int],
        label: str = "",
        mask: NDArray[np.bool_] | None = None,
    ) -> Iterator[ErrorGroup]:
        """Yield errors by ranges that begin at `range_starts`; the first includes all below it.

        With a `mask` (k,), only reviews in it count.
        """
        for first, last, in_range in split_by_range(values, range_starts):
            positions = in_range if mask is None else in_range[mask[in_range]]
            if len(positions):
                yield self.summarize(positions, label, first, last)


def model_evidence(
    log: ReviewLog, trials: Trials, configuration: Configuration, result: Result
) -> ModelErrors:
    """Compute errors by interval, reviews, lapses, hour, deck, first rating and stability.

    The parameters are returned with them. `trials` are those on which the result was evaluated
    (`engine.LearnerSession.trials` of the configuration's protocol). Groups that the source does
    not support (hours, decks) are omitted. Raises ValueError if trials and result do not match.
    """
    index = trials.test_index
    if not np.array_equal(trials.review_th[index], result.review_th):
        raise ValueError(f"{configuration.name} was not evaluated on these trials")
    days = trials.elapsed_days[index]
    reviews = _ReviewErrors(result, review_losses(result), days)
    deck = _deck_of_cards(log, trials.card_id[index])
    deck_ids, review_count = np.unique(deck[deck != MISSING], return_counts=True)
    largest_decks = deck_ids[np.lexsort((deck_ids, -review_count))][:_MAX_DECKS].tolist()
    by_deck = []
    for deck_id in largest_decks:
        name = _unit_name(log.decks, deck_id, "deck")
        by_deck.append(reviews.summarize(np.flatnonzero(deck == deck_id), name))
    # The learner's day begins at 4:00 by default: hour 0 is from 4 to 5 o'clock.
    seconds = trials.history_time_of_day_s[trials.history_end[index]]
    by_hour: Iterable[ErrorGroup] = ()
    if not (seconds == MISSING).any():
        by_hour = reviews.summarize_by_range(seconds // _HOUR_S, _HOUR_STEPS)
    # The first rating is used for a card's second review only.
    first_rating = np.where(trials.i[index] == 2, trials.first_rating[index], MISSING)
    # The stability before the review by FSRS-6's defaults, so that it is the same for all models.
    p = fsrs6.predict(trials, list(fsrs6.DEFAULT), index, Context())
    stability = _stability_from_recall(np.maximum(days, 1), p, fsrs6.DEFAULT[20])
    stability_range = np.searchsorted([*_STABILITIES], stability, "right") - 1

    def summarize_curves(names: Iterable[tuple[int, str]], group: IntArray) -> Iterator[ErrorGroup]:
        """Yield errors by days since the previous review, for each numbered and named group."""
        for number, name in names:
            yield from reviews.summarize_by_range(days, _DAY_STEPS, name, group == number)

    by_feature: dict[str, Iterable[ErrorGroup]] = {
        "days": reviews.summarize_by_range(days, _DAY_STEPS),
        "reviews": reviews.summarize_by_range(trials.i[index] - 1, REVIEW_STEPS),
        "lapses": reviews.summarize_by_range(trials.bin_lapses[index], _LAPSE_STEPS),
        "hours": by_hour,
        "deck": by_deck,
        "first rating": summarize_curves(enumerate(_RATINGS, start=1), first_rating),
        "stability": summarize_curves(enumerate(_STABILITIES.values()), stability_range),
    }
    groups_by_feature = {}
    for feature, groups in by_feature.items():
        groups_of_feature = tuple(groups)
        if groups_of_feature:
            groups_by_feature[feature] = groups_of_feature
    is_own = configuration.fit == "own"
    partitions = "preset" if is_own else configuration.protocol.partitions
    return ModelErrors(
        model=configuration.model.name,
        by_feature=groups_by_feature,
        deck_count=len(deck_ids),
        is_own=is_own,
        partitions=partitions,
        defaults=_default_parameters(configuration),
        parameters=tuple(_parameters_by_unit(log, partitions, result)),
    )


def _deck_of_cards(log: ReviewLog, card: IntArray) -> IntArray:
    """Return the deck of each card; MISSING for deleted cards."""
    cards = log.cards
    if not len(cards.card_id):
        return np.full(len(card), MISSING)
    position = np.minimum(np.searchsorted(cards.card_id, card), len(cards.card_id) - 1)
    return np.where(cards.card_id[position] == card, cards.deck_id[position], MISSING)


def _stability_from_recall(days: IntArray, p: FloatArray, decay: float) -> FloatArray:
    """Return the days until recall falls to 90 %, from recall p after `days`, by FSRS-6's curve."""
    return days * np.expm1(-math.log(0.9) / decay) / np.expm1(-np.log(p) / decay)


def _parameters_by_unit(
    log: ReviewLog, partitions: str, result: Result
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield the parameters by name of the preset or deck; the name is "" for all reviews."""
    units = log.presets if partitions == "preset" else log.decks
    for unit_id, values in (result.parameters or {}).items():
        name = "" if partitions == "none" else _unit_name(units, unit_id, partitions)
        yield name, tuple(map(float, values))


def _unit_name(units: Mapping[int, Deck] | Mapping[int, Preset], unit_id: int, kind: str) -> str:
    return units[unit_id].name if unit_id in units else f"{kind} {unit_id}"


def _default_parameters(configuration: Configuration) -> tuple[float, ...]:
    """Return the model's default parameters; () if they are not a list."""
    model = configuration.model
    if not isinstance(model, TrainedModel):
        return ()
    values = model.default_parameters(configuration.protocol, Context())
    if isinstance(values, (list, tuple, np.ndarray)):
        return tuple(map(float, values))
    return ()
