"""Whether models could schedule: made-up cards, faults of curves, and what is known of models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srs_eval
from srs_eval.data.errors import InputError
from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.engine import made_up_cards
from srs_eval.engine.schedulability import (
    DESIRED_RETENTIONS,
    MINUTE,
    Obstacle,
    compute_curves,
    compute_intervals,
    find_faults,
    find_obstacle,
    is_quick,
    list_times,
    measure_configurations,
    measure_schedulability,
)
from srs_eval.engine.session import LearnerSession
from srs_eval.models import TrainedModel, fsrs6
from srs_eval.models.configurations import Configuration, resolve_configurations
from srs_eval.models.kinds import OnlineModel
from srs_eval.training.hyperparameters import Context
from tests.helpers import fsrs7_draft
from tests.helpers.marks import slow_except

DAYS = 2.0 ** np.arange(21)


@pytest.fixture(scope="module")
def session(simulated_collection: Path) -> LearnerSession:
    return LearnerSession(srs_eval.load(simulated_collection))


def resolve(name: str) -> Configuration:
    (configuration,) = resolve_configurations(name)
    return configuration


def exponential(*days_to_90_percent: float) -> FloatArray:
    """Return the recall (4, t) of four exponential curves at DAYS."""
    return 0.9 ** (DAYS / np.array(days_to_90_percent)[:, None])


def faults_at(recall: FloatArray, retention: float, last_interval: float = 10.0) -> Any:
    result = find_faults(
        recall[None], DAYS, np.array([last_interval]), desired_retentions=[retention]
    )
    return result.retentions[0], result


# Intervals


def test_intervals_of_exponential_curves_are_exact() -> None:
    curves = exponential(1.5, 3.0, 70.0, 5_000.0)
    for retention in DESIRED_RETENTIONS:
        expected = np.array([1.5, 3.0, 70.0, 5_000.0]) * np.log(retention) / np.log(0.9)
        intervals = compute_intervals(curves, DAYS, retention)
        np.testing.assert_allclose(intervals, np.maximum(expected, 1.0), rtol=1e-9)


def test_intervals_of_power_curves_are_within_two_percent() -> None:
    stability = np.array([3.0, 40.0, 900.0])
    decay = fsrs6.DEFAULT[20]
    factor = 0.9 ** (-1 / decay) - 1
    curves = (1 + factor * DAYS / stability[:, None]) ** -decay
    for retention in DESIRED_RETENTIONS:
        expected = stability / factor * (retention ** (-1 / decay) - 1)
        found = compute_intervals(curves, DAYS, retention)
        np.testing.assert_allclose(found, np.maximum(expected, 1.0), rtol=0.02)


def test_interval_is_infinite_where_recall_stays_above() -> None:
    flat = np.full((1, len(DAYS)), 0.85)
    assert compute_intervals(flat, DAYS, 0.7).tolist() == [np.inf]
    assert compute_intervals(flat, DAYS, 0.9).tolist() == [1.0]


def test_a_higher_curve_never_has_the_shorter_interval() -> None:
    random = np.random.default_rng(1)
    lower = np.sort(random.random((200, len(DAYS))), axis=1)[:, ::-1]
    higher = lower + (1 - lower) * random.random((200, 1)) * 0.2
    for retention in DESIRED_RETENTIONS:
        short = compute_intervals(lower, DAYS, retention)
        assert (compute_intervals(higher, DAYS, retention) >= short * (1 - 1e-12)).all()


# Faults


def test_curves_in_order_have_no_fault() -> None:
    faults, result = faults_at(exponential(5, 12, 20, 30), 0.9)
    assert faults.unschedulable == faults.inverted == faults.never_reached == 0
    assert result.rising == result.flat == 0
    assert faults.under_a_minute is None
    assert result.in_whole_days


@pytest.mark.parametrize(
    ("days", "pair"),
    [
        ((13, 12, 20, 30), "again_above_hard"),
        ((5, 22, 20, 30), "hard_above_good"),
        ((5, 12, 20, 19), "good_above_easy"),
    ],
)
def test_longer_intervals_after_worse_answers_are_inverted(
    days: tuple[float, ...], pair: str
) -> None:
    faults, _ = faults_at(exponential(*days), 0.9)
    pairs = ("again_above_hard", "hard_above_good", "good_above_easy")
    assert {name: getattr(faults, name) for name in pairs} == {
        name: float(name == pair) for name in pairs
    }
    assert faults.inverted == faults.unschedulable == 1


def test_equal_intervals_are_not_inverted() -> None:
    faults, _ = faults_at(exponential(0.2, 0.1, 20, 19.9), 0.9)
    assert faults.inverted == 0  # two of less than a day, and two that hardly differ


def test_curve_that_rises_again_reaches_the_retention_twice() -> None:
    curves = exponential(5, 12, 20, 30)
    curves[2, 9] = 0.95  # after 512 days
    faults, result = faults_at(curves, 0.9)
    assert result.rising == 1
    assert faults.reached_twice == faults.unschedulable == 1
    curves[2, 9] = curves[2, 8] + 0.0005  # too little to matter
    faults, result = faults_at(curves, 0.9)
    assert result.rising == faults.reached_twice == 0


def test_rise_beside_the_retention_does_not_keep_from_scheduling() -> None:
    curves = exponential(5, 12, 20, 400)
    curves[3, 0] = curves[3, 1] - 0.01  # a dip while recall is still above 90 %
    faults, result = faults_at(curves, 0.9)
    assert result.rising == 1
    assert faults.unschedulable == 0


def test_flat_curve_never_falls_to_any_retention() -> None:
    faults, result = faults_at(np.full((4, len(DAYS)), 0.85), 0.9)
    assert result.flat == faults.never_reached == faults.unschedulable == 1


def test_growth_counts_where_the_last_interval_was_a_day() -> None:
    curves = exponential(5, 12, 60, 90)
    assert faults_at(curves, 0.9, last_interval=10.0)[0].above_five_times == 1
    assert faults_at(curves, 0.9, last_interval=13.0)[0].above_five_times == 0
    assert faults_at(curves, 0.9, last_interval=0.01)[0].above_five_times is None


def test_interval_under_a_minute_is_told_after_again_and_after_passes() -> None:
    days = list_times(replace(resolve("FSRS-6").protocol, secs=True))
    assert days[0] == MINUTE
    curves = 0.9 ** (days / np.array([0.0001, 12, 20, 30])[:, None])
    result = find_faults(curves[None], days, np.array([1.0]))
    faults = result.retentions[1]
    assert faults.under_a_minute == 1
    assert faults.under_a_minute_after_pass == 0
    assert not result.in_whole_days


# Made-up cards

COMPILED = ("FSRS-6", "FSRS-7", "LogisticRegression", "DASH", "GRU-P", "ACT-R")
OTHERS = ("SM2", "Anki", "Ebisu-v2", "HLR", "SBD", "GRU", "NN-17", "FSRS-5-recency", "FSRSv3")


@pytest.mark.parametrize("name", slow_except({"FSRS-6", "DASH"}, [*COMPILED, *OTHERS]))
def test_made_up_card_with_the_real_answer_is_predicted_as_the_real_one(
    name: str, session: LearnerSession
) -> None:
    """Check that a model cannot tell the coming review from a real one, in either way of asking."""
    configuration = resolve(name)
    result = session.run(configuration)
    trials = session.trials(configuration.protocol)
    expected = result.p[result.fold == result.fold.max()]
    tests = trials.folds[-1].test
    checked = 0
    for position in range(0, len(tests), max(len(tests) // 12, 1)):
        trial = tests[position]
        answered = trials.history_end[trial] - 1
        day = trials.delta_t[trial]
        if day <= 0:
            continue
        recall = compute_curves(
            session,
            configuration,
            Context(),
            trials.history_review_th[[answered]],
            np.array([day]),
            {configuration.name: result},
        )
        found = recall[0, trials.history_rating[answered] - 1, 0]
        assert found == pytest.approx(expected[position], abs=1e-5)
        checked += 1
    assert checked > 5


def test_model_that_reads_its_own_row_is_asked_each_time(session: LearnerSession) -> None:
    """Check that sharing a history between times is noticed where it would be wrong."""

    def predict(trials: Trials, fit: Any, index: IntArray, context: Context) -> FloatArray:
        own = trials.history_end[index]
        return 0.9 ** (trials.history_delta_t[own] / trials.history_rating[own - 1])

    configuration = replace(
        resolve("FSRS-6-dry-run"), model=TrainedModel(name="OWN-ROW", predict=predict)
    )
    review_th = session.trials(configuration.protocol).history_review_th[:40]
    recall = compute_curves(session, configuration, Context(), np.sort(review_th), DAYS)
    np.testing.assert_allclose(recall[0], 0.9 ** (DAYS / np.arange(1, 5)[:, None]))


@pytest.mark.parametrize(
    "name",
    [
        "ACT-R",
        "ACT-R-short",
        "ACT-R-short-secs",
        "DASH[ACT-R]",
        "DASH[ACT-R]-short-secs",
        "LogisticRegression-short-secs",
    ],
)
def test_model_that_knows_of_other_times_answers_as_if_asked_each_time(
    name: str, session: LearnerSession
) -> None:
    configuration = resolve(name)
    assert isinstance(configuration.model, TrainedModel)
    without = replace(configuration, model=replace(configuration.model, predict_at=None))
    review_th = np.sort(session.trials(configuration.protocol).history_review_th)[::40]
    days = np.concatenate((DAYS, [0.001, 0.4, 1.7])) if configuration.protocol.secs else DAYS
    days = np.sort(days)
    found, expected = (
        compute_curves(session, asked, Context(), review_th, days)
        for asked in (configuration, without)
    )
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > len(days)


def test_columns_of_made_up_cards_are_those_of_their_real_cards(session: LearnerSession) -> None:
    seen: list[tuple[Any, ...]] = []

    def predict(trials: Trials, fit: Any, index: IntArray, context: Context) -> FloatArray:
        log, rows = trials.source
        notes, decks, kinds = trials.columns("note_id", "deck_id", "kind")
        assert len(notes) == len(rows) == len(trials.history_rating)
        assert (rows.elapsed_days[trials.history_end[index]] >= 0).all()
        seen.append((notes, decks, kinds, log.cards.card_id))
        return np.full(len(index), 0.9)

    configuration = replace(
        resolve("FSRS-6-dry-run"), model=TrainedModel(name="COLUMNS", predict=predict)
    )
    trials = session.trials(configuration.protocol)
    review_th = np.sort(trials.history_review_th)[-3:]
    compute_curves(session, configuration, Context(), review_th, DAYS[:2])
    rows = np.argsort(trials.history_review_th)[-3:]
    real_notes = trials.source[0].note_of(trials.history_card_id[rows])
    for notes, *_ in seen:
        assert set(notes.tolist()) == set(real_notes.tolist())


def test_histories_are_split_where_there_are_many(
    session: LearnerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = resolve("FSRS-6-dry-run")
    whole = measure_schedulability(session, configuration, max_histories=200)
    monkeypatch.setattr(made_up_cards, "_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(made_up_cards, "_TRIALS_AT_ONCE", 100)
    assert measure_schedulability(session, configuration, max_histories=200) == whole
    assert whole.histories == 200


# What is known of models


def with_parameters(configuration: Configuration, parameters: list[float]) -> Configuration:
    """Return a configuration of the model's defaults with other parameters."""
    model = replace(configuration.model, default=lambda context: parameters, default_secs=None)
    return replace(configuration, model=model)


