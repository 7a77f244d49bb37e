"""Questions about presets: candidates, pooling, verdicts, and what the command line says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srs_eval
from srs_eval.comparison import Interval, verdict
from srs_eval.configurations import resolve
from srs_eval.context import Cancelled, Context
from srs_eval.errors import InputError
from srs_eval.fitting.recurrent import SummedLoss
from srs_eval.models import fsrs6, fsrs7
from srs_eval.models._anki import by_card
from srs_eval.models._anki import fit as anki_fit
from srs_eval.own_parameters import as_anki_runs, younger_than_s
from srs_eval.presets import (
    QUESTIONS,
    answering,
    compare,
    hard,
    health,
    noise,
    often,
    parameters,
    pooling,
    split,
    steps,
)
from srs_eval.presets.answers import what_is_missing
from srs_eval.presets.candidates import ALONE, CONFIGURATIONS, NOW, POOLED, SM2, TOGETHER, Learner
from srs_eval.presets.stored import (
    in_sample,
    parameter_line,
    parsed_parameters,
)
from srs_eval.protocol import Protocol, Trials, prepare_trials, recency_weights
from srs_eval.reviews import REVIEW, Deck, Entries, Preset, ReviewLog, Rows
from srs_eval.rows import select_rows
from srs_eval.selection import only_deck, only_preset
from srs_eval.simulation import simulate_learner, write_collection, write_dataset
from tests.conftest import shared_or_skip

FIXTURES = "anki/fixtures"


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("presets") / "collection.anki2"
    write_collection(simulate_learner(11, 5_000), path)
    return path


@pytest.fixture(scope="module")
def log(collection: Path) -> ReviewLog:
    """A simulated learner whose decks have a preset each, all changed before the last third."""
    read = srs_eval.load(collection)
    assert read.entries is not None
    changed = int(read.entries.time_ms[len(read.entries) * 2 // 3] // 1000)
    decks = sorted(read.decks)
    presets = {
        100 + k: Preset(100 + k, f"Preset {k}", {6: fsrs6.DEFAULT}, 0.9, modified_s=changed)
        for k in range(2)
    }
    return replace(
        read,
        decks={
            key: replace(read.decks[key], preset_id=100 + place % 2)
            for place, key in enumerate(decks)
        },
        presets=presets,
    )


@pytest.fixture(scope="module")
def learner(log: ReviewLog) -> Learner:
    return Learner.of(log)


# Stored parameters


def test_lists_of_every_length_as_anki_runs_them() -> None:
    assert as_anki_runs(()) == list(fsrs6.DEFAULT)
    assert as_anki_runs(fsrs6.DEFAULT) == list(fsrs6.DEFAULT)
    nineteen = as_anki_runs(fsrs6.DEFAULT[:19])
    assert nineteen == [*fsrs6.DEFAULT[:19], 0.0, 0.5]
    old = [0.5, 1.5, 4.0, 9.0, 5.0, 1.0, 0.9, 0.03, 1.6, 0.1, 1.0, 2.1, 0.06, 0.3, 1.4, 0.2, 2.9]
    new = as_anki_runs(old)
    assert new[4] == 7.0
    assert new[5] == pytest.approx(0.4620981)  # ln 4 / 3
    assert new[6] == pytest.approx(1.4)
    assert new[17:] == [0.0, 0.0, 0.0, 0.5]
    assert as_anki_runs([1000.0, *fsrs6.DEFAULT[1:]])[0] == 100.0  # held within bounds


@pytest.mark.parametrize("values", [(1.0,) * 18, (1.0,) * 34, (float("nan"),) * 21])
def test_lists_that_anki_does_not_run(values: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"17, 19 or 21|finite"):
        as_anki_runs(values)


def test_parameter_lines_are_read_as_they_are_written() -> None:
    line = parameter_line(fsrs6.DEFAULT)
    assert parsed_parameters(line) == [float(value) for value in line.split(", ")]
    assert parsed_parameters(f"[{line.replace(', ', ' ')}]") == parsed_parameters(line)
    folded = line.replace(", ", ",   \n  ")  # as a terminal's fold is copied
    assert parsed_parameters(folded) == parsed_parameters(line)
    for text in ("", "0.2; 1.3", "one, two"):
        with pytest.raises(InputError):
            parsed_parameters(text)


ORACLE_NAMES = ("Default", "Vocabulary", "Sentences", "Older params")


def _oracle_trials(log: ReviewLog, preset: str) -> Trials:
    """As Anki was asked: suspended cards left out, no ignore-before date."""
    rows = select_rows(only_preset(log, preset), "anki", apply_ignore_before=False).rows
    return prepare_trials(log, rows, Protocol(rows="anki", short=True))


@pytest.mark.parametrize("name", ORACLE_NAMES)
def test_present_parameters_in_sample_as_anki_evaluates_them(name: str) -> None:
    fixtures = shared_or_skip(FIXTURES)
    fixture = srs_eval.load(fixtures / "collection.anki2")
    preset = next(each for each in fixture.presets.values() if each.name == name)
    oracle = json.loads((fixtures / "oracle-workload.json").read_text())["presets"][name]
    expected = oracle["evaluate_current_in_sample"]
    found = in_sample(_oracle_trials(fixture, name), as_anki_runs(preset.parameters_in_force))
    assert found.log_loss == pytest.approx(expected["log_loss"], abs=1e-5)
    assert found.rmse_bins == pytest.approx(expected["rmse_bins"], abs=1e-5)


def test_every_list_in_sample_as_anki_evaluates_it() -> None:
    fixtures = shared_or_skip(FIXTURES)
    fixture = srs_eval.load(fixtures / "collection.anki2")
    oracle = json.loads((fixtures / "oracle.json").read_text())
    asked = oracle["collection.anki2"]["fsrs"]["Sentences: same search, no ignore-before date"]
    trials = _oracle_trials(fixture, "Sentences")
    assert oracle["param_sets"]
    for name, values in oracle["param_sets"].items():
        expected = asked["evaluate_params_legacy"][name]
        found = in_sample(trials, as_anki_runs(values))
        assert found.log_loss == pytest.approx(expected["log_loss"], abs=1e-5), name
        assert found.rmse_bins == pytest.approx(expected["rmse_bins"], abs=1e-5), name


def test_age_of_parameters_is_the_later_of_two_bounds(log: ReviewLog, learner: Learner) -> None:
    preset = log.presets[100]
    assert younger_than_s(log, preset) == preset.modified_s
    assert younger_than_s(log, replace(preset, modified_s=None)) is None
    assert preset.modified_s is not None
    later = replace(log, optimized_before_s=preset.modified_s + 100)
    assert younger_than_s(later, preset) == preset.modified_s + 100
    index = learner.since_optimized(100)
    assert index is not None
    assert 0 < len(index) < (learner.trials.partition == 100).sum() / 2
    assert (learner.time_s[index] > preset.modified_s).all()
    assert log.entries is not None
    assert set(learner.time_s) <= set(log.entries.time_ms / 1000)


# Candidates


@pytest.mark.parametrize("candidate", CONFIGURATIONS)
def test_candidates_are_the_engines_configurations(candidate: str, learner: Learner) -> None:
    result = learner.session.run(resolve(CONFIGURATIONS[candidate], Protocol(rows="anki"))[0])
    assert np.array_equal(learner.predict(candidate), result.p)
    assert np.array_equal(learner.trials.review_th[learner.trials.test_index], result.review_th)


def test_default_settings_of_sm2_are_the_engines(learner: Learner) -> None:
    result = learner.session.run(resolve("Anki-dry-run", Protocol(rows="anki"))[0])
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
    assert np.array_equal(learner.predict(NOW), learner.predict("defaults"))


def test_presets_never_optimized_are_judged_on_all_held_out_reviews(log: ReviewLog) -> None:
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
    assert "held out" in answer.sentences[0]
    rows = {row["candidate"]: row for row in answer.tables[0].records()}
    assert rows["now"]["log loss"] == rows["defaults"]["log loss"]
    often_answer = compare(never, questions=["often"])[0]
    assert "never been optimized" in " ".join(often_answer.sentences)


def test_parameters_that_the_source_does_not_tell_are_not_taken_for_none(log: ReviewLog) -> None:
    """A research export has ids of presets, and nothing else of them."""
    bare = replace(log, presets={key: Preset(key, "") for key in log.presets})
    answers = compare(bare, questions=["parameters", "often", "retention"])
    first = answers[0]
    assert "defaults (the file does not tell your parameters)" in " ".join(first.sentences)
    said = " ".join(sentence for answer in answers for sentence in answer.sentences)
    assert "never been optimized" not in said
    assert "parameters in force (" not in said
    assert "FSRS-6 with its defaults expected" in said


def test_rivals_are_renewed_from_the_past_only(learner: Learner) -> None:
    index = learner.since_optimized(101)
    assert index is not None
    folds = learner.renewed(index)
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
    whole = answers[-1].tables[0].records()
    figures = {row["candidate"]: row["log loss"] for row in whole}
    for candidate, name in CONFIGURATIONS.items():
        result = learner.session.run(resolve(name, Protocol(rows="anki"))[0])
        assert figures[candidate] == pytest.approx(result.metrics.log_loss, abs=1e-12)
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
    said = " ".join(sentence for each in compare(fixture) for sentence in each.sentences)
    assert "1 review " in said
    for wrong in (" 1 reviews", " 1 held-out reviews", " 1 days", "nan", "101."):
        assert wrong not in said
    assert "one day has no interval" in said


def test_a_list_of_an_older_version_is_also_run_as_what_it_is(log: ReviewLog) -> None:
    old = (0.5, 1.5, 4.0, 9.0, 5.0, 1.0, 0.9, 0.03, 1.6, 0.1, 1.0, 2.1, 0.06, 0.3, 1.4, 0.2, 2.9)
    changed = log.presets[100]
    presets = {
        100: replace(changed, fsrs_parameters={4: old}),
        101: replace(changed, id=101, fsrs_parameters={5: fsrs6.DEFAULT[:19]}),
    }
    learner = Learner.of(replace(log, presets=presets))
    for group, name, values in (
        (100, "FSRS-4.5", old),
        (101, "FSRS-5", fsrs6.DEFAULT[:19]),
    ):
        index = learner.since_optimized(group)
        assert index is not None
        (label, p), *others = learner.other_versions(group, index).items()
        assert label == f"now, run as {name}"
        assert not others
        (configuration,) = resolve(name, Protocol(rows="anki"))
        assert configuration.model.predict is not None
        trials = learner.session.trials(configuration.protocol)
        assert np.array_equal(
            p, configuration.model.predict(trials, list(values), index, Context())
        )
    assert Learner.of(log).other_versions(100, np.arange(3)) == {}


def test_parameters_of_a_fork_are_a_row(log: ReviewLog) -> None:
    preset = replace(log.presets[100], fork_parameters=fsrs7.DEFAULT)
    learner = Learner.of(replace(log, presets={**log.presets, 100: preset}))
    index = learner.trials.test_index
    p = learner.other_versions(100, index)["FSRS-7 of a fork"]
    name = "FSRS-7-dry-run-short-secs-equalize_test_with_non_secs"
    result = learner.session.run(resolve(name, Protocol(rows="anki"))[0])
    assert np.array_equal(p, result.p)
    table = compare(learner.log, questions=["parameters"])[0].tables[0]
    assert ("FSRS-7 of a fork" in {row["candidate"] for row in table.records()}) == (
        "since" in table.title
    )


# Pooling


def test_gradient_of_the_loss(learner: Learner) -> None:
    trials = learner.trials
    index = np.arange(0, len(trials), 3)
    summed = SummedLoss(fsrs6.recurrent(0.001), trials, index)
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
    pooled = pooling.pooled_fits(trials, halves)
    assert pooled.tau <= 0.2
    assert max(pooled.taus.values()) <= 0.2
    nothing_apart = replace(pooled, taus={0: 0.0, 1: 0.0})
    again = pooling.pooled_fits(trials, halves, nothing_apart)
    assert again.by_group == {0: again.shared, 1: again.shared}
    assert again.shared == pooled.shared == pooling.fitted(trials, np.arange(len(trials)))


def test_groups_that_differ_keep_what_is_theirs(learner: Learner) -> None:
    """A second memory with other outcomes: recall of its reviews is turned round at random."""
    random = np.random.default_rng(1)
    trials = learner.trials
    halves = {half: np.flatnonzero(trials.card_id % 2 == half) for half in (0, 1)}
    y = trials.y.copy()
    worse = halves[1][random.random(len(halves[1])) < 0.4]
    y[worse] = 0.0
    pooled = pooling.pooled_fits(replace(trials, y=y, _derived={}), halves)
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
    pooled = pooling.pooled_fits(replace(trials, y=y, _derived={}), parts)
    assert pooled.taus[0] == pooled.tau < pooled.taus[1]


def test_presets_differ_as_far_as_evidence_hardly_speaks_against() -> None:
    """Places in TAUS: 0 where that is best, else the largest within 1 nat of the best."""
    assert pooling._chosen(np.array([-5.0, -5.5, -5.6, -9.0, -12.0])) == 0
    assert pooling._chosen(np.array([-8.0, -5.0, -5.4, -5.9, -6.1])) == 3
    assert pooling._chosen(np.array([-8.0, -7.0, -5.0, -6.2, -6.5])) == 2


def test_groups_that_come_later_differ_as_all_do(learner: Learner) -> None:
    trials = learner.trials
    parts = {part: np.flatnonzero(trials.card_id % 3 == part) for part in range(3)}
    settled = replace(
        pooling.pooled_fits(trials, {0: parts[0], 1: parts[1]}), taus={0: 0.1, 1: 0.0}, tau=0.4
    )
    later = pooling.pooled_fits(trials, parts, settled, wanted=(1, 2))
    assert set(later.by_group) == {1, 2}
    assert later.by_group[1] == later.shared
    assert later.by_group[2] != later.shared
    assert later.taus == {0: 0.1, 1: 0.0, 2: 0.4}


def test_pooling_without_reviews_is_the_defaults(learner: Learner) -> None:
    assert pooling.pooled_fits(learner.trials, {}).shared == list(fsrs6.DEFAULT)


# The answer


@pytest.mark.parametrize(
    ("estimate", "error", "reviews", "days", "says"),
    [
        (-0.02, 0.004, 900, 300, "A verdict needs 1,000 such reviews on 20 days."),
        (-0.02, 0.004, 5_000, 19, "A verdict needs 1,000 such reviews on 20 days."),
        (-0.008, 0.0045, 5_000, 300, "At most about 8,000 more reviews like these would tell."),
        (0.001, 0.05, 5_000, 300, "won't tell soon: over 20 times as many"),
        (-0.009, 0.004, 5_000, 300, "5 differences are judged together; at most about 3,000 more"),
        (-0.012, 0.004, 5_000, 300, "leaves out 0, but not by enough where 5 differences"),
    ],
)
def test_what_is_missing_for_a_verdict(
    estimate: float, error: float, reviews: int, days: int, says: str
) -> None:
    difference = Interval(estimate, 1.97 * error, reviews, days, ((error, 299),))
    assert says in what_is_missing(difference, 5)


@pytest.mark.parametrize("question", ["parameters", "split", "often", "health", "hard"])
def test_every_open_verdict_says_what_is_missing(question: str, log: ReviewLog) -> None:
    """Here all have too few reviews."""
    assert log.entries is not None
    few = log.entries.time_ms < np.quantile(log.entries.time_ms, 0.35)
    columns = {name: getattr(log.entries, name)[few] for name in log.entries.__dict__}
    short = _with_hard(replace(log, entries=Entries(**columns)), 3)
    answers = compare(short, questions=[question])
    assert answers
    for answer in answers:
        whole = question == "parameters" and answer.subject == "all presets"  # a list of the others
        if answer.conclusion == "can't tell" and not whole:
            assert "need" in " ".join(answer.sentences), answer


def _compared(reviews: int, shifts: dict[str, float]) -> parameters.Compared:
    """Candidates whose losses differ from the present ones' by a shift and a little noise."""
    random = np.random.default_rng(3)
    day = np.sort(random.integers(0, 100, reviews))
    now = random.gamma(1, 0.4, reviews)
    losses = {NOW: now}
    for name, shift in shifts.items():
        losses[name] = now + shift + random.normal(0, 0.02, reviews)
    learner = _Days(day)
    return parameters.compared(
        learner,  # type: ignore[arg-type]
        losses,
        np.arange(reviews),
        NOW,
        asked=parameters.RIVALS,
        equivalence=0.002,
    )


