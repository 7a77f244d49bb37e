"""Check why difficulty is near 10, and whether that does harm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srs_eval.advice import difficulty, shown
from srs_eval.advice import findings as f
from srs_eval.advice.candidates import Learner
from srs_eval.advice.difficulty import (
    _count_good_to_nine,
    _count_reviews_of_all,
    _judge,
    assess_difficulty,
    compute_difficulties,
)
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import Interval

W = np.array(fsrs6.DEFAULT)


def assess(learner: Learner, monkeypatch: pytest.MonkeyPatch, w6: float) -> f.Finding:
    """Assess the first preset with another effect of the buttons on difficulty."""
    values = list(fsrs6.DEFAULT)
    values[6] = w6
    monkeypatch.setattr(Learner, "active_parameters", lambda *_: values)
    return next(assess_difficulty(learner, [100]))


def test_compute_difficulties_follows_each_card(learner: Learner) -> None:
    """Compare with a plain loop over the answers, by FSRS-6's published formula."""
    trials = learner.trials
    after = compute_difficulties(trials, W)
    expected = np.empty(len(after))
    first_easy = W[4] - np.exp(3 * W[5]) + 1
    current = 0.0
    card = None
    for row, rating in enumerate(trials.history_rating.tolist()):
        if trials.history_card_id[row] != card:
            card = trials.history_card_id[row]
            current = W[4] - np.exp(W[5] * (rating - 1)) + 1
        else:
            damped = current - W[6] * (rating - 3) * (10 - current) / 9
            current = W[7] * first_easy + (1 - W[7]) * damped
        current = min(max(current, 1.0), 10.0)
        expected[row] = current
    assert after == pytest.approx(expected)


def test_count_good_to_nine_is_faster_with_more_reversion() -> None:
    slow = _count_good_to_nine(9.9, W)
    w = W.copy()
    w[7] = 0.1
    fast = _count_good_to_nine(9.9, w)
    w[7] = 0.0
    assert fast == 1
    assert slow is not None
    assert slow > 10 * fast
    assert _count_good_to_nine(9.9, w) is None


@pytest.mark.parametrize(
    ("estimate", "half_width", "reviews", "conclusion"),
    [
        (0.0, 0.02, 500, "as expected"),
        (-0.06, 0.03, 500, "below"),
        (0.06, 0.03, 500, "above"),
        (-0.02, 0.015, 500, "can't tell"),
        (-0.06, 0.08, 500, "can't tell"),
        (-0.06, 0.03, 90, "can't tell"),
    ],
)
def test_judge_needs_reviews_and_three_points(
    estimate: float, half_width: float, reviews: int, conclusion: str
) -> None:
    difference = Interval(estimate, half_width, reviews, 60, ((half_width / 2, 60),))
    judged, missing = _judge(difference)
    assert judged == conclusion
    assert (missing is not None) == (conclusion == f.CANT_TELL)


def test_missing_reviews_are_of_all_cards() -> None:
    of_hard_cards = f.MissingData(reviews=229, days=3)
    assert _count_reviews_of_all(of_hard_cards, 0.5) == f.MissingData(reviews=458, days=3)
    assert _count_reviews_of_all(f.MissingData(days=3), 0.5) == f.MissingData(days=3)
    assert _count_reviews_of_all(None, 0.5) is None


def test_more_effect_of_again_brings_more_cards_near_ten(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    gentle = f.get_evidence(assess(learner, monkeypatch, 0.05), f.Difficulty)
    strong = f.get_evidence(assess(learner, monkeypatch, 3.9), f.Difficulty)
    assert gentle.conclusion == "few"
    assert strong.cards_near_ten > gentle.cards_near_ten
    assert strong.cards == gentle.cards
    assert strong.answers is not None
    assert strong.other_answers is not None
    assert strong.answers.again > strong.other_answers.again


def test_groups_hold_every_review_once(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = assess(learner, monkeypatch, 3.0)
    evidence = f.get_evidence(finding, f.Difficulty)
    assert sum(group.recalled.reviews for group in evidence.groups) == finding.reviews
    assert evidence.difference is not None
    assert evidence.groups[-1].recalled.reviews == evidence.difference.reviews


def test_reviews_are_those_unseen_by_the_parameters_if_enough(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = assess(learner, monkeypatch, 3.0)
    unseen = learner.since_optimized(100)
    assert unseen is not None
    assert finding.reviews == len(unseen)
    assert f.get_evidence(finding, f.Difficulty).is_unseen
    monkeypatch.setattr(difficulty, "_MIN_REVIEWS", 10_000)
    finding = assess(learner, monkeypatch, 3.0)
    assert finding.reviews == len(learner.positions(100))
    assert not f.get_evidence(finding, f.Difficulty).is_unseen


@pytest.mark.parametrize(
    ("conclusion", "words"),
    [
        ("as expected", "That does no harm"),
        ("below", "come too late"),
        ("above", "come too early"),
    ],
)
def test_sentences_say_whether_it_does_harm(conclusion: str, words: str) -> None:
    evidence = f.Difficulty("few", 300, 134, after_answer=(8.3, 6.7, 5.0, 3.3), good_to_nine=60)
    evidence = replace(evidence, conclusion=conclusion)
    finding = f.Finding("difficulty", "Default", evidence=evidence)
    answer, buttons = shown.sentences(finding)
    assert answer.startswith(
        "134 of the 300 cards that you reviewed after learning them (45 %) have a difficulty "
        "above 9."
    )
    assert words in answer
    assert "it takes 60 Goods" in buttons