def test_fsrs6_has_buttons_in_order_by_construction(session: LearnerSession) -> None:
    """Check the defaults, and random parameters within Anki's bounds with S0 in order."""
    configuration = resolve("FSRS-6-dry-run")
    random = np.random.default_rng(3)
    low = np.array(fsrs6.lower_bounds(0.001))
    high = np.array(fsrs6.UPPER)
    lists = [list(fsrs6.DEFAULT)]
    for _ in range(3):
        w = np.clip(np.array(fsrs6.DEFAULT) * np.exp(random.normal(0, 0.5, 21)), low, high)
        w[:4].sort()
        lists.append(w.tolist())
    for parameters in lists:
        result = measure_schedulability(
            session, with_parameters(configuration, parameters), max_histories=500
        )
        assert result.rising == result.flat == 0
        for faults in result.retentions:
            assert faults.inverted == faults.never_reached == faults.unschedulable == 0


def test_fsrs6_with_first_intervals_out_of_order_inverts_first_answers(
    session: LearnerSession,
) -> None:
    """Check what training may do: it does not keep the first four parameters in order."""
    parameters = list(fsrs6.DEFAULT)
    parameters[1], parameters[2] = 4.0, 3.0  # Hard above Good
    configuration = with_parameters(resolve("FSRS-6-dry-run"), parameters)
    result = measure_schedulability(session, configuration, max_histories=500)
    trials = session.trials(configuration.protocol)
    faults = result.retentions[1]
    assert faults.hard_above_good == faults.inverted > 0
    is_first = trials.history_delta_t == 0
    review_th = np.sort(trials.history_review_th[~is_first])[:300]
    recall = compute_curves(session, configuration, Context(), review_th, DAYS)
    later = find_faults(recall, DAYS, np.ones(len(recall)))
    assert later.retentions[1].hard_above_good == 0


