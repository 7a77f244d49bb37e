"""What a learner's last answers say about the next one: features for models that learn online.

Everything is known before the answer that it describes: outcomes of all cards, the first and
same-day ones too, answer times, intervals, time of day. r = y - p is the residual of the base
model's prediction p = 1 / (1 + e^-z), h = p (1 - p) its variance. A *Newton offset* of some
reviews is sum r / (sum h + 1): about the shift of the logit that would have fitted them, drawn
towards 0. A *running offset* follows x <- (1 - rate decay) x + rate (y - 1 / (1 + e^-(z + x))).
Every feature is bounded, or grows like a logarithm, and is about 1 in size.

Card ids are used for telling cards apart, never as numbers: they tell of cards not yet seen.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials

NAMES = tuple(Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines())
"""Of each feature its group and its name. The group "state" is how the learner has been doing,
whatever the card; "card" what is known of the card, and of cards like it."""
COUNT = len(NAMES)

_HALF_LIVES = (1.5, 5.0, 20.0, 80.0, 400.0)  # evaluated reviews
_HALF_LIFE_SCALES = (2.0, 3.0, 5.0, 8.0, 10.0)
_OFFSET_RATES = (0.02, 0.06, 0.2, 0.5)
_DAY_DECAYS = (0.5, 0.8, 0.95)  # a day of activity
STATES, INTERVALS = 16, 12  # 4 states x 4 ratings; whole powers of two of days


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


def timeline(trials: Trials) -> _Timeline:
    """The history rows of `trials` in order of review."""
    order = np.argsort(trials.history_review_th, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    trial = np.full(len(order), -1)
    trial[place[trials.history_end]] = np.arange(len(trials))
    # Numbered in order of appearance, so that later cards change no earlier number.
    _, begins, number = np.unique(trials.history_card_id, return_index=True, return_inverse=True)
    appearance = np.empty(len(begins), np.int64)
    appearance[np.argsort(place[begins], kind="stable")] = np.arange(len(begins))
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


def _bounded(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def state_features(answers: _Timeline, z: FloatArray, features: FloatArray) -> None:
    """Fill in the first COUNT columns of `features` (n, k): `NAMES` of each of n evaluated reviews.

    They are 0 before; `z` are the base model's logits (n,), bounded by ±6.
    """
    count = len(answers.trial)
    cards = answers.card.max() + 1 if count else 0
    days = answers.day.max() + 1 if count else 0

    # The learner.
    residuals = np.zeros(len(_HALF_LIVES))
    offsets = np.zeros(len(_OFFSET_RATES))
    decayed_r, decayed_h = np.zeros(len(_DAY_DECAYS)), np.zeros(len(_DAY_DECAYS))
    all_slow, all_fast = 0.0, 0.0
    first_rate, first_count, first_fast, first_slow = 0.5, 0.0, 0.0, 0.0
    same_rate, same_count, same_fast, same_slow = 0.8, 0.0, 0.0, 0.0
    hard_share, easy_share = 0.0, 0.0
    run = 0
    usual_time, time_known, time_today, time_lately = 0.0, False, 0.0, 0.0
    # Today.
    today, day_before = -1, -1
    today_r, today_h, before_r, before_h = 0.0, 0.0, 0.0, 0.0
    evaluated_today, all_today, new_today, agains_today = 0, 0, 0, 0
    # Cards that were last, or first, seen on a day; cards in one state; intervals of one length.
    last_day_r, last_day_h = np.zeros(days), np.zeros(days)
    first_day_r, first_day_h = np.zeros(days), np.zeros(days)
    by_state, by_interval = np.zeros(STATES), np.zeros(INTERVALS)
    by_both = np.zeros((STATES, INTERVALS))
    # Each card.
    seen = np.zeros(cards, np.int64)
    review_days = np.zeros(cards, np.int64)
    lapses = np.zeros(cards, np.int64)
    hards = np.zeros(cards, np.int64)
    first_rating = np.zeros(cards, np.int64)
    last_rating = np.zeros(cards, np.int64)
    first_day = np.zeros(cards, np.int64)
    last_day = np.zeros(cards, np.int64)
    repetitions = np.zeros(cards, np.int64)  # on its last day, after the first of that day
    agains = np.zeros(cards, np.int64)  # on its last day
    last_residual = np.zeros(cards)
    card_r, card_h = np.zeros(cards), np.zeros(cards)
    last_gap = np.zeros(cards)  # log seconds
    last_interval = np.zeros(cards)  # log days
    last_time, sum_of_times = np.zeros(cards), np.zeros(cards)  # log milliseconds

    for row in range(count):
        card, day, rating = answers.card[row], answers.day[row], answers.rating[row]
        elapsed = answers.elapsed_days[row]
        y = 1.0 if rating > 1 else 0.0
        trial = answers.trial[row]
        if day != today:
            for at in range(len(_DAY_DECAYS)):
                decayed_r[at] *= _DAY_DECAYS[at]
                decayed_h[at] *= _DAY_DECAYS[at]
            if today >= 0:
                before_r, before_h, day_before = today_r, today_h, today
            today, today_r, today_h, time_today = day, 0.0, 0.0, 0.0
            evaluated_today, all_today, new_today, agains_today = 0, 0, 0, 0

        evaluated = trial >= 0
        logit, p, h, state, interval = 0.0, 0.5, 0.25, 0, 0
        if evaluated:
            logit = _bounded(z[trial], 6.0)
            p = _logistic(logit)
            h = p * (1 - p)
            log_interval = math.log1p(max(elapsed, 0))
            interval = min(int(math.log2(max(elapsed, 1))), INTERVALS - 1)
            last = last_rating[card]
            kind = 3
            if review_days[card] == 1:
                kind = 0
            elif lapses[card] == 0:
                kind = 1
            elif last == 1 or agains[card] > 0:
                kind = 2
            state = 4 * kind + last - 1
            days_off = day - day_before - 1 if day_before >= 0 else 0

            x, j = features[trial], 0
            x[0], x[1] = logit, 1.0
            j = 2
            for at in range(len(_HALF_LIVES)):
                x[j] = residuals[at] * _HALF_LIFE_SCALES[at]
                j += 1
            x[j], x[j + 1] = 4 * all_slow, 3 * all_fast
            j += 2
            for at in range(len(_OFFSET_RATES)):
                x[j] = offsets[at]
                j += 1
            x[j] = offsets[3] * math.exp(-days_off if evaluated_today == 0 else 0.0)
            offset_today = today_r / (today_h + 1)
            x[j + 1], x[j + 2] = offset_today, offset_today * (logit - 2) / 2
            x[j + 3] = before_r / (before_h + 1)
            j += 4
            for at in range(len(_DAY_DECAYS)):
                x[j] = decayed_r[at] / (decayed_h[at] + 1)
                j += 1
            x[j] = last_day_r[last_day[card]] / (last_day_h[last_day[card]] + 1)
            x[j + 1] = first_day_r[first_day[card]] / (first_day_h[first_day[card]] + 1)
            x[j + 2] = math.log1p(max(run, 0)) / 2
            x[j + 3] = math.log1p(max(-run, 0))
            x[j + 4] = 2 * agains_today / (all_today + 3)
            x[j + 5], x[j + 6] = 2 * first_fast, 2 * first_slow
            x[j + 7], x[j + 8] = 2 * same_fast, 2 * same_slow
            x[j + 9], x[j + 10] = 3 * hard_share, 3 * easy_share
            x[j + 11], x[j + 12] = _bounded(time_today, 2.0), _bounded(time_lately, 2.0)
            x[j + 13] = math.log1p(days_off) / 2
            j += 14
            x[j] = math.log1p(evaluated_today) / 4 - 0.5
            x[j + 1] = min(math.sqrt(evaluated_today) / 10, 3.0) - 0.5
            x[j + 2] = math.log1p(all_today) / 4 - 0.5
            x[j + 3] = math.log1p(new_today) / 3
            j += 4
            if answers.time_of_day_s[row] >= 0:
                turn = 2 * math.pi * answers.time_of_day_s[row] / 86_400
                x[j], x[j + 1] = math.sin(turn), math.cos(turn)
                x[j + 2], x[j + 3] = math.sin(2 * turn), math.cos(2 * turn)
            j += 4
            x[j] = logit * logit / 4 - 1
            x[j + 1], x[j + 2] = by_state[state], by_interval[interval]
            x[j + 3] = by_both[state, interval]
            x[j + 4] = log_interval / 3 - 0.7
            x[j + 5] = (log_interval / 3 - 0.7) ** 2
            x[j + 6] = 1.0 if elapsed == 1 else 0.0
            x[j + 7] = last_interval[card] / 3
            x[j + 8] = _bounded(log_interval - last_interval[card], 2.0) / 2
            x[j + 9] = math.log(review_days[card] + 1) / 2 - 0.7
            x[j + 10] = math.log1p(lapses[card]) / 2
            j += 11
            for given in (1, 2, 4):
                x[j] = 1.0 if first_rating[card] == given else 0.0
                x[j + 3] = 1.0 if last == given else 0.0
                j += 1
            j += 3
            x[j] = 1.0 if last == 2 and review_days[card] > 1 else 0.0
            x[j + 1] = logit - 2 if review_days[card] == 1 else 0.0
            x[j + 2] = logit - 2 if last == 1 else 0.0
            x[j + 3] = log_interval / 3 - 0.7 if last == 1 else 0.0
            x[j + 4] = last_residual[card]
            x[j + 5] = card_r[card] / (card_h[card] + 1)
            x[j + 6] = lapses[card] / (review_days[card] + 1)
            x[j + 7] = hards[card] / (seen[card] + 1)
            x[j + 8] = math.log1p(repetitions[card]) / 2
            x[j + 9] = math.log1p(agains[card])
            if repetitions[card] > 0:
                x[j + 10] = 1.0 if last == 1 else 0.0
                x[j + 11] = (last_gap[card] - 6) / 4
            j += 12
            if last_time[card] > 0 and time_known:
                took = _bounded(last_time[card] - usual_time, 2.0)
                x[j], x[j + 1] = 1.0, took
                x[j + 2] = took if last > 2 else 0.0
                x[j + 3] = took if last == 1 else 0.0
                x[j + 4] = _bounded(sum_of_times[card] / seen[card] - usual_time, 2.0)
            x[j + 5] = math.log1p(row) / 10 - 0.8

        # From here on the answer is known.
        if evaluated:
            r = y - p
            for at in range(len(_HALF_LIVES)):
                residuals[at] += (1 - 2 ** (-1 / _HALF_LIVES[at])) * (r - residuals[at])
            for at in range(len(_OFFSET_RATES)):
                rate = _OFFSET_RATES[at]
                step = rate * (y - _logistic(logit + offsets[at]))
                offsets[at] += step - 0.1 * rate * offsets[at]
            for at in range(len(_DAY_DECAYS)):
                decayed_r[at] += r
                decayed_h[at] += h
            today_r += r
            today_h += h
            last_day_r[last_day[card]] += r
            last_day_h[last_day[card]] += h
            first_day_r[first_day[card]] += r
            first_day_h[first_day[card]] += h
            by_state[state] += (
                0.05 * (y - _logistic(logit + by_state[state])) - 0.0005 * by_state[state]
            )
            by_interval[interval] += (
                0.05 * (y - _logistic(logit + by_interval[interval]))
                - 0.0005 * by_interval[interval]
            )
            by_both[state, interval] += (
                0.1 * (y - _logistic(logit + by_both[state, interval]))
                - 0.001 * by_both[state, interval]
            )
            step = 1 if y > 0 else -1
            run = run + step if run * step > 0 else step
            evaluated_today += 1
            last_residual[card] = r
            card_r[card] += r
            card_h[card] += h
        elif seen[card] == 0:
            r = y - first_rate
            first_count += 1
            first_rate += r / (first_count + 5)
            first_fast += 0.1 * (r - first_fast)
            first_slow += 0.01 * (r - first_slow)
            new_today += 1
        elif elapsed == 0:
            r = y - same_rate
            same_count += 1
            same_rate += r / (same_count + 5)
            same_fast += 0.1 * (r - same_fast)
            same_slow += 0.01 * (r - same_slow)
        else:
            r = 0.0  # a later day that is not evaluated: no prediction to hold it against
        all_slow += 0.05 * (r - all_slow)
        all_fast += 0.2 * (r - all_fast)
        hard_share += 0.03 * ((1.0 if rating == 2 else 0.0) - hard_share)
        easy_share += 0.03 * ((1.0 if rating == 4 else 0.0) - easy_share)
        all_today += 1

        if seen[card] == 0:
            first_rating[card] = rating
            first_day[card] = day
        if seen[card] == 0 or last_day[card] != day:
            repetitions[card], agains[card] = 0, 0
            review_days[card] += 1
        else:
            repetitions[card] += 1
            last_gap[card] = math.log(max(answers.elapsed_s[row], 1))
        if rating == 1:
            agains_today += 1
            agains[card] += 1
            if elapsed > 0:
                lapses[card] += 1
        elif rating == 2:
            hards[card] += 1
        if elapsed > 0:
            last_interval[card] = math.log1p(elapsed)
        last_rating[card], last_day[card] = rating, day
        seen[card] += 1
        if answers.duration_ms[row] > 0:
            took = math.log(min(max(answers.duration_ms[row], 300), 60_000))
            if not time_known:
                usual_time, time_known = took, True
            time_today += 0.1 * (took - usual_time - time_today)
            time_lately += 0.003 * (took - usual_time - time_lately)
            usual_time += 0.01 * (took - usual_time)
            last_time[card] = took
            sum_of_times[card] += took
