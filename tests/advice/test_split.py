"""Whether presets share parameters, and how often they are optimized."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.advice import findings as f
from srs_eval.advice import parameters, pooling, shown, split
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import POOLED, RECENCY, SEPARATE, SHARED, Sharing, get_evidence
from srs_eval.advice.questions import compare
from srs_eval.advice.sentences import describe_certainty
from srs_eval.advice.shown.parameters import candidate_name
from srs_eval.data.reviews import Deck, Entries, ReviewLog
from srs_eval.data.rows import select_presets
from srs_eval.data.trials import compute_recency_weights
from srs_eval.models import fsrs6
from srs_eval.stats.intervals import Interval, Verdict
from srs_eval.training.hyperparameters import Context

# Split or merge


@pytest.mark.parametrize(
    ("estimate", "half", "reviews", "decision"),
    [
        (0.004, 0.003, 5_000, "keep shared"),
        (0.0, 0.0015, 5_000, "keep shared"),
        (0.004, 0.0061, 5_000, "can't tell"),
        (-0.01, 0.004, 5_000, "split"),
        (-0.002, 0.0015, 5_000, "split"),
        (-0.01, 0.012, 5_000, "can't tell"),
        (-0.01, 0.004, 900, "can't tell"),
    ],
)
def test_sharing_is_kept_unless_a_split_proves_better(
    learner: Learner, estimate: float, half: float, reviews: int, decision: str
) -> None:
    difference = Interval(estimate, half, reviews, 300, ((half / 1.968, 299),))
    assert split._decide_sharing(learner, {"split": difference}) == {"split": decision}


def test_presets_of_one_memory_are_not_split(log: ReviewLog) -> None:
    answer = compare(log, questions=["split"])[0]
    assert answer.recommendation in ("keep shared", "pooled")  # never: split
    assert answer.probability is not None
    assert 0.5 < answer.probability <= 0.98
    assert (
        f"({describe_certainty(answer.probability)}; the chance that " in shown.sentences(answer)[0]
    )
    rows = shown.tables(answer)[0].records()
    assert [row["reviews of"] for row in rows[:2]] == ["all", "all"]


def test_pooled_against_shared_has_the_same_figure_in_both(
    log: ReviewLog, learner: Learner
) -> None:
    """Check that pooled against shared parameters are one comparison, in both questions."""
    answers = compare(log, questions=["parameters", "split"])
    findings = {
        finding.question: finding for finding in answers if finding.subject == "all presets"
    }
    first, *_ = shown.tables(findings["parameters"])
    loss = {row["candidate"]: row["log loss"] for row in first.records()}
    rows = {row["parameters"]: row for row in shown.tables(findings["split"])[0].records()[:2]}
    apart = loss[candidate_name(POOLED)] - loss[candidate_name(SHARED)]
    assert apart == pytest.approx(rows["sets that learn from each other"]["minus one set"])
    assert findings["split"].recommendation == "keep shared"
    assert findings["split"].parameters == pytest.approx(
        pooling.fit_one_group(learner.trials, np.arange(len(learner.trials)))
    )
    assert "one set of parameters is enough" in " ".join(shown.sentences(findings["split"]))


@pytest.mark.parametrize(
    ("separate", "error", "decisions", "beyond_pooled", "act"),
    [
        (-0.001, 0.002, ("keep shared", "keep shared"), 0.014, "keep shared"),
        (-0.001, 0.002, ("can't tell", "keep shared"), 0.014, "pooled"),
        (-0.001, 0.002, ("keep shared", "split"), 0.014, "pooled"),
        (-0.001, 0.002, ("can't tell", "can't tell"), 0.014, "pooled"),
        (-0.010, 0.002, ("split", "split"), 0.005, "pooled"),
        (-0.020, 0.021, ("can't tell", "split"), -0.005, "pooled"),
        (-0.020, 0.019, ("can't tell", "can't tell"), -0.005, "split"),
        (-0.020, 0.002, ("split", "split"), -0.0009, "pooled"),  # less than a standard error
        (-0.020, 0.002, ("split", "split"), -0.0011, "split"),
    ],
)
def test_choose_sharing_in_doubt_takes_pooled(
    separate: float, error: float, decisions: tuple[str, str], beyond_pooled: float, act: str
) -> None:
    """Check that doubt leads to pooling, which costs next to nothing where one set would do."""
    comparison = split.SharingComparison(
        from_shared={
            "split": Interval(separate, 2 * error, errors=((error, 60),)),
            "pooled": Interval(-0.015, 0.004),
        },
        decisions=dict(zip(("split", "pooled"), decisions, strict=True)),
        split_from_pooled=Interval(beyond_pooled, 0.002, errors=((0.001, 60),)),
    )
    assert split.choose_sharing(comparison) == act


def test_separate_fit_of_a_single_group_equals_the_shared(learner: Learner) -> None:
    """Check that all cards in one preset make no difference, whatever the training's chances."""
    trials = replace(learner.trials, partition=np.full(len(learner.trials), 100))
    single = Learner(learner.log, learner.session, trials, learner.context)
    alone = single.held_out_losses(SEPARATE)
    together = single.held_out_losses(SHARED)
    np.testing.assert_array_equal(alone, together)
    comparison = split.compare_over_all_presets(learner)
    change = learner.held_out_losses(SEPARATE) - learner.held_out_losses(SHARED)
    overall = comparison.from_shared
    assert overall["split"].estimate == pytest.approx(change.mean(), abs=1e-15)
    assert comparison.split_from_pooled.estimate == pytest.approx(
        overall["split"].estimate - overall["pooled"].estimate
    )
    assert comparison.decisions["split"] != "split"


