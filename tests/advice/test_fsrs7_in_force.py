"""Presets that a fork of Anki schedules with FSRS-7 are evaluated by it, on the same reviews."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from srs_eval.advice import findings as f
from srs_eval.advice import shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.fsrs import assess_fit
from srs_eval.advice.questions import compare
from srs_eval.advice.sentences import PaneLine
from srs_eval.advice.shown.costs import render_minutes
from srs_eval.advice.workload.estimate import Workload, WorkloadQuestion, workload
from srs_eval.anki_import import load_log
from srs_eval.data.errors import NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.engine.ranking import add_own_parameters, match_fsrs_version, own_scheduler
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import log_losses
from srs_eval.models import fsrs6, fsrs7
from srs_eval.models.configurations import OWN_FSRS_6, OWN_FSRS_7, resolve_configurations
from srs_eval.models.own_parameters import normalize_parameters
from srs_eval.training.hyperparameters import Context
from tests.helpers.advice import find_used_presets
from tests.helpers.program import run_in_process
from tools.simulated import simulate_learner, write_collection

FSRS7_PARAMETERS = tuple(float(np.float32(1.05 * value)) for value in fsrs7.DEFAULT)
QUICK = WorkloadQuestion(retentions=(0.85,), days=30, new_a_day=0, draws=2, assume="optimized")


@pytest.fixture(scope="module")
def anki() -> ReviewLog:
    """Return a log of two presets with FSRS-6 parameters, as Anki has them."""
    return simulate_learner(2, 6000).log()


def convert_to_fork(log: ReviewLog, *seven: int) -> ReviewLog:
    """Return the log in a fork of Anki, with FSRS-7 parameters in some presets."""
    presets = {}
    for key, preset in log.presets.items():
        parameters = dict(preset.fsrs_parameters)
        if key in seven:
            parameters[7] = FSRS7_PARAMETERS
        presets[key] = replace(preset, chosen_version=7, fsrs_parameters=parameters)
    return replace(log, presets=presets)


@pytest.fixture(scope="module")
def fork(anki: ReviewLog) -> ReviewLog:
    return convert_to_fork(anki, *find_used_presets(anki))


def predict_by_fsrs7(learner: Learner, index: np.ndarray) -> np.ndarray:
    """Predict the positions with FSRS-7 and the stored list, by the equalized protocol alone."""
    protocol = replace(learner.trials.protocol, secs=True, equalize_test_with_non_secs=True)
    trials = learner.session.trials(protocol)
    position = np.flatnonzero(np.isin(trials.review_th, learner.trials.review_th[index]))
    assert len(position) == len(index)
    return fsrs7.predict(trials, list(normalize_parameters(FSRS7_PARAMETERS)), position, Context())


def test_parameters_in_force_are_evaluated_by_fsrs7(fork: ReviewLog) -> None:
    learner = Learner.of(fork)
    index = learner.trials.test_index
    p = learner.held_out_predictions(f.CURRENT)
    np.testing.assert_array_equal(p, predict_by_fsrs7(learner, index))
    with_fsrs6 = fsrs6.predict(learner.trials, list(fsrs6.DEFAULT), index, Context())
    assert np.abs(p - with_fsrs6).max() > 0.01
    # Intervals are fractions of a day, and reviews of the same day are in the histories.
    assert learner.fractional_trials.trials.history_delta_t.max() % 1 != 0
    assert len(learner.fractional_trials.trials) > len(learner.trials)


@pytest.mark.slow
def test_stale_fsrs6_list_changes_no_figure_in_force(anki: ReviewLog, fork: ReviewLog) -> None:
    presets = {
        key: replace(preset, fsrs_parameters={7: FSRS7_PARAMETERS})
        for key, preset in fork.presets.items()
    }
    bare = compare(replace(fork, presets=presets), questions=["parameters"])
    findings = compare(fork, questions=["parameters"])
    assert [finding.interval for finding in findings] == [finding.interval for finding in bare]
    of_anki = compare(anki, questions=["parameters"])
    assert findings[0].interval != of_anki[0].interval


def test_copied_parameters_of_a_fork_are_fsrs7s(fork: ReviewLog) -> None:
    *findings, of_all = compare(fork, questions=["parameters"])
    assert len(findings) == 2
    for finding in findings:
        evidence = f.get_evidence(finding, f.PresetParameters)
        names = {candidate.name for candidate in evidence.candidates}
        assert names == {f.CURRENT, f.RECENCY, f.OPTIMIZED, f.DEFAULTS, f.SM2}
        assert finding.recommendation in (f.Recommendation.KEEP, "optimize", "defaults")
        assert finding.parameters is None or len(finding.parameters) == 34
    assert any(finding.parameters for finding in findings)
    assert isinstance(of_all.evidence, f.ParameterSummary)


def test_fit_in_a_fork_is_done_once(fork: ReviewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner.of(fork)
    group = next(iter(learner.groups))
    fits = []
    monkeypatch.setattr(
        Learner, "_fit_fsrs7", lambda *arguments: fits.append(arguments) or list(fsrs7.DEFAULT)
    )
    for _ in range(2):
        learner.fit_parameters(f.RECENCY, group)
    learner.fit_parameters(f.OPTIMIZED, group)
    assert len(fits) == 2


def test_refit_in_a_fork_fits_fsrs7_on_earlier_reviews(fork: ReviewLog) -> None:
    learner = Learner.of(fork)
    group = next(iter(learner.groups))
    index = learner.positions(group)
    folds = learner.rolling_folds(index[-200:])
    p = learner.predict_refitted(f.OPTIMIZED, group, folds[-1:])
    trials = learner.fractional_trials.trials
    test = learner.fractional_trials.position[folds[-1].test]
    train = np.flatnonzero(trials.partition[: test[0]] == group)
    fitted = fsrs7.fit(trials, train, np.ones(len(train)), Context())
    np.testing.assert_array_equal(p, fsrs7.predict(trials, fitted, test, Context()))


def test_presets_of_two_versions_are_each_evaluated_by_theirs(anki: ReviewLog) -> None:
    first, second = find_used_presets(anki)[:2]
    learner = Learner.of(convert_to_fork(anki, first))
    alone = Learner.of(anki)
    p = learner.held_out_predictions(f.CURRENT)
    alone_p = alone.held_out_predictions(f.CURRENT)
    group = learner.trials.partition[learner.trials.test_index]
    index = learner.trials.test_index[group == first]
    np.testing.assert_array_equal(p[group == first], predict_by_fsrs7(learner, index))
    np.testing.assert_array_equal(p[group == second], alone_p[group == second])
    findings = {finding.subject: finding for finding in compare(learner.log, questions=["noise"])}
    assert findings[learner.group_name(first)].conclusion.endswith("of 34")
    assert findings[learner.group_name(second)].conclusion.endswith("of 21")


def test_answers_that_need_fsrs6_say_the_preset_runs_fsrs7(fork: ReviewLog) -> None:
    (split,) = compare(fork, questions=["split"])
    assert split.conclusion == f.RUNS_FSRS_7
    assert "unknown" in shown.line([split])
    health = compare(fork, questions=["health"])
    for finding in health:
        assert f.get_evidence(finding, f.Health).check is None
        assert "this preset runs FSRS-7" in " ".join(shown.sentences(finding))


def switch_fsrs_off(log: ReviewLog) -> ReviewLog:
    return replace(log, import_summary=replace(log.import_summary, fsrs_enabled=False))


def test_fork_with_fsrs_off_has_nothing_in_force(fork: ReviewLog) -> None:
    off = switch_fsrs_off(fork)
    learner = Learner.of(off)
    assert [learner.stored(group) for group in learner.groups] == [(), ()]
    assert own_scheduler(off) == "Anki-dry-run"


def test_fork_with_fsrs_off_would_run_fsrs7(anki: ReviewLog, fork: ReviewLog) -> None:
    learner = Learner.of(switch_fsrs_off(fork))
    assert all(map(learner.runs_fsrs7, learner.groups))
    of_anki = Learner.of(switch_fsrs_off(anki))
    assert not any(map(of_anki.runs_fsrs7, of_anki.groups))
    index = learner.trials.test_index
    defaults = learner.predict_with_parameters(normalize_parameters(fsrs7.DEFAULT), index)
    np.testing.assert_array_equal(learner.held_out_predictions(f.CURRENT), defaults)
    *findings, _ = compare(learner.log, questions=["parameters"])
    assert {len(finding.parameters) for finding in findings if finding.parameters} == {34}


@pytest.mark.parametrize("is_fork", [True, False])
def test_answers_of_a_fork_with_fsrs_off_name_fsrs7(
    is_fork: bool, anki: ReviewLog, fork: ReviewLog
) -> None:
    remarks = {
        "fit": "FSRS here is FSRS-6; once FSRS is on, your Anki runs FSRS-7",
        "health": "once FSRS is on, this preset runs FSRS-7",
    }
    off = switch_fsrs_off(fork if is_fork else anki)
    fit = assess_fit(Learner.of(off))
    assert f.get_evidence(fit, f.Fit).current_scheduler is not None
    for finding in (fit, *compare(off, questions=["health"])):
        text = " ".join(shown.sentences(finding))
        assert (remarks[finding.question] in text) == is_fork


# The ranking


def test_ranking_of_a_fork_runs_own_parameters_by_fsrs7(anki: ReviewLog, fork: ReviewLog) -> None:
    assert own_scheduler(anki) == OWN_FSRS_6
    assert own_scheduler(fork) == OWN_FSRS_7
    fsrs = resolve_configurations("FSRS-6")
    assert [configuration.name for configuration in add_own_parameters(fsrs, fork, Protocol())] == [
        OWN_FSRS_7,
        "FSRS-6",
    ]
    configurations = resolve_configurations("your parameters,FSRS-6")
    assert {
        configuration.name for configuration in match_fsrs_version(configurations, fork, Protocol())
    } == {
        OWN_FSRS_7,
        "FSRS-6",
    }
    assert match_fsrs_version(configurations, anki, Protocol()) == configurations
    session = LearnerSession(fork)
    own_result, fsrs6_result = (
        session.run(resolve_configurations(name)[0]) for name in (OWN_FSRS_7, "FSRS-6")
    )
    np.testing.assert_array_equal(own_result.review_th, fsrs6_result.review_th)
    trials = session.trials(resolve_configurations(OWN_FSRS_7)[0].protocol)
    index = np.flatnonzero(np.isin(trials.partition[trials.test_index], find_used_presets(fork)))
    expected = fsrs7.predict(
        trials, normalize_parameters(FSRS7_PARAMETERS), trials.test_index[index], Context()
    )
    np.testing.assert_array_equal(own_result.p[index], expected)
    assert own_result.metrics.log_loss == pytest.approx(
        log_losses(own_result.y, own_result.p).mean()
    )
    assert "(FSRS-7)" in own_result.notes[0]
    assert {len(values) for values in (own_result.parameters or {}).values()} == {34}
    with pytest.raises(NotEnoughData, match="the presets run FSRS-7"):
        session.run(resolve_configurations(OWN_FSRS_6)[0])
    with pytest.raises(NotEnoughData, match="the presets run FSRS-6"):
        LearnerSession(anki).run(resolve_configurations(OWN_FSRS_7)[0])


def test_ranking_of_two_versions_runs_each_preset_by_its_own(anki: ReviewLog) -> None:
    first, second = find_used_presets(anki)[:2]
    session = LearnerSession(convert_to_fork(anki, first))
    mixed = session.run(resolve_configurations(OWN_FSRS_7)[0])
    alone = LearnerSession(anki).run(resolve_configurations(OWN_FSRS_6)[0])
    of_second = mixed.tests.partition == second
    np.testing.assert_array_equal(mixed.p[of_second], alone.p[of_second])
    of_first = mixed.tests.partition == first
    assert not np.array_equal(mixed.p[of_first], alone.p[of_first])


def test_fork_without_parameters_runs_fsrs7_defaults(anki: ReviewLog) -> None:
    presets = {
        key: replace(preset, chosen_version=7, fsrs_parameters={})
        for key, preset in anki.presets.items()
    }
    log = replace(anki, presets=presets)
    assert own_scheduler(log) == "FSRS-7-dry-run-short-secs-equalize_test_with_non_secs"
    learner = Learner.of(log)
    defaults = learner.predict_with_parameters(fsrs7.DEFAULT, learner.trials.test_index)
    np.testing.assert_array_equal(learner.held_out_predictions(f.CURRENT), defaults)


# Given parameters, files, costs


def test_given_parameters_of_34_numbers_run_fsrs7(anki: ReviewLog) -> None:
    (finding,) = compare(
        anki, questions=["models"], parameters={"mine": FSRS7_PARAMETERS, "old": fsrs6.DEFAULT}
    )
    figures = {model.name: model for model in f.get_evidence(finding, f.ModelComparison).models}
    session = LearnerSession(anki)
    protocol = Protocol(short=True, secs=True, equalize_test_with_non_secs=True)
    trials = session.trials(protocol)
    p = fsrs7.predict(trials, normalize_parameters(FSRS7_PARAMETERS), trials.test_index, Context())
    expected = log_losses(trials.y[trials.test_index], p).mean()
    assert figures["mine"].log_loss is not None
    assert figures["mine"].log_loss.estimate == pytest.approx(expected)
    assert figures["old"].log_loss is not None
    assert figures["old"].log_loss.estimate != figures["mine"].log_loss.estimate


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a collection of the older schema, whose presets a fork has written."""
    path = tmp_path_factory.mktemp("fork") / "collection.anki2"
    write_collection(simulate_learner(2, 6000), path)
    with closing(sqlite3.connect(path)) as connection:
        (content,) = connection.execute("select dconf from col").fetchone()
        presets = json.loads(content)
        for preset in presets.values():
            preset["jschoreels.fsrs"] = {"fsrs_params_7": FSRS7_PARAMETERS}
        connection.execute("update col set dconf = ?", (json.dumps(presets),))
        connection.commit()
    return path


