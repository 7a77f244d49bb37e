"""Check what is said after a failed health check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srs_eval.advice import findings as f
from srs_eval.advice import fsrs, health_remedies, shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.health_remedies import assess_health_remedies
from srs_eval.stats.intervals import Interval

Cause = f.FailedCheckCause
PASSED = f.HealthCheck("26.08", 0.3, 0.05, 1.0, 1.0, 1.11, 1.53)
FAILED = replace(PASSED, log_loss_ratio=1.2, rmse_ratio=1.6)


def set_check(monkeypatch: pytest.MonkeyPatch, check: f.HealthCheck | None) -> None:
    monkeypatch.setattr(fsrs, "check_health", lambda *_: check)


def set_causes(monkeypatch: pytest.MonkeyPatch, *, hard: str, date: str | None, decks: int) -> None:
    """Replace the findings that may explain a failed check."""
    button = f.Finding("hard", f.ALL_PRESETS, evidence=f.HardButton(hard, 0.2))
    dated = f.IgnoreBefore("empty" if date is None else "maybe", best=date)
    sharing = f.Finding("split", "Preset 0", evidence=f.Sharing("deck", decks))
    if decks:
        sharing = replace(sharing, recommendation=f.Recommendation.SPLIT)
    monkeypatch.setattr(health_remedies, "assess_hard_button", lambda _: button)
    monkeypatch.setattr(
        health_remedies,
        "assess_ignore_dates",
        lambda *_: iter([f.Finding("ignore", "Preset 0", evidence=dated)]),
    )
    monkeypatch.setattr(health_remedies, "assess_decks", lambda *_: sharing)


def assess(learner: Learner) -> tuple[f.Finding, f.HealthRemedies]:
    finding = next(assess_health_remedies(learner, [100]))
    return finding, f.get_evidence(finding, f.HealthRemedies)


@pytest.fixture
def fresh(learner: Learner) -> Learner:
    """Return the learner without results of earlier tests."""
    kept = {key: value for key, value in learner._memo.items() if key[0] != "health check"}
    return replace(learner, _memo=kept)


@pytest.mark.parametrize(("check", "conclusion"), [(PASSED, "passed"), (None, "not checked")])
def test_other_questions_are_asked_only_after_a_failed_check(
    fresh: Learner,
    monkeypatch: pytest.MonkeyPatch,
    check: f.HealthCheck | None,
    conclusion: str,
) -> None:
    def refuse(*_: object) -> f.Finding:
        raise AssertionError("asked in vain")

    set_check(monkeypatch, check)
    for name in ("assess_hard_button", "assess_ignore_dates", "assess_decks", "find_leeches"):
        monkeypatch.setattr(health_remedies, name, refuse)
    finding, evidence = assess(fresh)
    assert evidence.conclusion == conclusion
    assert len(shown.sentences(finding)) == 1


def test_failed_check_names_the_causes_that_other_findings_show(
    fresh: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_check(monkeypatch, FAILED)
    set_causes(monkeypatch, hard="yes", date="2024-01-01", decks=3)
    leech = f.Leech(1, 20, 15, 3.0, 1e-6)
    monkeypatch.setattr(health_remedies, "find_leeches", lambda *_: [leech])
    finding, evidence = assess(fresh)
    assert evidence.causes[:4] == (
        Cause.HARD,
        Cause.CHANGE,
        Cause.DECKS,
        Cause.LEECHES,
    )
    assert (evidence.date, evidence.decks, evidence.leeches) == ("2024-01-01", 3, 1)
    text = " ".join(shown.sentences(finding))
    for part in ("health check fails", "Press Again", "2024-01-01", "3 decks", "1 card is a leech"):
        assert part in text


def test_failed_check_without_causes_says_so(
    fresh: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_check(monkeypatch, FAILED)
    set_causes(monkeypatch, hard="no", date=None, decks=0)
    monkeypatch.setattr(health_remedies, "find_leeches", lambda *_: [])
    monkeypatch.setattr(health_remedies, "MIN_REVIEWS", 10)
    finding, evidence = assess(fresh)
    assert evidence.causes == ()
    assert "srs-eval finds none of the usual causes" in shown.sentences(finding)[-1]


def test_few_reviews_are_a_cause(fresh: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    set_check(monkeypatch, FAILED)
    set_causes(monkeypatch, hard="no", date=None, decks=0)
    monkeypatch.setattr(health_remedies, "MIN_REVIEWS", 100_000)
    _, evidence = assess(fresh)
    assert evidence.causes[-1] == Cause.FEW_REVIEWS


@pytest.mark.parametrize(
    ("verdict", "words"),
    [("better", "so keep FSRS"), ("worse", "predicts them worse"), ("as good", "as well as")],
)
def test_failed_check_stands_beside_the_older_scheduler(verdict: str, words: str) -> None:
    interval = Interval(-0.01, 0.005, 1_200, 80)
    sm2 = f.Rival(f.SM2, "older scheduler", interval, interval, verdict, interval)
    evidence = f.HealthRemedies("failed", FAILED, (Cause.SPELLS,), reviews=1_200, sm2=sm2)
    _, comparison, cause = shown.sentences(f.Finding("failed", "Default", evidence=evidence))
    assert words in comparison
    assert "better or worse for days or weeks" in cause