def test_parameters_are_evaluated_on_the_other_presets_reviews(learner: Learner) -> None:
    differences = split._compare_across_presets(learner, [100, 101])
    index = learner.trials.test_index
    in_second = learner.trials.partition[index] == 101
    by_first = np.empty(len(learner.trials))
    for fold in learner.trials.folds:
        first_train = fold.train[learner.trials.partition[fold.train] == 100]
        by_first[fold.test] = learner.predict_with_parameters(
            pooling.fit_one_group(learner.trials, first_train), fold.test
        )
    losses = learner.losses(by_first[index], index)[in_second]
    own_losses = learner.held_out_losses(SEPARATE)[in_second]
    assert differences[100, 101].estimate == pytest.approx((losses - own_losses).mean(), abs=1e-12)
    assert set(differences) == {(100, 101), (101, 100)}


def test_presets_that_lose_too_much_on_each_other_stay_apart() -> None:
    def difference(estimate: float) -> Interval:
        return Interval(estimate, 0.003, 5_000, 300, ((0.003 / 1.968, 299),))

    near = difference(0.001)
    far = difference(0.02)
    pairs = dict.fromkeys(itertools.permutations((1, 2, 3), 2), near)
    assert split._propose_groups([1, 2, 3], pairs, 0.002) == [[1, 2, 3]]
    pairs[1, 3] = far  # one direction is enough
    assert split._propose_groups([1, 2, 3], pairs, 0.002) == [[1, 2], [3]]
    pairs[2, 1] = far
    assert split._propose_groups([1, 2, 3], pairs, 0.002) == [[1], [2, 3]]
    pairs = dict.fromkeys(pairs, far)
    assert split._propose_groups([1, 2, 3], pairs, 0.002) == [[1], [2], [3]]


def test_split_of_a_single_preset_has_nothing_to_merge(log: ReviewLog) -> None:
    answer = compare(select_presets(log, "Preset 0"), questions=["split"])[0]
    assert answer.conclusion == "one preset"
    assert not get_evidence(answer, Sharing).has_unused_presets


def test_cards_without_a_deck_are_no_preset(log: ReviewLog) -> None:
    lost = log.cards.deck_id == log.cards.deck_id.max()
    cards = replace(log.cards, deck_id=np.where(lost, -1, log.cards.deck_id))
    results = []
    for changed in (log, replace(log, cards=cards)):
        learner = Learner.of(changed)
        results.append((len(learner.groups), split._make_finding("all", learner, "preset")))
    (groups, finding), (groups_with_lost, finding_with_lost) = results
    assert groups_with_lost == groups + 1
    assert get_evidence(finding, Sharing).unit_count == groups
    assert get_evidence(finding_with_lost, Sharing).unit_count == groups


def test_presets_without_any_review_are_not_denied(log: ReviewLog) -> None:
    presets = {key: preset for key, preset in log.presets.items() if preset.name == "Preset 0"}
    only_one = select_presets(log, "Preset 0")
    answer = compare(replace(only_one, presets=presets), questions=["split"])[0]
    assert shown.line([answer]) == "You have one. Keep it."
    answer = compare(replace(only_one, presets=log.presets), questions=["split"])[0]
    assert shown.line([answer]) == (
        "All your reviews are in “Preset 0”, so there are no presets to compare."
    )


def test_presets_whose_cards_are_suspended_are_not_denied(log: ReviewLog) -> None:
    group = next(key for key, preset in log.presets.items() if preset.name == "Preset 0")
    is_other = log.preset_of(log.cards.deck_id) != group
    cards = replace(log.cards, suspended=log.cards.suspended | is_other)
    answer = compare(replace(log, cards=cards), questions=["split"])[0]
    assert answer.conclusion == "one preset"
    assert get_evidence(answer, Sharing).has_unused_presets
    assert shown.line([answer]).startswith("Only “Preset 0” has usable reviews")


