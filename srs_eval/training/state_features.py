"""Features of a learner's last answers that predict the next one, for models that learn online.

All data are known before the answer that they describe: outcomes of all cards, the first and
same-day ones too, answer times, intervals, time of day. r = y - p is the residual of the base
model's prediction p = 1 / (1 + e^-z), h = p (1 - p) its variance. A *Newton offset* of some
reviews is sum r / (sum h + 1): roughly the shift of the logit that would have fitted them best,
shrunk towards 0. A *running offset* follows
x <- (1 - rate decay) x + rate (y - 1 / (1 + e^-(z + x))).
Every feature is about 1 in size, and bounded unless it grows like a logarithm.

Card ids serve to tell cards apart, never as numbers, which would reveal cards not yet seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials


class StateFeature(IntEnum):
    """Number of each feature's column; the label has its group and its name.

    The columns are in this order. `models/state.json` names the features by label.
    """

    label: str

    def __new__(cls, label: str) -> StateFeature:
        """Set the number of the feature: features are numbered in the order below."""
        column = len(cls.__members__)
        feature = int.__new__(cls, column)
        feature._value_ = column
        feature.label = label
        return feature

    # The base model's prediction
    LOGIT = "base: logit"
    INTERCEPT = "base: intercept"

    # How the learner has been doing, whatever the card
    RESIDUALS_1_5 = "state: residuals, half-life 1.5"
    RESIDUALS_5 = "state: residuals, half-life 5"
    RESIDUALS_20 = "state: residuals, half-life 20"
    RESIDUALS_80 = "state: residuals, half-life 80"
    RESIDUALS_400 = "state: residuals, half-life 400"
    ALL_OUTCOMES_SLOW = "state: all outcomes, slow"
    ALL_OUTCOMES_FAST = "state: all outcomes, fast"
    OFFSET_0_02 = "state: running offset, rate 0.02"
    OFFSET_0_06 = "state: running offset, rate 0.06"
    OFFSET_0_2 = "state: running offset, rate 0.2"
    OFFSET_0_5 = "state: running offset, rate 0.5"
    OFFSET_ON_NEW_DAY = "state: running offset, fresh on a new day"
    TODAY = "state: today"
    TODAY_TIMES_LOGIT = "state: today x logit"
    LAST_ACTIVE_DAY = "state: last active day"
    DAYS_0_5 = "state: days, decay 0.5"
    DAYS_0_8 = "state: days, decay 0.8"
    DAYS_0_95 = "state: days, decay 0.95"
    CARDS_LAST_SEEN_THAT_DAY = "state: cards last seen that day"
    CARDS_FIRST_SEEN_THAT_DAY = "state: cards first seen that day"
    RUN_OF_SUCCESSES = "state: run of successes"
    RUN_OF_FAILURES = "state: run of failures"
    SHARE_OF_AGAIN_TODAY = "state: share of Again today"
    FIRST_REVIEWS_FAST = "state: first reviews, fast"
    FIRST_REVIEWS_SLOW = "state: first reviews, slow"
    SAME_DAY_REVIEWS_FAST = "state: same-day reviews, fast"
    SAME_DAY_REVIEWS_SLOW = "state: same-day reviews, slow"
    SHARE_OF_HARD = "state: share of Hard"
    SHARE_OF_EASY = "state: share of Easy"
    ANSWER_TIMES_TODAY = "state: answer times today"
    ANSWER_TIMES_LATELY = "state: answer times lately"
    DAYS_OFF = "state: days off"

    # The day so far, and the time of day
    EVALUATED_TODAY = "session: evaluated reviews today"
    ROOT_OF_EVALUATED_TODAY = "session: evaluated reviews today, root"
    ANSWERED_TODAY = "session: all reviews today"
    NEW_TODAY = "session: new today"
    HOUR_SINE = "hour: sine"
    HOUR_COSINE = "hour: cosine"
    HALF_DAY_SINE = "hour: sine, half a day"
    HALF_DAY_COSINE = "hour: cosine, half a day"

    # The card, and cards like it
    LOGIT_SQUARED = "card: logit squared"
    CARDS_IN_STATE = "card: cards in this state"
    INTERVALS_LIKE_THIS = "card: intervals like this"
    STATE_AND_INTERVAL = "card: this state and interval"
    LOG_INTERVAL = "card: log interval"
    LOG_INTERVAL_SQUARED = "card: log interval squared"
    ONE_DAY = "card: one day"
    INTERVAL_BEFORE = "card: interval before"
    INTERVAL_RATIO = "card: interval ratio"
    REVIEWS = "card: reviews"
    LAPSES = "card: lapses"
    FIRST_AGAIN = "card: first was Again"
    FIRST_HARD = "card: first was Hard"
    FIRST_EASY = "card: first was Easy"
    LAST_AGAIN = "card: last was Again"
    LAST_HARD = "card: last was Hard"
    LAST_EASY = "card: last was Easy"
    LAST_HARD_NOT_FIRST = "card: last was Hard, not the first"
    LOGIT_AT_SECOND_REVIEW = "card: logit, second review"
    LOGIT_AFTER_AGAIN = "card: logit, after Again"
    LOG_INTERVAL_AFTER_AGAIN = "card: log interval, after Again"
    LAST_RESIDUAL = "card: last residual"
    OWN_OFFSET = "card: own offset"
    LAPSE_RATE = "card: lapse rate"
    OWN_SHARE_OF_HARD = "card: own share of Hard"
    REPETITIONS_ON_LAST_DAY = "card: repetitions on its last day"
    AGAINS_ON_LAST_DAY = "card: Agains on its last day"
    AGAIN_AFTER_REPETITIONS = "card: Again after repetitions"
    LAST_GAP_WITHIN_DAY = "card: last gap within a day"
    ANSWER_TIME_KNOWN = "card: answer time known"
    LAST_ANSWER_TIME = "card: last answer time"
    LAST_ANSWER_TIME_RECALLED = "card: last answer time, recalled"
    LAST_ANSWER_TIME_FORGOTTEN = "card: last answer time, forgotten"
    MEAN_ANSWER_TIME = "card: mean answer time"
    EXPERIENCE = "card: experience"


class FeatureGroup(StrEnum):
    """What the features of a group describe; their labels begin with it."""

    BASE = "base"
    STATE = "state"
    SESSION = "session"
    HOUR = "hour"
    CARD = "card"

    @property
    def columns(self) -> tuple[int, int]:
        """Column of the group's first feature and the column after its last one."""
        members = [feature for feature in StateFeature if feature.label.startswith(f"{self}: ")]
        return int(members[0]), int(members[-1]) + 1


