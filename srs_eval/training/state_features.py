"""Features of a learner's last answers that predict the next one, for models that learn online.

All data are known before the answer that they describe: outcomes of all cards, the first and
same-day ones too, answer times, intervals, time of day. r = y - p is the residual of the base
model's prediction p = 1 / (1 + e^-z), h = p (1 - p) its variance. A *Newton offset* of some
reviews is sum r / (sum h + 1): about the shift of the logit that would have fitted them, shrunk
towards 0. A *running offset* follows x <- (1 - rate decay) x + rate (y - 1 / (1 + e^-(z + x))).
Every feature is bounded, or grows like a logarithm, and is about 1 in size.

Card ids serve to tell cards apart, never as numbers, which would reveal cards not yet seen.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials

FEATURE_NAMES = tuple(Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines())
"""Group and name of each feature. The group "state" describes how the learner has been doing,
whatever the card; "card" describes the card and cards like it."""
FEATURE_COUNT = len(FEATURE_NAMES)

_HALF_LIVES = (1.5, 5.0, 20.0, 80.0, 400.0)  # evaluated reviews
_HALF_LIFE_SCALES = (2.0, 3.0, 5.0, 8.0, 10.0)
_OFFSET_RATES = (0.02, 0.06, 0.2, 0.5)
_DAY_DECAYS = (0.5, 0.8, 0.95)  # a day of activity
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
    rank = np.empty(len(order), np.int64)  # of each history row in order of review
    rank[order] = np.arange(len(order))
    trial = np.full(len(order), -1)
    trial[rank[trials.history_end]] = np.arange(len(trials))
    # Numbered in order of appearance, so that later cards change no earlier number.
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


def _dtype_fields(names: str, kind: type) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


_CARD_DTYPE = np.dtype(
    [
        *_dtype_fields(
            "seen review_days lapses hards first_rating last_rating first_day", np.int64
        ),
        *_dtype_fields("last_day repetitions agains", np.int64),  # on its last day, after the first
        *_dtype_fields("last_residual r h", np.float64),
        *_dtype_fields("last_gap last_interval last_time sum_of_times", np.float64),  # logarithms
    ]
)
_LEARNER_DTYPE = np.dtype(
    [
        *_dtype_fields("slow fast hard_share easy_share usual_time time_lately", np.float64),
        # Cards' first reviews, then other reviews that are not evaluated: rate, count, residuals.
        ("other", np.float64, (2, 4)),
        *_dtype_fields("run time_known", np.int64),
        ("residuals", np.float64, len(_HALF_LIVES)),
        ("offsets", np.float64, len(_OFFSET_RATES)),
        ("decayed", np.float64, (len(_DAY_DECAYS), 2)),
        ("by_state", np.float64, STATE_COUNT),
        ("by_interval", np.float64, INTERVAL_CLASS_COUNT),
        ("by_both", np.float64, (STATE_COUNT, INTERVAL_CLASS_COUNT)),
        # Today.
        *_dtype_fields("today day_before evaluated answered new agains", np.int64),
        *_dtype_fields("r h before_r before_h time_today", np.float64),
    ]
)
"""`r` and `h` are sums of residuals and of their variances."""


def compute_state_features(answers: _Timeline, z: FloatArray, features: FloatArray) -> None:
    """Fill in the first FEATURE_COUNT columns of `features` (n, k) for n evaluated reviews.

    `FEATURE_NAMES` names the columns, which are 0 before; `z` (n,) are the base model's logits,
    bounded by ±6.
    """
    count = len(answers.trial)
    cards = np.zeros(answers.card.max() + 1 if count else 0, _CARD_DTYPE)
    days = answers.day.max() + 1 if count else 0
    # r and h of the cards that were last, or first, seen on a day.
    last, first = np.zeros((days, 2)), np.zeros((days, 2))
    me = np.zeros(1, _LEARNER_DTYPE)[0]
    me.other[0, 0], me.other[1, 0], me.today, me.day_before = 0.5, 0.8, -1, -1
    for row in range(count):
        card, day, rating = cards[answers.card[row]], answers.day[row], answers.rating[row]
        elapsed, trial = answers.elapsed_days[row], answers.trial[row]
        y = 1.0 if rating > 1 else 0.0
        if day != me.today:
            _begin_day(me, day)
        if trial >= 0:
            logit, x = _clip(z[trial], 6.0), features[trial]
            last_day, first_day = last[card.last_day], first[card.first_day]
            state, interval = _classify_review(card, elapsed)
            _fill_learner_features(x, me, logit, last_day, first_day)
            _fill_today_features(x, me, answers.time_of_day_s[row])
            _fill_card_features(x, me, card, logit, elapsed, state, interval)
            _fill_answer_features(x, me, card, logit, elapsed)
            x[76] = math.log1p(row) / 10 - 0.8
            # From here on, the answer is known.
            p = _logistic(logit)
            r, h = y - p, p * (1 - p)
            for sums in (last_day, first_day):
                sums[0] += r
                sums[1] += h
            _update_after_evaluated(me, card, y, logit, state, interval)
        else:
            r = _update_after_other(me, card, y, elapsed)
        me.slow += 0.05 * (r - me.slow)
        me.fast += 0.2 * (r - me.fast)
        me.hard_share += 0.03 * ((1.0 if rating == 2 else 0.0) - me.hard_share)
        me.easy_share += 0.03 * ((1.0 if rating == 4 else 0.0) - me.easy_share)
        me.answered += 1
        me.agains += rating == 1
        _update_card(card, rating, day, elapsed, answers.elapsed_s[row])
        if answers.duration_ms[row] > 0:
            _update_answer_time(me, card, answers.duration_ms[row])


def _begin_day(me: Any, day: int) -> None:
    for at in range(len(_DAY_DECAYS)):
        me.decayed[at, 0] *= _DAY_DECAYS[at]
        me.decayed[at, 1] *= _DAY_DECAYS[at]
    if me.today >= 0:
        me.before_r, me.before_h, me.day_before = me.r, me.h, me.today
    me.today, me.r, me.h, me.time_today = day, 0.0, 0.0, 0.0
    me.evaluated, me.answered, me.new, me.agains = 0, 0, 0, 0


def _classify_review(card: Any, elapsed: int) -> tuple[int, int]:
    """Return the state and the interval class of an evaluated review."""
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
    x: FloatArray, me: Any, logit: float, last_day: FloatArray, first_day: FloatArray
) -> None:
    days_off = me.today - me.day_before - 1 if me.day_before >= 0 else 0
    x[0], x[1] = logit, 1.0
    for at in range(len(_HALF_LIVES)):
        x[2 + at] = me.residuals[at] * _HALF_LIFE_SCALES[at]
    x[7], x[8] = 4 * me.slow, 3 * me.fast
    for at in range(len(_OFFSET_RATES)):
        x[9 + at] = me.offsets[at]
    x[13] = me.offsets[3] * math.exp(-days_off if me.evaluated == 0 else 0.0)
    x[14] = me.r / (me.h + 1)
    x[15] = x[14] * (logit - 2) / 2
    x[16] = me.before_r / (me.before_h + 1)
    for at in range(len(_DAY_DECAYS)):
        x[17 + at] = me.decayed[at, 0] / (me.decayed[at, 1] + 1)
    x[20] = last_day[0] / (last_day[1] + 1)
    x[21] = first_day[0] / (first_day[1] + 1)
    x[22], x[23] = math.log1p(max(me.run, 0)) / 2, math.log1p(max(-me.run, 0))
    x[24] = 2 * me.agains / (me.answered + 3)
    x[25], x[26] = 2 * me.other[0, 2], 2 * me.other[0, 3]
    x[27], x[28] = 2 * me.other[1, 2], 2 * me.other[1, 3]
    x[29], x[30] = 3 * me.hard_share, 3 * me.easy_share
    x[31], x[32] = _clip(me.time_today, 2.0), _clip(me.time_lately, 2.0)
    x[33] = math.log1p(days_off) / 2


def _fill_today_features(x: FloatArray, me: Any, time_of_day_s: int) -> None:
    x[34] = math.log1p(me.evaluated) / 4 - 0.5
    x[35] = min(math.sqrt(me.evaluated) / 10, 3.0) - 0.5
    x[36] = math.log1p(me.answered) / 4 - 0.5
    x[37] = math.log1p(me.new) / 3
    if time_of_day_s >= 0:
        turn = 2 * math.pi * time_of_day_s / 86_400
        x[38], x[39] = math.sin(turn), math.cos(turn)
        x[40], x[41] = math.sin(2 * turn), math.cos(2 * turn)


def _fill_card_features(
    x: FloatArray, me: Any, card: Any, logit: float, elapsed: int, state: int, interval: int
) -> None:
    log_interval = math.log1p(max(elapsed, 0))
    x[42] = logit * logit / 4 - 1
    x[43], x[44] = me.by_state[state], me.by_interval[interval]
    x[45] = me.by_both[state, interval]
    x[46] = log_interval / 3 - 0.7
    x[47] = (log_interval / 3 - 0.7) ** 2
    x[48] = 1.0 if elapsed == 1 else 0.0
    x[49] = card.last_interval / 3
    x[50] = _clip(log_interval - card.last_interval, 2.0) / 2
    x[51] = math.log(card.review_days + 1) / 2 - 0.7
    x[52] = math.log1p(card.lapses) / 2
    j = 53
    for given in (1, 2, 4):
        x[j] = 1.0 if card.first_rating == given else 0.0
        x[j + 3] = 1.0 if card.last_rating == given else 0.0
        j += 1


def _fill_answer_features(x: FloatArray, me: Any, card: Any, logit: float, elapsed: int) -> None:
    last = card.last_rating
    x[59] = 1.0 if last == 2 and card.review_days > 1 else 0.0
    x[60] = logit - 2 if card.review_days == 1 else 0.0
    x[61] = logit - 2 if last == 1 else 0.0
    x[62] = math.log1p(max(elapsed, 0)) / 3 - 0.7 if last == 1 else 0.0
    x[63] = card.last_residual
    x[64] = card.r / (card.h + 1)
    x[65] = card.lapses / (card.review_days + 1)
    x[66] = card.hards / (card.seen + 1)
    x[67] = math.log1p(card.repetitions) / 2
    x[68] = math.log1p(card.agains)
    if card.repetitions > 0:
        x[69] = 1.0 if last == 1 else 0.0
        x[70] = (card.last_gap - 6) / 4
    if card.last_time > 0 and me.time_known:
        took = _clip(card.last_time - me.usual_time, 2.0)
        x[71], x[72] = 1.0, took
        x[73] = took if last > 2 else 0.0
        x[74] = took if last == 1 else 0.0
        x[75] = _clip(card.sum_of_times / card.seen - me.usual_time, 2.0)


def _update_offset(offset: float, logit: float, y: float, rate: float, decay: float) -> float:
    """Return a running offset after an outcome."""
    return offset + (rate * (y - _logistic(logit + offset)) - decay * offset)


def _update_after_evaluated(
    me: Any, card: Any, y: float, logit: float, state: int, interval: int
) -> None:
    p = _logistic(logit)
    r, h = y - p, p * (1 - p)
    for at in range(len(_HALF_LIVES)):
        me.residuals[at] += (1 - 2 ** (-1 / _HALF_LIVES[at])) * (r - me.residuals[at])
    for at in range(len(_OFFSET_RATES)):
        rate = _OFFSET_RATES[at]
        me.offsets[at] = _update_offset(me.offsets[at], logit, y, rate, 0.1 * rate)
    for at in range(len(_DAY_DECAYS)):
        me.decayed[at, 0] += r
        me.decayed[at, 1] += h
    me.r += r
    me.h += h
    me.by_state[state] = _update_offset(me.by_state[state], logit, y, 0.05, 0.0005)
    me.by_interval[interval] = _update_offset(me.by_interval[interval], logit, y, 0.05, 0.0005)
    both = me.by_both[state, interval]
    me.by_both[state, interval] = _update_offset(both, logit, y, 0.1, 0.001)
    step = 1 if y > 0 else -1
    me.run = me.run + step if me.run * step > 0 else step
    me.evaluated += 1
    card.last_residual = r
    card.r += r
    card.h += h


def _update_after_other(me: Any, card: Any, y: float, elapsed: int) -> float:
    """Learn from a review that is not evaluated; return a substitute for its residual."""
    if card.seen > 0 and elapsed != 0:
        return 0.0  # a later day: no prediction to compare it with
    of = me.other[1 if card.seen > 0 else 0]
    r = y - of[0]
    of[1] += 1
    of[0] += r / (of[1] + 5)
    of[2] += 0.1 * (r - of[2])
    of[3] += 0.01 * (r - of[3])
    me.new += card.seen == 0
    return float(r)


def _update_card(card: Any, rating: int, day: int, elapsed: int, elapsed_s: int) -> None:
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


def _update_answer_time(me: Any, card: Any, duration_ms: int) -> None:
    took = math.log(min(max(duration_ms, 300), 60_000))
    if not me.time_known:
        me.usual_time, me.time_known = took, 1
    me.time_today += 0.1 * (took - me.usual_time - me.time_today)
    me.time_lately += 0.003 * (took - me.usual_time - me.time_lately)
    me.usual_time += 0.01 * (took - me.usual_time)
    card.last_time = took
    card.sum_of_times += took
