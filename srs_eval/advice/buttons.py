"""Buttons: am I misusing Hard, which learning steps, and what would the buttons show?

FSRS takes Hard as remembered. Where it is pressed for what was forgotten, recall after it is
lower than FSRS expects, and later reviews are predicted better if it counts as Again in their
histories. What is evaluated stays the same: Hard is remembered.

For steps, answers are told apart by what came before: a first Again, Hard or Good, Again and then
Good, or a lapse; these are the situations that the steps of a preset decide on
(open-spaced-repetition/fsrs4anki-helper, steps.py, has the same five). Counted is the next answer
to the card on the same day. Its recall follows FSRS's forgetting curve with the preset's decay;
the stability, here in minutes, is fitted by maximum likelihood. Its interval is that of a mean
over days of the influence that each answer has on log S (Huber, 1967, Proceedings of the Fifth
Berkeley Symposium 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.advice.workload.simulator import Memory
from srs_eval.advice.workload.today import Today, memory_state, todays_cards
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FILTERED, REVIEW, FloatArray, IntArray, Preset, Rows
from srs_eval.data.trials import prepare_trials
from srs_eval.engine.session import fit_and_predict
from srs_eval.models import fsrs6
from srs_eval.models.own_parameters import as_anki_runs, fault_of
from srs_eval.stats.intervals import FEWEST_DAYS, Interval, mean_interval

_BUTTONS = {1: "Again", 2: "Hard", 3: "Good", 4: "Easy"}
_AGAIN, _HARD, _GOOD = 1, 2, 3
_REVIEW = (REVIEW + 1, FILTERED + 1)  # states of a card
_SELDOM = 0.01  # of all answers to reviews; below it nothing can go wrong with Hard


def am_i_misusing_hard(learner: Learner) -> f.Finding:
    """One finding over all presets, for buttons are a habit of the person."""
    ratings = review_ratings(learner)
    share = float((ratings == _HARD).mean()) if len(ratings) else 0.0
    found = f.Finding("hard", "all presets", reviews=len(ratings))
    if share < _SELDOM:
        return replace(found, evidence=f.Hard("seldom", share))
    difference = _what_if_again(learner)
    evidence = f.Hard(_SAYS.get(learner.verdict(difference), "no"), share, expected_after(learner))
    lacks = learner.missing(difference) if evidence.says == f.OPEN else None
    found = replace(found, interval=difference, reviews=difference.reviews, missing=lacks)
    return replace(found, evidence=evidence)


def review_ratings(learner: Learner) -> IntArray:
    """The answers to reviews, those in steps left out."""
    rows = learner.session.rows(learner.trials.protocol)
    return rows.rating[np.isin(rows.state, _REVIEW)]


_SAYS: Mapping[str, Literal["yes", "can't tell"]] = {"better": "yes", "can't tell yet": f.OPEN}


def _what_if_again(learner: Learner) -> Interval:
    """Log loss of optimized FSRS-6 if Hard of the past had meant Again, minus as it is.

    Outcomes are as they are in training and evaluating. (Reviews answered Hard must not be left
    out instead: that would choose reviews by their outcome.)
    """
    index = learner.trials.test_index
    configuration = learner.configuration("optimized")
    rows = learner.session.rows(configuration.protocol)
    rating = np.where(rows.rating == _HARD, _AGAIN, rows.rating)
    as_again = replace(
        prepare_trials(learner.log, replace(rows, rating=rating), configuration.protocol),
        y=learner.trials.y,
    )
    p = fit_and_predict(configuration, as_again, learner.context)[0]
    return learner.interval(learner.losses(p, index) - learner.held_out_losses("optimized"), index)


def expected_after(learner: Learner) -> tuple[f.AfterButton, ...]:
    """By the last button: share recalled, and what optimized FSRS-6 expects above it.

    Of held-out reviews whose review before was on an earlier day too.
    """
    trials = learner.trials
    index = trials.test_index
    p = learner.held_out("optimized")
    last = trials.history_rating[trials.history_end[index] - 1]
    on_later_day = trials.history_elapsed_days[trials.history_end[index] - 1] > 0
    found = []
    for button, name in _BUTTONS.items():
        mine = (last == button) & on_later_day
        if mine.any():
            bias: FloatArray = p[mine] - trials.y[index[mine]]
            recalled = float(trials.y[index[mine]].mean())
            found.append(f.AfterButton(name, recalled, learner.interval(bias, index[mine])))
    return tuple(found)


# Learning steps

_SITUATIONS = ("first Again", "first Hard", "first Good", "Again, then Good", "lapse")
_FEWEST_ANSWERS = 100
_LEAST_SPREAD = 3.0  # the 90 % quantile of the delays over the 10 % one: else they hardly vary
_TWO_HALVES = 2.24  # standard errors beyond which one of two is by chance in 5 %
_LONGEST_MIN = 100 * 1440.0
_EPSILON = 1e-9


@dataclass(frozen=True, eq=False)
class _NextAnswers:
    """Answers (k,) to cards answered before on the same day."""

    situation: IntArray  # place in _SITUATIONS, of the answer before
    minutes: FloatArray  # since then
    recalled: FloatArray  # 1.0 or 0.0
    day: IntArray
    preset: IntArray

    def __getitem__(self, keep: NDArray[np.bool_]) -> _NextAnswers:
        return _NextAnswers(**{name: column[keep] for name, column in self.__dict__.items()})

    def __len__(self) -> int:
        return len(self.minutes)


@dataclass(frozen=True)
class _Forgetting:
    """A fitted forgetting curve R(t) = (1 + factor t/S)^-decay with R(S) = 0.9."""

    log_stability: Interval  # of S in minutes
    decay: float

    def recall(self, minutes: FloatArray) -> FloatArray:
        return _recall(minutes, math.exp(self.log_stability.estimate), self.decay)

    def delay(self, retention: float) -> tuple[float, float, float]:
        """Minutes after which recall is `retention`, and the bounds of their interval."""
        ratio = (retention ** (-1 / self.decay) - 1) / _factor(self.decay)
        log_s = self.log_stability
        ends = np.clip((log_s.estimate, log_s.low, log_s.high), -50.0, 50.0)
        estimate, low, high = (ratio * math.exp(each) for each in ends)
        return estimate, low, high


def which_steps(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """One finding for each preset."""
    rows = learner.session.rows(learner.trials.protocol)
    answers = _next_answers(rows, learner.log.preset_of(learner.log.deck_of(rows.card_id)))
    for group in groups:
        yield _of_preset(learner, group, answers[answers.preset == group])


def _next_answers(rows: Rows, preset: IntArray) -> _NextAnswers:
    """From rows in order of review, with the preset of each (n,)."""
    order = np.argsort(rows.card_id, kind="stable")
    card, rating, state = rows.card_id[order], rows.rating[order], rows.state[order]
    first = np.ones(len(card), np.bool_)
    first[1:] = card[1:] != card[:-1]
    before_first = np.roll(first, 1)  # the row before is its card's first
    rating_before = np.roll(rating, 1)
    situation = np.full(len(card), -1)
    for place, button in enumerate((_AGAIN, _HARD, _GOOD)):
        situation[first & (rating == button)] = place
    again_good = ~first & before_first & (rating_before == _AGAIN) & (rating == _GOOD)
    situation[again_good & (rows.elapsed_days[order] == 0)] = 3
    in_review = (state == REVIEW + 1) | (state == FILTERED + 1)
    situation[~first & in_review & (rating == _AGAIN)] = 4
    of_next = np.full(len(card), -1)
    of_next[1:] = situation[:-1]
    same_day = ~first & (rows.elapsed_days[order] == 0) & (rows.elapsed_seconds[order] > 0)
    kept = np.flatnonzero(same_day & (of_next >= 0))
    minutes, recalled = rows.elapsed_seconds[order][kept] / 60, (rating[kept] > 1).astype(float)
    day, preset = rows.day_offset[order][kept], preset[order][kept]
    return _NextAnswers(of_next[kept], minutes, recalled, day, preset)


def _fitted_forgetting(answers: _NextAnswers, decay: float) -> _Forgetting:
    """The curve under which the answers are likeliest."""

    def loss(log_s: float) -> float:
        r = np.clip(_recall(answers.minutes, math.exp(log_s), decay), _EPSILON, 1 - _EPSILON)
        return -float(np.log(np.where(answers.recalled == 1, r, 1 - r)).sum())

    low, high = math.log(1 / 60), math.log(_LONGEST_MIN)
    while high - low > 1e-9:
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    log_s = (low + high) / 2
    s = math.exp(log_s)
    r = np.clip(_recall(answers.minutes, s, decay), _EPSILON, 1 - _EPSILON)
    ratio = _factor(decay) * answers.minutes / s
    slope = decay * r * ratio / (1 + ratio)  # of R along log S
    score = (answers.recalled - r) / (r * (1 - r)) * slope
    information = float((np.square(slope) / (r * (1 - r))).mean())
    influence = score / information if information > 0 else np.full(len(score), np.nan)
    spread = mean_interval(influence, answers.day)
    return _Forgetting(replace(spread, estimate=log_s), decay)


def follows(curve: _Forgetting, answers: _NextAnswers) -> bool:
    """Whether recall at the shorter and at the longer half of the delays is the curve's."""
    expected = curve.recall(answers.minutes)
    bias = answers.recalled - expected
    short = answers.minutes <= np.median(answers.minutes)
    for half in (short, ~short):
        if half.any():
            found = mean_interval(bias[half], answers.day[half])
            # Where nearly all are recalled, days say too little of how far chance goes.
            variance = float((expected[half] * (1 - expected[half])).mean())
            chance = _TWO_HALVES * math.sqrt(variance / found.reviews)
            if abs(found.estimate) > max(found.half_width, chance):
                return False
    return True


