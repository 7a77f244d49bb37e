"""Make reference vectors: cases by which other programs check their own FSRS-6 or FSRS-7.

`srs-eval models vectors MODEL` prints them, and docs/vectors.md says what each field means. All
figures come from the models of this package, in float64: states from the steps that training
uses, intervals from the forgetting curve, parameters from training. Nothing is drawn anew: the same
version gives the same bytes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from srs_eval.data.days import DAY_S
from srs_eval.data.errors import InputError
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import LEARNING, REVIEW, FloatArray, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.data.trials import prepare_trials
from srs_eval.engine.reference_learners import (
    AGAIN,
    EASY,
    GOOD,
    HARD,
    TimedReview,
    draw_normal,
    make_log,
    simulate_reference_learner,
)
from srs_eval.models import fsrs6, fsrs7
from srs_eval.training.hyperparameters import Context
from srs_eval.training.recurrent import RecurrentModel

VECTORS_FORMAT = 1
RETENTIONS = (0.7, 0.9, 0.97)  # desired ones, for which intervals are given
CASE_COUNT = 200
_HISTORIES = 80
_DEFAULT_HISTORIES = 20  # of these, with default parameters
_SAME_DAY_HISTORIES = 40
_LEARNERS = 20
_DIGITS = 10  # significant ones, of all figures
_RATING_SHARES = ((AGAIN, 0.2), (HARD, 0.15), (GOOD, 0.5), (EASY, 0.15))

_Review = tuple[int, float]
"""A rating, and the days since the card's previous review (0 for the first)."""


@dataclass(frozen=True)
class _ModelOfVectors:
    """What cases need to know of a model."""

    name: str
    recurrent: RecurrentModel
    lower: tuple[float, ...]
    state_names: tuple[str, ...]
    has_fractions: bool  # intervals in fractions of a day, not in whole days
    compute_intervals: Callable[[FloatArray, Sequence[float]], FloatArray]
    """Compute days until recall falls to RETENTIONS (n, 3) from states (n, states) and w."""
    train: Callable[[ReviewLog], list[float]]
    source: str
    training: str  # how parameters are trained, in words
    tolerance: dict[str, float]


def _compute_fsrs6_intervals(states: FloatArray, w: Sequence[float]) -> FloatArray:
    days = [fsrs6.compute_days_until(retention, w[20]) for retention in RETENTIONS]
    intervals: FloatArray = np.outer(states[:, 0], days)
    return intervals


def _compute_fsrs7_intervals(states: FloatArray, w: Sequence[float]) -> FloatArray:
    columns = [states[:, [column]] for column in range(states.shape[1])]
    return fsrs7.compute_days_until(RETENTIONS, columns, w)


def _train_fsrs6(log: ReviewLog) -> list[float]:
    protocol = Protocol(rows="anki", short=True)
    trials = prepare_trials(log, select_rows(log, "anki").rows, protocol)
    return fsrs6.fit_as_anki(trials, np.arange(len(trials)), Context())


def _train_fsrs7(log: ReviewLog) -> list[float]:
    protocol = Protocol(secs=True, short=True, recency=True)
    trials = prepare_trials(log, select_rows(log).rows, protocol)
    return fsrs7.fit(trials, np.arange(len(trials)), np.ones(len(trials)), Context())


def _find_model(name: str) -> _ModelOfVectors:
    """Return the model of a name. Raises InputError if there are no vectors of it."""
    if name == "FSRS-6":
        recurrent = fsrs6.make_recurrent(0.001, hard_shortens=False)
        lower = list(recurrent.lower)
        lower[19] = 0.01  # Anki's lower bound, so that no program has to change the parameters
        return _ModelOfVectors(
            name=name,
            recurrent=recurrent,
            lower=tuple(lower),
            state_names=("stability", "difficulty"),
            has_fractions=False,
            compute_intervals=_compute_fsrs6_intervals,
            train=_train_fsrs6,
            source="fsrs-optimizer 6.1.3; training: fsrs-rs 6.6",
            training="as Anki 26.08 trains: every review after at least a day is predicted, newer "
            "reviews weigh more, eight epochs",
            tolerance={"states": 1e-4, "intervals": 1e-4, "parameters": 1e-3},
        )
    if name == "FSRS-7":
        recurrent = fsrs7.make_recurrent(secs=True)
        return _ModelOfVectors(
            name=name,
            recurrent=recurrent,
            lower=recurrent.lower,
            state_names=("long_term_stability", "short_term_stability", "difficulty"),
            has_fractions=True,
            compute_intervals=_compute_fsrs7_intervals,
            train=_train_fsrs7,
            source="srs-benchmark models/fsrs_v7.py, commit bd9110f791e5",
            training="as srs-benchmark trains FSRS-7-short-secs-recency, on all reviews",
            tolerance={"states": 1e-4, "intervals": 1e-3, "parameters": 1e-3},
        )
    raise InputError(f"`models vectors` takes FSRS-6 or FSRS-7, not {name}.")


