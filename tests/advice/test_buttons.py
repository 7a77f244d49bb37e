"""Habits with the Hard button, and learning steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from srs_eval.advice import buttons, shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import Finding, HardButton, StepTiming, StepTimings
from srs_eval.advice.questions import compare
from srs_eval.data.reviews import ReviewLog, Rows
from tests.helpers.advice import replace_with_hard

# Hard


def test_hard_after_forgetting_differs_from_hard_after_recall(log: ReviewLog) -> None:
    loss = {}
    for button in (1, 3):
        learner = Learner.of(replace_with_hard(log, button))
        loss[button] = buttons._compare_hard_as_again(learner)
        (hard,) = (
            recall
            for recall in buttons.measure_recall_after_buttons(learner)
            if recall.button == "Hard"
        )
        assert 0 < hard.recalled < 1
        assert hard.bias.reviews > 50
    assert loss[1].estimate < 0 < loss[3].estimate
    assert loss[3].low > 0


def test_log_without_hard_loses_nothing_by_hard_as_again(learner: Learner) -> None:
    quiet = replace_with_hard(learner.log, 9)
    assert quiet.entries is not None
    rating = np.where(quiet.entries.rating == 2, 3, quiet.entries.rating)
    none = Learner.of(replace(quiet, entries=replace(quiet.entries, rating=rating)))
    assert buttons._compare_hard_as_again(none).estimate == 0
    (answer,) = compare(none.log, questions=["hard"])
    assert answer.conclusion == "seldom"
    assert isinstance(answer.evidence, HardButton)
    assert answer.evidence.share == 0


# Steps


def _draw_answers_after(situation: str, count: int, stability: float, seed: int = 1) -> Any:
    """Return next answers on 60 days, 1 to 60 minutes later, of a memory that follows FSRS."""
    random = np.random.default_rng(seed)
    minutes = np.exp(random.uniform(0, np.log(60), count))
    recall = (1 + (0.9 ** (-1 / 0.1542) - 1) * minutes / stability) ** -0.1542
    return buttons._NextAnswers(
        np.full(count, buttons._SITUATIONS.index(situation)),
        minutes,
        (random.random(count) < recall).astype(np.float64),
        np.sort(random.integers(0, 60, count)),
        np.full(count, 100),
    )


def test_next_answers_of_a_day_are_sorted_by_situation() -> None:
    minute = 60
    cards = {  # (rating, state, days since, seconds since) of each answer
        1: [(1, 0, -1, -1), (3, 1, 0, minute), (3, 1, 0, 10 * minute), (1, 2, 3, 3 * 86_400)],
        2: [(3, 0, -1, -1), (1, 1, 0, 20 * minute), (3, 3, 1, 86_400)],
        3: [(2, 0, -1, -1), (3, 1, 1, 86_400)],  # the next answer is on another day
        4: [(4, 0, -1, -1), (3, 1, 0, minute)],  # Easy leaves the steps
        5: [(3, 0, -1, -1), (1, 2, 4, 4 * 86_400), (3, 3, 0, 5 * minute), (3, 3, 0, minute)],
    }
    lines = []
    for card_id, answers in cards.items():
        lines += [(card_id, *answer) for answer in answers]
    card, rating, state, days, seconds = np.array(lines, np.int64).T
    review_th = [np.count_nonzero(card[:k] == card_id) for k, card_id in enumerate(card)]
    order = np.argsort(review_th, kind="stable")
    columns = (card, np.zeros_like(card), rating, state, card, days, seconds)
    rows = Rows(*(column[order] for column in columns))
    next_answers = buttons._collect_next_answers(rows, rows.card_id)
    names = [buttons._SITUATIONS[k] for k in next_answers.situation]
    assert sorted(
        zip(
            next_answers.preset.tolist(),
            names,
            next_answers.minutes,
            next_answers.recalled,
            strict=True,
        )
    ) == [
        (1, "Again, then Good", 10.0, 1.0),
        (1, "first Again", 1.0, 1.0),
        (2, "first Good", 20.0, 0.0),
        (5, "lapse", 5.0, 1.0),
    ]


@pytest.mark.parametrize("stability", [3.0, 12.0, 40.0])
def test_forgetting_curve_recovers_the_stability_of_a_day(stability: float) -> None:
    hits = 0
    for seed in range(20):
        answers = _draw_answers_after("lapse", 400, stability, seed)
        curve = buttons._fit_forgetting_curve(answers, 0.1542)
        assert buttons.follows_curve(curve, answers)
        estimate, low, high = curve.delay(0.9)
        assert estimate == pytest.approx(np.exp(curve.log_stability.estimate))  # R(S) = 0.9
        assert curve.recall(np.array([curve.delay(0.8)[0]]))[0] == pytest.approx(0.8)
        hits += low <= stability <= high
    assert hits >= 17


def test_steps_are_compared_with_the_desired_delay(learner: Learner) -> None:
    preset = replace(learner.log.presets[100], learning_steps=(1.0, 10.0), relearning_steps=(15.0,))
    assert buttons._current_delays(preset) == {
        "first Again": 1.0,
        "first Hard": 5.5,
        "first Good": 10.0,
        "Again, then Good": 10.0,
        "lapse": 15.0,
    }
    learner = replace(learner, log=replace(learner.log, presets={100: preset}), _memo={})

    def assess(answers: Any) -> tuple[Finding, StepTiming]:
        finding = buttons._assess_preset_steps(learner, 100, answers)
        assert isinstance(finding.evidence, StepTimings)
        (step,) = finding.evidence.steps
        assert finding.conclusion == step.conclusion
        return finding, step

    first, longer = assess(_draw_answers_after("first Again", 2_000, 12.0))
    assert (longer.conclusion, longer.step) == ("longer", 1.0)
    assert longer.delay is not None
    assert 10 < longer.delay[0] < 20
    assert shown.line([first]).startswith(
        "Learning step after Again: 1 min is too short; recall falls to 90 % after about 1"
    )
    assert assess(_draw_answers_after("lapse", 2_000, 5.0))[1].conclusion == "shorter"
    assert assess(_draw_answers_after("lapse", 2_000, 15.0))[1].conclusion == "as it is"
    far, beyond = assess(_draw_answers_after("lapse", 2_000, 2_000.0))
    assert beyond.conclusion == "longer"
    assert "your longest delay so far, you still recall more than 90 %." in shown.line([far])
    assert assess(_draw_answers_after("lapse", 99, 12.0))[1].unknown_reason == "few"
    same = _draw_answers_after("lapse", 2_000, 12.0)
    narrow = assess(replace(same, minutes=10 + same.minutes / 20))[1]
    assert (narrow.conclusion, narrow.unknown_reason) == ("can't tell", "alike")
    flat = assess(replace(same, recalled=(np.arange(2_000) % 4 > 0).astype(np.float64)))[1]
    assert flat.unknown_reason == "no curve"
    assert flat.answers == 2_000


@pytest.mark.parametrize(("is_flat", "most_often"), [(True, "can't tell"), (False, "shorter")])
def test_flat_recall_is_no_reason_for_a_shorter_step(is_flat: bool, most_often: str) -> None:
    """Check a step of 15 minutes where recall is 87 % at all delays, or falls to 90 % at 5."""
    conclusions = []
    for seed in range(20):
        answers = _draw_answers_after("lapse", 400, 5.0, seed)
        if is_flat:
            recalled = np.random.default_rng(seed).random(400) < 0.87
            answers = replace(answers, recalled=recalled.astype(np.float64))
        step = buttons._assess_step("lapse", answers, 0.1542, 0.9, 15.0)
        conclusions.append(step.conclusion)
        if is_flat:
            assert step.unknown_reason in ("flat", "no curve")
    assert conclusions.count(most_often) >= 18


def test_steps_that_never_vary_cannot_be_told(log: ReviewLog) -> None:
    answers = compare(log, questions=["steps"])
    assert [answer.subject for answer in answers] == ["Preset 0", "Preset 1"]
    assert all(answer.conclusion == "can't tell" for answer in answers)
