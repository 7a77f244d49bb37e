"""Select the evaluated reviews, build the history before each, and split them into folds.

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
from srs_eval.data.errors import InputError, NotEnoughData, format_count, printable
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
    make_read_only,
    mark_run_starts,
)

MIN_TRIALS = 6  # srs-benchmark refuses a user with fewer rows


@dataclass(frozen=True, eq=False)
class Fold(ReadOnly):
    """Positions in the trials (int64): `train` before `test`, both in review order."""

    train: IntArray
    test: IntArray


@dataclass(frozen=True, eq=False)
class Trials(ReadOnly):
    """Reviews for training and evaluation, in review order, with their histories.

    There are n trials and m history rows. History rows lie card by card, in order of review.
    The history rows `history_start[k] ... history_end[k] - 1` are known before trial k; row
    `history_end[k]` is its own. Intervals are days, fractional with `secs`. No array can be
    written to, because all models share them.
    """

    review_th: IntArray  # 1-based position among the user's rows, before any filter
    card_id: IntArray
    day: IntArray  # day number of the review (Rows.day_offset)
    rating: IntArray
    y: FloatArray  # 1.0 recalled (rating > 1), 0.0 forgotten
    i: IntArray  # number among the card's reviews on later days, the first review is 1
    delta_t: FloatArray  # days since the previous review
    elapsed_days: IntArray  # delta_t in whole days, even with `secs`
    first_rating: IntArray  # of the history
    partition: IntArray
    history_start: IntArray
    history_end: IntArray
    bin_delta_t: FloatArray  # this and the next two: inputs of `compute_rmse_bin_ids`
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
    """All reviews of the log that count, including reviews that no history holds."""
    _derived: dict[Callable[..., Any], Any] = field(default_factory=dict, repr=False)
    """Results of `derived` by function; the key `Trials` has the columns that they came from."""

    def __post_init__(self) -> None:
        columns = [column for column in vars(self).values() if isinstance(column, np.ndarray)]
        make_read_only(columns)
        # `replace` passes on derived values, though their columns may have been replaced.
        source_columns = self._derived.setdefault(Trials, columns)
        for column, source_column in zip(columns, source_columns, strict=True):
            if column is not source_column:
                object.__setattr__(self, "_derived", {Trials: columns})
                break

    def __len__(self) -> int:
        return len(self.review_th)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_derived": {}}

    @property
    def source(self) -> tuple[ReviewLog, Rows]:
        """Return the log and rows that the trials were made of. Raises ValueError without them."""
        if self.log is None or self.rows is None:
            raise ValueError("these trials have no log and rows")
        return self.log, self.rows

    def columns(self, *names: str) -> tuple[NDArray[Any], ...]:
        """Return more columns of the history rows, known before their answers: (m,) each.

        MISSING stands for rows without a value in the source. The names are "note_id", "deck_id"
        and "preset_id", the card's current ones; "state", the card's (`Rows.state`), and "kind",
        the review's (LEARNING ... FILTERED); "scheduled_interval" in days, with fractions for
        steps; "ease" x 1000, or FSRS's difficulty, as the card's previous entry left it; and the
        columns of the --features table. Raises ValueError for another name, and InputError for a
        column that the source does not have.
        """
        return tuple(map(self._column, names))

    def _column(self, name: str) -> NDArray[Any]:
        log, rows = self.source
        cards = self.history_card_id
        feature_names = log.features.names if log.features else ()
        row_columns = {
            "state": rows.state,
            "kind": np.maximum(rows.state - 1, LEARNING),
            "scheduled_interval": rows.scheduled_interval,
            "ease": rows.ease,
        }
        if name in row_columns:
            column = row_columns[name]
            if column is None:
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
        if name not in feature_names:
            names = ", ".join((*feature_names, "note_id", "deck_id", "preset_id", *row_columns))
            raise ValueError(f"no column {name!r}; there are {names}")
        return self.derived(_compute_history_features)[:, feature_names.index(name)]

    @property
    def features(self) -> FloatArray:
        """Return the --features table at each trial's card (n, its columns of numbers).

        NaN if the table has no such card. Raises InputError if there is no table.
        """
        return self.derived(_compute_features)

    @property
    def sequence_length(self) -> IntArray:
        """Return the number of history rows before each trial (n,)."""
        return self.history_end - self.history_start

    @property
    def test_index(self) -> IntArray:
        """Return the positions of all evaluated trials, fold by fold: the order of predictions."""
        return np.concatenate([fold.test for fold in self.folds])

    def derived(self, compute: Callable[[Trials], T]) -> T:
        """Return `compute(self)`, computed only once, so that models share tries and features.

        `compute` must be a module-level function, because results are found by it. No array in its
        result can be written to.
        """
        if compute not in self._derived:
            self._derived[compute] = make_read_only(compute(self))
        result: T = self._derived[compute]
        return result


def _compute_features(trials: Trials) -> FloatArray:
    return trials.source[0].features_of(trials.card_id)


def _compute_history_features(trials: Trials) -> FloatArray:
    return trials.source[0].features_of(trials.history_card_id)


@dataclass(frozen=True, eq=False)
class _ReviewColumns:
    """Columns that the filters pass on, sorted by card and review_th."""

    review_th: IntArray
    card_id: IntArray
    day: IntArray
    rating: IntArray  # with two_buttons, Hard and Easy are Good
    pressed_button: IntArray  # the rating that was given
    elapsed_days: IntArray
    elapsed_seconds: IntArray
    elapsed_fraction: FloatArray  # days since the previous row, by the protocol's clock
    duration_ms: IntArray
    time_of_day_s: IntArray  # since the day's beginning; MISSING where unknown
    is_in_source: NDArray[np.bool_]  # card and deck are in the source
    partition: IntArray

    def __getitem__(self, mask: NDArray[np.bool_]) -> _ReviewColumns:
        return _ReviewColumns(**{name: column[mask] for name, column in self.__dict__.items()})


def prepare_trials(log: ReviewLog, rows: Rows, protocol: Protocol) -> Trials:
    """Prepare histories, evaluated rows and folds of one learner under one protocol.

    `rows` must come from `srs_eval.data.rows.select_rows` and `log`.
    Raises NotEnoughData if fewer than 6 rows remain, or if decks matter but the source has none.
    """
    if protocol.secs and protocol.equalize_test_with_non_secs:
        trials = _prepare_equalized_trials(log, rows, protocol)
    else:
        columns, first_of_card, number, is_evaluated = _filter_columns(log, rows, protocol)
        trials = _assemble_trials(columns, first_of_card, number, is_evaluated, protocol)
    return replace(trials, log=log, rows=rows)


def _split_time_series(n: int, n_splits: int) -> list[tuple[slice, slice]]:
    """Return train and test slices of scikit-learn's TimeSeriesSplit over n rows.

    The test parts are the last n_splits blocks of n // (n_splits + 1) rows; each is
    tested after training on all rows before it.
    """
    size = n // (n_splits + 1)
    if size == 0:
        raise NotEnoughData(f"{n} reviews cannot be split into {n_splits + 1} parts")
    starts = range(n - n_splits * size, n, size)
    return [(slice(0, start), slice(start, start + size)) for start in starts]


def compute_recency_weights(n: int) -> FloatArray:
    """Compute training weights 0.25 + 0.75 x^3, x from 0 to 1 over n rows (srs-benchmark)."""
    return 0.25 + 0.75 * np.power(np.linspace(0, 1, n), 3)


def _filter_columns(
    log: ReviewLog, rows: Rows, protocol: Protocol
) -> tuple[_ReviewColumns, IntArray, IntArray, NDArray[np.bool_]]:
    """Return the history rows, and for each its card's first row, `i`, and if it is evaluated."""
    columns = _sort_columns(log, rows, protocol)
    columns = columns[(columns.pressed_button >= 1) & (columns.pressed_button <= 4)]
    if protocol.rows == "benchmark":
        # srs-benchmark leaves out the later rows of a card.
        position_in_card = np.arange(len(columns.card_id)) - _find_card_starts(columns.card_id)
        columns = columns[position_in_card < 2 * protocol.max_seq_len]
    if not protocol.short:
        columns = columns[columns.elapsed_days != 0]
    first_of_card = _find_card_starts(columns.card_id)
    position = np.arange(len(first_of_card))

    if protocol.secs and not protocol.later_days_only:
        later_days: IntArray = np.cumsum(columns.elapsed_days > 0, dtype=np.int64)
        number = later_days - later_days[first_of_card] + 1
        is_evaluated = (columns.elapsed_seconds > 0) & (position > first_of_card)
        return columns, first_of_card, number, is_evaluated

    # A card's first row and its rows on later days are numbered.
    is_numbered = (columns.elapsed_days != 0) | (position == first_of_card)
    numbered_so_far: IntArray = np.cumsum(is_numbered, dtype=np.int64)
    number = numbered_so_far - numbered_so_far[first_of_card] + 1
    is_kept = is_numbered.copy()
    if not protocol.secs and protocol.rows == "benchmark":
        second_rows = np.flatnonzero(is_numbered & (number == 2))
        first_button = columns.pressed_button[first_of_card[second_rows]]
        is_outlier = find_first_interval_outliers(first_button, columns.elapsed_days[second_rows])
        is_kept[second_rows[is_outlier]] = False
        if protocol.known_decks_only:
            is_kept &= columns.is_in_source
        is_kept &= _mark_before_first_gap(is_kept, number, first_of_card)
    is_evaluated = is_kept & (columns.elapsed_days > 0) & (position > first_of_card)
    if protocol.secs:
        is_evaluated &= columns.elapsed_seconds > 0
    return columns, first_of_card, number, is_evaluated