def build_reference_vectors(name: str) -> dict[str, Any]:
    """Return the document of FSRS-6's or FSRS-7's vectors, with 200 cases.

    Raises InputError for another model.
    """
    model = _find_model(name)
    cases = [
        *_make_histories(model),
        *_make_same_day_histories(model),
        *_make_clamped_histories(model),
        *_make_clock_changes(model),
        *_make_trainings(model),
    ]
    return {
        "format": VECTORS_FORMAT,
        "model": model.name,
        "source": model.source,
        "state": model.state_names,
        "intervals_in": "fractions of a day" if model.has_fractions else "whole days",
        "desired_retentions": RETENTIONS,
        "default_parameters": model.recurrent.default,
        "tolerance": model.tolerance,
        "training": model.training,
        "cases": cases,
    }


def _make_case(
    model: _ModelOfVectors, name: str, parameters: Sequence[float], reviews: Sequence[_Review]
) -> dict[str, Any]:
    """Return the case of one card: states and intervals after each review."""
    states = _compute_states(model, parameters, reviews)
    intervals = model.compute_intervals(np.array(states), parameters)
    return {
        "name": name,
        "parameters": list(parameters),
        "reviews": [[rating, days] for rating, days in reviews],
        "states": [_round_all(state) for state in states],
        "intervals": [_round_all(of_state) for of_state in intervals.tolist()],
    }


def _compute_states(
    model: _ModelOfVectors, parameters: Sequence[float], reviews: Sequence[_Review]
) -> list[tuple[float, ...]]:
    """Compute the state after each review."""
    recurrent = model.recurrent
    w = (*parameters, *recurrent.constants)
    state = recurrent.first(float(reviews[0][0]), w)
    states = [state]
    for rating, days in reviews[1:]:
        if recurrent.same_day is not None and days < 1.0:
            step = recurrent.same_day
        elif rating == AGAIN:
            step = recurrent.failure
        else:
            step = recurrent.success
        state = step(state, float(days), float(rating), w)
        states.append(state)
    return [tuple(float(value) for value in state) for state in states]


def _round_all(values: Sequence[float]) -> list[float]:
    """Round to significant digits, so that a processor's last bit does not show."""
    return [float(f"{value:.{_DIGITS}g}") for value in values]


# Cases of single cards


def _make_histories(model: _ModelOfVectors) -> Iterator[dict[str, Any]]:
    """Yield ordinary histories, the first ones with default parameters."""
    for number in range(1, _HISTORIES + 1):
        draws = random.Random(f"history {number}")
        parameters: Sequence[float] = model.recurrent.default
        if number > _DEFAULT_HISTORIES:
            parameters = _draw_parameters(model, draws)
        reviews = _draw_reviews(model, draws, count=2 + number % 9, same_day_share=0.15)
        yield _make_case(model, f"history {number}", parameters, reviews)


def _make_same_day_histories(model: _ModelOfVectors) -> Iterator[dict[str, Any]]:
    """Yield histories with reviews on the same day, first each pair of ratings."""
    step = 0.01 if model.has_fractions else 0.0
    for number in range(1, _SAME_DAY_HISTORIES + 1):
        draws = random.Random(f"same day {number}")
        parameters: Sequence[float] = model.recurrent.default
        if number <= 16:
            first, second = divmod(number - 1, 4)
            reviews = [(first + 1, 0.0), (second + 1, step), (GOOD, 3.0), (second + 1, step)]
        else:
            parameters = _draw_parameters(model, draws)
            reviews = _draw_reviews(model, draws, count=6, same_day_share=0.6)
        yield _make_case(model, f"same day {number}", parameters, reviews)


