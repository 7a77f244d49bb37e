"""Compare recalled, desired and predicted shares over time, by month and by day.

The learner's daily state is assessed by comparing predictions of the same held-out reviews, made
before each answer: by FSRS-6, by STATE-FSRS-6, and by STATE-FSRS-6 without some of its features.
The benefit of a group of features is the log loss without it minus the log loss with it, with a
95 % interval over days. It shows that errors come together in time, not why. No scheduler could use
it, because none knows in advance how a day will go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner, can_evaluate_by_preset
from srs_eval.data.days import DAY_S
from srs_eval.data.protocol import EQUIVALENCE_MARGIN, Protocol
from srs_eval.data.reviews import FILTERED, MISSING, REVIEW, FloatArray, IntArray, ReviewLog
from srs_eval.data.rows import find_first_date
from srs_eval.data.trials import Trials
from srs_eval.engine.result import Result, review_losses
from srs_eval.engine.session import LearnerSession, mark_compiled
from srs_eval.metrics import log_losses
from srs_eval.models import fsrs6
from srs_eval.models.configurations import resolve_configurations
from srs_eval.models.state import (
    compute_features,
    load_prior,
    predict_base_logits,
    run_filters,
)
from srs_eval.stats import intervals
from srs_eval.stats.intervals import NORMAL_QUANTILE, Interval, Verdict
from srs_eval.stats.persistence import Persistence, estimate_persistence
from srs_eval.training.hyperparameters import Context
from srs_eval.training.state_features import FeatureGroup

_Side = Literal["below", "above", "no matter", "can't tell"]
_HARD = 2  # the button
_DAYS_OF_A_MONTH = 30  # if the source has no dates


def monthly_figures(result: Result, format_day: Callable[[int], str]) -> list[f.Month]:
    """Return a model's figures by month, in order; `format_day` is from `make_date_formatter`."""
    return _monthly_figures(result.day, result.y, result.p, review_losses(result), format_day)


def _monthly_figures(
    day: IntArray, y: FloatArray, p: FloatArray, loss: FloatArray, format_day: Callable[[int], str]
) -> list[f.Month]:
    days, day_index = np.unique(day, return_inverse=True)
    month_of_day = np.array([_month_name(format_day(number), number) for number in days.tolist()])
    months = []
    for name in dict.fromkeys(month_of_day.tolist()):
        in_month = (month_of_day == name)[day_index]
        recalled = intervals.mean_interval(y[in_month], day[in_month])
        log_loss = intervals.mean_interval(loss[in_month], day[in_month])
        months.append(f.Month(name, recalled, float(p[in_month].mean()), log_loss))
    return months


def make_date_formatter(log: ReviewLog, protocol: Protocol) -> Callable[[int], str]:
    """Return a function from a day number to its date, or to "day 12" if there are no dates."""
    first_date = find_first_date(log, protocol.rows)
    if first_date is None:
        return lambda day: f"day {day + 1}"
    return lambda day: (first_date + timedelta(day)).isoformat()


def _month_name(day_name: str, day: int) -> str:
    """Return the month of a day: "2024-10", or "days 31-60" without dates.

    `day_name` is the day's name by `make_date_formatter`, `day` its number.
    """
    if not day_name.startswith("day "):
        return day_name[:7]
    first_day = day // _DAYS_OF_A_MONTH * _DAYS_OF_A_MONTH
    return f"days {first_day + 1}-{first_day + _DAYS_OF_A_MONTH}"


_MIN_MONTH_REVIEWS = 100  # reviews from which a month can be compared with the months before
_NEGLIGIBLE_LOSS = 0.02
"""Difference in log loss that matters as little as one percentage point of recall: at 90 %, the log
loss of a true probability changes by ln 9 = 2.2 times the change in recall."""


