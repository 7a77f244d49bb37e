"""Assess how the learner uses the Hard button, which learning steps fit, and what buttons show.

FSRS counts Hard as remembered. If a learner presses it for forgotten cards, cards are weaker after
it than before (`learning_from_hard`), and later reviews are predicted better if it counts as Again
in their histories. The evaluated outcomes stay the same: Hard is remembered.

For steps, answers are grouped by the answer before: a first Again, Hard or Good, Again and then
Good, or a lapse; these are the situations that the steps of a preset decide on
(open-spaced-repetition/fsrs4anki-helper, steps.py, has the same five). The next answer to the card
on the same day is evaluated. Its recall is taken to follow FSRS's forgetting curve with the
preset's decay; the stability S, here in minutes, is fitted by maximum likelihood. The interval of
log S is that of the mean influence of the answers on it, over days (Huber, 1967, Proceedings of the
Fifth Berkeley Symposium 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.advice.learning_from_hard import measure_learning_from_hard
from srs_eval.advice.workload.simulator import Memory
from srs_eval.advice.workload.today import TodaysCards, collect_todays_cards, compute_memory_state
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FILTERED, REVIEW, FloatArray, IntArray, Preset, Rows
from srs_eval.data.trials import prepare_trials
from srs_eval.engine.session import fit_and_predict
from srs_eval.models import fsrs6
from srs_eval.models.own_parameters import find_fault, normalize_as_anki
from srs_eval.stats import intervals
from srs_eval.stats.intervals import MIN_DAYS, Interval, mean_interval
from srs_eval.stats.search import find_minimum

_BUTTONS = {1: "Again", 2: "Hard", 3: "Good", 4: "Easy"}
_AGAIN = 1
_HARD = 2
_GOOD = 3
_REVIEW_STATES = (REVIEW + 1, FILTERED + 1)  # states in `Rows.state`
_SELDOM_SHARE = 0.01  # of all answers to reviews; below it Hard can do no harm


def assess_hard_button(learner: Learner) -> f.Finding:
    """Return one finding over all presets, because buttons are a habit of the person."""
    ratings = select_review_ratings(learner)
    share = float((ratings == _HARD).mean()) if len(ratings) else 0.0
    if share < _SELDOM_SHARE:
        evidence = f.HardButton("seldom", share)
        return f.Finding("hard", f.ALL_PRESETS, reviews=len(ratings), evidence=evidence)
    difference = _compare_hard_as_again(learner)
    learning = measure_learning_from_hard(learner)
    conclusion: Literal["yes", "no", "can't tell"] = f.CANT_TELL
    if learning is not None and learning.is_honest and intervals.has_enough_data(difference):
        conclusion = "no"
    is_misused = learning is not None and learning.is_misused  # as under "Anything wrong?"
    if is_misused or learner.verdict(difference) == "better":
        conclusion = "yes"
    evidence = f.HardButton(conclusion, share, measure_recall_after_buttons(learner), learning)
    missing = None
    if evidence.conclusion == f.CANT_TELL:
        missing = f.count_missing_data(difference.reviews, difference.days)
        if learning is not None:
            missing = learning.estimate_missing_data(difference.reviews, difference.days)
    return f.Finding(
        "hard",
        f.ALL_PRESETS,
        interval=difference,
        reviews=difference.reviews,
        missing=missing,
        evidence=evidence,
    )


def select_review_ratings(learner: Learner) -> IntArray:
    """Return the ratings of reviews, without answers in learning and relearning steps."""
    rows = learner.session.rows(learner.trials.protocol)
    return rows.rating[np.isin(rows.state, _REVIEW_STATES)]


def _compare_hard_as_again(learner: Learner) -> Interval:
    """Return the log loss of optimized FSRS-6 with past Hard counted as Again, minus that without.

    Outcomes stay as they are in training and evaluation. (Reviews answered Hard must not be
    excluded instead: that would select reviews by their outcome.)
    """
    index = learner.trials.test_index
    configuration = learner.configuration(f.OPTIMIZED)
    rows = learner.session.rows(configuration.protocol)
    rating = np.where(rows.rating == _HARD, _AGAIN, rows.rating)
    as_again = replace(
        prepare_trials(learner.log, replace(rows, rating=rating), configuration.protocol),
        y=learner.trials.y,
    )
    p = fit_and_predict(configuration, as_again, learner.context).p
    return learner.interval(learner.losses(p, index) - learner.held_out_losses(f.OPTIMIZED), index)


def measure_recall_after_buttons(learner: Learner) -> tuple[f.RecallAfterButton, ...]:
    """Return, by last button, the share recalled and by how much optimized FSRS-6 expects more.

    Only those held-out reviews are used whose previous review was itself a review of a later day.
    """
    trials = learner.trials
    index = trials.test_index
    p = learner.held_out_predictions(f.OPTIMIZED)
    last_button = trials.history_rating[trials.history_end[index] - 1]
    on_later_day = trials.history_elapsed_days[trials.history_end[index] - 1] > 0
    recall_by_button = []
    for button, name in _BUTTONS.items():
        selected = (last_button == button) & on_later_day
        if selected.any():
            y = trials.y[index[selected]]
            bias: FloatArray = p[selected] - y
            interval = learner.interval(bias, index[selected])
            recall_by_button.append(f.RecallAfterButton(name, float(y.mean()), interval))
    return tuple(recall_by_button)


# Learning steps

_SITUATIONS = ("first Again", "first Hard", "first Good", "Again, then Good", "lapse")
_AGAIN_THEN_GOOD = 3  # positions among these
_LAPSE = 4
_NO_SITUATION = -1
_MIN_ANSWERS = 100
_MIN_DELAY_RATIO = 3.0  # 90 % quantile of the delays over the 10 % one; below, they hardly vary
_HALVES_CRITICAL_Z = 2.24
"""Number of standard errors that at least one of two halves exceeds by chance in 5 % of cases."""
_MAX_DELAY_MIN = 100 * 1440.0  # minutes
_EPSILON = 1e-9  # keeps probabilities away from 0 and 1

_StepsConclusion = Literal["longer", "shorter", "as it is", "see each step", "can't tell"]


@dataclass(frozen=True, eq=False)
class _NextAnswers:
    """Answers (k,) to cards that were answered earlier on the same day."""

    situation: IntArray  # index into _SITUATIONS, of the answer before
    minutes: FloatArray  # since the answer before
    recalled: FloatArray  # 1.0 or 0.0
    day: IntArray
    preset: IntArray

    def __getitem__(self, mask: NDArray[np.bool_]) -> _NextAnswers:
        return _NextAnswers(**{name: column[mask] for name, column in self.__dict__.items()})

    def __len__(self) -> int:
        return len(self.minutes)


@dataclass(frozen=True)
class _ForgettingCurve:
    """A fitted forgetting curve R(t) = (1 + factor t/S)^-decay with R(S) = 0.9."""

    log_stability: Interval  # of S in minutes
    decay: float

    def recall(self, minutes: FloatArray) -> FloatArray:
        return _recall(minutes, math.exp(self.log_stability.estimate), self.decay)

    def delay(self, retention: float) -> tuple[float, float, float]:
        """Return the minutes after which recall is `retention`, and their interval's bounds."""
        ratio = (retention ** (-1 / self.decay) - 1) / _curve_factor(self.decay)
        log_s = self.log_stability
        logs = np.clip((log_s.estimate, log_s.low, log_s.high), -50.0, 50.0)  # without overflow
        estimate, low, high = (ratio * math.exp(log) for log in logs)
        return estimate, low, high


