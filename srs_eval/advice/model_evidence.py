"""Where a model errs: recall against what it expected, by what is known before a review.

Every table is over the judged reviews of one result. "minus expected" is the share recalled
minus the mean prediction, with its 95 % interval over days (`comparison.mean_interval`): above
zero the model expects too little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from srs_eval.advice.tables import Cell, Table
from srs_eval.data.reviews import MISSING, Deck, FloatArray, IntArray, Preset, ReviewLog
from srs_eval.data.trials import Trials
from srs_eval.engine.session import Result, losses
from srs_eval.models import fsrs6
from srs_eval.models.configurations import Configuration
from srs_eval.stats.intervals import Interval, mean_interval
from srs_eval.training.hyperparameters import Context

COLUMNS = ("reviews", "recalled", "expected", "minus expected", "log loss")
_RATINGS = ("Again", "Hard", "Good", "Easy")
_DAYS = (1, 2, 4, 8, 15, 30, 60, 120, 240)
_REVIEWS = (1, 2, 3, 5, 8, 12, 20)
_LAPSES = (0, 1, 2, 3, 5, 8)
_STABILITIES = (0, 3, 10, 30, 100)  # days
_HOURS = (0, 4, 8, 12, 16, 20)
_MOST_DECKS = 12
_MOST_PARTITIONS = 12  # whose parameters are shown
_FEWEST = 30  # reviews; of fewer no interval is given
_HOUR_S = 3_600

# FSRS's parameters in words (open-spaced-repetition/fsrs4anki wiki: The Algorithm).
_FSRS_6 = (
    *(f"first stability after {rating}, days" for rating in _RATINGS),
    *("first difficulty", "first difficulty, by rating"),
    *("difficulty, change by rating", "difficulty, pull to the mean"),
    *("recalled: growth", "recalled: less growth with stability", "recalled: more growth if due"),
    *("forgotten: stability after", "forgotten: by difficulty", "forgotten: by stability"),
    *("forgotten: by retrievability", "Hard, factor of growth", "Easy, factor of growth"),
    *("same day: growth", "same day: shift of ratings", "same day: less growth with stability"),
    "decay of the forgetting curve",
)
_NAMES = {"FSRS-6": _FSRS_6, "FSRS-rs": _FSRS_6, "FSRS-5": _FSRS_6[:19]}


@dataclass(frozen=True)
class Curve:
    """Recall of some reviews over the days since the one before; k points, days ascending."""

    name: str
    days: tuple[float, ...]  # mean of the reviews of a point
    recalled: tuple[Interval, ...]
    expected: tuple[float, ...]  # mean prediction


@dataclass(frozen=True)
class Curves(Table):
    """A table whose figures can be drawn: the reviews of a curve are the rows with its name."""

    curves: tuple[Curve, ...] = ()


def model_evidence(
    log: ReviewLog, trials: Trials, configuration: Configuration, result: Result
) -> list[Table]:
    """Tables of errors by interval, reviews, lapses, hour and deck; `Curves`; parameters.

    `trials` are those that the result was judged on (`engine.Session.trials` of the
    configuration's protocol). What the source does not know (hours, decks) has no table.
    Raises ValueError where the two do not belong together.
    """
    index = trials.test_index
    if not np.array_equal(trials.review_th[index], result.review_th):
        raise ValueError(f"{configuration.name} was not judged on these trials")
    whole_days = trials.elapsed_days[index]
    before, lapses = trials.i[index] - 1, trials.bin_lapses[index]
    tables = [
        _by_steps("By days since the review before", "days", whole_days, _DAYS, result),
        _by_steps("By reviews of the card before", "before", before, _REVIEWS, result),
        _by_steps("By lapses of the card before", "lapses", lapses, _LAPSES, result),
        _by_hour(trials, index, result),
        _by_deck(log, trials, index, result),
        _by_first_rating(trials, index, result),
        _by_stability(trials, index, result),
        *_parameters(log, configuration, result),
    ]
    return [table for table in tables if table.rows]


def _figures(result: Result, chosen: IntArray) -> tuple[Cell, ...]:
    y, p = result.y[chosen], result.p[chosen]
    differs = mean_interval(y - p, result.day[chosen])
    if len(chosen) < _FEWEST:  # six passes of six vary too little to say how sure they are
        differs = replace(differs, half_width=math.nan)
    log_loss = float(losses(result)[chosen].mean())
    return len(chosen), float(y.mean()), float(p.mean()), differs, log_loss


def _grouped(
    title: str, column: str, groups: Iterable[tuple[str, IntArray]], result: Result
) -> Table:
    rows = [(name, *_figures(result, chosen)) for name, chosen in groups if len(chosen)]
    return Table(title, (column, *COLUMNS), tuple(rows))


def _by_steps(
    title: str, column: str, values: IntArray, steps: Sequence[int], result: Result
) -> Table:
    """By ranges that begin at `steps`; what lies below the first is in it."""
    place = np.maximum(np.searchsorted(steps, values, "right") - 1, 0)
    numbers = range(len(steps))
    groups = ((_range(steps, k, values), np.flatnonzero(place == k)) for k in numbers)
    return _grouped(title, column, groups, result)


def _range(steps: Sequence[int], number: int, values: IntArray) -> str:
    """ "5-8", "30 and more", "0" """
    first = steps[number] if number else min(steps[0], int(values.min()))
    if number == len(steps) - 1:
        return f"{first} and more"
    last = steps[number + 1] - 1
    return str(first) if first == last else f"{first}-{last}"


def _by_hour(trials: Trials, index: IntArray, result: Result) -> Table:
    """Since the learner's day began: at 4:00 by default, hour 0 is from 4 to 5 o'clock."""
    seconds = trials.history_time_of_day_s[trials.history_end[index]]
    title = "By hours since the day began"
    if (seconds == MISSING).any():
        return Table(title, ("hours", *COLUMNS), ())
    return _by_steps(title, "hours", seconds // _HOUR_S, _HOURS, result)


def _by_deck(log: ReviewLog, trials: Trials, index: IntArray, result: Result) -> Table:
    """The decks with the most judged reviews; reviews of deleted cards are in none."""
    cards = log.cards
    title = "By deck"
    if not len(cards.card_id):
        return Table(title, ("deck", *COLUMNS), ())
    card = trials.card_id[index]
    place = np.minimum(np.searchsorted(cards.card_id, card), len(cards.card_id) - 1)
    deck = np.where(cards.card_id[place] == card, cards.deck_id[place], MISSING)
    known, count = np.unique(deck[deck != MISSING], return_counts=True)
    largest = known[np.lexsort((known, -count))][:_MOST_DECKS].tolist()
    if len(known) > _MOST_DECKS:
        title += f", the {_MOST_DECKS} largest of {len(known)}"
    names = {each: log.decks[each].name if each in log.decks else f"deck {each}" for each in known}
    groups = ((names[each], np.flatnonzero(deck == each)) for each in largest)
    return _grouped(title, "deck", groups, result)


def _by_first_rating(trials: Trials, index: IntArray, result: Result) -> Curves:
    """Recall at a card's first review on a later day."""
    second = trials.i[index] == 2
    rating = np.where(second, trials.first_rating[index], MISSING)
    title = "Forgetting curves: the first review on a later day, by first rating"
    names = {number: _RATINGS[number - 1] for number in range(1, 5)}
    return _curves(title, "first rating", names, rating, trials.elapsed_days[index], result)


def _by_stability(trials: Trials, index: IntArray, result: Result) -> Curves:
    """By what FSRS-6's defaults take for the stability before a review: the same for all models."""
    days = trials.elapsed_days[index]
    p = fsrs6.predict(trials, list(fsrs6.DEFAULT), index, Context())
    stability = _stability(np.maximum(days, 1), p, fsrs6.DEFAULT[20])
    group = np.searchsorted(_STABILITIES, stability, "right") - 1
    names = {number: f"{low}-{high} d" for number, (low, high) in enumerate(pairwise(_STABILITIES))}
    names[len(_STABILITIES) - 1] = f"{_STABILITIES[-1]} d and more"
    title = "Forgetting curves by stability, as FSRS-6's defaults estimate it"
    return _curves(title, "stability", names, group, days, result)


def _stability(days: IntArray, p: FloatArray, decay: float) -> FloatArray:
    """Days until recall falls to 90 %, of who recalls p after some days: FSRS-6's curve, solved."""
    return days * np.expm1(-math.log(0.9) / decay) / np.expm1(-np.log(p) / decay)


def _curves(
    title: str,
    column: str,
    names: Mapping[int, str],
    group: IntArray,
    days: IntArray,
    result: Result,
) -> Curves:
    """A curve for each of the named groups of reviews (k,), with a point for each step of days."""
    place = np.maximum(np.searchsorted(_DAYS, days, "right") - 1, 0)
    rows: list[tuple[Cell, ...]] = []
    curves = []
    for number, name in names.items():
        drawn = []
        for step in range(len(_DAYS)):
            chosen = np.flatnonzero((group == number) & (place == step))
            if len(chosen):
                rows.append((name, _range(_DAYS, step, days), *_figures(result, chosen)))
            if len(chosen) >= _FEWEST:
                drawn.append(chosen)
        curves.append(
            Curve(
                name,
                tuple(float(days[each].mean()) for each in drawn),
                tuple(mean_interval(result.y[each], result.day[each]) for each in drawn),
                tuple(float(result.p[each].mean()) for each in drawn),
            )
        )
    found = tuple(curve for curve in curves if curve.days)
    return Curves(title, (column, "days", *COLUMNS), tuple(rows), found)


def _parameters(log: ReviewLog, configuration: Configuration, result: Result) -> list[Table]:
    """Beside the defaults: what the last fold's fit made of them, or what is stored in Anki.

    A table for each preset or deck with parameters of its own.
    """
    found = result.parameters or {}
    own = configuration.fit == "own"
    column = "in Anki" if own else "fitted"
    title = "Parameters stored in Anki" if own else "Parameters of the last fold"
    if not own:
        title += ", fitted to most of the reviews"
    partitions = "preset" if own else configuration.protocol.partitions
    tables = []
    for partition, values in list(found.items())[:_MOST_PARTITIONS]:
        name = _partition_name(log, partitions, partition)
        columns = ("parameter", "meaning", "default", column)
        rows = _beside_the_defaults(configuration, values)
        tables.append(Table(f"{title}: {name}" if name else title, columns, rows))
    if len(found) > _MOST_PARTITIONS:
        left_out = f"the first {_MOST_PARTITIONS} of {len(found)} {partitions}s"
        tables[-1] = replace(tables[-1], title=f"{tables[-1].title} ({left_out})")
    return tables


def _partition_name(log: ReviewLog, partitions: str, partition: int) -> str:
    """The preset's or deck's; "" where all reviews are one partition."""
    if partitions == "none":
        return ""
    known: Mapping[int, Deck | Preset] = log.presets if partitions == "preset" else log.decks
    return known[partition].name if partition in known else f"{partitions} {partition}"


def _beside_the_defaults(
    configuration: Configuration, values: Sequence[float]
) -> tuple[tuple[Cell, ...], ...]:
    model = configuration.model
    of_defaults = model.default
    if configuration.protocol.secs and model.default_secs is not None:
        of_defaults = model.default_secs
    usual = of_defaults(Context())
    listed = isinstance(usual, (list, tuple, np.ndarray)) and len(usual) >= len(values)
    names = _NAMES.get(model.name, ())
    return tuple(
        (
            f"w{number}",
            names[number] if number < len(names) else "",
            float(usual[number]) if listed else None,
            float(value),
        )
        for number, value in enumerate(values)
    )