@pytest.fixture(scope="module")
def with_cards(file: Path) -> ReviewLog:
    """Return a collection's log, its two presets with FSRS-6 parameters as Anki has them."""
    log = load_log(file)
    presets = {
        key: replace(preset, chosen_version=None, fsrs_parameters={6: fsrs6.DEFAULT})
        for key, preset in log.presets.items()
    }
    return replace(log, presets=presets)


@pytest.mark.slow
def test_compare_and_run_commands_evaluate_fsrs7(file: Path) -> None:
    line = ", ".join(map(str, FSRS7_PARAMETERS))
    done = run_in_process(
        "compare", file, "--question", "parameters", "--params", line, "--json", "-"
    )
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)["findings"]
    rows = findings[0]["tables"][-1]["rows"]
    assert any(row["candidate"] == "params 1" for row in rows)
    assert {len(finding["parameters"]) for finding in findings if finding["parameters"]} == {34}
    ranked = run_in_process("run", file, "--models", "your parameters,AVG", "--json", "-")
    results = json.loads(ranked.stdout)["results"]
    assert {result["configuration"] for result in results} == {OWN_FSRS_7, "AVG"}


@pytest.mark.slow
def test_costs_of_today_are_computed_by_fsrs7(file: Path, with_cards: ReviewLog) -> None:
    log = load_log(file)
    by_seven, by_six = (next(workload(source, question=QUICK)) for source in (log, with_cards))
    by_given = next(workload(with_cards, question=QUICK, parameters=FSRS7_PARAMETERS))
    assert by_seven.current_figures is not None
    assert by_six.current_figures is not None
    assert by_seven.current_figures != by_six.current_figures
    assert by_given.current_figures == by_seven.current_figures
    of_fsrs6 = "the figures by desired retention are for FSRS-6"
    remark = f"Today's schedule runs FSRS-7, but {of_fsrs6}"
    assert remark in " ".join(shown.sentences(by_seven.finding))
    assert "FSRS-7" not in " ".join(shown.sentences(by_six.finding))
    of_given = " ".join(shown.sentences(by_given.finding))
    assert "Today's" not in of_given
    assert f"The parameters given are FSRS-7's, but {of_fsrs6}" in of_given
    of_seven = next(workload(log, question=replace(QUICK, model="FSRS-7")))
    assert remark not in " ".join(shown.sentences(of_seven.finding))