def _sort_columns(log: ReviewLog, rows: Rows, protocol: Protocol) -> _ReviewColumns:
    """Return the columns of all rows, in order of card, then review."""
    order = np.argsort(rows.card_id, kind="stable")
    button = rows.rating[order]
    card_id = rows.card_id[order]
    rating = button
    if protocol.two_buttons:
        rating = np.where((button == 2) | (button == 4), 3, button)
    is_in_source = np.ones(len(card_id), np.bool_)
    partition = np.zeros(len(card_id), np.int64)
    if protocol.known_decks_only or protocol.partitions != "none":
        if not log.has_decks:
            raise NotEnoughData("the source has no cards or no decks, and this rests on decks")
        deck = log.deck_of(card_id)
        has_deck = np.isin(deck, np.fromiter(log.decks, np.int64, len(log.decks)))
        is_in_source = (deck != MISSING) & has_deck
        if protocol.partitions == "deck":
            partition = deck
        elif protocol.partitions == "preset":
            partition = log.preset_of(deck)
    time_of_day = rows.time_of_day_s
    elapsed_fraction = rows.elapsed_seconds / DAY_S
    if protocol.clock == "days":
        elapsed_fraction = rows.elapsed_days.astype(np.float64)
    elif protocol.clock == "study-days" and rows.elapsed_study_days is not None:
        elapsed_fraction = rows.elapsed_study_days
    return _ReviewColumns(
        review_th=order + 1,
        card_id=card_id,
        day=rows.day_offset[order],
        rating=rating,
        pressed_button=button,
        elapsed_days=rows.elapsed_days[order],
        elapsed_seconds=rows.elapsed_seconds[order],
        elapsed_fraction=np.maximum(elapsed_fraction[order], 0.0),
        duration_ms=rows.duration_ms[order],
        time_of_day_s=np.full(len(order), MISSING) if time_of_day is None else time_of_day[order],
        is_in_source=is_in_source,
        partition=partition,
    )