def _steps_now(preset: Preset | None) -> dict[str, float | None]:
    """The delay in minutes that a preset's steps set in each situation; None: none within a day."""
    if preset is None:
        return {}
    learning, relearning = preset.learning_steps, preset.relearning_steps
    first, hard = (learning[0], _hard_step(learning)) if learning else (None, None)
    second = learning[1] if len(learning) > 1 else None
    lapse = relearning[0] if relearning else None
    return dict(zip(_SITUATIONS, (first, hard, second, second, lapse), strict=True))


def _hard_step(steps: Sequence[float]) -> float:
    """Minutes that Hard on the first step waits: for the mean of the first two, or half as long
    again as the only one (ankitects/anki: rslib/src/scheduler/states/steps.rs)."""
    return sum(steps[:2]) / 2 if len(steps) > 1 else min(1.5 * steps[0], steps[0] + 1440)


def _of_preset(learner: Learner, group: int, answers: _NextAnswers) -> f.Finding:
    preset = learner.log.presets.get(group)
    desired = (preset and preset.desired_retention) or 0.9
    stored = () if preset is None else preset.parameters_in_force
    decay = fsrs6.DEFAULT[20]  # also for FSRS-7, whose curve has no one decay
    if stored and not fault_of(stored):
        decay = as_anki_runs(stored)[20]
    now = _steps_now(preset)
    steps = tuple(
        _step(situation, mine, decay, desired, now.get(situation))
        for place, situation in enumerate(_SITUATIONS)
        if len(mine := answers[answers.situation == place])
    )
    known = {each.says for each in steps if each.says != f.OPEN}
    says = "see each step" if len(known) > 1 else next(iter(known), f.OPEN)
    evidence = f.Steps(says, desired, steps)
    return f.Finding("steps", learner.name_of(group), reviews=len(answers), evidence=evidence)


