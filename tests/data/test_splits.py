"""Splits by date and by card keep what is predicted out of what is trained on."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from srs_eval.data.errors import InputError, NotEnoughData
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import ReviewLog
from srs_eval.data.rows import RowKind, find_first_date, select_rows
from srs_eval.data.splits import count_days, deal_cards, deal_users
from srs_eval.data.trials import Trials, prepare_trials
from tests.conftest import REPOSITORY
from tests.helpers.golden import golden_log
from tests.helpers.row_logs import make_log
from tools.simulated import simulate_learner

LEARNER = simulate_learner(3, 900).log()
FLAGS: tuple[dict[str, Any], ...] = (
    {},
    {"short": True},
    {"secs": True, "short": True},
    {"secs": True, "short": True, "no_train_same_day": True},
    {"secs": True, "short": True, "equalize_test_with_non_secs": True},
    {"rows": "anki"},
)


def trials_of(log: ReviewLog, **flags: Any) -> Trials:
    protocol = Protocol(**flags)
    return prepare_trials(log, select_rows(log, protocol.rows).rows, protocol)


@pytest.fixture(scope="module")
def two_reviews_a_day() -> ReviewLog:
    """Return forty cards, first seen on day 0; two of them are reviewed on each of days 1 to 40.

    Cards 0 and 1 are reviewed on day 1, cards 2 and 3 on day 2 ... and again twenty days later.
    """
    card_id = list(range(40))
    day = [0] * 40
    elapsed = [-1] * 40
    for number in range(1, 41):
        for card in range(2 * number - 2, 2 * number):
            card_id.append(card % 40)
            day.append(number)
            elapsed.append(number if number <= 20 else 20)
    return make_log(card_id, [3] * 120, elapsed, days=day)


def days_of(trials: Trials, positions: Any) -> list[int]:
    return sorted(set(trials.day[positions].tolist()))


def test_train_until_a_day_trains_before_it_and_tests_from_it_on(
    two_reviews_a_day: ReviewLog,
) -> None:
    trials = trials_of(two_reviews_a_day, rows="anki", train_until="15")
    (fold,) = trials.folds
    assert days_of(trials, fold.train) == list(range(1, 15))
    assert days_of(trials, fold.test) == list(range(15, 41))
    assert len(fold.train) == 2 * 14
    assert len(fold.test) == 2 * 26


def test_train_months_limits_training_to_the_days_before_the_test(
    two_reviews_a_day: ReviewLog,
) -> None:
    assert [count_days(months) for months in (1, 6, 12)] == [30, 183, 365]
    one = trials_of(two_reviews_a_day, rows="anki", train_until="35", train_months=1)
    assert days_of(one, one.folds[0].train) == list(range(5, 35))
    # With folds by time, the window ends at the first evaluated review of each.
    trials = trials_of(two_reviews_a_day, rows="anki", train_months=1)
    everything = trials_of(two_reviews_a_day, rows="anki")
    for fold, whole in zip(trials.folds, everything.folds, strict=True):
        assert fold.test.tolist() == whole.test.tolist()
        first_day = trials.day[fold.test[0]]
        expected = [k for k in whole.train if trials.day[k] >= first_day - 30]
        assert fold.train.tolist() == expected
    assert len(trials.folds[-1].train) < len(everything.folds[-1].train)


def test_cards_of_a_part_are_predicted_after_training_on_all_others() -> None:
    trials = trials_of(golden_log(102), split="cards")
    assert len(trials.folds) == 5
    assert np.sort(trials.test_index).tolist() == list(range(len(trials)))
    for fold in trials.folds:
        assert np.sort(np.r_[fold.train, fold.test]).tolist() == list(range(len(trials)))
        assert not set(trials.card_id[fold.train].tolist()) & set(
            trials.card_id[fold.test].tolist()
        )
    sizes = [len(set(trials.card_id[fold.test].tolist())) for fold in trials.folds]
    assert min(sizes) > sum(sizes) / 10


def test_the_documented_learner_has_as_many_evaluated_reviews_as_the_page_says() -> None:
    """Check the table of docs/protocol.md about user 108."""
    log = golden_log(108)
    page = (REPOSITORY / "docs" / "protocol.md").read_text(encoding="utf-8")
    for options, flags in (
        ("--train-until 200", {"train_until": "200"}),
        ("--train-until 200 --train-months 2", {"train_until": "200", "train_months": 2}),
        ("--train-months 2", {"train_months": 2}),
        ("--split cards", {"split": "cards"}),
    ):
        (row,) = re.findall(rf"^\| `{options}` \|.*", page, re.MULTILINE)
        trials = trials_of(log, short=True, **flags)
        assert f"| {len(trials.test_index):,} |" in row
    window = trials_of(log, short=True, train_until="200", train_months=2)
    days = window.day[window.folds[0].train]
    assert 139 <= days.min() <= days.max() <= 199
    assert window.day[(window.day >= 139) & (window.day <= 199)].tolist() == days.tolist()
    assert "days 139 to 199" in page


def test_a_card_stays_in_its_part() -> None:
    """Check parts that a later version must not change: results would not be comparable."""
    cards = np.array([0, 1, 2, 3, 4, 5, 1_700_000_000_000])
    parts = [0, 0, 0, 3, 3, 3, 0]
    assert deal_cards(cards, 5).tolist() == parts
    assert deal_cards(cards[::-1], 5).tolist() == parts[::-1]
    # The first output of SplitMix64 with the seed 0, as its authors' C code prints it.
    assert deal_cards(np.array([0]), 1_000_003).tolist() == [0xE220A8397B1DCDAF % 1_000_003]


@given(st.integers(2, 12), st.integers(0, 2**40))
def test_cards_are_dealt_evenly(parts: int, first: int) -> None:
    """Check runs of neighbouring ids, as data sets have them: six deviations of a binomial."""
    counts = np.bincount(deal_cards(np.arange(first, first + 12_000), parts), minlength=parts)
    expected = 12_000 / parts
    assert np.abs(counts - expected).max() < 6 * np.sqrt(expected)


@given(
    flags=st.sampled_from(FLAGS),
    split=st.sampled_from(["cards", "until", "months", "until and months"]),
    days=st.integers(5, 60),
    months=st.integers(1, 3),
    n_splits=st.integers(2, 7),
    seed=st.integers(0, 3),
)
def test_no_test_row_has_its_card_or_a_later_day_in_training(
    flags: dict[str, Any], split: str, days: int, months: int, n_splits: int, seed: int
) -> None:
    split_flags: dict[str, Any] = {"n_splits": n_splits}
    if split == "cards":
        split_flags["split"] = "cards"
    if "until" in split:
        split_flags = {"train_until": str(days)}
    if "months" in split:
        split_flags["train_months"] = months
    log = simulate_learner(seed, 600).log()
    try:
        trials = trials_of(log, **flags, **split_flags)
    except NotEnoughData:
        assume(False)
    for fold in trials.folds:
        assert len(fold.train)
        assert len(fold.test)
        assert (np.diff(fold.train) > 0).all()
        if split == "cards":
            assert not np.isin(trials.card_id[fold.test], trials.card_id[fold.train]).any()
            continue
        assert fold.train.max() < fold.test.min()
        first_day = trials.day[fold.test].min()
        if "until" in split:
            assert trials.day[fold.train].max() < days <= first_day
            first_day = days
        if "months" in split:
            assert trials.day[fold.train].min() >= first_day - count_days(months)
        elif not trials.protocol.no_train_same_day:
            # Nothing earlier is left out.
            assert fold.train.tolist() == list(range(len(fold.train)))
    assert len(set(trials.test_index.tolist())) == len(trials.test_index)


def test_a_date_begins_when_its_day_begins_for_the_learner() -> None:
    """Check the date against the clock: days of this learner begin at 4:00, UTC+1, so 3:00 UTC."""
    log = LEARNER
    assert log.entries is not None
    for kind in ("benchmark", "anki"):
        assert_cut_is_at_three_utc(log, kind)


def assert_cut_is_at_three_utc(log: ReviewLog, kind: RowKind) -> None:
    selection = select_rows(log, kind)
    assert log.entries is not None
    time_s = log.entries.time_ms[selection.entry_index] // 1000
    middle = datetime.fromtimestamp(int(np.median(time_s)), UTC).date()
    cut_s = datetime(middle.year, middle.month, middle.day, 3, tzinfo=UTC).timestamp()
    trials = trials_of(log, rows=kind, train_until=middle.isoformat())
    (fold,) = trials.folds
    assert time_s[trials.review_th[fold.train] - 1].max() < cut_s
    assert time_s[trials.review_th[fold.test] - 1].min() >= cut_s
    assert len(fold.train) + len(fold.test) == len(trials)
    # As a number of days, the same day makes the same split.
    first_date = find_first_date(log, kind)
    assert first_date is not None
    by_number = trials_of(log, rows=kind, train_until=str((middle - first_date).days))
    assert by_number.folds[0].test.tolist() == fold.test.tolist()


def test_a_source_with_dates_of_its_own_is_cut_by_them(two_reviews_a_day: ReviewLog) -> None:
    log = replace(two_reviews_a_day, first_day="2024-02-20")
    trials = trials_of(log, rows="anki", train_until="2024-03-01")
    assert trials.day[trials.folds[0].test].min() == 10  # 2024 is a leap year


def test_splits_that_leave_nothing_are_refused(two_reviews_a_day: ReviewLog) -> None:
    with pytest.raises(InputError, match=r"no dates.*--train-until a number of days, such as 365"):
        trials_of(two_reviews_a_day, rows="anki", train_until="2024-01-01")
    for flags, reason in (
        ({"train_until": "41"}, "no reviews from day 41 on"),
        ({"train_until": "1"}, "no training reviews before day 1"),
    ):
        with pytest.raises(NotEnoughData, match=reason):
            trials_of(two_reviews_a_day, rows="anki", **flags)
    pause = make_log(
        [*range(40)] * 3,
        [3] * 120,
        [-1] * 40 + [3] * 40 + [90] * 40,
        days=[0] * 40 + [3] * 40 + [93] * 40,
    )
    with pytest.raises(NotEnoughData, match="in the month before the first evaluated review"):
        trials_of(pause, rows="anki", train_months=1, n_splits=3)
    one_card = make_log([7] * 9, [3] * 9, [-1, *range(1, 9)], days=list(range(9)))
    with pytest.raises(NotEnoughData, match="1 card in one part"):
        trials_of(one_card, rows="anki", split="cards")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("2024-01-31", "2024-01-31"),
        (date(2024, 1, 31), "2024-01-31"),
        (datetime(2024, 1, 31, 9, tzinfo=UTC), "2024-01-31"),
        (365, "365"),
        (np.int64(365), "365"),
        ("007", "7"),
        ("", ""),
    ],
)
def test_protocol_reads_dates_and_numbers_of_days(value: Any, read: str) -> None:
    assert Protocol(train_until=value).train_until == read


@pytest.mark.parametrize("value", ["2024-02-30", "2024-1-1", "0", 0, -3, 1.5, True, None, "soon"])
def test_protocol_refuses_other_days(value: Any) -> None:
    with pytest.raises(
        InputError, match="train_until must be a date such as '2024-01-31' or a number"
    ):
        Protocol(train_until=value)


# --- parts of users


def test_users_stay_in_their_parts() -> None:
    """Check parts that a later version must not change: results would not be comparable."""
    parts = [(3, 6), (5,), (4,), (1,), (2,)]
    assert deal_users([1, 2, 3, 4, 5, 6], 5) == parts
    assert deal_users([6, 1, 5, 2, 4, 3], 5) == parts


@given(st.sets(st.integers(0, 10**15), min_size=1, max_size=60), st.integers(2, 8))
def test_users_are_dealt_into_parts_of_equal_size(users: set[int], parts: int) -> None:
    assume(len(users) >= parts)
    dealt = deal_users(sorted(users), parts)
    assert len(dealt) == parts
    assert sorted(user for part in dealt for user in part) == sorted(users)
    sizes = [len(part) for part in dealt]
    assert max(sizes) - min(sizes) <= 1


def test_parts_of_users_are_not_ranges_of_ids() -> None:
    means = [sum(part) / len(part) for part in deal_users(range(1, 1001), 5)]
    assert all(400 < mean < 600 for mean in means)


def test_fewer_users_than_parts_are_refused() -> None:
    with pytest.raises(InputError, match="cannot deal 4 users into 5 parts"):
        deal_users([1, 2, 3, 4, 4], 5)


def test_a_split_by_users_leaves_the_folds_as_they_are() -> None:
    by_user = trials_of(LEARNER, split="users", n_splits=3)
    standard = trials_of(LEARNER)
    assert len(by_user.folds) == 5
    for fold, expected in zip(by_user.folds, standard.folds, strict=True):
        assert fold.train.tolist() == expected.train.tolist()
        assert fold.test.tolist() == expected.test.tolist()
    protocol = Protocol(split="users", n_splits=3)
    assert protocol.row_protocol() == Protocol().row_protocol()
    assert not protocol.has_own_split
