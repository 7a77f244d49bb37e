"""A preset whose stored parameters Anki does not run: named and left out, the rest answered."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import shown
from srs_eval.advice.answering import stream_answers
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import Unanswered
from srs_eval.advice.overview import Overview
from srs_eval.advice.questions import COMPARE_QUESTIONS, PARAMETERS, compare
from srs_eval.advice.shown.parameters import preset_action
from srs_eval.advice.workload.estimate import WorkloadQuestion, workload
from srs_eval.cli.main import main
from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import Preset, ReviewLog
from srs_eval.data.rows import select_presets
from srs_eval.engine.evaluate import evaluate
from srs_eval.engine.ranking import own_scheduler
from srs_eval.engine.run import Run
from srs_eval.engine.session import LearnerSession
from srs_eval.models import fsrs6
from srs_eval.models.configurations import resolve_configurations
from srs_eval.models.own_parameters import find_fault, normalize_as_anki
from srs_eval.report.export import to_json
from srs_eval.report.files import _render_markdown
from srs_eval.report.inspection import inspect_log
from srs_eval.report.learner import build_learner_report
from srs_eval.training.hyperparameters import Context
from tests.helpers.marks import slow_except
from tools.simulated import simulate_learner, write_collection

NAN = math.nan
OLD = (*fsrs6.DEFAULT[:5], -0.4, *fsrs6.DEFAULT[6:17])  # there is no ln(1 - 1.2)
UNUSABLE = {
    "20 numbers": (0.5,) * 20,
    "1,001 numbers": (0.5,) * 1001,
    "no number": (NAN, *fsrs6.DEFAULT[1:]),
    "infinite": (*fsrs6.DEFAULT[:20], math.inf),
    "an old list that cannot be converted": OLD,
}
ABSURD = {
    "negative": tuple(-each for each in fsrs6.DEFAULT),
    "zero": (0.0,) * 21,
    "huge": (1e30,) * 21,
    "an old list, negative": tuple(-each for each in fsrs6.DEFAULT[:17]),
    "an old list, huge": (1e30,) * 19,
}


def with_list(log: ReviewLog, values: tuple[float, ...], *presets: int) -> ReviewLog:
    """The learner with a list of parameters in some presets."""
    changed = {key: replace(log.presets[key], fsrs_parameters={6: values}) for key in presets}
    return replace(log, presets={**log.presets, **changed})


def broken(log: ReviewLog) -> ReviewLog:
    return with_list(log, UNUSABLE["20 numbers"], 101)


def of_its_own(log: ReviewLog) -> ReviewLog:
    """As though the other preset's reviews had never been."""
    return select_presets(log, "Preset 0")


SENTENCE = (
    "Preset 1 is left out: Anki does not run its 20 FSRS parameters (17, 19 or 21 are needed); "
    "optimize the preset in Anki."
)


@pytest.mark.parametrize("values", UNUSABLE.values(), ids=list(UNUSABLE))
def test_what_anki_does_not_run(values: tuple[float, ...]) -> None:
    assert "FSRS parameters (" in find_fault(values)
    with pytest.raises(InputError, match="Anki does not run these"):
        normalize_as_anki(values)


@pytest.mark.parametrize("name", slow_except({"zero"}, ABSURD))
def test_what_is_out_of_bounds_is_run_within_them(log: ReviewLog, name: str) -> None:
    values = ABSURD[name]
    if len(values) == 17:
        values = (*values[:5], -0.1, *values[6:])  # as little as can be converted
    assert find_fault(values) == ""
    runs = normalize_as_anki(values)
    assert len(runs) == 21
    low, high = np.array(fsrs6.lower_bounds(0.001)), np.array(fsrs6.UPPER)
    assert ((low <= runs) & (runs <= high)).all()
    absurd = with_list(log, values, 101)
    answers = compare(absurd, questions=["parameters", "retention"])
    assert {"Preset 0", "Preset 1"} <= {each.subject for each in answers}
    for answer in answers:
        for table in shown.tables(answer):
            for row in table.records():
                assert math.isfinite(row.get("log loss", 0.0)), (answer.subject, row)


