"""Check on what first intervals rest, and whether they suit the learner."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from srs_eval.advice import findings as f
from srs_eval.advice import shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.first_intervals import (
    _GRID,
    _SHOWN_SHARE,
    _VERDICT_SHARE,
    _compare,
    _draw_stabilities,
    _find_minima,
    _find_range,
    assess_first_intervals,
)
from srs_eval.models import fsrs6
from srs_eval.models.own_parameters import normalize_as_anki


def use_parameters(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, factor: float
) -> tuple[f.Finding, f.ButtonIntervals]:
    """Assess the first preset with initial stabilities changed by a factor."""
    values = list(normalize_as_anki(()))
    values[:4] = [min(factor * value, 100.0) for value in values[:4]]
    monkeypatch.setattr(Learner, "active_parameters", lambda *_: values)
    finding = next(assess_first_intervals(learner, [100]))
    return finding, f.get_evidence(finding, f.ButtonIntervals)


@pytest.mark.parametrize(
    ("interval", "low", "high", "conclusion"),
    [
        (3.0, 2.0, 4.0, "as it is"),
        (3.0, 3.1, 4.0, "longer"),
        (3.0, 1.5, 2.9, "shorter"),
        (0.7, 0.1, 0.2, "as it is"),
        (0.1, 0.5, 0.9, "as it is"),
        (3.0, 0.1, 0.2, "shorter"),
        (0.1, 1.5, 2.0, "longer"),
    ],
)
def test_compare_takes_less_than_a_day_as_a_day(
    interval: float, low: float, high: float, conclusion: str
) -> None:
    assert _compare(interval, low, high) == conclusion


def test_compute_days_until_90_percent_is_a_stability() -> None:
    assert fsrs6.compute_days_until(0.9, 0.2) == pytest.approx(1.0)
    assert fsrs6.compute_days_until(0.8, 0.2) > 2


def test_find_minima_interpolates_a_parabola() -> None:
    truth = np.log([0.37, 5.2, 44.0])
    losses = np.square(np.log(_GRID)[None] - truth[:, None])
    assert _find_minima(losses) == pytest.approx(truth)


def test_find_minima_at_the_ends_stays_on_the_grid() -> None:
    log_grid = np.log(_GRID)
    minima = _find_minima(np.stack((log_grid, -log_grid)))
    assert minima == pytest.approx(np.log([_GRID[0], _GRID[-1]]))


def test_range_of_stability_of_known_recall_has_the_truth() -> None:
    drawn = np.random.default_rng(3)
    decay = fsrs6.DEFAULT[20]
    factor = 0.9 ** (-1 / decay) - 1
    day = np.arange(2_000) // 20
    elapsed = drawn.integers(1, 12, 2_000)
    recalled = drawn.random(2_000) < (1 + factor * elapsed / 4.0) ** -decay
    p = (1 + factor * elapsed[None] / _GRID[:, None]) ** -decay
    losses = -np.log(np.where(recalled[None], p, 1 - p))
    estimate, draws = _draw_stabilities(losses, day)
    low, high = _find_range(draws, _SHOWN_SHARE)
    assert low < 4.0 < high
    assert low < estimate < high
    assert math.log(high / low) < 1.5
    lowest, highest = _find_range(draws, _VERDICT_SHARE)  # wider: a learner has four buttons
    assert lowest < low
    assert high < highest


def test_cards_are_those_with_a_review_on_a_later_day(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, evidence = use_parameters(learner, monkeypatch, 1.0)
    in_preset = learner.trials.card_id[learner.positions(100)]
    assert sum(button.cards for button in evidence.buttons) == len(np.unique(in_preset))
    assert sum(button.share for button in evidence.buttons) == pytest.approx(1.0)


@pytest.mark.parametrize(("factor", "conclusion"), [(0.02, "longer"), (30.0, "shorter")])
def test_first_intervals_of_wrong_parameters_do_not_suit(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, factor: float, conclusion: str
) -> None:
    finding, evidence = use_parameters(learner, monkeypatch, factor)
    good = next(button for button in evidence.buttons if button.button == "Good")
    assert good.conclusion == conclusion
    words = {"longer": "too short", "shorter": "too long"}[conclusion]
    assert words in shown.line([finding])
    assert good.interval == pytest.approx(factor * fsrs6.DEFAULT[2])


def test_estimate_hardly_depends_on_the_number_in_force(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = use_parameters(learner, monkeypatch, 1.0)
    _, second = use_parameters(learner, monkeypatch, 5.0)
    for button, other in zip(first.buttons, second.buttons, strict=True):
        assert button.own == other.own


def test_few_cards_are_named_and_nothing_is_concluded(learner: Learner) -> None:
    partition = np.arange(len(learner.trials)) % 200
    few = replace(learner, trials=replace(learner.trials, partition=partition))
    finding = next(assess_first_intervals(few, [0]))
    assert finding.conclusion == f.CANT_TELL
    assert finding.missing is not None
    assert finding.missing.reviews
    assert shown.sentences(finding)[0].startswith("Can't tell yet (needs ")


def test_sentence_of_a_button_names_interval_range_and_cards() -> None:
    good = f.FirstInterval("Good", "longer", 240, 1.0, 3.0, 0.98, 0.88, 2.3, 27.1, 12.2, 32.0)
    finding = f.Finding("first", "Default", evidence=f.ButtonIntervals("longer", (good,)))
    answer, _, sentence = shown.sentences(finding)
    assert answer.startswith("Your first interval is too short after Good.")
    for part in ("2.3 days", "27 days (12 days to 32 days)", "240 cards", "98 %", "88 %"):
        assert part in sentence
    (table,) = shown.tables(finding)
    assert table.rows[0][:2] == ("Good", 240)
