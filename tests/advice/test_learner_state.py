"""Findings on a learner's state by day equal what was put into a simulated learner."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from srs_eval.advice import shown
from srs_eval.advice.findings import DayEffect, DayState, DayStates, Finding
from srs_eval.advice.over_time import assess_learner_state, make_date_formatter
from srs_eval.cli.main import main
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.stats.intervals import Interval
from tests.conftest import shared_or_skip
from tools.simulated import SimulatedLearner, simulate_learner


def add_bad_days(learner: SimulatedLearner) -> ReviewLog:
    """Return a log where half of all reviews fail on every third day, for no other reason."""
    log = learner.log()
    assert log.entries is not None
    assert log.day_grid is not None
    day = (log.entries.time_ms // 1000 - log.day_grid.next_day_at_s) // 86_400
    random = np.random.default_rng(1)
    fails = (day % 3 == 0) & (random.random(len(day)) < 0.5) & (log.entries.rating > 1)
    return replace(log, entries=replace(log.entries, rating=np.where(fails, 1, log.entries.rating)))


@pytest.fixture(scope="module")
def plain() -> list[Finding]:
    return assess_learner_state(simulate_learner(21, 6000).log())


@pytest.fixture(scope="module")
def moody() -> list[Finding]:
    return assess_learner_state(add_bad_days(simulate_learner(21, 6000)))


def find_conclusion(state: list[Finding], question: str) -> str:
    return next(answer.conclusion for answer in state if answer.question == question)


def find_days(state: list[Finding]) -> tuple[DayState, ...]:
    (evidence,) = (finding.evidence for finding in state if isinstance(finding.evidence, DayStates))
    return evidence.days


def test_learner_without_bad_days_shows_no_effect(plain: list[Finding]) -> None:
    assert find_conclusion(plain, "day") in ("hardly matters", "can't tell")
    assert find_conclusion(plain, "hour") in ("hardly matters", "can't tell")
    assert find_conclusion(plain, "session") in ("hardly matters", "can't tell")


def test_learner_with_bad_days_shows_their_effect(moody: list[Finding]) -> None:
    first = moody[0]
    assert first.conclusion == "matters"
    assert isinstance(first.evidence, DayEffect)
    assert first.evidence.worth is not None
    assert first.interval is not None
    assert first.evidence.worth.estimate > 0.02
    assert first.interval.estimate < 0
    # The state is low on the bad days and high on the others.
    days = find_days(moody)
    states = [day.state.estimate for day in days]
    assert np.corrcoef(states, [day.recalled for day in days])[0, 1] > 0.5
    counts = [day.state.reviews for day in days]
    assert sum(counts) == first.reviews
    assert np.average(states, weights=counts) == pytest.approx(0, abs=1e-9)  # around its usual


def test_days_are_named_by_their_dates() -> None:
    log = simulate_learner(21, 1500).log()
    rows = select_rows(log).rows
    name_of = make_date_formatter(log, Protocol())
    assert name_of(int(rows.day_offset[0])) == "2023-09-04"  # where simulated learners begin


def test_log_without_a_clock_has_numbered_days_and_no_hours(simulated_dataset: Path) -> None:
    from srs_eval.data.datasets import open_dataset

    state = assess_learner_state(open_dataset(simulated_dataset).load(1))
    assert find_conclusion(state, "hour") == "unknown"
    assert find_days(state)[0].name.startswith("day ")
    with pytest.raises(NotEnoughData):
        assess_learner_state(open_dataset(simulated_dataset).load(7))


def test_state_command_writes_answers_and_days(
    simulated_collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("srs_eval.report.console.get_width", lambda _: 80)  # as in a terminal
    target = tmp_path / "state.json"
    assert main(["state", str(simulated_collection), "--json", str(target)]) == 0
    out = capsys.readouterr().out
    assert "Do some days go better than others?" in out
    assert max(map(len, out.splitlines())) <= 80
    document = json.loads(target.read_text("utf-8"))
    assert [answer["question"] for answer in document["answers"]] == [
        "day", "today", "hour", "session",
    ]  # fmt: skip
    assert {"day", "reviews", "state (logits)", "state (logits) low"} <= set(document["days"][0])
    assert main(["state", str(simulated_collection), "--rows", "other"]) == 2
    assert "is not one of 'benchmark', 'anki'" in capsys.readouterr().err


def test_state_of_a_real_learner_counts_their_reviews() -> None:
    from srs_eval.data.datasets import open_dataset

    dataset = open_dataset(shared_or_skip("golden", "dataset"))
    state = assess_learner_state(dataset.load(101))
    assert state[0].reviews == 4_940
    assert "4,940 held-out reviews" in shown.sentences(state[0])[1]
    assert find_conclusion(state, "hour") == "unknown"


def test_effect_that_helps_nothing_has_no_negative_reduction() -> None:
    def describe(worth: float) -> str:
        effect = DayEffect("does not matter", Interval(worth, 0.002, 5_000, 200))
        return shown.line([Finding("day", "your reviews", evidence=effect)])

    assert "would not reduce FSRS-6's error (" in describe(-0.001)
    assert "would not reduce" in describe(0.0001)
    assert "would reduce FSRS-6's error by 0.6 % (" in describe(0.006)
