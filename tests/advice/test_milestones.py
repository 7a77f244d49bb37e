"""Advice on stored parameters is weighed at milestones, so that it does not come and go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.advice import cut_log
from srs_eval.advice import findings as f
from srs_eval.advice import parameters, population, shown
from srs_eval.advice.acts import ActKind, find_acts
from srs_eval.advice.candidates import Learner
from srs_eval.advice.milestones import (
    ReviewsForAdvice,
    select_earlier_reviews,
    select_reviews,
)
from srs_eval.advice.parameters import assess_parameters
from srs_eval.advice.shown.acts import render_acts
from srs_eval.data.reviews import IntArray, ReviewLog
from srs_eval.models import fsrs6

PRESET = 100


@pytest.fixture
def unseen(learner: Learner) -> IntArray:
    index = learner.since_optimized(PRESET)
    assert index is not None
    return index


@pytest.mark.parametrize(
    ("count", "last", "earlier"),
    [(99, 99, []), (124, 100, []), (155, 125, [100]), (305, 303, [243, 195, 156])],
)
def test_reviews_count_up_to_the_last_milestone(
    monkeypatch: pytest.MonkeyPatch,
    learner: Learner,
    unseen: IntArray,
    count: int,
    last: int,
    earlier: list[int],
) -> None:
    positions = learner.positions(PRESET)
    monkeypatch.setattr(Learner, "since_optimized", lambda *_: unseen[:count])
    reviews = select_reviews(learner, PRESET)
    assert reviews.unseen is not None
    assert len(reviews.unseen) == last
    if count >= 100:
        assert np.array_equal(reviews.index, positions[positions <= unseen[last - 1]])
    counts = []
    for before in select_earlier_reviews(learner, PRESET):
        assert before.unseen is not None
        counts.append(len(before.unseen))
    assert counts == earlier


def test_parameters_of_unknown_age_have_milestones_of_all_reviews(
    monkeypatch: pytest.MonkeyPatch, learner: Learner
) -> None:
    monkeypatch.setattr(Learner, "positions", lambda *_: np.arange(160))
    monkeypatch.setattr(Learner, "since_optimized", lambda *_: None)
    reviews = select_reviews(learner, PRESET)
    assert reviews.unseen is None
    assert np.array_equal(reviews.index, np.arange(156))


def test_active_defaults_have_no_milestones(
    monkeypatch: pytest.MonkeyPatch, learner: Learner
) -> None:
    monkeypatch.setattr(Learner, "stored", lambda *_: ())
    assert len(select_reviews(learner, PRESET).index) == len(learner.positions(PRESET))
    assert not select_earlier_reviews(learner, PRESET)


def test_advice_stays_the_same_between_milestones(
    log: ReviewLog, learner: Learner, unseen: IntArray
) -> None:
    """Check 130 and 150 unseen reviews, both after the milestone of 125, and 160 after the next."""
    findings = []
    for count in (130, 150, 160):
        cut = Learner.of(cut_log(log, learner, int(unseen[count - 1]) + 1))
        findings.append(next(assess_parameters(cut, [PRESET], {}, {})))
    first, second, later = findings
    assert (first.reviews, second.reviews, later.reviews) == (125, 125, 156)
    assert first.interval is not None
    assert second.interval is not None
    assert first.interval.estimate == second.interval.estimate
    assert first.recommendation == second.recommendation
    assert first.probability == pytest.approx(second.probability, abs=0.01)


def _assess_with_gains(
    monkeypatch: pytest.MonkeyPatch,
    learner: Learner,
    shares: tuple[float, ...],
    *,
    with_late: bool = False,
) -> f.Finding:
    """Assess the preset if these shares of people gain by a refit, at the last milestones.

    The latest is first; at earlier ones, half of the people gain.
    """
    milestones = [select_reviews(learner, PRESET), *select_earlier_reviews(learner, PRESET)]
    share_by_reviews = {}
    for reviews, share in zip(milestones, shares, strict=False):
        share_by_reviews[len(reviews.index)] = share

    def make_prior(stored: population.StoredParameters) -> population.GainPrior:
        gainers = round(200 * share_by_reviews.get(stored.reviews, 0.5))
        difference = np.where(np.arange(200) < gainers, -0.02, 0.003)
        return population.GainPrior(difference, np.zeros(200))

    monkeypatch.setattr(population, "refit_prior", make_prior)
    monkeypatch.setattr(parameters, "_compare_unseen", lambda *_: None)
    # Nothing may be known from another test.
    fresh = replace(learner, _memo={})
    return next(assess_parameters(fresh, [PRESET], {}, {}, with_late=with_late))


@pytest.mark.parametrize(
    ("shares", "is_advised", "is_still_advised"),
    [
        ((0.9, 0.5), True, False),  # likely now
        ((0.7, 0.9), True, True),  # likely before, and not clearly refuted
        ((0.7, 0.7, 0.7, 0.9), True, True),
        ((0.7, 0.7, 0.5, 0.9), False, False),  # refuted in between
        ((0.7, 0.7, 0.7, 0.7), False, False),  # never likely
        ((0.55, 0.9), False, False),  # refuted
    ],
)
def test_change_that_was_likely_is_advised_until_refuted(
    monkeypatch: pytest.MonkeyPatch,
    learner: Learner,
    shares: tuple[float, ...],
    is_advised: bool,
    is_still_advised: bool,
) -> None:
    finding = _assess_with_gains(monkeypatch, learner, shares)
    assert isinstance(finding.evidence, f.PresetParameters)
    assert (finding.parameters is not None) == is_advised
    assert finding.evidence.is_still_advised == is_still_advised
    text = " ".join(shown.sentences(finding))
    assert ("This change was likely to help earlier" in text) == is_still_advised
    (act,) = find_acts([finding], ())
    assert (act.kind == ActKind.CHANGE_NOTHING) == (not is_advised)
    assert ("best bet" in render_acts([act])[0].right_text) == is_still_advised


def test_optimize_takes_the_place_of_taught_parameters_that_were_advised(
    monkeypatch: pytest.MonkeyPatch, learner: Learner
) -> None:
    """Check a preset whose reviews are no longer few, and one whose reviews never were."""
    last_count = len(select_reviews(learner, PRESET).index)
    likely = population.GainPrior(np.where(np.arange(200) < 180, -0.02, 0.003), np.zeros(200))
    monkeypatch.setattr(population, "taught_prior", lambda *_: likely)
    monkeypatch.setattr(Learner, "fit_taught", lambda *_: list(fsrs6.DEFAULT))
    monkeypatch.setattr(parameters, "_were_taught", lambda *_: False)

    def find_late_candidates(_: Learner, __: int, reviews: ReviewsForAdvice) -> tuple[str, ...]:
        return (f.TAUGHT,) if len(reviews.index) < last_count else ()

    for with_late in (True, False):
        monkeypatch.setattr(parameters, "_find_late_candidates", find_late_candidates)
        finding = _assess_with_gains(monkeypatch, learner, (0.7, 0.7), with_late=with_late)
        assert finding.recommendation == f.Recommendation.OPTIMIZE
        assert (finding.parameters is not None) == with_late