class _Days:
    """What `compared` asks of a learner."""

    def __init__(self, day: np.ndarray) -> None:
        self.day = day

    def interval(self, values: np.ndarray, index: np.ndarray) -> Any:
        from srs_eval.comparison import mean_interval

        return mean_interval(values, self.day[index])


@pytest.mark.parametrize(
    ("reviews", "shifts", "conclusion", "words"),
    [
        (3_000, {"optimized": -0.01, "defaults": 0.03}, "optimize", "Optimize this preset"),
        (3_000, {"optimized": -0.01, "defaults": -0.02}, "use the defaults", "default"),
        (3_000, {"optimized": 0.0, "defaults": 0.03}, "keep", "Keep them"),
        (3_000, {"optimized": 0.01, POOLED: 0.0005}, "keep", "Keep them"),
        (900, {"optimized": -0.05, "defaults": 0.03}, "can't tell", "1,000 such reviews"),
    ],
)
def test_what_to_do(reviews: int, shifts: dict[str, float], conclusion: str, words: str) -> None:
    since = _compared(reviews, shifts)
    found, chosen, sentences = parameters._judged_since(since, "the parameters in force")
    assert found == conclusion
    assert words in " ".join(sentences)
    assert (chosen is None) == (conclusion in ("keep", "can't tell"))