def _step(
    situation: str, answers: _NextAnswers, decay: float, desired: float, step: float | None
) -> f.Step:
    recalled = mean_interval(answers.recalled, answers.day)
    usual = float(np.median(answers.minutes))
    found = f.Step(situation, f.OPEN, len(answers), usual, recalled, step)
    if len(answers) < _FEWEST_ANSWERS or recalled.days < FEWEST_DAYS:
        return replace(found, unknown="few")
    short, long = np.quantile(answers.minutes, (0.1, 0.9))
    if long < _LEAST_SPREAD * short:
        return replace(found, unknown="alike")
    curve = _fitted_forgetting(answers, decay)
    if not follows(curve, answers):
        return replace(found, unknown="no curve")
    estimate, low, high = curve.delay(desired)
    shortest, longest = np.quantile(answers.minutes, (0.05, 0.95)).tolist()
    says: Literal["longer", "shorter", "as it is", "can't tell"] = f.OPEN
    if step is not None and high < shortest:
        says = "shorter" if step >= shortest else f.OPEN
    elif step is not None and low > longest:
        says = "longer" if step <= longest else f.OPEN
    elif step is not None:
        says = "longer" if step < low else "shorter" if step > high else "as it is"
    return replace(found, says=says, delay=(estimate, low, high), seen=(shortest, longest))


def _recall(minutes: FloatArray, stability: float, decay: float) -> FloatArray:
    found: FloatArray = np.power(1 + _factor(decay) * minutes / stability, -decay)
    return found


def _factor(decay: float) -> float:
    """Such that R(S) is 0.9."""
    return float(0.9 ** (-1 / decay)) - 1


# What the buttons would show. Rules: ankitects/anki, rslib/src/scheduler/states/{review,learning,
# steps}.rs. Steps come first where there are any; after Again a learned card goes through
# relearning; Good is a day longer than Hard at least, Easy than Good; an interval that would grow
# is a day longer than the last one at least, and fuzz alone does not make it shorter. Anki then
# moves longer intervals a little at random (fuzz), which is said and not drawn.

_MATURE_DAYS = 21  # Anki's border between young and mature cards
_NO_FUZZ = 2.5  # days: shorter intervals are not fuzzed
_DAY_S = 86_400.0


