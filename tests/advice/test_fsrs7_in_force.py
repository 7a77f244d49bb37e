"""Presets that a fork of Anki schedules with FSRS-7: evaluated by it, on the same reviews."""

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
from srs_eval.advice.workload.estimate import WorkloadQuestion, workload
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
from tests.cli.program import run_in_process
from tools.simulated import simulate_learner, write_collection

SEVEN = tuple(float(np.float32(1.05 * value)) for value in fsrs7.DEFAULT)
QUICK = WorkloadQuestion(retentions=(0.85,), days=30, new_a_day=0, draws=2)


@pytest.fixture(scope="module")
def anki() -> ReviewLog:
    """Two presets with FSRS-6 parameters, as Anki has them."""
    return simulate_learner(2, 6000).log()


def used(log: ReviewLog) -> list[int]:
    presets = np.unique(log.preset_of(log.cards.deck_id)).tolist()
    return [each for each in presets if each in log.presets]


def of_fork(log: ReviewLog, *seven: int) -> ReviewLog:
    """The same in a fork of Anki, with FSRS-7 parameters in some presets."""
    presets = {
        key: replace(
            preset,
            chosen_version=7,
            fsrs_parameters=preset.fsrs_parameters | ({7: SEVEN} if key in seven else {}),
        )
        for key, preset in log.presets.items()
    }
    return replace(log, presets=presets)


@pytest.fixture(scope="module")
def fork(anki: ReviewLog) -> ReviewLog:
    return of_fork(anki, *used(anki))


def by_fsrs7(learner: Learner, index: np.ndarray) -> np.ndarray:
    """FSRS-7 with the stored list on the positions, by the equalized protocol alone."""
    protocol = replace(learner.trials.protocol, secs=True, equalize_test_with_non_secs=True)
    trials = learner.session.trials(protocol)
    place = np.flatnonzero(np.isin(trials.review_th, learner.trials.review_th[index]))
    assert len(place) == len(index)
    return fsrs7.predict(trials, list(normalize_parameters(SEVEN)), place, Context())


def test_parameters_in_force_are_evaluated_by_fsrs7(fork: ReviewLog) -> None:
    learner = Learner.of(fork)
    index = learner.trials.test_index
    p = learner.held_out_predictions(f.CURRENT)
    np.testing.assert_array_equal(p, by_fsrs7(learner, index))
    with_fsrs6 = fsrs6.predict(learner.trials, list(fsrs6.DEFAULT), index, Context())
    assert np.abs(p - with_fsrs6).max() > 0.01
    # Intervals are fractions of a day, and reviews of the same day are in the histories.
    assert learner.fractional_trials.trials.history_delta_t.max() % 1 != 0
    assert len(learner.fractional_trials.trials) > len(learner.trials)


@pytest.mark.slow
def test_stale_fsrs6_list_is_not_current(anki: ReviewLog, fork: ReviewLog) -> None:
    """The figure of the parameters in force does not depend on what stands beside them."""
    presets = {
        key: replace(preset, fsrs_parameters={7: SEVEN}) for key, preset in fork.presets.items()
    }
    bare = compare(replace(fork, presets=presets), questions=["parameters"])
    found = compare(fork, questions=["parameters"])
    assert [each.interval for each in found] == [each.interval for each in bare]
    of_anki = compare(anki, questions=["parameters"])
    assert found[0].interval != of_anki[0].interval


def test_lines_to_paste_are_fsrs7s(fork: ReviewLog) -> None:
    *findings, of_all = compare(fork, questions=["parameters"])
    assert len(findings) == 2
    for each in findings:
        evidence = f.get_evidence(each, f.PresetParameters)
        names = {candidate.name for candidate in evidence.candidates}
        assert names == {f.CURRENT, f.RECENCY, f.OPTIMIZED, f.DEFAULTS, f.SM2}
        assert each.recommendation in (f.Recommendation.KEEP, "optimize", "defaults")
        assert each.parameters is None or len(each.parameters) == 34
    assert any(each.parameters for each in findings)
    assert isinstance(of_all.evidence, f.ParameterSummary)