FEATURE_NAMES = tuple(feature.label for feature in StateFeature)
FEATURE_COUNT = len(StateFeature)

_HALF_LIVES = (1.5, 5.0, 20.0, 80.0, 400.0)  # evaluated reviews
_HALF_LIFE_SCALES = (2.0, 3.0, 5.0, 8.0, 10.0)  # make the features about 1 in size
_HALF_LIFE_FEATURES = (
    StateFeature.RESIDUALS_1_5,
    StateFeature.RESIDUALS_5,
    StateFeature.RESIDUALS_20,
    StateFeature.RESIDUALS_80,
    StateFeature.RESIDUALS_400,
)
_OFFSET_RATES = (0.02, 0.06, 0.2, 0.5)
_OFFSET_FEATURES = (
    StateFeature.OFFSET_0_02,
    StateFeature.OFFSET_0_06,
    StateFeature.OFFSET_0_2,
    StateFeature.OFFSET_0_5,
)
_FASTEST_OFFSET = 3  # position in _OFFSET_RATES
_DAY_DECAYS = (0.5, 0.8, 0.95)  # factor from one active day to the next
_DECAY_FEATURES = (StateFeature.DAYS_0_5, StateFeature.DAYS_0_8, StateFeature.DAYS_0_95)
STATE_COUNT = 16  # 4 states x 4 ratings
INTERVAL_CLASS_COUNT = 12  # whole powers of two of days