def test_draft_of_fsrs7_schedules_seconds_after_a_first_again() -> None:
    """Reproduce srs-benchmark#313: 2 s at 90 % after a first Again, 28 s after Again and Good."""
    first = fsrs7_draft.stability_after(np.zeros(1), np.array([1]))
    seconds = np.arange(1, 100) / 86_400
    after_again = compute_intervals(fsrs7_draft.recall(seconds, first), seconds, 0.9)
    assert after_again * 86_400 == pytest.approx(2, abs=0.5)
    intervals = np.array([0.0, float(after_again)])
    then_good = fsrs7_draft.stability_after(intervals, np.array([1, 3]))
    after_good = compute_intervals(fsrs7_draft.recall(seconds, then_good), seconds, 0.9)
    assert after_good * 86_400 == pytest.approx(28, abs=1)


def test_draft_of_fsrs7_as_a_model_of_ones_own_is_found_under_a_minute(
    session: LearnerSession,
) -> None:
    protocol = resolve("FSRS-7-dry-run-short-secs").protocol
    configuration = Configuration("FSRS-7-DRAFT", fsrs7_draft.FSRS_7_DRAFT, protocol, "default")
    trials = session.trials(protocol)
    is_first = np.flatnonzero(trials.history_elapsed_days + trials.history_elapsed_s == 0)
    review_th = np.sort(trials.history_review_th[is_first])[:20]
    days = list_times(protocol)
    recall = compute_curves(session, configuration, Context(), review_th, days)
    faults = find_faults(recall, days, np.zeros(len(recall)))
    by_retention = {each.desired_retention: each for each in faults.retentions}
    assert by_retention[0.9].under_a_minute == 1  # after Again
    assert by_retention[0.9].under_a_minute_after_pass == 0
    finished = compute_curves(
        session, resolve("FSRS-7-dry-run-short-secs"), Context(), review_th, days
    )
    assert find_faults(finished, days, np.zeros(len(recall))).retentions[0].under_a_minute == 0