def assess_predictability(learner: Learner) -> f.Finding:
    """Compare the log loss of the last month with the months before, on held-out reviews.

    FSRS-6 was fitted to earlier reviews only. The finding's subject is the month of the last
    review, as `_month_name` returns it.
    """
    index = learner.trials.test_index
    day = learner.trials.day[index]
    loss = learner.held_out_losses(f.OPTIMIZED)
    format_day = make_date_formatter(learner.log, learner.trials.protocol)
    months = _monthly_figures(
        day, learner.trials.y[index], learner.held_out_predictions(f.OPTIMIZED), loss, format_day
    )
    latest = months[-1]
    days = np.unique(day).tolist()
    first_day = next(
        number for number in days if _month_name(format_day(number), number) == latest.name
    )
    change: Interval | None = None
    missing: f.MissingData | None = None
    conclusion: _Side = f.CANT_TELL
    in_latest = day >= first_day
    is_earlier = day < first_day
    for selected in (in_latest, is_earlier):
        review_count = int(selected.sum())
        day_count = len(np.unique(day[selected]))
        is_little = review_count < _MIN_MONTH_REVIEWS or day_count < f.MIN_DAYS_SHOWN
        if missing is None and is_little:
            missing = f.count_missing_data(
                review_count, day_count, fewest=_MIN_MONTH_REVIEWS, fewest_days=f.MIN_DAYS_SHOWN
            )
    if missing is None:
        earlier = intervals.mean_interval(loss[is_earlier], day[is_earlier], learner.persistence)
        # A month is at least as uncertain as the same number of earlier reviews.
        like_earlier = earlier.half_width * math.sqrt(earlier.reviews / latest.log_loss.reviews)
        half_width = math.hypot(max(latest.log_loss.half_width, like_earlier), earlier.half_width)
        difference = latest.log_loss.estimate - earlier.estimate
        change = replace(latest.log_loss, estimate=difference, half_width=half_width, errors=())
        conclusion = _classify_difference(change, _NEGLIGIBLE_LOSS)
    return f.Finding(
        "time",
        latest.name,
        interval=change,
        reviews=latest.reviews,
        missing=missing,
        evidence=f.Months(
            conclusion, tuple(months), tells_recall=not can_evaluate_by_preset(learner.log)
        ),
    )


# The learner's day

STATE_MODEL = "STATE-FSRS-6"


@dataclass(frozen=True, eq=False)
class _StateEvaluation:
    """Losses and states on the held-out reviews (k,), in order."""

    trials: Trials
    index: IntArray
    features: FloatArray  # of all trials
    fsrs_losses: FloatArray  # losses of FSRS-6, nats
    state_losses: FloatArray  # losses of STATE-FSRS-6
    offset: FloatArray  # what the learner's state adds to the logit of recall
    offset_variance: FloatArray
    expected: FloatArray  # recall by FSRS-6

    @property
    def day(self) -> IntArray:
        return self.trials.day[self.index]

    @property
    def y(self) -> FloatArray:
        return self.trials.y[self.index]

    @cached_property
    def persistence(self) -> Persistence:
        """Persistence of good and bad spells beside what FSRS-6 predicts."""
        return estimate_persistence(self.y, self.expected, self.day)

    def losses_without(self, *groups: FeatureGroup) -> FloatArray:
        """Return the losses of STATE-FSRS-6 without some groups of features."""
        features = self.features.copy()
        for group in groups:
            features[:, slice(*group.columns)] = 0.0
        p = run_filters(features, self.trials.y, load_prior(STATE_MODEL)).p[self.index]
        return log_losses(self.y, p)


def _evaluate_state_model(log: ReviewLog, protocol: Protocol, context: Context) -> _StateEvaluation:
    (configuration,) = resolve_configurations(STATE_MODEL, protocol)
    trials = LearnerSession(log).trials(configuration.protocol)
    z = predict_base_logits(trials, fsrs6, context)
    features = compute_features(trials, [z])
    filtered = run_filters(features, trials.y, load_prior(STATE_MODEL))
    mark_compiled(configuration)  # all kernels of the model have run
    index = np.sort(trials.test_index)
    y = trials.y[index]
    expected = 1 / (1 + np.exp(-z[index]))
    return _StateEvaluation(
        trials=trials,
        index=index,
        features=features,
        fsrs_losses=log_losses(y, expected),
        state_losses=log_losses(y, filtered.p[index]),
        offset=filtered.offset[index],
        offset_variance=filtered.offset_variance[index],
        expected=expected,
    )


