"""Which reviews are evaluated, what is known before each, and how they are split.

The rules are those of srs-benchmark (features/base.py, script.py, other.py) with
fsrs-optimizer's outlier filter; shared names keep figures comparable. The order
of the steps matters and is the order of the functions below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from srs_eval.data.days import DAY_S
from srs_eval.data.errors import InputError, NotEnoughData, counted, printable
from srs_eval.data.protocol import Protocol
from srs_eval.data.reviews import (
    LEARNING,
    MISSING,
    FloatArray,
    IntArray,
    ReadOnly,
    ReviewLog,
    Rows,
    T,
    read_only,
    run_begins,
)

MINIMUM_TRIALS = 6  # srs-benchmark refuses a user with fewer rows


@dataclass(frozen=True, eq=False)
class Fold(ReadOnly):
    """Positions in the trials (int64): `train` before `test`, both in review order."""

    train: IntArray
    test: IntArray


@dataclass(frozen=True, eq=False)
class Trials(ReadOnly):
    """The reviews that can be trained or evaluated on, in review order, with histories.

    n trials and m history rows. History rows lie card by card, in order of review.
    What is known before trial k are the history rows
    `history_start[k] ... history_end[k] - 1`; row `history_end[k]` is its own.
    Intervals are days, fractional with `secs`. No array can be written to, for all models share
    them.
    """

    review_th: IntArray  # 1-based position among the user's rows, before any filter
    card_id: IntArray
    day: IntArray  # day number of the review (Rows.day_offset)
    rating: IntArray
    y: FloatArray  # 1.0 recalled (rating > 1), 0.0 forgotten
    i: IntArray  # number among the card's reviews on later days, the first review is 1
    delta_t: FloatArray  # days since the review before
    elapsed_days: IntArray  # the same in whole days, also with `secs`
    first_rating: IntArray  # of the history
    partition: IntArray
    history_start: IntArray
    history_end: IntArray
    bin_delta_t: FloatArray  # the three inputs of RMSE(bins)
    bin_i: IntArray
    bin_lapses: IntArray

    history_delta_t: FloatArray  # (m,) >= 0; 0 for a card's first review
    history_rating: IntArray  # (m,) 1-4
    history_elapsed_days: IntArray  # (m,) whole days >= 0
    history_duration_ms: IntArray  # (m,)
    history_review_th: IntArray  # (m,)
    history_card_id: IntArray  # (m,)
    history_day: IntArray  # (m,)
    history_elapsed_s: IntArray  # (m,) >= 0
    history_time_of_day_s: IntArray  # (m,) since the day's beginning; MISSING where unknown

    folds: tuple[Fold, ...]
    protocol: Protocol
    log: ReviewLog | None = None
    rows: Rows | None = None
    """All reviews of the log that count, also those that no history holds."""
    _derived: dict[Callable[..., Any], Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        columns = [column for column in vars(self).values() if isinstance(column, np.ndarray)]
        read_only(columns)
        # `replace` hands on what was derived: from columns that may be others now.
        made_from = self._derived.setdefault(Trials, columns)
        if any(mine is not theirs for mine, theirs in zip(columns, made_from, strict=True)):
            object.__setattr__(self, "_derived", {Trials: columns})

    def __len__(self) -> int:
        return len(self.review_th)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_derived": {}}

    @property
    def source(self) -> tuple[ReviewLog, Rows]:
        """What the trials were made of. Raises ValueError where they were not made of a log."""
        if self.log is None or self.rows is None:
            raise ValueError("these trials do not tell what they were made of")
        return self.log, self.rows

    def columns(self, *names: str) -> tuple[NDArray[Any], ...]:
        """More that is known of the history rows before their answers: (m,) each.

        MISSING stands where the source is silent of a row. "note_id", "deck_id" and "preset_id" of
        the card as they are today; "state", the card's (`Rows.state`), and "kind", the review's
        (LEARNING ... FILTERED); "scheduled_interval" in days, with fractions for steps; "ease"
        x 1000, or FSRS's difficulty, as the card's entry before left it; columns of the table of
        --features. Raises ValueError for another name, and InputError for a column that the source
        does not have.
        """
        return tuple(map(self._column, names))

    def _column(self, name: str) -> NDArray[Any]:
        log, rows = self.source
        cards, table = self.history_card_id, log.features.names if log.features else ()
        of_rows = {
            "state": rows.state,
            "kind": np.maximum(rows.state - 1, LEARNING),
            "scheduled_interval": rows.scheduled_interval,
            "ease": rows.ease,
        }
        if name in of_rows:
            if (column := of_rows[name]) is None:
                source = printable(log.import_summary.format.partition(",")[0])
                raise InputError(
                    f"A model asks for the column {name}, which {source} does not tell."
                )
            return column[self.history_review_th - 1]
        match name:
            case "note_id":
                return log.note_of(cards)
            case "deck_id":
                return log.deck_of(cards)
            case "preset_id":
                return log.preset_of(log.deck_of(cards))
        if name not in table:
            known = ", ".join((*table, "note_id", "deck_id", "preset_id", *of_rows))
            raise ValueError(f"no column {name!r}; there are {known}")
        return self.derived(_history_features)[:, table.index(name)]

    @property
    def features(self) -> FloatArray:
        """The table of --features at each trial's card (n, its columns of numbers).

        NaN where it has no such card. Raises InputError where there is no table.
        """
        return self.derived(_features)

    @property
    def sequence_length(self) -> IntArray:
        """Number of history rows before each trial (n,)."""
        return self.history_end - self.history_start

    @property
    def test_index(self) -> IntArray:
        """Positions of all evaluated trials, fold after fold; predictions have this order."""
        return np.concatenate([fold.test for fold in self.folds])

    def derived(self, make: Callable[[Trials], T]) -> T:
        """`make(self)`, computed once per trials (tries and features shared by models).

        `make` is a module's function: one made anew for each call would compute anew. No array
        in what it returns can be written to.
        """
        if make not in self._derived:
            self._derived[make] = read_only(make(self))
        result: T = self._derived[make]
        return result


def _features(trials: Trials) -> FloatArray:
    return trials.source[0].features_of(trials.card_id)


def _history_features(trials: Trials) -> FloatArray:
    return trials.source[0].features_of(trials.history_card_id)


@dataclass(frozen=True, eq=False)
class _Columns:
    """The columns that the filters pass on, sorted by card and review_th."""

    review_th: IntArray
    card_id: IntArray
    day: IntArray
    rating: IntArray  # after two_buttons
    button: IntArray  # as pressed
    elapsed_days: IntArray
    elapsed_seconds: IntArray
    fraction: FloatArray  # days since the row before, by the protocol's clock
    duration_ms: IntArray
    time_of_day_s: IntArray  # MISSING where unknown
    known: NDArray[np.bool_]  # card and deck are in the source
    partition: IntArray

    def __getitem__(self, keep: NDArray[Any]) -> _Columns:
        return _Columns(**{name: column[keep] for name, column in self.__dict__.items()})


def prepare_trials(log: ReviewLog, rows: Rows, protocol: Protocol) -> Trials:
    """Histories, evaluated rows and folds of one learner under one protocol.

    `rows` are those that `srs_eval.data.rows.select_rows` chose from `log`.
    Raises NotEnoughData where fewer than 6 rows remain, and where decks matter but the
    source tells of none.
    """
    if protocol.secs and protocol.equalize_test_with_non_secs:
        trials = _equalized_trials(log, rows, protocol)
    else:
        trials = _assemble(*_filtered(log, rows, protocol, protocol.secs), protocol)
    return replace(trials, log=log, rows=rows)


def _time_series_folds(n: int, n_splits: int) -> list[tuple[slice, slice]]:
    """Train and test slices of scikit-learn's TimeSeriesSplit over n rows.

    The test parts are the last n_splits blocks of n // (n_splits + 1) rows; each is
    tested after training on all rows before it.
    """
    size = n // (n_splits + 1)
    if size == 0:
        raise NotEnoughData(f"{n} reviews cannot be split into {n_splits + 1} parts")
    starts = range(n - n_splits * size, n, size)
    return [(slice(0, start), slice(start, start + size)) for start in starts]


def recency_weights(n: int) -> FloatArray:
    """Training weights 0.25 + 0.75 x^3, x from 0 to 1 over n rows (srs-benchmark)."""
    return 0.25 + 0.75 * np.power(np.linspace(0, 1, n), 3)


def _filtered(
    log: ReviewLog, rows: Rows, protocol: Protocol, secs: bool
) -> tuple[_Columns, IntArray, IntArray, NDArray[np.bool_]]:
    """History rows, each row's card start, `i`, and which rows can be evaluated."""
    columns = _sorted_columns(log, rows, protocol)
    columns = columns[(columns.button >= 1) & (columns.button <= 4)]
    if protocol.rows == "benchmark":
        place = np.arange(len(columns.card_id)) - _start_of_card(columns.card_id)
        columns = columns[place < 2 * protocol.max_seq_len]
    if not protocol.short:
        columns = columns[columns.elapsed_days != 0]
    first_of_card = _start_of_card(columns.card_id)
    place = np.arange(len(first_of_card))

    if secs and not protocol.later_days_only:
        later_days: IntArray = np.cumsum(columns.elapsed_days > 0, dtype=np.int64)
        number = later_days - later_days[first_of_card] + 1
        evaluated = columns.elapsed_seconds > 0
        return columns, first_of_card, number, evaluated & (place > first_of_card)

    # Numbered are a card's first row and its rows on later days.
    numbered = (columns.elapsed_days != 0) | (place == first_of_card)
    running: IntArray = np.cumsum(numbered, dtype=np.int64)
    number = running - running[first_of_card] + 1
    kept = numbered.copy()
    if not secs and protocol.rows == "benchmark":
        second = np.flatnonzero(numbered & (number == 2))
        outliers = second[
            first_interval_outliers(
                columns.button[first_of_card[second]], columns.elapsed_days[second]
            )
        ]
        kept[outliers] = False
        if protocol.known_decks_only:
            kept &= columns.known
        kept &= _before_first_gap(kept, number, first_of_card)
    evaluated = kept & (columns.elapsed_days > 0) & (place > first_of_card)
    if secs:
        evaluated &= columns.elapsed_seconds > 0
    return columns, first_of_card, number, evaluated


