"""Check what is said of a change to FSRS-7: who can run it, what it brings and what it costs."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import findings as f
from srs_eval.advice import fsrs7_switch, health_check, population, shown
from srs_eval.advice.acts import ActKind, find_acts
from srs_eval.advice.candidates import Learner
from srs_eval.advice.health_check import CLANKI_RULE, FSRS_7_RULES, check_health_by_fsrs7
from srs_eval.advice.parameters import assess_parameters
from srs_eval.advice.questions import FSRS_7, TAUGHT_PARAMETERS, QuestionContext, ask, tasks_for
from srs_eval.advice.reschedule import RescheduledCards, reschedule_cards, summarize_moves
from srs_eval.advice.saved_answers import (
    SavedAnswers,
    answers_digest,
    load_answers,
    save_answers,
)
from srs_eval.advice.sentences import explain_where_to_paste
from srs_eval.advice.shown.acts import render_acts
from srs_eval.advice.shown.first_screen import build_first_screen
from srs_eval.advice.shown.fsrs7_switch import describe_preview
from srs_eval.advice.workload.ranges import RangedFigure
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import FloatArray, ReviewLog
from srs_eval.data.trials import Fold
from srs_eval.engine.result import Result, log_loss_difference
from srs_eval.engine.session import LearnerSession
from srs_eval.models import fsrs6, fsrs7
from srs_eval.models.configurations import resolve_configurations
from srs_eval.stats.intervals import Interval
from srs_eval.training.hyperparameters import Context
from tests.helpers.advice import write_small_table
from tests.helpers.program import run_in_process

RANKED = ("FSRS-7-short-secs-recency-equalize_test_with_non_secs", "FSRS-6-recency")


@pytest.fixture(scope="module")
def in_fork(learner: Learner) -> Learner:
    """Return the learner in a fork of Anki, whose presets have chosen FSRS-6."""
    presets = {
        key: replace(preset, chosen_version=6) for key, preset in learner.log.presets.items()
    }
    return Learner.of(replace(learner.log, presets=presets))


@pytest.fixture
def without_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the simulation, whose kernels take long to compile."""
    monkeypatch.setattr(fsrs7_switch, "estimate_minutes", lambda _: ())


def make_better(monkeypatch: pytest.MonkeyPatch, learner: Learner, share: float = 0.5) -> None:
    """Let FSRS-7's predictions lie nearer to the answers than FSRS-6's, by a share."""
    predict = Learner.predict

    def predict_better(
        self: Learner, candidate: str, folds: tuple[Fold, ...] | None = None
    ) -> FloatArray:
        if candidate != f.FSRS_7:
            return predict(self, candidate, folds)
        folds = self.trials.folds if folds is None else folds
        p = predict(self, f.RECENCY, folds)
        y = self.trials.y[np.concatenate([fold.test for fold in folds])]
        nearer: FloatArray = np.clip(p + share * (y - p), 0.01, 0.99)
        return nearer

    monkeypatch.setattr(Learner, "predict", predict_better)
    learner._memo.pop(("held out", f.FSRS_7), None)


def assess(learner: Learner, *groups: int) -> list[f.Finding]:
    return list(fsrs7_switch.assess_switch(learner, groups or list(learner.groups)))


def evidence_of(finding: f.Finding) -> f.Fsrs7Switch:
    return f.get_evidence(finding, f.Fsrs7Switch)


# Who can run it


def test_anki_cannot_run_fsrs7_and_forks_can(learner: Learner, in_fork: Learner) -> None:
    assert not learner.log.can_run_fsrs7
    assert not any(map(learner.can_change_to_fsrs7, learner.groups))
    assert replace(learner.log, user_has_fsrs7=True).can_run_fsrs7
    assert in_fork.log.can_run_fsrs7
    assert all(map(in_fork.can_change_to_fsrs7, in_fork.groups))


def test_preset_that_runs_fsrs7_cannot_change_to_it(learner: Learner) -> None:
    presets = {
        key: replace(preset, chosen_version=7, fsrs_parameters={7: fsrs7.DEFAULT})
        for key, preset in learner.log.presets.items()
    }
    seven = Learner.of(replace(learner.log, presets=presets))
    assert not any(map(seven.can_change_to_fsrs7, seven.groups))