# Questions


def assess_learner_state(
    log: ReviewLog,
    protocol: Protocol | None = None,
    context: Context | None = None,
    equivalence: float = EQUIVALENCE_MARGIN,
) -> list[f.Finding]:
    """Assess how much of the prediction error is due to the learner's day. Raises NotEnoughData."""
    protocol = protocol or Protocol()
    evaluated = _evaluate_state_model(log, protocol, context or Context())

    def assess(question: str, subject: str, *groups: FeatureGroup) -> f.Finding:
        return _assess_features(evaluated, equivalence, question, subject, *groups)

    hour = FeatureGroup.HOUR
    session = FeatureGroup.SESSION
    return [
        assess("day", "your reviews", FeatureGroup.STATE, session, hour),
        _assess_last_day(_daily_states(evaluated, make_date_formatter(log, protocol))),
        assess("hour", "Time of day", hour),
        assess("session", "The length of a session", session),
    ]


def _assess_features(
    evaluated: _StateEvaluation,
    equivalence: float,
    question: str,
    subject: str,
    *groups: FeatureGroup,
) -> f.Finding:
    """Assess whether groups of features make a difference for this learner."""
    if question == "hour" and (evaluated.trials.history_time_of_day_s == MISSING).all():
        return f.Finding(question, subject, evidence=f.DayEffect("unknown"))
    benefit = evaluated.losses_without(*groups) - evaluated.state_losses
    difference = intervals.mean_interval(-benefit, evaluated.day, evaluated.persistence)
    conclusion = _EFFECTS[intervals.decide_verdict(difference, equivalence=equivalence)]
    worth = intervals.ratio_interval(
        benefit, evaluated.fsrs_losses, evaluated.day, evaluated.persistence
    )
    missing = None
    if conclusion == f.CANT_TELL:
        missing = f.estimate_missing_data(difference, equivalence)
    return f.Finding(
        question,
        subject,
        interval=difference,
        reviews=difference.reviews,
        missing=missing,
        evidence=f.DayEffect(conclusion, worth),
    )


_EFFECTS: Mapping[
    Verdict, Literal["matters", "hardly matters", "does not matter", "can't tell"]
] = {
    "better": "matters",
    "as good": "hardly matters",
    "worse": "does not matter",
    "can't tell yet": f.CANT_TELL,
}


def _daily_states(
    evaluated: _StateEvaluation, format_day: Callable[[int], str]
) -> list[f.DayState]:
    """Return each day's state: its mean offset minus that of all reviews, with a 95 % band."""
    usual = float(evaluated.offset.mean())
    states = []
    for day in np.unique(evaluated.day).tolist():
        on_day = evaluated.day == day
        variance = max(float(evaluated.offset_variance[on_day].mean()), 0.0)
        band = NORMAL_QUANTILE * math.sqrt(variance)
        offset = float(evaluated.offset[on_day].mean()) - usual
        state = f.DayState(
            name=format_day(day),
            recalled=float(evaluated.y[on_day].mean()),
            expected=float(evaluated.expected[on_day].mean()),
            state=Interval(offset, band, int(on_day.sum()), 1),
        )
        states.append(state)
    return states


def _assess_last_day(days: Sequence[f.DayState]) -> f.Finding:
    last = days[-1].state
    first = len(days) - 1  # of the last days, all with the same sign
    while first > 0 and (days[first - 1].state.estimate < 0) == (last.estimate < 0):
        first -= 1
    conclusion: Literal["as usual", "more forgotten", "less forgotten"] = "as usual"
    if not last.low <= 0 <= last.high:
        conclusion = "more forgotten" if last.estimate < 0 else "less forgotten"
    evidence = f.DayStates(conclusion, since=days[first].name, days=tuple(days))
    return f.Finding("today", "your last day", reviews=last.reviews, evidence=evidence)


# Retention compared with the desired retention and with FSRS's predictions