def _sorted_columns(log: ReviewLog, rows: Rows, protocol: Protocol) -> _Columns:
    order = np.argsort(rows.card_id, kind="stable")
    button = rows.rating[order]
    card_id = rows.card_id[order]
    rating = np.where((button == 2) | (button == 4), 3, button) if protocol.two_buttons else button
    known = np.ones(len(card_id), np.bool_)
    partition = np.zeros(len(card_id), np.int64)
    if protocol.known_decks_only or protocol.partitions != "none":
        if not log.knows_decks:
            raise NotEnoughData("the source has no cards or no decks, and this rests on decks")
        deck = log.deck_of(card_id)
        has_deck = np.isin(deck, np.fromiter(log.decks, np.int64, len(log.decks)))
        known = (deck != MISSING) & has_deck
        if protocol.partitions == "deck":
            partition = deck
        elif protocol.partitions == "preset":
            partition = log.preset_of(deck)
    time_of_day, fraction = rows.time_of_day_s, rows.elapsed_seconds / DAY_S
    if protocol.clock == "days":
        fraction = rows.elapsed_days.astype(np.float64)
    elif protocol.clock == "study-days" and rows.elapsed_study_days is not None:
        fraction = rows.elapsed_study_days
    return _Columns(
        review_th=order + 1,
        card_id=card_id,
        day=rows.day_offset[order],
        rating=rating,
        button=button,
        elapsed_days=rows.elapsed_days[order],
        elapsed_seconds=rows.elapsed_seconds[order],
        fraction=np.maximum(fraction[order], 0.0),
        duration_ms=rows.duration_ms[order],
        time_of_day_s=np.full(len(order), MISSING) if time_of_day is None else time_of_day[order],
        known=known,
        partition=partition,
    )