def test_app_asks_last_where_the_program_can_run_it(learner: Learner, in_fork: Learner) -> None:
    assert tasks_for(in_fork.log)[-1] == (FSRS_7,)
    assert tasks_for(in_fork.log)[:-1] == tasks_for(learner.log)


def test_saved_answers_depend_on_whether_it_can_run(learner: Learner) -> None:
    logs = (learner.log, replace(learner.log, user_has_fsrs7=True))
    assert len({answers_digest(log, Context(), 0.002) for log in logs}) == 2


# The candidate


def test_candidate_is_fsrs7_with_its_own_recency_weights(learner: Learner) -> None:
    fold = learner.trials.folds[-1]
    test = fold.test[learner.trials.partition[fold.test] == 100]
    p = learner.predict(f.FSRS_7, [replace(fold, test=test)])
    fractional = learner.fractional_trials
    trials = fractional.trials
    position = fractional.position[test]
    train = np.flatnonzero(trials.partition[: position[0]] == 100)
    weights = fsrs7.compute_fsrs7_recency_weights(len(train))
    fitted = fsrs7.fit(trials, train, weights, Context())
    np.testing.assert_array_equal(p, fsrs7.predict(trials, fitted, position, Context()))


def test_fit_of_the_candidate_uses_all_reviews(learner: Learner) -> None:
    trials = learner.fractional_trials.trials
    train = np.flatnonzero(trials.partition == 100)
    weights = fsrs7.compute_fsrs7_recency_weights(len(train))
    fitted = fsrs7.fit(trials, train, weights, Context())
    assert learner.fit_parameters(f.FSRS_7, 100) == fitted


@pytest.mark.parametrize("is_fork", [False, True])
def test_fsrs7_is_a_candidate_only_where_it_can_run(
    is_fork: bool, learner: Learner, in_fork: Learner
) -> None:
    source = in_fork if is_fork else learner
    (finding, *_) = assess_parameters(source, [100], {}, {})
    evidence = f.get_evidence(finding, f.PresetParameters)
    names = [candidate.name for candidate in evidence.candidates]
    assert (f.FSRS_7 in names) == is_fork
    assert finding.probabilities is not None
    assert (f.FSRS_7 in finding.probabilities) == is_fork
    # The verdicts on the other candidates are the same: FSRS-7 makes no test stricter.
    others = [candidate for candidate in evidence.candidates if candidate.name != f.FSRS_7]
    (of_anki, *_) = assess_parameters(learner, [100], {}, {})
    assert others == list(f.get_evidence(of_anki, f.PresetParameters).candidates)


def test_late_candidates_are_left_out_of_the_first_answer(in_fork: Learner) -> None:
    (finding, *_) = assess_parameters(in_fork, [100], {}, {}, with_late=False)
    assert finding.probabilities is not None
    assert f.FSRS_7 not in finding.probabilities
    late = list(ask(TAUGHT_PARAMETERS, QuestionContext(in_fork.log, defers_taught=True)))
    assert any(f.FSRS_7 in (finding.probabilities or {}) for finding in late)


@pytest.fixture
def advised(in_fork: Learner, monkeypatch: pytest.MonkeyPatch) -> f.Finding:
    """A finding that advises FSRS-7."""
    make_better(monkeypatch, in_fork)
    (finding, *_) = assess_parameters(in_fork, [100], {}, {})
    return finding


def test_fsrs7_is_advised_if_it_is_likely_to_help(advised: f.Finding, in_fork: Learner) -> None:
    assert advised.recommendation == f.Recommendation.CHANGE_TO_FSRS_7
    assert advised.probability is not None
    assert advised.probability >= f.LIKELY
    assert advised.parameters == tuple(in_fork.fit_parameters(f.FSRS_7, 100) or ())
    assert len(advised.parameters) == 34
    assert advised.interval is not None
    assert advised.interval.estimate < 0
    text = " ".join(shown.sentences(advised))
    assert text.startswith("Choose FSRS-7 for this preset and press Optimize (")
    assert "the log loss of “FSRS-7, optimized” was" in text
    assert explain_where_to_paste(advised).startswith("Choose FSRS-7 first. ")
    assert shown.document(advised)["act"] == "FSRS-7"


