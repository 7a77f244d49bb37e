"""Parameters taught by three models: the fit, who gets them, how sure they are, what is said."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from srs_eval.advice import findings as f
from srs_eval.advice import parameters, population, questions, shown, taught
from srs_eval.advice.acts import ActKind, find_acts
from srs_eval.advice.candidates import ALL_REVIEWS_PROTOCOL, Learner
from srs_eval.advice.milestones import ReviewsForAdvice
from srs_eval.advice.overview import Overview
from srs_eval.advice.parameters import assess_parameters
from srs_eval.advice.questions import COSTS, PARAMETERS, TAUGHT_PARAMETERS, QuestionContext, ask
from srs_eval.advice.sentences import explain_where_to_paste
from srs_eval.advice.shown.acts import render_acts
from srs_eval.data.reviews import IntArray, ReviewLog
from srs_eval.models import fsrs6
from srs_eval.training.hyperparameters import Context
from tests.tui.app_world import make_costs

FIRST = 300  # reviews to fit to


@pytest.fixture(scope="module")
def index(learner: Learner) -> IntArray:
    return learner.positions(100)[:FIRST]


@pytest.fixture(scope="module")
def advised(learner: Learner) -> f.Finding:
    """A finding that advises taught parameters."""
    (finding, *_) = assess_parameters(learner, [100], {}, {})
    parameters = tuple(learner.fit_taught(learner.positions(100)))
    return replace(
        finding,
        recommendation=f.Recommendation.TAUGHT,
        probability=0.9,
        parameters=parameters,
        evidence=replace(f.get_evidence(finding, f.PresetParameters), compared_candidate=f.TAUGHT),
    )


def find_candidates(finding: f.Finding) -> set[str]:
    evidence = f.get_evidence(finding, f.PresetParameters)
    return {candidate.name for candidate in evidence.candidates}


# The fit


def test_average_lines_is_geometric_for_stabilities_and_decay() -> None:
    first = [1.0, 1.0, 1.0, 1.0, *[2.0] * 16, 0.1]
    second = [4.0, 9.0, 1.0, 16.0, *[3.0] * 16, 0.4]
    mean = taught.average_lines(first, second)
    assert mean == pytest.approx([2.0, 3.0, 1.0, 4.0, *[2.5] * 16, 0.2])


def test_taught_fit_is_between_ankis_fit_and_the_teachers(
    learner: Learner, index: IntArray
) -> None:
    by_anki = fsrs6.fit_as_anki(learner.trials, index, Context())
    fractional = learner.fractional_trials.trials
    by_teacher = taught.fit_to_teacher(learner.trials, index, fractional, Context())
    assert learner.fit_taught(index) == taught.average_lines(by_anki, by_teacher)
    assert by_teacher[:4] == sorted(by_teacher[:4])
    model = fsrs6.make_anki_recurrent()
    assert (np.array(by_teacher) >= np.array(model.lower)).all()
    assert (np.array(by_teacher) <= np.array(model.upper)).all()


def test_few_rows_give_ankis_fit(learner: Learner) -> None:
    few = learner.positions(100)[: taught.MIN_REVIEWS - 1]
    by_anki = fsrs6.fit_as_anki(learner.trials, few, Context())
    assert learner.fit_taught(few) == by_anki


def test_taught_fit_knows_nothing_of_later_reviews(
    log: ReviewLog, learner: Learner, index: IntArray
) -> None:
    assert log.entries is not None
    rating = log.entries.rating.copy()
    later = rating[learner.entry_index[index[-1]] + 1 :]
    later[later > 0] = np.where(later[later > 0] == 1, 3, 1)
    other = Learner.of(replace(log, entries=replace(log.entries, rating=rating)))
    assert (other.trials.y[index] == learner.trials.y[index]).all()
    assert (other.trials.y != learner.trials.y).mean() > 0.5
    p = learner.predict_with_parameters(learner.fit_taught(index), index)
    other_p = learner.predict_with_parameters(other.fit_taught(index), index)
    np.testing.assert_allclose(p, other_p, atol=1e-4)


def test_teacher_is_asked_at_other_intervals(learner: Learner, index: IntArray) -> None:
    fractional = learner.fractional_trials.trials
    targets = taught._predict_with_teacher(learner.trials, index, fractional, Context())
    assert targets.shape == (5, FIRST)
    actual, quarter, half, twice, four_times = targets
    assert (quarter > half).mean() > 0.95
    assert (half > actual).mean() > 0.95
    assert (actual > twice).mean() > 0.95
    assert (twice > four_times).mean() > 0.95


def test_fit_follows_the_teacher_where_outcomes_say_nothing(
    learner: Learner, index: IntArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def teach_fast_forgetting(*_: object) -> np.ndarray:
        t = np.outer((1.0, 0.25, 0.5, 2.0, 4.0), learner.trials.delta_t[index])
        return (1 + t) ** -0.8

    fractional = learner.fractional_trials.trials
    usual = taught.fit_to_teacher(learner.trials, index, fractional, Context())
    monkeypatch.setattr(taught, "_predict_with_teacher", teach_fast_forgetting)
    taught_otherwise = taught.fit_to_teacher(learner.trials, index, fractional, Context())
    difference = learner.predict_with_parameters(usual, index) - learner.predict_with_parameters(
        taught_otherwise, index
    )
    assert difference.mean() > 0.05


# Who gets them


def test_only_presets_with_few_reviews_on_ankis_rows_can_be_taught(
    log: ReviewLog, learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert learner.can_be_taught(100)
    assert not Learner.of(log, protocol=ALL_REVIEWS_PROTOCOL).can_be_taught(0)
    for limit, count in (("MAX_REVIEWS", 100), ("MIN_REVIEWS", 10_000)):
        with monkeypatch.context() as patch:
            patch.setattr(taught, limit, count)
            assert not learner.can_be_taught(100)
    monkeypatch.setattr(Learner, "runs_fsrs7", lambda *_: True)
    assert not learner.can_be_taught(100)


def test_app_answers_first_without_taught_parameters(log: ReviewLog) -> None:
    context = QuestionContext(log, defers_taught=True)
    early = [finding for finding in ask(PARAMETERS, context) if finding.probabilities]
    late = [finding for finding in ask(TAUGHT_PARAMETERS, context) if finding.probabilities]
    assert [finding.subject for finding in early] == [finding.subject for finding in late]
    assert all(finding.question == PARAMETERS for finding in late)
    assert all(f.TAUGHT not in find_candidates(finding) for finding in early)
    assert all(f.TAUGHT in find_candidates(finding) for finding in late)
    at_once = [
        finding for finding in ask(PARAMETERS, QuestionContext(log)) if finding.probabilities
    ]
    assert [finding.probabilities for finding in at_once] == [
        finding.probabilities for finding in late
    ]


def test_overview_keeps_taught_answers_whichever_task_ends_first(
    log: ReviewLog, advised: f.Finding
) -> None:
    early = replace(advised, recommendation=f.Recommendation.OPTIMIZE)
    for settled_first, settled_last in ((early, advised), (advised, early)):
        overview = Overview.start(log)
        for finding in (settled_first, settled_last):
            question = TAUGHT_PARAMETERS if finding is advised else PARAMETERS
            overview.add([finding])
            overview.add([finding], [question])
        assert overview.find_answers(PARAMETERS) == (advised,)
        assert not {PARAMETERS, TAUGHT_PARAMETERS} & set(overview.waiting)


def test_costs_follow_the_late_answers_whichever_task_ends_first(
    log: ReviewLog, advised: f.Finding
) -> None:
    by_early = make_costs(unchanged_presets=(advised.subject,)).glance_finding
    by_late = make_costs().glance_finding
    for tasks in (
        [([by_early], COSTS), ([advised, by_late], TAUGHT_PARAMETERS)],
        [([advised, by_late], TAUGHT_PARAMETERS), ([by_early], COSTS)],
    ):
        overview = Overview.start(log)
        for answers, question in tasks:
            for answer in answers:
                overview.add([answer])
            overview.add(answers, [question])
        assert overview.find_answers(COSTS) == (by_late,)


@pytest.mark.parametrize("is_taught", [False, True])
def test_late_answers_bring_new_costs_if_they_advise_other_parameters(
    log: ReviewLog, advised: f.Finding, monkeypatch: pytest.MonkeyPatch, is_taught: bool
) -> None:
    early = replace(advised, recommendation=f.Recommendation.KEEP, parameters=None)

    def assess(*_: Any, with_late: bool, **__: Any) -> Iterator[f.Finding]:
        yield advised if with_late and is_taught else early

    asked = []

    def estimate(
        _: ReviewLog, __: Context | None, unchanged: Collection[str]
    ) -> Iterator[f.Finding]:
        asked.append(set(unchanged))
        yield make_costs(done=0).glance_finding
        yield make_costs().glance_finding

    monkeypatch.setattr(questions.presets, "assess_parameters", assess)
    monkeypatch.setattr(questions, "estimate_at_a_glance", estimate)
    context = QuestionContext(log, defers_taught=True)
    assert len(list(ask(COSTS, context))) == 2
    late = list(ask(TAUGHT_PARAMETERS, context))
    if is_taught:
        assert late == [advised, make_costs().glance_finding]
        assert asked == [{advised.subject}, set()]
    else:
        assert late == [early]
        assert asked == [{advised.subject}]


# How sure they are


def test_taught_prior_moves_what_ankis_optimizer_gains() -> None:
    none = population.GainPrior(np.zeros(200), np.zeros(200))
    for reviews, gain in ((100, 0.0045), (600, 0.0045), (900, 0.003), (2_700, 0.001)):
        prior = population.taught_prior(none, reviews)
        assert -prior.difference.mean() == pytest.approx(gain)
        assert (prior.difference < 0).mean() == pytest.approx(0.8, abs=0.01)
        back = population.untaught_prior(prior, reviews)
        np.testing.assert_allclose(back.difference, 0.0, atol=1e-15)


@pytest.mark.parametrize("fit", ["taught", "Anki's"])
def test_stored_parameters_that_were_taught_are_recognised(
    learner: Learner, index: IntArray, monkeypatch: pytest.MonkeyPatch, fit: str
) -> None:
    stored = learner.fit_taught(index)
    if fit == "Anki's":
        stored = fsrs6.fit_as_anki(learner.trials, index, Context())
    unseen = learner.positions(100)[FIRST:]
    monkeypatch.setattr(Learner, "stored", lambda *_: tuple(stored))
    monkeypatch.setattr(Learner, "active_parameters", lambda *_: stored)
    reviews = ReviewsForAdvice(learner.positions(100), unseen)
    assert parameters._were_taught(learner, 100, reviews) == (fit == "taught")
    of_any_age = replace(reviews, unseen=None)
    assert not parameters._were_taught(learner, 100, of_any_age)


@pytest.mark.parametrize("fit", [f.TAUGHT, f.RECENCY])
def test_optimize_does_not_take_back_what_was_taught_just_now(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, fit: str
) -> None:
    index = learner.positions(100)
    stored = learner.fit_parameters(fit, 100)
    assert stored is not None
    monkeypatch.setattr(Learner, "stored", lambda *_: tuple(stored))
    monkeypatch.setattr(Learner, "active_parameters", lambda *_: stored)
    monkeypatch.setattr(Learner, "since_optimized", lambda *_: index[:0])
    (finding, *_) = assess_parameters(learner, [100], {}, {})
    assert finding.probabilities is not None
    assert finding.recommendation == f.Recommendation.KEEP
    assert finding.probability is not None
    assert finding.probability >= f.LIKELY
    by_teaching = finding.probabilities[f.TAUGHT]
    by_optimize = finding.probabilities[f.RECENCY]
    if fit == f.TAUGHT:
        assert by_optimize < 0.3
    else:
        assert by_optimize < by_teaching < f.LIKELY
    text = " ".join(shown.sentences(finding))
    is_told = "Parameters suited to few reviews might predict better, too" in text
    assert is_told == (by_teaching > 0.5)
    assert is_told == ("that optimizing would gain you next to nothing" in text)
    (line, reason, *_) = render_acts(find_acts([finding], ()))
    assert line.text == "Change nothing."
    assert ("those that Optimize would give" in reason.text) == (
        is_told and not finding.hardly_matters
    )


@pytest.mark.parametrize(("probability", "chosen"), [(0.79, f.RECENCY), (0.81, f.TAUGHT)])
def test_taught_parameters_are_advised_only_if_likely_to_help(
    probability: float, chosen: str
) -> None:
    candidates = [
        f.Candidate(f.CURRENT),
        f.Candidate(f.RECENCY, belief=f.Belief(0.7, 0.004, 0.0, 0.01)),
        f.Candidate(f.TAUGHT, belief=f.Belief(probability, 0.01, 0.0, 0.02)),
    ]
    best = parameters._choose_best(candidates, can_share=False, min_gain=0.001)
    assert best.name == chosen


# What is said


def test_act_says_what_to_paste_and_that_optimize_overwrites_it(advised: f.Finding) -> None:
    (act,) = find_acts([advised], ())
    assert act.kind == ActKind.PASTE_TAUGHT_PARAMETERS
    assert act.probability == 0.9
    first, *details = [line.text.strip() for line in render_acts([act])]
    assert first == "Paste parameters suited to few reviews."
    assert (
        "These parameters are based on your reviews and on three models. With few reviews, "
        "they usually predict better than Optimize's. If you press Optimize later, it overwrites "
        "them."
    ) in details
    assert explain_where_to_paste(advised).endswith(
        "If you press Optimize later, it overwrites these parameters: ask srs-eval again before "
        "you do."
    )
    other = replace(advised, recommendation=f.Recommendation.POOLED)
    assert "overwrites" not in explain_where_to_paste(other)


def test_evidence_says_how_they_were_made_and_tried(advised: f.Finding) -> None:
    text = " ".join(shown.sentences(advised))
    assert text.startswith("Paste parameters suited to few reviews into this preset")
    assert "22 of 25 trials on real people" in text
    (table, *_) = shown.tables(advised)
    names = [row["candidate"] for row in table.records()]
    assert "suited to few reviews" in names