@pytest.mark.parametrize(
    ("can_share", "shared", "says"),
    [
        (True, -0.018, "paste one line for all"),
        (True, 0.004, "paste parameters"),  # shared ones don't help this preset
        (False, -0.018, "paste parameters"),  # separate ones do, over all or here
    ],
)
def test_where_one_line_is_enough_no_other_is_to_be_pasted(
    can_share: bool, shared: float, says: str
) -> None:
    shifts = {"optimized": -0.01, POOLED: -0.02, TOGETHER: shared}
    found, chosen, sentences = parameters._judged_since(
        _compared(3_000, shifts), "the parameters in force", can_share=can_share
    )
    assert found == says
    assert parameters.ADVICE[str(chosen)] == says
    assert ("the same for all presets" in sentences[0]) == (chosen == TOGETHER)


def test_a_single_preset_is_not_told_to_share(log: ReviewLog) -> None:
    """One fit for all presets would be the preset's own, and pooling has nothing to draw to."""
    one = only_preset(log, "Preset 0")
    preset = one.presets[100]
    never = replace(one, presets={100: replace(preset, fsrs_parameters={}, modified_s=None)})
    answers = compare(never, questions=["parameters"])
    assert [answer.subject for answer in answers] == ["Preset 0"]
    for table in answers[0].tables:
        names = {row["candidate"] for row in table.records()}
        assert {"optimized", "optimized, recency", "defaults"} <= names
        assert names.isdisjoint({"one for all presets", POOLED})
    assert "all presets" not in " ".join(answers[0].sentences)


def test_parameters_of_unknown_age_are_judged_in_sample_only(log: ReviewLog) -> None:
    unknown = replace(
        log,
        presets={key: replace(each, modified_s=None) for key, each in log.presets.items()},
    )
    answer = compare(unknown)[0]
    assert answer.conclusion == "can't tell"
    assert answer.parameters is None
    assert "does not say when" in answer.sentences[0]
    assert "flatters" in answer.sentences[1]


def test_parameters_older_than_all_reviews_are_not_flattered(log: ReviewLog) -> None:
    few = only_preset(log, "Preset 0")
    assert few.entries is not None
    first = {name: column[:900] for name, column in vars(few.entries).items()}
    old = {key: replace(each, modified_s=1) for key, each in log.presets.items()}
    few = replace(few, presets=old, entries=replace(few.entries, **first), optimized_before_s=None)
    answer = compare(few, questions=["parameters"])[0]
    assert answer.conclusion == "can't tell"
    assert "flatters" not in answer.sentences[1]


def test_own_parameters_are_a_line_of_the_table(log: ReviewLog) -> None:
    answers = compare(log, questions=["parameters"], parameters={"mine": fsrs6.DEFAULT})
    for answer in answers:
        figures = {row["candidate"]: row["log loss"] for row in answer.tables[-1].records()}
        assert figures["mine"] == figures["defaults"]
    with pytest.raises(InputError, match="18 FSRS parameters"):
        compare(log, parameters={"mine": (1.0,) * 18})
    with pytest.raises(InputError, match="no question"):
        compare(log, questions=["color"])


def test_answers_come_one_by_one_and_end_when_nobody_listens(log: ReviewLog) -> None:
    """What a learner asks first comes first; what is closed or cancelled computes no further."""
    asked = ("retention", "parameters", "often")  # in any order
    answers = answering(log, questions=asked)
    first = next(answers)
    assert (first.question, first.subject) == ("parameters", "Preset 0")
    answers.close()
    assert compare(log, questions=asked)[0] == first
    order = [each.question for each in compare(log, questions=asked)]
    assert order == sorted(order, key=QUESTIONS.index)

    ticks = 0

    def tick(fraction: float) -> None:
        nonlocal ticks
        ticks += 1
        if ticks > 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        next(answering(log, questions=asked, context=Context(tick=tick)))
    with pytest.raises(InputError, match="no question"):
        answering(log, questions=["color"])  # before anything is asked of it