class _Timeline(NamedTuple):
    """All answers of a learner in the order in which they were given, (m,) each."""

    trial: IntArray  # number of the evaluated review, -1 for others
    card: IntArray  # 0, 1, 2 ... in order of appearance
    rating: IntArray  # 1-4
    day: IntArray  # 0 and up, never falling
    elapsed_days: IntArray  # since the card's last review; 0 on the same day and at the first
    elapsed_s: IntArray
    duration_ms: IntArray
    time_of_day_s: IntArray  # -1 where unknown


def build_timeline(trials: Trials) -> _Timeline:
    """Return the history rows of `trials` in order of review."""
    order = np.argsort(trials.history_review_th, kind="stable")
    rank = np.empty(len(order), np.int64)  # position of each history row in order of review
    rank[order] = np.arange(len(order))
    trial = np.full(len(order), -1)
    trial[rank[trials.history_end]] = np.arange(len(trials))
    # Number cards in order of appearance, so that later cards change no earlier number.
    _, begins, number = np.unique(trials.history_card_id, return_index=True, return_inverse=True)
    appearance = np.empty(len(begins), np.int64)
    appearance[np.argsort(rank[begins], kind="stable")] = np.arange(len(begins))
    day = trials.history_day[order]
    return _Timeline(
        trial=trial,
        card=appearance[number][order],
        rating=trials.history_rating[order],
        day=np.maximum.accumulate(day - (day.min() if len(day) else 0)),
        elapsed_days=trials.history_elapsed_days[order],
        elapsed_s=trials.history_elapsed_s[order],
        duration_ms=trials.history_duration_ms[order],
        time_of_day_s=trials.history_time_of_day_s[order],
    )