def test_worse_fsrs7_is_not_advised(in_fork: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    make_better(monkeypatch, in_fork, share=-0.3)
    (finding, *_) = assess_parameters(in_fork, [100], {}, {})
    assert finding.recommendation != f.Recommendation.CHANGE_TO_FSRS_7
    assert finding.probabilities is not None
    assert finding.probabilities[f.FSRS_7] < 0.5


def test_act_is_to_choose_fsrs7_and_has_no_minutes(advised: f.Finding) -> None:
    (act,) = find_acts([advised], [])
    assert act.kind == ActKind.CHANGE_TO_FSRS_7
    assert act.equal_memory is None
    assert act.at_same_desire is None
    lines = [line.text for line in render_acts([act])]
    assert lines[0] == "Choose FSRS-7 and press Optimize."
    assert any("FSRS-7 should then predict your future reviews better" in line for line in lines)
    pane = build_first_screen([advised], acts=[act]).panes[0]
    assert pane.questions == ("parameters", FSRS_7, "fit")
    several = [line.text for line in render_acts([replace(act, preset_count=2)])]
    assert several[0] == "Choose FSRS-7 in “Preset 0” and press Optimize."


# What other people gained


def test_prior_without_own_reviews_is_the_share_of_like_users() -> None:
    for reviews in (1_000, 10_000, 60_000):
        prior = population.fsrs7_prior(reviews)
        weight = np.exp(prior.log_weight)
        share = weight[prior.difference < 0].sum() / weight.sum()
        assert 0.6 < share < 0.9
        belief = population.compute_belief(None, prior)
        # A hundredth of the weight are outliers, and no statement is surer than 98 %.
        assert belief.probability == pytest.approx(share, abs=0.02)
    everyone = np.array(population._FSRS_7_USERS)
    assert len(everyone) == 49
    assert (everyone[:, 1] < 0).sum() == 36
    assert everyone[:, 1].mean() == pytest.approx(-0.0034, abs=5e-5)


def test_prior_of_a_change_adds_what_optimizing_gains() -> None:
    refit = population.refit_prior(population.StoredParameters(0.01, 3_000, 1_000))
    change = population.fsrs7_change_prior(refit, 3_000)
    over_fsrs6 = population.fsrs7_prior(3_000)

    def mean(prior: population.GainPrior) -> float:
        return float(np.average(prior.difference, weights=np.exp(prior.log_weight)))

    assert mean(change) == pytest.approx(mean(refit) + mean(over_fsrs6))
    assert change.difference.std() > refit.difference.std()


# The question


def test_several_presets_are_answered_together_and_one_by_one(
    learner: Learner, without_minutes: None
) -> None:
    over_all, *by_preset = assess(learner)
    assert over_all.subject == f.ALL_PRESETS
    assert [finding.subject for finding in by_preset] == list(learner.groups.values())
    losses = learner.held_out_losses(f.FSRS_7) - learner.held_out_losses(f.RECENCY)
    assert over_all.interval is not None
    assert over_all.interval.estimate == pytest.approx(losses.mean())
    assert over_all.reviews == sum(finding.reviews for finding in by_preset)
    moves = [evidence_of(finding).moves for finding in (over_all, *by_preset)]
    counts = [(some.cards, some.sooner, some.later) for some in moves if some is not None]
    assert counts[0] == tuple(map(sum, zip(*counts[1:], strict=True)))
    assert evidence_of(over_all).checks == ()
    assert all(len(evidence_of(finding).checks) == 2 for finding in by_preset)
    assert evidence_of(over_all).is_about_minutes
    assert not any(evidence_of(finding).is_about_minutes for finding in by_preset)


@pytest.mark.parametrize("share", [0.5, -0.5])
def test_answer_names_the_better_model(
    share: float, learner: Learner, without_minutes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_better(monkeypatch, learner, share)
    try:
        finding = assess(learner)[0]
    finally:
        learner._memo.pop(("held out", f.FSRS_7), None)
    word = "better" if share > 0 else "worse"
    assert finding.conclusion == word
    text = " ".join(shown.sentences(finding))
    rival = evidence_of(finding).rivals[0]
    percent = f"{100 * abs(rival.saved.estimate):.1f} %"
    assert text.startswith(f"FSRS-7 would predict your answers {percent} {word} than FSRS-6")
    assert finding.probability is not None
    assert (finding.probability > 0.9) == (share > 0)


def test_todays_parameters_are_compared_on_reviews_that_they_have_not_seen(
    learner: Learner, without_minutes: None
) -> None:
    finding = assess(learner, 100)[0]
    fsrs6_rival, today = evidence_of(finding).rivals
    assert (fsrs6_rival.name, today.name) == (f.RECENCY, f.CURRENT)
    unseen = learner.since_optimized(100)
    assert unseen is not None
    assert today.difference.reviews == len(unseen)
    in_force = learner.predict_with_parameters(learner.active_parameters(100), unseen)
    assert today.log_loss.estimate == pytest.approx(learner.losses(in_force, unseen).mean())


def test_without_fsrs_sm2_is_what_schedules_today(learner: Learner, without_minutes: None) -> None:
    summary = replace(learner.log.import_summary, fsrs_enabled=False)
    off = Learner.of(replace(learner.log, import_summary=summary))
    finding = assess(off, 100)[0]
    assert [rival.name for rival in evidence_of(finding).rivals] == [f.RECENCY, f.SM2]
    assert "SM-2, which schedules your cards now" in " ".join(shown.sentences(finding))


@pytest.mark.parametrize("is_fork", [False, True])
def test_answer_says_whether_the_program_can_run_it(
    is_fork: bool, learner: Learner, in_fork: Learner, without_minutes: None
) -> None:
    finding = assess(in_fork if is_fork else learner, 100)[0]
    assert evidence_of(finding).can_run == is_fork
    text = " ".join(shown.sentences(finding))
    assert ("Your program can run FSRS-7" in text) == is_fork
    assert ("Anki cannot run FSRS-7 yet" in text) != is_fork


def test_preset_that_runs_fsrs7_has_nothing_to_move(
    learner: Learner, without_minutes: None
) -> None:
    presets = {
        key: replace(preset, chosen_version=7, fsrs_parameters={7: fsrs7.DEFAULT})
        for key, preset in learner.log.presets.items()
    }
    seven = Learner.of(replace(learner.log, presets=presets))
    finding = assess(seven, 100)[0]
    evidence = evidence_of(finding)
    assert evidence.runs_it
    assert evidence.moves is None
    assert [rival.name for rival in evidence.rivals] == [f.RECENCY]
    assert "FSRS-7 already schedules this preset." in shown.sentences(finding)


def test_table_without_presets_gets_the_log_loss_only(
    tmp_path: Path, without_minutes: None
) -> None:
    path = tmp_path / "small.csv"
    write_small_table(path)
    log = srs_eval.load(path)
    (finding,) = srs_eval.compare(log, questions=[FSRS_7])
    evidence = evidence_of(finding)
    assert len(evidence.rivals) == 1
    assert evidence.moves is None
    assert not evidence.is_about_minutes


def test_document_has_a_table_of_each_kind_of_figure(
    learner: Learner, without_minutes: None
) -> None:
    document = json.loads(json.dumps(shown.documents(assess(learner), "anki")))
    titles = [table["title"] for table in document["findings"][1]["tables"]]
    assert [title.split(": ")[1] for title in titles] == [
        "log loss",
        "cards that would move",
        "cards due",
        "health check of FSRS-7",
    ]


def test_saved_answers_keep_the_evidence(
    learner: Learner, without_minutes: None, tmp_path: Path
) -> None:
    finding = assess(learner, 100)[0]
    minutes = (make_minutes(f.BY_FSRS_7, (-0.1, -1.0, 0.9)), make_minutes(f.BY_FSRS_6, None))
    finding = replace(finding, evidence=replace(evidence_of(finding), minutes=minutes))
    save_answers("a", SavedAnswers((finding,), "digest", 1, 0.0), tmp_path)
    saved = load_answers("a", tmp_path)
    assert saved is not None
    assert shown.document(saved.findings[0]) == shown.document(finding)


# The day of the change


def reschedule(learner: Learner, parameters: tuple[float, ...]) -> RescheduledCards:
    cards = reschedule_cards(learner, 100, learner.log.presets[100], parameters)
    assert isinstance(cards, RescheduledCards)
    return cards


def test_cards_come_when_fsrs7_expects_the_desired_retention(learner: Learner) -> None:
    cards = reschedule(learner, fsrs7.DEFAULT)
    interval = cards.new_due_day - cards.last_day
    assert interval.min() >= 1
    # A day more or less matters little to long intervals that are not over yet.
    is_exact = (cards.new_due_day > 0) & (interval > 20)
    assert is_exact.sum() > 50
    np.testing.assert_allclose(cards.new_recall[is_exact], 0.9, atol=0.006)


def test_moves_of_presets_are_those_of_their_cards(learner: Learner) -> None:
    cards = reschedule(learner, fsrs7.DEFAULT)
    twice = summarize_moves([cards, cards], fsrs_is_off=False)
    once = summarize_moves([cards], fsrs_is_off=False)
    assert twice.cards == 2 * once.cards
    assert twice.days_moved == pytest.approx(once.days_moved, abs=3)
    assert twice.without is not None
    assert once.without is not None
    assert twice.without.by_day == tuple(2 * count for count in once.without.by_day)
    assert twice.without.recall == pytest.approx(once.without.recall)
    assert twice.reviews_a_day == pytest.approx(2 * once.reviews_a_day)


def test_cards_that_come_after_ten_years_are_warned_of() -> None:
    load = f.DueCards(5, (5, *[0] * 29), 0.9)
    moves = f.Reschedule("yes", 100, 0, 90, (0, 20, 9_000), without=load, rescheduled=load)
    interval = Interval(-0.01, 0.002, 5_000, 100)
    rival = f.Fsrs7Rival(f.RECENCY, interval, interval, interval, "better", interval)
    for count in (0, 30):
        evidence = f.Fsrs7Switch(
            "better", True, False, rivals=(rival,), moves=moves, cards_beyond_ten_years=count
        )
        finding = f.Finding(FSRS_7, "A", probability=0.9, evidence=evidence)
        text = " ".join(shown.sentences(finding))
        assert ("30 cards would come back only after ten years" in text) == bool(count)
        assert ("Reschedule when you change to FSRS-7" in text) != bool(count)


# Health checks


def test_clankis_health_check_has_its_own_limits() -> None:
    usual_loss = 0.5988 * (4 * 0.9 * 0.1) ** 0.7303
    usual_rmse = 0.0072 / (0.9**0.9034 - 1.1) + 0.1578 / (5**0.6513 + 1.6275) + 0.0711
    for loss, rmse, passes in ((1.07, 2, True), (2, 1.33, True), (1.09, 1.35, False)):
        check = CLANKI_RULE.apply(loss * usual_loss, rmse * usual_rmse, 0.9, 5_000)
        assert check is not None
        assert check.passed == passes
    assert CLANKI_RULE.apply(0.3, 0.05, 0.9, 300) is None


def test_health_checks_of_forks_count_same_day_reviews(learner: Learner) -> None:
    checks = check_health_by_fsrs7(learner, 100)
    assert [check.version for check in checks] == [rule.version for rule in FSRS_7_RULES]
    assert checks[0].log_loss == checks[1].log_loss
    trials = learner.fractional_trials.trials
    index = np.flatnonzero(trials.partition == 100)
    assert len(index) > len(learner.positions(100))
    recall = trials.y[index].mean()
    usual = 0.5988 * (4 * recall * (1 - recall)) ** 0.7303
    assert checks[0].log_loss_ratio == pytest.approx(checks[0].log_loss / usual)


def test_bins_of_forks_count_reviews_a_day_or_more_apart(learner: Learner) -> None:
    trials = learner.fractional_trials.trials
    index = np.arange(0, len(trials), 97)
    reviews, lapses = health_check._count_long_reviews(trials, index)
    for number, position in enumerate(index):
        start = trials.history_start[position]
        end = trials.history_end[position]
        delta_t = trials.history_delta_t[start : end + 1]
        rating = trials.history_rating[start:end]
        assert reviews[number] == 1 + (delta_t >= 1).sum()
        assert lapses[number] == ((rating == 1) & (delta_t[:-1] >= 1)).sum()


# Minutes


def make_minutes(memory: str, extra: tuple[float, float, float] | None) -> f.SwitchMinutes:
    figure = None if extra is None else RangedFigure(*extra)
    return f.SwitchMinutes(f.BY_FSRS_6, memory, 10.0, 0.9, 1_000.0, figure, None)


@pytest.mark.parametrize(
    ("by_seven", "by_six", "words"),
    [
        ((-0.1, -1.0, 0.9), (0.2, -0.8, 1.3), "A simulation can be off by that much."),
        ((-2.0, -3.0, -1.0), (-1.5, -2.5, -0.1), "So it would save time."),
        ((2.0, 1.0, 3.0), (2.5, 0.1, 4.0), "So it would cost time."),
        ((-2.0, -3.0, -1.0), (-0.5, -1.0, 0.5), "So it may save time."),
        ((0.2, -0.3, 1.0), (2.0, 0.5, 3.0), "So it may cost time."),
        ((-2.0, -3.0, -1.0), (0.5, -1.0, 2.0), "depends on which of the two is right."),
        ((-2.0, -3.0, -1.0), None, "If it works as the other version describes, no simulated"),
        (None, None, "No retention that was simulated lets you remember as much with FSRS-7"),
    ],
)
def test_minutes_count_only_beyond_their_range(
    by_seven: tuple[float, float, float] | None,
    by_six: tuple[float, float, float] | None,
    words: str,
) -> None:
    interval = Interval(-0.01, 0.002, 5_000, 100)
    rival = f.Fsrs7Rival(f.RECENCY, interval, interval, interval, "better", interval)
    minutes = (make_minutes(f.BY_FSRS_7, by_seven), make_minutes(f.BY_FSRS_6, by_six))
    evidence = f.Fsrs7Switch(
        "better", True, False, rivals=(rival,), is_about_minutes=True, minutes=minutes
    )
    finding = f.Finding(FSRS_7, "A", probability=0.9, evidence=evidence)
    assert words in " ".join(shown.sentences(finding))
    assert len(shown.tables(finding)[1].rows) == 2


@pytest.mark.slow
def test_fsrs7_takes_as_long_as_itself(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    by_schedule = {row.schedule: row for row in fsrs7_switch.estimate_minutes(learner)}
    assert set(by_schedule) == {f.BY_FSRS_6, f.BY_TODAY}
    fit_all = fsrs7_switch._fit_all
    monkeypatch.setattr(
        fsrs7_switch, "_fit_all", lambda *arguments: fit_all(*arguments[:2], "FSRS-7")
    )
    rows = [row for row in fsrs7_switch.estimate_minutes(learner) if row.schedule == f.BY_FSRS_6]
    assert len(rows) == 2
    for row in rows:
        assert row.change == pytest.approx(0.0, abs=0.01)
        assert row.extra_minutes is not None
        assert row.extra_minutes.low < 0 < row.extra_minutes.high


def test_few_reviews_have_no_minutes(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsrs7_switch, "MIN_REVIEWS", len(learner.trials) + 1)
    assert fsrs7_switch.estimate_minutes(learner) == ()


# The line for those who cannot run it


@pytest.fixture(scope="module")
def ranked(log: ReviewLog) -> dict[str, Result]:
    session = LearnerSession(log)
    configurations = [resolve_configurations(name, Protocol())[0] for name in RANKED]
    return {
        configuration.name: session.run(configuration, Context())
        for configuration in configurations
    }


def move_towards_answers(results: dict[str, Result], share: float) -> dict[str, Result]:
    fsrs6_result = results[RANKED[1]]
    p = fsrs6_result.p + share * (fsrs6_result.y - fsrs6_result.p)
    return {**results, RANKED[0]: replace(results[RANKED[0]], p=np.clip(p, 0.01, 0.99))}


def test_preview_has_the_figure_of_the_ranking(log: ReviewLog, ranked: dict[str, Result]) -> None:
    better = fsrs7_switch.find_preview(log, move_towards_answers(ranked, 0.1), 0.002)
    assert better is not None
    assert better.verdict == "better"
    percent = f"{100 * better.saved.estimate:.1f} %"
    assert describe_preview(better) == (
        f"FSRS-7 would predict your answers {percent} better; Anki cannot run it yet."
    )
    for share in (0.0, -0.1):
        preview = fsrs7_switch.find_preview(log, move_towards_answers(ranked, share), 0.002)
        assert preview is not None
        assert describe_preview(preview) == (
            "FSRS-7, which Anki cannot run yet, would predict your answers no better."
        )


def test_preview_is_only_for_those_who_cannot_run_it(
    log: ReviewLog, ranked: dict[str, Result]
) -> None:
    better = move_towards_answers(ranked, 0.1)
    supermemo = replace(log, import_summary=replace(log.import_summary, app_name="SuperMemo"))
    for source in (supermemo, replace(log, user_has_fsrs7=True)):
        assert fsrs7_switch.find_preview(source, better, 0.002) is None
    for name in RANKED:
        without = {key: result for key, result in better.items() if key != name}
        assert fsrs7_switch.find_preview(log, without, 0.002) is None


def test_open_difference_has_no_preview(log: ReviewLog, ranked: dict[str, Result]) -> None:
    p = ranked[RANKED[1]].p
    noise = np.random.default_rng(1).normal(0.0, 0.05, len(p))
    y = ranked[RANKED[1]].y
    # Noise makes predictions worse, and answers that are known a little better again.
    noisy = np.clip(p + noise + 0.014 * (y - p), 0.01, 0.99)
    open_results = {**ranked, RANKED[0]: replace(ranked[RANKED[0]], p=noisy)}
    difference = log_loss_difference(open_results[RANKED[0]], open_results[RANKED[1]])
    assert difference is not None
    assert difference.low < 0 < difference.high
    assert fsrs7_switch.find_preview(log, open_results, 1e-6) is None


# The command


@pytest.fixture(scope="module")
def fork_file(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a collection whose presets JSchoreels' fork has written, with FSRS-6 chosen."""
    path = tmp_path_factory.mktemp("fork") / "collection.anki2"
    path.write_bytes(collection.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        (content,) = connection.execute("select dconf from col").fetchone()
        presets = json.loads(content)
        for preset in presets.values():
            preset["fsrsParams6"] = fsrs6.DEFAULT
            preset["jschoreels.fsrs"] = {"fsrs_params_7": fsrs7.DEFAULT, "fsrs_version": 1}
        connection.execute("update col set dconf = ?", (json.dumps(presets),))
        connection.commit()
    return path


def run_compare(path: Path, *options: str) -> list[dict[str, Any]]:
    done = run_in_process("compare", path, "--question", "fsrs-7", "--json", "-", *options)
    assert done.returncode == 0, done.stderr
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return findings


def test_command_recognises_a_fork_that_runs_fsrs6(
    fork_file: Path, collection: Path, without_minutes: None
) -> None:
    log = srs_eval.load(fork_file)
    assert log.can_run_fsrs7
    assert not any(preset.runs_fsrs7 for preset in log.presets.values())
    can = "Your program can run FSRS-7: choose it as the FSRS version, then optimize."
    cannot = "Anki cannot run FSRS-7 yet, but two forks of it can."
    for finding in run_compare(fork_file):
        assert can in finding["sentences"]
    for finding in run_compare(collection):
        assert any(sentence.startswith(cannot) for sentence in finding["sentences"])
        assert finding["interval"]["reviews"] == finding["reviews"]
    for finding in run_compare(collection, "--fsrs-7"):
        assert can in finding["sentences"]


def test_config_says_that_the_program_can_run_it(
    collection: Path, without_minutes: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from srs_eval.tui import config

    path = tmp_path / "config.toml"
    path.write_text("fsrs_7 = true\n", encoding="utf-8")
    load_config = config.load_config
    monkeypatch.setattr(config, "load_config", lambda: load_config(path))
    assert "Your program can run FSRS-7" in " ".join(run_compare(collection)[0]["sentences"])
    against = run_compare(collection, "--no-fsrs-7")[0]["sentences"]
    assert "Your program can run FSRS-7" not in " ".join(against)


@pytest.mark.slow
def test_command_tells_minutes_at_equal_memory(collection: Path) -> None:
    finding = run_compare(collection)[0]
    (table,) = [table for table in finding["tables"] if "equal memory" in table["title"]]
    assert {row["memory follows"] for row in table["rows"]} == {"FSRS-6", "FSRS-7"}
    assert any("To remember the same share" in sentence for sentence in finding["sentences"])