def test_interface_for_notebooks(log: ReviewLog) -> None:
    answers = srs_eval.compare(log, "parameters")
    frame = answers[0].frame()
    assert {"candidate", "log loss", "log loss low", "log loss high"} <= set(frame.columns)
    assert (frame["log loss low"] < frame["log loss"]).all()


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
def test_splitting_has_to_prove_itself(
    estimate: float, half: float, reviews: int, decision: str
) -> None:
    difference = Interval(estimate, half, reviews, 300, ((half / 1.968, 299),))
    assert split.decide(difference, verdict(difference), 0.002) == decision


def test_one_memory_keeps_its_parameters_together(log: ReviewLog) -> None:
    answer = compare(log, questions=["split"])[0]
    assert answer.conclusion in ("keep shared", "can't tell")  # never: split
    rows = answer.tables[0].records()
    assert [row["reviews of"] for row in rows[:2]] == ["all presets", "all presets"]
    assert "9,999 users" in answer.sentences[-1]


def test_the_same_comparison_has_one_figure(log: ReviewLog, learner: Learner) -> None:
    """Of pooled parameters against shared ones, in both questions, and of what is copied."""
    answers = compare(log, questions=["parameters", "split"])
    found = {each.question: each for each in answers if each.subject == "all presets"}
    first, *_ = found["parameters"].tables
    loss = {row["candidate"]: row["log loss"] for row in first.records()}
    rows = {row["parameters"]: row for row in found["split"].tables[0].records()[:2]}
    assert loss[POOLED] - loss[TOGETHER] == pytest.approx(rows["pooled"]["minus shared"])
    assert found["split"].conclusion == "keep shared"
    assert found["split"].parameters == pytest.approx(
        pooling.fitted(learner.trials, np.arange(len(learner.trials)))
    )
    assert "does as well" in " ".join(found["split"].sentences)


@pytest.mark.parametrize(
    ("separate", "drawn", "says"),
    [
        ("keep shared", "keep shared", "keep shared"),
        ("keep shared", "split", "pooled"),
        ("can't tell", "split", "pooled"),
        ("split", "split", "split"),
        ("can't tell", "keep shared", "can't tell"),
    ],
)
def test_one_is_not_enough_where_pooled_ones_are_better(
    separate: split.Decision, drawn: split.Decision, says: str
) -> None:
    assert split.concluded({"split": separate, "pooled": drawn}) == says


def test_who_could_share_is_open_where_every_pair_is(learner: Learner) -> None:
    def says(*estimates_and_halves: tuple[float, float]) -> str:
        each = [
            Interval(estimate, half, 5_000, 300, ((half / 1.968, 299),))
            for estimate, half in estimates_and_halves
        ]
        differences = {(100, 101): each[0], (101, 100): each[1]}
        groups = split.proposed_groups([100, 101], differences, 0.002)
        return split.who_could_share(learner, groups, differences, 0.002)

    open_, near, far = (0.001, 0.03), (0.0, 0.0005), (0.02, 0.003)
    assert "can't be told yet which" in says(open_, open_)
    assert "nothing speaks against all sharing theirs (1 of 2 pairs" in says(open_, near)
    assert "all can share theirs" in says(near, near)
    assert "these could share: Preset 0; Preset 1" in says(far, near)


def test_split_and_shared_parameters_are_fitted_alike(learner: Learner) -> None:
    """With all cards in one preset there is no difference, whatever the training's chances."""
    trials = replace(learner.trials, partition=np.full(len(learner.trials), 100))
    one = Learner(learner.log, learner.session, trials, learner.context)
    alone, together = one.held_out_losses(ALONE), one.held_out_losses(TOGETHER)
    np.testing.assert_array_equal(alone, together)
    overall, decisions = split.over_all_presets(learner, 0.002)
    change = learner.held_out_losses(ALONE) - learner.held_out_losses(TOGETHER)
    assert overall["split"].estimate == pytest.approx(change.mean(), abs=1e-15)
    assert decisions["split"] != "split"


def test_parameters_of_one_preset_on_reviews_of_another(learner: Learner) -> None:
    found = split.parameters_on_reviews(learner, [100, 101])
    index = learner.trials.test_index
    mine = learner.trials.partition[index] == 101
    other = np.empty(len(learner.trials))
    for fold in learner.trials.folds:
        hers = fold.train[learner.trials.partition[fold.train] == 100]
        other[fold.test] = learner.with_parameters(pooling.fitted(learner.trials, hers), fold.test)
    losses = learner.losses(other[index], index)[mine]
    own = learner.held_out_losses(ALONE)[mine]
    assert found[100, 101].estimate == pytest.approx((losses - own).mean(), abs=1e-12)
    assert set(found) == {(100, 101), (101, 100)}


def test_presets_that_lose_too_much_on_each_other_stay_apart() -> None:
    def difference(estimate: float) -> Interval:
        return Interval(estimate, 0.003, 5_000, 300, ((0.003 / 1.968, 299),))

    near, far = difference(0.001), difference(0.02)
    pairs = {(a, b): near for a in (1, 2, 3) for b in (1, 2, 3) if a != b}
    assert split.proposed_groups([1, 2, 3], pairs, 0.002) == [[1, 2, 3]]
    pairs[1, 3] = far  # one direction is enough
    assert split.proposed_groups([1, 2, 3], pairs, 0.002) == [[1, 2], [3]]
    pairs[2, 1] = far
    assert split.proposed_groups([1, 2, 3], pairs, 0.002) == [[1], [2, 3]]
    pairs = dict.fromkeys(pairs, far)
    assert split.proposed_groups([1, 2, 3], pairs, 0.002) == [[1], [2], [3]]


def test_a_single_preset_has_nothing_to_merge(log: ReviewLog) -> None:
    answer = compare(only_preset(log, "Preset 0"), questions=["split"])[0]
    assert answer.conclusion == "one preset"


def test_decks_of_a_preset_are_compared_as_presets_are(log: ReviewLog) -> None:
    """Two decks with every other card each: one memory."""
    one = only_preset(log, "Preset 0")
    halves = {900 + k: Deck(900 + k, f"Half {k}", 100) for k in (0, 1)}
    cards = replace(one.cards, deck_id=900 + one.cards.card_id % 2)
    learner = Learner.of(replace(one, decks=halves, cards=cards))
    decks = learner.by_deck(100)
    assert decks is not None
    assert set(decks.groups) == set(halves)
    assert learner.by_deck(100) is decks
    assert learner.by_deck(55) is None
    index = decks.trials.test_index
    whole = np.empty(len(decks.trials))
    for fold in decks.trials.folds:
        w = pooling.fitted(decks.trials, fold.train)
        whole[fold.test] = decks.with_parameters(w, fold.test)
    assert decks.held_out(TOGETHER) == pytest.approx(whole[index], abs=1e-9)
    answers = compare(learner.log, questions=["split"])
    assert [answer.subject for answer in answers] == ["Preset 0", "Preset 0"]
    assert answers[1].conclusion in ("keep shared", "can't tell")
    assert "decks" in answers[1].sentences[0]