def _logistic(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def _clip(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def _make_fields(names: Iterable[str], kind: type) -> list[tuple[str, type]]:
    return [(name, kind) for name in names]


_FIRST_REVIEWS = 0
_SAME_DAY_REVIEWS = 1
"""Rows of `other`: kinds of reviews that are not evaluated."""
_RATE = 0  # of success so far
_COUNT = 1
_FAST = 2  # mean of residuals, mostly of the last 10
_SLOW = 3  # mean of residuals, mostly of the last 100
"""Columns of `other`."""

_CARD_DTYPE = np.dtype(
    [
        *_make_fields(("seen", "review_days", "lapses", "hards"), np.int64),
        *_make_fields(("first_rating", "last_rating", "first_day", "last_day"), np.int64),
        # Of its last day: reviews after the day's first one, and Agains.
        *_make_fields(("repetitions", "agains"), np.int64),
        *_make_fields(("last_residual", "r", "h"), np.float64),
        # Logarithms.
        *_make_fields(("last_gap", "last_interval", "last_time", "sum_of_times"), np.float64),
    ]
)
_LEARNER_DTYPE = np.dtype(
    [
        *_make_fields(("slow", "fast", "hard_share", "easy_share"), np.float64),
        *_make_fields(("usual_time", "time_lately"), np.float64),
        # Kinds of reviews that are not evaluated: see _FIRST_REVIEWS and _RATE.
        ("other", np.float64, (2, 4)),
        *_make_fields(("run", "time_known"), np.int64),
        ("residuals", np.float64, len(_HALF_LIVES)),
        ("offsets", np.float64, len(_OFFSET_RATES)),
        ("decayed", np.float64, (len(_DAY_DECAYS), 2)),
        ("by_state", np.float64, STATE_COUNT),
        ("by_interval", np.float64, INTERVAL_CLASS_COUNT),
        ("by_both", np.float64, (STATE_COUNT, INTERVAL_CLASS_COUNT)),
        # Today.
        *_make_fields(("today", "day_before", "evaluated", "answered"), np.int64),
        *_make_fields(("new", "agains"), np.int64),
        *_make_fields(("r", "h", "before_r", "before_h", "time_today"), np.float64),
    ]
)
"""`r` and `h` are sums of residuals and of their variances, `before_r` and `before_h` those of the
active day before; times are logarithms."""


def compute_state_features(answers: _Timeline, z: FloatArray, features: FloatArray) -> None:
    """Fill in the first FEATURE_COUNT columns of `features` (n, k) for n evaluated reviews.

    `StateFeature` numbers the columns; they must be 0 before. `z` (n,) are the base model's logits,
    which count as at most 6 in size.
    """
    count = len(answers.trial)
    cards = np.zeros(answers.card.max() + 1 if count else 0, _CARD_DTYPE)
    days = answers.day.max() + 1 if count else 0
    # r and h of the cards that were last, or first, seen on a day.
    last, first = np.zeros((days, 2)), np.zeros((days, 2))
    learner = np.zeros(1, _LEARNER_DTYPE)[0]
    learner.other[_FIRST_REVIEWS, _RATE] = 0.5
    learner.other[_SAME_DAY_REVIEWS, _RATE] = 0.8
    learner.today = -1
    learner.day_before = -1
    for row in range(count):
        card, day, rating = cards[answers.card[row]], answers.day[row], answers.rating[row]
        elapsed, trial = answers.elapsed_days[row], answers.trial[row]
        y = 1.0 if rating > 1 else 0.0
        if day != learner.today:
            _begin_day(learner, day)
        if trial >= 0:
            logit, x = _clip(z[trial], 6.0), features[trial]
            last_day, first_day = last[card.last_day], first[card.first_day]
            state, interval = _classify_review(card, elapsed)
            _fill_learner_features(x, learner, logit, last_day, first_day)
            _fill_today_features(x, learner, answers.time_of_day_s[row])
            _fill_card_features(x, learner, card, logit, elapsed, state, interval)
            _fill_answer_features(x, learner, card, logit, elapsed)
            x[StateFeature.EXPERIENCE] = math.log1p(row) / 10 - 0.8
            # From here on, the answer is known.
            p = _logistic(logit)
            r, h = y - p, p * (1 - p)
            for sums in (last_day, first_day):
                sums[0] += r
                sums[1] += h
            _update_after_evaluated(learner, card, y, logit, state, interval)
        else:
            r = _update_after_other(learner, card, y, elapsed)
        learner.slow += 0.05 * (r - learner.slow)
        learner.fast += 0.2 * (r - learner.fast)
        learner.hard_share += 0.03 * ((1.0 if rating == 2 else 0.0) - learner.hard_share)
        learner.easy_share += 0.03 * ((1.0 if rating == 4 else 0.0) - learner.easy_share)
        learner.answered += 1
        learner.agains += rating == 1
        _update_card(card, rating, day, elapsed, answers.elapsed_s[row])
        if answers.duration_ms[row] > 0:
            _update_answer_time(learner, card, answers.duration_ms[row])


def _begin_day(learner: Any, day: int) -> None:
    for at in range(len(_DAY_DECAYS)):
        learner.decayed[at, 0] *= _DAY_DECAYS[at]
        learner.decayed[at, 1] *= _DAY_DECAYS[at]
    if learner.today >= 0:
        learner.before_r, learner.before_h, learner.day_before = learner.r, learner.h, learner.today
    learner.today, learner.r, learner.h, learner.time_today = day, 0.0, 0.0, 0.0
    learner.evaluated, learner.answered, learner.new, learner.agains = 0, 0, 0, 0


def _classify_review(card: Any, elapsed: int) -> tuple[int, int]:
    """Return the state and the interval class of an evaluated review.

    There are four states for each last rating: cards seen on one day only, cards that never lapsed,
    cards answered Again on their last day, and all others.
    """
    kind = 3
    if card.review_days == 1:
        kind = 0
    elif card.lapses == 0:
        kind = 1
    elif card.last_rating == 1 or card.agains > 0:
        kind = 2
    interval = min(int(math.log2(max(elapsed, 1))), INTERVAL_CLASS_COUNT - 1)
    return 4 * kind + card.last_rating - 1, interval


def _fill_learner_features(
    x: FloatArray, learner: Any, logit: float, last_day: FloatArray, first_day: FloatArray
) -> None:
    days_off = learner.today - learner.day_before - 1 if learner.day_before >= 0 else 0
    x[StateFeature.LOGIT] = logit
    x[StateFeature.INTERCEPT] = 1.0
    for at in range(len(_HALF_LIVES)):
        x[_HALF_LIFE_FEATURES[at]] = learner.residuals[at] * _HALF_LIFE_SCALES[at]
    x[StateFeature.ALL_OUTCOMES_SLOW] = 4 * learner.slow
    x[StateFeature.ALL_OUTCOMES_FAST] = 3 * learner.fast
    for at in range(len(_OFFSET_RATES)):
        x[_OFFSET_FEATURES[at]] = learner.offsets[at]
    x[StateFeature.OFFSET_ON_NEW_DAY] = learner.offsets[_FASTEST_OFFSET] * math.exp(
        -days_off if learner.evaluated == 0 else 0.0
    )
    x[StateFeature.TODAY] = learner.r / (learner.h + 1)
    x[StateFeature.TODAY_TIMES_LOGIT] = x[StateFeature.TODAY] * (logit - 2) / 2
    x[StateFeature.LAST_ACTIVE_DAY] = learner.before_r / (learner.before_h + 1)
    for at in range(len(_DAY_DECAYS)):
        x[_DECAY_FEATURES[at]] = learner.decayed[at, 0] / (learner.decayed[at, 1] + 1)
    x[StateFeature.CARDS_LAST_SEEN_THAT_DAY] = last_day[0] / (last_day[1] + 1)
    x[StateFeature.CARDS_FIRST_SEEN_THAT_DAY] = first_day[0] / (first_day[1] + 1)
    x[StateFeature.RUN_OF_SUCCESSES] = math.log1p(max(learner.run, 0)) / 2
    x[StateFeature.RUN_OF_FAILURES] = math.log1p(max(-learner.run, 0))
    x[StateFeature.SHARE_OF_AGAIN_TODAY] = 2 * learner.agains / (learner.answered + 3)
    x[StateFeature.FIRST_REVIEWS_FAST] = 2 * learner.other[_FIRST_REVIEWS, _FAST]
    x[StateFeature.FIRST_REVIEWS_SLOW] = 2 * learner.other[_FIRST_REVIEWS, _SLOW]
    x[StateFeature.SAME_DAY_REVIEWS_FAST] = 2 * learner.other[_SAME_DAY_REVIEWS, _FAST]
    x[StateFeature.SAME_DAY_REVIEWS_SLOW] = 2 * learner.other[_SAME_DAY_REVIEWS, _SLOW]
    x[StateFeature.SHARE_OF_HARD] = 3 * learner.hard_share
    x[StateFeature.SHARE_OF_EASY] = 3 * learner.easy_share
    x[StateFeature.ANSWER_TIMES_TODAY] = _clip(learner.time_today, 2.0)
    x[StateFeature.ANSWER_TIMES_LATELY] = _clip(learner.time_lately, 2.0)
    x[StateFeature.DAYS_OFF] = math.log1p(days_off) / 2


def _fill_today_features(x: FloatArray, learner: Any, time_of_day_s: int) -> None:
    x[StateFeature.EVALUATED_TODAY] = math.log1p(learner.evaluated) / 4 - 0.5
    x[StateFeature.ROOT_OF_EVALUATED_TODAY] = min(math.sqrt(learner.evaluated) / 10, 3.0) - 0.5
    x[StateFeature.ANSWERED_TODAY] = math.log1p(learner.answered) / 4 - 0.5
    x[StateFeature.NEW_TODAY] = math.log1p(learner.new) / 3
    if time_of_day_s >= 0:
        turn = 2 * math.pi * time_of_day_s / 86_400
        x[StateFeature.HOUR_SINE] = math.sin(turn)
        x[StateFeature.HOUR_COSINE] = math.cos(turn)
        x[StateFeature.HALF_DAY_SINE] = math.sin(2 * turn)
        x[StateFeature.HALF_DAY_COSINE] = math.cos(2 * turn)


def _fill_card_features(
    x: FloatArray, learner: Any, card: Any, logit: float, elapsed: int, state: int, interval: int
) -> None:
    log_interval = math.log1p(max(elapsed, 0))
    x[StateFeature.LOGIT_SQUARED] = logit * logit / 4 - 1
    x[StateFeature.CARDS_IN_STATE] = learner.by_state[state]
    x[StateFeature.INTERVALS_LIKE_THIS] = learner.by_interval[interval]
    x[StateFeature.STATE_AND_INTERVAL] = learner.by_both[state, interval]
    x[StateFeature.LOG_INTERVAL] = log_interval / 3 - 0.7
    x[StateFeature.LOG_INTERVAL_SQUARED] = (log_interval / 3 - 0.7) ** 2
    x[StateFeature.ONE_DAY] = 1.0 if elapsed == 1 else 0.0
    x[StateFeature.INTERVAL_BEFORE] = card.last_interval / 3
    x[StateFeature.INTERVAL_RATIO] = _clip(log_interval - card.last_interval, 2.0) / 2
    x[StateFeature.REVIEWS] = math.log(card.review_days + 1) / 2 - 0.7
    x[StateFeature.LAPSES] = math.log1p(card.lapses) / 2
    x[StateFeature.FIRST_AGAIN] = 1.0 if card.first_rating == 1 else 0.0
    x[StateFeature.FIRST_HARD] = 1.0 if card.first_rating == 2 else 0.0
    x[StateFeature.FIRST_EASY] = 1.0 if card.first_rating == 4 else 0.0
    x[StateFeature.LAST_AGAIN] = 1.0 if card.last_rating == 1 else 0.0
    x[StateFeature.LAST_HARD] = 1.0 if card.last_rating == 2 else 0.0
    x[StateFeature.LAST_EASY] = 1.0 if card.last_rating == 4 else 0.0


def _fill_answer_features(
    x: FloatArray, learner: Any, card: Any, logit: float, elapsed: int
) -> None:
    last = card.last_rating
    x[StateFeature.LAST_HARD_NOT_FIRST] = 1.0 if last == 2 and card.review_days > 1 else 0.0
    x[StateFeature.LOGIT_AT_SECOND_REVIEW] = logit - 2 if card.review_days == 1 else 0.0
    x[StateFeature.LOGIT_AFTER_AGAIN] = logit - 2 if last == 1 else 0.0
    x[StateFeature.LOG_INTERVAL_AFTER_AGAIN] = (
        math.log1p(max(elapsed, 0)) / 3 - 0.7 if last == 1 else 0.0
    )
    x[StateFeature.LAST_RESIDUAL] = card.last_residual
    x[StateFeature.OWN_OFFSET] = card.r / (card.h + 1)
    x[StateFeature.LAPSE_RATE] = card.lapses / (card.review_days + 1)
    x[StateFeature.OWN_SHARE_OF_HARD] = card.hards / (card.seen + 1)
    x[StateFeature.REPETITIONS_ON_LAST_DAY] = math.log1p(card.repetitions) / 2
    x[StateFeature.AGAINS_ON_LAST_DAY] = math.log1p(card.agains)
    if card.repetitions > 0:
        x[StateFeature.AGAIN_AFTER_REPETITIONS] = 1.0 if last == 1 else 0.0
        x[StateFeature.LAST_GAP_WITHIN_DAY] = (card.last_gap - 6) / 4
    if card.last_time > 0 and learner.time_known:
        took = _clip(card.last_time - learner.usual_time, 2.0)
        x[StateFeature.ANSWER_TIME_KNOWN] = 1.0
        x[StateFeature.LAST_ANSWER_TIME] = took
        x[StateFeature.LAST_ANSWER_TIME_RECALLED] = took if last > 2 else 0.0
        x[StateFeature.LAST_ANSWER_TIME_FORGOTTEN] = took if last == 1 else 0.0
        x[StateFeature.MEAN_ANSWER_TIME] = _clip(
            card.sum_of_times / card.seen - learner.usual_time, 2.0
        )


def _update_offset(offset: float, logit: float, y: float, rate: float, decay: float) -> float:
    """Return a running offset after an outcome."""
    return offset + (rate * (y - _logistic(logit + offset)) - decay * offset)


def _update_after_evaluated(
    learner: Any, card: Any, y: float, logit: float, state: int, interval: int
) -> None:
    p = _logistic(logit)
    r, h = y - p, p * (1 - p)
    for at in range(len(_HALF_LIVES)):
        learner.residuals[at] += (1 - 2 ** (-1 / _HALF_LIVES[at])) * (r - learner.residuals[at])
    for at in range(len(_OFFSET_RATES)):
        rate = _OFFSET_RATES[at]
        learner.offsets[at] = _update_offset(learner.offsets[at], logit, y, rate, 0.1 * rate)
    for at in range(len(_DAY_DECAYS)):
        learner.decayed[at, 0] += r
        learner.decayed[at, 1] += h
    learner.r += r
    learner.h += h
    learner.by_state[state] = _update_offset(learner.by_state[state], logit, y, 0.05, 0.0005)
    learner.by_interval[interval] = _update_offset(
        learner.by_interval[interval], logit, y, 0.05, 0.0005
    )
    both = learner.by_both[state, interval]
    learner.by_both[state, interval] = _update_offset(both, logit, y, 0.1, 0.001)
    step = 1 if y > 0 else -1
    learner.run = learner.run + step if learner.run * step > 0 else step
    learner.evaluated += 1
    card.last_residual = r
    card.r += r
    card.h += h


def _update_after_other(learner: Any, card: Any, y: float, elapsed: int) -> float:
    """Learn from a review that is not evaluated; return a substitute for its residual."""
    if card.seen > 0 and elapsed != 0:
        return 0.0  # a later day: no prediction to compare it with
    statistics = learner.other[_SAME_DAY_REVIEWS if card.seen > 0 else _FIRST_REVIEWS]
    r = y - statistics[_RATE]
    statistics[_COUNT] += 1
    statistics[_RATE] += r / (statistics[_COUNT] + 5)
    statistics[_FAST] += 0.1 * (r - statistics[_FAST])
    statistics[_SLOW] += 0.01 * (r - statistics[_SLOW])
    learner.new += card.seen == 0
    return float(r)


def _update_card(card: Any, rating: int, day: int, elapsed: int, elapsed_s: int) -> None:
    """Record an answer, `elapsed` days and `elapsed_s` seconds after the card's last one."""
    if card.seen == 0:
        card.first_rating, card.first_day = rating, day
    if card.seen == 0 or card.last_day != day:
        card.repetitions, card.agains = 0, 0
        card.review_days += 1
    else:
        card.repetitions += 1
        card.last_gap = math.log(max(elapsed_s, 1))
    if rating == 1:
        card.agains += 1
        card.lapses += elapsed > 0
    card.hards += rating == 2
    if elapsed > 0:
        card.last_interval = math.log1p(elapsed)
    card.last_rating, card.last_day = rating, day
    card.seen += 1


def _update_answer_time(learner: Any, card: Any, duration_ms: int) -> None:
    took = math.log(min(max(duration_ms, 300), 60_000))
    if not learner.time_known:
        learner.usual_time, learner.time_known = took, 1
    learner.time_today += 0.1 * (took - learner.usual_time - learner.time_today)
    learner.time_lately += 0.003 * (took - learner.usual_time - learner.time_lately)
    learner.usual_time += 0.01 * (took - learner.usual_time)
    card.last_time = took
    card.sum_of_times += took