def what_buttons_show(learner: Learner, groups: Sequence[int]) -> Iterator[f.Finding]:
    """One answer for each preset: the parameters in force, optimized ones and the defaults.

    None where the file does not tell what its cards are scheduled by, where FSRS is off, and for
    presets that run FSRS-7: the rules here are Anki's.
    """
    for group in groups:
        preset = learner.log.presets.get(group)
        if learner.is_off or preset is None or preset.desired_retention is None:
            continue
        if preset.runs_fsrs7:
            continue
        try:
            today = todays_cards(learner.log, group)
        except InputError:
            continue
        stored = preset.parameters_in_force
        made = {"the parameters in force": as_anki_runs(stored)} if stored else {}
        fitted, retention = learner.fitted(f.RECENCY, group), preset.desired_retention
        made |= {"optimized ones": fitted} if fitted else {}
        made |= {"the defaults": as_anki_runs(())}
        cards = (tuple(cards_by(each, today, preset, retention)) for each in made.values())
        evidence = f.Buttons(retention, tuple(zip(made, cards, strict=True)))
        yield f.Finding("buttons", learner.name_of(group), evidence=evidence)


def cards_by(
    parameters: Sequence[float], today: Today, preset: Preset, retention: float
) -> Iterator[f.Card]:
    """By FSRS-6 parameters: a new card, and a young and a mature one if the preset has any."""
    memory = Memory("FSRS-6", tuple(parameters))
    yield f.Card("new", 0, _new_card(memory, preset, retention))
    state = memory_state(today, memory)
    for kind, chosen in (
        ("young", (today.interval > 0) & (today.interval < _MATURE_DAYS)),
        ("mature", today.interval >= _MATURE_DAYS),
    ):
        if chosen.any():
            s, d = np.median(state[:, chosen], axis=1).tolist()
            days = round(float(np.median(today.interval[chosen])))
            yield f.Card(kind, days, _learned_card(memory, preset, retention, (s, d), days))


def _interval(memory: Memory, s: float, retention: float) -> float:
    """Days until R falls to the desired retention: FSRS-6's curve, solved for t."""
    decay = memory.parameters[20]
    return s * math.expm1(-math.log(retention) / decay) / math.expm1(-math.log(0.9) / decay)


def _new_card(memory: Memory, preset: Preset, retention: float) -> tuple[float, ...]:
    w = memory.values
    first = [memory.recurrent.first(float(rating), w) for rating in range(1, 5)]
    days = [_whole(_interval(memory, float(s), retention), preset) for s, _ in first]
    easy = max(days[3], min(days[2] + 1, _longest(preset)))
    steps = preset.learning_steps
    if not steps:
        return (*(_DAY_S * each for each in days[:3]), _DAY_S * easy)
    hard = 60 * _hard_step(steps)
    if hard > _DAY_S:
        hard = _DAY_S * round(hard / _DAY_S)
    good = 60 * steps[1] if len(steps) > 1 else _DAY_S * days[2]
    return 60 * steps[0], hard, good, _DAY_S * easy


def _learned_card(
    memory: Memory, preset: Preset, retention: float, state: tuple[float, float], interval: int
) -> tuple[float, ...]:
    """A card with a state that is answered on the day it is due."""
    w, model, t = memory.values, memory.recurrent, float(interval)
    failed = model.failure(state, t, 1.0, w)
    after: list[FloatArray] = [model.success(state, t, float(rating), w) for rating in range(2, 5)]
    longest = _longest(preset)
    days: list[int] = []
    for s, _ in after:
        raw = _interval(memory, float(s), retention)
        least = 1
        if round(raw) > interval:
            least = interval + 1
        elif interval <= round(raw + _fuzz(raw)):
            least = interval
        if days:
            least = max(least, days[-1] + 1)
        days.append(min(max(_whole(raw, preset), least), longest))
    again = _DAY_S * _whole(_interval(memory, float(failed[0]), retention), preset)
    if preset.relearning_steps:
        again = 60 * preset.relearning_steps[0]
    return again, *(_DAY_S * each for each in days)


def _fuzz(days: float) -> float:
    """By how much Anki moves an interval at most (rslib/src/scheduler/states/fuzz.rs)."""
    if days < _NO_FUZZ:
        return 0.0
    parts = ((_NO_FUZZ, 7.0, 0.15), (7.0, 20.0, 0.1), (20.0, math.inf, 0.05))
    return 1.0 + sum(share * max(min(days, end) - start, 0.0) for start, end, share in parts)


def _whole(days: float, preset: Preset) -> int:
    return int(min(max(round(days), 1), _longest(preset)))


def _longest(preset: Preset) -> int:
    return preset.maximum_interval or 36_500
