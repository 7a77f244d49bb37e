"""Whether FSRS is right for a learner: health check, noise, retention."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import fsrs, parameters, shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import SM2, ParameterNoise, Retention
from srs_eval.advice.questions import compare
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import select_presets
from srs_eval.models import fsrs6
from srs_eval.models.fsrs6 import _batch_by_card
from srs_eval.models.fsrs6 import fit_as_anki as anki_fit
from srs_eval.training.hyperparameters import Context
from tests.advice.helpers import FIXTURES, ORACLE_NAMES, oracle_trials
from tests.conftest import shared_or_skip

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
        (better, calibrated): fsrs._apply_health_rule(
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
    ("gained", "act"), [(0.02, "keep"), (-0.02, "keep"), (-1.0, "SM-2"), (0.2, "keep")]
)
def test_whether_fsrs_is_right_joins_ones_own_reviews_with_other_peoples(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, gained: float, act: str
) -> None:
    """Nearly everybody gains by FSRS: it takes much to say otherwise."""
    size = len(learner.trials.test_index)
    noise = np.random.default_rng(1).normal(0, 0.001, size)
    losses = {"optimized": np.full(size, 0.4), SM2: 0.4 + gained + noise, "average": noise + 0.6}
    monkeypatch.setattr(Learner, "held_out_losses", lambda self, name: losses[name])
    monkeypatch.setattr(fsrs, "_check_health", lambda *_: None)
    (answer, *_) = fsrs.compare_with_sm2(learner, list(learner.groups))
    assert answer.recommendation == act
    assert answer.probability is not None
    assert answer.probability > 0.5
    assert answer.interval is not None
    assert answer.interval.estimate == pytest.approx(-gained, abs=0.01)


def test_no_health_check_of_too_few_items() -> None:
    assert fsrs._apply_health_rule(0.3, 0.05, 0.9, 300) is None
    assert fsrs._apply_health_rule(0.3, 0.05, 0.9, 301) is not None
    assert fsrs._apply_health_rule(0.3, 0.05, 1.0, 1_000) is None


def test_no_health_check_where_all_first_intervals_are_rare(learner: Learner) -> None:
    """Fewer than 20 cards of each first rating: all would be left out, which ends Anki's too."""
    trials = learner.trials
    few = np.isin(trials.card_id, np.unique(trials.card_id[trials.i > 6])[:40])
    index = np.flatnonzero(few & (trials.i > 2) | (trials.i == 2) & (trials.card_id % 7 == 0))
    seconds = np.flatnonzero(trials.i[index] == 2)
    index = np.delete(index, seconds[8:])
    assert len(index) > 300
    assert fsrs._check_health(learner, index) is None
    answers = compare(learner.log, questions=["health"])
    assert all("health check" in " ".join(shown.sentences(answer)) for answer in answers)


@pytest.mark.parametrize("name", ORACLE_NAMES)
def test_health_check_as_anki_makes_it(name: str) -> None:
    fixtures = shared_or_skip(FIXTURES)
    fixture = srs_eval.load(fixtures / "collection.anki2")
    oracle = json.loads((fixtures / "oracle-workload.json").read_text())["presets"][name]
    trials = oracle_trials(fixture, name)
    of_preset = Learner.of(select_presets(fixture, name))
    found = fsrs._check_health(replace(of_preset, trials=trials), np.arange(len(trials)))
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
    trials = oracle_trials(fixture, name)
    fitted = anki_fit(trials, np.arange(len(trials)), Context())
    assert fitted == pytest.approx(oracle["compute"]["params"], abs=1e-4)


def test_anki_trains_on_whole_cards_at_a_time(learner: Learner) -> None:
    trials = learner.trials
    rows = np.arange(0, len(trials) * 2 // 3)
    batches = _batch_by_card(trials, rows, 100)
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
    found = fsrs._check_health(confused, np.arange(len(trials)))
    assert found is not None
    assert not found.passed


# Noise


def test_spread_of_parameters_over_days(log: ReviewLog, learner: Learner) -> None:
    index = np.flatnonzero(learner.trials.partition == 100)
    fits = parameters._by_days(learner, index)
    assert fits.shape == (parameters._BOOTSTRAP_DRAWS, 21)
    assert np.array_equal(fits, parameters._by_days(learner, index))
    lower, upper = np.array(fsrs6.lower_bounds(0.001)), np.array(fsrs6.UPPER)
    assert ((fits >= lower) & (fits <= upper)).all()
    assert (fits.std(axis=0) > 0).sum() >= 15
    (first, *_) = compare(log, questions=["noise"])
    assert isinstance(first.evidence, ParameterNoise)
    moved = [each.day_sd > 0.5 * each.learner_sd for each in first.evidence.parameters]
    assert moved == [each.is_noise for each in first.evidence.parameters]
    assert first.conclusion == f"{sum(moved)} of 21"


def test_one_parameter_is_noise(log: ReviewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = np.tile(np.array(fsrs6.DEFAULT), (parameters._BOOTSTRAP_DRAWS, 1))
    fits[::2, 3] += 100
    monkeypatch.setattr(parameters, "_by_days", lambda learner, index: fits)
    answer = compare(log, questions=["noise"])[0]
    assert answer.conclusion == "1 of 21"
    assert shown.line([answer]).startswith("1 of 21 parameters are noise (w3): ")


# Retention


def test_retention_is_that_of_the_reviews(log: ReviewLog, learner: Learner) -> None:
    answers = compare(log, questions=["retention"])
    for group, answer in zip(learner.groups, answers, strict=True):
        mine = learner.trials.partition == group
        whole, young, mature, *months = shown.tables(answer)[0].records()
        assert whole["recalled"] == pytest.approx(learner.trials.y[mine].mean())
        assert whole["reviews"] == mine.sum() == young["reviews"] + mature["reviews"]
        assert mature["reviews of"] == "old cards"  # as the first screen calls them
        assert log.entries is not None
        assert log.entries.interval is not None
        # Old is what Anki calls mature: scheduled for 21 days or more, however late it came.
        assert mature["reviews"] == (log.entries.interval[learner.entry_index] >= 21)[mine].sum()
        assert isinstance(answer.evidence, Retention)
        assert answer.evidence.desired == 0.9
        assert sum(month["reviews"] for month in months) <= mine.sum()
        assert [month["reviews of"] for month in months] == sorted(
            month["reviews of"] for month in months
        )
        low, high = whole["recalled low"], whole["recalled high"]
        expected = "below" if high < 0.9 else "above" if low > 0.9 else "no matter"
        assert answer.conclusion in (expected, "can't tell")