def _find_card_starts(card_id: IntArray) -> IntArray:
    """Return, for each row, the position of its card's first row (rows sorted by card)."""
    starts: IntArray = np.maximum.accumulate(
        np.where(mark_run_starts(card_id), np.arange(len(card_id)), 0)
    )
    return starts


def find_first_interval_outliers(
    first_rating: IntArray, delta_t: IntArray, *, as_fsrs_rs: bool = False
) -> NDArray[np.bool_]:
    """Mark rows of rare first intervals, by fsrs-optimizer's `remove_outliers`.

    For each first rating, groups of equal interval are removed, rarest first and longest
    first among equals, while fewer than max(5 %, 20) rows are removed; from then on
    only groups of fewer than 6 rows or with very long intervals. With `as_fsrs_rs`, the shortest
    are removed first among equals, and 5 % are rounded down (fsrs-rs: src/dataset.rs).
    """
    is_outlier = np.zeros(len(first_rating), np.bool_)
    for rating in range(1, 5):
        rows = np.flatnonzero(first_rating == rating)
        intervals, group, counts = np.unique(delta_t[rows], return_inverse=True, return_counts=True)
        longest_usual = 365 if rating == 4 else 100
        five_percent = len(rows) // 20 if as_fsrs_rs else len(rows) * 0.05
        max_removed = max(five_percent, 20)
        tie_order = intervals if as_fsrs_rs else -intervals
        is_removed = np.zeros(len(intervals), np.bool_)
        removed = 0
        for index in np.lexsort((tie_order, counts)).tolist():
            count = int(counts[index])
            is_unusual = count < 6 or intervals[index] > longest_usual
            if removed + count < max_removed or is_unusual:
                is_removed[index] = True
                removed += count
        is_outlier[rows] = is_removed[group]
    return is_outlier


