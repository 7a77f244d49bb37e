"""Check when to optimize next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest

from srs_eval.advice import findings as f
from srs_eval.advice import next_optimize, parameters, shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import Recommendation
from srs_eval.advice.next_optimize import assess_next_optimization
from srs_eval.advice.questions import QuestionContext, ask
from srs_eval.data.reviews import ReviewLog
from srs_eval.stats.intervals import Interval

GROUP = 100


def assess(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, recommendation: Recommendation
) -> tuple[f.Finding, f.NextOptimization]:
    """Assess one preset that should be optimized so often."""

    def frequency(learner: Learner, groups: Sequence[int]) -> list[f.Finding]:
        evidence = f.OptimizationFrequency("as good")
        names = [learner.group_name(group) for group in groups]
        return [f.Finding("often", name, recommendation, evidence=evidence) for name in names]

    monkeypatch.setattr(next_optimize, "assess_optimization_frequency", frequency)
    finding = next(assess_next_optimization(learner, [GROUP]))
    return finding, f.get_evidence(finding, f.NextOptimization)


def with_preset(log: ReviewLog, **changes: object) -> ReviewLog:
    return replace(log, presets={**log.presets, GROUP: replace(log.presets[GROUP], **changes)})


def test_all_recommendations_on_frequency_have_a_growth() -> None:
    for growth in parameters._GROWTH_STEPS[1:]:
        assert next_optimize._GROWTH[Recommendation(f"every +{100 * growth:.0f} %")] == growth


def test_reviews_missing_are_counted_from_the_last_change(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted_s = learner.log.presets[GROUP].modified_s
    assert fitted_s is not None
    index = learner.positions(GROUP)
    then = int((learner.time_s[index] <= fitted_s).sum())
    now_s = float(learner.time_s.max()) + 10
    monkeypatch.setattr("srs_eval.advice.candidates.time.time", lambda: now_s)
    finding, evidence = assess(learner, monkeypatch, Recommendation.EVERY_100_PERCENT)
    assert evidence.conclusion == "later"
    assert (evidence.reviews_then, evidence.reviews_now) == (then, len(index))
    assert evidence.missing is not None
    assert evidence.missing.reviews == 2 * then - len(index)
    pace = (learner.time_s[index] > now_s - 30 * 86_400).sum() / 30
    assert evidence.missing.date is not None
    wait = date.fromisoformat(evidence.missing.date) - date.fromtimestamp(now_s)
    assert wait / timedelta(1) == pytest.approx(evidence.missing.reviews / pace, abs=1.5)
    assert f"after {evidence.missing.reviews:,} more reviews" in shown.sentences(finding)[0]


def test_reviews_that_have_grown_enough_are_due(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding, evidence = assess(learner, monkeypatch, Recommendation.EVERY_10_PERCENT)
    assert evidence.conclusion == "now"
    assert shown.line([finding]) == "it is time to check your parameters again"
    assert f"{evidence.reviews_now:,} now" in shown.sentences(finding)[1]


def test_preset_with_defaults_begins_to_count_today(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = Learner.of(with_preset(log, fsrs_parameters={}))
    finding, evidence = assess(learner, monkeypatch, Recommendation.EVERY_25_PERCENT)
    assert evidence.conclusion == "defaults"
    assert evidence.missing is not None
    assert evidence.missing.reviews == np.ceil(evidence.reviews_now / 4)
    assert "not optimized yet" in shown.sentences(finding)[0]


def test_unknown_date_of_the_last_change_is_said(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    undated = replace(with_preset(log, modified_s=None), optimized_before_s=None)
    finding, evidence = assess(Learner.of(undated), monkeypatch, Recommendation.EVERY_10_PERCENT)
    assert evidence.conclusion == "unknown"
    assert "does not say when" in shown.sentences(finding)[1]


def test_growth_that_takes_years_is_never(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f, "MAX_WAIT_DAYS", 1)
    finding, evidence = assess(learner, monkeypatch, Recommendation.EVERY_100_PERCENT)
    assert evidence.conclusion == "never"
    assert shown.line([finding]) == "not in the next two years"


def test_how_often_is_computed_once_for_both_questions(
    log: ReviewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def estimate(learner: Learner, group: int) -> dict[str, Interval]:
        calls.append(group)
        return {"every +10 %": learner.interval(np.zeros(20), np.arange(20))}

    monkeypatch.setattr(parameters, "_estimate_staleness_costs", estimate)
    context = QuestionContext(log)
    often = list(ask("often", context))
    assert calls == [GROUP]  # the other preset has too few reviews
    following = list(ask("next", context))
    assert calls == [GROUP]
    assert [finding.subject for finding in following] == [finding.subject for finding in often]