def test_refit_is_fsrs7s_on_the_reviews_before(fork: ReviewLog) -> None:
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


def test_versions_stand_beside_each_other(anki: ReviewLog) -> None:
    first, second = used(anki)[:2]
    learner = Learner.of(of_fork(anki, first))
    alone = Learner.of(anki)
    p, mine = (
        learner.held_out_predictions(f.CURRENT),
        learner.trials.partition[learner.trials.test_index],
    )
    index = learner.trials.test_index[mine == first]
    np.testing.assert_array_equal(p[mine == first], by_fsrs7(learner, index))
    np.testing.assert_array_equal(
        p[mine == second], alone.held_out_predictions(f.CURRENT)[mine == second]
    )
    found = {each.subject: each for each in compare(learner.log, questions=["noise"])}
    assert found[learner.group_name(first)].conclusion.endswith("of 34")
    assert found[learner.group_name(second)].conclusion.endswith("of 21")


def test_what_is_fsrs6s_alone_says_so(fork: ReviewLog) -> None:
    (split,) = compare(fork, questions=["split"])
    assert split.conclusion == f.RUNS_FSRS_7
    assert "not told" in shown.line([split])
    health = compare(fork, questions=["health"])
    for each in health:
        assert f.get_evidence(each, f.Health).check is None
        assert "this preset runs FSRS-7" in " ".join(shown.sentences(each))


def switched_off(log: ReviewLog) -> ReviewLog:
    return replace(log, import_summary=replace(log.import_summary, fsrs_enabled=False))


def test_while_fsrs_is_off_nothing_is_in_force(fork: ReviewLog) -> None:
    off = switched_off(fork)
    learner = Learner.of(off)
    assert [learner.stored(group) for group in learner.groups] == [(), ()]
    assert own_scheduler(off) == "Anki-dry-run"


def test_while_fsrs_is_off_the_fork_would_run_fsrs7(anki: ReviewLog, fork: ReviewLog) -> None:
    learner = Learner.of(switched_off(fork))
    assert all(map(learner.runs_fsrs7, learner.groups))
    assert not any(map((of_anki := Learner.of(switched_off(anki))).runs_fsrs7, of_anki.groups))
    index = learner.trials.test_index
    defaults = learner.predict_with_parameters(normalize_parameters(fsrs7.DEFAULT), index)
    np.testing.assert_array_equal(learner.held_out_predictions(f.CURRENT), defaults)
    *findings, _ = compare(learner.log, questions=["parameters"])
    assert {len(each.parameters) for each in findings if each.parameters} == {34}


@pytest.mark.parametrize("is_fork", [True, False])
def test_answers_while_fsrs_is_off_say_what_is_fsrs6s(
    is_fork: bool, anki: ReviewLog, fork: ReviewLog
) -> None:
    remarks = {
        "fit": "FSRS here is FSRS-6; once FSRS is on, your Anki runs FSRS-7",
        "health": "once FSRS is on, this preset runs FSRS-7",
    }
    off = switched_off(fork if is_fork else anki)
    fit = assess_fit(Learner.of(off))
    assert f.get_evidence(fit, f.Fit).current_scheduler is not None
    for finding in (fit, *compare(off, questions=["health"])):
        said = " ".join(shown.sentences(finding))
        assert (remarks[finding.question] in said) == is_fork


# The ranking