def _start_of_card(card_id: IntArray) -> IntArray:
    """For each row the position of its card's first row (rows sorted by card)."""
    starts: IntArray = np.maximum.accumulate(
        np.where(run_begins(card_id), np.arange(len(card_id)), 0)
    )
    return starts


def first_interval_outliers(
    first_rating: IntArray, delta_t: IntArray, *, as_fsrs_rs: bool = False
) -> NDArray[np.bool_]:
    """Rows of rare first intervals, by fsrs-optimizer's `remove_outliers`.

    For each first rating, groups of equal interval go, rarest first and longest
    first among equals, while fewer than max(5 %, 20) rows are gone; from then on
    only groups of fewer than 6 rows or with very long intervals. `as_fsrs_rs`: among equals
    the shortest go first, and 5 % are cut to a whole number (fsrs-rs: src/dataset.rs).
    """
    outlier = np.zeros(len(first_rating), np.bool_)
    for rating in range(1, 5):
        rows = np.flatnonzero(first_rating == rating)
        intervals, group, counts = np.unique(delta_t[rows], return_inverse=True, return_counts=True)
        longest = 365 if rating == 4 else 100
        allowed = max(len(rows) // 20 if as_fsrs_rs else len(rows) * 0.05, 20)
        goes = np.zeros(len(intervals), np.bool_)
        removed = 0
        for place in np.lexsort((intervals if as_fsrs_rs else -intervals, counts)).tolist():
            count = int(counts[place])
            if removed + count < allowed or count < 6 or intervals[place] > longest:
                goes[place] = True
                removed += count
        outlier[rows] = goes[group]
    return outlier


def _before_first_gap(
    kept: NDArray[np.bool_], number: IntArray, first_of_card: IntArray
) -> NDArray[np.bool_]:
    """Rows that come before the first missing number of their card."""
    position = np.flatnonzero(kept)
    if not len(position):
        return kept
    card = first_of_card[position]
    gap = np.zeros(len(position), np.bool_)
    gap[1:] = (np.diff(number[position]) != 1) & ~run_begins(card)[1:]
    gaps_so_far = np.cumsum(gap)
    starts = _start_of_card(card)
    whole = np.zeros(len(kept), np.bool_)
    whole[position] = gaps_so_far == gaps_so_far[starts]
    return whole


def _assemble(
    columns: _Columns,
    first_of_card: IntArray,
    number: IntArray,
    evaluated: NDArray[np.bool_],
    protocol: Protocol,
) -> Trials:
    position = np.flatnonzero(evaluated)
    position = position[np.argsort(columns.review_th[position], kind="stable")]
    n = len(position)
    if n < MINIMUM_TRIALS:
        few = f"{counted(n, 'usable review')}, at least {MINIMUM_TRIALS} are needed"
        raise NotEnoughData(few if n else "no usable reviews")
    if protocol.secs:
        history_delta_t = columns.fraction
        # Upstream's bins count every Again there, the first and same-day ones too, and go by
        # whole days, with a bin of its own for the same day.
        of_lapses = np.ones(len(evaluated), np.bool_)
        bin_delta_t = np.maximum(columns.elapsed_days, 1e-6)
        if protocol.later_days_only:
            of_lapses, bin_delta_t = columns.elapsed_seconds > 0, history_delta_t
    else:
        history_delta_t = np.maximum(columns.elapsed_days, 0).astype(np.float64)
        of_lapses, bin_delta_t = columns.elapsed_days > 0, history_delta_t
    lapse = ((columns.rating == 1) & of_lapses).astype(np.int64)
    before = np.cumsum(lapse) - lapse
    lapses = before - before[first_of_card]
    elapsed_days = columns.elapsed_days[position]

    def part(begin: int, end: int, of_later_days: bool) -> IntArray:
        rows = np.arange(begin, end)
        return rows[elapsed_days[rows] > 0] if of_later_days and protocol.secs else rows

    # Upstream's --train_equals_test trains on everything and evaluates from each start on.
    whole = protocol.train_equals_test
    folds = tuple(
        Fold(
            train=part(0, n if whole else train.stop, protocol.no_train_same_day),
            test=part(test.start, n if whole else test.stop, protocol.no_test_same_day),
        )
        for train, test in _time_series_folds(n, protocol.n_splits)
    )
    if not any(len(fold.test) for fold in folds):
        raise NotEnoughData("no reviews of later days to evaluate")
    return Trials(
        review_th=columns.review_th[position],
        card_id=columns.card_id[position],
        day=columns.day[position],
        rating=columns.rating[position],
        y=(columns.rating[position] > 1).astype(np.float64),
        i=number[position],
        delta_t=history_delta_t[position],
        elapsed_days=elapsed_days,
        first_rating=columns.rating[first_of_card[position]],
        partition=columns.partition[position],
        history_start=first_of_card[position],
        history_end=position,
        bin_delta_t=bin_delta_t[position],
        bin_i=number[position],
        bin_lapses=lapses[position],
        history_delta_t=history_delta_t,
        history_rating=columns.rating,
        history_elapsed_days=np.maximum(columns.elapsed_days, 0),
        history_duration_ms=columns.duration_ms,
        history_review_th=columns.review_th,
        history_card_id=columns.card_id,
        history_day=columns.day,
        history_elapsed_s=np.maximum(columns.elapsed_seconds, 0),
        history_time_of_day_s=columns.time_of_day_s,
        folds=folds,
        protocol=protocol,
    )


def _equalized_trials(log: ReviewLog, rows: Rows, protocol: Protocol) -> Trials:
    """Fractional intervals, evaluated on the rows of the other configurations.

    Trained on every row before the fold's first evaluated one; bins as without `secs`.
    """
    in_days = prepare_trials(
        log, rows, replace(protocol, secs=False, equalize_test_with_non_secs=False)
    )
    columns, first_of_card, number, evaluated = _filtered(log, rows, protocol, secs=True)
    # An evaluated row of the other configurations stays one whatever its seconds say.
    evaluated |= np.isin(columns.review_th, in_days.review_th)
    of_all_days = replace(protocol, no_test_same_day=False, no_train_same_day=False)
    trials = _assemble(columns, first_of_card, number, evaluated, of_all_days)
    place = np.searchsorted(trials.review_th, in_days.review_th)
    bins = {name: getattr(trials, name).copy() for name in ("bin_delta_t", "bin_i", "bin_lapses")}
    for name, column in bins.items():
        column[place] = getattr(in_days, name)
    folds = []
    for fold in in_days.folds:
        test = place[fold.test]
        train = np.arange(len(trials) if protocol.train_equals_test else test.min())
        if protocol.no_train_same_day:
            train = train[trials.elapsed_days[train] > 0]
        folds.append(Fold(train=train, test=test))
    return replace(trials, **bins, folds=tuple(folds), protocol=protocol)


# Bins of RMSE(bins)


_BASES = (3.62, 1.89, 1.73)  # of intervals, reviews and lapses: a bin is floor(log_base of one)
_LEAST_K = -5  # of intervals: the reference rounds labels to 0.01 days, all below are one bin
_PLACES = 64  # distinct k of review counts and of lapses


def rmse_bin_ids(delta_t: ArrayLike, i: ArrayLike, lapses: ArrayLike) -> IntArray:
    """Bin of each review for RMSE(bins), shape (n,), int64, comparable between calls.

    delta_t: days since the last review (fractions allowed, 0 too); i: number of the
    review among the card's reviews on later days, the first review being 1; lapses:
    earlier failures on later days. Bins are geometric: intervals by powers of 3.62,
    reviews of 1.89, lapses of 1.73, 0 lapses alone (fsrs-optimizer, `rmse_matrix`).
    Raises ValueError for what has no bin.
    """
    # log 0 is -inf, which is the lowest bin
    with np.errstate(divide="ignore", invalid="ignore"):
        interval, number, failures = (
            np.floor(np.log(np.asarray(values, np.float64)) / np.log(base))
            for values, base in zip((delta_t, i, lapses), _BASES, strict=True)
        )
    by_interval = np.maximum(interval, _LEAST_K) - _LEAST_K
    ids = (by_interval * _PLACES + number) * _PLACES + np.maximum(failures, -1) + 1
    if not np.isfinite(ids).all():
        raise ValueError("bins need delta_t >= 0, i >= 1 and lapses >= 0")
    return ids.astype(np.int64)