def test_decks_of_a_preset_are_compared_as_presets(log: ReviewLog) -> None:
    """Check two decks of one memory, with every other card each."""
    preset_0 = select_presets(log, "Preset 0")
    halves = {900 + k: Deck(900 + k, f"Half {k}", 100) for k in (0, 1)}
    cards = replace(preset_0.cards, deck_id=900 + preset_0.cards.card_id % 2)
    learner = Learner.of(replace(preset_0, decks=halves, cards=cards))
    decks = learner.split_preset_by_deck(100)
    assert decks is not None
    assert set(decks.groups) == set(halves)
    assert learner.split_preset_by_deck(55) is None
    index = decks.trials.test_index
    by_one_set = np.empty(len(decks.trials))
    for fold in decks.trials.folds:
        w = pooling.fit_one_group(decks.trials, fold.train)
        by_one_set[fold.test] = decks.predict_with_parameters(w, fold.test)
    assert decks.held_out_predictions(SHARED) == pytest.approx(by_one_set[index], abs=1e-9)
    answers = compare(learner.log, questions=["split"])
    assert [answer.subject for answer in answers] == ["Preset 0", "Preset 0"]
    assert answers[1].recommendation in ("", "keep shared")  # Anki has no parameters of a deck
    assert "decks" in shown.sentences(answers[1])[0]


def test_preset_with_its_own_search_is_named(log: ReviewLog) -> None:
    preset = replace(log.presets[100], search="deck:Geography -tag:marked")
    answers = compare(replace(log, presets={**log.presets, 100: preset}), questions=["parameters"])
    with_search = [
        answer for answer in answers if "on the cards found by" in " ".join(shown.sentences(answer))
    ]
    assert [answer.subject for answer in with_search] == ["Preset 0"]
    assert "“deck:Geography -tag:marked”" in shown.sentences(with_search[0])[-1]


# How often


@given(st.integers(12, 4_000), st.sampled_from([*parameters._GROWTH_STEPS, None]))
def test_refit_folds_predict_every_review_once_after_training(
    count: int, growth: float | None
) -> None:
    index = np.arange(count) * 3
    folds = parameters._make_refit_folds(index, growth)
    assert np.array_equal(np.concatenate([fold.test for fold in folds]), index[count // 6 :])
    for fold in folds:
        assert fold.train[-1] < fold.test[0]
        assert np.array_equal(fold.train, index[: len(fold.train)])
        if growth is not None:
            assert len(fold.test) <= max(1, len(fold.train) * growth + 0.5)
    assert growth is not None or len(folds) == 1


def test_cost_of_optimizing_once_equals_a_fit_by_hand(log: ReviewLog, learner: Learner) -> None:
    answers = compare(log, questions=["often"])
    assert {answer.subject for answer in answers} == {"Preset 0", "Preset 1"}
    assert (
        "whether optimizing each time you have 2 % more reviews would be any better"
        in shown.sentences(answers[0])[1]
    )
    (held,) = (column.title for column in shown.tables(answers[0])[0].columns if column.signed)
    assert held == "minus every +2 %"
    index = np.flatnonzero(learner.trials.partition == 100)
    cost = parameters._estimate_staleness_costs(learner, 100)
    assert list(cost)[-1:] == ["once, then never"]
    # By hand: one fit at a sixth, then never again.
    first = len(index) // 6
    weights = compute_recency_weights(first)
    fitted = fsrs6.fit(learner.trials, index[:first], weights, Context())
    p = learner.predict_with_parameters(fitted, index[first:])
    always = learner.predict(RECENCY, parameters._make_refit_folds(index, 0.02))
    by_hand = learner.losses(p, index[first:]) - learner.losses(always, index[first:])
    assert cost["once, then never"].estimate == pytest.approx(by_hand.mean(), abs=1e-12)


def test_longest_schedule_before_the_first_failure_is_chosen(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a schedule that passes after a failure is not chosen: it passes by chance."""
    sure = Interval(0.0, 0.001, 5_000, 100)
    open_ = Interval(0.003, 0.004, 5_000, 100)
    labels = [f"every +{growth} %" for growth in (10, 25, 50, 100)]
    cost = dict(zip(labels, (sure, sure, open_, sure), strict=True))
    cost |= {"once, then never": open_}
    monkeypatch.setattr(parameters, "_estimate_staleness_costs", lambda *_: cost)
    (finding,) = parameters.assess_optimization_frequency(learner, [100])
    assert finding.recommendation == "every +25 %"


def test_few_reviews_get_the_safe_schedule(log: ReviewLog) -> None:
    assert log.entries is not None
    few = log.entries.time_ms < np.quantile(log.entries.time_ms, 0.3)
    columns = {name: getattr(log.entries, name)[few] for name in log.entries.__dict__}
    answers = compare(replace(log, entries=Entries(**columns)), questions=["often"])
    assert all(
        (answer.recommendation, answer.conclusion) == ("every +10 %", "every +10 %")
        for answer in answers
    )
    assert shown.line(answers) == "after 10 % more reviews, which is safe for everybody"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [("worse", "was better still"), ("can't tell yet", "could not show whether")],
)
def test_simulation_of_frequencies_says_what_it_showed(verdict: Verdict, words: str) -> None:
    difference = Interval(0.006, 0.001, 2_000, 40)
    cost = f.Candidate("every +10 %", difference=difference, verdict=verdict)
    evidence = f.OptimizationFrequency("safe", (cost,))
    finding = f.Finding(
        "often", "Maps", f.Recommendation.EVERY_10_PERCENT, reviews=2_000, evidence=evidence
    )
    assert words in shown.sentences(finding)[1]