def _draw_parameters(model: _ModelOfVectors, draws: random.Random) -> list[float]:
    """Draw parameters near the defaults, rounded to four decimals and within their bounds."""
    recurrent = model.recurrent
    parameters = []
    for default, low, high in zip(recurrent.default, model.lower, recurrent.upper, strict=True):
        value = default * math.exp(0.3 * draw_normal(draws))
        if default == 0.0:
            value = 0.1 * high * draws.random()
        parameters.append(round(min(max(value, low), high), 4))
    return _put_in_order(model, parameters)


def _put_in_order(model: _ModelOfVectors, parameters: list[float]) -> list[float]:
    """Raise parameters that must not be below others (FSRS-7)."""
    for position, other in model.recurrent.not_below:
        parameters[position] = max(parameters[position], parameters[other])
    return parameters


def _draw_reviews(
    model: _ModelOfVectors, draws: random.Random, count: int, same_day_share: float
) -> list[_Review]:
    """Draw a card's reviews; intervals of later days are 1 to 300 days."""
    reviews = [(_draw_any_rating(draws), 0.0)]
    for _ in range(count - 1):
        is_same_day = draws.random() < same_day_share
        size = draws.random()
        if not is_same_day:
            days = math.exp(size * math.log(300.0))
        elif model.has_fractions:
            days = math.exp(-8.0 + 7.0 * size)  # half a minute to nine hours
        else:
            days = 0.0
        days = round(days, 5) if model.has_fractions else float(int(days))
        reviews.append((_draw_any_rating(draws), days))
    return reviews


def _draw_any_rating(draws: random.Random) -> int:
    rest = draws.random()
    for rating, share in _RATING_SHARES:
        rest -= share
        if rest < 0.0:
            return rating
    return GOOD


_SAME_DAY = 0.0
_CLAMPED: dict[str, tuple[_Review, ...]] = {
    "Again every day": ((AGAIN, 0.0), *([(AGAIN, 1.0)] * 7)),
    "Again on the same day": ((AGAIN, 0.0), *([(AGAIN, _SAME_DAY)] * 7)),
    "Easy for a century": (
        (EASY, 0.0),
        (EASY, 10.0),
        (EASY, 100.0),
        (EASY, 1000.0),
        (EASY, 10_000.0),
        (EASY, 36_500.0),
    ),
    "Easy on the same day": ((EASY, 0.0), *([(EASY, _SAME_DAY)] * 6)),
    "same day after years": (
        (GOOD, 0.0),
        (GOOD, 10.0),
        (GOOD, 1000.0),
        (GOOD, _SAME_DAY),
        (HARD, _SAME_DAY),
        (EASY, _SAME_DAY),
        (AGAIN, _SAME_DAY),
    ),
    "Hard on the same day": ((HARD, 0.0), *([(HARD, _SAME_DAY)] * 6)),
    "forgotten at once": (
        (GOOD, 0.0),
        (AGAIN, 1.0),
        (AGAIN, _SAME_DAY),
        (AGAIN, 1.0),
        (GOOD, _SAME_DAY),
    ),
    "forgotten after years": (
        (EASY, 0.0),
        (EASY, 30.0),
        (EASY, 365.0),
        (AGAIN, 3650.0),
        (AGAIN, 1.0),
        (GOOD, 2.0),
    ),
}
"""Reviews that lead to a limit of stability or difficulty."""


def _make_clamped_histories(model: _ModelOfVectors) -> Iterator[dict[str, Any]]:
    """Yield histories that meet limits, with parameters of which many are at their bounds."""
    recurrent = model.recurrent
    parameter_sets = {
        "defaults": recurrent.default,
        "lower bounds": model.lower,
        "upper bounds": recurrent.upper,
        "mixed bounds 1": _draw_bounds(model, random.Random("bounds 1")),
        "mixed bounds 2": _draw_bounds(model, random.Random("bounds 2")),
    }
    step = 0.001 if model.has_fractions else _SAME_DAY
    for parameters_name, parameters in parameter_sets.items():
        for reviews_name, pattern in _CLAMPED.items():
            reviews = [pattern[0]]
            for rating, days in pattern[1:]:
                reviews.append((rating, step if days == _SAME_DAY else days))
            name = f"clamp: {reviews_name}, {parameters_name}"
            yield _make_case(model, name, parameters, reviews)


