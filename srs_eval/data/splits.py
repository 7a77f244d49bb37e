"""Choose which reviews each model is fitted to and which it then predicts.

Without a flag, these are the five folds of srs-benchmark (scikit-learn's TimeSeriesSplit). Other
splits are by date (`train_until`), with a window of training (`train_months`), and by card
(`split="cards"`); docs/protocol.md draws them. A split by users (`split="users"`) leaves the folds
of each user as they are: `deal_users` says on which other users a model is trained first.

All positions are those of one learner's trials, ascending; n is the number of trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
from numpy.typing import NDArray

from srs_eval.data.errors import InputError, NotEnoughData, format_count
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import IntArray, ReviewLog
from srs_eval.data.rows import find_first_date

_DAYS_OF_A_MONTH = 365.25 / 12


def find_cut_day(log: ReviewLog, protocol: Protocol) -> int | None:
    """Return the number of the first evaluated day (`Rows.day_offset`); None without a date.

    Raises InputError for a date if the log has no dates.
    """
    if not protocol.train_until:
        return None
    if not protocol.is_until_date:
        return int(protocol.train_until)
    first_date = find_first_date(log, protocol.rows)
    if first_date is None:
        raise InputError(
            "These reviews have no dates, only days counted from the first review: give "
            "--train-until a number of days, such as 365."
        )
    return (date.fromisoformat(protocol.train_until) - first_date).days


def choose_tests(
    protocol: Protocol, day: IntArray, card_id: IntArray, cut_day: int | None
) -> list[IntArray]:
    """Return the positions that each fold predicts; no fold is empty.

    `day` and `card_id` are those of the trials (n,); `cut_day` is from `find_cut_day`. Raises
    NotEnoughData if the trials cannot be split in this way.
    """
    if protocol.split == "cards":
        part = deal_cards(card_id, protocol.n_splits)
        parts = np.unique(part)
        if len(parts) < 2:
            cards = format_count(len(np.unique(card_id)), "card")
            raise NotEnoughData(f"{cards} in one part: no card is left to train on")
        return [np.flatnonzero(part == number) for number in parts]
    if cut_day is not None:
        test = np.flatnonzero(day >= cut_day)
        if not len(test):
            raise NotEnoughData(f"no reviews from {describe_cut(protocol)} on")
        return [test]
    starts = split_time_series(len(day), protocol.without_user_split().n_splits)
    size = len(day) - starts[-1]
    if protocol.train_equals_test:
        # Upstream trains on all trials and evaluates all from the fold's start on.
        return [np.arange(start, len(day)) for start in starts]
    return [np.arange(start, start + size) for start in starts]


def select_training(
    protocol: Protocol, day: IntArray, card_id: IntArray, test: IntArray, cut_day: int | None
) -> IntArray:
    """Return the positions that a model is fitted to before it predicts the positions `test`.

    The other arguments are those of `choose_tests`. Raises NotEnoughData if a date or the months
    before leave nothing to train on.
    """
    if protocol.split == "cards":
        part = deal_cards(card_id, protocol.n_splits)
        return np.flatnonzero(part != part[test[0]])
    if protocol.train_equals_test:
        return np.arange(len(day))
    if cut_day is None:
        end_day = int(day[test[0]])
        is_training = np.arange(len(day)) < test[0]
        end = "the first evaluated review of a fold"
    else:
        end_day = cut_day
        is_training = day < cut_day
        end = describe_cut(protocol)
    beginning = "before"
    if protocol.train_months:
        is_training &= day >= end_day - count_days(protocol.train_months)
        beginning = f"in {describe_window(protocol)} before"
    train = np.flatnonzero(is_training)
    if not len(train):
        raise NotEnoughData(f"no training reviews {beginning} {end}")
    return train


def split_time_series(n: int, n_splits: int) -> list[int]:
    """Return where the test parts of scikit-learn's TimeSeriesSplit over n trials start.

    The test parts are the last n_splits blocks of n // (n_splits + 1) trials; each is tested after
    training on all trials before it. Raises NotEnoughData if n is too small.
    """
    size = n // (n_splits + 1)
    if size == 0:
        raise NotEnoughData(
            f"{format_count(n, 'review')} cannot be split into {n_splits + 1} parts"
        )
    return list(range(n - n_splits * size, n, size))


def count_days(months: int) -> int:
    """Return the number of days of so many months, of 365.25 / 12 days each."""
    return round(months * _DAYS_OF_A_MONTH)


def deal_cards(card_id: IntArray, parts: int) -> IntArray:
    """Deal cards at random into parts; return each card's part (shape of `card_id`), from 0.

    The part of a card depends on its id and on the number of parts alone, so that it stays when
    other cards come or go.
    """
    dealt: IntArray = (_scatter(card_id) % np.uint64(parts)).astype(np.int64)
    return dealt


def deal_users(users: Sequence[int], parts: int) -> list[tuple[int, ...]]:
    """Deal users at random into parts whose sizes differ by one at most; each part is ascending.

    The parts depend on the users' ids and on the number of parts alone, not on the order of
    `users`. Raises InputError if there are fewer users than parts.
    """
    user_ids = np.unique(np.array(users, np.int64))
    if len(user_ids) < parts:
        raise InputError(
            f"--split users cannot deal {format_count(len(user_ids), 'user')} into {parts} parts: "
            "choose more users, or fewer parts with --n_splits."
        )
    shuffled = user_ids[np.argsort(_scatter(user_ids), kind="stable")]
    return [tuple(sorted(shuffled[part::parts].tolist())) for part in range(parts)]


def _scatter(ids: IntArray) -> NDArray[np.uint64]:
    """Return a pseudorandom number for each id, always the same for the same id.

    It is the finaliser of SplitMix64 (Steele, Lea & Flood, 2014, OOPSLA '14), which gives different
    ids different numbers.
    """
    z = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def describe_cut(protocol: Protocol) -> str:
    """Return the first evaluated day in words: "2024-01-01", "day 365"."""
    return protocol.train_until if protocol.is_until_date else f"day {protocol.train_until}"


def describe_window(protocol: Protocol) -> str:
    """Return the months of training in words: "the month", "the 6 months"."""
    if protocol.train_months == 1:
        return "the month"
    return f"the {format_count(protocol.train_months, 'month')}"
