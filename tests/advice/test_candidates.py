"""Candidates for a preset's parameters, and pooling over presets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import pooling, shown
from srs_eval.advice.candidates import CONFIGURATIONS, Learner
from srs_eval.advice.findings import CURRENT, DEFAULTS, POOLED, SM2, PresetParameters
from srs_eval.advice.questions import compare
from srs_eval.advice.shown.parameters import candidate_name
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import Preset, ReviewLog
from srs_eval.models import fsrs6
from srs_eval.models.configurations import resolve_configurations
from srs_eval.training.hyperparameters import Context
from srs_eval.training.recurrent import SummedLoss
from tests.advice.helpers import FIXTURES
from tests.conftest import shared_or_skip

# Candidates


@pytest.mark.parametrize("candidate", CONFIGURATIONS)
def test_candidates_are_the_engines_configurations(candidate: str, learner: Learner) -> None:
    result = learner.session.run(
        resolve_configurations(CONFIGURATIONS[candidate], Protocol(rows="anki"))[0]
    )
    assert np.array_equal(learner.predict(candidate), result.p)
    assert np.array_equal(learner.trials.review_th[learner.trials.test_index], result.review_th)


def test_default_settings_of_sm2_are_the_engines(learner: Learner) -> None:
    result = learner.session.run(resolve_configurations("Anki-dry-run", Protocol(rows="anki"))[0])
    assert np.array_equal(learner.predict(SM2), result.p)
    own = replace(
        learner.log,
        presets={
            key: replace(preset, sm2_settings=(1, 4, 2.5, 1.3, 1.2, 0.5, 0.8))
            for key, preset in learner.log.presets.items()
        },
    )
    assert (Learner.of(own).predict(SM2) != result.p).any()


def test_stored_defaults_are_the_candidate_defaults(learner: Learner) -> None:
    assert np.array_equal(learner.predict(CURRENT), learner.predict("defaults"))


def test_presets_never_optimized_are_evaluated_on_all_held_out_reviews(log: ReviewLog) -> None:
    never = replace(
        log,
        presets={
            key: replace(preset, fsrs_parameters={}, modified_s=None)
            for key, preset in log.presets.items()
        },
    )
    learner = Learner.of(never)
    index = learner.trials.test_index
    since = [learner.since_optimized(group) for group in (100, 101)]
    assert all(each is not None for each in since)
    assert set(np.concatenate([each for each in since if each is not None])) == set(index)
    answer = compare(never, questions=["parameters"])[0]
    assert answer.reviews == len(learner.since_optimized(100))
    assert isinstance(answer.evidence, PresetParameters)
    figures = {each.name: each.log_loss for each in answer.evidence.candidates}
    assert figures[CURRENT] == figures[DEFAULTS]
    names = [row["candidate"] for row in shown.tables(answer)[0].records()]
    assert [name for name in names if candidate_name(DEFAULTS) in name] == [
        f"{candidate_name(DEFAULTS)}, in force"
    ]


def test_parameters_that_the_source_does_not_tell_are_not_taken_for_none(log: ReviewLog) -> None:
    """A research export has ids of presets, and nothing else of them."""
    bare = replace(log, presets={key: Preset(key, "") for key in log.presets})
    answers = compare(bare, questions=["parameters", "often", "retention"])
    first = answers[0]
    stated = " ".join(shown.sentences(first))
    assert "does not say which parameters are in force: the defaults stand here" in stated
    said = " ".join(sentence for answer in answers for sentence in shown.sentences(answer))
    assert "never been optimized" not in said
    assert "parameters in force (" not in said


def test_rivals_are_renewed_from_the_past_only(learner: Learner) -> None:
    index = learner.since_optimized(101)
    assert index is not None
    folds = learner.rolling_folds(index)
    assert len(folds) == 5
    assert np.array_equal(np.concatenate([fold.test for fold in folds]), index)
    for fold in folds:
        assert fold.train[-1] < fold.test[0]
    # Changing what comes after a block does not change its predictions.
    for candidate in ("optimized", "one for all presets", POOLED):
        first = learner.predict(candidate, folds[:2])
        assert np.array_equal(learner.predict(candidate, folds)[: len(first)], first)


def test_figures_of_compare_are_the_engines(log: ReviewLog, learner: Learner) -> None:
    answers = compare(log, questions=["parameters"])
    whole = shown.tables(answers[-1])[0].records()
    figures = {row["candidate"]: row["log loss"] for row in whole}
    for candidate, name in CONFIGURATIONS.items():
        result = learner.session.run(resolve_configurations(name, Protocol(rows="anki"))[0])
        assert figures[candidate_name(candidate)] == pytest.approx(
            result.metrics.log_loss, abs=1e-12
        )
    assert answers == compare(log, questions=["parameters"])


def test_groups_without_a_preset_of_their_own_are_told_apart(log: ReviewLog) -> None:
    """Of a preset that is gone, and of decks that are gone; two presets may share a name."""
    gone = {key: each for key, each in log.presets.items() if key != 101}
    first = int(log.cards.deck_id[0])
    decks = {**log.decks, first: replace(log.decks[first], preset_id=None)}
    names = Learner.of(replace(log, presets=gone, decks=decks)).groups
    assert names == {-1: "no preset", 100: "Preset 0", 101: "preset 101"}
    twins = {key: replace(each, name="Twin") for key, each in log.presets.items()}
    assert Learner.of(replace(log, presets=twins)).groups == {100: "Twin (100)", 101: "Twin (101)"}


def test_groups_of_a_collection_with_gaps_have_names_of_their_own() -> None:
    fixture = srs_eval.load(shared_or_skip(FIXTURES) / "quirks.anki2")
    names = list(Learner.of(fixture).groups.values())
    assert len(names) == 3
    assert len(set(names)) == 3


def test_a_review_or_two_are_spoken_of_as_such() -> None:
    fixture = srs_eval.load(shared_or_skip(FIXTURES) / "quirks.anki2")
    said = " ".join(sentence for each in compare(fixture) for sentence in shown.sentences(each))
    assert "1 review " in said
    for wrong in (" 1 reviews", " 1 held-out reviews", " 1 days", "nan", "101."):
        assert wrong not in said
    assert "one day has no interval" in said


# Pooling


def test_gradient_of_the_loss(learner: Learner) -> None:
    trials = learner.trials
    index = np.arange(0, len(trials), 3)
    summed = SummedLoss(fsrs6.make_recurrent(0.001), trials, index)
    w = np.array(fsrs6.DEFAULT)
    loss, gradient = summed.value(w), summed.gradient(w)
    p = fsrs6.predict(trials, w.tolist(), index, Context())
    assert loss == pytest.approx(learner.losses(p, index).sum(), rel=1e-9)
    for k in range(len(w)):
        step = np.zeros(len(w))
        step[k] = 1e-5
        numeric = (summed.value(w + step) - summed.value(w - step)) / 2e-5
        assert gradient[k] == pytest.approx(numeric, rel=1e-3, abs=1e-2), k


def test_groups_that_are_parts_of_one_memory_share_their_parameters(learner: Learner) -> None:
    trials = learner.trials
    halves = {half: np.flatnonzero(trials.card_id % 2 == half) for half in (0, 1)}
    pooled = pooling.fit_pooled(trials, halves)
    assert pooled.tau <= 0.2
    assert max(pooled.taus.values()) <= 0.2
    nothing_apart = replace(pooled, taus={0: 0.0, 1: 0.0})
    again = pooling.fit_pooled(trials, halves, nothing_apart)
    assert again.by_group == {0: again.shared, 1: again.shared}
    assert again.shared == pooled.shared == pooling.fit_one_group(trials, np.arange(len(trials)))


def test_groups_that_differ_keep_what_is_theirs(learner: Learner) -> None:
    """A second memory with other outcomes: recall of its reviews is turned round at random."""
    random = np.random.default_rng(1)
    trials = learner.trials
    halves = {half: np.flatnonzero(trials.card_id % 2 == half) for half in (0, 1)}
    y = trials.y.copy()
    worse = halves[1][random.random(len(halves[1])) < 0.4]
    y[worse] = 0.0
    pooled = pooling.fit_pooled(replace(trials, y=y, _derived={}), halves)
    assert pooled.tau >= 0.2
    assert not np.allclose(pooled.by_group[0], pooled.by_group[1], atol=0.05)


def test_a_small_preset_that_differs_is_not_held_back_by_a_large_one(learner: Learner) -> None:
    """One card of 24 is another memory's: more of its reviews fail."""
    random = np.random.default_rng(1)
    trials = learner.trials
    small = trials.card_id % 24 == 0
    parts = {0: np.flatnonzero(~small), 1: np.flatnonzero(small)}
    y = trials.y.copy()
    y[parts[1][random.random(len(parts[1])) < 0.1]] = 0.0
    pooled = pooling.fit_pooled(replace(trials, y=y, _derived={}), parts)
    assert pooled.taus[0] == pooled.tau < pooled.taus[1]


def test_presets_differ_as_far_as_evidence_hardly_speaks_against() -> None:
    """Places in TAUS: 0 where that is best, else the largest within 1 nat of the best."""
    assert pooling._choose_tau_index(np.array([-5.0, -5.5, -5.6, -9.0, -12.0])) == 0
    assert pooling._choose_tau_index(np.array([-8.0, -5.0, -5.4, -5.9, -6.1])) == 3
    assert pooling._choose_tau_index(np.array([-8.0, -7.0, -5.0, -6.2, -6.5])) == 2


def test_groups_that_come_later_differ_as_all_do(learner: Learner) -> None:
    trials = learner.trials
    parts = {part: np.flatnonzero(trials.card_id % 3 == part) for part in range(3)}
    settled = replace(
        pooling.fit_pooled(trials, {0: parts[0], 1: parts[1]}), taus={0: 0.1, 1: 0.0}, tau=0.4
    )
    later = pooling.fit_pooled(trials, parts, settled, groups_to_fit=(1, 2))
    assert set(later.by_group) == {1, 2}
    assert later.by_group[1] == later.shared
    assert later.by_group[2] != later.shared
    assert later.taus == {0: 0.1, 1: 0.0, 2: 0.4}


def test_pooling_without_reviews_is_the_defaults(learner: Learner) -> None:
    assert pooling.fit_pooled(learner.trials, {}).shared == list(fsrs6.DEFAULT)
