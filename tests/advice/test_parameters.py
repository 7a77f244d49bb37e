"""What there is to do about each preset's parameters, and how sure that is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srs_eval.advice import shown
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
from srs_eval.advice.parameters import _choose_best, assess_parameters
from srs_eval.advice.questions import QuestionContext, ask, compare
from srs_eval.advice.sentences import describe_certainty, format_dots
from srs_eval.data.reviews import Cards, ReviewLog
from srs_eval.models import fsrs6

SAID_OF = {"optimized", "recency", "defaults", "sm2"}  # candidates that always have a probability


def of_presets(log: ReviewLog) -> list[Finding]:
    found = compare(log, questions=["parameters"])
    return [each for each in found if isinstance(each.evidence, PresetParameters)]


def evidence_of(finding: Finding) -> PresetParameters:
    assert isinstance(finding.evidence, PresetParameters)
    return finding.evidence


@pytest.fixture(scope="module")
def off(log: ReviewLog) -> list[Finding]:
    """Of somebody whose presets hold parameters while FSRS is off."""
    stored = {6: (0.1, 0.5, 1.0, 3.0, *fsrs6.DEFAULT[4:])}
    presets = {key: replace(each, fsrs_parameters=stored) for key, each in log.presets.items()}
    import_summary = replace(log.import_summary, fsrs_enabled=False)
    return of_presets(replace(log, presets=presets, import_summary=import_summary))


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
def test_the_act_is_that_with_the_least_expected_loss(
    gains: dict[str, float], can_share: bool, chosen: str
) -> None:
    candidates = [Candidate(CURRENT)]
    candidates += [Candidate(name, belief=Belief(0.7, g, g, g)) for name, g in gains.items()]
    assert _choose_best(candidates, can_share, 0.001).name == chosen


def test_what_is_less_likely_to_help_than_the_button_is_not_recommended() -> None:
    button = Candidate(RECENCY, belief=Belief(0.9, 0.004, 0.0, 0.01))
    defaults = Candidate(DEFAULTS, belief=Belief(0.8, 0.02, -0.1, 0.2))
    assert _choose_best([Candidate(CURRENT), defaults, button], True, 0.001) is button


@pytest.mark.slow
def test_what_gains_less_than_half_of_what_is_equal_is_no_act(log: ReviewLog) -> None:
    never = {
        key: replace(preset, fsrs_parameters={}, modified_s=None)
        for key, preset in log.presets.items()
    }
    unset = replace(log, presets=never)
    usual, none, large = (
        compare(unset, questions=["parameters"], equivalence=each)[:2] for each in (0.002, 0.0, 0.2)
    )
    assert any(each.recommendation != Recommendation.KEEP for each in usual)
    for ordinary, least, most in zip(usual, none, large, strict=True):
        assert most.recommendation == Recommendation.KEEP
        assert (most.gain, most.parameters) == (0.0, None)
        assert ordinary.gain is not None
        assert ordinary.recommendation == Recommendation.KEEP or ordinary.gain >= 0.001
        assert least.gain is not None
        assert least.recommendation != Recommendation.KEEP or least.gain == 0.0


def test_the_parameters_in_force_have_one_figure_on_the_same_reviews(log: ReviewLog) -> None:
    """Where they are evaluated on others, both say which."""
    never = {
        key: replace(preset, fsrs_parameters={}, modified_s=None)
        for key, preset in log.presets.items()
    }
    for each, is_stored in ((replace(log, presets=never), False), (log, True)):
        asked = QuestionContext(each)
        presets = [found for found in ask("parameters", asked) if found.probabilities]
        (fit,) = ask("fit", asked)
        assert isinstance(fit.evidence, Fit)
        whole = fit.evidence.rivals_of_kind("FSRS")[0].log_loss
        now = [evidence_of(found).candidates[0].log_loss for found in presets]
        reviews = [figure.reviews for figure in now if figure is not None]
        said = " ".join(shown.sentences(fit))
        titles = [shown.tables(found)[0].title for found in presets]
        if is_stored:
            assert sum(reviews) != whole.reviews
            assert "better here than on the reviews since" in said
            assert all("since these were set" in title for title in titles)
            continue
        assert sum(reviews) == whole.reviews
        mean = np.average([figure.estimate for figure in now if figure], weights=reviews)
        assert whole.estimate == pytest.approx(mean)
        assert "reviews since" not in said
        for found in presets:  # defaults in force are one row, and in one table
            rows = [row["candidate"] for table in shown.tables(found) for row in table.records()]
            assert sum(str(row).startswith("FSRS's defaults") for row in rows) == 1


def test_every_preset_has_an_act_and_how_sure_it_is(log: ReviewLog) -> None:
    *each, whole = compare(log, questions=["parameters"])
    assert [finding.subject for finding in each] == ["Preset 0", "Preset 1"]
    for finding in each:
        assert finding.recommendation in {Recommendation.KEEP, *RECOMMENDATIONS.values()}
        assert finding.probability is not None
        assert 0.02 <= finding.probability <= 0.98
        assert set(finding.probabilities or ()) >= SAID_OF
        assert (finding.recommendation == Recommendation.KEEP) == (finding.gain == 0.0)
        is_worth = (
            finding.recommendation != Recommendation.KEEP and (finding.probability or 0.0) >= LIKELY
        )
        assert (finding.parameters is not None) == is_worth
        evidence = evidence_of(finding)
        assert (evidence.is_fitted, evidence.is_known, evidence.fsrs_is_off) == (True, True, False)
        assert evidence.candidates[0].name == CURRENT
        first, basis, *_ = shown.sentences(finding)
        assert f"({describe_certainty(finding.probability)}, " in first
        assert "by optimizing again" in basis
        table = shown.tables(finding)[0]
        assert len(table.rows) == len(evidence.candidates)
        seen = f"{finding.reviews:,} reviews since these were set, which no candidate had seen"
        assert table.title.endswith(seen)
    assert isinstance(whole.evidence, ParameterSummary)
    said = {subject: act for act, names in whole.evidence.by_recommendation for subject in names}
    assert said == {
        one.subject: one.recommendation if one.parameters else Recommendation.KEEP for one in each
    }
    assert whole.parameters is None


def test_while_fsrs_is_off_the_defaults_are_in_force(off: list[Finding]) -> None:
    """Whatever the presets hold; what is better is worth turning FSRS on for."""
    assert off
    for finding in off:
        evidence = evidence_of(finding)
        assert (evidence.is_fitted, evidence.fsrs_is_off) == (False, True)
        now, defaults = (
            next(each for each in evidence.candidates if each.name == name)
            for name in (CURRENT, DEFAULTS)
        )
        assert now.log_loss == defaults.log_loss
        assert finding.probabilities is not None
        assert finding.probabilities[DEFAULTS] == 0.0  # they are no change
        said = shown.sentences(finding)
        assert said[0].startswith("Once FSRS is on: ") == (
            finding.recommendation != Recommendation.KEEP
        )
        assert "by optimizing again" not in said[1]


def test_to_keep_is_sure_where_a_change_would_gain_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch, learner: Learner
) -> None:
    nothing = np.array([], np.int64)
    monkeypatch.setattr(Learner, "stored", lambda *_: fsrs6.DEFAULT)
    monkeypatch.setattr(Learner, "since_optimized", lambda *_: nothing)  # optimized just now
    (finding, *_) = assess_parameters(learner, [100], {}, {})
    assert finding.recommendation == Recommendation.KEEP
    assert finding.gain == 0.0
    assert finding.probability is not None
    assert finding.probability >= 0.95
    assert "next to nothing new" in shown.sentences(finding)[1]


@pytest.mark.parametrize(
    ("entries", "sure"),
    [(300, "by other people's reviews 90 of 100"), (600, "could go either way")],
)
def test_without_presets_all_reviews_have_one_act(log: ReviewLog, entries: int, sure: str) -> None:
    """A short history says little; of a tiny one, Anki's optimizer fits next to nothing."""
    assert log.entries is not None
    few = {name: column[:entries] for name, column in vars(log.entries).items()}
    bare = replace(log, decks={}, presets={}, cards=Cards.empty())
    (finding,) = of_presets(replace(bare, entries=replace(log.entries, **few)))
    assert finding.subject == "all reviews"
    assert set(finding.probabilities or ()) == SAID_OF
    first, basis, *more = shown.sentences(finding)
    assert f"({sure}" in first
    assert "optimizing again" not in basis  # nobody knows of a first time
    assert "does not say which parameters are in force" in more[0]


