"""A preset whose stored parameters Anki does not run is named and left out of the answers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import Unanswered
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
from srs_eval.report.files import render_as
from srs_eval.report.inspection import inspect_log
from srs_eval.report.learner import build_learner_report
from srs_eval.training.hyperparameters import Context
from tests.helpers.advice import build_overview
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
    "negative": tuple(-value for value in fsrs6.DEFAULT),
    "zero": (0.0,) * 21,
    "huge": (1e30,) * 21,
    "an old list, negative": tuple(-value for value in fsrs6.DEFAULT[:17]),
    "an old list, huge": (1e30,) * 19,
}


def set_parameters(log: ReviewLog, values: tuple[float, ...], *presets: int) -> ReviewLog:
    """Return the log with a list of parameters in some presets."""
    changed = {key: replace(log.presets[key], fsrs_parameters={6: values}) for key in presets}
    return replace(log, presets={**log.presets, **changed})


def break_preset(log: ReviewLog) -> ReviewLog:
    return set_parameters(log, UNUSABLE["20 numbers"], 101)


def remove_faulty_preset(log: ReviewLog) -> ReviewLog:
    """Return the log as though the other preset's reviews had never been."""
    return select_presets(log, "Preset 0")


SENTENCE = (
    "Preset 1 is left out because Anki cannot use its 20 FSRS parameters (17, 19 or 21 are "
    "needed): optimize the preset in Anki."
)


@pytest.mark.parametrize("values", UNUSABLE.values(), ids=list(UNUSABLE))
def test_list_that_anki_does_not_run_is_refused(values: tuple[float, ...]) -> None:
    assert "FSRS parameters (" in find_fault(values)
    with pytest.raises(InputError, match="Anki cannot use"):
        normalize_as_anki(values)


@pytest.mark.parametrize("name", slow_except({"zero"}, ABSURD))
def test_list_out_of_bounds_is_clipped_and_evaluated(log: ReviewLog, name: str) -> None:
    values = ABSURD[name]
    if len(values) == 17:
        values = (*values[:5], -0.1, *values[6:])  # as little as can be converted
    assert find_fault(values) == ""
    runs = normalize_as_anki(values)
    assert len(runs) == 21
    low = np.array(fsrs6.lower_bounds(0.001))
    high = np.array(fsrs6.UPPER)
    assert ((low <= runs) & (runs <= high)).all()
    absurd = set_parameters(log, values, 101)
    answers = compare(absurd, questions=["parameters", "retention"])
    assert {"Preset 0", "Preset 1"} <= {finding.subject for finding in answers}
    for answer in answers:
        for table in shown.tables(answer):
            for row in table.records():
                assert math.isfinite(row.get("log loss", 0.0)), (answer.subject, row)


@pytest.mark.parametrize("name", slow_except({"20 numbers"}, UNUSABLE))
def test_answers_of_the_rest_are_those_without_the_preset(log: ReviewLog, name: str) -> None:
    values = UNUSABLE[name]
    questions = ["parameters", "often", "health", "retention"]
    first, *rest = compare(set_parameters(log, values, 101), questions=questions)
    assert (first.question, first.subject, first.recommendation) == (
        "parameters",
        "Preset 1",
        "left out",
    )
    (sentence,) = shown.sentences(first)
    assert sentence.startswith("Preset 1 is left out because Anki cannot use its ")
    assert str(find_fault(values)) in sentence
    assert rest == compare(remove_faulty_preset(log), questions=questions)


def test_every_question_but_models_names_the_faulty_preset(log: ReviewLog) -> None:
    for question in COMPARE_QUESTIONS:
        first, *rest = compare(break_preset(log), questions=[question])
        assert shown.sentences(first) == (SENTENCE,)
        assert all(finding.question == question for finding in rest)
    assert all(
        shown.sentences(finding) != (SENTENCE,)
        for finding in compare(break_preset(log), questions=["models"])
    )


def test_only_reviews_of_the_faulty_preset_are_left_out(log: ReviewLog) -> None:
    gone = replace(
        log, presets={101: replace(log.presets[101], fsrs_parameters={6: (0.5,) * 20})}
    )  # preset 100 is gone, though decks still name it
    assert Learner.of(gone).groups == {100: "preset 100"}
    all_reviews = Learner.of(log)
    remaining = Learner.of(break_preset(log))
    is_of_others = all_reviews.trials.partition != 101
    assert np.array_equal(remaining.time_s, all_reviews.time_s[is_of_others])


def test_faulty_list_of_an_unused_preset_changes_nothing(log: ReviewLog) -> None:
    with_unused = replace(
        log, presets={**log.presets, 7: Preset(7, "Unused", {6: (0.5,) * 20}, 0.9)}
    )
    assert compare(with_unused, questions=["health"]) == compare(log, questions=["health"])
    assert own_scheduler(with_unused) == own_scheduler(log)


def test_error_of_too_few_remaining_reviews_names_the_presets(log: ReviewLog) -> None:
    both = set_parameters(log, UNUSABLE["20 numbers"], 100, 101)
    with pytest.raises(NotEnoughData, match=r"Preset 0 is left out.*Preset 1 is left out.*Anki$"):
        compare(both)
    assert log.entries is not None
    few = log.preset_of(log.deck_of(log.entries.card_id)) != 100
    few |= np.cumsum(~few) <= 4
    columns = {name: column[few] for name, column in vars(log.entries).items()}
    short = replace(break_preset(log), entries=replace(log.entries, **columns))
    with pytest.raises(
        NotEnoughData, match=r"Preset 1 is left out.* In the other presets: no usable reviews"
    ):
        compare(short)


