"""Measure whether a model's predictions could schedule: the second axis beside log loss.

A scheduler asks a model for the day on which recall falls to the desired retention, once for each
button. So the model is asked here for forgetting curves after every possible next answer to a
learner's own histories (`compute_curves`), and the curves are searched for what no scheduler can
use (`find_faults`): a longer interval after a worse answer, recall that rises with time, and a
retention that is never reached. docs/schedulability.md has the definitions and their sources.

A history is one review of a card with all that came before it on the card. Its answer is replaced
by each of the four buttons, and the card is then asked for at rising times. Models are asked by
`TrainedModel.predict`, as for any held-out review: each answer to each history is a card of its
own in a made-up collection (`made_up_cards`), whose last review comes at the time in question. So
the users' own models are measured as well. Curves are those of the last fold's parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np

from srs_eval.data.days import DAY_S
from srs_eval.data.errors import NotEnoughData, require
from srs_eval.data.memory import require_memory
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.engine.failures import describe_failure
from srs_eval.engine.made_up_cards import ANSWERS, ask_after_answers
from srs_eval.engine.result import Result
from srs_eval.engine.session import LearnerSession
from srs_eval.models import Ensemble, TrainedModel
from srs_eval.models.configurations import Configuration
from srs_eval.models.held_out import HeldOutTask, LastFit, fit_last_fold
from srs_eval.models.own_parameters import find_active_parameters, model_name
from srs_eval.training.hyperparameters import Cancelled, Context

DESIRED_RETENTIONS = (0.7, 0.9, 0.97)
"""The ends of the range that Anki's deck options offer without a warning, and its default."""
MAX_HISTORIES = 10_000
MINUTE = 60 / DAY_S  # days
LONGEST_DAYS = 1_000_000.0
"""A retention that is not reached within so many days (some 2,700 years) is never reached."""
GROWTH_LIMIT = 5.0  # an interval so many times the last one is long
MIN_GROWTH_DAYS = 1.0  # shorter intervals are steps, which may grow by any factor
_TIME_FACTOR = 2.0  # between two times at which a curve is asked
_INVERSION_TOLERANCE = 1.05  # intervals that differ by less than this factor count as equal
_RISE_TOLERANCE = 0.001  # smaller rises of recall do not matter
_LONGEST_INTERVAL = 36_500.0  # days, the longest that Anki allows
_FLAT_TOLERANCE = 1e-6  # recall that changes by less does not depend on time


FEW_HISTORIES = 1_000
"""Histories for a first answer: shares are then uncertain by 3 percentage points at most."""
_QUICK_SECONDS_PER_10K = 0.25  # expected time of models that are quick to ask
_QUICK_SECONDS = 2.0  # in which a user's own model was fitted and predicted, if it is quick


class Obstacle(Enum):
    """Reason why a model cannot be asked for curves."""

    ONLINE = "online"
    """It learns from each answer, so its prediction for a day depends on the answers until then."""
    EXTERNAL = "external"
    """Its predictions were computed elsewhere."""


def find_obstacle(configuration: Configuration) -> Obstacle | None:
    """Return why the configuration cannot be asked for curves; None if it can."""
    model = configuration.model
    if isinstance(model, TrainedModel | Ensemble) or configuration.is_baseline:
        return None
    return Obstacle.ONLINE if configuration.is_online else Obstacle.EXTERNAL


def is_quick(configuration: Configuration, result: Result) -> bool:
    """Return whether asking a configuration about FEW_HISTORIES takes a fraction of a second."""
    if configuration.model.file is None:
        return configuration.expected_seconds_per_10k <= _QUICK_SECONDS_PER_10K
    return result.seconds <= _QUICK_SECONDS  # the time of a user's model is known by trying only