@pytest.mark.parametrize("modified_s", [None, 1])
def test_of_parameters_of_any_age_something_is_said(log: ReviewLog, modified_s: int | None) -> None:
    """Where nobody knows when they were fitted, all rests on what others gained."""
    presets = {key: replace(each, modified_s=modified_s) for key, each in log.presets.items()}
    unknown = replace(log, presets=presets, optimized_before_s=None)
    finding = of_presets(unknown)[0]
    assert (finding.reviews == 0) == (modified_s is None)
    assert (finding.interval is None) == (modified_s is None)
    assert ("Too few reviews" in shown.sentences(finding)[1]) == (modified_s is None)
    assert finding.probability is not None


@pytest.mark.parametrize(
    ("probability", "words", "drawn"),
    [
        (0.98, "sure", "●●●●●"),
        (0.95, "sure", "●●●●○"),
        (0.949, "likely", "●●●●○"),
        (0.8, "likely", "●●●○○"),
        (0.799, "could go either way", "●●●○○"),
        (0.5, "could go either way", "○○○○○"),
        (0.3, "could go either way", "○○○○○"),
    ],
)
def test_how_sure_it_is_in_words_and_dots(probability: float, words: str, drawn: str) -> None:
    assert describe_certainty(probability) == words
    assert format_dots(probability) == drawn