# The app's answers


def test_overview_names_the_faulty_preset_once(log: ReviewLog) -> None:
    overview = build_overview(break_preset(log))
    assert not overview.waiting
    assert not [finding for finding in overview.answers if isinstance(finding.evidence, Unanswered)]
    assert [shown.sentences(finding) for finding in overview.answers].count((SENTENCE,)) == 1
    presets = {line.title: line for line in overview.lines if line.question == PARAMETERS}
    assert presets.keys() == {"Preset 0", "Preset 1"}
    line = presets["Preset 1"]
    assert (preset_action(line.answers[0]), shown.line(line.answers)) == ("repair", SENTENCE)
    for line in overview.lines:
        assert line.question == PARAMETERS or "Preset 1" not in shown.line(line.answers)


# The model that stands for the presets' parameters


def test_ranking_runs_the_faulty_preset_with_the_defaults(log: ReviewLog) -> None:
    parameters = tuple(np.array(fsrs6.DEFAULT) * 1.03)
    (own_configuration,) = resolve_configurations("your parameters")
    learner = set_parameters(break_preset(log), parameters, 100)
    learner = replace(learner, import_summary=replace(log.import_summary, fsrs_enabled=True))
    session = LearnerSession(learner)
    result = session.run(own_configuration)
    trials = session.trials(own_configuration.protocol)
    index = trials.test_index
    of_first, of_second = (trials.partition[index] == preset for preset in (100, 101))
    expected = np.where(
        of_first,
        fsrs6.predict(trials, normalize_as_anki(parameters), index, Context()),
        fsrs6.predict(trials, list(fsrs6.DEFAULT), index, Context()),
    )
    assert np.array_equal(result.p, expected)
    assert list(result.parameters or ()) == [100]
    assert f"uses the defaults for {of_second.sum():,} reviews" in " ".join(result.notes)
    assert "Preset 1" in " ".join(result.notes)
    assert 0 < result.in_sample_reviews <= of_first.sum()
    assert own_scheduler(learner) == "FSRS-6-own"
    both = set_parameters(learner, UNUSABLE["no number"], 100, 101)
    with pytest.raises(NotEnoughData, match="Preset 0"):
        LearnerSession(both).run(own_configuration)
    assert own_scheduler(both) is None


# Costs of a retention


def test_costs_leave_out_the_faulty_preset(log: ReviewLog, collection: Path) -> None:
    question = WorkloadQuestion(retentions=(0.9,), days=30, draws=1)
    first = next(workload(break_preset(log), question=question))
    assert first.preset == "Preset 0"
    assert SENTENCE in shown.sentences(first.finding)
    with pytest.raises(NotEnoughData, match="Preset 1 is left out"):
        next(workload(break_preset(log), "Preset 1", question))
    other_faulty = set_parameters(log, UNUSABLE["20 numbers"], 100)
    with pytest.raises(NotEnoughData, match="Preset 0 is left out"):
        next(workload(other_faulty, "Preset 0", question))
    by_given = next(workload(other_faulty, "Preset 0", question, parameters=fsrs6.DEFAULT))
    assert by_given.preset == "Preset 0"
    assert by_given.excluded_preset_sentences == ()


# Files and the command line


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a collection whose second preset holds 1,050 parameters."""
    learner = simulate_learner(11, 3_000)
    used = sorted({deck.preset_id for deck in learner.decks.values() if deck.preset_id})
    bad = replace(
        learner.presets[used[-1]], fsrs_parameters={5: fsrs6.DEFAULT[:19], 6: (0.5,) * 1050}
    )
    path = tmp_path_factory.mktemp("file") / "collection.anki2"
    write_collection(replace(learner, presets={**learner.presets, used[-1]: bad}), path)
    return path


def test_command_and_report_name_the_faulty_preset_in_a_sentence(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = srs_eval.load(file)
    (name,) = (
        preset.name for preset in log.presets.values() if find_fault(preset.active_parameters)
    )
    sentence = f"{name} is left out because Anki cannot use its more than 1,000 FSRS parameters"
    assert main(["compare", str(file), "--details"]) == 0
    output = capsys.readouterr().out
    assert " ".join(output.split()).count(sentence) == 1
    assert "How often" in output
    run = Run.from_configurations(resolve_configurations("AVG"))
    for event in evaluate(log, run.configurations, use_cache=False, jobs=0):
        run.apply(event)
    monkeypatch.setattr("srs_eval.report.learner._estimate_costs", lambda *_, **__: "")
    report = render_as(build_learner_report(log, run, Protocol()), "md")
    assert sentence in report
    assert "Too little data" not in report


def test_inspect_names_the_faulty_preset(
    file: Path, log: ReviewLog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(file), "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    (preset,) = (preset for preset in document["presets"] if preset["unusable"])
    assert preset["unusable"] == "more than 1,000 FSRS parameters (17, 19 or 21 are needed)"
    assert preset["parameters_version"] is None
    assert any(f"{preset['name']} is left out" in note for note in document["notes"])
    assert main(["inspect", str(file)]) == 0
    assert "unusable" in capsys.readouterr().out
    for values in UNUSABLE.values():
        inspected = inspect_log(set_parameters(log, values, 101))
        assert json.loads(to_json(inspected.to_document()))["presets"]
        reports = {report.id: report for report in inspected.presets}
        assert reports[101].unusable == find_fault(values)
        assert reports[100].unusable == ""
