"""The rows, histories and folds equal the reference's, before any mathematics."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog, find_arrays
from srs_eval.data.rows import select_rows
from srs_eval.data.splits import choose_tests, select_training
from srs_eval.data.trials import (
    Fold,
    Trials,
    compute_recency_weights,
    prepare_trials,
)
from tests.helpers.golden import golden_dataset, golden_file, golden_lines, golden_log
from tests.helpers.row_logs import make_log
from tools.simulated import simulate_learner

FEATURES = {
    "script": Protocol(short=True),
    "other": Protocol(),
    "other-short": Protocol(short=True),
    "script-secs": Protocol(short=True, secs=True, later_days_only=True),
    "other-secs": Protocol(secs=True),
}


def trials_of(log: ReviewLog, protocol: Protocol) -> Trials:
    assert log.rows is not None
    return prepare_trials(log, log.rows, protocol)


@pytest.mark.parametrize("name", FEATURES)
def test_rows_and_histories_equal_the_reference(name: str) -> None:
    import pyarrow.parquet as parquet

    features = parquet.read_table(golden_file("features", f"{name}.parquet"))
    golden = {column: features[column].to_numpy() for column in features.column_names}
    dataset = golden_dataset()
    for user in dataset.users:
        log = dataset.load(user)
        of_user = golden["user_id"] == user
        if not of_user.sum():
            with pytest.raises(NotEnoughData):
                trials_of(log, FEATURES[name])
            continue
        trials = trials_of(log, FEATURES[name])
        for column in ("review_th", "card_id", "rating", "i", "delta_t", "elapsed_days", "y"):
            np.testing.assert_array_equal(
                getattr(trials, column), golden[column][of_user], err_msg=f"{user} {column}"
            )
        fold = np.zeros(len(trials), np.int64)
        for number, split in enumerate(trials.folds, start=1):
            fold[split.test] = number
        np.testing.assert_array_equal(fold, golden["fold"][of_user])
        for k, (ratings, intervals) in enumerate(
            zip(golden["r_history"][of_user], golden["t_history"][of_user], strict=True)
        ):
            history = slice(trials.history_start[k], trials.history_end[k])
            assert ",".join(map(str, trials.history_rating[history].tolist())) == ratings
            assert trials.history_delta_t[history].tolist() == [
                float(days) for days in intervals.split(",")
            ]


@pytest.mark.parametrize("name", ["SM2", "SM2-short", "Ebisu-v2"])
def test_reviews_of_missing_cards_are_dropped_as_upstream_does(name: str) -> None:
    size = golden_lines(name)[111]["size"]
    log = golden_log(111)
    protocol = Protocol(known_decks_only=True, short=name.endswith("short"))
    assert len(trials_of(log, protocol).test_index) == size == 445


@given(n=st.integers(0, 400), n_splits=st.integers(2, 9))
def test_folds_are_those_of_scikit_learn(n: int, n_splits: int) -> None:
    from sklearn.model_selection import TimeSeriesSplit

    protocol = Protocol(n_splits=n_splits)
    day = np.zeros(n, np.int64)
    card_id = np.arange(n)
    if n <= n_splits:
        with pytest.raises(NotEnoughData):
            choose_tests(protocol, day, card_id, None)
        return
    tests = choose_tests(protocol, day, card_id, None)
    expected = list(TimeSeriesSplit(n_splits).split(np.empty(n)))
    for test, (train_index, test_index) in zip(tests, expected, strict=True):
        train = select_training(protocol, day, card_id, test, None)
        assert train.tolist() == train_index.tolist()
        assert test.tolist() == test_index.tolist()


def test_recency_weights_rise_from_a_quarter_to_one() -> None:
    weights = compute_recency_weights(5)
    np.testing.assert_allclose(weights, [0.25, 0.26171875, 0.34375, 0.56640625, 1.0])


def ten_cards(**changed: list[int]) -> ReviewLog:
    """Return 40 cards with three reviews each, 3 and 7 days apart, in review order."""
    cards = list(range(40)) * 3
    log = {
        "card_id": cards,
        "rating": [3] * 120,
        "elapsed_days": [-1] * 40 + [3] * 40 + [7] * 40,
        **changed,
    }
    return make_log(**log)


def test_first_rating_with_few_rows_is_dropped() -> None:
    assert len(trials_of(ten_cards(), Protocol())) == 80
    few = make_log(list(range(19)) * 2, [3] * 38, [-1] * 19 + [3] * 19)
    with pytest.raises(NotEnoughData):
        trials_of(few, Protocol())


def test_a_removed_second_review_takes_the_rest_of_its_card() -> None:
    days = [-1] * 40 + [3] * 39 + [90] + [7] * 40
    trials = trials_of(ten_cards(elapsed_days=days), Protocol())
    assert len(trials) == 78
    assert 39 not in trials.card_id


def test_invalid_ratings_and_reviews_after_the_128th_are_dropped() -> None:
    rating = [3] * 120
    rating[-1] = 0
    assert len(trials_of(ten_cards(rating=rating), Protocol())) == 79
    long_card = [0] * 200
    log = make_log(
        list(range(40)) + [0] * 200 + list(range(1, 40)),
        [3] * 279,
        [-1] * 40 + [3] * 239,
    )
    trials = trials_of(log, Protocol())
    assert (trials.card_id == 0).sum() == 127
    assert len(long_card) == 200


def test_two_buttons_map_ratings_but_filter_by_those_pressed() -> None:
    rating = [2] * 20 + [3] * 20 + [4] * 40 + [1] * 40
    trials = trials_of(ten_cards(rating=rating), Protocol(two_buttons=True))
    assert set(trials.rating.tolist()) == {1, 3}
    assert set(trials.first_rating.tolist()) == {3}


def test_missing_cards_and_decks_have_partition_minus_1() -> None:
    decks = {card: 1 if card < 20 else 2 for card in range(38)} | {38: 77}
    log = ten_cards(decks=decks)
    by_deck = trials_of(log, Protocol(partitions="deck"))
    by_preset = trials_of(log, Protocol(partitions="preset"))
    for trials, expected in ((by_deck, {1, 2, 77, -1}), (by_preset, {11, 12, -1})):
        assert set(trials.partition.tolist()) == expected
    assert set(by_deck.partition[by_deck.card_id == 39].tolist()) == {-1}
    assert set(by_preset.partition[by_preset.card_id == 38].tolist()) == {-1}


def test_equalized_trials_evaluate_the_rows_without_seconds() -> None:
    log = golden_log(106)
    plain = trials_of(log, Protocol(short=True))
    equal = trials_of(log, Protocol(short=True, secs=True, equalize_test_with_non_secs=True))
    assert equal.review_th[equal.test_index].tolist() == plain.review_th[plain.test_index].tolist()
    for name in ("bin_delta_t", "bin_i", "bin_lapses"):
        np.testing.assert_array_equal(
            getattr(equal, name)[equal.test_index], getattr(plain, name)[plain.test_index]
        )
    for fold in equal.folds:
        assert equal.review_th[fold.train].max() < equal.review_th[fold.test].min()
    assert (equal.elapsed_days[equal.folds[-1].train] == 0).any()


def test_no_test_same_day_evaluates_later_days_only() -> None:
    log = golden_log(106)
    every = trials_of(log, Protocol(short=True, secs=True))
    later = trials_of(log, Protocol(short=True, secs=True, no_test_same_day=True))
    assert (every.elapsed_days[every.test_index] == 0).any()
    assert (later.elapsed_days[later.test_index] > 0).all()
    assert (later.elapsed_days[later.folds[0].train] == 0).any()


def test_train_equals_test_trains_on_everything_as_upstream() -> None:
    trials = trials_of(ten_cards(), Protocol(train_equals_test=True))
    starts = [fold.test[0] for fold in trials_of(ten_cards(), Protocol()).folds]
    for fold, start in zip(trials.folds, starts, strict=True):
        assert fold.train.tolist() == list(range(80))
        assert fold.test.tolist() == list(range(start, 80))


@given(st.data())
def test_histories_never_hold_the_future(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 150))
    cards = data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    rating = data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    days = data.draw(st.lists(st.integers(0, 40), min_size=n, max_size=n))
    seen: set[int] = set()
    elapsed = []
    for card, day in zip(cards, days, strict=True):
        elapsed.append(day if card in seen else -1)
        seen.add(card)
    log = make_log(cards, rating, elapsed)
    for protocol in (Protocol(), Protocol(short=True), Protocol(secs=True, short=True)):
        try:
            trials = trials_of(log, protocol)
        except NotEnoughData:
            continue
        assert (np.diff(trials.review_th) > 0).all()
        for k in range(len(trials)):
            start = trials.history_start[k]
            end = trials.history_end[k]
            assert end > start
            assert trials.history_review_th[end] == trials.review_th[k]
            assert (np.diff(trials.history_review_th[start : end + 1]) > 0).all()
        for fold in trials.folds:
            assert fold.train.max() < fold.test.min()


def test_derived_is_computed_once_for_each_function() -> None:
    trials = trials_of(ten_cards(), Protocol())
    calls = []

    def passes(trials: Trials) -> float:
        calls.append("passes")
        return float(trials.y.sum())

    def failures(trials: Trials) -> float:
        calls.append("failures")
        return float(len(trials) - trials.y.sum())

    values = [trials.derived(make) for make in (passes, failures, passes, failures)]
    assert values == 2 * [trials.y.sum(), len(trials) - trials.y.sum()]
    assert calls == ["passes", "failures"]


def test_shared_arrays_are_read_only_also_after_pickling() -> None:
    log = simulate_learner(4, 300).log()
    assert log.entries is not None
    log = replace(log, source_predictions={"FSRS": np.full(len(log.entries), 0.9)})
    selection = select_rows(log)
    trials = trials_of(replace(ten_cards(), rows=selection.rows), Protocol())
    changed = replace(trials, y=1 - trials.y, folds=(Fold(np.arange(3), np.arange(3, 5)),))
    for value in (log, selection, trials, changed):
        count = len(list(find_arrays(value)))
        for version in (value, pickle.loads(pickle.dumps(value))):
            arrays = list(find_arrays(version))
            assert len(arrays) == count > 6
            assert not any(array.flags.writeable for array in arrays)
    derived = trials.derived(lambda trials: {"nested": [({"x": np.zeros(3)}, [np.ones(2)])]})
    assert [array.flags.writeable for array in find_arrays(derived)] == [False, False]
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(trials, protocol=5, buffer_callback=buffers.append)
    sent = pickle.loads(head, buffers=[bytearray(buffer.raw()) for buffer in buffers])
    assert not any(array.flags.writeable for array in find_arrays(sent))


def test_derived_is_shared_only_between_equal_columns() -> None:
    """Check that other columns share nothing, and other folds or settings everything."""
    trials = trials_of(ten_cards(), Protocol())

    def passes(trials: Trials) -> float:
        return float(trials.y.sum())

    all_failed = replace(trials, y=np.zeros(len(trials)))
    assert all_failed.derived(passes) == 0
    assert trials.derived(passes) == trials.y.sum() > 0
    assert replace(trials, y=np.zeros(len(trials))).derived(passes) == 0
    again = pickle.loads(pickle.dumps(trials))
    assert replace(again, y=np.zeros(len(trials))).derived(passes) == 0
    assert again.derived(passes) == trials.y.sum()

    without_folds = replace(trials, folds=(), protocol=replace(trials.protocol, batch_size=3))
    assert without_folds._derived is trials._derived


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rows", "foo", "rows must be one of benchmark, anki, not 'foo'."),
        ("clock", "nix", "clock must be one of seconds, study-days, days, not 'nix'."),
        ("partitions", ["deck"], "partitions must be one of none, deck, preset, not ['deck']."),
        ("short", "yes", "short must be True or False, not 'yes'."),
        ("secs", 1, "secs must be True or False, not 1."),
        ("later_days_only", None, "later_days_only must be True or False, not None."),
        ("n_splits", "a", "n_splits must be a whole number, not 'a'."),
        ("n_splits", 5.5, "n_splits must be a whole number, not 5.5."),
        ("batch_size", True, "batch_size must be a whole number, not True."),
        ("max_seq_len", None, "max_seq_len must be a whole number, not None."),
        ("gamma", "1", "gamma must be a number, not '1'."),
    ],
)
def test_a_flag_of_another_type_is_an_input_error(name: str, value: object, message: str) -> None:
    flags: dict[str, Any] = {name: value}
    with pytest.raises(InputError) as refused:
        Protocol(**flags)
    assert str(refused.value) == message


def test_numbers_of_numpy_are_numbers() -> None:
    numbers: dict[str, Any] = {"n_splits": np.int64(4), "gamma": np.float64(0.5)}
    protocol = Protocol(**numbers)
    assert protocol == Protocol(n_splits=4, gamma=0.5)
    assert [type(protocol.n_splits), type(protocol.gamma)] == [int, float]
    assert Protocol(gamma=2).gamma == 2.0