@pytest.mark.parametrize("name", slow_except({"20 numbers"}, UNUSABLE))
def test_the_rest_is_answered_as_though_it_were_not_there(log: ReviewLog, name: str) -> None:
    values = UNUSABLE[name]
    asked = ["parameters", "often", "health", "retention"]
    first, *rest = compare(with_list(log, values, 101), questions=asked)
    assert (first.question, first.subject, first.recommendation) == (
        "parameters",
        "Preset 1",
        "left out",
    )
    (sentence,) = shown.sentences(first)
    assert sentence.startswith("Preset 1 is left out: Anki does not run its ")
    assert str(find_fault(values)) in sentence
    assert rest == compare(of_its_own(log), questions=asked)


def test_every_question_names_it(log: ReviewLog) -> None:
    for question in COMPARE_QUESTIONS:
        first, *rest = compare(broken(log), questions=[question])
        assert shown.sentences(first) == (SENTENCE,)
        assert all(each.question == question for each in rest)
    assert all(
        shown.sentences(each) != (SENTENCE,) for each in compare(broken(log), questions=["models"])
    )


def test_reviews_of_deleted_cards_and_of_no_preset_stay(log: ReviewLog) -> None:
    """Only what belongs to the preset goes."""
    gone = replace(
        log, presets={101: replace(log.presets[101], fsrs_parameters={6: (0.5,) * 20})}
    )  # preset 100 is gone, though decks still name it
    assert Learner.of(gone).groups == {100: "preset 100"}
    everything, left = Learner.of(log), Learner.of(broken(log))
    of_other = everything.trials.partition != 101
    assert np.array_equal(left.time_s, everything.time_s[of_other])


def test_a_list_that_no_review_depends_on_is_not_said(log: ReviewLog) -> None:
    beside = replace(log, presets={**log.presets, 7: Preset(7, "Unused", {6: (0.5,) * 20}, 0.9)})
    assert compare(beside, questions=["health"]) == compare(log, questions=["health"])
    assert own_scheduler(beside) == own_scheduler(log)


def test_where_too_little_is_left_it_is_said_why(log: ReviewLog) -> None:
    both = with_list(log, UNUSABLE["20 numbers"], 100, 101)
    with pytest.raises(NotEnoughData, match=r"Preset 0 is left out.*Preset 1 is left out.*Anki$"):
        compare(both)
    assert log.entries is not None
    few = log.preset_of(log.deck_of(log.entries.card_id)) != 100
    few |= np.cumsum(~few) <= 4
    columns = {name: column[few] for name, column in vars(log.entries).items()}
    little = replace(broken(log), entries=replace(log.entries, **columns))
    with pytest.raises(
        NotEnoughData, match=r"Preset 1 is left out.* Of the others: no usable reviews"
    ):
        compare(little)


# The app's answers


def test_the_apps_lines_name_it(log: ReviewLog) -> None:
    found = Overview.start(broken(log))
    for answers, questions in stream_answers(broken(log)):
        found.add(answers, questions)
    assert not found.waiting
    assert not [each for each in found.answers if isinstance(each.evidence, Unanswered)]
    assert [shown.sentences(each) for each in found.answers].count((SENTENCE,)) == 1
    presets = {line.title: line for line in found.lines if line.question == PARAMETERS}
    assert presets.keys() == {"Preset 0", "Preset 1"}
    line = presets["Preset 1"]
    assert (preset_action(line.answers[0]), shown.line(line.answers)) == ("repair", SENTENCE)
    for line in found.lines:
        assert line.question == PARAMETERS or "Preset 1" not in shown.line(line.answers)


# The model that stands for the presets' parameters