@dataclass(frozen=True)
class RetentionFaults:
    """Shares of histories (0-1) with a fault at one desired retention."""

    desired_retention: float
    inverted: float
    """A worse answer has a longer interval, for at least one of the three pairs that follow."""
    again_above_hard: float
    hard_above_good: float
    good_above_easy: float
    never_reached: float
    """Recall after some answer never falls to the retention."""
    reached_twice: float
    """Recall after some answer falls to the retention and later rises above it again."""
    unschedulable: float
    """Share of histories that are inverted, never reached or reached twice."""
    under_a_minute: float | None
    """Recall after some answer is lower already after a minute; None with whole days."""
    under_a_minute_after_pass: float | None
    """Recall after Hard, Good or Easy is lower already after a minute; None with whole days."""
    above_five_times: float | None
    """The interval after Good is more than five times the last one, among the histories whose last
    interval is at least a day; None without any."""


@dataclass(frozen=True)
class Schedulability:
    """How often a model's curves could not schedule a learner's cards; shares are 0-1."""

    configuration: str
    histories: int
    """Number of histories, each with four possible answers."""
    retentions: tuple[RetentionFaults, ...]
    rising: float
    """Share of histories with a curve that rises within 100 years."""
    flat: float
    """Share of histories with a curve that does not depend on time."""
    in_whole_days: bool
    """Whether the model knows whole days only: then no interval is shorter than a day."""


def measure_schedulability(
    session: LearnerSession,
    configuration: Configuration,
    context: Context | None = None,
    *,
    desired_retentions: Sequence[float] = DESIRED_RETENTIONS,
    max_histories: int = MAX_HISTORIES,
    results: Mapping[str, Result] = MappingProxyType({}),
) -> Schedulability:
    """Ask a configuration for curves after every answer to a learner's histories.

    Histories are taken evenly over time if there are more than `max_histories`. `results` of
    configurations on this learner, by name, save fitting their last folds again if they list the
    parameters.

    Raises:
        ValueError: The model cannot be asked for curves (`find_obstacle`).
        NotEnoughData: There is too little to fit it, or no review that all members know.
        NotInstalled: Something that it needs is missing.
        ArithmeticError: A prediction is not a probability.
    """
    if find_obstacle(configuration) is not None:
        raise ValueError(f"{configuration.name} cannot be asked for forgetting curves")
    context = context or Context()
    protocol = configuration.protocol
    days = list_times(protocol)
    review_th = _choose_histories(session, configuration, max_histories)
    recall = compute_curves(session, configuration, context, review_th, days, results)
    if not ((recall >= 0) & (recall <= 1)).all():  # false for NaN
        raise ArithmeticError(f"{configuration.name} predicted something that is not a probability")
    last_interval = _find_last_intervals(session.trials(protocol), review_th)
    return find_faults(
        recall,
        days,
        last_interval,
        configuration=configuration.name,
        desired_retentions=desired_retentions,
    )


@dataclass(frozen=True)
class Measurement:
    """The schedulability of a configuration, or why there is none."""

    configuration: Configuration
    schedulability: Schedulability | None = None
    obstacle: Obstacle | None = None
    failure: str = ""
    """Reason why asking the model failed; "" if nothing failed, or if there is an obstacle."""


def measure_configurations(
    session: LearnerSession,
    configurations: Iterable[Configuration],
    context: Context | None = None,
    *,
    desired_retentions: Sequence[float] = DESIRED_RETENTIONS,
    max_histories: int = MAX_HISTORIES,
    results: Mapping[str, Result] = MappingProxyType({}),
) -> Iterator[Measurement]:
    """Measure one configuration after the other, and go on where one fails.

    `results` save fits as in `measure_schedulability`.
    """
    for configuration in configurations:
        obstacle = find_obstacle(configuration)
        if obstacle is not None:
            yield Measurement(configuration, obstacle=obstacle)
            continue
        try:
            schedulability = measure_schedulability(
                session,
                configuration,
                context,
                desired_retentions=desired_retentions,
                max_histories=max_histories,
                results=results,
            )
        except Cancelled:
            raise
        except Exception as error:
            yield Measurement(configuration, failure=describe_failure(error)[0])
            continue
        yield Measurement(configuration, schedulability)


# Curves


def list_times(protocol: Protocol) -> FloatArray:
    """Return the days after an answer at which recall is asked (t,), each twice the one before.

    They begin at a minute, or at a day where intervals are whole days.
    """
    shortest = 1.0 if _knows_whole_days(protocol) else MINUTE
    count = int(np.ceil(np.log(LONGEST_DAYS / shortest) / np.log(_TIME_FACTOR))) + 1
    return np.array([shortest * _TIME_FACTOR**step for step in range(count)])


