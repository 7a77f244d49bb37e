"""How much is your day: answers that follow from what was put into a learner."""

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
from tests.conftest import shared_or_skip
from tools.simulated import SimulatedLearner, simulate_learner


def with_bad_days(learner: SimulatedLearner) -> ReviewLog:
    """On every third day half of all reviews fail; what is forgotten has no other reason."""
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
    return assess_learner_state(with_bad_days(simulate_learner(21, 6000)))


def conclusion(state: list[Finding], question: str) -> str:
    return next(answer.conclusion for answer in state if answer.question == question)


def days_of(state: list[Finding]) -> tuple[DayState, ...]:
    (evidence,) = (each.evidence for each in state if isinstance(each.evidence, DayStates))
    return evidence.days


def test_a_learner_without_days(plain: list[Finding]) -> None:
    assert conclusion(plain, "day") in ("hardly matters", "can't tell")
    assert conclusion(plain, "hour") in ("hardly matters", "can't tell")
    assert conclusion(plain, "session") in ("hardly matters", "can't tell")


def test_bad_days_are_found(moody: list[Finding]) -> None:
    first = moody[0]
    assert first.conclusion == "matters"
    assert isinstance(first.evidence, DayEffect)
    assert first.evidence.worth is not None
    assert first.interval is not None
    assert first.evidence.worth.estimate > 0.02
    assert first.interval.estimate < 0
    # The state is low on the bad days and high on the others.
    days = days_of(moody)
    states = [each.state.estimate for each in days]
    assert np.corrcoef(states, [each.recalled for each in days])[0, 1] > 0.5
    counts = [each.state.reviews for each in days]
    assert sum(counts) == first.reviews
    assert np.average(states, weights=counts) == pytest.approx(0, abs=1e-9)  # around its usual


def test_days_have_their_dates() -> None:
    log = simulate_learner(21, 1500).log()
    rows = select_rows(log).rows
    name_of = make_date_formatter(log, Protocol())
    assert name_of(int(rows.day_offset[0])) == "2023-09-04"  # where simulated learners begin


def test_a_source_without_a_clock(simulated_dataset: Path) -> None:
    from srs_eval.data.datasets import open_dataset

    state = assess_learner_state(open_dataset(simulated_dataset).load(1))
    assert conclusion(state, "hour") == "unknown"
    assert days_of(state)[0].name.startswith("day ")
    with pytest.raises(NotEnoughData):
        assess_learner_state(open_dataset(simulated_dataset).load(7))


def test_command(
    simulated_collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "state.json"
    assert main(["state", str(simulated_collection), "--json", str(target)]) == 0
    out = capsys.readouterr().out
    assert "How much is your day?" in out
    assert max(map(len, out.splitlines())) <= 80
    document = json.loads(target.read_text("utf-8"))
    assert [answer["question"] for answer in document["answers"]] == [
        "day", "today", "hour", "session",
    ]  # fmt: skip
    assert {"day", "reviews", "state (logits)", "state (logits) low"} <= set(document["days"][0])
    assert main(["state", str(simulated_collection), "--rows", "other"]) == 2
    assert "is not one of 'benchmark', 'anki'" in capsys.readouterr().err


def test_real_learner() -> None:
    from srs_eval.data.datasets import open_dataset

    dataset = open_dataset(shared_or_skip("golden", "dataset"))
    state = assess_learner_state(dataset.load(101))
    assert state[0].reviews == 4_940
    assert "4,940 evaluated reviews" in shown.sentences(state[0])[1]
    assert conclusion(state, "hour") == "unknown"