@pytest.mark.slow
def test_costs_say_which_presets_run_fsrs7(with_cards: ReviewLog) -> None:
    first = find_used_presets(with_cards)[0]
    log = convert_to_fork(with_cards, first)
    estimate = next(workload(log, question=QUICK))
    name = log.preset_name(first)
    assert estimate.by_fsrs7 == (name,)
    text = " ".join(shown.sentences(estimate.finding))
    assert "Today's schedule runs FSRS-7" not in text
    assert f"1 of your 2 presets runs FSRS-7 today ({name}), but the figures by desired" in text
    by_given = next(workload(log, question=QUICK, parameters=fsrs6.DEFAULT))
    assert "FSRS-7" not in " ".join(shown.sentences(by_given.finding))


@pytest.fixture(scope="module")
def estimates(with_cards: ReviewLog) -> dict[bool, Workload]:
    """Return what presets without FSRS-7 cost, by whether FSRS is off."""
    return {
        is_off: next(
            workload(switch_fsrs_off(with_cards) if is_off else with_cards, question=QUICK)
        )
        for is_off in (False, True)
    }


COSTS = [
    (0, False, "today's settings", ""),
    (0, True, "SM-2", ""),
    (1, False, "today's settings, partly by FSRS-7", "is for FSRS-7 in 1 of"),
    (2, False, "today's settings, by FSRS-7", "The row “today's settings” is for FSRS-7; the"),
    (2, True, "SM-2", "These figures are for FSRS-6, but your Anki will run FSRS-7"),
]


