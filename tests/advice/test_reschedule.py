"""Check what is said of rescheduling cards after optimizing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srs_eval.advice import findings as f
from srs_eval.advice import shown
from srs_eval.advice.buttons import preview_buttons
from srs_eval.advice.candidates import Learner
from srs_eval.advice.reschedule import _conclude, assess_rescheduling, compute_intervals
from srs_eval.models import fsrs6


def reschedule(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, growth: float
) -> tuple[f.Finding, f.Reschedule]:
    """Reschedule the first preset by parameters whose stability grows by another exponent."""
    parameters = list(fsrs6.DEFAULT)
    parameters[8] += growth
    monkeypatch.setattr(Learner, "fit_parameters", lambda *_: parameters)
    finding = next(assess_rescheduling(learner, [100]))
    return finding, f.get_evidence(finding, f.Reschedule)


def make_load(due_at_once: int, recall: float) -> f.DueCards:
    return f.DueCards(due_at_once, (due_at_once, *[0] * 29), recall)


def test_compute_intervals_at_90_percent_are_the_stabilities() -> None:
    stability = np.array([0.2, 3.2, 50.0, 5_000.0])
    intervals = compute_intervals(stability[None], fsrs6.DEFAULT, 0.9, 1_000)
    assert intervals.tolist() == [1, 3, 50, 1_000]


def test_compute_intervals_at_80_percent_meet_it() -> None:
    (interval,) = compute_intervals(np.array([[1_000.0]]), fsrs6.DEFAULT, 0.8, 36_500).tolist()
    decay = fsrs6.DEFAULT[20]
    factor = 0.9 ** (-1 / decay) - 1
    assert (1 + factor * interval / 1_000) ** -decay == pytest.approx(0.8, abs=1e-4)


def test_rescheduled_cards_are_recalled_as_desired(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, evidence = reschedule(learner, monkeypatch, 0.0)
    assert evidence.rescheduled is not None
    assert evidence.rescheduled.recall == pytest.approx(0.9, abs=0.01)
    assert evidence.cards > 100


def test_cards_come_sooner_if_memory_grows_less(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding, evidence = reschedule(learner, monkeypatch, -1.0)
    assert evidence.sooner > 10 * evidence.later
    assert evidence.days_moved[1] < 0
    assert evidence.added_at_once > 0
    assert evidence.conclusion == "backlog"
    text = " ".join(shown.sentences(finding))
    assert f"{evidence.added_at_once:,} more cards would be due today" in text
    assert "too late" in text


def test_few_reviews_are_nothing_to_optimize_or_reschedule_for(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = np.arange(f.MIN_REVIEWS_TO_FIT - 1)
    monkeypatch.setattr(Learner, "positions", lambda *_: few)
    finding, evidence = reschedule(learner, monkeypatch, 0.0)
    assert evidence.conclusion == "few reviews"
    assert "too few reviews to optimize" in shown.sentences(finding)[0]
    previews = f.get_evidence(next(preview_buttons(learner, [100])), f.ButtonPreview)
    assert "optimized parameters" not in dict(previews.by_candidate)
    monkeypatch.setattr(Learner, "positions", lambda *_: np.arange(f.MIN_REVIEWS_TO_FIT))
    previews = f.get_evidence(next(preview_buttons(learner, [100])), f.ButtonPreview)
    assert "optimized parameters" in dict(previews.by_candidate)


def test_cards_come_later_if_memory_grows_more(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding, evidence = reschedule(learner, monkeypatch, 1.0)
    assert evidence.later > 10 * evidence.sooner
    assert evidence.conclusion == "yes"
    assert "too early" in shown.sentences(finding)[0]


def test_table_counts_all_cards_due_within_30_days(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding, evidence = reschedule(learner, monkeypatch, -1.0)
    assert evidence.without is not None
    assert evidence.rescheduled is not None
    (table,) = shown.tables(finding)
    assert sum(row[1] for row in table.rows) == sum(evidence.without.by_day)
    assert sum(row[2] for row in table.rows) == sum(evidence.rescheduled.by_day)


@pytest.mark.parametrize(
    ("without", "rescheduled", "conclusion"),
    [
        (make_load(5, 0.88), make_load(500, 0.90), "no need"),
        (make_load(5, 0.80), make_load(24, 0.90), "yes"),
        (make_load(5, 0.80), make_load(26, 0.90), "backlog"),
        (make_load(50, 0.97), make_load(5, 0.90), "yes"),
    ],
)
def test_conclude_weighs_recall_against_cards_added(
    without: f.DueCards, rescheduled: f.DueCards, conclusion: str
) -> None:
    assert _conclude(without, rescheduled, 10.0) == conclusion


def test_log_without_due_days_says_so(learner: Learner) -> None:
    without = replace(learner, log=replace(learner.log, schedule=None))
    finding = next(assess_rescheduling(without, [100]))
    assert finding.conclusion == "no schedule"
    assert "does not say when cards are due" in shown.sentences(finding)[0]


def test_line_groups_presets() -> None:
    findings = [
        f.Finding("reschedule", name, evidence=f.Reschedule(conclusion))
        for name, conclusion in (("A", "no need"), ("B", "backlog"), ("C", "no need"))
    ]
    assert (
        shown.line(findings)
        == "no need: A and C; do not reschedule: too many cards would be due: B"
    )


def test_cards_that_stay_are_said_not_to_move() -> None:
    load = make_load(5, 0.9)
    evidence = f.Reschedule("no need", 30, desired=0.9, without=load, rescheduled=load)
    text = " ".join(shown.sentences(f.Finding("reschedule", "A", evidence=evidence)))
    assert "Most would not move." in text