def _mark_before_first_gap(
    is_kept: NDArray[np.bool_], number: IntArray, first_of_card: IntArray
) -> NDArray[np.bool_]:
    """Mark rows that come before the first missing number of their card."""
    position = np.flatnonzero(is_kept)
    if not len(position):
        return is_kept
    card = first_of_card[position]
    follows_gap = np.zeros(len(position), np.bool_)
    follows_gap[1:] = (np.diff(number[position]) != 1) & ~mark_run_starts(card)[1:]
    gaps_so_far = np.cumsum(follows_gap)
    starts = _find_card_starts(card)
    is_before_gap = np.zeros(len(is_kept), np.bool_)
    is_before_gap[position] = gaps_so_far == gaps_so_far[starts]
    return is_before_gap


def _assemble_trials(
    columns: _ReviewColumns,
    first_of_card: IntArray,
    number: IntArray,
    is_evaluated: NDArray[np.bool_],
    protocol: Protocol,
) -> Trials:
    """Build the trials from history rows and the results of `_filter_columns`."""
    position = np.flatnonzero(is_evaluated)
    position = position[np.argsort(columns.review_th[position], kind="stable")]
    n = len(position)
    if n < MIN_TRIALS:
        if not n:
            raise NotEnoughData("no usable reviews")
        raise NotEnoughData(f"{format_count(n, 'usable review')}, at least {MIN_TRIALS} are needed")
    if protocol.secs:
        history_delta_t = columns.elapsed_fraction
        # With `secs`, upstream's bins count every Again, the first and same-day ones too, and use
        # whole days, with a separate bin for the same day.
        may_lapse = np.ones(len(is_evaluated), np.bool_)
        bin_delta_t = np.maximum(columns.elapsed_days, 1e-6)
        if protocol.later_days_only:
            may_lapse = columns.elapsed_seconds > 0
            bin_delta_t = history_delta_t
    else:
        history_delta_t = np.maximum(columns.elapsed_days, 0).astype(np.float64)
        may_lapse = columns.elapsed_days > 0
        bin_delta_t = history_delta_t
    is_lapse = ((columns.rating == 1) & may_lapse).astype(np.int64)
    lapses_of_all_cards = np.cumsum(is_lapse) - is_lapse  # before each row
    lapses = lapses_of_all_cards - lapses_of_all_cards[first_of_card]
    elapsed_days = columns.elapsed_days[position]

    def select_positions(begin: int, end: int, *, without_same_day: bool) -> IntArray:
        positions = np.arange(begin, end)
        if without_same_day and protocol.secs:
            return positions[elapsed_days[positions] > 0]
        return positions

    folds = []
    for train, test in _split_time_series(n, protocol.n_splits):
        train_end = train.stop
        test_end = test.stop
        if protocol.train_equals_test:
            # Upstream trains on all trials and evaluates all from the fold's start on.
            train_end = n
            test_end = n
        folds.append(
            Fold(
                train=select_positions(0, train_end, without_same_day=protocol.no_train_same_day),
                test=select_positions(
                    test.start, test_end, without_same_day=protocol.no_test_same_day
                ),
            )
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
        folds=tuple(folds),
        protocol=protocol,
    )