def test_the_ranking_takes_the_defaults_there_and_says_so(log: ReviewLog) -> None:
    mine = tuple(np.array(fsrs6.DEFAULT) * 1.03)
    (own,) = resolve_configurations("your parameters")
    learner = with_list(broken(log), mine, 100)
    learner = replace(learner, import_summary=replace(log.import_summary, fsrs_enabled=True))
    session = LearnerSession(learner)
    result = session.run(own)
    trials = session.trials(own.protocol)
    index = trials.test_index
    of_first, of_second = (trials.partition[index] == preset for preset in (100, 101))
    expected = np.where(
        of_first,
        fsrs6.predict(trials, normalize_as_anki(mine), index, Context()),
        fsrs6.predict(trials, list(fsrs6.DEFAULT), index, Context()),
    )
    assert np.array_equal(result.p, expected)
    assert list(result.parameters or ()) == [100]
    assert f"defaults for {of_second.sum():,} reviews" in " ".join(result.notes)
    assert "Preset 1" in " ".join(result.notes)
    assert 0 < result.in_sample_reviews <= of_first.sum()
    assert own_scheduler(learner) == "FSRS-6-own"
    both = with_list(learner, UNUSABLE["no number"], 100, 101)
    with pytest.raises(NotEnoughData, match="Preset 0"):
        LearnerSession(both).run(own)
    assert own_scheduler(both) is None


# What a retention costs


def test_costs_are_of_the_others(log: ReviewLog, collection: Path) -> None:
    question = WorkloadQuestion(retentions=(0.9,), days=30, draws=1)
    first = next(workload(broken(log), question=question))
    assert first.preset == "Preset 0"
    assert SENTENCE in shown.sentences(first.finding)
    with pytest.raises(NotEnoughData, match="Preset 1 is left out"):
        next(workload(broken(log), "Preset 1", question))
    other = with_list(log, UNUSABLE["20 numbers"], 100)
    with pytest.raises(NotEnoughData, match="Preset 0 is left out"):
        next(workload(other, "Preset 0", question))
    given = next(workload(other, "Preset 0", question, parameters=fsrs6.DEFAULT))
    assert given.preset == "Preset 0"
    assert given.excluded_preset_sentences == ()


# Files and the command line


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection whose second preset holds 1,050 parameters."""
    learner = simulate_learner(11, 3_000)
    used = sorted({deck.preset_id for deck in learner.decks.values() if deck.preset_id})
    bad = replace(
        learner.presets[used[-1]], fsrs_parameters={5: fsrs6.DEFAULT[:19], 6: (0.5,) * 1050}
    )
    path = tmp_path_factory.mktemp("file") / "collection.anki2"
    write_collection(replace(learner, presets={**learner.presets, used[-1]: bad}), path)
    return path


def test_the_command_and_the_report_say_it_in_one_sentence(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = srs_eval.load(file)
    (name,) = (each.name for each in log.presets.values() if find_fault(each.active_parameters))
    says = f"{name} is left out: Anki does not run its more than 1,000 FSRS parameters"
    assert main(["compare", str(file), "--details"]) == 0
    shown = capsys.readouterr().out
    assert " ".join(shown.split()).count(says) == 1
    assert "How often" in shown
    run = Run.from_configurations(resolve_configurations("AVG"))
    for event in evaluate(log, run.configurations, use_cache=False, jobs=0):
        run.apply(event)
    monkeypatch.setattr("srs_eval.report.learner._workload", lambda *_, **__: "")
    report = _render_markdown(build_learner_report(log, run, Protocol()))
    assert says in report
    assert "Too little data" not in report


def test_inspect_tells_it(file: Path, log: ReviewLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    (preset,) = (each for each in found["presets"] if each["unusable"])
    assert preset["unusable"] == "more than 1,000 FSRS parameters (17, 19 or 21 are needed)"
    assert preset["parameters_version"] is None
    assert any(f"{preset['name']} is left out" in note for note in found["notes"])
    assert main(["inspect", str(file)]) == 0
    assert "unusable" in capsys.readouterr().out
    for values in UNUSABLE.values():
        inspected = inspect_log(with_list(log, values, 101))
        assert json.loads(to_json(inspected.to_document()))["presets"]
        reports = {each.id: each for each in inspected.presets}
        assert reports[101].unusable == find_fault(values)
        assert reports[100].unusable == ""