def test_own_parameters_in_the_ranking_are_fsrs7s(anki: ReviewLog, fork: ReviewLog) -> None:
    assert own_scheduler(anki) == OWN_FSRS_6
    assert own_scheduler(fork) == OWN_FSRS_7
    fsrs = resolve_configurations("FSRS-6")
    assert [each.name for each in add_own_parameters(fsrs, fork, Protocol())] == [
        OWN_FSRS_7,
        "FSRS-6",
    ]
    asked = resolve_configurations("your parameters,FSRS-6")
    assert {each.name for each in match_fsrs_version(asked, fork, Protocol())} == {
        OWN_FSRS_7,
        "FSRS-6",
    }
    assert match_fsrs_version(asked, anki, Protocol()) == asked
    session = LearnerSession(fork)
    own, six = (session.run(resolve_configurations(name)[0]) for name in (OWN_FSRS_7, "FSRS-6"))
    np.testing.assert_array_equal(own.review_th, six.review_th)
    trials = session.trials(resolve_configurations(OWN_FSRS_7)[0].protocol)
    index = np.flatnonzero(np.isin(trials.partition[trials.test_index], used(fork)))
    wanted = fsrs7.predict(trials, normalize_parameters(SEVEN), trials.test_index[index], Context())
    np.testing.assert_array_equal(own.p[index], wanted)
    assert own.metrics.log_loss == pytest.approx(log_losses(own.y, own.p).mean())
    assert "(FSRS-7)" in own.notes[0]
    assert {len(values) for values in (own.parameters or {}).values()} == {34}
    with pytest.raises(NotEnoughData, match="the presets run FSRS-7"):
        session.run(resolve_configurations(OWN_FSRS_6)[0])
    with pytest.raises(NotEnoughData, match="the presets run FSRS-6"):
        LearnerSession(anki).run(resolve_configurations(OWN_FSRS_7)[0])


def test_own_parameters_of_two_versions_are_each_run_by_its_own(anki: ReviewLog) -> None:
    first, second = used(anki)[:2]
    session = LearnerSession(of_fork(anki, first))
    mixed, alone = (
        session.run(resolve_configurations(OWN_FSRS_7)[0]),
        LearnerSession(anki).run(resolve_configurations(OWN_FSRS_6)[0]),
    )
    of_second = mixed.tests.partition == second
    np.testing.assert_array_equal(mixed.p[of_second], alone.p[of_second])
    of_first = mixed.tests.partition == first
    assert not np.array_equal(mixed.p[of_first], alone.p[of_first])


def test_defaults_of_a_fork_are_fsrs7s(anki: ReviewLog) -> None:
    presets = {
        key: replace(preset, chosen_version=7, fsrs_parameters={})
        for key, preset in anki.presets.items()
    }
    log = replace(anki, presets=presets)
    assert own_scheduler(log) == "FSRS-7-dry-run-short-secs-equalize_test_with_non_secs"
    learner = Learner.of(log)
    defaults = learner.predict_with_parameters(fsrs7.DEFAULT, learner.trials.test_index)
    np.testing.assert_array_equal(learner.held_out_predictions(f.CURRENT), defaults)


# Parameters of one's own, files, costs


