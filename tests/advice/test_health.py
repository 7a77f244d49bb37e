"""Whether FSRS is right for a learner: health check, noise, retention."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import srs_eval
from srs_eval.advice import fsrs, parameters, shown
from srs_eval.advice.candidates import Learner
from srs_eval.advice.findings import LAST_90_DAYS, SM2, ParameterNoise, Retention
from srs_eval.advice.health_check import ANKI_RULE, check_health
from srs_eval.advice.questions import compare
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import select_presets
from srs_eval.metrics import log_losses
from srs_eval.models import fsrs6
from srs_eval.models.fsrs6 import _batch_by_card
from srs_eval.models.fsrs6 import fit_as_anki as anki_fit
from srs_eval.training.hyperparameters import Context
from tests.conftest import shared_or_skip
from tests.helpers.advice import FIXTURES, ORACLE_NAMES, oracle_trials

# Health


@pytest.mark.parametrize(
    ("recall", "items"), [(0.7, 400), (0.85, 1_000), (0.9, 5_000), (0.97, 60_000)]
)
def test_health_check_passes_within_either_limit(recall: float, items: int) -> None:
    loss = 1.11 * 0.623 * (4 * recall * (1 - recall)) ** 0.738
    rmse = 1.53 * (
        0.0135 / (recall**0.504 - 1.14) + 0.176 / ((items / 1000) ** 0.825 + 2.22) + 0.101
    )
    outcomes = {
        (better, calibrated): ANKI_RULE.apply(
            loss * (0.999 if better else 1.001),
            rmse * (0.999 if calibrated else 1.001),
            recall,
            items,
        )
        for better in (True, False)
        for calibrated in (True, False)
    }
    for (better, calibrated), check in outcomes.items():
        assert check is not None
        assert check.passed == (better or calibrated)  # one of both is enough
        assert (check.log_loss_ratio <= 1.11) == better
        assert (check.rmse_ratio <= 1.53) == calibrated


@pytest.mark.parametrize(
    ("gained", "act"), [(0.02, "keep"), (-0.02, "keep"), (-1.0, "SM-2"), (0.2, "keep")]
)
def test_health_verdict_joins_own_and_other_peoples_reviews(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, gained: float, act: str
) -> None:
    """Check that only a large loss outweighs that nearly everybody gains by FSRS."""
    size = len(learner.trials.test_index)
    noise = np.random.default_rng(1).normal(0, 0.001, size)
    losses = {"optimized": np.full(size, 0.4), SM2: 0.4 + gained + noise, "average": noise + 0.6}
    monkeypatch.setattr(Learner, "held_out_losses", lambda self, name: losses[name])
    monkeypatch.setattr(fsrs, "check_health", lambda *_: None)
    (answer, *_) = fsrs.compare_with_sm2(learner, list(learner.groups))
    assert answer.recommendation == act
    assert answer.probability is not None
    assert answer.probability > 0.5
    assert answer.interval is not None
    assert answer.interval.estimate == pytest.approx(-gained, abs=0.01)


def test_health_check_of_300_items_is_none() -> None:
    assert ANKI_RULE.apply(0.3, 0.05, 0.9, 300) is None
    assert ANKI_RULE.apply(0.3, 0.05, 0.9, 301) is not None
    assert ANKI_RULE.apply(0.3, 0.05, 1.0, 1_000) is None


def test_health_check_without_common_first_intervals_is_none(learner: Learner) -> None:
    """Check fewer than 20 cards of each first rating: Anki would leave all out and end."""
    trials = learner.trials
    few = np.isin(trials.card_id, np.unique(trials.card_id[trials.i > 6])[:40])
    index = np.flatnonzero(few & (trials.i > 2) | (trials.i == 2) & (trials.card_id % 7 == 0))
    seconds = np.flatnonzero(trials.i[index] == 2)
    index = np.delete(index, seconds[8:])
    assert len(index) > 300
    assert fsrs.check_health(learner, index) is None
    answers = compare(learner.log, questions=["health"])
    assert all("health check" in " ".join(shown.sentences(answer)) for answer in answers)


def test_health_check_predicts_by_ankis_rule_for_hard_on_the_same_day(learner: Learner) -> None:
    """Check that Hard shortens no stability, as in the fit; fsrs-optimizer's rule would differ."""
    trials = learner.trials
    index = np.arange(len(trials))
    found = check_health(learner, index)
    assert found is not None
    losses: dict[str, list[float]] = {"Anki": [], "fsrs-optimizer": []}
    begins = [len(index) // 6 * fold for fold in range(1, 6)]
    for begin, end in zip(begins, [*begins[1:], len(index)], strict=True):
        w = anki_fit(trials, index[:begin], learner.context)
        test = index[begin:end]
        by_rule = {"Anki": fsrs6.ANKI_TRAINABLE.predict, "fsrs-optimizer": fsrs6.predict}
        for rule, predict in by_rule.items():
            p = predict(trials, w, test, learner.context)
            losses[rule] += log_losses(trials.y[test], p).tolist()
    assert found.log_loss == pytest.approx(np.mean(losses["Anki"]), abs=1e-12)
    assert abs(found.log_loss - np.mean(losses["fsrs-optimizer"])) > 1e-6


@pytest.mark.parametrize("name", ORACLE_NAMES)
def test_health_check_equals_ankis(name: str) -> None:
    fixtures = shared_or_skip(FIXTURES)
    fixture = srs_eval.load(fixtures / "collection.anki2")
    oracle = json.loads((fixtures / "oracle-workload.json").read_text())["presets"][name]
    trials = oracle_trials(fixture, name)
    of_preset = Learner.of(select_presets(fixture, name))
    check = fsrs.check_health(replace(of_preset, trials=trials), np.arange(len(trials)))
    assert check is not None
    assert check.passed == oracle["compute"]["health_check_passed"]
    expected = oracle["evaluate_time_series"]
    assert check.log_loss == pytest.approx(expected["log_loss"], abs=1e-5)
    assert check.rmse_bins == pytest.approx(expected["rmse_bins"], abs=1e-5)


@pytest.mark.parametrize("name", ORACLE_NAMES)
def test_anki_fit_equals_ankis_optimizer(name: str) -> None:
    fixtures = shared_or_skip(FIXTURES)
    fixture = srs_eval.load(fixtures / "collection.anki2")
    oracle = json.loads((fixtures / "oracle-workload.json").read_text())["presets"][name]
    trials = oracle_trials(fixture, name)
    fitted = anki_fit(trials, np.arange(len(trials)), Context())
    assert fitted == pytest.approx(oracle["compute"]["params"], abs=1e-4)


def test_batches_by_card_keep_cards_whole(learner: Learner) -> None:
    trials = learner.trials
    rows = np.arange(0, len(trials) * 2 // 3)
    batches = _batch_by_card(trials, rows, 100)
    assert np.array_equal(np.sort(np.concatenate(batches)), rows)
    cards = [set(trials.card_id[batch].tolist()) for batch in batches]
    assert sum(map(len, cards)) == len(set().union(*cards))  # no card in two
    for batch, batch_cards in zip(batches, cards, strict=True):
        assert len(batch) <= 100 or len(batch_cards) == 1
    longest = [int(trials.sequence_length[batch].max()) for batch in batches]
    assert longest == sorted(longest)


def test_anki_fit_of_few_reviews_keeps_defaults(learner: Learner) -> None:
    """Check that fewer than 8 reviews give the defaults, fewer than 64 only initial stabilities."""
    trials = learner.trials
    common = np.flatnonzero(trials.first_rating == 3)[:400]
    train = common[np.isin(trials.card_id[common], trials.card_id[common[:60]])]
    assert anki_fit(trials, train[:3], Context()) == list(fsrs6.DEFAULT)
    fitted = anki_fit(trials, np.flatnonzero(trials.i == 2), Context())
    assert fitted[4:] == list(fsrs6.DEFAULT[4:])
    assert fitted[:4] != list(fsrs6.DEFAULT[:4])


def test_health_check_of_a_misleading_past_fails(
    learner: Learner,
) -> None:
    """Check a memory where every sixth of the reviews is the opposite of the one before."""
    trials = learner.trials
    random = np.random.default_rng(5)
    sixth = np.arange(len(trials)) * 6 // len(trials)
    y = (random.random(len(trials)) < np.where(sixth % 2, 0.1, 0.9)).astype(np.float64)
    confused = replace(learner, trials=replace(trials, y=y, _derived={}))
    check = fsrs.check_health(confused, np.arange(len(trials)))
    assert check is not None
    assert not check.passed


# Noise


def test_noise_counts_parameters_that_spread_over_days(log: ReviewLog, learner: Learner) -> None:
    index = np.flatnonzero(learner.trials.partition == 100)
    _, fits = parameters._fit_fsrs6_draws(learner, index)
    assert fits.shape == (parameters._BOOTSTRAP_DRAWS, 21)
    assert np.array_equal(fits, parameters._fit_fsrs6_draws(learner, index)[1])
    lower = np.array(fsrs6.lower_bounds(0.001))
    upper = np.array(fsrs6.UPPER)
    assert ((fits >= lower) & (fits <= upper)).all()
    assert (fits.std(axis=0) > 0).sum() >= 15
    (first, *_) = compare(log, questions=["noise"])
    assert isinstance(first.evidence, ParameterNoise)
    moved = [spread.day_sd > 0.5 * spread.learner_sd for spread in first.evidence.parameters]
    assert moved == [spread.is_noise for spread in first.evidence.parameters]
    assert first.conclusion == f"{sum(moved)} of 21"


def test_noise_of_one_parameter_names_it(log: ReviewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = list(fsrs6.DEFAULT)
    draws = np.tile(np.array(fit), (parameters._BOOTSTRAP_DRAWS, 1))
    draws[::2, 3] += 100
    monkeypatch.setattr(parameters, "_fit_fsrs6_draws", lambda learner, index: (fit, draws))
    answer = compare(log, questions=["noise"])[0]
    assert answer.conclusion == "1 of 21"
    assert shown.line([answer]).startswith("1 of 21 parameters is noise (w3): ")
    monkeypatch.setattr(parameters, "_fit_fsrs6_draws", lambda *_: (fit, 0 * draws + fit))
    answer = compare(log, questions=["noise"])[0]
    assert shown.line([answer]).startswith("None of the 21 parameters is noise: ")


# Retention


def test_retention_groups_equal_the_reviews(log: ReviewLog, learner: Learner) -> None:
    answers = compare(log, questions=["retention"])
    for group, answer in zip(learner.groups, answers, strict=True):
        in_group = learner.trials.partition == group
        all_reviews, young, mature, *periods = shown.tables(answer)[0].records()
        months = [period for period in periods if period["reviews of"] != LAST_90_DAYS]
        assert len(periods) - len(months) == 1
        assert all_reviews["recalled"] == pytest.approx(learner.trials.y[in_group].mean())
        assert all_reviews["reviews"] == in_group.sum() == young["reviews"] + mature["reviews"]
        assert mature["reviews of"] == "mature cards"  # as the first screen calls them
        assert log.entries is not None
        assert log.entries.interval is not None
        # Old is what Anki calls mature: scheduled for 21 days or more, however late it came.
        assert (
            mature["reviews"] == (log.entries.interval[learner.entry_index] >= 21)[in_group].sum()
        )
        assert isinstance(answer.evidence, Retention)
        assert answer.evidence.desired == 0.9
        assert sum(month["reviews"] for month in months) <= in_group.sum()
        assert [month["reviews of"] for month in months] == sorted(
            month["reviews of"] for month in months
        )
        if all_reviews["recalled high"] < 0.9:
            expected = "below"
        elif all_reviews["recalled low"] > 0.9:
            expected = "above"
        else:
            expected = "no matter"
        assert answer.conclusion in (expected, "can't tell")
