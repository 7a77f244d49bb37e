"""Buttons within the day: am I misusing Hard, and which learning steps?

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import Finding, phrased
from srs_eval.advice.sentences import (
    FEWEST_DAYS_SHOWN,
    figures,
    listed,
    percent,
    signed,
    spanned,
    what_is_missing,
)
from srs_eval.advice.tables import Cell, Table
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import (
    FILTERED,
    LEARNING,
    RELEARNING,
    REVIEW,
    FloatArray,
    IntArray,
    Preset,
    Rows,
)
from srs_eval.data.trials import prepare_trials
from srs_eval.engine.session import fit_and_predict
from srs_eval.models import fsrs6
from srs_eval.models.configurations import resolve
from srs_eval.models.own_parameters import as_anki_runs
from srs_eval.stats.intervals import FEWEST_DAYS, Interval, Verdict, mean_interval, verdicts

_BUTTONS = {1: "Again", 2: "Hard", 3: "Good", 4: "Easy"}
_AGAIN, _HARD, _GOOD = 1, 2, 3
_STATES = {
    "first answer": (0,),
    "learning": (LEARNING + 1,),
    "review": (REVIEW + 1, FILTERED + 1),
    "relearning": (RELEARNING + 1,),
}
AS_AGAIN, _TWO_BUTTONS = "Hard counts as Again", "two buttons"
_SELDOM = 0.01  # of all answers to reviews; below it nothing can go wrong with Hard


def am_i_misusing_hard(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> Iterator[Finding]:
    """One answer over all presets, for buttons are a habit of the person."""
    del groups
    rows = learner.session.rows(learner.trials.protocol)
    shares: list[tuple[Cell, ...]] = []
    in_reviews = 0.0
    for state, numbers in _STATES.items():
        ratings = rows.rating[np.isin(rows.state, numbers)]
        if not len(ratings):
            continue
        part = [float((ratings == button).mean()) for button in _BUTTONS]
        shares.append((state, len(ratings), *map(percent, part)))
        if state == "review":
            in_reviews = part[_HARD - 1]
    pressed = f"{percent(in_reviews)} of your answers to reviews"
    buttons = Table("Buttons by state", ("state", "answers", *_BUTTONS.values()), tuple(shares))
    if in_reviews < _SELDOM:
        sentence = f"Hard is {pressed}: too few to matter."
        yield phrased("hard", "all presets", "seldom", (sentence,), (buttons,))
        return
    after, differences = expected_after(learner), what_ifs(learner)
    says = verdicts(differences, equivalence=equivalence)
    sentences = [
        _sentence(says[AS_AGAIN], differences[AS_AGAIN], len(differences)),
        f"Hard is {pressed}.",
    ]
    if _HARD in after:
        recalled, expected = after[_HARD]
        bias = expected.estimate
        low, high = (signed(-100 * each, 1) for each in (expected.high, expected.low))
        sentences.append(
            f"At the review after Hard you recall {percent(recalled)}, {100 * abs(bias):.1f} "
            f"points {'less' if bias > 0 else 'more'} than FSRS expects "
            f"{spanned(low, high, expected)}."
        )
    conclusion = {"better": "yes", "worse": "no", "as good": "no"}.get(says[AS_AGAIN], "can't tell")
    last = Table(
        "The review after each button: recalled, and expected minus recalled",
        ("last button", "reviews", "recalled", "minus recalled"),
        tuple((_BUTTONS[key], bias.reviews, share, bias) for key, (share, bias) in after.items()),
    )
    what_if = Table(
        "What if buttons of the past had meant otherwise",
        ("what if", "minus as it is", "verdict"),
        tuple((name, each, says[name]) for name, each in differences.items()),
    )
    yield phrased("hard", "all presets", conclusion, tuple(sentences), (buttons, last, what_if))


def what_ifs(learner: Learner) -> dict[str, Interval]:
    """Log loss of optimized FSRS-6 if buttons of the past meant otherwise, minus as it is.

    Outcomes are as they are in training and judging. (Reviews answered Hard must not be left
    out instead: that would choose reviews by their outcome.)
    """
    index = learner.trials.test_index
    as_it_is = learner.held_out_losses("optimized")
    configuration = learner.configuration("optimized")
    protocol = configuration.protocol
    rows = learner.session.rows(protocol)
    rating = np.where(rows.rating == _HARD, _AGAIN, rows.rating)
    as_again = replace(
        prepare_trials(learner.log, replace(rows, rating=rating), protocol), y=learner.trials.y
    )
    two_buttons = resolve("FSRS-6-binary-preset", Protocol(rows="anki"))[0]
    p = {
        AS_AGAIN: fit_and_predict(configuration, as_again, learner.context)[0],
        _TWO_BUTTONS: fit_and_predict(
            two_buttons, learner.session.trials(two_buttons.protocol), learner.context
        )[0],
    }
    losses = {name: learner.losses(each, index) for name, each in p.items()}
    return {name: learner.interval(each - as_it_is, index) for name, each in losses.items()}


def expected_after(learner: Learner) -> dict[int, tuple[float, Interval]]:
    """By the last button: share recalled, and what optimized FSRS-6 expects above it.

    Of held-out reviews whose review before was on an earlier day too.
    """
    trials = learner.trials
    index = trials.test_index
    p = learner.held_out("optimized")
    last = trials.history_rating[trials.history_end[index] - 1]
    on_later_day = trials.history_elapsed_days[trials.history_end[index] - 1] > 0
    found = {}
    for button in _BUTTONS:
        mine = (last == button) & on_later_day
        if mine.any():
            bias: FloatArray = p[mine] - trials.y[index[mine]]
            recalled = float(trials.y[index[mine]].mean())
            found[button] = (recalled, learner.interval(bias, index[mine]))
    return found


def _sentence(says: Verdict, difference: Interval, asked: int) -> str:
    told = figures(difference, "review")
    return {
        "better": "Your Hard behaves like Again: reviews are predicted better if it counts as "
        f"forgotten, {told}. Press Again for what you have forgotten.",
        "worse": f"Your Hard means remembered, as FSRS takes it: as Again it makes {told}.",
        "as good": "Whether Hard counts as Again makes no difference that matters: as Again, "
        f"{told}.",
        "can't tell yet": "Whether your Hard behaves like Again can't be told yet: as Again, "
        f"{told}. {what_is_missing(difference, asked)}",
    }[says]


# Learning steps

SITUATIONS = ("first Again", "first Hard", "first Good", "Again, then Good", "lapse")
_BORDERS_MIN = (2.0, 5.0, 10.0, 20.0, 60.0, 240.0)  # of the delays told apart
_FEWEST_ANSWERS = 100
_LEAST_SPREAD = 3.0  # the 90 % quantile of the delays over the 10 % one: else they hardly vary
_TOO_FEW, _HARDLY_VARY = "too few answers", "the delays hardly vary"
_NO_CURVE = "recall does not fall as on the curve"
_TWO_HALVES = 2.24  # standard errors beyond which one of two is by chance in 5 %
_LONGEST_MIN = 100 * 1440.0
_EPSILON = 1e-9


@dataclass(frozen=True, eq=False)
class NextAnswers:
    """Answers (k,) to cards answered before on the same day."""

    situation: IntArray  # place in SITUATIONS, of the answer before
    minutes: FloatArray  # since then
    recalled: FloatArray  # 1.0 or 0.0
    day: IntArray
    preset: IntArray

    def __getitem__(self, keep: NDArray[np.bool_]) -> NextAnswers:
        return NextAnswers(**{name: column[keep] for name, column in self.__dict__.items()})

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


def which_steps(learner: Learner, groups: Sequence[int], equivalence: float) -> Iterator[Finding]:
    """One answer for each preset."""
    del equivalence
    rows = learner.session.rows(learner.trials.protocol)
    answers = next_answers(rows, learner.log.preset_of(learner.log.deck_of(rows.card_id)))
    for group in groups:
        yield _answer(learner, group, answers[answers.preset == group])


def next_answers(rows: Rows, preset: IntArray) -> NextAnswers:
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
    return NextAnswers(
        situation=of_next[kept],
        minutes=rows.elapsed_seconds[order][kept] / 60,
        recalled=(rating[kept] > 1).astype(np.float64),
        day=rows.day_offset[order][kept],
        preset=preset[order][kept],
    )


def fitted_forgetting(answers: NextAnswers, decay: float) -> _Forgetting:
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
    return _Forgetting(
        Interval(log_s, spread.half_width, spread.reviews, spread.days, spread.errors), decay
    )


def follows(curve: _Forgetting, answers: NextAnswers) -> bool:
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


def steps_now(preset: Preset | None) -> dict[str, float | None]:
    """The delay in minutes that a preset's steps set in each situation; None: none within a day.

    Hard on the first step waits for the mean of the first two, or half as long again as the only
    one (ankitects/anki: rslib/src/scheduler/states/steps.rs).
    """
    if preset is None:
        return {}
    learning, relearning = preset.learning_steps, preset.relearning_steps
    first = learning[0] if learning else None
    second = learning[1] if len(learning) > 1 else None
    hard = None if first is None else min(1.5 * first, first + 1440)
    if first is not None and second is not None:
        hard = (first + second) / 2
    lapse = relearning[0] if relearning else None
    return dict(zip(SITUATIONS, (first, hard, second, second, lapse), strict=True))


def _answer(learner: Learner, group: int, answers: NextAnswers) -> Finding:
    preset = learner.log.presets.get(group)
    name = learner.name_of(group)
    desired = (preset and preset.desired_retention) or 0.9
    stored = () if preset is None else preset.parameters_in_force
    decay = as_anki_runs(stored)[20] if stored else fsrs6.DEFAULT[20]
    now, retention = steps_now(preset), percent(desired, 0)
    sentences: list[str] = []
    says: list[str] = []
    curves: list[tuple[Cell, ...]] = []
    delays: list[tuple[Cell, ...]] = []
    few: list[str] = []
    for place, situation in enumerate(SITUATIONS):
        mine = answers[answers.situation == place]
        if not len(mine):
            continue
        unknown = _why_not(mine)
        curve = fitted_forgetting(mine, decay) if unknown is None else None
        if curve is not None and not follows(curve, mine):
            unknown, curve = _NO_CURVE, None
        delays += _by_delay(situation, mine, curve)
        usual = _duration(float(np.median(mine.minutes)))
        recalled = percent(float(mine.recalled.mean()), 0)
        verdict, shown = "can't tell", str(unknown)
        if curve is not None:
            sentence, verdict, shown = _judged(situation, mine, curve, desired, now.get(situation))
            sentences.append(sentence)
        elif unknown == _TOO_FEW:
            few.append(_with_article(situation))
        else:
            share = mean_interval(mine.recalled, mine.day)
            bounds = spanned(percent(share.low, 0), percent(min(share.high, 1.0), 0), share)
            sentences.append(
                f"Can't tell after {_with_article(situation)}: {unknown}. After {usual}, as usual, "
                f"{recalled} are recalled {bounds}, {retention} desired."
            )
        says.append(verdict)
        curves.append((situation, len(mine), usual, recalled, shown, verdict))
    if few:
        sentences.append(
            f"Can't tell after {listed(few)}: {_FEWEST_ANSWERS} answers on {FEWEST_DAYS} days are "
            "needed."
        )
    if not len(answers):
        sentences.append("Can't tell: no card has been answered twice on a day.")
    known = {each for each in says if each != "can't tell"}
    conclusion = "can't tell" if not known else known.pop() if len(known) == 1 else "see each step"
    tables = (
        Table(
            f"{name}: when recall meets {retention} within the day",
            ("after", "answers", "usual delay", "recalled", f"{retention} after", "step"),
            tuple(curves),
        ),
        Table(
            f"{name}: recall at the next answer, by delay",
            ("after", "delay", "answers", "recalled", "curve"),
            tuple(delays),
        ),
    )
    return phrased("steps", name, conclusion, tuple(sentences), tables if curves else ())


def _why_not(answers: NextAnswers) -> str | None:
    """Why no curve can be fitted, in words."""
    if len(answers) < _FEWEST_ANSWERS or len(np.unique(answers.day)) < FEWEST_DAYS:
        return _TOO_FEW
    short, long = np.quantile(answers.minutes, (0.1, 0.9))
    return _HARDLY_VARY if long < _LEAST_SPREAD * short else None


def _judged(
    situation: str, answers: NextAnswers, curve: _Forgetting, desired: float, step: float | None
) -> tuple[str, str, str]:
    """A sentence, what it says of the step, and the delay as the table shows it."""
    estimate, low, high = curve.delay(desired)
    shortest, longest = np.quantile(answers.minutes, (0.05, 0.95))
    share = percent(desired, 0)
    after = f"After {_with_article(situation)}"
    yours = "" if step is None else f" Your step is {_duration(step)}."
    too_short, too_long = high < shortest, low > longest
    if too_short or too_long:
        bound, of = (shortest, "shortest") if too_short else (longest, "longest")
        even = f"below {share} already" if too_short else f"above {share} even"
        had = f"the {of} delays that you have had ({_duration(bound)})"
        sentence = f"{after} recall is {even} at {had}."
        verdict = "can't tell"
        if step is not None and (step >= bound if too_short else step <= bound):
            verdict = "shorter" if too_short else "longer"
        return sentence + yours, verdict, f"{'<' if too_short else '>'} {_duration(bound)}"
    sentence = (
        f"{after} recall falls to {share} after about {_duration(estimate)} "
        f"(95 %: {_duration(low)} to {_duration(high)})."
    )
    verdict = "can't tell"
    if step is not None:
        verdict = "longer" if step < low else "shorter" if step > high else "as it is"
    return sentence + yours, verdict, f"{_duration(estimate)}"


def _by_delay(
    situation: str, answers: NextAnswers, curve: _Forgetting | None
) -> Iterator[tuple[Cell, ...]]:
    place = np.searchsorted(_BORDERS_MIN, answers.minutes, side="right")
    for bin_ in np.unique(place).tolist():
        mine = answers[place == bin_]
        begin = "0" if not bin_ else _duration(_BORDERS_MIN[bin_ - 1])
        end = "" if bin_ == len(_BORDERS_MIN) else _duration(_BORDERS_MIN[bin_])
        words = f"up to {end}" if not bin_ else f"{begin} to {end}" if end else f"over {begin}"
        expected = None if curve is None else float(curve.recall(mine.minutes).mean())
        recalled = mean_interval(mine.recalled, mine.day)
        if recalled.days < FEWEST_DAYS_SHOWN or mine.recalled.min() == mine.recalled.max():
            recalled = replace(recalled, half_width=math.nan)
        yield situation, words, len(mine), recalled, expected


def _recall(minutes: FloatArray, stability: float, decay: float) -> FloatArray:
    found: FloatArray = np.power(1 + _factor(decay) * minutes / stability, -decay)
    return found


def _factor(decay: float) -> float:
    """Such that R(S) is 0.9."""
    return float(0.9 ** (-1 / decay)) - 1


def _with_article(situation: str) -> str:
    return "Again and then Good" if situation == "Again, then Good" else f"a {situation}"


def _duration(minutes: float) -> str:
    """ "40 s", "1.5 min", "12 min", "3.1 h", "2.4 days"."""
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    if minutes < 60:
        return f"{minutes:.2g} min"
    if minutes < 1440:
        return f"{minutes / 60:.2g} h"
    return f"{minutes / 1440:,.1f} days"