def _prepare_equalized_trials(log: ReviewLog, rows: Rows, protocol: Protocol) -> Trials:
    """Prepare trials with fractional intervals, evaluated on the rows of a run without `secs`.

    Each fold is trained on every row before its first evaluated one; bins are as without `secs`.
    """
    protocol_in_days = replace(protocol, secs=False, equalize_test_with_non_secs=False)
    trials_in_days = prepare_trials(log, rows, protocol_in_days)
    columns, first_of_card, number, is_evaluated = _filter_columns(log, rows, protocol)
    # A row that is evaluated without `secs` stays evaluated, whatever its seconds say.
    is_evaluated |= np.isin(columns.review_th, trials_in_days.review_th)
    # These folds are replaced below, so they may hold same-day trials.
    protocol_of_all = replace(protocol, no_test_same_day=False, no_train_same_day=False)
    trials = _assemble_trials(columns, first_of_card, number, is_evaluated, protocol_of_all)
    positions = np.searchsorted(trials.review_th, trials_in_days.review_th)
    bins = {}
    for name in ("bin_delta_t", "bin_i", "bin_lapses"):
        column = getattr(trials, name).copy()
        column[positions] = getattr(trials_in_days, name)
        bins[name] = column
    folds = []
    for fold in trials_in_days.folds:
        test = positions[fold.test]
        train = np.arange(len(trials) if protocol.train_equals_test else test.min())
        if protocol.no_train_same_day:
            train = train[trials.elapsed_days[train] > 0]
        folds.append(Fold(train=train, test=test))
    return replace(trials, **bins, folds=tuple(folds), protocol=protocol)


# Bins of RMSE(bins)


_BIN_BASES = (3.62, 1.89, 1.73)  # of intervals, reviews and lapses: k = floor(log(x) / log(base))
_MIN_INTERVAL_BIN = -5
"""Lowest k of intervals: fsrs-optimizer rounds labels to 0.01 days, so shorter ones share a bin."""
_BINS_PER_COUNT = 64  # more than there are distinct k of review counts, or of lapses


def compute_rmse_bin_ids(delta_t: ArrayLike, i: ArrayLike, lapses: ArrayLike) -> IntArray:
    """Compute the bin of each review for RMSE(bins), shape (n,), int64, comparable between calls.

    delta_t: days since the previous review (fractions allowed, 0 too); i: number of the
    review among the card's reviews on later days, the first review being 1; lapses:
    earlier failures on later days. Bins are geometric: intervals by powers of 3.62,
    reviews of 1.89, lapses of 1.73, 0 lapses alone (fsrs-optimizer, `rmse_matrix`).
    Raises ValueError for values that have no bin.
    """
    interval_base, number_base, lapse_base = _BIN_BASES
    with np.errstate(divide="ignore", invalid="ignore"):  # log 0 is -inf, which has the lowest bin
        interval_k = np.floor(np.log(np.asarray(delta_t, np.float64)) / np.log(interval_base))
        number_k = np.floor(np.log(np.asarray(i, np.float64)) / np.log(number_base))
        lapse_k = np.floor(np.log(np.asarray(lapses, np.float64)) / np.log(lapse_base))
    interval_bin = np.maximum(interval_k, _MIN_INTERVAL_BIN) - _MIN_INTERVAL_BIN
    lapse_bin = np.maximum(lapse_k, -1) + 1
    ids = (interval_bin * _BINS_PER_COUNT + number_k) * _BINS_PER_COUNT + lapse_bin
    if not np.isfinite(ids).all():
        raise ValueError("bins need delta_t >= 0, i >= 1 and lapses >= 0")
    return ids.astype(np.int64)
