"""The act on each preset's parameters, and how sure it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srs_eval.advice import population, shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import (
    CURRENT,
    DEFAULTS,
    LIKELY,
    POOLED,
    RECENCY,
    RECOMMENDATIONS,
    SHARED,
    SM2,
    Belief,
    Candidate,
    Finding,
    Fit,
    ParameterSummary,
    PresetParameters,
    Recommendation,
)
from srs_eval.advice.fsrs import _with_recommendation
from srs_eval.advice.parameters import _choose_best, assess_parameters
from srs_eval.advice.questions import QuestionContext, ask, compare
from srs_eval.advice.sentences import describe_certainty, format_dots
from srs_eval.advice.shown.parameters import _describe_expected_gain
from srs_eval.data.reviews import Cards, ReviewLog
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import Interval

ALWAYS_ESTIMATED = {"optimized", "recency", "defaults", "sm2"}  # these always have a probability


def compare_presets(log: ReviewLog) -> list[Finding]:
    findings = compare(log, questions=["parameters"])
    return [finding for finding in findings if isinstance(finding.evidence, PresetParameters)]


def get_preset_evidence(finding: Finding) -> PresetParameters:
    assert isinstance(finding.evidence, PresetParameters)
    return finding.evidence


@pytest.fixture(scope="module")
def off(log: ReviewLog) -> list[Finding]:
    """Answer for a user whose presets hold parameters while FSRS is off."""
    stored = {6: (0.1, 0.5, 1.0, 3.0, *fsrs6.DEFAULT[4:])}
    presets = {key: replace(preset, fsrs_parameters=stored) for key, preset in log.presets.items()}
    import_summary = replace(log.import_summary, fsrs_enabled=False)
    return compare_presets(replace(log, presets=presets, import_summary=import_summary))


@pytest.mark.parametrize(
    ("gains", "can_share", "chosen"),
    [
        ({RECENCY: 0.004, DEFAULTS: -0.02}, False, RECENCY),
        ({RECENCY: -0.01, DEFAULTS: 0.005}, False, DEFAULTS),
        ({RECENCY: 0.004, POOLED: 0.0048}, False, RECENCY),  # the button is no work
        ({RECENCY: 0.004, POOLED: 0.0052}, False, POOLED),
        ({RECENCY: 0.004, POOLED: 0.008, SHARED: 0.006}, True, SHARED),  # one line for all
        ({RECENCY: 0.004, POOLED: 0.008, SHARED: 0.006}, False, POOLED),
        ({RECENCY: 0.004, SHARED: 0.02}, False, RECENCY),
        ({RECENCY: 0.004, SM2: 0.5, "one for all presets": 0.5}, True, RECENCY),  # are no acts
    ],
)
def test_choose_best_takes_the_least_expected_loss(
    gains: dict[str, float], can_share: bool, chosen: str
) -> None:
    candidates = [Candidate(CURRENT)]
    candidates += [Candidate(name, belief=Belief(0.7, g, g, g)) for name, g in gains.items()]
    assert _choose_best(candidates, can_share=can_share, min_gain=0.001).name == chosen


def test_choose_best_prefers_a_likelier_optimize() -> None:
    button = Candidate(RECENCY, belief=Belief(0.9, 0.004, 0.0, 0.01))
    defaults = Candidate(DEFAULTS, belief=Belief(0.8, 0.02, -0.1, 0.2))
    candidates = [Candidate(CURRENT), defaults, button]
    assert _choose_best(candidates, can_share=True, min_gain=0.001) is button


@pytest.mark.slow
def test_gain_below_half_of_the_equivalence_is_no_act(log: ReviewLog) -> None:
    never = {
        key: replace(preset, fsrs_parameters={}, modified_s=None)
        for key, preset in log.presets.items()
    }
    unset = replace(log, presets=never)
    usual, none, large = (
        compare(unset, questions=["parameters"], equivalence=equivalence)[:2]
        for equivalence in (0.002, 0.0, 0.2)
    )
    assert any(finding.recommendation != Recommendation.KEEP for finding in usual)
    for ordinary, least, most in zip(usual, none, large, strict=True):
        assert most.recommendation == Recommendation.KEEP
        assert (most.gain, most.parameters) == (0.0, None)
        assert ordinary.gain is not None
        assert ordinary.recommendation == Recommendation.KEEP or ordinary.gain >= 0.001
        assert least.gain is not None
        assert least.recommendation != Recommendation.KEEP or least.gain == 0.0


def test_parameters_in_force_have_one_figure_on_the_same_reviews(log: ReviewLog) -> None:
    """Check that fit and parameters agree; on different reviews, both name them."""
    never = {
        key: replace(preset, fsrs_parameters={}, modified_s=None)
        for key, preset in log.presets.items()
    }
    for source, is_stored in ((replace(log, presets=never), False), (log, True)):
        context = QuestionContext(source)
        presets = [finding for finding in ask("parameters", context) if finding.probabilities]
        (fit,) = ask("fit", context)
        assert isinstance(fit.evidence, Fit)
        figure_of_all = fit.evidence.rivals_of_kind("FSRS")[0].log_loss
        figures = [get_preset_evidence(finding).candidates[0].log_loss for finding in presets]
        reviews = [figure.reviews for figure in figures if figure is not None]
        text = " ".join(shown.sentences(fit))
        titles = [shown.tables(finding)[0].title for finding in presets]
        if is_stored:
            assert sum(reviews) != figure_of_all.reviews
            assert "which makes them look better here" in text
            assert all("since these parameters were set" in title for title in titles)
            continue
        assert sum(reviews) == figure_of_all.reviews
        mean = np.average([figure.estimate for figure in figures if figure], weights=reviews)
        assert figure_of_all.estimate == pytest.approx(mean)
        assert "reviews since" not in text
        # Defaults in force are one row, and in one table.
        for finding in presets:
            rows = []
            for table in shown.tables(finding):
                rows += [str(row["candidate"]) for row in table.records()]
            assert sum(row.startswith("FSRS's defaults") for row in rows) == 1


def test_presets_each_have_an_act_and_its_probability(log: ReviewLog) -> None:
    *findings, summary = compare(log, questions=["parameters"])
    assert [finding.subject for finding in findings] == ["Preset 0", "Preset 1"]
    for finding in findings:
        assert finding.recommendation in {Recommendation.KEEP, *RECOMMENDATIONS.values()}
        assert finding.probability is not None
        assert 0.02 <= finding.probability <= 0.98
        assert set(finding.probabilities or ()) >= ALWAYS_ESTIMATED
        assert (finding.recommendation == Recommendation.KEEP) == (finding.gain == 0.0)
        is_worth = (
            finding.recommendation != Recommendation.KEEP and (finding.probability or 0.0) >= LIKELY
        )
        assert (finding.parameters is not None) == is_worth
        evidence = get_preset_evidence(finding)
        assert (evidence.is_fitted, evidence.is_known, evidence.fsrs_is_off) == (True, True, False)
        assert evidence.candidates[0].name == CURRENT
        first, basis, *_ = shown.sentences(finding)
        assert f"({describe_certainty(finding.probability)}; " in first
        assert "by optimizing again" in basis
        table = shown.tables(finding)[0]
        assert len(table.rows) == len(evidence.candidates)
        reviews = f"the first {finding.reviews:,} reviews"
        assert table.title.endswith(f"{reviews} since these parameters were set")
    assert isinstance(summary.evidence, ParameterSummary)
    actions: dict[str, str] = {}
    for action, names in summary.evidence.by_recommendation:
        actions |= dict.fromkeys(names, action)
    expected = {
        finding.subject: finding.recommendation if finding.parameters else Recommendation.KEEP
        for finding in findings
    }
    assert actions == expected
    assert summary.parameters is None


def test_defaults_are_in_force_while_fsrs_is_off(off: list[Finding]) -> None:
    """Check that stored parameters do not run, and that a better list means to turn FSRS on."""
    assert off
    for finding in off:
        evidence = get_preset_evidence(finding)
        assert (evidence.is_fitted, evidence.fsrs_is_off) == (False, True)
        by_name = {candidate.name: candidate for candidate in evidence.candidates}
        assert by_name[CURRENT].log_loss == by_name[DEFAULTS].log_loss
        assert finding.probabilities is not None
        assert finding.probabilities[DEFAULTS] == 0.0  # the defaults are no change
        stated = shown.sentences(finding)
        assert stated[0].startswith("Once FSRS is on, ") == (
            finding.recommendation != Recommendation.KEEP
        )
        assert "by optimizing again" not in stated[1]


def test_keeping_parameters_optimized_just_now_is_sure(
    monkeypatch: pytest.MonkeyPatch, learner: Learner
) -> None:
    nothing = np.array([], np.int64)
    fitted = learner.fit_parameters(RECENCY, 100)
    assert fitted is not None
    monkeypatch.setattr(Learner, "stored", lambda *_: tuple(fitted))
    monkeypatch.setattr(Learner, "active_parameters", lambda *_: fitted)
    monkeypatch.setattr(Learner, "since_optimized", lambda *_: nothing)  # optimized just now
    (finding, *_) = assess_parameters(learner, [100], {}, {})
    assert finding.recommendation == Recommendation.KEEP
    assert finding.gain == 0.0
    assert finding.probability is not None
    assert finding.probability >= 0.95
    assert finding.hardly_matters
    assert "next to nothing new" in shown.sentences(finding)[1]


@pytest.mark.parametrize(("change", "matters"), [(1.02, False), (1.3, True)])
def test_change_of_predictions_by_over_half_a_point_may_matter(
    monkeypatch: pytest.MonkeyPatch, learner: Learner, change: float, matters: bool
) -> None:
    """Check it where all that is believed of the gain lies within what counts as equal."""
    fitted = learner.fit_parameters(RECENCY, 100)
    assert fitted is not None
    stored = [*(change * value for value in fitted[:4]), *fitted[4:]]
    monkeypatch.setattr(Learner, "stored", lambda *_: tuple(stored))
    monkeypatch.setattr(Learner, "active_parameters", lambda *_: stored)
    monkeypatch.setattr(Learner, "since_optimized", lambda *_: np.array([], np.int64))
    belief = Belief(0.6, 0.0002, -0.001, 0.001)
    monkeypatch.setattr(population, "compute_belief", lambda *_: belief)
    (finding, *_) = assess_parameters(learner, [100], {}, {})
    assert finding.hardly_matters == (not matters)


@pytest.mark.parametrize(
    ("first_stabilities", "is_known"), [(None, True), ((0.05, 0.1, 0.2, 0.3), False)]
)
def test_stored_parameters_of_others_may_matter_with_too_few_reviews_to_fit(
    monkeypatch: pytest.MonkeyPatch,
    learner: Learner,
    first_stabilities: tuple[float, ...] | None,
    is_known: bool,
) -> None:
    """Check that only parameters near what Optimize would give are said to hardly matter."""
    few = learner.positions(100)[:40]
    stored = list(fsrs6.DEFAULT)
    if first_stabilities is not None:
        stored[:4] = first_stabilities
    monkeypatch.setattr(Learner, "positions", lambda *_: few)
    monkeypatch.setattr(Learner, "fit_parameters", lambda *_: list(fsrs6.DEFAULT))
    monkeypatch.setattr(Learner, "stored", lambda *_: tuple(stored))
    monkeypatch.setattr(Learner, "active_parameters", lambda *_: stored)
    monkeypatch.setattr(Learner, "since_optimized", lambda *_: None)
    (finding, *_) = assess_parameters(learner, [100], {}, {})
    assert finding.recommendation == Recommendation.KEEP
    assert finding.hardly_matters == is_known
    assert finding.probability is not None
    assert (finding.probability >= LIKELY) == is_known


@pytest.mark.parametrize(
    ("entries", "sure"),
    [(300, "too few reviews for Anki to fit new ones"), (600, "not sure")],
)
def test_log_without_presets_has_one_act_for_all_reviews(
    log: ReviewLog, entries: int, sure: str
) -> None:
    """Check that a short history says little, and that a tiny one is hardly fitted at all."""
    assert log.entries is not None
    few = {name: column[:entries] for name, column in vars(log.entries).items()}
    bare = replace(log, decks={}, presets={}, cards=Cards.empty())
    (finding,) = compare_presets(replace(bare, entries=replace(log.entries, **few)))
    assert finding.subject == "all reviews"
    assert set(finding.probabilities or ()) == ALWAYS_ESTIMATED
    first, *remarks = shown.sentences(finding)
    assert sure in first
    assert "optimizing again" not in " ".join(remarks)  # whether it was ever optimized is unknown
    assert any("does not say which parameters you use" in remark for remark in remarks)
    # Chances of changes that cannot be made are not told.
    tables = [table for table in shown.tables(finding) if "chance" in table.heading]
    chances = [row[-1] for table in tables for row in table.rows]
    assert any(chances) == (entries > 300)


def test_act_by_other_peoples_experience_alone_is_at_most_likely(
    monkeypatch: pytest.MonkeyPatch, learner: Learner
) -> None:
    """Check a preset of which no review is unseen, with other people who all gained much."""
    certain = population.GainPrior(np.full(200, -0.1), np.zeros(200))
    monkeypatch.setattr(population, "refit_prior", lambda _: certain)
    monkeypatch.setattr(Learner, "since_optimized", lambda *_: np.array([], np.int64))
    (finding, *_) = assess_parameters(learner, [100], {}, {}, with_late=False)
    assert finding.recommendation == Recommendation.OPTIMIZE
    assert finding.belief is not None
    assert finding.belief.probability > 0.95
    assert finding.probability == pytest.approx(0.94)
    assert describe_certainty(finding.probability) == "likely"
    assert (
        "likely; the chance that this improves the predictions of your future reviews is 94 %"
        in (shown.sentences(finding)[0])
    )


@pytest.mark.parametrize(("reviews", "is_sure"), [(900, False), (1_100, True)])
def test_turning_fsrs_on_is_sure_only_by_own_reviews(reviews: int, is_sure: bool) -> None:
    minus_sm2 = Interval(-0.1, 0.01, reviews, 60, ((0.005, 59),))
    finding = _with_recommendation(Finding("fit", "all"), minus_sm2, Recommendation.TURN_FSRS_ON)
    assert finding.belief is not None
    assert finding.belief.probability > 0.95
    assert finding.probability is not None
    assert (finding.probability >= 0.95) == is_sure


@pytest.mark.parametrize("modified_s", [None, 1])
def test_parameters_of_unknown_age_rest_on_other_people(
    log: ReviewLog, modified_s: int | None
) -> None:
    """Check presets without a date of change, and with one before all reviews."""
    presets = {key: replace(preset, modified_s=modified_s) for key, preset in log.presets.items()}
    unknown = replace(log, presets=presets, optimized_before_s=None)
    finding = compare_presets(unknown)[0]
    assert (finding.reviews == 0) == (modified_s is None)
    assert (finding.interval is None) == (modified_s is None)
    assert ("Too few of your reviews are known to be newer" in shown.sentences(finding)[1]) == (
        modified_s is None
    )
    assert finding.probability is not None


@pytest.mark.parametrize(
    ("probability", "words", "drawn"),
    [
        (0.98, "sure", "●●●●●"),
        (0.95, "sure", "●●●●●"),
        (0.949, "likely", "●●●●○"),
        (0.8, "likely", "●●●○○"),
        (0.799, "not sure", "●●●○○"),
        (0.5, "not sure", "○○○○○"),
        (0.3, "not sure", "○○○○○"),
    ],
)
def test_certainty_is_worded_and_drawn_as_dots(probability: float, words: str, drawn: str) -> None:
    assert describe_certainty(probability) == words
    assert format_dots(probability) == drawn


@pytest.mark.parametrize(
    ("low", "gain", "high", "text"),
    [
        (0.011, 0.024, 0.037, "log loss should fall by about 0.024 (95 % range: 0.011 to 0.037)"),
        (
            -0.004,
            0.003,
            0.01,
            "log loss should fall by about 0.003 (95 % range: from a rise of 0.004 to a fall of "
            "0.010)",
        ),
        (-0.03, -0.02, -0.01, "log loss should rise by about 0.020 (95 % range: 0.010 to 0.030)"),
    ],
)
def test_expected_gain_is_a_fall_of_log_loss(
    low: float, gain: float, high: float, text: str
) -> None:
    assert _describe_expected_gain(Belief(0.9, gain, low, high)) == text