def _draw_bounds(model: _ModelOfVectors, draws: random.Random) -> list[float]:
    """Draw for each parameter its lower bound, its default or its upper bound."""
    recurrent = model.recurrent
    parameters = []
    for values in zip(model.lower, recurrent.default, recurrent.upper, strict=True):
        parameters.append(float(values[int(3 * draws.random())]))
    return _put_in_order(model, parameters)


# Days over a change of clocks

_CLOCK_CHANGES = (  # time zone, date on which clocks change there (the last has no such dates)
    ("Europe/Berlin", "2024-03-31"),
    ("Europe/Berlin", "2024-10-27"),
    ("America/New_York", "2024-03-10"),
    ("America/New_York", "2024-11-03"),
    ("America/Los_Angeles", "2023-11-05"),
    ("Australia/Sydney", "2023-10-01"),
    ("Australia/Sydney", "2024-04-07"),
    ("Australia/Lord_Howe", "2023-10-01"),  # by half an hour
    ("Pacific/Auckland", "2024-04-07"),
    ("Asia/Kolkata", "2024-03-31"),
)
_ROLLOVERS = (4, 0)  # hours at which a day begins
_LOCAL_TIMES = (  # days from the change, time of day; before it also within an hour of rollovers
    (-2, "21:30:00"),
    (-1, "00:20:00"),
    (-1, "03:40:00"),
    (-1, "04:20:00"),
    (-1, "23:40:00"),
    (0, "04:30:00"),
    (0, "22:00:00"),
    (1, "03:30:00"),
    (8, "05:00:00"),
)


def _make_clock_changes(model: _ModelOfVectors) -> Iterator[dict[str, Any]]:
    """Yield histories with times; the days between reviews follow from them."""
    for time_zone, date in _CLOCK_CHANGES:
        for rollover in _ROLLOVERS:
            times = [_find_local_time(time_zone, date, *place) for place in _LOCAL_TIMES]
            days = _count_days(model, times, time_zone, rollover)
            reviews = [(GOOD, interval) for interval in days]
            name = f"days: {time_zone}, {date}, days begin at {rollover}:00"
            case = _make_case(model, name, model.recurrent.default, reviews)
            utc_times = [datetime.fromtimestamp(time, UTC) for time in times]
            yield {
                **case,
                "time_zone": time_zone,
                "day_begins_at_hour": rollover,
                "times": [f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in utc_times],
            }


def _find_local_time(time_zone: str, date: str, days: int, time_of_day: str) -> int:
    """Return the Unix time of a time of day, some days after a date."""
    local = datetime.fromisoformat(f"{date}T{time_of_day}") + timedelta(days=days)
    return int(local.replace(tzinfo=ZoneInfo(time_zone)).timestamp())


def _count_days(
    model: _ModelOfVectors, times: Sequence[int], time_zone: str, rollover: int
) -> list[float]:
    """Count the days from review to review of one card, 0 for its first."""
    reviews = [TimedReview(time, 1, GOOD, REVIEW) for time in times]
    reviews[0] = TimedReview(times[0], 1, GOOD, LEARNING)
    rows = select_rows(make_log(reviews, time_zone, rollover), "anki").rows
    if model.has_fractions:
        return _round_all([0.0, *(rows.elapsed_seconds[1:] / DAY_S).tolist()])
    return [0.0, *rows.elapsed_days[1:].astype(float).tolist()]


# Training


def _make_trainings(model: _ModelOfVectors) -> Iterator[dict[str, Any]]:
    """Yield the reviews of simulated learners, with the parameters trained on them."""
    for number in range(1, _LEARNERS + 1):
        log = make_log(simulate_reference_learner(number), "UTC", 4)
        rows = select_rows(log, "anki").rows
        days = np.maximum(rows.elapsed_days, 0).tolist()
        if model.has_fractions:
            days = _round_all((np.maximum(rows.elapsed_seconds, 0) / DAY_S).tolist())
        columns = (rows.card_id.tolist(), rows.rating.tolist(), days)
        yield {
            "name": f"training {number}",
            "cards_ratings_days": [list(review) for review in zip(*columns, strict=True)],
            "trained_parameters": [round(value, 6) for value in model.train(log)],
        }
