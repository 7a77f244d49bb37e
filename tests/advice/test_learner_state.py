"""How much is your day: answers that follow from what was put into a learner."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from srs_eval.advice import shown
from srs_eval.advice.over_time import LearnerState, dates, learner_state
from srs_eval.advice.tables import Table
from srs_eval.cli.main import main
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.data.rows import select_rows
from srs_eval.data.simulated import SimulatedLearner, simulate_learner
from srs_eval.stats.intervals import Interval
from tests.conftest import shared_or_skip


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
def plain() -> LearnerState:
    return learner_state(simulate_learner(21, 6000).log())


@pytest.fixture(scope="module")
def moody() -> LearnerState:
    return learner_state(with_bad_days(simulate_learner(21, 6000)))


def conclusion(state: LearnerState, question: str) -> str:
    return next(shown.conclusion(answer) for answer in state.answers if answer.question == question)


def figures(table: Table, column: int) -> FloatArray:
    """The numbers of a column, and the estimates of intervals."""
    cells = (row[column] for row in table.rows)
    return np.array(
        [each.estimate if isinstance(each, Interval) else each for each in cells], float
    )


def test_a_learner_without_days(plain: LearnerState) -> None:
    assert conclusion(plain, "day") in ("hardly matters", "can't tell yet")
    assert conclusion(plain, "hour") in ("hardly matters", "can't tell yet")
    assert conclusion(plain, "session") in ("hardly matters", "can't tell yet")


def test_bad_days_are_found(moody: LearnerState) -> None:
    answer = moody.answers[0]
    assert shown.conclusion(answer) == "matters"
    share = next(each for each in shown.sentences(answer) if "% is your day" in each)
    assert int(share.split(" %")[0].split()[-1]) > 60
    # Its share of FSRS-6's log loss is that of all months together.
    reviews, losses, falls = (figures(shown.tables(answer)[0], column) for column in (1, 3, 4))
    taken, whole = reviews @ falls, reviews @ losses
    told = shown.sentences(answer)[0].partition("takes ")[2].partition(" %")[0]
    assert float(told) == pytest.approx(100 * taken / whole, abs=0.06)
    # The state is low on the bad days and high on the others.
    state = [row[-1] for row in moody.days.rows]
    recalled = [float(str(row[2]).removesuffix(" %")) for row in moody.days.rows]
    estimates = [each.estimate for each in state if isinstance(each, Interval)]
    assert np.corrcoef(estimates, recalled)[0, 1] > 0.5


def test_an_open_answer_quotes_the_share_of_the_day(plain: LearnerState) -> None:
    answer = plain.answers[0]
    basis = " ".join(shown.sentences(answer))
    assert "the benchmark's" in basis
    if shown.conclusion(answer) == "can't tell yet":
        assert "of itself it makes log loss" in shown.sentences(answer)[0]


def test_months_add_up(moody: LearnerState) -> None:
    table = shown.tables(moody.answers[0])[0]
    total = sum(int(str(row[1])) for row in table.rows)
    assert total == sum(int(str(row[1])) for row in moody.days.rows)
    for row in table.rows:
        assert len(str(row[0])) == 7  # 2023-09


def test_the_state_is_around_its_usual(moody: LearnerState) -> None:
    counts = np.array([int(str(row[1])) for row in moody.days.rows])
    assert np.average(figures(moody.days, -1), weights=counts) == pytest.approx(0, abs=1e-9)


def test_days_have_their_dates() -> None:
    log = simulate_learner(21, 1500).log()
    rows = select_rows(log).rows
    name_of = dates(log, Protocol())
    assert name_of(int(rows.day_offset[0])) == "2023-09-04"  # where simulated learners begin


def test_a_source_without_a_clock(simulated_dataset: Path) -> None:
    from srs_eval.data.datasets import open_dataset

    state = learner_state(open_dataset(simulated_dataset).load(1))
    assert conclusion(state, "hour") == "unknown"
    assert str(state.days.rows[0][0]).startswith("day ")
    assert str(shown.tables(state.answers[0])[0].rows[0][0]).startswith("days ")
    with pytest.raises(NotEnoughData):
        learner_state(open_dataset(simulated_dataset).load(7))


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
    assert "--rows takes" in capsys.readouterr().err


def test_real_learner() -> None:
    from srs_eval.data.datasets import open_dataset

    dataset = open_dataset(shared_or_skip("golden", "dataset"))
    state = learner_state(dataset.load(101))
    told = shown.sentences(state.answers[0])[1]
    assert "your 4,940 judged reviews (the benchmark's) with a log loss of 0.4394" in told
    assert conclusion(state, "hour") == "unknown"