@pytest.mark.parametrize(("presets", "is_off", "lead", "line"), COSTS)
def test_pane_of_costs_names_the_model_of_its_figures(
    estimates: dict[bool, Workload],
    with_cards: ReviewLog,
    presets: int,
    is_off: bool,
    lead: str,
    line: str,
) -> None:
    names = [with_cards.preset_name(preset) for preset in find_used_presets(with_cards)]
    estimate = replace(estimates[is_off], by_fsrs7=tuple(names[:presets]))
    check_pane_of_costs(estimate, lead, line)


@pytest.mark.slow
@pytest.mark.parametrize(("presets", "is_off", "lead", "line"), COSTS[2:])
def test_pane_of_costs_of_a_fork_names_the_model_of_its_figures(
    with_cards: ReviewLog, presets: int, is_off: bool, lead: str, line: str
) -> None:
    log = convert_to_fork(with_cards, *find_used_presets(with_cards)[:presets])
    estimate = next(workload(switch_fsrs_off(log) if is_off else log, question=QUICK))
    check_pane_of_costs(estimate, lead, line)


def check_pane_of_costs(estimate: Workload, lead: str, line: str) -> None:
    """Check the pane's line about minutes, its remark on FSRS-7 and the finding's sentences."""
    short, items = render_minutes(estimate, is_one_of_several=False)
    assert lead in short.text
    text = " ".join(shown.sentences(estimate.finding))
    assert ("Once FSRS is on, your Anki runs FSRS-7, but the figures by" in text) == (
        estimate.is_fsrs_off and bool(estimate.by_fsrs7)
    )
    setup = "With FSRS-6 on and" if estimate.is_fsrs_off else "With optimized FSRS-6 parameters and"
    assert (setup in text) == bool(estimate.by_fsrs7)
    lines = [item.text for item in items if isinstance(item, PaneLine) and "FSRS-7" in item.text]
    remarks = [text for text in lines if text != short.text]
    assert len(remarks) == (1 if line else 0)
    assert all(line in text for text in remarks)
