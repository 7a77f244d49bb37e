"""Am I misusing Hard? How often it is pressed, what follows, and what if it meant otherwise.

FSRS takes Hard as remembered. Where it is pressed for what was forgotten, recall after it is
lower than FSRS expects, and later reviews are predicted better if it counts as Again in their
histories. What is judged stays the same: Hard is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from srs_eval.advice.answers import (
    Answer,
    Cell,
    Table,
    better_by,
    signed,
    spanned,
    sure,
    what_is_missing,
)
from srs_eval.advice.candidates import Learner
from srs_eval.data.errors import counted
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FILTERED, LEARNING, RELEARNING, REVIEW, FloatArray
from srs_eval.data.trials import prepare_trials
from srs_eval.engine.session import fit_and_predict
from srs_eval.models.configurations import resolve
from srs_eval.stats.intervals import Interval, Verdict, verdicts

_BUTTONS = {1: "Again", 2: "Hard", 3: "Good", 4: "Easy"}
AGAIN, HARD = 1, 2
STATES = {
    "first answer": (0,),
    "learning": (LEARNING + 1,),
    "review": (REVIEW + 1, FILTERED + 1),
    "relearning": (RELEARNING + 1,),
}
AS_AGAIN, TWO_BUTTONS = "Hard counts as Again", "two buttons"
_SELDOM = 0.01  # of all answers to reviews; below it nothing can go wrong with Hard


def am_i_misusing_hard(
    learner: Learner, groups: Sequence[int], equivalence: float
) -> Iterator[Answer]:
    """One answer over all presets, for buttons are a habit of the person."""
    del groups
    rows = learner.session.rows(learner.trials.protocol)
    shares: list[tuple[Cell, ...]] = []
    in_reviews = 0.0
    for state, numbers in STATES.items():
        ratings = rows.rating[np.isin(rows.state, numbers)]
        if not len(ratings):
            continue
        part = [float((ratings == button).mean()) for button in _BUTTONS]
        shares.append((state, len(ratings), *(f"{each:.1%}".replace("%", " %") for each in part)))
        if state == "review":
            in_reviews = part[HARD - 1]
    pressed = f"{in_reviews:.1%} of your answers to reviews".replace("%", " %")
    buttons = Table("Buttons by state", ("state", "answers", *_BUTTONS.values()), tuple(shares))
    if in_reviews < _SELDOM:
        sentence = f"Hard is {pressed}: too few to matter."
        yield Answer("hard", "all presets", "seldom", (sentence,), (buttons,))
        return
    after = expected_after(learner)
    differences = what_ifs(learner)
    says = verdicts(differences, equivalence=equivalence)
    sentences = [
        _sentence(says[AS_AGAIN], differences[AS_AGAIN], len(differences)),
        f"Hard is {pressed}.",
    ]
    if HARD in after:
        recalled, expected = after[HARD]
        bias = expected.estimate
        sentences.append(
            f"At the review after Hard you recall {recalled:.1%}, ".replace("%", " %")
            + f"{100 * abs(bias):.1f} points {'less' if bias > 0 else 'more'} than FSRS expects "
            + spanned(signed(100 * -expected.high, 1), signed(100 * -expected.low, 1), expected)
            + "."
        )
    answered = tuple(
        (_BUTTONS[button], each.reviews, recalled, each)
        for button, (recalled, each) in after.items()
    )
    conclusion = {"better": "yes", "worse": "no", "as good": "no"}.get(says[AS_AGAIN], "can't tell")
    yield Answer(
        "hard",
        "all presets",
        conclusion,
        tuple(sentences),
        (
            buttons,
            Table(
                "The review after each button: recalled, and expected minus recalled",
                ("last button", "reviews", "recalled", "minus recalled"),
                answered,
            ),
            Table(
                "What if buttons of the past had meant otherwise",
                ("what if", "minus as it is", "verdict"),
                tuple((name, each, says[name]) for name, each in differences.items()),
            ),
        ),
    )


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
    rating = np.where(rows.rating == HARD, AGAIN, rows.rating)
    as_again = replace(
        prepare_trials(learner.log, replace(rows, rating=rating), protocol), y=learner.trials.y
    )
    two_buttons = resolve("FSRS-6-binary-preset", Protocol(rows="anki"))[0]
    p = {
        AS_AGAIN: fit_and_predict(configuration, as_again, learner.context)[0],
        TWO_BUTTONS: fit_and_predict(
            two_buttons, learner.session.trials(two_buttons.protocol), learner.context
        )[0],
    }
    return {
        name: learner.interval(learner.losses(each, index) - as_it_is, index)
        for name, each in p.items()
    }


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
    figures = (
        f"log loss {better_by(difference.estimate)} on {counted(difference.reviews, 'review')} "
        f"{sure(difference)}"
    )
    match says:
        case "better":
            return (
                "Your Hard behaves like Again: reviews are predicted better if it counts as "
                f"forgotten, {figures}. Press Again for what you have forgotten."
            )
        case "worse":
            return f"Your Hard means remembered, as FSRS takes it: as Again it makes {figures}."
        case "as good":
            return (
                "Whether Hard counts as Again makes no difference that matters: as Again, "
                f"{figures}."
            )
    return (
        f"Whether your Hard behaves like Again can't be told yet: as Again, {figures}. "
        + what_is_missing(difference, asked)
    )