@pytest.mark.parametrize("name", ["AVG", "90%"])
def test_model_without_time_never_reaches_a_retention(name: str, session: LearnerSession) -> None:
    result = measure_schedulability(session, resolve(name), max_histories=50)
    assert result.flat == 1
    assert [faults.never_reached for faults in result.retentions] == [1, 1, 1]


def test_online_models_cannot_be_asked(session: LearnerSession) -> None:
    configuration = resolve("STATE-FSRS-6")
    assert isinstance(configuration.model, OnlineModel)
    assert find_obstacle(configuration) is Obstacle.ONLINE
    with pytest.raises(ValueError, match="cannot be asked"):
        measure_schedulability(session, configuration)
    (measurement,) = measure_configurations(session, [configuration])
    assert measurement.obstacle is Obstacle.ONLINE
    assert measurement.schedulability is None


def test_a_model_that_fails_does_not_keep_others_from_being_measured(
    session: LearnerSession,
) -> None:
    def fail(*_: object) -> FloatArray:
        raise ZeroDivisionError("by nothing")

    broken = replace(resolve("FSRS-6-dry-run"), model=TrainedModel(name="BROKEN", predict=fail))
    first, second = measure_configurations(session, [broken, resolve("SM2")], max_histories=20)
    assert "by nothing" in first.failure
    assert second.schedulability is not None


