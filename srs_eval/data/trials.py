"""Select the evaluated reviews, build the history before each, and split them into folds.

The rules are those of srs-benchmark (features/base.py, script.py, other.py) with
fsrs-optimizer's outlier filter. Names are those of srs-benchmark where both have the thing. The
order of the steps matters and is that of `_filter_columns`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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
from srs_eval.data.splits import choose_tests, find_cut_day, select_training

MIN_TRIALS = 6  # srs-benchmark refuses a user with fewer rows


@dataclass(frozen=True, eq=False)
class Fold(ReadOnly):
    """Positions in the trials (int64), in review order.

    All of `train` comes before `test`, unless the protocol says `train_equals_test` or splits by
    card.
    """

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
    i: IntArray  # 1 for the card's first review, plus 1 for each review on a later day so far
    delta_t: FloatArray  # days since the previous review
    elapsed_days: IntArray  # day number less that of the previous review, even with `secs`
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

        The names are:

        - "note_id", "deck_id", "preset_id": those that the card has now
        - "state": the card's state before the review (`Rows.state`)
        - "kind": the kind of review (LEARNING ... FILTERED)
        - "scheduled_interval": days, with fractions for steps
        - "ease": ease x 1000, or FSRS's difficulty, as the card's previous entry left it
        - the columns of the --features table

        MISSING stands for rows without a value in the source, NaN in columns of the table. Raises
        ValueError for another name, and InputError for a column that the source does not have.
        """
        return tuple(map(self._column, names))

    def _column(self, name: str) -> NDArray[Any]:
        log, rows = self.source
        cards = self.history_card_id
        feature_names = log.features.names if log.features else ()
        row_columns = {
            "state": rows.state,
            # State 0, the start of learning, is of the kind LEARNING, too.
            "kind": np.maximum(rows.state - 1, LEARNING),
            "scheduled_interval": rows.scheduled_interval,
            "ease": rows.ease,
        }
        if name in row_columns:
            column = row_columns[name]
            if column is None:
                format_name, _, _ = log.import_summary.format.partition(",")
                source = printable(format_name)
                raise InputError(
                    f"A model asks for the column {name}, which {source} does not contain."
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
        """Return each trial's row of the --features table (n, its columns of numbers).

        The row is NaN if the table lacks the trial's card. Raises InputError if there is no table.
        """
        return self.derived(_compute_features)

    @property
    def sequence_length(self) -> IntArray:
        """Return the number of history rows before each trial (n,)."""
        return self.history_end - self.history_start

    @property
    def test_index(self) -> IntArray:
        """Return the positions of all evaluated trials, fold by fold: the order of predictions.

        With `train_equals_test`, a trial is repeated in each fold that evaluates it.
        """
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


class _HistoryRows(NamedTuple):
    """Rows that the filters keep, and for each row what the trials need."""

    columns: _ReviewColumns
    first_of_card: IntArray  # position of the card's first row
    review_number: IntArray  # see `Trials.i`
    is_evaluated: NDArray[np.bool_]


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
    clock_days: FloatArray  # days since the previous row, by the protocol's clock
    duration_ms: IntArray
    time_of_day_s: IntArray  # since the day's beginning; MISSING where unknown
    is_in_source: NDArray[np.bool_]  # card and deck are in the source
    partition: IntArray

    def __getitem__(self, mask: NDArray[np.bool_]) -> _ReviewColumns:
        return _ReviewColumns(**{name: column[mask] for name, column in self.__dict__.items()})


TRIAL_COLUMNS = (
    "review_th",
    "card_id",
    "day",
    "rating",
    "y",
    "i",
    "delta_t",
    "elapsed_days",
    "first_rating",
    "partition",
    "history_start",
    "history_end",
    "bin_delta_t",
    "bin_i",
    "bin_lapses",
)
"""Columns of `Trials` with a value for each trial."""


def prepare_trials(log: ReviewLog, rows: Rows, protocol: Protocol) -> Trials:
    """Prepare histories, evaluated rows and folds of one learner under one protocol.

    `rows` must come from `srs_eval.data.rows.select_rows` and `log`.
    Raises NotEnoughData if fewer than 6 rows remain, if they cannot be split into folds or none of
    them is of a later day, or if decks matter but the source has none. Raises InputError if the
    protocol names a date and the log has none.
    """
    cut_day = find_cut_day(log, protocol)
    if protocol.secs and protocol.equalize_test_with_non_secs:
        trials = _prepare_equalized_trials(log, rows, protocol, cut_day)
    else:
        trials = _assemble_trials(_filter_columns(log, rows, protocol), protocol, cut_day)
    return replace(trials, log=log, rows=rows)


def compute_recency_weights(n: int) -> FloatArray:
    """Compute training weights 0.25 + 0.75 x^3, x from 0 to 1 over n rows (srs-benchmark)."""
    return 0.25 + 0.75 * np.power(np.linspace(0, 1, n), 3)


def _filter_columns(log: ReviewLog, rows: Rows, protocol: Protocol) -> _HistoryRows:
    """Return the history rows, and which of them are evaluated."""
    columns = _sort_columns(log, rows, protocol)
    columns = columns[(columns.pressed_button >= 1) & (columns.pressed_button <= 4)]
    if protocol.rows == "benchmark":
        # srs-benchmark keeps a card's first 2 x max_seq_len rows.
        position_in_card = np.arange(len(columns.card_id)) - _find_card_starts(columns.card_id)
        columns = columns[position_in_card < 2 * protocol.max_seq_len]
    if not protocol.short:
        columns = columns[columns.elapsed_days != 0]
    first_of_card = _find_card_starts(columns.card_id)
    position = np.arange(len(first_of_card))

    if protocol.secs and not protocol.later_days_only:
        later_days: IntArray = np.cumsum(columns.elapsed_days > 0, dtype=np.int64)
        review_number = later_days - later_days[first_of_card] + 1
        is_evaluated = (columns.elapsed_seconds > 0) & (position > first_of_card)
        return _HistoryRows(columns, first_of_card, review_number, is_evaluated)

    # A card's first row and its rows on later days are numbered.
    is_numbered = (columns.elapsed_days != 0) | (position == first_of_card)
    numbered_so_far: IntArray = np.cumsum(is_numbered, dtype=np.int64)
    review_number = numbered_so_far - numbered_so_far[first_of_card] + 1
    is_kept = is_numbered.copy()
    # With `secs`, upstream keeps outliers and rows of unknown decks. Anki's optimizer drops
    # outliers from training only (`models.fsrs6`).
    if not protocol.secs and protocol.rows == "benchmark":
        second_rows = np.flatnonzero(is_numbered & (review_number == 2))
        first_button = columns.pressed_button[first_of_card[second_rows]]
        is_outlier = find_first_interval_outliers(first_button, columns.elapsed_days[second_rows])
        is_kept[second_rows[is_outlier]] = False
        if protocol.known_decks_only:
            is_kept &= columns.is_in_source
        # Upstream drops a card's rows from the first removed one on.
        is_kept &= _mark_before_first_gap(is_kept, review_number, first_of_card)
    is_evaluated = is_kept & (columns.elapsed_days > 0) & (position > first_of_card)
    if protocol.secs:
        is_evaluated &= columns.elapsed_seconds > 0
    return _HistoryRows(columns, first_of_card, review_number, is_evaluated)


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
            raise NotEnoughData(
                "the source has no cards or no decks, but this evaluation needs both"
            )
        deck = log.deck_of(card_id)
        has_deck = np.isin(deck, np.fromiter(log.decks, np.int64, len(log.decks)))
        is_in_source = (deck != MISSING) & has_deck
        if protocol.partitions == "deck":
            partition = deck
        elif protocol.partitions == "preset":
            partition = log.preset_of(deck)
    time_of_day = rows.time_of_day_s
    clock_days = rows.elapsed_seconds / DAY_S
    if protocol.clock == "days":
        clock_days = rows.elapsed_days.astype(np.float64)
    elif protocol.clock == "study-days" and rows.elapsed_study_days is not None:
        # Without a known time zone there are no study days, and seconds count.
        clock_days = rows.elapsed_study_days
    return _ReviewColumns(
        review_th=order + 1,
        card_id=card_id,
        day=rows.day_offset[order],
        rating=rating,
        pressed_button=button,
        elapsed_days=rows.elapsed_days[order],
        elapsed_seconds=rows.elapsed_seconds[order],
        clock_days=np.maximum(clock_days[order], 0.0),
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

    For each first rating, the rows are grouped by interval. The groups are examined from the rarest
    on, the longest interval first among groups of equal size. A group is removed if

    - the removed rows, with it, are still fewer than max(5 % of the rows, 20), or
    - it has fewer than 6 rows or a very long interval.

    With `as_fsrs_rs`, the shortest interval is first among groups of equal size, and 5 % are
    rounded down (fsrs-rs: src/dataset.rs).
    """
    is_outlier = np.zeros(len(first_rating), np.bool_)
    for rating in range(1, 5):
        rows = np.flatnonzero(first_rating == rating)
        intervals, group, group_sizes = np.unique(
            delta_t[rows], return_inverse=True, return_counts=True
        )
        longest_usual = 365 if rating == 4 else 100
        five_percent = len(rows) // 20 if as_fsrs_rs else len(rows) * 0.05
        max_removed = max(five_percent, 20)
        tie_order = intervals if as_fsrs_rs else -intervals
        is_removed = np.zeros(len(intervals), np.bool_)
        removed_rows = 0
        for index in np.lexsort((tie_order, group_sizes)).tolist():
            size = int(group_sizes[index])
            is_unusual = size < 6 or intervals[index] > longest_usual
            if removed_rows + size < max_removed or is_unusual:
                is_removed[index] = True
                removed_rows += size
        is_outlier[rows] = is_removed[group]
    return is_outlier


def _mark_before_first_gap(
    is_kept: NDArray[np.bool_], review_number: IntArray, first_of_card: IntArray
) -> NDArray[np.bool_]:
    """Mark kept rows that come before the first missing number of their card."""
    position = np.flatnonzero(is_kept)
    if not len(position):
        return is_kept
    card = first_of_card[position]
    follows_gap = np.zeros(len(position), np.bool_)
    skips_number = np.diff(review_number[position]) != 1
    continues_card = ~mark_run_starts(card)[1:]
    follows_gap[1:] = skips_number & continues_card
    gaps_so_far = np.cumsum(follows_gap)
    starts = _find_card_starts(card)
    is_before_gap = np.zeros(len(is_kept), np.bool_)
    is_before_gap[position] = gaps_so_far == gaps_so_far[starts]
    return is_before_gap


def _assemble_trials(history_rows: _HistoryRows, protocol: Protocol, cut_day: int | None) -> Trials:
    """Build the trials and folds from the results of `_filter_columns`."""
    columns, first_of_card, review_number, is_evaluated = history_rows
    position = np.flatnonzero(is_evaluated)
    position = position[np.argsort(columns.review_th[position], kind="stable")]
    n = len(position)
    if n < MIN_TRIALS:
        if not n:
            raise NotEnoughData("no usable reviews")
        usable = format_count(n, "usable review")
        raise NotEnoughData(f"only {usable} (at least {MIN_TRIALS} are needed)")
    if not protocol.secs:
        history_delta_t = np.maximum(columns.elapsed_days, 0).astype(np.float64)
        bin_delta_t = history_delta_t
        counts_as_lapse = columns.elapsed_days > 0
    elif protocol.later_days_only:
        history_delta_t = columns.clock_days
        bin_delta_t = history_delta_t
        counts_as_lapse = columns.elapsed_seconds > 0
    else:
        history_delta_t = columns.clock_days
        # Upstream's bins use whole days here; 1e-6 puts the same day into a bin of its own.
        bin_delta_t = np.maximum(columns.elapsed_days, 1e-6)
        # Every Again counts, also a card's first and those of the same day.
        counts_as_lapse = np.ones(len(is_evaluated), np.bool_)
    is_lapse = ((columns.rating == 1) & counts_as_lapse).astype(np.int64)
    lapses_of_all_cards = np.cumsum(is_lapse) - is_lapse  # before each row
    lapses = lapses_of_all_cards - lapses_of_all_cards[first_of_card]
    elapsed_days = columns.elapsed_days[position]

    def drop_same_day(positions: IntArray, *, is_asked: bool) -> IntArray:
        if is_asked and protocol.secs:
            return positions[elapsed_days[positions] > 0]
        return positions

    day = columns.day[position]
    card_id = columns.card_id[position]
    folds = []
    for test in choose_tests(protocol, day, card_id, cut_day):
        train = select_training(protocol, day, card_id, test, cut_day)
        folds.append(
            Fold(
                train=drop_same_day(train, is_asked=protocol.no_train_same_day),
                test=drop_same_day(test, is_asked=protocol.no_test_same_day),
            )
        )
    if not any(len(fold.test) for fold in folds):
        raise NotEnoughData("no reviews of later days to evaluate")
    return Trials(
        review_th=columns.review_th[position],
        card_id=card_id,
        day=day,
        rating=columns.rating[position],
        y=(columns.rating[position] > 1).astype(np.float64),
        i=review_number[position],
        delta_t=history_delta_t[position],
        elapsed_days=elapsed_days,
        first_rating=columns.rating[first_of_card[position]],
        partition=columns.partition[position],
        history_start=first_of_card[position],
        history_end=position,
        bin_delta_t=bin_delta_t[position],
        bin_i=review_number[position],
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


def _prepare_equalized_trials(
    log: ReviewLog, rows: Rows, protocol: Protocol, cut_day: int | None
) -> Trials:
    """Prepare trials with fractional intervals, evaluated on the rows of a run without `secs`.

    A fold is trained on the rows that its split allows, those that are never evaluated among them:
    by default, on every row before its first evaluated one. Bins are as without `secs`.
    """
    protocol_in_days = replace(protocol, secs=False, equalize_test_with_non_secs=False)
    trials_in_days = prepare_trials(log, rows, protocol_in_days)
    history_rows = _filter_columns(log, rows, protocol)
    # A row that is evaluated without `secs` stays evaluated, whatever its seconds say.
    is_test_in_days = np.isin(history_rows.columns.review_th, trials_in_days.review_th)
    history_rows = history_rows._replace(is_evaluated=history_rows.is_evaluated | is_test_in_days)
    # These folds are replaced below. With same-day trials, none of them is refused as empty.
    same_day_protocol = replace(
        protocol.with_published_split(), no_test_same_day=False, no_train_same_day=False
    )
    trials = _assemble_trials(history_rows, same_day_protocol, None)
    positions = np.searchsorted(trials.review_th, trials_in_days.review_th)
    bins = {}
    for name in ("bin_delta_t", "bin_i", "bin_lapses"):
        column = getattr(trials, name).copy()
        column[positions] = getattr(trials_in_days, name)
        bins[name] = column
    folds = []
    for fold in trials_in_days.folds:
        test = positions[fold.test]
        train = select_training(protocol, trials.day, trials.card_id, test, cut_day)
        if protocol.no_train_same_day:
            train = train[trials.elapsed_days[train] > 0]
        folds.append(Fold(train=train, test=test))
    return replace(trials, **bins, folds=tuple(folds), protocol=protocol)


# Bins of RMSE(bins)


_BIN_BASES = (3.62, 1.89, 1.73)  # of intervals, reviews and lapses: k = floor(log(x) / log(base))
_MIN_INTERVAL_BIN = -5
"""Lowest k of intervals: fsrs-optimizer's labels, in days, round to 0.00 from here on down."""
_BINS_PER_COUNT = 64  # more than there are distinct k of review counts, or of lapses


def compute_rmse_bin_ids(delta_t: ArrayLike, i: ArrayLike, lapses: ArrayLike) -> IntArray:
    """Compute the bin of each review for RMSE(bins), shape (n,), int64, comparable between calls.

    delta_t: days since the previous review (fractions allowed, 0 too); i: number of the
    review among the card's reviews on later days, the first review being 1; lapses: the card's
    earlier failures, as the protocol counts them. Bins are geometric: intervals by powers of 3.62,
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
    whole_ids: IntArray = ids.astype(np.int64)
    return whole_ids