def test_a_search_of_its_own_is_told(log: ReviewLog) -> None:
    preset = replace(log.presets[100], search="deck:Geography -tag:marked")
    answers = compare(replace(log, presets={**log.presets, 100: preset}), questions=["parameters"])
    told = [each for each in answers if "a search of its own" in " ".join(each.sentences)]
    assert [each.subject for each in told] == ["Preset 0"]
    assert "'deck:Geography -tag:marked'" in told[0].sentences[-1]


# How often


@given(st.integers(12, 4_000), st.sampled_from([*often.GROWTHS, None]))
def test_every_review_is_predicted_by_the_fit_before_it(count: int, growth: float | None) -> None:
    index = np.arange(count) * 3
    folds = often.refits(index, growth)
    assert np.array_equal(np.concatenate([fold.test for fold in folds]), index[count // 6 :])
    for fold in folds:
        assert fold.train[-1] < fold.test[0]
        assert np.array_equal(fold.train, index[: len(fold.train)])
        if growth is not None:
            assert len(fold.test) <= max(1, len(fold.train) * growth + 0.5)
    assert growth is not None or len(folds) == 1


def test_cost_of_optimizing_less_often(log: ReviewLog, learner: Learner) -> None:
    answers = compare(log, questions=["often"])
    assert {answer.subject for answer in answers} == {"Preset 0", "Preset 1"}
    index = np.flatnonzero(learner.trials.partition == 100)
    cost = often.staleness(learner, 100)
    assert list(cost)[-2:] == [often.NEVER, often.DEFAULTS]
    # By hand: one fit at a sixth, then never again.
    first = len(index) // 6
    weights = recency_weights(first)
    fitted = fsrs6.fit(learner.trials, index[:first], weights, Context())
    p = learner.with_parameters(fitted, index[first:])
    always = learner.predict("optimized, recency", often.refits(index, 0.02))
    by_hand = learner.losses(p, index[first:]) - learner.losses(always, index[first:])
    assert cost[often.NEVER].estimate == pytest.approx(by_hand.mean(), abs=1e-12)


def test_young_parameters_are_judged_by_what_their_age_costs(log: ReviewLog) -> None:
    """There is no figure of them yet, but how often one should optimize tells."""
    assert log.entries is not None
    lately = int(log.entries.time_ms[-150] // 1000)
    presets = {key: replace(each, modified_s=lately) for key, each in log.presets.items()}
    young = replace(log, presets=presets)
    answer = compare(young, questions=["parameters"])[0]
    (about,) = (sentence for sentence in answer.sentences if "reviews old" in sentence)
    assert about in compare(young, questions=["often"])[0].sentences
    never = {key: replace(each, fsrs_parameters={}) for key, each in presets.items()}
    answers = compare(replace(log, presets=never), questions=["parameters"])
    assert "never been optimized" not in " ".join(answers[0].sentences)


def test_too_few_reviews_to_say_how_often(log: ReviewLog) -> None:
    assert log.entries is not None
    few = log.entries.time_ms < np.quantile(log.entries.time_ms, 0.3)
    columns = {name: getattr(log.entries, name)[few] for name in log.entries.__dict__}
    answers = compare(replace(log, entries=Entries(**columns)), questions=["often"])
    assert all("1,000 are needed" in answer.sentences[0] for answer in answers)


# Health


@pytest.mark.parametrize(
    ("recall", "items"), [(0.7, 400), (0.85, 1_000), (0.9, 5_000), (0.97, 60_000)]
)
def test_health_check_near_both_limits(recall: float, items: int) -> None:
    loss = 1.11 * 0.623 * (4 * recall * (1 - recall)) ** 0.738
    rmse = 1.53 * (
        0.0135 / (recall**0.504 - 1.14) + 0.176 / ((items / 1000) ** 0.825 + 2.22) + 0.101
    )
    outcomes = {
        (better, calibrated): health.judge_health(
            loss * (0.999 if better else 1.001),
            rmse * (0.999 if calibrated else 1.001),
            recall,
            items,
        )
        for better in (True, False)
        for calibrated in (True, False)
    }
    for (better, calibrated), found in outcomes.items():
        assert found is not None
        assert found.passed == (better or calibrated)  # one of both is enough
        assert (found.log_loss_ratio <= 1.11) == better
        assert (found.rmse_ratio <= 1.53) == calibrated


@pytest.mark.parametrize(
    ("gained", "says"), [(0.02, "yes"), (-0.02, "no"), (0.0, "as good"), (None, "can't tell")]
)
def test_one_rule_decides_whether_fsrs_is_right(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, gained: float | None, says: str
) -> None:
    """The conclusion, its sentence and the verdict in the table never contradict each other."""
    size = len(learner.trials.test_index)
    noise = np.random.default_rng(1).normal(0, 0.001, size)
    if gained is None:
        gained, noise = 0.01, noise * 300
    losses = {"optimized": np.full(size, 0.4), SM2: 0.4 + gained + noise, "average": noise + 0.6}
    monkeypatch.setattr(Learner, "held_out_losses", lambda self, name: losses[name])
    monkeypatch.setattr(health, "check_health", lambda *_: None)
    (answer, *_) = health.is_fsrs_right_for_me(learner, list(learner.groups), 0.002)
    verdict_shown = answer.tables[0].rows[0][2]
    assert answer.conclusion == says
    assert health.SAID[verdict_shown][0] == says  # type: ignore[index]
    assert answer.sentences[0].startswith(health.SAID[verdict_shown][1])  # type: ignore[index]


def test_no_health_check_of_too_few_items() -> None:
    assert health.judge_health(0.3, 0.05, 0.9, 300) is None
    assert health.judge_health(0.3, 0.05, 0.9, 301) is not None
    assert health.judge_health(0.3, 0.05, 1.0, 1_000) is None


def test_no_health_check_where_all_first_intervals_are_rare(learner: Learner) -> None:
    """Fewer than 20 cards of each first rating: all would be left out, which ends Anki's too."""
    trials = learner.trials
    few = np.isin(trials.card_id, np.unique(trials.card_id[trials.i > 6])[:40])
    index = np.flatnonzero(few & (trials.i > 2) | (trials.i == 2) & (trials.card_id % 7 == 0))
    seconds = np.flatnonzero(trials.i[index] == 2)
    index = np.delete(index, seconds[8:])
    assert len(index) > 300
    assert health.check_health(learner, index) is None
    answers = compare(learner.log, questions=["health"])
    assert all("health check" in " ".join(answer.sentences) for answer in answers)


@pytest.mark.parametrize("name", ORACLE_NAMES)
def test_health_check_as_anki_makes_it(name: str) -> None:
    fixtures = shared_or_skip(FIXTURES)
    fixture = srs_eval.load(fixtures / "collection.anki2")
    oracle = json.loads((fixtures / "oracle-workload.json").read_text())["presets"][name]
    trials = _oracle_trials(fixture, name)
    of_preset = Learner.of(only_preset(fixture, name))
    found = health.check_health(replace(of_preset, trials=trials), np.arange(len(trials)))
    assert found is not None
    assert found.passed == oracle["compute"]["health_check_passed"]
    expected = oracle["evaluate_time_series"]
    assert found.log_loss == pytest.approx(expected["log_loss"], abs=1e-5)
    assert found.rmse_bins == pytest.approx(expected["rmse_bins"], abs=1e-5)


@pytest.mark.parametrize("name", ORACLE_NAMES)
def test_parameters_as_ankis_optimizer_computes_them(name: str) -> None:
    fixtures = shared_or_skip(FIXTURES)
    fixture = srs_eval.load(fixtures / "collection.anki2")
    oracle = json.loads((fixtures / "oracle-workload.json").read_text())["presets"][name]
    trials = _oracle_trials(fixture, name)
    fitted = anki_fit(trials, np.arange(len(trials)), Context())
    assert fitted == pytest.approx(oracle["compute"]["params"], abs=1e-4)


def test_anki_trains_on_whole_cards_at_a_time(learner: Learner) -> None:
    trials = learner.trials
    rows = np.arange(0, len(trials) * 2 // 3)
    batches = by_card(trials, rows, 100)
    assert np.array_equal(np.sort(np.concatenate(batches)), rows)
    cards = [set(trials.card_id[batch].tolist()) for batch in batches]
    assert sum(map(len, cards)) == len(set().union(*cards))  # no card in two
    assert all(len(batch) <= 100 or len(of) == 1 for batch, of in zip(batches, cards, strict=True))
    longest = [int(trials.sequence_length[batch].max()) for batch in batches]
    assert longest == sorted(longest)


def test_too_little_for_ankis_optimizer(learner: Learner) -> None:
    """Below 8 reviews the defaults, below 64 only the initial stabilities."""
    trials = learner.trials
    common = np.flatnonzero(trials.first_rating == 3)[:400]
    train = common[np.isin(trials.card_id[common], trials.card_id[common[:60]])]
    assert anki_fit(trials, train[:3], Context()) == list(fsrs6.DEFAULT)
    some = anki_fit(trials, np.flatnonzero(trials.i == 2), Context())
    assert some[4:] == list(fsrs6.DEFAULT[4:])
    assert some[:4] != list(fsrs6.DEFAULT[:4])


def test_a_memory_that_turns_round_again_and_again_fails_the_health_check(
    learner: Learner,
) -> None:
    """Every sixth of the reviews is the opposite of the one before: the past misleads."""
    trials = learner.trials
    random = np.random.default_rng(5)
    sixth = np.arange(len(trials)) * 6 // len(trials)
    y = (random.random(len(trials)) < np.where(sixth % 2, 0.1, 0.9)).astype(np.float64)
    confused = replace(learner, trials=replace(trials, y=y, _derived={}))
    found = health.check_health(confused, np.arange(len(trials)))
    assert found is not None
    assert not found.passed


# Hard


def _with_hard(log: ReviewLog, share_of: int) -> ReviewLog:
    """Answers that were `share_of` (1 Again, 3 Good) become Hard half of the time."""
    assert log.entries is not None
    random = np.random.default_rng(2)
    rating = log.entries.rating.copy()
    chosen = (rating == share_of) & (random.random(len(rating)) < 0.5)
    rating[chosen & (log.entries.kind == REVIEW)] = 2
    return replace(log, entries=replace(log.entries, rating=rating))


def test_hard_for_what_was_forgotten_is_told_from_hard_for_what_was_not(log: ReviewLog) -> None:
    loss = {}
    for button in (1, 3):
        learner = Learner.of(_with_hard(log, button))
        loss[button] = hard.what_ifs(learner)[hard.AS_AGAIN]
        recalled, bias = hard.expected_after(learner)[2]
        assert 0 < recalled < 1
        assert bias.reviews > 50
    assert loss[1].estimate < 0 < loss[3].estimate
    assert loss[3].low > 0


def test_outcomes_of_what_ifs_are_as_they_are(learner: Learner) -> None:
    """Nobody presses Hard here and nothing changes."""
    quiet = _with_hard(learner.log, 9)
    assert quiet.entries is not None
    rating = np.where(quiet.entries.rating == 2, 3, quiet.entries.rating)
    none = Learner.of(replace(quiet, entries=replace(quiet.entries, rating=rating)))
    differences = hard.what_ifs(none)
    assert differences[hard.AS_AGAIN].estimate == 0
    (answer,) = compare(none.log, questions=["hard"])
    assert answer.conclusion == "seldom"
    assert answer.tables[0].records()[2]["Hard"] == "0.0 %"


# Steps


def _answers_after(situation: str, count: int, stability: float, seed: int = 1) -> Any:
    """Next answers on 60 days, 1 to 60 minutes later, of a memory that forgets as FSRS has it."""
    random = np.random.default_rng(seed)
    minutes = np.exp(random.uniform(0, np.log(60), count))
    recall = (1 + (0.9 ** (-1 / 0.1542) - 1) * minutes / stability) ** -0.1542
    return steps.NextAnswers(
        np.full(count, steps.SITUATIONS.index(situation)),
        minutes,
        (random.random(count) < recall).astype(np.float64),
        np.sort(random.integers(0, 60, count)),
        np.full(count, 100),
    )


def test_next_answers_of_a_day_by_what_came_before() -> None:
    minute = 60
    cards = {  # (rating, state, days since, seconds since) of each answer
        1: [(1, 0, -1, -1), (3, 1, 0, minute), (3, 1, 0, 10 * minute), (1, 2, 3, 3 * 86_400)],
        2: [(3, 0, -1, -1), (1, 1, 0, 20 * minute), (3, 3, 1, 86_400)],
        3: [(2, 0, -1, -1), (3, 1, 1, 86_400)],  # the next answer is on another day
        4: [(4, 0, -1, -1), (3, 1, 0, minute)],  # Easy leaves the steps
        5: [(3, 0, -1, -1), (1, 2, 4, 4 * 86_400), (3, 3, 0, 5 * minute), (3, 3, 0, minute)],
    }
    lines = [(card, *answer) for card, answers in cards.items() for answer in answers]
    card, rating, state, days, seconds = np.array(lines, np.int64).T
    order = np.argsort([sum(c == d for d in card[:k]) for k, c in enumerate(card)], kind="stable")
    rows = Rows(
        *(
            column[order]
            for column in (card, np.zeros_like(card), rating, state, card, days, seconds)
        )
    )
    found = steps.next_answers(rows, rows.card_id)
    names = [steps.SITUATIONS[k] for k in found.situation]
    assert sorted(
        zip(found.preset.tolist(), names, found.minutes, found.recalled, strict=True)
    ) == [
        (1, "Again, then Good", 10.0, 1.0),
        (1, "first Again", 1.0, 1.0),
        (2, "first Good", 20.0, 0.0),
        (5, "lapse", 5.0, 1.0),
    ]


@pytest.mark.parametrize("stability", [3.0, 12.0, 40.0])
def test_the_curve_within_a_day_is_found_again(stability: float) -> None:
    hits = 0
    for seed in range(20):
        answers = _answers_after("lapse", 400, stability, seed)
        curve = steps.fitted_forgetting(answers, 0.1542)
        assert steps.follows(curve, answers)
        estimate, low, high = curve.delay(0.9)
        assert estimate == pytest.approx(np.exp(curve.log_stability.estimate))  # R(S) = 0.9
        assert curve.recall(np.array([curve.delay(0.8)[0]]))[0] == pytest.approx(0.8)
        hits += low <= stability <= high
    assert hits >= 17


def test_a_step_is_held_against_the_delay_that_is_wanted(learner: Learner) -> None:
    preset = replace(learner.log.presets[100], learning_steps=(1.0, 10.0), relearning_steps=(15.0,))
    assert steps.steps_now(preset) == {
        "first Again": 1.0,
        "first Hard": 5.5,
        "first Good": 10.0,
        "Again, then Good": 10.0,
        "lapse": 15.0,
    }
    learner = replace(learner, log=replace(learner.log, presets={100: preset}), _known={})

    def asked(answers: Any) -> Any:
        return steps._answer(learner, 100, answers)

    longer = asked(_answers_after("first Again", 2_000, 12.0))
    assert longer.conclusion == "longer"
    assert "recall falls to 90 % after about 1" in longer.sentences[0]  # 10 to 19 min
    assert "Your step is 1 min." in longer.sentences[0]
    assert asked(_answers_after("lapse", 2_000, 5.0)).conclusion == "shorter"
    assert asked(_answers_after("lapse", 2_000, 15.0)).conclusion == "as it is"
    beyond = asked(_answers_after("lapse", 2_000, 2_000.0))
    assert "above 90 % even at the longest delays" in beyond.sentences[0]
    assert beyond.conclusion == "longer"
    few = asked(_answers_after("lapse", 99, 12.0))
    assert few.conclusion == "can't tell"
    assert "100 answers on 20 days are needed" in few.sentences[0]
    same = _answers_after("lapse", 2_000, 12.0)
    narrow = asked(replace(same, minutes=10 + same.minutes / 20))
    assert narrow.conclusion == "can't tell"
    assert "the delays hardly vary" in narrow.sentences[0]
    flat = asked(replace(same, recalled=(np.arange(2_000) % 4 > 0).astype(np.float64)))
    assert "does not fall as on the curve" in flat.sentences[0]
    rows = longer.tables[1].records()
    assert sum(row["answers"] for row in rows) == 2_000
    assert all(abs(row["recalled"] - row["curve"]) < 0.05 for row in rows)


def test_steps_of_a_simulated_learner(log: ReviewLog) -> None:
    """Who has always the same steps has nothing to tell them by."""
    answers = compare(log, questions=["steps"])
    assert [answer.subject for answer in answers] == ["Preset 0", "Preset 1"]
    assert all(answer.conclusion == "can't tell" for answer in answers)


# Noise


def test_spread_of_parameters_over_days(log: ReviewLog, learner: Learner) -> None:
    index = np.flatnonzero(learner.trials.partition == 100)
    fits = noise.by_days(learner, index)
    assert fits.shape == (noise.DRAWS, 21)
    assert np.array_equal(fits, noise.by_days(learner, index))
    lower, upper = np.array(fsrs6.lower_bounds(0.001)), np.array(fsrs6.UPPER)
    assert ((fits >= lower) & (fits <= upper)).all()
    assert (fits.std(axis=0) > 0).sum() >= 15
    answers = compare(log, questions=["noise"])
    for answer in answers:
        if not answer.tables:
            assert answer.conclusion == "can't tell"
            continue
        rows = answer.tables[0].records()
        noisy = [row for row in rows if row["over days"] > 0.5 * row["learners"]]
        assert answer.conclusion == f"{len(noisy)} of 21"
        assert all(row["parameter"] in answer.sentences[0] for row in noisy)
    assert any(answer.tables for answer in answers)


def test_one_parameter_is_noise(log: ReviewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = np.tile(np.array(fsrs6.DEFAULT), (noise.DRAWS, 1))
    fits[::2, 3] += 100
    monkeypatch.setattr(noise, "by_days", lambda learner, index: fits)
    answer = next(each for each in compare(log, questions=["noise"]) if each.tables)
    assert answer.conclusion == "1 of 21"
    assert answer.sentences[0].startswith(
        "1 of 21 parameters is noise: had days gone otherwise, it"
    )


# Retention


def test_retention_is_that_of_the_reviews(log: ReviewLog, learner: Learner) -> None:
    answers = compare(log, questions=["retention"])
    for group, answer in zip(learner.groups, answers, strict=True):
        mine = learner.trials.partition == group
        whole, young, mature, *months = answer.tables[0].records()
        assert whole["recalled"] == pytest.approx(learner.trials.y[mine].mean())
        assert whole["reviews"] == mine.sum() == young["reviews"] + mature["reviews"]
        assert whole["desired"] == 0.9
        assert sum(month["reviews"] for month in months) <= mine.sum()
        assert [month["reviews of"] for month in months] == sorted(
            month["reviews of"] for month in months
        )
        low, high = whole["recalled low"], whole["recalled high"]
        expected = (
            "less than desired"
            if high < 0.9
            else "more than desired"
            if low > 0.9
            else "as desired"
        )
        assert answer.conclusion in (expected, "can't tell")


# Predictions of one's own


def _own_predictions(learner: Learner, path: Path, header: str) -> Path:
    """Those of the defaults, for all reviews in any order."""
    index = np.random.default_rng(4).permutation(len(learner.trials))
    p = learner.with_parameters(fsrs6.DEFAULT, index)
    time_ms = np.round(learner.time_s[index] * 1000).astype(np.int64)
    card = learner.trials.card_id[index]
    names = header.split(",")
    columns: dict[str, Any] = {"review_id": time_ms, "time_ms": time_ms, "card_id": card, "p": p}
    columns["model"] = ["mine"] * len(p)
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({name: columns[name] for name in names}), path)
        return path
    rows = zip(*(columns[name] for name in names), strict=True)
    lines = [
        header,
        *(",".join(repr(float(x)) if isinstance(x, float) else str(x) for x in r) for r in rows),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("file", "header", "model"),
    [
        ("mine.csv", "review_id,p", "mine"),
        ("others.csv", "p,card_id,time_ms,model", "mine"),
        ("mine.parquet", "review_id,p", "mine"),
    ],
)
def test_own_predictions_are_judged_beside_the_others(
    file: str, header: str, model: str, log: ReviewLog, learner: Learner, tmp_path: Path
) -> None:
    path = _own_predictions(learner, tmp_path / file, header)
    answers = srs_eval.compare(log, "parameters", predictions=path)
    figures = {row["candidate"]: row["log loss"] for row in answers[-1].tables[0].records()}
    assert figures[model] == pytest.approx(figures["defaults"], abs=1e-12)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no predictions"),
        ("review_id,p\n", "holds no predictions"),
        ("review_id,q\n1,0.5\n", "has no column p"),
        ("card_id,p\n1,0.5\n", "has no column review_id"),
        ("time_ms,p\n1,0.5\n", "has no column card_id"),
        ("review_id,p\n1,1.5\n", "between 0 and 1"),
        ("review_id,p\n1,nan\n", "between 0 and 1"),
        ("review_id,p\n1,much\n", "no number"),
        ("review_id,p\nx,0.5\n", "no whole number"),
        ("review_id,p\n1,0.5,3\n", "line 2"),
        ("review_id,p\n1,0.5\n1,0.6\n", "twice"),
        ("review_id,p\n1,0.5\n", "cover 0 of the"),
    ],
)
def test_predictions_that_cannot_be_judged(
    text: str, says: str, log: ReviewLog, tmp_path: Path
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        srs_eval.compare(log, "parameters", predictions=path)


def test_predictions_that_are_not_there(log: ReviewLog, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        srs_eval.compare(log, "parameters", predictions=tmp_path / "none.csv")


# Several decks and presets at once


def test_narrowing_to_several_decks_or_presets(log: ReviewLog) -> None:
    decks = [Deck(1, "A", 100), Deck(2, "B", 101), Deck(3, "C", 100)]
    cards = log.cards.card_id
    three = replace(
        log,
        decks={deck.id: deck for deck in decks},
        cards=replace(log.cards, deck_id=1 + np.arange(len(cards)) % 3),
    )
    assert set(only_deck(three, "A", "b").cards.deck_id) == {1, 2}
    assert set(only_preset(three, "Preset 0").cards.deck_id) == {1, 3}
    assert set(only_preset(three, "Preset 0", "101").cards.deck_id) == {1, 2, 3}
    with pytest.raises(InputError, match='no deck "D"'):
        only_deck(three, "A", "D")


# Logs without presets


@pytest.fixture(scope="module")
def supermemo(tmp_path_factory: pytest.TempPathFactory) -> ReviewLog:
    """A simulated learner's reviews as rows, and what another program is taken to have said."""
    folder = tmp_path_factory.mktemp("rows")
    write_dataset({1: simulate_learner(3, 3_000)}, folder)
    read = srs_eval.load(folder, user=1)
    assert read.rows is not None
    said = np.random.default_rng(8).uniform(0.7, 0.99, len(read.rows))
    said[::50] = np.nan
    return replace(read, user=None, predictions={"SuperMemo SM-15": said})


def test_other_programs_predictions_are_judged_beside_fsrs(supermemo: ReviewLog) -> None:
    (answer,) = compare(supermemo, parameters={"mine": fsrs6.DEFAULT})
    assert answer.question == "models"
    rows = {row["model"]: row for row in answer.tables[0].records()}
    result = srs_eval.evaluate(supermemo, models=["FSRS-6"], use_cache=False)["FSRS-6"]
    said = supermemo.predictions["SuperMemo SM-15"][result.review_th - 1]
    both = np.isfinite(said)
    assert f"Left out: {np.count_nonzero(~both)} held-out reviews" in " ".join(answer.sentences)
    for name, p in (("FSRS-6", result.p), ("SuperMemo SM-15", said)):
        likelihood = np.where(result.y == 1, p, 1 - p)[both]
        assert rows[name]["log loss"] == pytest.approx(-np.log(likelihood).mean(), abs=1e-9)
    assert rows["mine"]["log loss"] == rows["FSRS-6 defaults"]["log loss"]
    assert rows["SuperMemo SM-15"]["verdict"] == "worse"
    assert "“SuperMemo SM-15” predicts worse than FSRS-6" in " ".join(answer.sentences)


def test_predictions_of_a_file_for_reviews_without_times(
    supermemo: ReviewLog, tmp_path: Path
) -> None:
    result = srs_eval.evaluate(supermemo, models=["FSRS-6"], use_cache=False)["FSRS-6"]
    path = tmp_path / "mine.csv"
    lines = [f"{th},{p!r}" for th, p in zip(result.review_th, result.p.tolist(), strict=True)]
    path.write_text("\n".join(["review_th,p", *lines]))
    (answer,) = compare(supermemo, predictions=path)
    rows = {row["model"]: row for row in answer.tables[0].records()}
    assert rows["mine"]["log loss"] == pytest.approx(rows["FSRS-6"]["log loss"], abs=1e-12)
    path.write_text("review_id,p\n1,0.5\n")
    with pytest.raises(InputError, match="name reviews by review_th"):
        compare(supermemo, predictions=path)


def test_supermemo_against_fsrs_on_histories_of_people() -> None:
    folder = os.environ.get("SRS_EVAL_REAL")
    if not folder:
        pytest.skip("needs SRS_EVAL_REAL, a folder with real histories")
    files = sorted(Path(folder).glob("supermemo-*.txt"))
    assert files
    for file in files:
        (answer,) = compare(srs_eval.load(file))
        rows = {row["model"]: row for row in answer.tables[0].records()}
        assert {"SuperMemo SM-15", "FSRS-6", "average"} <= set(rows)
        assert rows["SuperMemo SM-15"]["verdict"] != "can't tell yet"  # thousands of reviews


# The command line


def program(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "srs_eval", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_sentences_first_then_tables_of_80_columns(collection: Path, tmp_path: Path) -> None:
    before = collection.read_bytes()
    target = tmp_path / "answers.json"
    done = program("compare", collection, "--params", "0.2" + ", 1.0" * 20, "--json", target)
    assert done.returncode == 0, done.stderr
    assert collection.read_bytes() == before
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1] == "Are my parameters good?"
    assert "params 1" in done.stdout
    assert "--rows anki" in done.stdout
    document = json.loads(target.read_text())
    assert document["rows"] == "anki"
    assert {answer["question"] for answer in document["answers"]} == set(QUESTIONS)
    flattened = " ".join(done.stdout.split())
    for answer in document["answers"]:
        assert all(sentence in flattened for sentence in answer["sentences"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--params", "1, 2, 3"], "17, 19 or 21 are needed"),
        (["--params", "a, b"], "no list of FSRS parameters"),
        (["--question", "weather"], "--question takes"),
        (["--preset", "Nothing"], 'There is no preset "Nothing"'),
        (["--preset", "Facts", "--preset", "Nothing"], 'There is no preset "Nothing"'),
    ],
)
def test_what_cannot_be_compared_is_told(options: list[str], says: str, collection: Path) -> None:
    done = program("compare", collection, *options)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_source_without_presets_or_with_chosen_rows_is_told(tmp_path: Path) -> None:
    """Questions that need presets; which model predicts best can be answered all the same."""
    table = tmp_path / "reviews.csv"
    lines = [
        f"{card},{1_600_000_000_000 + (day * 86_400 + card) * 1000},{1 + (card + day) % 3}"
        for day in range(6)
        for card in range(120)
    ]
    table.write_text("\n".join(["card_id,review_time,review_rating", *lines]))
    write_dataset({1: simulate_learner(1, 1_500), 2: simulate_learner(2, 200)}, tmp_path / "users")
    for path, options, says in (
        (table, [], "says nothing of decks and presets"),
        (tmp_path / "users", ["--user", "1"], "rows that Anki did not choose"),
    ):
        done = program("compare", path, *options, "--question", "split")
        assert done.returncode == 2
        assert says in done.stderr
        assert "give a collection" in done.stderr
        done = program("compare", path, *options, "--json", "-")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["rows"] == "benchmark"
        assert [each["question"] for each in document["answers"]] == ["models"]
    for path, user, says in (
        (table, None, "says nothing of decks and presets"),
        (tmp_path / "users", 1, "rows that Anki did not choose"),
    ):
        with pytest.raises(InputError, match=f"{says}: give a collection"):
            srs_eval.compare(srs_eval.load(path, user=user), "parameters")


def test_titles_are_not_broken_by_narrow_tables(collection: Path) -> None:
    done = program("compare", collection, "--question", "health", "--json", "-")
    titles = [
        table["title"] for each in json.loads(done.stdout)["answers"] for table in each["tables"]
    ]
    assert titles
    shown = program("compare", collection, "--question", "health").stdout.splitlines()
    for title in titles:
        (line,) = (each for each in shown if each.startswith(title))
        assert line == title or line.endswith(": log loss, below zero is better)")