def test_prediction_that_is_no_probability_is_refused(session: LearnerSession) -> None:
    def predict(trials: Trials, fit: Any, index: IntArray, context: Context) -> FloatArray:
        return np.where(trials.delta_t[index] > 100, np.nan, 0.9)

    broken = replace(resolve("FSRS-6-dry-run"), model=TrainedModel(name="NAN", predict=predict))
    with pytest.raises(ArithmeticError, match="not a probability"):
        measure_schedulability(session, broken, max_histories=20)


def test_results_save_the_fit(session: LearnerSession) -> None:
    configuration = resolve("FSRS-6")
    result = session.run(configuration)
    anew = measure_schedulability(session, configuration, max_histories=300)

    def fit(*_: object) -> list[float]:
        raise AssertionError("fitted again")

    kept = replace(configuration, model=replace(configuration.model, fit=fit))
    results = {configuration.name: result}
    assert measure_schedulability(session, kept, max_histories=300, results=results) == anew
    assert is_quick(configuration, result)
    assert not is_quick(resolve("LSTM"), result)


@pytest.mark.slow
def test_every_fast_model_can_be_measured(session: LearnerSession) -> None:
    configurations = resolve_configurations("fast")
    for measurement in measure_configurations(session, configurations, max_histories=30):
        if measurement.obstacle is None and "decks" not in measurement.failure:
            assert measurement.schedulability is not None, measurement.failure


@pytest.mark.slow
def test_blend_is_the_mean_of_its_members(session: LearnerSession) -> None:
    configuration = resolve("BLEND")
    review_th = np.sort(session.trials(configuration.protocol).history_review_th)
    member_reviews = [
        session.trials(member.protocol).history_review_th
        for member in configuration.member_configurations
    ]
    for known in member_reviews:
        review_th = np.intersect1d(review_th, known)
    review_th = review_th[:25]
    recall = compute_curves(session, configuration, Context(), review_th, DAYS)
    members = [
        compute_curves(session, member, Context(), review_th, DAYS)
        for member in configuration.member_configurations
    ]
    assert (recall >= np.min(members, axis=0) - 1e-9).all()
    assert (recall <= np.max(members, axis=0) + 1e-9).all()


# The public function


def test_public_function_returns_shares_by_configuration(simulated_collection: Path) -> None:
    log = srs_eval.load(simulated_collection)
    measured = srs_eval.schedulability(
        log, "FSRS-6-dry-run,STATE-FSRS-6", desired_retentions=[0.8, 0.9], histories=40
    )
    assert list(measured) == ["FSRS-6-dry-run"]
    result = measured["FSRS-6-dry-run"]
    assert result.histories == 40
    assert [faults.desired_retention for faults in result.retentions] == [0.8, 0.9]


def test_public_function_refuses_what_it_cannot_do(simulated_collection: Path) -> None:
    log = srs_eval.load(simulated_collection)
    with pytest.raises(InputError, match="shares between 0 and 1"):
        srs_eval.schedulability(log, "FSRS-6", desired_retentions=[90])
    with pytest.raises(InputError, match="at least 1"):
        srs_eval.schedulability(log, "FSRS-6", histories=0)
    with pytest.raises(InputError, match="No model can be asked"):
        srs_eval.schedulability(log, "STATE-FSRS-6")