def _knows_whole_days(protocol: Protocol) -> bool:
    return not protocol.secs or protocol.clock == "days"


def compute_curves(
    session: LearnerSession,
    configuration: Configuration,
    context: Context,
    review_th: IntArray,
    days: FloatArray,
    results: Mapping[str, Result] = MappingProxyType({}),
) -> FloatArray:
    """Return the recall `days` (t,) after each answer to the reviews `review_th` (k,): (k, 4, t).

    `review_th` are numbers of reviews as in `Trials.history_review_th`. `results` are used as in
    `measure_schedulability`. Raises the same exceptions as that.
    """
    model = configuration.model
    require(model.needs_on(context.device), model.name)
    require_memory(model.needs_on(context.device))
    if isinstance(model, Ensemble):
        curves = [
            compute_curves(session, member, context, review_th, days, results).ravel()
            for member in configuration.member_configurations
        ]
        with model.isolate_settings():
            combined = model.combine(curves)
        return combined.reshape(len(review_th), len(ANSWERS), len(days))
    trials = session.trials(configuration.protocol)
    if configuration.is_baseline:
        average = float(trials.y[trials.folds[-1].train].mean())
        return np.full((len(review_th), len(ANSWERS), len(days)), average)
    assert isinstance(model, TrainedModel)
    if model.recall_after_answers is not None:
        return model.recall_after_answers(trials, review_th, days, context)
    fit = _find_fit(configuration, model, trials, context, results.get(configuration.name))
    rows = _find_history_rows(trials, review_th)
    return ask_after_answers(fit, trials, rows, days)


def _find_fit(
    configuration: Configuration,
    model: TrainedModel,
    trials: Trials,
    context: Context,
    result: Result | None,
) -> LastFit:
    """Return the parameters of the last fold, or those of the learner's presets."""
    parameters: Mapping[int, Any] | None = None
    if configuration.fit == "own":
        assert trials.log is not None
        parameters = find_active_parameters(trials.log)
        if any(model_name(values) != model.name for values in parameters.values()):
            raise NotEnoughData("the presets run two versions of FSRS")
    elif result is not None and model.file is None:
        # A user's model may need the object that its fit returned, not the list of its numbers.
        parameters = result.parameters
    return fit_last_fold(model, HeldOutTask(configuration, trials, context), parameters)