def assess_steps(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding for each preset."""
    rows = learner.session.rows(learner.trials.protocol)
    answers = _collect_next_answers(rows, learner.log.preset_of(learner.log.deck_of(rows.card_id)))
    for group in groups:
        yield _assess_preset_steps(learner, group, answers[answers.preset == group])


def _collect_next_answers(rows: Rows, preset: IntArray) -> _NextAnswers:
    """Collect the next answers from rows in review order, with the preset of each (n,)."""
    order = np.argsort(rows.card_id, kind="stable")
    card = rows.card_id[order]
    rating = rows.rating[order]
    state = rows.state[order]
    elapsed_days = rows.elapsed_days[order]
    elapsed_seconds = rows.elapsed_seconds[order]
    is_first = np.ones(len(card), np.bool_)
    is_first[1:] = card[1:] != card[:-1]
    follows_first = np.roll(is_first, 1)  # the row before is its card's first
    rating_before = np.roll(rating, 1)
    situation = np.full(len(card), _NO_SITUATION)
    for number, button in enumerate((_AGAIN, _HARD, _GOOD)):
        situation[is_first & (rating == button)] = number
    again_good = ~is_first & follows_first & (rating_before == _AGAIN) & (rating == _GOOD)
    situation[again_good & (elapsed_days == 0)] = _AGAIN_THEN_GOOD
    in_review = np.isin(state, _REVIEW_STATES)
    situation[~is_first & in_review & (rating == _AGAIN)] = _LAPSE
    situation_before = np.full(len(card), _NO_SITUATION)
    situation_before[1:] = situation[:-1]
    same_day = ~is_first & (elapsed_days == 0) & (elapsed_seconds > 0)
    selected = np.flatnonzero(same_day & (situation_before != _NO_SITUATION))
    return _NextAnswers(
        situation=situation_before[selected],
        minutes=elapsed_seconds[selected] / 60,
        recalled=(rating[selected] > 1).astype(float),
        day=rows.day_offset[order][selected],
        preset=preset[order][selected],
    )


def _fit_forgetting_curve(answers: _NextAnswers, decay: float) -> _ForgettingCurve:
    """Fit the forgetting curve by maximum likelihood."""

    def loss(log_s: float) -> float:
        r = np.clip(_recall(answers.minutes, math.exp(log_s), decay), _EPSILON, 1 - _EPSILON)
        return -float(np.log(np.where(answers.recalled == 1, r, 1 - r)).sum())

    one_second = math.log(1 / 60)
    log_s = find_minimum(loss, one_second, math.log(_MAX_DELAY_MIN), tolerance=1e-9)
    s = math.exp(log_s)
    r = np.clip(_recall(answers.minutes, s, decay), _EPSILON, 1 - _EPSILON)
    ratio = _curve_factor(decay) * answers.minutes / s
    slope = decay * r * ratio / (1 + ratio)  # dR / d log S
    score = (answers.recalled - r) / (r * (1 - r)) * slope  # slope of the log likelihood
    information = float((np.square(slope) / (r * (1 - r))).mean())
    influence = score / information if information > 0 else np.full(len(score), np.nan)
    spread = mean_interval(influence, answers.day)
    return _ForgettingCurve(replace(spread, estimate=log_s), decay)


def follows_curve(curve: _ForgettingCurve, answers: _NextAnswers) -> bool:
    """Return True if the curve fits recall in both the shorter and the longer half of delays."""
    expected = curve.recall(answers.minutes)
    bias = answers.recalled - expected
    is_short = answers.minutes <= np.median(answers.minutes)
    for half in (is_short, ~is_short):
        if half.any():
            mean_bias = mean_interval(bias[half], answers.day[half])
            # If nearly all answers are recalled, differences between days understate chance.
            variance = float((expected[half] * (1 - expected[half])).mean())
            chance = _HALVES_CRITICAL_Z * math.sqrt(variance / mean_bias.reviews)
            if abs(mean_bias.estimate) > max(mean_bias.half_width, chance):
                return False
    return True


def falls_with_delay(answers: _NextAnswers) -> bool:
    """Return True if recall surely falls with the delay, by a regression on the log of minutes."""
    log_minutes = np.log(answers.minutes)
    deviation = log_minutes - log_minutes.mean()
    bias = answers.recalled - answers.recalled.mean()
    slopes = deviation * bias / np.square(deviation).mean()  # their mean is the slope
    return mean_interval(slopes, answers.day).high < 0


def _current_delays(preset: Preset | None) -> dict[str, float | None]:
    """Return the minutes of the preset's step after each situation; None if there is no step."""
    if preset is None:
        return {}
    learning = preset.learning_steps
    relearning = preset.relearning_steps
    second = learning[1] if len(learning) > 1 else None
    return {
        "first Again": learning[0] if learning else None,
        "first Hard": _hard_step_minutes(learning) if learning else None,
        "first Good": second,
        "Again, then Good": second,
        "lapse": relearning[0] if relearning else None,
    }


def _hard_step_minutes(steps: Sequence[float]) -> float:
    """Return the minutes until a card answered Hard on its first step comes again.

    This is the mean of the first two steps. With one step, it is one and a half times that step,
    but at most a day more (ankitects/anki: rslib/src/scheduler/states/steps.rs).
    """
    if len(steps) > 1:
        return sum(steps[:2]) / 2
    return min(1.5 * steps[0], steps[0] + 1440)


def _assess_preset_steps(learner: Learner, group: int, answers: _NextAnswers) -> f.Finding:
    preset = learner.log.presets.get(group)
    desired = 0.9
    stored: Sequence[float] = ()
    if preset is not None:
        desired = preset.desired_retention or 0.9
        stored = preset.active_parameters
    decay = fsrs6.DEFAULT[20]  # also for FSRS-7, whose curve has no single decay
    if stored and not find_fault(stored):
        decay = normalize_as_anki(stored)[20]
    delays = _current_delays(preset)
    steps = []
    for number, situation in enumerate(_SITUATIONS):
        in_situation = answers[answers.situation == number]
        if len(in_situation):
            step = delays.get(situation)
            steps.append(_assess_step(situation, in_situation, decay, desired, step))
    conclusions = {step.conclusion for step in steps if step.conclusion != f.CANT_TELL}
    conclusion: _StepsConclusion = f.CANT_TELL
    if len(conclusions) > 1:
        conclusion = "see each step"
    elif conclusions:
        conclusion = next(iter(conclusions))
    evidence = f.StepTimings(conclusion, desired, tuple(steps))
    return f.Finding("steps", learner.group_name(group), reviews=len(answers), evidence=evidence)


def _assess_step(
    situation: str, answers: _NextAnswers, decay: float, desired: float, step: float | None
) -> f.StepTiming:
    """Compare a step (minutes) with the delay at which recall reaches the desired retention.

    If that delay is outside the range of observed delays, only its side of this range is known.
    """
    recalled = mean_interval(answers.recalled, answers.day)
    usual_minutes = float(np.median(answers.minutes))
    timing = f.StepTiming(situation, f.CANT_TELL, len(answers), usual_minutes, recalled, step)
    if len(answers) < _MIN_ANSWERS or recalled.days < MIN_DAYS:
        return replace(timing, unknown_reason="few")
    short, long = np.quantile(answers.minutes, (0.1, 0.9))
    if long < _MIN_DELAY_RATIO * short:
        return replace(timing, unknown_reason="alike")
    curve = _fit_forgetting_curve(answers, decay)
    if not follows_curve(curve, answers):
        return replace(timing, unknown_reason="no curve")
    estimate, low, high = curve.delay(desired)
    shortest, longest = np.quantile(answers.minutes, (0.05, 0.95)).tolist()
    conclusion: Literal["longer", "shorter", "as it is", "can't tell"] = f.CANT_TELL
    if step is not None:
        if high < shortest:
            if step >= shortest:
                conclusion = "shorter"
        elif low > longest:
            if step <= longest:
                conclusion = "longer"
        elif step < low:
            conclusion = "longer"
        elif step > high:
            conclusion = "shorter"
        else:
            conclusion = "as it is"
    # Where recall is the same at all delays, a shorter step would not be remembered better.
    if conclusion == "shorter" and not falls_with_delay(answers):
        return replace(timing, unknown_reason="flat")
    return replace(
        timing,
        conclusion=conclusion,
        delay=(estimate, low, high),
        observed_delays=(shortest, longest),
    )


def _recall(minutes: FloatArray, stability: float, decay: float) -> FloatArray:
    recall: FloatArray = np.power(1 + _curve_factor(decay) * minutes / stability, -decay)
    return recall


def _curve_factor(decay: float) -> float:
    """Return the factor for which R(S) is 0.9."""
    return float(0.9 ** (-1 / decay)) - 1


# Intervals that Anki shows above the buttons
#
# Source: ankitects/anki, rslib/src/scheduler/states/{review,learning,steps}.rs. Steps come first if
# there are any, for a learned card the relearning steps after Again. Good is at least a day longer
# than Hard, and Easy than Good. An interval that would grow is at least a day longer than the last
# one, and one that fuzz alone would make shorter stays the same. Anki then moves longer intervals a
# little at random (fuzz); the screens mention this, but it is not simulated.

_MATURE_DAYS = 21  # Anki's border between young and mature cards
_FUZZ_MIN_DAYS = 2.5  # days: shorter intervals are not fuzzed
_DAY_S = 86_400.0


def preview_buttons(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """Yield one finding per preset, for its active parameters, optimized ones and the defaults.

    There are none if the file does not say how its cards are scheduled or if FSRS is off, and none
    for presets that run FSRS-7, because the rules here are Anki's.
    """
    for group in groups:
        preset = learner.log.presets.get(group)
        if learner.is_fsrs_off or preset is None or preset.desired_retention is None:
            continue
        if preset.runs_fsrs7:
            continue
        try:
            today = collect_todays_cards(learner.log, group)
        except InputError:
            continue
        retention = preset.desired_retention
        stored = preset.active_parameters
        optimized = None
        if len(learner.positions(group)) >= f.MIN_REVIEWS_TO_FIT:
            optimized = learner.fit_parameters(f.RECENCY, group)
        candidates: dict[str, Sequence[float]] = {}
        if stored:
            candidates["your current parameters"] = normalize_as_anki(stored)
        if optimized:
            candidates["optimized parameters"] = optimized
        candidates["the defaults"] = normalize_as_anki(())
        by_candidate = []
        for name, parameters in candidates.items():
            cards = tuple(preview_typical_cards(parameters, today, preset, retention))
            by_candidate.append((name, cards))
        evidence = f.ButtonPreview(retention, tuple(by_candidate))
        yield f.Finding("buttons", learner.group_name(group), evidence=evidence)


def preview_typical_cards(
    parameters: Sequence[float], today: TodaysCards, preset: Preset, retention: float
) -> Iterator[f.TypicalCard]:
    """Yield a new card, and a young and a mature one if the preset has any, for FSRS-6."""
    memory = Memory("FSRS-6", tuple(parameters))
    yield f.TypicalCard("new", 0, _new_card_seconds(memory, preset, retention))
    state = compute_memory_state(today, memory)
    masks = {
        "young": (today.interval > 0) & (today.interval < _MATURE_DAYS),
        "mature": today.interval >= _MATURE_DAYS,
    }
    for kind, mask in masks.items():
        if mask.any():
            s, d = np.median(state[:, mask], axis=1).tolist()
            days = round(float(np.median(today.interval[mask])))
            seconds = _learned_card_seconds(memory, preset, retention, (s, d), days)
            yield f.TypicalCard(kind, days, seconds)


def _next_interval(memory: Memory, s: float, retention: float) -> float:
    """Return the days until R falls to the desired retention: FSRS-6's curve, solved for t."""
    return s * fsrs6.compute_days_until(retention, memory.parameters[20])


def _new_card_seconds(memory: Memory, preset: Preset, retention: float) -> tuple[float, ...]:
    w = memory.values
    days = []
    for rating in range(1, 5):
        s, _ = memory.recurrent.first(float(rating), w)
        days.append(_round_interval(_next_interval(memory, float(s), retention), preset))
    days[3] = max(days[3], min(days[2] + 1, _maximum_interval(preset)))  # Easy beyond Good
    steps = preset.learning_steps
    if not steps:
        return tuple(_DAY_S * interval for interval in days)
    hard = 60 * _hard_step_minutes(steps)
    if hard > _DAY_S:  # Anki rounds such a step to whole days
        hard = _DAY_S * round(hard / _DAY_S)
    good = 60 * steps[1] if len(steps) > 1 else _DAY_S * days[2]
    return 60 * steps[0], hard, good, _DAY_S * days[3]


def _learned_card_seconds(
    memory: Memory, preset: Preset, retention: float, state: tuple[float, float], interval: int
) -> tuple[float, ...]:
    """Return the seconds by button for a card in a given state, answered on its due day."""
    w = memory.values
    model = memory.recurrent
    t = float(interval)
    failed = model.failure(state, t, 1.0, w)
    longest = _maximum_interval(preset)
    days: list[int] = []
    for rating in range(2, 5):
        s, _ = model.success(state, t, float(rating), w)
        exact = _next_interval(memory, float(s), retention)
        shortest = 1
        if round(exact) > interval:
            shortest = interval + 1
        elif interval <= round(exact + _max_fuzz(exact)):
            shortest = interval
        if days:
            shortest = max(shortest, days[-1] + 1)
        days.append(min(max(_round_interval(exact, preset), shortest), longest))
    again = _DAY_S * _round_interval(_next_interval(memory, float(failed[0]), retention), preset)
    if preset.relearning_steps:
        again = 60 * preset.relearning_steps[0]
    return again, *(_DAY_S * interval for interval in days)


def _max_fuzz(days: float) -> float:
    """Return the most days by which Anki moves an interval (rslib/src/scheduler/states/fuzz.rs)."""
    if days < _FUZZ_MIN_DAYS:
        return 0.0
    ranges = ((_FUZZ_MIN_DAYS, 7.0, 0.15), (7.0, 20.0, 0.1), (20.0, math.inf, 0.05))
    return 1.0 + sum(share * max(min(days, end) - start, 0.0) for start, end, share in ranges)


def _round_interval(days: float, preset: Preset) -> int:
    return int(min(max(round(days), 1), _maximum_interval(preset)))


def _maximum_interval(preset: Preset) -> int:
    return preset.maximum_interval or 36_500
