"""What a desired retention costs: draws, sentences, the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.errors import InputError, NotEnoughData
from srs_eval.reviews import Preset, ReviewLog
from srs_eval.workload import Question, Workload, workload
from srs_eval.workload.answers import answers, document
from srs_eval.workload.estimate import (
    FIGURES,
    KNOWN,
    MINUTES,
    OVER,
    RECALLED,
    REVIEWS,
)
from srs_eval.workload.preview import preview, worded
from srs_eval.workload.simulator import MODELS, Memory
from srs_eval.workload.today import todays_cards
from tests.anki_files import make_collection, plain_history

QUICK = Question(retentions=(0.75, 0.85, 0.95), days=60, new_a_day=3, draws=5, budget=3.0)
FSRS6 = Memory("FSRS-6", MODELS["FSRS-6"].default)


@pytest.fixture(scope="module")
def log(simulated_collection: Path) -> ReviewLog:
    return srs_eval.load(simulated_collection)


@pytest.fixture(scope="module")
def stages(log: ReviewLog) -> list[Workload]:
    return list(workload(log, question=QUICK))


def test_it_gets_known_better(stages: list[Workload]) -> None:
    assert [len(each.draws) for each in stages[:6]] == [0, 1, 2, 3, 4, 5]
    first, last = stages[0], stages[-1]
    assert not first.finished
    assert last.finished
    assert np.array_equal(first.in_force, last.in_force)
    assert last.draws.shape == (5, len(last.retentions), len(FIGURES))
    assert set(QUICK.retentions) < {*last.retentions.tolist(), last.desired}
    for each in stages:
        assert answers(each)[0].sentences  # each can be shown


def test_more_retention_costs_more(stages: list[Workload]) -> None:
    median = stages[-1].median
    for figure in (REVIEWS, MINUTES, KNOWN, RECALLED):
        assert (np.diff(median[:, figure]) > 0).all(), FIGURES[figure]
    low, high = stages[-1].band
    assert (low <= median).all()
    assert (median <= high).all()
    assert (high[:, REVIEWS] > low[:, REVIEWS]).all()
    assert ((median[:, OVER] >= 0) & (median[:, OVER] <= QUICK.days)).all()
    assert stages[-1].chance[REVIEWS] > 0


def test_the_same_question_has_the_same_answer(log: ReviewLog, stages: list[Workload]) -> None:
    again = list(workload(log, question=QUICK))[-1]
    assert document(again) == document(stages[-1])


def test_the_package_itself_can_be_asked(log: ReviewLog, stages: list[Workload]) -> None:
    ask = srs_eval.workload  # a module that can be called
    first = next(ask(log, question=QUICK))  # type: ignore[operator]
    assert np.array_equal(first.in_force, stages[0].in_force)


def test_it_can_be_ended_early(log: ReviewLog) -> None:
    events = workload(log, question=QUICK)
    first: Iterator[Workload] = events
    assert not len(next(first).draws)
    events.close()
    with pytest.raises(StopIteration):
        next(first)


def test_more_new_cards_cost_more(stages: list[Workload]) -> None:
    paces = stages[-1].paces
    assert [pace for pace, *_ in paces] == [0, 1, 3, 6]
    assert all(np.diff([minutes for _, _, minutes, _ in paces]) > 0)
    assert all(np.diff([known for *_, known in paces]) > 0)


def test_a_break_leaves_more_overdue(log: ReviewLog, stages: list[Workload]) -> None:
    later = next(workload(log, question=replace(QUICK, after=30)))
    assert later.overdue > stages[0].overdue
    assert later.learned == stages[0].learned
    here = later.at(later.desired)
    assert later.in_force[here, RECALLED] < stages[0].in_force[here, RECALLED]
    assert "after 30 days without a review" in " ".join(answers(later)[0].sentences)


def test_models_that_may_be_right_are_told_apart(stages: list[Workload]) -> None:
    wrong = {each.name: each.figures for each in stages[-1].wrong}
    assert "FSRS-7, optimized" in wrong
    for figures in wrong.values():
        assert figures.shape == (len(stages[-1].retentions), len(FIGURES))
        assert ((figures[:, RECALLED] > 0.5) & (figures[:, RECALLED] < 1)).all()


def test_parameters_of_ones_own_stand_in_for_those_in_force(
    log: ReviewLog, stages: list[Workload]
) -> None:
    forgetful = [value / 4 if place < 4 else value for place, value in enumerate(FSRS6.parameters)]
    found = next(workload(log, question=QUICK, parameters=forgetful))
    here = found.at(found.desired)
    assert found.in_force[here, REVIEWS] != stages[0].in_force[here, REVIEWS]
    with pytest.raises(InputError, match="17, 19 or 21"):
        next(workload(log, question=QUICK, parameters=forgetful[:5]))


def test_the_words_hold_the_figures(stages: list[Workload]) -> None:
    last = stages[-1]
    (answer,) = answers(last)
    here = last.at(last.desired)
    text = " ".join(answer.sentences)
    assert f"{last.median[here, REVIEWS]:.0f} " in text
    assert f"{last.median[here, MINUTES]:.1f} " in text
    assert "Cheap is not wise" in text
    assert "90 % of 5 draws" in text
    curve = answer.tables[0]
    assert len(curve.rows) == len(last.retentions)
    assert [row[0] for row in curve.rows] == [f"{each:.2f}" for each in last.retentions]
    # A retention that no month came near is marked as the model's guess.
    assert last.seen is not None
    low, high = last.seen
    marks = {float(str(row[0])): "?" in str(row[1]) for row in curve.rows}
    assert marks == {each: not low <= each <= high for each in marks}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"retentions": (1.2,)}, "cannot be asked for"),
        ({"retentions": ()}, "is empty"),
        ({"days": 0}, "--days 0"),
        ({"new_a_day": -1}, "--new -1"),
        ({"budget": 0.0}, "--budget 0"),
        ({"after": -1}, "--after -1"),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    log: ReviewLog, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        workload(log, question=replace(QUICK, **changes))  # type: ignore[arg-type]


def test_what_cannot_be_answered_is_refused(log: ReviewLog, tmp_path: Path) -> None:
    off = replace(log, receipt=replace(log.receipt, fsrs_enabled=False))
    with pytest.raises(InputError, match="FSRS is off"):
        workload(off, question=QUICK)
    next(workload(off, question=QUICK, parameters=[]))  # the defaults, asked for
    with pytest.raises(InputError, match="when cards are due"):
        workload(replace(log, schedule=None), question=QUICK)
    with pytest.raises(InputError, match="Did you mean"):
        workload(log, "no such preset", QUICK)
    few = srs_eval.load(make_collection(tmp_path / "few.anki2", entries=plain_history(6)[:2]))
    with pytest.raises(NotEnoughData):
        workload(few, question=QUICK)


# What the buttons would give


def test_buttons_are_ankis(log: ReviewLog) -> None:
    group = next(key for key in log.presets if (log.preset_of(log.cards.deck_id) == key).any())
    today = todays_cards(log, group)
    steps = Preset(1, "P", learning_steps=(1.0, 10.0), relearning_steps=(10.0,))
    shown = preview("defaults", FSRS6, today, steps, 0.9)
    lines = dict(shown.lines)
    # FSRS-6's defaults at 0.90: intervals are stabilities; Easy begins at 8.2956 days.
    assert lines["new"] == (60.0, 330.0, 600.0, 8 * 86_400.0)
    for seconds in lines.values():
        assert sorted(seconds) == list(seconds)
    none = preview("defaults", FSRS6, today, Preset(1, "P"), 0.9)
    days = [each / 86_400 for each in dict(none.lines)["new"]]
    assert days == [round(max(1, FSRS6.parameters[k])) for k in range(4)]
    shorter = preview("defaults", FSRS6, today, replace(steps, maximum_interval=30), 0.9)
    assert max(max(seconds) for _, seconds in shorter.lines) == 30 * 86_400
    for (_, some), (_, more) in zip(
        preview("defaults", FSRS6, today, steps, 0.8).lines, shown.lines, strict=True
    ):
        assert some[3] >= more[3]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (59, "59s"),
        (600, "10m"),
        (3600, "1h"),
        (5400, "1.5h"),
        (86_400 * 12, "12d"),
        (86_400 * 30, "1mo"),
        (86_400 * 42, "1.4mo"),
        (86_400 * 730, "2y"),
    ],
)
def test_intervals_are_written_as_anki_does(seconds: float, words: str) -> None:
    assert worded(seconds) == words


# The command line


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "srs_eval", "workload", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=600)


def test_the_command_answers(simulated_collection: Path, tmp_path: Path) -> None:
    target = tmp_path / "workload.json"
    done = run(
        str(simulated_collection),
        *("--retention", "0.8,0.9", "--days", "30", "--new", "2", "--budget", "5"),
        *("--json", str(target)),
    )
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "What does a desired retention cost?" in done.stdout
    assert "days > 5 min" in done.stdout
    found = json.loads(target.read_text())
    assert found["layout"] == 1
    assert {each["desired"] for each in found["retentions"]} >= {0.8, 0.9}
    for each in found["retentions"]:
        assert each["low"]["reviews"] <= each["median"]["reviews"] <= each["high"]["reviews"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--retention", "ninety"], "is no list of numbers"),
        (["--retention", "9"], "cannot be asked for"),
        (["--params", "1, 2, 3"], "17, 19 or 21"),
        (["--states", "guess"], "--states"),
        (["--preset", "nowhere"], "no preset"),
    ],
)
def test_bad_input_is_one_sentence(
    simulated_collection: Path, arguments: list[str], message: str
) -> None:
    done = run(str(simulated_collection), *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout
