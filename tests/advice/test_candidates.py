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
from tests.conftest import shared_or_skip
from tests.helpers.advice import FIXTURES, join_sentences

# Candidates


@pytest.mark.parametrize("candidate", CONFIGURATIONS)
def test_candidates_predict_as_the_engines_configurations(candidate: str, learner: Learner) -> None:
    result = learner.session.run(
        resolve_configurations(CONFIGURATIONS[candidate], Protocol(rows="anki"))[0]
    )
    assert np.array_equal(learner.predict(candidate), result.p)
    assert np.array_equal(learner.trials.review_th[learner.trials.test_index], result.review_th)


def test_sm2_candidate_uses_the_presets_settings(learner: Learner) -> None:
    result = learner.session.run(resolve_configurations("Anki-dry-run", Protocol(rows="anki"))[0])
    assert np.array_equal(learner.predict(SM2), result.p)
    customized = replace(
        learner.log,
        presets={
            key: replace(preset, sm2_settings=(1, 4, 2.5, 1.3, 1.2, 0.5, 0.8))
            for key, preset in learner.log.presets.items()
        },
    )
    assert (Learner.of(customized).predict(SM2) != result.p).any()


def test_stored_defaults_are_the_candidate_defaults(learner: Learner) -> None:
    assert np.array_equal(learner.predict(CURRENT), learner.predict("defaults"))


def test_never_optimized_presets_use_all_held_out_reviews(log: ReviewLog) -> None:
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
    assert all(positions is not None for positions in since)
    assert set(np.concatenate([positions for positions in since if positions is not None])) == set(
        index
    )
    answer = compare(never, questions=["parameters"])[0]
    assert answer.reviews == len(learner.since_optimized(100))
    assert isinstance(answer.evidence, PresetParameters)
    figures = {candidate.name: candidate.log_loss for candidate in answer.evidence.candidates}
    assert figures[CURRENT] == figures[DEFAULTS]
    names = [row["candidate"] for row in shown.tables(answer)[0].records()]
    assert [name for name in names if candidate_name(DEFAULTS) in name] == [
        f"{candidate_name(DEFAULTS)} (current)"
    ]


def test_unknown_parameters_are_not_called_never_optimized(log: ReviewLog) -> None:
    """Check a log that has ids of presets and nothing else of them, as a research export."""
    bare = replace(log, presets={key: Preset(key, "") for key in log.presets})
    answers = compare(bare, questions=["parameters", "often", "retention"])
    first = answers[0]
    stated = " ".join(shown.sentences(first))
    assert "which parameters you use, so the comparison is with FSRS's defaults" in stated
    text = join_sentences(answers)
    assert "never been optimized" not in text
    assert "parameters in force (" not in text


def test_candidates_are_refitted_on_past_reviews_only(learner: Learner) -> None:
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


def test_compare_figures_equal_the_engines(log: ReviewLog, learner: Learner) -> None:
    answers = compare(log, questions=["parameters"])
    records = shown.tables(answers[-1])[0].records()
    figures = {row["candidate"]: row["log loss"] for row in records}
    for candidate, name in CONFIGURATIONS.items():
        result = learner.session.run(resolve_configurations(name, Protocol(rows="anki"))[0])
        assert figures[candidate_name(candidate)] == pytest.approx(
            result.metrics.log_loss, abs=1e-12
        )
    assert answers == compare(log, questions=["parameters"])


def test_groups_have_distinct_names_without_a_known_preset(log: ReviewLog) -> None:
    """Check a preset that is gone, decks that are gone, and two presets of one name."""
    gone = {key: preset for key, preset in log.presets.items() if key != 101}
    first = int(log.cards.deck_id[0])
    decks = {**log.decks, first: replace(log.decks[first], preset_id=None)}
    names = Learner.of(replace(log, presets=gone, decks=decks)).groups
    assert names == {-1: "(no preset)", 100: "Preset 0", 101: "preset 101"}
    twins = {key: replace(preset, name="Twin") for key, preset in log.presets.items()}
    assert Learner.of(replace(log, presets=twins)).groups == {100: "Twin (100)", 101: "Twin (101)"}


def test_groups_of_a_collection_with_gaps_have_distinct_names() -> None:
    fixture = srs_eval.load(shared_or_skip(FIXTURES) / "quirks.anki2")
    names = list(Learner.of(fixture).groups.values())
    assert len(names) == 3
    assert len(set(names)) == 3


def test_findings_on_one_review_use_the_singular() -> None:
    fixture = srs_eval.load(shared_or_skip(FIXTURES) / "quirks.anki2")
    text = join_sentences(compare(fixture))
    assert "1 review " in text
    for wrong in (" 1 reviews", " 1 held-out reviews", " 1 days", "nan", "101."):
        assert wrong not in text
    assert "too few for a range" in text


# Pooling


def test_gradient_of_the_loss_is_the_numeric_one(learner: Learner) -> None:
    trials = learner.trials
    index = np.arange(0, len(trials), 3)
    summed = SummedLoss(fsrs6.make_recurrent(0.001), trials, index)
    w = np.array(fsrs6.DEFAULT)
    loss = summed.value(w)
    gradient = summed.gradient(w)
    p = fsrs6.predict(trials, w.tolist(), index, Context())
    assert loss == pytest.approx(learner.losses(p, index).sum(), rel=1e-9)
    for k in range(len(w)):
        step = np.zeros(len(w))
        step[k] = 1e-5
        numeric = (summed.value(w + step) - summed.value(w - step)) / 2e-5
        assert gradient[k] == pytest.approx(numeric, rel=1e-3, abs=1e-2), k


def test_pooled_groups_of_one_memory_share_their_parameters(learner: Learner) -> None:
    trials = learner.trials
    halves = {half: np.flatnonzero(trials.card_id % 2 == half) for half in (0, 1)}
    pooled = pooling.fit_pooled(trials, halves)
    assert pooled.tau <= 0.2
    assert max(pooled.taus.values()) <= 0.2
    nothing_apart = replace(pooled, taus={0: 0.0, 1: 0.0})
    again = pooling.fit_pooled(trials, halves, nothing_apart)
    assert again.by_group == {0: again.shared, 1: again.shared}
    assert again.shared == pooled.shared == pooling.fit_one_group(trials, np.arange(len(trials)))


def test_pooled_groups_that_differ_keep_their_own_parameters(learner: Learner) -> None:
    random = np.random.default_rng(1)  # turns recall of the second group's reviews round
    trials = learner.trials
    halves = {half: np.flatnonzero(trials.card_id % 2 == half) for half in (0, 1)}
    y = trials.y.copy()
    worse = halves[1][random.random(len(halves[1])) < 0.4]
    y[worse] = 0.0
    pooled = pooling.fit_pooled(replace(trials, y=y, _derived={}), halves)
    assert pooled.tau >= 0.2
    assert not np.allclose(pooled.by_group[0], pooled.by_group[1], atol=0.05)


def test_small_group_that_differs_keeps_its_distance(learner: Learner) -> None:
    """Check a group of one card of 24, whose reviews fail more often."""
    random = np.random.default_rng(1)
    trials = learner.trials
    small = trials.card_id % 24 == 0
    groups = {0: np.flatnonzero(~small), 1: np.flatnonzero(small)}
    y = trials.y.copy()
    y[groups[1][random.random(len(groups[1])) < 0.1]] = 0.0
    pooled = pooling.fit_pooled(replace(trials, y=y, _derived={}), groups)
    assert pooled.taus[0] == pooled.tau < pooled.taus[1]


def test_tau_is_the_largest_within_one_nat_of_the_best() -> None:
    """Check the index in TAUS: 0 if that is best, else the largest within 1 nat of the best."""
    assert pooling._choose_tau_index(np.array([-5.0, -5.5, -5.6, -9.0, -12.0])) == 0
    assert pooling._choose_tau_index(np.array([-8.0, -5.0, -5.4, -5.9, -6.1])) == 3
    assert pooling._choose_tau_index(np.array([-8.0, -7.0, -5.0, -6.2, -6.5])) == 2


def test_group_added_later_gets_the_common_tau(learner: Learner) -> None:
    trials = learner.trials
    groups = {remainder: np.flatnonzero(trials.card_id % 3 == remainder) for remainder in range(3)}
    settled = replace(
        pooling.fit_pooled(trials, {0: groups[0], 1: groups[1]}), taus={0: 0.1, 1: 0.0}, tau=0.4
    )
    later = pooling.fit_pooled(trials, groups, settled, groups_to_fit=(1, 2))
    assert set(later.by_group) == {1, 2}
    assert later.by_group[1] == later.shared
    assert later.by_group[2] != later.shared
    assert later.taus == {0: 0.1, 1: 0.0, 2: 0.4}


def test_pooling_without_reviews_gives_the_defaults(learner: Learner) -> None:
    assert pooling.fit_pooled(learner.trials, {}).shared == list(fsrs6.DEFAULT)