RETENTION_TOLERANCE = 0.03
"""Gap of three percentage points up to which recall counts as desired: such a gap is not a reason
to set another retention in Anki."""
_MATURE_DAYS = 21  # Anki's border between young and mature cards
_MONTHS_SHOWN = 12  # the latest are shown
_DEFAULT_RETENTION = 0.9  # Anki's default desired retention
_BIN_EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.88, 0.92, 0.96, 1.0)
_MIN_BIN_REVIEWS = 100


def assess_retention(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding on retention for each preset, over all its reviews of later days."""
    p_done = learner.active_predictions
    p_due = learner.predict_on_due_days()
    for group in groups:
        yield _assess_preset_retention(learner, group, p_done, p_due)


def _assess_preset_retention(
    learner: Learner, group: int, p_done: FloatArray, p_due: FloatArray | None
) -> f.Finding:
    """Return the finding on one preset.

    `p_done` and `p_due` are all reviews' probabilities (n,) when they were done and when they were
    due.
    """
    preset = learner.log.presets.get(group)
    desired = None
    if preset is not None and not learner.is_fsrs_off:
        desired = preset.desired_retention
    in_preset = learner.trials.partition == group
    groups = []
    for name, mask in _split_reviews(learner, in_preset).items():
        if mask.any():
            groups.append(_make_recall_group(learner, name, np.flatnonzero(mask), p_done))
    index = np.flatnonzero(in_preset)
    y = learner.trials.y
    recalled = learner.interval(y[index], index)
    groups[0] = replace(groups[0], recalled=recalled)  # "all" has bounds even for few days
    gap = replace(recalled, estimate=recalled.estimate - (desired or 0.0))  # if any is desired
    conclusion: Literal["below", "above", "no matter", "can't tell", "not asked for"]
    missing = None
    if desired is None:
        conclusion = "not asked for"
    elif intervals.has_enough_data(recalled):
        conclusion = _classify_difference(gap)
    else:
        conclusion = f.CANT_TELL
    if conclusion == f.CANT_TELL:
        missing = f.estimate_missing_data(gap, RETENTION_TOLERANCE)
    shortest_gap = None
    schedule_gap = None
    timing_gap = None
    if p_due is not None:
        timing_gap = learner.interval(p_done[index] - p_due[index], index)
        if desired is not None:
            missing_on_due_day = p_due[index] - desired
            missing_after_a_day = np.where(
                learner.is_due_after_a_day[index], np.minimum(missing_on_due_day, 0.0), 0.0
            )
            shortest_gap = learner.interval(missing_after_a_day, index)
            schedule_gap = learner.interval(missing_on_due_day - missing_after_a_day, index)
    evidence = f.Retention(
        conclusion=conclusion,
        groups=tuple(groups),
        desired=desired,
        fsrs_is_off=learner.is_fsrs_off,
        expectation_gap=learner.interval(y[index] - p_done[index], index),
        shortest_gap=shortest_gap,
        schedule_gap=schedule_gap,
        timing_gap=timing_gap,
        true_retention=_compute_true_retention(learner.log, group),
        hard_share=_measure_hard_share(learner, index),
    )
    if conclusion in ("below", "above"):
        evidence = replace(evidence, parts=f.find_retention_parts([evidence], conclusion))
    return f.Finding(
        "retention",
        learner.group_name(group),
        reviews=len(index),
        missing=missing,
        evidence=evidence,
    )


def _measure_hard_share(learner: Learner, index: IntArray) -> float:
    """Return the share of Hard among the answers to the reviews at the positions."""
    trials = learner.trials
    return float((trials.history_rating[trials.history_end[index]] == _HARD).mean())


def _compute_true_retention(log: ReviewLog, group: int) -> float | None:
    """Compute what Anki's statistics call True Retention, for a preset over all time.

    It is the share not answered with Again among reviews of cards with an interval of a day or
    more. A card may have several of these on one day.
    Source: ankitects/anki, rslib/src/stats/graphs/retention.rs.
    """
    entries = log.entries
    if entries is None or entries.interval is None:
        return None
    is_cramming = (entries.kind == FILTERED) & (entries.factor == 0)
    is_counted = (entries.rating >= 1) & (entries.rating <= 4) & ~is_cramming
    has_interval_of_days = (entries.interval >= 1) | (entries.interval <= -DAY_S)
    is_counted &= (entries.kind == REVIEW) | has_interval_of_days
    is_counted &= log.preset_of(log.deck_of(entries.card_id)) == group
    if not is_counted.any():
        return None
    return float((entries.rating[is_counted] > 1).mean())


def _classify_difference(difference: Interval, margin: float = RETENTION_TOLERANCE) -> _Side:
    side = intervals.classify_side(difference, margin)
    return f.CANT_TELL if side == "open" else side


def _make_recall_group(
    learner: Learner, name: str, index: IntArray, p: FloatArray
) -> f.RecallGroup:
    recalled = learner.interval(learner.trials.y[index], index, f.MIN_DAYS_SHOWN)
    return f.RecallGroup(name, recalled, float(p[index].mean()))


def _split_reviews(learner: Learner, in_preset: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """Return masks of a preset's reviews: all, young, mature, the last 90 days, and months."""
    assert learner.log.entries is not None
    interval = learner.trials.elapsed_days
    if learner.log.entries.interval is not None:  # as scheduled, which is what Anki means
        interval = learner.log.entries.interval[learner.entry_index]
    is_mature = interval >= _MATURE_DAYS
    masks = {
        "all": in_preset,
        "young cards": in_preset & ~is_mature,
        "mature cards": in_preset & is_mature,
    }
    entries = learner.log.entries
    last_s = entries.time_ms[entries.rating > 0].max() / 1000  # also of reviews that are not here
    begin_s = last_s - 90 * 86_400
    if learner.time_s.min() < begin_s:
        masks[f.LAST_90_DAYS] = in_preset & (learner.time_s >= begin_s)
    month = month_names(learner.time_s)
    for name in np.unique(month[in_preset]).tolist()[-_MONTHS_SHOWN:]:
        masks[name] = in_preset & (month == name)
    return masks


def month_names(time_s: FloatArray) -> NDArray[np.str_]:
    """Return the month of each moment (Unix seconds, UTC), such as "2024-10"."""
    return time_s.astype("datetime64[s]").astype("datetime64[M]").astype(str)


# Calibration: when Anki says 90 %, does the learner recall 90 %?


def assess_calibration(learner: Learner) -> f.Finding:
    """Compare recall with the active parameters' predictions, over all reviews of later days."""
    p = learner.active_predictions
    bins = []
    for low, high in pairwise(_BIN_EDGES):
        in_bin = (p >= low) & ((p < high) | (high == 1.0))  # the last bin includes 1
        index: IntArray = np.flatnonzero(in_bin)
        if len(index):
            name = f"{100 * low:.0f}–{100 * high:.0f} %"
            bins.append(_make_recall_group(learner, name, index, p))
    large_bins = [group for group in bins if _has_enough_reviews(group.recalled)]
    nearest = min(
        large_bins, key=lambda group: abs(group.expected - _DEFAULT_RETENTION), default=None
    )
    conclusion: _Side = f.CANT_TELL
    missing = None
    if nearest is None:
        largest = max((group.recalled for group in bins), key=lambda recalled: recalled.reviews)
        missing = f.count_missing_data(largest.reviews, largest.days, fewest=_MIN_BIN_REVIEWS)
    else:
        bias = nearest.recalled.estimate - nearest.expected
        conclusion = _classify_difference(replace(nearest.recalled, estimate=bias))
    overall = _make_recall_group(learner, "all", np.arange(len(p)), p)
    evidence = f.Calibration(conclusion, nearest, overall, tuple(bins), learner.is_fsrs_off)
    return f.Finding("says", f.ALL_PRESETS, reviews=len(p), missing=missing, evidence=evidence)


def _has_enough_reviews(recalled: Interval) -> bool:
    return recalled.reviews >= _MIN_BIN_REVIEWS and recalled.days >= intervals.MIN_DAYS