def test_params_take_34_numbers(anki: ReviewLog) -> None:
    (finding,) = compare(
        anki, questions=["models"], parameters={"mine": SEVEN, "old": fsrs6.DEFAULT}
    )
    figures = {each.name: each for each in f.get_evidence(finding, f.ModelComparison).models}
    session = LearnerSession(anki)
    protocol = Protocol(short=True, secs=True, equalize_test_with_non_secs=True)
    trials = session.trials(protocol)
    p = fsrs7.predict(trials, normalize_parameters(SEVEN), trials.test_index, Context())
    wanted = log_losses(trials.y[trials.test_index], p).mean()
    assert figures["mine"].log_loss is not None
    assert figures["mine"].log_loss.estimate == pytest.approx(wanted)
    assert figures["old"].log_loss is not None
    assert figures["old"].log_loss.estimate != figures["mine"].log_loss.estimate


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of the older schema, whose presets a fork has written."""
    path = tmp_path_factory.mktemp("fork") / "collection.anki2"
    write_collection(simulate_learner(2, 6000), path)
    with closing(sqlite3.connect(path)) as connection:
        (content,) = connection.execute("select dconf from col").fetchone()
        presets = json.loads(content)
        for preset in presets.values():
            preset["jschoreels.fsrs"] = {"fsrs_params_7": SEVEN}
        connection.execute("update col set dconf = ?", (json.dumps(presets),))
        connection.commit()
    return path


@pytest.fixture(scope="module")
def with_cards(file: Path) -> ReviewLog:
    """Two presets with FSRS-6 parameters, as Anki has them, of a collection with cards."""
    log = load_log(file)
    presets = {
        key: replace(preset, chosen_version=None, fsrs_parameters={6: fsrs6.DEFAULT})
        for key, preset in log.presets.items()
    }
    return replace(log, presets=presets)


@pytest.mark.slow
def test_command_evaluates_what_the_fork_runs(file: Path) -> None:
    line = ", ".join(map(str, SEVEN))
    done = run_in_process(
        "compare", file, "--question", "parameters", "--params", line, "--json", "-"
    )
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)["findings"]
    rows = findings[0]["tables"][-1]["rows"]
    assert any(row["candidate"] == "params 1" for row in rows)
    assert {len(each["parameters"]) for each in findings if each["parameters"]} == {34}
    ranked = run_in_process("run", file, "--models", "your parameters,AVG", "--json", "-")
    results = json.loads(ranked.stdout)["results"]
    assert {each["configuration"] for each in results} == {OWN_FSRS_7, "AVG"}


@pytest.mark.slow
def test_costs_of_today_are_of_fsrs7(file: Path, with_cards: ReviewLog) -> None:
    log = load_log(file)
    by_seven, by_six = (next(workload(each, question=QUICK)) for each in (log, with_cards))
    given = next(workload(with_cards, question=QUICK, parameters=SEVEN))
    assert by_seven.current_figures is not None
    assert by_six.current_figures is not None
    assert by_seven.current_figures != by_six.current_figures
    assert given.current_figures == by_seven.current_figures
    of_fsrs6 = "the figures by desired retention are FSRS-6's"
    remark = f"Today's schedule runs FSRS-7; {of_fsrs6}"
    assert remark in " ".join(shown.sentences(by_seven.finding))
    assert "FSRS-7" not in " ".join(shown.sentences(by_six.finding))
    of_given = " ".join(shown.sentences(given.finding))
    assert "Today's" not in of_given
    assert f"The parameters given are FSRS-7's; {of_fsrs6}" in of_given
    of_seven = next(workload(log, question=replace(QUICK, model="FSRS-7")))
    assert remark not in " ".join(shown.sentences(of_seven.finding))


@pytest.mark.slow
def test_costs_say_which_presets_run_fsrs7(with_cards: ReviewLog) -> None:
    first = used(with_cards)[0]
    log = of_fork(with_cards, first)
    found = next(workload(log, question=QUICK))
    name = log.preset_name(first)
    assert found.by_fsrs7 == (name,)
    said = " ".join(shown.sentences(found.finding))
    assert "Today's schedule runs FSRS-7" not in said
    assert f"1 of your 2 presets runs FSRS-7 today ({name}); the figures by desired" in said
    given = next(workload(log, question=QUICK, parameters=fsrs6.DEFAULT))
    assert "FSRS-7" not in " ".join(shown.sentences(given.finding))


@pytest.mark.parametrize(
    ("presets", "is_off", "lead", "line"),
    [
        (0, False, "(unchanged: ", ""),
        (0, True, "(with SM-2: ", ""),
        (1, False, "(unchanged, partly by FSRS-7: ", "“Unchanged” is FSRS-7's figure for 1 of"),
        (2, False, "(unchanged, by FSRS-7: ", "“Unchanged” is FSRS-7's figure; the other"),
        (2, True, "(with SM-2: ", "FSRS-6's figures. Once FSRS is on, your Anki runs FSRS-7."),
    ],
)
def test_pane_of_costs_says_whose_figures_these_are(
    with_cards: ReviewLog, presets: int, is_off: bool, lead: str, line: str
) -> None:
    log = of_fork(with_cards, *used(with_cards)[:presets]) if presets else with_cards
    found = next(workload(switched_off(log) if is_off else log, question=QUICK))
    short, items = render_minutes(found, is_one_of_several=False)
    assert lead in short.text
    said = " ".join(shown.sentences(found.finding))
    assert ("Once FSRS is on, your Anki runs FSRS-7; the figures by" in said) == (
        is_off and presets > 0
    )
    assert ("once FSRS-6 is" in said) == (presets > 0)
    lines = [each.text for each in items if isinstance(each, PaneLine) and "FSRS-7" in each.text]
    remarks = [each for each in lines if each != short.text]
    assert len(remarks) == bool(line)
    assert all(line in each for each in remarks)