def _choose_histories(
    session: LearnerSession, configuration: Configuration, max_histories: int
) -> IntArray:
    """Return the numbers of reviews that all members of the configuration know, evenly over time.

    Models that leave same-day reviews out do not know these.
    """
    known = np.sort(session.trials(configuration.protocol).history_review_th)
    for member in configuration.member_configurations:
        known = np.intersect1d(known, session.trials(member.protocol).history_review_th)
    if len(known) > max_histories:
        known = known[np.arange(max_histories) * len(known) // max_histories]
    if not len(known):
        raise NotEnoughData("no review is known to all of its members")
    return known


def _find_history_rows(trials: Trials, review_th: IntArray) -> IntArray:
    """Return the history rows of the reviews (k,)."""
    order = np.argsort(trials.history_review_th)
    rows: IntArray = order[np.searchsorted(trials.history_review_th[order], review_th)]
    return rows


def _find_last_intervals(trials: Trials, review_th: IntArray) -> FloatArray:
    """Return the days between each review and the one before it (k,); 0 for a first review."""
    intervals: FloatArray = trials.history_delta_t[_find_history_rows(trials, review_th)]
    return intervals


# Faults


def find_faults(
    recall: FloatArray,
    days: FloatArray,
    last_interval: FloatArray,
    *,
    configuration: str = "",
    desired_retentions: Sequence[float] = DESIRED_RETENTIONS,
) -> Schedulability:
    """Count the histories whose curves have faults.

    `recall` (k, 4, t) is the recall at the times `days` (t,) after each answer, `last_interval`
    (k,) the days before the review that was answered.
    """
    possible = recall[:, :, days <= _LONGEST_INTERVAL]
    rise = possible - np.minimum.accumulate(possible, axis=2)
    is_rising = (rise > _RISE_TOLERANCE).any(axis=(1, 2))
    is_flat = (np.ptp(recall, axis=2) < _FLAT_TOLERANCE).any(axis=1)
    in_whole_days = bool(days[0] >= 1.0)
    has_grown_up = last_interval >= MIN_GROWTH_DAYS
    faults = []
    for retention in desired_retentions:
        interval = compute_intervals(recall, days, retention)
        shorter = interval[:, :-1]
        longer = interval[:, 1:]
        inverted_pairs = shorter > longer * _INVERSION_TOLERANCE
        # A flat curve below the retention does not fall to it either.
        is_never_reached = np.isinf(interval).any(axis=1) | is_flat
        is_inverted = inverted_pairs.any(axis=1)
        was_reached = np.logical_or.accumulate(possible <= retention, axis=2)
        is_above_again = was_reached & (possible > retention + _RISE_TOLERANCE)
        is_reached_twice = is_above_again.any(axis=(1, 2))
        is_unschedulable = is_inverted | is_never_reached | is_reached_twice
        again_above_hard, hard_above_good, good_above_easy = inverted_pairs.mean(axis=0).tolist()
        under_a_minute = None
        under_a_minute_after_pass = None
        if not in_whole_days:
            is_under_a_minute = recall[:, :, 0] < retention
            under_a_minute = float(is_under_a_minute.any(axis=1).mean())
            under_a_minute_after_pass = float(is_under_a_minute[:, 1:].any(axis=1).mean())
        above_five_times = None
        if has_grown_up.any():
            after_good = interval[has_grown_up, ANSWERS.index(3)]
            is_above = after_good > GROWTH_LIMIT * last_interval[has_grown_up]
            above_five_times = float(is_above.mean())
        faults.append(
            RetentionFaults(
                desired_retention=retention,
                inverted=float(is_inverted.mean()),
                again_above_hard=again_above_hard,
                hard_above_good=hard_above_good,
                good_above_easy=good_above_easy,
                never_reached=float(is_never_reached.mean()),
                reached_twice=float(is_reached_twice.mean()),
                unschedulable=float(is_unschedulable.mean()),
                under_a_minute=under_a_minute,
                under_a_minute_after_pass=under_a_minute_after_pass,
                above_five_times=above_five_times,
            )
        )
    return Schedulability(
        configuration=configuration,
        histories=len(recall),
        retentions=tuple(faults),
        rising=float(is_rising.mean()),
        flat=float(is_flat.mean()),
        in_whole_days=in_whole_days,
    )


def compute_intervals(recall: FloatArray, days: FloatArray, retention: float) -> FloatArray:
    """Return the days until recall first falls to a retention (...), for curves (..., t).

    The first of the `days` (t,) stands for any shorter interval, infinity for a retention that is
    not reached. Between two of them, ln(-ln recall) is linear in ln(days), as for an exponential
    curve; for FSRS-6's curves, the days are then right within 2 %. Of two curves, the one that is
    higher throughout never has the shorter interval.
    """
    is_reached = recall <= retention
    after = is_reached.argmax(axis=-1)  # position of the first time after the crossing
    before = np.maximum(after - 1, 0)
    safe_recall = np.clip(recall, 1e-12, 1 - 1e-12)
    height = np.log(-np.log(safe_recall))
    height_before = np.take_along_axis(height, before[..., None], -1)[..., 0]
    height_after = np.take_along_axis(height, after[..., None], -1)[..., 0]
    rise = height_after - height_before
    target = np.log(-np.log(retention))
    # Where the first time is already after the crossing, there is none before it to divide by.
    share = np.divide(target - height_before, rise, out=np.zeros_like(rise), where=after > 0)
    log_days = np.log(days)
    log_interval = log_days[before] + share * (log_days[after] - log_days[before])
    interval = np.exp(log_interval)
    return np.where(is_reached.any(axis=-1), interval, np.inf)
